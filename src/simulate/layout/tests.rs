//! Layouts against tables worked out by hand, and what holds of every one: each byte has as many places as it has copies, no two on one disk,
//! and no place holds two bytes.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const K: u64 = 1 << 10;
const M: u64 = 1 << 20;
const DISK: u64 = 8 << 30;

fn layout(text: &str) -> Layout {
    Layout::parse(text, DISK).unwrap()
}

/// Disk and byte of each copy.
fn places(text: &str, at: u64) -> Vec<(usize, u64)> {
    layout(text).run(at).copies.iter().map(|p| (p.disk, p.offset)).collect()
}

/// First disks of consecutive units.
fn disks(text: &str, unit: u64, count: u64) -> Vec<usize> {
    (0..count).map(|i| places(text, i * unit)[0].0).collect()
}

#[test]
fn a_mirror_of_three_disks_with_one_column_puts_each_slab_on_another_pair() {
    const SLAB: u64 = 256 * M;
    let of = |slab: u64| places("mirror,disks=3,columns=1", slab * SLAB + 5);
    assert_eq!(of(0), [(0, 5), (1, 5)]);
    assert_eq!(of(1), [(2, 5), (0, SLAB + 5)]);
    assert_eq!(of(2), [(1, SLAB + 5), (2, SLAB + 5)]);
    assert_eq!(of(3), [(0, 2 * SLAB + 5), (1, 2 * SLAB + 5)]);
    let l = layout("mirror,disks=3,columns=1");
    assert_eq!((l.columns(), l.copies(), l.run(0).len_bytes), (1, 2, SLAB));
    assert_eq!(l.size_bytes(), DISK / 2 * 3);
}

#[test]
fn a_mirror_of_four_disks_with_two_columns_takes_turns_every_interleave() {
    const TEXT: &str = "mirror,disks=4,columns=2";
    assert_eq!(places(TEXT, 0), [(0, 0), (1, 0)]);
    assert_eq!(places(TEXT, 256 * K), [(2, 0), (3, 0)]);
    assert_eq!(places(TEXT, 512 * K), [(0, 256 * K), (1, 256 * K)]);
    // 2 columns of slabs of 256 MiB are a group of 512 MiB; the next lies behind it on the same disks.
    assert_eq!(places(TEXT, 512 * M + 300 * K), [(2, 256 * M + 44 * K), (3, 256 * M + 44 * K)]);
    assert_eq!(places("mirror,disks=4,columns=2,interleave=64K", 64 * K), [(2, 0), (3, 0)]);
    assert_eq!(places("mirror,disks=5,columns=1,copies=3", 256 * M), [(3, 0), (4, 0), (0, 256 * M)]);
}

#[test]
fn spaces_with_parity_rotate_it_and_put_no_data_on_it() {
    // Row 0 has its parity in the last column, row 1 in the one before; data goes on behind it.
    assert_eq!(disks("parity,disks=4,columns=4", 256 * K, 9), [0, 1, 2, 3, 0, 1, 2, 3, 0]);
    let l = layout("parity,disks=4,columns=4");
    let row = l.row(4 * 256 * K).unwrap();
    assert_eq!((row.start, row.data_bytes, row.unit_bytes), (768 * K, 768 * K, 256 * K));
    assert_eq!(row.parity, [Place { disk: 2, offset: 256 * K }]);
    assert_eq!((l.columns(), l.copies(), l.parity()), (3, 1, 1));
    assert_eq!(layout("parity,disks=7,redundancy=2").columns(), 5);
    assert_eq!(disks("simple,disks=3", 256 * K, 5), [0, 1, 2, 0, 1]);
}

#[test]
fn md_levels_follow_the_drawings_of_its_manual() {
    assert_eq!(disks("md-raid0,disks=3,chunk=64K", 64 * K, 5), [0, 1, 2, 0, 1]);
    assert_eq!(places("md-raid1,disks=3", 7 * M), [(0, 7 * M), (1, 7 * M), (2, 7 * M)]);
    // md(4), near: with 3 devices and two copies chunks are 0 0 1 | 1 2 2.
    const NEAR: &str = "md-raid10,disks=3,near=2,chunk=64K";
    assert_eq!(places(NEAR, 0), [(0, 0), (1, 0)]);
    assert_eq!(places(NEAR, 64 * K), [(2, 0), (0, 64 * K)]);
    assert_eq!(places(NEAR, 128 * K), [(1, 64 * K), (2, 64 * K)]);
    // offset: 0 1 2 3 | 3 0 1 2.
    const OFFSET: &str = "md-raid10,disks=4,offset=2,chunk=64K";
    assert_eq!(places(OFFSET, 3 * 64 * K), [(3, 0), (0, 64 * K)]);
    assert_eq!(places(OFFSET, 4 * 64 * K), [(0, 128 * K), (1, 192 * K)]);
    // far: the second set begins half-way down, moved on by one disk.
    const FAR: &str = "md-raid10,disks=4,far=2,chunk=64K";
    assert_eq!(places(FAR, 5 * 64 * K), [(1, 64 * K), (2, DISK / 2 + 64 * K)]);
    // raid5, left-symmetric: data behind the parity, which is on the last disk first.
    assert_eq!(disks("md-raid5,disks=4,chunk=64K", 64 * K, 9), [0, 1, 2, 3, 0, 1, 2, 3, 0]);
    // raid6: P on disk 3 and Q on disk 0 in the first row, P on 2 and Q on 3 in the second.
    assert_eq!(disks("md-raid6,disks=4,chunk=64K", 64 * K, 4), [1, 2, 0, 1]);
    let l = layout("md-raid10,disks=4");
    assert_eq!((l.columns(), l.copies()), (2, 2));
}

#[test]
fn btrfs_puts_chunks_where_most_room_is_and_stripes_within_them() {
    const G: u64 = 1 << 30;
    let gib = |text: &str, at: u64| {
        Layout::parse(text, 8 << 40)
            .unwrap()
            .run(at)
            .copies
            .iter()
            .map(|p| (p.disk, p.offset))
            .collect::<Vec<_>>()
    };
    // Three disks, two copies: 0 1, 2 0, 1 2.
    assert_eq!(gib("btrfs-raid1,disks=3", 0), [(0, M), (1, M)]);
    assert_eq!(gib("btrfs-raid1,disks=3", G + 9), [(2, M + 9), (0, G + M + 9)]);
    assert_eq!(gib("btrfs-raid1,disks=3", 2 * G), [(1, G + M), (2, G + M)]);
    // Two disks: the order turns round with every chunk.
    assert_eq!(gib("btrfs-raid1,disks=2", G), [(1, G + M), (0, G + M)]);
    // raid10: pairs take turns every 64 KiB.
    assert_eq!(gib("btrfs-raid10,disks=4", 64 * K), [(2, M), (3, M)]);
    assert_eq!(gib("btrfs-raid10,disks=4", 128 * K), [(0, M + 64 * K), (1, M + 64 * K)]);
    assert_eq!(gib("btrfs-raid0,disks=3", 4 * 64 * K), [(1, M + 64 * K)]);
    // raid5: stripe (row + column) mod disks, parity behind the data.
    assert_eq!(gib("btrfs-raid5,disks=3", 2 * 64 * K), [(1, M + 64 * K)]);
    let row = Layout::parse("btrfs-raid5,disks=3", 8 << 40).unwrap().row(2 * 64 * K).unwrap();
    assert_eq!((row.start, row.parity), (128 * K, vec![Place { disk: 0, offset: M + 64 * K }]));
    // A chunk is a tenth of a small pool: of 2 × 448 MiB, 96 MiB.
    let small = Layout::parse("btrfs-raid1,disks=2", 448 * M).unwrap();
    assert_eq!(small.run(0).len_bytes, 96 * M);
}

#[test]
fn zfs_gives_each_vdev_a_megabyte_a_disk_in_turn_and_cuts_records_of_raidz() {
    const START: u64 = 4 << 20;
    assert_eq!(places("zfs-mirror,disks=4", 0), [(0, START), (1, START)]);
    assert_eq!(places("zfs-mirror,disks=4", M + 7), [(2, START + 7), (3, START + 7)]);
    assert_eq!(places("zfs-mirror,disks=4", 2 * M), [(0, START + M), (1, START + M)]);
    // Records of 128 KiB: eight to a vdev.
    assert_eq!(disks("zfs-mirror,disks=4,record=128K", 128 * K, 10), [0, 0, 0, 0, 0, 0, 0, 0, 2, 2]);
    // raidz1 of 3: 256 sectors are 2 × 128 and 128 of parity, 384 in all: an even number, so nothing is skipped.
    let z = layout("zfs-raidz1,disks=3");
    assert_eq!(
        z.run(0),
        Run { len_bytes: 512 * K, copies: Copies::of(1, |_| Place { disk: 1, offset: START }) }
    );
    assert_eq!(z.run(512 * K).copies[0], Place { disk: 2, offset: START });
    // The second record begins 1.5 MiB in: bit 20 is set, so parity and the first column change places.
    assert_eq!(z.run(M).copies[0], Place { disk: 0, offset: START + 512 * K });
    assert_eq!((z.columns(), z.parity(), layout("zfs-raidz2,disks=6").columns()), (2, 1, 4));
}

#[test]
fn what_is_not_understood_or_cannot_be_says_what_would() {
    for (text, mention) in [
        ("", "there is no kind ``"),
        ("raid7,disks=3", "the form is KIND,disks=N"),
        ("mirror", "`disks=N` is missing"),
        ("mirror,4", "`4` is not KEY=VALUE"),
        ("mirror,disks=4,disks=3", "twice"),
        ("mirror,disks=0", "no number from 1 on"),
        ("mirror,disks=x", "no number from 1 on"),
        ("mirror,disks=99999999999999999999", "no number from 1 on"),
        ("mirror,disks=4,chunk=64K", "`chunk` means nothing here"),
        ("mirror,disks=4,interleave=100K", "no power of two"),
        ("mirror,disks=4,interleave=256X", "no number of bytes such as 256K"),
        ("mirror,disks=4,interleave=99999999999T", "too much"),
        ("mirror,disks=4,read=best", "none of idle, primary, rotate"),
        ("mirror,disks=3,columns=2", "2 columns of 2 copies need at least 4 disks"),
        ("mirror,disks=1", "need at least 2 disks"),
        ("mirror,disks=4,copies=4", "2 or 3 copies"),
        ("parity,disks=2", "at least 3 columns"),
        ("parity,disks=6,redundancy=2", "at least 7 columns"),
        ("simple,disks=65", "at most 64 disks"),
        ("md-raid10,disks=4,far=2,offset=2", "exclude each other"),
        ("md-raid10,disks=3,near=2,far=2", "need at least 4 disks"),
        ("md-raid5,disks=2", "need at least 3 disks"),
        ("md-raid1,disks=9", "at most 8 copies"),
        ("zfs-mirror,disks=5,vdevs=2", "do not make 2 vdevs"),
        ("zfs-raidz2,disks=2", "need at least 3 disks"),
        ("btrfs-raid10,disks=3", "need at least 4 disks"),
        ("single,disks=2", "`single` is one disk"),
    ] {
        let told = Layout::parse(text, DISK).unwrap_err().to_string();
        assert!(told.contains(mention), "{text}: {told}");
    }
    let told = Layout::parse("mirror,disks=2", M).unwrap_err().to_string();
    assert!(told.contains("too small"), "{told}");
    // Each has as many as it needs.
    for text in EVERY {
        assert!(Layout::parse(text, DISK).is_ok(), "{text}");
    }
}

/// Every kind, and the odd ones among their forms.
pub(crate) const EVERY: [&str; 40] = [
    "single",
    "simple,disks=1",
    "simple,disks=5,columns=3,interleave=64K",
    "mirror,disks=2",
    "mirror,disks=3,columns=1",
    "mirror,disks=4,columns=1",
    "mirror,disks=4,columns=2",
    "mirror,disks=7,columns=3,slab=16M",
    "mirror,disks=7,columns=2,copies=3,slab=16M",
    "parity,disks=3",
    "parity,disks=5,columns=4,interleave=32K,slab=1M",
    "parity,disks=9,columns=7,redundancy=2",
    "md-raid0,disks=3,chunk=64K",
    "md-raid1,disks=2",
    "md-raid1,disks=8",
    "md-raid10,disks=4",
    "md-raid10,disks=3,near=2,chunk=64K",
    "md-raid10,disks=5,near=3,chunk=4K",
    "md-raid10,disks=2,far=2,chunk=64K",
    "md-raid10,disks=5,far=2,chunk=256K",
    "md-raid10,disks=5,offset=3,chunk=64K",
    "md-raid10,disks=6,near=2,far=2,chunk=64K",
    "md-raid5,disks=3,chunk=64K",
    "md-raid5,disks=7",
    "md-raid6,disks=5,chunk=64K",
    "btrfs-single,disks=3",
    "btrfs-raid0,disks=4",
    "btrfs-raid1,disks=2",
    "btrfs-raid1,disks=5",
    "btrfs-raid1c3,disks=4",
    "btrfs-raid1c4,disks=4",
    "btrfs-raid10,disks=5",
    "btrfs-raid5,disks=4",
    "btrfs-raid6,disks=5",
    "zfs-stripe,disks=3",
    "zfs-mirror,disks=4,record=128K",
    "zfs-mirror,disks=6,vdevs=2",
    "zfs-raidz1,disks=4",
    "zfs-raidz2,disks=12,vdevs=2,record=128K",
    "zfs-raidz3,disks=8,record=16M",
];

proptest! {
    #[test]
    fn each_byte_has_as_many_places_as_copies_and_no_two_on_one_disk(which in 0..EVERY.len(), share in 0.0..1.0_f64) {
        let l = layout(EVERY[which]);
        let at = (l.size_bytes() as f64 * share) as u64;
        let run = l.run(at);
        prop_assert!(run.len_bytes > 0);
        prop_assert_eq!(run.copies.len(), l.copies());
        let disks: std::collections::BTreeSet<usize> = run.copies.iter().map(|p| p.disk).collect();
        prop_assert_eq!(disks.len(), l.copies(), "{} at {}: {:?}", l.text(), at, run);
        prop_assert!(disks.iter().all(|d| *d < l.disks()));
        for place in run.copies.iter() {
            prop_assert!(place.offset < DISK, "{} at {}: {:?}", l.text(), at, run);
        }
    }

    #[test]
    fn a_run_goes_on_on_the_same_disks_to_its_end(which in 0..EVERY.len(), share in 0.0..1.0_f64, inside in 0.0..1.0_f64) {
        let l = layout(EVERY[which]);
        let at = (l.size_bytes() as f64 * share) as u64;
        let run = l.run(at);
        let by = (run.len_bytes as f64 * inside) as u64 % run.len_bytes;
        let later = l.run(at + by);
        prop_assert_eq!(later.len_bytes, run.len_bytes - by, "{} at {}", l.text(), at);
        for (a, b) in run.copies.iter().zip(later.copies.iter()) {
            prop_assert_eq!((a.disk, a.offset + by), (b.disk, b.offset), "{} at {}", l.text(), at);
        }
    }

    #[test]
    fn parity_lies_on_no_disk_of_its_rows_data(which in 0..EVERY.len(), share in 0.0..1.0_f64) {
        let l = layout(EVERY[which]);
        let at = (l.size_bytes() as f64 * share) as u64;
        if let Some(row) = l.row(at) {
            prop_assert!(row.start <= at && at < row.start + row.data_bytes);
            prop_assert_eq!(row.parity.len(), l.parity());
            let mut seen: Vec<Place> = row.parity.clone();
            for unit in 0..row.data_bytes / row.unit_bytes {
                seen.push(l.run(row.start + unit * row.unit_bytes).copies[0]);
            }
            let disks: std::collections::BTreeSet<usize> = seen.iter().map(|p| p.disk).collect();
            prop_assert_eq!(disks.len(), seen.len(), "{} at {}: {:?}", l.text(), at, seen);
        }
    }
}

#[test]
fn no_place_holds_two_bytes() {
    for text in EVERY {
        // Small disks, so that the end of the volume is reached.
        let small = 96 * M;
        let text =
            if text.contains("slab") || !["simple", "mirror", "parity"].iter().any(|k| text.starts_with(k)) {
                text.to_owned()
            } else {
                format!("{text},slab=8M")
            };
        let l = Layout::parse(&text, small).unwrap();
        let mut taken: BTreeMap<(usize, u64), u64> = BTreeMap::new();
        let mut rows = std::collections::BTreeSet::new();
        let (mut at, end) = (0, l.size_bytes());
        while at < end {
            let run = l.run(at);
            let len = run.len_bytes.min(end - at);
            let mut put = |disk: usize, offset: u64, len: u64| {
                assert!(offset + len <= small, "{text}: {len} at {offset} of disk {disk}");
                assert!(
                    taken.insert((disk, offset), offset + len).is_none(),
                    "{text}: disk {disk} at {offset} twice"
                );
            };
            run.copies.iter().for_each(|p| put(p.disk, p.offset, len));
            if let Some(row) = l.row(at).filter(|r| rows.insert(r.start)) {
                row.parity.iter().for_each(|p| put(p.disk, p.offset, row.unit_bytes));
            }
            at += len;
        }
        let mut last: Option<((usize, u64), u64)> = None;
        for (place, end) in taken {
            if let Some((before, until)) = last.filter(|(before, _)| before.0 == place.0) {
                assert!(until <= place.1, "{text}: disk {} holds {before:?}..{until} and {place:?}", place.0);
            }
            last = Some((place, end));
        }
    }
}

#[test]
fn a_walk_over_a_stretch_covers_it_once() {
    let l = layout("mirror,disks=4,columns=2");
    let (mut next, mut count) = (100 * K, 0);
    l.runs(100 * K, M, |at, run| {
        assert_eq!(at, next);
        next += run.len_bytes;
        count += 1;
    });
    assert_eq!((next, count), (100 * K + M, 5));
}
