//! What is known of one file, shared by everyone who has it open: its map, and which of its bytes have
//! been fetched into the page cache.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use spindle_base::clock::Clock;
use spindle_base::sync::Mutex;
use spindle_base::units::ByteRange;

use crate::device::Device;
use crate::intervals::IntervalSet;
use crate::layout::FileMap;

/// Pages of the cache; larger base pages do not exist on the architectures served.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// Which file it is and which state of it: enough for a strong validator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FileIdentity {
    /// `st_dev`.
    pub dev: u64,
    /// `st_ino`.
    pub ino: u64,
    /// Size when it was opened.
    pub size_bytes: u64,
    /// Last change of the contents, microseconds since the Unix epoch.
    pub modified_us: i64,
    /// Last change of contents or inode, microseconds since the Unix epoch.
    pub changed_us: i64,
}

/// How long a read may outlive the worker that asked for it: the kernel reads ahead for it, and a killed one waits for its
/// disk. A disk that has not answered for 30 s is reset (drivers/scsi/sd.h, `SD_TIMEOUT`), and the read tried again.
const FOREIGN_LINGERS_US: u64 = 40_000_000;

/// See the module.
#[derive(Debug)]
pub(crate) struct FileState {
    pub(crate) identity: FileIdentity,
    pub(crate) device: Arc<Device>,
    /// Or why there is none. Empty while it is being made.
    map: OnceLock<Result<FileMap, String>>,
    is_map_asked: AtomicBool,
    cache: Mutex<Cache, 43>,
    pub(crate) foreign: ForeignReaders,
}

/// Who reads the file beside the reader threads: workers. What they read is in the page cache by name before it is there.
#[derive(Debug, Default)]
pub(crate) struct ForeignReaders {
    /// How many have it open.
    open: AtomicU32,
    /// Until when a read of one that has gone may still be under way, by the monotonic clock; 0: none is.
    until_us: AtomicU64,
}

impl ForeignReaders {
    /// A worker gets the file.
    pub(crate) fn begin(&self) {
        self.open.fetch_add(1, Ordering::AcqRel);
    }

    /// A worker has done with the file, or was killed.
    pub(crate) fn end(&self, now_us: u64) {
        self.until_us.fetch_max(now_us + FOREIGN_LINGERS_US, Ordering::AcqRel);
        self.open.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether reads may be under way that are not ours. The clock is asked only for a while after the last one has gone.
    pub(crate) fn may_read(&self, clock: &dyn Clock) -> bool {
        if self.open.load(Ordering::Acquire) > 0 {
            return true;
        }
        let until_us = self.until_us.load(Ordering::Acquire);
        if until_us == 0 || clock.monotonic_us() < until_us {
            return until_us != 0;
        }
        // Whoever has gone meanwhile has set another time.
        let _ = self.until_us.compare_exchange(until_us, 0, Ordering::AcqRel, Ordering::Acquire);
        false
    }
}

#[derive(Debug, Default)]
struct Cache {
    fetched: IntervalSet,
    /// Being read right now, in the order in which they began: in the page cache by name, not yet by contents.
    in_flight: Vec<ByteRange>,
}

/// Which bytes a read fetched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) ranges: Vec<ByteRange>,
    /// What is left over: extent and checksum trees.
    pub(crate) metadata_bytes: u64,
}

/// An excess from here on, over pages that were fetched once already, is taken for a second fetch after
/// the kernel dropped them; less is metadata (tree nodes are 16 KiB).
const REFETCH_BYTES: u64 = 128 << 10;

/// A read, for `place`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fetch<'a> {
    pub(crate) range: ByteRange,
    /// Bytes that the kernel fetched for it.
    pub(crate) inblock: u64,
    /// A reader with kernel read-ahead: its fetch may go on past the range.
    pub(crate) overshoot: bool,
    /// Reads of the file that began before it and are still under way: what they share with this one, they
    /// most likely fetched.
    pub(crate) earlier: &'a [ByteRange],
    /// Those that began after it.
    pub(crate) later: &'a [ByteRange],
    /// The kernel may have counted pages that it refused to fetch and counted again when it did: what is left over is
    /// neither another read's nor fetched anew.
    pub(crate) counts_twice: bool,
}

/// Places the fetched bytes of a read of a file of `size` bytes: on the bytes of its range that nobody had
/// fetched yet, in order. Afterwards the set holds what is in memory, less what others are still at.
pub(crate) fn place(fetched: &mut IntervalSet, size: u64, read: Fetch<'_>) -> Placed {
    let Fetch { range, inblock, overshoot, earlier, later, counts_twice } = read;
    let mut out = Placed::default();
    let limit = pages(ByteRange::new(0, size).unwrap_or(range)).end();
    let whole = pages(range);
    let mut theirs = IntervalSet::default();
    earlier.iter().for_each(|r| theirs.insert(*r));
    let free = fetched.gaps(whole).into_iter().flat_map(|gap| theirs.gaps(gap)).collect();
    let mut left = take(&mut out.ranges, free, inblock);
    if left > 0 && !earlier.is_empty() && !counts_twice {
        // Of two reads of the same pages the later one may have come first to the disk.
        let mut rest = fetched.clone();
        out.ranges.iter().for_each(|r| rest.insert(*r));
        left = take(&mut out.ranges, rest.gaps(whole), left);
    }
    if left > 0 && overshoot {
        // As the kernel does it, the next bytes that are not there yet; searched within 64 MiB.
        let tail = ByteRange::new(whole.end().min(limit), whole.end().saturating_add(64 << 20).min(limit));
        left = take(&mut out.ranges, tail.map(|t| fetched.gaps(t)).unwrap_or_default(), left);
    }
    if left >= REFETCH_BYTES && !counts_twice {
        // Marked pages were fetched again: the cache had dropped them.
        let mut marked = IntervalSet::default();
        marked.insert(whole);
        for r in &out.ranges {
            marked.remove(*r);
        }
        let again = marked.reach(whole.start());
        let known = if again > whole.start() {
            ByteRange::new(whole.start(), again).into_iter().collect()
        } else {
            let taken = IntervalSet::default();
            out.ranges
                .iter()
                .fold(taken, |mut set, r| {
                    set.insert(*r);
                    set
                })
                .gaps(whole)
        };
        left = take(&mut out.ranges, known, left);
    }
    out.metadata_bytes = left;
    out.ranges.iter().for_each(|r| fetched.insert(*r));
    // The last one of several over the same pages marks them: one that fetched nothing does not know yet who did.
    later.iter().for_each(|r| theirs.insert(*r));
    theirs.gaps(whole).into_iter().for_each(|r| fetched.insert(r));
    out
}

/// Moves the first `left` bytes of `from` to `out`; what is still left.
fn take(out: &mut Vec<ByteRange>, from: Vec<ByteRange>, mut left: u64) -> u64 {
    for gap in from {
        let n = gap.len_bytes().min(left);
        out.extend(ByteRange::of_len(gap.start(), n).filter(|r| !r.is_empty()));
        left -= n;
    }
    left
}

/// `range` widened to whole pages.
pub(crate) fn pages(range: ByteRange) -> ByteRange {
    let start = range.start() / PAGE_BYTES * PAGE_BYTES;
    let end = range.end().div_ceil(PAGE_BYTES).saturating_mul(PAGE_BYTES);
    ByteRange::new(start, end).unwrap_or(range)
}

impl FileState {
    /// `None`: its map is made later, if at all.
    pub(crate) fn new(
        identity: FileIdentity,
        device: Arc<Device>,
        map: Option<Result<FileMap, String>>,
    ) -> Self {
        let map = map.map_or_else(OnceLock::new, OnceLock::from);
        Self {
            identity,
            device,
            map,
            is_map_asked: AtomicBool::new(false),
            cache: Mutex::default(),
            foreign: ForeignReaders::default(),
        }
    }

    /// Where it lies, or why that is not known. `None`: not known yet, or nobody has asked.
    pub(crate) fn map(&self) -> Option<&Result<FileMap, String>> {
        self.map.get()
    }

    pub(crate) fn set_map(&self, map: Result<FileMap, String>) {
        // The first one stays: others may have used it.
        let _ = self.map.set(map);
    }

    /// Where it lies, by `make` if that is not known. Whoever asks while it is being made waits for that one answer; `true`: it
    /// was made for this asker.
    pub(crate) fn map_or(
        &self,
        make: impl FnOnce() -> Result<FileMap, String>,
    ) -> (&Result<FileMap, String>, bool) {
        let mut is_new = false;
        let map = self.map.get_or_init(|| {
            is_new = true;
            make()
        });
        (map, is_new)
    }

    /// `true` once, where its map has still to be made.
    pub(crate) fn asks_for_map(&self) -> bool {
        self.map.get().is_none() && !self.is_map_asked.swap(true, Ordering::AcqRel)
    }

    /// Whether its map is being made.
    pub(crate) fn waits_for_map(&self) -> bool {
        self.map.get().is_none() && self.is_map_asked.load(Ordering::Acquire)
    }

    pub(crate) fn begin_read(&self, range: ByteRange) {
        self.cache.lock().in_flight.push(range);
    }

    /// Which bytes the read of `range` fetched: `got` of it was read, for which the kernel fetched `inblock`.
    /// The read counts as under way until `end_read`.
    pub(crate) fn fetched(&self, range: ByteRange, got: Option<ByteRange>, inblock: u64) -> Placed {
        let Some(got) = got else { return Placed { ranges: Vec::new(), metadata_bytes: inblock } };
        let counts_twice = self.counts_twice();
        let mut cache = self.cache.lock();
        let Cache { fetched, in_flight } = &mut *cache;
        let at = in_flight.iter().position(|r| *r == range).unwrap_or(0);
        let (earlier, later) = (&in_flight[..at], in_flight.get(at + 1..).unwrap_or(&[]));
        place(
            fetched,
            self.identity.size_bytes,
            Fetch { range: got, inblock, overshoot: false, earlier, later, counts_twice },
        )
    }

    /// Whether it lies on a parity array of md that reads page by page: such a one refuses requests ahead of need while its
    /// stripe cache is full (`R5_GAS_NOBLOCK` in drivers/md/raid5.c), and the reader asks again.
    pub(crate) fn counts_twice(&self) -> bool {
        matches!(self.map(), Some(Ok(map)) if map.below().reads_by_stripes())
    }

    /// Whether any read of it is under way.
    pub(crate) fn is_being_read(&self) -> bool {
        !self.cache.lock().in_flight.is_empty()
    }

    /// The read of `range` is over, and told to the ledger: whoever now sees its bytes in memory comes after it.
    pub(crate) fn end_read(&self, range: ByteRange) {
        let mut cache = self.cache.lock();
        if let Some(at) = cache.in_flight.iter().position(|r| *r == range) {
            cache.in_flight.remove(at);
        }
    }

    /// A read that someone else made, with the kernel's read-ahead.
    pub(crate) fn note_foreign_read(&self, range: ByteRange, inblock: u64) -> Placed {
        let read = Fetch { range, inblock, overshoot: true, earlier: &[], later: &[], counts_twice: false };
        place(&mut self.cache.lock().fetched, self.identity.size_bytes, read)
    }

    /// The cache has dropped these.
    pub(crate) fn unmark(&self, range: ByteRange) {
        self.cache.lock().fetched.remove(pages(range));
    }

    /// How far from `offset` everything has been fetched.
    pub(crate) fn reach(&self, offset: u64) -> u64 {
        self.cache.lock().fetched.reach(offset)
    }

    /// Where in `[offset, end)` the first read in progress begins; `end` if there is none.
    pub(crate) fn first_in_flight(&self, offset: u64, end: u64) -> u64 {
        let cache = self.cache.lock();
        let hits = cache.in_flight.iter().filter(|r| r.start() < end && r.end() > offset);
        hits.map(|r| r.start().max(offset)).min().unwrap_or(end)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const K: u64 = 1024;

    fn r(start: u64, end: u64) -> ByteRange {
        ByteRange::new(start * K, end * K).unwrap()
    }

    fn at(
        set: &mut IntervalSet,
        size: u64,
        range: ByteRange,
        inblock: u64,
        overshoot: bool,
        earlier: &[ByteRange],
    ) -> Placed {
        place(set, size, Fetch { range, inblock, overshoot, earlier, later: &[], counts_twice: false })
    }

    fn read<'a>(range: ByteRange, inblock: u64) -> Fetch<'a> {
        Fetch { range, inblock, overshoot: false, earlier: &[], later: &[], counts_twice: false }
    }

    fn placed(ranges: &[ByteRange], metadata_bytes: u64) -> Placed {
        Placed { ranges: ranges.to_vec(), metadata_bytes }
    }

    #[test]
    fn a_worker_may_read_while_it_has_the_file_and_as_long_after_as_its_last_read_may_take() {
        let clock = spindle_base::clock::ManualClock::at(1);
        let readers = ForeignReaders::default();
        assert!(!readers.may_read(&clock));
        readers.begin();
        readers.begin();
        readers.end(clock.monotonic_us());
        clock.advance(Duration::from_micros(2 * FOREIGN_LINGERS_US));
        assert!(readers.may_read(&clock), "one has it still");
        readers.end(clock.monotonic_us());
        clock.advance(Duration::from_micros(FOREIGN_LINGERS_US - 1));
        assert!(readers.may_read(&clock), "its last read may be under way");
        clock.advance(Duration::from_micros(1));
        assert!(!readers.may_read(&clock));
        readers.begin();
        assert!(readers.may_read(&clock), "another has come");
    }

    #[test]
    fn a_cold_read_is_placed_on_itself_and_its_excess_is_metadata() {
        let mut set = IntervalSet::default();
        assert_eq!(
            at(&mut set, 1 << 30, r(0, 2048), (2048 + 16) * K, false, &[]),
            placed(&[r(0, 2048)], 16 * K)
        );
        assert_eq!(at(&mut set, 1 << 30, r(0, 2048), 0, false, &[]), placed(&[], 0));
    }

    #[test]
    fn bytes_go_to_the_first_pages_that_nobody_fetched() {
        let mut set = IntervalSet::default();
        set.insert(r(64, 128));
        assert_eq!(
            at(&mut set, 1 << 30, r(0, 256), 192 * K, false, &[]),
            placed(&[r(0, 64), r(128, 256)], 0)
        );
    }

    #[test]
    fn pages_fetched_again_were_dropped_in_between() {
        let mut set = IntervalSet::default();
        set.insert(r(0, 1024));
        assert_eq!(at(&mut set, 1 << 30, r(0, 1024), 1024 * K, false, &[]), placed(&[r(0, 1024)], 0));
        // Half of it is new, half came again.
        assert_eq!(
            at(&mut set, 1 << 30, r(512, 1536), 1024 * K, false, &[]),
            placed(&[r(1024, 1536), r(512, 1024)], 0)
        );
    }

    #[test]
    fn read_ahead_of_a_worker_goes_past_its_range_but_not_past_the_file() {
        let mut set = IntervalSet::default();
        assert_eq!(at(&mut set, 1000 * K, r(0, 32), 128 * K, true, &[]), placed(&[r(0, 32), r(32, 128)], 0));
        assert_eq!(at(&mut set, 1000 * K, r(32, 64), 0, true, &[]), placed(&[], 0));
        assert_eq!(at(&mut set, 1000 * K, r(988, 1000), 40 * K, true, &[]), placed(&[r(988, 1000)], 28 * K));
    }

    #[test]
    fn what_an_earlier_read_is_fetching_is_left_to_it() {
        let mut set = IntervalSet::default();
        // The other one, [0, 2048), is still under way.
        assert_eq!(
            at(&mut set, 1 << 30, r(1024, 3072), 1024 * K, false, &[r(0, 2048)]),
            placed(&[r(2048, 3072)], 0)
        );
        assert_eq!(at(&mut set, 1 << 30, r(0, 2048), 2048 * K, false, &[]), placed(&[r(0, 2048)], 0));
        assert_eq!(at(&mut set, 1 << 30, r(4096, 5120), 0, false, &[r(4096, 5120)]), placed(&[], 0));
        assert_eq!(at(&mut set, 1 << 30, r(4096, 5120), 1024 * K, false, &[]), placed(&[r(4096, 5120)], 0));
        // Unless this one got there first after all.
        assert_eq!(
            at(&mut set, 1 << 30, r(6000, 6016), 16 * K, false, &[r(6000, 6016)]),
            placed(&[r(6000, 6016)], 0)
        );
        assert_eq!(at(&mut set, 1 << 30, r(6000, 6016), 0, false, &[]), placed(&[], 0));
    }

    #[test]
    fn a_read_that_fetched_nothing_does_not_hide_what_a_later_one_is_fetching() {
        let mut set = IntervalSet::default();
        let first = Fetch { later: &[r(8, 16)], ..read(r(0, 16), 8 * K) };
        assert_eq!(place(&mut set, 16 * K, first), placed(&[r(0, 8)], 0));
        assert_eq!(at(&mut set, 16 * K, r(8, 16), 8 * K, false, &[]), placed(&[r(8, 16)], 0));
    }

    /// md raid5 less a disk: the first one's read-ahead was refused, and its pages counted again.
    #[test]
    fn what_was_counted_twice_is_neither_another_reads_nor_fetched_anew() {
        let mut set = IntervalSet::default();
        let twice = |range, inblock| Fetch { counts_twice: true, ..read(range, inblock) };
        let second = Fetch { earlier: &[r(0, 2048)], ..twice(r(1024, 3072), 3000 * K) };
        assert_eq!(place(&mut set, 1 << 30, second), placed(&[r(2048, 3072)], 1976 * K));
        let first = twice(r(0, 2048), 3000 * K);
        assert_eq!(place(&mut set, 1 << 30, first), placed(&[r(0, 2048)], 952 * K));
        assert_eq!(place(&mut set, 1 << 30, twice(r(0, 2048), 1024 * K)), placed(&[], 1024 * K));
    }

    #[test]
    fn a_range_inside_a_page_is_that_page() {
        let mut set = IntervalSet::default();
        let range = ByteRange::new(5000, 5001).unwrap();
        assert_eq!(at(&mut set, 6000, range, 4096, false, &[]), placed(&[r(4, 8)], 0));
    }
}
