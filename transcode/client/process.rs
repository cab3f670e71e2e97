//! One worker process: started with a socket in place of its standard input, watched through
//! that socket, ended by SIGKILL and nothing gentler.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream as StdStream;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader, Interest};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::sync::oneshot;

use crate::error::TranscodeError;
use crate::protocol::{Reply, Request, Sandbox, VERSION};
use crate::wire;

/// How long a new process may take to say hello. It loads some 200 libraries: 0.1 s on an idle
/// machine, seconds on one that has to read them from a sleeping disk.
const HELLO_PATIENCE: Duration = Duration::from_secs(10);

/// Starts processes from one thread that lives as long as the server.
///
/// The worker asks to be killed when its parent dies (`PR_SET_PDEATHSIG`), and "parent" there is
/// the thread that forked, not the process (prctl(2)): a thread of the executor's blocking pool
/// would take its workers along when the pool shrinks.
#[derive(Debug, Clone)]
pub(crate) struct Spawner {
    orders: mpsc::Sender<Order>,
}

struct Order {
    answer: oneshot::Sender<io::Result<Started>>,
}

struct Started {
    child: ChildGuard,
    socket: StdStream,
    log: OwnedFd,
}

impl Spawner {
    pub(crate) fn start(program: PathBuf) -> io::Result<Self> {
        let (orders, inbox) = mpsc::channel::<Order>();
        std::thread::Builder::new().name("transcode-spawn".to_owned()).spawn(move || {
            // Ends when the last sender is dropped, and takes every worker along.
            for order in inbox {
                let _ = order.answer.send(spawn(&program));
            }
        })?;
        Ok(Self { orders })
    }

    /// A new worker that has said hello.
    pub(crate) async fn worker(&self) -> Result<Worker, TranscodeError> {
        let (answer, started) = oneshot::channel();
        self.orders.send(Order { answer }).map_err(|_| TranscodeError::Stopping)?;
        let started = started
            .await
            .map_err(|_| TranscodeError::Stopping)?
            .map_err(|e| TranscodeError::Unavailable(e.to_string()))?;
        Worker::greet(started).await
    }
}

fn spawn(program: &PathBuf) -> io::Result<Started> {
    let (ours, theirs) = StdStream::pair()?;
    ours.set_nonblocking(true)?;
    let mut command = Command::new(program);
    command
        // The worker compares it with getppid(): if the server died before the worker could ask
        // to be told, it ends at once.
        .arg(format!("--parent={}", std::process::id()))
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .env_clear();
    let mut child = command
        .spawn()
        .map_err(|e| io::Error::new(e.kind(), format!("unable to start `{}`: {e}", program.display())))?;
    let log = child.stderr.take().map(OwnedFd::from);
    let child = ChildGuard { pid: child.id(), child: Some(child) };
    let log = log.ok_or_else(|| io::Error::other("the worker has no standard error"))?;
    Ok(Started { child, socket: ours, log })
}

/// Kills and reaps on drop.
#[derive(Debug)]
struct ChildGuard {
    pid: u32,
    child: Option<Child>,
}

impl Drop for ChildGuard {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else {
            return;
        };
        let pid = self.pid;
        let _ = child.kill();
        // A process that sleeps in the kernel on a dying disk ends only when that read does; who
        // drops the guard must not wait for it.
        let reaper = std::thread::Builder::new().name("transcode-reap".to_owned()).spawn(move || {
            if let Ok(status) = child.wait()
                && was_a_fault(status)
            {
                tracing::warn!(worker.pid = pid, %status, "a worker ended by a fault of its own");
            }
        });
        if let Err(error) = reaper {
            tracing::warn!(%error, "unable to start a thread that reaps a worker");
        }
    }
}

/// Whether a worker came to an end that neither it nor the server chose: a signal other than the kill that ends all of them (by us, or
/// where memory runs out), or a panic. It leaves by itself with 0, with 2 when it cannot start, which is told, and with 3 when the
/// socket was closed on it.
fn was_a_fault(status: ExitStatus) -> bool {
    match (status.signal(), status.code()) {
        (Some(signal), _) => signal != rustix::process::Signal::KILL.as_raw(),
        (None, code) => !matches!(code, Some(0 | 2 | 3)),
    }
}

/// A running worker. Dropping it kills the process.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) sandbox: Sandbox,
    pub(crate) ffmpeg: String,
    socket: Arc<UnixStream>,
    buffer: Vec<u8>,
    child: ChildGuard,
}

impl Worker {
    async fn greet(started: Started) -> Result<Self, TranscodeError> {
        let pid = started.child.pid;
        let socket = UnixStream::from_std(started.socket)
            .map_err(|e| TranscodeError::io("watch the worker's socket", e))?;
        let log = pipe::Receiver::from_owned_fd(started.log)
            .map_err(|e| TranscodeError::io("watch the worker's standard error", e))?;
        tokio::spawn(forward_log(pid, log));
        let mut worker = Self {
            sandbox: Sandbox::default(),
            ffmpeg: String::new(),
            socket: Arc::new(socket),
            buffer: Vec::new(),
            child: started.child,
        };
        let hello = tokio::time::timeout(HELLO_PATIENCE, worker.recv()).await;
        match hello {
            Ok(Ok(Reply::Hello { version, sandbox, ffmpeg })) if version == VERSION => {
                if !sandbox.is_whole() {
                    tracing::warn!(missing = ?sandbox.missing, "the transcoding worker is not fully confined");
                }
                worker.sandbox = sandbox;
                worker.ffmpeg = ffmpeg;
                Ok(worker)
            }
            Ok(Ok(Reply::Hello { version, .. })) => Err(TranscodeError::Unavailable(format!(
                "it speaks version {version} of the protocol, the server speaks {VERSION}"
            ))),
            Ok(Ok(_)) => Err(TranscodeError::Unavailable("it did not say hello".to_owned())),
            Ok(Err(e)) => Err(TranscodeError::Unavailable(format!("it ended at once: {e}"))),
            Err(_) => Err(TranscodeError::Unavailable(format!(
                "it said nothing for {} s",
                HELLO_PATIENCE.as_secs()
            ))),
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.pid
    }

    /// Something that sends to this worker while another part receives.
    pub(crate) fn sender(&self) -> Sender {
        Sender { socket: Arc::clone(&self.socket) }
    }

    /// The next message. An error is the end of the worker.
    ///
    /// May be dropped while it waits: bytes that have come stay in the buffer.
    pub(crate) async fn recv(&mut self) -> io::Result<Reply> {
        loop {
            if let Some(reply) = wire::take_frame(&mut self.buffer)? {
                return Ok(reply);
            }
            // `&UnixStream` has no AsyncRead; split halves would tie up the sender.
            self.socket.readable().await?;
            self.buffer.reserve(64 << 10);
            match self.socket.try_read_buf(&mut self.buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Whether the process still holds its end of the socket open and silent, as an idle spare
    /// does.
    pub(crate) fn is_quiet(&mut self) -> bool {
        matches!(
            self.socket.try_read_buf(&mut self.buffer),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock
        )
    }
}

/// Sends requests to one worker.
#[derive(Debug, Clone)]
pub(crate) struct Sender {
    socket: Arc<UnixStream>,
}

impl Sender {
    /// Sends a request whole, with its descriptors. Not to be dropped half-way: a frame in pieces
    /// ends the worker.
    pub(crate) async fn send(&self, request: &Request, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        debug_assert_eq!(request.descriptors(), fds.len());
        let frame = wire::encode(request)?;
        let mut sent = 0;
        while sent < frame.len() {
            let with = if sent == 0 { fds } else { &[] };
            sent += self
                .socket
                .async_io(Interest::WRITABLE, || wire::send_some(self.socket.as_fd(), &frame[sent..], with))
                .await?;
        }
        Ok(())
    }
}

/// The worker's standard error, a line an event. Lines are cut at 2 KiB: a codec that complains
/// without end must not fill memory.
async fn forward_log(pid: u32, log: pipe::Receiver) {
    let mut lines = BufReader::new(log);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut lines).take(2048).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {
                let text = String::from_utf8_lossy(&line);
                let text = text.trim_end();
                if let Some(text) = text.strip_prefix("warning: ") {
                    tracing::warn!(worker.pid = pid, "{text}");
                } else if !text.is_empty() {
                    tracing::debug!(worker.pid = pid, "{text}");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_is_killed_or_leaves_is_no_fault_and_one_that_crashes_is() {
        // wait(2): the signal in the low bits, the code above them.
        let by_signal = |n: i32| was_a_fault(ExitStatus::from_raw(n));
        let by_code = |n: i32| was_a_fault(ExitStatus::from_raw(n << 8));
        assert!(!by_signal(9) && !by_code(0) && !by_code(2) && !by_code(3));
        assert!(by_signal(11) && by_signal(6) && by_signal(8) && by_code(101));
    }
}
