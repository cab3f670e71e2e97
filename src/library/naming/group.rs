//! Files of one folder gathered into items: versions of the same thing, pieces of a split file,
//! extras apart.

use std::collections::HashMap;

use super::extras;
use super::folders;
use super::movies;
use super::parts;
use super::scan::Scan;
use super::tokens::{self, Name};
use super::vocabulary::{self, Word};
use super::{Extra, Hint, Identity, Kind};

/// A film or episode, or an extra, made of one or more files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// What the files say together (that of the first version's first part).
    pub identity: Identity,
    /// Set when this is an extra.
    pub extra: Option<Extra>,
    /// Same content, other quality or cut; the first is the one shown. Never empty.
    pub versions: Vec<Version>,
}

/// One way to watch an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// What tells it from its sisters (`1080p`, `Directors Cut`); empty for the plain file.
    pub name: String,
    /// Indices into the list given to [`group`], in playing order. Never empty.
    pub parts: Vec<usize>,
}

/// One version before it is known whose: a file, or the pieces of one.
struct Unit<'a> {
    folder: &'a str,
    /// Name without extension and without the piece's number.
    base: &'a str,
    parts: Vec<(u32, usize)>,
}

/// Gathers `paths` (the video files of one folder, or of many: files are only ever joined within
/// their folder, and episodes by their number). Files that are no video by their extension are left
/// out. Items come in the order of their first files.
pub fn group(paths: &[&str], hint: Hint) -> Vec<Item> {
    let mut items: Vec<(usize, Item)> = Vec::new();
    let mut units: Vec<Unit<'_>> = Vec::new();
    let mut stacks: HashMap<(&str, String, bool), usize> = HashMap::new();
    for (index, path) in paths.iter().copied().enumerate() {
        let place = folders::place(path);
        let (stem, ext) = vocabulary::split_extension(place.name);
        if !is_video(&ext) {
            continue;
        }
        let folder = folder_of(path);
        if let Some(extra) = movies::extra(&Name::new(stem), &place, &ext) {
            items.push((index, single(paths, index, Some(extra), hint)));
            continue;
        }
        match piece(stem).filter(|(base, _)| may_split(folder, base, hint)) {
            Some((base, piece)) => {
                let key = (folder, tokens::fold(base), piece.lettered);
                let unit = *stacks.entry(key).or_insert_with(|| {
                    units.push(Unit { folder, base, parts: Vec::new() });
                    units.len() - 1
                });
                units[unit].parts.push((piece.number, index));
            }
            None => units.push(Unit { folder, base: stem, parts: vec![(0, index)] }),
        }
    }
    let units = settle(paths, units);
    let mut joined: HashMap<Key, usize> = HashMap::new();
    let films = film_folders(paths, &units, hint);
    for unit in &units {
        let first = unit.parts[0].1;
        let key = key(paths[first], unit, &films, hint);
        let version =
            Version { name: String::new(), parts: unit.parts.iter().map(|(_, index)| *index).collect() };
        match key.clone().and_then(|key| joined.get(&key).copied()) {
            Some(at) => items[at].1.versions.push(version),
            None => {
                let mut item = single(paths, first, None, hint);
                item.versions = vec![version];
                if unit.parts.len() > 1 {
                    item.identity.part = None;
                }
                if let Some(key) = key {
                    joined.insert(key, items.len());
                }
                items.push((first, item));
            }
        }
    }
    for (_, item) in &mut items {
        name_versions(paths, item);
    }
    items.sort_by_key(|(index, _)| *index);
    items.into_iter().map(|(_, item)| item).collect()
}

fn is_video(ext: &str) -> bool {
    let other = matches!(ext, "nfo" | "txt" | "xml" | "zip" | "rar" | "nzb" | "torrent");
    !other && !super::is_audio(ext) && !super::is_side_file(ext) && !super::is_picture(ext)
}

fn single(paths: &[&str], index: usize, extra: Option<Extra>, hint: Hint) -> Item {
    let identity = super::identify(paths[index], hint);
    Item { identity, extra, versions: vec![Version { name: String::new(), parts: vec![index] }] }
}

/// The path up to the last slash.
fn folder_of(path: &str) -> &str {
    path.rfind(['/', '\\']).map_or("", |at| &path[..at])
}

fn last_name(folder: &str) -> &str {
    folder.rsplit(['/', '\\']).next().unwrap_or("")
}

/// A piece's number, counted in digits or in letters.
struct Piece {
    number: u32,
    lettered: bool,
}

/// The piece that a name ends with: `cd1`, `- part 2`, `pt3`, `parta` to `partd`.
fn piece(stem: &str) -> Option<(&str, Piece)> {
    let name = Name::new(stem);
    let last = name.tokens.len().checked_sub(1).filter(|last| *last > 0)?;
    let low = name.low(last);
    let lettered = ["part", "pt", "cd", "dvd", "disc", "disk"]
        .iter()
        .find_map(|word| low.strip_prefix(word))
        .and_then(|rest| match rest.as_bytes() {
            [letter @ b'a'..=b'd'] => Some(u32::from(letter - b'a') + 1),
            _ => None,
        });
    let digits = (last - 1..=last).filter(|token| *token > 0).find_map(|token| {
        parts::at(&name, token).filter(|part| {
            part.to == last + 1
                && !name.low(token).starts_with("vol")
                && name.low(last).ends_with(|c: char| c.is_ascii_digit())
        })
    });
    let (from, piece) = match (digits, lettered) {
        (Some(part), _) => (part.from, Piece { number: part.number, lettered: false }),
        (None, Some(number)) => (last, Piece { number, lettered: true }),
        (None, None) => return None,
    };
    if !name.gap(last + 1).bytes().all(|b| matches!(b, b')' | b']' | b' ')) {
        return None;
    }
    let base = stem.get(..name.tokens.get(from)?.start)?.trim_end_matches([' ', '.', '_', '-', '(', '[']);
    (!base.is_empty()).then_some((base, piece))
}

/// In a series only an episode is split: `Part 1` of a series without numbers is an episode.
fn may_split(folder: &str, base: &str, hint: Hint) -> bool {
    let path = format!("{folder}/{base}.mkv");
    match Kind::of(&path, hint) {
        Kind::Episode => {
            let found = super::identify_as(&path, Kind::Episode);
            found.ep_first.is_some() || found.date.is_some()
        }
        _ => true,
    }
}

/// Pieces in order; a lone piece, or two with one number, are whole files.
fn settle<'a>(paths: &[&'a str], units: Vec<Unit<'a>>) -> Vec<Unit<'a>> {
    let mut settled = Vec::with_capacity(units.len());
    for mut unit in units {
        unit.parts.sort_unstable();
        let counted = unit.parts.len() > 1 && unit.parts.windows(2).all(|pair| pair[0].0 < pair[1].0);
        if counted {
            settled.push(unit);
            continue;
        }
        for (number, index) in unit.parts {
            let stem = vocabulary::split_extension(folders::place(paths[index]).name).0;
            settled.push(Unit { folder: unit.folder, base: stem, parts: vec![(number, index)] });
        }
    }
    settled
}

/// What joins versions.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Key {
    Film(String),
    Episode {
        series: String,
        season: Option<u32>,
        first: Option<u32>,
        last: Option<u32>,
        absolute: Option<u32>,
        date: Option<String>,
    },
}

fn key(path: &str, unit: &Unit<'_>, films: &HashMap<&str, bool>, hint: Hint) -> Option<Key> {
    if Kind::of(path, hint) != Kind::Episode {
        return films.get(unit.folder).copied().unwrap_or(false).then(|| Key::Film(unit.folder.to_owned()));
    }
    let found = super::identify_as(path, Kind::Episode);
    if found.ep_first.is_none() && found.absolute.is_none() && found.date.is_none() {
        return None;
    }
    let series = found.title.as_deref().map(tokens::key).unwrap_or_default();
    Some(Key::Episode {
        series,
        season: found.season,
        first: found.ep_first,
        last: found.ep_last,
        absolute: found.absolute,
        date: found.date,
    })
}

/// The folders that hold one film alone, in several versions.
fn film_folders<'a>(paths: &[&str], units: &[Unit<'a>], hint: Hint) -> HashMap<&'a str, bool> {
    let mut years: HashMap<&str, Option<u16>> = HashMap::new();
    let mut films: HashMap<&str, bool> = HashMap::new();
    for unit in units {
        let path = paths[unit.parts[0].1];
        if Kind::of(path, hint) != Kind::Movie {
            continue;
        }
        let own = movies::folder(unit.base).year;
        let one_year = match years.get(unit.folder) {
            Some(Some(year)) => own.is_none_or(|own| own == *year),
            _ => {
                years.insert(unit.folder, own);
                true
            }
        };
        let fits = one_year && named_for(last_name(unit.folder), unit.base);
        let film = films.entry(unit.folder).or_insert(true);
        *film &= fits;
    }
    films
}

/// Whether a file is named for its folder, with nothing behind but what tells a version; or is a
/// release of the very film that the folder names.
fn named_for(folder: &str, base: &str) -> bool {
    let (folder, base) = (tokens::fold(folder.trim()), tokens::fold(base));
    if folder.is_empty() || extras::folder(&folder).is_some() {
        return false;
    }
    if let Some(rest) = base.strip_prefix(&folder) {
        let rest = rest.trim_start();
        if rest.is_empty() || rest.starts_with(['-', '_', '.', '[', '{']) {
            return true;
        }
    }
    let (above, own) = (movies::folder(&folder), movies::folder(&base));
    let same = above.title.as_deref().map(tokens::key) == own.title.as_deref().map(tokens::key)
        && above.year == own.year;
    same && above.year.is_some() && Scan::new(&base).words.contains(&Word::Strong)
}

/// Names versions by what their file names do not share, and puts the plain one first.
fn name_versions(paths: &[&str], item: &mut Item) {
    let stems: Vec<&str> = item
        .versions
        .iter()
        .map(|version| {
            let stem = vocabulary::split_extension(folders::place(paths[version.parts[0]]).name).0;
            if version.parts.len() > 1 { piece(stem).map_or(stem, |(base, _)| base) } else { stem }
        })
        .collect();
    let Some(first) = stems.first() else { return };
    if stems.len() < 2 {
        return;
    }
    let shared = stems.iter().fold(first.len(), |shared, stem| {
        first
            .char_indices()
            .zip(stem.chars())
            .find(|((at, a), b)| *at >= shared || a != b)
            .map_or(shared.min(first.len()).min(stem.len()), |((at, _), _)| at.min(shared))
    });
    // Words stay whole.
    let head = first.get(..shared).unwrap_or("");
    let inside = stems
        .iter()
        .any(|stem| stem.get(shared..).is_some_and(|rest| rest.starts_with(char::is_alphanumeric)));
    let cut = if inside {
        head.rfind(|c: char| !c.is_alphanumeric())
            .map_or(0, |at| at + head[at..].chars().next().map_or(1, char::len_utf8))
    } else {
        shared
    };
    let names: Vec<String> = stems
        .iter()
        .map(|stem| {
            stem.get(cut..)
                .unwrap_or(stem)
                .trim_matches(|c: char| {
                    c.is_whitespace() || matches!(c, '-' | '_' | '.' | '[' | ']' | '(' | ')')
                })
                .to_owned()
        })
        .collect();
    for (version, name) in item.versions.iter_mut().zip(names) {
        version.name = name;
    }
    item.versions.sort_by_key(|version| !version.name.is_empty());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(paths: &[&str], hint: Hint) -> Vec<Vec<(String, usize)>> {
        group(paths, hint)
            .into_iter()
            .map(|item| {
                item.versions.into_iter().map(|version| (version.name, version.parts.len())).collect()
            })
            .collect()
    }

    #[test]
    fn pieces_of_a_film_are_one_version() {
        let found = group(
            &["Bad Boys (2006) part2.mkv", "Bad Boys (2006) part1.mkv", "Bad Boys (2006)-trailer.mkv"],
            Hint::Movie,
        );
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].versions[0].parts, [1, 0]);
        assert_eq!(found[1].extra, Some(Extra::Trailer));
    }

    #[test]
    fn versions_are_named_by_what_they_do_not_share() {
        let found = shape(
            &[
                "/m/Iron Man/Iron Man - 720p.mkv",
                "/m/Iron Man/Iron Man.mkv",
                "/m/Iron Man/Iron Man - 1080p.mkv",
            ],
            Hint::Movie,
        );
        assert_eq!(found, [[(String::new(), 1), ("720p".into(), 1), ("1080p".into(), 1)]]);
    }

    #[test]
    fn films_of_several_years_in_one_folder_stay_apart() {
        assert_eq!(
            shape(&["/m/Iron Man/Iron Man (2007).mkv", "/m/Iron Man/Iron Man (2008).mkv"], Hint::Movie).len(),
            2
        );
    }

    #[test]
    fn releases_in_the_folder_of_their_film_are_versions() {
        let found = shape(
            &["Argo (2012)/argo.2012.720p.bluray.x264-a.mkv", "Argo (2012)/Argo.2012.2160p.WEB-DL-b.mkv"],
            Hint::Movie,
        );
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn episodes_are_joined_by_their_number() {
        let found = shape(
            &[
                "/TV/Show/Season 1/Show - S01E01 - 1080p.pt1.mkv",
                "/TV/Show/Season 1/Show - S01E01 - 1080p.pt2.mkv",
                "/TV/Show/Season 1/Show - S01E01 - 720p.mkv",
            ],
            Hint::Tv,
        );
        assert_eq!(found, [[("1080p".into(), 2), ("720p".into(), 1)]]);
    }
}
