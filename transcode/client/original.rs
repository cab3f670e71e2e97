//! Subtitles as the file has them, written as files of their own: the pure part, used by the worker and
//! tested here.
//!
//! - ASS: the header that the container keeps, and every event as a line of a script again (Matroska codec
//!   mappings, "S_TEXT/ASS").
//! - PGS: a `.sup` file: each segment behind `PG`, its time and its decoding time at 90 kHz.
//! - VobSub: what its two files hold, in one: the length of the index text (32 bit, big endian), that text
//!   (palette and canvas; it names nothing that is opened), then for each picture its time at 90 kHz, its
//!   length (32 bit each, big endian) and its bytes, a sub-picture unit.

/// Bytes of the largest stream that is written: PGS of a long film has about 60 MiB.
pub const MAX_BYTES: usize = 96 << 20;
/// Bytes of the largest script: a day of karaoke is below it.
pub const MAX_SCRIPT_BYTES: usize = 16 << 20;
/// Bytes of the largest font that is handed out: one for Chinese, Japanese and Korean has about 20 MiB.
pub const MAX_FONT_BYTES: usize = 32 << 20;

const EVENTS: &str =
    "[Events]\nFormat: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text\n";

/// An ASS script out of a Matroska track.
#[derive(Debug, Default)]
pub struct Script {
    header: String,
    /// Reading order and line.
    events: Vec<(u64, String)>,
    len_bytes: usize,
}

impl Script {
    /// Begins with the track's header. Its own `[Events]` section goes: events have one order of fields in
    /// Matroska, whatever the script's was.
    #[must_use]
    pub fn new(codec_private: &[u8]) -> Self {
        let text = String::from_utf8_lossy(&codec_private[..codec_private.len().min(MAX_SCRIPT_BYTES)]);
        let mut header = String::new();
        let mut events = false;
        for line in text.trim_start_matches('\u{feff}').lines() {
            let line = line.trim_end_matches(['\0', '\r']);
            if line.trim_start().starts_with('[') {
                events = line.trim().eq_ignore_ascii_case("[events]");
            }
            if !events {
                header.push_str(line);
                header.push('\n');
            }
        }
        Self { len_bytes: header.len(), header, events: Vec::new() }
    }

    /// Adds a block, `ReadOrder,Layer,Style,…,Text`, shown from `from_us` to `to_us`. What is no event is left
    /// out.
    ///
    /// # Errors
    /// When the script grows beyond [`MAX_SCRIPT_BYTES`].
    pub fn push(&mut self, block: &[u8], from_us: i64, to_us: i64) -> Result<(), TooLarge> {
        let text = String::from_utf8_lossy(block);
        let mut parts = text.splitn(3, ',');
        let (Some(order), Some(layer), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
            return Ok(());
        };
        let Ok(order) = order.trim().parse() else { return Ok(()) };
        if to_us <= 0 || to_us <= from_us {
            return Ok(());
        }
        // A line end would begin a line of another kind.
        let rest: String =
            rest.trim_end_matches(['\0', '\r', '\n']).replace("\r\n", "\\N").replace(['\r', '\n'], "\\N");
        let layer = layer.replace(['\r', '\n', '\0'], "");
        let line = format!("Dialogue: {layer},{},{},{rest}\n", stamp(from_us), stamp(to_us));
        self.len_bytes += line.len();
        if self.len_bytes > MAX_SCRIPT_BYTES {
            return Err(TooLarge);
        }
        self.events.push((order, line));
        Ok(())
    }

    /// The whole script; events in the order in which the original had them, which decides what lies on top.
    #[must_use]
    pub fn finish(mut self) -> String {
        self.events.sort_by_key(|e| e.0);
        let mut out = self.header;
        out.push('\n');
        out.push_str(EVENTS);
        for (_, line) in self.events {
            out.push_str(&line);
        }
        out
    }
}

/// More than is handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLarge;

/// `h:mm:ss.cc`, as scripts have times.
fn stamp(us: i64) -> String {
    let cs = us.max(0) / 10_000;
    format!("{}:{:02}:{:02}.{:02}", cs / 360_000, cs / 6_000 % 60, cs / 100 % 60, cs % 100)
}

/// A time in microseconds on a clock of 90 kHz, from 0; it turns over after 13 hours.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the clock has 32 bits and turns over"
)]
fn ticks(us: i64) -> u32 {
    (us.max(0).saturating_mul(9) / 100) as u32
}

/// Adds the segments of a PGS packet to a `.sup` file. What is cut off in its middle is left out.
///
/// # Errors
/// When the file grows beyond [`MAX_BYTES`].
pub fn push_pgs(out: &mut Vec<u8>, packet: &[u8], at_us: i64) -> Result<(), TooLarge> {
    let mut rest = packet;
    while let [_, high, low, ..] = rest {
        let len = 3 + usize::from(u16::from_be_bytes([*high, *low]));
        let Some((segment, after)) = rest.split_at_checked(len) else { break };
        if out.len() + 10 + len > MAX_BYTES {
            return Err(TooLarge);
        }
        out.extend_from_slice(b"PG");
        out.extend_from_slice(&ticks(at_us).to_be_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(segment);
        rest = after;
    }
    Ok(())
}

/// Begins a VobSub file with its index text, at most 64 KiB of it.
#[must_use]
pub fn vobsub_head(index: &[u8]) -> Vec<u8> {
    let index = &index[..index.len().min(64 << 10)];
    let mut out = u32::try_from(index.len()).unwrap_or(0).to_be_bytes().to_vec();
    out.extend_from_slice(index);
    out
}

/// Adds a sub-picture unit to a VobSub file.
///
/// # Errors
/// When the file grows beyond [`MAX_BYTES`].
pub fn push_vobsub(out: &mut Vec<u8>, unit: &[u8], at_us: i64) -> Result<(), TooLarge> {
    let len = u32::try_from(unit.len()).map_err(|_| TooLarge)?;
    if out.len() + 8 + unit.len() > MAX_BYTES {
        return Err(TooLarge);
    }
    out.extend_from_slice(&ticks(at_us).to_be_bytes());
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(unit);
    Ok(())
}

/// Whether these bytes begin as a font does (OpenType 1.9, "Organization of an OpenType font").
#[must_use]
pub fn is_font(bytes: &[u8]) -> bool {
    [&b"\0\x01\0\0"[..], b"OTTO", b"ttcf", b"true", b"wOFF", b"wOF2"]
        .iter()
        .any(|magic| bytes.starts_with(magic))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_has_its_styles_and_its_events_in_reading_order() {
        let head = b"\xef\xbb\xbf[Script Info]\r\nPlayResX: 640\r\n[V4+ Styles]\r\nStyle: A,Arial\r\n\r\n[Events]\r\nFormat: Start, End\r\n\0";
        let mut script = Script::new(head);
        script.push(b"1,0,A,,0,0,0,,second, with a comma", 3_723_450_000, 3_724_000_000).unwrap();
        script.push(b"0,2,A,,0,0,0,,first\r\nDialogue: 9,x", -5_000_000, 1_239_999).unwrap();
        for wrong in [&b"no event"[..], b"x,0,A", b"", b"-1,0,A,,,,,,x"] {
            script.push(wrong, 0, 1_000_000).unwrap();
        }
        script.push(b"2,0,A,,0,0,0,,never", 2_000_000, 2_000_000).unwrap();
        assert_eq!(
            script.finish(),
            format!(
                "[Script Info]\nPlayResX: 640\n[V4+ Styles]\nStyle: A,Arial\n\n\n{EVENTS}\
                 Dialogue: 2,0:00:00.00,0:00:01.23,A,,0,0,0,,first\\NDialogue: 9,x\n\
                 Dialogue: 0,1:02:03.45,1:02:04.00,A,,0,0,0,,second, with a comma\n"
            )
        );
    }

    #[test]
    fn a_script_has_an_end() {
        let mut script = Script::new(b"[Script Info]\n");
        let block = [b"0,0,A,,0,0,0,,".to_vec(), vec![b'x'; 1 << 20]].concat();
        let pushed = (0..17).map(|_| script.push(&block, 0, 1_000_000)).take_while(Result::is_ok).count();
        assert_eq!(pushed, 15);
    }

    #[test]
    fn segments_of_pgs_get_their_time_and_torn_ones_are_left_out() {
        let mut out = Vec::new();
        push_pgs(&mut out, &[0x16, 0, 2, 7, 8, 0x80, 0, 0, 0x15, 0, 9, 1], 1_000_000).unwrap();
        let head = [b'P', b'G', 0, 1, 0x5f, 0x90, 0, 0, 0, 0];
        assert_eq!(out, [&head[..], &[0x16, 0, 2, 7, 8], &head, &[0x80, 0, 0]].concat());
    }

    #[test]
    fn a_vobsub_file_has_its_index_and_its_units() {
        let mut out = vobsub_head(b"size: 720x576\n");
        push_vobsub(&mut out, &[1, 2, 3], 2_000_000).unwrap();
        assert_eq!(
            out,
            [&[0, 0, 0, 14][..], b"size: 720x576\n", &[0, 2, 0xbf, 0x20, 0, 0, 0, 3, 1, 2, 3]].concat()
        );
        assert_eq!(push_vobsub(&mut out, &vec![0; MAX_BYTES], 0), Err(TooLarge));
        assert_eq!(vobsub_head(&vec![b'x'; 1 << 20]).len(), 4 + (64 << 10));
    }

    #[test]
    fn fonts_are_told_by_their_first_bytes() {
        assert!(is_font(b"\0\x01\0\0\0\x12") && is_font(b"OTTO\0"));
        assert!(!is_font(b"<svg>") && !is_font(b"") && !is_font(b"\0\x01"));
    }
}
