//! Which films a scenario plays: found by size, or named; and how a television would ask for each.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Value, json};
use spindle_bench::stream::plan::Way;

/// Extensions of what is a film on most machines; others may be named file by file.
const EXTENSIONS: [&str; 14] =
    ["mkv", "mp4", "m4v", "mov", "avi", "ts", "m2ts", "mts", "mpg", "mpeg", "webm", "wmv", "vob", "ogv"];
/// Names looked at in a folder that may be anything.
const MAX_NAMES: usize = 200_000;
/// Folders below each other.
const MAX_DEPTH: usize = 24;
/// A picture above this takes a conversion more than one television is worth.
const CALM_HEIGHT: u64 = 1088;

/// A file that may be played.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) path: PathBuf,
    pub(super) size_bytes: u64,
    id: (u64, u64),
}

/// What was found, the largest first where nobody chose.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) candidates: Vec<Candidate>,
    /// What could not be looked at, with why, a few of them.
    pub(super) blocked: Vec<String>,
}

/// Files are taken as they are named, in that order; of folders the `most` largest films, without what is mounted below them.
pub(super) fn find(paths: &[PathBuf], most: usize) -> Result<Found, String> {
    let mut found = Found::default();
    let mut largest: Vec<Candidate> = Vec::new();
    let mut seen = HashSet::new();
    for path in paths {
        let real = fs::canonicalize(path).map_err(|e| format!("`{}`: {}", path.display(), reason(&e)))?;
        let meta = fs::metadata(&real).map_err(|e| format!("`{}`: {}", path.display(), reason(&e)))?;
        if meta.is_dir() {
            walk(&real, meta.dev(), most, &mut largest, &mut found.blocked);
        } else if meta.is_file() {
            let id = (meta.dev(), meta.ino());
            if seen.insert(id) {
                found.candidates.push(Candidate { path: real, size_bytes: meta.len(), id });
            }
        } else {
            return Err(format!("`{}` is neither a file nor a folder", path.display()));
        }
    }
    largest.sort_by(|a, b| b.size_bytes.cmp(&a.size_bytes).then_with(|| a.path.cmp(&b.path)));
    // Two names of one file are one film.
    largest.retain(|c| seen.insert(c.id));
    largest.truncate(most);
    found.candidates.append(&mut largest);
    Ok(found)
}

fn walk(root: &Path, dev: u64, most: usize, out: &mut Vec<Candidate>, blocked: &mut Vec<String>) {
    let mut folders = vec![(root.to_owned(), 0)];
    let mut names = 0;
    while let Some((folder, depth)) = folders.pop() {
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) => {
                if blocked.len() < 10 {
                    blocked.push(format!("`{}`: {}", folder.display(), reason(&error)));
                }
                continue;
            }
        };
        for entry in entries.flatten() {
            names += 1;
            if names > MAX_NAMES {
                blocked
                    .push(format!("only the first {MAX_NAMES} names of `{}` were looked at", root.display()));
                return;
            }
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            // Not followed: a link leads to another volume, or round in circles.
            let Ok(kind) = entry.file_type() else { continue };
            let path = entry.path();
            if kind.is_dir() {
                let same = fs::symlink_metadata(&path).is_ok_and(|m| m.dev() == dev);
                if same && depth < MAX_DEPTH {
                    folders.push((path, depth + 1));
                }
            } else if kind.is_file() && is_film(&path) {
                let Ok(meta) = entry.metadata() else { continue };
                out.push(Candidate { path, size_bytes: meta.len(), id: (meta.dev(), meta.ino()) });
                // A library of a hundred thousand films is not kept whole.
                if out.len() > 4096 + 4 * most {
                    out.sort_by_key(|c| std::cmp::Reverse(c.size_bytes));
                    out.truncate(4 * most);
                }
            }
        }
    }
}

fn is_film(path: &Path) -> bool {
    let extension = path.extension().map(|e| e.to_string_lossy().to_lowercase());
    extension.is_some_and(|e| EXTENSIONS.contains(&e.as_str()))
}

/// The system's words without Rust's error number.
fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_lowercase()
}

/// A film that the server has indexed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Film {
    /// Where it is.
    pub(super) file: PathBuf,
    pub(super) size_bytes: u64,
    pub(super) duration_s: f64,
    /// Bits a second of the whole file.
    pub(super) bitrate_bps: u64,
    pub(super) container: String,
    /// Lines of the picture; 0 where there is none.
    pub(super) height: u64,
    #[serde(skip)]
    width: u64,
    #[serde(skip)]
    codecs: Codecs,
    /// Id in the server of the experiment.
    #[serde(skip)]
    pub(super) item: String,
    /// Its name in that server's library, which its errors name.
    #[serde(skip)]
    pub(super) served_as: String,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct Codecs {
    video: Vec<String>,
    audio: Vec<String>,
}

impl Film {
    /// From an item of the API.
    ///
    /// # Errors
    /// Why it cannot be played at a pace.
    pub(super) fn of(file: &Path, item: &Value) -> Result<Self, String> {
        let version = &item["versions"][0];
        let id = item["id"].as_str().ok_or("the server gives it no id")?;
        let container = version["container"].as_str().ok_or("it could not be read as a film")?;
        let duration_s = version["duration_s"].as_f64().filter(|d| *d >= 1.0 && d.is_finite());
        let duration_s = duration_s.ok_or("its length is not known")?;
        let size_bytes = version["size_bytes"].as_u64().filter(|s| *s > 0).ok_or("it is empty")?;
        let streams: &[Value] = version["streams"].as_array().map_or(&[], Vec::as_slice);
        let of = |kind: &str| {
            let its =
                streams.iter().filter(|s| s["kind"] == kind && s["disposition"]["attached_picture"] != true);
            let mut codecs: Vec<String> =
                its.filter_map(|s| s["codec"].as_str().map(str::to_owned)).collect();
            codecs.sort_unstable();
            codecs.dedup();
            codecs
        };
        let picture = streams.iter().find(|s| s["kind"] == "video").ok_or("it has no picture")?;
        Ok(Self {
            file: file.to_owned(),
            size_bytes,
            duration_s,
            bitrate_bps: bitrate(size_bytes, duration_s),
            container: container.to_owned(),
            height: picture["height"].as_u64().unwrap_or(0),
            width: picture["width"].as_u64().unwrap_or(0),
            codecs: Codecs { video: of("video"), audio: of("audio") },
            item: id.to_owned(),
            served_as: version["file"].as_str().unwrap_or_default().to_owned(),
        })
    }

    /// What the server of the experiment says of this film, by the name that its owner gave it.
    pub(super) fn by_its_name(&self, said: &str) -> String {
        if self.served_as.is_empty() {
            return said.to_owned();
        }
        said.replace(&self.served_as, &self.file.to_string_lossy())
    }

    /// A television that plays this film as it is, or one that does not and takes a smaller picture.
    pub(super) fn profile(&self, way: Way) -> Value {
        match way {
            Way::AsItIs => json!({
                "name": "bench: as it is",
                "direct_play": [{"container": self.container, "video": self.codecs.video, "audio": self.codecs.audio}],
                "subtitles": [], "protocols": ["http", "hls"],
            }),
            Way::Converted => {
                // Smaller than it is, so that the picture cannot be copied.
                let smaller = |n: u64, most: u64| (n * 3 / 4).clamp(64, most) & !1;
                json!({
                    "name": "bench: converted",
                    "direct_play": [],
                    "video": [{
                        "codec": "h264", "max_bit_depth": 8,
                        "max_width": smaller(self.width, 1280), "max_height": smaller(self.height, 720),
                    }],
                    "audio": [{"codec": "aac", "max_channels": 2}],
                    "subtitles": [], "protocols": ["hls"], "max_bitrate": 4_000_000,
                })
            }
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a rate; the cast saturates"
)]
fn bitrate(size_bytes: u64, duration_s: f64) -> u64 {
    ((size_bytes as f64 * 8.0 / duration_s) as u64).max(1)
}

/// The films of a scenario of `count`, of which the last `conversions` are converted: a calm picture for those where there is
/// one, otherwise in the order given.
pub(super) fn cast(films: &[Film], count: usize, conversions: usize) -> Vec<Film> {
    let mut left: Vec<&Film> = films.iter().collect();
    let mut converted: Vec<&Film> = Vec::new();
    for n in 0..conversions.min(count) {
        // Those before it need films too.
        let spare = left.len() > count - conversions.min(count) + (conversions - n - 1);
        // The later of the calm ones: the largest are for the disks.
        let at = left.iter().rposition(|f| f.height <= CALM_HEIGHT).unwrap_or(left.len().saturating_sub(1));
        if spare && at < left.len() {
            converted.push(left.remove(at));
        }
    }
    left.truncate(count - converted.len().min(count));
    left.into_iter().chain(converted).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(path: &Path, bytes: usize) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, vec![0; bytes]).unwrap();
    }

    fn names(found: &Found) -> Vec<String> {
        found.candidates.iter().map(|c| c.path.file_name().unwrap().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn of_a_folder_the_largest_films_are_taken_and_two_names_of_one_are_one() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        put(&at("a/small.mkv"), 10);
        put(&at("b/c/Large.MP4"), 1000);
        put(&at("b/medium.mkv"), 100);
        put(&at("b/poster.jpg"), 5000);
        put(&at(".hidden/x.mkv"), 9000);
        fs::hard_link(at("b/c/Large.MP4"), at("again.mp4")).unwrap();
        std::os::unix::fs::symlink(at("b"), at("loop")).unwrap();
        let found = find(&[dir.path().to_owned()], 2).unwrap();
        assert_eq!(found.candidates.len(), 2);
        assert_eq!((found.candidates[0].size_bytes, found.candidates[1].size_bytes), (1000, 100));
        assert!(found.blocked.is_empty());
    }

    #[test]
    fn files_are_taken_as_they_are_named_whatever_they_are_called() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("b.iso"), dir.path().join("a.mkv"));
        put(&a, 1);
        put(&b, 2);
        assert_eq!(names(&find(&[a.clone(), b, a], 1).unwrap()), ["b.iso", "a.mkv"]);
        let error = find(&[dir.path().join("gone")], 1).unwrap_err();
        assert!(error.contains("gone") && error.contains("no such file"), "{error}");
        assert!(find(&[PathBuf::from("/dev/null")], 1).is_err());
    }

    #[test]
    fn what_is_said_of_a_film_names_it_as_its_owner_does() {
        let mut row = item(1080);
        row["versions"][0]["file"] = json!("Bench Film 1 (1950)/Bench Film 1 (1950).mkv");
        let film = Film::of(Path::new("/pool/Heat.mkv"), &row).unwrap();
        let said = "`Bench Film 1 (1950)/Bench Film 1 (1950).mkv` cannot be reached";
        assert_eq!(film.by_its_name(said), "`/pool/Heat.mkv` cannot be reached");
        row["versions"][0]["file"] = json!("");
        let film = Film::of(Path::new("/pool/Heat.mkv"), &row).unwrap();
        assert_eq!(film.by_its_name("a `b` c"), "a `b` c");
    }

    fn item(height: u64) -> Value {
        json!({"id": "i", "versions": [{
            "container": "mp4", "size_bytes": 2_000_000, "duration_s": 8.0,
            "streams": [
                {"kind": "video", "codec": "h264", "width": 320, "height": height},
                {"kind": "audio", "codec": "aac"}, {"kind": "audio", "codec": "ac3"}, {"kind": "audio", "codec": "aac"},
                {"kind": "video", "codec": "mjpeg", "disposition": {"attached_picture": true}},
            ],
        }]})
    }

    fn film(name: &str, height: u64) -> Film {
        Film::of(Path::new(name), &item(height)).unwrap()
    }

    #[test]
    fn a_film_is_asked_for_by_a_television_that_plays_it_and_by_one_that_does_not() {
        let film = film("/a.mp4", 180);
        assert_eq!(film.bitrate_bps, 2_000_000);
        let plays = film.profile(Way::AsItIs);
        assert_eq!(plays["direct_play"][0]["audio"], json!(["aac", "ac3"]));
        assert_eq!(plays["direct_play"][0]["video"], json!(["h264"]));
        let smaller = film.profile(Way::Converted);
        assert_eq!(
            (&smaller["video"][0]["max_width"], &smaller["video"][0]["max_height"]),
            (&json!(240), &json!(134))
        );
        for profile in [plays, smaller] {
            let parsed: spindle_playback::ClientProfile = serde_json::from_value(profile).unwrap();
            parsed.check().unwrap();
        }
    }

    #[test]
    fn what_cannot_be_played_at_a_pace_says_why() {
        let mut silent = item(180);
        silent["versions"][0]["duration_s"] = Value::Null;
        assert_eq!(Film::of(Path::new("/a"), &silent), Err("its length is not known".to_owned()));
        silent["versions"][0]["container"] = Value::Null;
        assert_eq!(Film::of(Path::new("/a"), &silent), Err("it could not be read as a film".to_owned()));
    }

    #[test]
    fn the_conversion_gets_a_calm_picture_where_there_is_one_to_spare() {
        let files =
            |films: &[Film]| -> Vec<String> { films.iter().map(|f| f.file.display().to_string()).collect() };
        let films = [film("a", 2160), film("b", 1080), film("c", 2160), film("d", 2160)];
        assert_eq!(files(&cast(&films, 3, 1)), ["a", "c", "b"]);
        assert_eq!(files(&cast(&films, 1, 0)), ["a"]);
        let large = [film("a", 2160), film("b", 2160), film("c", 2160)];
        assert_eq!(files(&cast(&large, 3, 1)), ["a", "b", "c"]);
        let calm = [film("a", 180), film("b", 180), film("c", 180)];
        assert_eq!(files(&cast(&calm, 3, 1)), ["a", "b", "c"], "named files keep their order");
        assert_eq!(cast(&large[..2], 3, 1).len(), 2, "too few");
    }
}
