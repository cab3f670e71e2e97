//! Perf ring buffers of tracepoints: one per CPU, shared by its events. include/uapi/linux/perf_event.h.
#![expect(
    unsafe_code,
    reason = "the kernel's ring buffer is shared memory; perf_event_open has no safe wrapper"
)]

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// `struct perf_event_attr` up to `__reserved_2` (PERF_ATTR_SIZE_VER5, 112 bytes).
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_watermark: u32,
    bp_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clockid: i32,
    sample_regs_intr: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved: u16,
}

const PERF_TYPE_TRACEPOINT: u32 = 2;
/// `TID | TIME | RAW`.
const SAMPLE: u64 = 2 | 4 | (1 << 10);
/// `disabled`, `watermark`, `use_clockid`.
const FLAGS: u64 = 1 | (1 << 14) | (1 << 25);
const FD_CLOEXEC: libc::c_ulong = 8;
const SET_FILTER: u32 = 0x4008_2406;
const SET_OUTPUT: u32 = 0x2405;
const ENABLE: u32 = 0x2400;

/// Offsets in the control page (`struct perf_event_mmap_page`).
const DATA_HEAD: usize = 1024;
const DATA_TAIL: usize = 1032;

const RECORD_LOST: u32 = 2;
const RECORD_SAMPLE: u32 = 9;
/// `struct perf_event_header`.
const HEADER_BYTES: usize = 8;

/// One event on one CPU.
pub(super) struct Event(OwnedFd);

impl Event {
    /// Opens tracepoint `id` on `cpu`, for every process, not yet running.
    pub(super) fn open(id: u16, cpu: i32, watermark_bytes: u32) -> io::Result<Self> {
        let attributes = Attributes {
            kind: PERF_TYPE_TRACEPOINT,
            size: u32::try_from(size_of::<Attributes>()).unwrap_or(0),
            config: u64::from(id),
            sample_period: 1,
            sample_type: SAMPLE,
            flags: FLAGS,
            wakeup_watermark: watermark_bytes,
            clockid: libc::CLOCK_MONOTONIC,
            ..Attributes::default()
        };
        // SAFETY: `attributes` has the kernel's layout and states its own size; the kernel only reads it.
        // JUSTIFICATION: there is no wrapper for this call in our dependencies.
        let fd = unsafe {
            libc::syscall(libc::SYS_perf_event_open, &raw const attributes, -1, cpu, -1, FD_CLOEXEC)
        };
        let fd = i32::try_from(fd).ok().filter(|f| *f >= 0).ok_or_else(io::Error::last_os_error)?;
        // SAFETY: the call returned a new descriptor that nobody else owns.
        // JUSTIFICATION: the only way to own a raw descriptor.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Sends this event's samples into the ring of another event of the same CPU.
    pub(super) fn share_ring_of(&self, other: BorrowedFd<'_>) -> io::Result<()> {
        // SAFETY: this request takes a descriptor by value. JUSTIFICATION: rustix has no wrapper.
        done(unsafe { libc::ioctl(self.0.as_raw_fd(), libc::Ioctl::from(SET_OUTPUT), other.as_raw_fd()) })
    }

    /// Sets the kernel-side filter; once (the kernel says EEXIST to a second one).
    pub(super) fn set_filter(&self, filter: &CStr) -> io::Result<()> {
        // SAFETY: the kernel reads the string up to its NUL. JUSTIFICATION: rustix has no wrapper.
        done(unsafe { libc::ioctl(self.0.as_raw_fd(), libc::Ioctl::from(SET_FILTER), filter.as_ptr()) })
    }

    pub(super) fn run(&self) -> io::Result<()> {
        // SAFETY: this request takes an integer flag. JUSTIFICATION: rustix has no wrapper.
        done(unsafe { libc::ioctl(self.0.as_raw_fd(), libc::Ioctl::from(ENABLE), 0) })
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn done(result: libc::c_int) -> io::Result<()> {
    if result >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// What a ring holds.
pub(super) enum Record<'a> {
    Sample { pid: u32, tid: u32, time_ns: u64, raw: &'a [u8] },
    Lost(u64),
}

/// The mapped ring of one CPU.
pub(super) struct Ring {
    base: NonNull<u8>,
    page_bytes: usize,
    /// A power of two, as the kernel demands.
    data_bytes: usize,
    scratch: Vec<u8>,
}

impl Ring {
    /// Maps the ring of `event` with `pages` data pages, a power of two.
    pub(super) fn map(event: &Event, pages: usize) -> io::Result<Self> {
        // SAFETY: takes an integer, gives an integer. JUSTIFICATION: rustix's `param` feature is not built.
        let page_bytes = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
        let data_bytes = pages.next_power_of_two() * page_bytes;
        // SAFETY: a fresh shared mapping at an address of the kernel's choice, of one control page and a power
        // of two of data pages as perf demands; unmapped in `drop` with the same length.
        // JUSTIFICATION: shared memory with the kernel can only be had by mmap.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                page_bytes + data_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                event.0.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, page_bytes, data_bytes, scratch: Vec::new() })
    }

    fn counter(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: `offset` is one of the two constants above, 8-aligned and inside the control page, which is
        // mapped as long as `self` lives; kernel and we access it atomically.
        // JUSTIFICATION: the head is written by the kernel at any time.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(offset).cast()) }
    }

    /// Copies `len` bytes at ring position `at` into the scratch buffer.
    fn copy(&mut self, at: u64, len: usize) {
        let start = usize::try_from(at % self.data_bytes as u64).unwrap_or(0);
        let first = len.min(self.data_bytes - start);
        self.scratch.clear();
        for (from, n) in [(start, first), (0, len - first)] {
            // SAFETY: `from + n <= data_bytes` by the two lines above (len is capped by the caller), inside the
            // mapping; the kernel does not write between tail and head until the tail is moved.
            // JUSTIFICATION: a record may wrap around the end; it is copied to be read in one piece.
            let part =
                unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(self.page_bytes + from), n) };
            self.scratch.extend_from_slice(part);
        }
    }

    /// Hands over everything that is in the ring and frees it.
    pub(super) fn drain(&mut self, mut each: impl FnMut(Record<'_>)) {
        let head = self.counter(DATA_HEAD).load(Ordering::Acquire);
        let mut tail = self.counter(DATA_TAIL).load(Ordering::Relaxed);
        while tail < head {
            self.copy(tail, HEADER_BYTES);
            let kind = crate::sys::field_u32(&self.scratch, 0).unwrap_or(0);
            let size = usize::from(crate::sys::field_u16(&self.scratch, 6).unwrap_or(0));
            if size < HEADER_BYTES || size > self.data_bytes {
                // Not what the kernel writes; nothing after it can be trusted.
                tail = head;
                break;
            }
            self.copy(tail, size);
            if let Some(record) = record(kind, &self.scratch) {
                each(record);
            }
            tail += size as u64;
        }
        self.counter(DATA_TAIL).store(tail, Ordering::Release);
    }
}

fn record(kind: u32, bytes: &[u8]) -> Option<Record<'_>> {
    use crate::sys::{field_u32, field_u64};
    match kind {
        // header, pid, tid, time, raw size, raw
        RECORD_SAMPLE => {
            let size = field_u32(bytes, 24)? as usize;
            Some(Record::Sample {
                pid: field_u32(bytes, 8)?,
                tid: field_u32(bytes, 12)?,
                time_ns: field_u64(bytes, 16)?,
                raw: bytes.get(28..28_usize.checked_add(size)?)?,
            })
        }
        // header, id, number
        RECORD_LOST => Some(Record::Lost(field_u64(bytes, 16)?)),
        _ => None,
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `map`; no reference into it outlives `self`.
        // JUSTIFICATION: counterpart of mmap. A failure leaves a mapping behind, which ends with the process.
        let _ = unsafe { libc::munmap(self.base.as_ptr().cast(), self.page_bytes + self.data_bytes) };
    }
}
