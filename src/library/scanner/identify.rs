//! Phase 4: which work a file is. Pure: names and tags in, a plan out.

use std::collections::BTreeMap;
use std::path::Path;

use super::walk::Class;
use crate::naming::{Hint, Identity};
use crate::sort_title::same_work;
use crate::{ItemType, LibraryKind};

/// What an item is to be.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Plan {
    pub(super) kind: Option<ItemType>,
    /// Says which work it is; of an episode or track the part after its parent's.
    pub(super) key: String,
    pub(super) title: String,
    pub(super) year: Option<i64>,
    pub(super) released: Option<String>,
    pub(super) number: Option<i64>,
    pub(super) number_last: Option<i64>,
    pub(super) disc: Option<i64>,
    pub(super) provider_id: Option<String>,
    pub(super) above: Above,
}

/// What it belongs to.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) enum Above {
    /// Nothing.
    #[default]
    None,
    /// A season of a show.
    Season {
        /// Title of the show.
        show: String,
        /// Its year, where the name says.
        year: Option<i64>,
        /// Season number.
        season: i64,
        /// The show's id at a provider.
        provider_id: Option<String>,
    },
    /// An album, or an artist alone.
    Album {
        /// Who made the album.
        artist: Option<String>,
        /// Its title.
        album: Option<String>,
        /// Its year.
        year: Option<i64>,
    },
}

/// How names are read in a library of `kind`.
pub(super) fn hint(kind: LibraryKind) -> Hint {
    match kind {
        LibraryKind::Movies => Hint::Movie,
        LibraryKind::Tv => Hint::Tv,
        LibraryKind::Music => Hint::Music,
        LibraryKind::Photos => Hint::Photo,
        LibraryKind::Mixed => Hint::Mixed,
    }
}

/// File name without extension.
pub(super) fn stem(path: &Path) -> String {
    path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The plan for a file at `path` (below its root) that `identity` describes.
pub(super) fn plan(identity: &Identity, path: &Path, class: Class, kind: LibraryKind) -> Plan {
    match class {
        Class::Audio => track(identity, path),
        Class::Photo => photo(identity, path),
        _ if is_episode(identity, kind) => episode(identity, path),
        _ if kind == LibraryKind::Photos => Plan { kind: Some(ItemType::Movie), ..photo(identity, path) },
        _ => movie(identity, path),
    }
}

fn is_episode(identity: &Identity, kind: LibraryKind) -> bool {
    match kind {
        LibraryKind::Tv => true,
        LibraryKind::Mixed => {
            identity.ep_first.is_some()
                || identity.absolute.is_some()
                || identity.date.is_some() && identity.season.is_some()
        }
        _ => false,
    }
}

fn movie(identity: &Identity, path: &Path) -> Plan {
    let title = identity.title.clone().filter(|t| !t.trim().is_empty()).unwrap_or_else(|| stem(path));
    let year = identity.year.map(i64::from);
    // Without a year two films of one name are only the same in one folder: "Birthday" stands in
    // many.
    let place = match (year, &identity.provider_id) {
        (Some(year), _) => year.to_string(),
        (None, Some(_)) => String::new(),
        (None, None) => format!("/{}", path.parent().unwrap_or(Path::new("")).to_string_lossy()),
    };
    Plan {
        kind: Some(ItemType::Movie),
        key: format!("movie|{}|{place}", same_work(&title)),
        title,
        year,
        released: identity.date.clone(),
        provider_id: identity.provider_id.clone(),
        ..Plan::default()
    }
}

fn episode(identity: &Identity, path: &Path) -> Plan {
    let mut show = identity
        .title
        .clone()
        .or_else(|| {
            path.iter().next().filter(|_| path.iter().count() > 1).map(|f| f.to_string_lossy().into_owned())
        })
        .unwrap_or_else(|| stem(path));
    if let Some(country) = &identity.country {
        show = format!("{show} ({country})");
    }
    let number = |n: Option<u32>| n.map(i64::from);
    let first = number(identity.ep_first).or(number(identity.absolute));
    let last = number(identity.ep_last).or(number(identity.abs_last)).filter(|l| Some(*l) > first);
    let season = number(identity.season)
        .or_else(|| identity.date.as_ref().filter(|_| first.is_none()).and_then(|d| d.get(..4)?.parse().ok()))
        .unwrap_or(1);
    let key = match (first, last, &identity.date) {
        // Never across different last numbers: E01 and E01-E02 are two.
        (Some(first), Some(last), _) => format!("{first}-{last}"),
        (Some(first), None, _) => first.to_string(),
        (None, _, Some(date)) => date.clone(),
        (None, _, None) => format!("?{}", same_work(identity.ep_title.as_deref().unwrap_or(&stem(path)))),
    };
    let title = identity.ep_title.clone().unwrap_or_else(|| match (first, last, &identity.date) {
        (Some(first), Some(last), _) => format!("Episodes {first}–{last}"),
        (Some(first), None, _) => format!("Episode {first}"),
        (None, _, Some(date)) => date.clone(),
        (None, _, None) => stem(path),
    });
    Plan {
        kind: Some(ItemType::Episode),
        key,
        title,
        released: identity.date.clone(),
        number: first,
        number_last: last,
        above: Above::Season {
            show,
            year: identity.year.map(i64::from),
            season,
            provider_id: identity.provider_id.clone(),
        },
        ..Plan::default()
    }
}

fn track(identity: &Identity, path: &Path) -> Plan {
    let title = identity.title.clone().unwrap_or_else(|| stem(path));
    let number = identity.track.map(i64::from);
    let disc = identity.disc.map(i64::from);
    Plan {
        kind: Some(ItemType::Track),
        key: format!("{}|{}|{}", disc.unwrap_or(1), number.unwrap_or(0), same_work(&title)),
        title,
        number,
        disc,
        released: identity.date.clone(),
        above: Above::Album {
            artist: identity.artist.clone(),
            album: identity.album.clone(),
            year: identity.year.map(i64::from),
        },
        ..Plan::default()
    }
}

fn photo(identity: &Identity, path: &Path) -> Plan {
    Plan {
        kind: Some(ItemType::Photo),
        key: format!("photo|{}", path.to_string_lossy()),
        title: identity.title.clone().unwrap_or_else(|| stem(path)),
        released: identity.date.clone(),
        ..Plan::default()
    }
}

/// What the tags of an audio file say goes before its name.
pub(super) fn with_tags(mut identity: Identity, tags: &BTreeMap<String, String>) -> Identity {
    let text = |keys: &[&str]| {
        keys.iter().find_map(|k| tags.get(*k)).map(|v| v.trim().to_owned()).filter(|v| !v.is_empty())
    };
    // "3/12" and "03" alike.
    let number = |keys: &[&str]| text(keys).and_then(|v| v.split(['/', ' ']).next()?.parse::<u32>().ok());
    identity.title = text(&["title"]).or(identity.title);
    identity.album = text(&["album"]).or(identity.album);
    identity.artist = text(&["album_artist", "albumartist", "album artist", "artist"]).or(identity.artist);
    identity.track = number(&["track", "tracknumber"]).or(identity.track);
    identity.disc = number(&["disc", "discnumber"]).or(identity.disc);
    let year = text(&["date", "year", "originaldate"]).and_then(|d| d.get(..4)?.parse::<u16>().ok());
    identity.year = year.or(identity.year);
    identity
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(identity: &Identity, path: &str, kind: LibraryKind) -> Plan {
        plan(identity, Path::new(path), Class::Video, kind)
    }

    #[test]
    fn films_of_one_name_are_one_by_year_or_by_folder() {
        let named = |year| Identity { title: Some("Birthday".into()), year, ..Identity::default() };
        let a = of(&named(None), "a/Birthday.mp4", LibraryKind::Movies);
        let b = of(&named(None), "b/Birthday.mp4", LibraryKind::Movies);
        assert_ne!(a.key, b.key);
        let a = of(&named(Some(1999)), "a/Birthday.mp4", LibraryKind::Movies);
        let b = of(&named(Some(1999)), "b/BIRTHDAY.mkv", LibraryKind::Movies);
        assert_eq!(a.key, b.key);
    }

    #[test]
    fn an_episode_and_a_file_of_two_are_apart() {
        let named = |last| Identity {
            title: Some("Show".into()),
            season: Some(2),
            ep_first: Some(1),
            ep_last: Some(last),
            ..Identity::default()
        };
        let one = of(&named(1), "show.s02e01.mkv", LibraryKind::Tv);
        let two = of(&named(2), "show.s02e01e02.mkv", LibraryKind::Tv);
        assert_ne!(one.key, two.key);
        assert_eq!((one.number, one.number_last, two.number_last), (Some(1), None, Some(2)));
    }

    #[test]
    fn tags_go_before_names() {
        let tags = [("album_artist", "A"), ("artist", "B"), ("track", "3/12"), ("date", "1999-05-01")]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .into();
        let named = Identity { title: Some("from the name".into()), track: Some(9), ..Identity::default() };
        let out = with_tags(named, &tags);
        assert_eq!(
            (out.title.as_deref(), out.artist.as_deref(), out.track, out.year),
            (Some("from the name"), Some("A"), Some(3), Some(1999))
        );
    }
}
