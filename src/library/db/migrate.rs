//! Brings a database up to this build's schema, one numbered file after the other.
//!
//! `user_version` is the number of the last applied file. Each is applied in one transaction
//! with its BLAKE3 sum, so that a changed file is noticed. Before the first change to an existing
//! database a whole copy is left beside it.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::copy;
use crate::error::{LibraryError, Result};

/// The files, in order; the number is the position from 1. Never edit one that was released.
const MIGRATIONS: &[&str] = &[include_str!("migrations/0001_initial.sql")];

/// `application_id` in the file's header: "Spdl". Tells our databases from others.
const APPLICATION: i32 = 0x5370_646c;

/// Looks at the header alone, so that a refused file keeps every byte and gets no `-wal` beside it.
///
/// SQLite file format, section 1.3: user version at 60, application id at 68, big-endian.
pub(super) fn refuse_newer(path: &Path) -> Result<()> {
    let mut header = [0_u8; 100];
    match File::open(path).and_then(|mut f| f.read_exact(&mut header)) {
        Ok(()) => {}
        // Absent, empty or shorter than a header: SQLite decides.
        Err(e) if matches!(e.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::UnexpectedEof) => {
            return Ok(());
        }
        Err(e) => return Err(LibraryError::io("open", path)(e)),
    }
    let field = |at: usize| i32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    check(path, i64::from(field(60)), field(68))
}

fn check(path: &Path, version: i64, application: i32) -> Result<()> {
    // A database that is being made has neither number yet.
    if application != APPLICATION && (version, application) != (0, 0) {
        return Err(LibraryError::ForeignDatabase { path: path.to_owned() });
    }
    if version > newest() {
        return Err(LibraryError::NewerSchema { path: path.to_owned(), found: version, known: newest() });
    }
    Ok(())
}

fn newest() -> i64 {
    super::int(MIGRATIONS.len() as u64)
}

pub(super) fn run(db: &mut Connection, path: &Path, now_us: i64) -> Result<()> {
    run_list(db, path, now_us, MIGRATIONS)
}

fn run_list(db: &mut Connection, path: &Path, now_us: i64, migrations: &[&str]) -> Result<()> {
    let fail = |source| LibraryError::Open { path: path.to_owned(), source };
    let version: i64 = db.pragma_query_value(None, "user_version", |r| r.get(0)).map_err(fail)?;
    let application: i32 = db.pragma_query_value(None, "application_id", |r| r.get(0)).map_err(fail)?;
    // Again: the header may be behind the write-ahead log.
    check(path, version, application)?;
    if version == 0 {
        let tables: i64 =
            db.query_row("SELECT count(*) FROM sqlite_schema", [], |r| r.get(0)).map_err(fail)?;
        if tables > 0 && application != APPLICATION {
            return Err(LibraryError::ForeignDatabase { path: path.to_owned() });
        }
    }
    let applied = usize::try_from(version).unwrap_or(0);
    for (number, sql) in (1_i64..).zip(migrations).take(applied) {
        let sum: Vec<u8> = db
            .query_row("SELECT sum FROM migrations WHERE version = ?1", [number], |r| r.get(0))
            .map_err(fail)?;
        if sum != blake3::hash(sql.as_bytes()).as_bytes() {
            return Err(LibraryError::ChangedMigration { path: path.to_owned(), version: number });
        }
    }
    if applied > 0 && applied < migrations.len() {
        back_up(db, path, version)?;
    }
    for (number, sql) in (1_i64..).zip(migrations).skip(applied) {
        apply(db, number, sql, now_us).map_err(fail)?;
    }
    Ok(())
}

fn apply(db: &mut Connection, number: i64, sql: &str, now_us: i64) -> rusqlite::Result<()> {
    let tx = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    // Another process may have been faster while this one waited for the lock.
    let version: i64 = tx.pragma_query_value(None, "user_version", |r| r.get(0))?;
    if version >= number {
        return Ok(());
    }
    if number == 1 {
        tx.pragma_update(None, "application_id", APPLICATION)?;
        tx.execute_batch("CREATE TABLE migrations (version INTEGER PRIMARY KEY, sum BLOB NOT NULL, applied INTEGER NOT NULL) STRICT")?;
    }
    tx.execute_batch(sql)?;
    tx.execute(
        "INSERT INTO migrations (version, sum, applied) VALUES (?1, ?2, ?3)",
        (number, blake3::hash(sql.as_bytes()).as_bytes(), now_us),
    )?;
    tx.pragma_update(None, "user_version", number)?;
    tx.commit()
}

/// Leaves `<name>.v<version>.bak`: one per version, the latest.
fn back_up(db: &Connection, path: &Path, version: i64) -> Result<()> {
    let target = backup_path(path, version);
    let part = target.with_extension("part");
    match fs::remove_file(&part) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            return Err(LibraryError::io("replace", &part)(e));
        }
        _ => {}
    }
    copy(db, &part)?;
    fs::rename(&part, &target).map_err(LibraryError::io("write", &target))?;
    tracing::info!(path = %target.display(), "kept a copy of the database before changing its schema");
    Ok(())
}

fn backup_path(path: &Path, version: i64) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".v{version}.bak"));
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_kept_before_an_existing_database_is_changed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("library.db");
        let first = ["CREATE TABLE a (x INTEGER); INSERT INTO a VALUES (7)"];
        let second = [first[0], "ALTER TABLE a ADD COLUMN y INTEGER"];
        let mut db = Connection::open(&path).unwrap();
        run_list(&mut db, &path, 1, &first).unwrap();
        assert!(!backup_path(&path, 1).exists());
        run_list(&mut db, &path, 2, &second).unwrap();
        let old = Connection::open(backup_path(&path, 1)).unwrap();
        let (version, x): (i64, i64) = (
            old.pragma_query_value(None, "user_version", |r| r.get(0)).unwrap(),
            old.query_row("SELECT x FROM a", [], |r| r.get(0)).unwrap(),
        );
        assert_eq!((version, x), (1, 7));
        assert!(old.prepare("SELECT y FROM a").is_err());
        db.prepare("SELECT y FROM a").unwrap();
    }

    #[test]
    fn a_failing_migration_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("library.db");
        let mut db = Connection::open(&path).unwrap();
        run_list(&mut db, &path, 1, &["CREATE TABLE a (x INTEGER)"]).unwrap();
        let bad = ["CREATE TABLE a (x INTEGER)", "CREATE TABLE b (x INTEGER); CREATE TABLE a (x INTEGER)"];
        assert!(run_list(&mut db, &path, 2, &bad).is_err());
        assert!(db.prepare("SELECT x FROM b").is_err());
        let version: i64 = db.pragma_query_value(None, "user_version", |r| r.get(0)).unwrap();
        assert_eq!(version, 1);
    }

    #[test]
    fn a_migration_that_was_edited_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("library.db");
        let mut db = Connection::open(&path).unwrap();
        run_list(&mut db, &path, 1, &["CREATE TABLE a (x INTEGER)"]).unwrap();
        let refused = run_list(&mut db, &path, 2, &["CREATE TABLE a (x INTEGER, y INTEGER)"]);
        assert!(matches!(refused, Err(LibraryError::ChangedMigration { version: 1, .. })));
    }
}
