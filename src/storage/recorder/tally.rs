//! Sums of one disk for one stream, and a histogram of bounded size. Pure.

use super::join::Part;
use super::record::Percentiles;

/// Counts in classes of 1/16 of a power of two: 6 % wide, 16 KiB at most.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Histogram {
    classes: Vec<u32>,
    total: u64,
}

const PARTS: u64 = 16;

fn class(us: u64) -> usize {
    if us < PARTS {
        return usize::try_from(us).unwrap_or(0);
    }
    let power = us.ilog2();
    let part = (us >> (power - 4)) - PARTS;
    usize::try_from(u64::from(power - 3) * PARTS + part).unwrap_or(0)
}

/// Largest value of a class.
fn top(class: usize) -> u64 {
    let class = class as u64;
    if class < PARTS {
        return class;
    }
    let (power, part) = (class / PARTS + 3, class % PARTS);
    ((PARTS + part + 1) << (power - 4)) - 1
}

impl Histogram {
    pub(crate) fn add(&mut self, us: u64) {
        // An hour: nothing that takes longer is told apart.
        let class = class(us.min(3_600_000_000));
        if self.classes.len() <= class {
            self.classes.resize(class + 1, 0);
        }
        self.classes[class] = self.classes[class].saturating_add(1);
        self.total += 1;
    }

    fn at(&self, percent: u64) -> u64 {
        let want = (self.total * percent).div_ceil(100).max(1);
        let mut seen = 0;
        for (i, n) in self.classes.iter().enumerate() {
            seen += u64::from(*n);
            if seen >= want {
                return top(i);
            }
        }
        0
    }

    pub(crate) fn percentiles(&self) -> Percentiles {
        Percentiles { p50: self.at(50), p95: self.at(95), p99: self.at(99) }
    }
}

/// One disk's part in one stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) read_bytes: u64,
    pub(crate) metadata_bytes: u64,
    pub(crate) parity_bytes: u64,
    pub(crate) reconstruct_bytes: u64,
    pub(crate) merged: u64,
    pub(crate) requests: u64,
    pub(crate) request_bytes: u64,
    pub(crate) sequential: u64,
    /// Requests that the disk answered with an error.
    pub(crate) failed: u64,
    pub(crate) latency: Histogram,
    busy_us: u64,
    busy_until_us: u64,
    last_end: Option<u64>,
}

impl Tally {
    /// File bytes, by what they were read for.
    pub(crate) fn bytes(&mut self, part: Part, len_bytes: u64) {
        self.read_bytes += len_bytes;
        match part {
            Part::Data => {}
            Part::Reconstruct => self.reconstruct_bytes += len_bytes,
            Part::Parity => self.parity_bytes += len_bytes,
        }
    }

    /// A request. `sequential`: `None` where only this stream's own positions are known.
    pub(crate) fn request(&mut self, start: u64, len_bytes: u64, sequential: Option<bool>) {
        self.requests += 1;
        self.request_bytes += len_bytes;
        self.sequential += u64::from(sequential.unwrap_or(self.last_end == Some(start)));
        self.last_end = Some(start.saturating_add(len_bytes));
    }

    /// The time that a request (or a read) took. The union of such times counts as busy.
    pub(crate) fn took(&mut self, start_us: u64, end_us: u64) {
        self.latency.add(end_us.saturating_sub(start_us));
        self.busy_us += end_us.saturating_sub(start_us.max(self.busy_until_us));
        self.busy_until_us = self.busy_until_us.max(end_us);
    }

    pub(crate) fn busy_us(&self) -> u64 {
        self.busy_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_within_a_sixteenth() {
        let mut h = Histogram::default();
        for us in 1..=1000 {
            h.add(us);
        }
        let p = h.percentiles();
        for (got, want) in [(p.p50, 500), (p.p95, 950), (p.p99, 990)] {
            assert!(got >= want && got <= want + want / 16 + 1, "{got} for {want}");
        }
        assert_eq!(Histogram::default().percentiles(), Percentiles::default());
    }

    #[test]
    fn every_value_lies_in_its_class() {
        for us in (0..5000).chain([1 << 20, (1 << 31) + 12345, u64::MAX]) {
            let v = us.min(3_600_000_000);
            let c = class(v);
            assert!(top(c) >= v && (c == 0 || top(c - 1) < v), "{us}");
        }
    }

    #[test]
    fn overlapping_requests_are_busy_once() {
        let mut t = Tally::default();
        t.request(0, 100, None);
        t.request(100, 100, None);
        t.request(500, 100, None);
        t.took(10, 20);
        t.took(15, 30);
        t.took(40, 50);
        assert_eq!((t.busy_us(), t.sequential, t.requests), (30, 1, 3));
    }
}
