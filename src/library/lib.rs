//! What there is to watch, who watched it, and how both are found: the index.
//!
//! [`Library`] is the one door to the database: libraries, items, watch state, accounts, tokens,
//! history, pictures, settings. [`Controller`] keeps it true to the folders. [`naming`] reads
//! names. The only room with SQL. No HTTP, no playback decisions, no FFmpeg: what needs one is
//! asked through [`Prober`].
//!
//! # The door
//!
//! ```ignore
//! Library::open(data_dir: &Path, clock: SharedClock) -> Result<Library>;      // clone; blocks a few ms
//! library.close();                                                            // blocks; after the last request
//! library.subscribe() -> broadcast::Receiver<Event>;                          // revisions and scans
//! library.revision().await -> Result<u64>;
//! library.check().await -> Result<()>;                                        // for /health: one read
//! library.backup_to(path).await -> Result<()>;                                // while serving
//!
//! // libraries
//! libraries().await -> Result<Vec<LibraryInfo>>;      library(id).await -> Result<LibraryInfo>;
//! library_named(name).await -> Result<LibraryInfo>;
//! add_library(NewLibrary).await -> Result<LibraryInfo>;
//! ensure_library(kind, &Path, name).await -> Result<LibraryInfo>;             // --library KIND=PATH
//! update_library(id, LibraryPatch).await -> Result<LibraryInfo>;   remove_library(id).await -> Result<()>;
//! unreadable(Option<library id>, limit, offset).await -> Result<Page<UnreadableFile>>;
//!
//! // items; `user` is a user's id, or "" for nobody (states are then empty)
//! items(user, ItemQuery).await -> Result<Page<Item>>;
//! item(user, id).await -> Result<ItemDetail>;         summary(user, id).await -> Result<Item>;
//! home(user, limit).await -> Result<Home>;            next_up(user, show).await -> Result<Option<Item>>;
//! genres(Option<library id>).await -> Result<Vec<String>>;
//! playable(item, version: Option<&str>).await -> Result<Playable>;   playables(item).await -> Result<Vec<Playable>>;
//! keyframes(file).await -> Result<Option<KeyframeIndex>>;   set_keyframes(file, KeyframeIndex).await -> Result<()>;
//! image(item, ImageKind, width: Option<u32>, height: Option<u32>, ImageFormat).await -> Result<Image>;
//!
//! // watch state: acknowledged means on disk
//! set_state(user, item, StatePatch).await -> Result<State>;
//! progress(user, item, Progress).await -> Result<State>;    // resume rules: `watch::resume`
//!
//! // accounts; the hash of a password is made by `auth`
//! create_first_user(name, hash).await -> Result<User>;      // Conflict when there is one
//! create_user(name, hash, Role).await -> Result<User>;      user_count().await -> Result<u64>;
//! users().await -> Result<Vec<User>>;  user(id).await -> Result<User>;
//! user_for_login(name).await -> Result<Option<(User, String)>>;               // with its hash
//! set_password(user, hash).await -> Result<()>;             // drops the user's tokens
//! set_role(user, Role).await -> Result<()>;                 remove_user(user).await -> Result<()>;
//! add_token(user, &token_hash[32], device, expires_us).await -> Result<TokenInfo>;
//! user_of_token(&token_hash[32]).await -> Result<Option<User>>;               // BLAKE3 of the secret
//! remove_token(&token_hash[32]).await -> Result<bool>;      tokens(user).await -> Result<Vec<TokenInfo>>;
//!
//! // history
//! put_history(NewHistory).await -> Result<()>;              // again with the same session: replaces
//! history(user: Option<&str>, limit, offset).await -> Result<Page<HistoryEntry>>;
//! history_entry(session).await -> Result<HistoryEntry>;
//! put_io(session, serde_json::Value).await -> Result<()>;   io(session).await -> Result<Option<serde_json::Value>>;
//!
//! // settings, each a string
//! setting(key).await -> Result<Option<String>>;             set_setting(key, value).await -> Result<()>;
//! setting_or_insert(key, value).await -> Result<String>;    // atomically; for generated secrets
//!
//! // scanning
//! Controller::start(Library, Arc<dyn Prober>, Arc<dyn Backend>, scanner::Config, Shutdown) -> Controller;  // clone
//! controller.request(library_id);                            // returns at once; coalesces
//! controller.scan(library_id).await -> Result<ScanReport>;   // the same, and waits for its end
//! controller.scanning() -> Vec<String>;                      // ids of libraries
//! controller.watching(library_id) -> Watching;               // who notices changes of its folders
//! controller.forget(library_id);                             // after remove_library
//! ```
//!
//! Every id that a client sends is taken as an opaque string; one that nothing has is
//! [`LibraryError::NotFound`]. Every future resolves without a runtime of its own: the work runs
//! on the threads of `db`.

mod artwork;
mod db;
mod error;
mod home;
mod metadata;
pub mod naming;
mod query;
mod repo;
pub mod scanner;
mod sort_title;
mod types;
pub mod watch;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::Connection;
use spindle_base::clock::SharedClock;
use spindle_base::sync::Mutex;
use tokio::sync::broadcast;

pub use error::{LibraryError, Result};
pub use scanner::{
    Backend, BoxFuture, Controller, DirectBackend, FollowConfig, InputFile, MediaSource, Picture, ProbeError,
    Prober, WatchedBy, Watching, stays_inside,
};
pub use types::*;

use db::Db;

/// The name of the database in the data directory.
pub const DATABASE: &str = "library.db";
/// Events that a slow listener may be behind before it loses the oldest.
const EVENTS: usize = 256;

/// The index. Cheap to clone; the threads behind it end with [`Library::close`] or the last clone.
#[derive(Clone, Debug)]
pub struct Library {
    inner: Arc<Inner>,
}

struct Inner {
    db: Db,
    clock: SharedClock,
    data_dir: PathBuf,
    events: broadcast::Sender<Event>,
    artwork: Arc<artwork::Store>,
    /// Tokens whose use is being noted.
    noting: Mutex<HashSet<[u8; 32]>, 35>,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Library").field("data_dir", &self.data_dir).finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.db.close();
    }
}

impl Library {
    /// Opens the index in `data_dir`, which is made where it is missing.
    ///
    /// # Errors
    /// [`LibraryError::NewerSchema`] and [`LibraryError::ForeignDatabase`] leave every byte as it is.
    pub fn open(data_dir: &Path, clock: SharedClock) -> Result<Self> {
        use std::os::unix::fs::DirBuilderExt as _;
        // 0700: it holds password hashes and who watched what.
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(data_dir)
            .map_err(LibraryError::io("make the data directory", data_dir))?;
        let db = Db::open(&data_dir.join(DATABASE), &clock)?;
        let artwork = Arc::new(artwork::Store::open(&data_dir.join("artwork"))?);
        let (events, _) = broadcast::channel(EVENTS);
        Ok(Self {
            inner: Arc::new(Inner {
                db,
                clock,
                data_dir: data_dir.to_owned(),
                events,
                artwork,
                noting: Mutex::default(),
            }),
        })
    }

    /// Whether there is an index in `data_dir`. Touches nothing.
    #[must_use]
    pub fn is_in(data_dir: &Path) -> bool {
        data_dir.join(DATABASE).is_file()
    }

    /// Finishes what was accepted and closes the database. Blocks; later requests fail.
    pub fn close(&self) {
        self.inner.db.close();
    }

    /// The data directory.
    #[must_use]
    pub fn data_dir(&self) -> &Path {
        &self.inner.data_dir
    }

    /// Events from now on. A listener that falls behind is told how many it lost.
    #[must_use]
    pub fn subscribe(&self) -> broadcast::Receiver<Event> {
        self.inner.events.subscribe()
    }

    /// Writes a whole copy of the database to `target`, which must not exist, while serving.
    pub async fn backup_to(&self, target: &Path) -> Result<()> {
        self.inner.db.copy_to(target.to_owned()).await
    }

    /// Whether the database answers, and is still the file at its path.
    pub async fn check(&self) -> Result<()> {
        let library = self.clone();
        let looked = tokio::task::spawn_blocking(move || library.inner.db.is_in_place());
        looked.await.map_err(|e| LibraryError::Panicked(e.to_string()))??;
        self.revision().await.map(drop)
    }

    /// A number that grows with every change of the index (not of watch state).
    pub async fn revision(&self) -> Result<u64> {
        self.read(repo::settings::revision).await
    }

    pub(crate) fn now_us(&self) -> i64 {
        self.inner.clock.unix_us()
    }

    pub(crate) fn emit(&self, event: Event) {
        // No listener is no error.
        drop(self.inner.events.send(event));
    }

    pub(crate) async fn read<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.inner.db.read(job).await
    }

    pub(crate) async fn write<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.inner.db.write(job).await
    }

    /// A write that changes what lists show: counts the revision up and tells listeners.
    pub(crate) async fn change<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (value, revision) =
            self.inner.db.write(move |db| Ok((job(db)?, repo::settings::bump(db)?))).await?;
        self.emit(Event::Library { revision });
        Ok(value)
    }

    /// [`Library::change`] for the scanner's own threads.
    pub(crate) fn change_blocking<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (value, revision) =
            self.inner.db.write_blocking(move |db| Ok((job(db)?, repo::settings::bump(db)?)))?;
        self.emit(Event::Library { revision });
        Ok(value)
    }

    pub(crate) fn read_blocking<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.inner.db.read_blocking(job)
    }
}
