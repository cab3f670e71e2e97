//! A player's side of HTTP/1.1 (RFC 9112): a connection, requests one after the other, answers whose length is told. What
//! arrives of a film is counted and thrown away.

use std::net::SocketAddr;

use anyhow::{Context as _, bail};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

/// Bytes taken from the socket at once.
const PIECE_BYTES: usize = 256 << 10;
/// What a television's socket holds: a pace shall reach the server, and a loopback socket grows to megabytes by itself.
const TELEVISION_BYTES: u32 = 512 << 10;
/// An answer that is no film.
const MAX_ANSWER_BYTES: u64 = 32 << 20;
/// Longest head of an answer.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// A connection.
pub(super) struct Link {
    socket: TcpStream,
    buffer: Vec<u8>,
    /// What of the buffer has not been taken yet.
    ready: std::ops::Range<usize>,
    /// Bytes of the present answer that are still to come.
    left: u64,
}

/// What an answer says before its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) length: u64,
    /// Seconds after which to ask again.
    pub(super) retry_after_s: Option<u64>,
}

/// Where the server is, and as whom it is asked.
#[derive(Clone)]
pub(super) struct Server {
    pub(super) address: SocketAddr,
    pub(super) token: String,
}

impl Link {
    /// Connects; as a television does, or with whatever buffer the system takes.
    pub(super) async fn connect(address: SocketAddr, as_television: bool) -> anyhow::Result<Self> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        if as_television {
            socket.set_recv_buffer_size(TELEVISION_BYTES)?;
        }
        let socket = socket.connect(address).await.context("unable to connect to the server")?;
        Ok(Self { socket, buffer: vec![0; PIECE_BYTES], ready: 0..0, left: 0 })
    }

    /// Sends a request and reads the head of its answer. The body of the one before must have been read.
    pub(super) async fn ask(
        &mut self,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
        body: &[u8],
    ) -> anyhow::Result<Head> {
        let mut request =
            format!("{method} {path} HTTP/1.1\r\nHost: loopback\r\nContent-Length: {}\r\n", body.len());
        for (name, value) in fields {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        request.push_str("\r\n");
        let mut bytes = request.into_bytes();
        bytes.extend_from_slice(body);
        self.socket.write_all(&bytes).await.context("unable to send a request")?;
        self.head().await
    }

    async fn head(&mut self) -> anyhow::Result<Head> {
        self.ready = 0..0;
        loop {
            if let Some((head, used)) = parse(&self.buffer[..self.ready.end])? {
                self.ready.start = used;
                self.left = head.length;
                return Ok(head);
            }
            if self.ready.end >= MAX_HEAD_BYTES {
                bail!("the head of an answer does not end");
            }
            let got = self.socket.read(&mut self.buffer[self.ready.end..]).await;
            match got.context("the connection failed")? {
                0 => bail!("the server hung up instead of answering"),
                n => self.ready.end += n,
            }
        }
    }

    /// Takes the next piece of the body: how many bytes it has; 0 at its end. May be dropped while it waits.
    pub(super) async fn some(&mut self) -> anyhow::Result<u64> {
        Ok(self.piece().await?.len() as u64)
    }

    async fn piece(&mut self) -> anyhow::Result<&[u8]> {
        if self.left == 0 {
            return Ok(&[]);
        }
        if self.ready.is_empty() {
            let n = self.socket.read(&mut self.buffer).await.context("the connection failed")?;
            if n == 0 {
                bail!("the server hung up {} bytes before the end", self.left);
            }
            self.ready = 0..n;
        }
        let most = usize::try_from(self.left).unwrap_or(usize::MAX);
        let taken = self.ready.start..self.ready.end.min(self.ready.start.saturating_add(most));
        self.ready.start = taken.end;
        self.left -= taken.len() as u64;
        Ok(&self.buffer[taken])
    }

    /// The whole body.
    pub(super) async fn whole(&mut self) -> anyhow::Result<Vec<u8>> {
        if self.left > MAX_ANSWER_BYTES {
            bail!("an answer of {} bytes is more than was asked for", self.left);
        }
        let mut out = Vec::new();
        loop {
            let piece = self.piece().await?;
            if piece.is_empty() {
                return Ok(out);
            }
            out.extend_from_slice(piece);
        }
    }
}

/// The head and its length in bytes, once all of it is there.
fn parse(bytes: &[u8]) -> anyhow::Result<Option<(Head, usize)>> {
    let mut fields = [httparse::EMPTY_HEADER; 64];
    let mut answer = httparse::Response::new(&mut fields);
    let httparse::Status::Complete(used) = answer.parse(bytes).context("the answer is no HTTP")? else {
        return Ok(None);
    };
    let field = |name: &str| {
        let found = answer.headers.iter().find(|h| h.name.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(found.value).ok()?.trim().parse::<u64>().ok()
    };
    let status = answer.code.unwrap_or(0);
    let length = match (field("content-length"), status) {
        (Some(length), _) => length,
        (None, 204 | 304) => 0,
        (None, _) => bail!("an answer does not say how long it is"),
    };
    Ok(Some((Head { status, length, retry_after_s: field("retry-after") }, used)))
}

impl Server {
    /// Asks the API, and gives what it answers.
    pub(super) async fn api(&self, method: &str, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        let mut link = Link::connect(self.address, false).await?;
        let bearer = format!("Bearer {}", self.token);
        let mut fields = vec![("Connection", "close")];
        if !self.token.is_empty() {
            fields.push(("Authorization", bearer.as_str()));
        }
        if body.is_some() {
            fields.push(("Content-Type", "application/json"));
        }
        let body = body.map_or_else(Vec::new, |b| b.to_string().into_bytes());
        let head = link.ask(method, &format!("/api/v1{path}"), &fields, &body).await?;
        let answer = link.whole().await?;
        let value = if answer.is_empty() { Value::Null } else { serde_json::from_slice(&answer)? };
        if (200..300).contains(&head.status) {
            return Ok(value);
        }
        match value.get("detail").and_then(Value::as_str) {
            Some(detail) => bail!("{detail}"),
            None => bail!("the server answered {} to {method} {path}", head.status),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_once_it_is_whole_and_says_how_much_follows() {
        let text = b"HTTP/1.1 206 Partial Content\r\ncontent-length: 10\r\nRetry-After: 2\r\n\r\n0123";
        assert_eq!(parse(&text[..30]).unwrap(), None);
        let head = Head { status: 206, length: 10, retry_after_s: Some(2) };
        assert_eq!(parse(text).unwrap(), Some((head, text.len() - 4)));
        assert_eq!(parse(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap().map(|(h, _)| h.length), Some(0));
        assert!(parse(b"HTTP/1.1 200 OK\r\n\r\n").is_err(), "no length");
        assert!(parse(b"SMTP ready\r\n\r\n").is_err());
    }

    #[tokio::test]
    async fn a_body_is_counted_to_its_last_byte_and_one_that_breaks_off_is_an_error() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serves = tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut asked = [0; 4096];
            for answer in [
                "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
                "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello",
            ] {
                assert!(socket.read(&mut asked).await.unwrap() > 0);
                socket.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        let mut link = Link::connect(address, true).await.unwrap();
        let head = link.ask("GET", "/", &[], b"").await.unwrap();
        assert_eq!((head.status, link.whole().await.unwrap().as_slice()), (200, &b"hello"[..]));
        link.ask("GET", "/", &[("Range", "bytes=0-")], b"").await.unwrap();
        let mut got = 0;
        let error = loop {
            match link.some().await {
                Ok(n) => got += n,
                Err(error) => break error,
            }
        };
        assert_eq!(got, 5);
        assert!(error.to_string().contains("4 bytes before the end"), "{error}");
        serves.await.unwrap();
    }
}
