//! One plain TCP connection: decides request by request whether the fast lane or hyper serves it.
//!
//! A browser asks for pages, API and media on the same connection, so that the choice cannot be
//! made once. Between two requests the next head is looked at before hyper sees it: a GET or HEAD
//! of `/media/` makes hyper believe that the client has closed, hyper lets go of the socket, the
//! lane answers, and hyper gets the connection back for the next other request.
//!
//! "Between two requests" is known exactly: the last response body has ended and was flushed, and
//! the last request body was read to its end. If hyper still holds bytes at that point (a client
//! that pipelines), the connection is closed and nothing is guessed.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::response::IntoResponse as _;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Uri, Version, header};
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use spindle_base::clock::SharedClock;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::answers::Answers;
use super::connections::Flow;
use super::lane::{self, PAUSED_PLAYER, Sent};
use super::problem::Problem;
use super::reply::{Reply, chain};

/// A head longer than this is refused: browsers send 1 to 2 KiB, cookies included.
const MAX_HEAD_BYTES: usize = 32 << 10;
/// Fields of one head.
const MAX_FIELDS: usize = 96;
/// Time for a head to arrive once it has begun, and for a connection to lie idle.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
const IDLE_TIMEOUT: Duration = Duration::from_secs(75);
/// How long a client may take nothing of an answer that is no film: what it was sent stays in memory until then.
const STALLED_READER: Duration = Duration::from_secs(75);
/// What HTTP/2 holds of one answer that its client does not read.
const MAX_SEND_BYTES: usize = 64 << 10;

/// A request of the fast lane: no body by construction.
pub struct MediaRequest {
    /// GET or HEAD.
    pub method: Method,
    /// Path and query as sent; begins with `/media/`.
    pub uri: Uri,
    /// The header fields.
    pub headers: HeaderMap,
    /// The other end of the connection.
    pub peer: SocketAddr,
}

/// Future of a reply.
pub type ReplyFuture = Pin<Box<dyn Future<Output = Reply> + Send>>;

/// What answers media requests.
pub trait Media: Send + Sync + 'static {
    /// Answers one request. Never fails: a failure is a reply too.
    fn answer(&self, request: MediaRequest) -> ReplyFuture;
}

/// What a connection needs of the server.
#[derive(Clone)]
pub struct Services {
    /// The fast lane's answers.
    pub media: Arc<dyn Media>,
    /// Everything else, `/media/` by the ordinary lane included.
    pub router: Router,
    /// For the `Date` field.
    pub clock: SharedClock,
    /// Ends connections between two requests.
    pub shutdown: CancellationToken,
    /// What HTTP/2 has open.
    pub answers: Answers,
}

/// Answers a connection beyond what its address may have, as far as that takes no waiting.
pub fn refuse(socket: &TcpStream) {
    const DETAIL: &str = r#"{"type":"about:blank","title":"Service Unavailable","status":503,"detail":"this address has too many connections open; close some"}"#;
    let text = format!(
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\n\
         Content-Length: {}\r\nRetry-After: 10\r\nConnection: close\r\n\r\n{DETAIL}",
        DETAIL.len()
    );
    if let Err(error) = socket.try_write(text.as_bytes()) {
        tracing::trace!(%error, "a refusal was not sent");
    }
}

/// Serves a connection until either side closes it.
pub async fn serve(socket: TcpStream, peer: SocketAddr, services: Services, flow: Arc<Flow>) {
    if let Err(error) = socket.set_nodelay(true) {
        tracing::debug!(%peer, %error, "unable to set TCP_NODELAY");
    }
    if let Err(error) = keep_alive_probes(&socket) {
        tracing::debug!(%peer, %error, "unable to set TCP keepalive");
    }
    if let Err(error) = drive(socket, peer, services, &flow).await {
        tracing::debug!(%peer, error = %error, "connection ended");
    }
}

/// A peer that vanished without a word is found within two minutes.
fn keep_alive_probes(socket: &TcpStream) -> rustix::io::Result<()> {
    use rustix::net::sockopt;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, Duration::from_secs(60))?;
    sockopt::set_tcp_keepintvl(socket, Duration::from_secs(15))?;
    sockopt::set_tcp_keepcnt(socket, 4)
}

async fn drive(
    mut socket: TcpStream,
    peer: SocketAddr,
    services: Services,
    flow: &Arc<Flow>,
) -> io::Result<()> {
    let mut buffer = Vec::new();
    loop {
        let next = tokio::select! {
            next = next_request(&mut socket, &mut buffer) => next?,
            () = services.shutdown.cancelled() => return Ok(()),
        };
        match next {
            Next::Closed => return Ok(()),
            // On the heap: a connection of the fast lane should not hold the room that hyper would need.
            Next::Http2 => return Box::pin(http2(socket, buffer, peer, &services, flow)).await,
            Next::Http1 => match Box::pin(http1(socket, buffer, peer, &services, flow)).await? {
                Some((again, sniffed)) => (socket, buffer) = (again, sniffed),
                None => return Ok(()),
            },
            Next::Media(head) => {
                let (method, version) = (head.request_method.clone(), head.version);
                let keep = head.keep_alive && !services.shutdown.is_cancelled();
                let reply = services.media.answer(head.into_request(peer)).await;
                let now = services.clock.unix_us();
                match lane::send((&socket, flow), &method, version, keep, now, reply).await {
                    Ok(Sent::KeepAlive) => {}
                    Ok(Sent::Close) => return Ok(()),
                    Err(error @ lane::LaneError::Client(_)) => {
                        tracing::debug!(%peer, error = %error, "client went away");
                        return Ok(());
                    }
                    Err(error) => {
                        // The head is out: the only honest end is a connection that breaks off.
                        tracing::warn!(%peer, error = %chain(&error), "reply broken off");
                        return Ok(());
                    }
                }
            }
        }
    }
}

enum Next {
    Closed,
    Media(Box<Head>),
    Http1,
    Http2,
}

/// Waits for the next head and says whose it is. What was read stays in `buffer`, less the head
/// of a media request, which is taken out.
async fn next_request(socket: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<Next> {
    // One deadline for a whole head: a client that sends a byte now and then does not move it.
    let (mut deadline, mut begun) = (Instant::now() + IDLE_TIMEOUT, false);
    loop {
        match classify(buffer) {
            Class::More => {}
            Class::Other => return Ok(Next::Http1),
            Class::Http2 => return Ok(Next::Http2),
            Class::Media => match parse(buffer) {
                Parsed::Head(_, len) if len > MAX_HEAD_BYTES => return Ok(Next::Http1),
                Parsed::Head(head, len) => {
                    buffer.drain(..len);
                    if buffer.is_empty() {
                        // A thousand waiting readers need no buffers.
                        *buffer = Vec::new();
                    }
                    return Ok(Next::Media(head));
                }
                // hyper knows how to refuse it, or to read its body.
                Parsed::NotForUs => return Ok(Next::Http1),
                Parsed::Partial if buffer.len() > MAX_HEAD_BYTES => return Ok(Next::Http1),
                Parsed::Partial => {}
            },
        }
        if !begun && !buffer.is_empty() {
            (deadline, begun) = (Instant::now() + HEAD_TIMEOUT, true);
        }
        buffer.reserve(2048);
        match tokio::time::timeout_at(deadline, socket.read_buf(buffer)).await {
            Err(_elapsed) => return Ok(Next::Closed),
            Ok(Ok(0)) if buffer.is_empty() => return Ok(Next::Closed),
            // Half a head and then the end: hyper answers or closes.
            Ok(Ok(0)) => return Ok(Next::Http1),
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return Err(error),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Class {
    More,
    Media,
    Http2,
    Other,
}

/// What the first bytes of a request say. RFC 9112 section 2.2 lets a client send an empty line
/// first; such a request is hyper's.
fn classify(head: &[u8]) -> Class {
    const KNOWN: [(&[u8], Class); 3] = [
        (b"GET /media/", Class::Media),
        (b"HEAD /media/", Class::Media),
        // All of it (RFC 9113 section 3.4): hyper would wait for the rest without a limit.
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Class::Http2),
    ];
    let mut class = Class::Other;
    for (prefix, meaning) in KNOWN {
        if head.starts_with(prefix) {
            return meaning;
        }
        if prefix.starts_with(head) {
            class = Class::More;
        }
    }
    class
}

struct Head {
    request_method: Method,
    uri: Uri,
    headers: HeaderMap,
    version: Version,
    keep_alive: bool,
}

impl Head {
    fn into_request(self, peer: SocketAddr) -> MediaRequest {
        MediaRequest { method: self.request_method, uri: self.uri, headers: self.headers, peer }
    }
}

enum Parsed {
    Head(Box<Head>, usize),
    Partial,
    NotForUs,
}

/// Parses a head of the lane. A request with a body, an upgrade, an expectation, or anything
/// that the strict parser refuses is left to hyper.
fn parse(bytes: &[u8]) -> Parsed {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    let len = match request.parse(bytes) {
        Ok(httparse::Status::Complete(len)) => len,
        Ok(httparse::Status::Partial) => return Parsed::Partial,
        Err(_) => return Parsed::NotForUs,
    };
    head_of(&request).map_or(Parsed::NotForUs, |head| Parsed::Head(Box::new(head), len))
}

fn head_of(request: &httparse::Request<'_, '_>) -> Option<Head> {
    let method = Method::from_bytes(request.method?.as_bytes()).ok()?;
    let uri: Uri = request.path?.parse().ok()?;
    let version = if request.version? == 0 { Version::HTTP_10 } else { Version::HTTP_11 };
    let mut headers = HeaderMap::with_capacity(request.headers.len());
    for field in request.headers.iter() {
        let name = HeaderName::from_bytes(field.name.as_bytes()).ok()?;
        let value = HeaderValue::from_bytes(field.value).ok()?;
        headers.append(name, value);
    }
    let has_body = headers.contains_key(header::TRANSFER_ENCODING)
        || headers.get_all(header::CONTENT_LENGTH).iter().any(|v| v.as_bytes() != b"0");
    let special = headers.contains_key(header::UPGRADE) || headers.contains_key(header::EXPECT);
    // RFC 9112 section 3.2: a 1.1 request without exactly one Host is a 400, which the
    // other side gives.
    let hosts = headers.get_all(header::HOST).iter().count();
    if has_body || special || (version == Version::HTTP_11 && hosts != 1) {
        return None;
    }
    let keep_alive = keeps_alive(&headers, version);
    Some(Head { request_method: method, uri, headers, version, keep_alive })
}

/// RFC 9112 section 3.2: without exactly one Host a 1.1 request is a 400. hyper leaves that to us.
fn has_its_host<B>(request: &Request<B>) -> bool {
    request.version() != Version::HTTP_11 || request.headers().get_all(header::HOST).iter().count() == 1
}

/// RFC 9112 section 9.3.
fn keeps_alive(headers: &HeaderMap, version: Version) -> bool {
    let has = |option: &str| {
        headers
            .get_all(header::CONNECTION)
            .iter()
            .filter_map(|v| v.to_str().ok())
            .flat_map(|v| v.split(','))
            .any(|word| word.trim().eq_ignore_ascii_case(option))
    };
    if has("close") { false } else { version == Version::HTTP_11 || has("keep-alive") }
}

async fn http2(
    socket: TcpStream,
    buffer: Vec<u8>,
    peer: SocketAddr,
    services: &Services,
    flow: &Arc<Flow>,
) -> io::Result<()> {
    let io = TokioIo::new(Sniffed::new(socket, buffer, Arc::new(Turn::default()), Arc::clone(flow)));
    let (router, answers) = (services.router.clone(), services.answers.clone());
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let (router, place) = (router.clone(), answers.take(peer.ip()));
        async move {
            let Some(place) = place else { return Ok(too_many_answers()) };
            let answer = call(router, request.map(Body::new), peer).await?;
            Ok::<_, Infallible>(place.held_by(answer).unwrap_or_else(too_many_answers))
        }
    });
    let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(Duration::from_secs(60))
        // Each stream that nobody reads holds a buffer.
        .max_concurrent_streams(32)
        .max_send_buf_size(MAX_SEND_BYTES)
        .max_header_list_size(u32::try_from(MAX_HEAD_BYTES).unwrap_or(u32::MAX));
    let mut connection = std::pin::pin!(builder.serve_connection(io, service));
    let result = tokio::select! {
        result = connection.as_mut() => result,
        () = services.shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    result.map_err(io::Error::other)
}

/// Without a body: one would be held like the others.
fn too_many_answers() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = http::StatusCode::SERVICE_UNAVAILABLE;
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("10"));
    response
}

async fn call(
    router: Router,
    mut request: Request<Body>,
    peer: SocketAddr,
) -> Result<Response<Body>, Infallible> {
    request.extensions_mut().insert(ConnectInfo(peer));
    router.oneshot(request).await
}

/// Lets hyper serve requests until a media head is next. `Some` gives the socket back with what
/// was read of that head; `None` when the connection is over.
async fn http1(
    socket: TcpStream,
    buffer: Vec<u8>,
    peer: SocketAddr,
    services: &Services,
    flow: &Arc<Flow>,
) -> io::Result<Option<(TcpStream, Vec<u8>)>> {
    let turn = Arc::new(Turn::default());
    let io = TokioIo::new(Sniffed::new(socket, buffer, Arc::clone(&turn), Arc::clone(flow)));
    let router = services.router.clone();
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        turn.begin();
        if is_film(request.uri().path()) {
            turn.set(FILM);
        }
        let request = request.map(|body| Body::new(Tracked::new(body, Side::Request, &turn)));
        let (router, turn) = (router.clone(), Arc::clone(&turn));
        Box::pin(async move {
            let response = if has_its_host(&request) {
                call(router, request, peer).await?
            } else {
                Problem::bad_input("a request of HTTP/1.1 names its host, once").into_response()
            };
            Ok::<_, Infallible>(response.map(|body| Tracked::new(body, Side::Response, &turn)))
        })
    });
    let mut connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE_TIMEOUT)
        // A client that has said everything and closed its side still reads (RFC 9112 section 9.6).
        .half_close(true)
        // Also what hyper holds of a body that the client does not read, one chunk rounded up.
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(io, service);
    let mut closing = false;
    loop {
        tokio::select! {
            result = std::future::poll_fn(|cx| connection.poll_without_shutdown(cx)) => {
                result.map_err(io::Error::other)?;
                break;
            }
            () = services.shutdown.cancelled(), if !closing => {
                closing = true;
                Pin::new(&mut connection).graceful_shutdown();
            }
        }
    }
    let parts = connection.into_parts();
    let sniffed = parts.io.into_inner();
    // Bytes that hyper has read and not used belong before the sniffed head: order is lost.
    Ok((sniffed.media_next && parts.read_buf.is_empty()).then_some((sniffed.socket, sniffed.buffer)))
}

/// Where a connection stands between its requests. Bits, all clear = between two requests.
#[derive(Default)]
struct Turn(AtomicU8);

const REQUEST_BODY: u8 = 1;
const RESPONSE_BODY: u8 = 2;
const UNFLUSHED: u8 = 4;
const HEAD_BEGUN: u8 = 8;
/// Not a state of the turn: the answer is a film, whose reader may pause.
const FILM: u8 = 16;

/// Whether a path's answer is played as it comes.
fn is_film(path: &str) -> bool {
    path.starts_with("/media/") || path.starts_with("/stream/")
}

impl Turn {
    fn begin(&self) {
        self.0.store(REQUEST_BODY | RESPONSE_BODY | UNFLUSHED, Ordering::Release);
    }

    fn clear(&self, bits: u8) {
        self.0.fetch_and(!bits, Ordering::AcqRel);
    }

    fn set(&self, bits: u8) {
        self.0.fetch_or(bits, Ordering::AcqRel);
    }

    fn flushed(&self) {
        // A flush counts once the response's last byte was handed over before it.
        if self.0.load(Ordering::Acquire) & RESPONSE_BODY == 0 {
            self.clear(UNFLUSHED);
        }
    }

    fn is_between(&self) -> bool {
        self.0.load(Ordering::Acquire) & !FILM == 0
    }

    /// How long the client may take nothing.
    fn patience(&self) -> Duration {
        if self.0.load(Ordering::Acquire) & FILM == 0 { STALLED_READER } else { PAUSED_PLAYER }
    }
}

#[derive(Clone, Copy)]
enum Side {
    Request,
    Response,
}

/// A body that tells the turn when it has ended.
struct Tracked<B> {
    body: B,
    side: Side,
    turn: Arc<Turn>,
}

impl<B: HttpBody> Tracked<B> {
    fn new(body: B, side: Side, turn: &Arc<Turn>) -> Self {
        let tracked = Self { body, side, turn: Arc::clone(turn) };
        if tracked.body.is_end_stream() {
            tracked.ended();
        }
        tracked
    }
}

impl<B> Tracked<B> {
    fn ended(&self) {
        self.turn.clear(match self.side {
            Side::Request => REQUEST_BODY,
            Side::Response => RESPONSE_BODY,
        });
    }
}

impl<B> Drop for Tracked<B> {
    fn drop(&mut self) {
        // A response body is dropped when hyper is done with it. A request body that is dropped
        // unread leaves its bytes on the connection: that bit stays, and hyper keeps the rest.
        if matches!(self.side, Side::Response) {
            self.ended();
        }
    }
}

impl<B: HttpBody + Unpin> HttpBody for Tracked<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if frame.is_none() || self.body.is_end_stream() {
            self.ended();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The socket as hyper sees it.
struct Sniffed {
    socket: TcpStream,
    /// Read from the socket and not given to hyper yet.
    buffer: Vec<u8>,
    turn: Arc<Turn>,
    media_next: bool,
    /// Told when the client takes nothing.
    flow: Arc<Flow>,
    /// Runs while it takes nothing.
    patience: Option<Pin<Box<Sleep>>>,
}

impl Sniffed {
    /// `buffer` was classified already: it is hyper's.
    fn new(socket: TcpStream, buffer: Vec<u8>, turn: Arc<Turn>, flow: Arc<Flow>) -> Self {
        if !buffer.is_empty() {
            turn.set(HEAD_BEGUN);
        }
        Self { socket, buffer, turn, media_next: false, flow, patience: None }
    }

    /// What a write came to. One that waits does so only for so long: hyper itself would wait for ever.
    fn written(&mut self, cx: &mut Context<'_>, write: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if write.is_ready() {
            self.flow.moves();
            self.patience = None;
            return write;
        }
        self.flow.waits();
        let limit = self.turn.patience();
        let patience = self.patience.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        ready!(patience.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Sniffed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.media_next {
            return Poll::Ready(Ok(()));
        }
        while self.turn.is_between() {
            match classify(&self.buffer) {
                Class::Media => {
                    self.media_next = true;
                    return Poll::Ready(Ok(()));
                }
                Class::Http2 | Class::Other => self.turn.set(HEAD_BEGUN),
                Class::More => {
                    let mut chunk = [0_u8; 4096];
                    let mut read = ReadBuf::new(&mut chunk);
                    ready!(Pin::new(&mut self.socket).poll_read(cx, &mut read))?;
                    if read.filled().is_empty() {
                        // The end: what there is goes to hyper, then its own end.
                        self.turn.set(HEAD_BEGUN);
                    } else {
                        let bytes = read.filled().to_vec();
                        self.buffer.extend_from_slice(&bytes);
                    }
                }
            }
        }
        if self.buffer.is_empty() {
            return Pin::new(&mut self.socket).poll_read(cx, out);
        }
        let n = self.buffer.len().min(out.remaining());
        out.put_slice(&self.buffer[..n]);
        self.buffer.drain(..n);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Sniffed {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.socket).poll_write(cx, bytes);
        self.written(cx, write)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.socket).poll_write_vectored(cx, bufs);
        self.written(cx, write)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // hyper flushes its socket only after its own buffer is empty.
        ready!(Pin::new(&mut self.socket).poll_flush(cx))?;
        self.turn.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_classified_by_its_first_bytes_however_few() {
        for (bytes, class) in [
            (&b""[..], Class::More),
            (b"G", Class::More),
            (b"GET /med", Class::More),
            (b"GET /media", Class::More),
            (b"GET /media/x", Class::Media),
            (b"HEAD /media/x", Class::Media),
            (b"GET /mediax", Class::Other),
            (b"POST /media/", Class::Other),
            (b"get /media/", Class::Other),
            (b"PRI * HTTP/2.0\r\n", Class::More),
            (b"PRI * HTTP/2.0\r\n\r\nSM", Class::More),
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0", Class::Http2),
            (b"PRI * HTTP/2.0\r\nHost: x", Class::Other),
            (b"\r\nGET /media/", Class::Other),
        ] {
            assert_eq!(classify(bytes), class, "{}", String::from_utf8_lossy(bytes));
        }
    }

    fn parsed(text: &str) -> Option<(Method, bool)> {
        match parse(text.as_bytes()) {
            Parsed::Head(head, _) => Some((head.request_method, head.keep_alive)),
            _ => None,
        }
    }

    #[test]
    fn requests_with_a_body_an_upgrade_or_no_host_are_left_to_hyper() {
        let ok = "GET /media/a HTTP/1.1\r\nHost: x\r\n";
        assert_eq!(parsed(&format!("{ok}\r\n")), Some((Method::GET, true)));
        assert_eq!(parsed(&format!("{ok}Content-Length: 0\r\n\r\n")), Some((Method::GET, true)));
        for extra in [
            "Content-Length: 5\r\n",
            "Content-Length: 0\r\nContent-Length: 5\r\n",
            "Transfer-Encoding: chunked\r\n",
            "Upgrade: websocket\r\n",
            "Expect: 100-continue\r\n",
            "Host: y\r\n",
        ] {
            assert_eq!(parsed(&format!("{ok}{extra}\r\n")), None, "{extra}");
        }
        assert_eq!(parsed("GET /media/a HTTP/1.1\r\n\r\n"), None);
    }

    #[test]
    fn connection_persistence_follows_rfc_9112() {
        for (version, connection, want) in [
            ("1.1", "", true),
            ("1.1", "Connection: close\r\n", false),
            ("1.1", "Connection: x, Close\r\n", false),
            ("1.0", "", false),
            ("1.0", "Connection: Keep-Alive\r\n", true),
        ] {
            let text = format!("GET /media/a HTTP/{version}\r\nHost: x\r\n{connection}\r\n");
            assert_eq!(parsed(&text), Some((Method::GET, want)), "{text}");
        }
    }

    #[test]
    fn a_film_may_stand_still_for_hours_and_another_answer_for_a_minute() {
        for (path, patience) in [
            ("/media/x/film.mkv", PAUSED_PLAYER),
            ("/stream/x/film.ts", PAUSED_PLAYER),
            ("/api/v1/items", STALLED_READER),
            ("/api/v1/events", STALLED_READER),
        ] {
            let turn = Turn::default();
            turn.begin();
            if is_film(path) {
                turn.set(FILM);
            }
            assert_eq!(turn.patience(), patience, "{path}");
            turn.clear(REQUEST_BODY | RESPONSE_BODY);
            turn.flushed();
            assert!(turn.is_between(), "{path}");
        }
    }

    #[test]
    fn a_turn_is_over_when_both_bodies_ended_and_the_answer_was_flushed() {
        let turn = Turn::default();
        assert!(turn.is_between());
        turn.begin();
        turn.flushed();
        turn.clear(REQUEST_BODY);
        turn.clear(RESPONSE_BODY);
        assert!(!turn.is_between(), "a flush before the end does not count");
        turn.flushed();
        assert!(turn.is_between());
    }
}
