//! The socket by which a test steers the devices while they run: a line in, a line back.
//!
//! ```text
//! delays on|off                        whether requests take the drive's time
//! error NAME AT LEN read|write|any     requests that touch these bytes fail
//! hang NAME SECONDS                    nothing is answered for so long
//! vanish NAME                          pulled out: everything fails
//! readonly NAME                        writes fail
//! heal NAME                            all of that is over
//! fills NAME AFTER BYTES_PER_S         writes are so slow once so many bytes more are written: a full cache
//! stats NAME                           sums, as JSON
//! reset NAME                           sums from zero
//! flush                                the logs are in their files
//! quit                                 the program ends
//! ```
//! The answer is `ok`, `ok JSON` or `error WHY`.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::device::{Device, now_s};
use crate::fault::Affects;

/// A line longer than this is a mistake.
const LONGEST_LINE: u64 = 4096;

/// What the lines act on.
#[derive(Clone)]
pub struct Control {
    /// The devices.
    pub devices: Vec<Arc<Device>>,
    /// Shared with them.
    pub delays: Arc<AtomicBool>,
}

/// What to answer.
#[derive(Debug, PartialEq)]
pub enum Reply {
    /// Done.
    Ok(String),
    /// Not done, and why.
    Error(String),
    /// Done, and the program ends.
    Quit,
}

impl Control {
    /// Carries out one line.
    #[must_use]
    pub fn obey(&self, line: &str) -> Reply {
        let words: Vec<&str> = line.split_whitespace().collect();
        let done = Reply::Ok(String::new());
        match words[..] {
            ["delays", how @ ("on" | "off")] => {
                self.delays.store(how == "on", Ordering::Relaxed);
                self.devices.iter().for_each(|d| d.wake());
                done
            }
            ["flush"] => match self.devices.iter().try_for_each(|d| d.flush_log()) {
                Ok(()) => done,
                Err(error) => Reply::Error(error.to_string()),
            },
            ["quit"] => Reply::Quit,
            [order, name, ref rest @ ..] => match self.devices.iter().find(|d| d.name() == name) {
                Some(device) => on_device(device, order, rest),
                None => Reply::Error(format!("no device `{name}`")),
            },
            _ => Reply::Error(format!("not understood: `{line}`")),
        }
    }

    /// Listens on `socket`, a thread a connection; `quit` calls `end`.
    ///
    /// # Errors
    /// If the socket cannot be made.
    pub fn listen(self, socket: &Path, end: impl Fn() + Clone + Send + 'static) -> io::Result<()> {
        match std::fs::remove_file(socket) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let listener = UnixListener::bind(socket)?;
        std::thread::Builder::new().name("control".into()).spawn(move || {
            for link in listener.incoming().flatten() {
                let (control, end) = (self.clone(), end.clone());
                let talks = std::thread::Builder::new().name("control link".into()).spawn(move || {
                    // Whoever hangs up wants no answer.
                    let _ = control.talk(&link, &end);
                });
                if let Err(error) = talks {
                    eprintln!("spindle-disks: no thread for a control link: {error}");
                }
            }
        })?;
        Ok(())
    }

    fn talk(&self, link: &UnixStream, end: &impl Fn()) -> io::Result<()> {
        let mut lines = BufReader::new(link);
        loop {
            let mut line = String::new();
            if lines.by_ref().take(LONGEST_LINE).read_line(&mut line)? == 0 {
                return Ok(());
            }
            let mut link = link;
            match self.obey(line.trim()) {
                Reply::Ok(more) if more.is_empty() => writeln!(link, "ok")?,
                Reply::Ok(more) => writeln!(link, "ok {more}")?,
                Reply::Error(why) => writeln!(link, "error {why}")?,
                Reply::Quit => {
                    writeln!(link, "ok")?;
                    end();
                    return Ok(());
                }
            }
        }
    }
}

fn on_device(device: &Device, order: &str, rest: &[&str]) -> Reply {
    let done = Reply::Ok(String::new());
    match (order, rest) {
        ("error", [at, len, which]) => {
            let (Ok(at), Ok(len), Some(affects)) = (at.parse(), len.parse(), Affects::by_name(which)) else {
                return Reply::Error("expected: error NAME AT LEN read|write|any".into());
            };
            if device.with_faults(|f| f.add_bad(at, len, affects)) {
                done
            } else {
                Reply::Error("too many bad ranges".into())
            }
        }
        ("hang", [seconds]) => match seconds.parse::<f64>() {
            Ok(seconds) if seconds >= 0.0 => {
                device.with_faults(|f| f.hang_until(now_s() + seconds));
                done
            }
            _ => Reply::Error(format!("not a number of seconds: `{seconds}`")),
        },
        ("fills", [after, rate]) => match (after.parse(), rate.parse::<f64>()) {
            (Ok(after), Ok(rate)) if rate.is_finite() && rate > 0.0 => {
                device.fills_after(after, rate);
                done
            }
            _ => Reply::Error("expected: fills NAME AFTER BYTES_PER_S".into()),
        },
        ("vanish", []) => {
            device.with_faults(crate::fault::Faults::vanish);
            done
        }
        ("readonly", []) => {
            device.with_faults(crate::fault::Faults::make_read_only);
            done
        }
        ("heal", []) => {
            device.with_faults(crate::fault::Faults::heal);
            done
        }
        ("stats", []) => Reply::Ok(device.totals()),
        ("reset", []) => {
            device.reset_totals();
            done
        }
        _ => Reply::Error(format!("not understood: `{order}` with {} words", rest.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{Format, Log};
    use crate::params::Params;

    #[test]
    fn every_order_is_obeyed_or_says_why_not() {
        let path = std::env::temp_dir().join(format!("spindle-control-{}", std::process::id()));
        let file = std::fs::File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file.set_len(1 << 20).unwrap();
        let delays = Arc::new(AtomicBool::new(false));
        let params = Params::preset("hdd7200", 1 << 20).unwrap();
        let device =
            Device::start("d0", file, params, Arc::clone(&delays), Log::new(None, Format::Csv).unwrap())
                .unwrap();
        let control = Control { devices: vec![device], delays: Arc::clone(&delays) };
        for order in [
            "delays on",
            "error d0 0 4096 read",
            "hang d0 0.5",
            "vanish d0",
            "readonly d0",
            "heal d0",
            "reset d0",
            "flush",
        ] {
            assert_eq!(control.obey(order), Reply::Ok(String::new()), "{order}");
        }
        assert!(delays.load(Ordering::Relaxed));
        assert!(matches!(control.obey("stats d0"), Reply::Ok(json) if json.starts_with("{\"reads\":0")));
        assert_eq!(control.obey("quit"), Reply::Quit);
        for order in [
            "",
            "delays",
            "delays maybe",
            "vanish d1",
            "error d0 0 4096 all",
            "error d0 x 1 read",
            "hang d0 -1",
            "hang d0",
            "sing d0",
        ] {
            assert!(matches!(control.obey(order), Reply::Error(_)), "{order}");
        }
        control.devices[0].close();
    }
}
