//! Damaged files by the thousand, from a fixed seed: no panic gets out, nothing loops, nothing is
//! allocated from a length that lies.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::rc::Rc;

use spindle_media::guard::Limits;
use spindle_media::probe::{ProbeError, probe};
use spindle_media::subtitle::{Format, to_webvtt};

/// Live and highest bytes of this thread. Per thread, as tests run side by side.
struct Counting;

thread_local! {
    static LIVE: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

fn grew(by: usize) {
    // The counter may be gone while the thread ends.
    let _ = LIVE.try_with(|c| {
        let (live, peak) = c.get();
        let live = live.saturating_add(by);
        c.set((live, peak.max(live)));
    });
}

fn shrank(by: usize) {
    let _ = LIVE.try_with(|c| {
        let (live, peak) = c.get();
        c.set((live.saturating_sub(by), peak));
    });
}

#[expect(unsafe_code, reason = "an allocator that counts cannot be written without")]
// SAFETY: every call is handed to the system's allocator unchanged; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grew(layout.size());
        // SAFETY: the caller's promise on `layout` is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        shrank(layout.size());
        // SAFETY: `at` came from `alloc` above with this layout.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Highest bytes live during `f`, above those before it.
fn peak_of<T>(f: impl FnOnce() -> T) -> (T, usize) {
    let before = LIVE.with(|c| {
        let (live, _) = c.get();
        c.set((live, live));
        live
    });
    let out = f();
    (out, LIVE.with(Cell::get).1.saturating_sub(before))
}

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n.max(1) as u64).unwrap()
    }
}

/// First byte and the one after the last.
type Span = (usize, usize);

/// One to six edits, most of them where the headers are.
fn mutated(whole: &[u8], headers: &[Span], r: &mut Random) -> Vec<u8> {
    let mut out = whole.to_vec();
    for _ in 0..=r.below(6) {
        let at = if r.below(10) < 8 {
            let (start, end) = headers[r.below(headers.len())];
            start + r.below(end - start)
        } else {
            r.below(out.len())
        };
        let at = at.min(out.len().saturating_sub(1));
        match r.below(8) {
            0 | 1 => out[at] ^= 1 << r.below(8),
            2 => out[at] = u8::try_from(r.below(256)).unwrap(),
            3..=5 => {
                let word = [0, 1, 2, 7, 0x7fff_ffff, 0xffff_ffff, 0x0100_0000][r.below(7)];
                for (n, b) in u32::to_be_bytes(word).into_iter().enumerate() {
                    if let Some(place) = out.get_mut(at + n) {
                        *place = b;
                    }
                }
            }
            6 => {
                let byte = u8::try_from(r.below(256)).unwrap();
                out.splice(at..at, std::iter::repeat_n(byte, 1 + r.below(9)));
            }
            _ if r.below(4) == 0 => out.truncate(at.max(16)),
            _ => {
                let end = (at + 1 + r.below(9)).min(out.len());
                out.drain(at..end);
            }
        }
    }
    out
}

/// Counts what is asked of the file.
struct Counted(Cursor<Vec<u8>>, Rc<Cell<u64>>);

impl Read for Counted {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.1.set(self.1.get() + 1);
        self.0.read(out)
    }
}

impl Seek for Counted {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.1.set(self.1.get() + 1);
        self.0.seek(to)
    }
}

/// Bytes that one probe may hold at once, for a file of a few KiB: what it reads, the copy that a
/// crate sees, and what the crate makes of it.
const MAX_PEAK_BYTES: usize = 4 << 20;
const MAX_CALLS: u64 = 20_000;
const ROUNDS: usize = 1_250;

fn headers(whole: &[u8]) -> Vec<Span> {
    let find = |what: &[u8]| whole.windows(what.len()).position(|w| w == what);
    let mut out = vec![(0, whole.len().min(1_200))];
    if let Some(at) = find(b"moov") {
        out.push((at - 4, whole.len()));
    }
    if let Some(at) = find(&[0x1c, 0x53, 0xbb, 0x6b]) {
        out.push((at, whole.len()));
    }
    out
}

fn survives(name: &str, seed: u64) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    let whole = std::fs::read(path).unwrap();
    let headers = headers(&whole);
    let mut r = Random(seed);
    let (mut read, mut malformed) = (0, 0);
    for round in 0..ROUNDS {
        let bytes = mutated(&whole, &headers, &mut r);
        let size = bytes.len() as u64;
        let calls = Rc::new(Cell::new(0));
        let file = Counted(Cursor::new(bytes), Rc::clone(&calls));
        let limits = Limits { max_calls: MAX_CALLS, ..Limits::default() };
        let once = AssertUnwindSafe(|| probe(file, size, "damaged", limits));
        let (answer, peak) = peak_of(|| catch_unwind(once));
        let answer = answer.unwrap_or_else(|_| panic!("{name}: a panic got out in round {round}"));
        assert!(peak < MAX_PEAK_BYTES, "{name}: {peak} bytes in round {round}");
        assert!(calls.get() <= MAX_CALLS * 2, "{name}: {} calls in round {round}", calls.get());
        match answer {
            Ok(p) => {
                read += 1;
                let index = p.keyframes.unwrap_or_default();
                assert!(index.at_us.is_sorted() && index.at_us.iter().all(|t| *t >= 0));
                assert!(p.info.duration_s.is_some_and(|d| d.is_finite() && d > 0.0));
            }
            Err(ProbeError::Malformed { .. }) => malformed += 1,
            Err(ProbeError::Io { source, .. }) => panic!("{name}: {source} in round {round}"),
            Err(_) => {}
        }
    }
    // The damage must neither miss nor spare everything, or the test shows nothing.
    assert!(malformed > ROUNDS / 20, "{name}: {malformed} malformed, {read} read");
}

#[test]
fn damaged_mp4_does_no_harm() {
    survives("sample.mp4", 1);
}

#[test]
fn damaged_matroska_does_no_harm() {
    survives("sample.mkv", 2);
}

#[test]
fn damaged_webm_and_fragments_do_no_harm() {
    survives("sample.webm", 3);
    survives("sample-fragmented.mp4", 4);
}

#[test]
fn damaged_subtitles_do_no_harm_and_stay_text() {
    let samples: [(&[u8], Format); 3] = [
        (b"1\n00:00:01,000 --> 00:00:02,000\n<i>a</i> {\\an8}b & <c\n\n2\n0:3 --> 0:4\nx\n", Format::Srt),
        (b"WEBVTT\n\nid\n00:01.000 --> 00:02.000 line:0\n<v A>a &amp; b\n\nNOTE x\n", Format::WebVtt),
        (
            b"[Events]\nFormat: Layer, Start, End, Text\nDialogue: 0,0:00:01.00,0:00:02.00,{\\i1}a\\Nb{\\p1}m 0\n",
            Format::Ass,
        ),
    ];
    let mut r = Random(5);
    for (whole, format) in samples {
        let everywhere = [(0, whole.len())];
        for _ in 0..1_500 {
            let bytes = mutated(whole, &everywhere, &mut r);
            let (text, peak) = peak_of(|| to_webvtt(&bytes, format, Some("de")));
            assert!(peak < MAX_PEAK_BYTES, "{peak}");
            let Ok(text) = text else { continue };
            assert!(text.starts_with("WEBVTT\n\n"));
            for line in text.lines().filter(|l| !l.contains(" --> ")) {
                let bare = ["<i>", "</i>", "<b>", "</b>", "<u>", "</u>"]
                    .iter()
                    .fold(line.to_owned(), |l, tag| l.replace(tag, ""));
                assert!(!bare.contains(['<', '>', '\0']), "{line}");
            }
        }
    }
}
