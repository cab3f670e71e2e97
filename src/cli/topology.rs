//! `spindle topology PATH`: the volume under a path down to its physical disks.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use spindle_storage::{Node, Topology};

use super::{Outcome, human_bytes, print, print_json};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// A file or folder
    path: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: Arguments) -> Outcome {
    let storage = crate::examine::storage()?;
    let topology = storage.topology(&arguments.path);
    storage.close();
    let topology = topology?;
    if arguments.json {
        return print_json(&topology);
    }
    print(&for_people(&topology));
    Ok(())
}

fn for_people(topology: &Topology) -> String {
    let mut out = format!(
        "{} is on {} at {}\n",
        topology.path.display(),
        topology.filesystem.kind,
        topology.filesystem.mount.display()
    );
    tree(&mut out, &topology.node, 1);
    let _infallible = writeln!(
        out,
        "{} column(s): a large read can use {} disk(s) at once; {} cop{} of each byte",
        topology.columns,
        topology.columns,
        topology.copies,
        if topology.copies == 1 { "y" } else { "ies" }
    );
    for advice in &topology.advice {
        let _infallible = writeln!(out, "{}", advice.text);
    }
    out
}

/// Two spaces a storey. Nesting ends where the storage room's own limit does.
fn tree(out: &mut String, node: &Node, depth: usize) {
    let _infallible = write!(out, "{:indent$}{} {}", "", node.kind, node.name, indent = depth * 2);
    for word in [&node.level, &node.model, &node.state].into_iter().flatten() {
        let _infallible = write!(out, ", {word}");
    }
    if node.size_bytes > 0 {
        let _infallible = write!(out, ", {}", human_bytes(node.size_bytes));
    }
    if let Some(rotational) = node.rotational {
        out.push_str(if rotational { ", rotating" } else { ", solid state" });
    }
    out.push('\n');
    for child in &node.children {
        tree(out, child, depth + 1);
    }
}
