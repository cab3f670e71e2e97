//! Phase 1: what is in a folder. Names and `stat`, no file is opened.

use std::collections::HashSet;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;
use walkdir::{DirEntry, WalkDir};

use crate::LibraryKind;

/// Folders below each other that are followed; a film library has four.
const MAX_DEPTH: usize = 24;
/// Warnings that are kept; a broken tree has one for each file.
const MAX_WARNINGS: usize = 50;

/// What a file is to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Class {
    Video,
    Audio,
    Photo,
    Subtitle,
    Picture,
    Nfo,
}

impl Class {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Video => "video",
            Self::Audio => "audio",
            Self::Photo => "photo",
            Self::Subtitle => "subtitle",
            Self::Picture => "picture",
            Self::Nfo => "nfo",
        }
    }

    pub(super) fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "video" => Self::Video,
            "audio" => Self::Audio,
            "photo" => Self::Photo,
            "subtitle" => Self::Subtitle,
            "picture" => Self::Picture,
            "nfo" => Self::Nfo,
            _ => return None,
        })
    }

    /// Whether it is something to watch, hear or look at, not something beside it.
    pub(super) fn is_media(self) -> bool {
        matches!(self, Self::Video | Self::Audio | Self::Photo)
    }
}

/// A file that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    /// Key of the root in the database.
    pub(super) root: i64,
    /// Path below the root.
    pub(super) path: PathBuf,
    pub(super) class: Class,
    pub(super) size_bytes: u64,
    pub(super) mtime_ns: i64,
    pub(super) ino: u64,
    pub(super) dev: u64,
}

/// What a walk brought.
#[derive(Debug, Default)]
pub(super) struct Walked {
    pub(super) files: Vec<Seen>,
    /// Folders that were read, whole paths.
    pub(super) folders: Vec<PathBuf>,
    /// Folders (below the root) that could not be read: what is in them is not known to be gone.
    pub(super) blocked: Vec<PathBuf>,
    pub(super) warnings: Vec<String>,
    /// `st_dev` of the root.
    pub(super) dev: u64,
    /// Entries of any kind directly in the root: an empty mount point has none.
    pub(super) entries: usize,
}

/// Walks the root `key` at `folder`. An error is a root that is not there or cannot be read.
pub(super) fn walk(
    key: i64,
    folder: &Path,
    kind: LibraryKind,
    stop: &CancellationToken,
) -> Result<Walked, String> {
    let lost = |e: std::io::Error| format!("folder `{}` cannot be read: {}", folder.display(), reason(&e));
    let meta = fs::metadata(folder).map_err(lost)?;
    if !meta.is_dir() {
        return Err(format!("`{}` is not a folder", folder.display()));
    }
    let mut out =
        Walked { dev: meta.dev(), entries: fs::read_dir(folder).map_err(lost)?.count(), ..Walked::default() };
    let own = fs::canonicalize(folder).map_err(lost)?;
    let mut inside: HashSet<(u64, u64)> = HashSet::new();
    let mut entries = WalkDir::new(folder).follow_links(true).max_depth(MAX_DEPTH).into_iter();
    while let Some(next) = entries.next() {
        if stop.is_cancelled() {
            return Err("the scan was stopped".to_owned());
        }
        match next {
            Ok(entry) if entry.file_type().is_dir() => {
                let skip = entry.depth() > 0 && skipped(&entry, &own, &mut inside, &mut out);
                if !skip {
                    // Also one with a mark: the mark may go.
                    out.folders.push(entry.path().to_owned());
                }
                if skip || marked(entry.path()) {
                    entries.skip_current_dir();
                }
            }
            Ok(entry) => file(key, folder, kind, &entry, &mut out),
            Err(e) => failed(folder, &e, &mut out),
        }
    }
    Ok(out)
}

/// Folders that hold no media of the owner's: hidden ones, thumbnails of NAS systems, trash.
pub(super) fn is_system(name: &[u8]) -> bool {
    name.starts_with(b".")
        || name.starts_with(b"@")
        || matches!(
            name,
            b"lost+found"
                | b"$RECYCLE.BIN"
                | b"System Volume Information"
                | b"#recycle"
                | b"#snapshot"
                | b"RECYCLER"
        )
}

fn skipped(entry: &DirEntry, own: &Path, inside: &mut HashSet<(u64, u64)>, out: &mut Walked) -> bool {
    let name = entry.file_name().as_bytes();
    if is_system(name) {
        return true;
    }
    if matches!(name, b"VIDEO_TS" | b"BDMV") {
        warn(out, format!("`{}` is a disc folder, which is not indexed yet", entry.path().display()));
        return true;
    }
    if entry.path_is_symlink() {
        // A link to a folder that the walk meets anyway would list every file twice; a link out of
        // the root is followed once.
        let target = fs::canonicalize(entry.path());
        let known = entry.metadata().is_ok_and(|m| !inside.insert((m.dev(), m.ino())));
        return known || target.is_ok_and(|t| t.starts_with(own));
    }
    false
}

/// Files by which an owner marks a folder as not for media servers.
const MARKS: [&str; 2] = [".nomedia", ".ignore"];

/// Whether a file of this name is such a mark.
pub(super) fn is_mark(name: &[u8]) -> bool {
    MARKS.iter().any(|mark| mark.as_bytes() == name)
}

fn marked(folder: &Path) -> bool {
    MARKS.iter().any(|mark| fs::symlink_metadata(folder.join(mark)).is_ok())
}

fn failed(root: &Path, error: &walkdir::Error, out: &mut Walked) {
    let path = error.path().unwrap_or(root);
    if error.loop_ancestor().is_some() {
        warn(out, format!("link `{}` leads back into a folder above it", path.display()));
        return;
    }
    let gone = error.io_error().is_some_and(|e| e.kind() == std::io::ErrorKind::NotFound);
    if gone && fs::symlink_metadata(path).is_ok_and(|m| m.is_symlink()) {
        warn(out, format!("link `{}` leads nowhere", path.display()));
        return;
    }
    if gone {
        return; // Removed while we looked.
    }
    let why = error.io_error().map_or_else(|| "unknown error".to_owned(), reason);
    warn(out, format!("`{}` cannot be read: {why}", path.display()));
    if let Ok(below) = path.strip_prefix(root) {
        out.blocked.push(below.to_owned());
    }
}

/// The system's words without Rust's error number.
fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_lowercase()
}

fn warn(out: &mut Walked, text: String) {
    if out.warnings.len() < MAX_WARNINGS {
        out.warnings.push(text);
    }
}

fn file(key: i64, root: &Path, kind: LibraryKind, entry: &DirEntry, out: &mut Walked) {
    if is_system(entry.file_name().as_bytes()) {
        return;
    }
    let Some(class) = classify(entry.path(), kind) else { return };
    if !class.is_media() && entry.path_is_symlink() && !stays_inside(root, entry.path()) {
        return warn(
            out,
            format!("link `{}` leads out of the library and is not used", entry.path().display()),
        );
    }
    // With links followed this is the target's; a FIFO or socket is never opened.
    let meta = match entry.metadata() {
        Ok(meta) if meta.is_file() => meta,
        Ok(_) => return warn(out, format!("`{}` is not a regular file", entry.path().display())),
        Err(e) => return failed(root, &e, out),
    };
    let Ok(below) = entry.path().strip_prefix(root) else { return };
    out.files.push(Seen {
        root: key,
        path: below.to_owned(),
        class,
        size_bytes: meta.len(),
        mtime_ns: meta.mtime().saturating_mul(1_000_000_000).saturating_add(meta.mtime_nsec()),
        ino: meta.ino(),
        dev: meta.dev(),
    });
}

/// Whether a file beside media is inside the library's folder `root`, or at least in its own folder (one that a link leads to),
/// wherever it is linked to. A film may be a link to anywhere: it is shown as a film or not at all. The text of a subtitle file
/// or a picture is shown as it is, and whoever may write into a library may not make the server read other people's files.
///
/// Asks the filesystem, so blocks.
#[must_use]
pub fn stays_inside(root: &Path, file: &Path) -> bool {
    let Ok(real) = fs::canonicalize(file) else { return false };
    let within = |folder: &Path| fs::canonicalize(folder).is_ok_and(|folder| real.starts_with(folder));
    within(root) || file.parent().is_some_and(within)
}

/// Lower-case extension.
pub(super) fn extension(path: &Path) -> String {
    path.extension().map(|e| e.to_string_lossy().to_lowercase()).unwrap_or_default()
}

/// What a file is in a library of `kind`; `None` for what does not belong there.
pub(super) fn classify(path: &Path, kind: LibraryKind) -> Option<Class> {
    let class = match extension(path).as_str() {
        "mkv" | "mk3d" | "webm" | "mp4" | "m4v" | "mov" | "avi" | "divx" | "ts" | "m2ts" | "mts" | "mpg"
        | "mpeg" | "m2v" | "vob" | "wmv" | "asf" | "flv" | "f4v" | "ogv" | "ogm" | "3gp" | "3g2" | "rm"
        | "rmvb" | "mxf" | "dv" | "wtv" | "dvr-ms" => Class::Video,
        "mp3" | "flac" | "m4a" | "m4b" | "aac" | "ogg" | "oga" | "opus" | "wav" | "wma" | "aif" | "aiff"
        | "ape" | "wv" | "mpc" | "dsf" | "mka" | "ac3" | "dts" | "alac" | "tta" => Class::Audio,
        "jpg" | "jpeg" | "png" | "webp" | "gif" | "bmp" | "tif" | "tiff" | "heic" | "heif" | "avif" => {
            Class::Photo
        }
        "srt" | "vtt" | "ass" | "ssa" | "sub" | "idx" | "sup" => Class::Subtitle,
        "nfo" => Class::Nfo,
        _ => return None,
    };
    match (kind, class) {
        (LibraryKind::Movies | LibraryKind::Tv, Class::Audio) | (LibraryKind::Music, Class::Video) => None,
        (LibraryKind::Music, Class::Subtitle) | (LibraryKind::Photos, Class::Audio | Class::Nfo) => None,
        (LibraryKind::Movies | LibraryKind::Tv | LibraryKind::Music, Class::Photo) => Some(Class::Picture),
        (LibraryKind::Mixed, Class::Photo) if super::artwork::role(path).is_some() => Some(Class::Picture),
        _ => Some(class),
    }
}
