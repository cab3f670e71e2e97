//! Looks at one file as the scanner does: the in-process parser first, the worker for the rest.
//! For commands that need no index.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use spindle_base::clock::{SystemClock, instant};
use spindle_base::shutdown::Shutdown;
use spindle_media::guard::Limits;
use spindle_media::info::MediaInfo;
use spindle_media::keyframes::KeyframeIndex;
use spindle_media::probe::probe;
use spindle_storage::{HelperMode, Storage, StorageError};
use spindle_transcode::{Config, Transcoder};
use tokio_util::sync::CancellationToken;

/// How long the in-process parser may take.
const PARSE_LIMIT: Duration = Duration::from_secs(2);

/// The storage room for one question: with what this process itself may ask of the kernel.
///
/// # Errors
/// The storage's own.
pub fn storage() -> Result<Storage, StorageError> {
    let config = spindle_storage::Config {
        helper: HelperMode::Auto,
        read_chunk_bytes: 1 << 20,
        helper_program: std::env::current_exe().ok(),
        // A layout and a topology are no stream: the helper is there for questions.
        record: false,
    };
    Storage::start(config, Arc::new(SystemClock))
}

/// What was found.
pub struct Examined {
    /// The description.
    pub info: MediaInfo,
    /// Key frames, where the file has video.
    pub keyframes: Option<KeyframeIndex>,
}

/// Examines files one after the other.
pub struct Examiner {
    transcoder: Transcoder,
    shutdown: Shutdown,
    cache_dir: std::path::PathBuf,
}

impl Examiner {
    /// Starts with a worker program beside this one.
    ///
    /// # Errors
    /// No folder for temporary files.
    pub fn start() -> anyhow::Result<Self> {
        let cache_dir = std::env::temp_dir().join(format!("spindle-{}", spindle_base::id::new_id()));
        let shutdown = Shutdown::new();
        let config = Config {
            worker_program: crate::config::worker_program(),
            cache_dir: cache_dir.clone(),
            cache_bytes: 64 << 20,
            max_workers: 1,
            run_ahead: 1,
            spare_stays: Duration::from_secs(30),
        };
        let transcoder = Transcoder::start(config, Arc::new(SystemClock), shutdown.clone())?;
        Ok(Self { transcoder, shutdown, cache_dir })
    }

    /// Describes a file.
    ///
    /// # Errors
    /// Cannot be opened, is not media.
    pub async fn examine(&self, path: &Path) -> anyhow::Result<Examined> {
        let file = crate::config::regular_file::open(path).context("unable to open it")?;
        let meta = file.metadata().context("unable to look at it")?;
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let (reader, size, known_as) = (file.try_clone()?, meta.len(), name.clone());
        let parsed = tokio::task::spawn_blocking(move || {
            let until = instant() + PARSE_LIMIT;
            let limits = Limits { expired: Box::new(move || instant() > until), ..Limits::default() };
            probe(reader, size, &known_as, limits)
        })
        .await?;
        let (info, keyframes) = match parsed {
            Ok(probed) => (probed.info, probed.keyframes),
            Err(error) if error.worth_asking_the_worker() => {
                let info = self.transcoder.probe(Box::new(file.try_clone()?), &name).await?;
                (info, None)
            }
            Err(error) => return Err(error.into()),
        };
        let keyframes = match keyframes {
            None if info.main_video().is_some() => {
                let scan = self.transcoder.scan_keyframes(Box::new(file), &name, CancellationToken::new());
                Some(scan.await?)
            }
            known => known,
        };
        Ok(Examined { info, keyframes })
    }

    /// Ends the worker and removes the temporary folder.
    pub async fn close(self) {
        self.shutdown.close(Duration::from_secs(5)).await;
        drop(self.transcoder);
        // It holds only anonymous files: an empty folder.
        if let Err(error) = std::fs::remove_dir_all(&self.cache_dir) {
            tracing::debug!(%error, "unable to remove the temporary folder");
        }
    }
}
