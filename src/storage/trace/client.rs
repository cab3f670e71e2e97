//! The server's side of the trace: starts or finds the helper, and passes its messages to the recorder.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, RecvFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType};
use rustix::thread::CapabilitySet;
use spindle_base::clock::{self, SharedClock};
use spindle_base::sync::Mutex;

use super::facts::{Fact, Question};
use super::helper::{pid_namespace, send_request};
use super::protocol::{MAX_BYTES, Reply, Request};
use crate::device::Disk;
use crate::layout::chunks::Chunk;
use crate::ledger::Ledger;
use crate::recorder::Note;
use crate::storage::{Config, HelperMode};
use crate::sys::dm::Table;
use crate::sys::power::Power;
use crate::sys::smart::Smart;

/// A fact of another kind than was asked for.
const MIXED_UP: &str = "the helper answered another question";

/// How long the helper may take to begin, and to answer. One that does not is given up.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long the end of a record waits for the rings.
const FLUSH_PATIENCE: Duration = Duration::from_millis(250);
/// How long a disk may take to say how it is; and `zdb` to walk a file.
const FACT_PATIENCE: Duration = Duration::from_secs(8);
const ZDB_PATIENCE: Duration = Duration::from_secs(65);
/// Before a helper that has gone is looked for again, or started again: twice as long each time, up to the
/// second; one that lived for that long starts from the first.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// Largest fact: `zdb`'s text of a file, see `sys::zdb`.
const MAX_FACT_BYTES: usize = 160 << 20;

/// A handle on the trace.
#[derive(Clone)]
pub(crate) struct Trace(Arc<Shared>);

impl std::fmt::Debug for Trace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Trace")
    }
}

struct Shared {
    notes: Ledger,
    clock: SharedClock,
    next_id: AtomicU32,
    state: Mutex<State, 46>,
    thread: Mutex<Option<JoinHandle<()>>, 49>,
}

struct State {
    /// The connection, from before the helper has said anything.
    socket: Option<Arc<OwnedFd>>,
    /// The same, once the helper answers.
    link: Option<Arc<OwnedFd>>,
    /// Whether it also traces.
    is_tracing: bool,
    /// Why it does not, or why there is none.
    why: String,
    devices: BTreeSet<u32>,
    waiting: HashMap<u32, SyncSender<Answer>>,
    /// The `Watch` whose answer makes the trace complete after a connection.
    first_watch: Option<u32>,
    /// The helper that is our child.
    helper_pid: Option<u32>,
    is_closing: bool,
    /// Why we hung up ourselves.
    reason: Option<String>,
    /// Told once, when the first attempt has succeeded or failed.
    first: Option<SyncSender<()>>,
}

/// How the helper is come by, on a thread of its own.
type Way = Box<dyn FnOnce(Arc<Shared>) + Send>;

/// The answer to a request: chunks, or a fact as JSON, if it was for those.
type Answer = Result<Told, String>;

#[derive(Debug, Default)]
struct Told {
    chunks: Vec<Chunk>,
    fact: Vec<u8>,
}

impl Trace {
    /// Starts the trace and waits until it runs or is known not to, at most three seconds.
    pub(crate) fn start(config: &Config, notes: Ledger, clock: SharedClock) -> Self {
        let (first, begun) = sync_channel(1);
        let trace = Self(Arc::new(Shared {
            notes,
            clock,
            next_id: AtomicU32::new(1),
            state: Mutex::new(State {
                socket: None,
                link: None,
                is_tracing: false,
                why: "the helper has not answered yet".to_owned(),
                devices: BTreeSet::new(),
                waiting: HashMap::new(),
                first_watch: None,
                helper_pid: None,
                is_closing: false,
                reason: None,
                first: Some(first),
            }),
            thread: Mutex::new(None),
        }));
        let way: Result<Way, String> = match &config.helper {
            HelperMode::Off => Err("the block trace is switched off in the configuration".to_owned()),
            HelperMode::Socket(path) => {
                let path = path.clone();
                Ok(Box::new(move |shared| shared.connect(&path)))
            }
            HelperMode::Auto => may_trace(config.helper_program.as_deref()).map(|program| {
                let (program, traces) = (program.to_owned(), config.record);
                let run = move |shared: Arc<Shared>| shared.spawn(&program, traces);
                Box::new(run) as Way
            }),
        };
        match way {
            Err(why) => trace.0.down(why),
            Ok(run) => {
                let shared = Arc::clone(&trace.0);
                match std::thread::Builder::new().name("block-trace".to_owned()).spawn(move || run(shared)) {
                    Ok(thread) => *trace.0.thread.lock() = Some(thread),
                    Err(e) => trace.0.down(format!("unable to start the thread of the block trace: {e}")),
                }
            }
        }
        let _ = begun.recv_timeout(PATIENCE);
        trace
    }

    /// Adds disks to those watched. When it returns, their reads are traced, or the trace is off.
    pub(crate) fn watch(&self, disks: &[Disk]) {
        if !self.0.notes.tell(Note::Disks(disks.to_vec())) {
            // Nothing is recorded: the helper still answers what needs privilege, and traces no disk.
            return;
        }
        let devices: Vec<u32> = {
            let mut state = self.0.state.lock();
            state.devices.extend(disks.iter().map(|d| d.number));
            state.devices.iter().copied().collect()
        };
        let may_ask = {
            let state = self.0.state.lock();
            state.is_tracing || state.first_watch.is_some()
        };
        if devices.is_empty() || !may_ask {
            return;
        }
        if let Err(why) = self.0.ask(|id| Request::Watch { id, devices }, None, PATIENCE) {
            self.0.hang_up(&format!("the trace helper cannot watch these disks: {why}"));
        }
    }

    /// The chunk tree of the btrfs that `fd` is on.
    pub(crate) fn chunks(&self, fd: BorrowedFd<'_>) -> io::Result<Vec<Chunk>> {
        let told = self.0.ask(|id| Request::Chunks { id }, Some(fd), PATIENCE);
        told.map(|t| t.chunks).map_err(io::Error::other)
    }

    /// The table of a device-mapper volume, `(major, minor)`.
    pub(crate) fn dm_table(&self, device: (u32, u32)) -> Result<Table, String> {
        match self.fact(&Question::Dm { device }, FACT_PATIENCE)? {
            Fact::Dm(table) => Ok(table),
            _ => Err(MIXED_UP.to_owned()),
        }
    }

    #[allow(dead_code, reason = "for the maps and the topology of stacks, whose rooms ask")]
    /// Whether a whole disk is asleep. It stays so.
    pub(crate) fn power(&self, device: (u32, u32)) -> Result<Power, String> {
        match self.fact(&Question::Power { device }, FACT_PATIENCE)? {
            Fact::Power(power) => Ok(power),
            _ => Err(MIXED_UP.to_owned()),
        }
    }

    #[allow(dead_code, reason = "for the maps and the topology of stacks, whose rooms ask")]
    /// Temperature and health of a whole disk that is awake.
    pub(crate) fn smart(&self, device: (u32, u32)) -> Result<Smart, String> {
        match self.fact(&Question::Smart { device }, FACT_PATIENCE)? {
            Fact::Smart(smart) => Ok(smart),
            _ => Err(MIXED_UP.to_owned()),
        }
    }

    /// What `zdb -Pdddddd DATASET INODE` prints.
    pub(crate) fn zdb(&self, dataset: &str, inode: u64) -> Result<String, String> {
        self.zdb_text(&Question::Zdb { dataset: dataset.to_owned(), inode })
    }

    /// What `zdb -C POOL` prints.
    pub(crate) fn zdb_config(&self, pool: &str) -> Result<String, String> {
        self.zdb_text(&Question::Zpool { pool: pool.to_owned() })
    }

    fn zdb_text(&self, question: &Question) -> Result<String, String> {
        match self.fact(question, ZDB_PATIENCE)? {
            Fact::Zdb(text) => Ok(text),
            _ => Err(MIXED_UP.to_owned()),
        }
    }

    /// Asks the helper; where there is none, the kernel with what rights this process has.
    fn fact(&self, question: &Question, patience: Duration) -> Result<Fact, String> {
        let has_helper = self.0.state.lock().link.is_some();
        if has_helper {
            let ask = |id| Request::Ask { id, question: question.clone() };
            // A helper that may not, or cannot see the device, is no reason not to ask with our own rights.
            let told = match self.0.ask(ask, None, patience) {
                Ok(told) => told,
                Err(why) => return question.ask(None).map_err(|_| why),
            };
            return serde_json::from_slice(&told.fact).map_err(|e| format!("the helper's answer: {e}"));
        }
        question.ask(None).map_err(|own| format!("{own}; and without a helper: {}", self.why()))
    }

    fn why(&self) -> String {
        self.0.state.lock().why.clone()
    }

    /// Waits until the recorder was sent every event up to now; gives up after a quarter of a second.
    pub(crate) fn flush(&self) {
        if self.status().is_ok() {
            // Failing that, the record is settled with what is there.
            let _ = self.0.ask(|id| Request::Flush { id }, None, FLUSH_PATIENCE);
        }
    }

    /// `Ok` while the trace runs, else why it does not.
    pub(crate) fn status(&self) -> Result<(), String> {
        let state = self.0.state.lock();
        if state.is_tracing { Ok(()) } else { Err(state.why.clone()) }
    }

    /// Ends the helper and waits for it.
    pub(crate) fn close(&self) {
        self.0.state.lock().is_closing = true;
        self.0.hang_up("storage is closed");
        let thread = self.0.thread.lock().take();
        if let Some(thread) = thread {
            thread.thread().unpark();
            if thread.join().is_err() {
                tracing::error!("the thread of the block trace had panicked");
            }
        }
    }
}

impl Shared {
    /// The helper as a child. It is the death of this thread that the kernel tells it of, so this thread
    /// lives as long as the storage does.
    fn spawn(&self, program: &Path, traces: bool) {
        let mut wait = RETRY.0;
        while !self.state.lock().is_closing {
            let began = clock::instant();
            match start_helper(program, traces) {
                Err(e) => self.down(format!("unable to start the trace helper `{}`: {e}", program.display())),
                Ok((socket, mut child)) => {
                    self.state.lock().helper_pid = Some(child.id());
                    let why = self.follow(socket);
                    let status = reap(&mut child);
                    self.down(why.unwrap_or_else(|| format!("the trace helper ended ({status})")));
                }
            }
            wait = self.rest(began, wait);
        }
    }

    fn connect(&self, path: &Path) {
        let mut wait = RETRY.0;
        while !self.state.lock().is_closing {
            let began = clock::instant();
            match connect(path) {
                Err(e) => self.down(format!("no trace helper answers at `{}`: {e}", path.display())),
                Ok(socket) => {
                    let why = self.follow(socket);
                    self.down(why.unwrap_or_else(|| "the trace helper has hung up".to_owned()));
                }
            }
            wait = self.rest(began, wait);
        }
    }

    /// Waits before the next attempt; how long to wait before the one after that. `close` ends the wait.
    fn rest(&self, began: Instant, wait: Duration) -> Duration {
        let wait = if began.elapsed() >= RETRY.1 { RETRY.0 } else { wait };
        let until = clock::instant() + wait;
        while !self.state.lock().is_closing {
            let left = until.saturating_duration_since(clock::instant());
            if left.is_zero() {
                break;
            }
            std::thread::park_timeout(left);
        }
        (wait * 2).min(RETRY.1)
    }

    /// Passes on what the helper says until it hangs up. `Some`: the reason, if it is known.
    fn follow(&self, socket: OwnedFd) -> Option<String> {
        let socket = Arc::new(socket);
        {
            let mut state = self.state.lock();
            if state.is_closing {
                return None;
            }
            state.socket = Some(Arc::clone(&socket));
        }
        let mut buffer = vec![0_u8; MAX_BYTES];
        let mut parts: HashMap<u32, Told> = HashMap::new();
        loop {
            let n = match rustix::net::recv(&socket, &mut buffer[..], RecvFlags::empty()) {
                Ok((_, 0)) | Err(rustix::io::Errno::CONNRESET) => return None,
                Ok((_, n)) => n,
                Err(rustix::io::Errno::INTR) => continue,
                Err(e) => return Some(format!("the trace helper cannot be heard: {e}")),
            };
            match Reply::decode(&buffer[..n]) {
                None => return Some("the trace helper is of another version".to_owned()),
                Some(Reply::Hello { trouble, pid_namespace: theirs }) => {
                    let is_other = theirs != pid_namespace();
                    let trouble = trouble.or_else(|| {
                        let why =
                            "the trace helper runs in another PID namespace: its thread ids are not ours";
                        is_other.then(|| why.to_owned())
                    });
                    match trouble {
                        // It still answers questions.
                        Some(why) => self.up_without_trace(&socket, why),
                        None => {
                            if let Err(e) = self.up(&socket) {
                                return Some(format!("the trace helper cannot be asked: {e}"));
                            }
                        }
                    }
                }
                Some(Reply::Events(batch)) => {
                    self.notes.tell(Note::Batch(batch));
                }
                Some(Reply::Chunks { id, chunks }) => {
                    let all = &mut parts.entry(id).or_default().chunks;
                    // As many as the ioctl itself would give at most.
                    if all.len() < 1 << 20 {
                        all.extend(chunks);
                    }
                }
                Some(Reply::Part { id, bytes }) => {
                    let all = &mut parts.entry(id).or_default().fact;
                    if all.len() + bytes.len() <= MAX_FACT_BYTES {
                        all.extend(bytes);
                    }
                }
                Some(Reply::Done { id, trouble }) => {
                    let told = parts.remove(&id).unwrap_or_default();
                    self.answered(id, trouble.map_or(Ok(told), Err));
                }
            }
        }
    }

    fn up(&self, socket: &Arc<OwnedFd>) -> io::Result<()> {
        let devices: Vec<u32> = self.state.lock().devices.iter().copied().collect();
        if devices.is_empty() {
            self.is_up(socket);
            return Ok(());
        }
        // The link is published by the answer: only then is the trace complete.
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        self.state.lock().first_watch = Some(id);
        self.waiting_link(socket);
        send_request(socket, &Request::Watch { id, devices }, None)
    }

    fn waiting_link(&self, socket: &Arc<OwnedFd>) {
        let mut state = self.state.lock();
        if !state.is_closing {
            state.link = Some(Arc::clone(socket));
        }
    }

    fn up_without_trace(&self, socket: &Arc<OwnedFd>, why: String) {
        tracing::info!(%why, "no block trace");
        let first = {
            let mut state = self.state.lock();
            state.why.clone_from(&why);
            state.first.take()
        };
        self.waiting_link(socket);
        self.notes.tell(Note::TraceDown { why });
        if let Some(first) = first {
            let _ = first.try_send(());
        }
    }

    fn is_up(&self, socket: &Arc<OwnedFd>) {
        self.waiting_link(socket);
        {
            let mut state = self.state.lock();
            state.is_tracing = state.link.is_some();
        }
        self.notes.tell(Note::TraceUp { since_us: self.clock.monotonic_us() });
        let first = self.state.lock().first.take();
        if let Some(first) = first {
            let _ = first.try_send(());
        }
    }

    fn answered(&self, id: u32, answer: Answer) {
        let (asker, socket, is_first) = {
            let mut state = self.state.lock();
            let is_first = state.first_watch.take_if(|f| *f == id).is_some();
            (state.waiting.remove(&id), state.link.clone(), is_first)
        };
        if let (Some(socket), true) = (socket, is_first) {
            match &answer {
                Ok(_) => self.is_up(&socket),
                Err(why) => {
                    self.up_without_trace(
                        &socket,
                        format!("the trace helper cannot watch these disks: {why}"),
                    );
                }
            }
        }
        if let Some(asker) = asker {
            // Whoever asked may have given up.
            let _ = asker.try_send(answer);
        }
    }

    fn down(&self, why: String) {
        let (why, waiting, first) = {
            let mut state = self.state.lock();
            let why = state.reason.take().unwrap_or(why);
            state.socket = None;
            state.link = None;
            state.is_tracing = false;
            state.first_watch = None;
            state.helper_pid = None;
            if !state.is_closing && state.why != why {
                tracing::info!(%why, "no block trace");
            }
            state.why.clone_from(&why);
            (why, std::mem::take(&mut state.waiting), state.first.take())
        };
        // Dropped outside the lock: their askers wake.
        drop(waiting);
        self.notes.tell(Note::TraceDown { why });
        if let Some(first) = first {
            let _ = first.try_send(());
        }
    }

    /// Ends the connection from our side; `follow` then sees its end.
    fn hang_up(&self, why: &str) {
        let link = {
            let mut state = self.state.lock();
            why.clone_into(&mut state.why);
            state.is_tracing = false;
            state.reason = state.socket.is_some().then(|| why.to_owned());
            state.link = None;
            state.socket.take()
        };
        if let Some(link) = link {
            // It may have gone by itself.
            let _ = rustix::net::shutdown(&link, Shutdown::Both);
        }
    }

    fn ask(
        &self,
        request: impl FnOnce(u32) -> Request,
        fd: Option<BorrowedFd<'_>>,
        patience: Duration,
    ) -> Answer {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (link, answered): (Arc<OwnedFd>, Receiver<Answer>) = {
            let mut state = self.state.lock();
            let link = state.link.clone().ok_or_else(|| state.why.clone())?;
            let (tx, rx) = sync_channel(1);
            state.waiting.insert(id, tx);
            (link, rx)
        };
        let result = send_request(&link, &request(id), fd)
            .map_err(|e| e.to_string())
            .and_then(|()| answered.recv_timeout(patience).map_err(|_| "no answer".to_owned())?);
        self.state.lock().waiting.remove(&id);
        result
    }
}

/// Where a helper that people start by hand listens, by our advice: a folder that only root writes to.
const HELPER_SOCKET: &str = "/run/spindle-storage-helper.sock";

/// Whether it is worth while to start the helper: it must be able to have what it needs.
fn may_trace(program: Option<&Path>) -> Result<&Path, String> {
    let program = program.ok_or_else(|| "no program is configured for the trace helper".to_owned())?;
    let capable = rustix::thread::capabilities(None)
        .is_ok_and(|c| c.effective.intersects(CapabilitySet::PERFMON | CapabilitySet::SYS_ADMIN));
    let by_file = rustix::fs::getxattr(program, "security.capability", &mut [0_u8; 64][..]).is_ok();
    if capable || by_file {
        return Ok(program);
    }
    // Whole, to be copied: root's PATH need not have the program, and a socket is for one user alone.
    Err(format!(
        "the block trace needs CAP_PERFMON and CAP_DAC_READ_SEARCH, which this server does not have; start its helper as root, \
         `{} storage-helper --socket {HELPER_SOCKET} --allow-uid {} --disks`, and then this server again with \
         `--storage-helper {HELPER_SOCKET}` (docs/storage-helper.md has it as a service)",
        program.display(),
        rustix::process::geteuid().as_raw()
    ))
}

fn start_helper(program: &Path, traces: bool) -> io::Result<(OwnedFd, Child)> {
    let (ours, theirs) =
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    let mut command = Command::new(program);
    command.arg("storage-helper").arg("--disks");
    // Only where there is ZFS does it get the right to read everything for `zdb`.
    if Path::new("/dev/zfs").exists() {
        command.arg("--zfs");
    }
    if !traces {
        command.arg("--no-trace");
    }
    let child = command.stdin(Stdio::from(theirs)).stdout(Stdio::null()).spawn()?;
    tracing::debug!(pid = child.id(), fd = ours.as_raw_fd(), "trace helper started");
    Ok((ours, child))
}

fn connect(path: &Path) -> io::Result<OwnedFd> {
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// The helper ends when its socket does; one that does not is killed.
fn reap(child: &mut Child) -> String {
    let deadline = clock::instant() + Duration::from_secs(2);
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status.to_string(),
            Ok(None) if clock::instant() < deadline => std::thread::sleep(Duration::from_millis(2)),
            Ok(None) => {
                let _ = child.kill();
                return child.wait().map_or_else(|e| e.to_string(), |s| s.to_string());
            }
            Err(e) => return e.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindle_base::clock::SystemClock;

    /// A trace over this crate's own helper; `None`, and why is said, where that cannot be.
    fn traced() -> Option<Trace> {
        helped(true)
    }

    /// The same; without `record` nothing is traced.
    fn helped(record: bool) -> Option<Trace> {
        let exe = std::env::current_exe().unwrap();
        let program = exe.parent().unwrap().parent().unwrap().join("examples/storage_helper");
        if !program.exists() || !rustix::process::geteuid().is_root() {
            eprintln!("skipped: needs root, and the example built");
            return None;
        }
        let (tx, mut rx) = crate::notes::queue(4096);
        std::thread::spawn(move || {
            loop {
                rx.take(Duration::from_secs(1)).for_each(drop);
            }
        });
        let config = Config { helper_program: Some(program), record, ..Config::default() };
        Some(Trace::start(&config, Ledger::new(tx), Arc::new(SystemClock)))
    }

    fn within(patience: Duration, what: impl Fn() -> bool) -> bool {
        let deadline = clock::instant() + patience;
        while clock::instant() < deadline {
            if what() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        what()
    }

    #[test]
    fn a_killed_helper_is_started_again_and_meanwhile_the_reason_is_told() {
        let Some(trace) = traced() else { return };
        let pid = || trace.0.state.lock().helper_pid;
        let first = pid().unwrap();
        let signal = rustix::process::Signal::KILL;
        let process = rustix::process::Pid::from_raw(i32::try_from(first).unwrap()).unwrap();
        rustix::process::kill_process(process, signal).unwrap();
        assert!(within(Duration::from_secs(20), || pid() != Some(first)));
        assert!(trace.why().contains("ended"), "{}", trace.why());
        assert!(within(Duration::from_secs(20), || pid().is_some_and(|p| p != first)));
        trace.close();
    }

    #[test]
    fn the_helper_answers_what_it_can_and_says_why_not_otherwise() {
        let Some(trace) = traced() else { return };
        assert_eq!(trace.power((4095, 1)), Err("there is no block device 4095:1".to_owned()));
        assert_eq!(trace.dm_table((4095, 1)), Err("there is no block device 4095:1".to_owned()));
        assert!(trace.zdb("-e", 1).is_err());
        trace.close();
    }

    #[test]
    fn a_helper_for_questions_has_no_right_to_trace_and_answers() {
        let Some(trace) = helped(false) else { return };
        assert_eq!(trace.power((4095, 1)), Err("there is no block device 4095:1".to_owned()));
        assert!(trace.why().contains("--no-trace"), "{}", trace.why());
        let pid = trace.0.state.lock().helper_pid.unwrap();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let permitted = status.lines().find_map(|l| l.strip_prefix("CapPrm:")).unwrap();
        let permitted = u64::from_str_radix(permitted.trim(), 16).unwrap();
        assert_eq!(permitted & (1 << 38), 0, "CAP_PERFMON is kept: {permitted:x}");
        let fds = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
        let events = fds.filter(|fd| {
            std::fs::read_link(fd.path()).is_ok_and(|to| to.ends_with("anon_inode:[perf_event]"))
        });
        assert_eq!(events.count(), 0);
        trace.close();
    }

    #[test]
    fn the_helper_keeps_no_right_in_force_and_is_nobody() {
        let Some(trace) = traced() else { return };
        let pid = trace.0.state.lock().helper_pid.unwrap();
        // One that answers has dropped what it need not have.
        assert!(trace.power((4095, 1)).is_err() && trace.dm_table((4095, 1)).is_err());
        let mut threads = 0;
        for task in std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten() {
            let status = std::fs::read_to_string(task.path().join("status")).unwrap();
            let field = |name: &str| {
                let line = status.lines().find(|l| l.starts_with(name)).unwrap();
                line.split_whitespace().nth(1).unwrap().to_owned()
            };
            assert_eq!(field("Uid:"), "65534");
            assert_eq!(field("CapEff:"), "0000000000000000", "{}", field("Name:"));
            assert_eq!(field("NoNewPrivs:"), "1");
            // The thread that may start zdb is the exception, and only where there is ZFS.
            if !Path::new("/dev/zfs").exists() {
                assert_eq!(field("Seccomp:"), "2", "{}", field("Name:"));
            }
            // CAP_PERFMON 38, CAP_SYS_ADMIN 21, CAP_SYS_RAWIO 17, CAP_DAC_READ_SEARCH 2.
            let permitted = u64::from_str_radix(&field("CapPrm:"), 16).unwrap();
            assert_eq!(permitted & !((1 << 38) | (1 << 21) | (1 << 17) | (1 << 2)), 0, "{permitted:x}");
            threads += 1;
        }
        assert_eq!(threads, 3);
        trace.close();
    }
}
