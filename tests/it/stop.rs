//! How the server ends: who is waited for, and who is not.

use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::Path;

use serde_json::json;
use spindle::app::Stopped;

use crate::app::{TestApp, film};

/// Far more than any socket's buffers hold.
const PADDING_BYTES: u32 = 512 << 20;

/// A film with an empty box behind it (ISO/IEC 14496-12 section 8.1.2) that takes no room on the disk.
fn large_film(dir: &Path) {
    let path = dir.join("Amber Coast (2001).mp4");
    std::fs::copy(film(), &path).expect("the film is copied");
    let mut file = std::fs::File::options().write(true).open(path).expect("opened");
    let end = file.seek(SeekFrom::End(0)).expect("its end");
    file.write_all(&PADDING_BYTES.to_be_bytes()).expect("written");
    file.write_all(b"free").expect("written");
    file.set_len(end + u64::from(PADDING_BYTES)).expect("longer");
}

#[test]
fn a_stop_waits_neither_for_event_streams_nor_for_idle_connections_nor_for_paused_players() {
    let app = TestApp::start(large_film);
    let owner = app.owner();
    let id = owner.wait_for_items(1)[0]["id"].as_str().expect("an id").to_owned();
    let url = owner.play(&id, &json!("vlc"))["url"].as_str().expect("a URL").to_owned();
    let token = owner.token.clone().expect("signed in");

    let mut events = owner.connect();
    events.write(&format!("GET /api/v1/events HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer {token}\r\n\r\n"));
    events.read_until("text/event-stream");
    let mut idle = owner.connect();
    idle.write("GET /health HTTP/1.1\r\nHost: t\r\n\r\n");
    assert_eq!(idle.read(false).status, 200);
    let untouched = owner.connect();
    // One by the fast lane; one by the other, to which a field that the lane does not know sends it.
    let mut paused = owner.connect();
    paused.write(&format!("GET {url} HTTP/1.1\r\nHost: t\r\n\r\n"));
    paused.read_until("200 OK");
    let mut other = owner.connect();
    other.write(&format!("GET {url} HTTP/1.1\r\nHost: t\r\nContent-Length: 2\r\n\r\nxx"));
    other.read_until("HTTP/1.1");

    assert_eq!(app.stop(), Stopped::InOrder);
    drop((events, idle, untouched, paused, other));
}
