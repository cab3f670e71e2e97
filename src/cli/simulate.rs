//! `spindle simulate --layout LAYOUT SESSION...`: what another layout would have made of recorded sessions.

use std::io::{IsTerminal as _, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use spindle_base::clock::SystemClock;
use spindle_drive::params::Params;
use spindle_library::Library;
use spindle_simulate::fit::Limits;
use spindle_simulate::layout::parse::bytes;
use spindle_simulate::replay::Host;
use spindle_simulate::report::{Plan, simulate};
use spindle_simulate::{Layout, Session};

use super::serve::Common;
use super::{Failure, Outcome, print, print_json};

/// A saved record is some 100 KiB; beyond this it is none.
const MAX_RECORD_BYTES: u64 = 256 << 20;

/// A file of parameters has twenty short lines.
const MAX_DISK_FILE_BYTES: u64 = 64 << 10;

/// Sessions at once.
const MAX_SESSIONS: usize = 256;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    common: Common,
    /// Ids of sessions in the data directory, or files of saved records (JSON)
    #[arg(value_name = "SESSION", required = true)]
    sessions: Vec<String>,
    /// What to simulate: mirror,disks=4,columns=2 or md-raid10,disks=4 or btrfs-raid1,disks=3 or zfs-raidz1,disks=4 ...; may be repeated
    #[arg(long = "layout", value_name = "KIND,disks=N[,KEY=VALUE]...", required = true)]
    layouts: Vec<String>,
    /// Bytes before Storage Spaces' next column, for layouts that name none
    #[arg(long, value_name = "BYTES")]
    interleave: Option<String>,
    /// hdd7200, hdd5400, hdd15k, ssd, or a file of `key = value` lines
    #[arg(long, value_name = "NAME|FILE", default_value = "hdd7200")]
    disk: String,
    /// Size of each disk
    #[arg(long, value_name = "BYTES", default_value = "8T")]
    disk_size: String,
    /// All sessions begin at once; otherwise they keep their distances in time where these are less than a day
    #[arg(long)]
    at_once: bool,
    /// Seconds that a player holds in advance
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    buffer: f64,
    /// A disk that works for more of the time than this is too busy
    #[arg(long, value_name = "SHARE", default_value_t = 0.85)]
    busy_limit: f64,
    /// How many streams to try at most when looking for how many fit; 0: do not look
    #[arg(long, value_name = "N", default_value_t = 256)]
    most: usize,
    /// Where the films begin, as bytes or percents of the volume; for those that are not named a place is chosen
    #[arg(long, value_name = "PLACE", value_delimiter = ',')]
    place: Vec<String>,
    /// Numbers of the threads that read for the sessions (btrfs chooses copies by them); otherwise 0, 1, 2 ...
    #[arg(long, value_name = "N", value_delimiter = ',')]
    thread: Vec<u64>,
    /// Print JSON, one line a layout
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: Arguments) -> Outcome {
    let usage = |why: String| Failure::Usage(why);
    let disk_bytes = bytes(&arguments.disk_size).map_err(|why| usage(format!("--disk-size: {why}")))?;
    let disk = disk(&arguments.disk, disk_bytes)?;
    if !(0.0..=86_400.0).contains(&arguments.buffer) {
        return Err(usage("--buffer takes seconds from 0 to 86400".into()));
    }
    if !(arguments.busy_limit > 0.0 && arguments.busy_limit <= 1.0) {
        return Err(usage("--busy-limit takes a share above 0 and at most 1, such as 0.85".into()));
    }
    if arguments.sessions.len() > MAX_SESSIONS {
        return Err(usage(format!("at most {MAX_SESSIONS} sessions are replayed together")));
    }
    let layouts: Vec<Layout> = arguments
        .layouts
        .iter()
        .map(|text| layout(text, &arguments, disk_bytes))
        .collect::<Result<_, _>>()?;
    let sessions = sessions(&arguments)?;
    let starts_s = if arguments.at_once { Vec::new() } else { starts_s(&sessions) };
    for (number, layout) in layouts.iter().enumerate() {
        let places: Vec<u64> =
            arguments.place.iter().map(|text| place(text, layout)).collect::<Result<_, _>>()?;
        let plan = Plan {
            disk_name: arguments.disk.clone(),
            disk: disk.clone(),
            host: Host { buffer_s: arguments.buffer, ..Host::default() },
            starts_s: starts_s.clone(),
            places,
            threads: arguments.thread.clone(),
            fit: (arguments.most > 0).then(|| Limits {
                busy_share: arguments.busy_limit,
                most: arguments.most,
                ..Limits::default()
            }),
        };
        let mut bar = Bar::new(layout.text());
        let report = simulate(layout, &plan, &sessions, &mut |what, done, all| bar.show(what, done, all));
        bar.clear();
        let report = report.map_err(|e| Failure::Failed(e.to_string()))?;
        if arguments.json {
            print_json(&report)?;
        } else {
            print(&format!("{}{}", if number > 0 { "\n" } else { "" }, report.text()));
        }
    }
    Ok(())
}

fn layout(text: &str, arguments: &Arguments, disk_bytes: u64) -> Result<Layout, Failure> {
    let is_space = ["simple", "mirror", "parity"].iter().any(|kind| text.trim_start().starts_with(kind));
    let whole = match &arguments.interleave {
        Some(interleave) if is_space && !text.contains("interleave") => {
            format!("{text},interleave={interleave}")
        }
        _ => text.to_owned(),
    };
    Layout::parse(&whole, disk_bytes).map_err(|e| Failure::Usage(e.to_string()))
}

/// A preset, or a file of parameters.
fn disk(name: &str, size_bytes: u64) -> Result<Params, Failure> {
    if let Ok(params) = Params::preset(name, size_bytes) {
        params.check().map_err(|e| Failure::Usage(format!("--disk-size: {e}")))?;
        return Ok(params);
    }
    let text = read(Path::new(name), MAX_DISK_FILE_BYTES).map_err(|why| {
        Failure::Usage(format!(
            "--disk: `{name}` is neither one of {} nor a file that can be read ({why})",
            spindle_drive::params::PRESETS.join(", ")
        ))
    })?;
    Params::from_text(&text, size_bytes).map_err(|e| Failure::Usage(format!("--disk {name}: {e}")))
}

/// The text of a regular file of at most so many bytes.
fn read(path: &Path, limit: u64) -> anyhow::Result<String> {
    let file = crate::config::regular_file::open(path)?;
    let mut text = String::new();
    file.take(limit + 1).read_to_string(&mut text)?;
    if text.len() as u64 > limit {
        anyhow::bail!("it has more than {limit} bytes");
    }
    Ok(text)
}

fn place(text: &str, layout: &Layout) -> Result<u64, Failure> {
    let wrong = |why: String| Failure::Usage(format!("--place: {why}"));
    let Some(percent) = text.strip_suffix('%') else { return bytes(text).map_err(wrong) };
    match percent.parse::<f64>() {
        Ok(share) if (0.0..100.0).contains(&share) => {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a share of the volume"
            )]
            let at = (layout.size_bytes() as f64 * share / 100.0) as u64;
            Ok(at / 4096 * 4096)
        }
        _ => Err(wrong(format!("`{text}` is no percentage from 0% to below 100%"))),
    }
}

/// A word with a dot or a slash, or one that is there as a file, is a file; any other is the id of a session.
fn sessions(arguments: &Arguments) -> Result<Vec<Session>, Failure> {
    let is_file = |word: &String| word.contains(['/', '.']) || Path::new(word).is_file();
    let library = if arguments.sessions.iter().all(is_file) { None } else { Some(Index::open(arguments)?) };
    let all = arguments.sessions.iter().map(|word| match &library {
        Some(index) if !is_file(word) => index.session(word),
        _ => {
            let text = read(Path::new(word), MAX_RECORD_BYTES)
                .map_err(|why| Failure::Failed(format!("unable to read the record `{word}`: {why:#}")))?;
            Ok(Session::from_json(word, &text).map_err(|e| Failure::Failed(e.to_string()))?)
        }
    });
    let found = all.collect();
    if let Some(index) = library {
        index.library.close();
    }
    found
}

/// Stored sessions, also while a server runs.
struct Index {
    library: Library,
    runtime: tokio::runtime::Runtime,
    data_dir: PathBuf,
}

impl Index {
    fn open(arguments: &Arguments) -> Result<Self, Failure> {
        let config = arguments.common.layers(None)?.build().map_err(|e| Failure::Usage(e.to_string()))?;
        super::existing(&config)?;
        let library = Library::open(&config.data_dir, Arc::new(SystemClock))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { library, runtime, data_dir: config.data_dir })
    }

    fn session(&self, id: &str) -> Result<Session, Failure> {
        let (entry, stored) = self.runtime.block_on(async {
            let entry = self.library.history_entry(id).await;
            (entry, self.library.io(id).await)
        });
        let Ok(entry) = entry else {
            return Err(Failure::Failed(format!(
                "there is no session `{id}` in `{}`, and no such file",
                self.data_dir.display()
            )));
        };
        let Some(mut stored) = stored? else {
            return Err(Failure::Failed(format!(
                "no record was kept of session `{id}` ({}): recording was off, or it was too short",
                entry.title
            )));
        };
        // What the record itself does not say is in the history.
        if let Some(record) = stored.as_object_mut() {
            for (key, value) in [("file", entry.title), ("method", entry.method), ("client", entry.client)] {
                record.entry(key).or_insert_with(|| value.into());
            }
        }
        Session::from_value(id, stored).map_err(|e| Failure::Failed(e.to_string()))
    }
}

/// Seconds from the first session's start to each one's; all 0 where they are not of one day.
fn starts_s(sessions: &[Session]) -> Vec<f64> {
    let format = &time::format_description::well_known::Rfc3339;
    let when: Option<Vec<time::OffsetDateTime>> =
        sessions.iter().map(|s| time::OffsetDateTime::parse(&s.started, format).ok()).collect();
    let Some((when, first)) = when.and_then(|when| when.iter().min().copied().map(|first| (when, first)))
    else {
        return Vec::new();
    };
    let starts_s: Vec<f64> = when.iter().map(|t| (*t - first).as_seconds_f64()).collect();
    if starts_s.iter().any(|s| *s > 86_400.0) { Vec::new() } else { starts_s }
}

/// A line that is rewritten on a terminal; elsewhere a plain one for each thing that is begun.
struct Bar {
    of: String,
    is_terminal: bool,
    last: String,
}

impl Bar {
    fn new(of: &str) -> Self {
        Self { of: of.to_owned(), is_terminal: std::io::stderr().is_terminal(), last: String::new() }
    }

    fn show(&mut self, what: &str, done: u64, all: u64) -> bool {
        let mut out = std::io::stderr().lock();
        if self.is_terminal {
            let _closed = write!(out, "\r\x1b[K{}: {what} {done}/{all}", self.of).and_then(|()| out.flush());
        } else if self.last != what {
            let _closed = writeln!(out, "{}: {what}", self.of);
        }
        what.clone_into(&mut self.last);
        true
    }

    fn clear(&self) {
        if self.is_terminal {
            let _closed = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(started: &str) -> Session {
        let value = serde_json::json!({"started": started, "requests": [{"at_ms": 0, "offset": 0, "length_bytes": 4096}]});
        Session::from_value("s", value).unwrap()
    }

    #[test]
    fn sessions_of_one_day_keep_their_distances_and_others_begin_at_once() {
        let of = |starts: &[&str]| starts_s(&starts.iter().map(|s| session(s)).collect::<Vec<_>>());
        assert_eq!(of(&["2026-01-01T00:01:00Z", "2026-01-01T00:00:30.5Z"]), [29.5, 0.0]);
        assert!(of(&["2026-01-01T00:01:00Z", "2026-01-03T00:00:00Z"]).is_empty());
        assert!(of(&["2026-01-01T00:01:00Z", ""]).is_empty());
    }

    #[test]
    fn places_are_bytes_or_percents_of_the_volume() {
        let layout = Layout::parse("mirror,disks=2", 8 << 30).unwrap();
        assert_eq!(place("25%", &layout).unwrap(), 2 << 30);
        assert_eq!(place("3M", &layout).unwrap(), 3 << 20);
        for bad in ["100%", "-1%", "x%", "x"] {
            assert!(
                matches!(place(bad, &layout), Err(Failure::Usage(why)) if why.contains("--place")),
                "{bad}"
            );
        }
    }
}
