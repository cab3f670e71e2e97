//! A scenario as timed actions of its viewers.

use serde::{Deserialize, Serialize};

/// What people do with a pool of films.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scenario {
    /// One film from its beginning.
    Single,
    /// One film, and four jumps in it.
    SkipAround,
    /// One film, three viewers at three places of it.
    OneFileThreeClients,
    /// Three films, of which one is converted while it plays.
    ThreeFilesOneTranscode,
}

impl Scenario {
    /// All of them, in the order in which they are run.
    pub const ALL: [Self; 4] =
        [Self::Single, Self::SkipAround, Self::OneFileThreeClients, Self::ThreeFilesOneTranscode];

    /// Its word on the command line and in records.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::SkipAround => "skip-around",
            Self::OneFileThreeClients => "one-file-three-clients",
            Self::ThreeFilesOneTranscode => "three-files-one-transcode",
        }
    }

    /// The scenario of that word.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.name() == name)
    }

    /// What happens in it, for people.
    #[must_use]
    pub fn about(self) -> &'static str {
        match self {
            Self::Single => "one film from its beginning",
            Self::SkipAround => "one film, and four jumps in it",
            Self::OneFileThreeClients => "one film, three viewers at three places of it",
            Self::ThreeFilesOneTranscode => "three films, of which the third is converted while it plays",
        }
    }

    /// How many films it needs.
    #[must_use]
    pub fn films(self) -> usize {
        match self {
            Self::Single | Self::SkipAround | Self::OneFileThreeClients => 1,
            Self::ThreeFilesOneTranscode => 3,
        }
    }

    /// How many of its viewers need a conversion.
    #[must_use]
    pub fn conversions(self) -> usize {
        usize::from(self == Self::ThreeFilesOneTranscode)
    }
}

/// How a viewer's bytes are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// The file as it is, by HTTP ranges.
    AsItIs,
    /// Converted, by HLS segments.
    Converted,
}

/// What a viewer does. Places are shares of the film, from 0 to less than 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Opens the film and plays from there.
    Play(f64),
    /// Leaves what is being fetched and plays from there.
    Jump(f64),
    /// Ends.
    Stop,
}

/// An action and its time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Milliseconds since the scenario began.
    pub at_ms: u64,
    /// What.
    pub action: Action,
}

/// One viewer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Viewer {
    /// Which of the films, from 0.
    pub film: usize,
    /// How it comes.
    pub way: Way,
    /// In order of time: `Play` first, `Stop` last.
    pub steps: Vec<Step>,
}

/// Where the viewer of `skip-around` goes: on, back, far on, back. Far apart, so that another part of a striped file answers.
const JUMPS: [f64; 4] = [0.60, 0.20, 0.85, 0.40];
/// Three viewers come one after the other: at once they would wait for the same opening.
const APART_MS: u64 = 1000;

/// What everybody does in `seconds` (at least one).
#[must_use]
pub fn plan(scenario: Scenario, seconds: u32) -> Vec<Viewer> {
    let end_ms = u64::from(seconds.max(1)) * 1000;
    let apart_ms = APART_MS.min(end_ms / 10);
    let viewer = |film, way, from_ms, place, jumps: &[(u64, f64)]| {
        let mut steps = vec![Step { at_ms: from_ms, action: Action::Play(place) }];
        steps.extend(jumps.iter().map(|(at_ms, to)| Step { at_ms: *at_ms, action: Action::Jump(*to) }));
        steps.push(Step { at_ms: end_ms, action: Action::Stop });
        Viewer { film, way, steps }
    };
    match scenario {
        Scenario::Single => vec![viewer(0, Way::AsItIs, 0, 0.0, &[])],
        Scenario::SkipAround => {
            let parts = JUMPS.len() as u64 + 1;
            let jumps: Vec<(u64, f64)> = (1..).zip(JUMPS).map(|(n, to)| (end_ms * n / parts, to)).collect();
            vec![viewer(0, Way::AsItIs, 0, 0.0, &jumps)]
        }
        Scenario::OneFileThreeClients => [0.0, 0.3, 0.6]
            .into_iter()
            .zip(0..)
            .map(|(place, n)| viewer(0, Way::AsItIs, n * apart_ms, place, &[]))
            .collect(),
        Scenario::ThreeFilesOneTranscode => vec![
            viewer(0, Way::AsItIs, 0, 0.0, &[]),
            viewer(1, Way::AsItIs, apart_ms, 0.0, &[]),
            viewer(2, Way::Converted, 2 * apart_ms, 0.0, &[]),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_viewer_plays_first_stops_last_and_never_goes_back_in_time() {
        for scenario in Scenario::ALL {
            for seconds in [0, 1, 3, 30, 3600] {
                let viewers = plan(scenario, seconds);
                for v in &viewers {
                    assert!(matches!(v.steps.first().unwrap().action, Action::Play(_)), "{scenario:?}");
                    let last = v.steps.last().unwrap();
                    assert_eq!((last.action, last.at_ms), (Action::Stop, u64::from(seconds.max(1)) * 1000));
                    assert!(v.steps.is_sorted_by(|a, b| a.at_ms < b.at_ms), "{scenario:?} {seconds}");
                    assert_eq!(v.steps.iter().filter(|s| s.action == Action::Stop).count(), 1);
                    assert!(v.film < scenario.films());
                    for step in &v.steps {
                        if let Action::Play(to) | Action::Jump(to) = step.action {
                            assert!((0.0..1.0).contains(&to));
                        }
                    }
                }
                let films: std::collections::BTreeSet<usize> = viewers.iter().map(|v| v.film).collect();
                assert_eq!(films.len(), scenario.films(), "every film is played");
                let converted = viewers.iter().filter(|v| v.way == Way::Converted).count();
                assert_eq!(converted, scenario.conversions());
            }
        }
    }

    #[test]
    fn who_skips_around_jumps_four_times_in_equal_parts_of_the_time_and_far() {
        let viewers = plan(Scenario::SkipAround, 30);
        let [viewer] = viewers.as_slice() else { panic!("{viewers:?}") };
        let times: Vec<u64> = viewer.steps.iter().map(|s| s.at_ms).collect();
        assert_eq!(times, [0, 6000, 12_000, 18_000, 24_000, 30_000]);
        let places: Vec<f64> = viewer
            .steps
            .iter()
            .filter_map(|s| match s.action {
                Action::Play(to) | Action::Jump(to) => Some(to),
                Action::Stop => None,
            })
            .collect();
        assert_eq!(places.len(), 5);
        assert!(places.windows(2).all(|w| (w[1] - w[0]).abs() > 0.39), "{places:?}");
    }

    #[test]
    fn three_viewers_of_one_film_come_one_after_the_other_to_three_places() {
        let viewers = plan(Scenario::OneFileThreeClients, 30);
        let starts: Vec<Step> = viewers.iter().map(|v| v.steps[0]).collect();
        let want = [(0, 0.0), (1000, 0.3), (2000, 0.6)];
        assert_eq!(starts, want.map(|(at_ms, to)| Step { at_ms, action: Action::Play(to) }));
    }

    #[test]
    fn a_scenario_is_found_by_its_name_as_it_is_in_records() {
        for scenario in Scenario::ALL {
            assert_eq!(Scenario::by_name(scenario.name()), Some(scenario));
            assert_eq!(serde_json::to_value(scenario).unwrap(), scenario.name());
        }
        assert_eq!(Scenario::by_name("all"), None);
    }
}
