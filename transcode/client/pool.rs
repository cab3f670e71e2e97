//! Starting workers before they are needed, and counting those that work.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use spindle_base::shutdown::Shutdown;
use spindle_base::sync::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use crate::error::TranscodeError;
use crate::process::{Spawner, Worker};

/// Jobs of one answer that run at once; others wait their turn. They come from scans and pages,
/// which must not take the processor from those who watch.
const JOBS: usize = 2;

/// One idle worker in advance: a start costs 60 to 130 ms, which is more than the first segment
/// of a remux. It goes when nobody looked at anything for a while: it holds 40 MB, 20 of them its own.
#[derive(Debug)]
pub(crate) struct Pool {
    spawner: Spawner,
    // Rank 50: taken alone.
    spare: Mutex<Spare, 50>,
    // Rank 51: taken alone. Workers that have done a job and may do another.
    idle: Mutex<Idle, 51>,
    // Rank 52: taken alone.
    slots: Mutex<Slots, 52>,
    jobs: Semaphore,
    max_workers: usize,
    spare_stays: Duration,
    shutdown: Shutdown,
}

#[derive(Debug, Default)]
struct Slots {
    held: BTreeMap<u64, Held>,
    next: u64,
}

struct Held {
    /// Since when its worker has had nothing to do.
    rests_since: Option<Instant>,
    give_way: Box<dyn FnOnce() + Send>,
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Held").field("rests_since", &self.rests_since).finish_non_exhaustive()
    }
}

/// The place of a worker, given back when dropped. While its worker rests another may take it.
#[derive(Debug)]
pub(crate) struct Slot {
    id: u64,
    pool: Arc<Pool>,
}

impl Slot {
    /// Its worker has nothing to do from now on.
    pub(crate) fn rest(&self) {
        if let Some(held) = self.pool.slots.lock().held.get_mut(&self.id) {
            held.rests_since.get_or_insert_with(Instant::now);
        }
    }

    /// Its worker is about to get work; `false` if the place was taken meanwhile.
    #[must_use]
    pub(crate) fn work(&self) -> bool {
        match self.pool.slots.lock().held.get_mut(&self.id) {
            Some(held) => {
                held.rests_since = None;
                true
            }
            None => false,
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let held = self.pool.slots.lock().held.remove(&self.id);
        drop(held);
    }
}

/// How long a worker waits for another job: a scan's next file comes at once, or not at all.
const IDLE: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
struct Idle {
    workers: Vec<(u64, Worker)>,
    next: u64,
}

#[derive(Debug)]
struct Spare {
    worker: Option<Worker>,
    coming: bool,
    /// When a worker was last likely to be needed soon.
    expected: Instant,
    /// Somebody watches the time.
    watched: bool,
}

impl Default for Spare {
    fn default() -> Self {
        Self { worker: None, coming: false, expected: Instant::now(), watched: false }
    }
}

impl Pool {
    pub(crate) fn new(
        spawner: Spawner,
        max_workers: usize,
        spare_stays: Duration,
        shutdown: Shutdown,
    ) -> Self {
        Self {
            spawner,
            spare: Mutex::default(),
            idle: Mutex::default(),
            slots: Mutex::default(),
            jobs: Semaphore::new(JOBS),
            max_workers,
            spare_stays,
            shutdown,
        }
    }

    /// The right to run one segmenter: a place that is free, or with `insist` that of the worker that has
    /// rested longest, whose `give_way` is called. `give_way` is what the new holder will be called by.
    pub(crate) fn slot(
        self: &Arc<Self>,
        insist: bool,
        give_way: impl FnOnce() + Send + 'static,
    ) -> Option<Slot> {
        let (slot, ousted) = {
            let mut slots = self.slots.lock();
            let mut ousted = None;
            if slots.held.len() >= self.max_workers {
                let longest = slots
                    .held
                    .iter()
                    .filter_map(|(id, held)| held.rests_since.map(|since| (since, *id)))
                    .min()
                    .filter(|_| insist);
                ousted = slots.held.remove(&longest?.1);
            }
            slots.next += 1;
            let id = slots.next;
            slots.held.insert(id, Held { rests_since: None, give_way: Box::new(give_way) });
            (Slot { id, pool: Arc::clone(self) }, ousted)
        };
        if let Some(ousted) = ousted {
            (ousted.give_way)();
        }
        Some(slot)
    }

    /// The turn of a job of one answer.
    pub(crate) async fn job_permit(&self) -> Result<SemaphorePermit<'_>, TranscodeError> {
        self.jobs.acquire().await.map_err(|_| TranscodeError::Stopping)
    }

    /// Whether [`Pool::slot`] would give one.
    pub(crate) fn has_slot(&self) -> bool {
        let slots = self.slots.lock();
        slots.held.len() < self.max_workers || slots.held.values().any(|held| held.rests_since.is_some())
    }

    pub(crate) fn max_workers(&self) -> usize {
        self.max_workers
    }

    pub(crate) fn shutdown(&self) -> &Shutdown {
        &self.shutdown
    }

    /// A worker that has done nothing yet: the spare, or a new one.
    pub(crate) async fn take(self: &Arc<Self>) -> Result<Worker, TranscodeError> {
        if self.shutdown.is_requested() {
            return Err(TranscodeError::Stopping);
        }
        let spare = self.spare.lock().worker.take();
        // A spare that died in the meantime is no spare.
        let spare = spare.and_then(|mut worker| worker.is_quiet().then_some(worker));
        let worker = match spare {
            Some(worker) => worker,
            None => self.spawner.worker().await?,
        };
        self.refill();
        Ok(worker)
    }

    /// A worker for a job of one answer: one that has done such a job before, or one that has done nothing.
    pub(crate) async fn take_for_job(self: &Arc<Self>) -> Result<Worker, TranscodeError> {
        loop {
            let Some((_, mut worker)) = self.idle.lock().workers.pop() else {
                return self.take().await;
            };
            if worker.is_quiet() {
                return Ok(worker);
            }
        }
    }

    /// Takes back a worker whose job has ended well, for the next one within some seconds: a process a picture
    /// would cost more than the picture.
    pub(crate) fn give_back(self: &Arc<Self>, worker: Worker) {
        let ticket = {
            let mut idle = self.idle.lock();
            if idle.workers.len() >= JOBS || self.shutdown.is_requested() {
                return;
            }
            idle.next += 1;
            let ticket = idle.next;
            idle.workers.push((ticket, worker));
            ticket
        };
        let pool = Arc::clone(self);
        self.shutdown.spawn("transcode idle worker", async move {
            tokio::select! {
                () = tokio::time::sleep(IDLE) => {}
                () = pool.shutdown.requested() => {}
            }
            let ended: Vec<_> = {
                let mut idle = pool.idle.lock();
                idle.workers.extract_if(.., |(t, _)| *t == ticket).collect()
            };
            drop(ended);
        });
    }

    /// A worker that is not to be replaced by another spare: for the long-lived prober.
    pub(crate) async fn fresh(&self) -> Result<Worker, TranscodeError> {
        self.spawner.worker().await
    }

    pub(crate) fn has_spare(&self) -> bool {
        self.spare.lock().worker.is_some()
    }

    /// Says that a worker will likely be needed soon: there will be a spare.
    pub(crate) fn expect_work(self: &Arc<Self>) {
        self.spare.lock().expected = Instant::now();
        self.refill();
    }

    /// Keeps a worker as the spare if there is none.
    pub(crate) fn keep(self: &Arc<Self>, worker: Worker) {
        {
            let mut spare = self.spare.lock();
            if spare.worker.is_some() || self.shutdown.is_requested() {
                return;
            }
            spare.worker = Some(worker);
            // A start that took long must not have been for nothing.
            spare.expected = Instant::now();
            if std::mem::replace(&mut spare.watched, true) {
                return;
            }
        }
        let pool = Arc::clone(self);
        self.shutdown.spawn("transcode spare's end", async move { pool.end_unexpected().await });
    }

    /// Ends the spare once nobody expects work; returns when there is none to end.
    async fn end_unexpected(&self) {
        loop {
            let until = self.spare.lock().expected + self.spare_stays;
            tokio::select! {
                () = tokio::time::sleep_until(until) => {}
                () = self.shutdown.requested() => return,
            }
            let mut spare = self.spare.lock();
            if spare.worker.is_none() || spare.expected + self.spare_stays <= Instant::now() {
                spare.watched = false;
                let ended = spare.worker.take();
                drop(spare);
                drop(ended);
                return;
            }
        }
    }

    /// Ends the spare.
    pub(crate) fn close(&self) {
        let spare = self.spare.lock().worker.take();
        drop(spare);
        let idle = std::mem::take(&mut self.idle.lock().workers);
        drop(idle);
    }

    fn refill(self: &Arc<Self>) {
        {
            let mut spare = self.spare.lock();
            if spare.worker.is_some() || spare.coming {
                return;
            }
            spare.coming = true;
        }
        let pool = Arc::clone(self);
        self.shutdown.spawn("transcode spare", async move {
            let made = pool.spawner.worker().await;
            pool.spare.lock().coming = false;
            match made {
                Ok(worker) => pool.keep(worker),
                Err(error) => tracing::warn!(%error, "unable to start a spare worker"),
            }
        });
    }
}
