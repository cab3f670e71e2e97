//! Which streams play when the viewer chose none, or chose by language. The rules, in order, are those
//! of `docs/playback.md`.
//!
//! Sound, first that applies:
//! 1. the stream that was asked for;
//! 2. what was chosen for this series before: the same language and role, the same title among equals;
//! 3. the language the film was made in, where the viewer wants that;
//! 4. in the first of the viewer's languages that the file has: the film's own sound before a commentary
//!    or a description, the default one before others (a description before all for who wants it);
//! 5. the first with the default flag that is the film's own sound, then any with the flag;
//! 6. the first that is neither commentary nor description;
//! 7. the first.
//!
//! Subtitles, first that applies:
//! 1. what was asked for, a stream or none;
//! 2. what was chosen for this series before, a language and role or none;
//! 3. as the viewer's mode says: none; forced alone; whole ones for sound in a foreign language; always;
//! 4. forced ones in the language of the sound: they are part of the film;
//! 5. none.

use serde::{Deserialize, Serialize};
use spindle_media::info::{Audio, MediaInfo, Stream, Subtitle};

use crate::decide::Method;

/// What the viewer chose.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Choice {
    /// Index of the sound stream, `None` for the default.
    pub audio: Option<u32>,
    /// Subtitles.
    pub subtitle: SubtitleChoice,
    /// Limit in bits per second of everything together, set by viewer, account or network.
    pub max_bitrate_bps: Option<u64>,
    /// What the viewer likes, where nothing was asked for.
    pub preferences: Preferences,
    /// The furthest way that failed on this client with these codecs: it and those before it are left out.
    pub failed: Option<Method>,
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

/// What a viewer likes, in general and for one series.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Preferences {
    /// Languages of the sound, ISO 639-2/T, preferred first.
    pub audio_languages: Vec<String>,
    /// The language that the film was made in goes before them.
    pub original_language: bool,
    /// Sound described for the blind goes before other sound.
    pub described: bool,
    /// Languages of the subtitles, ISO 639-2/T, preferred first.
    pub subtitle_languages: Vec<String>,
    /// When subtitles come unasked.
    pub subtitle_mode: SubtitleMode,
    /// Subtitles for the hard of hearing go before others of their language.
    pub hearing_impaired: bool,
    /// What was chosen for this series before.
    #[serde(skip)]
    pub remembered: Remembered,
}

/// When subtitles come unasked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubtitleMode {
    /// Forced ones in the language of the sound.
    #[default]
    Forced,
    /// Whole ones when the sound is in none of the viewer's languages; else forced ones.
    Foreign,
    /// Whole ones.
    Always,
    /// None, not even forced ones.
    Off,
}

/// What a viewer chose for a series.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Remembered {
    /// Sound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audio: Option<Track>,
    /// Subtitles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subtitle: Option<RememberedSubtitle>,
}

/// Subtitles that were chosen for a series.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RememberedSubtitle {
    /// None.
    Off,
    /// These.
    Track(Track),
}

/// A track by what the next episode's track has in common with it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Track {
    /// ISO 639-2/T; absent where the file does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// What it is.
    pub role: TrackRole,
    /// Its title in the file: tells two tracks of one language and role apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

/// What a track is, by its flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrackRole {
    /// The film's own sound, or whole subtitles.
    #[default]
    Main,
    /// A commentary.
    Commentary,
    /// Described for the blind.
    Described,
    /// For the hard of hearing.
    HearingImpaired,
    /// Foreign parts only.
    Forced,
}

impl Track {
    /// What is worth remembering of a stream.
    #[must_use]
    pub fn of(stream: &Stream) -> Self {
        Self { language: stream.language.clone(), role: role(stream), title: stream.title.clone() }
    }
}

impl Remembered {
    /// What is worth remembering of a choice; what the viewer left to the rules stays as it was.
    #[must_use]
    pub fn with(mut self, file: &MediaInfo, choice: &Choice) -> Self {
        let stream = |wanted: u32| file.streams.iter().find(|s| s.index == wanted).map(Track::of);
        if let Some(track) = choice.audio.and_then(stream) {
            self.audio = Some(track);
        }
        match choice.subtitle {
            SubtitleChoice::Default => {}
            SubtitleChoice::Off => self.subtitle = Some(RememberedSubtitle::Off),
            SubtitleChoice::Stream(wanted) => {
                if let Some(track) = stream(wanted) {
                    self.subtitle = Some(RememberedSubtitle::Track(track));
                }
            }
        }
        self
    }

    /// Whether nothing is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.audio.is_none() && self.subtitle.is_none()
    }
}

fn role(stream: &Stream) -> TrackRole {
    let d = stream.disposition;
    if d.forced {
        TrackRole::Forced
    } else if d.commentary {
        TrackRole::Commentary
    } else if d.visual_impaired {
        TrackRole::Described
    } else if d.hearing_impaired {
        TrackRole::HearingImpaired
    } else {
        TrackRole::Main
    }
}

/// The sound stream to play.
#[must_use]
pub fn audio<'a>(
    file: &'a MediaInfo,
    requested: Option<u32>,
    preferences: &Preferences,
) -> Option<(&'a Stream, &'a Audio)> {
    let by_index = requested.and_then(|wanted| file.audio().find(|(s, _)| s.index == wanted));
    by_index
        .or_else(|| remembered(file.audio(), preferences.remembered.audio.as_ref()?))
        .or_else(|| original(file, preferences))
        .or_else(|| {
            let languages = preferences.audio_languages.iter();
            languages.into_iter().find_map(|l| best(file, Some(l), preferences.described))
        })
        .or_else(|| best(file, None, preferences.described))
}

/// A track of the same language and role, with the same title among equals.
fn remembered<'a, T: 'a>(
    tracks: impl Iterator<Item = (&'a Stream, &'a T)>,
    wanted: &Track,
) -> Option<(&'a Stream, &'a T)> {
    let same = tracks.filter(|(s, _)| s.language == wanted.language && role(s) == wanted.role);
    // `min_by_key` takes the first of equals.
    same.min_by_key(|(s, _)| s.title != wanted.title)
}

fn original<'a>(file: &'a MediaInfo, preferences: &Preferences) -> Option<(&'a Stream, &'a Audio)> {
    if !preferences.original_language {
        return None;
    }
    file.audio().find(|(s, _)| s.disposition.original && is_the_film(s))
}

/// The best sound, in a language or in any: the film's own, flagged as default, first in the file.
fn best<'a>(
    file: &'a MediaInfo,
    language: Option<&String>,
    described: bool,
) -> Option<(&'a Stream, &'a Audio)> {
    let spoken = file.audio().filter(|(s, _)| language.is_none_or(|l| s.language.as_ref() == Some(l)));
    spoken.min_by_key(|(s, _)| {
        let rank = match role(s) {
            TrackRole::Described if described => 0,
            TrackRole::Commentary | TrackRole::Described => 2,
            _ => 1,
        };
        (rank, !s.disposition.default)
    })
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

fn is_the_film(stream: &Stream) -> bool {
    !stream.disposition.commentary && !stream.disposition.visual_impaired
}

/// The subtitles to show with sound in `audio_language`.
#[must_use]
pub fn subtitle<'a>(
    file: &'a MediaInfo,
    choice: SubtitleChoice,
    preferences: &Preferences,
    audio_language: Option<&str>,
) -> Option<(&'a Stream, &'a Subtitle)> {
    match choice {
        SubtitleChoice::Off => return None,
        SubtitleChoice::Stream(wanted) => return file.subtitles().find(|(s, _)| s.index == wanted),
        SubtitleChoice::Default => {}
    }
    match &preferences.remembered.subtitle {
        Some(RememberedSubtitle::Off) => return None,
        Some(RememberedSubtitle::Track(track)) => {
            if let Some(found) = remembered(file.subtitles(), track) {
                return Some(found);
            }
        }
        None => {}
    }
    let understood = |language: &str| preferences.audio_languages.iter().any(|l| l == language);
    let whole = match preferences.subtitle_mode {
        SubtitleMode::Off => return None,
        SubtitleMode::Forced => false,
        SubtitleMode::Always => true,
        SubtitleMode::Foreign => audio_language.is_some_and(|l| !understood(l)),
    };
    let in_order = || preferences.subtitle_languages.iter();
    let found = if whole { in_order().find_map(|l| best_subtitle(file, l, preferences)) } else { None };
    found.or_else(|| forced(file, audio_language?))
}

fn forced<'a>(file: &'a MediaInfo, language: &str) -> Option<(&'a Stream, &'a Subtitle)> {
    file.subtitles().find(|(s, _)| s.disposition.forced && s.language.as_deref() == Some(language))
}

/// Whole subtitles of a language: as wanted for the hard of hearing or not, text before pictures (which
/// may have to be burnt in), flagged as default, first in the file.
fn best_subtitle<'a>(
    file: &'a MediaInfo,
    language: &String,
    preferences: &Preferences,
) -> Option<(&'a Stream, &'a Subtitle)> {
    let whole = |s: &Stream| !s.disposition.forced && !s.disposition.commentary;
    let of = file.subtitles().filter(|(s, _)| s.language.as_ref() == Some(language) && whole(s));
    of.min_by_key(|(s, t)| {
        (s.disposition.hearing_impaired != preferences.hearing_impaired, !t.text, !s.disposition.default)
    })
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
mod tests;
