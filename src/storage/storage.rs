//! The handle that the rest of the server holds.

use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use spindle_base::clock::SharedClock;
use spindle_base::sync::Mutex;
use spindle_base::units::ByteRange;
use tokio::sync::oneshot;

use crate::cached;
use crate::device::{Device, Devices};
use crate::error::StorageError;
use crate::file::{FileIdentity, FileState};
use crate::layout::verify::Verified;
use crate::layout::{Layout, LayoutOptions, through};
use crate::ledger::{self, Ledger, Row, RowKind, StreamId, StreamShared};
use crate::mapper::Mapper;
use crate::notes;
use crate::pool::{Job, Lane};
use crate::reader::{self, MediaFile, Opening};
use crate::recorder::faults::Members;
use crate::recorder::record::{Attribution, AttributionMode, DiskRate, IoRecord, Notice};
use crate::recorder::{Note, Notices, Recorder};
use crate::sys;
use crate::topology::ask::ByTrace;
use crate::topology::figures::AskDisk;
use crate::topology::mounts::{self, Mount};
use crate::topology::roots::{Look, Roots};
use crate::topology::sysfs::Sysfs;
use crate::topology::watch::Watch;
use crate::topology::{self, DiskFigures, KnownVolume, Topology};
use crate::trace::Trace;

/// Where the block trace comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HelperMode {
    /// Start `helper_program storage-helper` where this process may trace; else do without.
    Auto,
    /// Do without.
    Off,
    /// Ask the helper that listens there.
    Socket(PathBuf),
}

/// How storage is set up.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where the block trace comes from.
    pub helper: HelperMode,
    /// Bytes of a large read. 2 MiB is what a 7200 rpm disk transfers in the time of one positioning
    /// (12 ms at 160 MB/s): 77 to 100 streams of 8 Mbit/s per disk, against 10 with 128 KiB; twice as much
    /// gains little and doubles the wait before the first byte.
    pub read_chunk_bytes: u32,
    /// Our own binary, for [`HelperMode::Auto`].
    pub helper_program: Option<PathBuf>,
    /// Whether streams are recorded. Off: no ledger, no trace, no recorder, and [`Storage::record`] gives nothing; a helper that is
    /// started answers questions alone.
    pub record: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self { helper: HelperMode::Auto, read_chunk_bytes: 2 << 20, helper_program: None, record: true }
    }
}

/// One read of a worker process, as it reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerRead {
    /// Kernel thread id.
    pub tid: u32,
    /// First byte in the file.
    pub offset: u64,
    /// Bytes read.
    pub len_bytes: u32,
    /// Difference of `ru_inblock` over the call, times 512.
    pub inblock_bytes: u64,
    /// `CLOCK_MONOTONIC` before the call.
    pub start_us: u64,
    /// And after it.
    pub end_us: u64,
}

/// See the crate. Cheap to clone.
#[derive(Clone)]
pub struct Storage(Arc<Inner>);

struct Inner {
    clock: SharedClock,
    chunk_bytes: u32,
    devices: Devices,
    files: Mutex<HashMap<FileIdentity, Weak<FileState>>, 41>,
    streams: Mutex<HashMap<StreamId, Arc<StreamShared>>, 42>,
    mapper: Mapper,
    ledger: Ledger,
    trace: Trace,
    rates: Arc<Mutex<Vec<DiskRate>, 47>>,
    notices: Notices,
    recorder: Mutex<Option<JoinHandle<()>>, 48>,
    watch: Watch,
}

impl std::fmt::Debug for Storage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Storage")
    }
}

/// The affinity of what is asked about files rather than read of them: no stream has this id, and together they may occupy as
/// many threads of a disk that hangs as one stream.
const QUESTIONS: u64 = u64::MAX;

/// How long `close` waits for reads under way.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);
/// How long a question to the recorder may take.
const ANSWER_PATIENCE: Duration = Duration::from_secs(2);

impl Storage {
    /// Starts the recorder and the trace. Needs no runtime. Without any privilege it starts all the same,
    /// and [`Storage::attribution`] says what is missing.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn start(config: Config, clock: SharedClock) -> Result<Storage, StorageError> {
        let rates = Arc::new(Mutex::new(Vec::new()));
        let notices = Notices::default();
        let (ledger, recorder) = if config.record {
            let (tx, rx) = notes::queue(ledger::QUEUE);
            let ledger = Ledger::new(tx);
            let recorder = Recorder::new(
                Arc::clone(&clock),
                ledger.clone(),
                Arc::clone(&rates),
                Arc::clone(&notices),
                "the block trace has not started yet".to_owned(),
            );
            let thread = thread::Builder::new()
                .name("io-recorder".to_owned())
                .spawn(move || recorder.run(rx))
                .map_err(|source| StorageError::Thread { name: "io-recorder".to_owned(), source })?;
            (ledger, Some(thread))
        } else {
            (Ledger::off(), None)
        };
        let trace = Trace::start(&config, ledger.clone(), Arc::clone(&clock));
        let roots = Roots::system(Look::Cached);
        let by_trace = ByTrace(trace.clone());
        let watch = Watch::new(roots, Box::new(by_trace.clone()), Arc::new(by_trace), Arc::clone(&clock));
        Ok(Storage(Arc::new(Inner {
            clock,
            // Below 64 KiB a read is all positioning; above 16 MiB it blocks the other streams of a disk.
            chunk_bytes: config.read_chunk_bytes.clamp(64 << 10, 16 << 20),
            devices: Devices::default(),
            files: Mutex::default(),
            streams: Mutex::default(),
            mapper: Mapper::default(),
            ledger,
            trace,
            rates,
            notices,
            recorder: Mutex::new(recorder),
            watch,
        })))
    }

    /// Refuses new reads, waits for those under way (at most 5 s a device: a dead disk is left behind),
    /// ends the helper and the recorder.
    pub fn close(&self) {
        for device in self.0.devices.all() {
            if !device.pool.close(CLOSE_PATIENCE) {
                tracing::warn!("a read did not end; its thread is left behind");
            }
        }
        self.0.watch.close();
        self.0.trace.close();
        self.0.ledger.tell(Note::Close);
        let thread = self.0.recorder.lock().take();
        if thread.is_some_and(|t| t.join().is_err()) {
            tracing::error!("the recorder had panicked");
        }
    }

    /// Whether streams are recorded at all.
    #[must_use]
    pub fn records(&self) -> bool {
        self.0.ledger.is_on()
    }

    /// How bytes are ascribed to disks at the moment.
    #[must_use]
    pub fn attribution(&self) -> Attribution {
        if !self.records() {
            let why = Some("recording is switched off in the configuration (storage.record)".to_owned());
            return Attribution { mode: AttributionMode::None, why };
        }
        match self.0.trace.status() {
            Ok(()) => Attribution { mode: AttributionMode::BlockTrace, why: None },
            Err(why) => Attribution { mode: AttributionMode::SampledMap, why: Some(why) },
        }
    }

    /// Opens a regular file for one stream, on the reader threads of its filesystem.
    ///
    /// # Errors
    /// If it is not there, not readable, not a regular file, or the device's queue is full.
    pub async fn open(&self, path: &Path, stream: StreamId) -> Result<MediaFile, StorageError> {
        let mount = mount_by_name(path)?;
        let device = self.0.devices.of(&mount)?;
        let mut opening = Opens { path: path.to_owned(), at: path.to_owned(), identity: None };
        let mut device = device;
        // A view of another filesystem (mergerfs, Unraid) is never read through: every byte would be in memory twice,
        // and the view's process, not the reader, would be seen at the disks.
        if through::is_view(&mount) {
            let (tx, rx) = oneshot::channel();
            let at = opening.at.clone();
            device.pool.submit(Job::answering(stream.0, tx, move |_| behind(&at)))?;
            if let Some((at, identity)) = rx.await.map_err(|_| StorageError::Closed)?? {
                device = self.0.devices.of(&mount_by_name(&at)?)?;
                opening = Opens { at, identity: Some(identity), ..opening };
            }
        }
        let (tx, rx) = oneshot::channel();
        let inner = Arc::clone(&self.0);
        device.pool.submit(Job::answering(stream.0, tx, move |lane| inner.open(lane, opening, stream)))?;
        rx.await.map_err(|_| StorageError::Closed)?
    }

    /// As [`Storage::layout_with`], on the reader threads of the file's filesystem: one that hangs holds up questions about
    /// its own files, and no more threads than it has.
    ///
    /// # Errors
    /// As [`Storage::layout_with`], and if the device's queue is full.
    pub async fn layout_of(&self, path: &Path, options: LayoutOptions) -> Result<Layout, StorageError> {
        let device = self.0.devices.of(&mount_by_name(path)?)?;
        let (tx, rx) = oneshot::channel();
        let (storage, path) = (self.clone(), path.to_owned());
        device.pool.submit(Job::answering(QUESTIONS, tx, move |_| storage.layout_with(&path, &options)))?;
        rx.await.map_err(|_| StorageError::Closed)?
    }

    /// Begins the record of a stream. A stream that was not begun is served and not recorded.
    pub fn begin(&self, stream: StreamId) {
        if !self.records() {
            return;
        }
        let shared = Arc::new(StreamShared::default());
        self.0.streams.lock().insert(stream, Arc::clone(&shared));
        self.0.ledger.tell(Note::Begin { stream, shared });
    }

    /// The record as it is now. With the trace it is a fifth of a second behind. Waits for the recorder,
    /// usually for microseconds.
    #[must_use]
    pub fn record(&self, stream: StreamId) -> Option<IoRecord> {
        self.ask(stream, false)
    }

    /// The last record; the stream is forgotten. Waits until the trace has told everything so far, usually a
    /// few milliseconds, at most a quarter of a second: call it where that is allowed.
    #[must_use]
    pub fn end(&self, stream: StreamId) -> Option<IoRecord> {
        if !self.records() {
            return None;
        }
        self.0.trace.flush();
        self.0.streams.lock().remove(&stream);
        self.ask(stream, true)
    }

    fn ask(&self, stream: StreamId, ends: bool) -> Option<IoRecord> {
        let (answer, answered) = mpsc::sync_channel(1);
        if !self.0.ledger.tell(Note::Query { stream, ends, answer }) {
            return None;
        }
        answered.recv_timeout(ANSWER_PATIENCE).ok().flatten()
    }

    /// A process that reads for a stream: all of its threads are counted for it.
    pub fn note_worker(&self, stream: StreamId, pid: u32) {
        self.0.ledger.tell(Note::Worker { stream, pid });
    }

    /// What a worker has read of a file, by its own account.
    pub fn worker_reads(&self, stream: StreamId, file: &MediaFile, rows: &[WorkerRead]) {
        if !self.records() {
            return;
        }
        for r in rows {
            let Some(range) = ByteRange::of_len(r.offset, u64::from(r.len_bytes)) else { continue };
            let placed = file.state().note_foreign_read(range, r.inblock_bytes);
            self.0.ledger.row(Row {
                kind: RowKind::Worker,
                tid: r.tid,
                stream,
                file: Arc::clone(file.state()),
                range,
                inblock_bytes: r.inblock_bytes,
                fetched: placed.ranges,
                queued_us: r.start_us,
                start_us: r.start_us,
                end_us: r.end_us,
            });
        }
    }

    /// A wait of the viewer that someone else saw: a player's buffer that ran dry, a worker too slow.
    pub fn note_stall(&self, stream: StreamId, at_us: u64, duration: Duration, cause: &str) {
        let duration_us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.0.ledger.tell(Note::Stall { stream, at_us, duration_us, cause: cause.to_owned() });
    }

    /// The volume under a path. Blocking: looks up the path.
    ///
    /// # Errors
    /// If the path is not there, or `/proc` is not mounted. A volume of an unknown kind is no error.
    pub fn topology(&self, path: &Path) -> Result<Topology, StorageError> {
        let by_trace = ByTrace(self.0.trace.clone());
        let asker: Arc<dyn AskDisk> = Arc::new(by_trace.clone());
        Ok(topology_of(path, &by_trace)?.with_a_look_at_disks(&asker))
    }

    /// The volume under a path as it was last seen, with what its disks do now: for a page. Asks no disk and no
    /// filesystem for anything but the first time, and then only as far as names are in memory. Blocks at most three
    /// seconds.
    #[must_use]
    pub fn known_volume(&self, path: &Path) -> KnownVolume {
        self.0.watch.volume(path)
    }

    /// What the disks of all volumes do that `known_volume` was asked for: rates, asleep or not, temperature, health.
    #[must_use]
    pub fn disk_figures(&self) -> Vec<DiskFigures> {
        self.0.watch.figures()
    }

    /// Which disk holds which bytes of a file. Blocking: reads the file's extents.
    ///
    /// # Errors
    /// If the file cannot be opened. Where the layout is not known the answer says so.
    pub fn layout(&self, path: &Path) -> Result<Layout, StorageError> {
        self.layout_with(path, &LayoutOptions::default())
    }

    /// As [`Storage::layout`], with options.
    ///
    /// # Errors
    /// As there.
    pub fn layout_with(&self, path: &Path, options: &LayoutOptions) -> Result<Layout, StorageError> {
        let asked = path;
        through::followed(path, |path, mount, fd, identity, via| {
            let device = self.0.devices.of_open(mount, fd)?;
            // A page asks at every start of a film: zdb, which loads the whole pool, is not run again for what it said, nor
            // beside the run that whoever plays the film waits for.
            let is_slow = device.has_own_threads() && options.through_loops == 0;
            let slow = is_slow.then(|| {
                let identity = as_opened(asked, identity);
                self.0.file_state(fd, identity, Arc::clone(&device))
            });
            let known = slow.as_ref().and_then(|s| self.0.mapper.answer(s, fd, &self.0.trace));
            let mut layout = device.layout((fd, asked, identity.size_bytes), options, known, &self.0.trace);
            layout.via = via.then(|| path.to_owned());
            Ok(layout)
        })
    }

    /// Reads every byte of a file from the disks at the places that the layout names, and compares. Root only: it opens the
    /// disks. Blocking, as long as reading every copy of the file takes.
    ///
    /// # Errors
    /// If the file cannot be opened, its layout is not known, or a disk cannot be read.
    pub fn verify_layout(&self, path: &Path, options: &LayoutOptions) -> Result<Verified, StorageError> {
        through::followed(path, |path, mount, fd, identity, _| {
            let device = self.0.devices.of_open(mount, fd)?;
            device
                .verify((fd, identity.size_bytes), options, &self.0.trace)
                .map_err(|what| StorageError::Topology { path: path.to_owned(), what })
        })
    }

    /// Drops what is in memory of a file, so that the next reader makes its disks read; no other file is touched. Gives how
    /// many bytes stay all the same, `None` where nobody tells. Blocking.
    ///
    /// # Errors
    /// If the file cannot be opened, or its filesystem takes no advice.
    pub fn drop_from_memory(&self, path: &Path) -> Result<Option<u64>, StorageError> {
        through::followed(path, |path, _, fd, identity, _| {
            cached::drop_pages(fd, identity.size_bytes)
                .map_err(|source| StorageError::Open { path: path.to_owned(), source })
        })
    }

    /// What happened to disks since this was last asked: the oldest first, each once.
    #[must_use]
    pub fn take_notices(&self) -> Vec<Notice> {
        self.0.notices.lock().drain(..).collect()
    }

    /// What the disks of every filesystem in use do, by their own counters, as of the last second.
    #[must_use]
    pub fn disk_rates(&self) -> Vec<DiskRate> {
        self.0.rates.lock().clone()
    }
}

/// A file to be opened.
struct Opens {
    /// As it was asked for.
    path: PathBuf,
    /// Where it is read: the same, or what that is a view of.
    at: PathBuf,
    /// Of the view.
    identity: Option<FileIdentity>,
}

/// What a file is a view of, and which file the view says that it is. `None`: it does not tell, or not this one; then
/// it is read as it is.
fn behind(path: &Path) -> Result<Option<(PathBuf, FileIdentity)>, StorageError> {
    let (_view, identity) = reader::look_at(path)?;
    through::followed(path, |at, _, _, its, is_other| {
        let is_same = its.size_bytes == identity.size_bytes && its.modified_us == identity.modified_us;
        Ok((is_other && is_same).then(|| (at.to_owned(), identity)))
    })
}

/// What the file that `path` leads to, of this identity, is known as once it is open: a view says which file it is.
fn as_opened(path: &Path, identity: FileIdentity) -> FileIdentity {
    let is_view = mount_by_name(path).is_ok_and(|m| through::is_view(&m));
    match is_view.then(|| behind(path)) {
        Some(Ok(Some((_, view)))) => view,
        _ => identity,
    }
}

impl Inner {
    /// On a reader thread.
    fn open(&self, lane: &mut Lane<'_>, opens: Opens, stream: StreamId) -> Result<MediaFile, StorageError> {
        let Opens { path, at, identity: known } = opens;
        let mut queued_us = self.clock.monotonic_us();
        let mut before = sys::thread_inblock_bytes();
        let (fd, identity) = reader::open_regular(&at)?;
        let mount = mount_of(fd.as_fd(), &at)?;
        // By its name it was on another filesystem: a link led to a view.
        if known.is_none()
            && through::is_view(&mount)
            && let Some((at, identity)) = behind(&at)?
        {
            return self.open(lane, Opens { path, at, identity: Some(identity) }, stream);
        }
        let device = self.devices.of_open(&mount, fd.as_fd())?;
        // To everybody else it stays the file that was asked for.
        let identity = known.unwrap_or(identity);
        // Resolved, and watched, before its first byte is read.
        if device.known_plan().is_none() {
            device.plan(fd.as_fd(), &self.trace);
            if let Some(members) = btrfs_members(&mount, fd.as_fd()) {
                self.ledger.tell(Note::Members(members));
            }
            // What the first look-up read was before the trace of these disks.
            queued_us = self.clock.monotonic_us();
            before = sys::thread_inblock_bytes();
        }
        let state = self.file_state(fd.as_fd(), identity, device);
        // A scan that opens every file has no record for a map to serve; nor has one whose requests are not seen.
        let is_traced = stream != StreamId::BACKGROUND && self.trace.status().is_ok();
        if self.ledger.is_on() && is_traced && state.device.has_own_threads() {
            self.mapper.make(&state, &fd, &self.trace);
        }
        reader::without_read_ahead(&fd);
        let shared = self.streams.lock().get(&stream).cloned().unwrap_or_default();
        let opening = Opening {
            stream,
            shared,
            ledger: self.ledger.clone(),
            clock: Arc::clone(&self.clock),
            chunk_bytes: self.chunk_bytes,
        };
        self.ledger.row(Row {
            kind: RowKind::Open,
            tid: lane.tid,
            stream,
            file: Arc::clone(&state),
            range: ByteRange::of_len(0, 0).expect("nothing at 0 does not overflow"),
            inblock_bytes: sys::thread_inblock_bytes() - before,
            fetched: Vec::new(),
            queued_us,
            start_us: queued_us,
            end_us: self.clock.monotonic_us(),
        });
        Ok(MediaFile::new(fd, path, state, opening))
    }

    fn file_state(&self, fd: BorrowedFd<'_>, identity: FileIdentity, device: Arc<Device>) -> Arc<FileState> {
        let known = self.files.lock().get(&identity).and_then(Weak::upgrade);
        // Numbers are used again after an unmount: the device must be the same, too.
        if let Some(state) = known.filter(|s| Arc::ptr_eq(&s.device, &device)) {
            return state;
        }
        // Outside the lock: it may wait for a disk. Two at once do it twice, the first one stays.
        let map = if device.has_own_threads() {
            None
        } else if self.ledger.is_on() {
            Some(device.map_file(fd, &self.trace, false))
        } else {
            Some(Err("recording is switched off".to_owned()))
        };
        let mut files = self.files.lock();
        if let Some(state) =
            files.get(&identity).and_then(Weak::upgrade).filter(|s| Arc::ptr_eq(&s.device, &device))
        {
            return state;
        }
        files.retain(|_, s| s.strong_count() > 0);
        let state = Arc::new(FileState::new(identity, device, map));
        files.insert(identity, Arc::downgrade(&state));
        drop(files);
        self.ledger.tell(Note::Opened(Arc::downgrade(&state)));
        state
    }
}

/// The disk under each device of the btrfs that `fd` is on.
fn btrfs_members(mount: &Mount, fd: BorrowedFd<'_>) -> Option<Members> {
    let info = (mount.kind == "btrfs").then(|| sys::btrfs::fs_info(fd).ok())??;
    let sys_tree = Sysfs::system();
    let disk = |path: String| {
        let name = path.rsplit('/').next().unwrap_or_default().to_owned();
        let dir = sys_tree.by_name(&name)?;
        Some(Arc::from(Sysfs::on_disk(&dir).map_or(name, |on| on.disk)))
    };
    let of = |devid: u64| Some((devid, disk(sys::btrfs::device_path(fd, devid).ok()??)?));
    Some(Members { disks: (1..=info.max_devid.min(4096)).filter_map(of).collect(), fsid: info.fsid })
}

fn mount_table(path: &Path) -> Result<Vec<Mount>, StorageError> {
    let text = std::fs::read_to_string("/proc/self/mountinfo").map_err(|e| StorageError::Topology {
        path: path.to_owned(),
        what: format!("/proc/self/mountinfo: {e}"),
    })?;
    Ok(mounts::parse(&text))
}

/// The mount of a path by its name: which threads may wait for it. No disk is asked.
fn mount_by_name(path: &Path) -> Result<Mount, StorageError> {
    let table = mount_table(path)?;
    // Below a changed root (chroot) its own mount is not listed. Then nothing is known by name, and all such files
    // share one set of threads.
    Ok(mounts::of_path(&table, path).cloned().unwrap_or_else(|| Mount {
        id: 0,
        device: (0, 0),
        root: "/".into(),
        mount_point: "/".into(),
        kind: "unknown".to_owned(),
        source: "unlisted".to_owned(),
        ..Mount::default()
    }))
}

/// The mount that an open file is on.
pub(crate) fn mount_of(fd: BorrowedFd<'_>, path: &Path) -> Result<Mount, StorageError> {
    let failed = |what: String| StorageError::Topology { path: path.to_owned(), what };
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.as_raw_fd()))
        .map_err(|e| failed(format!("/proc/self/fdinfo: {e}")))?;
    let id: Option<u64> = info.lines().find_map(|l| l.strip_prefix("mnt_id:")?.trim().parse().ok());
    let table = mount_table(path)?;
    match table.into_iter().find(|m| Some(m.id) == id) {
        Some(mount) => Ok(mount),
        None => mount_of_unlisted(fd, path),
    }
}

/// What the file itself tells of a mount that `/proc/self/mountinfo` does not list, as below a changed root: its
/// device, which is the block device for ext4 and xfs, and the kind of filesystem by its magic number
/// (include/uapi/linux/magic.h; xfs: fs/xfs/libxfs/xfs_format.h).
pub(crate) fn mount_of_unlisted(fd: BorrowedFd<'_>, path: &Path) -> Result<Mount, StorageError> {
    let failed = |e: rustix::io::Errno| StorageError::Topology {
        path: path.to_owned(),
        what: format!("its mount is not in /proc/self/mountinfo, and the file does not tell: {e}"),
    };
    let stat = rustix::fs::fstat(fd).map_err(failed)?;
    let kind = match rustix::fs::fstatfs(fd).map_err(failed)?.f_type {
        0xef53 => "ext4",
        0x5846_5342 => "xfs",
        0x9123_683e => "btrfs",
        0x6969 => "nfs",
        0x2fc1_2fc1 => "zfs",
        0xff53_4d42 => "cifs",
        0x6573_5546 => "fuse",
        _ => "unknown",
    };
    Ok(Mount {
        id: 0,
        device: (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev)),
        mount_point: highest_on(stat.st_dev, path),
        root: "/".into(),
        kind: kind.to_owned(),
        source: "unlisted".to_owned(),
        ..Mount::default()
    })
}

/// The highest folder above a path that is on the same device: where it is mounted, as far as names tell. The path itself where
/// they do not.
fn highest_on(dev: u64, path: &Path) -> PathBuf {
    use std::os::unix::fs::MetadataExt as _;
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let is_on = |at: &&Path| std::fs::metadata(at).is_ok_and(|m| m.dev() == dev);
    real.ancestors().take_while(is_on).last().unwrap_or(&real).to_owned()
}

fn topology_of(path: &Path, ask: &ByTrace) -> Result<Topology, StorageError> {
    use rustix::fs::{Mode, OFlags};
    let failed = |e: rustix::io::Errno| StorageError::Open { path: path.to_owned(), source: e.into() };
    // O_PATH: the name is looked up, nothing is opened, no disk is woken for its contents.
    let fd = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(failed)?;
    // Without /proc the file itself still tells its device and kind.
    let mount = mount_of(fd.as_fd(), path).or_else(|_| mount_of_unlisted(fd.as_fd(), path))?;
    let is_file =
        rustix::fs::fstat(&fd).is_ok_and(|s| rustix::fs::FileType::from_raw_mode(s.st_mode).is_file());
    let real =
        std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).unwrap_or_else(|_| path.to_owned());
    let roots = Roots::system(Look::Open);
    Ok(topology::describe(&roots, ask, &mount, path, &real, is_file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_tells_of_its_mount_agrees_with_the_table() {
        let path = std::env::current_exe().unwrap();
        let file = std::fs::File::open(&path).unwrap();
        let listed = mount_of(file.as_fd(), &path).unwrap();
        let told = mount_of_unlisted(file.as_fd(), &path).unwrap();
        if matches!(listed.kind.as_str(), "ext4" | "xfs") {
            assert_eq!((told.device, told.kind.as_str()), (listed.device, listed.kind.as_str()));
        } else {
            assert!(told.kind == listed.kind || told.kind == "unknown", "{told:?} {listed:?}");
        }
    }

    #[test]
    fn files_of_one_filesystem_have_one_mount_also_where_it_is_not_listed() {
        use std::os::unix::fs::MetadataExt as _;
        let folder = tempfile::tempdir().unwrap();
        let mut mounts = Vec::new();
        for name in ["a", "b"] {
            let path = folder.path().join(name).join("film");
            std::fs::create_dir(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "x").unwrap();
            let file = std::fs::File::open(&path).unwrap();
            mounts.push(mount_of_unlisted(file.as_fd(), &path).unwrap());
        }
        let top = &mounts[0].mount_point;
        assert_eq!(top, &mounts[1].mount_point);
        let dev = |p: &Path| std::fs::metadata(p).unwrap().dev();
        assert!(folder.path().canonicalize().unwrap().starts_with(top) && dev(top) == dev(folder.path()));
        assert!(top.parent().is_none_or(|above| dev(above) != dev(top)), "{}", top.display());
    }

    #[test]
    fn a_path_below_no_listed_mount_still_has_threads_to_wait_for_it() {
        let mount = mount_by_name(Path::new("relative/and/nowhere")).unwrap();
        assert_eq!((mount.device, mount.kind.as_str()), ((0, 0), "unknown"));
    }

    /// How often this process has `path` open.
    fn times_open(path: &Path) -> usize {
        let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        open.filter(|e| std::fs::read_link(e.path()).is_ok_and(|p| p == path)).count()
    }

    #[tokio::test]
    async fn whoever_lets_a_file_go_does_not_close_it() {
        use crate::pool::{Job, THREADS};
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("film");
        std::fs::write(&path, [7; 9000]).unwrap();
        let storage = Storage::start(
            Config { helper: HelperMode::Off, ..Config::default() },
            Arc::new(spindle_base::clock::SystemClock),
        )
        .unwrap();
        let file = storage.open(&path, StreamId(1)).await.unwrap();
        let for_worker = file.open_again().await.unwrap();
        assert_eq!(times_open(&path), 2);
        // As a mount that hangs does: nothing that is asked of it comes to an end.
        let (hold, held) = std::sync::mpsc::channel::<()>();
        let held = Arc::new(std::sync::Mutex::new(held));
        let pool = file.state().device.pool.clone();
        let (started, starts) = std::sync::mpsc::channel();
        for n in 0..THREADS as u64 {
            let (held, started) = (Arc::clone(&held), started.clone());
            let hang = Job::always(n, move |_| {
                started.send(()).unwrap();
                let _over = held.lock().unwrap().recv();
            });
            pool.submit(hang).unwrap();
        }
        (0..THREADS).for_each(|_| starts.recv_timeout(std::time::Duration::from_secs(60)).unwrap());
        drop(for_worker);
        drop(file);
        assert_eq!(times_open(&path), 2, "it was closed here");
        drop(hold);
        for _ in 0..6000 {
            if times_open(&path) == 0 {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("it stays open");
    }
}
