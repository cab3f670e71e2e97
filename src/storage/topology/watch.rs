//! What a page shows of the volumes: remembered, with its age. A page view asks no disk and no filesystem for anything.
//!
//! One thread looks once a second: at the counters of the disks (memory of the kernel), and whether the mount table or the set
//! of devices has changed (`poll` on mountinfo, the kernel's uevents). Then, and every few seconds while somebody looks,
//! the trees are read anew, each on a thread of its own: a pool or disk that hangs keeps its old figures and holds up nobody.

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use spindle_base::clock::SharedClock;
use spindle_base::sync::Mutex;

use super::ask::Ask;
use super::figures::{self, AskDisk, DiskFigures, Watched, seconds};
use super::node::Topology;
use super::roots::Roots;
use super::stack::Builder;

/// How long a page waits for a volume that it sees for the first time.
const PATIENCE: Duration = Duration::from_secs(3);
/// Trees are read anew this often while somebody looks: a rebuild moves on, a disk fails.
const FRESH_US: u64 = 5_000_000;
/// And this often in any case.
const STALE_US: u64 = 300_000_000;
/// Somebody looks if the last page view was within this time.
const LOOKED_US: u64 = 30_000_000;
/// Counters are read every second while somebody looks, else this often: often enough to know how long a disk was quiet.
const UNLOOKED_TICKS: u64 = 15;
/// `zpool` is a program: its answer is used for so long.
const ZPOOL_US: u64 = 30_000_000;
/// Volumes that are remembered; a server has as many as it has libraries.
const MAX_VOLUMES: usize = 1024;

/// A volume as it was last seen.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct KnownVolume {
    /// The volume down to its disks.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub topology: Option<Topology>,
    /// Why it could not be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Seconds since it was read.
    pub age_s: f64,
}

/// The memory.
#[derive(Clone)]
pub(crate) struct Watch(Arc<Shared>);

struct Shared {
    clock: SharedClock,
    roots: Roots,
    ask: Box<dyn Ask + Send + std::marker::Sync>,
    ask_disk: Arc<dyn AskDisk>,
    volumes: Mutex<HashMap<PathBuf, Volume>, 50>,
    disks: Mutex<HashMap<String, Watched>, 51>,
    zpool: Mutex<HashMap<String, Asked>, 53>,
    looked_us: AtomicU64,
    /// Dropped to end the thread.
    thread: Mutex<Option<(SyncSender<()>, JoinHandle<()>)>, 52>,
}

/// When a program was asked, and its answer.
type Asked = (u64, Result<String, String>);

#[derive(Default)]
struct Volume {
    seen: Option<(u64, Result<Topology, String>)>,
    /// The path without symbolic links, once it was looked up: it is not looked up on a disk again.
    real: Option<PathBuf>,
    is_read: bool,
    /// Who waits for the reading that is under way, whoever began it.
    waiting: Vec<SyncSender<()>>,
    is_stale: bool,
}

impl Watch {
    pub(crate) fn new(
        roots: Roots,
        ask: Box<dyn Ask + Send + std::marker::Sync>,
        ask_disk: Arc<dyn AskDisk>,
        clock: SharedClock,
    ) -> Self {
        Self(Arc::new(Shared {
            clock,
            roots,
            ask,
            ask_disk,
            volumes: Mutex::default(),
            disks: Mutex::default(),
            zpool: Mutex::default(),
            looked_us: AtomicU64::new(0),
            thread: Mutex::new(None),
        }))
    }

    /// A volume as last seen; the first time it is read, waiting at most three seconds.
    pub(crate) fn volume(&self, path: &Path) -> KnownVolume {
        let now_us = self.0.clock.monotonic_us();
        self.0.looked_us.store(now_us, Ordering::Relaxed);
        self.start();
        let is_new = {
            let mut volumes = self.0.volumes.lock();
            let is_full = volumes.len() >= MAX_VOLUMES && !volumes.contains_key(path);
            if is_full {
                return KnownVolume {
                    topology: None,
                    why: Some("too many volumes are watched".to_owned()),
                    age_s: 0.0,
                };
            }
            volumes.entry(path.to_owned()).or_default().seen.is_none()
        };
        if is_new {
            self.0.read(path, Some(PATIENCE));
        }
        let now_us = self.0.clock.monotonic_us();
        let seen = self.0.volumes.lock().get(path).and_then(|v| v.seen.clone());
        match seen {
            Some((at_us, Ok(topology))) => KnownVolume {
                topology: Some(self.0.with_figures(topology, now_us)),
                why: None,
                age_s: seconds(now_us.saturating_sub(at_us)),
            },
            Some((at_us, Err(why))) => {
                KnownVolume { topology: None, why: Some(why), age_s: seconds(now_us.saturating_sub(at_us)) }
            }
            None => KnownVolume {
                topology: None,
                why: Some("the filesystem has not answered yet".to_owned()),
                age_s: 0.0,
            },
        }
    }

    /// What the disks of all remembered volumes do.
    pub(crate) fn figures(&self) -> Vec<DiskFigures> {
        let now_us = self.0.clock.monotonic_us();
        let mut out: Vec<DiskFigures> = self.0.disks.lock().values().map(|d| d.figures(now_us)).collect();
        out.sort_by_key(|f| super::sysfs::natural(&f.rate.disk));
        out
    }

    /// Ends the thread and waits for it.
    pub(crate) fn close(&self) {
        let thread = self.0.thread.lock().take();
        if let Some((stop, thread)) = thread {
            drop(stop);
            if thread.join().is_err() {
                tracing::error!("the thread that watches volumes had panicked");
            }
        }
    }

    fn start(&self) {
        let mut thread = self.0.thread.lock();
        if thread.is_some() {
            return;
        }
        let (stop, stopped) = sync_channel(0);
        let shared = Arc::downgrade(&self.0);
        let run = move || run(&shared, &stopped);
        match thread::Builder::new().name("volumes".to_owned()).spawn(run) {
            Ok(handle) => *thread = Some((stop, handle)),
            Err(error) => tracing::warn!(%error, "unable to start the thread that watches volumes"),
        }
    }
}

fn run(shared: &Weak<Shared>, stopped: &Receiver<()>) {
    let changes = Changes::open();
    let mut tick = 0_u64;
    loop {
        {
            let Some(shared) = shared.upgrade() else { return };
            shared.tick(changes.any(), tick);
        }
        tick = tick.wrapping_add(1);
        match stopped.recv_timeout(Duration::from_secs(1)) {
            Err(RecvTimeoutError::Timeout) => {}
            _ => return,
        }
    }
}

impl Shared {
    fn tick(self: &Arc<Self>, has_changed: bool, tick: u64) {
        let now_us = self.clock.monotonic_us();
        let is_looked_at = now_us.saturating_sub(self.looked_us.load(Ordering::Relaxed)) < LOOKED_US;
        if has_changed {
            self.zpool.lock().clear();
        }
        let due: Vec<PathBuf> = {
            let mut volumes = self.volumes.lock();
            for volume in volumes.values_mut() {
                volume.is_stale |= has_changed;
            }
            let is_due = |v: &Volume| {
                let age = v.seen.as_ref().map_or(u64::MAX, |s| now_us.saturating_sub(s.0));
                !v.is_read && (v.is_stale || age >= STALE_US || (is_looked_at && age >= FRESH_US))
            };
            volumes.iter().filter(|(_, v)| is_due(v)).map(|(p, _)| p.clone()).collect()
        };
        for path in due {
            self.read(&path, None);
        }
        if is_looked_at || tick.is_multiple_of(UNLOOKED_TICKS) {
            self.sample(now_us);
        }
    }

    /// Has one volume read, on a thread of its own, and waits for it as long as `patience` lasts.
    fn read(self: &Arc<Self>, path: &Path, patience: Option<Duration>) {
        let (done, is_done) = sync_channel::<()>(1);
        let begins = {
            let mut volumes = self.volumes.lock();
            let volume = volumes.entry(path.to_owned()).or_default();
            if patience.is_some() {
                volume.waiting.push(done);
            }
            let begins = !std::mem::replace(&mut volume.is_read, true);
            volume.is_stale &= !begins;
            begins.then(|| volume.real.clone())
        };
        if let Some(real) = begins {
            self.begin(path, real);
        }
        if let Some(patience) = patience {
            // An error is a reading that could not begin.
            let _ = is_done.recv_timeout(patience);
        }
    }

    fn begin(self: &Arc<Self>, path: &Path, real: Option<PathBuf>) {
        let (shared, own) = (Arc::clone(self), path.to_owned());
        let work = move || {
            let found = shared.describe(&own, real.as_deref());
            let now_us = shared.clock.monotonic_us();
            let mut volumes = shared.volumes.lock();
            let volume = volumes.entry(own).or_default();
            volume.is_read = false;
            let waiting = std::mem::take(&mut volume.waiting);
            match found {
                Ok((topology, real)) => {
                    volume.real = real.or(volume.real.take());
                    volume.seen = Some((now_us, Ok(topology)));
                }
                Err(why) => volume.seen = Some((now_us, Err(why))),
            }
            drop(volumes);
            shared.sample(now_us);
            // Who has waited long enough has gone.
            for done in waiting {
                let _ = done.try_send(());
            }
        };
        if let Err(error) = thread::Builder::new().name("topology".to_owned()).spawn(work) {
            tracing::warn!(%error, "unable to start a thread for a volume");
            if let Some(volume) = self.volumes.lock().get_mut(path) {
                volume.is_read = false;
                volume.waiting.clear();
            }
        }
    }

    /// The tree, and the path without symbolic links where it could be looked up in memory.
    fn describe(&self, path: &Path, real: Option<&Path>) -> Result<(Topology, Option<PathBuf>), String> {
        let ask = Remembering { shared: self };
        let b = Builder::new(&self.roots, &ask);
        let found = self.roots.find(path).map_err(|e| e.to_string())?;
        let looked_up = found.mount_id.map(|_| found.path.clone());
        let at = looked_up.as_deref().or(real).unwrap_or(&found.path);
        let mount = b.mount_of(at, found.mount_id);
        let mount = mount.ok_or_else(|| "it is below no mount that is listed here".to_owned())?;
        Ok((super::describe(&self.roots, &ask, &mount, path, at, false), looked_up))
    }

    /// Reads the counters of every disk of every volume, and asks those that may be asked.
    fn sample(self: &Arc<Self>, now_us: u64) {
        let mut names = Vec::new();
        for volume in self.volumes.lock().values() {
            if let Some((_, Ok(topology))) = &volume.seen {
                names.extend(topology.disks.iter().cloned());
            }
        }
        names.sort();
        names.dedup();
        let sys = self.roots.sysfs();
        let mut questions = Vec::new();
        {
            let mut disks = self.disks.lock();
            disks.retain(|name, _| names.contains(name));
            for name in names {
                let Some(dir) = sys.by_name(&name) else { continue };
                let disk = disks.entry(name.clone()).or_insert_with(|| Watched::new(&dir, now_us));
                disk.sample(sys.counters(&name), figures::is_suspended(&dir), now_us);
                let wanted = disk.questions(now_us);
                if wanted != figures::Questions::default() {
                    disk.is_asked = true;
                    questions.push((name, dir, wanted));
                }
            }
        }
        for (name, dir, wanted) in questions {
            let shared = Arc::clone(self);
            let own = name.clone();
            let work = move || {
                let answers = figures::ask(&dir, shared.ask_disk.as_ref(), wanted);
                let now_us = shared.clock.monotonic_us();
                if let Some(disk) = shared.disks.lock().get_mut(&own) {
                    disk.answered(wanted, answers, now_us);
                }
            };
            if thread::Builder::new().name("disk-ask".to_owned()).spawn(work).is_err()
                && let Some(disk) = self.disks.lock().get_mut(&name)
            {
                disk.is_asked = false;
            }
        }
    }

    fn with_figures(&self, mut topology: Topology, now_us: u64) -> Topology {
        let disks = self.disks.lock();
        topology.node.visit_mut(&mut |n| {
            if let Some(watched) = disks.get(&n.name).filter(|_| n.is_disk()) {
                watched.add_to(&mut n.disk, now_us);
            }
        });
        drop(disks);
        super::finish(&topology.path, topology.filesystem, topology.node)
    }
}

/// Remembers what took a program to find out.
struct Remembering<'a> {
    shared: &'a Shared,
}

impl Ask for Remembering<'_> {
    fn dm_table(&self, device: (u32, u32)) -> Result<crate::sys::dm::Table, String> {
        self.shared.ask.dm_table(device)
    }

    fn zpool_status(&self, pool: &str) -> Result<String, String> {
        let now_us = self.shared.clock.monotonic_us();
        let known =
            self.shared.zpool.lock().get(pool).filter(|k| now_us.saturating_sub(k.0) < ZPOOL_US).cloned();
        if let Some((_, answer)) = known {
            return answer;
        }
        let answer = self.shared.ask.zpool_status(pool);
        let mut all = self.shared.zpool.lock();
        if all.len() < 256 {
            all.insert(pool.to_owned(), (now_us, answer.clone()));
        }
        answer
    }

    fn attribute(&self, path: &Path, name: &str) -> Result<Vec<u8>, String> {
        self.shared.ask.attribute(path, name)
    }
}

/// Whether mounts or devices have changed since last asked.
struct Changes {
    mounts: Option<File>,
    /// The kernel's uevents; a container without the host's network namespace hears none of them.
    devices: Option<OwnedFd>,
}

impl Changes {
    fn open() -> Self {
        use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, netlink, socket_with};
        let listen = || {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let fd =
                socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, Some(netlink::KOBJECT_UEVENT))?;
            // Group 1: the kernel's own; udev's are group 2.
            bind(&fd, &netlink::SocketAddrNetlink::new(0, 1))?;
            Ok::<OwnedFd, rustix::io::Errno>(fd)
        };
        Self { mounts: File::open("/proc/self/mountinfo").ok(), devices: listen().ok() }
    }

    fn any(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let has = |fd: std::os::fd::BorrowedFd<'_>, what: PollFlags| {
            let mut fds = [PollFd::from_borrowed_fd(fd, what)];
            poll(&mut fds, Some(&now)).is_ok() && fds[0].revents().intersects(what)
        };
        // proc(5): a change of mounts shows as POLLERR and POLLPRI, once.
        let mounts = self.mounts.as_ref().is_some_and(|f| has(f.as_fd(), PollFlags::PRI | PollFlags::ERR));
        let mut devices = false;
        if let Some(socket) = &self.devices {
            let mut message = [0_u8; 4096];
            // A burst of some thousands at most; what is left is heard a second later.
            for _ in 0..4096 {
                match rustix::net::recv(socket, &mut message[..], rustix::net::RecvFlags::empty()) {
                    Ok((_, n)) => devices |= is_block(message.get(..n).unwrap_or(&[])),
                    // Messages were lost.
                    Err(rustix::io::Errno::NOBUFS) => devices = true,
                    Err(_) => break,
                }
            }
        }
        mounts || devices
    }
}

/// `ACTION@PATH`, then `KEY=value` strings, each ended by a zero byte.
fn is_block(message: &[u8]) -> bool {
    message.split(|c| *c == 0).any(|w| w == b"SUBSYSTEM=block" || w == b"SUBSYSTEM=bdi")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uevents_of_block_devices_are_told_from_others() {
        assert!(is_block(b"change@/devices/virtual/block/md0\0ACTION=change\0SUBSYSTEM=block\0"));
        assert!(!is_block(b"add@/devices/usb\0SUBSYSTEM=usb\0"));
        assert!(!is_block(b""));
    }
}
