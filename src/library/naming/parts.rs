//! Pieces of a split file and discs: `cd1`, `part 2`, `Disc 04`.

use super::numbers;
use super::tokens::Name;

/// A part's place in a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    /// Token range, end exclusive.
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) number: u32,
    /// `cd`, `disc`, `dvd`: a carrier, never a word of a title.
    pub(super) carrier: bool,
}

/// A part at a token.
pub(super) fn at(name: &Name, token: usize) -> Option<Part> {
    let low = name.low(token);
    let word = low.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = &low[word.len()..];
    // cd1of2 is one token.
    if let Some(rest) = low.strip_prefix("cd")
        && let Some((number, total)) = rest.split_once("of")
        && total.parse::<u8>().is_ok()
    {
        return Some(Part {
            from: token,
            to: token + 1,
            number: number.parse().ok().filter(|n| *n < 100)?,
            carrier: true,
        });
    }
    // 1of2
    if let Some((number, total)) = low.split_once("of")
        && let (Ok(number), Ok(total)) = (number.parse::<u32>(), total.parse::<u32>())
        && (1..=total).contains(&number)
        && (2..10).contains(&total)
    {
        return Some(Part { from: token, to: token + 1, number, carrier: true });
    }
    let carrier = matches!(word, "cd" | "disc" | "disk" | "dvd");
    if !carrier && !matches!(word, "part" | "pt" | "parte" | "partie" | "teil" | "vol" | "volume") {
        return None;
    }
    let (number, to) = if digits.is_empty() {
        let gap = name.gap(token + 1);
        if gap.is_empty() || gap.len() > 2 || !gap.bytes().all(|b| matches!(b, b' ' | b'.' | b'_' | b'-')) {
            return None;
        }
        let next = name.low(token + 1);
        let number = if carrier || word == "vol" {
            name.number(token + 1).map(|(value, _)| value)
        } else {
            numbers::any(next)
        };
        (number?, token + 2)
    } else {
        (digits.parse().ok()?, token + 1)
    };
    // dvd5 and dvd9 are kinds of disc, and no film has a hundred parts.
    (number > 0 && number < 100 && !(word == "dvd" && matches!(number, 5 | 9))).then_some(Part {
        from: token,
        to,
        number,
        carrier,
    })
}

/// Every part in the name.
pub(super) fn find(name: &Name) -> Vec<Part> {
    (0..name.tokens.len()).filter_map(|token| at(name, token)).collect()
}

/// The disc that a folder's name says (`CD1`, `Disc 04(Encores)`, `vol7`).
pub(super) fn disc_folder(folder: &str) -> Option<u32> {
    let name = Name::new(folder);
    let low = name.low(0);
    let word = low.trim_end_matches(|c: char| c.is_ascii_digit());
    if !matches!(word, "cd" | "disc" | "disk" | "vol" | "volume" | "dvd") || !name.gap(0).is_empty() {
        return None;
    }
    let (digits, behind) = if word.len() < low.len() { (&low[word.len()..], 1) } else { (name.low(1), 2) };
    if behind == 2 && !name.gap(1).bytes().all(|b| matches!(b, b' ' | b'-' | b'_' | b'.')) {
        return None;
    }
    let ended = name.tokens.len() == behind || name.gap(behind).contains(['(', '-', ':', '[', ',']);
    (ended && digits.len() <= 3).then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_parts_however_they_are_counted() {
        let one = |text: &str| find(&Name::new(text)).first().map(|part| part.number);
        for (text, number) in [
            ("a cd1", 1),
            ("a.CD1of2", 1),
            ("a Part III", 3),
            ("a Part Trois", 3),
            ("a - pt2", 2),
            ("a disc 2", 2),
        ] {
            assert_eq!(one(text), Some(number), "{text}");
        }
        assert_eq!(one("a.dvd5.pal"), None);
        assert_eq!(one("a party"), None);
    }

    #[test]
    fn a_disc_folder_is_named_for_its_disc_alone() {
        assert_eq!(disc_folder("Disc 04(Encores and Folk Songs)"), Some(4));
        assert_eq!(disc_folder("cd  - 1"), Some(1));
        assert_eq!(disc_folder("disk disc 6"), None);
        assert_eq!(disc_folder("disk ·"), None);
    }
}
