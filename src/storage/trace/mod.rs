//! Block tracepoints: who submitted which request to which physical disk.
//!
//! `helper` is the privileged process, `rights` and `calls` what it keeps, `ring` its perf buffers, `format` the
//! tracepoints' fields, `facts` what else is asked of it, `protocol` what the two sides say to each other,
//! `client` the server's side.
//!
//! The helper is the one process that this room starts (in `HelperMode::Auto`, from `client`): a trace needs
//! two capabilities that the server should not keep, so they live in a process that parses nothing from
//! outside. Everything else that is a process belongs to `transcode`.

mod calls;
pub(crate) mod client;
pub(crate) mod facts;
mod format;
pub(crate) mod helper;
mod protocol;
pub(crate) mod rights;
mod ring;

pub(crate) use client::Trace;

/// What happened to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockOp {
    /// `block_bio_queue`: submitted, in the thread that wants it.
    Queue,
    /// `block_rq_issue`: handed to the driver, after merging.
    Issue,
    /// `block_rq_complete`: done.
    Complete,
    /// `block_rq_error` (5.18): the disk failed to give it.
    Error,
}

/// One read event of a physical disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockEvent {
    pub(crate) op: BlockOp,
    /// `CLOCK_MONOTONIC`, microseconds.
    pub(crate) time_us: u64,
    pub(crate) tid: u32,
    /// Process (thread group).
    pub(crate) pid: u32,
    /// Whole disk, `major << 20 | minor`.
    pub(crate) device: u32,
    /// 512-byte units on the whole disk.
    pub(crate) sector: u64,
    pub(crate) sectors: u32,
    /// `M` in `rwbs`: extent trees, checksums, inodes.
    pub(crate) is_metadata: bool,
    /// Of a completion: the disk answered with an error.
    pub(crate) is_failed: bool,
}

impl BlockEvent {
    pub(crate) fn start_byte(&self) -> u64 {
        self.sector.saturating_mul(512)
    }

    pub(crate) fn len_bytes(&self) -> u64 {
        u64::from(self.sectors) * 512
    }
}

/// All events of the rings up to a moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Batch {
    /// Every event before this has been delivered, with this batch or an earlier one.
    pub(crate) drained_us: u64,
    /// Events that the kernel dropped since the helper started, for want of room.
    pub(crate) lost: u64,
    /// In order of time.
    pub(crate) events: Vec<BlockEvent>,
}
