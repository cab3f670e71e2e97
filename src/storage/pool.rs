//! Reader threads of one device: the only threads that wait for its disks.
//!
//! Each filesystem has its own, so that a disk that hangs holds up nothing that lies elsewhere. A stream
//! keeps to one thread while that is free: on a btrfs mirror the thread decides which copy is read, and a
//! sequential reader that changed disks with every request would make both of them seek.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use spindle_base::clock;
use tokio::sync::oneshot;

use crate::error::StorageError;

/// Threads per device. Four requests in flight let a disk's own queue sort them; twice as many would only
/// queue in the disk instead of here, where an asker that has gone can still be taken out. No btrfs
/// mirror has more than four copies, and threads started together have neighbouring ids.
pub(crate) const THREADS: usize = 4;

/// Waiting requests per device. Each open file has at most two (one wanted, one ahead), so this is some
/// two thousand viewers on one device; beyond that an error now is kinder than an answer in minutes.
/// A request is about 100 bytes: the bound costs 400 KiB.
const MAX_WAITING: usize = 4096;

/// Size of the throw-away buffer of a thread: stays in a second-level cache (see `sys::fill_cache`).
pub(crate) const BUFFER_BYTES: usize = 64 << 10;

/// What a thread lends to the request that it runs.
pub(crate) struct Lane<'a> {
    /// Kernel thread id, as the block trace shows it.
    pub(crate) tid: u32,
    /// Contents are undefined.
    pub(crate) buffer: &'a mut [u8],
}

/// A request.
pub(crate) struct Job {
    /// Requests with the same affinity run on the same thread while it is free.
    pub(crate) affinity: u64,
    /// Asked just before it would start: does anyone still wait for it?
    pub(crate) wanted: Box<dyn Fn() -> bool + Send>,
    pub(crate) run: Box<dyn FnOnce(&mut Lane<'_>) + Send>,
}

impl Job {
    /// A request with an answer. It is wanted as long as somebody waits for that.
    pub(crate) fn answering<T: Send + 'static>(
        affinity: u64,
        answer: oneshot::Sender<T>,
        work: impl FnOnce(&mut Lane<'_>) -> T + Send + 'static,
    ) -> Self {
        let answer = Arc::new(Mutex::new(Some(answer)));
        let asker = Arc::clone(&answer);
        Self {
            affinity,
            wanted: Box::new(move || {
                let asker = asker.lock().unwrap_or_else(PoisonError::into_inner);
                asker.as_ref().is_some_and(|a| !a.is_closed())
            }),
            run: Box::new(move |lane| {
                let result = work(lane);
                let taken = answer.lock().unwrap_or_else(PoisonError::into_inner).take();
                if let Some(answer) = taken {
                    // The asker may have gone meanwhile: what was read stays in the page cache.
                    let _ = answer.send(result);
                }
            }),
        }
    }
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Job>,
    busy: [bool; THREADS],
    running: usize,
    tids: Vec<u32>,
    is_closed: bool,
    /// No new requests are expected: the threads end when the queue is empty.
    is_retired: bool,
}

struct Inner {
    name: String,
    // Not `base::sync::Mutex`: a condition variable needs the standard guard. It is a leaf: nothing else is
    // locked under it.
    state: Mutex<State>,
    changed: Condvar,
}

/// The threads.
#[derive(Clone)]
pub(crate) struct Pool(Arc<Inner>);

impl Pool {
    /// Starts the threads; `name` tells people which device it is.
    pub(crate) fn start(name: &str) -> Result<Self, StorageError> {
        let inner = Arc::new(Inner {
            name: name.to_owned(),
            state: Mutex::new(State { running: THREADS, ..State::default() }),
            changed: Condvar::new(),
        });
        for i in 0..THREADS {
            let worker = Arc::clone(&inner);
            thread::Builder::new()
                .name(format!("read-{i} {name}"))
                .stack_size(256 << 10)
                .spawn(move || worker.work(i))
                .map_err(|source| {
                    inner.close();
                    StorageError::Thread { name: format!("read-{i} {name}"), source }
                })?;
        }
        Ok(Self(inner))
    }

    /// Puts a request in the queue.
    pub(crate) fn submit(&self, job: Job) -> Result<(), StorageError> {
        let mut state = self.0.lock();
        if state.is_closed || state.is_retired {
            return Err(StorageError::Closed);
        }
        if state.waiting.len() >= MAX_WAITING {
            state.waiting.retain(|j| (j.wanted)());
            if state.waiting.len() >= MAX_WAITING {
                return Err(StorageError::QueueFull { device: self.0.name.clone(), waiting: MAX_WAITING });
            }
        }
        state.waiting.push_back(job);
        drop(state);
        self.0.changed.notify_all();
        Ok(())
    }

    /// The threads serve what waits and end: for a filesystem that was unmounted, on which nothing is open.
    pub(crate) fn retire(&self) {
        self.0.lock().is_retired = true;
        self.0.changed.notify_all();
    }

    /// Whether nothing waits: speculative work may be added.
    pub(crate) fn is_idle(&self) -> bool {
        self.0.lock().waiting.is_empty()
    }

    /// Thread ids, once the threads have started.
    #[cfg(test)]
    pub(crate) fn tids(&self) -> Vec<u32> {
        self.0.lock().tids.clone()
    }

    /// Refuses new requests, drops waiting ones, and waits for the running ones, at most `patience`:
    /// a read from a dead disk cannot be cancelled, only left behind. `false` if one was.
    pub(crate) fn close(&self, patience: Duration) -> bool {
        self.0.close();
        let deadline = clock::instant() + patience;
        let mut state = self.0.lock();
        while state.running > 0 {
            let left = deadline.saturating_duration_since(clock::instant());
            if left.is_zero() {
                return false;
            }
            (state, _) = self.0.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
        }
        true
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        let dropped = std::mem::take(&mut state.waiting);
        drop(state);
        // Outside the lock: dropping an answer's sender wakes its asker.
        drop(dropped);
        self.changed.notify_all();
    }

    fn work(&self, index: usize) {
        let tid = u32::try_from(rustix::thread::gettid().as_raw_nonzero().get()).unwrap_or(0);
        let mut buffer = vec![0_u8; BUFFER_BYTES];
        self.lock().tids.push(tid);
        while let Some(job) = self.next(index) {
            // Abandon reads, never answers: `run` is only skipped when nobody holds the other end.
            if (job.wanted)() {
                let run = std::panic::AssertUnwindSafe(|| (job.run)(&mut Lane { tid, buffer: &mut buffer }));
                if std::panic::catch_unwind(run).is_err() {
                    tracing::error!(device = %self.name, "a read request panicked; its asker gets an error");
                }
            }
        }
        self.lock().running -= 1;
        self.changed.notify_all();
    }

    fn next(&self, index: usize) -> Option<Job> {
        let mut state = self.lock();
        state.busy[index] = false;
        loop {
            if state.is_closed || (state.is_retired && state.waiting.is_empty()) {
                return None;
            }
            if let Some(at) = choose(&state, index) {
                state.busy[index] = true;
                let job = state.waiting.remove(at);
                let more = !state.waiting.is_empty();
                drop(state);
                if more {
                    // Its own thread has just become busy: others may take what prefers it.
                    self.changed.notify_all();
                }
                return job;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// The first request that thread `index` should take: one of its own, or one whose own thread is busy.
fn choose(state: &State, index: usize) -> Option<usize> {
    let home = |j: &Job| usize::try_from(j.affinity % THREADS as u64).unwrap_or(0);
    state
        .waiting
        .iter()
        .position(|j| home(j) == index)
        .or_else(|| state.waiting.iter().position(|j| state.busy[home(j)]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn job(affinity: u64, run: impl FnOnce(&mut Lane<'_>) + Send + 'static) -> Job {
        Job { affinity, wanted: Box::new(|| true), run: Box::new(run) }
    }

    #[test]
    fn a_stream_keeps_its_thread_while_that_is_free() {
        let pool = Pool::start("t").unwrap();
        let (tx, rx) = mpsc::channel();
        for _ in 0..20 {
            let tx = tx.clone();
            pool.submit(job(3, move |l| tx.send(l.tid).unwrap())).unwrap();
            let _ = rx.recv().unwrap();
        }
        // The answer is sent before the thread is marked free again, so a neighbour may take a request
        // now and then; what matters is that requests are not dealt out in turn.
        let mut seen = Vec::new();
        for _ in 0..40 {
            let tx = tx.clone();
            pool.submit(job(3, move |l| tx.send(l.tid).unwrap())).unwrap();
            seen.push(rx.recv().unwrap());
            while pool.0.lock().busy.iter().any(|b| *b) {
                thread::yield_now();
            }
        }
        seen.dedup();
        assert!(seen.len() <= 2, "{seen:?}");
        assert_eq!(pool.tids().len(), THREADS);
        assert!(pool.close(Duration::from_secs(5)));
    }

    #[test]
    fn one_stuck_read_does_not_hold_up_the_stream_that_prefers_its_thread() {
        let pool = Pool::start("t").unwrap();
        let (hold, held) = mpsc::channel::<()>();
        let (started, wait) = mpsc::channel();
        pool.submit(job(1, move |_| {
            started.send(()).unwrap();
            let _ = held.recv();
        }))
        .unwrap();
        wait.recv().unwrap();
        let (tx, rx) = mpsc::channel();
        pool.submit(job(1, move |_| tx.send(()).unwrap())).unwrap();
        rx.recv_timeout(Duration::from_secs(20)).unwrap();
        drop(hold);
        assert!(pool.close(Duration::from_secs(5)));
    }

    #[test]
    fn a_request_whose_asker_has_gone_is_not_run() {
        let pool = Pool::start("t").unwrap();
        let (tx, rx) = mpsc::channel();
        let unwanted = tx.clone();
        pool.submit(Job {
            affinity: 0,
            wanted: Box::new(|| false),
            run: Box::new(move |_| unwanted.send("unwanted").unwrap()),
        })
        .unwrap();
        pool.submit(job(0, move |_| tx.send("wanted").unwrap())).unwrap();
        assert_eq!(rx.iter().collect::<Vec<_>>(), ["wanted"]);
        assert!(pool.close(Duration::from_secs(5)));
    }

    #[test]
    fn a_full_queue_is_over_limit_and_a_closed_one_says_so() {
        let pool = Pool::start("t").unwrap();
        let (hold, held) = mpsc::channel::<()>();
        let held = Arc::new(Mutex::new(held));
        for i in 0..THREADS as u64 {
            let held = Arc::clone(&held);
            pool.submit(job(i, move |_| { let _ = held.lock().unwrap().recv(); })).unwrap();
        }
        let mut refused = None;
        for _ in 0..=MAX_WAITING + THREADS {
            if let Err(e) = pool.submit(job(0, |_| ())) {
                refused = Some(e);
                break;
            }
        }
        assert_eq!(refused.unwrap().kind(), spindle_base::error::ErrorKind::OverLimit);
        drop(hold);
        assert!(pool.close(Duration::from_secs(5)));
        assert!(matches!(pool.submit(job(0, |_| ())), Err(StorageError::Closed)));
    }
}
