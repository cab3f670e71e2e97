//! `spindle bench`: experiments on one's own volumes and network. One file an experiment; what they share is in `frame`.

mod frame;
mod kept;
mod stream;
mod table;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Outcome;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The server's data folder: records are kept in its folder `experiments`
    #[arg(long, value_name = "DIR", global = true)]
    data_dir: Option<PathBuf>,
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Debug, Subcommand)]
enum Experiment {
    /// Watch films from a volume as televisions do, and see which disks serve whom
    Stream(stream::Arguments),
    /// List the records of experiments
    List(kept::ListArguments),
    /// Show one record
    Show(kept::ShowArguments),
    /// Remove one record
    Remove(kept::RemoveArguments),
}

pub(super) fn run(arguments: Arguments) -> Outcome {
    let data_dir = frame::data_dir(arguments.data_dir)?;
    match arguments.experiment {
        Experiment::Stream(a) => stream::run(&data_dir, &a),
        Experiment::List(a) => kept::list(&data_dir, &a),
        Experiment::Show(a) => kept::show(&data_dir, &a),
        Experiment::Remove(a) => kept::remove(&data_dir, &a),
    }
}
