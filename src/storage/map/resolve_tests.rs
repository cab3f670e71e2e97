//! Stacks as sysfs and the device-mapper show them, on written trees.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::symlink;

use super::*;
use crate::map::piece::{Piece, Place, Source, State};
use crate::map::{Hit, Run};

/// Makes a tree as the kernel does: directories under `devices`, links under `class`, `dev` and `slaves`.
struct Tree(tempfile::TempDir);

impl Tree {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn sys(&self) -> Sysfs {
        Sysfs::new(self.0.path())
    }

    fn dir(&self, at: &str) -> PathBuf {
        self.0.path().join("devices").join(at)
    }

    fn put(&self, at: &str, files: &[(&str, &str)]) {
        for (name, text) in files {
            let file = self.dir(at).join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, format!("{text}\n")).unwrap();
        }
    }

    fn device(&self, at: &str, dev: &str, files: &[(&str, &str)], slaves: &[&str]) {
        self.put(at, files);
        self.put(at, &[("dev", dev)]);
        let name = Path::new(at).file_name().unwrap();
        for link in [self.0.path().join("class/block").join(name), self.0.path().join("dev/block").join(dev)]
        {
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            symlink(self.dir(at), link).unwrap();
        }
        for slave in slaves {
            let link = self.dir(at).join("slaves").join(Path::new(slave).file_name().unwrap());
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            symlink(self.dir(slave), link).unwrap();
        }
    }

    fn disks(&self, n: usize) -> Vec<String> {
        (0..n)
            .map(|i| {
                let name = format!("sd{}", char::from(b'a' + u8::try_from(i).unwrap()));
                self.device(&name, &format!("8:{}", i * 16), &[("size", "2000000")], &[]);
                name
            })
            .collect()
    }

    fn member(&self, array: &str, device: &str, slot: &str, state: &str, more: &[(&str, &str)]) {
        let at = format!("{array}/md/dev-{}", Path::new(device).file_name().unwrap().to_str().unwrap());
        self.put(&at, &[("slot", slot), ("state", state), ("offset", "2048"), ("size", "500000")]);
        self.put(&at, more);
        symlink(self.dir(device), self.dir(&at).join("block")).unwrap();
    }
}

#[derive(Default)]
struct Tables(HashMap<(u32, u32), Table>);

impl Tables {
    fn with(mut self, device: (u32, u32), targets: &[(u64, u64, &str, &str, &str)]) -> Self {
        let targets = targets
            .iter()
            .map(|(start, len, word, text, status)| Target {
                start_bytes: start * 512,
                len_bytes: len * 512,
                kind: crate::sys::dm::target::parse(word, text),
                status: (!status.is_empty()).then(|| (*status).to_owned()),
            })
            .collect();
        self.0.insert(device, Table { name: "x".into(), uuid: String::new(), targets });
        self
    }
}

impl Ask for Tables {
    fn table(&self, device: (u32, u32)) -> Result<Table, String> {
        self.0.get(&device).cloned().ok_or_else(|| "it is not permitted".to_owned())
    }

    fn backing(&self, _: &mut Resolver<'_>, _: &Path, _: u32) -> Result<Option<Arc<Node>>, String> {
        Ok(None)
    }
}

fn resolve(tree: &Tree, tables: &Tables, at: &str) -> (Arc<Node>, Found) {
    let sys = tree.sys();
    let mut resolver = Resolver::new(&sys, tables);
    let node = resolver.device(&fs::canonicalize(tree.dir(at)).unwrap());
    (node, resolver.finish())
}

fn at(node: &Node, offset: u64, len_bytes: u64) -> Piece {
    let mut out = Vec::new();
    node.walk(Run { at: offset, offset, len_bytes, with_rows: false }, &mut out);
    out.remove(0)
}

fn places(piece: &Piece, found: &Found) -> Vec<(String, u64)> {
    let name = |d: usize| match d.checked_sub(Names::GONE) {
        Some(g) => found.gone[g].to_string(),
        None => found.leaves[d].name.to_string(),
    };
    piece.copies.iter().map(|c| (name(c.place.disk), c.place.offset)).collect()
}

fn array(tree: &Tree, name: &str, dev: &str, level: &str, layout: &str, n: &str, slaves: &[&str]) {
    let files = [
        ("size", "1000000"),
        ("md/level", level),
        ("md/layout", layout),
        ("md/chunk_size", "65536"),
        ("md/raid_disks", n),
        ("md/component_size", "500000"),
        ("md/array_state", "clean"),
        ("md/degraded", "0"),
        ("md/reshape_position", "none"),
    ];
    tree.device(name, dev, &files, slaves);
}

#[test]
fn a_volume_in_two_parts_over_a_mirror_of_partitions_is_followed_to_the_disks() {
    let tree = Tree::new();
    tree.disks(2);
    for (disk, dev) in [("sda", "8:1"), ("sdb", "8:17")] {
        let files = [("size", "1600000"), ("start", "4096"), ("partition", "1")];
        tree.device(&format!("{disk}/{disk}1"), dev, &files, &[]);
    }
    array(&tree, "md0", "9:0", "raid1", "0", "2", &["sda/sda1", "sdb/sdb1"]);
    tree.member("md0", "sda/sda1", "0", "in_sync", &[]);
    tree.member("md0", "sdb/sdb1", "1", "in_sync,write_mostly", &[]);
    tree.device("dm-0", "252:0", &[("size", "300"), ("dm/name", "vg-films")], &["md0"]);
    let tables = Tables::default()
        .with((252, 0), &[(0, 100, "linear", "9:0 5000", ""), (100, 200, "linear", "9:0 1000", "")]);
    let (node, found) = resolve(&tree, &tables, "dm-0");
    // 4096 of the partition, 2048 of md's superblock, then the volume's own place.
    let piece = at(&node, 0, 512);
    let sector = (4096 + 2048 + 5000) * 512;
    assert_eq!(places(&piece, &found), [("sda".to_owned(), sector), ("sdb".to_owned(), sector)]);
    assert_eq!(piece.copies[1].state, State::WriteMostly);
    assert_eq!(piece.source(None), Source::One(Place { disk: 0, offset: sector }));
    let piece = at(&node, 150 * 512, 512);
    assert_eq!(places(&piece, &found)[0].1, (4096 + 2048 + 1000 + 50) * 512);
    let mut back = Vec::new();
    node.find(1, (4096 + 2048 + 1000 + 50) * 512 + 7, &mut back);
    assert_eq!(back[0], Hit { offset: 150 * 512 + 7, len_bytes: 1, role: crate::map::piece::Role::Data });
}

#[test]
fn a_missing_and_a_recovering_member_are_told_and_a_change_is_noticed() {
    let tree = Tree::new();
    tree.disks(3);
    array(&tree, "md0", "9:0", "raid5", "2", "3", &["sda", "sdb"]);
    tree.member("md0", "sda", "0", "in_sync", &[]);
    tree.member("md0", "sdb", "1", "spare", &[("recovery_start", "128")]);
    let (node, found) = resolve(&tree, &Tables::default(), "md0");
    assert_eq!(found.gone.iter().map(|g| &**g).collect::<Vec<_>>(), ["missing (slot 2 of md0)"]);
    // Left-symmetric: D0 D1 P. The second chunk is recovered as far as 64 KiB, its first row.
    assert_eq!(at(&node, 65536, 4096).copies[0].state, State::Readable);
    // Row 1: D3 P D2: the third chunk is on the missing one, row 2: P D4 D5.
    let lost = at(&node, 2 * 65536, 4096);
    assert_eq!(
        (lost.copies[0].state, lost.rebuild.len()),
        (State::Missing, 0),
        "two of three are not there yet"
    );
    assert!(found.stamps.changed().is_none());
    tree.put("md0/md", &[("array_state", "active")]);
    assert!(found.stamps.changed().is_none(), "a write is no change of where bytes lie");
    tree.put("md0/md/dev-sdb", &[("state", "in_sync")]);
    assert!(found.stamps.changed().is_some());
    let (node, found) = resolve(&tree, &Tables::default(), "md0");
    assert_eq!(at(&node, 2 * 65536, 4096).rebuild.len(), 2);
    tree.put("md0/md", &[("degraded", "2")]);
    assert!(found.stamps.changed().is_some());
}

#[test]
fn an_lvm_raid5_with_a_dead_image_is_computed_from_the_others() {
    let tree = Tree::new();
    tree.disks(3);
    let mut tables = Tables::default();
    for (i, disk) in ["sda", "sdb", "sdc"].iter().enumerate() {
        let (name, dev) = (format!("dm-{i}"), format!("252:{i}"));
        tree.device(&name, &dev, &[("size", "1000"), ("dm/name", "rimage")], &[disk]);
        let text = format!("8:{} 10240", i * 16);
        tables = tables.with((252, u32::try_from(i).unwrap()), &[(0, 1000, "linear", &text, "")]);
    }
    tree.device("dm-9", "252:9", &[("size", "1536"), ("dm/name", "vg-r5")], &["dm-0", "dm-1", "dm-2"]);
    let text = "raid5_ls 3 128 region_size 4096 3 252:20 252:0 252:21 252:1 252:22 252:2";
    let tables = tables.with((252, 9), &[(0, 1536, "raid", text, "raid5_ls 3 ADA 768/768 idle 0 0 -")]);
    let (node, found) = resolve(&tree, &tables, "dm-9");
    let first = at(&node, 0, 4096);
    assert_eq!(places(&first, &found), [("sda".to_owned(), 10240 * 512)]);
    let second = at(&node, 65536, 4096);
    assert_eq!(second.copies[0].state, State::Missing);
    let from: Vec<Place> = second.rebuild.iter().map(|(p, _)| *p).collect();
    assert_eq!(from, [0, 1].map(|disk| Place { disk, offset: 10240 * 512 }));
    assert_eq!(found.leaves[1].name.as_ref(), "sdc");
}

#[test]
fn what_may_be_in_a_cache_is_doubted_and_what_is_not_is_not() {
    let tree = Tree::new();
    tree.disks(2);
    tree.put("sda/bcache", &[("state", "no cache")]);
    tree.device("bcache0", "251:0", &[("size", "1999984")], &["sda"]);
    symlink(tree.dir("sda/bcache"), tree.dir("bcache0/bcache")).unwrap();
    let (node, found) = resolve(&tree, &Tables::default(), "bcache0");
    assert_eq!(places(&at(&node, 0, 4096), &found), [("sda".to_owned(), 8192)]);
    assert_eq!(at(&node, 0, 4096).doubt, None);
    // A cache is attached.
    tree.put("sda/bcache", &[("state", "clean")]);
    assert!(found.stamps.changed().is_some());
    symlink(tree.dir("sdb"), tree.dir("bcache0/slaves/sdb")).unwrap();
    let (node, found) = resolve(&tree, &Tables::default(), "bcache0");
    let doubted = at(&node, 0, 4096);
    assert_eq!(places(&doubted, &found), [("sda".to_owned(), 8192)]);
    assert!(doubted.doubt.unwrap().contains("(sdb)"));
    assert_eq!(found.leaves.len(), 2);
    let elsewhere: Vec<&str> = doubted.elsewhere.iter().map(|d| found.leaves[*d].name.as_ref()).collect();
    assert_eq!(elsewhere, ["sdb"]);

    tree.device("dm-0", "252:0", &[("size", "1000"), ("dm/name", "wc")], &["sda", "sdb"]);
    for (status, doubts) in
        [("0 500 500 0", false), ("0 500 490 0", true), ("-5 500 500 0", true), ("", true)]
    {
        let tables =
            Tables::default().with((252, 0), &[(0, 1000, "writecache", "s 8:0 8:16 4096 0", status)]);
        let (node, _) = resolve(&tree, &tables, "dm-0");
        assert_eq!(at(&node, 0, 4096).doubt.is_some(), doubts, "{status}");
    }
    for (status, doubts) in [("8 1/2 128 0/100 0", false), ("8 1/2 128 3/100 0", true)] {
        let tables =
            Tables::default().with((252, 0), &[(0, 1000, "cache", "8:16 8:16 8:0 128 0 smq 0", status)]);
        let (node, _) = resolve(&tree, &tables, "dm-0");
        assert_eq!(at(&node, 0, 4096).doubt.is_some(), doubts, "{status}");
    }
}

#[test]
fn what_cannot_be_told_names_the_disks_and_the_reason() {
    let tree = Tree::new();
    tree.disks(2);
    tree.device("dm-0", "252:0", &[("size", "1000"), ("dm/name", "vg-pool")], &["sda", "sdb"]);
    // No privilege.
    let (node, found) = resolve(&tree, &Tables::default(), "dm-0");
    let piece = at(&node, 0, 4096);
    assert!(piece.copies.is_empty());
    assert!(piece.doubt.unwrap().contains("vg-pool"));
    assert_eq!((node.disks(), found.leaves.len()), (vec![0, 1], 2));
    // A thin volume.
    tree.device("dm-1", "252:1", &[("size", "1000"), ("dm/name", "vg-thin")], &["dm-0"]);
    let tables = Tables::default()
        .with((252, 0), &[(0, 1000, "thin-pool", "8:16 8:0 128 0 0", "")])
        .with((252, 1), &[(0, 1000, "thin", "252:0 1", "")]);
    let (node, found) = resolve(&tree, &tables, "dm-1");
    assert!(at(&node, 0, 4096).doubt.unwrap().contains("thin volume"));
    assert_eq!((node.disks(), &*found.leaves[0].name), (vec![0], "sda"));
    // A target that nobody knows.
    let tables = Tables::default().with((252, 0), &[(0, 1000, "vdo", "V4 whatever", "")]);
    let (node, _) = resolve(&tree, &tables, "dm-0");
    assert!(at(&node, 0, 4096).doubt.unwrap().contains("`vdo`"));
    // An array of a level that is new, and one that does not run.
    array(&tree, "md7", "9:7", "raid77", "0", "2", &["sda", "sdb"]);
    let (node, _) = resolve(&tree, &Tables::default(), "md7");
    assert!(at(&node, 0, 4096).doubt.unwrap().contains("raid77"));
    tree.put("md7/md", &[("level", "raid1"), ("array_state", "inactive")]);
    let (node, _) = resolve(&tree, &Tables::default(), "md7");
    assert!(at(&node, 0, 4096).doubt.unwrap().contains("not running"));
}

#[test]
fn encryption_keeps_the_places_and_is_told() {
    let tree = Tree::new();
    tree.disks(1);
    tree.device("dm-0", "252:0", &[("size", "1000"), ("dm/name", "luks")], &["sda"]);
    let tables = Tables::default().with((252, 0), &[(0, 1000, "crypt", "aes-xts-plain64 - 0 8:0 32768", "")]);
    let (node, found) = resolve(&tree, &tables, "dm-0");
    let piece = at(&node, 4096, 4096);
    assert_eq!(places(&piece, &found), [("sda".to_owned(), 32768 * 512 + 4096)]);
    assert!(piece.is_sealed && piece.doubt.is_none());
}

#[test]
fn a_reshape_is_mapped_by_both_shapes_and_is_not_called_exact() {
    let tree = Tree::new();
    tree.disks(4);
    array(&tree, "md0", "9:0", "raid5", "2", "4 (3)", &["sda", "sdb", "sdc", "sdd"]);
    tree.put("md0/md", &[("reshape_position", "2048"), ("reshape_direction", "forwards")]);
    for (i, disk) in ["sda", "sdb", "sdc", "sdd"].iter().enumerate() {
        tree.member("md0", disk, &i.to_string(), "in_sync", &[("new_offset", "1024")]);
    }
    let (node, found) = resolve(&tree, &Tables::default(), "md0");
    // Chunk 2 is the third data chunk of the first row over four, behind the new offset.
    let new = at(&node, 2 * 65536, 4096);
    assert_eq!(places(&new, &found), [("sdc".to_owned(), 1024 * 512)]);
    // Chunk 16 (1 MiB) is in the old shape: row 8 of three members, P on the third less 8 mod 3.
    let old = at(&node, 16 * 65536, 4096);
    assert_eq!(places(&old, &found), [("sdb".to_owned(), 2048 * 512 + 8 * 65536)]);
    assert!(new.doubt.unwrap().contains("changing its shape") && old.doubt.is_some());
    // That it goes on is no change; that it ends is.
    tree.put("md0/md", &[("reshape_position", "4096")]);
    assert!(found.stamps.changed().is_none());
    tree.put("md0/md", &[("reshape_position", "none")]);
    assert!(found.stamps.changed().is_some());
}

#[test]
fn a_tree_that_goes_round_ends() {
    let tree = Tree::new();
    tree.device("dm-0", "252:0", &[("size", "1000"), ("dm/name", "a")], &[]);
    tree.device("dm-1", "252:1", &[("size", "1000"), ("dm/name", "b")], &["dm-0"]);
    let tables = Tables::default()
        .with((252, 0), &[(0, 1000, "linear", "252:1 0", "")])
        .with((252, 1), &[(0, 1000, "linear", "252:0 0", "")]);
    let (node, _) = resolve(&tree, &tables, "dm-1");
    assert!(at(&node, 0, 4096).doubt.unwrap().contains("too deep"));
}
