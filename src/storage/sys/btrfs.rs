//! btrfs ioctls: which devices a filesystem has (unprivileged) and its chunk tree (CAP_SYS_ADMIN).
//! Numbers and structs: include/uapi/linux/btrfs.h and btrfs_tree.h.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;

use super::{field_u16, field_u32, field_u64, ioctl_buffer, uuid_text};
use crate::layout::chunks::{Chunk, Stripe};

const FS_INFO: u32 = 0x8400_941F;
const DEV_INFO: u32 = 0xD000_941E;
const TREE_SEARCH_V2: u32 = 0xC070_9411;
/// `_IOR(0x94, 34, struct btrfs_ioctl_balance_args)`.
const BALANCE_PROGRESS: u32 = 0x8400_9422;

/// `BTRFS_CHUNK_TREE_OBJECTID`.
const CHUNK_TREE: u64 = 3;
/// `BTRFS_FIRST_CHUNK_TREE_OBJECTID`.
const FIRST_CHUNK: u64 = 256;
/// `BTRFS_CHUNK_ITEM_KEY`.
const CHUNK_ITEM: u32 = 228;
/// Search key and buffer size, before the results.
const SEARCH_HEADER_BYTES: usize = 112;
const SEARCH_BUFFER_BYTES: usize = 256 << 10;
/// 1 GiB a chunk: a petabyte.
const MAX_CHUNKS: usize = 1 << 20;

/// What `FS_INFO` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FsInfo {
    pub(crate) max_devid: u64,
    pub(crate) num_devices: u64,
    /// As `/sys/fs/btrfs` and `blkid` write it.
    pub(crate) fsid: String,
}

pub(crate) fn fs_info(fd: BorrowedFd<'_>) -> io::Result<FsInfo> {
    let mut b = vec![0_u8; 1024];
    ioctl_buffer(fd, FS_INFO, &mut b, 1024)?;
    Ok(FsInfo {
        max_devid: field_u64(&b, 0).unwrap_or(0),
        num_devices: field_u64(&b, 8).unwrap_or(0),
        fsid: uuid_text(&b[16..32]),
    })
}

/// Path of device `devid` as the kernel knows it; `None` where there is no such device.
pub(crate) fn device_path(fd: BorrowedFd<'_>, devid: u64) -> io::Result<Option<String>> {
    let mut b = vec![0_u8; 4096];
    b[0..8].copy_from_slice(&devid.to_ne_bytes());
    match ioctl_buffer(fd, DEV_INFO, &mut b, 4096) {
        Err(e) if e.raw_os_error() == Some(libc::ENODEV) => return Ok(None),
        other => other?,
    }
    let path = b[4096 - 1024..].split(|c| *c == 0).next().unwrap_or(&[]);
    Ok(Some(String::from_utf8_lossy(path).into_owned()))
}

/// Identifier of the btrfs that a folder is on.
pub(crate) fn fsid_of(folder: &Path) -> Option<String> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let fd = rustix::fs::open(folder, flags, Mode::empty()).ok()?;
    fs_info(fd.as_fd()).ok().map(|i| i.fsid)
}

/// Share of a running balance that is done: `BTRFS_IOC_BALANCE_PROGRESS`, CAP_SYS_ADMIN.
pub(crate) fn balance_done(folder: &Path) -> Option<f64> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let fd = rustix::fs::open(folder, flags, Mode::empty()).ok()?;
    let mut b = vec![0_u8; 1024];
    ioctl_buffer(fd.as_fd(), BALANCE_PROGRESS, &mut b, 1024).ok()?;
    // flags, state, three sets of arguments of 136 bytes; then chunks expected, considered, completed.
    let (expected, completed) = (field_u64(&b, 424)?, field_u64(&b, 440)?);
    (expected > 0).then(|| crate::topology::md::share(completed, expected))
}

/// The whole chunk tree.
pub(crate) fn chunks(fd: BorrowedFd<'_>) -> io::Result<Vec<Chunk>> {
    let mut out = Vec::new();
    let mut from = 0_u64;
    loop {
        let mut b = vec![0_u8; SEARCH_HEADER_BYTES + SEARCH_BUFFER_BYTES];
        let key = [CHUNK_TREE, FIRST_CHUNK, FIRST_CHUNK, from, u64::MAX, 0, u64::MAX];
        for (i, v) in key.iter().enumerate() {
            b[i * 8..i * 8 + 8].copy_from_slice(&v.to_ne_bytes());
        }
        for (i, v) in [CHUNK_ITEM, CHUNK_ITEM, 4096].iter().enumerate() {
            b[56 + i * 4..60 + i * 4].copy_from_slice(&v.to_ne_bytes());
        }
        b[104..112].copy_from_slice(&(SEARCH_BUFFER_BYTES as u64).to_ne_bytes());
        let len = b.len();
        ioctl_buffer(fd, TREE_SEARCH_V2, &mut b, len)?;
        let (found, last) = parse(&b);
        out.extend(found);
        match last.and_then(|l| l.checked_add(1)) {
            Some(next) if out.len() < MAX_CHUNKS => from = next,
            _ => return Ok(out),
        }
    }
}

/// The chunk items of one answer and the offset of the last item.
fn parse(b: &[u8]) -> (Vec<Chunk>, Option<u64>) {
    let items = field_u32(b, 64).unwrap_or(0);
    let (mut out, mut last, mut at) = (Vec::new(), None, SEARCH_HEADER_BYTES);
    for _ in 0..items {
        let (Some(offset), Some(kind), Some(len)) =
            (field_u64(b, at + 16), field_u32(b, at + 24), field_u32(b, at + 28))
        else {
            break;
        };
        at += 32;
        let Some(data) = b.get(at..at + len as usize) else { break };
        at += len as usize;
        last = Some(offset);
        if kind == CHUNK_ITEM {
            out.extend(chunk(offset, data));
        }
    }
    (out, last)
}

/// `struct btrfs_chunk`; on disk it is little-endian.
fn chunk(logical: u64, data: &[u8]) -> Option<Chunk> {
    let le = |at: usize| field_u64(data, at).map(u64::from_le);
    let num = u16::from_le(field_u16(data, 44)?);
    let stripes = (0..usize::from(num))
        .map(|i| Some(Stripe { devid: le(48 + 32 * i)?, offset: le(56 + 32 * i)? }))
        .collect::<Option<Vec<_>>>()?;
    Some(Chunk {
        logical,
        len_bytes: le(0)?,
        stripe_bytes: le(16)?,
        kind: le(24)?,
        sub_stripes: u16::from_le(field_u16(data, 46)?),
        stripes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_is_written_as_sysfs_writes_it() {
        let b: Vec<u8> = (0..16).collect();
        assert_eq!(uuid_text(&b), "00010203-0405-0607-0809-0a0b0c0d0e0f");
    }

    #[test]
    fn a_search_answer_that_lies_about_its_length_yields_what_is_whole() {
        let mut b = vec![0_u8; SEARCH_HEADER_BYTES + 40];
        b[64..68].copy_from_slice(&3_u32.to_ne_bytes());
        b[112 + 28..112 + 32].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert_eq!(parse(&b), (Vec::new(), None));
    }
}
