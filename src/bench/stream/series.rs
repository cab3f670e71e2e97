//! What whole disks and the machine did while streams ran, in a bounded number of intervals: whoever asked.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::machine::{Counters, DiskCounters};

/// Intervals at most; neighbours are merged when they run out.
const MAX_POINTS: usize = 1200;

/// Values per interval; every list has the length of `t_s`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Series {
    /// Length of an interval as it was meant; the last one of a run is shorter.
    pub interval_ms: u64,
    /// Where each interval begins, seconds since the scenario began.
    pub t_s: Vec<f64>,
    /// By disk: those of the volume, and the system's.
    pub disks: BTreeMap<String, DiskSeries>,
    /// Processors that worked, of all of the machine: 1 = one of them all the time.
    pub cpu_share: Vec<f64>,
    /// Disks with the data folder: conversions and the database write there.
    pub system_disks: Vec<String>,
}

/// Of one disk, by its own counters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskSeries {
    /// Bytes read.
    pub read_bytes: Vec<u64>,
    /// Requests to read.
    pub reads: Vec<u64>,
    /// Bytes written.
    pub write_bytes: Vec<u64>,
    /// Milliseconds in which it had something to do.
    pub busy_ms: Vec<u64>,
}

/// Takes looks and makes intervals of them.
#[derive(Debug)]
pub struct Sampler {
    series: Series,
    began_us: u64,
    first: DiskCounters,
    last: DiskCounters,
    last_us: u64,
    cpu: Option<u64>,
    /// Microseconds of processor in each interval, and how long it was.
    cpu_us: Vec<(u64, u64)>,
}

impl Sampler {
    /// From a first look on.
    #[must_use]
    pub fn begin(
        interval_ms: u64,
        now_us: u64,
        counters: DiskCounters,
        cpu_us: Option<u64>,
        system_disks: Vec<String>,
    ) -> Self {
        let disks = counters.keys().map(|name| (name.clone(), DiskSeries::default())).collect();
        Self {
            series: Series { interval_ms: interval_ms.max(1), disks, system_disks, ..Series::default() },
            began_us: now_us,
            first: counters.clone(),
            last: counters,
            last_us: now_us,
            cpu: cpu_us,
            cpu_us: Vec::new(),
        }
    }

    /// Another look.
    pub fn look(&mut self, now_us: u64, counters: DiskCounters, cpu_us: Option<u64>) {
        if now_us <= self.last_us {
            return;
        }
        if self.series.t_s.len() >= MAX_POINTS {
            self.halve();
        }
        self.series.t_s.push(seconds(self.last_us.saturating_sub(self.began_us)));
        for (name, series) in &mut self.series.disks {
            // One that is gone has done nothing more.
            let now = counters.get(name).or_else(|| self.last.get(name)).copied().unwrap_or_default();
            let d = now.since(self.last.get(name).copied().unwrap_or(now));
            series.read_bytes.push(d.read_bytes);
            series.reads.push(d.reads);
            series.write_bytes.push(d.write_bytes);
            series.busy_ms.push(d.busy_ms);
        }
        let spent = cpu_us.zip(self.cpu).map_or(0, |(now, before)| now.saturating_sub(before));
        self.cpu_us.push((spent, now_us - self.last_us));
        self.cpu = cpu_us.or(self.cpu);
        self.last.extend(counters);
        self.last_us = now_us;
    }

    /// What each disk did in all.
    #[must_use]
    pub fn totals(&self) -> BTreeMap<String, Counters> {
        let since = |(name, first): (&String, &Counters)| {
            (name.clone(), self.last.get(name).copied().unwrap_or(*first).since(*first))
        };
        self.first.iter().map(since).collect()
    }

    /// Disks with the data folder.
    #[must_use]
    pub fn system_disks(&self) -> &[String] {
        &self.series.system_disks
    }

    /// All of it.
    #[must_use]
    pub fn end(mut self) -> Series {
        self.series.cpu_share =
            self.cpu_us.iter().map(|(spent, of)| seconds(*spent) / seconds((*of).max(1))).collect();
        self.series
    }

    fn halve(&mut self) {
        self.series.interval_ms *= 2;
        self.series.t_s = self.series.t_s.iter().step_by(2).copied().collect();
        for d in self.series.disks.values_mut() {
            for list in [&mut d.read_bytes, &mut d.reads, &mut d.write_bytes, &mut d.busy_ms] {
                *list = list.chunks(2).map(|pair| pair.iter().sum()).collect();
            }
        }
        let add = |pair: &[(u64, u64)]| pair.iter().fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
        self.cpu_us = self.cpu_us.chunks(2).map(add).collect();
    }
}

#[expect(clippy::cast_precision_loss, reason = "seconds for people")]
fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

/// Microseconds that all processors together have worked since the machine started (`/proc/stat`, Documentation/filesystems/proc.rst
/// section 1.7; its unit is 1/100 s on every architecture that Linux has).
#[must_use]
pub fn cpu_us() -> Option<u64> {
    parse_cpu(&std::fs::read_to_string("/proc/stat").ok()?)
}

fn parse_cpu(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|l| l.strip_prefix("cpu "))?;
    let fields: Vec<u64> = line.split_whitespace().map_while(|f| f.parse().ok()).collect();
    // user nice system idle iowait irq softirq; guest time is within user already.
    let [user, nice, system, _idle, _waiting, irq, softirq, ..] = fields[..] else { return None };
    Some((user + nice + system + irq + softirq).saturating_mul(10_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(read_bytes: u64, write_bytes: u64) -> DiskCounters {
        let c = Counters {
            reads: read_bytes / 10,
            read_bytes,
            writes: 0,
            write_bytes,
            busy_ms: read_bytes / 100,
        };
        [("sda".to_owned(), c), ("sdb".to_owned(), Counters::default())].into()
    }

    #[test]
    fn intervals_are_differences_and_every_list_has_one_length() {
        let mut s = Sampler::begin(500, 1_000_000, look(1000, 0), Some(10), vec!["sdb".to_owned()]);
        s.look(1_500_000, look(3000, 7), Some(250_010));
        s.look(2_000_000, look(3000, 9), None);
        s.look(2_000_000, look(9999, 9), None); // no time has passed
        assert_eq!(s.totals()["sda"].read_bytes, 2000);
        let out = s.end();
        assert_eq!(out.t_s, [0.0, 0.5]);
        assert_eq!(out.disks["sda"].read_bytes, [2000, 0]);
        assert_eq!(
            (out.disks["sda"].write_bytes.as_slice(), out.disks["sdb"].reads.as_slice()),
            (&[7, 2][..], &[0, 0][..])
        );
        assert_eq!(out.cpu_share, [0.5, 0.0]);
    }

    #[test]
    fn a_long_run_keeps_its_sums_in_fewer_intervals() {
        let mut s = Sampler::begin(500, 0, look(0, 0), Some(0), Vec::new());
        for n in 1..=5000 {
            s.look(n * 500_000, look(n * 100, 0), Some(n * 500_000));
        }
        let out = s.end();
        assert!(out.t_s.len() <= MAX_POINTS && out.t_s.is_sorted(), "{}", out.t_s.len());
        assert_eq!(out.disks["sda"].read_bytes.iter().sum::<u64>(), 500_000);
        assert_eq!(out.disks["sda"].read_bytes.len(), out.t_s.len());
        assert_eq!(out.cpu_share.len(), out.t_s.len());
        assert!(out.cpu_share.iter().all(|c| (c - 1.0).abs() < 1e-9));
    }

    #[test]
    fn a_disk_that_goes_away_stands_still_from_then_on() {
        let mut s = Sampler::begin(500, 0, look(100, 0), None, Vec::new());
        s.look(500_000, DiskCounters::new(), None);
        s.look(1_000_000, look(300, 0), None);
        assert_eq!(s.end().disks["sda"].read_bytes, [0, 200]);
    }

    #[test]
    fn the_kernels_line_counts_work_and_not_waiting() {
        assert_eq!(parse_cpu("cpu  1 2 3 400 500 6 7 8 9 10\ncpu0 1"), Some(190_000));
        assert_eq!(parse_cpu("intr 5"), None);
    }
}
