//! Which streams play when the viewer chose none, or chose by language.
//!
//! Sound, first that applies:
//! 1. the stream that was asked for;
//! 2. in the first of the viewer's languages that the file has: the default one, else the first,
//!    a commentary or a description for the blind only if there is nothing else in it;
//! 3. the first with the default flag;
//! 4. the first that is neither commentary nor description;
//! 5. the first.
//!
//! Subtitles, first that applies:
//! 1. what was asked for, a stream or none;
//! 2. forced ones in the language of the sound: they are part of the film;
//! 3. none.

use spindle_media::info::{Audio, MediaInfo, Stream, Subtitle};

/// What the viewer chose.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Choice {
    /// Index of the sound stream, `None` for the default.
    pub audio: Option<u32>,
    /// Subtitles.
    pub subtitle: SubtitleChoice,
    /// Limit in bits per second of everything together, set by viewer, account or network.
    pub max_bitrate_bps: Option<u64>,
}

/// What the viewer chose of the subtitles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SubtitleChoice {
    /// As the rules say.
    #[default]
    Default,
    /// None.
    Off,
    /// This stream.
    Stream(u32),
}

/// The sound stream to play; `languages` are ISO 639-2/T, preferred first.
#[must_use]
pub fn audio<'a>(
    file: &'a MediaInfo,
    requested: Option<u32>,
    languages: &[&str],
) -> Option<(&'a Stream, &'a Audio)> {
    let by_index = requested.and_then(|wanted| file.audio().find(|(s, _)| s.index == wanted));
    by_index
        .or_else(|| languages.iter().find_map(|language| in_language(file, language)))
        .or_else(|| native_audio(file))
        .or_else(|| file.audio().find(|(s, _)| is_the_film(s)))
        .or_else(|| file.audio().next())
}

/// The sound stream that a player starts with when it is handed the file: the first with the default
/// flag, `None` when no stream has it.
fn native_audio(file: &MediaInfo) -> Option<(&Stream, &Audio)> {
    file.audio().find(|(s, _)| s.disposition.default)
}

/// Whether a player that cannot change tracks would play `stream` of its own accord.
pub(crate) fn plays_by_itself(file: &MediaInfo, stream: &Stream) -> bool {
    native_audio(file).or_else(|| file.audio().next()).is_some_and(|(s, _)| s.index == stream.index)
}

fn in_language<'a>(file: &'a MediaInfo, language: &str) -> Option<(&'a Stream, &'a Audio)> {
    let spoken = || file.audio().filter(|(s, _)| s.language.as_deref() == Some(language));
    spoken()
        .find(|(s, _)| is_the_film(s) && s.disposition.default)
        .or_else(|| spoken().find(|(s, _)| is_the_film(s)))
        .or_else(|| spoken().next())
}

fn is_the_film(stream: &Stream) -> bool {
    !stream.disposition.commentary && !stream.disposition.visual_impaired
}

/// The subtitles to show with sound in `audio_language`.
#[must_use]
pub fn subtitle<'a>(
    file: &'a MediaInfo,
    choice: SubtitleChoice,
    audio_language: Option<&str>,
) -> Option<(&'a Stream, &'a Subtitle)> {
    match choice {
        SubtitleChoice::Off => None,
        SubtitleChoice::Stream(wanted) => file.subtitles().find(|(s, _)| s.index == wanted),
        SubtitleChoice::Default => audio_language.and_then(|language| {
            file.subtitles().find(|(s, _)| s.disposition.forced && s.language.as_deref() == Some(language))
        }),
    }
}

/// Whether the streams that were asked for are in the file: what a front door answers with "bad
/// input" when they are not.
#[must_use]
pub fn is_in(file: &MediaInfo, choice: &Choice) -> bool {
    choice.audio.is_none_or(|wanted| file.audio().any(|(s, _)| s.index == wanted))
        && match choice.subtitle {
            SubtitleChoice::Stream(wanted) => file.subtitles().any(|(s, _)| s.index == wanted),
            SubtitleChoice::Default | SubtitleChoice::Off => true,
        }
}

#[cfg(test)]
mod tests {
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
            let got = audio(&f, requested, languages).unwrap().0.index;
            assert_eq!(got, expected, "{requested:?} {languages:?}");
        }
    }

    #[test]
    fn without_flags_a_commentary_comes_last() {
        let f = tracks(&[("eng", false, true), ("eng", false, false)]);
        assert_eq!(audio(&f, None, &[]).unwrap().0.index, 1);
        let only = tracks(&[("eng", false, true)]);
        assert_eq!(audio(&only, None, &[]).unwrap().0.index, 0);
        assert!(audio(&tracks(&[]), None, &[]).is_none());
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
        let mut f = file("mkv", &[text(0, "subrip"), text(1, "subrip"), text(2, "ass")]);
        for (n, (language, forced)) in [("eng", false), ("eng", true), ("fra", true)].iter().enumerate() {
            f.streams[n].language = Some((*language).to_owned());
            f.streams[n].disposition.forced = *forced;
            f.streams[n].disposition.default = true;
        }
        let pick = |choice, language| subtitle(&f, choice, language).map(|(s, _)| s.index);
        assert_eq!(pick(SubtitleChoice::Default, Some("eng")), Some(1));
        assert_eq!(pick(SubtitleChoice::Default, Some("jpn")), None);
        assert_eq!(pick(SubtitleChoice::Default, None), None);
        assert_eq!(pick(SubtitleChoice::Off, Some("eng")), None);
        assert_eq!(pick(SubtitleChoice::Stream(0), Some("fra")), Some(0));
        assert_eq!(pick(SubtitleChoice::Stream(7), Some("fra")), None);
    }

    #[test]
    fn a_choice_of_a_stream_of_another_kind_is_told() {
        let f = file("mkv", &[sound(0, "aac", 2), text(1, "subrip")]);
        let choice = |audio, subtitle| Choice { audio, subtitle, max_bitrate_bps: None };
        assert!(is_in(&f, &choice(Some(0), SubtitleChoice::Stream(1))));
        assert!(is_in(&f, &choice(None, SubtitleChoice::Off)));
        assert!(!is_in(&f, &choice(Some(1), SubtitleChoice::Off)));
        assert!(!is_in(&f, &choice(None, SubtitleChoice::Stream(0))));
    }
}
