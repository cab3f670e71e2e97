//! One pattern of requests against one file: so many at once, in order or anywhere, for so long.
//!
//! Requests under way at once are threads, one each: 32 of them cost less than one per cent of a disk's time, need no right
//! that a container may lack, as `io_uring` does, and a request that hangs holds its own thread alone.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::Duration;

use rustix::fs::{Advice, OFlags, fadvise};
use serde::{Deserialize, Serialize};
use spindle_base::clock::SharedClock;
use spindle_base::shutdown::Shutdown;

/// Memory that the kernel hands to a device directly begins at a page; no device asks for more.
const PAGE: usize = 4096;
/// How often whoever watches is told.
const TOLD_EVERY: Duration = Duration::from_millis(100);
/// Through a cache, at most so much is written before it is sent to the disk: else the figure is memory's, and the flush
/// takes minutes.
const FLUSH_EVERY_BYTES: u64 = 256 << 20;

/// Read or write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// Read.
    Read,
    /// Write.
    Write,
}

/// Where the next request goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// After the last one; from the file's end to its beginning.
    Sequential,
    /// Anywhere in the file.
    Random,
}

/// One pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pattern {
    /// Read or write.
    pub op: Op,
    /// Where to.
    pub order: Order,
    /// Bytes of a request.
    pub block_bytes: u64,
    /// Requests under way at once.
    pub depth: usize,
    /// How long requests are begun.
    pub time: Duration,
    /// How many bytes at most; `u64::MAX` for as long as there is time.
    pub most_bytes: u64,
}

/// A file, with or without the kernel's cache between us and the disk.
#[derive(Debug)]
pub struct Target {
    file: File,
    size_bytes: u64,
    /// Why the cache could not be passed by.
    cached_because: Option<String>,
    /// Smallest request that the device takes.
    block_bytes: u64,
}

impl Target {
    /// Opens the file `made` that has just been made at `path`, and finds how the cache can be passed by. Writes its first page:
    /// [`reserve`] room before, or a filesystem may put that page elsewhere than the rest.
    ///
    /// # Errors
    /// Whatever the filesystem says but that it does not do direct I/O: then the cache is used, and dropped.
    pub fn open(path: &Path, made: File, size_bytes: u64) -> io::Result<Self> {
        if let Some(why) = quietly_cached(&made) {
            return Ok(Self { file: made, size_bytes, cached_because: Some(why), block_bytes: 512 });
        }
        let flags = i32::try_from((OFlags::DIRECT | OFlags::NOFOLLOW).bits()).map_err(io::Error::other)?;
        let opened = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path);
        let refused = match opened {
            Ok(file) if file.metadata()?.ino() == made.metadata()?.ino() => match try_direct(&file, &made) {
                Ok(block_bytes) => return Ok(Self { file, size_bytes, cached_because: None, block_bytes }),
                Err(error) => error,
            },
            Ok(_) => return Err(io::Error::other("another file has taken its name")),
            Err(error) => error,
        };
        // EINVAL is how a filesystem says that it knows no direct I/O (open(2)); anything else is a fault.
        if refused.kind() != io::ErrorKind::InvalidInput {
            return Err(refused);
        }
        let why = "the filesystem does no direct I/O (O_DIRECT)".to_owned();
        Ok(Self { file: made, size_bytes, cached_because: Some(why), block_bytes: 512 })
    }

    /// Opens a file of somebody else's to read it.
    ///
    /// # Errors
    /// Whatever the filesystem says.
    pub fn open_to_read(path: &Path) -> io::Result<Self> {
        let open = |flags: OFlags| {
            let flags = i32::try_from((flags | OFlags::NONBLOCK | OFlags::NOCTTY).bits())
                .map_err(io::Error::other)?;
            OpenOptions::new().read(true).custom_flags(flags).open(path)
        };
        let meta = open(OFlags::empty())?.metadata()?;
        if !meta.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"));
        }
        let (file, cached_because) = match open(OFlags::DIRECT) {
            Ok(file) => {
                let why = quietly_cached(&file);
                (file, why)
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                (open(OFlags::empty())?, Some("the filesystem does no direct I/O (O_DIRECT)".to_owned()))
            }
            Err(error) => return Err(error),
        };
        Ok(Self { file, size_bytes: meta.len(), cached_because, block_bytes: 512 })
    }

    /// Uses the cache on purpose, as an ordinary copy does.
    ///
    /// # Errors
    /// The flag cannot be taken back.
    pub fn through_the_cache(mut self) -> io::Result<Self> {
        if self.is_direct() {
            let flags = rustix::fs::fcntl_getfl(&self.file)?;
            rustix::fs::fcntl_setfl(&self.file, flags & !OFlags::DIRECT)?;
        }
        self.cached_because = Some("the cache was asked for (--buffered)".to_owned());
        Ok(self)
    }

    /// Whether requests go past the kernel's cache.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.cached_because.is_none()
    }

    /// Why they do not.
    #[must_use]
    pub fn cached_because(&self) -> Option<&str> {
        self.cached_because.as_deref()
    }

    /// Bytes of the file.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Bytes of the smallest request that can be made: the device's logical block.
    #[must_use]
    pub fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    /// Waits until what was written is on the disk.
    ///
    /// # Errors
    /// It is not.
    pub fn flush(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Drops what of this file is in memory. Only clean pages go: flush first.
    pub fn drop_cache(&self) {
        if let Err(error) = fadvise(&self.file, 0, None, Advice::DontNeed) {
            tracing::debug!(%error, "unable to drop the cache of a temporary file");
        }
    }

    /// Reads at a place. `buffer` is aligned where that is needed.
    pub(crate) fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        retried(|| self.file.read_at(buffer, offset))
    }

    /// Writes at a place; all of it or an error.
    pub(crate) fn write(&self, buffer: &[u8], offset: u64) -> io::Result<()> {
        match retried(|| self.file.write_at(buffer, offset))? {
            n if n == buffer.len() => Ok(()),
            // The kernel stops where the room does; the next call says why.
            n => match retried(|| self.file.write_at(&buffer[n..], offset + n as u64))? {
                0 => Err(io::Error::from(io::ErrorKind::WriteZero)),
                _ => Err(io::Error::from(io::ErrorKind::StorageFull)),
            },
        }
    }
}

/// Takes room for a file of so many bytes, so that what is missing is missed before anything is measured, and the file lies in one
/// place where there is one. A filesystem that cannot is written to all the same.
///
/// # Errors
/// There is no room.
pub fn reserve(file: &File, size_bytes: u64) -> io::Result<()> {
    match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, size_bytes) {
        Err(error) if error == rustix::io::Errno::NOSPC || error == rustix::io::Errno::DQUOT => {
            Err(error.into())
        }
        // Not known to it (EOPNOTSUPP), or not for this file: writing will tell.
        _ => Ok(()),
    }
}

/// Why requests to a file go through the cache although it may be opened with `O_DIRECT`: ext4 takes the flag with
/// `data=journal`, with encryption or verity, and does as if it were not there. It says so by `STATX_DIOALIGN` (statx(2), since
/// 6.1): an alignment of 0 is none. `None` also where the kernel or the filesystem has no answer.
fn quietly_cached(file: &File) -> Option<String> {
    use rustix::fs::{AtFlags, StatxFlags, statx};
    /// `linux/stat.h`.
    const DIOALIGN: StatxFlags = StatxFlags::from_bits_retain(0x2000);
    let seen = statx(file, c"", AtFlags::EMPTY_PATH, DIOALIGN).ok()?;
    let is_none = seen.stx_mask & DIOALIGN.bits() != 0 && seen.stx_dio_offset_align == 0;
    is_none.then(|| "the filesystem does no direct I/O (O_DIRECT) of this file".to_owned())
}

fn retried(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// Whether the first page of a file is in memory: `file` is open without `O_DIRECT`, and does not wait for a disk (preadv2(2)).
fn is_in_memory(file: &File) -> bool {
    let mut byte = [0_u8];
    let mut into = [io::IoSliceMut::new(&mut byte)];
    rustix::io::preadv2(file, &mut into, 0, rustix::io::ReadWriteFlags::NOWAIT).is_ok_and(|n| n == 1)
}

/// Writes the first page directly and reads it back by the smallest block that comes past the cache. btrfs takes smaller ones
/// than its own and reads them through memory (`check_direct_IO` in fs/btrfs/inode.c): `cached`, the same file without
/// `O_DIRECT`, shows that.
fn try_direct(file: &File, cached: &File) -> io::Result<u64> {
    let mut buffer = Buffer::new(PAGE);
    buffer.fill(1);
    file.write_all_at(buffer.bytes(), 0)?;
    let mut last = io::Error::from(io::ErrorKind::InvalidInput);
    for block in [512_usize, 1024, 2048, 4096] {
        match file.read_at(&mut buffer.bytes_mut()[..block], 0) {
            Ok(_) if is_in_memory(cached) => {
                last = io::Error::from(io::ErrorKind::InvalidInput);
                let _its_page_is_clean = fadvise(cached, 0, None, Advice::DontNeed);
            }
            Ok(_) => return Ok(block as u64),
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

/// Memory that begins at a page.
pub(crate) struct Buffer {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl Buffer {
    pub(crate) fn new(len: usize) -> Self {
        let memory = vec![0; len + PAGE];
        let start = memory.as_ptr().align_offset(PAGE).min(PAGE);
        Self { memory, start, len }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }

    /// Noise, so that nothing between us and the disk makes less of it.
    pub(crate) fn fill(&mut self, seed: u64) {
        let mut random = Random(seed);
        for part in self.bytes_mut().chunks_mut(8) {
            let word = random.next().to_le_bytes();
            part.copy_from_slice(&word[..part.len()]);
        }
    }

    /// Makes every page of it one that was not there before: a volume that keeps equal pages once must keep all of them.
    pub(crate) fn stamp(&mut self, number: u64) {
        for (i, page) in self.bytes_mut().chunks_mut(PAGE).enumerate() {
            if let Some(head) = page.get_mut(..8) {
                head.copy_from_slice(&(number ^ ((i as u64) << 48)).to_le_bytes());
            }
        }
    }
}

/// SplitMix64 (Steele, Lea and Flood, 2014): spread over all places, no secret.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Below `n`, by the high half of a product (Lemire, 2019); its bias is below 2^-30 for the counts here.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        u64::try_from((u128::from(self.next()) * u128::from(n)) >> 64).unwrap_or(0)
    }
}

/// Times of requests by size: 16 steps to a doubling, so that a percentile is within 5 %.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Times {
    counts: Vec<u64>,
    max_us: u64,
}

impl Default for Times {
    fn default() -> Self {
        Self { counts: vec![0; 64 * 16], max_us: 0 }
    }
}

impl Times {
    fn note(&mut self, us: u64) {
        self.counts[Self::slot(us)] += 1;
        self.max_us = self.max_us.max(us);
    }

    fn add(&mut self, other: &Self) {
        for (a, b) in self.counts.iter_mut().zip(&other.counts) {
            *a += b;
        }
        self.max_us = self.max_us.max(other.max_us);
    }

    /// Below 16 each its own; above, the exponent and the next four bits.
    fn slot(us: u64) -> usize {
        if us < 16 {
            return usize::try_from(us).unwrap_or(0);
        }
        let exponent = u64::from(us.ilog2());
        usize::try_from((exponent - 3) * 16 + ((us >> (exponent - 4)) & 15)).unwrap_or(0)
    }

    /// The middle of a slot.
    fn middle(slot: usize) -> f64 {
        if slot < 16 {
            return slot as f64;
        }
        let (exponent, step) = (slot / 16 + 3, slot % 16);
        (16.0 + step as f64 + 0.5) * f64::powi(2.0, i32::try_from(exponent).unwrap_or(0) - 4)
    }

    /// The time that this share of requests did not exceed, in microseconds; 0 without any.
    #[must_use]
    pub fn percentile_us(&self, share: f64) -> f64 {
        let all: u64 = self.counts.iter().sum();
        if all == 0 {
            return 0.0;
        }
        let wanted = (all as f64 * share).ceil().max(1.0);
        let mut sum = 0.0;
        for (slot, count) in self.counts.iter().enumerate() {
            sum += *count as f64;
            if sum >= wanted {
                return Self::middle(slot).min(self.max_us as f64);
            }
        }
        self.max_us as f64
    }

    /// The longest.
    #[must_use]
    pub fn max_us(&self) -> u64 {
        self.max_us
    }
}

/// What came of a pattern.
#[derive(Debug, Default)]
pub struct Run {
    /// Requests answered.
    pub ops: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// From the first request's beginning to the last answer; with the flush, where a cache was in between.
    pub elapsed_us: u64,
    /// Times of single requests.
    pub times: Times,
    /// Why it ended before its time.
    pub failed: Option<io::Error>,
}

impl Run {
    /// Requests a second.
    #[must_use]
    pub fn iops(&self) -> f64 {
        self.ops as f64 / self.seconds().max(1e-6)
    }

    /// Bytes a second.
    #[must_use]
    pub fn bytes_per_s(&self) -> f64 {
        self.bytes as f64 / self.seconds().max(1e-6)
    }

    /// Seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.elapsed_us as f64 / 1e6
    }
}

/// One row of a table of patterns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PatternRow {
    /// Its name.
    pub pattern: String,
    /// Read or write.
    pub op: Op,
    /// Where to.
    pub order: Order,
    /// Bytes of a request.
    pub block_bytes: u64,
    /// Requests under way at once.
    pub depth: usize,
    /// Which of the figures it is about: `iops` or `bytes_per_s`.
    pub figure: String,
    /// Whether the kernel's cache was passed by.
    pub direct: bool,
    /// Requests answered.
    pub ops: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// How long that took.
    pub seconds: f64,
    /// Requests a second.
    pub iops: f64,
    /// Bytes a second.
    pub bytes_per_s: f64,
    /// Time of half of the requests, at most.
    pub p50_us: f64,
    /// Of 95 in a hundred.
    pub p95_us: f64,
    /// Of 99 in a hundred.
    pub p99_us: f64,
    /// Of all.
    pub max_us: f64,
}

impl PatternRow {
    /// Of a run.
    #[must_use]
    pub fn of(name: &str, figure: &str, pattern: &Pattern, run: &Run, direct: bool) -> Self {
        Self {
            pattern: name.to_owned(),
            op: pattern.op,
            order: pattern.order,
            block_bytes: pattern.block_bytes,
            depth: pattern.depth,
            figure: figure.to_owned(),
            direct,
            ops: run.ops,
            bytes: run.bytes,
            seconds: run.seconds(),
            iops: run.iops(),
            bytes_per_s: run.bytes_per_s(),
            p50_us: run.times.percentile_us(0.50),
            p95_us: run.times.percentile_us(0.95),
            p99_us: run.times.percentile_us(0.99),
            max_us: run.times.max_us() as f64,
        }
    }
}

/// What all requesters of a pattern share.
struct Shared<'a> {
    target: &'a Target,
    pattern: &'a Pattern,
    clock: &'a SharedClock,
    stop: &'a Shutdown,
    began_us: AtomicU64,
    next: AtomicU64,
    ops: AtomicU64,
    bytes: AtomicU64,
    unflushed: AtomicU64,
    ended: AtomicBool,
    running: AtomicUsize,
    failed: Mutex<Option<io::Error>>,
}

/// Runs a pattern. `told` gets bytes a second so far, ten times a second.
///
/// # Errors
/// A thread cannot be started. What the disk refuses is in the result, with what was measured before.
pub fn run(
    target: &Target,
    pattern: &Pattern,
    clock: &SharedClock,
    stop: &Shutdown,
    told: &dyn Fn(u64, f64),
) -> io::Result<Run> {
    let depth = pattern.depth.max(1);
    let shared = Shared {
        target,
        pattern,
        clock,
        stop,
        began_us: AtomicU64::new(0),
        next: AtomicU64::new(0),
        ops: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
        unflushed: AtomicU64::new(0),
        ended: AtomicBool::new(false),
        running: AtomicUsize::new(depth),
        failed: Mutex::new(None),
    };
    if !target.is_direct() {
        target.flush()?;
        target.drop_cache();
        let advice = if pattern.order == Order::Random { Advice::Random } else { Advice::Sequential };
        let _only_advice = fadvise(&target.file, 0, None, advice);
    }
    let mut all = Run::default();
    // Held while the requesters are made: they begin together.
    let gate = RwLock::new(());
    let closed = gate.write().unwrap_or_else(PoisonError::into_inner);
    let waiting = std::thread::current();
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for i in 0..depth {
            let (shared, gate, waiting) = (&shared, &gate, waiting.clone());
            let begun =
                std::thread::Builder::new().name(format!("bench-{i}")).spawn_scoped(scope, move || {
                    drop(gate.read().unwrap_or_else(PoisonError::into_inner));
                    let ended = Requester::new(shared, i as u64).go();
                    shared.running.fetch_sub(1, Ordering::AcqRel);
                    waiting.unpark();
                    ended
                });
            match begun {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    shared.ended.store(true, Ordering::Release);
                    drop(closed);
                    return Err(error);
                }
            }
        }
        let began = clock.monotonic_us();
        shared.began_us.store(began, Ordering::Release);
        drop(closed);
        while shared.running.load(Ordering::Acquire) > 0 && !threads.iter().all(|t| t.is_finished()) {
            std::thread::park_timeout(TOLD_EVERY);
            let seconds = clock.monotonic_us().saturating_sub(began) as f64 / 1e6;
            let bytes = shared.bytes.load(Ordering::Relaxed);
            told(bytes, bytes as f64 / seconds.max(1e-6));
        }
        let mut last = began;
        for thread in threads {
            // A panic there is a fault of ours: it goes on here, and the file is removed on the way.
            let (times, at) = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            all.times.add(&times);
            last = last.max(at);
        }
        all.elapsed_us = last - began;
        Ok(())
    })?;
    all.ops = shared.ops.into_inner();
    all.bytes = shared.bytes.into_inner();
    all.failed = shared.failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    if !target.is_direct() && pattern.op == Op::Write && all.failed.is_none() {
        let began = clock.monotonic_us();
        all.failed = target.flush().err();
        all.elapsed_us += clock.monotonic_us() - began;
    }
    Ok(all)
}

/// One request after the other.
struct Requester<'a> {
    shared: &'a Shared<'a>,
    random: Random,
    buffer: Buffer,
    times: Times,
    last_us: u64,
}

impl<'a> Requester<'a> {
    fn new(shared: &'a Shared<'a>, number: u64) -> Self {
        let began = shared.began_us.load(Ordering::Acquire);
        let seed = began.wrapping_mul(31).wrapping_add(number);
        let mut buffer = Buffer::new(usize::try_from(shared.pattern.block_bytes).unwrap_or(PAGE));
        if shared.pattern.op == Op::Write {
            buffer.fill(seed);
        }
        Self { shared, random: Random(seed), buffer, times: Times::default(), last_us: began }
    }

    /// Until time, bytes or patience are at an end. Gives the times, and when the last answer came.
    fn go(mut self) -> (Times, u64) {
        let shared = self.shared;
        let time_us = u64::try_from(shared.pattern.time.as_micros()).unwrap_or(u64::MAX);
        let until = shared.began_us.load(Ordering::Acquire).saturating_add(time_us);
        let mut began = shared.clock.monotonic_us();
        while began < until && !shared.stop.is_requested() && !shared.ended.load(Ordering::Relaxed) {
            let number = shared.next.fetch_add(1, Ordering::Relaxed);
            if number.saturating_mul(shared.pattern.block_bytes) >= shared.pattern.most_bytes {
                break;
            }
            match self.request(number) {
                Ok(()) => {
                    let now = shared.clock.monotonic_us();
                    self.times.note(now - began);
                    self.last_us = now;
                    shared.ops.fetch_add(1, Ordering::Relaxed);
                    shared.bytes.fetch_add(shared.pattern.block_bytes, Ordering::Relaxed);
                    began = now;
                }
                Err(error) => {
                    shared.ended.store(true, Ordering::Release);
                    let mut failed = shared.failed.lock().unwrap_or_else(PoisonError::into_inner);
                    failed.get_or_insert(error);
                    break;
                }
            }
        }
        (self.times, self.last_us)
    }

    fn request(&mut self, number: u64) -> io::Result<()> {
        let (target, pattern) = (self.shared.target, self.shared.pattern);
        let blocks = (target.size_bytes / pattern.block_bytes).max(1);
        let block = match pattern.order {
            Order::Sequential => number % blocks,
            Order::Random => self.random.below(blocks),
        };
        let offset = block * pattern.block_bytes;
        match pattern.op {
            Op::Read => {
                if !target.is_direct() && number > 0 && number.is_multiple_of(blocks) {
                    target.drop_cache();
                }
                let n = target.read(self.buffer.bytes_mut(), offset)?;
                if n as u64 != pattern.block_bytes {
                    return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
                }
            }
            Op::Write => {
                self.buffer.stamp(number);
                target.write(self.buffer.bytes(), offset)?;
                self.flush_what_gathers(pattern.block_bytes)?;
            }
        }
        Ok(())
    }

    /// Through a cache: sends it on before it grows to what memory holds.
    fn flush_what_gathers(&self, bytes: u64) -> io::Result<()> {
        let shared = self.shared;
        if shared.target.is_direct() {
            return Ok(());
        }
        if shared.unflushed.fetch_add(bytes, Ordering::Relaxed) + bytes >= FLUSH_EVERY_BYTES {
            shared.unflushed.store(0, Ordering::Relaxed);
            shared.target.flush()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
