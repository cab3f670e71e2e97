//! Items: reading rows, links between them, and the columns that follow from what is below.

use rusqlite::{Connection, OptionalExtension as _, Row};
use spindle_base::clock::rfc3339;

use crate::db::uint;
use crate::error::{LibraryError, Result};
use crate::{ImageKind, ImageRef, Item, ItemType, State};

/// What a list row is made of; `?1` is the user. [`row`] reads it by position.
pub(crate) const SELECT: &str =
    "SELECT i.pk, i.id, i.type, i.title, i.year, i.released, i.added, i.duration_s, p.id,
    i.library, i.available, i.season, i.number, i.number_last, i.disc, t.id, t.title, p.title, i.extra,
    s.position_s, s.watched, s.favorite, s.rating, s.plays, s.last_played
    FROM items i LEFT JOIN items p ON p.pk = i.parent LEFT JOIN items t ON t.pk = i.top
    LEFT JOIN states s ON s.user = ?1 AND s.identity = i.identity";

/// The few columns that writes go by.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    pub(crate) pk: i64,
    pub(crate) kind: ItemType,
    pub(crate) identity: String,
    pub(crate) duration_s: Option<f64>,
}

pub(crate) fn head(db: &Connection, id: &str) -> Result<Head> {
    db.prepare_cached("SELECT pk, type, identity, duration_s FROM items WHERE id = ?1")?
        .query_row([id], |r| {
            Ok(Head { pk: r.get(0)?, kind: r.get(1)?, identity: r.get(2)?, duration_s: r.get(3)? })
        })
        .optional()?
        .ok_or_else(|| LibraryError::not_found("item", id))
}

/// A row, and the key for what [`complete`] adds.
pub(crate) fn row(r: &Row<'_>) -> rusqlite::Result<(i64, Item)> {
    let kind: ItemType = r.get(2)?;
    let number: Option<i64> = r.get(12)?;
    let (episode, track) = match kind {
        ItemType::Episode => (number, None),
        ItemType::Track => (None, number),
        _ => (None, None),
    };
    let item = Item {
        id: r.get(1)?,
        kind,
        title: r.get(3)?,
        year: r.get(4)?,
        released: r.get(5)?,
        added: rfc3339(r.get(6)?),
        duration_s: r.get(7)?,
        parent: r.get(8)?,
        library: r.get(9)?,
        available: r.get(10)?,
        season: r.get(11)?,
        episode,
        episode_last: r.get::<_, Option<i64>>(13)?.filter(|last| Some(*last) != number),
        disc: r.get(14)?,
        track,
        top: r.get(15)?,
        top_title: r.get(16)?,
        parent_title: r.get(17)?,
        extra: r.get(18)?,
        state: State {
            position_s: r.get::<_, Option<f64>>(19)?.unwrap_or(0.0),
            watched: r.get::<_, Option<bool>>(20)?.unwrap_or(false),
            favorite: r.get::<_, Option<bool>>(21)?.unwrap_or(false),
            rating: r.get(22)?,
            plays: uint(r.get::<_, Option<i64>>(23)?.unwrap_or(0)),
            last_played: r.get::<_, Option<i64>>(24)?.map(rfc3339),
        },
        leaves: None,
        unwatched: None,
        images: Vec::new(),
        unreadable: None,
    };
    Ok((r.get(0)?, item))
}

/// Adds pictures, the counts of what is below, and why nothing of it can be played.
pub(crate) fn complete(db: &Connection, user: &str, (pk, mut item): (i64, Item)) -> Result<Item> {
    item.images = images(db, pk)?;
    match item.kind {
        ItemType::Show | ItemType::Artist => below(
            db,
            user,
            pk,
            &mut item,
            "SELECT count(*), coalesce(sum(coalesce(s.watched, 0) = 0), 0), max(s.last_played) FROM items c
             LEFT JOIN states s ON s.user = ?1 AND s.identity = c.identity
             WHERE c.top = ?2 AND c.type IN ('episode', 'track')",
        )?,
        ItemType::Season | ItemType::Album => below(
            db,
            user,
            pk,
            &mut item,
            "SELECT count(*), coalesce(sum(coalesce(s.watched, 0) = 0), 0), max(s.last_played) FROM items c
             LEFT JOIN states s ON s.user = ?1 AND s.identity = c.identity
             WHERE c.parent = ?2 AND c.type IN ('episode', 'track')",
        )?,
        _ => item.unreadable = unreadable(db, pk)?,
    }
    Ok(item)
}

fn below(db: &Connection, user: &str, pk: i64, item: &mut Item, sql: &str) -> Result<()> {
    let (leaves, unwatched, last): (i64, i64, Option<i64>) =
        db.prepare_cached(sql)?.query_row((user, pk), |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?)))?;
    item.leaves = Some(uint(leaves));
    item.unwatched = Some(uint(unwatched));
    item.state.watched = leaves > 0 && unwatched == 0;
    item.state.last_played = last.map(rfc3339);
    Ok(())
}

pub(crate) fn images(db: &Connection, pk: i64) -> Result<Vec<ImageRef>> {
    let mut statement =
        db.prepare_cached("SELECT kind, hash, width, height FROM images WHERE item = ?1 ORDER BY kind")?;
    let rows = statement
        .query_map([pk], |r| {
            let hash: String = r.get(1)?;
            Ok(ImageRef {
                kind: r.get::<_, ImageKind>(0)?,
                tag: hash.chars().take(16).collect(),
                width: r.get(2)?,
                height: r.get(3)?,
            })
        })?
        .collect::<rusqlite::Result<_>>()?;
    Ok(rows)
}

fn unreadable(db: &Connection, pk: i64) -> Result<Option<String>> {
    let (files, failed, reason): (i64, i64, Option<String>) = db
        .prepare_cached(
            "SELECT count(*), count(f.unreadable), min(f.unreadable) FROM versions v JOIN files f ON f.version = v.pk
             WHERE v.item = ?1 AND f.missing_since IS NULL",
        )?
        .query_row([pk], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?)))?;
    Ok(reason.filter(|_| files == failed))
}

pub(crate) fn summary(db: &Connection, user: &str, id: &str) -> Result<Item> {
    let found = db
        .prepare_cached(&format!("{SELECT} WHERE i.id = ?2"))?
        .query_row([user, id], row)
        .optional()?
        .ok_or_else(|| LibraryError::not_found("item", id))?;
    complete(db, user, found)
}

/// The rows of `tail`, complete; `tail` continues [`SELECT`].
pub(crate) fn list(
    db: &Connection,
    user: &str,
    tail: &str,
    values: &[&dyn rusqlite::ToSql],
) -> Result<Vec<Item>> {
    let mut statement = db.prepare_cached(&format!("{SELECT} {tail}"))?;
    let mut all: Vec<&dyn rusqlite::ToSql> = vec![&user];
    all.extend_from_slice(values);
    let rows: Vec<(i64, Item)> = statement.query_map(&all[..], row)?.collect::<rusqlite::Result<_>>()?;
    rows.into_iter().map(|found| complete(db, user, found)).collect()
}

/// Identities of the episodes or tracks below a show, season, artist or album.
pub(crate) fn leaf_identities(db: &Connection, head: &Head) -> Result<Vec<String>> {
    let mut statement = db.prepare_cached(
        "SELECT identity FROM items WHERE (top = ?1 OR parent = ?1) AND type IN ('episode', 'track')",
    )?;
    let rows = statement.query_map([head.pk], |r| r.get(0))?.collect::<rusqlite::Result<_>>()?;
    Ok(rows)
}

/// Removes items that hold nothing any more: leaves without a file, then parents without a child.
/// Watch state is not touched: it waits for the work to come back.
pub(crate) fn drop_childless(db: &Connection, library: &str) -> Result<()> {
    db.prepare_cached(
        "DELETE FROM versions WHERE item IN (SELECT pk FROM items WHERE library = ?1)
         AND NOT EXISTS (SELECT 1 FROM files f WHERE f.version = versions.pk)",
    )?
    .execute([library])?;
    db.prepare_cached(
        "DELETE FROM items WHERE library = ?1 AND type IN ('movie', 'episode', 'track', 'photo', 'extra')
         AND NOT EXISTS (SELECT 1 FROM versions v WHERE v.item = items.pk)",
    )?
    .execute([library])?;
    for _ in 0..2 {
        db.prepare_cached(
            "DELETE FROM items WHERE library = ?1 AND type IN ('season', 'album', 'show', 'artist')
             AND NOT EXISTS (SELECT 1 FROM items c WHERE c.parent = items.pk)",
        )?
        .execute([library])?;
    }
    Ok(())
}

/// Brings `available`, `latest` and the years of parents in line with files. Touches only rows
/// that differ: a refresh without news writes nothing.
pub(crate) fn refresh(db: &Connection, library: &str) -> Result<()> {
    db.prepare_cached(
        "UPDATE items SET available = 1 - available WHERE library = ?1
         AND type IN ('movie', 'episode', 'track', 'photo', 'extra')
         AND available <> EXISTS (SELECT 1 FROM versions v JOIN files f ON f.version = v.pk
                                  WHERE v.item = items.pk AND f.missing_since IS NULL)",
    )?
    .execute([library])?;
    for kinds in [["season", "album"], ["show", "artist"]] {
        db.prepare_cached(
            "UPDATE items SET available = 1 - available WHERE library = ?1 AND type IN (?2, ?3)
             AND available <> EXISTS (SELECT 1 FROM items c WHERE c.parent = items.pk AND c.available = 1)",
        )?
        .execute([library, kinds[0], kinds[1]])?;
        db.prepare_cached(
            "UPDATE items SET latest = (SELECT max(c.latest) FROM items c WHERE c.parent = items.pk)
             WHERE library = ?1 AND type IN (?2, ?3)
             AND latest <> (SELECT max(c.latest) FROM items c WHERE c.parent = items.pk)",
        )?
        .execute([library, kinds[0], kinds[1]])?;
    }
    Ok(())
}
