//! Keeps the index true to the folders.
//!
//! A [`Controller`] takes requests; one scan at a time a library goes through its phases, each in
//! its own file: `walk` (the folders), `diff` (pure), `moved`, `persist` (names become items: from
//! here on they can be browsed), `probe` (what is inside, behind), `artwork`. Killed at any point,
//! the index holds what was committed and the next scan goes on from there.

mod artwork;
mod controller;
mod diff;
mod fingerprint;
mod follow;
mod identify;
mod missing;
mod moved;
mod persist;
mod probe;
mod scan;
mod side;
mod walk;

#[cfg(test)]
mod tests;

use std::fs::File;
use std::future::Future;
use std::io::{self, Read, Seek};
use std::os::fd::AsFd;
use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use spindle_media::info::MediaInfo;
use spindle_media::keyframes::KeyframeIndex;
use tokio_util::sync::CancellationToken;

pub use controller::Controller;
pub use follow::{FollowConfig, WatchedBy, Watching};
pub use walk::stays_inside;

/// A future behind a trait object.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A media file that is open for a worker. Whoever opened it knows how it is closed: that waits for a mount that hangs.
pub type InputFile = Box<dyn AsFd + Send + Sync>;

/// An open media file, as the in-process parsers read it.
pub trait MediaSource: Read + Seek + Send {}
impl<T: Read + Seek + Send> MediaSource for T {}

/// How files under a library's folders are opened. The server hands in one that reads on the
/// disk's own threads; every method is called on threads that may block.
pub trait Backend: Send + Sync + 'static {
    /// Opens `path` for reading in this process.
    fn open(&self, path: &Path) -> io::Result<Box<dyn MediaSource>>;
    /// Opens `path` for another process.
    fn open_for_worker(&self, path: &Path) -> io::Result<InputFile>;
    /// How many files of the file system `dev` (`st_dev`; `path` is one of its files) to read at
    /// once: 1 for a spinning disk, whose head would go to and fro.
    fn lanes(&self, dev: u64, path: &Path) -> usize {
        let _ = (dev, path);
        2
    }
    /// Whether a disk below `folder` sleeps, or has had nothing to do for so long that it is about to. Asks no disk.
    fn rests(&self, folder: &Path) -> bool {
        let _ = folder;
        false
    }
}

/// Opens files as the system does.
#[derive(Debug, Clone, Copy, Default)]
pub struct DirectBackend;

impl Backend for DirectBackend {
    fn open(&self, path: &Path) -> io::Result<Box<dyn MediaSource>> {
        Ok(Box::new(File::open(path)?))
    }

    fn open_for_worker(&self, path: &Path) -> io::Result<InputFile> {
        Ok(Box::new(File::open(path)?))
    }
}

/// Why a file could not be probed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProbeError {
    /// The file's fault; it is listed with this reason until it changes.
    #[error("{0}")]
    Unreadable(String),
    /// Not the file's fault: no worker, a time limit, an I/O error. The next scan tries again.
    #[error("{0}")]
    Failed(String),
}

/// Which picture to take out of a file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Picture {
    /// The cover inside it.
    Cover,
    /// The frame at a time, in seconds from the start of the presentation.
    Frame {
        /// When.
        at_s: f64,
    },
}

/// What reads files that the in-process parsers do not: the worker.
pub trait Prober: Send + Sync + 'static {
    /// Describes a file. `name` is for its extension and for error texts, never opened.
    fn probe<'a>(&'a self, file: InputFile, name: &'a str) -> BoxFuture<'a, Result<MediaInfo, ProbeError>>;
    /// Key frames of the main video by reading every packet once.
    fn keyframes<'a>(
        &'a self,
        file: InputFile,
        name: &'a str,
        cancel: CancellationToken,
    ) -> BoxFuture<'a, Result<KeyframeIndex, ProbeError>>;
    /// One picture as JPEG or PNG, at most `max_width` pixels wide.
    fn picture<'a>(
        &'a self,
        file: InputFile,
        what: Picture,
        max_width: u32,
    ) -> BoxFuture<'a, Result<Vec<u8>, ProbeError>>;
}

/// How a scan goes about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// A file that changed within this time is watched until it has been quiet for as long;
    /// one that grows meanwhile waits for the next scan. 2.5 s: copies over a slow network
    /// arrive in pieces of up to 2 s.
    pub settle: Duration,
    /// How long after a scan that met growing files the next one follows by itself.
    pub incoming_retry: Duration,
    /// How long a file may be missing from a folder that is there before it leaves the index.
    pub grace: Duration,
    /// How long the prober may take for one file.
    pub probe_limit: Duration,
    /// Whether to take a frame out of films and episodes that have no picture.
    pub frames: bool,
    /// Whether, and how, to notice changes without being asked.
    pub follow: Option<FollowConfig>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            settle: Duration::from_millis(2_500),
            incoming_retry: Duration::from_secs(8),
            grace: Duration::from_secs(30 * 24 * 3_600),
            probe_limit: Duration::from_secs(30),
            frames: true,
            follow: None,
        }
    }
}
