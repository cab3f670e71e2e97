//! What of an open file is in the page cache, without waiting for a disk.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::io::{Errno, ReadWriteFlags};

use crate::file::PAGE_BYTES;
use crate::sys;

/// Distance of probes: a folio of the page cache is rarely dropped in smaller parts, and 16 probes a MiB
/// cost 5 microseconds.
pub(crate) const PROBE_BYTES: u64 = 64 << 10;

/// How many bytes from `offset` to `end` are in the page cache, those on their way in included, by cachestat(2).
///
/// # Errors
/// `PermissionDenied` for a file that is neither the caller's own nor writable, `Unsupported` before Linux 6.5.
pub(crate) fn prefix(fd: BorrowedFd<'_>, offset: u64, end: u64) -> io::Result<u64> {
    let (first, last) = (offset / PAGE_BYTES, end.div_ceil(PAGE_BYTES));
    if offset >= end {
        return Ok(0);
    }
    let is_whole = |to: u64| -> io::Result<bool> {
        let count = to - first;
        Ok(sys::cached_pages(fd, first * PAGE_BYTES, count * PAGE_BYTES)? >= count)
    };
    if is_whole(last)? {
        return Ok(end - offset);
    }
    // The longest prefix that is whole; `good` is, `bad` is not.
    let (mut good, mut bad) = (first, last);
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if is_whole(middle)? { good = middle } else { bad = middle }
    }
    Ok((good * PAGE_BYTES).saturating_sub(offset))
}

/// How many of `len` bytes from `offset` are in the page cache with their contents, by reads that do not wait
/// (`RWF_NOWAIT`, Linux 4.14), one byte every 64 KiB and the last. A probe that misses may make the kernel fetch.
///
/// All of them where the filesystem has no reads that do not wait.
#[must_use]
pub fn ready_prefix(fd: BorrowedFd<'_>, offset: u64, len: u64) -> u64 {
    probed(fd, offset, len).unwrap_or(len)
}

/// The same.
///
/// # Errors
/// Where the filesystem has no reads that do not wait.
pub(crate) fn probed(fd: BorrowedFd<'_>, offset: u64, len: u64) -> rustix::io::Result<u64> {
    let end = offset.saturating_add(len);
    let mut at = offset;
    while at < end {
        if !probe(fd, at)? {
            return Ok(at - offset);
        }
        if at + 1 >= end {
            break;
        }
        at = ((at / PROBE_BYTES + 1) * PROBE_BYTES).min(end - 1);
    }
    Ok(len)
}

/// Asks the kernel to drop a file's pages from memory; gives how many bytes stay, `None` where that cannot be told (a file of
/// somebody else's, a kernel before 6.5). Pages stay that another program has mapped. Blocks: what was just written is written out first.
pub(crate) fn drop_pages(fd: BorrowedFd<'_>, size_bytes: u64) -> io::Result<Option<u64>> {
    /// A page that sits in a processor's own batch is let go only when that drains.
    const TRIES: u32 = 20;
    // A file that was opened for reading may be synced as well; where it may not, there is nothing dirty of ours.
    let _ = rustix::fs::fdatasync(fd);
    for n in 0..TRIES {
        rustix::fs::fadvise(fd, 0, None, rustix::fs::Advice::DontNeed)?;
        match sys::cached_pages(fd, 0, size_bytes) {
            Ok(0) => return Ok(Some(0)),
            Ok(pages) if n + 1 == TRIES => return Ok(Some(pages.saturating_mul(PAGE_BYTES))),
            Ok(_) => std::thread::sleep(std::time::Duration::from_millis(10)),
            Err(_) => return Ok(None),
        }
    }
    Ok(None)
}

/// Whether the byte at `at` can be read without waiting; the end of the file counts as a miss.
fn probe(fd: BorrowedFd<'_>, at: u64) -> rustix::io::Result<bool> {
    let mut byte = [0_u8];
    match rustix::io::preadv2(fd, &mut [io::IoSliceMut::new(&mut byte)], at, ReadWriteFlags::NOWAIT) {
        Ok(n) => Ok(n > 0),
        Err(Errno::AGAIN) => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn what_was_written_is_there_and_what_was_dropped_is_not() {
        let mut file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.write_all(&vec![7; 1 << 20]).unwrap();
        file.sync_all().unwrap();
        let size = 1 << 20;
        if let Ok(n) = prefix(file.as_fd(), 5, size) {
            assert_eq!(n, size - 5);
        }
        assert_eq!(ready_prefix(file.as_fd(), 5, size - 5), size - 5);
        rustix::fs::fadvise(
            &file,
            512 << 10,
            std::num::NonZeroU64::new(512 << 10),
            rustix::fs::Advice::DontNeed,
        )
        .unwrap();
        // A filesystem in memory drops nothing; then both say so.
        if let Ok(n) = prefix(file.as_fd(), 5, size) {
            assert!(n == (512 << 10) - 5 || n == size - 5, "{n}");
            let gone = n < size - 5;
            let ready = ready_prefix(file.as_fd(), 5, size - 5);
            assert!(if gone { ready < size - 5 } else { ready == size - 5 }, "{n} {ready}");
        }
        let mut again = vec![0; 512 << 10];
        assert_eq!(rustix::io::pread(&file, &mut again, 512 << 10).unwrap(), 512 << 10);
        assert_eq!(ready_prefix(file.as_fd(), 5, size - 5), size - 5);
        assert_eq!(prefix(file.as_fd(), size, size).unwrap_or(0), 0);
        if let Some(left) = drop_pages(file.as_fd(), size).unwrap() {
            assert!(left == 0 || left == size, "{left}");
        }
    }
}
