//! How something would play, what follows when it does not, and what is remembered of it.

use std::process::Command;

use serde_json::{Value, json};

use crate::app::{TestApp, film};

fn fails(client: &crate::app::Client, played: &Value, body: &Value) -> crate::app::Answer {
    let session = played["session"].as_str().expect("an id");
    client.post(&format!("/api/v1/sessions/{session}/failed"), body)
}

#[test]
fn a_dry_run_shows_every_rule_and_opens_nothing() {
    let (_app, client, id) = TestApp::with_film();
    let ask = |body: Value| client.post(&format!("/api/v1/items/{id}/decide"), &body);
    let plays = ask(json!({"client": "chrome"})).json();
    let version = &plays["versions"][0];
    assert_eq!((&version["chosen"], &version["decision"]["method"]), (&json!(true), &json!("direct_play")));
    assert_eq!(version["reasons"], json!([]), "{plays}");
    assert_eq!(version["sentence"], "Chrome plays the file as it is.", "{plays}");
    let old = json!({"name": "old", "direct_play": [{"container": "mp4", "video": ["h264"], "audio": ["aac"]}],
        "video": [{"codec": "h264", "max_level": 10}], "protocols": ["http", "hls"]});
    let not = ask(json!({"client": old})).json();
    let version = &not["versions"][0];
    assert_eq!(version["decision"]["method"], "transcode", "{not}");
    let reason = &version["reasons"][0];
    assert_eq!(reason["code"], "video_level_not_supported");
    assert_eq!(reason["wanted"], "at most 10");
    assert!(reason["found"].is_string() && reason["text"].as_str().expect("text").ends_with('.'), "{reason}");
    let rules = version["decision"]["rules"].as_array().expect("rules");
    assert!(rules.iter().any(|r| r["rule"] == "video_level" && r["verdict"] == "fail"));
    assert!(rules.iter().any(|r| r["verdict"] == "pass"));
    assert_eq!(client.get("/api/v1/sessions").json()["total"], 0, "nothing was opened");
    for (body, status) in [
        (json!({"client": "no such"}), 400),
        (json!({"client": {"name": "x", "direct_play": []}}), 400),
        (json!({"client": "chrome", "version": "nothing"}), 404),
        (json!({}), 400),
    ] {
        assert_eq!(ask(body.clone()).status, status, "{body}");
    }
}

#[test]
fn what_fails_is_followed_by_the_next_way_and_remembered_for_this_client() {
    let (_app, client, id) = TestApp::with_film();
    let first = client.play(&id, &json!("chrome"));
    assert_eq!(first["method"], "direct_play", "{first}");
    assert_eq!(first["sentence"], "Chrome plays the file as it is.", "{first}");
    let answer = fails(&client, &first, &json!({"position_s": 3.5, "error": "decode", "detail": "code 3"}));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let second = answer.json();
    assert_eq!((&second["method"], &second["start_s"]), (&json!("direct_stream"), &json!(3.5)), "{second}");
    assert_eq!(second["sentence"], "Chrome gets it repacked: picture and sound are copied.", "{second}");
    assert!(second["reasons"].as_array().expect("reasons").iter().any(|r| r["code"] == "failed_before"));
    assert_eq!(fails(&client, &first, &json!({})).status, 404, "the failed session has ended");
    // The next try on this client begins with what is left, on another with everything.
    assert_eq!(client.play(&id, &json!("chrome"))["method"], "direct_stream");
    assert_eq!(client.play(&id, &json!("safari"))["method"], "direct_play");
    let third = fails(&client, &second, &json!({"error": "unsupported"})).json();
    assert_eq!(third["method"], "transcode", "{third}");
    // Bytes that did not arrive say nothing about the way.
    let again = fails(&client, &third, &json!({"error": "network"})).json();
    assert_eq!(again["method"], "transcode", "{again}");
    let last = fails(&client, &again, &json!({"error": "decode"}));
    assert_eq!(last.status, 422, "{}", last.text());
    assert!(last.text().contains("tried and failed"), "{}", last.text());
    // Nobody is locked out: the next try begins anew.
    assert_eq!(client.play(&id, &json!("chrome"))["method"], "direct_play");
    assert_eq!(fails(&client, &third, &json!({"error": "rain"})).status, 400);
}

#[test]
fn what_a_client_learnt_from_a_failure_decides_the_next_way_alone() {
    let (_app, client, id) = TestApp::with_film();
    let can = |sound: &[&str]| {
        json!({"profile": {"name": "learner", "protocols": ["http", "hls"],
            "direct_play": [{"container": "mp4", "video": ["h264"], "audio": sound}],
            "video": [{"codec": "h264"}], "audio": sound.iter().map(|c| json!({"codec": c})).collect::<Vec<_>>()}})
    };
    let first = client.play(&id, &can(&["aac", "opus"]));
    assert_eq!(first["method"], "direct_play", "{first}");
    // No sound came out: the picture need not be encoded for that, though it would be the next way but one.
    let body = json!({"position_s": 2.0, "error": "decode", "detail": "no_sound", "client": can(&["opus"])});
    let answer = fails(&client, &first, &body);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let second = answer.json();
    assert_eq!(second["decision"]["video"]["action"], "copy", "{second}");
    assert_eq!(second["decision"]["audio"]["action"], "encode", "{second}");
    assert!(!second["reasons"].as_array().expect("reasons").iter().any(|r| r["code"] == "failed_before"));
    // The same once more teaches nothing: then the next way it is.
    let third = fails(&client, &second, &json!({"error": "decode", "client": can(&["opus"])})).json();
    assert_eq!(third["method"], "transcode", "{third}");
    // A conversion that failed is tried once more for a client that can less than it said, and not without that.
    let fourth = fails(&client, &third, &json!({"error": "decode", "client": can(&["opus", "flac"])}));
    assert_eq!(fourth.status, 200, "{}", fourth.text());
    assert_eq!(fails(&client, &fourth.json(), &json!({"error": "decode"})).status, 422);
    let other = client.play(&id, &can(&["aac"]));
    assert_eq!(fails(&client, &other, &json!({"client": {"name": "x", "rain": 1}})).status, 400);
    assert_eq!(
        client.get("/api/v1/sessions").json()["total"],
        1,
        "a report that is not understood ends nothing"
    );
}

#[test]
fn clients_are_known_by_name_and_told_by_their_user_agent() {
    let (_app, client, id) = TestApp::with_film();
    let list = client.get("/api/v1/clients").json();
    let items = list["items"].as_array().expect("items");
    assert!(items.len() >= 38 && items.iter().all(|c| c["origin"] == "builtin"), "{list}");
    assert_eq!(list["rejected"], json!([]));
    let body = json!({"client": "auto"}).to_string();
    let path = format!("/api/v1/items/{id}/decide");
    let ask = |agent: &str| {
        let token = client.token.as_ref().expect("a token");
        let mut connection = client.connect();
        connection.write(&format!(
            "POST {path} HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer {token}\r\nUser-Agent: {agent}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ));
        connection.read(false)
    };
    assert_eq!(ask("Mozilla/5.0 (X11; rv:153.0) Gecko/20100101 Firefox/153.0").json()["client"], "Firefox");
    assert_eq!(ask("curl/8").status, 400);
}

#[test]
fn the_tracks_that_a_viewer_chose_are_chosen_the_next_time() {
    let app = TestApp::start(|dir| {
        let made = Command::new("ffmpeg")
            .args(["-v", "error", "-i"])
            .arg(film())
            .args(["-map", "0:v", "-map", "0:a", "-map", "0:a", "-c", "copy"])
            .args(["-metadata:s:a:0", "language=jpn", "-metadata:s:a:1", "language=eng"])
            .args(["-disposition:a:0", "default", "-disposition:a:1", "0"])
            .arg(dir.join("Two Tongues (2001).mkv"))
            .status()
            .expect("ffmpeg runs");
        assert!(made.success());
    });
    let client = app.owner();
    let id = client.wait_for_items(1)[0]["id"].as_str().expect("an id").to_owned();
    let selected = |played: &Value| {
        let tracks = played["audio"].as_array().expect("tracks").clone();
        tracks.iter().find(|t| t["selected"] == true).expect("one plays")["language"].clone()
    };
    assert_eq!(selected(&client.play(&id, &json!("vlc"))), "jpn", "the file's default");
    let path = "/api/v1/preferences";
    assert_eq!(client.get(path).json()["audio_languages"], json!([]));
    let kept = client.put(path, &json!({"audio_languages": ["en", "fre"], "subtitle_mode": "foreign"}));
    assert_eq!(kept.json()["audio_languages"], json!(["eng", "fra"]), "{}", kept.text());
    assert_eq!(selected(&client.play(&id, &json!("vlc"))), "eng", "the viewer's language");
    let asked =
        client.post(&format!("/api/v1/items/{id}/play"), &json!({"client": "vlc", "audio": 1})).json();
    assert_eq!(selected(&asked), "jpn");
    assert_eq!(selected(&client.play(&id, &json!("vlc"))), "jpn", "as chosen before");
    for bad in [json!({"audio_languages": ["klingon?"]}), json!({"langs": []}), json!({"subtitle_mode": "x"})]
    {
        assert_eq!(client.put(path, &bad).status, 400, "{bad}");
    }
}

/// What ffprobe counts in some bytes: video packets, and the first's time.
fn video_of(bytes: &[u8], name: &str) -> (usize, f64) {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join(name);
    std::fs::write(&path, bytes).expect("a file");
    let decoded = Command::new("ffmpeg")
        .args(["-nostdin", "-v", "error", "-xerror", "-i"])
        .arg(&path)
        .args(["-f", "null", "-"])
        .output()
        .expect("ffmpeg runs");
    assert!(decoded.status.success(), "{name}: {}", String::from_utf8_lossy(&decoded.stderr));
    let out = Command::new("ffprobe")
        .args(["-v", "error", "-select_streams", "v:0", "-show_entries", "packet=pts_time", "-of", "csv=p=0"])
        .arg(&path)
        .output()
        .expect("ffprobe runs");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let times: Vec<f64> = text.lines().filter_map(|l| l.trim_end_matches(',').parse().ok()).collect();
    (times.len(), times.iter().copied().fold(f64::MAX, f64::min))
}

fn client_of(container: &str, protocols: &[&str], hls: &str) -> Value {
    json!({"name": "box", "direct_play": [{"container": container, "video": ["h264"], "audio": ["aac"]}],
        "video": [{"codec": "h264"}], "protocols": protocols, "hls": {"container": hls},
        "target": {"video": ["h264"], "audio": ["aac"]}})
}

#[test]
fn a_client_without_playlists_gets_the_title_as_one_stream() {
    let (_app, client, id) = TestApp::with_film();
    let played = client.play(&id, &client_of("mpegts", &["http"], "fmp4"));
    let url = played["url"].as_str().expect("a URL").to_owned();
    assert_eq!(
        (&played["method"], &played["protocol"]),
        (&json!("direct_stream"), &json!("http")),
        "{played}"
    );
    assert!(url.starts_with("/stream/") && url.ends_with("/film.ts"), "{url}");
    let anonymous = crate::app::Client { token: None, ..client.clone() };
    let whole = anonymous.get(&url);
    assert_eq!((whole.status, whole.field("content-type")), (200, Some("video/mp2t")));
    assert_eq!(whole.field("accept-ranges"), Some("none"));
    let (packets, first) = video_of(&whole.body, "film.ts");
    assert_eq!(packets, 250);
    assert!((1.39..1.45).contains(&first), "{first}");
    // Key frames are two seconds apart, cuts six: the nearest cut to eight is six.
    let later = anonymous.get(&format!("{url}?start_s=8"));
    let (packets, first) = video_of(&later.body, "film.ts");
    assert!((90..=110).contains(&packets) && (7.3..7.5).contains(&first), "{packets} {first}");
    let sought = anonymous.get_with(&url, "TimeSeekRange.dlna.org: npt=8.0-\r\n");
    assert_eq!(sought.body, later.body, "the same bytes whichever way");
    let range = sought.field("timeseekrange.dlna.org").expect("a range");
    assert!(range.starts_with("npt=6.0") && range.contains('/'), "{range}");
    assert_eq!(anonymous.head_with(&url, "").status, 200);
    for (path, status) in [
        (format!("{url}?start_s=x"), 400),
        (url.replace("film.ts", "film.mp4"), 400),
        ("/stream/nothing/film.ts".to_owned(), 403),
    ] {
        assert_eq!(anonymous.get(&path).status, status, "{path}");
    }

    let mut in_mp4 = client_of("mkv", &["http"], "fmp4");
    in_mp4["target"]["container"] = json!("mp4");
    let played = client.play(&id, &in_mp4);
    let url = played["url"].as_str().expect("a URL").to_owned();
    assert!(url.ends_with("/film.mp4"), "{played}");
    let whole = anonymous.get(&url);
    assert_eq!(whole.field("content-type"), Some("video/mp4"));
    assert_eq!(video_of(&whole.body, "film.mp4").0, 250);
}

#[test]
fn what_the_converter_read_and_found_in_memory_is_in_the_record() {
    let (_app, client, id) = TestApp::with_film();
    let played = client.play(&id, &client_of("mpegts", &["http"], "fmp4"));
    let sent = client.get(played["url"].as_str().expect("a URL")).body.len();
    let session = played["session"].as_str().expect("an id");
    assert_eq!(client.delete(&format!("/api/v1/sessions/{session}")).status, 204);
    let io = client.get(&format!("/api/v1/sessions/{session}/io")).json();
    let bytes = |name: &str| io[name].as_u64().unwrap_or_else(|| panic!("{name}: {io}"));
    assert_eq!(bytes("served_bytes"), sent as u64, "{io}");
    // Each packet of the film was copied: all but its index was read, and a transport stream is larger.
    assert!(bytes("input_bytes") * 3 > bytes("served_bytes") * 2, "{io}");
    // It was written a moment ago.
    assert_eq!((bytes("read_bytes"), bytes("input_cached_bytes")), (0, bytes("input_bytes")), "{io}");
    assert_eq!(bytes("cached_bytes"), 0, "what was sent was made: {io}");
}

#[test]
fn a_client_of_transport_stream_segments_gets_them() {
    let (_app, client, id) = TestApp::with_film();
    let played = client.play(&id, &client_of("mkv", &["http", "hls"], "mpegts"));
    let master = played["url"].as_str().expect("a URL").to_owned();
    assert_eq!(played["protocol"], "hls", "{played}");
    let base = master.strip_suffix("master.m3u8").expect("a master playlist").to_owned();
    let playlist = client.get(&format!("{base}media.m3u8")).text();
    assert!(!playlist.contains("EXT-X-MAP"), "{playlist}");
    let names: Vec<&str> = playlist.lines().filter(|l| l.ends_with(".ts")).collect();
    assert!(names.len() >= 2, "{playlist}");
    let mut all = Vec::new();
    for name in &names {
        let segment = client.get(&format!("{base}{name}"));
        assert_eq!(segment.field("content-type"), Some("video/mp2t"));
        all.extend(segment.body);
    }
    assert_eq!(video_of(&all, "film.ts").0, 250);
    for name in ["0.m4s", "init.mp4", "0.webm"] {
        assert_eq!(client.get(&format!("{base}{name}")).status, 400, "{name}");
    }
}
