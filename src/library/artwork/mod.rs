//! Pictures: kept once in the data directory, given out in the size that is asked for.
//!
//! Browsing reads from here alone, so that no poster wakes a media disk. What is kept was decoded
//! and encoded anew: it is known to be a picture, upright, of bounded size, without the metadata
//! of the original.

mod store;

use rusqlite::{Connection, OptionalExtension as _};

pub(crate) use store::{Kept, MAX_FILE_BYTES, Store};

use crate::error::{LibraryError, Result};
use crate::repo::items;
use crate::{Image, ImageFormat, ImageKind, ItemType, Library};

/// A picture as the database knows it.
#[derive(Debug, Clone)]
struct Found {
    hash: String,
    width: u32,
    height: u32,
}

fn own(db: &Connection, item: i64, kind: ImageKind) -> Result<Option<Found>> {
    Ok(db
        .prepare_cached("SELECT hash, width, height FROM images WHERE item = ?1 AND kind = ?2")?
        .query_row((item, kind), |r| Ok(Found { hash: r.get(0)?, width: r.get(1)?, height: r.get(2)? }))
        .optional()?)
}

/// Kinds that may stand in for one another, best first.
fn stand_ins(kind: ImageKind) -> &'static [ImageKind] {
    match kind {
        ImageKind::Poster => &[ImageKind::Poster],
        ImageKind::Backdrop => &[ImageKind::Backdrop],
        ImageKind::Logo => &[ImageKind::Logo],
        ImageKind::Thumb => &[ImageKind::Thumb, ImageKind::Still, ImageKind::Backdrop],
        ImageKind::Still => &[ImageKind::Still, ImageKind::Thumb],
    }
}

/// The item's own picture, or that of what it belongs to: an episode shows its season's or
/// show's poster, a track its album's cover.
fn find(db: &Connection, id: &str, kind: ImageKind) -> Result<Found> {
    let head = items::head(db, id)?;
    let (parent, top): (Option<i64>, Option<i64>) = db
        .prepare_cached("SELECT parent, top FROM items WHERE pk = ?1")?
        .query_row([head.pk], |r| Ok((r.get(0)?, r.get(1)?)))?;
    // A frame of another episode would mislead; the rest is shared downwards.
    let inherits = kind != ImageKind::Still && head.kind != ItemType::Extra;
    let holders =
        std::iter::once(Some(head.pk)).chain(inherits.then_some([parent, top]).into_iter().flatten());
    // A photograph is its own poster.
    let kinds = if head.kind == ItemType::Photo { &[ImageKind::Thumb] } else { stand_ins(kind) };
    for holder in holders.flatten() {
        for kind in kinds {
            if let Some(found) = own(db, holder, *kind)? {
                return Ok(found);
            }
        }
    }
    Err(LibraryError::not_found("image of item", id))
}

/// Gives `item` the kept picture.
pub(crate) fn set(db: &Connection, item: i64, kind: ImageKind, source: &str, kept: &Kept) -> Result<()> {
    db.prepare_cached(
        "INSERT INTO images (item, kind, source, hash, mime, width, height) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
         ON CONFLICT (item, kind) DO UPDATE SET source = excluded.source, hash = excluded.hash, mime = excluded.mime,
             width = excluded.width, height = excluded.height",
    )?
    .execute((item, kind, source, &kept.hash, kept.mime, kept.width, kept.height))?;
    Ok(())
}

/// Whether an item has this picture.
pub(crate) fn has(db: &Connection, item: i64, kind: ImageKind) -> Result<bool> {
    Ok(own(db, item, kind)?.is_some())
}

impl Library {
    /// A picture of an item, scaled to fit into `width` × `height` pixels (rounded up to a few
    /// fixed sizes, never enlarged). Needs a tokio runtime: decoding runs on its blocking threads.
    ///
    /// # Errors
    /// `NotFound` where neither the item nor what it belongs to has one: show a placeholder.
    pub async fn image(
        &self,
        item: &str,
        kind: ImageKind,
        width: Option<u32>,
        height: Option<u32>,
        format: ImageFormat,
    ) -> Result<Image> {
        let id = item.to_owned();
        let found = self.read(move |db| find(db, &id, kind)).await?;
        let size = store::fit(found.width, found.height, width, height);
        self.inner.artwork.give(found.hash, size, format).await
    }

    /// The entity tag that [`Library::image`] would give, without reading the picture.
    pub async fn image_etag(
        &self,
        item: &str,
        kind: ImageKind,
        width: Option<u32>,
        height: Option<u32>,
        format: ImageFormat,
    ) -> Result<String> {
        let id = item.to_owned();
        let found = self.read(move |db| find(db, &id, kind)).await?;
        Ok(store::etag(&found.hash, store::fit(found.width, found.height, width, height), format))
    }
}
