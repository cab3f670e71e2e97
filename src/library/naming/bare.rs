//! Numbers without a mark that may be an episode's: `Show - 07`, `[04]`, `Show 103`.

use super::dates;
use super::scan::Scan;
use super::tokens::Name;
use super::vocabulary::Word;

/// A number without any mark, with its rank among others.
pub(super) struct Bare {
    /// Token range, end exclusive.
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) first: u32,
    pub(super) last: u32,
    /// Digits of the first number.
    pub(super) digits: usize,
    /// A dash with space stands before it.
    pub(super) dashed: bool,
    /// 70 between dashes, 60 alone in brackets, 40 last before the release words, 25 in the middle.
    pub(super) rank: u8,
}

/// Digits of a token that may be an episode: also `09v2`, `13完`, `234 END`.
pub(super) fn numberish(name: &Name, token: usize) -> Option<(u32, usize)> {
    let low = name.low(token);
    let digits = low.bytes().take_while(u8::is_ascii_digit).count();
    let rest = &low[digits..];
    let version =
        rest.strip_prefix('v').is_some_and(|v| v.len() == 1 && v.bytes().all(|b| b.is_ascii_digit()));
    let fits =
        (1..=5).contains(&digits) && (rest.is_empty() || version || matches!(rest, "完" | "end" | "fin"));
    fits.then(|| low[..digits].parse().ok().map(|value| (value, digits)))?
}

fn ends_range(gap: &str) -> bool {
    matches!(gap, "-" | "~" | " ~ " | ".&." | " & " | "～")
}

/// Best bare number among the tokens before the release words, from byte `behind` on.
pub(super) fn bare(scan: &Scan, behind: usize) -> Option<Bare> {
    let name = &scan.name;
    let strong = scan.next_strong(scan.first).unwrap_or(scan.count());
    let mut best: Option<Bare> = None;
    let mut token = if scan.grouped { 0 } else { scan.first };
    while token < scan.count() {
        let at = token;
        token += 1;
        let Some((first, digits)) = numberish(name, at) else { continue };
        let dashed = name.dashed(at);
        let resolution = scan.words[at] != Word::Plain;
        let year = dates::year(name, at).is_some();
        let early = scan.byte(at) < behind && !name.tokens[at].boxed;
        let part = scan.parts.iter().any(|part| (part.from..part.to).contains(&at));
        if resolution || early || part || scan.in_day(at) || year && (!dashed || name.tokens[at].boxed) {
            continue;
        }
        let mut to = at + 1;
        let mut last = first;
        // A fraction counts a special between two episodes.
        if name.gap(to) == "."
            && name.number(to).is_some_and(|(_, digits)| digits == 1)
            && (name.gap(to + 1).len() > 1 || to + 1 == scan.count())
            && dashed
        {
            to += 1;
        }
        let zero = name.low(at).starts_with('0');
        let dash_range = |to: usize| {
            !dashed
                && zero
                && name.gap(to) == " - "
                && numberish(name, to).is_some()
                && (scan.boundary(to + 1) || name.gap(to + 1).contains(['[', '(']))
        };
        while let Some((value, len)) = numberish(name, to)
            && (ends_range(name.gap(to)) || dash_range(to))
            && value > last
            && len <= 4
            && (at > 0 || dashed || len > 1)
        {
            last = value;
            to += 1;
        }
        let ended = to >= scan.count()
            || scan.strong(to)
            || name.gap(to).contains(['[', '(', ']'])
            || matches!(scan.words[to], Word::Language | Word::Weak | Word::Tag);
        let group = name.group_of(at);
        let lone = group.is_some()
            && name.tokens.get(to).is_none_or(|next| next.group != name.tokens[at].group)
            && (at == 0 || name.tokens[at - 1].group != name.tokens[at].group);
        let rank = match group {
            Some(group) if group.open == '[' && (lone || name.low(to) == "end") && at > 0 => 60,
            Some(group) if group.open == '(' && lone && last > first => 55,
            Some(_) if lone && at > scan.first => 10,
            Some(_) => continue,
            None if at > strong => {
                if to == scan.count() && digits == 3 {
                    5
                } else {
                    continue;
                }
            }
            None if dashed && (ended || name.dashed(to)) => 70,
            None if at == scan.first && name.dashed(to) => 50,
            None if at == scan.first && to == scan.count() => 50,
            None if dashed => 45,
            None if ended && at > scan.first => 40,
            None if at == scan.first && digits <= 3 => 20,
            None if at == scan.first && digits == 4 && !year => 20,
            None if digits == 3
                || digits == 4 && zero
                || digits == 2 && name.low(at).starts_with('0')
                || last > first =>
            {
                25
            }
            None => continue,
        };
        // Two numbers of one season side by side are two episodes.
        if let Some(found) = &mut best
            && found.to == at
            && found.digits == 3
            && digits == 3
            && first == found.first + 1
        {
            (found.last, found.to) = (first, to);
            token = to;
            continue;
        }
        let better = best.as_ref().is_none_or(|found| rank > found.rank || rank == found.rank && rank < 45);
        if better {
            best = Some(Bare { from: at, to, first, last, digits, dashed, rank });
        }
        token = to;
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best(text: &str) -> Option<(u32, u32)> {
        bare(&Scan::new(text), 0).map(|found| (found.first, found.last))
    }

    #[test]
    fn a_number_between_dashes_or_brackets_counts_before_others() {
        assert_eq!(best("[G] Show 2 - 05 [720p]"), Some((5, 5)));
        assert_eq!(best("[G][Show][04][1080p]"), Some((4, 4)));
        assert_eq!(best("[G] Show - 11 - 511 Kinderheim [6C70C4E4]"), Some((11, 11)));
    }

    #[test]
    fn ranges_are_read_and_years_and_picture_heights_are_not() {
        assert_eq!(best("[G] Show 01 - 119 [1080p] [Batch]"), Some((1, 119)));
        assert_eq!(best("Show.2016.720.x264"), None);
    }
}
