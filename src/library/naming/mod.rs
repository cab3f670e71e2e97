//! What a path says about the thing it holds: films, episodes, seasons, side files, music.
//!
//! Pure: a path in, an [`Identity`] out. Nothing here opens a file, asks a clock or knows a
//! database, so the same names always read the same. Whatever the name does not say stays absent.

use serde::Serialize;

mod bare;
mod dates;
mod editions;
mod episodes;
mod extras;
mod folders;
pub mod group;
mod movies;
mod music;
mod numbering;
mod numbers;
mod parts;
mod scan;
mod subtitles;
mod titles;
mod tokens;
mod vocabulary;

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
    /// Country that tells two series of one title apart (`US`, `GB`), ISO 3166-1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub country: Option<String>,
    /// Id in the name, `tmdb:901`, `imdb:tt0000901`, `tvdb:12`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
}

/// The kind of thing that a path is taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A film's file or folder.
    Movie,
    /// An episode's file or folder.
    Episode,
    /// The folder of a season.
    SeasonFolder,
    /// The folder of a series.
    SeriesFolder,
    /// A subtitle, or another file beside a film.
    Subtitle,
    /// A track of an album.
    Track,
    /// The folder of a disc.
    DiscFolder,
    /// A chapter of an audiobook.
    Audiobook,
    /// A picture.
    Photo,
}

impl Kind {
    /// The kind that a path has in a library, by its extension and its forms.
    pub fn of(path: &str, hint: Hint) -> Kind {
        let place = folders::place(path);
        let (_, ext) = vocabulary::split_extension(place.name);
        if is_side_file(&ext) {
            return Kind::Subtitle;
        }
        if is_audio(&ext) && !matches!(hint, Hint::Movie | Hint::Tv) || hint == Hint::Music {
            let book = ext == "m4b" || place.folders.iter().any(|folder| tokens::key(folder) == "audiobooks");
            let disc = ext.is_empty() && parts::disc_folder(place.name).is_some();
            return if book {
                Kind::Audiobook
            } else if disc {
                Kind::DiscFolder
            } else {
                Kind::Track
            };
        }
        if hint == Hint::Photo || hint == Hint::Mixed && is_picture(&ext) {
            return Kind::Photo;
        }
        if hint == Hint::Movie {
            return Kind::Movie;
        }
        if ext.is_empty() && episodes::is_season_folder(&place) {
            return Kind::SeasonFolder;
        }
        match hint {
            Hint::Tv => Kind::Episode,
            _ if ext.is_empty() && parts::disc_folder(place.name).is_some() => Kind::DiscFolder,
            _ if episodes::looks_like_one(&place) => Kind::Episode,
            _ => Kind::Movie,
        }
    }
}

fn is_audio(ext: &str) -> bool {
    matches!(
        ext,
        "mp3"
            | "flac"
            | "ogg"
            | "oga"
            | "opus"
            | "m4a"
            | "m4b"
            | "m4p"
            | "aac"
            | "wav"
            | "wma"
            | "aif"
            | "aiff"
            | "alac"
            | "ape"
            | "wv"
            | "mpc"
            | "dsf"
            | "mka"
            | "mp2"
    )
}

fn is_side_file(ext: &str) -> bool {
    matches!(ext, "srt" | "ass" | "ssa" | "vtt" | "sub" | "idx" | "sup" | "smi" | "sbv" | "ttml")
}

fn is_picture(ext: &str) -> bool {
    matches!(ext, "jpg" | "jpeg" | "png" | "gif" | "webp" | "heic" | "tif" | "tiff" | "bmp")
}

/// What `path` says, in a library of kind `hint`. Folders above the file are read too, the six
/// nearest; give the path from the library's folder down, so that folders above it say nothing.
pub fn identify(path: &str, hint: Hint) -> Identity {
    identify_as(path, Kind::of(path, hint))
}

/// What `path` says when it is known to be of one kind.
pub fn identify_as(path: &str, kind: Kind) -> Identity {
    let place = folders::place(path);
    match kind {
        Kind::Movie => movies::identify(&place),
        Kind::Episode => episodes::identify(&place),
        Kind::SeasonFolder => episodes::season_folder(&place),
        Kind::SeriesFolder => episodes::series_folder(&place),
        Kind::Subtitle => subtitles::identify(path),
        Kind::Track => music::identify(&place),
        Kind::DiscFolder => music::disc_folder(&place),
        Kind::Audiobook => music::audiobook(&place),
        Kind::Photo => photo(&place),
    }
}

/// What a side file says whose film is known: `film` is the film's file name without extension.
/// `None` when the side file is not named for it.
pub fn identify_beside(file_name: &str, film: &str) -> Option<Identity> {
    subtitles::beside(file_name, film)
}

/// What a side file in a folder of its film's subtitles says: its name is a language and marks.
pub fn identify_alone(file_name: &str) -> Identity {
    subtitles::alone(file_name)
}

/// A picture: its name, and the day when the name has one.
fn photo(place: &folders::Place<'_>) -> Identity {
    let (stem, _) = vocabulary::split_extension(place.name);
    let day = dates::days(&tokens::Name::new(stem)).into_iter().next().map(|day| day.iso);
    let album = place.folders.first().map(|folder| (*folder).to_owned());
    Identity { title: (!stem.is_empty()).then(|| stem.to_owned()), date: day, album, ..Identity::default() }
}

/// One line of `spindle identify`: the path, a tab, the identity as JSON. `kind` is one of
/// [`KIND_WORDS`]; `None` or an unknown word lets the name decide.
pub fn identify_line(path: &str, kind: Option<&str>) -> String {
    let identity = match kind.unwrap_or("") {
        "movie" | "video" => identify_as(path, Kind::Movie),
        "episode" | "episode_folder" => identify_as(path, Kind::Episode),
        "season_folder" => identify_as(path, Kind::SeasonFolder),
        "series_folder" => identify_as(path, Kind::SeriesFolder),
        "subtitle" => identify_as(path, Kind::Subtitle),
        "track" => identify_as(path, Kind::Track),
        "disc_folder" => identify_as(path, Kind::DiscFolder),
        "audiobook" => identify_as(path, Kind::Audiobook),
        "movies" => identify(path, Hint::Movie),
        "tv" => identify(path, Hint::Tv),
        "music" => identify(path, Hint::Music),
        "photo" => identify(path, Hint::Photo),
        _ => identify(path, Hint::Mixed),
    };
    let json = serde_json::to_string(&identity).unwrap_or_else(|_| "{}".to_owned());
    format!("{path}\t{json}")
}

/// The words that [`identify_line`] takes as a kind.
pub const KIND_WORDS: &[&str] = &[
    "movie",
    "episode",
    "season_folder",
    "series_folder",
    "episode_folder",
    "video",
    "subtitle",
    "track",
    "disc_folder",
    "audiobook",
    "movies",
    "tv",
    "music",
    "photo",
    "mixed",
];

#[cfg(test)]
mod fuzz_tests;
#[cfg(test)]
mod table_tests;
