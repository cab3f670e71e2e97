//! The one file that an experiment writes: made by us alone, removed whatever happens, and never somebody else's.
//!
//! While it lives, a line about it lies in `<data-dir>/experiments/scratch`, locked by the program that uses it. A program that
//! is killed leaves both; the next start finds the line, sees that nobody holds it, and removes the file if it is provably ours:
//! a name with 128 random bits that we wrote down ourselves, a plain file with one name, the inode that was noted, our user.

use std::fmt;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use spindle_base::id::new_id;

use crate::error::BenchError;
use crate::store::Store;

/// Names of such files begin and end so, for people who find one.
const PREFIX: &str = ".spindle-bench-";
const SUFFIX: &str = ".tmp";
/// A line is short.
const MAX_LINE_BYTES: u64 = 64 << 10;

/// What is noted of a file.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    /// Its path, byte by byte: names need not be UTF-8.
    path: Vec<u8>,
    /// The folder's inode, to tell "removed" from "not mounted".
    folder_ino: u64,
    /// The file's inode; 0 before it is made.
    ino: u64,
    /// Who made it.
    uid: u32,
    /// The mount in which its removal is not to be believed, because the volume failed before it.
    #[serde(default)]
    doubted_in: Option<String>,
}

/// The file, there as long as this is.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    ino: u64,
    line: PathBuf,
    /// Held, so that nobody takes the file for left behind.
    lock: File,
    noted: Line,
    is_there: bool,
    is_noted: bool,
}

impl Scratch {
    /// Makes an empty file in `folder`: `O_EXCL`, mode 0600. What was left behind is not looked for here.
    ///
    /// # Errors
    /// No right to write there, a read-only filesystem, a data directory that cannot be written.
    pub fn create(store: &Store, folder: &Path) -> Result<(Self, File), BenchError> {
        let lines = lines_of(store);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&lines)
            .map_err(BenchError::file("make the folder", &lines))?;
        let folder = fs::canonicalize(folder).map_err(BenchError::file("find", folder))?;
        let id = new_id();
        let path = folder.join(format!("{PREFIX}{id}{SUFFIX}"));
        let line = lines.join(format!("{id}.json"));
        let folder_ino = fs::metadata(&folder).map_err(BenchError::file("look at", &folder))?.ino();
        let uid = rustix::process::geteuid().as_raw();
        let noted =
            Line { path: path.as_os_str().as_bytes().to_vec(), folder_ino, ino: 0, uid, doubted_in: None };
        // The line first: a program killed between the two leaves an empty file, and knows its name.
        let lock = make(&line).map_err(BenchError::file("write", &line))?;
        lock.try_lock().map_err(|e| BenchError::file("lock", &line)(lock_error(e)))?;
        let mut scratch =
            Self { path: path.clone(), ino: 0, line, lock, noted, is_there: false, is_noted: true };
        scratch.note()?;
        let made = make(&path).map_err(BenchError::file("make", &path))?;
        scratch.is_there = true;
        scratch.ino = made.metadata().map_err(BenchError::file("look at", &path))?.ino();
        scratch.noted.ino = scratch.ino;
        scratch.note()?;
        Ok((scratch, made))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it now, and says if that fails. Dropping does the same and cannot say.
    ///
    /// # Errors
    /// The filesystem has become read-only or is gone: the line stays, and the next start tries again.
    pub fn remove(mut self) -> Result<(), BenchError> {
        self.take_away()
    }

    /// Removes it from a volume that has failed. What such a volume says of a removal is not to be believed (ext4 answers from memory
    /// when its journal is gone): the note stays until the volume is mounted anew.
    ///
    /// # Errors
    /// As [`Scratch::remove`].
    pub fn remove_in_doubt(mut self) -> Result<(), BenchError> {
        self.noted.doubted_in = Some(self.path.parent().map_or_else(String::new, mount_of));
        self.note()?;
        self.is_noted = false;
        self.take_away()
    }

    fn note(&mut self) -> Result<(), BenchError> {
        write_line(&mut self.lock, &self.noted).map_err(BenchError::file("write", &self.line))
    }

    fn take_away(&mut self) -> Result<(), BenchError> {
        if self.is_there {
            match fs::symlink_metadata(&self.path) {
                Ok(meta) if meta.ino() == self.ino || self.ino == 0 => {
                    remove_for_good(&self.path).map_err(BenchError::file("remove", &self.path))?;
                }
                Ok(_) => {} // another file by the same name: not ours
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(source) => {
                    return Err(BenchError::File { what: "remove", path: self.path.clone(), source });
                }
            }
            self.is_there = false;
        }
        if !self.is_noted {
            return Ok(());
        }
        match fs::remove_file(&self.line) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other.map_err(BenchError::file("remove", &self.line)),
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = self.take_away() {
            tracing::warn!(%error, path = %self.path.display(), "a temporary file is left; the next start removes it");
        }
    }
}

/// What became of a file that an earlier run left.
#[derive(Debug, PartialEq, Eq)]
pub enum Left {
    /// It was removed.
    Removed(PathBuf),
    /// It stays, with the reason.
    Stays(PathBuf, String),
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Removed(path) => {
                write!(f, "removed `{}`, which a run that was killed had left", path.display())
            }
            Self::Stays(path, why) => {
                write!(f, "`{}`, which a run that was killed had left, stays: {why}", path.display())
            }
        }
    }
}

/// Removes what killed runs have left. Blocks on the volumes that they were on; does nothing where nothing was left.
#[must_use]
pub fn sweep(store: &Store) -> Vec<Left> {
    let Ok(entries) = fs::read_dir(lines_of(store)) else { return Vec::new() };
    let lines = entries.filter_map(|e| Some(e.ok()?.path()));
    lines.filter(|p| p.extension().is_some_and(|e| e == "json")).filter_map(|line| sweep_one(&line)).collect()
}

/// `None`: a run uses it, or there was nothing.
fn sweep_one(line: &Path) -> Option<Left> {
    let mut file = OpenOptions::new().read(true).write(true).open(line).ok()?;
    if file.try_lock().is_err() {
        return None; // in use, or nothing can be known
    }
    let mut text = Vec::new();
    (&mut file).take(MAX_LINE_BYTES).read_to_end(&mut text).ok()?;
    let Ok(noted) = serde_json::from_slice::<Line>(&text) else {
        // Killed while it was written: nothing had been made yet.
        let _gone = fs::remove_file(line);
        return None;
    };
    let path = PathBuf::from(std::ffi::OsString::from_vec(noted.path.clone()));
    let name_is_ours = line.file_stem().and_then(|id| id.to_str()).is_some_and(|id| {
        path.is_absolute() && path.file_name().is_some_and(|n| *n == *format!("{PREFIX}{id}{SUFFIX}"))
    });
    let seen = fs::symlink_metadata(&path);
    let folder = path.parent().and_then(|p| Some((fs::metadata(p).ok()?.ino(), mount_of(p))));
    let folder = folder.as_ref().map(|(ino, mount)| (*ino, mount.as_str()));
    match decide(&noted, name_is_ours, seen.as_ref().map(Facts::of), folder) {
        Action::Remove => match remove_for_good(&path) {
            Ok(()) => {
                let _gone = fs::remove_file(line);
                Some(Left::Removed(path))
            }
            Err(error) => Some(Left::Stays(path, error.to_string())),
        },
        Action::Forget => {
            let _gone = fs::remove_file(line);
            None
        }
        Action::Keep(why) => Some(Left::Stays(path, why)),
    }
}

/// What of a file decides whose it is.
#[derive(Debug, Clone, Copy)]
struct Facts {
    is_file: bool,
    ino: u64,
    uid: u32,
    links: u64,
    size_bytes: u64,
}

impl Facts {
    fn of(meta: &Metadata) -> Self {
        Self {
            is_file: meta.file_type().is_file(),
            ino: meta.ino(),
            uid: meta.uid(),
            links: meta.nlink(),
            size_bytes: meta.len(),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Action {
    Remove,
    Forget,
    Keep(String),
}

/// What to do about a line that nobody holds.
fn decide(
    noted: &Line,
    name_is_ours: bool,
    seen: Result<Facts, &io::Error>,
    folder: Option<(u64, &str)>,
) -> Action {
    if !name_is_ours {
        return Action::Keep("its name is not one that this program gives".to_owned());
    }
    match seen {
        // The folder that we knew says that it is gone: so it is. Another folder there is the mount point without its volume.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if folder.is_some_and(|f| noted.doubted_in.as_deref() == Some(f.1)) {
                Action::Keep("its volume has failed; mount it anew".to_owned())
            } else if folder.map(|f| f.0) == Some(noted.folder_ino) {
                Action::Forget
            } else {
                Action::Keep("its volume is not mounted".to_owned())
            }
        }
        Err(error) => Action::Keep(error.to_string()),
        Ok(facts) => {
            let is_same = if noted.ino == 0 { facts.size_bytes == 0 } else { facts.ino == noted.ino };
            if facts.is_file && facts.links == 1 && facts.uid == noted.uid && is_same {
                Action::Remove
            } else {
                Action::Keep("it is not the file that was made".to_owned())
            }
        }
    }
}

/// Removes a file, and waits until the folder on the disk says so: a volume that is about to turn read-only would take it back.
fn remove_for_good(path: &Path) -> io::Result<()> {
    fs::remove_file(path)?;
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

fn lines_of(store: &Store) -> PathBuf {
    store.folder().join("scratch")
}

fn make(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
}

/// Which mount a folder is in: this boot, and the number that the kernel gives to no other mount in it (statx(2), since 6.8).
fn mount_of(folder: &Path) -> String {
    use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
    /// `STATX_MNT_ID_UNIQUE` of `linux/stat.h`.
    const UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let seen = statx(CWD, folder, AtFlags::empty(), UNIQUE).ok();
    let mount = seen.filter(|s| s.stx_mask & UNIQUE.bits() != 0).map(|s| s.stx_mnt_id);
    format!("{} {}", boot.trim(), mount.map_or_else(|| "unknown".to_owned(), |m| m.to_string()))
}

fn lock_error(error: TryLockError) -> io::Error {
    match error {
        TryLockError::Error(error) => error,
        TryLockError::WouldBlock => io::Error::new(io::ErrorKind::WouldBlock, "another program holds it"),
    }
}

/// The line anew, on disk before anything depends on it.
fn write_line(file: &mut File, line: &Line) -> io::Result<()> {
    let text = serde_json::to_vec(line)?;
    file.rewind()?;
    file.write_all(&text)?;
    file.set_len(text.len() as u64)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn place() -> (tempfile::TempDir, Store, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let volume = dir.path().join("volume");
        fs::create_dir(&volume).unwrap();
        let store = Store::in_data_dir(&dir.path().join("data"));
        (dir, store, volume)
    }

    fn names(folder: &Path) -> Vec<String> {
        fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
    }

    /// As if the program had been killed: nothing of it runs, the lock goes with its descriptors.
    fn kill(scratch: Scratch) {
        let (line, path) = (scratch.line.clone(), scratch.path.clone());
        let (text, held) = (fs::read(&line).unwrap(), path.exists());
        drop(scratch);
        if held {
            // Its inode is free again and may be taken anew: the line is written for the file that is there now.
            fs::write(&path, b"left").unwrap();
        }
        let mut noted: Line = serde_json::from_slice(&text).unwrap();
        noted.ino = fs::metadata(&path).unwrap().ino();
        fs::write(&line, serde_json::to_vec(&noted).unwrap()).unwrap();
    }

    #[test]
    fn a_file_has_a_clear_name_is_nobody_elses_to_read_and_goes_with_its_owner() {
        let (_dir, store, volume) = place();
        let (scratch, _file) = Scratch::create(&store, &volume).unwrap();
        let name = scratch.path().file_name().unwrap().to_str().unwrap().to_owned();
        assert!(name.starts_with(".spindle-bench-") && name.ends_with(".tmp"), "{name}");
        assert_eq!(fs::metadata(scratch.path()).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(sweep(&store).is_empty(), "what is in use is left alone");
        assert!(scratch.path().exists());
        scratch.remove().unwrap();
        assert!(names(&volume).is_empty() && names(&lines_of(&store)).is_empty());
    }

    #[test]
    fn a_panic_leaves_nothing() {
        let (_dir, store, volume) = place();
        let inner = volume.clone();
        let ended = std::panic::catch_unwind(move || {
            let (_scratch, _file) = Scratch::create(&store, &inner).unwrap();
            panic!("on purpose");
        });
        assert!(ended.is_err() && names(&volume).is_empty());
    }

    #[test]
    fn what_a_killed_run_left_is_removed_at_the_next_start_and_nothing_else() {
        let (_dir, store, volume) = place();
        fs::write(volume.join("film.mkv"), "film").unwrap();
        fs::write(volume.join(".spindle-bench-somebody.tmp"), "not in our books").unwrap();
        let (scratch, _file) = Scratch::create(&store, &volume).unwrap();
        let path = scratch.path().to_owned();
        kill(scratch);
        assert!(path.exists());
        assert_eq!(sweep(&store), [Left::Removed(path)]);
        let mut left = names(&volume);
        left.sort();
        assert_eq!(left, [".spindle-bench-somebody.tmp", "film.mkv"]);
        assert!(sweep(&store).is_empty() && names(&lines_of(&store)).is_empty());
    }

    #[test]
    fn a_line_that_names_another_file_removes_nothing() {
        let (_dir, store, volume) = place();
        let film = volume.join("film.mkv");
        fs::write(&film, "film").unwrap();
        let (scratch, _file) = Scratch::create(&store, &volume).unwrap();
        kill(scratch);
        let line = fs::read_dir(lines_of(&store)).unwrap().next().unwrap().unwrap().path();
        let mut noted: Line = serde_json::from_slice(&fs::read(&line).unwrap()).unwrap();
        noted.path = film.as_os_str().as_bytes().to_vec();
        noted.ino = fs::metadata(&film).unwrap().ino();
        fs::write(&line, serde_json::to_vec(&noted).unwrap()).unwrap();
        assert!(matches!(&sweep(&store)[..], [Left::Stays(path, _)] if *path == film));
        assert!(film.exists());
        fs::write(&line, "{").unwrap();
        assert!(sweep(&store).is_empty() && film.exists());
    }

    #[test]
    fn a_file_is_ours_by_name_inode_owner_and_kind() {
        let noted = Line { path: Vec::new(), folder_ino: 7, ino: 5, uid: 1000, doubted_in: None };
        let ours = Facts { is_file: true, ino: 5, uid: 1000, links: 1, size_bytes: 9 };
        let asked = |noted: &Line, facts| decide(noted, true, Ok(facts), Some((7, "m")));
        assert_eq!(asked(&noted, ours), Action::Remove);
        for other in [
            Facts { is_file: false, ..ours },
            Facts { ino: 6, ..ours },
            Facts { uid: 0, ..ours },
            Facts { links: 2, ..ours },
        ] {
            assert!(matches!(asked(&noted, other), Action::Keep(_)), "{other:?}");
        }
        assert!(matches!(decide(&noted, false, Ok(ours), Some((7, "m"))), Action::Keep(_)));
        // Killed before the inode was noted: the file can only be empty.
        let early = Line { ino: 0, ..noted };
        assert!(matches!(asked(&early, ours), Action::Keep(_)));
        assert_eq!(asked(&early, Facts { size_bytes: 0, ..ours }), Action::Remove);
    }

    #[test]
    fn a_file_that_is_not_there_is_forgotten_only_if_its_volume_is() {
        let noted = Line { path: Vec::new(), folder_ino: 7, ino: 5, uid: 1000, doubted_in: None };
        let gone = io::Error::from(io::ErrorKind::NotFound);
        assert_eq!(decide(&noted, true, Err(&gone), Some((7, "m"))), Action::Forget);
        assert!(matches!(decide(&noted, true, Err(&gone), Some((8, "m"))), Action::Keep(_)));
        assert!(matches!(decide(&noted, true, Err(&gone), None), Action::Keep(_)));
        let doubted = Line { doubted_in: Some("m".to_owned()), path: Vec::new(), ..noted };
        assert!(matches!(decide(&doubted, true, Err(&gone), Some((7, "m"))), Action::Keep(_)));
        assert_eq!(decide(&doubted, true, Err(&gone), Some((7, "another"))), Action::Forget);
        let noted = doubted;
        let refused = io::Error::from(io::ErrorKind::PermissionDenied);
        assert!(matches!(decide(&noted, true, Err(&refused), Some((7, "m"))), Action::Keep(_)));
    }

    #[test]
    fn what_was_removed_from_a_volume_that_failed_is_looked_for_when_it_is_mounted_anew() {
        let (_dir, store, volume) = place();
        let (scratch, _file) = Scratch::create(&store, &volume).unwrap();
        let path = scratch.path().to_owned();
        scratch.remove_in_doubt().unwrap();
        assert!(!path.exists() && names(&lines_of(&store)).len() == 1);
        assert!(matches!(&sweep(&store)[..], [Left::Stays(at, _)] if *at == path));
    }

    #[test]
    fn where_nothing_may_be_written_nothing_is_noted() {
        let (_dir, store, volume) = place();
        assert!(Scratch::create(&store, &volume.join("missing")).is_err());
        assert!(Scratch::create(&store, Path::new("/proc")).is_err());
        assert!(names(&lines_of(&store)).is_empty());
    }
}
