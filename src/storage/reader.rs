//! An open file: what of it is in memory, and bringing in what is not.
//!
//! Reads go through the page cache, because sendfile sends from there. `POSIX_FADV_RANDOM` is set on every
//! file: the kernel then fetches exactly what a read asks for and nothing on its own, so that
//! - a disk request is as large as our chunk instead of the device's read-ahead window (128 KiB by default,
//!   7 times the disk time per byte once streams interleave),
//! - every fetch happens on a reader thread and is in the ledger; sendfile never starts one,
//! - the set of fetched ranges is exact.
//!
//! The read-ahead that the kernel then does not do is ours: one chunk ahead of a sequential asker.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use bytes::Bytes;
use rustix::fs::{Advice, Mode, OFlags};
use rustix::io::ReadWriteFlags;
use spindle_base::clock::SharedClock;
use spindle_base::units::ByteRange;
use tokio::sync::{oneshot, watch};

use crate::cached::PROBE_BYTES;
use crate::error::StorageError;
use crate::file::{FileIdentity, FileState, PAGE_BYTES, pages};
use crate::ledger::{Ledger, Row, RowKind, ServedLog, StreamId, StreamShared};
use crate::pool::{Job, Lane};
use crate::sys;

/// Smallest read: a request of less costs a disk as much time.
const MIN_READ_BYTES: u64 = 128 << 10;

/// A file open for one stream. Cheap to clone.
#[derive(Debug, Clone)]
pub struct MediaFile(Arc<Inner>);

pub(crate) struct Inner {
    /// There until it is dropped.
    fd: Option<OwnedFd>,
    path: PathBuf,
    state: Arc<FileState>,
    stream: StreamId,
    shared: Arc<StreamShared>,
    served: Arc<ServedLog>,
    ledger: Ledger,
    clock: SharedClock,
    chunk_bytes: u64,
    /// cachestat answers for this file (5.5 kernels, other owners: it does not).
    has_cachestat: AtomicBool,
    has_nowait: AtomicBool,
    /// Where the window of reads asked for so far ends, and where it may go.
    ahead_end: AtomicU64,
    wanted_end: AtomicU64,
    /// The read ahead that is queued or under way: its range, and a flag that it is over. The sender lives in
    /// the request, so that an abandoned one wakes its waiters as well. A leaf lock.
    ahead: std::sync::Mutex<Option<(ByteRange, watch::Receiver<bool>)>>,
}

/// What `open` needs besides the path.
pub(crate) struct Opening {
    pub(crate) stream: StreamId,
    pub(crate) shared: Arc<StreamShared>,
    pub(crate) ledger: Ledger,
    pub(crate) clock: SharedClock,
    pub(crate) chunk_bytes: u32,
}

/// Opens a regular file for reading. Never blocks on a pipe, never follows into a device.
pub(crate) fn open_regular(path: &Path) -> Result<(OwnedFd, FileIdentity), StorageError> {
    let failed = |e: rustix::io::Errno| StorageError::Open { path: path.to_owned(), source: e.into() };
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let open = |flags| rustix::fs::open(path, flags, Mode::empty());
    // Reading must not write access times to the disks that it watches; only owners may ask for that.
    let fd = match open(flags | OFlags::NOATIME) {
        Err(rustix::io::Errno::PERM) => open(flags),
        other => other,
    }
    .map_err(failed)?;
    let identity = identity_of(&fd, path)?;
    Ok((fd, identity))
}

/// Names a regular file without opening it (`O_PATH`): enough for where it is and what it is. A mergerfs that is told to drop
/// caches on close does so for every one of its files that somebody opened and closed, under whoever plays it.
pub(crate) fn look_at(path: &Path) -> Result<(OwnedFd, FileIdentity), StorageError> {
    let failed = |e: rustix::io::Errno| StorageError::Open { path: path.to_owned(), source: e.into() };
    let fd = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(failed)?;
    let identity = identity_of(&fd, path)?;
    Ok((fd, identity))
}

fn identity_of(fd: &OwnedFd, path: &Path) -> Result<FileIdentity, StorageError> {
    let failed = |e: rustix::io::Errno| StorageError::Open { path: path.to_owned(), source: e.into() };
    let st = rustix::fs::fstat(fd).map_err(failed)?;
    if !rustix::fs::FileType::from_raw_mode(st.st_mode).is_file() {
        return Err(StorageError::NotRegular { path: path.to_owned() });
    }
    Ok(FileIdentity {
        dev: st.st_dev,
        ino: st.st_ino,
        size_bytes: u64::try_from(st.st_size).unwrap_or(0),
        modified_us: micros(st.st_mtime, st.st_mtime_nsec),
        changed_us: micros(st.st_ctime, st.st_ctime_nsec),
    })
}

fn micros(seconds: i64, nanos: impl TryInto<i64>) -> i64 {
    seconds.saturating_mul(1_000_000).saturating_add(nanos.try_into().unwrap_or(0) / 1_000)
}

/// Opens, ready to be read: with the kernel's own read-ahead off.
pub(crate) fn without_read_ahead(fd: &OwnedFd) {
    // A filesystem that knows no advice reads ahead: attribution then counts more, nothing breaks.
    let _ = rustix::fs::fadvise(fd, 0, None, Advice::Random);
}

impl MediaFile {
    pub(crate) fn new(fd: OwnedFd, path: PathBuf, state: Arc<FileState>, opening: Opening) -> Self {
        let served = Arc::new(ServedLog::new(Arc::clone(&state)));
        if opening.ledger.is_on() {
            opening.shared.logs.lock().push(Arc::clone(&served));
        }
        Self(Arc::new(Inner {
            fd: Some(fd),
            path,
            state,
            stream: opening.stream,
            shared: opening.shared,
            served,
            ledger: opening.ledger,
            clock: opening.clock,
            chunk_bytes: u64::from(opening.chunk_bytes),
            has_cachestat: AtomicBool::new(true),
            has_nowait: AtomicBool::new(true),
            ahead_end: AtomicU64::new(0),
            wanted_end: AtomicU64::new(0),
            ahead: std::sync::Mutex::new(None),
        }))
    }

    /// Size when it was opened. A file that grows keeps this size here; one that shrinks gives
    /// [`StorageError::Shrunk`].
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.0.state.identity.size_bytes
    }

    /// Which file, in which state.
    #[must_use]
    pub fn identity(&self) -> FileIdentity {
        self.0.state.identity
    }

    /// The path that it was opened by.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// For sendfile of what is in memory. It has the kernel's read-ahead switched off: give a worker
    /// [`MediaFile::open_again`] instead, or its small reads become small disk requests.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.fd()
    }

    /// Whether even bytes that are in memory may wait for another machine (NFS, CIFS): they are read by value, on the reader
    /// threads, never sent by sendfile.
    #[must_use]
    pub fn revalidates(&self) -> bool {
        self.0.state.device.revalidates()
    }

    /// The same file opened once more, with ordinary read-ahead and an own position, for a worker process. On the reader
    /// threads: a mount that hangs (FUSE, NFS) holds up an open as long as a read.
    ///
    /// # Errors
    /// If `/proc` is not mounted, the file may no longer be opened or has become shorter, and if the device's queue is full.
    pub async fn open_again(&self) -> Result<WorkerFile, StorageError> {
        let file = self.clone();
        self.ask(move |inner, _, _| {
            inner.open_again(file).map_err(|source| StorageError::Open { path: inner.path.clone(), source })
        })
        .await
    }

    /// How many bytes from `offset` (at most `max`) can be sent without waiting for a disk. Never blocks,
    /// costs microseconds; 0 = ask [`MediaFile::bring_in`].
    ///
    /// By cachestat(2) where that is permitted (own files, 6.5), less what is being read at the moment;
    /// otherwise by our own set of fetched ranges, confirmed by probes that do not wait.
    #[must_use]
    pub fn resident(&self, offset: u64, max: u64) -> u64 {
        let end = offset.saturating_add(max).min(self.size_bytes());
        if offset >= end {
            return 0;
        }
        let n = match self.0.by_cachestat(offset, end) {
            Some(n) => n,
            None => self.0.by_probes(offset, end),
        };
        if n > 0 {
            self.read_ahead(offset.saturating_add(n));
        }
        n
    }

    /// As [`MediaFile::resident`], for the moment before bytes that were in memory are sent: asks for nothing ahead.
    ///
    /// A page cache forgets. sendfile reads what is gone from the disk, on the caller's thread and in pages of 4 KiB,
    /// and of a disk that hangs it never returns: an executor thread would be lost, with whatever waits on it.
    #[must_use]
    pub fn still_resident(&self, offset: u64, max: u64) -> u64 {
        let end = offset.saturating_add(max).min(self.size_bytes());
        if offset >= end {
            return 0;
        }
        let inner = &self.0;
        let n = inner.by_cachestat(offset, end).unwrap_or_else(|| inner.by_probes(offset, end));
        if n > 0 && inner.state.foreign.may_read(&*inner.clock) && inner.has_nowait.load(Ordering::Relaxed) {
            // Theirs are reads under way that nobody here knows of; cachestat counts their pages, a probe does not.
            return crate::cached::ready_prefix(inner.fd(), offset, n);
        }
        n
    }

    /// Reads from disk into the page cache on the device's reader threads, in large reads, one ledger row
    /// each. Resolves with the number of bytes from `offset` that are now in memory: at least 1, 0 only at
    /// the end of the file. Dropping the future abandons a read that has not started.
    ///
    /// `want` is how much the asker will need in all; up to one chunk of it is read now, and the next chunk
    /// behind its back.
    ///
    /// # Errors
    /// A read error, a file that has shrunk, a full queue.
    pub async fn bring_in(&self, offset: u64, want: u64) -> Result<u64, StorageError> {
        let size = self.size_bytes();
        if offset >= size || want == 0 {
            return Ok(0);
        }
        self.0.wanted_end.fetch_max(offset.saturating_add(want).min(size), Ordering::Relaxed);
        if self.await_ahead(offset).await {
            let n = self.resident(offset, want.min(self.0.chunk_bytes));
            if n > 0 {
                return Ok(n);
            }
        }
        let range = self.0.window(offset, want);
        self.0.ahead_end.store(range.end(), Ordering::Relaxed);
        let end =
            self.ask(move |inner, lane, queued_us| inner.read(lane, RowKind::Read, range, queued_us)).await?;
        self.read_ahead(end);
        Ok(end.min(size).saturating_sub(offset))
    }

    /// Bytes by value, for lanes that must see them: same threads, same ledger. Empty at the end of the file.
    ///
    /// # Errors
    /// As [`MediaFile::bring_in`].
    pub async fn read_at(&self, offset: u64, max: usize) -> Result<Bytes, StorageError> {
        let want = (max as u64).min(self.size_bytes().saturating_sub(offset));
        if want == 0 {
            return Ok(Bytes::new());
        }
        let mut ready = self.resident(offset, want);
        if ready == 0 && self.await_ahead(offset).await {
            ready = self.resident(offset, want);
        }
        if ready > 0
            && let Some(bytes) = self.0.read_now(offset, ready)
        {
            return Ok(bytes);
        }
        let range = self.0.window(offset, want);
        self.0.wanted_end.fetch_max(offset.saturating_add(want), Ordering::Relaxed);
        self.0.ahead_end.store(range.end(), Ordering::Relaxed);
        self.ask(move |inner, lane, queued_us| {
            let end = inner.read(lane, RowKind::Read, range, queued_us)?;
            inner.copy(offset, end.min(offset.saturating_add(want)) - offset)
        })
        .await
    }

    /// As [`MediaFile::read_at`], for a file of which the page cache keeps nothing: asks for exactly these bytes, once.
    ///
    /// # Errors
    /// As [`MediaFile::bring_in`].
    pub async fn read_through(&self, offset: u64, max: usize) -> Result<Bytes, StorageError> {
        let want = (max as u64).min(self.size_bytes().saturating_sub(offset));
        match ByteRange::of_len(offset, want).filter(|range| !range.is_empty()) {
            Some(range) => {
                self.ask(move |inner, lane, queued_us| inner.read_value(lane.tid, range, queued_us)).await
            }
            None => Ok(Bytes::new()),
        }
    }

    /// Bytes handed to the client, for `served_bytes`, `cached_bytes` and the seek marks. Never waits.
    pub fn note_served(&self, offset: u64, len_bytes: u64) {
        if !self.0.ledger.is_on() {
            return;
        }
        self.0.shared.served_bytes.fetch_add(len_bytes, Ordering::Relaxed);
        if let Some(range) = ByteRange::of_len(offset, len_bytes).filter(|r| !r.is_empty()) {
            self.0.served.note(range, || self.0.clock.monotonic_us());
        }
    }

    /// Bytes made from this file and handed to the client (segments): they count as served, and have no
    /// place in the file. Never waits.
    pub fn note_derived(&self, len_bytes: u64) {
        self.0.shared.served_bytes.fetch_add(len_bytes, Ordering::Relaxed);
    }

    pub(crate) fn state(&self) -> &Arc<FileState> {
        &self.0.state
    }

    /// Asks for the next chunk when an asker at `offset` has come within one chunk of the end of what was
    /// asked for, and will want more. At most one chunk lies ahead, and nothing past what was wanted.
    fn read_ahead(&self, offset: u64) {
        let inner = &self.0;
        let end = inner.ahead_end.load(Ordering::Relaxed);
        let wanted = inner.wanted_end.load(Ordering::Relaxed);
        if end == 0 || offset > end || offset.saturating_add(inner.chunk_bytes) < end || end >= wanted {
            return;
        }
        let range = inner.window(end, wanted - end);
        if inner.is_known_resident(range) {
            // Nothing to do, and a wake of a reader thread would cost more than asking.
            let _moved =
                inner.ahead_end.compare_exchange(end, range.end(), Ordering::Relaxed, Ordering::Relaxed);
            return;
        }
        if !inner.state.device.pool.is_idle()
            || inner
                .ahead_end
                .compare_exchange(end, range.end(), Ordering::Relaxed, Ordering::Relaxed)
                .is_err()
        {
            return;
        }
        let file = Arc::downgrade(inner);
        let queued_us = inner.clock.monotonic_us();
        let wanted = file.clone();
        let (over, is_over) = watch::channel(false);
        *inner.ahead.lock().unwrap_or_else(PoisonError::into_inner) = Some((range, is_over));
        // A full queue has better things to do than this.
        let _ = inner.state.device.pool.submit(Job {
            affinity: inner.stream.0,
            wanted: Box::new(move || wanted.strong_count() > 0),
            run: Box::new(move |lane| {
                if let Some(inner) = file.upgrade()
                    && !inner.is_known_resident(range)
                {
                    // Its failure is met again, and told, by the one who asks for these bytes.
                    let _ = inner.read(lane, RowKind::Ahead, range, queued_us);
                }
                over.send_replace(true);
            }),
        });
    }

    /// Waits for the read ahead that will bring in `offset`, if there is one: a second read of the same pages
    /// would only occupy another thread, on a mirror one that asks the other disk. `false`: there was none.
    async fn await_ahead(&self, offset: u64) -> bool {
        let pending = self.0.ahead.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some((_, mut is_over)) = pending.filter(|(r, _)| r.start() <= offset && offset < r.end()) else {
            return false;
        };
        let since_us = self.0.clock.monotonic_us();
        // An error is an abandoned request, which is over, too.
        let _ = is_over.wait_for(|over| *over).await;
        self.0.ledger.waited(self.0.stream, since_us, self.0.clock.monotonic_us());
        true
    }

    /// Asks the reader threads for something and waits for the answer.
    async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner, &mut Lane<'_>, u64) -> Result<T, StorageError> + Send + 'static,
    ) -> Result<T, StorageError> {
        let (tx, rx) = oneshot::channel();
        let inner = Arc::clone(&self.0);
        let queued_us = inner.clock.monotonic_us();
        let job = Job::answering(inner.stream.0, tx, move |lane| work(&inner, lane, queued_us));
        self.0.state.device.pool.submit(job)?;
        rx.await.map_err(|_| StorageError::Closed)?
    }
}

/// A file open once more for a worker process ([`MediaFile::open_again`]), to be kept for as long as the worker reads it: what
/// it reads is in the page cache by name before it is there. It is closed on the reader threads.
#[derive(Debug)]
pub struct WorkerFile {
    /// There until it is dropped.
    fd: Option<OwnedFd>,
    of: MediaFile,
}

impl AsFd for WorkerFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_ref().expect("it is taken out by drop alone").as_fd()
    }
}

impl Drop for WorkerFile {
    fn drop(&mut self) {
        self.of.0.state.foreign.end(self.of.0.clock.monotonic_us());
        // The worker has one of its own: this close is no less a flush.
        if let Some(fd) = self.fd.take() {
            self.of.0.close(fd);
        }
    }
}

impl Inner {
    fn open_again(&self, of: MediaFile) -> io::Result<WorkerFile> {
        use std::os::fd::AsRawFd as _;
        let again = File::open(format!("/proc/self/fd/{}", self.fd().as_raw_fd()))?;
        let _ = rustix::fs::fadvise(&again, 0, None, Advice::Sequential);
        if again.metadata()?.len() < self.state.identity.size_bytes {
            // What a worker made of it would end where the file now ends, and be kept.
            let why = "the file has become shorter since it was opened";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why));
        }
        self.state.foreign.begin();
        Ok(WorkerFile { fd: Some(again.into()), of })
    }

    /// Closes on the reader threads: closing waits for a mount that hangs (FUSE sends a flush, NFS what is to be written),
    /// however many others still have the file open.
    fn close(&self, fd: OwnedFd) {
        // Dropped here where the threads have ended: the server stops, or the filesystem was unmounted.
        let _ = self.state.device.pool.submit_release(Job::always(self.stream.0, move |_| drop(fd)));
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_ref().expect("it is taken out by drop alone").as_fd()
    }

    /// The pages to read for an asker at `offset` who will want `want` bytes: a chunk of them at most.
    fn window(&self, offset: u64, want: u64) -> ByteRange {
        let start = offset / PAGE_BYTES * PAGE_BYTES;
        let least = want.clamp(MIN_READ_BYTES.min(self.chunk_bytes), self.chunk_bytes);
        let end = offset.saturating_add(least).div_ceil(PAGE_BYTES).saturating_mul(PAGE_BYTES);
        // Up to the end of the file's last page, so that the range is whole pages throughout.
        let limit = self.state.identity.size_bytes.div_ceil(PAGE_BYTES).saturating_mul(PAGE_BYTES);
        ByteRange::new(start, end.min(limit).max(start)).expect("the end is no less than the start")
    }

    /// Reads `range` into the page cache; where the read ended. One ledger row per call of the kernel.
    fn read(
        &self,
        lane: &mut Lane<'_>,
        kind: RowKind,
        range: ByteRange,
        queued_us: u64,
    ) -> Result<u64, StorageError> {
        let size = self.state.identity.size_bytes;
        let mut at = range.start();
        while at < range.end().min(size) {
            let Some(part) = ByteRange::of_len(at, range.end() - at) else { break };
            at += self.read_once(lane.tid, lane.buffer, kind, part, queued_us)?;
        }
        Ok(at.min(size))
    }

    /// One call of the kernel and its row: how many bytes it read, 0 when a signal came first. `buffer` has the first of
    /// them, up to its length, and is used again for those behind.
    fn read_once(
        &self,
        tid: u32,
        buffer: &mut [u8],
        kind: RowKind,
        part: ByteRange,
        queued_us: u64,
    ) -> Result<u64, StorageError> {
        let at = part.start();
        self.state.begin_read(part);
        let (start_us, before) = (self.clock.monotonic_us(), self.inblock_bytes());
        let len = usize::try_from(part.len_bytes()).unwrap_or(usize::MAX);
        let got = sys::fill_cache(self.fd(), buffer, at, len);
        let inblock_bytes = self.inblock_bytes() - before;
        let end_us = self.clock.monotonic_us();
        let done = got.as_ref().ok().and_then(|n| ByteRange::of_len(at, *n as u64)).filter(|r| !r.is_empty());
        let placed = self.state.fetched(part, done, inblock_bytes);
        self.ledger.row(Row {
            kind,
            tid,
            stream: self.stream,
            file: Arc::clone(&self.state),
            range: done.unwrap_or(part),
            inblock_bytes,
            fetched: placed.ranges,
            queued_us,
            start_us,
            end_us,
        });
        self.state.end_read(part);
        match (got, done) {
            (Err(e), _) if e.kind() == io::ErrorKind::Interrupted => Ok(0),
            (Err(source), _) => {
                self.ledger.failed(self.stream, end_us, format!("a read of the file failed: {source}"));
                let len_bytes = part.len_bytes();
                Err(StorageError::Read { path: self.path.clone(), offset: at, len_bytes, source })
            }
            (Ok(_), None) => {
                let size_bytes = self.state.identity.size_bytes;
                Err(StorageError::Shrunk { path: self.path.clone(), offset: at, size_bytes })
            }
            (Ok(_), Some(done)) => Ok(done.len_bytes()),
        }
    }

    /// Reads `range` by value, as far as the kernel gives it at once.
    fn read_value(&self, tid: u32, range: ByteRange, queued_us: u64) -> Result<Bytes, StorageError> {
        let mut buffer = vec![0_u8; usize::try_from(range.len_bytes()).unwrap_or(0)];
        loop {
            let n = self.read_once(tid, &mut buffer, RowKind::Read, range, queued_us)?;
            if n > 0 {
                buffer.truncate(usize::try_from(n).unwrap_or(usize::MAX));
                return Ok(buffer.into());
            }
        }
    }

    /// What this thread has made the kernel fetch so far; 0 where nobody wants to know.
    fn inblock_bytes(&self) -> u64 {
        if self.ledger.is_on() { sys::thread_inblock_bytes() } else { 0 }
    }

    /// Copies out what `read` has just brought in.
    fn copy(&self, offset: u64, len_bytes: u64) -> Result<Bytes, StorageError> {
        let mut buffer = vec![0_u8; usize::try_from(len_bytes).unwrap_or(0)];
        let n = rustix::io::pread(self.fd(), &mut buffer, offset).map_err(|e| StorageError::Read {
            path: self.path.clone(),
            offset,
            len_bytes,
            source: e.into(),
        })?;
        if n == 0 {
            let size_bytes = self.state.identity.size_bytes;
            return Err(StorageError::Shrunk { path: self.path.clone(), offset, size_bytes });
        }
        buffer.truncate(n);
        Ok(buffer.into())
    }

    /// Copies out of the page cache without waiting; `None` where that is not possible after all.
    fn read_now(&self, offset: u64, len_bytes: u64) -> Option<Bytes> {
        if !self.has_nowait.load(Ordering::Relaxed) {
            return None;
        }
        let mut buffer = vec![0_u8; usize::try_from(len_bytes).ok()?];
        let n = rustix::io::preadv2(
            self.fd(),
            &mut [io::IoSliceMut::new(&mut buffer)],
            offset,
            ReadWriteFlags::NOWAIT,
        )
        .ok()?;
        buffer.truncate(n);
        (n > 0).then(|| buffer.into())
    }

    fn by_cachestat(&self, offset: u64, end: u64) -> Option<u64> {
        if !self.has_cachestat.load(Ordering::Relaxed) {
            return None;
        }
        // Pages on their way in count as cached; those of our own reads are known.
        let clear = self.state.first_in_flight(offset, end);
        let answer = crate::cached::prefix(self.fd(), offset, clear);
        // Asked again: a read that began since the first look has its pages in the count.
        let clear = self.state.first_in_flight(offset, clear);
        answer
            .inspect_err(|_| self.has_cachestat.store(false, Ordering::Relaxed))
            .ok()
            .map(|n| n.min(clear.saturating_sub(offset)))
    }

    fn by_probes(&self, offset: u64, end: u64) -> u64 {
        let end = self.state.reach(offset).min(end);
        if end <= offset || !self.has_nowait.load(Ordering::Relaxed) {
            return 0;
        }
        let before = self.inblock_bytes();
        match crate::cached::probed(self.fd(), offset, end - offset) {
            Ok(n) => {
                if offset + n < end {
                    self.probe_missed(offset + n, before);
                }
                n
            }
            // A filesystem without non-blocking reads: the reader threads find out.
            Err(_) => {
                self.has_nowait.store(false, Ordering::Relaxed);
                0
            }
        }
    }

    /// A page that we had fetched is gone. The probe itself has made the kernel fetch it on this thread.
    fn probe_missed(&self, at: u64, before: u64) {
        let Some(hole) = ByteRange::of_len(at, PROBE_BYTES) else { return };
        self.state.unmark(hole);
        let inblock_bytes = self.inblock_bytes() - before;
        if inblock_bytes == 0 {
            return;
        }
        let now_us = self.clock.monotonic_us();
        let page = pages(ByteRange::of_len(at, 1).unwrap_or(hole));
        self.ledger.row(Row {
            kind: RowKind::Probe,
            tid: u32::try_from(rustix::thread::gettid().as_raw_nonzero().get()).unwrap_or(0),
            stream: self.stream,
            file: Arc::clone(&self.state),
            range: page,
            inblock_bytes,
            fetched: ByteRange::of_len(page.start(), inblock_bytes.min(page.len_bytes()))
                .into_iter()
                .collect(),
            queued_us: now_us,
            // The probe took microseconds; a clock read before each would cost as much again.
            start_us: now_us.saturating_sub(1_000),
            end_us: now_us,
        });
    }

    fn is_known_resident(&self, range: ByteRange) -> bool {
        let end = range.end().min(self.state.identity.size_bytes);
        match self.by_cachestat(range.start(), end) {
            Some(n) => n >= end.saturating_sub(range.start()),
            None => self.state.reach(range.start()) >= end,
        }
    }
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MediaFile")
            .field("path", &self.path)
            .field("stream", &self.stream)
            .finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.served.is_closed.store(true, Ordering::Release);
        if let Some(fd) = self.fd.take() {
            self.close(fd);
        }
    }
}
