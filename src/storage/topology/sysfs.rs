//! `/sys`: block devices down to physical disks. Reads attributes only, opens no device, wakes no disk.
//! The root is a parameter so that tests run over recorded trees.

use std::fs;
use std::path::{Path, PathBuf};

use super::Node;

/// A sysfs tree.
#[derive(Debug, Clone)]
pub(crate) struct Sysfs {
    root: PathBuf,
}

/// Depth of stacked devices that is followed; a loop in a damaged tree ends here.
const MAX_DEPTH: usize = 16;

/// Where a block device lies on a physical disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OnDisk {
    /// Name in `/sys/block`.
    pub(crate) disk: String,
    /// First byte of it on the whole disk.
    pub(crate) base: u64,
    /// Device number of the whole disk.
    pub(crate) device: (u32, u32),
}

impl Sysfs {
    pub(crate) fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    pub(crate) fn system() -> Self {
        Self::new("/sys")
    }

    /// The directory of device number `major:minor`.
    pub(crate) fn by_number(&self, (major, minor): (u32, u32)) -> Option<PathBuf> {
        fs::canonicalize(self.root.join(format!("dev/block/{major}:{minor}"))).ok()
    }

    /// The directory of a block device (disk or partition) by name.
    pub(crate) fn by_name(&self, name: &str) -> Option<PathBuf> {
        if name.is_empty() || name.contains('/') {
            return None;
        }
        fs::canonicalize(self.root.join("class/block").join(name)).ok()
    }

    /// An attribute without surrounding blanks.
    pub(crate) fn text(dir: &Path, attribute: &str) -> Option<String> {
        let text = fs::read_to_string(dir.join(attribute)).ok()?;
        Some(text.trim().to_owned())
    }

    pub(crate) fn number(dir: &Path, attribute: &str) -> Option<u64> {
        Self::text(dir, attribute)?.parse().ok()
    }

    fn device_number(dir: &Path) -> Option<(u32, u32)> {
        let text = Self::text(dir, "dev")?;
        let (major, minor) = text.split_once(':')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    }

    fn name(dir: &Path) -> String {
        // sysfs writes `!` for `/` in names (cciss!c0d0); /sys/block has the same name.
        dir.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    fn slaves(dir: &Path) -> Vec<PathBuf> {
        let mut out: Vec<PathBuf> = fs::read_dir(dir.join("slaves"))
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|e| fs::canonicalize(e.path()).ok())
            .collect();
        out.sort();
        out
    }

    /// Resolves a disk or partition; `Err` says what else it is.
    pub(crate) fn on_disk(dir: &Path) -> Result<OnDisk, String> {
        let name = Self::name(dir);
        let (whole, base) = match (dir.join("partition").exists(), dir.parent()) {
            (true, Some(parent)) => (parent.to_owned(), Self::number(dir, "start").unwrap_or(0) * 512),
            _ => (dir.to_owned(), 0),
        };
        if let Some(kind) = Self::stacked(&whole) {
            return Err(format!("{name} is {kind}, whose layout is not read yet"));
        }
        Ok(OnDisk {
            disk: Self::name(&whole),
            base,
            device: Self::device_number(&whole)
                .ok_or_else(|| format!("{name} has no device number in sysfs"))?,
        })
    }

    /// What kind of device made of others this is, if it is one.
    fn stacked(dir: &Path) -> Option<String> {
        if let Some(level) = Self::text(dir, "md/level") {
            return Some(format!("an md array ({level})"));
        }
        if let Some(uuid) = Self::text(dir, "dm/uuid") {
            let kind = match uuid.split('-').next().unwrap_or("") {
                "LVM" => "an LVM volume",
                "CRYPT" => "an encrypted volume",
                "mpath" => "a multipath device",
                _ => "a device-mapper volume",
            };
            return Some(kind.to_owned());
        }
        if dir.join("bcache").exists() && !Self::slaves(dir).is_empty() {
            return Some("a bcache device".to_owned());
        }
        (!Self::slaves(dir).is_empty()).then(|| "made of other devices".to_owned())
    }

    /// The node of a block device, with everything below it.
    pub(crate) fn node(dir: &Path) -> Node {
        Self::node_at(dir, 0)
    }

    fn node_at(dir: &Path, depth: usize) -> Node {
        let name = Self::name(dir);
        let size_bytes = Self::number(dir, "size").unwrap_or(0) * 512;
        let mut node = Node { name, size_bytes, ..Node::default() };
        if dir.join("partition").exists()
            && let Some(parent) = dir.parent()
        {
            "partition".clone_into(&mut node.kind);
            node.start_bytes = Some(Self::number(dir, "start").unwrap_or(0) * 512);
            node.children = vec![Self::node_at(parent, depth + 1)];
            return node;
        }
        if let Some(what) = Self::stacked(dir) {
            "unknown".clone_into(&mut node.kind);
            node.state = Some(format!("{what}: its layout is not read yet, only the devices below it"));
            if depth < MAX_DEPTH {
                node.children = Self::slaves(dir).iter().map(|d| Self::node_at(d, depth + 1)).collect();
            }
            return node;
        }
        node.rotational = Self::number(dir, "queue/rotational").map(|r| r != 0);
        if node.name.starts_with("loop") {
            "loop".clone_into(&mut node.kind);
            node.backing_file = Self::text(dir, "loop/backing_file");
            return node;
        }
        "disk".clone_into(&mut node.kind);
        node.model = Self::text(dir, "device/model").filter(|m| !m.is_empty());
        node
    }

    /// Profiles of a mounted btrfs's data (`single`, `raid1`, ..) that hold something, and bytes in each.
    pub(crate) fn btrfs_data_profiles(&self, fsid: &str) -> Vec<(String, u64)> {
        let dir = self.root.join("fs/btrfs").join(fsid).join("allocation/data");
        let mut out: Vec<(String, u64)> = fs::read_dir(dir)
            .into_iter()
            .flatten()
            .flatten()
            .filter(|e| e.path().is_dir())
            .map(|e| {
                (
                    e.file_name().to_string_lossy().into_owned(),
                    Self::number(&e.path(), "total_bytes").unwrap_or(0),
                )
            })
            .filter(|(_, total)| *total > 0)
            .collect();
        out.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        out
    }

    /// Directories of a mounted btrfs's member devices, by name.
    pub(crate) fn btrfs_members(&self, fsid: &str) -> Vec<PathBuf> {
        let dir = self.root.join("fs/btrfs").join(fsid).join("devices");
        let mut out: Vec<PathBuf> = fs::read_dir(dir)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|e| fs::canonicalize(e.path()).ok())
            .collect();
        out.sort();
        out
    }

    /// Whether the mirror leg is chosen by thread id (`[pid]`), the policy that can be foretold.
    pub(crate) fn btrfs_reads_by_pid(&self, fsid: &str) -> bool {
        // Kernels without the file (before 5.13) know only that policy.
        Self::text(&self.root.join("fs/btrfs").join(fsid), "read_policy").is_none_or(|p| p.contains("[pid]"))
    }

    /// Label of a mounted btrfs.
    pub(crate) fn btrfs_label(&self, fsid: &str) -> Option<String> {
        Self::text(&self.root.join("fs/btrfs").join(fsid), "label").filter(|l| !l.is_empty())
    }

    /// `stat` of a whole disk: the counters of Documentation/block/stat.rst.
    pub(crate) fn counters(&self, disk: &str) -> Option<DiskCounters> {
        let text = Self::text(&self.root.join("class/block").join(disk), "stat")?;
        let f: Vec<u64> = text.split_whitespace().map_while(|w| w.parse().ok()).collect();
        Some(DiskCounters {
            reads: *f.first()?,
            read_bytes: f.get(2)? * 512,
            writes: *f.get(4)?,
            write_bytes: f.get(6)? * 512,
            busy_ms: *f.get(9)?,
        })
    }
}

/// Totals of one disk since the machine started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct DiskCounters {
    pub(crate) reads: u64,
    pub(crate) read_bytes: u64,
    pub(crate) writes: u64,
    pub(crate) write_bytes: u64,
    pub(crate) busy_ms: u64,
}
