//! `spindle topology PATH`: the volume under a path down to its physical disks.

use std::path::PathBuf;

use clap::Args;

use super::{Outcome, print, print_json};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// A file or folder
    path: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: Arguments) -> Outcome {
    let topology = spindle_storage::topology(&arguments.path)?;
    if arguments.json {
        return print_json(&topology);
    }
    print(&topology.to_string());
    Ok(())
}
