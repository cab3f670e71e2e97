//! From a mounted filesystem to the devices that it lies on, as nodes.

use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;
use std::sync::Arc;

use super::resolve::{Ask, Resolver, part};
use super::zfs::{LABELS_BYTES, Pool, Raidz, Top};
use super::{Member, Node};
use crate::layout::FileMap;
use crate::layout::chunks::{Chunk, ChunkMap};
use crate::sys;
use crate::sys::dm::Table;
use crate::topology::mounts::Mount;

/// What a filesystem's addresses are addresses of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ground {
    /// One block device.
    Device(Arc<Node>),
    /// btrfs: its devices by their ids. Where on them needs the chunk tree.
    Btrfs(Arc<BTreeMap<u64, Member>>),
    /// ZFS: the devices of the pool. Which of them make up which vdev, and where on those a file lies, needs `zdb`.
    Zfs(Arc<Vec<Leaf>>),
}

/// A device of a ZFS pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Leaf {
    /// As `zpool status -P -L` has it, links followed; of one that is gone, where it was.
    path: String,
    member: Member,
    /// `data`, `special`, `log`, `cache`, `spare`, `dedup`.
    class: String,
}

/// Highest btrfs device id that is looked for.
const MAX_DEVICES: u64 = 4096;

/// Why FIEMAP's answers cannot be used on this kind of filesystem; `None` for those of which they were compared with the
/// disks.
pub(crate) fn unplaced(mount: &Mount) -> Option<String> {
    let kind = mount.kind.as_str();
    Some(match kind {
        "ext2" | "ext3" | "ext4" | "xfs" | "btrfs" | "zfs" => return None,
        "nfs" | "nfs4" | "cifs" | "smb3" | "9p" | "ceph" | "glusterfs" | "fuse.sshfs" | "fuse.glusterfs" => {
            format!("it is on a network mount ({kind}, {}): the disks are the server's", mount.source)
        }
        "tmpfs" | "ramfs" => format!("it is in memory ({kind})"),
        _ if kind.starts_with("fuse") => {
            format!("{kind} is a program: the kernel does not know where it gets its files from")
        }
        _ => format!("how {kind} places files is not known here"),
    })
}

/// The ground of the filesystem that `fd` is on.
pub(crate) fn ground(
    resolver: &mut Resolver<'_>,
    mount: &Mount,
    fd: BorrowedFd<'_>,
) -> Result<Ground, String> {
    if let Some(why) = unplaced(mount) {
        return Err(why);
    }
    if mount.kind == "btrfs" {
        return btrfs(resolver, fd).map(|d| Ground::Btrfs(Arc::new(d)));
    }
    if mount.kind == "zfs" {
        return zfs(resolver, mount).map(|l| Ground::Zfs(Arc::new(l)));
    }
    if mount.device.0 == 0 {
        return Err(format!("{} does not say which disks it is on", mount.kind));
    }
    Ok(Ground::Device(resolver.by_number(mount.device)))
}

fn btrfs(resolver: &mut Resolver<'_>, fd: BorrowedFd<'_>) -> Result<BTreeMap<u64, Member>, String> {
    let info = sys::btrfs::fs_info(fd).map_err(|e| format!("btrfs does not answer: {e}"))?;
    let mut out = BTreeMap::new();
    for devid in 1..=info.max_devid.min(MAX_DEVICES) {
        let path = match sys::btrfs::device_path(fd, devid) {
            Ok(Some(path)) => path,
            Ok(None) => continue,
            Err(e) => return Err(format!("btrfs does not name device {devid}: {e}")),
        };
        let node = if path.is_empty() || resolver.is_btrfs_missing(&info.fsid, devid) {
            resolver.gone(&format!("btrfs device {devid}"))
        } else {
            resolver.by_path(Path::new(&path))
        };
        out.insert(devid, Member::sound(node));
    }
    Ok(out)
}

/// The pool of a mounted dataset: `pool/dataset`.
pub(crate) fn pool_of(mount: &Mount) -> &str {
    mount.source.split(['/', '@']).next().unwrap_or_default()
}

fn zfs(resolver: &mut Resolver<'_>, mount: &Mount) -> Result<Vec<Leaf>, String> {
    let name = pool_of(mount);
    let pools = sys::zfs::parse(&sys::zfs::status(name)?);
    let pool = pools.iter().find(|p| p.name == name).ok_or("zpool does not list this pool")?;
    // Changes when a device fails or comes back.
    resolver.stamp(Path::new("/proc/spl/kstat/zfs").join(name).join("state"));
    let mut out = Vec::new();
    pool.vdevs.iter().for_each(|v| leaves(resolver, v, &mut out));
    Ok(out)
}

fn leaves(resolver: &mut Resolver<'_>, vdev: &sys::zfs::Vdev, out: &mut Vec<Leaf>) {
    vdev.children.iter().for_each(|v| leaves(resolver, v, out));
    if vdev.level.is_some() || vdev.name.starts_with("draid") {
        return;
    }
    let was = vdev.note.strip_prefix("was ").and_then(|w| w.split_whitespace().next());
    let path = was.unwrap_or(&vdev.name).to_owned();
    let is_there = matches!(vdev.state.as_str(), "ONLINE" | "DEGRADED" | "AVAIL" | "INUSE" | "");
    let node = if is_there && vdev.name.starts_with('/') {
        resolver.by_path(Path::new(&vdev.name))
    } else {
        resolver.gone(&path)
    };
    // What of it is there already its own map (the DTL) tells, which nobody else reads.
    let fresh_bytes = vdev.note.contains("resilvering").then_some(0);
    out.push(Leaf {
        path,
        member: Member { node, is_write_mostly: false, fresh_bytes },
        class: vdev.class.clone(),
    });
}

/// The vdevs of a pool by its configuration, on the devices that it has.
pub(crate) fn zfs_pool(config: &[sys::zdb::Vdev], leaves: &[Leaf]) -> Pool {
    let mut tops = BTreeMap::new();
    for v in config {
        if let Ok(id) = u32::try_from(v.id) {
            tops.insert(id, top(v, leaves));
        }
    }
    Pool { tops }
}

/// Names of the disks that a pool keeps a second copy of what was read on (L2ARC).
pub(crate) fn zfs_caches(leaves: &[Leaf]) -> Vec<usize> {
    leaves.iter().filter(|l| l.class == "cache").flat_map(|l| l.member.node.disks()).collect()
}

fn top(v: &sys::zdb::Vdev, leaves: &[Leaf]) -> Top {
    let unknown = |why: String| {
        let mut disks = Vec::new();
        collect(v, leaves, &mut disks);
        Top::Unknown { why: why.into(), disks }
    };
    match v.kind.as_str() {
        "disk" | "file" | "mirror" | "replacing" | "spare" => match member(v, leaves) {
            Ok(m) if m.fresh_bytes.is_none() => Top::Plain { ashift: v.ashift, node: m.node },
            Ok(m) => Top::Plain { ashift: v.ashift, node: Arc::new(Node::Mirror(vec![m])) },
            Err(why) => unknown(why),
        },
        "raidz" if v.is_expanded => {
            unknown("disks were added to a raidz: older records have another width".to_owned())
        }
        "raidz" => {
            let members: Result<Vec<Member>, String> = v.children.iter().map(|c| member(c, leaves)).collect();
            match (Raidz::new(v.ashift, v.children.len(), v.parity), members) {
                (Some(raidz), Ok(members)) => Top::Raidz(raidz, members),
                (None, _) => unknown("a raidz of a form that is not known".to_owned()),
                (_, Err(why)) => unknown(why),
            }
        }
        "draid" => unknown("where a draid puts its columns is not computed here".to_owned()),
        "indirect" => {
            unknown("a vdev was removed from the pool, and where its records went only ZFS reads".to_owned())
        }
        other => unknown(format!("where a vdev of kind `{other}` puts records is not known")),
    }
}

fn member(v: &sys::zdb::Vdev, leaves: &[Leaf]) -> Result<Member, String> {
    if !v.children.is_empty() {
        let members: Result<Vec<Member>, String> = v.children.iter().map(|c| member(c, leaves)).collect();
        return Ok(Member::sound(Arc::new(Node::Mirror(members?))));
    }
    let path = v.path.as_deref().unwrap_or_default();
    let leaf = leaf_of(path, leaves).ok_or_else(|| format!("zpool lists no device {path}"))?;
    // To the end of the device: what lies behind the last record is asked by nobody.
    let node = part(LABELS_BYTES, 1 << 62, Arc::clone(&leaf.member.node));
    Ok(Member { node, ..leaf.member.clone() })
}

fn leaf_of<'a>(path: &str, leaves: &'a [Leaf]) -> Option<&'a Leaf> {
    let real = std::fs::canonicalize(path).ok();
    let is = |l: &&Leaf| l.path == path || real.as_deref().is_some_and(|r| r == Path::new(&l.path));
    leaves.iter().find(is)
}

/// The disks of a vdev.
fn collect(v: &sys::zdb::Vdev, leaves: &[Leaf], out: &mut Vec<usize>) {
    v.children.iter().for_each(|c| collect(c, leaves, out));
    if let Some(leaf) = v.path.as_deref().and_then(|p| leaf_of(p, leaves)) {
        out.extend(leaf.member.node.disks());
    }
}

/// How the stack of the machine at hand is asked.
pub(crate) struct Machine<'a> {
    /// Tables of dm devices.
    pub(crate) table: &'a dyn Fn((u32, u32)) -> Result<Table, String>,
    /// Chunk trees.
    pub(crate) chunks: &'a dyn Fn(BorrowedFd<'_>) -> Result<Vec<Chunk>, String>,
    /// Which mount an open file is on.
    pub(crate) mount: &'a dyn Fn(BorrowedFd<'_>, &Path) -> Result<Mount, String>,
    /// How many loop devices, one in the other, to go on below of.
    pub(crate) through_loops: u32,
}

impl Ask for Machine<'_> {
    fn table(&self, device: (u32, u32)) -> Result<Table, String> {
        (self.table)(device)
    }

    fn backing(
        &self,
        resolver: &mut Resolver<'_>,
        file: &Path,
        above: u32,
    ) -> Result<Option<Arc<Node>>, String> {
        use rustix::fs::{FileType, Mode, OFlags};
        if above >= self.through_loops {
            return Ok(None);
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let fd = rustix::fs::open(file, flags, Mode::empty()).map_err(|e| e.to_string())?;
        let stat = rustix::fs::fstat(&fd).map_err(|e| e.to_string())?;
        if FileType::from_raw_mode(stat.st_mode).is_block_device() {
            let number = (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev));
            return Ok(Some(resolver.by_number(number)));
        }
        let mount = (self.mount)(fd.as_fd(), file)?;
        let below = match ground(resolver, &mount, fd.as_fd())? {
            Ground::Device(node) => node,
            Ground::Btrfs(devices) => {
                let chunks = Arc::new(ChunkMap::new((self.chunks)(fd.as_fd())?));
                Arc::new(Node::Btrfs { chunks, devices })
            }
            Ground::Zfs(_) => return Err("it is on a ZFS".to_owned()),
        };
        let extents = sys::fiemap::extents(fd.as_fd(), true).map_err(|e| e.to_string())?;
        Ok(Some(Arc::new(Node::File(Arc::new(FileMap::new(extents, below))))))
    }
}

#[cfg(test)]
#[path = "volume_tests.rs"]
mod tests;
