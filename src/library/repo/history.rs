//! Finished sessions and their I/O records.

use rusqlite::{Connection, OptionalExtension as _, Row};
use spindle_base::clock::rfc3339;

use crate::db::{int, uint};
use crate::error::{LibraryError, Result};
use crate::{HistoryEntry, Library, MAX_LIMIT, NewHistory, Page};

/// Sessions kept; the oldest go first. At 100 a day a year's worth, some 40 KB of series each.
const KEEP: i64 = 20_000;

fn row(row: &Row<'_>) -> rusqlite::Result<HistoryEntry> {
    let summary: String = row.get(9)?;
    Ok(HistoryEntry {
        session: row.get(0)?,
        user: row.get(1)?,
        user_name: row.get(2)?,
        item: row.get(3)?,
        title: row.get(4)?,
        method: row.get(5)?,
        client: row.get(6)?,
        started: rfc3339(row.get(7)?),
        ended: row.get::<_, Option<i64>>(8)?.map(rfc3339),
        summary: serde_json::from_str(&summary).unwrap_or(serde_json::Value::Null),
    })
}

fn put(db: &Connection, entry: &NewHistory) -> Result<()> {
    db.prepare_cached(
        "INSERT INTO sessions (id, user, item, title, method, client, started, ended, summary)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
         ON CONFLICT (id) DO UPDATE SET ended = excluded.ended, summary = excluded.summary, method = excluded.method",
    )?
    .execute((
        &entry.session,
        &entry.user,
        &entry.item,
        &entry.title,
        &entry.method,
        &entry.client,
        entry.started_us,
        entry.ended_us,
        entry.summary.to_string(),
    ))?;
    db.prepare_cached(
        "DELETE FROM sessions WHERE started < (SELECT started FROM sessions ORDER BY started DESC LIMIT 1 OFFSET ?1)",
    )?
    .execute([KEEP])?;
    Ok(())
}

impl Library {
    /// Keeps a session. A second call for the same one replaces its end, method and summary.
    pub async fn put_history(&self, entry: NewHistory) -> Result<()> {
        self.write(move |db| put(db, &entry)).await
    }

    /// Ends the sessions that a killed server left open, at the moment to which what was kept of them goes
    /// (`as_of_us` of the summary); how many there were. For the start, before any session is opened.
    pub async fn end_left_open(&self) -> Result<usize> {
        self.write(|db| {
            let open: Vec<(String, i64, String, Option<String>)> = db
                .prepare_cached("SELECT id, started, summary, io FROM sessions WHERE ended IS NULL")?
                .query_map([], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?, r.get(3)?)))?
                .collect::<rusqlite::Result<_>>()?;
            for (id, started_us, summary, io) in &open {
                let mut summary: serde_json::Value = serde_json::from_str(summary).unwrap_or_default();
                let as_of = summary.as_object_mut().and_then(|s| s.remove("as_of_us"));
                let ended_us = as_of.and_then(|v| v.as_i64()).unwrap_or(*started_us).max(*started_us);
                let io = io.as_deref().and_then(|t| serde_json::from_str::<serde_json::Value>(t).ok());
                let io = io.map(|mut io| {
                    if let Some(record) = io.as_object_mut() {
                        record.insert("ended".to_owned(), rfc3339(ended_us).into());
                    }
                    io.to_string()
                });
                db.prepare_cached("UPDATE sessions SET ended = ?2, summary = ?3, io = ?4 WHERE id = ?1")?
                    .execute((id, ended_us, summary.to_string(), io))?;
            }
            Ok(open.len())
        })
        .await
    }

    /// Sessions, the latest first; of one user, or of all.
    pub async fn history(&self, user: Option<&str>, limit: u64, offset: u64) -> Result<Page<HistoryEntry>> {
        let (user, limit) = (user.map(str::to_owned), limit.min(MAX_LIMIT));
        self.read(move |db| {
            let total: i64 = db
                .prepare_cached("SELECT count(*) FROM sessions WHERE ?1 IS NULL OR user = ?1")?
                .query_row([&user], |r| r.get(0))?;
            let mut statement = db.prepare_cached(
                "SELECT s.id, s.user, u.name, s.item, s.title, s.method, s.client, s.started, s.ended, s.summary
                 FROM sessions s LEFT JOIN users u ON u.id = s.user
                 WHERE ?1 IS NULL OR s.user = ?1 ORDER BY s.started DESC, s.id LIMIT ?2 OFFSET ?3",
            )?;
            let items =
                statement.query_map((&user, int(limit), int(offset)), row)?.collect::<rusqlite::Result<_>>()?;
            Ok(Page { items, total: uint(total) })
        })
        .await
    }

    /// One session of the history.
    pub async fn history_entry(&self, session: &str) -> Result<HistoryEntry> {
        let id = session.to_owned();
        self.read(move |db| {
            db.prepare_cached(
                "SELECT s.id, s.user, u.name, s.item, s.title, s.method, s.client, s.started, s.ended, s.summary
                 FROM sessions s LEFT JOIN users u ON u.id = s.user WHERE s.id = ?1",
            )?
            .query_row([&id], row)
            .optional()?
            .ok_or_else(|| LibraryError::not_found("session", &id))
        })
        .await
    }

    /// Keeps the I/O record of a session that is in the history.
    pub async fn put_io(&self, session: &str, record: serde_json::Value) -> Result<()> {
        let id = session.to_owned();
        self.write(move |db| {
            let n = db
                .prepare_cached("UPDATE sessions SET io = ?2 WHERE id = ?1")?
                .execute([&id, &record.to_string()])?;
            if n == 0 { Err(LibraryError::not_found("session", &id)) } else { Ok(()) }
        })
        .await
    }

    /// The I/O record of a session; `None` where none was kept.
    pub async fn io(&self, session: &str) -> Result<Option<serde_json::Value>> {
        let id = session.to_owned();
        let text: Option<String> = self
            .read(move |db| {
                db.prepare_cached("SELECT io FROM sessions WHERE id = ?1")?
                    .query_row([&id], |r| r.get(0))
                    .optional()?
                    .ok_or_else(|| LibraryError::not_found("session", &id))
            })
            .await?;
        text.map(|t| {
            serde_json::from_str(&t)
                .map_err(|e| LibraryError::Damaged { what: "I/O record", reason: e.to_string() })
        })
        .transpose()
    }
}
