//! The picture against the client's limits, and what to encode it to.

use spindle_media::info::{Audio, Hdr, MediaInfo, Stream, Video};

use super::output::Output;
use super::rule::{RuleVerdict, Rules, Text};
use super::{Action, TrackVerdict, output};
use crate::client::Range;
use crate::compiled::{Compiled, VideoRow};
use crate::names;
use crate::reason::Reason;

/// Codecs that the worker encodes to.
const ENCODED: [&str; 2] = ["h264", "hevc"];
/// No larger picture is encoded: whatever shows more decodes what it comes in, and no processor keeps up.
const MAX_ENCODED: (u32, u32) = (1920, 1080);
/// What such a picture needs at 60 a second (ITU-T H.264 table A-1).
const MAX_ENCODED_LEVEL: u32 = 42;
/// Pictures a second above a limit that rounding explains: 59.94 is written as 60 and back.
const FPS_SLACK: f64 = 0.05;

/// What speaks against sending the picture unchanged, in whatever container.
pub(super) fn check(
    profile: &Compiled,
    (stream, video): (&Stream, &Video),
    file: &MediaInfo,
    rules: &mut Rules,
) -> Vec<Reason> {
    let codec = names::codec(&stream.codec);
    let plays = profile.plays_video(&codec);
    let r = Reason::VideoCodecNotSupported;
    if !rules.must(r, "video_codec", Some(stream.index), &profile.words.video, stream.codec.clone(), plays) {
        // Limits of a codec that is not played at all would only add noise.
        return vec![r];
    }
    let found = stream.profile.as_deref().map(names::bare);
    let mut best: Option<(Vec<Reason>, Rules)> = None;
    for row in profile.video_rows(&codec) {
        let mut held = Rules::default();
        let against = Picture { stream, video, file, profile: found.as_deref() }.held_to(row, &mut held);
        if best.as_ref().is_none_or(|(least, _)| against.len() < least.len()) {
            let fits = against.is_empty();
            best = Some((against, held));
            if fits {
                break;
            }
        }
    }
    let Some((against, held)) = best else {
        return unlimited(stream.index, video, rules);
    };
    rules.append(held);
    against
}

/// A codec without limits takes every picture but one that has no base to show: that must be asked
/// for by name, also where everything else is taken.
fn unlimited(n: u32, video: &Video, rules: &mut Rules) -> Vec<Reason> {
    if matches!(video.hdr, Hdr::Sdr | Hdr::Unknown) {
        return Vec::new();
    }
    let r = Reason::VideoRangeNotSupported;
    let fits = !matches!(video.hdr, Hdr::Dv5 | Hdr::DvInvalid);
    if rules.must(r, "video_range", Some(n), "any with a base", video.hdr.word(), fits) {
        Vec::new()
    } else {
        vec![r]
    }
}

struct Picture<'a> {
    stream: &'a Stream,
    video: &'a Video,
    file: &'a MediaInfo,
    profile: Option<&'a str>,
}

impl Picture<'_> {
    fn held_to(&self, row: &VideoRow, rules: &mut Rules) -> Vec<Reason> {
        let (stream, video, limit) = (self.stream, self.video, &row.limit);
        let n = stream.index;
        let mut against = Vec::new();
        let mut must = |holds: bool, reason| {
            if !holds {
                against.push(reason);
            }
        };
        must(self.range_fits(row, rules), Reason::VideoRangeNotSupported);
        must(self.profile_fits(row, rules), Reason::VideoProfileNotSupported);
        let r = Reason::VideoLevelNotSupported;
        must(rules.at_most(r, "video_level", n, limit.max_level, video.level), r);
        let r = Reason::VideoBitDepthNotSupported;
        must(rules.at_most(r, "video_bit_depth", n, limit.max_bit_depth, video.bit_depth), r);
        must(self.size_fits(row, rules), Reason::VideoResolutionNotSupported);
        must(self.pace_fits(row, rules), Reason::VideoFramerateNotSupported);
        let r = Reason::VideoBitrateNotSupported;
        if limit.max_bitrate.is_some() {
            let found = output::video_bps(self.file, stream);
            must(rules.at_most(r, "video_bitrate", n, limit.max_bitrate, found), r);
        }
        let r = Reason::RefFramesNotSupported;
        must(rules.at_most(r, "ref_frames", n, limit.max_ref_frames, video.ref_frames), r);
        if video.interlaced {
            let r = Reason::InterlacedVideoNotSupported;
            let wanted = if limit.interlaced { "interlaced or progressive" } else { "progressive" };
            must(rules.must(r, "interlaced", Some(n), wanted, "interlaced", limit.interlaced), r);
        }
        if let Some([w, h]) = video.anamorphic() {
            let r = Reason::AnamorphicVideoNotSupported;
            let wanted = if limit.anamorphic { "any" } else { "1:1" };
            must(rules.must(r, "sample_aspect", Some(n), wanted, format!("{w}:{h}"), limit.anamorphic), r);
        }
        if video.rotation != 0 {
            let r = Reason::VideoRotationNotSupported;
            let wanted = if limit.rotation { "any" } else { "0" };
            let found = Text::Number(video.rotation.into());
            must(rules.must(r, "rotation", Some(n), wanted, found, limit.rotation), r);
        }
        against
    }

    fn profile_fits(&self, row: &VideoRow, rules: &mut Rules) -> bool {
        if row.profiles.is_empty() {
            return true;
        }
        let n = Some(self.stream.index);
        match (self.profile, self.stream.profile.as_ref()) {
            (Some(bare), Some(found)) => {
                let fits = names::profile_listed(&row.codec, &row.profiles, bare);
                let r = Reason::VideoProfileNotSupported;
                rules.must(r, "video_profile", n, &row.profile_words, found.clone(), fits)
            }
            _ => {
                rules.note("video_profile", n, &row.profile_words, "unknown", RuleVerdict::Unknown);
                true
            }
        }
    }

    fn size_fits(&self, row: &VideoRow, rules: &mut Rules) -> bool {
        let Some(words) = &row.size_words else { return true };
        let max_w = row.limit.max_width.unwrap_or(u32::MAX);
        let max_h = row.limit.max_height.unwrap_or(u32::MAX);
        let (w, h) = (self.video.width, self.video.height);
        // Decoders are limited by the number of blocks: an upright 1080x1920 is no more than 1920x1080.
        let fits = (w <= max_w && h <= max_h) || (h <= max_w && w <= max_h);
        let r = Reason::VideoResolutionNotSupported;
        rules.must(r, "video_resolution", Some(self.stream.index), words, Text::Size(w, h), fits)
    }

    fn pace_fits(&self, row: &VideoRow, rules: &mut Rules) -> bool {
        let Some(limit) = row.limit.max_fps else { return true };
        let n = Some(self.stream.index);
        match self.video.fps {
            Some(fps) => {
                let fits = fps <= limit + FPS_SLACK;
                let found = Text::Decimal((fps * 1_000.0).round() / 1_000.0);
                let r = Reason::VideoFramerateNotSupported;
                rules.must(r, "video_framerate", n, Text::AtMostDecimal(limit), found, fits)
            }
            None => {
                rules.note("video_framerate", n, Text::AtMostDecimal(limit), "unknown", RuleVerdict::Unknown);
                true
            }
        }
    }

    fn range_fits(&self, row: &VideoRow, rules: &mut Rules) -> bool {
        let n = Some(self.stream.index);
        let found = self.video.hdr;
        match found {
            Hdr::Sdr => return true,
            Hdr::Unknown => {
                rules.note("video_range", n, &row.range_words, "unknown", RuleVerdict::Unknown);
                return true;
            }
            _ => {}
        }
        let r = Reason::VideoRangeNotSupported;
        match shown(&row.limit.hdr, self.video, row.limit.max_dv_level) {
            Shown::Whole => rules.must(r, "video_range", n, &row.range_words, found.word(), true),
            Shown::Base(base) => {
                let found = format!("{}, shown as {base}", found.word());
                rules.note("video_range", n, &row.range_words, found, RuleVerdict::Note);
                true
            }
            Shown::No => rules.must(r, "video_range", n, &row.range_words, found.word(), false),
        }
    }
}

/// How a client shows a dynamic range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    /// As it is meant.
    Whole,
    /// By the base layer, in right colours, without what lies over it.
    Base(&'static str),
    /// Not in right colours.
    No,
}

/// How a client of these ranges shows a picture: by itself, by its base layer, or not.
pub(super) fn shown(listed: &[Range], video: &Video, max_dv_level: Option<u8>) -> Shown {
    use Range::{Dv, Dv5, Dv7, Dv8, Dv10, DvHdr10, DvHlg, DvSdr, Hdr10, Hdr10Plus, Hlg};
    let any = |of: &[Range]| of.iter().any(|r| listed.contains(r));
    let level_fits = video.dv_level.zip(max_dv_level).is_none_or(|(found, limit)| found <= limit);
    let dolby = |of: &[Range]| level_fits && (any(&[Dv]) || any(of));
    // Profile 10 is AV1's; 8 is what everybody else has over a base.
    let over_base = if video.dv_profile == Some(10) { Dv10 } else { Dv8 };
    let pq_base = |plus: bool| match (any(&[Hdr10Plus]), any(&[Hdr10])) {
        (true, _) => Shown::Base(if plus { "hdr10_plus" } else { "hdr10" }),
        (false, true) => Shown::Base("hdr10"),
        _ => Shown::No,
    };
    let whole_or = |whole: bool, base: Shown| if whole { Shown::Whole } else { base };
    match video.hdr {
        Hdr::Sdr | Hdr::Unknown => Shown::Whole,
        Hdr::Hdr10 => whole_or(any(&[Hdr10, Hdr10Plus]), Shown::No),
        Hdr::Hdr10Plus => whole_or(any(&[Hdr10Plus]), pq_base(false)),
        Hdr::Hlg => whole_or(any(&[Hlg]), Shown::No),
        Hdr::Dv5 if video.dv_profile == Some(10) => whole_or(dolby(&[Dv10]), Shown::No),
        Hdr::Dv5 => whole_or(dolby(&[Dv5]), Shown::No),
        Hdr::DvHdr10 => whole_or(dolby(&[over_base, DvHdr10]), pq_base(false)),
        Hdr::DvHdr10Plus => whole_or(dolby(&[over_base, DvHdr10]), pq_base(true)),
        Hdr::Dv7 => whole_or(dolby(&[Dv7]), pq_base(false)),
        Hdr::Dv7Hdr10Plus => whole_or(dolby(&[Dv7]), pq_base(true)),
        Hdr::DvHlg => whole_or(dolby(&[over_base, DvHlg]), whole_or(any(&[Hlg]), Shown::No).as_base("hlg")),
        Hdr::DvSdr => whole_or(dolby(&[over_base, DvSdr]), Shown::Base("sdr")),
        Hdr::DvInvalid => whole_or(dolby(&[]), Shown::No),
    }
}

impl Shown {
    fn as_base(self, base: &'static str) -> Self {
        if self == Self::Whole { Self::Base(base) } else { self }
    }
}

/// The verdict that follows from the reasons.
#[expect(clippy::too_many_arguments, reason = "the picture is encoded within everything else's limits")]
pub(super) fn verdict(
    profile: &Compiled,
    out: &Output,
    (stream, video): (&Stream, &Video),
    mut reasons: Vec<Reason>,
    limit_bps: Option<u64>,
    audio_out: Option<&TrackVerdict>,
    audio_in: Option<(&Stream, &Audio)>,
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
    let n = Some(stream.index);
    let codec = target_codec(profile, out).unwrap_or_else(|| {
        let r = Reason::NoCommonFormat;
        rules.must(r, "video_target", n, &profile.words.video, ENCODED.join(", "), false);
        reasons.push(r);
        "h264".to_owned()
    });
    // Its colours are nobody's but Dolby's, and the matrix back is in the metadata of each picture.
    if matches!(video.hdr, Hdr::Dv5 | Hdr::DvInvalid) {
        let r = Reason::DolbyVisionNotConvertible;
        rules.must(r, "tone_map", n, "a base layer", video.hdr.word(), false);
        reasons.push(r);
    }
    let (shown_w, shown_h) = video.shown_size();
    let upright = shown_h > shown_w;
    let row = target_row(profile, &codec, video);
    let limit = row.map(|r| &r.limit);
    let audio_bps = audio_out
        .and_then(|a| a.bitrate_bps)
        .or_else(|| audio_in.and_then(|(s, _)| s.bitrate_bps))
        .unwrap_or(0);
    // What the sound leaves; 64 kb/s still shows something.
    let left_bps = limit_bps.map(|l| l.saturating_sub(audio_bps).max(64_000));
    let max_bitrate_bps = [left_bps, limit.and_then(|l| l.max_bitrate)].into_iter().flatten().min();
    let by_rate = max_bitrate_bps.map_or((u32::MAX, u32::MAX), size_for);
    let across = limit.and_then(|l| l.max_width).unwrap_or(u32::MAX).min(by_rate.0).min(MAX_ENCODED.0);
    let down = limit.and_then(|l| l.max_height).unwrap_or(u32::MAX).min(by_rate.1).min(MAX_ENCODED.1);
    // Limits are those of a lying picture; a telephone's stands.
    let (max_w, max_h) = if upright { (down, across) } else { (across, down) };
    let within = |limit: u32, source: u32| Some(limit.min(source)).filter(|n| *n > 0);
    TrackVerdict {
        stream: stream.index,
        action: Action::Encode,
        max_width: within(max_w, shown_w),
        max_height: within(max_h, shown_h),
        max_fps: Some(limit.and_then(|l| l.max_fps).unwrap_or(output::MAX_ENCODED_FPS)),
        max_bitrate_bps,
        profile: Some(target_profile(&codec, row)),
        max_level: limit
            .and_then(|l| l.max_level)
            .filter(|_| codec == "h264")
            .map(|l| l.min(MAX_ENCODED_LEVEL)),
        tone_map: !matches!(video.hdr, Hdr::Sdr | Hdr::Unknown | Hdr::DvSdr),
        deinterlace: video.interlaced,
        codec,
        reasons,
        ..TrackVerdict::default()
    }
}

/// The first codec of the profile's that the worker encodes and that may travel in what goes out.
fn target_codec(profile: &Compiled, out: &Output) -> Option<String> {
    let preferred = profile.target_video.iter().map(String::as_str);
    preferred.chain(ENCODED).find(|c| ENCODED.contains(c) && out.carries_video(profile, c)).map(str::to_owned)
}

/// The alternative in which most of the picture is left: pixels and pictures a second.
fn target_row<'a>(profile: &'a Compiled, codec: &'a str, video: &Video) -> Option<&'a VideoRow> {
    let (w, h) = video.shown_size();
    let (w, h) = (f64::from(w.max(h).max(1)), f64::from(w.min(h).max(1)));
    let kept = |row: &VideoRow| {
        let side = |limit: Option<u32>, is: f64| limit.map_or(1.0, |l| (f64::from(l) / is).min(1.0));
        let scale = side(row.limit.max_width, w).min(side(row.limit.max_height, h));
        let pace = match (row.limit.max_fps, video.fps) {
            (Some(limit), Some(fps)) if fps > 0.0 => (limit / fps).min(1.0),
            _ => 1.0,
        };
        scale * scale * pace
    };
    let mut best: Option<(&VideoRow, f64)> = None;
    for row in profile.video_rows(codec) {
        let score = kept(row);
        if best.is_none_or(|(_, most)| score > most) {
            best = Some((row, score));
        }
    }
    best.map(|(row, _)| row)
}

fn target_profile(codec: &str, row: Option<&VideoRow>) -> String {
    let named = row.map_or(&[][..], |r| &r.profiles);
    let takes = |p: &str| named.is_empty() || names::profile_listed(codec, named, p);
    match codec {
        "h264" if takes("high") => "High",
        "h264" if takes("main") => "Main",
        "h264" => "Constrained Baseline",
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
