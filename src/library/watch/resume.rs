//! What a report of a playing client does to a resume point. Pure.

/// Share of the length from which on a film counts as seen: end credits take 3 to 8 %.
pub const WATCHED_SHARE: f64 = 0.92;
/// A start of up to this many seconds, or [`START_SHARE`] where that is less, is no resume point.
pub const START_S: f64 = 30.0;
/// For short pieces, in which 30 s would be half of it.
pub const START_SHARE: f64 = 0.05;
/// A report from a session that has played less than this changes nothing: a start that failed
/// says `0` or some guess.
pub const MIN_PLAYED_S: f64 = 1.0;
/// From this much playing on, being near the start is a decision, not an accident.
pub const DELIBERATE_S: f64 = 60.0;

/// What is known of one user and one item.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Mark {
    /// Where to go on, in seconds; 0 is the start.
    pub position_s: f64,
    /// Seen to the end.
    pub watched: bool,
    /// How often.
    pub plays: u64,
}

/// The mark after a report that the client is at `position_s` of `duration_s`, in a session that
/// has played for `played_s` so far. `None`: the report changes nothing, not even when it was
/// last played.
#[must_use]
pub fn apply(before: Mark, position_s: f64, played_s: f64, duration_s: Option<f64>) -> Option<Mark> {
    let sane = position_s.is_finite() && position_s >= 0.0 && played_s.is_finite();
    if !sane || played_s < MIN_PLAYED_S {
        return None;
    }
    let duration_s = duration_s.filter(|d| d.is_finite() && *d > 0.0);
    if let Some(length) = duration_s
        && position_s >= length * WATCHED_SHARE
    {
        // The reports of the last minutes are one viewing: only the first of them counts.
        let plays = if before.position_s > 0.0 || !before.watched { before.plays + 1 } else { before.plays };
        return Some(Mark { position_s: 0.0, watched: true, plays });
    }
    let start_s = duration_s.map_or(START_S, |length| START_S.min(length * START_SHARE));
    if position_s < start_s {
        // Back at the start on purpose clears the point; a look at the first seconds does not.
        let position_s = if played_s >= DELIBERATE_S { 0.0 } else { before.position_s };
        return Some(Mark { position_s, ..before });
    }
    Some(Mark { position_s, ..before })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILM: Option<f64> = Some(7_200.0);
    const AT_318: Mark = Mark { position_s: 318.0, watched: false, plays: 0 };

    #[test]
    fn a_table_of_reports() {
        let fresh = Mark::default();
        let seen = Mark { position_s: 0.0, watched: true, plays: 1 };
        let table = [
            ("a stop at 0 without a start", AT_318, 0.0, 0.0, FILM, None),
            (
                "a stop right after going on",
                AT_318,
                319.0,
                1.0,
                FILM,
                Some(Mark { position_s: 319.0, ..AT_318 }),
            ),
            ("progress at 0, then silence", AT_318, 0.0, 2.0, FILM, Some(AT_318)),
            (
                "back to the start on purpose",
                AT_318,
                3.0,
                61.0,
                FILM,
                Some(Mark { position_s: 0.0, ..AT_318 }),
            ),
            ("the first seconds of a film", fresh, 20.0, 20.0, FILM, Some(fresh)),
            ("half-way", fresh, 3_600.0, 3_600.0, FILM, Some(Mark { position_s: 3_600.0, ..fresh })),
            ("into the credits", fresh, 6_700.0, 6_700.0, FILM, Some(seen)),
            ("further credits count once", seen, 6_900.0, 6_900.0, FILM, Some(seen)),
            (
                "watched before, half-way again",
                seen,
                3_600.0,
                100.0,
                FILM,
                Some(Mark { position_s: 3_600.0, ..seen }),
            ),
            ("a jump to the end that played nothing", fresh, 7_190.0, 0.2, FILM, None),
            (
                "a clip of 12 s keeps its point",
                fresh,
                8.0,
                8.0,
                Some(12.0),
                Some(Mark { position_s: 8.0, ..fresh }),
            ),
            ("no length known", fresh, 90.0, 90.0, None, Some(Mark { position_s: 90.0, ..fresh })),
            (
                "a length of zero is none",
                fresh,
                90.0,
                90.0,
                Some(0.0),
                Some(Mark { position_s: 90.0, ..fresh }),
            ),
            ("not a number", AT_318, f64::NAN, 90.0, FILM, None),
            ("negative", AT_318, -4.0, 90.0, FILM, None),
        ];
        for (what, before, position_s, played_s, duration_s, after) in table {
            assert_eq!(apply(before, position_s, played_s, duration_s), after, "{what}");
        }
    }
}
