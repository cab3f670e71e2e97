//! Literal files and clients in, whole decisions out.

use serde_json::json;
use spindle_media::info::{Hdr, MediaInfo, Stream, StreamKind, Video};

use super::samples::{audio, file, subtitle, video};
use super::*;
use crate::profiles::{builtin, builtin_names};

fn client(json: serde_json::Value) -> ClientProfile {
    ClientProfile::from_json(&json.to_string()).unwrap()
}

/// MP4 with H.264 to High 4.1 and stereo AAC, WebVTT beside: the least that is common.
fn plain() -> ClientProfile {
    client(json!({"name": "plain",
        "direct_play": [{"container": "mp4", "video": ["h264"], "audio": ["aac"]}],
        "video": [{"codec": "h264", "profiles": ["high"], "max_level": 41, "max_bit_depth": 8,
                   "max_width": 1920, "max_height": 1080, "max_fps": 60}],
        "audio": [{"codec": "aac", "max_channels": 2}],
        "subtitles": [{"format": "webvtt", "delivery": "external"}]}))
}

fn hevc_client(hdr: &[&str]) -> ClientProfile {
    client(json!({"name": "hevc",
        "direct_play": [{"container": "mp4", "video": ["h264", "hevc"], "audio": ["aac"]}],
        "video": [{"codec": "hevc", "hdr": hdr}]}))
}

fn with_subtitle(n: u32) -> Choice {
    Choice { subtitle: SubtitleChoice::Stream(n), ..Choice::default() }
}

fn plain_film() -> MediaInfo {
    file("mp4", &[video("h264", "High", |_| {}), audio(1, "aac", 2)])
}

/// Method, reasons, container, video action, audio action.
type Row = (Method, Vec<Reason>, String, Option<Action>, Option<Action>);

fn row(d: &Decision) -> Row {
    let action = |t: &Option<TrackVerdict>| t.as_ref().map(|t| t.action);
    (d.method, d.reasons.clone(), d.container.clone(), action(&d.video), action(&d.audio))
}

fn is_row(d: &Decision, method: Method, reasons: &[Reason], container: &str, video: Action, audio: Action) {
    let expected: Row = (method, reasons.to_vec(), container.to_owned(), Some(video), Some(audio));
    assert_eq!(row(d), expected, "{d:#?}");
}

#[test]
fn what_fits_goes_out_as_it_is_without_a_reason() {
    let d = decide(&plain(), &plain_film(), &Choice::default());
    is_row(&d, Method::DirectPlay, &[], "mp4", Action::Copy, Action::Copy);
    assert_eq!((d.protocol, d.subtitle.is_none()), (Protocol::Http, true));
    assert!(d.rules.len() >= 8 && d.rules.iter().all(|r| r.verdict != RuleVerdict::Fail));
}

#[test]
fn the_json_of_a_decision_is_the_contracts() {
    let film = file("mkv", &[video("h264", "High", |_| {}), audio(1, "ac3", 6), subtitle(2, "subrip")]);
    let d = decide(&plain(), &film, &with_subtitle(2));
    let mut json = serde_json::to_value(&d).unwrap();
    let rules = json.as_object_mut().unwrap().remove("rules").unwrap();
    assert_eq!(
        json,
        json!({"method": "direct_stream",
            "reasons": ["container_not_supported", "audio_codec_not_supported"],
            "protocol": "hls", "container": "fmp4",
            "video": {"stream": 0, "action": "copy", "codec": "h264", "reasons": []},
            "audio": {"stream": 1, "action": "encode", "codec": "aac",
                      "reasons": ["audio_codec_not_supported"],
                      "channels": 2, "bitrate_bps": 192_000, "sample_rate": 48_000},
            "subtitle": {"stream": 2, "action": "encode", "delivery": "external",
                         "format": "webvtt", "reasons": []}})
    );
    assert!(rules.as_array().unwrap().contains(&json!({"rule": "audio_codec", "stream": 1,
        "wanted": "aac", "found": "ac3", "verdict": "fail", "reason": "audio_codec_not_supported"})));
    assert!(rules.as_array().unwrap().contains(&json!({"rule": "container",
        "wanted": "mp4", "found": "mkv", "verdict": "fail", "reason": "container_not_supported"})));
}

#[test]
fn a_container_alone_is_repacked() {
    // DE01: H.264 and MP3 in Matroska for a client of MP4 and TS.
    let c = client(json!({"name": "de01", "direct_play": [
        {"container": "mp4", "video": ["h264"], "audio": ["mp3"]},
        {"container": "ts", "video": ["h264"], "audio": ["mp3"]}]}));
    let film = file("mkv", &[video("h264", "High", |_| {}), audio(1, "mp3", 2)]);
    let d = decide(&c, &film, &Choice::default());
    let only = [Reason::ContainerNotSupported];
    is_row(&d, Method::DirectStream, &only, "fmp4", Action::Copy, Action::Copy);
}

#[test]
fn codecs_that_the_client_lists_are_copied_out_of_any_container() {
    // DE03.
    let c = client(json!({"name": "de03", "direct_play": [
        {"container": "webm", "video": ["vp9"], "audio": ["opus"]},
        {"container": "mp4", "video": ["h264", "av1"], "audio": ["aac", "flac"]}]}));
    let only = [Reason::ContainerNotSupported];
    for (v, a) in [("vp9", "opus"), ("av1", "flac"), ("vp9", "aac")] {
        let film = file("mkv", &[video(v, "Main", |_| {}), audio(1, a, 2)]);
        let d = decide(&c, &film, &Choice::default());
        is_row(&d, Method::DirectStream, &only, "fmp4", Action::Copy, Action::Copy);
    }
    let sound = file("mkv", &[audio(0, "opus", 2)]);
    let d = decide(&c, &sound, &Choice::default());
    assert_eq!(row(&d), (Method::DirectStream, only.to_vec(), "fmp4".to_owned(), None, Some(Action::Copy)));
    let flac = file("mp4", &[video("h264", "High", |_| {}), audio(1, "flac", 2)]);
    assert_eq!(decide(&c, &flac, &Choice::default()).method, Method::DirectPlay);
}

#[test]
fn a_container_that_nobody_knows_never_plays_as_it_is() {
    for container in ["", "rm"] {
        let film = file(container, &plain_film().streams);
        let d = decide(&plain(), &film, &Choice::default());
        assert_eq!(d.method, Method::DirectStream);
        assert_eq!(d.reasons, [Reason::ContainerNotSupported]);
    }
}

#[test]
fn each_limit_of_the_picture_has_its_reason() {
    type Change = fn(&mut Video);
    let table: [(&str, Change, Reason); 9] = [
        ("High 10", |v| v.bit_depth = Some(8), Reason::VideoProfileNotSupported),
        ("High", |v| v.bit_depth = Some(10), Reason::VideoBitDepthNotSupported),
        ("High", |v| v.level = Some(42), Reason::VideoLevelNotSupported),
        ("High", |v| v.height = 1440, Reason::VideoResolutionNotSupported),
        ("High", |v| v.fps = Some(119.88), Reason::VideoFramerateNotSupported),
        ("High", |v| v.interlaced = true, Reason::InterlacedVideoNotSupported),
        ("High", |v| v.hdr = Hdr::Hlg, Reason::VideoRangeNotSupported),
        ("High", |v| v.rotation = 90, Reason::VideoRotationNotSupported),
        ("High", |v| v.sample_aspect = Some([64, 45]), Reason::AnamorphicVideoNotSupported),
    ];
    let mut c = plain();
    c.video[0].rotation = false;
    c.video[0].anamorphic = false;
    for (profile, change, reason) in table {
        let film = file("mp4", &[video("h264", profile, change), audio(1, "aac", 2)]);
        let d = decide(&c, &film, &Choice::default());
        is_row(&d, Method::Transcode, &[reason], "fmp4", Action::Encode, Action::Copy);
        assert_eq!(d.video.unwrap().reasons, [reason]);
    }
}

#[test]
fn limits_that_are_met_or_not_known_refuse_nothing() {
    let table: [fn(&mut Video); 7] = [
        |v| v.fps = Some(60.0),
        |v| v.fps = None,
        |v| v.level = None,
        |v| v.bit_depth = None,
        |v| (v.width, v.height) = (1080, 1920),
        |v| v.sample_aspect = Some([31_679, 31_680]),
        |v| v.hdr = Hdr::Unknown,
    ];
    let mut c = plain();
    c.video[0].anamorphic = false;
    for change in table {
        let film = file("mp4", &[video("h264", "High", change), audio(1, "aac", 2)]);
        let d = decide(&c, &film, &Choice::default());
        is_row(&d, Method::DirectPlay, &[], "mp4", Action::Copy, Action::Copy);
    }
    // A rotation and an aspect are fine where the profile says nothing of them.
    let film = file(
        "mp4",
        &[video("h264", "High", |v| (v.rotation, v.sample_aspect) = (90, Some([8, 9]))), audio(1, "aac", 2)],
    );
    assert_eq!(decide(&plain(), &film, &Choice::default()).method, Method::DirectPlay);
}

#[test]
fn high_10_is_copied_to_a_client_that_lists_it() {
    // DE04.
    let mut c = plain();
    c.video[0].profiles = vec!["High 10".to_owned()];
    c.video[0].max_bit_depth = Some(10);
    let low_tide = file("mkv", &[video("h264", "High 10", |v| v.bit_depth = Some(10)), audio(1, "flac", 2)]);
    let d = decide(&c, &low_tide, &Choice::default());
    let reasons = [Reason::ContainerNotSupported, Reason::AudioCodecNotSupported];
    is_row(&d, Method::DirectStream, &reasons, "fmp4", Action::Copy, Action::Encode);
    let mesa =
        file("mov", &[video("h264", "High 4:2:2", |v| v.bit_depth = Some(10)), audio(1, "pcm_s24le", 2)]);
    let d = decide(&c, &mesa, &Choice::default());
    assert_eq!(d.method, Method::Transcode);
    assert!(d.reasons.contains(&Reason::VideoProfileNotSupported));
}

#[test]
fn every_dynamic_range_goes_to_who_shows_it_or_its_base() {
    use Hdr::{
        Dv5, Dv7, Dv7Hdr10Plus, DvHdr10, DvHdr10Plus, DvHlg, DvInvalid, DvSdr, Hdr10, Hdr10Plus, Hlg, Sdr,
    };
    // What each shows as it is meant, and what by its base.
    let table: [(&[&str], &[Hdr], &[Hdr]); 10] = [
        (&[], &[Sdr], &[DvSdr]),
        (&["sdr"], &[Sdr], &[DvSdr]),
        (&["hdr10"], &[Sdr, Hdr10], &[Hdr10Plus, DvHdr10, DvHdr10Plus, DvSdr, Dv7, Dv7Hdr10Plus]),
        (&["hdr10_plus"], &[Sdr, Hdr10, Hdr10Plus], &[DvHdr10, DvHdr10Plus, DvSdr, Dv7, Dv7Hdr10Plus]),
        (&["hlg"], &[Sdr, Hlg], &[DvHlg, DvSdr]),
        (&["dv5", "dv8"], &[Sdr, Dv5, DvHdr10, DvHdr10Plus, DvHlg, DvSdr], &[]),
        (&["dv8.1"], &[Sdr, DvHdr10, DvHdr10Plus], &[DvSdr]),
        (&["dv10"], &[Sdr], &[DvSdr]),
        (&["dv7"], &[Sdr, Dv7, Dv7Hdr10Plus], &[DvSdr]),
        (&["dv"], &[Sdr, Dv5, DvHdr10, DvHdr10Plus, DvHlg, DvSdr, Dv7, Dv7Hdr10Plus, DvInvalid], &[]),
    ];
    for (listed, shown, by_base) in table {
        for hdr in Hdr::ALL.into_iter().filter(|h| *h != Hdr::Unknown) {
            let film = file(
                "mp4",
                &[video("hevc", "Main 10", |v| (v.hdr, v.bit_depth) = (hdr, Some(10))), audio(1, "aac", 2)],
            );
            let d = decide(&hevc_client(listed), &film, &Choice::default());
            let noted = d.rules.iter().any(|r| r.rule == "video_range" && r.verdict == RuleVerdict::Note);
            assert_eq!(noted, by_base.contains(&hdr), "{listed:?} {hdr:?}");
            if shown.contains(&hdr) || noted {
                is_row(&d, Method::DirectPlay, &[], "mp4", Action::Copy, Action::Copy);
                continue;
            }
            assert!(d.reasons.contains(&Reason::VideoRangeNotSupported), "{listed:?} {hdr:?}");
            assert_eq!((d.method, d.video.as_ref().unwrap().tone_map), (Method::Transcode, true));
            let refused = matches!(hdr, Dv5 | DvInvalid).then_some(Reason::DolbyVisionNotConvertible);
            assert_eq!(d.refusal, refused, "{listed:?} {hdr:?}");
        }
    }
}

#[test]
fn dolby_vision_in_av1_is_asked_for_by_its_own_profile() {
    let c = |hdr: &[&str]| {
        client(
            json!({"name": "av1", "direct_play": [{"container": "mp4", "video": ["av1"], "audio": ["aac"]}],
            "video": [{"codec": "av1", "hdr": hdr}]}),
        )
    };
    let film = |hdr| {
        let picture = video("av1", "Main", |v| (v.hdr, v.dv_profile) = (hdr, Some(10)));
        file("mp4", &[picture, audio(1, "aac", 2)])
    };
    for (listed, hdr, plays) in [
        (&["dv10"][..], Hdr::Dv5, true),
        (&["dv5", "dv8"], Hdr::Dv5, false),
        (&["dv10"], Hdr::DvHdr10, true),
        (&["dv8"], Hdr::DvHdr10, false),
        (&["hdr10"], Hdr::DvHdr10, true),
    ] {
        let method = decide(&c(listed), &film(hdr), &Choice::default()).method;
        assert_eq!(method == Method::DirectPlay, plays, "{listed:?} {hdr:?}");
    }
}

#[test]
fn a_dolby_vision_level_above_the_clients_is_shown_by_its_base_or_not() {
    let c = |hdr: &[&str]| {
        client(
            json!({"name": "dv", "direct_play": [{"container": "mp4", "video": ["hevc"], "audio": ["aac"]}],
            "video": [{"codec": "hevc", "hdr": hdr, "max_dv_level": 6}]}),
        )
    };
    let film = |level| {
        let picture = video("hevc", "Main 10", |v| {
            (v.hdr, v.dv_profile, v.dv_level) = (Hdr::DvHdr10, Some(8), Some(level));
        });
        file("mp4", &[picture, audio(1, "aac", 2)])
    };
    let noted = |d: &Decision| d.rules.iter().any(|r| r.verdict == RuleVerdict::Note);
    let d = decide(&c(&["dv8", "hdr10"]), &film(6), &Choice::default());
    assert_eq!((d.method, noted(&d)), (Method::DirectPlay, false));
    let d = decide(&c(&["dv8", "hdr10"]), &film(9), &Choice::default());
    assert_eq!((d.method, noted(&d)), (Method::DirectPlay, true));
    assert_eq!(decide(&c(&["dv8"]), &film(9), &Choice::default()).method, Method::Transcode);
}

#[test]
fn a_range_may_be_shown_out_of_one_container_and_not_of_another() {
    let c = client(json!({"name": "set", "direct_play": [
            {"container": "mp4", "video": ["hevc"], "audio": ["aac"]},
            {"container": "mkv", "video": ["hevc"], "audio": ["aac"], "hdr": ["hdr10"]}],
        "video": [{"codec": "hevc", "hdr": ["hdr10", "dv5", "dv8"]}]}));
    let film =
        |container, hdr| file(container, &[video("hevc", "Main 10", |v| v.hdr = hdr), audio(1, "aac", 2)]);
    for (container, hdr, method) in [
        ("mp4", Hdr::Dv5, Method::DirectPlay),
        ("mkv", Hdr::Dv5, Method::DirectStream),
        ("mkv", Hdr::DvHdr10, Method::DirectPlay),
        ("mkv", Hdr::Sdr, Method::DirectPlay),
    ] {
        let d = decide(&c, &film(container, hdr), &Choice::default());
        assert_eq!(d.method, method, "{container} {hdr:?}");
        if method == Method::DirectStream {
            assert_eq!(d.rule_of(Reason::ContainerNotSupported).unwrap().found.to_string(), "mkv with dv5");
        }
    }
}

#[test]
fn entries_of_one_codec_are_alternatives() {
    let c = client(json!({"name": "either", "direct_play": [
            {"container": "mp4", "video": ["h264"], "audio": ["aac"]}],
        "video": [{"codec": "h264", "max_width": 3840, "max_height": 2160, "max_fps": 30},
                  {"codec": "h264", "max_width": 1920, "max_height": 1080, "max_fps": 60}],
        "audio": [{"codec": "aac", "max_channels": 2, "max_sample_rate": 96_000},
                  {"codec": "aac", "max_channels": 6, "max_sample_rate": 48_000}]}));
    let film = |height: u32, fps: f64, channels| {
        let picture = video("h264", "High", |v| {
            (v.width, v.height, v.fps) = (height * 16 / 9, height, Some(fps));
        });
        file("mp4", &[picture, audio(1, "aac", channels)])
    };
    for (height, fps, channels, reasons) in [
        (2160, 30.0, 2, &[][..]),
        (1080, 60.0, 6, &[]),
        (2160, 60.0, 2, &[Reason::VideoFramerateNotSupported]),
        (1080, 120.0, 2, &[Reason::VideoFramerateNotSupported]),
        (1080, 24.0, 8, &[Reason::AudioChannelsNotSupported]),
    ] {
        let d = decide(&c, &film(height, fps, channels), &Choice::default());
        assert_eq!(d.reasons, reasons, "{height} {fps} {channels}");
    }
    // Encoded to what leaves the most: 2160p at 60 is more at 30 than at 1080p.
    let v = decide(&c, &film(2160, 60.0, 2), &Choice::default()).video.unwrap();
    assert_eq!((v.max_height, v.max_fps), (Some(1080), Some(30.0)));
    let v = decide(&c, &film(1080, 120.0, 2), &Choice::default()).video.unwrap();
    assert_eq!((v.max_height, v.max_fps), (Some(1080), Some(60.0)));
}

#[test]
fn sound_is_held_to_depth_and_bitrate_and_what_is_lost_is_told() {
    let mut c = plain();
    c.audio[0].max_bitrate = Some(320_000);
    c.audio[0].max_bit_depth = Some(16);
    let film = |change: fn(&mut Stream)| {
        let mut sound = audio(1, "aac", 2);
        change(&mut sound);
        file("mp4", &[video("h264", "High", |_| {}), sound])
    };
    fn depth(s: &mut Stream) {
        if let StreamKind::Audio(a) = &mut s.kind {
            a.bit_depth = Some(24);
        }
    }
    let d = decide(&c, &film(|s| s.bitrate_bps = Some(512_000)), &Choice::default());
    is_row(
        &d,
        Method::DirectStream,
        &[Reason::AudioBitrateNotSupported],
        "fmp4",
        Action::Copy,
        Action::Encode,
    );
    assert_eq!(decide(&c, &film(depth), &Choice::default()).reasons, [Reason::AudioBitDepthNotSupported]);
    let mut atmos = audio(1, "eac3", 6);
    if let StreamKind::Audio(a) = &mut atmos.kind {
        a.objects = true;
    }
    let d = decide(&c, &file("mp4", &[video("h264", "High", |_| {}), atmos]), &Choice::default());
    let told = |rule| d.rules.iter().find(|r| r.rule == rule).map(|r| (r.found.to_string(), r.verdict));
    assert_eq!(told("sound_objects"), Some(("lost by encoding".to_owned(), RuleVerdict::Note)));
    assert_eq!(told("channels_kept"), Some(("2".to_owned(), RuleVerdict::Note)));
}

#[test]
fn a_file_of_more_streams_than_the_client_opens_is_repacked() {
    let mut c = plain();
    c.max_streams = Some(32);
    let mut film = plain_film();
    for n in 2..33 {
        film.streams.push(subtitle(n, "mov_text"));
    }
    let d = decide(&c, &film, &Choice::default());
    let only = [Reason::StreamCountNotSupported];
    is_row(&d, Method::DirectStream, &only, "fmp4", Action::Copy, Action::Copy);
    film.streams.pop();
    assert_eq!(decide(&c, &film, &Choice::default()).method, Method::DirectPlay);
}

#[test]
fn a_picture_that_begins_between_key_frames_plays_as_a_file_and_is_not_repacked() {
    // SY05: `Edit Trim`.
    let film =
        |container| file(container, &[video("h264", "High", |v| v.lead_in_ms = 680), audio(1, "aac", 2)]);
    assert_eq!(decide(&plain(), &film("mp4"), &Choice::default()).method, Method::DirectPlay);
    let d = decide(&plain(), &film("mov"), &Choice::default());
    let reasons = [Reason::ContainerNotSupported, Reason::VideoStartsBetweenKeyframes];
    is_row(&d, Method::Transcode, &reasons, "fmp4", Action::Encode, Action::Copy);
}

#[test]
fn recordings_in_a_row_play_as_a_file_and_are_made_one_otherwise() {
    // TS04: `Cold Ferry Four`.
    let mut film = file("mpegts", &[video("h264", "High", |_| {}), audio(1, "aac", 2)]);
    film.clock_restarts = vec![spindle_media::info::ClockRestart { at_byte: 1_880, shift_ticks: 540_000 }];
    assert_eq!(decide(&builtin("vlc").unwrap(), &film, &Choice::default()).method, Method::DirectPlay);
    let d = decide(&builtin("chrome").unwrap(), &film, &Choice::default());
    let reasons = [Reason::ContainerNotSupported, Reason::RecordingRestarts];
    is_row(&d, Method::Transcode, &reasons, "fmp4", Action::Encode, Action::Copy);
    assert_eq!(d.rule_of(Reason::RecordingRestarts).unwrap().found.to_string(), "2 recordings");
}

#[test]
fn an_upright_picture_and_a_stretched_one_are_encoded_as_large_as_shown() {
    let mut c = plain();
    c.video[0].rotation = false;
    c.video[0].anamorphic = false;
    let size = |change: fn(&mut Video)| {
        let film = file("mp4", &[video("h264", "High", change), audio(1, "aac", 2)]);
        let v = decide(&c, &film, &Choice::default()).video.unwrap();
        (v.max_width.unwrap(), v.max_height.unwrap())
    };
    assert_eq!(size(|v| (v.width, v.height, v.rotation) = (1920, 1080, 90)), (1080, 1920));
    assert_eq!(size(|v| (v.width, v.height, v.rotation) = (3840, 2160, 270)), (1080, 1920));
    assert_eq!(size(|v| (v.width, v.height, v.sample_aspect) = (720, 576, Some([64, 45]))), (1024, 576));
}

#[test]
fn the_kind_of_segments_that_copies_more_is_used() {
    let mut c = plain();
    c.direct_play[0].audio.push("mp3".to_owned());
    c.hls = Some(
        serde_json::from_value(json!({"container": "fmp4", "video": ["h264"], "audio": ["aac"],
            "other": {"video": ["h264"], "audio": ["aac", "mp3"]}}))
        .unwrap(),
    );
    let film = |sound| file("mkv", &[video("h264", "High", |_| {}), audio(1, sound, 2)]);
    let only = [Reason::ContainerNotSupported];
    let d = decide(&c, &film("mp3"), &Choice::default());
    is_row(&d, Method::DirectStream, &only, "mpegts", Action::Copy, Action::Copy);
    let d = decide(&c, &film("aac"), &Choice::default());
    is_row(&d, Method::DirectStream, &only, "fmp4", Action::Copy, Action::Copy);
    // The picture goes before the sound.
    c.hls.as_mut().unwrap().other.as_mut().unwrap().video.clear();
    let mut hevc = c.clone();
    hevc.hls.as_mut().unwrap().other.as_mut().unwrap().video.push("hevc".to_owned());
    let d = decide(&hevc, &film("mp3"), &Choice::default());
    assert_eq!((d.container.as_str(), d.audio.unwrap().action), ("fmp4", Action::Encode));
}

#[test]
fn a_loudspeaker_gets_the_sound_of_a_film() {
    let cast = builtin("cast-audio").unwrap();
    let d = decide(&cast, &plain_film(), &Choice::default());
    is_row(&d, Method::DirectStream, &[Reason::VideoCodecNotSupported], "fmp4", Action::Drop, Action::Copy);
    assert_eq!(d.refusal, None);
    let d =
        decide(&cast, &file("mkv", &[video("h264", "High", |_| {}), audio(1, "dts", 6)]), &Choice::default());
    assert_eq!((d.method, d.audio.unwrap().channels), (Method::Transcode, Some(2)));
}

#[test]
fn dolby_vision_without_a_base_is_repacked_under_its_own_name() {
    let film = file(
        "mkv",
        &[
            video("hevc", "Main 10", |v| {
                (v.hdr, v.dv_profile, v.dv_level) = (Hdr::Dv5, Some(5), Some(6));
            }),
            audio(1, "aac", 2),
        ],
    );
    let d = decide(&builtin("safari").unwrap(), &film, &Choice::default());
    assert_eq!((d.method, d.refusal), (Method::DirectStream, None));
    assert_eq!(d.video.unwrap().codec_string.as_deref(), Some("dvh1.05.06"));
}

#[test]
fn no_picture_above_1080_lines_is_encoded() {
    let film = file(
        "mkv",
        &[
            video("hevc", "Main 10", |v| (v.width, v.height, v.hdr) = (3840, 2160, Hdr::Hdr10)),
            audio(1, "aac", 2),
        ],
    );
    let v = decide(&builtin("chrome").unwrap(), &film, &Choice::default()).video.unwrap();
    assert_eq!((v.max_width, v.max_height, v.max_level), (Some(1920), Some(1080), Some(42)));
}

#[test]
fn a_client_of_nothing_that_is_made_here_is_refused_and_told() {
    let c = client(json!({"name": "odd", "direct_play": [
        {"container": "webm", "video": ["vp9"], "audio": ["vorbis"]}], "protocols": ["http"]}));
    let d = decide(&c, &plain_film(), &Choice::default());
    assert_eq!(d.refusal, Some(Reason::NoCommonFormat));
    assert!(d.rule_of(Reason::NoCommonFormat).is_some());
}

#[test]
fn profile_5_is_never_sent_to_who_did_not_ask_for_it_by_name() {
    // DE10. A codec without limits takes everything else.
    let c = client(json!({"name": "unlimited", "direct_play": [
        {"container": "mp4", "video": ["hevc", "h264"], "audio": ["aac"]}]}));
    let film = |hdr| file("mp4", &[video("hevc", "Main 10", |v| v.hdr = hdr), audio(1, "aac", 2)]);
    assert_eq!(decide(&c, &film(Hdr::Dv7), &Choice::default()).method, Method::DirectPlay);
    let d = decide(&c, &film(Hdr::Dv5), &Choice::default());
    // Its colours cannot be had back: refused, and said.
    let reasons = [Reason::VideoRangeNotSupported, Reason::DolbyVisionNotConvertible];
    assert_eq!((d.method, &d.reasons[..]), (Method::Transcode, &reasons[..]));
    assert_eq!(d.refusal, Some(Reason::DolbyVisionNotConvertible));
    for name in builtin_names() {
        let p = builtin(name).unwrap();
        let asked = p.video_limit("hevc").is_some_and(|v| v.hdr.contains(&crate::client::Range::Dv5));
        let d = decide(&p, &film(Hdr::Dv5), &Choice::default());
        let sent = d.refusal.is_none() && d.video.unwrap().action != Action::Drop;
        assert_eq!(sent, asked, "{name}");
    }
}

#[test]
fn interlaced_pictures_are_made_whole_for_who_cannot() {
    // DE12.
    let film = file("mp4", &[video("h264", "High", |v| v.interlaced = true), audio(1, "aac", 2)]);
    let d = decide(&plain(), &film, &Choice::default());
    assert_eq!(d.reasons, [Reason::InterlacedVideoNotSupported]);
    assert!(d.video.unwrap().deinterlace);
    let mut c = plain();
    c.video[0].interlaced = true;
    assert_eq!(decide(&c, &film, &Choice::default()).method, Method::DirectPlay);
}

#[test]
fn a_sample_entry_that_apple_does_not_open_is_repacked() {
    // DE07.
    let tagged = |tag: &str| {
        let mut v = video("hevc", "Main", |_| {});
        v.codec_tag = Some(tag.to_owned());
        v.codec_string = Some(format!("{tag}.1.6.L63.90"));
        file("mp4", &[v, audio(1, "aac", 2)])
    };
    let safari = builtin("safari").unwrap();
    let d = decide(&safari, &tagged("hev1"), &Choice::default());
    let only = [Reason::VideoCodecTagNotSupported];
    is_row(&d, Method::DirectStream, &only, "fmp4", Action::Copy, Action::Copy);
    let codecs = d.video.unwrap().codec_string;
    assert_eq!(codecs.as_deref(), Some("hvc1.1.6.L63.90"));
    assert_eq!(decide(&safari, &tagged("hvc1"), &Choice::default()).method, Method::DirectPlay);
}

#[test]
fn sound_never_changes_the_verdict_on_the_picture() {
    for (codec, channels) in [("dts", 6), ("truehd", 8), ("aac", 6), ("ac3", 2), ("unknown", 0)] {
        let film = file("mp4", &[video("h264", "High", |_| {}), audio(1, codec, channels)]);
        let d = decide(&plain(), &film, &Choice::default());
        assert_eq!(d.method, Method::DirectStream, "{codec}");
        let v = d.video.unwrap();
        assert_eq!((v.action, v.reasons.len()), (Action::Copy, 0), "{codec}");
        assert_eq!(d.audio.unwrap().channels, Some(2), "{codec}");
    }
}

#[test]
fn sound_is_encoded_to_what_keeps_the_most_channels() {
    // AU02, AU05.
    let takes = |audio_limits: serde_json::Value, codecs: &[&str]| {
        client(json!({"name": "a",
            "direct_play": [{"container": "mp4", "video": ["h264"], "audio": codecs}],
            "audio": audio_limits}))
    };
    let six = takes(json!([{"codec": "aac", "max_channels": 6}]), &["aac"]);
    let two = takes(json!([{"codec": "aac", "max_channels": 2}]), &["aac"]);
    let dolby = takes(
        json!([{"codec": "aac", "max_channels": 2}, {"codec": "ac3", "max_channels": 6}]),
        &["aac", "ac3"],
    );
    let low = takes(json!([{"codec": "aac", "max_sample_rate": 44_100}]), &["aac"]);
    for (c, source, expected) in [
        (&six, 6, ("aac", 6, 384_000, 48_000)),
        (&six, 8, ("aac", 6, 384_000, 48_000)),
        (&six, 1, ("aac", 1, 96_000, 48_000)),
        (&two, 6, ("aac", 2, 192_000, 48_000)),
        (&dolby, 6, ("ac3", 6, 448_000, 48_000)),
        (&dolby, 2, ("aac", 2, 192_000, 48_000)),
        (&low, 2, ("aac", 2, 192_000, 44_100)),
    ] {
        let film = file("mkv", &[video("h264", "High", |_| {}), audio(1, "dts", source)]);
        let a = decide(c, &film, &Choice::default()).audio.unwrap();
        let got = (a.codec.as_str(), a.channels.unwrap(), a.bitrate_bps.unwrap(), a.sample_rate.unwrap());
        assert_eq!(got, expected, "{source} channels");
    }
    // Roku: AC-3 for surround, AAC for stereo.
    let roku = builtin("roku").unwrap();
    for (source, codec) in [(6, "ac3"), (2, "aac")] {
        let film = file("mkv", &[video("h264", "High", |_| {}), audio(1, "dts", source)]);
        assert_eq!(decide(&roku, &film, &Choice::default()).audio.unwrap().codec, codec);
    }
}

#[test]
fn a_sample_rate_above_the_limit_is_encoded() {
    let mut c = plain();
    c.audio[0].max_sample_rate = Some(48_000);
    let mut a = audio(1, "aac", 2);
    if let StreamKind::Audio(a) = &mut a.kind {
        a.sample_rate = 96_000;
    }
    let d = decide(&c, &file("mp4", &[video("h264", "High", |_| {}), a]), &Choice::default());
    let only = [Reason::AudioSampleRateNotSupported];
    is_row(&d, Method::DirectStream, &only, "fmp4", Action::Copy, Action::Encode);
}

fn two_tongues() -> MediaInfo {
    let mut film = file("mp4", &[video("h264", "High", |_| {}), audio(1, "aac", 2), audio(2, "aac", 2)]);
    film.streams[1].disposition.default = true;
    film
}

#[test]
fn another_sound_track_is_a_remux_and_the_default_one_is_not() {
    let d = decide(&plain(), &two_tongues(), &Choice::default());
    is_row(&d, Method::DirectPlay, &[], "mp4", Action::Copy, Action::Copy);
    let second = Choice { audio: Some(2), ..Choice::default() };
    let d = decide(&plain(), &two_tongues(), &second);
    let only = [Reason::SecondaryAudioNotSupported];
    is_row(&d, Method::DirectStream, &only, "fmp4", Action::Copy, Action::Copy);
    assert_eq!(d.audio.unwrap().stream, 2);
    let mut c = plain();
    c.switches_audio = true;
    assert_eq!(decide(&c, &two_tongues(), &second).method, Method::DirectPlay);
}

#[test]
fn a_track_that_is_not_there_is_told_and_changes_nothing() {
    let choice = Choice { audio: Some(9), ..Choice::default() };
    let d = decide(&plain(), &two_tongues(), &choice);
    assert_eq!((d.method, d.audio.as_ref().unwrap().stream), (Method::DirectPlay, 1));
    let told = d.rules.iter().find(|r| r.rule == "chosen_stream").unwrap();
    assert_eq!((told.wanted.to_string().as_str(), told.verdict), ("audio stream 9", RuleVerdict::Fail));
}

fn subtitled(codec: &str) -> MediaInfo {
    file("mkv", &[video("h264", "High", |_| {}), audio(1, "ac3", 6), subtitle(2, codec)])
}

#[test]
fn text_goes_beside_and_never_costs_the_picture() {
    // SU10.
    for codec in ["subrip", "ass", "mov_text", "webvtt"] {
        let d = decide(&plain(), &subtitled(codec), &with_subtitle(2));
        assert_eq!(d.video.as_ref().unwrap().action, Action::Copy);
        let s = d.subtitle.unwrap();
        let action = if codec == "webvtt" { Action::Copy } else { Action::Encode };
        assert_eq!((s.action, s.delivery), (action, Some(Delivery::External)));
        assert_eq!((s.format.as_deref(), s.reasons.len()), (Some("webvtt"), 0));
    }
}

#[test]
fn text_that_no_client_way_fits_is_dropped_and_not_burnt() {
    let mut c = plain();
    c.subtitles.clear();
    let film = file("mp4", &[plain_film().streams, vec![subtitle(2, "ass")]].concat());
    let d = decide(&c, &film, &with_subtitle(2));
    is_row(&d, Method::DirectPlay, &[], "mp4", Action::Copy, Action::Copy);
    let s = d.subtitle.unwrap();
    assert_eq!((s.action, &s.reasons[..]), (Action::Drop, &[Reason::SubtitleFormatNotSupported][..]));
}

#[test]
fn pictures_are_burnt_in_only_where_the_client_cannot_draw_them() {
    let d = decide(&plain(), &subtitled("hdmv_pgs_subtitle"), &with_subtitle(2));
    assert_eq!(d.method, Method::Transcode);
    assert!(d.reasons.contains(&Reason::SubtitleBurnIn));
    let v = d.video.unwrap();
    assert_eq!((v.burn_subtitle, &v.reasons[..]), (Some(2), &[Reason::SubtitleBurnIn][..]));
    assert_eq!(d.subtitle.unwrap().action, Action::Burn);

    let mut draws = plain();
    draws
        .subtitles
        .push(crate::client::SubtitleSupport { format: "pgs".to_owned(), delivery: Delivery::External });
    let d = decide(&draws, &subtitled("hdmv_pgs_subtitle"), &with_subtitle(2));
    assert_eq!((d.method, d.video.unwrap().action), (Method::DirectStream, Action::Copy));
    let s = d.subtitle.unwrap();
    assert_eq!((s.action, s.delivery), (Action::Copy, Some(Delivery::External)));
}

#[test]
fn a_script_goes_out_as_it_is_to_who_names_it_before_webvtt() {
    let support = |format: &str| crate::client::SubtitleSupport {
        format: format.to_owned(),
        delivery: Delivery::External,
    };
    for (formats, format, action) in [
        (&["ass", "webvtt"][..], "ass", Action::Copy),
        (&["webvtt", "ass"], "webvtt", Action::Encode),
        (&["ass"], "ass", Action::Copy),
        (&["webvtt"], "webvtt", Action::Encode),
        (&["srt", "*"], "ass", Action::Copy),
    ] {
        let mut client = plain();
        client.subtitles = formats.iter().map(|f| support(f)).collect();
        let d = decide(&client, &subtitled("ass"), &with_subtitle(2));
        let s = d.subtitle.unwrap();
        assert_eq!((s.format.as_deref(), s.action), (Some(format), action), "{formats:?}");
        assert_eq!(s.delivery, Some(Delivery::External));
        // Other text has nothing that WebVTT has not.
        let d = decide(&client, &subtitled("subrip"), &with_subtitle(2));
        let webvtt = formats.contains(&"webvtt") || formats.contains(&"*");
        assert_eq!(d.subtitle.unwrap().format.as_deref() == Some("webvtt"), webvtt, "{formats:?}");
    }
}

#[test]
fn a_client_draws_what_it_takes_as_a_file_of_its_own() {
    let mut client = plain();
    assert!(!client.draws("ass") && !client.draws("hdmv_pgs_subtitle"));
    for (format, delivery) in [("pgs", Delivery::External), ("vobsub", Delivery::Embedded)] {
        client.subtitles.push(crate::client::SubtitleSupport { format: format.to_owned(), delivery });
    }
    assert!(client.draws("hdmv_pgs_subtitle") && !client.draws("dvd_subtitle"));
    assert!(builtin("kodi").unwrap().draws("ssa"));
}

#[test]
fn pictures_from_a_file_beside_are_not_burnt() {
    let mut film = plain_film();
    let mut side = subtitle(2, "dvd_subtitle");
    side.kind = StreamKind::Subtitle(spindle_media::info::Subtitle {
        text: false,
        external: Some("film.idx".to_owned()),
    });
    film.streams.push(side);
    let d = decide(&plain(), &film, &with_subtitle(2));
    assert_eq!((d.method, d.subtitle.unwrap().action), (Method::DirectPlay, Action::Drop));
    // Two files, index and pictures, which nobody puts together: also for who draws them.
    let mut draws = plain();
    draws
        .subtitles
        .push(crate::client::SubtitleSupport { format: "vobsub".to_owned(), delivery: Delivery::External });
    assert_eq!(decide(&draws, &film, &with_subtitle(2)).subtitle.unwrap().action, Action::Drop);
}

#[test]
fn subtitles_inside_stay_inside_only_in_a_file_that_goes_out_whole() {
    let kodi = builtin("kodi").unwrap();
    let d = decide(&kodi, &subtitled("hdmv_pgs_subtitle"), &with_subtitle(2));
    is_row(&d, Method::DirectPlay, &[], "mkv", Action::Copy, Action::Copy);
    assert_eq!(d.subtitle.unwrap().delivery, Some(Delivery::Embedded));

    let mut c = plain();
    c.subtitles =
        vec![crate::client::SubtitleSupport { format: "pgs".to_owned(), delivery: Delivery::Embedded }];
    // Repacked into segments, the pictures have no place inside any more.
    let d = decide(&c, &subtitled("hdmv_pgs_subtitle"), &with_subtitle(2));
    assert_eq!(d.subtitle.unwrap().action, Action::Burn);
}

#[test]
fn a_client_of_playlist_subtitles_gets_a_playlist() {
    let ios = builtin("ios").unwrap();
    let film = file("mp4", &[plain_film().streams, vec![subtitle(2, "mov_text")]].concat());
    assert_eq!(decide(&ios, &film, &Choice::default()).method, Method::DirectPlay);
    let d = decide(&ios, &film, &with_subtitle(2));
    let only = [Reason::SubtitleNeedsHls];
    is_row(&d, Method::DirectStream, &only, "fmp4", Action::Copy, Action::Copy);
    assert_eq!(d.subtitle.unwrap().delivery, Some(Delivery::Hls));
}

#[test]
fn forced_subtitles_of_the_sounds_language_come_unasked() {
    let mut film = file("mp4", &[plain_film().streams, vec![subtitle(2, "mov_text")]].concat());
    film.streams[1].language = Some("eng".to_owned());
    film.streams[2].language = Some("eng".to_owned());
    film.streams[2].disposition.forced = true;
    let d = decide(&plain(), &film, &Choice::default());
    assert_eq!((d.method, d.subtitle.unwrap().stream), (Method::DirectPlay, 2));
    let off = Choice { subtitle: SubtitleChoice::Off, ..Choice::default() };
    assert!(decide(&plain(), &film, &off).subtitle.is_none());
}

fn rated(video_bps: Option<u64>, audio_bps: u64, total: Option<u64>) -> MediaInfo {
    let mut film = plain_film();
    film.streams[0].bitrate_bps = video_bps;
    film.streams[1].bitrate_bps = Some(audio_bps);
    film.bitrate_bps = total;
    film
}

#[test]
fn a_bitrate_limit_shrinks_what_is_too_much_and_nothing_else() {
    // DE13: nothing is refused without a limit.
    let big = rated(Some(40_000_000), 200_000, Some(40_300_000));
    assert_eq!(decide(&plain(), &big, &Choice::default()).method, Method::DirectPlay);

    let limit = |bps| Choice { max_bitrate_bps: Some(bps), ..Choice::default() };
    let only = [Reason::BitrateOverLimit];
    let d = decide(&plain(), &big, &limit(10_000_000));
    is_row(&d, Method::Transcode, &only, "fmp4", Action::Encode, Action::Copy);
    let v = d.video.unwrap();
    assert_eq!((v.max_bitrate_bps, v.max_height), (Some(9_800_000), Some(1080)));

    // Just under, just over; the file's other tracks; a picture whose rate nobody wrote down.
    for (film, bps, method) in [
        (rated(Some(8_000_000), 200_000, Some(8_270_000)), 8_270_000, Method::DirectPlay),
        (rated(Some(8_000_000), 200_000, Some(8_270_000)), 8_200_000, Method::DirectStream),
        (rated(Some(8_000_000), 200_000, Some(8_270_000)), 8_199_999, Method::Transcode),
        (rated(None, 200_000, Some(8_270_000)), 8_000_000, Method::Transcode),
    ] {
        assert_eq!(decide(&plain(), &film, &limit(bps)).method, method, "{bps}");
    }
    // No rate and no length: not refused.
    let mut dark = rated(None, 0, None);
    dark.duration_s = None;
    dark.streams[1].bitrate_bps = None;
    let d = decide(&plain(), &dark, &limit(1_000));
    assert_eq!(d.method, Method::DirectPlay);
    assert!(d.rules.iter().any(|r| r.rule == "bitrate" && r.verdict == RuleVerdict::Unknown));
    // 1 GB in two hours is 1.1 Mb/s.
    dark.duration_s = Some(7_200.0);
    assert_eq!(decide(&plain(), &dark, &limit(1_000_000)).method, Method::Transcode);
}

#[test]
fn sound_shrinks_too_when_it_would_eat_the_limit() {
    let film = rated(Some(4_000_000), 1_500_000, Some(5_500_000));
    let choice = Choice { max_bitrate_bps: Some(1_000_000), ..Choice::default() };
    let d = decide(&plain(), &film, &choice);
    let only = [Reason::BitrateOverLimit];
    is_row(&d, Method::Transcode, &only, "fmp4", Action::Encode, Action::Encode);
    let (v, a) = (d.video.unwrap(), d.audio.unwrap());
    assert_eq!((a.channels, a.bitrate_bps), (Some(2), Some(192_000)));
    assert_eq!((v.max_bitrate_bps, v.max_width, v.max_height), (Some(808_000), Some(854), Some(480)));
}

#[test]
fn the_lower_of_two_limits_holds() {
    let mut c = plain();
    c.max_bitrate = Some(5_000_000);
    let film = rated(Some(6_000_000), 128_000, Some(6_128_000));
    let wide = Choice { max_bitrate_bps: Some(50_000_000), ..Choice::default() };
    let d = decide(&c, &film, &wide);
    assert_eq!(d.video.unwrap().max_bitrate_bps, Some(4_872_000));
}

#[test]
fn the_encoder_is_kept_within_the_clients_own_limits() {
    let nest = builtin("nest-hub").unwrap();
    let film = file(
        "mkv",
        &[
            video("hevc", "Main 10", |v| {
                (v.width, v.height, v.hdr, v.bit_depth) = (3840, 2160, Hdr::Hdr10, Some(10));
            }),
            audio(1, "eac3", 6),
        ],
    );
    let d = decide(&nest, &film, &Choice::default());
    let v = d.video.unwrap();
    assert_eq!(
        v,
        TrackVerdict {
            stream: 0,
            action: Action::Encode,
            codec: "h264".to_owned(),
            reasons: vec![Reason::VideoCodecNotSupported],
            max_width: Some(1280),
            max_height: Some(720),
            max_fps: Some(60.0),
            profile: Some("High".to_owned()),
            max_level: Some(41),
            tone_map: true,
            ..TrackVerdict::default()
        }
    );
    let a = d.audio.unwrap();
    assert_eq!((a.codec.as_str(), a.channels), ("aac", Some(2)));
}

#[test]
fn a_client_without_playlists_gets_one_piece() {
    let dlna = builtin("dlna-generic").unwrap();
    let film = file("mkv", &[video("h264", "High", |_| {}), audio(1, "dts", 6)]);
    let d = decide(&dlna, &film, &Choice::default());
    assert_eq!((d.protocol, d.container.as_str()), (Protocol::Http, "mpegts"));
    assert_eq!((d.method, d.audio.unwrap().codec.as_str()), (Method::DirectStream, "ac3"));
    // A transport stream cannot carry the rotation of a telephone's film.
    let phone = file("mov", &[video("h264", "High", |v| v.rotation = 90), audio(1, "aac", 2)]);
    let d = decide(&dlna, &phone, &Choice::default());
    assert!(d.reasons.contains(&Reason::VideoRotationNotSupported));

    let mut mp4_only = plain();
    mp4_only.protocols = vec![Protocol::Http];
    let d = decide(&mp4_only, &film, &Choice::default());
    assert_eq!((d.protocol, d.container.as_str()), (Protocol::Http, "mp4"));
}

#[test]
fn a_client_of_playlists_alone_gets_no_file() {
    let mut c = plain();
    c.protocols = vec![Protocol::Hls];
    let d = decide(&c, &plain_film(), &Choice::default());
    let only = [Reason::ProtocolNotSupported];
    is_row(&d, Method::DirectStream, &only, "fmp4", Action::Copy, Action::Copy);
}

#[test]
fn streams_that_nobody_knows_are_left_out() {
    // DE09.
    let mut film = plain_film();
    let mut data: Stream = audio(2, "unknown", 0);
    data.kind = StreamKind::Data;
    film.streams.push(data);
    assert_eq!(decide(&plain(), &film, &Choice::default()).method, Method::DirectPlay);
    let nothing = file("mp4", &[]);
    let d = decide(&plain(), &nothing, &Choice::default());
    assert!(d.reasons.contains(&Reason::NothingToPlay));
}

#[test]
fn a_cover_is_not_the_picture() {
    let mut cover = video("mjpeg", "Baseline", |_| {});
    cover.disposition.attached_picture = true;
    let song = file("mp3", &[audio(0, "mp3", 2), cover]);
    let d = decide(&builtin("chrome").unwrap(), &song, &Choice::default());
    assert_eq!((d.method, d.video), (Method::DirectPlay, None));
}

#[test]
fn what_a_client_decodes_in_one_container_may_not_travel_in_another() {
    // MPEG-2 in TS plays; out of AVI it cannot be repacked into fragmented MP4.
    let c = client(json!({"name": "tv", "direct_play": [
        {"container": "mpegts", "video": ["mpeg2video", "h264"], "audio": ["mp2", "aac"]}]}));
    let film = file("avi", &[video("mpeg2video", "Main", |_| {}), audio(1, "mp2", 2)]);
    let d = decide(&c, &film, &Choice::default());
    assert_eq!(d.method, Method::Transcode);
    assert!(d.reasons.contains(&Reason::ContainerNotSupported));
    assert_eq!(d.video.unwrap().codec, "h264");
    assert_eq!(d.audio.unwrap().codec, "aac");
    // Chrome plays MP3 as a file and out of a transport stream, and not out of fragmented MP4.
    let film = file("avi", &[video("h264", "High", |_| {}), audio(1, "mp3", 2)]);
    let chrome = builtin("chrome").unwrap();
    let d = decide(&chrome, &film, &Choice::default());
    is_row(&d, Method::DirectStream, &[Reason::ContainerNotSupported], "mpegts", Action::Copy, Action::Copy);
    let mut no_ts = chrome;
    no_ts.hls.as_mut().unwrap().other = None;
    let d = decide(&no_ts, &film, &Choice::default());
    assert_eq!((d.method, d.audio.unwrap().action), (Method::DirectStream, Action::Encode));
}

#[test]
fn reasons_and_failed_rules_agree_for_every_client() {
    // DE15: no conversion without a reason, no reason without a rule that failed.
    let films = [
        plain_film(),
        subtitled("hdmv_pgs_subtitle"),
        two_tongues(),
        file("mkv", &[video("hevc", "Main 10", |v| v.hdr = Hdr::Dv5), audio(1, "truehd", 8)]),
        file("avi", &[video("mpeg4", "Simple", |_| {}), audio(1, "mp3", 2)]),
        file("webm", &[video("vp9", "Profile 2", |v| v.bit_depth = Some(10)), audio(1, "opus", 6)]),
        file("flac", &[audio(0, "flac", 2)]),
    ];
    for name in builtin_names() {
        let p = builtin(name).unwrap();
        for film in &films {
            let subtitles = film.subtitles().next().map(|(s, _)| s.index);
            for choice in [Choice::default(), with_subtitle(subtitles.unwrap_or(0))] {
                let d = decide(&p, film, &choice);
                let failed = d.rules.iter().any(|r| {
                    r.verdict == RuleVerdict::Fail && !["chosen_stream", "subtitle_format"].contains(&r.rule)
                });
                let burnt = d.reasons.contains(&Reason::SubtitleBurnIn);
                let in_list = d.reasons.contains(&Reason::SubtitleNeedsHls);
                assert_eq!(d.method == Method::DirectPlay, d.reasons.is_empty(), "{name} {d:#?}");
                assert_eq!(failed || burnt || in_list, !d.reasons.is_empty(), "{name} {d:#?}");
                for t in [&d.video, &d.audio].into_iter().flatten() {
                    assert_eq!(t.action == Action::Copy, t.reasons.is_empty(), "{name}");
                }
            }
        }
    }
}

#[test]
fn a_client_of_playlists_alone_decodes_the_codecs_that_it_gives_limits_for() {
    let profile = r#"{"name": "tv", "direct_play": [], "video": [{"codec": "h264"}], "audio": [{"codec": "aac"}],
        "subtitles": [], "protocols": ["hls"]}"#;
    let profile = ClientProfile::from_json(profile).expect("a valid profile");
    let film = file("mp4", &[video("h264", "High", |_| {}), audio(1, "aac", 2)]);
    let decision = decide(&profile, &film, &Choice::default());
    assert_eq!(decision.method, Method::DirectStream, "{:?}", decision.reasons);
}
