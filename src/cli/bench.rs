//! `spindle bench`: experiments on one's own volumes and network. One file an experiment; what they share is in `frame`.

mod frame;
mod kept;
mod net;
mod stream;
mod table;
mod volume;

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
    /// The smallest and the large request, in order and anywhere, one at a time and 32 at once
    Corners(volume::PatternArguments),
    /// Blocks from 4 KiB to 16 MiB, read and written in order
    Blocks(volume::PatternArguments),
    /// From one volume to another, with what each disk did meanwhile
    Copy(volume::CopyArguments),
    /// Between this machine and a running server, both ways
    Net(net::Arguments),
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
        Experiment::Corners(a) => volume::corners(&data_dir, &a),
        Experiment::Blocks(a) => volume::blocks(&data_dir, &a),
        Experiment::Copy(a) => volume::copy(&data_dir, &a),
        Experiment::Net(a) => net::run(&data_dir, &a),
        Experiment::List(a) => kept::list(&data_dir, &a),
        Experiment::Show(a) => kept::show(&data_dir, &a),
        Experiment::Remove(a) => kept::remove(&data_dir, &a),
    }
}
