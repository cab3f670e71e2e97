//! `FS_IOC_FIEMAP`: where a file's bytes lie on its filesystem's device. Unprivileged.
//! Layout of the structs: include/uapi/linux/fiemap.h.

use std::io;
use std::os::fd::BorrowedFd;

use super::{field_u32, field_u64, ioctl_buffer};

const FIEMAP: u32 = 0xC020_660B;
const HEADER_BYTES: usize = 32;
const EXTENT_BYTES: usize = 56;
/// Extents a call; 28 KiB of buffer.
const BATCH: usize = 512;
/// A file of a million fragments is read, but mapped only so far: 32 MiB of map.
const MAX_EXTENTS: usize = 1 << 20;

/// `FIEMAP_EXTENT_LAST`.
const LAST: u32 = 1;
/// `UNKNOWN | DELALLOC | DATA_INLINE | UNWRITTEN`: no bytes on a disk at `physical` to speak of.
const NOT_ON_DISK: u32 = 0x2 | 0x4 | 0x200 | 0x800;
/// `ENCODED`: compressed; the length is that of the contents, not of what is stored.
const ENCODED: u32 = 0x8;

/// One run of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    /// First byte in the file.
    pub(crate) offset: u64,
    /// Byte on the filesystem's device; on btrfs the logical address.
    pub(crate) physical: u64,
    /// Bytes.
    pub(crate) len_bytes: u64,
    /// Whether it is stored compressed.
    pub(crate) encoded: bool,
}

/// The runs of a file, and whether something of it could not be mapped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Extents {
    pub(crate) runs: Vec<Extent>,
    /// Inline, not yet allocated, or past the limit.
    pub(crate) unmapped_bytes: u64,
}

/// Maps the whole file. `sync` makes the filesystem allocate what is still only in memory first.
pub(crate) fn extents(fd: BorrowedFd<'_>, sync: bool) -> io::Result<Extents> {
    let mut out = Extents::default();
    let mut start = 0_u64;
    loop {
        let mut buffer = vec![0_u8; HEADER_BYTES + EXTENT_BYTES * BATCH];
        buffer[0..8].copy_from_slice(&start.to_ne_bytes());
        buffer[8..16].copy_from_slice(&(u64::MAX - start).to_ne_bytes());
        buffer[16..20].copy_from_slice(&u32::from(sync && start == 0).to_ne_bytes());
        buffer[24..28].copy_from_slice(&512_u32.to_ne_bytes());
        let len = buffer.len();
        ioctl_buffer(fd, FIEMAP, &mut buffer, len)?;
        let mapped = field_u32(&buffer, 20).unwrap_or(0) as usize;
        let mut last = mapped == 0;
        for i in 0..mapped.min(BATCH) {
            let at = HEADER_BYTES + EXTENT_BYTES * i;
            let field = |n: usize| field_u64(&buffer, at + n).unwrap_or(0);
            let (offset, physical, len_bytes) = (field(0), field(8), field(16));
            let flags = field_u32(&buffer, at + 40).unwrap_or(0);
            last |= flags & LAST != 0 || len_bytes == 0;
            start = offset.saturating_add(len_bytes);
            if flags & NOT_ON_DISK != 0 || out.runs.len() >= MAX_EXTENTS {
                out.unmapped_bytes = out.unmapped_bytes.saturating_add(len_bytes);
                continue;
            }
            let run = Extent { offset, physical, len_bytes, encoded: flags & ENCODED != 0 };
            match out.runs.last_mut() {
                Some(p)
                    if !p.encoded
                        && !run.encoded
                        && p.offset + p.len_bytes == offset
                        && p.physical + p.len_bytes == physical =>
                {
                    p.len_bytes += len_bytes;
                }
                _ => out.runs.push(run),
            }
        }
        if last || out.runs.len() >= MAX_EXTENTS {
            return Ok(out);
        }
    }
}
