//! Finished segments: anonymous files in one folder, bounded in bytes and in number, oldest use first out.
//!
//! The files have no name, so whatever ends the server, nothing stays behind. Each is an open descriptor, and those that this
//! process may have are fewer than the segments of small pictures that fit into the bytes.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use rustix::fs::{Mode, OFlags};
use spindle_base::sync::Mutex;

use crate::plan::RenditionKey;

/// A finished segment. Holding it keeps its bytes.
#[derive(Debug, Clone)]
pub struct Segment {
    file: Arc<File>,
    /// Length in bytes.
    pub len_bytes: u64,
}

impl Segment {
    pub(crate) fn new(file: File, len_bytes: u64) -> Self {
        Self { file: Arc::new(file), len_bytes }
    }

    /// The file that holds it, from offset 0, for sendfile. Not to be written or moved in.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// At most `max` bytes from `offset`, fewer at its end. Blocks for as long as the cache folder's disk takes.
    ///
    /// # Errors
    /// What the read says.
    pub fn read_range(&self, offset: u64, max: usize) -> io::Result<Bytes> {
        let len = usize::try_from(self.len_bytes.saturating_sub(offset)).unwrap_or(max).min(max);
        let mut out = vec![0; len];
        self.file.read_exact_at(&mut out, offset)?;
        Ok(out.into())
    }

    /// Tells this making of it from another one: an encoded picture may have other bytes when it is made
    /// again. Inode and time of its last write, in nanoseconds.
    #[must_use]
    pub fn made(&self) -> (u64, i128) {
        rustix::fs::fstat(&self.file).map_or((0, 0), |s| {
            (s.st_ino, i128::from(s.st_mtime) * 1_000_000_000 + i128::from(s.st_mtime_nsec))
        })
    }

    /// All of it. Blocks for as long as the cache folder's disk takes.
    ///
    /// # Errors
    /// What the read says.
    pub fn read(&self) -> io::Result<Bytes> {
        self.read_range(0, usize::MAX)
    }
}

/// Which piece of a rendition: a segment, or `None` for its init segment.
pub type Piece = Option<usize>;

/// Most segments that are kept: three hours of segments of three seconds.
const MAX_SEGMENTS: usize = 4_096;
/// Of the descriptors that this process may have, one in so many holds a segment: the others are connections and films.
const SHARE_OF_DESCRIPTORS: u64 = 4;

/// The segments of every rendition.
#[derive(Debug)]
pub struct Cache {
    folder: PathBuf,
    limit_bytes: u64,
    limit_segments: usize,
    // Rank 40: taken inside a rendition's actor, which holds no other lock.
    inner: Mutex<Inner, 40>,
}

#[derive(Debug, Default)]
struct Inner {
    held: HashMap<(RenditionKey, Piece), Held>,
    total_bytes: u64,
    clock: u64,
}

#[derive(Debug)]
struct Held {
    segment: Segment,
    used: u64,
}

impl Cache {
    /// A cache in `folder`, which is made if it is missing.
    ///
    /// # Errors
    /// If the folder cannot be made or written.
    pub fn open(folder: &Path, limit_bytes: u64) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let descriptors = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let share = descriptors
            .map_or(MAX_SEGMENTS, |n| usize::try_from(n / SHARE_OF_DESCRIPTORS).unwrap_or(MAX_SEGMENTS));
        let limit_segments = share.min(MAX_SEGMENTS);
        let cache = Self { folder: folder.to_owned(), limit_bytes, limit_segments, inner: Mutex::default() };
        // Says now what the first viewer would otherwise find out.
        cache.new_file()?;
        Ok(cache)
    }

    /// A file without a name for a worker to write.
    ///
    /// # Errors
    /// What the file system says.
    pub fn new_file(&self) -> io::Result<File> {
        let mode = Mode::RUSR | Mode::WUSR;
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        match rustix::fs::open(&self.folder, flags, mode) {
            Ok(fd) => Ok(fd.into()),
            // Not every file system knows O_TMPFILE: make a name and take it away again.
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR | rustix::io::Errno::INVAL) => {
                let path = self.folder.join(format!("segment-{}", spindle_base::id::new_id()));
                let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                let fd = rustix::fs::open(&path, flags, mode)?;
                std::fs::remove_file(&path)?;
                Ok(fd.into())
            }
            Err(e) => Err(e.into()),
        }
    }

    /// The segment, if it is here; counts as a use.
    #[must_use]
    pub fn get(&self, key: RenditionKey, piece: Piece) -> Option<Segment> {
        let mut inner = self.inner.lock();
        inner.clock += 1;
        let now = inner.clock;
        let held = inner.held.get_mut(&(key, piece))?;
        held.used = now;
        Some(held.segment.clone())
    }

    /// Keeps a segment and lets go of the longest unused until the limits hold. Those in use
    /// elsewhere are passed over: their bytes would stay on the disk all the same.
    pub fn put(&self, key: RenditionKey, piece: Piece, segment: Segment) {
        let mut inner = self.inner.lock();
        inner.clock += 1;
        let used = inner.clock;
        inner.total_bytes += segment.len_bytes;
        if let Some(old) = inner.held.insert((key, piece), Held { segment, used }) {
            inner.total_bytes -= old.segment.len_bytes;
        }
        inner.shrink_to(self.limit_bytes, self.limit_segments, Some((key, piece)));
    }

    /// Lets go of the longest unused until at most `bytes` are held.
    pub fn shrink_to(&self, bytes: u64) {
        self.inner.lock().shrink_to(bytes, self.limit_segments, None);
    }

    /// Bytes held now.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.inner.lock().total_bytes
    }

    /// Which of the segments `from..to` of a rendition are here.
    #[must_use]
    pub fn present(&self, key: RenditionKey, from: usize, to: usize) -> BTreeSet<usize> {
        let inner = self.inner.lock();
        (from..to).filter(|n| inner.held.contains_key(&(key, Some(*n)))).collect()
    }
}

impl Inner {
    fn shrink_to(&mut self, limit_bytes: u64, limit_segments: usize, keep: Option<(RenditionKey, Piece)>) {
        let fits = |inner: &Self| inner.total_bytes <= limit_bytes && inner.held.len() <= limit_segments;
        if fits(self) {
            return;
        }
        let mut order: Vec<_> = self
            .held
            .iter()
            .filter(|(at, held)| Some(**at) != keep && Arc::strong_count(&held.segment.file) == 1)
            .map(|(at, held)| (held.used, *at))
            .collect();
        order.sort_unstable_by_key(|(used, _)| *used);
        for (_, at) in order {
            if fits(self) {
                break;
            }
            if let Some(held) = self.held.remove(&at) {
                self.total_bytes -= held.segment.len_bytes;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Boundaries, FileKey, Plan};

    fn key() -> RenditionKey {
        let file = FileKey { dev: 1, ino: 1, size_bytes: 1, modified_us: 1, changed_us: 1 };
        let plan = Plan {
            video: None,
            audio: None,
            boundaries: Boundaries::default(),
            container: crate::plan::Container::Fmp4,
            start_us: None,
            clock_restarts: Vec::new(),
        };
        RenditionKey::new(file, &plan)
    }

    fn segment(cache: &Cache, content: &[u8]) -> Segment {
        let file = cache.new_file().unwrap();
        file.write_all_at(content, 0).unwrap();
        Segment::new(file, content.len() as u64)
    }

    #[test]
    fn the_longest_unused_goes_first_and_what_is_in_use_stays() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path(), 30).unwrap();
        let held = segment(&cache, &[0; 10]);
        cache.put(key(), Some(0), held.clone());
        cache.put(key(), Some(1), segment(&cache, &[1; 10]));
        cache.put(key(), Some(2), segment(&cache, &[2; 10]));
        assert!(cache.get(key(), Some(1)).is_some());
        cache.put(key(), Some(3), segment(&cache, &[3; 10]));
        assert_eq!(cache.present(key(), 0, 9).into_iter().collect::<Vec<_>>(), [0, 1, 3]);
        assert_eq!(cache.total_bytes(), 30);
        assert_eq!(held.read().unwrap(), vec![0; 10]);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "files have no names");
    }

    #[test]
    fn small_segments_do_not_take_every_descriptor() {
        let folder = tempfile::tempdir().unwrap();
        let opened = Cache::open(folder.path(), 1 << 30).unwrap();
        let allowed =
            rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
        assert!(
            opened.limit_segments as u64 <= allowed / 4 && opened.limit_segments > 0,
            "{}",
            opened.limit_segments
        );
        let cache = Cache { limit_segments: 3, ..opened };
        for n in 0..9 {
            cache.put(key(), Some(n), segment(&cache, b"s"));
        }
        assert_eq!(cache.present(key(), 0, 9).into_iter().collect::<Vec<_>>(), [6, 7, 8]);
        assert_eq!(cache.total_bytes(), 3);
    }
}
