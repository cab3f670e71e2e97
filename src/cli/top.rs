//! `spindle top`: which stream reads from which disk now, live in a terminal.
//!
//! `snapshot` asks the server; `picture` lays a snapshot out as lines, pure; `screen` owns the terminal. On a terminal it is a
//! picture that is drawn anew; elsewhere plain lines, with `--json` one object a snapshot.

mod picture;
mod screen;
mod snapshot;

use std::io::{IsTerminal as _, Read as _};
use std::time::Duration;

use clap::Args;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use super::ask::{AskError, Server, Whom};
use super::{Failure, Outcome, print_json};
use crate::config;
use picture::{Key, View};
use screen::Screen;
use snapshot::Snapshot;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    whom: Whom,
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = interval)]
    interval: f64,
    /// End after so many looks; with --json 1 unless said otherwise
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn interval(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "a number of seconds".to_owned())?;
    if (0.2..=3600.0).contains(&seconds) {
        Ok(seconds)
    } else {
        Err("a number of seconds from 0.2 to 3600".to_owned())
    }
}

pub(super) fn run(arguments: Arguments) -> Outcome {
    let server = arguments.whom.find()?;
    let every = Duration::from_secs_f64(arguments.interval);
    let (dumb, colours) = config::terminal();
    let is_terminal = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if arguments.json || dumb || !is_terminal {
        return runtime.block_on(lines(server, every, &arguments));
    }
    // A server that is not there is said before the terminal is taken.
    let first = Snapshot::ask(&server)?;
    let again = || arguments.whom.find().ok();
    let ended = runtime.block_on(live((server, &again), every, first, colours, arguments.count));
    // A question under way holds up nobody.
    runtime.shutdown_background();
    ended
}

/// One snapshot after the other, as plain lines or JSON; the first one that fails ends it.
async fn lines(server: Server, every: Duration, arguments: &Arguments) -> Outcome {
    let most = arguments.count.or(arguments.json.then_some(1));
    let mut done = 0;
    loop {
        let snapshot = ask(server.clone()).await??;
        if arguments.json {
            print_json(&snapshot.raw)?;
        } else {
            let width = 120;
            let lines = picture::lines(&snapshot, &View::plain(), (width, usize::MAX));
            let text: String = lines.iter().map(|l| format!("{}\n", l.text().trim_end())).collect();
            if !writes(&format!("{text}\n")) {
                // Nobody reads any more (`| head`).
                return Ok(());
            }
        }
        done += 1;
        if most.is_some_and(|most| done >= most) {
            return Ok(());
        }
        tokio::time::sleep(every).await;
    }
}

/// Whether somebody still reads.
fn writes(text: &str) -> bool {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_ok()
}

async fn ask(server: Server) -> Result<Result<Snapshot, AskError>, Failure> {
    let asked = tokio::task::spawn_blocking(move || Snapshot::ask(&server)).await;
    asked.map_err(|e| Failure::Failed(e.to_string()))
}

/// What happens to a picture.
enum Event {
    Key(Key),
    /// Another size, or back from the background.
    Changed,
    Suspend,
    End,
    Answer(Box<Result<Snapshot, AskError>>),
}

/// Draws until somebody has seen enough. The terminal is as it was however this ends, a kill -9 apart.
///
/// `again` finds the server anew: one that is started again has another credential, and perhaps another port.
async fn live(
    (mut server, again): (Server, &dyn Fn() -> Option<Server>),
    every: Duration,
    first: Snapshot,
    colours: bool,
    count: Option<u64>,
) -> Outcome {
    let (events, mut happened) = mpsc::channel(64);
    signals(&events)?;
    keys(events.clone())?;
    let mut screen = Screen::take(colours)?;
    let mut view = View::default();
    let mut shown = first;
    let mut looks = 1_u64;
    looks_again(&events, &server, every);
    loop {
        let size = screen.size();
        view.fit(&shown, size);
        screen.draw(&picture::lines(&shown, &view, size))?;
        if count.is_some_and(|most| looks >= most) {
            return Ok(());
        }
        match happened.recv().await {
            None | Some(Event::End) => return Ok(()),
            Some(Event::Changed) => screen.forget(),
            Some(Event::Suspend) => screen.suspend()?,
            Some(Event::Key(Key::Quit)) => return Ok(()),
            Some(Event::Key(key)) => view.key(key),
            Some(Event::Answer(answer)) => {
                looks += 1;
                match *answer {
                    Ok(snapshot) => {
                        view.trouble = None;
                        if !view.is_paused {
                            shown = snapshot;
                        }
                    }
                    // The last picture stays, with what is wrong.
                    Err(error) => {
                        view.trouble = Some(error.to_string());
                        server = again().unwrap_or(server);
                    }
                }
                looks_again(&events, &server, every);
            }
        }
    }
}

/// Asks once more after the interval.
fn looks_again(events: &mpsc::Sender<Event>, server: &Server, every: Duration) {
    let (events, server) = (events.clone(), server.clone());
    tokio::spawn(async move {
        tokio::time::sleep(every).await;
        if let Ok(answer) = ask(server).await {
            let _ended = events.send(Event::Answer(Box::new(answer))).await;
        }
    });
}

/// Signals as events. An interrupt and a request to end are ways to quit: the terminal is given back first.
fn signals(events: &mpsc::Sender<Event>) -> std::io::Result<()> {
    let suspend = SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw());
    let resumed = SignalKind::from_raw(rustix::process::Signal::CONT.as_raw());
    let all: [(SignalKind, fn() -> Event); 6] = [
        (SignalKind::interrupt(), || Event::End),
        (SignalKind::terminate(), || Event::End),
        (SignalKind::hangup(), || Event::End),
        (SignalKind::window_change(), || Event::Changed),
        (resumed, || Event::Changed),
        (suspend, || Event::Suspend),
    ];
    for (kind, event) in all {
        let (mut given, events): (Signal, _) = (signal(kind)?, events.clone());
        tokio::spawn(
            async move { while given.recv().await.is_some() && events.send(event()).await.is_ok() {} },
        );
    }
    Ok(())
}

/// Keys as events, read by a thread of its own: a terminal cannot be waited for in another way without changing it for
/// whoever else has it open. It ends with the program.
fn keys(events: mpsc::Sender<Event>) -> std::io::Result<()> {
    let reader = move || {
        let mut input = std::io::stdin().lock();
        let mut bytes = [0; 64];
        loop {
            match input.read(&mut bytes) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                // The terminal is gone.
                Ok(0) | Err(_) => return drop(events.blocking_send(Event::End)),
                Ok(n) => {
                    for key in Key::all(&bytes[..n]) {
                        if events.blocking_send(Event::Key(key)).is_err() {
                            return;
                        }
                    }
                }
            }
        }
    };
    std::thread::Builder::new().name("keys".to_owned()).spawn(reader).map(drop)
}
