//! The one thread that writes: takes closures, runs those that wait together in one transaction,
//! and tells each its result only after the commit.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use rusqlite::Connection;
use spindle_base::sync::Mutex;

use crate::error::{LibraryError, Result};

/// Requests that may wait. A browser's whole household sends a few a second; beyond this
/// something is broken and gets an error instead of memory.
const QUEUE: usize = 4_096;
/// Requests that share one commit. The first waits for the last, so it stays small; a scan's
/// batches are one request each.
const GROUP: usize = 64;

/// Tells the asker; gets `Err` with the reason where the commit failed.
type Ack = Box<dyn FnOnce(std::result::Result<(), String>) + Send>;
type Job = Box<dyn FnOnce(&Connection) -> Ack + Send>;

#[derive(Debug)]
pub(super) struct Writer {
    queue: Mutex<Option<SyncSender<Job>>, 40>,
    thread: Mutex<Option<JoinHandle<()>>, 41>,
}

impl Writer {
    pub(super) fn start(mut db: Connection) -> io::Result<Self> {
        let (queue, jobs) = sync_channel::<Job>(QUEUE);
        let thread = std::thread::Builder::new().name("library-write".to_owned()).spawn(move || {
            while let Ok(first) = jobs.recv() {
                group(&mut db, first, &jobs);
            }
        })?;
        Ok(Self { queue: Mutex::new(Some(queue)), thread: Mutex::new(Some(thread)) })
    }

    pub(super) fn submit<T, F, A>(&self, job: F, ack: A) -> Result<()>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T> + Send + 'static,
        A: FnOnce(Result<T>) + Send + 'static,
    {
        let job: Job = Box::new(move |db| {
            let result = in_savepoint(db, job);
            Box::new(move |committed| {
                ack(match committed {
                    Ok(()) => result,
                    Err(reason) => result.and(Err(LibraryError::Commit(reason))),
                });
            })
        });
        let queue = self.queue.lock();
        match queue.as_ref().map(|q| q.try_send(job)) {
            Some(Ok(())) => Ok(()),
            Some(Err(TrySendError::Full(_))) => Err(LibraryError::Busy),
            Some(Err(TrySendError::Disconnected(_))) | None => Err(LibraryError::Closed),
        }
    }

    pub(super) fn close(&self) {
        drop(self.queue.lock().take());
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            drop(thread.join());
        }
    }
}

/// One transaction: `first`, and what waits behind it.
fn group(db: &mut Connection, first: Job, jobs: &Receiver<Job>) {
    let mut acks = Vec::new();
    // IMMEDIATE takes the write lock now: a deferred one could meet another process's commit
    // half-way and fail with BUSY where no waiting helps.
    let mut result = db.execute_batch("BEGIN IMMEDIATE").map_err(|e| e.to_string());
    let mut next = Some(first);
    while let Some(job) = next.take() {
        acks.push(job(db));
        // A full disk or an I/O error ends the whole transaction inside SQLite; what ran in it is gone.
        if result.is_ok() && db.is_autocommit() {
            result = Err("the transaction was rolled back".to_owned());
        }
        if result.is_ok() && acks.len() < GROUP {
            next = jobs.try_recv().ok();
        }
    }
    if result.is_ok() {
        result = db.execute_batch("COMMIT").map_err(|e| e.to_string());
    }
    if !db.is_autocommit() {
        drop(db.execute_batch("ROLLBACK"));
    }
    if let Err(reason) = &result {
        tracing::error!(reason, requests = acks.len(), "a commit to the library database failed");
    }
    for ack in acks {
        ack(result.clone());
    }
}

/// Runs one request so that its failure, even a panic, undoes its own changes and no others.
fn in_savepoint<T>(db: &Connection, job: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
    if db.is_autocommit() {
        return Err(LibraryError::Commit("no transaction could be started".to_owned()));
    }
    db.execute_batch("SAVEPOINT request")?;
    let result = catch_unwind(AssertUnwindSafe(|| job(db)))
        .unwrap_or_else(|panic| Err(LibraryError::Panicked(panic_text(panic.as_ref()))));
    if db.is_autocommit() {
        return result;
    }
    match result {
        Ok(value) => {
            db.execute_batch("RELEASE request")?;
            Ok(value)
        }
        Err(e) => {
            db.execute_batch("ROLLBACK TO request; RELEASE request")?;
            Err(e)
        }
    }
}

/// What a panic said.
pub(super) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|s| (*s).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}
