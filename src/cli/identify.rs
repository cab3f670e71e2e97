//! `spindle identify`: what names say. Paths on standard input; no file need exist.

use std::io::{BufRead as _, BufWriter, Write as _};

use clap::Args;
use spindle_library::naming;

use super::{Failure, Outcome};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// What the paths are of: movie, episode, track, subtitle, … or a kind of library
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// Print JSON (the output is JSON anyway)
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: Arguments) -> Outcome {
    let Arguments { kind, json: _ } = arguments;
    // `photos` is a library's word; the others are the naming module's own.
    if let Some(kind) = &kind
        && kind != "photos"
        && !naming::KIND_WORDS.contains(&kind.as_str())
    {
        let message = format!("unknown kind `{kind}`; one of {}", naming::KIND_WORDS.join(", "));
        return Err(Failure::Usage(message));
    }
    let mut input = std::io::stdin().lock();
    let mut out = BufWriter::new(std::io::stdout().lock());
    let mut line = Vec::new();
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        let text = String::from_utf8_lossy(&line);
        let path = text.trim_end_matches(['\n', '\r']);
        if path.is_empty() {
            continue;
        }
        if writeln!(out, "{}", naming::identify_line(path, kind.as_deref())).is_err() {
            // The reader has had enough.
            return Ok(());
        }
    }
    let _closed = out.flush();
    Ok(())
}
