//! Between this machine and a server: bytes a second one way and the other, by one connection and by many.
//!
//! What comes down is counted where it arrives; what goes up is counted by the server, because what the kernel has taken from us has
//! not gone anywhere yet. Plain HTTP/1.1 on sockets of the standard library: the server speaks nothing else.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::BenchError;
use crate::ground::{Runner, megabytes, stopped};
use crate::pattern::Buffer;
use crate::record::Record;

/// How long a connection may take to open, and how long a server may say nothing.
const CONNECT: Duration = Duration::from_secs(5);
const SILENCE: Duration = Duration::from_secs(15);
/// Bytes handed over at once.
const CHUNK: usize = 256 << 10;
/// Longest head and longest answer that are read.
const MAX_HEAD_BYTES: u64 = 16 << 10;
const MAX_ANSWER_BYTES: u64 = 64 << 10;
/// Seconds that the server is asked for beyond ours, so that every connection runs until all have ended.
const SPARE_S: u64 = 5;
/// Longest that the server sends or takes for one request.
pub const MOST_SECONDS: u64 = 60;
/// Most connections at once.
pub const MOST_CONNECTIONS: usize = 16;
/// The route, below the server's address.
pub const ROUTE: &str = "/api/v1/experiments/net";

/// Which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the server.
    Down,
    /// To it.
    Up,
}

/// One row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetRow {
    /// Which way.
    pub direction: Direction,
    /// Connections at once.
    pub connections: usize,
    /// Bytes that arrived.
    pub bytes: u64,
    /// In how long.
    pub seconds: f64,
    /// All connections together.
    pub bytes_per_s: f64,
    /// The same in bits, as networks are sold.
    pub bits_per_s: f64,
}

impl NetRow {
    /// Of bytes that arrived.
    #[must_use]
    pub fn of(direction: Direction, connections: usize, bytes: u64, seconds: f64) -> Self {
        let bytes_per_s = bytes as f64 / seconds.max(1e-6);
        Self { direction, connections, bytes, seconds, bytes_per_s, bits_per_s: bytes_per_s * 8.0 }
    }
}

/// A server: `http://HOST:PORT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Name or address, with brackets where it is one of IPv6.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl Server {
    /// Reads an address as people write it.
    ///
    /// # Errors
    /// It is none, or asks for TLS, which the server does not speak.
    pub fn parse(text: &str) -> Result<Self, BenchError> {
        let wrong = |why: &str| BenchError::Meaning(format!("`{text}` is no address of a server: {why}"));
        let rest = match text.split_once("://") {
            Some(("http", rest)) => rest,
            Some(("https", _)) => {
                return Err(wrong(
                    "this experiment speaks plain http; name the server itself, not a proxy before it",
                ));
            }
            Some(_) => return Err(wrong("it begins with http://")),
            None => text,
        };
        let rest = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => {
                (host, port.parse().map_err(|_| wrong("its port is a number below 65536"))?)
            }
            _ => (rest, 8096),
        };
        let is_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']');
        if host.is_empty() || !host.chars().all(is_host) {
            return Err(wrong("it has no host"));
        }
        Ok(Self { host: host.to_owned(), port })
    }

    fn connect(&self) -> Result<TcpStream, BenchError> {
        let failed = |error: &dyn std::fmt::Display| {
            BenchError::Network(format!("unable to reach http://{}:{}: {error}", self.host, self.port))
        };
        let name = self.host.trim_start_matches('[').trim_end_matches(']');
        let addresses = (name, self.port).to_socket_addrs().map_err(|e| failed(&e))?;
        let mut last = None;
        for address in addresses {
            match TcpStream::connect_timeout(&address, CONNECT) {
                Ok(stream) => {
                    let timed =
                        stream.set_read_timeout(Some(SILENCE)).and(stream.set_write_timeout(Some(SILENCE)));
                    timed.and(stream.set_nodelay(true)).map_err(|e| failed(&e))?;
                    return Ok(stream);
                }
                Err(error) => last = Some(error),
            }
        }
        Err(last.map_or_else(|| failed(&"it has no address"), |e| failed(&e)))
    }

    /// Sends a request with a body of JSON and gives status and answer.
    ///
    /// # Errors
    /// The server cannot be reached or does not speak HTTP.
    pub fn ask(
        &self,
        method: &str,
        path: &str,
        token: Option<&str>,
        body: &Value,
    ) -> Result<(u16, Value), BenchError> {
        let body = body.to_string();
        let mut stream = self.connect()?;
        let more = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        let failed = |e: io::Error| BenchError::Network(format!("{method} {path}: {e}"));
        stream.write_all(self.head(method, path, token, &more).as_bytes()).map_err(failed)?;
        stream.write_all(body.as_bytes()).map_err(failed)?;
        let mut reader = BufReader::new(stream);
        let (status, chunked) = read_head(&mut reader).map_err(failed)?;
        let text = read_body(&mut reader, chunked).map_err(failed)?;
        Ok((status, serde_json::from_slice(&text).unwrap_or(Value::Null)))
    }

    fn head(&self, method: &str, path: &str, token: Option<&str>, more: &str) -> String {
        let token = token.map(|t| format!("Authorization: Bearer {t}\r\n")).unwrap_or_default();
        format!(
            "{method} {path} HTTP/1.1\r\nHost: {}:{}\r\n{token}Accept-Encoding: identity\r\nConnection: close\r\n{more}\r\n",
            self.host, self.port
        )
    }
}

/// Reads a head: the status, and whether the body comes in chunks.
fn read_head(reader: &mut BufReader<TcpStream>) -> io::Result<(u16, bool)> {
    let mut head = reader.by_ref().take(MAX_HEAD_BYTES);
    let bad = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why.to_owned());
    let mut line = String::new();
    head.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|s| s.parse().ok());
    let status =
        status.filter(|_| line.starts_with("HTTP/1.")).ok_or_else(|| bad("it does not answer in HTTP"))?;
    let mut chunked = false;
    loop {
        line.clear();
        if head.read_line(&mut line)? == 0 {
            return Err(bad("its answer breaks off"));
        }
        let line = line.trim_end();
        if line.is_empty() {
            return Ok((status, chunked));
        }
        if let Some((name, value)) = line.split_once(':') {
            chunked |= name.eq_ignore_ascii_case("transfer-encoding")
                && value.trim().eq_ignore_ascii_case("chunked");
        }
    }
}

/// A short body, whole: to the end of the connection, or of the chunks (RFC 9112 section 7.1).
fn read_body(reader: &mut BufReader<TcpStream>, chunked: bool) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    let mut limited = reader.take(MAX_ANSWER_BYTES);
    if !chunked {
        limited.read_to_end(&mut out)?;
        return Ok(out);
    }
    loop {
        let mut line = String::new();
        limited.read_line(&mut line)?;
        let size = line.trim().split(';').next().and_then(|s| u64::from_str_radix(s, 16).ok());
        match size {
            Some(0) => return Ok(out),
            Some(n) if n <= MAX_ANSWER_BYTES => {
                limited.by_ref().take(n).read_to_end(&mut out)?;
                limited.read_line(&mut String::new())?;
            }
            _ => return Err(io::Error::new(io::ErrorKind::InvalidData, "its answer cannot be read")),
        }
    }
}

/// How it is run.
#[derive(Debug, Clone)]
pub struct Options {
    /// The server.
    pub server: Server,
    /// Who asks.
    pub token: String,
    /// Connections at once, one after the other.
    pub connections: Vec<usize>,
    /// How long each.
    pub time: Duration,
}

/// Both ways, for each number of connections.
///
/// # Errors
/// The server cannot be reached or refuses; it was stopped. What was measured is in the record.
pub fn run(runner: &Runner<'_>, options: &Options, record: &mut Record) -> Result<(), BenchError> {
    record.to = Some(format!("http://{}:{}", options.server.host, options.server.port));
    record.detail("seconds_each", &options.time.as_secs_f64());
    let ran = (|| {
        for direction in [Direction::Down, Direction::Up] {
            for connections in &options.connections {
                let row = one(runner, options, direction, *connections)?;
                record.row(&row);
            }
        }
        Ok(())
    })();
    record.verdict = verdict(&record.rows);
    ran
}

/// What the connections of one measurement share.
struct Shared<'a> {
    runner: &'a Runner<'a>,
    options: &'a Options,
    ready: AtomicUsize,
    begun: AtomicBool,
    ended: AtomicBool,
    bytes: AtomicU64,
}

fn one(
    runner: &Runner<'_>,
    options: &Options,
    direction: Direction,
    connections: usize,
) -> Result<NetRow, BenchError> {
    let shared = Shared {
        runner,
        options,
        ready: AtomicUsize::new(0),
        begun: AtomicBool::new(false),
        ended: AtomicBool::new(false),
        bytes: AtomicU64::new(0),
    };
    let name = match direction {
        Direction::Down => "from the server",
        Direction::Up => "to the server",
    };
    let step = format!("{name}, {connections} connection(s)");
    let now = || runner.clock.monotonic_us();
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        let failed = |e: io::Error| BenchError::Network(format!("unable to start a thread: {e}"));
        for i in 0..connections {
            let shared = &shared;
            let begun =
                std::thread::Builder::new().name(format!("bench-net-{i}")).spawn_scoped(scope, move || {
                    let result = match direction {
                        Direction::Down => down(shared),
                        Direction::Up => up(shared),
                    };
                    if result.is_err() {
                        shared.ended.store(true, Ordering::Release);
                    }
                    result
                });
            match begun {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    shared.ended.store(true, Ordering::Release);
                    return Err(failed(error));
                }
            }
        }
        // All of them are open before any is counted.
        let patience = now() + 2 * u64::try_from(SILENCE.as_micros()).unwrap_or(0);
        while shared.ready.load(Ordering::Acquire) < connections && !shared.over() && now() < patience {
            std::thread::sleep(Duration::from_millis(2));
        }
        shared.begun.store(true, Ordering::Release);
        let (began, had) = (now(), shared.bytes.load(Ordering::Relaxed));
        let until = began + u64::try_from(options.time.as_micros()).unwrap_or(u64::MAX);
        while now() < until && !shared.over() {
            std::thread::sleep(Duration::from_millis(20).min(options.time));
            let seconds = (now() - began) as f64 / 1e6;
            let rate = (shared.bytes.load(Ordering::Relaxed) - had) as f64 / seconds.max(1e-6);
            (runner.say)(&step, &megabytes(rate));
        }
        let (seconds, arrived) = ((now() - began) as f64 / 1e6, shared.bytes.load(Ordering::Relaxed) - had);
        shared.ended.store(true, Ordering::Release);
        let mut taken: Vec<Taken> = Vec::new();
        for thread in threads {
            taken.extend(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
        }
        if runner.stop.is_requested() {
            return Err(stopped());
        }
        Ok(match direction {
            Direction::Down => NetRow::of(direction, connections, arrived, seconds),
            Direction::Up => {
                let seconds = taken.iter().map(|t| t.seconds).fold(0.0, f64::max);
                NetRow::of(direction, connections, taken.iter().map(|t| t.bytes).sum(), seconds)
            }
        })
    })
}

impl Shared<'_> {
    fn over(&self) -> bool {
        self.ended.load(Ordering::Acquire) || self.runner.stop.is_requested()
    }
}

/// What the server says of a body: the answer of `POST` there.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Taken {
    /// Bytes that came.
    pub bytes: u64,
    /// From the first to the last.
    pub seconds: f64,
}

/// Reads until all have ended, and hangs up.
fn down(shared: &Shared<'_>) -> Result<Option<Taken>, BenchError> {
    let server = &shared.options.server;
    let failed = |e: io::Error| BenchError::Network(format!("reading from the server: {e}"));
    let mut stream = server.connect()?;
    let asked = (shared.options.time.as_secs() + SPARE_S).min(MOST_SECONDS);
    let path = format!("{ROUTE}?seconds={asked}");
    stream
        .write_all(server.head("GET", &path, Some(&shared.options.token), "").as_bytes())
        .map_err(failed)?;
    let mut reader = BufReader::with_capacity(CHUNK, stream);
    let (status, chunked) = read_head(&mut reader).map_err(failed)?;
    if status != 200 {
        return Err(refused(status, &read_body(&mut reader, chunked).unwrap_or_default()));
    }
    shared.ready.fetch_add(1, Ordering::AcqRel);
    while !shared.over() {
        let n = reader.fill_buf().map_err(failed)?.len();
        if n == 0 {
            return Err(BenchError::Network("the server hung up".to_owned()));
        }
        reader.consume(n);
        shared.bytes.fetch_add(n as u64, Ordering::Relaxed);
    }
    Ok(None)
}

/// Writes chunks until all have ended, and asks what has come.
fn up(shared: &Shared<'_>) -> Result<Option<Taken>, BenchError> {
    let server = &shared.options.server;
    let failed = |e: io::Error| BenchError::Network(format!("writing to the server: {e}"));
    let stream = server.connect()?;
    let mut reader = BufReader::new(stream.try_clone().map_err(failed)?);
    let mut writer = stream;
    let more = "Content-Type: application/octet-stream\r\nTransfer-Encoding: chunked\r\n";
    writer
        .write_all(server.head("POST", ROUTE, Some(&shared.options.token), more).as_bytes())
        .map_err(failed)?;
    let mut noise = Buffer::new(CHUNK);
    noise.fill(7);
    let mut chunk = format!("{CHUNK:x}\r\n").into_bytes();
    chunk.extend_from_slice(noise.bytes());
    chunk.extend_from_slice(b"\r\n");
    shared.ready.fetch_add(1, Ordering::AcqRel);
    while !shared.begun.load(Ordering::Acquire) && !shared.over() {
        std::thread::sleep(Duration::from_millis(1));
    }
    while !shared.over() {
        if let Err(error) = writer.write_all(&chunk) {
            // It may have answered before it hung up, and that says why.
            let (status, chunked) = read_head(&mut reader).map_err(|_| failed(error))?;
            return Err(refused(status, &read_body(&mut reader, chunked).unwrap_or_default()));
        }
        shared.bytes.fetch_add(CHUNK as u64, Ordering::Relaxed);
    }
    writer.write_all(b"0\r\n\r\n").map_err(failed)?;
    let (status, chunked) = read_head(&mut reader).map_err(failed)?;
    let body = read_body(&mut reader, chunked).map_err(failed)?;
    if status != 200 {
        return Err(refused(status, &body));
    }
    let taken = serde_json::from_slice(&body);
    Ok(Some(taken.map_err(|_| BenchError::Network("the server's answer cannot be read".to_owned()))?))
}

/// The server's own words, where it has some.
fn refused(status: u16, body: &[u8]) -> BenchError {
    let said: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
    let detail = said["detail"].as_str().unwrap_or("it gives no reason");
    BenchError::Network(format!("the server answers {status}: {detail}"))
}

/// The result in a sentence.
#[must_use]
pub fn verdict(rows: &[Value]) -> String {
    let side = |direction: &str, name: &str| {
        let parts: Vec<String> = rows
            .iter()
            .filter(|r| r["direction"] == direction)
            .filter_map(|r| {
                let (n, rate) = (r["connections"].as_u64()?, r["bytes_per_s"].as_f64()?);
                let by = if n == 1 { "one connection".to_owned() } else { n.to_string() };
                Some(format!("{} by {by}", megabytes(rate)))
            })
            .collect();
        (!parts.is_empty()).then(|| format!("{name} the server {}", parts.join(", ")))
    };
    [side("down", "from"), side("up", "to")].into_iter().flatten().collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn addresses_are_read_as_people_write_them() {
        for (text, host, port) in [
            ("http://media.local:8096", "media.local", 8096),
            ("http://media.local", "media.local", 8096),
            ("10.0.0.5:80/", "10.0.0.5", 80),
            ("http://[::1]:8096/#/home", "[::1]", 8096),
            ("[fe80::1]", "[fe80::1]", 8096),
        ] {
            let server = Server::parse(text).unwrap();
            assert_eq!((server.host.as_str(), server.port), (host, port), "{text}");
        }
        for text in
            ["", "http://", "https://media.local", "ftp://x", "http://x:99999", "a b", "http://x\r\nHost: y"]
        {
            assert!(Server::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_server_that_is_not_there_is_named() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let server = Server { host: "127.0.0.1".to_owned(), port };
        let error = server.ask("GET", "/health", None, &Value::Null).unwrap_err();
        assert!(error.to_string().contains(&format!("http://127.0.0.1:{port}")), "{error}");
    }

    /// A server that gives one answer to one request.
    fn answering(answer: &'static str) -> Server {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut seen = [0_u8; 4096];
            let _read = stream.read(&mut seen).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        });
        Server { host: "127.0.0.1".to_owned(), port }
    }

    #[test]
    fn answers_are_read_whole_in_chunks_and_by_the_end_of_the_connection() {
        for answer in [
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{\"a\":1}",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{\"a\r\n4;x=y\r\n\":1}\r\n0\r\n\r\n",
        ] {
            let (status, body) = answering(answer).ask("GET", "/", None, &Value::Null).unwrap();
            assert_eq!((status, body), (200, json!({"a": 1})), "{answer}");
        }
    }

    #[test]
    fn what_is_no_http_is_an_error_and_never_a_wait() {
        for answer in [
            "SSH-2.0-OpenSSH\r\n",
            "",
            "HTTP/1.1 200 OK\r\nx: y",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        ] {
            assert!(answering(answer).ask("GET", "/", None, &Value::Null).is_err(), "{answer:?}");
        }
    }

    #[test]
    fn the_verdict_has_both_ways() {
        let rows: Vec<Value> = [(Direction::Down, 1, 93), (Direction::Down, 8, 116), (Direction::Up, 1, 88)]
            .into_iter()
            .map(|(d, n, mb)| serde_json::to_value(NetRow::of(d, n, mb * 5_000_000, 5.0)).unwrap())
            .collect();
        assert_eq!(
            verdict(&rows),
            "from the server 93.0 MB/s by one connection, 116 MB/s by 8; to the server 88.0 MB/s by one connection"
        );
        assert_eq!(verdict(&[]), "");
    }
}
