//! A profile made ready for many decisions: words in one spelling, lists for people joined once.
//! Nothing here decides.

use std::sync::Arc;

use crate::client::{AudioLimit, ClientProfile, HlsContainer, Protocol, Range, SubtitleDelivery, VideoLimit};
use crate::names::{self, Codecs, Containers};

/// A profile, ready.
#[derive(Debug, Clone)]
pub(crate) struct Compiled {
    pub(crate) name: Arc<str>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) video: Vec<VideoRow>,
    pub(crate) audio: Vec<AudioRow>,
    pub(crate) subtitles: Vec<(Codecs, SubtitleDelivery)>,
    pub(crate) http: bool,
    pub(crate) hls: bool,
    pub(crate) hls_outputs: Vec<HlsOutput>,
    pub(crate) target_container: Option<String>,
    pub(crate) target_video: Vec<String>,
    pub(crate) target_audio: Vec<String>,
    pub(crate) max_bitrate: Option<u64>,
    pub(crate) max_streams: Option<u32>,
    pub(crate) switches_audio: bool,
    pub(crate) words: Words,
}

/// What rules say that they wanted, for people.
#[derive(Debug, Clone)]
pub(crate) struct Words {
    pub(crate) containers: Arc<str>,
    pub(crate) video: Arc<str>,
    pub(crate) audio: Arc<str>,
    pub(crate) subtitles: Arc<str>,
    pub(crate) protocols: Arc<str>,
}

/// One container that plays as it is.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) containers: Containers,
    pub(crate) video: Codecs,
    pub(crate) audio: Codecs,
    pub(crate) hdr: Vec<Range>,
}

/// Segments that a client takes.
#[derive(Debug, Clone)]
pub(crate) struct HlsOutput {
    pub(crate) container: &'static str,
    /// Empty: whatever the client decodes.
    pub(crate) video: Codecs,
    pub(crate) audio: Codecs,
}

/// Limits of a video codec.
#[derive(Debug, Clone)]
pub(crate) struct VideoRow {
    pub(crate) codec: String,
    pub(crate) limit: VideoLimit,
    /// As `names::bare` writes them.
    pub(crate) profiles: Vec<String>,
    pub(crate) profile_words: Arc<str>,
    pub(crate) range_words: Arc<str>,
    pub(crate) size_words: Option<Arc<str>>,
    pub(crate) tag_words: Arc<str>,
}

/// Limits of an audio codec.
#[derive(Debug, Clone)]
pub(crate) struct AudioRow {
    pub(crate) codec: String,
    pub(crate) limit: AudioLimit,
    pub(crate) profiles: Vec<String>,
    pub(crate) profile_words: Arc<str>,
}

impl Compiled {
    pub(crate) fn new(profile: &ClientProfile) -> Self {
        let speaks = |p| profile.protocols.contains(&p);
        Self {
            name: profile.name.as_str().into(),
            entries: profile
                .direct_play
                .iter()
                .map(|d| Entry {
                    containers: Containers::of(&d.container),
                    video: Codecs::of(&d.video),
                    audio: Codecs::of(&d.audio),
                    hdr: d.hdr.clone(),
                })
                .collect(),
            video: profile.video.iter().map(VideoRow::new).collect(),
            audio: profile.audio.iter().map(AudioRow::new).collect(),
            subtitles: profile
                .subtitles
                .iter()
                .map(|s| (Codecs::of(std::slice::from_ref(&s.format)), s.delivery))
                .collect(),
            http: speaks(Protocol::Http),
            hls: speaks(Protocol::Hls),
            hls_outputs: hls_outputs(profile),
            target_container: profile
                .target
                .as_ref()
                .and_then(|t| t.container.as_deref())
                .map(|c| names::container(c).into_owned()),
            target_video: named(profile.target.iter().flat_map(|t| &t.video)),
            target_audio: named(profile.target.iter().flat_map(|t| &t.audio)),
            max_bitrate: profile.max_bitrate,
            max_streams: profile.max_streams,
            switches_audio: profile.switches_audio,
            words: Words::new(profile),
        }
    }

    /// Whether the client decodes this video codec: some container may carry it, or it has limits,
    /// which a codec that is not decoded would not have.
    pub(crate) fn plays_video(&self, codec: &str) -> bool {
        self.entries.iter().any(|e| e.video.has(codec)) || self.video.iter().any(|v| v.codec == codec)
    }

    /// Whether it decodes any moving picture; still ones are no films.
    pub(crate) fn plays_any_video(&self) -> bool {
        ["h264", "hevc", "av1", "vp9", "vp8", "mpeg2video", "mpeg4"].iter().any(|c| self.plays_video(c))
            || !self.video.is_empty()
    }

    /// Whether the client decodes this audio codec, told as for video.
    pub(crate) fn plays_audio(&self, codec: &str) -> bool {
        self.entries.iter().any(|e| e.audio.has(codec)) || self.audio.iter().any(|a| a.codec == codec)
    }

    /// The limits of a video codec: alternatives.
    pub(crate) fn video_rows<'a>(&'a self, codec: &'a str) -> impl Iterator<Item = &'a VideoRow> {
        self.video.iter().filter(move |v| v.codec == codec)
    }

    /// The limits of an audio codec: alternatives.
    pub(crate) fn audio_rows<'a>(&'a self, codec: &'a str) -> impl Iterator<Item = &'a AudioRow> {
        self.audio.iter().filter(move |a| a.codec == codec)
    }
}

fn named<'a>(words: impl Iterator<Item = &'a String>) -> Vec<String> {
    words.map(|w| names::codec(w).into_owned()).collect()
}

fn hls_outputs(profile: &ClientProfile) -> Vec<HlsOutput> {
    let word = |kind| match kind {
        HlsContainer::Fmp4 => "fmp4",
        HlsContainer::Mpegts => "mpegts",
    };
    let Some(hls) = &profile.hls else {
        return vec![HlsOutput { container: "fmp4", video: Codecs::default(), audio: Codecs::default() }];
    };
    let first = hls.container.unwrap_or_default();
    let mut out = vec![HlsOutput {
        container: word(first),
        video: Codecs::of(&hls.video),
        audio: Codecs::of(&hls.audio),
    }];
    if let Some(other) = &hls.other {
        let kind = if first == HlsContainer::Fmp4 { HlsContainer::Mpegts } else { HlsContainer::Fmp4 };
        out.push(HlsOutput {
            container: word(kind),
            video: Codecs::of(&other.video),
            audio: Codecs::of(&other.audio),
        });
    }
    out
}

impl VideoRow {
    fn new(limit: &VideoLimit) -> Self {
        let mut ranges = "sdr".to_owned();
        for h in &limit.hdr {
            ranges.push_str(", ");
            ranges.push_str(h.word());
        }
        let one = |n: Option<u32>| n.map_or_else(|| "any".to_owned(), |n| n.to_string());
        let size = (limit.max_width.is_some() || limit.max_height.is_some())
            .then(|| format!("at most {}x{}", one(limit.max_width), one(limit.max_height)).into());
        Self {
            codec: names::codec(&limit.codec).into_owned(),
            profiles: limit.profiles.iter().map(|p| names::bare(p)).collect(),
            profile_words: limit.profiles.join(", ").into(),
            range_words: ranges.into(),
            size_words: size,
            tag_words: limit.tags.join(", ").into(),
            limit: limit.clone(),
        }
    }
}

impl AudioRow {
    fn new(limit: &AudioLimit) -> Self {
        Self {
            codec: names::codec(&limit.codec).into_owned(),
            profiles: limit.profiles.iter().map(|p| names::bare(p)).collect(),
            profile_words: limit.profiles.join(", ").into(),
            limit: limit.clone(),
        }
    }
}

impl Words {
    fn new(profile: &ClientProfile) -> Self {
        let mut containers: Vec<&str> = profile.direct_play.iter().map(|d| d.container.as_str()).collect();
        containers.dedup();
        let sorted = |mut all: Vec<String>| {
            all.sort_unstable();
            all.dedup();
            all.join(", ")
        };
        let video = profile.direct_play.iter().flat_map(|d| &d.video);
        let audio = profile.direct_play.iter().flat_map(|d| &d.audio);
        let subtitle = |s: &crate::client::SubtitleSupport| {
            let way = match s.delivery {
                SubtitleDelivery::External => "external",
                SubtitleDelivery::Hls => "hls",
                SubtitleDelivery::Embedded => "embedded",
            };
            format!("{way} {}", s.format)
        };
        let protocol = |p: &Protocol| match p {
            Protocol::Http => "http",
            Protocol::Hls => "hls",
        };
        Self {
            containers: containers.join(", ").into(),
            video: sorted(named(video.chain(profile.video.iter().map(|l| &l.codec)))).into(),
            audio: sorted(named(audio.chain(profile.audio.iter().map(|l| &l.codec)))).into(),
            subtitles: profile.subtitles.iter().map(subtitle).collect::<Vec<_>>().join(", ").into(),
            protocols: profile.protocols.iter().map(protocol).collect::<Vec<_>>().join(", ").into(),
        }
    }
}
