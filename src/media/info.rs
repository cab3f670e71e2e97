//! What is known of a media file: its container, streams, chapters. The one description that
//! the prober writes, the database keeps, the decision reads and the API shows.
//!
//! Codec and container names are FFmpeg's (`h264`, `hevc`, `eac3`, `hdmv_pgs_subtitle`), except
//! that a container is one short word (`mp4`, `mkv`, `webm`, `mpegts`), never FFmpeg's list.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A media file, described.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct MediaInfo {
    /// `mp4`, `mov`, `mkv`, `webm`, `mpegts`, `m2ts`, `mpegps`, `avi`, `flv`, `asf`, `ogg`,
    /// `mp3`, `flac`, `aac`, `wav`, `jpeg`, … as `container_word` in the prober maps them.
    pub container: String,
    /// Size of the file in bytes.
    pub size_bytes: u64,
    /// Presentation length in seconds: the end of the longest stream, less the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_s: Option<f64>,
    /// Presentation time of the first sample in the file's own clock, in seconds. Everything
    /// that Spindle shows counts from here.
    #[serde(default)]
    pub start_s: f64,
    /// Average over the whole file in bits per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bitrate_bps: Option<u64>,
    /// The streams in the file's order; `index` is the position.
    pub streams: Vec<Stream>,
    /// Chapters, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chapters: Vec<Chapter>,
    /// Container tags, keys in lower case.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// Files inside the file: fonts, covers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// Where the clock of a transport stream begins anew: several recordings in one file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clock_restarts: Vec<ClockRestart>,
    /// Which prober wrote this.
    #[serde(default)]
    pub probed_by: Prober,
}

/// A place from which on the times of a transport stream are moved, so that they go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ClockRestart {
    /// The first packet of the next recording, in bytes from the start of the file.
    pub at_byte: u64,
    /// What is added to every time from there on, in ticks of 90 kHz.
    pub shift_ticks: i64,
}

/// Who read the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Prober {
    /// The `mp4` crate, behind the guard.
    Mp4,
    /// The `matroska` crate, behind the guard.
    Matroska,
    /// FFmpeg in the worker.
    #[default]
    Worker,
}

/// One stream of a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stream {
    /// Position in the file, from 0, as FFmpeg counts.
    pub index: u32,
    /// FFmpeg's codec name; `unknown` if nobody knows it.
    pub codec: String,
    /// RFC 6381 codec string where it can be told (`avc1.640029`, `mp4a.40.2`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub codec_string: Option<String>,
    /// Sample entry or codec tag as four characters (`hvc1`, `hev1`), where the container has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub codec_tag: Option<String>,
    /// Profile in FFmpeg's words (`High`, `Main 10`, `LC`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// ISO 639-2/T language, lower case; absent when the file does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// Title given in the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Average bits per second, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bitrate_bps: Option<u64>,
    /// Length in seconds of this stream, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_s: Option<f64>,
    /// Time base of its timestamps, `[numerator, denominator]` in seconds.
    #[serde(default = "default_time_base")]
    pub time_base: [u32; 2],
    /// Flags of the file: default, forced, commentary, …
    #[serde(default)]
    pub disposition: Disposition,
    /// What only its kind has.
    #[serde(flatten)]
    pub kind: StreamKind,
}

fn default_time_base() -> [u32; 2] {
    [1, 1_000_000]
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// Flags that a file sets on a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent flags of the file, each with its own name on the wire"
)]
pub struct Disposition {
    /// Meant to be played when the viewer chose nothing.
    pub default: bool,
    /// Subtitles for foreign parts only.
    pub forced: bool,
    /// For the hard of hearing.
    pub hearing_impaired: bool,
    /// Described for the visually impaired.
    pub visual_impaired: bool,
    /// A commentary.
    pub commentary: bool,
    /// The language the film was made in.
    pub original: bool,
    /// A still picture (cover) stored as a video stream: never played.
    pub attached_picture: bool,
}

/// What a stream carries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum StreamKind {
    /// Moving pictures.
    Video(Video),
    /// Sound.
    Audio(Audio),
    /// Subtitles, text or bitmap.
    Subtitle(Subtitle),
    /// Data, timecode, attachments that FFmpeg counts as streams.
    Data,
}

/// Facts of a video stream.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Video {
    /// Coded width in pixels, before aspect and rotation.
    pub width: u32,
    /// Coded height in pixels.
    pub height: u32,
    /// Level as FFmpeg gives it: H.264 ×10 (41), HEVC ×30 (123), AV1 `seq_level_idx`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<u32>,
    /// Bits of one colour sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bit_depth: Option<u8>,
    /// FFmpeg's pixel format (`yuv420p10le`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pixel_format: Option<String>,
    /// Pictures a second, average.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fps: Option<f64>,
    /// The same as a fraction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frame_rate: Option<[u32; 2]>,
    /// Sample aspect ratio where it is not 1:1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample_aspect: Option<[u32; 2]>,
    /// Degrees clockwise that a player has to turn the picture: 0, 90, 180, 270.
    pub rotation: u16,
    /// Milliseconds from the key frame that is decoded first to the beginning of the presentation,
    /// where an edit list begins it between two: 0 nearly always.
    #[serde(skip_serializing_if = "is_zero")]
    pub lead_in_ms: u32,
    /// Fields instead of frames.
    pub interlaced: bool,
    /// Reference frames, where known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ref_frames: Option<u8>,
    /// Dynamic range class.
    pub hdr: Hdr,
    /// Dolby Vision profile (5, 7, 8, 10), where the file carries a configuration record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dv_profile: Option<u8>,
    /// Dolby Vision level (1 to 13: pixels a second), where there is a record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dv_level: Option<u8>,
    /// Dolby Vision base layer compatibility id: 0 none, 1 HDR10, 2 SDR, 4 HLG, 6 Blu-ray HDR10.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dv_compatibility: Option<u8>,
    /// FFmpeg's colour primaries, transfer, matrix, range.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub color_primaries: Option<String>,
    /// Transfer characteristics (`smpte2084`, `arib-std-b67`, `bt709`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub color_transfer: Option<String>,
    /// Matrix coefficients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub color_space: Option<String>,
    /// `tv` or `pc`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub color_range: Option<String>,
}

/// Dynamic range classes that a decision needs (`docs/SPECIFICATION.md`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hdr {
    /// Nobody knows; treated as SDR and said so.
    Unknown,
    /// Standard range.
    #[default]
    Sdr,
    /// PQ with static metadata.
    Hdr10,
    /// HDR10 with dynamic metadata (SMPTE ST 2094-40).
    #[serde(alias = "hdr10plus", alias = "hdr10+")]
    Hdr10Plus,
    /// Hybrid log-gamma.
    Hlg,
    /// Dolby Vision without a base that others can show (profile 5).
    Dv5,
    /// Profile 8.1, 10.1: base is HDR10.
    #[serde(alias = "dv8", alias = "dv81", alias = "dv8.1")]
    DvHdr10,
    /// Profile 8.4: base is HLG.
    #[serde(alias = "dv84", alias = "dv8.4")]
    DvHlg,
    /// Profile 8.2, 9: base is SDR.
    #[serde(alias = "dv82", alias = "dv8.2")]
    DvSdr,
    /// Profile 7 with an enhancement layer, base HDR10.
    Dv7,
    /// As `DvHdr10`, the base with HDR10+ metadata.
    DvHdr10Plus,
    /// As `Dv7`, the base with HDR10+ metadata.
    Dv7Hdr10Plus,
    /// A record whose profile and compatibility do not go together: nobody knows what the base is.
    DvInvalid,
}

/// Facts of an audio stream.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Audio {
    /// Number of channels.
    pub channels: u32,
    /// FFmpeg's layout (`5.1(side)`), where known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel_layout: Option<String>,
    /// Samples a second.
    pub sample_rate: u32,
    /// Bits of a sample, for lossless codecs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bit_depth: Option<u8>,
    /// Sound objects beside the channels (Dolby Atmos, DTS:X): a decoder without them plays the channels.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub objects: bool,
}

/// Facts of a subtitle stream.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Subtitle {
    /// Whether it is text (SRT, ASS, WebVTT, mov_text), not pictures (PGS, VobSub, DVB).
    pub text: bool,
    /// Name of the file beside the film that holds it; absent when it is inside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external: Option<String>,
}

/// A chapter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Chapter {
    /// Start in seconds from the start of the presentation.
    pub start_s: f64,
    /// End in seconds, where the file says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_s: Option<f64>,
    /// Title, where the file has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

/// A file inside the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// Name in the file.
    pub name: String,
    /// MIME type as the file states it.
    pub mime: String,
    /// Size in bytes.
    pub size_bytes: u64,
}

impl MediaInfo {
    /// The first stream that moves: not a cover.
    #[must_use]
    pub fn main_video(&self) -> Option<(&Stream, &Video)> {
        self.streams.iter().find_map(|s| match &s.kind {
            StreamKind::Video(v) if !s.disposition.attached_picture => Some((s, v)),
            _ => None,
        })
    }

    /// Every sound stream.
    pub fn audio(&self) -> impl Iterator<Item = (&Stream, &Audio)> {
        self.streams.iter().filter_map(|s| match &s.kind {
            StreamKind::Audio(a) => Some((s, a)),
            _ => None,
        })
    }

    /// Every subtitle stream, inside and beside the file.
    pub fn subtitles(&self) -> impl Iterator<Item = (&Stream, &Subtitle)> {
        self.streams.iter().filter_map(|s| match &s.kind {
            StreamKind::Subtitle(t) => Some((s, t)),
            _ => None,
        })
    }
}

impl Hdr {
    /// Every class, in declaration order.
    pub const ALL: [Self; 13] = [
        Self::Unknown,
        Self::Sdr,
        Self::Hdr10,
        Self::Hdr10Plus,
        Self::Hlg,
        Self::Dv5,
        Self::DvHdr10,
        Self::DvHlg,
        Self::DvSdr,
        Self::Dv7,
        Self::DvHdr10Plus,
        Self::Dv7Hdr10Plus,
        Self::DvInvalid,
    ];

    /// The word on the wire.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Sdr => "sdr",
            Self::Hdr10 => "hdr10",
            Self::Hdr10Plus => "hdr10_plus",
            Self::Hlg => "hlg",
            Self::Dv5 => "dv5",
            Self::DvHdr10 => "dv_hdr10",
            Self::DvHlg => "dv_hlg",
            Self::DvSdr => "dv_sdr",
            Self::Dv7 => "dv7",
            Self::DvHdr10Plus => "dv_hdr10_plus",
            Self::Dv7Hdr10Plus => "dv7_hdr10_plus",
            Self::DvInvalid => "dv_invalid",
        }
    }

    /// The class of a picture that carries HDR10+ metadata too.
    #[must_use]
    pub fn with_hdr10_plus(self) -> Self {
        match self {
            Self::Hdr10 => Self::Hdr10Plus,
            Self::DvHdr10 => Self::DvHdr10Plus,
            Self::Dv7 => Self::Dv7Hdr10Plus,
            other => other,
        }
    }
}

impl Video {
    /// The sample aspect, where it shows. 31679:31680 is a muxer's rounding and not a squeezed
    /// picture: half a percent is four pixels of a picture of 720.
    #[must_use]
    pub fn anamorphic(&self) -> Option<[u32; 2]> {
        let [w, h] = self.sample_aspect?;
        let (a, b) = (u64::from(w), u64::from(h));
        (w > 0 && h > 0 && a.abs_diff(b) * 200 > a.max(b)).then_some([w, h])
    }

    /// Width and height as shown: stretched by the sample aspect, then turned.
    #[must_use]
    pub fn shown_size(&self) -> (u32, u32) {
        let mut width = self.width;
        if let Some([num, den]) = self.anamorphic() {
            let stretched = u64::from(width) * u64::from(num) + u64::from(den) / 2;
            width = u32::try_from(stretched / u64::from(den)).unwrap_or(u32::MAX);
        }
        match self.rotation {
            90 | 270 => (self.height, width),
            _ => (width, self.height),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_of_every_class_is_what_serde_writes() {
        for hdr in Hdr::ALL {
            assert_eq!(serde_json::to_value(hdr).unwrap(), hdr.word());
        }
    }

    #[test]
    fn pictures_are_shown_stretched_and_turned() {
        for (size, sample_aspect, rotation, anamorphic, shown) in [
            ((720, 576), Some([64, 45]), 0, true, (1024, 576)),
            ((720, 480), Some([8, 9]), 0, true, (640, 480)),
            ((640, 360), Some([31_679, 31_680]), 0, false, (640, 360)),
            ((640, 360), Some([0, 1]), 0, false, (640, 360)),
            ((640, 360), None, 90, false, (360, 640)),
            ((640, 360), None, 180, false, (640, 360)),
            ((720, 576), Some([64, 45]), 270, true, (576, 1024)),
        ] {
            let (width, height) = size;
            let v = Video { width, height, sample_aspect, rotation, ..Video::default() };
            assert_eq!((v.anamorphic().is_some(), v.shown_size()), (anamorphic, shown), "{v:?}");
        }
    }
}
