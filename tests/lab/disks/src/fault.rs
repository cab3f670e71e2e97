//! What a device may be told to do wrong. Pure: a request in, a verdict out.

use crate::drive::Kind;

/// `EIO`: what a broken sector, and a disk that is gone, look like to whoever asked.
pub const EIO: i32 = 5;
/// `EROFS`.
pub const EROFS: i32 = 30;

/// Which requests a bad range fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Affects {
    /// Reads.
    Reads,
    /// Writes.
    Writes,
    /// Both.
    Both,
}

impl Affects {
    /// By its name on the control socket.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        match name {
            "read" => Some(Self::Reads),
            "write" => Some(Self::Writes),
            "any" => Some(Self::Both),
            _ => None,
        }
    }

    fn is_hit_by(self, kind: Kind) -> bool {
        match self {
            Self::Reads => kind == Kind::Read,
            Self::Writes => kind == Kind::Write,
            Self::Both => kind != Kind::Flush,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct BadRange {
    at: u64,
    end: u64,
    affects: Affects,
}

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As usual.
    Serve,
    /// An error at once.
    Fail(i32),
    /// Neither an answer nor an error, for now.
    Hold,
}

/// The faults of one device.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    bad: Vec<BadRange>,
    hangs_until_s: Option<f64>,
    is_gone: bool,
    is_read_only: bool,
}

/// Bad ranges a device may have; more is a mistake of the test.
const MOST_RANGES: usize = 4096;

impl Faults {
    /// Requests that touch `len_bytes` from `at` fail. `false`: there are too many ranges already.
    pub fn add_bad(&mut self, at: u64, len_bytes: u64, affects: Affects) -> bool {
        if self.bad.len() >= MOST_RANGES {
            return false;
        }
        self.bad.push(BadRange { at, end: at.saturating_add(len_bytes), affects });
        true
    }

    /// Nothing is answered until then; what came meanwhile is served afterwards.
    pub fn hang_until(&mut self, until_s: f64) {
        self.hangs_until_s = Some(until_s);
    }

    /// Pulled out: everything fails.
    pub fn vanish(&mut self) {
        self.is_gone = true;
    }

    /// Writes fail.
    pub fn make_read_only(&mut self) {
        self.is_read_only = true;
    }

    /// All faults are over.
    pub fn heal(&mut self) {
        *self = Self::default();
    }

    /// When the hang ends, if one is under way at `now_s`.
    #[must_use]
    pub fn hanging_until_s(&self, now_s: f64) -> Option<f64> {
        self.hangs_until_s.filter(|until| *until > now_s)
    }

    /// What to do with a request at `now_s`.
    #[must_use]
    pub fn judge(&self, kind: Kind, at: u64, len_bytes: u64, now_s: f64) -> Verdict {
        if self.is_gone {
            return Verdict::Fail(EIO);
        }
        if self.hanging_until_s(now_s).is_some() {
            return Verdict::Hold;
        }
        if self.is_read_only && kind == Kind::Write {
            return Verdict::Fail(EROFS);
        }
        let end = at.saturating_add(len_bytes);
        let is_bad = self.bad.iter().any(|r| at < r.end && end > r.at && r.affects.is_hit_by(kind));
        if is_bad { Verdict::Fail(EIO) } else { Verdict::Serve }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_requests_that_touch_a_bad_range_fail_and_only_of_its_kind() {
        let mut f = Faults::default();
        assert!(f.add_bad(1000, 100, Affects::Reads));
        assert_eq!(f.judge(Kind::Read, 0, 1000, 0.0), Verdict::Serve);
        assert_eq!(f.judge(Kind::Read, 0, 1001, 0.0), Verdict::Fail(EIO));
        assert_eq!(f.judge(Kind::Read, 1099, 1, 0.0), Verdict::Fail(EIO));
        assert_eq!(f.judge(Kind::Read, 1100, 1, 0.0), Verdict::Serve);
        assert_eq!(f.judge(Kind::Write, 1000, 100, 0.0), Verdict::Serve);
        f.heal();
        assert_eq!(f.judge(Kind::Read, 1000, 100, 0.0), Verdict::Serve);
    }

    #[test]
    fn a_hang_holds_until_its_end_and_a_pulled_disk_fails_even_then() {
        let mut f = Faults::default();
        f.hang_until(30.0);
        assert_eq!(f.judge(Kind::Flush, 0, 0, 29.9), Verdict::Hold);
        assert_eq!(f.judge(Kind::Read, 0, 1, 30.0), Verdict::Serve);
        f.vanish();
        assert_eq!(f.judge(Kind::Read, 0, 1, 1.0), Verdict::Fail(EIO));
    }

    #[test]
    fn a_read_only_disk_refuses_writes_and_nothing_else() {
        let mut f = Faults::default();
        f.make_read_only();
        assert_eq!(f.judge(Kind::Write, 0, 1, 0.0), Verdict::Fail(EROFS));
        assert_eq!(f.judge(Kind::Read, 0, 1, 0.0), Verdict::Serve);
        assert_eq!(f.judge(Kind::Flush, 0, 0, 0.0), Verdict::Serve);
    }
}
