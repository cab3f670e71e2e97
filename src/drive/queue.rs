//! Which of the waiting commands comes next.

use crate::drive::Drive;

/// A command that waits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Waiting {
    /// First byte on the disk.
    pub at: u64,
    /// Length; 0 for a flush.
    pub len_bytes: u64,
    /// When it came.
    pub since_s: f64,
    /// When its asker will have run out of bytes.
    pub deadline_s: f64,
    /// Served only when nothing else waits.
    pub is_background: bool,
}

/// An order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// As they come.
    Fifo,
    /// Who runs out first.
    Deadline,
    /// What the drive reaches first, with ageing: what a drive does by itself with the commands in its queue.
    Nearest,
    /// The next one in the direction of the last move, and back at the end.
    Sweep,
}

impl Policy {
    /// By its name on a command line.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Some(match name {
            "fifo" => Self::Fifo,
            "deadline" => Self::Deadline,
            "nearest" => Self::Nearest,
            "sweep" => Self::Sweep,
            _ => return None,
        })
    }
}

/// A policy with what it must remember.
#[derive(Clone, Copy, Debug)]
pub struct Chooser {
    policy: Policy,
    is_inward: bool,
}

impl Chooser {
    /// A chooser that has not moved the head yet.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self { policy, is_inward: true }
    }

    /// The place in `waiting` (which is in order of arrival) of the command that the drive should take at `now_s`;
    /// `None` if nothing waits.
    pub fn choose(&mut self, drive: &Drive, waiting: &[Waiting], now_s: f64) -> Option<usize> {
        let mut fit: Vec<usize> = (0..waiting.len()).filter(|i| !waiting[*i].is_background).collect();
        if fit.is_empty() {
            fit = (0..waiting.len()).collect();
        }
        let first = *fit.first()?;
        let least =
            |cost: &dyn Fn(usize) -> f64| fit.iter().copied().min_by(|a, b| cost(*a).total_cmp(&cost(*b)));
        match self.policy {
            Policy::Fifo => Some(first),
            Policy::Deadline => least(&|i| waiting[i].deadline_s),
            Policy::Nearest => {
                fit.truncate(drive.params().queue);
                if fit.len() == 1 || now_s - waiting[first].since_s >= drive.params().ageing_s {
                    return Some(first);
                }
                let cost = |i: usize| drive.positioning_s(waiting[i].at, waiting[i].len_bytes, now_s);
                fit.iter().copied().map(|i| (i, cost(i))).min_by(|a, b| a.1.total_cmp(&b.1)).map(|(i, _)| i)
            }
            Policy::Sweep => {
                for _ in 0..2 {
                    let inward = self.is_inward;
                    let ahead = |i: &usize| {
                        (waiting[*i].at >= drive.head()) == inward || waiting[*i].at == drive.head()
                    };
                    if let Some(i) = fit
                        .iter()
                        .copied()
                        .filter(ahead)
                        .min_by_key(|i| waiting[*i].at.abs_diff(drive.head()))
                    {
                        return Some(i);
                    }
                    self.is_inward = !inward;
                }
                Some(first)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::Params;

    fn waiting(rows: &[(u64, f64, f64)]) -> Vec<Waiting> {
        rows.iter()
            .map(|(at, since_s, deadline_s)| Waiting {
                at: *at,
                len_bytes: 4096,
                since_s: *since_s,
                deadline_s: *deadline_s,
                is_background: false,
            })
            .collect()
    }

    fn choose(policy: Policy, rows: &[Waiting], now_s: f64) -> Option<usize> {
        Chooser::new(policy).choose(&Drive::new(Params::preset("hdd7200", 1 << 40).unwrap()), rows, now_s)
    }

    #[test]
    fn each_policy_takes_its_own_first() {
        let rows = waiting(&[(900 << 30, 0.0, 5.0), (100 << 30, 0.1, 9.0), (500 << 30, 0.2, 1.0)]);
        assert_eq!(choose(Policy::Fifo, &rows, 0.3), Some(0));
        assert_eq!(choose(Policy::Deadline, &rows, 0.3), Some(2));
        assert_eq!(choose(Policy::Nearest, &rows, 0.3), Some(1));
        assert_eq!(choose(Policy::Sweep, &rows, 0.3), Some(1));
        assert_eq!(choose(Policy::Fifo, &[], 0.3), None);
    }

    #[test]
    fn a_command_that_grew_old_goes_before_a_near_one() {
        let rows = waiting(&[(900 << 30, 0.0, 0.0), (4096, 0.4, 0.0)]);
        assert_eq!(choose(Policy::Nearest, &rows, 0.49), Some(1));
        assert_eq!(choose(Policy::Nearest, &rows, 0.5), Some(0));
    }

    #[test]
    fn background_work_waits_for_everything_else() {
        let mut rows = waiting(&[(0, 0.0, 0.0), (900 << 30, 0.0, 0.0)]);
        rows[0].is_background = true;
        for policy in [Policy::Fifo, Policy::Deadline, Policy::Nearest, Policy::Sweep] {
            assert_eq!(choose(policy, &rows, 0.1), Some(1));
            assert_eq!(choose(policy, &rows[..1], 0.1), Some(0));
        }
    }
}
