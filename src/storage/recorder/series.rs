//! Values over time in a bounded number of intervals: when they run out, neighbours are merged and the
//! interval doubles. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::record::{DiskSeries, SeriesJson, SystemDiskSeries};

/// Intervals at most: 20 minutes at a second each, 3 hours at 8 seconds.
const MAX_POINTS: usize = 1200;
const FIRST_INTERVAL_MS: u64 = 1000;

/// See the module.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Series {
    interval_ms: u64,
    points: usize,
    disks: BTreeMap<Arc<str>, DiskSeries>,
    /// Microseconds of CPU in each interval.
    cpu_us: Vec<u64>,
    system: SystemDiskSeries,
}

impl Default for Series {
    fn default() -> Self {
        Self {
            interval_ms: FIRST_INTERVAL_MS,
            points: 0,
            disks: BTreeMap::new(),
            cpu_us: Vec::new(),
            system: SystemDiskSeries::default(),
        }
    }
}

fn add(list: &mut Vec<u64>, at: usize, value: u64) {
    if list.len() <= at {
        list.resize(at + 1, 0);
    }
    list[at] = list[at].saturating_add(value);
}

fn halve(list: &mut Vec<u64>) {
    *list = list.chunks(2).map(|p| p.iter().sum()).collect();
}

impl Series {
    /// The interval of a moment, microseconds since the start of the record.
    fn slot(&mut self, at_us: u64) -> usize {
        loop {
            let slot = usize::try_from(at_us / (self.interval_ms * 1000)).unwrap_or(usize::MAX);
            if slot < MAX_POINTS {
                self.points = self.points.max(slot + 1);
                return slot;
            }
            self.interval_ms *= 2;
            self.points = self.points.div_ceil(2);
            for d in self.disks.values_mut() {
                halve(&mut d.read_bytes);
                halve(&mut d.reads);
            }
            halve(&mut self.cpu_us);
            halve(&mut self.system.read_bytes);
            halve(&mut self.system.write_bytes);
        }
    }

    pub(crate) fn read(&mut self, at_us: u64, disk: &Arc<str>, bytes: u64, reads: u64) {
        let slot = self.slot(at_us);
        let d = self.disks.entry(Arc::clone(disk)).or_default();
        add(&mut d.read_bytes, slot, bytes);
        add(&mut d.reads, slot, reads);
    }

    pub(crate) fn machine(&mut self, at_us: u64, cpu_us: u64, read_bytes: u64, write_bytes: u64) {
        let slot = self.slot(at_us);
        add(&mut self.cpu_us, slot, cpu_us);
        add(&mut self.system.read_bytes, slot, read_bytes);
        add(&mut self.system.write_bytes, slot, write_bytes);
    }

    /// With every list of the same length; `disks` are there even if they did nothing.
    #[expect(clippy::cast_precision_loss, reason = "seconds and shares for people")]
    pub(crate) fn json(&self, disks: &[Arc<str>]) -> SeriesJson {
        let full = |list: &[u64]| {
            let mut list = list.to_vec();
            list.resize(self.points, 0);
            list
        };
        let mut all = self.disks.clone();
        for d in disks {
            all.entry(Arc::clone(d)).or_default();
        }
        let interval_us = (self.interval_ms * 1000) as f64;
        SeriesJson {
            interval_ms: self.interval_ms,
            t_s: (0..self.points).map(|i| i as f64 * interval_us / 1e6).collect(),
            disks: all
                .iter()
                .map(|(name, d)| {
                    (name.to_string(), DiskSeries { read_bytes: full(&d.read_bytes), reads: full(&d.reads) })
                })
                .collect(),
            cpu_share: full(&self.cpu_us).iter().map(|us| *us as f64 / interval_us).collect(),
            system_disk: SystemDiskSeries {
                read_bytes: full(&self.system.read_bytes),
                write_bytes: full(&self.system.write_bytes),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_one_length_and_idle_disks_are_there() {
        let (a, b): (Arc<str>, Arc<str>) = ("sda".into(), "sdb".into());
        let mut s = Series::default();
        s.read(2_500_000, &a, 100, 1);
        s.machine(500_000, 250_000, 7, 8);
        let json = s.json(&[a, b]);
        assert_eq!(json.t_s, [0.0, 1.0, 2.0]);
        assert_eq!(json.disks["sda"], DiskSeries { read_bytes: vec![0, 0, 100], reads: vec![0, 0, 1] });
        assert_eq!(json.disks["sdb"].read_bytes, [0, 0, 0]);
        assert_eq!(json.cpu_share, [0.25, 0.0, 0.0]);
        assert_eq!(json.system_disk.write_bytes, [8, 0, 0]);
    }

    #[test]
    fn a_long_record_keeps_its_sums_in_fewer_points() {
        let a: Arc<str> = "sda".into();
        let mut s = Series::default();
        for second in 0..10_000 {
            s.read(second * 1_000_000, &a, 3, 1);
        }
        let json = s.json(&[]);
        assert_eq!(json.interval_ms, 16_000);
        assert_eq!(json.t_s.len(), 625);
        assert_eq!(json.disks["sda"].read_bytes.iter().sum::<u64>(), 30_000);
        assert_eq!(json.disks["sda"].reads[0], 16);
    }
}
