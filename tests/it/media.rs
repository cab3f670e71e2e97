//! `/media/…` on the wire, by RFC 9110 and RFC 9112.

use serde_json::json;

use crate::app::{TestApp, film};

/// A direct-play URL of the film, and its bytes.
fn opened() -> (TestApp, crate::app::Client, String, Vec<u8>) {
    let (app, client, id) = TestApp::with_film();
    let played = client.play(&id, &json!("vlc"));
    assert_eq!(played["method"], "direct_play", "{played}");
    let url = played["url"].as_str().expect("a URL").to_owned();
    let bytes = std::fs::read(film()).expect("the film");
    // Media needs no token: the URL is the permission.
    let anonymous = crate::app::Client { token: None, ..client };
    (app, anonymous, url, bytes)
}

#[test]
fn a_request_without_one_host_is_400_and_a_file_is_never_taken_for_a_page() {
    let (_app, client, url, _bytes) = opened();
    for hosts in ["", "Host: a\r\nHost: b\r\n"] {
        for path in [url.as_str(), "/health"] {
            let mut connection = client.connect();
            connection.write(&format!("GET {path} HTTP/1.1\r\n{hosts}Range: bytes=0-1\r\n\r\n"));
            assert_eq!(connection.read(false).status, 400, "{path} {hosts:?}");
        }
    }
    let answer = client.get_with(&url, "Range: bytes=0-1\r\n");
    assert_eq!(answer.field("x-content-type-options"), Some("nosniff"));
}

#[test]
fn ranges_conditions_and_heads_are_answered_as_rfc_9110_has_them() {
    let (_app, client, url, bytes) = opened();
    let size = bytes.len();
    let whole = client.get(&url);
    assert_eq!((whole.status, whole.body == bytes), (200, true));
    assert_eq!(whole.field("accept-ranges"), Some("bytes"));
    assert_eq!(whole.field("content-type"), Some("video/mp4"));
    assert_eq!(whole.field("access-control-allow-origin"), Some("*"));
    let etag = whole.field("etag").expect("an entity tag").to_owned();
    assert!(etag.starts_with('"') && etag.ends_with('"'), "strong: {etag}");
    let modified = whole.field("last-modified").expect("a date").to_owned();

    let head = client.head_with(&url, "Range: bytes=0-1\r\n");
    assert_eq!(head.status, 200, "a range is for GET alone");
    assert_eq!(head.field("content-length"), Some(size.to_string().as_str()));

    for (range, from, to) in [
        ("0-0".to_owned(), 0, 1),
        ("1-499".to_owned(), 1, 500),
        (format!("{}-", size - 7), size - 7, size),
        ("-1".to_owned(), size - 1, size),
        (format!("-{}", size * 2), 0, size),
        (format!("5-{}", size * 2), 5, size),
    ] {
        let answer = client.get_with(&url, &format!("Range: bytes={range}\r\n"));
        assert_eq!(answer.status, 206, "{range}");
        assert_eq!(answer.body, bytes[from..to], "{range}");
        let want = format!("bytes {from}-{}/{size}", to - 1);
        assert_eq!(answer.field("content-range"), Some(want.as_str()));
        assert_eq!(answer.field("etag"), Some(etag.as_str()));
    }

    let past = client.get_with(&url, &format!("Range: bytes={size}-\r\n"));
    assert_eq!((past.status, past.body.len()), (416, 0));
    assert_eq!(past.field("content-range"), Some(format!("bytes */{size}").as_str()));

    for (fields, status) in [
        (format!("If-None-Match: {etag}\r\n"), 304),
        (format!("If-None-Match: W/{etag}\r\nRange: bytes=0-1\r\n"), 304),
        ("If-None-Match: *\r\n".to_owned(), 304),
        (format!("If-None-Match: \"x\"\r\nIf-Modified-Since: {modified}\r\n"), 200),
        (format!("If-Modified-Since: {modified}\r\n"), 304),
        ("If-Match: \"x\"\r\n".to_owned(), 412),
        (format!("If-Match: \"x\", {etag}\r\n"), 200),
        ("If-Unmodified-Since: Sat, 01 Jan 2000 00:00:00 GMT\r\n".to_owned(), 412),
        (format!("Range: bytes=0-1\r\nIf-Range: {etag}\r\n"), 206),
        ("Range: bytes=0-1\r\nIf-Range: \"x\"\r\n".to_owned(), 200),
        (format!("Range: bytes=0-1\r\nIf-Range: W/{etag}\r\n"), 200),
        (format!("Range: bytes=0-1\r\nIf-Range: {modified}\r\n"), 206),
        ("Range: bytes=1-0\r\n".to_owned(), 200),
        ("Range: chapters=1-2\r\n".to_owned(), 200),
    ] {
        assert_eq!(client.get_with(&url, &fields).status, status, "{fields}");
    }
}

#[test]
fn several_ranges_come_as_multipart_byteranges() {
    let (_app, client, url, bytes) = opened();
    let size = bytes.len();
    let answer = client.get_with(&url, "Range: bytes=0-4,10-14,-3\r\n");
    assert_eq!(answer.status, 206);
    let kind = answer.field("content-type").expect("a type").to_owned();
    let boundary = kind.strip_prefix("multipart/byteranges; boundary=").expect("multipart");
    let mut want = Vec::new();
    for (n, (from, to)) in [(0, 5), (10, 15), (size - 3, size)].into_iter().enumerate() {
        let lead = if n == 0 { "" } else { "\r\n" };
        want.extend_from_slice(
            format!("{lead}--{boundary}\r\nContent-Type: video/mp4\r\nContent-Range: bytes {from}-{}/{size}\r\n\r\n", to - 1).as_bytes(),
        );
        want.extend_from_slice(&bytes[from..to]);
    }
    want.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
    assert_eq!(answer.body, want);
}

#[test]
fn api_and_media_share_a_connection_in_any_order() {
    let (_app, client, url, bytes) = opened();
    let mut connection = client.connect();
    for _ in 0..3 {
        connection.write("GET /health HTTP/1.1\r\nHost: t\r\n\r\n");
        assert_eq!(connection.read(false).json()["status"], "ok");
        connection.write(&format!("GET {url} HTTP/1.1\r\nHost: t\r\nRange: bytes=0-99\r\n\r\n"));
        assert_eq!(connection.read(false).body, bytes[..100]);
        connection.write(&format!("HEAD {url} HTTP/1.1\r\nHost: t\r\n\r\n"));
        assert_eq!(connection.read(true).status, 200);
        // A body that is read to its end leaves the connection at a boundary too.
        let body = r#"{"username":"ann","password":"correct horse"}"#;
        connection.write(&format!(
            "POST /api/v1/auth/login HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ));
        assert_eq!(connection.read(false).status, 200);
        connection.write(&format!("GET {url} HTTP/1.1\r\nHost: t\r\nRange: bytes=-5\r\n\r\n"));
        assert_eq!(connection.read(false).body, bytes[bytes.len() - 5..]);
    }
}

#[test]
fn a_head_that_arrives_byte_by_byte_is_one_request() {
    let (_app, client, url, bytes) = opened();
    let mut connection = client.connect();
    connection.write("GET /health HTTP/1.1\r\nHost: t\r\n\r\n");
    assert_eq!(connection.read(false).status, 200);
    for c in format!("GET {url} HTTP/1.1\r\nHost: t\r\nRange: bytes=3-5\r\n\r\n").chars() {
        connection.write(&c.to_string());
    }
    assert_eq!(connection.read(false).body, bytes[3..6]);
}

#[test]
fn pipelined_media_requests_are_answered_in_order() {
    let (_app, client, url, bytes) = opened();
    let mut connection = client.connect();
    let ask = |n: usize| format!("GET {url} HTTP/1.1\r\nHost: t\r\nRange: bytes={n}-{n}\r\n\r\n");
    connection.write(&format!("{}{}{}", ask(1), ask(7), ask(2)));
    for n in [1, 7, 2] {
        assert_eq!(connection.read(false).body, bytes[n..=n]);
    }
}

#[test]
fn a_body_that_looks_like_a_request_is_a_body() {
    let (_app, client, url, _) = opened();
    let mut connection = client.connect();
    let smuggled = format!("GET {url} HTTP/1.1\r\nHost: t\r\n\r\n");
    // Health reads no body: the bytes after the head belong to it all the same.
    connection.write(&format!(
        "POST /health HTTP/1.1\r\nHost: t\r\nContent-Length: {}\r\n\r\n{smuggled}",
        smuggled.len()
    ));
    assert_eq!(connection.read(false).status, 405);
    // Either hyper has drained the body and goes on, or it has closed: no second answer comes.
    connection.write("GET /health HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n");
    if !connection.is_closed() {
        let next = connection.read(false);
        assert_eq!(next.json()["status"], "ok", "the smuggled request was answered");
    }
}

#[test]
fn http_1_0_and_connection_close_end_the_connection() {
    let (_app, client, url, bytes) = opened();
    for head in [
        format!("GET {url} HTTP/1.0\r\n\r\n"),
        format!("GET {url} HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n"),
    ] {
        let mut connection = client.connect();
        connection.write(&head);
        let answer = connection.read(false);
        assert_eq!((answer.status, answer.body == bytes), (200, true));
        assert_eq!(answer.version, "HTTP/1.1", "the version is the server's own (RFC 9110 section 2.5)");
        assert_eq!(answer.field("connection"), Some("close"));
        assert!(connection.is_closed());
    }
    let mut connection = client.connect();
    connection.write(&format!("HEAD {url} HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
    assert_eq!(connection.read(true).field("connection"), Some("keep-alive"));
    connection.write(&format!("HEAD {url} HTTP/1.0\r\n\r\n"));
    assert_eq!(connection.read(true).status, 200);
    assert!(connection.is_closed());
}

#[test]
fn other_methods_are_refused_and_preflights_answered() {
    let (_app, client, url, _) = opened();
    let refused = client.request("DELETE", &url, "");
    assert_eq!((refused.status, refused.field("allow")), (405, Some("GET, HEAD, OPTIONS")));
    let preflight =
        client.request("OPTIONS", &url, "Origin: http://tv\r\nAccess-Control-Request-Method: GET\r\n");
    assert_eq!(preflight.status, 204);
    assert!(preflight.field("access-control-allow-headers").expect("CORS").contains("Range"));
}

#[test]
fn a_changed_expired_or_ended_url_opens_nothing() {
    let (_app, client, id) = TestApp::with_film();
    let played = client.play(&id, &json!("vlc"));
    let url = played["url"].as_str().expect("a URL");
    let session = played["session"].as_str().expect("an id");
    assert_eq!(client.head_with(url, "").status, 200);
    let other = client.play(&id, &json!("vlc"));
    let other = other["session"].as_str().expect("an id");
    for wrong in [
        url.replace(session, other),
        url.replace("/file/", "/hls/"),
        url.replace("/file/", "/../file/"),
        format!("/media/{session}/file/stream.mp4"),
        "/media/".to_owned(),
        "/media/x".to_owned(),
        "/media/../../etc/passwd".to_owned(),
    ] {
        let status = client.get(&wrong).status;
        assert!(matches!(status, 403 | 404), "{wrong}: {status}");
    }
    assert_eq!(client.delete(&format!("/api/v1/sessions/{session}")).status, 204);
    assert_eq!(client.get(url).status, 403);
}

#[test]
fn a_replaced_file_has_another_tag_and_the_open_session_plays_on() {
    let (app, client, id) = TestApp::with_film();
    let played = client.play(&id, &json!("vlc"));
    let url = played["url"].as_str().expect("a URL").to_owned();
    let before = client.get(&url);
    let path = app.library.join("Amber Coast (2001).mp4");
    let new = app.library.join("new.tmp");
    std::fs::write(&new, b"other bytes").expect("written");
    std::fs::rename(&new, &path).expect("replaced");
    assert_eq!(client.get(&url).body, before.body, "the open file plays to its end");
    let again = client.play(&id, &json!("vlc"));
    let after = client.get(again["url"].as_str().expect("a URL"));
    assert_ne!(after.field("etag"), before.field("etag"));
}

#[test]
fn a_file_whose_first_bytes_cannot_be_read_is_a_503_and_the_connection_goes_on() {
    let (app, client, id) = TestApp::with_film();
    let played = client.play(&id, &json!("vlc"));
    let url = played["url"].as_str().expect("a URL").to_owned();
    let path = app.library.join("Amber Coast (2001).mp4");
    let whole = std::fs::read(&path).expect("read");
    // Bytes that were there when the session began and are no more: like those of a disk that is gone.
    std::fs::File::options().write(true).open(&path).expect("opened").set_len(100).expect("cut");
    let mut connection = client.connect();
    for lead in ["", "\r\n"] {
        // The second is the ordinary lane's: hyper takes a request that begins with an empty line.
        let range = format!("bytes={}-", whole.len() - 10);
        connection.write(&format!("{lead}GET {url} HTTP/1.1\r\nHost: t\r\nRange: {range}\r\n\r\n"));
        let answer = connection.read(false);
        assert_eq!(answer.status, 503, "{lead:?}");
        assert_eq!(answer.field("content-type"), Some("application/problem+json"));
        assert_eq!(answer.field("retry-after"), Some("10"));
        assert_eq!(answer.field("access-control-allow-origin"), Some("*"));
        let detail = answer.json()["detail"].as_str().expect("a detail").to_owned();
        assert!(detail.contains("cannot be read"), "{detail}");
        assert!(!detail.contains(app.library.to_str().expect("a path")), "no path of this machine: {detail}");
    }
    // A question about the head alone reads nothing.
    connection.write(&format!("HEAD {url} HTTP/1.1\r\nHost: t\r\n\r\n"));
    assert_eq!(connection.read(true).status, 200);
    std::fs::write(&path, &whole).expect("put back");
    connection.write(&format!("GET {url} HTTP/1.1\r\nHost: t\r\n\r\n"));
    assert!(connection.read(false).body == whole, "there again, and so are its bytes");
}

#[test]
fn a_file_that_shrinks_while_it_is_sent_breaks_the_connection_off() {
    let (app, client, id) = TestApp::with_film();
    let played = client.play(&id, &json!("vlc"));
    let url = played["url"].as_str().expect("a URL").to_owned();
    let path = app.library.join("Amber Coast (2001).mp4");
    let file = std::fs::File::options().write(true).open(path).expect("opened");
    file.set_len(100).expect("cut");
    let mut connection = client.connect();
    connection.write(&format!("GET {url} HTTP/1.1\r\nHost: t\r\n\r\n"));
    // A length was promised; the honest end is a connection that breaks off, or an error before.
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| connection.read(false)));
    assert!(ended.map_or(true, |a| a.status >= 400 || a.body.len() == 100));
    assert_eq!(client.get("/health").status, 200, "the server goes on");
}

#[test]
fn a_client_that_closes_its_side_gets_the_whole_film_from_the_disk_too() {
    let (app, client, url, bytes) = opened();
    let path = app.library.join("Amber Coast (2001).mp4");
    let file = std::fs::File::open(&path).expect("the film");
    file.sync_all().expect("it is on the disk");
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("out of memory");
    let mut connection = client.connect();
    connection.write(&format!("GET {url} HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n"));
    connection.half_close();
    let answer = connection.read(false);
    assert_eq!((answer.status, answer.body == bytes), (200, true), "{} bytes", answer.body.len());
}
