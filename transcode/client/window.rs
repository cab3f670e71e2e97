//! Which segment to grant, where to seek, what to start and stop: a pure function over what is
//! wanted, what is there and where the workers stand.
//!
//! A worker makes segments one after the other. It is granted as far as its viewers need plus a
//! bounded run-ahead; then it waits without using the processor.

use std::collections::BTreeSet;

/// What a decision needs to know of one rendition.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Window {
    /// Number of segments of the title.
    pub segments: usize,
    /// Most segments ahead of a viewer that are made unasked.
    pub run_ahead: usize,
    /// Segments that someone waits for and that are not in the cache.
    pub wanted: BTreeSet<usize>,
    /// Segments in the cache that no worker needs to make again.
    pub cached: BTreeSet<usize>,
    /// The last segment that each viewer asked for.
    pub viewers: Vec<usize>,
    /// Workers of this rendition.
    pub workers: Vec<WorkerAt>,
    /// Whether one more worker may be started.
    pub may_start: bool,
}

/// Where a worker stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerAt {
    /// Who.
    pub id: u64,
    /// The segment that it works on or would make next.
    pub next: usize,
    /// One past the last segment that it was granted since it stood at `next`.
    pub granted_to: usize,
    /// Whether nothing was granted to it and nobody asked near it for so long that it is in the way.
    pub expired: bool,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Give the worker the output for segment `n`, its next one.
    Grant {
        /// Who.
        worker: u64,
        /// Segment.
        n: usize,
    },
    /// Move the worker: it forgets its grants and continues at `n`.
    Seek {
        /// Who.
        worker: u64,
        /// Segment.
        n: usize,
    },
    /// Start a worker that begins at `n`.
    Start {
        /// Segment.
        n: usize,
    },
    /// End the worker.
    Stop {
        /// Who.
        worker: u64,
    },
    /// Tell those who wait for `n` that every worker is in use.
    Refuse {
        /// Segment.
        n: usize,
    },
}

/// The next action, or `None` when there is nothing to do. The caller applies it to its state and
/// asks again until there is none.
///
/// The order: (1) workers that nobody needs stop; (2) each wanted segment, lowest first, is served
/// by a worker that comes by it soon, else by moving a worker that no viewer is near, else by a new
/// one, else it is refused; (3) workers with a viewer get run-ahead.
#[must_use]
pub fn plan(w: &Window) -> Option<Action> {
    if let Some(idle) = w.workers.iter().find(|at| at.expired && !is_needed(w, at)) {
        return Some(Action::Stop { worker: idle.id });
    }
    for &n in &w.wanted {
        match serve(w, n) {
            Serve::OnItsWay => {}
            Serve::Act(action) => return Some(action),
        }
    }
    w.workers.iter().find_map(|at| run_ahead(w, at))
}

enum Serve {
    OnItsWay,
    Act(Action),
}

fn serve(w: &Window, n: usize) -> Serve {
    if n >= w.segments {
        return Serve::Act(Action::Refuse { n });
    }
    // The nearest worker before it: a short jump ahead never ends an encoder.
    let coming = w.workers.iter().filter(|at| comes_by(w, at, n)).max_by_key(|at| at.next);
    if let Some(at) = coming {
        if n < at.granted_to {
            return Serve::OnItsWay;
        }
        return Serve::Act(Action::Grant { worker: at.id, n: at.granted_to });
    }
    // One session seeks with one worker: moving what nobody is near comes before starting.
    let free = w
        .workers
        .iter()
        .filter(|at| !is_needed(w, at) && !w.viewers.iter().any(|v| is_near(w, at, *v)))
        .min_by_key(|at| at.next.abs_diff(n));
    match free {
        Some(at) => Serve::Act(Action::Seek { worker: at.id, n }),
        None if w.may_start => Serve::Act(Action::Start { n }),
        None => Serve::Act(Action::Refuse { n }),
    }
}

/// Whether the worker reaches `n` without a jump that is dearer than a new start.
fn comes_by(w: &Window, at: &WorkerAt, n: usize) -> bool {
    at.next <= n && n <= at.next.saturating_add(w.run_ahead)
}

/// Whether someone waits for what the worker is about to make.
fn is_needed(w: &Window, at: &WorkerAt) -> bool {
    w.wanted.iter().any(|n| comes_by(w, at, *n))
}

/// Whether a viewer who last asked for `v` will soon want what the worker makes: the worker stands
/// at most the run-ahead and one segment in front of the viewer, or just behind.
fn is_near(w: &Window, at: &WorkerAt, v: usize) -> bool {
    at.next <= v.saturating_add(w.run_ahead + 1) && v <= at.next.saturating_add(w.run_ahead)
}

fn run_ahead(w: &Window, at: &WorkerAt) -> Option<Action> {
    let furthest = w.viewers.iter().filter(|v| is_near(w, at, **v)).max()?;
    let end = w.segments.min(furthest + 1 + w.run_ahead);
    let n = at.granted_to;
    // What is in the cache already is not made again unasked: the worker stays where it is, and
    // moves when the first segment that is missing is asked for.
    (n < end && !w.cached.contains(&n)).then_some(Action::Grant { worker: at.id, n })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(id: u64, next: usize, granted_to: usize) -> WorkerAt {
        WorkerAt { id, next, granted_to, expired: false }
    }

    fn window(wanted: &[usize], viewers: &[usize], workers: &[WorkerAt]) -> Window {
        Window {
            segments: 1000,
            run_ahead: 3,
            wanted: wanted.iter().copied().collect(),
            cached: BTreeSet::new(),
            viewers: viewers.to_vec(),
            workers: workers.to_vec(),
            may_start: true,
        }
    }

    #[test]
    fn the_first_request_starts_a_worker_there() {
        assert_eq!(plan(&window(&[7], &[7], &[])), Some(Action::Start { n: 7 }));
    }

    #[test]
    fn a_worker_is_granted_what_is_wanted_and_then_the_run_ahead_and_no_more() {
        let mut w = window(&[7], &[7], &[at(1, 7, 7)]);
        let mut granted = Vec::new();
        while let Some(Action::Grant { worker: 1, n }) = plan(&w) {
            granted.push(n);
            w.workers[0].granted_to = n + 1;
        }
        assert_eq!(granted, [7, 8, 9, 10]);
        assert_eq!(plan(&w), None);
    }

    #[test]
    fn a_short_jump_ahead_keeps_the_encoder() {
        let w = window(&[10], &[10], &[at(1, 7, 11)]);
        assert_eq!(plan(&w), Some(Action::Grant { worker: 1, n: 11 }));
        let w = window(&[10], &[10], &[at(1, 7, 8)]);
        assert_eq!(plan(&w), Some(Action::Grant { worker: 1, n: 8 }));
    }

    #[test]
    fn a_far_seek_of_the_only_viewer_moves_its_worker() {
        let w = window(&[900], &[900], &[at(1, 14, 18)]);
        assert_eq!(plan(&w), Some(Action::Seek { worker: 1, n: 900 }));
    }

    #[test]
    fn a_seek_back_moves_it_too() {
        let w = window(&[2], &[2], &[at(1, 14, 18)]);
        assert_eq!(plan(&w), Some(Action::Seek { worker: 1, n: 2 }));
    }

    #[test]
    fn a_second_viewer_far_away_gets_a_worker_of_its_own() {
        let w = window(&[900], &[12, 900], &[at(1, 14, 16)]);
        assert_eq!(plan(&w), Some(Action::Start { n: 900 }));
    }

    #[test]
    fn without_a_slot_a_second_position_is_refused_and_the_first_viewer_keeps_its_worker() {
        let mut w = window(&[900], &[12, 900], &[at(1, 14, 16)]);
        w.may_start = false;
        assert_eq!(plan(&w), Some(Action::Refuse { n: 900 }));
    }

    #[test]
    fn a_segment_past_the_end_is_refused() {
        assert_eq!(plan(&window(&[1000], &[1000], &[])), Some(Action::Refuse { n: 1000 }));
    }

    #[test]
    fn run_ahead_ends_with_the_title_and_skips_what_is_cached() {
        let w = window(&[], &[999], &[at(1, 1000, 1000)]);
        assert_eq!(plan(&w), None);
        let mut w = window(&[], &[5], &[at(1, 6, 6)]);
        w.cached.insert(6);
        assert_eq!(plan(&w), None);
    }

    #[test]
    fn an_expired_worker_stops_unless_someone_waits_for_it() {
        let idle = WorkerAt { expired: true, ..at(1, 6, 6) };
        assert_eq!(plan(&window(&[], &[5], &[idle])), Some(Action::Stop { worker: 1 }));
        assert_eq!(plan(&window(&[6], &[6], &[idle])), Some(Action::Grant { worker: 1, n: 6 }));
    }

    #[test]
    fn whatever_the_state_planning_comes_to_rest() {
        for seed in 0..500_usize {
            let mut w = window(&[seed % 40, seed * 7 % 900], &[seed % 40, seed * 7 % 900], &[]);
            w.may_start = seed % 3 != 0;
            let mut steps = 0;
            while let Some(action) = plan(&w) {
                steps += 1;
                assert!(steps < 50, "{w:?}");
                match action {
                    Action::Grant { worker, n } => {
                        let at = w.workers.iter_mut().find(|a| a.id == worker).unwrap();
                        assert_eq!(at.granted_to, n);
                        at.granted_to = n + 1;
                    }
                    Action::Seek { worker, n } => {
                        let at = w.workers.iter_mut().find(|a| a.id == worker).unwrap();
                        (at.next, at.granted_to) = (n, n);
                    }
                    Action::Start { n } => w.workers.push(at(w.workers.len() as u64, n, n)),
                    Action::Stop { worker } => w.workers.retain(|a| a.id != worker),
                    Action::Refuse { n } => {
                        w.wanted.remove(&n);
                    }
                }
            }
        }
    }
}
