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
use std::time::Duration;

use rustix::net::{AddressFamily, RecvFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType};
use rustix::thread::CapabilitySet;
use spindle_base::clock::{self, SharedClock};
use spindle_base::sync::Mutex;

use super::helper::{pid_namespace, send_request};
use super::protocol::{MAX_BYTES, Reply, Request};
use crate::device::Disk;
use crate::layout::chunks::Chunk;
use crate::ledger::Ledger;
use crate::recorder::Note;
use crate::storage::{Config, HelperMode};

/// How long the helper may take to begin, and to answer. One that does not is given up.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long the end of a record waits for the rings.
const FLUSH_PATIENCE: Duration = Duration::from_millis(250);
/// Between attempts on a socket where nobody listens.
const RETRY: Duration = Duration::from_secs(5);

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
    /// The helper that answers.
    link: Option<Arc<OwnedFd>>,
    /// Why there is none.
    why: String,
    devices: BTreeSet<u32>,
    waiting: HashMap<u32, SyncSender<Answer>>,
    /// The `Watch` whose answer makes the trace complete after a connection.
    first_watch: Option<u32>,
    is_closing: bool,
    /// Why we hung up ourselves.
    reason: Option<String>,
    /// Told once, when the first attempt has succeeded or failed.
    first: Option<SyncSender<()>>,
}

/// How the helper is come by, on a thread of its own.
type Way = Box<dyn FnOnce(Arc<Shared>) + Send>;

/// The answer to a question: chunks if it was for those.
type Answer = Result<Vec<Chunk>, String>;

impl Trace {
    /// Starts the trace and waits until it runs or is known not to, at most three seconds.
    pub(crate) fn start(config: &Config, notes: Ledger, clock: SharedClock) -> Self {
        let (first, begun) = sync_channel(1);
        let trace = Self(Arc::new(Shared {
            notes,
            clock,
            next_id: AtomicU32::new(1),
            state: Mutex::new(State {
                link: None,
                why: "the helper has not answered yet".to_owned(),
                devices: BTreeSet::new(),
                waiting: HashMap::new(),
                first_watch: None,
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
                let program = program.to_owned();
                let run = move |shared: Arc<Shared>| shared.spawn(&program);
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
        self.0.notes.tell(Note::Disks(disks.to_vec()));
        let devices: Vec<u32> = {
            let mut state = self.0.state.lock();
            state.devices.extend(disks.iter().map(|d| d.number));
            state.devices.iter().copied().collect()
        };
        if devices.is_empty() || self.status().is_err() {
            return;
        }
        if let Err(why) = self.0.ask(|id| Request::Watch { id, devices }, None, PATIENCE) {
            self.0.hang_up(&format!("the trace helper cannot watch these disks: {why}"));
        }
    }

    /// The chunk tree of the btrfs that `fd` is on.
    pub(crate) fn chunks(&self, fd: BorrowedFd<'_>) -> io::Result<Vec<Chunk>> {
        self.0.ask(|id| Request::Chunks { id }, Some(fd), PATIENCE).map_err(io::Error::other)
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
        if state.link.is_some() { Ok(()) } else { Err(state.why.clone()) }
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
    fn spawn(&self, program: &Path) {
        match start_helper(program) {
            Err(e) => self.down(format!("unable to start the trace helper `{}`: {e}", program.display())),
            Ok((socket, mut child)) => {
                let why = self.follow(socket);
                let status = reap(&mut child);
                self.down(why.unwrap_or_else(|| format!("the trace helper ended ({status})")));
            }
        }
        // A parked thread costs nothing, and whatever it started is tied to its life.
        while !self.state.lock().is_closing {
            std::thread::park();
        }
    }

    fn connect(&self, path: &Path) {
        while !self.state.lock().is_closing {
            match connect(path) {
                Err(e) => self.down(format!("no trace helper answers at `{}`: {e}", path.display())),
                Ok(socket) => {
                    let why = self.follow(socket);
                    self.down(why.unwrap_or_else(|| "the trace helper has hung up".to_owned()));
                }
            }
            std::thread::park_timeout(RETRY);
        }
    }

    /// Passes on what the helper says until it hangs up. `Some`: the reason, if it is known.
    fn follow(&self, socket: OwnedFd) -> Option<String> {
        let socket = Arc::new(socket);
        let mut buffer = vec![0_u8; MAX_BYTES];
        let mut chunks: HashMap<u32, Vec<Chunk>> = HashMap::new();
        loop {
            let n = match rustix::net::recv(&socket, &mut buffer[..], RecvFlags::empty()) {
                Ok((_, 0)) | Err(rustix::io::Errno::CONNRESET) => return None,
                Ok((_, n)) => n,
                Err(rustix::io::Errno::INTR) => continue,
                Err(e) => return Some(format!("the trace helper cannot be heard: {e}")),
            };
            match Reply::decode(&buffer[..n]) {
                None => return Some("the trace helper is of another version".to_owned()),
                Some(Reply::Hello { trouble: Some(why), .. }) => return Some(why),
                Some(Reply::Hello { pid_namespace: theirs, .. }) => {
                    if theirs != pid_namespace() {
                        return Some(
                            "the trace helper runs in another PID namespace: its thread ids are not ours"
                                .to_owned(),
                        );
                    }
                    if let Err(e) = self.up(&socket) {
                        return Some(format!("the trace helper cannot be asked: {e}"));
                    }
                }
                Some(Reply::Events(batch)) => {
                    self.notes.tell(Note::Batch(batch));
                }
                Some(Reply::Chunks { id, chunks: part }) => {
                    let all = chunks.entry(id).or_default();
                    // As many as the ioctl itself would give at most.
                    if all.len() < 1 << 20 {
                        all.extend(part);
                    }
                }
                Some(Reply::Done { id, trouble }) => {
                    let list = chunks.remove(&id).unwrap_or_default();
                    self.answered(id, trouble.map_or(Ok(list), Err));
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

    fn is_up(&self, socket: &Arc<OwnedFd>) {
        self.waiting_link(socket);
        self.notes.tell(Note::TraceUp { since_us: self.clock.monotonic_us() });
        let first = self.state.lock().first.take();
        if let Some(first) = first {
            let _ = first.try_send(());
        }
    }

    fn answered(&self, id: u32, answer: Answer) {
        let (asker, socket) = {
            let mut state = self.state.lock();
            let is_first = state.first_watch.take_if(|f| *f == id).is_some() && answer.is_ok();
            (state.waiting.remove(&id), state.link.clone().filter(|_| is_first))
        };
        if let Some(socket) = socket {
            self.is_up(&socket);
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
            state.link = None;
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
            state.reason = state.link.is_some().then(|| why.to_owned());
            state.link.take()
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

/// Whether it is worth while to start the helper: it must be able to have what it needs.
fn may_trace(program: Option<&Path>) -> Result<&Path, String> {
    let program = program.ok_or_else(|| "no program is configured for the trace helper".to_owned())?;
    let capable = rustix::thread::capabilities(None)
        .is_ok_and(|c| c.effective.intersects(CapabilitySet::PERFMON | CapabilitySet::SYS_ADMIN));
    let by_file = rustix::fs::getxattr(program, "security.capability", &mut [0_u8; 64][..]).is_ok();
    if capable || by_file {
        return Ok(program);
    }
    Err("the block trace needs CAP_PERFMON and CAP_DAC_READ_SEARCH, which this server does not have; start `spindle storage-helper --socket` as root, or give it these capabilities".to_owned())
}

fn start_helper(program: &Path) -> io::Result<(OwnedFd, Child)> {
    let (ours, theirs) =
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    let child = Command::new(program)
        .arg("storage-helper")
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        .spawn()?;
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
