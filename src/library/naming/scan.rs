//! One name with everything that films and episodes both look for in it.

use super::dates::{self, Day};
use super::editions::{self, Edition};
use super::parts::{self, Part};
use super::tokens::Name;
use super::vocabulary::{self, Word};

/// A name, classified.
pub(super) struct Scan {
    pub(super) name: Name,
    pub(super) words: Vec<Word>,
    pub(super) days: Vec<Day>,
    pub(super) editions: Vec<Edition>,
    pub(super) parts: Vec<Part>,
    /// First token that can be part of the title: behind release groups and site names.
    pub(super) first: usize,
    /// Byte offset the title starts at the earliest.
    pub(super) from: usize,
    /// Bracketed groups stood before [`Scan::first`].
    pub(super) grouped: bool,
    /// Everything is in square brackets: `[group][title][04]`.
    pub(super) boxed: bool,
}

/// Country marks that tell two series of one name apart.
pub(super) fn country(name: &Name, token: usize) -> Option<&'static str> {
    if name.raw(token).len() != 2 || !name.upper(token) {
        return None;
    }
    Some(match name.low(token) {
        "us" => "US",
        "uk" | "gb" => "GB",
        "au" => "AU",
        "nz" => "NZ",
        "ca" => "CA",
        "ie" => "IE",
        _ => return None,
    })
}

impl Scan {
    /// Reads a name without its extension.
    pub(super) fn new(stem: &str) -> Scan {
        let name = Name::new(stem);
        let words = vocabulary::classify(&name);
        let editions = editions::find(&name, &words);
        let (days, parts) = (dates::days(&name), parts::find(&name));
        let mut scan =
            Scan { name, words, days, editions, parts, first: 0, from: 0, grouped: false, boxed: false };
        scan.skip_front();
        scan
    }

    pub(super) fn count(&self) -> usize {
        self.name.tokens.len()
    }

    /// Start of a token in bytes; the end of the name past the last.
    pub(super) fn byte(&self, token: usize) -> usize {
        self.name.tokens.get(token).map_or(self.name.text.len(), |token| token.start)
    }

    pub(super) fn strong(&self, token: usize) -> bool {
        self.words.get(token) == Some(&Word::Strong)
    }

    /// Steps over what stands before a title: `[Group]`, `(CD3)`, `www.site.tld - `, `grp-`.
    fn skip_front(&mut self) {
        if self.name.groups.len() > 1 && self.name.tokens.iter().all(|token| token.boxed) {
            (self.grouped, self.boxed) = (true, true);
            return;
        }
        let mut groups = self.name.groups.iter().copied().peekable();
        loop {
            while groups.peek().is_some_and(|group| group.start < self.from) {
                groups.next();
            }
            let front = self.byte(self.first);
            if let Some(group) = groups.peek().copied()
                && group.start < front
            {
                let behind = self.name.token_at(group.end);
                let inner = self.first;
                let numbered = group.open == '('
                    && behind == inner + 1
                    && (self.name.number(inner).is_some_and(|(_, digits)| digits <= 2)
                        || self.parts.iter().any(|part| part.from == inner && part.carrier));
                if behind < self.count() && (group.open != '(' || numbered) {
                    self.grouped |= group.open == '[';
                    (self.first, self.from) = (behind, group.end);
                    continue;
                }
            }
            if self.name.low(self.first) == "www" {
                let last =
                    (self.first + 1..self.count().min(self.first + 6)).find(|&token| self.name.dashed(token));
                if let Some(token) = last {
                    (self.first, self.from) = (token, self.byte(token));
                    continue;
                }
            }
            break;
        }
        // A codec or medium before the title, as some put it.
        let mut token = self.first;
        while self.strong(token) && self.name.gap(token + 1) != "-" {
            token += 1;
        }
        if token > self.first
            && token < self.count()
            && self.words[token] == Word::Plain
            && self.name.gap(token).starts_with([' ', '.', '_'])
        {
            (self.first, self.from) = (token, self.byte(token));
        }
        if self.scene_prefix() {
            (self.first, self.from) = (self.first + 1, self.byte(self.first + 1));
        }
    }

    /// `grp-the.title.2009.x264`: scene files name their group first, and then not at the end.
    fn scene_prefix(&self) -> bool {
        let (name, first) = (&self.name, self.first);
        let raw = name.raw(first);
        let odd = raw.chars().all(|c| c.is_ascii_lowercase())
            || raw.chars().skip(1).any(|c| c.is_ascii_uppercase())
                && raw.chars().any(|c| c.is_ascii_lowercase());
        let last = self.count().saturating_sub(1);
        first == 0
            && raw.len() <= 6
            && odd
            && name.gap(1) == "-"
            && name.gap(2) == "."
            && !name.text.contains(' ')
            && self.words.contains(&Word::Strong)
            && (name.gap(last) != "-" || self.strong(last))
            && !name.gap(last).contains('[')
    }

    /// Whether tokens from here are release words without a title's word among them, or the end.
    pub(super) fn boundary(&self, token: usize) -> bool {
        token >= self.count()
            || self.strong(token)
            || self.name.tokens[token].group != 0 && self.name.gap(token).contains(['[', '{'])
    }

    /// From a boundary back over the weak words before it, leaving at least one word of a title.
    pub(super) fn back_over_weak(&self, mut end: usize, least: usize) -> usize {
        loop {
            if let Some(edition) =
                self.editions.iter().find(|edition| edition.to == end && edition.from > least)
            {
                end = edition.from;
                continue;
            }
            if end <= least + 1 || self.words.get(end - 1).is_none_or(|word| matches!(word, Word::Plain)) {
                return end;
            }
            end -= 1;
        }
    }

    /// First strong word at or behind a token.
    pub(super) fn next_strong(&self, token: usize) -> Option<usize> {
        (token..self.count()).find(|&token| self.strong(token))
    }

    /// Whether a token belongs to a day.
    pub(super) fn in_day(&self, token: usize) -> bool {
        self.days.iter().any(|day| (day.from..day.to).contains(&token))
    }

    /// The year of release among tokens `from..`, and its token. One in brackets counts most, then
    /// the last before the release words.
    pub(super) fn year(&self, from: usize) -> Option<(usize, u16)> {
        let strong = self.next_strong(from + 1).unwrap_or(self.count());
        let mut best: Option<(u8, usize, u16)> = None;
        for token in from..self.count() {
            let Some(year) = dates::year(&self.name, token) else { continue };
            if self.in_day(token) {
                continue;
            }
            let rank = if self.name.alone_in_group(token) {
                3
            } else if token > from && token <= strong {
                2
            } else if best.is_none()
                && (token > strong
                    || token == from && token + 1 < self.count() && self.name.dashed(token + 1))
            {
                1
            } else {
                continue;
            };
            if best.is_none_or(|(found, _, _)| rank >= found) {
                best = Some((rank, token, year));
            }
        }
        best.map(|(_, token, year)| (token, year))
    }

    /// The part that a token range ends with, when what follows ends the text.
    pub(super) fn part_before(&self, end: usize, least: usize) -> Option<Part> {
        self.parts.iter().rev().find(|part| part.to == end && part.from > least).copied()
    }
}

/// Id of a catalogue in the name: `tmdb:901`, `imdb:tt0000901`, `tvdb:12`.
pub(super) fn provider_id(name: &Name) -> Option<String> {
    let imdb = |low: &str| {
        low.len() >= 9
            && low.len() <= 12
            && low.starts_with("tt")
            && low[2..].bytes().all(|b| b.is_ascii_digit())
    };
    (0..name.tokens.len()).find_map(|token| {
        let low = name.low(token);
        if imdb(low) {
            return Some(format!("imdb:{low}"));
        }
        let provider = low.strip_suffix("id").unwrap_or(low);
        let known = matches!(provider, "tmdb" | "tvdb" | "anidb" | "tvmaze" | "anilist" | "mal");
        let joined = matches!(name.gap(token + 1), "-" | "=" | ":") && name.tokens[token].group != 0;
        let (_, digits) = name.number(token + 1).filter(|_| known && joined)?;
        (digits <= 9).then(|| format!("{provider}:{}", name.low(token + 1)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_and_sites_before_the_title_are_stepped_over() {
        let first = |text: &str| {
            let scan = Scan::new(text);
            scan.name.raw(scan.first).to_owned()
        };
        assert_eq!(first("[Group] Title - 01"), "Title");
        assert_eq!(first("www.5site.tc - Movie (2000)"), "Movie");
        assert_eq!(first("(1)The Girl"), "The");
        assert_eq!(first("blow-how.to.be.2016.x264"), "how");
        assert_eq!(first("ant-man.2018.x264-grp"), "ant");
        assert_eq!(first("[rec]"), "rec");
    }

    #[test]
    fn the_year_in_brackets_wins_over_years_in_the_title() {
        let year = |text: &str| Scan::new(text).year(0).map(|(_, year)| year);
        assert_eq!(year("2012 (2009)"), Some(2009));
        assert_eq!(year("Movie.Klasse.von.1999.1990.German.720p"), Some(1990));
        assert_eq!(year("My Movie 2013-12-09 2013"), Some(2013));
        assert_eq!(year("My Movie 2013-12-09"), None);
    }

    #[test]
    fn catalogue_ids_are_read_from_brackets() {
        let id = |text: &str| provider_id(&Name::new(text));
        assert_eq!(id("Movie (2016) {tmdbid-43074}").as_deref(), Some("tmdb:43074"));
        assert_eq!(id("Movie [imdbid-tt0000901]").as_deref(), Some("imdb:tt0000901"));
        assert_eq!(id("Movie tmdb-12"), None);
    }
}
