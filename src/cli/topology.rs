//! `spindle topology PATH`: the volume under a path down to its physical disks.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use spindle_storage::{Node, Topology};

use super::{Outcome, human_bytes, print, print_json, printable};

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
    print(&printable(&for_people(&topology)));
    Ok(())
}

fn for_people(topology: &Topology) -> String {
    let mut out = format!(
        "{} is on {} at {}\n",
        super::named(&topology.path),
        topology.filesystem.kind,
        super::named(&topology.filesystem.mount)
    );
    tree(&mut out, &topology.node, 1);
    if topology.node.kind == "memory" {
        out.push_str("no disk is used\n");
    } else if topology.disks.is_empty() {
        out.push_str("which disks it uses is not known\n");
    } else {
        let _infallible = writeln!(
            out,
            "{}: a large read can use {} at once; {} of each byte",
            super::counted(u64::from(topology.columns), "column", "columns"),
            super::counted(u64::from(topology.columns), "disk", "disks"),
            super::counted(u64::from(topology.copies), "copy", "copies")
        );
    }
    for advice in &topology.advice {
        let _infallible = writeln!(out, "{}", advice.text);
    }
    out
}

/// Two spaces a storey. Nesting ends where the storage room's own limit does.
fn tree(out: &mut String, node: &Node, depth: usize) {
    let _infallible = write!(out, "{:indent$}{} {}", "", node.kind, node.name, indent = depth * 2);
    let place = node
        .path
        .as_ref()
        .filter(|p| matches!(node.kind.as_str(), "mergerfs" | "shfs" | "overlay") || !p.starts_with("/dev/"));
    let file = node.backing_file.as_ref().or(place);
    for word in [&node.level, &node.arrangement, &node.disk.model].into_iter().flatten() {
        let _infallible = write!(out, ", {word}");
    }
    if let Some(serial) = &node.disk.serial {
        let _infallible = write!(out, ", serial {serial}");
    }
    if node.size_bytes > 0 {
        let _infallible = write!(out, ", {}", human_bytes(node.size_bytes));
    }
    if let Some(transport) = node.disk.transport.as_ref().filter(|t| **t != node.kind) {
        let _infallible = write!(out, ", {transport}");
    }
    if let Some(rotational) = node.disk.rotational {
        out.push_str(if rotational { ", rotating" } else { ", solid state" });
    }
    for word in [&node.role, &node.member_state]
        .into_iter()
        .flatten()
        .filter(|w| !matches!(w.as_str(), "data" | "in_sync"))
    {
        let _infallible = write!(out, ", {word}");
    }
    if let Some(state) = &node.state {
        let _infallible = write!(out, ", {state}");
    }
    if node.degraded {
        out.push_str(", degraded");
    }
    if let Some(sync) = &node.sync {
        let _infallible = write!(out, ", {} {:.1} % done", sync.action, sync.done * 100.0);
        if let Some(speed) = sync.speed_bytes_s {
            let _infallible = write!(out, " at {}/s", human_bytes(speed));
        }
    }
    match (node.disk.asleep, node.disk.asleep_source.as_deref()) {
        (Some(true), Some("probably")) => out.push_str(", probably asleep"),
        (Some(true), _) => out.push_str(", asleep"),
        (Some(false), _) => out.push_str(", awake"),
        (None, _) => {}
    }
    if let Some(t) = node.disk.temperature_c {
        let _infallible = write!(out, ", {t} °C");
    }
    if let Some(health) = node.disk.health.as_ref().filter(|h| *h != "unknown") {
        let _infallible = write!(out, ", health {health}");
    }
    if let Some(file) = file {
        let _infallible = write!(out, ", {file}");
    }
    if let Some(why) = &node.why {
        let _infallible = write!(out, " ({why})");
    }
    out.push('\n');
    for child in &node.children {
        tree(out, child, depth + 1);
    }
}
