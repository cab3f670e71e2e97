//! The start page: what to go on with, what comes next, what is new.

use rusqlite::Connection;

use crate::db::int;
use crate::error::Result;
use crate::repo::items;
use crate::watch::next_up::{Episode, Rewatching, next_up};
use crate::{Home, Item, Library};

/// Rows of each shelf where the asker names none, and at most.
const MAX_SHELF: u64 = 50;
/// Series that are looked at for the next episode: those with the latest activity.
const SERIES: i64 = 60;

fn continue_watching(db: &Connection, user: &str, limit: i64) -> Result<Vec<Item>> {
    items::list(
        db,
        user,
        "WHERE s.position_s > 0 AND s.last_played IS NOT NULL AND i.type IN ('movie', 'episode')
         ORDER BY s.last_played DESC, i.pk LIMIT ?2",
        &[&limit],
    )
}

/// The episodes of a show with their ids, in no particular order.
fn episodes(db: &Connection, user: &str, show: i64) -> Result<Vec<(i64, Episode)>> {
    let mut statement = db.prepare_cached(
        "SELECT i.pk, coalesce(i.season, 1), coalesce(i.number, 0), coalesce(s.watched, 0),
                coalesce(s.position_s, 0) > 0, s.last_played, i.available
         FROM items i LEFT JOIN states s ON s.user = ?1 AND s.identity = i.identity
         WHERE i.top = ?2 AND i.type = 'episode' ORDER BY i.season, i.number, i.released, i.sort_title, i.pk",
    )?;
    let rows = statement
        .query_map((user, show), |r| {
            Ok((
                r.get(0)?,
                Episode {
                    season: r.get(1)?,
                    number: r.get(2)?,
                    before: None,
                    watched: r.get(3)?,
                    begun: r.get(4)?,
                    last_played: r.get(5)?,
                    available: r.get(6)?,
                },
            ))
        })?
        .collect::<rusqlite::Result<_>>()?;
    Ok(rows)
}

fn next_of(db: &Connection, user: &str, show: i64) -> Result<Option<Item>> {
    let (keys, list): (Vec<i64>, Vec<Episode>) = episodes(db, user, show)?.into_iter().unzip();
    let Some(at) = next_up(&list, Rewatching::Ignore) else { return Ok(None) };
    Ok(items::list(db, user, "WHERE i.pk = ?2", &[&keys[at]])?.pop())
}

fn next_of_all(db: &Connection, user: &str, limit: usize) -> Result<Vec<Item>> {
    // From the states on: a user's activity is short, a library is not.
    let mut statement = db.prepare_cached(
        "SELECT i.top FROM states s JOIN items i ON i.identity = s.identity
         WHERE s.user = ?1 AND s.last_played IS NOT NULL AND i.type = 'episode' AND i.top IS NOT NULL
         GROUP BY i.top ORDER BY max(s.last_played) DESC LIMIT ?2",
    )?;
    let shows: Vec<i64> =
        statement.query_map((user, SERIES), |r| r.get(0))?.collect::<rusqlite::Result<_>>()?;
    let mut out = Vec::new();
    for show in shows {
        if out.len() == limit {
            break;
        }
        out.extend(next_of(db, user, show)?);
    }
    Ok(out)
}

fn recently_added(db: &Connection, user: &str, limit: i64) -> Result<Vec<Item>> {
    items::list(
        db,
        user,
        "WHERE i.type IN ('movie', 'show', 'album') AND i.available = 1 ORDER BY i.latest DESC, i.pk DESC LIMIT ?2",
        &[&limit],
    )
}

impl Library {
    /// The three shelves of the start page, at most `limit` items each.
    pub async fn home(&self, user: &str, limit: u64) -> Result<Home> {
        let (user, limit) = (user.to_owned(), limit.min(MAX_SHELF));
        self.read(move |db| {
            Ok(Home {
                continue_watching: continue_watching(db, &user, int(limit))?,
                next_up: next_of_all(db, &user, usize::try_from(limit).unwrap_or(0))?,
                recently_added: recently_added(db, &user, int(limit))?,
            })
        })
        .await
    }

    /// The episode of a show that a user would go on with; its first for who never began.
    pub async fn next_up(&self, user: &str, show: &str) -> Result<Option<Item>> {
        let (user, show) = (user.to_owned(), show.to_owned());
        self.read(move |db| next_of(db, &user, items::head(db, &show)?.pk)).await
    }
}
