//! Phase 6: what is inside the files. In process where the container's headers tell enough, by
//! the worker otherwise. One failing file is listed with its reason; the scan goes on.

use super::InputFile;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _};
use spindle_base::clock::instant;
use spindle_media::guard::Limits;
use spindle_media::info::{MediaInfo, Prober as ProbedBy, Stream, StreamKind, Video};
use spindle_media::keyframes::KeyframeIndex;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::fingerprint::fingerprint;
use super::identify;
use super::persist::{self, Group, Place, Version};
use super::scan::{Context, blocking};
use super::walk::{Class, extension};
use super::{MediaSource, ProbeError};
use crate::db::uint;
use crate::error::{LibraryError, Result};
use crate::metadata::nfo::{self, Nfo};
use crate::repo::libraries::{self, Root, bytes_of, path_of};
use crate::sort_title::sort_title;
use crate::{Event, ItemType, LibraryKind, naming};

/// Files that are fetched from the database at a time.
const BATCH: i64 = 256;
/// Results that are written together; fewer commits, and a loss of at most so many at a crash.
const WRITE: usize = 32;
/// CPU time that the in-process parsers get for one file (its normal time is below 0.1 s).
const PARSE_LIMIT: Duration = Duration::from_secs(2);
/// Before a file that answers no read is given up: a sleeping disk needs up to 15 s.
const READ_LIMIT: Duration = Duration::from_secs(45);

/// A file that is to be looked into.
#[derive(Debug, Clone)]
struct Pending {
    pk: i64,
    class: Class,
    root: PathBuf,
    path: PathBuf,
    size_bytes: u64,
    /// The fingerprint that it had, where it may still be the same file.
    verify: Option<Vec<u8>>,
}

impl Pending {
    fn full(&self) -> PathBuf {
        self.root.join(&self.path)
    }

    fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// What looking into it gave.
#[derive(Debug)]
enum Outcome {
    Media {
        info: Box<MediaInfo>,
        keyframes: Option<KeyframeIndex>,
        fingerprint: Option<Vec<u8>>,
    },
    /// It is what it was.
    Same,
    Nfo(Box<Nfo>),
    Unreadable {
        reason: String,
        fingerprint: Option<Vec<u8>>,
    },
    /// Not the file's fault: tried again at the next scan.
    Failed(String),
}

/// What the in-process step came to.
enum Step {
    Done(Outcome),
    Ask { file: InputFile, fingerprint: Option<Vec<u8>> },
}

/// Looks into every file of the library that waits for it, until `hurry`.
pub(super) async fn run(context: &Context, library: &str, hurry: &CancellationToken) -> Result<()> {
    let id = library.to_owned();
    let (kind, roots, total) = context
        .library
        .read(move |db| Ok((libraries::kind(db, &id)?, libraries::roots(db, &id)?, count(db, &id)?)))
        .await?;
    if total == 0 {
        return Ok(());
    }
    let progress =
        Arc::new(Progress { library: library.to_owned(), total, done: std::sync::atomic::AtomicU64::new(0) });
    // One queue a root: what is on different disks is read at the same time.
    let mut all = JoinSet::new();
    for root in roots {
        let (context, library, hurry, progress) =
            (context.clone(), library.to_owned(), hurry.clone(), Arc::clone(&progress));
        all.spawn(async move { probe_root(&context, &library, kind, root, &hurry, &progress).await });
    }
    while let Some(done) = all.join_next().await {
        done.map_err(|e| LibraryError::Panicked(e.to_string()))??;
    }
    let id = library.to_owned();
    context
        .library
        .change(move |db| {
            // Tags may have moved the last track out of an album that names had made.
            crate::repo::items::drop_childless(db, &id)?;
            crate::repo::items::refresh(db, &id)
        })
        .await
}

struct Progress {
    library: String,
    total: u64,
    done: std::sync::atomic::AtomicU64,
}

async fn probe_root(
    context: &Context,
    library: &str,
    kind: LibraryKind,
    root: Root,
    hurry: &CancellationToken,
    progress: &Progress,
) -> Result<()> {
    let lanes = context.backend.lanes(root.dev.unwrap_or(0), &root.path).clamp(1, 16);
    // Side files first: they are small and bring titles.
    for class in ["nfo", "media"] {
        let mut after = 0;
        while !hurry.is_cancelled() {
            let batch = context.library.read({
                let root = root.clone();
                move |db| load(db, &root, class, after)
            });
            let batch = batch.await?;
            let Some(last) = batch.last() else { break };
            after = last.pk;
            probe_batch(context, library, kind, batch, lanes, hurry, progress).await?;
        }
    }
    Ok(())
}

async fn probe_batch(
    context: &Context,
    library: &str,
    kind: LibraryKind,
    batch: Vec<Pending>,
    lanes: usize,
    hurry: &CancellationToken,
    progress: &Progress,
) -> Result<()> {
    let mut waiting = batch.into_iter();
    let mut running = JoinSet::new();
    let mut results = Vec::new();
    loop {
        while running.len() < lanes && !hurry.is_cancelled() {
            let Some(file) = waiting.next() else { break };
            let context = context.clone();
            running.spawn(async move {
                let outcome = probe_file(&context, &file).await;
                (file, outcome)
            });
        }
        // A scan in a hurry does not wait for a slow file: dropping it leaves it pending.
        let next = tokio::select! {
            next = running.join_next() => next,
            () = hurry.cancelled() => None,
        };
        let Some(next) = next else { break };
        results.push(next.map_err(|e| LibraryError::Panicked(e.to_string()))?);
        if results.len() >= WRITE {
            write(context, library, kind, std::mem::take(&mut results), progress).await?;
        }
    }
    write(context, library, kind, results, progress).await
}

async fn probe_file(context: &Context, file: &Pending) -> Outcome {
    let first = blocking({
        let (context, file) = (context.clone(), file.clone());
        move || Ok(in_process(&context, &file))
    });
    // The thread behind an abandoned read ends when the disk answers; nothing waits for it.
    let (fd, fingerprint) = match tokio::time::timeout(READ_LIMIT, first).await {
        Ok(Ok(Step::Done(outcome))) => return outcome,
        Ok(Ok(Step::Ask { file, fingerprint })) => (file, fingerprint),
        Ok(Err(e)) => return Outcome::Failed(e.to_string()),
        Err(_) => {
            return Outcome::Failed(format!("no answer from its disk within {} s", READ_LIMIT.as_secs()));
        }
    };
    let limit = context.config.probe_limit;
    match tokio::time::timeout(limit, context.prober.probe(fd, &file.name())).await {
        Ok(Ok(info)) => described(info, None, fingerprint),
        Ok(Err(ProbeError::Unreadable(reason))) => Outcome::Unreadable { reason, fingerprint },
        Ok(Err(ProbeError::Failed(reason))) => Outcome::Failed(reason),
        Err(_) => Outcome::Failed(format!("the prober gave no answer within {} s", limit.as_secs())),
    }
}

/// A description that holds nothing to play is none.
fn described(info: MediaInfo, keyframes: Option<KeyframeIndex>, fingerprint: Option<Vec<u8>>) -> Outcome {
    let playable = info.streams.iter().any(|s| matches!(s.kind, StreamKind::Video(_) | StreamKind::Audio(_)));
    if playable {
        Outcome::Media { info: Box::new(info), keyframes, fingerprint }
    } else {
        Outcome::Unreadable { reason: "there is neither picture nor sound in it".to_owned(), fingerprint }
    }
}

fn in_process(context: &Context, file: &Pending) -> Step {
    let path = file.full();
    if file.size_bytes == 0 {
        return Step::Done(Outcome::Unreadable { reason: "the file is empty".to_owned(), fingerprint: None });
    }
    let failed = |e: std::io::Error| Step::Done(Outcome::Failed(format!("unable to read the file: {e}")));
    let mut source = match context.backend.open(&path) {
        Ok(source) => source,
        Err(e) => return failed(e),
    };
    if file.class == Class::Nfo {
        return match read_nfo(&mut *source) {
            Ok(nfo) => Step::Done(Outcome::Nfo(Box::new(nfo))),
            Err(e) => failed(e),
        };
    }
    let sum = match fingerprint(&mut *source, file.size_bytes) {
        Ok(sum) => sum,
        Err(e) => return failed(e),
    };
    if file.verify.as_ref() == Some(&sum) {
        return Step::Done(Outcome::Same);
    }
    let sum = Some(sum);
    let name = file.name();
    match file.class {
        Class::Photo => {
            if let Some(info) = photo(source, file.size_bytes, &extension(&path)) {
                return Step::Done(described(info, None, sum));
            }
        }
        _ => match parse(source, file.size_bytes, &name) {
            Some(Ok(probed)) => return Step::Done(described(probed.info, probed.keyframes, sum)),
            Some(Err(e @ spindle_media::probe::ProbeError::CutOff { .. })) => {
                return Step::Done(Outcome::Unreadable { reason: e.to_string(), fingerprint: sum });
            }
            Some(Err(e)) => return Step::Done(Outcome::Failed(e.to_string())),
            None => {}
        },
    }
    match context.backend.open_for_worker(&path) {
        Ok(file) => Step::Ask { file, fingerprint: sum },
        Err(e) => failed(e),
    }
}

/// The in-process parsers; `None`: ask the worker. A panic of theirs is one more reason to.
fn parse(
    source: Box<dyn MediaSource>,
    size_bytes: u64,
    name: &str,
) -> Option<std::result::Result<spindle_media::probe::Probed, spindle_media::probe::ProbeError>> {
    let end = instant() + PARSE_LIMIT;
    let limits = Limits { expired: Box::new(move || instant() > end), ..Limits::default() };
    let parsed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        spindle_media::probe::probe(source, size_bytes, name, limits)
    }));
    match parsed {
        Ok(Ok(probed)) => Some(Ok(probed)),
        Ok(Err(e)) if e.worth_asking_the_worker() => {
            tracing::debug!(file = name, reason = %e, "asking the worker");
            None
        }
        Ok(Err(e)) => Some(Err(e)),
        Err(_) => None,
    }
}

/// Width and height of a picture that the image crate knows.
fn photo(source: Box<dyn MediaSource>, size_bytes: u64, ext: &str) -> Option<MediaInfo> {
    let reader = image::ImageReader::new(std::io::BufReader::new(source)).with_guessed_format().ok()?;
    let codec = match reader.format()? {
        image::ImageFormat::Jpeg => "mjpeg",
        image::ImageFormat::Png => "png",
        image::ImageFormat::WebP => "webp",
        _ => return None,
    };
    let (width, height) = reader.into_dimensions().ok()?;
    let video = Video { width, height, ..Video::default() };
    let stream = Stream {
        index: 0,
        codec: codec.to_owned(),
        codec_string: None,
        codec_tag: None,
        profile: None,
        language: None,
        title: None,
        bitrate_bps: None,
        duration_s: None,
        time_base: [1, 1],
        disposition: spindle_media::info::Disposition::default(),
        kind: StreamKind::Video(video),
    };
    let container = if codec == "mjpeg" { "jpeg" } else { ext };
    Some(MediaInfo {
        container: container.to_owned(),
        size_bytes,
        streams: vec![stream],
        probed_by: ProbedBy::default(),
        ..MediaInfo::default()
    })
}

fn read_nfo(source: &mut dyn MediaSource) -> std::io::Result<Nfo> {
    let mut bytes = Vec::new();
    source.take(nfo::MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(nfo::read(&String::from_utf8_lossy(&bytes)))
}

fn count(db: &Connection, library: &str) -> Result<u64> {
    let n: i64 = db
        .prepare_cached(
            "SELECT count(*) FROM roots r JOIN files f ON f.root = r.pk WHERE r.library = ?1
             AND f.probe IN ('pending', 'verify') AND f.missing_since IS NULL AND f.class <> 'picture'",
        )?
        .query_row([library], |r| r.get(0))?;
    Ok(uint(n))
}

fn load(db: &Connection, root: &Root, class: &str, after: i64) -> Result<Vec<Pending>> {
    let mut statement = db.prepare_cached(
        "SELECT pk, class, path, size_bytes, CASE WHEN probe = 'verify' THEN fingerprint END FROM files
         WHERE root = ?1 AND probe IN ('pending', 'verify') AND missing_since IS NULL AND pk > ?3
         AND CASE ?2 WHEN 'nfo' THEN class = 'nfo' ELSE class IN ('video', 'audio', 'photo') END
         ORDER BY pk LIMIT ?4",
    )?;
    let rows = statement
        .query_map((root.pk, class, after, BATCH), |r| {
            let class: String = r.get(1)?;
            Ok(Pending {
                pk: r.get(0)?,
                class: Class::parse(&class).unwrap_or(Class::Video),
                root: root.path.clone(),
                path: path_of(r.get_ref(2)?.as_blob()?).to_owned(),
                size_bytes: uint(r.get(3)?),
                verify: r.get(4)?,
            })
        })?
        .collect::<rusqlite::Result<_>>()?;
    Ok(rows)
}

async fn write(
    context: &Context,
    library: &str,
    kind: LibraryKind,
    results: Vec<(Pending, Outcome)>,
    progress: &Progress,
) -> Result<()> {
    if results.is_empty() {
        return Ok(());
    }
    use std::sync::atomic::Ordering::Relaxed;
    let n = results.len() as u64;
    let at = Place { library: library.to_owned(), now_us: context.library.now_us(), moved: Arc::default() };
    context
        .library
        .change(move |db| {
            results.iter().try_for_each(|(file, outcome)| write_one(db, &at, kind, file, outcome))
        })
        .await?;
    let done = progress.done.fetch_add(n, Relaxed) + n;
    context.library.emit(Event::ScanProgress {
        library: progress.library.clone(),
        phase: "probe",
        done,
        total: progress.total,
    });
    Ok(())
}

fn write_one(
    db: &Connection,
    at: &Place,
    kind: LibraryKind,
    file: &Pending,
    outcome: &Outcome,
) -> Result<()> {
    match outcome {
        Outcome::Same => {
            db.prepare_cached(
                "UPDATE files SET probe = CASE WHEN info IS NOT NULL OR unreadable IS NOT NULL THEN 'done' ELSE 'pending' END
                 WHERE pk = ?1",
            )?
            .execute([file.pk])?;
        }
        Outcome::Nfo(nfo) => {
            db.prepare_cached("UPDATE files SET probe = 'done' WHERE pk = ?1")?.execute([file.pk])?;
            if let Some(item) = nfo_target(db, file)? {
                apply_nfo(db, item, nfo)?;
            }
        }
        Outcome::Media { info, keyframes, fingerprint } => {
            let json =
                |e: serde_json::Error| LibraryError::Damaged { what: "description", reason: e.to_string() };
            let text = serde_json::to_string(info).map_err(json)?;
            let keys = keyframes.as_ref().map(serde_json::to_vec).transpose().map_err(json)?;
            db.prepare_cached(
                "UPDATE files SET probe = 'done', info = ?2, keyframes = ?3, fingerprint = coalesce(?4, fingerprint),
                 unreadable = NULL, art = 'pending' WHERE pk = ?1",
            )?
            .execute((file.pk, text, keys, fingerprint))?;
            set_duration(db, file.pk)?;
            if file.class == Class::Audio {
                retag(db, at, kind, file, info)?;
            }
        }
        Outcome::Unreadable { reason, fingerprint } => {
            db.prepare_cached(
                "UPDATE files SET probe = 'failed', info = NULL, keyframes = NULL, unreadable = ?2,
                 fingerprint = coalesce(?3, fingerprint) WHERE pk = ?1",
            )?
            .execute((file.pk, reason, fingerprint))?;
        }
        Outcome::Failed(reason) => {
            // Stays pending; what is known of it from before is kept.
            db.prepare_cached(
                "UPDATE files SET unreadable = CASE WHEN info IS NULL THEN ?2 END WHERE pk = ?1",
            )?
            .execute((file.pk, reason))?;
        }
    }
    Ok(())
}

/// An item is as long as the parts of the version that was probed last.
fn set_duration(db: &Connection, file: i64) -> Result<()> {
    db.prepare_cached(
        "UPDATE items SET duration_s = (
             SELECT sum(json_extract(p.info, '$.duration_s')) FROM files f JOIN files p ON p.version = f.version
             WHERE f.pk = ?1)
         WHERE pk = (SELECT v.item FROM files f JOIN versions v ON v.pk = f.version WHERE f.pk = ?1)",
    )?
    .execute([file])?;
    Ok(())
}

/// The tags of a piece of music go before its name.
fn retag(db: &Connection, at: &Place, kind: LibraryKind, file: &Pending, info: &MediaInfo) -> Result<()> {
    let named = naming::identify(&file.path.to_string_lossy(), identify::hint(kind));
    let tagged = identify::with_tags(named.clone(), &info.tags);
    if tagged != named {
        let root: i64 =
            db.prepare_cached("SELECT root FROM files WHERE pk = ?1")?.query_row([file.pk], |r| r.get(0))?;
        let plan = identify::plan(&tagged, &file.path, Class::Audio, kind);
        let version = Version { label: None, edition: None, parts: vec![(root, file.path.clone())] };
        persist::place(db, at, &Group { plan, versions: vec![version] })?;
    }
    let Some(item) = persist::item_of(db, file.pk)? else { return Ok(()) };
    if let Some(genre) = info.tags.get("genre") {
        set_tags(
            db,
            item,
            "genre",
            &genre.split([';', '/', ',']).map(|g| g.trim().to_owned()).collect::<Vec<_>>(),
        )?;
    }
    Ok(())
}

/// The item that an NFO file is about: that of the film named like it, else that of its folder.
fn nfo_target(db: &Connection, file: &Pending) -> Result<Option<i64>> {
    let name = identify::stem(&file.path).to_lowercase();
    let folder = file.path.parent().unwrap_or(Path::new(""));
    let root: i64 =
        db.prepare_cached("SELECT root FROM files WHERE pk = ?1")?.query_row([file.pk], |r| r.get(0))?;
    let below = items_below(db, root, folder)?;
    let direct = |b: &&Below| b.path.parent().unwrap_or(Path::new("")) == folder;
    if let Some(named) = below.iter().filter(direct).find(|b| identify::stem(&b.path).to_lowercase() == name)
    {
        return Ok(Some(named.item));
    }
    Ok(match name.as_str() {
        "tvshow" => one(below.iter().filter_map(|b| b.top)),
        "season" => one(below.iter().filter(direct).filter_map(|b| b.parent)),
        "album" => one(below.iter().filter(direct).filter_map(|b| b.parent)),
        "artist" => one(below.iter().filter_map(|b| b.top)),
        "movie" => one(below.iter().filter(direct).filter(|b| b.kind == ItemType::Movie).map(|b| b.item)),
        _ => None,
    })
}

/// The value, where all are the same.
pub(super) fn one(mut values: impl Iterator<Item = i64>) -> Option<i64> {
    let first = values.next()?;
    values.all(|v| v == first).then_some(first)
}

/// A media file below a folder, with the items that it stands for.
pub(super) struct Below {
    pub(super) path: PathBuf,
    pub(super) item: i64,
    pub(super) kind: ItemType,
    pub(super) parent: Option<i64>,
    pub(super) top: Option<i64>,
}

/// At most so many files of a folder are looked at to find what it stands for.
const MAX_BELOW: i64 = 5_000;

/// Media files below a folder of a root, extras not counted.
pub(super) fn items_below(db: &Connection, root: i64, folder: &Path) -> Result<Vec<Below>> {
    // `/` is followed by `0`: the paths between are exactly those below the folder.
    let mut from = bytes_of(folder).to_vec();
    let mut to = from.clone();
    if !from.is_empty() {
        from.push(b'/');
        to.push(b'/' + 1);
    }
    let mut statement = db.prepare_cached(
        "SELECT f.path, i.pk, i.type, i.parent, i.top FROM files f JOIN versions v ON v.pk = f.version
         JOIN items i ON i.pk = v.item
         WHERE f.root = ?1 AND f.path >= ?2 AND (?3 = x'' OR f.path < ?3) AND f.missing_since IS NULL
         AND i.type <> 'extra' ORDER BY f.path LIMIT ?4",
    )?;
    let rows = statement
        .query_map((root, from, to, MAX_BELOW), |r| {
            Ok(Below {
                path: path_of(r.get_ref(0)?.as_blob()?).to_owned(),
                item: r.get(1)?,
                kind: r.get(2)?,
                parent: r.get(3)?,
                top: r.get(4)?,
            })
        })?
        .collect::<rusqlite::Result<_>>()?;
    Ok(rows)
}

fn set_tags(db: &Connection, item: i64, kind: &str, values: &[String]) -> Result<()> {
    db.prepare_cached("DELETE FROM item_tags WHERE item = ?1 AND kind = ?2")?.execute((item, kind))?;
    for value in values.iter().filter(|v| !v.is_empty()) {
        db.prepare_cached("INSERT OR IGNORE INTO item_tags (item, kind, value) VALUES (?1, ?2, ?3)")?
            .execute((item, kind, value))?;
    }
    Ok(())
}

/// What the owner wrote beside the film goes before what its name says. The identity stays: watch
/// state hangs on it.
fn apply_nfo(db: &Connection, item: i64, nfo: &Nfo) -> Result<()> {
    let sort = nfo.title.as_deref().map(sort_title);
    db.prepare_cached(
        "UPDATE items SET title = coalesce(?2, title), sort_title = coalesce(?3, sort_title),
         search_text = CASE WHEN ?2 IS NULL OR ?2 = title THEN search_text ELSE title || ' ' || ?2 END,
         year = coalesce(?4, year), released = coalesce(?5, released), plot = coalesce(?6, plot),
         rating = coalesce(?7, rating), provider_id = coalesce(provider_id, ?8) WHERE pk = ?1",
    )?
    .execute((
        item,
        &nfo.title,
        sort,
        nfo.year,
        &nfo.released,
        &nfo.plot,
        nfo.rating,
        &nfo.provider_id,
    ))?;
    if !nfo.genres.is_empty() {
        set_tags(db, item, "genre", &nfo.genres)?;
    }
    if !nfo.people.is_empty() {
        set_tags(db, item, "person", &nfo.people)?;
    }
    Ok(())
}

/// The root that a file of the database is under, with its path below.
pub(super) fn place_of(db: &Connection, file: i64) -> Result<Option<(i64, PathBuf, PathBuf)>> {
    Ok(db
        .prepare_cached(
            "SELECT r.pk, r.path, f.path FROM files f JOIN roots r ON r.pk = f.root WHERE f.pk = ?1",
        )?
        .query_row([file], |r| {
            Ok((
                r.get(0)?,
                path_of(r.get_ref(1)?.as_blob()?).to_owned(),
                path_of(r.get_ref(2)?.as_blob()?).to_owned(),
            ))
        })
        .optional()?)
}
