//! Cases from the field about the decision, each named by its number, on the descriptions of the real
//! samples. What a case asks of bytes, workers and pages is held by `transcode/client/tests` and `tests/it`.

use serde_json::{Value, json};
use spindle_media::info::{Hdr, MediaInfo, StreamKind, Video};
use spindle_playback::versions::{self, Version};
use spindle_playback::{
    Action, Choice, ClientProfile, Decider, Decision, Delivery, Method, Preferences, Reason, Remembered,
    RuleVerdict, SubtitleChoice, builtin, builtin_names, choose, decide,
};

/// The description of a sample, by a part of its path.
fn sample(part: &str) -> MediaInfo {
    let line = include_str!("fixtures/samples.jsonl")
        .lines()
        .map(|l| serde_json::from_str::<Value>(l).expect("a description"))
        .find(|v| v["file"].as_str().expect("a path").contains(part))
        .unwrap_or_else(|| panic!("no sample {part}"));
    serde_json::from_value(line["info"].clone()).expect("a description")
}

fn client(json: Value) -> ClientProfile {
    ClientProfile::from_json(&json.to_string()).expect("a profile")
}

fn play(client: &ClientProfile, file: &MediaInfo) -> Decision {
    decide(client, file, &Choice::default())
}

fn video(file: &MediaInfo) -> &Video {
    file.main_video().expect("a picture").1
}

fn actions(d: &Decision) -> (Option<Action>, Option<Action>) {
    (d.video.as_ref().map(|t| t.action), d.audio.as_ref().map(|t| t.action))
}

const COPIED: (Option<Action>, Option<Action>) = (Some(Action::Copy), Some(Action::Copy));

fn has(d: &Decision, reason: Reason) -> bool {
    d.reasons.contains(&reason)
}

/// A browser of today: what Chrome and Firefox both take.
fn browser() -> ClientProfile {
    builtin("chrome").expect("built in")
}

#[test]
fn de01_a_container_alone_is_repacked_and_nothing_is_encoded() {
    let c = client(json!({"name": "de01", "direct_play": [
        {"container": "mp4", "video": ["h264"], "audio": ["mp3"]},
        {"container": "ts", "video": ["h264"], "audio": ["mp3"]}]}));
    let d = play(&c, &sample("Soundcheck MP3"));
    assert_eq!((d.method, actions(&d)), (Method::DirectStream, COPIED));
    assert_eq!(d.reasons, [Reason::ContainerNotSupported]);
}

#[test]
fn de03_codecs_that_the_client_lists_are_copied_out_of_any_container() {
    let firefox = builtin("firefox").expect("built in");
    for part in ["Umber Hall (1997)", "Soundcheck FLACinMP4"] {
        for c in [&browser(), &firefox] {
            let d = play(c, &sample(part));
            assert_eq!(actions(&d), COPIED, "{part} on {}: {:?}", c.name, d.reasons);
            assert!(d.method < Method::Transcode, "{part}");
        }
    }
    // An .mka: the same file without its picture.
    let mut mka = sample("Umber Hall (1997)");
    mka.streams.retain(|s| matches!(s.kind, StreamKind::Audio(_)));
    let d = play(&firefox, &mka);
    assert_eq!((d.method, actions(&d)), (Method::DirectStream, (None, Some(Action::Copy))));
    assert_eq!(d.refusal, None);
}

#[test]
fn de04_profiles_that_a_client_does_not_decode_are_not_sent() {
    let high = client(json!({"name": "high", "direct_play": [
            {"container": "mp4,mkv,mov", "video": ["h264"], "audio": ["aac", "flac", "pcm"]}],
        "video": [{"codec": "h264", "profiles": ["High"], "max_bit_depth": 8}]}));
    for part in ["Low Tide", "Mesa Line", "North Quay"] {
        let d = play(&high, &sample(part));
        assert_eq!(d.method, Method::Transcode, "{part}");
        assert!(
            has(&d, Reason::VideoProfileNotSupported) || has(&d, Reason::VideoBitDepthNotSupported),
            "{part} {:?}",
            d.reasons
        );
    }
    let mut ten = high;
    ten.video[0].profiles = vec!["High 10".to_owned()];
    ten.video[0].max_bit_depth = Some(10);
    let d = play(&ten, &sample("Low Tide"));
    assert_eq!((d.method, actions(&d)), (Method::DirectPlay, COPIED));
    let codecs = d.video.and_then(|v| v.codec_string).expect("a codec string");
    assert!(codecs.to_lowercase().starts_with("avc1.6e00"), "{codecs}");
}

#[test]
fn de06_the_anamorphic_flag_is_what_is_seen() {
    for (part, anamorphic, size) in [
        ("Tall Grass (1995)", true, (1024, 576)),
        ("Tall Grass Narrow", true, (640, 480)),
        ("Display Dims", true, (853, 360)),
        ("Amber Coast (2001)/Amber Coast (2001).mp4", false, (640, 360)),
    ] {
        let info = sample(part);
        let v = video(&info);
        assert_eq!(v.anamorphic().is_some(), anamorphic, "{part}");
        let (w, h) = v.shown_size();
        // A picture may keep its lines or its columns: the shape counts.
        let shape = f64::from(w) / f64::from(h);
        assert!((shape - f64::from(size.0) / f64::from(size.1)).abs() < 0.01, "{part} {w}x{h}");
    }
    let rounding = Video { sample_aspect: Some([31_679, 31_680]), ..video(&sample("Birch Road")).clone() };
    assert_eq!((rounding.anamorphic(), rounding.shown_size()), (None, (640, 360)));
    // And it forces nothing where aspects are heeded.
    assert_eq!(play(&browser(), &sample("Tall Grass (1995)")).method, Method::DirectPlay);
}

#[test]
fn de07_hevc_goes_out_as_hvc1_with_the_streams_own_string() {
    let safari = builtin("safari").expect("built in");
    let mut strings = Vec::new();
    for (part, begins) in [
        ("Velvet Mine (1998)", "hvc1.1.6.L"),
        ("Velvet Mine Hev", "hvc1.1.6.L"),
        ("Velvet Mine Ten", "hvc1.2.4.L"),
    ] {
        let mut playlists = safari.clone();
        playlists.protocols = vec![spindle_playback::Protocol::Hls];
        let d = play(&playlists, &sample(part));
        assert_eq!((d.container.as_str(), actions(&d)), ("fmp4", COPIED), "{part}");
        let codecs = d.video.and_then(|v| v.codec_string).expect("a codec string");
        assert!(codecs.starts_with(begins), "{part} {codecs}");
        strings.push(codecs);
    }
    assert_ne!(strings[0], strings[2]);
    // The entry alone is no reason for others.
    let d = play(&safari, &sample("Velvet Mine Hev"));
    assert_eq!(d.reasons, [Reason::VideoCodecTagNotSupported]);
    assert_eq!(
        play(&builtin("tizen").expect("built in"), &sample("Velvet Mine Hev")).method,
        Method::DirectPlay
    );
}

#[test]
fn de09_streams_that_nobody_knows_are_left_out_of_the_choice() {
    for part in ["Cold Ferry Six", "Brass Key Four"] {
        let info = sample(part);
        assert!(info.streams.iter().any(|s| s.kind == StreamKind::Data), "{part}");
        for name in builtin_names() {
            let d = play(&builtin(name).expect("built in"), &info);
            let (v, a) = (d.video.expect("a picture"), d.audio.expect("sound"));
            assert!(matches!(info.streams[v.stream as usize].kind, StreamKind::Video(_)), "{part} {name}");
            assert!(matches!(info.streams[a.stream as usize].kind, StreamKind::Audio(_)), "{part} {name}");
            assert_eq!(d.refusal, None, "{part} {name}");
        }
    }
}

#[test]
fn de10_dolby_vision_without_a_base_is_never_sent_to_who_cannot_show_it() {
    let c = |hdr: Value| {
        client(json!({"name": "de10", "direct_play": [
                {"container": "mp4", "video": ["h264", "hevc"], "audio": ["aac"]}],
            "video": [{"codec": "hevc", "hdr": hdr}]}))
    };
    let (sdr, hdr10, dolby) = (c(json!([])), c(json!(["hdr10"])), c(json!(["hdr10", "dv5", "dv8"])));
    let five = sample("Yarrow Peak Five");
    assert_eq!(video(&five).hdr, Hdr::Dv5);
    for c in [&sdr, &hdr10] {
        let d = play(c, &five);
        assert_eq!((d.method, d.refusal), (Method::Transcode, Some(Reason::DolbyVisionNotConvertible)));
    }
    assert_eq!(play(&dolby, &five).method, Method::DirectPlay);
    let eight = sample("Yarrow Peak (2020).mp4");
    let d = play(&hdr10, &eight);
    assert_eq!(d.method, Method::DirectPlay);
    let told = d.rules.iter().find(|r| r.rule == "video_range").expect("a rule");
    assert_eq!(
        (told.verdict, told.found.to_string()),
        (RuleVerdict::Note, "dv_hdr10, shown as hdr10".into())
    );
    let d = play(&sdr, &eight);
    assert_eq!((d.method, d.refusal, d.video.expect("a picture").tone_map), (Method::Transcode, None, true));
}

#[test]
fn de12_fields_go_to_who_takes_them_and_become_frames_for_others() {
    let c = |interlaced: bool| {
        client(json!({"name": "de12", "direct_play": [
                {"container": "mkv,mpegts", "video": ["h264"], "audio": ["ac3"]}],
            "video": [{"codec": "h264", "interlaced": interlaced}]}))
    };
    for part in ["Opal Street (2017)", "Opal Street Two"] {
        assert_eq!(play(&c(true), &sample(part)).method, Method::DirectPlay, "{part}");
        let d = play(&c(false), &sample(part));
        assert_eq!(
            (d.method, &d.reasons[..]),
            (Method::Transcode, &[Reason::InterlacedVideoNotSupported][..])
        );
        assert!(d.video.expect("a picture").deinterlace, "{part}");
    }
}

#[test]
fn de13_no_limit_holds_that_nobody_set() {
    let big = sample("High Bitrate");
    assert!(big.bitrate_bps.expect("a rate") > 30_000_000);
    assert_eq!(play(&browser(), &big).method, Method::DirectPlay);
    let choice = Choice { max_bitrate_bps: Some(10_000_000), ..Choice::default() };
    let d = decide(&browser(), &big, &choice);
    assert_eq!((d.method, &d.reasons[..]), (Method::Transcode, &[Reason::BitrateOverLimit][..]));
    assert!(d.video.expect("a picture").max_bitrate_bps.expect("a limit") <= 10_000_000);
}

#[test]
fn de15_each_failed_condition_is_told_with_wanted_and_found() {
    let choice = Choice { max_bitrate_bps: Some(10_000_000), ..Choice::default() };
    let limited = decide(&browser(), &sample("High Bitrate"), &choice);
    let rule = limited.rule_of(Reason::BitrateOverLimit).expect("a rule");
    assert_eq!(rule.wanted.to_string(), "at most 10000000");
    assert!(rule.found.to_string().parse::<u64>().expect("a number") > 30_000_000);
    let subtitle = SubtitleChoice::Stream(stream_of(&sample("Delta Night"), "hdmv_pgs_subtitle"));
    let burnt = decide(&browser(), &sample("Delta Night"), &Choice { subtitle, ..Choice::default() });
    let rule = burnt.rule_of(Reason::SubtitleBurnIn).expect("a rule");
    assert_eq!((rule.rule, rule.found.to_string().as_str()), ("subtitle_format", "hdmv_pgs_subtitle"));
    let direct = play(&browser(), &sample("Birch Road"));
    assert!(direct.reasons.is_empty() && direct.rules.iter().all(|r| r.reason.is_none()));
    for reason in Reason::ALL {
        assert!(reason.sentence().ends_with('.'), "{reason:?}");
    }
}

fn stream_of(info: &MediaInfo, codec: &str) -> u32 {
    info.streams.iter().find(|s| s.codec == codec).expect("the stream").index
}

#[test]
fn su10_text_subtitles_force_no_conversion_and_pictures_only_where_they_are_not_drawn() {
    let night = sample("Delta Night");
    let shows = |codec: &str, more: &[&str]| {
        let mut c = browser();
        for format in more {
            let one = json!({"format": format, "delivery": "external"});
            c.subtitles.push(serde_json::from_value(one).expect("a format"));
        }
        let subtitle = SubtitleChoice::Stream(stream_of(&night, codec));
        decide(&c, &night, &Choice { subtitle, ..Choice::default() })
    };
    let d = shows("subrip", &[]);
    assert_eq!(actions(&d), (Some(Action::Copy), Some(Action::Encode)));
    let s = d.subtitle.expect("subtitles");
    assert_eq!((s.delivery, s.format.as_deref()), (Some(Delivery::External), Some("webvtt")));
    let d = shows("hdmv_pgs_subtitle", &[]);
    assert_eq!(actions(&d), (Some(Action::Encode), Some(Action::Encode)));
    assert!(has(&d, Reason::SubtitleBurnIn));
    let d = shows("hdmv_pgs_subtitle", &["pgs"]);
    assert_eq!(actions(&d), (Some(Action::Copy), Some(Action::Encode)));
}

#[test]
fn su07_pictures_are_burnt_in_whatever_else_causes_the_conversion() {
    let night = sample("Delta Night");
    let n = stream_of(&night, "hdmv_pgs_subtitle");
    for max_bitrate_bps in [None, Some(400_000)] {
        let choice = Choice { subtitle: SubtitleChoice::Stream(n), max_bitrate_bps, ..Choice::default() };
        let d = decide(&browser(), &night, &choice);
        assert_eq!(d.video.expect("a picture").burn_subtitle, Some(n), "{max_bitrate_bps:?}");
    }
    let ferry = sample("Cold Ferry Five");
    let n = stream_of(&ferry, "dvb_subtitle");
    let d = decide(&browser(), &ferry, &Choice { subtitle: SubtitleChoice::Stream(n), ..Choice::default() });
    assert_eq!(d.video.expect("a picture").burn_subtitle, Some(n));
}

#[test]
fn sy05_a_film_that_begins_between_key_frames_is_not_repacked() {
    let trim = sample("Edit Trim");
    assert!(video(&trim).lead_in_ms > 1_000);
    assert_eq!(play(&browser(), &trim).method, Method::DirectPlay);
    let mut playlists = browser();
    playlists.protocols = vec![spindle_playback::Protocol::Hls];
    let d = play(&playlists, &trim);
    assert_eq!(actions(&d), (Some(Action::Encode), Some(Action::Copy)));
    assert!(has(&d, Reason::VideoStartsBetweenKeyframes));
    // Its sister begins at one.
    assert_eq!(actions(&play(&playlists, &sample("Birch Road"))), COPIED);
}

#[test]
fn pi01_squeezed_pictures_are_encoded_in_the_shape_that_is_shown() {
    let c = client(json!({"name": "pi01", "direct_play": [
        {"container": "mp4", "video": ["av1"], "audio": ["aac"]}], "video": [{"codec": "h264"}]}));
    for (part, shape) in [
        ("Tall Grass (1995)", 16.0 / 9.0),
        ("Zephyr Bridge (1980)", 4.0 / 3.0),
        ("Display Dims", 853.0 / 360.0),
    ] {
        let v = play(&c, &sample(part)).video.expect("a picture");
        if v.action == Action::Encode {
            let (w, h) = (v.max_width.expect("a width"), v.max_height.expect("a height"));
            assert!((f64::from(w) / f64::from(h) / shape - 1.0).abs() < 0.01, "{part} {w}x{h}");
        }
    }
}

#[test]
fn pi02_turned_pictures_keep_their_matrix_or_are_set_upright_and_never_go_into_a_transport_stream() {
    for (part, size) in
        [("Silver Fern 90", (360, 640)), ("Silver Fern 180", (640, 360)), ("Silver Fern 270", (360, 640))]
    {
        let info = sample(part);
        assert_eq!(video(&info).shown_size(), size, "{part}");
        for name in builtin_names() {
            let d = play(&builtin(name).expect("built in"), &info);
            let v = d.video.as_ref().expect("a picture");
            assert!(d.container != "mpegts" || v.action != Action::Copy, "{part} {name}");
            if v.action == Action::Encode {
                assert_eq!((v.max_width, v.max_height), (Some(size.0), Some(size.1)), "{part} {name}");
            }
        }
    }
}

#[test]
fn pi04_and_pi05_hdr_is_known_and_tone_mapped_for_who_shows_none() {
    let c = client(json!({"name": "sdr", "direct_play": [
            {"container": "mp4,mkv,m2ts", "video": ["h264", "hevc"], "audio": ["aac", "eac3"]}]
        , "video": [{"codec": "hevc", "max_bit_depth": 10}]}));
    for (part, hdr) in [("Xenon Small", Hdr::Hdr10), ("Xenon Bloom", Hdr::Hlg), ("White Comet", Hdr::Hdr10)] {
        let info = sample(part);
        let v = video(&info);
        assert_eq!(
            (v.hdr, v.bit_depth, v.color_primaries.as_deref()),
            (hdr, Some(10), Some("bt2020")),
            "{part}"
        );
        let d = play(&c, &info);
        assert_eq!(
            (d.method, &d.reasons[..]),
            (Method::Transcode, &[Reason::VideoRangeNotSupported][..]),
            "{part}"
        );
        assert!(d.video.expect("a picture").tone_map, "{part}");
    }
}

#[test]
fn au02_and_au05_as_many_channels_are_kept_as_the_client_takes_at_a_rate_that_fits_them() {
    let takes = |audio: Value, names: &[&str]| {
        client(json!({"name": "au02", "direct_play": [
            {"container": "mp4", "video": ["h264"], "audio": names}], "audio": audio}))
    };
    let aac6 = takes(json!([{"codec": "aac", "max_channels": 6}]), &["aac"]);
    let aac2 = takes(json!([{"codec": "aac", "max_channels": 2}]), &["aac"]);
    let ac3 = takes(
        json!([{"codec": "aac", "max_channels": 2}, {"codec": "ac3", "max_channels": 6}]),
        &["aac", "ac3"],
    );
    for (c, codec, channels, least_bps) in
        [(&aac6, "aac", 6, 256_000), (&aac2, "aac", 2, 96_000), (&ac3, "ac3", 6, 256_000)]
    {
        for part in ["Soundcheck DTS", "Soundcheck TrueHD"] {
            let d = play(c, &sample(part));
            let a = d.audio.expect("sound");
            assert_eq!((a.codec.as_str(), a.channels, a.sample_rate), (codec, Some(channels), Some(48_000)));
            assert!(a.bitrate_bps.expect("a rate") >= least_bps, "{part}");
            assert_eq!(d.video.expect("a picture").action, Action::Copy);
        }
    }
    let opus = takes(json!([{"codec": "opus", "max_channels": 8}]), &["opus"]);
    assert_eq!(play(&opus, &sample("Soundcheck FLAC71")).audio.expect("sound").channels, Some(8), "AU04");
}

#[test]
fn au07_the_viewers_language_goes_before_the_files_flag_and_is_remembered() {
    let maze = sample("Flag Maze");
    let language = |d: &Decision| {
        let n = d.audio.as_ref().expect("sound").stream;
        maze.streams.iter().find(|s| s.index == n).and_then(|s| s.language.clone()).expect("a language")
    };
    let with = |languages: &[&str], remembered: Remembered| {
        let preferences = Preferences {
            audio_languages: languages.iter().map(|l| (*l).to_owned()).collect(),
            remembered,
            ..Preferences::default()
        };
        decide(&browser(), &maze, &Choice { preferences, ..Choice::default() })
    };
    for (languages, expected, nth) in
        [(&[][..], "jpn", 0), (&["eng"], "eng", 1), (&["jpn"], "jpn", 0), (&["fra"], "jpn", 0)]
    {
        let d = with(languages, Remembered::default());
        assert_eq!(language(&d), expected, "{languages:?}");
        let order = maze.audio().position(|(s, _)| s.index == d.audio.as_ref().expect("sound").stream);
        assert_eq!(order, Some(nth), "{languages:?}");
    }
    let second = maze.audio().nth(1).expect("two tracks").0.index;
    let chosen = Remembered::default().with(&maze, &Choice { audio: Some(second), ..Choice::default() });
    assert_eq!(language(&with(&["jpn"], chosen)), "eng", "as chosen for the episode before");
}

#[test]
fn au01_each_of_several_tracks_is_the_one_that_was_chosen() {
    let choir = sample("Dust Choir");
    let tracks: Vec<u32> = choir.audio().map(|(s, _)| s.index).collect();
    assert_eq!(tracks.len(), 5);
    for name in builtin_names() {
        let c = Decider::new(&builtin(name).expect("built in"));
        for n in &tracks {
            let d = c.decide(&choir, &Choice { audio: Some(*n), ..Choice::default() });
            assert_eq!(d.audio.as_ref().expect("sound").stream, *n, "{name}");
            // A player that cannot change tracks is not handed the file.
            let by_itself = *n == choose::audio(&choir, None, &Preferences::default()).expect("one").0.index;
            let switches = builtin(name).expect("built in").switches_audio;
            assert!(d.method != Method::DirectPlay || by_itself || switches, "{name} {n}");
        }
    }
}

#[test]
fn hl13_a_second_sound_track_is_repacked_and_not_encoded() {
    let maze = sample("Flag Maze");
    let second = maze.audio().nth(1).expect("two tracks").0.index;
    let d = decide(&browser(), &maze, &Choice { audio: Some(second), ..Choice::default() });
    assert_eq!((d.method, actions(&d)), (Method::DirectStream, COPIED));
    assert_eq!(d.reasons, [Reason::SecondaryAudioNotSupported]);
}

#[test]
fn gr02_of_versions_in_two_sizes_the_one_that_suits_the_client_plays() {
    let (large, small) = (sample("Ninefold (2015) - 1080p"), sample("Ninefold (2015) - 480p"));
    let cut = sample("Director's Cut");
    let list = [(&cut, true), (&small, false), (&large, false)];
    let versions = list.map(|(info, edition)| Version { info: Some(info), available: true, edition });
    for name in builtin_names() {
        let decider = Decider::new(&builtin(name).expect("built in"));
        let chosen = versions::choose(&decider, &versions, &Choice::default()).expect("one");
        assert_ne!(chosen, 0, "{name}: a director's cut is asked for");
    }
    let decider = Decider::new(&browser());
    assert_eq!(versions::choose(&decider, &versions, &Choice::default()), Some(2), "360 lines before 180");
}

#[test]
fn ts04_a_recording_that_restarts_is_as_long_as_it_is_and_is_made_one() {
    let four = sample("Cold Ferry Four");
    assert!((four.duration_s.expect("a length") - 12.0).abs() < 0.5);
    assert_eq!(four.clock_restarts.len(), 1);
    let d = play(&browser(), &four);
    assert_eq!(d.method, Method::Transcode);
    assert!(has(&d, Reason::RecordingRestarts));
    for part in ["Cold Ferry (1984)", "Cold Ferry Two", "Cold Ferry Three"] {
        assert!(sample(part).clock_restarts.is_empty(), "{part}");
        assert!((sample(part).duration_s.expect("a length") - 12.0).abs() < 0.1, "TS01, TS02: {part}");
    }
}

#[test]
fn ts05_files_without_a_length_in_their_header_have_one() {
    for part in ["Fallow Moon", "Cinder Lake (2003)", "Ember Field"] {
        assert!((sample(part).duration_s.expect("a length") - 12.0).abs() < 0.1, "{part}");
    }
}
