//! One title cut one way: who watches, which workers make it, who waits for what.
//!
//! An actor owns the state; handles talk to it. Each turn it asks [`crate::window::plan`] what to
//! do and does it. Workers report through one channel; a worker that is silent although it has
//! work is killed, and what it was asked for is tried once more.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Serialize;
use spindle_base::sync::Mutex;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::cache::{Cache, Piece, Segment};
use crate::error::TranscodeError;
use crate::plan::{Plan, RenditionKey};
use crate::pool::{Pool, Slot};
use crate::process::{Sender, Worker};
use crate::protocol::{FailKind, Reply, Request, WorkerRead};
use crate::transcoder::Registry;
use crate::window::{self, Action, Window, WorkerAt};

/// Longest silence of a worker that has work. Two attempts and two starts stay within 15 s; a
/// disk that spins up answers within the two.
const HANG: Duration = Duration::from_secs(6);
/// A worker without grants that nobody asked for so long gives its place back: nobody needs it, and a viewer who
/// comes back has it again within 0.2 s.
const IDLE: Duration = Duration::from_secs(8);
/// After the last viewer left, workers are kept for a page that is loaded again.
const GRACE: Duration = Duration::from_secs(4);
/// Longest wait for a segment whose worker does move on.
const LONGEST: Duration = Duration::from_secs(60);

/// A media file that is open for a worker. Whoever opened it knows how it is closed: that waits for a mount that hangs.
pub type InputFile = Box<dyn AsFd + Send + Sync>;

/// A boxed future, so that the traits here stay object-safe.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// How the worker's input is opened and how its reads are told to the recorder.
pub trait Input: Send + Sync + 'static {
    /// The file, open for reading.
    ///
    /// # Errors
    /// Why it cannot be opened, for the one who watches.
    fn open(&self) -> BoxFuture<'_, std::io::Result<InputFile>>;
    /// A worker with this process id is about to read the file.
    fn worker_started(&self, pid: u32);
    /// What a worker read, in order.
    fn reads(&self, rows: Vec<WorkerRead>);
}

/// A viewer of a rendition. Clones are the same viewer; the viewer leaves with the last of them.
#[derive(Debug, Clone)]
pub struct Rendition {
    handle: Arc<Viewer>,
}

#[derive(Debug)]
struct Viewer {
    id: u64,
    orders: mpsc::UnboundedSender<Command>,
    cache: Arc<Cache>,
    key: RenditionKey,
    segments: usize,
    status: SharedStatus,
}

impl Drop for Viewer {
    fn drop(&mut self) {
        let _ = self.orders.send(Command::Leave { viewer: self.id });
    }
}

impl Rendition {
    /// The init segment.
    ///
    /// # Errors
    /// As [`Rendition::segment`].
    pub async fn init(&self) -> Result<Segment, TranscodeError> {
        self.piece(None).await
    }

    /// Segment `n`, in any order.
    ///
    /// # Errors
    /// `OverLimit` if every worker is in use by others; `TimedOut` or `Unavailable` within 15 s if
    /// workers hang or die twice; `Unreadable` if the file cannot be made into this rendition.
    pub async fn segment(&self, n: usize) -> Result<Segment, TranscodeError> {
        if n >= self.handle.segments {
            return Err(TranscodeError::BadRequest(format!("no segment {n}")));
        }
        self.piece(Some(n)).await
    }

    async fn piece(&self, piece: Piece) -> Result<Segment, TranscodeError> {
        let (answer, result) = oneshot::channel();
        let want = Command::Want { viewer: self.handle.id, piece, answer };
        // Also when it is cached: the actor must know where its viewers are.
        let cached = self.handle.cache.get(self.handle.key, piece);
        self.handle.orders.send(want).map_err(|_| TranscodeError::Stopping)?;
        match cached {
            Some(segment) => Ok(segment),
            None => result.await.map_err(|_| TranscodeError::Stopping)?,
        }
    }

    /// What works for it now.
    #[must_use]
    pub fn status(&self) -> RenditionStatus {
        self.handle.status.lock().clone()
    }
}

/// What works for a rendition.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct RenditionStatus {
    /// Its workers.
    pub workers: Vec<WorkerStatus>,
    /// Viewers that joined and have not left.
    pub viewers: usize,
}

/// One worker of a rendition.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct WorkerStatus {
    /// Process id; absent while it starts.
    pub pid: Option<u32>,
    /// The segment that it makes now or would make next.
    pub next: usize,
    /// Segments that it has been asked for and not delivered.
    pub granted: usize,
    /// Seconds of the presentation made in a second, of the last segment.
    pub speed: Option<f64>,
    /// `copy`, `software` or the name of the hardware that encodes.
    pub encoder: String,
}

/// What handles tell their actor.
#[derive(Debug)]
pub(crate) enum Command {
    Join { viewer: u64 },
    Leave { viewer: u64 },
    Want { viewer: u64, piece: Piece, answer: oneshot::Sender<Result<Segment, TranscodeError>> },
}

/// What every rendition of a transcoder shares.
#[derive(Debug, Clone)]
pub(crate) struct Studio {
    pub(crate) pool: Arc<Pool>,
    pub(crate) cache: Arc<Cache>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) run_ahead: usize,
}

/// A new viewer of the rendition, whose actor is started if there is none.
pub(crate) fn join(studio: Studio, key: RenditionKey, plan: Plan, input: Arc<dyn Input>) -> Rendition {
    static IDS: AtomicU64 = AtomicU64::new(1);
    let id = IDS.fetch_add(1, Ordering::Relaxed);
    let cache = Arc::clone(&studio.cache);
    let segments = plan.boundaries.segments();
    let registry = Arc::clone(&studio.registry);
    // Joining happens under the lock under which an actor decides to end.
    let mut known = registry.lock();
    let joined =
        known.get(&key).filter(|entry| entry.orders.send(Command::Join { viewer: id }).is_ok()).cloned();
    let entry = joined.unwrap_or_else(|| {
        let (orders, inbox) = mpsc::unbounded_channel();
        let _ = orders.send(Command::Join { viewer: id });
        let entry = Entry { orders, status: Arc::default() };
        known.insert(key, entry.clone());
        let shutdown = studio.pool.shutdown().clone();
        let actor = Actor::new(studio, key, plan, input, Arc::clone(&entry.status));
        shutdown.spawn("rendition", actor.run(inbox));
        entry
    });
    drop(known);
    Rendition {
        handle: Arc::new(Viewer { id, orders: entry.orders, cache, key, segments, status: entry.status }),
    }
}

/// A rendition that has an actor.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    orders: mpsc::UnboundedSender<Command>,
    status: SharedStatus,
}

// Rank 20: taken alone.
type SharedStatus = Arc<Mutex<RenditionStatus, 20>>;

/// Someone waits for a piece.
#[derive(Default)]
struct Waiting {
    answers: Vec<oneshot::Sender<Result<Segment, TranscodeError>>>,
    since: Option<Instant>,
    /// Workers that died or hung on it.
    attempts: u32,
}

/// A worker of this rendition.
struct Live {
    id: u64,
    state: LiveState,
    next: usize,
    granted_to: usize,
    epoch: u32,
    /// Output files that the worker holds, by epoch and piece.
    out: HashMap<(u32, Piece), File>,
    last_heard: Instant,
    last_used: Instant,
    speed: Option<f64>,
    slot: Slot,
}

enum LiveState {
    /// A process is being taken from the pool and the file opened.
    Starting,
    /// It has the plan.
    Running(Running),
}

struct Running {
    pid: u32,
    sender: Sender,
    pump: AbortHandle,
    opened: bool,
    encoder: String,
    /// Whoever opened it is told by its drop that the worker reads no more.
    _file: Arc<InputFile>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // The pump owns the process: ending it kills the worker.
        self.pump.abort();
    }
}

impl Live {
    /// Whether it owes us something.
    fn is_busy(&self) -> bool {
        match &self.state {
            LiveState::Starting => false,
            LiveState::Running(running) => !running.opened || !self.out.is_empty(),
        }
    }
}

/// What happens to a worker, as told to the actor.
enum Event {
    Started(Result<(Worker, InputFile), TranscodeError>),
    Said(Reply),
    Died,
    /// Another rendition has its place.
    Ousted,
}

struct Actor {
    studio: Studio,
    key: RenditionKey,
    plan: Plan,
    input: Arc<dyn Input>,
    status: SharedStatus,
    /// The last segment that each viewer asked for; `None` before the first.
    viewers: HashMap<u64, Option<usize>>,
    lonely_since: Option<Instant>,
    waiting: BTreeMap<Piece, Waiting>,
    workers: Vec<Live>,
    next_worker: u64,
    tell: mpsc::UnboundedSender<(u64, Event)>,
    events: mpsc::UnboundedReceiver<(u64, Event)>,
}

impl Actor {
    fn new(
        studio: Studio,
        key: RenditionKey,
        plan: Plan,
        input: Arc<dyn Input>,
        status: SharedStatus,
    ) -> Self {
        let (tell, events) = mpsc::unbounded_channel();
        Self {
            studio,
            key,
            plan,
            input,
            status,
            viewers: HashMap::new(),
            lonely_since: None,
            waiting: BTreeMap::new(),
            workers: Vec::new(),
            next_worker: 0,
            tell,
            events,
        }
    }

    async fn run(mut self, mut orders: mpsc::UnboundedReceiver<Command>) {
        let stop = self.studio.pool.shutdown().token();
        // Half a second is fine enough for limits of seconds.
        let mut ticks = tokio::time::interval(Duration::from_millis(500));
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                order = orders.recv() => match order {
                    Some(order) => self.take_order(order),
                    None => break,
                },
                Some((id, event)) = self.events.recv() => self.take_event(id, event).await,
                _ = ticks.tick() => {
                    self.look_at_the_clock();
                    if self.is_over() {
                        // Under this lock nobody can join; what was sent before it is in the inbox.
                        let mut known = self.studio.registry.lock();
                        if orders.is_empty() {
                            known.remove(&self.key);
                            break;
                        }
                    }
                }
            }
            self.work().await;
            self.rest();
            self.tell_status();
        }
        for (_, waiting) in std::mem::take(&mut self.waiting) {
            answer_all(waiting, &Err(TranscodeError::Stopping));
        }
        self.workers.clear();
        self.tell_status();
    }

    fn is_over(&self) -> bool {
        self.viewers.is_empty()
            && self.workers.is_empty()
            && self.lonely_since.is_some_and(|t| t.elapsed() >= GRACE)
    }

    fn take_order(&mut self, order: Command) {
        match order {
            Command::Join { viewer } => {
                self.viewers.insert(viewer, None);
                self.lonely_since = None;
                // Opening the file takes longer than making a segment: begin before it is asked.
                if self.workers.is_empty() && self.studio.cache.get(self.key, None).is_none() {
                    self.start_worker(0, false);
                }
            }
            Command::Leave { viewer } => {
                self.viewers.remove(&viewer);
                if self.viewers.is_empty() {
                    self.lonely_since = Some(Instant::now());
                }
            }
            Command::Want { viewer, piece, answer } => {
                // Who watches may jump.
                self.studio.pool.expect_work();
                if let (Some(n), Some(at)) = (piece, self.viewers.get_mut(&viewer)) {
                    *at = Some(n);
                }
                if let Some(segment) = self.studio.cache.get(self.key, piece) {
                    let _ = answer.send(Ok(segment));
                    return;
                }
                let waiting = self.waiting.entry(piece).or_default();
                waiting.since.get_or_insert_with(Instant::now);
                waiting.answers.push(answer);
            }
        }
    }

    /// Decides and does until there is nothing left to do.
    async fn work(&mut self) {
        self.waiting.retain(|_, waiting| {
            waiting.answers.retain(|answer| !answer.is_closed());
            !waiting.answers.is_empty()
        });
        if self.waiting.contains_key(&None) && self.workers.is_empty() {
            let n = self.first_wanted().unwrap_or(0);
            if !self.start_worker(n, true) {
                self.refuse(None);
            }
        }
        // Each action changes what the next decision sees; the bound is a guard against a fault
        // in the decision, far above what a title can need.
        for _ in 0..10_000 {
            let Some(action) = window::plan(&self.window()) else {
                return;
            };
            match action {
                Action::Grant { worker, n } => self.grant(worker, Some(n)).await,
                Action::Seek { worker, n } => self.seek(worker, n).await,
                Action::Start { n } => {
                    if !self.start_worker(n, true) {
                        self.refuse(Some(n));
                    }
                }
                Action::Stop { worker } => self.workers.retain(|w| w.id != worker),
                Action::Refuse { n } => self.refuse(Some(n)),
            }
        }
    }

    /// Workers that owe nothing, or nothing that anybody watches, give way to whoever needs a place. So does one that was
    /// started before anybody asked, until somebody does.
    fn rest(&self) {
        let watched = !self.viewers.is_empty();
        for worker in &self.workers {
            let is_wanted = match worker.state {
                LiveState::Starting => !self.waiting.is_empty(),
                LiveState::Running(_) => worker.is_busy(),
            };
            if !(watched && is_wanted) {
                worker.slot.rest();
            } else if matches!(worker.state, LiveState::Starting) {
                // One whose place was taken meanwhile is told so, and another is started then.
                let _keeps = worker.slot.work();
            }
        }
    }

    fn first_wanted(&self) -> Option<usize> {
        self.waiting.keys().copied().flatten().next()
    }

    fn window(&self) -> Window {
        let viewers: Vec<usize> = self.viewers.values().copied().flatten().collect();
        let mut cached = BTreeSet::new();
        for worker in &self.workers {
            let to = worker.granted_to + self.studio.run_ahead + 2;
            cached.extend(self.studio.cache.present(self.key, worker.granted_to, to));
        }
        Window {
            segments: self.plan.boundaries.segments(),
            run_ahead: self.studio.run_ahead,
            wanted: self.waiting.keys().copied().flatten().collect(),
            cached,
            viewers,
            workers: self
                .workers
                .iter()
                .map(|w| WorkerAt {
                    id: w.id,
                    next: w.next,
                    granted_to: w.granted_to,
                    expired: !w.is_busy() && self.is_expired(w),
                })
                .collect(),
            may_start: self.studio.pool.has_slot(),
        }
    }

    fn is_expired(&self, worker: &Live) -> bool {
        worker.last_used.elapsed() >= IDLE
    }

    fn refuse(&mut self, piece: Piece) {
        let error = match piece {
            Some(n) if n >= self.plan.boundaries.segments() => {
                TranscodeError::BadRequest(format!("no segment {n}"))
            }
            _ => TranscodeError::Busy(self.studio.pool.max_workers()),
        };
        if let Some(waiting) = self.waiting.remove(&piece) {
            answer_all(waiting, &Err(error));
        }
    }

    /// Starts a worker at `n`; `false` if every slot is taken. With `insist` a worker that rests gives
    /// way, here or elsewhere.
    fn start_worker(&mut self, n: usize, insist: bool) -> bool {
        let id = self.next_worker;
        let tell = self.tell.clone();
        let give_way = move || drop(tell.send((id, Event::Ousted)));
        let Some(slot) = self.studio.pool.slot(insist, give_way) else {
            return false;
        };
        self.next_worker += 1;
        let now = Instant::now();
        self.workers.push(Live {
            id,
            state: LiveState::Starting,
            next: n,
            granted_to: n,
            epoch: 0,
            out: HashMap::new(),
            last_heard: now,
            last_used: now,
            speed: None,
            slot,
        });
        let pool = Arc::clone(&self.studio.pool);
        let input = Arc::clone(&self.input);
        let tell = self.tell.clone();
        tokio::spawn(async move {
            let started = match tokio::join!(pool.take(), input.open()) {
                (Ok(worker), Ok(file)) => Ok((worker, file)),
                (Err(error), _) => Err(error),
                (_, Err(e)) => Err(TranscodeError::io("open the file", e)),
            };
            let _ = tell.send((id, Event::Started(started)));
        });
        true
    }

    async fn take_event(&mut self, id: u64, event: Event) {
        let Some(at) = self.workers.iter().position(|w| w.id == id) else {
            // Stopped meanwhile; what comes with the event is dropped and so ended.
            return;
        };
        match event {
            Event::Started(Ok((worker, file))) => self.started(at, worker, file).await,
            Event::Started(Err(error)) => self.lose(id, &error, false),
            Event::Died => {
                let what = format!("segment {}", self.workers[at].next);
                self.lose(id, &TranscodeError::Crashed(what), true);
            }
            Event::Said(reply) => self.heard(at, reply),
            Event::Ousted => drop(self.workers.remove(at)),
        }
    }

    async fn started(&mut self, at: usize, mut worker: Worker, file: InputFile) {
        let live = &mut self.workers[at];
        let id = live.id;
        let pid = worker.pid();
        self.input.worker_started(pid);
        let sender = worker.sender();
        let tell = self.tell.clone();
        let pump = tokio::spawn(async move {
            loop {
                match worker.recv().await {
                    Ok(reply) => {
                        if tell.send((id, Event::Said(reply))).is_err() {
                            return;
                        }
                    }
                    Err(_) => {
                        let _ = tell.send((id, Event::Died));
                        return;
                    }
                }
            }
        });
        let file = Arc::new(file);
        live.state = LiveState::Running(Running {
            pid,
            sender: sender.clone(),
            pump: pump.abort_handle(),
            opened: false,
            encoder: String::new(),
            _file: Arc::clone(&file),
        });
        live.last_heard = Instant::now();
        let n = live.next;
        let granted: Vec<usize> = (live.next..live.granted_to).collect();
        let open = Request::Open { plan: self.plan.clone() };
        let sent = sender.send(&open, &[file.as_fd()]).await;
        drop(file);
        if sent.is_err() {
            self.lose(id, &TranscodeError::Crashed("its start".to_owned()), true);
            return;
        }
        if self.studio.cache.get(self.key, None).is_none() {
            self.hand_out(id, None).await;
        }
        self.tell_seek(id, n).await;
        for n in granted {
            self.hand_out(id, Some(n)).await;
        }
    }

    async fn seek(&mut self, id: u64, n: usize) {
        if !self.keeps_its_place(id) {
            return;
        }
        let Some(live) = self.workers.iter_mut().find(|w| w.id == id) else {
            return;
        };
        live.epoch += 1;
        live.next = n;
        live.granted_to = n;
        live.last_used = Instant::now();
        // The init segment was asked for before and stays valid; grants of the old epoch are void.
        live.out.retain(|(_, piece), _| piece.is_none());
        if matches!(live.state, LiveState::Running(_)) {
            self.tell_seek(id, n).await;
        }
    }

    async fn tell_seek(&mut self, id: u64, n: usize) {
        let Some(live) = self.workers.iter().find(|w| w.id == id) else {
            return;
        };
        let request = Request::Seek { n, epoch: live.epoch };
        self.tell_worker(id, &request, None).await;
    }

    /// Whether the worker may work; one whose place was taken meanwhile ends here.
    fn keeps_its_place(&mut self, id: u64) -> bool {
        let keeps = self.workers.iter().any(|w| w.id == id && w.slot.work());
        if !keeps {
            self.workers.retain(|w| w.id != id);
        }
        keeps
    }

    async fn grant(&mut self, id: u64, piece: Piece) {
        if !self.keeps_its_place(id) {
            return;
        }
        let Some(live) = self.workers.iter_mut().find(|w| w.id == id) else {
            return;
        };
        if let Some(n) = piece {
            live.granted_to = n + 1;
        }
        live.last_used = Instant::now();
        if matches!(live.state, LiveState::Running(_)) {
            self.hand_out(id, piece).await;
        }
    }

    /// Gives the worker an output file.
    async fn hand_out(&mut self, id: u64, piece: Piece) {
        let file = match self.studio.cache.new_file() {
            Ok(file) => file,
            Err(e) => {
                let error = TranscodeError::io("make a file in the transcoding cache", e);
                self.lose(id, &error, false);
                return;
            }
        };
        let Some(live) = self.workers.iter_mut().find(|w| w.id == id) else {
            return;
        };
        if !live.is_busy() {
            // It was idle: its silence counts from now.
            live.last_heard = Instant::now();
        }
        let request = match piece {
            None => Request::Init,
            Some(n) => Request::Grant { n, epoch: live.epoch },
        };
        let epoch = if piece.is_none() { 0 } else { live.epoch };
        let Ok(copy) = file.try_clone() else {
            let error = TranscodeError::io("hand out a file", "no descriptor is left");
            self.lose(id, &error, false);
            return;
        };
        live.out.insert((epoch, piece), file);
        self.tell_worker(id, &request, Some(copy)).await;
    }

    async fn tell_worker(&mut self, id: u64, request: &Request, file: Option<File>) {
        let Some(Live { state: LiveState::Running(running), .. }) = self.workers.iter().find(|w| w.id == id)
        else {
            return;
        };
        let sender = running.sender.clone();
        let fds: Vec<_> = file.iter().map(File::as_fd).collect();
        // A stopped worker's socket takes hundreds of these; one that is full means it hangs.
        let sent = tokio::time::timeout(HANG, sender.send(request, &fds)).await;
        if !matches!(sent, Ok(Ok(()))) {
            self.lose(id, &TranscodeError::Crashed("a request".to_owned()), true);
        }
    }

    fn heard(&mut self, at: usize, reply: Reply) {
        let live = &mut self.workers[at];
        live.last_heard = Instant::now();
        match reply {
            Reply::Opened { encoder: name } => {
                if let LiveState::Running(running) = &mut live.state {
                    running.opened = true;
                    running.encoder = name;
                }
            }
            Reply::Done { n, epoch, len_bytes, took_us } => self.finished(at, n, epoch, len_bytes, took_us),
            Reply::Reads { rows } => self.input.reads(rows),
            Reply::Failed { kind, reason } => {
                let id = live.id;
                if kind == FailKind::NoSpace {
                    // Someone else filled the disk, or our own limit is too high for it.
                    let half = self.studio.cache.total_bytes() / 2;
                    self.studio.cache.shrink_to(half);
                }
                let again = kind == FailKind::NoSpace;
                self.lose(id, &TranscodeError::refused(kind, reason), again);
            }
            Reply::Progress { .. } => {}
            Reply::Hello { .. }
            | Reply::Probed { .. }
            | Reply::ProbeFailed { .. }
            | Reply::Written { .. }
            | Reply::Index { .. } => {
                tracing::warn!("a segmenter answered what nobody asked");
            }
        }
    }

    fn finished(&mut self, at: usize, n: Piece, epoch: u32, len_bytes: u64, took_us: u64) {
        let live = &mut self.workers[at];
        // A grant of an older epoch: its file is gone, and with it the segment.
        let Some(file) = live.out.remove(&(epoch, n)) else {
            return;
        };
        let segment = Segment::new(file, len_bytes);
        if let Some(n) = n {
            live.next = live.next.max(n + 1);
            let b = &self.plan.boundaries.0;
            if let (Some(from), Some(to)) = (b.get(n), b.get(n + 1)) {
                #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
                let speed = (to - from) as f64 / took_us.max(1) as f64;
                live.speed = Some(speed);
            }
        }
        self.studio.cache.put(self.key, n, segment.clone());
        if let Some(waiting) = self.waiting.remove(&n) {
            answer_all(waiting, &Ok(segment));
        }
    }

    /// A worker is gone. What it was about to make is tried once more if `again`, else fails.
    fn lose(&mut self, id: u64, error: &TranscodeError, again: bool) {
        let Some(at) = self.workers.iter().position(|w| w.id == id) else {
            return;
        };
        let live = self.workers.remove(at);
        tracing::warn!(%error, next = live.next, "a transcoding worker is lost");
        let reach = live.next..=live.granted_to.max(live.next + self.studio.run_ahead);
        let hit: Vec<Piece> =
            self.waiting.keys().copied().filter(|piece| piece.is_none_or(|n| reach.contains(&n))).collect();
        for piece in hit {
            let Some(waiting) = self.waiting.get_mut(&piece) else {
                continue;
            };
            waiting.attempts += 1;
            if (!again || waiting.attempts >= 2)
                && let Some(waiting) = self.waiting.remove(&piece)
            {
                answer_all(waiting, &Err(error.clone()));
            }
        }
    }

    fn look_at_the_clock(&mut self) {
        let hung: Vec<u64> = self
            .workers
            .iter()
            .filter(|w| w.is_busy() && w.last_heard.elapsed() >= HANG)
            .map(|w| w.id)
            .collect();
        for id in hung {
            let error = TranscodeError::Hung { what: "a segment".to_owned(), seconds: HANG.as_secs() };
            self.lose(id, &error, true);
        }
        let late: Vec<Piece> = self
            .waiting
            .iter()
            .filter(|(_, w)| w.since.is_some_and(|t| t.elapsed() >= LONGEST))
            .map(|(piece, _)| *piece)
            .collect();
        for piece in late {
            if let Some(waiting) = self.waiting.remove(&piece) {
                let error = TranscodeError::Hung { what: "a segment".to_owned(), seconds: LONGEST.as_secs() };
                answer_all(waiting, &Err(error));
            }
        }
        if self.lonely_since.is_some_and(|t| t.elapsed() >= GRACE) {
            self.workers.clear();
        }
    }

    fn tell_status(&self) {
        let workers = self
            .workers
            .iter()
            .map(|w| {
                let (pid, encoder) = match &w.state {
                    LiveState::Starting => (None, String::new()),
                    LiveState::Running(r) => (Some(r.pid), r.encoder.clone()),
                };
                WorkerStatus {
                    pid,
                    next: w.next,
                    granted: w.granted_to.saturating_sub(w.next),
                    speed: w.speed,
                    encoder,
                }
            })
            .collect();
        *self.status.lock() = RenditionStatus { workers, viewers: self.viewers.len() };
    }
}

fn answer_all(waiting: Waiting, result: &Result<Segment, TranscodeError>) {
    for answer in waiting.answers {
        let _ = answer.send(result.clone());
    }
}
