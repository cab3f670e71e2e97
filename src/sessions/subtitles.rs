//! Which subtitles of a file a session hands out, in which forms, and at which addresses.

use std::path::PathBuf;

use serde::Serialize;
use spindle_library::PlayFile;
use spindle_media::info::{Attachment, MediaInfo, StreamKind, Subtitle};
use spindle_playback::{ClientProfile, Decision};
use spindle_transcode::original::MAX_FONT_BYTES;

use super::open::label;

/// Fonts of one film that are offered. Films with more carry whole families that no line names.
const MAX_FONTS: usize = 64;
/// Bytes of all of them: what a page is made to load.
const MAX_FONTS_BYTES: u64 = 96 << 20;

/// How subtitles go out to a client that draws them itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Original {
    /// A script of Advanced SubStation Alpha.
    Ass,
    /// Pictures of a Blu-ray.
    Pgs,
    /// Pictures of a DVD.
    Vobsub,
}

impl Original {
    /// By FFmpeg's codec name; `None` for what has no such form.
    fn of(codec: &str) -> Option<Self> {
        match codec {
            "ass" | "ssa" => Some(Self::Ass),
            "hdmv_pgs_subtitle" => Some(Self::Pgs),
            "dvd_subtitle" => Some(Self::Vobsub),
            _ => None,
        }
    }

    /// How its address ends.
    #[must_use]
    pub fn extension(self) -> &'static str {
        match self {
            Self::Ass => "ass",
            Self::Pgs => "sup",
            Self::Vobsub => "vobsub",
        }
    }
}

/// A subtitle stream that may be fetched, and where it is.
#[derive(Debug, Clone)]
pub struct SubtitleSource {
    /// The stream's index.
    pub stream: u32,
    /// FFmpeg's codec name.
    pub codec: String,
    /// Whether it is text, which goes out as WebVTT too.
    pub text: bool,
    /// What it goes out as, as it is, to a client that draws that.
    pub original: Option<Original>,
    /// ISO 639-2/T, a prior for the text's alphabet.
    pub language: Option<String>,
    /// The file beside the film, and the library's folder that it must not lead out of; absent when it is inside.
    pub path: Option<(PathBuf, PathBuf)>,
}

/// A subtitle track.
#[derive(Debug, Clone, Serialize)]
pub struct SubtitleTrack {
    /// The stream's index.
    pub index: u32,
    /// For people.
    pub label: String,
    /// ISO 639-2/T.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// WebVTT; absent for pictures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// As the file has it, where the client draws that; a track with neither is drawn into the video when chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub original: Option<OriginalTrack>,
    /// Whether the decision chose it.
    pub default: bool,
    /// Foreign parts only.
    pub forced: bool,
}

/// A subtitle track as the file has it.
#[derive(Debug, Clone, Serialize)]
pub struct OriginalTrack {
    /// What it is.
    pub format: Original,
    /// Where.
    pub url: String,
    /// Fonts that come with the film, for a script.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fonts: Vec<String>,
}

/// What a session of this client may fetch.
pub(super) fn sources(info: &MediaInfo, part: &PlayFile, client: &ClientProfile) -> Vec<SubtitleSource> {
    let mut out = Vec::new();
    for stream in &info.streams {
        let StreamKind::Subtitle(Subtitle { text, .. }) = &stream.kind else { continue };
        let beside = part.external.iter().find(|e| e.stream == stream.index);
        let original = Original::of(&stream.codec)
            .filter(|_| client.draws(&stream.codec))
            // VobSub beside a film is two files; the decision knows that as well.
            .filter(|o| beside.is_none() || *o != Original::Vobsub);
        if !text && original.is_none() {
            continue;
        }
        out.push(SubtitleSource {
            stream: stream.index,
            codec: stream.codec.clone(),
            text: *text,
            original,
            language: stream.language.clone(),
            path: beside.map(|e| (e.path.clone(), e.root.clone())),
        });
    }
    out
}

/// The tracks for the client, with their addresses.
pub(super) fn tracks(
    info: &MediaInfo,
    decision: &Decision,
    sources: &[SubtitleSource],
    signed: &str,
) -> Vec<SubtitleTrack> {
    let chosen = decision.subtitle.as_ref().map(|s| s.stream);
    let fonts: Vec<String> = fonts(info).map(|(n, _)| format!("/media/{signed}/fonts/{n}")).collect();
    info.subtitles()
        .map(|(stream, _)| {
            let n = stream.index;
            let source = sources.iter().find(|s| s.stream == n);
            SubtitleTrack {
                index: n,
                label: label(stream),
                language: stream.language.clone(),
                url: source.filter(|s| s.text).map(|_| format!("/media/{signed}/subtitles/{n}.vtt")),
                original: source.and_then(|s| s.original).map(|format| OriginalTrack {
                    format,
                    url: format!("/media/{signed}/subtitles/{n}.{}", format.extension()),
                    fonts: if format == Original::Ass { fonts.clone() } else { Vec::new() },
                }),
                default: chosen == Some(n),
                forced: stream.disposition.forced,
            }
        })
        .collect()
}

/// Fonts attached to a file, by their position among its attachments: as many and as large as are offered.
pub fn fonts(info: &MediaInfo) -> impl Iterator<Item = (usize, &Attachment)> {
    let mut bytes = 0_u64;
    info.attachments
        .iter()
        .enumerate()
        .filter(|(_, a)| says_font(a) && a.size_bytes <= MAX_FONT_BYTES as u64)
        .take_while(move |(_, a)| {
            bytes = bytes.saturating_add(a.size_bytes);
            bytes <= MAX_FONTS_BYTES
        })
        .take(MAX_FONTS)
}

/// By what the file says of it: writers give many types, and some none that means anything.
fn says_font(attachment: &Attachment) -> bool {
    let (mime, name) = (attachment.mime.to_ascii_lowercase(), attachment.name.to_ascii_lowercase());
    mime.contains("font")
        || mime.contains("truetype")
        || mime.contains("opentype")
        || [".ttf", ".otf", ".ttc", ".otc"].iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attachment(name: &str, mime: &str, size_bytes: u64) -> Attachment {
        Attachment { name: name.to_owned(), mime: mime.to_owned(), size_bytes }
    }

    #[test]
    fn fonts_are_offered_by_type_or_name_and_not_without_end() {
        let info = |attachments| MediaInfo { attachments, ..MediaInfo::default() };
        let film = info(vec![
            attachment("cover.jpg", "image/jpeg", 1),
            attachment("a", "application/x-truetype-font", 1),
            attachment("B.OTF", "application/octet-stream", 1),
            attachment("huge.ttf", "font/ttf", 1 << 40),
            attachment("c.ttf", "font/ttf", 1),
        ]);
        assert_eq!(fonts(&film).map(|(n, _)| n).collect::<Vec<_>>(), [1, 2, 4]);
        let many = info(vec![attachment("a.ttf", "font/ttf", 1); 500]);
        assert_eq!(fonts(&many).count(), MAX_FONTS);
        let large = info(vec![attachment("a.ttf", "font/ttf", 30 << 20); 10]);
        assert_eq!(fonts(&large).count(), 3);
    }
}
