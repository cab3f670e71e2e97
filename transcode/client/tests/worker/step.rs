//! Sound in step with the picture, and the clock right, for every kind of source whose times are told in
//! another way: copied and encoded, from the start and after a jump.
//!
//! A film says its time by itself: a bar in the upper half stands at `20 * second` pixels; the lower half
//! flashes in the first picture of every second, in which a pitch begins to sound.

use spindle_media::keyframes::KeyframeIndex;
use spindle_media::segments::{copy_boundaries, encode_boundaries};
use spindle_transcode::fmp4;

use super::*;

/// How far sound may be from its picture: what people begin to notice is about 45 ms.
const STEP_S: f64 = 0.040;

const PICTURE: &str = "-f lavfi -i color=black:s=320x180:r=25:d=12[b];color=white:s=20x90:r=25:d=12[w];\
[b][w]overlay=x=20*floor(t):y=0,drawbox=y=90:h=90:c=white:t=fill:enable=lt(mod(t\\,1)\\,0.039)";
const SOUND: &str = "-f lavfi -i aevalsrc=0.5*sin(2*PI*1000*t)*lt(mod(t\\,1)\\,0.1):s=48000:d=12";
const H264: &str =
    "-c:v libx264 -preset ultrafast -bf 2 -b_strategy 0 -g 50 -sc_threshold 0 -pix_fmt yuv420p";

/// Where a second of the film begins, in seconds of the file: the picture that shows it, and its pitch.
#[derive(Debug)]
struct Second {
    number: usize,
    seen_s: f64,
    heard_s: Option<f64>,
}

fn raw(path: &Path, arguments: &str) -> Vec<u8> {
    let out = Command::new("ffmpeg")
        .args(["-nostdin", "-v", "error", "-copyts", "-i"])
        .arg(path)
        .args(arguments.split(' '))
        .arg("-")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && said.is_empty(), "{}: {said}", path.display());
    out.stdout
}

/// The times at which pictures are shown, in their order.
fn shown(path: &Path) -> Vec<f64> {
    let out = Command::new("ffprobe")
        .args(["-v", "error", "-select_streams", "v:0", "-show_entries", "frame=best_effort_timestamp_time"])
        .args(["-of", "csv=p=0"])
        .arg(path)
        .output()
        .unwrap();
    String::from_utf8_lossy(&out.stdout)
        .lines()
        .filter_map(|line| line.trim_end_matches(',').parse().ok())
        .collect()
}

const RATE: usize = 8000;

/// What the film says of itself.
fn seconds(path: &Path) -> Vec<Second> {
    let times = shown(path);
    let pictures = raw(path, "-map 0:v:0 -vsync 0 -vf scale=32:18:flags=area,format=gray -f rawvideo");
    let pictures: Vec<&[u8]> = pictures.chunks_exact(32 * 18).collect();
    assert_eq!(pictures.len(), times.len(), "{}: every picture has a time", path.display());
    let sound = raw(path, "-map 0:a:0 -af aresample=8000:async=1:first_pts=0 -ac 1 -f f32le");
    let sound: Vec<f32> =
        sound.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap()).abs()).collect();
    let mut onsets = Vec::new();
    let mut quiet = RATE;
    for (i, level) in sound.iter().enumerate() {
        if *level > 0.15 {
            if quiet > RATE / 4 {
                onsets.push(i as f64 / RATE as f64);
            }
            quiet = 0;
        } else {
            quiet += 1;
        }
    }
    let mut out = Vec::new();
    let mut before = false;
    for (picture, at) in pictures.iter().zip(&times) {
        let flash = picture[32 * 14 + 16] > 128;
        if flash && !before {
            // The brightest column of the second row.
            let row = &picture[64..96];
            let column = (0..32).max_by_key(|c| row[*c]).unwrap();
            let heard_s = onsets.iter().copied().find(|o| (o - at).abs() < 0.45);
            out.push(Second { number: column / 2, seen_s: *at, heard_s });
        }
        before = flash;
    }
    out
}

/// Every second that is seen is heard in step (`apart_s` later, where the film is so), and is where the
/// presentation has it: `zero_s` is where its clock reads 0.
fn check_step(what: &str, path: &Path, zero_s: f64, apart_s: f64, at_least: usize) {
    let seconds = seconds(path);
    assert!(seconds.len() >= at_least, "{what}: only {} seconds are seen: {seconds:?}", seconds.len());
    let mut heard = 0;
    for s in &seconds {
        let clock = s.seen_s - zero_s - s.number as f64;
        assert!(clock.abs() <= STEP_S + 1e-3, "{what}: second {} is shown {clock:+.3} s off", s.number);
        if let Some(at) = s.heard_s {
            heard += 1;
            let off = at - s.seen_s - apart_s;
            assert!(off.abs() <= STEP_S, "{what}: second {} is heard {off:+.3} s off", s.number);
        }
    }
    // The first and the last may be cut in two.
    assert!(heard + 2 >= seconds.len(), "{what}: {heard} of {} seconds are heard", seconds.len());
}

/// The fragments' clocks run on from segment to segment: a player that only counts durations stays right.
fn check_clock(what: &str, init: &[u8], segments: &[Vec<u8>]) {
    for track in fmp4::tracks(init).unwrap() {
        let mut expected: Option<u64> = None;
        for (n, segment) in segments.iter().enumerate() {
            let runs = fmp4::runs(segment).unwrap();
            let Some(run) = runs.iter().find(|r| r.track_id == track.id) else { continue };
            if let Some(expected) = expected {
                let off = run.decode_time.abs_diff(expected);
                // Sound of millisecond clocks is put on its grid of samples: a tick of that clock.
                let most = if track.timescale > 30_000 { u64::from(track.timescale) / 500 } else { 1 };
                assert!(off <= most, "{what}: track {} of segment {n} begins {off} ticks off", track.id);
            }
            let length: u64 = run.samples.iter().map(|s| u64::from(s.duration)).sum();
            expected = Some(run.decode_time + length);
        }
    }
}

struct Source {
    name: &'static str,
    arguments: String,
    copies: bool,
    /// How much later sound is than its picture in the film.
    apart_s: f64,
}

fn source(name: &'static str, arguments: &str) -> Source {
    Source { name, arguments: arguments.to_owned(), copies: true, apart_s: 0.0 }
}

fn av() -> String {
    format!("{PICTURE} {SOUND}")
}

/// One film in one way: from a jump into its middle on, then whole.
async fn plays_in_step(lab: &Lab, source: &Source, path: &Path, copied: bool) {
    let what = format!("{} {}", source.name, if copied { "copied" } else { "encoded" });
    let info = lab.transcoder.probe(open(path), source.name).await.unwrap();
    let duration_us = (info.duration_s.unwrap() * 1e6) as i64;
    assert!((info.duration_s.unwrap() - 12.0).abs() < 0.45, "{what}: {:?} s long", info.duration_s);
    let (v, a) = (info.main_video().unwrap().0.index, info.audio().next().unwrap().0.index);
    let boundaries = if copied {
        let index: KeyframeIndex =
            lab.transcoder.scan_keyframes(open(path), source.name, CancellationToken::new()).await.unwrap();
        copy_boundaries(&index, 3_000_000)
    } else {
        encode_boundaries(duration_us, info.main_video().and_then(|(_, v)| v.frame_rate))
    };
    let video = if copied { VideoPlan::Copy { stream: v } } else { VideoPlan::encode(v, "h264") };
    let audio = AudioPlan::encode(a, "aac", 2);
    let mut plan = plan(Some(video), Some(audio), &boundaries);
    plan.start_us = Some((info.start_s * 1e6) as i64);
    plan.clock_restarts = info.clock_restarts.clone();
    let (rendition, _) = lab.open(path, plan);
    let count = boundaries.len() - 1;
    let middle = count / 2;
    let mut segments = vec![Vec::new(); count];
    for n in (middle..count).chain(0..middle) {
        segments[n] = rendition.segment(n).await.unwrap().read().unwrap().to_vec();
    }
    let init = rendition.init().await.unwrap().read().unwrap().to_vec();
    check_clock(&what, &init, &segments);
    // Where the clock reads 0: sound may begin before the picture.
    let zero_s = shown(path)[0] - info.start_s;
    for (from, least) in [(middle, 3), (0, 12)] {
        let file = lab.dir.path().join("cut.mp4");
        std::fs::write(&file, [init.clone(), segments[from..].concat()].concat()).unwrap();
        if from > 0 {
            let (at, listed) = (packets(&file, "v:0")[0].0, boundaries[from] as f64 / 1e6);
            // A picture of the slowest part lasts 0.2 s.
            let most = if source.name.contains("varies") { 0.21 } else { 0.081 };
            assert!((at - listed).abs() <= most, "{what}: segment {from} begins at {at}, not {listed}");
        }
        check_step(&format!("{what} from segment {from}"), &file, zero_s, source.apart_s, least);
    }
}

/// One film, copied and encoded, from the start and after a jump.
async fn is_in_step(source: Source) {
    let mut failed = Vec::new();
    let lab = Lab::new();
    let path = lab.make(source.name, &source.arguments);
    for copied in [true, false] {
        if copied && !source.copies {
            continue;
        }
        // Both are looked at before the test says no.
        let done = std::panic::AssertUnwindSafe(plays_in_step(&lab, &source, &path, copied));
        if let Err(panic) = caught(done).await {
            failed.push(panic);
        }
    }
    lab.close().await;
    assert!(failed.is_empty(), "{failed:#?}");
}

/// A test for each film: sound is in step from the start and after a jump, whatever tells the times.
macro_rules! in_step {
    ($($(#[$about:meta])* $name:ident: $source:expr;)*) => {
        $($(#[$about])*
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            is_in_step($source).await;
        })*
    };
}

in_step! {
    /// B pictures, an edit list, priming.
    sound_is_in_step_where_an_edit_list_tells: source("edit.mp4", &format!("{} {H264} -c:a aac", av()));
    /// No edit list, no index.
    sound_is_in_step_in_fragments:
        source("fragments.mp4", &format!("{} {H264} -c:a aac -movflags frag_keyframe+empty_moov", av()));
    sound_is_in_step_with_open_groups:
        source("open.mkv", &format!("{} {H264} -x264-params open-gop=1:bframes=3 -c:a ac3", av()));
    /// CRA pictures with leading ones.
    sound_is_in_step_with_open_groups_of_hevc: source(
        "open-hevc.mkv",
        &format!(
            "{} -c:v libx265 -preset ultrafast -x265-params log-level=error:keyint=50:bframes=3:pools=none -c:a eac3",
            av()
        ),
    );
    sound_is_in_step_on_a_blu_ray:
        source("blu-ray.m2ts", &format!("{} {H264} -c:a ac3 -f mpegts -mpegts_m2ts_mode 1", av()));
    /// The clock of 33 bits begins anew some six seconds in (2^33 / 90,000 = 95,443.7 s).
    sound_is_in_step_when_the_clock_wraps:
        source("wrap.ts", &format!("{} {H264} -c:a mp2 -output_ts_offset 95436 -f mpegts", av()));
    /// Neither length nor Cues.
    sound_is_in_step_without_cues:
        source("no-cues.mkv", &format!("{} {H264} -c:a aac -f matroska -live 1", av()));
    /// The rate falls from 25 to 5 pictures a second.
    sound_is_in_step_at_a_varying_rate: source(
        "varies.mkv",
        &format!("{PICTURE},select=lt(t\\,6)+not(mod(n\\,5)) {SOUND} -vsync 0 {H264} -c:a aac"),
    );
    /// Pictures without a time of their own.
    sound_is_in_step_with_pictures_without_times: Source {
        copies: false,
        ..source("no-times.avi", &format!("{} -c:v mpeg4 -q:v 4 -bf 2 -g 50 -c:a mp3", av()))
    };
    sound_is_in_step_when_it_begins_late: Source {
        apart_s: 0.3,
        ..source("late-sound.mkv", &format!("{PICTURE} -itsoffset 0.3 {SOUND} {H264} -c:a aac"))
    };
    sound_is_in_step_when_the_picture_begins_late: Source {
        apart_s: -0.3,
        ..source("late-picture.mkv", &format!("-itsoffset 0.3 {PICTURE} {SOUND} {H264} -c:a aac"))
    };
}

/// Runs a future to its end or its panic, whose message it gives.
async fn caught(future: std::panic::AssertUnwindSafe<impl Future<Output = ()>>) -> Result<(), String> {
    let mut future = Box::pin(future.0);
    std::future::poll_fn(move |context| {
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(std::task::Poll::Pending) => std::task::Poll::Pending,
            Ok(std::task::Poll::Ready(())) => std::task::Poll::Ready(Ok(())),
            Err(panic) => std::task::Poll::Ready(Err(panic
                .downcast_ref::<String>()
                .cloned()
                .unwrap_or_else(|| "a panic".to_owned()))),
        }
    })
    .await
}
