//! Puts the rooms together, runs the server, stops it in order. The only place that knows every
//! room.

mod adapters;
mod profiles;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use spindle_base::clock::{Clock as _, SharedClock, SystemClock};
use spindle_base::id::random_bytes;
use spindle_base::shutdown::Shutdown;
use spindle_library::{Controller, FollowConfig, Library, LibraryKind, scanner};
use spindle_storage::Storage;
use spindle_transcode::Transcoder;
use tokio::net::{TcpListener, TcpSocket};
use tokio::signal::unix::{SignalKind, signal};

use crate::auth::local::Local;
use crate::auth::signature::Key;
use crate::auth::token::hex;
use crate::config::Config;
use crate::delivery::answers::Answers;
use crate::delivery::connection::{self, Services};
use crate::delivery::connections::{Connections, Limits};
use crate::http::{self, MediaLane, ServerState};
use crate::sessions::{Parts, Sessions};

pub use adapters::{DiskBackend, WorkerProber};
pub use profiles::load as load_profiles;

/// Connections at once. Each waiting one holds a few KiB.
const MAX_CONNECTIONS: usize = 8192;
/// How long open requests may take at shutdown before they are cut off.
const DRAIN: Duration = Duration::from_secs(10);
/// How long a worker is held ready after somebody last looked at a film. It starts in 0.1 s and holds 40 MB.
const SPARE_STAYS: Duration = Duration::from_secs(30);
/// Connections that the kernel keeps for us while we are busy.
const BACKLOG: u32 = 1024;

/// The rooms that every command over a data directory needs.
pub struct Rooms {
    /// Time.
    pub clock: SharedClock,
    /// Stops everything.
    pub shutdown: Shutdown,
    /// The index.
    pub library: Library,
    /// Disks.
    pub storage: Storage,
    /// Workers.
    pub transcoder: Transcoder,
    /// Scans.
    pub scanner: Controller,
}

/// How a server stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// Everything ended by itself.
    InOrder,
    /// Something was still going on when the time for it was over.
    CutOff,
    /// A second signal came.
    AtOnce,
}

/// The server, listening but not serving yet.
pub struct App {
    rooms: Rooms,
    sessions: Sessions,
    services: Services,
    listener: TcpListener,
    ready: Arc<AtomicBool>,
    libraries: Vec<String>,
    scan_on_start: bool,
    address: SocketAddr,
    connections: Connections,
    local: Option<Arc<Local>>,
    _lock: std::fs::File,
}

impl Rooms {
    /// Opens the index and starts disks, workers and scanner.
    ///
    /// # Errors
    /// One line each: the index cannot be opened or is from a newer version; the cache folder
    /// cannot be made.
    pub fn open(config: &Config) -> anyhow::Result<Self> {
        let clock: SharedClock = Arc::new(SystemClock);
        let shutdown = Shutdown::new();
        // The index first: if it is not ours to touch, nothing else is.
        let library = Library::open(&config.data_dir, clock.clone())?;
        let storage = Storage::start(
            spindle_storage::Config {
                helper: config.helper.clone(),
                read_chunk_bytes: config.read_chunk_bytes,
                helper_program: std::env::current_exe().ok(),
                record: config.record,
            },
            clock.clone(),
        )?;
        let cache_dir = config.data_dir.join("cache");
        let transcoder = Transcoder::start(
            spindle_transcode::Config {
                worker_program: config.worker.clone(),
                cache_dir,
                cache_bytes: config.cache_bytes,
                max_workers: config.max_workers,
                run_ahead: config.run_ahead,
                spare_stays: SPARE_STAYS,
            },
            clock.clone(),
            shutdown.clone(),
        )?;
        let scanner = Controller::start(
            library.clone(),
            Arc::new(WorkerProber::new(transcoder.clone())),
            Arc::new(DiskBackend::new(storage.clone())),
            scanner::Config {
                follow: config.scan_watch.then(|| FollowConfig {
                    interval: (config.scan_interval_s > 0)
                        .then(|| Duration::from_secs(config.scan_interval_s)),
                }),
                ..scanner::Config::default()
            },
            shutdown.clone(),
        );
        Ok(Self { clock, shutdown, library, storage, transcoder, scanner })
    }

    /// Makes sure that the libraries of the settings are in the index; gives their ids.
    ///
    /// # Errors
    /// The index's own.
    pub async fn ensure_libraries(&self, config: &Config) -> anyhow::Result<Vec<String>> {
        let mut ids = Vec::new();
        for setting in &config.libraries {
            let kind: LibraryKind = setting.kind.parse()?;
            let path = absolute(&setting.path)?;
            let library = self.library.ensure_library(kind, &path, &setting.name).await?;
            ids.push(library.id);
        }
        Ok(ids)
    }

    /// Stops in the order of use: scans and workers, disks, the index last. Whether all of it ended in time.
    pub async fn close(self) -> bool {
        let ended = self.shutdown.close(DRAIN).await;
        if !ended {
            tracing::warn!("some tasks did not end in time");
        }
        let (storage, library) = (self.storage, self.library);
        let closed = tokio::task::spawn_blocking(move || {
            storage.close();
            library.close();
        });
        if closed.await.is_err() {
            tracing::error!("closing the index failed");
            return false;
        }
        ended
    }
}

/// Links are kept as the owner wrote them: a library may be moved by moving a link.
fn absolute(path: &std::path::Path) -> anyhow::Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("unable to make `{}` absolute", path.display()))
}

impl App {
    /// Opens everything and listens.
    ///
    /// # Errors
    /// One line that says what is wrong and what to do.
    pub async fn build(config: Config) -> anyhow::Result<Self> {
        // The port before anything is touched: a second server by mistake must leave no trace.
        let listener = listen(config.listen)?;
        let address = listener.local_addr()?;
        let rooms = Rooms::open(&config)?;
        let lock = only_server(&config.data_dir)?;
        let ids = rooms.ensure_libraries(&config).await?;
        match rooms.library.end_left_open().await? {
            0 => {}
            sessions => tracing::info!(sessions, "ended what a server that was killed had left open"),
        }
        let key = rooms.library.setting_or_insert("media_key", &hex(&random_bytes::<32>())).await?;
        let sessions = Sessions::start(
            Parts {
                library: rooms.library.clone(),
                storage: rooms.storage.clone(),
                transcoder: rooms.transcoder.clone(),
                clock: rooms.clock.clone(),
                key: Key::new(*blake3::hash(key.as_bytes()).as_bytes()),
                profiles: Arc::new(profiles::load(&config.data_dir)),
                idle_s: config.session_idle_s,
            },
            &rooms.shutdown,
        );
        // From now on it is known how long each disk has been quiet, whether anybody looks or not.
        let early = sessions.clone();
        rooms.shutdown.spawn("volumes", async move {
            if let Err(error) = early.volumes().await {
                tracing::debug!(%error, "unable to look at the volumes yet");
            }
        });
        let experiments = spindle_bench::Store::in_data_dir(&config.data_dir);
        let store = experiments.clone();
        rooms.shutdown.spawn("experiments-left", async move {
            let swept = tokio::task::spawn_blocking(move || spindle_bench::scratch::sweep(&store)).await;
            for left in swept.unwrap_or_default() {
                tracing::info!("{left}");
            }
        });
        let media = MediaLane::new(sessions.clone(), rooms.storage.clone(), rooms.transcoder.clone());
        let ready = Arc::new(AtomicBool::new(false));
        let local = local(&config.data_dir, address);
        let state = ServerState {
            library: rooms.library.clone(),
            scanner: rooms.scanner.clone(),
            sessions: sessions.clone(),
            storage: rooms.storage.clone(),
            transcoder: rooms.transcoder.clone(),
            media: media.clone(),
            experiments: experiments.clone(),
            net_places: Arc::new(tokio::sync::Semaphore::new(spindle_bench::net::MOST_CONNECTIONS)),
            clock: rooms.clock.clone(),
            throttle: Arc::default(),
            ready: Arc::clone(&ready),
            shutdown: rooms.shutdown.clone(),
            local: local.clone(),
            signed_out: Arc::default(),
        };
        let services = Services {
            media: Arc::new(media),
            router: http::router(state),
            clock: rooms.clock.clone(),
            shutdown: rooms.shutdown.token(),
            answers: Answers::new(config.proxies.clone()),
        };
        let attribution = rooms.storage.attribution();
        tracing::info!(
            %address,
            data_dir = %config.data_dir.display(),
            attribution = attribution.mode.word(),
            why = attribution.why.as_deref(),
            "started"
        );
        let transcoder = rooms.transcoder.clone();
        rooms.shutdown.spawn("worker-check", async move {
            if let Err(why) = transcoder.ready().await {
                tracing::warn!(%why, "files that need converting cannot be played");
            }
        });
        Ok(Self {
            rooms,
            sessions,
            services,
            listener,
            ready,
            libraries: ids,
            scan_on_start: config.scan_on_start,
            address,
            connections: Connections::new(Limits {
                total: MAX_CONNECTIONS,
                per_address: config.connections_per_address,
                proxies: config.proxies,
            }),
            local,
            _lock: lock,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until the first signal, then lets open requests end; a second signal stops at once.
    pub async fn run(self) {
        let signals = Signals::new();
        self.run_until(signals.next(), signals.next()).await;
    }

    /// Serves until `stop` resolves, then stops in order, or at once when `at_once` resolves.
    pub async fn run_until(
        self,
        stop: impl Future<Output = ()>,
        at_once: impl Future<Output = ()>,
    ) -> Stopped {
        self.ready.store(true, Ordering::Release);
        if self.scan_on_start {
            self.request_scans().await;
        }
        tokio::select! {
            () = accept(&self.listener, &self.services, &self.connections) => {}
            () = stop => tracing::info!("stopping; a second signal stops at once"),
        }
        self.ready.store(false, Ordering::Release);
        if let Some(local) = &self.local {
            local.withdraw();
        }
        let stopping = async {
            self.sessions.close_all().await;
            self.services.shutdown.cancel();
            let cut_off = self.connections.drain(DRAIN).await;
            if cut_off > 0 {
                tracing::warn!(connections = cut_off, "answers were cut off that clients were still reading");
            }
            let ended = self.rooms.close().await;
            if cut_off == 0 && ended { Stopped::InOrder } else { Stopped::CutOff }
        };
        tokio::select! {
            stopped = stopping => {
                tracing::info!("stopped");
                stopped
            }
            () = at_once => {
                tracing::warn!("stopped at once");
                Stopped::AtOnce
            }
        }
    }

    /// The libraries of the settings, or all where the settings name none.
    async fn request_scans(&self) {
        let mut ids = self.libraries.clone();
        match self.rooms.library.libraries().await {
            Ok(all) => ids.extend(all.into_iter().map(|l| l.id)),
            Err(error) => tracing::error!(%error, "unable to list the libraries"),
        }
        ids.sort_unstable();
        ids.dedup();
        for id in ids {
            self.rooms.scanner.request(&id);
        }
    }
}

/// A data directory that takes no file plays all the same; `spindle top` then wants a token.
fn local(data_dir: &std::path::Path, address: SocketAddr) -> Option<Arc<Local>> {
    let issued = Local::issue(data_dir, address);
    issued
        .inspect_err(|error| tracing::warn!(%error, "unable to write the local credential"))
        .ok()
        .map(Arc::new)
}

/// Two servers of one data directory would each end the other's sessions and pass each other's
/// scans. The kernel lets go of the lock when its holder dies, however that happens.
fn only_server(data_dir: &std::path::Path) -> anyhow::Result<std::fs::File> {
    let path = data_dir.join("server.lock");
    let file = std::fs::File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .with_context(|| format!("unable to open `{}`", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => anyhow::bail!(
            "another server uses the data directory `{}`; stop it or choose another with --data-dir",
            data_dir.display()
        ),
        // A filesystem without locks: nothing can be known, and one server is the rule.
        Err(std::fs::TryLockError::Error(error)) => {
            tracing::warn!(path = %path.display(), %error, "unable to lock the data directory");
            Ok(file)
        }
    }
}

fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A restart must not wait for connections of the last run to be forgotten.
    socket.set_reuseaddr(true)?;
    let bound = socket.bind(address).and_then(|()| socket.listen(BACKLOG));
    bound.map_err(|error| {
        let why = match error.kind() {
            std::io::ErrorKind::AddrInUse => {
                "another program uses that port; stop it or choose another with --listen".to_owned()
            }
            std::io::ErrorKind::PermissionDenied => {
                "ports below 1024 need a privilege; choose another with --listen".to_owned()
            }
            _ => error.to_string(),
        };
        anyhow::anyhow!("unable to listen on {address}: {why}")
    })
}

/// Accepts until the listener breaks for good. Out of descriptors it waits for one to come back.
async fn accept(listener: &TcpListener, services: &Services, connections: &Connections) {
    while let Some(room) = connections.room().await {
        match listener.accept().await {
            Ok((socket, peer)) => {
                let Some(admitted) = connections.admit(room, peer.ip()) else {
                    connection::refuse(&socket);
                    continue;
                };
                let services = services.clone();
                admitted.run(|flow| connection::serve(socket, peer, services, flow));
            }
            Err(error) => {
                tracing::warn!(%error, "unable to accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// SIGINT and SIGTERM.
struct Signals {
    given: Arc<tokio::sync::Notify>,
}

impl Signals {
    fn new() -> Self {
        let given = Arc::new(tokio::sync::Notify::new());
        for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
            match signal(kind) {
                Ok(mut stream) => {
                    let given = Arc::clone(&given);
                    tokio::spawn(async move {
                        while stream.recv().await.is_some() {
                            given.notify_one();
                        }
                    });
                }
                Err(error) => tracing::error!(%error, "unable to listen for signals"),
            }
        }
        Self { given }
    }

    /// The next signal.
    async fn next(&self) {
        self.given.notified().await;
    }
}

/// Microseconds since the epoch, for commands that show a time.
#[must_use]
pub fn now_us() -> i64 {
    SystemClock.unix_us()
}
