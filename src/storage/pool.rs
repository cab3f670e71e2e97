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

/// A read that takes longer hangs: a disk that wakes up, or one that will not. When all threads are at such
/// reads, spare ones are started, so that what lies on other disks of the same filesystem goes on.
const HANGS_AFTER: Duration = Duration::from_secs(2);

/// Spare threads per device, at most. A viewer of a hung disk holds up to `HANGING_PER_STREAM` of them.
const SPARES: usize = 64;

/// Hanging reads that one stream may have: what it waits for, what is read ahead of that, and what it asks for
/// after a jump. Others of it wait for these.
const HANGING_PER_STREAM: usize = 3;

/// A spare thread that has nothing to do for so long ends.
const SPARE_IDLE: Duration = Duration::from_secs(10);

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
    /// One that runs whoever has gone: nobody waits for it.
    pub(crate) fn always(affinity: u64, run: impl FnOnce(&mut Lane<'_>) + Send + 'static) -> Self {
        Self { affinity, wanted: Box::new(|| true), run: Box::new(run) }
    }

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
    /// Threads, spare ones and the one that watches included.
    running: usize,
    /// Of them, spare ones.
    spares: usize,
    /// Reads under way, on any thread.
    reads: Vec<Reading>,
    /// The thread that watches looks by itself: nobody need wake it.
    is_watched: bool,
    tids: Vec<u32>,
    is_closed: bool,
    /// No new requests are expected: the threads end when the queue is empty.
    is_retired: bool,
}

/// A read under way.
#[derive(Debug, Clone, Copy)]
struct Reading {
    tid: u32,
    affinity: u64,
    since: Instant,
}

impl State {
    /// Whether threads end.
    fn is_over(&self) -> bool {
        self.is_closed || (self.is_retired && self.waiting.is_empty())
    }

    /// Requests wait, and no thread is free to look at them.
    fn is_blocked(&self) -> bool {
        !self.waiting.is_empty() && self.reads.len() >= THREADS + self.spares
    }

    /// Whether a stream has as many hanging reads as it may.
    fn has_its_share(&self, affinity: u64, now: Instant) -> bool {
        let hangs = |r: &&Reading| r.affinity == affinity && r.hangs(now);
        self.reads.iter().filter(hangs).count() >= HANGING_PER_STREAM
    }

    /// How many threads to add: one for each request that may run, if every thread hangs.
    fn spares_wanted(&self, now: Instant) -> usize {
        if !self.is_blocked() || !self.reads.iter().all(|r| r.hangs(now)) {
            return 0;
        }
        let fit = self.waiting.iter().filter(|j| !self.has_its_share(j.affinity, now)).count();
        fit.min(SPARES.saturating_sub(self.spares))
    }
}

impl Reading {
    fn hangs(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) >= HANGS_AFTER
    }
}

struct Inner {
    name: String,
    // Not `base::sync::Mutex`: a condition variable needs the standard guard. It is a leaf: nothing else is
    // locked under it.
    state: Mutex<State>,
    /// One a thread: a request wakes the one that it prefers, not all of them.
    changed: [Condvar; THREADS],
    /// For spare threads.
    spare: Condvar,
    /// For the thread that watches: no thread is free.
    blocked: Condvar,
    /// A thread has ended.
    ended: Condvar,
}

/// The threads.
#[derive(Clone)]
pub(crate) struct Pool(Arc<Inner>);

impl Pool {
    /// Starts the threads; `name` tells people which device it is.
    pub(crate) fn start(name: &str) -> Result<Self, StorageError> {
        let inner = Arc::new(Inner {
            name: name.to_owned(),
            state: Mutex::new(State { running: THREADS + 1, ..State::default() }),
            changed: std::array::from_fn(|_| Condvar::new()),
            spare: Condvar::new(),
            blocked: Condvar::new(),
            ended: Condvar::new(),
        });
        let started =
            (0..THREADS).try_for_each(|i| inner.spawn(format!("read-{i} {name}"), move |w| w.work(i)));
        started
            .and_then(|()| inner.spawn(format!("read-watch {name}"), |w| w.watch()))
            .inspect_err(|_| inner.close())?;
        Ok(Self(inner))
    }

    /// Puts a request in the queue.
    pub(crate) fn submit(&self, job: Job) -> Result<(), StorageError> {
        self.put(job, MAX_WAITING)
    }

    /// Puts a request in the queue however many wait: one that only gives back what is held already (closes a file), and
    /// would have to be done by the caller otherwise. The process's limit of open files is theirs.
    pub(crate) fn submit_release(&self, job: Job) -> Result<(), StorageError> {
        self.put(job, usize::MAX)
    }

    fn put(&self, job: Job, most: usize) -> Result<(), StorageError> {
        // Dropped after the lock is: with the last request of a file goes the file, which asks for its own close here.
        let mut gone = Vec::new();
        let mut state = self.0.lock();
        if state.is_closed || state.is_retired {
            return Err(StorageError::Closed);
        }
        if state.waiting.len() >= most {
            for job in std::mem::take(&mut state.waiting) {
                if (job.wanted)() { state.waiting.push_back(job) } else { gone.push(job) }
            }
            if state.waiting.len() >= most {
                return Err(StorageError::QueueFull { device: self.0.name.clone(), waiting: MAX_WAITING });
            }
        }
        let home = home(&job);
        state.waiting.push_back(job);
        let is_free = state.busy[home].is_none();
        self.0.wake_watch(&state);
        drop(state);
        if is_free {
            self.0.changed[home].notify_one();
        } else {
            // Somebody may have to take it for the one that is busy.
            self.0.wake_all();
        }
        Ok(())
    }

    /// The threads serve what waits and end: for a filesystem that was unmounted, on which nothing is open.
    pub(crate) fn retire(&self) {
        self.0.lock().is_retired = true;
        self.0.wake_all();
        self.0.blocked.notify_one();
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
            (state, _) = self.0.ended.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
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
        self.wake_all();
        self.blocked.notify_one();
    }

    fn wake_all(&self) {
        self.changed.iter().for_each(Condvar::notify_one);
        self.spare.notify_all();
    }

    /// Wakes the thread that watches, if there is something to watch and it does not do so already.
    fn wake_watch(&self, state: &State) {
        if !state.is_watched && state.is_blocked() {
            self.blocked.notify_one();
        }
    }

    fn spawn(
        self: &Arc<Self>,
        name: String,
        run: impl FnOnce(Arc<Self>) + Send + 'static,
    ) -> Result<(), StorageError> {
        let inner = Arc::clone(self);
        thread::Builder::new()
            .name(name.clone())
            .stack_size(256 << 10)
            .spawn(move || run(inner))
            .map(drop)
            .map_err(|source| StorageError::Thread { name, source })
    }

    /// Starts spare threads while all others hang. Sleeps unless requests wait and no thread is free.
    fn watch(self: &Arc<Self>) {
        let mut state = self.lock();
        while !state.is_over() {
            state.is_watched = state.is_blocked();
            if !state.is_watched {
                state = self.blocked.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let more = state.spares_wanted(clock::instant());
            let first = state.spares;
            state.spares += more;
            state.running += more;
            drop(state);
            if more > 0 {
                tracing::warn!(device = %self.name, threads = more, "reads hang: others go on on spare threads");
            }
            for i in first..first + more {
                if let Err(error) = self.spawn(format!("read+{i} {}", self.name), |w| w.work(THREADS)) {
                    tracing::warn!(device = %self.name, error = %error, "no spare thread");
                    let mut state = self.lock();
                    state.spares -= 1;
                    state.running -= 1;
                }
            }
            state = self.lock();
            (state, _) =
                self.blocked.wait_timeout(state, HANGS_AFTER / 4).unwrap_or_else(PoisonError::into_inner);
        }
        state.running -= 1;
        drop(state);
        self.ended.notify_all();
    }

    /// A thread's life. `index` is its own number, or `THREADS` for every spare one.
    fn work(&self, index: usize) {
        let tid = u32::try_from(rustix::thread::gettid().as_raw_nonzero().get()).unwrap_or(0);
        let mut buffer = vec![0_u8; BUFFER_BYTES];
        if index < THREADS {
            self.lock().tids.push(tid);
        }
        while let Some(job) = self.next(index, tid) {
            // Abandon reads, never answers: `run` is only skipped when nobody holds the other end.
            if (job.wanted)() {
                let run = std::panic::AssertUnwindSafe(|| (job.run)(&mut Lane { tid, buffer: &mut buffer }));
                if std::panic::catch_unwind(run).is_err() {
                    tracing::error!(device = %self.name, "a read request panicked; its asker gets an error");
                }
            }
        }
        let mut state = self.lock();
        state.running -= 1;
        state.spares -= usize::from(index >= THREADS);
        drop(state);
        self.ended.notify_all();
    }

    fn next(&self, index: usize, tid: u32) -> Option<Job> {
        let mut state = self.lock();
        state.reads.retain(|r| r.tid != tid);
        if let Some(busy) = state.busy.get_mut(index) {
            *busy = None;
        }
        let changed = self.changed.get(index).unwrap_or(&self.spare);
        let mut idle_since = None;
        loop {
            if state.is_over() {
                return None;
            }
            let now = clock::instant();
            let wait = match choose(&state, index, now) {
                Choice::Take(at) => {
                    if let Some(busy) = state.busy.get_mut(index) {
                        *busy = Some(now);
                    }
                    let job = state.waiting.remove(at)?;
                    state.reads.push(Reading { tid, affinity: job.affinity, since: now });
                    self.wake_watch(&state);
                    let more = !state.waiting.is_empty();
                    drop(state);
                    if more {
                        // Its own thread has just become busy: others may come to take what prefers it.
                        self.wake_all();
                    }
                    return Some(job);
                }
                Choice::Look(after) => Some(after),
                Choice::Sleep => None,
            };
            let wait = if index < THREADS {
                wait
            } else {
                let idle = now.saturating_duration_since(*idle_since.get_or_insert(now));
                if idle >= SPARE_IDLE {
                    return None;
                }
                Some(wait.unwrap_or(SPARE_IDLE).min(SPARE_IDLE - idle))
            };
            state = match wait {
                Some(after) => changed.wait_timeout(state, after).unwrap_or_else(PoisonError::into_inner).0,
                None => changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

/// The thread that a request prefers.
fn home(job: &Job) -> usize {
    usize::try_from(job.affinity % THREADS as u64).unwrap_or(0)
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
    let hangs = state.reads.iter().any(|r| r.hangs(now));
    let may_run = |j: &Job| !hangs || !state.has_its_share(j.affinity, now);
    if let Some(at) = state.waiting.iter().position(|j| home(j) == index && may_run(j)) {
        return Choice::Take(at);
    }
    let mut soonest = None;
    for (at, job) in state.waiting.iter().enumerate() {
        // A free thread will take its own by itself.
        let Some(since) = state.busy[home(job)] else { continue };
        if !may_run(job) {
            continue;
        }
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

    #[test]
    fn a_stream_keeps_its_thread_while_that_is_free() {
        let pool = Pool::start("t").unwrap();
        let (tx, rx) = mpsc::channel();
        let (mut seen, mut before) = (Vec::new(), None);
        for _ in 0..50 {
            let (tx, submitted) = (tx.clone(), clock::instant());
            // The next one comes while the thread is not yet free again.
            pool.submit(Job::always(3, move |l| tx.send((l.tid, clock::instant())).unwrap())).unwrap();
            let (tid, ran): (u32, Instant) = rx.recv().unwrap();
            seen.push(tid);
            // Its thread began its last one after that was submitted: nobody else may have lost patience yet.
            if before.is_some_and(|before| ran.duration_since(before) < LOYALTY) {
                assert_eq!(tid, seen[0], "{seen:?}");
            }
            if tid == seen[0] {
                before = Some(submitted);
            }
        }
        let home = seen.iter().filter(|t| **t == seen[0]).count();
        // A loaded machine may keep a thread off its CPU for longer than its loyalty lasts; without loyalty each thread would
        // have about its even share. The rule itself is held without time by the next test.
        assert!(home * 2 >= seen.len(), "{seen:?}");
        for _ in 0..6000 {
            // The other threads have had nothing to do, and may not have begun.
            if pool.tids().len() == THREADS {
                break;
            }
            thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(pool.tids().len(), THREADS);
        assert!(pool.close(Duration::from_secs(5)));
    }

    #[test]
    fn a_request_waits_for_its_own_thread_for_one_positioning_and_no_longer() {
        let now = clock::instant();
        let mut state = State::default();
        state.waiting.push_back(Job::always(1, |_| ()));
        assert_eq!(choose(&state, 0, now), Choice::Sleep);
        assert_eq!(choose(&state, 1, now), Choice::Take(0));
        state.busy[1] = Some(now);
        assert_eq!(choose(&state, 0, now), Choice::Look(LOYALTY));
        assert_eq!(choose(&state, 0, now + LOYALTY), Choice::Take(0));
        state.waiting.push_back(Job::always(4, |_| ()));
        assert_eq!(choose(&state, 0, now), Choice::Take(1));
    }

    #[test]
    fn one_stuck_read_does_not_hold_up_the_stream_that_prefers_its_thread() {
        let pool = Pool::start("t").unwrap();
        let (hold, held) = mpsc::channel::<()>();
        let (started, wait) = mpsc::channel();
        pool.submit(Job::always(1, move |_| {
            started.send(()).unwrap();
            let _ = held.recv();
        }))
        .unwrap();
        wait.recv().unwrap();
        let (tx, rx) = mpsc::channel();
        pool.submit(Job::always(1, move |_| tx.send(()).unwrap())).unwrap();
        rx.recv_timeout(Duration::from_secs(20)).unwrap();
        drop(hold);
        assert!(pool.close(Duration::from_secs(5)));
    }

    #[test]
    fn streams_on_a_disk_that_hangs_leave_threads_to_those_on_others() {
        let pool = Pool::start("t").unwrap();
        let (hold, held) = mpsc::channel::<()>();
        let held = Arc::new(Mutex::new(held));
        // Six viewers of a hung disk: two requests each, three times as many as there are threads.
        for n in 0..12 {
            let held = Arc::clone(&held);
            pool.submit(Job::always(n % 6, move |_| {
                let _ = held.lock().unwrap_or_else(PoisonError::into_inner).recv();
            }))
            .unwrap();
        }
        let (tx, rx) = mpsc::channel();
        for _ in 0..20 {
            let tx = tx.clone();
            pool.submit(Job::always(7, move |_| tx.send(()).unwrap())).unwrap();
            rx.recv_timeout(Duration::from_secs(30)).unwrap();
        }
        drop(hold);
        assert!(pool.close(Duration::from_secs(20)));
    }

    #[test]
    fn spare_threads_are_wanted_only_when_all_hang_and_no_stream_gets_more_than_its_share() {
        let now = clock::instant();
        let then = now.checked_sub(HANGS_AFTER).unwrap();
        let read = |tid, affinity, since| Reading { tid, affinity, since };
        let mut state = State::default();
        state.waiting.push_back(Job::always(9, |_| ()));
        state.waiting.push_back(Job::always(1, |_| ()));
        state.reads = (0..4).map(|tid| read(tid, 1, if tid == 3 { now } else { then })).collect();
        assert_eq!(state.spares_wanted(now), 0);
        state.reads[3].since = then;
        // Stream 1 has four reads that hang, and waits for them.
        assert_eq!(state.spares_wanted(now), 1);
        assert_eq!(choose(&state, THREADS, now), Choice::Sleep);
        state.busy = [Some(then); THREADS];
        assert_eq!(choose(&state, THREADS, now), Choice::Take(0));
        state.spares = SPARES;
        assert_eq!(state.spares_wanted(now), 0);
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
        pool.submit(Job::always(0, move |_| tx.send("wanted").unwrap())).unwrap();
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
            pool.submit(Job::always(i, move |_| {
                let _ = held.lock().unwrap().recv();
            }))
            .unwrap();
        }
        let mut refused = None;
        for _ in 0..=MAX_WAITING + THREADS {
            if let Err(e) = pool.submit(Job::always(0, |_| ())) {
                refused = Some(e);
                break;
            }
        }
        assert_eq!(refused.unwrap().kind(), spindle_base::error::ErrorKind::OverLimit);
        let (released, wait) = mpsc::channel();
        pool.submit_release(Job::always(0, move |_| released.send(thread::current().id()).unwrap())).unwrap();
        drop(hold);
        assert_ne!(wait.recv_timeout(Duration::from_secs(60)).unwrap(), thread::current().id());
        assert!(pool.close(Duration::from_secs(5)));
        assert!(matches!(pool.submit(Job::always(0, |_| ())), Err(StorageError::Closed)));
    }
}
