//! The ground of an experiment: the volume, whether it may and can be written, and the file that is written there.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use spindle_base::clock::SharedClock;
use spindle_base::shutdown::Shutdown;
use spindle_storage::Topology;

use crate::error::BenchError;
use crate::machine::{self, Counters, DiskCounters, DiskLoad};
use crate::pattern::{self, Op, Order, Pattern, PatternRow, Run, Target};
use crate::record::{Record, visit};
use crate::scratch::Scratch;
use crate::store::Store;

/// Room that stays: a twentieth of the volume, at least 16 MiB, at most 10 GiB. Filesystems grow slow, and btrfs stuck, when full.
const MARGIN_SHARE: u64 = 20;
const MARGIN_LEAST: u64 = 16 << 20;
const MARGIN_MOST: u64 = 10 << 30;
/// How long the disks are watched before anything is done, to see what others do there.
const WATCH: Duration = Duration::from_secs(1);
/// How a file is filled: large enough that no disk waits, small enough to be told of.
const FILL_BLOCK: u64 = 1 << 20;
const FILL_DEPTH: usize = 4;

/// What an experiment needs of whoever runs it.
pub struct Runner<'a> {
    /// Where the ledger of temporary files is.
    pub store: &'a Store,
    /// Time.
    pub clock: &'a SharedClock,
    /// Ends it.
    pub stop: &'a Shutdown,
    /// Shows what is done: a step, and a figure.
    pub say: &'a (dyn Fn(&str, &str) + Sync),
}

/// A folder that is about to be written to.
#[derive(Debug)]
pub struct Plan {
    /// The folder.
    pub folder: PathBuf,
    /// Bytes of the file that will be made.
    pub file_bytes: u64,
    /// The volume.
    pub topology: Topology,
}

impl Plan {
    /// Looks whether a file of this size may be made in `folder`. Makes nothing.
    ///
    /// # Errors
    /// It is no folder; there is no room; the volume takes no writes.
    pub fn new(folder: &Path, file_bytes: u64, topology: Topology) -> Result<Self, BenchError> {
        let meta = fs::metadata(folder).map_err(BenchError::file("look at", folder))?;
        if !meta.is_dir() {
            return Err(BenchError::Meaning(format!(
                "`{}` is not a folder; name one on the volume",
                folder.display()
            )));
        }
        if topology.filesystem.stopped_writes {
            return Err(BenchError::NoRoom(format!(
                "the filesystem of `{}` has stopped taking writes since it found an error",
                folder.display()
            )));
        }
        let stat = rustix::fs::statvfs(folder).map_err(|e| BenchError::file("look at", folder)(e.into()))?;
        if stat.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY) {
            let source = io::Error::from(io::ErrorKind::ReadOnlyFilesystem);
            return Err(BenchError::File { what: "write to", path: folder.to_owned(), source });
        }
        let (free, size) =
            (stat.f_bavail.saturating_mul(stat.f_frsize), stat.f_blocks.saturating_mul(stat.f_frsize));
        if let Err((wanted, margin)) = has_room(free, size, file_bytes) {
            return Err(BenchError::NoRoom(format!(
                "there is no room on `{}`: the file has {} MiB, {} MiB are free, and {} MiB must stay so; choose less with --size or free {} MiB",
                folder.display(),
                file_bytes >> 20,
                free >> 20,
                margin >> 20,
                (wanted.saturating_sub(free) >> 20) + 1
            )));
        }
        Ok(Self { folder: folder.to_owned(), file_bytes, topology })
    }

    /// Disks whose platters stand still, as far as that is known. Writing wakes them.
    #[must_use]
    pub fn asleep(&self) -> Vec<String> {
        asleep(&self.topology)
    }

    /// What is asked before it is done.
    #[must_use]
    pub fn question(&self, seconds: u64) -> String {
        format!(
            "This writes a temporary file of {} bytes in {} and overwrites it for about {seconds} s; it is removed afterwards. Go on?",
            self.file_bytes,
            self.folder.display()
        )
    }
}

/// See [`Plan::asleep`].
#[must_use]
pub fn asleep(topology: &Topology) -> Vec<String> {
    let mut out = Vec::new();
    visit(&topology.node, &mut |node| {
        if node.disk.asleep == Some(true) && !out.contains(&node.name) {
            out.push(node.name.clone());
        }
    });
    out
}

/// Whether a file of `wanted` bytes fits and leaves the margin. Else: how much would have to be free, and the margin.
fn has_room(free: u64, size: u64, wanted: u64) -> Result<(), (u64, u64)> {
    let margin = (size / MARGIN_SHARE).clamp(MARGIN_LEAST, MARGIN_MOST);
    let needed = wanted.saturating_add(margin);
    if free >= needed { Ok(()) } else { Err((needed, margin)) }
}

/// The file, filled, and the watch over the disks under it.
pub struct Ground<'a> {
    run: &'a Runner<'a>,
    scratch: Option<Scratch>,
    target: Target,
    disks: Vec<String>,
    /// What the disks did while nothing but our reads went on, and how much of that was ours.
    reading: (DiskCounters, u64, f64),
    degraded: bool,
    failed: bool,
}

impl<'a> Ground<'a> {
    /// As [`Ground::empty`], and fills the file with noise.
    ///
    /// # Errors
    /// As there, and if the disk does not take it.
    pub fn make(run: &'a Runner<'a>, plan: &Plan, record: &mut Record) -> Result<Self, BenchError> {
        let mut ground = Self::empty(run, plan, record)?;
        if let Err(error) = ground.fill() {
            if let BenchError::File { source, .. } = &error {
                ground.has_failed(source);
            }
            // What goes wrong with that is in the record; why it ended comes first.
            let _noted = ground.end(record);
            return Err(error);
        }
        Ok(ground)
    }

    /// Watches the disks for a second, makes the file and takes room for it.
    ///
    /// # Errors
    /// No right to write, no room after all, a fault of a disk. The file is gone then.
    pub fn empty(run: &'a Runner<'a>, plan: &Plan, record: &mut Record) -> Result<Self, BenchError> {
        let disks = plan.topology.disks.clone();
        watch_others(run, &disks, record);
        let (scratch, made) = Scratch::create(run.store, &plan.folder)?;
        let path = scratch.path().to_owned();
        // Before its first page is written: ext4 would put that one apart.
        pattern::reserve(&made, plan.file_bytes).map_err(BenchError::file("reserve room for", &path))?;
        let target = Target::open(&path, made, plan.file_bytes).map_err(BenchError::file("open", &path))?;
        if let Some(why) = target.cached_because() {
            record.notes.push(format!(
                "{why}: requests went through memory, which was emptied of this file before each pattern; figures of writing include the wait until the disk had it"
            ));
        }
        if plan.topology.filesystem.kind == "zfs" {
            record.notes.push(
                "ZFS keeps a cache of its own (ARC) that no program can empty: figures of reading may be memory's".to_owned(),
            );
        }
        if disks.is_empty() {
            record.notes.push("no disk is known under this volume: others' load cannot be told".to_owned());
        }
        let mut degraded = false;
        visit(&plan.topology.node, &mut |node| {
            degraded |= node.degraded;
            if let Some(sync) = &node.sync {
                record.notes.push(format!(
                    "a {} of {} is under way: figures are lower for it",
                    sync.action, node.name
                ));
            }
        });
        Ok(Self {
            run,
            scratch: Some(scratch),
            target,
            disks,
            reading: (DiskCounters::new(), 0, 0.0),
            degraded,
            failed: false,
        })
    }

    fn fill(&self) -> Result<(), BenchError> {
        let all = self.target.size_bytes();
        let fill = Pattern {
            op: Op::Write,
            order: Order::Sequential,
            block_bytes: FILL_BLOCK.min(all),
            depth: FILL_DEPTH,
            time: Duration::MAX,
            most_bytes: all,
        };
        let say = |bytes: u64, rate: f64| {
            (self.run.say)(
                "filling the file",
                &format!("{} of {} MiB, {}", bytes >> 20, all >> 20, megabytes(rate)),
            );
        };
        let run = self.pattern(&fill, &say)?;
        if let Some(error) = run.failed {
            return Err(self.refused("write", error));
        }
        if self.run.stop.is_requested() {
            return Err(stopped());
        }
        self.target.flush().map_err(|e| self.refused("write", e))
    }

    fn pattern(&self, pattern: &Pattern, told: &dyn Fn(u64, f64)) -> Result<Run, BenchError> {
        pattern::run(&self.target, pattern, self.run.clock, self.run.stop, told)
            .map_err(|e| self.refused("start a thread for", e))
    }

    fn refused(&self, what: &'static str, source: io::Error) -> BenchError {
        let path = self.scratch.as_ref().map_or_else(PathBuf::new, |s| s.path().to_owned());
        BenchError::File { what, path, source }
    }

    /// The volume has refused something. Unless it was for want of room, what it says of the file's removal is not believed.
    pub fn has_failed(&mut self, why: &io::Error) {
        self.failed |= !matches!(why.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
    }

    /// From here on the file is used through the cache, on purpose.
    ///
    /// # Errors
    /// The flag cannot be taken back. The file is gone then.
    pub fn through_the_cache(mut self) -> Result<Self, BenchError> {
        let path = self.scratch.as_ref().map_or_else(PathBuf::new, |s| s.path().to_owned());
        self.target =
            self.target.through_the_cache().map_err(BenchError::file("use the cache for", &path))?;
        Ok(self)
    }

    /// The file.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Runs one pattern and adds its row. One that was stopped, or failed, adds none: its figures would be of another thing.
    ///
    /// # Errors
    /// The disk refused; it was stopped.
    pub fn measure(
        &mut self,
        record: &mut Record,
        name: &str,
        figure: &str,
        pattern: &Pattern,
    ) -> Result<(), BenchError> {
        let step = format!("{name} at depth {}", pattern.depth);
        let say = |bytes: u64, rate: f64| {
            let figure = match figure {
                _ if bytes == 0 => String::new(),
                "iops" => format!("{:.0} IOPS", rate / pattern.block_bytes as f64),
                _ => megabytes(rate),
            };
            (self.run.say)(&step, &figure);
        };
        let before = machine::counters(&self.disks);
        let run = self.pattern(pattern, &say)?;
        let after = machine::counters(&self.disks);
        if pattern.op == Op::Read && self.target.is_direct() {
            for (disk, now) in &after {
                let part = now.since(before.get(disk).copied().unwrap_or(*now));
                let sum = self.reading.0.entry(disk.clone()).or_default();
                *sum = sum.and(part);
            }
            self.reading.1 += run.bytes;
            self.reading.2 += run.seconds();
        }
        if self.run.stop.is_requested() {
            return Err(stopped());
        }
        if let Some(error) = &run.failed {
            self.has_failed(error);
        } else {
            record.row(&PatternRow::of(name, figure, pattern, &run, self.target.is_direct()));
        }
        match run.failed {
            Some(error) => Err(self.refused(if pattern.op == Op::Read { "read" } else { "write" }, error)),
            None => Ok(()),
        }
    }

    /// Removes the file, and says what others did meanwhile.
    ///
    /// # Errors
    /// The file cannot be removed now; the next start tries again.
    pub fn end(mut self, record: &mut Record) -> Result<(), BenchError> {
        let (disks, ours, seconds) = &self.reading;
        if *seconds > 0.0 && !self.degraded {
            record.machine.others_during = others(disks, *ours, *seconds);
            if let Some(o) = machine::others_while_reading(disks, *ours, *seconds).filter(|o| o.seen) {
                record.notes.push(format!(
                    "while it read, others read {} and wrote {} at the same disks: figures are lower for it",
                    megabytes(o.read_bytes_per_s),
                    megabytes(o.write_bytes_per_s)
                ));
            }
        }
        let removed = self
            .scratch
            .take()
            .map_or(Ok(()), |scratch| if self.failed { scratch.remove_in_doubt() } else { scratch.remove() });
        if let Err(error) = &removed {
            record
                .notes
                .push(format!("{error}: the next start of this program or of the server tries again"));
        }
        removed
    }
}

/// Rates of each disk beyond its share of our own reads, where there is one disk; of several it is not known whose is whose.
fn others(disks: &DiskCounters, ours: u64, seconds: f64) -> Vec<DiskLoad> {
    let load = |(disk, c): (&String, &Counters), own: u64| DiskLoad {
        disk: disk.clone(),
        read_bytes_per_s: c.read_bytes.saturating_sub(own) as f64 / seconds,
        write_bytes_per_s: c.write_bytes as f64 / seconds,
        requests_per_s: c.writes as f64 / seconds,
    };
    if disks.len() == 1 {
        return disks.iter().map(|d| load(d, ours)).collect();
    }
    let all = disks.values().fold(Counters::default(), |a, b| a.and(*b));
    vec![load((&"all".to_owned(), &all), ours)]
}

/// Looks at the disks for a second while we do nothing.
pub fn watch_others(run: &Runner<'_>, disks: &[String], record: &mut Record) {
    if disks.is_empty() {
        return;
    }
    (run.say)("looking at what others do at the disks", "");
    let before = machine::counters(disks);
    let began = run.clock.monotonic_us();
    let until = began + u64::try_from(WATCH.as_micros()).unwrap_or(0);
    while run.clock.monotonic_us() < until && !run.stop.is_requested() {
        std::thread::sleep(Duration::from_millis(50));
    }
    let seconds = (run.clock.monotonic_us() - began) as f64 / 1e6;
    let rates = machine::rates(&before, &machine::counters(disks), seconds);
    for disk in rates.iter().filter(|d| machine::is_busy(d)) {
        record.notes.push(format!(
            "others were at {} before it began ({} read, {} written, {:.0} requests a second): figures may be lower for it",
            disk.disk,
            megabytes(disk.read_bytes_per_s),
            megabytes(disk.write_bytes_per_s),
            disk.requests_per_s
        ));
    }
    record.machine.others_before.extend(rates);
}

/// An experiment on a file filled with noise: what `measure` puts into the record is there, and summed up, also when it
/// ends with an error; the file is gone in any case.
pub(crate) fn on_a_file(
    runner: &Runner<'_>,
    plan: &Plan,
    record: &mut Record,
    verdict: fn(&Record) -> String,
    measure: impl FnOnce(&mut Ground<'_>, &mut Record) -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    record.detail("file_bytes", &plan.file_bytes);
    let mut ground = Ground::make(runner, plan, record)?;
    let measured = measure(&mut ground, record);
    record.verdict = verdict(record);
    let removed = ground.end(record);
    measured.and(removed)
}

/// Given up by whoever asked for it.
#[must_use]
pub fn stopped() -> BenchError {
    BenchError::Stopped
}

/// Bytes a second for people.
#[must_use]
pub fn megabytes(bytes_per_s: f64) -> String {
    let mb = bytes_per_s / 1e6;
    if mb >= 100.0 { format!("{mb:.0} MB/s") } else { format!("{mb:.1} MB/s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn a_file_fits_only_if_the_margin_stays_free() {
        assert!(has_room(100 * GIB, 1000 * GIB, 90 * GIB).is_ok());
        assert_eq!(has_room(100 * GIB, 1000 * GIB, 91 * GIB), Err((101 * GIB, 10 * GIB)));
        // A twentieth of a small one, and never less than 16 MiB.
        assert_eq!(has_room(GIB, GIB, GIB), Err((GIB + GIB / 20, GIB / 20)));
        assert_eq!(has_room(20 << 20, 64 << 20, 8 << 20), Err((24 << 20, 16 << 20)));
        assert!(has_room(24 << 20, 64 << 20, 8 << 20).is_ok());
        assert!(has_room(1 << 40, u64::MAX, u64::MAX).is_err(), "sums do not wrap");
    }

    #[test]
    fn of_one_disk_the_rest_is_anothers_of_several_only_their_sum() {
        let c =
            |read_bytes, write_bytes| Counters { read_bytes, write_bytes, writes: 4, ..Counters::default() };
        let one: DiskCounters = [("sda".to_owned(), c(150, 40))].into();
        let seen = others(&one, 100, 2.0);
        assert_eq!(
            (seen[0].disk.as_str(), seen[0].read_bytes_per_s, seen[0].write_bytes_per_s),
            ("sda", 25.0, 20.0)
        );
        let two: DiskCounters = [("sda".to_owned(), c(60, 0)), ("sdb".to_owned(), c(40, 0))].into();
        let seen = others(&two, 100, 2.0);
        assert_eq!((seen.len(), seen[0].disk.as_str(), seen[0].read_bytes_per_s), (1, "all", 0.0));
    }

    #[test]
    fn rates_read_well() {
        assert_eq!(megabytes(157_300_000.0), "157 MB/s");
        assert_eq!(megabytes(6_400_000.0), "6.4 MB/s");
    }
}
