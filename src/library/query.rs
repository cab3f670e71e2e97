//! Lists and single items, as the HTTP layer asks for them.

use rusqlite::types::Value;
use rusqlite::{Connection, ToSql};

use crate::db::{int, uint};
use crate::error::{LibraryError, Result};
use crate::repo::{files, items, libraries};
use crate::sort_title::sort_title;
use crate::{Item, ItemDetail, ItemQuery, ItemType, Library, MAX_LIMIT, Page, SortKey};

/// Rows where the asker names no limit.
const DEFAULT_LIMIT: u64 = 100;
/// Words of a search that are looked at, and characters of each.
const MAX_WORDS: usize = 12;
const MAX_WORD: usize = 40;

/// Seen, of any type: a parent is when all its leaves are. `?1` is the user.
const WATCHED: &str = "CASE
    WHEN i.type IN ('show', 'artist') THEN NOT EXISTS (
        SELECT 1 FROM items c LEFT JOIN states cs ON cs.user = ?1 AND cs.identity = c.identity
        WHERE c.top = i.pk AND c.type IN ('episode', 'track') AND coalesce(cs.watched, 0) = 0)
    WHEN i.type IN ('season', 'album') THEN NOT EXISTS (
        SELECT 1 FROM items c LEFT JOIN states cs ON cs.user = ?1 AND cs.identity = c.identity
        WHERE c.parent = i.pk AND c.type IN ('episode', 'track') AND coalesce(cs.watched, 0) = 0)
    ELSE coalesce(s.watched, 0) END";

/// When it, or something below it, was last played.
const LAST_PLAYED: &str = "CASE
    WHEN i.type IN ('show', 'artist', 'season', 'album') THEN (
        SELECT max(cs.last_played) FROM items c JOIN states cs ON cs.user = ?1 AND cs.identity = c.identity
        WHERE c.top = i.pk OR c.parent = i.pk)
    ELSE s.last_played END";

/// A `WHERE` and its values; `?1` is the user, ours follow.
struct Conditions {
    sql: String,
    values: Vec<Value>,
}

impl Conditions {
    fn add(&mut self, sql: &str) {
        self.sql.push_str(if self.sql.is_empty() { "WHERE " } else { " AND " });
        self.sql.push_str(sql);
    }

    /// Adds a condition in which `{}` stands for the value.
    fn with(&mut self, sql: &str, value: impl Into<Value>) {
        let place = self.place(value);
        self.add(&sql.replace("{}", &place));
    }

    fn place(&mut self, value: impl Into<Value>) -> String {
        self.values.push(value.into());
        format!("?{}", self.values.len() + 1)
    }
}

/// `"harb"* "light"*`: every word begins a word of the title. `None` when there is no word.
fn fts(search: &str) -> Option<String> {
    let words: Vec<String> = search
        .split(|c: char| !c.is_alphanumeric())
        .filter(|w| !w.is_empty())
        .take(MAX_WORDS)
        .map(|w| format!("\"{}\"*", w.chars().take(MAX_WORD).collect::<String>()))
        .collect();
    (!words.is_empty()).then(|| words.join(" "))
}

/// Scripts that put no spaces between words: a search has to look inside.
fn without_spaces(search: &str) -> bool {
    search
        .chars()
        .any(|c| matches!(c, '\u{0e00}'..='\u{0eff}' | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}'))
}

fn conditions(db: &Connection, query: &ItemQuery) -> Result<Option<Conditions>> {
    let mut c = Conditions { sql: String::new(), values: Vec::new() };
    if query.types.is_empty() {
        c.add("i.type <> 'extra'");
    } else {
        let places: Vec<String> = query.types.iter().map(|t| c.place(t.as_str().to_owned())).collect();
        c.add(&format!("i.type IN ({})", places.join(", ")));
    }
    if let Some(library) = &query.library {
        libraries::kind(db, library)?;
        c.with("i.library = {}", library.clone());
    }
    if let Some(parent) = &query.parent {
        c.with("i.parent = {}", items::head(db, parent)?.pk);
    }
    if let Some(search) = &query.search {
        let Some(words) = fts(search) else { return Ok(None) };
        let words = c.place(words);
        let found = format!("i.pk IN (SELECT rowid FROM items_fts WHERE items_fts MATCH {words})");
        if without_spaces(search) {
            let inside = c.place(search.trim().chars().take(MAX_WORD).collect::<String>());
            c.add(&format!("({found} OR instr(i.search_text, {inside}) > 0)"));
        } else {
            c.add(&found);
        }
    }
    if let Some(genre) = &query.genre {
        c.with("i.pk IN (SELECT item FROM item_tags WHERE kind = 'genre' AND value = {})", genre.clone());
    }
    if let Some(person) = &query.person {
        c.with("i.pk IN (SELECT item FROM item_tags WHERE kind = 'person' AND value = {})", person.clone());
    }
    if let Some(year) = query.year {
        c.with("i.year = {}", year);
    }
    if let Some(watched) = query.watched {
        c.with(&format!("{WATCHED} = {{}}"), watched);
    }
    if let Some(favorite) = query.favorite {
        c.with("coalesce(s.favorite, 0) = {}", favorite);
    }
    if let Some(available) = query.available {
        c.with("i.available = {}", available);
    }
    Ok(Some(c))
}

fn order(query: &ItemQuery, c: &mut Conditions) -> String {
    let Some(sort) = query.sort else {
        return match (&query.search, &query.parent) {
            // The title itself, then titles that begin so, then the rest; works before their parts.
            (Some(search), _) => {
                let key = c.place(sort_title(search.trim()));
                format!(
                    "i.sort_title <> {key}, substr(i.sort_title, 1, length({key})) <> {key},
                     i.type IN ('season', 'episode', 'track', 'extra'), i.sort_title, i.pk"
                )
            }
            // Specials last.
            (None, Some(_)) => {
                "i.season = 0, i.season, i.disc, i.number, i.released, i.sort_title, i.pk".to_owned()
            }
            (None, None) => "i.sort_title, i.pk".to_owned(),
        };
    };
    let d = if sort.reverse { "DESC" } else { "ASC" };
    // What has no value stands last in both directions.
    let by = |expression: &str| format!("{expression} IS NULL, {expression} {d}, i.sort_title, i.pk");
    match sort.key {
        SortKey::Title if query.parent.is_some() => {
            format!("i.season {d}, i.disc {d}, i.number {d}, i.sort_title {d}, i.pk")
        }
        SortKey::Title => format!("i.sort_title {d}, i.pk"),
        SortKey::Added => format!("i.latest {d}, i.pk"),
        SortKey::Released => by("coalesce(i.released, CAST(i.year AS TEXT))"),
        SortKey::Rating => by("coalesce(s.rating, i.rating)"),
        SortKey::LastPlayed => by(&format!("({LAST_PLAYED})")),
        SortKey::Duration => by("i.duration_s"),
        SortKey::Random => "random()".to_owned(),
    }
}

fn page(db: &Connection, user: &str, query: &ItemQuery) -> Result<Page<Item>> {
    let Some(mut c) = conditions(db, query)? else {
        return Ok(Page { items: Vec::new(), total: 0 });
    };
    let total: i64 = {
        let mut statement = db.prepare_cached(&format!(
            "SELECT count(*) FROM items i LEFT JOIN states s ON s.user = ?1 AND s.identity = i.identity {}",
            c.sql
        ))?;
        let user = Value::from(user.to_owned());
        let values: Vec<&dyn ToSql> =
            std::iter::once(&user).chain(&c.values).map(|v| v as &dyn ToSql).collect();
        // `?1` goes unused where no condition asks about the user and the join is optimised away;
        // it is bound all the same, as it is named in the text.
        statement.query_row(&values[..], |r| r.get(0))?
    };
    let order = order(query, &mut c);
    let limit = c.place(int(query.limit.unwrap_or(DEFAULT_LIMIT).min(MAX_LIMIT)));
    let offset = c.place(int(query.offset));
    let tail = format!("{} ORDER BY {order} LIMIT {limit} OFFSET {offset}", c.sql);
    let values: Vec<&dyn ToSql> = c.values.iter().map(|v| v as &dyn ToSql).collect();
    let items = items::list(db, user, &tail, &values)?;
    Ok(Page { items, total: uint(total) })
}

fn tags(db: &Connection, item: i64, kind: &str) -> Result<Vec<String>> {
    let mut statement =
        db.prepare_cached("SELECT value FROM item_tags WHERE item = ?1 AND kind = ?2 ORDER BY value")?;
    let rows = statement.query_map((item, kind), |r| r.get(0))?.collect::<rusqlite::Result<_>>()?;
    Ok(rows)
}

fn detail(db: &Connection, user: &str, id: &str) -> Result<ItemDetail> {
    let item = items::summary(db, user, id)?;
    let pk = items::head(db, id)?.pk;
    let (plot, rating, provider_id): (Option<String>, Option<f64>, Option<String>) = db
        .prepare_cached("SELECT plot, rating, provider_id FROM items WHERE pk = ?1")?
        .query_row([pk], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?)))?;
    let versions = if item.kind.is_leaf() { files::versions(db, pk)? } else { Vec::new() };
    let extras = items::list(
        db,
        user,
        "WHERE i.parent = ?2 AND i.type = 'extra' ORDER BY i.extra, i.sort_title, i.pk",
        &[&pk],
    )?;
    let (previous, next) = neighbours(db, pk, item.kind)?;
    Ok(ItemDetail {
        plot,
        genres: tags(db, pk, "genre")?,
        people: tags(db, pk, "person")?,
        community_rating: rating,
        provider_id,
        versions,
        extras,
        previous,
        next,
        item,
    })
}

/// Ids of the episode before and after in its series, or the track in its album. Specials stand
/// in their own row.
fn neighbours(db: &Connection, pk: i64, kind: ItemType) -> Result<(Option<String>, Option<String>)> {
    if !matches!(kind, ItemType::Episode | ItemType::Track) {
        return Ok((None, None));
    }
    let mut statement = db.prepare_cached(
        "SELECT c.pk, c.id FROM items i JOIN items c ON c.type = i.type
             AND ((i.type = 'episode' AND c.top = i.top AND (c.season = 0) = (i.season = 0))
               OR (i.type = 'track' AND c.parent = i.parent))
         WHERE i.pk = ?1 ORDER BY c.season, c.disc, c.number, c.released, c.sort_title, c.pk",
    )?;
    let row: Vec<(i64, String)> =
        statement.query_map([pk], |r| Ok((r.get(0)?, r.get(1)?)))?.collect::<rusqlite::Result<_>>()?;
    let at = row.iter().position(|(other, _)| *other == pk);
    let id = |at: Option<usize>| at.and_then(|i| row.get(i)).map(|(_, id)| id.clone());
    Ok((id(at.and_then(|i| i.checked_sub(1))), id(at.map(|i| i + 1))))
}

impl Library {
    /// A page of items for a user (`""` for nobody), with how many there are in all.
    pub async fn items(&self, user: &str, query: ItemQuery) -> Result<Page<Item>> {
        let user = user.to_owned();
        self.read(move |db| page(db, &user, &query)).await
    }

    /// Everything about one item.
    pub async fn item(&self, user: &str, id: &str) -> Result<ItemDetail> {
        let (user, id) = (user.to_owned(), id.to_owned());
        self.read(move |db| detail(db, &user, &id)).await
    }

    /// One item as lists show it.
    pub async fn summary(&self, user: &str, id: &str) -> Result<Item> {
        let (user, id) = (user.to_owned(), id.to_owned());
        self.read(move |db| items::summary(db, &user, &id)).await
    }

    /// Every genre, of one library or of all.
    pub async fn genres(&self, library: Option<&str>) -> Result<Vec<String>> {
        let library = library.map(str::to_owned);
        self.read(move |db| {
            let mut statement = db.prepare_cached(
                "SELECT DISTINCT t.value FROM item_tags t JOIN items i ON i.pk = t.item
                 WHERE t.kind = 'genre' AND (?1 IS NULL OR i.library = ?1) ORDER BY t.value",
            )?;
            let rows = statement.query_map([library], |r| r.get(0))?.collect::<rusqlite::Result<_>>()?;
            Ok(rows)
        })
        .await
    }

    /// The path of an item's first file, for `layout`; never shown to a client.
    pub async fn file_of(&self, item: &str) -> Result<std::path::PathBuf> {
        let playable = self.playable(item, None).await?;
        let first = playable.parts.into_iter().next();
        first.map(|p| p.path).ok_or_else(|| LibraryError::not_found("file of item", item))
    }
}
