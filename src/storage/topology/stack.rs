//! Block devices made of block devices, down to disks. Reads attributes only, opens no device, wakes no disk.
//!
//! A device that cannot be told is a node that says so. Depth and number of nodes are limited, and a device that
//! contains itself is named as such: a damaged or hostile tree ends.

use std::path::{Path, PathBuf};

use super::ask::Ask;
use super::mounts::Mount;
use super::node::Node;
use super::roots::Roots;
use super::sysfs::Sysfs;
use super::{disk, dm, md};
use crate::sys;

/// Storeys that are followed. The deepest seen in use has eleven (file, overlay, loop, ext4, thin, pool, raid, image,
/// crypt, partition, disk).
pub(crate) const MAX_DEPTH: usize = 24;
/// Nodes of one answer: 90 disks behind 4 ways each, with partitions and a volume manager, are below it.
const MAX_NODES: usize = 4096;

/// Builds the nodes of one answer.
pub(crate) struct Builder<'a> {
    pub(crate) roots: &'a Roots,
    pub(crate) sys: Sysfs,
    pub(crate) ask: &'a dyn Ask,
    pub(crate) mounts: Vec<Mount>,
    /// Devices and mounts that are being described: whoever meets itself here is its own part.
    open: Vec<PathBuf>,
    nodes: usize,
}

impl<'a> Builder<'a> {
    pub(crate) fn new(roots: &'a Roots, ask: &'a dyn Ask) -> Self {
        Self {
            roots,
            sys: roots.sysfs(),
            ask,
            mounts: roots.mounts().unwrap_or_default(),
            open: Vec::new(),
            nodes: 0,
        }
    }

    /// Describes something that `key` stands for, unless that has no end.
    pub(crate) fn within(
        &mut self,
        key: PathBuf,
        name: &str,
        describe: impl FnOnce(&mut Self) -> Node,
    ) -> Node {
        self.nodes += 1;
        if self.open.contains(&key) {
            return Node::unknown(name, "it is made of itself, by the kernel's account");
        }
        if self.open.len() >= MAX_DEPTH {
            return Node::unknown(name, format!("deeper than {MAX_DEPTH} storeys: not followed"));
        }
        if self.nodes > MAX_NODES {
            return Node::unknown(name, format!("more than {MAX_NODES} devices: not followed"));
        }
        self.open.push(key);
        let node = describe(self);
        self.open.pop();
        node
    }

    /// Whether more nodes may be made: loops over members ask before each.
    pub(crate) fn is_full(&self) -> bool {
        self.nodes > MAX_NODES
    }

    /// A block device by a name that a filesystem, pool or table uses for it.
    pub(crate) fn named(&mut self, name: &str) -> Node {
        match self.roots.block_device(name) {
            Some(dir) => self.device(&dir),
            None => Node::unknown(name, format!("`{name}` is not among the kernel's block devices")),
        }
    }

    /// A block device by number.
    pub(crate) fn numbered(&mut self, (major, minor): (u32, u32)) -> Node {
        match self.sys.by_number((major, minor)) {
            Some(dir) => self.device(&dir),
            None => Node::unknown(
                format!("{major}:{minor}"),
                format!("device {major}:{minor} is not among the kernel's block devices"),
            ),
        }
    }

    /// A block device by its sysfs directory, without symbolic links.
    pub(crate) fn device(&mut self, dir: &Path) -> Node {
        let name = Sysfs::name(dir);
        let dir = dir.to_owned();
        self.within(dir.clone(), &name.clone(), move |b| b.describe(&dir, name))
    }

    fn describe(&mut self, dir: &Path, name: String) -> Node {
        let mut node = Node {
            path: Some(format!("/dev/{}", name.replace('!', "/"))),
            size_bytes: Sysfs::number(dir, "size").unwrap_or(0).saturating_mul(512),
            read_ahead_bytes: Sysfs::number(dir, "queue/read_ahead_kb").map(|k| k.saturating_mul(1024)),
            ..Node::new("unknown", name)
        };
        if Sysfs::number(dir, "ro").is_some_and(|r| r != 0) {
            node.state = Some("read-only".to_owned());
        }
        if dir.join("partition").exists()
            && let Some(parent) = dir.parent()
        {
            "partition".clone_into(&mut node.kind);
            node.start_bytes = Some(Sysfs::number(dir, "start").unwrap_or(0).saturating_mul(512));
            node.children = vec![self.device(parent)];
            return node;
        }
        if dir.join("md").is_dir() {
            return md::describe(self, dir, node);
        }
        if dir.join("dm").is_dir() {
            return dm::describe(self, dir, node);
        }
        if node.name.starts_with("bcache") && dir.join("bcache").exists() {
            return self.bcache(dir, node);
        }
        if dir.join("loop").is_dir() || is_numbered(&node.name, "loop") {
            return self.looped(dir, node);
        }
        let slaves = Sysfs::slaves(dir);
        if !slaves.is_empty() {
            node.why = Some("made of other devices in a way that is not known here".to_owned());
            node.children = self.devices(&slaves);
            return node;
        }
        disk::describe(self, dir, node)
    }

    pub(crate) fn devices(&mut self, dirs: &[PathBuf]) -> Vec<Node> {
        dirs.iter().map_while(|d| (!self.is_full()).then(|| self.device(d))).collect()
    }

    /// Backing device and cache set: Documentation/admin-guide/bcache.rst.
    fn bcache(&mut self, dir: &Path, mut node: Node) -> Node {
        "bcache".clone_into(&mut node.kind);
        let facts = sys::bcache::read(dir, &Sysfs::slaves(dir));
        node.level.clone_from(&facts.mode);
        node.state = facts.state_text();
        node.why = facts.why.clone();
        node.degraded = facts.is_failing();
        for backing in &facts.backing {
            node.children.push(self.device(backing).with_role("origin"));
        }
        for cache in &facts.caches {
            node.children.push(self.device(cache).with_role("cache"));
        }
        if facts.backing.is_empty() {
            // A volume that lives on the cache set alone (`flash_vol_create`).
            for child in &mut node.children {
                child.role = Some("data".to_owned());
            }
        }
        node
    }

    fn looped(&mut self, dir: &Path, mut node: Node) -> Node {
        "loop".clone_into(&mut node.kind);
        disk::facts(dir, &mut node.disk);
        node.disk.transport = Some("loop".to_owned());
        let Some(file) = Sysfs::text(dir, "loop/backing_file").filter(|f| !f.is_empty()) else {
            node.why = Some("no file is behind it, or it is not shown".to_owned());
            return node;
        };
        if let Some(offset) = Sysfs::number(dir, "loop/offset").filter(|o| *o > 0) {
            node.start_bytes = Some(offset);
        }
        match file.strip_suffix(" (deleted)") {
            Some(gone) => {
                node.why = Some("its file was deleted: the disk below it cannot be told".to_owned());
                node.backing_file = Some(gone.to_owned());
            }
            None => {
                let child = self.path(Path::new(&file));
                node.backing_file = Some(file);
                node.children = vec![child.with_role("data")];
            }
        }
        node
    }
}

/// `loop7`: the prefix and digits alone.
pub(crate) fn is_numbered(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix).is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}
