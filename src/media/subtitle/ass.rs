//! Advanced SubStation Alpha: the text and its times. Styles, positions and drawings are left to
//! clients that draw the format themselves.

use super::{Cue, milliseconds, push_escaped};

/// Every dialogue line of the text.
pub(super) fn cues(text: &str) -> Vec<Cue> {
    // The order of most files, until a `Format` line says otherwise.
    let mut fields = Fields { start: 1, end: 2, text: 9 };
    let mut in_events = false;
    let mut out = Vec::new();
    for line in text.lines() {
        let line = line.trim_start();
        if let Some(section) = line.strip_prefix('[') {
            in_events = section.to_ascii_lowercase().starts_with("events");
        } else if !in_events {
        } else if let Some(format) = line.strip_prefix("Format:") {
            fields = Fields::of(format).unwrap_or(fields);
        } else if let Some(dialogue) = line.strip_prefix("Dialogue:") {
            out.extend(fields.cue(dialogue));
        }
    }
    out
}

/// Positions of the fields that are used. The text is the last and may hold commas.
#[derive(Clone, Copy)]
struct Fields {
    start: usize,
    end: usize,
    text: usize,
}

impl Fields {
    fn of(format: &str) -> Option<Self> {
        let at = |name: &str| format.split(',').position(|f| f.trim().eq_ignore_ascii_case(name));
        Some(Self { start: at("Start")?, end: at("End")?, text: at("Text")? })
    }

    fn cue(self, dialogue: &str) -> Option<Cue> {
        let parts: Vec<&str> = dialogue.splitn(self.text + 1, ',').collect();
        Some(Cue {
            start_ms: milliseconds(parts.get(self.start)?)?,
            end_ms: milliseconds(parts.get(self.end)?)?,
            settings: String::new(),
            text: plain(parts.get(self.text)?),
        })
    }
}

/// The words of a dialogue line: overrides and drawings gone, italics kept.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut drawing, mut italic) = (false, false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '{' => {
                let inside: String = chars.by_ref().take_while(|c| *c != '}').collect();
                for tag in inside.split('\\').skip(1) {
                    let tag = tag.trim();
                    if let Some(scale) = tag.strip_prefix('p')
                        && scale.bytes().all(|b| b.is_ascii_digit())
                    {
                        drawing = scale.bytes().any(|b| b != b'0');
                    }
                    if matches!(tag, "i1" | "i0" | "i" | "r") && italic != (tag == "i1") {
                        italic = tag == "i1";
                        out.push_str(if italic { "<i>" } else { "</i>" });
                    }
                }
            }
            '\\' => match chars.peek() {
                Some('N' | 'n') => {
                    chars.next();
                    out.push('\n');
                }
                Some('h') => {
                    chars.next();
                    out.push('\u{a0}');
                }
                _ => out.push('\\'),
            },
            c if !drawing => push_escaped(&mut out, c),
            _ => {}
        }
    }
    if italic {
        out.push_str("</i>");
    }
    out
}

#[cfg(test)]
mod tests {
    use crate::subtitle::{Format, SubtitleError, to_webvtt};

    #[test]
    fn dialogue_is_read_by_its_format_line_and_sorted() {
        let text = "[Script Info]\nTitle: x\n[V4+ Styles]\nFormat: Name, Start\n[Events]\n\
            Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text\n\
            Dialogue: 0,0:00:05.00,0:00:06.50,Sign,,0,0,0,,{\\pos(320,200)\\c&H0000FF&}SIGN 1, two\n\
            Comment: 0,0:00:01.00,0:00:02.00,Default,,0,0,0,,not shown\n\
            Dialogue: 0,0:00:01.00,0:00:02.00,Default,,0,0,0,,{\\i1}a{\\i0} <b>\\Nb\\h&\n\
            Dialogue: 0,0:00:03.00,0:00:04.00,Default,,0,0,0,,{\\p1}m 0 0 l 9 9{\\p0}\n";
        assert_eq!(
            to_webvtt(text.as_bytes(), Format::Ass, None).unwrap(),
            "WEBVTT\n\n00:00:01.000 --> 00:00:02.000\n<i>a</i> &lt;b&gt;\nb\u{a0}&amp;\n\n\
             00:00:05.000 --> 00:00:06.500\nSIGN 1, two\n"
        );
    }

    #[test]
    fn the_older_format_has_other_fields() {
        let text = "[Events]\nFormat: Marked, Start, End, Style, Text\n\
                    Dialogue: Marked=0,0:00:01.00,0:00:02.00,x,hello, {\\i1}you\n";
        assert_eq!(
            to_webvtt(text.as_bytes(), Format::Ass, None).unwrap(),
            "WEBVTT\n\n00:00:01.000 --> 00:00:02.000\nhello, <i>you</i>\n"
        );
        let outside = "Dialogue: 0,0:00:01.00,0:00:02.00,Default,,0,0,0,,x\n";
        assert_eq!(to_webvtt(outside.as_bytes(), Format::Ass, None), Err(SubtitleError::NoCues));
    }
}
