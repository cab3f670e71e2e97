//! Which characters the bytes of a subtitle file are.

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};

/// Bytes looked at to tell UTF-16 by its zeros.
const SAMPLE: usize = 4096;

/// The text of `bytes`; what cannot be read becomes U+FFFD.
pub(super) fn decode(bytes: &[u8], language: Option<&str>) -> String {
    // A mark settles it; `decode` below takes it off.
    let encoding = Encoding::for_bom(bytes)
        .map(|(encoding, _)| encoding)
        .or_else(|| utf16_without_mark(bytes))
        .or_else(|| mostly_utf8(bytes))
        .unwrap_or_else(|| guess(bytes, language));
    let (text, _, _) = encoding.decode(bytes);
    // A NUL is text in no format, and a writer of C strings would end there.
    text.replace('\0', "\u{fffd}")
}

/// UTF-16 without a mark: subtitle files are full of digits and line ends, whose other byte is zero.
fn utf16_without_mark(bytes: &[u8]) -> Option<&'static Encoding> {
    let sample = &bytes[..bytes.len().min(SAMPLE)];
    let pairs = sample.len() / 2;
    if pairs < 4 {
        return None;
    }
    let zeros = |offset: usize| sample.iter().skip(offset).step_by(2).filter(|b| **b == 0).count();
    let (first, second) = (zeros(0), zeros(1));
    // A quarter: with dialogue in Cyrillic or kanji only times and line ends have zeros.
    if first * 4 > pairs && second * 20 < pairs {
        Some(UTF_16BE)
    } else if second * 4 > pairs && first * 20 < pairs {
        Some(UTF_16LE)
    } else {
        None
    }
}

/// UTF-8, also with a few damaged bytes: no other encoding has as many well-formed sequences by
/// chance.
fn mostly_utf8(bytes: &[u8]) -> Option<&'static Encoding> {
    let (mut good, mut bad) = (0_usize, 0_usize);
    for chunk in bytes.utf8_chunks() {
        good += chunk.valid().chars().filter(|c| !c.is_ascii()).count();
        bad += usize::from(!chunk.invalid().is_empty());
    }
    (bad == 0 || good >= bad * 4).then_some(UTF_8)
}

fn guess(bytes: &[u8], language: Option<&str>) -> &'static Encoding {
    let tag = language.unwrap_or_default().to_ascii_lowercase().replace('_', "-");
    let mut detector = chardetng::EncodingDetector::new(chardetng::Iso2022JpDetection::Allow);
    detector.feed(bytes, true);
    detector.guess(top_level_domain(&tag), chardetng::Utf8Detection::Allow)
}

/// The detector was made for the web and takes a hint in its terms: the country whose pages would
/// be in that language.
fn top_level_domain(tag: &str) -> Option<&'static [u8]> {
    if tag.starts_with("zh") || tag.starts_with("chi") {
        let traditional = ["hant", "tw", "hk", "mo"].iter().any(|t| tag.contains(t));
        let simplified = ["hans", "cn", "sg"].iter().any(|t| tag.contains(t));
        return match (traditional, simplified) {
            (true, false) => Some(b"tw"),
            (false, true) => Some(b"cn"),
            _ => None,
        };
    }
    Some(match crate::language::normalise(tag)? {
        "jpn" => b"jp",
        "kor" => b"kr",
        "rus" => b"ru",
        "ukr" => b"ua",
        "bel" => b"by",
        "bul" => b"bg",
        "srp" => b"rs",
        "mkd" => b"mk",
        "ell" => b"gr",
        "tur" => b"tr",
        "aze" => b"az",
        "heb" => b"il",
        "ara" => b"eg",
        "fas" => b"ir",
        "tha" => b"th",
        "vie" => b"vn",
        "pol" => b"pl",
        "ces" => b"cz",
        "slk" => b"sk",
        "hun" => b"hu",
        "ron" => b"ro",
        "slv" => b"si",
        "hrv" => b"hr",
        "est" => b"ee",
        "lav" => b"lv",
        "lit" => b"lt",
        "isl" => b"is",
        _ => return None,
    })
}
