//! SubRip and WebVTT. Both are timing lines with text below; what differs is read by one reader, as
//! files of one kind carry the other's habits: dots for commas, tags, no index, no blank line.

use super::{Cue, milliseconds, push_escaped};

/// Every cue of the text.
pub(super) fn cues(text: &str) -> Vec<Cue> {
    let lines: Vec<&str> = text.lines().collect();
    let is_vtt = lines.first().is_some_and(|l| l.trim_start().starts_with("WEBVTT"));
    let timings: Vec<(usize, (u64, u64, &str))> =
        lines.iter().enumerate().filter_map(|(n, l)| Some((n, timing(l)?))).collect();
    let mut out = Vec::with_capacity(timings.len());
    for (i, (at, (start_ms, end_ms, settings))) in timings.iter().enumerate() {
        let next = timings.get(i + 1).map_or(lines.len(), |(n, _)| *n);
        let body = body(&lines[at + 1..next], next < lines.len(), is_vtt);
        let mut top = false;
        let text = body.iter().map(|l| clean(l, is_vtt, &mut top)).collect::<Vec<_>>().join("\n");
        let mut settings = kept_settings(settings);
        if top && settings.is_empty() {
            settings.push_str(" line:0");
        }
        out.push(Cue { start_ms: *start_ms, end_ms: *end_ms, settings, text });
    }
    out
}

fn timing(line: &str) -> Option<(u64, u64, &str)> {
    let (start, rest) = line.split_once("-->")?;
    let rest = rest.trim_start();
    let (end, settings) = rest.split_once([' ', '\t']).unwrap_or((rest, ""));
    Some((milliseconds(start)?, milliseconds(end)?, settings))
}

/// The lines of a cue, out of all up to the next timing line.
fn body<'a>(lines: &[&'a str], more_follow: bool, is_vtt: bool) -> Vec<&'a str> {
    let mut lines = lines;
    if is_vtt {
        // A blank line ends a cue; what follows is an identifier, a note or a style.
        let end = lines.iter().position(|l| l.trim().is_empty()).unwrap_or(lines.len());
        return lines[..end].to_vec();
    }
    // SubRip text may hold blank lines; only the index before the next timing is not text.
    if more_follow
        && let [rest @ .., index] = lines
        && !index.trim().is_empty()
        && index.trim().bytes().all(|b| b.is_ascii_digit())
        // A cue that is only a number stays, when a cue without index follows it.
        && !rest.is_empty()
    {
        lines = rest;
    }
    lines.iter().copied().filter(|l| !l.trim().is_empty()).collect()
}

/// Cue settings of WebVTT, as far as they have the form of settings; SubRip's `X1:…` have not.
fn kept_settings(text: &str) -> String {
    let known = ["line:", "position:", "size:", "align:", "vertical:"];
    let plain = |s: &str| s.bytes().all(|b| b.is_ascii_alphanumeric() || b":%.,-".contains(&b));
    text.split_whitespace()
        .filter(|s| known.iter().any(|k| s.starts_with(k)) && plain(s))
        .fold(String::new(), |out, s| out + " " + s)
}

/// A line of text, escaped, with the tags that both formats have. `top` is set by `{\an8}`, which
/// SubRip borrows from ASS for text that must not cover what is below.
fn clean(line: &str, is_vtt: bool, top: &mut bool) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        if c == '<'
            && let Some((tag, after)) = up_to('>', &rest[1..])
            && let Some(kept) = tag_kept(tag)
        {
            out.push_str(kept);
            rest = after;
        } else if c == '{'
            && let Some((inside, after)) = up_to('}', &rest[1..])
            && inside.starts_with('\\')
        {
            *top |= ["an7", "an8", "an9"].iter().any(|a| inside.contains(a));
            rest = after;
        } else if is_vtt && c == '&' && is_entity(rest) {
            // Already escaped.
            out.push('&');
            rest = &rest[1..];
        } else {
            push_escaped(&mut out, c);
            rest = &rest[c.len_utf8()..];
        }
    }
    out
}

/// Longest tag: a font with a face, a size and colours is a third of this.
const MAX_TAG_BYTES: usize = 512;

/// What is before and behind `end`, an ASCII character, where it is near: what opens and never closes is text, and a line of
/// nothing else is not searched to its end for each.
fn up_to(end: char, text: &str) -> Option<(&str, &str)> {
    let at = text.bytes().take(MAX_TAG_BYTES).position(|b| char::from(b) == end)?;
    Some((&text[..at], &text[at + 1..]))
}

/// What is written for a tag: itself, nothing, or `None` where `<` is no tag at all.
fn tag_kept(tag: &str) -> Option<&'static str> {
    let lower = tag.trim().to_ascii_lowercase();
    let name = lower.trim_start_matches('/');
    let name = name.split([' ', '.', '\t', '=']).next().unwrap_or_default();
    Some(match (lower.starts_with('/'), name) {
        (false, "i") => "<i>",
        (true, "i") => "</i>",
        (false, "b") => "<b>",
        (true, "b") => "</b>",
        (false, "u") => "<u>",
        (true, "u") => "</u>",
        (_, "font" | "c" | "v" | "lang" | "ruby" | "rt" | "s" | "span") => "",
        // A time inside a karaoke cue.
        _ if !lower.is_empty() && lower.bytes().all(|b| b.is_ascii_digit() || b":.".contains(&b)) => "",
        _ => return None,
    })
}

fn is_entity(text: &str) -> bool {
    ["&amp;", "&lt;", "&gt;", "&nbsp;", "&lrm;", "&rlm;"].iter().any(|e| text.starts_with(e))
}

#[cfg(test)]
mod tests {
    use crate::subtitle::{Format, to_webvtt};

    fn convert(text: &str) -> String {
        to_webvtt(text.as_bytes(), Format::Srt, None).unwrap()
    }

    #[test]
    fn what_opens_and_does_not_close_nearby_is_text() {
        // Searched to its end for each, a line of a million of these would take hours.
        let far =
            format!("1\n00:00:01,000 --> 00:00:02,000\n<i{}>{{\\an8{}}}\n", "i".repeat(600), "x".repeat(600));
        let made = convert(&far);
        assert!(
            made.contains("&lt;iii") && made.contains("ii&gt;{\\an8xx") && made.ends_with("xx}\n"),
            "{made}"
        );
        let near = format!("1\n00:00:01,000 --> 00:00:02,000\n<font face=\"{}\">x</font>\n", "a".repeat(300));
        assert!(convert(&near).ends_with("\nx\n"));
    }

    #[test]
    fn odd_files_keep_all_their_cues() {
        // Dots, tags, no index, an overlap, no blank line at the end.
        let text = "1\n00:00:01.000 --> 00:00:03.000\n<i>dots</i> & <font color=\"#ff0000\">tags</font>\n\n\
                    00:00:02,500 --> 00:00:04,000\nno index\n\n3\n00:00:05,000 --> 00:00:06,000\n12\n\
                    4\n00:00:07,000 --> 00:00:08,000 X1:0 X2:9\n{\\an8}top\n\nstill the same";
        assert_eq!(
            convert(text),
            "WEBVTT\n\n00:00:01.000 --> 00:00:03.000\n<i>dots</i> &amp; tags\n\n\
             00:00:02.500 --> 00:00:04.000\nno index\n\n\
             00:00:05.000 --> 00:00:06.000\n12\n\n\
             00:00:07.000 --> 00:00:08.000 line:0\ntop\nstill the same\n"
        );
    }

    #[test]
    fn text_can_never_become_markup_or_a_cue() {
        let text = "00:01 --> 00:02\n<script>alert(1)</script> a --> b <img src=x> 1 < 2 &lt;\n";
        assert_eq!(
            convert(text),
            "WEBVTT\n\n00:00:01.000 --> 00:00:02.000\n\
             &lt;script&gt;alert(1)&lt;/script&gt; a --&gt; b &lt;img src=x&gt; 1 &lt; 2 &amp;lt;\n"
        );
    }

    #[test]
    fn webvtt_keeps_settings_and_loses_notes_styles_and_what_is_no_setting() {
        let text = "WEBVTT - title\n\nSTYLE\n::cue { color: red }\n\nNOTE a --> b\n\nid 1\n\
                    00:01.000 --> 00:02.000 align:start line:10% onclick:alert(1)\n\
                    <v Anna>a &amp; <b.loud>b</b> &x\n\nNOTE end\n";
        assert_eq!(
            to_webvtt(text.as_bytes(), Format::WebVtt, None).unwrap(),
            "WEBVTT\n\n00:00:01.000 --> 00:00:02.000 align:start line:10%\na &amp; <b>b</b> &amp;x\n"
        );
    }

    #[test]
    fn cues_that_end_before_they_start_or_are_empty_are_left_out() {
        let text = "00:05 --> 00:04\nback\n\n00:06 --> 00:07\n \n\n00:01 --> 00:02\nx\n";
        assert_eq!(convert(text), "WEBVTT\n\n00:00:01.000 --> 00:00:02.000\nx\n");
    }
}
