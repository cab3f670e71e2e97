//! The tables of public facts about names, scored by the rules they came with, against floors: a
//! change that reads fewer of them right fails here.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::group::{Item, group};
use super::{Hint, identify_line, titles};

const NAMES: &str = include_str!("../../../tests/fixtures/naming/naming-given.tsv");
const GROUPS: &str = include_str!("../../../tests/fixtures/naming/naming-groups-given.tsv");

const COLUMNS: [&str; 21] = [
    "title",
    "year",
    "season",
    "ep_first",
    "ep_last",
    "absolute",
    "abs_last",
    "date",
    "ep_title",
    "part",
    "edition",
    "extra",
    "stereo",
    "lang",
    "flags",
    "artist",
    "album",
    "disc",
    "track",
    "provider_id",
    "of",
];
const CORE: [&str; 9] =
    ["title", "year", "season", "ep_first", "ep_last", "absolute", "date", "part", "extra"];

fn rows(table: &'static str) -> Vec<HashMap<&'static str, &'static str>> {
    let mut lines = table.lines();
    let head: Vec<&str> = lines.next().unwrap().split('\t').collect();
    lines.map(|line| head.iter().copied().zip(line.split('\t')).collect()).collect()
}

/// Case, separators and punctuation do not count.
fn norm(text: &str) -> String {
    let text: String = text
        .chars()
        .filter(|c| !matches!(c, '\'' | '’' | '`'))
        .flat_map(char::to_lowercase)
        .collect::<String>()
        .replace('&', " and ");
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

fn without_year(text: &str) -> &str {
    match text.rsplit_once(' ') {
        Some((head, year)) if year.len() == 4 && (year.starts_with("19") || year.starts_with("20")) => head,
        _ => text,
    }
}

fn terminology(code: &str) -> &str {
    match code {
        "fre" => "fra",
        "ger" => "deu",
        "chi" => "zho",
        code => code,
    }
}

fn edition_words(text: &str) -> Vec<String> {
    let left =
        |word: &&str| !matches!(*word, "edition" | "cut" | "version" | "the" | "remaster" | "collector");
    norm(text)
        .split(' ')
        .map(|word| word.strip_suffix('s').unwrap_or(word))
        .filter(left)
        .map(str::to_owned)
        .collect()
}

fn right(column: &str, want: &str, found: &Map<String, Value>) -> bool {
    let get = |column: &str| found.get(column).filter(|value| !value.is_null()).cloned();
    let seasonless = get("season").is_none();
    let got = match column {
        "absolute" => get(column).or_else(|| get("ep_first").filter(|_| seasonless)),
        "abs_last" => get(column).or_else(|| get("ep_last").filter(|_| seasonless)),
        "ep_first" => get(column).or_else(|| get("absolute")),
        "ep_last" => {
            get(column).or_else(|| get("ep_first")).or_else(|| get("abs_last")).or_else(|| get("absolute"))
        }
        _ => get(column),
    };
    let Some(got) = got else { return want == "!" };
    let text = got.as_str().map_or_else(|| got.to_string(), str::to_owned);
    match column {
        _ if want == "!" => column == "stereo" && text == "3d",
        "title" => {
            let (want, got) = (norm(want), norm(&text));
            let dated = get("year").map(|year| format!("{got} {year}"));
            [Some(got), dated].into_iter().flatten().any(|form| form == want || form == without_year(&want))
        }
        "lang" => terminology(&text) == terminology(want),
        "flags" => {
            let mut flags: Vec<String> =
                got.as_array().unwrap().iter().map(|flag| flag.as_str().unwrap().to_owned()).collect();
            let mut wanted: Vec<String> = want.split(' ').map(str::to_owned).collect();
            flags.sort();
            wanted.sort();
            flags == wanted
        }
        "edition" => {
            norm(&text) == norm(want)
                || edition_words(&text).iter().any(|word| edition_words(want).contains(word))
        }
        "year" | "season" | "ep_first" | "ep_last" | "absolute" | "abs_last" | "part" | "disc" | "track" => {
            want.parse::<u64>().ok() == got.as_u64()
        }
        // The film's extension is not in the side file's name.
        "of" => want.rsplit_once('.').is_some_and(|(stem, _)| stem == text),
        _ => norm(&text) == norm(want),
    }
}

/// Shares of cases with every asked column right: all columns, the core columns, and the core
/// without the cases of one source.
fn score() -> (f64, f64, f64) {
    let (mut all, mut core, mut others) = ((0u32, 0u32), (0u32, 0u32), (0u32, 0u32));
    for row in rows(NAMES) {
        let line = identify_line(row["path"], Some(row["kind"]));
        let (path, json) = line.rsplit_once('\t').unwrap();
        assert_eq!(path, row["path"]);
        let found: Map<String, Value> = serde_json::from_str(json).unwrap();
        let asked = |columns: &[&'static str]| -> Vec<bool> {
            columns
                .iter()
                .filter(|column| row.get(*column).is_some_and(|want| !want.is_empty()))
                .map(|column| right(column, row[column], &found))
                .collect()
        };
        let tally = |(right, asked): (u32, u32), verdicts: &[bool]| {
            (right + u32::from(verdicts.iter().all(|right| *right)), asked + 1)
        };
        all = tally(all, &asked(&COLUMNS[..20]));
        let verdicts = asked(&CORE);
        if !verdicts.is_empty() {
            core = tally(core, &verdicts);
            if row["source"] != "guessit" {
                others = tally(others, &verdicts);
            }
        }
    }
    let share = |(right, asked): (u32, u32)| f64::from(right) / f64::from(asked);
    (share(all), share(core), share(others))
}

#[test]
fn the_table_of_names_is_read_as_well_as_before() {
    let (all, core, others) = score();
    let figures = format!("all {all:.4}, core {core:.4}, core of the other sources {others:.4}");
    assert!(all >= FLOOR_ALL && core >= FLOOR_CORE && others >= FLOOR_OTHERS, "{figures}");
}

/// What was reached; raise these with the reading, never lower them.
const FLOOR_ALL: f64 = 0.9704;
const FLOOR_CORE: f64 = 0.9718;
const FLOOR_OTHERS: f64 = 0.9743;

#[test]
fn side_files_say_whose_they_are() {
    let (mut right_ones, mut asked) = (0u32, 0u32);
    for row in rows(NAMES) {
        if row["kind"] != "subtitle" {
            continue;
        }
        let line = identify_line(row["path"], Some("subtitle"));
        let found: Map<String, Value> = serde_json::from_str(line.rsplit_once('\t').unwrap().1).unwrap();
        asked += 1;
        right_ones += u32::from(right("of", row["of"], &found));
        // With the film known there is nothing to guess.
        let name = |path: &str| path.rsplit('/').next().unwrap().to_owned();
        let film = name(row["of"]);
        let beside = super::identify_beside(&name(row["path"]), film.rsplit_once('.').unwrap().0).unwrap();
        let beside: Map<String, Value> =
            serde_json::from_value(serde_json::to_value(beside).unwrap()).unwrap();
        for column in ["title", "lang", "flags"] {
            assert!(
                row[column].is_empty() || right(column, row[column], &beside),
                "{} {column}: {:?}",
                row["path"],
                beside.get(column)
            );
        }
    }
    assert!(right_ones + 2 >= asked, "{right_ones} of {asked}");
}

fn group_is_right(row: &HashMap<&'static str, &'static str>) -> bool {
    let files: Vec<&str> = row["files"].split(" | ").collect();
    let hint = if row["library"] == "tv" { Hint::Tv } else { Hint::Movie };
    let items = group(&files, hint);
    let wanted: usize = row["items"].parse().unwrap();
    let films: Vec<&Item> = items.iter().filter(|item| item.extra.is_none()).collect();
    match row["kind"] {
        "parts" => {
            let stacks: Vec<_> = films
                .iter()
                .flat_map(|item| item.versions.iter().filter(|version| version.parts.len() > 1))
                .collect();
            let sizes = row["detail"]
                .split("; ")
                .filter(|one| !one.is_empty())
                .map(|one| one.rsplit_once('=').unwrap().1.parse::<usize>().unwrap());
            stacks.len() == wanted && stacks.iter().map(|version| version.parts.len()).eq(sizes)
        }
        "list" => items.len() == wanted,
        // The sources count extras in some lists of versions and not in others.
        _ => {
            let alternates =
                row["detail"].strip_prefix("first_item_alternates=").map(|n| n.parse::<usize>().unwrap());
            (films.len() == wanted || items.len() == wanted)
                && alternates.is_none_or(|n| films[0].versions.len() == n + 1)
        }
    }
}

#[test]
fn the_table_of_groups_is_gathered_right() {
    let wrong: Vec<&str> =
        rows(GROUPS).iter().filter(|row| !group_is_right(row)).map(|row| row["id"]).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn titles_are_written_without_the_separators_of_files() {
    for row in rows(NAMES) {
        let line = identify_line(row["path"], Some(row["kind"]));
        let found: Map<String, Value> = serde_json::from_str(line.rsplit_once('\t').unwrap().1).unwrap();
        let Some(title) = found.get("title").and_then(Value::as_str).filter(|_| row["kind"] != "subtitle")
        else {
            continue;
        };
        assert!(!title.contains('_') && !title.contains("  ") && title.trim() == title, "{title:?}");
        assert_eq!(titles::tidy(title), title, "tidying twice changes nothing");
    }
}
