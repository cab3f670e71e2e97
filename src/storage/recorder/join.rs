//! Requests that were submitted by somebody else than the reader: a kernel thread (md's own, btrfs's and ZFS's
//! workers, a loop's) or a thread whose call has ended; and those of which only the issue was seen, whoever gave them to
//! the driver. They find their stream by what lies at their place, and by which reads were under way. Pure: values in,
//! values out.
//!
//! In this order, and never past a doubt:
//! 1. by place: a read under way (or just over) fetched a range of which this disk holds a copy, the parity, or a
//!    column that the missing one is computed from, at this very place;
//! 2. by elimination: one stream alone has a read under way on these disks of which bytes are still unaccounted
//!    for, and no more is ascribed to it than those. Only where the map is in doubt about some of them.
//!
//! What fits several streams is divided among them, and the record says so: by place in equal parts, for all of them
//! wanted just these bytes; by elimination by what the reads of each still miss. Only where nobody's count tells how much
//! is missing (ZFS) it is ascribed to none. The disk's own sum holds in any case.

use std::collections::VecDeque;

use crate::ledger::StreamId;
use crate::trace::BlockEvent;

/// What of a read lies at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// Bytes of the file that were asked for.
    Data,
    /// Bytes of the row that were not: read to compute what cannot be read.
    Reconstruct,
    /// Parity of either kind, read for the same reason.
    Parity,
}

/// A run of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    /// The disk's number.
    pub(crate) device: u32,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) part: Part,
    /// Whether the kernel's own count says that this read fetched it. Otherwise it is merely within the read: what a
    /// worker computes for it is in nobody's count.
    pub(crate) is_counted: bool,
}

/// How well a request fits a read, best first: not counted, and as what.
type Fit = (bool, Part);

/// A read that has ended, for as long as requests of it may turn up.
pub(crate) struct Reading {
    pub(crate) stream: StreamId,
    pub(crate) start_us: u64,
    pub(crate) end_us: u64,
    /// Disks of the volume.
    pub(crate) devices: Vec<u32>,
    /// Bytes that the kernel fetched for it and that no request of its own thread accounts for.
    pub(crate) missing_bytes: u64,
    /// Whether the volume's requests do not carry the reader's thread at all (ZFS): then its time is all there is.
    pub(crate) is_by_time: bool,
    /// Whether it is known of all its bytes where they lie: what lies elsewhere is none of them, whatever it misses. An array that
    /// computes a lost member's bytes counts more than it reads, and fills a new one at the same time.
    pub(crate) is_placed: bool,
    /// Where its bytes lie, computed when first asked for: sorted by device and start.
    places: Option<Vec<Extent>>,
    /// Computes them.
    map: Box<dyn Fn() -> Vec<Extent> + Send>,
}

impl std::fmt::Debug for Reading {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reading").field("stream", &self.stream).finish_non_exhaustive()
    }
}

impl Reading {
    pub(crate) fn new(
        stream: StreamId,
        (start_us, end_us): (u64, u64),
        devices: Vec<u32>,
        map: impl Fn() -> Vec<Extent> + Send + 'static,
    ) -> Self {
        Self {
            stream,
            start_us,
            end_us,
            devices,
            missing_bytes: 0,
            is_by_time: false,
            is_placed: false,
            places: None,
            map: Box::new(map),
        }
    }

    fn was_at(&self, e: &BlockEvent) -> bool {
        self.start_us <= e.time_us
            && e.time_us <= self.end_us.saturating_add(AFTER_US)
            && self.devices.contains(&e.device)
    }

    /// What of this read lies where the request goes.
    fn fit_at(&mut self, e: &BlockEvent) -> Option<Fit> {
        let places = self.places.get_or_insert_with(|| {
            let mut places = (self.map)();
            places.sort_by_key(|x| (x.device, x.start, !x.is_counted, x.part));
            places
        });
        let (from, to) = (e.start_byte(), e.start_byte() + e.len_bytes());
        let upto = places.partition_point(|x| (x.device, x.start) < (e.device, to));
        // Runs are in order and those of one part do not overlap, so that few need to be looked at; the best part
        // that overlaps counts.
        let near = places[..upto].iter().rev().take(NEAR).filter(|x| x.device == e.device && x.end > from);
        near.map(|x| (!x.is_counted, x.part)).min()
    }
}

/// A request may reach its disk this long after the call that wanted it: read-ahead that a worker thread submits.
const AFTER_US: u64 = 100_000;
/// Runs before a place that are looked at.
const NEAR: usize = 16;
/// Readings kept: more than a second of the fastest reader.
const MAX_READINGS: usize = 2048;
/// Requests that wait for their reading to end.
const MAX_WAITING: usize = 16_384;
/// How long a request waits for a reading that fits: a disk that hangs may take this long to answer.
const PATIENCE_US: u64 = 60_000_000;
/// How long one waits although a reading fits already: another stream's may still be under way.
const SETTLING_US: u64 = 300_000;

/// Whose a request is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Owner {
    /// This stream's; how many of its bytes its read was still missing.
    One {
        stream: StreamId,
        part: Part,
        was_missing_bytes: u64,
        is_by_place: bool,
    },
    /// Each of these has a part.
    Several {
        parts: Vec<Share>,
        is_by_place: bool,
    },
    /// One of these; which one, or how much of it is whose, cannot be told.
    Unknown(Vec<StreamId>),
    Nobody,
}

/// A stream's part of a request that several streams have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) stream: StreamId,
    pub(crate) part: Part,
    /// Its sectors.
    pub(crate) event: BlockEvent,
    pub(crate) was_missing_bytes: u64,
}

/// Cuts a request by the streams' weights, of which one at least is not zero.
fn cut(e: &BlockEvent, weights: &[u64]) -> Vec<BlockEvent> {
    let total: u128 = weights.iter().map(|w| u128::from(*w)).sum();
    let upto = |sum: u128| {
        let sectors = (u128::from(e.sectors) * sum).checked_div(total).unwrap_or(0);
        u32::try_from(sectors).unwrap_or(e.sectors)
    };
    let mut sum = 0_u128;
    let mut at = 0;
    let mut part = |w: &u64| {
        sum += u128::from(*w);
        let (first, end) = (at, upto(sum));
        at = end;
        BlockEvent { sector: e.sector + u64::from(first), sectors: end - first, ..*e }
    };
    weights.iter().map(&mut part).collect()
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Join {
    readings: VecDeque<Reading>,
    /// How many readings were forgotten: the number of the first one kept.
    forgotten: u64,
    /// Requests in order, each with the number of the first reading that it was not compared with. What did not fit
    /// once does not fit later: a reading's places stay, and what it misses only shrinks.
    waiting: VecDeque<(BlockEvent, u64)>,
}

impl Join {
    /// A read whose calls are over.
    pub(crate) fn read(&mut self, reading: Reading) {
        self.readings.push_back(reading);
        if self.readings.len() > MAX_READINGS {
            self.forget();
        }
    }

    fn forget(&mut self) {
        self.readings.pop_front();
        self.forgotten += 1;
    }

    /// A request of a thread that reads for nobody in particular. One that has to be forgotten for another leaves
    /// its bytes, if they were a stream's, among those that it misses.
    pub(crate) fn request(&mut self, e: BlockEvent) {
        self.waiting.push_back((e, 0));
        if self.waiting.len() > MAX_WAITING {
            self.waiting.pop_front();
        }
    }

    /// Decides about what can be decided at `now_us`; with `is_last` about everything for which a reading is known.
    /// `is_read`: whether reads of a volume of that disk are under way, for which a request may wait.
    pub(crate) fn settle(
        &mut self,
        now_us: u64,
        is_last: bool,
        is_read: impl Fn(u32) -> bool,
    ) -> Vec<(BlockEvent, Owner)> {
        let mut out = Vec::new();
        let waiting = std::mem::take(&mut self.waiting);
        for (e, compared) in waiting {
            let is_due = is_last || e.time_us.saturating_add(SETTLING_US) <= now_us;
            if !is_due {
                self.waiting.push_back((e, compared));
                continue;
            }
            match self.owner(&e, compared) {
                Owner::Nobody if !is_over(&e, now_us, &is_read) => {
                    self.waiting.push_back((e, self.forgotten + self.readings.len() as u64));
                }
                owner => out.push((e, owner)),
            }
        }
        self.forget_before(now_us);
        out
    }

    /// Lets go of readings that no request can be of any more. They keep their files.
    pub(crate) fn forget_before(&mut self, now_us: u64) {
        // One may still be wanted by a request that comes late.
        let keep_us = 2 * SETTLING_US + AFTER_US;
        while self.readings.front().is_some_and(|r| r.end_us.saturating_add(keep_us) < now_us) {
            self.forget();
        }
    }

    /// Whether nothing waits: there is nothing to settle.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    fn owner(&mut self, e: &BlockEvent, compared: u64) -> Owner {
        let from = usize::try_from(compared.saturating_sub(self.forgotten)).unwrap_or(usize::MAX);
        let mut found: Vec<(Fit, usize)> = Vec::new();
        for (i, r) in self.readings.iter_mut().enumerate().skip(from) {
            if r.was_at(e)
                && !r.is_by_time
                && let Some(fit) = r.fit_at(e)
            {
                found.push((fit, i));
            }
        }
        if let Some(best) = found.iter().map(|f| f.0).min() {
            // A column that somebody asked for is his, whoever else needs it to compute another.
            found.retain(|f| f.0 == best);
            return self.one_of(e, &found, true);
        }
        let candidates = self.readings.iter().enumerate().skip(from);
        let found: Vec<(Fit, usize)> = candidates
            .filter(|(_, r)| r.was_at(e) && (r.is_by_time || r.missing_bytes > 0 && !r.is_placed))
            .map(|(i, _)| ((false, Part::Data), i))
            .collect();
        self.one_of(e, &found, false)
    }

    fn one_of(&mut self, e: &BlockEvent, found: &[(Fit, usize)], is_by_place: bool) -> Owner {
        let mut streams: Vec<StreamId> =
            found.iter().filter_map(|(_, i)| Some(self.readings.get(*i)?.stream)).collect();
        streams.sort_unstable();
        streams.dedup();
        match streams.as_slice() {
            [] => Owner::Nobody,
            [stream] => {
                let (part, was_missing_bytes) = self.take(*stream, found, e.len_bytes());
                Owner::One { stream: *stream, part, was_missing_bytes, is_by_place }
            }
            _ => self.divide(e, found, streams, is_by_place),
        }
    }

    fn divide(
        &mut self,
        e: &BlockEvent,
        found: &[(Fit, usize)],
        streams: Vec<StreamId>,
        is_by_place: bool,
    ) -> Owner {
        let missing_of = |stream: &StreamId| -> u64 {
            let its = found.iter().filter_map(|(_, i)| self.readings.get(*i)).filter(|r| r.stream == *stream);
            its.map(|r| r.missing_bytes).sum()
        };
        let weights: Vec<u64> = if is_by_place {
            streams.iter().map(|_| 1).collect()
        } else {
            streams.iter().map(missing_of).collect()
        };
        if weights.iter().all(|w| *w == 0) {
            return Owner::Unknown(streams);
        }
        let parts = streams.into_iter().zip(cut(e, &weights)).filter(|(_, event)| event.sectors > 0);
        let parts = parts
            .map(|(stream, event)| {
                let (part, was_missing_bytes) = self.take(stream, found, event.len_bytes());
                Share { stream, part, event, was_missing_bytes }
            })
            .collect();
        Owner::Several { parts, is_by_place }
    }

    /// Takes bytes of a request from what a stream's read misses; of its reads, those first that miss most.
    fn take(&mut self, stream: StreamId, found: &[(Fit, usize)], len_bytes: u64) -> (Part, u64) {
        let its = found.iter().filter(|(_, i)| self.readings.get(*i).is_some_and(|r| r.stream == stream));
        let best = its.max_by_key(|(_, i)| self.readings.get(*i).map_or(0, |r| r.missing_bytes));
        let Some(((_, part), i)) = best.copied() else { return (Part::Data, 0) };
        let Some(reading) = self.readings.get_mut(i) else { return (part, 0) };
        let was_missing_bytes = match part {
            Part::Data => len_bytes.min(reading.missing_bytes),
            Part::Reconstruct | Part::Parity => 0,
        };
        reading.missing_bytes -= was_missing_bytes;
        (part, was_missing_bytes)
    }
}

/// Whether no read can claim it any more.
fn is_over(e: &BlockEvent, now_us: u64, is_read: impl Fn(u32) -> bool) -> bool {
    let age_us = now_us.saturating_sub(e.time_us);
    age_us >= PATIENCE_US || age_us >= 4 * SETTLING_US && !is_read(e.device)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::BlockOp;

    const K: u64 = 1024;

    fn event(time_us: u64, device: u32, kib: u64, len_kib: u32) -> BlockEvent {
        BlockEvent {
            op: BlockOp::Queue,
            time_us,
            tid: 99,
            pid: 99,
            device,
            sector: kib * 2,
            sectors: len_kib * 2,
            is_metadata: false,
            is_failed: false,
        }
    }

    fn reading(stream: u64, at: (u64, u64), missing_kib: u64, places: &[(u32, u64, u64, Part)]) -> Reading {
        let places: Vec<Extent> = places
            .iter()
            .map(|(device, start, end, part)| Extent {
                device: *device,
                start: start * K,
                end: end * K,
                part: *part,
                is_counted: true,
            })
            .collect();
        let mut r = Reading::new(StreamId(stream), at, vec![1, 2, 3], move || places.clone());
        r.missing_bytes = missing_kib * K;
        r
    }

    fn settled(join: &mut Join) -> Vec<Owner> {
        join.settle(1_000_000, true, |_| true).into_iter().map(|(_, o)| o).collect()
    }

    fn one(stream: u64, part: Part, missing_kib: u64, is_by_place: bool) -> Owner {
        Owner::One { stream: StreamId(stream), part, was_missing_bytes: missing_kib * K, is_by_place }
    }

    /// (stream, first KiB within the request, KiB, part, missing KiB)
    fn several(parts: &[(u64, u64, u32, Part, u64)], of: &BlockEvent, is_by_place: bool) -> Owner {
        let share = |&(stream, at, kib, part, missing): &(u64, u64, u32, Part, u64)| Share {
            stream: StreamId(stream),
            part,
            event: BlockEvent { sector: of.sector + at * 2, sectors: kib * 2, ..*of },
            was_missing_bytes: missing * K,
        };
        Owner::Several { parts: parts.iter().map(share).collect(), is_by_place }
    }

    /// md raid5 with a disk gone: `md0_raid5` submits everything, also what nobody asked for.
    #[test]
    fn a_degraded_array_is_told_apart_into_data_other_columns_and_parity() {
        let mut join = Join::default();
        join.read(reading(
            7,
            (100, 900),
            128,
            &[(1, 0, 64, Part::Data), (2, 0, 64, Part::Reconstruct), (3, 0, 64, Part::Parity)],
        ));
        for device in 1..=3 {
            join.request(event(500, device, 0, 64));
        }
        assert_eq!(
            settled(&mut join),
            [one(7, Part::Data, 64, true), one(7, Part::Reconstruct, 0, true), one(7, Part::Parity, 0, true)]
        );
    }

    #[test]
    fn two_streams_in_different_places_are_told_apart_and_in_the_same_place_they_are_not() {
        let mut join = Join::default();
        join.read(reading(1, (0, 1000), 64, &[(1, 0, 64, Part::Data)]));
        join.read(reading(2, (0, 1000), 64, &[(1, 640, 704, Part::Data), (2, 0, 64, Part::Parity)]));
        join.read(reading(3, (0, 1000), 64, &[(2, 0, 64, Part::Parity)]));
        join.request(event(500, 1, 0, 64));
        join.request(event(500, 1, 640, 64));
        join.request(event(500, 2, 0, 64));
        assert_eq!(
            settled(&mut join),
            [
                one(1, Part::Data, 64, true),
                one(2, Part::Data, 64, true),
                several(
                    &[(2, 0, 32, Part::Parity, 0), (3, 32, 32, Part::Parity, 0)],
                    &event(500, 2, 0, 64),
                    true
                ),
            ]
        );
    }

    /// Both wait for the same pages, and a kernel thread fetches them once.
    #[test]
    fn bytes_that_two_streams_wanted_at_once_are_had_by_both_in_equal_parts() {
        let mut join = Join::default();
        join.read(reading(1, (0, 1000), 64, &[(1, 0, 64, Part::Data)]));
        join.read(reading(2, (0, 1000), 8, &[(1, 0, 64, Part::Data)]));
        join.request(event(500, 1, 0, 64));
        let parts = [(1, 0, 32, Part::Data, 32), (2, 32, 32, Part::Data, 8)];
        assert_eq!(settled(&mut join), [several(&parts, &event(500, 1, 0, 64), true)]);
    }

    #[test]
    fn a_request_is_cut_by_weight_and_whole() {
        let e = event(0, 1, 0, 64);
        let sectors = |weights: &[u64]| cut(&e, weights).iter().map(|p| p.sectors).collect::<Vec<_>>();
        assert_eq!(sectors(&[1, 1, 1]), [42, 43, 43]);
        assert_eq!(sectors(&[0, u64::MAX, u64::MAX]), [0, 64, 64]);
        assert_eq!(sectors(&[3, 1]), [96, 32]);
        assert_eq!(cut(&e, &[3, 1])[1].sector, e.sector + 96);
    }

    /// btrfs computes what a lost disk held in its workers: no thread's count has those bytes, and of two streams that
    /// read the same range the one that fetched is it.
    #[test]
    fn what_is_within_a_read_is_its_own_unless_another_fetched_it() {
        let uncounted = |stream| {
            let places =
                vec![Extent { device: 1, start: 0, end: 64 * K, part: Part::Data, is_counted: false }];
            Reading::new(StreamId(stream), (0, 1000), vec![1], move || places.clone())
        };
        let mut join = Join::default();
        join.read(uncounted(1));
        join.request(event(500, 1, 0, 64));
        assert_eq!(settled(&mut join), [one(1, Part::Data, 0, true)]);
        let mut join = Join::default();
        join.read(uncounted(1));
        join.read(reading(2, (0, 1000), 64, &[(1, 0, 64, Part::Data)]));
        join.request(event(500, 1, 0, 64));
        assert_eq!(settled(&mut join), [one(2, Part::Data, 64, true)]);
    }

    #[test]
    fn what_somebody_asked_for_is_not_another_ones_column() {
        let mut join = Join::default();
        join.read(reading(1, (0, 1000), 64, &[(1, 0, 64, Part::Reconstruct)]));
        join.read(reading(2, (0, 1000), 64, &[(1, 0, 64, Part::Data)]));
        join.request(event(500, 1, 0, 64));
        assert_eq!(settled(&mut join), [one(2, Part::Data, 64, true)]);
    }

    /// bcache's cache, a compressed extent: the place is not on the map.
    #[test]
    fn without_a_place_the_only_one_that_misses_bytes_is_it_and_gets_no_more_than_those() {
        let mut join = Join::default();
        join.read(reading(1, (0, 1000), 64, &[]));
        join.read(reading(2, (0, 1000), 0, &[]));
        join.request(event(500, 1, 5000, 64));
        join.request(event(600, 1, 9000, 64));
        assert_eq!(settled(&mut join), [one(1, Part::Data, 64, false)]);
        // The second one stays: nobody misses it. A scrub, for instance.
        assert!(!join.is_idle());
        assert_eq!(join.settle(100_000_000, true, |_| true).pop().map(|(_, o)| o), Some(Owner::Nobody));
    }

    #[test]
    fn without_a_place_two_that_miss_bytes_have_parts_by_what_they_miss() {
        let mut join = Join::default();
        join.read(reading(1, (0, 1000), 192, &[]));
        join.read(reading(2, (0, 1000), 64, &[]));
        join.request(event(500, 1, 5000, 64));
        let parts = [(1, 0, 48, Part::Data, 48), (2, 48, 16, Part::Data, 16)];
        assert_eq!(settled(&mut join), [several(&parts, &event(500, 1, 5000, 64), false)]);
    }

    /// md fills a new member while streams read: its own reads carry the same thread, and lie elsewhere.
    #[test]
    fn what_an_array_reads_for_itself_is_nobodys_where_the_map_is_certain() {
        let mut join = Join::default();
        let mut r = reading(1, (0, 1000), 128, &[(1, 0, 64, Part::Data)]);
        r.is_placed = true;
        join.read(r);
        join.request(event(400, 1, 5000, 64));
        join.request(event(500, 1, 0, 64));
        assert_eq!(settled(&mut join), [one(1, Part::Data, 64, true)]);
        assert_eq!(join.settle(100_000_000, true, |_| true).pop().map(|(_, o)| o), Some(Owner::Nobody));
    }

    /// ZFS's own threads start what is queued, and its count is of something else.
    #[test]
    fn by_time_alone_two_streams_are_one_too_many() {
        let mut join = Join::default();
        for stream in [1, 2] {
            let mut r = reading(stream, (0, 1000), 0, &[]);
            r.is_by_time = true;
            join.read(r);
        }
        join.request(event(500, 1, 5000, 64));
        assert_eq!(settled(&mut join), [Owner::Unknown(vec![StreamId(1), StreamId(2)])]);
    }

    /// `z_rd_int`: the pool's threads start what waits in its queue, whoever asked.
    #[test]
    fn on_zfs_the_one_that_reads_is_it() {
        let mut join = Join::default();
        let mut r = reading(4, (0, 1000), 0, &[(1, 0, 64, Part::Data)]);
        r.is_by_time = true;
        join.read(r);
        join.request(event(500, 1, 5000, 128));
        join.request(event(500_000, 1, 5000, 128));
        assert_eq!(settled(&mut join), [one(4, Part::Data, 0, false)]);
    }

    #[test]
    fn a_request_waits_for_the_read_that_wanted_it() {
        let mut join = Join::default();
        join.request(event(500, 1, 0, 64));
        assert_eq!(join.settle(1_000_000, false, |_| true), []);
        // The disk hung for thirty seconds.
        join.read(reading(1, (100, 30_000_000), 64, &[(1, 0, 64, Part::Data)]));
        let got = join.settle(30_100_000, false, |_| true);
        assert_eq!(got.into_iter().map(|(_, o)| o).collect::<Vec<_>>(), [one(1, Part::Data, 64, true)]);
    }

    #[test]
    fn what_a_disk_does_for_others_is_nobodys() {
        let mut join = Join::default();
        join.read(reading(1, (0, 1000), 0, &[(1, 0, 64, Part::Data)]));
        join.request(event(500, 1, 640, 64));
        join.request(event(500, 9, 0, 64));
        assert_eq!(settled(&mut join), []);
        let owners = join.settle(3_000_000, false, |_| false);
        assert!(owners.iter().all(|(_, o)| *o == Owner::Nobody));
        assert_eq!(owners.len(), 2);
    }

    #[test]
    fn memory_is_bounded() {
        let mut join = Join::default();
        for i in 0..MAX_WAITING as u64 {
            join.request(event(i, 1, i, 4));
        }
        join.request(event(0, 1, 0, 4));
        for i in 0..3000 {
            join.read(reading(1, (i, i), 0, &[]));
        }
        assert_eq!(join.readings.len(), MAX_READINGS);
        join.forget_before(10_000_000);
        assert_eq!(join.readings.len(), 0);
        assert_eq!(join.waiting.len(), MAX_WAITING);
    }

    /// Every stack whose requests a kernel thread may submit: two streams read different ranges of one file at the same
    /// time, a worker submits what lies at the places of each, and no byte goes to the other one.
    #[test]
    fn on_every_stack_a_workers_requests_find_the_stream_by_the_map() {
        use super::super::attribute::places;
        use crate::layout::FileMap;
        use crate::layout::chunks::{Chunk, ChunkMap, Stripe};
        use crate::map::parity::Parity;
        use crate::map::raid0::{Turns, Zones};
        use crate::map::{Member, Node};
        use crate::sys::fiemap::{Extent as Run, Extents};
        use spindle_base::units::ByteRange;
        use std::collections::BTreeMap;
        use std::sync::Arc;

        const C: u64 = 64 * K;
        let disks =
            |n: usize| -> Vec<Member> { (0..n).map(|d| Member::sound(Arc::new(Node::Disk(d)))).collect() };
        let part = |base: u64, below: Node| Node::Part { base, len_bytes: 1 << 40, below: Arc::new(below) };
        let lost = |n: usize| {
            let mut members = disks(n);
            members[n - 1] = Member::sound(Arc::new(Node::Gone(n - 1)));
            members
        };
        let file = |runs: &[(u64, u64, u64)], below: Node| {
            let run = |(offset, physical, len_bytes): &(u64, u64, u64)| Run {
                offset: *offset,
                physical: *physical,
                len_bytes: *len_bytes,
                encoded: false,
            };
            FileMap::new(Extents::of(runs.iter().map(run).collect()), Arc::new(below))
        };
        let btrfs = |kind: u64, n: u64, members: Vec<Member>| {
            let stripes = (1..=n).map(|devid| Stripe { devid, offset: devid << 30 }).collect();
            let chunk = Chunk {
                logical: 0,
                len_bytes: 1 << 30,
                stripe_bytes: C,
                kind: kind | 1,
                sub_stripes: 1,
                stripes,
            };
            let devices: BTreeMap<u64, Member> = (1..=n).zip(members).collect();
            Node::Btrfs { chunks: Arc::new(ChunkMap::new(vec![chunk])), devices: Arc::new(devices) }
        };
        let zones = |n: usize| Zones::new(C, &vec![1 << 40; n], Turns::OfArray).unwrap();
        let whole = [(0, 1 << 20, 64 << 20)];
        let stacks: Vec<(&str, Node)> = vec![
            ("a partition of a disk", part(1 << 20, Node::Disk(0))),
            (
                "dm-crypt on a linear volume",
                Node::Sealed(Arc::new(part(1 << 20, part(8 << 20, Node::Disk(0))))),
            ),
            ("a striped volume", Node::Striped(zones(3), disks(3))),
            ("a mirror", Node::Mirror(disks(2))),
            ("md raid5", Node::Parity(Parity::five(2, 4, C).unwrap(), disks(4))),
            ("md raid5, degraded (md0_raid5)", Node::Parity(Parity::five(2, 4, C).unwrap(), lost(4))),
            ("md raid6, degraded", Node::Parity(Parity::six(2, 5, C).unwrap(), lost(5))),
            ("btrfs raid5, degraded (kworker)", btrfs(1 << 7, 3, lost(3))),
            ("btrfs raid6, degraded (kworker)", btrfs(1 << 8, 4, lost(4))),
            (
                "a loop on a fragmented file (loop worker)",
                Node::File(Arc::new(file(
                    &[(0, 1 << 30, 16 << 20), (16 << 20, 5 << 30, 1 << 30)],
                    Node::Disk(0),
                ))),
            ),
        ];
        let numbers: Vec<u32> = (0..8).map(|d| 100 + d).collect();
        for (name, node) in stacks {
            let map = file(&whole, node);
            // Whole rows of every geometry above, so that no row is both's.
            let ranges =
                [(0, 12 * C * 16), (12 * C * 32, 12 * C * 48)].map(|(a, b)| ByteRange::new(a, b).unwrap());
            let mut join = Join::default();
            let mut requests = Vec::new();
            for (stream, range) in (1_u64..).zip(ranges) {
                let its = places(&map, (range, &[range]), &numbers);
                assert!(!its.is_empty(), "{name}");
                // Without the parity and the rest of the row where a disk holds the bytes themselves.
                requests.extend(its.iter().filter(|x| x.part == Part::Data).map(|x| (stream, *x)));
                let mut reading =
                    Reading::new(StreamId(stream), (0, 1000), numbers.clone(), move || its.clone());
                reading.missing_bytes = range.len_bytes();
                join.read(reading);
            }
            for (_, x) in &requests {
                let len_kib = u32::try_from((x.end - x.start) / K).unwrap();
                join.request(event(500, x.device, x.start / K, len_kib));
            }
            let owners = settled(&mut join);
            assert_eq!(owners.len(), requests.len(), "{name}");
            for ((stream, _), owner) in requests.iter().zip(owners) {
                assert!(
                    matches!(owner, Owner::One { stream: s, part: Part::Data, is_by_place: true, .. } if s.0 == *stream),
                    "{name}: {owner:?} instead of {stream}"
                );
            }
        }
    }
}
