//! Maps that take long to make: of files on ZFS, for which `zdb` loads the pool. They are made one after the other on a thread
//! that lives while there are any, so that nobody who opens a file waits for its map.

use std::collections::VecDeque;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Weak};

use spindle_base::sync::Mutex;

use crate::file::FileState;
use crate::layout::FileMap;
use crate::trace::Trace;

/// Files that wait for their map; more were opened by somebody who plays none of them.
const MAX_WAITING: usize = 256;
/// Maps that are kept although nobody has the file open, by the bytes of the films that they are of: with records of 128 KiB
/// some 50 MiB. A file that is written to is another one, by its times, and nothing of ZFS moves in its place.
const MAX_KEPT: usize = 32;
const MAX_KEPT_BYTES: u64 = 100 << 30;

/// Where a file lies, or why that is not known.
pub(crate) type Known<'f> = Result<&'f FileMap, &'f String>;

/// See the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Mapper(Arc<Mutex<Queue, 55>>);

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<(Weak<FileState>, OwnedFd)>,
    is_running: bool,
    /// Whose maps are kept, the newest last: who plays a film plays it again.
    kept: VecDeque<Arc<FileState>>,
}

impl Mapper {
    /// Has the map made of a file that is open as `fd`, unless that was asked for before.
    pub(crate) fn make(&self, file: &Arc<FileState>, fd: &OwnedFd, trace: &Trace) {
        if !file.asks_for_map() {
            return;
        }
        let fd = match fd.try_clone() {
            Ok(fd) => fd,
            Err(e) => return file.set_map(Err(format!("no descriptor for its map is left: {e}"))),
        };
        {
            let mut queue = self.0.lock();
            if queue.waiting.len() >= MAX_WAITING {
                drop(queue);
                return file.set_map(Err("too many files wait for zdb".to_owned()));
            }
            queue.waiting.push_back((Arc::downgrade(file), fd));
            if queue.is_running {
                return;
            }
            queue.is_running = true;
        }
        let (queue, trace) = (Arc::clone(&self.0), trace.clone());
        let run = move || {
            while let Some((file, fd)) = next(&queue) {
                // One that nobody has open any more needs none.
                if let Some(file) = file.upgrade() {
                    let _ = made(&queue, &file, fd.as_fd(), &trace);
                }
            }
        };
        if let Err(e) = std::thread::Builder::new().name("file-maps".to_owned()).spawn(run) {
            self.0.lock().is_running = false;
            file.set_map(Err(format!("unable to start the thread of maps: {e}")));
        }
    }

    /// The map of a file that is open as `fd`, for who waits for it: the one that is there, the one that is just being made,
    /// or one that is made now. Blocking, as long as `zdb` takes. `None`: it was asked for before, and not known then; of a file
    /// that was new to its pool it may be now.
    pub(crate) fn answer<'f>(
        &self,
        file: &'f Arc<FileState>,
        fd: BorrowedFd<'_>,
        trace: &Trace,
    ) -> Option<Known<'f>> {
        if file.map().is_some_and(Result::is_err) {
            return None;
        }
        // Who opens it meanwhile need not queue for it.
        file.asks_for_map();
        Some(made(&self.0, file, fd, trace))
    }
}

/// Asks for a file's map, or waits for whoever does so; one that was made is kept.
fn made<'f>(
    queue: &Mutex<Queue, 55>,
    file: &'f Arc<FileState>,
    fd: BorrowedFd<'_>,
    trace: &Trace,
) -> Known<'f> {
    let (map, is_new) = file.map_or(|| file.device.map_file(fd, trace, false));
    if is_new {
        tracing::debug!(inode = file.identity.ino, why = ?map.as_ref().err(), "zdb was asked for the map of a file");
        if map.is_ok() {
            keep(queue, Arc::clone(file));
        }
    }
    map.as_ref()
}

fn keep(queue: &Mutex<Queue, 55>, file: Arc<FileState>) {
    let mut queue = queue.lock();
    queue.kept.push_back(file);
    while queue.kept.len() > MAX_KEPT
        || queue.kept.iter().map(|f| f.identity.size_bytes).sum::<u64>() > MAX_KEPT_BYTES
    {
        queue.kept.pop_front();
    }
}

fn next(queue: &Mutex<Queue, 55>) -> Option<(Weak<FileState>, OwnedFd)> {
    let mut queue = queue.lock();
    let next = queue.waiting.pop_front();
    queue.is_running = next.is_some();
    next
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::mpsc;

    use super::*;
    use crate::device::Device;
    use crate::file::FileIdentity;
    use crate::ledger::Ledger;
    use crate::map::Node;
    use crate::storage::{Config, HelperMode};
    use crate::sys::fiemap::Extents;
    use crate::topology::mounts::Mount;

    /// A file of a pool that is not there, so that whoever asks for its map is told so; and how it is open.
    fn file() -> (Arc<FileState>, OwnedFd, Trace) {
        let mount = Mount {
            id: 1,
            device: (0, 51),
            root: PathBuf::from("/"),
            mount_point: PathBuf::from("/no-such-pool"),
            kind: "zfs".to_owned(),
            source: "no-such-pool/films".to_owned(),
            options: "rw".to_owned(),
            stopped_writes: false,
        };
        let device = Arc::new(Device::start(mount).unwrap());
        let identity = FileIdentity { dev: 51, ino: 1, size_bytes: 1 << 20, modified_us: 0, changed_us: 0 };
        let config = Config { helper: HelperMode::Off, ..Config::default() };
        let trace = Trace::start(&config, Ledger::off(), Arc::new(spindle_base::clock::SystemClock));
        let fd = std::fs::File::open("/dev/null").unwrap().into();
        (Arc::new(FileState::new(identity, device, None)), fd, trace)
    }

    #[test]
    fn two_who_ask_for_a_map_at_once_share_one_answer() {
        let (file, fd, trace) = file();
        let (begun, begins) = mpsc::channel();
        let (other, comes) = mpsc::channel();
        let mapper = Mapper::default();
        std::thread::scope(|scope| {
            let its = &file;
            let first = scope.spawn(move || {
                its.map_or(|| {
                    begun.send(()).unwrap();
                    comes.recv().unwrap();
                    Ok(FileMap::new(Extents::default(), Arc::new(Node::Disk(0))))
                })
                .1
            });
            begins.recv().unwrap();
            // The film is opened and its page asks where it lies, while that is being found out.
            mapper.make(&file, &fd, &trace);
            assert!(file.waits_for_map());
            other.send(()).unwrap();
            // To ask anew would give an error: the pool is not there.
            assert!(mapper.answer(&file, fd.as_fd(), &trace).unwrap().is_ok());
            assert!(first.join().unwrap(), "the first one asked");
        });
        assert!(file.map().unwrap().is_ok());
    }

    #[test]
    fn one_answer_is_for_the_page_and_for_who_plays_and_an_unknown_place_is_asked_for_again() {
        let (file, fd, trace) = file();
        let mapper = Mapper::default();
        assert!(mapper.answer(&file, fd.as_fd(), &trace).unwrap().is_err());
        // Who opens it now has the answer, and nothing waits.
        mapper.make(&file, &fd, &trace);
        assert!(!file.waits_for_map() && mapper.0.lock().waiting.is_empty());
        assert!(mapper.answer(&file, fd.as_fd(), &trace).is_none(), "asked anew");
        assert!(mapper.0.lock().kept.is_empty(), "only a map is kept");
    }
}
