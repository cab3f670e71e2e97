//! Subtitles: text out as WebVTT, pictures drawn into the film.

use std::os::fd::OwnedFd;

use spindle_transcode::protocol::Reply;

use crate::ff::{Bitmap, Caption, Decoder, Facts, Fail, Frame, Input, Media, NOPTS, Packet, Result};
use crate::probe;
use crate::segment::{us, write_out};
use crate::talk::Talk;

/// The subtitle pictures of one stream, to be drawn into the film.
pub(crate) struct Burn {
    decoder: Decoder,
    canvas: (i32, i32),
    shown: Vec<Shown>,
}

struct Shown {
    from_us: i64,
    to_us: Option<i64>,
    bitmaps: Vec<Bitmap>,
}

impl Burn {
    pub(crate) fn new(input: &Input, subtitle: &Facts, video: &Facts) -> Result<Self> {
        if probe::is_text(&subtitle.codec) {
            return Err(Fail::request("text subtitles go out as text, they are not drawn"));
        }
        let size = (subtitle.width, subtitle.height);
        let canvas = if size.0 > 0 && size.1 > 0 { size } else { (video.width, video.height) };
        Ok(Self { decoder: Decoder::open(input, subtitle.index, false)?, canvas, shown: Vec::new() })
    }

    pub(crate) fn feed(&mut self, packet: &Packet, at_us: i64) {
        let Some(caption) = self.decoder.caption(packet) else { return };
        let canvas = self.decoder.canvas();
        if canvas.0 > 0 && canvas.1 > 0 {
            self.canvas = canvas;
        }
        let from_us = at_us + i64::from(caption.start_ms) * 1000;
        // Also an empty one: it takes the last off the screen.
        for shown in &mut self.shown {
            if shown.from_us < from_us && shown.to_us.is_none_or(|to| to > from_us) {
                shown.to_us = Some(from_us);
            }
        }
        self.shown.retain(|s| s.from_us != from_us && s.to_us.is_none_or(|to| to > from_us - 30_000_000));
        let Caption { end_ms, bitmaps, .. } = caption;
        if !bitmaps.is_empty() {
            self.shown.push(Shown { from_us, to_us: end_ms.map(|ms| at_us + i64::from(ms) * 1000), bitmaps });
        }
    }

    /// Draws what is on screen at `at_us` into an 8-bit 4:2:0 picture, scaled from its canvas.
    pub(crate) fn draw(&mut self, frame: &mut Frame, at_us: i64, size: (i32, i32)) -> Result<()> {
        for shown in &self.shown {
            if shown.from_us <= at_us && shown.to_us.is_none_or(|to| at_us < to) {
                for bitmap in &shown.bitmaps {
                    blend(frame, bitmap, self.canvas, size)?;
                }
            }
        }
        Ok(())
    }
}

/// Alpha blending, BT.601 studio range as subtitle palettes use it. Each target pixel takes the
/// mean of the source pixels that it covers, so that thin outlines survive scaling down.
fn blend(frame: &mut Frame, b: &Bitmap, canvas: (i32, i32), size: (i32, i32)) -> Result<()> {
    let (sx, sy) = (f64::from(size.0) / f64::from(canvas.0), f64::from(size.1) / f64::from(canvas.1));
    for plane in 0..3 {
        let div = if plane == 0 { 1 } else { 2 };
        let (pw, ph) = ((size.0 + div - 1) / div, (size.1 + div - 1) / div);
        let (kx, ky) = (sx / f64::from(div), sy / f64::from(div));
        let (x0, y0) = ((f64::from(b.x) * kx).floor() as i32, (f64::from(b.y) * ky).floor() as i32);
        let x1 = ((f64::from(b.x) + b.width as f64) * kx).ceil() as i32;
        let y1 = ((f64::from(b.y) + b.height as f64) * ky).ceil() as i32;
        let (data, line) = frame.plane_mut(plane)?;
        for y in y0.max(0)..y1.min(ph) {
            for x in x0.max(0)..x1.min(pw) {
                let (value, alpha) = sample(b, (x, y), (kx, ky), plane);
                if alpha > 0.0
                    && let Some(to) = data.get_mut(y as usize * line + x as usize)
                {
                    *to = (f64::from(*to) * (1.0 - alpha) + value * alpha).round().clamp(0.0, 255.0) as u8;
                }
            }
        }
    }
    Ok(())
}

fn sample(b: &Bitmap, (x, y): (i32, i32), (kx, ky): (f64, f64), plane: usize) -> (f64, f64) {
    let range = |at: i32, k: f64, origin: i32, len: usize| {
        let from = (f64::from(at) / k - f64::from(origin)).floor().max(0.0) as usize;
        let to = (f64::from(at + 1) / k - f64::from(origin)).ceil().max(0.0) as usize;
        from.min(len)..to.max(from + 1).min(len)
    };
    let (mut sum, mut weight, mut count) = (0.0, 0.0, 0.0);
    for row in range(y, ky, b.y, b.height) {
        for column in range(x, kx, b.x, b.width) {
            count += 1.0;
            let Some([r, g, bl, a]) =
                b.rgba.get((row * b.width + column) * 4..).and_then(|p| p.first_chunk::<4>())
            else {
                continue;
            };
            let [r, g, bl] = [r, g, bl].map(|v| f64::from(*v) / 255.0);
            let alpha = f64::from(*a) / 255.0;
            let value = match plane {
                0 => 16.0 + 65.481 * r + 128.553 * g + 24.966 * bl,
                1 => 128.0 - 37.797 * r - 74.203 * g + 112.0 * bl,
                _ => 128.0 + 112.0 * r - 93.786 * g - 18.214 * bl,
            };
            sum += value * alpha;
            weight += alpha;
        }
    }
    if weight == 0.0 { (0.0, 0.0) } else { (sum / weight, weight / count) }
}

/// Writes a text stream as WebVTT.
pub(crate) fn vtt(talk: &Talk, mut input: Input, stream: usize, output: OwnedFd) -> Result<()> {
    if stream >= input.streams() || input.facts(stream).media != Media::Subtitle {
        return Err(Fail::request(format!("stream {stream} is no subtitle")));
    }
    let facts = input.facts(stream);
    if !probe::is_text(&facts.codec) {
        return Err(Fail::request("these subtitles are pictures, there is no text in them"));
    }
    let start_us = if input.start_us() == NOPTS { 0 } else { input.start_us() };
    let mut decoder = Decoder::open(&input, stream, false)?;
    input.only(&[stream]);
    let mut cues: Vec<(i64, i64, String)> = Vec::new();
    let mut packet = Packet::new();
    let mut last_word = std::time::Instant::now();
    while input.read(&mut packet)? {
        if last_word.elapsed().as_millis() > 500 {
            last_word = std::time::Instant::now();
            talk.send(&Reply::Progress { at_us: 0 });
        }
        // What was read to find out what the file holds is handed over first, whosever it is.
        if packet.stream() != stream {
            continue;
        }
        let Some(pts) = packet.pts() else { continue };
        let from = us(pts, facts.time_base, start_us);
        let span = us(packet.duration(), facts.time_base, 0);
        let Some(caption) = decoder.caption(&packet) else { continue };
        let text: Vec<String> = caption.lines.iter().map(|l| plain(l)).filter(|t| !t.is_empty()).collect();
        let to = match caption.end_ms {
            Some(ms) => from + i64::from(ms) * 1000,
            None if span > 0 => from + span,
            None => from + 5_000_000,
        };
        if !text.is_empty() && to > 0 {
            cues.push((from.max(0), to, text.join("\n")));
        }
    }
    cues.sort_by_key(|c| c.0);
    let mut out = String::from("WEBVTT\n\n");
    for (from, to, text) in cues {
        out.push_str(&format!("{} --> {}\n{text}\n\n", clock(from), clock(to)));
    }
    let len_bytes = write_out(output.into(), &[out.as_bytes()])?;
    talk.send(&Reply::Written { len_bytes });
    Ok(())
}

fn clock(us: i64) -> String {
    let ms = us / 1000;
    format!("{:02}:{:02}:{:02}.{:03}", ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60, ms % 1000)
}

/// The text of an ASS event as FFmpeg gives it (nine commas before it), with italics, bold and
/// underline kept as WebVTT has them.
fn plain(line: &str) -> String {
    let text = line.splitn(9, ',').nth(8).unwrap_or(line);
    let mut out = String::new();
    let mut open: Vec<char> = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if rest.starts_with('{')
            && let Some(end) = rest.find('}')
        {
            for tag in rest[1..end].split('\\').skip(1) {
                let mut chars = tag.chars();
                let (Some(kind @ ('i' | 'b' | 'u')), Some(on @ ('0' | '1')), None) =
                    (chars.next(), chars.next(), chars.next())
                else {
                    continue;
                };
                if on == '1' && !open.contains(&kind) {
                    open.push(kind);
                    out.push_str(&format!("<{kind}>"));
                } else if on == '0' && open.last() == Some(&kind) {
                    open.pop();
                    out.push_str(&format!("</{kind}>"));
                }
            }
            rest = &rest[end + 1..];
            continue;
        }
        if let Some(after) = rest.strip_prefix("\\N").or_else(|| rest.strip_prefix("\\n")) {
            out.push('\n');
            rest = after;
            continue;
        }
        if let Some(after) = rest.strip_prefix("\\h") {
            out.push(' ');
            rest = after;
            continue;
        }
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\r' => {}
            c => out.push(c),
        }
        rest = &rest[c.len_utf8()..];
    }
    for kind in open.into_iter().rev() {
        out.push_str(&format!("</{kind}>"));
    }
    // An empty line would end the cue.
    let lines: Vec<&str> = out.lines().map(str::trim_end).filter(|l| !l.is_empty()).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ass_events_become_webvtt_text() {
        assert_eq!(
            plain("0,0,Default,,0,0,0,,Hello, {\\i1}you{\\i0}\\NA < B"),
            "Hello, <i>you</i>\nA &lt; B"
        );
        assert_eq!(plain("1,0,Default,,0,0,0,,{\\an8}{\\b1}up"), "<b>up</b>");
    }

    #[test]
    fn times_have_hours() {
        assert_eq!(clock(3_723_004_000), "01:02:03.004");
    }
}
