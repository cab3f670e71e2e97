//! A set of byte ranges: which bytes of a file are known to have been fetched.

use std::collections::BTreeMap;

use spindle_base::units::ByteRange;

/// Most ranges a set keeps. A file that is read at random in small pieces would otherwise grow it
/// without end; 4,096 ranges are 200 KiB, and forgetting one costs a probe, never a wrong byte.
const MAX_RANGES: usize = 4096;

/// Disjoint, merged ranges.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct IntervalSet {
    /// start -> end, disjoint and not touching.
    ranges: BTreeMap<u64, u64>,
}

impl IntervalSet {
    /// Adds a range.
    pub(crate) fn insert(&mut self, range: ByteRange) {
        if range.is_empty() {
            return;
        }
        let (mut start, mut end) = (range.start(), range.end());
        if let Some((&s, &e)) = self.ranges.range(..=start).next_back()
            && e >= start
        {
            start = s;
            end = end.max(e);
        }
        while let Some((&s, &e)) = self.ranges.range(start..=end).next() {
            end = end.max(e);
            self.ranges.remove(&s);
        }
        self.ranges.insert(start, end);
        if self.ranges.len() > MAX_RANGES {
            // The shortest range says the least.
            if let Some(&s) = self.ranges.iter().min_by_key(|(s, e)| *e - *s).map(|(s, _)| s) {
                self.ranges.remove(&s);
            }
        }
    }

    /// Takes a range out.
    pub(crate) fn remove(&mut self, range: ByteRange) {
        if range.is_empty() {
            return;
        }
        let (start, end) = (range.start(), range.end());
        if let Some((&s, &e)) = self.ranges.range(..start).next_back()
            && e > start
        {
            self.ranges.insert(s, start);
            if e > end {
                self.ranges.insert(end, e);
            }
        }
        while let Some((&s, &e)) = self.ranges.range(start..end).next() {
            self.ranges.remove(&s);
            if e > end {
                self.ranges.insert(end, e);
            }
        }
    }

    /// How far the set reaches from `offset` without a gap; `offset` itself if it is not in it.
    pub(crate) fn reach(&self, offset: u64) -> u64 {
        match self.ranges.range(..=offset).next_back() {
            Some((_, &e)) if e > offset => e,
            _ => offset,
        }
    }

    /// The parts of `range` that are not in the set, in order.
    pub(crate) fn gaps(&self, range: ByteRange) -> Vec<ByteRange> {
        let mut out = Vec::new();
        let mut at = self.reach(range.start());
        while at < range.end() {
            let (next, resume) = self
                .ranges
                .range(at..range.end())
                .next()
                .map_or((range.end(), range.end()), |(&s, &e)| (s, e));
            out.extend(ByteRange::new(at, next).filter(|r| !r.is_empty()));
            at = resume;
        }
        out
    }

    /// Bytes of `range` that are in the set.
    pub(crate) fn overlap_bytes(&self, range: ByteRange) -> u64 {
        range.len_bytes() - self.gaps(range).iter().map(|g| g.len_bytes()).sum::<u64>()
    }

    /// The ranges, in order.
    #[cfg(test)]
    pub(crate) fn ranges(&self) -> Vec<(u64, u64)> {
        self.ranges.iter().map(|(s, e)| (*s, *e)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn r(start: u64, end: u64) -> ByteRange {
        ByteRange::new(start, end).unwrap()
    }

    #[test]
    fn ranges_that_touch_or_overlap_become_one() {
        let mut set = IntervalSet::default();
        set.insert(r(10, 20));
        set.insert(r(30, 40));
        set.insert(r(20, 30));
        assert_eq!(set.ranges(), [(10, 40)]);
        set.insert(r(0, 100));
        assert_eq!(set.ranges(), [(0, 100)]);
    }

    #[test]
    fn removing_the_middle_leaves_both_ends() {
        let mut set = IntervalSet::default();
        set.insert(r(0, 100));
        set.remove(r(40, 60));
        assert_eq!(set.ranges(), [(0, 40), (60, 100)]);
        set.remove(r(30, 70));
        assert_eq!(set.ranges(), [(0, 30), (70, 100)]);
        set.remove(r(0, 1000));
        assert!(set.ranges().is_empty());
    }

    #[test]
    fn gaps_and_reach_agree_with_a_bitmap() {
        // A small linear congruential walk instead of a seedless generator: the same on every run.
        let mut x = 12345_u64;
        let mut next = |n: u64| {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (x >> 33) % n
        };
        let (mut set, mut bits) = (IntervalSet::default(), [false; 256]);
        for _ in 0..2000 {
            let a = next(256);
            let b = (a + next(40)).min(256);
            let add = next(3) > 0;
            if add {
                set.insert(r(a, b))
            } else {
                set.remove(r(a, b))
            }
            for bit in &mut bits[a as usize..b as usize] {
                *bit = add;
            }
            let q = next(256) as usize;
            let reach = (q..256).find(|i| !bits[*i]).unwrap_or(256) as u64;
            assert_eq!(set.reach(q as u64), reach);
            let missing = bits[q..].iter().filter(|b| !**b).count() as u64;
            let gaps = set.gaps(r(q as u64, 256));
            assert_eq!(gaps.iter().map(|g| g.len_bytes()).sum::<u64>(), missing);
            assert_eq!(set.overlap_bytes(r(q as u64, 256)), 256 - q as u64 - missing);
        }
    }

    #[test]
    fn a_set_of_crumbs_stays_bounded() {
        let mut set = IntervalSet::default();
        for i in 0..10_000 {
            set.insert(r(i * 8192, i * 8192 + 4096));
        }
        assert_eq!(set.ranges().len(), MAX_RANGES);
    }
}
