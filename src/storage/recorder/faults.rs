//! Disks that fail while something plays: what the kernel's own files say of them, once a second. No device is
//! opened, no command is sent, no disk is woken.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::sync::Arc;

use crate::topology::sysfs::Sysfs;

/// What is known of a disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Health {
    is_there: bool,
    /// `device/state`: `running`, `offline`, `transport-offline`, .. (drivers/scsi/scsi_sysfs.c); NVMe: `live`, `dead`.
    state: Option<String>,
    /// Commands that ended with an error, `device/ioerr_cnt` of SCSI.
    errors: u64,
    /// By array or filesystem: what that says of it.
    members: BTreeMap<String, Membership>,
}

/// What an md array or a btrfs says of a disk of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Membership {
    is_out: bool,
    /// Reads that failed, and reads of which the checksum was wrong.
    errors: u64,
}

/// A btrfs in use: its identifier, and the disk under each of its devices by number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Members {
    pub(crate) fsid: String,
    pub(crate) disks: Vec<(u64, Arc<str>)>,
}

/// Remembers what was last seen, to tell what is new.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    known: HashMap<Arc<str>, Health>,
    btrfs: Vec<Members>,
    /// Filesystems in use, by device number: a name for people, and whether it may be written.
    volumes: BTreeMap<(u32, u32), (String, Option<bool>)>,
}

impl Faults {
    pub(crate) fn add_btrfs(&mut self, members: Members) {
        self.btrfs.retain(|m| m.fsid != members.fsid);
        self.btrfs.push(members);
    }

    pub(crate) fn add_volume(&mut self, device: (u32, u32), name: &str) {
        self.volumes.entry(device).or_insert_with(|| (name.to_owned(), None));
    }

    /// What became worse since the last look: (disk, words).
    pub(crate) fn look<'a>(
        &mut self,
        sys: &Sysfs,
        disks: impl Iterator<Item = &'a Arc<str>>,
    ) -> Vec<(Arc<str>, String)> {
        let mut out = Vec::new();
        for disk in disks {
            let now = self.health(sys, disk);
            if let Some(before) = self.known.get(disk) {
                out.extend(changes(before, &now).into_iter().map(|what| (Arc::clone(disk), what)));
            }
            self.known.insert(Arc::clone(disk), now);
        }
        out
    }

    /// Filesystems that may no longer be written, by the text of `/proc/self/mountinfo`: the kernel turns them so
    /// when it cannot trust them any more.
    pub(crate) fn gone_read_only(&mut self, mountinfo: &str) -> Vec<String> {
        let mut out = Vec::new();
        let mut listed = BTreeSet::new();
        for (device, is_read_only) in mountinfo.lines().filter_map(superblock) {
            // The same superblock may be mounted in several places; it is one.
            let Some((name, was)) = self.volumes.get_mut(&device).filter(|_| listed.insert(device)) else {
                continue;
            };
            if *was == Some(false) && is_read_only {
                out.push(format!(
                    "{name} may no longer be written: its filesystem has turned read-only; playing goes on"
                ));
            }
            *was = Some(is_read_only);
        }
        out
    }

    fn health(&self, sys: &Sysfs, disk: &str) -> Health {
        let Some(dir) = sys.by_name(disk) else { return Health::default() };
        let mut health = Health {
            is_there: true,
            state: Sysfs::text(&dir, "device/state"),
            errors: Sysfs::text(&dir, "device/ioerr_cnt")
                .and_then(|t| u64::from_str_radix(t.trim_start_matches("0x"), 16).ok())
                .unwrap_or(0),
            members: BTreeMap::new(),
        };
        // The disk itself, and its partitions, which are directories below it with a start.
        let parts = fs::read_dir(&dir).into_iter().flatten().flatten().map(|e| e.path());
        let parts = parts.filter(|p| p.join("partition").exists());
        for part in parts.chain([dir.clone()]) {
            let Some(name) = part.file_name().map(|n| n.to_string_lossy().into_owned()) else { continue };
            for holder in fs::read_dir(part.join("holders")).into_iter().flatten().flatten() {
                let member = holder.path().join(format!("md/dev-{name}"));
                if let Some(state) = Sysfs::text(&member, "state") {
                    let array = holder.file_name().to_string_lossy().into_owned();
                    let is_out = state.split(',').any(|s| s.trim() == "faulty");
                    let errors = Sysfs::number(&member, "errors").unwrap_or(0);
                    health.members.insert(array, Membership { is_out, errors });
                }
            }
        }
        for members in &self.btrfs {
            for (devid, _) in members.disks.iter().filter(|(_, d)| **d == *disk) {
                let its = sys.btrfs_member(&members.fsid, *devid);
                let name = format!("btrfs {}", members.fsid.get(..8).unwrap_or(&members.fsid));
                health.members.insert(name, Membership { is_out: its.0, errors: its.1 });
            }
        }
        health
    }
}

/// In plain words, what is worse.
fn changes(before: &Health, now: &Health) -> Vec<String> {
    let mut out = Vec::new();
    if before.is_there && !now.is_there {
        out.push("the disk is gone".to_owned());
        return out;
    }
    let is_fine = |s: &Option<String>| s.as_deref().is_none_or(|s| matches!(s, "running" | "live"));
    if is_fine(&before.state) && !is_fine(&now.state) {
        out.push(format!("the disk does not answer any more ({})", now.state.as_deref().unwrap_or("")));
    }
    for (name, its) in &now.members {
        let was = before.members.get(name).cloned().unwrap_or_default();
        if its.is_out && !was.is_out {
            out.push(format!("{name} has dropped the disk: it failed"));
        }
        if its.errors > was.errors {
            out.push(format!("{name} counted {} errors on the disk", its.errors - was.errors));
        }
    }
    // An array that dropped it takes its directory away.
    for name in before.members.keys().filter(|n| !now.members.contains_key(*n)) {
        out.push(format!("{name} does not use the disk any more"));
    }
    if out.is_empty() && now.errors > before.errors {
        out.push(format!("{} commands of the disk failed", now.errors - before.errors));
    }
    out
}

/// Device number and whether the superblock is read-only, from a line of mountinfo (proc_pid_mountinfo(5)): the
/// options of the superblock are the last word.
fn superblock(line: &str) -> Option<((u32, u32), bool)> {
    let (major, minor) = line.split(' ').nth(2)?.split_once(':')?;
    let options = line.rsplit(' ').next()?;
    let is_read_only = options.split(',').any(|o| o == "ro" || o == "emergency_ro");
    Some(((major.parse().ok()?, minor.parse().ok()?), is_read_only))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn healthy() -> Health {
        Health { is_there: true, state: Some("running".to_owned()), ..Health::default() }
    }

    #[test]
    fn a_disk_that_is_pulled_is_told_by_its_absence_alone() {
        assert_eq!(changes(&healthy(), &Health::default()), ["the disk is gone"]);
        assert_eq!(changes(&Health::default(), &Health::default()), Vec::<String>::new());
        assert_eq!(changes(&healthy(), &healthy()), Vec::<String>::new());
    }

    #[test]
    fn an_array_that_drops_a_disk_and_a_filesystem_that_counts_errors_are_believed() {
        let member = |is_out, errors| BTreeMap::from([("md0".to_owned(), Membership { is_out, errors })]);
        let before = Health { members: member(false, 0), ..healthy() };
        let now = Health { members: member(true, 3), ..healthy() };
        assert_eq!(
            changes(&before, &now),
            ["md0 has dropped the disk: it failed", "md0 counted 3 errors on the disk"]
        );
        assert_eq!(changes(&before, &healthy()), ["md0 does not use the disk any more"]);
        let offline = Health { state: Some("offline".to_owned()), ..healthy() };
        assert_eq!(changes(&healthy(), &offline), ["the disk does not answer any more (offline)"]);
    }

    #[test]
    fn a_tree_of_files_is_read_and_a_failed_member_found_below_a_partition() {
        let root = tempfile::tempdir().unwrap();
        let disk = root.path().join("devices/sda");
        let md = root.path().join("devices/md0");
        for d in ["device", "sda1/holders"] {
            fs::create_dir_all(disk.join(d)).unwrap();
        }
        fs::create_dir_all(md.join("md/dev-sda1")).unwrap();
        fs::create_dir_all(root.path().join("class/block")).unwrap();
        let link = |from: &std::path::Path, to: &str| {
            std::os::unix::fs::symlink(from, root.path().join(to)).unwrap();
        };
        link(&disk, "class/block/sda");
        link(&md, "devices/sda/sda1/holders/md0");
        fs::write(disk.join("device/state"), "running\n").unwrap();
        fs::write(disk.join("device/ioerr_cnt"), "0x1f\n").unwrap();
        fs::write(disk.join("sda1/partition"), "1\n").unwrap();
        fs::write(md.join("md/dev-sda1/state"), "in_sync\n").unwrap();
        let sys = Sysfs::new(root.path());
        let (mut faults, name) = (Faults::default(), [Arc::<str>::from("sda")]);
        assert_eq!(faults.look(&sys, name.iter()), []);
        assert_eq!(faults.known["sda"].errors, 31);
        fs::write(md.join("md/dev-sda1/state"), "faulty\n").unwrap();
        let told = faults.look(&sys, name.iter());
        assert_eq!(told, [(name[0].clone(), "md0 has dropped the disk: it failed".to_owned())]);
        assert_eq!(faults.look(&sys, name.iter()), []);
    }

    #[test]
    fn a_filesystem_that_turns_read_only_is_told_once_and_one_that_always_was_is_not() {
        let line = |n: u32, o: &str| format!("30 1 8:{n} / /m rw,relatime shared:1 - ext4 /dev/sd{n} {o}\n");
        let mut faults = Faults::default();
        faults.add_volume((8, 1), "/m");
        faults.add_volume((8, 2), "/archive");
        let fine = line(1, "rw,errors=remount-ro") + &line(2, "ro") + &line(3, "rw");
        assert_eq!(faults.gone_read_only(&fine), Vec::<String>::new());
        let worse = line(1, "ro,errors=remount-ro") + &line(2, "ro") + &line(3, "ro");
        assert_eq!(faults.gone_read_only(&worse).len(), 1);
        assert_eq!(faults.gone_read_only(&worse), Vec::<String>::new());
    }
}
