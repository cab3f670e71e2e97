//! Byte ranges with checked arithmetic.

use serde::{Deserialize, Serialize};

/// A half-open range of bytes `[start, end)` that is never inverted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ByteRange {
    start: u64,
    end: u64,
}

impl ByteRange {
    /// `[start, start + len)`; `None` where that overflows.
    #[must_use]
    pub fn of_len(start: u64, len_bytes: u64) -> Option<Self> {
        Some(Self { start, end: start.checked_add(len_bytes)? })
    }

    /// `[start, end)`; `None` if `end < start`.
    #[must_use]
    pub fn new(start: u64, end: u64) -> Option<Self> {
        (start <= end).then_some(Self { start, end })
    }

    /// First byte.
    #[must_use]
    pub fn start(self) -> u64 {
        self.start
    }

    /// One past the last byte.
    #[must_use]
    pub fn end(self) -> u64 {
        self.end
    }

    /// Length in bytes.
    #[must_use]
    pub fn len_bytes(self) -> u64 {
        self.end - self.start
    }

    /// Whether it holds no byte.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// The bytes that both hold; `None` where they do not meet.
    #[must_use]
    pub fn intersect(self, other: Self) -> Option<Self> {
        let (start, end) = (self.start.max(other.start), self.end.min(other.end));
        (start < end).then_some(Self { start, end })
    }
}
