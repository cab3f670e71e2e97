//! Records on disk: `<data-dir>/experiments/<id>.json`, one file each, written whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::BenchError;
use crate::record::{Record, Summary, VERSION};

/// Most records that are kept: a list of them is read whole for each page view.
const MAX_RECORDS: usize = 1000;
/// Most bytes of one. A copy of an hour at five samples a second on twenty disks has 6 MB.
const MAX_BYTES: u64 = 16 << 20;
/// Length of an id (`base::id`).
const ID_CHARS: usize = 26;

/// The folder of records. Cheap to clone. Every call blocks on the disk of the data directory.
#[derive(Debug, Clone)]
pub struct Store {
    folder: PathBuf,
}

impl Store {
    /// In a data directory. Nothing is made until something is saved.
    #[must_use]
    pub fn in_data_dir(data_dir: &Path) -> Self {
        Self { folder: data_dir.join("experiments") }
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes the folder, and sees that there is room for one more record: before anything is measured.
    ///
    /// # Errors
    /// It cannot be made or written to; as many records are kept as may be.
    pub fn ready(&self) -> Result<(), BenchError> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.folder)
            .map_err(BenchError::file("make the folder", &self.folder))?;
        let kept = self.ids()?.len();
        if kept >= MAX_RECORDS {
            return Err(BenchError::TooMany { kept });
        }
        let probe = self.folder.join(format!(".{}.tmp", spindle_base::id::new_id()));
        create(&probe).map_err(BenchError::file("write to", &self.folder))?;
        fs::remove_file(&probe).map_err(BenchError::file("remove", &probe))
    }

    /// Writes a record: beside its place first, then by a rename, so that a reader finds all of it or nothing.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn save(&self, record: &Record) -> Result<(), BenchError> {
        let place = self.place(&record.id)?;
        let beside = self.folder.join(format!(".{}.tmp", record.id));
        let written = (|| {
            let mut file = create(&beside)?;
            file.write_all(&serde_json::to_vec(record)?)?;
            file.sync_all()?;
            fs::rename(&beside, &place)?;
            File::open(&self.folder)?.sync_all()
        })();
        written.map_err(|source| {
            let _gone_already = fs::remove_file(&beside);
            BenchError::File { what: "write the record", path: place, source }
        })
    }

    /// One record.
    ///
    /// # Errors
    /// There is none; it is damaged or of a newer version.
    pub fn get(&self, id: &str) -> Result<Record, BenchError> {
        let place = self.place(id)?;
        let bytes = match read(&place) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(BenchError::NoRecord { id: id.to_owned() });
            }
            Err(source) => return Err(BenchError::File { what: "read", path: place, source }),
        };
        parse(&bytes).map_err(|why| BenchError::Unreadable { id: id.to_owned(), why })
    }

    /// All of them, the latest first. One that cannot be read is listed with the reason, at the end.
    ///
    /// # Errors
    /// The folder cannot be read. That it is not there is no error.
    pub fn list(&self) -> Result<Vec<Summary>, BenchError> {
        let mut all: Vec<Summary> = Vec::new();
        for id in self.ids()?.into_iter().take(MAX_RECORDS) {
            match self.get(&id) {
                Ok(record) => all.push(record.summary()),
                Err(BenchError::NoRecord { .. }) => {} // removed meanwhile
                Err(error) => all.push(Summary {
                    id,
                    kind: None,
                    started: None,
                    ended: None,
                    interrupted: None,
                    path: None,
                    to: None,
                    topology: None,
                    verdict: String::new(),
                    unreadable: Some(reason(&error)),
                }),
            }
        }
        all.sort_by(|a, b| b.started.cmp(&a.started).then_with(|| a.id.cmp(&b.id)));
        Ok(all)
    }

    /// Removes one, readable or not.
    ///
    /// # Errors
    /// There is none, or it cannot be removed.
    pub fn remove(&self, id: &str) -> Result<(), BenchError> {
        let place = self.place(id)?;
        match fs::remove_file(&place) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(BenchError::NoRecord { id: id.to_owned() })
            }
            other => other.map_err(BenchError::file("remove", &place)),
        }
    }

    /// Where a record is. Ids come from addresses: whatever is none names no file.
    fn place(&self, id: &str) -> Result<PathBuf, BenchError> {
        let is_id = id.len() == ID_CHARS
            && id.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_lowercase() || b == b'_');
        if is_id {
            Ok(self.folder.join(format!("{id}.json")))
        } else {
            Err(BenchError::NoRecord { id: id.chars().take(64).collect() })
        }
    }

    fn ids(&self) -> Result<Vec<String>, BenchError> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(BenchError::File { what: "list", path: self.folder.clone(), source }),
        };
        let names = entries.filter_map(|e| e.ok()?.file_name().into_string().ok());
        let ids = names.filter_map(|n| Some(n.strip_suffix(".json")?.to_owned()));
        Ok(ids.filter(|id| self.place(id).is_ok()).collect())
    }
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).map_err(io::Error::other)?;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than 16 MiB"));
    }
    Ok(bytes)
}

/// A record of this version or an older one. There is no older one yet: what version 1 lacks has a default.
fn parse(bytes: &[u8]) -> Result<Record, String> {
    let value: Value = serde_json::from_slice(bytes).map_err(|e| format!("it is damaged ({e})"))?;
    match value.get("version").and_then(Value::as_u64) {
        Some(version) if version > u64::from(VERSION) => {
            Err(format!("it is of version {version}, this program reads up to {VERSION}"))
        }
        Some(1) => serde_json::from_value(value).map_err(|e| format!("it is damaged ({e})")),
        _ => Err("it says no version that was ever written".to_owned()),
    }
}

/// Why, without the place.
fn reason(error: &BenchError) -> String {
    match error {
        BenchError::Unreadable { why, .. } => why.clone(),
        BenchError::File { source, .. } => source.to_string(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Kind;
    use spindle_base::clock::{ManualClock, SharedClock};
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::Arc;

    fn at(second: u64) -> Record {
        let clock: SharedClock = Arc::new(ManualClock::at(second * 1_000_000));
        Record::begin(Kind::Blocks, &clock)
    }

    #[test]
    fn records_are_listed_the_latest_first_and_gone_when_removed() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::in_data_dir(dir.path());
        assert!(store.list().unwrap().is_empty());
        store.ready().unwrap();
        let (old, new) = (at(1), at(2));
        store.save(&old).unwrap();
        store.save(&new).unwrap();
        let ids: Vec<String> = store.list().unwrap().into_iter().map(|s| s.id).collect();
        assert_eq!(ids, [new.id.clone(), old.id.clone()]);
        assert_eq!(store.get(&old.id).unwrap(), old);
        let mode = fs::metadata(store.folder().join(format!("{}.json", old.id))).unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
        store.remove(&old.id).unwrap();
        assert!(matches!(store.get(&old.id), Err(BenchError::NoRecord { .. })));
        assert!(matches!(store.remove(&old.id), Err(BenchError::NoRecord { .. })));
        let names = fs::read_dir(store.folder()).unwrap().count();
        assert_eq!(names, 1, "nothing is left beside the record");
    }

    #[test]
    fn an_id_that_is_none_names_no_file() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("secret.json"), "{}").unwrap();
        let store = Store::in_data_dir(dir.path());
        store.ready().unwrap();
        for id in [
            "../secret",
            "",
            ".",
            &"a".repeat(27),
            "../../../../../etc/passwd0",
            "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
        ] {
            assert!(matches!(store.get(id), Err(BenchError::NoRecord { .. })), "{id}");
            assert!(matches!(store.remove(id), Err(BenchError::NoRecord { .. })), "{id}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_listed_with_the_reason_and_can_be_removed() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::in_data_dir(dir.path());
        store.ready().unwrap();
        let mut texts = vec!["{\"version\": 99}", "{", "[]", "{\"version\": 1}"];
        let good = at(5);
        store.save(&good).unwrap();
        let ids: Vec<String> = texts.iter().map(|_| spindle_base::id::new_id()).collect();
        for (id, text) in ids.iter().zip(texts.drain(..)) {
            fs::write(store.folder().join(format!("{id}.json")), text).unwrap();
        }
        let all = store.list().unwrap();
        assert_eq!(all.len(), 5);
        assert_eq!(all[0].id, good.id, "what can be read comes first");
        let newer = all.iter().find(|s| s.id == ids[0]).unwrap();
        assert_eq!(newer.unreadable.as_deref(), Some("it is of version 99, this program reads up to 1"));
        assert!(all[1..].iter().all(|s| s.unreadable.is_some()));
        assert_eq!(store.get(&ids[1]).unwrap_err().kind(), spindle_base::error::ErrorKind::Unreadable);
        store.remove(&ids[1]).unwrap();
        assert_eq!(store.list().unwrap().len(), 4);
    }

    #[test]
    fn a_folder_that_is_full_says_so_before_anything_is_measured() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::in_data_dir(dir.path());
        store.ready().unwrap();
        for _ in 0..MAX_RECORDS {
            File::create(store.folder().join(format!("{}.json", spindle_base::id::new_id()))).unwrap();
        }
        assert!(matches!(store.ready(), Err(BenchError::TooMany { kept: MAX_RECORDS })));
    }
}
