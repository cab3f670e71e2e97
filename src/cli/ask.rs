//! Questions to a running server: which one, with what right, and one GET at a time over plain HTTP/1.1.

use std::io::{Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::de::DeserializeOwned;

use super::serve::Common;
use super::{Failure, one_line};
use crate::auth::local::{self, LocalError};
use crate::config;

/// How long an answer may take: the server answers these from memory.
const PATIENCE: Duration = Duration::from_secs(10);
/// An answer of more is none of ours.
const MAX_ANSWER_BYTES: u64 = 64 << 20;
/// Fields of an answer's head.
const MAX_FIELDS: usize = 96;

/// Flags of every command that asks a server.
#[derive(Debug, Args)]
pub(super) struct Whom {
    /// Data directory of a server on this machine; no password is asked of whoever owns it
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Address of another server, as http://HOST:PORT (or SPINDLE_SERVER)
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// Its token; others on this machine can see it here, and not in SPINDLE_TOKEN
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
}

/// A server and what is shown to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Server {
    /// `HOST:PORT`.
    pub(super) host: String,
    token: String,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum AskError {
    #[error("no server answers at http://{host}: {why}")]
    Silent { host: String, why: String },
    #[error(
        "the server at http://{0} does not take this token; sign in anew and give its token as SPINDLE_TOKEN"
    )]
    Unknown(String),
    #[error("the server at http://{host} refuses: {why}")]
    Refused { host: String, why: String },
    #[error("what answers at http://{host} is no Spindle server: {why}")]
    Stranger { host: String, why: String },
}

impl Whom {
    /// Flags, then the environment, then the file that a server leaves in its data directory.
    pub(super) fn find(&self) -> Result<Server, Failure> {
        let (server, token) = config::server_from_environment();
        // A data directory that is named means its own server.
        let server = self.server.clone().or(server.filter(|_| self.data_dir.is_none()));
        let token = self.token.clone().or(token);
        if let Some(server) = server {
            let token = token.ok_or_else(|| {
                Failure::Usage(
                    "another server wants a token: give the one that signing in returned as SPINDLE_TOKEN (POST /api/v1/auth/login)".to_owned(),
                )
            })?;
            return Ok(Server { host: host_of(&server).map_err(Failure::Usage)?, token });
        }
        let common = Common { data_dir: self.data_dir.clone(), libraries: Vec::new() };
        let config = common.layers(None)?.build().map_err(|e| Failure::Usage(e.to_string()))?;
        let found = local::read(&config.data_dir).map_err(|error| {
            let remedy = match error {
                LocalError::None(_) => {
                    "; start it with `spindle serve`, or name another with --data-dir or --server"
                }
                LocalError::NotOurs(_) => ", or name it with --server and give a token as SPINDLE_TOKEN",
                LocalError::Open(_) | LocalError::Read { .. } => "",
            };
            Failure::Failed(format!("{error}{remedy}"))
        })?;
        let host = host_of(&found.server).map_err(Failure::Failed)?;
        Ok(Server { host, token: token.unwrap_or(found.token) })
    }
}

/// `HOST:PORT` of an address.
fn host_of(text: &str) -> Result<String, String> {
    let text = text.trim().trim_end_matches('/');
    let host = match text.split_once("://") {
        Some(("http", host)) => host,
        Some(("https", _)) => {
            return Err("only http:// is spoken here: ask the server itself instead of the proxy before it"
                .to_owned());
        }
        Some((scheme, _)) => {
            return Err(format!("`{}` is no way to a server; write http://HOST:PORT", one_line(scheme)));
        }
        None => text,
    };
    let is_plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']' | '%');
    if host.is_empty() || !host.chars().all(is_plain) {
        return Err(format!("`{}` is no address of a server; write http://HOST:PORT", one_line(text)));
    }
    let has_port = host.rsplit_once(':').is_some_and(|(before, port)| {
        !port.is_empty()
            && port.chars().all(|c| c.is_ascii_digit())
            && (!before.contains(':') || before.ends_with(']'))
    });
    Ok(if has_port { host.to_owned() } else { format!("{host}:8096") })
}

impl Server {
    /// The answer to a GET, as JSON.
    pub(super) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, AskError> {
        let stranger = |why: String| AskError::Stranger { host: self.host.clone(), why };
        let answer =
            self.exchange(path).map_err(|e| AskError::Silent { host: self.host.clone(), why: words(&e) })?;
        let (status, body) = parse(&answer).map_err(stranger)?;
        match status {
            200 => serde_json::from_slice(&body).map_err(|e| stranger(e.to_string())),
            401 => Err(AskError::Unknown(self.host.clone())),
            _ => Err(AskError::Refused { host: self.host.clone(), why: problem(status, &body) }),
        }
    }

    fn exchange(&self, path: &str) -> std::io::Result<Vec<u8>> {
        let addresses: Vec<_> = self.host.to_socket_addrs()?.collect();
        let mut last = std::io::Error::new(std::io::ErrorKind::NotFound, "the name has no address");
        let mut connected = None;
        for address in addresses {
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(stream) => {
                    connected = Some(stream);
                    break;
                }
                Err(error) => last = error,
            }
        }
        let mut stream = connected.ok_or(last)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let (host, token) = (&self.host, &self.token);
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nAccept: application/json\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        stream.take(MAX_ANSWER_BYTES).read_to_end(&mut answer)?;
        Ok(answer)
    }
}

fn words(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::ConnectionRefused => "nothing listens there (it may have been killed)".to_owned(),
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => {
            format!("it says nothing for {} s", PATIENCE.as_secs())
        }
        _ => error.to_string(),
    }
}

/// Status and body of a whole answer (RFC 9112 section 6).
fn parse(answer: &[u8]) -> Result<(u16, Vec<u8>), String> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut head = httparse::Response::new(&mut fields);
    let start = match head.parse(answer) {
        Ok(httparse::Status::Complete(n)) => n,
        Ok(httparse::Status::Partial) => return Err("the answer ends in its head".to_owned()),
        Err(error) => return Err(error.to_string()),
    };
    let status = head.code.ok_or("the answer has no status")?;
    let field = |name: &str| {
        let found = head.headers.iter().find(|f| f.name.eq_ignore_ascii_case(name));
        found.and_then(|f| std::str::from_utf8(f.value).ok())
    };
    let rest = answer.get(start..).unwrap_or_default();
    if field("transfer-encoding").is_some_and(|v| v.eq_ignore_ascii_case("chunked")) {
        return Ok((status, chunks(rest)?));
    }
    let body = match field("content-length").map(|v| v.trim().parse::<usize>()) {
        None => rest,
        Some(Ok(n)) => rest.get(..n).ok_or("the answer is cut off")?,
        Some(Err(_)) => return Err("the answer has no proper length".to_owned()),
    };
    Ok((status, body.to_vec()))
}

/// RFC 9112 section 7.1.
fn chunks(mut rest: &[u8]) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    loop {
        let (at, size) = match httparse::parse_chunk_size(rest) {
            Ok(httparse::Status::Complete(found)) => found,
            _ => return Err("the answer is cut off".to_owned()),
        };
        let size = usize::try_from(size).map_err(|e| e.to_string())?;
        if size == 0 {
            return Ok(out);
        }
        let end = at.checked_add(size).ok_or("a chunk without end")?;
        out.extend_from_slice(rest.get(at..end).ok_or("the answer is cut off")?);
        rest = rest.get(end + 2..).ok_or("the answer is cut off")?;
    }
}

/// The detail of a problem document (RFC 9457), or the bare status.
fn problem(status: u16, body: &[u8]) -> String {
    let detail = serde_json::from_slice::<serde_json::Value>(body).ok();
    let detail = detail.as_ref().and_then(|v| v.get("detail")?.as_str());
    detail.map_or_else(|| format!("status {status}"), one_line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_and_a_port_however_it_is_written() {
        for (text, host) in [
            ("http://127.0.0.1:8096", "127.0.0.1:8096"),
            ("http://nas.lan/", "nas.lan:8096"),
            ("nas:80", "nas:80"),
            ("[::1]:9", "[::1]:9"),
            ("[::1]", "[::1]:8096"),
        ] {
            assert_eq!(host_of(text).as_deref(), Ok(host), "{text}");
        }
        for (text, why) in [
            ("https://nas", "only http:// is spoken"),
            ("ftp://nas", "no way to a server"),
            ("", "no address"),
            ("nas/path", "no address"),
            ("nas\r\nX: y", "no address"),
        ] {
            assert!(host_of(text).is_err_and(|e| e.contains(why)), "{text}");
        }
    }

    #[test]
    fn answers_are_read_by_length_by_chunks_and_to_their_end() {
        let whole = |text: &str| parse(text.as_bytes());
        let (status, body) = whole("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}rest").unwrap();
        assert_eq!((status, body.as_slice()), (200, b"{}".as_slice()));
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{\"\r\n4;x=y\r\na\":1\r\n1\r\n}\r\n0\r\n\r\n";
        assert_eq!(whole(chunked).unwrap().1, b"{\"a\":1}");
        assert_eq!(whole("HTTP/1.1 404 No\r\n\r\n{}").unwrap(), (404, b"{}".to_vec()));
        for cut in [
            "HTTP/1.1 200 OK\r\nContent-Le",
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n{}",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffff0\r\n{}",
            "SSH-2.0-x\r\n\r\n",
        ] {
            assert!(whole(cut).is_err(), "{cut}");
        }
    }

    #[test]
    fn a_refusal_is_told_in_the_servers_words() {
        assert_eq!(
            problem(403, br#"{"detail":"only the owner\nmay do this"}"#),
            "only the owner may do this"
        );
        assert_eq!(problem(502, b"<html>"), "status 502");
    }
}
