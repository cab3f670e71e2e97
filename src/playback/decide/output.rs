//! The file as a whole against the client, and what goes out when the file itself does not.

use spindle_media::info::{Audio, MediaInfo, Stream, Video};

use super::{Protocol, RuleVerdict, Rules, listed};
use crate::choose;
use crate::client::{ClientProfile, HlsContainer};
use crate::names;
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

/// Holds the limit for everything together against the file. A rate that nobody knows refuses
/// nothing.
pub(super) fn check_bitrate(
    file: &MediaInfo,
    video: VideoIn<'_>,
    audio: AudioIn<'_>,
    limit_bps: Option<u64>,
    rules: &mut Rules,
) -> Bitrate {
    let Some(limit) = limit_bps else { return Bitrate::Fits };
    let wanted = format!("at most {limit}");
    let audio_bps = audio.and_then(|(s, _)| s.bitrate_bps);
    let streams_bps: u64 = file.streams.iter().filter_map(|s| s.bitrate_bps).sum();
    let total = file.bitrate_bps.or_else(|| by_size(file)).or_else(|| Some(streams_bps).filter(|b| *b > 0));
    let Some(total) = total else {
        rules.note("bitrate", None, wanted, "unknown", RuleVerdict::Unknown);
        return Bitrate::Fits;
    };
    if rules.holds("bitrate", None, wanted.clone(), total.to_string(), total <= limit) {
        return Bitrate::Fits;
    }
    let Some((video, _)) = video else { return Bitrate::AudioTooMuch };
    // What of the file is the picture, where the file does not say: what the others leave.
    let others = streams_bps.saturating_sub(video.bitrate_bps.unwrap_or(0));
    let video_bps = video.bitrate_bps.unwrap_or_else(|| total.saturating_sub(others));
    let chosen = video_bps.saturating_add(audio_bps.unwrap_or(0));
    if rules.holds("bitrate_of_chosen", None, wanted, chosen.to_string(), chosen <= limit) {
        return Bitrate::OtherTracksTooMuch;
    }
    // Sound that would leave the picture less than two thirds of the limit shrinks as well.
    if audio_bps.is_some_and(|a| a > limit / 3) { Bitrate::BothTooMuch } else { Bitrate::VideoTooMuch }
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
    profile: &ClientProfile,
    file: &MediaInfo,
    video: VideoIn<'_>,
    audio: AudioIn<'_>,
    rules: &mut Rules,
) -> Vec<Reason> {
    let mut against = Vec::new();
    if !container_fits(profile, file, video, audio, rules) {
        against.push(Reason::ContainerNotSupported);
    }
    let http = profile.speaks(Protocol::Http);
    if !rules.holds("protocol", None, protocols(profile), "http", http) {
        against.push(Reason::ProtocolNotSupported);
    }
    if let Some((stream, _)) = video
        && !tag_fits(profile, file, stream, rules)
    {
        against.push(Reason::VideoCodecTagNotSupported);
    }
    if let Some((stream, _)) = audio {
        let by_itself = choose::plays_by_itself(file, stream);
        let fits = profile.switches_audio || by_itself;
        let wanted = if profile.switches_audio { "any track" } else { "the default track" };
        let found = if by_itself { "the default track" } else { "another track" };
        if !rules.holds("audio_track", Some(stream.index), wanted, found, fits) {
            against.push(Reason::SecondaryAudioNotSupported);
        }
    }
    against
}

fn protocols(profile: &ClientProfile) -> String {
    let word = |p: &Protocol| match p {
        Protocol::Http => "http",
        Protocol::Hls => "hls",
    };
    profile.protocols.iter().map(word).collect::<Vec<_>>().join(", ")
}

/// Whether the container may be handed out with these tracks in it. A track that must be encoded
/// anyway is not held against the container: then the codec is the reason and the container is not.
fn container_fits(
    profile: &ClientProfile,
    file: &MediaInfo,
    video: VideoIn<'_>,
    audio: AudioIn<'_>,
    rules: &mut Rules,
) -> bool {
    let video_codec = video.map(|(s, _)| s.codec.as_str()).filter(|c| profile.plays_video(c));
    let audio_codec = audio.map(|(s, _)| s.codec.as_str()).filter(|c| profile.plays_audio(c));
    let mut opens = profile
        .direct_play
        .iter()
        .filter(|d| names::container_listed(&d.container, &file.container))
        .peekable();
    let known = !file.container.is_empty() && opens.peek().is_some();
    let fits = known
        && opens.any(|d| {
            video_codec.is_none_or(|c| listed(&d.video, c)) && audio_codec.is_none_or(|c| listed(&d.audio, c))
        });
    let mut wanted: Vec<&str> = profile.direct_play.iter().map(|d| d.container.as_str()).collect();
    wanted.dedup();
    let mut found = file.container.clone();
    if known && !fits {
        // The container alone is fine; what is in it is not.
        found.push_str(" with ");
        found.push_str(&[video_codec, audio_codec].into_iter().flatten().collect::<Vec<_>>().join(" and "));
    }
    rules.holds("container", None, wanted.join(", "), found, fits)
}

fn tag_fits(profile: &ClientProfile, file: &MediaInfo, stream: &Stream, rules: &mut Rules) -> bool {
    let Some(limit) = profile.video_limit(&stream.codec).filter(|l| !l.tags.is_empty()) else {
        return true;
    };
    let (Some(tag), "mp4" | "mov") = (stream.codec_tag.as_deref(), file.container.as_str()) else {
        return true;
    };
    let fits = limit.tags.iter().any(|t| t.eq_ignore_ascii_case(tag));
    rules.holds("video_codec_tag", Some(stream.index), limit.tags.join(", "), tag, fits)
}

/// What goes out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Output {
    /// How bytes travel.
    pub(super) protocol: Protocol,
    /// The container's word in the decision.
    pub(super) container: String,
}

impl Output {
    /// The file itself.
    pub(super) fn as_it_is(file: &MediaInfo) -> Self {
        Self { protocol: Protocol::Http, container: file.container.clone() }
    }

    /// What the server makes for this client.
    pub(super) fn of(profile: &ClientProfile) -> Self {
        if profile.speaks(Protocol::Hls) {
            let kind = profile.hls.as_ref().and_then(|h| h.container).unwrap_or_default();
            let container = match kind {
                HlsContainer::Fmp4 => "fmp4",
                HlsContainer::Mpegts => "mpegts",
            };
            return Self { protocol: Protocol::Hls, container: container.to_owned() };
        }
        let named = profile.target.as_ref().and_then(|t| t.container.as_deref());
        let opens = |c: &&str| profile.direct_play.iter().any(|d| names::container_listed(&d.container, c));
        let container = named.or_else(|| ["mp4", "mpegts", "mkv"].into_iter().find(opens)).unwrap_or("mp4");
        Self { protocol: Protocol::Http, container: names::container(container) }
    }

    fn carries_video(&self, profile: &ClientProfile, codec: &str) -> bool {
        let codec = names::codec(codec);
        let holds = match self.container.as_str() {
            "fmp4" | "mp4" => ["h264", "hevc", "av1", "vp9"].contains(&codec.as_str()),
            "mpegts" => ["h264", "hevc", "mpeg2video"].contains(&codec.as_str()),
            _ => true,
        };
        let wanted = match &profile.hls {
            Some(hls) if self.protocol == Protocol::Hls && !hls.video.is_empty() => {
                listed(&hls.video, &codec)
            }
            _ => profile.plays_video(&codec),
        };
        holds && wanted
    }

    /// Whether this sound may travel in what goes out.
    pub(super) fn carries_audio(&self, profile: &ClientProfile, codec: &str) -> bool {
        let codec = names::codec(codec);
        let holds = match self.container.as_str() {
            "fmp4" | "mp4" => ["aac", "mp3", "ac3", "eac3", "opus", "flac", "alac"].contains(&codec.as_str()),
            "mpegts" => ["aac", "mp3", "mp2", "ac3", "eac3", "dts"].contains(&codec.as_str()),
            _ => true,
        };
        let wanted = match &profile.hls {
            Some(hls) if self.protocol == Protocol::Hls && !hls.audio.is_empty() => {
                listed(&hls.audio, &codec)
            }
            _ => profile.plays_audio(&codec),
        };
        holds && wanted
    }

    /// Adds what speaks against copying the picture into what goes out.
    pub(super) fn check_video(
        &self,
        profile: &ClientProfile,
        stream: &Stream,
        video: &Video,
        reasons: &mut Vec<Reason>,
        rules: &mut Rules,
    ) {
        if !reasons.is_empty() {
            return;
        }
        let carries = self.carries_video(profile, &stream.codec);
        let wanted = format!("a codec for {}", self.container);
        if !rules.holds("video_in_output", Some(stream.index), wanted, stream.codec.as_str(), carries) {
            reasons.push(Reason::VideoCodecNotSupported);
        }
        // A transport stream has no place for a rotation.
        if self.container == "mpegts" && video.rotation != 0 {
            let found = video.rotation.to_string();
            rules.holds("rotation_in_output", Some(stream.index), "0", found, false);
            reasons.push(Reason::VideoRotationNotSupported);
        }
    }

    /// Adds what speaks against copying the sound into what goes out.
    pub(super) fn check_audio(
        &self,
        profile: &ClientProfile,
        stream: &Stream,
        reasons: &mut Vec<Reason>,
        rules: &mut Rules,
    ) {
        if !reasons.is_empty() {
            return;
        }
        let carries = self.carries_audio(profile, &stream.codec);
        let wanted = format!("a codec for {}", self.container);
        if !rules.holds("audio_in_output", Some(stream.index), wanted, stream.codec.as_str(), carries) {
            reasons.push(Reason::AudioCodecNotSupported);
        }
    }
}
