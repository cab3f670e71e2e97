//! The door to the index: lists, states, accounts, history.

use std::sync::Arc;
use std::time::Duration;

use spindle_base::clock::ManualClock;
use spindle_base::error::ErrorKind;

use super::tests_support::{Fake, fake, film, item, library};
use crate::*;

struct World {
    library: Library,
    clock: Arc<ManualClock>,
    user: String,
    _dir: tempfile::TempDir,
}

async fn world() -> World {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::at(1_700_000_000_000_000));
    let library = Library::open(dir.path(), Arc::clone(&clock) as _).unwrap();
    let user = library.create_first_user("anna", "hash").await.unwrap().id;
    World { library, clock, user, _dir: dir }
}

/// A show of `seasons` with `episodes` each; its id and those of its episodes.
async fn show(w: &World, of: &str, title: &str, seasons: i64, episodes: i64) -> (String, Vec<String>) {
    let show = item(&w.library, of, fake(ItemType::Show, title)).await;
    let mut all = Vec::new();
    for s in 1..=seasons {
        let parent = Fake {
            parent: Some(&show),
            top: Some(&show),
            season: Some(s),
            ..fake(ItemType::Season, "Season")
        };
        let season = item(&w.library, of, parent).await;
        for e in 1..=episodes {
            let title = format!("Episode {s}x{e}");
            let episode = Fake {
                parent: Some(&season),
                top: Some(&show),
                season: Some(s),
                number: Some(e),
                ..fake(ItemType::Episode, &title)
            };
            all.push(item(&w.library, of, episode).await);
        }
    }
    (show, all)
}

fn titles(page: &Page<Item>) -> Vec<&str> {
    page.items.iter().map(|i| i.title.as_str()).collect()
}

fn watched(yes: bool) -> StatePatch {
    StatePatch { watched: Some(yes), ..StatePatch::default() }
}

#[tokio::test]
async fn the_first_account_is_made_once_and_the_last_admin_stays() {
    let w = world().await;
    assert!(matches!(w.library.create_first_user("eve", "x").await, Err(LibraryError::Conflict(_))));
    assert!(matches!(w.library.create_user("ANNA", "x", Role::User).await, Err(LibraryError::Conflict(_))));
    assert_eq!(w.library.remove_user(&w.user).await.unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(w.library.set_role(&w.user, Role::User).await.unwrap_err().kind(), ErrorKind::Conflict);
    let other = w.library.create_user("bob", "h", Role::Admin).await.unwrap();
    w.library.remove_user(&w.user).await.unwrap();
    assert_eq!(w.library.users().await.unwrap(), [other]);
    assert_eq!(w.library.user("nobody").await.unwrap_err().kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn tokens_end_by_time_by_logout_and_with_a_new_password() {
    let w = world().await;
    let soon = w.library.now_us() + 1_000_000;
    w.library.add_token(&w.user, &[1; 32], Some("tv"), Some(soon)).await.unwrap();
    w.library.add_token(&w.user, &[2; 32], None, None).await.unwrap();
    w.library.add_token(&w.user, &[3; 32], None, None).await.unwrap();
    let of = async |n: u8| w.library.user_of_token(&[n; 32]).await.unwrap().map(|u| u.name);
    assert_eq!(of(1).await.as_deref(), Some("anna"));
    w.clock.advance(Duration::from_secs(2));
    assert_eq!(of(1).await, None);
    assert!(w.library.remove_token(&[2; 32]).await.unwrap());
    assert!(!w.library.remove_token(&[2; 32]).await.unwrap());
    assert_eq!(of(2).await, None);
    w.library.set_password(&w.user, "new").await.unwrap();
    assert_eq!(of(3).await, None);
    assert_eq!(w.library.user_for_login("Anna").await.unwrap().unwrap().1, "new");
}

#[tokio::test]
async fn lists_filter_sort_and_page() {
    let w = world().await;
    let films = library(&w.library, LibraryKind::Movies).await;
    for (title, year) in [("The Zebra", 1990), ("Amber 10", 2001), ("Amber 9", 2000), ("Élan Vital", 2001)] {
        w.clock.advance(Duration::from_secs(1));
        item(&w.library, &films, Fake { year: Some(year), ..fake(ItemType::Movie, title) }).await;
    }
    show(&w, &films, "Amber Show", 1, 2).await;
    let get = async |q: ItemQuery| w.library.items(&w.user, q).await.unwrap();
    let movies = || ItemQuery { types: vec![ItemType::Movie], ..ItemQuery::default() };
    let all = get(movies()).await;
    assert_eq!((titles(&all), all.total), (vec!["Amber 9", "Amber 10", "Élan Vital", "The Zebra"], 4));
    let page =
        get(ItemQuery { limit: Some(2), offset: 1, sort: Some("-added".parse().unwrap()), ..movies() }).await;
    assert_eq!((titles(&page), page.total), (vec!["Amber 9", "Amber 10"], 4));
    let year = get(ItemQuery { year: Some(2001), sort: Some("-title".parse().unwrap()), ..movies() }).await;
    assert_eq!(titles(&year), ["Élan Vital", "Amber 10"]);
    let found = get(ItemQuery { search: Some("amb".into()), ..ItemQuery::default() }).await;
    assert_eq!(titles(&found), ["Amber 9", "Amber 10", "Amber Show"]);
    let accents = get(ItemQuery { search: Some("VIT elan".into()), ..ItemQuery::default() }).await;
    assert_eq!(titles(&accents), ["Élan Vital"]);
    for nothing in ["\"", "* OR 1", "title:x AND", "'; DROP", "---", "a\0b"] {
        let page = w
            .library
            .items(&w.user, ItemQuery { search: Some(nothing.into()), ..ItemQuery::default() })
            .await;
        assert!(page.is_ok(), "{nothing}: {page:?}");
    }
    assert!("size".parse::<Sort>().is_err());
    let unknown =
        w.library.items(&w.user, ItemQuery { parent: Some("x".into()), ..ItemQuery::default() }).await;
    assert_eq!(unknown.unwrap_err().kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn every_filter_and_every_order_is_valid_sql() {
    let w = world().await;
    let films = library(&w.library, LibraryKind::Movies).await;
    let (id, _) = show(&w, &films, "日本のしま", 1, 1).await;
    for key in SortKey::ALL {
        for reverse in [false, true] {
            for parent in [None, Some(id.clone())] {
                let q = ItemQuery {
                    types: vec![ItemType::Show, ItemType::Season],
                    library: Some(films.clone()),
                    parent: parent.clone(),
                    search: Some("のし".into()),
                    genre: Some("g".into()),
                    person: Some("p".into()),
                    year: Some(1),
                    watched: Some(true),
                    favorite: Some(false),
                    available: Some(true),
                    sort: Some(Sort { key: *key, reverse }),
                    limit: Some(u64::MAX),
                    offset: u64::MAX,
                };
                assert_eq!(w.library.items(&w.user, q).await.unwrap().total, 0, "{key} {reverse}");
            }
        }
    }
    let inside = ItemQuery { search: Some("のし".into()), ..ItemQuery::default() };
    assert_eq!(w.library.items(&w.user, inside).await.unwrap().total, 1);
}

#[tokio::test]
async fn marking_a_show_marks_its_episodes_and_counts_follow() {
    let w = world().await;
    let tv = library(&w.library, LibraryKind::Tv).await;
    let (show, episodes) = show(&w, &tv, "Show", 2, 2).await;
    let state = w.library.set_state(&w.user, &episodes[0], watched(true)).await.unwrap();
    assert!(state.watched && state.plays == 1);
    let seen = w.library.summary(&w.user, &show).await.unwrap();
    assert_eq!((seen.leaves, seen.unwatched, seen.state.watched), (Some(4), Some(3), false));
    assert!(w.library.set_state(&w.user, &show, watched(true)).await.unwrap().watched);
    let q = ItemQuery { types: vec![ItemType::Show], watched: Some(true), ..ItemQuery::default() };
    assert_eq!(w.library.items(&w.user, q.clone()).await.unwrap().total, 1);
    let other = w.library.create_user("bob", "h", Role::User).await.unwrap().id;
    assert_eq!(w.library.items(&other, q).await.unwrap().total, 0);
    w.library.set_state(&w.user, &show, watched(false)).await.unwrap();
    assert_eq!(w.library.summary(&w.user, &show).await.unwrap().unwatched, Some(4));
    let patch = StatePatch { position_s: Some(1.0), ..StatePatch::default() };
    assert_eq!(w.library.set_state(&w.user, &show, patch).await.unwrap_err().kind(), ErrorKind::BadInput);
}

#[tokio::test]
async fn states_take_what_is_valid_and_keep_the_rest() {
    let w = world().await;
    let id = film(&w.library, "Film", 7_200.0).await;
    let patch = |json: &str| serde_json::from_str::<StatePatch>(json).unwrap();
    let set = async |json: &str| w.library.set_state(&w.user, &id, patch(json)).await;
    let state = set(r#"{"favorite": true, "rating": 7.5}"#).await.unwrap();
    assert_eq!((state.favorite, state.rating, state.watched), (true, Some(7.5), false));
    assert_eq!(set(r#"{"rating": null}"#).await.unwrap().rating, None);
    assert!(set("{}").await.unwrap().favorite);
    assert_eq!(set(r#"{"rating": 11}"#).await.unwrap_err().kind(), ErrorKind::BadInput);
    assert_eq!(set(r#"{"position_s": -1}"#).await.unwrap_err().kind(), ErrorKind::BadInput);
    assert!(serde_json::from_str::<StatePatch>(r#"{"wached": true}"#).is_err());
    let unknown = w.library.set_state(&w.user, "x", watched(true)).await;
    assert_eq!(unknown.unwrap_err().kind(), ErrorKind::NotFound);
    let nobody = w.library.set_state("x", &id, watched(true)).await;
    assert_eq!(nobody.unwrap_err().kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn a_failed_start_keeps_the_resume_point_and_the_end_marks_it_watched() {
    let w = world().await;
    let id = film(&w.library, "Film", 7_200.0).await;
    let tell = async |position_s, played_s| {
        w.library.progress(&w.user, &id, Progress { position_s, played_s }).await.unwrap()
    };
    assert_eq!(tell(318.0, 318.0).await.position_s, 318.0);
    assert_eq!(tell(0.0, 0.0).await.position_s, 318.0);
    let home = w.library.home(&w.user, 10).await.unwrap();
    assert_eq!(home.continue_watching.len(), 1);
    let end = tell(7_000.0, 6_000.0).await;
    assert_eq!((end.position_s, end.watched, end.plays), (0.0, true, 1));
    assert!(w.library.home(&w.user, 10).await.unwrap().continue_watching.is_empty());
}

#[tokio::test]
async fn home_offers_the_next_episode_of_the_series_last_watched_first() {
    let w = world().await;
    let tv = library(&w.library, LibraryKind::Tv).await;
    let (_, a) = show(&w, &tv, "A", 1, 3).await;
    let (b_show, b) = show(&w, &tv, "B", 1, 3).await;
    let (c, _) = show(&w, &tv, "C", 1, 1).await;
    w.library.set_state(&w.user, &a[0], watched(true)).await.unwrap();
    w.clock.advance(Duration::from_secs(1));
    w.library.set_state(&w.user, &b[1], watched(true)).await.unwrap();
    let home = w.library.home(&w.user, 10).await.unwrap();
    let next: Vec<&str> = home.next_up.iter().map(|i| i.id.as_str()).collect();
    assert_eq!(next, [b[2].as_str(), a[1].as_str()]);
    assert_eq!(w.library.next_up(&w.user, &c).await.unwrap().unwrap().episode, Some(1));
    let detail = w.library.item(&w.user, &b[1]).await.unwrap();
    assert_eq!(
        (detail.previous.as_deref(), detail.next.as_deref()),
        (Some(b[0].as_str()), Some(b[2].as_str()))
    );
    assert_eq!(detail.item.top.as_deref(), Some(b_show.as_str()));
    assert_eq!(home.recently_added.len(), 3);
}

#[tokio::test]
async fn history_keeps_sessions_and_their_records() {
    let w = world().await;
    for (n, session) in ["s1", "s2"].into_iter().enumerate() {
        let entry = NewHistory {
            session: session.into(),
            user: Some(w.user.clone()),
            item: None,
            title: "Film".into(),
            method: "direct_play".into(),
            client: "page".into(),
            started_us: i64::try_from(n).unwrap(),
            ended_us: None,
            summary: serde_json::json!({"served_bytes": n}),
        };
        w.library.put_history(entry).await.unwrap();
    }
    w.library.put_io("s1", serde_json::json!({"disks": []})).await.unwrap();
    let page = w.library.history(None, 1, 0).await.unwrap();
    assert_eq!((page.items[0].session.as_str(), page.total), ("s2", 2));
    assert_eq!(page.items[0].user_name.as_deref(), Some("anna"));
    assert_eq!(w.library.history(Some("other"), 9, 0).await.unwrap().total, 0);
    assert_eq!(w.library.io("s1").await.unwrap(), Some(serde_json::json!({"disks": []})));
    assert_eq!(w.library.io("s2").await.unwrap(), None);
    assert_eq!(w.library.io("s3").await.unwrap_err().kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn a_session_left_open_by_a_killed_server_ends_where_its_record_does() {
    let w = world().await;
    let entry = |session: &str, ended_us, summary| NewHistory {
        session: session.into(),
        user: Some(w.user.clone()),
        item: None,
        title: "Film".into(),
        method: "direct_play".into(),
        client: "page".into(),
        started_us: 1_000_000,
        ended_us,
        summary,
    };
    let kept = serde_json::json!({"as_of_us": 31_000_000, "served_bytes": 7});
    w.library.put_history(entry("killed", None, kept)).await.unwrap();
    w.library.put_io("killed", serde_json::json!({"started": "x", "disks": []})).await.unwrap();
    w.library.put_history(entry("bare", None, serde_json::json!({}))).await.unwrap();
    w.library.put_history(entry("fine", Some(5_000_000), serde_json::json!({}))).await.unwrap();
    assert_eq!(w.library.end_left_open().await.unwrap(), 2);
    assert_eq!(w.library.end_left_open().await.unwrap(), 0);
    let killed = w.library.history_entry("killed").await.unwrap();
    assert_eq!(killed.ended.as_deref(), Some("1970-01-01T00:00:31Z"));
    assert_eq!(killed.summary, serde_json::json!({"served_bytes": 7}));
    let io = w.library.io("killed").await.unwrap().unwrap();
    assert_eq!(io["ended"], "1970-01-01T00:00:31Z");
    let ended = |e: HistoryEntry| e.ended.unwrap();
    assert_eq!(ended(w.library.history_entry("bare").await.unwrap()), "1970-01-01T00:00:01Z");
    assert_eq!(ended(w.library.history_entry("fine").await.unwrap()), "1970-01-01T00:00:05Z");
}

#[tokio::test]
async fn libraries_are_made_changed_and_removed() {
    let w = world().await;
    let a = w.library.ensure_library(LibraryKind::Movies, "/pool/films".as_ref(), "films").await.unwrap();
    let again = w.library.ensure_library(LibraryKind::Movies, "/pool/films".as_ref(), "films").await.unwrap();
    assert_eq!(a.id, again.id);
    let other =
        w.library.ensure_library(LibraryKind::Movies, "/other/films".as_ref(), "films").await.unwrap();
    assert_eq!(other.name, "films 2");
    let taken = LibraryPatch { name: Some("FILMS".into()), ..LibraryPatch::default() };
    assert_eq!(w.library.update_library(&other.id, taken).await.unwrap_err().kind(), ErrorKind::Conflict);
    let paths = LibraryPatch { paths: Some(vec!["/a".into(), "/a/b".into()]), ..LibraryPatch::default() };
    assert_eq!(w.library.update_library(&other.id, paths).await.unwrap_err().kind(), ErrorKind::BadInput);
    let paths = LibraryPatch { paths: Some(vec!["/a".into(), "/b".into()]), ..LibraryPatch::default() };
    assert_eq!(w.library.update_library(&other.id, paths).await.unwrap().paths, ["/a", "/b"]);
    w.library.remove_library(&other.id).await.unwrap();
    assert_eq!(w.library.remove_library(&other.id).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(w.library.library_named("Films").await.unwrap().id, a.id);
}

#[tokio::test]
async fn a_folder_belongs_to_one_library_whatever_it_is_called() {
    let w = world().await;
    let dir = tempfile::tempdir().unwrap();
    let films = dir.path().join("films");
    std::fs::create_dir_all(films.join("old")).unwrap();
    std::os::unix::fs::symlink(&films, dir.path().join("link")).unwrap();
    let add = async |name: &str, path: std::path::PathBuf| {
        let new = crate::NewLibrary { name: name.into(), kind: LibraryKind::Movies, paths: vec![path] };
        w.library.add_library(new).await
    };
    let first = add("Films", dir.path().join("films/")).await.unwrap();
    assert_eq!(first.paths, [films.to_str().unwrap()], "one spelling is kept");
    for (path, says) in [
        ("films", "is the library `Films` (movies) already"),
        ("films/", "is the library `Films` (movies) already"),
        ("films/.", "is the library `Films` (movies) already"),
        ("link", "which is the library `Films` (movies) already"),
        ("films/old", "is in that library already"),
        ("link/old", "is in that library already"),
        ("", "would be there twice"),
    ] {
        let error = add("Other", dir.path().join(path)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{path}");
        assert!(error.to_string().contains(says), "{path}: {error}");
    }
    let ensure = async |kind, path: &str| w.library.ensure_library(kind, &dir.path().join(path), "x").await;
    assert_eq!(
        ensure(LibraryKind::Movies, "link").await.unwrap().id,
        first.id,
        "a setting names the same one"
    );
    assert_eq!(ensure(LibraryKind::Tv, "films").await.unwrap_err().kind(), ErrorKind::Conflict);
    let second = add("Other", dir.path().join("other")).await.unwrap();
    let move_to = async |path: &str| {
        let paths = Some(vec![dir.path().join(path)]);
        w.library.update_library(&second.id, LibraryPatch { paths, ..LibraryPatch::default() }).await
    };
    assert_eq!(move_to("link").await.unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(move_to("other/").await.unwrap().paths, [dir.path().join("other").to_str().unwrap()]);
    w.library.remove_library(&first.id).await.unwrap();
    add("Again", films).await.unwrap();
}
