//! The form of a title that sorts as people look for it.

/// `The Harbour` -> `harbour`; numbers sort by value; accents do not separate.
pub(crate) fn sort_title(title: &str) -> String {
    let lower = title.to_lowercase();
    let lower = lower.trim_start_matches(|c: char| !c.is_alphanumeric());
    let stripped = ["the ", "an ", "a "]
        .iter()
        .find_map(|article| lower.strip_prefix(article).map(str::trim_start).filter(|rest| !rest.is_empty()));
    let mut out = String::with_capacity(title.len() + 8);
    let mut digits = String::new();
    for c in stripped.unwrap_or(lower).chars() {
        if c.is_ascii_digit() {
            digits.push(c);
            continue;
        }
        push_number(&mut out, &mut digits);
        if let Some(plain) = plain(c) {
            out.push_str(plain);
        } else {
            out.push(c);
        }
    }
    push_number(&mut out, &mut digits);
    out
}

/// The form of a title by which two names are taken for the same work: letters and digits alone,
/// lower case, without marks. A title without any keeps itself.
pub(crate) fn same_work(title: &str) -> String {
    let mut out = String::with_capacity(title.len());
    for c in title.to_lowercase().chars().filter(|c| c.is_alphanumeric()) {
        match plain(c) {
            Some(plain) => out.push_str(plain),
            None => out.push(c),
        }
    }
    if out.is_empty() { title.trim().to_owned() } else { out }
}

/// Pads to eight digits, so that 2 comes before 10.
fn push_number(out: &mut String, digits: &mut String) {
    if !digits.is_empty() {
        for _ in digits.len()..8 {
            out.push('0');
        }
        out.push_str(digits);
        digits.clear();
    }
}

/// Latin letters without their marks (the letters of Unicode's Latin-1 Supplement and the common
/// ones of Latin Extended-A); others stay and sort by code point.
fn plain(c: char) -> Option<&'static str> {
    Some(match c {
        'à'..='å' | 'ā' | 'ă' | 'ą' => "a",
        'æ' => "ae",
        'ç' | 'ć' | 'č' => "c",
        'ď' | 'đ' => "d",
        'è'..='ë' | 'ē' | 'ė' | 'ę' | 'ě' => "e",
        'ğ' => "g",
        'ì'..='ï' | 'ī' | 'ı' => "i",
        'ł' => "l",
        'ñ' | 'ń' | 'ň' => "n",
        'ò'..='ö' | 'ø' | 'ō' | 'ő' => "o",
        'œ' => "oe",
        'ř' => "r",
        'ś' | 'ş' | 'š' => "s",
        'ß' => "ss",
        'ť' | 'ţ' => "t",
        'ù'..='ü' | 'ū' | 'ů' | 'ű' => "u",
        'ý' | 'ÿ' => "y",
        'ź' | 'ż' | 'ž' => "z",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::{same_work, sort_title};

    #[test]
    fn spelling_does_not_separate_a_work() {
        assert_eq!(same_work("Amélie: The Film!"), same_work("amelie.the.film"));
        assert_ne!(same_work("Alien"), same_work("Aliens"));
        assert_eq!(same_work("!!!"), "!!!");
    }

    #[test]
    fn titles_sort_as_people_look_for_them() {
        let mut titles = ["Über 10", "The Über 9", "A", "An Island", "Zebra", "\"Quoted\"", "Élan"];
        titles.sort_by_key(|t| sort_title(t));
        assert_eq!(titles, ["A", "Élan", "An Island", "\"Quoted\"", "The Über 9", "Über 10", "Zebra"]);
    }
}
