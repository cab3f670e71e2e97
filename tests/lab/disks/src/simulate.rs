//! Readers on a volume in virtual time: what happens is a list of events in order of time, and nothing sleeps.
//!
//! The same volume, readers and policy give the same result to the last bit, on a busy machine as on an idle one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::drive::{Drive, Kind};
use crate::layout::Layout;
use crate::params::Params;
use crate::queue::{Chooser, Policy, Waiting};

/// How fast a reader asks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// The next request as soon as the last is answered.
    Free,
    /// A player: fills `buffers` requests, then plays at `bytes_s` and asks again whenever one of them is empty.
    Playing {
        /// Rate of the film.
        bytes_s: f64,
        /// Requests that its memory holds.
        buffers: u32,
    },
}

/// Where a reader reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// On from `Reader::start`, round to it at the end of the volume.
    Sequential,
    /// Anywhere on the volume, in steps of the request size.
    Random {
        /// The same seed, the same places.
        seed: u64,
    },
}

/// From an answer to the next request on a machine that is not busy: measured through a loop device.
pub const HOST_TURN_S: f64 = 100e-6;

/// One reader.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reader {
    /// First byte of the volume that it reads.
    pub start: u64,
    /// Bytes a request.
    pub request_bytes: u64,
    /// When it comes.
    pub begins_s: f64,
    /// How fast.
    pub pace: Pace,
    /// Where.
    pub pattern: Pattern,
    /// From an answer to the reader's next request: interrupt, wake-up, submission. Without it a drive that
    /// takes the nearest command would serve one reader for ever.
    pub turn_s: f64,
    /// Served only when a disk has nothing else.
    pub is_background: bool,
}

impl Reader {
    /// A sequential reader that reads as fast as it can.
    #[must_use]
    pub fn free(start: u64, request_bytes: u64) -> Self {
        Self {
            start,
            request_bytes,
            begins_s: 0.0,
            pace: Pace::Free,
            pattern: Pattern::Sequential,
            turn_s: HOST_TURN_S,
            is_background: false,
        }
    }
}

/// A volume.
#[derive(Clone, Debug)]
pub struct Volume {
    /// Its disks are all alike.
    pub disk: Params,
    /// How its bytes lie on them.
    pub layout: Layout,
    /// In which order a disk serves what waits for it.
    pub policy: Policy,
}

impl Volume {
    /// Bytes that readers may use: as many as all disks can hold in any of the layouts without wrapping.
    fn size_bytes(&self) -> u64 {
        match self.layout {
            Layout::Striped { columns, .. } => self.disk.size_bytes.saturating_mul(columns as u64),
            Layout::Rotated { disks, copies, .. } => self.disk.size_bytes / copies as u64 * disks as u64,
            Layout::Parity { disks, .. } => self.disk.size_bytes.saturating_mul(disks as u64 - 1),
        }
    }
}

/// What became of a reader.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReaderResult {
    /// Bytes that it got.
    pub bytes: u64,
    /// When its buffers were full and it began to play.
    pub plays_from_s: Option<f64>,
    /// Requests that came after its memory had run empty.
    pub late: u64,
    /// By how much at worst.
    pub worst_late_s: f64,
    /// The longest wait for an answer.
    pub worst_wait_s: f64,
}

/// What a disk did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DiskResult {
    /// Commands.
    pub requests: u64,
    /// Bytes that they asked for.
    pub bytes: u64,
    /// Time spent serving.
    pub busy_s: f64,
    /// Of it, moving the head.
    pub seek_s: f64,
    /// Of it, waiting for the angle.
    pub rotation_s: f64,
    /// Bytes that had been read ahead.
    pub cached_bytes: u64,
}

/// What became of everything.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// In the order of the readers.
    pub readers: Vec<ReaderResult>,
    /// In the order of the disks.
    pub disks: Vec<DiskResult>,
    /// Virtual time that went by.
    pub elapsed_s: f64,
}

impl Outcome {
    /// Bytes a second, all readers together.
    #[must_use]
    pub fn bytes_s(&self) -> f64 {
        self.readers.iter().map(|r| r.bytes).sum::<u64>() as f64 / self.elapsed_s
    }

    /// Whether every player began within the first third and never ran empty.
    #[must_use]
    pub fn is_smooth(&self) -> bool {
        let third = self.elapsed_s / 3.0;
        self.readers.iter().all(|r| r.late == 0 && r.plays_from_s.is_some_and(|t| t < third))
    }
}

/// A moment with something in it. Ordered by time, then by number: what came first stays first.
#[derive(Clone, Copy, PartialEq)]
struct Event {
    at_s: f64,
    number: u64,
    what: What,
}

#[derive(Clone, Copy, PartialEq)]
enum What {
    Ask(usize),
    Answer {
        reader: usize,
    },
    /// A disk can take another command.
    Ready,
}

impl Eq for Event {}
impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Event {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at_s.total_cmp(&other.at_s).then(self.number.cmp(&other.number))
    }
}

struct Disk {
    drive: Drive,
    chooser: Chooser,
    waiting: Vec<Waiting>,
    /// The reader of each.
    askers: Vec<usize>,
    result: DiskResult,
}

/// A reader's way through its film.
struct Progress {
    asked: u64,
    asked_at_s: f64,
    deadline_s: f64,
    /// Pieces of the request under way that are not answered yet.
    open_pieces: usize,
    seed: u64,
    result: ReaderResult,
}

/// Runs the readers for `for_s` seconds of virtual time.
#[must_use]
pub fn run(volume: &Volume, readers: &[Reader], for_s: f64) -> Outcome {
    Run::new(volume, readers).until(for_s)
}

struct Run<'a> {
    volume: &'a Volume,
    size_bytes: u64,
    readers: &'a [Reader],
    progress: Vec<Progress>,
    disks: Vec<Disk>,
    events: BinaryHeap<Reverse<Event>>,
    number: u64,
}

impl<'a> Run<'a> {
    fn new(volume: &'a Volume, readers: &'a [Reader]) -> Self {
        let disk = || Disk {
            drive: Drive::new(volume.disk.clone()),
            chooser: Chooser::new(volume.policy),
            waiting: Vec::new(),
            askers: Vec::new(),
            result: DiskResult::default(),
        };
        let seed = |r: &Reader| if let Pattern::Random { seed } = r.pattern { seed } else { 0 };
        let mut run = Self {
            volume,
            size_bytes: volume.size_bytes(),
            readers,
            progress: readers
                .iter()
                .map(|r| Progress {
                    asked: 0,
                    asked_at_s: 0.0,
                    deadline_s: 0.0,
                    open_pieces: 0,
                    seed: seed(r),
                    result: ReaderResult::default(),
                })
                .collect(),
            disks: (0..volume.layout.disks()).map(|_| disk()).collect(),
            events: BinaryHeap::new(),
            number: 0,
        };
        for (i, reader) in readers.iter().enumerate() {
            run.at(reader.begins_s, What::Ask(i));
        }
        run
    }

    fn at(&mut self, at_s: f64, what: What) {
        self.number += 1;
        self.events.push(Reverse(Event { at_s, number: self.number, what }));
    }

    fn until(mut self, for_s: f64) -> Outcome {
        while let Some(Reverse(event)) = self.events.pop() {
            if event.at_s > for_s {
                break;
            }
            match event.what {
                What::Ask(reader) => self.ask(reader, event.at_s),
                What::Answer { reader } => self.answer(reader, event.at_s),
                What::Ready => {}
            }
            // Everything that happens at this moment is in the queues before a disk chooses.
            if self.events.peek().is_none_or(|next| next.0.at_s > event.at_s) {
                self.start_disks(event.at_s);
            }
        }
        Outcome {
            readers: self.progress.iter().map(|p| p.result).collect(),
            disks: self.disks.iter().map(|d| d.result).collect(),
            elapsed_s: for_s,
        }
    }

    fn ask(&mut self, i: usize, now_s: f64) {
        let reader = &self.readers[i];
        let progress = &mut self.progress[i];
        let span = self.size_bytes - reader.request_bytes;
        let at = match reader.pattern {
            Pattern::Sequential => (reader.start + progress.asked * reader.request_bytes) % span,
            Pattern::Random { .. } => {
                next_random(&mut progress.seed) % (span / reader.request_bytes) * reader.request_bytes
            }
        };
        progress.deadline_s = match reader.pace {
            Pace::Free => now_s,
            // Until it plays, as if it did from when it came.
            Pace::Playing { bytes_s, .. } => {
                progress.result.plays_from_s.unwrap_or(reader.begins_s)
                    + (progress.asked * reader.request_bytes) as f64 / bytes_s
            }
        };
        progress.asked += 1;
        progress.asked_at_s = now_s;
        let pieces = self.volume.layout.read(at, reader.request_bytes, i);
        progress.open_pieces = pieces.len();
        for piece in pieces {
            let disk = &mut self.disks[piece.disk];
            disk.waiting.push(Waiting {
                at: piece.at,
                len_bytes: piece.len_bytes,
                since_s: now_s,
                deadline_s: progress.deadline_s,
                is_background: reader.is_background,
            });
            disk.askers.push(i);
        }
    }

    fn answer(&mut self, i: usize, now_s: f64) {
        let reader = &self.readers[i];
        let progress = &mut self.progress[i];
        progress.open_pieces -= 1;
        if progress.open_pieces > 0 {
            return;
        }
        let result = &mut progress.result;
        result.bytes += reader.request_bytes;
        result.worst_wait_s = result.worst_wait_s.max(now_s - progress.asked_at_s);
        let mut next_s = now_s + reader.turn_s;
        if let Pace::Playing { bytes_s, buffers } = reader.pace {
            let one_s = reader.request_bytes as f64 / bytes_s;
            match result.plays_from_s {
                None if progress.asked >= u64::from(buffers) => result.plays_from_s = Some(now_s),
                None => {}
                Some(_) if now_s > progress.deadline_s => {
                    result.late += 1;
                    result.worst_late_s = result.worst_late_s.max(now_s - progress.deadline_s);
                }
                Some(_) => {}
            }
            if let Some(from_s) = result.plays_from_s {
                next_s = next_s.max(from_s + (progress.asked + 1 - u64::from(buffers)) as f64 * one_s);
            }
        }
        self.at(next_s, What::Ask(i));
    }

    fn start_disks(&mut self, now_s: f64) {
        for number in 0..self.disks.len() {
            loop {
                let disk = &mut self.disks[number];
                if disk.waiting.is_empty() || disk.drive.free_at_s() > now_s {
                    break;
                }
                let Some(at) = disk.chooser.choose(&disk.drive, &disk.waiting, now_s) else { break };
                let (command, reader) = (disk.waiting.remove(at), disk.askers.remove(at));
                let service = disk.drive.serve(Kind::Read, command.at, command.len_bytes, now_s);
                let free_s =
                    disk.drive.free_at_s().max(service.done_s.min(disk.drive.free_at_s().max(now_s)));
                let result = &mut disk.result;
                result.requests += 1;
                result.bytes += command.len_bytes;
                result.busy_s += service.done_s - now_s;
                result.seek_s += service.seek_s;
                result.rotation_s += service.rotation_s;
                result.cached_bytes += service.cached_bytes;
                self.at(service.done_s, What::Answer { reader });
                if free_s < service.done_s {
                    self.at(free_s, What::Ready);
                }
            }
        }
    }
}

/// A linear congruential step (Knuth's MMIX constants); its upper bits are good enough for places on a disk.
fn next_random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *seed >> 20
}

/// Where counting ends: a volume that carries more is not limited by its disks.
const MOST_PLAYERS: usize = 1 << 14;

/// The largest number of equal players, spread over the volume, of which none runs empty in `for_s` seconds.
#[must_use]
pub fn most_players(volume: &Volume, bytes_s: f64, request_bytes: u64, buffers: u32, for_s: f64) -> usize {
    let fits = |count: usize| {
        run(volume, &players(volume, count, bytes_s, request_bytes, buffers), for_s).is_smooth()
    };
    let (mut good, mut bad) = (0, 64);
    while fits(bad) && bad < MOST_PLAYERS {
        (good, bad) = (bad, bad * 2);
    }
    while bad - good > 1 {
        let middle = (good + bad) / 2;
        if fits(middle) { good = middle } else { bad = middle }
    }
    good
}

/// Players that come one after the other within 4 seconds, each at its own place.
#[must_use]
pub fn players(volume: &Volume, count: usize, bytes_s: f64, request_bytes: u64, buffers: u32) -> Vec<Reader> {
    let apart = volume.size_bytes() / count.max(1) as u64;
    (0..count)
        .map(|i| Reader {
            start: (i as u64 * apart) & !4095,
            begins_s: i as f64 * 0.137 % 4.0,
            pace: Pace::Playing { bytes_s, buffers },
            ..Reader::free(0, request_bytes)
        })
        .collect()
}

#[cfg(test)]
mod tests;
