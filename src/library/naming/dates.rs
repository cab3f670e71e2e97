//! Years of release and days of broadcast.

use super::tokens::Name;

/// A day found in a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Day {
    /// Token range, end exclusive.
    pub(super) from: usize,
    pub(super) to: usize,
    /// `YYYY-MM-DD`.
    pub(super) iso: String,
}

/// The earliest film is of 1888; a title may well hold a number that looks later than today.
pub(super) const FIRST_YEAR: u32 = 1888;
/// Bare numbers above this are taken for part of a title (`Blade Runner 2049`).
const LAST_BARE_YEAR: u32 = 2039;

/// Whether a token is a year, and how sure: a year in brackets may be any from the first film on.
pub(super) fn year(name: &Name, token: usize) -> Option<u16> {
    let (value, digits) = name.number(token)?;
    let range = if name.alone_in_group(token) { FIRST_YEAR..=2099 } else { 1900..=LAST_BARE_YEAR };
    (digits == 4 && range.contains(&value)).then_some(value as u16)
}

fn month_name(low: &str) -> Option<u32> {
    const MONTHS: [&str; 12] = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    let at = MONTHS.iter().position(|month| low == *month || low.len() == 3 && month.starts_with(low))?;
    Some(at as u32 + 1)
}

fn iso(year: u32, month: u32, day: u32) -> Option<String> {
    let last = match month {
        4 | 6 | 9 | 11 => 30,
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        _ => 31,
    };
    let plausible = (1920..=2099).contains(&year) && (1..=12).contains(&month) && (1..=last).contains(&day);
    plausible.then(|| format!("{year:04}-{month:02}-{day:02}"))
}

/// Year first; months above twelve show that day and month are swapped.
fn year_first(year: u32, a: u32, b: u32) -> Option<String> {
    iso(year, a, b).or_else(|| iso(year, b, a))
}

/// `21st`, `5th`, `7`.
fn ordinal(low: &str) -> Option<u32> {
    let digits = low.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    (digits.len() <= 2 && matches!(&low[digits.len()..], "" | "st" | "nd" | "rd" | "th"))
        .then(|| digits.parse().ok())?
}

fn separator(gap: &str) -> bool {
    matches!(gap, "." | "-" | " " | "_" | "/")
}

fn at(name: &Name, token: usize) -> Option<Day> {
    let day = |to: usize, iso: String| Day { from: token, to, iso };
    let (one, two, three) = (name.number(token), name.number(token + 1), name.number(token + 2));
    if let Some((value, 8)) = one {
        return iso(value / 10_000, value / 100 % 100, value % 100).map(|iso| day(token + 1, iso));
    }
    let even = separator(name.gap(token + 1)) && name.gap(token + 1) == name.gap(token + 2);
    if let (true, Some((a, la)), Some((b, lb)), Some((c, lc))) = (even, one, two, three) {
        if (la, lb, lc) == (4, 2, 2) {
            return year_first(a, b, c).map(|iso| day(token + 3, iso));
        }
        if lc == 4 && la <= 2 && lb <= 2 && la == lb {
            return iso(c, b, a).or_else(|| iso(c, a, b)).map(|iso| day(token + 3, iso));
        }
    }
    let near = (1..3).all(|step| (1..=2).contains(&name.gap(token + step).len()));
    if near {
        let (a, b, c) = (name.low(token), name.low(token + 1), name.low(token + 2));
        if let Some((year, 4)) = name.number(token + 2) {
            let (month, date) = match (month_name(a), month_name(b)) {
                (Some(month), _) => (month, ordinal(b)),
                (_, Some(month)) => (month, ordinal(a)),
                _ => return None,
            };
            return iso(year, month, date?).map(|iso| day(token + 3, iso));
        }
        if let (Some((year, 4)), Some(month), Some(date)) = (one, month_name(b), ordinal(c)) {
            return iso(year, month, date).map(|iso| day(token + 3, iso));
        }
    }
    None
}

/// Every day in the name, in order.
pub(super) fn days(name: &Name) -> Vec<Day> {
    let mut days = Vec::new();
    let mut token = 0;
    while token < name.tokens.len() {
        match at(name, token) {
            Some(day) => {
                token = day.to;
                days.push(day);
            }
            None => token += 1,
        }
    }
    days
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(text: &str) -> Option<String> {
        days(&Name::new(text)).first().map(|day| day.iso.clone())
    }

    #[test]
    fn reads_days_in_the_common_orders() {
        assert_eq!(day("a.2011.11.15.b").as_deref(), Some("2011-11-15"));
        assert_eq!(day("a 2012.16.02").as_deref(), Some("2012-02-16"));
        assert_eq!(day("a - 15-11-2011").as_deref(), Some("2011-11-15"));
        assert_eq!(day("20161024- a").as_deref(), Some("2016-10-24"));
        assert_eq!(day("a 23rd Feb 2024").as_deref(), Some("2024-02-23"));
        assert_eq!(day("a.July.30.2021").as_deref(), Some("2021-07-30"));
    }

    #[test]
    fn refuses_days_that_do_not_exist() {
        assert_eq!(day("a 2005.11.70"), None);
        assert_eq!(day("a 2023-02-29"), None);
        assert_eq!(day("a 1.2.3"), None);
    }

    #[test]
    fn an_old_year_counts_only_in_brackets() {
        assert_eq!(year(&Name::new("(1897)"), 0), Some(1897));
        assert_eq!(year(&Name::new("1897"), 0), None);
        assert_eq!(year(&Name::new("2049"), 0), None);
    }
}
