//! The I/O ledger: one row per read, on its way from the reader threads to the recorder.
//!
//! A bounded queue that is never waited for: where it is full, the row is dropped and counted, and the
//! record says that it is incomplete.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use spindle_base::sync::Mutex;
use spindle_base::units::ByteRange;

use crate::file::FileState;
use crate::notes::Sender;
use crate::recorder::Note;

/// One playing session, or a background job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StreamId(pub u64);

impl StreamId {
    /// Scans, thumbnails and the like: read on behalf of nobody who watches.
    pub const BACKGROUND: StreamId = StreamId(0);
}

/// Notes that may wait for the recorder: half a second of reads at 16 GB/s in chunks of 2 MiB.
pub(crate) const QUEUE: usize = 4096;

/// A read that took this long kept somebody waiting.
pub(crate) const STALL_US: u64 = 1_000_000;

/// What a row is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowKind {
    /// Opening and mapping: what it reads is metadata.
    Open,
    /// A read that somebody waits for.
    Read,
    /// A read ahead of the asker.
    Ahead,
    /// A probe that missed, and thereby made the kernel fetch a page.
    Probe,
    /// Told by a worker process.
    Worker,
}

/// One read.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) kind: RowKind,
    /// Kernel thread id that made the call.
    pub(crate) tid: u32,
    pub(crate) stream: StreamId,
    pub(crate) file: Arc<FileState>,
    pub(crate) range: ByteRange,
    /// Bytes that the call made the kernel fetch, metadata included.
    pub(crate) inblock_bytes: u64,
    /// The parts of the file which those were.
    pub(crate) fetched: Vec<ByteRange>,
    /// When it was asked for; the others around the call. `CLOCK_MONOTONIC`.
    pub(crate) queued_us: u64,
    pub(crate) start_us: u64,
    pub(crate) end_us: u64,
}

/// The sending end.
#[derive(Debug, Clone)]
pub(crate) struct Ledger {
    /// `None`: nothing is recorded.
    notes: Option<Sender>,
    dropped: Arc<AtomicU64>,
}

impl Ledger {
    pub(crate) fn new(notes: Sender) -> Self {
        Self { notes: Some(notes), dropped: Arc::default() }
    }

    /// One that takes nothing: recording is switched off.
    pub(crate) fn off() -> Self {
        Self { notes: None, dropped: Arc::default() }
    }

    /// Whether anything is recorded: what only a record needs is otherwise not even asked of the kernel.
    pub(crate) fn is_on(&self) -> bool {
        self.notes.is_some()
    }

    /// Adds a row, or counts it as dropped. Never waits.
    pub(crate) fn row(&self, row: Row) {
        let Some(notes) = &self.notes else { return };
        // Nobody waits for it: the recorder takes it with what comes next.
        if !notes.leave(Note::Row(Box::new(row))) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A wait for a read ahead; told only if it was long enough to be noticed. Never waits itself.
    pub(crate) fn waited(&self, stream: StreamId, since_us: u64, until_us: u64) {
        let duration_us = until_us.saturating_sub(since_us);
        let Some(notes) = self.notes.as_ref().filter(|_| duration_us >= STALL_US) else { return };
        let cause = "the disks were late with what was asked of them ahead".to_owned();
        if !notes.offer(Note::Stall { stream, at_us: since_us, duration_us, cause }) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A read that failed. Never waits.
    pub(crate) fn failed(&self, stream: StreamId, at_us: u64, what: String) {
        let Some(notes) = &self.notes else { return };
        if !notes.offer(Note::Failed { stream, at_us, what }) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Sends what must not be lost; waits while the queue is full. Not for the byte path.
    pub(crate) fn tell(&self, note: Note) -> bool {
        self.notes.as_ref().is_some_and(|notes| notes.tell(note))
    }

    /// Rows dropped so far.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// What one stream's open files count without asking the recorder.
#[derive(Debug, Default)]
pub(crate) struct StreamShared {
    /// Bytes handed to the client.
    pub(crate) served_bytes: AtomicU64,
    /// One log per open file.
    pub(crate) logs: Mutex<Vec<Arc<ServedLog>>, 45>,
}

/// Runs of bytes handed to the client from one open file since the recorder last looked.
#[derive(Debug)]
pub(crate) struct ServedLog {
    pub(crate) file: Arc<FileState>,
    /// A leaf: nothing is locked under it, and the byte path only ever tries it.
    runs: std::sync::Mutex<Vec<ServedRun>>,
    /// Set when the file is closed: the recorder takes the rest and forgets the log.
    pub(crate) is_closed: AtomicBool,
}

/// Bytes served in one go, in file order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ServedRun {
    pub(crate) range: ByteRange,
    /// When its first byte was handed over.
    pub(crate) at_us: u64,
}

/// Runs kept between two looks of the recorder (a second): more jumps than that are not a viewer's.
const MAX_RUNS: usize = 256;

impl ServedLog {
    pub(crate) fn new(file: Arc<FileState>) -> Self {
        Self { file, runs: std::sync::Mutex::default(), is_closed: AtomicBool::new(false) }
    }

    /// Notes a run. Where the recorder holds the log at this very moment the position is not noted: the
    /// byte count is kept elsewhere, and a hole of one call is no jump to the recorder.
    pub(crate) fn note(&self, range: ByteRange, now_us: impl FnOnce() -> u64) {
        let Ok(mut runs) = self.runs.try_lock() else { return };
        if let Some(last) = runs.last_mut()
            && last.range.end() == range.start()
            && let Some(longer) = ByteRange::new(last.range.start(), range.end())
        {
            last.range = longer;
        } else if runs.len() < MAX_RUNS {
            runs.push(ServedRun { range, at_us: now_us() });
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.runs.lock().unwrap_or_else(std::sync::PoisonError::into_inner).is_empty()
    }

    pub(crate) fn take(&self) -> Vec<ServedRun> {
        std::mem::take(&mut self.runs.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}
