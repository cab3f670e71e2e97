//! The fast lane: a media reply written straight to a plain HTTP/1.1 socket.
//!
//! What is in memory goes out by `sendfile(2)` from the executor, driven by the socket's
//! readiness; what is not is brought in first by the disk's own reader threads, while the piece
//! before it is still being sent. A file through an async reader and a body type costs six times
//! the CPU and stalls most of a thousand paced readers (measured; `docs/design/byte-path.md`).

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::{self, HeaderValue};
use http::{Method, Version};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::SendFlags;
use spindle_base::clock::http_date;
use spindle_base::units::ByteRange;
use spindle_storage::{MediaFile, StorageError};
use spindle_transcode::Segment;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

use super::connections::Flow;
use super::reply::{Part, Reply, Source, read_segment, segment_ready};

/// Bytes asked for at once: large enough that a rotating disk transfers for as long as it
/// positions (12 ms at 160 MB/s is 2 MiB), small enough that a seek abandons little.
const WINDOW_BYTES: u64 = 2 << 20;

/// Bytes handed to one `sendfile`. The kernel holds the socket for the whole call, and acknowledgements that arrive
/// meanwhile wait for its end: calls of 1 MiB cost a third more CPU a byte than calls of 128 to 256 KiB where the
/// client runs on another core (measured; the system call itself is a thousandth of either).
const SEND_BYTES: usize = 256 << 10;

/// Bytes that one look at the page cache covers: a paced reader takes a few of them before it must look again.
const LOOK_BYTES: u64 = 512 << 10;

/// Bytes after which a fast reader lets other tasks run.
const YIELD_BYTES: u64 = 8 << 20;

/// How long a client may leave the socket full, at least; twice that at most. A paused player stops reading and must find its
/// connection alive after a long break; a dead peer is found by TCP keepalive long before.
pub(super) const PAUSED_PLAYER: Duration = Duration::from_secs(4 * 60 * 60);

/// How a reply ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Sent {
    /// All of it, and the connection may carry another request.
    KeepAlive,
    /// All of it, and the connection is to be closed.
    Close,
}

/// Why a reply could not be sent to its end. The connection is of no more use.
#[derive(Debug, thiserror::Error)]
pub enum LaneError {
    /// The client went away or the network failed: nothing to do.
    #[error("unable to write to the client")]
    Client(#[source] io::Error),
    /// The file could not be read after the head was sent.
    #[error("unable to read the file while sending it")]
    Storage(#[source] StorageError),
    /// A segment could not be read again after the page cache had let it go.
    #[error("unable to read a segment from the cache folder")]
    Segment(#[source] io::Error),
    /// The file is shorter than it was when the head was written.
    #[error("the file became shorter while it was sent")]
    Shrunk,
}

/// Writes `reply` to the socket; a problem document instead if the first bytes of its file cannot be read.
///
/// `flow` hears when the client takes nothing. `keep_alive`: whether the request allows another one after it.
///
/// # Errors
/// `LaneError`; bytes may have gone out already.
pub async fn send(
    (socket, flow): (&TcpStream, &Flow),
    method: &Method,
    version: Version,
    keep_alive: bool,
    now_us: i64,
    mut reply: Reply,
) -> Result<Sent, LaneError> {
    let sends_body = *method != Method::HEAD && !reply.parts.is_empty();
    if sends_body {
        let first = tokio::select! {
            biased;
            first = reply.first_bytes() => first,
            // Dropping the read abandons it if its turn has not come: nobody waits for it.
            error = peer_gone(socket) => return Err(LaneError::Client(error)),
        };
        if let Err(problem) = first {
            reply = Reply::of_problem(&problem).with_cors();
        }
    }
    let head = head(&reply, version, keep_alive, now_us);
    let flags = if sends_body { SendFlags::MORE } else { SendFlags::empty() };
    let mut outlet = Outlet::new(socket, flow);
    outlet.write_all(&head, flags).await?;
    drop(head);
    // A paced reader takes hours: what it waits with counts a thousandfold.
    drop(std::mem::take(&mut reply.headers));
    if sends_body {
        let mut parts = std::mem::take(&mut reply.parts).into_iter().peekable();
        while let Some(part) = parts.next() {
            match part {
                Part::Memory(bytes) => {
                    let more = parts.peek().is_some();
                    let flags = if more { SendFlags::MORE } else { SendFlags::empty() };
                    outlet.write_all(&bytes, flags).await?;
                }
                Part::Range(Source::File(file), range) => send_file(&mut outlet, &file, range).await?,
                Part::Range(Source::Segment { segment, made_from }, range) => {
                    send_segment(&mut outlet, &segment, &made_from, range).await?;
                }
            }
        }
    }
    Ok(if keep_alive { Sent::KeepAlive } else { Sent::Close })
}

/// RFC 9112 sections 4 and 6: status line and fields. 304 carries no length of its own body;
/// every other reply says how long it is, so that no chunked coding is needed.
fn head(reply: &Reply, version: Version, keep_alive: bool, now_us: i64) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    let reason = reply.status.canonical_reason().unwrap_or("");
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(reply.status.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(reason.as_bytes());
    out.extend_from_slice(b"\r\n");
    for (name, value) in &reply.headers {
        field(&mut out, name.as_str(), value.as_bytes());
    }
    if reply.status != http::StatusCode::NOT_MODIFIED {
        let length = reply.body_bytes().to_string();
        field(&mut out, header::CONTENT_LENGTH.as_str(), length.as_bytes());
    }
    field(&mut out, header::DATE.as_str(), http_date(now_us).as_bytes());
    if !keep_alive {
        field(&mut out, header::CONNECTION.as_str(), b"close");
    } else if version == Version::HTTP_10 {
        field(&mut out, header::CONNECTION.as_str(), b"keep-alive");
    }
    out.extend_from_slice(b"\r\n");
    out
}

fn field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    debug_assert!(HeaderValue::from_bytes(value).is_ok(), "header values were checked when set");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// The socket, and how long its client may leave it full.
struct Outlet<'a> {
    socket: &'a TcpStream,
    /// Told when the client takes nothing, so that a stop does not wait for it.
    flow: &'a Flow,
    /// Set at the first wait and looked at when it runs out: to set a timer at every wait would cost more than the wait.
    patience: Option<Pin<Box<Sleep>>>,
    /// The client has taken something since `patience` was set.
    is_moving: bool,
}

impl<'a> Outlet<'a> {
    fn new(socket: &'a TcpStream, flow: &'a Flow) -> Self {
        Self { socket, flow, patience: None, is_moving: false }
    }

    async fn write_all(&mut self, mut bytes: &[u8], flags: SendFlags) -> Result<(), LaneError> {
        let socket = self.socket.as_fd();
        while !bytes.is_empty() {
            let sent = self.write(|| rustix::net::send(socket, bytes, flags | SendFlags::NOSIGNAL)).await?;
            bytes = bytes.get(sent..).unwrap_or_default();
        }
        Ok(())
    }

    /// Runs `operation` whenever the socket can take bytes, until it took some.
    async fn write(
        &mut self,
        mut operation: impl FnMut() -> rustix::io::Result<usize>,
    ) -> Result<usize, LaneError> {
        loop {
            match self.socket.try_io(Interest::WRITABLE, || operation().map_err(io::Error::from)) {
                Ok(sent) => {
                    self.is_moving = true;
                    self.flow.moves();
                    return Ok(sent);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    std::future::poll_fn(|cx| self.poll_writable(cx)).await.map_err(LaneError::Client)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(LaneError::Client(error)),
            }
        }
    }

    fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Poll::Ready(ready) = self.socket.poll_write_ready(cx) {
            return Poll::Ready(ready);
        }
        self.flow.waits();
        let patience = self.patience.get_or_insert_with(|| Box::pin(tokio::time::sleep(PAUSED_PLAYER)));
        while patience.as_mut().poll(cx).is_ready() {
            if !std::mem::take(&mut self.is_moving) {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            patience.as_mut().reset(Instant::now() + PAUSED_PLAYER);
        }
        Poll::Pending
    }
}

/// Resolves when the connection is broken off. Neither bytes of a next request nor the end of the client's side is that: a
/// client that has said everything still reads (RFC 9112 section 9.6). One that closed both sides with bytes unread sends a
/// reset at once, any other at the next bytes.
async fn peer_gone(socket: &TcpStream) -> io::Error {
    if let Err(error) = socket.ready(Interest::ERROR).await {
        return error;
    }
    match socket.take_error() {
        Ok(Some(error)) | Err(error) => error,
        Ok(None) => io::ErrorKind::ConnectionReset.into(),
    }
}

/// The next window on its way into memory.
type BringIn = Pin<Box<dyn Future<Output = Result<u64, StorageError>> + Send>>;

/// Sends a range of a media file: resident pieces at once, the rest after the disk brought it.
async fn send_file(outlet: &mut Outlet<'_>, file: &MediaFile, range: ByteRange) -> Result<(), LaneError> {
    let (mut at, end) = (range.start(), range.end());
    let mut since_yield = 0_u64;
    // What the reader threads brought in was gone at once: a filesystem that keeps nothing in the page cache (ZFS,
    // FUSE with direct I/O), or memory that is very short.
    let mut keeps_nothing = false;
    while at < end {
        let want = (end - at).min(WINDOW_BYTES);
        let mut ready = if file.revalidates() { 0 } else { file.resident(at, want) };
        let sure = at + ready;
        if ready == 0 && (keeps_nothing || file.revalidates()) {
            at += send_by_value(outlet, file, at, end).await?;
            continue;
        }
        if ready == 0 {
            // All that is wanted is named, so that the reader may keep a chunk ahead by itself.
            let bring = Box::pin(file.bring_in(at, end - at));
            ready = tokio::select! {
                brought = bring => brought.map_err(LaneError::Storage)?.min(want),
                // Dropping the read abandons it if its turn has not come: nobody waits for it.
                error = peer_gone(outlet.socket) => return Err(LaneError::Client(error)),
            };
            if ready == 0 {
                return Err(LaneError::Shrunk);
            }
            keeps_nothing = file.still_resident(at, 1) == 0;
            if keeps_nothing {
                continue;
            }
        }
        let piece = ByteRange::of_len(at, ready).ok_or(LaneError::Shrunk)?;
        let next = piece.end();
        let ahead = end.saturating_sub(next);
        let fd = file.fd();
        let still = |offset, len| file.still_resident(offset, len);
        let served = |offset, len| file.note_served(offset, len);
        let reached = if ahead > 0 && file.resident(next, 1) == 0 {
            // Two windows in hand: the disk works on the next while the socket takes this one.
            let reader = file.clone();
            let mut bring: BringIn = Box::pin(async move { reader.bring_in(next, ahead).await });
            let mut sending = Box::pin(send_resident(outlet, fd, piece, sure, still, served));
            let mut brought = false;
            let reached = loop {
                tokio::select! {
                    biased;
                    sent = &mut sending => break sent?,
                    result = &mut bring, if !brought => {
                        // Its error, if any, is met again when the window is asked for in turn.
                        if let Err(error) = result {
                            tracing::debug!(error = %error, offset = next, "read-ahead failed");
                        }
                        brought = true;
                    }
                }
            };
            if !brought && reached == next {
                let _in_turn = bring.await;
            }
            reached
        } else {
            send_resident(outlet, fd, piece, sure, still, served).await?
        };
        since_yield += reached - at;
        at = reached;
        if since_yield >= YIELD_BYTES {
            since_yield = 0;
            tokio::task::yield_now().await;
        }
    }
    Ok(())
}

/// Sends a piece from `at` that the reader threads read for it by value; how many bytes.
async fn send_by_value(
    outlet: &mut Outlet<'_>,
    file: &MediaFile,
    at: u64,
    end: u64,
) -> Result<u64, LaneError> {
    let max = usize::try_from(end - at).unwrap_or(SEND_BYTES).min(SEND_BYTES);
    let bytes = tokio::select! {
        bytes = file.read_through(at, max) => bytes.map_err(LaneError::Storage)?,
        error = peer_gone(outlet.socket) => return Err(LaneError::Client(error)),
    };
    if bytes.is_empty() {
        return Err(LaneError::Shrunk);
    }
    outlet.write_all(&bytes, SendFlags::empty()).await?;
    file.note_served(at, bytes.len() as u64);
    Ok(bytes.len() as u64)
}

/// Sends a range of a segment. It was written a moment ago, as a rule; what the page cache has let go since is read
/// again off the executor.
async fn send_segment(
    outlet: &mut Outlet<'_>,
    segment: &Arc<Segment>,
    made_from: &MediaFile,
    range: ByteRange,
) -> Result<(), LaneError> {
    let mut rest = range;
    while !rest.is_empty() {
        let still = |offset, len| segment_ready(segment, offset, len);
        let served = |_, len| made_from.note_derived(len);
        let reached = send_resident(outlet, segment.fd(), rest, rest.start(), still, served).await?;
        rest = ByteRange::new(reached, range.end()).ok_or(LaneError::Shrunk)?;
        if !rest.is_empty() {
            let max = usize::try_from(rest.len_bytes()).unwrap_or(SEND_BYTES).min(SEND_BYTES);
            let bytes = read_segment(segment, rest.start(), max).await.map_err(LaneError::Segment)?;
            if bytes.is_empty() {
                return Err(LaneError::Shrunk);
            }
            outlet.write_all(&bytes, SendFlags::empty()).await?;
            made_from.note_derived(bytes.len() as u64);
            rest = ByteRange::new(reached + bytes.len() as u64, range.end()).ok_or(LaneError::Shrunk)?;
        }
    }
    Ok(())
}

/// How long a look at the page cache holds: a slow client takes its time, and memory may be needed meanwhile.
const LOOK_HOLDS: Duration = Duration::from_millis(10);

/// `sendfile(2)` until the range is out, or as far as `still` says that bytes are in memory (offset, length → how
/// many); where it stopped. Up to `sure` the caller has just looked. `served` hears of every piece that the socket took.
async fn send_resident(
    outlet: &mut Outlet<'_>,
    fd: BorrowedFd<'_>,
    range: ByteRange,
    mut sure: u64,
    still: impl Fn(u64, u64) -> u64,
    served: impl Fn(u64, u64),
) -> Result<u64, LaneError> {
    let mut at = range.start();
    let mut looked = Instant::now();
    // A call that took less than it was given has filled the buffer, most likely. To try again at once would find what the
    // client has taken in the meantime and send that: many small sends. So the kernel is asked whether it is worth while;
    // not just waited for, because a signal cuts a call short, too.
    let mut is_full = false;
    while at < range.end() {
        let (start, socket) = (at, outlet.socket.as_fd());
        let (mut asks, mut gone, mut len) = (is_full, false, 0);
        let sent = outlet
            .write(|| {
                if std::mem::take(&mut asks) && !has_room(socket)? {
                    return Err(rustix::io::Errno::AGAIN);
                }
                if start >= sure || looked.elapsed() >= LOOK_HOLDS {
                    looked = Instant::now();
                    sure = start + still(start, (range.end() - start).min(LOOK_BYTES));
                }
                len = usize::try_from(sure - start).unwrap_or(SEND_BYTES).min(SEND_BYTES);
                if len == 0 {
                    gone = true;
                    return Ok(0);
                }
                let mut offset = start;
                rustix::fs::sendfile(socket, fd, Some(&mut offset), len)
            })
            .await?;
        if gone {
            return Ok(at);
        }
        if sent == 0 {
            return Err(LaneError::Shrunk);
        }
        is_full = sent < len;
        served(at, sent as u64);
        at += sent as u64;
    }
    Ok(at)
}

/// Whether a third of the socket's buffer is free, which is what the kernel calls writable (`sk_stream_is_writeable`). Where
/// it is not, the kernel notes that somebody waits for that, so that readiness will be told.
fn has_room(socket: BorrowedFd<'_>) -> rustix::io::Result<bool> {
    let mut fds = [PollFd::from_borrowed_fd(socket, PollFlags::OUT)];
    Ok(rustix::event::poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))? > 0)
}
