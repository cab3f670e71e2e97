//! From reads and block events to bytes by disk. Pure: values in, values out.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use spindle_base::units::ByteRange;

use crate::intervals::IntervalSet;
use crate::layout::{FileMap, Place};
use crate::map::piece::{Role, Source};
use crate::trace::{BlockEvent, BlockOp};

use super::join::{Extent, Part};

/// When a call ran, on which thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start_us: u64,
    pub(crate) end_us: u64,
}

/// Takes from the front of one thread's events (in order of time) those of the call `span`; the second list
/// are earlier ones, of no call. Later ones stay.
pub(crate) fn events_of(events: &mut VecDeque<BlockEvent>, span: Span) -> (Vec<BlockEvent>, Vec<BlockEvent>) {
    let upto = events.iter().take_while(|e| e.time_us <= span.end_us).count();
    events.drain(..upto).partition(|e| e.time_us >= span.start_us)
}

/// What of a read came from where, by the map.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ByMap {
    /// Runs in one piece of a disk, in order of the file, and what each was read for.
    pub(crate) runs: Vec<(Place, u64, Part)>,
    /// Bytes without a place, or on a mirror whose copy cannot be told.
    pub(crate) unattributed_bytes: u64,
    /// Bytes that came off one of several disks, of which it cannot be told which.
    pub(crate) sets: BTreeMap<Vec<usize>, u64>,
    /// Why the first of the bytes that have no place has none, where the map says so.
    pub(crate) no_place: Option<Arc<str>>,
}

impl ByMap {
    /// Whether the map could not tell of a single byte where it was.
    pub(crate) fn is_nowhere(&self) -> bool {
        self.runs.is_empty() && self.sets.is_empty() && self.unattributed_bytes > 0
    }
}

/// Places fetched ranges on disks. `leg` picks one of `n` copies: on btrfs the thread id modulo `n`; `None`
/// where that is not known.
pub(crate) fn by_map(map: &FileMap, fetched: &[ByteRange], leg: Option<u32>) -> ByMap {
    let mut out = ByMap::default();
    // The end of each disk's last run, to join the pieces of a stripe set disk by disk.
    let mut last: BTreeMap<usize, usize> = BTreeMap::new();
    for range in fetched {
        let mut placed = 0;
        for piece in map.pieces(*range) {
            if !piece.elsewhere.is_empty() {
                // On its disk or on that of a cache: as a mirror whose copy is not known.
                let below = piece.copies.iter().filter(|c| c.is_readable()).map(|c| c.place.disk);
                let mut set: Vec<usize> = below.chain(piece.elsewhere).collect();
                set.sort_unstable();
                set.dedup();
                placed += piece.len_bytes;
                *out.sets.entry(set).or_default() += piece.len_bytes;
                out.no_place = out.no_place.or(piece.doubt);
                continue;
            }
            let places = match piece.source(leg) {
                Source::One(place) => vec![(place, Part::Data)],
                // Computed: all of these are read. What of them the read wants itself is read once all the same.
                Source::Many(from) => from.into_iter().map(|(place, role)| (place, part_of(role))).collect(),
                Source::Unknown => {
                    let readable = piece.copies.iter().filter(|c| c.is_readable());
                    let mut set: Vec<usize> = readable.map(|c| c.place.disk).collect();
                    set.sort_unstable();
                    set.dedup();
                    placed += piece.len_bytes;
                    *out.sets.entry(set).or_default() += piece.len_bytes;
                    continue;
                }
                Source::Nowhere => {
                    // Not known where, yet on which disks at most: as a mirror whose copy is not known.
                    if let Some(why) = piece.doubt {
                        let set = map.below().disks();
                        if !set.is_empty() {
                            placed += piece.len_bytes;
                            *out.sets.entry(set).or_default() += piece.len_bytes;
                        }
                        out.no_place.get_or_insert(why);
                    }
                    continue;
                }
            };
            placed += piece.len_bytes;
            for (place, part) in places {
                let known = last.get(&place.disk).and_then(|i| out.runs.get_mut(*i));
                match known {
                    Some((run, len, of)) if *of == part && run.offset + *len == place.offset => {
                        *len += piece.len_bytes;
                    }
                    Some((run, len, _))
                        if run.offset <= place.offset
                            && place.offset + piece.len_bytes <= run.offset + *len => {}
                    _ => {
                        last.insert(place.disk, out.runs.len());
                        out.runs.push((place, piece.len_bytes, part));
                    }
                }
            }
        }
        out.unattributed_bytes += range.len_bytes() - placed.min(range.len_bytes());
    }
    out
}

/// Which copy gave the bytes that were fetched, as `by_map` takes it: `None` where that is not known, or where they were
/// computed of others.
pub(crate) fn copies_of(
    map: &FileMap,
    fetched: &[ByteRange],
    leg: Option<u32>,
) -> Vec<(ByteRange, Option<u16>)> {
    let mut out: Vec<(ByteRange, Option<u16>)> = Vec::new();
    for piece in fetched.iter().flat_map(|range| map.pieces(*range)) {
        let copy = match piece.source(leg) {
            Source::One(place) => numbered(piece.copies.iter().map(|c| c.place), place),
            Source::Many(_) | Source::Unknown => None,
            Source::Nowhere => continue,
        };
        let Some(range) = ByteRange::of_len(piece.offset, piece.len_bytes) else { continue };
        match out.last_mut() {
            Some((last, of)) if *of == copy && last.end() == range.start() => {
                *last = ByteRange::new(last.start(), range.end()).unwrap_or(*last);
            }
            _ => out.push((range, copy)),
        }
    }
    out
}

/// The index of a place among those of a piece's copies.
fn numbered(places: impl Iterator<Item = Place>, place: Place) -> Option<u16> {
    (0_u16..).zip(places).find(|(_, p)| *p == place).map(|(n, _)| n)
}

/// Bytes of a file that a request for `len_bytes` at a place of a disk brings, and of which copy they are. A request goes over
/// several runs of the file where those lie side by side; what is not the file's is passed over by 64 KiB.
pub(crate) fn copies_at(map: &FileMap, disk: usize, start: u64, len_bytes: u64) -> Vec<(ByteRange, u16)> {
    const STEP: u64 = 64 << 10;
    let mut out: Vec<(ByteRange, u16)> = Vec::new();
    let (mut at, end) = (start, start.saturating_add(len_bytes));
    while at < end {
        let found = map.find(disk, at).filter(|f| f.role == Role::Data);
        let piece = found.and_then(|f| {
            let range = ByteRange::of_len(f.offset, end - at)?;
            let piece = map.pieces(range).into_iter().next().filter(|p| p.offset == f.offset)?;
            let copy = numbered(piece.copies.iter().map(|c| c.place), Place { disk, offset: at })?;
            Some((ByteRange::of_len(piece.offset, piece.len_bytes)?, copy, piece.on_disk_bytes()))
        });
        let Some((range, copy, on_disk)) = piece.filter(|(.., n)| *n > 0) else {
            at = (at / STEP + 1) * STEP;
            continue;
        };
        match out.last_mut() {
            Some((last, of)) if *of == copy && last.end() == range.start() => {
                *last = ByteRange::new(last.start(), range.end()).unwrap_or(*last);
            }
            _ => out.push((range, copy)),
        }
        at = at.saturating_add(on_disk);
    }
    out
}

/// What a place is read for when another one is computed from it.
fn part_of(role: Role) -> Part {
    match role {
        Role::Data => Part::Reconstruct,
        Role::Parity | Role::Syndrome => Part::Parity,
        // Nothing is computed from it.
        Role::Tree => Part::Data,
    }
}

/// Where on disks (by their numbers, `numbers[disk]`) the bytes of a read of `range` lie, of which it fetched `fetched`: every
/// copy of them, and the rest of their rows, from which they are computed where a disk is gone or goes now.
pub(crate) fn places(
    map: &FileMap,
    (range, fetched): (ByteRange, &[ByteRange]),
    numbers: &[u32],
) -> Vec<Extent> {
    let mut counted = IntervalSet::default();
    fetched.iter().for_each(|r| counted.insert(*r));
    let others = counted.gaps(range);
    let parts = fetched.iter().map(|r| (r, true)).chain(others.iter().map(|r| (r, false)));
    let mut out = Vec::new();
    for (piece, is_counted) in
        parts.flat_map(|(r, counted)| map.rows(*r).into_iter().map(move |p| (p, counted)))
    {
        let data = piece.copies.iter().map(|c| (c.place, Part::Data));
        let rest = piece.rebuild.iter().map(|(place, role)| (*place, part_of(*role)));
        for (place, part) in data.chain(rest) {
            let Some(device) = numbers.get(place.disk) else { continue };
            let end = place.offset + piece.on_disk_bytes();
            out.push(Extent { device: *device, start: place.offset, end, part, is_counted });
        }
    }
    out
}

/// Requests of one disk: what became of submitted bios, and which had none.
///
/// `block_bio_queue` fires once in a bio's life (`submit_bio_noacct_nocheck` in block/blk-core.c asks
/// `BIO_TRACE_COMPLETION`). A driver that hands the very bio down that it was given (bcache without its cache, md linear,
/// md raid0 with its statistics off) therefore leaves none on the disk below; the request that the disk is given
/// (`block_rq_issue`) is all that is to be seen there.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// By first byte on the disk; the latest request at a place hides older ones.
    known: BTreeMap<u64, Request>,
    /// In order of issue, to forget the oldest.
    order: VecDeque<(u64, u64)>,
    last_end: Option<u64>,
    /// Bios that no request explains yet: first byte and when they came, to their end.
    queued: BTreeMap<(u64, u64), u64>,
}

/// One request of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) start: u64,
    pub(crate) len_bytes: u64,
    pub(crate) issue_us: u64,
    pub(crate) complete_us: Option<u64>,
    pub(crate) is_sequential: bool,
    /// The disk answered with an error, at least for a part.
    pub(crate) is_failed: bool,
    is_taken: bool,
}

/// Requests that are remembered per disk: seconds of the busiest one.
const MAX_REQUESTS: usize = 16_384;
/// No bio is longer: 256 pages of 4 KiB, or as many folios of 64 KiB.
const LONGEST_BIO_BYTES: u64 = 16 << 20;
/// A request of which no end was seen for so long is not under way any more: that event was lost.
const HUNG_US: u64 = 60_000_000;

impl Requests {
    /// A bio came to the disk.
    pub(crate) fn queued(&mut self, e: &BlockEvent) {
        let end = self.queued.entry((e.start_byte(), e.time_us)).or_default();
        *end = (*end).max(e.start_byte() + e.len_bytes());
        if self.queued.len() > MAX_REQUESTS {
            // A device without requests (a RAM disk) explains none; neither does one whose events were lost.
            let mut times: Vec<u64> = self.queued.keys().map(|(_, time_us)| *time_us).collect();
            times.sort_unstable();
            let middle = times.get(times.len() / 2).copied().unwrap_or(0);
            self.queued.retain(|(_, time_us), _| *time_us > middle);
        }
    }

    /// What of a request no bio explains, as events of their own; its bios are explained now. To be asked once everything
    /// before the request is known.
    pub(crate) fn unexplained(&mut self, e: &BlockEvent) -> Vec<BlockEvent> {
        let (start, end) = (e.start_byte(), e.start_byte() + e.len_bytes());
        let from = (start.saturating_sub(LONGEST_BIO_BYTES), 0);
        let its: Vec<(u64, u64, u64)> = self
            .queued
            .range(from..(end, 0))
            .filter(|((_, time_us), bio_end)| **bio_end > start && *time_us <= e.time_us)
            .map(|((bio_start, time_us), bio_end)| (*bio_start, *time_us, *bio_end))
            .collect();
        let mut explained = IntervalSet::default();
        for (bio_start, time_us, bio_end) in its {
            self.queued.remove(&(bio_start, time_us));
            // A bio that is larger than the disk's requests may be becomes several.
            if bio_start < start {
                self.queued.insert((bio_start, time_us), start);
            }
            if bio_end > end {
                self.queued.insert((end, time_us), bio_end);
            }
            ByteRange::new(bio_start.max(start), bio_end.min(end))
                .into_iter()
                .for_each(|r| explained.insert(r));
        }
        let gaps = ByteRange::new(start, end).map(|whole| explained.gaps(whole)).unwrap_or_default();
        let of_gap = |gap: ByteRange| BlockEvent {
            op: BlockOp::Queue,
            sector: gap.start() / 512,
            sectors: u32::try_from(gap.len_bytes() / 512).unwrap_or(u32::MAX),
            ..*e
        };
        gaps.into_iter().map(of_gap).collect()
    }

    /// A request was given to the driver. `false`: one that the driver had sent back comes again.
    pub(crate) fn issued(&mut self, e: &BlockEvent) -> bool {
        let (start, len_bytes) = (e.start_byte(), e.len_bytes());
        if let Some(r) = self.known.get(&start)
            && r.len_bytes == len_bytes
            && r.complete_us.is_none()
            && e.time_us.saturating_sub(r.issue_us) < HUNG_US
        {
            return false;
        }
        let is_sequential = self.last_end == Some(start);
        self.last_end = Some(start + len_bytes);
        self.order.push_back((start, e.time_us));
        self.known.insert(
            start,
            Request {
                start,
                len_bytes,
                issue_us: e.time_us,
                complete_us: None,
                is_sequential,
                is_failed: false,
                is_taken: false,
            },
        );
        if self.order.len() > MAX_REQUESTS
            && let Some((start, issue_us)) = self.order.pop_front()
            && self.known.get(&start).is_some_and(|r| r.issue_us == issue_us)
        {
            self.known.remove(&start);
        }
        true
    }

    pub(crate) fn completed(&mut self, e: &BlockEvent) {
        // A request may complete in parts; the last one counts.
        if let Some(r) = self.covering(e.start_byte()) {
            r.complete_us = Some(e.time_us);
            r.is_failed |= e.is_failed;
        }
    }

    fn covering(&mut self, byte: u64) -> Option<&mut Request> {
        let (_, r) = self.known.range_mut(..=byte).next_back()?;
        (byte - r.start < r.len_bytes).then_some(r)
    }

    /// The request that a bio went into, once: later bios of the same request give `Taken`.
    pub(crate) fn take(&mut self, bio: &BlockEvent) -> Taken {
        match self.covering(bio.start_byte()) {
            // Issued before the bio was there: an older read of the same place.
            Some(r) if r.issue_us < bio.time_us => Taken::Unknown,
            Some(r) if r.is_taken => Taken::Already,
            Some(r) => {
                r.is_taken = true;
                Taken::Now(*r)
            }
            None => Taken::Unknown,
        }
    }
}

/// See [`Requests::take`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    Now(Request),
    Already,
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::chunks::{Chunk, ChunkMap, Stripe};
    use crate::map::{Member, Node};
    use crate::sys::fiemap::{Extent, Extents};

    fn event(op: BlockOp, time_us: u64, sector: u64, sectors: u32) -> BlockEvent {
        BlockEvent {
            op,
            time_us,
            tid: 7,
            pid: 7,
            device: 1,
            sector,
            sectors,
            is_metadata: false,
            is_failed: false,
        }
    }

    fn raid(kind: u64, sub_stripes: u16, n: u64) -> FileMap {
        let stripes = (1..=n).map(|devid| Stripe { devid, offset: devid << 30 }).collect();
        let chunk = Chunk {
            logical: 0,
            len_bytes: 1 << 30,
            stripe_bytes: 65536,
            kind: kind | 1,
            sub_stripes,
            stripes,
        };
        let disk = |d: u64| Member::sound(Arc::new(Node::Disk(usize::try_from(d - 1).unwrap())));
        let devices = Arc::new((1..=n).map(|d| (d, disk(d))).collect());
        let runs = vec![Extent { offset: 0, physical: 0, len_bytes: 1 << 24, encoded: false }];
        let chunks = Arc::new(ChunkMap::new(vec![chunk]));
        FileMap::new(Extents::of(runs), Arc::new(Node::Btrfs { devices, chunks }))
    }

    fn r(start: u64, end: u64) -> ByteRange {
        ByteRange::new(start, end).unwrap()
    }

    #[test]
    fn a_request_is_of_the_copy_that_lies_at_its_place() {
        // raid1: both devices have all; raid10: two pairs; raid0: one copy in columns.
        let at = |map: &FileMap, disk: usize, offset: u64, len| {
            copies_at(map, disk, ((disk as u64 + 1) << 30) + offset, len)
        };
        let mirror = raid(1 << 4, 1, 2);
        assert_eq!(at(&mirror, 0, 65536, 131_072), [(r(65536, 196_608), 0)]);
        assert_eq!(at(&mirror, 1, 65536, 131_072), [(r(65536, 196_608), 1)]);
        let pairs = raid(1 << 6, 2, 4);
        assert_eq!(at(&pairs, 1, 0, 65536), [(r(0, 65536), 1)]);
        assert_eq!(at(&pairs, 2, 0, 65536), [(r(65536, 131_072), 0)]);
        // The kernel made one request of the same column's places in two rows.
        assert_eq!(at(&pairs, 3, 0, 131_072), [(r(65536, 131_072), 1), (r(196_608, 262_144), 1)]);
        let stripe = raid(1 << 3, 1, 3);
        assert_eq!(at(&stripe, 2, 4096, 8192), [(r(135_168, 143_360), 0)]);
        // Past the file, and another disk's.
        assert_eq!(at(&mirror, 0, 1 << 24, 65536), []);
        assert_eq!(copies_at(&mirror, 7, 0, 65536), []);
        // Parity is no copy.
        let parity = raid(1 << 7, 1, 3);
        assert_eq!(at(&parity, 2, 0, 65536), []);
    }

    #[test]
    fn a_fetched_range_is_of_the_threads_leg_or_of_one_that_is_not_known() {
        let mirror = raid(1 << 4, 1, 2);
        assert_eq!(copies_of(&mirror, &[r(0, 1 << 20)], Some(7)), [(r(0, 1 << 20), Some(1))]);
        assert_eq!(copies_of(&mirror, &[r(0, 1 << 20)], None), [(r(0, 1 << 20), None)]);
        let stripe = raid(1 << 3, 1, 3);
        assert_eq!(
            copies_of(&stripe, &[r(0, 65536), r(131_072, 262_144)], None),
            [(r(0, 65536), Some(0)), (r(131_072, 262_144), Some(0))]
        );
    }

    #[test]
    fn a_volume_whose_table_is_not_known_names_its_disks_at_most_and_says_why() {
        let runs = vec![Extent { offset: 0, physical: 0, len_bytes: 1 << 24, encoded: false }];
        let of = |disks: &[usize]| {
            let below = Node::Opaque { why: "the table needs privilege".into(), disks: disks.to_vec() };
            by_map(&FileMap::new(Extents::of(runs.clone()), Arc::new(below)), &[r(0, 8192)], Some(7))
        };
        let placed = of(&[]);
        assert!(placed.is_nowhere());
        assert_eq!(
            (placed.unattributed_bytes, placed.no_place.as_deref()),
            (8192, Some("the table needs privilege"))
        );
        // Its disks are known: their own counters divide what came off them.
        let placed = of(&[1, 2]);
        assert!(!placed.is_nowhere());
        assert_eq!((placed.unattributed_bytes, placed.sets.get(&vec![1, 2])), (0, Some(&8192)));
        assert_eq!(placed.no_place.as_deref(), Some("the table needs privilege"));
        assert!(!by_map(&raid(8, 0, 2), &[r(0, 8192)], Some(7)).is_nowhere());
    }

    #[test]
    fn what_may_be_in_a_cache_is_on_its_disk_or_on_the_caches() {
        let runs = vec![Extent { offset: 0, physical: 0, len_bytes: 1 << 24, encoded: false }];
        let of = |elsewhere: &[usize]| {
            let (why, below) = ("what is in the cache is read from there".into(), Arc::new(Node::Disk(0)));
            let below = Node::Doubt { why, elsewhere: elsewhere.to_vec(), below };
            by_map(&FileMap::new(Extents::of(runs.clone()), Arc::new(below)), &[r(0, 8192)], None)
        };
        let placed = of(&[1]);
        assert_eq!((placed.runs, placed.sets), (vec![], BTreeMap::from([(vec![0, 1], 8192)])));
        assert!(placed.no_place.is_some_and(|why| why.contains("cache")));
        // A doubt about something else leaves the places as they are.
        assert_eq!(of(&[]).runs, [(Place { disk: 0, offset: 0 }, 8192, Part::Data)]);
    }

    #[test]
    fn a_request_of_which_a_part_failed_is_a_failed_one() {
        let mut requests = Requests::default();
        requests.issued(&event(BlockOp::Issue, 10, 0, 16));
        requests.completed(&BlockEvent { is_failed: true, ..event(BlockOp::Complete, 20, 0, 8) });
        requests.completed(&event(BlockOp::Complete, 30, 8, 8));
        let taken = requests.take(&event(BlockOp::Queue, 5, 0, 16));
        assert!(matches!(taken, Taken::Now(r) if r.is_failed && r.complete_us == Some(30)), "{taken:?}");
    }

    #[test]
    fn events_belong_to_the_call_in_which_they_were_submitted() {
        let at = |t| event(BlockOp::Queue, t, t, 8);
        let mut events: VecDeque<_> = [5, 10, 15, 20, 21].map(at).into();
        let (of, stray) = events_of(&mut events, Span { start_us: 10, end_us: 20 });
        assert_eq!(of, [10, 15, 20].map(at));
        assert_eq!(stray, [at(5)]);
        assert_eq!(events, [at(21)]);
    }

    #[test]
    fn a_read_over_raid0_is_one_run_per_disk() {
        let got = by_map(&raid(8, 1, 2), &[r(0, 262_144)], None);
        let run = |disk, offset, len| (Place { disk, offset }, len, Part::Data);
        assert_eq!(
            got,
            ByMap { runs: vec![run(0, 1 << 30, 131_072), run(1, 2 << 30, 131_072)], ..ByMap::default() }
        );
    }

    #[test]
    fn the_thread_picks_the_copy_and_without_it_nothing_is_made_up() {
        let map = raid(16, 1, 2);
        let of = |leg| by_map(&map, &[r(4096, 8192)], leg);
        assert_eq!(of(Some(42)).runs, [(Place { disk: 0, offset: (1 << 30) + 4096 }, 4096, Part::Data)]);
        assert_eq!(of(Some(43)).runs, [(Place { disk: 1, offset: (2 << 30) + 4096 }, 4096, Part::Data)]);
        assert_eq!(of(None), ByMap { sets: BTreeMap::from([(vec![0, 1], 4096)]), ..ByMap::default() });
    }

    #[test]
    fn raid10_takes_the_leg_within_each_pair() {
        let got = by_map(&raid(64, 2, 4), &[r(0, 131_072)], Some(1));
        let disks: Vec<usize> = got.runs.iter().map(|(p, ..)| p.disk).collect();
        assert_eq!(disks, [1, 3]);
    }

    #[test]
    fn bytes_past_the_map_are_not_ascribed() {
        assert_eq!(
            by_map(&raid(8, 1, 2), &[r((1 << 24) - 4096, (1 << 24) + 4096)], None).unattributed_bytes,
            4096
        );
    }

    #[test]
    fn a_request_is_counted_once_for_all_bios_merged_into_it() {
        let mut q = Requests::default();
        q.issued(&event(BlockOp::Issue, 11, 0, 16));
        q.completed(&event(BlockOp::Complete, 50, 0, 16));
        let (a, b) = (event(BlockOp::Queue, 10, 0, 8), event(BlockOp::Queue, 10, 8, 8));
        let want = Request {
            start: 0,
            len_bytes: 8192,
            issue_us: 11,
            complete_us: Some(50),
            is_sequential: false,
            is_failed: false,
            is_taken: true,
        };
        assert_eq!(q.take(&a), Taken::Now(want));
        assert_eq!(q.take(&b), Taken::Already);
        assert_eq!(q.take(&event(BlockOp::Queue, 60, 0, 8)), Taken::Unknown);
        q.issued(&event(BlockOp::Issue, 70, 16, 8));
        assert!(matches!(
            q.take(&event(BlockOp::Queue, 69, 16, 8)),
            Taken::Now(Request { is_sequential: true, .. })
        ));
    }

    /// bcache without its cache hands down the bio that it was given: the disk's queue tells of none.
    #[test]
    fn a_request_that_no_bio_explains_is_told_and_one_that_some_explain_is_told_in_part() {
        let queue = |t, sector, n| event(BlockOp::Queue, t, sector, n);
        let mut q = Requests::default();
        let lone = event(BlockOp::Issue, 10, 0, 16);
        assert_eq!(q.unexplained(&lone), [BlockEvent { op: BlockOp::Queue, ..lone }]);
        // Two bios in one request; one bio in two requests.
        q.queued(&queue(11, 100, 8));
        q.queued(&queue(11, 108, 8));
        q.queued(&queue(11, 200, 32));
        assert_eq!(q.unexplained(&event(BlockOp::Issue, 12, 100, 16)), []);
        assert_eq!(q.unexplained(&event(BlockOp::Issue, 12, 208, 8)), []);
        assert_eq!(q.unexplained(&event(BlockOp::Issue, 13, 200, 8)), []);
        assert_eq!(q.unexplained(&event(BlockOp::Issue, 13, 216, 16)), []);
        assert!(q.queued.is_empty());
        // One bio explains one request, and none that was there before it.
        q.queued(&queue(20, 300, 8));
        assert_eq!(q.unexplained(&event(BlockOp::Issue, 19, 300, 8)), [queue(19, 300, 8)]);
        assert_eq!(
            q.unexplained(&event(BlockOp::Issue, 21, 296, 16)),
            [queue(21, 296, 4), queue(21, 308, 4)]
        );
        assert_eq!(q.unexplained(&event(BlockOp::Issue, 22, 300, 8)), [queue(22, 300, 8)]);
    }

    #[test]
    fn a_request_that_the_driver_sent_back_is_the_same_one_when_it_comes_again() {
        let mut q = Requests::default();
        assert!(q.issued(&event(BlockOp::Issue, 10, 0, 16)));
        assert!(!q.issued(&event(BlockOp::Issue, 20, 0, 16)));
        q.completed(&event(BlockOp::Complete, 30, 0, 16));
        assert!(q.issued(&event(BlockOp::Issue, 40, 0, 16)));
        assert!(q.issued(&event(BlockOp::Issue, 40 + HUNG_US, 0, 16)));
    }

    #[test]
    fn bios_without_requests_are_forgotten() {
        let mut q = Requests::default();
        for i in 0..100_000 {
            q.queued(&event(BlockOp::Queue, i, i * 8, 8));
        }
        assert!(q.queued.len() <= MAX_REQUESTS);
        assert_eq!(q.unexplained(&event(BlockOp::Issue, 100_000, 99_999 * 8, 8)), []);
    }

    #[test]
    fn requests_are_forgotten_in_order() {
        let mut q = Requests::default();
        for i in 0..20_000 {
            q.issued(&event(BlockOp::Issue, i, i * 8, 8));
        }
        assert_eq!(q.known.len(), MAX_REQUESTS);
        assert_eq!(q.take(&event(BlockOp::Queue, 0, 0, 8)), Taken::Unknown);
    }
}
