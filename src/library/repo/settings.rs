//! Settings by key, and the revision of the index.

use rusqlite::{Connection, OptionalExtension as _};

use crate::error::Result;
use crate::{Library, db::uint};

/// The revision as it is.
pub(crate) fn revision(db: &Connection) -> Result<u64> {
    let value: i64 = db
        .prepare_cached("SELECT CAST(value AS INTEGER) FROM settings WHERE key = 'revision'")?
        .query_row([], |r| r.get(0))?;
    Ok(uint(value))
}

/// Counts the revision up; gives the new one.
pub(crate) fn bump(db: &Connection) -> Result<u64> {
    let value: i64 = db
        .prepare_cached(
            "UPDATE settings SET value = CAST(value AS INTEGER) + 1 WHERE key = 'revision' RETURNING CAST(value AS INTEGER)",
        )?
        .query_row([], |r| r.get(0))?;
    Ok(uint(value))
}

fn get(db: &Connection, key: &str) -> Result<Option<String>> {
    Ok(db
        .prepare_cached("SELECT value FROM settings WHERE key = ?1")?
        .query_row([key], |r| r.get(0))
        .optional()?)
}

impl Library {
    /// A setting's value.
    pub async fn setting(&self, key: &str) -> Result<Option<String>> {
        let key = format!("user.{key}");
        self.read(move |db| get(db, &key)).await
    }

    /// Sets it.
    pub async fn set_setting(&self, key: &str, value: &str) -> Result<()> {
        let (key, value) = (format!("user.{key}"), value.to_owned());
        self.write(move |db| {
            db.prepare_cached(
                "INSERT INTO settings (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            )?
            .execute([key, value])?;
            Ok(())
        })
        .await
    }

    /// Its value, or `value` from now on where it has none: one step, for secrets made at the
    /// first start.
    pub async fn setting_or_insert(&self, key: &str, value: &str) -> Result<String> {
        let (key, value) = (format!("user.{key}"), value.to_owned());
        self.write(move |db| {
            db.prepare_cached(
                "INSERT INTO settings (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO NOTHING",
            )?
            .execute([&key, &value])?;
            Ok(get(db, &key)?.unwrap_or(value))
        })
        .await
    }
}
