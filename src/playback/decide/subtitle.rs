//! Where the chosen subtitles go. Text never costs a re-encode: it travels beside the film. Pictures
//! are burnt in only where the client cannot draw them.

use spindle_media::info::{Stream, Subtitle};

use super::rule::Rules;
use super::{Action, Delivery, SubtitleVerdict};
use crate::compiled::Compiled;
use crate::names;
use crate::reason::Reason;

/// Places the subtitles. `as_it_is` says whether the file could go out unchanged without them.
///
/// In order: inside the file that goes out whole; beside it as ASS for a client that names ASS before WebVTT;
/// beside it as WebVTT; beside it as they are; in the playlist; burnt in, for pictures inside the file; else
/// dropped.
pub(super) fn place(
    profile: &Compiled,
    (stream, subtitle): (&Stream, &Subtitle),
    as_it_is: bool,
    has_picture: bool,
    rules: &mut Rules,
) -> SubtitleVerdict {
    let codec = names::codec(&stream.codec);
    let inside = subtitle.external.is_none();
    let takes = |format: &str, delivery: Delivery| {
        profile.subtitles.iter().any(|(formats, way)| *way == delivery && formats.has(format))
    };
    // VobSub beside a film is two files, which nobody puts together.
    let one_file = inside || codec != "dvd_subtitle";
    let webvtt = || "webvtt".to_owned();
    let way = if inside && as_it_is && takes(&codec, Delivery::Embedded) {
        Some((Delivery::Embedded, codec.to_string()))
    } else if codec == "ass" && prefers_ass(profile) {
        Some((Delivery::External, codec.to_string()))
    } else if subtitle.text && takes("webvtt", Delivery::External) {
        Some((Delivery::External, webvtt()))
    } else if one_file && takes(&codec, Delivery::External) {
        Some((Delivery::External, codec.to_string()))
    } else if subtitle.text && takes("webvtt", Delivery::Hls) && profile.hls && has_picture {
        Some((Delivery::Hls, webvtt()))
    } else {
        None
    };
    let n = stream.index;
    let reason = if !subtitle.text && inside && has_picture {
        Reason::SubtitleBurnIn
    } else {
        Reason::SubtitleFormatNotSupported
    };
    let found = codec.to_string();
    rules.must(reason, "subtitle_format", Some(n), &profile.words.subtitles, found, way.is_some());
    let Some((delivery, format)) = way else {
        let action = if reason == Reason::SubtitleBurnIn { Action::Burn } else { Action::Drop };
        return SubtitleVerdict { stream: n, action, delivery: None, format: None, reasons: vec![reason] };
    };
    let needs_hls = as_it_is && delivery == Delivery::Hls;
    if needs_hls {
        let r = Reason::SubtitleNeedsHls;
        rules.must(r, "subtitle_delivery", Some(n), "in a playlist", "in a file", false);
    }
    SubtitleVerdict {
        stream: n,
        action: if format == codec { Action::Copy } else { Action::Encode },
        delivery: Some(delivery),
        format: Some(format),
        reasons: if needs_hls { vec![Reason::SubtitleNeedsHls] } else { Vec::new() },
    }
}

/// Whether the client takes ASS as it is, and would rather have that than its words alone.
fn prefers_ass(profile: &Compiled) -> bool {
    let external = profile.subtitles.iter().filter(|(_, way)| *way == Delivery::External);
    let first = external.map(|(formats, _)| formats).find(|f| f.has("ass") || f.has("webvtt"));
    first.is_some_and(|formats| formats.has("ass"))
}
