//! What every experiment shares: where records go, how it is stopped, asked for, shown while it runs, and ended.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;

use spindle_base::clock::{SharedClock, SystemClock, rfc3339};
use spindle_base::shutdown::Shutdown;
use spindle_base::sync::Mutex;
use spindle_bench::ground::Runner;
use spindle_bench::{Kind, Record, Store, machine};
use tokio::signal::unix::{SignalKind, signal};

use super::kept;
use crate::cli::serve::Common;
use crate::cli::{Failure, Outcome, complain, print, print_json, printable};

/// How often a line that is rewritten is rewritten, and a plain one written, in microseconds.
const REWRITTEN_US: u64 = 200_000;
const PLAIN_US: u64 = 10_000_000;

/// The data folder: by flag, variable, file or default.
pub(super) fn data_dir(flag: Option<PathBuf>) -> Result<PathBuf, Failure> {
    let common = Common { data_dir: flag, libraries: Vec::new() };
    Ok(common.layers(None)?.build().map_err(|e| Failure::Usage(e.to_string()))?.data_dir)
}

/// An experiment about to run.
pub(super) struct Frame {
    /// Where its record goes.
    pub(super) store: Store,
    /// Time.
    pub(super) clock: SharedClock,
    /// Given by Ctrl-C, SIGTERM and SIGHUP: the experiment removes what it made and keeps what it measured.
    pub(super) stop: Shutdown,
    /// What is said while it runs.
    pub(super) progress: Progress,
}

impl Frame {
    /// Sees that a record can be kept, and listens for signals, before anything is made.
    pub(super) fn open(data_dir: &Path) -> Result<Self, Failure> {
        let store = Store::in_data_dir(data_dir);
        store.ready()?;
        let clock: SharedClock = Arc::new(SystemClock);
        let stop = Shutdown::new();
        listen(&stop)?;
        Ok(Self { store, progress: Progress::new(clock.clone()), clock, stop })
    }

    /// What an experiment of `spindle-bench` needs.
    pub(super) fn with_runner<T>(&self, run: impl FnOnce(&Runner<'_>) -> T) -> T {
        let say = |step: &str, figure: &str| self.progress.say(step, figure);
        run(&Runner { store: &self.store, clock: &self.clock, stop: &self.stop, say: &say })
    }

    /// A record that begins now, with the machine as it is before.
    pub(super) fn begin(&self, kind: Kind) -> Record {
        let mut record = Record::begin(kind, &self.clock);
        record.machine = machine::look();
        record
    }

    /// Keeps the record and shows it: rows as JSON, or text for people. One that was stopped is kept as well, and is a failure.
    pub(super) fn finish(&self, mut record: Record, json: bool) -> Outcome {
        self.progress.clear();
        record.ended = Some(rfc3339(self.clock.unix_us()));
        record.machine.after = machine::load();
        self.store.save(&record)?;
        if json {
            print_json(&record.rows)?;
            for note in &record.notes {
                complain(&printable(&format!("note: {note}")));
            }
            complain(&format!("kept as {}", record.id));
        } else {
            print(&printable(&kept::text(&record)));
            print(&format!("kept as {}\n", record.id));
        }
        match record.interrupted {
            Some(why) => Err(Failure::Failed(printable(&format!(
                "interrupted: {why}; what was measured until then is kept as {}",
                record.id
            )))),
            None => Ok(()),
        }
    }
}

/// The first signal stops the experiment, a second one ends the program: a disk that hangs would hold it for ever.
fn listen(stop: &Shutdown) -> Result<(), Failure> {
    let stop = stop.clone();
    let (ready, is_ready) = mpsc::sync_channel::<std::io::Result<()>>(1);
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => {
                let _nobody_waits = ready.send(Err(error));
                return;
            }
        };
        runtime.block_on(async {
            let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
            let [mut int, mut term, mut hup] = match kinds.map(signal) {
                [Ok(a), Ok(b), Ok(c)] => [a, b, c],
                [a, b, c] => {
                    let error = [a.err(), b.err(), c.err()].into_iter().flatten().next();
                    let _nobody_waits = ready.send(error.map_or(Ok(()), Err));
                    return;
                }
            };
            let _nobody_waits = ready.send(Ok(()));
            for time in 0..2 {
                tokio::select! { _ = int.recv() => {}, _ = term.recv() => {}, _ = hup.recv() => {} }
                if time == 0 {
                    stop.begin();
                    complain("stopping; a second signal ends at once");
                }
            }
            std::process::exit(130);
        });
    })?;
    is_ready.recv().map_err(anyhow::Error::from)??;
    Ok(())
}

/// Whether somebody agrees, and how that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Consent {
    /// By the flag `--yes`.
    Flag,
    /// Nobody has said so: a terminal is asked.
    Ask,
}

impl Consent {
    pub(super) fn of(yes: bool) -> Self {
        if yes { Self::Flag } else { Self::Ask }
    }

    /// Asks a yes-or-no question on a terminal. Where there is none, and no flag: it is refused.
    pub(super) fn ask(self, question: &str) -> Outcome {
        if self == Self::Flag {
            return Ok(());
        }
        if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
            return Err(Failure::Usage(printable(&format!(
                "{question} Nobody is there to be asked; --yes agrees beforehand"
            ))));
        }
        let mut out = std::io::stderr().lock();
        let _closed = write!(out, "{} [y/N] ", printable(question)).and_then(|()| out.flush());
        drop(out);
        let mut answer = String::new();
        std::io::stdin().lock().read_line(&mut answer)?;
        if matches!(answer.trim(), "y" | "Y" | "yes") {
            Ok(())
        } else {
            Err(Failure::Failed("nothing was done".to_owned()))
        }
    }
}

/// What is said while an experiment runs: a line that is rewritten on a terminal, plain lines elsewhere.
pub(super) struct Progress {
    clock: SharedClock,
    terminal: bool,
    said: Mutex<Said, 90>,
}

#[derive(Default)]
struct Said {
    at_us: u64,
    step: String,
}

impl Progress {
    fn new(clock: SharedClock) -> Self {
        Self { clock, terminal: std::io::stderr().is_terminal(), said: Mutex::default() }
    }

    /// Says what is done now. `step` names the part, `figure` what it gives at the moment. Cheap to call often.
    pub(super) fn say(&self, step: &str, figure: &str) {
        let now = self.clock.monotonic_us();
        let mut said = self.said.lock();
        let is_new = said.step != step;
        let every = if self.terminal { REWRITTEN_US } else { PLAIN_US };
        if !is_new && now.saturating_sub(said.at_us) < every {
            return;
        }
        (said.at_us, said.step) = (now, step.to_owned());
        let mut out = std::io::stderr().lock();
        let line = printable(&format!("{step}  {figure}"));
        let _closed = if self.terminal {
            write!(out, "\r\x1b[K{}", line.trim_end()).and_then(|()| out.flush())
        } else {
            writeln!(out, "{}", line.trim_end())
        };
    }

    /// Takes the rewritten line away.
    pub(super) fn clear(&self) {
        if self.terminal {
            let mut out = std::io::stderr().lock();
            let _closed = write!(out, "\r\x1b[K").and_then(|()| out.flush());
        }
    }
}
