//! What becomes of a picture's brightness, lines, turn, shape and rate, and of six channels.

use super::*;

fn h264(change: impl FnOnce(&mut Wish)) -> VideoPlan {
    let mut wish = Wish::default();
    change(&mut wish);
    VideoPlan::Encode {
        stream: 0,
        codec: wish.codec.to_owned(),
        max_width: None,
        max_height: None,
        max_bitrate_bps: None,
        fps_cap: wish.fps_cap,
        burn_subtitle: None,
        tone_map: wish.tone_map,
    }
}

struct Wish {
    codec: &'static str,
    fps_cap: Option<u32>,
    tone_map: bool,
}

impl Default for Wish {
    fn default() -> Self {
        Self { codec: "h264", fps_cap: None, tone_map: false }
    }
}

/// The first seconds of a film as one segment, encoded.
async fn encoded(lab: &Lab, film: &Path, video: VideoPlan, length_us: i64) -> PathBuf {
    let (rendition, _) = lab.open(film, plan(Some(video), None, &[0, length_us]));
    let name = format!("{}.out.mp4", film.file_stem().unwrap().to_str().unwrap());
    let out = save(lab, &rendition, &name, &[0]).await;
    assert_eq!(decode(&out), "", "{name}");
    out
}

fn facts(path: &Path, fields: &str) -> String {
    let out = Command::new("ffprobe")
        .args(["-v", "error", "-select_streams", "v:0", "-of", "csv=p=0", "-show_entries"])
        .arg(format!("stream={fields}"))
        .arg(path)
        .output()
        .unwrap();
    String::from_utf8_lossy(&out.stdout).trim().trim_end_matches(',').to_owned()
}

/// Planes of the first picture and its size: 8-bit 4:2:0.
fn first_picture(path: &Path) -> (Vec<u8>, usize, usize) {
    let size: Vec<usize> = facts(path, "width,height").split(',').map(|n| n.parse().unwrap()).collect();
    let out = Command::new("ffmpeg")
        .args(["-nostdin", "-v", "error", "-i"])
        .arg(path)
        .args(["-frames:v", "1", "-pix_fmt", "yuv420p", "-f", "rawvideo", "-"])
        .output()
        .unwrap();
    assert_eq!(out.stdout.len(), size[0] * size[1] * 3 / 2);
    (out.stdout, size[0], size[1])
}

/// Luma and both chroma values at a place.
fn at((data, w, h): &(Vec<u8>, usize, usize), x: usize, y: usize) -> (u8, u8, u8) {
    let chroma = w * h + (y / 2) * (w / 2) + x / 2;
    (data[y * w + x], data[chroma], data[chroma + w * h / 4])
}

#[tokio::test(flavor = "multi_thread")]
async fn hdr_becomes_sdr_in_which_white_is_white_black_black_and_red_red() {
    // PI04: white for reading (203 cd/m2; ITU-R BT.2408 has it at 58 % of PQ and 75 % of HLG), black, and a
    // red of BT.2020.
    let lab = Lab::new();
    for (name, transfer, white) in [("pq.mp4", "smpte2084", 572), ("hlg.mp4", "arib-std-b67", 721)] {
        let picture = format!(
            "-f lavfi -i color=black:s=320x180:r=25:d=0.4,format=yuv420p10le,\
             geq=lum=if(lt(X\\,100)\\,{white}\\,if(lt(X\\,200)\\,64\\,359)):\
             cb=if(lt(X\\,100)\\,512\\,471):cr=if(lt(X\\,100)\\,512\\,660)"
        )
        .replace(' ', "")
        .replace("-flavfi-i", "-f lavfi -i ");
        let film = lab.make(
            name,
            &format!(
                "{picture} -c:v libx265 -preset ultrafast -tag:v hvc1 -x265-params \
                 log-level=error:pools=none:colorprim=bt2020:transfer={transfer}:colormatrix=bt2020nc \
                 -color_primaries bt2020 -color_trc {transfer} -colorspace bt2020nc"
            ),
        );
        let out = encoded(&lab, &film, h264(|w| w.tone_map = true), 400_000).await;
        assert_eq!(
            facts(&out, "pix_fmt,color_space,color_transfer,color_primaries"),
            "yuv420p,bt709,bt709,bt709",
            "{name}"
        );
        let picture = first_picture(&out);
        let (white, black, red) = (at(&picture, 50, 90), at(&picture, 150, 90), at(&picture, 260, 90));
        assert!((180..=235).contains(&white.0), "{name}: white {white:?}");
        assert!(white.1.abs_diff(128) <= 3 && white.2.abs_diff(128) <= 3, "{name}: white {white:?}");
        assert!(black.0 <= 24, "{name}: black {black:?}");
        // Pure red of BT.709 is 63 bright.
        assert!((40..=100).contains(&red.0), "{name}: red {red:?}");
        // Hue: towards red, within 15 degrees of where BT.709 has it (Cb 102, Cr 240).
        let hue = (f64::from(red.2) - 128.0).atan2(f64::from(red.1) - 128.0).to_degrees();
        let pure = (240.0_f64 - 128.0).atan2(102.0 - 128.0).to_degrees();
        assert!((hue - pure).abs() <= 15.0, "{name}: red {red:?}, {hue:.0} degrees and not {pure:.0}");
    }
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hevc_is_made_as_h264_is() {
    let lab = Lab::new();
    let film = lab.make(
        "film.mkv",
        "-f lavfi -i testsrc2=s=320x180:r=25:d=4 -c:v libx264 -preset ultrafast -g 50 -pix_fmt yuv420p",
    );
    let (codec, entry) = ("hevc", "hevc,hvc1");
    let plan = plan(Some(h264(|w| w.codec = codec)), None, &[0, 2_000_000, 4_000_000]);
    let (rendition, _) = lab.open(&film, plan);
    for n in [1, 0] {
        let one = save(&lab, &rendition, "one.mp4", &[n]).await;
        assert_eq!(decode(&one), "", "{codec}: segment {n} alone");
        let first = packets(&one, "v:0")[0];
        assert!(first.2 && (first.0 - 2.0 * n as f64).abs() < 0.001, "{codec}: segment {n}: {first:?}");
    }
    let whole = save(&lab, &rendition, "whole.mp4", &[0, 1]).await;
    assert_eq!(decode(&whole), "", "{codec}");
    assert_eq!(facts(&whole, "codec_name,codec_tag_string"), entry);
    let mut shown: Vec<f64> = packets(&whole, "v:0").iter().map(|p| p.0).collect();
    shown.sort_by(f64::total_cmp);
    assert_eq!(shown.len(), 100, "{codec}");
    assert!(shown.windows(2).all(|w| (w[1] - w[0] - 0.04).abs() < 0.001), "{codec}: {shown:?}");
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_become_whole_pictures() {
    let lab = Lab::new();
    let film = lab.make(
        "fields.ts",
        "-f lavfi -i testsrc2=s=320x240:r=50:d=2,tinterlace=interleave_top,fieldorder=tff \
         -c:v mpeg2video -flags +ilme+ildct -top 1 -q:v 3 -g 12",
    );
    let idet = |path: &Path| {
        let log = ffmpeg(
            "-v info -i",
            &[path, Path::new("-vf"), Path::new("idet"), Path::new("-f"), Path::new("null"), Path::new("-")],
        );
        let line = log.lines().rfind(|l| l.contains("Multi frame detection")).unwrap().to_owned();
        let number = |word: &str| -> u32 {
            line.split(word).nth(1).unwrap().split_whitespace().next().unwrap().parse().unwrap()
        };
        (number("TFF:") + number("BFF:"), number("Progressive:"))
    };
    assert!(idet(&film).0 >= 40, "the source is interlaced: {:?}", idet(&film));
    let out = encoded(&lab, &film, h264(|_| {}), 2_000_000).await;
    let (interlaced, whole) = idet(&out);
    // What idet takes for fields in a picture of fine lines.
    assert!(interlaced <= 6 && whole >= 40, "{interlaced} interlaced, {whole} whole");
    assert_eq!(facts(&out, "field_order"), "progressive");
    assert!((48..=50).contains(&packets(&out, "v:0").len()), "a picture for two fields");
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turned_picture_comes_out_upright_and_without_a_turn() {
    let lab = Lab::new();
    let flat = lab.make(
        "flat.mp4",
        "-f lavfi -i color=black:s=320x180:r=25:d=0.4,drawbox=x=0:y=0:w=160:h=180:c=white:t=fill \
         -c:v libx264 -pix_fmt yuv420p",
    );
    // Where the left half comes to lie: degrees clockwise, as phones write them.
    for (degrees, size, lit, dark) in [
        (90, (180, 320), (90, 40), (90, 280)),
        (180, (320, 180), (280, 90), (40, 90)),
        (270, (180, 320), (90, 280), (90, 40)),
    ] {
        let film = lab.make(
            &format!("turned{degrees}.mp4"),
            &format!("-i {} -c copy -metadata:s:v:0 rotate={}", flat.display(), 360 - degrees),
        );
        let out = encoded(&lab, &film, h264(|_| {}), 400_000).await;
        let picture = first_picture(&out);
        assert_eq!((picture.1, picture.2), size, "{degrees} degrees");
        assert!(at(&picture, lit.0, lit.1).0 > 200, "{degrees} degrees: {:?}", at(&picture, lit.0, lit.1));
        assert!(at(&picture, dark.0, dark.1).0 < 40, "{degrees} degrees: {:?}", at(&picture, dark.0, dark.1));
        let turn = Command::new("ffprobe")
            .args(["-v", "error", "-show_entries", "stream_side_data=rotation", "-of", "csv=p=0"])
            .arg(&out)
            .output()
            .unwrap();
        assert!(String::from_utf8_lossy(&turn.stdout).trim().is_empty(), "{degrees} degrees: a turn is left");
    }
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pixels_become_square_and_surplus_pictures_are_left_out() {
    let lab = Lab::new();
    let film = lab.make(
        "wide.mkv",
        "-f lavfi -i testsrc2=s=360x288:r=50:d=2,setsar=64/45 -c:v mpeg2video -q:v 3 -g 12",
    );
    let out = encoded(&lab, &film, h264(|w| w.fps_cap = Some(25)), 2_000_000).await;
    assert_eq!(facts(&out, "width,height,sample_aspect_ratio"), "512,288,1:1");
    let mut shown: Vec<f64> = packets(&out, "v:0").iter().map(|p| p.0).collect();
    shown.sort_by(f64::total_cmp);
    assert_eq!(shown.len(), 50);
    assert!(shown.windows(2).all(|w| (w[1] - w[0] - 0.04).abs() < 0.002), "{shown:?}");
    lab.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dialogue_is_kept_when_six_channels_become_two_and_nothing_clips() {
    // FL 300, FR 400, FC 500, LFE 60, BL 600, BR 700 Hz. ITU-R BS.775: the centre and the back with -3 dB.
    let lab = Lab::new();
    for (amplitude, name) in [(0.1, "quiet"), (0.9, "loud")] {
        let tones: Vec<String> =
            [300, 400, 500, 60, 600, 700].iter().map(|p| format!("{amplitude}*sin(2*PI*{p}*t)")).collect();
        let source = format!("aevalsrc={}:c=5.1:s=48000:d=3", tones.join("|"));
        let film = lab.dir.path().join(format!("{name}.mkv"));
        ffmpeg(
            "-v error -y -f lavfi -i",
            &[
                Path::new(&source),
                Path::new("-c:a"),
                Path::new("flac"),
                Path::new("-sample_fmt"),
                Path::new("s32"),
                &film,
            ],
        );
        for codec in ["aac", "ac3", "eac3", "opus"] {
            let audio = AudioPlan::Encode {
                stream: 0,
                codec: codec.to_owned(),
                channels: 2,
                bitrate_bps: Some(256_000),
                sample_rate: None,
            };
            let (rendition, _) = lab.open(&film, plan(None, Some(audio), &[0, 3_000_000]));
            let path = save(&lab, &rendition, &format!("{name}-{codec}.mp4"), &[0]).await;
            let raw = lab.dir.path().join("raw");
            ffmpeg("-v error -y -i", &[&path, Path::new("-f"), Path::new("f32le"), &raw]);
            let bytes = std::fs::read(&raw).unwrap();
            let all: Vec<f32> =
                bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
            let of = |c: usize| {
                all[2 * 48_000..].iter().skip(c).step_by(2).take(48_000).copied().collect::<Vec<_>>()
            };
            let (left, right) = (of(0), of(1));
            let peak = all.iter().fold(0_f32, |m, x| m.max(x.abs()));
            // What a lossy codec rounds is above by a little; what is cut off would be above by half.
            assert!(peak <= 1.1, "{name} {codec}: a peak of {peak}");
            if name == "quiet" {
                let full = 20.0 * f64::log10(amplitude);
                for (side, own, back) in [(&left, 300.0, 600.0), (&right, 400.0, 700.0)] {
                    for (pitch, wanted) in [(own, full), (500.0, full - 3.0), (back, full - 3.0)] {
                        let is = level(side, pitch);
                        assert!(
                            (is - wanted).abs() <= 1.0,
                            "{codec}: {pitch} Hz at {is:.1} dB, not {wanted:.1}"
                        );
                    }
                    assert!(level(side, 60.0) < full - 20.0, "{codec}: the low channel is left out");
                }
            } else {
                // Of what was loud everything is still there.
                assert!(level(&left, 500.0) > -12.0, "{codec}: dialogue at {:.1} dB", level(&left, 500.0));
            }
        }
    }
    lab.close().await;
}
