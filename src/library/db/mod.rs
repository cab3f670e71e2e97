//! The database: one thread that writes, a few that read, and how they are asked.
//!
//! Every statement of the server runs on one of these threads, so that no executor thread ever
//! waits for SQLite and no write waits for a lock that another write of ours holds. Closures go
//! in, values come out. Knows connections and transactions; what the tables mean is in `repo`.

mod migrate;
mod readers;
mod writer;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use spindle_base::clock::SharedClock;
use tokio::sync::oneshot;

use crate::error::{LibraryError, Result};
use readers::Readers;
use writer::Writer;

/// How many connections read at once. Reads are CPU work on cached pages: more than a few only
/// adds page caches. Four is what was measured with (`docs/design/library.md`).
const READERS: usize = 4;
/// How long SQLite waits for another process (`spindle user add` while the server runs).
const BUSY: Duration = Duration::from_secs(10);
/// Kilobytes of page cache: the writer's and each reader's.
const CACHE_KB: i64 = 4_096;

/// An open database.
#[derive(Debug)]
pub(crate) struct Db {
    path: PathBuf,
    /// Device and inode of the file, as it was opened.
    number: (u64, u64),
    writer: Writer,
    readers: Readers,
}

/// Makes a missing database file 0600, whatever the folder allows: it holds password hashes and the
/// key of media addresses. SQLite gives its journals the mode of the database.
fn make_private(path: &Path) -> Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut options = std::fs::OpenOptions::new();
    match options.write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(LibraryError::io("make", path)(error))
        }
        _ => Ok(()),
    }
}

fn number_of(path: &Path) -> std::io::Result<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(path).map(|m| (m.dev(), m.ino()))
}

impl Db {
    /// Opens `path`, makes it or brings it up to date. Refuses a newer one before touching it.
    pub(crate) fn open(path: &Path, clock: &SharedClock) -> Result<Self> {
        migrate::refuse_newer(path)?;
        make_private(path)?;
        let mut write = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
        migrate::run(&mut write, path, clock.unix_us())?;
        let mut reads = Vec::with_capacity(READERS);
        for _ in 0..READERS {
            let read = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
            reads.push(read);
        }
        let number = number_of(path).map_err(LibraryError::io("look at", path))?;
        Ok(Self {
            path: path.to_owned(),
            number,
            writer: Writer::start(write).map_err(LibraryError::io("start the writer thread of", path))?,
            readers: Readers::start(reads).map_err(LibraryError::io("start a reader thread of", path))?,
        })
    }

    /// Whether the file that is written to is still the one at its path: what goes into a deleted one is gone with the process.
    /// Blocking: looks up the path.
    pub(crate) fn is_in_place(&self) -> Result<()> {
        match number_of(&self.path) {
            Ok(number) if number == self.number => Ok(()),
            _ => Err(LibraryError::Replaced { path: self.path.clone() }),
        }
    }

    /// Runs `job` in a transaction. Resolves after the commit is on stable storage; an error of
    /// the job rolls back its own changes alone.
    pub(crate) async fn write<T, F>(&self, job: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T> + Send + 'static,
    {
        let (tx, rx) = oneshot::channel();
        self.writer.submit(job, move |result| drop(tx.send(result)))?;
        rx.await.map_err(|_| LibraryError::Closed)?
    }

    /// [`Db::write`] for a thread that may block. Never call it on an executor thread.
    pub(crate) fn write_blocking<T, F>(&self, job: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T> + Send + 'static,
    {
        let (tx, rx) = std::sync::mpsc::sync_channel(1);
        self.writer.submit(job, move |result| drop(tx.send(result)))?;
        rx.recv().map_err(|_| LibraryError::Closed)?
    }

    /// Runs `job` on a connection that cannot write. It sees every write acknowledged before.
    pub(crate) async fn read<T, F>(&self, job: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T> + Send + 'static,
    {
        let (tx, rx) = oneshot::channel();
        self.readers.submit(job, move |result| drop(tx.send(result)))?;
        rx.await.map_err(|_| LibraryError::Closed)?
    }

    /// [`Db::read`] for a thread that may block.
    pub(crate) fn read_blocking<T, F>(&self, job: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T> + Send + 'static,
    {
        let (tx, rx) = std::sync::mpsc::sync_channel(1);
        self.readers.submit(job, move |result| drop(tx.send(result)))?;
        rx.recv().map_err(|_| LibraryError::Closed)?
    }

    /// Writes a whole copy to `target`, which must not exist, while everything goes on.
    pub(crate) async fn copy_to(&self, target: PathBuf) -> Result<()> {
        self.read(move |db| copy(db, &target)).await
    }

    /// Finishes what was accepted, then closes the connections. Blocks.
    ///
    /// The writer goes last: the last connection moves the log into the database, which readers may not, and an owner who
    /// copies the one file then has everything.
    pub(crate) fn close(&self) {
        self.readers.close();
        self.writer.close();
    }
}

fn copy(db: &Connection, target: &Path) -> Result<()> {
    use std::os::unix::ffi::OsStrExt as _;
    let name = std::str::from_utf8(target.as_os_str().as_bytes())
        .map_err(|_| LibraryError::BadInput("the name of the copy is not UTF-8".to_owned()))?;
    // Refused inside a transaction: the reader's snapshot ends here.
    if !db.is_autocommit() {
        db.execute_batch("COMMIT")?;
    }
    db.execute("VACUUM INTO ?1", [name])?;
    Ok(())
}

fn connect(path: &Path, access: OpenFlags) -> Result<Connection> {
    let fail = |source| LibraryError::Open { path: path.to_owned(), source };
    let db = Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX).map_err(fail)?;
    db.busy_timeout(BUSY).map_err(fail)?;
    db.set_prepared_statement_cache_capacity(128);
    if access.contains(OpenFlags::SQLITE_OPEN_READ_WRITE) {
        // WAL needs shared memory, which some network and FUSE file systems lack; SQLite then
        // stays with a rollback journal, which is correct and only makes readers wait for commits.
        let mode: String =
            db.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0)).map_err(fail)?;
        if mode != "wal" {
            tracing::warn!(path = %path.display(), mode, "the data directory does not allow a write-ahead log");
        }
        // FULL: in WAL mode NORMAL survives `kill -9` but may lose the last commits to a power
        // cut, and a watch mark was promised. One fdatasync of the log per group of commits costs
        // a few ms on the system disk, off the path of every reader.
        db.pragma_update(None, "synchronous", "FULL").map_err(fail)?;
        db.pragma_update(None, "foreign_keys", true).map_err(fail)?;
        // Truncates a log that a long scan made large.
        db.pragma_update(None, "journal_size_limit", 16 * 1024 * 1024).map_err(fail)?;
    }
    db.pragma_update(None, "cache_size", -CACHE_KB).map_err(fail)?;
    db.pragma_update(None, "temp_store", "MEMORY").map_err(fail)?;
    Ok(db)
}

/// A byte count or similar as SQLite's only integer; values beyond cannot occur on a disk.
pub(crate) fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The reverse of [`int`].
pub(crate) fn uint(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}
