//! Where the pictures are that need no other picture: the index that cuts a copied video.

use serde::{Deserialize, Serialize};

/// Presentation times of the key frames of the main video stream, ascending, without doubles.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct KeyframeIndex {
    /// Microseconds from the start of the presentation (`MediaInfo::start_s` is taken off).
    pub at_us: Vec<i64>,
    /// The end of the presentation in the same clock.
    pub end_us: i64,
    /// Where the index came from.
    pub source: KeyframeSource,
}

/// Who says where the key frames are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyframeSource {
    /// `stss` with `stts`, `ctts` and `elst` (ISO/IEC 14496-12).
    SampleTable,
    /// `Cues` (RFC 9559 section 5.1.5).
    Cues,
    /// Every packet was read once by the worker.
    #[default]
    Scan,
}
