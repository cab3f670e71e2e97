//! `spindle bench net`: between this machine and a server.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde_json::json;
use spindle_bench::net::{self, MOST_CONNECTIONS, Server};
use spindle_bench::{BenchError, Kind};

use super::frame::Frame;
use crate::cli::{Failure, Outcome};

/// Longest that one measurement runs: the server's own limit is a minute.
const MOST_SECONDS: f64 = 50.0;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The server
    #[arg(default_value = "http://127.0.0.1:8096")]
    url: String,
    /// The account to sign in with
    #[arg(long, value_name = "NAME", requires = "password_stdin", required_unless_present = "token_file")]
    user: Option<String>,
    /// Read its password from standard input
    #[arg(long, requires = "user")]
    password_stdin: bool,
    /// A file that holds a token, instead of signing in
    #[arg(long, value_name = "FILE", conflicts_with = "user")]
    token_file: Option<PathBuf>,
    /// Connections at once, one number after the other
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_value = "1,8", value_parser = connections)]
    connections: Vec<usize>,
    /// Seconds for each
    #[arg(long, value_name = "N", default_value = "5", value_parser = seconds)]
    seconds: Duration,
    /// Print the rows as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(data_dir: &Path, arguments: &Arguments) -> Outcome {
    let server = Server::parse(&arguments.url)?;
    let frame = Frame::open(data_dir)?;
    let (token, signed_in) = token(arguments, &server)?;
    let mut record = frame.begin(Kind::Net);
    let options = net::Options {
        server: server.clone(),
        token: token.clone(),
        connections: arguments.connections.clone(),
        time: arguments.seconds,
    };
    let ran = frame.with_runner(|runner| net::run(runner, &options, &mut record));
    if signed_in {
        // A token of one measurement is of no use to anybody afterwards.
        let _only_tidy = server.ask("POST", "/api/v1/auth/logout", Some(&token), &json!({}));
    }
    super::volume::end(&frame, record, ran, arguments.json)
}

/// The token, and whether it was made for this.
fn token(arguments: &Arguments, server: &Server) -> Result<(String, bool), Failure> {
    if let Some(path) = &arguments.token_file {
        let text = crate::config::regular_file::read(path)
            .map_err(|e| Failure::Failed(format!("unable to read `{}`: {e}", crate::cli::named(path))))?;
        let token = text.trim();
        // It becomes a line of a head.
        if token.is_empty() || !token.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(Failure::Usage(format!("`{}` holds no token", crate::cli::named(path))));
        }
        return Ok((token.to_owned(), false));
    }
    let mut password = String::new();
    let limit = u64::try_from(crate::auth::password::MAX_BYTES).unwrap_or(1024) + 2;
    std::io::stdin().lock().take(limit).read_to_string(&mut password)?;
    let body = json!({
        "username": arguments.user.as_deref().unwrap_or_default(),
        "password": password.trim_end_matches(['\n', '\r']),
        "device": "spindle bench net",
    });
    let (status, answer) = server.ask("POST", "/api/v1/auth/login", None, &body)?;
    match answer["token"].as_str() {
        Some(token) if status == 200 => Ok((token.to_owned(), true)),
        _ => {
            let detail = answer["detail"].as_str().unwrap_or("it is no server of this kind");
            Err(BenchError::Network(format!("unable to sign in: the server answers {status}: {detail}"))
                .into())
        }
    }
}

fn connections(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n) if (1..=MOST_CONNECTIONS).contains(&n) => Ok(n),
        _ => Err(format!("a number of connections from 1 to {MOST_CONNECTIONS}")),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(s) if s > 0.0 && s <= MOST_SECONDS => Ok(Duration::from_secs_f64(s)),
        _ => Err("a number of seconds, at most 50".to_owned()),
    }
}
