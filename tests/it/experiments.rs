//! Records of experiments and the measurement of the network, as a client sees them.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use spindle_base::clock::{SharedClock, SystemClock};
use spindle_base::shutdown::Shutdown;
use spindle_bench::net::{self, Direction, NetRow, Server};
use spindle_bench::{Kind, Record, Runner, Store};

use crate::app::{Client, TestApp};

fn row(direction: Direction, connections: usize) -> serde_json::Value {
    serde_json::to_value(NetRow::of(direction, connections, 1_000_000_000, 5.0)).expect("a row")
}

#[test]
fn what_a_page_measures_is_kept_shown_saved_as_a_table_and_removed() {
    let app = TestApp::start(|_| {});
    let owner = app.owner();
    assert_eq!(owner.get("/api/v1/experiments").json(), json!({"items": [], "total": 0}));
    let body = json!({"kind": "net", "rows": [row(Direction::Down, 1), row(Direction::Up, 4)]});
    let made = owner.post("/api/v1/experiments", &body);
    assert_eq!(made.status, 201, "{}", made.text());
    let id = made.json()["id"].as_str().expect("an id").to_owned();
    let listed = owner.get("/api/v1/experiments").json();
    assert_eq!((&listed["total"], &listed["items"][0]["id"]), (&json!(1), &json!(id)), "{listed}");
    let whole = owner.get(&format!("/api/v1/experiments/{id}")).json();
    assert_eq!((&whole["version"], &whole["kind"]), (&json!(1), &json!("net")), "{whole}");
    assert_eq!(whole["rows"][1]["connections"], 4);
    assert!(whole["verdict"].as_str().is_some_and(|v| v.contains("200 MB/s")), "{whole}");
    let csv = owner.get(&format!("/api/v1/experiments/{id}?format=csv"));
    assert!(csv.text().contains("connections") && csv.text().lines().count() == 3, "{}", csv.text());
    assert_eq!(owner.get(&format!("/api/v1/experiments/{id}?format=xml")).status, 400);
    assert_eq!(owner.delete(&format!("/api/v1/experiments/{id}")).status, 204);
    assert_eq!(owner.get(&format!("/api/v1/experiments/{id}")).status, 404);
    assert_eq!(owner.delete(&format!("/api/v1/experiments/{id}")).status, 404);
}

#[test]
fn what_is_no_measurement_of_a_page_is_not_kept() {
    let app = TestApp::start(|_| {});
    let owner = app.owner();
    let mut endless = row(Direction::Down, 1);
    endless["connections"] = json!(1000);
    for body in [
        json!({"kind": "corners", "rows": [row(Direction::Down, 1)]}),
        json!({"kind": "net", "rows": []}),
        json!({"kind": "net", "rows": vec![row(Direction::Down, 1); 33]}),
        json!({"kind": "net", "rows": [endless]}),
        json!({"kind": "net", "rows": [{"iops": 1}]}),
        json!({"kind": "net", "rows": [row(Direction::Down, 1)], "path": "/etc"}),
    ] {
        assert_eq!(owner.post("/api/v1/experiments", &body).status, 400, "{body}");
    }
    assert_eq!(owner.get("/api/v1/experiments").json()["total"], 0);
    for id in ["..%2f..%2fsecret", "x", "%00"] {
        let status = owner.get(&format!("/api/v1/experiments/{id}")).status;
        assert!(matches!(status, 400 | 404), "{id}: {status}");
    }
}

#[test]
fn a_server_measures_the_network_for_whoever_is_signed_in() {
    let app = TestApp::start(|_| {});
    let owner = app.owner();
    let clock: SharedClock = Arc::new(SystemClock);
    let (stop, dir) = (Shutdown::new(), tempfile::tempdir().expect("a folder"));
    let store = Store::in_data_dir(dir.path());
    let runner = Runner { store: &store, clock: &clock, stop: &stop, say: &|_, _| {} };
    let server = Server { host: "127.0.0.1".to_owned(), port: app.address.port() };
    let options = net::Options {
        server,
        token: owner.token.clone().expect("a token"),
        connections: vec![1, 3],
        time: Duration::from_millis(300),
    };
    let mut record = Record::begin(Kind::Net, &clock);
    net::run(&runner, &options, &mut record).expect("it is measured");
    assert_eq!(record.rows.len(), 4, "{:?}", record.rows);
    for row in &record.rows {
        let row: NetRow = serde_json::from_value(row.clone()).expect("a row");
        assert!(row.bytes > 1_000_000 && row.seconds > 0.1 && row.seconds < 30.0, "{row:?}");
    }
    let refused = net::Options { token: "0".repeat(64), ..options };
    let error = net::run(&runner, &refused, &mut record).expect_err("nobody is signed in");
    assert!(error.to_string().contains("401") && error.to_string().contains("sign in"), "{error}");
}

#[test]
fn the_measurement_has_bounds() {
    let app = TestApp::start(|_| {});
    let owner = app.owner();
    for seconds in ["0", "61", "-1", "x"] {
        assert_eq!(owner.get(&format!("/api/v1/experiments/net?seconds={seconds}")).status, 400, "{seconds}");
    }
    let took = owner.post("/api/v1/experiments/net", &json!({"some": "bytes"})).json();
    assert_eq!(took["bytes"], 16, "{took}");
    // As many at once as may be, and one more.
    let head = |client: &Client| {
        let mut connection = client.connect();
        let token = client.token.as_deref().unwrap_or_default();
        connection.write(&format!(
            "GET /api/v1/experiments/net?seconds=60 HTTP/1.1\r\nHost: t\r\nAccept-Encoding: gzip\r\nAuthorization: Bearer {token}\r\n\r\n"
        ));
        connection.read_until("\r\n\r\n");
        connection
    };
    let held: Vec<_> = (0..net::MOST_CONNECTIONS).map(|_| head(&owner)).collect();
    let refused = owner.get("/api/v1/experiments/net");
    assert_eq!(refused.status, 503, "{}", refused.text());
    assert!(refused.field("retry-after").is_some());
    drop(held);
}
