//! The values that the library hands out; those that go to JSON carry the contract's names.

use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use spindle_media::info::{Chapter, MediaInfo, Stream};
use spindle_media::keyframes::KeyframeIndex;

use crate::error::LibraryError;

/// One page of a longer list.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Page<T> {
    /// The rows asked for.
    pub items: Vec<T>,
    /// How many there are in all.
    pub total: u64,
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident, $what:literal, { $($(#[$vdoc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $word)] $variant),+ }

        impl $name {
            /// Every value, in declaration order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word on the wire and in the database.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl FromStr for $name {
            type Err = LibraryError;
            fn from_str(word: &str) -> Result<Self, LibraryError> {
                match word {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(LibraryError::BadInput(format!(
                        concat!("unknown ", $what, " `{}`, known are: {}"),
                        word.chars().take(40).collect::<String>(),
                        [$($word),+].join(", ")
                    ))),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl rusqlite::types::FromSql for $name {
            fn column_result(value: rusqlite::types::ValueRef<'_>) -> rusqlite::types::FromSqlResult<Self> {
                value.as_str()?.parse().map_err(|e: LibraryError| rusqlite::types::FromSqlError::other(e))
            }
        }

        impl rusqlite::types::ToSql for $name {
            fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
                Ok(rusqlite::types::ToSqlOutput::from(self.as_str()))
            }
        }
    };
}

words! {
    /// What a library is for.
    LibraryKind, "library kind", {
        /// Films.
        Movies = "movies",
        /// Series.
        Tv = "tv",
        /// Albums and tracks.
        Music = "music",
        /// Pictures.
        Photos = "photos",
        /// Anything.
        Mixed = "mixed",
    }
}

words! {
    /// What an item is.
    ItemType, "item type", {
        /// A film, or a video that is no episode.
        Movie = "movie",
        /// A series.
        Show = "show",
        /// A season of a series; number 0 holds the specials.
        Season = "season",
        /// One file's worth of a season; may hold several numbers.
        Episode = "episode",
        /// Who made an album.
        Artist = "artist",
        /// An album.
        Album = "album",
        /// A piece of music.
        Track = "track",
        /// A picture.
        Photo = "photo",
        /// A trailer, scene, interview of a film or series; never in a list that does not ask for it.
        Extra = "extra",
    }
}

impl ItemType {
    /// Whether files hang on it, so that it can be played or shown.
    #[must_use]
    pub fn is_leaf(self) -> bool {
        matches!(self, Self::Movie | Self::Episode | Self::Track | Self::Photo | Self::Extra)
    }
}

words! {
    /// Which picture of an item.
    ImageKind, "image kind", {
        /// Upright cover; square for music.
        Poster = "poster",
        /// Wide picture behind the page.
        Backdrop = "backdrop",
        /// Title as a picture with transparency.
        Logo = "logo",
        /// Wide small picture: landscape art, or a frame of the film.
        Thumb = "thumb",
        /// A frame of an episode.
        Still = "still",
    }
}

words! {
    /// What a list is sorted by.
    SortKey, "sort key", {
        /// Sort title; series order below a parent.
        Title = "title",
        /// When it came into the library.
        Added = "added",
        /// Day or year of release.
        Released = "released",
        /// The asking user's rating, else the common one.
        Rating = "rating",
        /// When the asking user last played it.
        LastPlayed = "last_played",
        /// Length.
        Duration = "duration",
        /// Another order each time.
        Random = "random",
    }
}

words! {
    /// What an account may do.
    Role, "role", {
        /// Everything.
        Admin = "admin",
        /// Watch.
        User = "user",
    }
}

/// A sort key with its direction; parses `title`, `-added`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sort {
    /// By what.
    pub key: SortKey,
    /// Whether the order is turned round.
    pub reverse: bool,
}

impl FromStr for Sort {
    type Err = LibraryError;
    fn from_str(word: &str) -> Result<Self, LibraryError> {
        let (reverse, key) = word.strip_prefix('-').map_or((false, word), |key| (true, key));
        Ok(Self { key: key.parse()?, reverse })
    }
}

/// What `GET /items` asks for. `Default` is everything that belongs in a grid, by title.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ItemQuery {
    /// Only these types; empty: every type but `extra`.
    pub types: Vec<ItemType>,
    /// Only this library.
    pub library: Option<String>,
    /// Only direct children of this item.
    pub parent: Option<String>,
    /// Words, each the beginning of a word in the title.
    pub search: Option<String>,
    /// Only with this genre.
    pub genre: Option<String>,
    /// Only with this person.
    pub person: Option<String>,
    /// Only of this year.
    pub year: Option<i64>,
    /// Only watched, or only not watched, by the asking user.
    pub watched: Option<bool>,
    /// Only favourites, or only others.
    pub favorite: Option<bool>,
    /// Only what can be reached now, or only what cannot.
    pub available: Option<bool>,
    /// Order; absent: best match first for a search, else title.
    pub sort: Option<Sort>,
    /// Rows; absent: 100. At most [`MAX_LIMIT`].
    pub limit: Option<u64>,
    /// Rows to skip.
    pub offset: u64,
}

/// The most rows that one page holds.
pub const MAX_LIMIT: u64 = 1_000;

/// What one user did with an item. For a show, season, artist or album: of what is below it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct State {
    /// Where to go on, in seconds; 0 is the start.
    pub position_s: f64,
    /// Seen to the end, or marked so; of a show: every episode.
    pub watched: bool,
    /// Marked as a favourite.
    pub favorite: bool,
    /// The user's rating, 0 to 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rating: Option<f64>,
    /// When it was last played, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_played: Option<String>,
    /// How often it was played to the end.
    pub plays: u64,
}

/// A picture that an item has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ImageRef {
    /// Which.
    pub kind: ImageKind,
    /// Changes when the picture does: put it into the address as `?tag=` and cache for ever.
    pub tag: String,
    /// Width in pixels of the largest that can be had.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
}

/// An item as lists show it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Item {
    /// Opaque id; stays through renames, moves and upgrades of files.
    pub id: String,
    /// What it is.
    #[serde(rename = "type")]
    pub kind: ItemType,
    /// Title.
    pub title: String,
    /// Year of release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub year: Option<i64>,
    /// Day of release or broadcast, `YYYY-MM-DD`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub released: Option<String>,
    /// When it came into the library, RFC 3339.
    pub added: String,
    /// Length in seconds, once probed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_s: Option<f64>,
    /// Id of the season, show, album, artist, or film (of an extra) above it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Id of the library.
    pub library: String,
    /// Whether a file of it can be reached now.
    pub available: bool,
    /// The asking user's state.
    pub state: State,
    /// Season number, of an episode or season.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub season: Option<i64>,
    /// Episode number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub episode: Option<i64>,
    /// Last episode number, where one file holds several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub episode_last: Option<i64>,
    /// Disc number of a track.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disc: Option<i64>,
    /// Track number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub track: Option<i64>,
    /// Id of the show (of a season or episode) or artist (of an album or track).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top: Option<String>,
    /// Title of the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_title: Option<String>,
    /// Title of the direct parent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_title: Option<String>,
    /// What kind of extra: trailer, scene, interview, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra: Option<String>,
    /// How many episodes (of a show or season) or tracks (of an artist or album) there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leaves: Option<u64>,
    /// How many of them the asking user has not watched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unwatched: Option<u64>,
    /// The pictures it has itself.
    pub images: Vec<ImageRef>,
    /// Why no file of it can be played, where all that were probed failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
}

/// Everything about an item.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ItemDetail {
    /// The same as in lists.
    #[serde(flatten)]
    pub item: Item,
    /// What it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plot: Option<String>,
    /// Genres.
    pub genres: Vec<String>,
    /// People.
    pub people: Vec<String>,
    /// Common rating, 0 to 10, where a file beside it says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub community_rating: Option<f64>,
    /// `imdb:tt0000901`, `tmdb:901`, `tvdb:12`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// Other files of the same work; the first is the one played when none is chosen.
    pub versions: Vec<Version>,
    /// Trailers and the like.
    pub extras: Vec<Item>,
    /// Items around it, for links: of an episode the one before and after in its series.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous: Option<String>,
    /// The next one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// One version of an item: a file, or the parts of one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Version {
    /// Opaque id.
    pub id: String,
    /// What tells it from the others (`1080p`, `Director's Cut`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The cut, where the name says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edition: Option<String>,
    /// Path of its first file below the library's folder.
    pub file: String,
    /// Size of all parts in bytes.
    pub size_bytes: u64,
    /// Container, once probed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// Length of all parts in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_s: Option<f64>,
    /// Average bits per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bitrate_bps: Option<u64>,
    /// Streams of the first part, then the subtitle files beside it.
    pub streams: Vec<Stream>,
    /// Chapters.
    pub chapters: Vec<Chapter>,
    /// Number of files that play one after the other.
    pub parts: u64,
    /// Whether every part can be reached now.
    pub available: bool,
    /// Whether it was probed yet.
    pub probed: bool,
    /// Why it cannot be played.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
    /// When it came, RFC 3339.
    pub added: String,
}

/// What the start page shows.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Home {
    /// Begun and not finished, last played first.
    pub continue_watching: Vec<Item>,
    /// The next episode of each series that the user follows.
    pub next_up: Vec<Item>,
    /// New films, series, albums.
    pub recently_added: Vec<Item>,
}

/// What is needed to play one version. Paths in it never leave the server.
#[derive(Debug, Clone, PartialEq)]
pub struct Playable {
    /// The item's id.
    pub item: String,
    /// The item's type.
    pub kind: ItemType,
    /// The item's library.
    pub library: String,
    /// What a history shows: `Title (Year)` or `Show S01E02 Title`.
    pub title: String,
    /// The show of an episode: what is chosen for one holds for the next.
    pub series: Option<String>,
    /// The version's id.
    pub version: String,
    /// What people call the version, where its name says (`1080p`).
    pub label: Option<String>,
    /// The edition, where it is not the plain film.
    pub edition: Option<String>,
    /// Its files, in playing order; at least one.
    pub parts: Vec<PlayFile>,
}

/// One file to play.
#[derive(Debug, Clone, PartialEq)]
pub struct PlayFile {
    /// Opaque id of the file.
    pub id: String,
    /// Where it is.
    pub path: PathBuf,
    /// Path below the library's folder, for people.
    pub name: String,
    /// Whether it was there at the last scan.
    pub available: bool,
    /// What the prober said, with the subtitle files beside it appended to its streams; `None`
    /// while it has not been probed.
    pub info: Option<MediaInfo>,
    /// Why it cannot be played.
    pub unreadable: Option<String>,
    /// Key frames, where known.
    pub keyframes: Option<KeyframeIndex>,
    /// The subtitle files, by the stream index that `info` gives them.
    pub external: Vec<ExternalSubtitle>,
}

/// A subtitle file beside a film.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalSubtitle {
    /// Its index among the streams of [`PlayFile::info`].
    pub stream: u32,
    /// Where it is.
    pub path: PathBuf,
    /// The library's folder, which it must not lead out of ([`crate::stays_inside`]).
    pub root: PathBuf,
    /// FFmpeg's codec name: `subrip`, `webvtt`, `ass`, `dvd_subtitle`, `hdmv_pgs_subtitle`.
    pub codec: String,
}

/// A file that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnreadableFile {
    /// Id of the item it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item: Option<String>,
    /// Id of the library.
    pub library: String,
    /// Path below the library's folder.
    pub file: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Why not.
    pub reason: String,
}

/// A library.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LibraryInfo {
    /// Opaque id.
    pub id: String,
    /// Name, unique.
    pub name: String,
    /// What it is for.
    pub kind: LibraryKind,
    /// Its folders, for people; a name that is not UTF-8 shows replacement characters.
    pub paths: Vec<String>,
    /// Its folders.
    #[serde(skip)]
    pub roots: Vec<PathBuf>,
    /// How many films, episodes, tracks and pictures.
    pub items: u64,
    /// How many of them cannot be reached now.
    pub unavailable: u64,
    /// Files that could not be read.
    pub unreadable: u64,
    /// Files not probed yet.
    pub pending: u64,
    /// End of the last scan, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scanned: Option<String>,
    /// What the last scan found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<ScanReport>,
    /// What a person should look at: a folder that is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// Whether its folders were there at the last scan. One that is not has no titles, or keeps those that it had.
    pub reachable: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreachable: Option<String>,
}

/// A library to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewLibrary {
    /// Name; unique, 1 to 100 characters.
    pub name: String,
    /// What it is for.
    pub kind: LibraryKind,
    /// Absolute folders, at least one.
    pub paths: Vec<PathBuf>,
}

/// Changes to a library; `None` leaves as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LibraryPatch {
    /// New name.
    pub name: Option<String>,
    /// All its folders from now on. A folder that replaces one at the same position is taken as
    /// the same folder moved: its items stay what they are.
    pub paths: Option<Vec<PathBuf>>,
}

/// What a scan did. Counts are files of films, episodes, tracks and pictures.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ScanReport {
    /// Files found.
    pub files: u64,
    /// New ones.
    pub added: u64,
    /// Changed or moved ones.
    pub updated: u64,
    /// Taken out of the index after their time of grace.
    pub removed: u64,
    /// As they were.
    pub unchanged: u64,
    /// Files that cannot be read.
    pub failed: u64,
    /// How long it took.
    pub seconds: f64,
    /// Known files that cannot be reached now; they stay in the index.
    #[serde(default)]
    pub unavailable: u64,
    /// Files that someone still writes; the next scan takes them.
    #[serde(default)]
    pub incoming: u64,
    /// What a person should know: folders that are not there, links that lead nowhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// `PUT /items/{id}/state`; `None` leaves as it is.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatePatch {
    /// Marks it, and all below it.
    #[serde(default)]
    pub watched: Option<bool>,
    /// Marks it alone.
    #[serde(default)]
    pub favorite: Option<bool>,
    /// 0 to 10; `null` takes it away.
    #[serde(default, deserialize_with = "present")]
    pub rating: Option<Option<f64>>,
    /// Where to go on, in seconds.
    #[serde(default)]
    pub position_s: Option<f64>,
}

/// `null` and absent are different here.
fn present<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Option<f64>>, D::Error> {
    Option::<f64>::deserialize(from).map(Some)
}

/// What a playing client reports.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Where it is, in seconds.
    pub position_s: f64,
    /// For how many seconds this session has really played so far, by the server's clock and
    /// not paused. A report with less than a second changes nothing.
    pub played_s: f64,
}

/// An account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct User {
    /// Opaque id.
    pub id: String,
    /// Name; unique without regard to case.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// When it was made, RFC 3339.
    pub created: String,
}

/// A token, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TokenInfo {
    /// Opaque id.
    pub id: String,
    /// Whose.
    pub user: String,
    /// Where it was given to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// When it was made, RFC 3339.
    pub created: String,
    /// When it was last used, RFC 3339, to the minute.
    pub last_used: String,
}

/// A session as the history keeps it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HistoryEntry {
    /// The session's id.
    pub session: String,
    /// Who watched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Name of the same, while the account exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_name: Option<String>,
    /// Id of the item.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item: Option<String>,
    /// Its title then.
    pub title: String,
    /// `direct_play`, `direct_stream`, `transcode`.
    pub method: String,
    /// The client's name.
    pub client: String,
    /// Start, RFC 3339.
    pub started: String,
    /// End, RFC 3339; absent when the server died meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// I/O summary and whatever else the sessions room keeps.
    pub summary: serde_json::Value,
}

/// A session to be kept.
#[derive(Debug, Clone, PartialEq)]
pub struct NewHistory {
    /// The session's id.
    pub session: String,
    /// Who watched.
    pub user: Option<String>,
    /// Id of the item.
    pub item: Option<String>,
    /// Its title.
    pub title: String,
    /// `direct_play`, `direct_stream`, `transcode`.
    pub method: String,
    /// The client's name.
    pub client: String,
    /// Start in microseconds since the epoch.
    pub started_us: i64,
    /// End, where it has ended.
    pub ended_us: Option<i64>,
    /// I/O summary.
    pub summary: serde_json::Value,
}

/// Pictures ready to be sent.
#[derive(Debug, Clone)]
pub struct Image {
    /// The file.
    pub bytes: Vec<u8>,
    /// Its type, `image/jpeg`.
    pub mime: &'static str,
    /// A strong entity tag, with its quotes.
    pub etag: String,
}

words! {
    /// File formats in which pictures are given out.
    ImageFormat, "image format", {
        /// JPEG.
        Jpeg = "jpeg",
        /// PNG.
        Png = "png",
        /// WebP, lossless as the encoder knows no other.
        Webp = "webp",
    }
}

/// Something in the library changed.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The index is at a new revision.
    Library {
        /// It only ever grows.
        revision: u64,
    },
    /// A scan began.
    ScanStarted {
        /// Which library.
        library: String,
    },
    /// A scan goes on.
    ScanProgress {
        /// Which library.
        library: String,
        /// `walk`, `identify`, `probe`, `artwork`.
        phase: &'static str,
        /// Files done in this phase.
        done: u64,
        /// Of how many, where known.
        total: u64,
    },
    /// A scan ended.
    ScanFinished {
        /// Which library.
        library: String,
        /// What it did.
        report: ScanReport,
    },
    /// How changes of a library's folders are noticed is another than before.
    Watching {
        /// Which library.
        library: String,
        /// How.
        watching: crate::Watching,
    },
    /// A scan could not be made.
    ScanFailed {
        /// Which library.
        library: String,
        /// Why.
        reason: String,
    },
}
