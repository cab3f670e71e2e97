//! Blocks from small to large, one at a time and in order, as `dd bs=..` does: from which size on a volume gives all it has.

use std::time::Duration;

use crate::error::BenchError;
use crate::ground::{Ground, Plan, Runner, megabytes, on_a_file};
use crate::pattern::{Op, Order, Pattern};
use crate::record::Record;

/// Sizes: 4 KiB to 16 MiB, four times as much each.
pub const SIZES: [u64; 7] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20];
/// A size is large enough when it gives this share of the best.
const ENOUGH: f64 = 0.9;

/// How long each is run.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// For each size, reading and writing.
    pub time: Duration,
}

/// Sizes that fit a file: each at least four times.
pub fn sizes(file_bytes: u64) -> impl Iterator<Item = u64> {
    SIZES.into_iter().filter(move |s| s.saturating_mul(4) <= file_bytes)
}

/// Runs them all: each size written, then read.
///
/// # Errors
/// No right or room to write; a fault of a disk; it was stopped. What was measured is in the record.
pub fn run(
    runner: &Runner<'_>,
    plan: &Plan,
    options: &Options,
    record: &mut Record,
) -> Result<(), BenchError> {
    record.detail("seconds_each", &options.time.as_secs_f64());
    on_a_file(runner, plan, record, verdict, |ground, record| {
        measure_all(ground, plan.file_bytes, options, record)
    })
}

fn measure_all(
    ground: &mut Ground<'_>,
    file_bytes: u64,
    options: &Options,
    record: &mut Record,
) -> Result<(), BenchError> {
    for block_bytes in sizes(file_bytes) {
        for op in [Op::Write, Op::Read] {
            let pattern = Pattern {
                op,
                order: Order::Sequential,
                block_bytes,
                depth: 1,
                time: options.time,
                most_bytes: u64::MAX,
            };
            let verb = if op == Op::Write { "write" } else { "read" };
            ground.measure(record, &format!("{verb} {}", size_name(block_bytes)), "bytes_per_s", &pattern)?;
        }
    }
    Ok(())
}

fn size_name(bytes: u64) -> String {
    if bytes >= 1 << 20 { format!("{} MiB", bytes >> 20) } else { format!("{} KiB", bytes >> 10) }
}

/// From which size on each direction is within a tenth of its best.
fn verdict(record: &Record) -> String {
    let side = |op: &str, name: &str| {
        let rates: Vec<(u64, f64)> = record
            .rows
            .iter()
            .filter(|r| r["op"] == op)
            .filter_map(|r| Some((r["block_bytes"].as_u64()?, r["bytes_per_s"].as_f64()?)))
            .collect();
        let best = rates.iter().map(|r| r.1).fold(0.0, f64::max);
        let from = rates.iter().find(|r| r.1 >= ENOUGH * best)?.0;
        Some(format!(
            "{name} reaches {} and is within a tenth of that from {} on",
            megabytes(best),
            size_name(from)
        ))
    };
    [side("read", "reading"), side("write", "writing")].into_iter().flatten().collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Kind;
    use serde_json::json;
    use spindle_base::clock::{ManualClock, SharedClock};
    use std::sync::Arc;

    #[test]
    fn a_size_is_run_only_where_the_file_holds_it_four_times() {
        assert_eq!(sizes(1 << 30).count(), SIZES.len());
        assert_eq!(sizes(16 << 20).last(), Some(4 << 20));
        assert_eq!(sizes(0).count(), 0);
    }

    #[test]
    fn the_verdict_names_the_size_from_which_on_it_is_enough() {
        let clock: SharedClock = Arc::new(ManualClock::at(0));
        let mut record = Record::begin(Kind::Blocks, &clock);
        for (size, rate) in [(4096, 20e6), (65536, 140e6), (1 << 20, 151e6), (16 << 20, 150e6)] {
            record.row(&json!({"op": "read", "block_bytes": size, "bytes_per_s": rate}));
        }
        assert_eq!(verdict(&record), "reading reaches 151 MB/s and is within a tenth of that from 64 KiB on");
        assert_eq!(verdict(&Record::begin(Kind::Blocks, &clock)), "");
    }
}
