//! The front of this crate: one object that the server holds.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use spindle_base::clock::SharedClock;
use spindle_base::shutdown::Shutdown;
use spindle_base::sync::Mutex;
use spindle_media::info::MediaInfo;
use spindle_media::keyframes::KeyframeIndex;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::cache::Cache;
use crate::error::TranscodeError;
use crate::job;
use crate::plan::{Picture, Plan, RenditionKey};
use crate::pool::Pool;
use crate::prober;
use crate::process::Spawner;
use crate::protocol::Sandbox;
use crate::rendition::InputFile;
use crate::rendition::{self, Entry, Input, Rendition, Studio};

/// What the transcoder needs to know.
#[derive(Debug, Clone)]
pub struct Config {
    /// The program `spindle-transcode`.
    pub worker_program: PathBuf,
    /// Folder for segments; made if missing. Nothing in it has a name.
    pub cache_dir: PathBuf,
    /// Most bytes of finished segments.
    pub cache_bytes: u64,
    /// Most workers that make segments at once. Prober, spare and short jobs come on top.
    pub max_workers: usize,
    /// Most segments ahead of a viewer that are made unasked: 3 or 4.
    pub run_ahead: usize,
    /// How long a worker is held ready after somebody last looked at a film or asked for a segment: 30 s. The page of a
    /// film is there before anyone can press play, so that a new one has started by then.
    pub spare_stays: Duration,
}

/// What a worker told of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerInfo {
    /// What confines it.
    pub sandbox: Sandbox,
    /// FFmpeg's version.
    pub ffmpeg: String,
}

/// Starts workers and hands out descriptions, renditions, subtitles, pictures. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Transcoder {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    pool: Arc<Pool>,
    cache: Arc<Cache>,
    runtime: Handle,
    run_ahead: usize,
    probes: mpsc::Sender<prober::Job>,
    state: watch::Receiver<Option<Result<WorkerInfo, String>>>,
    renditions: Arc<Registry>,
}

/// The renditions that have an actor. Rank 30: an actor that ends takes it, then nothing else.
pub(crate) type Registry = Mutex<HashMap<RenditionKey, Entry>, 30>;

impl Transcoder {
    /// Opens the cache and starts a first worker in the background. Must be called on a tokio
    /// runtime. A worker that cannot start is no error here: [`Transcoder::available`] tells.
    ///
    /// # Errors
    /// If the cache folder cannot be used or no thread can be started.
    pub fn start(config: Config, clock: SharedClock, shutdown: Shutdown) -> Result<Self, TranscodeError> {
        // Deadlines here are the executor's own; the parameter keeps the seam for tests.
        drop(clock);
        let runtime = Handle::try_current()
            .map_err(|e| TranscodeError::io("start the transcoder outside of a runtime", e))?;
        let cache = Cache::open(&config.cache_dir, config.cache_bytes).map_err(|e| {
            TranscodeError::io(format!("use the cache folder `{}`", config.cache_dir.display()), e)
        })?;
        let spawner = Spawner::start(config.worker_program)
            .map_err(|e| TranscodeError::io("start the thread that starts workers", e))?;
        let pool =
            Arc::new(Pool::new(spawner, config.max_workers.max(1), config.spare_stays, shutdown.clone()));

        let (tell, state) = watch::channel(None);
        let first = Arc::clone(&pool);
        shutdown.spawn("transcode hello", async move {
            let result = match first.fresh().await {
                Ok(worker) => {
                    let info = WorkerInfo { sandbox: worker.sandbox.clone(), ffmpeg: worker.ffmpeg.clone() };
                    first.keep(worker);
                    Ok(info)
                }
                Err(error) => Err(error.to_string()),
            };
            let _ = tell.send(Some(result));
            first.shutdown().requested().await;
            first.close();
        });
        let (probes, inbox) = mpsc::channel(64);
        shutdown.spawn("transcode prober", prober::run(Arc::clone(&pool), inbox));

        Ok(Self {
            inner: Arc::new(Inner {
                pool,
                cache: Arc::new(cache),
                runtime,
                run_ahead: config.run_ahead.max(1),
                probes,
                state,
                renditions: Arc::default(),
            }),
        })
    }

    /// Whether a worker started and said hello; else why not. Never waits: right after `start` it
    /// may say that the worker is still starting.
    ///
    /// # Errors
    /// The reason, for people.
    pub fn available(&self) -> Result<(), String> {
        self.worker_info().map(drop)
    }

    /// What the first worker told of itself, with the level of its sandbox.
    ///
    /// # Errors
    /// As [`Transcoder::available`].
    pub fn worker_info(&self) -> Result<WorkerInfo, String> {
        match &*self.inner.state.borrow() {
            Some(result) => result.clone(),
            None => Err("the transcoding worker is still starting".to_owned()),
        }
    }

    /// Waits until the first worker said hello or failed.
    ///
    /// # Errors
    /// As [`Transcoder::available`].
    pub async fn ready(&self) -> Result<WorkerInfo, String> {
        let mut state = self.inner.state.clone();
        match state.wait_for(Option::is_some).await {
            Ok(_) => self.worker_info(),
            Err(_) => Err("the transcoder is stopping".to_owned()),
        }
    }

    /// Describes a file. One process does it for many files; a file that crashes it twice or holds
    /// it for 15 s is given up, the others go on.
    ///
    /// # Errors
    /// `Unreadable` with a reason for people if it is no media file.
    pub async fn probe(&self, file: InputFile, name: &str) -> Result<MediaInfo, TranscodeError> {
        let (answer, result) = oneshot::channel();
        let job = prober::Job { file, name: name.to_owned(), answer };
        self.inner.probes.send(job).await.map_err(|_| TranscodeError::Stopping)?;
        result.await.map_err(|_| TranscodeError::Stopping)?
    }

    /// Key frames of the main video by reading every packet once. Only pictures at which decoding
    /// can start count (IDR of H.264, random access pictures of HEVC).
    ///
    /// # Errors
    /// `Unreadable` if there is no video, `Cancelled` if `cancel` was.
    pub async fn scan_keyframes(
        &self,
        file: InputFile,
        name: &str,
        cancel: CancellationToken,
    ) -> Result<KeyframeIndex, TranscodeError> {
        job::keyframes(&self.inner.pool, file, name, cancel).await
    }

    /// A whole text subtitle stream as WebVTT, times from the start of the presentation.
    ///
    /// # Errors
    /// `BadInput` if the stream is no text subtitle.
    pub async fn subtitle_vtt(&self, file: InputFile, stream: u32) -> Result<Bytes, TranscodeError> {
        job::subtitle_vtt(&self.inner.pool, &self.inner.cache, file, stream).await
    }

    /// A whole subtitle stream as the file has it, times from the start of the presentation: an ASS script,
    /// PGS as a `.sup` file, VobSub as [`crate::original`] says. At most [`crate::original::MAX_BYTES`].
    ///
    /// # Errors
    /// `BadInput` if the stream is of no such format, `Unreadable` if it is larger.
    pub async fn subtitle_original(&self, file: InputFile, stream: u32) -> Result<Bytes, TranscodeError> {
        job::subtitle_original(&self.inner.pool, &self.inner.cache, file, stream).await
    }

    /// A font that is attached to the file under this name. At most [`crate::original::MAX_FONT_BYTES`].
    ///
    /// # Errors
    /// `Unreadable` if there is none, it is larger, or no font.
    pub async fn font(&self, file: InputFile, name: String) -> Result<Bytes, TranscodeError> {
        job::font(&self.inner.pool, &self.inner.cache, file, name).await
    }

    /// One picture as JPEG.
    ///
    /// # Errors
    /// `Unreadable` if the file has no such picture.
    pub async fn picture(
        &self,
        file: InputFile,
        what: Picture,
        max_width: u32,
    ) -> Result<Bytes, TranscodeError> {
        job::picture(&self.inner.pool, &self.inner.cache, file, what, max_width).await
    }

    /// Says that somebody looks at what may be played next: a worker is held ready for a while. Cheap. Must be
    /// called on the runtime.
    pub fn expect_work(&self) {
        if self.available().is_ok() {
            self.inner.pool.expect_work();
        }
    }

    /// Whether a worker is held ready.
    #[must_use]
    pub fn has_spare(&self) -> bool {
        self.inner.pool.has_spare()
    }

    /// Opens or joins a rendition as a new viewer. `key` must be made of this `plan`. The first
    /// caller's `input` serves all who share it. A first worker is started at once, so that it has
    /// opened the file when the first segment is asked for.
    #[must_use]
    pub fn rendition(&self, key: RenditionKey, plan: Plan, input: Arc<dyn Input>) -> Rendition {
        let studio = Studio {
            pool: Arc::clone(&self.inner.pool),
            cache: Arc::clone(&self.inner.cache),
            registry: Arc::clone(&self.inner.renditions),
            run_ahead: self.inner.run_ahead,
        };
        let _context = self.inner.runtime.enter();
        rendition::join(studio, key, plan, input)
    }

    /// Bytes of finished segments that are held now.
    #[must_use]
    pub fn cache_bytes(&self) -> u64 {
        self.inner.cache.total_bytes()
    }
}
