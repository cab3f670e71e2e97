//! Reader threads of one device: the only threads that wait for its disks.
//!
//! Each filesystem has its own, so that a disk that hangs holds up nothing that lies elsewhere. A stream
//! keeps to one thread while that is free: on a btrfs mirror the thread decides which copy is read, and a
//! sequential reader that changed disks with every request would make both of them seek.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

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

/// How long a request waits for its own thread before another takes it: one positioning of a disk. A
/// stream's next request often comes microseconds before its thread is free again; taking it at once
/// would deal the stream out over all threads, and on a mirror over all disks.
const LOYALTY: Duration = Duration::from_millis(8);

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
    /// Since when each thread has been at its request.
    busy: [Option<Instant>; THREADS],
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
        state.busy[index] = None;
        loop {
            if state.is_closed || (state.is_retired && state.waiting.is_empty()) {
                return None;
            }
            let now = clock::instant();
            match choose(&state, index, now) {
                Choice::Take(at) => {
                    state.busy[index] = Some(now);
                    let job = state.waiting.remove(at);
                    let more = !state.waiting.is_empty();
                    drop(state);
                    if more {
                        // Its own thread has just become busy: others may come to take what prefers it.
                        self.changed.notify_all();
                    }
                    return job;
                }
                Choice::Look(after) => {
                    (state, _) =
                        self.changed.wait_timeout(state, after).unwrap_or_else(PoisonError::into_inner);
                }
                Choice::Sleep => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

/// What a free thread does.
#[derive(Debug, PartialEq, Eq)]
enum Choice {
    /// The request at this place of the queue.
    Take(usize),
    /// Look again after this time.
    Look(Duration),
    Sleep,
}

/// The first request that thread `index` should take: one of its own, or one whose own thread has been busy
/// for too long.
fn choose(state: &State, index: usize, now: Instant) -> Choice {
    let home = |j: &Job| usize::try_from(j.affinity % THREADS as u64).unwrap_or(0);
    if let Some(at) = state.waiting.iter().position(|j| home(j) == index) {
        return Choice::Take(at);
    }
    let mut soonest = None;
    for (at, job) in state.waiting.iter().enumerate() {
        // A free thread will take its own by itself.
        let Some(since) = state.busy[home(job)] else { continue };
        match LOYALTY.checked_sub(now.saturating_duration_since(since)) {
            Some(left) if !left.is_zero() => soonest = Some(soonest.map_or(left, |s: Duration| s.min(left))),
            _ => return Choice::Take(at),
        }
    }
    soonest.map_or(Choice::Sleep, Choice::Look)
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
        let mut seen = Vec::new();
        for _ in 0..50 {
            let tx = tx.clone();
            // The next one comes while the thread is not yet free again.
            pool.submit(job(3, move |l| tx.send(l.tid).unwrap())).unwrap();
            seen.push(rx.recv().unwrap());
        }
        let home = seen.iter().filter(|t| **t == seen[0]).count();
        // A loaded machine may keep a thread off its CPU for longer than its loyalty lasts.
        assert!(home >= 40, "{seen:?}");
        assert_eq!(pool.tids().len(), THREADS);
        assert!(pool.close(Duration::from_secs(5)));
    }

    #[test]
    fn a_request_waits_for_its_own_thread_for_one_positioning_and_no_longer() {
        let now = clock::instant();
        let mut state = State::default();
        state.waiting.push_back(job(1, |_| ()));
        assert_eq!(choose(&state, 0, now), Choice::Sleep);
        assert_eq!(choose(&state, 1, now), Choice::Take(0));
        state.busy[1] = Some(now);
        assert_eq!(choose(&state, 0, now), Choice::Look(LOYALTY));
        assert_eq!(choose(&state, 0, now + LOYALTY), Choice::Take(0));
        state.waiting.push_back(job(4, |_| ()));
        assert_eq!(choose(&state, 0, now), Choice::Take(1));
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
            pool.submit(job(i, move |_| {
                let _ = held.lock().unwrap().recv();
            }))
            .unwrap();
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
