//! A snapshot as lines of a terminal. Pure.

use super::snapshot::{Disk, Snapshot, Stream};

/// How a part of a line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Bold,
    Dim,
    Inverse,
    Good,
    Warn,
    Bad,
    /// The colour of the n-th disk.
    Disk(usize),
}

/// Parts of a line from left to right. What a title says to a terminal is not in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Line(Vec<(Style, String)>);

/// Something that somebody pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Quit,
    Pause,
    Left,
    Right,
    Up,
    Down,
}

/// What of a snapshot is looked at.
#[derive(Debug, Clone, Default)]
pub(super) struct View {
    /// The first disk, and the first stream, that are shown.
    disk: usize,
    stream: usize,
    pub(super) is_paused: bool,
    /// For a file or a pipe: nothing that only a terminal makes sense of.
    is_plain: bool,
    /// Why there is no newer snapshot.
    pub(super) trouble: Option<String>,
}

/// Columns of the text on the left, of a disk, and of what follows the disks.
const NAME: usize = 26;
const CELL: usize = 8;
const TAIL: usize = 28;
/// Lines above the streams, and between them and the disks.
const HEAD: usize = 4;
/// Lines below the streams: the sums, the head of the disks, keys.
const FOOT: usize = 6;
/// A stream: its numbers, where it is, its verdict.
const TALL: usize = 3;

impl Key {
    /// The keys in what a terminal sent; what it does not know it passes over.
    pub(super) fn all(bytes: &[u8]) -> Vec<Self> {
        let mut out = Vec::new();
        let mut rest = bytes;
        while let [first, after @ ..] = rest {
            rest = after;
            let key = match (first, after) {
                (b'\x1b', [b'[' | b'O', code, more @ ..]) => {
                    rest = more;
                    match code {
                        b'A' => Self::Up,
                        b'B' => Self::Down,
                        b'C' => Self::Right,
                        b'D' => Self::Left,
                        _ => continue,
                    }
                }
                // Escape alone, Ctrl-C where a terminal sends it as a key, Ctrl-D.
                (b'q' | b'Q' | b'\x1b' | b'\x03' | b'\x04', _) => Self::Quit,
                (b'p' | b'P' | b' ', _) => Self::Pause,
                (b'h', _) => Self::Left,
                (b'l', _) => Self::Right,
                (b'k', _) => Self::Up,
                (b'j', _) => Self::Down,
                _ => continue,
            };
            out.push(key);
        }
        out
    }
}

impl View {
    /// For a file or a pipe: all of it.
    pub(super) fn plain() -> Self {
        Self { is_plain: true, ..Self::default() }
    }

    pub(super) fn key(&mut self, key: Key) {
        match key {
            Key::Quit => {}
            Key::Pause => self.is_paused = !self.is_paused,
            Key::Left => self.disk = self.disk.saturating_sub(1),
            Key::Right => self.disk = self.disk.saturating_add(1),
            Key::Up => self.stream = self.stream.saturating_sub(1),
            Key::Down => self.stream = self.stream.saturating_add(1),
        }
    }

    /// Keeps what is looked at within what there is.
    pub(super) fn fit(&mut self, s: &Snapshot, (width, height): (usize, usize)) {
        let shape = Shape::of(s, (width, height));
        self.disk = self.disk.min(s.disks.len().saturating_sub(shape.disks));
        self.stream = self.stream.min(s.streams.len().saturating_sub(shape.streams));
    }
}

/// How much fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    /// Columns of disks.
    disks: usize,
    has_tail: bool,
    streams: usize,
    /// Lines of a stream.
    tall: usize,
    /// Rows of the table of disks.
    rows: usize,
}

impl Shape {
    fn of(s: &Snapshot, (width, height): (usize, usize)) -> Self {
        let all = s.disks.len();
        let has_tail = width >= NAME + TAIL + CELL;
        let room = width.saturating_sub(NAME + if has_tail { TAIL } else { 0 });
        // The disks' own table gets what the streams leave, and a third of the height at least.
        let body = height.saturating_sub(HEAD + FOOT);
        let least = all.min(body / 3);
        let for_streams = body.saturating_sub(least);
        let tall = if s.streams.len().saturating_mul(TALL) <= for_streams { TALL } else { 1 };
        let streams = s.streams.len().min(for_streams / tall).max(1);
        let taken = streams.min(s.streams.len()).saturating_mul(tall);
        Self {
            disks: all.min((room / CELL).max(1)),
            has_tail,
            streams,
            tall,
            rows: all.min(body.saturating_sub(taken)),
        }
    }
}

impl Line {
    pub(super) fn add(&mut self, style: Style, text: &str) -> &mut Self {
        let clean: String =
            text.chars().map(|c| if c.is_control() { '?' } else { c }).filter(|c| !is_bidi(*c)).collect();
        self.0.push((style, clean));
        self
    }

    /// Text of exactly `width` columns: cut with a mark, or filled on the right.
    fn left(&mut self, style: Style, text: &str, width: usize) -> &mut Self {
        let mut line = Self::default();
        line.add(style, text);
        let text = if line.width() > width {
            let kept: String = line.cut(width.saturating_sub(1)).into_iter().map(|(_, t)| t).collect();
            format!("{kept}…")
        } else {
            line.text()
        };
        let fill = width.saturating_sub(columns(&text));
        self.add(style, &format!("{text}{:fill$}", ""))
    }

    /// As `left`, filled on the left.
    fn right(&mut self, style: Style, text: &str, width: usize) -> &mut Self {
        let fill = width.saturating_sub(columns(text));
        self.add(style, &format!("{:fill$}{text}", ""))
    }

    pub(super) fn text(&self) -> String {
        self.0.iter().map(|(_, t)| t.as_str()).collect()
    }

    fn width(&self) -> usize {
        self.0.iter().map(|(_, t)| columns(t)).sum()
    }

    /// The first `width` columns.
    pub(super) fn cut(&self, width: usize) -> Vec<(Style, String)> {
        let mut left = width;
        let mut out = Vec::new();
        for (style, text) in &self.0 {
            let mut kept = String::new();
            for c in text.chars() {
                let n = wide(c);
                if n > left {
                    left = 0;
                    break;
                }
                left -= n;
                kept.push(c);
            }
            if !kept.is_empty() {
                out.push((*style, kept));
            }
            if left == 0 {
                break;
            }
        }
        out
    }
}

fn columns(text: &str) -> usize {
    text.chars().map(wide).sum()
}

/// Columns that a character takes (Unicode Standard Annex #11: W and F are two; marks that combine, none).
fn wide(c: char) -> usize {
    match u32::from(c) {
        0x300..=0x36F | 0x200B..=0x200D | 0x20D0..=0x20FF | 0xFE00..=0xFE0F | 0xFE20..=0xFE2F => 0,
        0x1100..=0x115F
        | 0x2E80..=0x303E
        | 0x3041..=0x4DBF
        | 0x4E00..=0xA4CF
        | 0xAC00..=0xD7A3
        | 0xF900..=0xFAFF
        | 0xFE30..=0xFE6F
        | 0xFF00..=0xFF60
        | 0xFFE0..=0xFFE6
        | 0x1F300..=0x1F64F
        | 0x1F680..=0x1F6FF
        | 0x1F900..=0x1F9FF
        | 0x2_0000..=0x3_FFFD => 2,
        _ => 1,
    }
}

/// Marks that turn the direction of a whole line (UAX #9): a title must not move what stands beside it.
fn is_bidi(c: char) -> bool {
    matches!(u32::from(c), 0x200E | 0x200F | 0x202A..=0x202E | 0x2066..=0x2069 | 0x61C)
}

/// The whole picture, `width` columns and at most `height` lines.
pub(super) fn lines(s: &Snapshot, view: &View, (width, height): (usize, usize)) -> Vec<Line> {
    let shape = if view.is_plain { plain_shape(s) } else { Shape::of(s, (width, height)) };
    let mut out = vec![headline(s, view, width)];
    if let Some(trouble) = &view.trouble {
        let mut line = Line::default();
        line.add(Style::Bad, &format!("{trouble}; this is the last that it said"));
        out.push(line);
    } else if !view.is_plain {
        out.push(Line::default());
    }
    if s.streams.is_empty() {
        let mut line = Line::default();
        line.add(Style::Dim, "Nothing plays: the disks are at rest, or work for others.");
        out.push(line);
    } else {
        streams(s, view, shape, &mut out);
    }
    out.push(Line::default());
    disk_table(s, view, shape, width, &mut out);
    if !view.is_plain {
        out.truncate(height.saturating_sub(1));
        out.resize(height.saturating_sub(1), Line::default());
        out.push(footer(s, view, shape));
    }
    out
}

/// Everything, one line a stream.
fn plain_shape(s: &Snapshot) -> Shape {
    Shape { disks: s.disks.len(), has_tail: true, streams: s.streams.len(), tall: TALL, rows: s.disks.len() }
}

fn headline(s: &Snapshot, view: &View, width: usize) -> Line {
    let off_disks: f64 = s.streams.iter().flat_map(|t| t.disks.values()).sum();
    let how = match s.attribution.as_str() {
        "block_trace" => (Style::Good, "traced"),
        "sampled_map" => (Style::Dim, "from the map"),
        _ => (Style::Warn, "disks not known"),
    };
    let n = s.streams.len();
    let mut line = Line::default();
    line.add(Style::Bold, "Spindle");
    if view.is_paused {
        line.add(Style::Warn, "  paused");
    }
    line.add(Style::Dim, &format!("  {}  ", s.server));
    line.add(
        Style::Plain,
        &format!("{n} {}, {} MB/s off disks", if n == 1 { "stream" } else { "streams" }, mb(off_disks)),
    );
    line.add(how.0, &format!("  {}", how.1));
    let clock = format!("{} UTC", s.clock);
    let fill = width.saturating_sub(line.width() + clock.len()).max(2);
    line.add(Style::Dim, &format!("{:fill$}{clock}", ""));
    line
}

fn streams(s: &Snapshot, view: &View, shape: Shape, out: &mut Vec<Line>) {
    let shown = view.disk..view.disk.saturating_add(shape.disks).min(s.disks.len());
    let disks = || s.disks.iter().enumerate().take(shown.end).skip(shown.start);
    let mut head = Line::default();
    head.left(Style::Dim, "STREAM   MB/s", NAME);
    for (n, disk) in disks() {
        head.right(Style::Disk(n), &tail_of(&disk.disk, CELL - 1), CELL);
    }
    if shape.has_tail {
        head.right(Style::Dim, "memory", 9).right(Style::Dim, "buffer", 9).right(Style::Dim, "columns", 10);
    }
    out.push(head);
    for stream in s.streams.iter().skip(view.stream).take(shape.streams) {
        let mut line = Line::default();
        line.left(Style::Bold, &stream.title, NAME - 1).add(Style::Plain, " ");
        for (n, disk) in disks() {
            rate_cell(&mut line, n, stream.disks.get(&disk.disk).copied().unwrap_or(0.0));
        }
        if shape.has_tail {
            stream_tail(&mut line, stream);
        }
        out.push(line);
        if shape.tall == TALL {
            out.push(about(stream));
            let mut line = Line::default();
            let verdict =
                stream.io.as_ref().map_or("nothing is recorded of it", |io| first_sentence(&io.verdict));
            line.add(Style::Dim, "  ").add(Style::Plain, verdict);
            out.push(line);
        }
    }
    let mut others = Line::default();
    others.left(Style::Dim, "others", NAME);
    for (n, disk) in disks() {
        let ours: f64 = s.streams.iter().filter_map(|t| t.disks.get(&disk.disk)).sum();
        // Both are sampled, not at the same moment: less than a tenth apart is the same.
        let rest = disk.read_bytes_per_s - ours;
        rate_cell(&mut others, n, if rest > ours / 10.0 { rest } else { 0.0 });
    }
    out.push(others);
}

fn rate_cell(line: &mut Line, n: usize, bytes_per_s: f64) {
    if bytes_per_s < 500.0 {
        line.right(Style::Dim, "·", CELL);
    } else {
        line.right(Style::Disk(n), &mb(bytes_per_s), CELL);
    }
}

fn stream_tail(line: &mut Line, stream: &Stream) {
    let io = stream.io.as_ref();
    let memory =
        io.and_then(|io| io.cache_share).map_or("–".to_owned(), |share| format!("{:.0} %", share * 100.0));
    line.right(Style::Plain, &memory, 9);
    match (stream.predicted_stall_s, stream.buffered_s) {
        (Some(s), _) => line.right(Style::Bad, &format!("!{s:.0} s"), 9),
        (None, Some(s)) => line.right(Style::Plain, &format!("{s:.0} s"), 9),
        (None, None) => line.right(Style::Dim, "–", 9),
    };
    let columns = io
        .filter(|io| io.columns > 0)
        .map_or("–".to_owned(), |io| format!("{} of {}", io.columns_used, io.columns));
    line.right(Style::Plain, &columns, 10);
}

fn about(stream: &Stream) -> Line {
    let mut line = Line::default();
    let place = match stream.duration_s {
        Some(all) => format!("{} of {}", clock(stream.position_s), clock(all)),
        None => clock(stream.position_s),
    };
    let method = stream.method.replace('_', " ");
    let words = [stream.user.as_str(), &stream.client, &method, &place];
    let words: Vec<&str> = words.into_iter().filter(|w| !w.is_empty()).collect();
    line.add(Style::Dim, &format!("  {}", words.join(" · ")));
    if stream.paused {
        line.add(Style::Dim, " · paused");
    }
    match stream.io.as_ref().map_or(0, |io| io.stalls) {
        0 => {}
        1 => drop(line.add(Style::Warn, " · 1 stall")),
        n => drop(line.add(Style::Warn, &format!(" · {n} stalls"))),
    }
    line
}

fn disk_table(s: &Snapshot, view: &View, shape: Shape, width: usize, out: &mut Vec<Line>) {
    if s.disks.is_empty() {
        return;
    }
    let bar = width.saturating_sub(64).clamp(8, 30);
    let mut head = Line::default();
    head.left(Style::Dim, "DISK", 12).right(Style::Dim, "read MB/s", 11).right(Style::Dim, "write MB/s", 12);
    head.right(Style::Dim, "reads/s", 9).add(Style::Dim, "  ").left(Style::Dim, "busy", bar + 7).left(
        Style::Dim,
        "state",
        10,
    );
    out.push(head);
    for (n, disk) in s.disks.iter().enumerate().skip(view.disk).take(shape.rows) {
        out.push(disk_row(n, disk, bar));
    }
    let hidden = s.disks.len().saturating_sub(view.disk + shape.rows);
    if hidden > 0 {
        let mut line = Line::default();
        line.add(Style::Dim, &format!("and {hidden} more"));
        out.push(line);
    }
}

fn disk_row(n: usize, disk: &Disk, bar: usize) -> Line {
    let mut line = Line::default();
    line.left(Style::Disk(n), &tail_of(&disk.disk, 11), 12);
    line.right(Style::Plain, &mb(disk.read_bytes_per_s), 11).right(
        Style::Plain,
        &mb(disk.write_bytes_per_s),
        12,
    );
    line.right(Style::Plain, &format!("{:.0}", disk.reads_per_s), 9).add(Style::Plain, "  ");
    match disk.busy_share {
        Some(share) => {
            let full = filled(share, bar);
            let style = if share >= 0.9 { Style::Bad } else { Style::Disk(n) };
            line.add(style, &"█".repeat(full)).add(Style::Dim, &"·".repeat(bar - full));
            line.right(Style::Plain, &format!("{:.0} %", share * 100.0), 6).add(Style::Plain, " ");
        }
        None => drop(line.left(Style::Dim, "not known", bar + 7)),
    }
    match disk.asleep {
        Some(true) => line.left(Style::Dim, "asleep", 8),
        Some(false) => line.left(Style::Plain, "awake", 8),
        None => line.left(Style::Dim, "–", 8),
    };
    if let Some(t) = disk.temperature_c {
        line.right(if t >= 60 { Style::Bad } else { Style::Plain }, &format!("{t} °C"), 6);
    }
    if disk.health.as_deref() == Some("failing") {
        line.add(Style::Bad, "  failing");
    }
    line
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a share of some dozen columns"
)]
fn filled(share: f64, of: usize) -> usize {
    ((share.clamp(0.0, 1.0) * of as f64).round() as usize).min(of)
}

fn footer(s: &Snapshot, view: &View, shape: Shape) -> Line {
    let mut line = Line::default();
    line.add(Style::Inverse, " q ")
        .add(Style::Dim, " quit  ")
        .add(Style::Inverse, " p ")
        .add(Style::Dim, " pause");
    if shape.disks < s.disks.len() {
        let to = (view.disk + shape.disks).min(s.disks.len());
        line.add(Style::Plain, "  ").add(Style::Inverse, " ← → ");
        line.add(Style::Dim, &format!(" disks {} to {to} of {}", view.disk + 1, s.disks.len()));
    }
    if shape.streams < s.streams.len() {
        let to = (view.stream + shape.streams).min(s.streams.len());
        line.add(Style::Plain, "  ").add(Style::Inverse, " ↑ ↓ ");
        line.add(Style::Dim, &format!(" streams {} to {to} of {}", view.stream + 1, s.streams.len()));
    }
    line
}

/// Decimal megabytes, as disks are sold.
fn mb(bytes_per_s: f64) -> String {
    // The sum of nothing is -0.0.
    let mb = bytes_per_s / 1e6 + 0.0;
    if mb >= 99.95 { format!("{mb:.0}") } else { format!("{mb:.1}") }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
fn clock(seconds: f64) -> String {
    let s = seconds.max(0.0) as u64;
    let (h, m, s) = (s / 3600, s / 60 % 60, s % 60);
    if h > 0 { format!("{h}:{m:02}:{s:02}") } else { format!("{m}:{s:02}") }
}

/// The first sentence: the fact, mostly without the explanation.
fn first_sentence(text: &str) -> &str {
    let end = text.match_indices(". ").map(|(at, _)| at + 1).next().unwrap_or(text.len());
    text.get(..end).unwrap_or(text)
}

/// The end of a long name says more than its beginning.
fn tail_of(name: &str, width: usize) -> String {
    let n = name.chars().count();
    if n <= width {
        name.to_owned()
    } else {
        format!("…{}", name.chars().skip(n - width + 1).collect::<String>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::top::snapshot::Io;

    fn snapshot(streams: usize, disks: usize) -> Snapshot {
        let name = |n: usize| format!("sd{}", char::from(b'a' + u8::try_from(n).unwrap()));
        let stream = |n: usize| Stream {
            session: format!("s{n}"),
            title: format!("Film {n}"),
            user: "ann".into(),
            client: "vlc".into(),
            method: "direct_play".into(),
            position_s: 3723.0,
            duration_s: Some(7200.0),
            buffered_s: Some(18.0),
            disks: [(name(0), 12_300_000.0), (name(1 % disks.max(1)), 4_100_000.0)].into(),
            io: Some(Io {
                columns: 2,
                columns_used: 2,
                cache_share: Some(0.12),
                stalls: 0,
                verdict: "The striping worked: sda and sdb shared the reads evenly. And more.".into(),
            }),
            ..Stream::default()
        };
        let disk = |n: usize| Disk {
            disk: name(n),
            read_bytes_per_s: if n == 0 { 20e6 } else { 4.1e6 },
            busy_share: Some(0.43),
            asleep: Some(n > 2),
            temperature_c: Some(34),
            ..Disk::default()
        };
        Snapshot {
            server: "127.0.0.1:8096".into(),
            clock: "12:04:31".into(),
            attribution: "block_trace".into(),
            streams: (0..streams).map(stream).collect(),
            disks: (0..disks).map(disk).collect(),
            ..Snapshot::default()
        }
    }

    fn text(s: &Snapshot, view: &View, size: (usize, usize)) -> Vec<String> {
        lines(s, view, size).iter().map(|l| l.text().trim_end().to_owned()).collect()
    }

    #[test]
    fn streams_stand_across_disks_with_their_verdict_and_the_disks_below() {
        let shown = text(&snapshot(1, 4), &View::default(), (110, 24));
        assert_eq!(shown.len(), 24);
        assert!(
            shown[0].starts_with("Spindle  127.0.0.1:8096  1 stream, 16.4 MB/s off disks  traced"),
            "{}",
            shown[0]
        );
        assert!(shown[0].ends_with("12:04:31 UTC"));
        assert_eq!(
            shown[2],
            "STREAM   MB/s                  sda     sdb     sdc     sdd   memory   buffer   columns"
        );
        assert_eq!(
            shown[3],
            "Film 0                        12.3     4.1       ·       ·     12 %     18 s    2 of 2"
        );
        assert_eq!(shown[4], "  ann · vlc · direct play · 1:02:03 of 2:00:00");
        assert_eq!(shown[5], "  The striping worked: sda and sdb shared the reads evenly.");
        // What sda read beyond what the stream asked for is somebody else's.
        assert_eq!(shown[6], "others                         7.7       ·     4.1     4.1");
        assert!(shown[8].starts_with("DISK") && shown[9].contains("43 %") && shown[9].contains("awake"));
        assert!(shown[12].contains("asleep") && shown[12].contains("34 °C"), "{}", shown[12]);
        assert!(shown[23].contains("q  quit"));
    }

    #[test]
    fn every_size_is_filled_and_none_is_overflown() {
        for (streams, disks) in [(0, 0), (0, 3), (1, 1), (5, 24), (40, 4), (3, 24)] {
            let s = snapshot(streams, disks);
            for size in [(20, 5), (40, 10), (80, 24), (132, 40), (300, 100), (1, 1)] {
                let mut view = View::default();
                for _ in 0..50 {
                    view.key(Key::Right);
                    view.key(Key::Down);
                }
                view.fit(&s, size);
                let all = lines(&s, &view, size);
                assert_eq!(all.len(), size.1, "{streams} {disks} {size:?}");
                let widest =
                    all.iter().map(|l| l.cut(size.0).iter().map(|(_, t)| columns(t)).sum::<usize>()).max();
                assert!(widest <= Some(size.0));
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_reached_by_keys_and_said() {
        let s = snapshot(20, 24);
        let mut view = View::default();
        let foot = |view: &View| text(&s, view, (100, 30)).pop().unwrap();
        assert!(foot(&view).contains("disks 1 to 5 of 24"), "{}", foot(&view));
        assert!(foot(&view).contains("streams 1 to 14 of 20"), "{}", foot(&view));
        view.key(Key::Right);
        view.key(Key::Down);
        view.fit(&s, (100, 30));
        assert!(foot(&view).contains("disks 2 to 6 of 24"));
        let shown = text(&s, &view, (100, 30));
        assert!(shown[2].contains("sdb") && !shown[2].contains("sda") && shown[3].starts_with("Film 1 "));
        view.key(Key::Left);
        view.key(Key::Left);
        assert!(foot(&view).contains("disks 1 to 5 of 24"));
    }

    #[test]
    fn trouble_and_nothing_to_show_are_said() {
        let view = View { trouble: Some("no server answers".into()), is_paused: true, ..View::default() };
        let shown = text(&snapshot(1, 1), &view, (100, 20));
        assert_eq!(shown[1], "no server answers; this is the last that it said");
        assert!(shown[0].contains("paused"));
        let idle = text(&snapshot(0, 1), &View::default(), (100, 20));
        assert!(idle[2].starts_with("Nothing plays") && idle[0].contains("0 streams, 0.0 MB/s"), "{idle:?}");
        let mut s = snapshot(1, 1);
        s.streams[0].io = None;
        s.streams[0].predicted_stall_s = Some(7.4);
        let shown = text(&s, &View::default(), (100, 20));
        assert!(shown[3].contains("!7 s") && shown[5].contains("nothing is recorded of it"), "{shown:?}");
    }

    #[test]
    fn lines_for_a_file_have_everything_and_no_keys() {
        let view = View { is_plain: true, ..View::default() };
        let shown = text(&snapshot(2, 24), &view, (120, usize::MAX));
        assert!(shown.iter().any(|l| l.contains("sdx")) && !shown.iter().any(|l| l.contains("quit")));
    }

    #[test]
    fn a_title_neither_speaks_to_the_terminal_nor_moves_what_stands_beside_it() {
        let mut s = snapshot(1, 2);
        s.streams[0].title = "a\x1b[2Jb\u{202e}c\nd".into();
        let shown = text(&s, &View::default(), (100, 20));
        assert!(shown[3].starts_with("a?[2Jbc?d  "), "{}", shown[3]);
        s.streams[0].title = "東京物語 and a very long name that goes on".into();
        let line = &lines(&s, &View::default(), (100, 20))[3];
        assert!(line.text().starts_with("東京物語 and a very long… "), "{}", line.text());
        assert_eq!(line.width(), lines(&snapshot(1, 2), &View::default(), (100, 20))[3].width());
    }

    #[test]
    fn keys_are_found_in_what_a_terminal_sends() {
        assert_eq!(Key::all(b"\x1b[A\x1b[B\x1bOC\x1b[D"), [Key::Up, Key::Down, Key::Right, Key::Left]);
        assert_eq!(Key::all(b"xp q"), [Key::Pause, Key::Pause, Key::Quit]);
        assert_eq!(Key::all(b"\x1b[Z\x1b"), [Key::Quit]);
        assert_eq!(Key::all(b"\x03"), [Key::Quit]);
        assert_eq!(Key::all(&[0xff, 0x00]), []);
    }
}
