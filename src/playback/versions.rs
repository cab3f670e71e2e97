//! Which version of a title plays when the viewer named none.
//!
//! Each version is decided as if it were alone; then, in order:
//! 1. one that can be played before one that is refused or not there;
//! 2. the plain edition before others: a director's cut is another film, and is asked for;
//! 3. the largest picture that the client gets, in classes of lines, but no re-encoded one where one of
//!    at least half its lines needs no encoding: a 1080p file that plays as it is looks better on a
//!    1080p set than a 2160p file squeezed in real time, and a 480p one does not;
//! 4. the lighter method: as it is, repacked, re-encoded;
//! 5. the higher bitrate that reaches the client; then the library's order.

use spindle_media::info::MediaInfo;

use crate::choose::Choice;
use crate::decide::{Action, Decider, Decision, Method};

/// One version, as the library has it.
#[derive(Debug, Clone, Copy)]
pub struct Version<'a> {
    /// What is known of its (first) file; `None` while nobody has looked.
    pub info: Option<&'a MediaInfo>,
    /// Whether its files are there and can be read.
    pub available: bool,
    /// Whether it is an edition of its own.
    pub edition: bool,
}

/// The position of the version to play; `None` when there is none.
#[must_use]
pub fn choose(decider: &Decider, versions: &[Version<'_>], choice: &Choice) -> Option<usize> {
    let decided: Vec<Option<Decision>> =
        versions.iter().map(|v| v.info.map(|info| decider.decide(info, choice))).collect();
    let facts: Vec<Facts> = versions.iter().zip(&decided).map(|(v, d)| Facts::of(v, d.as_ref())).collect();
    // Of those that could be played at all, the best that needs no encoding.
    let plain = facts.iter().filter(|f| f.playable && !f.encoded && !f.edition).map(|f| f.lines).max();
    let order = |f: &Facts| {
        let squeezed = f.encoded && plain.is_some_and(|p| p * 2 >= f.lines);
        (f.playable, !f.edition, !squeezed, class(f.lines), std::cmp::Reverse(f.method), f.bitrate_bps)
    };
    let mut best: Option<usize> = None;
    for (n, f) in facts.iter().enumerate() {
        if best.is_none_or(|b| order(f) > order(&facts[b])) {
            best = Some(n);
        }
    }
    best
}

#[derive(Debug)]
struct Facts {
    playable: bool,
    edition: bool,
    encoded: bool,
    lines: u32,
    method: Method,
    bitrate_bps: u64,
}

impl Facts {
    fn of(version: &Version<'_>, decision: Option<&Decision>) -> Self {
        let picture = version.info.and_then(MediaInfo::main_video).map(|(_, v)| v.shown_size());
        let verdict = decision.and_then(|d| d.video.as_ref());
        // Lines of a picture lying down: an upright film is not larger for it.
        let limits = verdict.map_or((None, None), |v| (v.max_width, v.max_height));
        let (w, h) = picture.unwrap_or((0, 0));
        let (w, h) = (w.min(limits.0.unwrap_or(w)), h.min(limits.1.unwrap_or(h)));
        let source = version.info.and_then(|i| i.bitrate_bps).unwrap_or(0);
        Self {
            playable: version.available && decision.is_none_or(|d| d.refusal.is_none()),
            edition: version.edition,
            encoded: verdict.is_some_and(|v| v.action == Action::Encode),
            // A wide film of 1920x800 is one of 1080 lines.
            lines: w.min(h).max(w.max(h) * 9 / 16),
            method: decision.map_or(Method::DirectPlay, |d| d.method),
            bitrate_bps: verdict.and_then(|v| v.max_bitrate_bps).map_or(source, |limit| limit.min(source)),
        }
    }
}

/// Lines in the classes that people name: 352 lines and 360 are one, 1072 and 1080 too.
fn class(lines: u32) -> u32 {
    match lines {
        0..=400 => 0,
        401..=640 => 1,
        641..=900 => 2,
        901..=1300 => 3,
        1301..=1800 => 4,
        _ => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin;
    use crate::decide::samples::{audio, file, video};

    fn film(codec: &str, profile: &str, height: u32, mbps: u64) -> MediaInfo {
        let picture = video(codec, profile, |v| {
            (v.width, v.height) = (height * 16 / 9, height);
            v.level = None;
        });
        let mut info = file("mp4", &[picture, audio(1, "aac", 2)]);
        info.bitrate_bps = Some(mbps * 1_000_000);
        info
    }

    fn pick(client: &str, films: &[&MediaInfo]) -> Option<usize> {
        let versions: Vec<Version<'_>> =
            films.iter().map(|f| Version { info: Some(f), available: true, edition: false }).collect();
        choose(&Decider::new(&builtin(client).unwrap()), &versions, &Choice::default())
    }

    #[test]
    fn the_largest_that_plays_as_it_is_wins() {
        let (small, large) = (film("h264", "High", 720, 4), film("h264", "High", 1080, 8));
        assert_eq!(pick("chrome", &[&small, &large]), Some(1));
        assert_eq!(pick("chrome", &[&large, &small]), Some(0));
    }

    #[test]
    fn a_version_that_plays_as_it_is_goes_before_a_larger_one_that_is_re_encoded() {
        let (avc, hevc) = (film("h264", "High", 1080, 8), film("hevc", "Main", 2160, 20));
        assert_eq!(pick("chrome", &[&hevc, &avc]), Some(1));
        assert_eq!(pick("apple-tv", &[&hevc, &avc]), Some(0));
        // Less than half the lines: re-encoding gives more.
        let poor = film("h264", "High", 480, 1);
        assert_eq!(pick("chrome", &[&poor, &hevc]), Some(1));
    }

    #[test]
    fn of_equal_pictures_the_lighter_way_and_then_the_higher_bitrate_wins() {
        let (mp4, mut mkv) = (film("h264", "High", 1080, 8), film("h264", "High", 1080, 8));
        mkv.container = "avi".to_owned();
        assert_eq!(pick("safari", &[&mkv, &mp4]), Some(1));
        let better = film("h264", "High", 1080, 12);
        assert_eq!(pick("safari", &[&mp4, &better]), Some(1));
        assert_eq!(pick("safari", &[&mp4, &mp4]), Some(0), "the library's order among equals");
    }

    #[test]
    fn a_limit_makes_the_smaller_version_the_better_one() {
        let (small, large) = (film("h264", "High", 1080, 8), film("h264", "High", 2160, 40));
        let versions = [&large, &small].map(|f| Version { info: Some(f), available: true, edition: false });
        let choice = Choice { max_bitrate_bps: Some(10_000_000), ..Choice::default() };
        let chrome = Decider::new(&builtin("chrome").unwrap());
        assert_eq!(choose(&chrome, &versions, &choice), Some(1));
        assert_eq!(choose(&chrome, &versions, &Choice::default()), Some(0));
    }

    #[test]
    fn what_is_missing_or_another_edition_comes_last() {
        let f = film("h264", "High", 1080, 8);
        let large = film("h264", "High", 2160, 8);
        let chrome = Decider::new(&builtin("chrome").unwrap());
        let version = |info, available, edition| Version { info: Some(info), available, edition };
        let pick = |list: &[Version<'_>]| choose(&chrome, list, &Choice::default());
        assert_eq!(pick(&[version(&large, false, false), version(&f, true, false)]), Some(1));
        assert_eq!(pick(&[version(&large, true, true), version(&f, true, false)]), Some(1));
        assert_eq!(pick(&[version(&f, false, false), version(&large, true, true)]), Some(1));
        assert_eq!(pick(&[]), None);
        let unknown = Version { info: None, available: true, edition: false };
        assert_eq!(pick(&[unknown]), Some(0));
    }
}
