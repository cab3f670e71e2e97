//! What a file is that is no media file, told by its first bytes: a playlist must never be opened,
//! whatever its name says, and its owner wants to know what it is.

/// The kind of thing, or `None` if it may be media.
pub(crate) fn of_no_media(head: &[u8]) -> Option<&'static str> {
    if head.len() >= 4096 && head.iter().all(|b| *b == 0) {
        return Some("it holds nothing but zeros");
    }
    if head.starts_with(b"PK\x03\x04") || head.starts_with(b"PK\x05\x06") {
        return Some("it is a ZIP archive");
    }
    if head.starts_with(b"Rar!\x1a\x07") {
        return Some("it is a RAR archive");
    }
    if head.starts_with(b"7z\xbc\xaf\x27\x1c") {
        return Some("it is a 7z archive");
    }
    if head.starts_with(&[0x1f, 0x8b, 8]) {
        return Some("it is gzip-compressed data");
    }
    if head.starts_with(b"%PDF-") {
        return Some("it is a PDF document");
    }
    if head.starts_with(b"\x7fELF") || head.starts_with(b"MZ\x90\0") {
        return Some("it is a program");
    }
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    let text = text.trim_ascii_start();
    let lower: Vec<u8> = text.iter().take(4096).map(u8::to_ascii_lowercase).collect();
    let has = |word: &[u8]| lower.windows(word.len()).any(|w| w == word);
    let begins = |word: &[u8]| lower.starts_with(word);
    if begins(b"#extm3u") {
        return Some(if has(b"#ext-x-") { "it is an HLS playlist" } else { "it is a playlist (M3U)" });
    }
    if begins(b"ffconcat") {
        return Some("it is a list of other files");
    }
    if begins(b"[playlist]") {
        return Some("it is a playlist (PLS)");
    }
    if begins(b"v=0") && has(b"\nm=") {
        return Some("it is a stream description (SDP)");
    }
    if begins(b"<") {
        if has(b"<mpd") {
            return Some("it is a DASH manifest");
        }
        if has(b"<html") || has(b"<!doctype html") {
            return Some("it is a web page");
        }
        if has(b"<smil") || has(b"<asx") || has(b"<playlist") {
            return Some("it is a playlist (XML)");
        }
        if has(b"<svg") {
            return Some("it is a drawing (SVG)");
        }
        if begins(b"<?xml") {
            return Some("it is an XML document");
        }
    }
    if begins(b"#!") {
        return Some("it is a script");
    }
    None
}

/// Whether data that FFmpeg takes for `demuxer`, which also goes by the name of the file, begins as
/// such data does.
pub(crate) fn may_be(demuxer: &str, head: &[u8]) -> bool {
    if demuxer.contains("mp4") {
        // ISO/IEC 14496-12 section 4.2, and QuickTime's older files that begin with any of these.
        return head.get(4..8).is_some_and(|name| {
            [
                b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"pnot", b"styp", b"moof", b"sidx",
                b"uuid",
            ]
            .iter()
            .any(|n| name == *n)
        });
    }
    if demuxer.contains("matroska") {
        return head.windows(4).take(4096).any(|w| w == [0x1a, 0x45, 0xdf, 0xa3]);
    }
    true
}

/// Whether it is plain text: asked only after FFmpeg found no subtitle format in it.
pub(crate) fn is_text(head: &[u8]) -> bool {
    let head = match std::str::from_utf8(head) {
        Ok(text) => text,
        // A character may be cut at the end of what we have.
        Err(e) if e.error_len().is_none() => std::str::from_utf8(&head[..e.valid_up_to()]).unwrap_or(""),
        Err(_) => return false,
    };
    !head.is_empty() && !head.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t' | '\u{c}'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_media_is_named() {
        for (head, word) in [
            (&b"#EXTM3U\nhttp://127.0.0.1/x.ts\n"[..], "playlist (M3U)"),
            (b"\xef\xbb\xbf#EXTM3U\n#EXT-X-VERSION:3\n", "HLS playlist"),
            (b"ffconcat version 1.0\nfile /etc/passwd\n", "list of other files"),
            (b"<?xml version=\"1.0\"?>\n<MPD xmlns=\"urn:mpeg:dash:schema:mpd:2011\">", "DASH"),
            (b"<!DOCTYPE html><html></html>", "web page"),
            (b"PK\x03\x04\x14\0", "ZIP"),
            (b"Rar!\x1a\x07\x01\0", "RAR"),
            (&[0; 4096], "zeros"),
        ] {
            assert!(of_no_media(head).is_some_and(|what| what.contains(word)), "{word}");
        }
    }

    #[test]
    fn media_and_subtitles_may_be_media() {
        let mut mp4 = vec![0, 0, 0, 32];
        mp4.extend_from_slice(b"ftypisom");
        for head in [
            &mp4[..],
            b"\x1a\x45\xdf\xa3",
            b"1\n00:00:01,000 --> 00:00:02,000\nHi\n",
            b"WEBVTT\n",
            b"",
            &[0; 100],
        ] {
            assert_eq!(of_no_media(head), None);
        }
        assert!(is_text("a b\nÄ".as_bytes()));
        assert!(is_text(&"Ä".as_bytes()[..1]) || "Ä".len() == 2);
        assert!(!is_text(&[0x47, 0, 1, 2]));
    }
}
