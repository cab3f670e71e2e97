//! The sound against the client's limits, and what to encode it to.

use spindle_media::info::{Audio, Stream};

use super::output::Output;
use super::rule::{RuleVerdict, Rules};
use super::{Action, TrackVerdict};
use crate::compiled::{AudioRow, Compiled};
use crate::names;
use crate::reason::Reason;

/// Codecs that the worker encodes to.
const ENCODED: [&str; 5] = ["aac", "ac3", "eac3", "opus", "flac"];

/// What speaks against sending the sound unchanged, in whatever container.
pub(super) fn check(
    profile: &Compiled,
    (stream, audio): (&Stream, &Audio),
    rules: &mut Rules,
) -> Vec<Reason> {
    let n = stream.index;
    let codec = names::codec(&stream.codec);
    let plays = profile.plays_audio(&codec);
    if !rules.must(
        Reason::AudioCodecNotSupported,
        "audio_codec",
        Some(n),
        &profile.words.audio,
        stream.codec.clone(),
        plays,
    ) {
        return vec![Reason::AudioCodecNotSupported];
    }
    let mut best: Option<(Vec<Reason>, Rules)> = None;
    for row in profile.audio_rows(&codec) {
        let mut held = Rules::default();
        let against = check_row(row, &codec, stream, audio, &mut held);
        if best.as_ref().is_none_or(|(least, _)| against.len() < least.len()) {
            let fits = against.is_empty();
            best = Some((against, held));
            if fits {
                break;
            }
        }
    }
    let Some((against, held)) = best else { return Vec::new() };
    rules.append(held);
    against
}

fn check_row(row: &AudioRow, codec: &str, stream: &Stream, audio: &Audio, rules: &mut Rules) -> Vec<Reason> {
    let (n, limit) = (stream.index, &row.limit);
    let mut against = Vec::new();
    let mut must = |holds: bool, reason| {
        if !holds {
            against.push(reason);
        }
    };
    let known = |x: u32| Some(x).filter(|x| *x > 0);
    let r = Reason::AudioChannelsNotSupported;
    must(rules.at_most(r, "audio_channels", n, limit.max_channels, known(audio.channels)), r);
    let r = Reason::AudioSampleRateNotSupported;
    must(rules.at_most(r, "audio_sample_rate", n, limit.max_sample_rate, known(audio.sample_rate)), r);
    let r = Reason::AudioBitDepthNotSupported;
    must(rules.at_most(r, "audio_bit_depth", n, limit.max_bit_depth, audio.bit_depth), r);
    let r = Reason::AudioBitrateNotSupported;
    must(rules.at_most(r, "audio_bitrate", n, limit.max_bitrate, stream.bitrate_bps), r);
    if !row.profiles.is_empty() {
        match stream.profile.as_deref() {
            Some(found) => {
                let r = Reason::AudioProfileNotSupported;
                let fits = names::profile_listed(codec, &row.profiles, &names::bare(found));
                let found = found.to_owned();
                must(rules.must(r, "audio_profile", Some(n), &row.profile_words, found, fits), r);
            }
            None => {
                rules.note("audio_profile", Some(n), &row.profile_words, "unknown", RuleVerdict::Unknown);
            }
        }
    }
    against
}

/// The verdict that follows from the reasons.
pub(super) fn verdict(
    profile: &Compiled,
    out: &Output,
    (stream, audio): (&Stream, &Audio),
    mut reasons: Vec<Reason>,
    limit_bps: Option<u64>,
    rules: &mut Rules,
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
    let (codec, mut channels) = match target(profile, out, audio.channels) {
        Some(target) => target,
        None => {
            let r = Reason::NoCommonFormat;
            rules.must(
                r,
                "audio_target",
                Some(stream.index),
                &profile.words.audio,
                ENCODED.join(", "),
                false,
            );
            reasons.push(r);
            ("aac".to_owned(), 2)
        }
    };
    if audio.objects {
        rules.note("sound_objects", Some(stream.index), "kept", "lost by encoding", RuleVerdict::Note);
    }
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
    if channels < audio.channels {
        rules.note(
            "channels_kept",
            Some(stream.index),
            audio.channels.to_string(),
            channels.to_string(),
            RuleVerdict::Note,
        );
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
        "opus" | "flac" => 8,
        _ => 6,
    }
}

/// The codec that keeps the most channels; among equals the one that the profile names first.
/// A client that takes six channels of AC-3 and two of AAC gets AC-3 for a 5.1 track and AAC for
/// a stereo one.
fn target(profile: &Compiled, out: &Output, source_channels: u32) -> Option<(String, u32)> {
    let source = if source_channels == 0 { 2 } else { source_channels };
    let usual = ["aac", "ac3", "eac3", "opus", "flac"];
    let order: Vec<&str> = if profile.target_audio.is_empty() {
        usual.to_vec()
    } else {
        let named = profile.target_audio.iter().map(String::as_str);
        // What the profile prefers may not travel in what goes out: then something else does.
        named.chain(usual).collect()
    };
    let kept = |codec: &str| {
        let limits = profile.audio_rows(codec).filter_map(|a| a.limit.max_channels);
        let limit = limits.max().unwrap_or(u32::MAX);
        source.min(limit).min(encoder_channels(codec)).max(1)
    };
    let named = profile.target_audio.len();
    let usable = |(_, c): &(usize, &str)| ENCODED.contains(c) && out.carries_audio(profile, c);
    order
        .into_iter()
        .enumerate()
        .filter(usable)
        .map(|(at, codec)| (at < named || named == 0, kept(codec), codec))
        // `max_by_key` takes the last of equals.
        .rev()
        .max_by_key(|(preferred, kept, _)| (*preferred, *kept))
        .map(|(_, kept, codec)| (codec.to_owned(), kept))
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

fn sample_rate(profile: &Compiled, codec: &str, source: u32) -> u32 {
    let limit = profile.audio_rows(codec).filter_map(|a| a.limit.max_sample_rate).max().unwrap_or(48_000);
    // Multiples of 44.1 kHz stay in their family; everything else becomes what films have.
    let natural = if source > 0 && source.is_multiple_of(44_100) { 44_100 } else { 48_000 };
    [natural, 44_100, 32_000].into_iter().find(|r| *r <= limit).unwrap_or(natural)
}
