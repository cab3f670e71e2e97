//! The formulas against a second formulation of each: labels written row by row as the documents describe the layouts
//! (md(4), Documentation/driver-api/md, btrfs-man5), not the kernel's arithmetic; and what must hold of any map.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::parity::Parity;
use super::piece::{Piece, Place, Role, Source, State};
use super::raid0::{Turns, Zones};
use super::raid10::Raid10;
use super::{Hit, Member, Node, Run};
use crate::layout::chunks::{Chunk, ChunkMap, Stripe};

/// What a chunk of a member holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Label {
    /// The array's chunk of this number.
    Data(u64),
    P(u64),
    Q(u64),
}

/// Members as lists of chunks.
type Disks = Vec<Vec<Label>>;

const C: u64 = 4096;

fn disks(n: usize) -> Vec<Member> {
    (0..n).map(|d| Member::sound(Arc::new(Node::Disk(d)))).collect()
}

fn pieces(node: &Node, offset: u64, len_bytes: u64) -> Vec<Piece> {
    let mut out = Vec::new();
    node.walk(Run { at: offset, offset, len_bytes, with_rows: false }, &mut out);
    out
}

fn found(node: &Node, disk: usize, offset: u64) -> Vec<Hit> {
    let mut out = Vec::new();
    node.find(disk, offset, &mut out);
    out
}

/// raid4, raid5 and raid6 as md(4) and mdadm(8) tell them: in which slot the parity of row `r` is, and whether the data
/// begin at the first slot or after the parity.
fn parity_rows(layout: u32, n: usize, six: bool, rows: u64) -> Disks {
    let mut out: Disks = vec![Vec::new(); n];
    let mut next = 0;
    for row in 0..rows {
        // A raid5 layout with Q always on the last disk.
        let is_five_and_last = six && layout >= 16;
        let (turning, number) = if is_five_and_last { (n - 1, layout - 16) } else { (n, layout) };
        let last = turning as u64 - 1;
        let turn = row % turning as u64;
        let p = match number {
            // "left": P starts at the last disk and moves to the left.
            0 | 2 | 10 => last - turn,
            // "right": P starts at the first disk and moves to the right.
            1 | 3 | 8 => turn,
            // One row on.
            9 => last - (turn + 1) % turning as u64,
            4 => 0,
            _ => {
                if six && !is_five_and_last {
                    last - 1
                } else {
                    last
                }
            }
        };
        let p = usize::try_from(p).unwrap();
        let mut slots: Vec<Option<Label>> = vec![None; n];
        slots[p] = Some(Label::P(row));
        if six {
            let q = match (is_five_and_last, number) {
                (true, _) => n - 1,
                (_, 10) => (p + n - 1) % n,
                _ => (p + 1) % n,
            };
            slots[q] = Some(Label::Q(row));
        }
        // "symmetric": data continue after the parity and wrap around. "asymmetric": from the first disk on.
        let symmetric = matches!(number, 2 | 3 | 10);
        let order: Vec<usize> =
            if symmetric { (1..=turning).map(|i| (p + i) % turning).collect() } else { (0..n).collect() };
        for slot in order {
            if slots[slot].is_none() {
                slots[slot] = Some(Label::Data(next));
                next += 1;
            }
        }
        for (disk, label) in out.iter_mut().zip(slots) {
            disk.push(label.unwrap());
        }
    }
    out
}

#[test]
fn a_parity_array_reads_by_stripes_once_a_member_is_gone_or_stale_or_it_is_reshaped() {
    let five = |members| Node::Parity(Parity::five(2, 4, C).unwrap(), members);
    let gone = || {
        let below = Arc::new(Node::Gone(1));
        Member::sound(Arc::new(Node::Part { base: 0, len_bytes: 1 << 40, below }))
    };
    assert!(!five(disks(4)).reads_by_stripes());
    let mut lost = disks(4);
    lost[1] = gone();
    assert!(five(lost).reads_by_stripes());
    let mut stale = disks(4);
    stale[2].fresh_bytes = Some(0);
    assert!(Node::Sealed(Arc::new(five(stale))).reads_by_stripes());
    let (new, old) = (Arc::new(five(disks(4))), Arc::new(five(disks(4))));
    assert!(Node::Reshape { position: 0, is_backwards: false, new, old }.reads_by_stripes());
    assert!(!Node::Mirror(vec![disks(1).remove(0), gone()]).reads_by_stripes());
}

/// Every chunk of the members is found to be what its label says, and every byte is where its label is.
fn agree(node: &Node, labels: &Disks, what: &str) {
    let columns = labels.iter().filter(|d| matches!(d[0], Label::Data(_))).count() as u64;
    for (disk, chunks) in labels.iter().enumerate() {
        for (i, label) in chunks.iter().enumerate() {
            let at = i as u64 * C;
            for within in [0, 1, C - 1] {
                let got = found(node, disk, at + within);
                let want = match label {
                    Label::Data(number) => {
                        let offset = number * C + within;
                        let places = pieces(node, offset, 1);
                        assert_eq!(places.len(), 1, "{what}");
                        let its: Vec<Place> = places[0].copies.iter().map(|c| c.place).collect();
                        assert!(
                            its.contains(&Place { disk, offset: at + within }),
                            "{what}: {offset} {its:?}"
                        );
                        Hit { offset, len_bytes: 1, role: Role::Data }
                    }
                    Label::P(row) => {
                        Hit { offset: row * columns * C, len_bytes: columns * C, role: Role::Parity }
                    }
                    Label::Q(row) => {
                        Hit { offset: row * columns * C, len_bytes: columns * C, role: Role::Syndrome }
                    }
                };
                assert_eq!(got, [want], "{what}: disk {disk} chunk {i}");
            }
        }
    }
}

#[test]
fn every_raid5_layout_is_as_described() {
    for layout in 0..=5 {
        for n in 2..=7 {
            let geometry = Parity::five(layout, u32::try_from(n).unwrap(), C).unwrap();
            let node = Node::Parity(geometry, disks(n));
            agree(&node, &parity_rows(layout, n, false, 40), &format!("raid5 layout {layout} over {n}"));
        }
    }
}

#[test]
fn every_raid6_layout_is_as_described() {
    for layout in (0..=5).chain(8..=10).chain(16..=20) {
        for n in 4..=8 {
            let geometry = Parity::six(layout, u32::try_from(n).unwrap(), C).unwrap();
            let node = Node::Parity(geometry, disks(n));
            agree(&node, &parity_rows(layout, n, true, 40), &format!("raid6 layout {layout} over {n}"));
        }
    }
}

/// The pictures of md(4) and of the kernel's comments for the default layouts, by hand.
#[test]
fn the_pictures_of_the_manual_hold() {
    use Label::{Data as D, P, Q};
    // raid5, left-symmetric, 4 disks.
    let rows = [
        [D(0), D(1), D(2), P(0)],
        [D(4), D(5), P(1), D(3)],
        [D(8), P(2), D(6), D(7)],
        [P(3), D(9), D(10), D(11)],
        [D(12), D(13), D(14), P(4)],
    ];
    let labels: Disks = (0..4).map(|d| rows.iter().map(|r| r[d]).collect()).collect();
    agree(&Node::Parity(Parity::five(2, 4, C).unwrap(), disks(4)), &labels, "left-symmetric");
    // raid6, left-symmetric, 5 disks.
    let rows = [
        [Q(0), D(0), D(1), D(2), P(0)],
        [D(3), D(4), D(5), P(1), Q(1)],
        [D(7), D(8), P(2), Q(2), D(6)],
        [D(11), P(3), Q(3), D(9), D(10)],
        [P(4), Q(4), D(12), D(13), D(14)],
    ];
    let labels: Disks = (0..5).map(|d| rows.iter().map(|r| r[d]).collect()).collect();
    agree(&Node::Parity(Parity::six(2, 5, C).unwrap(), disks(5)), &labels, "raid6 left-symmetric");
}

/// raid10 as md(4) tells it. near: the copies of a chunk one after the other over the members. far: a raid0 in the first
/// section of each member, and again in the next section moved on by `near` members. offset: each row of chunks is
/// repeated in the next row, moved on.
fn raid10_rows(near: usize, far: usize, offset: bool, set: usize, n: usize, rows: usize) -> Disks {
    // The raid0 (with near copies) that the far copies repeat.
    let first: Vec<Vec<u64>> =
        (0..rows).map(|r| (0..n).map(|d| ((r * n + d) / near) as u64).collect()).collect();
    let moved = |row: &[u64], by: usize| -> Vec<u64> {
        let mut out = vec![0; n];
        for (d, label) in row.iter().enumerate() {
            // Within its set; members that are left over belong to the last one.
            let sets = n / set;
            let of = (d / set).min(sets - 1);
            let size = if of == sets - 1 { n - of * set } else { set };
            out[of * set + (d - of * set + by) % size] = *label;
        }
        out
    };
    let mut all: Vec<Vec<u64>> = Vec::new();
    if offset {
        for row in &first {
            all.extend((0..far).map(|f| moved(row, f * near)));
        }
    } else {
        for f in 0..far {
            all.extend(first.iter().map(|row| moved(row, f * near)));
        }
    }
    (0..n).map(|d| all.iter().map(|r| Label::Data(r[d])).collect()).collect()
}

#[test]
fn every_raid10_layout_is_as_described() {
    for (near, far, offset) in [
        (2, 1, false),
        (3, 1, false),
        (1, 2, false),
        (1, 3, false),
        (1, 2, true),
        (1, 3, true),
        (2, 2, false),
        (2, 2, true),
    ] {
        for n in 2..=7_usize {
            // Near and far copies at once are made by no tool; where a pair would straddle two rows of an offset layout
            // the kernel's own numbers collide.
            if near * far > n || offset && near > 1 && n % near != 0 {
                continue;
            }
            for sets in [0_u32, 2] {
                // Members left over by sets with several near copies straddle two sets: no one makes such.
                if sets == 2 && (far == 1 || near > 1 && n % (near * far) != 0) {
                    continue;
                }
                let set = if sets == 2 { near * far } else { n };
                // Whole rounds, so that no part of the last row is unused.
                let rows = 2 * near * n;
                let layout = u32::try_from(near | far << 8).unwrap() | u32::from(offset) << 16 | sets << 17;
                let component = (rows * far) as u64 * C;
                let geometry = Raid10::new(layout, u32::try_from(n).unwrap(), C, component).unwrap();
                let node = Node::Raid10(geometry, disks(n));
                let labels = raid10_rows(near, far, offset, set, n, rows);
                agree(&node, &labels, &format!("raid10 n{near} f{far} offset {offset} sets {sets} over {n}"));
            }
        }
    }
}

/// The picture of md(4) for far and offset copies.
#[test]
fn far_and_offset_copies_are_where_the_manual_draws_them() {
    let places = |layout: u32, n: u32, component: u64, chunk: u64| -> Vec<(usize, u64)> {
        let r = Raid10::new(layout, n, C, component * C).unwrap();
        r.places(chunk * C).unwrap().iter().map(|a| (a.slot, a.offset / C)).collect()
    };
    // near 2 over 3: "0 0 1 / 1 2 2".
    assert_eq!(places(0x102, 3, 100, 1), [(2, 0), (0, 1)]);
    // far 2 over 3, 100 chunks each: the second copy half way down, one disk on.
    assert_eq!(places(0x201, 3, 100, 2), [(2, 0), (0, 50)]);
    // offset 2 over 3: "0 1 2 / 2 0 1".
    assert_eq!(places(0x10201, 3, 100, 2), [(2, 0), (0, 1)]);
    assert_eq!(places(0x10201, 3, 100, 3), [(0, 2), (1, 3)]);
    // far sets over 4: pairs keep to themselves.
    assert_eq!(places(0x201 | 2 << 17, 4, 100, 1), [(1, 0), (0, 50)]);
}

/// raid0 by dealing chunks: every zone takes the members that are long enough, in order.
fn dealt(sizes: &[u64], turns: Turns) -> BTreeMap<(usize, u64), u64> {
    let mut out = BTreeMap::new();
    let (mut number, mut depth) = (0, 0);
    while sizes.iter().any(|s| *s > depth) {
        // A row: one chunk of each member that reaches this deep.
        let live: Vec<usize> = (0..sizes.len()).filter(|d| sizes[*d] > depth).collect();
        let first = match turns {
            // Whoever's turn it is by the number of chunks dealt since the start of the array. Rows of a zone keep the
            // same first member.
            Turns::OfArray => usize::try_from(number).unwrap() % live.len(),
            Turns::OfZone => 0,
        };
        for i in 0..live.len() {
            out.insert((live[(first + i) % live.len()], depth), number);
            number += 1;
        }
        depth += 1;
    }
    out
}

#[test]
fn raid0_deals_its_chunks_in_both_ways_over_members_of_any_size() {
    for turns in [Turns::OfArray, Turns::OfZone] {
        for sizes in [vec![5, 5, 5], vec![3, 7, 5], vec![2, 9], vec![1, 1, 4, 4, 8], vec![6]] {
            let bytes: Vec<u64> = sizes.iter().map(|s| s * C + 100).collect();
            let zones = Zones::new(C, &bytes, turns).unwrap();
            assert_eq!(zones.len_bytes(), sizes.iter().sum::<u64>() * C);
            let node = Node::Striped(zones, disks(sizes.len()));
            for ((disk, depth), number) in dealt(&sizes, turns) {
                for within in [0, C - 1] {
                    let (at, offset) = (depth * C + within, number * C + within);
                    let its = pieces(&node, offset, 1);
                    assert_eq!(its[0].copies[0].place, Place { disk, offset: at }, "{turns:?} {sizes:?}");
                    assert_eq!(found(&node, disk, at), [Hit { offset, len_bytes: 1, role: Role::Data }]);
                }
            }
            assert!(pieces(&node, sizes.iter().sum::<u64>() * C, 1).is_empty());
        }
    }
}

/// btrfs by dealing stripes: data to the columns of a row in turn, which in the parity profiles moves on by one each row.
#[test]
fn every_btrfs_profile_is_as_described() {
    const S: u64 = 65536;
    for (kind, sub, n, columns, copies) in [
        (0_u64, 1_u16, 1_u64, 1_u64, 1_u64),
        (1 << 3, 1, 1, 1, 1),
        (1 << 3, 1, 3, 3, 1),
        (1 << 4, 1, 2, 1, 2),
        (1 << 5, 1, 2, 1, 2),
        (1 << 6, 2, 4, 2, 2),
        (1 << 6, 2, 6, 3, 2),
        (1 << 7, 1, 2, 1, 1),
        (1 << 7, 1, 3, 2, 1),
        (1 << 7, 1, 5, 4, 1),
        (1 << 8, 1, 3, 1, 1),
        (1 << 8, 1, 4, 2, 1),
        (1 << 8, 1, 6, 4, 1),
        (1 << 9, 1, 3, 1, 3),
        (1 << 10, 1, 4, 1, 4),
    ] {
        let rows = 12;
        let stripes: Vec<Stripe> = (0..n).map(|i| Stripe { devid: i + 1, offset: i << 30 }).collect();
        let logical = 7 << 30;
        let chunk = Chunk {
            logical,
            len_bytes: rows * columns * S,
            stripe_bytes: S,
            kind: kind | 1,
            sub_stripes: sub,
            stripes,
        };
        let devices: BTreeMap<u64, Member> = (1_u64..).zip(disks(usize::try_from(n).unwrap())).collect();
        let node = Node::Btrfs { chunks: Arc::new(ChunkMap::new(vec![chunk])), devices: Arc::new(devices) };
        let mut number = 0;
        for row in 0..rows {
            for column in 0..columns {
                let on: Vec<u64> = if copies == n {
                    (0..n).collect()
                } else if kind == 1 << 6 {
                    vec![column * 2, column * 2 + 1]
                } else if kind & (1 << 7 | 1 << 8) != 0 {
                    vec![(column + row) % n]
                } else {
                    vec![column]
                };
                let offset = logical + number * S + 5;
                let its = pieces(&node, offset, 1);
                let places: Vec<Place> = its[0].copies.iter().map(|c| c.place).collect();
                let want: Vec<Place> = on
                    .iter()
                    .map(|d| Place { disk: usize::try_from(*d).unwrap(), offset: (d << 30) + row * S + 5 })
                    .collect();
                assert_eq!(places, want, "kind {kind:#x} over {n}, row {row} column {column}");
                for p in places {
                    assert_eq!(
                        found(&node, p.disk, p.offset),
                        [Hit { offset, len_bytes: 1, role: Role::Data }]
                    );
                }
                number += 1;
            }
            let parities = if kind == 1 << 7 {
                1
            } else if kind == 1 << 8 {
                2
            } else {
                0
            };
            for parity in 0..parities {
                let disk = usize::try_from((columns + parity + row) % n).unwrap();
                let role = if parity == 0 { Role::Parity } else { Role::Syndrome };
                let want = Hit { offset: logical + row * columns * S, len_bytes: columns * S, role };
                assert_eq!(found(&node, disk, ((disk as u64) << 30) + row * S), [want]);
            }
        }
    }
}

/// A small generator: the same walk on every run.
struct Walk(u64);

impl Walk {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n.max(1)
    }
}

/// A random device of `len_bytes` over disks that nobody else has, and what it is.
fn device(w: &mut Walk, depth: u32, next: &mut usize, len_bytes: u64) -> (Arc<Node>, String) {
    let kind = if depth == 0 { 0 } else { w.below(8) };
    let members = |w: &mut Walk, n: usize, each: u64, next: &mut usize| -> (Vec<Member>, String) {
        let (nodes, names): (Vec<_>, Vec<_>) = (0..n).map(|_| device(w, depth - 1, next, each)).unzip();
        (nodes.into_iter().map(Member::sound).collect(), names.join(", "))
    };
    let (node, name) = match kind {
        1 => {
            let base = w.below(1 << 20);
            let (below, name) = device(w, depth - 1, next, base + len_bytes);
            (Node::Part { base, len_bytes, below }, format!("part({name})"))
        }
        2 => {
            let cut = 1 + w.below(len_bytes - 1);
            let (a, x) = device(w, depth - 1, next, cut);
            let (b, y) = device(w, depth - 1, next, len_bytes - cut);
            (Node::Chain(vec![(0, cut, a), (cut, len_bytes - cut, b)]), format!("chain({x}, {y})"))
        }
        3 => {
            let (list, name) = members(w, 2, len_bytes, next);
            (Node::Mirror(list), format!("mirror({name})"))
        }
        4 => {
            let n = 2 + usize::try_from(w.below(3)).unwrap();
            let each = len_bytes.div_ceil(n as u64 * C) * C;
            let (list, name) = members(w, n, each, next);
            let zones = Zones::new(C, &vec![each; n], Turns::OfZone).unwrap();
            (Node::Striped(zones, list), format!("stripe({name})"))
        }
        5 => {
            let n = 4;
            let each = (len_bytes * 2).div_ceil(n as u64 * C) * C + 4 * C;
            let layout = [0x102, 0x201, 0x1_0201, 0x4_0201][usize::try_from(w.below(4)).unwrap()];
            let (list, name) = members(w, n, each, next);
            (
                Node::Raid10(Raid10::new(layout, 4, C, each).unwrap(), list),
                format!("raid10 {layout:#x}({name})"),
            )
        }
        6 | 7 => {
            let n = 4;
            let data = if kind == 6 { 3 } else { 2 };
            let each = len_bytes.div_ceil(data * C) * C;
            let (list, name) = members(w, n, each, next);
            let geometry = if kind == 6 { Parity::five(2, 4, C) } else { Parity::six(2, 4, C) };
            (Node::Parity(geometry.unwrap(), list), format!("parity({name})"))
        }
        _ => {
            *next += 1;
            (Node::Disk(*next - 1), format!("disk{}", *next - 1))
        }
    };
    (Arc::new(node), name)
}

#[test]
fn of_any_stack_every_byte_has_one_place_per_copy_and_no_place_has_two_bytes() {
    let mut w = Walk(42);
    for round in 0..120 {
        let mut next = 0;
        let len_bytes = 40 * C + w.below(100);
        let (node, name) = device(&mut w, 3, &mut next, len_bytes);
        let mut taken: BTreeSet<Place> = BTreeSet::new();
        let mut at = 0;
        for piece in pieces(&node, 0, len_bytes) {
            // In order, without a gap and without an overlap.
            assert_eq!(piece.offset, at, "round {round}: {name}");
            assert!(piece.len_bytes > 0 && !piece.copies.is_empty());
            at += piece.len_bytes;
            // Copies on distinct disks: here every disk is used once.
            let on: BTreeSet<usize> = piece.copies.iter().map(|c| c.place.disk).collect();
            assert_eq!(on.len(), piece.copies.len(), "round {round}: {name}");
            for copy in &piece.copies {
                for k in [0, piece.len_bytes / 2, piece.len_bytes - 1].into_iter().collect::<BTreeSet<u64>>()
                {
                    let place = Place { disk: copy.place.disk, offset: copy.place.offset + k };
                    assert!(taken.insert(place), "round {round}: {place:?} of {name}");
                    let back = found(&node, place.disk, place.offset);
                    assert_eq!(back.len(), 1, "round {round}: {name}");
                    // A place that is data here may be parity's row of a level above.
                    assert_eq!((back[0].offset, back[0].role), (piece.offset + k, Role::Data), "{name}");
                }
            }
        }
        assert_eq!(at, len_bytes, "round {round}: {name}");
        // Any part gives the same places as the whole.
        for _ in 0..20 {
            let start = w.below(len_bytes);
            let len = 1 + w.below(len_bytes - start);
            let part = pieces(&node, start, len);
            assert_eq!(part.iter().map(|p| p.len_bytes).sum::<u64>(), len);
            let one = pieces(&node, start, 1).remove(0);
            let places = |p: &Piece| p.copies.iter().map(|c| c.place).collect::<Vec<_>>();
            assert_eq!(places(&part[0]), places(&one), "round {round}: {name}");
        }
    }
}

#[test]
fn a_degraded_raid5_reads_the_rest_of_the_row() {
    let mut members = disks(3);
    members[1] = Member::sound(Arc::new(Node::Gone(99)));
    let node = Node::Parity(Parity::five(2, 3, C).unwrap(), members);
    // Left-symmetric over 3: D0 D1 P / D3 P D2.
    let got = pieces(&node, 0, 2 * C);
    assert_eq!(got[0].source(None), Source::One(Place { disk: 0, offset: 0 }));
    assert_eq!(got[1].copies[0].state, State::Missing);
    let want = vec![(Place { disk: 0, offset: 0 }, Role::Data), (Place { disk: 2, offset: 0 }, Role::Parity)];
    assert_eq!(got[1].source(None), Source::Many(want));
    let mut members = disks(3);
    members[0] = Member::sound(Arc::new(Node::Gone(98)));
    members[1] = Member::sound(Arc::new(Node::Gone(99)));
    let node = Node::Parity(Parity::five(2, 3, C).unwrap(), members);
    assert_eq!(pieces(&node, 0, C)[0].source(None), Source::Nowhere);
}

#[test]
fn a_member_that_is_being_rebuilt_serves_what_is_done() {
    let rebuilt = Member { fresh_bytes: Some(C / 2), ..disks(2)[1].clone() };
    let node = Node::Mirror(vec![disks(2)[0].clone(), rebuilt.clone()]);
    let got = pieces(&node, 0, C);
    let states: Vec<(u64, State)> = got.iter().map(|p| (p.len_bytes, p.copies[1].state)).collect();
    assert_eq!(states, [(C / 2, State::Readable), (C / 2, State::Stale)]);
    assert_eq!(got[1].source(None), Source::One(Place { disk: 0, offset: C / 2 }));
    let mut members = disks(3);
    members[0] = Member { fresh_bytes: Some(C / 2), ..members[0].clone() };
    let node = Node::Parity(Parity::five(2, 3, C).unwrap(), members);
    let got = pieces(&node, 0, C);
    assert_eq!(got.len(), 2);
    assert!(got[0].rebuild.is_empty());
    assert_eq!(got[1].rebuild.len(), 2);
    assert_eq!(got[1].rebuild[0].0, Place { disk: 1, offset: C / 2 });
}

#[test]
fn a_reshape_has_the_new_shape_behind_it_and_the_old_one_before_it() {
    let new = Arc::new(Node::Part { base: 1000, len_bytes: 100, below: Arc::new(Node::Disk(0)) });
    let old = Arc::new(Node::Part { base: 2000, len_bytes: 100, below: Arc::new(Node::Disk(0)) });
    for (is_backwards, want) in [(false, [1000, 2010]), (true, [2000, 1010])] {
        let (new, old) = (Arc::clone(&new), Arc::clone(&old));
        let node = Node::Reshape { position: 10, is_backwards, new, old };
        let got: Vec<u64> = pieces(&node, 0, 20).iter().map(|p| p.copies[0].place.offset).collect();
        assert_eq!(got, want);
        let back = found(&node, 0, want[0] + 5);
        assert_eq!(back, [Hit { offset: 5, len_bytes: 1, role: Role::Data }]);
        let other = if is_backwards { 1005 } else { 2005 };
        assert!(found(&node, 0, other).is_empty());
    }
}

#[test]
fn impossible_shapes_are_refused() {
    assert!(Raid10::new(0, 4, C, 1 << 20).is_none());
    assert!(Raid10::new(0x102, 1, C, 1 << 20).is_none());
    assert!(Raid10::new(0x102 | 3 << 17, 4, C, 1 << 20).is_none());
    assert!(Raid10::new(0x102, 4, 0, 1 << 20).is_none());
    assert!(Parity::five(6, 4, C).is_none() && Parity::five(2, 1, C).is_none());
    assert!(
        Parity::six(6, 4, C).is_none() && Parity::six(2, 2, C).is_none() && Parity::six(2, 4, 0).is_none()
    );
    assert!(
        Zones::new(0, &[1 << 20], Turns::OfZone).is_none() && Zones::new(C, &[100], Turns::OfZone).is_none()
    );
}

#[test]
fn addresses_of_nonsense_are_never_a_panic() {
    let mut w = Walk(7);
    for _ in 0..40 {
        let mut next = 0;
        let (node, _) = device(&mut w, 3, &mut next, 40 * C);
        for offset in [u64::MAX, u64::MAX - 1, 1 << 63, u64::MAX / 2] {
            for len in [1, C, u64::MAX - offset] {
                if len <= 1 << 20 {
                    let _ = pieces(&node, offset, len);
                }
            }
            for disk in 0..next {
                let _ = found(&node, disk, offset);
            }
        }
    }
}

/// Layouts of arrays that were really made and read under the block trace, without a byte at another place: chunks 0 to 9 and
/// 997 of members of 1,000 chunks, as (slot, chunk of the member).
type Seen = (&'static str, &'static str, u32, u32, &'static [&'static [(usize, u64)]]);

#[rustfmt::skip]
const SEEN: &[Seen] = &[
    ("r10n2_4", "raid10", 258, 4, &[&[(0, 0), (1, 0)], &[(2, 0), (3, 0)], &[(0, 1), (1, 1)], &[(2, 1), (3, 1)], &[(0, 2), (1, 2)], &[(2, 2), (3, 2)], &[(0, 3), (1, 3)], &[(2, 3), (3, 3)], &[(0, 4), (1, 4)], &[(2, 4), (3, 4)], &[(2, 498), (3, 498)]]),
    ("r10n2_3", "raid10", 258, 3, &[&[(0, 0), (1, 0)], &[(2, 0), (0, 1)], &[(1, 1), (2, 1)], &[(0, 2), (1, 2)], &[(2, 2), (0, 3)], &[(1, 3), (2, 3)], &[(0, 4), (1, 4)], &[(2, 4), (0, 5)], &[(1, 5), (2, 5)], &[(0, 6), (1, 6)], &[(2, 664), (0, 665)]]),
    ("r10f2_4", "raid10", 513, 4, &[&[(0, 0), (1, 500)], &[(1, 0), (2, 500)], &[(2, 0), (3, 500)], &[(3, 0), (0, 500)], &[(0, 1), (1, 501)], &[(1, 1), (2, 501)], &[(2, 1), (3, 501)], &[(3, 1), (0, 501)], &[(0, 2), (1, 502)], &[(1, 2), (2, 502)], &[(1, 249), (2, 749)]]),
    ("r10f2_3", "raid10", 513, 3, &[&[(0, 0), (1, 500)], &[(1, 0), (2, 500)], &[(2, 0), (0, 500)], &[(0, 1), (1, 501)], &[(1, 1), (2, 501)], &[(2, 1), (0, 501)], &[(0, 2), (1, 502)], &[(1, 2), (2, 502)], &[(2, 2), (0, 502)], &[(0, 3), (1, 503)], &[(1, 332), (2, 832)]]),
    ("r10o2_4", "raid10", 66049, 4, &[&[(0, 0), (1, 1)], &[(1, 0), (2, 1)], &[(2, 0), (3, 1)], &[(3, 0), (0, 1)], &[(0, 2), (1, 3)], &[(1, 2), (2, 3)], &[(2, 2), (3, 3)], &[(3, 2), (0, 3)], &[(0, 4), (1, 5)], &[(1, 4), (2, 5)], &[(1, 498), (2, 499)]]),
    ("r10o2_3", "raid10", 66049, 3, &[&[(0, 0), (1, 1)], &[(1, 0), (2, 1)], &[(2, 0), (0, 1)], &[(0, 2), (1, 3)], &[(1, 2), (2, 3)], &[(2, 2), (0, 3)], &[(0, 4), (1, 5)], &[(1, 4), (2, 5)], &[(2, 4), (0, 5)], &[(0, 6), (1, 7)], &[(1, 664), (2, 665)]]),
    ("r5_0", "raid5", 0, 4, &[&[(0, 0)], &[(1, 0)], &[(2, 0)], &[(0, 1)], &[(1, 1)], &[(3, 1)], &[(0, 2)], &[(2, 2)], &[(3, 2)], &[(1, 3)], &[(1, 332)]]),
    ("r5_1", "raid5", 1, 4, &[&[(1, 0)], &[(2, 0)], &[(3, 0)], &[(0, 1)], &[(2, 1)], &[(3, 1)], &[(0, 2)], &[(1, 2)], &[(3, 2)], &[(0, 3)], &[(2, 332)]]),
    ("r5_2", "raid5", 2, 4, &[&[(0, 0)], &[(1, 0)], &[(2, 0)], &[(3, 1)], &[(0, 1)], &[(1, 1)], &[(2, 2)], &[(3, 2)], &[(0, 2)], &[(1, 3)], &[(1, 332)]]),
    ("r5_3", "raid5", 3, 4, &[&[(1, 0)], &[(2, 0)], &[(3, 0)], &[(2, 1)], &[(3, 1)], &[(0, 1)], &[(3, 2)], &[(0, 2)], &[(1, 2)], &[(0, 3)], &[(2, 332)]]),
    ("r5_4", "raid5", 4, 4, &[&[(1, 0)], &[(2, 0)], &[(3, 0)], &[(1, 1)], &[(2, 1)], &[(3, 1)], &[(1, 2)], &[(2, 2)], &[(3, 2)], &[(1, 3)], &[(2, 332)]]),
    ("r5_5", "raid5", 5, 4, &[&[(0, 0)], &[(1, 0)], &[(2, 0)], &[(0, 1)], &[(1, 1)], &[(2, 1)], &[(0, 2)], &[(1, 2)], &[(2, 2)], &[(0, 3)], &[(1, 332)]]),
    ("r6_0", "raid6", 0, 5, &[&[(1, 0)], &[(2, 0)], &[(3, 0)], &[(0, 1)], &[(1, 1)], &[(2, 1)], &[(0, 2)], &[(1, 2)], &[(4, 2)], &[(0, 3)], &[(1, 332)]]),
    ("r6_1", "raid6", 1, 5, &[&[(2, 0)], &[(3, 0)], &[(4, 0)], &[(0, 1)], &[(3, 1)], &[(4, 1)], &[(0, 2)], &[(1, 2)], &[(4, 2)], &[(0, 3)], &[(1, 332)]]),
    ("r6_2", "raid6", 2, 5, &[&[(1, 0)], &[(2, 0)], &[(3, 0)], &[(0, 1)], &[(1, 1)], &[(2, 1)], &[(4, 2)], &[(0, 2)], &[(1, 2)], &[(3, 3)], &[(0, 332)]]),
    ("r6_3", "raid6", 3, 5, &[&[(2, 0)], &[(3, 0)], &[(4, 0)], &[(3, 1)], &[(4, 1)], &[(0, 1)], &[(4, 2)], &[(0, 2)], &[(1, 2)], &[(0, 3)], &[(0, 332)]]),
    ("r6_10", "raid6", 10, 5, &[&[(0, 0)], &[(1, 0)], &[(2, 0)], &[(4, 1)], &[(0, 1)], &[(1, 1)], &[(3, 2)], &[(4, 2)], &[(0, 2)], &[(2, 3)], &[(4, 332)]]),
    ("r6_18", "raid6", 18, 5, &[&[(0, 0)], &[(1, 0)], &[(2, 0)], &[(3, 1)], &[(0, 1)], &[(1, 1)], &[(2, 2)], &[(3, 2)], &[(0, 2)], &[(1, 3)], &[(1, 332)]]),
];

#[test]
fn arrays_that_were_traced_are_mapped_as_they_were_read() {
    for (name, level, layout, n, want) in SEEN {
        let members = disks(*n as usize);
        let node = match *level {
            "raid10" => Node::Raid10(Raid10::new(*layout, *n, C, 1000 * C).unwrap(), members),
            "raid5" => Node::Parity(Parity::five(*layout, *n, C).unwrap(), members),
            _ => Node::Parity(Parity::six(*layout, *n, C).unwrap(), members),
        };
        for (chunk, places) in (0..10).chain([997]).zip(*want) {
            let piece = pieces(&node, chunk * C, C).remove(0);
            let got: Vec<(usize, u64)> =
                piece.copies.iter().map(|c| (c.place.disk, c.place.offset / C)).collect();
            assert_eq!(got, *places, "{name}: chunk {chunk}");
        }
    }
}

/// The simulator's layouts (src/simulate) against this map, where it knows the same: each was written without the other.
#[test]
fn the_simulators_layouts_are_those_of_the_map() {
    const DISK: u64 = 512 << 20;
    const K: u64 = 1 << 10;
    let raid10 = |layout: u32, n: u32, chunk: u64| {
        Node::Raid10(Raid10::new(layout, n, chunk, DISK).unwrap(), disks(usize::try_from(n).unwrap()))
    };
    let cases = [
        ("md-raid1,disks=3", Node::Mirror(disks(3))),
        (
            "md-raid0,disks=3,chunk=64K",
            Node::Striped(Zones::new(64 * K, &[DISK; 3], Turns::OfArray).unwrap(), disks(3)),
        ),
        ("md-raid10,disks=4", raid10(0x102, 4, 512 * K)),
        ("md-raid10,disks=3,chunk=64K", raid10(0x102, 3, 64 * K)),
        ("md-raid10,disks=5,near=3,chunk=4K", raid10(0x103, 5, 4 * K)),
        ("md-raid10,disks=5,far=2,chunk=256K", raid10(0x201, 5, 256 * K)),
        ("md-raid10,disks=4,far=2,chunk=64K", raid10(0x201, 4, 64 * K)),
        ("md-raid10,disks=6,near=2,far=2,chunk=64K", raid10(0x202, 6, 64 * K)),
        ("md-raid10,disks=5,offset=2,chunk=64K", raid10(0x1_0201, 5, 64 * K)),
        ("md-raid5,disks=4,chunk=64K", Node::Parity(Parity::five(2, 4, 64 * K).unwrap(), disks(4))),
        ("md-raid6,disks=5,chunk=64K", Node::Parity(Parity::six(2, 5, 64 * K).unwrap(), disks(5))),
        // A space of two columns of two copies is md's near layout with its interleave as chunk (within one slab).
        ("mirror,disks=4,columns=2", raid10(0x102, 4, 256 * K)),
        ("mirror,disks=2,columns=1", Node::Mirror(disks(2))),
        ("parity,disks=4,columns=4", Node::Parity(Parity::five(2, 4, 256 * K).unwrap(), disks(4))),
    ];
    for (text, node) in &cases {
        let layout = spindle_simulate::Layout::parse(text, DISK).unwrap();
        // The first slab, whose end no array has.
        let end = if text.starts_with("md") { layout.size_bytes() } else { 256 << 20 };
        for at in (0..end - 8 * K).step_by(1_234_567) {
            let found = pieces(node, at, 4 * K);
            let mut told = Vec::new();
            layout.runs(at, 4 * K, |at, run| {
                told.push((at, run.copies.iter().map(|p| (p.disk, p.offset)).collect::<BTreeSet<_>>()));
            });
            let found: Vec<_> = found
                .iter()
                .map(|p| {
                    (
                        p.offset,
                        p.copies.iter().map(|c| (c.place.disk, c.place.offset)).collect::<BTreeSet<_>>(),
                    )
                })
                .collect();
            assert_eq!(told, found, "{text} at {at}");
        }
    }
}
