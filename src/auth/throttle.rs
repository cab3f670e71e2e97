//! Slows down guessing. Failures are counted for an account from one address, for an address, and for an account.
//!
//! Who guesses an account's password slows himself down, not its owner: the count of an account alone begins to matter only
//! after as many failures as no owner makes, when guesses come from many addresses, and not at an address from which the
//! account has signed in before.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;

use spindle_base::sync::Mutex;

/// Longest wait in seconds.
const MAX_WAIT_S: i64 = 300;
/// Entries kept of each sort; the oldest go first, so that an attacker cannot fill the memory.
const MAX_ENTRIES: usize = 10_000;

/// What failures are counted for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    /// An account from an address.
    Pair(String, IpAddr),
    /// An address, whatever accounts it tries. A household may be one.
    Address(IpAddr),
    /// An account, wherever it is tried from.
    Name(String),
}

impl Key {
    /// Failures that are free.
    fn free(&self) -> u32 {
        match self {
            Self::Pair(..) => 5,
            Self::Address(_) => 10,
            Self::Name(_) => 100,
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Failures {
    count: u32,
    last_s: i64,
}

#[derive(Debug, Default)]
struct State {
    failures: HashMap<Key, Failures>,
    /// Where accounts have signed in, and when last.
    known: HashMap<(String, IpAddr), i64>,
}

/// The counts. Names come in lower case; addresses as the network is counted (of IPv6 the first 64 bits).
#[derive(Debug, Default)]
pub struct Throttle(Mutex<State, 40>);

impl Throttle {
    /// Seconds to wait before `name` may be tried again from `address`; `None` if it may be now.
    #[must_use]
    pub fn wait_s(&self, name: &str, address: IpAddr, now_s: i64) -> Option<i64> {
        let state = self.0.lock();
        let known = state.known.contains_key(&(name.to_owned(), address));
        let waits = keys(name, address)
            .into_iter()
            .filter(|k| !(known && matches!(k, Key::Name(_))))
            .filter_map(|key| {
                let failures = state.failures.get(&key)?;
                Some(failures.last_s + penalty_s(failures.count, key.free()) - now_s)
            });
        waits.max().filter(|left| *left > 0)
    }

    /// Notes a failure.
    pub fn failed(&self, name: &str, address: IpAddr, now_s: i64) {
        let mut state = self.0.lock();
        for key in keys(name, address) {
            make_room(&mut state.failures, &key, |f| f.last_s);
            let entry = state.failures.entry(key).or_insert(Failures { count: 0, last_s: now_s });
            if now_s - entry.last_s > MAX_WAIT_S * 4 {
                entry.count = 0;
            }
            entry.count = entry.count.saturating_add(1);
            entry.last_s = now_s;
        }
    }

    /// Forgets the failures of `name` and of `address` after a success, not those of other accounts from there.
    pub fn succeeded(&self, name: &str, address: IpAddr, now_s: i64) {
        let mut state = self.0.lock();
        for key in keys(name, address) {
            state.failures.remove(&key);
        }
        let known = (name.to_owned(), address);
        make_room(&mut state.known, &known, |last_s| *last_s);
        state.known.insert(known, now_s);
    }
}

fn keys(name: &str, address: IpAddr) -> [Key; 3] {
    [Key::Pair(name.to_owned(), address), Key::Address(address), Key::Name(name.to_owned())]
}

/// Takes out the oldest entry where `key` would be one too many.
fn make_room<K: Hash + Eq + Clone, V>(entries: &mut HashMap<K, V>, key: &K, age: impl Fn(&V) -> i64) {
    if entries.len() >= MAX_ENTRIES && !entries.contains_key(key) {
        let oldest = entries.iter().min_by_key(|(_, v)| age(v)).map(|(k, _)| k.clone());
        if let Some(oldest) = oldest {
            entries.remove(&oldest);
        }
    }
}

/// 0 for the first few, then 2, 4, 8 … seconds.
fn penalty_s(count: u32, free: u32) -> i64 {
    if count < free {
        return 0;
    }
    (2_i64 << (count - free).min(20)).min(MAX_WAIT_S)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(n: u32) -> IpAddr {
        std::net::Ipv4Addr::from(0xc633_6400 + n).into()
    }

    #[test]
    fn guessing_gets_slower_and_a_success_clears_it() {
        let throttle = Throttle::default();
        for _ in 0..4 {
            throttle.failed("ann", at(1), 100);
        }
        assert_eq!(throttle.wait_s("ann", at(1), 100), None);
        throttle.failed("ann", at(1), 100);
        assert_eq!(throttle.wait_s("ann", at(1), 100), Some(2));
        throttle.failed("ann", at(1), 102);
        assert_eq!(throttle.wait_s("ann", at(1), 103), Some(3));
        assert_eq!(throttle.wait_s("bob", at(1), 103), None);
        throttle.succeeded("ann", at(1), 103);
        assert_eq!(throttle.wait_s("ann", at(1), 103), None);
    }

    #[test]
    fn who_guesses_slows_himself_down_and_not_the_owner_elsewhere() {
        let throttle = Throttle::default();
        for now_s in 0..20 {
            throttle.failed("ann", at(1), now_s);
        }
        assert!(throttle.wait_s("ann", at(1), 20).is_some());
        assert!(throttle.wait_s("bob", at(1), 20).is_some(), "nor may that address try another account");
        assert_eq!(throttle.wait_s("ann", at(2), 20), None);
    }

    #[test]
    fn a_success_of_ones_own_account_does_not_buy_more_guesses_at_anothers() {
        let throttle = Throttle::default();
        for _ in 0..5 {
            throttle.failed("ann", at(1), 100);
        }
        throttle.succeeded("eve", at(1), 100);
        assert!(throttle.wait_s("ann", at(1), 100).is_some());
    }

    #[test]
    fn guesses_from_many_addresses_are_slowed_down_except_where_the_owner_has_been() {
        let throttle = Throttle::default();
        throttle.succeeded("ann", at(200), 0);
        for n in 0..100 {
            throttle.failed("ann", at(n), 100);
        }
        assert!(throttle.wait_s("ann", at(201), 100).is_some());
        assert_eq!(throttle.wait_s("ann", at(200), 100), None);
    }

    #[test]
    fn memory_is_bounded() {
        let throttle = Throttle::default();
        let most = u32::try_from(MAX_ENTRIES).expect("small");
        for n in 0..most / 3 + 5 {
            throttle.failed(&format!("{n}"), at(n), i64::from(n));
        }
        assert_eq!(throttle.0.lock().failures.len(), MAX_ENTRIES);
        for n in 0..most + 5 {
            throttle.succeeded("ann", at(n), i64::from(n));
        }
        assert_eq!(throttle.0.lock().known.len(), MAX_ENTRIES);
    }
}
