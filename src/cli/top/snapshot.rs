//! What a server says of its streams and disks at one moment.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Value, json};
use spindle_base::clock::{Clock as _, SystemClock, rfc3339};

use crate::cli::ask::{AskError, Server};

/// See the module.
#[derive(Debug, Clone, Default)]
pub(super) struct Snapshot {
    /// As `--json` prints it: what the server answered, unabridged.
    pub(super) raw: Value,
    /// `HOST:PORT`.
    pub(super) server: String,
    /// Time of day, UTC.
    pub(super) clock: String,
    /// How bytes are attributed.
    pub(super) attribution: String,
    pub(super) streams: Vec<Stream>,
    /// Disks of the libraries' volumes and those that are read, by name.
    pub(super) disks: Vec<Disk>,
}

/// A stream. An older server says less of it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Stream {
    pub(super) session: String,
    pub(super) title: String,
    pub(super) user: String,
    pub(super) client: String,
    pub(super) method: String,
    pub(super) position_s: f64,
    pub(super) duration_s: Option<f64>,
    pub(super) paused: bool,
    pub(super) buffered_s: Option<f64>,
    pub(super) predicted_stall_s: Option<f64>,
    /// Bytes a second.
    pub(super) disks: BTreeMap<String, f64>,
    pub(super) io: Option<Io>,
}

/// Its record in short.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Io {
    pub(super) columns: u32,
    pub(super) columns_used: u32,
    pub(super) cache_share: Option<f64>,
    pub(super) stalls: u64,
    pub(super) verdict: String,
}

/// A disk.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Disk {
    pub(super) disk: String,
    pub(super) reads_per_s: f64,
    pub(super) read_bytes_per_s: f64,
    pub(super) write_bytes_per_s: f64,
    pub(super) busy_share: Option<f64>,
    pub(super) asleep: Option<bool>,
    pub(super) temperature_c: Option<i32>,
    pub(super) health: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Listed<T> {
    items: Vec<T>,
}

impl Snapshot {
    /// Asks; waits for the answers.
    pub(super) fn ask(server: &Server) -> Result<Self, AskError> {
        let sessions: Value = server.get("/api/v1/sessions")?;
        let storage: Value = server.get("/api/v1/storage")?;
        Ok(Self::of(&server.host, SystemClock.unix_us(), &sessions, &storage))
    }

    /// Of the two answers. What is not there, or has another form, is left out.
    pub(super) fn of(host: &str, now_us: i64, sessions: &Value, storage: &Value) -> Self {
        let at = rfc3339(now_us);
        let volumes: Vec<Value> = storage["items"].as_array().into_iter().flatten().map(volume).collect();
        let streams = list::<Stream>(sessions);
        let mut named: BTreeSet<String> = streams.iter().flat_map(|s| s.disks.keys().cloned()).collect();
        for volume in &volumes {
            named.extend(
                volume["disks"].as_array().into_iter().flatten().filter_map(|d| Some(d.as_str()?.to_owned())),
            );
        }
        let disks: Vec<Disk> = serde_json::from_value(storage["disks"].clone()).unwrap_or_default();
        let mut disks: Vec<Disk> = disks.into_iter().filter(|d| named.contains(&d.disk)).collect();
        for name in &named {
            if disks.iter().all(|d| d.disk != *name) {
                disks.push(Disk { disk: name.clone(), ..Disk::default() });
            }
        }
        disks.sort_by_key(|d| order(&d.disk));
        let attribution = storage["attribution"]["mode"].as_str().unwrap_or("none").to_owned();
        let raw = json!({
            "server": format!("http://{host}"),
            "at": at,
            "attribution": storage["attribution"],
            "sessions": sessions["items"],
            "disks": storage["disks"],
            "volumes": volumes,
        });
        let clock = at.get(11..19).unwrap_or_default().to_owned();
        Self { raw, server: host.to_owned(), clock, attribution, streams, disks }
    }
}

/// A volume without its tree.
fn volume(volume: &Value) -> Value {
    json!({
        "name": volume["name"], "columns": volume["columns"], "copies": volume["copies"], "layout": volume["layout"],
        "disks": volume["disks"], "why": volume["why"],
    })
}

fn list<T: for<'a> Deserialize<'a> + Default>(value: &Value) -> Vec<T> {
    serde_json::from_value::<Listed<T>>(value.clone()).map(|l| l.items).unwrap_or_default()
}

/// `sdb` before `sdaa`, `nvme2n1` before `nvme10n1`: text by its length where it is letters, numbers by their value.
fn order(name: &str) -> (String, usize, u64, String) {
    let digits = name.find(|c: char| c.is_ascii_digit()).unwrap_or(name.len());
    let (word, rest) = name.split_at(digits);
    let number: String = rest.chars().take_while(char::is_ascii_digit).collect();
    let family = if rest.is_empty() { word.chars().take(2).collect() } else { word.to_owned() };
    (family, if rest.is_empty() { word.len() } else { 0 }, number.parse().unwrap_or(0), name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_server_says_is_joined_by_disk_and_another_versions_answer_is_no_error() {
        let sessions =
            json!({"items": [{"session": "s", "title": "T", "disks": {"sdb": 5, "loop9": 1}, "new": {}}]});
        let storage = json!({
            "items": [{"name": "Films", "columns": 2, "copies": 1, "disks": ["sdb", "sdaa"], "node": {}}],
            "disks": [
                {"disk": "sdb", "read_bytes_per_s": 7.5, "busy_share": 0.5, "asleep": false, "temperature_c": 31},
                {"disk": "vda", "read_bytes_per_s": 1.0}
            ],
            "attribution": {"mode": "block_trace"},
        });
        let got = Snapshot::of("h:1", 0, &sessions, &storage);
        let names: Vec<&str> = got.disks.iter().map(|d| d.disk.as_str()).collect();
        // The system's own disk is not the libraries'; one that nobody tells of is there all the same.
        assert_eq!(names, ["loop9", "sdb", "sdaa"]);
        assert_eq!((got.disks[1].temperature_c, got.disks[2].busy_share), (Some(31), None));
        assert_eq!((got.clock.as_str(), got.attribution.as_str()), ("00:00:00", "block_trace"));
        assert_eq!(got.raw["sessions"][0]["new"], json!({}));
        assert!(got.raw["volumes"][0].get("node").is_none());
        let nothing = Snapshot::of("h:1", 0, &json!([]), &json!("x"));
        assert_eq!((nothing.streams.len(), nothing.disks.len()), (0, 0));
    }

    #[test]
    fn disks_are_in_the_order_in_which_the_kernel_names_them() {
        let mut names = ["sdaa", "nvme10n1", "sdb", "nvme2n1", "loop3", "loop12", "sda"].map(str::to_owned);
        names.sort_by_key(|n| order(n));
        assert_eq!(names, ["loop3", "loop12", "nvme2n1", "nvme10n1", "sda", "sdb", "sdaa"]);
    }
}
