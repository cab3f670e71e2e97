//! Pools really made by OpenZFS 2.1.11 (`tests/lab`), on disks of 96 MiB: what zdb and zpool said of them, and where each 4 KiB of
//! a file were found by looking for their bytes on the raw disks.

use super::*;
use crate::map::Run;
use crate::map::piece::{Piece, Place, Role, State};
use crate::map::zfs::Records;
use crate::sys::zdb;

fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/zfs").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The devices of a pool as `zpool status` names them; `/dev/mapper/zzN` is disk N.
fn leaves_of(status: &str) -> Vec<Leaf> {
    let pools = sys::zfs::parse(&fixture(status));
    fn collect(v: &sys::zfs::Vdev, out: &mut Vec<Leaf>) {
        v.children.iter().for_each(|c| collect(c, out));
        if let Some(n) = v.name.strip_prefix("/dev/mapper/zz").and_then(|n| n.parse().ok()) {
            let is_there = v.state == "ONLINE";
            let node = Arc::new(if is_there { Node::Disk(n) } else { Node::Gone(n) });
            out.push(Leaf { path: v.name.clone(), member: Member::sound(node), class: v.class.clone() });
        }
    }
    let mut out = Vec::new();
    pools[0].vdevs.iter().for_each(|v| collect(v, &mut out));
    out
}

fn records(name: &str, config: &str, status: &str) -> (Records, zdb::Object) {
    let text = fixture(&format!("{name}.zdb"));
    let row = text.lines().skip_while(|l| !l.contains("lvl")).nth(1).unwrap();
    let inode = row.split_whitespace().next().unwrap().parse().unwrap();
    let object = zdb::parse_object(&text, inode).unwrap();
    let pool = zfs_pool(&zdb::parse_config(&fixture(config)), &leaves_of(status));
    (Records::new(Arc::new(pool), object.clone()), object)
}

fn walked(file: &Arc<Records>, with_rows: bool) -> Vec<Piece> {
    let mut out = Vec::new();
    Node::Zfs(Arc::clone(file)).walk(Run { at: 0, offset: 0, len_bytes: 1 << 40, with_rows }, &mut out);
    out
}

/// Every 4 KiB whose bytes were found must be placed exactly there, on every copy, and be found again from there.
fn places_are_those_of_the_bytes(name: &str, config: &str, status: &str) {
    let (file, _) = records(name, config, status);
    let file = Arc::new(file);
    let mut given: BTreeMap<u64, Vec<(usize, u64)>> = BTreeMap::new();
    for piece in walked(&file, false) {
        assert!(piece.doubt.is_none() && piece.offset % 4096 == 0, "{name}: {piece:?}");
        for at in (0..piece.len_bytes).step_by(4096) {
            let here = piece.copies.iter().map(|c| (c.place.disk, c.place.offset + at));
            given.entry((piece.offset + at) / 4096).or_default().extend(here);
        }
    }
    let hex = |text: &str| u64::from_str_radix(text, 16).unwrap();
    let mut count = 0;
    for line in fixture(&format!("{name}.places")).lines().filter(|l| !l.starts_with('#')) {
        let (block, places) = line.split_once(' ').unwrap();
        let mut want: Vec<(usize, u64)> = places
            .split(' ')
            .map(|p| p.split_once(':').unwrap())
            .map(|(d, o)| (d.parse().unwrap(), hex(o)))
            .collect();
        let mut got = given.remove(&hex(block)).unwrap_or_default();
        want.sort_unstable();
        got.sort_unstable();
        assert!(!got.is_empty(), "{name}: block {block} has no place");
        for (disk, offset) in &want {
            let mut hits = Vec::new();
            Node::Zfs(Arc::clone(&file)).find(*disk, *offset + 7, &mut hits);
            let hits: Vec<(u64, Role)> = hits.iter().map(|h| (h.offset, h.role)).collect();
            if got.contains(&(*disk, *offset)) {
                assert_eq!(hits, [(hex(block) * 4096 + 7, Role::Data)], "{name}: disk {disk} at {offset}");
            } else {
                // In a row of one block parity is that block; and what ZFS wrote before it wrote it again lies there still.
                assert!(
                    hits.iter().all(|(_, role)| *role != Role::Data),
                    "{name}: block {block} is on disk {disk} at {offset}, too: {hits:?}"
                );
            }
        }
        assert!(
            got.iter().all(|p| want.contains(p)),
            "{name}: block {block} is given {got:?}, is at {want:?}"
        );
        count += 1;
    }
    assert!(count > 20, "{name}: {count} blocks");
}

#[test]
fn on_real_pools_every_byte_lies_where_its_block_pointer_says() {
    places_are_those_of_the_bytes("mix-a", "mix.config", "mix.status");
    places_are_those_of_the_bytes("mix-c", "mix.config", "mix.status");
    for raidz in ["rz1", "rz2", "rz3"] {
        places_are_those_of_the_bytes(raidz, &format!("{raidz}.config"), &format!("{raidz}.status"));
    }
}

#[test]
fn what_a_lost_disk_of_a_real_raidz_held_is_computed_from_what_the_others_hold() {
    let (file, _) = records("rz2", "rz2.config", "rz2.status");
    let rows = walked(&Arc::new(file), true);
    for piece in &rows {
        // Any one disk of five with two parities: three others are enough, and no disk twice.
        let mut disks: Vec<usize> = piece.rebuild.iter().map(|(p, _)| p.disk).collect();
        let count = disks.len();
        disks.sort_unstable();
        disks.dedup();
        assert_eq!(disks.len(), count);
        assert!(!disks.contains(&piece.copies[0].place.disk), "{piece:?}");
        assert_eq!(piece.rebuild.iter().filter(|(_, r)| *r == Role::Parity).count(), 1);
        assert_eq!(piece.rebuild.iter().filter(|(_, r)| *r == Role::Syndrome).count(), 1);
    }
}

#[test]
fn a_device_that_is_offline_holds_a_copy_that_is_missing() {
    let (file, _) = records("mix-a", "mix.config", "offline.status");
    let pieces = walked(&Arc::new(file), false);
    assert!(!pieces.is_empty());
    for piece in pieces {
        let states: Vec<(Place, State)> = piece.copies.iter().map(|c| (c.place, c.state)).collect();
        assert!(matches!(
            states.as_slice(),
            [(Place { disk: 0, .. }, State::Readable), (Place { disk: 1, .. }, State::Missing)]
        ));
    }
}

#[test]
fn compressed_embedded_and_sparse_files_of_a_real_pool_are_told_apart() {
    let (soft, object) = records("mix-b", "mix.config", "mix.status");
    assert!(object.records[..object.level_0].iter().all(zdb::Record::is_compressed));
    let pieces = walked(&Arc::new(soft), false);
    let (len, stored) = pieces.iter().fold((0, 0), |(l, s), p| (l + p.len_bytes, s + p.on_disk_bytes()));
    assert_eq!(len, 1 << 20);
    assert!(stored > 512 << 10 && stored < 640 << 10, "{stored}");

    let (_, tiny) = records("mix-tiny", "mix.config", "mix.status");
    assert_eq!(tiny.level_0, 0);
    assert_eq!(tiny.embedded_bytes, 512);

    let (sparse, object) = records("mix-a", "mix.config", "mix.status");
    assert_eq!(object.size_bytes, Some((3 << 20) + 5));
    let runs = sparse.runs((3 << 20) + 5);
    let covered: u64 = runs.runs.iter().map(|r| r.len_bytes).sum();
    assert_eq!((covered, runs.pending_bytes), (21 * (128 << 10), 0), "{runs:?}");
    assert_eq!(sparse.runs(4 << 20).pending_bytes, (1 << 20) - 5);
}

#[test]
fn an_encrypted_file_has_places_and_says_that_its_bytes_are_others() {
    let (file, object) = records("mix-d", "mix.config", "mix.status");
    assert!(object.is_encrypted);
    let pieces = walked(&Arc::new(file), false);
    assert!(!pieces.is_empty() && pieces.iter().all(|p| p.is_sealed && !p.copies.is_empty()));
}

#[test]
fn where_a_draid_puts_a_file_is_said_not_to_be_computed() {
    let (file, _) = records("dr", "dr.config", "dr.status");
    let pieces = walked(&Arc::new(file), false);
    assert!(!pieces.is_empty());
    for p in pieces {
        assert!(p.copies.is_empty() && p.doubt.as_deref().is_some_and(|d| d.contains("draid")), "{p:?}");
    }
}

#[test]
fn answers_that_are_cut_anywhere_are_no_panic() {
    for name in ["mix-a.zdb", "mix-c.zdb", "mix.config", "rz3.config"] {
        let text = fixture(name);
        for cut in (0..text.len()).step_by(97) {
            let part: String = text.chars().take(cut).collect();
            let _ = zdb::parse_object(&part, 2);
            let pool = zfs_pool(&zdb::parse_config(&part), &leaves_of("mix.status"));
            let object = zdb::parse_object(&fixture("mix-c.zdb"), 2).unwrap_or_default();
            walked(&Arc::new(Records::new(Arc::new(pool), object)), true);
        }
    }
}
