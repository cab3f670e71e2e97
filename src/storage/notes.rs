//! The queue of what the recorder is told: bounded, in order, and woken only for what cannot wait.
//!
//! A channel wakes its receiver for every message. With a row for each read that was a wake of another thread per 2 MiB, most
//! of what a record cost while bytes came off a disk; rows now lie here until something else is told, until there are
//! many, or until the recorder looks by itself.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use spindle_base::clock;

use crate::recorder::Note;

/// Patient notes that together wake the recorder: half a gigabyte of reads of 2 MiB, and a sixteenth of the queue.
const MANY: usize = 256;

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Note>,
    /// One of them does not wait for the recorder's own time.
    is_urgent: bool,
    /// The recorder has gone.
    is_over: bool,
}

#[derive(Debug)]
struct Shared {
    most: usize,
    // A condition variable needs the standard guard. A leaf: nothing else is locked under it, and it is held for
    // a push or a swap.
    state: Mutex<State>,
    /// There is something that cannot wait.
    due: Condvar,
    /// There is room again.
    room: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The end that tells.
#[derive(Debug, Clone)]
pub(crate) struct Sender(Arc<Shared>);

/// The end of the recorder. When it is dropped, nothing more is taken.
#[derive(Debug)]
pub(crate) struct Receiver {
    shared: Arc<Shared>,
    /// Taken from the queue and not given out yet.
    taken: VecDeque<Note>,
}

/// A queue of at most `most` notes.
pub(crate) fn queue(most: usize) -> (Sender, Receiver) {
    let shared =
        Arc::new(Shared { most, state: Mutex::default(), due: Condvar::new(), room: Condvar::new() });
    (Sender(Arc::clone(&shared)), Receiver { shared, taken: VecDeque::new() })
}

impl Sender {
    /// Adds a note that has time. `false`: there is no room, or nobody listens. Never waits.
    pub(crate) fn leave(&self, note: Note) -> bool {
        self.push(self.0.lock(), note, false)
    }

    /// Adds a note that wakes the recorder. `false` as there. Never waits.
    pub(crate) fn offer(&self, note: Note) -> bool {
        self.push(self.0.lock(), note, true)
    }

    /// The same, and waits for room. `false`: nobody listens.
    pub(crate) fn tell(&self, note: Note) -> bool {
        let mut state = self.0.lock();
        while state.waiting.len() >= self.0.most && !state.is_over {
            state = self.0.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        self.push(state, note, true)
    }

    fn push(&self, mut state: MutexGuard<'_, State>, note: Note, is_urgent: bool) -> bool {
        if state.is_over || state.waiting.len() >= self.0.most {
            return false;
        }
        state.waiting.push_back(note);
        // Whoever makes it urgent wakes; one that is awake, or was woken, sees the rest by itself.
        let wakes = !state.is_urgent && (is_urgent || state.waiting.len() >= MANY);
        state.is_urgent |= wakes;
        drop(state);
        if wakes {
            self.0.due.notify_one();
        }
        true
    }
}

impl Receiver {
    /// Everything that was told, in order: at once if something of it cannot wait, otherwise after `patience`. May be
    /// nothing then.
    pub(crate) fn take(&mut self, patience: Duration) -> impl Iterator<Item = Note> + '_ {
        let until = clock::instant() + patience;
        let mut state = self.shared.lock();
        while !state.is_urgent {
            let left = until.saturating_duration_since(clock::instant());
            if left.is_zero() {
                break;
            }
            (state, _) = self.shared.due.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
        }
        state.is_urgent = false;
        self.taken.append(&mut state.waiting);
        drop(state);
        self.shared.room.notify_all();
        self.taken.drain(..)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.is_over = true;
        let left = std::mem::take(&mut state.waiting);
        drop(state);
        // Outside the lock: a question's sender among them wakes its asker.
        drop(left);
        self.shared.room.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::StreamId;

    fn note(n: u64) -> Note {
        Note::Worker { stream: StreamId(n), pid: 0 }
    }

    fn numbers(notes: impl Iterator<Item = Note>) -> Vec<u64> {
        notes.map(|n| if let Note::Worker { stream, .. } = n { stream.0 } else { u64::MAX }).collect()
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn what_has_time_comes_with_what_has_none_and_in_order() {
        let (tx, mut rx) = queue(8);
        assert!(tx.leave(note(1)) && tx.leave(note(2)));
        assert!(tx.offer(note(3)) && tx.leave(note(4)));
        assert_eq!(numbers(rx.take(LONG)), [1, 2, 3, 4]);
        assert!(tx.leave(note(5)));
        assert_eq!(numbers(rx.take(Duration::ZERO)), [5]);
        assert!(numbers(rx.take(Duration::ZERO)).is_empty());
    }

    #[test]
    fn many_that_have_time_have_none_together() {
        let (tx, mut rx) = queue(2 * MANY);
        for n in 0..MANY as u64 {
            assert!(tx.leave(note(n)));
        }
        assert_eq!(numbers(rx.take(LONG)).len(), MANY);
    }

    #[test]
    fn a_full_queue_refuses_and_the_one_who_may_not_lose_waits_for_room() {
        let (tx, mut rx) = queue(2);
        assert!(tx.leave(note(1)) && tx.offer(note(2)));
        assert!(!tx.leave(note(3)) && !tx.offer(note(3)));
        let teller = tx.clone();
        let told = std::thread::spawn(move || teller.tell(note(4)));
        let mut seen = numbers(rx.take(LONG));
        seen.extend(numbers(rx.take(LONG)));
        assert!(told.join().unwrap());
        assert_eq!(seen, [1, 2, 4]);
    }

    #[test]
    fn nobody_waits_for_a_recorder_that_has_gone() {
        let (tx, rx) = queue(1);
        assert!(tx.offer(note(1)));
        let teller = tx.clone();
        let told = std::thread::spawn(move || teller.tell(note(2)));
        drop(rx);
        assert!(!told.join().unwrap());
        assert!(!tx.leave(note(3)) && !tx.tell(note(3)));
    }
}
