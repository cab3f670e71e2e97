//! `spindle layout FILE`: which disks hold which bytes of a file.

use std::path::PathBuf;

use clap::Args;

use super::{Outcome, human_bytes, print, print_json};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// A file
    file: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: Arguments) -> Outcome {
    let storage = crate::examine::storage()?;
    let layout = storage.layout(&arguments.file);
    storage.close();
    let layout = layout?;
    if arguments.json {
        return print_json(&layout);
    }
    let mut text = format!(
        "{}: {}, {} fragments, evenness {:.2}\n",
        arguments.file.display(),
        human_bytes(layout.size_bytes),
        layout.fragments,
        layout.evenness
    );
    if let Some(why) = &layout.why_inexact {
        text.push_str(&format!("not exact: {why}\n"));
    }
    for disk in &layout.per_disk {
        text.push_str(&format!(
            "  {:<12} {:>10}  {:>5.1} %\n",
            disk.disk,
            human_bytes(disk.bytes),
            disk.share * 100.0
        ));
    }
    print(&text);
    Ok(())
}
