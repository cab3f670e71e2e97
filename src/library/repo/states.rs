//! Watch state. It hangs on an item's identity, so that it outlives files and items.

use rusqlite::{Connection, OptionalExtension as _};
use spindle_base::clock::rfc3339;

use super::items::{self, Head};
use crate::db::{int, uint};
use crate::error::{LibraryError, Result};
use crate::watch::resume::{self, Mark};
use crate::{Library, Progress, State, StatePatch};

/// Longer than any film; what a position may be at most.
const MAX_POSITION_S: f64 = 1_000_000.0;

struct Stored {
    state: State,
    last_played_us: Option<i64>,
}

fn get(db: &Connection, user: &str, identity: &str) -> Result<Stored> {
    let found = db
        .prepare_cached(
            "SELECT position_s, watched, favorite, rating, plays, last_played FROM states WHERE user = ?1 AND identity = ?2",
        )?
        .query_row([user, identity], |r| {
            let last_played_us: Option<i64> = r.get(5)?;
            Ok(Stored {
                state: State {
                    position_s: r.get(0)?,
                    watched: r.get(1)?,
                    favorite: r.get(2)?,
                    rating: r.get(3)?,
                    plays: uint(r.get(4)?),
                    last_played: last_played_us.map(rfc3339),
                },
                last_played_us,
            })
        })
        .optional()?;
    Ok(found.unwrap_or(Stored { state: State::default(), last_played_us: None }))
}

fn put(db: &Connection, user: &str, identity: &str, stored: &Stored, now_us: i64) -> Result<()> {
    let s = &stored.state;
    db.prepare_cached(
        "INSERT INTO states (user, identity, position_s, watched, favorite, rating, plays, last_played, updated)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
         ON CONFLICT (user, identity) DO UPDATE SET position_s = excluded.position_s, watched = excluded.watched,
             favorite = excluded.favorite, rating = excluded.rating, plays = excluded.plays,
             last_played = excluded.last_played, updated = excluded.updated",
    )?
    .execute((
        user,
        identity,
        s.position_s,
        s.watched,
        s.favorite,
        s.rating,
        int(s.plays),
        stored.last_played_us,
        now_us,
    ))?;
    Ok(())
}

/// Carries the state of `from` over to `to`, for every user. Where both have one, the later
/// change wins, a watched mark and a favourite stay set.
pub(crate) fn rename(db: &Connection, from: &str, to: &str) -> Result<()> {
    if from == to {
        return Ok(());
    }
    db.prepare_cached(
        "INSERT INTO states (user, identity, position_s, watched, favorite, rating, plays, last_played, updated)
         SELECT user, ?2, position_s, watched, favorite, rating, plays, last_played, updated FROM states
         WHERE identity = ?1
         ON CONFLICT (user, identity) DO UPDATE SET
             position_s = CASE WHEN excluded.updated > updated THEN excluded.position_s ELSE position_s END,
             watched = max(watched, excluded.watched), favorite = max(favorite, excluded.favorite),
             rating = coalesce(rating, excluded.rating), plays = max(plays, excluded.plays),
             last_played = max(coalesce(last_played, excluded.last_played), coalesce(excluded.last_played, last_played)),
             updated = max(updated, excluded.updated)",
    )?
    .execute([from, to])?;
    Ok(())
}

/// Drops the state of an identity that no item has any more because it was renamed.
pub(crate) fn forget(db: &Connection, identity: &str) -> Result<()> {
    db.prepare_cached("DELETE FROM states WHERE identity = ?1")?.execute([identity])?;
    Ok(())
}

fn check_user(db: &Connection, user: &str) -> Result<()> {
    let known: bool = db
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM users WHERE id = ?1)")?
        .query_row([user], |r| r.get(0))?;
    if known { Ok(()) } else { Err(LibraryError::not_found("user", user)) }
}

fn check_patch(patch: &StatePatch) -> Result<()> {
    if patch.rating.flatten().is_some_and(|r| !(0.0..=10.0).contains(&r)) {
        return Err(LibraryError::BadInput("rating is from 0 to 10".to_owned()));
    }
    if patch.position_s.is_some_and(|p| !(0.0..=MAX_POSITION_S).contains(&p)) {
        return Err(LibraryError::BadInput("position_s is a number of seconds from 0 on".to_owned()));
    }
    Ok(())
}

fn mark_watched(stored: &mut Stored, watched: bool, now_us: i64) {
    if watched && !stored.state.watched {
        stored.state.plays += 1;
        stored.last_played_us = Some(now_us);
    }
    if !watched {
        stored.state.plays = 0;
        stored.last_played_us = None;
    }
    stored.state.watched = watched;
    stored.state.position_s = 0.0;
}

fn patch(db: &Connection, user: &str, head: &Head, patch: &StatePatch, now_us: i64) -> Result<()> {
    let mut own = get(db, user, &head.identity)?;
    if let Some(favorite) = patch.favorite {
        own.state.favorite = favorite;
    }
    if let Some(rating) = patch.rating {
        own.state.rating = rating;
    }
    if head.kind.is_leaf() {
        if let Some(watched) = patch.watched {
            mark_watched(&mut own, watched, now_us);
        }
        if let Some(position_s) = patch.position_s {
            own.state.position_s = position_s;
            own.last_played_us = Some(now_us);
        }
    } else if patch.position_s.is_some() {
        return Err(LibraryError::BadInput(format!("a {} has no position", head.kind)));
    }
    put(db, user, &head.identity, &own, now_us)?;
    if let (false, Some(watched)) = (head.kind.is_leaf(), patch.watched) {
        for identity in items::leaf_identities(db, head)? {
            let mut leaf = get(db, user, &identity)?;
            mark_watched(&mut leaf, watched, now_us);
            put(db, user, &identity, &leaf, now_us)?;
        }
    }
    Ok(())
}

/// The state of an item as the API shows it.
fn shown(db: &Connection, user: &str, id: &str) -> Result<State> {
    Ok(items::summary(db, user, id)?.state)
}

impl Library {
    /// Changes what a user thinks of an item. Marking a show, season, artist or album as watched
    /// marks everything below it. Resolves when it is on disk.
    pub async fn set_state(&self, user: &str, item: &str, change: StatePatch) -> Result<State> {
        check_patch(&change)?;
        let (user, item, now) = (user.to_owned(), item.to_owned(), self.now_us());
        self.write(move |db| {
            check_user(db, &user)?;
            let head = items::head(db, &item)?;
            patch(db, &user, &head, &change, now)?;
            shown(db, &user, &item)
        })
        .await
    }

    /// Takes a report of a playing client, by the rules of [`crate::watch::resume`]. Resolves
    /// when it is on disk.
    pub async fn progress(&self, user: &str, item: &str, report: Progress) -> Result<State> {
        let (user, item, now) = (user.to_owned(), item.to_owned(), self.now_us());
        self.write(move |db| {
            check_user(db, &user)?;
            let head = items::head(db, &item)?;
            let mut own = get(db, &user, &head.identity)?;
            let before =
                Mark { position_s: own.state.position_s, watched: own.state.watched, plays: own.state.plays };
            let position_s = report.position_s.min(MAX_POSITION_S);
            if let Some(after) = resume::apply(before, position_s, report.played_s, head.duration_s) {
                own.state.position_s = after.position_s;
                own.state.watched = after.watched;
                own.state.plays = after.plays;
                own.last_played_us = Some(now);
                put(db, &user, &head.identity, &own, now)?;
            }
            shown(db, &user, &item)
        })
        .await
    }
}
