//! `spindle scan`: index now, then exit.

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;

use clap::Args;
use spindle_library::{Event, Library, ScanReport};
use tokio::sync::broadcast::error::RecvError;

use super::serve::Common;
use super::{Failure, Outcome, print, print_json};
use crate::app::Rooms;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Folder of the server's data [default: $XDG_DATA_HOME/spindle or ~/.local/share/spindle]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Only the library of this NAME; with KIND=PATH it is added first, as by `serve`; may be repeated
    #[arg(long = "library", value_name = "NAME|KIND=PATH")]
    libraries: Vec<String>,
    /// The same as `--library NAME`
    #[arg(long, value_name = "NAME", hide = true)]
    name: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: Arguments) -> Outcome {
    // `--library NAME` is the contract's; `--library KIND=PATH` adds one as `serve` does.
    let (added, named): (Vec<String>, Vec<String>) =
        arguments.libraries.iter().cloned().partition(|l| l.contains('='));
    let common = Common { data_dir: arguments.data_dir.clone(), libraries: added };
    let names: Vec<String> = named.into_iter().chain(arguments.name.clone()).collect();
    let mut config = common.layers(None)?.build().map_err(|e| Failure::Usage(e.to_string()))?;
    if config.libraries.is_empty() {
        super::existing(&config)?;
    }
    // It ends with the scan.
    config.scan_watch = false;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let report = runtime.block_on(async {
        let rooms = Rooms::open(&config)?;
        let added = rooms.ensure_libraries(&config).await?;
        let watching = tokio::spawn(show_progress(rooms.library.clone()));
        let result = scan_all(&rooms, &names, &added).await;
        watching.abort();
        rooms.close().await;
        result
    })?;
    if arguments.json {
        return print_json(&report);
    }
    print(&format!(
        "{} files: {} added, {} updated, {} removed, {} unchanged, {} unreadable, {:.1} s\n",
        report.files,
        report.added,
        report.updated,
        report.removed,
        report.unchanged,
        report.failed,
        report.seconds
    ));
    for warning in &report.warnings {
        print(&format!("note: {warning}\n"));
    }
    Ok(())
}

async fn scan_all(rooms: &Rooms, names: &[String], added: &[String]) -> anyhow::Result<ScanReport> {
    let mut ids = Vec::new();
    if names.is_empty() {
        for library in rooms.library.libraries().await? {
            if added.is_empty() || added.contains(&library.id) {
                ids.push(library.id);
            }
        }
    }
    for name in names {
        ids.push(rooms.library.library_named(name).await?.id);
    }
    if ids.is_empty() {
        anyhow::bail!("there is no library to scan; name one with --library KIND=PATH");
    }
    let mut total = ScanReport::default();
    for id in ids {
        let report = tokio::select! {
            report = rooms.scanner.scan(&id) => report?,
            result = tokio::signal::ctrl_c() => {
                result?;
                anyhow::bail!("stopped; what was indexed so far is kept");
            }
        };
        add(&mut total, report);
    }
    Ok(total)
}

fn add(total: &mut ScanReport, one: ScanReport) {
    total.files += one.files;
    total.added += one.added;
    total.updated += one.updated;
    total.removed += one.removed;
    total.unchanged += one.unchanged;
    total.failed += one.failed;
    total.seconds += one.seconds;
    total.unavailable += one.unavailable;
    total.incoming += one.incoming;
    total.warnings.extend(one.warnings);
}

/// A line that is rewritten on a terminal; plain lines elsewhere, one a phase.
async fn show_progress(library: Library) {
    let terminal = std::io::stderr().is_terminal();
    let mut events = library.subscribe();
    let mut last_phase = "";
    loop {
        match events.recv().await {
            Ok(Event::ScanProgress { phase, done, total, .. }) => {
                let mut out = std::io::stderr().lock();
                if terminal {
                    let _closed = write!(out, "\r\x1b[K{phase} {done}/{total}");
                    let _closed = out.flush();
                } else if phase != last_phase {
                    let _closed = writeln!(out, "{phase}: {total} files");
                }
                last_phase = phase;
            }
            Ok(Event::ScanFinished { .. } | Event::ScanFailed { .. }) if terminal => {
                let _closed = write!(std::io::stderr(), "\r\x1b[K");
            }
            Ok(_) | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}
