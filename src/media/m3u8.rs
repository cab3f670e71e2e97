//! HLS playlists (RFC 8216 and its successor draft for what RFC 8216 lacks): values in, text out.

use std::fmt::Write as _;

/// A media playlist of a whole film.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediaPlaylist<'a> {
    /// Times from `segments`: n+1 for n segments, microseconds.
    pub boundaries_us: &'a [i64],
    /// URI of the initialisation section (`EXT-X-MAP`); absent for MPEG-TS and WebVTT.
    pub init_uri: Option<&'a str>,
    /// Whether every segment can be decoded without those before it.
    pub independent: bool,
}

impl MediaPlaylist<'_> {
    /// Writes it; `uri` gives the URI of a segment by its number.
    #[must_use]
    pub fn write(&self, uri: impl Fn(usize) -> String) -> String {
        let lengths = || self.boundaries_us.windows(2).map(|w| (w[1] - w[0]).max(0));
        // RFC 8216 section 4.3.3.1: every EXTINF, rounded to the nearest second, must be at most
        // this. Rounding up keeps also those players content that compare without rounding.
        let target_s = lengths().max().unwrap_or(0).max(1).saturating_add(999_999) / 1_000_000;
        let mut out = String::from("#EXTM3U\n#EXT-X-VERSION:7\n");
        let _ = writeln!(out, "#EXT-X-TARGETDURATION:{target_s}");
        out.push_str("#EXT-X-MEDIA-SEQUENCE:0\n#EXT-X-PLAYLIST-TYPE:VOD\n");
        if self.independent {
            out.push_str("#EXT-X-INDEPENDENT-SEGMENTS\n");
        }
        if let Some(init) = self.init_uri {
            let _ = writeln!(out, "#EXT-X-MAP:URI={}", quoted(init));
        }
        for (n, us) in lengths().enumerate() {
            let _ = writeln!(out, "#EXTINF:{}.{:06},", us / 1_000_000, us % 1_000_000);
            out.push_str(&line(&uri(n)));
            out.push('\n');
        }
        out.push_str("#EXT-X-ENDLIST\n");
        out
    }
}

/// A media playlist of one WebVTT file that spans the whole film.
#[must_use]
pub fn subtitle_playlist(duration_us: i64, uri: &str) -> String {
    MediaPlaylist { boundaries_us: &[0, duration_us], init_uri: None, independent: false }
        .write(|_| uri.to_owned())
}

/// One rendition of the film.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Variant<'a> {
    /// URI of its media playlist.
    pub uri: &'a str,
    /// Highest bits per second of any segment; required by the format.
    pub bandwidth_bps: u64,
    /// Average bits per second.
    pub average_bandwidth_bps: Option<u64>,
    /// RFC 6381 strings of picture and sound; left out unless all are known, as a list that lacks
    /// one is worse than none (RFC 8216 section 4.3.4.2).
    pub codecs: &'a [&'a str],
    /// Further codecs that the same bits can be decoded as (Dolby Vision over HDR10):
    /// `dvh1.08.06/db1p`.
    pub supplemental_codecs: Option<&'a str>,
    /// Width and height as shown.
    pub resolution: Option<(u32, u32)>,
    /// Pictures a second.
    pub frame_rate: Option<f64>,
    /// `SDR`, `HLG` or `PQ`.
    pub video_range: Option<VideoRange>,
}

/// Transfer characteristics, as `VIDEO-RANGE` names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum VideoRange {
    /// BT.709 and its like.
    Sdr,
    /// Hybrid log-gamma.
    Hlg,
    /// SMPTE ST 2084.
    Pq,
}

impl VideoRange {
    /// The range of a class, `None` where the playlist has no word for it.
    #[must_use]
    pub fn of(hdr: crate::info::Hdr) -> Option<Self> {
        use crate::info::Hdr;
        match hdr {
            Hdr::Sdr | Hdr::DvSdr => Some(Self::Sdr),
            Hdr::Hlg | Hdr::DvHlg => Some(Self::Hlg),
            Hdr::Hdr10
            | Hdr::Hdr10Plus
            | Hdr::DvHdr10
            | Hdr::DvHdr10Plus
            | Hdr::Dv7
            | Hdr::Dv7Hdr10Plus
            | Hdr::Dv5 => Some(Self::Pq),
            Hdr::Unknown | Hdr::DvInvalid => None,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Sdr => "SDR",
            Self::Hlg => "HLG",
            Self::Pq => "PQ",
        }
    }
}

/// Subtitles of a multivariant playlist.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SubtitleRendition<'a> {
    /// Name shown; unique in the playlist.
    pub name: &'a str,
    /// RFC 5646 tag or ISO 639-2 code.
    pub language: Option<&'a str>,
    /// URI of its playlist.
    pub uri: &'a str,
    /// Shown when the viewer chose nothing.
    pub default: bool,
    /// Foreign parts only.
    pub forced: bool,
    /// For the hard of hearing.
    pub hearing_impaired: bool,
}

/// A multivariant playlist.
#[must_use]
pub fn multivariant(
    variants: &[Variant<'_>],
    subtitles: &[SubtitleRendition<'_>],
    independent: bool,
) -> String {
    let mut out = String::from("#EXTM3U\n#EXT-X-VERSION:7\n");
    if independent {
        out.push_str("#EXT-X-INDEPENDENT-SEGMENTS\n");
    }
    for s in subtitles {
        let yes_no = |yes: bool| if yes { "YES" } else { "NO" };
        let _ = write!(out, "#EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID=\"subs\",NAME={}", quoted(s.name));
        if let Some(language) = s.language {
            let _ = write!(out, ",LANGUAGE={}", quoted(language));
        }
        // A default rendition must be auto-selectable (RFC 8216 section 4.3.4.1).
        let auto = s.default || s.forced;
        let _ = write!(
            out,
            ",DEFAULT={},AUTOSELECT={},FORCED={}",
            yes_no(s.default),
            yes_no(auto),
            yes_no(s.forced)
        );
        if s.hearing_impaired {
            out.push_str(",CHARACTERISTICS=\"public.accessibility.transcribes-spoken-dialog,");
            out.push_str("public.accessibility.describes-music-and-sound\"");
        }
        let _ = writeln!(out, ",URI={}", quoted(s.uri));
    }
    for v in variants {
        let _ = write!(out, "#EXT-X-STREAM-INF:BANDWIDTH={}", v.bandwidth_bps.max(1));
        if let Some(average) = v.average_bandwidth_bps {
            let _ = write!(out, ",AVERAGE-BANDWIDTH={average}");
        }
        if !v.codecs.is_empty() {
            let _ = write!(out, ",CODECS={}", quoted(&v.codecs.join(",")));
        }
        if let Some(codecs) = v.supplemental_codecs {
            let _ = write!(out, ",SUPPLEMENTAL-CODECS={}", quoted(codecs));
        }
        if let Some((w, h)) = v.resolution {
            let _ = write!(out, ",RESOLUTION={w}x{h}");
        }
        if let Some(fps) = v.frame_rate.filter(|f| f.is_finite() && *f > 0.0) {
            let _ = write!(out, ",FRAME-RATE={fps:.3}");
        }
        if let Some(range) = v.video_range {
            let _ = write!(out, ",VIDEO-RANGE={}", range.as_str());
        }
        if !subtitles.is_empty() {
            out.push_str(",SUBTITLES=\"subs\"");
        }
        out.push('\n');
        out.push_str(&line(v.uri));
        out.push('\n');
    }
    out
}

/// A quoted string. The format has no escape: what may not stand in one (line breaks, the quote,
/// controls; RFC 8216 section 4.2) is replaced by what reads alike.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push('\''),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A URI line: never empty, never a comment, never two lines.
fn line(uri: &str) -> String {
    let clean: String = uri.chars().filter(|c| !c.is_control()).collect();
    if clean.starts_with('#') { format!("./{clean}") } else { clean }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_media_playlist_reads_as_the_format_says() {
        let playlist = MediaPlaylist {
            boundaries_us: &[0, 7_600_000, 14_040_000, 15_040_001],
            init_uri: Some("init.mp4?s=1"),
            independent: true,
        };
        assert_eq!(
            playlist.write(|n| format!("{n}.m4s?s=1")),
            "#EXTM3U\n\
             #EXT-X-VERSION:7\n\
             #EXT-X-TARGETDURATION:8\n\
             #EXT-X-MEDIA-SEQUENCE:0\n\
             #EXT-X-PLAYLIST-TYPE:VOD\n\
             #EXT-X-INDEPENDENT-SEGMENTS\n\
             #EXT-X-MAP:URI=\"init.mp4?s=1\"\n\
             #EXTINF:7.600000,\n\
             0.m4s?s=1\n\
             #EXTINF:6.440000,\n\
             1.m4s?s=1\n\
             #EXTINF:1.000001,\n\
             2.m4s?s=1\n\
             #EXT-X-ENDLIST\n"
        );
    }

    #[test]
    fn the_lengths_add_up_to_the_boundaries() {
        let cuts = crate::segments::encode_boundaries(5_400_123_457, Some([30_000, 1_001]));
        let text = MediaPlaylist { boundaries_us: &cuts, init_uri: None, independent: true }
            .write(|n| n.to_string());
        let mut at = 0;
        let mut seen = vec![0];
        for l in text.lines().filter_map(|l| l.strip_prefix("#EXTINF:")) {
            let (s, us) = l.trim_end_matches(',').split_once('.').unwrap();
            at += s.parse::<i64>().unwrap() * 1_000_000 + us.parse::<i64>().unwrap();
            seen.push(at);
        }
        assert_eq!(seen, cuts);
        assert!(!text.contains("EXT-X-MAP"));
    }

    #[test]
    fn subtitles_of_the_whole_film_are_one_segment() {
        assert_eq!(
            subtitle_playlist(5_400_040_000, "2.vtt"),
            "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:5401\n#EXT-X-MEDIA-SEQUENCE:0\n\
             #EXT-X-PLAYLIST-TYPE:VOD\n#EXTINF:5400.040000,\n2.vtt\n#EXT-X-ENDLIST\n"
        );
    }

    #[test]
    fn a_multivariant_playlist_reads_as_the_format_says() {
        let variants = [Variant {
            uri: "media.m3u8?a=1",
            bandwidth_bps: 9_000_000,
            average_bandwidth_bps: Some(6_000_000),
            codecs: &["hvc1.2.4.L153.B0", "mp4a.40.2"],
            supplemental_codecs: Some("dvh1.08.06/db1p"),
            resolution: Some((3840, 2160)),
            frame_rate: Some(24_000.0 / 1_001.0),
            video_range: Some(VideoRange::Pq),
        }];
        let subtitles = [
            SubtitleRendition {
                name: "English \"SDH\"\r\n#EXT-X-ENDLIST",
                language: Some("eng"),
                uri: "3.m3u8",
                hearing_impaired: true,
                ..SubtitleRendition::default()
            },
            SubtitleRendition {
                name: "Signs",
                uri: "4.m3u8",
                forced: true,
                default: true,
                ..SubtitleRendition::default()
            },
        ];
        assert_eq!(
            multivariant(&variants, &subtitles, true),
            "#EXTM3U\n\
             #EXT-X-VERSION:7\n\
             #EXT-X-INDEPENDENT-SEGMENTS\n\
             #EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID=\"subs\",NAME=\"English 'SDH'  #EXT-X-ENDLIST\",\
             LANGUAGE=\"eng\",DEFAULT=NO,AUTOSELECT=NO,FORCED=NO,\
             CHARACTERISTICS=\"public.accessibility.transcribes-spoken-dialog,\
             public.accessibility.describes-music-and-sound\",URI=\"3.m3u8\"\n\
             #EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID=\"subs\",NAME=\"Signs\",\
             DEFAULT=YES,AUTOSELECT=YES,FORCED=YES,URI=\"4.m3u8\"\n\
             #EXT-X-STREAM-INF:BANDWIDTH=9000000,AVERAGE-BANDWIDTH=6000000,\
             CODECS=\"hvc1.2.4.L153.B0,mp4a.40.2\",SUPPLEMENTAL-CODECS=\"dvh1.08.06/db1p\",\
             RESOLUTION=3840x2160,FRAME-RATE=23.976,VIDEO-RANGE=PQ,SUBTITLES=\"subs\"\n\
             media.m3u8?a=1\n"
        );
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let variants = [Variant { uri: "#odd", bandwidth_bps: 0, ..Variant::default() }];
        assert_eq!(
            multivariant(&variants, &[], false),
            "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-STREAM-INF:BANDWIDTH=1\n./#odd\n"
        );
    }
}
