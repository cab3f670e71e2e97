//! Files of many tracks and viewers of many wishes.

use super::*;
use crate::decide::samples::{audio as sound, file, subtitle as text};

fn tracks(list: &[(&str, bool, bool)]) -> MediaInfo {
    let mut info = file("mkv", &[]);
    for (n, (language, default, commentary)) in list.iter().enumerate() {
        let mut s = sound(u32::try_from(n).unwrap(), "aac", 2);
        s.language = Some((*language).to_owned());
        s.disposition.default = *default;
        s.disposition.commentary = *commentary;
        info.streams.push(s);
    }
    info
}

fn likes(languages: &[&str]) -> Preferences {
    Preferences {
        audio_languages: languages.iter().map(|l| (*l).to_owned()).collect(),
        ..Preferences::default()
    }
}

/// Subtitles as (language, codec, flags): `f` forced, `h` hard of hearing, `c` commentary, `d` default.
fn subtitles(list: &[(&str, &str, &str)]) -> MediaInfo {
    let mut info = file("mkv", &[]);
    for (n, (language, codec, flags)) in list.iter().enumerate() {
        let mut s = text(u32::try_from(n).unwrap(), codec);
        s.language = Some((*language).to_owned());
        s.disposition.forced = flags.contains('f');
        s.disposition.hearing_impaired = flags.contains('h');
        s.disposition.commentary = flags.contains('c');
        s.disposition.default = flags.contains('d');
        info.streams.push(s);
    }
    info
}

#[test]
fn the_viewers_language_goes_before_the_files_flag() {
    // `Flag Maze`: Japanese default, English, English commentary that is flagged default too.
    let f = tracks(&[("jpn", true, false), ("eng", false, false), ("eng", true, true)]);
    for (requested, languages, expected) in [
        (None, &[][..], 0),
        (None, &["eng"], 1),
        (None, &["jpn"], 0),
        (None, &["fra"], 0),
        (None, &["fra", "eng"], 1),
        (Some(2), &["jpn"], 2),
        (Some(9), &[], 0),
    ] {
        let got = audio(&f, requested, &likes(languages)).unwrap().0.index;
        assert_eq!(got, expected, "{requested:?} {languages:?}");
    }
}

#[test]
fn without_flags_a_commentary_comes_last() {
    let f = tracks(&[("eng", false, true), ("eng", false, false)]);
    assert_eq!(audio(&f, None, &likes(&[])).unwrap().0.index, 1);
    let only = tracks(&[("eng", false, true)]);
    assert_eq!(audio(&only, None, &likes(&[])).unwrap().0.index, 0);
    assert!(audio(&tracks(&[]), None, &likes(&[])).is_none());
    // A commentary that is flagged as default is still not the film.
    let flagged = tracks(&[("eng", true, true), ("eng", false, false)]);
    assert_eq!(audio(&flagged, None, &likes(&[])).unwrap().0.index, 1);
}

#[test]
fn the_language_of_the_film_comes_first_for_who_wants_it() {
    let mut f = tracks(&[("eng", true, false), ("jpn", false, false), ("jpn", false, true)]);
    f.streams[1].disposition.original = true;
    f.streams[2].disposition.original = true;
    let wish = Preferences { original_language: true, ..likes(&["eng"]) };
    assert_eq!(audio(&f, None, &wish).unwrap().0.index, 1);
    assert_eq!(audio(&f, None, &likes(&["eng"])).unwrap().0.index, 0);
    // Nobody says which it is: the viewer's languages decide.
    let unsaid = tracks(&[("fra", true, false), ("eng", false, false)]);
    assert_eq!(audio(&unsaid, None, &wish).unwrap().0.index, 1);
}

#[test]
fn described_sound_comes_first_for_who_wants_it_and_last_for_others() {
    let mut f = tracks(&[("eng", false, false), ("eng", true, false)]);
    f.streams[1].disposition.visual_impaired = true;
    assert_eq!(audio(&f, None, &likes(&["eng"])).unwrap().0.index, 0);
    let wish = Preferences { described: true, ..likes(&["eng"]) };
    assert_eq!(audio(&f, None, &wish).unwrap().0.index, 1);
}

#[test]
fn the_choice_for_one_episode_holds_for_the_next() {
    let first = tracks(&[("jpn", true, false), ("eng", false, false), ("eng", false, true)]);
    let chose = |audio| Choice { audio: Some(audio), ..Choice::default() };
    // The next episode has its tracks in another order.
    let next =
        tracks(&[("eng", false, true), ("fra", false, false), ("eng", false, false), ("jpn", true, false)]);
    for (chosen, expected) in [(0, 3), (1, 2), (2, 0)] {
        let remembered = Remembered::default().with(&first, &chose(chosen));
        let wish = Preferences { remembered, ..likes(&["fra"]) };
        assert_eq!(audio(&next, None, &wish).unwrap().0.index, expected, "{chosen}");
    }
    // What was chosen is not in this one: as the viewer likes in general.
    let remembered = Remembered::default().with(&first, &chose(0));
    let wish = Preferences { remembered, ..likes(&["fra"]) };
    let other = tracks(&[("eng", true, false), ("fra", false, false)]);
    assert_eq!(audio(&other, None, &wish).unwrap().0.index, 1);
}

#[test]
fn the_title_tells_two_tracks_of_one_language_apart() {
    let named = |first: &str, second: &str| {
        let mut f = tracks(&[("eng", true, true), ("eng", false, true)]);
        f.streams[0].title = Some(first.to_owned());
        f.streams[1].title = Some(second.to_owned());
        f
    };
    let choice = Choice { audio: Some(1), ..Choice::default() };
    let remembered = Remembered::default().with(&named("Director", "Cast"), &choice);
    let wish = Preferences { remembered, ..Preferences::default() };
    assert_eq!(audio(&named("Cast", "Director"), None, &wish).unwrap().0.index, 0);
    assert_eq!(audio(&named("Writer", "Cast"), None, &wish).unwrap().0.index, 1);
}

#[test]
fn a_player_by_itself_takes_the_flagged_track_or_the_first() {
    let f = tracks(&[("jpn", false, false), ("eng", true, false)]);
    assert!(!plays_by_itself(&f, &f.streams[0]));
    assert!(plays_by_itself(&f, &f.streams[1]));
    let f = tracks(&[("jpn", false, true), ("eng", false, false)]);
    assert!(plays_by_itself(&f, &f.streams[0]));
}

#[test]
fn only_forced_subtitles_of_the_sounds_language_come_unasked() {
    let f = subtitles(&[("eng", "subrip", "d"), ("eng", "subrip", "fd"), ("fra", "ass", "fd")]);
    let pick =
        |choice, language| subtitle(&f, choice, &Preferences::default(), language).map(|(s, _)| s.index);
    assert_eq!(pick(SubtitleChoice::Default, Some("eng")), Some(1));
    assert_eq!(pick(SubtitleChoice::Default, Some("jpn")), None);
    assert_eq!(pick(SubtitleChoice::Default, None), None);
    assert_eq!(pick(SubtitleChoice::Off, Some("eng")), None);
    assert_eq!(pick(SubtitleChoice::Stream(0), Some("fra")), Some(0));
    assert_eq!(pick(SubtitleChoice::Stream(7), Some("fra")), None);
}

#[test]
fn subtitles_come_as_the_viewers_mode_says() {
    let f = subtitles(&[
        ("eng", "subrip", "f"),
        ("eng", "hdmv_pgs_subtitle", "d"),
        ("eng", "subrip", "h"),
        ("eng", "subrip", "c"),
        ("eng", "subrip", ""),
        ("deu", "subrip", ""),
        ("jpn", "subrip", "f"),
    ]);
    let wish = |mode, languages: &[&str], hearing_impaired| Preferences {
        subtitle_mode: mode,
        subtitle_languages: languages.iter().map(|l| (*l).to_owned()).collect(),
        hearing_impaired,
        ..likes(&["eng"])
    };
    let pick = |wish: &Preferences, spoken: Option<&str>| {
        subtitle(&f, SubtitleChoice::Default, wish, spoken).map(|(s, _)| s.index)
    };
    use SubtitleMode::{Always, Forced, Foreign, Off};
    for (mode, languages, sdh, spoken, expected) in [
        (Off, &["eng"][..], false, Some("eng"), None),
        (Forced, &["eng"], false, Some("eng"), Some(0)),
        (Forced, &["eng"], false, Some("jpn"), Some(6)),
        (Foreign, &["eng"], false, Some("eng"), Some(0)),
        (Foreign, &["eng"], false, Some("jpn"), Some(4)),
        (Foreign, &["eng"], false, None, None),
        (Foreign, &["fra"], false, Some("jpn"), Some(6)),
        (Always, &["fra", "deu"], false, Some("eng"), Some(5)),
        (Always, &["eng"], false, Some("eng"), Some(4)),
        (Always, &["eng"], true, Some("eng"), Some(2)),
        (Always, &[], false, Some("eng"), Some(0)),
    ] {
        assert_eq!(pick(&wish(mode, languages, sdh), spoken), expected, "{mode:?} {languages:?} {sdh}");
    }
}

#[test]
fn subtitles_that_were_chosen_or_refused_stay_so_for_the_series() {
    let f = subtitles(&[("eng", "subrip", ""), ("eng", "subrip", "h"), ("fra", "ass", "")]);
    let after = |subtitle_choice| {
        let choice = Choice { subtitle: subtitle_choice, ..Choice::default() };
        let remembered = Remembered::default().with(&f, &choice);
        let wish = Preferences {
            remembered,
            subtitle_mode: SubtitleMode::Always,
            subtitle_languages: vec!["fra".to_owned()],
            ..Preferences::default()
        };
        let next = subtitles(&[("fra", "ass", ""), ("eng", "subrip", "h"), ("eng", "subrip", "")]);
        subtitle(&next, SubtitleChoice::Default, &wish, Some("jpn")).map(|(s, _)| s.index)
    };
    assert_eq!(after(SubtitleChoice::Default), Some(0));
    assert_eq!(after(SubtitleChoice::Off), None);
    assert_eq!(after(SubtitleChoice::Stream(0)), Some(2));
    assert_eq!(after(SubtitleChoice::Stream(1)), Some(1));
    assert_eq!(after(SubtitleChoice::Stream(2)), Some(0));
}

#[test]
fn what_is_remembered_survives_its_json() {
    let f = subtitles(&[("eng", "subrip", "h")]);
    for subtitle in [SubtitleChoice::Off, SubtitleChoice::Stream(0), SubtitleChoice::Default] {
        let remembered = Remembered::default().with(&f, &Choice { subtitle, ..Choice::default() });
        let text = serde_json::to_string(&remembered).unwrap();
        assert_eq!(serde_json::from_str::<Remembered>(&text).unwrap(), remembered, "{text}");
        assert_eq!(remembered.is_empty(), subtitle == SubtitleChoice::Default);
    }
}

#[test]
fn a_choice_of_a_stream_of_another_kind_is_told() {
    let f = file("mkv", &[sound(0, "aac", 2), text(1, "subrip")]);
    let choice = |audio, subtitle| Choice { audio, subtitle, ..Choice::default() };
    assert!(is_in(&f, &choice(Some(0), SubtitleChoice::Stream(1))));
    assert!(is_in(&f, &choice(None, SubtitleChoice::Off)));
    assert!(!is_in(&f, &choice(Some(1), SubtitleChoice::Off)));
    assert!(!is_in(&f, &choice(None, SubtitleChoice::Stream(0))));
}
