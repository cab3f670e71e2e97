//! A title as one would write it, cut from a name.

use super::tokens::Name;

/// Byte ranges of `name` between two offsets that are not within square or curly brackets.
fn outside_brackets(name: &Name, from: usize, to: usize) -> String {
    let mut out = String::with_capacity(to.saturating_sub(from));
    let mut at = from;
    for group in &name.groups {
        if group.open == '(' || group.start < at || group.start >= to {
            continue;
        }
        out.push_str(name.text.get(at..group.start).unwrap_or(""));
        out.push(' ');
        at = group.end.min(to);
    }
    if at < to {
        out.push_str(name.text.get(at..to).unwrap_or(""));
    }
    out
}

/// The title between two byte offsets: bracketed remarks left out, separators made spaces.
pub(super) fn between(name: &Name, from: usize, to: usize) -> Option<String> {
    if from >= to {
        return None;
    }
    let outside = tidy(&outside_brackets(name, from, to));
    let text = if outside.is_empty() { tidy(name.text.get(from..to)?) } else { outside };
    (!text.is_empty()).then_some(text)
}

fn letter_or_digit(c: Option<char>) -> bool {
    c.is_some_and(char::is_alphanumeric)
}

/// Dots and underscores to spaces (dots of initials stay), runs of space to one, loose ends cut.
pub(super) fn tidy(raw: &str) -> String {
    let spaced = raw.trim().contains(' ');
    let chars: Vec<char> = raw.chars().collect();
    let mut out = String::with_capacity(raw.len());
    for (at, &c) in chars.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| chars[at]);
        let after = chars.get(at + 1).copied();
        let c = match c {
            '_' | '\u{3000}' | '\t' => ' ',
            '.' if spaced
                && !(out.ends_with(' ')
                    || letter_or_digit(before) && letter_or_digit(after) && !initial(&chars, at)) =>
            {
                '.'
            }
            '.' if initial(&chars, at) => '.',
            '.' => ' ',
            c => c,
        };
        if c != ' ' || !out.ends_with(' ') {
            out.push(c);
        }
    }
    let trimmed = loose_ends(&out);
    swap_article(&trimmed)
}

/// Whether the dot at `at` ends an initial: a single letter with a single letter and dot beside it.
fn initial(chars: &[char], at: usize) -> bool {
    let get = |at: Option<usize>| at.and_then(|at| chars.get(at)).copied();
    let single = |letter: Option<usize>| {
        let before = letter.and_then(|letter| letter.checked_sub(1));
        get(letter).is_some_and(char::is_alphabetic) && !letter_or_digit(get(before))
    };
    let here = at.checked_sub(1);
    if !single(here) {
        return false;
    }
    let after = get(Some(at + 1)).is_some_and(char::is_alphabetic)
        && !letter_or_digit(get(Some(at + 2)))
        && get(Some(at + 2)).is_none_or(|c| c == '.' || c == ' ');
    let before = at >= 3 && get(Some(at - 2)) == Some('.') && single(Some(at - 3));
    after || before
}

/// Cuts separators at both ends, and brackets without a partner.
fn loose_ends(text: &str) -> String {
    let ends = |c: char| {
        c.is_whitespace()
            || matches!(
                c,
                '-' | '_'
                    | ','
                    | ':'
                    | ';'
                    | '+'
                    | '~'
                    | '|'
                    | '/'
                    | '\\'
                    | '='
                    | '*'
                    | '#'
                    | '@'
                    | '★'
                    | '·'
                    | '"'
            )
    };
    let mut text = text.trim_matches(ends);
    loop {
        let before = text.len();
        for (open, close) in [('(', ')'), ('[', ']'), ('{', '}')] {
            if text.ends_with(open) || text.ends_with(close) && !text.contains(open) {
                text = &text[..text.len() - 1];
            }
            if text.starts_with(close) || text.starts_with(open) && !text.contains(close) {
                text = &text[1..];
            }
            if let Some(stripped) = text.strip_suffix(close).and_then(|t| t.strip_suffix(open)) {
                text = stripped;
            }
        }
        text = text.trim_matches(ends);
        // A sentence's dot stays behind initials alone.
        if text.ends_with('.') && !text.ends_with("..") && !ends_in_initial(text) {
            text = &text[..text.len() - 1];
        }
        if text.starts_with('.') && !text[1..].starts_with(|c: char| c.is_ascii_digit()) {
            text = &text[1..];
        }
        if text.len() == before {
            return text.to_owned();
        }
    }
}

fn ends_in_initial(text: &str) -> bool {
    let mut back = text.chars().rev().skip(1);
    back.next().is_some_and(char::is_alphabetic) && back.next() == Some('.')
}

/// `Simpsons, The` to `The Simpsons`.
fn swap_article(text: &str) -> String {
    for article in ["The", "A", "An", "Le", "La", "Les", "Der", "Die", "Das", "El"] {
        if let Some(rest) = text.strip_suffix(article).and_then(|rest| rest.trim_end().strip_suffix(','))
            && !rest.is_empty()
        {
            return format!("{article} {}", rest.trim_end());
        }
    }
    text.to_owned()
}

fn is_han_or_kana(c: char) -> bool {
    matches!(u32::from(c), 0x3040..=0x30ff | 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xf900..=0xfaff)
}

/// Takes the spelling with capitals of two that are one title: scene files are written small.
pub(super) fn prefer_written(own: &mut Option<String>, other: &str) {
    let small = own.as_deref().is_some_and(|own| !own.contains(char::is_uppercase));
    if small && other.contains(char::is_uppercase) {
        *own = Some(other.to_owned());
    }
}

/// Whether a text has Chinese or Japanese signs.
pub(super) fn has_han(text: &str) -> bool {
    text.chars().any(is_han_or_kana)
}

fn has_latin(text: &str) -> bool {
    text.chars().any(|c| c.is_alphabetic() && u32::from(c) < 0x250)
}

/// Of a title given in Chinese or Japanese and again in Latin letters, the Latin one: that is what
/// catalogues are asked for. Words that mix both stay.
pub(super) fn latin_half(title: &str) -> String {
    if !has_han(title) || !has_latin(title) {
        return title.to_owned();
    }
    let words: Vec<&str> = title.split([' ', '·', '_']).filter(|word| !word.is_empty()).collect();
    let first_latin = words.iter().position(|word| !has_han(word) && has_latin(word));
    if let Some(first) = first_latin
        && first > 0
        && words[..first].iter().all(|word| !has_latin(word))
        && words[first..].iter().all(|word| !has_han(word))
    {
        return words[first..].join(" ");
    }
    title.to_owned()
}

/// As [`latin_half`] for a bracketed title, where the other half may also come last.
pub(super) fn latin_half_bracketed(title: &str) -> String {
    let half = latin_half(title);
    let words: Vec<&str> = half.split(' ').collect();
    match words.iter().position(|word| has_han(word)) {
        Some(at)
            if at > 0
                && words[..at].iter().all(|word| !has_han(word) && has_latin(word))
                && words[at..].iter().all(|word| !has_latin(word)) =>
        {
            words[..at].join(" ")
        }
        _ => half,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_become_spaces_but_initials_keep_theirs() {
        assert_eq!(tidy("Marvels.Agents.of.S.H.I.E.L.D."), "Marvels Agents of S.H.I.E.L.D.");
        assert_eq!(tidy("The_Show_-_"), "The Show");
        assert_eq!(tidy("St. Vincent"), "St. Vincent");
        assert_eq!(tidy("A.Movie.Name.("), "A Movie Name");
    }

    #[test]
    fn the_article_behind_the_comma_comes_first() {
        assert_eq!(tidy("Simpsons,.The"), "The Simpsons");
    }

    #[test]
    fn the_latin_half_of_a_double_title_is_kept() {
        assert_eq!(latin_half("我的人间烟火 Fireworks Series"), "Fireworks Series");
        assert_eq!(latin_half("ABC123 17研究所"), "ABC123 17研究所");
        assert_eq!(latin_half_bracketed("ANIME SERIES 海賊王"), "ANIME SERIES");
    }

    #[test]
    fn remarks_in_square_brackets_are_left_out_of_a_title() {
        let name = Name::new("It Ends [Us] Well");
        assert_eq!(between(&name, 0, name.text.len()).as_deref(), Some("It Ends Well"));
        let name = Name::new("[rec]");
        assert_eq!(between(&name, 0, 5).as_deref(), Some("[rec]"));
    }
}
