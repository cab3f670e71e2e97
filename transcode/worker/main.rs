//! `spindle-transcode`: the worker that links FFmpeg. Started by the server with a socket as its
//! standard input; it locks itself in, says hello and serves one job (the prober: many).

#![expect(
    clippy::disallowed_methods,
    reason = "a process of its own: its clock and its arguments are read here"
)]

#[expect(unsafe_code, reason = "FFmpeg is a C library; all calls into it stand in this file")]
mod ff;
mod jobs;
mod kind;
mod original;
mod picture;
mod probe;
mod sandbox;
mod segment;
mod sound;
mod source;
mod subtitle;
mod talk;

use std::os::fd::{AsFd as _, OwnedFd};
use std::process::ExitCode;

use spindle_media::info::ClockRestart;
use spindle_transcode::protocol::{FailKind, Reply, Request, VERSION};

use crate::ff::{Fail, Input};
use crate::source::Source;
use crate::talk::Talk;

fn main() -> ExitCode {
    std::panic::set_hook(Box::new(panicked));
    let parent = std::env::args().find_map(|a| a.strip_prefix("--parent=").and_then(|p| p.parse().ok()));
    let Some(parent) = parent else {
        return refuse("this program is started by spindle, not by hand");
    };
    if let Err(why) = sandbox::follow_parent(parent) {
        return refuse(&why);
    }
    let socket = match take_socket() {
        Ok(socket) => socket,
        Err(e) => return refuse(&format!("standard input is not spindle's socket: {e}")),
    };
    ff::quiet();
    // Before any thread and before any input: what follows holds for everything.
    let sandbox = sandbox::enter();
    let talk = match Talk::start(socket) {
        Ok(talk) => talk,
        Err(e) => return refuse(&format!("unable to start a thread: {e}")),
    };
    talk.send(&Reply::Hello { version: VERSION, sandbox, ffmpeg: ff::version() });
    serve(&talk);
    ExitCode::SUCCESS
}

/// On one line, as a warning: the server logs what else the worker says only when it is asked for details.
#[expect(clippy::print_stderr, reason = "standard error is the worker's log")]
fn panicked(info: &std::panic::PanicHookInfo<'_>) {
    eprintln!("warning: the worker {}", info.to_string().replace('\n', " "));
}

#[expect(clippy::print_stderr, reason = "standard error is the worker's log")]
fn refuse(why: &str) -> ExitCode {
    eprintln!("warning: {why}");
    ExitCode::from(2)
}

/// Moves the socket away from standard input, where a library might look for a terminal.
fn take_socket() -> std::io::Result<OwnedFd> {
    let stdin = std::io::stdin();
    rustix::net::sockopt::socket_type(stdin.as_fd())?;
    let socket = rustix::io::fcntl_dupfd_cloexec(stdin.as_fd(), 3)?;
    let nothing = std::fs::File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    Ok(socket)
}

fn serve(talk: &Talk) {
    loop {
        let (request, fds) = talk.next();
        let mut fds = fds.into_iter();
        let mut fd = || fds.next().ok_or_else(|| Fail::fault("a descriptor is missing"));
        let result = match request {
            Request::Probe { id, name } => {
                let reply = match fd().and_then(|fd| probe::describe(fd, &name)) {
                    Ok(info) => Reply::Probed { id, info: Box::new(info) },
                    Err(fail) => Reply::ProbeFailed { id, kind: fail.kind, reason: fail.reason },
                };
                talk.send(&reply);
                continue;
            }
            Request::Open { plan } => {
                let of_plan = Some(plan.clock_restarts.as_slice());
                fd().and_then(|fd| segment::run(talk, open(fd, false, of_plan)?, &plan))
            }
            Request::Keyframes => fd().and_then(|fd| jobs::keyframes(talk, open(fd, true, None)?)),
            Request::Vtt { stream } => fd().and_then(|input| {
                let output = fd()?;
                subtitle::vtt(talk, open(input, true, None)?, stream as usize, output)
            }),
            Request::Original { stream } => fd().and_then(|input| {
                let output = fd()?;
                original::write(talk, open(input, true, None)?, stream as usize, output)
            }),
            Request::Font { name } => fd().and_then(|input| {
                let output = fd()?;
                original::font(talk, &open(input, false, None)?, &name, output)
            }),
            Request::Picture { what, max_width } => fd().and_then(|input| {
                let output = fd()?;
                jobs::picture(talk, open(input, true, None)?, what, max_width, output)
            }),
            Request::Init | Request::Grant { .. } | Request::Seek { .. } => {
                Err(Fail { kind: FailKind::BadRequest, reason: "no file is open".to_owned() })
            }
        };
        if let Err(fail) = result {
            talk.fail(fail);
        }
    }
}

/// `restarts` are those that a description knows of; without one they are looked for.
fn open(fd: OwnedFd, thorough: bool, restarts: Option<&[ClockRestart]>) -> ff::Result<Input> {
    let mut source =
        Source::new(fd).map_err(|e| Fail::unreadable(format!("the file cannot be read: {e}")))?;
    match restarts {
        Some(known) => source.mend(known),
        None => drop(source.find_restarts()),
    }
    Input::open(source, "", thorough)
}
