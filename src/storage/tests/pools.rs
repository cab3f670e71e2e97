//! Real filesystems on loop devices, read through `Storage`, compared with an independent trace: tracefs
//! text in an instance of its own, which shares no code with the crate.
//!
//! Needs root, loop devices and tracefs; says so and passes where they are not to be had.

#![expect(clippy::unwrap_used, reason = "tests: a failure is a failure")]
#![expect(
    clippy::disallowed_methods,
    reason = "tests that run themselves as another process tell it what to do by variables"
)]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use spindle_base::clock::SystemClock;
use spindle_storage::{AttributionMode, Config, HelperMode, IoRecord, MediaFile, Storage, StreamId};

const MIB: u64 = 1 << 20;
const FILE_BYTES: u64 = 96 * MIB + 12345;

fn run(program: &str, args: &[&str]) -> String {
    let out = Command::new(program).args(args).output().unwrap_or_else(|e| panic!("{program}: {e}"));
    assert!(out.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).trim().to_owned()
}

/// Why these tests cannot run here, if they cannot.
fn cannot() -> Option<&'static str> {
    if !rustix::process::geteuid().is_root() {
        return Some("needs root");
    }
    if !Path::new("/dev/loop-control").exists() {
        return Some("needs loop devices");
    }
    None
}

macro_rules! needs_root {
    () => {
        if let Some(why) = cannot() {
            writeln!(std::io::stderr(), "skipped: {why}").unwrap();
            return;
        }
    };
}

/// Loop devices with a filesystem, taken down on drop.
struct Pool {
    dir: tempfile::TempDir,
    loops: Vec<String>,
    mounted: bool,
}

impl Pool {
    fn new(kind: &str, profile: &str, disks: usize) -> Self {
        let dir = tempfile::Builder::new().prefix("spindle-pool-").tempdir_in("/var/tmp").unwrap();
        let mut pool = Pool { dir, loops: Vec::new(), mounted: false };
        for i in 0..disks {
            let image = pool.dir.path().join(format!("disk{i}.img"));
            File::create(&image).unwrap().set_len(640 * MIB).unwrap();
            let image = image.to_str().unwrap();
            pool.loops.push(run("losetup", &["--direct-io=on", "-f", "--show", image]));
        }
        let mut devices: Vec<&str> = pool.loops.iter().map(String::as_str).collect();
        match kind {
            "btrfs" => {
                let meta = if disks > 1 { "raid1" } else { "dup" };
                let mut args = vec!["-q", "-f", "-d", profile, "-m", meta];
                args.append(&mut devices);
                run("mkfs.btrfs", &args);
            }
            "ext4" => drop(run(
                "mkfs.ext4",
                &["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", devices[0]],
            )),
            _ => drop(run("mkfs.xfs", &["-q", "-f", devices[0]])),
        }
        fs::create_dir(pool.root()).unwrap();
        // Tests also run as somebody else.
        run("chmod", &["755", pool.dir.path().to_str().unwrap()]);
        pool.mount();
        pool
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("mnt")
    }

    fn mount(&mut self) {
        run("mount", &["-o", "noatime", &self.loops[0], self.root().to_str().unwrap()]);
        self.mounted = true;
    }

    fn umount(&mut self) {
        run("umount", &[self.root().to_str().unwrap()]);
        self.mounted = false;
    }

    /// Two files, not in memory, their trees neither.
    fn fill(&mut self) -> (PathBuf, PathBuf) {
        let (a, b) = (self.root().join("a.mkv"), self.root().join("b.mkv"));
        let mut block = vec![0_u8; MIB as usize];
        let mut x = 88_172_645_463_325_252_u64;
        for byte in &mut block {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            *byte = x as u8;
        }
        for path in [&a, &b] {
            let mut file = File::create(path).unwrap();
            for i in 0..FILE_BYTES / MIB {
                block[..8].copy_from_slice(&i.to_le_bytes());
                file.write_all(&block).unwrap();
            }
            file.write_all(&block[..(FILE_BYTES % MIB) as usize]).unwrap();
            file.sync_all().unwrap();
        }
        self.umount();
        self.mount();
        (a, b)
    }

    fn names(&self) -> Vec<String> {
        self.loops.iter().map(|l| l.trim_start_matches("/dev/").to_owned()).collect()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // Also while a test unwinds: every step is tried whatever became of the others.
        if self.mounted {
            let _ = Command::new("umount").arg(self.root()).status();
        }
        for l in &self.loops {
            let _ = Command::new("losetup").args(["-d", l]).status();
        }
    }
}

/// The independent trace.
struct Trace {
    mount: tempfile::TempDir,
    instance: PathBuf,
    names: BTreeMap<String, String>,
}

static NEXT: AtomicU32 = AtomicU32::new(0);

impl Trace {
    fn start(disks: &[String]) -> Self {
        let mount = tempfile::tempdir().unwrap();
        run("mount", &["-t", "tracefs", "spindle-test", mount.path().to_str().unwrap()]);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let instance =
            mount.path().join("instances").join(format!("spindle-test-{}-{n}", std::process::id()));
        fs::create_dir(&instance).unwrap();
        let mut names = BTreeMap::new();
        let mut filter = Vec::new();
        for d in disks {
            let dev = fs::read_to_string(format!("/sys/block/{d}/dev")).unwrap().trim().to_owned();
            let (major, minor) = dev.split_once(':').unwrap();
            let number = (major.parse::<u32>().unwrap() << 20) | minor.parse::<u32>().unwrap();
            filter.push(format!("dev == {number}"));
            names.insert(dev.replace(':', ","), d.clone());
        }
        let trace = Trace { mount, instance, names };
        trace.write("buffer_size_kb", "8192");
        trace.write("events/block/block_bio_queue/filter", &filter.join(" || "));
        trace.write("events/block/block_bio_queue/enable", "1");
        trace
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.instance.join(file), text).unwrap_or_else(|e| panic!("{file}: {e}"));
    }

    /// File bytes and metadata bytes by disk.
    fn stop(self) -> (BTreeMap<String, u64>, BTreeMap<String, u64>) {
        self.write("tracing_on", "0");
        let text = fs::read_to_string(self.instance.join("trace")).unwrap();
        assert!(!text.contains("LOST"), "the independent trace lost events");
        let mut data: BTreeMap<String, u64> = self.names.values().map(|n| (n.clone(), 0)).collect();
        let mut meta = data.clone();
        for line in text.lines() {
            // .. block_bio_queue: 7,1 RA 2048 + 256 [comm]
            let Some((_, rest)) = line.split_once("block_bio_queue: ") else { continue };
            let f: Vec<&str> = rest.split_whitespace().collect();
            let Some(name) = self.names.get(f[0]) else { continue };
            if !f[1].starts_with('R') {
                continue;
            }
            let bytes = f[4].parse::<u64>().unwrap() * 512;
            if std::env::var("SPINDLE_POOLS_WHO").is_ok() && !line.contains("read-") {
                writeln!(std::io::stderr().lock(), "other: {line}").ok();
            }
            let to = if f[1].contains('M') { &mut meta } else { &mut data };
            *to.get_mut(name).unwrap() += bytes;
        }
        (data, meta)
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        let _ = fs::write(self.instance.join("events/block/block_bio_queue/enable"), "0");
        let _ = fs::remove_dir(&self.instance);
        let _ = Command::new("umount").arg(self.mount.path()).status();
    }
}

/// The helper of this crate, built beside the tests by cargo.
fn helper_program() -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    exe.parent().unwrap().parent().unwrap().join("examples/storage_helper")
}

fn storage(helper: HelperMode) -> Storage {
    let config = Config { helper, helper_program: Some(helper_program()), ..Config::default() };
    Storage::start(config, Arc::new(SystemClock)).unwrap()
}

/// What the lane does: sends what is in memory, brings in what is not.
async fn play(file: &MediaFile, from: u64, to: u64) {
    let mut at = from;
    while at < to {
        let n = file.resident(at, (to - at).min(MIB));
        if n == 0 {
            assert!(file.bring_in(at, to - at).await.unwrap() > 0);
        } else {
            file.note_served(at, n);
            at += n;
        }
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn by_disk(records: &[IoRecord]) -> BTreeMap<String, u64> {
    let mut out = BTreeMap::new();
    for d in records.iter().flat_map(|r| &r.disks) {
        *out.entry(d.disk.clone()).or_insert(0) += d.read_bytes;
    }
    out
}

/// Largest difference of a disk, as a share of that disk's traced bytes.
fn worst(got: &BTreeMap<String, u64>, want: &BTreeMap<String, u64>) -> f64 {
    let error = |d: &String| {
        let (g, w) = (got.get(d).copied().unwrap_or(0), want.get(d).copied().unwrap_or(0));
        g.abs_diff(w) as f64 / w.max(1) as f64
    };
    want.keys().chain(got.keys()).map(error).fold(0.0, f64::max)
}

/// One stream, then three at once of which two play the same file. (records, traced file bytes, traced metadata)
type Outcome = (Vec<IoRecord>, BTreeMap<String, u64>, BTreeMap<String, u64>);

fn one_and_three(pool: &mut Pool, helper: HelperMode) -> [Outcome; 2] {
    let (a, b) = pool.fill();
    let rt = runtime();
    let mut out = Vec::new();
    for plays in [vec![(&a, 0)], vec![(&a, 0), (&a, FILE_BYTES / 3), (&b, 0)]] {
        pool.umount();
        pool.mount();
        let storage = storage(helper.clone());
        let trace = Trace::start(&pool.names());
        let mut tasks = Vec::new();
        for (i, (path, from)) in plays.iter().enumerate() {
            let (storage, path, from, stream) =
                (storage.clone(), (*path).clone(), *from, StreamId(i as u64 + 1));
            storage.begin(stream);
            tasks.push(rt.spawn(async move {
                let file = storage.open(&path, stream).await.unwrap();
                assert_eq!(file.size_bytes(), FILE_BYTES);
                play(&file, from, FILE_BYTES).await;
            }));
        }
        for t in tasks {
            rt.block_on(t).unwrap();
        }
        let records: Vec<IoRecord> =
            (0..plays.len()).map(|i| storage.end(StreamId(i as u64 + 1)).unwrap()).collect();
        let (data, meta) = trace.stop();
        storage.close();
        for (r, (_, from)) in records.iter().zip(&plays) {
            assert_eq!(r.served_bytes, FILE_BYTES - from);
            assert!(r.ended.is_some());
        }
        out.push((records, data, meta));
    }
    out.try_into().unwrap()
}

fn check(kind: &str, profile: &str, disks: usize) {
    let mut pool = Pool::new(kind, profile, disks);
    for (helper, mode) in
        [(HelperMode::Auto, AttributionMode::BlockTrace), (HelperMode::Off, AttributionMode::SampledMap)]
    {
        for (records, data, meta) in one_and_three(&mut pool, helper.clone()) {
            let got = by_disk(&records);
            let what = format!("{kind} {profile} over {disks}, {helper:?}, {} streams", records.len());
            let error = worst(&got, &data);
            let unattributed: u64 = records.iter().map(|r| r.unattributed_bytes).sum();
            let line = format!(
                "{what}: recorded {got:?} traced {data:?} worst {:.3} % metadata {} unattributed {unattributed}; {}",
                error * 100.0,
                meta.values().sum::<u64>(),
                records[0].striping.verdict,
            );
            writeln!(std::io::stderr().lock(), "{line}").ok();
            for r in &records {
                assert_eq!(r.attribution, mode, "{what}: {:?}", r.why);
            }
            assert!(data.values().sum::<u64>() >= FILE_BYTES, "{what}: the file was not cold");
            if mode == AttributionMode::BlockTrace {
                assert_eq!(got, data, "{what}");
                let recorded: u64 = records.iter().flat_map(|r| &r.disks).map(|d| d.metadata_bytes).sum();
                // Kernel threads read trees on their own account, too (free space, journals).
                assert!(recorded <= meta.values().sum(), "{what}: metadata {recorded}");
                // Every byte of the files has its disk, as the equality above says. What may be left over is a tree
                // block whose request stands outside the read that the kernel charged it to.
                assert!(unattributed <= meta.values().sum(), "{what}: unattributed {unattributed}");
                assert!(
                    records[0].disks.iter().filter(|d| d.read_bytes > 0).all(|d| d.latency_us.p50 > 0),
                    "{what}"
                );
            } else {
                assert!(error <= 0.02, "{what}: {error}");
            }
        }
    }
}

#[test]
fn ext4_agrees_with_the_trace() {
    needs_root!();
    check("ext4", "plain", 1);
}

#[test]
fn xfs_agrees_with_the_trace() {
    needs_root!();
    check("xfs", "plain", 1);
}

#[test]
fn btrfs_single_agrees_with_the_trace() {
    needs_root!();
    check("btrfs", "single", 2);
}

#[test]
fn btrfs_raid0_agrees_with_the_trace() {
    needs_root!();
    check("btrfs", "raid0", 3);
}

#[test]
fn btrfs_raid1_agrees_with_the_trace() {
    needs_root!();
    check("btrfs", "raid1", 2);
}

#[test]
fn btrfs_raid10_agrees_with_the_trace() {
    needs_root!();
    check("btrfs", "raid10", 4);
}

#[test]
fn btrfs_raid5_agrees_with_the_trace() {
    needs_root!();
    check("btrfs", "raid5", 3);
}

#[test]
fn btrfs_raid6_agrees_with_the_trace() {
    needs_root!();
    check("btrfs", "raid6", 4);
}

#[test]
fn btrfs_raid1c3_agrees_with_the_trace() {
    needs_root!();
    check("btrfs", "raid1c3", 3);
}

/// Plays both files at once on a pool as it is mounted now: (records, traced file bytes).
fn two_streams(pool: &Pool, helper: HelperMode, files: &[PathBuf]) -> (Vec<IoRecord>, BTreeMap<String, u64>) {
    let rt = runtime();
    let storage = storage(helper);
    let trace = Trace::start(&pool.names());
    let mut tasks = Vec::new();
    for (i, path) in files.iter().cloned().enumerate() {
        let (storage, stream) = (storage.clone(), StreamId(i as u64 + 1));
        storage.begin(stream);
        tasks.push(rt.spawn(async move {
            let file = storage.open(&path, stream).await.unwrap();
            play(&file, 0, file.size_bytes()).await;
        }));
    }
    for t in tasks {
        rt.block_on(t).unwrap();
    }
    let records = (0..files.len()).map(|i| storage.end(StreamId(i as u64 + 1)).unwrap()).collect();
    let (data, _) = trace.stop();
    storage.close();
    (records, data)
}

/// A pool of which the last disk is gone: reads that it should have answered are answered by the others.
fn check_degraded(profile: &str, disks: usize) {
    let mut pool = Pool::new("btrfs", profile, disks);
    let (a, b) = pool.fill();
    pool.umount();
    let lost = pool.loops.pop().unwrap();
    // The kernel would remember the device by its number; the others it must go on knowing.
    run("btrfs", &["device", "scan", "--forget", &lost]);
    run("losetup", &["-d", &lost]);
    run("mount", &["-o", "noatime,degraded,ro", &pool.loops[0], pool.root().to_str().unwrap()]);
    pool.mounted = true;
    for (files, most) in [(vec![a.clone()], 0.01), (vec![a, b], 0.03)] {
        run("mount", &["-o", "remount,ro", pool.root().to_str().unwrap()]);
        let _ = fs::write("/proc/sys/vm/drop_caches", "1");
        let (records, data) = two_streams(&pool, HelperMode::Auto, &files);
        let got = by_disk(&records);
        let sum = |of: fn(&spindle_storage::DiskIo) -> u64| {
            records.iter().flat_map(|r| &r.disks).map(of).sum::<u64>()
        };
        let unattributed: u64 = records.iter().map(|r| r.unattributed_bytes).sum();
        let line = format!(
            "btrfs {profile} over {disks} less one, {} streams: recorded {got:?} traced {data:?} worst {:.3} % parity {} reconstruct {} unattributed {unattributed} why {:?}",
            files.len(),
            worst(&got, &data) * 100.0,
            sum(|d| d.parity_bytes),
            sum(|d| d.reconstruct_bytes),
            records[0].why,
        );
        writeln!(std::io::stderr().lock(), "{line}").ok();
        assert!(worst(&got, &data) <= most, "{line}");
        for r in &records {
            assert_eq!(r.attribution, AttributionMode::BlockTrace, "{line}");
        }
        if profile == "raid5" || profile == "raid6" {
            assert!(sum(|d| d.parity_bytes) > 0, "{line}");
        }
    }
}

#[test]
fn a_btrfs_raid1_that_lost_a_disk_agrees_with_the_trace() {
    needs_root!();
    check_degraded("raid1", 3);
}

#[test]
fn a_btrfs_raid5_that_lost_a_disk_agrees_with_the_trace_and_shows_the_parity() {
    needs_root!();
    check_degraded("raid5", 3);
}

#[test]
fn a_btrfs_raid6_that_lost_a_disk_agrees_with_the_trace_and_shows_the_parity() {
    needs_root!();
    check_degraded("raid6", 4);
}

#[test]
fn compressed_files_on_btrfs_agree_with_the_trace() {
    needs_root!();
    let mut pool = Pool::new("btrfs", "raid0", 2);
    run("mount", &["-o", "remount,compress-force=zstd", pool.root().to_str().unwrap()]);
    let path = pool.root().join("half.mkv");
    let mut file = File::create(&path).unwrap();
    let mut x = 88_172_645_463_325_252_u64;
    for _ in 0..FILE_BYTES / MIB {
        // Half of it noise, half of it nothing.
        let mut block = vec![0_u8; MIB as usize];
        for byte in block.iter_mut().step_by(2) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            *byte = x as u8;
        }
        file.write_all(&block).unwrap();
    }
    file.sync_all().unwrap();
    drop(file);
    pool.umount();
    pool.mount();
    let (records, data) = two_streams(&pool, HelperMode::Auto, &[path]);
    let got = by_disk(&records);
    let line = format!("compressed: recorded {got:?} traced {data:?} why {:?}", records[0].why);
    writeln!(std::io::stderr().lock(), "{line}").ok();
    assert!(data.values().sum::<u64>() < FILE_BYTES * 9 / 10, "{line}");
    assert!(worst(&got, &data) <= 0.01, "{line}");
}

#[test]
fn a_partition_is_counted_as_its_whole_disk() {
    needs_root!();
    let mut pool = Pool::new("ext4", "plain", 1);
    pool.umount();
    let disk = pool.loops[0].clone();
    // Without a partition table: this asks the kernel alone (BLKPG).
    run("addpart", &[&disk, "1", "8192", "1200000"]);
    let part = format!("{disk}p1");
    run("mkfs.ext4", &["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", &part]);
    pool.loops[0] = part;
    pool.mount();
    let (a, _) = pool.fill();
    pool.loops[0] = disk.clone();
    let (records, data) = two_streams(&pool, HelperMode::Auto, &[a]);
    let got = by_disk(&records);
    pool.umount();
    run("delpart", &[&disk, "1"]);
    assert_eq!(got, data);
    assert!(data.values().sum::<u64>() >= FILE_BYTES);
}

#[test]
fn a_loop_on_a_loop_is_counted_where_the_reader_is_seen() {
    needs_root!();
    let mut outer = Pool::new("ext4", "plain", 1);
    let image = outer.root().join("inner.img");
    File::create(&image).unwrap().set_len(400 * MIB).unwrap();
    let inner = run("losetup", &["--direct-io=on", "-f", "--show", image.to_str().unwrap()]);
    run("mkfs.ext4", &["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", &inner]);
    let mut pool =
        Pool { dir: tempfile::tempdir_in("/var/tmp").unwrap(), loops: vec![inner], mounted: false };
    fs::create_dir(pool.root()).unwrap();
    pool.mount();
    let (a, _) = pool.fill();
    let (records, data) = two_streams(&pool, HelperMode::Auto, &[a]);
    // The film's blocks of 1 KiB, no more and no less; one of its extent tree, which the kernel does not mark, is none of them.
    let disk = &records[0].disks[0];
    assert_eq!(disk.read_bytes, FILE_BYTES.div_ceil(1024) * 1024, "{disk:?}");
    assert!((data[&disk.disk] - disk.read_bytes) <= disk.metadata_bytes, "{data:?} {disk:?}");
    assert!(disk.metadata_bytes <= 16 << 10, "{disk:?}");
    assert_eq!((records[0].disks.len(), data.len(), records[0].unattributed_bytes), (1, 1, 0));
    drop(pool);
    outer.umount();
}

/// What files may be: full of holes, shared, in thousands of pieces, growing while they are played.
#[test]
fn odd_files_agree_with_the_trace_and_play_to_the_end() {
    needs_root!();
    use std::os::unix::fs::FileExt as _;
    let mut pool = Pool::new("btrfs", "raid0", 2);
    let (a, _) = pool.fill();
    let noise: Vec<u8> = fs::read(&a).unwrap()[..MIB as usize].to_vec();
    let [holes, pieces, shared, grows] =
        ["holes.mkv", "pieces.mkv", "shared.mkv", "grows.mkv"].map(|n| pool.root().join(n));
    let file = File::create(&holes).unwrap();
    file.set_len(64 * MIB).unwrap();
    for i in 0..16 {
        file.write_all_at(&noise[..65536], i * 4 * MIB).unwrap();
    }
    file.sync_all().unwrap();
    drop(file);
    // Every other block is written twice: on a filesystem that never overwrites they end up elsewhere.
    let file = File::create(&pieces).unwrap();
    for i in 0..16 {
        file.write_all_at(&noise, i * MIB).unwrap();
    }
    file.sync_all().unwrap();
    for i in (0..4096).step_by(2) {
        file.write_all_at(&noise[..4096], i * 4096).unwrap();
        if i % 512 == 0 {
            file.sync_all().unwrap();
        }
    }
    file.sync_all().unwrap();
    drop(file);
    run("cp", &["--reflink=always", a.to_str().unwrap(), shared.to_str().unwrap()]);
    fs::write(&grows, vec![7_u8; 8 << 20]).unwrap();
    pool.umount();
    pool.mount();
    let appended = File::options().append(true).open(&grows).unwrap();
    let (records, data) = two_streams(&pool, HelperMode::Auto, &[holes.clone(), pieces.clone(), shared]);
    let got = by_disk(&records);
    let line = format!("holes, pieces, shared: recorded {got:?} traced {data:?} why {:?}", records[1].why);
    writeln!(std::io::stderr().lock(), "{line}").ok();
    assert_eq!(got, data, "{line}");
    assert_eq!(records[0].served_bytes, 64 * MIB);
    // Holes are read from nowhere.
    let of_holes: u64 = records[0].disks.iter().map(|d| d.read_bytes).sum();
    assert!((MIB..8 * MIB).contains(&of_holes), "{of_holes}");
    // One that grows plays to the size that it had; opened again it plays on.
    let (rt, storage, stream) = (runtime(), storage(HelperMode::Auto), StreamId(6));
    storage.begin(stream);
    let file = rt.block_on(storage.open(&grows, stream)).unwrap();
    rt.block_on(play(&file, 0, 4 * MIB));
    (&appended).write_all(&noise).unwrap();
    rt.block_on(play(&file, 4 * MIB, file.size_bytes()));
    let longer = rt.block_on(storage.open(&grows, stream)).unwrap();
    assert_eq!((file.size_bytes(), longer.size_bytes()), (8 * MIB, 9 * MIB));
    rt.block_on(play(&longer, 8 * MIB, 9 * MIB));
    assert_eq!(storage.end(stream).unwrap().served_bytes, 9 * MIB);
    drop((appended, file, longer));
    storage.close();
}

/// Through the mount every byte would be read by mergerfs's own process.
#[test]
fn a_file_of_a_mergerfs_is_read_where_it_lies_and_counted_there() {
    needs_root!();
    if Command::new("mergerfs").arg("-V").output().is_err() {
        writeln!(std::io::stderr(), "skipped: needs mergerfs").unwrap();
        return;
    }
    let mut pools = [Pool::new("ext4", "plain", 1), Pool::new("xfs", "plain", 1)];
    let (a, _) = pools[1].fill();
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let branches = format!("{}:{}", pools[0].root().display(), pools[1].root().display());
    run("mergerfs", &[&branches, dir.path().to_str().unwrap()]);
    let file = dir.path().join(a.file_name().unwrap());
    let (rt, storage, stream) = (runtime(), storage(HelperMode::Auto), StreamId(8));
    storage.begin(stream);
    let names: Vec<String> = pools.iter().flat_map(Pool::names).collect();
    let trace = Trace::start(&names);
    let open = rt.block_on(storage.open(&file, stream));
    let is_played = open.as_ref().map(|f| rt.block_on(play(f, 0, FILE_BYTES))).is_ok();
    let record = storage.end(stream).unwrap();
    let (data, _) = trace.stop();
    storage.close();
    let path = open.as_ref().ok().map(|f| f.path().to_owned());
    drop(open);
    run("umount", &[dir.path().to_str().unwrap()]);
    assert!(is_played);
    assert_eq!(path.unwrap(), file);
    assert_eq!(record.attribution, AttributionMode::BlockTrace, "{:?}", record.why);
    let mut got = by_disk(std::slice::from_ref(&record));
    got.entry(names[0].clone()).or_insert(0);
    assert_eq!(got, data);
    assert!(data[&names[1]] >= FILE_BYTES);
}

#[test]
fn a_mirror_that_loses_a_disk_plays_on_and_the_record_says_which() {
    needs_root!();
    let mut pool = Pool::new("btrfs", "raid1", 2);
    let (a, _) = pool.fill();
    let (rt, storage, stream) = (runtime(), storage(HelperMode::Auto), StreamId(3));
    storage.begin(stream);
    let file = rt.block_on(storage.open(&a, stream)).unwrap();
    rt.block_on(play(&file, 0, 4 * MIB));
    // Whichever copy it is read from: that disk has no data behind it any more.
    // The live record is a fifth of a second behind.
    let used = loop {
        let record = storage.record(stream).unwrap();
        if let Some(disk) = record.disks.iter().max_by_key(|d| d.read_bytes).filter(|d| d.read_bytes > 0) {
            break disk.disk.clone();
        }
        std::thread::yield_now();
    };
    let at = pool.names().iter().position(|n| *n == used).unwrap();
    let image = pool.dir.path().join(format!("disk{at}.img"));
    File::options().write(true).open(&image).unwrap().set_len(MIB).unwrap();
    rt.block_on(play(&file, 4 * MIB, FILE_BYTES));
    let record = storage.end(stream).unwrap();
    assert_eq!(record.served_bytes, FILE_BYTES);
    assert!(record.faults.iter().any(|f| f.disk == used), "{:?}", record.faults);
    assert!(record.faults.iter().all(|f| f.disk == used), "{:?}", record.faults);
    assert!(storage.take_notices().iter().any(|n| n.disk == used));
    storage.close();
}

#[test]
fn a_single_disk_that_is_lost_is_a_clean_error_and_the_record_names_it() {
    needs_root!();
    let mut pool = Pool::new("ext4", "plain", 1);
    let (a, b) = pool.fill();
    let (rt, storage, stream) = (runtime(), storage(HelperMode::Auto), StreamId(3));
    storage.begin(stream);
    let file = rt.block_on(storage.open(&a, stream)).unwrap();
    rt.block_on(play(&file, 0, 4 * MIB));
    let image = pool.dir.path().join("disk0.img");
    File::options().write(true).open(&image).unwrap().set_len(MIB).unwrap();
    let error = rt.block_on(file.bring_in(64 * MIB, MIB)).unwrap_err();
    assert!(matches!(error, spindle_storage::StorageError::Read { .. }), "{error}");
    // Later reads are errors too, and none of them hangs.
    assert!(rt.block_on(file.bring_in(80 * MIB, MIB)).is_err());
    let _ = rt.block_on(storage.open(&b, StreamId(4)));
    let record = storage.end(stream).unwrap();
    let disk = pool.names()[0].clone();
    assert!(record.faults.iter().any(|f| f.disk == disk && f.what.contains("failed")), "{:?}", record.faults);
    storage.close();
}

#[test]
fn a_helper_that_dies_leaves_the_streams_running_and_the_record_says_so() {
    needs_root!();
    let mut pool = Pool::new("btrfs", "raid0", 2);
    let (a, _) = pool.fill();
    let (rt, storage, stream) = (runtime(), storage(HelperMode::Auto), StreamId(9));
    assert_eq!(storage.attribution().mode, AttributionMode::BlockTrace);
    storage.begin(stream);
    let trace = Trace::start(&pool.names());
    let file = rt.block_on(storage.open(&a, stream)).unwrap();
    rt.block_on(play(&file, 0, FILE_BYTES / 2));
    for pid in children() {
        run("kill", &["-9", &pid.to_string()]);
    }
    while storage.attribution().mode == AttributionMode::BlockTrace {
        std::thread::yield_now();
    }
    rt.block_on(play(&file, FILE_BYTES / 2, FILE_BYTES));
    let record = storage.end(stream).unwrap();
    let (data, _) = trace.stop();
    assert_eq!(record.served_bytes, FILE_BYTES);
    assert_eq!(record.attribution, AttributionMode::SampledMap);
    assert!(record.why.as_deref().unwrap().contains("helper ended"), "{:?}", record.why);
    let error = worst(&by_disk(&[record]), &data);
    assert!(error <= 0.02, "{error}");
    storage.close();
}

#[test]
fn no_helper_is_left_when_the_server_is_killed() {
    needs_root!();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "a_server_that_waits", "--nocapture"]).env("SPINDLE_POOLS_WAIT", "1");
    let mut server = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(server.stdout.take().unwrap()));
    let helper: u32 = lines
        .find_map(|l| l.unwrap().split_once("HELPER ").map(|(_, pid)| pid.trim().parse().unwrap()))
        .expect("the server had a helper");
    assert!(Path::new(&format!("/proc/{helper}")).exists());
    server.kill().unwrap();
    server.wait().unwrap();
    // Bounded by the test runner's patience alone: a helper that stays makes this hang, which is a failure.
    while fs::read_to_string(format!("/proc/{helper}/stat")).is_ok_and(|s| !s.contains(") Z ")) {
        std::thread::yield_now();
    }
}

/// Not a test of its own: the server of the one above.
#[test]
fn a_server_that_waits() {
    if std::env::var("SPINDLE_POOLS_WAIT").is_err() {
        return;
    }
    let _storage = storage(HelperMode::Auto);
    writeln!(std::io::stdout(), "HELPER {}", children()[0]).unwrap();
    loop {
        std::thread::park();
    }
}

/// Helpers that this process started.
fn children() -> Vec<u32> {
    let me = std::process::id();
    let mut out = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        let rest = stat.rsplit(')').next().unwrap_or("");
        let parent = rest.split_whitespace().nth(1).and_then(|p| p.parse().ok());
        if parent == Some(me) && stat.contains("(storage_helper)") {
            out.push(pid);
        }
    }
    out
}

/// Not a test of its own: what the next ones run as another user.
#[test]
fn as_somebody_else() {
    let Ok(path) = std::env::var("SPINDLE_POOLS_FILE") else { return };
    let helper =
        std::env::var("SPINDLE_POOLS_SOCKET").map_or(HelperMode::Auto, |s| HelperMode::Socket(s.into()));
    let (rt, storage, stream) = (runtime(), storage(helper), StreamId(1));
    storage.begin(stream);
    let file = rt.block_on(storage.open(Path::new(&path), stream)).unwrap();
    rt.block_on(play(&file, 0, FILE_BYTES));
    // Again, from memory, by the probes that are left to a user who does not own the file.
    rt.block_on(play(&file, 0, FILE_BYTES));
    let record = storage.end(stream).unwrap();
    storage.close();
    writeln!(std::io::stdout(), "RECORD {}", serde_json::to_string(&record).unwrap()).unwrap();
}

fn play_as_nobody(file: &Path, socket: Option<&Path>) -> IoRecord {
    // The build directory may not be open to everyone.
    let dir = tempfile::tempdir().unwrap();
    run("chmod", &["755", dir.path().to_str().unwrap()]);
    let exe = dir.path().join("pools");
    fs::copy(std::env::current_exe().unwrap(), &exe).unwrap();
    let mut command = Command::new(exe);
    command
        .args(["--exact", "as_somebody_else", "--nocapture"])
        .env("SPINDLE_POOLS_FILE", file)
        .uid(65534)
        .gid(65534);
    if let Some(socket) = socket {
        command.env("SPINDLE_POOLS_SOCKET", socket);
    }
    let out = command.output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    let json = text
        .split_once("RECORD ")
        .unwrap_or_else(|| panic!("{text} {}", String::from_utf8_lossy(&out.stderr)))
        .1;
    serde_json::from_str(json.lines().next().unwrap()).unwrap()
}

#[test]
fn without_any_privilege_a_plain_disk_is_exact() {
    needs_root!();
    let mut pool = Pool::new("ext4", "plain", 1);
    let (a, _) = pool.fill();
    let trace = Trace::start(&pool.names());
    let record = play_as_nobody(&a, None);
    let (data, _) = trace.stop();
    assert_eq!(record.attribution, AttributionMode::SampledMap);
    assert!(record.why.as_deref().unwrap().contains("CAP_PERFMON"), "{:?}", record.why);
    assert_eq!(by_disk(std::slice::from_ref(&record)), data);
    assert_eq!((record.served_bytes, record.cached_bytes), (2 * FILE_BYTES, FILE_BYTES));
    // What was asked of the disk, to the page, and what came from memory the second time not again.
    let asked: u64 = record.requests.iter().map(|r| r.length_bytes).sum();
    assert!(asked.abs_diff(FILE_BYTES) < 4096, "{asked}");
    assert_eq!((record.file_bytes, record.requests_left_out), (FILE_BYTES, 0));
    assert!(record.requests.is_sorted_by_key(|r| r.at_ms));
}

#[test]
fn without_any_privilege_a_btrfs_of_several_disks_is_not_made_up() {
    needs_root!();
    let mut pool = Pool::new("btrfs", "raid0", 2);
    let (a, _) = pool.fill();
    let trace = Trace::start(&pool.names());
    let record = play_as_nobody(&a, None);
    let (data, meta) = trace.stop();
    assert_eq!(record.attribution, AttributionMode::None);
    assert!(record.why.as_deref().unwrap().contains("CAP_SYS_ADMIN"), "{:?}", record.why);
    assert!(record.disks.iter().all(|d| d.read_bytes == 0));
    // The total is known all the same: what came off disks, trees included, less what `open` itself read.
    let all: u64 = data.values().chain(meta.values()).sum();
    assert!(
        record.unattributed_bytes <= all && record.unattributed_bytes >= FILE_BYTES,
        "{} of {all}",
        record.unattributed_bytes
    );
}

#[test]
fn with_a_helper_on_a_socket_a_server_without_privilege_is_exact() {
    needs_root!();
    let mut pool = Pool::new("btrfs", "raid1", 2);
    let (a, _) = pool.fill();
    let dir = tempfile::tempdir().unwrap();
    run("chmod", &["755", dir.path().to_str().unwrap()]);
    let socket = dir.path().join("helper.sock");
    let mut helper =
        Command::new(helper_program()).args(["--socket", socket.to_str().unwrap(), "65534"]).spawn().unwrap();
    // Bounded: a helper that cannot listen ends.
    while !socket.exists() && helper.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let trace = Trace::start(&pool.names());
    let record = play_as_nobody(&a, Some(&socket));
    let (data, _) = trace.stop();
    let status = fs::read_to_string(format!("/proc/{}/status", helper.id())).unwrap();
    helper.kill().unwrap();
    helper.wait().unwrap();
    // CAP_PERFMON alone in the thread that traces; the others have what their questions need.
    for want in ["CapPrm:\t0000004000000000", "Uid:\t65534", "NoNewPrivs:\t1"] {
        assert!(status.contains(want), "{want}: {status}");
    }
    assert_eq!(record.attribution, AttributionMode::BlockTrace, "{:?}", record.why);
    assert_eq!(by_disk(&[record]), data);
}

/// A worker is another process that reads by itself: here `cat` through its descriptor.
#[test]
fn what_a_worker_process_reads_is_counted_for_its_stream() {
    needs_root!();
    let mut pool = Pool::new("btrfs", "raid0", 2);
    let (a, _) = pool.fill();
    let (rt, storage, stream) = (runtime(), storage(HelperMode::Auto), StreamId(5));
    storage.begin(stream);
    let file = rt.block_on(storage.open(&a, stream)).unwrap();
    let trace = Trace::start(&pool.names());
    let input = rt.block_on(file.open_again()).unwrap().as_fd().try_clone_to_owned().unwrap();
    let mut worker = Command::new("cat").stdin(input).stdout(std::process::Stdio::null()).spawn().unwrap();
    storage.note_worker(stream, worker.id());
    worker.wait().unwrap();
    let record = storage.end(stream).unwrap();
    let (data, _) = trace.stop();
    storage.close();
    assert_eq!(record.attribution, AttributionMode::BlockTrace, "{:?}", record.why);
    assert!(data.values().sum::<u64>() >= FILE_BYTES);
    assert_eq!(by_disk(&[record]), data);
}

#[test]
fn reads_that_a_worker_reports_are_placed_by_the_map_without_a_trace() {
    needs_root!();
    use spindle_storage::WorkerRead;
    let mut pool = Pool::new("ext4", "plain", 1);
    let (a, _) = pool.fill();
    let (rt, storage, stream) = (runtime(), storage(HelperMode::Off), StreamId(5));
    storage.begin(stream);
    let file = rt.block_on(storage.open(&a, stream)).unwrap();
    let row = |offset, inblock_bytes| WorkerRead {
        tid: 7,
        offset,
        len_bytes: 65536,
        inblock_bytes,
        start_us: 1,
        end_us: 2,
    };
    storage.worker_reads(stream, &file, &[row(0, 262_144), row(65536, 0), row(131_072, 0)]);
    let record = storage.end(stream).unwrap();
    storage.close();
    assert_eq!(by_disk(&[record]), BTreeMap::from([(pool.names()[0].clone(), 262_144)]));
}

#[test]
fn a_seek_marks_the_disks_before_and_after_it() {
    needs_root!();
    let mut pool = Pool::new("btrfs", "raid0", 2);
    let (a, _) = pool.fill();
    let (rt, storage, stream) = (runtime(), storage(HelperMode::Auto), StreamId(4));
    storage.begin(stream);
    let file = rt.block_on(storage.open(&a, stream)).unwrap();
    rt.block_on(play(&file, 0, 8 * MIB));
    rt.block_on(play(&file, 64 * MIB, 72 * MIB));
    let record = storage.end(stream).unwrap();
    storage.close();
    assert_eq!(record.seeks.len(), 1, "{:?}", record.seeks);
    let seek = &record.seeks[0];
    assert_eq!((seek.from_byte, seek.to_byte), (8 * MIB, 64 * MIB));
    let mut all = pool.names();
    all.sort();
    assert_eq!((&seek.disks_before, &seek.disks_after), (&all, &all));
    assert_eq!(record.cached_bytes, 0);
}

#[test]
fn a_file_that_shrinks_or_is_no_file_is_a_clean_error() {
    let dir = tempfile::tempdir().unwrap();
    let (rt, storage) = (runtime(), storage(HelperMode::Off));
    let path = dir.path().join("a");
    fs::write(&path, vec![7_u8; 300_000]).unwrap();
    let file = rt.block_on(storage.open(&path, StreamId(1))).unwrap();
    assert_eq!(rt.block_on(file.read_at(299_990, 100)).unwrap().as_ref(), [7_u8; 10]);
    assert!(rt.block_on(file.read_at(300_000, 100)).unwrap().is_empty());
    File::options().write(true).open(&path).unwrap().set_len(1000).unwrap();
    let error = rt.block_on(file.bring_in(200_000, 4096)).unwrap_err();
    assert!(matches!(error, spindle_storage::StorageError::Shrunk { .. }), "{error}");
    for (name, kind) in [
        ("nothing", spindle_base::error::ErrorKind::NotFound),
        ("", spindle_base::error::ErrorKind::BadInput),
    ] {
        let error = rt.block_on(storage.open(&dir.path().join(name), StreamId(1))).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
    }
    let pipe = dir.path().join("pipe");
    run("mkfifo", &[pipe.to_str().unwrap()]);
    let error = rt.block_on(storage.open(&pipe, StreamId(1))).unwrap_err();
    assert_eq!(error.kind(), spindle_base::error::ErrorKind::BadInput, "{error}");
    storage.close();
}

#[test]
fn layout_and_topology_name_the_disks_of_a_pool() {
    needs_root!();
    let mut pool = Pool::new("btrfs", "raid10", 4);
    let (a, _) = pool.fill();
    let storage = storage(HelperMode::Off);
    let top = storage.topology(&a).unwrap();
    let mut names = pool.names();
    names.sort();
    // The topology counts names as people do, loop8 before loop10.
    let mut disks = top.disks.clone();
    disks.sort();
    assert_eq!((top.columns, top.copies, disks), (2, 2, names.clone()));
    let layout = storage.layout(&a).unwrap();
    assert!(layout.exact, "{:?}", layout.why_inexact);
    let per_disk: Vec<u64> = layout.per_disk.iter().map(|d| d.bytes).collect();
    let whole = FILE_BYTES.div_ceil(4096) * 4096;
    assert_eq!(per_disk.iter().sum::<u64>(), 2 * whole);
    assert!(layout.evenness > 0.99, "{}", layout.evenness);
    // The map against the disks themselves: the same bytes on both copies as in the file.
    let mut file = File::open(&a).unwrap();
    for extent in &layout.extents {
        for copy in &extent.copies {
            let piece = &copy[0];
            let mut from_file = vec![0_u8; 4096];
            let mut from_disk = vec![0_u8; 4096];
            read_at(&mut file, extent.offset, &mut from_file);
            read_at(
                &mut File::open(format!("/dev/{}", piece.disk)).unwrap(),
                piece.disk_offset,
                &mut from_disk,
            );
            assert_eq!(from_file, from_disk);
        }
    }
    storage.close();
}

fn read_at(file: &mut File, offset: u64, into: &mut [u8]) {
    use std::os::unix::fs::FileExt as _;
    file.read_exact_at(into, offset).unwrap();
}
