//! Paths as folders and a name; which folders say nothing; season folders.

use super::numbering;
use super::tokens::{self, Name};
use super::vocabulary::{self, Word};

/// Folders above a name that are looked at; a library is never deeper than this and a hostile path may be.
const MOST_FOLDERS: usize = 6;

/// A path cut up: the last name, and the folders above it, nearest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place<'a> {
    pub(super) name: &'a str,
    pub(super) folders: Vec<&'a str>,
}

/// Cuts a path at slashes and backslashes; empty names are left out.
pub(super) fn place(path: &str) -> Place<'_> {
    let mut names = path.rsplit(['/', '\\']).filter(|name| !name.trim().is_empty());
    let name = names.next().unwrap_or("");
    Place { name, folders: names.take(MOST_FOLDERS).collect() }
}

/// Folders named for their purpose, not for what is in them; as [`tokens::key`].
pub(super) fn says_nothing(folder: &str) -> bool {
    let key = tokens::key(folder);
    key.chars().count() <= 1
        || matches!(
            key.as_str(),
            "movies"
                | "movie"
                | "films"
                | "film"
                | "tv"
                | "tvshows"
                | "tvshow"
                | "tvseries"
                | "tvdrop"
                | "shows"
                | "series"
                | "anime"
                | "animes"
                | "cartoons"
                | "media"
                | "mnt"
                | "medias"
                | "video"
                | "videos"
                | "server"
                | "share"
                | "shares"
                | "downloads"
                | "download"
                | "unsorted"
                | "incomplete"
                | "complete"
                | "completed"
                | "temp"
                | "tmp"
                | "test"
                | "home"
                | "data"
                | "volume1"
                | "volumes"
                | "library"
                | "drive"
                | "nas"
                | "var"
                | "usr"
                | "user"
                | "users"
                | "music"
                | "audio"
                | "audiobooks"
                | "books"
                | "postprocessing"
                | "live"
                | "new"
                | "sorted"
                | "watched"
                | "unwatched"
                | "folder"
                | "sub"
                | "subs"
                | "subtitles"
                | "documentaries"
                | "kids"
                | "videots"
                | "bdmv"
                | "stream"
                | "audiots"
                | "storage"
                | "disk"
                | "pool"
                | "public"
                | "private"
                | "torrents"
                | "tvdownloads"
                | "hd"
                | "uhd"
                | "4k"
        )
        || key.len() == 2 && folder.ends_with(':')
        || numbering_only(folder)
}

/// A folder named for a season alone (`Season 2 (2016)`, `S01`, `Specials`).
fn numbering_only(folder: &str) -> bool {
    let name = Name::new(folder);
    if name.tokens.len() > 12 {
        return false;
    }
    match numbering::season(&name) {
        Some(found) => {
            name.token_at(found.start) == 0
                && name.tokens.first().is_some_and(|_| {
                    numbering::is_season_word(name.word(0))
                        || found.end >= name.tokens[name.tokens.len() - 1].end
                })
        }
        None => {
            matches!(tokens::key(folder).as_str(), "specials" | "special")
                || plain_season(&name).is_some_and(|(token, _)| token == 0)
        }
    }
}

/// `Series 3`, `Volume 2`, `Book 3` as a whole name, or behind a dash: the word's token and the number.
pub(super) fn plain_season(name: &Name) -> Option<(usize, u32)> {
    for token in 0..name.tokens.len() {
        if matches!(name.low(token), "series" | "volume" | "book" | "livre" | "vol" | "chapter")
            && (token == 0 || name.dashed(token))
            && let Some((value, digits)) = name.number(token + 1)
            && name.gap(token + 1).len() == 1
        {
            let ends = token + 2 == name.tokens.len()
                || name.tokens[token + 2].group != 0
                || name.low(token) == "series" && token > 0;
            return (ends && digits <= 4).then_some((token, value));
        }
    }
    None
}

/// The season that a folder's name says; `parent` decides about names that are a bare number.
pub(super) fn season(folder: &str, parent: Option<&str>) -> Option<u32> {
    let name = Name::new(folder);
    let key = tokens::key(folder);
    if matches!(key.as_str(), "specials" | "special") {
        return Some(0);
    }
    let mark = numbering::season(&name);
    if let (Some(found), None) = (numbering::season_and_episode(&name), &mark) {
        // All episodes of a season in one name (`S2E1-16`) name the season.
        return found.season.filter(|_| found.episodes.is_some_and(|(first, last)| last > first));
    }
    if let Some(found) = mark {
        let episode_before = numbering::episode(&name).is_some_and(|episode| episode.start < found.start);
        let bracketed_number = name.text[found.start..found.end].contains('(');
        return found.season.filter(|_| !episode_before && !bracketed_number);
    }
    if let Some((_, value)) = plain_season(&name) {
        return Some(value);
    }
    // A bare number is a season within a series, not within a collection of films.
    let (value, digits) = name.number(0).filter(|_| name.tokens.len() == 1)?;
    let collection = parent.is_some_and(|parent| {
        let key = tokens::key(parent);
        key.contains("collection") || key.contains("trilogy") || key.contains("saga") || says_nothing(parent)
    });
    (!collection && parent.is_some() && (digits <= 2 || digits == 4 && (1900..2100).contains(&value)))
        .then_some(value)
}

/// Whether the name has release words that no human would give to a folder.
pub(super) fn is_release(name: &Name) -> bool {
    vocabulary::classify(name).contains(&Word::Strong)
}

/// A name of random letters and digits, as downloads have after renaming.
pub(super) fn is_noise(stem: &str) -> bool {
    let key: Vec<char> = stem.chars().collect();
    if key.len() < 8 || key.iter().any(|c| !c.is_ascii_alphanumeric() && *c != '-' && *c != '_') {
        return false;
    }
    let digits = key.iter().filter(|c| c.is_ascii_digit()).count();
    let switches = key
        .windows(2)
        .filter(|pair| {
            pair[0].is_ascii_digit() != pair[1].is_ascii_digit()
                && pair[0].is_alphanumeric()
                && pair[1].is_alphanumeric()
        })
        .count();
    let hex = key.iter().all(|c| c.is_ascii_hexdigit() || *c == '-');
    key.len() >= 16 && switches >= 4 && digits >= 4 || hex && digits >= 4 && key.len() >= 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_a_path_at_both_kinds_of_slash() {
        let place = place("D:\\TV//Show/Season 1/a.mkv");
        assert_eq!((place.name, place.folders), ("a.mkv", vec!["Season 1", "Show", "TV", "D:"]));
    }

    #[test]
    fn a_season_folder_says_its_season() {
        for (folder, wanted) in [
            ("Season 7 (2016)", Some(7)),
            ("3.Staffel", Some(3)),
            ("SPECIALS", Some(0)),
            ("s06e05", None),
            ("Season (8)", None),
            ("Volume 2", Some(2)),
            ("Episode 1 Season 2", None),
            ("202401244070", None),
        ] {
            assert_eq!(season(folder, Some("Seinfeld")), wanted, "{folder}");
        }
        assert_eq!(season("2", Some("Seinfeld")), Some(2));
        assert_eq!(season("1", Some("300 Collection")), None);
    }

    #[test]
    fn noise_is_told_from_titles() {
        assert!(is_noise("90550c1adaf44c47b60d24f59603bb98"));
        assert!(!is_noise("Apotheosis_1920x1080"));
        assert!(!is_noise("Deadwood"));
    }
}
