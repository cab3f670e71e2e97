//! Libraries and their folders.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension as _, Row};
use spindle_base::clock::rfc3339;
use spindle_base::id::new_id;

use super::folders::{self, Folder, Relation};
use crate::db::{int, uint};
use crate::error::{LibraryError, Result};
use crate::{
    Library, LibraryInfo, LibraryKind, LibraryPatch, MAX_LIMIT, NewLibrary, Page, ScanReport, UnreadableFile,
};

/// A folder of a library, as the scanner needs it.
#[derive(Debug, Clone)]
pub(crate) struct Root {
    pub(crate) pk: i64,
    pub(crate) path: PathBuf,
    /// `st_dev` at the last healthy scan.
    pub(crate) dev: Option<u64>,
    /// It was not there at the last scan.
    pub(crate) is_lost: bool,
}

pub(crate) fn path_of(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

pub(crate) fn bytes_of(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

pub(crate) fn roots(db: &Connection, library: &str) -> Result<Vec<Root>> {
    let mut statement = db.prepare_cached(
        "SELECT pk, path, dev, missing IS NOT NULL FROM roots WHERE library = ?1 ORDER BY pk",
    )?;
    let rows = statement
        .query_map([library], |r| {
            Ok(Root {
                pk: r.get(0)?,
                path: path_of(r.get_ref(1)?.as_blob()?).to_owned(),
                dev: r.get::<_, Option<i64>>(2)?.map(|d| d.cast_unsigned()),
                is_lost: r.get(3)?,
            })
        })?
        .collect::<rusqlite::Result<_>>()?;
    Ok(rows)
}

pub(crate) fn kind(db: &Connection, library: &str) -> Result<LibraryKind> {
    db.prepare_cached("SELECT kind FROM libraries WHERE id = ?1")?
        .query_row([library], |r| r.get(0))
        .optional()?
        .ok_or_else(|| LibraryError::not_found("library", library))
}

pub(crate) fn set_root_health(
    db: &Connection,
    root: i64,
    dev: Option<u64>,
    missing: Option<&str>,
) -> Result<()> {
    db.prepare_cached("UPDATE roots SET dev = coalesce(?2, dev), missing = ?3 WHERE pk = ?1")?.execute((
        root,
        dev.map(u64::cast_signed),
        missing,
    ))?;
    Ok(())
}

pub(crate) fn set_report(
    db: &Connection,
    library: &str,
    report: &ScanReport,
    warning: Option<&str>,
    now_us: i64,
) -> Result<()> {
    let text = serde_json::to_string(report)
        .map_err(|e| LibraryError::Damaged { what: "scan report", reason: e.to_string() })?;
    db.prepare_cached("UPDATE libraries SET scanned = ?2, report = ?3, warning = ?4 WHERE id = ?1")?
        .execute((library, now_us, text, warning))?;
    Ok(())
}

fn info(db: &Connection, row: &Row<'_>) -> Result<LibraryInfo> {
    let id: String = row.get(0)?;
    let roots: Vec<PathBuf> = roots(db, &id)?.into_iter().map(|r| r.path).collect();
    let (items, unavailable): (i64, i64) = db
        .prepare_cached(
            "SELECT count(*), coalesce(sum(available = 0), 0) FROM items
             WHERE library = ?1 AND type IN ('movie', 'episode', 'track', 'photo')",
        )?
        .query_row([&id], |r| Ok((r.get(0)?, r.get(1)?)))?;
    let (unreadable, pending): (i64, i64) = db
        .prepare_cached(
            "SELECT coalesce(sum(f.unreadable IS NOT NULL), 0), coalesce(sum(f.probe = 'pending'), 0)
             FROM roots r JOIN files f ON f.root = r.pk WHERE r.library = ?1 AND f.missing_since IS NULL",
        )?
        .query_row([&id], |r| Ok((r.get(0)?, r.get(1)?)))?;
    let report: Option<String> = row.get(4)?;
    let unreachable: Option<String> = db
        .prepare_cached(
            "SELECT missing FROM roots WHERE library = ?1 AND missing IS NOT NULL ORDER BY pk LIMIT 1",
        )?
        .query_row([&id], |r| r.get(0))
        .optional()?;
    Ok(LibraryInfo {
        name: row.get(1)?,
        kind: row.get(2)?,
        paths: roots.iter().map(|p| p.to_string_lossy().into_owned()).collect(),
        roots,
        items: uint(items),
        unavailable: uint(unavailable),
        unreadable: uint(unreadable),
        pending: uint(pending),
        scanned: row.get::<_, Option<i64>>(3)?.map(rfc3339),
        report: report.and_then(|r| serde_json::from_str(&r).ok()),
        warning: row.get(5)?,
        reachable: unreachable.is_none(),
        unreachable,
        id,
    })
}

fn all(db: &Connection) -> Result<Vec<LibraryInfo>> {
    let mut statement = db.prepare_cached(
        "SELECT id, name, kind, scanned, report, warning FROM libraries ORDER BY created, id",
    )?;
    let mut rows = statement.query([])?;
    let mut out = Vec::new();
    while let Some(row) = rows.next()? {
        out.push(info(db, row)?);
    }
    Ok(out)
}

pub(crate) fn one(db: &Connection, id: &str) -> Result<LibraryInfo> {
    let mut statement =
        db.prepare_cached("SELECT id, name, kind, scanned, report, warning FROM libraries WHERE id = ?1")?;
    let mut rows = statement.query([id])?;
    match rows.next()? {
        Some(row) => info(db, row),
        None => Err(LibraryError::not_found("library", id)),
    }
}

fn checked_name(name: &str) -> Result<&str> {
    let name = name.trim();
    if name.is_empty() || name.chars().count() > 100 || name.chars().any(char::is_control) {
        return Err(LibraryError::BadInput("a library's name has 1 to 100 characters".to_owned()));
    }
    Ok(name)
}

fn check_paths(paths: &[PathBuf]) -> Result<()> {
    if paths.is_empty() {
        return Err(LibraryError::BadInput("a library needs a folder".to_owned()));
    }
    for (at, path) in paths.iter().enumerate() {
        let shown = path.display();
        if !path.is_absolute() {
            return Err(LibraryError::BadInput(format!("`{shown}` is not an absolute path")));
        }
        if paths[..at].iter().any(|other| path.starts_with(other) || other.starts_with(path)) {
            return Err(LibraryError::BadInput(format!(
                "`{shown}` is inside another folder of the library, or around it"
            )));
        }
    }
    Ok(())
}

/// `/films/` and `/films/.` are `/films`: one spelling is kept.
fn tidy(paths: &mut [PathBuf]) {
    for path in paths {
        *path = folders::tidy(path);
    }
}

fn check_free(db: &Connection, name: &str, but: &str) -> Result<()> {
    let taken: bool = db
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM libraries WHERE name = ?1 AND id <> ?2)")?
        .query_row([name, but], |r| r.get(0))?;
    if taken { Err(LibraryError::Conflict(format!("there is a library `{name}` already"))) } else { Ok(()) }
}

/// A folder that a library has.
#[derive(Debug, Clone)]
struct Taken {
    library: String,
    name: String,
    kind: LibraryKind,
    path: PathBuf,
}

fn taken(db: &Connection, but: &str) -> Result<Vec<Taken>> {
    let mut statement = db.prepare_cached(
        "SELECT l.id, l.name, l.kind, r.path FROM roots r JOIN libraries l ON l.id = r.library
         WHERE l.id <> ?1 ORDER BY r.pk",
    )?;
    let rows = statement.query_map([but], |r| {
        Ok(Taken {
            library: r.get(0)?,
            name: r.get(1)?,
            kind: r.get(2)?,
            path: path_of(r.get_ref(3)?.as_blob()?).to_owned(),
        })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Why a folder cannot be added, in a sentence.
fn refusal(new: &Path, relation: Relation, old: &Taken) -> LibraryError {
    let (new, old_path, name, kind) = (new.display(), old.path.display(), &old.name, old.kind);
    LibraryError::Conflict(match relation {
        Relation::Inside => format!(
            "`{new}` is inside `{old_path}`, the folder of the library `{name}` ({kind}): what is in it is in that library already"
        ),
        Relation::Around => format!(
            "`{new}` has `{old_path}` in it, the folder of the library `{name}` ({kind}): what is in that would be there twice; remove that library first, or add other folders beside it"
        ),
        Relation::Same | Relation::Apart if new.to_string() == old_path.to_string() => {
            format!("the folder `{new}` is the library `{name}` ({kind}) already")
        }
        Relation::Same | Relation::Apart => {
            format!("the folder `{new}` is `{old_path}`, which is the library `{name}` ({kind}) already")
        }
    })
}

/// Refuses folders that were added by somebody else between the look at the filesystem and now.
fn check_apart(db: &Connection, paths: &[PathBuf], but: &str) -> Result<()> {
    for old in taken(db, but)? {
        let known = Folder::named(&old.path);
        for path in paths {
            match Folder::named(path).relation(&known) {
                Relation::Apart => {}
                relation => return Err(refusal(path, relation, &old)),
            }
        }
    }
    Ok(())
}

fn insert(db: &Connection, new: &NewLibrary, now_us: i64) -> Result<LibraryInfo> {
    let name = checked_name(&new.name)?;
    check_paths(&new.paths)?;
    check_free(db, name, "")?;
    check_apart(db, &new.paths, "")?;
    let id = new_id();
    db.prepare_cached("INSERT INTO libraries (id, name, kind, created) VALUES (?1, ?2, ?3, ?4)")?
        .execute((&id, name, new.kind, now_us))?;
    for path in &new.paths {
        insert_root(db, &id, path)?;
    }
    one(db, &id)
}

fn insert_root(db: &Connection, library: &str, path: &Path) -> Result<()> {
    db.prepare_cached("INSERT INTO roots (library, path) VALUES (?1, ?2)")?
        .execute((library, bytes_of(path)))?;
    Ok(())
}

fn set_paths(db: &Connection, library: &str, paths: &[PathBuf]) -> Result<()> {
    check_paths(paths)?;
    check_apart(db, paths, library)?;
    let mut old = roots(db, library)?;
    let mut fresh: Vec<&PathBuf> = Vec::new();
    // What stays the same first, so that a reordered list moves nothing.
    for path in paths {
        match old.iter().position(|r| r.path == *path) {
            Some(at) => drop(old.remove(at)),
            None => fresh.push(path),
        }
    }
    let mut old = old.into_iter();
    for path in fresh {
        match old.next() {
            Some(root) => {
                db.prepare_cached("UPDATE roots SET path = ?2, dev = NULL, missing = NULL WHERE pk = ?1")?
                    .execute((root.pk, bytes_of(path)))?;
            }
            None => insert_root(db, library, path)?,
        }
    }
    for root in old {
        db.prepare_cached("DELETE FROM roots WHERE pk = ?1")?.execute([root.pk])?;
    }
    super::items::drop_childless(db, library)?;
    super::items::refresh(db, library)
}

impl Library {
    /// Every library, oldest first.
    pub async fn libraries(&self) -> Result<Vec<LibraryInfo>> {
        self.read(all).await
    }

    /// One by id.
    pub async fn library(&self, id: &str) -> Result<LibraryInfo> {
        let id = id.to_owned();
        self.read(move |db| one(db, &id)).await
    }

    /// One by name, as the command line says it.
    pub async fn library_named(&self, name: &str) -> Result<LibraryInfo> {
        let name = name.to_owned();
        self.read(move |db| {
            let id: Option<String> = db
                .prepare_cached("SELECT id FROM libraries WHERE name = ?1")?
                .query_row([&name], |r| r.get(0))
                .optional()?;
            one(db, &id.ok_or_else(|| LibraryError::not_found("library", &name))?)
        })
        .await
    }

    /// A new library. Nothing is scanned yet; the folders need not be there.
    ///
    /// # Errors
    /// `Conflict` where a folder is a library's already, by whatever name, or is inside or around one.
    pub async fn add_library(&self, mut new: NewLibrary) -> Result<LibraryInfo> {
        tidy(&mut new.paths);
        if let Some((path, relation, old)) = self.overlap(&new.paths, "").await? {
            return Err(refusal(&path, relation, &old));
        }
        let now = self.now_us();
        self.change(move |db| insert(db, &new, now)).await
    }

    /// The library of this kind that has this folder, made where there is none. `name`: what a new one is called; one that is
    /// taken gets a number.
    ///
    /// # Errors
    /// `Conflict` where the folder is that of a library of another kind, or is inside or around one.
    pub async fn ensure_library(&self, kind: LibraryKind, path: &Path, name: &str) -> Result<LibraryInfo> {
        let (path, name, now) = (folders::tidy(path), name.to_owned(), self.now_us());
        let exact = path.clone();
        let known = self
            .read(move |db| {
                let id: Option<String> = db
                    .prepare_cached(
                        "SELECT l.id FROM roots r JOIN libraries l ON l.id = r.library WHERE r.path = ?1 AND l.kind = ?2",
                    )?
                    .query_row((bytes_of(&exact), kind), |r| r.get(0))
                    .optional()?;
                id.map(|id| one(db, &id)).transpose()
            })
            .await?;
        if let Some(known) = known {
            return Ok(known);
        }
        match self.overlap(std::slice::from_ref(&path), "").await? {
            Some((_, Relation::Same, old)) if old.kind == kind => return self.library(&old.library).await,
            Some((path, relation, old)) => return Err(refusal(&path, relation, &old)),
            None => {}
        }
        self.change(move |db| {
            let base: String = name.chars().filter(|c| !c.is_control()).take(90).collect();
            let mut name = if base.trim().is_empty() { kind.to_string() } else { base.clone() };
            let mut n = 1;
            while check_free(db, name.trim(), "").is_err() {
                n += 1;
                name = format!("{} {n}", base.trim());
            }
            insert(db, &NewLibrary { name, kind, paths: vec![path] }, now)
        })
        .await
    }

    /// The first of `paths` that another library than `but` has something of. Asks the filesystem what the paths lead to.
    async fn overlap(&self, paths: &[PathBuf], but: &str) -> Result<Option<(PathBuf, Relation, Taken)>> {
        let but = but.to_owned();
        let taken = self.read(move |db| taken(db, &but)).await?;
        let all = paths.iter().cloned().chain(taken.iter().map(|t| t.path.clone())).collect();
        let mut looked = folders::look(all).await;
        let old = looked.split_off(paths.len().min(looked.len()));
        for new in &looked {
            for (old, taken) in old.iter().zip(&taken) {
                let relation = new.relation(old);
                if relation != Relation::Apart {
                    return Ok(Some((new.path.clone(), relation, taken.clone())));
                }
            }
        }
        Ok(None)
    }

    /// Renames a library or changes its folders.
    ///
    /// # Errors
    /// As for [`Library::add_library`], and `NotFound`.
    pub async fn update_library(&self, id: &str, mut patch: LibraryPatch) -> Result<LibraryInfo> {
        let id = id.to_owned();
        if let Some(paths) = &mut patch.paths {
            tidy(paths);
            let own = id.clone();
            self.read(move |db| one(db, &own)).await?;
            if let Some((path, relation, old)) = self.overlap(paths, &id).await? {
                return Err(refusal(&path, relation, &old));
            }
        }
        self.change(move |db| {
            one(db, &id)?;
            if let Some(name) = &patch.name {
                let name = checked_name(name)?;
                check_free(db, name, &id)?;
                db.prepare_cached("UPDATE libraries SET name = ?2 WHERE id = ?1")?.execute([&id, name])?;
            }
            if let Some(paths) = &patch.paths {
                set_paths(db, &id, paths)?;
            }
            one(db, &id)
        })
        .await
    }

    /// Takes a library out of the index. No file is touched; watch state stays.
    pub async fn remove_library(&self, id: &str) -> Result<()> {
        let id = id.to_owned();
        self.change(move |db| {
            let n = db.prepare_cached("DELETE FROM libraries WHERE id = ?1")?.execute([&id])?;
            if n == 0 { Err(LibraryError::not_found("library", &id)) } else { Ok(()) }
        })
        .await
    }

    /// Files that are there and cannot be read, with the reason; of one library or of all.
    pub async fn unreadable(
        &self,
        library: Option<&str>,
        limit: u64,
        offset: u64,
    ) -> Result<Page<UnreadableFile>> {
        let (library, limit) = (library.map(str::to_owned), limit.min(MAX_LIMIT));
        self.read(move |db| {
            let total: i64 = db
                .prepare_cached(
                    "SELECT count(*) FROM files f JOIN roots r ON r.pk = f.root
                     WHERE f.unreadable IS NOT NULL AND f.missing_since IS NULL AND (?1 IS NULL OR r.library = ?1)",
                )?
                .query_row([&library], |r| r.get(0))?;
            let mut statement = db.prepare_cached(
                "SELECT i.id, r.library, f.path, f.size_bytes, f.unreadable
                 FROM files f JOIN roots r ON r.pk = f.root
                 LEFT JOIN versions v ON v.pk = f.version LEFT JOIN items i ON i.pk = v.item
                 WHERE f.unreadable IS NOT NULL AND f.missing_since IS NULL AND (?1 IS NULL OR r.library = ?1)
                 ORDER BY f.path LIMIT ?2 OFFSET ?3",
            )?;
            let items = statement
                .query_map((&library, int(limit), int(offset)), |r| {
                    Ok(UnreadableFile {
                        item: r.get(0)?,
                        library: r.get(1)?,
                        file: path_of(r.get_ref(2)?.as_blob()?).to_string_lossy().into_owned(),
                        size_bytes: uint(r.get(3)?),
                        reason: r.get(4)?,
                    })
                })?
                .collect::<rusqlite::Result<_>>()?;
            Ok(Page { items, total: uint(total) })
        })
        .await
    }
}
