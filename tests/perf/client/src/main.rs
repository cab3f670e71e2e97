//! A load client that costs little: payload is dropped in the kernel (`MSG_TRUNC`), so the figures are the server's.
//!
//! ```text
//! spindle-load ADDR PATH seq   SIZE                     one reader, the whole file
//! spindle-load ADDR PATH range SIZE READERS PIECE TOTAL random pieces until TOTAL bytes are read
//! spindle-load ADDR PATH paced SIZE READERS RATE SECONDS readers paced at RATE bytes/s, from random places
//! spindle-load ADDR PATH check SIZE FILE                 a few ranges, compared byte for byte with FILE
//! ```
//! Prints one line of JSON. Linux only: on other systems `MSG_TRUNC` means something else.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Most of what one `recv` may drop. Larger than any socket buffer here.
const DROP_BYTES: usize = 8 << 20;

/// A small generator (xorshift64*): the places must be spread, and the same in every run.
struct Places(u64);
impl Places {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) % limit.max(1)
    }
}

struct Client {
    stream: TcpStream,
    host: String,
    path: String,
}

impl Client {
    fn connect(address: &str, path: &str) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        Ok(Self { stream, host: address.into(), path: path.into() })
    }

    /// Asks for `[first, first + count)` and reads the answer's head; gives body bytes that came with it and the length left.
    fn ask(&mut self, first: u64, count: u64) -> Result<(Vec<u8>, u64)> {
        let text = format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nRange: bytes={}-{}\r\n\r\n",
            self.path, self.host, first, first + count - 1
        );
        self.stream.write_all(text.as_bytes())?;
        let mut head = Vec::with_capacity(1024);
        let mut piece = [0_u8; 1024];
        let end = loop {
            let got = self.stream.read(&mut piece)?;
            if got == 0 {
                return Err(Error::new(ErrorKind::UnexpectedEof, "the server closed before its head"));
            }
            head.extend_from_slice(&piece[..got]);
            if let Some(end) = head.windows(4).position(|w| w == b"\r\n\r\n") {
                break end;
            }
            if head.len() > 64 << 10 {
                return Err(Error::other("a head without end"));
            }
        };
        let text = String::from_utf8_lossy(&head[..end]).to_ascii_lowercase();
        if !text.starts_with("http/1.1 206") && !text.starts_with("http/1.1 200") {
            return Err(Error::other(format!("answer: {}", text.lines().next().unwrap_or(""))));
        }
        let length = text
            .lines()
            .find_map(|l| l.strip_prefix("content-length:"))
            .and_then(|v| v.trim().parse::<u64>().ok())
            .ok_or_else(|| Error::other("no content-length"))?;
        if length != count {
            return Err(Error::other(format!("asked for {count} bytes, offered {length}")));
        }
        let body = head.split_off(end + 4);
        let left = length - body.len() as u64;
        Ok((body, left))
    }

    /// Drops up to `most` bytes of the body without copying them.
    fn drop_some(&self, most: u64) -> Result<u64> {
        let most = most.min(DROP_BYTES as u64) as usize;
        // SAFETY: with MSG_TRUNC the kernel discards TCP payload and never writes to the buffer (tcp(7)), so a null
        // pointer with a length is what it wants; the descriptor is open for as long as `self.stream` is.
        let got = unsafe { libc::recv(self.stream.as_raw_fd(), std::ptr::null_mut(), most, libc::MSG_TRUNC) };
        match got {
            0 => Err(Error::new(ErrorKind::UnexpectedEof, "the server closed within a body")),
            n if n > 0 => Ok(n as u64),
            _ => Err(Error::last_os_error()),
        }
    }

    fn drain(&self, mut left: u64) -> Result<()> {
        while left > 0 {
            left -= self.drop_some(left)?;
        }
        Ok(())
    }
}

fn share(samples: &mut [f64], part: f64) -> f64 {
    if samples.is_empty() {
        return 0.0;
    }
    samples.sort_by(f64::total_cmp);
    samples[((samples.len() - 1) as f64 * part) as usize]
}

fn seq(address: &str, path: &str, size: u64) -> Result<String> {
    let began = Instant::now();
    let mut client = Client::connect(address, path)?;
    let (_, left) = client.ask(0, size)?;
    client.drain(left)?;
    let took = began.elapsed().as_secs_f64();
    Ok(format!("{{\"bytes\":{size},\"seconds\":{took:.6},\"mb_s\":{:.1}}}", size as f64 / took / 1e6))
}

fn range(address: &str, path: &str, size: u64, readers: u64, piece: u64, total: u64) -> Result<String> {
    let given = Arc::new(AtomicU64::new(0));
    let began = Instant::now();
    let threads: Vec<_> = (0..readers)
        .map(|number| {
            let (address, path, given) = (address.to_owned(), path.to_owned(), given.clone());
            std::thread::spawn(move || -> Result<(Vec<f64>, Vec<f64>)> {
                let mut client = Client::connect(&address, &path)?;
                let mut places = Places(0x9E37_79B9_7F4A_7C15 ^ (number + 1) * 0x1000_0001);
                let (mut first, mut whole) = (Vec::new(), Vec::new());
                while given.fetch_add(piece, Ordering::Relaxed) < total {
                    let asked = Instant::now();
                    let (_, left) = client.ask(places.below(size - piece), piece)?;
                    first.push(asked.elapsed().as_secs_f64() * 1e3);
                    client.drain(left)?;
                    whole.push(asked.elapsed().as_secs_f64() * 1e3);
                }
                Ok((first, whole))
            })
        })
        .collect();
    let (mut first, mut whole) = (Vec::new(), Vec::new());
    for thread in threads {
        let (a, b) = thread.join().map_err(|_| Error::other("a reader panicked"))??;
        first.extend(a);
        whole.extend(b);
    }
    let took = began.elapsed().as_secs_f64();
    let bytes = whole.len() as u64 * piece;
    Ok(format!(
        "{{\"bytes\":{bytes},\"seconds\":{took:.6},\"mb_s\":{:.1},\"first_ms_p50\":{:.2},\"first_ms_p99\":{:.2},\"whole_ms_p99\":{:.2}}}",
        bytes as f64 / took / 1e6, share(&mut first, 0.5), share(&mut first, 0.99), share(&mut whole, 0.99)
    ))
}

/// One paced reader; one thread goes round all of them.
struct Paced {
    client: Client,
    began: Instant,
    got: u64,
    left: u64,
    start_ms: f64,
    /// Time spent in stalls: the clock of a stalled player stands still.
    late: Duration,
    stalls: u64,
    dry_since: Option<Instant>,
}

impl Paced {
    /// Bytes played by now. Stands still before the start and in a stall.
    fn due(&self, now: Instant, rate: u64) -> u64 {
        if self.start_ms < 0.0 {
            return 0;
        }
        let playing = self.dry_since.unwrap_or(now).duration_since(self.began).saturating_sub(self.late);
        (playing.as_secs_f64() * rate as f64) as u64
    }
}

/// Readers as players are: each begins with half a second in hand, then keeps up to a second. One that is dry has stalled,
/// and goes on when it has half a second again.
fn paced(address: &str, path: &str, size: u64, readers: u64, rate: u64, seconds: u64) -> Result<String> {
    let mut places = Places(7);
    let span = rate * (seconds + 4);
    let mut all = Vec::new();
    let opened = Instant::now();
    for _ in 0..readers {
        let mut client = Client::connect(address, path)?;
        // A player's small window: what it has not asked for must wait in the server, as it does in life.
        let window: libc::c_int = 128 << 10;
        // SAFETY: a plain integer option on an open descriptor, with its true size.
        unsafe {
            libc::setsockopt(client.stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, (&raw const window).cast(), 4);
        }
        let first = places.below(size.saturating_sub(span).max(1)) & !4095;
        let count = span.min(size - first);
        let text = format!("GET {} HTTP/1.1\r\nHost: {}\r\nRange: bytes={}-{}\r\n\r\n", client.path, client.host, first, first + count - 1);
        client.stream.write_all(text.as_bytes())?;
        all.push(Paced { client, began: Instant::now(), got: 0, left: count, start_ms: -1.0, late: Duration::ZERO, stalls: 0, dry_since: None });
    }
    for one in &all {
        one.client.stream.set_nonblocking(true)?;
    }
    let connect_s = opened.elapsed().as_secs_f64();
    let end = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < end {
        let mut idle = true;
        for one in &mut all {
            let now = Instant::now();
            let due = one.due(now, rate);
            let want = (due + rate).saturating_sub(one.got).min(one.left);
            if want >= 32 << 10 {
                match one.client.drop_some(want) {
                    Ok(n) => {
                        idle = false;
                        one.got += n;
                        one.left -= n;
                        if one.start_ms < 0.0 && one.got >= rate / 2 {
                            one.start_ms = now.duration_since(one.began).as_secs_f64() * 1e3;
                            one.began = now;
                        }
                        if let Some(since) = one.dry_since
                            && one.got >= due + rate / 2
                        {
                            one.late += now.duration_since(since);
                            one.dry_since = None;
                        }
                    }
                    Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                    Err(e) => return Err(e),
                }
            }
            if one.left > 0 && due > one.got && one.dry_since.is_none() {
                one.stalls += 1;
                one.dry_since = Some(now);
            }
        }
        if idle {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    let bytes: u64 = all.iter().map(|one| one.got).sum();
    let silent = all.iter().filter(|one| one.start_ms < 0.0).count();
    let stalled = all.iter().filter(|one| one.stalls > 0).count() + silent;
    // What was played of what could have been, had nobody waited after the start.
    let now = Instant::now();
    let played: f64 = all.iter().map(|one| one.due(now, rate).min(one.got) as f64).sum();
    let ideal: f64 = all.iter().map(|one| now.duration_since(one.began).as_secs_f64() * rate as f64).sum();
    let mut start: Vec<f64> = all.iter().map(|one| one.start_ms).filter(|ms| *ms >= 0.0).collect();
    Ok(format!(
        "{{\"bytes\":{bytes},\"seconds\":{seconds},\"connect_s\":{connect_s:.3},\"delivered\":{:.3},\"stalled_readers\":{stalled},\"never_started\":{silent},\"start_ms_p50\":{:.1},\"start_ms_p99\":{:.1}}}",
        played / ideal, share(&mut start, 0.5), share(&mut start, 0.99)
    ))
}

fn check(address: &str, path: &str, size: u64, file: &str) -> Result<String> {
    let file = File::open(file)?;
    let mut client = Client::connect(address, path)?;
    let mut places = Places(11);
    let mut compared = 0_u64;
    for length in [1, 4096, 65_537, 3 << 20, 1 << 20] {
        let first = places.below(size - length);
        let (mut body, left) = client.ask(first, length)?;
        let mut rest = vec![0; left as usize];
        client.stream.read_exact(&mut rest)?;
        body.extend(rest);
        let mut true_ = vec![0; length as usize];
        file.read_exact_at(&mut true_, first)?;
        if body != true_ {
            return Err(Error::other(format!("bytes at {first} + {length} differ from the file")));
        }
        compared += length;
    }
    Ok(format!("{{\"compared_bytes\":{compared}}}"))
}

fn main() {
    let all: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize| all.get(index).and_then(|text| text.parse::<u64>().ok()).unwrap_or_else(|| usage());
    let (Some(address), Some(path), Some(mode)) = (all.first(), all.get(1), all.get(2)) else { usage() };
    let size = number(3);
    let result = match mode.as_str() {
        "seq" => seq(address, path, size),
        "range" => range(address, path, size, number(4), number(5), number(6)),
        "paced" => paced(address, path, size, number(4), number(5), number(6)),
        "check" => check(address, path, size, all.get(4).unwrap_or_else(|| usage())),
        _ => usage(),
    };
    match result {
        Ok(line) => println!("{line}"),
        Err(error) => {
            eprintln!("spindle-load: {mode}: {error}");
            std::process::exit(1);
        }
    }
}

fn usage() -> ! {
    eprintln!("usage: spindle-load ADDR PATH seq|range|paced|check SIZE ...; see the head of the source");
    std::process::exit(2)
}
