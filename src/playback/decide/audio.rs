//! The sound against the client's limits, and what to encode it to.

use spindle_media::info::{Audio, Stream};

use super::output::Output;
use super::{Action, RuleVerdict, Rules, TrackVerdict};
use crate::client::ClientProfile;
use crate::names;
use crate::reason::Reason;

/// What speaks against sending the sound unchanged, in whatever container.
pub(super) fn check(
    profile: &ClientProfile,
    (stream, audio): (&Stream, &Audio),
    rules: &mut Rules,
) -> Vec<Reason> {
    let n = stream.index;
    let plays = profile.plays_audio(&stream.codec);
    if !rules.holds("audio_codec", Some(n), all_audio(profile), stream.codec.as_str(), plays) {
        return vec![Reason::AudioCodecNotSupported];
    }
    let Some(limit) = profile.audio_limit(&stream.codec) else { return Vec::new() };
    let mut against = Vec::new();
    let channels = Some(audio.channels).filter(|c| *c > 0);
    if !rules.at_most("audio_channels", n, limit.max_channels, channels) {
        against.push(Reason::AudioChannelsNotSupported);
    }
    let rate = Some(audio.sample_rate).filter(|r| *r > 0);
    if !rules.at_most("audio_sample_rate", n, limit.max_sample_rate, rate) {
        against.push(Reason::AudioSampleRateNotSupported);
    }
    if !limit.profiles.is_empty() {
        let wanted = limit.profiles.join(", ");
        let fits = match stream.profile.as_deref() {
            Some(found) => {
                let codec = names::codec(&stream.codec);
                let fits = names::profile_listed(&codec, &limit.profiles, found);
                rules.holds("audio_profile", Some(n), wanted, found, fits)
            }
            None => rules.note("audio_profile", Some(n), wanted, "unknown", RuleVerdict::Unknown),
        };
        if !fits {
            against.push(Reason::AudioProfileNotSupported);
        }
    }
    against
}

fn all_audio(profile: &ClientProfile) -> String {
    let named = profile.direct_play.iter().flat_map(|d| &d.audio);
    let limited = profile.audio.iter().map(|l| &l.codec);
    let mut all: Vec<String> = named.chain(limited).map(|c| names::codec(c)).collect();
    all.sort_unstable();
    all.dedup();
    all.join(", ")
}

/// The verdict that follows from the reasons.
pub(super) fn verdict(
    profile: &ClientProfile,
    out: &Output,
    (stream, audio): (&Stream, &Audio),
    mut reasons: Vec<Reason>,
    limit_bps: Option<u64>,
) -> TrackVerdict {
    reasons.sort_unstable();
    reasons.dedup();
    if reasons.is_empty() {
        return TrackVerdict {
            stream: stream.index,
            codec: stream.codec.clone(),
            codec_string: stream.codec_string.clone(),
            ..TrackVerdict::default()
        };
    }
    let (codec, mut channels) = target(profile, out, audio.channels);
    let mut bitrate_bps = bitrate(&codec, channels);
    // Under a tight limit two good channels sound better than six poor ones, and the picture needs
    // the rest.
    if limit_bps.is_some_and(|l| bitrate_bps > l / 4) && channels > 2 {
        channels = 2;
        bitrate_bps = bitrate(&codec, channels);
    }
    if limit_bps.is_some_and(|l| bitrate_bps > l / 4) {
        bitrate_bps = 96_000;
    }
    TrackVerdict {
        stream: stream.index,
        action: Action::Encode,
        channels: Some(channels),
        bitrate_bps: Some(bitrate_bps),
        sample_rate: Some(sample_rate(profile, &codec, audio.sample_rate)),
        codec,
        reasons,
        ..TrackVerdict::default()
    }
}

/// Channels that our encoders make of a codec.
fn encoder_channels(codec: &str) -> u32 {
    match codec {
        "mp3" => 2,
        "opus" | "flac" => 8,
        _ => 6,
    }
}

/// The codec that keeps the most channels; among equals the one that the profile names first.
/// A client that takes six channels of AC-3 and two of AAC gets AC-3 for a 5.1 track and AAC for
/// a stereo one.
fn target(profile: &ClientProfile, out: &Output, source_channels: u32) -> (String, u32) {
    let source = if source_channels == 0 { 2 } else { source_channels };
    let preferred: Vec<String> =
        profile.target.iter().flat_map(|t| &t.audio).map(|c| names::codec(c)).collect();
    let order = if preferred.is_empty() {
        ["aac", "ac3", "eac3", "mp3"].map(str::to_owned).to_vec()
    } else {
        preferred
    };
    let kept = |codec: &str| {
        let limit = profile.audio_limit(codec).and_then(|a| a.max_channels).unwrap_or(u32::MAX);
        source.min(limit).min(encoder_channels(codec)).max(1)
    };
    order
        .into_iter()
        .filter(|c| profile.plays_audio(c) && out.carries_audio(profile, c))
        .map(|c| {
            let kept = kept(&c);
            (c, kept)
        })
        // `max_by_key` takes the last of equals.
        .rev()
        .max_by_key(|(_, kept)| *kept)
        .unwrap_or_else(|| ("aac".to_owned(), source.min(2)))
}

/// Transparent for films: 96 kb/s a channel for AAC stereo, 64 for more; the rates that Dolby
/// decoders are certified with for AC-3.
fn bitrate(codec: &str, channels: u32) -> u64 {
    match (codec, channels) {
        ("ac3" | "eac3", 0..=2) => 192_000,
        ("ac3" | "eac3", _) => 448_000,
        (_, 0..=1) => 96_000,
        (_, 2) => 192_000,
        (_, n) => u64::from(n) * 64_000,
    }
}

fn sample_rate(profile: &ClientProfile, codec: &str, source: u32) -> u32 {
    let limit = profile.audio_limit(codec).and_then(|a| a.max_sample_rate).unwrap_or(48_000);
    // Multiples of 44.1 kHz stay in their family; everything else becomes what films have.
    let natural = if source > 0 && source.is_multiple_of(44_100) { 44_100 } else { 48_000 };
    [natural, 44_100, 32_000].into_iter().find(|r| *r <= limit).unwrap_or(natural)
}
