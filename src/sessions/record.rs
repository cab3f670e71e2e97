//! The I/O record of a session as the API gives it: as JSON, and as CSV for a spreadsheet.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use serde_json::json;
use spindle_storage::{AttributionMode, IoRecord};

use super::{Session, word};

/// The record with what it is a record of.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct IoView {
    /// The session's id.
    pub session: String,
    /// The item's id.
    pub item: String,
    /// Path of the file below its library.
    pub file: String,
    /// `direct_play`, `direct_stream`, `transcode`.
    pub method: String,
    /// The client's name.
    pub client: String,
    /// What the disks did.
    #[serde(flatten)]
    pub record: IoRecord,
}

impl IoView {
    /// One row a point of the series: time, then bytes and reads of each disk.
    #[must_use]
    pub fn to_csv(&self) -> String {
        let series = &self.record.series;
        let mut out = String::from("t_s");
        for disk in series.disks.keys() {
            let _infallible = write!(out, ",{0} read_bytes,{0} reads", csv(disk));
        }
        out.push_str(",cpu_share\r\n");
        for (row, t_s) in series.t_s.iter().enumerate() {
            let _infallible = write!(out, "{t_s}");
            for disk in series.disks.values() {
                let bytes = disk.read_bytes.get(row).copied().unwrap_or(0);
                let reads = disk.reads.get(row).copied().unwrap_or(0);
                let _infallible = write!(out, ",{bytes},{reads}");
            }
            match series.cpu_share.get(row) {
                Some(share) => {
                    let _infallible = write!(out, ",{share}");
                }
                None => out.push(','),
            }
            out.push_str("\r\n");
        }
        out
    }
}

/// RFC 4180 section 2: a field with a comma, a quote or a line end is quoted.
fn csv(field: &str) -> String {
    if field.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

/// What the history shows of a record.
pub(super) fn summary(record: Option<&IoRecord>, session: &Session) -> serde_json::Value {
    let Some(record) = record else {
        return json!({ "file": session.file_name, "attribution": AttributionMode::None });
    };
    json!({
        "file": session.file_name,
        "method": word(session.decision.method),
        "attribution": record.attribution,
        "served_bytes": record.served_bytes,
        "read_bytes": record.read_bytes,
        "cached_bytes": record.cached_bytes,
        "input_bytes": record.input_bytes,
        "input_cached_bytes": record.input_cached_bytes,
        "disks": record.disks.iter().map(|d| json!({
            "disk": d.disk, "read_bytes": d.read_bytes, "share": d.share,
        })).collect::<Vec<_>>(),
        "verdict": record.striping.verdict,
    })
}
