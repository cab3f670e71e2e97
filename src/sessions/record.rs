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

/// The tables that a record can be saved as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Table {
    /// A row a point in time: each disk, processor, system disk.
    #[default]
    Series,
    /// A row a disk: its sums.
    Disks,
    /// A row a jump, a stall or a fault, in order of time.
    Events,
    /// A row a part of the file that was read: when, and from which copy.
    Trail,
}

impl Table {
    /// Names, for whoever asks for another.
    pub const NAMES: &str = "series, disks, events or trail";

    /// By its name in a request.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "series" => Some(Self::Series),
            "disks" => Some(Self::Disks),
            "events" => Some(Self::Events),
            "trail" => Some(Self::Trail),
            _ => None,
        }
    }
}

impl IoView {
    /// As RFC 4180 has it, with a head.
    #[must_use]
    pub fn to_csv(&self, table: Table) -> String {
        match table {
            Table::Series => self.series_csv(),
            Table::Disks => self.disks_csv(),
            Table::Events => self.events_csv(),
            Table::Trail => self.trail_csv(),
        }
    }

    fn series_csv(&self) -> String {
        let series = &self.record.series;
        let mut out = String::from("t_s");
        for disk in series.disks.keys() {
            let _infallible =
                write!(out, ",{},{}", csv(&format!("{disk} read_bytes")), csv(&format!("{disk} reads")));
        }
        out.push_str(",cpu_share,system_disk read_bytes,system_disk write_bytes\r\n");
        for (row, t_s) in series.t_s.iter().enumerate() {
            let _infallible = write!(out, "{t_s}");
            for disk in series.disks.values() {
                let bytes = disk.read_bytes.get(row).copied().unwrap_or(0);
                let reads = disk.reads.get(row).copied().unwrap_or(0);
                let _infallible = write!(out, ",{bytes},{reads}");
            }
            let system = &series.system_disk;
            // What was not measured is empty, not nothing.
            let _infallible = write!(
                out,
                ",{},{},{}\r\n",
                or_empty(series.cpu_share.get(row)),
                or_empty(system.read_bytes.get(row)),
                or_empty(system.write_bytes.get(row))
            );
        }
        out
    }

    fn disks_csv(&self) -> String {
        let mut out = String::from(
            "disk,reads,read_bytes,metadata_bytes,parity_bytes,reconstruct_bytes,sequential_share,mean_request_bytes,latency_p50_us,latency_p95_us,latency_p99_us,share,busy_share\r\n",
        );
        for d in &self.record.disks {
            let _infallible = write!(
                out,
                "{},{},{},{},{},{},{},{},{},{},{},{},{}\r\n",
                csv(&d.disk),
                d.reads,
                d.read_bytes,
                d.metadata_bytes,
                d.parity_bytes,
                d.reconstruct_bytes,
                d.sequential_share,
                d.mean_request_bytes,
                d.latency_us.p50,
                d.latency_us.p95,
                d.latency_us.p99,
                d.share,
                d.busy_share
            );
        }
        out
    }

    fn events_csv(&self) -> String {
        let mut rows: Vec<(f64, String)> = Vec::new();
        for s in &self.record.seeks {
            let (before, after) = (csv(&s.disks_before.join(" ")), csv(&s.disks_after.join(" ")));
            rows.push((s.at_s, format!("jump,,{},{},{before},{after},", s.from_byte, s.to_byte)));
        }
        for s in &self.record.stalls {
            rows.push((s.at_s, format!("stall,{},,,,,{}", s.duration_s, csv(&s.cause))));
        }
        for f in &self.record.faults {
            rows.push((f.at_s, format!("fault,,,,{},,{}", csv(&f.disk), csv(&f.what))));
        }
        rows.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut out =
            String::from("at_s,event,duration_s,from_byte,to_byte,disks_before,disks_after,what\r\n");
        for (at_s, rest) in rows {
            let _infallible = write!(out, "{at_s},{rest}\r\n");
        }
        out
    }

    fn trail_csv(&self) -> String {
        let mut out = String::from("from_s,to_s,from_byte,to_byte,read_bytes,copy,memory\r\n");
        for r in self.record.trail.iter().flat_map(|t| &t.runs) {
            let _infallible = write!(
                out,
                "{},{},{},{},{},{},{}\r\n",
                r.from_s,
                r.to_s,
                r.from_byte,
                r.to_byte,
                r.read_bytes,
                or_empty(r.copy.as_ref()),
                r.memory
            );
        }
        out
    }
}

fn or_empty<T: ToString>(value: Option<&T>) -> String {
    value.map(ToString::to_string).unwrap_or_default()
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
        "columns": record.striping.columns,
        "columns_used": record.striping.columns_used,
        "stalls": record.stalls.len(),
        "verdict": record.striping.verdict,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view() -> IoView {
        let json = json!({
            "session": "s", "item": "i", "file": "f.mkv", "method": "direct_play", "client": "c",
            "started": "2026-11-01T00:00:00Z", "attribution": "block_trace",
            "served_bytes": 30, "read_bytes": 20, "cached_bytes": 10, "unattributed_bytes": 0,
            "disks": [{"disk": "sda", "reads": 2, "read_bytes": 20, "metadata_bytes": 4, "sequential_share": 0.5,
                "mean_request_bytes": 10, "latency_us": {"p50": 1, "p95": 2, "p99": 3}, "share": 1.0, "busy_share": 0.25}],
            "striping": {"columns": 1, "columns_used": 1, "evenness": 1.0, "verdict": ""},
            "seeks": [{"at_s": 2.5, "from_byte": 1, "to_byte": 2, "disks_before": ["sda", "sdb"], "disks_after": []}],
            "stalls": [{"at_s": 0.5, "duration_s": 1.5, "cause": "slow, and \"late\""}],
            "faults": [{"at_s": 3.0, "disk": "sdb", "what": "gone"}],
            "series": {"interval_ms": 1000, "t_s": [0.0, 1.0], "disks": {"sda": {"read_bytes": [20, 0], "reads": [2, 0]}},
                "cpu_share": [0.5], "system_disk": {"read_bytes": [7, 8], "write_bytes": [9]}},
            "trail": {"file_bytes": 100, "interval_ms": 1000, "gap_bytes": 10, "runs": [
                {"from_s": 0.0, "to_s": 0.5, "from_byte": 0, "to_byte": 20, "read_bytes": 20, "copy": 1},
                {"from_s": 1.0, "to_s": 1.0, "from_byte": 20, "to_byte": 30, "read_bytes": 10, "memory": true}]},
        });
        serde_json::from_value(json).expect("a record")
    }

    #[test]
    fn every_table_has_a_head_and_leaves_empty_what_was_not_measured() {
        let lines = |table| view().to_csv(table).lines().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(
            lines(Table::Series),
            [
                "t_s,sda read_bytes,sda reads,cpu_share,system_disk read_bytes,system_disk write_bytes",
                "0,20,2,0.5,7,9",
                "1,0,0,,8,"
            ]
        );
        assert_eq!(lines(Table::Disks)[1], "sda,2,20,4,0,0,0.5,10,1,2,3,1,0.25");
        assert_eq!(
            lines(Table::Events),
            [
                "at_s,event,duration_s,from_byte,to_byte,disks_before,disks_after,what",
                "0.5,stall,1.5,,,,,\"slow, and \"\"late\"\"\"",
                "2.5,jump,,1,2,sda sdb,,",
                "3,fault,,,,sdb,,gone"
            ]
        );
        assert_eq!(lines(Table::Trail)[1..], ["0,0.5,0,20,20,1,false", "1,1,20,30,10,,true"]);
        let old = IoView { record: IoRecord { trail: None, ..view().record }, ..view() };
        assert_eq!(old.to_csv(Table::Trail).lines().count(), 1);
    }

    #[test]
    fn a_name_from_elsewhere_cannot_make_up_columns() {
        let mut odd = view();
        let sda = odd.record.series.disks.remove("sda").expect("it");
        odd.record.series.disks.insert("a,b".to_owned(), sda);
        assert!(odd.to_csv(Table::Series).starts_with("t_s,\"a,b read_bytes\",\"a,b reads\",cpu_share"));
    }
}
