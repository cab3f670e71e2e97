//! Subtitle files beside films: which film, which language, which marks.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use super::identify::stem;
use super::walk::{Class, Seen, extension};
use crate::naming::{self, Flag};
use crate::repo::files::SideSubtitle;

/// A subtitle file and the film file that it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Attached {
    pub(super) root: i64,
    pub(super) path: PathBuf,
    /// The film's file; `None`: belongs to nothing here.
    pub(super) film: Option<PathBuf>,
    pub(super) side: SideSubtitle,
}

/// Folders of subtitles inside a film's folder.
fn is_subtitle_folder(name: &str) -> bool {
    matches!(name.to_lowercase().as_str(), "subs" | "sub" | "subtitles" | "subtitle")
}

/// FFmpeg's codec name by the file's extension. A `.sub` beside an `.idx` is its data.
fn codec(path: &Path, names: &HashSet<&Path>) -> Option<&'static str> {
    Some(match extension(path).as_str() {
        "srt" => "subrip",
        "vtt" => "webvtt",
        "ass" | "ssa" => "ass",
        "idx" => "dvd_subtitle",
        "sup" => "hdmv_pgs_subtitle",
        "sub" if names.contains(path.with_extension("idx").as_path()) => return None,
        "sub" => "microdvd",
        _ => return None,
    })
}

/// Finds the film of every subtitle file in `seen`.
pub(super) fn attach(seen: &[Seen]) -> Vec<Attached> {
    let mut films: BTreeMap<(i64, &Path), Vec<&Path>> = BTreeMap::new();
    for file in seen.iter().filter(|s| s.class == Class::Video) {
        films.entry((file.root, file.path.parent().unwrap_or(Path::new("")))).or_default().push(&file.path);
    }
    let names: HashSet<&Path> =
        seen.iter().filter(|s| s.class == Class::Subtitle).map(|s| s.path.as_path()).collect();
    seen.iter()
        .filter(|s| s.class == Class::Subtitle)
        .filter_map(|s| {
            let codec = codec(&s.path, &names)?;
            let (film, identity) = film_of(s, &films);
            Some(Attached {
                root: s.root,
                path: s.path.clone(),
                film: film.map(Path::to_owned),
                side: SideSubtitle {
                    codec: codec.to_owned(),
                    language: identity.lang,
                    default: identity.flags.contains(&Flag::Default),
                    forced: identity.flags.contains(&Flag::Forced),
                    hearing_impaired: identity.flags.contains(&Flag::Hi),
                },
            })
        })
        .collect()
}

fn film_of<'a>(
    file: &Seen,
    films: &BTreeMap<(i64, &Path), Vec<&'a Path>>,
) -> (Option<&'a Path>, naming::Identity) {
    let folder = file.path.parent().unwrap_or(Path::new(""));
    let name = file.path.file_name().unwrap_or_default().to_string_lossy();
    let mut at = Some(folder);
    // In its folder, or in the one above a folder of subtitles (`Subs/`, `Subs/<episode>/`).
    for level in 0..3 {
        let Some(here) = at else { break };
        let beside = films.get(&(file.root, here)).map(Vec::as_slice).unwrap_or_default();
        // The longest name that fits: `Film 2.en.srt` is not of `Film`.
        let named = beside
            .iter()
            .filter_map(|film| Some((*film, naming::identify_beside(&name, &stem(film))?)))
            .max_by_key(|(film, _)| film.as_os_str().len());
        if let Some((film, identity)) = named {
            return (Some(film), identity);
        }
        if level > 0 {
            let inside = folder.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            // `Subs/Show.S01E01/2_English.srt`
            let by_folder = beside.iter().find(|film| stem(film) == inside);
            let only = (beside.len() == 1).then(|| &beside[0]);
            if let Some(film) = by_folder.or(only) {
                let named = naming::identify(&file.path.to_string_lossy(), naming::Hint::Movie);
                let identity = if named.lang.is_some() { named } else { naming::identify_alone(&name) };
                return (Some(film), identity);
            }
        }
        let inside_subs = here.iter().next_back().is_some_and(|n| is_subtitle_folder(&n.to_string_lossy()));
        let above_subs =
            here.parent().and_then(Path::file_name).is_some_and(|n| is_subtitle_folder(&n.to_string_lossy()));
        at = if inside_subs || (level == 0 && above_subs) { here.parent() } else { None };
    }
    (None, naming::identify(&file.path.to_string_lossy(), naming::Hint::Movie))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(path: &str) -> Seen {
        let class = if path.ends_with(".mkv") { Class::Video } else { Class::Subtitle };
        Seen { root: 1, path: path.into(), class, size_bytes: 1, mtime_ns: 0, ino: 0, dev: 0 }
    }

    #[test]
    fn subtitle_files_find_their_film() {
        let files = [
            "F (1960)/F (1960).mkv",
            "F (1960)/F (1960).en.forced.srt",
            "F (1960)/Unrelated.srt",
            "F (1960)/F (1960).idx",
            "F (1960)/F (1960).sub",
            "G (1961)/G (1961).mkv",
            "G (1961)/Subs/2_English.srt",
            "F (1960)/F (1960) Reborn.srt",
        ];
        let seen: Vec<Seen> = files.iter().map(|f| seen(f)).collect();
        let out = attach(&seen);
        let of = |name: &str| out.iter().find(|a| a.path.ends_with(name)).map(|a| a.film.clone());
        let f = Some(PathBuf::from("F (1960)/F (1960).mkv"));
        assert_eq!(of("F (1960).en.forced.srt"), Some(f.clone()));
        assert_eq!(of("Unrelated.srt"), Some(None));
        assert_eq!(of("F (1960).idx"), Some(f));
        assert_eq!(of("F (1960).sub"), None, "the data of the .idx");
        assert_eq!(of("2_English.srt"), Some(Some(PathBuf::from("G (1961)/G (1961).mkv"))));
        assert_eq!(of("F (1960) Reborn.srt"), Some(None));
        let english = out.iter().find(|a| a.path.ends_with("2_English.srt")).unwrap();
        assert_eq!(english.side.language.as_deref(), Some("eng"));
        let forced = out.iter().find(|a| a.path.ends_with("F (1960).en.forced.srt")).unwrap();
        assert_eq!((forced.side.language.as_deref(), forced.side.forced), (Some("eng"), true));
    }
}
