//! A mounted filesystem as a set of physical disks, with its reader threads.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Arc, OnceLock};

use spindle_base::sync::Mutex;

use crate::error::StorageError;
use crate::layout::chunks::ChunkMap;
use crate::layout::{FileMap, Volume};
use crate::pool::Pool;
use crate::sys;
use crate::topology::mounts::Mount;
use crate::topology::sysfs::Sysfs;
use crate::topology::{self, Shape};
use crate::trace::Trace;

/// A physical disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Disk {
    /// Name in `/sys/block`.
    pub(crate) name: Arc<str>,
    /// The kernel's device number, `major << 20 | minor`, as its tracepoints show it.
    pub(crate) number: u32,
}

/// A filesystem.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) pool: Pool,
    mount: Mount,
    plan: OnceLock<Plan>,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pool")
    }
}

/// What a filesystem lies on.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) disks: Vec<Disk>,
    pub(crate) shape: Shape,
    /// Why the copy that a thread reads cannot be told, on a mirror.
    pub(crate) legs_unknown: Option<String>,
    /// For btrfs: identifier and number of devices. A device number is used again after an unmount; these
    /// tell whether it is still the same filesystem. Logical addresses are never used twice within one,
    /// so a chunk tree goes stale only by missing what is new.
    fingerprint: Option<(String, u64)>,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Plain { disk: usize, base: u64 },
    Btrfs { devices: BTreeMap<u64, (usize, u64)>, chunks: Mutex<Option<Arc<ChunkMap>>, 44> },
    Unknown(String),
}

/// Number of a device as tracepoints write it (include/linux/kdev_t.h `MKDEV`).
pub(crate) fn kernel_number((major, minor): (u32, u32)) -> u32 {
    (major << 20) | (minor & 0xF_FFFF)
}

impl Device {
    fn start(mount: Mount) -> Result<Self, StorageError> {
        let name = mount.source.rsplit('/').next().unwrap_or("disk").to_owned();
        Ok(Self { pool: Pool::start(&name)?, mount, plan: OnceLock::new() })
    }

    /// What it lies on; resolved once, by the first file that is opened on it, on a reader thread.
    pub(crate) fn plan(&self, fd: BorrowedFd<'_>, trace: &Trace) -> &Plan {
        self.plan.get_or_init(|| {
            let plan = resolve(&Sysfs::system(), &self.mount, fd);
            trace.watch(&plan.disks);
            plan
        })
    }

    /// Whether the filesystem that `fd` is on is the one that was resolved.
    fn is_current(&self, fd: BorrowedFd<'_>) -> bool {
        let Some(plan) = self.plan.get() else { return true };
        plan.fingerprint.is_none()
            || sys::btrfs::fs_info(fd).is_ok_and(|i| plan.fingerprint == Some((i.fsid, i.num_devices)))
    }

    /// Whether requests are submitted by threads of the filesystem's own, so that the thread says nothing.
    pub(crate) fn has_own_threads(&self) -> bool {
        self.mount.kind == "zfs"
    }

    /// Where it is mounted.
    pub(crate) fn mount(&self) -> &Mount {
        &self.mount
    }

    /// As `plan`, without resolving.
    pub(crate) fn known_plan(&self) -> Option<&Plan> {
        self.plan.get()
    }

    /// Maps a file that is open on it.
    pub(crate) fn map_file(&self, fd: BorrowedFd<'_>, trace: &Trace, sync: bool) -> Result<FileMap, String> {
        let plan = self.plan(fd, trace);
        if let Source::Unknown(why) = &plan.source {
            return Err(why.clone());
        }
        let extents = sys::fiemap::extents(fd, sync)
            .map_err(|e| format!("{} does not tell where files lie: {e}", self.mount.kind))?;
        let map = FileMap::new(extents.clone(), plan.volume(fd, trace, false)?);
        if map.is_covered() {
            return Ok(map);
        }
        // Chunks were made since the tree was read.
        Ok(FileMap::new(extents, plan.volume(fd, trace, true)?))
    }
}

impl Plan {
    fn volume(&self, fd: BorrowedFd<'_>, trace: &Trace, fresh: bool) -> Result<Volume, String> {
        match &self.source {
            Source::Plain { disk, base } => Ok(Volume::Plain { disk: *disk, base: *base }),
            Source::Unknown(why) => Err(why.clone()),
            Source::Btrfs { devices, chunks } => {
                let mut known = chunks.lock();
                if known.is_none() || fresh {
                    match sys::btrfs::chunks(fd).or_else(|_| trace.chunks(fd)) {
                        Ok(list) => *known = Some(Arc::new(ChunkMap::new(list))),
                        // One disk under it: which one needs no tree.
                        Err(_) if self.disks.len() == 1 => return Ok(Volume::OneDisk { disk: 0 }),
                        Err(e) => {
                            return Err(format!(
                                "the btrfs chunk tree, which says on which of {} disks bytes lie, needs CAP_SYS_ADMIN or the helper ({e})",
                                self.disks.len()
                            ));
                        }
                    }
                }
                let chunks = known.clone().unwrap_or_default();
                Ok(Volume::Btrfs { devices: devices.clone(), chunks })
            }
        }
    }

    /// Names of the disks.
    pub(crate) fn names(&self) -> Vec<Arc<str>> {
        self.disks.iter().map(|d| Arc::clone(&d.name)).collect()
    }
}

fn resolve(sys_tree: &Sysfs, mount: &Mount, fd: BorrowedFd<'_>) -> Plan {
    if mount.kind == "btrfs" {
        return resolve_btrfs(sys_tree, fd).unwrap_or_else(|why| Plan {
            disks: Vec::new(),
            shape: Shape::one_disk(),
            legs_unknown: None,
            fingerprint: None,
            source: Source::Unknown(why),
        });
    }
    let node = topology::read(sys_tree, mount, None, &mount.mount_point);
    let disks: Vec<Disk> = node
        .disks
        .iter()
        .filter_map(|name| {
            let on = Sysfs::on_disk(&sys_tree.by_name(name)?).ok()?;
            Some(Disk { name: on.disk.as_str().into(), number: kernel_number(on.device) })
        })
        .collect();
    let placed = match (sys_tree.by_number(mount.device), mount.kind.as_str()) {
        // Only filesystems of which FIEMAP's answers were compared with traced reads.
        (Some(dir), "ext2" | "ext3" | "ext4" | "xfs") => Sysfs::on_disk(&dir),
        (Some(_), kind) => Err(format!("how {kind} places files is not known here")),
        (None, kind) => Err(format!("{kind} does not say which disks it is on")),
    };
    let source = match placed {
        Ok(on) => match disks.iter().position(|d| *d.name == *on.disk) {
            Some(disk) => Source::Plain { disk, base: on.base },
            None => Source::Unknown(format!("{} is not listed in sysfs", on.disk)),
        },
        Err(why) => Source::Unknown(why),
    };
    Plan { disks, shape: Shape::one_disk(), legs_unknown: None, fingerprint: None, source }
}

fn resolve_btrfs(sys_tree: &Sysfs, fd: BorrowedFd<'_>) -> Result<Plan, String> {
    let info = sys::btrfs::fs_info(fd).map_err(|e| format!("btrfs does not answer: {e}"))?;
    let mut disks: Vec<Disk> = Vec::new();
    let mut devices = BTreeMap::new();
    let mut trouble = None;
    for devid in 1..=info.max_devid.min(4096) {
        let path = match sys::btrfs::device_path(fd, devid) {
            Ok(Some(path)) => path,
            Ok(None) => continue,
            Err(e) => return Err(format!("btrfs does not name device {devid}: {e}")),
        };
        let number =
            std::fs::metadata(&path).ok().map(|m| (rustix::fs::major(m.rdev()), rustix::fs::minor(m.rdev())));
        let dir = number
            .and_then(|n| sys_tree.by_number(n))
            .or_else(|| sys_tree.by_name(path.rsplit('/').next().unwrap_or("")));
        let on = dir.as_deref().ok_or_else(|| format!("{path} is not in sysfs")).and_then(Sysfs::on_disk);
        let on = match on {
            Ok(on) => on,
            Err(why) => {
                trouble = Some(why);
                let mut names = Vec::new();
                if let Some(dir) = dir {
                    topology::leaves(&sys_tree.node(&dir), &mut names);
                }
                for on in names.iter().filter_map(|n| Sysfs::on_disk(&sys_tree.by_name(n)?).ok()) {
                    add_disk(&mut disks, &on.disk, on.device);
                }
                continue;
            }
        };
        let index = add_disk(&mut disks, &on.disk, on.device);
        devices.insert(devid, (index, on.base));
    }
    let count = u32::try_from(devices.len()).unwrap_or(u32::MAX);
    let profiles = sys_tree.btrfs_data_profiles(&info.fsid);
    let shape = Shape::btrfs(profiles.first().map_or("single", |p| p.0.as_str()), count);
    let legs_unknown = if !sys_tree.btrfs_reads_by_pid(&info.fsid) {
        Some("this btrfs does not choose the copy by thread id (read_policy)".to_owned())
    } else if !in_first_pid_namespace() {
        Some("inside a PID namespace the kernel's thread ids, by which btrfs chooses the copy, are not visible".to_owned())
    } else {
        None
    };
    let source = match trouble {
        None => Source::Btrfs { devices, chunks: Mutex::new(None) },
        Some(why) => Source::Unknown(why),
    };
    Ok(Plan { disks, shape, legs_unknown, fingerprint: Some((info.fsid, info.num_devices)), source })
}

fn add_disk(disks: &mut Vec<Disk>, name: &str, device: (u32, u32)) -> usize {
    disks.iter().position(|d| *d.name == *name).unwrap_or_else(|| {
        disks.push(Disk { name: name.into(), number: kernel_number(device) });
        disks.len() - 1
    })
}

/// Whether thread ids here are the kernel's own: the first namespace has a fixed inode
/// (`PROC_PID_INIT_INO`, include/linux/proc_ns.h).
pub(crate) fn in_first_pid_namespace() -> bool {
    std::fs::read_link("/proc/self/ns/pid").is_ok_and(|l| l.to_string_lossy() == "pid:[4026531836]")
}

/// All devices that files were opened on, by the device number of the superblock.
#[derive(Debug, Default)]
pub(crate) struct Devices {
    known: Mutex<HashMap<(u32, u32), Arc<Device>>, 40>,
}

impl Devices {
    /// The device of a mount; its threads are started the first time.
    pub(crate) fn of(&self, mount: &Mount) -> Result<Arc<Device>, StorageError> {
        let mut known = self.known.lock();
        if let Some(device) = known.get(&mount.device) {
            // A number is used again after an unmount; a stale entry would name the wrong disks.
            if device.mount.kind == mount.kind && device.mount.source == mount.source {
                return Ok(Arc::clone(device));
            }
        }
        let device = Arc::new(Device::start(mount.clone())?);
        if let Some(old) = known.insert(mount.device, Arc::clone(&device)) {
            old.pool.retire();
        }
        Ok(device)
    }

    /// As `of`, for a file that is open: another filesystem under the same number gets a device of its own.
    pub(crate) fn of_open(&self, mount: &Mount, fd: BorrowedFd<'_>) -> Result<Arc<Device>, StorageError> {
        let device = self.of(mount)?;
        if device.is_current(fd) {
            return Ok(device);
        }
        {
            let mut known = self.known.lock();
            if let Some(old) = known.get(&mount.device).filter(|d| Arc::ptr_eq(d, &device)) {
                old.pool.retire();
                known.remove(&mount.device);
            }
        }
        self.of(mount)
    }

    pub(crate) fn all(&self) -> Vec<Arc<Device>> {
        self.known.lock().values().cloned().collect()
    }
}
