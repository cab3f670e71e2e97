//! Recorded machines: every stack, healthy and not, and hostile ones.

mod figures_of_disks;
mod machine;
mod pools;
mod stacks;
mod zfs;

use machine::{Machine, drawn};

use super::*;

/// Codes of the advice.
fn codes(t: &Topology) -> Vec<&str> {
    t.advice.iter().map(|a| a.code.as_str()).collect()
}

fn figures(t: &Topology) -> (u32, u32, LayoutKind) {
    (t.columns, t.copies, t.layout)
}

#[test]
fn a_partition_leads_to_its_whole_disk_with_all_that_is_known_of_it() {
    let m = Machine::new(
        "sata sda 8:0 WDC_WD80EFAX-68K SN1
           device/queue_depth=32
           device/wwid=naa.5000cca0
           device/state=running
         part sda2 8:2 64 1000
         %file run/udev/data/b8:2
           E:ID_FS_UUID=0b1c
         %%",
    );
    let top = m.of_device("8:2");
    assert_eq!(drawn(&top.node), "partition[disk:sda]");
    assert_eq!((top.disks.as_slice(), figures(&top)), (&["sda".to_owned()][..], (1, 1, LayoutKind::Simple)));
    assert_eq!((top.node.size_bytes, top.node.start_bytes), (512_000, Some(32_768)));
    assert_eq!(top.filesystem.uuid.as_deref(), Some("0b1c"));
    let want = DiskFacts {
        model: Some("WDC WD80EFAX-68K".into()),
        serial: Some("SN1".into()),
        wwid: Some("naa.5000cca0".into()),
        rotational: Some(true),
        transport: Some("sata".into()),
        queue_depth: Some(32),
        ..DiskFacts::default()
    };
    assert_eq!(top.node.children[0].disk, want);
    assert_eq!(codes(&top), Vec::<&str>::new());
    let on = Sysfs::on_disk(&m.roots.sysfs().by_number((8, 2)).unwrap()).unwrap();
    assert_eq!(on, sysfs::OnDisk { disk: "sda".into(), base: 32_768, device: (8, 0) });
}

#[test]
fn every_way_to_connect_a_disk_is_named() {
    let m = Machine::new(
        "sata sda 8:0
         usb sdb 8:16 Elements_25A3
           device/vendor=WD
         scsi sdc 8:32
         sas sdd 8:48 ST8000NM0075
           device/vendor=SEAGATE
           device/wwid=naa.5000c500a
         nvme nvme0n1 259:0 Samsung_980
           queue/nr_requests=1023
         virtio vda 254:0
           serial=abc
           device/vendor=0x1af4
         mmc mmcblk0 179:0 SD64G
         nbd nbd0 43:0
         loop loop0 7:0
         part nvme0n1p1 259:1 2048 4096
         part mmcblk0p1 179:1 2048 4096",
    );
    let got: Vec<(String, Option<String>)> =
        ["8:0", "8:16", "8:32", "8:48", "259:0", "254:0", "179:0", "43:0", "7:0", "259:1", "179:1"]
            .into_iter()
            .map(|n| {
                let node = m.of_device(n).node;
                let node = node.children.first().cloned().unwrap_or(node);
                (format!("{} {}", node.kind, node.name), node.disk.transport.clone())
            })
            .collect();
    let want = [
        ("disk sda", "sata"),
        ("disk sdb", "usb"),
        ("disk sdc", "scsi"),
        ("disk sdd", "sas"),
        ("disk nvme0n1", "nvme"),
        ("disk vda", "virtio"),
        ("disk mmcblk0", "mmc"),
        ("nbd nbd0", "nbd"),
        ("loop loop0", "loop"),
        ("disk nvme0n1", "nvme"),
        ("disk mmcblk0", "mmc"),
    ];
    assert_eq!(got, want.map(|(n, t)| (n.to_owned(), Some(t.to_owned()))));
    let model = |n: &str| m.of_device(n).node.disk.model;
    assert_eq!(model("8:16").as_deref(), Some("WD Elements 25A3"));
    assert_eq!(model("8:48").as_deref(), Some("SEAGATE ST8000NM0075"));
    assert_eq!(model("179:0").as_deref(), Some("SD64G"));
    assert_eq!(m.of_device("254:0").node.disk.serial.as_deref(), Some("abc"));
    assert_eq!(m.of_device("259:0").node.disk.queue_depth, Some(1023));
}

#[test]
fn a_loop_device_counts_as_a_disk_and_shows_what_its_file_is_on() {
    let m = Machine::new(
        "sata sda 8:0
         part sda1 8:1 0 100
         loop loop3 7:3
           loop/backing_file=/srv/disk.img
           loop/offset=1048576
         %file proc/self/mountinfo
           1 0 8:1 / /srv rw - xfs /dev/sda1 rw
           2 1 7:3 / /srv/m rw - ext4 /dev/loop3 rw
         %%",
    );
    let top = m.topology("/srv/m/a");
    assert_eq!(drawn(&top.node), "loop[partition[disk:sda]]");
    assert_eq!((top.disks.as_slice(), top.node.start_bytes), (&["loop3".to_owned()][..], Some(1 << 20)));
    assert_eq!(top.node.backing_file.as_deref(), Some("/srv/disk.img"));
}

#[test]
fn a_deleted_backing_file_and_a_loop_over_itself_end_in_words() {
    let m = Machine::new(
        "loop loop1 7:1
           loop/backing_file=/gone.img (deleted)
         loop loop2 7:2
           loop/backing_file=/m/self.img",
    );
    let gone = m.of_device("7:1").node;
    assert_eq!((gone.children.len(), gone.backing_file.as_deref()), (0, Some("/gone.img")));
    assert!(gone.why.unwrap().contains("deleted"));
    let top = m.of_device("7:2");
    assert_eq!(drawn(&top.node), "loop[unknown:/m]");
    assert!(top.node.children[0].why.as_deref().unwrap().contains("made of itself"));
}

#[test]
fn damaged_and_hostile_trees_end() {
    // Each of 30 storeys stands on two ways into the next one: a billion paths.
    let mut text = String::new();
    for i in 0..30 {
        text.push_str(&format!("dev md{i} 9:{i}\n md/level=raid1\n md/raid_disks=2\n"));
        for leg in ["a", "b"] {
            text.push_str(&format!(" md/dev-{leg}{i}/slot={}\n", u8::from(leg == "b")));
            text.push_str(&format!(
                " md/dev-{leg}{i}/state=in_sync\n md/dev-{leg}{i}/block -> md{}\n",
                (i + 1) % 30
            ));
        }
    }
    let m = Machine::new(&text);
    let top = m.of_device("9:0");
    assert!(serde_json::to_string(&top).unwrap().len() < 4 << 20);
    assert_eq!(top.node.kind, "md");
    // A device that stands on itself, attributes that are no numbers, a table that claims what is not.
    let m = Machine::new(
        "dev dm-0 252:0
           dm/name=loop
           dm/uuid=LVM-x
           slaves: dm-0
         dev dm-1 252:1
           dm/name=\u{1}\u{2}
           dm/uuid=
         dev md9 9:9 nonsense
           md/level=raid5
           md/raid_disks=99999999999
           md/chunk_size=-4
           md/dev-x/slot=18446744073709551615
           md/dev-x/state=in_sync
         dev strange 240:0
           slaves: dm-1
         %dm 252:1
           0 100 linear 252:1 0
         %%",
    );
    assert_eq!(drawn(&m.of_device("252:0").node), "lvm:linear[unknown:dm-0]");
    assert_eq!(drawn(&m.of_device("252:1").node), "dm:linear[unknown:dm-1]");
    let md = m.of_device("9:9");
    assert!(md.node.kind == "md" && md.node.children.len() <= 2000, "{}", md.node.children.len());
    assert_eq!(m.of_device("240:0").node.kind, "unknown");
    assert_eq!(m.of_device("1:77").node.kind, "unknown");
}

#[test]
fn the_json_is_that_of_the_contract() {
    let m = Machine::new("sata sda 8:0 M S\n");
    let json = serde_json::to_value(m.of_device("8:0")).unwrap();
    let want = serde_json::json!({
        "path": "/m/film.mkv",
        "filesystem": {"kind": "ext4", "uuid": null, "mount": "/m"},
        "node": {
            "kind": "disk", "name": "sda", "path": "/dev/sda", "size_bytes": 8_001_563_222_016_u64,
            "read_ahead_bytes": 131_072, "model": "M", "serial": "S", "rotational": true, "transport": "sata",
            "children": [],
        },
        "columns": 1, "copies": 1, "disks": ["sda"], "layout": "simple", "advice": [],
    });
    assert_eq!(json, want);
    let back: Topology = serde_json::from_value(json).unwrap();
    assert_eq!(back, m.of_device("8:0"));
}

#[test]
fn the_shapes_of_btrfs_profiles() {
    for (profile, n, columns, copies) in [
        ("single", 3, 1, 1),
        ("dup", 1, 1, 2),
        ("raid0", 3, 3, 1),
        ("raid1", 3, 1, 2),
        ("raid1c3", 3, 1, 3),
        ("raid10", 4, 2, 2),
        ("raid5", 4, 3, 1),
        ("raid6", 5, 3, 1),
        ("raid10", 0, 1, 2),
    ] {
        let s = Shape::btrfs(profile, n);
        assert_eq!((s.columns, s.copies), (columns, copies), "{profile}");
    }
}
