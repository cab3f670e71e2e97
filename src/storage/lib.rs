//! From a path to the physical disks under it, and from every byte served to the disk that it came off.
//!
//! - [`Storage`] is the handle; [`MediaFile`] an open file.
//! - `pool` and `device`: reader threads per filesystem. Nothing else waits for a disk.
//! - `cached`: what of a file is in memory, whoever's file it is.
//! - `reader`: what is in memory, bringing in what is not; one row in the `ledger` per read.
//! - `notes`: the queue from all of these to the recorder.
//! - `trace`: the kernel's block events, through a small privileged helper where permitted.
//! - `recorder`: rows + events + map = one [`IoRecord`] per stream.
//! - `map`: from a byte of a device through md, device-mapper, btrfs, loop and partitions to the disks, and back.
//! - `layout` and `topology`: the maps, and what `spindle layout` and `spindle topology` print.
//!
//! What is absent: knowledge of media, of HTTP, of SQL. `unsafe` is in `sys` and `trace::ring` alone.
//!
//! Locks, in the order in which they may be taken: devices 40, files 41, streams 42, a file's cache 43, a
//! device's chunk tree 44, a stream's logs 45, trace 46, rates 47, watched volumes 50, disks 51, their thread 52, zpool's
//! answers 53, notices 54.

pub mod cached;
mod device;
mod error;
mod file;
mod intervals;
mod layout;
mod ledger;
mod map;
mod mapper;
mod notes;
mod pool;
mod reader;
mod recorder;
mod storage;
mod sys;
mod topology;
mod trace;

pub use error::StorageError;
pub use file::FileIdentity;
pub use layout::verify::{Difference, Unchecked, Verified};
pub use layout::{DiskBytes, DiskPiece, Layout, LayoutExtent, LayoutOptions, Special, Truncated};
pub use ledger::StreamId;
pub use reader::{MediaFile, WorkerFile};
pub use recorder::record::{
    Attribution, AttributionMode, AttributionSpan, DiskFault, DiskIo, DiskRate, DiskSeries, FileRequest,
    IoRecord, Notice, Percentiles, Seek, SeriesJson, Stall, Striping, SystemDiskSeries, Trail, TrailRun,
};
pub use storage::{Config, HelperMode, Storage, WorkerRead};
pub use sys::return_freed_memory;
pub use topology::{
    Advice, DiskFacts, DiskFigures, Filesystem, KnownVolume, LayoutKind, Node, Sync, Tier, Topology,
};
pub use trace::helper::{HelperEndpoint, HelperError, run_helper};
pub use trace::rights::HelperRights;
