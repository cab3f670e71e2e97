//! What can go wrong in the library, and what each failure means to the one who asked.

use std::io;
use std::path::PathBuf;

use spindle_base::error::ErrorKind;

/// A failure of the library.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// Nothing has this id, or the asking user may not know that it exists.
    #[error("no such {what} `{id}`")]
    NotFound {
        /// The kind of thing: item, library, user, …
        what: &'static str,
        /// The id as it was asked for.
        id: String,
    },
    /// A value that cannot be taken.
    #[error("{0}")]
    BadInput(String),
    /// It exists already, or its state does not allow this.
    #[error("{0}")]
    Conflict(String),
    /// The database was written by a later version of Spindle.
    #[error(
        "database `{path}` has schema {found}, this version knows up to {known}: use a newer version of spindle or restore a backup"
    )]
    NewerSchema {
        /// The database file.
        path: PathBuf,
        /// Its schema number.
        found: i64,
        /// The highest number that this build knows.
        known: i64,
    },
    /// The database file was removed or replaced while the server has it open.
    #[error(
        "database `{path}` was removed or replaced while the server runs: what is written from now on is lost when it stops; stop it and put the file back where it was, or a backup of it"
    )]
    Replaced {
        /// The database file.
        path: PathBuf,
    },
    /// The file is a database of something else.
    #[error("`{path}` is not a spindle database")]
    ForeignDatabase {
        /// The file.
        path: PathBuf,
    },
    /// A migration that was applied differs from the one in this build.
    #[error("database `{path}`: migration {version} differs from the one this version carries")]
    ChangedMigration {
        /// The database file.
        path: PathBuf,
        /// The migration's number.
        version: i64,
    },
    /// The database could not be opened or prepared.
    #[error("unable to open database `{path}`")]
    Open {
        /// The database file.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
    /// A statement failed.
    #[error("unable to run a statement on the library database: {0}")]
    Sql(#[from] rusqlite::Error),
    /// The transaction that carried this change could not be made durable; nothing of it is kept.
    #[error("unable to commit to the library database: {0}")]
    Commit(String),
    /// A file of the data directory could not be used.
    #[error("unable to {action} `{path}`: {source}")]
    Io {
        /// What was attempted.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A picture that cannot be decoded, or is over a limit.
    #[error("unable to read picture `{name}`: {reason}")]
    Picture {
        /// File name or origin.
        name: String,
        /// Why not.
        reason: String,
    },
    /// The thing exists and cannot be reached now.
    #[error("{0}")]
    Unavailable(String),
    /// Too many requests wait for the database already.
    #[error("too many requests wait for the library database")]
    Busy,
    /// The library was closed.
    #[error("the library is closed")]
    Closed,
    /// A value in the database is not what this version writes.
    #[error("unexpected {what} in the library database: {reason}")]
    Damaged {
        /// Which value.
        what: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// Our own code panicked while it served this request; the library goes on.
    #[error("a library request failed by a fault of the program: {0}")]
    Panicked(String),
}

/// Shorthand of this crate.
pub type Result<T, E = LibraryError> = std::result::Result<T, E>;

impl LibraryError {
    /// What it means to the one who asked.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotFound { .. } => ErrorKind::NotFound,
            Self::BadInput(_) => ErrorKind::BadInput,
            Self::Conflict(_) | Self::NewerSchema { .. } | Self::ForeignDatabase { .. } => {
                ErrorKind::Conflict
            }
            Self::ChangedMigration { .. } | Self::Damaged { .. } | Self::Picture { .. } => {
                ErrorKind::Unreadable
            }
            Self::Busy => ErrorKind::OverLimit,
            // A full disk, an error of the disk: it may succeed when the owner has acted.
            Self::Commit(_) | Self::Unavailable(_) | Self::Replaced { .. } | Self::Closed => {
                ErrorKind::Unavailable
            }
            Self::Sql(e) | Self::Open { source: e, .. } => sql_kind(e),
            Self::Io { .. } | Self::Panicked(_) => ErrorKind::Fault,
        }
    }

    pub(crate) fn not_found(what: &'static str, id: &str) -> Self {
        // An id comes from a client: what is echoed is bounded.
        Self::NotFound { what, id: id.chars().take(64).collect() }
    }

    pub(crate) fn io(action: &'static str, path: &std::path::Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}

fn sql_kind(error: &rusqlite::Error) -> ErrorKind {
    use rusqlite::ErrorCode;
    match error.sqlite_error_code() {
        Some(ErrorCode::ConstraintViolation) => ErrorKind::Conflict,
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::DiskFull) => {
            ErrorKind::Unavailable
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => ErrorKind::Unreadable,
        _ => ErrorKind::Fault,
    }
}
