//! What a worker reads, told to the recorder under the right session.
//!
//! Sessions that want the same rendition share its workers. A read belongs to the session that
//! made the kernel fetch the bytes; a worker reads for all of its sessions, so its reads are
//! booked on the one that has been there longest and is still there.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use spindle_base::sync::Mutex;
use spindle_storage::{MediaFile, Storage, StreamId};
use spindle_transcode::{BoxFuture, Input, InputFile, RenditionKey, WorkerRead};

/// Every rendition's input, as long as a session uses it.
pub(super) struct SharedInputs {
    storage: Storage,
    by_key: Mutex<HashMap<RenditionKey, Weak<WorkerInput>>, 50>,
    /// Keeps the inputs of a session alive.
    by_stream: Mutex<HashMap<StreamId, Vec<Arc<WorkerInput>>>, 51>,
}

/// The input of one rendition.
pub(super) struct WorkerInput {
    storage: Storage,
    file: MediaFile,
    streams: Mutex<Streams, 52>,
}

#[derive(Default)]
struct Streams {
    /// In order of arrival.
    present: Vec<StreamId>,
    /// Workers that were started, so that a session that inherits them is told.
    pids: Vec<u32>,
}

impl SharedInputs {
    pub(super) fn new(storage: Storage) -> Self {
        Self { storage, by_key: Mutex::default(), by_stream: Mutex::default() }
    }

    /// The input of `key`, with `stream` among those that it reads for.
    pub(super) fn join(&self, key: RenditionKey, file: &MediaFile, stream: StreamId) -> Arc<WorkerInput> {
        let input = {
            let mut by_key = self.by_key.lock();
            by_key.retain(|_, weak| weak.strong_count() > 0);
            by_key.get(&key).and_then(Weak::upgrade).unwrap_or_else(|| {
                let input = Arc::new(WorkerInput {
                    storage: self.storage.clone(),
                    file: file.clone(),
                    streams: Mutex::default(),
                });
                by_key.insert(key, Arc::downgrade(&input));
                input
            })
        };
        self.by_stream.lock().entry(stream).or_default().push(Arc::clone(&input));
        input.streams.lock().present.push(stream);
        input
    }

    /// `stream` has ended.
    pub(super) fn leave(&self, stream: StreamId) {
        let inputs = self.by_stream.lock().remove(&stream).unwrap_or_default();
        for input in inputs {
            let heir = {
                let mut streams = input.streams.lock();
                let was_first = streams.present.first() == Some(&stream);
                streams.present.retain(|s| *s != stream);
                let next = streams.present.first().copied();
                next.filter(|_| was_first).map(|s| (s, streams.pids.clone()))
            };
            if let Some((next, pids)) = heir {
                for pid in pids {
                    self.storage.note_worker(next, pid);
                }
            }
        }
    }
}

impl WorkerInput {
    fn stream(&self) -> StreamId {
        let streams = self.streams.lock();
        streams.present.first().copied().unwrap_or(StreamId::BACKGROUND)
    }
}

impl Input for WorkerInput {
    fn open(&self) -> BoxFuture<'_, std::io::Result<InputFile>> {
        Box::pin(async {
            let opened = self.file.open_again().await;
            opened.map(|file| Box::new(file) as InputFile).map_err(std::io::Error::other)
        })
    }

    fn worker_started(&self, pid: u32) {
        let stream = {
            let mut streams = self.streams.lock();
            streams.pids.push(pid);
            // A rendition starts a worker on a far seek; the old ones are long gone.
            if streams.pids.len() > 64 {
                streams.pids.remove(0);
            }
            streams.present.first().copied()
        };
        self.storage.note_worker(stream.unwrap_or(StreamId::BACKGROUND), pid);
    }

    fn reads(&self, rows: Vec<WorkerRead>) {
        let rows: Vec<spindle_storage::WorkerRead> = rows
            .into_iter()
            .map(|row| spindle_storage::WorkerRead {
                tid: row.tid,
                offset: row.offset,
                len_bytes: row.len_bytes,
                inblock_bytes: row.inblock_bytes,
                start_us: row.start_us,
                end_us: row.end_us,
            })
            .collect();
        self.storage.worker_reads(self.stream(), &self.file, &rows);
    }
}
