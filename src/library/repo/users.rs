//! Accounts and tokens. Passwords come as the hash that `auth` made, tokens as their BLAKE3 sum.

use rusqlite::{Connection, OptionalExtension as _, Row};
use spindle_base::clock::rfc3339;
use spindle_base::id::new_id;

use crate::db::uint;
use crate::error::{LibraryError, Result};
use crate::{Library, Role, TokenInfo, User};

/// Characters that a name may have; what an account is called is shown on every page.
const MAX_NAME: usize = 64;
/// `last_used` moves in steps of a minute: a write for every request would be one commit each.
const USED_STEP_US: i64 = 60_000_000;

fn user_row(row: &Row<'_>) -> rusqlite::Result<User> {
    Ok(User { id: row.get(0)?, name: row.get(1)?, role: row.get(2)?, created: rfc3339(row.get(3)?) })
}

fn count(db: &Connection) -> Result<u64> {
    let n: i64 = db.prepare_cached("SELECT count(*) FROM users")?.query_row([], |r| r.get(0))?;
    Ok(uint(n))
}

fn insert(db: &Connection, name: &str, hash: &str, role: Role, now_us: i64) -> Result<User> {
    let taken: bool = db
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM users WHERE name = ?1)")?
        .query_row([name], |r| r.get(0))?;
    if taken {
        return Err(LibraryError::Conflict(format!("there is a user `{name}` already")));
    }
    let id = new_id();
    db.prepare_cached(
        "INSERT INTO users (id, name, password_hash, role, created) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute((&id, name, hash, role, now_us))?;
    Ok(User { id, name: name.to_owned(), role, created: rfc3339(now_us) })
}

fn checked_name(name: &str) -> Result<String> {
    let name = name.trim();
    if name.is_empty() || name.chars().count() > MAX_NAME || name.chars().any(char::is_control) {
        return Err(LibraryError::BadInput(format!(
            "a user's name has 1 to {MAX_NAME} characters, none of them a control character"
        )));
    }
    Ok(name.to_owned())
}

/// The last administrator keeps its role: nobody could give it back.
fn refuse_last_admin(db: &Connection, user: &str) -> Result<()> {
    let others: bool = db
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM users WHERE role = 'admin' AND id <> ?1)")?
        .query_row([user], |r| r.get(0))?;
    if others { Ok(()) } else { Err(LibraryError::Conflict("this is the only administrator".to_owned())) }
}

fn one_changed(n: usize, user: &str) -> Result<()> {
    if n == 0 { Err(LibraryError::not_found("user", user)) } else { Ok(()) }
}

impl Library {
    /// How many accounts there are.
    pub async fn user_count(&self) -> Result<u64> {
        self.read(count).await
    }

    /// The first account, an administrator. [`LibraryError::Conflict`] when there is one: of two
    /// requests at once, one wins.
    pub async fn create_first_user(&self, name: &str, password_hash: &str) -> Result<User> {
        let (name, hash, now) = (checked_name(name)?, password_hash.to_owned(), self.now_us());
        self.write(move |db| {
            if count(db)? > 0 {
                return Err(LibraryError::Conflict("the first account exists already".to_owned()));
            }
            insert(db, &name, &hash, Role::Admin, now)
        })
        .await
    }

    /// A new account.
    pub async fn create_user(&self, name: &str, password_hash: &str, role: Role) -> Result<User> {
        let (name, hash, now) = (checked_name(name)?, password_hash.to_owned(), self.now_us());
        self.write(move |db| insert(db, &name, &hash, role, now)).await
    }

    /// Every account, by name.
    pub async fn users(&self) -> Result<Vec<User>> {
        self.read(|db| {
            let mut statement =
                db.prepare_cached("SELECT id, name, role, created FROM users ORDER BY name")?;
            let rows = statement.query_map([], user_row)?.collect::<rusqlite::Result<_>>()?;
            Ok(rows)
        })
        .await
    }

    /// One account by id.
    pub async fn user(&self, id: &str) -> Result<User> {
        let id = id.to_owned();
        self.read(move |db| {
            db.prepare_cached("SELECT id, name, role, created FROM users WHERE id = ?1")?
                .query_row([&id], user_row)
                .optional()?
                .ok_or_else(|| LibraryError::not_found("user", &id))
        })
        .await
    }

    /// One account by name, with the hash of its password.
    pub async fn user_for_login(&self, name: &str) -> Result<Option<(User, String)>> {
        let name = name.trim().to_owned();
        self.read(move |db| {
            Ok(db
                .prepare_cached("SELECT id, name, role, created, password_hash FROM users WHERE name = ?1")?
                .query_row([name], |r| Ok((user_row(r)?, r.get(4)?)))
                .optional()?)
        })
        .await
    }

    /// Sets a password and ends every session of the account.
    pub async fn set_password(&self, user: &str, password_hash: &str) -> Result<()> {
        let (user, hash) = (user.to_owned(), password_hash.to_owned());
        self.write(move |db| {
            let n = db
                .prepare_cached("UPDATE users SET password_hash = ?2 WHERE id = ?1")?
                .execute([&user, &hash])?;
            db.prepare_cached("DELETE FROM tokens WHERE user = ?1")?.execute([&user])?;
            one_changed(n, &user)
        })
        .await
    }

    /// Sets what an account may do.
    pub async fn set_role(&self, user: &str, role: Role) -> Result<()> {
        let user = user.to_owned();
        self.write(move |db| {
            if role != Role::Admin {
                refuse_last_admin(db, &user)?;
            }
            let n = db.prepare_cached("UPDATE users SET role = ?2 WHERE id = ?1")?.execute((&user, role))?;
            one_changed(n, &user)
        })
        .await
    }

    /// Removes an account with its tokens and watch state.
    pub async fn remove_user(&self, user: &str) -> Result<()> {
        let user = user.to_owned();
        self.write(move |db| {
            refuse_last_admin(db, &user)?;
            let n = db.prepare_cached("DELETE FROM users WHERE id = ?1")?.execute([&user])?;
            one_changed(n, &user)
        })
        .await
    }

    /// Keeps a token by the BLAKE3 sum of its secret; `expires_us` in microseconds since the epoch.
    pub async fn add_token(
        &self,
        user: &str,
        hash: &[u8; 32],
        device: Option<&str>,
        expires_us: Option<i64>,
    ) -> Result<TokenInfo> {
        let (user, hash, now) = (user.to_owned(), *hash, self.now_us());
        let device: Option<String> = device.map(|d| d.chars().take(100).collect());
        self.write(move |db| {
            let id = new_id();
            let known: bool = db
                .prepare_cached("SELECT EXISTS (SELECT 1 FROM users WHERE id = ?1)")?
                .query_row([&user], |r| r.get(0))?;
            if !known {
                return Err(LibraryError::not_found("user", &user));
            }
            db.prepare_cached("DELETE FROM tokens WHERE expires <= ?1")?.execute([now])?;
            db.prepare_cached(
                "INSERT INTO tokens (hash, id, user, device, created, last_used, expires) VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6)",
            )?
            .execute((&hash[..], &id, &user, &device, now, expires_us))?;
            Ok(TokenInfo { id, user, device, created: rfc3339(now), last_used: rfc3339(now) })
        })
        .await
    }

    /// Whose token has this sum; `None` for an unknown or expired one.
    pub async fn user_of_token(&self, hash: &[u8; 32]) -> Result<Option<User>> {
        let (hash, now) = (*hash, self.now_us());
        let found = self
            .read(move |db| {
                Ok(db
                    .prepare_cached(
                        "SELECT u.id, u.name, u.role, u.created, t.last_used FROM tokens t JOIN users u ON u.id = t.user
                         WHERE t.hash = ?1 AND (t.expires IS NULL OR t.expires > ?2)",
                    )?
                    .query_row((&hash[..], now), |r| Ok((user_row(r)?, r.get::<_, i64>(4)?)))
                    .optional()?)
            })
            .await?;
        let Some((user, last_used)) = found else { return Ok(None) };
        if now - last_used > USED_STEP_US {
            self.note_use(hash, now);
        }
        Ok(Some(user))
    }

    /// Notes when a token was last used, behind the request: who signs on waits for no writer. Bookkeeping: a full disk must not
    /// keep anybody from watching.
    fn note_use(&self, hash: [u8; 32], now: i64) {
        // One note of each at a time, or a writer that is busy would have one of every request.
        if !self.inner.noting.lock().insert(hash) {
            return;
        }
        let library = self.clone();
        tokio::spawn(async move {
            let noted = library
                .write(move |db| {
                    db.prepare_cached("UPDATE tokens SET last_used = ?2 WHERE hash = ?1")?
                        .execute((&hash[..], now))?;
                    Ok(())
                })
                .await;
            library.inner.noting.lock().remove(&hash);
            if let Err(error) = noted {
                tracing::debug!(%error, "unable to note the use of a token");
            }
        });
    }

    /// Ends a token; whether there was one.
    pub async fn remove_token(&self, hash: &[u8; 32]) -> Result<bool> {
        let hash = *hash;
        self.write(move |db| {
            Ok(db.prepare_cached("DELETE FROM tokens WHERE hash = ?1")?.execute([&hash[..]])? > 0)
        })
        .await
    }

    /// A user's tokens, last used first.
    pub async fn tokens(&self, user: &str) -> Result<Vec<TokenInfo>> {
        let user = user.to_owned();
        self.read(move |db| {
            let mut statement = db.prepare_cached(
                "SELECT id, user, device, created, last_used FROM tokens WHERE user = ?1 ORDER BY last_used DESC",
            )?;
            let rows = statement
                .query_map([user], |r| {
                    Ok(TokenInfo {
                        id: r.get(0)?,
                        user: r.get(1)?,
                        device: r.get(2)?,
                        created: rfc3339(r.get(3)?),
                        last_used: rfc3339(r.get(4)?),
                    })
                })?
                .collect::<rusqlite::Result<_>>()?;
            Ok(rows)
        })
        .await
    }
}
