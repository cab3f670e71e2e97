//! One long-lived worker that describes file after file. A few requests are in the pipe at once,
//! so that the worker never waits for the server; the worker takes them one by one, so that a
//! death or a standstill is always the fault of the foremost.

use std::collections::VecDeque;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use spindle_media::info::MediaInfo;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::error::TranscodeError;
use crate::pool::Pool;
use crate::process::Worker;
use crate::protocol::{Reply, Request};
use crate::rendition::InputFile;

/// Longest time for one file.
const PATIENCE: Duration = Duration::from_secs(15);
/// Requests in the worker's socket at once. Two would hide the round trip; four also hide a late
/// wake-up of this task.
const PIPELINE: usize = 4;
/// A prober with nothing to do gives its memory, some 40 MB, back after this: a scan's next file comes at once.
const IDLE: Duration = Duration::from_secs(10);

/// A file to describe.
pub(crate) struct Job {
    pub(crate) file: InputFile,
    pub(crate) name: String,
    pub(crate) answer: oneshot::Sender<Result<MediaInfo, TranscodeError>>,
}

struct Flying {
    id: u64,
    job: Job,
    /// Whether a worker died on it before.
    second_try: bool,
}

/// Runs until the senders are gone or the server stops.
pub(crate) async fn run(pool: Arc<Pool>, mut inbox: mpsc::Receiver<Job>) {
    let stop = pool.shutdown().token();
    let mut prober =
        Prober { pool, worker: None, flight: VecDeque::new(), next_id: 0, head_since: Instant::now() };
    loop {
        let deadline = prober.head_since + PATIENCE;
        let busy = !prober.flight.is_empty();
        tokio::select! {
            () = stop.cancelled() => return,
            job = inbox.recv(), if prober.flight.len() < PIPELINE => match job {
                Some(job) => prober.admit(job).await,
                None => return,
            },
            reply = recv(&mut prober.worker), if busy => match reply {
                Ok(reply) => prober.answer(reply),
                Err(_) => prober.worker_died().await,
            },
            () = tokio::time::sleep_until(deadline), if busy => prober.head_timed_out().await,
            () = tokio::time::sleep(IDLE), if !busy && prober.worker.is_some() => prober.worker = None,
        }
    }
}

async fn recv(worker: &mut Option<Worker>) -> std::io::Result<Reply> {
    match worker {
        Some(worker) => worker.recv().await,
        None => Err(std::io::ErrorKind::NotConnected.into()),
    }
}

struct Prober {
    pool: Arc<Pool>,
    worker: Option<Worker>,
    flight: VecDeque<Flying>,
    next_id: u64,
    head_since: Instant,
}

impl Prober {
    async fn admit(&mut self, job: Job) {
        if job.answer.is_closed() {
            return;
        }
        let id = self.next_id;
        self.next_id += 1;
        if self.flight.is_empty() {
            self.head_since = Instant::now();
        }
        self.flight.push_back(Flying { id, job, second_try: false });
        if self.worker.is_none() {
            self.restart().await;
        } else if let Some(last) = self.flight.back()
            && send(self.worker.as_ref(), last).await.is_err()
        {
            // The next recv finds the worker dead and sends everything again.
            tracing::debug!("the prober does not take requests");
        }
    }

    fn answer(&mut self, reply: Reply) {
        let (id, result) = match reply {
            Reply::Probed { id, info } => (id, Ok(*info)),
            Reply::ProbeFailed { id, kind, reason } => (id, Err(TranscodeError::refused(kind, reason))),
            // Progress and reads of the input: the scan is attributed as a whole.
            _ => return,
        };
        if self.flight.front().is_some_and(|f| f.id == id)
            && let Some(done) = self.flight.pop_front()
        {
            let _ = done.job.answer.send(result);
            self.head_since = Instant::now();
        }
    }

    async fn worker_died(&mut self) {
        self.worker = None;
        if let Some(mut head) = self.flight.pop_front() {
            if head.second_try {
                let what = format!("`{}`", head.job.name);
                let _ = head.job.answer.send(Err(TranscodeError::Crashed(what)));
            } else {
                head.second_try = true;
                self.flight.push_front(head);
            }
        }
        self.restart().await;
    }

    async fn head_timed_out(&mut self) {
        self.worker = None;
        if let Some(head) = self.flight.pop_front() {
            let _ = head.job.answer.send(Err(TranscodeError::Hung {
                what: format!("`{}`", head.job.name),
                seconds: PATIENCE.as_secs(),
            }));
        }
        self.restart().await;
    }

    /// A new worker for what is in flight; if none can be had, everything in flight fails.
    async fn restart(&mut self) {
        self.head_since = Instant::now();
        if self.flight.is_empty() {
            return;
        }
        match self.pool.fresh().await {
            Ok(worker) => {
                self.head_since = Instant::now();
                self.worker = Some(worker);
                for flying in &self.flight {
                    if send(self.worker.as_ref(), flying).await.is_err() {
                        break;
                    }
                }
            }
            Err(error) => {
                for flying in self.flight.drain(..) {
                    let _ = flying.job.answer.send(Err(error.clone()));
                }
            }
        }
    }
}

async fn send(worker: Option<&Worker>, flying: &Flying) -> std::io::Result<()> {
    let Some(worker) = worker else {
        return Err(std::io::ErrorKind::NotConnected.into());
    };
    let request = Request::Probe { id: flying.id, name: flying.job.name.clone() };
    worker.sender().send(&request, &[flying.job.file.as_fd()]).await
}
