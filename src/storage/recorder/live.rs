//! The record of one stream while it grows.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use spindle_base::clock;
use spindle_base::units::ByteRange;

use super::advice::advice;
use super::attribute::{ByMap, Request, Requests, Taken};
use super::join::Part;
use super::owed::Owed;
use super::record::{
    AttributionMode, AttributionSpan, DiskFault, DiskIo, FileRequest, IoRecord, Seek, Stall, Striping,
};
use super::series::Series;
use super::tally::Tally;
use super::trail::{Origin, Trail};
use super::verdict::{Facts, used, verdict};
use crate::device::Plan;
use crate::file::{FileIdentity, FileState};
use crate::intervals::IntervalSet;
use crate::layout::{evenness, ratio};
use crate::ledger::{Row, RowKind, STALL_US, ServedRun, StreamShared};
use crate::topology::Shape;
use crate::topology::sysfs::DiskCounters;
use crate::trace::BlockEvent;

/// Jumps and waits kept; a program that asks for random ranges would otherwise make a record of them alone.
const MAX_MARKS: usize = 1000;
/// A step of less than this forward is a player skipping a track, or a lost note; back and more is a jump.
const JUMP_BYTES: u64 = 4 << 20;
/// How far around a jump disks are looked for.
const AROUND_BYTES: u64 = 16 << 20;
/// Positions that a viewer may go on from: players keep a few connections.
const POSITIONS: usize = 8;
/// Reads remembered for the disks before and after a jump.
const RECENT: usize = 256;

/// Requests kept: 16 GiB in reads of 2 MiB. 200 KiB of memory a stream, half a megabyte in the database.
const MAX_REQUESTS: usize = 8192;

/// A jump whose disks are still being found.
#[derive(Debug, Clone)]
struct Jump {
    at_us: u64,
    file: FileIdentity,
    from: u64,
    to: u64,
    before: BTreeSet<Arc<str>>,
    after: BTreeSet<Arc<str>>,
}

/// A read, for jumps.
#[derive(Debug, Clone)]
struct Recent {
    end_us: u64,
    file: FileIdentity,
    range: ByteRange,
    disks: BTreeSet<Arc<str>>,
}

/// A way of attribution, from its first read to its last.
#[derive(Debug, Clone)]
struct InForce {
    from_us: u64,
    to_us: u64,
    mode: AttributionMode,
    why: Option<String>,
}

/// Changes of attribution that are told apart; a helper that dies more often is one span of the weaker.
const MAX_SPANS: usize = 64;
/// Faults kept. A disk that dies fails every request.
const MAX_FAULTS: usize = 64;
/// Measured against the block trace (`tests/pools.rs`: worst disk of every profile, one and three streams): where the
/// map tells the place, and where the disks' own counters divide a mirror's bytes.
const MAP_ERROR: f64 = 0.01;
const DIVIDED_ERROR: f64 = 0.10;

/// What a stream asks of a pool.
#[derive(Debug, Clone, Copy, Default)]
struct Share {
    /// Since the pool's disks were last divided.
    asked_bytes: u64,
    /// Before that.
    last_bytes: u64,
    at_us: u64,
}

/// What a pool reads ahead comes so long after it was last asked.
const POOL_GOES_ON_US: u64 = 3_000_000;

impl Share {
    fn now(&self, now_us: u64) -> u64 {
        match self.asked_bytes {
            0 if now_us.saturating_sub(self.at_us) <= POOL_GOES_ON_US => self.last_bytes,
            n => n,
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Live {
    started_unix_us: i64,
    pub(crate) started_us: u64,
    pub(crate) shared: Arc<StreamShared>,
    shape: Option<Shape>,
    disks: BTreeMap<Arc<str>, Tally>,
    series: Series,
    /// What this stream fetched and has not sent yet.
    mine: HashMap<FileIdentity, IntervalSet>,
    /// Of files whose requests are known late: what was sent as the memory's.
    sent: HashMap<FileIdentity, IntervalSet>,
    cached_bytes: u64,
    is_cached_by_sum: bool,
    /// What converters read for it.
    input_bytes: u64,
    /// What it asks of pools whose disks' counters are divided.
    pools: BTreeMap<Vec<Arc<str>>, Share>,
    unattributed_bytes: u64,
    mode: Option<AttributionMode>,
    spans: Vec<InForce>,
    whys: BTreeSet<String>,
    /// Bytes of a mirror of which only the set of disks is known, until the disks' own counters tell more.
    sets: BTreeMap<Vec<Arc<str>>, u64>,
    /// Bytes whose disk the map gave since the counters were last looked at.
    placed: BTreeMap<Arc<str>, u64>,
    /// Bytes that those counters divided.
    divided_bytes: u64,
    /// Bytes that were counted for its reads besides their own, by the disks of the array that may have read them again.
    again: BTreeMap<Vec<Arc<str>>, u64>,
    /// Each disk's own counter when it was first met.
    first_totals: BTreeMap<Arc<str>, u64>,
    faults: Vec<DiskFault>,
    positions: VecDeque<(FileIdentity, u64)>,
    recent: VecDeque<Recent>,
    jumps: Vec<Jump>,
    stalls: Vec<Stall>,
    file_bytes: u64,
    requests: Vec<FileRequest>,
    requests_left_out: u64,
    /// The largest file that it reads: what is said of places in a file is said of that one.
    file: Option<Arc<FileState>>,
    trail: Trail,
    /// Bytes of it by copy, as far as it is known which copy gave them.
    copy_bytes: Vec<u64>,
}

/// Copies that are told apart: no filesystem makes more.
const MAX_COPIES: u16 = 16;

impl Live {
    pub(crate) fn new(started_unix_us: i64, started_us: u64, shared: Arc<StreamShared>) -> Self {
        Self {
            started_unix_us,
            started_us,
            shared,
            shape: None,
            disks: BTreeMap::new(),
            series: Series::default(),
            mine: HashMap::new(),
            sent: HashMap::new(),
            cached_bytes: 0,
            is_cached_by_sum: false,
            input_bytes: 0,
            pools: BTreeMap::new(),
            unattributed_bytes: 0,
            mode: None,
            spans: Vec::new(),
            whys: BTreeSet::new(),
            sets: BTreeMap::new(),
            placed: BTreeMap::new(),
            divided_bytes: 0,
            again: BTreeMap::new(),
            first_totals: BTreeMap::new(),
            faults: Vec::new(),
            positions: VecDeque::new(),
            recent: VecDeque::new(),
            jumps: Vec::new(),
            stalls: Vec::new(),
            file_bytes: 0,
            requests: Vec::new(),
            requests_left_out: 0,
            file: None,
            trail: Trail::default(),
            copy_bytes: Vec::new(),
        }
    }

    fn since_start(&self, at_us: u64) -> u64 {
        at_us.saturating_sub(self.started_us)
    }

    #[expect(clippy::cast_precision_loss, reason = "seconds for people")]
    fn seconds(&self, at_us: u64) -> f64 {
        self.since_start(at_us) as f64 / 1e6
    }

    /// The volume that a file of this stream is on.
    pub(crate) fn on_volume(&mut self, plan: &Plan) {
        for d in &plan.disks {
            self.disks.entry(Arc::clone(&d.name)).or_default();
        }
        if self.shape.is_none() {
            self.shape = Some(plan.shape.clone());
        }
    }

    /// Whether it has read from that disk's volume.
    pub(crate) fn is_on(&self, disk: &str) -> bool {
        self.disks.contains_key(disk)
    }

    /// A file of this stream. Subtitles beside a film have no say in what is told of the film.
    pub(crate) fn on_file(&mut self, file: &Arc<FileState>) {
        let is_larger = |old: &Arc<FileState>| old.identity.size_bytes < file.identity.size_bytes;
        if self.file.as_ref().is_none_or(is_larger) {
            self.file = Some(Arc::clone(file));
            self.trail = Trail::default();
            self.copy_bytes.clear();
        }
    }

    /// The file whose places are told.
    pub(crate) fn file(&self) -> Option<&Arc<FileState>> {
        self.file.as_ref()
    }

    /// Bytes of its file that came from somewhere.
    pub(crate) fn came(&mut self, at_us: u64, range: ByteRange, origin: Origin) {
        if let Origin::Copy(copy) = origin {
            if copy >= MAX_COPIES {
                return self.came(at_us, range, Origin::Disk);
            }
            let n = usize::from(copy) + 1;
            self.copy_bytes.resize(self.copy_bytes.len().max(n), 0);
            self.copy_bytes[n - 1] = self.copy_bytes[n - 1].saturating_add(range.len_bytes());
        }
        self.trail.add(self.since_start(at_us), range, origin);
    }

    /// The disk, where the volume has only one.
    pub(crate) fn only_disk(&self) -> Option<Arc<str>> {
        let mut names = self.disks.keys();
        let first = names.next()?;
        names.next().is_none().then(|| Arc::clone(first))
    }

    /// The disk's own counter, of which the first value is where the record begins.
    pub(crate) fn counter(&mut self, disk: &Arc<str>, read_bytes: u64) {
        if self.disks.contains_key(disk) {
            self.first_totals.entry(Arc::clone(disk)).or_insert(read_bytes);
        }
    }

    /// A read at `at_us` was ascribed in this way.
    pub(crate) fn used(&mut self, mode: AttributionMode, at_us: u64, why: Option<&str>) {
        self.mode = Some(self.mode.map_or(mode, |m| m.max(mode)));
        let is_full = self.spans.len() >= MAX_SPANS;
        match self.spans.last_mut() {
            Some(last) if last.mode == mode && last.why.as_deref() == why => {
                last.to_us = last.to_us.max(at_us)
            }
            // Reads of several threads are settled a little out of order.
            Some(last) if at_us < last.from_us => {}
            Some(last) if is_full => {
                last.to_us = last.to_us.max(at_us);
                last.mode = last.mode.max(mode);
            }
            _ => self.spans.push(InForce {
                from_us: at_us,
                to_us: at_us,
                mode,
                why: why.map(ToOwned::to_owned),
            }),
        }
    }

    /// A disk failed.
    pub(crate) fn fault(&mut self, at_us: u64, disk: &str, what: &str) {
        if self.faults.len() < MAX_FAULTS && !self.faults.iter().any(|f| f.disk == disk && f.what == what) {
            let at_s = self.seconds(at_us);
            self.faults.push(DiskFault { at_s, disk: disk.to_owned(), what: what.to_owned() });
        }
    }

    pub(crate) fn because(&mut self, why: &str) {
        if self.whys.len() < 8 {
            self.whys.insert(why.to_owned());
        }
    }

    /// What a row says whatever attribution is in force: own bytes, waits.
    pub(crate) fn note_row(&mut self, row: &Row) {
        if row.kind == RowKind::Worker {
            self.input_bytes = self.input_bytes.saturating_add(row.range.len_bytes());
        }
        self.asked(row);
        // What ZFS counts for a thread has little to do with what came off disks; see `brought`.
        if !row.file.device.has_own_threads() {
            let mine = self.mine.entry(row.file.identity).or_default();
            row.fetched.iter().for_each(|r| mine.insert(*r));
            if row.kind == RowKind::Worker
                && self.file.as_ref().is_some_and(|f| f.identity == row.file.identity)
            {
                // What a converter reads is not sent: what it had not fetched was in memory.
                mine.gaps(row.range).into_iter().for_each(|r| self.came(row.start_us, r, Origin::Memory));
            }
        }
        if row.inblock_bytes > 0
            && !row.file.device.has_own_threads()
            && row.file.device.known_plan().is_some_and(Plan::is_degraded)
            && let Some(Ok(map)) = row.file.map()
        {
            let mine = self.mine.entry(row.file.identity).or_default();
            // btrfs computes it in its workers, in nobody's count; it was not in memory all the same.
            let lost = map.pieces(row.range).into_iter().filter(|p| !p.is_readable());
            lost.filter_map(|p| ByteRange::of_len(p.offset, p.len_bytes)).for_each(|r| mine.insert(r));
        }
        let waited_us = row.end_us.saturating_sub(row.queued_us);
        if row.kind == RowKind::Read && waited_us >= STALL_US && self.stalls.len() < MAX_MARKS {
            let queued_ms = row.start_us.saturating_sub(row.queued_us) / 1000;
            let disk_ms = row.end_us.saturating_sub(row.start_us) / 1000;
            let names: Vec<&str> = self.disks.keys().map(|d| &**d).collect();
            let cause = format!(
                "reading {} KiB took {disk_ms} ms on {} after {queued_ms} ms in the queue",
                row.range.len_bytes() >> 10,
                names.join(", ")
            );
            self.stall(row.queued_us, waited_us, cause);
        }
    }

    /// Keeps what a read brought from disks. Probes and the opening are not the viewer's.
    fn asked(&mut self, row: &Row) {
        if !matches!(row.kind, RowKind::Read | RowKind::Ahead | RowKind::Worker) {
            return;
        }
        self.file_bytes = self.file_bytes.max(row.file.identity.size_bytes);
        // A pool that reads in its own threads does not tell what came off disks: all that was asked is kept.
        let whole = (row.fetched.is_empty() && row.file.device.has_own_threads()).then_some(row.range);
        row.fetched.iter().copied().chain(whole).for_each(|range| self.request(row.queued_us, range));
    }

    fn request(&mut self, at_us: u64, range: ByteRange) {
        if range.is_empty() {
            return;
        }
        if self.requests.len() >= MAX_REQUESTS {
            self.requests_left_out += 1;
            return;
        }
        let at_ms = self.since_start(at_us) / 1000;
        self.requests.push(FileRequest { at_ms, offset: range.start(), length_bytes: range.len_bytes() });
    }

    /// In the order of asking: reads of several threads end in another.
    fn requests(&self) -> Vec<FileRequest> {
        let mut requests = self.requests.clone();
        requests.sort_by_key(|r| r.at_ms);
        requests
    }

    #[expect(clippy::cast_precision_loss, reason = "seconds for people")]
    pub(crate) fn stall(&mut self, at_us: u64, duration_us: u64, cause: String) {
        if self.stalls.len() < MAX_MARKS {
            self.stalls.push(Stall {
                at_s: self.seconds(at_us),
                duration_s: duration_us as f64 / 1e6,
                cause,
            });
        }
    }

    /// One submitted piece of a read, as traced.
    pub(crate) fn traced(&mut self, bio: &BlockEvent, part: Part, disk: &Arc<str>, requests: &mut Requests) {
        self.used(AttributionMode::BlockTrace, bio.time_us, None);
        let at_us = self.since_start(bio.time_us);
        let tally = self.disks.entry(Arc::clone(disk)).or_default();
        let taken = requests.take(bio);
        tally.failed += u64::from(matches!(taken, Taken::Now(r) if r.is_failed));
        if bio.is_metadata {
            tally.metadata_bytes += bio.len_bytes();
            return;
        }
        tally.bytes(part, bio.len_bytes());
        let reads = match taken {
            Taken::Now(request) => {
                request_done(tally, &request);
                1
            }
            Taken::Already => {
                tally.merged += 1;
                0
            }
            // A device without requests of its own, or its events were lost: the bio is all there is.
            Taken::Unknown => {
                tally.request(bio.start_byte(), bio.len_bytes(), None);
                1
            }
        };
        self.series.read(at_us, disk, bio.len_bytes(), reads);
    }

    /// A read's bytes as placed by the map.
    pub(crate) fn mapped(&mut self, row: &Row, names: &[Arc<str>], placed: &ByMap, why: Option<&str>) {
        self.used(AttributionMode::SampledMap, row.start_us, why);
        let at_us = self.since_start(row.start_us);
        for (place, len_bytes, part) in &placed.runs {
            let Some(disk) = names.get(place.disk) else { continue };
            let tally = self.disks.entry(Arc::clone(disk)).or_default();
            tally.bytes(*part, *len_bytes);
            tally.request(place.offset, *len_bytes, None);
            tally.took(row.start_us, row.end_us);
            *self.placed.entry(Arc::clone(disk)).or_default() += len_bytes;
            self.series.read(at_us, disk, *len_bytes, 1);
        }
        self.unattributed_bytes += placed.unattributed_bytes;
        for (set, bytes) in &placed.sets {
            let set: Vec<Arc<str>> = set.iter().filter_map(|i| names.get(*i).cloned()).collect();
            *self.sets.entry(set).or_default() += bytes;
        }
    }

    /// Bytes whose disk the map gave since the last time.
    pub(crate) fn placed(&mut self) -> BTreeMap<Arc<str>, u64> {
        std::mem::take(&mut self.placed)
    }

    /// What a mirror's disks gave and is not divided yet.
    pub(crate) fn sets(&self) -> impl Iterator<Item = (&Vec<Arc<str>>, &u64)> {
        self.sets.iter()
    }

    /// Divides what a mirror's disks gave by what their own counters say. Where those have not moved (yet), it waits; with
    /// `is_last` it stays unknown.
    pub(crate) fn divide(&mut self, at_us: u64, owed: &mut Owed, is_last: bool) {
        let at_us = self.since_start(at_us);
        for (set, bytes) in std::mem::take(&mut self.sets) {
            let Some(parts) = owed.divide(&set, bytes) else {
                if is_last {
                    self.unattributed_bytes += bytes;
                } else {
                    self.sets.insert(set, bytes);
                }
                continue;
            };
            for (disk, part) in parts {
                self.series.read(at_us, &disk, part, 0);
                self.disks.entry(disk).or_default().read_bytes += part;
            }
            self.divided_bytes += bytes;
        }
    }

    /// Bytes that the kernel counted for a read besides its own: the array below may have read them again.
    pub(crate) fn asked_again(&mut self, disks: Vec<Arc<str>>, bytes: u64) {
        *self.again.entry(disks).or_default() += bytes;
    }

    /// What it may have made arrays read again, and nobody has looked at yet.
    pub(crate) fn again(&self) -> impl Iterator<Item = (&Vec<Arc<str>>, u64)> {
        self.again.iter().map(|(disks, bytes)| (disks, *bytes))
    }

    /// Of what an array read again, `parts`, its share, as of the `all` bytes that streams asked for again.
    pub(crate) fn divide_again(
        &mut self,
        now_us: u64,
        disks: &[Arc<str>],
        parts: &[(Arc<str>, u64)],
        all: u64,
    ) {
        let Some(mine) = self.again.remove(disks).filter(|n| *n > 0) else { return };
        let at_us = self.since_start(now_us);
        for (disk, bytes) in parts {
            let part = u128::from(*bytes) * u128::from(mine) / u128::from(all.max(1));
            let part = u64::try_from(part).unwrap_or(0);
            self.series.read(at_us, disk, part, 0);
            self.disks.entry(Arc::clone(disk)).or_default().read_bytes += part;
            self.divided_bytes += part;
        }
    }

    pub(crate) fn metadata(&mut self, disk: &Arc<str>, bytes: u64) {
        self.disks.entry(Arc::clone(disk)).or_default().metadata_bytes += bytes;
    }

    /// Bytes of which only the number is known. `why` if that is more than a gap in the trace.
    pub(crate) fn unattributed(&mut self, bytes: u64, at_us: u64, why: Option<&str>) {
        if bytes == 0 {
            return;
        }
        match why {
            Some(why) => self.elsewhere(bytes, at_us, why),
            None => self.unattributed_bytes += bytes,
        }
    }

    /// A read of what is on no disk of this machine: the record names none, also where the kernel had it all in memory.
    pub(crate) fn elsewhere(&mut self, bytes: u64, at_us: u64, why: &str) {
        self.unattributed_bytes += bytes;
        self.used(AttributionMode::None, at_us, Some(why));
        self.because(why);
    }

    /// Bytes that were missing until their request was found.
    pub(crate) fn found(&mut self, bytes: u64) {
        self.unattributed_bytes = self.unattributed_bytes.saturating_sub(bytes);
    }

    /// A read and the disks that it used, for the jumps around it.
    pub(crate) fn went_to(&mut self, row: &Row, disks: BTreeSet<Arc<str>>) {
        if disks.is_empty() {
            return;
        }
        self.was_at(Recent { end_us: row.end_us, file: row.file.identity, range: row.range, disks });
    }

    fn was_at(&mut self, recent: Recent) {
        let from = self.jumps.len().saturating_sub(POSITIONS);
        for jump in &mut self.jumps[from..] {
            jump.look_at(&recent);
        }
        self.recent.push_back(recent);
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
    }

    /// Whether it was last handed bytes of the file near `offset`.
    pub(crate) fn is_near(&self, file: FileIdentity, offset: u64) -> bool {
        self.positions.iter().any(|(f, end)| *f == file && end.abs_diff(offset) <= AROUND_BYTES)
    }

    /// Bytes that the client was handed.
    pub(crate) fn served(&mut self, file: FileIdentity, run: ServedRun) {
        let mine = self.mine.entry(file).or_default();
        // What was fetched for it counts once; sent again, it comes from memory.
        let others = mine.gaps(run.range);
        self.cached_bytes += others.iter().map(|r| r.len_bytes()).sum::<u64>();
        mine.remove(run.range);
        if let Some(sent) = self.sent.get_mut(&file) {
            // What of it came off disks is known later.
            sent.insert(run.range);
        } else if !self.is_cached_by_sum && self.file.as_ref().is_some_and(|f| f.identity == file) {
            others.into_iter().for_each(|r| self.came(run.at_us, r, Origin::Memory));
        }
        self.moved(file, run.range, run.at_us);
    }

    /// Bytes of a file that a request brought, known by its place only after it was issued: some may have been sent
    /// already, and were taken for the memory's.
    pub(crate) fn brought(&mut self, file: FileIdentity, ranges: &[ByteRange], disk: &Arc<str>, at_us: u64) {
        let sent = self.sent.entry(file).or_default();
        let mine = self.mine.entry(file).or_default();
        for range in ranges {
            let early = sent.overlap_bytes(*range);
            self.cached_bytes = self.cached_bytes.saturating_sub(early);
            sent.gaps(*range).into_iter().for_each(|r| mine.insert(r));
            sent.remove(*range);
        }
        if let Some(range) = ranges.first() {
            let disks = BTreeSet::from([Arc::clone(disk)]);
            self.was_at(Recent { end_us: at_us, file, range: *range, disks });
        }
    }

    /// This stream reads a file whose requests are known by their places; see `brought`.
    pub(crate) fn sends_late(&mut self, file: FileIdentity) {
        self.sent.entry(file).or_default();
    }

    /// A read of a pool that tells neither what came off disks for it nor where: its disks' own counters will.
    pub(crate) fn asked_pool(&mut self, disks: &[Arc<str>], row: &Row, why: Option<&str>) {
        self.used(AttributionMode::SampledMap, row.start_us, why);
        let share = self.pools.entry(disks.to_vec()).or_default();
        share.asked_bytes += row.range.len_bytes();
        share.at_us = row.end_us;
        self.is_cached_by_sum = true;
    }

    /// What was served and did not come off disks came from memory; no more is known.
    pub(crate) fn caches_by_sum(&mut self) {
        self.is_cached_by_sum = true;
    }

    /// What it asks of each pool now.
    pub(crate) fn pool_shares(&self, now_us: u64) -> impl Iterator<Item = (&Vec<Arc<str>>, u64)> {
        self.pools.iter().map(move |(disks, share)| (disks, share.now(now_us)))
    }

    /// Divides what the disks of pools read, `moved`, among the streams, `all` of which ask so much of each.
    pub(crate) fn divide_pools(
        &mut self,
        now_us: u64,
        moved: &BTreeMap<Arc<str>, u64>,
        all: &BTreeMap<Vec<Arc<str>>, u64>,
    ) {
        let at_us = self.since_start(now_us);
        for (disks, share) in &mut self.pools {
            let of = |d: &Arc<str>| moved.get(d).copied().unwrap_or(0);
            let (mine, all) = (share.now(now_us), all.get(disks).copied().unwrap_or(0));
            if mine == 0 || all == 0 || disks.iter().map(of).sum::<u64>() == 0 {
                continue;
            }
            for disk in disks {
                let part = u128::from(of(disk)) * u128::from(mine) / u128::from(all);
                let part = u64::try_from(part).unwrap_or(0);
                self.disks.entry(Arc::clone(disk)).or_default().read_bytes += part;
                self.series.read(at_us, disk, part, 0);
                self.divided_bytes += part;
            }
            share.last_bytes = mine;
            share.asked_bytes = 0;
        }
    }

    /// A position: a jump unless it goes on from one of the last.
    pub(crate) fn moved(&mut self, file: FileIdentity, range: ByteRange, at_us: u64) {
        let goes_on = |(f, end): &(FileIdentity, u64)| {
            *f == file
                && (range.start() >= *end && range.start() - end < JUMP_BYTES
                    || range.start() < *end && range.end() >= *end)
        };
        if let Some(i) = self.positions.iter().position(goes_on) {
            self.positions.remove(i);
        } else if let Some(&(last, from)) = self.positions.back()
            && last == file
            && self.jumps.len() < MAX_MARKS
        {
            let mut jump = Jump {
                at_us,
                file,
                from,
                to: range.start(),
                before: BTreeSet::new(),
                after: BTreeSet::new(),
            };
            self.recent.iter().for_each(|r| jump.look_at(r));
            self.jumps.push(jump);
        }
        self.positions.push_back((file, range.end()));
        if self.positions.len() > POSITIONS {
            self.positions.pop_front();
        }
    }

    pub(crate) fn machine(&mut self, at_us: u64, cpu_us: u64, read_bytes: u64, write_bytes: u64) {
        self.series.machine(self.since_start(at_us), cpu_us, read_bytes, write_bytes);
    }

    /// The record as of now.
    pub(crate) fn snapshot(
        &self,
        now_us: u64,
        ended_unix_us: Option<i64>,
        default_mode: AttributionMode,
        totals: &HashMap<Arc<str>, DiskCounters>,
    ) -> IoRecord {
        let bytes: Vec<(Arc<str>, u64)> =
            self.disks.iter().map(|(d, t)| (Arc::clone(d), t.read_bytes)).collect();
        let on_disks: u64 = bytes.iter().map(|(_, b)| b).sum();
        let served_bytes = self.shared.served_bytes.load(Ordering::Relaxed);
        let names: Vec<Arc<str>> = self.disks.keys().cloned().collect();
        // What waits to be divided came off disks, too.
        let read_bytes = on_disks + self.unattributed_bytes + self.sets.values().sum::<u64>();
        let cached_bytes = if self.is_cached_by_sum && self.input_bytes == 0 {
            served_bytes.saturating_sub(on_disks + self.unattributed_bytes)
        } else {
            self.cached_bytes.min(served_bytes)
        };
        let input_cached_bytes = self.input_bytes.saturating_sub(read_bytes);
        IoRecord {
            started: clock::rfc3339(self.started_unix_us),
            ended: ended_unix_us.map(clock::rfc3339),
            attribution: self.mode.unwrap_or(default_mode),
            why: (!self.whys.is_empty()).then(|| self.whys.iter().cloned().collect::<Vec<_>>().join("; ")),
            attribution_spans: self.spans(),
            error_share: self.error_share(on_disks),
            served_bytes,
            read_bytes,
            cached_bytes,
            input_bytes: self.input_bytes,
            input_cached_bytes,
            unattributed_bytes: self.unattributed_bytes + self.sets.values().sum::<u64>(),
            disks: self.disk_rows(on_disks, self.since_start(now_us), totals),
            striping: self.striping(
                &bytes,
                (served_bytes, read_bytes),
                (cached_bytes, input_cached_bytes),
                self.since_start(now_us),
            ),
            seeks: self.jumps.iter().map(|j| self.seek(j)).collect(),
            stalls: self.stalls.clone(),
            faults: self.faults.clone(),
            series: self.series.json(&names),
            file_bytes: self.file_bytes,
            // A page asks once a second for the record of a stream that runs, and draws none of them.
            requests: ended_unix_us.map(|_| self.requests()).unwrap_or_default(),
            requests_left_out: self.requests_left_out,
            trail: self.file.as_ref().and_then(|f| self.trail.json(f.identity.size_bytes)),
        }
    }

    fn spans(&self) -> Vec<AttributionSpan> {
        if self.spans.len() < 2 {
            return Vec::new();
        }
        let span = |s: &InForce| AttributionSpan {
            from_s: self.seconds(s.from_us),
            to_s: self.seconds(s.to_us),
            attribution: s.mode,
            why: s.why.clone(),
        };
        self.spans.iter().map(span).collect()
    }

    fn error_share(&self, on_disks: u64) -> Option<f64> {
        let divided = ratio(self.divided_bytes, on_disks);
        (self.mode == Some(AttributionMode::SampledMap))
            .then_some(MAP_ERROR.mul_add(1.0 - divided, DIVIDED_ERROR * divided))
    }

    fn disk_rows(
        &self,
        on_disks: u64,
        elapsed_us: u64,
        totals: &HashMap<Arc<str>, DiskCounters>,
    ) -> Vec<DiskIo> {
        let row = |(disk, t): (&Arc<str>, &Tally)| DiskIo {
            disk: disk.to_string(),
            reads: t.requests,
            read_bytes: t.read_bytes,
            metadata_bytes: t.metadata_bytes,
            parity_bytes: t.parity_bytes,
            reconstruct_bytes: t.reconstruct_bytes,
            merged: t.merged,
            disk_total_bytes: self
                .first_totals
                .get(disk)
                .and_then(|first| Some(totals.get(disk)?.read_bytes.saturating_sub(*first))),
            sequential_share: ratio(t.sequential, t.requests),
            mean_request_bytes: t.request_bytes.checked_div(t.requests).unwrap_or(0),
            latency_us: t.latency.percentiles(),
            share: ratio(t.read_bytes, on_disks),
            busy_share: ratio(t.busy_us(), elapsed_us).min(1.0),
            failed_reads: t.failed,
        };
        self.disks.iter().map(row).collect()
    }

    fn striping(
        &self,
        bytes: &[(Arc<str>, u64)],
        (served_bytes, read_bytes): (u64, u64),
        (sent, input): (u64, u64),
        elapsed_us: u64,
    ) -> Striping {
        let shape = self.shape.clone().unwrap_or_else(Shape::one_disk);
        let only: Vec<u64> = bytes.iter().map(|(_, b)| *b).collect();
        let (requests, request_bytes) =
            self.disks.values().fold((0, 0), |(n, b), t| (n + t.requests, b + t.request_bytes));
        let request_bytes = u64::checked_div(request_bytes, requests);
        let failed: Vec<&str> = self.disks.iter().filter(|(_, t)| t.failed > 0).map(|(d, _)| &**d).collect();
        let busiest = self.disks.iter().max_by_key(|(_, t)| t.busy_us()).filter(|(_, t)| t.busy_us() > 0);
        let computing_bytes = self.disks.values().map(|t| t.parity_bytes + t.reconstruct_bytes).sum();
        let facts = Facts {
            failed: &failed,
            by: &shape.by,
            level: &shape.level,
            kind: shape.kind,
            columns: shape.columns,
            copies: shape.copies,
            chunk_bytes: shape.chunk_bytes,
            bytes,
            copy_bytes: &self.copy_bytes,
            served_bytes,
            cached_bytes: sent,
            input_bytes: self.input_bytes,
            input_cached_bytes: input,
            unattributed_bytes: self.unattributed_bytes,
            request_bytes: request_bytes.unwrap_or(0),
            computing_bytes,
            stalls: self.stalls.len(),
            busiest: busiest.map(|(d, t)| (&**d, ratio(t.busy_us(), elapsed_us).min(1.0))),
            is_traced: self.mode.is_none_or(|m| m == AttributionMode::BlockTrace),
        };
        let copies_used = facts.copies_used();
        // Of the file's own bytes; more than all where some were read again after their request was counted.
        let of = read_bytes.saturating_sub(computing_bytes).max(self.copy_bytes.iter().sum());
        let shares = || {
            (0..shape.copies.max(1) as usize).map(|n| ratio(self.copy_bytes.get(n).copied().unwrap_or(0), of))
        };
        Striping {
            columns: shape.columns,
            // Two copies of one column are two disks, and still one column.
            columns_used: u32::try_from(used(bytes).len()).unwrap_or(u32::MAX).min(shape.columns),
            evenness: evenness(&only, only.len()),
            verdict: verdict(&facts),
            level: Some(shape.level.clone()),
            copies: Some(shape.copies),
            copies_used,
            copy_shares: copies_used.map(|_| shares().collect()),
            chunk_bytes: Some(shape.chunk_bytes).filter(|n| *n > 0),
            mean_request_bytes: request_bytes,
            cache_share: facts.cache_share(),
            advice: Some(advice(&facts)),
        }
    }

    fn seek(&self, j: &Jump) -> Seek {
        let names = |set: &BTreeSet<Arc<str>>| set.iter().map(|d| d.to_string()).collect();
        Seek {
            at_s: self.seconds(j.at_us),
            from_byte: j.from,
            to_byte: j.to,
            disks_before: names(&j.before),
            disks_after: names(&j.after),
        }
    }
}

fn request_done(tally: &mut Tally, request: &Request) {
    tally.request(request.start, request.len_bytes, Some(request.is_sequential));
    if let Some(complete_us) = request.complete_us {
        tally.took(request.issue_us, complete_us);
    }
}

impl Jump {
    /// Takes a read's disks if it lies just before where the jump began, or just after where it went.
    fn look_at(&mut self, read: &Recent) {
        if read.file != self.file {
            return;
        }
        let meets = |start: u64, end: u64| read.range.start() < end && read.range.end() > start;
        if meets(self.from.saturating_sub(AROUND_BYTES), self.from) && read.end_us <= self.at_us {
            self.before.extend(read.disks.iter().cloned());
        }
        if meets(self.to, self.to.saturating_add(AROUND_BYTES)) {
            self.after.extend(read.disks.iter().cloned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live() -> Live {
        Live::new(0, 0, Arc::default())
    }

    fn file() -> FileIdentity {
        FileIdentity { dev: 1, ino: 2, size_bytes: 1 << 40, modified_us: 0, changed_us: 0 }
    }

    fn run(start: u64, end: u64, at_us: u64) -> ServedRun {
        ServedRun { range: ByteRange::new(start << 20, end << 20).unwrap(), at_us }
    }

    #[test]
    fn only_a_position_that_goes_on_from_nowhere_is_a_jump() {
        let mut live = live();
        live.served(file(), run(0, 10, 0));
        live.served(file(), run(10, 20, 1));
        live.served(file(), run(500, 510, 2_000_000));
        live.served(file(), run(20, 30, 3));
        live.served(file(), run(510, 520, 4));
        let seeks = live.snapshot(5, None, AttributionMode::None, &HashMap::new()).seeks;
        let want = Seek {
            at_s: 2.0,
            from_byte: 20 << 20,
            to_byte: 500 << 20,
            disks_before: vec![],
            disks_after: vec![],
        };
        assert_eq!(seeks, [want]);
    }

    #[test]
    fn what_was_fetched_counts_as_read_once_and_from_memory_when_sent_again() {
        let mut live = live();
        live.shared.served_bytes.store(20 << 20, Ordering::Relaxed);
        live.mine.entry(file()).or_default().insert(ByteRange::new(0, 8 << 20).unwrap());
        live.served(file(), run(0, 10, 0));
        assert_eq!(live.cached_bytes, 2 << 20);
        live.served(file(), run(0, 10, 0));
        assert_eq!(live.snapshot(1, None, AttributionMode::None, &HashMap::new()).cached_bytes, 12 << 20);
    }

    #[test]
    fn what_a_converter_found_in_memory_is_told_beside_what_was_sent() {
        let mut live = live();
        live.shared.served_bytes.store(3 << 20, Ordering::Relaxed);
        live.input_bytes = 20 << 20;
        live.unattributed_bytes = 8 << 20;
        for by_sum in [false, true] {
            live.is_cached_by_sum = by_sum;
            let record = live.snapshot(1, None, AttributionMode::None, &HashMap::new());
            // What was sent was made, and in no cache.
            assert_eq!(
                (record.input_bytes, record.input_cached_bytes, record.cached_bytes),
                (20 << 20, 12 << 20, 0)
            );
        }
        live.unattributed_bytes = 21 << 20; // read ahead, and not wanted
        let record = live.snapshot(1, None, AttributionMode::None, &HashMap::new());
        assert_eq!(record.input_cached_bytes, 0);
    }

    #[test]
    fn the_weakest_attribution_of_any_byte_is_that_of_the_record() {
        let mut live = live();
        assert_eq!(
            live.snapshot(0, None, AttributionMode::BlockTrace, &HashMap::new()).attribution,
            AttributionMode::BlockTrace
        );
        live.used(AttributionMode::SampledMap, 1_000_000, Some("no helper"));
        live.used(AttributionMode::BlockTrace, 2_000_000, None);
        live.used(AttributionMode::BlockTrace, 3_000_000, None);
        live.unattributed(4096, 4_000_000, Some("no map"));
        let record = live.snapshot(0, None, AttributionMode::BlockTrace, &HashMap::new());
        assert_eq!((record.attribution, record.why.as_deref()), (AttributionMode::None, Some("no map")));
        assert_eq!((record.read_bytes, record.unattributed_bytes), (4096, 4096));
        let spans: Vec<_> =
            record.attribution_spans.iter().map(|s| (s.from_s, s.to_s, s.attribution)).collect();
        assert_eq!(
            spans,
            [
                (1.0, 1.0, AttributionMode::SampledMap),
                (2.0, 3.0, AttributionMode::BlockTrace),
                (4.0, 4.0, AttributionMode::None)
            ]
        );
        let json = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<IoRecord>(&json).unwrap(), record);
    }

    #[test]
    fn a_mirror_is_divided_by_what_its_disks_counted_and_waits_until_they_have() {
        let mut live = live();
        let [a, b]: [Arc<str>; 2] = ["sda".into(), "sdb".into()];
        live.sets.insert(vec![Arc::clone(&a), Arc::clone(&b)], 1000);
        let mut owed = Owed::default();
        live.divide(0, &mut owed, false);
        assert_eq!(live.sets.len(), 1);
        owed.moved(&a, 3000);
        owed.moved(&b, 1000);
        live.divide(0, &mut owed, false);
        let record = live.snapshot(1, None, AttributionMode::SampledMap, &HashMap::new());
        let got: Vec<u64> = record.disks.iter().map(|d| d.read_bytes).collect();
        assert_eq!(got, [750, 250]);
        assert_eq!((record.read_bytes, record.unattributed_bytes), (1000, 0));
    }

    #[test]
    fn what_no_counter_explains_stays_unknown() {
        let mut live = live();
        live.sets.insert(vec!["sda".into(), "sdb".into()], 1000);
        live.divide(0, &mut Owed::default(), true);
        let record = live.snapshot(1, None, AttributionMode::SampledMap, &HashMap::new());
        assert_eq!((record.read_bytes, record.unattributed_bytes), (1000, 1000));
    }

    #[test]
    fn what_was_asked_is_in_the_last_record_in_the_order_of_asking_and_bounded() {
        let mut live = live();
        let range = |n: u64| ByteRange::of_len(n << 20, 1 << 20).unwrap();
        live.request(3_000, range(1));
        live.request(1_999, range(0));
        live.request(4_000, ByteRange::of_len(5, 0).unwrap());
        let at = |live: &Live, ended| live.snapshot(9, ended, AttributionMode::None, &HashMap::new());
        assert!(at(&live, None).requests.is_empty(), "one that runs is asked for every second");
        let row = |at_ms, n: u64| FileRequest { at_ms, offset: n << 20, length_bytes: 1 << 20 };
        assert_eq!(at(&live, Some(9)).requests, [row(1, 0), row(3, 1)]);
        (0..MAX_REQUESTS as u64).for_each(|n| live.request(5_000, range(n)));
        let record = at(&live, Some(9));
        assert_eq!((record.requests.len(), record.requests_left_out), (MAX_REQUESTS, 2));
        let json = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<IoRecord>(&json).unwrap(), record);
    }

    #[test]
    fn a_disk_that_fails_every_request_is_told_once() {
        let mut live = live();
        live.fault(1_500_000, "sda", "reads fail");
        live.fault(2_000_000, "sda", "reads fail");
        let record = live.snapshot(1, None, AttributionMode::SampledMap, &HashMap::new());
        let want = DiskFault { at_s: 1.5, disk: "sda".to_owned(), what: "reads fail".to_owned() };
        assert_eq!(record.faults, [want]);
    }
}
