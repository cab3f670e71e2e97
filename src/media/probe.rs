//! Describes a file from its container's headers, in process. What the headers do not tell is not
//! guessed: the answer is then [`ProbeError::Incomplete`] and the worker, which decodes, is asked.

use std::io::{self, Read, Seek};

use spindle_base::error::ErrorKind;
use thiserror::Error;

use crate::guard::{BudgetReader, Limits};
use crate::info::MediaInfo;
use crate::keyframes::KeyframeIndex;

mod facts;
mod matroska;
mod mp4;

/// What the headers of a file say.
#[derive(Debug, Clone, PartialEq)]
pub struct Probed {
    /// The description; every field that a playback decision needs is known.
    pub info: MediaInfo,
    /// Key frames of the main video, where the container has an index good enough to cut by.
    pub keyframes: Option<KeyframeIndex>,
}

/// Why a file could not be described here.
#[derive(Debug, Error)]
pub enum ProbeError {
    /// Another container: ask the worker.
    #[error("`{name}` is neither ISO BMFF nor Matroska")]
    NotThisFormat {
        /// The file's name, as the caller gave it.
        name: String,
    },
    /// The structure contradicts itself.
    #[error("unable to read the headers of `{name}`: {what}")]
    Malformed {
        /// The file's name.
        name: String,
        /// What is wrong where.
        what: String,
    },
    /// Reading on would cost more than was allowed.
    #[error("unable to read the headers of `{name}` within the limits: {what}")]
    OverLimit {
        /// The file's name.
        name: String,
        /// The limit.
        what: String,
    },
    /// The headers are whole and most of what they describe is not there. Final: a prober that decodes would
    /// describe the film that was, not the one that is left.
    #[error("truncated: {what}")]
    CutOff {
        /// The file's name.
        name: String,
        /// How much is there.
        what: String,
    },
    /// The headers are sound and leave out what a decision needs: ask the worker.
    #[error("the headers of `{name}` do not tell {what}")]
    Incomplete {
        /// The file's name.
        name: String,
        /// What is missing.
        what: String,
    },
    /// The file could not be read.
    #[error("unable to read `{name}`")]
    Io {
        /// The file's name.
        name: String,
        /// The error of the file.
        #[source]
        source: io::Error,
    },
}

impl ProbeError {
    /// What it means to the one who asked.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotThisFormat { .. }
            | Self::Malformed { .. }
            | Self::CutOff { .. }
            | Self::Incomplete { .. } => ErrorKind::Unreadable,
            Self::OverLimit { .. } => ErrorKind::OverLimit,
            Self::Io { .. } => ErrorKind::Unavailable,
        }
    }

    /// Whether a prober that decodes may know more. Only an error of the disk, and a file of which most is
    /// missing, are final.
    #[must_use]
    pub fn worth_asking_the_worker(&self) -> bool {
        !matches!(self, Self::Io { .. } | Self::CutOff { .. })
    }
}

/// A failure inside, before the file's name is known to it.
#[derive(Debug)]
pub(crate) enum Fail {
    NotThisFormat,
    Malformed(String),
    CutOff(String),
    OverLimit(String),
    Incomplete(String),
    Io(io::Error),
}

impl From<io::Error> for Fail {
    fn from(e: io::Error) -> Self {
        match e.kind() {
            io::ErrorKind::UnexpectedEof => Self::Malformed("the file ends early".to_owned()),
            _ => Self::Io(e),
        }
    }
}

pub(crate) fn malformed<T>(what: impl Into<String>) -> Result<T, Fail> {
    Err(Fail::Malformed(what.into()))
}

/// Refuses a file of which less than half of what its headers claim is there: what is left is not the film. A
/// file that lacks less plays to where it ends.
pub(crate) fn mostly_there(present_bytes: u64, claimed_bytes: u64) -> Result<(), Fail> {
    if present_bytes >= claimed_bytes / 2 {
        return Ok(());
    }
    let percent = u128::from(present_bytes) * 100 / u128::from(claimed_bytes.max(1));
    Err(Fail::CutOff(format!("{percent} % of the media is there")))
}

pub(crate) fn incomplete<T>(what: impl Into<String>) -> Result<T, Fail> {
    Err(Fail::Incomplete(what.into()))
}

/// Describes the file behind `reader`, which holds `size_bytes`; `name` is for error texts only.
///
/// # Errors
/// See [`ProbeError`]; everything but `Io` is worth asking the worker about.
pub fn probe(
    reader: impl Read + Seek,
    size_bytes: u64,
    name: &str,
    limits: Limits,
) -> Result<Probed, ProbeError> {
    let max_index_bytes = limits.max_index_bytes;
    let io = |source| ProbeError::Io { name: name.to_owned(), source };
    let mut reader = BudgetReader::new(reader, size_bytes, limits).map_err(io)?;
    let done = dispatch(&mut reader, size_bytes, max_index_bytes);
    let over = reader.over();
    done.map_err(|fail| match (fail, over) {
        // The budget's own error may have been told as any other on its way up.
        (_, Some(over)) => ProbeError::OverLimit { name: name.to_owned(), what: over.as_str().to_owned() },
        (Fail::NotThisFormat, _) => ProbeError::NotThisFormat { name: name.to_owned() },
        (Fail::Malformed(what), _) => ProbeError::Malformed { name: name.to_owned(), what },
        (Fail::CutOff(what), _) => ProbeError::CutOff { name: name.to_owned(), what },
        (Fail::OverLimit(what), _) => ProbeError::OverLimit { name: name.to_owned(), what },
        (Fail::Incomplete(what), _) => ProbeError::Incomplete { name: name.to_owned(), what },
        (Fail::Io(source), _) => io(source),
    })
}

fn dispatch<R: Read + Seek>(
    reader: &mut BudgetReader<R>,
    size_bytes: u64,
    max_index_bytes: u64,
) -> Result<Probed, Fail> {
    if size_bytes < 12 {
        return Err(Fail::NotThisFormat);
    }
    let head = reader.read_at(0, 12)?;
    if head.starts_with(&[0x1a, 0x45, 0xdf, 0xa3]) {
        return matroska::probe(reader, max_index_bytes);
    }
    match &head[4..8] {
        // QuickTime files from before `ftyp` start with one of the others.
        b"ftyp" | b"moov" | b"wide" | b"mdat" | b"free" | b"skip" => mp4::probe(reader, max_index_bytes),
        _ => Err(Fail::NotThisFormat),
    }
}
