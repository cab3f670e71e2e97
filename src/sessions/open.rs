//! Opening a session: find the file, decide once, plan the segments, sign the URL.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde::Serialize;
use spindle_base::id::new_id;
use spindle_base::sync::Mutex;
use spindle_library::{PlayFile, Playable, User};
use spindle_media::info::{MediaInfo, Stream, StreamKind};
use spindle_media::keyframes::KeyframeIndex;
use spindle_media::segments::{copy_boundaries, encode_boundaries};
use spindle_playback::choose::is_in;
use spindle_playback::{
    Action, ClientProfile, Decider, Decision, Method, Protocol, SubtitleChoice, TrackVerdict,
};
use spindle_storage::{MediaFile, StorageError, StreamId};
use spindle_transcode::{AudioPlan, Boundaries, Container, FileKey, Plan, RenditionKey, VideoPlan};
use tokio_util::sync::CancellationToken;

use super::choice::{ReasonView, client_key, reasons};
use super::subtitles::{self, SubtitleTrack};
use super::{Cut, Delivery, Live, Session, SessionError, Sessions};

/// A copied video is cut at the first key frame after this long (Apple's authoring rules: 6 s).
const COPY_TARGET_US: i64 = 6_000_000;
/// A URL is valid for as long as anybody watches in one go; the session ends it long before.
const URL_LIFE_S: i64 = 24 * 3600;
/// How long `/play` waits for a file to be opened: a disk that sleeps needs as long to wake up.
const OPEN_PATIENCE: Duration = Duration::from_secs(30);
/// How long `/play` waits for the key frames of a file that has no index yet.
const KEYFRAME_PATIENCE: Duration = Duration::from_secs(12);
/// How long `/play` waits for the question which disks hold the file.
const LAYOUT_PATIENCE: Duration = Duration::from_secs(2);

/// A request to play.
#[derive(Debug, Clone)]
pub struct Open {
    /// Who.
    pub user: User,
    /// The sign-in that it is asked by: the session ends with it.
    pub token_hash: [u8; 32],
    /// Id of the item.
    pub item: String,
    /// Id of the version; the best if absent.
    pub version: Option<String>,
    /// Which part of a version in several files, from 0.
    pub part: usize,
    /// What the client can play.
    pub profile: ClientProfile,
    /// Chosen sound stream.
    pub audio: Option<u32>,
    /// Chosen subtitles.
    pub subtitle: SubtitleChoice,
    /// Limit in bits a second.
    pub max_bitrate_bps: Option<u64>,
    /// Where to begin, in seconds.
    pub start_s: f64,
    /// The furthest way that failed before this one.
    pub failed: Option<Method>,
}

/// A file that is gone from a library that is there is missing; with the library away (its mount, its folder), it may well be there again.
fn missing_or_away(error: &StorageError, part: &PlayFile) -> SessionError {
    match error {
        StorageError::Open { source, .. } if source.kind() == ErrorKind::NotFound && part.available => {
            SessionError::FileMissing(part.name.clone())
        }
        _ => SessionError::Unavailable(part.name.clone()),
    }
}

/// What the client needs to play.
#[derive(Debug, Clone, Serialize)]
pub struct Opened {
    /// The session's id.
    pub session: String,
    /// How the file goes out.
    pub method: Method,
    /// The same in one sentence for people, as a dry run has it.
    pub sentence: String,
    /// Why not as it is.
    pub reasons: Vec<ReasonView>,
    /// What to fetch, relative to the server.
    pub url: String,
    /// `http` or `hls`.
    pub protocol: Protocol,
    /// Where to begin, in seconds.
    pub start_s: f64,
    /// Subtitles that can be shown.
    pub subtitles: Vec<SubtitleTrack>,
    /// Sound tracks that can be chosen.
    pub audio: Vec<AudioTrack>,
    /// Length in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_s: Option<f64>,
    /// Where the file lies.
    pub storage: StorageView,
    /// Which part of how many this is.
    pub part: usize,
    /// Number of parts.
    pub parts: usize,
    /// The decision with every rule.
    pub decision: Decision,
}

/// A sound track.
#[derive(Debug, Clone, Serialize)]
pub struct AudioTrack {
    /// The stream's index.
    pub index: u32,
    /// For people.
    pub label: String,
    /// ISO 639-2/T.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// Whether it is the one that plays.
    pub selected: bool,
}

/// Where the file lies.
#[derive(Debug, Clone, Default, Serialize)]
pub struct StorageView {
    /// Physical disks that hold it.
    pub disks: Vec<String>,
    /// What a person should know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

impl Sessions {
    /// Opens a session.
    ///
    /// # Errors
    /// No such item; its file cannot be reached or read; its key frames are not known yet.
    pub async fn open(&self, open: Open) -> Result<Opened, SessionError> {
        let sessions = self.clone();
        super::to_its_end(async move { sessions.open_one(open).await }).await
    }

    async fn open_one(&self, open: Open) -> Result<Opened, SessionError> {
        let parts = &self.0.parts;
        let playable = self.version_to_play(&open).await?;
        let count = playable.parts.len();
        let part = playable.parts.get(open.part).cloned().ok_or_else(|| SessionError::NoPart {
            title: playable.title.clone(),
            parts: count,
            part: open.part,
        })?;
        if let Some(reason) = &part.unreadable {
            return Err(SessionError::Unreadable { file: part.name, reason: reason.clone() });
        }
        let stream = StreamId(self.0.next_stream.fetch_add(1, Ordering::Relaxed));
        // The record begins before the first byte is read for this viewer.
        parts.storage.begin(stream);
        let opened = self.open_file(&open, playable, part, stream).await;
        if opened.is_err() {
            self.0.inputs.leave(stream);
            let storage = parts.storage.clone();
            // It waits for the last events of the trace: not on the executor, and nobody waits for it.
            drop(tokio::task::spawn_blocking(move || storage.end(stream)));
        }
        let mut opened = opened?;
        opened.parts = count;
        Ok(opened)
    }

    /// The version that was named, or the one that suits the client best.
    async fn version_to_play(&self, open: &Open) -> Result<Playable, SessionError> {
        let library = &self.0.parts.library;
        if open.version.is_some() {
            return Ok(library.playable(&open.item, open.version.as_deref()).await?);
        }
        let mut all = library.playables(&open.item).await?;
        let choice = match all.first() {
            Some(first) if all.len() > 1 => self.choice(open, first).await?,
            _ => return Ok(library.playable(&open.item, None).await?),
        };
        let chosen = self.choose_version(&Decider::new(&open.profile), &all, &choice);
        Ok(all.swap_remove(chosen))
    }

    async fn open_file(
        &self,
        open: &Open,
        playable: Playable,
        part: PlayFile,
        stream: StreamId,
    ) -> Result<Opened, SessionError> {
        let parts = &self.0.parts;
        let opening = tokio::time::timeout(OPEN_PATIENCE, parts.storage.open(&part.path, stream)).await;
        let opened = opening.map_err(|_| {
            tracing::warn!(file = ?part.name, "a file that was asked for could not be opened in time: its disk does not answer");
            SessionError::Unavailable(part.name.clone())
        })?;
        let file = opened.map_err(|error| {
            tracing::warn!(file = ?part.name, %error, "unable to open a file that was asked for");
            missing_or_away(&error, &part)
        })?;
        let info = match part.info.clone() {
            Some(info) => info,
            None => self.probe_now(&file, &part.name).await?,
        };
        let mut choice = self.choice(open, &playable).await?;
        if !is_in(&info, &choice) {
            return Err(SessionError::NoStream(part.name));
        }
        let decider = Decider::new(&open.profile);
        let client = client_key(&open.user, &open.profile);
        let decision = self.decide(&decider, &client, &info, &mut choice);
        if let Some(reason) = decision.refusal {
            return Err(SessionError::Refused { file: part.name, reason });
        }
        if let Err(error) = self.remember(&open.user, &playable, &info, &choice).await {
            // Playing matters more than what is remembered for the next time.
            tracing::warn!(%error, "unable to keep the chosen tracks");
        }
        let delivery = self.delivery(&decision, &info, &part, &file, stream).await?;
        let storage = self.storage_view(&part).await;
        let id = new_id();
        let now_us = parts.clock.unix_us();
        let signed = parts.key.sign(&id, now_us / 1_000_000 + URL_LIFE_S);
        let url = match &delivery {
            Delivery::File => format!("/media/{signed}/file/stream.{}", extension(&info.container)),
            Delivery::Hls(_) => format!("/media/{signed}/hls/master.m3u8"),
            Delivery::Stream(cut) => {
                let name = if cut.container == Container::Mpegts { "film.ts" } else { "film.mp4" };
                let from =
                    if open.start_s > 0.0 { format!("?start_s={}", open.start_s) } else { String::new() };
                format!("/stream/{signed}/{name}{from}")
            }
        };
        let subtitles = subtitles::sources(&info, &part, &open.profile);
        let start_s = info.duration_s.map_or(open.start_s, |d| open.start_s.min(d.max(0.0)));
        let opened = Opened {
            session: id.clone(),
            method: decision.method,
            sentence: decision.sentence(decider.name()),
            reasons: reasons(&decision),
            url,
            protocol: match &delivery {
                Delivery::File | Delivery::Stream(_) => Protocol::Http,
                Delivery::Hls(_) => Protocol::Hls,
            },
            start_s,
            subtitles: subtitles::tracks(&info, &decision, &subtitles, &signed),
            audio: audio_tracks(&info, &decision),
            duration_s: info.duration_s,
            storage,
            part: open.part,
            parts: 1,
            decision: decision.clone(),
        };
        let session = Session {
            id: id.clone(),
            stream,
            user: open.user.clone(),
            item: playable.item,
            title: playable.title,
            file,
            file_name: part.name,
            content_type: content_type(&info),
            client: open.profile.name.clone(),
            bitrate_bps: bitrate(&decision, &info),
            duration_s: info.duration_s,
            info,
            decision,
            delivery,
            subtitles,
            request: open.clone(),
            version: playable.version,
            started_us: now_us,
            requests: AtomicUsize::new(0),
            live: Mutex::new(Live {
                position_s: start_s,
                seen_us: parts.clock.monotonic_us(),
                ..Live::default()
            }),
        };
        let session = Arc::new(session);
        self.0.live.lock().insert(id, Arc::clone(&session));
        self.tell(&session, false);
        tracing::info!(session = %session.id, item = %session.item, method = super::word(session.decision.method), client = %session.client, "session opened");
        self.end_surplus(&session.user.id).await;
        Ok(opened)
    }

    /// A file that the scanner has not come to yet is examined now.
    async fn probe_now(&self, file: &MediaFile, name: &str) -> Result<MediaInfo, SessionError> {
        let fd = file.open_again().await?;
        let probed = self.0.parts.transcoder.probe(Box::new(fd), name).await;
        probed.map_err(|error| match error.kind() {
            spindle_base::error::ErrorKind::Unreadable => {
                SessionError::Unreadable { file: name.to_owned(), reason: error.to_string() }
            }
            _ => SessionError::NotProbed(name.to_owned()),
        })
    }

    async fn delivery(
        &self,
        decision: &Decision,
        info: &MediaInfo,
        part: &PlayFile,
        file: &MediaFile,
        stream: StreamId,
    ) -> Result<Delivery, SessionError> {
        if decision.method == Method::DirectPlay {
            return Ok(Delivery::File);
        }
        let container = match decision.container.as_str() {
            "fmp4" | "mp4" => Container::Fmp4,
            "mpegts" => Container::Mpegts,
            _ => {
                return Err(SessionError::NoOutput {
                    file: part.name.clone(),
                    container: decision.container.clone(),
                });
            }
        };
        let copied = decision.video.as_ref().is_some_and(|v| v.action == Action::Copy);
        let boundaries = if copied {
            let index = self.keyframes(part, file).await?;
            copy_boundaries(&index, COPY_TARGET_US)
        } else {
            let duration_us = microseconds(info.duration_s.unwrap_or(0.0));
            let rate = info.main_video().and_then(|(_, v)| v.frame_rate);
            encode_boundaries(duration_us, rate)
        };
        let boundaries = Boundaries(boundaries);
        if !boundaries.are_valid() {
            return Err(SessionError::Unreadable {
                file: part.name.clone(),
                reason: "its length is not known, so that it cannot be cut into segments".to_owned(),
            });
        }
        let plan = Plan {
            video: decision.video.as_ref().and_then(video_plan),
            audio: decision.audio.as_ref().and_then(audio_plan),
            boundaries: boundaries.clone(),
            container,
            start_us: Some(microseconds(info.start_s)),
            clock_restarts: info.clock_restarts.clone(),
        };
        let key = RenditionKey::new(file_key(file), &plan);
        let input = self.0.inputs.join(key, file, stream);
        let rendition = self.0.parts.transcoder.rendition(key, plan, input);
        let cut = Cut { rendition, boundaries: boundaries.0, container };
        Ok(if decision.protocol == Protocol::Hls { Delivery::Hls(cut) } else { Delivery::Stream(cut) })
    }

    /// The key frames from the index, or collected now. A collection that takes longer than
    /// `/play` may goes on and is kept for the next try.
    async fn keyframes(&self, part: &PlayFile, file: &MediaFile) -> Result<KeyframeIndex, SessionError> {
        if let Some(index) = &part.keyframes {
            return Ok(index.clone());
        }
        if let Some(index) = self.0.parts.library.keyframes(&part.id).await? {
            return Ok(index);
        }
        let fd = file.open_again().await?;
        let (library, transcoder) = (self.0.parts.library.clone(), self.0.parts.transcoder.clone());
        let (id, name) = (part.id.clone(), part.name.clone());
        let collecting = tokio::spawn(async move {
            let index = transcoder.scan_keyframes(Box::new(fd), &name, CancellationToken::new()).await?;
            if let Err(error) = library.set_keyframes(&id, &index).await {
                tracing::warn!(file = %name, %error, "unable to keep the key frames");
            }
            Ok::<_, spindle_transcode::TranscodeError>(index)
        });
        match tokio::time::timeout(KEYFRAME_PATIENCE, collecting).await {
            Ok(Ok(index)) => Ok(index?),
            Ok(Err(_)) => Err(SessionError::Stopping),
            Err(_) => Err(SessionError::Indexing(part.name.clone())),
        }
    }

    /// Which disks hold the file. A disk that does not answer must not hold up playback from
    /// another copy: after two seconds the page is told that nobody knows yet.
    async fn storage_view(&self, part: &PlayFile) -> StorageView {
        match tokio::time::timeout(LAYOUT_PATIENCE, self.layout_of(&part.path, 0)).await {
            Ok(Ok(layout)) => StorageView {
                // Where that is all that is known, the disks that it may be on.
                disks: if layout.per_disk.is_empty() {
                    layout.candidates
                } else {
                    layout.per_disk.into_iter().filter(|d| !d.missing).map(|d| d.disk).collect()
                },
                warning: layout.why_inexact,
            },
            Ok(Err(error)) => StorageView {
                disks: Vec::new(),
                warning: Some(format!("which disks hold the file could not be told: {error}")),
            },
            Err(_) => StorageView {
                disks: Vec::new(),
                warning: Some("the disks of this file are slow to answer".to_owned()),
            },
        }
    }
}

fn file_key(file: &MediaFile) -> FileKey {
    let id = file.identity();
    FileKey {
        dev: id.dev,
        ino: id.ino,
        size_bytes: id.size_bytes,
        modified_us: id.modified_us,
        changed_us: id.changed_us,
    }
}

fn video_plan(verdict: &TrackVerdict) -> Option<VideoPlan> {
    match verdict.action {
        Action::Copy => Some(VideoPlan::Copy { stream: verdict.stream }),
        Action::Encode | Action::Burn => Some(VideoPlan::Encode {
            stream: verdict.stream,
            codec: verdict.codec.clone(),
            max_width: verdict.max_width,
            max_height: verdict.max_height,
            max_bitrate_bps: verdict.max_bitrate_bps,
            fps_cap: verdict.max_fps.map(ceil),
            burn_subtitle: verdict.burn_subtitle,
            tone_map: verdict.tone_map,
        }),
        Action::Drop => None,
    }
}

fn audio_plan(verdict: &TrackVerdict) -> Option<AudioPlan> {
    match verdict.action {
        Action::Copy => Some(AudioPlan::Copy { stream: verdict.stream }),
        Action::Encode | Action::Burn => Some(AudioPlan::Encode {
            stream: verdict.stream,
            codec: verdict.codec.clone(),
            channels: verdict.channels.unwrap_or(2),
            bitrate_bps: verdict.bitrate_bps,
            sample_rate: verdict.sample_rate,
        }),
        Action::Drop => None,
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a frame rate is between 0 and 1000, and the cast saturates"
)]
fn ceil(value: f64) -> u32 {
    value.ceil() as u32
}

#[expect(clippy::cast_possible_truncation, reason = "the cast saturates")]
fn microseconds(seconds: f64) -> i64 {
    (seconds * 1e6).round() as i64
}

fn bitrate(decision: &Decision, info: &MediaInfo) -> Option<u64> {
    let encoded =
        decision.video.as_ref().filter(|v| v.action == Action::Encode).and_then(|v| v.max_bitrate_bps);
    encoded.or(info.bitrate_bps)
}

fn audio_tracks(info: &MediaInfo, decision: &Decision) -> Vec<AudioTrack> {
    let chosen = decision.audio.as_ref().map(|a| a.stream);
    info.audio()
        .map(|(stream, _)| AudioTrack {
            index: stream.index,
            label: label(stream),
            language: stream.language.clone(),
            selected: chosen == Some(stream.index),
        })
        .collect()
}

/// Title and language as the file gives them; the page turns the code into the language's name.
#[must_use]
pub fn label(stream: &Stream) -> String {
    let kind = match &stream.kind {
        StreamKind::Audio(audio) if audio.channels > 2 => format!("{} {} ch", stream.codec, audio.channels),
        _ => stream.codec.clone(),
    };
    match (&stream.title, &stream.language) {
        (Some(title), _) if !title.trim().is_empty() => title.clone(),
        (_, Some(language)) => format!("{language} ({kind})"),
        _ => format!("Track {} ({kind})", stream.index + 1),
    }
}

/// The usual extension of a container, which some players look at before the content type.
fn extension(container: &str) -> &str {
    match container {
        "matroska" => "mkv",
        "mpegts" => "ts",
        "mpegps" => "mpg",
        "asf" => "wmv",
        "jpeg" => "jpg",
        word if !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric()) => word,
        _ => "bin",
    }
}

/// Media types as IANA registers them, and as players know those that it does not.
fn content_type(info: &MediaInfo) -> &'static str {
    let has_video = info.main_video().is_some();
    match info.container.as_str() {
        "mp4" | "m4v" | "m4a" if has_video => "video/mp4",
        "mp4" | "m4v" | "m4a" => "audio/mp4",
        "mov" => "video/quicktime",
        "mkv" if has_video => "video/x-matroska",
        "mkv" => "audio/x-matroska",
        "webm" if has_video => "video/webm",
        "webm" => "audio/webm",
        "mpegts" | "m2ts" => "video/mp2t",
        "mpegps" => "video/mpeg",
        "avi" => "video/x-msvideo",
        "flv" => "video/x-flv",
        "asf" => "video/x-ms-asf",
        "ogg" if has_video => "video/ogg",
        "ogg" => "audio/ogg",
        "mp3" => "audio/mpeg",
        "flac" => "audio/flac",
        "aac" => "audio/aac",
        "wav" => "audio/wav",
        "jpeg" => "image/jpeg",
        "png" => "image/png",
        "webp" => "image/webp",
        "gif" => "image/gif",
        _ => "application/octet-stream",
    }
}
