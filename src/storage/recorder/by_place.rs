//! Requests of a filesystem whose own threads read (ZFS): they say nothing of who wanted them, and they come before they are
//! asked for, because its read-ahead is none that an application could switch off. What lies at their place tells which byte of
//! which file it is; and who wanted that byte, the reads of that file do: the one that asks for it, or the one that it lies
//! closest ahead of. Pure: values in, values out.

use std::collections::{HashMap, VecDeque};

use spindle_base::units::ByteRange;

use crate::file::FileIdentity;
use crate::ledger::StreamId;
use crate::trace::BlockEvent;

/// A read of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) stream: StreamId,
    pub(crate) range: ByteRange,
    pub(crate) start_us: u64,
    pub(crate) end_us: u64,
}

/// A request whose stream is not known yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) event: BlockEvent,
    /// Whose read the submitting thread was at, where it was a reader's.
    pub(crate) during: Option<StreamId>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct ByPlace {
    reads: HashMap<FileIdentity, VecDeque<Read>>,
    waiting: VecDeque<Waiting>,
}

/// How far ahead of a reader ZFS fetches at most (`zfetch_max_distance`: 8 MiB, since 2.2 64 MiB).
const AHEAD_BYTES: u64 = 64 << 20;
/// A record is read whole: it may begin this far before what was asked for (the usual `recordsize` limit).
const RECORD_BYTES: u64 = 1 << 20;
/// A read that ended longer ago than this does not go on at the moment.
const PAUSE_US: u64 = 500_000;
/// Reads are remembered so long, and so many of a file.
const KEEP_US: u64 = 20_000_000;
const MAX_READS: usize = 512;
/// Requests that wait: some gigabytes of records.
const MAX_WAITING: usize = 16_384;

impl ByPlace {
    /// A read that is over.
    pub(crate) fn read(&mut self, file: FileIdentity, read: Read) {
        let reads = self.reads.entry(file).or_default();
        reads.push_back(read);
        if reads.len() > MAX_READS {
            reads.pop_front();
        }
    }

    /// A request. `false`: another had to be forgotten for it.
    pub(crate) fn request(&mut self, event: BlockEvent, during: Option<StreamId>) -> bool {
        self.waiting.push_back(Waiting { event, during });
        let fits = self.waiting.len() <= MAX_WAITING;
        if !fits {
            self.waiting.pop_front();
        }
        fits
    }

    /// Takes what was submitted until `until_us`.
    pub(crate) fn due(&mut self, until_us: u64) -> Vec<Waiting> {
        let waiting = std::mem::take(&mut self.waiting);
        let (due, rest) = waiting.into_iter().partition(|w: &Waiting| w.event.time_us <= until_us);
        self.waiting = rest;
        let due: VecDeque<Waiting> = due;
        due.into()
    }

    /// Puts one back whose read may still come.
    pub(crate) fn wait_on(&mut self, waiting: Waiting) {
        self.waiting.push_back(waiting);
    }

    /// Whose byte `offset` of a file is, that a request of the time `at_us` brings.
    pub(crate) fn owner(&self, file: FileIdentity, offset: u64, at_us: u64) -> Option<StreamId> {
        let reads = self.reads.get(&file)?.iter().filter(|r| r.start_us <= at_us);
        // First those who read at the time, then the nearest, then who came first: the others find it in memory.
        let rank = |r: &Read| {
            let distance = distance(r.range, offset)?;
            Some((at_us > r.end_us.saturating_add(PAUSE_US), distance, r.start_us, r.stream))
        };
        reads.filter_map(rank).min().map(|(.., stream)| stream)
    }

    /// Lets go of what no request can be of any more.
    pub(crate) fn forget_before(&mut self, now_us: u64) {
        for reads in self.reads.values_mut() {
            while reads.front().is_some_and(|r| r.end_us.saturating_add(KEEP_US) < now_us) {
                reads.pop_front();
            }
        }
        self.reads.retain(|_, reads| !reads.is_empty());
    }
}

/// How far ahead of a read a byte is; `None` where it is not fetched for it.
fn distance(range: ByteRange, offset: u64) -> Option<u64> {
    if offset >= range.end() {
        let ahead = offset - range.end();
        return (ahead < AHEAD_BYTES).then_some(ahead);
    }
    let before = range.start().saturating_sub(offset);
    (before < RECORD_BYTES).then_some(before)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::BlockOp;

    const M: u64 = 1 << 20;
    const S: u64 = 1_000_000;

    fn file(ino: u64) -> FileIdentity {
        FileIdentity { dev: 1, ino, size_bytes: 1 << 30, modified_us: 0, changed_us: 0 }
    }

    fn read(stream: u64, from_mib: u64, to_mib: u64, start_us: u64, end_us: u64) -> Read {
        Read {
            stream: StreamId(stream),
            range: ByteRange::new(from_mib * M, to_mib * M).unwrap(),
            start_us,
            end_us,
        }
    }

    fn of(reads: &[Read], offset: u64, at_us: u64) -> Option<u64> {
        let mut by_place = ByPlace::default();
        reads.iter().for_each(|r| by_place.read(file(1), *r));
        by_place.owner(file(1), offset, at_us).map(|s| s.0)
    }

    #[test]
    fn what_is_read_ahead_is_for_the_reader_close_behind_it() {
        let reads = [read(1, 0, 2, 0, 100), read(2, 40, 42, 0, 100)];
        assert_eq!(of(&reads, 3 * M, 200), Some(1));
        assert_eq!(of(&reads, 43 * M, 200), Some(2));
        assert_eq!(of(&reads, 39 * M + M / 2, 200), Some(2), "the record before its first byte");
        assert_eq!(of(&reads, 30 * M, 200), Some(1));
        assert_eq!(of(&reads[1..], 30 * M, 200), None, "nobody reads backwards");
        assert_eq!(of(&reads, 200 * M, 200), None, "nobody is near");
    }

    #[test]
    fn who_paused_there_is_not_who_reads_there_now() {
        let reads = [read(1, 0, 3, 0, 100), read(2, 0, 2, 9 * S, 9 * S + 100)];
        assert_eq!(of(&reads, 4 * M, 9 * S + 50), Some(2));
        assert_eq!(of(&reads, 4 * M, 50), Some(1));
    }

    #[test]
    fn of_two_that_ask_for_the_same_the_first_one_fetches() {
        let reads = [read(2, 0, 2, 10, 100), read(1, 0, 2, 20, 100)];
        assert_eq!(of(&reads, M, 50), Some(2));
        assert_eq!(of(&reads, M, 5), None, "before anybody asked");
    }

    #[test]
    fn another_file_is_another_matter_and_memory_is_bounded() {
        let mut by_place = ByPlace::default();
        for i in 0..2000 {
            by_place.read(file(1), read(1, i, i + 1, i, i + 1));
        }
        assert_eq!(by_place.owner(file(2), 0, 5), None);
        assert_eq!(by_place.reads[&file(1)].len(), MAX_READS);
        let event = BlockEvent {
            op: BlockOp::Queue,
            time_us: 7,
            tid: 1,
            pid: 1,
            device: 1,
            sector: 8,
            sectors: 8,
            is_metadata: false,
            is_failed: false,
        };
        let fits = (0..=MAX_WAITING).filter(|_| by_place.request(event, None)).count();
        assert_eq!((fits, by_place.waiting.len()), (MAX_WAITING, MAX_WAITING));
        assert_eq!((by_place.due(6).len(), by_place.due(7).len()), (0, MAX_WAITING));
        by_place.forget_before(60 * S);
        assert!(by_place.reads.is_empty());
    }
}
