//! The terminal while a picture is on it: taken, drawn on, and given back as it was.

use std::io::{self, Write as _};
use std::os::fd::AsFd as _;

use rustix::process::{Signal, getpid, kill_process};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use super::picture::{Line, Style};

/// The alternate screen, without cursor (xterm's control sequences, DECSET 1049 and 25).
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[2J";
const LEAVE: &str = "\x1b[0m\x1b[?25h\x1b[?1049l";

/// Dropping it gives the terminal back, on a panic, too.
pub(super) struct Screen {
    before: Termios,
    colours: bool,
    /// The lines that stand there.
    drawn: Vec<String>,
}

impl Screen {
    /// Takes the terminal that is standard input and output.
    pub(super) fn take(colours: bool) -> io::Result<Self> {
        let before = tcgetattr(io::stdin().as_fd())?;
        let screen = Self { before, colours, drawn: Vec::new() };
        screen.enter()?;
        Ok(screen)
    }

    fn enter(&self) -> io::Result<()> {
        let mut now = self.before.clone();
        // Keys one by one and unseen. Signals stay the terminal's: Ctrl-C and Ctrl-Z mean what they always do.
        now.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        tcsetattr(io::stdin().as_fd(), OptionalActions::Drain, &now)?;
        write(ENTER)
    }

    fn leave(&self) -> io::Result<()> {
        write(LEAVE)?;
        Ok(tcsetattr(io::stdin().as_fd(), OptionalActions::Drain, &self.before)?)
    }

    /// Columns and rows; what every terminal has, where it does not say.
    pub(super) fn size(&self) -> (usize, usize) {
        match tcgetwinsize(io::stdout().as_fd()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
            _ => (80, 24),
        }
    }

    /// What stands there is not what was drawn any more.
    pub(super) fn forget(&mut self) {
        self.drawn.clear();
    }

    /// Lets the shell have the terminal until it wakes us.
    pub(super) fn suspend(&mut self) -> io::Result<()> {
        self.leave()?;
        // Taken as an event, the terminal's own signal stopped nothing.
        kill_process(getpid(), Signal::STOP)?;
        self.forget();
        self.enter()
    }

    /// Writes what has changed.
    pub(super) fn draw(&mut self, lines: &[Line]) -> io::Result<()> {
        let (width, height) = self.size();
        let mut new: Vec<String> =
            lines.iter().take(height).map(|line| coded(line, width, self.colours)).collect();
        new.resize(height, String::new());
        let mut out = String::new();
        if self.drawn.len() != new.len() {
            out.push_str("\x1b[2J");
            self.drawn = vec![String::new(); new.len()];
        }
        for (row, (new, old)) in new.iter().zip(&self.drawn).enumerate() {
            if new != old {
                out.push_str(&format!("\x1b[{};1H{new}\x1b[0m\x1b[K", row + 1));
            }
        }
        self.drawn = new;
        write(&out)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing back.
        let _gone = self.leave();
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// A line with its styles as SGR sequences (ECMA-48 section 8.3.117), cut at the width.
fn coded(line: &Line, width: usize, colours: bool) -> String {
    let mut out = String::new();
    for (style, text) in line.cut(width) {
        let code = match style {
            Style::Plain => "",
            Style::Bold => "1",
            Style::Dim => "2",
            Style::Inverse => "7",
            _ if !colours => "",
            Style::Good => "32",
            Style::Warn => "33",
            Style::Bad => "31",
            // The page's disk colours, as near as 256 colours come.
            Style::Disk(n) => {
                ["38;5;81", "38;5;215", "38;5;115", "38;5;141", "38;5;210", "38;5;185", "38;5;80", "38;5;218"]
                    [n % 8]
            }
        };
        if code.is_empty() {
            out.push_str(&text);
        } else {
            out.push_str(&format!("\x1b[{code}m{text}\x1b[0m"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_at_the_width_and_coloured_only_where_that_is_wanted() {
        let mut line = Line::default();
        line.add(Style::Bold, "ab").add(Style::Disk(1), "cdef");
        assert_eq!(coded(&line, 4, true), "\x1b[1mab\x1b[0m\x1b[38;5;215mcd\x1b[0m");
        assert_eq!(coded(&line, 4, false), "\x1b[1mab\x1b[0mcd");
    }
}
