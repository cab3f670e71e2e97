//! The scanner's seams, filled: files are read on the disks' own threads, and what the in-process
//! parsers do not read goes to the worker.

use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use bytes::Bytes;
use spindle_base::error::ErrorKind;
use spindle_library::{Backend, BoxFuture, InputFile, MediaSource, Picture, ProbeError, Prober};
use spindle_media::info::MediaInfo;
use spindle_media::keyframes::KeyframeIndex;
use spindle_storage::{MediaFile, Storage, StreamId};
use spindle_transcode::{TranscodeError, Transcoder};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

/// Reads for the scanner, as background work of the disks.
#[derive(Clone)]
pub struct DiskBackend {
    storage: Storage,
    runtime: Handle,
}

impl DiskBackend {
    /// A backend over `storage`. Must be called within the runtime.
    #[must_use]
    pub fn new(storage: Storage) -> Self {
        Self { storage, runtime: Handle::current() }
    }

    fn open_file(&self, path: &Path) -> io::Result<MediaFile> {
        let opened = self.runtime.block_on(self.storage.open(path, StreamId::BACKGROUND));
        opened.map_err(to_io)
    }
}

impl Backend for DiskBackend {
    fn open(&self, path: &Path) -> io::Result<Box<dyn MediaSource>> {
        Ok(Box::new(BlockingFile {
            file: self.open_file(path)?,
            runtime: self.runtime.clone(),
            at: 0,
            block: Bytes::new(),
            block_at: 0,
        }))
    }

    fn open_for_worker(&self, path: &Path) -> io::Result<InputFile> {
        let file = self.open_file(path)?;
        let again = self.runtime.block_on(file.open_again()).map_err(to_io)?;
        Ok(Box::new(again))
    }

    fn rests(&self, folder: &Path) -> bool {
        let Some(volume) = self.storage.known_volume(folder).topology else { return false };
        let figures = self.storage.disk_figures();
        let disks = figures.iter().filter(|f| volume.disks.contains(&f.rate.disk));
        disks.into_iter().any(|f| f.asleep == Some(true) || f.quiet_s >= LEFT_ALONE_S)
    }
}

/// What was wrong, in the system's words: the reason that a file is listed with is all that people see of it, and what stands
/// before the innermost cause names a path, which whoever asks knows.
fn cause(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    let text = innermost.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_lowercase()
}

/// How long a disk may have had nothing to do before it is let alone: the usual spin-down times begin at ten minutes, and a look
/// every quarter of an hour would keep it awake for ever.
const LEFT_ALONE_S: u64 = 300;

fn to_io(error: spindle_storage::StorageError) -> io::Error {
    let kind = match error.kind() {
        ErrorKind::NotFound => io::ErrorKind::NotFound,
        ErrorKind::Forbidden => io::ErrorKind::PermissionDenied,
        ErrorKind::TimedOut => io::ErrorKind::TimedOut,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, cause(&error))
}

/// Bytes of one read of a header: a `moov` of a film fits into a few, a Matroska head into one.
const BLOCK_BYTES: usize = 256 << 10;

/// A media file as `Read + Seek`, for a thread that may wait. Keeps one block, so that a parser's
/// small reads and short seeks cost no disk access.
struct BlockingFile {
    file: MediaFile,
    runtime: Handle,
    at: u64,
    block: Bytes,
    block_at: u64,
}

impl Read for BlockingFile {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        let inside = self.at.checked_sub(self.block_at).and_then(|skip| usize::try_from(skip).ok());
        let mut rest = inside.and_then(|skip| self.block.get(skip..)).unwrap_or_default();
        if rest.is_empty() {
            let read = self.runtime.block_on(self.file.read_at(self.at, BLOCK_BYTES));
            self.block = read.map_err(to_io)?;
            self.block_at = self.at;
            rest = &self.block;
        }
        let n = rest.len().min(out.len());
        out[..n].copy_from_slice(&rest[..n]);
        self.at += n as u64;
        Ok(n)
    }
}

impl Seek for BlockingFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let target = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.file.size_bytes().checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = target.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(self.at)
    }
}

/// Probes by the worker.
pub struct WorkerProber(Transcoder);

impl WorkerProber {
    /// A prober over `transcoder`.
    #[must_use]
    pub fn new(transcoder: Transcoder) -> Self {
        Self(transcoder)
    }
}

/// Only what the worker says of the file itself is the file's fault. One that kills or hangs the
/// worker is the file's fault too: it would do so again.
fn to_probe_error(error: TranscodeError) -> ProbeError {
    match error {
        TranscodeError::Unreadable(reason) => ProbeError::Unreadable(reason),
        TranscodeError::Crashed(_) | TranscodeError::Hung { .. } => ProbeError::Unreadable(error.to_string()),
        other => ProbeError::Failed(other.to_string()),
    }
}

impl Prober for WorkerProber {
    fn probe<'a>(&'a self, file: InputFile, name: &'a str) -> BoxFuture<'a, Result<MediaInfo, ProbeError>> {
        Box::pin(async move { self.0.probe(file, name).await.map_err(to_probe_error) })
    }

    fn keyframes<'a>(
        &'a self,
        file: InputFile,
        name: &'a str,
        cancel: CancellationToken,
    ) -> BoxFuture<'a, Result<KeyframeIndex, ProbeError>> {
        Box::pin(async move { self.0.scan_keyframes(file, name, cancel).await.map_err(to_probe_error) })
    }

    fn picture<'a>(
        &'a self,
        file: InputFile,
        what: Picture,
        max_width: u32,
    ) -> BoxFuture<'a, Result<Vec<u8>, ProbeError>> {
        let what = match what {
            Picture::Cover => spindle_transcode::Picture::Cover,
            #[expect(clippy::cast_possible_truncation, reason = "the cast saturates")]
            Picture::Frame { at_s } => spindle_transcode::Picture::Frame { at_us: (at_s * 1e6) as i64 },
        };
        Box::pin(async move {
            let picture = self.0.picture(file, what, max_width).await;
            picture.map(|bytes| bytes.to_vec()).map_err(to_probe_error)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_opened_is_listed_with_the_kernels_word_for_it() {
        let why = io::Error::from(io::ErrorKind::PermissionDenied);
        let error =
            anyhow::Error::new(io::Error::from_raw_os_error(13)).context("unable to open `/srv/films/x.mkv`");
        assert_eq!(cause(error.as_ref()), "permission denied");
        assert_eq!(cause(&why), "permission denied");
    }
}
