//! The database as a whole: refusals, statements, durability.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use rusqlite::Connection;
use spindle_base::clock::SystemClock;

use super::*;
use crate::{DATABASE, Library};

fn clock() -> SharedClock {
    Arc::new(SystemClock)
}

fn whole(path: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all: Vec<_> = fs::read_dir(path)
        .unwrap()
        .map(|e| e.unwrap())
        .filter(|e| e.file_type().unwrap().is_file())
        .map(|e| (e.file_name().to_string_lossy().into_owned(), fs::read(e.path()).unwrap()))
        .collect();
    all.sort();
    all
}

#[test]
fn the_database_and_its_journals_are_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let library = Library::open(dir.path(), std::sync::Arc::new(SystemClock)).unwrap();
    for file in fs::read_dir(dir.path()).unwrap().map(|f| f.unwrap().path()).filter(|f| f.is_file()) {
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o077, 0, "{}", file.display());
    }
    library.close();
}

#[test]
fn a_newer_database_is_refused_and_stays_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    Library::open(dir.path(), clock()).unwrap().close();
    let db = Connection::open(dir.path().join(DATABASE)).unwrap();
    db.pragma_update(None, "user_version", 999).unwrap();
    drop(db);
    let before = whole(dir.path());
    let refused = Library::open(dir.path(), clock()).unwrap_err();
    assert!(matches!(refused, LibraryError::NewerSchema { found: 999, .. }), "{refused}");
    assert!(!refused.to_string().contains('\n'));
    assert_eq!(whole(dir.path()), before);
}

#[test]
fn a_database_of_something_else_is_refused_and_stays_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let db = Connection::open(dir.path().join(DATABASE)).unwrap();
    db.execute_batch("CREATE TABLE theirs (x); PRAGMA user_version = 3; PRAGMA application_id = 77").unwrap();
    drop(db);
    let before = whole(dir.path());
    assert!(matches!(Library::open(dir.path(), clock()), Err(LibraryError::ForeignDatabase { .. })));
    assert_eq!(whole(dir.path()), before);

    let dir = tempfile::tempdir().unwrap();
    let db = Connection::open(dir.path().join(DATABASE)).unwrap();
    db.execute_batch("CREATE TABLE theirs (x)").unwrap();
    drop(db);
    assert!(matches!(Library::open(dir.path(), clock()), Err(LibraryError::ForeignDatabase { .. })));
}

#[test]
fn every_statement_in_the_sources_can_be_prepared() {
    let dir = tempfile::tempdir().unwrap();
    let library = Library::open(dir.path(), clock()).unwrap();
    let db = Connection::open(library.data_dir().join(DATABASE)).unwrap();
    let mut prepared = 0;
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry);
                continue;
            }
            let own = entry.file_name().is_some_and(|n| n == "tests.rs" || n == "migrate.rs");
            if own || entry.extension().is_none_or(|e| e != "rs") {
                continue;
            }
            for sql in statements(&fs::read_to_string(&entry).unwrap()) {
                let result = db.prepare(&sql).map(drop);
                assert!(result.is_ok(), "{}: {sql}\n{:?}", entry.display(), result);
                prepared += 1;
            }
        }
    }
    // Should the search for them break, this says so.
    assert!(prepared > 90, "{prepared}");
}

/// String literals of Rust source that begin like a whole statement.
fn statements(source: &str) -> Vec<String> {
    let mut out = Vec::new();
    for piece in source.split('"').skip(1) {
        let starts =
            ["SELECT ", "INSERT ", "UPDATE ", "DELETE ", "WITH "].iter().any(|k| piece.starts_with(k));
        // What is completed by `format!` is prepared by the tests that run it.
        if starts && !piece.contains('{') && !piece.ends_with("s.identity = i.identity") {
            out.push(piece.replace("\\\n", "\n"));
        }
    }
    out
}

#[tokio::test]
async fn a_failing_or_panicking_request_undoes_its_own_changes_only() {
    let dir = tempfile::tempdir().unwrap();
    let library = Library::open(dir.path(), clock()).unwrap();
    let db = &library.inner.db;
    let put = |key: &'static str, then: fn() -> Result<()>| {
        db.write(move |db| {
            db.execute("INSERT INTO settings (key, value) VALUES (?1, '1')", [key])?;
            then()
        })
    };
    let (a, b, c, d) = tokio::join!(
        put("a", || Ok(())),
        put("b", || Err(LibraryError::BadInput("no".into()))),
        put("c", || panic!("on purpose")),
        put("d", || Ok(()))
    );
    assert!(a.is_ok() && d.is_ok());
    assert!(matches!(b, Err(LibraryError::BadInput(_))));
    assert!(matches!(c, Err(LibraryError::Panicked(text)) if text == "on purpose"));
    let keys: String = db
        .read(|db| {
            Ok(db.query_row("SELECT group_concat(key, '') FROM settings WHERE length(key) = 1", [], |r| {
                r.get(0)
            })?)
        })
        .await
        .unwrap();
    assert_eq!(keys, "ad");
}

#[tokio::test]
async fn readers_cannot_write_and_a_closed_library_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let library = Library::open(dir.path(), clock()).unwrap();
    let refused = library.inner.db.read(|db| Ok(db.execute("DELETE FROM settings", [])?)).await;
    assert!(refused.is_err());
    library.close();
    assert!(matches!(library.revision().await, Err(LibraryError::Closed)));
    assert!(matches!(library.set_setting("a", "b").await, Err(LibraryError::Closed)));
}

#[tokio::test]
async fn a_copy_while_serving_opens_as_a_library() {
    let dir = tempfile::tempdir().unwrap();
    let library = Library::open(&dir.path().join("a"), clock()).unwrap();
    library.create_first_user("anna", "hash").await.unwrap();
    fs::create_dir(dir.path().join("b")).unwrap();
    let target = dir.path().join("b").join(DATABASE);
    library.backup_to(&target).await.unwrap();
    assert!(library.backup_to(&target).await.is_err(), "it overwrites nothing");
    let copy = Library::open(&dir.path().join("b"), clock()).unwrap();
    assert_eq!(copy.users().await.unwrap()[0].name, "anna");
}

/// In the child of the next test: acknowledges watch state on stdout until it is killed.
#[tokio::test]
#[ignore = "a part of the next test, which runs it in a process of its own"]
async fn child_that_acknowledges() {
    use std::io::Write as _;
    // Run by hand it would leave a database wherever it was run.
    if !Path::new("for-the-child").exists() {
        return;
    }
    let library = Library::open(Path::new("."), clock()).unwrap();
    let user = library.create_first_user("anna", "hash").await.unwrap();
    let item = crate::repo::tests_support::film(&library, "Film", 100_000.0).await;
    let mut out = std::io::stdout().lock();
    writeln!(out, "ids {} {item}", user.id).unwrap();
    for position in 100_u32.. {
        let report = crate::Progress { position_s: f64::from(position), played_s: 100.0 };
        let state = library.progress(&user.id, &item, report).await.unwrap();
        writeln!(out, "ack {}", state.position_s).unwrap();
        out.flush().unwrap();
    }
}

#[tokio::test]
async fn kill_9_loses_no_acknowledged_watch_state() {
    for acks in [1, 7, 40] {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("for-the-child"), "").unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", "db::tests::child_that_acknowledges"])
            .current_dir(dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut ids = None;
        let mut last = 0.0_f64;
        let mut seen = 0;
        while seen < acks {
            let line = lines.next().expect("the child goes on until it is killed").unwrap();
            if let Some((_, rest)) = line.split_once("ids ") {
                let (user, item) = rest.split_once(' ').unwrap();
                ids = Some((user.to_owned(), item.to_owned()));
            } else if let Some((_, rest)) = line.split_once("ack ") {
                last = rest.trim().parse().unwrap();
                seen += 1;
            }
        }
        child.kill().unwrap();
        // What it still wrote before it died was acknowledged too.
        for line in lines.map_while(std::result::Result::ok) {
            if let Some(position) = line.split_once("ack ").and_then(|(_, rest)| rest.trim().parse().ok()) {
                last = position;
            }
        }
        child.wait().unwrap();
        let (user, item) = ids.unwrap();
        let library = Library::open(dir.path(), clock()).unwrap();
        let state = library.summary(&user, &item).await.unwrap().state;
        assert!(state.position_s >= last, "{} < {last}", state.position_s);
    }
}

#[tokio::test]
async fn a_database_file_that_is_taken_away_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let library = Library::open(dir.path(), Arc::new(SystemClock)).unwrap();
    library.check().await.unwrap();
    let (file, aside) = (dir.path().join(DATABASE), dir.path().join("aside"));
    std::fs::rename(&file, &aside).unwrap();
    let why = library.check().await.unwrap_err();
    assert_eq!(why.kind(), spindle_base::error::ErrorKind::Unavailable);
    assert!(why.to_string().contains("removed or replaced"), "{why}");
    std::fs::copy(&aside, &file).unwrap();
    assert!(library.check().await.is_err(), "another file is not the one that is written to");
    std::fs::rename(&aside, &file).unwrap();
    library.check().await.unwrap();
}
