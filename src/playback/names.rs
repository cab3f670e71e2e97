//! One word for what clients and files call by several.

/// Codec names as FFmpeg has them, from the words that profiles use.
pub(crate) fn codec(word: &str) -> String {
    let word = word.trim().to_ascii_lowercase();
    match word.as_str() {
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
        _ => return word,
    }
    .to_owned()
}

/// Container words as the prober has them, from the words that profiles use.
pub(crate) fn container(word: &str) -> String {
    let word = word.trim().to_ascii_lowercase();
    match word.as_str() {
        "matroska" | "mka" => "mkv",
        "ts" | "mpeg-ts" | "mpeg2ts" => "mpegts",
        "m4v" | "m4a" => "mp4",
        "mpeg" | "mpg" | "ps" | "vob" => "mpegps",
        "wmv" | "wma" => "asf",
        "quicktime" => "mov",
        "jpg" => "jpeg",
        _ => return word,
    }
    .to_owned()
}

/// Whether `listed` names `found`; `*` names everything but what nobody knows, and `pcm` every
/// kind of PCM.
pub(crate) fn codec_listed(listed: &[String], found: &str) -> bool {
    let found = codec(found);
    found != "unknown"
        && listed
            .iter()
            .map(|l| codec(l))
            .any(|l| l == "*" || l == found || (l == "pcm" && found.starts_with("pcm_")))
}

/// Whether a container list entry names `found`. One entry may name several, by commas.
pub(crate) fn container_listed(listed: &str, found: &str) -> bool {
    let found = container(found);
    listed.split(',').map(container).any(|l| l == "*" || l == found)
}

/// A profile's name without case, blanks and punctuation: `Main 10`, `main-10` and `main10` are one.
fn bare(profile: &str) -> String {
    profile
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|c| c.to_ascii_lowercase())
        .collect::<String>()
        .replace("profile", "")
        .replace("progressive", "")
        .replace("predictive", "")
}

/// Whether a decoder of one of the `listed` profiles can decode `found`.
///
/// A decoder of a profile must decode those below it (ITU-T H.264 annex A.2, H.265 annex A.3):
/// writing every one out in every profile would only invite gaps.
pub(crate) fn profile_listed(codec: &str, listed: &[String], found: &str) -> bool {
    let found = bare(found);
    let below: &[(&str, &[&str])] = match codec {
        "h264" => &[
            ("baseline", &["constrainedbaseline"]),
            ("main", &["constrainedbaseline"]),
            ("high", &["main", "constrainedbaseline", "constrainedhigh"]),
            ("high10", &["high", "main", "constrainedbaseline", "constrainedhigh", "high10intra"]),
            (
                "high422",
                &["high10", "high", "main", "constrainedbaseline", "constrainedhigh", "high422intra"],
            ),
        ],
        "hevc" => &[("main", &["mainstillpicture"]), ("main10", &["main", "mainstillpicture"])],
        "av1" => &[("high", &["main"]), ("professional", &["main", "high"])],
        "vp9" => &[("2", &["0"]), ("3", &["0", "1", "2"])],
        "aac" => &[("heaac", &["lc"]), ("heaacv2", &["heaac", "lc"])],
        _ => &[],
    };
    listed.iter().map(|l| bare(l)).any(|l| {
        l == found || below.iter().any(|(name, covers)| *name == l && covers.contains(&found.as_str()))
    })
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
            assert_eq!(profile_listed(codec, &list(&[listed]), found), covered, "{listed} {found}");
        }
    }

    #[test]
    fn words_of_profiles_meet_the_probers_words() {
        let list = |word: &str| vec![word.to_owned()];
        assert!(codec_listed(&list("H265"), "hevc"));
        assert!(codec_listed(&list("pcm"), "pcm_s24le"));
        assert!(codec_listed(&list("*"), "vc1"));
        assert!(!codec_listed(&list("*"), "unknown"));
        assert!(!codec_listed(&list("aac"), "ac3"));
        assert!(container_listed("matroska", "mkv"));
        assert!(container_listed("mp4,m4v", "mp4"));
        assert!(!container_listed("ts", "m2ts"));
        assert!(!container_listed("mp4", "mov"));
    }
}
