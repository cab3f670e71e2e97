//! Phase 5: plans become items, versions and files. Every function runs in the writer's transaction.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension as _};
use spindle_base::id::new_id;

use super::identify::{Above, Plan};
use super::walk::Seen;
use crate::ItemType;
use crate::db::int;
use crate::error::Result;
use crate::repo::libraries::bytes_of;
use crate::repo::states;
use crate::sort_title::{same_work, sort_title};

/// What every placement of one scan shares.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) library: String,
    pub(super) now_us: i64,
    /// Files that this scan found under another name than before.
    pub(super) moved: Arc<HashSet<i64>>,
}

/// Files that make one item.
#[derive(Debug, Clone)]
pub(super) struct Group {
    pub(super) plan: Plan,
    pub(super) versions: Vec<Version>,
}

#[derive(Debug, Clone)]
pub(super) struct Version {
    pub(super) label: Option<String>,
    pub(super) edition: Option<String>,
    /// Root and path of each part, in playing order; known to the database.
    pub(super) parts: Vec<(i64, PathBuf)>,
}

/// A row of `items` that a placement looks at.
#[derive(Debug, Clone)]
struct Existing {
    pk: i64,
    kind: ItemType,
    identity: String,
    provider_id: Option<String>,
}

/// What to write into a row of `items`.
struct Row<'a> {
    kind: ItemType,
    identity: &'a str,
    parent: Option<i64>,
    top: Option<i64>,
    title: &'a str,
    year: Option<i64>,
    released: Option<&'a str>,
    season: Option<i64>,
    number: Option<i64>,
    number_last: Option<i64>,
    disc: Option<i64>,
    provider_id: Option<&'a str>,
    extra: Option<&'a str>,
}

/// A new file. Its content is read later, by the probe phase.
pub(super) fn insert_file(db: &Connection, file: &Seen, now_us: i64) -> Result<()> {
    // Subtitles need no look inside; all others are read once.
    let probe = if file.class == super::walk::Class::Subtitle { "none" } else { "pending" };
    db.prepare_cached(
        "INSERT INTO files (id, root, path, class, size_bytes, mtime_ns, ino, probe, added)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
         ON CONFLICT (root, path) DO UPDATE SET class = excluded.class, size_bytes = excluded.size_bytes,
             mtime_ns = excluded.mtime_ns, ino = excluded.ino, probe = excluded.probe",
    )?
    .execute((
        new_id(),
        file.root,
        bytes_of(&file.path),
        file.class.as_str(),
        int(file.size_bytes),
        file.mtime_ns,
        file.ino.cast_signed(),
        probe,
        now_us,
    ))?;
    Ok(())
}

/// Another size, time, inode or place. `probe` says what is to be looked at again.
pub(super) fn update_file(db: &Connection, pk: i64, file: &Seen, probe: Option<&str>) -> Result<()> {
    db.prepare_cached(
        "UPDATE files SET root = ?2, path = ?3, class = ?4, size_bytes = ?5, mtime_ns = ?6, ino = ?7,
         probe = CASE WHEN class = 'subtitle' THEN 'none' ELSE coalesce(?8, probe) END,
         missing_since = NULL, missing_why = NULL WHERE pk = ?1",
    )?
    .execute((
        pk,
        file.root,
        bytes_of(&file.path),
        file.class.as_str(),
        int(file.size_bytes),
        file.mtime_ns,
        file.ino.cast_signed(),
        probe,
    ))?;
    Ok(())
}

/// It is there again.
pub(super) fn mark_back(db: &Connection, pk: i64) -> Result<()> {
    db.prepare_cached("UPDATE files SET missing_since = NULL, missing_why = NULL WHERE pk = ?1")?
        .execute([pk])?;
    Ok(())
}

pub(super) fn file_key(db: &Connection, root: i64, path: &Path) -> Result<Option<i64>> {
    Ok(db
        .prepare_cached("SELECT pk FROM files WHERE root = ?1 AND path = ?2")?
        .query_row((root, bytes_of(path)), |r| r.get(0))
        .optional()?)
}

/// The item that holds a file.
pub(super) fn item_of(db: &Connection, file: i64) -> Result<Option<i64>> {
    Ok(db
        .prepare_cached("SELECT v.item FROM files f JOIN versions v ON v.pk = f.version WHERE f.pk = ?1")?
        .query_row([file], |r| r.get(0))
        .optional()?)
}

fn existing(r: &rusqlite::Row<'_>) -> rusqlite::Result<Existing> {
    Ok(Existing { pk: r.get(0)?, kind: r.get(1)?, identity: r.get(2)?, provider_id: r.get(3)? })
}

fn by_identity(db: &Connection, library: &str, identity: &str) -> Result<Option<Existing>> {
    Ok(db
        .prepare_cached(
            "SELECT pk, type, identity, provider_id FROM items WHERE library = ?1 AND identity = ?2",
        )?
        .query_row([library, identity], existing)
        .optional()?)
}

fn by_provider(db: &Connection, library: &str, kind: ItemType, id: &str) -> Result<Option<Existing>> {
    Ok(db
        .prepare_cached(
            "SELECT pk, type, identity, provider_id FROM items WHERE library = ?1 AND type = ?2 AND provider_id = ?3",
        )?
        .query_row((library, kind, id), existing)
        .optional()?)
}

fn by_key(db: &Connection, pk: i64) -> Result<Option<Existing>> {
    Ok(db
        .prepare_cached("SELECT pk, type, identity, provider_id FROM items WHERE pk = ?1")?
        .query_row([pk], existing)
        .optional()?)
}

fn insert(db: &Connection, at: &Place, row: &Row<'_>) -> Result<i64> {
    Ok(db
        .prepare_cached(
            "INSERT INTO items (id, library, type, identity, parent, top, title, sort_title, search_text, year, released,
                 season, number, number_last, disc, provider_id, extra, added, latest, updated)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?7, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?17, ?17)
             RETURNING pk",
        )?
        .query_row(
            rusqlite::params![
                new_id(),
                at.library,
                row.kind,
                row.identity,
                row.parent,
                row.top,
                row.title,
                sort_title(row.title),
                row.year,
                row.released,
                row.season,
                row.number,
                row.number_last,
                row.disc,
                row.provider_id,
                row.extra,
                at.now_us
            ],
            |r| r.get(0),
        )?)
}

/// Makes `item` another work, or the same under another name: its id, date and state stay.
fn rename(db: &Connection, at: &Place, item: &Existing, row: &Row<'_>) -> Result<()> {
    db.prepare_cached(
        "UPDATE items SET library = ?2, type = ?3, identity = ?4, parent = ?5, top = ?6, title = ?7, sort_title = ?8,
         search_text = ?7, year = ?9, released = ?10, season = ?11, number = ?12, number_last = ?13, disc = ?14,
         provider_id = coalesce(?15, provider_id), extra = ?16, updated = ?17 WHERE pk = ?1",
    )?
    .execute(rusqlite::params![
        item.pk,
        at.library,
        row.kind,
        row.identity,
        row.parent,
        row.top,
        row.title,
        sort_title(row.title),
        row.year,
        row.released,
        row.season,
        row.number,
        row.number_last,
        row.disc,
        row.provider_id,
        row.extra,
        at.now_us
    ])?;
    carry_state(db, &item.identity, row.identity)
}

/// State follows a work to its new name; the old one is dropped where nothing has it any more.
fn carry_state(db: &Connection, from: &str, to: &str) -> Result<()> {
    states::rename(db, from, to)?;
    let used: bool = db
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM items WHERE identity = ?1)")?
        .query_row([from], |r| r.get(0))?;
    if !used && from != to {
        states::forget(db, from)?;
    }
    Ok(())
}

/// Whether nothing but `files` keeps `item` alive: every other file of it is gone.
fn only_of(db: &Connection, item: i64, files: &HashSet<i64>) -> Result<bool> {
    let mut statement = db.prepare_cached(
        "SELECT f.pk FROM files f JOIN versions v ON v.pk = f.version WHERE v.item = ?1 AND f.missing_since IS NULL",
    )?;
    let mut rows = statement.query([item])?;
    while let Some(r) = rows.next()? {
        if !files.contains(&r.get(0)?) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether every file below a show that is still there was moved in this scan.
fn whole_show_moved(db: &Connection, at: &Place, show: i64) -> Result<bool> {
    let mut statement = db.prepare_cached(
        "SELECT f.pk FROM items i JOIN versions v ON v.item = i.pk JOIN files f ON f.version = v.pk
         WHERE i.top = ?1 AND f.missing_since IS NULL",
    )?;
    let mut rows = statement.query([show])?;
    while let Some(r) = rows.next()? {
        if !at.moved.contains(&r.get(0)?) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Writes a group: finds or makes its item and what is above it, and puts the files under it.
pub(super) fn place(db: &Connection, at: &Place, group: &Group) -> Result<()> {
    let mut versions = Vec::new();
    for version in &group.versions {
        let mut keys = Vec::new();
        for (root, path) in &version.parts {
            keys.extend(file_key(db, *root, path)?);
        }
        if !keys.is_empty() {
            versions.push((version, keys));
        }
    }
    let files: HashSet<i64> = versions.iter().flat_map(|(_, keys)| keys.iter().copied()).collect();
    if files.is_empty() {
        return Ok(());
    }
    let mut old = None;
    for file in versions.iter().flat_map(|(_, keys)| keys) {
        if let Some(item) = item_of(db, *file)? {
            old = by_key(db, item)?;
            break;
        }
    }
    let item = place_item(db, at, &group.plan, old, &files)?;
    for (version, keys) in &versions {
        place_version(db, at, item, version, keys)?;
    }
    Ok(())
}

fn place_item(
    db: &Connection,
    at: &Place,
    plan: &Plan,
    old: Option<Existing>,
    files: &HashSet<i64>,
) -> Result<i64> {
    let kind = plan.kind.unwrap_or(ItemType::Movie);
    let old_top: Option<i64> = match &old {
        Some(old) => {
            db.prepare_cached("SELECT top FROM items WHERE pk = ?1")?.query_row([old.pk], |r| r.get(0))?
        }
        None => None,
    };
    let above = above(db, at, plan, old_top)?;
    // A renamed show has given its episodes new identities: look again.
    let old = match old {
        Some(old) => by_key(db, old.pk)?,
        None => None,
    };
    let mut identity = match (&plan.above, kind) {
        (_, ItemType::Photo) => format!("{}|{}", plan.key, at.library),
        (Above::None, _) => plan.key.clone(),
        _ => format!("{kind}|{}|{}", above.key, plan.key),
    };
    let found = find(db, at, kind, plan, &mut identity)?;
    let season = match &plan.above {
        Above::Season { season, .. } => Some(*season),
        _ => None,
    };
    let row = Row {
        kind,
        identity: &identity,
        parent: above.parent,
        top: above.top,
        title: &plan.title,
        year: plan.year,
        released: plan.released.as_deref(),
        season,
        number: plan.number,
        number_last: plan.number_last,
        disc: plan.disc,
        provider_id: plan.provider_id.as_deref(),
        extra: None,
    };
    let item = match (found, old) {
        (Some(found), old) => {
            if let Some(old) = old.filter(|o| o.pk != found.pk)
                && only_of(db, old.pk, files)?
            {
                carry_state(db, &old.identity, &found.identity)?;
            }
            db.prepare_cached(
                "UPDATE items SET provider_id = coalesce(provider_id, ?2), year = coalesce(year, ?3) WHERE pk = ?1",
            )?
            .execute((found.pk, &plan.provider_id, plan.year))?;
            found.pk
        }
        (None, Some(old)) if old.kind == kind && only_of(db, old.pk, files)? => {
            rename(db, at, &old, &row)?;
            old.pk
        }
        (None, _) => insert(db, at, &row)?,
    };
    Ok(item)
}

/// The item that the plan means. Two works that agree in all but their provider's id are two: the
/// second gets the id into its identity.
fn find(
    db: &Connection,
    at: &Place,
    kind: ItemType,
    plan: &Plan,
    identity: &mut String,
) -> Result<Option<Existing>> {
    if let Some(id) = &plan.provider_id
        && let Some(found) = by_provider(db, &at.library, kind, id)?
    {
        return Ok(Some(found));
    }
    let found = by_identity(db, &at.library, identity)?;
    if let (Some(id), Some(other)) = (&plan.provider_id, found.as_ref().and_then(|f| f.provider_id.as_ref()))
        && id != other
        && id.split(':').next() == other.split(':').next()
    {
        identity.push('|');
        identity.push_str(id);
        return by_identity(db, &at.library, identity);
    }
    Ok(found)
}

/// What stands above an item.
#[derive(Default)]
struct Parents {
    parent: Option<i64>,
    top: Option<i64>,
    key: String,
}

fn above(db: &Connection, at: &Place, plan: &Plan, old_top: Option<i64>) -> Result<Parents> {
    match &plan.above {
        Above::None => Ok(Parents::default()),
        Above::Season { show, year, season, provider_id } => {
            let show = place_show(db, at, show, *year, provider_id.as_deref(), old_top)?;
            let key = format!("{}|{season}", show.identity);
            let identity = format!("season|{key}");
            let title = if *season == 0 { "Specials".to_owned() } else { format!("Season {season}") };
            let row = Row {
                season: Some(*season),
                ..parent_row(ItemType::Season, &identity, &title, Some(show.pk))
            };
            let parent = find_or_insert(db, at, &row)?;
            Ok(Parents { parent: Some(parent), top: Some(show.pk), key })
        }
        Above::Album { artist, album, year } => {
            let artist_key = artist.as_deref().map(same_work).unwrap_or_default();
            let top = match artist {
                Some(name) => {
                    let identity = format!("artist|{artist_key}");
                    Some(find_or_insert(db, at, &parent_row(ItemType::Artist, &identity, name, None))?)
                }
                None => None,
            };
            let Some(album) = album else {
                return Ok(Parents { parent: top, top, key: format!("{artist_key}|") });
            };
            let key = format!("{artist_key}|{}", same_work(album));
            let identity = format!("album|{key}");
            let row = Row { year: *year, ..parent_row(ItemType::Album, &identity, album, top) };
            Ok(Parents { parent: Some(find_or_insert(db, at, &row)?), top, key })
        }
    }
}

fn parent_row<'a>(kind: ItemType, identity: &'a str, title: &'a str, above: Option<i64>) -> Row<'a> {
    Row {
        kind,
        identity,
        parent: above,
        top: above,
        title,
        year: None,
        released: None,
        season: None,
        number: None,
        number_last: None,
        disc: None,
        provider_id: None,
        extra: None,
    }
}

fn find_or_insert(db: &Connection, at: &Place, row: &Row<'_>) -> Result<i64> {
    match by_identity(db, &at.library, row.identity)? {
        Some(found) => {
            if row.year.is_some() {
                db.prepare_cached("UPDATE items SET year = coalesce(year, ?2) WHERE pk = ?1")?
                    .execute((found.pk, row.year))?;
            }
            Ok(found.pk)
        }
        None => insert(db, at, row),
    }
}

/// The show of this title. A name without a year means the only show of the title; one with a
/// year also takes a show that was first met without.
fn place_show(
    db: &Connection,
    at: &Place,
    title: &str,
    year: Option<i64>,
    provider_id: Option<&str>,
    old: Option<i64>,
) -> Result<Existing> {
    let work = same_work(title);
    let identity = format!("show|{work}|{}", year.map(|y| y.to_string()).unwrap_or_default());
    let found = match provider_id {
        Some(id) => by_provider(db, &at.library, ItemType::Show, id)?,
        None => None,
    };
    let found = match found {
        Some(found) => Some(found),
        None => by_identity(db, &at.library, &identity)?,
    };
    let found = match found {
        Some(found) => Some(found),
        None => similar_show(db, at, &work, year)?,
    };
    if let Some(found) = found {
        db.prepare_cached(
            "UPDATE items SET year = coalesce(year, ?2), provider_id = coalesce(provider_id, ?3) WHERE pk = ?1",
        )?
        .execute((found.pk, year, provider_id))?;
        return Ok(found);
    }
    let row = Row { year, provider_id, ..parent_row(ItemType::Show, &identity, title, None) };
    if let Some(old) = old
        && let Some(old) = by_key(db, old)?.filter(|o| o.kind == ItemType::Show)
        && whole_show_moved(db, at, old.pk)?
    {
        rename(db, at, &old, &row)?;
        rename_below(db, at, old.pk, &old.identity, &identity)?;
        return Ok(Existing { identity, ..old });
    }
    let pk = insert(db, at, &row)?;
    Ok(Existing { pk, kind: ItemType::Show, identity, provider_id: None })
}

fn similar_show(db: &Connection, at: &Place, work: &str, year: Option<i64>) -> Result<Option<Existing>> {
    if year.is_some() {
        return by_identity(db, &at.library, &format!("show|{work}|"));
    }
    let prefix = format!("show|{work}|");
    let mut statement = db.prepare_cached(
        "SELECT pk, type, identity, provider_id FROM items
         WHERE library = ?1 AND type = 'show' AND substr(identity, 1, length(?2)) = ?2 LIMIT 2",
    )?;
    let mut found: Vec<Existing> =
        statement.query_map([&at.library, &prefix], existing)?.collect::<rusqlite::Result<_>>()?;
    Ok(if found.len() == 1 { found.pop() } else { None })
}

/// Seasons and episodes carry their show's identity in theirs.
fn rename_below(db: &Connection, at: &Place, show: i64, from: &str, to: &str) -> Result<()> {
    let mut statement =
        db.prepare_cached("SELECT pk, type, identity, provider_id FROM items WHERE top = ?1")?;
    let below: Vec<Existing> = statement.query_map([show], existing)?.collect::<rusqlite::Result<_>>()?;
    for item in below {
        let start = format!("{}|{from}|", item.kind);
        if let Some(rest) = item.identity.strip_prefix(&start) {
            let identity = format!("{}|{to}|{rest}", item.kind);
            db.prepare_cached("UPDATE items SET identity = ?2, library = ?3 WHERE pk = ?1")?.execute((
                item.pk,
                &identity,
                &at.library,
            ))?;
            carry_state(db, &item.identity, &identity)?;
        }
    }
    Ok(())
}

fn place_version(db: &Connection, at: &Place, item: i64, version: &Version, files: &[i64]) -> Result<()> {
    let mut own: Option<i64> = None;
    for file in files {
        let known: Option<i64> =
            db.prepare_cached("SELECT version FROM files WHERE pk = ?1")?.query_row([file], |r| r.get(0))?;
        own = own.or(known);
    }
    // A version that lost other files than these, gone ones, is not ours to take along.
    let pk = match own {
        Some(pk) => pk,
        None => {
            let pk: i64 = db
                .prepare_cached("INSERT INTO versions (id, item, added) VALUES (?1, ?2, ?3) RETURNING pk")?
                .query_row((new_id(), item, at.now_us), |r| r.get(0))?;
            db.prepare_cached("UPDATE items SET latest = max(latest, ?2) WHERE pk = ?1")?
                .execute((item, at.now_us))?;
            pk
        }
    };
    db.prepare_cached("UPDATE versions SET item = ?2, label = ?3, edition = ?4 WHERE pk = ?1")?.execute((
        pk,
        item,
        &version.label,
        &version.edition,
    ))?;
    for (part, file) in (0_i64..).zip(files) {
        db.prepare_cached("UPDATE files SET version = ?2, part = ?3 WHERE pk = ?1")?
            .execute((file, pk, part))?;
    }
    Ok(())
}

/// A trailer, scene or interview: its own item, below the work that it belongs to.
#[derive(Debug, Clone)]
pub(super) struct Extra {
    pub(super) root: i64,
    pub(super) path: PathBuf,
    pub(super) word: &'static str,
    pub(super) title: String,
    /// Files of works that it may belong to, the best first.
    pub(super) near: Vec<PathBuf>,
    /// Whether it is of a whole series rather than one of its files.
    pub(super) of_series: bool,
}

pub(super) fn place_extra(db: &Connection, at: &Place, extra: &Extra) -> Result<()> {
    let Some(file) = file_key(db, extra.root, &extra.path)? else { return Ok(()) };
    let mut parent = None;
    for path in &extra.near {
        let Some(near) = file_key(db, extra.root, path)? else { continue };
        let Some(item) = item_of(db, near)? else { continue };
        let top: Option<i64> =
            db.prepare_cached("SELECT top FROM items WHERE pk = ?1")?.query_row([item], |r| r.get(0))?;
        parent = if extra.of_series { top.or(Some(item)) } else { Some(item) };
        break;
    }
    let identity = format!("extra|{}|{}|{}", at.library, extra.root, extra.path.to_string_lossy());
    let row = Row {
        extra: Some(extra.word),
        top: None,
        ..parent_row(ItemType::Extra, &identity, &extra.title, parent)
    };
    let old = match item_of(db, file)? {
        Some(item) => by_key(db, item)?,
        None => None,
    };
    let item = match (by_identity(db, &at.library, &identity)?, old) {
        (Some(found), _) => {
            rename(db, at, &found, &row)?;
            found.pk
        }
        (None, Some(old)) if old.kind == ItemType::Extra => {
            rename(db, at, &old, &row)?;
            old.pk
        }
        (None, _) => insert(db, at, &row)?,
    };
    place_version(db, at, item, &Version { label: None, edition: None, parts: Vec::new() }, &[file])
}
