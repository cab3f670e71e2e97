//! Maps that take long to make: of files on ZFS, for which `zdb` loads the pool. They are made one after the other on a thread
//! that lives while there are any, so that nobody who opens a file waits for its map.

use std::collections::VecDeque;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, Weak};

use spindle_base::sync::Mutex;

use crate::file::FileState;
use crate::trace::Trace;

/// Files that wait for their map; more were opened by somebody who plays none of them.
const MAX_WAITING: usize = 256;
/// Maps that are kept although nobody has the file open, by the bytes of the films that they are of: with records of 128 KiB
/// some 50 MiB. A file that is written to is another one, by its times, and nothing of ZFS moves in its place.
const MAX_KEPT: usize = 32;
const MAX_KEPT_BYTES: u64 = 100 << 30;

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
                    let map = file.device.map_file(fd.as_fd(), &trace, false);
                    tracing::debug!(inode = file.identity.ino, why = ?map.as_ref().err(), "zdb was asked for the map of a file");
                    file.set_map(map);
                    keep(&queue, file);
                }
            }
        };
        if let Err(e) = std::thread::Builder::new().name("file-maps".to_owned()).spawn(run) {
            self.0.lock().is_running = false;
            file.set_map(Err(format!("unable to start the thread of maps: {e}")));
        }
    }
}

fn keep(queue: &Mutex<Queue, 55>, file: Arc<FileState>) {
    if !file.map().is_some_and(Result::is_ok) {
        return;
    }
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
