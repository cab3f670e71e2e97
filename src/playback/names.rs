//! One word for what clients and files call by several.

use std::borrow::Cow;

/// Codec names as FFmpeg has them, from the words that profiles use.
pub(crate) fn codec(word: &str) -> Cow<'_, str> {
    let lower = lower(word);
    Cow::Borrowed(match lower.as_ref() {
        "avc" | "avc1" | "h.264" | "x264" => "h264",
        "h265" | "h.265" | "hvc1" | "hev1" | "x265" => "hevc",
        "av01" => "av1",
        "vp09" => "vp9",
        "mpeg2" | "mpeg-2" => "mpeg2video",
        "mpeg1" | "mpeg-1" => "mpeg1video",
        "vc-1" => "vc1",
        "ac-3" => "ac3",
        "e-ac-3" | "ec-3" | "ec3" | "ddp" => "eac3",
        "dca" => "dts",
        "mp4a" => "aac",
        "srt" => "subrip",
        "vtt" => "webvtt",
        "pgs" | "pgssub" => "hdmv_pgs_subtitle",
        "vobsub" | "dvdsub" => "dvd_subtitle",
        "dvbsub" => "dvb_subtitle",
        "tx3g" => "mov_text",
        "ssa" => "ass",
        _ => return lower,
    })
}

/// Without blanks around it and in lower case; a word that already is costs nothing.
fn lower(word: &str) -> Cow<'_, str> {
    let word = word.trim();
    if word.bytes().any(|b| b.is_ascii_uppercase()) {
        Cow::Owned(word.to_ascii_lowercase())
    } else {
        Cow::Borrowed(word)
    }
}

/// Container words as the prober has them, from the words that profiles use.
pub(crate) fn container(word: &str) -> Cow<'_, str> {
    let lower = lower(word);
    Cow::Borrowed(match lower.as_ref() {
        "matroska" | "mka" => "mkv",
        "ts" | "mpeg-ts" | "mpeg2ts" => "mpegts",
        "m4v" | "m4a" => "mp4",
        "mpeg" | "mpg" | "ps" | "vob" => "mpegps",
        "wmv" | "wma" => "asf",
        "quicktime" => "mov",
        "jpg" => "jpeg",
        _ => return lower,
    })
}

/// Codecs that a client names, ready to be asked about many files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Codecs {
    /// `*`: everything but what nobody knows.
    any: bool,
    /// `pcm`: every kind of PCM.
    pcm: bool,
    named: Vec<String>,
}

impl Codecs {
    pub(crate) fn of<'a>(words: impl IntoIterator<Item = &'a String>) -> Self {
        let mut out = Self::default();
        for word in words {
            match codec(word).as_ref() {
                "*" => out.any = true,
                "pcm" => out.pcm = true,
                word => out.named.push(word.to_owned()),
            }
        }
        out
    }

    /// Whether `found`, a name of [`codec`], is among them.
    pub(crate) fn has(&self, found: &str) -> bool {
        (self.any && found != "unknown" && !found.is_empty())
            || (self.pcm && found.starts_with("pcm_"))
            || self.named.iter().any(|n| n == found)
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.any && !self.pcm && self.named.is_empty()
    }
}

/// Containers that one entry of a profile names, by commas.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Containers {
    any: bool,
    named: Vec<String>,
}

impl Containers {
    pub(crate) fn of(words: &str) -> Self {
        let mut out = Self::default();
        for word in words.split(',') {
            match container(word).as_ref() {
                "*" => out.any = true,
                word => out.named.push(word.to_owned()),
            }
        }
        out
    }

    /// Whether `found`, a name of [`container`], is among them; an unnamed container never is.
    pub(crate) fn has(&self, found: &str) -> bool {
        !found.is_empty() && (self.any || self.named.iter().any(|n| n == found))
    }
}

/// A profile's name without case, blanks and punctuation: `Main 10`, `main-10` and `main10` are one.
pub(crate) fn bare(profile: &str) -> String {
    profile
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|c| c.to_ascii_lowercase())
        .collect::<String>()
        .replace("profile", "")
        .replace("progressive", "")
        .replace("predictive", "")
}

/// Whether a decoder of one of the `listed` profiles can decode `found`; all as [`bare`] writes them.
///
/// A decoder of a profile must decode those below it (ITU-T H.264 annex A.2, H.265 annex A.3):
/// writing every one out in every profile would only invite gaps.
pub(crate) fn profile_listed(codec: &str, listed: &[String], found: &str) -> bool {
    let below: &[(&str, &[&str])] = match codec {
        "h264" => &[
            ("baseline", &["constrainedbaseline"]),
            ("main", &["constrainedbaseline"]),
            ("high", &["main", "constrainedbaseline", "constrainedhigh"]),
            ("high10", &["high", "main", "constrainedbaseline", "constrainedhigh", "high10intra"]),
            (
                "high422",
                &[
                    "high10",
                    "high",
                    "main",
                    "constrainedbaseline",
                    "constrainedhigh",
                    "high10intra",
                    "high422intra",
                ],
            ),
        ],
        "hevc" => &[("main", &["mainstillpicture"]), ("main10", &["main", "mainstillpicture"])],
        "av1" => &[("high", &["main"]), ("professional", &["main", "high"])],
        "vp9" => &[("2", &["0"]), ("3", &["0", "1", "2"])],
        "aac" => &[("heaac", &["lc"]), ("heaacv2", &["heaac", "lc"])],
        // Each of them holds a core that the plain decoder plays (ETSI TS 102 114 section 5).
        "dts" => &[
            ("dtshdma", &["dts", "dtses", "dts9624", "dtshdhra"]),
            ("dtshdhra", &["dts", "dtses", "dts9624"]),
            ("dtses", &["dts"]),
            ("dts9624", &["dts"]),
        ],
        _ => &[],
    };
    listed
        .iter()
        .any(|l| l == found || below.iter().any(|(name, covers)| name == l && covers.contains(&found)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decoder_of_a_profile_takes_the_ones_below() {
        let list = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
        for (codec, listed, found, covered) in [
            ("h264", "high", "Constrained Baseline", true),
            ("h264", "high", "Main", true),
            ("h264", "high", "High 10", false),
            ("h264", "main", "High", false),
            ("h264", "High 4:2:2", "High 10", true),
            ("hevc", "main10", "Main", true),
            ("hevc", "Main", "Main 10", false),
            ("vp9", "Profile 2", "Profile 0", true),
            ("vp9", "0", "Profile 2", false),
            ("av1", "main", "Main", true),
            ("prores", "hq", "HQ", true),
        ] {
            let listed = list(&[&bare(listed)]);
            assert_eq!(profile_listed(codec, &listed, &bare(found)), covered, "{listed:?} {found}");
        }
    }

    #[test]
    fn words_of_profiles_meet_the_probers_words() {
        let one = |word: &str| Codecs::of(&[word.to_owned()]);
        assert!(one("H265").has(&codec("hevc")));
        assert!(one("pcm").has("pcm_s24le"));
        assert!(one("*").has("vc1"));
        assert!(!one("*").has("unknown") && !one("*").has(""));
        assert!(!one("aac").has("ac3"));
        assert!(Codecs::of(&[]).is_empty());
        assert!(Containers::of("matroska").has("mkv"));
        assert!(Containers::of("mp4,m4v").has("mp4"));
        assert!(!Containers::of("ts").has("m2ts"));
        assert!(!Containers::of("mp4").has("mov"));
        assert!(!Containers::of("*").has(""));
    }
}
