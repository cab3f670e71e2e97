//! Side files: language, marks, the film they belong to.

use super::tokens;
use super::vocabulary;
use super::{Flag, Identity};

/// A mark by its folded word. `hi` is Hindi too: a mark only beside another language.
fn flag(low: &str) -> Option<Flag> {
    Some(match low {
        "default" => Flag::Default,
        "forced" | "foreign" => Flag::Forced,
        "sdh" | "cc" | "hi" => Flag::Hi,
        _ => return None,
    })
}

/// Language of one word: `en`, `eng`, `English`, `pt-BR`, `zh_TW`, `sr-Latn`, `es-419`.
fn language(word: &str) -> Option<&'static str> {
    let low = tokens::fold(word);
    if low.starts_with("zh") && low.len() <= 7 || matches!(low.as_str(), "chs" | "cht") {
        return Some("zho");
    }
    if let Some(code) = vocabulary::language(&low) {
        return Some(code);
    }
    let (code, region) = low.split_once(['-', '_'])?;
    let fits = (2..=4).contains(&region.len()) && region.bytes().all(|b| b.is_ascii_alphanumeric());
    (fits && (2..=3).contains(&code.len())).then(|| vocabulary::language(code))?
}

/// Splits the words behind a film's name into marks, language and title.
fn read(words: &[&str]) -> Identity {
    let mut identity = Identity::default();
    let languages = words.iter().filter(|word| language(word).is_some()).count();
    let mut title: Vec<&str> = Vec::new();
    for word in words.iter().rev() {
        let low = tokens::fold(word);
        let mark = flag(&low).filter(|mark| *mark != Flag::Hi || low != "hi" || languages > 1);
        if let Some(mark) = mark {
            if !identity.flags.contains(&mark) {
                identity.flags.insert(0, mark);
            }
        } else if let Some(code) = language(word).filter(|_| identity.lang.is_none()) {
            identity.lang = Some(code.to_owned());
        } else {
            title.insert(0, word);
        }
    }
    identity.title = (!title.is_empty()).then(|| title.join("."));
    identity
}

/// A side file whose film's name (without extension) is known.
pub(super) fn beside(file_name: &str, film: &str) -> Option<Identity> {
    let stem = vocabulary::split_extension(file_name).0;
    let rest = stem.strip_prefix(film)?;
    if rest.is_empty() {
        return Some(Identity::default());
    }
    let dotted = rest.starts_with('.');
    let rest = rest.trim_start_matches([' ', '.', '_', '-']);
    let words: Vec<&str> = rest.split('.').map(str::trim).filter(|word| !word.is_empty()).collect();
    // Without a dot it is of this film only where nothing but marks and languages follow: `Film Reborn.srt` is another's.
    let known = |word: &&str| flag(&tokens::fold(word)).is_some() || language(word).is_some();
    (dotted || words.iter().all(known)).then(|| read(&words))
}

/// A side file in a folder of its film's subtitles, named for its language alone: `2_English.srt`, `English.forced.srt`.
pub(super) fn alone(file_name: &str) -> Identity {
    let stem = vocabulary::split_extension(file_name).0;
    let numbered = |word: &str| word.bytes().all(|b| b.is_ascii_digit());
    let words: Vec<&str> =
        stem.split(['.', '_', ' ']).filter(|word| !word.is_empty() && !numbered(word)).collect();
    read(&words)
}

/// A side file by its name alone: the words at its end that are marks and languages, and what
/// stands among them, are not of the film's name.
pub(super) fn identify(path: &str) -> Identity {
    let split = path.rfind(['/', '\\']).map_or(0, |at| at + 1);
    let (folder, file_name) = path.split_at(split);
    let stem = vocabulary::split_extension(file_name).0;
    let words: Vec<&str> = stem.split('.').collect();
    let known = |word: &str| flag(&tokens::fold(word)).is_some() || language(word).is_some();
    // The first word is the film's, whatever it says; so is a word before the year's end.
    let sentence =
        |at: usize| words[at].trim().contains(' ') && !words[..at].iter().any(|word| word.contains(' '));
    let first = (1..words.len())
        .find(|&at| known(words[at]) && words[at..].iter().all(|word| !word.contains('(')) || sentence(at));
    // Only near the end: a language early in a long name is the film's.
    let near = |at: usize| words.len() - at <= 4;
    let first = first
        .filter(|&at| near(at))
        .or_else(|| (1..words.len()).rev().take_while(|&at| known(words[at])).last());
    let Some(mut first) = first else {
        return Identity { of: Some(format!("{folder}{stem}")), ..Identity::default() };
    };
    // A title of the track before its language, written small behind a film written large.
    let capital = |word: &str| word.starts_with(char::is_uppercase);
    if first > 2
        && !capital(words[first - 1])
        && words[..first - 1].iter().all(|word| capital(word))
        && language(words[words.len() - 1]).is_some()
    {
        first -= 1;
    }
    let mut identity = read(&words[first..]);
    identity.of = Some(format!("{folder}{}", words[..first].join(".")));
    identity
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_and_language_stand_behind_the_name_of_the_film() {
        let found = identify("M/Glass Harbor (2009)/Glass Harbor (2009).pt-br.forced.ass");
        assert_eq!(
            (found.lang.as_deref(), found.flags, found.of.as_deref()),
            (Some("por"), vec![Flag::Forced], Some("M/Glass Harbor (2009)/Glass Harbor (2009)"))
        );
    }

    #[test]
    fn hi_is_hindi_alone_and_a_mark_beside_a_language() {
        assert_eq!(identify("A.hi.srt").lang.as_deref(), Some("hin"));
        let found = identify("A.en.hi.srt");
        assert_eq!((found.lang.as_deref(), found.flags), (Some("eng"), vec![Flag::Hi]));
    }

    #[test]
    fn beside_a_known_film_nothing_is_guessed() {
        let found = beside("My.Video.Title.with.Separator.srt", "My.Video").unwrap();
        assert_eq!((found.title.as_deref(), found.lang), (Some("Title.with.Separator"), None));
        assert_eq!(beside("Other.srt", "My.Video"), None);
    }

    #[test]
    fn without_a_dot_only_marks_and_languages_may_follow_the_films_name() {
        assert_eq!(beside("F (1960) Unrelated.srt", "F (1960)"), None);
        assert_eq!(beside("F (1960) II.en.srt", "F (1960)"), None);
        let found = beside("F (1960)-en.forced.srt", "F (1960)").unwrap();
        assert_eq!((found.lang.as_deref(), found.flags), (Some("eng"), vec![Flag::Forced]));
    }

    #[test]
    fn a_file_among_subtitles_is_named_for_its_language_alone() {
        for (name, lang) in [
            ("2_English.srt", Some("eng")),
            ("English.srt", Some("eng")),
            ("3_pt-BR.srt", Some("por")),
            ("x.srt", None),
        ] {
            assert_eq!(alone(name).lang.as_deref(), lang, "{name}");
        }
        assert_eq!(alone("4_French.forced.srt").flags, [Flag::Forced]);
    }
}
