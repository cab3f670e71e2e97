//! Trailers, samples and other extras, by name or by folder; and 3D layouts.

use super::Extra;
use super::tokens::{self, Name};

/// The extra that files in a folder of this name are.
pub(super) fn folder(name: &str) -> Option<Extra> {
    Some(match tokens::key(name).as_str() {
        "trailers" | "trailer" => Extra::Trailer,
        "samples" | "sample" => Extra::Sample,
        "scenes" => Extra::Scene,
        "clips" => Extra::Clip,
        "deletedscenes" => Extra::DeletedScene,
        "interviews" => Extra::Interview,
        "behindthescenes" => Extra::BehindTheScenes,
        "featurettes" => Extra::Featurette,
        "shorts" => Extra::Short,
        "extras" | "extra" | "other" | "others" | "bonus" | "bonusfeatures" | "specialfeatures" => {
            Extra::Extra
        }
        "thememusic" => Extra::ThemeSong,
        "backdrops" => Extra::ThemeVideo,
        _ => return None,
    })
}

fn word(low: &str) -> Option<Extra> {
    Some(match low.trim_end_matches(|c: char| c.is_ascii_digit()) {
        "trailer" => Extra::Trailer,
        "sample" => Extra::Sample,
        "scene" => Extra::Scene,
        "clip" => Extra::Clip,
        "deleted" | "deletedscene" | "deletedscenes" => Extra::DeletedScene,
        "interview" => Extra::Interview,
        "behindthescenes" => Extra::BehindTheScenes,
        "featurette" => Extra::Featurette,
        "short" => Extra::Short,
        "extra" | "extras" | "other" => Extra::Extra,
        _ => return None,
    })
}

/// The extra that a file's own name says, and the token its mark starts at. `stem` is without
/// extension.
pub(super) fn file(name: &Name, audio: bool) -> Option<(Extra, usize)> {
    let last = name.tokens.len().checked_sub(1)?;
    let low = name.low(last);
    if audio {
        return (last == 0 && low == "theme").then_some((Extra::ThemeSong, 0));
    }
    let extra = word(low)?;
    if !name.gap(last + 1).is_empty() {
        return None;
    }
    let common = matches!(extra, Extra::Trailer | Extra::Sample);
    if last == 0 {
        return (common && name.gap(0).is_empty()).then_some((extra, 0));
    }
    let gap = name.gap(last);
    let marked = gap.ends_with('-') && !gap.contains([' ', '_', '.'])
        || common && (gap.ends_with(['.', '_']) && !gap.contains(' ') || gap.contains('-'))
        || gap.contains('-') && low.len() > 8;
    marked.then_some((extra, last))
}

/// The bonus counter of some rippers: `-x02-Making_Of`. The token it starts at.
pub(super) fn bonus(name: &Name) -> Option<usize> {
    (1..name.tokens.len()).find(|&token| {
        let low = name.low(token);
        low.len() == 3
            && low.starts_with('x')
            && low[1..].bytes().all(|b| b.is_ascii_digit())
            && name.gap(token).ends_with('-')
            && name.gap(token + 1) == "-"
    })
}

/// The 3D layout that a name says.
pub(super) fn stereo(name: &Name) -> Option<&'static str> {
    let count = name.tokens.len();
    let three = (1..count).any(|token| name.low(token) == "3d");
    for token in 1..count {
        let layout = match name.low(token) {
            "hsbs" => "hsbs",
            "fsbs" => "fsbs",
            "htab" => "htab",
            "ftab" => "ftab",
            "hou" => "htab",
            "sbs3d" => "sbs3d",
            "half" | "h" if name.low(token + 1) == "sbs" => "hsbs",
            "half" | "h" if matches!(name.low(token + 1), "ou" | "tab") => "htab",
            // Short words that mean other things too: beside `3d`, in brackets or last.
            low @ ("sbs" | "tab" | "ou" | "mvc")
                if three || token + 1 == count && low != "ou" || name.alone_in_group(token) =>
            {
                match low {
                    "sbs" => "sbs",
                    "mvc" => "mvc",
                    _ => "tab",
                }
            }
            _ => continue,
        };
        return Some(layout);
    }
    // `3d` by itself: only where it is not a word of the title.
    let marked = |token: usize| {
        name.low(token) == "3d"
            && (token + 1 == count
                || name.alone_in_group(token)
                || super::dates::year(name, token + 1).is_some()
                || super::dates::year(name, token - 1).is_some())
    };
    (1..count).any(marked).then_some("3d")
}

/// Whether a word at the end of a name belongs to its 3D layout.
pub(super) fn is_layout(low: &str) -> bool {
    matches!(low, "3d" | "sbs" | "tab" | "ou" | "mvc" | "sbs3d" | "hsbs" | "fsbs" | "htab" | "ftab" | "hou")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(text: &str) -> Option<Extra> {
        file(&Name::new(text), false).map(|(extra, _)| extra)
    }

    #[test]
    fn an_extra_is_marked_at_the_end_of_the_name() {
        assert_eq!(own("300-scene2"), Some(Extra::Scene));
        assert_eq!(own("300_trailer"), Some(Extra::Trailer));
        assert_eq!(own("trailer"), Some(Extra::Trailer));
        assert_eq!(own("The Big Short"), None);
        assert_eq!(own("Trailer Park Nights (2011)"), None);
    }

    #[test]
    fn an_extra_is_told_by_its_folder() {
        assert_eq!(folder("Behind The Scenes"), Some(Extra::BehindTheScenes));
        assert_eq!(folder("not a scene"), None);
    }

    #[test]
    fn a_3d_layout_is_read_only_where_it_is_one() {
        assert_eq!(stereo(&Name::new("Super movie.3d.sbs")), Some("sbs"));
        assert_eq!(stereo(&Name::new("Super movie [hsbs]")), Some("hsbs"));
        assert_eq!(stereo(&Name::new("Show.Name.SBS.HDTV.x264-GRP")), None);
        assert_eq!(stereo(&Name::new("A Very 3D Christmas (2011)")), None);
    }
}
