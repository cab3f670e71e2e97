//! `/sys`: block devices down to physical disks. Reads attributes only, opens no device, wakes no disk.
//! The root is a parameter so that tests run over recorded trees.

use std::fs;
use std::path::{Path, PathBuf};

/// A sysfs tree.
#[derive(Debug, Clone)]
pub(crate) struct Sysfs {
    root: PathBuf,
}

/// Entries of a folder that are looked at.
const MAX_LISTED: usize = 4096;
/// Bytes of an attribute that are read: sysfs gives a page at most.
const MAX_TEXT: u64 = 64 << 10;

/// Sorts `sda9` before `sda10`: runs of digits by their value.
pub(crate) fn natural(name: &str) -> Vec<(bool, u64, String)> {
    let mut out: Vec<(bool, u64, String)> = Vec::new();
    for c in name.chars() {
        let digit = c.to_digit(10);
        match (out.last_mut(), digit) {
            (Some((true, n, _)), Some(d)) => *n = n.saturating_mul(10).saturating_add(u64::from(d)),
            (Some((false, _, text)), None) => text.push(c),
            (_, Some(d)) => out.push((true, u64::from(d), String::new())),
            (_, None) => out.push((false, 0, c.to_string())),
        }
    }
    out
}

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

    /// The directory of the device-mapper device of that name.
    pub(crate) fn mapped(&self, name: &str) -> Option<PathBuf> {
        let entries = fs::read_dir(self.root.join("class/block")).ok()?;
        entries
            .flatten()
            .filter(|e| e.file_name().to_string_lossy().starts_with("dm-"))
            .take(MAX_LISTED)
            .find(|e| Self::text(&e.path(), "dm/name").as_deref() == Some(name))
            .and_then(|e| fs::canonicalize(e.path()).ok())
    }

    /// Where the tree is.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// A file of the tree.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Names in a folder, in order; a damaged tree gives at most some thousands.
    pub(crate) fn names(dir: &Path) -> Vec<String> {
        let mut out: Vec<String> = fs::read_dir(dir)
            .into_iter()
            .flatten()
            .flatten()
            .take(MAX_LISTED)
            .map(|e| e.file_name().to_string_lossy().into_owned())
            .collect();
        out.sort_by_key(|name| natural(name));
        out
    }

    /// An attribute without surrounding blanks.
    pub(crate) fn text(dir: &Path, attribute: &str) -> Option<String> {
        use std::io::Read as _;
        let mut bytes = Vec::new();
        fs::File::open(dir.join(attribute)).ok()?.take(MAX_TEXT).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    pub(crate) fn number(dir: &Path, attribute: &str) -> Option<u64> {
        Self::text(dir, attribute)?.parse().ok()
    }

    pub(crate) fn device_number(dir: &Path) -> Option<(u32, u32)> {
        let text = Self::text(dir, "dev")?;
        let (major, minor) = text.split_once(':')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    }

    pub(crate) fn name(dir: &Path) -> String {
        // sysfs writes `!` for `/` in names (cciss!c0d0); /sys/block has the same name.
        dir.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    pub(crate) fn slaves(dir: &Path) -> Vec<PathBuf> {
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

    /// What a mounted btrfs says of its device number `devid`: whether it is missing, and how many reads of it
    /// failed or had a wrong checksum (`devinfo`, Documentation/ABI of fs/btrfs/sysfs.c).
    pub(crate) fn btrfs_member(&self, fsid: &str, devid: u64) -> (bool, u64) {
        let dir = self.root.join("fs/btrfs").join(fsid).join("devinfo").join(devid.to_string());
        let text = Self::text(&dir, "error_stats").unwrap_or_default();
        let of = |line: &str| line.split_whitespace().nth(1).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
        let reads = text.lines().filter(|l| l.starts_with("read_errs") || l.starts_with("corruption_errs"));
        (Self::text(&dir, "missing").is_some_and(|m| m == "1"), reads.map(of).sum())
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
