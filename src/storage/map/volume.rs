//! From a mounted filesystem to the devices that it lies on, as nodes.

use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;
use std::sync::Arc;

use super::resolve::{Ask, Resolver};
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
}

/// Highest btrfs device id that is looked for.
const MAX_DEVICES: u64 = 4096;

/// Why FIEMAP's answers cannot be used on this kind of filesystem; `None` for those of which they were compared with the
/// disks.
pub(crate) fn unplaced(mount: &Mount) -> Option<String> {
    let kind = mount.kind.as_str();
    Some(match kind {
        "ext2" | "ext3" | "ext4" | "xfs" | "btrfs" => return None,
        "nfs" | "nfs4" | "cifs" | "smb3" | "9p" | "ceph" | "glusterfs" | "fuse.sshfs" | "fuse.glusterfs" => {
            format!("it is on a network mount ({kind}, {}): the disks are the server's", mount.source)
        }
        "zfs" => "ZFS tells nobody through the kernel where files lie".to_owned(),
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
        };
        let extents = sys::fiemap::extents(fd.as_fd(), true).map_err(|e| e.to_string())?;
        Ok(Some(Arc::new(Node::File(Arc::new(FileMap::new(extents, below))))))
    }
}
