//! Experiments on a volume: `corners`, `blocks` and `copy`. What is asked beforehand is the same for all.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use spindle_bench::ground::{self, Plan, Runner};
use spindle_bench::{BenchError, Kind, Record, blocks, copy, corners, scratch};
use spindle_storage::Topology;

use super::frame::{Consent, Frame};
use crate::cli::{Failure, Outcome, complain, named, printable};

/// Smallest file that an experiment is about: below, all of it is in the memory of any disk.
const LEAST_BYTES: u64 = 1 << 20;
/// Longest that one pattern is run.
const MOST_SECONDS: f64 = 3600.0;

#[derive(Debug, Args)]
pub(super) struct Common {
    /// Agree beforehand to the temporary file, and to waking disks that are asleep
    #[arg(long)]
    yes: bool,
    /// Print the rows as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct PatternArguments {
    /// A folder on the volume
    path: PathBuf,
    /// Size of the temporary file, such as 512M or 4G
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = size)]
    size: u64,
    /// Seconds for each pattern
    #[arg(long, value_name = "N", default_value = "5", value_parser = seconds)]
    seconds: Duration,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
pub(super) struct CopyArguments {
    /// A folder, in which a temporary file is made, or a file, which is only read
    from: PathBuf,
    /// A folder on the volume that is written to
    to: PathBuf,
    /// Size of the temporary file in FROM, such as 512M or 4G
    #[arg(long, value_name = "SIZE", default_value = "4G", value_parser = size)]
    size: u64,
    /// Through the system's cache, as an ordinary copy, instead of past it
    #[arg(long)]
    buffered: bool,
    #[command(flatten)]
    common: Common,
}

pub(super) fn corners(data_dir: &Path, arguments: &PatternArguments) -> Outcome {
    let options = corners::Options { time: arguments.seconds };
    patterns(data_dir, arguments, Kind::Corners, corners::patterns(), |runner, plan, record| {
        corners::run(runner, plan, &options, record)
    })
}

pub(super) fn blocks(data_dir: &Path, arguments: &PatternArguments) -> Outcome {
    let options = blocks::Options { time: arguments.seconds };
    let count = 2 * blocks::sizes(arguments.size).count() as u64;
    patterns(data_dir, arguments, Kind::Blocks, count, |runner, plan, record| {
        blocks::run(runner, plan, &options, record)
    })
}

fn patterns(
    data_dir: &Path,
    arguments: &PatternArguments,
    kind: Kind,
    count: u64,
    run: impl FnOnce(&Runner<'_>, &Plan, &mut Record) -> Result<(), BenchError>,
) -> Outcome {
    let frame = open(data_dir)?;
    let plan = Plan::new(&arguments.path, arguments.size, topology(&arguments.path)?)?;
    let consent = Consent::of(arguments.common.yes);
    ask_to_wake(consent, &[&plan.topology])?;
    consent.ask(&plan.question(count.saturating_mul(arguments.seconds.as_secs_f64().ceil() as u64)))?;
    let mut record = frame.begin(kind);
    record.about(&arguments.path, &plan.topology);
    let ran = frame.with_runner(|runner| run(runner, &plan, &mut record));
    end(&frame, record, ran, arguments.common.json)
}

pub(super) fn copy(data_dir: &Path, arguments: &CopyArguments) -> Outcome {
    let frame = open(data_dir)?;
    let from_topology = topology(&arguments.from)?;
    let to_topology = topology(&arguments.to)?;
    let meta = std::fs::metadata(&arguments.from)
        .map_err(|e| Failure::Failed(format!("unable to look at `{}`: {e}", named(&arguments.from))))?;
    let disks = from_topology.disks.clone();
    let (source, size) = if meta.is_dir() {
        // Where both are one volume, it holds the file twice.
        let is_one = from_topology.filesystem.mount == to_topology.filesystem.mount;
        let both = if is_one { arguments.size.saturating_mul(2) } else { arguments.size };
        Plan::new(&arguments.from, both, from_topology.clone())?;
        (
            copy::Source::Folder(Box::new(Plan::new(
                &arguments.from,
                arguments.size,
                from_topology.clone(),
            )?)),
            arguments.size,
        )
    } else {
        (copy::Source::File(arguments.from.clone()), meta.len())
    };
    let to = Plan::new(&arguments.to, size, to_topology)?;
    let consent = Consent::of(arguments.common.yes);
    ask_to_wake(consent, &[&from_topology, &to.topology])?;
    let question = match &source {
        copy::Source::Folder(from) => format!(
            "This writes a temporary file of {size} bytes in {} and another in {}; both are removed afterwards. Go on?",
            from.folder.display(),
            to.folder.display()
        ),
        copy::Source::File(path) => format!(
            "This reads {} and writes a temporary file of {size} bytes in {}, which is removed afterwards. Go on?",
            path.display(),
            to.folder.display()
        ),
    };
    consent.ask(&question)?;
    let mut record = frame.begin(Kind::Copy);
    record.about(&arguments.from, &from_topology);
    record.about_target(&arguments.to, &to.topology);
    let options = copy::Options { buffered: arguments.buffered };
    let ran = frame.with_runner(|runner| copy::run(runner, &source, &disks, &to, options, &mut record));
    end(&frame, record, ran, arguments.common.json)
}

/// The frame, after what earlier runs left has been removed.
fn open(data_dir: &Path) -> Result<Frame, Failure> {
    let frame = Frame::open(data_dir)?;
    for left in scratch::sweep(&frame.store) {
        complain(&printable(&left.to_string()));
    }
    Ok(frame)
}

/// Keeps what was measured. Where nothing was, and it was not stopped, there is nothing to keep.
pub(super) fn end(frame: &Frame, mut record: Record, ran: Result<(), BenchError>, json: bool) -> Outcome {
    if let Err(error) = ran {
        if record.rows.is_empty() {
            frame.progress.clear();
            return Err(error.into());
        }
        record.interrupted = Some(format!("{:#}", anyhow::Error::from(error)));
    }
    frame.finish(record, json)
}

fn topology(path: &Path) -> Result<Topology, Failure> {
    let storage = crate::examine::storage()?;
    let topology = storage.topology(path);
    storage.close();
    Ok(topology?)
}

/// A disk that stands still is woken only by somebody who agrees: it takes ten seconds, and wear.
fn ask_to_wake(consent: Consent, topologies: &[&Topology]) -> Outcome {
    let mut asleep: Vec<String> = topologies.iter().flat_map(|t| ground::asleep(t)).collect();
    asleep.sort();
    asleep.dedup();
    if asleep.is_empty() {
        return Ok(());
    }
    let names = asleep.join(", ");
    consent.ask(&format!(
        "{names} {} asleep, and this wakes {}. Go on?",
        if asleep.len() == 1 { "is" } else { "are" },
        if asleep.len() == 1 { "it" } else { "them" }
    ))
}

/// `512M`: a number and a binary unit.
fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_uppercase().trim_end_matches("IB") {
        "" | "B" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err("a size is a number with K, M, G or T".to_owned()),
    };
    let number: u64 = digits.parse().map_err(|_| "a size is a whole number with K, M, G or T".to_owned())?;
    let bytes = number.checked_mul(1 << shift).ok_or("that is more than a file can have")?;
    if bytes < LEAST_BYTES {
        return Err("the file has at least 1 MiB".to_owned());
    }
    // Whole mebibytes: every block divides the file.
    Ok(bytes >> 20 << 20)
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(s) if s > 0.0 && s <= MOST_SECONDS => Ok(Duration::from_secs_f64(s)),
        _ => Err("a number of seconds, at most 3600".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_binary_whole_mebibytes_and_never_wrap() {
        for (text, bytes) in [
            ("1G", 1 << 30),
            ("512M", 512 << 20),
            ("512MiB", 512 << 20),
            ("1048577", 1 << 20),
            ("2048k", 2 << 20),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "G", "1.5G", "-1G", "1X", "99999999T", "4K", "1é"] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_are_positive_and_have_an_end() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for text in ["0", "-1", "nan", "inf", "1e9", "x"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
