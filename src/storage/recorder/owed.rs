//! What disks have read by their own counters and no stream has been given yet: the ground on which bytes of a mirror are
//! divided whose leg nobody tells. Pure.
//!
//! A read and the counters that it moved are seldom seen in the same second. Were each second's bytes divided by that
//! second's counters alone, a read seen late would be divided by what other reads moved, on the wrong legs, for good;
//! what is owed makes up for it the next time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Seconds that are remembered. What was not claimed by then is another program's.
const SECONDS: usize = 4;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Owed {
    bytes: BTreeMap<Arc<str>, u64>,
    /// What the counters moved in each of the last seconds.
    seconds: VecDeque<BTreeMap<Arc<str>, u64>>,
    /// How each set's bytes are divided, since `fit`.
    fits: BTreeMap<Vec<Arc<str>>, Vec<f64>>,
}

/// Rounds of fitting: sets of pairs in a ring (md raid10 with far or offset copies) are within a thousandth after that.
const ROUNDS: usize = 64;

impl Owed {
    /// A disk's counter moved.
    pub(crate) fn moved(&mut self, disk: &Arc<str>, bytes: u64) {
        if self.seconds.is_empty() {
            self.seconds.push_back(BTreeMap::new());
        }
        if let Some(second) = self.seconds.back_mut() {
            *second.entry(Arc::clone(disk)).or_default() += bytes;
        }
        *self.bytes.entry(Arc::clone(disk)).or_default() += bytes;
    }

    /// A second has passed.
    pub(crate) fn age(&mut self) {
        self.seconds.push_back(BTreeMap::new());
        if self.seconds.len() > SECONDS {
            self.seconds.pop_front();
        }
        let seconds = &self.seconds;
        for (disk, owed) in &mut self.bytes {
            *owed = (*owed).min(seconds.iter().filter_map(|s| s.get(disk)).sum());
        }
        self.bytes.retain(|_, owed| *owed > 0);
    }

    /// A stream was given bytes of a disk.
    pub(crate) fn take(&mut self, disk: &Arc<str>, bytes: u64) {
        if let Some(owed) = self.bytes.get_mut(disk) {
            *owed = owed.saturating_sub(bytes);
        }
    }

    /// Says what is to be divided, all at once: sets that share disks are divided so that each disk gets what it is owed, which
    /// one set after the other would not. Rows and columns are scaled in turn (Deming and Stephan, 1940).
    #[expect(clippy::cast_precision_loss, reason = "shares")]
    pub(crate) fn fit(&mut self, sets: &BTreeMap<Vec<Arc<str>>, u64>) {
        let owed = |d: &Arc<str>| self.bytes.get(d).copied().unwrap_or(0) as f64;
        let rows: Vec<(&Vec<Arc<str>>, f64)> = sets.iter().map(|(set, n)| (set, *n as f64)).collect();
        let mut parts: Vec<Vec<f64>> = rows.iter().map(|(set, _)| set.iter().map(owed).collect()).collect();
        for _ in 0..ROUNDS {
            for ((_, bytes), part) in rows.iter().zip(&mut parts) {
                let sum: f64 = part.iter().sum();
                part.iter_mut().filter(|_| sum > 0.0).for_each(|x| *x *= bytes / sum);
            }
            let mut columns: BTreeMap<&Arc<str>, f64> = BTreeMap::new();
            for ((set, _), part) in rows.iter().zip(&parts) {
                set.iter().zip(part).for_each(|(disk, x)| *columns.entry(disk).or_default() += x);
            }
            for ((set, _), part) in rows.iter().zip(&mut parts) {
                for (disk, x) in set.iter().zip(part) {
                    let sum = columns.get(disk).copied().unwrap_or(0.0);
                    *x *= if sum > 0.0 { owed(disk) / sum } else { 0.0 };
                }
            }
        }
        self.fits = rows.into_iter().map(|(set, _)| set.clone()).zip(parts).collect();
    }

    /// A disk's share of a set's bytes: as fitted, else by what the disks are owed now. Not a sum of one.
    #[expect(clippy::cast_precision_loss, reason = "shares")]
    fn weights(&self, set: &[Arc<str>]) -> Vec<f64> {
        let fitted = self.fits.get(set).filter(|parts| parts.iter().sum::<f64>() > 0.0);
        let owed = |d: &Arc<str>| self.bytes.get(d).copied().unwrap_or(0) as f64;
        fitted.cloned().unwrap_or_else(|| set.iter().map(owed).collect())
    }

    /// Divides bytes among disks by what they are owed, and takes them; `None` while that is nothing.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of bytes, not above them"
    )]
    pub(crate) fn divide(&mut self, set: &[Arc<str>], bytes: u64) -> Option<Vec<(Arc<str>, u64)>> {
        if set.iter().all(|d| !self.bytes.contains_key(d)) {
            return None;
        }
        let weights = self.weights(set);
        let total: f64 = weights.iter().sum();
        if total <= 0.0 {
            return None;
        }
        let mut left = bytes;
        let mut parts = Vec::with_capacity(set.len());
        for (i, (disk, weight)) in set.iter().zip(weights).enumerate() {
            let part = ((bytes as f64 * weight / total).round() as u64).min(left);
            let part = if i + 1 == set.len() { left } else { part };
            left -= part;
            parts.push((Arc::clone(disk), part));
        }
        parts.iter().for_each(|(disk, part)| self.take(disk, *part));
        Some(parts)
    }
}

/// What disks of a pool have read, by their own counters, before anybody was known to want it: a read of a slow pool is told
/// seconds after the counters moved for it.
#[derive(Debug, Default)]
pub(crate) struct Unclaimed(BTreeMap<Arc<str>, Kept>);

#[derive(Debug, Default)]
struct Kept {
    bytes: u64,
    /// Until when it was known that somebody reads; else since when it lies here.
    since_us: u64,
}

/// What nobody has claimed so long after the last read was under way is another program's: the row of a read that has
/// ended is at most a second on its way.
const UNCLAIMED_US: u64 = 1_500_000;

impl Unclaimed {
    /// Nobody wanted these bytes yet.
    pub(crate) fn keep(&mut self, disk: &Arc<str>, bytes: u64, now_us: u64) {
        if bytes > 0 {
            let kept = self.0.entry(Arc::clone(disk)).or_insert(Kept { bytes: 0, since_us: now_us });
            kept.bytes += bytes;
        }
    }

    /// Somebody does.
    pub(crate) fn take(&mut self, disk: &Arc<str>) -> u64 {
        self.0.remove(disk).map_or(0, |kept| kept.bytes)
    }

    /// Lets go of what no read can have been for. `is_read`: whether one of that disk's pool is under way.
    pub(crate) fn forget(&mut self, now_us: u64, is_read: impl Fn(&Arc<str>) -> bool) {
        for (disk, kept) in &mut self.0 {
            if is_read(disk) {
                kept.since_us = now_us;
            }
        }
        self.0.retain(|_, kept| now_us.saturating_sub(kept.since_us) <= UNCLAIMED_US);
    }
}

/// What disks have read by their own counters beyond what the map gives the reads of streams, since nobody last read from them: where a
/// parity array reads page by page, it may read twice what was asked for ahead and refused (`R5_GAS_NOBLOCK`). A read under way is in
/// it until it is told, and so is what the array itself and others read: it is no more than a limit.
#[derive(Debug, Default)]
pub(crate) struct Beyond(BTreeMap<Arc<str>, i128>);

impl Beyond {
    /// A disk's counter moved, and the map gave so much of that to streams.
    pub(crate) fn moved(&mut self, disk: &Arc<str>, bytes: u64, placed: u64) {
        *self.0.entry(Arc::clone(disk)).or_default() += i128::from(bytes) - i128::from(placed);
    }

    /// What of at most `bytes` the disks of a set have read again, each its share.
    pub(crate) fn take(&mut self, set: &[Arc<str>], bytes: u64) -> Vec<(Arc<str>, u64)> {
        let of = |disk: &Arc<str>| self.0.get(disk).map_or(0, |n| u64::try_from(*n).unwrap_or(0));
        let there: Vec<(Arc<str>, u64)> = set.iter().map(|disk| (Arc::clone(disk), of(disk))).collect();
        let total: u128 = there.iter().map(|(_, n)| u128::from(*n)).sum();
        let given = total.min(bytes.into());
        let parts: Vec<(Arc<str>, u64)> = there
            .into_iter()
            .map(|(disk, n)| (disk, u64::try_from(u128::from(n) * given / total.max(1)).unwrap_or(0)))
            .filter(|(_, part)| *part > 0)
            .collect();
        for (disk, part) in &parts {
            self.0.entry(Arc::clone(disk)).and_modify(|n| *n -= i128::from(*part));
        }
        parts
    }

    /// Nobody reads from these at the moment: what is left was not for a stream. What the map has given beyond the disks' counters
    /// stays to be made up for.
    pub(crate) fn settle(&mut self, set: &[Arc<str>]) {
        self.0.retain(|disk, n| *n < 0 || !set.contains(disk));
    }

    /// Forgets disks that no stream can read from any more.
    pub(crate) fn keep(&mut self, is_known: impl Fn(&Arc<str>) -> bool) {
        self.0.retain(|disk, _| is_known(disk));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set() -> Vec<Arc<str>> {
        vec!["a".into(), "b".into()]
    }

    fn moved(owed: &mut Owed, a: u64, b: u64) {
        owed.moved(&"a".into(), a);
        owed.moved(&"b".into(), b);
    }

    fn parts(owed: &mut Owed, bytes: u64) -> Option<Vec<u64>> {
        owed.divide(&set(), bytes).map(|parts| parts.into_iter().map(|(_, n)| n).collect())
    }

    #[test]
    fn reads_that_are_seen_after_their_counters_go_where_those_moved_in_all() {
        let mut owed = Owed::default();
        moved(&mut owed, 1000, 0);
        owed.age();
        // Nobody has told of it yet; meanwhile the other leg reads.
        moved(&mut owed, 0, 1000);
        assert_eq!(parts(&mut owed, 1000), Some(vec![500, 500]));
        assert_eq!(parts(&mut owed, 1000), Some(vec![500, 500]));
        assert_eq!(parts(&mut owed, 1000), None);
    }

    /// md raid10 with offset copies: each chunk is on two disks that are neighbours.
    #[test]
    fn sets_that_share_disks_are_divided_so_that_each_disk_gets_what_it_read() {
        let name = |d: usize| -> Arc<str> { ["a", "b", "c", "d"][d % 4].into() };
        // Which of its two disks gave how much of each chunk pair.
        let gave = [(900, 300), (200, 1000), (1100, 100), (500, 700)];
        let mut owed = Owed::default();
        let mut read = [0_u64; 4];
        let mut sets: BTreeMap<Vec<Arc<str>>, u64> = BTreeMap::new();
        for (d, (first, second)) in gave.iter().enumerate() {
            let mut set = vec![name(d), name(d + 1)];
            set.sort();
            *sets.entry(set).or_default() += (first + second) * 1000;
            for (disk, n) in [(d, first), ((d + 1) % 4, second)] {
                owed.moved(&name(disk), n * 1000);
                read[disk] += n * 1000;
            }
        }
        owed.fit(&sets);
        let mut got: BTreeMap<Arc<str>, u64> = BTreeMap::new();
        for (set, bytes) in &sets {
            // Two streams have a half each.
            for _ in 0..2 {
                for (disk, part) in owed.divide(set, bytes / 2).unwrap() {
                    *got.entry(disk).or_default() += part;
                }
            }
        }
        for (disk, read) in read.iter().enumerate() {
            let got = got[&name(disk)];
            assert!(got.abs_diff(*read) * 100 <= *read, "{disk}: {got} of {read}");
        }
    }

    #[test]
    fn what_is_certain_is_not_divided_again() {
        let mut owed = Owed::default();
        moved(&mut owed, 1000, 600);
        owed.take(&"a".into(), 1000);
        assert_eq!(parts(&mut owed, 600), Some(vec![0, 600]));
    }

    #[test]
    fn what_nobody_claims_is_another_programs_after_some_seconds() {
        let mut owed = Owed::default();
        moved(&mut owed, 1 << 30, 0);
        for _ in 0..SECONDS {
            owed.age();
            moved(&mut owed, 0, 100);
        }
        assert_eq!(parts(&mut owed, 400), Some(vec![0, 400]));
    }

    #[test]
    fn what_a_slow_read_of_a_pool_moved_is_kept_until_it_is_told_and_anybody_elses_is_not() {
        const S: u64 = 1_000_000;
        let disk: Arc<str> = "a".into();
        let mut unclaimed = Unclaimed::default();
        // Five seconds under way, and told a second after its end.
        for second in 0..5 {
            unclaimed.keep(&disk, 100, second * S);
            unclaimed.forget(second * S, |_| true);
        }
        unclaimed.forget(5 * S, |_| false);
        assert_eq!((unclaimed.take(&disk), unclaimed.take(&disk)), (500, 0));
        // Somebody else's, while no stream reads.
        for second in 10..15 {
            unclaimed.keep(&disk, 100, second * S);
            unclaimed.forget(second * S, |_| false);
        }
        assert!(unclaimed.take(&disk) <= 200);
    }

    /// md raid5 that is reshaped: two streams asked ahead, were refused, and asked again.
    #[test]
    fn what_an_array_read_again_is_what_its_disks_have_beyond_the_map_and_no_more_than_was_asked_again() {
        let mut beyond = Beyond::default();
        let name = |n: &str| -> Arc<str> { n.into() };
        // A read is under way: its counters have moved, and it is told a second later.
        beyond.moved(&name("a"), 1000, 0);
        beyond.moved(&name("a"), 300, 1000);
        beyond.moved(&name("b"), 1100, 1000);
        assert_eq!(beyond.take(&set(), 10_000), [(name("a"), 300), (name("b"), 100)]);
        assert_eq!(beyond.take(&set(), 10_000), []);
        // The array reads for itself: a stream is given what it asked for again at most.
        beyond.moved(&name("a"), 1 << 30, 0);
        beyond.moved(&name("b"), 1 << 30, 0);
        assert_eq!(beyond.take(&set(), 200), [(name("a"), 100), (name("b"), 100)]);
        beyond.settle(&set());
        assert_eq!(beyond.take(&set(), 200), []);
        // The map gave more than was read: nothing was read again, and a little later less than it seems.
        beyond.moved(&name("a"), 100, 500);
        assert_eq!(beyond.take(&set(), 200), []);
        beyond.settle(&set());
        beyond.moved(&name("a"), 450, 0);
        assert_eq!(beyond.take(&set(), 200), [(name("a"), 50)]);
        beyond.moved(&name("a"), 450, 0);
        beyond.keep(|disk| **disk == *"b");
        assert_eq!(beyond.take(&set(), 200), []);
    }
}
