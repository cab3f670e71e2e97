//! How many streams like the recorded ones a layout carries: copies of them, each a film of its own at another place of the volume and at another
//! moment of the session, until a player stands still or a disk is too busy.

use spindle_drive::params::Params;

use crate::error::SimulateError;
use crate::layout::Layout;
use crate::replay::{Host, Outcome, Stream, replay};
use crate::session::{Request, Session};

/// When to stop looking.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// A disk that works for more of the time than this is too busy: beyond it, waiting grows without bound.
    pub busy_share: f64,
    /// Streams beyond which it is not the disks that limit.
    pub most: usize,
    /// Of each session, the seconds that are repeated.
    pub window_s: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { busy_share: 0.85, most: 1024, window_s: 300.0 }
    }
}

/// What stops at so many streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitedBy {
    /// With one more, a player stands still.
    Stalls,
    /// With one more, a disk is too busy.
    Busy,
    /// Nothing: no more were tried.
    NotReached,
}

/// See the module.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Fit {
    /// The most that fit.
    pub streams: usize,
    /// What one more would meet.
    pub limited_by: LimitedBy,
    /// Share of the time in which the busiest disk works for so many.
    pub busiest_share: f64,
}

/// Requests that all trials together may replay: minutes of computing, whatever the records hold.
const BUDGET: u64 = 40_000_000;

/// The part of the golden ratio by which places and phases are spread: however many there are, they lie evenly.
const GOLDEN: f64 = 0.618_033_988_749_894_9;

/// Where the `number`th film begins on a volume, so that a read of its byte `end_bytes` is still on it.
///
/// # Errors
/// It is longer than the volume.
pub fn place(layout: &Layout, number: usize, name: &str, end_bytes: u64) -> Result<u64, SimulateError> {
    let (size_bytes, align) = (layout.size_bytes(), layout.align_bytes());
    let room = size_bytes.checked_sub(end_bytes).ok_or_else(|| SimulateError::DoesNotFit {
        name: name.to_owned(),
        layout: layout.text().to_owned(),
        end_bytes,
        size_bytes,
    })?;
    let share = ((number as f64 + 0.5) * GOLDEN).fract();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of the room is within it"
    )]
    let at = (room as f64 * share) as u64;
    Ok(at.min(room) / align * align)
}

/// The largest number of streams that fit; the sessions take turns in giving them.
///
/// # Errors
/// As [`replay`].
pub fn fit(
    layout: &Layout,
    disk: &Params,
    host: &Host,
    sessions: &[Session],
    limits: &Limits,
    go_on: &mut dyn FnMut(usize) -> bool,
) -> Result<Fit, SimulateError> {
    let windows: Vec<(Vec<Request>, f64)> = sessions.iter().map(|s| window(s, limits.window_s)).collect();
    let mut left = BUDGET;
    let mut trial = |count: usize| -> Result<Option<Outcome>, SimulateError> {
        if !go_on(count) {
            return Err(SimulateError::Stopped);
        }
        let mut streams = Vec::with_capacity(count);
        for number in 0..count {
            let which = number % sessions.len();
            let (requests, period_s) = &windows[which];
            let end_bytes = requests.iter().map(|r| r.offset + r.len_bytes).max().unwrap_or(0);
            let place = place(layout, number, &sessions[which].name, end_bytes)?;
            streams.push(at_phase(requests, *period_s, place, number, number / sessions.len()));
        }
        let cost = streams.iter().map(|s| s.requests.len() as u64).sum::<u64>();
        let Some(rest) = left.checked_sub(cost) else { return Ok(None) };
        left = rest;
        replay(layout, disk, host, &streams, &mut |_, _| true).map(Some)
    };
    let (mut good, mut bad) =
        (Fit { streams: 0, limited_by: LimitedBy::NotReached, busiest_share: 0.0 }, None);
    let mut next = 1;
    while let Some(outcome) = trial(next)? {
        let why = if !outcome.is_smooth() {
            Some(LimitedBy::Stalls)
        } else if outcome.busiest() > limits.busy_share {
            Some(LimitedBy::Busy)
        } else {
            None
        };
        match why {
            None => good = Fit { streams: next, busiest_share: outcome.busiest(), ..good },
            Some(why) => bad = Some((next, why)),
        }
        next = match bad {
            None if next >= limits.most => break,
            None => (next * 2).min(limits.most),
            Some((bad, _)) if bad - good.streams <= 1 => break,
            Some((bad, _)) => usize::midpoint(good.streams, bad),
        };
    }
    Ok(Fit { limited_by: bad.map_or(LimitedBy::NotReached, |(_, why)| why), ..good })
}

/// The part of a session that is repeated, with how long it takes.
fn window(session: &Session, window_s: f64) -> (Vec<Request>, f64) {
    let all = &session.requests;
    let first_s = all.first().map_or(0.0, |r| r.at_s);
    let count = all.partition_point(|r| r.at_s < first_s + window_s).max(1).min(all.len());
    let requests: Vec<Request> = all[..count].to_vec();
    let last_s = requests.last().map_or(0.0, |r| r.at_s);
    // Whole sessions end when they ended; a part of one ends where its next request was.
    let end_s = all.get(count).map_or(session.duration_s, |r| r.at_s);
    (requests, (end_s - first_s).max(last_s - first_s).max(0.1))
}

/// A stream that is in the midst of its session when the replay begins.
fn at_phase(requests: &[Request], period_s: f64, place: u64, thread: usize, turn: usize) -> Stream<'_> {
    let phase_s = period_s * ((thread + turn) as f64 * GOLDEN).fract();
    let from_s = requests.first().map_or(0.0, |r| r.at_s);
    let first = requests.partition_point(|r| r.at_s - from_s < phase_s) % requests.len().max(1);
    let at_s = requests.get(first).map_or(0.0, |r| r.at_s - from_s);
    let starts_s = if at_s >= phase_s { at_s - phase_s } else { at_s + period_s - phase_s };
    // Its first request, whenever that was in the session, is made at `starts_s`.
    Stream { requests, place, starts_s, from_s: from_s + at_s, first, period_s, thread: thread as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const M: u64 = 1 << 20;

    /// A player of 8 Mbit/s for a minute, 2 MiB at a time.
    pub(crate) fn player() -> Session {
        let value = serde_json::json!({
            "file": "a", "requests": (0..29).map(|i| serde_json::json!({"at_ms": i as f64 * 2097.152, "offset": i * 2 * M, "length_bytes": 2 * M})).collect::<Vec<_>>()
        });
        Session::from_value("player", value).unwrap()
    }

    fn fits(layout: &str, disk: &str) -> Fit {
        let params = Params::preset(disk, 8 << 40).unwrap();
        let layout = Layout::parse(layout, 8 << 40).unwrap();
        fit(&layout, &params, &Host::default(), &[player()], &Limits::default(), &mut |_| true).unwrap()
    }

    #[test]
    fn a_disk_carries_what_its_positioning_allows_and_two_columns_twice_as_much() {
        let one = fits("single", "hdd7200");
        // 2 MiB at about 25 ms with every 2.1 s: 85 % of the time is some 70 to 90 streams.
        assert!((55..=100).contains(&one.streams), "{one:?}");
        assert_eq!(one.limited_by, LimitedBy::Busy);
        let two = fits("simple,disks=2,columns=2,interleave=1M", "hdd7200");
        assert!(two.streams as f64 > 1.2 * one.streams as f64, "{two:?} against {one:?}");
        assert!(fits("single", "hdd5400").streams < one.streams);
        assert!(fits("single", "ssd").streams > 3 * one.streams);
    }

    #[test]
    fn a_mirror_carries_nearly_twice_what_its_disk_does() {
        let (one, mirror) = (fits("single", "hdd7200").streams, fits("md-raid1,disks=2", "hdd7200").streams);
        assert!(mirror > one + one / 2, "{mirror} against {one}");
    }

    #[test]
    fn looking_can_be_stopped_and_a_film_longer_than_the_volume_is_an_error() {
        let params = Params::preset("hdd7200", 1 << 30).unwrap();
        let layout = Layout::parse("single", 1 << 30).unwrap();
        let look = |sessions: &[Session], go_on: bool| {
            fit(&layout, &params, &Host::default(), sessions, &Limits::default(), &mut |_| go_on)
        };
        assert_eq!(look(&[player()], false), Err(SimulateError::Stopped));
        let mut long = player();
        long.requests[0].offset = 1 << 40;
        assert!(matches!(look(&[long], true), Err(SimulateError::DoesNotFit { .. })));
    }
}
