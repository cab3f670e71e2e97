//! What an experiment leaves: one document, the same frame for every kind, with rows and whatever the kind adds.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use spindle_base::clock::{SharedClock, rfc3339};
use spindle_base::id::new_id;
use spindle_storage::{LayoutKind, Node, Topology};

use crate::machine::Machine;

/// The form that is written. A reader takes this and older ones; a newer one is refused by name.
pub const VERSION: u32 = 1;

/// Which experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Small and large, in order and anywhere, one request and many at once.
    Corners,
    /// One reader and one writer, from small blocks to large ones.
    Blocks,
    /// From one volume to another.
    Copy,
    /// Between a client and the server.
    Net,
    /// Streams as players ask for them.
    Stream,
}

impl Kind {
    /// As it is written in a command and in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Corners => "corners",
            Self::Blocks => "blocks",
            Self::Copy => "copy",
            Self::Net => "net",
            Self::Stream => "stream",
        }
    }
}

/// A volume in few words, as it was when the experiment ran.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct VolumeSummary {
    /// `btrfs`, `ext4`, ..
    pub filesystem: String,
    /// Where it is mounted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mount: Option<String>,
    /// The topmost storey: `btrfs`, `md`, `disk`, ..
    pub kind: String,
    /// `raid1` and the like.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// How bytes are kept.
    pub layout: LayoutKind,
    /// Disks that one large read can use at once.
    pub columns: u32,
    /// Copies of each byte.
    pub copies: u32,
    /// Physical disks, by their names in `/sys/block`.
    pub disks: Vec<String>,
    /// Whether any of them turns; absent where unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotational: Option<bool>,
}

impl VolumeSummary {
    /// Of a topology.
    #[must_use]
    pub fn of(topology: &Topology) -> Self {
        let mut rotational = None;
        visit(&topology.node, &mut |node| {
            if let Some(turns) = node.disk.rotational {
                rotational = Some(rotational.unwrap_or(false) || turns);
            }
        });
        Self {
            filesystem: topology.filesystem.kind.clone(),
            mount: Some(topology.filesystem.mount.to_string_lossy().into_owned()),
            kind: topology.node.kind.clone(),
            level: topology.node.level.clone(),
            layout: topology.layout,
            columns: topology.columns,
            copies: topology.copies,
            disks: topology.disks.clone(),
            rotational,
        }
    }
}

/// Every node of a tree, itself first.
pub fn visit<'a>(node: &'a Node, see: &mut impl FnMut(&'a Node)) {
    see(node);
    for child in &node.children {
        visit(child, see);
    }
}

/// An experiment that has run, or ran until it was stopped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// See [`VERSION`].
    pub version: u32,
    /// Its name in the store and in addresses.
    pub id: String,
    /// Which experiment.
    pub kind: Kind,
    /// When it began, RFC 3339 UTC.
    pub started: String,
    /// When it ended, or was stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// Why it ended before its time; what was measured until then is in `rows`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<String>,
    /// The folder or file it was about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The volume under `path`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<VolumeSummary>,
    /// Where it copied to, or which server it measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The volume under `to`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_topology: Option<VolumeSummary>,
    /// The machine, and what else it did.
    #[serde(default)]
    pub machine: Machine,
    /// The result in one sentence.
    #[serde(default)]
    pub verdict: String,
    /// What a reader of the figures has to know: other load, a cache that could not be passed by.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The table.
    #[serde(default)]
    pub rows: Vec<Value>,
    /// What the kind adds: `series`, `knee`, ..
    #[serde(flatten)]
    pub details: Map<String, Value>,
}

/// What a list shows of a record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Its id.
    pub id: String,
    /// Which experiment; absent where the record cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// When it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<String>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// Why it ended before its time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<String>,
    /// What it was about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// And where to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<VolumeSummary>,
    /// The result in one sentence.
    #[serde(default)]
    pub verdict: String,
    /// Why the record cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
}

/// Details that name no place of the machine and no file of its owner.
const SHARED: [&str; 4] = ["series", "knee", "file_bytes", "seconds_each"];

impl Record {
    /// A record that begins now.
    #[must_use]
    pub fn begin(kind: Kind, clock: &SharedClock) -> Self {
        Self {
            version: VERSION,
            id: new_id(),
            kind,
            started: rfc3339(clock.unix_us()),
            ended: None,
            interrupted: None,
            path: None,
            topology: None,
            to: None,
            to_topology: None,
            machine: Machine::default(),
            verdict: String::new(),
            notes: Vec::new(),
            rows: Vec::new(),
            details: Map::new(),
        }
    }

    /// Says what it is about. A name that is not UTF-8 is kept as far as it is.
    pub fn about(&mut self, path: &std::path::Path, topology: &Topology) {
        self.path = Some(path.to_string_lossy().into_owned());
        self.topology = Some(VolumeSummary::of(topology));
    }

    /// Says where it goes to.
    pub fn about_target(&mut self, path: &std::path::Path, topology: &Topology) {
        self.to = Some(path.to_string_lossy().into_owned());
        self.to_topology = Some(VolumeSummary::of(topology));
    }

    /// Adds a row of the table.
    pub fn row(&mut self, row: &impl Serialize) {
        self.rows.extend(serde_json::to_value(row).ok());
    }

    /// Adds something that only this kind has. The frame's own names are taken.
    pub fn detail(&mut self, name: &str, value: &impl Serialize) {
        if let Ok(value) = serde_json::to_value(value) {
            self.details.insert(name.to_owned(), value);
        }
    }

    /// What a list shows.
    #[must_use]
    pub fn summary(&self) -> Summary {
        Summary {
            id: self.id.clone(),
            kind: Some(self.kind),
            started: Some(self.started.clone()),
            ended: self.ended.clone(),
            interrupted: self.interrupted.clone(),
            path: self.path.clone(),
            to: self.to.clone(),
            topology: self.topology.clone(),
            verdict: self.verdict.clone(),
            unreadable: None,
        }
    }

    /// Without names of places and files: what somebody may see who does not own the machine.
    #[must_use]
    pub fn without_places(mut self) -> Self {
        (self.path, self.to) = (None, None);
        for volume in [&mut self.topology, &mut self.to_topology].into_iter().flatten() {
            volume.mount = None;
        }
        self.interrupted = self.interrupted.map(|_| "it ended before its time".to_owned());
        self.notes.clear();
        if matches!(self.kind, Kind::Stream) {
            // What was played is its player's business.
            (self.rows, self.verdict) = (Vec::new(), String::new());
        }
        self.details.retain(|name, _| SHARED.contains(&name.as_str()));
        self
    }

    /// The rows as comma-separated values (RFC 4180): the columns in the order in which they first appear.
    #[must_use]
    pub fn to_csv(&self) -> String {
        let mut columns: Vec<&str> = Vec::new();
        for key in self.rows.iter().filter_map(Value::as_object).flat_map(Map::keys) {
            if !columns.contains(&key.as_str()) {
                columns.push(key);
            }
        }
        let mut out = columns.iter().map(|c| cell(&Value::from(*c))).collect::<Vec<_>>().join(",");
        out.push_str("\r\n");
        for row in &self.rows {
            let cells: Vec<String> =
                columns.iter().map(|c| row.get(*c).map_or_else(String::new, cell)).collect();
            out.push_str(&cells.join(","));
            out.push_str("\r\n");
        }
        out
    }
}

impl Summary {
    /// As [`Record::without_places`].
    #[must_use]
    pub fn without_places(mut self) -> Self {
        (self.path, self.to) = (None, None);
        if let Some(volume) = &mut self.topology {
            volume.mount = None;
        }
        self.interrupted = self.interrupted.map(|_| "it ended before its time".to_owned());
        if self.kind == Some(Kind::Stream) {
            self.verdict.clear();
        }
        self
    }
}

/// One field. A text that a spreadsheet would take for a formula is kept from being one by an apostrophe.
fn cell(value: &Value) -> String {
    let text = match value {
        Value::Null => String::new(),
        Value::String(text) if text.starts_with(['=', '+', '-', '@', '\t', '\r']) => format!("'{text}"),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use spindle_base::clock::ManualClock;
    use std::sync::Arc;

    fn record() -> Record {
        let clock: SharedClock = Arc::new(ManualClock::at(784_111_777_000_000));
        Record::begin(Kind::Corners, &clock)
    }

    #[test]
    fn a_record_reads_back_as_it_was_written_and_what_its_kind_adds_stands_at_the_top() {
        let mut written = record();
        written.row(&json!({"pattern": "random_read", "iops": 76.5}));
        written.detail("knee", &json!({"at_s": 3.0}));
        let text = serde_json::to_value(&written).unwrap();
        assert_eq!(text["knee"]["at_s"], 3.0);
        assert_eq!(text["started"], "1994-11-06T08:49:37Z");
        assert_eq!(serde_json::from_value::<Record>(text).unwrap(), written);
    }

    #[test]
    fn a_record_that_names_less_still_reads() {
        let old = json!({"version": 1, "id": "a", "kind": "net", "started": "1994-11-06T08:49:37Z"});
        let read: Record = serde_json::from_value(old).unwrap();
        assert!(read.rows.is_empty() && read.topology.is_none() && read.interrupted.is_none());
    }

    #[test]
    fn csv_has_every_column_once_quotes_what_needs_it_and_starts_no_formula() {
        let mut record = record();
        record.row(&json!({"a": 1, "b": "x,\"y\""}));
        record.row(&json!({"a": -2.5, "c": "=1+1"}));
        assert_eq!(record.to_csv(), "a,b,c\r\n1,\"x,\"\"y\"\"\",\r\n-2.5,,'=1+1\r\n");
    }

    #[test]
    fn somebody_else_sees_figures_and_no_places() {
        let mut record = record();
        record.path = Some("/srv/private".to_owned());
        record.notes.push("unable to sync /srv/private".to_owned());
        record.topology =
            Some(VolumeSummary { mount: Some("/srv".to_owned()), columns: 2, ..VolumeSummary::default() });
        record.row(&json!({"iops": 1}));
        record.detail("knee", &json!(1));
        record.detail("files", &json!(["/srv/private/a"]));
        let shown = serde_json::to_string(&record.clone().without_places()).unwrap();
        assert!(!shown.contains("/srv"), "{shown}");
        assert!(shown.contains("iops") && shown.contains("knee"), "{shown}");
        let listed = serde_json::to_string(&record.summary().without_places()).unwrap();
        assert!(!listed.contains("/srv"), "{listed}");
    }
}
