//! The three kinds of playlist: what there is, its segments, its subtitles.

use spindle_media::info::{Stream, Video};
use spindle_media::m3u8::{self, MediaPlaylist, SubtitleRendition, Variant, VideoRange};
use spindle_playback::{Action, TrackVerdict};
use spindle_transcode::Container;

use super::{extension, playlist_reply};
use crate::delivery::problem::Problem;
use crate::delivery::reply::Reply;
use crate::sessions::Session;

/// The multivariant playlist: one variant, as the decision made it, and the text subtitles.
pub(super) fn master(session: &Session) -> Reply {
    let decision = &session.decision;
    let codecs: Option<Vec<&str>> = [&decision.video, &decision.audio]
        .into_iter()
        .flatten()
        .filter(|t| t.action != Action::Drop)
        .map(codec_string)
        .collect();
    let video = session.main_video();
    let copied = decision.video.as_ref().is_some_and(|v| v.action == Action::Copy);
    // An encoder may make the picture smaller than the limits say: only a copy is known before.
    let resolution = video.filter(|_| copied).map(|(_, v)| (v.width, v.height));
    let range = video.filter(|_| copied).map_or(Some(VideoRange::Sdr), |(_, v)| VideoRange::of(v.hdr));
    let variant = Variant {
        uri: "media.m3u8",
        bandwidth_bps: session.bitrate_bps.unwrap_or(8_000_000),
        average_bandwidth_bps: None,
        codecs: codecs.as_deref().unwrap_or_default(),
        supplemental_codecs: None,
        resolution,
        frame_rate: video.and_then(|(_, v)| v.fps),
        video_range: video.and(range),
    };
    let tracks: Vec<(String, String, &crate::sessions::SubtitleSource)> = session
        .subtitles
        .iter()
        .filter(|s| s.text)
        .map(|s| (session.label_of(s.stream), format!("subtitles-{}.m3u8", s.stream), s))
        .collect();
    let chosen = decision.subtitle.as_ref().map(|s| s.stream);
    let renditions: Vec<SubtitleRendition<'_>> = tracks
        .iter()
        .map(|(name, uri, source)| SubtitleRendition {
            name,
            language: source.language.as_deref(),
            uri,
            default: chosen == Some(source.stream),
            forced: false,
            hearing_impaired: false,
        })
        .collect();
    playlist_reply(m3u8::multivariant(&[variant], &renditions, true))
}

/// The whole title's segments. Its times are those at which the segments really begin.
pub(super) fn media(boundaries: &[i64], container: Container) -> Reply {
    let init_uri = Some("init.mp4").filter(|_| container == Container::Fmp4);
    let playlist = MediaPlaylist { boundaries_us: boundaries, init_uri, independent: true };
    playlist_reply(playlist.write(|n| format!("{n}{}", extension(container))))
}

/// A subtitle track: one segment as long as the title.
pub(super) fn subtitles(session: &Session, stream: u32) -> Result<Reply, Problem> {
    if !session.subtitles.iter().any(|s| s.text && s.stream == stream) {
        return Err(Problem::not_found("this session has no such subtitles"));
    }
    let duration_us = session.duration_us();
    let text = m3u8::subtitle_playlist(duration_us, &format!("../subtitles/{stream}.vtt"));
    Ok(playlist_reply(text))
}

/// The RFC 6381 name of what goes out: the file's own for a copy, the encoder's for the rest.
/// `None` where it cannot be told: then no `CODECS` is written, which RFC 8216 section 4.3.4.2
/// prefers to a wrong one.
fn codec_string(track: &TrackVerdict) -> Option<&str> {
    if track.action == Action::Copy {
        return track.codec_string.as_deref();
    }
    match track.codec.as_str() {
        "h264" => Some("avc1.640029"),
        "aac" => Some("mp4a.40.2"),
        "ac3" => Some("ac-3"),
        "eac3" => Some("ec-3"),
        "opus" => Some("opus"),
        "flac" => Some("fLaC"),
        _ => None,
    }
}

impl Session {
    fn main_video(&self) -> Option<(&Stream, &Video)> {
        self.info.main_video()
    }

    fn label_of(&self, stream: u32) -> String {
        let found = self.info.streams.iter().find(|s| s.index == stream);
        found.map_or_else(|| format!("Track {}", stream + 1), crate::sessions::label)
    }
}
