//! What the record costs, measured on this crate alone: every file given is one stream, all are read cold and as fast
//! as they go, with recording and the helper in one turn, without either in the next. Prints medians, and their ratio.
//!
//! `cargo run --release -p spindle-storage --example overhead -- FILE..`

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use spindle_base::clock::{self, SystemClock};
use spindle_storage::{Config, HelperMode, Storage, StreamId};

const ROUNDS: usize = 9;

struct Turn {
    mb_per_s: f64,
    /// Of this process and of the helper, per gigabyte.
    cpu_s_per_gb: f64,
}

fn evict(paths: &[PathBuf]) -> std::io::Result<()> {
    for path in paths {
        rustix::fs::fadvise(&File::open(path)?, 0, None, rustix::fs::Advice::DontNeed)?;
    }
    Ok(())
}

/// User and system time of a process, in seconds; its children that have ended count with the parent.
fn cpu_s(pid: &str) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |i: usize| fields.get(i).and_then(|f| f.parse::<f64>().ok()).unwrap_or(0.0);
    (11..15).map(ticks).sum::<f64>() / 100.0
}

fn turn(paths: &[PathBuf], is_recorded: bool) -> Result<Turn, Box<dyn std::error::Error>> {
    let helper_program = std::env::current_exe()?.with_file_name("storage_helper");
    let config = Config {
        helper: if is_recorded { HelperMode::Auto } else { HelperMode::Off },
        helper_program: Some(helper_program),
        record: is_recorded,
        ..Config::default()
    };
    let storage = Storage::start(config, Arc::new(SystemClock))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    evict(paths)?;
    let (before, began) = (cpu_s("self"), clock::instant());
    let mut tasks = Vec::new();
    for (stream, path) in (1_u64..).map(StreamId).zip(paths.iter().cloned()) {
        let storage = storage.clone();
        storage.begin(stream);
        tasks.push(runtime.spawn(async move {
            let file = storage.open(&path, stream).await?;
            let mut at = 0;
            while at < file.size_bytes() {
                let n = file.resident(at, 1 << 20);
                if n > 0 {
                    file.note_served(at, n);
                    at += n;
                } else {
                    file.bring_in(at, file.size_bytes() - at).await?;
                }
            }
            Ok::<u64, spindle_storage::StorageError>(at)
        }));
    }
    let mut bytes = 0.0;
    for task in tasks {
        #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
        let n = runtime.block_on(task)?? as f64;
        bytes += n;
    }
    let seconds = began.elapsed().as_secs_f64();
    for (stream, _) in (1_u64..).map(StreamId).zip(paths) {
        let record = storage.end(stream);
        assert_eq!(record.is_some(), is_recorded, "recording is not as it was asked for");
    }
    // Waits for the helper, whose time is then among that of ended children.
    storage.close();
    let cpu = cpu_s("self") - before;
    Ok(Turn { mb_per_s: bytes / seconds / 1e6, cpu_s_per_gb: cpu / (bytes / 1e9) })
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of.get(of.len() / 2).copied().unwrap_or(0.0)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        // Who goes first changes; the first round warms everything but the files.
        for is_recorded in [round % 2 == 0, round % 2 != 0] {
            let turn = turn(&paths, is_recorded)?;
            if round > 0 {
                if is_recorded { with.push(turn) } else { without.push(turn) }
            }
        }
    }
    let of = |turns: &[Turn], what: fn(&Turn) -> f64| median(turns.iter().map(what).collect());
    let mut out = std::io::stdout();
    for (name, turns) in [("recorded", &with), ("not", &without)] {
        let (rate, cpu) = (of(turns, |t| t.mb_per_s), of(turns, |t| t.cpu_s_per_gb));
        writeln!(out, "{name:>9}: {rate:7.0} MB/s {cpu:6.3} s of CPU a GB")?;
    }
    let ratios =
        |what: fn(&Turn) -> f64| median(with.iter().zip(&without).map(|(a, b)| what(a) / what(b)).collect());
    writeln!(
        out,
        "ratio of pairs, median: rate {:.3}, CPU {:.3}",
        ratios(|t| t.mb_per_s),
        ratios(|t| t.cpu_s_per_gb)
    )?;
    Ok(())
}
