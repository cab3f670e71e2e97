//! Tracks of albums, and audiobooks.

use super::Identity;
use super::dates;
use super::folders::{self, Place};
use super::numbers;
use super::parts;
use super::titles;
use super::tokens::Name;
use super::vocabulary;

/// Disc, track and title of a file's name.
fn track(stem: &str) -> (Option<u32>, Option<u32>, Option<String>) {
    let name = Name::new(stem);
    let title = |from: usize| {
        name.tokens.get(from).and_then(|token| tidy(name.text.get(title_from(&name, token.start)..)?))
    };
    let Some((first, digits)) = name.number(0) else {
        return lettered(&name).or_else(|| behind_artist(stem)).unwrap_or_else(|| (None, None, tidy(stem)));
    };
    let opened = name.gap(0).is_empty() || name.gap(0) == "[" || name.gap(0) == "(";
    if !opened || name.tokens.len() == 1 {
        return (None, (digits <= 2 && name.tokens.len() == 1).then_some(first), tidy(stem));
    }
    let gap = name.gap(1);
    // 1-03 Title, 1.03 Title
    if let Some((second, 2)) = name.number(1)
        && digits <= 2
        && matches!(gap, "-" | "." | "_")
        && name.tokens.len() > 2
        && (digits == 1 || name.dashed(2))
    {
        return (Some(first), Some(second), title(2));
    }
    let parted = gap.contains(['-', '.', '_', ']', ')']);
    match digits {
        3 if first / 100 > 0 && first / 100 < 10 && first % 100 > 0 => {
            (Some(first / 100), Some(first % 100), title(1))
        }
        // A single digit needs a mark: `7 Seconds` is a title.
        2 if parted || name.low(0).starts_with('0') || first <= 40 => (None, Some(first), title(1)),
        1 if parted => (None, Some(first), title(1)),
        _ => (None, None, tidy(stem)),
    }
}

/// The sides of a record: `A1 - Title`.
fn lettered(name: &Name) -> Option<(Option<u32>, Option<u32>, Option<String>)> {
    let low = name.low(0);
    let side = low.bytes().next().filter(|b| (b'a'..=b'h').contains(b))?;
    let number: u32 = low.get(1..)?.parse().ok().filter(|_| low.len() <= 3)?;
    let from = name.tokens.get(1)?.start;
    name.gap(1).contains(['-', '.']).then(|| {
        (Some(u32::from(side - b'a') / 2 + 1), Some(number), tidy(&name.text[title_from(name, from)..]))
    })
}

/// `Artist - 01 - Title`
fn behind_artist(stem: &str) -> Option<(Option<u32>, Option<u32>, Option<String>)> {
    let mut pieces = stem.splitn(3, " - ").skip(1);
    let number = pieces.next().filter(|number| number.len() == 2)?.parse().ok()?;
    pieces.next().map(|title| (None, Some(number), tidy(title)))
}

/// The disc that an album's name ends with (`Album (Disc 1)`, `Album CD2`), and the album before it.
fn disc_of_album(album: &str) -> Option<(u32, String)> {
    let name = Name::new(album);
    let part = parts::find(&name)
        .into_iter()
        .rev()
        .find(|part| part.to == name.tokens.len() && part.from > 0 && part.carrier)?;
    let rest = tidy(album.get(..name.tokens.get(part.from)?.start)?)?;
    Some((part.number, rest))
}

/// An opening bracket belongs to the title it opens.
fn title_from(name: &Name, start: usize) -> usize {
    let before = name.text[..start].chars().next_back();
    if before == Some('(') { start - 1 } else { start }
}

fn tidy(text: &str) -> Option<String> {
    let text = titles::tidy(text);
    (!text.is_empty()).then_some(text)
}

/// Album and year of a folder: `Album (2012)`, `2012 - Album`, `(2012) Album`, `Album [2012]`.
fn album(folder: &str) -> (Option<String>, Option<u16>) {
    let name = Name::new(folder);
    let count = name.tokens.len();
    let whole = || tidy(folder);
    if count < 2 {
        return (whole(), None);
    }
    for token in (0..count).rev() {
        let Some(year) = dates::year(&name, token) else { continue };
        let (this, group) = (name.tokens[token], name.group_of(token).filter(|_| name.alone_in_group(token)));
        let (start, end) = group.map_or((this.start, this.end), |group| (group.start, group.end));
        let (first, last) = (token == 0, token + 1 == count);
        let leading = first && (group.is_some() || name.dashed(1) || matches!(name.gap(1), "-" | ". "));
        if leading {
            return (tidy(&name.text[end..]), Some(year));
        }
        if group.is_some() {
            // What follows in brackets is about the release: `[FLAC]`.
            let behind = tidy(&name.text[end..]).filter(|_| !name.gap(token + 1).contains(['[', '(', '{']));
            let text = format!("{} {}", &name.text[..start], behind.unwrap_or_default());
            return (tidy(&text), Some(year));
        }
        if last && name.dashed(token) {
            return (tidy(&name.text[..start]), Some(year));
        }
    }
    (whole(), None)
}

/// The track that a path names.
pub(super) fn identify(place: &Place<'_>) -> Identity {
    let (stem, _) = vocabulary::split_extension(place.name);
    let (disc, number, title) = track(stem);
    let mut identity = Identity { title, disc, track: number, ..Identity::default() };
    // The tune of a film or series, in its folder.
    identity.extra = (stem.eq_ignore_ascii_case("theme")).then_some(super::Extra::ThemeSong);
    let mut folders = place.folders.iter().copied().peekable();
    if let Some(disc) = folders.peek().and_then(|folder| parts::disc_folder(folder)) {
        identity.disc = Some(disc);
        folders.next();
    }
    let Some(folder) = folders.next().filter(|folder| !library(folder)) else {
        return artist_in_name(identity);
    };
    let artist = folders.next().filter(|folder| !library(folder));
    let (text, year) = album(folder);
    identity.year = year;
    match (artist, text) {
        (Some(artist), album) => {
            identity.artist = tidy(artist);
            // The artist's name again before the album's.
            let repeated = album
                .as_deref()
                .and_then(|album| album.strip_prefix(artist))
                .and_then(|rest| rest.strip_prefix(" - "))
                .map(str::to_owned);
            identity.album = repeated.or(album);
        }
        (None, Some(text)) => match text.split_once(" - ") {
            Some((artist, album)) => (identity.artist, identity.album) = (tidy(artist), tidy(album)),
            None => identity.artist = Some(text),
        },
        (None, None) => {}
    }
    if let Some((disc, rest)) = identity.album.as_deref().and_then(disc_of_album) {
        identity.disc = identity.disc.or(Some(disc));
        identity.album = Some(rest);
    }
    // `01 - Artist - Title` in the artist's folder.
    if let (Some(artist), Some(title)) = (&identity.artist, &identity.title)
        && let Some(rest) = title.strip_prefix(artist.as_str()).and_then(|rest| rest.strip_prefix(" - "))
    {
        identity.title = Some(rest.to_owned());
    }
    identity
}

/// A folder of the library itself, above all artists. One letter sorts artists.
fn library(folder: &str) -> bool {
    let one = folder.chars().count() == 1 && folder.chars().all(char::is_alphabetic);
    one || folders::says_nothing(folder) && !folder.chars().all(|c| c.is_ascii_digit())
}

/// `Artist - Title` where no folder names the artist.
fn artist_in_name(mut identity: Identity) -> Identity {
    if let Some((artist, title)) = identity.title.as_deref().and_then(|title| title.split_once(" - ")) {
        (identity.artist, identity.title) = (tidy(artist), tidy(title));
    }
    identity
}

/// The chapter of an audiobook that a path names: `Author/Book/Part 3 - Chapter 2.mp3`.
pub(super) fn audiobook(place: &Place<'_>) -> Identity {
    let (stem, _) = vocabulary::split_extension(place.name);
    let name = Name::new(stem);
    let after = |word: &[&str]| {
        (0..name.tokens.len()).find_map(|token| {
            let low = name.low(token);
            let bare = low.trim_end_matches(|c: char| c.is_ascii_digit());
            if !word.contains(&bare) {
                return None;
            }
            if bare.len() < low.len() {
                low[bare.len()..].parse().ok()
            } else {
                numbers::any(name.low(token + 1))
            }
        })
    };
    let part = after(&["part", "pt", "cd", "disc", "disk", "teil", "partie"]);
    let chapter = after(&["chapter", "ch", "kapitel", "chapitre", "track"]);
    let leading = name
        .number(0)
        .map(|(value, _)| value)
        .filter(|_| chapter.is_none() && part.is_none() && name.tokens.len() > 1);
    let mut identity = Identity { part, track: chapter.or(leading), ..Identity::default() };
    let mut folders = place.folders.iter().copied().filter(|folder| parts::disc_folder(folder).is_none());
    if let Some(folder) = folders.next().filter(|folder| !library(folder)) {
        (identity.album, identity.year) = album(folder);
        identity.title = identity.album.clone();
        identity.artist = folders.next().filter(|folder| !library(folder)).and_then(tidy);
    } else {
        identity.title = tidy(stem);
    }
    identity
}

/// The disc that a folder names.
pub(super) fn disc_folder(place: &Place<'_>) -> Identity {
    Identity { disc: parts::disc_folder(place.name), ..Identity::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn song(path: &str) -> Identity {
        identify(&folders::place(path))
    }

    #[test]
    fn reads_artist_album_disc_and_track() {
        let found = song("Music/Paper Lantern/Cold Harbors (2007)/2-07 - 22 Miles (Live).flac");
        assert_eq!(
            (found.artist.as_deref(), found.album.as_deref(), found.year),
            (Some("Paper Lantern"), Some("Cold Harbors"), Some(2007))
        );
        assert_eq!(
            (found.disc, found.track, found.title.as_deref()),
            (Some(2), Some(7), Some("22 Miles (Live)"))
        );
    }

    #[test]
    fn a_title_that_starts_with_a_number_keeps_it() {
        let found = song("Music/Marble Fox/Singles/99 Gates.mp3");
        assert_eq!((found.track, found.title.as_deref()), (None, Some("99 Gates")));
        let found = song("Music/Marble Fox/7/1 - 7.flac");
        assert_eq!(
            (found.track, found.title.as_deref(), found.album.as_deref()),
            (Some(1), Some("7"), Some("7"))
        );
    }

    #[test]
    fn a_chapter_of_an_audiobook_has_part_and_number() {
        let found = audiobook(&folders::place("/server/AudioBooks/Nerry Potter/Part 3 - Chapter 2.mp3"));
        assert_eq!((found.part, found.track), (Some(3), Some(2)));
    }
}
