//! The machine while an experiment ran: what it is, how busy it was, and what else was at the same disks.

use std::collections::BTreeMap;
use std::fs;

use serde::{Deserialize, Serialize};

/// Share of our own bytes that others may have moved before it is said. Filesystems and md write superblocks and
/// journals of their own all the time; a reader of the figures would not see a twentieth.
const SAID_FROM_SHARE: f64 = 0.05;
/// And bytes a second: below that a disk is as good as idle.
const SAID_FROM_BYTES_PER_S: f64 = 1e6;
/// And requests a second: of small requests a disk that turns serves a hundred.
const SAID_FROM_REQUESTS_PER_S: f64 = 5.0;

/// The machine and its load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// Release of the running kernel.
    pub kernel: String,
    /// Processors that this process may use.
    pub cpus: usize,
    /// Bytes of memory; 0 where unknown.
    pub memory_bytes: u64,
    /// Before it began.
    pub before: Load,
    /// When it had ended.
    pub after: Load,
    /// What others did at the experiment's disks before it began, a row a disk.
    pub others_before: Vec<DiskLoad>,
    /// What they did while it ran, as far as it can be told from our own requests.
    pub others_during: Vec<DiskLoad>,
}

/// How busy a machine is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Load {
    /// Tasks that run or wait for a disk, mean of the last minute (`/proc/loadavg`).
    pub load_1m: f64,
    /// Per cent of the last ten seconds in which some task waited for a disk (`/proc/pressure/io`); absent without PSI.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io_pressure_10s: Option<f64>,
}

/// What went over a disk in a second.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DiskLoad {
    /// Its name in `/sys/block`.
    pub disk: String,
    /// Bytes read a second.
    pub read_bytes_per_s: f64,
    /// Bytes written a second.
    pub write_bytes_per_s: f64,
    /// Requests a second.
    pub requests_per_s: f64,
}

/// Counters of one disk since it appeared (`Documentation/block/stat.rst`). Sectors there are 512 bytes whatever the disk's own are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests to read.
    pub reads: u64,
    /// Bytes of them.
    pub read_bytes: u64,
    /// Requests to write.
    pub writes: u64,
    /// Bytes of them.
    pub write_bytes: u64,
    /// Milliseconds in which at least one request was under way.
    pub busy_ms: u64,
}

impl Counters {
    /// What came since `before`. A disk that was replaced meanwhile counts from zero.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            reads: self.reads.saturating_sub(before.reads),
            read_bytes: self.read_bytes.saturating_sub(before.read_bytes),
            writes: self.writes.saturating_sub(before.writes),
            write_bytes: self.write_bytes.saturating_sub(before.write_bytes),
            busy_ms: self.busy_ms.saturating_sub(before.busy_ms),
        }
    }

    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            reads: self.reads + other.reads,
            read_bytes: self.read_bytes + other.read_bytes,
            writes: self.writes + other.writes,
            write_bytes: self.write_bytes + other.write_bytes,
            busy_ms: self.busy_ms + other.busy_ms,
        }
    }
}

/// The counters of disks by name; one that is not there has none.
pub type DiskCounters = BTreeMap<String, Counters>;

/// Reads the counters of disks. Touches no disk.
#[must_use]
pub fn counters(disks: &[String]) -> DiskCounters {
    let of = |disk: &String| {
        // Names come from sysfs itself (`!` stands for a slash there); anything else names no file.
        let is_name = !disk.is_empty() && !disk.contains('/') && !disk.starts_with('.');
        let text = is_name.then(|| fs::read_to_string(format!("/sys/block/{disk}/stat")).ok())??;
        Some((disk.clone(), parse_stat(&text)?))
    };
    disks.iter().filter_map(of).collect()
}

/// The numbers of `/sys/block/DISK/stat`.
fn parse_stat(text: &str) -> Option<Counters> {
    let fields: Vec<u64> = text.split_whitespace().map_while(|f| f.parse().ok()).collect();
    let [reads, _, read_sectors, _, writes, _, write_sectors, _, _, busy_ms, ..] = fields[..] else {
        return None;
    };
    Some(Counters {
        reads,
        read_bytes: read_sectors.saturating_mul(512),
        writes,
        write_bytes: write_sectors.saturating_mul(512),
        busy_ms,
    })
}

/// What the machine is, and its load now.
#[must_use]
pub fn look() -> Machine {
    let memory = fs::read_to_string("/proc/meminfo").ok().and_then(|text| parse_memory(&text));
    Machine {
        kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        cpus: std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
        memory_bytes: memory.unwrap_or(0),
        before: load(),
        ..Machine::default()
    }
}

/// The load now.
#[must_use]
pub fn load() -> Load {
    let average = fs::read_to_string("/proc/loadavg").ok();
    let first = average.as_deref().and_then(|t| t.split_whitespace().next()?.parse().ok());
    let pressure = fs::read_to_string("/proc/pressure/io").ok();
    Load { load_1m: first.unwrap_or(0.0), io_pressure_10s: pressure.as_deref().and_then(parse_pressure) }
}

fn parse_memory(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|l| l.strip_prefix("MemTotal:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// `some avg10=1.53 avg60=..` of a pressure file (`Documentation/accounting/psi.rst`).
fn parse_pressure(text: &str) -> Option<f64> {
    let line = text.lines().find_map(|l| l.strip_prefix("some "))?;
    line.split_whitespace().find_map(|f| f.strip_prefix("avg10="))?.parse().ok()
}

/// What went over disks between two looks, as rates.
#[must_use]
pub fn rates(before: &DiskCounters, after: &DiskCounters, seconds: f64) -> Vec<DiskLoad> {
    if seconds <= 0.0 {
        return Vec::new();
    }
    let of = |(disk, now): (&String, &Counters)| {
        let d = now.since(*before.get(disk)?);
        Some(DiskLoad {
            disk: disk.clone(),
            read_bytes_per_s: d.read_bytes as f64 / seconds,
            write_bytes_per_s: d.write_bytes as f64 / seconds,
            requests_per_s: (d.reads + d.writes) as f64 / seconds,
        })
    };
    after.iter().filter_map(of).collect()
}

/// Whether that would be seen in the figures of an experiment.
#[must_use]
pub fn is_busy(disk: &DiskLoad) -> bool {
    disk.read_bytes_per_s + disk.write_bytes_per_s > SAID_FROM_BYTES_PER_S
        || disk.requests_per_s > SAID_FROM_REQUESTS_PER_S
}

/// What others moved over all disks of a volume while we read `read_bytes` and wrote nothing.
///
/// Reads of ours come off disks once, whatever the layout (a degraded one reads more: then nothing is told), so that what the
/// disks read beyond them, and whatever they wrote, is not ours. Writes are not told apart: how many bytes a write of ours costs is
/// what the experiment measures.
#[must_use]
pub fn others_while_reading(disks: &DiskCounters, read_bytes: u64, seconds: f64) -> Option<Others> {
    if seconds <= 0.0 || disks.is_empty() {
        return None;
    }
    let all = disks.values().fold(Counters::default(), |a, b| a.and(*b));
    let read = all.read_bytes.saturating_sub(read_bytes) as f64 / seconds;
    let write = all.write_bytes as f64 / seconds;
    let ours = read_bytes as f64 / seconds;
    let seen = read + write > SAID_FROM_BYTES_PER_S && read + write > SAID_FROM_SHARE * ours;
    Some(Others { read_bytes_per_s: read, write_bytes_per_s: write, seen })
}

/// See [`others_while_reading`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Others {
    /// Bytes a second.
    pub read_bytes_per_s: f64,
    /// Bytes a second.
    pub write_bytes_per_s: f64,
    /// Whether it is enough to be seen in the figures.
    pub seen: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_line_is_read_in_its_own_units() {
        let line = "  1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n";
        let seen = parse_stat(line).unwrap();
        assert_eq!(seen, Counters { reads: 1, read_bytes: 1536, writes: 5, write_bytes: 3584, busy_ms: 10 });
        // Before 4.18 the line had eleven numbers.
        assert!(parse_stat("1 2 3 4 5 6 7 8 9 10 11").is_some());
        assert!(parse_stat("1 2 3").is_none() && parse_stat("").is_none() && parse_stat("a b").is_none());
    }

    #[test]
    fn load_memory_and_pressure_are_found_in_their_files() {
        assert_eq!(parse_memory("MemFree: 1 kB\nMemTotal:       16 kB\n"), Some(16384));
        let psi = "some avg10=1.53 avg60=0.87 avg300=0.29 total=4\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=1\n";
        assert_eq!(parse_pressure(psi), Some(1.53));
        assert_eq!(parse_pressure("full avg10=1\n"), None);
        let here = look();
        assert!(here.cpus > 0 && !here.kernel.is_empty() && here.memory_bytes > 0);
    }

    #[test]
    fn names_that_are_no_disks_open_no_file() {
        assert!(
            counters(&["../../etc".to_owned(), String::new(), ".".to_owned(), "no-such-disk".to_owned()])
                .is_empty()
        );
    }

    fn one(read_bytes: u64, write_bytes: u64) -> DiskCounters {
        [("sda".to_owned(), Counters { read_bytes, write_bytes, reads: 10, ..Counters::default() })].into()
    }

    #[test]
    fn what_disks_read_beyond_ours_is_others() {
        let seen = others_while_reading(&one(150_000_000, 0), 100_000_000, 1.0).unwrap();
        assert!(seen.seen && (seen.read_bytes_per_s - 5e7).abs() < 1.0);
        let trees = others_while_reading(&one(101_000_000, 500_000), 100_000_000, 1.0).unwrap();
        assert!(!trees.seen, "the filesystem's own");
        assert_eq!(others_while_reading(&DiskCounters::new(), 1, 1.0), None);
    }

    #[test]
    fn rates_are_differences_and_a_disk_that_was_not_there_has_none() {
        let mut after = one(3_000_000, 0);
        after.insert("sdb".to_owned(), Counters { read_bytes: 1 << 40, ..Counters::default() });
        let rates = rates(&one(1_000_000, 0), &after, 2.0);
        assert_eq!(rates.len(), 1);
        assert!((rates[0].read_bytes_per_s - 1e6).abs() < 1e-6 && !is_busy(&rates[0]));
    }
}
