use super::*;
use crate::map::piece::{Place, State};

const K: u64 = 1 << 10;
const M: u64 = 1 << 20;

fn part(node: Node) -> Arc<Node> {
    Arc::new(Node::Part { base: LABELS_BYTES, len_bytes: 1 << 40, below: Arc::new(node) })
}

fn disks(n: usize) -> Vec<Member> {
    (0..n).map(|d| Member::sound(part(Node::Disk(d)))).collect()
}

fn record(offset: u64, len_bytes: u64, stored_bytes: u64, dvas: &[(u32, u64, u64)]) -> Record {
    let of = |(vdev, offset, asize): &(u32, u64, u64)| Dva {
        vdev: *vdev,
        asize: u32::try_from(*asize).unwrap(),
        offset: *offset,
    };
    Record {
        offset,
        len_bytes: u32::try_from(len_bytes).unwrap(),
        stored_bytes: u32::try_from(stored_bytes).unwrap(),
        level: 0,
        dva: of(&dvas[0]),
        others: dvas[1..].iter().map(of).collect(),
    }
}

fn file(tops: Vec<Top>, records: Vec<Record>, trees: Vec<Record>) -> Records {
    let pool = Pool { tops: (0..).zip(tops).collect() };
    let level_0 = records.len();
    let object = Object { records: [records, trees].concat(), level_0, ..Object::default() };
    Records::new(Arc::new(pool), object)
}

fn pieces(file: &Records, offset: u64, len_bytes: u64) -> Vec<Piece> {
    let mut out = Vec::new();
    file.walk(Run { at: offset, offset, len_bytes, with_rows: false }, &mut out);
    out
}

fn found(file: &Records, disk: usize, offset: u64) -> Vec<(u64, Role)> {
    let mut out = Vec::new();
    file.find(disk, offset, &mut out);
    out.iter().map(|h| (h.offset, h.role)).collect()
}

/// Every byte that a piece names is found at its place, and at no other.
fn both_ways_agree(file: &Records, size: u64) {
    let all = pieces(file, 0, size);
    assert_eq!(all.iter().map(|p| p.len_bytes).sum::<u64>(), size);
    for p in &all {
        for at in [0, 512, p.len_bytes / 2, p.len_bytes - 1] {
            for copy in &p.copies {
                let hits = found(file, copy.place.disk, copy.place.offset + at);
                assert_eq!(hits, [(p.offset + at, Role::Data)], "{p:?} at {at}");
            }
        }
    }
}

#[test]
fn a_mirror_holds_records_behind_the_labels_of_each_disk() {
    let node = Arc::new(Node::Mirror(disks(2)));
    let records = vec![
        record(0, 128 * K, 128 * K, &[(0, M, 128 * K)]),
        record(128 * K, 128 * K, 128 * K, &[(0, 9 * M, 128 * K)]),
    ];
    let file = file(vec![Top::Plain { ashift: 12, node }], records, vec![]);
    let shown: Vec<(u64, u64, Vec<Place>)> = pieces(&file, 4096, 128 * K)
        .iter()
        .map(|p| (p.offset, p.len_bytes, p.copies.iter().map(|c| c.place).collect()))
        .collect();
    let both = |offset| vec![Place { disk: 0, offset }, Place { disk: 1, offset }];
    assert_eq!(shown, [(4096, 124 * K, both(5 * M + 4096)), (128 * K, 4096, both(13 * M))]);
    both_ways_agree(&file, 256 * K);
    assert_eq!(found(&file, 1, 5 * M + 128 * K), [] as [(u64, Role); 0]);
}

/// The columns of 128 KiB on four disks with one parity, worked out by hand from `vdev_raidz_map_alloc`: 32 blocks, 10 rows
/// of 3 and 2 more, so that parity and the first two data columns have 11 blocks and the last has 10.
#[test]
fn the_columns_of_a_raidz1_are_those_of_zfs() {
    let z = Raidz::new(12, 4, 1).unwrap();
    let column =
        |slot, offset: u64, blocks: u64| Column { slot, offset: offset << 12, len_bytes: blocks << 12 };
    assert_eq!(
        z.columns(6 << 12, 128 * K),
        [column(2, 1, 11), column(3, 1, 11), column(0, 2, 11), column(1, 2, 10)]
    );
    // In every other MiB of the vdev parity and the first data change places.
    let at = M + (2 << 12);
    assert_eq!(
        z.columns(at, 128 * K),
        [column(3, 64, 11), column(2, 64, 11), column(0, 65, 11), column(1, 65, 10)]
    );
    // A record of one block is that and its parity.
    assert_eq!(z.columns(3 << 12, 512), [column(3, 0, 1), column(0, 1, 1)]);
    assert_eq!(Raidz::new(12, 2, 2), None);
    assert_eq!(Raidz::new(63, 4, 1), None);
}

/// `vdev_raidz_asize`: what a record takes on a raidz, padded so that no room of less than a record's least is left.
fn asize(z: &Raidz, len_bytes: u64) -> u64 {
    let blocks = len_bytes.div_ceil(1 << z.ashift);
    let rows = blocks.div_ceil(z.width - z.parity);
    (blocks + rows * z.parity).next_multiple_of(z.parity + 1) << z.ashift
}

#[test]
fn on_every_raidz_no_two_records_share_a_byte_and_both_ways_agree() {
    for (width, parity) in [(2, 1), (3, 1), (4, 1), (5, 1), (4, 2), (5, 2), (6, 2), (5, 3), (9, 3)] {
        for ashift in [9, 12] {
            let z = Raidz::new(ashift, width, parity).unwrap();
            let mut at = 3 << ashift;
            let (mut records, mut offset) = (Vec::new(), 0);
            // So many that they pass the MiB at which parity changes places.
            for i in 0..40 {
                let len = 128 * K - (if i % 3 == 0 { 0 } else { (i % 20) << ashift });
                records.push(record(offset, len, len, &[(0, at, asize(&z, len))]));
                at += asize(&z, len);
                offset += len;
            }
            let file = file(vec![Top::Raidz(z, disks(width))], records.clone(), vec![]);
            both_ways_agree(&file, offset);
            let mut places: Vec<(usize, u64, u64)> = records
                .iter()
                .flat_map(|r| z.columns(r.dva.offset, r.len_bytes.into()))
                .map(|c| (c.slot, c.offset, c.offset + c.len_bytes))
                .collect();
            places.sort_unstable();
            assert!(
                places.windows(2).all(|w| w[0].0 != w[1].0 || w[0].2 <= w[1].1),
                "raidz{parity} of {width}, ashift {ashift}"
            );
        }
    }
}

#[test]
fn parity_and_trees_are_found_for_what_they_are_of() {
    let z = Raidz::new(12, 5, 2).unwrap();
    let records = vec![record(128 * K, 12 * K, 12 * K, &[(0, 0, asize(&z, 12 * K))])];
    let mut tree = record(0, 128 * K, 4 * K, &[(0, 40 * K, 12 * K)]);
    tree.level = 1;
    let file = file(vec![Top::Raidz(z, disks(5))], records, vec![tree]);
    let at = |disk| found(&file, disk, LABELS_BYTES);
    assert_eq!(at(0), [(128 * K, Role::Parity)]);
    assert_eq!(at(1), [(128 * K, Role::Syndrome)]);
    assert_eq!(at(2), [(128 * K, Role::Data)]);
    assert_eq!(at(4), [(136 * K, Role::Data)]);
    assert_eq!(found(&file, 2, LABELS_BYTES + 8 * K), [(0, Role::Tree)]);
}

/// A disk is gone: its column is computed from the rest of the row, of which a short column lacks the last block.
#[test]
fn a_lost_column_is_computed_from_the_others_of_its_record() {
    let z = Raidz::new(12, 4, 1).unwrap();
    let mut members = disks(4);
    members[3] = Member::sound(part(Node::Gone(7)));
    // 4 blocks: parity on 0 and data on 1, 2, 3 with one more on 1.
    let file = file(
        vec![Top::Raidz(z, members)],
        vec![record(0, 16 * K, 16 * K, &[(0, 0, asize(&z, 16 * K))])],
        vec![],
    );
    let all = pieces(&file, 0, 16 * K);
    let lost: Vec<&Piece> = all.iter().filter(|p| !p.is_readable()).collect();
    assert_eq!(lost.len(), 1);
    assert_eq!((lost[0].offset, lost[0].len_bytes, lost[0].copies[0].state), (12 * K, 4 * K, State::Missing));
    let mut from: Vec<(usize, Role)> = lost[0].rebuild.iter().map(|(p, role)| (p.disk, *role)).collect();
    from.sort_unstable();
    assert_eq!(from, [(0, Role::Parity), (1, Role::Data), (2, Role::Data)]);
}

#[test]
fn a_compressed_record_is_at_its_places_whole_however_little_of_it_is_asked_for() {
    let node = part(Node::Disk(0));
    let records = vec![record(0, 128 * K, 20 * K, &[(0, M, 20 * K)])];
    let file = file(vec![Top::Plain { ashift: 12, node }], records, vec![]);
    let got = pieces(&file, 64 * K, 4 * K);
    assert_eq!(got.len(), 1);
    assert_eq!((got[0].offset, got[0].len_bytes, got[0].on_disk_bytes()), (64 * K, 4 * K, 20 * K));
    assert_eq!(got[0].copies[0].place, Place { disk: 0, offset: 5 * M });
    assert_eq!(found(&file, 0, 5 * M + 10 * K), [(64 * K, Role::Data)]);
    assert_eq!(found(&file, 0, 5 * M + 20 * K), [] as [(u64, Role); 0]);
    // On a raidz the columns of what is stored.
    let z = Raidz::new(12, 4, 1).unwrap();
    let file = super::tests::file(
        vec![Top::Raidz(z, disks(4))],
        vec![record(0, 128 * K, 20 * K, &[(0, 0, asize(&z, 20 * K))])],
        vec![],
    );
    let got = pieces(&file, 0, 128 * K);
    let stored: Vec<u64> = got.iter().map(Piece::on_disk_bytes).collect();
    assert_eq!((stored, got.iter().map(|p| p.len_bytes).sum::<u64>()), (vec![8 * K, 8 * K, 4 * K], 128 * K));
}

#[test]
fn copies_on_other_vdevs_are_copies_and_what_is_not_known_says_so() {
    let tops = vec![
        Top::Plain { ashift: 12, node: part(Node::Disk(0)) },
        Top::Plain { ashift: 12, node: part(Node::Disk(1)) },
        Top::Unknown { why: "a draid".into(), disks: vec![2] },
    ];
    let records = vec![
        record(0, 4096, 4096, &[(0, 0, 4096), (1, 8192, 4096)]),
        record(4096, 4096, 4096, &[(2, 0, 4096)]),
        record(8192, 8192, 8192, &[(0, M, 4096)]),
        record(16384, 4096, 4096, &[(9, 0, 4096)]),
    ];
    let file = file(tops, records, vec![]);
    let got = pieces(&file, 0, 20480);
    let disks: Vec<usize> = got[0].copies.iter().map(|c| c.place.disk).collect();
    assert_eq!(disks, [0, 1]);
    let why: Vec<String> = got[1..].iter().filter_map(|p| p.doubt.as_deref().map(str::to_owned)).collect();
    assert_eq!(why.len(), 3);
    assert!(why[0].contains("draid") && why[1].contains("gang") && why[2].contains("no vdev 9"), "{why:?}");
    let runs = file.runs(30000);
    assert_eq!((runs.runs.len(), runs.pending_bytes), (4, 0));
}

/// The simulator's raidz (src/simulate) against this map: records one after the other.
#[test]
fn the_simulators_raidz_is_that_of_the_map() {
    for (width, parity, record) in [(3, 1, M), (4, 1, 128 * K), (6, 2, M), (8, 3, 16 * M)] {
        let raidz = Raidz::new(12, width, parity).unwrap();
        let text = format!("zfs-raidz{parity},disks={width},record={}K", record / K);
        let layout = spindle_simulate::Layout::parse(&text, 1 << 36).unwrap();
        // As the allocator has it: data and parity, rounded up to a multiple of one more than the parity.
        let (sectors, data) = (record >> 12, width as u64 - u64::from(parity));
        let taken = (sectors + u64::from(parity) * sectors.div_ceil(data))
            .next_multiple_of(u64::from(parity) + 1)
            << 12;
        for number in 0..40 {
            let mut at = number * record;
            for column in &raidz.columns(number * taken, record)[parity as usize..] {
                let run = layout.run(at);
                let place = run.copies[0];
                assert_eq!(
                    (place.disk, place.offset),
                    (column.slot, LABELS_BYTES + column.offset),
                    "{text}, record {number}"
                );
                assert_eq!(run.len_bytes, column.len_bytes, "{text}, record {number}");
                at += run.len_bytes;
            }
            assert_eq!(at, (number + 1) * record, "{text}");
        }
    }
}
