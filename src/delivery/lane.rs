//! The fast lane: a media reply written straight to a plain HTTP/1.1 socket.
//!
//! What is in memory goes out by `sendfile(2)` from the executor, driven by the socket's
//! readiness; what is not is brought in first by the disk's own reader threads, while the piece
//! before it is still being sent. A file through an async reader and a body type costs six times
//! the CPU and stalls most of a thousand paced readers (measured; `docs/design/byte-path.md`).

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::time::Duration;

use http::header::{self, HeaderValue};
use http::{Method, Version};
use rustix::net::SendFlags;
use spindle_base::clock::http_date;
use spindle_base::units::ByteRange;
use spindle_storage::{MediaFile, StorageError};
use tokio::io::Interest;
use tokio::net::TcpStream;

use super::reply::{Part, Reply, Source};

/// Bytes asked for at once: large enough that a rotating disk transfers for as long as it
/// positions (12 ms at 160 MB/s is 2 MiB), small enough that a seek abandons little.
const WINDOW_BYTES: u64 = 2 << 20;

/// Bytes handed to one `sendfile`. The kernel holds the socket for the whole call, and acknowledgements that arrive
/// meanwhile wait for its end: calls of 1 MiB cost a third more CPU a byte than calls of 128 to 256 KiB where the
/// client runs on another core (measured; the system call itself is a thousandth of either).
const SEND_BYTES: usize = 256 << 10;

/// Bytes after which a fast reader lets other tasks run.
const YIELD_BYTES: u64 = 8 << 20;

/// How long a client may leave the socket full. A paused player stops reading and must find its
/// connection alive after a long break; a dead peer is found by TCP keepalive long before.
const STALLED_CLIENT: Duration = Duration::from_secs(4 * 60 * 60);

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
    /// The file is shorter than it was when the head was written.
    #[error("the file became shorter while it was sent")]
    Shrunk,
}

/// Writes `reply` to the socket.
///
/// `keep_alive`: whether the request allows another one after it.
///
/// # Errors
/// `LaneError`; bytes may have gone out already.
pub async fn send(
    socket: &TcpStream,
    method: &Method,
    version: Version,
    keep_alive: bool,
    now_us: i64,
    mut reply: Reply,
) -> Result<Sent, LaneError> {
    let sends_body = *method != Method::HEAD && !reply.parts.is_empty();
    let head = head(&reply, version, keep_alive, now_us);
    let flags = if sends_body { SendFlags::MORE } else { SendFlags::empty() };
    write_all(socket, &head, flags).await?;
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
                    write_all(socket, &bytes, flags).await?;
                }
                Part::Range(Source::File(file), range) => send_file(socket, &file, range).await?,
                Part::Range(Source::Segment { segment, made_from }, range) => {
                    let served = |_, len| made_from.note_derived(len);
                    send_resident(socket, segment.fd(), range, served).await?;
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

async fn write_all(socket: &TcpStream, mut bytes: &[u8], flags: SendFlags) -> Result<(), LaneError> {
    while !bytes.is_empty() {
        let sent =
            on_writable(socket, || rustix::net::send(socket.as_fd(), bytes, flags | SendFlags::NOSIGNAL))
                .await?;
        bytes = bytes.get(sent..).unwrap_or_default();
    }
    Ok(())
}

/// Runs `operation` whenever the socket can take bytes, until it took some.
async fn on_writable(
    socket: &TcpStream,
    mut operation: impl FnMut() -> rustix::io::Result<usize>,
) -> Result<usize, LaneError> {
    loop {
        match socket.try_io(Interest::WRITABLE, || operation().map_err(io::Error::from)) {
            Ok(sent) => return Ok(sent),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                tokio::time::timeout(STALLED_CLIENT, socket.writable())
                    .await
                    .map_err(|_| LaneError::Client(io::ErrorKind::TimedOut.into()))?
                    .map_err(LaneError::Client)?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(LaneError::Client(error)),
        }
    }
}

/// Resolves when the client has closed its side. Bytes of a next request are not the end.
async fn peer_gone(socket: &TcpStream) -> io::Error {
    let mut byte = [0_u8; 1];
    match socket.peek(&mut byte).await {
        Ok(0) => io::ErrorKind::ConnectionReset.into(),
        Ok(_) => std::future::pending().await,
        Err(error) => error,
    }
}

/// The next window on its way into memory.
type BringIn = Pin<Box<dyn Future<Output = Result<u64, StorageError>> + Send>>;

/// Sends a range of a media file: resident pieces at once, the rest after the disk brought it.
async fn send_file(socket: &TcpStream, file: &MediaFile, range: ByteRange) -> Result<(), LaneError> {
    let (mut at, end) = (range.start(), range.end());
    let mut since_yield = 0_u64;
    while at < end {
        let want = (end - at).min(WINDOW_BYTES);
        let mut ready = file.resident(at, want);
        if ready == 0 {
            // Whatever arrived is sent even if memory is so short that it was dropped again:
            // then sendfile reads it once more, and playback goes on.
            // All that is wanted is named, so that the reader may keep a chunk ahead by itself.
            let bring = Box::pin(file.bring_in(at, end - at));
            ready = tokio::select! {
                brought = bring => brought.map_err(LaneError::Storage)?.min(want),
                // Dropping the read abandons it if its turn has not come: nobody waits for it.
                error = peer_gone(socket) => return Err(LaneError::Client(error)),
            };
            if ready == 0 {
                return Err(LaneError::Shrunk);
            }
        }
        let piece = ByteRange::of_len(at, ready).ok_or(LaneError::Shrunk)?;
        let next = piece.end();
        let ahead = end.saturating_sub(next);
        let fd = file.fd();
        let served = |offset, len| file.note_served(offset, len);
        if ahead > 0 && file.resident(next, 1) == 0 {
            // Two windows in hand: the disk works on the next while the socket takes this one.
            let reader = file.clone();
            let mut bring: BringIn = Box::pin(async move { reader.bring_in(next, ahead).await });
            let mut sending = Box::pin(send_resident(socket, fd, piece, served));
            let mut brought = false;
            loop {
                tokio::select! {
                    biased;
                    sent = &mut sending => { sent?; break; }
                    result = &mut bring, if !brought => {
                        // Its error, if any, is met again when the window is asked for in turn.
                        if let Err(error) = result {
                            tracing::debug!(error = %error, offset = next, "read-ahead failed");
                        }
                        brought = true;
                    }
                }
            }
            if !brought {
                let _in_turn = bring.await;
            }
        } else {
            send_resident(socket, fd, piece, served).await?;
        }
        at = next;
        since_yield += ready;
        if since_yield >= YIELD_BYTES {
            since_yield = 0;
            tokio::task::yield_now().await;
        }
    }
    Ok(())
}

/// `sendfile(2)` until the range is out. `served` hears of every piece that the socket took.
async fn send_resident(
    socket: &TcpStream,
    fd: BorrowedFd<'_>,
    range: ByteRange,
    served: impl Fn(u64, u64),
) -> Result<(), LaneError> {
    let mut at = range.start();
    while at < range.end() {
        let len = usize::try_from(range.end() - at).unwrap_or(SEND_BYTES).min(SEND_BYTES);
        let start = at;
        let sent = on_writable(socket, || {
            let mut offset = start;
            rustix::fs::sendfile(socket.as_fd(), fd, Some(&mut offset), len)
        })
        .await?;
        if sent == 0 {
            return Err(LaneError::Shrunk);
        }
        served(at, sent as u64);
        at += sent as u64;
    }
    Ok(())
}
