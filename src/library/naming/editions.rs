//! Editions: `Director's Cut`, `50th Anniversary Edition`, `{edition-Final Cut}`.

use super::titles;
use super::tokens::Name;
use super::vocabulary::Word;

/// An edition's place in a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Edition {
    /// Token range, end exclusive.
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) text: String,
}

fn closing(low: &str) -> bool {
    matches!(low, "cut" | "edition" | "version" | "release" | "edit" | "collection")
}

/// Length in tokens of an edition's phrase that starts at a token, 0 = none.
fn phrase(name: &Name, token: usize) -> usize {
    let (next, third) = (name.low(token + 1), name.low(token + 2));
    let close = usize::from(closing(next));
    match name.low(token) {
        "extended" | "theatrical" | "directors" | "alternative" | "alternate" | "imax" | "remastered"
        | "remaster" | "restored" | "uncut" | "unrated" | "uncensored" | "recut" | "despecialized"
        | "fanedit" | "redux" | "limited" | "criterion" | "superbit" => 1 + close,
        "director" if next == "s" && third == "cut" => 3,
        "final" | "producers" | "international" | "definitive" | "workprint"
            if close == 1 && next != "collection" =>
        {
            2
        }
        "special" | "collectors" | "collector" | "deluxe" | "anniversary" | "signature" | "diamond"
        | "platinum" | "gold"
            if next == "edition" =>
        {
            2
        }
        "edition"
            if matches!(
                next,
                "collector" | "collectors" | "speciale" | "special" | "limitee" | "integrale"
            ) =>
        {
            2
        }
        "ultimate" if closing(next) => 2,
        "ultimate" if closing(third) => 3,
        "fan" if next == "edit" => 2,
        low if low.ends_with("th")
            && low.starts_with(|c: char| c.is_ascii_digit())
            && next == "anniversary" =>
        {
            2 + usize::from(third == "edition")
        }
        low if low.len() <= 4 && low.ends_with("in1") && low.starts_with(|c: char| c.is_ascii_digit()) => 1,
        "dc" | "se" if name.raw(token).len() == 2 && name.upper(token) => 1,
        // Any word makes an edition: `Imperial Edition`.
        _ if next == "edition"
            && !matches!(third, "collector" | "collectors")
            && name.gap(token + 1).len() == 1 =>
        {
            2
        }
        _ => 0,
    }
}

/// Every run of edition words, in order.
pub(super) fn find(name: &Name, words: &[Word]) -> Vec<Edition> {
    let mut found: Vec<Edition> = Vec::new();
    let mut token = 0;
    while token < name.tokens.len() {
        if name.group_of(token).is_some_and(|group| group.open == '{')
            && name.low(token) == "edition"
            && name.gap(token + 1) == "-"
        {
            let group = name.tokens[token].group;
            let to = (token..name.tokens.len())
                .find(|at| name.tokens[*at].group != group)
                .unwrap_or(name.tokens.len());
            if let (Some(first), Some(last)) = (name.tokens.get(token + 1), name.tokens.get(to - 1))
                && first.start < last.end
            {
                found.push(Edition {
                    from: token,
                    to,
                    text: titles::tidy(&name.text[first.start..last.end]),
                });
            }
            token = to;
            continue;
        }
        let strong = words.get(token).is_some_and(|word| *word == Word::Strong);
        let len = if strong { 0 } else { phrase(name, token) };
        if len == 0 {
            token += 1;
            continue;
        }
        let to = (token + len).min(name.tokens.len());
        let text = match name.low(token) {
            "dc" => "Director's Cut".to_owned(),
            "se" => "Special Edition".to_owned(),
            // `Edition Collector`, the Romance way round.
            "edition" => titles::tidy(name.raw(token + 1)),
            _ => titles::tidy(&name.text[name.tokens[token].start..name.tokens[to - 1].end]),
        };
        match found.last_mut() {
            Some(last) if last.to == token => {
                last.to = to;
                last.text.push(' ');
                last.text.push_str(&text);
            }
            _ => found.push(Edition { from: token, to, text }),
        }
        token = to;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::vocabulary::classify;
    use super::*;

    fn all(text: &str) -> Vec<String> {
        let name = Name::new(text);
        find(&name, &classify(&name)).into_iter().map(|edition| edition.text).collect()
    }

    #[test]
    fn runs_of_edition_words_are_one_edition() {
        assert_eq!(
            all("Movie Title Extended Directors Cut Fan Edit 2012"),
            ["Extended Directors Cut Fan Edit"]
        );
        assert_eq!(all("Movie.1979.The.Imperial.Edition.BluRay"), ["Imperial Edition"]);
        assert_eq!(all("Movie (2009) {edition-Final Cut}"), ["Final Cut"]);
        assert_eq!(all("Alien DC (1979)"), ["Director's Cut"]);
    }

    #[test]
    fn a_word_inside_another_is_no_edition() {
        assert!(all("Movie Impossible: Rogue Movie 2012").is_empty());
    }
}
