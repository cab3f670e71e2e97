//! A file that answers like a drive, in real time: one thread a device, which takes a command when the drive would, and
//! answers it when the drive would have.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::drive::{Drive, Kind, Service};
use crate::fault::{EIO, Faults, Verdict};
use crate::log::{Log, Row};
use crate::params::Params;
use crate::queue::{Chooser, Policy, Waiting};

/// What the asker gets: bytes of a read, nothing of a write or flush, or an error number.
pub type Answer = Box<dyn FnOnce(Result<Vec<u8>, i32>) + Send>;

/// A command.
pub struct Command {
    /// What to do.
    pub kind: Kind,
    /// First byte.
    pub at: u64,
    /// Bytes to read or write.
    pub len_bytes: u64,
    /// What to write.
    pub data: Vec<u8>,
    /// Called once, from the device's thread.
    pub answer: Answer,
}

/// A device.
pub struct Device {
    name: String,
    size_bytes: u64,
    is_rotating: bool,
    file: File,
    /// Whether requests take the drive's time. Off for making filesystems and filling them.
    delays: Arc<AtomicBool>,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    waiting: VecDeque<(Command, f64)>,
    faults: Faults,
    /// A write cache that fills: so many bytes more are taken at the drive's own rate, then this many a second.
    fills: Option<(u64, f64)>,
    log: Log,
    is_closed: bool,
}

/// An answer that is not yet due.
struct Due {
    at_s: f64,
    number: u64,
    result: Result<Vec<u8>, i32>,
    answer: Answer,
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Due {}
impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at_s.total_cmp(&other.at_s).then(self.number.cmp(&other.number))
    }
}

/// Seconds of `CLOCK_MONOTONIC`.
#[must_use]
pub fn now_s() -> f64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

impl Device {
    /// Starts the device's thread.
    ///
    /// # Errors
    /// If there can be no thread.
    pub fn start(
        name: &str,
        file: File,
        params: Params,
        delays: Arc<AtomicBool>,
        log: Log,
    ) -> io::Result<Arc<Self>> {
        let device = Arc::new(Self {
            name: name.to_owned(),
            size_bytes: params.size_bytes,
            is_rotating: params.is_rotating(),
            file,
            delays,
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                faults: Faults::default(),
                fills: None,
                log,
                is_closed: false,
            }),
            changed: Condvar::new(),
        });
        let worker = Arc::clone(&device);
        std::thread::Builder::new()
            .name(format!("disk {name}"))
            .spawn(move || worker.work(Drive::new(params)))?;
        Ok(device)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its size.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Whether it is a rotating drive.
    #[must_use]
    pub fn is_rotating(&self) -> bool {
        self.is_rotating
    }

    /// Queues a command. Beyond the device's end it fails at once.
    pub fn submit(&self, command: Command) {
        let end = command.at.checked_add(command.len_bytes);
        if end.is_none_or(|end| end > self.size_bytes) {
            (command.answer)(Err(EIO));
            return;
        }
        let mut state = self.lock();
        if state.is_closed {
            drop(state);
            (command.answer)(Err(EIO));
            return;
        }
        state.waiting.push_back((command, now_s()));
        drop(state);
        self.changed.notify_all();
    }

    /// Frees the space of a range that the host no longer needs. Takes no time.
    ///
    /// # Errors
    /// As fallocate(2); also while the device is at fault.
    pub fn allocate(&self, mode: u32, at: u64, len_bytes: u64) -> Result<(), i32> {
        let verdict = self.lock().faults.judge(Kind::Write, at, len_bytes, now_s());
        if let Verdict::Fail(errno) = verdict {
            return Err(errno);
        }
        let flags = rustix::fs::FallocateFlags::from_bits_retain(mode);
        rustix::fs::fallocate(&self.file, flags, at, len_bytes).map_err(rustix::io::Errno::raw_os_error)
    }

    /// Changes what is wrong with it.
    pub fn with_faults<T>(&self, change: impl FnOnce(&mut Faults) -> T) -> T {
        let result = change(&mut self.lock().faults);
        self.changed.notify_all();
        result
    }

    /// After `len_bytes` more of writes, writes go at `bytes_per_s` at most: the fast part of an SSD, or a controller's memory,
    /// is full. Only while requests take time.
    pub fn fills_after(&self, len_bytes: u64, bytes_per_s: f64) {
        self.lock().fills = Some((len_bytes, bytes_per_s));
    }

    /// Sums so far, as JSON.
    #[must_use]
    pub fn totals(&self) -> String {
        let state = self.lock();
        state.log.totals.json(state.waiting.len())
    }

    /// Begins the sums anew.
    pub fn reset_totals(&self) {
        self.lock().log.totals = crate::log::Totals::default();
    }

    /// Writes the log out.
    ///
    /// # Errors
    /// If that fails.
    pub fn flush_log(&self) -> io::Result<()> {
        self.lock().log.flush()
    }

    /// Something that the thread looks at has changed.
    pub fn wake(&self) {
        self.changed.notify_all();
    }

    /// No more commands: those that wait fail.
    pub fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        let left: Vec<_> = state.waiting.drain(..).collect();
        drop(state);
        for (command, _) in left {
            (command.answer)(Err(EIO));
        }
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, mut drive: Drive) {
        let mut chooser = Chooser::new(Policy::Nearest);
        let mut due: BinaryHeap<Reverse<Due>> = BinaryHeap::new();
        let (mut number, mut had_delays) = (0, self.delays.load(Ordering::Relaxed));
        // Until when a write keeps it that found the cache full.
        let mut full_until_s = 0.0;
        loop {
            while due.peek().is_some_and(|d| d.0.at_s <= now_s() || !self.delays.load(Ordering::Relaxed)) {
                if let Some(Reverse(d)) = due.pop() {
                    (d.answer)(d.result);
                }
            }
            let has_delays = self.delays.load(Ordering::Relaxed);
            if has_delays && !had_delays {
                // Where the head went meanwhile nobody timed: it starts from rest.
                drive = Drive::new(drive.params().clone());
            }
            had_delays = has_delays;
            let mut state = self.lock();
            if state.is_closed && state.waiting.is_empty() && due.is_empty() {
                return;
            }
            let now = now_s();
            match next(&state, &drive, &mut chooser, (now, full_until_s), has_delays) {
                Next::Take(at) => {
                    let Some((command, since_s)) = state.waiting.remove(at) else { continue };
                    let verdict = state.faults.judge(command.kind, command.at, command.len_bytes, now);
                    let too_much = if has_delays { state.overflow(&command) } else { 0.0 };
                    drop(state);
                    let (result, service) = self.serve(&mut drive, &command, verdict, now, has_delays);
                    let mut done_s = if has_delays { service.done_s.max(now) } else { now };
                    if too_much > 0.0 {
                        done_s = done_s.max(now + too_much);
                        full_until_s = done_s;
                    }
                    let row = Row {
                        time_us: (now * 1e6) as u64,
                        kind: command.kind,
                        at: command.at,
                        len_bytes: command.len_bytes,
                        queue_us: ((now - since_s) * 1e6) as u64,
                        service,
                        service_us: ((done_s - now) * 1e6) as u64,
                        errno: result.as_ref().err().copied().unwrap_or(0),
                    };
                    if let Err(error) = self.lock().log.row(&row) {
                        eprintln!("spindle-disks: the log of {} cannot be written: {error}", self.name);
                        std::process::exit(1);
                    }
                    number += 1;
                    due.push(Reverse(Due { at_s: done_s, number, result, answer: command.answer }));
                }
                Next::Wait(until_s) => {
                    let first = due.peek().map_or(f64::INFINITY, |d| d.0.at_s);
                    // A flag that changes without a lock is seen within this time at the latest.
                    let wait_s = (first.min(until_s) - now).clamp(0.0, 0.5);
                    let _ = self
                        .changed
                        .wait_timeout(state, Duration::from_secs_f64(wait_s))
                        .unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// Does what the command asks, and tells what it would have taken.
    fn serve(
        &self,
        drive: &mut Drive,
        command: &Command,
        verdict: Verdict,
        now: f64,
        has_delays: bool,
    ) -> (Result<Vec<u8>, i32>, Service) {
        if let Verdict::Fail(errno) = verdict {
            return (Err(errno), Service { done_s: now, ..Service::default() });
        }
        let errno = |e: io::Error| e.raw_os_error().unwrap_or(EIO);
        let result = match command.kind {
            Kind::Read => {
                let mut bytes = vec![0; usize::try_from(command.len_bytes).unwrap_or(0)];
                self.file.read_exact_at(&mut bytes, command.at).map(|()| bytes).map_err(errno)
            }
            Kind::Write => {
                self.file.write_all_at(&command.data, command.at).map(|()| Vec::new()).map_err(errno)
            }
            Kind::Flush => Ok(Vec::new()),
        };
        let service = if has_delays {
            drive.serve(command.kind, command.at, command.len_bytes, now)
        } else {
            Service { done_s: now, ..Service::default() }
        };
        (result, service)
    }
}

impl State {
    /// Seconds that what of a write finds the cache full takes at the least.
    fn overflow(&mut self, command: &Command) -> f64 {
        let Some((left, bytes_per_s)) = &mut self.fills else { return 0.0 };
        if command.kind != Kind::Write {
            return 0.0;
        }
        let over = command.len_bytes.saturating_sub(*left);
        *left = left.saturating_sub(command.len_bytes);
        over as f64 / *bytes_per_s
    }
}

enum Next {
    Take(usize),
    Wait(f64),
}

/// Which command to take up now, or until when to wait if nothing else happens.
fn next(
    state: &State,
    drive: &Drive,
    chooser: &mut Chooser,
    (now, full_until_s): (f64, f64),
    has_delays: bool,
) -> Next {
    let held = |(c, _): &(Command, f64)| state.faults.judge(c.kind, c.at, c.len_bytes, now) == Verdict::Hold;
    if let Some(first) = state.waiting.front() {
        if held(first) {
            return Next::Wait(state.faults.hanging_until_s(now).unwrap_or(now));
        }
        if !has_delays {
            return Next::Take(0);
        }
        let free_s = drive.free_at_s().max(full_until_s);
        if free_s > now {
            return Next::Wait(free_s);
        }
        // A drive that has become free, or has nothing to do, begins with what it has been asked for by then. What comes while this
        // thread wakes up is later, as late as the machine may be.
        let begins_s = free_s.max(state.waiting.front().map_or(now, |(_, since_s)| *since_s));
        let rows: Vec<Waiting> = state
            .waiting
            .iter()
            .take(drive.params().queue)
            .take_while(|(_, since_s)| *since_s <= begins_s)
            .map(|(c, since_s)| Waiting {
                at: c.at,
                len_bytes: c.len_bytes,
                since_s: *since_s,
                deadline_s: *since_s,
                is_background: false,
            })
            .collect();
        return chooser.choose(drive, &rows, now).map_or(Next::Wait(now), Next::Take);
    }
    Next::Wait(f64::INFINITY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Affects;
    use crate::log::Format;
    use std::sync::mpsc;

    fn device(preset: &str, delays: bool) -> (Arc<Device>, Arc<AtomicBool>) {
        let path = std::env::temp_dir().join(format!(
            "spindle-disks-{}-{:x}",
            std::process::id(),
            now_s().to_bits()
        ));
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file.set_len(64 << 20).unwrap();
        let delays = Arc::new(AtomicBool::new(delays));
        let params = Params::preset(preset, 64 << 20).unwrap();
        let log = Log::new(None, Format::Csv).unwrap();
        (Device::start("t", file, params, Arc::clone(&delays), log).unwrap(), delays)
    }

    fn ask(
        device: &Device,
        kind: Kind,
        at: u64,
        len_bytes: u64,
        data: &[u8],
    ) -> mpsc::Receiver<Result<Vec<u8>, i32>> {
        let (tx, rx) = mpsc::channel();
        let answer: Answer = Box::new(move |result| {
            let _ = tx.send(result);
        });
        device.submit(Command { kind, at, len_bytes, data: data.to_vec(), answer });
        rx
    }

    #[test]
    fn what_was_written_is_read_and_counted() {
        let (device, _) = device("hdd7200", false);
        assert_eq!(ask(&device, Kind::Write, 4096, 5, b"hello").recv().unwrap(), Ok(Vec::new()));
        assert_eq!(ask(&device, Kind::Read, 4095, 7, &[]).recv().unwrap(), Ok(b"\0hello\0".to_vec()));
        assert_eq!(ask(&device, Kind::Read, 64 << 20, 1, &[]).recv().unwrap(), Err(EIO));
        let totals = device.totals();
        assert!(
            totals.contains("\"reads\":1,\"read_bytes\":7,\"writes\":1,\"written_bytes\":5,\"failed\":0"),
            "{totals}"
        );
        device.close();
        assert_eq!(ask(&device, Kind::Read, 0, 1, &[]).recv().unwrap(), Err(EIO));
    }

    #[test]
    fn with_delays_no_answer_comes_before_the_drive_could_have_given_it() {
        let (device, _) = device("hdd7200", true);
        let began = now_s();
        let answers: Vec<_> =
            (0..8_u64).map(|i| ask(&device, Kind::Read, (i * 7 % 8) << 23, 4096, &[])).collect();
        assert!(answers.iter().all(|a| a.recv().unwrap().is_ok()));
        let took_us = (now_s() - began) * 1e6;
        let totals = device.totals();
        let busy: f64 =
            totals.split("\"busy_us\":").nth(1).unwrap().split(',').next().unwrap().parse().unwrap();
        assert!(busy > 8_000.0 && took_us >= busy - 1000.0, "{took_us} against {totals}");
        device.close();
    }

    #[test]
    fn a_hang_answers_nothing_until_it_is_healed_and_a_bad_range_is_an_error() {
        let (device, _) = device("ssd", true);
        device.with_faults(|f| f.hang_until(f64::INFINITY));
        let held = ask(&device, Kind::Read, 0, 4096, &[]);
        assert_eq!(held.recv_timeout(Duration::from_millis(50)), Err(mpsc::RecvTimeoutError::Timeout));
        device.with_faults(|f| {
            f.heal();
            f.add_bad(8192, 1, Affects::Reads)
        });
        assert!(held.recv().unwrap().is_ok());
        assert_eq!(ask(&device, Kind::Read, 4096, 8192, &[]).recv().unwrap(), Err(EIO));
        device.close();
    }

    #[test]
    fn an_idle_drive_begins_with_the_first_command_however_late_its_thread_wakes_up() {
        let drive = Drive::new(Params::preset("hdd7200", 64 << 20).unwrap());
        let command = |at| Command {
            kind: Kind::Read,
            at,
            len_bytes: 4096,
            data: Vec::new(),
            answer: Box::new(|_| {}),
        };
        // Whichever of the two the platter offers first: the second one came later.
        for (first, second) in [(0, 32 << 20), (32 << 20, 0), (4096, 0), (0, 4096)] {
            let state = |gap_s: f64| State {
                waiting: [(command(first), 1.0), (command(second), 1.0 + gap_s)].into(),
                faults: Faults::default(),
                fills: None,
                log: Log::new(None, Format::Csv).unwrap(),
                is_closed: false,
            };
            let take = |state: &State| match next(
                state,
                &drive,
                &mut Chooser::new(Policy::Nearest),
                (1.01, 0.0),
                true,
            ) {
                Next::Take(at) => at,
                Next::Wait(_) => panic!("nothing holds it up"),
            };
            assert_eq!(take(&state(20e-6)), 0, "{first} before {second}");
        }
    }

    #[test]
    fn writes_are_slow_once_the_cache_is_full_and_not_before() {
        let (device, _) = device("ssd", true);
        device.fills_after(1 << 20, 1e6);
        let block = vec![7; 256 << 10];
        let took_s = |blocks: std::ops::Range<u64>| {
            let began = now_s();
            for i in blocks {
                ask(&device, Kind::Write, i << 18, 256 << 10, &block).recv().unwrap().unwrap();
            }
            now_s() - began
        };
        took_s(0..4);
        let full = took_s(4..6);
        assert!(full >= 2.0 * (256 << 10) as f64 / 1e6, "two blocks at a megabyte a second: {full}");
        device.close();
    }

    #[test]
    fn delays_that_are_switched_off_let_everything_go_at_once() {
        let (device, delays) = device("hdd5400", true);
        let answers: Vec<_> =
            (0..64_u64).map(|i| ask(&device, Kind::Read, (i * 37 % 64) << 20, 4096, &[])).collect();
        delays.store(false, Ordering::Relaxed);
        device.wake();
        assert!(answers.iter().all(|a| a.recv_timeout(Duration::from_secs(20)).unwrap().is_ok()));
        device.close();
    }
}
