//! The log: one line an event, whatever is in it. Names of files and of people come from anywhere; a line end in one would be a
//! made-up line, an escape sequence would be the reader's terminal.

use std::borrow::Cow;
use std::io::{self, IsTerminal as _, Write};

use tracing_subscriber::filter::LevelFilter;

use crate::config::Config;

/// Writes the log to standard error from here on.
pub(super) fn start(config: &Config) {
    let level = LevelFilter::from_level(config.log_level);
    let builder = tracing_subscriber::fmt().with_max_level(level).with_target(false);
    // A second subscriber in one process is a test's business; the first one stays.
    let _already = if config.log_json {
        // JSON has escapes of its own.
        tracing::subscriber::set_global_default(builder.json().with_writer(io::stderr).finish())
    } else {
        let color = io::stderr().is_terminal();
        tracing::subscriber::set_global_default(
            builder.with_ansi(color).with_writer(|| Lines(io::stderr())).finish(),
        )
    };
}

/// Takes whole events, as the formatter writes them.
struct Lines<W>(W);

impl<W: Write> Write for Lines<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        self.0.write_all(&escaped(event))?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Control characters as `\\xNN`, but for the line end at the end and the formatter's colours.
fn escaped(event: &[u8]) -> Cow<'_, [u8]> {
    let (line, end) = event.strip_suffix(b"\n").map_or((event, &b""[..]), |line| (line, b"\n"));
    // C1 controls are two bytes in UTF-8: U+0080 to U+009F.
    let is_c1 = |at: usize| line[at] == 0xC2 && line.get(at + 1).is_some_and(|b| (0x80..0xA0).contains(b));
    if !(0..line.len()).any(|at| line[at].is_ascii_control() || is_c1(at)) {
        return Cow::Borrowed(event);
    }
    let mut out = Vec::with_capacity(event.len() + 16);
    let mut at = 0;
    while at < line.len() {
        let color = color_len(&line[at..]);
        if color > 0 {
            out.extend_from_slice(&line[at..at + color]);
            at += color;
        } else if line[at].is_ascii_control() || is_c1(at) {
            let byte = if line[at] == 0xC2 { line[at + 1] } else { line[at] };
            out.extend_from_slice(format!("\\x{byte:02x}").as_bytes());
            at += if line[at] == 0xC2 { 2 } else { 1 };
        } else {
            out.push(line[at]);
            at += 1;
        }
    }
    out.extend_from_slice(end);
    Cow::Owned(out)
}

/// Length of a colour at the beginning (`ESC [ digits and semicolons m`, ECMA-48 section 8.3.117); 0: there is none.
fn color_len(bytes: &[u8]) -> usize {
    let Some(rest) = bytes.strip_prefix(b"\x1b[") else { return 0 };
    let digits = rest.iter().take_while(|b| b.is_ascii_digit() || **b == b';').count();
    if rest.get(digits) == Some(&b'm') { 2 + digits + 1 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_that_moves_no_cursor() {
        for (event, line) in [
            ("plain\n", "plain\n"),
            ("two\nlines\n", "two\\x0alines\n"),
            ("\x1b[32m INFO\x1b[0m ok\n", "\x1b[32m INFO\x1b[0m ok\n"),
            ("a\x1b[2Jb\x1b]0;t\x07\n", "a\\x1b[2Jb\\x1b]0;t\\x07\n"),
            ("c1 \u{9b}2J é\r", "c1 \\x9b2J é\\x0d"),
            ("\x1b[", "\\x1b["),
        ] {
            assert_eq!(String::from_utf8_lossy(&escaped(event.as_bytes())), line);
        }
    }
}
