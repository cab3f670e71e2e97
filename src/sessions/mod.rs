//! Live playback: a session is opened by a decision, fed by requests and reports, and closed by the
//! client or by silence. Its I/O record outlives it in the history. No bytes here, no decisions.

mod choice;
mod error;
mod input;
mod open;
mod record;
mod subtitles;
mod volumes;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use serde::{Deserialize, Serialize};
use spindle_base::clock::{SharedClock, rfc3339};
use spindle_base::shutdown::Shutdown;
use spindle_base::sync::Mutex;
use spindle_library::{Library, NewHistory, Progress, Role, User};
use spindle_media::info::MediaInfo;
use spindle_playback::{ClientProfile, Decision, Failures, Method, Profiles};
use spindle_storage::{IoRecord, Storage, StreamId};
use spindle_transcode::{Container, Rendition, Transcoder};
use tokio::sync::broadcast;

use crate::auth::signature::Key;

pub use choice::{DryRun, DryVersion, ReasonView, reasons};
pub use error::SessionError;
pub use open::{AudioTrack, Open, Opened, StorageView, label};
pub use record::{IoView, Table};
pub use subtitles::{Original, OriginalTrack, SubtitleSource, SubtitleTrack, fonts};
pub use volumes::{LibraryOnVolume, Volume};

use input::SharedInputs;

/// How often the registry looks for silent sessions and sends rates.
const TICK: Duration = Duration::from_secs(1);
/// A player reports every 5 s: by then it has been told.
const REMEMBERED_ENDS: usize = 256;
/// How often the record of a live session is saved, in ticks: what a killed server may lose.
const SAVE_EVERY_TICKS: u64 = 10;
/// Sessions that one user may have: a household's televisions, and players that were closed without a word.
const MAX_PER_USER: usize = 32;
/// Sessions that end at the same time when the server stops.
const CLOSING: usize = 16;
/// Records that wait for a database that cannot be written.
const MAX_UNSAVED: usize = 64;
/// Events that a slow listener may be behind.
const EVENTS: usize = 64;

/// What the registry works with.
pub struct Parts {
    /// Items, states, history.
    pub library: Library,
    /// Disks.
    pub storage: Storage,
    /// Workers.
    pub transcoder: Transcoder,
    /// Time.
    pub clock: SharedClock,
    /// Signs media URLs.
    pub key: Key,
    /// Client profiles: built in, and the owner's.
    pub profiles: Arc<Profiles>,
    /// Silence after which a session ends, in seconds.
    pub idle_s: u64,
}

/// The registry of live sessions. Cheap to clone.
#[derive(Clone)]
pub struct Sessions(Arc<Inner>);

struct Inner {
    parts: Parts,
    live: Mutex<HashMap<String, Arc<Session>>, 20>,
    inputs: SharedInputs,
    failures: Mutex<Failures, 21>,
    /// Sessions that have ended and could not be written yet.
    unsaved: Mutex<VecDeque<Ended>, 22>,
    /// Sessions that somebody ended, the last `REMEMBERED_ENDS`: their players are told so.
    ended: Mutex<VecDeque<String>, 23>,
    next_stream: AtomicU64,
    events: broadcast::Sender<Event>,
}

/// A session that has ended, its record, and when (microseconds since the Unix epoch).
type Ended = (Arc<Session>, Option<IoRecord>, i64);

/// Something to tell the pages.
#[derive(Debug, Clone)]
pub enum Event {
    /// A session began, moved or ended.
    Session(SessionView),
    /// Bytes a second of each disk for each session.
    Io(IoRates),
    /// Something happened to a disk.
    Notice(DiskNotice),
}

/// What happened to a disk: for the owner.
#[derive(Debug, Clone, Serialize)]
pub struct DiskNotice {
    /// Always `disk`.
    pub code: &'static str,
    /// Its name; absent where it is about a whole volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<String>,
    /// For a person.
    pub text: String,
    /// When, RFC 3339.
    pub at: String,
}

impl From<spindle_storage::Notice> for DiskNotice {
    fn from(n: spindle_storage::Notice) -> Self {
        let text = if n.disk.is_empty() { n.what } else { format!("{}: {}", n.disk, n.what) };
        let disk = Some(n.disk).filter(|d| !d.is_empty());
        Self { code: "disk", disk, text, at: rfc3339(n.at_unix_us) }
    }
}

/// Rates of the last second.
#[derive(Debug, Clone, Default, Serialize)]
pub struct IoRates {
    /// By session id.
    pub sessions: HashMap<String, SessionRates>,
    /// Bytes a second read from each disk, by whomever.
    pub disks: HashMap<String, f64>,
    /// The same with writes, requests and busy share.
    pub rates: Vec<spindle_storage::DiskRate>,
}

/// Rates of one session.
#[derive(Debug, Clone, Default, Serialize)]
pub struct SessionRates {
    /// Bytes a second by disk.
    pub disks: HashMap<String, u64>,
    /// Account that watches, to decide who hears of it.
    #[serde(skip)]
    pub owner: String,
}

impl Event {
    /// What of this event `user` may hear: sessions are one's own, or everybody's for the owner.
    #[must_use]
    pub fn for_user(self, user: &User) -> Option<Self> {
        match self {
            Self::Session(view) => may_see(user, &view.owner).then_some(Self::Session(view)),
            Self::Io(mut rates) => {
                rates.sessions.retain(|_, session| may_see(user, &session.owner));
                Some(Self::Io(rates))
            }
            // It names disks and folders of the machine.
            Self::Notice(notice) => (user.role == Role::Admin).then_some(Self::Notice(notice)),
        }
    }
}

/// How the bytes of a session are made.
pub enum Delivery {
    /// The file as it is.
    File,
    /// Segments, fetched one by one.
    Hls(Cut),
    /// Segments in a row, as one answer.
    Stream(Cut),
}

/// A title cut into segments.
pub struct Cut {
    /// Workers and segments.
    pub rendition: Rendition,
    /// Where segments begin, microseconds.
    pub boundaries: Vec<i64>,
    /// What the segments are.
    pub container: Container,
}

/// One viewer playing one file.
pub struct Session {
    /// Opaque id.
    pub id: String,
    /// Its number for the recorder.
    pub stream: StreamId,
    /// Who watches.
    pub user: User,
    /// What.
    pub item: String,
    /// Its title, for people.
    pub title: String,
    /// The file, open: a renamed or replaced file plays on to its end.
    pub file: spindle_storage::MediaFile,
    /// Path of the file below its library, for people.
    pub file_name: String,
    /// Content type of the file as it is.
    pub content_type: &'static str,
    /// Name of the client.
    pub client: String,
    /// What is known of the file.
    pub info: MediaInfo,
    /// The decision, made once.
    pub decision: Decision,
    /// What carries it out.
    pub delivery: Delivery,
    /// Subtitle streams that this client may fetch.
    pub subtitles: Vec<SubtitleSource>,
    /// Length in seconds.
    pub duration_s: Option<f64>,
    /// Bits a second that go out, as far as known.
    pub bitrate_bps: Option<u64>,
    /// What was asked for, for the next way when this one fails.
    request: Open,
    /// Which version of the item.
    version: String,
    started_us: i64,
    requests: AtomicUsize,
    live: Mutex<Live, 30>,
}

/// What changes while a session lives.
#[derive(Debug, Default)]
struct Live {
    position_s: f64,
    paused: bool,
    buffered_s: Option<f64>,
    /// By the clock that nobody sets.
    seen_us: u64,
    /// The same; 0: not yet.
    reported_us: u64,
    played_s: f64,
    rates: HashMap<String, u64>,
    totals: HashMap<String, u64>,
    io: Option<Box<IoShort>>,
}

/// Where the reads of a live session go, in short.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IoShort {
    /// How it is known.
    pub attribution: spindle_storage::AttributionMode,
    /// Bytes handed to the client.
    pub served_bytes: u64,
    /// Bytes that came off disks.
    pub read_bytes: u64,
    /// Disks that a large read can use at once.
    pub columns: u32,
    /// Of those, used.
    pub columns_used: u32,
    /// Copies that each byte has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copies: Option<u32>,
    /// Of those, used, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copies_used: Option<u32>,
    /// The part that was in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_share: Option<f64>,
    /// How many waits there were.
    pub stalls: usize,
    /// How many jumps.
    pub seeks: usize,
    /// For a person.
    pub verdict: String,
}

impl From<&IoRecord> for IoShort {
    fn from(record: &IoRecord) -> Self {
        let s = &record.striping;
        Self {
            attribution: record.attribution,
            served_bytes: record.served_bytes,
            read_bytes: record.read_bytes,
            columns: s.columns,
            columns_used: s.columns_used,
            copies: s.copies,
            copies_used: s.copies_used,
            cache_share: s.cache_share,
            stalls: record.stalls.len(),
            seeks: record.seeks.len(),
            verdict: s.verdict.clone(),
        }
    }
}

/// A session as `GET /sessions` shows it.
#[derive(Debug, Clone, Serialize)]
pub struct SessionView {
    /// Opaque id.
    pub session: String,
    /// Name of who watches.
    pub user: String,
    /// Name of the client.
    pub client: String,
    /// Id of the item.
    pub item: String,
    /// Its title.
    pub title: String,
    /// How it goes out.
    pub method: Method,
    /// Bits a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bitrate: Option<u64>,
    /// Where it is, in seconds.
    pub position_s: f64,
    /// Length in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_s: Option<f64>,
    /// Whether it stands still.
    pub paused: bool,
    /// Seconds in the client's buffer, as it reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffered_s: Option<f64>,
    /// Seconds until the buffer is empty at the pace of the last reports; absent when it grows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted_stall_s: Option<f64>,
    /// Bytes a second by disk.
    pub disks: HashMap<String, u64>,
    /// Its record in short, of the last second; absent before the first, and where nothing is recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io: Option<Box<IoShort>>,
    /// Start, RFC 3339.
    pub started: String,
    /// Whether it has ended.
    pub ended: bool,
    /// Account that watches, to decide who hears of it.
    #[serde(skip)]
    pub owner: String,
}

/// What a playing client reports.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Report {
    /// Where it is, in seconds.
    pub position_s: f64,
    /// Whether it stands still.
    #[serde(default)]
    pub paused: bool,
    /// Seconds in its buffer.
    #[serde(default)]
    pub buffered_s: Option<f64>,
}

/// What a client reports when it cannot play what it was given.
#[derive(Debug, Clone, Default)]
pub struct Failure {
    /// Where it was, in seconds; the next way begins there.
    pub position_s: Option<f64>,
    /// What went wrong.
    pub error: FailureKind,
    /// The player's own words, for the log.
    pub detail: Option<String>,
    /// What the client can after all, where it learnt that from the failure: a codec that it claimed and
    /// does not show. The next way follows from this alone.
    pub profile: Option<ClientProfile>,
}

/// What went wrong in a player.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// It could not decode it.
    Decode,
    /// It does not open this kind.
    Unsupported,
    /// Bytes did not arrive: the same way is tried again, and nothing is held against it.
    Network,
    /// It does not say.
    #[default]
    Other,
}

/// A request of a session: while it lives the session is not silent.
pub struct Attached(Arc<Session>, SharedClock);

impl std::ops::Deref for Attached {
    type Target = Session;
    fn deref(&self) -> &Session {
        &self.0
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Ordering::Relaxed);
        self.0.live.lock().seen_us = self.1.monotonic_us();
    }
}

/// Does what changes sessions to its end, also when its asker goes meanwhile (a request that HTTP/2 takes back is dropped where it
/// waits): half of it would leave a file open that nobody closes, or a session without its record.
async fn to_its_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, SessionError>> + Send + 'static,
) -> Result<T, SessionError> {
    match tokio::spawn(work).await {
        Ok(result) => result,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Err(SessionError::Stopping),
    }
}

impl Sessions {
    /// An empty registry, with its ticker running until shutdown.
    #[must_use]
    pub fn start(parts: Parts, shutdown: &Shutdown) -> Self {
        let (events, _) = broadcast::channel(EVENTS);
        let inputs = SharedInputs::new(parts.storage.clone());
        let sessions = Self(Arc::new(Inner {
            parts,
            live: Mutex::default(),
            inputs,
            failures: Mutex::default(),
            unsaved: Mutex::default(),
            ended: Mutex::default(),
            next_stream: AtomicU64::new(1),
            events,
        }));
        let (ticker, until) = (sessions.clone(), shutdown.clone());
        shutdown.spawn("sessions", async move { ticker.tick_until(until).await });
        sessions
    }

    /// Events from now on.
    #[must_use]
    pub fn subscribe(&self) -> broadcast::Receiver<Event> {
        self.0.events.subscribe()
    }

    /// The session that a signed URL stands for, kept alive while the answer is being sent.
    #[must_use]
    pub fn attach(&self, signed: &str) -> Option<Attached> {
        let now_us = self.0.parts.clock.unix_us();
        let id = self.0.parts.key.verify(signed, now_us / 1_000_000)?;
        let session = self.0.live.lock().get(id).cloned()?;
        session.requests.fetch_add(1, Ordering::Relaxed);
        session.live.lock().seen_us = self.0.parts.clock.monotonic_us();
        Some(Attached(session, self.0.parts.clock.clone()))
    }

    /// Live sessions: one's own, or everybody's for the owner.
    #[must_use]
    pub fn list(&self, user: &User) -> Vec<SessionView> {
        let mut views: Vec<_> =
            self.snapshot().iter().filter(|s| may_see(user, &s.user.id)).map(|s| s.view(false)).collect();
        views.sort_by(|a, b| a.started.cmp(&b.started));
        views
    }

    /// Live sessions by method, for metrics.
    #[must_use]
    pub fn counts(&self) -> [(&'static str, usize); 3] {
        let of = |method| {
            let live = self.0.live.lock();
            live.values().filter(|s| s.decision.method == method).count()
        };
        [
            (word(Method::DirectPlay), of(Method::DirectPlay)),
            (word(Method::DirectStream), of(Method::DirectStream)),
            (word(Method::Transcode), of(Method::Transcode)),
        ]
    }

    /// Takes a client's report. When it returns, the resume point is on disk.
    ///
    /// # Errors
    /// No such session of this user; a position that is no time.
    pub async fn progress(&self, user: &User, id: &str, report: Report) -> Result<(), SessionError> {
        if !report.position_s.is_finite() || report.position_s < 0.0 {
            return Err(SessionError::BadPosition);
        }
        let session = self.reporting(user, id)?;
        let played_s = session.note(report, self.0.parts.clock.monotonic_us());
        let progress = Progress { position_s: report.position_s, played_s };
        self.0.parts.library.progress(&user.id, &session.item, progress).await?;
        self.tell(&session, false);
        Ok(())
    }

    /// Every client profile of this server.
    #[must_use]
    pub fn profiles(&self) -> &Profiles {
        &self.0.parts.profiles
    }

    /// Takes a client's word that it cannot play what it was given, ends the session and opens one that
    /// goes the next best way: direct play, direct stream, transcode. What failed before anything was
    /// seen is remembered for this client and files of this kind, while the server runs.
    ///
    /// # Errors
    /// No such session of this user; no way is left; as [`Self::open`].
    pub async fn failed(&self, user: &User, id: &str, failure: Failure) -> Result<Opened, SessionError> {
        let (sessions, user, id) = (self.clone(), user.clone(), id.to_owned());
        to_its_end(async move { sessions.next_way(&user, &id, failure).await }).await
    }

    async fn next_way(&self, user: &User, id: &str, failure: Failure) -> Result<Opened, SessionError> {
        /// Seconds that must have played for a way to count as one that works.
        const WORKED_S: f64 = 10.0;
        let position = failure.position_s.unwrap_or(0.0);
        if !position.is_finite() || position < 0.0 {
            return Err(SessionError::BadPosition);
        }
        let session = self.reporting(user, id)?;
        let method = session.decision.method;
        let (reported_s, played_s) = {
            let live = session.live.lock();
            (live.position_s, live.played_s)
        };
        let detail: String = failure.detail.unwrap_or_default().chars().take(200).collect();
        tracing::warn!(session = %id, client = %session.client, method = word(method), kind = ?failure.error, detail, "a client could not play");
        let of_the_way = failure.error != FailureKind::Network;
        let client = choice::client_key(&session.user, &session.request.profile);
        let of = spindle_playback::signature(&session.info, &session.decision);
        // A profile that is the same teaches nothing.
        let learnt = failure.profile.filter(|p| *p != session.request.profile);
        if of_the_way && method == Method::Transcode && learnt.is_none() {
            // Whatever it is, the next try begins anew.
            self.0.failures.lock().forget(&client);
            self.close(&session).await;
            return Err(SessionError::Refused {
                file: session.file_name.clone(),
                reason: spindle_playback::Reason::EveryWayFailed,
            });
        }
        if of_the_way && method != Method::Transcode && played_s < WORKED_S {
            let now_s = self.0.parts.clock.unix_us() / 1_000_000;
            self.0.failures.lock().note(&client, &of, method, now_s);
        }
        let mut next = session.request.clone();
        next.version = Some(session.version.clone());
        next.start_s = failure.position_s.unwrap_or_else(|| reported_s.max(next.start_s));
        if let Some(profile) = learnt {
            next.profile = profile;
        } else if of_the_way {
            next.failed = Some(choice::next_failed(next.failed, method));
        }
        self.close(&session).await;
        self.open(next).await
    }

    /// Ends a session and keeps its record.
    ///
    /// # Errors
    /// No such session of this user.
    pub async fn end(&self, user: &User, id: &str) -> Result<(), SessionError> {
        let session = self.own(user, id)?;
        let sessions = self.clone();
        to_its_end(async move { sessions.end_of(&session).await }).await
    }

    async fn end_of(&self, session: &Arc<Session>) -> Result<(), SessionError> {
        {
            let mut ended = self.0.ended.lock();
            ended.push_back(session.id.clone());
            if ended.len() > REMEMBERED_ENDS {
                ended.pop_front();
            }
        }
        self.close(session).await;
        Ok(())
    }

    /// The I/O record, live or from the history.
    ///
    /// # Errors
    /// No such session that this user may see.
    pub async fn io(&self, user: &User, id: &str) -> Result<IoView, SessionError> {
        let live = self.0.live.lock().get(id).cloned();
        if let Some(session) = live {
            if !may_see(user, &session.user.id) {
                return Err(SessionError::no_such(id));
            }
            if !self.0.parts.storage.records() {
                return Err(SessionError::NotRecorded(session.id.clone()));
            }
            let record = self.record(session.stream).await;
            return record.map(|record| session.io_view(record)).ok_or_else(|| SessionError::no_such(id));
        }
        let unsaved = self.0.unsaved.lock().iter().find(|(s, _, _)| s.id == id).cloned();
        if let Some((session, record, _)) = unsaved {
            if !may_see(user, &session.user.id) {
                return Err(SessionError::no_such(id));
            }
            let record = record.ok_or_else(|| SessionError::NotKept(session.id.clone()))?;
            return Ok(session.io_view(record));
        }
        let entry = self.0.parts.library.history_entry(id).await.map_err(|_| SessionError::no_such(id))?;
        if !entry.user.as_deref().is_some_and(|owner| may_see(user, owner)) && user.role != Role::Admin {
            return Err(SessionError::no_such(id));
        }
        let stored = self.0.parts.library.io(id).await?;
        // The entry is there and was allowed to be seen.
        let stored = stored.ok_or_else(|| SessionError::NotKept(entry.session))?;
        serde_json::from_value(stored)
            .map_err(|source| SessionError::Stored { session: id.to_owned(), source })
    }

    /// Ends every session: at shutdown, so that records are whole.
    pub async fn close_all(&self) {
        let sessions = futures_util::stream::iter(self.snapshot());
        sessions.for_each_concurrent(CLOSING, |session| async move { self.close(&session).await }).await;
        self.save_unsaved().await;
    }

    /// The sessions that are one too many for a user: whoever was silent for longest.
    async fn end_surplus(&self, user: &str) {
        let surplus = {
            let live = self.0.live.lock();
            let mut own: Vec<_> = live.values().filter(|s| s.user.id == user).cloned().collect();
            drop(live);
            // Looked at once each: they move while they are sorted.
            own.sort_by_cached_key(|s| (s.requests.load(Ordering::Relaxed), s.live.lock().seen_us));
            own.truncate(own.len().saturating_sub(MAX_PER_USER));
            own
        };
        for session in surplus {
            tracing::info!(session = %session.id, "session ended: its user has opened too many others");
            self.close(&session).await;
        }
    }

    /// Ends sessions whose sign-in is over: signed out, removed, or with a new password.
    async fn end_signed_out(&self) {
        for session in self.snapshot() {
            match self.0.parts.library.user_of_token(&session.request.token_hash).await {
                Ok(Some(_)) => {}
                Ok(None) => {
                    tracing::info!(session = %session.id, "session ended: its sign-in is over");
                    self.close(&session).await;
                }
                Err(error) => return tracing::warn!(%error, "unable to look up the sign-ins of sessions"),
            }
        }
    }

    /// Tries again to keep records that could not be written.
    async fn save_unsaved(&self) {
        let waiting: Vec<_> = self.0.unsaved.lock().drain(..).collect();
        for (session, record, ended_us) in waiting {
            self.keep(session, record, ended_us).await;
        }
    }

    /// Keeps the history and the record of a session that has ended; what cannot be written (a full disk) waits.
    async fn keep(&self, session: Arc<Session>, record: Option<IoRecord>, ended_us: i64) {
        let Err(error) = self.save(&session, record.clone(), Some(ended_us)).await else { return };
        tracing::warn!(session = %session.id, %error, "unable to keep the record of a session; it is tried again");
        let mut unsaved = self.0.unsaved.lock();
        if unsaved.len() >= MAX_UNSAVED
            && let Some((lost, _, _)) = unsaved.pop_front()
        {
            tracing::error!(session = %lost.id, "the record of a session is lost: too many could not be written");
        }
        unsaved.push_back((session, record, ended_us));
    }

    fn snapshot(&self) -> Vec<Arc<Session>> {
        self.0.live.lock().values().cloned().collect()
    }

    fn own(&self, user: &User, id: &str) -> Result<Arc<Session>, SessionError> {
        let session = self.0.live.lock().get(id).cloned();
        session.filter(|s| may_see(user, &s.user.id)).ok_or_else(|| SessionError::no_such(id))
    }

    /// The session of a player that reports. One that somebody ended is not begun anew, as one that ended by itself is.
    fn reporting(&self, user: &User, id: &str) -> Result<Arc<Session>, SessionError> {
        let is_ended = || self.0.ended.lock().iter().any(|ended| ended == id);
        self.own(user, id).map_err(|error| if is_ended() { SessionError::Ended } else { error })
    }

    async fn close(&self, session: &Arc<Session>) {
        // Whoever takes it out of the map ends it; a second close finds nothing.
        if self.0.live.lock().remove(&session.id).is_none() {
            return;
        }
        self.0.inputs.leave(session.stream);
        let ended_us = self.0.parts.clock.unix_us();
        let (storage, stream) = (self.0.parts.storage.clone(), session.stream);
        // It waits for the last events of the trace: not on the executor.
        let ending = tokio::task::spawn_blocking(move || storage.end(stream));
        let record = ending.await.unwrap_or_default();
        self.keep(Arc::clone(session), record, ended_us).await;
        self.tell(session, true);
    }

    /// Keeps the history, and the record if there is one.
    async fn save(
        &self,
        session: &Session,
        record: Option<IoRecord>,
        ended_us: Option<i64>,
    ) -> Result<(), SessionError> {
        let mut summary = record::summary(record.as_ref(), session);
        if let (None, Some(summary)) = (ended_us, summary.as_object_mut()) {
            // Where a server that is killed will have ended it.
            summary.insert("as_of_us".to_owned(), self.0.parts.clock.unix_us().into());
        }
        let entry = NewHistory {
            session: session.id.clone(),
            user: Some(session.user.id.clone()),
            item: Some(session.item.clone()),
            title: session.title.clone(),
            method: word(session.decision.method).to_owned(),
            client: session.client.clone(),
            started_us: session.started_us,
            ended_us,
            summary,
        };
        let library = &self.0.parts.library;
        library.put_history(entry).await?;
        let Some(record) = record else { return Ok(()) };
        let view = session.io_view(record);
        let value = serde_json::to_value(&view)
            .map_err(|source| SessionError::Stored { session: session.id.clone(), source })?;
        library.put_io(&session.id, value).await?;
        Ok(())
    }

    /// The record as it stands. It waits for the recorder: not on the executor.
    async fn record(&self, stream: StreamId) -> Option<IoRecord> {
        let storage = self.0.parts.storage.clone();
        if !storage.records() {
            return None;
        }
        tokio::task::spawn_blocking(move || storage.record(stream)).await.ok().flatten()
    }

    fn tell(&self, session: &Session, ended: bool) {
        // No listener is no error.
        drop(self.0.events.send(Event::Session(session.view(ended))));
    }

    async fn tick_until(self, shutdown: Shutdown) {
        let mut interval = tokio::time::interval(TICK);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut ticks = 0_u64;
        loop {
            tokio::select! {
                () = shutdown.requested() => return,
                _ = interval.tick() => {}
            }
            ticks += 1;
            self.tick(ticks.is_multiple_of(SAVE_EVERY_TICKS)).await;
        }
    }

    async fn tick(&self, save: bool) {
        let now_us = self.0.parts.clock.monotonic_us();
        let mut rates = IoRates::default();
        if save {
            self.save_unsaved().await;
            self.end_signed_out().await;
        }
        for session in self.snapshot() {
            if session.is_silent(now_us, self.0.parts.idle_s) {
                tracing::info!(session = %session.id, "session ended: nothing was heard of its client");
                self.close(&session).await;
                continue;
            }
            let record = self.record(session.stream).await;
            if let Some(record) = &record {
                let disks = session.rates(record);
                let owner = session.user.id.clone();
                rates.sessions.insert(session.id.clone(), SessionRates { disks, owner });
            }
            if save && let Err(error) = self.save(&session, record, None).await {
                tracing::warn!(session = %session.id, %error, "unable to save the record of a session");
            }
        }
        for notice in self.0.parts.storage.take_notices() {
            drop(self.0.events.send(Event::Notice(notice.into())));
        }
        if self.0.events.receiver_count() > 0 {
            rates.rates = self.0.parts.storage.disk_rates();
            rates.disks = rates.rates.iter().map(|d| (d.disk.clone(), d.read_bytes_per_s)).collect();
            drop(self.0.events.send(Event::Io(rates)));
        }
    }
}

impl Session {
    /// Length in microseconds; 0 if unknown.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the cast saturates")]
    pub fn duration_us(&self) -> i64 {
        (self.duration_s.unwrap_or(0.0) * 1e6).round() as i64
    }

    /// Takes a report and gives the seconds really played so far, by our clock: time between two
    /// reports of which the first did not say "paused".
    fn note(&self, report: Report, now_us: u64) -> f64 {
        let mut live = self.live.lock();
        if live.reported_us > 0 && !live.paused {
            #[expect(clippy::cast_precision_loss, reason = "microseconds of one session fit 53 bits")]
            let passed_s = now_us.saturating_sub(live.reported_us) as f64 / 1e6;
            // A client that was silent for minutes did not prove that it played.
            live.played_s += passed_s.min(60.0);
        }
        live.position_s = report.position_s;
        live.paused = report.paused;
        live.buffered_s = report.buffered_s.filter(|b| b.is_finite() && *b >= 0.0);
        live.reported_us = now_us;
        live.seen_us = now_us;
        live.played_s
    }

    fn is_silent(&self, now_us: u64, idle_s: u64) -> bool {
        let silent_us = now_us.saturating_sub(self.live.lock().seen_us);
        self.requests.load(Ordering::Relaxed) == 0 && silent_us > idle_s.saturating_mul(1_000_000)
    }

    /// Bytes a second by disk since the last call, which comes once a tick.
    fn rates(&self, record: &IoRecord) -> HashMap<String, u64> {
        let mut live = self.live.lock();
        let totals: HashMap<String, u64> =
            record.disks.iter().map(|d| (d.disk.clone(), d.read_bytes)).collect();
        live.rates = totals
            .iter()
            .map(|(disk, total)| {
                let before = live.totals.get(disk).copied().unwrap_or(0);
                (disk.clone(), total.saturating_sub(before))
            })
            .collect();
        live.totals = totals;
        live.io = Some(Box::new(record.into()));
        live.rates.clone()
    }

    fn view(&self, ended: bool) -> SessionView {
        let live = self.live.lock();
        SessionView {
            session: self.id.clone(),
            user: self.user.name.clone(),
            client: self.client.clone(),
            item: self.item.clone(),
            title: self.title.clone(),
            method: self.decision.method,
            bitrate: self.bitrate_bps,
            position_s: live.position_s,
            duration_s: self.duration_s,
            paused: live.paused,
            buffered_s: live.buffered_s,
            predicted_stall_s: self.predicted_stall_s(&live),
            disks: live.rates.clone(),
            io: live.io.clone(),
            started: rfc3339(self.started_us),
            ended,
            owner: self.user.id.clone(),
        }
    }

    /// With a buffer of `b` seconds that is filled slower than it is played, it is empty after
    /// `b / (1 - fill)` seconds, where `fill` is the rate off the disks against the bitrate. Only
    /// told for a client that plays, has less than half a minute, and is not served from memory.
    fn predicted_stall_s(&self, live: &Live) -> Option<f64> {
        let buffered = live.buffered_s.filter(|b| *b < 30.0 && !live.paused)?;
        let needed = self.bitrate_bps.filter(|b| *b > 0)?;
        let got: u64 = live.rates.values().sum();
        if got == 0 || got.saturating_mul(8) >= needed {
            return None;
        }
        #[expect(clippy::cast_precision_loss, reason = "rates of disks fit 53 bits")]
        let fill = got.saturating_mul(8) as f64 / needed as f64;
        Some(buffered / (1.0 - fill))
    }

    fn io_view(&self, record: IoRecord) -> IoView {
        IoView {
            session: self.id.clone(),
            item: self.item.clone(),
            file: self.file_name.clone(),
            method: word(self.decision.method).to_owned(),
            client: self.client.clone(),
            record,
        }
    }
}

fn may_see(user: &User, owner: &str) -> bool {
    user.role == Role::Admin || user.id == owner
}

/// The method's word on the wire.
#[must_use]
pub fn word(method: Method) -> &'static str {
    match method {
        Method::DirectPlay => "direct_play",
        Method::DirectStream => "direct_stream",
        Method::Transcode => "transcode",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(id: &str, role: Role) -> User {
        User { id: id.to_owned(), name: id.to_owned(), role, created: String::new() }
    }

    #[test]
    fn a_viewer_hears_of_own_sessions_and_the_owner_of_all() {
        let mut rates = IoRates::default();
        for owner in ["ann", "bob"] {
            let of = SessionRates { owner: owner.to_owned(), ..SessionRates::default() };
            rates.sessions.insert(format!("session of {owner}"), of);
        }
        let heard = |who: &User| match Event::Io(rates.clone()).for_user(who) {
            Some(Event::Io(rates)) => rates.sessions.len(),
            _ => 0,
        };
        assert_eq!(heard(&user("bob", Role::User)), 1);
        assert_eq!(heard(&user("cyd", Role::User)), 0);
        assert_eq!(heard(&user("ann", Role::Admin)), 2);
    }
}
