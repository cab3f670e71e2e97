//! Patterns on files of a temporary folder: what is asked for is what is done.

use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use spindle_base::clock::SystemClock;

use super::*;

const MIB: u64 = 1 << 20;

fn clock() -> SharedClock {
    Arc::new(SystemClock)
}

fn target(size_bytes: u64) -> (tempfile::TempDir, Target) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
    file.set_len(size_bytes).unwrap();
    let target = Target::open(&path, file, size_bytes).unwrap();
    (dir, target)
}

fn pattern(op: Op, order: Order, block_bytes: u64, depth: usize, most_bytes: u64) -> Pattern {
    Pattern { op, order, block_bytes, depth, time: Duration::from_secs(60), most_bytes }
}

#[test]
fn a_pattern_moves_as_many_bytes_as_it_is_given_in_blocks_of_its_size() {
    let (_dir, target) = target(8 * MIB);
    for (op, order, depth) in
        [(Op::Write, Order::Sequential, 1), (Op::Read, Order::Sequential, 32), (Op::Read, Order::Random, 4)]
    {
        let pattern = pattern(op, order, 64 << 10, depth, 4 * MIB);
        let run = run(&target, &pattern, &clock(), &Shutdown::new(), &|_, _| {}).unwrap();
        assert!(run.failed.is_none(), "{:?}", run.failed);
        assert_eq!((run.bytes, run.ops), (4 * MIB, 64), "{op:?} {order:?} {depth}");
        assert!(run.elapsed_us > 0 && run.iops() > 0.0 && run.times.percentile_us(0.99) > 0.0);
    }
}

#[test]
fn what_is_written_in_order_fills_the_file_with_pages_that_are_all_different() {
    let (dir, target) = target(MIB);
    let fill = pattern(Op::Write, Order::Sequential, 64 << 10, 4, MIB);
    run(&target, &fill, &clock(), &Shutdown::new(), &|_, _| {}).unwrap();
    target.flush().unwrap();
    let bytes = std::fs::read(dir.path().join("file")).unwrap();
    let pages: std::collections::HashSet<&[u8]> = bytes.chunks(4096).collect();
    assert_eq!(pages.len(), 256);
    let zeros = bytes.iter().filter(|b| **b == 0).count();
    assert!(zeros < 10_000, "noise has one zero in 256, not {zeros} in a mebibyte");
}

#[test]
fn a_pattern_that_is_stopped_keeps_what_it_has_and_one_without_time_does_nothing() {
    let (_dir, target) = target(MIB);
    let stop = Shutdown::new();
    stop.begin();
    let endless = pattern(Op::Read, Order::Random, 4096, 2, u64::MAX);
    let stopped = run(&target, &endless, &clock(), &stop, &|_, _| {}).unwrap();
    assert_eq!((stopped.ops, stopped.iops()), (0, 0.0));
    let none = Pattern { time: Duration::ZERO, ..endless };
    assert_eq!(run(&target, &none, &clock(), &Shutdown::new(), &|_, _| {}).unwrap().ops, 0);
}

#[test]
fn a_file_that_ends_too_early_is_a_failure_that_is_told_with_what_came_before() {
    let (dir, target) = target(MIB);
    let file = OpenOptions::new().write(true).open(dir.path().join("file")).unwrap();
    file.set_len(MIB / 2).unwrap();
    let pattern = pattern(Op::Read, Order::Sequential, 64 << 10, 1, u64::MAX);
    let run = run(&target, &pattern, &clock(), &Shutdown::new(), &|_, _| {}).unwrap();
    assert_eq!(run.ops, 8);
    assert_eq!(run.failed.unwrap().kind(), io::ErrorKind::UnexpectedEof);
}

#[test]
fn through_the_cache_it_is_said_and_the_bytes_are_the_same() {
    let (dir, target) = target(MIB);
    let target = target.through_the_cache().unwrap();
    assert!(target.cached_because().is_some_and(|why| why.contains("--buffered")));
    // Unaligned requests work: the flag is really gone.
    let mut odd = [0_u8; 3];
    target.read(&mut odd, 1).unwrap();
    let fill = pattern(Op::Write, Order::Sequential, 64 << 10, 1, MIB);
    let run = run(&target, &fill, &clock(), &Shutdown::new(), &|_, _| {}).unwrap();
    assert_eq!((run.bytes, run.failed.is_none()), (MIB, true));
    assert_eq!(std::fs::metadata(dir.path().join("file")).unwrap().len(), MIB);
}

#[test]
fn a_file_of_another_is_read_and_never_made_longer() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("film");
    let file = File::create(&path).unwrap();
    file.write_all_at(&vec![7_u8; 10_000], 0).unwrap();
    file.sync_all().unwrap();
    let target = Target::open_to_read(&path).unwrap();
    assert_eq!(target.size_bytes(), 10_000);
    assert!(target.write(&[0; 4096], 0).is_err());
    assert!(Target::open_to_read(dir.path()).is_err());
    assert!(Target::open_to_read(Path::new("/dev/zero")).is_err());
}

#[test]
fn buffers_begin_at_a_page_whatever_their_size() {
    for len in [1, 512, 4096, 5000, 1 << 20] {
        let mut buffer = Buffer::new(len);
        assert_eq!((buffer.bytes().as_ptr().addr() % PAGE, buffer.bytes().len()), (0, len));
        buffer.fill(3);
        buffer.stamp(9);
    }
}

#[test]
fn random_places_reach_the_whole_file_evenly() {
    let mut random = Random(1);
    let mut tenths = [0_u32; 10];
    for _ in 0..100_000 {
        let n = random.below(1000);
        assert!(n < 1000);
        tenths[usize::try_from(n / 100).unwrap()] += 1;
    }
    assert!(tenths.iter().all(|t| (9_500..10_500).contains(t)), "{tenths:?}");
    assert_eq!(random.below(1), 0);
}

#[test]
fn percentiles_are_within_a_sixteenth_of_the_true_ones() {
    let mut times = Times::default();
    for us in 1..=100_000_u64 {
        times.note(us);
    }
    for share in [0.5, 0.95, 0.99] {
        let (seen, wanted) = (times.percentile_us(share), share * 100_000.0);
        assert!((seen / wanted - 1.0).abs() < 1.0 / 16.0, "{share}: {seen} for {wanted}");
    }
    assert_eq!((times.max_us(), times.percentile_us(1.0)), (100_000, 100_000.0));
    let mut odd = Times::default();
    odd.note(u64::MAX);
    odd.note(0);
    assert!(odd.percentile_us(0.5) < 1.0);
    assert_eq!(Times::default().percentile_us(0.5), 0.0);
}
