//! The words of release names: what ends a title.
//!
//! Strong words (resolutions, codecs, most sources) are never part of a title. Weak ones
//! (languages, short forms, tags) count only beside a strong one: `The Good German` is a film.

use super::tokens::Name;

/// What a token is in a release name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    /// Not a release word.
    Plain,
    /// Ends a title wherever it stands.
    Strong,
    /// Ends a title directly before a strong word.
    Weak,
    /// As weak, and a tag of the release itself (`PROPER`, `REPACK`), also directly after a number.
    Tag,
    /// A language; weak.
    Language,
}

/// Sorted, folded. Resolutions with digits, sizes and channels are read by shape instead.
const STRONG: &[&str] = &[
    "4khdr",
    "aac",
    "ac3",
    "ac3d",
    "ahdtv",
    "amazonhd",
    "amzn",
    "atvp",
    "av1",
    "avc",
    "avchd",
    "bd25",
    "bd50",
    "bdfull",
    "bdiso",
    "bdmux",
    "bdremux",
    "bdrip",
    "bluray",
    "bluraymux",
    "blurayrip",
    "brmux",
    "brrip",
    "brripmux",
    "camrip",
    "cdrip",
    "ddp",
    "ddpa",
    "ddpatmos",
    "divx",
    "dlmux",
    "dmrip",
    "dolby",
    "dovi",
    "dsnp",
    "dsr",
    "dsrip",
    "dthrip",
    "dts",
    "dtshd",
    "dtshdma",
    "dtsma",
    "dtsx",
    "dualaudio",
    "dvb",
    "dvbrip",
    "dvd5",
    "dvd9",
    "dvddivx",
    "dvdfull",
    "dvdivx",
    "dvdr",
    "dvdremux",
    "dvdrip",
    "dvdscr",
    "dvdscreener",
    "dxva",
    "eac3",
    "fhd",
    "flac",
    "fsbs",
    "ftab",
    "fullhd",
    "hcrip",
    "hdc",
    "hdcam",
    "hddvd",
    "hddvdrip",
    "hditunes",
    "hdlight",
    "hdr10",
    "hdr10p",
    "hdr10plus",
    "hdrip",
    "hdtc",
    "hdtcrip",
    "hdts",
    "hdtv",
    "hdtvmux",
    "hdtvrip",
    "hdtvx264",
    "hdweb",
    "hevc",
    "hi10",
    "hi10p",
    "hmax",
    "hou",
    "hqrip",
    "hsbs",
    "htab",
    "hulurip",
    "itunes",
    "itunesh264",
    "itunesh265",
    "ituneshd",
    "itunesuhd",
    "kbps",
    "laserdisc",
    "ldrip",
    "ldtv",
    "lpcm",
    "mbps",
    "mhd",
    "microhd",
    "mpeg2",
    "mpeg4",
    "mpegts",
    "mpg2",
    "multiaudio",
    "mvcd",
    "netflixhd",
    "netflixuhd",
    "netflixuhdrip",
    "nfrip",
    "nvenc",
    "pdtv",
    "pdvd",
    "ppv",
    "ppvrip",
    "predvd",
    "predvdrip",
    "qhd",
    "remux",
    "satrip",
    "sdtv",
    "stv",
    "svcd",
    "telecine",
    "telesync",
    "truehd",
    "tvrip",
    "uhd",
    "uhdbd",
    "uhdrip",
    "uhdtv",
    "ultrahd",
    "vc1",
    "vcd",
    "vhsrip",
    "vodrip",
    "vp6",
    "vp8",
    "vp9",
    "webcap",
    "webdl",
    "webdlrip",
    "webhd",
    "webmux",
    "webrip",
    "webscreener",
    "webuhd",
    "webx264",
    "workprint",
    "xavc",
    "xvid",
];

/// Sorted, folded.
const WEAK: &[&str] = &[
    "10bit",
    "3d",
    "4k",
    "8bit",
    "8k",
    "aks",
    "amz",
    "atmos",
    "avi",
    "batch",
    "bd",
    "blu",
    "cam",
    "cc",
    "chs",
    "cht",
    "cr",
    "crav",
    "crunchyroll",
    "dc",
    "dd",
    "ddc",
    "dl",
    "dlmux",
    "dm",
    "dualaudio",
    "dub",
    "dubbed",
    "dublado",
    "dv",
    "dvd",
    "eng5",
    "engsubs",
    "enlarged",
    "esub",
    "esubs",
    "fansub",
    "fastsub",
    "flv",
    "fre",
    "hardcoded",
    "hardsub",
    "hardsubbed",
    "hc",
    "hd",
    "hdc",
    "hdr",
    "hebsubs",
    "hlg",
    "hq",
    "hulu",
    "hybrid",
    "imax",
    "ind",
    "korsub",
    "korsubs",
    "ld",
    "legenda",
    "legendado",
    "legendas",
    "lpcm",
    "lq",
    "ma",
    "max",
    "md",
    "mkv",
    "mov",
    "mp2",
    "mp3",
    "mp4",
    "multisub",
    "mux",
    "nf",
    "nlsub",
    "nlsubs",
    "nordicsubs",
    "ntsc",
    "ogg",
    "opus",
    "pal",
    "pcok",
    "pmtp",
    "r5",
    "raw",
    "retailsubs",
    "sbs",
    "scr",
    "screener",
    "sdh",
    "sdr",
    "softsub",
    "softsubbed",
    "softsubs",
    "stan",
    "stz",
    "sub",
    "subbed",
    "subforced",
    "subfrench",
    "subpack",
    "subs",
    "subtitle",
    "subtitles",
    "subtitulado",
    "swesub",
    "tc",
    "ts",
    "tv",
    "uncensored",
    "upscale",
    "upscaled",
    "vf",
    "vff",
    "vfi",
    "vfq",
    "vfstfr",
    "vhs",
    "vo",
    "vod",
    "vof",
    "vost",
    "vosta",
    "vostfr",
    "web",
    "webm",
    "wmv",
    "ws",
    "xxx",
];

/// Sorted, folded.
const TAGS: &[&str] = &[
    "coffret",
    "colorized",
    "complete",
    "convert",
    "custom",
    "dirfix",
    "docu",
    "doku",
    "final",
    "fix",
    "fs",
    "hdfix",
    "int",
    "integrale",
    "internal",
    "lintegrale",
    "miniseries",
    "multi",
    "multisubs",
    "nfo",
    "nfofix",
    "nuked",
    "obfuscated",
    "postbot",
    "preair",
    "proof",
    "prooffix",
    "proper",
    "proper2",
    "read",
    "readnfo",
    "real",
    "reencoded",
    "remuxed",
    "repack",
    "repack2",
    "rerip",
    "retail",
    "sample",
    "samplefix",
    "series",
    "subforced",
    "syncfix",
];

/// Tags that are common words: only in capitals are they tags.
const SHOUTED: &[&str] = &[
    "blu", "cam", "complete", "convert", "dc", "dm", "docu", "final", "fix", "hd", "imax", "int", "it", "ld",
    "ma", "md", "nf", "proof", "raw", "read", "real", "sample", "sbs", "series", "ts", "tv", "web",
];

/// Codes of languages that are no words of titles, in whatever case.
const NEVER_WORDS: &[&str] =
    &["eng", "esp", "fre", "ger", "hin", "ita", "jpn", "kor", "nld", "rus", "spa", "swe", "ukr"];

/// Languages by folded name or code and their ISO 639-2 (terminology) code. Sorted.
/// <https://www.loc.gov/standards/iso639-2/php/code_list.php>
const LANGUAGES: &[(&str, &str)] = &[
    ("afr", "afr"),
    ("alb", "sqi"),
    ("albanian", "sqi"),
    ("ar", "ara"),
    ("ara", "ara"),
    ("arabic", "ara"),
    ("armenian", "hye"),
    ("bahasa", "ind"),
    ("baq", "eus"),
    ("ben", "ben"),
    ("bengali", "ben"),
    ("bg", "bul"),
    ("bn", "ben"),
    ("bosnian", "bos"),
    ("br", "por"),
    ("brazilian", "por"),
    ("bs", "bos"),
    ("bul", "bul"),
    ("bulgarian", "bul"),
    ("ca", "cat"),
    ("cantonese", "zho"),
    ("castellano", "spa"),
    ("cat", "cat"),
    ("catala", "cat"),
    ("catalan", "cat"),
    ("ces", "ces"),
    ("chi", "zho"),
    ("chinese", "zho"),
    ("croatian", "hrv"),
    ("cs", "ces"),
    ("cy", "cym"),
    ("cym", "cym"),
    ("cz", "ces"),
    ("cze", "ces"),
    ("czech", "ces"),
    ("da", "dan"),
    ("dan", "dan"),
    ("danish", "dan"),
    ("dansk", "dan"),
    ("de", "deu"),
    ("deu", "deu"),
    ("deutsch", "deu"),
    ("dut", "nld"),
    ("dutch", "nld"),
    ("el", "ell"),
    ("ell", "ell"),
    ("en", "eng"),
    ("eng", "eng"),
    ("english", "eng"),
    ("es", "spa"),
    ("esp", "spa"),
    ("espanol", "spa"),
    ("est", "est"),
    ("estonian", "est"),
    ("et", "est"),
    ("eu", "eus"),
    ("eus", "eus"),
    ("fa", "fas"),
    ("farsi", "fas"),
    ("fas", "fas"),
    ("fi", "fin"),
    ("fil", "fil"),
    ("filipino", "fil"),
    ("fin", "fin"),
    ("finnish", "fin"),
    ("flemish", "nld"),
    ("fr", "fra"),
    ("fra", "fra"),
    ("francais", "fra"),
    ("fre", "fra"),
    ("french", "fra"),
    ("ga", "gle"),
    ("geo", "kat"),
    ("georgian", "kat"),
    ("ger", "deu"),
    ("german", "deu"),
    ("gl", "glg"),
    ("gle", "gle"),
    ("glg", "glg"),
    ("gre", "ell"),
    ("greek", "ell"),
    ("he", "heb"),
    ("heb", "heb"),
    ("hebrew", "heb"),
    ("hi", "hin"),
    ("hin", "hin"),
    ("hindi", "hin"),
    ("hr", "hrv"),
    ("hrv", "hrv"),
    ("hu", "hun"),
    ("hun", "hun"),
    ("hungarian", "hun"),
    ("hy", "hye"),
    ("hye", "hye"),
    ("ice", "isl"),
    ("icelandic", "isl"),
    ("id", "ind"),
    ("ind", "ind"),
    ("indonesian", "ind"),
    ("is", "isl"),
    ("isl", "isl"),
    ("it", "ita"),
    ("ita", "ita"),
    ("italian", "ita"),
    ("italiano", "ita"),
    ("ja", "jpn"),
    ("jap", "jpn"),
    ("japanese", "jpn"),
    ("jp", "jpn"),
    ("jpn", "jpn"),
    ("ka", "kat"),
    ("kan", "kan"),
    ("kannada", "kan"),
    ("kat", "kat"),
    ("kaz", "kaz"),
    ("kk", "kaz"),
    ("kn", "kan"),
    ("ko", "kor"),
    ("kor", "kor"),
    ("korean", "kor"),
    ("latin", "spa"),
    ("latino", "spa"),
    ("latvian", "lav"),
    ("lav", "lav"),
    ("lit", "lit"),
    ("lithuanian", "lit"),
    ("lt", "lit"),
    ("lv", "lav"),
    ("mac", "mkd"),
    ("macedonian", "mkd"),
    ("mal", "mal"),
    ("malay", "msa"),
    ("malayalam", "mal"),
    ("mandarin", "zho"),
    ("mar", "mar"),
    ("marathi", "mar"),
    ("may", "msa"),
    ("mk", "mkd"),
    ("mkd", "mkd"),
    ("ml", "mal"),
    ("mr", "mar"),
    ("ms", "msa"),
    ("msa", "msa"),
    ("nb", "nob"),
    ("nl", "nld"),
    ("nld", "nld"),
    ("nn", "nno"),
    ("nno", "nno"),
    ("no", "nor"),
    ("nob", "nob"),
    ("nor", "nor"),
    ("nordic", "nor"),
    ("norsk", "nor"),
    ("norwegian", "nor"),
    ("pa", "pan"),
    ("pan", "pan"),
    ("per", "fas"),
    ("persian", "fas"),
    ("pl", "pol"),
    ("pob", "por"),
    ("pol", "pol"),
    ("polish", "pol"),
    ("polski", "pol"),
    ("por", "por"),
    ("portugues", "por"),
    ("portuguese", "por"),
    ("pt", "por"),
    ("punjabi", "pan"),
    ("ro", "ron"),
    ("romanian", "ron"),
    ("ron", "ron"),
    ("ru", "rus"),
    ("rum", "ron"),
    ("rus", "rus"),
    ("russian", "rus"),
    ("scc", "srp"),
    ("scr", "hrv"),
    ("serbian", "srp"),
    ("sk", "slk"),
    ("sl", "slv"),
    ("slk", "slk"),
    ("slo", "slk"),
    ("slovak", "slk"),
    ("slovenian", "slv"),
    ("slv", "slv"),
    ("spa", "spa"),
    ("spanish", "spa"),
    ("sq", "sqi"),
    ("sqi", "sqi"),
    ("sr", "srp"),
    ("srp", "srp"),
    ("sv", "swe"),
    ("svenska", "swe"),
    ("swe", "swe"),
    ("swedish", "swe"),
    ("ta", "tam"),
    ("tagalog", "tgl"),
    ("tam", "tam"),
    ("tamil", "tam"),
    ("te", "tel"),
    ("tel", "tel"),
    ("telugu", "tel"),
    ("tgl", "tgl"),
    ("th", "tha"),
    ("tha", "tha"),
    ("thai", "tha"),
    ("tl", "tgl"),
    ("tr", "tur"),
    ("truefrench", "fra"),
    ("tur", "tur"),
    ("turkce", "tur"),
    ("turkish", "tur"),
    ("uk", "ukr"),
    ("ukr", "ukr"),
    ("ukrainian", "ukr"),
    ("ur", "urd"),
    ("urd", "urd"),
    ("urdu", "urd"),
    ("vi", "vie"),
    ("vie", "vie"),
    ("vietnamese", "vie"),
    ("wel", "cym"),
    ("welsh", "cym"),
    ("zh", "zho"),
    ("zho", "zho"),
];

/// Words at the end of a file name that tell its type. Sorted.
const EXTENSIONS: &[&str] = &[
    "3g2", "3gp", "aac", "ac3", "aif", "aiff", "alac", "ape", "asf", "ass", "avi", "bdmv", "bmp", "divx",
    "dsf", "dts", "dvr-ms", "flac", "flv", "gif", "heic", "idx", "ifo", "img", "iso", "jpeg", "jpg", "m2ts",
    "m4a", "m4b", "m4p", "m4v", "mk3d", "mka", "mkv", "mov", "mp2", "mp3", "mp4", "mpc", "mpeg", "mpg",
    "mts", "nfo", "nzb", "oga", "ogg", "ogm", "ogv", "opus", "png", "rar", "rmvb", "sbv", "smi", "srt",
    "ssa", "strm", "sub", "sup", "tif", "tiff", "torrent", "ts", "ttml", "txt", "vob", "vtt", "wav", "webm",
    "webp", "wma", "wmv", "wtv", "wv", "xml", "zip",
];

/// The name without its extension, and the extension in lower case (empty when it has none).
pub(super) fn split_extension(name: &str) -> (&str, String) {
    if let Some((stem, ext)) = name.rsplit_once('.') {
        let low = ext.to_ascii_lowercase();
        let numbered = low.len() == 3 && low.starts_with('r') && low[1..].bytes().all(|b| b.is_ascii_digit());
        if !stem.is_empty() && (listed(EXTENSIONS, &low) || numbered) {
            return (stem, low);
        }
        // A disc stub says its medium before the word: `film.bluray.disc`.
        if low == "disc" && !stem.is_empty() {
            let stem = stem.rsplit_once('.').map_or(stem, |(film, _)| film);
            return (stem, low);
        }
    }
    (name, String::new())
}

/// ISO 639-2 code of a language's folded name or code.
pub(super) fn language(folded: &str) -> Option<&'static str> {
    LANGUAGES.binary_search_by(|(word, _)| (*word).cmp(folded)).ok().map(|at| LANGUAGES[at].1)
}

fn listed(list: &[&str], word: &str) -> bool {
    list.binary_search(&word).is_ok()
}

/// Digits then a given ending: `720p`, `700mb`.
fn digits_then(word: &str, ends: &[&str]) -> bool {
    let rest = word.trim_start_matches(|c: char| c.is_ascii_digit());
    rest.len() < word.len() && ends.contains(&rest)
}

/// Strong by its shape: a resolution, size, codec with digits glued to it, checksum in brackets.
fn strong_shape(name: &Name, token: usize, low: &str) -> bool {
    let digits = low.bytes().take_while(u8::is_ascii_digit).count();
    if digits > 0 {
        if (3..=4).contains(&digits) {
            let rest = &low[digits..];
            if rest.len() < 5
                && (rest.starts_with('p') || rest.starts_with('i'))
                && rest[1..].bytes().all(|b| b.is_ascii_digit())
            {
                return true;
            }
            if let Some(height) = rest.strip_prefix('x') {
                let height = height.trim_end_matches("up").trim_end_matches(['p', 'i']);
                return (3..=4).contains(&height.len()) && height.bytes().all(|b| b.is_ascii_digit());
            }
        }
        if digits_then(low, &["bit", "bits", "ch", "mb", "gb", "tb", "kbps", "mbps", "fps"]) {
            return true;
        }
    }
    if low.len() >= 3 && !low.is_ascii() {
        return false;
    }
    let stem = low.trim_end_matches(|c: char| c.is_ascii_digit());
    if stem.len() < low.len() {
        let number = &low[stem.len()..];
        if matches!(stem, "x" | "h") && matches!(number, "261" | "262" | "263" | "264" | "265" | "266") {
            return true;
        }
        if matches!(
            stem,
            "dd" | "ddp"
                | "aac"
                | "eac"
                | "ac"
                | "flac"
                | "dts"
                | "hevc"
                | "truehd"
                | "avc"
                | "webdl"
                | "bt"
                | "ma"
        ) {
            return number.len() <= 4 && !(stem == "ma" && number.len() > 1);
        }
        if stem == "tt" && number.len() >= 7 {
            return true;
        }
        if stem == "vr" && matches!(number, "180" | "360") {
            return true;
        }
    }
    if ["x264", "h264", "x265", "h265", "xvid"].iter().any(|codec| low.ends_with(codec)) && low.len() <= 14 {
        return true;
    }
    low.len() == 8
        && name.alone_in_group(token)
        && low.bytes().all(|b| b.is_ascii_hexdigit())
        && low.bytes().any(|b| b.is_ascii_digit())
}

/// Strong as two or three tokens: `WEB-DL`, `Blu-Ray`, `H.264`, `Half-SBS`. Their count.
fn strong_run(name: &Name, token: usize) -> usize {
    let next = name.low(token + 1);
    let near = name.gap(token + 1).len() == 1;
    let yes = near
        && match name.low(token) {
            "web" => {
                matches!(next, "dl" | "rip" | "dlrip" | "cap")
                    || next.ends_with("264")
                    || next.ends_with("265")
            }
            "blu" => next.starts_with("ray"),
            "h" | "x" if matches!(next, "264" | "265" | "262" | "263" | "266") => true,
            "dvd" => matches!(next, "rip" | "r" | "scr" | "screener"),
            "hd" => matches!(next, "tv" | "dvd" | "rip" | "cam" | "ts"),
            "bd" | "br" | "tv" | "vhs" | "cam" | "dvb" | "sat" | "dth" => next == "rip",
            "dts" => matches!(next, "hd" | "x" | "es" | "ma"),
            "mpeg" => matches!(next, "2" | "4"),
            "vc" => next == "1",
            "dd" | "ddp" => matches!(next, "5" | "2" | "7" | "1"),
            "half" | "h" if matches!(next, "sbs" | "ou" | "tab") => true,
            "vr" => matches!(next, "180" | "360"),
            "10" | "8" | "12" => matches!(next, "bit" | "bits"),
            "open" => next == "matte",
            "dual" => next == "audio",
            "e" => next == "ac",
            "split" => next == "scenes",
            "bt" => matches!(next, "2020" | "709"),
            _ => false,
        };
    if yes { 2 } else { 0 }
}

/// Every token's place in the vocabulary.
pub(super) fn classify(name: &Name) -> Vec<Word> {
    let count = name.tokens.len();
    let mut words = vec![Word::Plain; count];
    let mut token = 0;
    while token < count {
        let run = strong_run(name, token);
        if run > 0 {
            words[token..(token + run).min(count)].fill(Word::Strong);
            token += run;
            continue;
        }
        words[token] = single(name, token);
        token += 1;
    }
    words
}

fn single(name: &Name, token: usize) -> Word {
    let low = name.low(token);
    // Common words count as release words in capitals (or the scene's odd case) alone, unless the
    // whole name is lower case, where nothing can be told from case.
    let spoken = listed(SHOUTED, low) && !shouted(name, token);
    if listed(STRONG, low) || strong_shape(name, token, low) {
        Word::Strong
    } else if matches!(low, "480" | "540" | "576" | "720" | "1080" | "2160") {
        if name.dashed(token) || token == 0 || name.number(token + 1).is_some() {
            Word::Plain
        } else {
            Word::Weak
        }
    } else if spoken {
        Word::Plain
    } else if listed(TAGS, low) {
        Word::Tag
    } else if listed(WEAK, low)
        || version(low)
        || digits_then(low, &["cd", "cds", "dvd", "dvds", "disc", "discs"])
    {
        Word::Weak
    } else if low.len() >= 2
        && language(low).is_some()
        && (low.len() > 3
            || NEVER_WORDS.contains(&low)
            || name.upper(token)
            || name.group_of(token).is_some())
    {
        Word::Language
    } else {
        Word::Plain
    }
}

/// `v2`: the second release of a file.
fn version(low: &str) -> bool {
    low.len() == 2 && low.starts_with('v') && low.as_bytes()[1].is_ascii_digit()
}

/// In capitals, or with a small `i` among capitals as scene groups write (`iNTERNAL`, `FiX`).
fn shouted(name: &Name, token: usize) -> bool {
    let raw = name.raw(token);
    raw.chars().any(char::is_uppercase) && !raw.chars().any(|c| c.is_lowercase() && c != 'i')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_that_are_searched_are_sorted() {
        assert!(
            LANGUAGES.is_sorted_by(|a, b| a.0 < b.0),
            "{:?}",
            LANGUAGES.windows(2).find(|w| w[0].0 >= w[1].0)
        );
        for list in [STRONG, WEAK, TAGS, SHOUTED, EXTENSIONS] {
            assert!(list.is_sorted_by(|a, b| a < b), "{:?}", list.windows(2).find(|w| w[0] >= w[1]));
        }
    }

    #[test]
    fn a_disc_stub_loses_medium_and_extension() {
        assert_eq!(split_extension("300 (2006).bluray.disc"), ("300 (2006)", "disc".into()));
        assert_eq!(split_extension("Mr. Tide"), ("Mr. Tide", String::new()));
        assert_eq!(split_extension(".mkv"), (".mkv", String::new()));
    }

    #[test]
    fn strong_words_are_seen_across_separators() {
        let name = Name::new("Film.WEB-DL.H.264.700MB.1080p");
        let words = classify(&name);
        assert_eq!(words[0], Word::Plain);
        assert!(words[1..].iter().all(|word| *word == Word::Strong), "{words:?}");
    }
}
