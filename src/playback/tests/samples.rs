//! Every sample on every built-in client against a reviewed table, and rules that hold for all of it.

mod table;

use spindle_media::info::Hdr;
use spindle_playback::{Action, Choice, Method, Reason, builtin};
use table::{Sample, clients, samples, table};

/// Made by `cargo run -p spindle-playback --example decisions`, then read line by line against the
/// published facts of each client. A change here is a change of what viewers get: look at it.
const REVIEWED: &str = include_str!("fixtures/decisions.txt");

#[test]
fn every_sample_goes_to_every_client_as_the_reviewed_table_says() {
    let made = table(&samples());
    for (n, (made, reviewed)) in made.lines().zip(REVIEWED.lines()).enumerate() {
        assert_eq!(made, reviewed, "line {}", n + 1);
    }
    assert_eq!(made.len(), REVIEWED.len());
}

/// Calls `check` with every sample, client and decision.
fn each(check: impl Fn(&Sample, &str, &spindle_playback::Decision)) {
    let clients = clients();
    for sample in samples() {
        for (name, client) in &clients {
            check(&sample, name, &client.decide(&sample.info, &Choice::default()));
        }
    }
}

#[test]
fn a_reason_has_a_failed_rule_and_a_failed_rule_a_reason() {
    each(|sample, name, d| {
        let at = format!("{} on {name}: {d:#?}", sample.file);
        for reason in &d.reasons {
            assert!(d.rule_of(*reason).is_some(), "{reason:?} {at}");
        }
        for rule in d.rules.iter().filter(|r| r.reason.is_some()) {
            let reason = rule.reason.expect("just filtered");
            // Subtitles that nobody can show stop nothing.
            assert!(d.reasons.contains(&reason) || rule.rule == "subtitle_format", "{rule:?} {at}");
        }
        assert_eq!(d.reasons.is_empty(), d.method == Method::DirectPlay, "{at}");
    });
}

#[test]
fn what_is_copied_was_decodable_and_what_was_not_is_encoded() {
    each(|sample, name, d| {
        let profile = builtin(name).expect("built in");
        for (track, plays) in [
            (&d.video, &(|c: &str| profile.plays_video(c)) as &dyn Fn(&str) -> bool),
            (&d.audio, &|c: &str| profile.plays_audio(c)),
        ] {
            let Some(track) = track else { continue };
            let source = &sample.info.streams[track.stream as usize].codec;
            if track.action == Action::Copy {
                assert!(plays(source), "{} on {name}: {source} is copied", sample.file);
                assert_eq!(&track.codec, source);
            }
            let sent = d.refusal.is_none() && track.action != Action::Drop;
            assert!(!sent || plays(&track.codec), "{} on {name}: {}", sample.file, track.codec);
        }
    });
}

#[test]
fn no_picture_without_a_base_reaches_who_did_not_ask_for_it() {
    each(|sample, name, d| {
        let Some((_, v)) = sample.info.main_video() else { return };
        if v.hdr != Hdr::Dv5 {
            return;
        }
        let profile = builtin(name).expect("built in");
        let asked = profile
            .video_limit("hevc")
            .is_some_and(|l| l.hdr.iter().any(|r| matches!(r.word(), "dv5" | "dv")));
        let sent = d.video.as_ref().is_some_and(|v| v.action != Action::Drop);
        assert_eq!(sent && d.refusal.is_none(), asked, "{name}");
        assert!(asked || !sent || d.reasons.contains(&Reason::DolbyVisionNotConvertible), "{name}");
    });
}

#[test]
fn sound_never_costs_the_picture_and_the_picture_never_the_sound() {
    // The samples that differ in sound alone: their picture has the same verdict everywhere.
    let clients = clients();
    let soundchecks: Vec<_> = samples()
        .into_iter()
        .filter(|s| s.file.contains("Soundcheck") && s.info.container == "mkv")
        .collect();
    assert!(soundchecks.len() >= 8);
    for (name, client) in &clients {
        let verdicts: Vec<_> = soundchecks
            .iter()
            .map(|s| client.decide(&s.info, &Choice::default()).video.expect("a picture").action)
            .collect();
        assert!(verdicts.windows(2).all(|w| w[0] == w[1]), "{name}: {verdicts:?}");
    }
}
