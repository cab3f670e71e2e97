//! A mounted filesystem as a set of physical disks, with its reader threads.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use spindle_base::sync::Mutex;

use crate::error::StorageError;
use crate::layout::chunks::{Chunk, ChunkMap};
use crate::layout::report::{self, Names};
use crate::layout::verify::{self, Verified};
use crate::layout::{FileMap, Layout, LayoutOptions};
use crate::map::resolve::{Leaf, Resolver, Stamps};
use crate::map::volume::{self, Ground, Machine};
use crate::map::zfs;
use crate::map::{Member, Node};
use crate::mapper::Known;
use crate::pool::Pool;
use crate::storage::mount_of;
use crate::sys;
use crate::topology::ask::ByTrace;
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
    /// Disks that are gone, by what they were.
    gone: Vec<Arc<str>>,
    /// What the stack of devices depends on: a member that fails, a volume that moves.
    stamps: Stamps,
}

#[derive(Debug)]
enum Source {
    Device(Arc<Node>),
    Btrfs { devices: Arc<BTreeMap<u64, Member>>, chunks: Mutex<Option<Arc<ChunkMap>>, 44> },
    Zfs { leaves: Arc<Vec<volume::Leaf>>, pool: Mutex<Option<Arc<zfs::Pool>>, 44> },
    Unknown(String),
}

/// Number of a device as tracepoints write it (include/linux/kdev_t.h `MKDEV`).
pub(crate) fn kernel_number((major, minor): (u32, u32)) -> u32 {
    (major << 20) | (minor & 0xF_FFFF)
}

impl Device {
    pub(crate) fn start(mount: Mount) -> Result<Self, StorageError> {
        let name = mount.source.rsplit('/').next().unwrap_or("disk").to_owned();
        Ok(Self { pool: Pool::start(&name)?, mount, plan: OnceLock::new() })
    }

    /// What it lies on; resolved once, by the first file that is opened on it, on a reader thread.
    pub(crate) fn plan(&self, fd: BorrowedFd<'_>, trace: &Trace) -> &Plan {
        self.plan.get_or_init(|| {
            let plan = Plan::resolve(&Sysfs::system(), &self.mount, fd, &LayoutOptions::default(), trace);
            trace.watch(&plan.disks);
            plan
        })
    }

    /// Whether the filesystem that `fd` is on is the one that was resolved, on the devices that it was on.
    fn is_current(&self, fd: BorrowedFd<'_>) -> bool {
        let Some(plan) = self.plan.get() else { return true };
        let same = plan.fingerprint.is_none()
            || sys::btrfs::fs_info(fd).is_ok_and(|i| plan.fingerprint == Some((i.fsid, i.num_devices)));
        let changed = plan.stamps.changed();
        if !same || changed.is_some() {
            let mount = self.mount.mount_point.display();
            tracing::info!(%mount, ?changed, "what a filesystem lies on is not as it was: it is looked at anew");
        }
        same && changed.is_none()
    }

    /// Whether requests are submitted by threads of the filesystem's own, so that the thread says nothing.
    pub(crate) fn has_own_threads(&self) -> bool {
        self.mount.kind == "zfs"
    }

    /// Whether the kernel asks another machine whether the file is still the same before it gives what it has in memory
    /// (fs/nfs/file.c `nfs_file_splice_read`, fs/smb/client/cifsfs.c; likewise 9p and ceph). FUSE does not: since 6.5 its
    /// splice is the page cache's own, and before that nothing of it counts as in memory here.
    pub(crate) fn revalidates(&self) -> bool {
        matches!(self.mount.kind.as_str(), "nfs" | "nfs4" | "cifs" | "smb3" | "9p" | "ceph" | "afs")
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
        plan.map_file(&self.mount, fd, trace, sync)
    }

    /// What `spindle layout` asks: with other options than the recorder's the stack is resolved anew. `known`: the file's map, or why
    /// there is none, where to ask takes long and somebody just has.
    pub(crate) fn layout(
        &self,
        (fd, file, size_bytes): (BorrowedFd<'_>, &Path, u64),
        options: &LayoutOptions,
        known: Option<Known<'_>>,
        trace: &Trace,
    ) -> Layout {
        let fresh;
        let plan = if options.through_loops > 0 {
            fresh = Plan::resolve(&Sysfs::system(), &self.mount, fd, options, trace);
            &fresh
        } else {
            self.plan(fd, trace)
        };
        let names = plan.all_names();
        let fresh;
        let map = match known {
            Some(known) => known,
            None => {
                fresh = plan.map_file(&self.mount, fd, trace, true);
                fresh.as_ref()
            }
        };
        match map {
            Ok(map) => report::layout(map, file.to_owned(), size_bytes, &names, options),
            Err(why) => Layout {
                file: file.to_owned(),
                size_bytes,
                why_inexact: Some(why.clone()),
                candidates: names.present.iter().map(ToString::to_string).collect(),
                ..Layout::default()
            },
        }
    }

    /// Compares what a layout says with the disks themselves.
    pub(crate) fn verify(
        &self,
        (fd, size_bytes): (BorrowedFd<'_>, u64),
        options: &LayoutOptions,
        trace: &Trace,
    ) -> Result<Verified, String> {
        let plan = Plan::resolve(&Sysfs::system(), &self.mount, fd, options, trace);
        let map = plan.map_file(&self.mount, fd, trace, true)?;
        verify::verify(fd, size_bytes, &map, &plan.all_names())
    }
}

impl Plan {
    fn resolve(
        sys_tree: &Sysfs,
        mount: &Mount,
        fd: BorrowedFd<'_>,
        options: &LayoutOptions,
        trace: &Trace,
    ) -> Self {
        let machine = Machine {
            table: &|device| trace.dm_table(device),
            chunks: &|fd| chunks_of(fd, trace),
            mount: &|fd, path| mount_of(fd, path).map_err(|e| e.to_string()),
            through_loops: options.through_loops,
        };
        let mut resolver = Resolver::new(sys_tree, &machine);
        let ground = volume::ground(&mut resolver, mount, fd);
        let fingerprint = (mount.kind == "btrfs")
            .then(|| sys::btrfs::fs_info(fd).ok().map(|i| (i.fsid, i.num_devices)))
            .flatten();
        let fsid = fingerprint.as_ref().map(|f| f.0.as_str());
        let asked = ByTrace(trace.clone());
        let top = topology::read(sys_tree, &asked, mount, fsid, &mount.mount_point);
        if ground.is_err() {
            // Which disks, if not where on them.
            for dir in top.disks.iter().filter_map(|name| sys_tree.by_name(name)) {
                resolver.device(&dir);
            }
        }
        let found = resolver.finish();
        let (source, has_block_mirror) = match ground {
            Ok(Ground::Device(node)) => {
                let has = node.has_mirror();
                (Source::Device(node), has)
            }
            Ok(Ground::Btrfs(devices)) => {
                let has = devices.values().any(|m| m.node.has_mirror());
                (Source::Btrfs { devices, chunks: Mutex::new(None) }, has)
            }
            Ok(Ground::Zfs(leaves)) => (Source::Zfs { leaves, pool: Mutex::new(None) }, false),
            Err(why) => (Source::Unknown(why), false),
        };
        Self {
            disks: found.leaves.iter().map(Disk::of).collect(),
            shape: Shape {
                columns: top.columns,
                copies: top.copies,
                kind: top.layout,
                // Of the storey that decides: what lies on an array through partitions, encryption or a linear volume is
                // striped as the array is.
                ..topology::shape::of(&mut top.node.clone())
            },
            legs_unknown: legs_unknown(sys_tree, fsid, has_block_mirror),
            fingerprint,
            source,
            gone: found.gone,
            stamps: found.stamps,
        }
    }

    /// Maps a file that is open on it.
    fn map_file(
        &self,
        mount: &Mount,
        fd: BorrowedFd<'_>,
        trace: &Trace,
        sync: bool,
    ) -> Result<FileMap, String> {
        if let Source::Unknown(why) = &self.source {
            return Err(why.clone());
        }
        if let Source::Zfs { leaves, .. } = &self.source {
            return self.map_zfs(mount, fd, trace, leaves);
        }
        if mount.kind == "xfs" && sys::fiemap::is_realtime(fd) {
            return Err("it is on the realtime device of its xfs, which the kernel does not name".to_owned());
        }
        let extents = sys::fiemap::extents(fd, sync)
            .map_err(|e| format!("{} does not tell where files lie: {e}", mount.kind))?;
        let map = FileMap::new(extents.clone(), self.ground(fd, trace, false)?);
        if map.is_covered() {
            return Ok(map);
        }
        // Chunks were made since the tree was read.
        Ok(FileMap::new(extents, self.ground(fd, trace, true)?))
    }

    fn ground(&self, fd: BorrowedFd<'_>, trace: &Trace, fresh: bool) -> Result<Arc<Node>, String> {
        match &self.source {
            Source::Device(node) => Ok(Arc::clone(node)),
            Source::Unknown(why) => Err(why.clone()),
            Source::Zfs { .. } => Err("a ZFS has no addresses of its own".to_owned()),
            Source::Btrfs { devices, chunks } => {
                let mut known = chunks.lock();
                if known.is_none() || fresh {
                    match chunks_of(fd, trace) {
                        Ok(list) => *known = Some(Arc::new(ChunkMap::new(list))),
                        // One disk under it: which one needs no tree.
                        Err(_) if self.disks.len() == 1 && self.gone.is_empty() => {
                            let why = "the btrfs chunk tree is not readable without CAP_SYS_ADMIN: the disk is known, the place on it is not";
                            let below = Arc::new(Node::Disk(0));
                            return Ok(Arc::new(Node::Doubt {
                                why: why.into(),
                                elsewhere: Vec::new(),
                                below,
                            }));
                        }
                        Err(e) => {
                            return Err(format!(
                                "the btrfs chunk tree, which says on which of {} disks bytes lie, needs CAP_SYS_ADMIN or the helper ({e})",
                                self.disks.len()
                            ));
                        }
                    }
                }
                let chunks = known.clone().unwrap_or_default();
                Ok(Arc::new(Node::Btrfs { chunks, devices: Arc::clone(devices) }))
            }
        }
    }

    /// A file on ZFS, by its block pointers. Takes `zdb` about a second: it loads the pool each time.
    fn map_zfs(
        &self,
        mount: &Mount,
        fd: BorrowedFd<'_>,
        trace: &Trace,
        leaves: &[volume::Leaf],
    ) -> Result<FileMap, String> {
        let stat = rustix::fs::fstat(fd).map_err(|e| format!("the file does not tell its number: {e}"))?;
        let size_bytes = u64::try_from(stat.st_size).unwrap_or(0);
        let needs =
            |why: String| format!("where ZFS puts a file only zdb tells, which needs privilege: {why}");
        let text = trace.zdb(&mount.source, stat.st_ino).map_err(needs)?;
        let object = sys::zdb::parse_object(&text, stat.st_ino)
            .ok_or("zdb does not list this file: it may be newer than the pool's last transaction group")?;
        let mut pool = self.zfs_pool(mount, trace, leaves, false).map_err(needs)?;
        if object.records.iter().flat_map(sys::zdb::Record::dvas).any(|d| !pool.tops.contains_key(&d.vdev)) {
            // A vdev was added since.
            pool = self.zfs_pool(mount, trace, leaves, true).map_err(needs)?;
        }
        let records = zfs::Records::new(pool, object);
        let extents = records.runs(size_bytes);
        let mut node = Node::Zfs(Arc::new(records));
        let caches: Vec<&str> = volume::zfs_caches(leaves)
            .into_iter()
            .filter_map(|d| self.disks.get(d).map(|d| &*d.name))
            .collect();
        if !caches.is_empty() && sys::zfs::has_second_cache() {
            let why = format!("what of it is in the pool's cache is read from {}", caches.join(", "));
            node = Node::Doubt { why: why.into(), elsewhere: Vec::new(), below: Arc::new(node) };
        }
        Ok(FileMap::new(extents, Arc::new(node)))
    }

    fn zfs_pool(
        &self,
        mount: &Mount,
        trace: &Trace,
        leaves: &[volume::Leaf],
        fresh: bool,
    ) -> Result<Arc<zfs::Pool>, String> {
        let Source::Zfs { pool: known, .. } = &self.source else { return Err("it is no ZFS".to_owned()) };
        let mut known = known.lock();
        if let Some(pool) = known.as_ref().filter(|_| !fresh) {
            return Ok(Arc::clone(pool));
        }
        let config = sys::zdb::parse_config(&trace.zdb_config(volume::pool_of(mount))?);
        if config.is_empty() {
            return Err("zdb does not tell what the pool is made of".to_owned());
        }
        let pool = Arc::new(volume::zfs_pool(&config, leaves));
        *known = Some(Arc::clone(&pool));
        Ok(pool)
    }

    /// Which of its disks has this number in tracepoints.
    pub(crate) fn disk_numbered(&self, number: u32) -> Option<usize> {
        self.disks.iter().position(|d| d.number == number)
    }

    /// The disks of a second cache of its own (ZFS's L2ARC), by the numbers that tracepoints have.
    pub(crate) fn cache_numbers(&self) -> Vec<u32> {
        let Source::Zfs { leaves, .. } = &self.source else { return Vec::new() };
        let disks = volume::zfs_caches(leaves);
        disks.into_iter().filter_map(|d| Some(self.disks.get(d)?.number)).collect()
    }

    /// Why no disk of this machine is below it, where that is known: a network's.
    pub(crate) fn is_elsewhere(&self) -> Option<&str> {
        match &self.source {
            Source::Unknown(why) if self.disks.is_empty() => Some(why),
            _ => None,
        }
    }

    /// Whether a disk of it was gone when it was resolved.
    pub(crate) fn is_degraded(&self) -> bool {
        !self.gone.is_empty()
    }

    /// Whether kernel threads read whole rows for it, a page at a time, up to many times what was asked for: a btrfs raid5 or
    /// raid6 without one of its disks (fs/btrfs/raid56.c).
    pub(crate) fn reads_whole_rows(&self) -> bool {
        self.is_degraded()
            && matches!(self.source, Source::Btrfs { .. })
            && matches!(self.shape.level.as_str(), "raid5" | "raid6")
    }

    /// Names of the disks.
    pub(crate) fn names(&self) -> Vec<Arc<str>> {
        self.disks.iter().map(|d| Arc::clone(&d.name)).collect()
    }

    /// And of those that are gone.
    fn all_names(&self) -> Names {
        Names { present: self.names(), gone: self.gone.clone() }
    }
}

fn chunks_of(fd: BorrowedFd<'_>, trace: &Trace) -> Result<Vec<Chunk>, String> {
    sys::btrfs::chunks(fd).or_else(|_| trace.chunks(fd)).map_err(|e| e.to_string())
}

fn legs_unknown(sys_tree: &Sysfs, fsid: Option<&str>, has_block_mirror: bool) -> Option<String> {
    if has_block_mirror {
        return Some("which copy a mirror of md or device-mapper reads goes by the disks' queues, and it does not tell".to_owned());
    }
    let fsid = fsid?;
    if !sys_tree.btrfs_reads_by_pid(fsid) {
        Some("this btrfs does not choose the copy by thread id (read_policy)".to_owned())
    } else if !in_first_pid_namespace() {
        Some("inside a PID namespace the kernel's thread ids, by which btrfs chooses the copy, are not visible".to_owned())
    } else {
        None
    }
}

impl Disk {
    fn of(leaf: &Leaf) -> Self {
        Self { name: Arc::clone(&leaf.name), number: kernel_number(leaf.device) }
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn a_filesystem_that_hangs_holds_up_nothing_that_lies_elsewhere() {
        use std::sync::mpsc::channel;
        let devices = Devices::default();
        let mount = |n: u32| Mount { device: (0, n), source: format!("disk{n}"), ..Mount::default() };
        let (slow, other) = (devices.of(&mount(1)).unwrap(), devices.of(&mount(2)).unwrap());
        let (hold, held) = channel::<()>();
        let held = Arc::new(std::sync::Mutex::new(held));
        // All of its threads wait for a disk that does not answer, and more is asked of it.
        for i in 0..40 {
            let held = Arc::clone(&held);
            let run = move |_: &mut crate::pool::Lane<'_>| _ = held.lock().unwrap().recv();
            let job = crate::pool::Job::always(i, run);
            slow.pool.submit(job).unwrap();
        }
        let (tx, rx) = channel();
        for i in 0..40 {
            let tx = tx.clone();
            let run = move |_: &mut crate::pool::Lane<'_>| tx.send(i).unwrap();
            let job = crate::pool::Job::always(i, run);
            other.pool.submit(job).unwrap();
        }
        for _ in 0..40 {
            rx.recv_timeout(std::time::Duration::from_secs(20)).unwrap();
        }
        drop(hold);
        for d in [slow, other] {
            assert!(d.pool.close(std::time::Duration::from_secs(5)));
        }
    }
}
