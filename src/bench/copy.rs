//! From one volume to another, with what each disk did meanwhile: what a mirror or parity costs a write, and where a write
//! cache is full.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::BenchError;
use crate::ground::{Ground, Plan, Runner, megabytes, stopped};
use crate::knee;
use crate::machine::{self, Counters, DiskCounters};
use crate::pattern::{Buffer, Target};
use crate::record::Record;

/// Blocks that are copied, as copying programs use; and how many may be between reader and writer.
const BLOCK: usize = 1 << 20;
const BETWEEN: usize = 4;
/// Memory and lengths of direct requests are multiples of this.
const PAGE: usize = 4096;
/// How often the disks' counters are read.
const SAMPLE: Duration = Duration::from_millis(250);
/// Most samples that are kept: above, two become one.
const MOST_SAMPLES: usize = 2400;

/// What is copied.
#[derive(Debug)]
pub enum Source {
    /// A file of the user's, which is only read.
    File(PathBuf),
    /// A temporary file in this folder.
    Folder(Box<Plan>),
}

/// How.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Through the kernel's cache, as an ordinary copy.
    pub buffered: bool,
}

/// One row: the copy as a whole, a volume, or a disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CopyRow {
    /// `total`, `volume` or `disk`.
    pub what: String,
    /// The folder, or the disk in `/sys/block`.
    pub name: String,
    /// `from`, `to` or `both`.
    pub side: String,
    /// Bytes read there.
    pub read_bytes: u64,
    /// Bytes written there.
    pub write_bytes: u64,
    /// Requests to read.
    pub reads: u64,
    /// Requests to write.
    pub writes: u64,
    /// Seconds of the whole copy.
    pub seconds: f64,
    /// Bytes moved there a second: of the copy, those copied.
    pub bytes_per_s: f64,
    /// Share of the time in which a disk had work.
    pub busy_share: Option<f64>,
    /// Bytes moved there for each byte copied: read where it is read from, written where it is written to.
    pub per_byte: f64,
}

/// Rates over time: the JSON of `series`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Length of an interval.
    pub interval_ms: u64,
    /// Ends of the intervals, in seconds from the beginning.
    pub t_s: Vec<f64>,
    /// Bytes copied a second in each.
    pub bytes_per_s: Vec<f64>,
    /// And what each disk did.
    pub disks: BTreeMap<String, DiskRates>,
}

/// See [`Series`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DiskRates {
    /// Bytes read a second.
    pub read_bytes_per_s: Vec<f64>,
    /// Bytes written a second.
    pub write_bytes_per_s: Vec<f64>,
}

impl Series {
    fn new(disks: impl Iterator<Item = String>) -> Self {
        let disks = disks.map(|d| (d, DiskRates::default())).collect();
        Self { interval_ms: u64::try_from(SAMPLE.as_millis()).unwrap_or(250), disks, ..Self::default() }
    }

    /// Adds an interval that ends at `t_s`, with what was copied and what went over each disk in it.
    fn push(&mut self, t_s: f64, bytes: u64, moved: &DiskCounters) {
        let seconds = t_s - self.t_s.last().copied().unwrap_or(0.0);
        if seconds <= 0.0 {
            return;
        }
        self.t_s.push(t_s);
        self.bytes_per_s.push(bytes as f64 / seconds);
        for (disk, rates) in &mut self.disks {
            let c = moved.get(disk).copied().unwrap_or_default();
            rates.read_bytes_per_s.push(c.read_bytes as f64 / seconds);
            rates.write_bytes_per_s.push(c.write_bytes as f64 / seconds);
        }
        if self.t_s.len() > MOST_SAMPLES {
            self.halve();
        }
    }

    /// Two intervals become one, weighed by their lengths.
    fn halve(&mut self) {
        let ends = std::mem::take(&mut self.t_s);
        let begin = |i: usize| if i == 0 { 0.0 } else { ends[i - 1] };
        let merge = |values: &mut Vec<f64>| {
            *values = (0..values.len())
                .step_by(2)
                .map(|i| {
                    let last = (i + 1).min(values.len() - 1);
                    let sum: f64 = (i..=last).map(|k| values[k] * (ends[k] - begin(k))).sum();
                    sum / (ends[last] - begin(i)).max(1e-9)
                })
                .collect();
        };
        merge(&mut self.bytes_per_s);
        for rates in self.disks.values_mut() {
            merge(&mut rates.read_bytes_per_s);
            merge(&mut rates.write_bytes_per_s);
        }
        self.t_s = (0..ends.len()).step_by(2).map(|i| ends[(i + 1).min(ends.len() - 1)]).collect();
        self.interval_ms *= 2;
    }
}

/// Copies. Both temporary files are gone when it ends; what was measured is in the record also when it ends with an error.
///
/// # Errors
/// No right or room to write; a fault of a disk; it was stopped.
pub fn run(
    runner: &Runner<'_>,
    source: &Source,
    source_disks: &[String],
    to: &Plan,
    options: Options,
    record: &mut Record,
) -> Result<(), BenchError> {
    if options.buffered {
        record.notes.push(
            "it went through the system's cache (--buffered), as an ordinary copy: until memory is full, rates are memory's".to_owned(),
        );
    }
    let made = match source {
        Source::Folder(plan) => Some(cached(Ground::make(runner, plan, record)?, options)?),
        Source::File(_) => None,
    };
    let copied = (|| {
        let opened;
        let from = match (&made, source) {
            (Some(ground), _) => ground.target(),
            (None, Source::File(path)) => {
                let found = Target::open_to_read(path).map_err(BenchError::file("open", path))?;
                let found = if options.buffered { found.through_the_cache() } else { Ok(found) };
                opened = found.map_err(BenchError::file("open", path))?;
                if let Some(why) = opened.cached_because().filter(|_| !options.buffered) {
                    record.notes.push(format!("{why} where it is read: what was in memory came from there"));
                }
                &opened
            }
            (None, Source::Folder(_)) => return Err(stopped()),
        };
        let mut ground = cached(Ground::empty(runner, to, record)?, options)?;
        let copied = copy(runner, from, ground.target(), (source_disks, &to.topology.disks), options, record);
        if let Err(BenchError::File { source, .. }) = &copied {
            ground.has_failed(source);
        }
        let removed = ground.end(record);
        copied.and(removed)
    })();
    let removed = made.map_or(Ok(()), |ground| ground.end(record));
    copied.and(removed)
}

fn cached(ground: Ground<'_>, options: Options) -> Result<Ground<'_>, BenchError> {
    if options.buffered { ground.through_the_cache() } else { Ok(ground) }
}

/// Disks of the side that is read, and of the one that is written.
type Sides<'a> = (&'a [String], &'a [String]);

fn copy(
    runner: &Runner<'_>,
    from: &Target,
    to: &Target,
    sides: Sides<'_>,
    options: Options,
    record: &mut Record,
) -> Result<(), BenchError> {
    let mut disks: Vec<String> = sides.0.to_vec();
    disks.extend(sides.1.iter().filter(|d| !sides.0.contains(d)).cloned());
    let mut series = Series::new(disks.iter().cloned());
    let (all, wrote) = (from.size_bytes(), AtomicU64::new(0));
    record.detail("file_bytes", &all);
    record.detail("buffered", &options.buffered);
    let first = machine::counters(&disks);
    let began = runner.clock.monotonic_us();
    let ended = AtomicBool::new(false);
    let result = std::thread::scope(|scope| {
        let waiting = std::thread::current();
        let (wrote, ended) = (&wrote, &ended);
        let mover =
            std::thread::Builder::new().name("bench-copy".to_owned()).spawn_scoped(scope, move || {
                let result = move_all(from, to, runner, wrote).and_then(|()| to.flush());
                ended.store(true, Ordering::Release);
                waiting.unpark();
                result
            })?;
        let (mut before, mut had) = (first.clone(), 0);
        while !ended.load(Ordering::Acquire) && !mover.is_finished() {
            std::thread::park_timeout(SAMPLE);
            let (now, bytes) = (machine::counters(&disks), wrote.load(Ordering::Relaxed));
            let t_s = (runner.clock.monotonic_us() - began) as f64 / 1e6;
            // The wait for the last flush is no rate of the copy.
            if bytes < all && t_s - series.t_s.last().copied().unwrap_or(0.0) > SAMPLE.as_secs_f64() / 2.0 {
                let moved =
                    now.iter().map(|(d, c)| (d.clone(), c.since(before.get(d).copied().unwrap_or(*c))));
                series.push(t_s, bytes - had, &moved.collect());
                (before, had) = (now, bytes);
                let rate = series.bytes_per_s.last().copied().unwrap_or(0.0);
                (runner.say)(
                    "copying",
                    &format!("{} of {} MiB, {}", bytes >> 20, all >> 20, megabytes(rate)),
                );
            }
        }
        mover.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    let seconds = (runner.clock.monotonic_us() - began) as f64 / 1e6;
    let last = machine::counters(&disks);
    let moved: DiskCounters =
        last.iter().map(|(d, c)| (d.clone(), c.since(first.get(d).copied().unwrap_or(*c)))).collect();
    // For whoever holds it against a trace of the same time: CLOCK_MONOTONIC.
    record.detail("clock", &serde_json::json!({"began_us": began, "ended_us": runner.clock.monotonic_us()}));
    let copied = wrote.into_inner();
    let knee = knee::find(&series.t_s, &series.bytes_per_s);
    for row in rows(record, &moved, sides, copied, seconds) {
        record.row(&row);
    }
    record.verdict = verdict(copied, seconds, record, knee.as_ref());
    record.detail("series", &series);
    if let Some(knee) = knee {
        record.detail("knee", &knee);
    }
    match result {
        Ok(()) if runner.stop.is_requested() => Err(stopped()),
        Ok(()) => Ok(()),
        Err(source) => Err(BenchError::File {
            what: "copy to",
            path: PathBuf::from(record.to.clone().unwrap_or_default()),
            source,
        }),
    }
}

/// One reads, one writes, with some blocks between them that go round.
fn move_all(from: &Target, to: &Target, runner: &Runner<'_>, wrote: &AtomicU64) -> io::Result<()> {
    let (full, to_write) = mpsc::sync_channel::<(Buffer, usize)>(BETWEEN);
    let (empty, to_fill) = mpsc::channel::<Buffer>();
    for _ in 0..BETWEEN {
        let _received_below = empty.send(Buffer::new(BLOCK));
    }
    // It owns both ends: where writing fails, the reader, who may wait for a block, learns of it before it is waited for.
    std::thread::scope(move |scope| {
        let reader =
            std::thread::Builder::new().name("bench-read".to_owned()).spawn_scoped(scope, move || {
                let mut offset = 0;
                while offset < from.size_bytes() && !runner.stop.is_requested() {
                    let Ok(mut buffer) = to_fill.recv() else { break };
                    let n = from
                        .read(buffer.bytes_mut(), offset)
                        .map_err(|e| io::Error::new(e.kind(), format!("the source cannot be read: {e}")))?;
                    if n == 0 {
                        return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
                    }
                    offset += n as u64;
                    if full.send((buffer, n)).is_err() {
                        break; // the writer has failed, and says why
                    }
                    // Direct reads of an odd length are the file's end.
                    if n % PAGE != 0 {
                        break;
                    }
                }
                Ok(())
            })?;
        let mut offset = 0;
        for (buffer, n) in to_write {
            // The end of a file that ends within a page is written to the page's end: the file is ours, and goes.
            let len = n.next_multiple_of(PAGE).min(BLOCK);
            to.write(&buffer.bytes()[..len], offset)?;
            offset += n as u64;
            wrote.store(offset, Ordering::Relaxed);
            let _reader_may_have_ended = empty.send(buffer);
        }
        reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn rows(record: &Record, moved: &DiskCounters, sides: Sides<'_>, copied: u64, seconds: f64) -> Vec<CopyRow> {
    let per_s = |bytes: u64| bytes as f64 / seconds.max(1e-6);
    let per_byte = |bytes: u64| if copied > 0 { bytes as f64 / copied as f64 } else { 0.0 };
    let mut out = vec![CopyRow {
        what: "total".to_owned(),
        name: "copy".to_owned(),
        side: "both".to_owned(),
        read_bytes: copied,
        write_bytes: copied,
        reads: copied.div_ceil(BLOCK as u64),
        writes: copied.div_ceil(BLOCK as u64),
        seconds,
        bytes_per_s: per_s(copied),
        busy_share: None,
        per_byte: if copied > 0 { 1.0 } else { 0.0 },
    }];
    let row = |what: &str, name: &str, side: &str, c: Counters, busy_share: Option<f64>| CopyRow {
        what: what.to_owned(),
        name: name.to_owned(),
        side: side.to_owned(),
        read_bytes: c.read_bytes,
        write_bytes: c.write_bytes,
        reads: c.reads,
        writes: c.writes,
        seconds,
        bytes_per_s: per_s(c.read_bytes + c.write_bytes),
        busy_share,
        per_byte: per_byte(if side == "from" { c.read_bytes } else { c.write_bytes }),
    };
    let of = |disks: &[String]| {
        disks.iter().filter_map(|d| moved.get(d)).fold(Counters::default(), |a, b| a.and(*b))
    };
    if !sides.0.is_empty() {
        out.push(row("volume", record.path.as_deref().unwrap_or_default(), "from", of(sides.0), None));
    }
    if !sides.1.is_empty() {
        out.push(row("volume", record.to.as_deref().unwrap_or_default(), "to", of(sides.1), None));
    }
    for (disk, c) in moved {
        let side = match (sides.0.contains(disk), sides.1.contains(disk)) {
            (true, true) => "both",
            (true, false) => "from",
            _ => "to",
        };
        out.push(row("disk", disk, side, *c, Some((c.busy_ms as f64 / 1000.0 / seconds.max(1e-6)).min(1.0))));
    }
    out
}

fn verdict(copied: u64, seconds: f64, record: &Record, knee: Option<&knee::Knee>) -> String {
    if copied == 0 {
        return String::new();
    }
    let mut out = format!("{} on the whole", megabytes(copied as f64 / seconds.max(1e-6)));
    let cost = record.rows.iter().find(|r| r["what"] == "volume" && r["side"] == "to");
    if let Some(cost) = cost.and_then(|r| r["per_byte"].as_f64()) {
        out.push_str(&format!("; each byte copied was written {cost:.2} times"));
    }
    if let Some(k) = knee {
        let why = if k.after_bytes_per_s < k.before_bytes_per_s { ", as when a cache is full" } else { "" };
        out.push_str(&format!(
            "; from {:.0} s on, after {:.1} GB, it went at {} instead of {}{why}",
            k.at_s,
            k.after_bytes as f64 / 1e9,
            megabytes(k.after_bytes_per_s),
            megabytes(k.before_bytes_per_s)
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Kind;
    use spindle_base::clock::{ManualClock, SharedClock};
    use std::sync::Arc;

    fn counters(read_bytes: u64, write_bytes: u64) -> Counters {
        Counters { read_bytes, write_bytes, reads: 1, writes: 1, busy_ms: 500 }
    }

    #[test]
    fn rows_say_what_each_byte_cost_on_either_side() {
        let clock: SharedClock = Arc::new(ManualClock::at(0));
        let mut record = Record::begin(Kind::Copy, &clock);
        (record.path, record.to) = (Some("/a".to_owned()), Some("/b".to_owned()));
        let names = |n: &[&str]| n.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        let (from, to) = (names(&["sda"]), names(&["sdb", "sdc"]));
        let moved: DiskCounters =
            [("sda", counters(100, 0)), ("sdb", counters(0, 100)), ("sdc", counters(0, 102))]
                .into_iter()
                .map(|(d, c)| (d.to_owned(), c))
                .collect();
        let rows = rows(&record, &moved, (&from, &to), 100, 1.0);
        let seen: Vec<(&str, &str, f64)> =
            rows.iter().map(|r| (r.name.as_str(), r.side.as_str(), r.per_byte)).collect();
        assert_eq!(
            seen,
            [
                ("copy", "both", 1.0),
                ("/a", "from", 1.0),
                ("/b", "to", 2.02),
                ("sda", "from", 1.0),
                ("sdb", "to", 1.0),
                ("sdc", "to", 1.02)
            ]
        );
        assert_eq!(rows[3].busy_share, Some(0.5));
        for row in &rows {
            record.row(row);
        }
        assert_eq!(
            verdict(100_000_000, 1.0, &record, None),
            "100 MB/s on the whole; each byte copied was written 2.02 times"
        );
        assert_eq!(verdict(0, 0.0, &record, None), "");
    }

    /// The reader is blocks ahead by then, and waits for one that nobody will send.
    #[test]
    fn a_copy_whose_target_takes_no_writes_ends_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["from", "to"] {
            std::fs::write(path(name), vec![7; BLOCK * BETWEEN * 4]).unwrap();
        }
        let (from, to) = (path("from"), path("to"));
        let (store, (told, heard)) = (crate::store::Store::in_data_dir(folder.path()), mpsc::channel());
        std::thread::spawn(move || {
            let clock: SharedClock = Arc::new(ManualClock::at(0));
            let (stop, say) = (spindle_base::shutdown::Shutdown::new(), |_: &str, _: &str| {});
            let runner = Runner { store: &store, clock: &clock, stop: &stop, say: &say };
            let open = |path: &std::path::Path| Target::open_to_read(path).unwrap();
            told.send(move_all(&open(&from), &open(&to), &runner, &AtomicU64::new(0))).unwrap();
        });
        let result = heard.recv_timeout(Duration::from_secs(60)).expect("the copy ends");
        assert_eq!(result.unwrap_err().raw_os_error(), Some(9), "EBADF: it was opened to be read");
    }

    #[test]
    fn a_long_copy_keeps_its_bytes_when_intervals_are_joined() {
        let mut series = Series::new(["sda".to_owned()].into_iter());
        let n = MOST_SAMPLES * 3 + 7;
        for i in 1..=n {
            let moved: DiskCounters = [("sda".to_owned(), counters(10, 20))].into();
            series.push(i as f64 * 0.25, 1000, &moved);
        }
        assert!(series.t_s.len() <= MOST_SAMPLES + 1);
        assert_eq!(series.t_s.len(), series.bytes_per_s.len());
        assert_eq!(series.t_s.len(), series.disks["sda"].write_bytes_per_s.len());
        let mut last = 0.0;
        let mut sum = 0.0;
        for (t, rate) in series.t_s.iter().zip(&series.bytes_per_s) {
            sum += (t - last) * rate;
            last = *t;
        }
        assert!((sum / (1000.0 * n as f64) - 1.0).abs() < 1e-9, "{sum}");
        assert!((last - n as f64 * 0.25).abs() < 1e-9);
        series.push(last, 5, &DiskCounters::new());
        assert!((series.t_s.last().copied().unwrap() - last).abs() < 1e-9, "no interval of no length");
    }
}
