//! What can go wrong between asking for a segment, a description or a picture and getting it.

use spindle_base::error::ErrorKind;

use crate::protocol::FailKind;

/// A failed request to the transcoder.
#[derive(Debug, Clone, thiserror::Error)]
pub enum TranscodeError {
    /// The worker program cannot be started, or does not speak our protocol.
    #[error("the transcoding worker is not available: {0}")]
    Unavailable(String),
    /// Every worker that may run is in use.
    #[error("all {0} transcoding workers are in use")]
    Busy(usize),
    /// The file cannot be read as media; the reason is meant for people.
    #[error("{0}")]
    Unreadable(String),
    /// The plan or the segment number does not fit the file.
    #[error("{0}")]
    BadRequest(String),
    /// The worker died while it worked on this.
    #[error("the worker died while working on {0}")]
    Crashed(String),
    /// The worker made no progress and was killed.
    #[error("the worker made no progress for {seconds} s on {what} and was killed")]
    Hung {
        /// What it was working on.
        what: String,
        /// How long nothing was heard of it.
        seconds: u64,
    },
    /// The one who asked gave up.
    #[error("the request was cancelled")]
    Cancelled,
    /// The cache folder has no room left.
    #[error("no space left in the transcoding cache")]
    NoSpace,
    /// An operation of the system failed.
    #[error("unable to {what}: {why}")]
    Io {
        /// What was attempted, on what.
        what: String,
        /// The system's answer.
        why: String,
    },
    /// The server is stopping.
    #[error("the transcoder is stopping")]
    Stopping,
}

impl TranscodeError {
    /// What this means to the one who asked.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Unavailable(_) | Self::Crashed(_) | Self::Stopping => ErrorKind::Unavailable,
            // A slot frees itself when another viewer stops: "come again", not "broken".
            Self::Busy(_) | Self::NoSpace => ErrorKind::OverLimit,
            Self::Unreadable(_) => ErrorKind::Unreadable,
            Self::BadRequest(_) => ErrorKind::BadInput,
            Self::Hung { .. } => ErrorKind::TimedOut,
            Self::Cancelled => ErrorKind::Conflict,
            Self::Io { .. } => ErrorKind::Fault,
        }
    }

    pub(crate) fn io(what: impl Into<String>, why: impl std::fmt::Display) -> Self {
        Self::Io { what: what.into(), why: why.to_string() }
    }

    /// A worker's own refusal, as an error.
    pub(crate) fn refused(kind: FailKind, reason: String) -> Self {
        match kind {
            FailKind::Unreadable => Self::Unreadable(reason),
            FailKind::BadRequest => Self::BadRequest(reason),
            FailKind::NoSpace => Self::NoSpace,
            FailKind::Fault => Self::Io { what: "transcode".to_owned(), why: reason },
        }
    }
}
