//! Subtitle files beside a film, as WebVTT (W3C, "WebVTT: The Web Video Text Tracks Format").
//!
//! Whatever bytes they hold, what comes out is UTF-8 whose cue text is escaped: a subtitle can put
//! text on the screen and nothing else. Bytes that are text in no way become U+FFFD and the rest
//! stays: one bad byte must not cost the film its subtitles.

use std::fmt::Write as _;

use spindle_base::error::ErrorKind;
use thiserror::Error;

mod ass;
mod charset;
mod srt;

/// Bytes of the largest file that is read: a day of dense dialogue is below 4 MiB.
pub const MAX_BYTES: usize = 16 << 20;

/// Text formats of files beside a film.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// SubRip.
    Srt,
    /// WebVTT.
    WebVtt,
    /// Advanced SubStation Alpha and its ancestor SSA.
    Ass,
}

impl Format {
    /// The format that a file's extension or FFmpeg's codec name tells.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        match word.to_ascii_lowercase().as_str() {
            "srt" | "subrip" => Some(Self::Srt),
            "vtt" | "webvtt" => Some(Self::WebVtt),
            "ass" | "ssa" => Some(Self::Ass),
            _ => None,
        }
    }
}

/// Why a file could not be converted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SubtitleError {
    /// Larger than any subtitles are.
    #[error("the subtitle file is larger than {MAX_BYTES} bytes")]
    TooLarge,
    /// Nothing in it is a cue.
    #[error("the subtitle file holds no cue")]
    NoCues,
}

impl SubtitleError {
    /// What it means to the one who asked.
    #[must_use]
    pub fn kind(self) -> ErrorKind {
        match self {
            Self::TooLarge => ErrorKind::OverLimit,
            Self::NoCues => ErrorKind::Unreadable,
        }
    }
}

/// One cue. The text is escaped, with no other tags than `<i>`, `<b>`, `<u>`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Cue {
    start_ms: u64,
    end_ms: u64,
    settings: String,
    text: String,
}

/// The file's bytes as WebVTT; `language` (any spelling, see `language`) helps to tell the code page of
/// a short file.
///
/// # Errors
/// When the file is too large or holds no cue.
pub fn to_webvtt(bytes: &[u8], format: Format, language: Option<&str>) -> Result<String, SubtitleError> {
    if bytes.len() > MAX_BYTES {
        return Err(SubtitleError::TooLarge);
    }
    let text = charset::decode(bytes, language);
    let mut cues = match format {
        // A file of one kind with the other's extension is common, and one reader does for both.
        Format::Srt | Format::WebVtt => srt::cues(&text),
        Format::Ass => ass::cues(&text),
    };
    cues.retain(|c| c.end_ms > c.start_ms && !c.text.trim().is_empty());
    if cues.is_empty() {
        return Err(SubtitleError::NoCues);
    }
    // Players that index by time want them so, and ASS files are in any order.
    cues.sort_by_key(|c| (c.start_ms, c.end_ms));
    Ok(write(&cues))
}

/// The file's text as it is, in UTF-8; `language` as for [`to_webvtt`].
///
/// # Errors
/// When the file is too large.
pub fn to_utf8(bytes: &[u8], language: Option<&str>) -> Result<String, SubtitleError> {
    if bytes.len() > MAX_BYTES {
        return Err(SubtitleError::TooLarge);
    }
    Ok(charset::decode(bytes, language))
}

fn write(cues: &[Cue]) -> String {
    let mut out = String::from("WEBVTT\n");
    for c in cues {
        let _ = writeln!(out, "\n{} --> {}{}", stamp(c.start_ms), stamp(c.end_ms), c.settings);
        // A blank line would end the cue.
        for line in c.text.lines().filter(|l| !l.trim().is_empty()) {
            out.push_str(line.trim_end());
            out.push('\n');
        }
    }
    out
}

fn stamp(ms: u64) -> String {
    format!("{:02}:{:02}:{:02}.{:03}", ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60, ms % 1_000)
}

/// Adds a character of text, escaped.
fn push_escaped(out: &mut String, c: char) {
    match c {
        '&' => out.push_str("&amp;"),
        '<' => out.push_str("&lt;"),
        '>' => out.push_str("&gt;"),
        '\0' => out.push('\u{fffd}'),
        c => out.push(c),
    }
}

/// A time as these formats write it: `[h:]mm:ss[.,]fff`, fraction of one to three digits.
fn milliseconds(text: &str) -> Option<u64> {
    let text = text.trim();
    let (whole, fraction) = text.split_once([',', '.']).unwrap_or((text, "0"));
    let mut seconds = 0_u64;
    let mut parts = 0;
    for part in whole.split(':') {
        let n: u64 = part.trim().parse().ok().filter(|n| *n < 100_000)?;
        seconds = seconds * 60 + n;
        parts += 1;
    }
    if !(2..=3).contains(&parts) {
        return None;
    }
    let digits: String = fraction.chars().take_while(char::is_ascii_digit).take(3).collect();
    let scale = [1_000, 100, 10, 1][digits.len()];
    let ms = if digits.is_empty() { 0 } else { digits.parse::<u64>().ok()? * scale };
    Some(seconds * 1_000 + ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SRT: &str = "1\r\n00:00:01,000 --> 00:00:03,000\r\nTEXT\r\n\r\n2\r\n00:00:04,000 --> \
                       00:00:06,500\r\nMORE\r\n";

    fn srt(text: &str, more: &str) -> String {
        SRT.replace("TEXT", text).replace("MORE", more)
    }

    fn vtt(text: &str, more: &str) -> String {
        format!("WEBVTT\n\n00:00:01.000 --> 00:00:03.000\n{text}\n\n00:00:04.000 --> 00:00:06.500\n{more}\n")
    }

    #[test]
    fn every_code_page_of_the_case_comes_out_as_utf_8() {
        // SU03. The texts are those of the sample library.
        let rows: [(&str, &str, &str, &str); 8] = [
            ("windows-1252", "es", "¿Dónde está el niño?", "Mañana – “quizás”… 10 €"),
            ("shift_jis", "ja", "時計を見てください", "次の駅は東京です"),
            ("windows-1251", "ru", "Посмотрите на часы", "Следующая остановка"),
            ("iso-8859-7", "el", "Κοίτα το ρολόι", "Επόμενη στάση"),
            ("big5", "zh-Hant", "請看時鐘", "下一站是海港"),
            ("gbk", "zh-Hans", "请看时钟", "下一站是海港"),
            ("big5", "zh", "請看時鐘", "下一站是海港"),
            ("utf-8", "fr", "L’horloge indique déjà", "…"),
        ];
        for (label, language, text, more) in rows {
            let encoding = encoding_rs::Encoding::for_label(label.as_bytes()).unwrap();
            let source = srt(text, more);
            let (bytes, _, lost) = encoding.encode(&source);
            assert!(!lost);
            let out = to_webvtt(&bytes, Format::Srt, Some(language)).unwrap();
            assert_eq!(out, vtt(text, more), "{label}");
        }
    }

    #[test]
    fn utf_16_is_told_with_and_without_a_mark() {
        let text = srt("Schöne Grüße", "Nächster Halt: Hafenstraße");
        let le: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let be: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        let marked = [&[0xff, 0xfe][..], &le].concat();
        let utf8 = [&[0xef, 0xbb, 0xbf][..], text.as_bytes()].concat();
        for bytes in [le, be, marked, utf8] {
            let out = to_webvtt(&bytes, Format::Srt, Some("de")).unwrap();
            assert_eq!(out, vtt("Schöne Grüße", "Nächster Halt: Hafenstraße"));
        }
    }

    #[test]
    fn one_bad_byte_costs_one_character() {
        // SU09: otherwise UTF-8.
        let mut bytes = srt("déjà vu – encore une fois, déjà", "après").into_bytes();
        let at = bytes.windows(2).position(|w| w == b"vu").unwrap();
        bytes[at] = 0xff;
        let out = to_webvtt(&bytes, Format::Srt, Some("fr")).unwrap();
        assert_eq!(out, vtt("déjà \u{fffd}u – encore une fois, déjà", "après"));
    }

    #[test]
    fn times_are_read_as_people_write_them() {
        for (text, ms) in [
            ("00:00:01,000", Some(1_000)),
            ("01:02.5", Some(62_500)),
            ("1:00:00.25", Some(3_600_250)),
            ("0:00:01.234567", Some(1_234)),
            ("00:01", Some(1_000)),
            ("12", None),
            ("a:b", None),
            ("1:2:3:4", None),
            ("-1:00", None),
            ("99999999999999999999:00", None),
        ] {
            assert_eq!(milliseconds(text), ms, "{text}");
        }
    }

    #[test]
    fn a_file_without_cues_or_of_gigabytes_is_refused() {
        assert_eq!(to_webvtt(b"", Format::Srt, None), Err(SubtitleError::NoCues));
        assert_eq!(
            to_webvtt(b"#EXTM3U\nfile:///etc/hostname\n", Format::Srt, None),
            Err(SubtitleError::NoCues)
        );
        assert_eq!(to_webvtt(&vec![b' '; MAX_BYTES + 1], Format::Ass, None), Err(SubtitleError::TooLarge));
    }

    #[test]
    fn formats_are_told_by_extension_and_codec() {
        assert_eq!(Format::from_word("SRT"), Some(Format::Srt));
        assert_eq!(Format::from_word("ssa"), Some(Format::Ass));
        assert_eq!(Format::from_word("sup"), None);
    }
}
