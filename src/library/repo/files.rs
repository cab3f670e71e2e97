//! Files and versions: what is on the disks, and what it is known to hold.

use rusqlite::{Connection, OptionalExtension as _};
use serde::{Deserialize, Serialize};
use spindle_base::clock::rfc3339;
use spindle_media::info::{Disposition, MediaInfo, Stream, StreamKind, Subtitle};
use spindle_media::keyframes::KeyframeIndex;

use super::libraries::path_of;
use crate::db::uint;
use crate::error::{LibraryError, Result};
use crate::{ExternalSubtitle, ItemType, Library, PlayFile, Playable, Version};

/// What the name of a subtitle file says; kept with it as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct SideSubtitle {
    pub(crate) codec: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) language: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) default: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) forced: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) hearing_impaired: bool,
}

/// One file of a version, as read.
struct Part {
    file: PlayFile,
    size_bytes: u64,
}

struct VersionRow {
    pk: i64,
    id: String,
    label: Option<String>,
    edition: Option<String>,
    added_us: i64,
}

fn version_rows(db: &Connection, item: i64) -> Result<Vec<VersionRow>> {
    let mut statement = db.prepare_cached(
        "SELECT pk, id, label, edition, added FROM versions WHERE item = ?1 ORDER BY added, pk",
    )?;
    let rows = statement
        .query_map([item], |r| {
            Ok(VersionRow {
                pk: r.get(0)?,
                id: r.get(1)?,
                label: r.get(2)?,
                edition: r.get(3)?,
                added_us: r.get(4)?,
            })
        })?
        .collect::<rusqlite::Result<_>>()?;
    Ok(rows)
}

fn damaged(what: &'static str) -> impl FnOnce(serde_json::Error) -> LibraryError {
    move |e| LibraryError::Damaged { what, reason: e.to_string() }
}

fn parts(db: &Connection, version: i64) -> Result<Vec<Part>> {
    let mut statement = db.prepare_cached(
        "SELECT f.pk, f.id, r.path, f.path, f.size_bytes, f.info, f.unreadable, f.missing_since IS NULL, f.keyframes
         FROM files f JOIN roots r ON r.pk = f.root WHERE f.version = ?1 ORDER BY f.part, f.path",
    )?;
    let mut rows = statement.query([version])?;
    let mut out = Vec::new();
    while let Some(r) = rows.next()? {
        let relative = path_of(r.get_ref(3)?.as_blob().map_err(rusqlite::Error::from)?).to_owned();
        let root = path_of(r.get_ref(2)?.as_blob().map_err(rusqlite::Error::from)?).to_owned();
        let info: Option<String> = r.get(5)?;
        let keyframes: Option<Vec<u8>> = r.get(8)?;
        let pk: i64 = r.get(0)?;
        let mut info = read_info(info.as_deref())?;
        let external = match &mut info {
            Some(info) => attach_subtitles(db, pk, info)?,
            None => Vec::new(),
        };
        out.push(Part {
            size_bytes: uint(r.get(4)?),
            file: PlayFile {
                id: r.get(1)?,
                path: root.join(&relative),
                name: relative.to_string_lossy().into_owned(),
                available: r.get(7)?,
                info,
                unreadable: r.get(6)?,
                keyframes: keyframes
                    .map(|k| serde_json::from_slice(&k))
                    .transpose()
                    .map_err(damaged("key frames of a file"))?,
                external,
            },
        });
    }
    Ok(out)
}

/// Appends the subtitle files beside a film to its streams, with indices that follow on.
fn attach_subtitles(db: &Connection, file: i64, info: &mut MediaInfo) -> Result<Vec<ExternalSubtitle>> {
    let mut statement = db.prepare_cached(
        "SELECT r.path, f.path, f.side FROM files f JOIN roots r ON r.pk = f.root
         WHERE f.owner = ?1 AND f.class = 'subtitle' AND f.missing_since IS NULL AND f.side IS NOT NULL ORDER BY f.path",
    )?;
    let mut rows = statement.query([file])?;
    let mut out = Vec::new();
    // FFmpeg counts streams by position; after a file's own ones come those beside it.
    let mut next = info.streams.iter().map(|s| s.index + 1).max().unwrap_or(0);
    while let Some(r) = rows.next()? {
        let relative = path_of(r.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?).to_owned();
        let root = path_of(r.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?).to_owned();
        let side: String = r.get(2)?;
        let side: SideSubtitle = serde_json::from_str(&side).map_err(damaged("subtitle file"))?;
        let name = relative.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = matches!(side.codec.as_str(), "subrip" | "webvtt" | "ass" | "text" | "microdvd");
        info.streams.push(Stream {
            index: next,
            codec: side.codec.clone(),
            codec_string: None,
            codec_tag: None,
            profile: None,
            language: side.language,
            title: None,
            bitrate_bps: None,
            duration_s: None,
            time_base: [1, 1_000],
            disposition: Disposition {
                default: side.default,
                forced: side.forced,
                hearing_impaired: side.hearing_impaired,
                ..Disposition::default()
            },
            kind: StreamKind::Subtitle(Subtitle { text, external: Some(name) }),
        });
        out.push(ExternalSubtitle { stream: next, path: root.join(&relative), root, codec: side.codec });
        next += 1;
    }
    Ok(out)
}

/// Sum of all parts' lengths, where every part has one.
fn total_s(parts: &[Part]) -> Option<f64> {
    parts.iter().map(|p| p.file.info.as_ref().and_then(|i| i.duration_s)).sum()
}

fn height(version: &Version) -> u32 {
    version
        .streams
        .iter()
        .filter_map(|s| match &s.kind {
            StreamKind::Video(v) if !s.disposition.attached_picture => Some(v.height),
            _ => None,
        })
        .max()
        .unwrap_or(0)
}

fn shown(row: VersionRow, parts: &[Part]) -> Option<Version> {
    let first = parts.first()?;
    let info = first.file.info.as_ref();
    Some(Version {
        id: row.id,
        label: row.label,
        edition: row.edition,
        file: first.file.name.clone(),
        size_bytes: parts.iter().map(|p| p.size_bytes).sum(),
        container: info.map(|i| i.container.clone()),
        duration_s: total_s(parts),
        bitrate_bps: info.and_then(|i| i.bitrate_bps),
        streams: info.map(|i| i.streams.clone()).unwrap_or_default(),
        chapters: info.map(|i| i.chapters.clone()).unwrap_or_default(),
        parts: parts.len() as u64,
        available: parts.iter().all(|p| p.file.available),
        probed: parts.iter().all(|p| p.file.info.is_some() || p.file.unreadable.is_some()),
        unreadable: parts.iter().find_map(|p| p.file.unreadable.clone()),
        added: rfc3339(row.added_us),
    })
}

/// Every version with its parts, the one to play first: there, readable, largest picture.
fn versions_with_parts(db: &Connection, item: i64) -> Result<Vec<(Version, Vec<Part>)>> {
    let mut out = Vec::new();
    for row in version_rows(db, item)? {
        let parts = parts(db, row.pk)?;
        if let Some(version) = shown(row, &parts) {
            out.push((version, parts));
        }
    }
    out.sort_by_key(|(v, _)| {
        (!v.available, v.unreadable.is_some(), v.edition.is_some(), std::cmp::Reverse(height(v)))
    });
    Ok(out)
}

pub(crate) fn versions(db: &Connection, item: i64) -> Result<Vec<Version>> {
    Ok(versions_with_parts(db, item)?.into_iter().map(|(v, _)| v).collect())
}

/// A description as the database keeps it.
pub(crate) fn read_info(text: Option<&str>) -> Result<Option<MediaInfo>> {
    text.map(serde_json::from_str).transpose().map_err(damaged("description of a file"))
}

fn title_of(db: &Connection, item: i64) -> Result<(String, ItemType, String, String)> {
    Ok(db
        .prepare_cached(
            "SELECT i.id, i.type, i.library, i.title, i.year, t.title, i.season, i.number
             FROM items i LEFT JOIN items t ON t.pk = i.top WHERE i.pk = ?1",
        )?
        .query_row([item], |r| {
            let (kind, title): (ItemType, String) = (r.get(1)?, r.get(3)?);
            let (year, top): (Option<i64>, Option<String>) = (r.get(4)?, r.get(5)?);
            let (season, number): (Option<i64>, Option<i64>) = (r.get(6)?, r.get(7)?);
            let shown = match (kind, top, season, number, year) {
                (ItemType::Episode, Some(show), Some(s), Some(e), _) => {
                    format!("{show} S{s:02}E{e:02} {title}")
                }
                (ItemType::Episode, Some(show), ..) => format!("{show} {title}"),
                (ItemType::Track, Some(artist), ..) => format!("{artist} - {title}"),
                (_, _, _, _, Some(year)) => format!("{title} ({year})"),
                _ => title,
            };
            Ok((r.get(0)?, kind, r.get(2)?, shown))
        })?)
}

/// The show of an episode.
fn series_of(db: &Connection, item: i64) -> Result<Option<String>> {
    Ok(db
        .prepare_cached(
            "SELECT t.id FROM items i JOIN items t ON t.pk = i.top WHERE i.pk = ?1 AND i.type = 'episode'",
        )?
        .query_row([item], |r| r.get(0))
        .optional()?)
}

impl Library {
    /// What is needed to play an item: the named version, or else the first that is there.
    ///
    /// # Errors
    /// `NotFound` for an unknown item or version; `BadInput` for one that holds no file (a show).
    pub async fn playable(&self, item: &str, version: Option<&str>) -> Result<Playable> {
        let mut all = self.playables(item).await?;
        let at = match version {
            Some(id) => all.iter().position(|p| p.version == *id),
            None => Some(0),
        };
        at.filter(|at| *at < all.len())
            .map(|at| all.swap_remove(at))
            .ok_or_else(|| LibraryError::not_found("version", version.unwrap_or(item)))
    }

    /// What is needed to play each version of an item, the one to play first before the others; at
    /// least one.
    ///
    /// # Errors
    /// `NotFound` for an unknown item or one without versions; `BadInput` for one that holds no file (a
    /// show).
    pub async fn playables(&self, item: &str) -> Result<Vec<Playable>> {
        let item = item.to_owned();
        self.read(move |db| {
            let head = super::items::head(db, &item)?;
            if !head.kind.is_leaf() {
                return Err(LibraryError::BadInput(format!(
                    "a {} cannot be played, its episodes or tracks can",
                    head.kind
                )));
            }
            let all = versions_with_parts(db, head.pk)?;
            if all.is_empty() {
                return Err(LibraryError::not_found("version of item", &item));
            }
            let (item, kind, library, title) = title_of(db, head.pk)?;
            let series = series_of(db, head.pk)?;
            let one = |(version, parts): (Version, Vec<Part>)| Playable {
                item: item.clone(),
                kind,
                library: library.clone(),
                title: title.clone(),
                series: series.clone(),
                version: version.id,
                label: version.label,
                edition: version.edition,
                parts: parts.into_iter().map(|p| p.file).collect(),
            };
            Ok(all.into_iter().map(one).collect())
        })
        .await
    }

    /// Key frames of a file by its id ([`PlayFile::id`]); `None` where nobody knows them yet.
    pub async fn keyframes(&self, file: &str) -> Result<Option<KeyframeIndex>> {
        let id = file.to_owned();
        let stored: Option<Vec<u8>> = self
            .read(move |db| {
                db.prepare_cached("SELECT keyframes FROM files WHERE id = ?1")?
                    .query_row([&id], |r| r.get(0))
                    .optional()?
                    .ok_or_else(|| LibraryError::not_found("file", &id))
            })
            .await?;
        stored.map(|k| serde_json::from_slice(&k)).transpose().map_err(damaged("key frames of a file"))
    }

    /// Keeps the key frames of a file, as a scan of its packets found them.
    pub async fn set_keyframes(&self, file: &str, index: &KeyframeIndex) -> Result<()> {
        let id = file.to_owned();
        let stored = serde_json::to_vec(index).map_err(damaged("key frames"))?;
        self.write(move |db| {
            let n =
                db.prepare_cached("UPDATE files SET keyframes = ?2 WHERE id = ?1")?.execute((&id, stored))?;
            if n == 0 { Err(LibraryError::not_found("file", &id)) } else { Ok(()) }
        })
        .await
    }
}
