//! A reply as data, before either lane sends it: status, headers, and the parts of its body.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use spindle_base::clock::http_date;
use spindle_base::error::ErrorKind;
use spindle_base::units::ByteRange;
use spindle_storage::{MediaFile, StorageError, cached};
use spindle_transcode::Segment;

use super::entity::{self, Entity, Outcome};
use super::problem::Problem;

/// How long a disk may take for the first bytes. A rotating one wakes within 10 to 25 s, the last of a shelf that starts
/// one after the other within 40; what takes longer is broken, and a client that is told can ask elsewhere.
const FIRST_BYTES_PATIENCE: Duration = Duration::from_secs(45);

/// When a client may ask again for what a disk did not give: a disk that was plugged in again, or a mount that came
/// back, is there within seconds.
const RETRY_AFTER_S: u64 = 10;

/// Where a body's bytes lie.
#[derive(Clone)]
pub enum Source {
    /// A media file on a disk: what is not in memory is brought in by the disk's reader threads.
    File(MediaFile),
    /// A segment in the cache, written a moment ago.
    Segment {
        /// Its bytes.
        segment: Arc<Segment>,
        /// The file that it was made from: what is sent counts as served from it.
        made_from: MediaFile,
    },
}

impl Source {
    /// Length in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        match self {
            Self::File(file) => file.size_bytes(),
            Self::Segment { segment, .. } => segment.len_bytes,
        }
    }
}

/// A piece of a body.
#[derive(Clone)]
pub enum Part {
    /// Bytes as they are.
    Memory(Bytes),
    /// A range of a source.
    Range(Source, ByteRange),
}

impl Part {
    fn of_file(&self) -> Option<(&MediaFile, ByteRange)> {
        match self {
            Self::Range(Source::File(file), range) => Some((file, *range)),
            _ => None,
        }
    }

    fn len_bytes(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::Range(_, range) => range.len_bytes(),
        }
    }
}

/// A whole reply. `Content-Length` is always known and set by the lane.
#[derive(Clone)]
pub struct Reply {
    /// Status code.
    pub status: StatusCode,
    /// Every header but `Content-Length`, `Date` and `Connection`.
    pub headers: HeaderMap,
    /// The body, in order. A reply to HEAD keeps its parts: the lane counts and does not send.
    pub parts: Vec<Part>,
    /// Dropped when the reply has been sent or given up: whatever must live until then.
    held: Option<Arc<dyn std::any::Any + Send + Sync>>,
}

impl Reply {
    /// Keeps `guard` until the reply has been sent.
    #[must_use]
    pub fn holding<G: Send + Sync + 'static>(mut self, guard: G) -> Self {
        self.held = Some(Arc::new(guard));
        self
    }

    /// A failure, as a document.
    #[must_use]
    pub fn of_problem(problem: &Problem) -> Self {
        let reply = Self::memory(problem.status(), "application/problem+json", problem.body());
        match problem.retry_after_s() {
            Some(seconds) => reply.with(header::RETRY_AFTER, &seconds.to_string()),
            None => reply,
        }
    }

    /// Waits until the first bytes of a file in the body are in memory. To be called before the head goes out: a disk
    /// that cannot be read is then an answer of its own, not one that breaks off. Free where they are in memory.
    ///
    /// # Errors
    /// 503 and why, to be sent instead.
    pub async fn first_bytes(&self) -> Result<(), Problem> {
        let Some((file, range)) = self.parts.iter().find_map(Part::of_file) else { return Ok(()) };
        if range.is_empty() || file.resident(range.start(), 1) > 0 {
            return Ok(());
        }
        let bring = file.bring_in(range.start(), range.len_bytes());
        match tokio::time::timeout(FIRST_BYTES_PATIENCE, bring).await {
            Ok(Ok(1..)) => Ok(()),
            Ok(Ok(0) | Err(StorageError::Shrunk { .. })) => {
                Err(unread("the file has become shorter than it was"))
            }
            Ok(Err(error @ StorageError::QueueFull { .. })) => Err(error.into()),
            Ok(Err(error)) => {
                let path = file.path().display();
                tracing::warn!(%path, error = %chain(&error), "the first bytes of a reply cannot be read");
                // The innermost cause is the kernel's word; what stands before it names a path of this machine.
                Err(unread(&innermost(&error)))
            }
            Err(_) => {
                let path = file.path().display();
                tracing::warn!(%path, waited_s = FIRST_BYTES_PATIENCE.as_secs(), "a disk does not answer");
                Err(unread(&format!("no answer within {} s", FIRST_BYTES_PATIENCE.as_secs())))
            }
        }
    }

    /// A reply of a few bytes.
    #[must_use]
    pub fn memory(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        Self { status, headers, parts: vec![Part::Memory(body.into())], held: None }
    }

    /// Length of the body in bytes.
    #[must_use]
    pub fn body_bytes(&self) -> u64 {
        self.parts.iter().map(Part::len_bytes).sum()
    }

    /// Adds a header; a value that is not allowed in a header is left out.
    #[must_use]
    pub fn with(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(name, value);
        }
        self
    }

    /// Headers that let a cast device or a page of another origin play a signed URL: the
    /// signature is the permission, no cookie takes part.
    #[must_use]
    pub fn with_cors(mut self) -> Self {
        let headers = &mut self.headers;
        // The type is ours by the file's content; a file that looks like a page is not one.
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        headers.insert(
            header::ACCESS_CONTROL_EXPOSE_HEADERS,
            HeaderValue::from_static("Content-Length, Content-Range, Accept-Ranges, ETag, Date"),
        );
        headers.insert(
            HeaderName::from_static("cross-origin-resource-policy"),
            HeaderValue::from_static("cross-origin"),
        );
        self
    }
}

fn unread(why: &str) -> Problem {
    let detail = format!("the disk that holds this file cannot be read at the moment: {why}");
    Problem::new(ErrorKind::Unavailable, detail).retry_after(RETRY_AFTER_S)
}

/// An error with its causes, on one line.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        source = inner.source();
    }
    text
}

fn innermost(error: &dyn std::error::Error) -> String {
    let mut at = error;
    while let Some(inner) = at.source() {
        at = inner;
    }
    at.to_string()
}

/// Answers GET or HEAD on `source` as RFC 9110 has it: conditions, ranges, multipart.
///
/// `boundary` separates the parts of a multipart reply and must not occur in the data; a random
/// id of 128 bits does not, short of a wonder.
#[must_use]
pub fn serve(
    method: &Method,
    headers: &HeaderMap,
    entity: &Entity,
    content_type: &str,
    source: &Source,
    boundary: &str,
) -> Reply {
    let mut out = HeaderMap::new();
    insert(&mut out, header::ETAG, &entity.etag);
    insert(&mut out, header::LAST_MODIFIED, &http_date(entity.modified_us));
    out.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    let whole = ByteRange::of_len(0, entity.size_bytes);
    let (status, parts) = match entity::decide(method, headers, entity) {
        Outcome::Full => {
            insert(&mut out, header::CONTENT_TYPE, content_type);
            let parts = whole.map(|r| Part::Range(source.clone(), r));
            (StatusCode::OK, parts.into_iter().collect())
        }
        Outcome::Partial(ranges) => {
            if let [range] = ranges.as_slice() {
                insert(&mut out, header::CONTENT_TYPE, content_type);
                let value = content_range(*range, entity.size_bytes);
                insert(&mut out, header::CONTENT_RANGE, &value);
                let part = Part::Range(source.clone(), *range);
                (StatusCode::PARTIAL_CONTENT, vec![part])
            } else {
                let value = format!("multipart/byteranges; boundary={boundary}");
                insert(&mut out, header::CONTENT_TYPE, &value);
                let parts = multipart(&ranges, entity.size_bytes, content_type, source, boundary);
                (StatusCode::PARTIAL_CONTENT, parts)
            }
        }
        Outcome::NotModified => (StatusCode::NOT_MODIFIED, Vec::new()),
        Outcome::PreconditionFailed => (StatusCode::PRECONDITION_FAILED, Vec::new()),
        Outcome::Unsatisfiable => {
            let value = format!("bytes */{}", entity.size_bytes);
            insert(&mut out, header::CONTENT_RANGE, &value);
            (StatusCode::RANGE_NOT_SATISFIABLE, Vec::new())
        }
    };
    Reply { status, headers: out, parts, held: None }
}

fn insert(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

/// RFC 9110 section 14.4.
fn content_range(range: ByteRange, size_bytes: u64) -> String {
    format!("bytes {}-{}/{size_bytes}", range.start(), range.end() - 1)
}

/// RFC 9110 section 14.6.
fn multipart(
    ranges: &[ByteRange],
    size_bytes: u64,
    content_type: &str,
    source: &Source,
    boundary: &str,
) -> Vec<Part> {
    let mut parts = Vec::with_capacity(ranges.len() * 2 + 1);
    for (n, range) in ranges.iter().enumerate() {
        let lead = if n == 0 { "" } else { "\r\n" };
        let head = format!(
            "{lead}--{boundary}\r\nContent-Type: {content_type}\r\nContent-Range: {}\r\n\r\n",
            content_range(*range, size_bytes)
        );
        parts.push(Part::Memory(head.into()));
        parts.push(Part::Range(source.clone(), *range));
    }
    parts.push(Part::Memory(format!("\r\n--{boundary}--\r\n").into()));
    parts
}

/// Bytes of one buffer of the ordinary lane. Every client that reads nothing holds one for as long as it likes, and
/// none can be told from one that reads: the kernel takes the first megabytes of either. Larger ones bring nothing but
/// memory (measured: 1 MiB and 64 KiB cost the same CPU a byte).
const ORDINARY_CHUNK_BYTES: usize = 64 << 10;
/// At first: a client of HTTP/2 may open many streams and read none.
const FIRST_CHUNK_BYTES: usize = 32 << 10;
/// Bytes after which a stream counts as one that is read.
const READS_AFTER_BYTES: u64 = 1 << 20;

/// How many of `len` bytes of a segment from `offset` can be sent without waiting for the cache folder's disk.
pub(super) fn segment_ready(segment: &Segment, offset: u64, len: u64) -> u64 {
    cached::ready_prefix(segment.fd(), offset, len.min(segment.len_bytes.saturating_sub(offset)))
}

/// At most `max` bytes of a segment from `offset`. What waits for the cache folder's disk does so off the executor.
pub(super) async fn read_segment(segment: &Arc<Segment>, offset: u64, max: usize) -> std::io::Result<Bytes> {
    if segment_ready(segment, offset, max as u64) >= max as u64 {
        return segment.read_range(offset, max);
    }
    let again = Arc::clone(segment);
    let read = tokio::task::spawn_blocking(move || again.read_range(offset, max));
    read.await.map_err(std::io::Error::other)?
}

/// The body of the ordinary lane: reads each part by value, on the same reader threads and with
/// the same ledger as the fast lane.
pub fn stream(parts: Vec<Part>) -> impl Stream<Item = std::io::Result<Bytes>> + Send {
    futures_util::stream::unfold((VecDeque::from(parts), 0_u64), |(mut parts, mut sent)| async move {
        loop {
            match parts.pop_front()? {
                Part::Memory(bytes) if bytes.is_empty() => {}
                Part::Memory(bytes) => return Some((Ok(bytes), (parts, sent))),
                Part::Range(_, range) if range.is_empty() => {}
                Part::Range(source, range) => {
                    let chunk =
                        if sent < READS_AFTER_BYTES { FIRST_CHUNK_BYTES } else { ORDINARY_CHUNK_BYTES };
                    let result = read_some(&source, range, chunk).await;
                    match &result {
                        Ok(bytes) => {
                            sent += bytes.len() as u64;
                            let start = range.start() + bytes.len() as u64;
                            if let Some(rest) = ByteRange::new(start, range.end()) {
                                parts.push_front(Part::Range(source, rest));
                            }
                        }
                        Err(_) => parts.clear(),
                    }
                    return Some((result, (parts, sent)));
                }
            }
        }
    })
}

async fn read_some(source: &Source, range: ByteRange, chunk_bytes: usize) -> std::io::Result<Bytes> {
    let max = usize::try_from(range.len_bytes()).unwrap_or(usize::MAX).min(chunk_bytes);
    let bytes = match source {
        Source::File(file) => {
            let read = file.read_at(range.start(), max).await;
            let bytes = read.map_err(std::io::Error::other)?;
            file.note_served(range.start(), bytes.len() as u64);
            bytes
        }
        Source::Segment { segment, made_from } => {
            let bytes = read_segment(segment, range.start(), max).await?;
            made_from.note_derived(bytes.len() as u64);
            bytes
        }
    };
    if bytes.is_empty() {
        return Err(std::io::Error::new(
            std::io::ErrorKind::UnexpectedEof,
            "the file became shorter while it was sent",
        ));
    }
    Ok(bytes)
}
