//! Requests on a layout of modelled disks, in virtual time: what happens is a list of events in order of time, and nothing sleeps. The same
//! input gives the same output to the last bit.
//!
//! A stream has one read under way, as the server has for a viewer, and makes the next when its time has come and the last is answered. A
//! read is cut into what the kernel sends at once (`bio_bytes`), each of these where the layout divides it; a copy is chosen for each
//! piece; pieces that touch on one disk are sent as one command of at most `command_bytes`. A disk sorts the commands in its queue.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use spindle_drive::drive::{Drive, Kind};
use spindle_drive::params::Params;
use spindle_drive::queue::{Chooser as Order, Policy as OrderPolicy, Waiting};

use crate::choose::{Chooser, Reader};
use crate::error::SimulateError;
use crate::layout::{Layout, Place};
use crate::session::Request;

/// From an answer to the next request on a machine that is not busy: measured through a loop device.
pub const HOST_TURN_S: f64 = 100e-6;

/// Of how the machine reads.
#[derive(Debug, Clone, PartialEq)]
pub struct Host {
    /// What the kernel sends down at once to a block device, which chooses a copy for each: 256 pages (`BIO_MAX_VECS`). Filesystems and
    /// Storage Spaces choose for a whole read.
    pub bio_bytes: u64,
    /// What a disk is asked for at once: `max_sectors_kb`, 1280 where nothing else is said.
    pub command_bytes: u64,
    /// From an answer to the next request.
    pub turn_s: f64,
    /// What a player holds in advance: a request that is later than it is wanted by less is not noticed.
    pub buffer_s: f64,
}

impl Default for Host {
    fn default() -> Self {
        Self { bio_bytes: 1 << 20, command_bytes: 1280 << 10, turn_s: HOST_TURN_S, buffer_s: 5.0 }
    }
}

/// A session with where and when it is replayed.
#[derive(Debug, Clone, Copy)]
pub struct Stream<'a> {
    /// What it reads, in order of time.
    pub requests: &'a [Request],
    /// Byte of the volume at which its file begins.
    pub place: u64,
    /// Seconds from the start of the replay to its own.
    pub starts_s: f64,
    /// The moment of its session, in seconds, that is `starts_s`.
    pub from_s: f64,
    /// Its requests begin with this one, go round to it, and keep their distances in time: the same session at another phase.
    pub first: usize,
    /// Seconds after which it goes round.
    pub period_s: f64,
    /// Number of the thread that reads for it.
    pub thread: u64,
}

impl<'a> Stream<'a> {
    /// One from its beginning.
    #[must_use]
    pub fn whole(requests: &'a [Request], place: u64, starts_s: f64, thread: u64) -> Self {
        let last_s = requests.last().map_or(0.0, |r| r.at_s);
        Self { requests, place, starts_s, from_s: 0.0, first: 0, period_s: last_s, thread }
    }

    /// Its `n`th request, with the time in the replay.
    fn request(&self, n: usize) -> Option<Request> {
        if n >= self.requests.len() {
            return None;
        }
        let number = self.first + n;
        let (at, rounds) = (number % self.requests.len(), number / self.requests.len());
        let request = self.requests[at];
        let at_s = self.starts_s + request.at_s + rounds as f64 * self.period_s - self.from_s;
        Some(Request { at_s, ..request })
    }

    /// When the `n`th request's bytes are wanted: when the next is made, as the server reads one chunk ahead.
    fn wanted_s(&self, n: usize) -> f64 {
        match (self.request(n), self.request(n + 1)) {
            (_, Some(next)) => next.at_s,
            (Some(last), None) => last.at_s + self.period_s / self.requests.len().max(1) as f64,
            (None, None) => f64::INFINITY,
        }
    }
}

/// What became of a stream.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StreamResult {
    /// Requests.
    pub requests: u64,
    /// Bytes.
    pub bytes: u64,
    /// Times that its player had nothing left.
    pub stalls: u64,
    /// Seconds that it stood still for them.
    pub stalled_s: f64,
    /// What its player would have had to hold in advance to notice nothing.
    pub buffer_needed_s: f64,
    /// When its last byte came.
    pub done_s: f64,
    /// From asking to the answer, of each request, in order.
    pub latency_s: Vec<f32>,
}

/// What a disk did.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct DiskResult {
    /// Commands.
    pub requests: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Time spent serving.
    pub busy_s: f64,
    /// Of it, moving the head.
    pub seek_s: f64,
    /// Of it, waiting for the angle.
    pub rotation_s: f64,
    /// Bytes that the drive had read ahead.
    pub cached_bytes: u64,
    /// Time that commands waited before they were begun, all together.
    pub waited_s: f64,
    /// Commands that waited or were served at once, at most.
    pub deepest: usize,
}

/// What became of everything.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// In the order of the streams.
    pub streams: Vec<StreamResult>,
    /// In the order of the disks.
    pub disks: Vec<DiskResult>,
    /// From the start to the last answer, or to the last request's time where that is later.
    pub elapsed_s: f64,
}

impl Outcome {
    /// Share of the time in which a disk worked.
    #[must_use]
    pub fn busy_share(&self, disk: usize) -> f64 {
        self.disks
            .get(disk)
            .map_or(0.0, |d| if self.elapsed_s > 0.0 { d.busy_s / self.elapsed_s } else { 0.0 })
    }

    /// That of the busiest.
    #[must_use]
    pub fn busiest(&self) -> f64 {
        (0..self.disks.len()).map(|d| self.busy_share(d)).fold(0.0, f64::max)
    }

    /// Whether no player stood still.
    #[must_use]
    pub fn is_smooth(&self) -> bool {
        self.streams.iter().all(|s| s.stalls == 0)
    }
}

/// A command to a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Send {
    /// Where.
    pub place: Place,
    /// How many bytes.
    pub len_bytes: u64,
    /// Pieces of the layout that are in it: so often [`Chooser::done`] is called when it is over.
    pub pieces: u32,
}

/// What is sent to the disks for a read of `len_bytes` at byte `at` of the volume.
pub fn sends(
    layout: &Layout,
    chooser: &mut Chooser,
    host: &Host,
    at: u64,
    len_bytes: u64,
    reader: Reader,
) -> Vec<Send> {
    let mut sent: Vec<Send> = Vec::new();
    let (mut at, end) = (at, at.saturating_add(len_bytes));
    let bio_bytes = if layout.is_block_device() { host.bio_bytes } else { u64::MAX };
    while at < end {
        let len = bio_bytes.min(end - at);
        layout.runs(at, len, |_, run| {
            let place = run.copies[chooser.send(&run.copies, run.len_bytes, reader)];
            let continues = |c: &&mut Send| {
                c.place.disk == place.disk
                    && c.place.offset + c.len_bytes == place.offset
                    && c.len_bytes + run.len_bytes <= host.command_bytes
            };
            match sent.iter_mut().find(continues) {
                Some(c) => (c.len_bytes, c.pieces) = (c.len_bytes + run.len_bytes, c.pieces + 1),
                // One run may be longer than a command: it is sent in several, of one piece.
                None => {
                    let mut done = 0;
                    while done < run.len_bytes {
                        let len_bytes = host.command_bytes.min(run.len_bytes - done);
                        let place = Place { offset: place.offset + done, ..place };
                        sent.push(Send { place, len_bytes, pieces: u32::from(done == 0) });
                        done += len_bytes;
                    }
                }
            }
        });
        at += len;
    }
    sent
}

/// Asked now and then: requests done, of how many. `false`: it is enough.
pub type Watch<'a> = dyn FnMut(u64, u64) -> bool + 'a;

/// Requests between two questions of the watcher.
const WATCH_EVERY: u64 = 4096;

/// Replays streams.
///
/// # Errors
/// [`SimulateError::Stopped`] where the watcher said so; a stream that does not fit on the volume.
pub fn replay(
    layout: &Layout,
    disk: &Params,
    host: &Host,
    streams: &[Stream<'_>],
    watch: &mut Watch<'_>,
) -> Result<Outcome, SimulateError> {
    let size_bytes = layout.size_bytes();
    for (number, stream) in streams.iter().enumerate() {
        let end_bytes = stream.requests.iter().map(|r| r.offset + r.len_bytes).max().unwrap_or(0);
        if stream.place.checked_add(end_bytes).is_none_or(|end| end > size_bytes) {
            let (name, layout) = (format!("stream {}", number + 1), layout.text().to_owned());
            return Err(SimulateError::DoesNotFit {
                name,
                layout,
                end_bytes: stream.place.saturating_add(end_bytes),
                size_bytes,
            });
        }
    }
    Run::new(layout, disk, host, streams).finish(watch)
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
    Ask {
        stream: usize,
    },
    Answer {
        disk: usize,
        command: usize,
    },
    /// A disk can take another command.
    Ready {
        disk: usize,
    },
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

/// A command to a disk, on its way.
#[derive(Clone, Copy)]
struct Command {
    stream: usize,
    at: u64,
    len_bytes: u64,
    since_s: f64,
    /// Ends of its pieces, for the chooser: all in one.
    pieces: u32,
}

struct Disk {
    drive: Drive,
    order: Order,
    /// Numbers of commands, in order of arrival.
    waiting: Vec<usize>,
    under_way: usize,
    is_touched: bool,
    result: DiskResult,
}

#[derive(Default)]
struct Progress {
    made: usize,
    asked_at_s: f64,
    wanted_s: f64,
    open: usize,
    /// By how much its player is behind for the times that it stood still.
    shift_s: f64,
    result: StreamResult,
}

struct Run<'a> {
    layout: &'a Layout,
    host: &'a Host,
    streams: &'a [Stream<'a>],
    progress: Vec<Progress>,
    disks: Vec<Disk>,
    chooser: Chooser,
    commands: Vec<Command>,
    free: Vec<usize>,
    events: BinaryHeap<Reverse<Event>>,
    touched: Vec<usize>,
    number: u64,
    done: u64,
    last_s: f64,
}

impl<'a> Run<'a> {
    fn new(layout: &'a Layout, disk: &Params, host: &'a Host, streams: &'a [Stream<'a>]) -> Self {
        let one = || Disk {
            drive: Drive::new(disk.clone()),
            order: Order::new(OrderPolicy::Nearest),
            waiting: Vec::new(),
            under_way: 0,
            is_touched: false,
            result: DiskResult::default(),
        };
        let mut run = Self {
            layout,
            host,
            streams,
            progress: streams.iter().map(|_| Progress::default()).collect(),
            disks: (0..layout.disks()).map(|_| one()).collect(),
            chooser: Chooser::new(layout.policy(), layout.disks(), disk.is_rotating()),
            commands: Vec::new(),
            free: Vec::new(),
            events: BinaryHeap::new(),
            touched: Vec::new(),
            number: 0,
            done: 0,
            last_s: 0.0,
        };
        for (stream, row) in streams.iter().enumerate() {
            if let Some(first) = row.request(0) {
                run.at(first.at_s, What::Ask { stream });
            }
        }
        run
    }

    fn at(&mut self, at_s: f64, what: What) {
        self.number += 1;
        self.events.push(Reverse(Event { at_s, number: self.number, what }));
    }

    fn finish(mut self, watch: &mut Watch<'_>) -> Result<Outcome, SimulateError> {
        let all: u64 = self.streams.iter().map(|s| s.requests.len() as u64).sum();
        let mut asked = 0;
        while let Some(Reverse(event)) = self.events.pop() {
            match event.what {
                What::Ask { stream } => self.ask(stream, event.at_s),
                What::Answer { disk, command } => self.answer(disk, command, event.at_s),
                What::Ready { disk } => self.touch(disk),
            }
            // A disk that has just become free chooses among everything that there is at this moment.
            if self.events.peek().is_none_or(|next| next.0.at_s > event.at_s) {
                self.start_disks(event.at_s);
            }
            if self.done >= asked + WATCH_EVERY {
                asked = self.done;
                if !watch(self.done, all) {
                    return Err(SimulateError::Stopped);
                }
            }
        }
        let _last = watch(self.done, all);
        Ok(Outcome {
            streams: self.progress.into_iter().map(|p| p.result).collect(),
            disks: self.disks.into_iter().map(|d| d.result).collect(),
            elapsed_s: self.last_s,
        })
    }

    fn touch(&mut self, disk: usize) {
        if !self.disks[disk].is_touched {
            self.disks[disk].is_touched = true;
            self.touched.push(disk);
        }
    }

    fn ask(&mut self, number: usize, now_s: f64) {
        let stream = self.streams[number];
        let progress = &mut self.progress[number];
        let Some(request) = stream.request(progress.made) else { return };
        progress.asked_at_s = now_s;
        progress.wanted_s = stream.wanted_s(progress.made);
        let reader = Reader { thread: stream.thread, request: progress.made as u64 };
        progress.made += 1;
        progress.result.requests += 1;
        progress.result.bytes += request.len_bytes;
        let at = stream.place + request.offset;
        let sent = sends(self.layout, &mut self.chooser, self.host, at, request.len_bytes, reader);
        self.progress[number].open = sent.len();
        for Send { place, len_bytes, pieces } in sent {
            let disk = place.disk;
            let command = Command { stream: number, at: place.offset, len_bytes, since_s: now_s, pieces };
            let slot = match self.free.pop() {
                Some(slot) => {
                    self.commands[slot] = command;
                    slot
                }
                None => {
                    self.commands.push(command);
                    self.commands.len() - 1
                }
            };
            let d = &mut self.disks[disk];
            d.waiting.push(slot);
            d.result.deepest = d.result.deepest.max(d.waiting.len() + d.under_way);
            // They come one after the other: a disk that has nothing to do begins with the first, whatever follows.
            self.touch(disk);
            self.start_disks(now_s);
        }
    }

    fn answer(&mut self, disk: usize, slot: usize, now_s: f64) {
        let command = self.commands[slot];
        self.free.push(slot);
        self.disks[disk].under_way -= 1;
        self.last_s = self.last_s.max(now_s);
        for _ in 0..command.pieces {
            self.chooser.done(disk, command.at + command.len_bytes);
        }
        let progress = &mut self.progress[command.stream];
        progress.open -= 1;
        if progress.open > 0 {
            return;
        }
        self.done += 1;
        let late_s = now_s - (progress.wanted_s + progress.shift_s);
        let result = &mut progress.result;
        result.done_s = now_s;
        #[expect(clippy::cast_possible_truncation, reason = "latencies for people")]
        result.latency_s.push((now_s - progress.asked_at_s) as f32);
        result.buffer_needed_s = result.buffer_needed_s.max(late_s + progress.shift_s);
        if late_s > self.host.buffer_s {
            // The player stands still until it has it, and wants everything after it so much later.
            result.stalls += 1;
            result.stalled_s += late_s - self.host.buffer_s;
            progress.shift_s += late_s - self.host.buffer_s;
        }
        let (stream, shift_s, made) = (self.streams[command.stream], progress.shift_s, progress.made);
        if let Some(next) = stream.request(made) {
            let at_s = (next.at_s + shift_s).max(now_s + self.host.turn_s);
            self.at(at_s, What::Ask { stream: command.stream });
        } else {
            self.last_s = self.last_s.max(stream.wanted_s(made.saturating_sub(1)));
        }
    }

    fn start_disks(&mut self, now_s: f64) {
        for disk in std::mem::take(&mut self.touched) {
            self.disks[disk].is_touched = false;
            loop {
                let d = &mut self.disks[disk];
                if d.waiting.is_empty() || d.drive.free_at_s() > now_s {
                    break;
                }
                let rows: Vec<Waiting> = d
                    .waiting
                    .iter()
                    .take(d.drive.params().queue)
                    .map(|slot| {
                        let c = &self.commands[*slot];
                        Waiting {
                            at: c.at,
                            len_bytes: c.len_bytes,
                            since_s: c.since_s,
                            deadline_s: c.since_s,
                            is_background: false,
                        }
                    })
                    .collect();
                let Some(chosen) = d.order.choose(&d.drive, &rows, now_s) else { break };
                let slot = d.waiting.remove(chosen);
                let command = self.commands[slot];
                let service = d.drive.serve(Kind::Read, command.at, command.len_bytes, now_s);
                d.under_way += 1;
                let free_s = d.drive.free_at_s();
                let result = &mut d.result;
                result.requests += 1;
                result.bytes += command.len_bytes;
                result.busy_s += service.done_s - now_s;
                result.seek_s += service.seek_s;
                result.rotation_s += service.rotation_s;
                result.cached_bytes += service.cached_bytes;
                result.waited_s += now_s - command.since_s;
                self.at(service.done_s, What::Answer { disk, command: slot });
                if free_s > now_s {
                    self.at(free_s, What::Ready { disk });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const M: u64 = 1 << 20;

    fn params() -> Params {
        Params::preset("hdd7200", 1 << 40).unwrap()
    }

    /// `count` reads of 2 MiB, one after the other, every `every_s` seconds.
    fn film(count: u64, every_s: f64) -> Vec<Request> {
        (0..count)
            .map(|i| Request { at_s: i as f64 * every_s, offset: i * 2 * M, len_bytes: 2 * M })
            .collect()
    }

    fn run(layout: &str, host: &Host, streams: &[Stream<'_>]) -> Outcome {
        let layout = Layout::parse(layout, 1 << 40).unwrap();
        replay(&layout, &params(), host, streams, &mut |_, _| true).unwrap()
    }

    #[test]
    fn a_mirror_with_one_column_gives_a_lone_reader_one_disk_and_two_columns_give_it_two() {
        let reads = film(50, 0.5);
        let one = [Stream::whole(&reads, 0, 0.0, 0)];
        let bytes = |layout: &str| {
            let o = run(layout, &Host::default(), &one);
            o.disks.iter().map(|d| d.bytes / M).collect::<Vec<_>>()
        };
        assert_eq!(bytes("mirror,disks=3,columns=1"), [100, 0, 0]);
        assert_eq!(bytes("md-raid1,disks=2"), [100, 0]);
        assert_eq!(bytes("btrfs-raid1,disks=2"), [100, 0]);
        // Every unit of a read after the first of its column finds that disk busy and takes the other copy.
        assert_eq!(bytes("mirror,disks=4,columns=2"), [25, 25, 25, 25]);
        assert_eq!(bytes("mirror,disks=4,columns=2,read=primary"), [50, 0, 50, 0]);
        assert_eq!(bytes("btrfs-raid10,disks=4"), [50, 0, 50, 0]);
        assert_eq!(bytes("parity,disks=4,columns=4").iter().sum::<u64>(), 100);
    }

    #[test]
    fn the_same_input_gives_the_same_output_to_the_last_bit() {
        let reads = film(40, 0.02);
        let streams: Vec<Stream<'_>> =
            (0..9_u64).map(|i| Stream::whole(&reads, i * (90 << 30), i as f64 * 0.01, i)).collect();
        let runs: Vec<Outcome> =
            (0..2).map(|_| run("md-raid10,disks=4,chunk=64K", &Host::default(), &streams)).collect();
        assert_eq!(runs[0], runs[1]);
        assert!(runs[0].elapsed_s > 0.0 && runs[0].busiest() <= 1.0 + 1e-9);
    }

    #[test]
    fn a_stream_that_a_disk_cannot_keep_up_with_stalls_and_tells_the_buffer_that_it_needs() {
        // 2 MiB every 5 ms is more than 210 MB/s.
        let reads = film(400, 0.005);
        let host = Host { buffer_s: 0.5, ..Host::default() };
        let o = run("single", &host, &[Stream::whole(&reads, 0, 0.0, 0)]);
        let s = &o.streams[0];
        assert!(s.stalls > 0 && s.stalled_s > 0.5, "{} stalls, {} s", s.stalls, s.stalled_s);
        assert!(
            (s.buffer_needed_s - (s.stalled_s + 0.5)).abs() < 0.1,
            "{} {}",
            s.buffer_needed_s,
            s.stalled_s
        );
        assert!(!o.is_smooth());
        let patient = run("single", &Host { buffer_s: 60.0, ..host }, &[Stream::whole(&reads, 0, 0.0, 0)]);
        assert_eq!((patient.streams[0].stalls, patient.is_smooth()), (0, true));
    }

    #[test]
    fn a_session_that_reads_nothing_at_first_keeps_its_silence() {
        let late =
            [Request { at_s: 3.0, offset: 0, len_bytes: M }, Request { at_s: 4.0, offset: M, len_bytes: M }];
        let o = run("single", &Host::default(), &[Stream::whole(&late, 0, 1.5, 0)]);
        assert!((5.5..5.6).contains(&o.streams[0].done_s), "{}", o.streams[0].done_s);
    }

    #[test]
    fn another_phase_reads_the_same_bytes_in_another_order() {
        let reads = film(10, 1.0);
        let mut stream = Stream::whole(&reads, 0, 2.0, 0);
        (stream.first, stream.period_s, stream.from_s) = (7, 10.0, 7.0);
        let rows: Vec<(f64, u64)> =
            (0..10).map(|n| stream.request(n).map(|r| (r.at_s, r.offset / (2 * M))).unwrap()).collect();
        assert_eq!(rows[..4], [(2.0, 7), (3.0, 8), (4.0, 9), (5.0, 0)]);
        assert_eq!((rows[9], stream.request(10)), ((11.0, 6), None));
    }

    #[test]
    fn a_film_that_does_not_fit_and_a_watcher_that_has_enough_end_it() {
        let layout = Layout::parse("single", 1 << 30).unwrap();
        let reads = film(5000, 0.0);
        let far = [Stream::whole(&reads, 1 << 29, 0.0, 0)];
        let params = Params::preset("hdd7200", 1 << 30).unwrap();
        let told = replay(&layout, &params, &Host::default(), &far, &mut |_, _| true).unwrap_err();
        assert!(matches!(told, SimulateError::DoesNotFit { .. }));
        let layout = Layout::parse("single", 1 << 40).unwrap();
        let near = [Stream::whole(&reads, 0, 0.0, 0)];
        let told = replay(&layout, &super::tests::params(), &Host::default(), &near, &mut |_, _| false);
        assert_eq!(told, Err(SimulateError::Stopped));
    }
}
