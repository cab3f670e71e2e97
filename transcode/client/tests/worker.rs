//! The crate with the real worker: samples made by the `ffmpeg` program, results checked by
//! `ffprobe` and `ffmpeg`. Needs the worker built: `cargo build -p spindle-transcode-worker`, or
//! its path in `SPINDLE_TRANSCODE`.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests against a real process")]

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use spindle_base::clock::SystemClock;
use spindle_base::error::ErrorKind;
use spindle_base::shutdown::Shutdown;
use spindle_transcode::{
    AudioPlan, Boundaries, BoxFuture, Config, Container, FileKey, Input, InputFile, Picture, Plan, Rendition,
    RenditionKey, Transcoder, VideoPlan, WorkerRead,
};
use tokio_util::sync::CancellationToken;

#[path = "worker/shape.rs"]
mod shape;
#[path = "worker/step.rs"]
mod step;

fn worker_program() -> PathBuf {
    if let Ok(path) = std::env::var("SPINDLE_TRANSCODE") {
        return path.into();
    }
    // target/<profile>/deps/<test> -> target/<profile>/spindle-transcode
    let here = std::env::current_exe().unwrap();
    let path = here.parent().unwrap().parent().unwrap().join("spindle-transcode");
    assert!(path.exists(), "build the worker first: cargo build -p spindle-transcode-worker");
    path
}

struct Lab {
    dir: tempfile::TempDir,
    transcoder: Transcoder,
    shutdown: Shutdown,
}

impl Lab {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut Config)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut config = Config {
            worker_program: worker_program(),
            cache_dir: dir.path().join("cache"),
            cache_bytes: 256 << 20,
            max_workers: 4,
            run_ahead: 3,
            spare_stays: Duration::from_secs(30),
        };
        change(&mut config);
        let shutdown = Shutdown::new();
        let transcoder = Transcoder::start(config, Arc::new(SystemClock), shutdown.clone()).unwrap();
        Self { dir, transcoder, shutdown }
    }

    /// Runs ffmpeg with arguments split at spaces; the result is a file of this name.
    fn make(&self, name: &str, arguments: &str) -> PathBuf {
        let out = self.dir.path().join(name);
        ffmpeg(&format!("-v error -y {arguments}"), &[&out]);
        out
    }

    fn open(&self, path: &Path, plan: Plan) -> (Rendition, Arc<Film>) {
        let film = Arc::new(Film { path: path.to_owned(), pids: Mutex::default(), rows: Mutex::default() });
        let input: Arc<dyn Input> = Arc::clone(&film) as Arc<dyn Input>;
        (self.transcoder.rendition(RenditionKey::new(file_key(path), &plan), plan, input), film)
    }

    async fn close(self) {
        assert!(self.shutdown.close(Duration::from_secs(5)).await);
    }
}

struct Film {
    path: PathBuf,
    pids: Mutex<Vec<u32>>,
    rows: Mutex<Vec<WorkerRead>>,
}

impl Input for Film {
    fn open(&self) -> BoxFuture<'_, io::Result<InputFile>> {
        Box::pin(async { Ok(Box::new(File::open(&self.path)?) as InputFile) })
    }
    fn worker_started(&self, pid: u32) {
        self.pids.lock().unwrap().push(pid);
    }
    fn reads(&self, rows: Vec<WorkerRead>) {
        self.rows.lock().unwrap().extend(rows);
    }
}

fn file_key(path: &Path) -> FileKey {
    use std::os::unix::fs::MetadataExt as _;
    let m = std::fs::metadata(path).unwrap();
    FileKey { dev: m.dev(), ino: m.ino(), size_bytes: m.len(), modified_us: m.mtime(), changed_us: m.ctime() }
}

fn open(path: &Path) -> InputFile {
    Box::new(File::open(path).unwrap())
}

fn ffmpeg(arguments: &str, paths: &[&Path]) -> String {
    let out = Command::new("ffmpeg")
        .arg("-nostdin")
        .args(arguments.split(' ').filter(|a| !a.is_empty()))
        .args(paths)
        .output()
        .unwrap();
    let log = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "ffmpeg {arguments}: {log}");
    log
}

/// (pts, dts, flags) of the packets of a stream, as ffprobe sees them.
fn packets(path: &Path, stream: &str) -> Vec<(f64, f64, bool)> {
    let out = Command::new("ffprobe")
        .args([
            "-v",
            "error",
            "-select_streams",
            stream,
            "-show_entries",
            "packet=pts_time,dts_time,flags",
            "-of",
            "csv=p=0",
        ])
        .arg(path)
        .output()
        .unwrap();
    String::from_utf8_lossy(&out.stdout)
        .lines()
        .filter_map(|line| {
            let mut f = line.split(',');
            Some((f.next()?.parse().ok()?, f.next()?.parse().ok()?, f.next()?.starts_with('K')))
        })
        .collect()
}

/// Errors that decoding gives.
fn decode(path: &Path) -> String {
    ffmpeg("-v error -xerror -i", &[path, Path::new("-f"), Path::new("null"), Path::new("-")])
}

async fn save(lab: &Lab, rendition: &Rendition, name: &str, segments: &[usize]) -> PathBuf {
    let mut bytes = rendition.init().await.unwrap().read().unwrap().to_vec();
    for n in segments {
        bytes.extend_from_slice(&rendition.segment(*n).await.unwrap().read().unwrap());
    }
    let path = lab.dir.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

fn plan(video: Option<VideoPlan>, audio: Option<AudioPlan>, boundaries: &[i64]) -> Plan {
    Plan {
        video,
        audio,
        boundaries: Boundaries(boundaries.to_vec()),
        container: Container::Fmp4,
        start_us: None,
        clock_restarts: Vec::new(),
    }
}

fn copy() -> (Option<VideoPlan>, Option<AudioPlan>) {
    (Some(VideoPlan::Copy { stream: 0 }), Some(AudioPlan::Copy { stream: 1 }))
}

fn encode() -> (Option<VideoPlan>, Option<AudioPlan>) {
    (
        Some(VideoPlan::Encode {
            stream: 0,
            codec: "h264".to_owned(),
            max_width: Some(320),
            max_height: None,
            max_bitrate_bps: Some(800_000),
            fps_cap: None,
            burn_subtitle: None,
            tone_map: false,
        }),
        Some(AudioPlan::Encode {
            stream: 1,
            codec: "aac".to_owned(),
            channels: 2,
            bitrate_bps: Some(128_000),
            sample_rate: None,
        }),
    )
}

const FILM: &str = "-f lavfi -i testsrc2=s=640x360:r=25:d=12 -f lavfi -i sine=f=440:r=48000:d=12 \
-c:v libx264 -preset ultrafast -bf 2 -b_strategy 0 -g 50 -keyint_min 50 -sc_threshold 0 -pix_fmt yuv420p -c:a aac -ac 2 -shortest";
const TWO_SECONDS: [i64; 7] = [0, 2_000_000, 4_000_000, 6_000_000, 8_000_000, 10_000_000, 12_000_000];

/// What holds for every segment, copied or encoded.
async fn check_whole(lab: &Lab, rendition: &Rendition, boundaries: &[i64]) {
    let all: Vec<usize> = (0..boundaries.len() - 1).collect();
    for n in &all {
        let path = save(lab, rendition, "one.mp4", &[*n]).await;
        assert_eq!(decode(&path), "", "segment {n} alone");
        let video = packets(&path, "v:0");
        assert!(video[0].2, "segment {n} begins with a key frame");
        let at = boundaries[*n] as f64 / 1e6;
        assert!((video[0].0 - at).abs() < 0.041, "segment {n} begins at {} and not {at}", video[0].0);
    }
    let whole = save(lab, rendition, "whole.mp4", &all).await;
    assert_eq!(decode(&whole), "");
    for (stream, step) in [("v:0", 0.05), ("a:0", 0.05)] {
        let p = packets(&whole, stream);
        let mut shown: Vec<f64> = p.iter().map(|p| p.0).collect();
        shown.sort_by(f64::total_cmp);
        assert!(shown[0].abs() < 0.03, "{stream} starts at {}", shown[0]);
        assert!(*shown.last().unwrap() > 11.9, "{stream} ends at {}", shown.last().unwrap());
        for w in shown.windows(2) {
            assert!(w[1] - w[0] < step && w[1] > w[0], "{stream}: {} then {}", w[0], w[1]);
        }
        for w in p.windows(2) {
            assert!(w[1].1 > w[0].1, "{stream}: decode times rise");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn copied_segments_stand_alone_and_join_without_a_gap() {
    let lab = Lab::new();
    for name in ["film.mp4", "film.mkv", "film.ts"] {
        let film = lab.make(name, FILM);
        let (video, audio) = copy();
        let (rendition, input) = lab.open(&film, plan(video, audio, &TWO_SECONDS));
        check_whole(&lab, &rendition, &TWO_SECONDS).await;
        let read: u64 = input.rows.lock().unwrap().iter().map(|r| u64::from(r.len_bytes)).sum();
        assert!(read >= std::fs::metadata(&film).unwrap().len() / 2, "the reads are told");
    }
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn encoded_segments_stand_alone_and_join_without_a_gap() {
    let lab = Lab::new();
    let film = lab.make("film.mkv", FILM);
    let (video, audio) = encode();
    let (rendition, _) = lab.open(&film, plan(video, audio, &TWO_SECONDS));
    check_whole(&lab, &rendition, &TWO_SECONDS).await;
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_segment_has_the_same_bytes_in_whatever_order_it_is_asked_for() {
    let lab = Lab::new();
    for (name, (video, audio)) in [
        ("a.mkv", copy()),
        ("a.ts", copy()),
        ("a.mp4", copy()),
        ("d.mkv", (copy().0, encode().1)),
        ("d.ts", (copy().0, encode().1)),
        ("d.mp4", (None, encode().1)),
    ] {
        let film = lab.make(name, FILM);
        let mut seen: Vec<Option<Vec<u8>>> = vec![None; 6];
        for order in [[0, 1, 2, 3, 4, 5], [5, 3, 4, 0, 1, 2], [2, 5, 1, 4, 3, 0]] {
            // Another cache, so that every segment is made again.
            let again = Lab::new();
            let (rendition, _) = again.open(&film, plan(video.clone(), audio.clone(), &TWO_SECONDS));
            for n in order {
                let bytes = rendition.segment(n).await.unwrap().read().unwrap().to_vec();
                match &seen[n] {
                    Some(first) => {
                        if *first != bytes
                            && let Ok(keep) = std::env::var("SPINDLE_KEEP")
                        {
                            std::fs::write(format!("{keep}/{name}-{n}-first"), first).unwrap();
                            std::fs::write(format!("{keep}/{name}-{n}-again"), &bytes).unwrap();
                        }
                        assert!(*first == bytes, "{name}: segment {n} in order {order:?}");
                    }
                    None => seen[n] = Some(bytes),
                }
            }
            again.close().await;
        }
    }
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn encoded_segments_of_different_runs_have_the_same_times_and_join() {
    let lab = Lab::new();
    let film = lab.make("film.mkv", FILM);
    let mut runs: Vec<(Vec<Vec<u8>>, Vec<u8>)> = Vec::new();
    for order in [[0, 1, 2, 3, 4, 5], [5, 3, 4, 0, 1, 2], [2, 5, 1, 4, 3, 0]] {
        let again = Lab::new();
        let (video, audio) = encode();
        let (rendition, _) = again.open(&film, plan(video, audio, &TWO_SECONDS));
        let mut made = vec![Vec::new(); 6];
        for n in order {
            made[n] = rendition.segment(n).await.unwrap().read().unwrap().to_vec();
        }
        runs.push((made, rendition.init().await.unwrap().read().unwrap().to_vec()));
        again.close().await;
    }
    assert!(runs.iter().all(|(_, init)| *init == runs[0].1), "one init segment for all");
    // Each segment from another run than the one before it.
    let mut seen: Option<[Vec<f64>; 2]> = None;
    for first in 0..3 {
        let mut bytes = runs[0].1.clone();
        for n in 0..6 {
            bytes.extend_from_slice(&runs[(first + n) % 3].0[n]);
        }
        let path = lab.dir.path().join("mixed.mp4");
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(decode(&path), "", "mixed from run {first} on");
        let video = packets(&path, "v:0");
        assert_eq!(video.len(), 300);
        assert!(video.windows(2).all(|w| w[1].1 > w[0].1), "decode times rise");
        // Which picture is coded as which kind may differ; which are shown when may not.
        let mut shown: Vec<f64> = video.iter().map(|p| p.0).collect();
        shown.sort_by(f64::total_cmp);
        let now = [shown, packets(&path, "a:0").iter().map(|p| p.0).collect()];
        assert_eq!(seen.get_or_insert_with(|| now.clone()), &now, "from run {first} on");
    }
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_worker_is_replaced_and_a_stopped_one_is_given_up_within_15_seconds() {
    let lab = Lab::new();
    let film = lab.make("film.mkv", FILM);
    let (video, audio) = encode();
    let (rendition, input) = lab.open(&film, plan(video, audio, &TWO_SECONDS));
    rendition.segment(0).await.unwrap();
    let pid = *input.pids.lock().unwrap().last().unwrap();
    signal(pid, "KILL");
    rendition.segment(5).await.unwrap();
    let pid = *input.pids.lock().unwrap().last().unwrap();
    signal(pid, "STOP");
    let began = Instant::now();
    let result = rendition.segment(1).await;
    assert!(began.elapsed() < Duration::from_secs(15));
    assert!(result.is_ok(), "tried once more: {result:?}");
    assert!(rendition.segment(3).await.is_ok());
    lab.close().await;
}

fn signal(pid: u32, name: &str) {
    assert!(Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().unwrap().success());
}

fn is_alive(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|s| !s.contains(") Z "))
}

/// Waits for a state with a bound; the state, not the time, is what is tested.
async fn until(what: &str, limit: Duration, is: impl Fn() -> bool) {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < limit, "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_are_gone_ten_seconds_after_the_last_viewer() {
    let lab = Lab::new();
    let film = lab.make("film.mkv", FILM);
    let (video, audio) = encode();
    let (rendition, input) = lab.open(&film, plan(video, audio, &TWO_SECONDS));
    rendition.segment(0).await.unwrap();
    let pid = input.pids.lock().unwrap()[0];
    assert!(is_alive(pid));
    drop(rendition);
    until("the worker lives on", Duration::from_secs(10), || !is_alive(pid)).await;
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_viewers_share_workers_and_a_full_house_is_said() {
    let lab = Lab::with(|c| c.max_workers = 1);
    let film = lab.make("film.mkv", FILM);
    let (video, audio) = copy();
    let (one, input) = lab.open(&film, plan(video.clone(), audio.clone(), &TWO_SECONDS));
    let (two, _) = lab.open(&film, plan(video.clone(), audio, &TWO_SECONDS));
    let (a, b) = tokio::join!(one.segment(0), two.segment(0));
    assert_eq!(a.unwrap().read().unwrap(), b.unwrap().read().unwrap());
    assert_eq!(input.pids.lock().unwrap().len(), 1);
    let pid = input.pids.lock().unwrap()[0];
    let score = std::fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).unwrap();
    assert_eq!(score.trim(), "1000", "the server would be as likely to be ended as its worker");
    // A worker that has work keeps its place: this one is held at it.
    until("it rests", Duration::from_secs(60), || one.status().workers.iter().all(|w| w.granted == 0)).await;
    let pid = input.pids.lock().unwrap()[0];
    signal(pid, "STOP");
    let wait = tokio::spawn({
        let one = one.clone();
        async move { one.segment(5).await }
    });
    until("it is asked for the last", Duration::from_secs(10), || {
        one.status().workers.iter().any(|w| w.granted > 0)
    })
    .await;
    let (other, _) = lab.open(&film, plan(video, None, &TWO_SECONDS));
    assert_eq!(other.segment(0).await.unwrap_err().kind(), ErrorKind::OverLimit);
    signal(pid, "CONT");
    wait.await.unwrap().unwrap();
    assert_eq!(one.segment(6).await.unwrap_err().kind(), ErrorKind::BadInput);
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_rests_gives_way_to_a_rendition_that_has_none() {
    let lab = Lab::with(|c| c.max_workers = 4);
    let film = lab.make("film.mkv", FILM);
    // Five renditions on four places, all within the seconds that a worker stays: each is served, and so is
    // who had to give way when they go on.
    let renditions: Vec<Rendition> = (0..5)
        .map(|i| {
            let audio = AudioPlan::Encode {
                stream: 1,
                codec: "aac".to_owned(),
                channels: 2,
                bitrate_bps: Some(96_000 + i * 8_000),
                sample_rate: None,
            };
            lab.open(&film, plan(None, Some(audio), &TWO_SECONDS)).0
        })
        .collect();
    for n in [0, 5] {
        for rendition in &renditions {
            rendition.segment(n).await.unwrap();
            // Until it rests: what it makes ahead is work, too.
            until("the worker rests", Duration::from_secs(60), || {
                rendition.status().workers.iter().all(|w| w.granted == 0)
            })
            .await;
        }
    }
    let workers: usize = renditions.iter().map(|r| r.status().workers.len()).sum();
    assert!(workers <= 4, "{workers} workers on four places");
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cache_stays_within_its_bound() {
    let lab = Lab::with(|c| c.cache_bytes = 1_000_000);
    let film = lab.make("film.mkv", FILM);
    let (video, audio) = copy();
    let (rendition, _) = lab.open(&film, plan(video, audio, &TWO_SECONDS));
    // Room for two of six segments: one in use and one just made are within the bound.
    let (mut made, mut most) = (0, 0);
    for n in [0, 1, 2, 3, 4, 5, 0, 3, 1] {
        made += rendition.segment(n).await.unwrap().len_bytes;
        most = most.max(lab.transcoder.cache_bytes());
    }
    assert!(made > 2_000_000, "the film is larger than the cache");
    assert!(most <= 1_000_000, "{most} bytes were held");
    assert_eq!(std::fs::read_dir(lab.dir.path().join("cache")).unwrap().count(), 0);
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_media_is_refused_with_a_reason_and_nothing_else_is_opened() {
    let lab = Lab::new();
    let secret = lab.make("secret.mp4", FILM);
    let text = |name: &str, content: &str| {
        let path = lab.dir.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    };
    let s = secret.display();
    let hls =
        text("a.mp4", &format!("#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\nfile://{s}\n#EXT-X-ENDLIST\n"));
    let concat = text("b.mkv", &format!("ffconcat version 1.0\nfile {s}\n"));
    let dash = text(
        "d.mp4",
        "<?xml version=\"1.0\"?><MPD xmlns=\"urn:mpeg:dash:schema:mpd:2011\" profiles=\"urn:mpeg:dash:profile:isoff-live:2011\"></MPD>",
    );
    let empty = text("c.mp4", "");
    let list = text("List (1998).mp4", &format!("#EXTM3U\nfile://{s}\n"));
    let page = text("e.mkv", "<!DOCTYPE html>\n<html><body>404</body></html>\n");
    let plain = text("f.mp4", "This film was removed.\n");
    let zeros = lab.dir.path().join("g.mp4");
    std::fs::write(&zeros, vec![0; 100_000]).unwrap();
    let noise = lab.dir.path().join("h.mp4");
    let mut state = 1_u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    std::fs::write(&noise, (0..100_000).map(|_| random()).collect::<Vec<u8>>()).unwrap();
    let zip = text("i.mkv", "PK\u{3}\u{4}\u{14}\0\0\0");
    let whole = std::fs::read(&secret).unwrap();
    let cut = lab.dir.path().join("cut.mp4");
    std::fs::write(&cut, &whole[..whole.len() / 2]).unwrap();
    for (path, word) in [
        (&hls, "HLS playlist"),
        (&concat, "list of other files"),
        (&dash, "DASH"),
        (&empty, "empty file"),
        (&cut, "moov"),
        (&list, "playlist"),
        (&page, "web page"),
        (&plain, "plain text"),
        (&zeros, "zeros"),
        (&noise, "known format"),
        (&zip, "ZIP"),
    ] {
        let name = path.file_name().unwrap().to_str().unwrap();
        let error = lab.transcoder.probe(open(path), name).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unreadable, "{error}");
        assert!(error.to_string().contains(word), "{name}: {error}");
    }
    assert!(lab.transcoder.probe(open(&secret), "secret.mp4").await.is_ok(), "the prober goes on");
    lab.close().await;
}

/// The prober under strace: from its hello on it opens nothing by name.
#[tokio::test(flavor = "multi_thread")]
async fn a_playlist_makes_the_worker_open_nothing() {
    if Command::new("strace").arg("-V").output().is_err() {
        return;
    }
    let lab = Lab::new();
    let list = lab.dir.path().join("List (1998).mp4");
    std::fs::write(
        &list,
        "#EXTM3U\n#EXT-X-VERSION:3\n#EXTINF:9,\nhttp://127.0.0.1:9/a.ts\nfile:///etc/passwd\n",
    )
    .unwrap();
    // The first file starts the prober; its process is then followed for the second.
    let film = lab.make("film.mkv", FILM);
    lab.transcoder.probe(open(&film), "film.mkv").await.unwrap();
    let log = lab.dir.path().join("strace");
    let workers: Vec<String> = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|e| e.unwrap().file_name().into_string().ok())
        .filter(|pid| {
            std::fs::read_to_string(format!("/proc/{pid}/cmdline"))
                .is_ok_and(|c| c.contains(&format!("--parent={}", std::process::id())))
        })
        .collect();
    let mut strace = Command::new("strace")
        .args(["-f", "-qq", "-e", "trace=open,openat,openat2,socket,connect,execve", "-o"])
        .arg(&log)
        .args(workers.iter().flat_map(|pid| ["-p", pid.as_str()]))
        .spawn()
        .unwrap();
    let traced = || {
        workers.iter().all(|pid| {
            std::fs::read_to_string(format!("/proc/{pid}/status"))
                .is_ok_and(|s| !s.contains("TracerPid:\t0\n"))
        })
    };
    until("strace follows", Duration::from_secs(10), traced).await;
    let error = lab.transcoder.probe(open(&list), "List (1998).mp4").await.unwrap_err();
    assert!(error.to_string().contains("HLS playlist"), "{error}");
    signal(strace.id(), "INT");
    strace.wait().unwrap();
    let seen = std::fs::read_to_string(&log).unwrap();
    let opened: Vec<&str> = seen
        .lines()
        .filter(|l| l.contains("open") || l.contains("socket(") || l.contains("connect("))
        .collect();
    assert!(opened.is_empty(), "{opened:?}");
    lab.close().await;
}

/// MPEG-2 becomes H.264 whose pictures are all there: in each segment with the init segment alone.
#[tokio::test(flavor = "multi_thread")]
async fn every_picture_of_an_encoded_segment_decodes_with_the_init_segment() {
    let lab = Lab::new();
    let film = lab.make(
        "film.mkv",
        "-f lavfi -i testsrc2=s=640x360:r=25:d=6 -f lavfi -i sine=f=440:r=48000:d=6 \
         -c:v mpeg2video -b:v 3M -g 12 -bf 2 -c:a ac3 -b:a 192k",
    );
    for rate in [None, Some(500_000), Some(4_000_000)] {
        let (video, audio) = encode();
        let Some(VideoPlan::Encode { stream, codec, .. }) = video else { unreachable!() };
        let video = VideoPlan::Encode {
            stream,
            codec,
            max_width: None,
            max_height: None,
            max_bitrate_bps: rate,
            fps_cap: None,
            burn_subtitle: None,
            tone_map: false,
        };
        let b = [0, 2_000_000, 4_000_000, 6_000_000];
        let (rendition, _) = lab.open(&film, plan(Some(video), audio, &b));
        for n in 0..3 {
            let path = save(&lab, &rendition, "one.mp4", &[n]).await;
            assert_eq!(decode(&path), "", "segment {n} at {rate:?}");
            let out = Command::new("ffprobe")
                .args(["-v", "error", "-count_frames", "-select_streams", "v:0"])
                .args(["-show_entries", "stream=nb_read_frames", "-of", "csv=p=0"])
                .arg(&path)
                .output()
                .unwrap();
            assert!(out.stderr.is_empty(), "{}", String::from_utf8_lossy(&out.stderr));
            assert_eq!(String::from_utf8_lossy(&out.stdout).trim(), "50", "segment {n} at {rate:?}");
        }
    }
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_described() {
    let lab = Lab::new();
    let film =
        lab.make("film.mkv", &format!("{FILM} -metadata:s:a:0 language=ger -metadata:s:a:0 title=Ton"));
    let info = lab.transcoder.probe(open(&film), "film.mkv").await.unwrap();
    assert_eq!(info.container, "mkv");
    assert!((info.duration_s.unwrap() - 12.0).abs() < 0.1);
    let (stream, video) = info.main_video().unwrap();
    assert_eq!(
        (stream.codec.as_str(), video.width, video.height, video.bit_depth),
        ("h264", 640, 360, Some(8))
    );
    assert!(stream.codec_string.as_deref().unwrap().starts_with("avc1.4d"));
    let (stream, audio) = info.audio().next().unwrap();
    assert_eq!(
        (stream.codec_string.as_deref(), audio.channels, audio.sample_rate),
        (Some("mp4a.40.2"), 2, 48_000)
    );
    assert_eq!((stream.language.as_deref(), stream.title.as_deref()), (Some("deu"), Some("Ton")));
    let index =
        lab.transcoder.scan_keyframes(open(&film), "film.mkv", CancellationToken::new()).await.unwrap();
    assert_eq!(index.at_us.len(), 6);
    let jpeg = lab.transcoder.picture(open(&film), Picture::Frame { at_us: 5_000_000 }, 160).await.unwrap();
    assert_eq!(jpeg[..2], [0xff, 0xd8]);
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_worker_is_confined() {
    let lab = Lab::new();
    let info = lab.transcoder.ready().await.unwrap();
    assert!(info.sandbox.is_whole(), "{:?}", info.sandbox);
    assert!(lab.transcoder.available().is_ok());
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn text_subtitles_become_webvtt() {
    let lab = Lab::new();
    let srt = lab.dir.path().join("s.srt");
    std::fs::write(
        &srt,
        "1\n00:00:01,000 --> 00:00:02,500\nHello <i>you</i>\n\n2\n00:00:04,000 --> 00:00:05,000\nA & B\n",
    )
    .unwrap();
    let film = lab.make("sub.mkv", &format!("-i {} -c:s srt", srt.display()));
    let vtt = lab.transcoder.subtitle_vtt(open(&film), 0).await.unwrap();
    let text = String::from_utf8(vtt.to_vec()).unwrap();
    assert!(text.starts_with("WEBVTT\n\n00:00:01.000 --> 00:00:02.500\nHello <i>you</i>\n"), "{text}");
    assert!(text.contains("00:00:04.000 --> 00:00:05.000\nA &amp; B"), "{text}");
    lab.close().await;
}

/// A script with one styled line, its font attached; and a picture under a font's name.
fn styled_film(lab: &Lab) -> PathBuf {
    let path = |name: &str| lab.dir.path().join(name);
    std::fs::write(
        path("s.ass"),
        "[Script Info]\nScriptType: v4.00+\nPlayResX: 320\n\n[V4+ Styles]\nFormat: Name, Fontname, Fontsize\n\
         Style: Sign,Made Up,30\n\n[Events]\n\
         Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text\n\
         Dialogue: 3,0:00:04.00,0:00:05.50,Sign,,0,0,0,,{\\pos(9,9)}late, and red\n\
         Dialogue: 0,0:00:01.00,0:00:02.25,Sign,,0,0,0,,early\n",
    )
    .unwrap();
    std::fs::write(path("f.ttf"), [b"\0\x01\0\0".as_slice(), &[7; 5000]].concat()).unwrap();
    std::fs::write(path("liar.ttf"), b"GIF89a, not a font").unwrap();
    lab.make(
        "styled.mkv",
        &format!(
            "-f lavfi -i color=s=64x64:r=5:d=6 -i {} -map 0 -map 1 -c:v libx264 -c:s copy -attach {} -metadata:s:t:0 mimetype=font/ttf -attach {} -metadata:s:t:1 mimetype=font/ttf",
            path("s.ass").display(),
            path("f.ttf").display(),
            path("liar.ttf").display()
        ),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_comes_out_as_it_went_in_and_its_font_with_it() {
    let lab = Lab::new();
    let film = styled_film(&lab);
    let script = lab.transcoder.subtitle_original(open(&film), 1).await.unwrap();
    let text = String::from_utf8(script.to_vec()).unwrap();
    assert!(text.contains("PlayResX: 320") && text.contains("Style: Sign,Made Up,30"), "{text}");
    let events: Vec<&str> = text.lines().filter(|l| l.starts_with("Dialogue")).collect();
    assert!(
        events.contains(&"Dialogue: 3,0:00:04.00,0:00:05.50,Sign,,0,0,0,,{\\pos(9,9)}late, and red"),
        "{text}"
    );
    assert!(events.contains(&"Dialogue: 0,0:00:01.00,0:00:02.25,Sign,,0,0,0,,early"), "{text}");
    let font = lab.transcoder.font(open(&film), "f.ttf".to_owned()).await.unwrap();
    assert_eq!(font[..], std::fs::read(lab.dir.path().join("f.ttf")).unwrap());
    for wrong in ["liar.ttf", "../f.ttf", ""] {
        assert!(lab.transcoder.font(open(&film), wrong.to_owned()).await.is_err(), "{wrong}");
    }
    assert!(lab.transcoder.subtitle_original(open(&film), 0).await.is_err(), "a picture is no subtitle");
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_is_held_ready_while_somebody_looks_and_no_longer() {
    let lab = Lab::with(|c| c.spare_stays = Duration::from_millis(300));
    lab.transcoder.ready().await.unwrap();
    let transcoder = lab.transcoder.clone();
    until("the first one stays", Duration::from_secs(10), || !transcoder.has_spare()).await;
    for _ in 0..2 {
        lab.transcoder.expect_work();
        until("none comes", Duration::from_secs(10), || transcoder.has_spare()).await;
        until("it stays", Duration::from_secs(10), || !transcoder.has_spare()).await;
    }
    lab.close().await;
}

/// Segments of a transport stream rendition, one after the other in one file.
async fn save_ts(lab: &Lab, rendition: &Rendition, name: &str, segments: &[usize]) -> PathBuf {
    let mut bytes = Vec::new();
    for n in segments {
        bytes.extend_from_slice(&rendition.segment(*n).await.unwrap().read().unwrap());
    }
    let path = lab.dir.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

fn in_ts(mut plan: Plan) -> Plan {
    plan.container = Container::Mpegts;
    plan
}

#[tokio::test(flavor = "multi_thread")]
async fn transport_stream_segments_in_a_row_play_as_one_stream() {
    let lab = Lab::new();
    let file = lab.make(
        "film.mkv",
        "-f lavfi -i testsrc2=s=320x180:r=25:d=12 -f lavfi -i sine=r=48000:d=12 -c:v libx264 -g 50 -bf 2 \
         -pix_fmt yuv420p -c:a aac -ac 2",
    );
    let b = [0, 4_000_000, 8_000_000, 12_000_000];
    let copied = plan(Some(VideoPlan::Copy { stream: 0 }), Some(AudioPlan::Copy { stream: 1 }), &b);
    let encoded = plan(Some(VideoPlan::encode(0, "h264")), Some(AudioPlan::encode(1, "ac3", 2)), &b);
    for (name, plan) in [("copied.ts", copied), ("encoded.ts", encoded)] {
        let (rendition, _) = lab.open(&file, in_ts(plan));
        // Out of order first: bytes do not depend on it.
        let last = rendition.segment(2).await.unwrap().read().unwrap();
        let path = save_ts(&lab, &rendition, name, &[0, 1, 2]).await;
        assert!(std::fs::read(&path).unwrap().ends_with(&last), "{name}");
        assert_eq!(decode(&path), "", "{name}");
        let video = packets(&path, "v:0");
        assert_eq!(video.len(), 300, "{name}");
        assert!(video.windows(2).all(|w| w[0].1 < w[1].1), "{name}: decode times rise");
        let first = video.iter().map(|p| p.0).fold(f64::MAX, f64::min);
        // 1.4 s is where the presentation's zero is; the source's sound begins a packet before the picture.
        assert!((1.399..1.43).contains(&first), "{name} {first}");
        let audio = packets(&path, "a:0");
        assert!((audio[0].0 - first).abs() < 0.05, "{name} {:?}", audio[0]);
        let steps: Vec<f64> = audio.windows(2).map(|w| w[1].0 - w[0].0).collect();
        assert!(steps.iter().all(|s| *s > 0.0 && *s < 0.07), "{name} {steps:?}");
        // Continuity counters go on over the borders: the demuxer would warn.
        let log =
            ffmpeg("-v warning -xerror -i", &[&path, Path::new("-f"), Path::new("null"), Path::new("-")]);
        assert!(!log.contains("ontinuity"), "{name} {log}");
        // A segment alone begins with a key frame at its time.
        let middle = save_ts(&lab, &rendition, "middle.ts", &[1]).await;
        let alone = packets(&middle, "v:0");
        assert!(alone[0].2 && (5.399..5.43).contains(&alone[0].0), "{name} {:?}", alone[0]);
    }
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_transport_stream_carries_is_copied_into_it() {
    // More renditions in a row than there are slots, and a worker stays for a while after its last segment.
    let lab = Lab::with(|c| c.max_workers = 16);
    let source =
        "-f lavfi -i testsrc2=s=320x180:r=25:d=4 -f lavfi -i sine=r=48000:d=4 -pix_fmt yuv420p -ac 2";
    for (name, video, audio, codecs) in [
        ("a.mkv", "libx264 -g 25", "mp3", ["h264", "mp3"]),
        ("b.mpg", "mpeg2video -g 12 -q:v 4", "mp2", ["mpeg2video", "mp2"]),
        ("c.mkv", "libx265 -x265-params log-level=error:keyint=25", "eac3", ["hevc", "eac3"]),
        ("d.mkv", "libx264 -g 25", "ac3", ["h264", "ac3"]),
        ("e.mkv", "libx264 -g 25", "dca -strict -2", ["h264", "dts"]),
    ] {
        let file = lab.make(name, &format!("{source} -c:v {video} -c:a {audio}"));
        let of = |kind: &str| if name.ends_with("mpg") || kind == "v" { 0 } else { 1 };
        let (v, a) = if name.ends_with("mpg") { (0, 1) } else { (of("v"), of("a")) };
        let plan = in_ts(plan(
            Some(VideoPlan::Copy { stream: v }),
            Some(AudioPlan::Copy { stream: a }),
            &[0, 4_000_000],
        ));
        let (rendition, _) = lab.open(&file, plan);
        let path = save_ts(&lab, &rendition, &format!("{name}.ts"), &[0]).await;
        let found = Command::new("ffprobe")
            .args(["-v", "error", "-show_entries", "stream=codec_name", "-of", "csv=p=0"])
            .arg(&path)
            .output()
            .unwrap();
        let found = String::from_utf8_lossy(&found.stdout).into_owned();
        let mut found: Vec<&str> = found.lines().map(|l| l.trim_end_matches(',')).collect();
        found.dedup();
        assert!(codecs.iter().all(|c| found.contains(c)), "{name}: {found:?}");
        assert_eq!(decode(&path), "", "{name}");
        assert!((packets(&path, "v:0").len() as i64 - 100).abs() <= 1, "{name}");
    }
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sound_that_comes_back_after_hours_is_awaited_segment_by_segment() {
    let lab = Lab::new();
    // Two seconds of sound, nothing for three hours, two seconds of sound: one bad time stamp in a recording does that.
    let film = lab.make(
        "gap.mkv",
        "-f lavfi -i sine=f=440:r=48000:d=4 -af asetpts='if(gte(T,2),PTS+10800/TB,PTS)' -c:a pcm_s16le -fflags +bitexact",
    );
    let end_us = 10_804_000_000;
    let cuts: Vec<i64> = (0..3601).map(|n| n * 3_000_000).chain([end_us]).collect();
    let sound = AudioPlan::Encode {
        stream: 0,
        codec: "opus".to_owned(),
        channels: 2,
        bitrate_bps: Some(96_000),
        sample_rate: None,
    };
    let (rendition, said) = lab.open(&film, plan(None, Some(sound), &cuts));
    let path = save(&lab, &rendition, "begin.mp4", &[0, 1, 2]).await;
    let begin = packets(&path, "a:0");
    assert!(begin.windows(2).all(|w| (w[1].0 - w[0].0 - 0.02).abs() < 0.002), "a hole: {begin:?}");
    assert!((begin.last().unwrap().0 - 9.0).abs() < 0.05, "{:?}", begin.last());
    let path = save(&lab, &rendition, "end.mp4", &[3599, 3600]).await;
    let end = packets(&path, "a:0");
    assert!(
        (end[0].0 - 10_797.0).abs() < 0.05 && end.last().unwrap().0 > 10_803.9,
        "{:?}",
        (end[0], end.last())
    );
    assert!(said.pids.lock().unwrap().len() <= 2, "a worker was given up: {:?}", said.pids);
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recording_that_restarts_is_read_to_its_end() {
    // TS04: six seconds, then time zero again in another size.
    let lab = Lab::new();
    let part = |name: &str, size: &str| {
        lab.make(
            name,
            &format!(
                "-f lavfi -i testsrc2=s={size}:r=25:d=6 -f lavfi -i sine=r=48000:d=6 -c:v libx264 -g 50 \
                 -pix_fmt yuv420p -c:a aac -ac 2 -f mpegts"
            ),
        )
    };
    let (first, second) = (part("a.ts", "640x360"), part("b.ts", "320x180"));
    let mut bytes = std::fs::read(&first).unwrap();
    let border = bytes.len() as u64;
    bytes.extend(std::fs::read(&second).unwrap());
    let file = lab.dir.path().join("both.ts");
    std::fs::write(&file, bytes).unwrap();
    let info = lab.transcoder.probe(open(&file), "both.ts").await.unwrap();
    assert_eq!(info.clock_restarts.len(), 1, "{:?}", info.clock_restarts);
    let at = info.clock_restarts[0].at_byte;
    assert!(at >= border && at < border + 188 * 8, "{at} {border}");
    let duration = info.duration_s.unwrap();
    assert!((duration - 12.0).abs() < 0.5, "{duration}");
    let mut plan = plan(
        Some(VideoPlan::encode(0, "h264")),
        Some(AudioPlan::encode(1, "aac", 2)),
        &[0, 4_000_000, 8_000_000, (duration * 1e6) as i64],
    );
    plan.start_us = Some((info.start_s * 1e6) as i64);
    plan.clock_restarts = info.clock_restarts;
    let (rendition, _) = lab.open(&file, plan);
    // The last first: the search by time finds what is behind the restart.
    rendition.segment(2).await.unwrap();
    let path = save(&lab, &rendition, "whole.mp4", &[0, 1, 2]).await;
    assert_eq!(decode(&path), "");
    let video = packets(&path, "v:0");
    assert!((298..=303).contains(&video.len()), "{}", video.len());
    let mut shown: Vec<f64> = video.iter().map(|p| p.0).collect();
    shown.sort_by(f64::total_cmp);
    assert!(shown.windows(2).all(|w| w[1] - w[0] < 0.1), "no hole");
    assert!(*shown.last().unwrap() > 11.7, "{:?}", shown.last());
    lab.close().await;
}

/// Level of a pitch in a channel, in dB below full scale (Goertzel).
fn level(samples: &[f32], hz: f64) -> f64 {
    let k = 2.0 * (2.0 * std::f64::consts::PI * hz / 48_000.0).cos();
    let (mut s1, mut s2) = (0.0, 0.0);
    for x in samples {
        (s1, s2) = (f64::from(*x) + k * s1 - s2, s1);
    }
    let power = (s1 * s1 + s2 * s2 - k * s1 * s2).max(1e-20);
    20.0 * (power.sqrt() * 2.0 / samples.len() as f64).log10()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_of_eight_channels_comes_out_where_it_belongs() {
    // AU04: one pitch a channel, FL 300, FR 400, FC 500, LFE 60, BL 600, BR 700, SL 800, SR 900.
    const PITCHES: [f64; 8] = [300.0, 400.0, 500.0, 60.0, 600.0, 700.0, 800.0, 900.0];
    let lab = Lab::new();
    let tones: Vec<String> = PITCHES.iter().map(|p| format!("0.4*sin(2*PI*{p}*t)")).collect();
    let source = format!("aevalsrc={}:c=7.1:s=48000:d=4", tones.join("|"));
    let file = lab.dir.path().join("eight.mkv");
    ffmpeg("-v error -y -f lavfi -i", &[Path::new(&source), Path::new("-c:a"), Path::new("flac"), &file]);
    for (codec, channels, bitrate_bps) in [("aac", 6, 384_000), ("ac3", 6, 448_000), ("opus", 8, 512_000)] {
        let audio = AudioPlan::Encode {
            stream: 0,
            codec: codec.to_owned(),
            channels,
            bitrate_bps: Some(bitrate_bps),
            sample_rate: None,
        };
        let (rendition, _) = lab.open(&file, plan(None, Some(audio), &[0, 4_000_000]));
        let path = save(&lab, &rendition, &format!("{codec}.mp4"), &[0]).await;
        let raw = lab.dir.path().join(format!("{codec}.f32"));
        ffmpeg("-v error -y -i", &[&path, Path::new("-f"), Path::new("f32le"), &raw]);
        let bytes = std::fs::read(&raw).unwrap();
        let all: Vec<f32> =
            bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
        let n = channels as usize;
        // From the second second on: encoders fade in.
        let of =
            |c: usize| all[n * 48_000..].iter().skip(c).step_by(n).take(48_000).copied().collect::<Vec<_>>();
        for c in 0..n {
            let samples = of(c);
            let levels: Vec<f64> = PITCHES.iter().map(|p| level(&samples, *p)).collect();
            // Six channels: what is at the sides comes from behind.
            let own: Vec<usize> = if n == 6 && c >= 4 { vec![c, c + 2] } else { vec![c] };
            for (at, pitch) in PITCHES.iter().enumerate() {
                let heard = own.contains(&at);
                assert_eq!(
                    levels[at] > -25.0,
                    heard,
                    "{codec} channel {c}: {pitch} Hz at {:.0} dB",
                    levels[at]
                );
                let loudest = own.iter().map(|o| levels[*o]).fold(f64::MIN, f64::max);
                assert!(heard || loudest - levels[at] >= 30.0, "{codec} channel {c}: {pitch} Hz is heard");
            }
        }
        // AU05: as many bits as six channels need.
        let seconds = 4.0;
        let sent = std::fs::metadata(&path).unwrap().len() as f64 * 8.0 / seconds;
        assert!(sent >= 256_000.0, "{codec} {sent}");
    }
    lab.close().await;
}
