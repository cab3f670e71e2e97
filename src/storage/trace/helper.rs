//! The privileged process behind `spindle storage-helper`: perf rings of three block tracepoints, btrfs chunk
//! trees, device-mapper tables, and what disks say of themselves. It parses nothing but its server's few
//! requests, and what the kernel answers.
//!
//! It opens every ring first, which takes root's files in tracefs, then becomes `nobody` (as root) and drops all
//! privileges but those that its requests need; each is in force only while a request uses it (`rights`).
//! Three threads, so that a disk that does not answer holds up neither the trace nor another volume's map.

use std::ffi::CString;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};
use rustix::thread::CapabilitySet;

use super::facts::{Fact, Question};
use super::format::{self, Format};
use super::protocol::{MAX_BYTES, MAX_EVENTS, Reply, Request};
use super::rights::{self, HelperRights};
use super::ring::{Event, Record, Ring};
use super::{Batch, BlockEvent};
use crate::sys;

/// Where the helper meets its server.
#[derive(Debug, Clone)]
pub enum HelperEndpoint {
    /// A `SOCK_SEQPACKET` socket as standard input: started by the server itself. The helper ends with it.
    Inherited,
    /// A socket of its own at `path` (mode 0660), one server at a time.
    Listen {
        /// Where.
        path: PathBuf,
        /// User that may connect besides root.
        allow_uid: Option<u32>,
        /// Group that may connect; the socket is given to it.
        allow_gid: Option<u32>,
    },
    /// A listening socket handed over as descriptor 3 by the service manager (sd_listen_fds(3)), which has set its
    /// owner and mode: who may connect is decided there.
    Activated,
}

/// Why the helper could not work.
#[derive(Debug, thiserror::Error)]
#[error("storage helper: {what}")]
pub struct HelperError {
    what: String,
    #[source]
    source: io::Error,
}

fn failed(what: impl Into<String>) -> impl FnOnce(io::Error) -> HelperError {
    let what = what.into();
    move |source| HelperError { what, source }
}

fn failed_call(what: &str) -> impl FnOnce(rustix::io::Errno) -> HelperError {
    let what = what.to_owned();
    move |e| HelperError { what, source: e.into() }
}

/// Data pages of a CPU's ring: 512 KiB, some 5,000 events, and with the control page just what a user without
/// CAP_IPC_LOCK may lock per CPU (`perf_event_mlock_kb`, 516 KiB). A degraded btrfs makes twenty thousand requests in
/// a burst; with 128 KiB a busy machine lost some. 128 CPUs cost 64 MiB.
const RING_PAGES: usize = 128;
const WATERMARK_BYTES: u32 = 32 << 10;
/// How long events may lie in a ring below the watermark.
const INTERVAL_MS: i64 = 200;
/// Chunks per message: 65,535 stripes of 16 bytes could not be sent, 16 always can.
const MAX_CHUNK_MESSAGE: usize = 48 << 10;

/// Nice value while it traces: before what it traces, behind what the system itself holds urgent (-20 to -15).
const URGENT: i32 = -10;
/// Requests that may wait for one of the two asking threads.
const MAX_ASKED: usize = 64;
/// Why one that was started for questions alone does not trace.
const NO_TRACE: &str = "the helper was started to answer questions, not to trace (--no-trace)";

/// Runs until the server hangs up; over a socket of its own, for ever.
///
/// # Errors
/// If the socket cannot be used. That the trace cannot be had is no error: the server is told why.
pub fn run_helper(endpoint: HelperEndpoint, rights: HelperRights) -> Result<(), HelperError> {
    // Rings that are read late lose events, and this costs next to nothing. Where it is not permitted it has to do
    // without.
    let _ = rustix::process::setpriority_process(None, URGENT);
    // Events first: afterwards the rights to open them are gone.
    let mut tracer = if rights.no_trace { Err(NO_TRACE.to_owned()) } else { Tracer::open() };
    match endpoint {
        HelperEndpoint::Inherited => {
            let socket = io::stdin().as_fd().try_clone_to_owned().map_err(failed("standard input"))?;
            let askers = Askers::start(rights)?;
            // After the change of user, which clears it. The server's thread that started us lives as long as
            // the server; if it is gone already, the socket says so at once.
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
                .map_err(failed_call("parent death signal"))?;
            serve(&Arc::new(socket), &mut tracer, &askers)
        }
        HelperEndpoint::Listen { path, allow_uid, allow_gid } => {
            let listener = listen(&path, allow_uid, allow_gid)?;
            let askers = Askers::start(rights)?;
            accept(&listener, &mut tracer, &askers, |peer| is_allowed(peer, allow_uid, allow_gid))
        }
        HelperEndpoint::Activated => {
            let listener = sys::inherited(3).map_err(failed("descriptor 3 of the service manager"))?;
            let askers = Askers::start(rights)?;
            accept(&listener, &mut tracer, &askers, |_| true)
        }
    }
}

/// One server after another.
fn accept(
    listener: &OwnedFd,
    tracer: &mut Result<Tracer, String>,
    askers: &Askers,
    is_allowed: impl Fn(&OwnedFd) -> bool,
) -> Result<(), HelperError> {
    loop {
        let peer = match rustix::net::accept_with(listener, SocketFlags::CLOEXEC) {
            Ok(peer) => peer,
            // One that had gone before it was taken.
            Err(rustix::io::Errno::CONNABORTED | rustix::io::Errno::INTR) => continue,
            Err(e) => return Err(failed_call("accept")(e)),
        };
        if is_allowed(&peer) {
            // One server's trouble must not end the helper for the next one.
            if let Err(e) = serve(&Arc::new(peer), tracer, askers) {
                tracing::warn!(error = %e, source = %e.source, "the server's connection failed");
            }
            if let Ok(t) = tracer {
                let _ = t.watch(&[]);
            }
        }
    }
}

/// A request for one of the asking threads.
struct Asked {
    socket: Arc<OwnedFd>,
    request: Request,
    fd: Option<OwnedFd>,
}

/// The threads that ask the kernel what may take time: one for maps, one for the disks themselves.
struct Askers {
    maps: SyncSender<Asked>,
    disks: SyncSender<Asked>,
}

impl Askers {
    /// Gives up what is not needed, starts the threads, and leaves this one with the trace's right alone.
    fn start(rights: HelperRights) -> Result<Self, HelperError> {
        let dropped = || failed("unable to drop privileges");
        // Root's file, too: afterwards it could not be opened.
        let control = sys::dm::control().ok().map(OwnedFd::from);
        let of_trace = if rights.no_trace { CapabilitySet::empty() } else { HelperRights::of_trace() };
        let all = of_trace | HelperRights::MAPS | rights.of_disks();
        rights::drop_all_but(all).map_err(dropped())?;
        let start = |name: &str, keep: CapabilitySet, asked: Receiver<Asked>, control: Option<OwnedFd>| {
            std::thread::Builder::new()
                .name(name.to_owned())
                .spawn(move || ask_all(keep, rights, &asked, control.as_ref()))
                .map_err(failed(format!("thread `{name}`")))
        };
        let (maps, of_maps) = sync_channel(MAX_ASKED);
        let (disks, of_disks) = sync_channel(MAX_ASKED);
        start("ask-maps", HelperRights::MAPS, of_maps, control)?;
        start("ask-disks", rights.of_disks(), of_disks, None)?;
        rights::narrow(of_trace).map_err(dropped())?;
        keep_to_calls(true);
        Ok(Self { maps, disks })
    }

    /// Hands a request over; `Err` says why it is not answered.
    fn pass(&self, asked: Asked) -> Result<(), &'static str> {
        let to = match &asked.request {
            Request::Ask { question: Question::Dm { .. }, .. } | Request::Chunks { .. } => &self.maps,
            _ => &self.disks,
        };
        to.try_send(asked).map_err(|e| match e {
            TrySendError::Full(_) => "the helper still waits for a device that was asked before",
            TrySendError::Disconnected(_) => "the helper's thread has ended",
        })
    }
}

fn ask_all(keep: CapabilitySet, rights: HelperRights, asked: &Receiver<Asked>, control: Option<&OwnedFd>) {
    if let Err(e) = rights::narrow(keep) {
        tracing::error!(error = %e, "a thread of the helper cannot drop privileges; it answers nothing");
        return;
    }
    // The one that starts zdb could not.
    if !(rights.zfs && keep == rights.of_disks()) {
        keep_to_calls(false);
    }
    for Asked { socket, request, fd } in asked {
        let (id, result) = match &request {
            Request::Chunks { id } => (*id, send_chunks_of(&socket, *id, fd.as_ref())),
            Request::Ask { id, question } => (*id, send_fact(&socket, *id, question, rights, control)),
            Request::Watch { id, .. } | Request::Flush { id } => (*id, Ok(())),
        };
        // A server that has hung up is seen by the thread that listens to it.
        let _ = send(&socket, &Reply::Done { id, trouble: result.err() });
    }
}

/// A kernel without seccomp is served all the same; the rights are dropped by then.
fn keep_to_calls(is_trace: bool) {
    if let Err(error) = super::calls::keep(is_trace) {
        tracing::warn!(%error, "the helper's system calls are not limited");
    }
}

fn send_chunks_of(socket: &OwnedFd, id: u32, fd: Option<&OwnedFd>) -> Result<(), String> {
    let fd = fd.ok_or("no descriptor came with the question")?;
    let chunks = rights::with(HelperRights::MAPS, || sys::btrfs::chunks(fd.as_fd())).and_then(|r| r);
    let chunks = chunks.map_err(|e| format!("chunk tree: {e}"))?;
    send_chunks(socket, id, chunks).map(|_| ()).map_err(|e| e.to_string())
}

fn send_fact(
    socket: &OwnedFd,
    id: u32,
    question: &Question,
    r: HelperRights,
    control: Option<&OwnedFd>,
) -> Result<(), String> {
    let ask = || question.ask(control.map(|c| c.as_fd()));
    let fact: Result<Fact, String> = match question {
        Question::Dm { .. } => rights::with(HelperRights::MAPS, ask),
        Question::Power { .. } | Question::Smart { .. } if r.disks => rights::with(r.of_disks(), ask),
        Question::Zdb { .. } | Question::Zpool { .. } if r.zfs => {
            rights::lending(CapabilitySet::DAC_READ_SEARCH, ask)
        }
        _ => return Err("the helper was not given the right to ask that (--disks, --zfs)".to_owned()),
    }
    .map_err(|e| format!("rights: {e}"))?;
    let bytes = serde_json::to_vec(&fact?).map_err(|e| e.to_string())?;
    for part in bytes.chunks(MAX_CHUNK_MESSAGE) {
        send(socket, &Reply::Part { id, bytes: part.to_vec() }).map_err(|e| e.to_string())?;
    }
    Ok(())
}

fn listen(path: &Path, allow_uid: Option<u32>, allow_gid: Option<u32>) -> Result<OwnedFd, HelperError> {
    let what = format!("socket `{}`", path.display());
    let address = SocketAddrUnix::new(path).map_err(failed_call(&what))?;
    let socket = || {
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .map_err(failed_call(&what))
    };
    let listener = socket()?;
    if rustix::net::bind(&listener, &address).is_err() {
        // One that nobody answers on is left from a helper that was killed; any other stays.
        if !std::fs::symlink_metadata(path).map_err(failed(what.clone()))?.file_type().is_socket() {
            return Err(failed(what)(std::io::Error::new(
                std::io::ErrorKind::AlreadyExists,
                "there is something else at this path, which is not touched; name a path for the socket",
            )));
        }
        let other = socket()?;
        if rustix::net::connect(&other, &address) == Err(rustix::io::Errno::CONNREFUSED) {
            std::fs::remove_file(path).map_err(failed(what.clone()))?;
        }
        rustix::net::bind(&listener, &address).map_err(failed_call(&what))?;
    }
    std::os::unix::fs::chown(path, allow_uid, allow_gid).map_err(failed(what.clone()))?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o660)).map_err(failed(what.clone()))?;
    rustix::net::listen(&listener, 4).map_err(failed_call(&what))?;
    Ok(listener)
}

/// By the kernel's word, not the peer's.
fn is_allowed(peer: &OwnedFd, allow_uid: Option<u32>, allow_gid: Option<u32>) -> bool {
    rustix::net::sockopt::socket_peercred(peer).is_ok_and(|c| {
        let (uid, gid) = (c.uid.as_raw(), c.gid.as_raw());
        uid == 0 || allow_uid == Some(uid) || allow_gid == Some(gid)
    })
}

/// The rings of all CPUs.
struct Tracer {
    formats: Vec<Format>,
    /// One per CPU. The event that owns it never fires; those that do are sent into it.
    rings: Vec<(i32, Event, Ring)>,
    /// A perf event takes one filter in its life, and two events that overlap would tell everything twice: each
    /// set of disks that is added has events of its own.
    groups: Vec<(Vec<u32>, Vec<Event>)>,
    lost: u64,
}

/// Groups of events before they are made one, at the price of a gap of some microseconds.
const MAX_GROUPS: usize = 16;

impl Tracer {
    fn open() -> Result<Self, String> {
        let formats = match format::find() {
            Ok(tracefs) => format::read(&tracefs)?,
            Err(why) => {
                let root = sys::detached_tracefs().map_err(|e| format!("{why}, and cannot be had ({e})"))?;
                format::read(&PathBuf::from(format!("/proc/self/fd/{}", root.as_raw_fd())))?
            }
        };
        let mut tracer = Self { formats, rings: Vec::new(), groups: Vec::new(), lost: 0 };
        for cpu in online_cpus() {
            tracer.add_cpu(cpu).map_err(|e| match e.raw_os_error() {
                Some(libc::EPERM | libc::EACCES) => "tracing needs CAP_PERFMON".to_owned(),
                _ => format!("perf_event_open on CPU {cpu}: {e}"),
            })?;
        }
        Ok(tracer)
    }

    /// The ring is mapped now: a user without CAP_IPC_LOCK may lock little memory.
    fn add_cpu(&mut self, cpu: i32) -> io::Result<()> {
        let id = self.formats.first().map_or(0, |f| f.id);
        let owner = Event::open(id, cpu, WATERMARK_BYTES)?;
        owner.set_filter(&filter_text(&[])?)?;
        let ring = Ring::map(&owner, RING_PAGES)?;
        self.rings.push((cpu, owner, ring));
        Ok(())
    }

    fn is_watching(&self) -> bool {
        !self.groups.is_empty()
    }

    /// Makes `devices` the disks that are watched. Those that are already go on without a gap.
    fn watch(&mut self, devices: &[u32]) -> io::Result<()> {
        // What was kept at the start decides.
        let kept = CapabilitySet::PERFMON | CapabilitySet::SYS_ADMIN;
        rights::with(kept, || self.watch_with_rights(devices))?
    }

    fn watch_with_rights(&mut self, devices: &[u32]) -> io::Result<()> {
        let known: Vec<u32> = self.groups.iter().flat_map(|g| g.0.clone()).collect();
        let is_more = known.iter().all(|d| devices.contains(d));
        if !is_more || self.groups.len() >= MAX_GROUPS {
            self.groups.clear();
            if devices.is_empty() {
                return Ok(());
            }
            return self.add_group(devices.to_vec());
        }
        let new: Vec<u32> = devices.iter().copied().filter(|d| !known.contains(d)).collect();
        if new.is_empty() { Ok(()) } else { self.add_group(new) }
    }

    fn add_group(&mut self, devices: Vec<u32>) -> io::Result<()> {
        let filter = filter_text(&devices)?;
        let mut events = Vec::new();
        for (cpu, owner, _) in &self.rings {
            for f in &self.formats {
                let event = Event::open(f.id, *cpu, WATERMARK_BYTES)?;
                event.set_filter(&filter)?;
                event.share_ring_of(owner.as_fd())?;
                event.run()?;
                events.push(event);
            }
        }
        self.groups.push((devices, events));
        Ok(())
    }

    /// Everything in the rings, in order of time.
    fn drain(&mut self) -> Vec<BlockEvent> {
        let mut out = Vec::new();
        let (formats, lost) = (&self.formats, &mut self.lost);
        for (_, _, ring) in &mut self.rings {
            ring.drain(|record| match record {
                Record::Lost(n) => *lost += n,
                Record::Sample { pid, tid, time_ns, raw } => {
                    let id = sys::field_u16(raw, 0);
                    let format = formats.iter().find(|f| Some(f.id) == id);
                    out.extend(format.and_then(|f| f.event(raw, tid, pid, time_ns)));
                }
            });
        }
        out.sort_by_key(|e| e.time_us);
        out
    }
}

fn filter_text(devices: &[u32]) -> io::Result<CString> {
    CString::new(format::filter(devices)).map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// `0-3,8-11`.
fn online_cpus() -> Vec<i32> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_else(|_| "0".to_owned());
    cpu_list(&text)
}

fn cpu_list(text: &str) -> Vec<i32> {
    let part = |p: &str| {
        let (a, b) = p.split_once('-').unwrap_or((p, p));
        Some(a.trim().parse::<i32>().ok()?..=b.trim().parse::<i32>().ok()?.min(8191))
    };
    text.split(',').filter_map(part).flatten().collect()
}

fn now_us() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    u64::try_from(t.tv_sec).unwrap_or(0) * 1_000_000 + u64::try_from(t.tv_nsec).unwrap_or(0) / 1_000
}

/// The kernel's name of this process's PID namespace.
pub(super) fn pid_namespace() -> String {
    std::fs::read_link("/proc/self/ns/pid").map(|l| l.to_string_lossy().into_owned()).unwrap_or_default()
}

/// One server, until it hangs up.
fn serve(
    socket: &Arc<OwnedFd>,
    tracer: &mut Result<Tracer, String>,
    askers: &Askers,
) -> Result<(), HelperError> {
    let hello = Reply::Hello { trouble: tracer.as_ref().err().cloned(), pid_namespace: pid_namespace() };
    if !send(socket, &hello)? {
        return Ok(());
    }
    loop {
        let (hung_up, readable) = wait(socket, tracer.as_ref().ok()).map_err(failed_call("poll"))?;
        if let Ok(t) = tracer.as_mut().map_err(|_| ())
            && t.is_watching()
            && !report(socket, t)?
        {
            return Ok(());
        }
        if readable && !answer(socket, tracer, askers)? || hung_up && !readable {
            return Ok(());
        }
    }
}

/// Until the server speaks, a ring fills, or it is time to look. (hung up, readable)
fn wait(socket: &OwnedFd, tracer: Option<&Tracer>) -> rustix::io::Result<(bool, bool)> {
    let mut fds = vec![PollFd::new(socket, PollFlags::IN)];
    let watching = tracer.filter(|t| t.is_watching());
    if let Some(t) = watching {
        fds.extend(t.rings.iter().map(|(_, owner, _)| PollFd::new(owner, PollFlags::IN)));
    }
    let interval = Timespec { tv_sec: 0, tv_nsec: INTERVAL_MS * 1_000_000 };
    match rustix::event::poll(&mut fds, watching.map(|_| &interval)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(e) => return Err(e),
    }
    let said = fds[0].revents();
    Ok((said.intersects(PollFlags::HUP | PollFlags::ERR), said.contains(PollFlags::IN)))
}

/// Sends what is in the rings; the last message says up to when that is everything. `false`: hung up.
fn report(socket: &OwnedFd, t: &mut Tracer) -> Result<bool, HelperError> {
    let drained_us = now_us();
    let events = t.drain();
    let parts = events.len().div_ceil(MAX_EVENTS).max(1);
    for i in 0..parts {
        let part =
            events[(i * MAX_EVENTS).min(events.len())..((i + 1) * MAX_EVENTS).min(events.len())].to_vec();
        let drained_us = if i + 1 == parts { drained_us } else { 0 };
        if !send(socket, &Reply::Events(Batch { drained_us, lost: t.lost, events: part }))? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Answers one request, or passes it on. `false`: hung up.
fn answer(
    socket: &Arc<OwnedFd>,
    tracer: &mut Result<Tracer, String>,
    askers: &Askers,
) -> Result<bool, HelperError> {
    let Some((request, fd)) = receive(socket)? else { return Ok(false) };
    let (id, result) = match request {
        Request::Watch { id, devices } => {
            let watched = match tracer {
                Ok(t) => t.watch(&devices).map_err(|e| format!("filter: {e}")),
                Err(why) => Err(why.clone()),
            };
            (id, watched)
        }
        Request::Flush { id } => {
            if let Ok(t) = tracer
                && !report(socket, t)?
            {
                return Ok(false);
            }
            (id, Ok(()))
        }
        Request::Chunks { id } | Request::Ask { id, .. } => {
            match askers.pass(Asked { socket: Arc::clone(socket), request, fd }) {
                Ok(()) => return Ok(true),
                Err(why) => (id, Err(why.to_owned())),
            }
        }
    };
    send(socket, &Reply::Done { id, trouble: result.err() })
}

fn send_chunks(
    socket: &OwnedFd,
    id: u32,
    chunks: Vec<crate::layout::chunks::Chunk>,
) -> Result<bool, HelperError> {
    let (mut part, mut bytes) = (Vec::new(), 0);
    for chunk in chunks {
        let size = 36 + 16 * chunk.stripes.len();
        if bytes + size > MAX_CHUNK_MESSAGE {
            if !send(socket, &Reply::Chunks { id, chunks: std::mem::take(&mut part) })? {
                return Ok(false);
            }
            bytes = 0;
        }
        bytes += size;
        part.push(chunk);
    }
    send(socket, &Reply::Chunks { id, chunks: part })
}

/// `false`: hung up.
fn send(socket: &OwnedFd, reply: &Reply) -> Result<bool, HelperError> {
    loop {
        match rustix::net::send(socket, &reply.encode(), SendFlags::NOSIGNAL) {
            Ok(_) => return Ok(true),
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::PIPE | rustix::io::Errno::CONNRESET | rustix::io::Errno::NOTCONN) => {
                return Ok(false);
            }
            Err(e) => return Err(failed_call("send")(e)),
        }
    }
}

/// `None`: hung up, or not understood, which from our own server only another version does.
fn receive(socket: &OwnedFd) -> Result<Option<(Request, Option<OwnedFd>)>, HelperError> {
    let mut bytes = vec![0_u8; MAX_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = rustix::net::recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut bytes)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    );
    let n = match got {
        Ok(m) => m.bytes,
        Err(rustix::io::Errno::CONNRESET) => 0,
        Err(e) => return Err(failed_call("receive")(e)),
    };
    let fd = control.drain().find_map(|m| match m {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    Ok(Request::decode(&bytes[..n]).map(|r| (r, fd)))
}

/// Sends a request, with a descriptor if there is one.
pub(super) fn send_request(
    socket: &OwnedFd,
    request: &Request,
    fd: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage};
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds: Vec<BorrowedFd<'_>> = fd.into_iter().collect();
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    rustix::net::sendmsg(socket, &[IoSlice::new(&request.encode())], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_list_has_ranges_and_single_numbers() {
        assert_eq!(cpu_list("0-2,5\n"), [0, 1, 2, 5]);
        assert_eq!(cpu_list("x,3"), [3]);
    }
}
