//! A player's buffer: when it plays, when it waits, when it wants more. A state machine over numbers; who calls it says what
//! time it is and what has arrived.

use serde::{Deserialize, Serialize};

/// Playing begins, and goes on after a wait, with this much in the buffer.
const START_US: u64 = 1_000_000;
/// Waits that are kept.
const MAX_WAITS: usize = 1000;

/// Why somebody looked at a picture that did not move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// The film was being opened.
    Start,
    /// A jump.
    Jump,
    /// The buffer ran dry.
    Stall,
}

/// A wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// When, milliseconds since the scenario began.
    pub at_ms: u64,
    /// How long, milliseconds.
    pub duration_ms: u64,
    /// Why.
    pub why: Why,
    /// It had not ended when the scenario did.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_open: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    /// Nothing moves until the buffer has enough.
    Filling {
        since_us: u64,
        why: Why,
    },
    /// Moves since then; the buffer held `buffered_us` at that moment.
    Playing {
        since_us: u64,
    },
}

/// See the module. Times are microseconds since the scenario began; what is in the buffer is microseconds of film.
#[derive(Debug)]
pub struct Player {
    /// As much film as the buffer takes; `None`: it takes all that comes.
    ahead_us: Option<u64>,
    state: State,
    /// In the buffer when the state began, and what has come since.
    buffered_us: u64,
    /// All of the film has come.
    is_whole: bool,
    waits: Vec<Wait>,
}

impl Player {
    /// One whose buffer takes so much, or everything.
    #[must_use]
    pub fn new(ahead_us: Option<u64>) -> Self {
        // Less could never start.
        let ahead_us = ahead_us.map(|a| a.max(2 * START_US));
        Self { ahead_us, state: State::Idle, buffered_us: 0, is_whole: false, waits: Vec::new() }
    }

    /// The film is opened, or somebody jumped: the buffer is empty.
    pub fn begin(&mut self, now_us: u64, why: Why) {
        self.settle(now_us);
        if let State::Filling { since_us, why } = self.state {
            self.wait(since_us, now_us, why, false);
        }
        self.state = State::Filling { since_us: now_us, why };
        self.buffered_us = 0;
        self.is_whole = false;
    }

    /// So much film has arrived.
    pub fn received(&mut self, now_us: u64, film_us: u64) {
        self.settle(now_us);
        self.buffered_us = self.buffered_us.saturating_add(film_us);
        self.go_on(now_us);
    }

    /// All of it has arrived: nothing more is to come, and an empty buffer is the end and no stall.
    pub fn whole(&mut self, now_us: u64) {
        self.settle(now_us);
        self.is_whole = true;
        self.go_on(now_us);
    }

    /// When it wants to read again: `now_us` or later.
    #[must_use]
    pub fn wants_at(&self, now_us: u64) -> u64 {
        let Some(ahead_us) = self.ahead_us else { return now_us };
        match self.state {
            State::Idle | State::Filling { .. } => now_us,
            State::Playing { since_us } => {
                // It holds `ahead` when as much was played as it has too much.
                now_us.max(since_us.saturating_add(self.buffered_us.saturating_sub(ahead_us)))
            }
        }
    }

    /// How much film is in the buffer.
    #[must_use]
    pub fn buffered_us(&self, now_us: u64) -> u64 {
        match self.state {
            State::Idle => 0,
            State::Filling { .. } => self.buffered_us,
            State::Playing { since_us } => self.buffered_us.saturating_sub(now_us.saturating_sub(since_us)),
        }
    }

    /// The viewer leaves; gives every wait.
    pub fn end(&mut self, now_us: u64) -> Vec<Wait> {
        self.settle(now_us);
        if let State::Filling { since_us, why } = self.state {
            self.wait(since_us, now_us, why, true);
        }
        self.state = State::Idle;
        std::mem::take(&mut self.waits)
    }

    /// A buffer that ran dry before now did so at a time that is known.
    fn settle(&mut self, now_us: u64) {
        let State::Playing { since_us } = self.state else { return };
        let dry_us = since_us.saturating_add(self.buffered_us);
        if now_us <= dry_us {
            return;
        }
        self.buffered_us = 0;
        self.state =
            if self.is_whole { State::Idle } else { State::Filling { since_us: dry_us, why: Why::Stall } };
    }

    fn go_on(&mut self, now_us: u64) {
        if let State::Filling { since_us, why } = self.state
            && (self.buffered_us >= START_US || self.is_whole)
        {
            self.wait(since_us, now_us, why, false);
            self.state = State::Playing { since_us: now_us };
        }
    }

    fn wait(&mut self, since_us: u64, until_us: u64, why: Why, is_open: bool) {
        if self.waits.len() < MAX_WAITS {
            let duration_ms = until_us.saturating_sub(since_us) / 1000;
            self.waits.push(Wait { at_ms: since_us / 1000, duration_ms, why, is_open });
        }
    }
}

/// Microseconds of film in so many bytes of it.
#[must_use]
pub fn film_us(bytes: u64, bitrate_bps: u64) -> u64 {
    let us = u128::from(bytes) * 8_000_000 / u128::from(bitrate_bps.max(1));
    u64::try_from(us).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000;

    fn waits(mut player: Player, end_us: u64) -> Vec<(u64, u64, Why)> {
        player.end(end_us).iter().map(|w| (w.at_ms, w.duration_ms, w.why)).collect()
    }

    #[test]
    fn it_starts_with_a_second_in_the_buffer_and_the_wait_for_that_is_no_stall() {
        let mut p = Player::new(Some(10 * S));
        p.begin(2 * S, Why::Start);
        p.received(2 * S + 300_000, S / 2);
        p.received(2 * S + 400_000, S / 2);
        assert_eq!(p.buffered_us(3 * S + 400_000), 0);
        p.received(3 * S, 5 * S);
        assert_eq!(waits(p, 5 * S), [(2000, 400, Why::Start)]);
    }

    #[test]
    fn a_full_buffer_is_read_into_again_when_it_has_room() {
        let mut p = Player::new(Some(10 * S));
        p.begin(0, Why::Start);
        assert_eq!(p.wants_at(0), 0);
        p.received(S, 12 * S);
        assert_eq!(p.wants_at(S), 3 * S);
        assert_eq!(p.wants_at(4 * S), 4 * S);
        let mut greedy = Player::new(None);
        greedy.begin(0, Why::Start);
        greedy.received(S, 1000 * S);
        assert_eq!(greedy.wants_at(S), S);
    }

    #[test]
    fn a_buffer_that_runs_dry_is_a_stall_from_that_moment_until_it_has_a_second_again() {
        let mut p = Player::new(Some(10 * S));
        p.begin(0, Why::Start);
        p.received(0, 2 * S); // dry at 2 s
        p.received(5 * S, S / 2); // not enough
        p.received(6 * S, S / 2);
        assert_eq!(waits(p, 6 * S + 1), [(0, 0, Why::Start), (2000, 4000, Why::Stall)]);
    }

    #[test]
    fn a_stall_that_lasts_is_told_as_open_and_the_end_of_the_film_is_none() {
        let mut p = Player::new(None);
        p.begin(0, Why::Start);
        p.received(0, 2 * S);
        let all = p.end(7 * S);
        assert_eq!(all[1], Wait { at_ms: 2000, duration_ms: 5000, why: Why::Stall, is_open: true });
        let mut p = Player::new(None);
        p.begin(0, Why::Start);
        p.received(0, S / 2);
        p.whole(1000);
        assert_eq!(waits(p, 7 * S), [(0, 1, Why::Start)]);
    }

    #[test]
    fn a_jump_empties_the_buffer_and_ends_what_was_waited_for_before() {
        let mut p = Player::new(None);
        p.begin(0, Why::Start);
        p.received(0, 100 * S);
        p.begin(10 * S, Why::Jump);
        p.begin(12 * S, Why::Jump); // and again before the first picture
        p.received(13 * S, S);
        let got = waits(p, 13 * S + 500_000);
        assert_eq!(got, [(0, 0, Why::Start), (10_000, 2000, Why::Jump), (12_000, 1000, Why::Jump)]);
    }

    #[test]
    fn bytes_are_film_by_the_bitrate() {
        assert_eq!(film_us(1_000_000, 8_000_000), S);
        assert_eq!(film_us(u64::MAX, 0), u64::MAX);
    }
}
