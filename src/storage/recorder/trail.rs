//! What of a file was read when, and from which copy, in a bounded number of runs: when they run out, time is told more
//! coarsely and neighbours are joined over wider gaps. Pure.

use std::collections::BTreeMap;

use spindle_base::units::ByteRange;

use super::record::{Trail as Json, TrailRun};

/// Runs at most: what a film of three hours leaves, with jumps, in a quarter of a second of JSON at worst.
const MAX_RUNS: usize = 2048;
/// Runs are told apart by the second at first.
const FIRST_SLOT_US: u64 = 1_000_000;
/// And by gaps of more than this: a mirror whose copies take turns read by read stays told apart.
const FIRST_GAP_BYTES: u64 = 1 << 20;
/// How far back a run is looked for that goes on: readers of one stream that work at the same time.
const OPEN: usize = 16;

/// Where bytes came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Origin {
    /// This copy, as `spindle layout` numbers them from 0.
    Copy(u16),
    /// A disk; which copy is not known.
    Disk,
    /// Memory.
    Memory,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    from_us: u64,
    to_us: u64,
    start: u64,
    end: u64,
    bytes: u64,
    origin: Origin,
}

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trail {
    slot_us: u64,
    gap_bytes: u64,
    runs: Vec<Run>,
}

impl Default for Trail {
    fn default() -> Self {
        Self { slot_us: FIRST_SLOT_US, gap_bytes: FIRST_GAP_BYTES, runs: Vec::new() }
    }
}

impl Trail {
    /// Bytes that came from `origin` at a moment, microseconds since the start of the record.
    pub(crate) fn add(&mut self, at_us: u64, range: ByteRange, origin: Origin) {
        if range.is_empty() {
            return;
        }
        let new = Run {
            from_us: at_us,
            to_us: at_us,
            start: range.start(),
            end: range.end(),
            bytes: range.len_bytes(),
            origin,
        };
        let from = self.runs.len().saturating_sub(OPEN);
        let (slot_us, gap) = (self.slot_us, self.gap_bytes);
        match self.runs[from..].iter_mut().rev().find(|run| run.takes(&new, slot_us, gap)) {
            Some(run) => run.join(&new),
            None => self.runs.push(new),
        }
        while self.runs.len() > MAX_RUNS {
            self.coarsen();
        }
    }

    /// Twice the time and twice the gap.
    fn coarsen(&mut self) {
        self.slot_us = self.slot_us.saturating_mul(2);
        self.gap_bytes = self.gap_bytes.saturating_mul(2);
        let mut groups: BTreeMap<(u64, Origin), Vec<Run>> = BTreeMap::new();
        for run in self.runs.drain(..) {
            groups.entry((run.from_us / self.slot_us, run.origin)).or_default().push(run);
        }
        for mut group in groups.into_values() {
            group.sort_by_key(|run| run.start);
            let first = self.runs.len();
            for run in group {
                match self.runs[first..].last_mut() {
                    Some(last) if run.start <= last.end.saturating_add(self.gap_bytes) => last.join(&run),
                    _ => self.runs.push(run),
                }
            }
        }
        self.runs.sort_by_key(|run| run.from_us);
    }

    /// Absent where nothing was read of the file.
    #[expect(clippy::cast_precision_loss, reason = "seconds for people")]
    pub(crate) fn json(&self, file_bytes: u64) -> Option<Json> {
        let seconds = |us: u64| us as f64 / 1e6;
        let run = |r: &Run| TrailRun {
            from_s: seconds(r.from_us),
            to_s: seconds(r.to_us),
            from_byte: r.start,
            to_byte: r.end,
            read_bytes: r.bytes,
            copy: if let Origin::Copy(n) = r.origin { Some(u32::from(n)) } else { None },
            memory: r.origin == Origin::Memory,
        };
        // Reads of several threads are settled a little out of order.
        let mut runs = self.runs.clone();
        runs.sort_by_key(|r| r.from_us);
        (!runs.is_empty()).then(|| Json {
            file_bytes,
            interval_ms: self.slot_us / 1000,
            gap_bytes: self.gap_bytes,
            runs: runs.iter().map(run).collect(),
        })
    }
}

impl Run {
    fn takes(&self, new: &Self, slot_us: u64, gap_bytes: u64) -> bool {
        self.origin == new.origin
            && self.from_us / slot_us == new.from_us / slot_us
            && new.start <= self.end.saturating_add(gap_bytes)
            && self.start <= new.end.saturating_add(gap_bytes)
    }

    fn join(&mut self, new: &Self) {
        self.from_us = self.from_us.min(new.from_us);
        self.to_us = self.to_us.max(new.to_us);
        self.start = self.start.min(new.start);
        self.end = self.end.max(new.end);
        self.bytes = self.bytes.saturating_add(new.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mib(start: u64, end: u64) -> ByteRange {
        ByteRange::new(start << 20, end << 20).unwrap()
    }

    fn shown(trail: &Trail) -> Vec<(u64, u64, u64, Option<u32>, bool)> {
        let json = trail.json(1 << 40).unwrap();
        json.runs
            .iter()
            .map(|r| (r.from_byte >> 20, r.to_byte >> 20, r.read_bytes >> 20, r.copy, r.memory))
            .collect()
    }

    #[test]
    fn what_goes_on_within_a_second_is_one_run_and_a_jump_begins_another() {
        let mut trail = Trail::default();
        trail.add(100_000, mib(0, 2), Origin::Copy(0));
        trail.add(200_000, mib(2, 4), Origin::Copy(0));
        trail.add(300_000, mib(90, 92), Origin::Copy(0));
        trail.add(1_100_000, mib(92, 94), Origin::Copy(0));
        assert_eq!(
            shown(&trail),
            [(0, 4, 4, Some(0), false), (90, 92, 2, Some(0), false), (92, 94, 2, Some(0), false)]
        );
        let json = trail.json(1 << 40).unwrap();
        assert_eq!((json.interval_ms, json.runs[0].from_s, json.runs[0].to_s), (1000, 0.1, 0.2));
    }

    #[test]
    fn copies_that_take_turns_and_memory_stay_apart() {
        let mut trail = Trail::default();
        for (n, origin) in (0_u64..).zip([Origin::Copy(0), Origin::Copy(1), Origin::Copy(0), Origin::Memory])
        {
            trail.add(n, mib(n * 2, n * 2 + 2), origin);
        }
        assert_eq!(
            shown(&trail),
            [
                (0, 2, 2, Some(0), false),
                (2, 4, 2, Some(1), false),
                (4, 6, 2, Some(0), false),
                (6, 8, 2, None, true)
            ]
        );
    }

    #[test]
    fn stripes_that_come_disk_by_disk_are_one_run_with_their_sum() {
        let mut trail = Trail::default();
        let chunk = |n: u64| ByteRange::of_len(n * 65536, 65536).unwrap();
        for n in [0, 2, 4, 6, 1, 3, 5, 7] {
            trail.add(n, chunk(n), Origin::Copy(0));
        }
        let json = trail.json(1 << 30).unwrap();
        assert_eq!(json.runs.len(), 1);
        assert_eq!((json.runs[0].to_byte, json.runs[0].read_bytes), (8 * 65536, 8 * 65536));
    }

    #[test]
    fn a_reader_of_random_places_stays_within_bounds_and_keeps_its_sum() {
        let mut trail = Trail::default();
        let mut place = 7_u64;
        for n in 0..20_000_u64 {
            place = place.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            trail.add(n * 10_000, ByteRange::of_len((place >> 30) % (1 << 33), 4096).unwrap(), Origin::Disk);
            assert!(trail.runs.len() <= MAX_RUNS);
        }
        let json = trail.json(1 << 34).unwrap();
        assert_eq!(json.runs.iter().map(|r| r.read_bytes).sum::<u64>(), 20_000 * 4096);
        assert!(json.runs.windows(2).all(|w| w[0].from_s <= w[1].from_s));
    }

    #[test]
    fn what_is_settled_late_stands_in_its_time() {
        let mut trail = Trail::default();
        trail.add(900, mib(8, 10), Origin::Copy(0));
        trail.add(300, mib(2, 4), Origin::Copy(1));
        assert_eq!(shown(&trail), [(2, 4, 2, Some(1), false), (8, 10, 2, Some(0), false)]);
    }

    #[test]
    fn nothing_read_is_no_trail() {
        assert_eq!(Trail::default().json(1), None);
        let mut trail = Trail::default();
        trail.add(0, mib(3, 3), Origin::Disk);
        assert_eq!(trail.json(1), None);
    }
}
