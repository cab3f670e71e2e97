//! Numbers written as words or Roman numerals.

/// `III`, `ix`; one to thirty-nine, as parts and seasons go.
pub(super) fn roman(low: &str) -> Option<u32> {
    if low.is_empty() || low.len() > 7 {
        return None;
    }
    let digit = |c| match c {
        b'i' => Some(1u32),
        b'v' => Some(5),
        b'x' => Some(10),
        _ => None,
    };
    let digits: Vec<u32> = low.bytes().map(digit).collect::<Option<_>>()?;
    let mut total = 0i64;
    for (at, value) in digits.iter().enumerate() {
        let minus = digits.get(at + 1).is_some_and(|next| next > value);
        total += if minus { -i64::from(*value) } else { i64::from(*value) };
    }
    let total = u32::try_from(total).ok()?;
    // Written back it must be the same: `iiii` and `vx` are no numerals.
    let units = ["", "i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix"];
    let written = format!("{}{}", "x".repeat((total / 10) as usize), units[(total % 10) as usize]);
    (total > 0 && written == low).then_some(total)
}

/// `two`, `trois`, `zwei`.
pub(super) fn spelled(low: &str) -> Option<u32> {
    Some(match low {
        "one" | "un" | "une" | "eins" | "uno" | "first" => 1,
        "two" | "deux" | "zwei" | "dos" | "due" | "second" => 2,
        "three" | "trois" | "drei" | "tres" | "tre" | "third" => 3,
        "four" | "quatre" | "vier" | "cuatro" | "quattro" | "fourth" => 4,
        "five" | "cinq" | "funf" | "cinco" | "cinque" | "fifth" => 5,
        "six" | "sechs" | "seis" | "sei" | "sixth" => 6,
        "seven" | "sept" | "sieben" | "siete" | "sette" => 7,
        "eight" | "huit" | "acht" | "ocho" | "otto" => 8,
        "nine" | "neuf" | "neun" | "nueve" | "nove" => 9,
        "ten" | "dix" | "zehn" | "diez" | "dieci" => 10,
        _ => return None,
    })
}

/// `三`, `十二`, up to ninety-nine.
pub(super) fn chinese(text: &str) -> Option<u32> {
    let digit = |c| "一二三四五六七八九".chars().position(|d| d == c).map(|at| at as u32 + 1);
    let chars: Vec<char> = text.chars().take(4).collect();
    match chars.as_slice() {
        ['十'] => Some(10),
        [a] => digit(*a),
        ['十', b] => Some(10 + digit(*b)?),
        [a, '十'] => Some(digit(*a)? * 10),
        [a, '十', b] => Some(digit(*a)? * 10 + digit(*b)?),
        _ => None,
    }
}

/// Digits, numeral or word.
pub(super) fn any(low: &str) -> Option<u32> {
    if low.len() <= 4 && !low.is_empty() && low.bytes().all(|b| b.is_ascii_digit()) {
        return low.parse().ok();
    }
    roman(low).or_else(|| spelled(low))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_numerals_and_refuses_what_only_looks_like_one() {
        assert_eq!(
            [roman("iii"), roman("iv"), roman("xxii"), roman("iiii"), roman("vx"), roman("")],
            [Some(3), Some(4), Some(22), None, None, None]
        );
    }

    #[test]
    fn reads_number_words() {
        assert_eq!(
            (spelled("trois"), chinese("十二"), chinese("二"), any("07"), any("mix")),
            (Some(3), Some(12), Some(2), Some(7), None)
        );
    }
}
