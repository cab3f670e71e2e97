//! The picture against the client's limits, and what to encode it to.

use spindle_media::info::{Audio, Hdr, Stream, Video};

use super::{Action, RuleVerdict, Rules, TrackVerdict, output};
use crate::client::{ClientProfile, VideoLimit};
use crate::names;
use crate::reason::Reason;

/// Pictures a second above a limit that rounding explains: 59.94 is written as 60 and back.
const FPS_SLACK: f64 = 0.05;

/// What speaks against sending the picture unchanged, in whatever container.
pub(super) fn check(
    profile: &ClientProfile,
    (stream, video): (&Stream, &Video),
    rules: &mut Rules,
) -> Vec<Reason> {
    let n = stream.index;
    let mut against = Vec::new();
    let plays = profile.plays_video(&stream.codec);
    if !rules.holds("video_codec", Some(n), all_video(profile), stream.codec.as_str(), plays) {
        against.push(Reason::VideoCodecNotSupported);
        // Limits of a codec that is not played at all would only add noise.
        return against;
    }
    let limit = profile.video_limit(&stream.codec);
    let mut must = |holds: bool, reason| {
        if !holds {
            against.push(reason);
        }
    };
    must(range_fits(limit, n, video.hdr, rules), Reason::VideoRangeNotSupported);
    let Some(limit) = limit else { return against };

    must(profile_fits(limit, stream, rules), Reason::VideoProfileNotSupported);
    must(rules.at_most("video_level", n, limit.max_level, video.level), Reason::VideoLevelNotSupported);
    must(
        rules.at_most("video_bit_depth", n, limit.max_bit_depth, video.bit_depth),
        Reason::VideoBitDepthNotSupported,
    );
    must(size_fits(limit, n, video, rules), Reason::VideoResolutionNotSupported);
    let max_fps = limit.max_fps.map(|f| f + FPS_SLACK);
    must(rules.at_most("video_framerate", n, max_fps, video.fps), Reason::VideoFramerateNotSupported);
    must(
        rules.at_most("video_bitrate", n, limit.max_bitrate, stream.bitrate_bps),
        Reason::VideoBitrateNotSupported,
    );
    must(
        rules.at_most("ref_frames", n, limit.max_ref_frames, video.ref_frames),
        Reason::RefFramesNotSupported,
    );
    if video.interlaced {
        must(
            rules.holds("interlaced", Some(n), said(limit.interlaced), "interlaced", limit.interlaced),
            Reason::InterlacedVideoNotSupported,
        );
    }
    if let Some([w, h]) = video.anamorphic() {
        must(
            rules.holds(
                "sample_aspect",
                Some(n),
                if limit.anamorphic { "any" } else { "1:1" },
                format!("{w}:{h}"),
                limit.anamorphic,
            ),
            Reason::AnamorphicVideoNotSupported,
        );
    }
    if video.rotation != 0 {
        must(
            rules.holds(
                "rotation",
                Some(n),
                if limit.rotation { "any" } else { "0" },
                video.rotation.to_string(),
                limit.rotation,
            ),
            Reason::VideoRotationNotSupported,
        );
    }
    against
}

fn said(yes: bool) -> &'static str {
    if yes { "interlaced or progressive" } else { "progressive" }
}

fn all_video(profile: &ClientProfile) -> String {
    let named = profile.direct_play.iter().flat_map(|d| &d.video);
    let limited = profile.video.iter().map(|l| &l.codec);
    let mut all: Vec<String> = named.chain(limited).map(|c| names::codec(c)).collect();
    all.sort_unstable();
    all.dedup();
    all.join(", ")
}

fn profile_fits(limit: &VideoLimit, stream: &Stream, rules: &mut Rules) -> bool {
    if limit.profiles.is_empty() {
        return true;
    }
    let wanted = limit.profiles.join(", ");
    match stream.profile.as_deref() {
        Some(found) => {
            let fits = names::profile_listed(&names::codec(&stream.codec), &limit.profiles, found);
            rules.holds("video_profile", Some(stream.index), wanted, found, fits)
        }
        None => rules.note("video_profile", Some(stream.index), wanted, "unknown", RuleVerdict::Unknown),
    }
}

fn size_fits(limit: &VideoLimit, n: u32, video: &Video, rules: &mut Rules) -> bool {
    let (max_w, max_h) = match (limit.max_width, limit.max_height) {
        (None, None) => return true,
        (w, h) => (w.unwrap_or(u32::MAX), h.unwrap_or(u32::MAX)),
    };
    let (w, h) = (video.width, video.height);
    // Decoders are limited by the number of blocks: an upright 1080x1920 is no more than 1920x1080.
    let fits = (w <= max_w && h <= max_h) || (h <= max_w && w <= max_h);
    let one = |n: u32| if n == u32::MAX { "any".to_owned() } else { n.to_string() };
    let wanted = format!("at most {}x{}", one(max_w), one(max_h));
    rules.holds("video_resolution", Some(n), wanted, format!("{w}x{h}"), fits)
}

fn range_fits(limit: Option<&VideoLimit>, n: u32, found: Hdr, rules: &mut Rules) -> bool {
    if found == Hdr::Unknown {
        let wanted = limit.map_or_else(|| "any".to_owned(), |l| ranges(&l.hdr));
        return rules.note("video_range", Some(n), wanted, "unknown", RuleVerdict::Unknown);
    }
    if found == Hdr::Sdr {
        return true;
    }
    let (wanted, fits) = match limit {
        // Profile 5 has no picture that another player could show: it must be asked for by name,
        // also where everything else is taken.
        None => ("any but dv5".to_owned(), found != Hdr::Dv5),
        Some(limit) => (ranges(&limit.hdr), covers(&limit.hdr, found)),
    };
    rules.holds("video_range", Some(n), wanted, word(found), fits)
}

/// Whether a client of these ranges shows `found` in right colours: by itself or by its base layer.
pub(super) fn covers(listed: &[Hdr], found: Hdr) -> bool {
    let any = |of: &[Hdr]| of.iter().any(|h| listed.contains(h));
    match found {
        Hdr::Sdr | Hdr::Unknown | Hdr::DvSdr => true,
        Hdr::Hdr10 | Hdr::Hdr10Plus => any(&[Hdr::Hdr10, Hdr::Hdr10Plus]),
        Hdr::DvHdr10 => any(&[Hdr::DvHdr10, Hdr::Hdr10, Hdr::Hdr10Plus]),
        Hdr::Dv7 => any(&[Hdr::Dv7, Hdr::Hdr10, Hdr::Hdr10Plus]),
        Hdr::Hlg => any(&[Hdr::Hlg]),
        Hdr::DvHlg => any(&[Hdr::DvHlg, Hdr::Hlg]),
        Hdr::Dv5 => any(&[Hdr::Dv5]),
    }
}

fn ranges(listed: &[Hdr]) -> String {
    let mut out = "sdr".to_owned();
    for h in listed {
        out.push_str(", ");
        out.push_str(word(*h));
    }
    out
}

fn word(hdr: Hdr) -> &'static str {
    match hdr {
        Hdr::Unknown => "unknown",
        Hdr::Sdr => "sdr",
        Hdr::Hdr10 => "hdr10",
        Hdr::Hdr10Plus => "hdr10_plus",
        Hdr::Hlg => "hlg",
        Hdr::Dv5 => "dv5",
        Hdr::DvHdr10 => "dv_hdr10",
        Hdr::DvHlg => "dv_hlg",
        Hdr::DvSdr => "dv_sdr",
        Hdr::Dv7 => "dv7",
    }
}

/// The verdict that follows from the reasons.
pub(super) fn verdict(
    profile: &ClientProfile,
    (stream, video): (&Stream, &Video),
    mut reasons: Vec<Reason>,
    limit_bps: Option<u64>,
    audio_out: Option<&TrackVerdict>,
    audio_in: Option<(&Stream, &Audio)>,
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
    let codec = target_codec(profile);
    let limit = profile.video_limit(&codec);
    let audio_bps = audio_out
        .and_then(|a| a.bitrate_bps)
        .or_else(|| audio_in.and_then(|(s, _)| s.bitrate_bps))
        .unwrap_or(0);
    // What the sound leaves; 64 kb/s still shows something.
    let left_bps = limit_bps.map(|l| l.saturating_sub(audio_bps).max(64_000));
    let max_bitrate_bps = [left_bps, limit.and_then(|l| l.max_bitrate)].into_iter().flatten().min();
    let (by_rate_w, by_rate_h) = max_bitrate_bps.map_or((u32::MAX, u32::MAX), size_for);
    let within = |limit: Option<u32>, source: u32, by_rate: u32| {
        Some(limit.unwrap_or(u32::MAX).min(source).min(by_rate)).filter(|n| *n > 0)
    };
    TrackVerdict {
        stream: stream.index,
        action: Action::Encode,
        max_width: within(limit.and_then(|l| l.max_width), video.width, by_rate_w),
        max_height: within(limit.and_then(|l| l.max_height), video.height, by_rate_h),
        max_fps: Some(limit.and_then(|l| l.max_fps).unwrap_or(output::MAX_ENCODED_FPS)),
        max_bitrate_bps,
        profile: Some(target_profile(&codec, limit)),
        max_level: limit.and_then(|l| l.max_level),
        tone_map: !matches!(video.hdr, Hdr::Sdr | Hdr::Unknown | Hdr::DvSdr),
        deinterlace: video.interlaced,
        codec,
        reasons,
        ..TrackVerdict::default()
    }
}

/// H.264 unless the client does not take it: every worker has an encoder for it, and every other
/// codec costs several times as much.
fn target_codec(profile: &ClientProfile) -> String {
    let preferred = profile.target.iter().flat_map(|t| &t.video).map(|c| names::codec(c));
    preferred
        .chain(["h264", "hevc", "vp9", "av1"].map(str::to_owned))
        .find(|c| profile.plays_video(c))
        .unwrap_or_else(|| "h264".to_owned())
}

fn target_profile(codec: &str, limit: Option<&VideoLimit>) -> String {
    let named = limit.map_or(&[][..], |l| &l.profiles);
    let takes = |p: &str| named.is_empty() || names::profile_listed(codec, named, p);
    match codec {
        "h264" if takes("High") => "High",
        "h264" if takes("Main") => "Main",
        "h264" => "Constrained Baseline",
        "vp9" => "Profile 0",
        _ => "Main",
    }
    .to_owned()
}

/// The largest picture that a bitrate still fills without blocks, from the ladders that services
/// publish for H.264.
fn size_for(bps: u64) -> (u32, u32) {
    match bps {
        0..700_000 => (640, 360),
        700_000..1_500_000 => (854, 480),
        1_500_000..4_000_000 => (1280, 720),
        4_000_000..16_000_000 => (1920, 1080),
        _ => (u32::MAX, u32::MAX),
    }
}
