//! Films: title, year, edition and part from the file and the folder it is in.

use super::extras;
use super::folders::{self, Place};
use super::numbering;
use super::parts;
use super::scan::{self, Scan};
use super::titles;
use super::tokens::{self, Name};
use super::vocabulary::{self, Word};
use super::{Extra, Identity};

/// What one name (file or folder) says of a film.
fn read(stem: &str) -> Identity {
    let mut scan = Scan::new(stem);
    let mut identity = Identity { provider_id: scan::provider_id(&scan.name), ..Identity::default() };
    if scan.count() == 0 {
        return identity;
    }
    identity.stereo = extras::stereo(&scan.name).map(str::to_owned);
    // A counted film of a series (`James_Bond-f17-Goldeneye`): the title stands behind.
    if let Some(token) = (1..scan.count() - 1).find(|&token| counted(&scan.name, token, 'f')) {
        (scan.first, scan.from) = (token + 1, scan.byte(token + 1));
    }
    let year = scan.year(scan.first);
    identity.year = year.map(|(_, year)| year);
    // `(1995) Movie Name`, `2010 - Movie Name`
    if let Some((token, _)) = year
        && token == scan.first
        && (scan.name.alone_in_group(token) || scan.name.dashed(token + 1))
        && token + 1 < scan.count()
    {
        (scan.first, scan.from) = (token + 1, scan.name.tokens[token].end);
    }
    let end = title_end(&scan, year.map(|(token, _)| token).filter(|token| *token > scan.first));
    let (end, part) = cut_part(&scan, end);
    identity.part = part.or_else(|| {
        scan.parts
            .iter()
            .find(|part| part.from >= end || part.carrier && part.to <= scan.first)
            .map(|part| part.number)
    });
    identity.edition = edition(&scan, end);
    identity.title = title(&scan, end);
    if let Some(found) = numbering::season_and_episode(&scan.name) {
        identity.season = found.season;
        (identity.ep_first, identity.ep_last) = (found.episodes.map(|e| e.0), found.episodes.map(|e| e.1));
    }
    identity
}

/// `-f17-`, `-x02-`.
fn counted(name: &Name, token: usize, letter: char) -> bool {
    let low = name.low(token);
    low.len() == 3
        && low.starts_with(letter)
        && low[1..].bytes().all(|b| b.is_ascii_digit())
        && name.gap(token) == "-"
        && name.gap(token + 1) == "-"
}

/// The token that the title ends before.
fn title_end(scan: &Scan, year: Option<usize>) -> usize {
    let first = scan.first;
    let mut end = scan.count();
    if let Some(strong) = scan.next_strong(first + 1) {
        end = scan.back_over_weak(strong, first);
    }
    if let Some(year) = year
        && year <= end
    {
        end = before_year(scan, year);
    }
    let marks = [
        extras::bonus(&scan.name),
        extras::file(&scan.name, false).map(|(_, token)| token),
        numbering::season_and_episode(&scan.name)
            .or_else(|| numbering::season(&scan.name))
            .map(|found| scan.name.token_at(found.start)),
        creditless(scan),
        (first + 1..end).find(|&token| matches!(scan.name.group_of(token), Some(group) if group.open == '{')),
    ];
    for mark in marks.into_iter().flatten() {
        if mark > first {
            end = end.min(mark);
        }
    }
    if extras::stereo(&scan.name).is_some() {
        while end > first + 1 && extras::is_layout(scan.name.low(end - 1)) {
            end -= 1;
        }
    }
    if end == scan.count() {
        // Nothing ends the title but the name: an edition of several words, or in brackets.
        if let Some(edition) = scan.editions.iter().find(|e| {
            e.to == end && e.from > first && (e.to - e.from > 1 || scan.name.tokens[e.from].group != 0)
        }) {
            end = scan.back_over_weak(edition.from, first);
        }
    }
    while let Some(edition) =
        scan.editions.iter().find(|edition| edition.to == end && edition.from > first && end < scan.count())
    {
        end = edition.from;
    }
    end
}

/// The title before a year: editions and `3D` before the year are not its words; a language is
/// not when nothing behind the year names one.
fn before_year(scan: &Scan, year: usize) -> usize {
    let mut end = year;
    let scene = !scan.name.alone_in_group(year) && !scan.name.text.contains(' ');
    let language_behind = scan.words.iter().skip(year).any(|word| *word == Word::Language);
    while end > scan.first + 1 {
        if let Some(edition) =
            scan.editions.iter().find(|edition| edition.to == end && edition.from > scan.first)
        {
            end = edition.from;
            continue;
        }
        let before = scan.words[end - 1];
        let tag = before == Word::Tag && scan.name.upper(end - 1);
        if scan.name.low(end - 1) == "3d" || tag || before == Word::Language && scene && !language_behind {
            end -= 1;
            continue;
        }
        break;
    }
    end
}

/// Openings and endings without credits, of fansubbed series.
fn creditless(scan: &Scan) -> Option<usize> {
    (scan.first + 1..scan.count()).find(|&token| {
        let stem = scan
            .name
            .low(token)
            .trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, 'a' | 'b' | 'v'));
        matches!(stem, "op" | "ed" | "ncop" | "nced" | "oped")
            && scan.name.upper(token) | scan.name.low(token).contains(|c: char| c.is_ascii_digit())
            && (scan.grouped || scan.next_strong(token + 1).is_some())
    })
}

/// A part that ends the title and is followed by no year is not a word of it.
fn cut_part(scan: &Scan, end: usize) -> (usize, Option<u32>) {
    let year_behind = super::dates::year(&scan.name, end).is_some();
    match scan.part_before(end, scan.first) {
        Some(part)
            if part.carrier
                || !year_behind && (!scan.name.low(part.from).starts_with("vol") || end < scan.count()) =>
        {
            (part.from, Some(part.number))
        }
        _ => {
            // `Part 1 and Part 2`: the title ends before the first of several.
            let inside: Vec<_> =
                scan.parts.iter().filter(|part| part.from > scan.first && part.to <= end).collect();
            match inside.as_slice() {
                [first, _, ..] => (first.from, None),
                _ => (end, None),
            }
        }
    }
}

fn edition(scan: &Scan, end: usize) -> Option<String> {
    let all: Vec<&str> = scan
        .editions
        .iter()
        .filter(|edition| edition.from >= end && edition.from > scan.first)
        .map(|edition| edition.text.as_str())
        .collect();
    (!all.is_empty()).then(|| all.join(" "))
}

fn title(scan: &Scan, end: usize) -> Option<String> {
    let mut to = scan.byte(end);
    // Trailing remarks in round brackets, when words stand before them.
    for group in scan.name.groups.iter().rev() {
        let trailing = group.start < to && scan.name.token_at(group.end) >= end.min(scan.name.token_at(to));
        if group.open == '('
            && group.start > scan.from
            && trailing
            && scan.name.token_at(group.start) > scan.first
        {
            to = group.start;
        }
    }
    let title = titles::between(&scan.name, scan.from, to)?;
    Some(titles::latin_half(&title))
}

/// A name that is the same for every film: `movie`, `VTS_01_1`, `00001`.
fn says_nothing(stem: &str) -> bool {
    let key = tokens::key(stem);
    matches!(
        key.as_str(),
        "movie" | "video" | "film" | "videots" | "bdmv" | "index" | "title" | "trailer" | "sample" | "theme"
    ) || key.starts_with("vts") && key[3..].bytes().all(|b| b.is_ascii_digit())
        || key.len() == 5 && key.bytes().all(|b| b.is_ascii_digit())
        || folders::is_noise(stem)
}

/// What a folder's name alone says.
pub(super) fn folder(stem: &str) -> Identity {
    read(stem)
}

/// The film that a path names.
pub(super) fn identify(place: &Place<'_>) -> Identity {
    let (stem, ext) = vocabulary::split_extension(place.name);
    let mut identity = read(stem);
    let name = Name::new(stem);
    identity.extra = extra(&name, place, &ext);
    let nameless =
        identity.title.is_none() || says_nothing(stem) || ext.is_empty() && folders::is_noise(stem);
    if nameless {
        identity.title = None;
    }
    for folder in &place.folders {
        if let Some(disc) = parts::disc_folder(folder) {
            identity.part = identity.part.or(Some(disc));
            continue;
        }
        if folders::says_nothing(folder) || extras::folder(folder).is_some() {
            continue;
        }
        let above = read(vocabulary::split_extension(folder).0);
        let Some(title) = above.title.filter(|_| !folders::is_noise(folder)) else { continue };
        let (own_key, key) = (identity.title.as_deref().map(tokens::key), tokens::key(&title));
        match own_key {
            None => {
                identity.title = Some(title);
                identity.year = identity.year.or(above.year);
            }
            Some(own) if own == key => {
                identity.year = identity.year.or(above.year);
                titles::prefer_written(&mut identity.title, &title);
            }
            // A longer name in a folder of its own with the year: the folder is the tidier one.
            Some(own)
                if identity.year.is_none() && above.year.is_some() && own.contains(&key) && key.len() > 3 =>
            {
                identity.title = Some(title);
                identity.year = above.year;
            }
            Some(_) => break,
        }
        identity.provider_id = identity.provider_id.take().or(above.provider_id);
        identity.edition = identity.edition.take().or(above.edition);
        break;
    }
    identity
}

/// The extra that a file is, by its name or its folder.
pub(super) fn extra(name: &Name, place: &Place<'_>, ext: &str) -> Option<Extra> {
    let audio = super::is_audio(ext);
    let own = extras::file(name, audio).map(|(extra, _)| extra);
    let bonus = extras::bonus(name).map(|_| Extra::Extra);
    // `Shorts/Shorts.mkv` is a film in a folder of its own.
    let film = |folder: &&&str| tokens::key(folder) == tokens::key(&name.text);
    let folder = place
        .folders
        .first()
        .filter(|folder| !ext.is_empty() && !film(folder))
        .and_then(|folder| extras::folder(folder));
    let folder = folder.filter(|extra| audio == (*extra == Extra::ThemeSong));
    folder.filter(|extra| *extra != Extra::Extra).or(own).or(folder).or(bonus)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn film(path: &str) -> (Option<String>, Option<u16>) {
        let identity = identify(&folders::place(path));
        (identity.title, identity.year)
    }

    #[test]
    fn a_title_ends_before_the_year_or_the_release_words() {
        assert_eq!(film("Some.Movie.2017.2160p.UHD.BluRay-GRP.mkv"), (Some("Some Movie".into()), Some(2017)));
        assert_eq!(
            film("Passengers.German.DL.AC3.Dubbed..BluRay.x264-PsO"),
            (Some("Passengers".into()), None)
        );
        assert_eq!(film("First Man 2018 1080p.mkv"), (Some("First Man".into()), Some(2018)));
    }

    #[test]
    fn a_film_whose_title_is_a_number_keeps_it() {
        assert_eq!(film("300 (2006).mkv"), (Some("300".into()), Some(2006)));
        assert_eq!(film("2012 (2009)/2012 (2009).mkv"), (Some("2012".into()), Some(2009)));
    }

    #[test]
    fn the_folder_lends_what_the_file_lacks() {
        assert_eq!(film("Movies/Argo (2012)/movie.mkv"), (Some("Argo".into()), Some(2012)));
        assert_eq!(film("Movies/Argo (2012)/VIDEO_TS/VTS_01_1.VOB"), (Some("Argo".into()), Some(2012)));
        assert_eq!(
            film("Movies/Toy Story (1995)/Toy Story [HDTV 720p].mkv"),
            (Some("Toy Story".into()), Some(1995))
        );
    }

    #[test]
    fn a_part_is_not_part_of_the_title_unless_the_year_follows() {
        assert_eq!(film("The Godfather Part III.mkv").0.as_deref(), Some("The Godfather"));
        assert_eq!(film("Deathly Hallows Part 2 (2011).mkv").0.as_deref(), Some("Deathly Hallows Part 2"));
    }
}
