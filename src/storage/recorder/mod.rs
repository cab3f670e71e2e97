//! Joins ledger rows with block events and the map into one record per stream.
//!
//! One thread owns all of it; others send [`Note`]s. A read is settled, that is ascribed for good, when the
//! trace has told everything up to its end, or at once by the map where there is no trace.
//!
//! A request that the reader's own thread submitted is that read's: exact (`attribute::events_of`). One that a kernel
//! thread submitted finds its read by its place and time, or stays unascribed (`join`). A disk here is the lowest
//! device that the server's own thread is seen at: a whole disk, or a loop device, whose worker reads the
//! backing file for it.

mod advice;
pub(crate) mod attribute;
pub(crate) mod by_place;
pub(crate) mod faults;
pub(crate) mod join;
pub(crate) mod live;
pub(crate) mod owed;
pub(crate) mod record;
mod series;
mod tally;
mod trail;
mod verdict;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use spindle_base::clock::SharedClock;
use spindle_base::sync::Mutex;

use crate::device::{Disk, Plan};
use crate::file::FileState;
use crate::layout::file_map::FoundInFile;
use crate::ledger::{Ledger, Row, RowKind, StreamId, StreamShared};
use crate::map::piece::Role;
use crate::notes::Receiver;
use crate::sys;
use crate::topology::sysfs::{DiskCounters, Sysfs};
use crate::trace::{Batch, BlockEvent, BlockOp};
use attribute::{Requests, Span, by_map, copies_at, copies_of, events_of, places};
use by_place::{ByPlace, Read};
use faults::{Faults, Members};
use join::{Join, Owner, Part, Reading};
use live::Live;
use owed::{Beyond, Owed, Unclaimed};
use record::{AttributionMode, DiskRate, IoRecord, Notice};
use trail::Origin;

/// What the recorder is told.
#[derive(Debug)]
pub(crate) enum Note {
    Row(Box<Row>),
    Batch(Batch),
    /// The trace is complete for everything from this moment on.
    TraceUp {
        since_us: u64,
    },
    TraceDown {
        why: String,
    },
    Disks(Vec<Disk>),
    Opened(std::sync::Weak<FileState>),
    /// A btrfs was resolved.
    Members(Members),
    /// A read failed in a way that no disk was seen to be the cause of.
    Failed {
        stream: StreamId,
        at_us: u64,
        what: String,
    },
    Begin {
        stream: StreamId,
        shared: Arc<StreamShared>,
    },
    Worker {
        stream: StreamId,
        pid: u32,
    },
    Stall {
        stream: StreamId,
        at_us: u64,
        duration_us: u64,
        cause: String,
    },
    Query {
        stream: StreamId,
        ends: bool,
        answer: SyncSender<Option<IoRecord>>,
    },
    Close,
}

/// Time that an event may need from its CPU to the ring after the helper looked.
const SLACK_US: u64 = 10_000;
/// How long a worker's or kernel thread's submission waits for its request to be issued and completed, which tell
/// its size and latency: rotating disks answer within this. A question about the record waits for nothing.
const LATE_US: u64 = 400_000;
/// Events of our own threads that belong to no row are looked up on the map after this.
const STRAY_US: u64 = 2_000_000;
/// Why ZFS is another matter (measured: 30 to 79 % of its requests carry a reader's thread, and not surely the right
/// one).
const ZFS_BY_TIME: &str = "ZFS starts queued requests in its own threads: requests to the pool's disks are counted for the stream that alone was reading from it at that time";
/// And what is said of it where its disks' own counters are all there is.
const ZFS_BY_COUNTERS: &str = "ZFS tells no reader what came off disks for it: what the pool's disks read by their own counters is divided among the streams that read from it, by what they asked for; what others read of it at the same time is in that";
const ROWS_BY_COUNTERS: &str = "a disk is missing, and what the kernel reads to compute its bytes is seen only in the block trace: what the pool's disks read by their own counters is divided among the streams that read from it, by what they asked for; what others read of it at the same time is in that";
const READ_AGAIN: &str = "an array that lacks a member, fills one or is reshaped reads page by page, and may read again what was asked for ahead: what its disks read by their own counters beyond what the map says is counted for the streams that asked again, as far as they did";
/// How long rows wait for the map of their file.
const MAP_PATIENCE_US: u64 = 130_000_000;
/// How long a pool's request waits for a read that tells whose it is, and how long while that read is under way.
const POOL_SETTLING_US: u64 = 400_000;
const POOL_PATIENCE_US: u64 = 60_000_000;
const DIVIDED: &str = "what no map places (the copy of a mirror, a volume of unknown layout) is divided among its disks by their own counters";
/// Why a request's stream is not certain to the last.
const BY_ELIMINATION: &str = "kernel threads submitted some requests, at places that are not on the map; they are counted for the one stream whose reads still missed bytes";
const ONE_OF_SEVERAL: &str = "kernel threads submitted some requests that may be of several streams; they are in the unattributed bytes of each, in equal parts";
const WANTED_BY_SEVERAL: &str = "kernel threads submitted some requests for bytes that several streams wanted at once; each has an equal part of them";
const MISSED_BY_SEVERAL: &str = "kernel threads submitted some requests, at places that are not on the map, while several streams missed bytes; each has a part of them by what it missed";
/// Events kept per thread for a read that is still under way, and of other processes for one that will
/// turn out to be a worker.
const MAX_PENDING: usize = 16_384;

/// Bytes of each disk.
type ByDisk = BTreeMap<Arc<str>, u64>;

/// What is to be told to whoever watches the machine: the recorder adds, the server takes.
pub(crate) type Notices = Arc<Mutex<VecDeque<Notice>, 54>>;
/// Notices kept until they are taken.
const MAX_NOTICES: usize = 256;
const NOTICE_AGAIN_US: u64 = 60_000_000;

/// Reads and events of one of our threads.
#[derive(Debug, Default)]
struct Thread {
    rows: VecDeque<Row>,
    events: VecDeque<BlockEvent>,
    /// Whether reads of files are made on it.
    is_reader: bool,
}

/// See the module.
pub(crate) struct Recorder {
    clock: SharedClock,
    sys: Sysfs,
    ledger: Ledger,
    own_pid: u32,
    streams: HashMap<StreamId, Live>,
    threads: HashMap<u32, Thread>,
    disks: HashMap<u32, (Arc<str>, Requests)>,
    workers: HashMap<u32, Vec<StreamId>>,
    foreign: VecDeque<BlockEvent>,
    kernel_threads: HashMap<u32, bool>,
    /// Submissions whose stream is known, in order, not counted yet.
    late: VecDeque<(StreamId, Part, BlockEvent)>,
    join: Join,
    /// Requests that were given to a driver, until all that came before them is known: whether a bio explains them.
    issues: VecDeque<BlockEvent>,
    /// Requests and reads of volumes whose own threads read.
    by_place: ByPlace,
    /// Disks of such volumes.
    pool_disks: BTreeSet<u32>,
    faults: Faults,
    notices: Notices,
    /// What was told in the last minute, with when.
    noticed: HashMap<(String, String), u64>,
    files: Vec<std::sync::Weak<FileState>>,
    /// `Err` says why there is none.
    trace: Result<(), String>,
    /// The trace is, or was until it ended, complete from here to `drained_us`.
    traced_from_us: Option<u64>,
    drained_us: u64,
    lost: u64,
    rates: Arc<Mutex<Vec<DiskRate>, 47>>,
    counters: HashMap<Arc<str>, DiskCounters>,
    /// Bytes read by each disk when a mirror's bytes were last divided.
    divided_at: HashMap<Arc<str>, u64>,
    owed: Owed,
    /// What pools' disks read and nobody had asked for yet.
    unclaimed: Unclaimed,
    /// What disks of arrays that read page by page read beyond what the map says.
    beyond: Beyond,
    system_disk: Option<Arc<str>>,
    sampled_us: u64,
    cpu_us: u64,
}

impl Recorder {
    pub(crate) fn new(
        clock: SharedClock,
        ledger: Ledger,
        rates: Arc<Mutex<Vec<DiskRate>, 47>>,
        notices: Notices,
        why: String,
    ) -> Self {
        let sampled_us = clock.monotonic_us();
        let sys = Sysfs::system();
        let mut recorder = Self {
            system_disk: system_disk(&sys),
            clock,
            sys,
            ledger,
            own_pid: std::process::id(),
            streams: HashMap::new(),
            threads: HashMap::new(),
            disks: HashMap::new(),
            workers: HashMap::new(),
            foreign: VecDeque::new(),
            kernel_threads: HashMap::new(),
            late: VecDeque::new(),
            join: Join::default(),
            issues: VecDeque::new(),
            by_place: ByPlace::default(),
            pool_disks: BTreeSet::new(),
            faults: Faults::default(),
            notices,
            noticed: HashMap::new(),
            files: Vec::new(),
            trace: Err(why),
            traced_from_us: None,
            drained_us: 0,
            lost: 0,
            rates,
            counters: HashMap::new(),
            divided_at: HashMap::new(),
            owed: Owed::default(),
            unclaimed: Unclaimed::default(),
            beyond: Beyond::default(),
            sampled_us,
            cpu_us: sys::process_cpu_us(),
        };
        recorder.count();
        recorder
    }

    /// Until `Note::Close`.
    pub(crate) fn run(mut self, mut notes: Receiver) {
        const TICK_US: u64 = 1_000_000;
        loop {
            let due = self.sampled_us + TICK_US;
            let left_us = due.saturating_sub(self.clock.monotonic_us());
            for note in notes.take(Duration::from_micros(left_us.min(TICK_US))) {
                if matches!(note, Note::Close) {
                    return;
                }
                self.apply(note);
            }
            let now = self.clock.monotonic_us();
            if now >= due {
                self.tick(now);
            }
        }
    }

    pub(crate) fn apply(&mut self, note: Note) {
        match note {
            Note::Row(row) => self.row(*row),
            Note::Batch(batch) => self.batch(batch),
            Note::TraceUp { since_us } => {
                self.trace = Ok(());
                self.traced_from_us = Some(since_us);
            }
            Note::TraceDown { why } => {
                self.trace = Err(why);
                self.look_at_issues(self.drained_us);
                self.settle_all(true);
                self.settle_by_place(true);
                // What has not found its stream by now will not: its bytes stay among those without a disk.
                self.settle_join(true);
                self.join = Join::default();
                self.issues.clear();
            }
            Note::Disks(disks) => {
                for d in disks {
                    self.disks.entry(d.number).or_insert_with(|| (d.name, Requests::default()));
                }
                self.count();
            }
            Note::Opened(file) => {
                if let Some(file) = file.upgrade() {
                    let mount = file.device.mount();
                    self.faults.add_volume(mount.device, &mount.mount_point.to_string_lossy());
                    if let Some(plan) = file.device.known_plan().filter(|_| file.device.has_own_threads()) {
                        self.pool_disks.extend(plan.disks.iter().map(|d| d.number));
                    }
                }
                self.files.retain(|f| f.strong_count() > 0);
                self.files.push(file);
            }
            Note::Members(members) => self.faults.add_btrfs(members),
            Note::Failed { stream, at_us, what } => self.failed(stream, at_us, &what),
            Note::Begin { stream, shared } => {
                let live = Live::new(self.clock.unix_us(), self.clock.monotonic_us(), shared);
                self.streams.insert(stream, live);
            }
            Note::Worker { stream, pid } => self.worker(stream, pid),
            Note::Stall { stream, at_us, duration_us, cause } => {
                if let Some(live) = self.streams.get_mut(&stream) {
                    live.stall(at_us, duration_us, cause);
                }
            }
            Note::Query { stream, ends, answer } => {
                self.look_at_issues(self.drained_us);
                self.settle_all(ends);
                self.look_up_strays(self.drained_us);
                self.settle_by_place(ends);
                self.settle_join(true);
                // Those too may have found their stream only now.
                self.settle_late(u64::MAX);
                self.count();
                self.divide(ends.then_some(stream));
                let record = self.query(stream, ends);
                // The asker may have stopped waiting.
                let _ = answer.try_send(record);
            }
            Note::Close => {}
        }
    }

    fn query(&mut self, stream: StreamId, ends: bool) -> Option<IoRecord> {
        let mode = self.mode();
        let now_us = self.clock.monotonic_us();
        let dropped = self.ledger.dropped();
        self.take_served(Some(stream));
        let ended = ends.then(|| self.clock.unix_us());
        let live = self.streams.get_mut(&stream)?;
        if let Err(why) = &self.trace {
            live.because(why);
        }
        if self.lost > 0 {
            live.because(&format!("{} block events were lost", self.lost));
        }
        if dropped > 0 {
            live.because(&format!("{dropped} rows of the ledger were dropped"));
        }
        let record = live.snapshot(now_us, ended, mode, &self.counters);
        if ends {
            self.streams.remove(&stream);
            self.workers.retain(|_, streams| {
                streams.retain(|s| *s != stream);
                !streams.is_empty()
            });
        }
        Some(record)
    }

    fn mode(&self) -> AttributionMode {
        if self.trace.is_ok() { AttributionMode::BlockTrace } else { AttributionMode::SampledMap }
    }

    fn row(&mut self, row: Row) {
        if let Some(live) = self.streams.get_mut(&row.stream) {
            if let Some(plan) = row.file.device.known_plan() {
                live.on_volume(plan);
            }
            live.on_file(&row.file);
            live.note_row(&row);
            if row.kind == RowKind::Worker {
                live.moved(row.file.identity, row.range, row.start_us);
            }
        }
        let tid = row.tid;
        let thread = self.threads.entry(tid).or_default();
        thread.is_reader = true;
        thread.rows.push_back(row);
        self.settle(tid, SLACK_US, false);
    }

    fn batch(&mut self, batch: Batch) {
        self.drained_us = self.drained_us.max(batch.drained_us);
        self.lost = batch.lost;
        for e in batch.events {
            match (e.op, self.disks.get_mut(&e.device)) {
                (_, None) => {}
                (BlockOp::Issue, Some((_, requests))) => {
                    if requests.issued(&e) {
                        self.issues.push_back(e);
                    }
                    if self.issues.len() > MAX_PENDING {
                        self.issues.pop_front();
                    }
                }
                (BlockOp::Complete, Some((_, requests))) => requests.completed(&e),
                (BlockOp::Error, Some((disk, _))) => {
                    let disk = Arc::clone(disk);
                    self.fault(e.time_us, &disk, "reads of the disk failed");
                }
                (BlockOp::Queue, Some((_, requests))) => {
                    requests.queued(&e);
                    self.bio(e);
                }
            }
        }
        self.look_at_issues(self.drained_us.saturating_sub(SLACK_US));
        let tids: Vec<u32> =
            self.threads.iter().filter(|(_, t)| !t.rows.is_empty()).map(|(t, _)| *t).collect();
        for tid in tids {
            self.settle(tid, SLACK_US, false);
        }
        self.look_up_strays(self.drained_us.saturating_sub(STRAY_US));
        self.settle_by_place(false);
        self.settle_join(false);
        self.settle_late(self.drained_us.saturating_sub(LATE_US));
    }

    /// Requests until `until_us` whose bios were not seen come to the disk all the same. Which thread gives a request to the
    /// driver says little of who wants it: whoever runs the queue does, for everybody. The place tells, and what is missed.
    fn look_at_issues(&mut self, until_us: u64) {
        while let Some(issue) = self.issues.pop_front_if(|e| e.time_us <= until_us) {
            let Some((_, requests)) = self.disks.get_mut(&issue.device) else { continue };
            for e in requests.unexplained(&issue) {
                if !e.is_metadata {
                    self.join.request(e);
                } else if e.pid == self.own_pid {
                    // The filesystem's own blocks: a place says nothing, and a thread that reads waits for them.
                    self.bio(e);
                }
            }
        }
    }

    fn bio(&mut self, e: BlockEvent) {
        if e.pid == self.own_pid {
            let events = &mut self.threads.entry(e.tid).or_default().events;
            events.push_back(e);
            if events.len() > MAX_PENDING {
                events.pop_front();
                self.lost += 1;
            }
        } else if self.workers.contains_key(&e.pid) {
            self.credit_worker(&e);
        } else if self.is_kernel_thread(e.pid) {
            if self.pool_disks.contains(&e.device) {
                self.pool_request(e, None);
            } else if !e.is_metadata {
                // What a kernel thread reads of trees, it reads for the filesystem.
                self.join.request(e);
            }
        } else {
            // Another program's, or a worker's that is not known yet.
            self.foreign.push_back(e);
            if self.foreign.len() > MAX_PENDING {
                self.foreign.pop_front();
            }
        }
    }

    /// A worker that serves several streams counts for the first: that one made it read.
    fn credit_worker(&mut self, e: &BlockEvent) {
        let Some(stream) = self.workers.get(&e.pid).and_then(|s| s.first().copied()) else { return };
        self.credit(stream, Part::Data, e);
    }

    fn credit(&mut self, stream: StreamId, part: Part, e: &BlockEvent) {
        self.late.push_back((stream, part, *e));
        if self.late.len() > MAX_PENDING
            && let Some((stream, part, e)) = self.late.pop_front()
        {
            self.count_late(stream, part, &e);
        }
    }

    /// Counts what was submitted until `until_us`.
    fn settle_late(&mut self, until_us: u64) {
        while let Some((stream, part, e)) = self.late.pop_front_if(|(_, _, e)| e.time_us <= until_us) {
            self.count_late(stream, part, &e);
        }
    }

    fn count_late(&mut self, stream: StreamId, part: Part, e: &BlockEvent) {
        if let (Some(live), Some((disk, requests))) =
            (self.streams.get_mut(&stream), self.disks.get_mut(&e.device))
        {
            live.traced(e, part, disk, requests);
            if part == Part::Data {
                in_file(live, e);
            }
        }
    }

    /// Gives requests of kernel threads to the streams whose reads they serve.
    fn settle_join(&mut self, is_last: bool) {
        if self.join.is_idle() {
            return self.join.forget_before(self.drained_us);
        }
        let files: Vec<Arc<FileState>> = self.files.iter().filter_map(std::sync::Weak::upgrade).collect();
        let is_read = |device: u32| {
            files.iter().any(|f| {
                f.is_being_read()
                    && f.device.known_plan().is_some_and(|p| p.disks.iter().any(|d| d.number == device))
            })
        };
        for (e, owner) in self.join.settle(self.drained_us, is_last, is_read) {
            match owner {
                Owner::Nobody => {}
                Owner::One { stream, part, was_missing_bytes, is_by_place } => {
                    if let Some(live) = self.streams.get_mut(&stream) {
                        live.found(was_missing_bytes);
                        if !is_by_place {
                            live.because(BY_ELIMINATION);
                        }
                    }
                    self.credit(stream, part, &e);
                }
                Owner::Several { parts, is_by_place } => {
                    for share in parts {
                        if let Some(live) = self.streams.get_mut(&share.stream) {
                            live.found(share.was_missing_bytes);
                            live.because(if is_by_place { WANTED_BY_SEVERAL } else { MISSED_BY_SEVERAL });
                        }
                        self.credit(share.stream, share.part, &share.event);
                    }
                }
                Owner::Unknown(streams) => self.share_doubt(&streams, &e),
            }
        }
    }

    /// Bytes of a known disk that are one of several streams': without a disk in the records of all of them, so that
    /// the sum of the records stays that of the disks.
    fn share_doubt(&mut self, streams: &[StreamId], e: &BlockEvent) {
        let n = streams.len().max(1) as u64;
        for (i, stream) in (0_u64..).zip(streams) {
            let part = e.len_bytes() / n + u64::from(i < e.len_bytes() % n);
            if let Some(live) = self.streams.get_mut(stream) {
                live.unattributed(part, e.time_us, None);
                live.because(ONE_OF_SEVERAL);
            }
        }
    }

    /// Something happened to a disk: told to every stream that reads from its volume, and to whoever watches.
    fn fault(&mut self, at_us: u64, disk: &Arc<str>, what: &str) {
        for live in self.streams.values_mut().filter(|l| l.is_on(disk)) {
            live.fault(at_us, disk, what);
        }
        self.notice(disk, what);
    }

    /// A read failed. The disk is named where there is only one that it can have been.
    fn failed(&mut self, stream: StreamId, at_us: u64, what: &str) {
        if let Some(live) = self.streams.get_mut(&stream) {
            let disk = live.only_disk().unwrap_or_default();
            live.fault(at_us, &disk, what);
            self.notice(&disk, what);
        }
    }

    /// Once a minute for the same thing: a dying disk fails every request.
    fn notice(&mut self, disk: &str, what: &str) {
        let now_us = self.clock.monotonic_us();
        self.noticed.retain(|_, at_us| now_us.saturating_sub(*at_us) < NOTICE_AGAIN_US);
        if self.noticed.len() >= MAX_NOTICES || self.noticed.contains_key(&(disk.to_owned(), what.to_owned()))
        {
            return;
        }
        self.noticed.insert((disk.to_owned(), what.to_owned()), now_us);
        tracing::warn!(disk, what, "a disk has a fault");
        let notice =
            Notice { at_unix_us: self.clock.unix_us(), disk: disk.to_owned(), what: what.to_owned() };
        let mut notices = self.notices.lock();
        notices.push_back(notice);
        if notices.len() > MAX_NOTICES {
            notices.pop_front();
        }
    }

    fn worker(&mut self, stream: StreamId, pid: u32) {
        let streams = self.workers.entry(pid).or_default();
        if !streams.contains(&stream) {
            streams.push(stream);
        }
        // It may have begun to read before its number was told here.
        let (its, others) = std::mem::take(&mut self.foreign).into_iter().partition(|e| e.pid == pid);
        self.foreign = others;
        let its: VecDeque<BlockEvent> = its;
        for e in its {
            self.credit_worker(&e);
        }
    }

    /// A request to a disk of a pool.
    fn pool_request(&mut self, e: BlockEvent, during: Option<StreamId>) {
        if !self.by_place.request(e, during) {
            self.lost += 1;
        }
    }

    /// Ascribes requests of pools by what lies at their places. `is_last`: nothing more is waited for.
    fn settle_by_place(&mut self, is_last: bool) {
        let now_us = self.drained_us;
        let until_us = if is_last { u64::MAX } else { now_us.saturating_sub(POOL_SETTLING_US) };
        let due = self.by_place.due(until_us);
        if due.is_empty() {
            return self.by_place.forget_before(now_us);
        }
        let files: Vec<Arc<FileState>> = self.files.iter().filter_map(std::sync::Weak::upgrade).collect();
        for waiting in due {
            let mut e = waiting.event;
            let age_us = now_us.saturating_sub(e.time_us);
            let its = |f: &&Arc<FileState>| {
                f.device.known_plan().is_some_and(|p| p.disk_numbered(e.device).is_some())
            };
            if !is_last && age_us < MAP_PATIENCE_US && files.iter().filter(its).any(|f| f.waits_for_map()) {
                self.by_place.wait_on(waiting);
                continue;
            }
            let Some((file, disk, found)) = files.iter().filter(its).find_map(|f| what_is_at(f, &e)) else {
                match waiting.during {
                    // No byte of a file that is open: what the thread that reads one needs to find it.
                    Some(stream) if has_map(&files, its) => {
                        e.is_metadata = true;
                        self.credit(stream, Part::Data, &e);
                    }
                    // A cache's, or a file's without a map: by its time, if at all.
                    _ => self.join.request(e),
                }
                continue;
            };
            match self.by_place.owner(file.identity, found.offset, e.time_us).or(waiting.during) {
                Some(stream) => {
                    e.is_metadata |= found.role == Role::Tree;
                    let part = if matches!(found.role, Role::Parity | Role::Syndrome) {
                        Part::Parity
                    } else {
                        Part::Data
                    };
                    if let (Some(live), Some((name, _)), Some(Ok(map))) =
                        (self.streams.get_mut(&stream), self.disks.get(&e.device), file.map())
                    {
                        let ranges = map.ranges(disk, e.start_byte(), e.len_bytes());
                        live.brought(file.identity, &ranges, name, e.time_us);
                    }
                    self.credit(stream, part, &e);
                }
                None if !is_last && age_us < POOL_PATIENCE_US && file.is_being_read() => {
                    self.by_place.wait_on(waiting);
                }
                // Another program's: nobody here has read near it.
                None => {}
            }
        }
        self.by_place.forget_before(now_us);
    }

    /// Ascribes a thread's finished reads as far as the trace has come.
    fn settle(&mut self, tid: u32, slack_us: u64, is_last: bool) {
        loop {
            let Some(thread) = self.threads.get_mut(&tid) else { return };
            let Some(row) = thread.rows.front() else { return };
            let is_running = self.trace.is_ok();
            let is_told = self.drained_us >= row.end_us.saturating_add(if is_running { slack_us } else { 0 });
            // Of what lies on no disk of this machine the trace never tells, and where nothing else is watched it never moves on.
            let is_traced = row.file.device.known_plan().is_some_and(|plan| !plan.disks.is_empty())
                && self.traced_from_us.is_some_and(|from| from <= row.start_us);
            let by_trace = is_traced && (is_running || is_told);
            if by_trace && !is_told {
                return;
            }
            let age_us = self.drained_us.saturating_sub(row.end_us);
            if by_trace && !is_last && age_us < MAP_PATIENCE_US && row.file.waits_for_map() {
                return;
            }
            let Some(row) = thread.rows.pop_front() else { return };
            let span = Span { start_us: row.start_us, end_us: row.end_us };
            let (its, strays) = events_of(&mut thread.events, span);
            for e in strays {
                self.credit_by_place(&e);
            }
            if by_trace {
                self.settle_by_trace(&row, &its);
            } else {
                self.settle_by_map(&row);
            }
        }
    }

    fn settle_all(&mut self, is_last: bool) {
        let tids: Vec<u32> =
            self.threads.iter().filter(|(_, t)| !t.rows.is_empty()).map(|(t, _)| *t).collect();
        for tid in tids {
            self.settle(tid, 0, is_last);
        }
        self.settle_late(u64::MAX);
    }

    fn settle_by_trace(&mut self, row: &Row, its: &[BlockEvent]) {
        let Some(live) = self.streams.get_mut(&row.stream) else { return };
        let Some(plan) = row.file.device.known_plan() else { return };
        let numbers: Vec<u32> = plan.disks.iter().map(|d| d.number).collect();
        let (state, range, fetched) = (Arc::clone(&row.file), row.range, row.fetched.clone());
        let disks_of = numbers.clone();
        let mut reading = Reading::new(row.stream, (row.start_us, row.end_us), numbers, move || {
            let Some(Ok(map)) = state.map() else { return Vec::new() };
            places(map, (range, &fetched), &disks_of)
        });
        if row.file.device.has_own_threads() {
            reading.is_by_time = true;
            match row.file.map() {
                Some(Ok(_)) => {
                    // What its cache of blocks holds is no file's by its place; all else is.
                    reading.devices = plan.cache_numbers();
                    live.sends_late(row.file.identity);
                }
                other => {
                    live.because(
                        other.and_then(|m| m.as_ref().err()).map_or("its map was not made in time", |w| w),
                    );
                    live.because(ZFS_BY_TIME);
                    live.caches_by_sum();
                }
            }
            let read =
                Read { stream: row.stream, range: row.range, start_us: row.start_us, end_us: row.end_us };
            if !row.range.is_empty() {
                self.by_place.read(row.file.identity, read);
            }
            its.iter().for_each(|e| self.pool_request(*e, Some(row.stream)));
        } else if row.kind != RowKind::Worker {
            let (mut traced, mut disks) = (0, BTreeSet::new());
            for e in &of_the_filesystem(row, plan, its) {
                if let Some((disk, requests)) = self.disks.get_mut(&e.device) {
                    live.traced(e, Part::Data, disk, requests);
                    in_file(live, e);
                    traced += e.len_bytes();
                    if !e.is_metadata {
                        disks.insert(Arc::clone(disk));
                    }
                }
            }
            live.went_to(row, disks);
            // Fetched, and no request of this thread was seen: a kernel thread's, whose turn comes, lost events, or a
            // device that is none of those that we watch.
            let computed = lost_bytes(row);
            reading.missing_bytes = real_inblock_bytes(row).saturating_sub(computed).saturating_sub(traced);
            reading.is_placed = reading.missing_bytes > 0 && is_certain(row);
            live.unattributed(reading.missing_bytes, row.start_us, None);
        }
        self.join.read(reading);
    }

    fn settle_by_map(&mut self, row: &Row) {
        let Some(live) = self.streams.get_mut(&row.stream) else { return };
        let Some(plan) = row.file.device.known_plan() else { return };
        let no_trace = self.trace.as_ref().err().map(String::as_str);
        if let Some(why) = by_counters(&row.file) {
            no_trace.iter().for_each(|why| live.because(why));
            live.because(why);
            return live.asked_pool(&plan.names(), row, no_trace);
        }
        if let Some(why) = plan.is_elsewhere() {
            return live.elsewhere(row.inblock_bytes, row.start_us, why);
        }
        if row.inblock_bytes == 0 {
            return;
        }
        if let Some(why) = no_trace {
            live.because(why);
        }
        let map = match row.file.map() {
            Some(Ok(map)) => map,
            None => {
                return live.unattributed(row.inblock_bytes, row.start_us, Some("its map is not made yet"));
            }
            Some(Err(why)) => return live.unattributed(row.inblock_bytes, row.start_us, Some(why)),
        };
        let data: u64 = row.fetched.iter().map(|r| r.len_bytes()).sum();
        let leg = plan.legs_unknown.is_none().then_some(row.tid);
        let placed = by_map(map, &row.fetched, leg);
        if let Some(why) = &placed.no_place {
            live.because(why);
            if placed.is_nowhere() {
                return live.unattributed(row.inblock_bytes, row.start_us, Some(why));
            }
            // The map needs privilege (a device-mapper table, say): the disks below are known all the same.
            live.because(DIVIDED);
        }
        if let Some(why) = &plan.legs_unknown
            && !placed.sets.is_empty()
        {
            live.because(why);
            live.because(DIVIDED);
        }
        if plan.is_degraded() && matches!(plan.shape.level.as_str(), "raid5" | "raid6") {
            live.because("a disk is missing, and what the kernel reads to compute its bytes is seen only in the block trace");
        }
        let names = plan.names();
        let disks = placed.runs.iter().filter_map(|(p, ..)| names.get(p.disk).cloned()).collect();
        live.mapped(row, &names, &placed, no_trace);
        if live.file().is_some_and(|f| f.identity == row.file.identity) {
            for (range, copy) in copies_of(map, &row.fetched, leg) {
                live.came(row.start_us, range, copy.map_or(Origin::Disk, Origin::Copy));
            }
        }
        live.went_to(row, disks);
        let counted = real_inblock_bytes(row);
        if counted < row.inblock_bytes {
            live.because(READ_AGAIN);
            live.asked_again(names.clone(), row.inblock_bytes - counted);
        }
        let metadata = counted.saturating_sub(data);
        match names.as_slice() {
            [only] => live.metadata(only, metadata),
            // Which disk the trees were on is not known without the trace.
            _ => live.unattributed(metadata, row.start_us, None),
        }
    }

    /// Ascribes requests of our own threads that belong to no read by what lies at their place: sendfile where the
    /// cache had dropped pages.
    fn credit_by_place(&mut self, e: &BlockEvent) {
        if self.pool_disks.contains(&e.device) {
            return self.pool_request(*e, None);
        }
        let found = self.files.iter().filter_map(std::sync::Weak::upgrade).find_map(|file| {
            let plan: &Plan = file.device.known_plan()?;
            let disk = plan.disk_numbered(e.device)?;
            let offset = file.map()?.as_ref().ok()?.file_offset(disk, e.start_byte())?;
            Some((file.identity, offset))
        });
        let Some((file, offset)) = found else { return };
        let has_open = |live: &Live| live.shared.logs.lock().iter().any(|l| l.file.identity == file);
        let mut streams: Vec<StreamId> =
            self.streams.iter().filter(|(_, live)| has_open(live)).map(|(id, _)| *id).collect();
        if streams.len() > 1 {
            let near = |id: &StreamId| self.streams.get(id).is_some_and(|l| l.is_near(file, offset));
            let those: Vec<StreamId> = streams.iter().copied().filter(near).collect();
            if !those.is_empty() {
                streams = those;
            }
        }
        match streams.as_slice() {
            [] => {}
            [stream] => self.credit(*stream, Part::Data, e),
            several => self.share_doubt(several, e),
        }
    }

    /// Divides what is known of mirrors only as a set by the disks' own counters. `last`: a stream that ends.
    fn divide(&mut self, last: Option<StreamId>) {
        let now_us = self.clock.monotonic_us();
        let mut moved: BTreeMap<Arc<str>, u64> = BTreeMap::new();
        let mut asked: BTreeMap<Vec<Arc<str>>, u64> = BTreeMap::new();
        for (disks, bytes) in self.streams.values().flat_map(|live| live.pool_shares(now_us)) {
            *asked.entry(disks.clone()).or_default() += bytes;
        }
        for (disk, c) in &self.counters {
            let before = self.divided_at.insert(Arc::clone(disk), c.read_bytes).unwrap_or(c.read_bytes);
            self.owed.moved(disk, c.read_bytes.saturating_sub(before));
            moved.insert(Arc::clone(disk), c.read_bytes.saturating_sub(before));
        }
        self.claim_for_pools(now_us, &mut moved, &asked);
        let mut placed = ByDisk::new();
        for (disk, bytes) in self.streams.values_mut().flat_map(Live::placed) {
            self.owed.take(&disk, bytes);
            *placed.entry(disk).or_default() += bytes;
        }
        let mut sets: BTreeMap<Vec<Arc<str>>, u64> = BTreeMap::new();
        for (set, bytes) in self.streams.values().flat_map(Live::sets) {
            *sets.entry(set.clone()).or_default() += bytes;
        }
        self.owed.fit(&sets);
        for (id, live) in &mut self.streams {
            live.divide(now_us, &mut self.owed, last == Some(*id));
            live.divide_pools(now_us, &moved, &asked);
            self.counters.iter().for_each(|(disk, c)| live.counter(disk, c.read_bytes));
        }
        self.divide_again(now_us, (&moved, &placed), last.is_some());
    }

    /// What arrays that read page by page have read twice: looked at when nobody reads from them, for then all is told. `is_last`:
    /// a stream ends, and is told what can be.
    fn divide_again(&mut self, now_us: u64, (moved, placed): (&ByDisk, &ByDisk), is_last: bool) {
        let mut sets: BTreeMap<Vec<Arc<str>>, (u64, bool)> = BTreeMap::new();
        for file in self.files.iter().filter_map(std::sync::Weak::upgrade).filter(|f| f.counts_twice()) {
            let Some(plan) = file.device.known_plan() else { continue };
            sets.entry(plan.names()).or_default().1 |= file.is_being_read();
        }
        for (disks, bytes) in self.streams.values().flat_map(Live::again) {
            sets.entry(disks.clone()).or_default().0 += bytes;
        }
        for disk in sets.keys().flatten().collect::<BTreeSet<_>>() {
            let of = |all: &ByDisk| all.get(disk).copied().unwrap_or(0);
            self.beyond.moved(disk, of(moved), of(placed));
        }
        self.beyond.keep(|disk| sets.keys().any(|disks| disks.contains(disk)));
        for (disks, (bytes, is_read)) in sets {
            if is_read && !is_last {
                continue;
            }
            let parts = self.beyond.take(&disks, bytes);
            for live in self.streams.values_mut() {
                live.divide_again(now_us, &disks, &parts, bytes);
            }
            if !is_read {
                self.beyond.settle(&disks);
            }
        }
    }

    /// A read is told when it is over, and its disks' counters move before: what nobody has asked for yet is kept for who does.
    fn claim_for_pools(
        &mut self,
        now_us: u64,
        moved: &mut BTreeMap<Arc<str>, u64>,
        asked: &BTreeMap<Vec<Arc<str>>, u64>,
    ) {
        let files: Vec<Arc<FileState>> = self.files.iter().filter_map(std::sync::Weak::upgrade).collect();
        let pools = files.iter().filter(|f| by_counters(f).is_some());
        let plans = pools.filter_map(|f| Some((f, f.device.known_plan()?)));
        let known: Vec<(bool, Vec<Arc<str>>)> =
            plans.map(|(f, plan)| (f.is_being_read(), plan.names())).collect();
        let is_read = |disk: &Arc<str>| known.iter().any(|(is_read, disks)| *is_read && disks.contains(disk));
        let is_asked = |disk: &Arc<str>| asked.iter().any(|(disks, n)| *n > 0 && disks.contains(disk));
        for disk in known.iter().flat_map(|(_, disks)| disks).collect::<BTreeSet<_>>() {
            let Some(bytes) = moved.get_mut(disk) else { continue };
            if is_asked(disk) {
                *bytes += self.unclaimed.take(disk);
            } else {
                self.unclaimed.keep(disk, *bytes, now_us);
            }
        }
        self.unclaimed.forget(now_us, is_read);
    }

    /// Events of own threads older than `before_us` that no read has claimed. Threads with a read under way
    /// keep theirs: a dying disk may take a minute.
    fn look_up_strays(&mut self, before_us: u64) {
        let mut strays = Vec::new();
        for thread in self.threads.values_mut().filter(|t| !t.is_reader) {
            let n = thread.events.iter().take_while(|e| e.time_us <= before_us).count();
            strays.extend(thread.events.drain(..n));
        }
        self.threads.retain(|_, t| t.is_reader || !t.events.is_empty());
        for e in strays {
            self.credit_by_place(&e);
        }
    }

    /// Whether a process is the kernel's own: those have no memory map (`PF_KTHREAD`, 0x200000, in field 9
    /// of `/proc/PID/stat`).
    fn is_kernel_thread(&mut self, pid: u32) -> bool {
        if self.kernel_threads.len() > 4096 {
            self.kernel_threads.clear();
        }
        *self.kernel_threads.entry(pid).or_insert_with(|| {
            let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let flags =
                text.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(6)?.parse::<u64>().ok());
            flags.is_some_and(|f| f & 0x20_0000 != 0)
        })
    }

    fn take_served(&mut self, only: Option<StreamId>) {
        for (id, live) in &mut self.streams {
            if only.is_some_and(|o| o != *id) {
                continue;
            }
            let shared = Arc::clone(&live.shared);
            let mut logs = shared.logs.lock();
            for log in logs.iter() {
                for run in log.take() {
                    live.served(log.file.identity, run);
                }
            }
            // Closed before the runs were taken the next time: nothing is lost.
            logs.retain(|l| !l.is_closed.load(Ordering::Acquire) || !l.is_empty());
        }
    }

    /// Once a second: rates of the disks, load of the machine, what was served.
    fn tick(&mut self, now_us: u64) {
        let elapsed_us = now_us.saturating_sub(self.sampled_us).max(1);
        self.sampled_us = now_us;
        let cpu_us = sys::process_cpu_us();
        let spent_us = cpu_us.saturating_sub(self.cpu_us);
        self.cpu_us = cpu_us;
        let before = self.counters.clone();
        self.count();
        let delta = |disk: &Arc<str>| Some(difference(before.get(disk)?, self.counters.get(disk)?));
        let system = self.system_disk.as_ref().and_then(delta).unwrap_or_default();
        let mut rates: Vec<DiskRate> =
            self.counters.keys().filter_map(|d| Some(rate(d, &delta(d)?, elapsed_us))).collect();
        rates.sort_by(|a, b| a.disk.cmp(&b.disk));
        *self.rates.lock() = rates;
        for live in self.streams.values_mut() {
            live.machine(now_us, spent_us, system.read_bytes, system.write_bytes);
        }
        self.divide(None);
        self.owed.age();
        self.take_served(None);
        self.settle_all(false);
        self.look_for_faults(now_us);
    }

    fn look_for_faults(&mut self, now_us: u64) {
        let disks: Vec<Arc<str>> = self.disks.values().map(|(name, _)| Arc::clone(name)).collect();
        for (disk, what) in self.faults.look(&self.sys, disks.iter()) {
            self.fault(now_us, &disk, &what);
        }
        // The table is read, no filesystem is asked.
        if let Ok(text) = std::fs::read_to_string("/proc/self/mountinfo") {
            for what in self.faults.gone_read_only(&text) {
                self.notice("", &what);
            }
        }
    }

    /// Reads the counters of every known disk; wakes none.
    fn count(&mut self) {
        let names = self.disks.values().map(|(n, _)| n).chain(&self.system_disk);
        self.counters = names.filter_map(|n| Some((Arc::clone(n), self.sys.counters(n)?))).collect();
    }
}

/// What the kernel's count of a thread is of bytes that came from a disk. Where it counts twice, more than the read's own
/// pages cannot have come but for a few tree blocks, which nothing tells from what was counted again.
fn real_inblock_bytes(row: &Row) -> u64 {
    let data: u64 = row.fetched.iter().map(|r| r.len_bytes()).sum();
    if row.file.counts_twice() { row.inblock_bytes.min(data) } else { row.inblock_bytes }
}

/// Bytes of a read that were computed of others: counted with the thread, and on no disk. btrfs reads in its own threads
/// what it computes from, and the reader's count has none of it.
fn lost_bytes(row: &Row) -> u64 {
    let Some(Ok(map)) = row.file.map() else { return 0 };
    if !row.file.counts_twice() {
        return 0;
    }
    let pieces = row.fetched.iter().flat_map(|r| map.pieces(*r));
    pieces.filter(|p| !p.is_readable()).map(|p| p.len_bytes).sum()
}

/// A read's requests, those for what is not the file's marked as the filesystem's own blocks. md's mirrors and parity arrays
/// drop that mark on the way (`bi_opf = op | do_sync` in drivers/md/raid1.c), and ext4 has none for extent trees. Only where
/// the map is certain of every byte of the read, and nothing is computed of other files' bytes.
fn of_the_filesystem(row: &Row, plan: &Plan, its: &[BlockEvent]) -> Vec<BlockEvent> {
    let mut out = its.to_vec();
    let Some(Ok(map)) = row.file.map() else { return out };
    let is_elsewhere = |e: &BlockEvent| {
        let disk = plan.disk_numbered(e.device);
        let sectors = [e.start_byte(), (e.start_byte() + e.len_bytes()).saturating_sub(512)];
        disk.is_some_and(|disk| sectors.iter().all(|at| map.file_offset(disk, *at).is_none()))
    };
    if plan.is_degraded() || !its.iter().any(|e| !e.is_metadata && is_elsewhere(e)) {
        return out;
    }
    if is_certain(row) {
        out.iter_mut().for_each(|e| e.is_metadata |= is_elsewhere(e));
    }
    out
}

/// Notes which bytes of a stream's file, of which copy, a request brought. One that is of another file, or whose place the
/// map does not know, is not among them.
fn in_file(live: &mut Live, e: &BlockEvent) {
    if e.is_metadata {
        return;
    }
    let Some(file) = live.file().cloned() else { return };
    let Some(disk) = file.device.known_plan().and_then(|p| p.disk_numbered(e.device)) else { return };
    let Some(Ok(map)) = file.map() else { return };
    for (range, copy) in copies_at(map, disk, e.start_byte(), e.len_bytes()) {
        live.came(e.time_us, range, Origin::Copy(copy));
    }
}

/// Whether the map knows of every byte of the read where it lies.
fn is_certain(row: &Row) -> bool {
    let Some(Ok(map)) = row.file.map() else { return false };
    let pieces = map.pieces(row.range);
    pieces.iter().all(|p| p.doubt.is_none())
        && pieces.iter().map(|p| p.len_bytes).sum::<u64>() >= row.range.len_bytes()
}

/// What of a file lies where a request goes: its first byte that does. A request may begin in the gap before.
fn what_is_at<'a>(
    file: &'a Arc<FileState>,
    e: &BlockEvent,
) -> Option<(&'a Arc<FileState>, usize, FoundInFile)> {
    let disk = file.device.known_plan()?.disk_numbered(e.device)?;
    let map = file.map()?.as_ref().ok()?;
    let last = e.len_bytes().saturating_sub(512);
    let found = [0, last, last / 2].into_iter().find_map(|at| map.find(disk, e.start_byte() + at))?;
    Some((file, disk, found))
}

/// Whether any file of a volume that is open has a map.
fn has_map<'a>(files: &'a [Arc<FileState>], its: impl Fn(&&'a Arc<FileState>) -> bool) -> bool {
    files.iter().filter(its).any(|f| f.map().is_some_and(Result::is_ok))
}

fn difference(a: &DiskCounters, b: &DiskCounters) -> DiskCounters {
    DiskCounters {
        reads: b.reads.saturating_sub(a.reads),
        read_bytes: b.read_bytes.saturating_sub(a.read_bytes),
        writes: b.writes.saturating_sub(a.writes),
        write_bytes: b.write_bytes.saturating_sub(a.write_bytes),
        busy_ms: b.busy_ms.saturating_sub(a.busy_ms),
    }
}

#[expect(clippy::cast_precision_loss, reason = "rates for people")]
fn rate(disk: &str, d: &DiskCounters, elapsed_us: u64) -> DiskRate {
    let per_s = |n: u64| n as f64 * 1e6 / elapsed_us as f64;
    DiskRate {
        disk: disk.to_owned(),
        reads_per_s: per_s(d.reads),
        read_bytes_per_s: per_s(d.read_bytes),
        write_bytes_per_s: per_s(d.write_bytes),
        busy_share: (per_s(d.busy_ms) / 1000.0).min(1.0),
    }
}

/// The disk under `/`, where there is one.
fn system_disk(sys: &Sysfs) -> Option<Arc<str>> {
    let text = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let mounts = crate::topology::mounts::parse(&text);
    let root = crate::topology::mounts::of_path(&mounts, std::path::Path::new("/"))?;
    let on = Sysfs::on_disk(&sys.by_number(root.device)?).ok()?;
    Some(on.disk.as_str().into())
}

/// Why, without the trace, what came off disks for readers of this file is known from the disks' own counters alone.
fn by_counters(file: &FileState) -> Option<&'static str> {
    let plan = file.device.known_plan()?;
    if file.device.has_own_threads() {
        return (!plan.disks.is_empty()).then_some(ZFS_BY_COUNTERS);
    }
    plan.reads_whole_rows().then_some(ROWS_BY_COUNTERS)
}

#[cfg(test)]
mod tests;
