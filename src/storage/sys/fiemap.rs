//! `FS_IOC_FIEMAP`: where a file's bytes lie on its filesystem's device. Unprivileged.
//! Layout of the structs: include/uapi/linux/fiemap.h.

use std::io;
use std::os::fd::BorrowedFd;

use super::{field_u32, field_u64, ioctl_buffer};

const FIEMAP: u32 = 0xC020_660B;
/// `FS_IOC_FSGETXATTR`, include/uapi/linux/fs.h.
const FSGETXATTR: u32 = 0x801C_581F;
const XFLAG_REALTIME: u32 = 1;
const HEADER_BYTES: usize = 32;
const EXTENT_BYTES: usize = 56;
/// Extents a call; 112 KiB of buffer. A file of 50,000 takes 25 calls.
const BATCH: usize = 2048;
/// A file of a million fragments is read, but mapped only so far: 32 MiB of map. What else there is (unwritten, inline)
/// is counted against it too, so that no file makes the kernel answer for ever.
const MAX_EXTENTS: usize = 1 << 20;

const LAST: u32 = 0x1;
/// `UNKNOWN | DELALLOC`: no place yet.
const PENDING: u32 = 0x2 | 0x4;
/// `ENCODED`: compressed; the length is that of the contents, not of what is stored.
const ENCODED: u32 = 0x8;
/// `DATA_ENCRYPTED`.
const SEALED: u32 = 0x80;
/// `DATA_INLINE | DATA_TAIL`: within the filesystem's own trees.
const INLINE: u32 = 0x200 | 0x400;
/// `UNWRITTEN`: set aside, read as zeros without a disk.
const UNWRITTEN: u32 = 0x800;
const SHARED: u32 = 0x2000;

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

/// The runs of a file in order, and how many bytes are something else.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Extents {
    pub(crate) runs: Vec<Extent>,
    /// Within the filesystem's trees.
    pub(crate) inline_bytes: u64,
    /// Not allocated yet: still in memory.
    pub(crate) pending_bytes: u64,
    /// Set aside and never written: read as zeros, without a disk.
    pub(crate) unwritten_bytes: u64,
    /// Of the runs: shared with other files (reflinks, snapshots).
    pub(crate) shared_bytes: u64,
    /// Of the runs: encrypted by the filesystem.
    pub(crate) sealed_bytes: u64,
    /// Past the limit of what is mapped.
    pub(crate) dropped_bytes: u64,
}

impl Extents {
    #[cfg(test)]
    pub(crate) fn of(runs: Vec<Extent>) -> Self {
        Self { runs, ..Self::default() }
    }

    /// Takes one answer of the kernel in.
    fn add(&mut self, run: Extent, flags: u32) {
        let count = |n: &mut u64| *n = n.saturating_add(run.len_bytes);
        if flags & PENDING != 0 {
            return count(&mut self.pending_bytes);
        }
        if flags & INLINE != 0 {
            return count(&mut self.inline_bytes);
        }
        if flags & UNWRITTEN != 0 {
            return count(&mut self.unwritten_bytes);
        }
        // A run that wraps or that goes back is no run.
        let is_sane = run.offset.checked_add(run.len_bytes).is_some()
            && run.physical.checked_add(run.len_bytes).is_some()
            && self.runs.last().is_none_or(|p| p.offset + p.len_bytes <= run.offset);
        if !is_sane || self.runs.len() >= MAX_EXTENTS {
            return count(&mut self.dropped_bytes);
        }
        if flags & SHARED != 0 {
            count(&mut self.shared_bytes);
        }
        if flags & SEALED != 0 {
            count(&mut self.sealed_bytes);
        }
        match self.runs.last_mut() {
            Some(p)
                if !p.encoded
                    && !run.encoded
                    && p.offset + p.len_bytes == run.offset
                    && p.physical + p.len_bytes == run.physical =>
            {
                p.len_bytes += run.len_bytes;
            }
            _ => self.runs.push(run),
        }
    }
}

/// Maps the whole file. `sync` makes the filesystem allocate what is still only in memory first.
pub(crate) fn extents(fd: BorrowedFd<'_>, sync: bool) -> io::Result<Extents> {
    let mut out = Extents::default();
    let (mut start, mut seen) = (0_u64, 0_usize);
    let mut buffer = vec![0_u8; HEADER_BYTES + EXTENT_BYTES * BATCH];
    loop {
        buffer[..HEADER_BYTES].fill(0);
        buffer[0..8].copy_from_slice(&start.to_ne_bytes());
        buffer[8..16].copy_from_slice(&(u64::MAX - start).to_ne_bytes());
        buffer[16..20].copy_from_slice(&u32::from(sync && start == 0).to_ne_bytes());
        buffer[24..28].copy_from_slice(&u32::try_from(BATCH).unwrap_or(0).to_ne_bytes());
        let len = buffer.len();
        ioctl_buffer(fd, FIEMAP, &mut buffer, len)?;
        let mapped = field_u32(&buffer, 20).unwrap_or(0) as usize;
        let (mut is_last, before) = (mapped == 0, start);
        for i in 0..mapped.min(BATCH) {
            let at = HEADER_BYTES + EXTENT_BYTES * i;
            let field = |n: usize| field_u64(&buffer, at + n).unwrap_or(0);
            let (offset, physical, len_bytes) = (field(0), field(8), field(16));
            let flags = field_u32(&buffer, at + 40).unwrap_or(0);
            is_last |= flags & LAST != 0 || len_bytes == 0;
            start = offset.saturating_add(len_bytes);
            out.add(Extent { offset, physical, len_bytes, encoded: flags & ENCODED != 0 }, flags);
        }
        seen += mapped;
        if is_last || start <= before || seen >= 2 * MAX_EXTENTS {
            return Ok(out);
        }
    }
}

/// Whether the file's data are on the realtime device of an xfs, of which FIEMAP does not speak.
pub(crate) fn is_realtime(fd: BorrowedFd<'_>) -> bool {
    let mut b = vec![0_u8; 28];
    ioctl_buffer(fd, FSGETXATTR, &mut b, 28).is_ok() && field_u32(&b, 0).unwrap_or(0) & XFLAG_REALTIME != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(offset: u64, physical: u64, len_bytes: u64) -> Extent {
        Extent { offset, physical, len_bytes, encoded: false }
    }

    #[test]
    fn runs_that_continue_each_other_are_one_and_the_rest_is_counted_by_kind() {
        let mut e = Extents::default();
        e.add(run(0, 100, 10), SHARED);
        e.add(run(10, 110, 10), SHARED | SEALED);
        e.add(run(20, 500, 10), 0);
        e.add(run(30, 510, 7), UNWRITTEN);
        e.add(run(40, 0, 5), INLINE);
        e.add(run(45, 0, 3), PENDING);
        e.add(Extent { encoded: true, ..run(50, 520, 10) }, ENCODED);
        let want = Extents {
            runs: vec![run(0, 100, 20), run(20, 500, 10), Extent { encoded: true, ..run(50, 520, 10) }],
            inline_bytes: 5,
            pending_bytes: 3,
            unwritten_bytes: 7,
            shared_bytes: 20,
            sealed_bytes: 10,
            dropped_bytes: 0,
        };
        assert_eq!(e, want);
    }

    #[test]
    fn answers_that_wrap_or_go_back_are_dropped() {
        let mut e = Extents::default();
        e.add(run(100, 0, 10), 0);
        e.add(run(50, 0, 10), 0);
        e.add(run(u64::MAX - 1, 0, 10), 0);
        e.add(run(200, u64::MAX - 1, 10), 0);
        assert_eq!((e.runs.len(), e.dropped_bytes), (1, 30));
    }
}
