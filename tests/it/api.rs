//! The API as a client sees it.

use std::time::Duration;

use serde_json::{Value, json};
use spindle_base::clock::instant;

use crate::app::TestApp;

#[test]
fn the_first_account_is_made_once_and_everything_else_needs_it() {
    let app = TestApp::start(|_| {});
    let anonymous = crate::app::Client { address: app.address, token: None };
    assert_eq!(anonymous.get("/api/v1/setup").json(), json!({"needed": true}));
    assert_eq!(anonymous.get("/api/v1/items").status, 401);
    let short = anonymous.post("/api/v1/setup", &json!({"username": "ann", "password": "short"}));
    assert_eq!(short.status, 400);
    assert_eq!(short.field("content-type"), Some("application/problem+json"));
    let owner = app.owner();
    assert_eq!(anonymous.get("/api/v1/setup").json(), json!({"needed": false}));
    let again = json!({"username": "bob", "password": "correct horse"});
    assert_eq!(anonymous.post("/api/v1/setup", &again).status, 409);
    assert_eq!(owner.get("/api/v1/auth/me").json()["name"], "ann");
    let wrong = json!({"username": "ann", "password": "wrong horse"});
    assert_eq!(anonymous.post("/api/v1/auth/login", &wrong).status, 401);
    assert_eq!(owner.post("/api/v1/auth/logout", &json!({})).status, 204);
    assert_eq!(owner.get("/api/v1/auth/me").status, 401, "the token is revoked");
}

#[test]
fn guessing_passwords_is_slowed_down() {
    let app = TestApp::start(|_| {});
    let owner = app.owner();
    let wrong = json!({"username": "ann", "password": "wrong horse"});
    let statuses: Vec<u16> = (0..7).map(|_| owner.post("/api/v1/auth/login", &wrong).status).collect();
    assert_eq!(statuses[..5], [401; 5]);
    assert_eq!(statuses[6], 429);
}

#[test]
fn guesses_sent_side_by_side_are_counted_like_those_in_a_row() {
    let app = TestApp::start(|_| {});
    let owner = app.owner();
    let wrong = json!({"username": "ann", "password": "wrong horse"});
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let guess = || owner.post("/api/v1/auth/login", &wrong).status;
        let threads: Vec<_> = (0..24).map(|_| scope.spawn(guess)).collect();
        threads.into_iter().map(|t| t.join().expect("no panic")).collect()
    });
    let looked_at = statuses.iter().filter(|s| **s == 401).count();
    // Five are free, two are checked at once; a wait of two seconds may end while the others queue.
    assert!((5..=9).contains(&looked_at), "{statuses:?}");
}

#[test]
fn a_body_that_is_too_long_is_413() {
    let app = TestApp::start(|_| {});
    let long = json!({"username": "x".repeat(300 << 10), "password": "correct horse"});
    assert_eq!(app.owner().post("/api/v1/auth/login", &long).status, 413);
}

#[test]
fn a_name_that_nobody_can_have_is_400_and_stays_out_of_the_log() {
    let app = TestApp::start(|_| {});
    let owner = app.owner();
    for name in ["a\nfake line", "a\u{1b}[31m", "", &"x".repeat(65)] {
        let body = json!({"username": name, "password": "correct horse"});
        assert_eq!(owner.post("/api/v1/auth/login", &body).status, 400, "{name:?}");
    }
}

#[test]
fn a_session_ends_with_its_sign_in_and_one_user_has_so_many() {
    let (app, owner, item) = TestApp::with_film();
    let play = || owner.play(&item, &json!("vlc"));
    let first = play()["session"].as_str().expect("a session").to_owned();
    for _ in 0..33 {
        play();
    }
    let listed = owner.get("/api/v1/sessions").json();
    let ids: Vec<&str> =
        listed["items"].as_array().expect("a list").iter().filter_map(|s| s["session"].as_str()).collect();
    assert_eq!(ids.len(), 32);
    assert!(!ids.contains(&first.as_str()), "the one that was silent for longest makes room");
    let url = play()["url"].as_str().expect("a URL").to_owned();
    let stranger = crate::app::Client { address: app.address, token: None };
    assert_eq!(stranger.get(&url).status, 200, "the URL is the permission");
    assert_eq!(owner.post("/api/v1/auth/logout", &json!({})).status, 204);
    // Looked up every ten seconds.
    let until = spindle_base::clock::instant() + std::time::Duration::from_secs(60);
    while stranger.get(&url).status == 200 {
        assert!(spindle_base::clock::instant() < until, "the session outlives its sign-in");
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
}

#[test]
fn every_route_but_the_open_ones_refuses_a_stranger() {
    let app = TestApp::start(|_| {});
    let _owner = app.owner();
    let anonymous = crate::app::Client { address: app.address, token: None };
    let stranger = crate::app::Client { address: app.address, token: Some("0".repeat(64)) };
    let api = anonymous.get("/api/openapi.json").json();
    let open = ["/health", "/metrics", "/api/v1/setup", "/api/v1/auth/login"];
    let paths = api["paths"].as_object().expect("paths");
    assert!(paths.len() >= 15, "{}", paths.len());
    for (path, methods) in paths {
        if open.contains(&path.as_str()) {
            continue;
        }
        let real = path.replace("{id}", "x").replace("{kind}", "poster");
        for method in methods.as_object().expect("methods").keys() {
            let method = method.to_uppercase();
            for who in [&anonymous, &stranger] {
                let status = who.request(&method, &real, "Content-Type: application/json\r\n").status;
                assert_eq!(status, 401, "{method} {path}");
            }
        }
    }
}

#[test]
fn the_description_has_every_route_of_the_contract() {
    let contract: Value =
        serde_json::from_str(include_str!("../fixtures/contract-routes.json")).expect("valid");
    let api: Value = serde_json::from_str(&spindle::http::openapi_json()).expect("valid");
    for route in contract.as_array().expect("a list") {
        let (method, path) = (route[0].as_str().expect("a method"), route[1].as_str().expect("a path"));
        assert!(api["paths"][path][method].is_object(), "{method} {path} is not described");
    }
}

#[test]
fn bad_values_are_400_and_say_what_is_wrong() {
    let (_app, client, id) = TestApp::with_film();
    for path in [
        "/api/v1/items?sort=colour",
        "/api/v1/items?type=book",
        "/api/v1/items?limit=many",
        "/api/v1/items?offset=-1",
        "/api/v1/items?watched=perhaps",
    ] {
        let answer = client.get(path);
        assert_eq!(answer.status, 400, "{path}: {}", answer.text());
        assert!(answer.json()["detail"].as_str().is_some_and(|d| d.len() > 10), "{path}");
    }
    assert_eq!(client.get("/api/v1/items?unknown=1").status, 200);
    for (body, hint) in [
        (json!({"client": "toaster"}), "chromecast"),
        (json!({"client": {"name": "x"}}), "direct_play"),
        (json!({"client": "vlc", "start_s": -1}), "start_s"),
        (json!({"client": "vlc", "subtitle": "loud"}), "subtitle"),
        (json!({"klient": "vlc"}), "klient"),
    ] {
        let answer = client.post(&format!("/api/v1/items/{id}/play"), &body);
        assert_eq!(answer.status, 400, "{body}");
        assert!(answer.text().contains(hint), "{body}: {}", answer.text());
    }
    assert_eq!(client.post("/api/v1/items/nothing/play", &json!({"client": "vlc"})).status, 404);
    assert_eq!(client.get("/api/v1/nothing").status, 404);
    assert_eq!(client.get("/api/v1/sessions/nothing/io").status, 404);
}

#[test]
fn a_session_reports_progress_and_leaves_a_record() {
    let (_app, client, id) = TestApp::with_film();
    let played = client.play(&id, &json!("vlc"));
    let session = played["session"].as_str().expect("an id").to_owned();
    assert_eq!(played["duration_s"].as_f64().map(f64::round), Some(10.0), "{played}");
    let bytes = client.get(played["url"].as_str().expect("a URL")).body.len();
    let path = format!("/api/v1/sessions/{session}/progress");
    assert_eq!(client.post(&path, &json!({"position_s": 4.0, "paused": false})).status, 204);
    assert_eq!(client.post(&path, &json!({"position_s": -4.0})).status, 400);
    let live = client.get("/api/v1/sessions").json();
    assert_eq!(live["items"][0]["session"], session.as_str(), "{live}");
    assert_eq!(live["items"][0]["position_s"], 4.0);
    assert_eq!(client.delete(&format!("/api/v1/sessions/{session}")).status, 204);
    let io = client.get(&format!("/api/v1/sessions/{session}/io")).json();
    assert_eq!(io["served_bytes"], bytes, "{io}");
    assert_eq!(io["method"], "direct_play");
    assert!(io["ended"].is_string() && io["striping"]["verdict"].is_string(), "{io}");
    let csv = client.get(&format!("/api/v1/sessions/{session}/io?format=csv"));
    assert!(csv.text().starts_with("t_s"), "{}", csv.text());
    let history = client.get("/api/v1/history").json();
    assert_eq!(history["items"][0]["session"], session.as_str(), "{history}");
}

/// A frame of HTTP/2 (RFC 9113 section 4.1) on stream 1, or 0 for settings.
fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).expect("a short frame");
    [&[0, 0, length, kind, flags, 0, 0, 0, stream], payload].concat()
}

/// A header field as it is, without any table (RFC 7541 section 6.2.2).
fn literal(name: &str, value: &str) -> Vec<u8> {
    let part = |text: &str| {
        let length = u8::try_from(text.len()).ok().filter(|n| *n < 127).expect("a short text");
        [&[length], text.as_bytes()].concat()
    };
    [vec![0], part(name), part(value)].concat()
}

#[test]
fn a_request_that_is_taken_back_leaves_no_half_ended_session() {
    let (_app, client, id) = TestApp::with_film();
    let token = client.token.clone().expect("a token");
    let mut sessions = Vec::new();
    for n in 0..24 {
        let played = client.play(&id, &json!("vlc"));
        let session = played["session"].as_str().expect("an id").to_owned();
        let path = format!("/api/v1/sessions/{session}/progress");
        assert_eq!(client.post(&path, &json!({"position_s": 4.0})).status, 204);
        let fields = [
            (":method", "DELETE"),
            (":scheme", "http"),
            (":path", &format!("/api/v1/sessions/{session}")),
            (":authority", "t"),
            ("authorization", &format!("Bearer {token}")),
        ];
        let fields: Vec<u8> = fields.iter().flat_map(|(name, value)| literal(name, value)).collect();
        let mut connection = client.connect();
        connection.write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        connection.write_bytes(&[frame(4, 0, 0, &[]), frame(1, 5, 1, &fields)].concat());
        // Another moment of its work each time; 8 is CANCEL (RFC 9113 section 7).
        std::thread::sleep(Duration::from_micros(300 * n));
        connection.write_bytes(&frame(3, 0, 1, &[0, 0, 0, 8]));
        sessions.push(session);
    }
    let until = instant() + Duration::from_secs(60);
    for session in sessions {
        loop {
            let live = client.get("/api/v1/sessions").json();
            let is_live =
                live["items"].as_array().expect("a list").iter().any(|s| s["session"] == session.as_str());
            let io = client.get(&format!("/api/v1/sessions/{session}/io"));
            // It plays on, or it has ended and is kept.
            if is_live || (io.status == 200 && io.json()["ended"].is_string()) {
                break;
            }
            assert!(instant() < until, "{session} is neither live nor kept: {}", io.text());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

#[test]
fn answers_of_http_2_that_nobody_reads_are_bounded_over_all_connections() {
    let app = TestApp::start(|_| {});
    let anonymous = crate::app::Client { address: app.address, token: None };
    let fields =
        [(":method", "GET"), (":scheme", "http"), (":path", "/api/openapi.json"), (":authority", "t")];
    let fields: Vec<u8> = fields.iter().flat_map(|(name, value)| literal(name, value)).collect();
    let ask = || {
        let mut connection = anonymous.connect();
        connection.write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        // SETTINGS_INITIAL_WINDOW_SIZE 0 (RFC 9113 section 6.5.2): heads come, bodies do not.
        connection.write_bytes(&frame(4, 0, 0, &[0, 4, 0, 0, 0, 0]));
        let streams = (0..32).map(|n| 2 * n + 1);
        streams.for_each(|stream| connection.write_bytes(&frame(1, 5, stream, &fields)));
        let heads = std::iter::from_fn(|| Some(connection.read_frame())).filter(|(kind, _)| *kind == 1);
        // `:status 200` is entry 8 of the static table (RFC 7541 appendix A).
        let answered = heads.take(32).filter(|(_, head)| head.first() == Some(&0x88)).count();
        (connection, answered)
    };
    let open: Vec<_> = (0..16).map(|_| ask()).collect();
    assert_eq!(open.iter().map(|(_, answered)| answered).sum::<usize>(), 384);
    assert_eq!(anonymous.get("/api/v1/setup").status, 200, "others are answered");
    drop(open);
    let until = instant() + Duration::from_secs(60);
    while ask().1 < 32 {
        assert!(instant() < until, "answers whose connections have closed hold their places");
    }
}

#[test]
fn a_player_whose_stream_somebody_ended_is_told() {
    let (_app, client, id) = TestApp::with_film();
    let played = client.play(&id, &json!("vlc"));
    let session = format!("/api/v1/sessions/{}", played["session"].as_str().expect("an id"));
    assert_eq!(client.delete(&session).status, 204);
    let report = client.post(&format!("{session}/progress"), &json!({"position_s": 4.0}));
    assert_eq!(report.status, 409, "a page that hears 404 begins anew: {}", report.text());
    assert!(report.text().contains("ended by somebody"), "{}", report.text());
    assert_eq!(client.delete(&session).status, 404);
    assert_eq!(client.post("/api/v1/sessions/nothing/progress", &json!({"position_s": 4.0})).status, 404);
}

#[test]
fn without_recording_a_session_plays_and_is_kept_and_its_record_says_that_there_is_none() {
    let (_app, client, id) = TestApp::with_film_and(&[("storage.record", "false")]);
    let played = client.play(&id, &json!("vlc"));
    let session = played["session"].as_str().expect("an id").to_owned();
    assert_eq!(client.get(played["url"].as_str().expect("a URL")).status, 200);
    let io = format!("/api/v1/sessions/{session}/io");
    for when in ["while it plays", "afterwards"] {
        let answer = client.get(&io);
        assert_eq!(answer.status, 404, "{when}: {}", answer.text());
        assert!(answer.text().contains("storage.record"), "{when}: {}", answer.text());
        client.delete(&format!("/api/v1/sessions/{session}"));
    }
    assert_eq!(client.get("/api/v1/sessions/nothing/io").status, 404);
    assert!(!client.get("/api/v1/sessions/nothing/io").text().contains("storage.record"));
    let history = client.get("/api/v1/history").json();
    assert_eq!(history["items"][0]["session"], session.as_str(), "{history}");
    let attribution = &client.get("/api/v1/storage").json()["attribution"];
    assert_eq!(attribution["mode"], "none", "{attribution}");
    assert!(attribution["why"].as_str().is_some_and(|w| w.contains("storage.record")), "{attribution}");
}

#[test]
fn a_client_that_closes_its_side_after_its_request_is_answered() {
    let app = TestApp::start(|_| {});
    for path in ["/api/v1/setup", "/api/v1/items", "/"] {
        let mut connection = crate::app::Connection::to(app.address);
        connection.write(&format!("GET {path} HTTP/1.1\r\nHost: t\r\n\r\n"));
        connection.half_close();
        let text = connection.read_to_end();
        assert!(text.starts_with("HTTP/1.1 200") || text.starts_with("HTTP/1.1 401"), "{path}: {text}");
    }
    let body = json!({"username": "ann", "password": "correct horse"}).to_string();
    let mut connection = crate::app::Connection::to(app.address);
    connection.write(&format!(
        "POST /api/v1/setup HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    connection.half_close();
    let text = connection.read_to_end();
    assert!(text.starts_with("HTTP/1.1 201"), "a slow answer, too: {text}");
}

#[test]
fn an_event_stream_ends_with_its_token_and_with_no_other() {
    let app = TestApp::start(|_| {});
    let first = app.owner();
    let body = json!({"username": "ann", "password": "correct horse"});
    let mut second = first.clone();
    second.token = first.post("/api/v1/auth/login", &body).json()["token"].as_str().map(str::to_owned);
    let listen = |client: &crate::app::Client| {
        let mut connection = client.connect();
        let token = client.token.as_deref().expect("signed in");
        connection.write(&format!(
            "GET /api/v1/events HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer {token}\r\n\r\n"
        ));
        connection.read_until("event: io");
        connection
    };
    let (mut theirs, mut ours) = (listen(&first), listen(&second));
    assert_eq!(first.post("/api/v1/auth/logout", &json!({})).status, 204);
    // The last chunk (RFC 9112 section 7.1): the body has its end, the connection may go on.
    theirs.read_until("\r\n0\r\n\r\n");
    ours.forget();
    ours.read_until("event: io");
}

#[test]
fn a_tag_that_is_part_of_another_is_not_that_tag() {
    let app = TestApp::start(|_| {});
    let client = app.owner();
    let page = client.get("/");
    let etag = page.field("etag").expect("a tag").to_owned();
    let inner = etag.trim_matches('"');
    for (field, status) in [
        (etag.clone(), 304),
        (format!("W/{etag}"), 304),
        ("*".to_owned(), 304),
        (format!("\"x\", {etag}"), 304),
        (format!("\"x{inner}\""), 200),
        (format!("\"a, {inner}\""), 200),
        (inner.to_owned(), 200),
    ] {
        assert_eq!(client.get_with("/", &format!("If-None-Match: {field}\r\n")).status, status, "{field}");
    }
}

#[test]
fn segments_are_the_same_bytes_in_any_order() {
    let (_app, client, id) = TestApp::with_film();
    let profile = json!({
        "name": "hls", "direct_play": [], "video": [{"codec": "h264"}], "audio": [{"codec": "aac"}],
        "subtitles": [], "protocols": ["hls"],
    });
    let played = client.play(&id, &profile);
    assert_eq!(
        (&played["protocol"], &played["method"]),
        (&json!("hls"), &json!("direct_stream")),
        "{played}"
    );
    let master = played["url"].as_str().expect("a URL").to_owned();
    let base = master.strip_suffix("master.m3u8").expect("a master playlist").to_owned();
    let playlist = client.get(&format!("{base}media.m3u8")).text();
    assert!(client.get(&master).text().contains("media.m3u8"));
    let names: Vec<&str> = playlist.lines().filter(|l| l.ends_with(".m4s")).collect();
    assert!(names.len() >= 2, "{playlist}");
    let init = client.get(&format!("{base}init.mp4"));
    assert_eq!(&init.body[4..8], b"ftyp");
    let fetch = |name: &&str| client.get(&format!("{base}{name}")).body;
    let backwards: Vec<_> = names.iter().rev().map(fetch).collect();
    let forwards: Vec<_> = names.iter().map(fetch).collect();
    assert!(forwards.iter().eq(backwards.iter().rev()));
    assert!(forwards.iter().all(|s| &s[4..8] == b"moof"), "each segment is a fragment");
    for (name, status) in [("999.m4s", 404), ("0.ts", 400), ("../x", 400), ("init.webm", 400)] {
        assert_eq!(client.get(&format!("{base}{name}")).status, status, "{name}");
    }
}

#[test]
fn the_page_is_served_with_a_strict_policy_for_every_view() {
    let app = TestApp::start(|_| {});
    let client = crate::app::Client { address: app.address, token: None };
    for path in ["/", "/library/x", "/setup"] {
        let page = client.get(path);
        assert_eq!(page.status, 200, "{path}");
        assert!(page.text().to_lowercase().contains("<!doctype html>"));
        let policy = page.field("content-security-policy").expect("a policy");
        assert!(policy.contains("script-src 'self'") && !policy.contains("unsafe-eval"));
    }
    assert_eq!(client.get("/missing.js").status, 404);
    assert_eq!(client.get("/../../etc/passwd").status, 200, "any other path is the page");
}

#[test]
fn marks_are_kept_and_lists_can_ask_for_them() {
    let (_app, client, id) = TestApp::with_film();
    let path = format!("/api/v1/items/{id}/state");
    let state = client.put(&path, &json!({"watched": true, "favorite": true, "rating": 8.5}));
    assert_eq!(state.status, 200, "{}", state.text());
    assert_eq!(state.json()["rating"], 8.5);
    let item = client.get(&format!("/api/v1/items/{id}")).json();
    assert_eq!((&item["state"]["watched"], &item["state"]["favorite"]), (&json!(true), &json!(true)));
    assert_eq!(client.get("/api/v1/items?watched=false").json()["total"], 0);
    assert_eq!(client.get("/api/v1/items?watched=true").json()["total"], 1);
    for bad in [json!({"rating": 11}), json!({"position_s": -1}), json!({"watchd": true})] {
        assert_eq!(client.put(&path, &bad).status, 400, "{bad}");
    }
}

#[test]
fn storage_lists_a_volume_once_with_all_the_libraries_on_it_and_answers_from_memory() {
    let app = TestApp::start(|_| {});
    let owner = app.owner();
    let folder = app.library.parent().expect("a folder").join("Series");
    std::fs::create_dir(&folder).expect("a folder");
    let body = json!({"name": "series", "kind": "tv", "path": folder});
    assert_eq!(owner.post("/api/v1/libraries", &body).status, 201);
    let first = owner.get("/api/v1/storage").json();
    let on = |report: &Value| {
        let items = report["items"].as_array().cloned().unwrap_or_default();
        items.into_iter().find(|v| v["libraries"].as_array().is_some_and(|l| l.len() >= 2))
    };
    let volume = on(&first).unwrap_or_else(|| panic!("no volume has both libraries: {first}"));
    let names: Vec<&str> =
        volume["libraries"].as_array().expect("a list").iter().filter_map(|l| l["name"].as_str()).collect();
    assert!(names.contains(&"series"), "{names:?}");
    assert!(
        volume["node"]["kind"].is_string() && volume["columns"].is_u64() && volume["age_s"].is_number(),
        "{volume}"
    );
    // What the second look shows is what the first one found, not found again.
    let second = on(&owner.get("/api/v1/storage").json()).expect("the same volume");
    assert_eq!(second["disks"], volume["disks"]);
}

#[test]
fn a_folder_is_added_once_and_a_second_time_says_whose_it_is() {
    let app = TestApp::start(|dir| std::fs::create_dir(dir.join("Old")).expect("made"));
    let owner = app.owner();
    let add = |path: &str| {
        owner.post("/api/v1/libraries", &json!({"name": "Again", "kind": "movies", "path": path}))
    };
    let folder = app.library.to_str().expect("UTF-8");
    for path in [folder.to_owned(), format!("{folder}/"), format!("{folder}/."), format!("{folder}/Old")] {
        let answer = add(&path);
        assert_eq!(answer.status, 409, "{path}: {}", answer.text());
        let detail = answer.json()["detail"].as_str().expect("a sentence").to_owned();
        assert!(detail.contains("the library `Movies` (movies)"), "{detail}");
    }
    let elsewhere = tempfile::tempdir().expect("a folder");
    assert_eq!(add(elsewhere.path().to_str().expect("UTF-8")).status, 201);
}

#[test]
fn a_library_says_whether_its_folder_is_there_and_who_notices_changes() {
    let app = TestApp::start(|_| {});
    let owner = app.owner();
    let until = |holds: &dyn Fn(&Value) -> bool| {
        let until = spindle_base::clock::instant() + std::time::Duration::from_secs(60);
        loop {
            let library = owner.get("/api/v1/libraries").json()["items"][0].clone();
            if holds(&library) {
                return;
            }
            assert!(spindle_base::clock::instant() < until, "{library}");
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    };
    until(&|l| l["watching"]["by"] == "kernel" && l["reachable"] == true);
    // Nobody asks for a scan.
    let away = app.library.with_extension("away");
    std::fs::rename(&app.library, &away).expect("moved");
    until(&|l| l["reachable"] == false && l["unreachable"].is_string() && l["watching"]["by"] == "timer");
    std::fs::rename(&away, &app.library).expect("moved back");
    let id = owner.get("/api/v1/libraries").json()["items"][0]["id"].as_str().expect("an id").to_owned();
    assert_eq!(owner.post(&format!("/api/v1/libraries/{id}/scan"), &json!({})).status, 202);
    until(&|l| l["watching"]["by"] == "kernel" && l["reachable"] == true && l["unreachable"].is_null());
}

#[test]
fn whoever_may_read_the_data_directory_looks_without_a_password_and_changes_nothing() {
    use std::os::unix::fs::MetadataExt as _;
    let (app, owner, id) = TestApp::with_film();
    let file = app.data_dir().join("local.json");
    assert_eq!(std::fs::metadata(&file).expect("the credential").mode() & 0o777, 0o600);
    let credential: Value =
        serde_json::from_slice(&std::fs::read(&file).expect("it reads")).expect("it is JSON");
    assert_eq!(credential["server"], format!("http://{}", app.address), "{credential}");
    let local =
        crate::app::Client { address: app.address, token: credential["token"].as_str().map(str::to_owned) };
    let played = owner.play(&id, &json!("vlc"));
    let session = played["session"].as_str().expect("an id");
    let seen = local.get("/api/v1/sessions").json();
    assert_eq!(seen["items"][0]["session"], session, "everybody's streams: {seen}");
    assert_eq!(local.get("/api/v1/storage").status, 200);
    assert_eq!(local.get(&format!("/api/v1/sessions/{session}/io")).status, 200);
    let refused = local.delete(&format!("/api/v1/sessions/{session}"));
    assert_eq!(refused.status, 403, "{}", refused.text());
    assert!(refused.text().contains("changes nothing"), "{}", refused.text());
    assert_eq!(local.get_with("/api/v1/sessions", "X-Forwarded-For: 10.0.0.9\r\n").status, 403);
    // It is no cookie, and no account's.
    let cookie = format!("Cookie: spindle_session={}\r\n", local.token.clone().unwrap_or_default());
    let nobody = crate::app::Client { address: app.address, token: None };
    assert_eq!(nobody.get_with("/api/v1/sessions", &cookie).status, 401);
    let (dir, _guard) = app.stop_and_keep();
    assert!(!dir.join("local.json").exists(), "it goes with the server");
}

#[test]
fn a_session_is_listed_with_its_record_in_short_and_each_table_is_saved_by_its_name() {
    let (_app, client, id) = TestApp::with_film();
    let played = client.play(&id, &json!("vlc"));
    let session = played["session"].as_str().expect("an id").to_owned();
    assert_eq!(client.get(played["url"].as_str().expect("a URL")).status, 200);
    let until = instant() + Duration::from_secs(30);
    let short = loop {
        let live = client.get("/api/v1/sessions").json();
        let short = live["items"][0]["io"].clone();
        if short["served_bytes"].as_u64().is_some_and(|n| n > 0) {
            break short;
        }
        assert!(instant() < until, "nothing of its record is told: {live}");
        std::thread::sleep(Duration::from_millis(50));
    };
    assert!(short["verdict"].is_string() && short["columns"].is_u64() && short["stalls"] == 0, "{short}");
    let io = format!("/api/v1/sessions/{session}/io");
    let striping = client.get(&io).json()["striping"].clone();
    assert!(striping["advice"].is_array() && striping["cache_share"].is_number(), "{striping}");
    for (table, head) in
        [("series", "t_s"), ("disks", "disk,reads"), ("events", "at_s,event"), ("trail", "from_s,to_s")]
    {
        let answer = client.get(&format!("{io}?format=csv&table={table}"));
        assert!(answer.text().starts_with(head), "{table}: {}", answer.text());
        let name = answer.field("content-disposition").unwrap_or_default().to_owned();
        assert!(name.contains(&format!("-{table}.csv")), "{name}");
    }
    let wrong = client.get(&format!("{io}?format=csv&table=x"));
    assert_eq!(wrong.status, 400);
    assert!(wrong.text().contains("series, disks, events or trail"), "{}", wrong.text());
}
