//! The recorder by its notes: what a record says of reads that no trace can tell of.
use std::fs::File;
use std::os::fd::AsFd;
use std::path::PathBuf;

use spindle_base::units::ByteRange;

use super::*;
use crate::device::Device;
use crate::file::FileIdentity;
use crate::notes;
use crate::storage::{Config, HelperMode};
use crate::topology::mounts::Mount;
use crate::trace::Trace;

const STREAM: StreamId = StreamId(7);

/// A file of an NFS server's, open and resolved; what it really is open on does not matter to a mount of that kind.
fn from_nfs() -> Arc<FileState> {
    let mount = Mount {
        id: 1,
        device: (0, 50),
        root: PathBuf::from("/"),
        mount_point: PathBuf::from("/films"),
        kind: "nfs4".to_owned(),
        source: "nas:/volume1/films".to_owned(),
        options: "rw".to_owned(),
        stopped_writes: false,
    };
    let device = Arc::new(Device::start(mount).unwrap());
    let config = Config { helper: HelperMode::Off, ..Config::default() };
    let trace = Trace::start(&config, Ledger::off(), Arc::new(spindle_base::clock::SystemClock));
    let any = File::open("/dev/null").unwrap();
    let map = device.map_file(any.as_fd(), &trace, false);
    let identity = FileIdentity { dev: 50, ino: 1, size_bytes: 1 << 20, modified_us: 0, changed_us: 0 };
    Arc::new(FileState::new(identity, device, Some(map)))
}

fn recorder() -> Recorder {
    let (sender, _) = notes::queue(8);
    let why = "the block trace has not started yet".to_owned();
    Recorder::new(
        Arc::new(spindle_base::clock::SystemClock),
        Ledger::new(sender),
        Arc::default(),
        Notices::default(),
        why,
    )
}

fn record(recorder: &mut Recorder) -> IoRecord {
    let (answer, told) = std::sync::mpsc::sync_channel(1);
    recorder.apply(Note::Query { stream: STREAM, ends: false, answer });
    told.try_recv().unwrap().unwrap()
}

/// What is read over the network is on no disk that a trace watches: where nothing else is watched, the trace never moves on, and the
/// reads must not wait for it, nor may the record say that a trace saw nothing.
#[test]
fn a_stream_from_over_the_network_has_no_disk_and_says_so_while_a_trace_runs() {
    let range = ByteRange::new(0, 1 << 20).unwrap();
    for inblock_bytes in [1 << 20, 0] {
        let (file, mut recorder) = (from_nfs(), recorder());
        recorder.apply(Note::TraceUp { since_us: 1 });
        recorder.apply(Note::Begin { stream: STREAM, shared: Arc::default() });
        recorder.apply(Note::Row(Box::new(Row {
            kind: RowKind::Read,
            tid: 3,
            stream: STREAM,
            range,
            inblock_bytes,
            fetched: vec![range],
            queued_us: 100,
            start_us: 101,
            end_us: 200,
            file,
        })));
        let got = record(&mut recorder);
        assert_eq!(got.attribution, AttributionMode::None);
        assert_eq!((got.read_bytes, got.unattributed_bytes), (inblock_bytes, inblock_bytes));
        assert!(got.disks.is_empty());
        let why = got.why.unwrap();
        assert!(why.contains("network mount") && why.contains("nas"), "{why}");
    }
}

/// A parity array that is reshaped reads page by page, and twice what was refused: its disks' counters have more than the map.
#[test]
fn what_an_array_read_again_is_of_those_who_asked_again_by_how_much_they_did() {
    let (mut recorder, other) = (recorder(), StreamId(8));
    let set: Vec<Arc<str>> = vec!["a".into(), "b".into()];
    for (stream, bytes) in [(STREAM, 3000), (other, 1000)] {
        recorder.apply(Note::Begin { stream, shared: Arc::default() });
        recorder.streams.get_mut(&stream).unwrap().asked_again(set.clone(), bytes);
    }
    let bytes = |a, b| BTreeMap::from([("a".into(), a), ("b".into(), b)]);
    recorder.divide_again(0, (&bytes(1200, 800), &bytes(200, 600)), false);
    let read = |recorder: &mut Recorder, stream| {
        let record = recorder.query(stream, false).unwrap();
        record.disks.iter().map(|d| (d.disk.clone(), d.read_bytes)).collect::<Vec<_>>()
    };
    assert_eq!(read(&mut recorder, STREAM), [("a".to_owned(), 750), ("b".to_owned(), 150)]);
    assert_eq!(read(&mut recorder, other), [("a".to_owned(), 250), ("b".to_owned(), 50)]);
    // Once.
    recorder.divide_again(0, (&bytes(500, 500), &bytes(0, 0)), false);
    assert_eq!(read(&mut recorder, STREAM), [("a".to_owned(), 750), ("b".to_owned(), 150)]);
}
