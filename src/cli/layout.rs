//! `spindle layout FILE`: which disks hold which bytes of a file.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use spindle_storage::{Layout, LayoutOptions, Verified};

use super::{Outcome, human_bytes, print, print_json};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// A file
    file: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// List at most so many pieces; the sums are of the whole file all the same
    #[arg(long, value_name = "N")]
    max_pieces: Option<usize>,
    /// Go on below loop devices, to the disks that their files are on; at most so many, one in the other
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_value_t = 0, default_missing_value = "8")]
    through_loops: u32,
    /// Read every byte from the disks at the places that are named and compare it with the file (root only)
    #[arg(long)]
    verify: bool,
}

pub(super) fn run(arguments: Arguments) -> Outcome {
    let mut options = LayoutOptions { through_loops: arguments.through_loops, ..LayoutOptions::default() };
    if let Some(n) = arguments.max_pieces {
        options.max_pieces = n;
    }
    let storage = crate::examine::storage()?;
    if arguments.verify {
        let verified = storage.verify_layout(&arguments.file, &options);
        storage.close();
        let verified = verified?;
        if arguments.json {
            print_json(&verified)?;
        } else {
            print(&compared(&verified));
        }
        if verified.different_bytes > 0 {
            return Err(
                anyhow::anyhow!("{} bytes are not where the layout says", verified.different_bytes).into()
            );
        }
        return Ok(());
    }
    let layout = storage.layout_with(&arguments.file, &options);
    storage.close();
    let layout = layout?;
    if arguments.json {
        return print_json(&layout);
    }
    print(&for_people(&layout));
    Ok(())
}

fn for_people(layout: &Layout) -> String {
    let mut text = format!(
        "{}: {}, {}, evenness {:.2}\n",
        super::named(&layout.file),
        human_bytes(layout.size_bytes),
        super::counted(layout.fragments, "fragment", "fragments"),
        layout.evenness
    );
    let mut line = |t: String| {
        let _infallible = writeln!(text, "{t}");
    };
    if let Some(via) = &layout.via {
        line(format!("it is {}", super::named(via)));
    }
    if let Some(why) = &layout.why_inexact {
        line(format!("not exact: {why}"));
    }
    if !layout.candidates.is_empty() {
        line(format!("it may be on: {}", layout.candidates.join(", ")));
    }
    let special = &layout.special;
    for (bytes, what) in [
        (special.rebuilt_bytes, "are on no disk that is there, and are computed from what the others hold"),
        (special.lost_bytes, "are lost: no copy of them is left"),
        (special.degraded_bytes, "have fewer copies than they should"),
        (special.shared_bytes, "are shared with other files"),
        (special.compressed_bytes, "are stored compressed"),
        (special.stored_bytes, "are what a copy of those takes on disks"),
        (special.unwritten_bytes, "are set aside and hold nothing yet"),
    ] {
        if bytes > 0 {
            line(format!("{} {what}", human_bytes(bytes)));
        }
    }
    for disk in &layout.per_disk {
        line(format!("  {:<12} {:>10}  {:>5.1} %", disk.disk, human_bytes(disk.bytes), disk.share * 100.0));
    }
    text
}

fn compared(verified: &Verified) -> String {
    let mut text = format!(
        "{} compared with the disks, {} differ\n",
        human_bytes(verified.compared_bytes),
        human_bytes(verified.different_bytes)
    );
    for u in &verified.unchecked {
        let _infallible = writeln!(text, "{} not compared: {}", human_bytes(u.bytes), u.why);
    }
    for d in &verified.differences {
        let _infallible = writeln!(
            text,
            "  byte {} ({} bytes) is not at byte {} of {}",
            d.offset, d.length_bytes, d.disk_offset, d.disk
        );
    }
    for disk in &verified.per_disk {
        let _infallible = writeln!(text, "  {:<12} {:>10}", disk.disk, human_bytes(disk.bytes));
    }
    text
}
