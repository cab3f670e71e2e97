//! What can go wrong with a session.

use spindle_base::error::ErrorKind;
use spindle_library::LibraryError;
use spindle_playback::Reason;
use spindle_storage::StorageError;
use spindle_transcode::TranscodeError;

/// A failure around a session.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// No such session, or not this user's.
    #[error("no such session `{0}`; it may have ended")]
    NoSuch(String),
    /// Somebody ended it: a player goes on with no other.
    #[error("this stream was ended by somebody who is signed in")]
    Ended,
    /// A report with a position that is no time.
    #[error("`position_s` must be a number of seconds, 0 or more")]
    BadPosition,
    /// A track was chosen that the file does not have.
    #[error("`{0}` has no such sound or subtitle track; its item lists those that it has")]
    NoStream(String),
    /// It would have to be converted to a container that is not made here.
    #[error(
        "`{file}` would have to be converted to {container} for this client, which is not made here; its profile may name mp4 or mpegts as `target.container`"
    )]
    NoOutput {
        /// The file.
        file: String,
        /// What the client takes.
        container: String,
    },
    /// It cannot be sent to this client in any form.
    #[error("`{file}` cannot be played on this client: {}", reason.sentence())]
    Refused {
        /// The file.
        file: String,
        /// From the closed list.
        reason: Reason,
    },
    /// A language that is none.
    #[error("unable to keep the preferences: {0}")]
    BadLanguage(String),
    /// The file has fewer parts.
    #[error("`{title}` has {parts} part(s); there is no part {part}")]
    NoPart {
        /// The item's title.
        title: String,
        /// How many there are.
        parts: usize,
        /// Which was asked for, from 0.
        part: usize,
    },
    /// The scanner has not come to the file and it could not be looked at now either.
    #[error("`{0}` has not been examined yet; try again in a moment")]
    NotProbed(String),
    /// The file cannot be read as media.
    #[error("`{file}` cannot be played: {reason}")]
    Unreadable {
        /// The file, below its library.
        file: String,
        /// Why.
        reason: String,
    },
    /// The file was there at the last scan and is not now, or was not then.
    #[error("`{0}` cannot be reached; its disk or share may not be mounted")]
    Unavailable(String),
    /// The file is not where it was at the last scan, and its folder is.
    #[error("`{0}` is missing: it was moved or removed since its library was last looked at")]
    FileMissing(String),
    /// The key frames of a copied video are still being collected.
    #[error("the key frames of `{0}` are being collected; try again in a moment")]
    Indexing(String),
    /// A stored record does not have the shape that this version reads.
    #[error("unable to read the stored record of session `{session}`")]
    Stored {
        /// The session.
        session: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// Nothing is recorded.
    #[error("there is no I/O record of session `{0}`: recording is switched off (setting `storage.record`)")]
    NotRecorded(String),
    /// Nothing was when it played, or what was is lost.
    #[error(
        "no I/O record of session `{0}` was kept: recording was switched off while it played (setting `storage.record`), or the server was killed before the record was first saved"
    )]
    NotKept(String),
    /// A blocking question was cut off by shutdown.
    #[error("the server is stopping")]
    Stopping,
    /// The library's own.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// The storage's own.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The transcoder's own.
    #[error(transparent)]
    Transcode(#[from] TranscodeError),
}

impl SessionError {
    pub(super) fn no_such(id: &str) -> Self {
        Self::NoSuch(id.chars().take(64).collect())
    }

    /// What this means to the one who asked.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NoSuch(_)
            | Self::FileMissing(_)
            | Self::NoPart { .. }
            | Self::NotRecorded(_)
            | Self::NotKept(_) => ErrorKind::NotFound,
            Self::Ended => ErrorKind::Conflict,
            Self::BadPosition | Self::NoStream(_) | Self::BadLanguage(_) => ErrorKind::BadInput,
            Self::NotProbed(_) | Self::Unavailable(_) | Self::Indexing(_) | Self::Stopping => {
                ErrorKind::Unavailable
            }
            Self::Unreadable { .. } | Self::NoOutput { .. } | Self::Refused { .. } => ErrorKind::Unreadable,
            Self::Stored { .. } => ErrorKind::Fault,
            Self::Library(error) => error.kind(),
            Self::Storage(error) => error.kind(),
            Self::Transcode(error) => error.kind(),
        }
    }
}
