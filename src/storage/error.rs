//! What can go wrong between a path and its bytes.

use std::io;
use std::path::PathBuf;

use spindle_base::error::ErrorKind;

/// A failure of this room. Every variant names what was attempted and on what.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// The file could not be opened.
    #[error("unable to open `{path}` for reading")]
    Open {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Only regular files are served: a pipe or a device would block or never end.
    #[error("`{path}` is not a regular file")]
    NotRegular {
        /// The path.
        path: PathBuf,
    },
    /// The disk or the filesystem refused a read.
    #[error("unable to read {len_bytes} bytes at {offset} of `{path}`")]
    Read {
        /// The file.
        path: PathBuf,
        /// First byte wanted.
        offset: u64,
        /// Bytes wanted.
        len_bytes: u64,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file is shorter now than when it was opened.
    #[error("`{path}` ended at byte {offset}, it had {size_bytes} bytes when it was opened")]
    Shrunk {
        /// The file.
        path: PathBuf,
        /// Where nothing was left to read.
        offset: u64,
        /// Size at open.
        size_bytes: u64,
    },
    /// As many reads wait for this device as are allowed to.
    #[error("{waiting} reads wait for {device} already")]
    QueueFull {
        /// The disks.
        device: String,
        /// The limit.
        waiting: usize,
    },
    /// `close` was called, or the reader thread is gone.
    #[error("storage is closed")]
    Closed,
    /// A thread could not be started.
    #[error("unable to start thread `{name}`")]
    Thread {
        /// Its name.
        name: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Something under `/proc` or `/sys` could not be read or understood.
    #[error("unable to find what `{path}` is stored on: {what}")]
    Topology {
        /// What was asked about.
        path: PathBuf,
        /// What is missing.
        what: String,
    },
}

impl StorageError {
    /// What it means to the one who asked.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Open { source, .. } => match source.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => ErrorKind::NotFound,
                io::ErrorKind::PermissionDenied => ErrorKind::Forbidden,
                // ESTALE, ENXIO, EIO, ENODEV: it is there by name and cannot be reached.
                _ => ErrorKind::Unavailable,
            },
            Self::NotRegular { .. } => ErrorKind::BadInput,
            Self::Read { .. } | Self::Shrunk { .. } | Self::Closed => ErrorKind::Unavailable,
            Self::QueueFull { .. } => ErrorKind::OverLimit,
            Self::Thread { .. } | Self::Topology { .. } => ErrorKind::Fault,
        }
    }
}
