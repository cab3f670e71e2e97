//! Phase 7: pictures beside the files, inside them, or taken from them; copied once into the data
//! directory, so that browsing never comes back for them.

use std::collections::HashSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use tokio_util::sync::CancellationToken;

use super::identify::stem;
use super::probe::{Below, items_below, one, place_of};
use super::scan::{Context, blocking};
use super::walk::stays_inside;
use super::{Picture, ProbeError};
use crate::artwork::{self, MAX_FILE_BYTES};
use crate::db::uint;
use crate::error::{LibraryError, Result};
use crate::naming::{self, Kind};
use crate::repo::{files, libraries};
use crate::{ImageKind, ItemType};

/// Files looked at between two looks at the database.
const BATCH: i64 = 64;
/// Where a frame is taken: behind the titles, before anything is given away.
const FRAME_SHARE: f64 = 0.12;
/// Pixels across a picture from the worker: what the store keeps.
const PICTURE_WIDTH: u32 = 1_920;

/// What a picture's name says that it shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Role {
    /// Its folder: a film, a show, a season, an album.
    Folder(ImageKind),
    /// The file of this name.
    Named(ImageKind, String),
    /// A season of the show whose folder it is in.
    Season(ImageKind, i64),
}

/// By name alone; `None`: perhaps the film of the same name, perhaps nothing.
pub(super) fn role(path: &Path) -> Option<Role> {
    let name = stem(path).to_lowercase();
    if let Some(kind) = word(&name) {
        return Some(Role::Folder(kind));
    }
    let (front, last) = name.rsplit_once(['-', '.'])?;
    let kind =
        word(last).filter(|_| last != "movie" && last != "show" && last != "album" && last != "art")?;
    let front = front.trim();
    if let Some(season) = front.strip_prefix("season").map(|s| s.trim_matches(['-', '_', ' ']))
        && let Some(n) = (season == "specials").then_some(0).or_else(|| season.parse().ok())
    {
        return Some(Role::Season(kind, n));
    }
    Some(Role::Named(kind, front.to_owned()))
}

fn word(name: &str) -> Option<ImageKind> {
    Some(match name {
        "poster" | "folder" | "cover" | "movie" | "show" | "album" | "front" | "default" => ImageKind::Poster,
        "fanart" | "backdrop" | "background" | "art" => ImageKind::Backdrop,
        "logo" | "clearlogo" => ImageKind::Logo,
        "thumb" | "landscape" => ImageKind::Thumb,
        _ => return None,
    })
}

/// Which item a picture beside files belongs to.
fn target(path: &Path, below: &[Below]) -> Option<(i64, ImageKind)> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let direct = || below.iter().filter(move |b| b.path.parent().unwrap_or(Path::new("")) == folder);
    let own = |kind: ImageKind, b: &Below| {
        // What lies beside an episode as `-thumb` is a frame of it.
        let kind =
            if b.kind == ItemType::Episode && kind != ImageKind::Backdrop { ImageKind::Still } else { kind };
        (b.item, kind)
    };
    let named = |name: &str| direct().find(|b| stem(&b.path).to_lowercase() == name);
    match role(path) {
        Some(Role::Named(kind, name)) => named(&name).map(|b| own(kind, b)),
        Some(Role::Season(kind, season)) => season_of(below, season).map(|item| (item, kind)),
        Some(Role::Folder(kind)) => of_folder(folder, below, direct().collect()).map(|item| (item, kind)),
        None => named(&stem(path).to_lowercase()).map(|b| own(ImageKind::Poster, b)),
    }
}

fn of_folder(folder: &Path, below: &[Below], direct: Vec<&Below>) -> Option<i64> {
    let first = direct.first().copied().or(below.first())?;
    match first.kind {
        ItemType::Movie => one(direct.iter().map(|b| b.item)),
        ItemType::Track if direct.is_empty() => {
            // `Artist/folder.jpg` above albums, `Album/cover.jpg` above discs.
            one(below.iter().filter_map(|b| b.parent)).or_else(|| one(below.iter().filter_map(|b| b.top)))
        }
        ItemType::Track => one(direct.iter().filter_map(|b| b.parent)),
        ItemType::Episode => {
            let season = naming::identify_as(&folder.to_string_lossy(), Kind::SeasonFolder).season.is_some();
            if season && !direct.is_empty() {
                one(direct.iter().filter_map(|b| b.parent))
            } else {
                one(below.iter().filter_map(|b| b.top))
            }
        }
        _ => None,
    }
}

/// The season folder's item: by the number that its episodes' names carry.
fn season_of(below: &[Below], season: i64) -> Option<i64> {
    let number =
        |b: &Below| naming::identify_as(&b.path.to_string_lossy(), Kind::Episode).season.map(i64::from);
    below.iter().filter(|b| b.kind == ItemType::Episode).find(|b| number(b) == Some(season))?.parent
}

/// A picture file that waits.
struct Beside {
    file: i64,
    path: PathBuf,
    /// The library's folder, which it must not lead out of.
    root: PathBuf,
    target: Option<(i64, ImageKind)>,
    size_bytes: u64,
}

/// Pictures that lie beside the media: read once, as part of the scan.
pub(super) async fn beside(context: &Context, library: &str, hurry: &CancellationToken) -> Result<()> {
    let mut after = 0;
    while !hurry.is_cancelled() {
        let id = library.to_owned();
        let batch = context.library.read(move |db| load_beside(db, &id, after)).await?;
        let Some(last) = batch.last() else { break };
        after = last.file;
        for picture in batch {
            if hurry.is_cancelled() {
                return Ok(());
            }
            keep_beside(context, picture).await?;
        }
    }
    Ok(())
}

fn load_beside(db: &Connection, library: &str, after: i64) -> Result<Vec<Beside>> {
    let mut statement = db.prepare_cached(
        "SELECT f.pk, r.pk, r.path, f.path, f.size_bytes FROM roots r JOIN files f ON f.root = r.pk
         WHERE r.library = ?1 AND f.class = 'picture' AND f.probe IN ('pending', 'verify')
         AND f.missing_since IS NULL AND f.pk > ?2 ORDER BY f.pk LIMIT ?3",
    )?;
    let rows: Vec<(i64, i64, PathBuf, PathBuf, i64)> = statement
        .query_map((library, after, BATCH), |r| {
            Ok((
                r.get(0)?,
                r.get(1)?,
                libraries::path_of(r.get_ref(2)?.as_blob()?).to_owned(),
                libraries::path_of(r.get_ref(3)?.as_blob()?).to_owned(),
                r.get(4)?,
            ))
        })?
        .collect::<rusqlite::Result<_>>()?;
    let mut out = Vec::new();
    for (file, root_key, root, path, size) in rows {
        let below = items_below(db, root_key, path.parent().unwrap_or(Path::new("")))?;
        let target = target(&path, &below);
        out.push(Beside { file, path: root.join(&path), root, target, size_bytes: uint(size) });
    }
    Ok(out)
}

async fn keep_beside(context: &Context, picture: Beside) -> Result<()> {
    let (file, target) = (picture.file, picture.target);
    let kept = match target {
        Some(_) if picture.size_bytes <= MAX_FILE_BYTES => {
            let context = context.clone();
            let name = picture.path.display().to_string();
            let made = blocking(move || {
                if !stays_inside(&picture.root, &picture.path) {
                    let reason = "it is gone, or a link that leads out of the library".to_owned();
                    return Err(LibraryError::Picture { name: picture.path.display().to_string(), reason });
                }
                let mut bytes = Vec::new();
                let source =
                    context.backend.open(&picture.path).map_err(LibraryError::io("open", &picture.path))?;
                source
                    .take(MAX_FILE_BYTES)
                    .read_to_end(&mut bytes)
                    .map_err(LibraryError::io("read", &picture.path))?;
                context.library.inner.artwork.keep(&bytes, &name)
            });
            match made.await {
                Ok(kept) => Some(kept),
                Err(LibraryError::Picture { name, reason }) => {
                    tracing::info!(file = name, reason, "a picture beside a film is not used");
                    None
                }
                // Not the picture's fault: it stays pending.
                Err(e) => {
                    tracing::warn!(error = %e, "a picture could not be read");
                    return Ok(());
                }
            }
        }
        _ => None,
    };
    context
        .library
        .change(move |db| {
            db.prepare_cached("UPDATE files SET probe = ?2 WHERE pk = ?1")?
                .execute((file, if kept.is_some() { "done" } else { "failed" }))?;
            if let (Some((item, kind)), Some(kept)) = (target, &kept) {
                artwork::set(db, item, kind, &format!("file:{file}"), kept)?;
            }
            Ok(())
        })
        .await
}

/// A media file in which a picture may be.
struct Inside {
    file: i64,
    path: PathBuf,
    item: i64,
    kind: ItemType,
    parent: Option<i64>,
    duration_s: Option<f64>,
    /// It says that it has a cover.
    cover: bool,
    has_poster: bool,
    has_frame: bool,
}

/// What to take out of a file, for which item, as what.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Wanted {
    Nothing,
    /// The file is the picture.
    Itself(i64),
    From(Picture, i64, ImageKind),
}

fn wanted(file: &Inside, frames: bool) -> Wanted {
    match file.kind {
        ItemType::Photo => Wanted::Itself(file.item),
        ItemType::Track => match file.parent {
            Some(album) if file.cover && !file.has_poster => {
                Wanted::From(Picture::Cover, album, ImageKind::Poster)
            }
            _ => Wanted::Nothing,
        },
        _ if file.cover && !file.has_poster && file.kind == ItemType::Movie => {
            Wanted::From(Picture::Cover, file.item, ImageKind::Poster)
        }
        ItemType::Movie | ItemType::Episode | ItemType::Extra if frames && !file.has_frame => {
            let at_s = file.duration_s.unwrap_or(0.0) * FRAME_SHARE;
            let kind = if file.kind == ItemType::Episode { ImageKind::Still } else { ImageKind::Thumb };
            Wanted::From(Picture::Frame { at_s }, file.item, kind)
        }
        _ => Wanted::Nothing,
    }
}

/// Pictures that have to be taken out of the media, a frame decoded for most: minutes for a large library. So it
/// is no part of the scan, which is over when everything is named and described, and gives way to the next.
pub(super) async fn inside(context: &Context, library: &str, hurry: &CancellationToken) -> Result<()> {
    let mut after = 0;
    while !hurry.is_cancelled() {
        let id = library.to_owned();
        let batch = context.library.read(move |db| load_inside(db, &id, after)).await?;
        let Some(last) = batch.last() else { break };
        after = last.file;
        // Most have nothing to take out: one commit for all of those.
        let (nothing, batch): (Vec<Inside>, Vec<Inside>) =
            batch.into_iter().partition(|f| wanted(f, context.config.frames) == Wanted::Nothing);
        let keys: Vec<i64> = nothing.iter().map(|f| f.file).collect();
        if !keys.is_empty() {
            context
                .library
                .write(move |db| {
                    let mut statement = db.prepare_cached("UPDATE files SET art = 'done' WHERE pk = ?1")?;
                    keys.iter().try_for_each(|key| statement.execute([key]).map(drop))?;
                    Ok(())
                })
                .await?;
        }
        let mut asked = HashSet::new();
        for mut file in batch {
            if hurry.is_cancelled() {
                return Ok(());
            }
            // Twelve tracks of an album carry the same cover.
            if let Wanted::From(_, item, kind) = wanted(&file, context.config.frames)
                && !asked.insert((item, kind))
            {
                (file.has_poster, file.has_frame) = (true, true);
            }
            // One after the other: decoding a frame takes a core, and playing has the right of way.
            tokio::select! {
                kept = keep_inside(context, &file) => kept?,
                () = hurry.cancelled() => return Ok(()),
            }
        }
    }
    Ok(())
}

fn load_inside(db: &Connection, library: &str, after: i64) -> Result<Vec<Inside>> {
    let mut statement = db.prepare_cached(
        "SELECT f.pk FROM roots r JOIN files f ON f.root = r.pk
         WHERE r.library = ?1 AND f.art = 'pending' AND f.probe = 'done' AND f.missing_since IS NULL
         AND f.class IN ('video', 'audio', 'photo') AND f.version IS NOT NULL AND f.pk > ?2 ORDER BY f.pk LIMIT ?3",
    )?;
    let keys: Vec<i64> =
        statement.query_map((library, after, BATCH), |r| r.get(0))?.collect::<rusqlite::Result<_>>()?;
    let mut out = Vec::new();
    for file in keys {
        let Some((_, root, path)) = place_of(db, file)? else { continue };
        let (item, kind, parent, info): (i64, ItemType, Option<i64>, Option<String>) = db
            .prepare_cached(
                "SELECT i.pk, i.type, i.parent, f.info FROM files f JOIN versions v ON v.pk = f.version
                 JOIN items i ON i.pk = v.item WHERE f.pk = ?1",
            )?
            .query_row([file], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?, r.get(3)?)))?;
        let info = files::read_info(info.as_deref())?;
        let holder = if kind == ItemType::Track { parent } else { Some(item) };
        let has = |kind| holder.map_or(Ok(false), |item| artwork::has(db, item, kind));
        out.push(Inside {
            file,
            path: root.join(path),
            item,
            kind,
            parent,
            duration_s: info.as_ref().and_then(|i| i.duration_s),
            cover: info.as_ref().is_some_and(|i| {
                i.streams.iter().any(|s| s.disposition.attached_picture)
                    || i.attachments.iter().any(|a| a.mime.starts_with("image/"))
            }),
            has_poster: has(ImageKind::Poster)?,
            has_frame: has(ImageKind::Thumb)? || has(ImageKind::Still)? || has(ImageKind::Backdrop)?,
        });
    }
    Ok(out)
}

async fn keep_inside(context: &Context, file: &Inside) -> Result<()> {
    let wanted = wanted(file, context.config.frames);
    let bytes = match wanted {
        Wanted::Nothing => Ok(None),
        Wanted::Itself(item) => {
            read_whole(context, file).await.map(|b| b.map(|b| (b, item, ImageKind::Thumb)))
        }
        Wanted::From(what, item, kind) => {
            take_out(context, file, what).await.map(|b| b.map(|b| (b, item, kind)))
        }
    };
    // Not the file's fault: the next scan asks again.
    let Ok(found) = bytes else { return Ok(()) };
    let key = file.file;
    let kept = match found {
        Some((bytes, item, kind)) => {
            let (context, name) = (context.clone(), file.path.display().to_string());
            let made = blocking(move || context.library.inner.artwork.keep(&bytes, &name)).await;
            match made {
                Ok(kept) => Some((kept, item, kind)),
                Err(e @ LibraryError::Picture { .. }) => {
                    tracing::info!(error = %e, "a picture inside a file is not used");
                    None
                }
                Err(e) => return Err(e),
            }
        }
        None => None,
    };
    context
        .library
        .change(move |db| {
            db.prepare_cached("UPDATE files SET art = 'done' WHERE pk = ?1")?.execute([key])?;
            if let Some((kept, item, kind)) = &kept {
                artwork::set(db, *item, *kind, &format!("inside:{key}"), kept)?;
            }
            Ok(())
        })
        .await
}

/// A photograph. `Ok(None)`: too large or of a kind that is not decoded here.
async fn read_whole(context: &Context, file: &Inside) -> std::result::Result<Option<Vec<u8>>, ()> {
    let (context, path) = (context.clone(), file.path.clone());
    let read = blocking(move || {
        let mut bytes = Vec::new();
        let source = context.backend.open(&path).map_err(LibraryError::io("open", &path))?;
        source.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(LibraryError::io("read", &path))?;
        Ok(bytes)
    });
    let bytes = read.await.map_err(|e| tracing::warn!(error = %e, "a photograph could not be read"))?;
    Ok(Some(bytes).filter(|b| b.len() as u64 <= MAX_FILE_BYTES))
}

async fn take_out(
    context: &Context,
    file: &Inside,
    what: Picture,
) -> std::result::Result<Option<Vec<u8>>, ()> {
    let (opener, path) = (context.clone(), file.path.clone());
    let fd = blocking(move || opener.backend.open_for_worker(&path).map_err(LibraryError::io("open", &path)))
        .await
        .map_err(|e| tracing::warn!(error = %e, "no picture could be taken"))?;
    let asked = context.prober.picture(fd, what, PICTURE_WIDTH);
    match tokio::time::timeout(context.config.probe_limit, asked).await {
        Ok(Ok(bytes)) => Ok(Some(bytes)),
        Ok(Err(ProbeError::Unreadable(reason))) => {
            tracing::info!(file = %file.path.display(), reason, "no picture could be taken");
            Ok(None)
        }
        Ok(Err(ProbeError::Failed(reason))) => {
            tracing::debug!(file = %file.path.display(), reason, "no picture was taken");
            Err(())
        }
        Err(_) => {
            tracing::warn!(file = %file.path.display(), "taking a picture took too long");
            Ok(None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_pictures_say_what_they_show() {
        let table = [
            ("a/poster.jpg", Some(Role::Folder(ImageKind::Poster))),
            ("a/Folder.JPG", Some(Role::Folder(ImageKind::Poster))),
            ("a/fanart.png", Some(Role::Folder(ImageKind::Backdrop))),
            ("a/Film (2001)-poster.jpg", Some(Role::Named(ImageKind::Poster, "film (2001)".into()))),
            ("a/Show.S01E01-thumb.jpg", Some(Role::Named(ImageKind::Thumb, "show.s01e01".into()))),
            ("a/season01-poster.jpg", Some(Role::Season(ImageKind::Poster, 1))),
            ("a/season-specials-poster.jpg", Some(Role::Season(ImageKind::Poster, 0))),
            ("a/Film (2001).jpg", None),
            ("a/The Silent Movie-movie.jpg", None),
        ];
        for (path, role_of) in table {
            assert_eq!(role(Path::new(path)), role_of, "{path}");
        }
    }
}
