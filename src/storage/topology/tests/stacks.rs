//! md, device-mapper, bcache and what is made of them.

use super::*;

/// Four rotating disks.
const DISKS: &str = "
sata sda 8:0
sata sdb 8:16
sata sdc 8:32
sata sdd 8:48
nvme nvme0n1 259:0 Samsung_980
";

/// An md array over whole disks.
fn md(level: &str, more: &str, members: &[(&str, &str, &str)]) -> String {
    let mut text =
        format!("dev md0 9:0\n md/level={level}\n md/array_state=clean\n {}\n", more.replace(' ', "\n "));
    for (name, slot, state) in members {
        text.push_str(&format!(" md/dev-{name}/slot={slot}\n md/dev-{name}/state={state}\n"));
        if !state.contains("gone") {
            text.push_str(&format!(" md/dev-{name}/block -> {name}\n"));
        }
    }
    format!("{DISKS}{text}")
}

const FOUR: [(&str, &str, &str); 4] =
    [("sda", "0", "in_sync"), ("sdb", "1", "in_sync"), ("sdc", "2", "in_sync"), ("sdd", "3", "in_sync")];

#[test]
fn columns_and_copies_of_every_md_level() {
    use LayoutKind::{Mirror, Parity, Simple};
    for (level, layout, n, want, arrangement) in [
        ("raid0", "1", 4, (4, 1, Simple), None),
        ("linear", "0", 4, (1, 1, Simple), None),
        ("raid1", "0", 2, (1, 2, Mirror), None),
        ("raid1", "0", 3, (1, 3, Mirror), None),
        ("raid4", "0", 4, (3, 1, Parity), None),
        ("raid5", "2", 4, (3, 1, Parity), Some("left-symmetric")),
        ("raid6", "2", 4, (2, 1, Parity), Some("left-symmetric")),
        // A 4-disk two-copy striped mirror: two columns. Over three disks: one.
        ("raid10", "258", 4, (2, 2, Mirror), Some("near=2")),
        ("raid10", "258", 3, (1, 2, Mirror), Some("near=2")),
        ("raid10", "259", 4, (1, 3, Mirror), Some("near=3")),
        // Far and offset: the first copies of a row lie on all disks.
        ("raid10", "513", 4, (4, 2, Mirror), Some("far=2")),
        ("raid10", "66049", 4, (4, 2, Mirror), Some("offset=2")),
        ("raid10", "514", 4, (2, 4, Mirror), Some("near=2,far=2")),
    ] {
        let m = Machine::new(&md(
            level,
            &format!("md/layout={layout} md/chunk_size=524288 md/raid_disks={n}"),
            &FOUR[..n],
        ));
        let top = m.of_device("9:0");
        assert_eq!(figures(&top), want, "{level} {layout} over {n}");
        assert_eq!(top.node.arrangement.as_deref(), arrangement, "{level} {layout}");
        assert_eq!((top.disks.len(), top.node.degraded), (n, false), "{level} {layout}");
    }
}

#[test]
fn a_degraded_array_names_its_empty_slot_and_counts_what_is_left() {
    let m = Machine::new(&md(
        "raid1",
        "md/raid_disks=2 md/degraded=1",
        &[("sdb", "1", "in_sync"), ("sda", "none", "faulty"), ("sdc", "none", "spare")],
    ));
    let top = m.of_device("9:0");
    assert_eq!(drawn(&top.node), "md:raid1![-unknown:slot 0 disk:sdb -disk:sda@spare -disk:sdc@spare]");
    assert_eq!(figures(&top), (1, 1, LayoutKind::Mirror));
    assert_eq!(codes(&top), ["degraded", "mirror_one_disk_per_reader"]);
    let states: Vec<Option<&str>> = top.node.children.iter().map(|c| c.member_state.as_deref()).collect();
    assert_eq!(states, [Some("missing"), Some("in_sync"), Some("faulty"), Some("spare")]);
    let m = Machine::new(&md("raid5", "md/raid_disks=4 md/degraded=1 md/chunk_size=65536", &FOUR[..3]));
    let top = m.of_device("9:0");
    assert_eq!((figures(&top), top.node.degraded), ((3, 1, LayoutKind::Parity), true));
    assert!(top.advice[0].text.contains("slot 3 (missing)"), "{:?}", top.advice);
}

#[test]
fn a_rebuild_tells_how_far_how_fast_and_how_long() {
    let m = Machine::new(&md(
        "raid5",
        "md/raid_disks=3 md/degraded=1 md/layout=2 md/chunk_size=524288 md/sync_action=recover md/sync_speed=1024",
        &[("sda", "0", "in_sync"), ("sdb", "1", "in_sync"), ("sdc", "2", "spare")],
    ));
    std::fs::write(m.at("sys/class/block/md0/md/sync_completed"), "1000 / 4000\n").unwrap();
    let top = m.of_device("9:0");
    let sync =
        Sync { action: "recover".into(), done: 0.25, speed_bytes_s: Some(1 << 20), remaining_s: Some(1) };
    assert_eq!(top.node.sync, Some(sync));
    assert_eq!(top.node.children[2].member_state.as_deref(), Some("rebuilding"));
    assert_eq!(codes(&top), ["degraded", "resyncing", "read_ahead_below_stripe"]);
    std::fs::write(m.at("sys/class/block/md0/md/sync_completed"), "delayed\n").unwrap();
    assert_eq!(m.of_device("9:0").node.sync.unwrap().done, 0.0);
}

#[test]
fn write_mostly_and_mixed_members_are_told_apart() {
    let mixed = |state: &str| {
        let m = Machine::new(&md(
            "raid1",
            "md/raid_disks=2",
            &[("nvme0n1", "0", "in_sync"), ("sda", "1", state)],
        ));
        let top = m.of_device("9:0");
        (codes(&top).contains(&"mixed_rotational"), top.node.children[1].member_state.clone().unwrap())
    };
    assert_eq!(mixed("in_sync"), (true, "in_sync".to_owned()));
    assert_eq!(mixed("in_sync,write_mostly"), (false, "write_mostly".to_owned()));
}

#[test]
fn a_reshape_a_journal_and_an_inactive_array_are_described() {
    let m = Machine::new(&md(
        "raid5",
        "md/chunk_size=65536 md/layout=2 md/reshape_position=2048",
        &[
            ("sda", "0", "in_sync"),
            ("sdb", "1", "in_sync"),
            ("sdc", "2", "in_sync"),
            ("nvme0n1", "none", "journal"),
        ],
    ));
    std::fs::write(m.at("sys/class/block/md0/md/raid_disks"), "3 (2)\n").unwrap();
    let top = m.of_device("9:0");
    assert_eq!(drawn(&top.node), "md:raid5[disk:sda disk:sdb disk:sdc disk:nvme0n1@log]");
    assert_eq!(
        (top.columns, top.node.state.as_deref()),
        (2, Some("clean, being reshaped from 2 to 3 members"))
    );
    let m = Machine::new(&format!("{DISKS}dev md0 9:0 0\n md/level=\n md/array_state=inactive\n"));
    let node = m.of_device("9:0").node;
    assert_eq!((node.state.as_deref(), node.why.is_some()), (Some("inactive"), true));
}

/// `dm` devices with their tables.
fn dm(text: &str) -> String {
    format!("{DISKS}{text}")
}

#[test]
fn lvm_by_its_tables() {
    use LayoutKind::{Mirror, Parity, Simple};
    for (table, drawing, want) in [
        ("0 100 linear 8:0 2048", "lvm:linear[disk:sda]", (1, 1, Simple)),
        (
            "0 100 linear 8:0 2048\n100 50 linear 8:16 2048\n150 9 linear 8:0 9999",
            "lvm:linear[disk:sda disk:sdb]",
            (1, 1, Simple),
        ),
        (
            "0 300 striped 3 128 8:0 2048 8:16 2048 8:32 2048",
            "lvm:striped[disk:sda disk:sdb disk:sdc]",
            (3, 1, Simple),
        ),
        // Two stripes of one disk take turns.
        ("0 300 striped 2 128 8:0 2048 8:0 900000", "lvm:striped[disk:sda disk:sda]", (1, 1, Simple)),
        (
            "0 9 raid raid1 4 0 nosync region_size 4096 2 8:1 8:0 8:17 8:16",
            "lvm:raid1[disk:sda disk:sdb]",
            (1, 2, Mirror),
        ),
        (
            "0 9 raid raid5_ls 4 128 nosync region_size 4096 4 - 8:0 - 8:16 - 8:32 - 8:48",
            "lvm:raid5[disk:sda disk:sdb disk:sdc disk:sdd]",
            (3, 1, Parity),
        ),
        (
            "0 9 raid raid6_zr 4 128 nosync region_size 4096 4 - 8:0 - 8:16 - 8:32 - 8:48",
            "lvm:raid6[disk:sda disk:sdb disk:sdc disk:sdd]",
            (2, 1, Parity),
        ),
        (
            "0 9 raid raid10 6 512 nosync region_size 4096 raid10_copies 2 4 - 8:0 - 8:16 - 8:32 - 8:48",
            "lvm:raid10[disk:sda disk:sdb disk:sdc disk:sdd]",
            (2, 2, Mirror),
        ),
        (
            "0 9 mirror core 2 1024 nosync 2 8:0 0 8:16 0 1 handle_errors",
            "lvm:mirror[disk:sda disk:sdb]",
            (1, 2, Mirror),
        ),
        // One target after another.
        (
            "0 100 striped 2 128 8:0 0 8:16 0\n100 100 linear 8:32 0",
            "lvm:linear[lvm:striped[disk:sda disk:sdb] lvm:linear[disk:sdc]]",
            (2, 1, Simple),
        ),
        ("0 9 raid raid1 3 0 rebuild 1 2 - 8:0 - 8:16", "lvm:raid1![disk:sda -disk:sdb]", (1, 1, Mirror)),
        (
            "0 9 raid raid1 2 0 sync 2 - 8:0 - -\nstatus raid1 2 A- 9/9 idle 0 0",
            "lvm:raid1![disk:sda -unknown:slot 1]",
            (1, 1, Mirror),
        ),
        ("0 9 futuristic 7 8:0 8:16", "lvm:futuristic[disk:sda disk:sdb]", (1, 1, Simple)),
        ("0 9 error ", "-lvm:error:vg-lv", (1, 1, Simple)),
        ("0 9 zero ", "lvm:zero:vg-lv", (1, 1, Simple)),
    ] {
        let m = Machine::new(&dm(&format!(
            "dev dm-0 252:0\n dm/name=vg-lv\n dm/uuid=LVM-abc\n%dm 252:0\n{table}\n%%\n"
        )));
        let top = m.of_device("252:0");
        assert_eq!((drawn(&top.node).as_str(), figures(&top)), (drawing, want), "{table}");
        assert_eq!((top.node.name.as_str(), top.node.path.as_deref()), ("vg-lv", Some("/dev/mapper/vg-lv")));
    }
}

#[test]
fn a_raid_volume_tells_its_synchronisation() {
    let table = "0 9 raid raid1 2 0 sync 2 - 8:0 - 8:16\nstatus raid1 2 aa 250/1000 resync 0 0 -";
    let m = Machine::new(&dm(&format!(
        "dev dm-0 252:0\n dm/name=vg-lv\n dm/uuid=LVM-abc\n%dm 252:0\n{table}\n%%\n"
    )));
    let top = m.of_device("252:0");
    assert_eq!(top.node.sync.as_ref().map(|s| (s.action.as_str(), s.done)), Some(("resync", 0.25)));
    assert_eq!((top.node.degraded, top.copies), (false, 2));
}

#[test]
fn crypt_caches_thin_pools_and_multipath() {
    let text = dm("
dev dm-0 252:0
 dm/name=secret
 dm/uuid=CRYPT-LUKS2-abc-secret
dev dm-1 252:1
 dm/name=fast
 dm/uuid=
dev dm-2 252:2
 dm/name=wc
dev dm-3 252:3
 dm/name=vg-pool-tpool
 dm/uuid=LVM-a-tpool
dev dm-4 252:4
 dm/name=vg-thin
 dm/uuid=LVM-b
dev dm-5 252:5
 dm/name=mpatha
 dm/uuid=mpath-3600
dev dm-6 252:6
 dm/name=mpatha-part1
 dm/uuid=part1-mpath-3600
dev dm-7 252:7
 dm/name=vg-snap
 dm/uuid=LVM-c
%dm 252:0
0 9 crypt aes-xts-plain64 :64:logon:x 0 8:0 32768
%%
%dm 252:1
0 9 cache 259:0 259:0 8:16 128 2 metadata2 writeback smq 0
status 8 72/1024 128 5/100 10 20 30 40 0 5 3 2 metadata2 writeback 2 migration_threshold 2048 smq 0 rw -
%%
%dm 252:2
0 9 writecache s 8:0 259:0 4096 0
status 0 1000 900 0 1 2 3
%%
%dm 252:3
0 9 thin-pool 259:0 8:0 128 0 0
status 1 100/1000 500/1000 - rw no_discard_passdown queue_if_no_space - 1024
%%
%dm 252:4
0 9 thin 252:3 1
%%
%dm 252:5
0 9 multipath 0 0 2 1 service-time 0 1 1 8:0 1 service-time 0 1 1 8:16 1
status 2 0 0 0 2 1 A 0 1 0 8:0 A 0 E 0 1 0 8:16 F 3
%%
%dm 252:6
0 9 linear 252:5 2048
%%
%dm 252:7
0 9 snapshot 8:0 8:16 P 16
%%
");
    // Two ways to one disk have one name in the world.
    let text = text
        .replace("sata sda 8:0", "sata sda 8:0\n device/wwid=naa.1")
        .replace("sata sdb 8:16", "sata sdb 8:16\n device/wwid=naa.1");
    let m = Machine::new(&text);
    let top = |n: &str| m.of_device(n);
    assert_eq!(drawn(&top("252:0").node), "crypt:aes-xts-plain64[disk:sda]");
    let cache = top("252:1");
    assert_eq!(drawn(&cache.node), "cache:cache[disk:sdb@origin disk:nvme0n1@cache disk:nvme0n1@metadata]");
    assert_eq!(cache.node.state.as_deref(), Some("writeback, 3 blocks dirty"));
    let tier = cache.tier.unwrap();
    assert_eq!(
        (tier.kind.as_str(), tier.fast, tier.slow),
        ("dm-cache", vec!["nvme0n1".to_owned()], vec!["sdb".to_owned()])
    );
    assert_eq!(tier.mode.as_deref(), Some("writeback"));
    assert_eq!(drawn(&top("252:2").node), "writecache:writecache[disk:sda@origin disk:nvme0n1@cache]");
    assert_eq!(drawn(&top("252:4").node), "lvm:thin[lvm:thin-pool[disk:sda disk:nvme0n1@metadata]]");
    assert_eq!(top("252:3").node.state.as_deref(), Some("50 % full"));
    let multi = top("252:6");
    assert_eq!(drawn(&multi.node), "partition:linear[dm:multipath![disk:sda -disk:sdb]]");
    assert_eq!((figures(&multi), multi.node.start_bytes), ((1, 1, LayoutKind::Simple), Some(1 << 20)));
    assert_eq!(drawn(&top("252:7").node), "lvm:snapshot[disk:sda@origin disk:sdb]");
}

#[test]
fn without_privilege_names_and_sizes_tell_what_they_can() {
    let lv = |name: &str, more: &str| {
        format!("dev dm-9 252:9 {}\n dm/name={name}\n dm/uuid=LVM-x\n", more.split('\n').next().unwrap())
            + &more.split('\n').skip(1).map(|l| format!(" {l}\n")).collect::<String>()
    };
    let parts = |mark: &str, n: usize| -> String {
        (0..n)
            .map(|i| {
                format!(
                    "dev dm-{i} 252:{i} 1000\n dm/name=vg-lv_{mark}_{i}\n dm/uuid=LVM-y{i}\n slaves: {}\n",
                    ["sda", "sdb", "sdc", "sdd"][i]
                )
            })
            .collect()
    };
    let slaves = |n: usize| (0..n).map(|i| format!("dm-{i}")).collect::<Vec<_>>().join(" ");
    let figure = |text: &str| {
        let top = Machine::new(&dm(text)).of_device("252:9");
        (top.node.level.clone().unwrap_or_default(), top.columns, top.copies, top.node.why.is_some())
    };
    for (columns, n, want) in
        [(1, 2, ("raid1", 1, 2)), (3, 4, ("raid5", 3, 1)), (2, 4, ("raid10", 2, 2)), (4, 4, ("raid0", 4, 1))]
    {
        let text = parts("rimage", n) + &lv("vg-lv", &format!("{}\nslaves: {}", columns * 1000, slaves(n)));
        let got = figure(&text);
        assert_eq!((got.0.as_str(), got.1, got.2, got.3), (want.0, want.1, want.2, true), "{columns} of {n}");
    }
    // A stripe says so by its limits; without them it is a concatenation.
    let stripe =
        lv("vg-lv", "2000\nslaves: sda sdb\nqueue/minimum_io_size=65536\nqueue/optimal_io_size=131072");
    assert_eq!(figure(&stripe), ("striped".to_owned(), 2, 1, true));
    assert_eq!(figure(&lv("vg-lv", "2000\nslaves: sda sdb")), ("linear".to_owned(), 1, 1, true));
    let thin = format!(
        "{}dev dm-3 252:3\n dm/name=vg-pool-tpool\n dm/uuid=LVM-t\n slaves: dm-0\n{}",
        "dev dm-0 252:0\n dm/name=vg-pool_tdata\n dm/uuid=LVM-d\n slaves: sda\n",
        lv("vg-thin", "500\nslaves: dm-3")
    );
    let top = Machine::new(&dm(&thin)).of_device("252:9");
    assert_eq!(drawn(&top.node), "lvm:thin[lvm:thin-pool[lvm:linear[disk:sda]]]");
    let crypt = "dev dm-9 252:9\n dm/name=c\n dm/uuid=CRYPT-LUKS2-abc-c\n slaves: sda\n";
    assert_eq!(drawn(&Machine::new(&dm(crypt)).of_device("252:9").node), "crypt:luks2[disk:sda]");
}

#[test]
fn bcache_shows_both_sides_and_what_is_on_the_cache_alone() {
    let text = dm("
dev bcache0 251:0
 slaves: sda nvme0n1
 bcache -> sys/fs/backing
sys/fs/backing/cache_mode=writethrough [writeback] writearound none
sys/fs/backing/state=dirty
sys/fs/backing/dirty_data=1.5G
")
    .replace(
        "nvme nvme0n1 259:0 Samsung_980",
        "nvme nvme0n1 259:0 Samsung_980\n bcache/bucket_size=512.0k\n bcache/io_errors=0",
    );
    let m = Machine::new(&text);
    let top = m.of_device("251:0");
    assert_eq!(drawn(&top.node), "bcache:writeback[disk:sda@origin disk:nvme0n1@cache]");
    assert_eq!(top.node.state.as_deref(), Some("writeback, dirty, 1.5G on the cache alone"));
    assert_eq!(top.tier.as_ref().map(|t| t.kind.as_str()), Some("bcache"));
    assert_eq!(codes(&top), Vec::<&str>::new());
    std::fs::write(m.at("sys/class/block/nvme0n1/bcache/io_errors"), "7\n").unwrap();
    assert_eq!(codes(&m.of_device("251:0")), ["cache_failing"]);
}

#[test]
fn composed_stacks_have_the_columns_of_all_their_storeys() {
    let pair = |n: u32, a: &str, b: &str| {
        format!(
            "dev md{n} 9:{n} 1000\n md/level=raid1\n md/raid_disks=2\n md/dev-{a}/slot=0\n md/dev-{a}/state=in_sync\n md/dev-{a}/block -> {a}\n md/dev-{b}/slot=1\n md/dev-{b}/state=in_sync\n md/dev-{b}/block -> {b}\n"
        )
    };
    // An LVM stripe over two md mirrors.
    let m = Machine::new(&dm(&format!(
        "{}{}dev dm-0 252:0\n dm/name=vg-lv\n dm/uuid=LVM-x\n%dm 252:0\n0 9 striped 2 128 9:1 0 9:2 0\n%%\n",
        pair(1, "sda", "sdb"),
        pair(2, "sdc", "sdd")
    )));
    let top = m.of_device("252:0");
    assert_eq!(drawn(&top.node), "lvm:striped[md:raid1[disk:sda disk:sdb] md:raid1[disk:sdc disk:sdd]]");
    assert_eq!((figures(&top), top.disks.len()), ((2, 2, LayoutKind::Mirror), 4));
    assert_eq!(top.node.children[0].columns, Some(1));

    // Synology SHR: raid5 over the slices that all disks have, raid1 over what the two larger ones have left.
    let mut text = String::new();
    for (i, d) in ["a", "b", "c", "d"].iter().enumerate() {
        text.push_str(&format!("part sd{d}5 8:{} 2048 1000\n", 5 + 16 * i));
    }
    text.push_str("part sdc6 8:38 4096 1000\npart sdd6 8:54 4096 1000\n");
    text.push_str(
        "dev md2 9:2 3000\n md/level=raid5\n md/layout=2\n md/chunk_size=65536\n md/raid_disks=4\n",
    );
    for (slot, d) in ["sda5", "sdb5", "sdc5", "sdd5"].iter().enumerate() {
        text.push_str(&format!(
            " md/dev-{d}/slot={slot}\n md/dev-{d}/state=in_sync\n md/dev-{d}/block -> {d}\n"
        ));
    }
    text.push_str(&pair(3, "sdc6", "sdd6"));
    text.push_str("dev dm-0 252:0\n dm/name=vg1-volume_1\n dm/uuid=LVM-x\n%dm 252:0\n0 3000 linear 9:2 1152\n3000 1000 linear 9:3 1152\n%%\n");
    let top = Machine::new(&dm(&text)).of_device("252:0");
    assert_eq!((figures(&top), top.disks.len()), ((3, 1, LayoutKind::Mixed), 4));

    // A stripe over two partitions of one disk has one column.
    let m = Machine::new(&dm(
        "part sda1 8:1 0 9\npart sda2 8:2 9 9\ndev dm-0 252:0\n dm/name=vg-lv\n dm/uuid=LVM-x\n%dm 252:0\n0 9 striped 2 128 8:1 0 8:2 0\n%%\n",
    ));
    let top = m.of_device("252:0");
    assert_eq!((figures(&top), codes(&top)), ((1, 1, LayoutKind::Simple), vec!["columns_share_a_disk"]));
}

#[test]
fn a_read_ahead_below_one_stripe_is_worth_a_word() {
    let with = |kib: u32| {
        let m = Machine::new(&md(
            "raid0",
            &format!("md/raid_disks=4 md/chunk_size=524288 queue/read_ahead_kb={kib}"),
            &FOUR,
        ));
        codes(&m.of_device("9:0")).contains(&"read_ahead_below_stripe")
    };
    assert_eq!((with(128), with(2048), with(4096)), (true, false, false));
}

#[test]
fn an_offline_disk_is_a_failing_one() {
    let m = Machine::new("sata sda 8:0 X Y\n device/state=offline\n");
    let top = m.of_device("8:0");
    assert_eq!((codes(&top), top.node.disk.health.as_deref()), (vec!["disk_failing"], Some("failing")));
    let m = Machine::new("sata sda 8:0 X Y\n device/state=blocked\n");
    let top = m.of_device("8:0");
    assert_eq!((codes(&top), top.node.state.as_deref()), (vec![], Some("blocked")));
}
