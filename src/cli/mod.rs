//! The command line: one file a command. Prints for people, or JSON with `--json`.

mod ask;
mod bench;
mod decide;
mod identify;
mod layout;
mod log;
mod probe;
mod scan;
mod serve;
mod simulate;
mod storage_helper;
mod top;
mod topology;
mod user;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use clap::error::ErrorKind as ClapErrorKind;
use clap::{Parser, Subcommand};

/// A media server that knows which physical disk serves every byte of every stream.
#[derive(Debug, Parser)]
#[command(name = "spindle", version, arg_required_else_help = true, propagate_version = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server
    Serve(serve::Arguments),
    /// Index libraries now, then exit
    Scan(scan::Arguments),
    /// Show container, streams, chapters and key frames of files
    Probe(probe::Arguments),
    /// Read paths on standard input and print what their names say
    Identify(identify::Arguments),
    /// Show how a file would be played on a client, and why
    Decide(decide::Arguments),
    /// Show the volume under a path down to its physical disks
    Topology(topology::Arguments),
    /// Show which disks hold which bytes of a file
    Layout(layout::Arguments),
    /// Show live which stream reads from which disk
    Top(top::Arguments),
    /// Experiments on volumes and the network, and the records they leave
    Bench(bench::Arguments),
    /// Replay recorded sessions on another layout of disks, and tell how many such streams it carries
    Simulate(simulate::Arguments),
    /// Manage accounts
    User(user::Arguments),
    /// Trace block requests for a server (started by the server, or by systemd)
    #[command(hide = true)]
    StorageHelper(storage_helper::Arguments),
}

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Status 1: it was tried.
    Failed(String),
    /// Status 2: it cannot be meant like this.
    Usage(String),
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Failed(one_line(&format!("{:#}", error.into())))
    }
}

/// What a command returns.
pub(crate) type Outcome = Result<(), Failure>;

/// Runs the command that `arguments` name and gives the program's exit status.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let parsed = match Arguments::try_parse_from(arguments) {
        Ok(parsed) => parsed,
        Err(error) => return usage_error(&error),
    };
    let outcome = match parsed.command {
        Command::Serve(a) => serve::run(a),
        Command::Scan(a) => scan::run(a),
        Command::Probe(a) => probe::run(a),
        Command::Identify(a) => identify::run(a),
        Command::Decide(a) => decide::run(a),
        Command::Topology(a) => topology::run(a),
        Command::Layout(a) => layout::run(a),
        Command::Top(a) => top::run(a),
        Command::Bench(a) => bench::run(a),
        Command::Simulate(a) => simulate::run(a),
        Command::User(a) => user::run(a),
        Command::StorageHelper(a) => storage_helper::run(a),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Failed(message)) => {
            complain(&message);
            ExitCode::from(1)
        }
        Err(Failure::Usage(message)) => {
            complain(&message);
            ExitCode::from(2)
        }
    }
}

/// Help and version are answers; everything else is one line that says what to do.
fn usage_error(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ClapErrorKind::DisplayHelp | ClapErrorKind::DisplayVersion => {
            print(&error.render().to_string());
            ExitCode::SUCCESS
        }
        ClapErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _closed = std::io::stderr().write_all(error.render().to_string().as_bytes());
            ExitCode::from(2)
        }
        _ => {
            let text = error.render().to_string();
            let first = text.split("\n\n").next().unwrap_or_default();
            let first = first.strip_prefix("error: ").unwrap_or(first);
            complain(&format!("{}; see `spindle --help`", one_line(first)));
            ExitCode::from(2)
        }
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A path for people, on one line: what a terminal would obey is shown as it is written.
fn named(path: &std::path::Path) -> String {
    let escape = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    path.to_string_lossy().chars().map(escape).collect()
}

/// Text with what people have named things: nothing in it may speak to the terminal.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { '?' } else { c }).collect()
}

/// One line on standard error, whatever is in the names that it tells of. A closed pipe is no reason to fail.
fn complain(message: &str) {
    let _closed = writeln!(std::io::stderr(), "spindle: {}", printable(message));
}

/// Text on standard output. A closed pipe (`| head`) ends quietly.
pub(crate) fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _closed = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// A value as one line of JSON on standard output.
pub(crate) fn print_json(value: &impl serde::Serialize) -> Outcome {
    print(&format!("{}\n", serde_json::to_string(value)?));
    Ok(())
}

/// `1 copy`, `2 copies`.
pub(crate) fn counted(n: u64, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// A data directory with a database in it, for commands that only look into one: a wrong name must make none.
fn existing(config: &crate::config::Config) -> Result<(), Failure> {
    if spindle_library::Library::is_in(&config.data_dir) {
        return Ok(());
    }
    Err(Failure::Failed(format!(
        "there is no Spindle data in `{}`; name the server's own data directory with --data-dir DIR",
        named(&config.data_dir)
    )))
}

/// A byte count for people, in binary units.
pub(crate) fn human_bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut whole, mut rest, mut unit) = (bytes, 0, 0);
    while whole >= 1024 && unit + 1 < UNITS.len() {
        rest = whole % 1024;
        whole /= 1024;
        unit += 1;
    }
    if unit == 0 || whole >= 100 {
        format!("{whole} {}", UNITS[unit])
    } else {
        format!("{whole}.{} {}", rest * 10 / 1024, UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn byte_counts_read_well() {
        for (bytes, text) in
            [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (150 << 20, "150 MiB"), (5 << 40, "5.0 TiB")]
        {
            assert_eq!(human_bytes(bytes), text);
        }
    }
}
