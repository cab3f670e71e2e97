//! A mutex with a place in the one order in which locks may be taken.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::sync::{self, PoisonError};

thread_local! {
    static HELD: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A mutex of rank `ORDER`: a thread that holds one may only take locks of a higher rank.
/// A wrong order panics in debug builds, where a test meets it, and costs nothing in release.
///
/// A panic while it is held does not poison it: every user keeps its data valid at each step.
#[derive(Debug, Default)]
pub struct Mutex<T, const ORDER: u8>(sync::Mutex<T>);

/// The lock, held.
pub struct Guard<'a, T, const ORDER: u8>(sync::MutexGuard<'a, T>);

impl<T, const ORDER: u8> Mutex<T, ORDER> {
    /// Wraps `value`.
    pub const fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }

    /// Waits for the lock. Never held across an await (`clippy::await_holding_lock`).
    pub fn lock(&self) -> Guard<'_, T, ORDER> {
        if cfg!(debug_assertions) {
            HELD.with_borrow_mut(|held| {
                if let Some(top) = held.last() {
                    assert!(*top < ORDER, "lock of rank {ORDER} taken under rank {top}");
                }
                held.push(ORDER);
            });
        }
        Guard(self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<T, const ORDER: u8> Drop for Guard<'_, T, ORDER> {
    fn drop(&mut self) {
        if cfg!(debug_assertions) {
            HELD.with_borrow_mut(|held| {
                if let Some(at) = held.iter().rposition(|rank| *rank == ORDER) {
                    held.remove(at);
                }
            });
        }
    }
}

impl<T, const ORDER: u8> Deref for Guard<'_, T, ORDER> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T, const ORDER: u8> DerefMut for Guard<'_, T, ORDER> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "lock of rank 1 taken under rank 2")]
    fn taking_locks_out_of_order_panics() {
        let (low, high) = (Mutex::<_, 1>::new(()), Mutex::<_, 2>::new(()));
        let _high = high.lock();
        let _low = low.lock();
    }
}
