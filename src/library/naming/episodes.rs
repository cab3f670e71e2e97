//! Episodes: which numbering in a name counts, the series' title before it, and what the folders
//! above add.

use super::Identity;
use super::bare::{Bare, bare, numberish};
use super::dates;
use super::extras;
use super::folders::{self, Place};
use super::movies;
use super::numbering::{self, Numbering};
use super::scan::{self, Scan};
use super::titles;
use super::tokens::{self, Name};
use super::vocabulary::{self, Word};

/// How sure a reading's numbering is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum Sure {
    /// No number.
    #[default]
    Nothing,
    /// A number that may be one.
    Bare,
    /// `E05`, a day.
    Marked,
    /// Season and episode.
    Full,
}

/// What one name says.
#[derive(Debug, Default)]
struct Reading {
    identity: Identity,
    sure: Sure,
    /// The title stood behind the number and may be the episode's.
    title_behind: bool,
    /// Names of fansub releases count through all seasons.
    anime: bool,
    /// The title is followed by release words, so that it is the name of a release.
    released: bool,
    /// Digits of a bare number that may hold season and episode.
    hundreds: Option<(u32, usize)>,
}

/// What stands around the numbering decides how a bare number is read.
#[derive(Default)]
struct Around<'a> {
    /// Season by the folders above.
    season: Option<u32>,
    /// Key of the series' folder.
    series: Option<&'a str>,
    /// Episodes that the folder holds, by its name.
    range: Option<(u32, u32)>,
}

fn is_anime(scan: &Scan) -> bool {
    scan.grouped
        || (0..scan.count()).any(|token| {
            let low = scan.name.low(token);
            matches!(low, "vostfr" | "fansub" | "subsplease")
                || low.len() == 8 && scan.strong(token) && low.bytes().all(|b| b.is_ascii_hexdigit())
        })
}

/// The fansub words for what is outside a season's count.
fn special(scan: &Scan) -> Option<(usize, bool)> {
    (scan.first + 1..scan.count()).find_map(|token| {
        let low = scan.name.low(token).trim_end_matches(|c: char| c.is_ascii_digit());
        match low {
            "ncop" | "nced" => Some((token, true)),
            "ova" | "oad" | "ovd" | "oav" if scan.name.upper(token) => Some((token, true)),
            "ona" if scan.name.upper(token) => Some((token, false)),
            "special" | "sp"
                if scan.name.number(token + 1).is_some() && scan.name.upper(token) | (low.len() > 2) =>
            {
                Some((token, true))
            }
            "special" if scan.name.dashed(token) && scan.name.gap(token + 1).contains('[') => {
                Some((token, true))
            }
            _ => None,
        }
    })
}

/// Everything a name says of an episode, `around` it known.
fn read(stem: &str, around: &Around<'_>) -> Reading {
    let mut scan = Scan::new(stem);
    let mut reading = Reading { anime: is_anime(&scan), ..Reading::default() };
    reading.identity.provider_id = scan::provider_id(&scan.name);
    if scan.count() == 0 {
        return reading;
    }
    // Broadcast recordings start with the day as six digits.
    let recorded = scan.name.number(scan.first).is_some_and(|(_, digits)| digits == 6)
        && scan.count() > scan.first + 1
        && scan.name.gap(scan.first + 1) == " ";
    if recorded {
        (scan.first, scan.from) = (scan.first + 1, scan.byte(scan.first + 1));
    }
    reading.released = scan.next_strong(scan.first).is_some();
    let full = numbering::season_and_episode(&scan.name);
    let season = numbering::season(&scan.name);
    let marked = numbering::episode(&scan.name);
    let day = scan.days.first().cloned();
    let mut hits: Vec<(usize, usize)> = Vec::new();
    let identity = &mut reading.identity;
    if let Some(found) = &season {
        identity.season = found.season;
        hits.push((found.start, found.end));
    }
    if let Some(day) = &day {
        identity.date = Some(day.iso.clone());
        reading.sure = Sure::Marked;
        let end = scan.name.tokens[day.to - 1].end;
        hits.push((scan.byte(day.from), end));
    }
    match (full, marked) {
        (Some(found), _) => {
            identity.season = found.season;
            set_episodes(identity, &found);
            reading.sure = Sure::Full;
            hits.push((found.start, found.end));
            hits.extend(absolute(&scan, &found, identity));
        }
        (None, Some(found)) => {
            identity.season = found.season.or(identity.season).or(recorded.then_some(1));
            set_episodes(identity, &found);
            reading.sure = if found.season.is_some() { Sure::Full } else { Sure::Marked };
            hits.push((found.start, found.end));
            if identity.season.is_none()
                && (reading.anime || scan.name.text[found.start..].starts_with(['E', 'e', 'N', '第']))
            {
                (identity.absolute, identity.abs_last) = (identity.ep_first, identity.ep_last);
            }
        }
        (None, None) => {
            let mark = season.as_ref().map_or(0, |season| season.end);
            let film_part = scan
                .parts
                .iter()
                .any(|part| part.from > scan.first && !part.carrier && scan.boundary(part.to));
            let found = bare(&scan, mark).filter(|found| !film_part || found.rank > 25);
            if let Some(found) = found.filter(|found| {
                day.is_none()
                    || found.rank >= 25
                        && found.digits == 3
                        && found.from < day.as_ref().map_or(0, |day| day.from)
            }) {
                hits.push((scan.byte(found.from), scan.name.tokens[found.to - 1].end));
                reading.sure = reading.sure.max(Sure::Bare);
                number(&scan, &found, around, &mut reading);
                hits.extend(second_count(&scan, &found, &mut reading.identity));
            } else if day.is_none() {
                hits.extend(mini_series(&scan, &mut reading));
            }
        }
    }
    if let Some((token, outside)) = special(&scan).filter(|_| reading.anime) {
        let number = reading.identity.ep_first;
        if outside && reading.identity.season.is_none() {
            reading.identity.season = Some(0);
            if number.is_some() {
                (reading.identity.absolute, reading.identity.abs_last) = (number, reading.identity.ep_last);
            }
        }
        hits.push((scan.byte(token), scan.name.tokens[token].end));
    }
    divide(&scan, &mut hits, &mut reading);
    reading
}

fn set_episodes(identity: &mut Identity, found: &Numbering) {
    identity.ep_first = found.episodes.map(|(first, _)| first);
    identity.ep_last = found.episodes.map(|(_, last)| last);
}

/// A film in parts, shown as a series: the parts are its episodes.
fn mini_series(scan: &Scan, reading: &mut Reading) -> Option<(usize, usize)> {
    let part = scan.parts.iter().find(|part| {
        part.from > scan.first && !part.carrier && scan.name.low(part.from).starts_with("part")
    })?;
    let identity = &mut reading.identity;
    identity.season = identity.season.or(Some(1));
    (identity.ep_first, identity.ep_last) = (Some(part.number), Some(part.number));
    reading.sure = Sure::Bare;
    Some((scan.byte(part.from), scan.name.tokens[part.to - 1].end))
}

/// Reads a bare number as an episode, or as season and episode.
fn number(scan: &Scan, found: &Bare, around: &Around<'_>, reading: &mut Reading) {
    let identity = &mut reading.identity;
    let own = identity.season;
    let (mut first, mut last) = (found.first, found.last);
    let zero = scan.name.low(found.from).starts_with('0');
    let version = scan.name.low(found.from).contains('v');
    let series_folder = around.series.is_some() && !reading.released && {
        let title = titles::between(&scan.name, scan.from, scan.byte(found.from));
        title.is_some_and(|title| Some(tokens::key(&title).as_str()) == around.series)
    };
    let listed = around.range.is_some_and(|(first, last)| (first..=last).contains(&found.first));
    let counted = listed || reading.anime || version || found.dashed || found.rank == 60 || series_folder;
    let split = match found.digits {
        3 => {
            !zero
                && !counted
                && !found.first.is_multiple_of(100)
                && found.last / 100 == found.first / 100
                && found.last - found.first < 3
        }
        4 => found.last == found.first && !found.first.is_multiple_of(100) && (zero || !counted),
        5 => !counted && found.first % 100 == found.first / 100 % 100 + 1,
        _ => false,
    };
    match own.or(around.season) {
        Some(season) => {
            // In the folder of its season a number of three digits says the season again.
            let again =
                found.digits == 3 && !zero && !reading.anime && first % 100 > 0 && last / 100 == season;
            if (split || again) && first / 100 == season {
                (first, last) = (first % 100, last % 100);
            }
        }
        None if split && found.digits == 5 => {
            identity.season = Some(first / 10_000);
            (first, last) = (first / 100 % 100, first % 100);
        }
        None if split => {
            identity.season = Some(first / 100);
            (first, last) = (first % 100, last % 100);
            reading.hundreds = Some((found.first, found.digits));
        }
        None => {
            identity.absolute = Some(first);
            identity.abs_last = Some(last);
        }
    }
    identity.ep_first = Some(first);
    identity.ep_last = Some(last);
}

/// A range in brackets behind a range of the same width: `16-20 (191-195)`.
fn second_count(scan: &Scan, found: &Bare, identity: &mut Identity) -> Option<(usize, usize)> {
    let (from, to) = (found.to, found.to + 1);
    let (first, _) = numberish(&scan.name, from)?;
    let (last, _) = numberish(&scan.name, to)?;
    let fits = found.last > found.first && last.checked_sub(first) == Some(found.last - found.first);
    (fits && scan.name.gap(from).contains('(') && scan.name.gap(to) == "-").then(|| {
        (identity.absolute, identity.abs_last) = (Some(first), Some(last));
        (scan.byte(from), scan.name.tokens[to].end)
    })
}

/// An absolute number beside season and episode, before or behind; its byte range.
fn absolute(scan: &Scan, found: &Numbering, identity: &mut Identity) -> Option<(usize, usize)> {
    let name = &scan.name;
    let (first, last) = found.episodes?;
    let width = last.saturating_sub(first);
    let behind = name.token_at(found.end);
    let range = |token: usize| {
        let (start, digits) = numberish(name, token)?;
        let mut end = start;
        let mut to = token + 1;
        while name.gap(to) == "-"
            && let Some((value, _)) = numberish(name, to)
            && value > end
        {
            end = value;
            to += 1;
        }
        (!scan.in_day(token)).then_some((start, end, digits, to))
    };
    if let Some((start, end, digits, to)) = range(behind)
        && end - start == width
        && !matches!(start, 480 | 540 | 576 | 720)
        && (digits == 3 && (width > 0 || name.low(behind).starts_with('0') || name.gap(behind).contains('['))
            || digits == 4
                && name.gap(behind).contains('[')
                && dates::year(name, behind).is_none()
                && name.alone_in_group(behind))
    {
        (identity.absolute, identity.abs_last) = (Some(start), Some(end));
        return Some((name.tokens[behind].start, name.tokens[to - 1].end));
    }
    let start_token = name.token_at(found.start);
    let before = start_token.checked_sub(1).filter(|before| *before > 0)?;
    let (end, digits) = numberish(name, before)?;
    if width > 0
        && name.gap(before) == "-"
        && let Some((start, _)) = numberish(name, before - 1)
        && end.checked_sub(start) == Some(width)
    {
        (identity.absolute, identity.abs_last) = (Some(start), Some(end));
        return Some((name.tokens[before - 1].start, name.tokens[before].end));
    }
    // A fraction before the numbering of a special: only its place is known.
    if digits == 1 && name.gap(before) == "." && name.dashed(before - 1) && name.number(before - 1).is_some()
    {
        return Some((name.tokens[before - 1].start, name.tokens[before].end));
    }
    let marked = name.dashed(before) && (name.dashed(start_token) || name.gap(start_token).contains('('))
        || scan.grouped && digits == 3 && name.gap(start_token) == " ";
    if width == 0 && marked && name.number(before).is_some() && digits <= 3 {
        (identity.absolute, identity.abs_last) = (Some(end), Some(end));
        return Some((name.tokens[before].start, name.tokens[before].end));
    }
    None
}

/// Cuts the name into series title, numbering and episode title.
fn divide(scan: &Scan, hits: &mut [(usize, usize)], reading: &mut Reading) {
    hits.sort_unstable();
    let name = &scan.name;
    let identity = &mut reading.identity;
    let start = hits.iter().map(|hit| hit.0).find(|start| *start >= scan.from).unwrap_or(name.text.len());
    let mark = name.tokens.partition_point(|token| token.end <= start);
    let strong = scan.next_strong(scan.first);
    let year = scan.year(scan.first);
    let mut end = mark;
    if let Some(strong) = strong.filter(|strong| *strong < mark || mark == scan.count()) {
        end = scan.back_over_weak(strong.min(end), scan.first);
    } else if mark == scan.count() && hits.is_empty() {
        end = scan.back_over_weak(end, scan.first);
    }
    if let Some((token, value)) = year {
        if token > scan.first || name.alone_in_group(token) {
            identity.year = Some(value);
        }
        if token > scan.first && token <= end {
            end = token;
            while end > scan.first + 1 && scan.words[end - 1] == Word::Tag && name.upper(end - 1) {
                end -= 1;
            }
        }
    }
    // The title's end in bytes: a numbering may start within a token.
    let mut to = if end == mark { start } else { scan.byte(end) };
    if end > scan.first + 1
        && let Some(country) = scan::country(name, end - 1)
        && (!hits.is_empty())
    {
        identity.country = Some(country.to_owned());
        to = name.tokens[end - 1].start;
    }
    identity.title = titles::between(name, scan.from, to)
        .filter(|title| !title.contains("新番"))
        .map(|title| titles::latin_half(&title));
    let season_news =
        identity.title.is_none() && name.text.get(scan.from..to).is_some_and(|text| text.contains("新番"));
    if scan.boxed || season_news {
        identity.title = bracketed(scan, start);
    }
    let own_end = hits.iter().map(|hit| hit.1).max().unwrap_or(0);
    let behind = if hits.is_empty() {
        year.filter(|(token, _)| *token > scan.first).map(|(token, _)| name.tokens[token].end)
    } else {
        Some(own_end)
    };
    if let Some(from) = behind {
        let number_end = hits
            .iter()
            .rev()
            .map(|hit| hit.1)
            .find(|end| !scan.in_day(name.token_at(*end).saturating_sub(1)))
            .unwrap_or(from);
        let (mut text, mut part) = episode_title(scan, number_end.max(scan.from));
        if text.is_none() && number_end != from {
            (text, part) = episode_title(scan, from.max(scan.from));
        }
        identity.ep_title = text;
        identity.part = part;
    }
    // A number first and the title behind: `03-Criminal.Minds`, `S02 Some Series`.
    reading.title_behind = identity.title.is_none();
    identity.edition = scan
        .editions
        .iter()
        .find(|edition| {
            scan.byte(edition.from) >= own_end
                && (scan.name.tokens[edition.from].group != 0
                    || scan.boundary(edition.to)
                    || scan.words.get(edition.to).is_some_and(|word| *word != Word::Plain))
        })
        .map(|edition| edition.text.clone());
}

/// The title among bracketed groups before a byte offset: `[group][title][04]`.
fn bracketed(scan: &Scan, before: usize) -> Option<String> {
    let name = &scan.name;
    let groups: Vec<&super::tokens::Group> =
        name.groups.iter().filter(|group| group.open == '[' && group.end <= before.max(1)).collect();
    let candidates = groups.iter().skip(usize::from(groups.len() > 1)).filter_map(|group| {
        let first = name.token_at(group.start);
        let behind = name.token_at(group.end);
        let plain =
            (first..behind).any(|token| scan.words[token] == Word::Plain && name.number(token).is_none());
        plain.then(|| titles::between(name, group.start + 1, group.end - 1)).flatten()
    });
    // Wholly Latin ones first, then the Latin half of a mixed one.
    let titles: Vec<(bool, String)> =
        candidates.map(|title| (!titles::has_han(&title), titles::latin_half_bracketed(&title))).collect();
    let latin = |title: &&(bool, String)| title.0;
    let half = |title: &&(bool, String)| !titles::has_han(&title.1);
    titles
        .iter()
        .find(latin)
        .or_else(|| titles.iter().find(half))
        .or_else(|| titles.last())
        .map(|(_, title)| title.clone())
}

/// The episode's title behind a byte offset, and the part it ends with.
fn episode_title(scan: &Scan, from: usize) -> (Option<String>, Option<u32>) {
    let name = &scan.name;
    let mut first = name.token_at(from);
    let mut start = from;
    // Tags of the release, and bracketed remarks before a dash.
    loop {
        if first >= scan.count() {
            return (None, None);
        }
        let group = name.tokens[first].group;
        if group != 0 && name.gap(first).contains(['[', '(', '{']) {
            let end = name.groups[group - 1].end;
            let behind = name.token_at(end);
            if behind < scan.count() && name.dashed(behind) && behind > first {
                (first, start) = (behind, end);
                continue;
            }
            if name.gap(first).contains(['[', '{'])
                || scan.words[first] != Word::Plain
                || dates::year(name, first).is_some()
            {
                return (None, None);
            }
        }
        if scan.words[first] == Word::Tag
            && first + 1 < scan.count()
            && !scan.strong(first + 1)
            && scan.words[first + 1] == Word::Plain
        {
            start = name.tokens[first].end;
            first += 1;
            continue;
        }
        break;
    }
    let stop = (first..scan.count())
        .find(|&token| {
            scan.strong(token)
                || token > first && name.gap(token).contains(['[', '{'])
                || scan.in_day(token)
                || token > first
                    && (name.number(token).is_some_and(|(_, digits)| digits == 6) || reissue(scan, token))
        })
        .unwrap_or(scan.count());
    let mut end = stop;
    if stop == scan.count() {
        if end > first && scan.words[first..end].iter().all(|word| *word != Word::Plain) {
            return (None, None);
        }
        // At the end of the name a language alone is a remark.
        while end > first + 1 && scan.words[end - 1] == Word::Language {
            end -= 1;
        }
    } else {
        while end > first && scan.words[end - 1] != Word::Plain {
            end -= 1;
        }
        if end == first && scan.words[first..stop].iter().all(|word| *word != Word::Plain) {
            return (None, None);
        }
    }
    let mut to = scan.byte(end);
    // A number in brackets, or a remark, at the end.
    let mut part = None;
    for group in name.groups.iter().rev() {
        let (inner, behind) = (name.token_at(group.start), name.token_at(group.end));
        if group.open == '(' && group.start >= start && inner > first && inner < end && behind >= end {
            part = scan
                .parts
                .iter()
                .find(|part| part.from == inner && part.to == behind)
                .map(|part| part.number)
                .or(part);
            (end, to) = (inner, group.start);
        }
    }
    while end > first + 1 && scan.words[end - 1] == Word::Language && name.gap(end).contains('(') {
        end -= 1;
        to = scan.byte(end);
    }
    if let Some(found) = scan.parts.iter().rev().find(|part| part.to == end && part.from >= first) {
        part = Some(found.number);
        to = scan.byte(found.from);
    }
    (titles::between(name, start, to), part)
}

/// Words that mark a second release and are not words of titles.
fn reissue(scan: &Scan, token: usize) -> bool {
    matches!(scan.name.low(token), "repack" | "proper" | "rerip" | "readnfo") && scan.name.upper(token)
}

/// The series that a folder names, with its year.
fn series(folder: &str) -> Option<Identity> {
    let stem = vocabulary::split_extension(folder).0;
    if folders::says_nothing(folder) || folders::is_noise(stem) || extras::folder(folder).is_some() {
        return None;
    }
    if !has_number(stem) {
        let film = movies::folder(stem);
        return film.title.is_some().then(|| Identity {
            title: film.title,
            provider_id: film.provider_id,
            ..Identity::default()
        });
    }
    let mut identity = read(stem, &Around::default()).identity;
    let range = identity.ep_last > identity.ep_first;
    let name = Name::new(stem);
    let numbered_title = !range
        && identity.date.is_none()
        && numbering::season_and_episode(&name).is_none()
        && numbering::season(&name).is_none();
    if numbered_title {
        // A number in a series' own name is not an episode's.
        let film = movies::folder(stem);
        (identity.title, identity.year) = (film.title, film.year);
    } else if identity.title.is_none() {
        identity.title = identity.ep_title.take();
    }
    identity.title.is_some().then_some(identity)
}

/// The episode that a path names.
pub(super) fn identify(place: &Place<'_>) -> Identity {
    let (stem, ext) = vocabulary::split_extension(place.name);
    let season = place
        .folders
        .iter()
        .take(3)
        .enumerate()
        .find_map(|(at, folder)| folders::season(folder, place.folders.get(at + 1).copied()));
    let above: Vec<Identity> = place.folders.iter().filter_map(|folder| series(folder)).take(2).collect();
    let series_key = above.first().and_then(|series| series.title.as_deref()).map(tokens::key);
    let range = above
        .first()
        .and_then(|series| series.ep_first.zip(series.ep_last))
        .filter(|(first, last)| last > first);
    let mut reading = read(stem, &Around { season, series: series_key.as_deref(), range });
    let parent = place
        .folders
        .first()
        .map(|folder| vocabulary::split_extension(folder).0)
        .filter(|folder| has_number(folder));
    let mut parent = parent.map(|folder| read(folder, &Around::default()));
    let mut own = true;
    // The folder of a release says more than a file with a name of its own.
    if reading.sure < Sure::Full
        && let Some(folder) = &parent
    {
        let single =
            folder.identity.ep_first.is_some() && folder.identity.ep_first == folder.identity.ep_last;
        let better = folder.sure == Sure::Full && single
            || reading.sure == Sure::Nothing && folder.sure > Sure::Nothing && wordless(stem);
        if better
            && reading.identity.date.is_none()
            && let Some(folder) = parent.take()
        {
            reading = folder;
            own = false;
        }
    }
    let mut identity = reading.identity;
    identity.season =
        identity.season.or(season.filter(|_| identity.date.is_none() || identity.ep_first.is_some()));
    if season.is_some() && identity.season == season && reading.sure != Sure::Full {
        (identity.absolute, identity.abs_last) = (None, None);
    }
    settle_title(&mut identity, reading.title_behind, reading.sure, &above);
    for folder in &above {
        if folder.title.as_deref().map(tokens::key) == identity.title.as_deref().map(tokens::key) {
            if let Some(title) = &folder.title {
                titles::prefer_written(&mut identity.title, title);
            }
            identity.year = identity.year.or(folder.year);
            identity.provider_id = identity.provider_id.take().or(folder.provider_id.clone());
            identity.country = identity.country.take().or(folder.country.clone());
        }
    }
    // A file named by its episode first, in the folder of the release.
    if let (Some(title), Some(parent), true) = (identity.title.as_deref().map(tokens::key), parent, own) {
        let same = parent.sure == Sure::Full
            && parent.identity.ep_first == identity.ep_first
            && parent.identity.season == identity.season;
        if same && let Some(parent_title) = parent.identity.title {
            let key = tokens::key(&parent_title);
            if title != key && title.ends_with(&key) {
                identity.title = Some(parent_title);
                identity.ep_title = parent.identity.ep_title;
            }
        }
    }
    identity.extra = movies::extra(&Name::new(stem), place, &ext);
    identity
}

/// Cheap test before a folder is read for a numbering.
fn has_number(folder: &str) -> bool {
    folder.contains(|c: char| c.is_numeric()) || titles::has_han(folder)
}

/// Nothing but release words and numbers in it.
fn wordless(stem: &str) -> bool {
    let name = Name::new(stem);
    let words = vocabulary::classify(&name);
    let first_plain = words.iter().position(|word| *word == Word::Plain);
    first_plain.is_none_or(|at| at > 0) || folders::is_noise(stem)
}

/// Decides what is the series and what the episode when the name starts with its number.
fn settle_title(identity: &mut Identity, behind: bool, sure: Sure, above: &[Identity]) {
    if !behind {
        return;
    }
    let series = above.first();
    let Some(text) = identity.ep_title.clone() else {
        identity.title = series.and_then(|series| series.title.clone());
        identity.year = identity.year.or(series.and_then(|series| series.year));
        return;
    };
    let (head, tail) = match text.split_once(" - ") {
        Some((head, tail)) => (head.trim().to_owned(), Some(tail.trim().to_owned())),
        None => (text.clone(), None),
    };
    match series {
        Some(series) => {
            let key = series.title.as_deref().map(tokens::key);
            if Some(tokens::key(&head)) == key {
                identity.ep_title = tail;
            }
            identity.title = series.title.clone();
            identity.year = identity.year.or(series.year);
        }
        // With no folder the first of two is the series.
        None if (sure == Sure::Full || sure == Sure::Marked) && tail.is_none() => {}
        None => {
            identity.title = Some(head);
            identity.ep_title = tail;
        }
    }
}

/// The season that a folder names, and its series.
pub(super) fn season_folder(place: &Place<'_>) -> Identity {
    let (stem, ext) = vocabulary::split_extension(place.name);
    let parent = place.folders.first().copied();
    let name = Name::new(stem);
    let mut identity = read(stem, &Around::default()).identity;
    (identity.ep_first, identity.ep_last, identity.absolute, identity.abs_last) = (None, None, None, None);
    identity.season = folders::season(stem, parent);
    if folders::says_nothing(place.name) || name.tokens.len() == 1 && identity.season.is_some() {
        identity.title = None;
    } else if let Some((token, _)) =
        folders::plain_season(&name).filter(|_| numbering::season(&name).is_none())
    {
        identity.title = titles::between(&name, 0, name.tokens[token].start);
    }
    if let Some(found) = numbering::season(&name) {
        let volume = super::parts::find(&name)
            .into_iter()
            .find(|part| name.token_at(found.end) == part.from && !part.carrier);
        let short = name.token_at(found.end);
        let letter = name
            .low(short)
            .strip_prefix('p')
            .and_then(|n| n.parse().ok())
            .filter(|n: &u32| *n < 20 && name.raw(short).starts_with('P'));
        identity.part = volume.map(|part| part.number).or(letter).or(identity.part);
    }
    // `Seinfeld Season 2` below something else is a pack of its own, not a season of its parent.
    if let (Some(title), Some(parent)) = (identity.title.as_deref(), parent)
        && !folders::is_release(&name)
        && ext.is_empty()
        && numbering::season(&name).is_some_and(|found| name.token_at(found.start) > 0)
    {
        let (key, parent_key) = (tokens::key(title), tokens::key(parent));
        if !parent_key.contains(&key) && !key.contains(&parent_key) {
            identity.season = None;
        }
    }
    let release_above =
        parent.is_some_and(|parent| folders::is_release(&Name::new(parent)) || wordless(stem));
    if identity.season.is_none()
        && let Some(parent) = parent
        && (!ext.is_empty() || release_above)
        && numbering::season_and_episode(&name).is_none()
    {
        identity.season = folders::season(parent, place.folders.get(1).copied());
        if identity.season.is_some() {
            let own = identity.title.take();
            let above = place.folders.iter().find_map(|folder| series(folder));
            identity.title = above.and_then(|above| above.title);
            identity.ep_title = own.filter(|_| !ext.is_empty());
        }
    }
    if identity.title.is_none() {
        let above = place.folders.iter().find_map(|folder| series(folder));
        identity.year = identity.year.or(above.as_ref().and_then(|above| above.year));
        identity.title = above.and_then(|above| above.title);
    }
    identity
}

/// The series that a folder names, or the folder above when it names a season alone.
pub(super) fn series_folder(place: &Place<'_>) -> Identity {
    let found = series(place.name).or_else(|| place.folders.iter().find_map(|folder| series(folder)));
    let Some(found) = found else { return Identity::default() };
    Identity {
        title: found.title,
        year: found.year,
        provider_id: found.provider_id,
        country: found.country,
        ..Identity::default()
    }
}

/// Whether a folder is a season's: it names one, and no episode.
pub(super) fn is_season_folder(place: &Place<'_>) -> bool {
    let name = Name::new(place.name);
    numbering::season_and_episode(&name).is_none()
        && numbering::episode(&name).is_none()
        && folders::season(place.name, place.folders.first().copied()).is_some()
}

/// Whether a name is an episode's rather than a film's: for libraries of mixed kind.
pub(super) fn looks_like_one(place: &Place<'_>) -> bool {
    let stem = vocabulary::split_extension(place.name).0;
    let scan = Scan::new(stem);
    if numbering::season_and_episode(&scan.name).is_some()
        || !scan.days.is_empty()
        || numbering::episode(&scan.name).is_some()
    {
        return true;
    }
    let folder = place.folders.first().filter(|folder| !folders::says_nothing(folder));
    if place.folders.first().is_some_and(|folder| folders::season(folder, None).is_some()) {
        return true;
    }
    // A release's file with a name of its own.
    let released = place.folders.first().filter(|folder| has_number(folder) && wordless(stem));
    if released.is_some_and(|folder| numbering::season_and_episode(&Name::new(folder)).is_some()) {
        return true;
    }
    let (Some(found), None) = (bare(&scan, 0), scan.year(scan.first)) else { return false };
    let hundreds = found.digits == 3 && found.first % 100 > 0 && !scan.name.low(found.from).starts_with('0');
    let title =
        titles::between(&scan.name, scan.from, scan.byte(found.from)).map(|title| tokens::key(&title));
    let in_series =
        folder.is_some_and(|folder| title.as_deref().is_none_or(|title| title == tokens::key(folder)));
    is_anime(&scan) && found.rank >= 40
        || found.rank >= 60
        || hundreds && scan.next_strong(found.to) == Some(found.to)
        || in_series
}

#[cfg(test)]
mod tests {
    use super::*;

    fn episode(path: &str) -> Identity {
        identify(&folders::place(path))
    }

    #[test]
    fn a_number_means_what_its_surroundings_say() {
        let numbers = |path: &str| {
            let found = episode(path);
            (found.season, found.ep_first)
        };
        assert_eq!(numbers("Series.and.a.Title.103.720p.HDTV.X264-DIMENSION"), (Some(1), Some(3)));
        assert_eq!(numbers("[Group] Anime Title 1004 [E63F2984].mkv"), (None, Some(1004)));
        assert_eq!(numbers("The Simpsons/The Simpsons 112.avi"), (None, Some(112)));
        assert_eq!(numbers("Show/Season 2/16 Some Title.avi"), (Some(2), Some(16)));
        assert_eq!(numbers("Show.Name.S01.720p-Group/show.name.0106.720p-group.mkv"), (Some(1), Some(6)));
    }

    #[test]
    fn the_folder_of_a_release_names_what_the_file_does_not() {
        let found =
            episode("We.Are.S01E14.Brother.Up.1080p.WEB-DL-GRP/mxNMuJWeO7PUWCMEwqKSsS6D8Vs9S6V3PHD.mkv");
        assert_eq!(
            (found.title.as_deref(), found.ep_first, found.ep_title.as_deref()),
            (Some("We Are"), Some(14), Some("Brother Up"))
        );
    }

    #[test]
    fn series_title_and_episode_title_stand_on_either_side() {
        let found =
            episode("TV/Harbor Lights (2019)/Season 01/Harbor Lights (2019) - s01e01 - Night One.mkv");
        assert_eq!(
            (found.title.as_deref(), found.year, found.ep_title.as_deref()),
            (Some("Harbor Lights"), Some(2019), Some("Night One"))
        );
        let found = episode("Series/Pure Laine/2x05 - Pure Laine - Je Me Souviens.avi");
        assert_eq!(
            (found.title.as_deref(), found.ep_title.as_deref()),
            (Some("Pure Laine"), Some("Je Me Souviens"))
        );
    }

    #[test]
    fn absolute_numbers_beside_a_season_are_kept_apart() {
        let found = episode("Bleach.s16e03-04.313-314-GROUP");
        assert_eq!(
            (found.ep_first, found.ep_last, found.absolute, found.abs_last),
            (Some(3), Some(4), Some(313), Some(314))
        );
    }
}
