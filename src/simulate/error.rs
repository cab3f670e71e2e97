//! Why nothing was simulated. The command line is its only front door: a layout that is wrong is bad usage, anything else a failure.

use thiserror::Error;

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SimulateError {
    /// A layout that is not understood; the text shows the right form.
    #[error("layout `{text}`: {why}; {form}", form = crate::layout::FORM)]
    Grammar {
        /// What was given.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// A layout that no such disks can have.
    #[error("layout `{text}` is impossible: {why}")]
    Impossible {
        /// What was given.
        text: String,
        /// Why.
        why: String,
    },
    /// A record that is none.
    #[error("`{name}` is no I/O record of a session: {why}")]
    NoRecord {
        /// The session or file.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// A record of which nothing can be replayed.
    #[error("the record of `{name}` holds no reads: {why}")]
    Empty {
        /// The session or file.
        name: String,
        /// Why, as far as the record tells.
        why: String,
    },
    /// More than is taken on.
    #[error("{what}: {count}, and at most {limit} are replayed")]
    TooMuch {
        /// Of what.
        what: String,
        /// How many there are.
        count: u64,
        /// How many there may be.
        limit: u64,
    },
    /// A file that does not fit on the volume.
    #[error("the film of `{name}` ends at byte {end_bytes}, and `{layout}` holds {size_bytes} bytes")]
    DoesNotFit {
        /// The session.
        name: String,
        /// The layout.
        layout: String,
        /// Where the film's last read ends.
        end_bytes: u64,
        /// What the volume holds.
        size_bytes: u64,
    },
    /// The caller had enough.
    #[error("stopped")]
    Stopped,
}
