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
}

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

    /// Divides bytes among disks by what they are owed, and takes them; `None` while that is nothing.
    pub(crate) fn divide(&mut self, set: &[Arc<str>], bytes: u64) -> Option<Vec<(Arc<str>, u64)>> {
        let of = |d: &Arc<str>| u128::from(self.bytes.get(d).copied().unwrap_or(0));
        let total: u128 = set.iter().map(of).sum();
        if total == 0 {
            return None;
        }
        let mut left = bytes;
        let mut parts = Vec::with_capacity(set.len());
        for (i, disk) in set.iter().enumerate() {
            let part = u64::try_from(u128::from(bytes) * of(disk) / total).unwrap_or(left).min(left);
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
}
