//! Files made by FFmpeg, described here and by ffprobe: the two must agree.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use spindle_media::guard::Limits;
use spindle_media::info::{Hdr, MediaInfo, StreamKind, Video};
use spindle_media::keyframes::KeyframeSource;
use spindle_media::probe::{ProbeError, Probed, probe};
use tempfile::TempDir;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn describe(path: &Path) -> Result<Probed, ProbeError> {
    let file = File::open(path).unwrap();
    let size = file.metadata().unwrap().len();
    probe(file, size, "a film", Limits::default())
}

/// Runs FFmpeg with `arguments` split at blanks; the output's name is the last of them.
fn make(dir: &TempDir, arguments: &str) -> PathBuf {
    let arguments: Vec<&str> = arguments.split_whitespace().collect();
    let out = Command::new("ffmpeg")
        .args(["-v", "error", "-nostdin", "-y"])
        .args(&arguments)
        .current_dir(dir.path())
        .output()
        .expect("ffmpeg must be installed for this test");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    dir.path().join(arguments[arguments.len() - 1])
}

fn ffprobe(path: &Path, more: &[&str]) -> Value {
    let out = Command::new("ffprobe")
        .args(["-v", "error", "-of", "json"])
        .args(more)
        .arg(path)
        .output()
        .expect("ffprobe must be installed for this test");
    serde_json::from_slice(&out.stdout).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_str().unwrap().parse().unwrap()
}

/// Holds a description against ffprobe's.
fn agrees(path: &Path, info: &MediaInfo) {
    let other = ffprobe(path, &["-show_format", "-show_streams"]);
    let format = &other["format"];
    let start = number(&format["start_time"]);
    assert!((info.start_s - start).abs() < 0.002, "start {} {start}", info.start_s);
    // ffprobe's Matroska length counts from the clock's zero, ours from the start.
    let mut length = number(&format["duration"]);
    if format["format_name"].as_str().unwrap().contains("matroska") {
        length -= start;
    }
    let ours = info.duration_s.unwrap();
    assert!((ours - length).abs() < 0.05, "length {ours} {length}");
    let theirs = other["streams"].as_array().unwrap();
    assert_eq!(info.streams.len(), theirs.len(), "{info:#?}");
    for (s, t) in info.streams.iter().zip(theirs) {
        let codec = t["codec_name"].as_str().unwrap_or("unknown");
        assert_eq!(s.codec, codec);
        if let (Some(p), Some(q)) = (s.profile.as_deref(), t["profile"].as_str())
            && !q.starts_with("unknown")
        {
            assert_eq!(p, q);
        }
        let language = t["tags"]["language"].as_str().and_then(spindle_media::language::normalise);
        // ffprobe keeps silent about Matroska's default, which is English.
        let told = language.is_some() || !matches!(info.container.as_str(), "mkv" | "webm");
        if told && !matches!(s.kind, StreamKind::Data) {
            assert_eq!(s.language.as_deref(), language, "language of {}", s.index);
        }
        let flag = |word: &str| t["disposition"][word] == 1;
        let d = s.disposition;
        if !matches!(s.kind, StreamKind::Data) {
            let ours = [d.default, d.forced, d.commentary, d.hearing_impaired, d.original];
            let theirs = ["default", "forced", "comment", "hearing_impaired", "original"].map(flag);
            assert_eq!(ours, theirs, "flags of {}", s.index);
        }
        match &s.kind {
            StreamKind::Video(v) if !s.disposition.attached_picture => agrees_video(v, t),
            StreamKind::Audio(a) => {
                assert_eq!(u64::from(a.channels), t["channels"].as_u64().unwrap());
                assert_eq!(a.sample_rate.to_string(), t["sample_rate"].as_str().unwrap());
            }
            _ => {}
        }
    }
}

fn agrees_video(v: &Video, t: &Value) {
    let size = (u64::from(v.width), u64::from(v.height));
    assert_eq!(size, (t["width"].as_u64().unwrap(), t["height"].as_u64().unwrap()));
    if let Some(level) = t["level"].as_i64().filter(|l| *l > 0) {
        assert_eq!(i64::from(v.level.unwrap()), level);
    }
    assert_eq!(v.pixel_format.as_deref(), t["pix_fmt"].as_str());
    let rate = t["avg_frame_rate"].as_str().unwrap();
    let (num, den) = rate.split_once('/').unwrap();
    let theirs = num.parse::<f64>().unwrap() / den.parse::<f64>().unwrap();
    assert!((v.fps.unwrap() - theirs).abs() < 0.02, "{:?} {rate}", v.frame_rate);
    let transfer = t["color_transfer"].as_str().filter(|c| *c != "unknown");
    assert_eq!(v.color_transfer.as_deref(), transfer);
    assert_eq!(v.color_primaries.as_deref(), t["color_primaries"].as_str().filter(|c| *c != "unknown"));
    if let Some(aspect) = t["sample_aspect_ratio"].as_str().filter(|a| *a != "1:1") {
        let [w, h] = v.sample_aspect.unwrap_or([1, 1]);
        assert_eq!(format!("{w}:{h}"), aspect);
    } else {
        assert_eq!(v.sample_aspect, None);
    }
}

/// Holds key frames against the packets that ffprobe flags.
fn agrees_key_frames(path: &Path, probed: &Probed) {
    let other = ffprobe(path, &["-select_streams", "v:0", "-show_entries", "packet=pts_time,flags"]);
    let start = probed.info.start_s;
    let theirs: Vec<f64> = other["packets"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|p| p["flags"].as_str().unwrap().starts_with('K'))
        .map(|p| (number(&p["pts_time"]) - start).max(0.0))
        .collect();
    let index = probed.keyframes.as_ref().unwrap();
    let ours: Vec<f64> = index.at_us.iter().map(|us| *us as f64 / 1e6).collect();
    assert_eq!(ours.len(), theirs.len(), "{ours:?} {theirs:?}");
    for (a, b) in ours.iter().zip(&theirs) {
        assert!((a - b).abs() < 0.0015, "{ours:?} {theirs:?}");
    }
    let end = index.end_us as f64 / 1e6;
    assert!((end - probed.info.duration_s.unwrap()).abs() < 0.001);
}

fn main_video(p: &Probed) -> Video {
    p.info.main_video().unwrap().1.clone()
}

#[test]
fn the_samples_are_described_as_ffprobe_does() {
    for (name, container, source) in
        [("sample.mp4", "mp4", KeyframeSource::SampleTable), ("sample.mkv", "mkv", KeyframeSource::Cues)]
    {
        let p = describe(&fixture(name)).unwrap();
        agrees(&fixture(name), &p.info);
        agrees_key_frames(&fixture(name), &p);
        assert_eq!(p.info.container, container);
        assert_eq!(p.keyframes.as_ref().unwrap().source, source);
        let chapters: Vec<_> =
            p.info.chapters.iter().map(|c| (c.start_s.round(), c.title.clone().unwrap())).collect();
        assert_eq!(chapters, [(0.0, "One".to_owned()), (1.0, "Two".to_owned())]);
        assert_eq!(p.info.tags["title"], "Sample");
        let (s, v) = p.info.main_video().unwrap();
        assert_eq!((v.hdr, v.interlaced, v.ref_frames.is_some()), (Hdr::Sdr, false, true));
        assert_eq!(s.codec_string.as_deref(), Some("avc1.64000a"));
        let (a, _) = p.info.audio().next().unwrap();
        assert_eq!(a.codec_string.as_deref(), Some("mp4a.40.2"));
        assert!(p.info.subtitles().next().unwrap().1.text);
    }
    let mkv = describe(&fixture("sample.mkv")).unwrap().info;
    let font = &mkv.attachments[0];
    assert_eq!((font.name.as_str(), font.mime.as_str(), font.size_bytes), ("f.ttf", "font/ttf", 17));
}

#[test]
fn what_headers_do_not_tell_is_left_to_the_worker() {
    for name in ["sample-fragmented.mp4", "sample.webm"] {
        let e = describe(&fixture(name)).unwrap_err();
        assert!(matches!(e, ProbeError::Incomplete { .. }), "{name}: {e}");
        assert!(e.worth_asking_the_worker());
    }
    let dir = TempDir::new().unwrap();
    let mp3 = make(&dir, "-f lavfi -i sine=d=1 -c:a libmp3lame mp3.mp4");
    let e = describe(&mp3).unwrap_err();
    assert_eq!(e.to_string(), "the headers of `a film` do not tell what sound of type 0x6b is");
    let fields = make(
        &dir,
        "-f lavfi -i testsrc2=s=64x64:r=25:d=1 -c:v libx264 -flags +ilme+ildct -x264-params tff=1 \
         fields.mp4",
    );
    let e = describe(&fields).unwrap_err();
    assert_eq!(e.to_string(), "the headers of `a film` do not tell whether the pictures are fields");
}

#[test]
fn other_formats_are_told_apart_from_damaged_ones() {
    let of = |bytes: &[u8]| {
        let size = bytes.len() as u64;
        probe(std::io::Cursor::new(bytes), size, "x", Limits::default()).unwrap_err()
    };
    assert!(matches!(of(b""), ProbeError::NotThisFormat { .. }));
    assert!(matches!(of(b"RIFF....AVI LIST"), ProbeError::NotThisFormat { .. }));
    assert!(matches!(of(b"\0\0\0\x08ftyp\0\0\0\x02moov"), ProbeError::Malformed { .. }));
    let whole = std::fs::read(fixture("sample.mp4")).unwrap();
    assert!(matches!(of(&whole[..whole.len() - 9]), ProbeError::Malformed { .. }));
    let tight = Limits { max_index_bytes: 512, ..Limits::default() };
    let size = whole.len() as u64;
    let e = probe(std::io::Cursor::new(whole), size, "x", tight).unwrap_err();
    assert!(matches!(e, ProbeError::OverLimit { .. }), "{e}");
}

#[test]
fn edit_lists_move_everything_to_where_it_is_shown() {
    let dir = TempDir::new().unwrap();
    make(
        &dir,
        "-f lavfi -i testsrc2=s=64x64:r=25:d=12 -f lavfi -i sine=d=12 -c:v libx264 -g 40 -bf 2 \
         -sc_threshold 0 -c:a aac long.mp4",
    );
    let long = dir.path().join("long.mp4");
    let p = describe(&long).unwrap();
    agrees(&long, &p.info);
    agrees_key_frames(&long, &p);
    assert_eq!(p.keyframes.unwrap().at_us.len(), 8);
    // Starts in the middle of a group of pictures: what is before is decoded and not shown.
    let trimmed = make(&dir, "-ss 3.32 -i long.mp4 -c copy trimmed.mp4");
    let p = describe(&trimmed).unwrap();
    let index = p.keyframes.unwrap();
    assert_eq!(index.at_us[..2], [0, 1_480_000], "{index:?}");
    // Sound that starts later is a delay, not a shift.
    let late = make(&dir, "-i long.mp4 -itsoffset 1 -i long.mp4 -map 0:v -map 1:a -c copy late.mp4");
    let p = describe(&late).unwrap();
    agrees(&late, &p.info);
    agrees_key_frames(&late, &p);
}

#[test]
fn dynamic_range_depth_and_tags_are_read_from_both_containers() {
    let dir = TempDir::new().unwrap();
    for (transfer, hdr) in [("smpte2084", Hdr::Hdr10), ("arib-std-b67", Hdr::Hlg)] {
        for (name, tag) in [("a.mp4", "-tag:v hvc1"), ("b.mp4", "-tag:v hev1"), ("c.mkv", "")] {
            let film = make(
                &dir,
                &format!(
                    "-f lavfi -i testsrc2=s=128x64:r=24000/1001:d=1 -c:v libx265 -preset ultrafast \
                     -x265-params log-level=none -pix_fmt yuv420p10le -color_primaries bt2020 \
                     -color_trc {transfer} -colorspace bt2020nc {tag} {name}"
                ),
            );
            let p = describe(&film).unwrap();
            agrees(&film, &p.info);
            let v = main_video(&p);
            assert_eq!((v.hdr, v.bit_depth, v.frame_rate), (hdr, Some(10), Some([24_000, 1_001])));
            let (s, _) = p.info.main_video().unwrap();
            assert!(s.codec_string.as_deref().unwrap().contains(".2.4.L"), "{:?}", s.codec_string);
        }
    }
}

#[test]
fn more_codecs_agree_with_ffprobe() {
    let dir = TempDir::new().unwrap();
    let video = "-f lavfi -i testsrc2=s=64x48:r=30000/1001:d=1 -f lavfi -i sine=r=48000:d=1";
    let h264 = "-c:v libx264 -preset ultrafast";
    for (n, output) in [
        format!("{h264} -pix_fmt yuv420p10le -c:a flac -strict -2 x.mp4"),
        format!("{h264} -pix_fmt yuv422p10le -c:a pcm_s16le x.mov"),
        format!("{h264} -vf setsar=64/45 -c:a ac3 -ac 2 x.mp4"),
        format!("{h264} -vf setsar=8/9 -c:a ac3 -ac 6 x.mkv"),
        format!("{h264} -c:a eac3 -ac 6 x.mp4"),
        format!("{h264} -c:a libopus -strict -2 x.mp4"),
        format!("{h264} -c:a alac x.mp4"),
        format!("{h264} -c:a libvorbis x.mkv"),
        format!("{h264} -c:a pcm_s24le x.mkv"),
        format!("{h264} -c:a dca -strict -2 -ac 6 x.mkv"),
        "-c:v libx265 -preset ultrafast -x265-params log-level=none -c:a libmp3lame x.mkv".to_owned(),
        "-c:v libvpx -b:v 50k -c:a libopus x.webm".to_owned(),
        "-vn -c:a libopus x.mka".to_owned(),
        "-vn -c:a aac -ac 6 x.m4a".to_owned(),
    ]
    .iter()
    .enumerate()
    {
        let film = make(&dir, &format!("{video} {}", output.replace("x.", &format!("{n}."))));
        match describe(&film) {
            Ok(p) => agrees(&film, &p.info),
            Err(e) => panic!("{output}: {e}"),
        }
    }
}

#[test]
fn a_telephones_rotation_is_told_in_degrees_clockwise() {
    let dir = TempDir::new().unwrap();
    make(&dir, "-f lavfi -i testsrc2=s=64x48:d=1 -c:v libx264 plain.mp4");
    for degrees in [90_u16, 180, 270] {
        let film = make(&dir, &format!("-i plain.mp4 -c copy -metadata:s:v rotate={degrees} {degrees}.mp4"));
        let other = ffprobe(&film, &["-show_streams"]);
        // ffprobe turns the other way.
        let theirs = other["streams"][0]["side_data_list"][0]["rotation"].as_i64().unwrap();
        let v = main_video(&describe(&film).unwrap());
        assert_eq!(i64::from(v.rotation), (-theirs).rem_euclid(360), "{degrees}");
    }
}

#[test]
fn files_without_a_good_index_have_no_key_frames() {
    let dir = TempDir::new().unwrap();
    // Live Matroska: no cues, no length.
    let live = make(&dir, "-f lavfi -i testsrc2=s=64x64:r=25:d=2 -c:v libx264 -live 1 -f matroska live.mkv");
    assert!(matches!(describe(&live), Err(ProbeError::Incomplete { .. })));
    // One key frame in forty seconds.
    let sparse = make(
        &dir,
        "-f lavfi -i color=s=64x64:r=5:d=40 -c:v libx264 -g 1000 -keyint_min 1000 -sc_threshold 0 \
         sparse.mkv",
    );
    let p = describe(&sparse).unwrap();
    assert_eq!(p.keyframes, None);
    agrees(&sparse, &p.info);
}

#[test]
fn what_mkvmerge_leaves_out_is_the_default() {
    let dir = TempDir::new().unwrap();
    make(
        &dir,
        "-f lavfi -i testsrc2=s=64x64:r=25:d=2 -f lavfi -i sine=r=48000:d=2 -c:v libx264 -g 10 \
         -c:a ac3 -ac 1 mono.mkv",
    );
    let out = Command::new("mkvmerge")
        .args(["-q", "-o", "merged.mkv", "--language", "1:jpn", "--commentary-flag", "1:1"])
        .args(["--track-name", "1:Talk", "mono.mkv"])
        .current_dir(dir.path())
        .output()
        .expect("mkvmerge must be installed for this test");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stdout));
    let merged = dir.path().join("merged.mkv");
    let p = describe(&merged).unwrap();
    agrees(&merged, &p.info);
    agrees_key_frames(&merged, &p);
    let (s, a) = p.info.audio().next().unwrap();
    assert_eq!((a.channels, s.language.as_deref()), (1, Some("jpn")));
    assert_eq!(s.title.as_deref(), Some("Talk"));
    assert!(s.disposition.commentary);
    // mkvmerge writes statistics.
    assert!(s.bitrate_bps.is_some());
}

#[test]
fn a_file_of_which_most_is_missing_is_cut_off_and_one_that_lacks_little_is_not() {
    let dir = TempDir::new().unwrap();
    let film = "-f lavfi -i testsrc2=s=320x180:r=25:d=20 -c:v libx264 -pix_fmt yuv420p";
    for (name, more) in [("a.mp4", "-movflags +faststart"), ("a.mkv", "")] {
        let whole = make(&dir, &format!("{film} {more} {name}"));
        let bytes = std::fs::read(&whole).unwrap();
        for (percent, cut_off) in [(5, true), (40, true), (60, false), (100, false)] {
            let part = dir.path().join(format!("{percent}-{name}"));
            std::fs::write(&part, &bytes[..bytes.len() * percent / 100]).unwrap();
            let result = describe(&part);
            let is_cut_off = matches!(result, Err(ProbeError::CutOff { .. }));
            assert_eq!(is_cut_off, cut_off, "{percent} % of {name}: {result:?}");
        }
    }
}
