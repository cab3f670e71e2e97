//! The corners of a volume: the smallest and the large request, in order and anywhere, one at a time and 32 at once.
//!
//! The five lines of IOmeter's usual table, at the two queue depths of CrystalDiskMark's.

use std::time::Duration;

use crate::error::BenchError;
use crate::ground::{Ground, Plan, Runner, megabytes, on_a_file};
use crate::pattern::{Op, Order, Pattern};
use crate::record::Record;

/// Queue depths: one that waits for each answer, and what drives and arrays can reorder.
pub const DEPTHS: [usize; 2] = [1, 32];
/// One line of the table; a block of 0 is the device's smallest.
struct Line {
    name: &'static str,
    figure: &'static str,
    op: Op,
    order: Order,
    block_bytes: u64,
}

const LINES: [Line; 5] = [
    Line {
        name: "sequential_read_1_block",
        figure: "iops",
        op: Op::Read,
        order: Order::Sequential,
        block_bytes: 0,
    },
    Line { name: "random_read_4k", figure: "iops", op: Op::Read, order: Order::Random, block_bytes: 4 << 10 },
    Line {
        name: "random_write_4k",
        figure: "iops",
        op: Op::Write,
        order: Order::Random,
        block_bytes: 4 << 10,
    },
    Line {
        name: "sequential_write_512k",
        figure: "bytes_per_s",
        op: Op::Write,
        order: Order::Sequential,
        block_bytes: 512 << 10,
    },
    Line {
        name: "sequential_read_512k",
        figure: "bytes_per_s",
        op: Op::Read,
        order: Order::Sequential,
        block_bytes: 512 << 10,
    },
];
/// In which order they are run: in order before anywhere, because a filesystem that copies on write scatters what is written anywhere.
const RUN: [&str; 5] = [
    "sequential_write_512k",
    "sequential_read_512k",
    "sequential_read_1_block",
    "random_read_4k",
    "random_write_4k",
];

/// How long each is run.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// For each pattern at each depth.
    pub time: Duration,
}

/// Patterns that will be run.
#[must_use]
pub fn patterns() -> u64 {
    (LINES.len() * DEPTHS.len()) as u64
}

/// Runs them all. What was measured is in the record also when it ends with an error; the file is gone in any case.
///
/// # Errors
/// No right or room to write; a fault of a disk; it was stopped.
pub fn run(
    runner: &Runner<'_>,
    plan: &Plan,
    options: &Options,
    record: &mut Record,
) -> Result<(), BenchError> {
    record.detail("seconds_each", &options.time.as_secs_f64());
    on_a_file(runner, plan, record, verdict, |ground, record| {
        let measured = measure_all(ground, options, record);
        sort(record);
        measured
    })
}

fn measure_all(ground: &mut Ground<'_>, options: &Options, record: &mut Record) -> Result<(), BenchError> {
    for (depth, name) in runs() {
        let Some(line) = LINES.iter().find(|l| l.name == name) else { continue };
        let block_bytes =
            if line.block_bytes == 0 { ground.target().block_bytes() } else { line.block_bytes };
        let pattern = Pattern {
            op: line.op,
            order: line.order,
            block_bytes,
            depth,
            time: options.time,
            most_bytes: u64::MAX,
        };
        ground.measure(record, line.name, line.figure, &pattern)?;
    }
    Ok(())
}

/// What is written anywhere comes last at both depths.
fn runs() -> impl Iterator<Item = (usize, &'static str)> {
    let last = RUN[RUN.len() - 1];
    let early = DEPTHS.into_iter().flat_map(|d| RUN[..RUN.len() - 1].iter().map(move |n| (d, *n)));
    early.chain(DEPTHS.into_iter().map(move |d| (d, last)))
}

/// Rows in the order of the table, not of the runs.
fn sort(record: &mut Record) {
    let place = |row: &serde_json::Value| {
        let name = row.get("pattern").and_then(serde_json::Value::as_str).unwrap_or_default();
        let depth = row.get("depth").and_then(serde_json::Value::as_u64).unwrap_or(0);
        (depth, LINES.iter().position(|l| l.name == name))
    };
    record.rows.sort_by_key(place);
}

/// The result in a sentence, as far as there is one.
fn verdict(record: &Record) -> String {
    let figure = |name: &str, depth: u64, figure: &str| {
        let row = record.rows.iter().find(|r| r["pattern"] == name && r["depth"] == depth)?;
        row.get(figure)?.as_f64()
    };
    let mut parts = Vec::new();
    if let Some(one) = figure("random_read_4k", 1, "iops") {
        let many = figure("random_read_4k", 32, "iops");
        let many = many.map(|m| format!(", {m:.0} with 32 at once")).unwrap_or_default();
        parts.push(format!("4 KiB anywhere: {one:.0} reads a second one at a time{many}"));
    }
    let best = |name: &str| {
        DEPTHS
            .iter()
            .filter_map(|d| figure(name, *d as u64, "bytes_per_s"))
            .fold(None, |a: Option<f64>, b| Some(a.map_or(b, |a| a.max(b))))
    };
    let (read, write) = (best("sequential_read_512k"), best("sequential_write_512k"));
    match (read, write) {
        (Some(r), Some(w)) => {
            parts.push(format!("512 KiB in order: {} read, {} written", megabytes(r), megabytes(w)));
        }
        (None, Some(w)) => parts.push(format!("512 KiB in order: {} written", megabytes(w))),
        _ => {}
    }
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Kind;
    use serde_json::json;
    use spindle_base::clock::{ManualClock, SharedClock};
    use std::sync::Arc;

    #[test]
    fn every_line_is_run_once_at_every_depth_and_what_scatters_comes_last() {
        let all: Vec<_> = runs().collect();
        assert_eq!(all.len() as u64, patterns());
        let distinct: std::collections::HashSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
        assert!(all[..8].iter().all(|(_, n)| *n != "random_write_4k"));
        assert!(RUN.iter().all(|n| LINES.iter().any(|l| l.name == *n)));
    }

    #[test]
    fn the_table_has_its_own_order_and_the_verdict_what_there_is() {
        let clock: SharedClock = Arc::new(ManualClock::at(0));
        let mut record = Record::begin(Kind::Corners, &clock);
        assert_eq!(verdict(&record), "");
        for (pattern, depth, iops) in
            [("sequential_write_512k", 1, 300.0), ("random_read_4k", 32, 311.0), ("random_read_4k", 1, 76.4)]
        {
            record.row(
                &json!({"pattern": pattern, "depth": depth, "iops": iops, "bytes_per_s": iops * 524_288.0}),
            );
        }
        sort(&mut record);
        let order: Vec<_> = record.rows.iter().map(|r| r["iops"].as_f64().unwrap()).collect();
        assert_eq!(order, [76.4, 300.0, 311.0]);
        assert_eq!(
            verdict(&record),
            "4 KiB anywhere: 76 reads a second one at a time, 311 with 32 at once; 512 KiB in order: 157 MB/s written"
        );
    }
}
