//! What a client can play, as it says or as a built-in profile says for it. The JSON is part of the
//! stable surface; fields beyond it are optional and marked as ours.

use std::fmt;

use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use spindle_base::error::ErrorKind;
use thiserror::Error;

use crate::names::{self, Codecs};

/// Entries of one list. The richest real client names some forty codecs.
const MAX_ENTRIES: usize = 128;
/// Characters of one word.
const MAX_WORD: usize = 128;
/// Bytes of a whole profile as JSON.
const MAX_JSON_BYTES: usize = 64 << 10;

/// A client's abilities.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientProfile {
    /// Name shown to people, at most 128 characters.
    #[serde(deserialize_with = "word")]
    pub name: String,
    /// Containers that play as they are, with the codecs that may be in them.
    #[serde(deserialize_with = "list")]
    pub direct_play: Vec<DirectPlay>,
    /// Limits by video codec. A codec that `direct_play` names and this does not is unlimited.
    #[serde(default, deserialize_with = "list")]
    pub video: Vec<VideoLimit>,
    /// Limits by audio codec; as for `video`.
    #[serde(default, deserialize_with = "list")]
    pub audio: Vec<AudioLimit>,
    /// Subtitles that the client draws itself.
    #[serde(default, deserialize_with = "list")]
    pub subtitles: Vec<SubtitleSupport>,
    /// Protocols, preferred first. Absent means both.
    #[serde(default = "both_protocols", deserialize_with = "list")]
    pub protocols: Vec<Protocol>,
    /// Bits per second of everything together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bitrate: Option<u64>,
    /// Ours: streams of a file that plays as it is, of every kind. Some sets refuse files of more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_streams: Option<u32>,
    /// Ours: the player lets the viewer change the sound track of a file that plays as it is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub switches_audio: bool,
    /// Ours: what the client takes in HLS, where that differs from `direct_play`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hls: Option<Hls>,
    /// Ours: codecs to encode to, preferred first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// Ours: parts of a `User-Agent` or of a UPnP friendly name that tell this client.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "words")]
    pub user_agents: Vec<String>,
}

/// One container that plays as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DirectPlay {
    /// `mp4`, `mkv`, …; several by commas; `*` is any.
    #[serde(deserialize_with = "word")]
    pub container: String,
    /// Video codecs in it; `*` is any.
    #[serde(default, deserialize_with = "words")]
    pub video: Vec<String>,
    /// Audio codecs in it; `*` is any.
    #[serde(default, deserialize_with = "words")]
    pub audio: Vec<String>,
    /// Ours: dynamic ranges in this container, where they are fewer than the codec's. Some sets show
    /// Dolby Vision out of MP4 and not out of Matroska.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "list")]
    pub hdr: Vec<Range>,
}

/// A dynamic range beyond SDR that a client shows, as it says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Range {
    /// Standard range, which everybody shows; some clients name it all the same.
    Sdr,
    /// PQ with static metadata; also the base of HDR10+ and of Dolby Vision 7, 8.1, 10.1.
    Hdr10,
    /// HDR10 with dynamic metadata.
    #[serde(alias = "hdr10plus", alias = "hdr10+")]
    Hdr10Plus,
    /// Hybrid log-gamma; also the base of Dolby Vision 8.4 and 10.4.
    Hlg,
    /// Dolby Vision of any profile.
    #[serde(alias = "dolby_vision")]
    Dv,
    /// Dolby Vision profile 5: no base that anybody else could show.
    #[serde(alias = "dvhe.05")]
    Dv5,
    /// Dolby Vision profile 7: two layers.
    #[serde(alias = "dvhe.07")]
    Dv7,
    /// Dolby Vision profile 8 over any base.
    #[serde(alias = "dvhe.08")]
    Dv8,
    /// Dolby Vision profile 10 (AV1) over any base or none.
    #[serde(alias = "dav1.10")]
    Dv10,
    /// Dolby Vision over HDR10 alone.
    #[serde(alias = "dv81", alias = "dv8.1")]
    DvHdr10,
    /// Dolby Vision over HLG alone.
    #[serde(alias = "dv84", alias = "dv8.4")]
    DvHlg,
    /// Dolby Vision over SDR alone.
    #[serde(alias = "dv82", alias = "dv8.2")]
    DvSdr,
}

impl Range {
    /// The word on the wire.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Sdr => "sdr",
            Self::Hdr10 => "hdr10",
            Self::Hdr10Plus => "hdr10_plus",
            Self::Hlg => "hlg",
            Self::Dv => "dv",
            Self::Dv5 => "dv5",
            Self::Dv7 => "dv7",
            Self::Dv8 => "dv8",
            Self::Dv10 => "dv10",
            Self::DvHdr10 => "dv_hdr10",
            Self::DvHlg => "dv_hlg",
            Self::DvSdr => "dv_sdr",
        }
    }
}

/// Limits of one video codec; what is absent is not limited, except as the field says. Several
/// entries of one codec are alternatives: a picture has to fit one of them whole (2160p at 30, or
/// 1080p at 60 pictures a second).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VideoLimit {
    /// The codec.
    #[serde(deserialize_with = "word")]
    pub codec: String,
    /// Profiles in FFmpeg's words, in any spelling (`main10`, `Main 10`).
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "words")]
    pub profiles: Vec<String>,
    /// H.264 ×10, HEVC ×30, AV1 `seq_level_idx`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_level: Option<u32>,
    /// Bits of a colour sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bit_depth: Option<u8>,
    /// Dynamic ranges beyond SDR. Absent means none: an HDR picture on a client that did not
    /// declare it shows in wrong colours.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "list")]
    pub hdr: Vec<Range>,
    /// Ours: Dolby Vision level, of a picture that is shown as Dolby Vision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_dv_level: Option<u8>,
    /// Pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_width: Option<u32>,
    /// Pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_height: Option<u32>,
    /// Pictures a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_fps: Option<f64>,
    /// Bits per second of the video stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bitrate: Option<u64>,
    /// Whether fields are shown as they should be. Absent means no.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interlaced: bool,
    /// Ours: reference frames (H.264).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_ref_frames: Option<u8>,
    /// Ours: sample entries that it takes in MP4 (`hvc1`). Empty means any.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "words")]
    pub tags: Vec<String>,
    /// Ours: `false` where the player ignores a sample aspect that is not 1:1.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub anamorphic: bool,
    /// Ours: `false` where the player ignores a rotation.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub rotation: bool,
}

/// Limits of one audio codec; what is absent is not limited.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AudioLimit {
    /// The codec.
    #[serde(deserialize_with = "word")]
    pub codec: String,
    /// Channels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_channels: Option<u32>,
    /// Samples a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_sample_rate: Option<u32>,
    /// Ours: profiles in FFmpeg's words.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "words")]
    pub profiles: Vec<String>,
    /// Ours: bits of a sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bit_depth: Option<u8>,
    /// Ours: bits per second of the stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bitrate: Option<u64>,
}

impl ClientProfile {
    /// Whether the client draws subtitles of this codec (FFmpeg's name) itself, from a file of their own as
    /// the original is.
    #[must_use]
    pub fn draws(&self, codec: &str) -> bool {
        let external = self.subtitles.iter().filter(|s| s.delivery == SubtitleDelivery::External);
        Codecs::of(external.map(|s| &s.format)).has(&names::codec(codec))
    }
}

/// One subtitle format that the client draws. Where a client takes ASS as it is and as WebVTT, the first of
/// the two in its list goes out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubtitleSupport {
    /// `webvtt`, `srt`, `ass`, `pgs`, `vobsub`, `mov_text`, …; `*` is any.
    #[serde(deserialize_with = "word")]
    pub format: String,
    /// How it has to arrive.
    pub delivery: SubtitleDelivery,
}

/// How subtitles arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubtitleDelivery {
    /// As a file of their own.
    External,
    /// As a rendition of the HLS playlist.
    Hls,
    /// Inside the file that plays as it is.
    Embedded,
}

/// How bytes travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// One resource with ranges.
    Http,
    /// A playlist and segments (RFC 8216).
    Hls,
}

/// What a client takes in HLS segments.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hls {
    /// `fmp4` (default) or `mpegts`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<HlsContainer>,
    /// Video codecs in segments.
    #[serde(default, deserialize_with = "words")]
    pub video: Vec<String>,
    /// Audio codecs in segments.
    #[serde(default, deserialize_with = "words")]
    pub audio: Vec<String>,
    /// The client takes the other kind of segments too; what is in `video` and `audio` of this list
    /// may travel in them. The kind that copies more tracks is used, `container` among equals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other: Option<HlsOther>,
}

/// What a client takes in the kind of segments that is not its first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HlsOther {
    /// Video codecs.
    #[serde(default, deserialize_with = "words")]
    pub video: Vec<String>,
    /// Audio codecs.
    #[serde(default, deserialize_with = "words")]
    pub audio: Vec<String>,
}

/// Kinds of HLS segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HlsContainer {
    /// Fragmented MP4 with an initialisation section.
    #[default]
    Fmp4,
    /// MPEG transport stream.
    Mpegts,
}

/// What to encode to when something must be encoded.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// Video codecs, preferred first.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "words")]
    pub video: Vec<String>,
    /// Audio codecs, preferred first.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "words")]
    pub audio: Vec<String>,
    /// Container of a progressive answer, for clients without HLS: `mp4` or `mpegts`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
}

/// A profile that cannot be used.
#[derive(Debug, Error)]
pub enum ProfileError {
    /// It is not the JSON that it should be; the text names the field and the place.
    #[error("unable to read the client profile: {0}")]
    Json(#[from] serde_json::Error),
    /// It is read and still says nothing that a client could be given.
    #[error("the client profile `{name}` plays nothing: {what}")]
    Useless {
        /// Its name.
        name: String,
        /// What is missing.
        what: &'static str,
    },
    /// It is larger than any real client needs.
    #[error("the client profile is larger than {MAX_JSON_BYTES} bytes")]
    TooLarge,
}

impl ProfileError {
    /// What it means to the one who sent it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Json(_) | Self::Useless { .. } => ErrorKind::BadInput,
            Self::TooLarge => ErrorKind::OverLimit,
        }
    }
}

impl ClientProfile {
    /// Reads a profile.
    ///
    /// # Errors
    /// When it is too large, not JSON, or has a field that is unknown or out of bounds.
    pub fn from_json(text: &str) -> Result<Self, ProfileError> {
        if text.len() > MAX_JSON_BYTES {
            return Err(ProfileError::TooLarge);
        }
        Ok(serde_json::from_str(text)?)
    }

    /// The limits of a video codec, if it has any.
    #[must_use]
    pub fn video_limit(&self, codec: &str) -> Option<&VideoLimit> {
        let codec = names::codec(codec);
        self.video.iter().find(|v| names::codec(&v.codec) == codec)
    }

    /// Whether it says enough to decide by: a protocol, and something that it plays.
    ///
    /// # Errors
    /// [`ProfileError::Useless`], naming what is missing.
    pub fn check(&self) -> Result<(), ProfileError> {
        let useless = |what| Err(ProfileError::Useless { name: self.name.clone(), what });
        if self.protocols.is_empty() {
            return useless("`protocols` is empty; leave it out, or name `http`, `hls` or both");
        }
        let named = self.direct_play.iter().any(|d| !d.video.is_empty() || !d.audio.is_empty());
        if !named && self.video.is_empty() && self.audio.is_empty() {
            return useless("neither `direct_play` nor `video` nor `audio` names a codec");
        }
        Ok(())
    }

    /// The limits of an audio codec, if it has any.
    #[must_use]
    pub fn audio_limit(&self, codec: &str) -> Option<&AudioLimit> {
        let codec = names::codec(codec);
        self.audio.iter().find(|a| names::codec(&a.codec) == codec)
    }

    /// Whether the client decodes this video codec: some container may carry it, or it has limits,
    /// which a codec that is not decoded would not have (a client of playlists alone lists no container).
    #[must_use]
    pub fn plays_video(&self, codec: &str) -> bool {
        self.direct_play.iter().any(|d| names::Codecs::of(&d.video).has(&names::codec(codec)))
            || self.video_limit(codec).is_some()
    }

    /// Whether the client decodes this audio codec, told as for video.
    #[must_use]
    pub fn plays_audio(&self, codec: &str) -> bool {
        self.direct_play.iter().any(|d| names::Codecs::of(&d.audio).has(&names::codec(codec)))
            || self.audio_limit(codec).is_some()
    }

    /// Whether the client has this protocol.
    #[must_use]
    pub fn speaks(&self, protocol: Protocol) -> bool {
        self.protocols.contains(&protocol)
    }
}

fn both_protocols() -> Vec<Protocol> {
    vec![Protocol::Http, Protocol::Hls]
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_true(b: &bool) -> bool {
    *b
}

fn word<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let word = String::deserialize(from)?;
    if word.is_empty() || word.chars().count() > MAX_WORD || word.chars().any(char::is_control) {
        return Err(de::Error::custom(format_args!("a word must have 1 to {MAX_WORD} printable characters")));
    }
    Ok(word)
}

fn words<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    struct Word(#[serde(deserialize_with = "word")] String);
    Ok(list::<D, Word>(from)?.into_iter().map(|w| w.0).collect())
}

/// A list of at most [`MAX_ENTRIES`], refused while it is read and not afterwards.
fn list<'de, D, T>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct Bounded<T>(std::marker::PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for Bounded<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a list of at most {MAX_ENTRIES} entries")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<T>, A::Error> {
            let mut out = Vec::new();
            while let Some(entry) = seq.next_element()? {
                if out.len() == MAX_ENTRIES {
                    return Err(de::Error::invalid_length(out.len() + 1, &self));
                }
                out.push(entry);
            }
            Ok(out)
        }
    }
    from.deserialize_seq(Bounded(std::marker::PhantomData))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTRACT: &str = r#"{"name":"a box",
        "direct_play":[{"container":"mp4","video":["h264","hevc"],"audio":["aac"]}],
        "video":[{"codec":"h264","profiles":["High"],"max_level":41,"max_bit_depth":8,
                  "max_width":1920,"max_height":1080,"max_fps":60,"max_bitrate":20000000},
                 {"codec":"hevc","hdr":["hdr10","hlg","dv5"],"interlaced":false}],
        "audio":[{"codec":"aac","max_channels":2,"max_sample_rate":48000}],
        "subtitles":[{"format":"webvtt","delivery":"external"},{"format":"webvtt","delivery":"hls"},
                     {"format":"srt","delivery":"embedded"}],
        "protocols":["http","hls"],"max_bitrate":40000000}"#;

    #[test]
    fn the_contracts_json_is_read_field_by_field() {
        let p = ClientProfile::from_json(CONTRACT).unwrap();
        assert_eq!(p.video_limit("avc").unwrap().max_level, Some(41));
        assert_eq!(p.video_limit("hevc").unwrap().hdr, [Range::Hdr10, Range::Hlg, Range::Dv5]);
        assert_eq!(p.audio_limit("aac").unwrap().max_channels, Some(2));
        assert_eq!(p.subtitles[2].delivery, SubtitleDelivery::Embedded);
        assert_eq!(p.max_bitrate, Some(40_000_000));
        assert!(p.speaks(Protocol::Hls) && !p.plays_video("vp9") && p.plays_audio("AAC"));
    }

    #[test]
    fn what_is_written_is_read_again() {
        let p = ClientProfile::from_json(CONTRACT).unwrap();
        let text = serde_json::to_string(&p).unwrap();
        assert_eq!(ClientProfile::from_json(&text).unwrap(), p);
    }

    #[test]
    fn an_unknown_field_is_refused_with_its_name() {
        for (text, field) in [
            (r#"{"name":"a","direct_play":[],"videos":[]}"#, "videos"),
            (r#"{"name":"a","direct_play":[{"container":"mp4","codec":[]}]}"#, "codec"),
            (r#"{"name":"a","direct_play":[],"video":[{"codec":"vp9","maxlevel":1}]}"#, "maxlevel"),
            (r#"{"name":"a","direct_play":[],"audio":[{"codec":"aac","channels":1}]}"#, "channels"),
        ] {
            let e = ClientProfile::from_json(text).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::BadInput);
            assert!(e.to_string().contains(&format!("`{field}`")), "{e}");
        }
    }

    #[test]
    fn lists_and_words_have_limits() {
        let many = vec!["\"aac\""; MAX_ENTRIES + 1].join(",");
        for text in [
            format!(r#"{{"name":"a","direct_play":[{{"container":"mp4","audio":[{many}]}}]}}"#),
            format!(r#"{{"name":"{}","direct_play":[]}}"#, "x".repeat(MAX_WORD + 1)),
            r#"{"name":"","direct_play":[]}"#.to_owned(),
            r#"{"name":"a\u0000b","direct_play":[]}"#.to_owned(),
            r#"{"name":"a","direct_play":[],"protocols":["smb"]}"#.to_owned(),
            r#"{"direct_play":[]}"#.to_owned(),
        ] {
            assert!(ClientProfile::from_json(&text).is_err(), "{text}");
        }
        let large = format!(r#"{{"name":"a","direct_play":[]}}{}"#, " ".repeat(MAX_JSON_BYTES));
        assert!(matches!(ClientProfile::from_json(&large), Err(ProfileError::TooLarge)));
    }

    #[test]
    fn a_client_without_protocols_has_both() {
        let p = ClientProfile::from_json(r#"{"name":"a","direct_play":[]}"#).unwrap();
        assert_eq!(p.protocols, [Protocol::Http, Protocol::Hls]);
    }
}
