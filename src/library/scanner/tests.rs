//! Whole scans of small trees. Files hold a few words that the fake prober understands.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use spindle_base::clock::ManualClock;
use spindle_base::shutdown::Shutdown;
use spindle_media::info::{Disposition, MediaInfo, Stream, StreamKind, Video};
use spindle_media::keyframes::KeyframeIndex;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{
    Controller, ImageFormat, ImageKind, Item, ItemDetail, ItemQuery, ItemType, Library, LibraryError,
    LibraryKind, NewLibrary, Progress, ScanReport, StatePatch,
};

/// Reads words: `bad` and `fail` are errors, `k=v` are tags, a number is the height.
#[derive(Default)]
struct Words {
    probes: AtomicUsize,
    pictures: AtomicUsize,
}

impl Prober for Words {
    fn probe<'a>(&'a self, file: InputFile, _name: &'a str) -> BoxFuture<'a, Result<MediaInfo, ProbeError>> {
        self.probes.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            let mut text = String::new();
            fs::File::from(file.as_fd().try_clone_to_owned().unwrap())
                .read_to_string(&mut text)
                .map_err(|e| ProbeError::Failed(e.to_string()))?;
            if text.starts_with("bad") {
                return Err(ProbeError::Unreadable("invalid data".to_owned()));
            }
            if text.starts_with("fail") {
                return Err(ProbeError::Failed("the worker died".to_owned()));
            }
            if text.starts_with("hang") {
                std::future::pending::<()>().await;
            }
            let tags: BTreeMap<String, String> = text
                .split(';')
                .filter_map(|w| w.split_once('=').map(|(k, v)| (k.to_owned(), v.to_owned())))
                .collect();
            let height = text.split_whitespace().find_map(|w| w.parse().ok()).unwrap_or(360);
            Ok(described(height, tags))
        })
    }

    fn keyframes<'a>(
        &'a self,
        _file: InputFile,
        _name: &'a str,
        _cancel: CancellationToken,
    ) -> BoxFuture<'a, Result<KeyframeIndex, ProbeError>> {
        Box::pin(async { Ok(KeyframeIndex::default()) })
    }

    fn picture<'a>(
        &'a self,
        _file: InputFile,
        _what: Picture,
        _max: u32,
    ) -> BoxFuture<'a, Result<Vec<u8>, ProbeError>> {
        self.pictures.fetch_add(1, Ordering::Relaxed);
        Box::pin(async { Ok(png(64, 36)) })
    }
}

fn described(height: u32, tags: BTreeMap<String, String>) -> MediaInfo {
    let stream = Stream {
        index: 0,
        codec: "h264".into(),
        codec_string: None,
        codec_tag: None,
        profile: None,
        language: None,
        title: None,
        bitrate_bps: None,
        duration_s: None,
        time_base: [1, 1],
        disposition: Disposition::default(),
        kind: StreamKind::Video(Video { height, width: height, ..Video::default() }),
    };
    MediaInfo {
        container: "mkv".into(),
        duration_s: Some(7_200.0),
        streams: vec![stream],
        tags,
        ..MediaInfo::default()
    }
}

fn png(width: u32, height: u32) -> Vec<u8> {
    let mut out = std::io::Cursor::new(Vec::new());
    image::DynamicImage::new_rgb8(width, height).write_to(&mut out, image::ImageFormat::Png).unwrap();
    out.into_inner()
}

/// A library over a temporary tree.
struct World {
    library: Library,
    controller: Controller,
    prober: Arc<Words>,
    clock: Arc<ManualClock>,
    user: String,
    id: String,
    root: PathBuf,
    _dir: tempfile::TempDir,
}

impl World {
    async fn new(kind: LibraryKind) -> Self {
        Self::with(kind, Config::default()).await
    }

    async fn with(kind: LibraryKind, config: Config) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("media");
        fs::create_dir(&root).unwrap();
        // Far ahead of every file's time: nothing looks fresh, so nothing waits to settle.
        let clock = Arc::new(ManualClock::at(4_000_000_000_000_000));
        let library = Library::open(&dir.path().join("data"), Arc::clone(&clock) as _).unwrap();
        let prober = Arc::new(Words::default());
        let config = Config { probe_limit: Duration::from_millis(300), ..config };
        let controller = Controller::start(
            library.clone(),
            Arc::clone(&prober) as _,
            Arc::new(DirectBackend),
            config,
            Shutdown::new(),
        );
        let user = library.create_first_user("anna", "hash").await.unwrap().id;
        let new = NewLibrary { name: "lib".into(), kind, paths: vec![root.clone()] };
        let id = library.add_library(new).await.unwrap().id;
        Self { library, controller, prober, clock, user, id, root, _dir: dir }
    }

    fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn mv(&self, from: &str, to: &str) {
        let to = self.root.join(to);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::rename(self.root.join(from), to).unwrap();
    }

    async fn scan(&self) -> ScanReport {
        let report = self.controller.scan(&self.id).await.unwrap();
        self.controller.pictures(&self.id).await;
        assert!(self.controller.taking_pictures().is_empty(), "somebody waits for them for ever");
        report
    }

    async fn list(&self, kind: ItemType) -> Vec<Item> {
        let query = ItemQuery { types: vec![kind], ..ItemQuery::default() };
        self.library.items(&self.user, query).await.unwrap().items
    }

    async fn detail(&self, id: &str) -> ItemDetail {
        self.library.item(&self.user, id).await.unwrap()
    }

    async fn titles(&self, kind: ItemType) -> Vec<String> {
        self.list(kind).await.into_iter().map(|i| i.title).collect()
    }

    async fn watch(&self, id: &str) {
        let patch = StatePatch { watched: Some(true), ..StatePatch::default() };
        self.library.set_state(&self.user, id, patch).await.unwrap();
    }
}

fn counts(r: &ScanReport) -> (u64, u64, u64, u64, u64, u64) {
    (r.files, r.added, r.updated, r.removed, r.unchanged, r.failed)
}

#[tokio::test]
async fn films_are_listed_probed_and_left_alone_by_the_next_scan() {
    let w = World::new(LibraryKind::Movies).await;
    w.put("Amber Coast (2001)/Amber Coast (2001).mkv", "film 1080");
    w.put("Harbour (1999).mkv", "film 720");
    w.put("@eaDir/Harbour (1999).mkv", "no");
    w.put(".hidden/Other (1998).mkv", "no");
    w.put("private/.nomedia", "");
    w.put("private/Home (2000).mkv", "no");
    w.put("notes.txt", "no");
    let report = w.scan().await;
    assert_eq!(counts(&report), (2, 2, 0, 0, 0, 0), "{report:?}");
    let films = w.list(ItemType::Movie).await;
    assert_eq!(films.iter().map(|f| f.title.as_str()).collect::<Vec<_>>(), ["Amber Coast", "Harbour"]);
    assert_eq!((films[0].year, films[0].duration_s, films[0].available), (Some(2001), Some(7_200.0), true));
    let playable = w.library.playable(&films[0].id, None).await.unwrap();
    assert_eq!(playable.parts[0].path, w.root.join("Amber Coast (2001)/Amber Coast (2001).mkv"));
    assert_eq!(playable.title, "Amber Coast (2001)");
    let (probes, pictures) =
        (w.prober.probes.load(Ordering::Relaxed), w.prober.pictures.load(Ordering::Relaxed));
    let revision = w.library.revision().await.unwrap();
    let again = w.scan().await;
    assert_eq!(counts(&again), (2, 0, 0, 0, 2, 0));
    assert_eq!(w.prober.probes.load(Ordering::Relaxed), probes);
    assert_eq!(w.prober.pictures.load(Ordering::Relaxed), pictures);
    assert_eq!(w.library.revision().await.unwrap(), revision, "nothing was written");
}

#[tokio::test]
async fn a_file_that_cannot_be_read_is_listed_with_its_reason_and_the_scan_goes_on() {
    let w = World::new(LibraryKind::Movies).await;
    w.put("Bad (2001).mkv", "bad");
    w.put("Empty (2002).mkv", "");
    w.put("Good (2003).mkv", "ok");
    w.put("Hangs (2004).mkv", "hang");
    w.put("Mislabelled (2005).mp4", "#EXTM3U\nfile:///etc/passwd");
    let fifo = std::ffi::CString::new(w.root.join("Pipe (2006).mkv").as_os_str().as_bytes()).unwrap();
    let made = std::process::Command::new("mkfifo").arg(fifo.to_str().unwrap()).status().unwrap();
    assert!(made.success());
    let report = w.scan().await;
    assert_eq!(report.failed, 3, "{report:?}");
    assert!(report.warnings.iter().any(|t| t.contains("Pipe") && t.contains("regular")), "{report:?}");
    let listed = w.library.unreadable(Some(&w.id), 10, 0).await.unwrap();
    let reasons: Vec<(&str, &str)> =
        listed.items.iter().map(|u| (u.file.as_str(), u.reason.as_str())).collect();
    assert_eq!(reasons[0], ("Bad (2001).mkv", "invalid data"));
    assert_eq!(reasons[1], ("Empty (2002).mkv", "the file is empty"));
    assert!(reasons[2].1.contains("no answer"), "{reasons:?}");
    let films = w.list(ItemType::Movie).await;
    assert_eq!(films.len(), 5);
    assert_eq!(films[0].unreadable.as_deref(), Some("invalid data"));
    // What was not the file's fault is tried again; what was is not.
    let probes = w.prober.probes.load(Ordering::Relaxed);
    w.put("Hangs (2004).mkv", "fine");
    let report = w.scan().await;
    assert_eq!((report.failed, w.prober.probes.load(Ordering::Relaxed) - probes), (2, 1));
}

#[tokio::test]
async fn a_vanished_root_takes_nothing_along() {
    let w = World::new(LibraryKind::Movies).await;
    w.put("A (2001)/A (2001).mkv", "a");
    w.put("B (2002)/B (2002).mkv", "b");
    w.scan().await;
    let before = w.list(ItemType::Movie).await;
    w.watch(&before[0].id).await;
    let aside = w.root.with_extension("aside");
    for way in ["empty", "gone", "file"] {
        fs::rename(&w.root, &aside).unwrap();
        match way {
            "empty" => fs::create_dir(&w.root).unwrap(),
            "file" => fs::write(&w.root, "x").unwrap(),
            _ => {}
        }
        w.clock.advance(Duration::from_secs(90 * 24 * 3_600));
        let report = w.scan().await;
        assert_eq!(
            (report.removed, report.unavailable, report.warnings.len()),
            (0, 2, 1),
            "{way}: {report:?}"
        );
        assert!(w.library.library(&w.id).await.unwrap().warning.is_some(), "{way}");
        let films = w.list(ItemType::Movie).await;
        assert!(films.len() == 2 && films.iter().all(|f| !f.available), "{way}");
        match way {
            "empty" => fs::remove_dir(&w.root).unwrap(),
            "file" => fs::remove_file(&w.root).unwrap(),
            _ => {}
        }
        fs::rename(&aside, &w.root).unwrap();
        let probes = w.prober.probes.load(Ordering::Relaxed);
        w.scan().await;
        let films = w.list(ItemType::Movie).await;
        assert!(films.iter().all(|f| f.available), "{way}");
        for (a, b) in films.iter().zip(&before) {
            assert_eq!((&a.id, &a.added, &a.title), (&b.id, &b.added, &b.title), "{way}");
        }
        assert!(films[0].state.watched);
        assert_eq!(w.prober.probes.load(Ordering::Relaxed), probes, "{way}");
        assert_eq!(w.library.library(&w.id).await.unwrap().warning, None);
    }
}

#[tokio::test]
async fn a_folder_that_cannot_be_read_keeps_its_files_for_ever() {
    let w = World::new(LibraryKind::Movies).await;
    w.put("sub/A (2001).mkv", "a");
    w.put("B (2002).mkv", "b");
    w.scan().await;
    // Root reads everything; a link that turns into a loop fails for every user.
    fs::rename(w.root.join("sub"), w.root.with_extension("aside")).unwrap();
    std::os::unix::fs::symlink("sub", w.root.join("sub")).unwrap();
    w.clock.advance(Duration::from_secs(90 * 24 * 3_600));
    let report = w.scan().await;
    assert_eq!((report.removed, report.unavailable), (0, 1), "{report:?}");
    w.clock.advance(Duration::from_secs(90 * 24 * 3_600));
    assert_eq!(w.scan().await.removed, 0);
    assert_eq!(w.list(ItemType::Movie).await.len(), 2);
}

#[tokio::test]
async fn a_deleted_file_leaves_after_its_grace_and_its_state_waits_for_it() {
    let w = World::new(LibraryKind::Movies).await;
    w.put("A (2001).mkv", "a");
    w.put("B (2002).mkv", "b");
    w.scan().await;
    let a = w.list(ItemType::Movie).await[0].id.clone();
    w.watch(&a).await;
    fs::remove_file(w.root.join("A (2001).mkv")).unwrap();
    let report = w.scan().await;
    assert_eq!((report.removed, report.unavailable), (0, 1));
    assert!(!w.detail(&a).await.item.available);
    w.clock.advance(Duration::from_secs(29 * 24 * 3_600));
    assert_eq!(w.scan().await.removed, 0);
    w.clock.advance(Duration::from_secs(2 * 24 * 3_600));
    assert_eq!(w.scan().await.removed, 1);
    assert_eq!(w.titles(ItemType::Movie).await, ["B"]);
    w.put("new/A.2001.1080p.mkv", "another copy");
    w.scan().await;
    let back = w.list(ItemType::Movie).await;
    assert!(back[0].title == "A" && back[0].state.watched, "{back:?}");
}

#[tokio::test]
async fn renames_and_moves_keep_id_date_and_state() {
    let w = World::new(LibraryKind::Movies).await;
    w.put("Amber Cost (2001)/Amber Cost (2001).mkv", "amber");
    w.put("B (2002).mkv", "b");
    w.scan().await;
    let before = w.list(ItemType::Movie).await[0].clone();
    let report = Progress { position_s: 600.0, played_s: 600.0 };
    w.library.progress(&w.user, &before.id, report).await.unwrap();
    let probes = w.prober.probes.load(Ordering::Relaxed);
    let check = async |title: &str, year: i64| {
        w.clock.advance(Duration::from_secs(60));
        let report = w.scan().await;
        assert_eq!((report.added, report.updated, report.removed), (0, 1, 0), "{title}: {report:?}");
        let films = w.list(ItemType::Movie).await;
        assert_eq!(films.len(), 2, "{title}");
        let now = &films[0];
        assert_eq!(
            (&now.id, &now.added, now.state.position_s),
            (&before.id, &before.added, 600.0),
            "{title}"
        );
        assert_eq!((now.title.as_str(), now.year, now.available), (title, Some(year), true));
        assert_eq!(w.prober.probes.load(Ordering::Relaxed), probes, "{title}: nothing is probed again");
    };
    w.mv("Amber Cost (2001)", "Amber Coast (2001)");
    check("Amber Cost", 2001).await;
    w.mv("Amber Coast (2001)/Amber Cost (2001).mkv", "Amber Coast (2001)/Amber Coast (2001).mkv");
    check("Amber Coast", 2001).await;
    // To another disk: a copy with another inode and time, then the old one goes.
    let old = w.root.join("Amber Coast (2001)/Amber Coast (2001).mkv");
    w.put("else/Amber Coast (2002).mkv", fs::read(&old).unwrap());
    fs::remove_file(old).unwrap();
    check("Amber Coast", 2002).await;
}

#[tokio::test]
async fn a_file_that_moves_to_another_library_takes_its_state_along() {
    let w = World::new(LibraryKind::Movies).await;
    w.put("Clip.mkv", "some content");
    w.scan().await;
    let before = w.list(ItemType::Movie).await[0].clone();
    w.watch(&before.id).await;
    let other = w.root.with_extension("other");
    fs::create_dir(&other).unwrap();
    let new = NewLibrary { name: "other".into(), kind: LibraryKind::Movies, paths: vec![other.clone()] };
    let id = w.library.add_library(new).await.unwrap().id;
    fs::rename(w.root.join("Clip.mkv"), other.join("Better Name (2003).mkv")).unwrap();
    w.controller.scan(&id).await.unwrap();
    w.scan().await;
    let films = w.list(ItemType::Movie).await;
    assert_eq!(films.len(), 1, "{films:?}");
    assert_eq!((&films[0].id, films[0].title.as_str(), &films[0].library), (&before.id, "Better Name", &id));
    assert!(films[0].state.watched && films[0].available);
}

#[tokio::test]
async fn an_upgrade_is_the_same_episode_whichever_comes_first() {
    let w = World::new(LibraryKind::Tv).await;
    let name = |q: &str| format!("Harbor Lights (2019)/Season 01/Harbor Lights - S01E01 - {q}.mkv");
    w.put(&name("Pilot 720p"), "720");
    w.put("Harbor Lights (2019)/Season 01/Harbor Lights - S01E02.mkv", "x");
    w.scan().await;
    let first = w.list(ItemType::Episode).await.into_iter().find(|e| e.episode == Some(1)).unwrap();
    w.watch(&first.id).await;
    w.put(&name("Pilot 1080p"), "1080");
    w.scan().await;
    let both = w.detail(&first.id).await;
    assert_eq!(both.versions.len(), 2, "{both:?}");
    assert_eq!(both.versions[0].streams.len(), 1);
    fs::remove_file(w.root.join(name("Pilot 720p"))).unwrap();
    w.scan().await;
    let one = w.detail(&first.id).await;
    assert!(one.item.available && one.item.state.watched && one.versions[0].available);
    assert!(one.versions[0].file.contains("1080p"));
    fs::remove_file(w.root.join(name("Pilot 1080p"))).unwrap();
    w.scan().await;
    assert!(!w.detail(&first.id).await.item.available);
    w.put(&name("Pilot 2160p"), "2160");
    w.scan().await;
    let again = w.detail(&first.id).await;
    assert!(again.item.available && again.item.state.watched);
    let next = w.library.home(&w.user, 5).await.unwrap().next_up;
    assert_eq!(next.iter().map(|i| i.episode).collect::<Vec<_>>(), [Some(2)]);
}

#[tokio::test]
async fn series_have_seasons_and_a_renamed_one_keeps_everything() {
    let w = World::new(LibraryKind::Tv).await;
    for (s, e) in [(1, 1), (1, 2), (2, 1)] {
        w.put(&format!("Harbour/Season {s:02}/Harbour S{s:02}E{e:02}.mkv"), format!("{s}{e}"));
    }
    w.put("Harbour/Season 00/Harbour S00E01.mkv", "special");
    w.scan().await;
    assert_eq!(w.titles(ItemType::Show).await, ["Harbour"]);
    let show = w.list(ItemType::Show).await[0].clone();
    let children = ItemQuery { parent: Some(show.id.clone()), ..ItemQuery::default() };
    let seasons = w.library.items(&w.user, children).await.unwrap().items;
    assert_eq!(
        seasons.iter().map(|s| s.title.as_str()).collect::<Vec<_>>(),
        ["Season 1", "Season 2", "Specials"]
    );
    let children = ItemQuery { parent: Some(seasons[0].id.clone()), ..ItemQuery::default() };
    let episodes = w.library.items(&w.user, children).await.unwrap().items;
    assert_eq!(episodes.iter().map(|e| e.episode).collect::<Vec<_>>(), [Some(1), Some(2)]);
    assert_eq!(episodes[0].top_title.as_deref(), Some("Harbour"));
    w.watch(&episodes[0].id).await;
    for (s, e) in [(1, 1), (1, 2), (2, 1), (0, 1)] {
        w.mv(
            &format!("Harbour/Season {s:02}/Harbour S{s:02}E{e:02}.mkv"),
            &format!("Harbor Lights (2019)/Season {s:02}/Harbor Lights S{s:02}E{e:02}.mkv"),
        );
    }
    let report = w.scan().await;
    assert_eq!((report.added, report.updated), (0, 4), "{report:?}");
    let shows = w.list(ItemType::Show).await;
    assert_eq!(shows.len(), 1);
    assert_eq!(
        (&shows[0].id, shows[0].title.as_str(), shows[0].unwatched),
        (&show.id, "Harbor Lights", Some(3))
    );
    let now = w.detail(&episodes[0].id).await;
    assert!(now.item.state.watched && now.item.top.as_ref() == Some(&show.id));
    assert_eq!(w.list(ItemType::Season).await.len(), 3);
}

#[tokio::test]
async fn versions_group_over_roots_and_other_films_stay_apart() {
    let w = World::new(LibraryKind::Movies).await;
    let second = w.root.with_extension("second");
    fs::create_dir(&second).unwrap();
    let paths = Some(vec![w.root.clone(), second.clone()]);
    w.library.update_library(&w.id, crate::LibraryPatch { name: None, paths }).await.unwrap();
    w.put("Ninefold (2015)/Ninefold (2015) - 1080p.mkv", "1080");
    fs::create_dir(second.join("Ninefold (2015)")).unwrap();
    fs::write(second.join("Ninefold (2015)/Ninefold (2015) - 480p.mp4"), "480").unwrap();
    w.put("X (1995)/X (1995).mkv", "1");
    w.put("X (2017)/X (2017).mkv", "2");
    w.put("a/Birthday.mkv", "3");
    w.put("b/Birthday.mkv", "4");
    let report = w.scan().await;
    assert_eq!(report.added, 6);
    let films = w.list(ItemType::Movie).await;
    let named = |t: &str| films.iter().filter(|f| f.title == t).count();
    assert_eq!((named("Ninefold"), named("X"), named("Birthday"), films.len()), (1, 2, 2, 5));
    let ninefold = films.iter().find(|f| f.title == "Ninefold").unwrap();
    let detail = w.detail(&ninefold.id).await;
    assert_eq!(detail.versions.len(), 2);
    let second = detail.versions[1].id.clone();
    assert_ne!(detail.versions[0].id, second);
    assert_eq!(w.library.playable(&ninefold.id, Some(&second)).await.unwrap().version, second);
    let unknown = w.library.playable(&ninefold.id, Some("nope")).await;
    assert!(matches!(unknown, Err(LibraryError::NotFound { .. })));
}

#[tokio::test]
async fn extras_hang_on_their_film_and_samples_on_nothing() {
    let w = World::new(LibraryKind::Movies).await;
    w.put("Amber Coast (2001)/Amber Coast (2001).mkv", "film");
    w.put("Amber Coast (2001)/Amber Coast (2001)-trailer.mkv", "trailer");
    w.put("Amber Coast (2001)/extras/Making of.mkv", "making");
    w.put("Amber Coast (2001)/sample.mkv", "sample");
    w.put("Trailer Park Nights (1999).mkv", "film");
    w.scan().await;
    assert_eq!(w.titles(ItemType::Movie).await, ["Amber Coast", "Trailer Park Nights"]);
    let all = w.library.items(&w.user, ItemQuery::default()).await.unwrap();
    assert_eq!(all.total, 2, "extras are not in the grid");
    let film = w.detail(&all.items[0].id).await;
    assert_eq!(film.extras.len(), 2, "{:?}", film.extras);
    assert_eq!(film.versions.len(), 1);
    assert!(film.extras.iter().any(|e| e.extra.as_deref() == Some("trailer")));
    w.library.playable(&film.extras[0].id, None).await.unwrap();
    assert_eq!(w.scan().await.added, 0);
}

#[tokio::test]
async fn parts_are_one_version_in_order() {
    let w = World::new(LibraryKind::Movies).await;
    w.put("Long (1962)/Long (1962) cd2.mkv", "b");
    w.put("Long (1962)/Long (1962) cd1.mkv", "a");
    w.scan().await;
    let films = w.list(ItemType::Movie).await;
    assert_eq!(films.len(), 1, "{films:?}");
    assert_eq!(films[0].duration_s, Some(14_400.0));
    let parts = w.library.playable(&films[0].id, None).await.unwrap().parts;
    let names: Vec<bool> = parts.iter().map(|p| p.name.contains("cd1")).collect();
    assert_eq!(names, [true, false]);
}

#[tokio::test]
async fn subtitles_beside_a_film_are_streams_of_it() {
    let w = World::new(LibraryKind::Movies).await;
    w.put("F (1960)/F (1960).mkv", "film");
    w.put("F (1960)/F (1960).en.forced.srt", "1");
    w.put("F (1960)/Unrelated.srt", "1");
    w.scan().await;
    let id = w.list(ItemType::Movie).await[0].id.clone();
    let part = w.library.playable(&id, None).await.unwrap().parts.remove(0);
    assert_eq!(part.external.len(), 1);
    assert_eq!((part.external[0].stream, part.external[0].codec.as_str()), (1, "subrip"));
    let stream = part.info.unwrap().streams.pop().unwrap();
    assert_eq!((stream.index, stream.language.as_deref(), stream.disposition.forced), (1, Some("eng"), true));
    // One that comes later is found although the film did not change; one that goes is gone.
    w.put("F (1960)/F (1960).de.vtt", "1");
    fs::remove_file(w.root.join("F (1960)/F (1960).en.forced.srt")).unwrap();
    w.scan().await;
    let part = w.library.playable(&id, None).await.unwrap().parts.remove(0);
    assert_eq!(part.external.iter().map(|e| e.codec.as_str()).collect::<Vec<_>>(), ["webvtt"]);
}

#[tokio::test]
async fn tags_of_music_go_before_names_and_leave_no_empty_album() {
    let w = World::new(LibraryKind::Music).await;
    w.put(
        "Someone/Wrong Album/01 - one.flac",
        "title=First;artist=The Band;album=Right Album;track=1/2;date=1999",
    );
    w.put("Someone/Wrong Album/02 - two.flac", "title=Second;artist=The Band;album=Right Album;track=2/2");
    w.put("Untagged/Album/03 - Three.mp3", "x");
    w.scan().await;
    let mut artists = w.titles(ItemType::Artist).await;
    artists.sort();
    assert_eq!(artists, ["The Band", "Untagged"]);
    let albums = w.list(ItemType::Album).await;
    assert_eq!(albums.len(), 2, "{albums:?}");
    let right = albums.iter().find(|a| a.title == "Right Album").unwrap();
    assert_eq!((right.leaves, right.year), (Some(2), Some(1999)));
    let children = ItemQuery { parent: Some(right.id.clone()), ..ItemQuery::default() };
    let tracks = w.library.items(&w.user, children).await.unwrap().items;
    assert_eq!(tracks.iter().map(|t| t.title.as_str()).collect::<Vec<_>>(), ["First", "Second"]);
    assert_eq!(w.scan().await.unchanged, 3);
}

#[tokio::test]
async fn pictures_beside_files_are_kept_and_browsing_needs_no_media_folder() {
    let w = World::new(LibraryKind::Mixed).await;
    w.put("Film (2001)/Film (2001).mkv", "film");
    w.put("Film (2001)/poster.png", png(400, 600));
    w.put("Film (2001)/fanart.png", png(1_600, 900));
    w.put("Show/tvshow.nfo", "<tvshow><title>The Show</title><plot>About.</plot><genre>Sea</genre></tvshow>");
    w.put("Show/poster.png", png(40, 60));
    w.put("Show/season01-poster.png", png(20, 30));
    w.put("Show/Season 01/Show S01E01.mkv", "1");
    w.put("Show/Season 01/Show S01E01-thumb.png", png(32, 18));
    w.put("Broken (2002)/Broken (2002).mkv", "x");
    w.put("Broken (2002)/poster.jpg", "not a picture");
    w.scan().await;
    fs::rename(&w.root, w.root.with_extension("away")).unwrap();
    let image = async |id: &str, kind| w.library.image(id, kind, Some(200), None, ImageFormat::Jpeg).await;
    let films = w.list(ItemType::Movie).await;
    let film = films.iter().find(|f| f.title == "Film").unwrap();
    let kinds: Vec<ImageKind> = film.images.iter().map(|i| i.kind).collect();
    assert_eq!(kinds, [ImageKind::Backdrop, ImageKind::Poster]);
    let poster = image(&film.id, ImageKind::Poster).await.unwrap();
    assert_eq!(poster.mime, "image/jpeg");
    assert!(poster.etag.starts_with('"') && poster.etag.ends_with('"'));
    let broken = films.iter().find(|f| f.title == "Broken").unwrap();
    assert!(matches!(image(&broken.id, ImageKind::Poster).await, Err(LibraryError::NotFound { .. })));
    image(&broken.id, ImageKind::Thumb).await.unwrap();
    let show = w.list(ItemType::Show).await.remove(0);
    assert_eq!(show.title, "The Show");
    let detail = w.detail(&show.id).await;
    assert_eq!((detail.plot.as_deref(), detail.genres.as_slice()), (Some("About."), &["Sea".to_owned()][..]));
    assert_eq!(show.images[0].width, 40);
    let season = w.list(ItemType::Season).await.remove(0);
    assert_eq!(season.images[0].width, 20);
    let episode = w.list(ItemType::Episode).await.remove(0);
    assert_eq!((episode.images[0].kind, episode.images[0].width), (ImageKind::Still, 32));
    image(&episode.id, ImageKind::Poster).await.unwrap();
}

#[tokio::test]
async fn names_that_are_not_unicode_links_and_loops_end_no_scan() {
    let w = World::new(LibraryKind::Movies).await;
    w.put("Real (1990).mkv", "real");
    std::os::unix::fs::symlink("Real (1990).mkv", w.root.join("Linked (1991).mkv")).unwrap();
    fs::hard_link(w.root.join("Real (1990).mkv"), w.root.join("Hard (1992).mkv")).unwrap();
    std::os::unix::fs::symlink("nowhere.mkv", w.root.join("Dangling (1993).mkv")).unwrap();
    fs::create_dir(w.root.join("deep")).unwrap();
    std::os::unix::fs::symlink("..", w.root.join("deep/loop")).unwrap();
    let bad = Path::new(std::ffi::OsStr::from_bytes(b"bad \xff\xe9 utf8 (1983).mkv"));
    fs::write(w.root.join(bad), "bad name").unwrap();
    let report = w.scan().await;
    assert_eq!(report.added, 4, "{report:?}");
    assert_eq!(report.warnings.len(), 2, "one for the link, one for the loop: {report:?}");
    let films = w.list(ItemType::Movie).await;
    assert_eq!(films.len(), 4);
    let odd = films.iter().find(|f| f.year == Some(1983)).unwrap();
    assert_eq!(w.library.playable(&odd.id, None).await.unwrap().parts[0].path, w.root.join(bad));
    assert_eq!(w.scan().await.unchanged, 4);
}

#[tokio::test]
async fn a_growing_file_waits_and_a_finished_one_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("m");
    fs::create_dir(&root).unwrap();
    let library = Library::open(&dir.path().join("d"), Arc::new(spindle_base::clock::SystemClock)).unwrap();
    let config = Config {
        settle: Duration::from_millis(400),
        incoming_retry: Duration::from_secs(3_600),
        ..Config::default()
    };
    let controller = Controller::start(
        library.clone(),
        Arc::new(Words::default()),
        Arc::new(DirectBackend),
        config,
        Shutdown::new(),
    );
    let new = NewLibrary { name: "l".into(), kind: LibraryKind::Movies, paths: vec![root.clone()] };
    let id = library.add_library(new).await.unwrap().id;
    fs::write(root.join("Done (2001).mkv"), "done").unwrap();
    let growing = root.join("Growing (2002).mkv");
    fs::write(&growing, "0").unwrap();
    let stop = CancellationToken::new();
    let writer = tokio::spawn({
        let stop = stop.clone();
        async move {
            let mut content = String::from("0");
            while !stop.is_cancelled() {
                content.push('0');
                fs::write(&growing, &content).unwrap();
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    });
    let report = controller.scan(&id).await.unwrap();
    stop.cancel();
    writer.await.unwrap();
    assert_eq!((report.files, report.added, report.incoming), (1, 1, 1), "{report:?}");
    let report = controller.scan(&id).await.unwrap();
    assert_eq!((report.added, report.incoming), (1, 0), "{report:?}");
}

#[tokio::test]
async fn many_requests_become_few_scans() {
    let w = World::new(LibraryKind::Movies).await;
    w.put("A (2001).mkv", "a");
    let mut events = w.library.subscribe();
    for _ in 0..50 {
        w.controller.request(&w.id);
    }
    w.scan().await;
    let mut started = 0;
    while let Ok(event) = events.try_recv() {
        started += usize::from(matches!(event, crate::Event::ScanStarted { .. }));
    }
    assert!((1..=2).contains(&started), "{started}");
    assert!(matches!(w.controller.scan("nope").await, Err(LibraryError::NotFound { .. })));
}

#[tokio::test]
async fn files_beside_films_that_lead_out_of_the_library_are_not_used() {
    let w = World::new(LibraryKind::Movies).await;
    let outside = w.root.with_extension("outside");
    fs::create_dir(&outside).unwrap();
    for (name, content) in
        [("secret", b"secret".to_vec()), ("secret.png", png(64, 36)), ("x.srt", b"x".to_vec())]
    {
        fs::write(outside.join(name), content).unwrap();
    }
    w.put("A (2001)/A (2001).mkv", "a");
    w.put("shared/b.srt", "b");
    let link = |to: &Path, from: &str| std::os::unix::fs::symlink(to, w.root.join(from)).unwrap();
    link(&outside.join("secret"), "A (2001)/A (2001).en.srt");
    link(&outside.join("secret.png"), "A (2001)/poster.png");
    link(&w.root.join("shared/b.srt"), "A (2001)/A (2001).de.srt");
    // A folder that is a link is followed: what is in it is as good as in the library.
    link(&outside, "Linked");
    fs::write(outside.join("B (2002).mkv"), "b").unwrap();
    fs::write(outside.join("B (2002).en.srt"), "b").unwrap();
    let report = w.scan().await;
    assert_eq!(report.warnings.len(), 2, "{report:?}");
    assert!(report.warnings.iter().all(|w| w.contains("leads out of the library")), "{report:?}");
    let films = w.list(ItemType::Movie).await;
    let named = |t: &str| films.iter().find(|f| f.title == t).unwrap();
    assert!(w.library.image(&named("A").id, ImageKind::Poster, None, None, ImageFormat::Jpeg).await.is_err());
    let beside = async |t: &str| {
        let playable = w.library.playable(&named(t).id, None).await.unwrap();
        playable.parts[0].external.iter().map(|e| e.path.file_name().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(beside("A").await, ["A (2001).de.srt"]);
    assert_eq!(beside("B").await, ["B (2002).en.srt"]);
    // One that becomes such a link later is refused when it is opened.
    let subtitle = w.root.join("A (2001)/A (2001).de.srt");
    assert!(stays_inside(&w.root, &subtitle));
    fs::remove_file(&subtitle).unwrap();
    std::os::unix::fs::symlink(outside.join("secret"), &subtitle).unwrap();
    assert!(!stays_inside(&w.root, &subtitle));
}

#[tokio::test]
async fn what_changes_in_a_folder_shows_without_being_asked_for() {
    let follow = Some(FollowConfig { interval: None });
    let w = World::with(LibraryKind::Movies, Config { follow, ..Config::default() }).await;
    assert_eq!(w.controller.watching(&w.id).by, WatchedBy::Nobody);
    w.scan().await;
    let until = async |what: &str, holds: &dyn Fn(&[Item]) -> bool| {
        for _ in 0..3_000 {
            if holds(&w.list(ItemType::Movie).await) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{what}: {:?}, {:?}", w.list(ItemType::Movie).await, w.controller.watching(&w.id));
    };
    w.put("New Folder/A (2001)/A (2001).mkv", "a");
    until("added", &|films| films.len() == 1 && films[0].available).await;
    assert_eq!(w.controller.watching(&w.id), Watching { by: WatchedBy::Kernel, why: None });
    // Into a folder that was not there when watching began.
    w.put("New Folder/B (2002).mkv", "b");
    until("added in a new folder", &|films| films.len() == 2).await;
    fs::rename(w.root.join("New Folder/B (2002).mkv"), w.root.join("Bee (2002).mkv")).unwrap();
    until("renamed", &|films| films.iter().any(|f| f.title == "Bee")).await;
    fs::remove_file(w.root.join("Bee (2002).mkv")).unwrap();
    until("removed", &|films| films.iter().any(|f| f.title == "Bee" && !f.available)).await;
    fs::rename(&w.root, w.root.with_extension("away")).unwrap();
    until("the library's folder is moved away", &|films| films.iter().all(|f| !f.available)).await;
    w.controller.forget(&w.id);
}
