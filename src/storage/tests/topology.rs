//! The topology of real filesystems: btrfs in its profiles, whole and degraded, ext4 and xfs on partitions of loop devices,
//! mergerfs, overlays, bind mounts, memory.
//!
//! Needs root and loop devices; what is missing is said, and the test passes.

#![expect(clippy::unwrap_used, reason = "tests: a failure is a failure")]

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use spindle_base::clock::SystemClock;
use spindle_storage::{Config, HelperMode, LayoutKind, Node, Storage, Topology};

fn run(program: &str, args: &[&str]) -> String {
    let out = Command::new(program).args(args).output().unwrap_or_else(|e| panic!("{program}: {e}"));
    assert!(out.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).trim().to_owned()
}

fn has(program: &str) -> bool {
    ["/usr/bin", "/usr/sbin", "/bin", "/sbin"].iter().any(|d| Path::new(d).join(program).exists())
}

fn skip(why: &str) {
    std::io::stderr().write_all(format!("skipped: {why}\n").as_bytes()).unwrap();
}

fn cannot() -> bool {
    let why = if !rustix::process::geteuid().is_root() {
        "needs root"
    } else if !Path::new("/dev/loop-control").exists() {
        "needs loop devices"
    } else {
        return false;
    };
    skip(why);
    true
}

/// A folder with loop devices and mounts; everything that was done to the machine is undone on drop, last first.
struct Rig {
    dir: tempfile::TempDir,
    loops: Vec<String>,
    undo: Vec<Vec<String>>,
}

impl Rig {
    fn new(loops: usize, mib: u64) -> Self {
        let dir = tempfile::Builder::new().prefix("spindle-topology-").tempdir_in("/var/tmp").unwrap();
        let mut rig = Self { dir, loops: Vec::new(), undo: Vec::new() };
        for i in 0..loops {
            let image = rig.at(&format!("disk{i}.img"));
            let device = rig.looped(&image, mib);
            rig.loops.push(device);
        }
        rig
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn looped(&mut self, image: &Path, mib: u64) -> String {
        File::create(image).unwrap().set_len(mib << 20).unwrap();
        let device = run("losetup", &["-f", "--show", image.to_str().unwrap()]);
        self.later(&["losetup", "-d", &device]);
        device
    }

    fn later(&mut self, command: &[&str]) {
        self.undo.push(command.iter().map(|w| (*w).to_owned()).collect());
    }

    fn mount(&mut self, args: &[&str], at: &str) -> PathBuf {
        let at = self.at(at);
        fs::create_dir_all(&at).unwrap();
        let mut all = args.to_vec();
        all.push(at.to_str().unwrap());
        run("mount", &all);
        self.later(&["umount", at.to_str().unwrap()]);
        at
    }

    fn names(&self) -> Vec<String> {
        self.loops.iter().map(|l| l.trim_start_matches("/dev/").to_owned()).collect()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        for command in self.undo.drain(..).rev() {
            let _ = Command::new(&command[0]).args(&command[1..]).status();
        }
    }
}

fn topology(path: &Path) -> Topology {
    let config = Config { helper: HelperMode::Off, ..Config::default() };
    let storage = Storage::start(config, Arc::new(SystemClock)).unwrap();
    let found = storage.topology(path);
    // The page's way finds the same tree.
    let known = storage.known_volume(path);
    storage.close();
    let found = found.unwrap();
    if !path.is_file() {
        let known = known.topology.unwrap();
        assert_eq!((&known.disks, known.columns, known.copies), (&found.disks, found.columns, found.copies));
    }
    found
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}

fn codes(t: &Topology) -> Vec<&str> {
    t.advice.iter().map(|a| a.code.as_str()).collect()
}

#[test]
fn btrfs_in_every_profile_has_the_columns_and_copies_of_the_rule() {
    if cannot() {
        return;
    }
    use LayoutKind::{Mirror, Parity, Simple};
    for (profile, n, want) in [
        ("single", 3, (1, 1, Simple)),
        ("dup", 1, (1, 2, Mirror)),
        ("raid0", 3, (3, 1, Simple)),
        ("raid1", 3, (1, 2, Mirror)),
        ("raid1c3", 3, (1, 3, Mirror)),
        ("raid1c4", 4, (1, 4, Mirror)),
        ("raid10", 4, (2, 2, Mirror)),
        ("raid5", 3, (2, 1, Parity)),
        ("raid6", 4, (2, 1, Parity)),
    ] {
        let mut rig = Rig::new(n, 320);
        let meta = if n > 1 { "raid1" } else { "dup" };
        let mut args = vec!["-q", "-f", "-d", profile, "-m", meta];
        let loops = rig.loops.clone();
        args.extend(loops.iter().map(String::as_str));
        run("mkfs.btrfs", &args);
        let at = rig.mount(&[&loops[0]], "mnt");
        let file = at.join("a");
        fs::write(&file, vec![7_u8; 1 << 20]).unwrap();
        for path in [&at, &file] {
            let top = topology(path);
            assert_eq!((top.columns, top.copies, top.layout), want, "{profile}");
            assert_eq!(sorted(top.disks.clone()), sorted(rig.names()), "{profile}");
            assert_eq!((top.node.level.as_deref(), top.node.degraded), (Some(profile), false));
            assert!(
                top.node.children.iter().all(|c| c.kind == "loop" && c.backing_file.is_some()),
                "{profile}"
            );
        }
    }
}

#[test]
fn a_btrfs_mounted_without_a_device_says_which() {
    if cannot() {
        return;
    }
    let mut rig = Rig::new(2, 320);
    let loops = rig.loops.clone();
    run("mkfs.btrfs", &["-q", "-f", "-d", "raid1", "-m", "raid1", &loops[0], &loops[1]]);
    // The kernel remembers devices that were registered before; this one alone is forgotten, others may be on their way
    // to a mount.
    run("btrfs", &["device", "scan", "--forget", &loops[1]]);
    run("losetup", &["-d", &loops[1]]);
    rig.undo.pop();
    rig.loops.truncate(1);
    let at = rig.mount(&["-o", "degraded", &loops[0]], "mnt");
    let top = topology(&at);
    assert!(top.node.degraded && codes(&top).contains(&"degraded"), "{top:?}");
    assert_eq!((top.copies, top.disks.len()), (1, 1));
    assert!(top.node.children.iter().any(|c| c.member_state.as_deref() == Some("missing")), "{top:?}");
}

#[test]
fn a_conversion_that_was_broken_off_shows_both_profiles() {
    if cannot() {
        return;
    }
    let mut rig = Rig::new(2, 512);
    let loops = rig.loops.clone();
    run("mkfs.btrfs", &["-q", "-f", "-d", "single", "-m", "raid1", &loops[0], &loops[1]]);
    let at = rig.mount(&[&loops[0]], "mnt");
    fs::write(at.join("a"), vec![7_u8; 100 << 20]).unwrap();
    run("sync", &[]);
    run("btrfs", &["balance", "start", "-f", "-dconvert=raid1,limit=1", at.to_str().unwrap()]);
    fs::write(at.join("b"), vec![7_u8; 100 << 20]).unwrap();
    run("sync", &[]);
    let top = topology(&at);
    if top.node.arrangement.is_none() {
        // One chunk was all there was: it is converted whole.
        assert_eq!(top.node.level.as_deref(), Some("raid1"));
        return;
    }
    assert_eq!(top.layout, LayoutKind::Mixed);
    assert!(codes(&top).contains(&"several_profiles"));
}

#[test]
fn partitions_loops_and_bind_mounts_lead_down_to_the_disk() {
    if cannot() {
        return;
    }
    for kind in ["ext4", "xfs"] {
        if !has(&format!("mkfs.{kind}")) {
            skip(&format!("mkfs.{kind} is not installed"));
            continue;
        }
        let mut rig = Rig::new(1, 512);
        let disk = rig.loops[0].clone();
        // This needs no partition table: the kernel is told where a partition is (BLKPG).
        run("addpart", &[&disk, "1", "2048", "900000"]);
        let part = format!("{disk}p1");
        if !Path::new(&part).exists() {
            skip("no device node appears for a partition here");
            run("delpart", &[&disk, "1"]);
            continue;
        }
        rig.later(&["delpart", &disk, "1"]);
        run(&format!("mkfs.{kind}"), &[if kind == "ext4" { "-q" } else { "-f" }, &part]);
        let at = rig.mount(&[&part], "mnt");
        fs::create_dir(at.join("films")).unwrap();
        let films = at.join("films");
        let bound = rig.mount(&["--bind", films.to_str().unwrap()], "bound");
        // A filesystem in a file on it.
        let inner_image = films.join("inner.img");
        let inner = rig.looped(&inner_image, 64);
        run("mkfs.ext4", &["-q", &inner]);
        let within = rig.mount(&[&inner], "inner");
        let (a, b, c) = (topology(&at), topology(&bound), topology(&within));
        assert_eq!((a.node.kind.as_str(), a.node.start_bytes), ("partition", Some(1 << 20)), "{a:?}");
        assert_eq!((a.node.children[0].kind.as_str(), &a.disks), ("loop", &rig.names()));
        assert_eq!((a.filesystem.kind.as_str(), &a.node), (kind, &b.node));
        let uuid = run("blkid", &["-o", "value", "-s", "UUID", &part]);
        assert!(a.filesystem.uuid.as_deref().is_none_or(|u| u == uuid), "{:?}, not {uuid}", a.filesystem);
        // The inner loop counts as a disk; its file is on the partition.
        assert_eq!(c.disks, [inner.trim_start_matches("/dev/").to_owned()]);
        assert_eq!(c.node.children[0].kind, "partition", "{c:?}");
    }
}

#[test]
fn mergerfs_is_asked_for_its_branches_and_for_the_branch_of_a_file() {
    if cannot() {
        return;
    }
    if !has("mergerfs") || !Path::new("/dev/fuse").exists() {
        return skip("mergerfs is not installed, or FUSE is not there");
    }
    let mut rig = Rig::new(2, 512);
    let loops = rig.loops.clone();
    let mut branches = Vec::new();
    for (i, l) in loops.iter().enumerate() {
        run("mkfs.ext4", &["-q", l]);
        branches.push(rig.mount(&[l], &format!("branch{i}")));
    }
    let pool = rig.at("pool");
    fs::create_dir(&pool).unwrap();
    let list = format!("{}=RW:{}=NC", branches[0].display(), branches[1].display());
    run("mergerfs", &["-o", "category.create=epmfs", &list, pool.to_str().unwrap()]);
    rig.later(&["umount", pool.to_str().unwrap()]);
    fs::write(branches[1].join("film"), "x").unwrap();
    let (whole, file) = (topology(&pool), topology(&pool.join("film")));
    assert_eq!(sorted(whole.disks.clone()), sorted(rig.names()));
    assert_eq!((whole.node.kind.as_str(), whole.columns, whole.copies), ("mergerfs", 1, 1));
    assert_eq!(whole.node.children[1].state.as_deref(), Some("branch NC"));
    assert!(codes(&whole).contains(&"one_disk_per_file"));
    assert_eq!(file.disks, [rig.names()[1].clone()]);
}

#[test]
fn overlays_show_their_layers_and_a_file_its_own() {
    if cannot() {
        return;
    }
    let mut rig = Rig::new(2, 64);
    let loops = rig.loops.clone();
    for l in &loops {
        run("mkfs.ext4", &["-q", l]);
    }
    let (lower, upper) = (rig.mount(&[&loops[0]], "lower"), rig.mount(&[&loops[1]], "upper"));
    for dir in ["up", "work"] {
        fs::create_dir(upper.join(dir)).unwrap();
    }
    fs::write(lower.join("low"), "x").unwrap();
    let options = format!(
        "lowerdir={},upperdir={}/up,workdir={}/work",
        lower.display(),
        upper.display(),
        upper.display()
    );
    let at = rig.mount(&["-t", "overlay", "overlay", "-o", &options], "merged");
    fs::write(at.join("high"), "x").unwrap();
    let (all, low, high) = (topology(&at), topology(&at.join("low")), topology(&at.join("high")));
    assert_eq!(sorted(all.disks), sorted(rig.names()));
    assert_eq!((low.disks, high.disks), (vec![rig.names()[0].clone()], vec![rig.names()[1].clone()]));
}

/// Requests that a loop device has read, and had to be asked for.
fn reads(device: &str) -> String {
    let name = device.trim_start_matches("/dev/");
    let stat = fs::read_to_string(format!("/sys/block/{name}/stat")).unwrap();
    stat.split_whitespace().next().unwrap().to_owned()
}

#[test]
fn a_page_view_reads_nothing_from_a_disk_whose_folders_are_not_in_memory() {
    if cannot() {
        return;
    }
    for (kind, options) in [
        ("ext4", &["-q", "-E", "lazy_itable_init=0,lazy_journal_init=0"][..]),
        ("xfs", &["-q", "-f"][..]),
        ("btrfs", &["-q", "-f"][..]),
    ] {
        if !has(&format!("mkfs.{kind}")) {
            skip(&format!("mkfs.{kind} is not installed"));
            continue;
        }
        let mut rig = Rig::new(1, 320);
        let disk = rig.loops[0].clone();
        run(&format!("mkfs.{kind}"), &[options, &[disk.as_str()]].concat());
        let at = rig.mount(&[&disk], "first");
        let deep = "films/a/b/c";
        fs::create_dir_all(at.join(deep)).unwrap();
        // Folders that do not fit into their inodes.
        for folder in [&at, &at.join("films")] {
            for i in 0..400 {
                fs::write(folder.join(format!("a film with a long name {i}")), "").unwrap();
            }
        }
        run("umount", &[at.to_str().unwrap()]);
        rig.undo.pop();
        // Mounted anew, none of its folders is in memory.
        let at = rig.mount(&["-o", "noatime", &disk], "second");
        let config = Config { helper: HelperMode::Off, ..Config::default() };
        let storage = Storage::start(config, Arc::new(SystemClock)).unwrap();
        let before = reads(&disk);
        for _ in 0..20 {
            let seen = storage.known_volume(&at.join(deep)).topology.unwrap();
            assert_eq!(seen.disks, rig.names());
        }
        let after = reads(&disk);
        storage.close();
        assert_eq!(before, after, "a page view read from the {kind}");
        // The test can fail: looking the name up does read.
        assert!(at.join(deep).is_dir());
        assert_ne!(before, reads(&disk), "the folders were in memory: this test shows nothing of {kind}");
    }
}

#[test]
fn a_new_mount_is_seen_without_being_asked_for() {
    if cannot() {
        return;
    }
    let mut rig = Rig::new(1, 64);
    let disk = rig.loops[0].clone();
    run("mkfs.ext4", &["-q", &disk]);
    let at = rig.at("mnt");
    fs::create_dir(&at).unwrap();
    let storage =
        Storage::start(Config { helper: HelperMode::Off, ..Config::default() }, Arc::new(SystemClock))
            .unwrap();
    let first = storage.known_volume(&at);
    rig.mount(&[&disk], "mnt");
    let want = rig.names();
    let deadline = spindle_base::clock::instant() + std::time::Duration::from_secs(20);
    let is_seen = loop {
        if storage.known_volume(&at).topology.is_some_and(|t| t.disks == want) {
            break true;
        }
        if spindle_base::clock::instant() > deadline {
            break false;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    };
    storage.close();
    assert!(is_seen, "{first:?}");
}

#[test]
fn memory_is_no_disk() {
    if cannot() {
        return;
    }
    let mut rig = Rig::new(0, 0);
    let at = rig.mount(&["-t", "tmpfs", "tmpfs"], "mem");
    let top = topology(&at);
    assert_eq!((top.node.kind.as_str(), top.disks.len()), ("memory", 0));
    assert!(top.node.why.is_some());
}

#[test]
fn the_disk_under_this_test_is_named() {
    let top = topology(&std::env::current_dir().unwrap());
    fn first(node: &Node) -> &Node {
        node.children.first().map_or(node, first)
    }
    assert!(!top.disks.is_empty() || first(&top.node).why.is_some(), "{top:?}");
}
