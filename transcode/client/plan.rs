//! What a rendition is made of: which streams, copied or encoded how, cut where.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde::{Deserialize, Serialize};
use spindle_media::info::ClockRestart;

/// How one title is turned into segments.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Plan {
    /// The picture; absent for sound alone.
    pub video: Option<VideoPlan>,
    /// The sound; absent for a silent title.
    pub audio: Option<AudioPlan>,
    /// Where the segments begin.
    pub boundaries: Boundaries,
    /// What the segments are.
    #[serde(default)]
    pub container: Container,
    /// Time of the presentation's zero in the file's own clock, in microseconds:
    /// `MediaInfo::start_s`. Absent: the worker takes what FFmpeg says, which is the same for
    /// whatever the worker's own prober described.
    #[serde(default)]
    pub start_us: Option<i64>,
    /// Where the clock of the file begins anew: `MediaInfo::clock_restarts`.
    #[serde(default)]
    pub clock_restarts: Vec<ClockRestart>,
}

/// Kinds of segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Container {
    /// Fragments of ISO base media after an init segment.
    #[default]
    Fmp4,
    /// Transport stream, which begins anywhere; segments in a row make one stream.
    Mpegts,
}

/// What becomes of the picture.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum VideoPlan {
    /// The packets go out as they are. Every boundary must be the time of a key frame.
    Copy {
        /// Position of the stream in the file.
        stream: u32,
    },
    /// Decoded and encoded anew: 8 bit 4:2:0, square pixels, progressive, upright.
    Encode {
        /// Position of the stream in the file.
        stream: u32,
        /// FFmpeg's codec name: `h264` or `hevc`.
        codec: String,
        /// Widest picture in pixels; never made larger than the source.
        max_width: Option<u32>,
        /// Highest picture in pixels.
        max_height: Option<u32>,
        /// Peak rate in bits per second, kept by a decoder buffer of two seconds.
        max_bitrate_bps: Option<u64>,
        /// Most pictures a second; surplus pictures are dropped, none is doubled.
        fps_cap: Option<u32>,
        /// Bitmap subtitle stream to draw into the picture.
        burn_subtitle: Option<u32>,
        /// Whether the source is HDR (PQ or HLG) and the result has to be BT.709.
        tone_map: bool,
    },
}

impl VideoPlan {
    /// Encoded with nothing asked for but the codec: size, rate and colours are the source's.
    #[must_use]
    pub fn encode(stream: u32, codec: &str) -> Self {
        Self::Encode {
            stream,
            codec: codec.to_owned(),
            max_width: None,
            max_height: None,
            max_bitrate_bps: None,
            fps_cap: None,
            burn_subtitle: None,
            tone_map: false,
        }
    }
}

/// What becomes of the sound.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum AudioPlan {
    /// The packets go out as they are.
    Copy {
        /// Position of the stream in the file.
        stream: u32,
    },
    /// Decoded and encoded anew.
    Encode {
        /// Position of the stream in the file.
        stream: u32,
        /// FFmpeg's codec name: `aac`, `ac3`, `eac3`, `opus`, `flac`.
        codec: String,
        /// Most channels; fewer if the source has fewer. AAC, AC-3, E-AC-3 hold at most 6 here.
        channels: u32,
        /// Bits per second; absent: 64 kbit/s a channel.
        bitrate_bps: Option<u64>,
        /// Samples a second; absent: the source's where the codec allows, else 48,000.
        sample_rate: Option<u32>,
    },
}

impl AudioPlan {
    /// Encoded with at most so many channels, at the codec's usual rates.
    #[must_use]
    pub fn encode(stream: u32, codec: &str, channels: u32) -> Self {
        Self::Encode { stream, codec: codec.to_owned(), channels, bitrate_bps: None, sample_rate: None }
    }
}

/// `n + 1` strictly ascending times in microseconds of the presentation: segment `i` is
/// `[b[i], b[i + 1])`. What lies before `b[0]` belongs to the first, after the end to the last.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Boundaries(pub Vec<i64>);

impl Boundaries {
    /// Number of segments.
    #[must_use]
    pub fn segments(&self) -> usize {
        self.0.len().saturating_sub(1)
    }

    /// Whether they ascend strictly and hold at least one segment.
    #[must_use]
    pub fn are_valid(&self) -> bool {
        self.0.len() >= 2 && self.0.windows(2).all(|w| w[0] < w[1])
    }

    /// The segment that holds the time `at_us`, within `tolerance_us` before its start.
    #[must_use]
    pub fn segment_at(&self, at_us: i64, tolerance_us: i64) -> usize {
        let after = self.0.partition_point(|b| *b <= at_us.saturating_add(tolerance_us));
        after.saturating_sub(1).min(self.segments().saturating_sub(1))
    }
}

/// Which bytes a rendition is made from: the identity of the open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileKey {
    /// Device number.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Modification time in microseconds since the epoch.
    pub modified_us: i64,
    /// Change time in microseconds since the epoch.
    pub changed_us: i64,
}

/// What two sessions must have in common to share workers and segments: the file and the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RenditionKey {
    /// The file.
    pub file: FileKey,
    /// 128 bits of hash over the whole plan.
    plan: [u64; 2],
}

impl RenditionKey {
    /// The key of `plan` applied to `file`.
    #[must_use]
    pub fn new(file: FileKey, plan: &Plan) -> Self {
        let half = |salt: u8| {
            // Fixed keys, so that equal plans meet; nobody outside chooses plans to collide.
            let mut hasher = DefaultHasher::new();
            salt.hash(&mut hasher);
            plan.hash(&mut hasher);
            hasher.finish()
        };
        Self { file, plan: [half(0), half(1)] }
    }
}

/// A still picture out of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Picture {
    /// The cover that is stored in the file.
    Cover,
    /// The picture that is shown at this time of the presentation, upright, in BT.709.
    Frame {
        /// Microseconds from the start of the presentation.
        at_us: i64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_just_before_a_boundary_belongs_to_it_within_the_tolerance() {
        let b = Boundaries(vec![0, 1_200_000, 7_600_000]);
        assert_eq!(b.segments(), 2);
        assert_eq!(b.segment_at(-5, 0), 0);
        assert_eq!(b.segment_at(1_199_500, 0), 0);
        assert_eq!(b.segment_at(1_199_500, 1_000), 1);
        assert_eq!(b.segment_at(99_000_000, 0), 1);
    }

    #[test]
    fn keys_differ_when_the_plan_does() {
        let file = FileKey { dev: 1, ino: 2, size_bytes: 3, modified_us: 4, changed_us: 5 };
        let plan = |stream| Plan {
            video: Some(VideoPlan::Copy { stream }),
            audio: None,
            boundaries: Boundaries(vec![0, 1]),
            container: Container::Fmp4,
            start_us: None,
            clock_restarts: Vec::new(),
        };
        assert_eq!(RenditionKey::new(file, &plan(0)), RenditionKey::new(file, &plan(0)));
        assert_ne!(RenditionKey::new(file, &plan(0)), RenditionKey::new(file, &plan(1)));
    }
}
