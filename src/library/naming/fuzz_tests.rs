//! Whatever a name is, it is read without a panic and in bounded time.

use proptest::prelude::*;

use super::group::group;
use super::{Hint, KIND_WORDS, identify_beside, identify_line};

fn every_way(path: &str) {
    for kind in KIND_WORDS.iter().copied().map(Some).chain([None, Some("nonsense")]) {
        let line = identify_line(path, kind);
        assert!(line.starts_with(path) && line.as_bytes()[path.len()] == b'\t');
    }
    for hint in [Hint::Movie, Hint::Tv, Hint::Mixed] {
        let items = group(&[path, "Show/Show - S01E01 part1.mkv", path], hint);
        assert!(items.iter().all(|item| item.versions.iter().all(|version| !version.parts.is_empty())));
    }
    let _ = identify_beside(path, path.split('.').next().unwrap_or(""));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_breaks_the_reading(path in "\\PC{0,120}") {
        every_way(&path);
    }

    #[test]
    fn no_mix_of_the_forms_breaks_the_reading(pieces in prop::collection::vec(prop::sample::select(vec![
        "S01", "E02", "s1e1", "1x02", "-", ".", " ", "_", "[", "]", "(", ")", "{", "}", "2012", "720p", "第", "話", "12", "Part", "cd1", "of", "~", "&", "Season", "сезон", "\u{301}", "İ", "ß",
        "１２", "【", "】", "x264", "DTS", "French", "/", "\\", "'", "3d", "sbs", "trailer", ".mkv", ".srt", ".mp3", "edition", "-f01-", "-x02-", "www", "v2", "e", "ª", "99999999999", "Ep", "#",
    ]), 0..24)) {
        every_way(&pieces.concat());
    }
}

#[test]
fn huge_names_cost_no_more_than_long_ones() {
    for piece in [
        "(",
        "[a]",
        "S01E01",
        "extended fr ",
        "e01",
        "2012.",
        "OP.",
        "a/",
        "()",
        "1-",
        "x",
        "'",
        "第1話",
        "-f01-",
        "\u{301}",
    ] {
        every_way(&piece.repeat(10_240 / piece.len()));
    }
}
