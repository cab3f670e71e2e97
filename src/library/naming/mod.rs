//! What a path says about the thing it holds: films, episodes, seasons, side files, music.
//!
//! Pure: a path in, an [`Identity`] out. Nothing here opens a file, asks a clock or knows a
//! database, so the same names always read the same. Whatever the name does not say stays absent.

use serde::Serialize;

pub mod group;

/// What the library that holds the path is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Hint {
    /// Films.
    Movie,
    /// Series with seasons and episodes.
    Tv,
    /// Albums and tracks, also audiobooks.
    Music,
    /// Pictures.
    Photo,
    /// Unknown or several kinds: the name alone decides.
    Mixed,
}

/// What an extra shows; the words of the wire are those of [`Extra::as_str`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "each variant is the word itself")]
pub enum Extra {
    Trailer,
    Sample,
    Scene,
    Clip,
    DeletedScene,
    Interview,
    BehindTheScenes,
    Featurette,
    Short,
    #[serde(rename = "theme_song")]
    ThemeSong,
    #[serde(rename = "theme_video")]
    ThemeVideo,
    /// Anything else that is not the film itself.
    Extra,
}

/// A mark of a side file (subtitle or audio).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Flag {
    /// Shown without being asked for.
    Default,
    /// Foreign parts only.
    Forced,
    /// For the hard of hearing (`sdh`, `cc`, `hi`).
    Hi,
}

/// What a path says. Absent = not in the name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Identity {
    /// Film, series or track title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Year of release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub year: Option<u16>,
    /// Season; 0 = specials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub season: Option<u32>,
    /// First episode in the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ep_first: Option<u32>,
    /// Last episode in the file; equal to `ep_first` for one episode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ep_last: Option<u32>,
    /// Absolute number (counted through all seasons), first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub absolute: Option<u32>,
    /// Absolute number, last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub abs_last: Option<u32>,
    /// Day of broadcast, `YYYY-MM-DD`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    /// Title of the episode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ep_title: Option<String>,
    /// Number of the piece of a split file (`cd1`, `part 2`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<u32>,
    /// Edition, as `Director's Cut`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edition: Option<String>,
    /// Set when the file is an extra.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra: Option<Extra>,
    /// 3D layout (`hsbs`, `ftab` …), `3d` when only that is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stereo: Option<String>,
    /// Language of a side file, ISO 639-2 (terminology form).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lang: Option<String>,
    /// Marks of a side file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<Flag>,
    /// Path of the film that a side file belongs to, without an extension.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// Artist of a track, author of an audiobook.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artist: Option<String>,
    /// Album of a track.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub album: Option<String>,
    /// Disc number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disc: Option<u32>,
    /// Track number on its disc.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub track: Option<u32>,
    /// Id in the name, `tmdb:901`, `imdb:tt0000901`, `tvdb:12`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
}

/// What `path` says, in a library of kind `hint`. Folders above the file are read too.
pub fn identify(path: &str, hint: Hint) -> Identity {
    let _ = (path, hint);
    Identity::default()
}

/// One line of `spindle identify`: the path, a tab, the identity as JSON. `kind` is one of
/// [`KIND_WORDS`]; `None` or an unknown word lets the name decide.
pub fn identify_line(path: &str, kind: Option<&str>) -> String {
    let _ = kind;
    format!("{path}\t{{}}")
}

/// The words that [`identify_line`] takes as a kind.
pub const KIND_WORDS: &[&str] = &[
    "movie", "episode", "season_folder", "series_folder", "episode_folder", "video", "subtitle", "track",
    "disc_folder", "audiobook", "movies", "tv", "music", "photo", "mixed",
];
