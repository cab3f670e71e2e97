//! A program whose answer is text: bounded in time and in bytes, whatever it does. Used for ZFS, which has no interface of the
//! kernel for what is asked.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use spindle_base::clock;

/// Of what it says on standard error, so much is kept: one line is told.
const MAX_WHY_BYTES: usize = 4096;
/// How long a program that was killed, or has closed its outputs, may take to end.
const LAST_PATIENCE: Duration = Duration::from_secs(1);

/// What an answer may cost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) patience: Duration,
    pub(crate) max_bytes: usize,
}

/// Runs the first of `programs` (paths: no search path is trusted) that is there, without this process's environment.
///
/// # Errors
/// `NotFound` if none is there, `TimedOut` if it does not end in time, `FileTooLarge` if it says more than is read, `Other` with its
/// own first words if it fails.
pub(crate) fn output(programs: &[&str], arguments: &[&str], bounds: Bounds) -> io::Result<String> {
    let is_there = |p: &&&str| std::fs::exists(p).unwrap_or(false);
    let Some(program) = programs.iter().find(is_there) else {
        let name = programs.first().and_then(|p| p.rsplit('/').next()).unwrap_or("it");
        return Err(io::Error::new(io::ErrorKind::NotFound, format!("{name} is not installed here")));
    };
    let mut child = Command::new(program)
        .args(arguments)
        .env_clear()
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let deadline = clock::instant() + bounds.patience;
    let said = listen(&mut child, bounds.max_bytes, deadline);
    if said.is_err() {
        // It may be in the kernel and not die: then it is left behind.
        let _ = child.kill();
    }
    let last = deadline.max(clock::instant()) + LAST_PATIENCE;
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if clock::instant() < last => std::thread::sleep(Duration::from_millis(5)),
            None => {
                let _ = child.kill();
                return Err(io::Error::new(io::ErrorKind::TimedOut, "it hangs: a pool may be suspended"));
            }
        }
    };
    let (text, why) = said?;
    if !status.success() {
        let why = String::from_utf8_lossy(&why);
        let why = why.lines().map(str::trim).find(|l| !l.is_empty()).unwrap_or("no reason given");
        return Err(io::Error::other(format!("{status}: {why}")));
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Reads both outputs side by side, or a program that says much on one would wait for ever while the other is read.
fn listen(child: &mut Child, max_bytes: usize, deadline: Instant) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let (mut out, mut err) = (child.stdout.take(), child.stderr.take());
    let (mut text, mut why) = (Vec::new(), Vec::new());
    while out.is_some() || err.is_some() {
        let left = deadline.saturating_duration_since(clock::instant());
        if left.is_zero() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "it does not end: a pool may be suspended"));
        }
        let ready = {
            let pipes = [out.as_ref().map(AsFd::as_fd), err.as_ref().map(AsFd::as_fd)];
            let mut fds: Vec<PollFd<'_>> =
                pipes.into_iter().flatten().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
            let wait = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
            match poll(&mut fds, Some(&wait)) {
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(e) => return Err(e.into()),
            }
            let mut ready = fds.iter().map(|fd| !fd.revents().is_empty());
            [out.is_some() && ready.next() == Some(true), err.is_some() && ready.next() == Some(true)]
        };
        if ready[0] && take(&mut out, &mut text, usize::MAX)? && text.len() > max_bytes {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it says more than is read"));
        }
        if ready[1] {
            take(&mut err, &mut why, MAX_WHY_BYTES)?;
        }
    }
    Ok((text, why))
}

/// Reads once, keeps at most `most` bytes in all; `false` and no pipe at its end.
fn take<R: Read>(pipe: &mut Option<R>, into: &mut Vec<u8>, most: usize) -> io::Result<bool> {
    let Some(reader) = pipe else { return Ok(false) };
    let mut part = [0_u8; 16 << 10];
    match reader.read(&mut part) {
        Ok(0) => {
            *pipe = None;
            Ok(false)
        }
        Ok(n) => {
            into.extend_from_slice(&part[..n.min(most.saturating_sub(into.len()))]);
            Ok(true)
        }
        Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(true),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, patience_ms: u64, max_bytes: usize) -> io::Result<String> {
        let bounds = Bounds { patience: Duration::from_millis(patience_ms), max_bytes };
        output(&["/nowhere/sh", "/bin/sh"], &["-c", script], bounds)
    }

    #[test]
    fn what_it_says_is_read_whole_however_much_it_complains_meanwhile() {
        let script = "i=0; while [ $i -lt 3000 ]; do echo 0123456789012345678901234567890123456789 >&2; i=$((i+1)); done; echo done";
        assert_eq!(shell(script, 60_000, 100).unwrap(), "done\n");
    }

    #[test]
    fn failures_are_told_apart() {
        let kind = |r: io::Result<String>| r.map_err(|e| e.kind());
        assert_eq!(
            kind(shell("while :; do echo much; done", 60_000, 10_000)),
            Err(io::ErrorKind::FileTooLarge)
        );
        assert_eq!(kind(shell("echo a; exec sleep 600", 50, 100)), Err(io::ErrorKind::TimedOut));
        assert_eq!(kind(shell("exec >&- 2>&-; exec sleep 600", 50, 100)), Err(io::ErrorKind::TimedOut));
        let why = shell("echo; echo no such pool >&2; exit 3", 60_000, 100).unwrap_err().to_string();
        assert!(why.ends_with(": no such pool") && why.contains('3'), "{why}");
        let missing = output(&["/nowhere/zpool"], &[], Bounds { patience: Duration::ZERO, max_bytes: 0 });
        let missing = missing.unwrap_err();
        assert_eq!(
            (missing.kind(), missing.to_string().as_str()),
            (io::ErrorKind::NotFound, "zpool is not installed here")
        );
    }
}
