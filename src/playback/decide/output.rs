//! The file as a whole against the client, and what goes out when the file itself does not.

use std::sync::Arc;

use spindle_media::info::{Audio, MediaInfo, Stream, Video};

use super::Protocol;
use super::rule::{RuleVerdict, Rules, Text};
use super::video::{Shown, shown};
use crate::choose;
use crate::compiled::Compiled;
use crate::names::{self, Codecs};
use crate::reason::Reason;

/// More pictures a second than this are not encoded: no film has them, and a decoder that takes them
/// says so in its profile.
pub(super) const MAX_ENCODED_FPS: f64 = 60.0;

type VideoIn<'a> = Option<(&'a Stream, &'a Video)>;
type AudioIn<'a> = Option<(&'a Stream, &'a Audio)>;

/// What a bitrate limit means for the tracks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bitrate {
    /// All fits, or nobody knows.
    Fits,
    /// The file is above, the chosen tracks are not.
    OtherTracksTooMuch,
    /// The picture must get smaller.
    VideoTooMuch,
    /// The sound must.
    AudioTooMuch,
    /// Both must.
    BothTooMuch,
}

impl Bitrate {
    pub(super) fn picture(self) -> bool {
        matches!(self, Self::VideoTooMuch | Self::BothTooMuch)
    }

    pub(super) fn sound(self) -> bool {
        matches!(self, Self::AudioTooMuch | Self::BothTooMuch)
    }
}

/// Holds the limit for everything together against the file, then against the chosen tracks alone: a
/// file of ten sound tracks is repacked with one before its picture gets smaller. A rate that nobody
/// knows refuses nothing.
pub(super) fn check_bitrate(
    file: &MediaInfo,
    video: VideoIn<'_>,
    audio: AudioIn<'_>,
    limit_bps: Option<u64>,
    rules: &mut Rules,
) -> Bitrate {
    let Some(limit) = limit_bps else { return Bitrate::Fits };
    let r = Reason::BitrateOverLimit;
    let audio_bps = audio.and_then(|(s, _)| s.bitrate_bps);
    let Some(total) = total_bps(file) else {
        rules.note("bitrate", None, Text::AtMost(limit), "unknown", RuleVerdict::Unknown);
        return Bitrate::Fits;
    };
    if rules.must(r, "bitrate", None, Text::AtMost(limit), Text::Number(total), total <= limit) {
        return Bitrate::Fits;
    }
    let Some((video, _)) = video else { return Bitrate::AudioTooMuch };
    let chosen = video_bps(file, video).unwrap_or(total).saturating_add(audio_bps.unwrap_or(0));
    if rules.must(r, "bitrate_of_chosen", None, Text::AtMost(limit), Text::Number(chosen), chosen <= limit) {
        return Bitrate::OtherTracksTooMuch;
    }
    // Sound that would leave the picture less than two thirds of the limit shrinks as well.
    if audio_bps.is_some_and(|a| a > limit / 3) { Bitrate::BothTooMuch } else { Bitrate::VideoTooMuch }
}

fn streams_bps(file: &MediaInfo) -> u64 {
    file.streams.iter().filter_map(|s| s.bitrate_bps).sum()
}

/// Of the whole file: as it says, by its size, or what its streams say.
fn total_bps(file: &MediaInfo) -> Option<u64> {
    let sum = || Some(streams_bps(file)).filter(|b| *b > 0);
    file.bitrate_bps.or_else(|| by_size(file)).or_else(sum)
}

/// Of the picture: as it says, or what the other streams leave of the file.
pub(super) fn video_bps(file: &MediaInfo, video: &Stream) -> Option<u64> {
    video.bitrate_bps.or_else(|| Some(total_bps(file)?.saturating_sub(streams_bps(file))))
}

fn by_size(file: &MediaInfo) -> Option<u64> {
    let seconds = file.duration_s.filter(|d| *d > 0.0)?;
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an estimate: 53 bits of bytes are 9 PB, and the quotient is positive"
    )]
    let bps = (file.size_bytes as f64 * 8.0 / seconds) as u64;
    Some(bps).filter(|b| *b > 0)
}

/// What speaks against handing out the file unchanged, beyond its tracks.
pub(super) fn check_whole(
    profile: &Compiled,
    file: &MediaInfo,
    video: VideoIn<'_>,
    audio: AudioIn<'_>,
    rules: &mut Rules,
) -> Vec<Reason> {
    let mut against = Vec::new();
    if !container_fits(profile, file, video, audio, rules) {
        against.push(Reason::ContainerNotSupported);
    }
    let r = Reason::ProtocolNotSupported;
    if !rules.must(r, "protocol", None, &profile.words.protocols, "http", profile.http) {
        against.push(r);
    }
    if let Some(limit) = profile.max_streams {
        let r = Reason::StreamCountNotSupported;
        let count = u64::try_from(file.streams.len()).unwrap_or(u64::MAX);
        let fits = count <= u64::from(limit);
        if !rules.must(r, "streams_in_file", None, Text::AtMost(limit.into()), Text::Number(count), fits) {
            against.push(r);
        }
    }
    if let Some((stream, _)) = video
        && !tag_fits(profile, file, stream, rules)
    {
        against.push(Reason::VideoCodecTagNotSupported);
    }
    if let Some((stream, _)) = audio {
        let r = Reason::SecondaryAudioNotSupported;
        let by_itself = choose::plays_by_itself(file, stream);
        let fits = profile.switches_audio || by_itself;
        let wanted = if profile.switches_audio { "any track" } else { "the default track" };
        let found = if by_itself { "the default track" } else { "another track" };
        if !rules.must(r, "audio_track", Some(stream.index), wanted, found, fits) {
            against.push(r);
        }
    }
    against
}

/// Whether the container may be handed out with these tracks in it. A track that must be encoded
/// anyway is not held against the container: then the codec is the reason and the container is not.
fn container_fits(
    profile: &Compiled,
    file: &MediaInfo,
    video: VideoIn<'_>,
    audio: AudioIn<'_>,
    rules: &mut Rules,
) -> bool {
    let video_codec = video.map(|(s, _)| names::codec(&s.codec)).filter(|c| profile.plays_video(c));
    let audio_codec = audio.map(|(s, _)| names::codec(&s.codec)).filter(|c| profile.plays_audio(c));
    let container = names::container(&file.container);
    let (mut known, mut codecs_fit, mut fits) = (false, false, false);
    for entry in profile.entries.iter().filter(|e| e.containers.has(&container)) {
        known = true;
        let holds =
            |codecs: &Codecs, c: &Option<std::borrow::Cow<'_, str>>| c.as_ref().is_none_or(|c| codecs.has(c));
        if holds(&entry.video, &video_codec) && holds(&entry.audio, &audio_codec) {
            codecs_fit = true;
            let range =
                entry.hdr.is_empty() || video.is_none_or(|(_, v)| shown(&entry.hdr, v, None) != Shown::No);
            fits |= range;
        }
    }
    let mut found = file.container.clone();
    if known && !codecs_fit {
        // The container alone is fine; what is in it is not.
        found.push_str(" with ");
        let both: Vec<&str> = [&video_codec, &audio_codec].into_iter().flatten().map(AsRef::as_ref).collect();
        found.push_str(&both.join(" and "));
    } else if codecs_fit && !fits {
        found.push_str(" with ");
        found.push_str(video.map_or("", |(_, v)| v.hdr.word()));
    }
    let r = Reason::ContainerNotSupported;
    rules.must(r, "container", None, &profile.words.containers, found, fits)
}

fn tag_fits(profile: &Compiled, file: &MediaInfo, stream: &Stream, rules: &mut Rules) -> bool {
    let (Some(tag), "mp4" | "mov") = (stream.codec_tag.as_deref(), file.container.as_str()) else {
        return true;
    };
    let codec = names::codec(&stream.codec);
    let mut words: Option<&Arc<str>> = None;
    for row in profile.video_rows(&codec) {
        if row.limit.tags.is_empty() {
            return true;
        }
        words = Some(&row.tag_words);
        if row.limit.tags.iter().any(|t| t.eq_ignore_ascii_case(tag)) {
            break;
        }
    }
    let Some(words) = words else { return true };
    let fits = profile.video_rows(&codec).any(|r| r.limit.tags.iter().any(|t| t.eq_ignore_ascii_case(tag)));
    let r = Reason::VideoCodecTagNotSupported;
    rules.must(r, "video_codec_tag", Some(stream.index), words, tag.to_owned(), fits)
}

/// What goes out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Output {
    /// How bytes travel.
    pub(super) protocol: Protocol,
    /// The container's word in the decision.
    pub(super) container: String,
    /// Codecs that the client takes in it; empty: what it takes in a file of that kind, or at all.
    video: Codecs,
    audio: Codecs,
}

impl Output {
    /// The file itself.
    pub(super) fn as_it_is(file: &MediaInfo) -> Self {
        Self::new(Protocol::Http, &file.container)
    }

    fn new(protocol: Protocol, container: &str) -> Self {
        Self { protocol, container: container.to_owned(), video: Codecs::default(), audio: Codecs::default() }
    }

    /// What the server makes for this client: of the kinds that it takes, the one that copies the
    /// most of these tracks; the first among equals.
    pub(super) fn of(profile: &Compiled, video: VideoIn<'_>, audio: AudioIn<'_>) -> Self {
        let mut kinds = Self::kinds(profile).into_iter();
        let score = |out: &Self| {
            let picture = video.is_none_or(|(s, v)| {
                out.carries_video(profile, &names::codec(&s.codec)) && out.carries_shape(v)
            });
            let sound = audio.is_none_or(|(s, _)| out.carries_audio(profile, &names::codec(&s.codec)));
            (picture, sound)
        };
        let first = kinds.next().unwrap_or_else(|| Self::new(Protocol::Hls, "fmp4"));
        kinds.fold(first, |best, next| if score(&next) > score(&best) { next } else { best })
    }

    fn kinds(profile: &Compiled) -> Vec<Self> {
        if profile.hls {
            let of = |h: &crate::compiled::HlsOutput| Self {
                protocol: Protocol::Hls,
                container: h.container.to_owned(),
                video: h.video.clone(),
                audio: h.audio.clone(),
            };
            return profile.hls_outputs.iter().map(of).collect();
        }
        let opens = |c: &&str| profile.entries.iter().any(|e| e.containers.has(c));
        let mut out: Vec<Self> = Vec::new();
        let named = profile.target_container.as_deref();
        for container in named.into_iter().chain(["mp4", "mpegts"].into_iter().filter(opens)) {
            if out.iter().all(|o| o.container != container) {
                out.push(Self::new(Protocol::Http, container));
            }
        }
        if out.is_empty() {
            out.push(Self::new(Protocol::Http, "mp4"));
        }
        out
    }

    /// What the client takes in this kind: as `hls` says, as its list of files of this kind says, or
    /// else whatever it decodes.
    fn takes(
        &self,
        profile: &Compiled,
        own: &Codecs,
        of: impl Fn(&crate::compiled::Entry) -> &Codecs,
        codec: &str,
        decodes: bool,
    ) -> bool {
        if !own.is_empty() {
            return own.has(codec);
        }
        if self.protocol == Protocol::Http {
            let mut entries = profile.entries.iter().filter(|e| e.containers.has(&self.container)).peekable();
            if entries.peek().is_some() {
                return entries.any(|e| of(e).has(codec));
            }
        }
        decodes
    }

    /// Whether this picture may travel in what goes out.
    pub(super) fn carries_video(&self, profile: &Compiled, codec: &str) -> bool {
        let holds = match self.container.as_str() {
            "fmp4" | "mp4" => matches!(codec, "h264" | "hevc" | "av1" | "vp9"),
            "mpegts" => matches!(codec, "h264" | "hevc" | "mpeg2video"),
            _ => false,
        };
        holds && self.takes(profile, &self.video, |e| &e.video, codec, profile.plays_video(codec))
    }

    /// A transport stream has no place for a rotation.
    fn carries_shape(&self, video: &Video) -> bool {
        self.container != "mpegts" || video.rotation == 0
    }

    /// Whether this sound may travel in what goes out.
    pub(super) fn carries_audio(&self, profile: &Compiled, codec: &str) -> bool {
        let holds = match self.container.as_str() {
            "fmp4" | "mp4" => {
                matches!(codec, "aac" | "mp3" | "ac3" | "eac3" | "opus" | "flac" | "alac")
            }
            "mpegts" => matches!(codec, "aac" | "mp3" | "mp2" | "ac3" | "eac3" | "dts"),
            _ => false,
        };
        holds && self.takes(profile, &self.audio, |e| &e.audio, codec, profile.plays_audio(codec))
    }

    /// Adds what speaks against copying the picture into what goes out.
    pub(super) fn check_video(
        &self,
        profile: &Compiled,
        file: &MediaInfo,
        (stream, video): (&Stream, &Video),
        reasons: &mut Vec<Reason>,
        rules: &mut Rules,
    ) {
        if !reasons.is_empty() {
            return;
        }
        let n = Some(stream.index);
        let codec = names::codec(&stream.codec);
        let carries = self.carries_video(profile, &codec);
        let r = Reason::VideoCodecNotSupported;
        let wanted = format!("a codec for {}", self.container);
        if !rules.must(r, "video_in_output", n, wanted, stream.codec.clone(), carries) {
            reasons.push(r);
        }
        let r = Reason::VideoRotationNotSupported;
        if !self.carries_shape(video) {
            rules.must(r, "rotation_in_output", n, "0", Text::Number(video.rotation.into()), false);
            reasons.push(r);
        }
        // Size and parameter sets may change with the recording; what goes out has one description.
        if !file.clock_restarts.is_empty() {
            let r = Reason::RecordingRestarts;
            let found = format!("{} recordings", file.clock_restarts.len() + 1);
            rules.must(r, "recordings", n, "one", found, false);
            reasons.push(r);
        }
        // Pictures before the beginning would have to be sent, and players would show them.
        if video.lead_in_ms > 0 && codec == "h264" {
            let r = Reason::VideoStartsBetweenKeyframes;
            let found = format!("{} ms after one", video.lead_in_ms);
            rules.must(r, "video_start", n, "at a key frame", found, false);
            reasons.push(r);
        }
    }

    /// Adds what speaks against copying the sound into what goes out.
    pub(super) fn check_audio(
        &self,
        profile: &Compiled,
        stream: &Stream,
        reasons: &mut Vec<Reason>,
        rules: &mut Rules,
    ) {
        if !reasons.is_empty() {
            return;
        }
        let carries = self.carries_audio(profile, &names::codec(&stream.codec));
        let r = Reason::AudioCodecNotSupported;
        let wanted = format!("a codec for {}", self.container);
        let n = Some(stream.index);
        if !rules.must(r, "audio_in_output", n, wanted, stream.codec.clone(), carries) {
            reasons.push(r);
        }
    }
}
