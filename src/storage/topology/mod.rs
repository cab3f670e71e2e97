//! The volume under a path, down to physical disks: what `spindle topology` prints.
//!
//! - `node`: the values; `shape`: columns, copies and kind from a tree; `advice`: remarks from a tree. Pure.
//! - `filesystem`: from a mount to what it lies on; `stack`, `md`, `dm`, `disk`: block devices.
//! - `roots`, `ask`: where the kernel's trees are and who answers what they do not tell; parameters, so that tests run
//!   over recorded machines.
//! - `figures`: asleep, temperature, health of a disk, without waking it; `watch`: what is remembered for the page.
//!
//! Nothing here fails for want of knowledge: what cannot be told is a node that says why.

pub(crate) mod advice;
pub(crate) mod ask;
pub(crate) mod disk;
mod dm;
pub(crate) mod figures;
mod filesystem;
pub(crate) mod md;
pub(crate) mod mounts;
pub(crate) mod node;
pub(crate) mod roots;
pub(crate) mod shape;
pub(crate) mod stack;
pub(crate) mod sysfs;
pub(crate) mod watch;

use std::path::Path;

pub use figures::DiskFigures;
pub(crate) use node::leaves;
pub use node::{Advice, DiskFacts, Filesystem, LayoutKind, Node, Sync, Tier, Topology};
pub(crate) use shape::Shape;
pub use watch::KnownVolume;

use ask::Ask;
use mounts::Mount;
use roots::{Look, Roots};
use stack::Builder;
use sysfs::Sysfs;

/// Reads the topology of a mounted filesystem, as the readers' plan needs it. `fsid` only for btrfs.
pub(crate) fn read(sys: &Sysfs, ask: &dyn Ask, mount: &Mount, fsid: Option<&str>, path: &Path) -> Topology {
    let roots = Roots::with_sys(sys, Look::Cached);
    let mut b = Builder::new(&roots, ask);
    let node = match fsid {
        Some(id) => b.btrfs_by_id(id, &mount.mount_point),
        None => b.filesystem(mount, path, false),
    };
    let mut filesystem = b.filesystem_facts(mount);
    filesystem.uuid = fsid.map(str::to_owned).or(filesystem.uuid);
    finish(path, filesystem, node)
}

/// The topology of a path on a known mount. `real`: the path without symbolic links.
pub(crate) fn describe(
    roots: &Roots,
    ask: &dyn Ask,
    mount: &Mount,
    path: &Path,
    real: &Path,
    is_file: bool,
) -> Topology {
    let mut b = Builder::new(roots, ask);
    let node = b.filesystem(mount, real, is_file);
    let filesystem = b.filesystem_facts(mount);
    finish(path, filesystem, node)
}

/// Columns, disks, tier and advice of a tree. Again after facts were added to its disks.
pub(crate) fn finish(path: &Path, filesystem: Filesystem, mut node: Node) -> Topology {
    let shape = shape::of(&mut node);
    let mut disks = Vec::new();
    leaves(&node, &mut disks);
    disks.sort_by_key(|d| sysfs::natural(d));
    let mut advice = advice::of(&node, &shape, disks.len());
    if filesystem.stopped_writes {
        advice.insert(0, advice::stopped_writes(&filesystem.kind));
    }
    // What is in memory is on no disk, once.
    let (columns, copies) = if node.kind == "memory" { (0, 0) } else { (shape.columns, shape.copies) };
    Topology {
        path: path.to_owned(),
        filesystem,
        advice,
        tier: tier(&node),
        node,
        columns,
        copies,
        disks,
        layout: shape.kind,
    }
}

impl Topology {
    /// Adds what the disks tell of themselves, as a command may ask.
    pub(crate) fn with_a_look_at_disks(mut self, asker: &std::sync::Arc<dyn figures::AskDisk>) -> Self {
        figures::look_once(&Sysfs::system(), &mut self.node, asker);
        finish(&self.path, self.filesystem, self.node)
    }

    /// Without names of places, machines and serial numbers: what somebody may see who does not own the machine.
    #[must_use]
    pub fn without_places(mut self) -> Self {
        self.node.visit_mut(&mut |n| {
            if matches!(
                n.kind.as_str(),
                "mergerfs" | "shfs" | "overlay" | "network" | "unknown" | "zfs" | "lvm" | "dm" | "crypt"
            ) {
                n.name.clone_from(&n.kind);
            }
            (n.path, n.backing_file, n.server, n.export) = (None, None, None, None);
            (n.disk.serial, n.disk.wwid) = (None, None);
            n.why = n.why.take().map(|_| "not known".to_owned());
        });
        self.filesystem.mount = std::path::PathBuf::new();
        finish(Path::new(""), self.filesystem, self.node)
    }
}

/// The first storey that keeps fast disks before slow ones.
fn tier(node: &Node) -> Option<Tier> {
    let of_role = |node: &Node, roles: &[&str]| {
        let mut out = Vec::new();
        for child in node.children.iter().filter(|c| c.role.as_deref().is_some_and(|r| roles.contains(&r))) {
            leaves(child, &mut out);
        }
        out
    };
    let level = node.level.as_deref().unwrap_or("");
    let kind = match (node.kind.as_str(), level) {
        ("bcache", _) => Some("bcache"),
        ("cache", _) | ("lvm", "cache") => Some("dm-cache"),
        ("writecache", _) | ("lvm", "writecache") => Some("dm-writecache"),
        ("zfs", "pool") if node.children.iter().any(|c| c.role.as_deref() == Some("special")) => {
            Some("zfs-special")
        }
        ("zfs", "pool") if node.children.iter().any(|c| c.role.as_deref() == Some("cache")) => {
            Some("zfs-cache")
        }
        _ => None,
    };
    if let Some(kind) = kind {
        let fast = of_role(node, &["cache", "special"]);
        if !fast.is_empty() {
            let state = node.state.clone();
            let mode = ["writethrough", "writeback", "writearound", "passthrough", "none"]
                .into_iter()
                .find(|m| state.as_deref().is_some_and(|s| s.split(", ").any(|w| w == *m)));
            return Some(Tier {
                kind: kind.to_owned(),
                fast,
                slow: of_role(node, &["origin", "data"]),
                mode: mode.map(str::to_owned),
                state,
            });
        }
    }
    if node.is_disk() { None } else { node.children.iter().find_map(tier) }
}

#[cfg(test)]
mod tests;
