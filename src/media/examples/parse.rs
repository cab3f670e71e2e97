//! What the server does with a file's bytes in its own process, for `scripts/fuzz`: reads `PATH` lines from standard input,
//! and answers each with one line of five fields, divided by tabs: `read`, `refused` or `panic`; the most bytes of memory
//! held at once; reads and seeks of the file; microseconds; what there is to say.
//!
//! A file is described as the scanner does; its key frames are cut into segments and written as playlists; taken as text it is
//! converted in each format. A panic of our own code is an answer even where the net in `guard` holds it, as a fault that the
//! net was not made for; one of a crate that is known to have them is the net's business. Whoever starts this gives it a limit of
//! memory and watches the time: a standstill is known by the line that does not come.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, RefCell};
use std::io::{self, BufRead as _, Cursor, Read, Seek, SeekFrom, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use spindle_base::clock::instant;
use spindle_media::guard::Limits;
use spindle_media::info::StreamKind;
use spindle_media::language;
use spindle_media::m3u8::{self, MediaPlaylist, SubtitleRendition, Variant, VideoRange};
use spindle_media::probe::{Probed, probe};
use spindle_media::segments::{copy_boundaries, encode_boundaries};
use spindle_media::subtitle::{Format, to_webvtt};

/// Counts live bytes; there is one thread.
struct Counting;

thread_local! {
    static LIVE: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
    /// Where our own code panicked, and with which words.
    static OURS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

#[expect(unsafe_code, reason = "an allocator that counts cannot be written without")]
// SAFETY: every call is handed to the system's allocator unchanged; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // The counter may be gone while the thread ends.
        let _ = LIVE.try_with(|c| {
            let (live, peak) = c.get();
            let live = live.saturating_add(layout.size());
            c.set((live, peak.max(live)));
        });
        // SAFETY: the caller's promise on `layout` is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        let _ = LIVE.try_with(|c| {
            let (live, peak) = c.get();
            c.set((live.saturating_sub(layout.size()), peak));
        });
        // SAFETY: `at` came from `alloc` above with this layout.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Counts what is asked of the file.
struct Counted<'a>(Cursor<&'a [u8]>, Rc<Cell<u64>>);

impl Read for Counted<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.1.set(self.1.get() + 1);
        self.0.read(out)
    }
}

impl Seek for Counted<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.1.set(self.1.get() + 1);
        self.0.seek(to)
    }
}

/// A copied segment's length, as sessions ask for it.
const TARGET_US: i64 = 6_000_000;
/// Most segments that a playlist may have: `segments` promises a hundred thousand and the first, short ones.
const MAX_CUTS: usize = 100_010;
/// Languages whose code pages differ.
const LANGUAGES: [Option<&str>; 6] = [None, Some("de"), Some("ja"), Some("ru"), Some("zh"), Some("el")];

/// What is looked at of a file that is none of text.
const NO_TEXT_BYTES: usize = 4 << 10;

fn main() -> io::Result<()> {
    std::panic::set_hook(Box::new(|info| {
        let Some(at) = info.location() else { return };
        // Crates from the registry, and the standard library on their behalf, have absolute paths.
        let ours = at.file().starts_with("src/");
        let text = info.to_string().replace(['\n', '\t'], " ");
        let _ = OURS.try_with(|o| o.borrow_mut().push(if ours { text } else { format!("(held) {text}") }));
    }));
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let path = line?;
        let bytes = std::fs::read(&path)?;
        OURS.with(|o| o.borrow_mut().clear());
        let calls = Rc::new(Cell::new(0));
        let before = LIVE.with(|c| {
            let (live, _) = c.get();
            c.set((live, live));
            live
        });
        let began = instant();
        let done = catch_unwind(AssertUnwindSafe(|| all(&bytes, &calls)));
        let took = began.elapsed();
        let peak = LIVE.with(Cell::get).1.saturating_sub(before);
        let panics = OURS.with(|o| o.borrow().join("; "));
        let out_of_the_net = done.is_err();
        let (verdict, text) = match done {
            _ if out_of_the_net || panics.split("; ").any(|p| p.starts_with("panicked")) => ("panic", panics),
            Ok(Ok(text)) => ("read", format!("{text} {panics}")),
            Ok(Err(text)) => ("refused", format!("{text} {panics}")),
            Err(_) => ("panic", panics),
        };
        let text = text.replace(['\n', '\r', '\t'], " ");
        writeln!(out, "{verdict}\t{peak}\t{}\t{}\t{text}", calls.get(), took.as_micros())?;
        out.flush()?;
    }
    Ok(())
}

/// Everything; what comes of the description is the answer. What must hold of it is asserted.
fn all(bytes: &[u8], calls: &Rc<Cell<u64>>) -> Result<String, String> {
    let mut text = String::new();
    // Detecting a code page takes long, and what is no text is not more of it by being larger.
    let is_text = bytes.len() < NO_TEXT_BYTES || !bytes[..NO_TEXT_BYTES].contains(&0);
    let taken = if is_text { bytes } else { &bytes[..NO_TEXT_BYTES] };
    for (n, format) in [Format::Srt, Format::WebVtt, Format::Ass].into_iter().enumerate() {
        for language in LANGUAGES.into_iter().skip(n).step_by(3) {
            if let Ok(vtt) = to_webvtt(taken, format, language) {
                assert!(vtt.starts_with("WEBVTT\n\n") && !vtt.contains('\0'), "not WebVTT: {vtt:.40}");
                text = format!("{} bytes of WebVTT", vtt.len());
            }
        }
    }
    let file = Counted(Cursor::new(bytes), Rc::clone(calls));
    match probe(file, bytes.len() as u64, "film", Limits::default()) {
        Ok(probed) => {
            playlists(&probed);
            Ok(format!("{} of {} streams", probed.info.container, probed.info.streams.len()))
        }
        Err(e) if text.is_empty() => Err(e.to_string()),
        Err(_) => Ok(text),
    }
}

fn playlists(probed: &Probed) {
    let info = &probed.info;
    let duration_s = info.duration_s.unwrap_or(0.0);
    assert!(duration_s.is_finite() && duration_s >= 0.0, "a length of {duration_s} s");
    let index = probed.keyframes.clone().unwrap_or_default();
    assert!(index.at_us.is_sorted() && index.at_us.iter().all(|t| *t >= 0), "key frames out of order");
    // As sessions do: what a header claims is cut off at what an i64 of microseconds holds.
    let duration_us = (duration_s * 1e6) as i64;
    let fps = info.main_video().and_then(|(_, v)| v.frame_rate);
    for cuts in [copy_boundaries(&index, TARGET_US), encode_boundaries(duration_us, fps)] {
        assert!(cuts.windows(2).all(|w| w[0] < w[1]), "boundaries out of order");
        assert!(cuts.len() <= MAX_CUTS.max(index.at_us.len() + 2), "{} boundaries", cuts.len());
        let list = MediaPlaylist { boundaries_us: &cuts, init_uri: Some("init.mp4"), independent: true };
        let text = list.write(|n| format!("{n}.m4s"));
        assert!(text.ends_with("#EXT-X-ENDLIST\n"));
    }
    assert!(m3u8::subtitle_playlist(duration_us, "s.vtt").starts_with("#EXTM3U\n"));
    let codecs: Vec<&str> = info.streams.iter().filter_map(|s| s.codec_string.as_deref()).collect();
    let names: Vec<SubtitleRendition<'_>> = info
        .subtitles()
        .map(|(s, _)| SubtitleRendition {
            name: s.title.as_deref().unwrap_or("-"),
            language: s.language.as_deref().and_then(language::normalise),
            uri: "s.m3u8",
            ..SubtitleRendition::default()
        })
        .collect();
    let video = info.streams.iter().find_map(|s| match &s.kind {
        StreamKind::Video(v) => Some(v),
        _ => None,
    });
    let variant = Variant {
        uri: "media.m3u8",
        codecs: &codecs,
        resolution: video.map(|v| (v.width, v.height)),
        frame_rate: fps.map(|[num, den]| f64::from(num) / f64::from(den)),
        video_range: video.and_then(|v| VideoRange::of(v.hdr)),
        ..Variant::default()
    };
    let text = m3u8::multivariant(&[variant], &names, true);
    // What a file says never adds a line of its own.
    assert_eq!(text.lines().count(), 5 + names.len(), "lines of the playlist: {text}");
}
