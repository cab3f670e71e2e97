//! What can go wrong with an experiment.

use std::io;
use std::path::PathBuf;

use spindle_base::error::ErrorKind;

/// A failure of this room. Every variant names what was attempted and on what.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// There is no record of that id.
    #[error("there is no experiment `{id}`")]
    NoRecord {
        /// The id as asked for.
        id: String,
    },
    /// A record that this version does not read.
    #[error("the record of experiment `{id}` cannot be read: {why}")]
    Unreadable {
        /// Its id.
        id: String,
        /// A newer version, damaged.
        why: String,
    },
    /// As many records are kept as may be.
    #[error(
        "{kept} experiments are kept, and there is no room for another; remove some with `spindle bench remove ID`"
    )]
    TooMany {
        /// How many there are.
        kept: usize,
    },
    /// A file or folder could not be used.
    #[error("unable to {what} `{path}`")]
    File {
        /// `open`, `write`, `remove`..
        what: &'static str,
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The volume has not enough room.
    #[error("{0}")]
    NoRoom(String),
    /// It cannot be meant like this.
    #[error("{0}")]
    Meaning(String),
    /// Somebody stopped it.
    #[error("it was stopped")]
    Stopped,
    /// What storage says.
    #[error(transparent)]
    Storage(#[from] spindle_storage::StorageError),
    /// The other side of a network experiment.
    #[error("{0}")]
    Network(String),
}

impl BenchError {
    /// What the failure means to the one who asked.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NoRecord { .. } => ErrorKind::NotFound,
            Self::Unreadable { .. } => ErrorKind::Unreadable,
            Self::TooMany { .. } | Self::NoRoom(_) => ErrorKind::OverLimit,
            Self::Stopped => ErrorKind::Conflict,
            Self::Meaning(_) => ErrorKind::BadInput,
            Self::Network(_) => ErrorKind::Unavailable,
            Self::Storage(error) => error.kind(),
            Self::File { source, .. } => match source.kind() {
                io::ErrorKind::NotFound => ErrorKind::NotFound,
                io::ErrorKind::PermissionDenied => ErrorKind::Forbidden,
                _ => ErrorKind::Fault,
            },
        }
    }

    /// Names what was attempted on which file.
    pub fn file(what: &'static str, path: &std::path::Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { what, path, source }
    }
}
