//! Which episode comes next. Pure.

use std::cmp::Ordering;

/// An episode, as far as this decision needs it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Episode {
    /// Season; 0 holds the specials.
    pub season: i64,
    /// Number in it.
    pub number: i64,
    /// Of a special: before which regular episode it was shown, as season and number. A special
    /// without a place is never next.
    pub before: Option<(i64, i64)>,
    /// Seen to the end.
    pub watched: bool,
    /// Begun and not finished.
    pub begun: bool,
    /// When it was last played, in any unit.
    pub last_played: Option<i64>,
    /// Whether it can be played now.
    pub available: bool,
}

/// What a user does who has seen everything and starts again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rewatching {
    /// Offer the episode after the last one.
    Offer,
    /// Offer nothing.
    Ignore,
}

/// The index of the episode to offer; `None` for a series that is finished, that is being watched
/// right now (it stands in `continue_watching`), or whose rest is not there.
///
/// The last one played leads, not the highest: who goes back to the first season goes on there.
/// A series never begun gives its first regular episode; whether such a one belongs on the start
/// page is the caller's question.
#[must_use]
pub fn next_up(episodes: &[Episode], rewatching: Rewatching) -> Option<usize> {
    let mut order: Vec<usize> =
        (0..episodes.len()).filter(|i| episodes[*i].season != 0 || episodes[*i].before.is_some()).collect();
    order.sort_by(|a, b| placed(&episodes[*a]).cmp(&placed(&episodes[*b])).then(a.cmp(b)));

    // Of several with the same time (a season marked at once) the last in order leads.
    let last = (0..order.len())
        .filter(|at| episodes[order[*at]].last_played.is_some())
        .max_by(|a, b| played(episodes, &order, *a).cmp(&played(episodes, &order, *b)).then(a.cmp(b)));
    let Some(last) = last else {
        // Nothing played: where watched marks were set by hand, the first that has none.
        return order.iter().copied().find(|i| {
            let e = &episodes[*i];
            e.season != 0 && !e.watched && e.available
        });
    };
    let leader = &episodes[order[last]];
    if leader.begun {
        return None;
    }
    let mut after = order[last + 1..].iter().copied().filter(|i| episodes[*i].available);
    let everything_seen = order.iter().all(|i| episodes[*i].watched);
    if everything_seen {
        return if rewatching == Rewatching::Offer { after.next() } else { None };
    }
    after.find(|i| !episodes[*i].watched)
}

fn played(episodes: &[Episode], order: &[usize], at: usize) -> Option<i64> {
    episodes[order[at]].last_played
}

/// The place in the running order: a special stands right before the episode it precedes.
fn placed(episode: &Episode) -> Place {
    match episode.before {
        Some((season, number)) if episode.season == 0 => {
            Place { season, number, special: true, own: episode.number }
        }
        _ => Place { season: episode.season, number: episode.number, special: false, own: 0 },
    }
}

#[derive(PartialEq, Eq)]
struct Place {
    season: i64,
    number: i64,
    special: bool,
    own: i64,
}

impl Place {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.season, self.number, !self.special, self.own).cmp(&(
            other.season,
            other.number,
            !other.special,
            other.own,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(seasons: i64, episodes: i64) -> Vec<Episode> {
        (1..=seasons)
            .flat_map(|season| {
                (1..=episodes).map(move |number| Episode {
                    season,
                    number,
                    available: true,
                    ..Episode::default()
                })
            })
            .collect()
    }

    fn see(list: &mut [Episode], season: i64, number: i64, at: i64) {
        let e = list.iter_mut().find(|e| (e.season, e.number) == (season, number)).unwrap();
        e.watched = true;
        e.last_played = Some(at);
    }

    fn next(list: &[Episode]) -> Option<(i64, i64)> {
        next_up(list, Rewatching::Ignore).map(|i| (list[i].season, list[i].number))
    }

    #[test]
    fn going_back_to_the_first_season_goes_on_there() {
        let mut list = series(3, 3);
        for n in 1..=3 {
            see(&mut list, 3, n, n);
        }
        see(&mut list, 1, 1, 10);
        see(&mut list, 1, 2, 11);
        assert_eq!(next(&list), Some((1, 3)));
    }

    #[test]
    fn who_rewatches_is_offered_the_next_only_where_that_is_wanted() {
        let mut list = series(3, 3);
        for (at, (s, n)) in (1..=3).flat_map(|s| (1..=3).map(move |n| (s, n))).enumerate() {
            see(&mut list, s, n, i64::try_from(at).unwrap());
        }
        assert_eq!(next(&list), None);
        see(&mut list, 1, 1, 100);
        assert_eq!(next(&list), None);
        let offered = next_up(&list, Rewatching::Offer).map(|i| (list[i].season, list[i].number));
        assert_eq!(offered, Some((1, 2)));
    }

    #[test]
    fn an_episode_that_is_being_watched_is_not_next_as_well() {
        let mut list = series(3, 3);
        see(&mut list, 1, 3, 1);
        list[3].begun = true;
        list[3].last_played = Some(2);
        assert_eq!(next(&list), None);
    }

    #[test]
    fn specials_come_at_their_place_or_never() {
        let mut list = series(2, 6);
        let special = Episode { season: 0, number: 1, available: true, ..Episode::default() };
        list.push(Episode { before: Some((2, 1)), ..special });
        list.push(Episode { number: 2, ..special });
        assert_eq!(next(&list), Some((1, 1)));
        for n in 1..=6 {
            see(&mut list, 1, n, n);
        }
        assert_eq!(next(&list), Some((0, 1)));
        see(&mut list, 0, 1, 7);
        assert_eq!(next(&list), Some((2, 1)));
        for n in 1..=6 {
            see(&mut list, 2, n, 10 + n);
        }
        assert_eq!(next(&list), None);
    }

    #[test]
    fn what_is_not_there_is_skipped() {
        let mut list = series(1, 3);
        see(&mut list, 1, 1, 1);
        list[1].available = false;
        assert_eq!(next(&list), Some((1, 3)));
    }

    #[test]
    fn no_episodes_no_next() {
        assert_eq!(next(&[]), None);
    }
}
