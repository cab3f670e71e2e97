//! Where the chosen subtitles go. Text never costs a re-encode: it travels beside the film. Pictures
//! are burnt in only where the client cannot draw them.

use spindle_media::info::{Stream, Subtitle};

use super::{Action, Delivery, Protocol, Rules, SubtitleVerdict};
use crate::client::ClientProfile;
use crate::names;
use crate::reason::Reason;

/// Places the subtitles. `as_it_is` says whether the file could go out unchanged without them.
pub(super) fn place(
    profile: &ClientProfile,
    (stream, subtitle): (&Stream, &Subtitle),
    as_it_is: bool,
    has_picture: bool,
    rules: &mut Rules,
) -> SubtitleVerdict {
    let codec = names::codec(&stream.codec);
    let inside = subtitle.external.is_none();
    let takes = |format: &str, delivery: Delivery| {
        profile
            .subtitles
            .iter()
            .any(|s| s.delivery == delivery && names::codec_listed(std::slice::from_ref(&s.format), format))
    };
    let way = if inside && as_it_is && takes(&codec, Delivery::Embedded) {
        Some((Delivery::Embedded, codec.clone()))
    } else if subtitle.text && takes("webvtt", Delivery::External) {
        Some((Delivery::External, "webvtt".to_owned()))
    } else if takes(&codec, Delivery::External) {
        Some((Delivery::External, codec.clone()))
    } else if subtitle.text && takes("webvtt", Delivery::Hls) && profile.speaks(Protocol::Hls) && has_picture
    {
        Some((Delivery::Hls, "webvtt".to_owned()))
    } else {
        None
    };
    let n = Some(stream.index);
    rules.holds("subtitle_format", n, all(profile), codec.as_str(), way.is_some());
    let Some((delivery, format)) = way else {
        return cannot(stream.index, subtitle, inside && has_picture);
    };
    let needs_hls = as_it_is && delivery == Delivery::Hls;
    SubtitleVerdict {
        stream: stream.index,
        action: if format == codec { Action::Copy } else { Action::Encode },
        delivery: Some(delivery),
        format: Some(format),
        reasons: if needs_hls { vec![Reason::SubtitleNeedsHls] } else { Vec::new() },
    }
}

fn cannot(stream: u32, subtitle: &Subtitle, can_burn: bool) -> SubtitleVerdict {
    let (action, reason) = if !subtitle.text && can_burn {
        (Action::Burn, Reason::SubtitleBurnIn)
    } else {
        (Action::Drop, Reason::SubtitleFormatNotSupported)
    };
    SubtitleVerdict { stream, action, delivery: None, format: None, reasons: vec![reason] }
}

fn all(profile: &ClientProfile) -> String {
    let word = |d: Delivery| match d {
        Delivery::External => "external",
        Delivery::Hls => "hls",
        Delivery::Embedded => "embedded",
    };
    let one = |s: &crate::client::SubtitleSupport| format!("{} {}", word(s.delivery), s.format);
    profile.subtitles.iter().map(one).collect::<Vec<_>>().join(", ")
}
