//! What codec configuration records say, in FFmpeg's words and as RFC 6381 strings. Every reader
//! here takes bytes from outside: it answers `None` rather than guess.

pub use crate::language::normalise as normalise_language;

pub mod aac;
pub mod av1;
mod bits;
pub mod colour;
pub mod dolby;
pub mod h264;
pub mod hevc;
pub mod vp9;

/// What a video configuration record tells.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct VideoFacts {
    /// RFC 6381 string, with the sample entry given by the caller.
    pub codec_string: String,
    /// Profile in FFmpeg's words.
    pub profile: String,
    /// Level as `MediaInfo` has it.
    pub level: u32,
    /// Bits of a sample.
    pub bit_depth: u8,
    /// Chroma format: 0 is grey, 1 is 4:2:0, 2 is 4:2:2, 3 is 4:4:4.
    pub chroma: u8,
    /// Cropped size, where the record holds it.
    pub size: Option<(u32, u32)>,
    /// Sample aspect, where the record holds one.
    pub sample_aspect: Option<[u32; 2]>,
    /// Whether pictures are fields; `None` where only the pictures themselves tell.
    pub interlaced: Option<bool>,
    /// Reference frames, where the record holds them.
    pub ref_frames: Option<u8>,
    /// Colour description; `None` where the record has no place for one.
    pub colour: Option<colour::Colour>,
    /// Pictures a second as a fraction, where the stream promises a fixed rate.
    pub frame_rate: Option<[u32; 2]>,
}

impl VideoFacts {
    /// FFmpeg's pixel format.
    #[must_use]
    pub fn pixel_format(&self) -> Option<String> {
        let base = match self.chroma {
            0 => "gray",
            1 => "yuv420p",
            2 => "yuv422p",
            3 => "yuv444p",
            _ => return None,
        };
        Some(match self.bit_depth {
            8 => base.to_owned(),
            d @ 9..=16 => format!("{base}{d}le"),
            _ => return None,
        })
    }
}

/// The RFC 6381 string of an audio codec that needs no record for it.
#[must_use]
pub fn audio_codec_string(codec: &str) -> Option<&'static str> {
    Some(match codec {
        "ac3" => "ac-3",
        "eac3" => "ec-3",
        "opus" => "opus",
        "flac" => "fLaC",
        "mp3" => "mp4a.40.34",
        "alac" => "alac",
        "dts" => "dtsc",
        "vorbis" => "vorbis",
        _ => return None,
    })
}

/// A fraction in lowest terms that fits 32 bits, `None` for nonsense.
#[must_use]
pub fn reduced(num: u64, den: u64) -> Option<[u32; 2]> {
    if num == 0 || den == 0 {
        return None;
    }
    let (mut a, mut b) = (num, den);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    Some([u32::try_from(num / a).ok()?, u32::try_from(den / a).ok()?])
}
