//! Language codes: everything that files and people write becomes ISO 639-2/T, lower case.

/// ISO 639-1, ISO 639-2/T, and ISO 639-2/B where it differs (Library of Congress code list).
#[rustfmt::skip]
const CODES: &[(&str, &str, &str)] = &[
    ("aa", "aar", ""), ("ab", "abk", ""), ("ae", "ave", ""), ("af", "afr", ""), ("ak", "aka", ""),
    ("am", "amh", ""), ("an", "arg", ""), ("ar", "ara", ""), ("as", "asm", ""), ("av", "ava", ""),
    ("ay", "aym", ""), ("az", "aze", ""), ("ba", "bak", ""), ("be", "bel", ""), ("bg", "bul", ""),
    ("bi", "bis", ""), ("bm", "bam", ""), ("bn", "ben", ""), ("bo", "bod", "tib"),
    ("br", "bre", ""), ("bs", "bos", ""), ("ca", "cat", ""), ("ce", "che", ""), ("ch", "cha", ""),
    ("co", "cos", ""), ("cr", "cre", ""), ("cs", "ces", "cze"), ("cu", "chu", ""),
    ("cv", "chv", ""), ("cy", "cym", "wel"), ("da", "dan", ""), ("de", "deu", "ger"),
    ("dv", "div", ""), ("dz", "dzo", ""), ("ee", "ewe", ""), ("el", "ell", "gre"),
    ("en", "eng", ""), ("eo", "epo", ""), ("es", "spa", ""), ("et", "est", ""),
    ("eu", "eus", "baq"), ("fa", "fas", "per"), ("ff", "ful", ""), ("fi", "fin", ""),
    ("fj", "fij", ""), ("fo", "fao", ""), ("fr", "fra", "fre"), ("fy", "fry", ""),
    ("ga", "gle", ""), ("gd", "gla", ""), ("gl", "glg", ""), ("gn", "grn", ""), ("gu", "guj", ""),
    ("gv", "glv", ""), ("ha", "hau", ""), ("he", "heb", ""), ("hi", "hin", ""), ("ho", "hmo", ""),
    ("hr", "hrv", ""), ("ht", "hat", ""), ("hu", "hun", ""), ("hy", "hye", "arm"),
    ("hz", "her", ""), ("ia", "ina", ""), ("id", "ind", ""), ("ie", "ile", ""), ("ig", "ibo", ""),
    ("ii", "iii", ""), ("ik", "ipk", ""), ("io", "ido", ""), ("is", "isl", "ice"),
    ("it", "ita", ""), ("iu", "iku", ""), ("ja", "jpn", ""), ("jv", "jav", ""),
    ("ka", "kat", "geo"), ("kg", "kon", ""), ("ki", "kik", ""), ("kj", "kua", ""),
    ("kk", "kaz", ""), ("kl", "kal", ""), ("km", "khm", ""), ("kn", "kan", ""), ("ko", "kor", ""),
    ("kr", "kau", ""), ("ks", "kas", ""), ("ku", "kur", ""), ("kv", "kom", ""), ("kw", "cor", ""),
    ("ky", "kir", ""), ("la", "lat", ""), ("lb", "ltz", ""), ("lg", "lug", ""), ("li", "lim", ""),
    ("ln", "lin", ""), ("lo", "lao", ""), ("lt", "lit", ""), ("lu", "lub", ""), ("lv", "lav", ""),
    ("mg", "mlg", ""), ("mh", "mah", ""), ("mi", "mri", "mao"), ("mk", "mkd", "mac"),
    ("ml", "mal", ""), ("mn", "mon", ""), ("mr", "mar", ""), ("ms", "msa", "may"),
    ("mt", "mlt", ""), ("my", "mya", "bur"), ("na", "nau", ""), ("nb", "nob", ""),
    ("nd", "nde", ""), ("ne", "nep", ""), ("ng", "ndo", ""), ("nl", "nld", "dut"),
    ("nn", "nno", ""), ("no", "nor", ""), ("nr", "nbl", ""), ("nv", "nav", ""), ("ny", "nya", ""),
    ("oc", "oci", ""), ("oj", "oji", ""), ("om", "orm", ""), ("or", "ori", ""), ("os", "oss", ""),
    ("pa", "pan", ""), ("pi", "pli", ""), ("pl", "pol", ""), ("ps", "pus", ""), ("pt", "por", ""),
    ("qu", "que", ""), ("rm", "roh", ""), ("rn", "run", ""), ("ro", "ron", "rum"),
    ("ru", "rus", ""), ("rw", "kin", ""), ("sa", "san", ""), ("sc", "srd", ""), ("sd", "snd", ""),
    ("se", "sme", ""), ("sg", "sag", ""), ("si", "sin", ""), ("sk", "slk", "slo"),
    ("sl", "slv", ""), ("sm", "smo", ""), ("sn", "sna", ""), ("so", "som", ""),
    ("sq", "sqi", "alb"), ("sr", "srp", ""), ("ss", "ssw", ""), ("st", "sot", ""),
    ("su", "sun", ""), ("sv", "swe", ""), ("sw", "swa", ""), ("ta", "tam", ""), ("te", "tel", ""),
    ("tg", "tgk", ""), ("th", "tha", ""), ("ti", "tir", ""), ("tk", "tuk", ""), ("tl", "tgl", ""),
    ("tn", "tsn", ""), ("to", "ton", ""), ("tr", "tur", ""), ("ts", "tso", ""), ("tt", "tat", ""),
    ("tw", "twi", ""), ("ty", "tah", ""), ("ug", "uig", ""), ("uk", "ukr", ""), ("ur", "urd", ""),
    ("uz", "uzb", ""), ("ve", "ven", ""), ("vi", "vie", ""), ("vo", "vol", ""), ("wa", "wln", ""),
    ("wo", "wol", ""), ("xh", "xho", ""), ("yi", "yid", ""), ("yo", "yor", ""), ("za", "zha", ""),
    ("zh", "zho", "chi"), ("zu", "zul", ""),
];

/// Codes of ISO 639-2 and 639-3 without a two-letter form that films really carry.
#[rustfmt::skip]
const THREE_ONLY: &[&str] = &[
    "ast", "bho", "ceb", "chr", "cmn", "cnr", "csb", "dsb", "egy", "fil", "fur", "grc", "gsw",
    "haw", "hil", "hmn", "hsb", "ilo", "kok", "lad", "mai", "mis", "mni", "mnw", "mul", "mwl",
    "nan", "nap", "nds", "nso", "pap", "sah", "sat", "scn", "sco", "sgn", "syr", "tet", "tlh",
    "tpi", "vls", "wuu", "yue", "zxx",
];

/// English and native names, as people and old muxers write them.
const NAMES: &[(&str, &str)] = &[
    ("arabic", "ara"),
    ("bulgarian", "bul"),
    ("chinese", "zho"),
    ("mandarin", "zho"),
    ("cantonese", "yue"),
    ("croatian", "hrv"),
    ("czech", "ces"),
    ("danish", "dan"),
    ("dansk", "dan"),
    ("dutch", "nld"),
    ("nederlands", "nld"),
    ("english", "eng"),
    ("estonian", "est"),
    ("finnish", "fin"),
    ("suomi", "fin"),
    ("french", "fra"),
    ("français", "fra"),
    ("francais", "fra"),
    ("german", "deu"),
    ("deutsch", "deu"),
    ("greek", "ell"),
    ("hebrew", "heb"),
    ("hindi", "hin"),
    ("hungarian", "hun"),
    ("magyar", "hun"),
    ("icelandic", "isl"),
    ("indonesian", "ind"),
    ("italian", "ita"),
    ("italiano", "ita"),
    ("japanese", "jpn"),
    ("korean", "kor"),
    ("latvian", "lav"),
    ("lithuanian", "lit"),
    ("malay", "msa"),
    ("norwegian", "nor"),
    ("norsk", "nor"),
    ("persian", "fas"),
    ("farsi", "fas"),
    ("polish", "pol"),
    ("polski", "pol"),
    ("portuguese", "por"),
    ("português", "por"),
    ("portugues", "por"),
    ("romanian", "ron"),
    ("russian", "rus"),
    ("serbian", "srp"),
    ("slovak", "slk"),
    ("slovenian", "slv"),
    ("spanish", "spa"),
    ("español", "spa"),
    ("espanol", "spa"),
    ("castellano", "spa"),
    ("swedish", "swe"),
    ("svenska", "swe"),
    ("tamil", "tam"),
    ("telugu", "tel"),
    ("thai", "tha"),
    ("turkish", "tur"),
    ("ukrainian", "ukr"),
    ("vietnamese", "vie"),
];

/// The ISO 639-2/T code of a language as files and people write it: two or three letters,
/// bibliographic codes, BCP 47 tags (`pt-BR`, `zh_Hant`), names. `None` for what says nothing
/// (`und`, empty) and for words that are no language.
#[must_use]
pub fn normalise(text: &str) -> Option<&'static str> {
    let lower = text.trim().trim_matches('\0').to_lowercase();
    if let Some((_, code)) = NAMES.iter().find(|(name, _)| *name == lower) {
        return Some(code);
    }
    let primary = lower.split(['-', '_']).next()?;
    // ISO 639-1 codes that were withdrawn and live on in old files.
    let primary = match primary {
        "iw" => "he",
        "in" => "id",
        "ji" => "yi",
        "mo" => "ro",
        "sh" => "sr",
        other => other,
    };
    let (two, three) = match primary.len() {
        2 => (primary, ""),
        3 => ("", primary),
        _ => return None,
    };
    CODES
        .iter()
        .find(|(a, t, b)| *a == two || *t == three || (*b == three && !b.is_empty()))
        .map(|(_, t, _)| *t)
        .or_else(|| THREE_ONLY.iter().copied().find(|t| *t == three))
}

/// The ISO 639-1 code of an ISO 639-2/T one, for `srclang` and `LANGUAGE` attributes (RFC 5646 wants
/// the shortest); the code itself where there is none.
#[must_use]
pub fn shortest(code: &str) -> &str {
    CODES.iter().find(|(_, t, _)| *t == code).map_or(code, |(a, _, _)| a)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_becomes_one_code() {
        for (text, code) in [
            ("en", Some("eng")),
            ("eng", Some("eng")),
            ("English", Some("eng")),
            ("fre", Some("fra")),
            ("fra", Some("fra")),
            ("fr-CA", Some("fra")),
            ("ger", Some("deu")),
            ("pt-BR", Some("por")),
            ("pt_BR", Some("por")),
            ("zh-Hant", Some("zho")),
            ("zh_CN", Some("zho")),
            ("chi", Some("zho")),
            ("yue", Some("yue")),
            ("hi", Some("hin")),
            ("iw", Some("heb")),
            ("JPN", Some("jpn")),
            ("gsw", Some("gsw")),
            ("Español", Some("spa")),
            ("mul", Some("mul")),
            ("und", None),
            ("", None),
            ("forced", None),
            ("x", None),
            ("qqq", None),
            ("\0\0\0", None),
        ] {
            assert_eq!(normalise(text), code, "{text:?}");
        }
    }

    #[test]
    fn the_table_has_no_code_twice() {
        let mut two: Vec<_> = CODES.iter().map(|c| c.0).collect();
        let mut three: Vec<_> = CODES.iter().flat_map(|c| [c.1, c.2]).filter(|c| !c.is_empty()).collect();
        three.extend(THREE_ONLY);
        let all = (two.len(), three.len());
        two.sort_unstable();
        two.dedup();
        three.sort_unstable();
        three.dedup();
        assert_eq!((two.len(), three.len()), all);
        assert!(NAMES.iter().all(|(_, code)| three.contains(code)));
    }

    #[test]
    fn two_letters_where_there_are_two() {
        assert_eq!((shortest("eng"), shortest("zho"), shortest("yue")), ("en", "zh", "yue"));
    }
}
