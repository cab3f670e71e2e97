//! The kinds of failure that a front door (HTTP, command line) tells apart.

/// What a failure means to the one who asked, whatever room it came from.
///
/// Each front door maps a kind once: `http::problem` to a status, `cli` to an exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The request itself is wrong; asking again unchanged will fail again.
    BadInput,
    /// Nobody said who is asking, or the proof does not hold.
    Unauthenticated,
    /// Known, and not allowed.
    Forbidden,
    /// There is no such thing.
    NotFound,
    /// It exists already, or its state does not allow this now.
    Conflict,
    /// It is over a limit that is there on purpose.
    OverLimit,
    /// Asked too often; after a while it is allowed again.
    TooMany,
    /// The thing exists and cannot be reached now: a mount is gone, a worker died, a disk is away.
    Unavailable,
    /// It did not happen in the time that it was given.
    TimedOut,
    /// The data is damaged or of a kind that is not supported.
    Unreadable,
    /// A fault of ours or of the machine.
    Fault,
}
