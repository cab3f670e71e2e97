//! Slows down guessing: failures are counted per account and per address.

use std::collections::HashMap;

use spindle_base::sync::Mutex;

/// Failures that are free.
const FREE: u32 = 5;
/// Longest wait in seconds.
const MAX_WAIT_S: i64 = 300;
/// Entries kept; the oldest go first, so that an attacker cannot fill the memory.
const MAX_ENTRIES: usize = 10_000;

#[derive(Debug, Clone, Copy)]
struct Failures {
    count: u32,
    last_s: i64,
}

/// Counts failures by key (an account's name, an address).
#[derive(Debug, Default)]
pub struct Throttle(Mutex<HashMap<String, Failures>, 40>);

impl Throttle {
    /// Seconds to wait before `key` may try again; `None` if it may try now.
    #[must_use]
    pub fn wait_s(&self, key: &str, now_s: i64) -> Option<i64> {
        let failures = *self.0.lock().get(key)?;
        let left = failures.last_s + penalty_s(failures.count) - now_s;
        (left > 0).then_some(left)
    }

    /// Notes a failure.
    pub fn failed(&self, key: &str, now_s: i64) {
        let mut entries = self.0.lock();
        if entries.len() >= MAX_ENTRIES && !entries.contains_key(key) {
            let oldest = entries.iter().min_by_key(|(_, f)| f.last_s).map(|(k, _)| k.clone());
            if let Some(oldest) = oldest {
                entries.remove(&oldest);
            }
        }
        let entry = entries.entry(key.to_owned()).or_insert(Failures { count: 0, last_s: now_s });
        if now_s - entry.last_s > MAX_WAIT_S * 4 {
            entry.count = 0;
        }
        entry.count = entry.count.saturating_add(1);
        entry.last_s = now_s;
    }

    /// Forgets the failures of `key` after a success.
    pub fn succeeded(&self, key: &str) {
        self.0.lock().remove(key);
    }
}

/// 0 for the first few, then 2, 4, 8 … seconds.
fn penalty_s(count: u32) -> i64 {
    if count < FREE {
        return 0;
    }
    (2_i64 << (count - FREE).min(20)).min(MAX_WAIT_S)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guessing_gets_slower_and_a_success_clears_it() {
        let throttle = Throttle::default();
        for _ in 0..4 {
            throttle.failed("ann", 100);
        }
        assert_eq!(throttle.wait_s("ann", 100), None);
        throttle.failed("ann", 100);
        assert_eq!(throttle.wait_s("ann", 100), Some(2));
        throttle.failed("ann", 102);
        assert_eq!(throttle.wait_s("ann", 103), Some(3));
        assert_eq!(throttle.wait_s("bob", 103), None);
        throttle.succeeded("ann");
        assert_eq!(throttle.wait_s("ann", 103), None);
    }

    #[test]
    fn memory_is_bounded() {
        let throttle = Throttle::default();
        for n in 0..MAX_ENTRIES + 5 {
            throttle.failed(&format!("{n}"), i64::try_from(n).expect("small"));
        }
        assert_eq!(throttle.0.lock().len(), MAX_ENTRIES);
    }
}
