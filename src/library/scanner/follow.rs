//! Notices changes of the libraries' folders and asks for scans.
//!
//! The kernel tells of changes in each folder that it watches (inotify(7)); the folders are those that a scan has just walked,
//! so that watching reads nothing more. Where it does not watch (its limit is reached) or cannot see (a share or a FUSE mount
//! that others change behind it), folders are looked at now and then. One thread; it opens no file, and looks at a folder only
//! when a scan has just done so.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use serde::Serialize;
use spindle_base::clock;
use spindle_base::sync::Mutex;

use super::walk;
use crate::LibraryKind;

/// A folder has been quiet for so long when it is scanned: a copy of many files is one change.
const QUIET: Duration = Duration::from_millis(1_500);
/// And is scanned after so long even while changes go on.
const PATIENCE: Duration = Duration::from_secs(15);
/// How soon a look that would have met a resting disk is thought of again.
const RESTED: Duration = Duration::from_secs(60);
/// Bytes of events read at once: some hundred. What comes faster is a lost event, which means: scan everything.
const BUFFER_BYTES: usize = 64 << 10;

/// What is told of a folder. Not `MODIFY`: a copy would tell of each write, and its end is told by `CLOSE_WRITE`.
const TOLD: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR)
    .union(WatchFlags::EXCL_UNLINK);

/// How changes of a library's folders are noticed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Watching {
    /// Who notices.
    pub by: WatchedBy,
    /// Why it is not the kernel alone, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Who notices changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WatchedBy {
    /// The kernel tells of each at once.
    Kernel,
    /// Folders are looked at now and then.
    Timer,
    /// Nobody: a scan has to be asked for.
    Nobody,
}

/// How to go about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FollowConfig {
    /// Between looks at folders that the kernel does not watch; `None`: they are not looked at.
    pub interval: Option<Duration>,
}

/// What a scan saw of a library.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) library: String,
    pub(super) kind: LibraryKind,
    /// The folders of the library.
    pub(super) roots: Vec<PathBuf>,
    /// Every folder that was walked, whole paths.
    pub(super) folders: Vec<PathBuf>,
    /// Why the kernel does not see all changes of them, where that is known.
    pub(super) unseen: Option<String>,
    /// Before it began to walk, microseconds since the epoch.
    pub(super) begun_us: i64,
}

enum Order {
    Follow(Seen),
    Forget(String),
    Stop,
}

/// What the follower asks of others.
pub(super) trait Asks: Send + 'static {
    /// A library has changed.
    fn scan(&self, library: &str);
    /// Whether a disk below `folder` sleeps, or is about to.
    fn rests(&self, folder: &Path) -> bool;
    /// How a library is watched has changed.
    fn tell(&self, library: &str, watching: &Watching);
}

/// How each library is watched, by its id.
type States = Arc<Mutex<HashMap<String, Watching>, 32>>;

/// The thread; it ends with this.
pub(super) struct Follower {
    orders: Sender<Order>,
    wake: Arc<OwnedFd>,
    states: States,
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Follower {
    /// Starts the thread.
    pub(super) fn start(config: FollowConfig, asks: impl Asks) -> std::io::Result<Self> {
        let wake = Arc::new(rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (orders, given) = mpsc::channel();
        let follower = Self { orders, wake: Arc::clone(&wake), states: Arc::default() };
        let states = Arc::clone(&follower.states);
        std::thread::Builder::new().name("library-watch".to_owned()).spawn(move || {
            Thread {
                config,
                given,
                wake,
                kernel: Kernel::open(),
                mounts: Mounts::open(),
                libraries: HashMap::new(),
                states,
                asks,
            }
            .run();
        })?;
        Ok(follower)
    }

    pub(super) fn follow(&self, seen: Seen) {
        self.order(Order::Follow(seen));
    }

    pub(super) fn forget(&self, library: &str) {
        self.order(Order::Forget(library.to_owned()));
    }

    pub(super) fn stop(&self) {
        self.order(Order::Stop);
    }

    /// How a library is watched; `None` before its first scan.
    pub(super) fn watching(&self, library: &str) -> Option<Watching> {
        self.states.lock().get(library).cloned()
    }

    fn order(&self, order: Order) {
        // A thread that has ended needs no orders.
        drop(self.orders.send(order));
        // A counter that is full wakes it as well.
        let _full = rustix::io::write(&*self.wake, &1_u64.to_ne_bytes());
    }
}

/// The kernel's watches.
struct Kernel {
    /// `Err`: there is none, with the reason.
    queue: Result<OwnedFd, String>,
    by_watch: HashMap<i32, Watched>,
    by_path: HashMap<PathBuf, i32>,
}

/// A folder that is watched.
struct Watched {
    path: PathBuf,
    /// Whose it is. A link may lead two libraries to one folder.
    libraries: HashSet<String>,
}

impl Kernel {
    fn open() -> Self {
        let queue =
            inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).map_err(|errno| match errno {
                Errno::MFILE => {
                    "this user has as many inotify instances as it may; raise fs.inotify.max_user_instances \
                             with sysctl"
                        .to_owned()
                }
                other => format!("the kernel does not watch folders here: {}", words(other)),
            });
        Self { queue, by_watch: HashMap::new(), by_path: HashMap::new() }
    }

    /// Watches exactly `folders` for `library`. Those that are new, and why not all are watched.
    fn set(&mut self, library: &str, folders: &[PathBuf]) -> (Vec<PathBuf>, Option<String>) {
        if let Err(why) = &self.queue {
            return (Vec::new(), Some(why.clone()));
        }
        let wanted: HashSet<&Path> = folders.iter().map(PathBuf::as_path).collect();
        let stale: Vec<i32> = self
            .by_watch
            .iter()
            .filter(|(_, w)| w.libraries.contains(library) && !wanted.contains(w.path.as_path()))
            .map(|(wd, _)| *wd)
            .collect();
        for wd in stale {
            self.leave(wd, library);
        }
        let (mut fresh, mut full) = (Vec::new(), None);
        let Ok(queue) = &self.queue else { return (fresh, full) };
        for path in folders {
            if let Some(watched) = self.by_path.get(path).and_then(|wd| self.by_watch.get_mut(wd)) {
                watched.libraries.insert(library.to_owned());
                continue;
            }
            match inotify::add_watch(queue, path, TOLD) {
                Ok(wd) => {
                    // The same folder by another path has the same number.
                    let watched = self
                        .by_watch
                        .entry(wd)
                        .or_insert_with(|| Watched { path: path.clone(), libraries: HashSet::new() });
                    watched.libraries.insert(library.to_owned());
                    self.by_path.insert(path.clone(), wd);
                    fresh.push(path.clone());
                }
                Err(Errno::NOSPC) => {
                    full.get_or_insert_with(|| {
                        "the kernel watches as many folders as it may for this user; raise fs.inotify.max_user_watches \
                         with sysctl"
                            .to_owned()
                    });
                    break;
                }
                // Gone since it was walked, or not to be read: the scan has said so, or the next one will.
                Err(errno) => {
                    tracing::debug!(path = %path.display(), error = %errno, "a folder is not watched")
                }
            }
        }
        (fresh, full)
    }

    /// A library's part in a watch.
    fn leave(&mut self, wd: i32, library: &str) {
        let Some(watched) = self.by_watch.get_mut(&wd) else { return };
        watched.libraries.remove(library);
        if !watched.libraries.is_empty() {
            return;
        }
        self.gone(wd);
        if let Ok(queue) = &self.queue
            && let Err(errno) = inotify::remove_watch(queue, wd)
        {
            // The folder itself has gone: the kernel was faster.
            tracing::trace!(error = %errno, "a watch had ended");
        }
    }

    /// A watch that the kernel has ended.
    fn gone(&mut self, wd: i32) {
        if self.by_watch.remove(&wd).is_some() {
            self.by_path.retain(|_, of| *of != wd);
        }
    }

    fn forget(&mut self, library: &str) {
        let of: Vec<i32> =
            self.by_watch.iter().filter(|(_, w)| w.libraries.contains(library)).map(|(wd, _)| *wd).collect();
        for wd in of {
            self.leave(wd, library);
        }
    }

    /// What the kernel has to tell.
    fn read(&mut self) -> Vec<News> {
        let Ok(queue) = &self.queue else { return Vec::new() };
        let mut buffer = vec![MaybeUninit::uninit(); BUFFER_BYTES];
        let mut reader = inotify::Reader::new(queue, &mut buffer);
        let mut news = Vec::new();
        loop {
            match reader.next() {
                Ok(event) => {
                    let name = event.file_name().map(|n| PathBuf::from(OsStr::from_bytes(n.to_bytes())));
                    news.push(News { wd: event.wd(), flags: event.events(), name });
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return news,
                Err(errno) => {
                    tracing::warn!(error = %errno, "the kernel's news of folders cannot be read");
                    return news;
                }
            }
        }
    }
}

/// An event of the kernel.
struct News {
    wd: i32,
    flags: ReadFlags,
    name: Option<PathBuf>,
}

/// Whether a change in a library's folder may change the library.
fn matters(kind: LibraryKind, flags: ReadFlags, name: Option<&Path>) -> bool {
    let Some(name) = name else {
        // The watched folder itself: moved, removed, or its filesystem taken away.
        return flags.intersects(ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::UNMOUNT);
    };
    let bytes = name.as_os_str().as_bytes();
    if walk::is_mark(bytes) {
        return true;
    }
    if walk::is_system(bytes) {
        return false;
    }
    flags.contains(ReadFlags::ISDIR) || walk::classify(name, kind).is_some()
}

/// Mount points, to hear of a disk that is mounted or taken away: no event of a folder tells that.
struct Mounts {
    file: Option<std::fs::File>,
    points: HashSet<PathBuf>,
}

impl Mounts {
    fn open() -> Self {
        let mut mounts =
            Self { file: std::fs::File::open("/proc/self/mountinfo").ok(), points: HashSet::new() };
        mounts.points = mounts.read();
        mounts
    }

    fn read(&mut self) -> HashSet<PathBuf> {
        use std::io::{Read as _, Seek as _};
        let Some(file) = &mut self.file else { return HashSet::new() };
        let mut text = Vec::new();
        // Read from the start to its end: that is also what makes the kernel wait for the next change.
        let read = file.rewind().and_then(|()| file.read_to_end(&mut text));
        if let Err(error) = read {
            tracing::debug!(%error, "the list of mounts cannot be read");
            self.file = None;
            return HashSet::new();
        }
        points(&text)
    }

    /// Mount points that came or went since the last time.
    fn changed(&mut self) -> Vec<PathBuf> {
        let now = self.read();
        let changed = now.symmetric_difference(&self.points).cloned().collect();
        self.points = now;
        changed
    }
}

/// The mount points of `/proc/self/mountinfo`: the fifth word of a line, with `\040` for what would end it (proc(5)).
fn points(text: &[u8]) -> HashSet<PathBuf> {
    text.split(|b| *b == b'\n')
        .filter_map(|line| line.split(|b| *b == b' ').nth(4))
        .map(|word| {
            let (mut out, mut rest) = (Vec::with_capacity(word.len()), word);
            while let [first, after @ ..] = rest {
                let octal = (*first == b'\\')
                    .then(|| after.get(..3))
                    .flatten()
                    .and_then(|d| u8::from_str_radix(std::str::from_utf8(d).ok()?, 8).ok());
                (rest, _) = match octal {
                    Some(byte) => (&after[3..], out.push(byte)),
                    None => (after, out.push(*first)),
                };
            }
            PathBuf::from(OsStr::from_bytes(&out))
        })
        .collect()
}

/// A library that is followed.
struct Followed {
    kind: LibraryKind,
    roots: Vec<PathBuf>,
    /// The first and the last change that no scan has been asked for.
    changed: Option<(Instant, Instant)>,
    /// When its folders are looked at, where the kernel does not see everything.
    look: Option<Instant>,
}

impl Followed {
    fn change(&mut self, now: Instant) {
        let first = self.changed.map_or(now, |(first, _)| first);
        self.changed = Some((first, now));
    }

    /// When a scan is due for its changes.
    fn due(&self) -> Option<Instant> {
        self.changed.map(|(first, last)| (last + QUIET).min(first + PATIENCE))
    }
}

struct Thread<A> {
    config: FollowConfig,
    given: Receiver<Order>,
    wake: Arc<OwnedFd>,
    kernel: Kernel,
    mounts: Mounts,
    libraries: HashMap<String, Followed>,
    states: States,
    asks: A,
}

impl<A: Asks> Thread<A> {
    fn run(mut self) {
        loop {
            loop {
                match self.given.try_recv() {
                    Ok(Order::Follow(seen)) => self.follow(seen),
                    Ok(Order::Forget(library)) => {
                        self.libraries.remove(&library);
                        self.kernel.forget(&library);
                        self.states.lock().remove(&library);
                    }
                    Ok(Order::Stop) | Err(mpsc::TryRecvError::Disconnected) => return,
                    Err(mpsc::TryRecvError::Empty) => break,
                }
            }
            let now = clock::instant();
            for news in self.kernel.read() {
                self.hear(&news, now);
            }
            self.act(now);
            self.wait(now);
        }
    }

    fn follow(&mut self, seen: Seen) {
        let now = clock::instant();
        let (fresh, full) = self.kernel.set(&seen.library, &seen.folders);
        let why = full.or(seen.unseen);
        let look = match (&why, self.config.interval) {
            (Some(_), Some(interval)) => Some(now + interval),
            _ => None,
        };
        let by = match (&why, look) {
            (None, _) => WatchedBy::Kernel,
            (Some(_), Some(_)) => WatchedBy::Timer,
            (Some(_), None) => WatchedBy::Nobody,
        };
        let before = self.libraries.remove(&seen.library);
        let mut followed =
            Followed { kind: seen.kind, roots: seen.roots, changed: before.and_then(|b| b.changed), look };
        // What was put into a folder between the walk and the watch was told to nobody.
        if fresh.iter().any(|folder| changed_since(folder, seen.begun_us)) {
            followed.change(now);
        }
        self.libraries.insert(seen.library.clone(), followed);
        let watching = Watching { by, why };
        let told = self.states.lock().insert(seen.library.clone(), watching.clone());
        if told.as_ref() != Some(&watching) {
            self.asks.tell(&seen.library, &watching);
        }
    }

    fn hear(&mut self, news: &News, now: Instant) {
        if news.flags.contains(ReadFlags::QUEUE_OVERFLOW) {
            tracing::info!(
                "more changed in the folders of libraries than the kernel could tell: all are scanned"
            );
            self.libraries.values_mut().for_each(|l| l.change(now));
            return;
        }
        if let Some(watched) = self.kernel.by_watch.get(&news.wd) {
            for id in &watched.libraries {
                if let Some(library) = self.libraries.get_mut(id)
                    && matters(library.kind, news.flags, news.name.as_deref())
                {
                    library.change(now);
                }
            }
        }
        if news.flags.contains(ReadFlags::IGNORED) {
            self.kernel.gone(news.wd);
        }
    }

    /// Asks for the scans that are due.
    fn act(&mut self, now: Instant) {
        for (id, library) in &mut self.libraries {
            if library.due().is_some_and(|due| due <= now) {
                library.changed = None;
                tracing::debug!(library.id = id, "a folder has changed");
                self.asks.scan(id);
            }
            if library.look.is_some_and(|look| look <= now) {
                if library.roots.iter().any(|root| self.asks.rests(root)) {
                    library.look = Some(now + RESTED);
                } else {
                    // The scan sets the next one.
                    library.look = self.config.interval.map(|i| now + i);
                    self.asks.scan(id);
                }
            }
        }
    }

    /// Waits for orders, for news, for mounts, or until something is due.
    fn wait(&mut self, now: Instant) {
        let due = self.libraries.values().flat_map(|l| [l.due(), l.look]).flatten().min();
        let timeout = due.map(|at| {
            let left = at.saturating_duration_since(now) + Duration::from_millis(1);
            Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            }
        });
        let mut fds = vec![PollFd::new(&*self.wake, PollFlags::IN)];
        let mounts_at = self.mounts.file.as_ref().map(|file| {
            // Readable at any time; a change is told as an exception (proc(5)).
            fds.push(PollFd::new(file, PollFlags::PRI));
            fds.len() - 1
        });
        if let Ok(queue) = &self.kernel.queue {
            fds.push(PollFd::new(queue, PollFlags::IN));
        }
        match rustix::event::poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => {
                tracing::warn!(error = %errno, "waiting for changes of folders failed");
                std::thread::sleep(QUIET);
            }
        }
        let mounted = mounts_at
            .and_then(|at| fds.get(at))
            .is_some_and(|fd| fd.revents().intersects(PollFlags::PRI | PollFlags::ERR));
        drop(fds);
        let mut count = [0_u8; 8];
        // Empty where something else woke us.
        let _empty = rustix::io::read(&*self.wake, &mut count);
        if mounted {
            let (changed, now) = (self.mounts.changed(), clock::instant());
            for library in self.libraries.values_mut() {
                let concerns = |point: &PathBuf| {
                    library.roots.iter().any(|r| r.starts_with(point) || point.starts_with(r))
                };
                if changed.iter().any(concerns) {
                    library.change(now);
                }
            }
        }
    }
}

/// Whether something was put into a folder, or taken out, since a time. It was walked a moment ago: this is in memory.
fn changed_since(folder: &Path, since_us: i64) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::symlink_metadata(folder).is_ok_and(|m| {
        let changed_us = m.mtime().saturating_mul(1_000_000).saturating_add(m.mtime_nsec() / 1_000);
        // The kernel stamps with its tick: a few milliseconds behind the clock.
        changed_us.saturating_add(20_000) >= since_us
    })
}

/// Why the kernel does not see all changes below a folder, by its filesystem (`statfs(2)`, `linux/magic.h`).
pub(super) fn unseen(folder: &Path) -> Option<String> {
    let kind = match rustix::fs::statfs(folder).ok()?.f_type & 0xffff_ffff {
        0x6969 => "an NFS share",
        0x517b | 0xfe53_4d42 | 0xff53_4d42 => "an SMB share",
        0x6573_5546 => "a FUSE mount",
        0x0102_1997 => "a 9p share",
        0x00c3_6400 => "a Ceph mount",
        0x5346_414f => "an AFS share",
        0x7375_7245 => "a Coda share",
        0x0bd0_0bd0 => "a Lustre mount",
        0x786f_4256 => "a VirtualBox share",
        0x0116_1970 => "a GFS2 mount",
        0x7461_636f => "an OCFS2 mount",
        _ => return None,
    };
    Some(format!(
        "`{}` is on {kind}, whose changes the kernel sees only where they are made on this machine through it",
        folder.display()
    ))
}

fn words(errno: Errno) -> String {
    let text = std::io::Error::from(errno).to_string();
    text.split(" (os error").next().unwrap_or(&text).to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was asked for.
    struct Heard {
        scans: Sender<String>,
        rests: bool,
    }

    impl Asks for Heard {
        fn scan(&self, library: &str) {
            self.scans.send(library.to_owned()).expect("the test listens");
        }
        fn rests(&self, _folder: &Path) -> bool {
            self.rests
        }
        fn tell(&self, _library: &str, _watching: &Watching) {}
    }

    const LONG: Duration = Duration::from_secs(30);

    fn follower(interval: Option<Duration>, rests: bool) -> (Follower, Receiver<String>) {
        let (scans, heard) = mpsc::channel();
        let follower = Follower::start(FollowConfig { interval }, Heard { scans, rests }).expect("a thread");
        (follower, heard)
    }

    fn seen(library: &str, root: &Path, unseen: Option<&str>) -> Seen {
        Seen {
            library: library.to_owned(),
            kind: LibraryKind::Movies,
            roots: vec![root.to_owned()],
            folders: vec![root.to_owned()],
            unseen: unseen.map(str::to_owned),
            // The folder looks untouched since the walk.
            begun_us: i64::MAX,
        }
    }

    fn until_watched(follower: &Follower, library: &str) -> Watching {
        for _ in 0..3_000 {
            if let Some(watching) = follower.watching(library) {
                return watching;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("`{library}` is not watched");
    }

    #[test]
    fn a_film_that_is_put_into_renamed_in_or_removed_from_a_folder_asks_for_a_scan() {
        let dir = tempfile::tempdir().expect("a folder");
        let (follower, heard) = follower(None, false);
        follower.follow(seen("a", dir.path(), None));
        assert_eq!(until_watched(&follower, "a"), Watching { by: WatchedBy::Kernel, why: None });
        let film = dir.path().join("Film (2001).mkv");
        std::fs::write(&film, "film").expect("written");
        assert_eq!(heard.recv_timeout(LONG).as_deref(), Ok("a"));
        std::fs::rename(&film, film.with_extension("mp4")).expect("renamed");
        assert_eq!(heard.recv_timeout(LONG).as_deref(), Ok("a"));
        std::fs::remove_file(film.with_extension("mp4")).expect("removed");
        assert_eq!(heard.recv_timeout(LONG).as_deref(), Ok("a"));
        std::fs::create_dir(dir.path().join("New")).expect("made");
        assert_eq!(heard.recv_timeout(LONG).as_deref(), Ok("a"));
        follower.stop();
    }

    #[test]
    fn one_change_is_one_scan_and_what_is_no_film_is_none() {
        let (a, b) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let (follower, heard) = follower(None, false);
        follower.follow(seen("a", a.path(), None));
        follower.follow(seen("b", b.path(), None));
        until_watched(&follower, "b");
        std::fs::write(a.path().join("notes.txt"), "").expect("written");
        std::fs::write(a.path().join(".Film.mkv.x7Y"), "").expect("written");
        for n in 0..50 {
            std::fs::write(b.path().join(format!("Film {n}.mkv")), "").expect("written");
        }
        assert_eq!(heard.recv_timeout(LONG).as_deref(), Ok("b"));
        follower.forget("b");
        std::fs::write(b.path().join("Film.mkv"), "").expect("written");
        std::fs::write(a.path().join("Film.mkv"), "").expect("written");
        assert_eq!(heard.recv_timeout(LONG).as_deref(), Ok("a"), "nothing of b is heard any more");
        follower.stop();
    }

    #[test]
    fn what_came_between_the_walk_and_the_watch_is_scanned_for() {
        let dir = tempfile::tempdir().expect("a folder");
        let (follower, heard) = follower(None, false);
        follower.follow(Seen { begun_us: 0, ..seen("a", dir.path(), None) });
        assert_eq!(heard.recv_timeout(LONG).as_deref(), Ok("a"));
        follower.stop();
    }

    #[test]
    fn folders_that_the_kernel_does_not_see_are_looked_at_unless_a_disk_rests() {
        let dir = tempfile::tempdir().expect("a folder");
        let often = Some(Duration::from_millis(50));
        let (asleep, nothing) = follower(often, true);
        asleep.follow(seen("a", dir.path(), Some("an NFS share")));
        let (awake, heard) = follower(often, false);
        awake.follow(seen("a", dir.path(), Some("an NFS share")));
        let watching = until_watched(&awake, "a");
        assert_eq!((watching.by, watching.why.as_deref()), (WatchedBy::Timer, Some("an NFS share")));
        for _ in 0..3 {
            assert_eq!(heard.recv_timeout(LONG).as_deref(), Ok("a"));
        }
        assert!(nothing.try_recv().is_err(), "a sleeping disk was looked at");
        let (never, _none) = follower(None, false);
        never.follow(seen("a", dir.path(), Some("an NFS share")));
        assert_eq!(until_watched(&never, "a").by, WatchedBy::Nobody);
    }

    #[test]
    fn what_matters_to_a_library_is_its_kind_of_file_and_any_folder() {
        let of = |kind, flags, name: &str| matters(kind, flags, Some(Path::new(name)));
        assert!(of(LibraryKind::Movies, ReadFlags::CREATE, "Film.mkv"));
        assert!(of(LibraryKind::Movies, ReadFlags::CREATE, "Film.en.srt"));
        assert!(of(LibraryKind::Movies, ReadFlags::CREATE, ".nomedia"));
        assert!(of(LibraryKind::Movies, ReadFlags::CREATE | ReadFlags::ISDIR, "New Film"));
        assert!(!of(LibraryKind::Movies, ReadFlags::CREATE | ReadFlags::ISDIR, "@eaDir"));
        assert!(!of(LibraryKind::Movies, ReadFlags::CLOSE_WRITE, "Film.mkv.part"));
        assert!(!of(LibraryKind::Movies, ReadFlags::CREATE, "song.mp3"));
        assert!(of(LibraryKind::Music, ReadFlags::CREATE, "song.mp3"));
        assert!(matters(LibraryKind::Movies, ReadFlags::UNMOUNT, None));
        assert!(!matters(LibraryKind::Movies, ReadFlags::IGNORED, None));
    }

    #[test]
    fn mount_points_are_read_with_their_spaces() {
        let text = b"36 35 98:0 /mnt1 /mnt/my\\040disk rw,noatime master:1 - ext3 /dev/root rw\n\
                     37 35 98:1 / /mnt/a\\134b rw - xfs /dev/sdb rw\n";
        let want: HashSet<PathBuf> = [PathBuf::from("/mnt/my disk"), PathBuf::from("/mnt/a\\b")].into();
        assert_eq!(points(text), want);
    }
}
