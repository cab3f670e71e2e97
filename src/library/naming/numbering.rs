//! The forms in which names number seasons and episodes: `S01E02-E03`, `2x05`, `Episode 7`,
//! `3of9`, `第12話`, `Season 2`. Grammar only; which one counts is decided in `episodes`.

use super::numbers;
use super::tokens::Name;

/// A numbering found in a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Numbering {
    /// Byte range in the name.
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) season: Option<u32>,
    /// First and last episode.
    pub(super) episodes: Option<(u32, u32)>,
}

/// Words before an episode's number, folded.
const EPISODE_WORDS: &[&str] = &[
    "e",
    "ep",
    "eps",
    "epi",
    "episode",
    "episodes",
    "episodio",
    "episodios",
    "episod",
    "epizod",
    "epizoda",
    "folge",
    "aflevering",
    "afl",
    "avsnitt",
    "odcinek",
    "odc",
    "capitulo",
    "cap",
    "bolum",
    "серия",
    "серія",
    "эпизод",
    "jakso",
    "afsnit",
    "resz",
    "dil",
    "tap",
];

/// Words behind an episode's number, folded.
const EPISODE_WORDS_AFTER: &[&str] =
    &["bolum", "blm", "серия", "серии", "серія", "resz", "dil", "epizoda", "эпизод", "osa"];

/// Words of a season, folded, in the languages that libraries are kept in.
const SEASON_WORDS: &[&str] = &[
    "season",
    "seasons",
    "saison",
    "saisons",
    "staffel",
    "temporada",
    "temporadas",
    "temp",
    "tem",
    "stagione",
    "stagioni",
    "seizoen",
    "sezon",
    "sezona",
    "sezonul",
    "sasong",
    "seasong",
    "sesong",
    "saeson",
    "kausi",
    "сезон",
    "сезона",
    "evad",
    "시즌",
    "シーズン",
    "sæson",
    "hooaeg",
    "arstid",
    "sezonas",
    "serija",
];

const CJK_EPISODE: [char; 6] = ['集', '话', '話', '回', '화', '회'];
const CJK_SEASON: [char; 2] = ['季', '期'];

fn short(gap: &str, most: usize) -> bool {
    gap.len() <= most && gap.bytes().all(|b| matches!(b, b' ' | b'.' | b'_' | b'-'))
}

pub(super) fn is_season_word(low: &str) -> bool {
    SEASON_WORDS.contains(&low)
}

fn start_of(name: &Name, atom: usize) -> usize {
    name.atoms.get(atom).map_or(name.text.len(), |a| a.start)
}

fn end_of(name: &Name, atom: usize) -> usize {
    name.atoms.get(atom).map_or(name.text.len(), |a| a.end)
}

/// A number of at most `digits` digits directly behind, or a short gap after, the atom before it.
fn number_after(name: &Name, atom: usize, digits: usize, gap: usize) -> Option<u32> {
    let (value, len) = name.value(atom)?;
    (len <= digits && (name.glued(atom) || short(name.atom_gap(atom), gap))).then_some(value)
}

/// How an episode number was introduced, which says what may continue it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Intro {
    Letter,
    Cross,
    Word,
}

/// Introduction of an episode number at `atom`: the number's atom and the kind.
fn intro(name: &Name, atom: usize) -> Option<(usize, Intro)> {
    let word = name.word(atom);
    let number = atom + 1;
    match word {
        "x" | "xe" => (name.glued(number) && name.value(number).is_some_and(|(_, len)| len <= 3))
            .then_some((number, Intro::Cross)),
        "e" => (name.value(number).is_some_and(|(_, len)| len <= 5)
            && (name.glued(number) || name.atom_gap(number) == "."))
            .then_some((number, Intro::Letter)),
        word if EPISODE_WORDS.contains(&word) => number_after(name, number, 5, 2)
            .or_else(|| {
                name.value(number).filter(|_| name.atom_gap(number).ends_with('#')).map(|(value, _)| value)
            })
            .map(|_| (number, Intro::Word)),
        _ => None,
    }
}

/// Follows a list or range of episodes from the atom behind the first number. Gives the last
/// episode and the atom behind it.
fn follow(name: &Name, mut atom: usize, season: Option<u32>, first: u32, intro: Intro) -> (u32, usize) {
    let mut last = first;
    // A letter that splits an episode, or a version.
    if name.glued(atom) && matches!(name.word(atom), "a" | "b" | "c") && !name.glued(atom + 1) {
        atom += 1;
    } else if name.glued(atom) && name.word(atom) == "v" && name.glued(atom + 1) {
        atom += 2;
    }
    loop {
        let gap = name.atom_gap(atom);
        let joined = matches!(
            gap,
            "" | " " | "." | "-" | "_" | " - " | ".-." | "_-_" | "+" | "&" | "~" | " & " | " + " | ", "
        );
        // e03, -E04, x15
        if joined
            && matches!(name.word(atom), "e" | "ep" | "x" | "xe")
            && name.glued(atom + 1)
            && let Some((value, len)) = name.value(atom + 1)
            && len <= 5
            && value >= last
            && !letters_follow(name, atom + 2)
        {
            last = value;
            atom += 2;
            continue;
        }
        // - S01E04, - 02x04
        if joined && !name.glued(atom) {
            if name.word(atom) == "s"
                && name.value(atom + 1).map(|(value, _)| value) == season
                && season.is_some()
                && matches!(name.word(atom + 2), "e" | "x" | "ep")
                && let Some((value, len)) = name.value(atom + 3)
                && len <= 5
                && value >= last
            {
                last = value;
                atom += 4;
                continue;
            }
            if season.is_some()
                && name.value(atom).map(|(value, _)| value) == season
                && name.word(atom + 1) == "x"
                && name.glued(atom + 1)
                && let Some((value, len)) = name.value(atom + 2)
                && len <= 3
                && value >= last
                && name.glued(atom + 2)
            {
                last = value;
                atom += 3;
                continue;
            }
        }
        // -04, ~10, +02, _02, en 4
        let worded = intro == Intro::Word
            && matches!(name.word(atom), "en" | "to" | "al" | "bis" | "et" | "und" | "and")
            && gap == " "
            && name.atom_gap(atom + 1) == " ";
        let at = if worded { atom + 1 } else { atom };
        let plain =
            worded || matches!(gap, "-" | "~" | "+" | "&" | " ~ ") || gap == "_" && intro != Intro::Letter;
        if plain
            && let Some((value, len)) = name.value(at)
            && len <= 4
            && value > last
            && value - last < 1000
            && (len < 4 || first >= 1000 && value - last < 200)
            && !letters_follow(name, at + 1)
            && !matches!(value, 480 | 540 | 576 | 720 | 1080)
        {
            last = value;
            atom = at + 1;
            continue;
        }
        return (last, atom);
    }
}

/// Letters glued to a number that make it something else (`720p`, `264bit`).
fn letters_follow(name: &Name, atom: usize) -> bool {
    name.glued(atom) && name.value(atom).is_none() && !matches!(name.word(atom), "v" | "a" | "b" | "e" | "x")
}

fn year_like(value: u32) -> bool {
    (1900..2100).contains(&value)
}

/// Steps over the count of all episodes: `of 10`, `of XX`.
fn total(name: &Name, atom: usize) -> usize {
    let counted = name.word(atom) == "of"
        && short(name.atom_gap(atom), 1)
        && (name.value(atom + 1).is_some() || name.word(atom + 1) == "xx");
    if counted { atom + 2 } else { atom }
}

/// `2.Sezon.7.Bolum`: both numbers stand before their words.
fn numbers_first(name: &Name, atom: usize) -> Option<Numbering> {
    if !is_season_word(name.word(atom)) || !EPISODE_WORDS_AFTER.contains(&name.word(atom + 2)) {
        return None;
    }
    let (start, season) = season_number_before(name, atom)?;
    let first = number_after(name, atom + 1, 4, 2)?;
    let other = name.value(atom + 3).is_some_and(|(_, digits)| digits <= 3);
    (!other).then(|| Numbering {
        start,
        end: end_of(name, atom + 2),
        season: Some(season),
        episodes: Some((first, first)),
    })
}

/// `S01E02` and its kin at an atom.
fn with_season(name: &Name, atom: usize) -> Option<Numbering> {
    if let Some(found) = numbers_first(name, atom) {
        return Some(found);
    }
    let word = name.word(atom);
    let mut start = start_of(name, atom);
    // `Series 2 Episode 5`, as British series are counted; alone it may be a title's word.
    let british =
        word == "series" && matches!(name.word(atom + 2), "episode" | "ep") && name.value(atom + 3).is_some();
    let long = is_season_word(word) || british;
    let season = match word {
        "s" if !name.glued(atom) => number_after(name, atom + 1, 4, 1)?,
        "se" if !name.glued(atom) => number_after(name, atom + 1, 4, 1)?,
        "t" if !name.glued(atom) && name.glued(atom + 1) && name.glued(atom + 2) => {
            number_after(name, atom + 1, 2, 0)?
        }
        _ if long => number_after(name, atom + 1, 4, 2)?,
        // A word that runs into the numbering: `zoos01e11`.
        word if word.ends_with('s')
            && !name.glued(atom)
            && name.glued(atom + 1)
            && name.word(atom + 2) == "e"
            && name.glued(atom + 2) =>
        {
            start = end_of(name, atom) - 1;
            number_after(name, atom + 1, 2, 0)?
        }
        _ => return None,
    };
    let gap = name.atom_gap(atom + 2);
    if !(name.glued(atom + 2) || short(gap, 3)) {
        return None;
    }
    let (number, intro) = intro(name, atom + 2)?;
    if word == "t" && intro == Intro::Word || letters_follow(name, number + 1) && !name.glued(number) {
        return None;
    }
    let (first, _) = name.value(number)?;
    let (last, behind) = follow(name, number + 1, Some(season), first, intro);
    let behind = total(name, behind);
    Some(Numbering {
        start,
        end: end_of(name, behind.checked_sub(1)?),
        season: Some(season),
        episodes: Some((first, last)),
    })
}

/// `2x05` at an atom.
fn cross(name: &Name, atom: usize) -> Option<Numbering> {
    let (season, digits) = name.value(atom)?;
    if name.glued(atom) || name.word(atom + 1) != "x" && name.word(atom + 1) != "xe" {
        return None;
    }
    let (first, len) = name.value(atom + 2)?;
    let glued = name.glued(atom + 1) && name.glued(atom + 2);
    let spaced = name.atom_gap(atom + 1) == " " && name.atom_gap(atom + 2) == " " && !name.glued(atom + 1);
    let sized = digits <= 2 || digits == 4 && year_like(season) && first <= 400;
    if !(glued || spaced) || !sized || len > 3 || letters_follow(name, atom + 3) {
        return None;
    }
    let (last, behind) = follow(name, atom + 3, Some(season), first, Intro::Cross);
    let behind = total(name, behind);
    // `Ep 2x03`
    let named = atom
        .checked_sub(1)
        .filter(|before| matches!(name.word(*before), "ep" | "episode") && name.atom_gap(atom).len() == 1);
    Some(Numbering {
        start: start_of(name, named.unwrap_or(atom)),
        end: end_of(name, behind.checked_sub(1)?),
        season: Some(season),
        episodes: Some((first, last)),
    })
}

/// First season and episode together. `S` forms win over `x` forms.
pub(super) fn season_and_episode(name: &Name) -> Option<Numbering> {
    // Most folders have no number at all.
    if !name.atoms.iter().any(|atom| atom.number.is_some()) {
        return None;
    }
    let atoms = 0..name.atoms.len();
    atoms
        .clone()
        .find_map(|atom| with_season(name, atom))
        .or_else(|| atoms.clone().find_map(|atom| cross(name, atom)))
}

/// The `12` of `12話` with the `第` before it.
fn cjk_counter(name: &Name, atom: usize, counters: &[char]) -> Option<Numbering> {
    let (value, _) = name.value(atom)?;
    if !name.glued(atom + 1) || !name.word(atom + 1).starts_with(counters) {
        return None;
    }
    let before = if name.glued(atom) { name.word(atom - 1) } else { "" };
    if before.ends_with(['全', '共']) {
        return None;
    }
    let start = start_of(name, atom) - if before.ends_with('第') { '第'.len_utf8() } else { 0 };
    let counter = name.word(atom + 1).chars().next()?;
    Some(Numbering {
        start,
        end: start_of(name, atom + 1) + counter.len_utf8(),
        season: None,
        episodes: Some((value, value)),
    })
}

/// `Cap.201` says season and episode in one number.
fn split_hundreds(value: u32, digits: usize) -> (Option<u32>, u32) {
    if digits >= 3 { (Some(value / 100), value % 100) } else { (None, value) }
}

fn episode_at(name: &Name, atom: usize) -> Option<Numbering> {
    let start = start_of(name, atom);
    if name.word(atom) == "cap"
        && !name.glued(atom)
        && let Some((value, digits)) = name.value(atom + 1)
        && (3..=4).contains(&digits)
        && short(name.atom_gap(atom + 1), 2)
    {
        let (season, first) = split_hundreds(value, digits);
        let next = name.value(atom + 2).filter(|(next, _)| {
            matches!(name.atom_gap(atom + 2), "_" | "-") && *next > value && Some(next / 100) == season
        });
        let last = next.map_or(first, |(next, _)| next % 100);
        let end = end_of(name, atom + 1 + usize::from(next.is_some()));
        return Some(Numbering { start, end, season, episodes: Some((first, last)) });
    }
    if !name.glued(atom)
        && let Some((number, kind)) = intro(name, atom)
        && kind != Intro::Cross
        && (kind == Intro::Word || name.glued(number))
        && !letters_follow(name, number + 1)
    {
        let (first, _) = name.value(number)?;
        let (last, behind) = follow(name, number + 1, None, first, kind);
        return Some(Numbering {
            start,
            end: end_of(name, behind.checked_sub(1)?),
            season: None,
            episodes: Some((first, last)),
        });
    }
    if let Some(found) = cjk_counter(name, atom, &CJK_EPISODE) {
        return Some(found);
    }
    let (value, digits) = name.value(atom)?;
    if name.glued(atom) || digits > 4 {
        return None;
    }
    if name.atom_gap(atom).ends_with('#') && !letters_follow(name, atom + 1) {
        return Some(Numbering {
            start: start - 1,
            end: end_of(name, atom),
            season: None,
            episodes: Some((value, value)),
        });
    }
    let next = name.word(atom + 1);
    if EPISODE_WORDS_AFTER.contains(&next) && short(name.atom_gap(atom + 1), 2) {
        return Some(Numbering {
            start,
            end: end_of(name, atom + 1),
            season: None,
            episodes: Some((value, value)),
        });
    }
    if matches!(next, "of" | "из" | "van" | "sur")
        && short(name.atom_gap(atom + 1), 1)
        && number_after(name, atom + 2, 3, 1).is_some_and(|total| total >= value && total > 1)
        && !atom.checked_sub(1).is_some_and(|before| {
            is_season_word(name.word(before)) || matches!(name.word(before), "cd" | "part" | "disc")
        })
    {
        let word =
            usize::from(matches!(name.word(atom + 3), "ep" | "episode") && name.value(atom + 4).is_none());
        return Some(Numbering {
            start,
            end: end_of(name, atom + 2 + word),
            season: None,
            episodes: Some((value, value)),
        });
    }
    None
}

/// First episode numbering without a season.
pub(super) fn episode(name: &Name) -> Option<Numbering> {
    (0..name.atoms.len()).find_map(|atom| episode_at(name, atom))
}

/// A season alone; the first of several.
fn only_season(start: usize, end: usize, season: u32) -> Option<Numbering> {
    Some(Numbering { start, end, season: Some(season), episodes: None })
}

/// A number before a season word: `3.Staffel`, `04ª Temporada`, `5-го сезон`.
fn season_number_before(name: &Name, atom: usize) -> Option<(usize, u32)> {
    if !short(name.atom_gap(atom), 2) {
        return None;
    }
    let mut at = atom.checked_sub(1)?;
    if matches!(
        name.word(at),
        "a" | "ª" | "o" | "º" | "го" | "й" | "я" | "st" | "nd" | "rd" | "th" | "e" | "eme"
    ) {
        at = at.checked_sub(1)?;
    }
    let (value, digits) = name.value(at)?;
    (digits <= 2 && !name.glued(at)).then_some((start_of(name, at), value))
}

fn season_at(name: &Name, atom: usize) -> Option<Numbering> {
    let start = start_of(name, atom);
    let word = name.word(atom);
    if word == "s"
        && !name.glued(atom)
        && let Some((value, digits)) = name.value(atom + 1)
        && digits <= 4
        && (name.glued(atom + 1) || name.atom_gap(atom + 1) == " " && digits == 2)
    {
        let rest = name.word(atom + 2);
        let extras = usize::from(name.glued(atom + 2) && rest == "extras");
        let whole = !name.glued(atom + 2)
            || rest == "d" && name.glued(atom + 3)
            || matches!(rest, "extras" | "complete");
        // `S01-S03`, `S01-05`
        let lettered = usize::from(name.word(atom + 2) == "s");
        let several = name.atom_gap(atom + 2) == "-"
            && name.value(atom + 2 + lettered).is_some_and(|(last, digits)| last > value && digits <= 2);
        let more = if several && !letters_follow(name, atom + 3 + lettered) { 1 + lettered } else { extras };
        return whole.then(|| only_season(start, end_of(name, atom + 1 + more), value))?;
    }
    if is_season_word(word) && !name.glued(atom) {
        let after = number_after(name, atom + 1, 4, 2)
            .filter(|_| !letters_follow(name, atom + 2) || name.word(atom + 2) == "of");
        let before = season_number_before(name, atom);
        // In `2.Sezon.7.Bolum` the number behind belongs to the episode.
        let taken = EPISODE_WORDS_AFTER.contains(&name.word(atom + 2)) && name.value(atom + 3).is_none();
        return match (after, before) {
            (_, Some((from, value))) if after.is_none() || taken => {
                only_season(from, end_of(name, atom), value)
            }
            (Some(value), _) => {
                // `2of5`: the count of seasons goes with it.
                let total = name.word(atom + 2) == "of" && name.value(atom + 3).is_some();
                only_season(start, end_of(name, atom + 1 + 2 * usize::from(total)), value)
            }
            _ if short(name.atom_gap(atom + 1), 1) => {
                let next = name.word(atom + 1);
                let value =
                    numbers::spelled(next).or_else(|| numbers::roman(next).filter(|_| next.len() > 1))?;
                only_season(start, end_of(name, atom + 1), value)
            }
            _ => None,
        };
    }
    if word == "xall" && name.glued(atom) {
        let (value, _) = name.value(atom.checked_sub(1)?)?;
        return only_season(start_of(name, atom - 1), end_of(name, atom), value);
    }
    if let Some(found) = cjk_counter(name, atom, &CJK_SEASON) {
        return only_season(found.start, found.end, found.episodes?.0);
    }
    // 第二季 within a run of Chinese.
    let a = name.atoms.get(atom)?;
    let text = name.text.get(a.start..a.end)?;
    if text.is_ascii() {
        return None;
    }
    let from = text.find('第')?;
    let rest = &text[from + '第'.len_utf8()..];
    let to = rest.find(CJK_SEASON)?;
    only_season(
        a.start + from,
        a.start + from + '第'.len_utf8() + to + '季'.len_utf8(),
        numbers::chinese(&rest[..to])?,
    )
}

/// First season numbering.
pub(super) fn season(name: &Name) -> Option<Numbering> {
    (0..name.atoms.len()).find_map(|atom| season_at(name, atom))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(text: &str) -> Option<(u32, u32, u32)> {
        let found = season_and_episode(&Name::new(text))?;
        Some((found.season?, found.episodes?.0, found.episodes?.1))
    }

    #[test]
    fn reads_a_season_with_its_episodes_in_every_spelling() {
        for (text, wanted) in [
            ("a S01E02", (1, 2, 2)),
            ("a.s03.e05.b", (3, 5, 5)),
            ("S2009E23-E24-E26", (2009, 23, 26)),
            ("02x03 - x04 - x15 - Ep", (2, 3, 15)),
            ("02x03 - 02x04 - 02x15", (2, 3, 15)),
            ("a S6.E1-S6E2.b", (6, 1, 2)),
            ("a Se.3 afl.3 en 4", (3, 3, 4)),
            ("a 8x01_02 - b", (8, 1, 2)),
            ("Season 3 Episode 09 - x", (3, 9, 9)),
            ("a - 2x07-2x08", (2, 7, 8)),
            ("zoos01e11", (1, 11, 11)),
            ("a 1 x 03 b", (1, 3, 3)),
            ("s01e01+02", (1, 1, 2)),
        ] {
            assert_eq!(both(text), Some(wanted), "{text}");
        }
    }

    #[test]
    fn numbers_after_an_episode_are_not_always_a_range() {
        assert_eq!(both("S08E20 50-50 Carla"), Some((8, 20, 20)));
        assert_eq!(both("a-S16E08-10426008-0"), Some((16, 8, 8)));
        assert_eq!(both("S01E01-720p"), Some((1, 1, 1)));
    }

    #[test]
    fn a_picture_size_is_no_episode() {
        assert_eq!(both("a 1920x1080"), None);
        assert_eq!(both("a 848x480"), None);
        assert_eq!(both("a 1920x804"), None);
    }

    #[test]
    fn reads_episodes_without_a_season() {
        let one = |text: &str| episode(&Name::new(text)).and_then(|found| found.episodes);
        assert_eq!(one("a E02-03"), Some((2, 3)));
        assert_eq!(one("[第1008話]"), Some((1008, 1008)));
        assert_eq!(one("全24集"), None);
        assert_eq!(one("a 60.Bölüm"), Some((60, 60)));
        assert_eq!(one("a.3of9.b"), Some((3, 3)));
        assert_eq!(one("a #17"), Some((17, 17)));
    }

    #[test]
    fn reads_seasons_in_many_languages() {
        let one = |text: &str| season(&Name::new(text)).and_then(|found| found.season);
        for text in [
            "Säsong 2",
            "2. évad",
            "第二季",
            "a S02",
            "Temporada.2",
            "04ª Temporada".replace("04", "02").as_str(),
            "Saison deux",
            "a 2期",
        ] {
            assert_eq!(one(text), Some(2), "{text}");
        }
        assert_eq!(one("Season (8)"), None);
        assert_eq!(one("2.Sezon.7.Bolum"), Some(2));
    }
}
