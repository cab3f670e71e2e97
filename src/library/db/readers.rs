//! A few threads, each with a connection that cannot write, behind one queue.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use rusqlite::Connection;

use super::writer::panic_text;
use crate::error::{LibraryError, Result};

/// Requests that may wait, see the writer's.
const QUEUE: usize = 4_096;

type Job = Box<dyn FnOnce(&Connection) + Send>;

#[derive(Debug)]
pub(super) struct Readers {
    queue: Arc<Queue>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// A plain mutex, as it belongs to its condition variable; nothing else is locked under it.
#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    closed: bool,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Queue")
    }
}

impl Readers {
    pub(super) fn start(connections: Vec<Connection>) -> io::Result<Self> {
        let queue = Arc::new(Queue::default());
        let mut threads = Vec::with_capacity(connections.len());
        for db in connections {
            let queue = Arc::clone(&queue);
            threads.push(std::thread::Builder::new().name("library-read".to_owned()).spawn(move || {
                while let Some(job) = queue.next() {
                    job(&db);
                }
            })?);
        }
        Ok(Self { queue, threads: Mutex::new(threads) })
    }

    pub(super) fn submit<T, F, A>(&self, job: F, ack: A) -> Result<()>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T> + Send + 'static,
        A: FnOnce(Result<T>) + Send + 'static,
    {
        let job: Job = Box::new(move |db| {
            ack(catch_unwind(AssertUnwindSafe(|| in_snapshot(db, job)))
                .unwrap_or_else(|panic| Err(LibraryError::Panicked(panic_text(panic.as_ref())))));
        });
        let mut state = self.queue.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.closed {
            return Err(LibraryError::Closed);
        }
        if state.jobs.len() >= QUEUE {
            return Err(LibraryError::Busy);
        }
        state.jobs.push_back(job);
        drop(state);
        self.queue.wake.notify_one();
        Ok(())
    }

    pub(super) fn close(&self) {
        self.queue.state.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        self.queue.wake.notify_all();
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            drop(thread.join());
        }
    }
}

impl Queue {
    /// The next request; `None` when closed and empty.
    fn next(&self) -> Option<Job> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            if state.closed {
                return None;
            }
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Several statements of one request see one state of the database: a list and its total agree.
fn in_snapshot<T>(db: &Connection, job: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
    // Outside a transaction already? A request that panicked left its own open.
    if !db.is_autocommit() {
        db.execute_batch("ROLLBACK")?;
    }
    db.execute_batch("BEGIN")?;
    let result = job(db);
    if !db.is_autocommit() {
        db.execute_batch("COMMIT")?;
    }
    result
}
