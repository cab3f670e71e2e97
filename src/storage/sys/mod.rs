//! The raw system calls that neither the standard library nor rustix offers. With `trace/ring` the
//! only `unsafe` code of the project; everything that leaves this module is a checked value.
#![expect(
    unsafe_code,
    reason = "ioctls, cachestat and rusage of one thread have no safe wrapper in our dependencies"
)]

pub(crate) mod bcache;
pub(crate) mod btrfs;
pub(crate) mod dm;
pub(crate) mod fiemap;
pub(crate) mod md;
pub(crate) mod mergerfs;
pub(crate) mod network;
pub(crate) mod power;
pub(crate) mod program;
mod scsi;
pub(crate) mod smart;
pub(crate) mod zdb;
pub(crate) mod zfs;

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Bytes that this thread has made the kernel fetch from storage since it began: `ru_inblock`, in
/// units of 512 bytes whatever the device. Cache hits do not count, read-ahead does; measured equal
/// to the block trace on every stack but ZFS and FUSE.
pub(crate) fn thread_inblock_bytes() -> u64 {
    usage(libc::RUSAGE_THREAD).map_or(0, |u| u64::try_from(u.ru_inblock).unwrap_or(0) * 512)
}

/// CPU time of this process, user and system, in microseconds.
pub(crate) fn process_cpu_us() -> u64 {
    let of = |t: libc::timeval| {
        u64::try_from(t.tv_sec).unwrap_or(0) * 1_000_000 + u64::try_from(t.tv_usec).unwrap_or(0)
    };
    usage(libc::RUSAGE_SELF).map_or(0, |u| of(u.ru_utime) + of(u.ru_stime))
}

/// Has blocks of a megabyte and more returned to the system when they are freed. glibc's own limit
/// rises with the first such block: then each of its arenas keeps tens of megabytes for ever, which
/// a password hash (19 MiB) or a burst of readers does (mallopt(3), `M_MMAP_THRESHOLD`).
pub fn return_freed_memory() {
    #[cfg(target_env = "gnu")]
    for (parameter, value) in
        // A thread that finds the arenas taken otherwise makes one of its own, of which 100 KiB stay: most threads here
        // wait for disks and allocate next to nothing.
        [(libc::M_MMAP_THRESHOLD, 1 << 20), (libc::M_TRIM_THRESHOLD, 1 << 20), (libc::M_ARENA_MAX, 2)]
    {
        // SAFETY: it takes two integers and changes the allocator's settings under its own lock.
        // JUSTIFICATION: there is no safe wrapper, and a variable would have to be set before the start.
        let _refused_leaves_the_default = unsafe { libc::mallopt(parameter, value) };
    }
}

fn usage(who: libc::c_int) -> Option<libc::rusage> {
    let mut out = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `out` is a writable rusage; the kernel fills all of it or fails.
    // JUSTIFICATION: rustix has no getrusage.
    let done = unsafe { libc::getrusage(who, out.as_mut_ptr()) };
    // SAFETY: zeroed above, and every bit pattern of this struct of integers is valid.
    (done == 0).then(|| unsafe { out.assume_init() })
}

/// Reads `len_bytes` at `offset` and throws them away, so that they are in the page cache.
///
/// One `preadv` whose pieces all lie in the same small buffer: the kernel sees (and plans its disk
/// requests for) the whole length, while the copy stays in the CPU's second-level cache instead of
/// streaming through memory.
pub(crate) fn fill_cache(
    fd: BorrowedFd<'_>,
    buffer: &mut [u8],
    offset: u64,
    len_bytes: usize,
) -> io::Result<usize> {
    /// `UIO_MAXIOV` of the kernel.
    const MAX_PIECES: usize = 1024;
    let mut pieces = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; MAX_PIECES];
    let (mut left, mut n) = (len_bytes, 0);
    while left > 0 && n < MAX_PIECES && !buffer.is_empty() {
        let take = left.min(buffer.len());
        pieces[n] = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: take };
        left -= take;
        n += 1;
    }
    let at = libc::off64_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
    let count = libc::c_int::try_from(n).unwrap_or(0);
    // SAFETY: the first `n` entries point at `buffer`, which is writable for `iov_len <= buffer.len()`
    // bytes and exclusively borrowed for the call; the kernel writes bytes only, any value is a valid u8.
    // JUSTIFICATION: safe wrappers take distinct slices; overlapping is the point here.
    let got = unsafe { libc::preadv64(fd.as_raw_fd(), pieces.as_ptr(), count, at) };
    usize::try_from(got).map_err(|_| io::Error::last_os_error())
}

/// `cachestat(2)`, number 451 on every architecture (include/uapi/asm-generic/unistd.h).
const SYS_CACHESTAT: libc::c_long = 451;

/// Pages of `[offset, offset + len_bytes)` that are in the page cache, including those on their way
/// in. `PermissionDenied` unless the caller owns the file or may write it; `Unsupported` before 6.5.
pub(crate) fn cached_pages(fd: BorrowedFd<'_>, offset: u64, len_bytes: u64) -> io::Result<u64> {
    let range = [offset, len_bytes];
    // struct cachestat: nr_cache, nr_dirty, nr_writeback, nr_evicted, nr_recently_evicted.
    let mut out = [0_u64; 5];
    // SAFETY: both arrays have the layout and size of the kernel's structs (two and five u64) and live
    // through the call; the descriptor is borrowed, flags are 0 as required.
    // JUSTIFICATION: no wrapper exists in rustix or libc.
    let done = unsafe { libc::syscall(SYS_CACHESTAT, fd.as_raw_fd(), range.as_ptr(), out.as_mut_ptr(), 0) };
    if done == 0 { Ok(out[0]) } else { Err(io::Error::last_os_error()) }
}

/// An ioctl that reads and writes one buffer.
///
/// # Errors
/// Whatever the kernel says.
fn ioctl_buffer(fd: BorrowedFd<'_>, request: u32, buffer: &mut [u8], needs_bytes: usize) -> io::Result<()> {
    if buffer.len() < needs_bytes {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: every request that this module passes reads and writes at most `needs_bytes` bytes at the
    // pointer (or the size that the buffer itself states, which its builder derives from its length),
    // checked above; the kernel keeps no reference after the call.
    // JUSTIFICATION: rustix's ioctl would need an unsafe impl per request for the same promise.
    let done = unsafe { libc::ioctl(fd.as_raw_fd(), libc::Ioctl::from(request), buffer.as_mut_ptr()) };
    if done >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Takes over descriptor `number`, which whoever started this process left open for it.
pub(crate) fn inherited(number: i32) -> io::Result<OwnedFd> {
    // SAFETY: F_GETFD reads a flag of a number, whatever that is. JUSTIFICATION: whether a bare number is a
    // descriptor can be asked in no other way.
    if unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is open, and the caller, the helper at its start, is the only one that owns it.
    // JUSTIFICATION: the only way to own a raw descriptor.
    let fd = unsafe { OwnedFd::from_raw_fd(number) };
    rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC)?;
    Ok(fd)
}

/// `FS_IOC_GETFSUUID`, `_IOR(0x15, 0, struct fsuuid2)`, include/uapi/linux/fs.h, Linux 6.9.
const GET_FS_UUID: u32 = 0x8011_1500;
/// `EXT4_IOC_GETFSUUID`, `_IOR('f', 44, struct fsuuid)`, include/uapi/linux/ext4.h, Linux 5.19.
const EXT4_GET_UUID: u32 = 0x8008_662C;

/// Identifier of the filesystem that a folder is on, where the kernel tells it to all. The folder is opened, not read; with
/// `is_cached_only` only as far as it is in memory.
pub(crate) fn filesystem_uuid(folder: &std::path::Path, is_cached_only: bool) -> Option<String> {
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
    use std::os::fd::AsFd as _;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let resolve = if is_cached_only { ResolveFlags::CACHED } else { ResolveFlags::empty() };
    let fd = rustix::fs::openat2(CWD, folder, flags, Mode::empty(), resolve).ok()?;
    // Length in one byte, then up to 16.
    let mut any = [0_u8; 17];
    if ioctl_buffer(fd.as_fd(), GET_FS_UUID, &mut any, 17).is_ok() && any[0] == 16 {
        // Zeros are none: a filesystem of an image that was made without.
        return any[1..17].iter().any(|b| *b != 0).then(|| uuid_text(&any[1..17]));
    }
    // Length (in and out) and flags of four bytes each, then as many as the length says.
    let mut ext4 = [0_u8; 24];
    ext4[0..4].copy_from_slice(&16_u32.to_ne_bytes());
    ioctl_buffer(fd.as_fd(), EXT4_GET_UUID, &mut ext4, 24).ok()?;
    let is_one = field_u32(&ext4, 0) == Some(16) && ext4[8..24].iter().any(|b| *b != 0);
    is_one.then(|| uuid_text(&ext4[8..24]))
}

/// 16 bytes as `blkid` writes them.
fn uuid_text(b: &[u8]) -> String {
    let hex: String = b.iter().map(|c| format!("{c:02x}")).collect();
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or("");
    format!("{}-{}-{}-{}-{}", part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32))
}

/// Becomes `uid`/`gid` for good, supplementary groups dropped, all threads.
pub(crate) fn become_user(uid: u32, gid: u32) -> io::Result<()> {
    let check = |done: libc::c_int| if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    // SAFETY: a null list of length 0 is what setgroups takes to clear the groups.
    // JUSTIFICATION: rustix changes one thread only; libc's calls change the process.
    check(unsafe { libc::setgroups(0, std::ptr::null()) })?;
    // SAFETY: plain integers. JUSTIFICATION: as above.
    check(unsafe { libc::setresgid(gid, gid, gid) })?;
    // SAFETY: plain integers. JUSTIFICATION: as above.
    check(unsafe { libc::setresuid(uid, uid, uid) })
}

/// A little-endian-or-not field of a kernel struct: native order, `None` past the end.
pub(crate) fn field_u64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

/// As `field_u64`, 32 bits.
pub(crate) fn field_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

/// As `field_u64`, 16 bits.
pub(crate) fn field_u16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

/// `fsopen`, `fsconfig`, `fsmount`: the same numbers on every architecture (asm-generic/unistd.h), Linux 5.2.
const SYS_FSOPEN: libc::c_long = 430;
const SYS_FSCONFIG: libc::c_long = 431;
const SYS_FSMOUNT: libc::c_long = 432;
/// `FSCONFIG_CMD_CREATE`.
const FSCONFIG_CMD_CREATE: libc::c_uint = 6;
/// `FSOPEN_CLOEXEC` and `FSMOUNT_CLOEXEC`.
const CLOEXEC: libc::c_uint = 1;

/// A tracefs that is mounted nowhere: its root as a descriptor. A mount namespace of our own would do as
/// well, but it would hold every filesystem of the machine: none could be unmounted while the helper runs.
pub(crate) fn detached_tracefs() -> io::Result<OwnedFd> {
    let owned = |fd: libc::c_long| {
        let fd = i32::try_from(fd).ok().filter(|f| *f >= 0).ok_or_else(io::Error::last_os_error)?;
        // SAFETY: a new descriptor that the call before returned and nobody else owns.
        // JUSTIFICATION: the only way to own a raw descriptor.
        Ok::<_, io::Error>(unsafe { OwnedFd::from_raw_fd(fd) })
    };
    // SAFETY: a C string and a flag. JUSTIFICATION: rustix's mount feature is not built in this workspace.
    let context = owned(unsafe { libc::syscall(SYS_FSOPEN, c"tracefs".as_ptr(), CLOEXEC) })?;
    let none = std::ptr::null::<libc::c_char>();
    // SAFETY: CREATE takes no key and no value. JUSTIFICATION: as above.
    let made =
        unsafe { libc::syscall(SYS_FSCONFIG, context.as_raw_fd(), FSCONFIG_CMD_CREATE, none, none, 0) };
    if made != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: integers alone. JUSTIFICATION: as above.
    owned(unsafe { libc::syscall(SYS_FSMOUNT, context.as_raw_fd(), CLOEXEC, 0) })
}
