//! Layouts of files on real filesystems over loop devices, proven without a trace: every byte is read from the disks
//! themselves at the places that the layout names, past the filesystem and everything between, and compared with the file.
//!
//! Needs root and loop devices; says so and passes where they are not to be had.

#![expect(clippy::unwrap_used, reason = "tests: a failure is a failure")]

use std::fs::{self, File};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use spindle_base::clock::SystemClock;
use spindle_storage::{Config, HelperMode, Layout, LayoutOptions, Storage, Verified};

const MIB: u64 = 1 << 20;
const DISK_BYTES: u64 = 400 * MIB;

fn attempt(program: &str, args: &[&str]) -> Result<String, String> {
    let out = Command::new(program).args(args).output().map_err(|e| format!("{program}: {e}"))?;
    if out.status.success() {
        Ok(String::from_utf8_lossy(&out.stdout).trim().to_owned())
    } else {
        Err(format!("{program} {args:?}: {}", String::from_utf8_lossy(&out.stderr)))
    }
}

fn run(program: &str, args: &[&str]) -> String {
    attempt(program, args).unwrap_or_else(|e| panic!("{e}"))
}

macro_rules! needs_root {
    () => {
        if !rustix::process::geteuid().is_root() || !Path::new("/dev/loop-control").exists() {
            writeln!(std::io::stderr(), "skipped: needs root and loop devices").unwrap();
            return;
        }
    };
}

/// Loop devices and mounts in a folder, all taken down on drop, the latest first.
struct Rig {
    dir: tempfile::TempDir,
    undo: Vec<(&'static str, Vec<String>)>,
}

impl Rig {
    fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("spindle-maps-").tempdir_in("/var/tmp").unwrap();
        Self { dir, undo: Vec::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn loop_of(&mut self, image: &Path, more: &[&str]) -> String {
        let mut args = vec!["-f", "--show"];
        args.extend(more);
        args.push(image.to_str().unwrap());
        let device = run("losetup", &args);
        self.undo.push(("losetup", vec!["-d".to_owned(), device.clone()]));
        device
    }

    fn disk(&mut self, name: &str, bytes: u64) -> String {
        let image = self.path(name);
        File::create(&image).unwrap().set_len(bytes).unwrap();
        self.loop_of(&image, &["--direct-io=on"])
    }

    fn disks(&mut self, n: usize) -> Vec<String> {
        (0..n).map(|i| self.disk(&format!("disk{i}.img"), DISK_BYTES)).collect()
    }

    fn mount(&mut self, source: &str, name: &str, options: &[&str]) -> PathBuf {
        let at = self.path(name);
        fs::create_dir_all(&at).unwrap();
        let mut args = options.to_vec();
        args.extend([source, at.to_str().unwrap()]);
        run("mount", &args);
        self.undo.push(("umount", vec![at.to_str().unwrap().to_owned()]));
        at
    }

    fn undo_last(&mut self) {
        let (program, args) = self.undo.pop().unwrap();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        run(program, &args);
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        // Also while a test unwinds: every step is tried whatever became of the others.
        for (program, args) in self.undo.drain(..).rev() {
            let _ = Command::new(program).args(args).status();
        }
    }
}

/// Bytes that are nowhere twice: a generator, the same on every run.
fn noise(seed: u64, n: u64) -> Vec<u8> {
    let mut x = 88_172_645_463_325_252_u64 ^ (seed << 17) ^ seed;
    let mut out = Vec::with_capacity(usize::try_from(n).unwrap());
    while (out.len() as u64) < n {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        out.extend(x.to_le_bytes());
    }
    out.truncate(usize::try_from(n).unwrap());
    out
}

/// A file in several pieces: two grow in turn, and one has a hole and a part that is set aside.
fn fill(dir: &Path) -> PathBuf {
    let (path, other) = (dir.join("film.mkv"), dir.join("other.mkv"));
    let (mut a, mut b) = (File::create(&path).unwrap(), File::create(other).unwrap());
    for i in 0..12 {
        a.write_all(&noise(i, 2 * MIB + 12_288)).unwrap();
        a.sync_all().unwrap();
        b.write_all(&noise(100 + i, 1 << 16)).unwrap();
        b.sync_all().unwrap();
    }
    a.seek(SeekFrom::Current(3 * 1_048_576)).unwrap();
    a.write_all(&noise(50, MIB + 777)).unwrap();
    a.sync_all().unwrap();
    path
}

fn storage() -> Storage {
    let config = Config { helper: HelperMode::Off, ..Config::default() };
    Storage::start(config, Arc::new(SystemClock)).unwrap()
}

fn layout_of(path: &Path, options: &LayoutOptions) -> Layout {
    let storage = storage();
    let layout = storage.layout_with(path, options).unwrap();
    storage.close();
    layout
}

/// The layout is exact, and every byte of every copy is where it says.
fn proven(path: &Path, copies: u64, options: &LayoutOptions) -> (Layout, Verified) {
    let storage = storage();
    let verified = storage.verify_layout(path, options).unwrap();
    let layout = storage.layout_with(path, options).unwrap();
    storage.close();
    assert!(layout.exact, "{:?}", layout.why_inexact);
    assert_eq!(verified.different_bytes, 0, "{:?}", verified.differences);
    let size = fs::metadata(path).unwrap().len();
    let on_disk: u64 = layout.extents.iter().map(|e| e.length_bytes.min(size - e.offset)).sum();
    assert!(on_disk > 20 * MIB, "{on_disk}");
    let unchecked: u64 = verified.unchecked.iter().map(|u| u.bytes).sum();
    assert_eq!(
        verified.compared_bytes - verified.rebuilt_bytes + unchecked,
        copies * on_disk,
        "{verified:?}"
    );
    (layout, verified)
}

fn names(devices: &[String]) -> Vec<String> {
    devices.iter().map(|d| d.trim_start_matches("/dev/").to_owned()).collect()
}

fn btrfs(profile: &str, n: usize, copies: u64) {
    let mut rig = Rig::new();
    let disks = rig.disks(n);
    let meta = if n > 1 { "raid1" } else { "dup" };
    let mut args = vec!["-q", "-f", "-d", profile, "-m", meta];
    args.extend(disks.iter().map(String::as_str));
    run("mkfs.btrfs", &args);
    let root = rig.mount(&disks[0], "mnt", &[]);
    let file = fill(&root);
    let (layout, verified) = proven(&file, copies, &LayoutOptions::default());
    assert_eq!(verified.unchecked, [], "{profile}");
    assert!(layout.fragments > 1, "{profile}: {}", layout.fragments);
    // No disk is given that is not of the pool, and no byte is lost.
    let known = names(&disks);
    assert!(layout.per_disk.iter().all(|d| known.contains(&d.disk)));
    let whole: u64 = layout.extents.iter().map(|e| e.length_bytes).sum();
    assert_eq!(layout.per_disk.iter().map(|d| d.bytes).sum::<u64>(), copies * whole, "{profile}");
}

#[test]
fn every_byte_of_btrfs_single_is_where_its_layout_says() {
    needs_root!();
    btrfs("single", 2, 1);
}

#[test]
fn every_byte_of_btrfs_dup_is_where_its_layout_says() {
    needs_root!();
    btrfs("dup", 1, 2);
}

#[test]
fn every_byte_of_btrfs_raid0_is_where_its_layout_says() {
    needs_root!();
    btrfs("raid0", 3, 1);
}

#[test]
fn every_byte_of_btrfs_raid1_is_where_its_layout_says() {
    needs_root!();
    btrfs("raid1", 3, 2);
}

#[test]
fn every_byte_of_btrfs_raid1c3_is_where_its_layout_says() {
    needs_root!();
    btrfs("raid1c3", 4, 3);
}

#[test]
fn every_byte_of_btrfs_raid1c4_is_where_its_layout_says() {
    needs_root!();
    btrfs("raid1c4", 4, 4);
}

#[test]
fn every_byte_of_btrfs_raid10_is_where_its_layout_says() {
    needs_root!();
    btrfs("raid10", 4, 2);
}

#[test]
fn every_byte_of_btrfs_raid5_is_where_its_layout_says() {
    needs_root!();
    btrfs("raid5", 4, 1);
}

#[test]
fn every_byte_of_btrfs_raid6_is_where_its_layout_says() {
    needs_root!();
    btrfs("raid6", 5, 1);
}

/// One device is taken away while the pool is not mounted, which is mounted degraded.
fn degraded(profile: &str, n: usize, copies: u64) {
    let mut rig = Rig::new();
    let disks = rig.disks(n);
    let mut args = vec!["-q", "-f", "-d", profile, "-m", "raid1"];
    args.extend(disks.iter().map(String::as_str));
    run("mkfs.btrfs", &args);
    let root = rig.mount(&disks[0], "mnt", &[]);
    let file = fill(&root);
    rig.undo_last();
    // The second one: its loop device goes, and what its file says with it.
    let lost = rig.undo.iter().position(|(_, a)| a.contains(&disks[1])).unwrap();
    let (program, lost) = rig.undo.remove(lost);
    // By name: other tests have pools, too.
    run("btrfs", &["device", "scan", "--forget", &disks[1]]);
    run(program, &lost.iter().map(String::as_str).collect::<Vec<_>>());
    let others: Vec<&String> = disks.iter().filter(|d| **d != disks[1]).collect();
    for d in &others {
        run("btrfs", &["device", "scan", d]);
    }
    rig.mount(others[0], "mnt", &["-o", "degraded"]);
    let (layout, verified) = proven(&file, copies, &LayoutOptions::default());
    let missing: Vec<_> = layout.per_disk.iter().filter(|d| d.missing).collect();
    assert_eq!(missing.len(), 1, "{:?}", layout.per_disk);
    assert!(missing[0].disk.contains("missing") && missing[0].bytes > 0, "{missing:?}");
    let special = &layout.special;
    assert_eq!(special.degraded_bytes, missing[0].bytes, "{profile}");
    let skipped: u64 = verified.unchecked.iter().map(|u| u.bytes).sum();
    assert!(skipped > 0 && verified.unchecked.len() == 1, "{:?}", verified.unchecked);
    if copies == 1 {
        // What was on it is the exclusive or of what the others hold: compared too.
        assert_eq!(special.rebuilt_bytes, special.degraded_bytes);
        assert_eq!(verified.rebuilt_bytes, skipped, "{profile}");
        assert!(layout.extents.iter().any(|e| !e.rebuilt_from.is_empty()));
    } else {
        assert_eq!((special.rebuilt_bytes, special.lost_bytes), (0, 0), "{profile}");
    }
}

#[test]
fn a_degraded_btrfs_raid1_has_one_copy_less() {
    needs_root!();
    degraded("raid1", 3, 2);
}

#[test]
fn a_degraded_btrfs_raid10_has_one_copy_less() {
    needs_root!();
    degraded("raid10", 4, 2);
}

#[test]
fn a_degraded_btrfs_raid5_is_read_from_the_places_that_are_named() {
    needs_root!();
    degraded("raid5", 4, 1);
}

#[test]
fn a_degraded_btrfs_raid6_is_read_from_the_places_that_are_named() {
    needs_root!();
    degraded("raid6", 5, 1);
}

#[test]
fn a_pool_of_mixed_profiles_is_exact_chunk_by_chunk() {
    needs_root!();
    let mut rig = Rig::new();
    let disks = rig.disks(3);
    let mut args = vec!["-q", "-f", "-d", "single", "-m", "raid1"];
    args.extend(disks.iter().map(String::as_str));
    run("mkfs.btrfs", &args);
    let root = rig.mount(&disks[0], "mnt", &[]);
    let file = fill(&root);
    proven(&file, 1, &LayoutOptions::default());
    let storage = storage();
    let before = storage.layout(&file).unwrap();
    run("btrfs", &["balance", "start", "-f", "-dconvert=raid1", root.to_str().unwrap()]);
    // The same handle sees the chunks that were made since, without being told.
    let after = storage.layout(&file).unwrap();
    storage.close();
    assert!(before.exact && after.exact, "{:?}", after.why_inexact);
    assert!(after.extents.iter().all(|e| e.copies.len() == 2));
    proven(&file, 2, &LayoutOptions::default());
}

#[test]
fn ext4_and_xfs_on_a_disk_on_a_partition_and_at_an_offset_are_exact() {
    needs_root!();
    for kind in ["ext4", "xfs"] {
        let mut rig = Rig::new();
        let whole = rig.disk("whole.img", DISK_BYTES);
        make(kind, &whole);
        let root = rig.mount(&whole, "whole", &[]);
        let file = fill(&root);
        let (layout, _) = proven(&file, 1, &LayoutOptions::default());
        assert_eq!(layout.per_disk.len(), 1);
        assert_eq!(layout.per_disk[0].disk, names(std::slice::from_ref(&whole))[0]);
        // A hole has no place: the file is longer than what is listed.
        let listed: u64 = layout.extents.iter().map(|e| e.length_bytes).sum();
        assert!(listed + 2 * MIB < layout.size_bytes);

        // A partition: by the kernel's own call, as it may have no parser for tables.
        let disk = rig.disk("parted.img", DISK_BYTES);
        let added = attempt("addpart", &[&disk, "1", "4096", &((DISK_BYTES - 8 * MIB) / 512).to_string()]);
        if let Err(why) = added {
            writeln!(std::io::stderr(), "skipped: partitions: {why}").unwrap();
            continue;
        }
        rig.undo.push(("delpart", vec![disk.clone(), "1".to_owned()]));
        let partition = format!("{disk}p1");
        make(kind, &partition);
        let root = rig.mount(&partition, "parted", &[]);
        let file = fill(&root);
        let (layout, _) = proven(&file, 1, &LayoutOptions::default());
        assert_eq!(layout.per_disk[0].disk, names(std::slice::from_ref(&disk))[0]);
        assert!(layout.extents[0].copies[0][0].disk_offset >= 2 * MIB);
    }
}

fn make(kind: &str, device: &str) {
    match kind {
        "ext4" => run("mkfs.ext4", &["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", device]),
        _ => run("mkfs.xfs", &["-q", "-f", device]),
    };
}

#[test]
fn a_loop_device_in_a_filesystem_on_loop_devices_is_followed_down_to_those() {
    needs_root!();
    let mut rig = Rig::new();
    let lower = rig.disks(2);
    let mut args = vec!["-q", "-f", "-d", "raid0", "-m", "raid1"];
    args.extend(lower.iter().map(String::as_str));
    run("mkfs.btrfs", &args);
    let outer = rig.mount(&lower[0], "outer", &["-o", "nodatacow"]);
    // One image at an offset within its file, so that both shifts count.
    let image = outer.join("image");
    File::create(&image).unwrap().set_len(310 * MIB).unwrap();
    let upper = rig.loop_of(&image, &["--offset", "1048576"]);
    make("ext4", &upper);
    let inner = rig.mount(&upper, "inner", &[]);
    let file = fill(&inner);
    let (top, _) = proven(&file, 1, &LayoutOptions::default());
    assert_eq!(top.per_disk[0].disk, names(std::slice::from_ref(&upper))[0]);
    // Through it, to the disks that its image is on.
    let (deep, _) = proven(&file, 1, &LayoutOptions { through_loops: 1, ..LayoutOptions::default() });
    let on: Vec<String> = deep.per_disk.iter().filter(|d| d.bytes > 0).map(|d| d.disk.clone()).collect();
    assert_eq!(on, names(&lower));
    // And through those, to what the images of the test are on, which may not be a disk that can be told.
    let all = layout_of(&file, &LayoutOptions { through_loops: 8, ..LayoutOptions::default() });
    let bottom: Vec<&str> = all.per_disk.iter().map(|d| d.disk.as_str()).collect();
    assert!(!all.exact || !bottom.iter().any(|d| names(&lower).contains(&(*d).to_owned())), "{bottom:?}");
}

#[test]
fn files_that_are_not_simply_somewhere_say_so() {
    needs_root!();
    let mut rig = Rig::new();
    let disks = rig.disks(1);
    run("mkfs.btrfs", &["-q", "-f", "-d", "single", "-m", "dup", &disks[0]]);
    let root = rig.mount(&disks[0], "mnt", &[]);
    let options = LayoutOptions::default();
    // Compressed.
    let packed = root.join("packed");
    File::create(&packed).unwrap();
    run("btrfs", &["property", "set", packed.to_str().unwrap(), "compression", "zlib"]);
    fs::write(&packed, vec![b'a'; 1 << 20]).unwrap();
    let got = layout_of(&packed, &options);
    assert!(!got.exact && got.why_inexact.as_deref().unwrap().contains("compressed"), "{got:?}");
    assert_eq!(got.special.compressed_bytes, 1 << 20);
    // Inline.
    let small = root.join("small");
    fs::write(&small, b"a few bytes").unwrap();
    let got = layout_of(&small, &options);
    assert!(!got.exact && got.why_inexact.as_deref().unwrap().contains("inline"), "{got:?}");
    assert!(got.special.inline_bytes > 0 && got.extents.is_empty());
    // Shared with another file.
    let film = fill(&root);
    let copy = root.join("copy.mkv");
    run("cp", &["--reflink=always", film.to_str().unwrap(), copy.to_str().unwrap()]);
    let (a, b) = (layout_of(&film, &options), layout_of(&copy, &options));
    assert_eq!(a.extents, b.extents);
    assert!(a.special.shared_bytes > 20 * MIB && a.exact);
    // Set aside, never written: zeros that no disk is asked for.
    let aside = root.join("aside");
    File::create(&aside).unwrap();
    run("fallocate", &["-l", "8MiB", aside.to_str().unwrap()]);
    let got = layout_of(&aside, &options);
    assert!(got.exact && got.extents.is_empty(), "{got:?}");
    assert_eq!(got.special.unwritten_bytes, 8 * MIB);
    // Empty, and nothing but a hole.
    let empty = root.join("empty");
    File::create(&empty).unwrap().set_len(5 * MIB).unwrap();
    let got = layout_of(&empty, &options);
    assert_eq!((got.exact, got.fragments, got.size_bytes), (true, 0, 5 * MIB));
}

#[test]
fn a_file_that_grows_is_mapped_anew() {
    needs_root!();
    let mut rig = Rig::new();
    let disk = rig.disk("disk.img", DISK_BYTES);
    make("ext4", &disk);
    let root = rig.mount(&disk, "mnt", &[]);
    let path = root.join("growing.ts");
    let mut file = File::create(&path).unwrap();
    let storage = storage();
    let mut last = 0;
    for i in 0..4 {
        // Not synced: the layout makes the filesystem find a place first.
        file.write_all(&noise(i, 3 * MIB)).unwrap();
        let got = storage.layout(&path).unwrap();
        assert!(got.exact, "{:?}", got.why_inexact);
        let on_disk: u64 = got.per_disk.iter().map(|d| d.bytes).sum();
        assert!(on_disk >= (i + 1) * 3 * MIB && on_disk > last, "{on_disk}");
        last = on_disk;
    }
    storage.close();
}

#[test]
fn a_file_on_mergerfs_lies_where_its_branch_does() {
    needs_root!();
    let mut rig = Rig::new();
    let disks = rig.disks(2);
    let mut branches = Vec::new();
    for (i, disk) in disks.iter().enumerate() {
        make("ext4", disk);
        branches.push(rig.mount(disk, &format!("branch{i}"), &[]));
    }
    let file = fill(&branches[1]);
    let at = rig.path("merged");
    fs::create_dir(&at).unwrap();
    let list = format!("{}:{}", branches[0].display(), branches[1].display());
    if let Err(why) = attempt("mergerfs", &["-o", "use_ino", &list, at.to_str().unwrap()]) {
        writeln!(std::io::stderr(), "skipped: {why}").unwrap();
        return;
    }
    rig.undo.push(("umount", vec![at.to_str().unwrap().to_owned()]));
    let view = at.join("film.mkv");
    let (layout, _) = proven(&view, 1, &LayoutOptions::default());
    assert_eq!((layout.file.as_path(), layout.via.as_deref()), (view.as_path(), Some(file.as_path())));
    let on: Vec<&str> = layout.per_disk.iter().map(|d| d.disk.as_str()).collect();
    assert_eq!(on, [names(&disks)[1].as_str()]);
}

#[test]
fn a_file_on_an_overlay_lies_where_its_layer_does() {
    needs_root!();
    let mut rig = Rig::new();
    let disks = rig.disks(2);
    let mut layers = Vec::new();
    for (i, disk) in disks.iter().enumerate() {
        make("ext4", disk);
        layers.push(rig.mount(disk, &format!("layer {i}"), &[]));
    }
    let (lower, upper) = (layers[0].join("low"), layers[1].join("up"));
    for dir in [&lower, &upper, &layers[1].join("work")] {
        fs::create_dir(dir).unwrap();
    }
    fs::create_dir(lower.join("films")).unwrap();
    let file = fill(&lower.join("films"));
    let options = format!(
        "lowerdir={},upperdir={},workdir={}",
        lower.display(),
        upper.display(),
        layers[1].join("work").display()
    );
    let at = rig.path("merged");
    fs::create_dir(&at).unwrap();
    if let Err(why) = attempt("mount", &["-t", "overlay", "spindle", "-o", &options, at.to_str().unwrap()]) {
        writeln!(std::io::stderr(), "skipped: {why}").unwrap();
        return;
    }
    rig.undo.push(("umount", vec![at.to_str().unwrap().to_owned()]));
    let view = at.join("films/film.mkv");
    let (layout, _) = proven(&view, 1, &LayoutOptions::default());
    assert_eq!(layout.via.as_deref(), Some(file.as_path()));
    assert_eq!(layout.per_disk[0].disk, names(&disks)[0]);
    // Changed through the overlay it is copied up, to the other disk.
    File::options().write(true).open(&view).unwrap().write_all_at(b"changed", 0).unwrap();
    let (layout, _) = proven(&view, 1, &LayoutOptions::default());
    assert_eq!(layout.via.as_deref(), Some(upper.join("films/film.mkv").as_path()));
    assert_eq!(layout.per_disk[0].disk, names(&disks)[1]);
}

#[test]
fn what_is_not_on_a_disk_here_is_no_failure() {
    let Ok(file) = tempfile::NamedTempFile::new_in("/dev/shm") else { return };
    fs::write(file.path(), vec![1_u8; 100_000]).unwrap();
    let got = layout_of(file.path(), &LayoutOptions::default());
    assert_eq!((got.exact, got.extents.len(), got.per_disk.len()), (false, 0, 0));
    assert!(got.why_inexact.unwrap().contains("in memory"));
}

/// A layout that is wrong is found to be: the comparison itself can fail.
#[test]
fn a_disk_that_was_changed_below_the_filesystem_is_noticed() {
    needs_root!();
    let mut rig = Rig::new();
    let disk = rig.disk("disk.img", DISK_BYTES);
    make("ext4", &disk);
    let root = rig.mount(&disk, "mnt", &[]);
    let file = fill(&root);
    let (layout, _) = proven(&file, 1, &LayoutOptions::default());
    let piece = &layout.extents[0].copies[0][0];
    let raw = File::options().write(true).open(rig.path("disk.img")).unwrap();
    raw.write_all_at(b"scratch", piece.disk_offset + 8192).unwrap();
    raw.sync_all().unwrap();
    let storage = storage();
    let verified = storage.verify_layout(&file, &LayoutOptions::default()).unwrap();
    storage.close();
    assert!(verified.different_bytes > 0);
    assert_eq!(verified.differences.len(), 1);
    assert_eq!(verified.differences[0].disk, piece.disk);
}
