//! Rows for tests, made without folders.

use spindle_base::id::new_id;

use crate::{ItemType, Library, LibraryKind, NewLibrary};

/// A library of `kind` at a folder that is not there.
pub(crate) async fn library(library: &Library, kind: LibraryKind) -> String {
    let name = format!("{kind} {}", new_id());
    let paths = vec![format!("/nowhere/{}", new_id()).into()];
    library.add_library(NewLibrary { name, kind, paths }).await.unwrap().id
}

/// One item, with what a test cares about.
pub(crate) struct Fake<'a> {
    pub(crate) kind: ItemType,
    pub(crate) title: &'a str,
    pub(crate) parent: Option<&'a str>,
    pub(crate) top: Option<&'a str>,
    pub(crate) season: Option<i64>,
    pub(crate) number: Option<i64>,
    pub(crate) year: Option<i64>,
    pub(crate) duration_s: Option<f64>,
}

pub(crate) fn fake(kind: ItemType, title: &str) -> Fake<'_> {
    Fake {
        kind,
        title,
        parent: None,
        top: None,
        season: None,
        number: None,
        year: None,
        duration_s: Some(1_000.0),
    }
}

pub(crate) async fn item(library: &Library, of: &str, fake: Fake<'_>) -> String {
    let id = new_id();
    let values = (
        id.clone(),
        of.to_owned(),
        fake.kind,
        fake.title.to_owned(),
        crate::sort_title::sort_title(fake.title),
    );
    let (parent, top) = (fake.parent.map(str::to_owned), fake.top.map(str::to_owned));
    let (season, number, year, duration_s) = (fake.season, fake.number, fake.year, fake.duration_s);
    let now = library.now_us();
    library
        .change(move |db| {
            db.execute(
                "INSERT INTO items (id, library, type, identity, parent, top, title, sort_title, search_text, year, season,
                     number, duration_s, added, latest, updated)
                 VALUES (?1, ?2, ?3, 'test|' || ?1, (SELECT pk FROM items WHERE id = ?6),
                     (SELECT pk FROM items WHERE id = ?7), ?4, ?5, ?4, ?8, ?9, ?10, ?11, ?12, ?12, ?12)",
                rusqlite::params![
                    values.0, values.1, values.2, values.3, values.4, parent, top, year, season, number, duration_s, now
                ],
            )?;
            Ok(())
        })
        .await
        .unwrap();
    id
}

/// A film in a library of its own.
pub(crate) async fn film(of: &Library, title: &str, duration_s: f64) -> String {
    let home = library(of, LibraryKind::Movies).await;
    item(of, &home, Fake { duration_s: Some(duration_s), ..fake(ItemType::Movie, title) }).await
}
