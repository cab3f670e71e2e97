//! Jobs of one answer: a key frame index, a subtitle, a picture. Each has a worker of the pool to itself while it
//! lasts; a worker whose job ended well takes the next.

use std::fs::File;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use spindle_media::keyframes::KeyframeIndex;
use tokio_util::sync::CancellationToken;

use crate::cache::{Cache, Segment};
use crate::error::TranscodeError;
use crate::plan::Picture;
use crate::pool::Pool;
use crate::protocol::{Reply, Request};
use crate::rendition::InputFile;

/// Longest silence of a worker that reads a file: one read of a disk that has to spin up takes
/// about 10 s.
const PATIENCE: Duration = Duration::from_secs(15);

pub(crate) async fn keyframes(
    pool: &Arc<Pool>,
    file: InputFile,
    name: &str,
    cancel: CancellationToken,
) -> Result<KeyframeIndex, TranscodeError> {
    let what = format!("the key frames of `{name}`");
    let fds = [file.as_fd()];
    let job = run(pool, &Request::Keyframes, &fds, &what);
    tokio::select! {
        () = cancel.cancelled() => Err(TranscodeError::Cancelled),
        reply = job => match reply? {
            Reply::Index { index } => Ok(index),
            other => Err(unexpected(&other)),
        },
    }
}

pub(crate) async fn subtitle_vtt(
    pool: &Arc<Pool>,
    cache: &Cache,
    file: InputFile,
    stream: u32,
) -> Result<Bytes, TranscodeError> {
    let what = format!("subtitle stream {stream}");
    written(pool, cache, &Request::Vtt { stream }, &file, &what).await
}

pub(crate) async fn subtitle_original(
    pool: &Arc<Pool>,
    cache: &Cache,
    file: InputFile,
    stream: u32,
) -> Result<Bytes, TranscodeError> {
    let what = format!("subtitle stream {stream}");
    written(pool, cache, &Request::Original { stream }, &file, &what).await
}

pub(crate) async fn font(
    pool: &Arc<Pool>,
    cache: &Cache,
    file: InputFile,
    name: String,
) -> Result<Bytes, TranscodeError> {
    written(pool, cache, &Request::Font { name }, &file, "a font").await
}

pub(crate) async fn picture(
    pool: &Arc<Pool>,
    cache: &Cache,
    file: InputFile,
    what: Picture,
    max_width: u32,
) -> Result<Bytes, TranscodeError> {
    written(pool, cache, &Request::Picture { what, max_width }, &file, "a picture").await
}

/// Runs a job that writes into a file, and reads that.
async fn written(
    pool: &Arc<Pool>,
    cache: &Cache,
    request: &Request,
    file: &InputFile,
    what: &str,
) -> Result<Bytes, TranscodeError> {
    let output: File =
        cache.new_file().map_err(|e| TranscodeError::io("make a file in the transcoding cache", e))?;
    match run(pool, request, &[file.as_fd(), output.as_fd()], what).await? {
        Reply::Written { len_bytes } => {
            let segment = Segment::new(output, len_bytes);
            tokio::task::spawn_blocking(move || segment.read())
                .await
                .map_err(|e| TranscodeError::io("read the transcoding cache", e))?
                .map_err(|e| TranscodeError::io("read the transcoding cache", e))
        }
        other => Err(unexpected(&other)),
    }
}

/// The final answer of a job.
async fn run(
    pool: &Arc<Pool>,
    request: &Request,
    fds: &[BorrowedFd<'_>],
    what: &str,
) -> Result<Reply, TranscodeError> {
    let _permit = pool.job_permit().await?;
    let mut worker = pool.take_for_job().await?;
    worker.sender().send(request, fds).await.map_err(|_| TranscodeError::Crashed(what.to_owned()))?;
    loop {
        let reply = tokio::time::timeout(PATIENCE, worker.recv())
            .await
            .map_err(|_| TranscodeError::Hung { what: what.to_owned(), seconds: PATIENCE.as_secs() })?
            .map_err(|_| TranscodeError::Crashed(what.to_owned()))?;
        match reply {
            Reply::Progress { .. } | Reply::Reads { .. } => {}
            // The worker itself is well: it said what is wrong with the file.
            Reply::Failed { kind, reason } => {
                pool.give_back(worker);
                return Err(TranscodeError::refused(kind, reason));
            }
            other => {
                pool.give_back(worker);
                return Ok(other);
            }
        }
    }
}

fn unexpected(reply: &Reply) -> TranscodeError {
    tracing::warn!(?reply, "the worker answered something else");
    TranscodeError::Crashed("a job: it answered something else".to_owned())
}
