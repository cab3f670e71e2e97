//! Pools as `zpool status` shows them, of every kind.

use super::*;
use crate::sys::zfs::parse;

fn machine(status: &str) -> Machine {
    let mut text = String::from("%file proc/self/mountinfo\n1 0 0:44 / /tank rw - zfs tank/films rw\n%%\n");
    for (i, c) in ('a'..='l').enumerate() {
        text.push_str(&format!(
            "sata sd{c} {}:{}\npart sd{c}1 {}:{} 2048 1000000\n",
            8 + i / 16,
            16 * i,
            8 + i / 16,
            16 * i + 1
        ));
    }
    text.push_str("nvme nvme0n1 259:0\npart nvme0n1p1 259:1 0 9\npart nvme0n1p2 259:2 9 9\n");
    if !status.is_empty() {
        text.push_str(&format!("%zpool tank\n{status}\n%%\n"));
    }
    Machine::new(&text)
}

fn status(rows: &str) -> String {
    let table: String = rows.lines().map(|l| format!("\t{l}\n")).collect();
    format!(
        "  pool: tank\n state: ONLINE\n  scan: none requested\nconfig:\n\n\tNAME        STATE     READ WRITE CKSUM\n{table}\nerrors: No known data errors\n"
    )
}

#[test]
fn columns_and_copies_of_every_kind_of_pool() {
    use LayoutKind::{Mirror, Parity, Simple};
    let d = |c: char, depth: usize| format!("{}/dev/sd{c}1  ONLINE  0  0  0\n", " ".repeat(depth * 2));
    let list = |chars: &str, depth: usize| chars.chars().map(|c| d(c, depth)).collect::<String>();
    for (rows, want) in [
        (list("a", 1), (1, 1, Simple)),
        (list("abc", 1), (3, 1, Simple)),
        (format!("  mirror-0  ONLINE  0 0 0\n{}", list("ab", 2)), (1, 2, Mirror)),
        (
            format!(
                "  mirror-0  ONLINE  0 0 0\n{}  mirror-1  ONLINE  0 0 0\n{}",
                list("ab", 2),
                list("cd", 2)
            ),
            (2, 2, Mirror),
        ),
        (
            format!(
                "  mirror-0  ONLINE  0 0 0\n{}  mirror-1  ONLINE  0 0 0\n{}",
                list("abc", 2),
                list("de", 2)
            ),
            (2, 2, Mirror),
        ),
        (format!("  raidz1-0  ONLINE  0 0 0\n{}", list("abcd", 2)), (3, 1, Parity)),
        (
            format!(
                "  raidz2-0  ONLINE  0 0 0\n{}  raidz2-1  ONLINE  0 0 0\n{}",
                list("abcdef", 2),
                list("ghijkl", 2)
            ),
            (8, 1, Parity),
        ),
        (format!("  raidz3-0  ONLINE  0 0 0\n{}", list("abcde", 2)), (2, 1, Parity)),
        (format!("  draid2:4d:11c:1s-0  ONLINE  0 0 0\n{}", list("abcdefghijk", 2)), (6, 1, Parity)),
        (
            format!(
                "  raidz1-0  ONLINE  0 0 0\n{}  mirror-1  ONLINE  0 0 0\n{}",
                list("abc", 2),
                list("de", 2)
            ),
            (3, 1, LayoutKind::Mixed),
        ),
    ] {
        let rows = format!("tank  ONLINE  0  0  0\n{rows}");
        let top = machine(&status(&rows)).topology("/tank/a.mkv");
        assert_eq!(figures(&top), want, "{rows}");
        assert_eq!(top.node.children[0].name, "tank");
    }
}

#[test]
fn special_log_cache_and_spare_devices_are_no_columns() {
    let rows = "tank  ONLINE  0  0  0
  mirror-0  ONLINE  0  0  0
    /dev/sda1  ONLINE  0  0  0
    /dev/sdb1  ONLINE  0  0  0
special\t
  mirror-1  ONLINE  0  0  0
    /dev/sdc1  ONLINE  0  0  0
    /dev/sdd1  ONLINE  0  0  0
logs\t
  /dev/nvme0n1p1  ONLINE  0  0  0
cache
  /dev/nvme0n1p2  ONLINE  0  0  0
spares
  /dev/sde1  AVAIL";
    let top = machine(&status(rows)).topology("/tank");
    assert_eq!(
        drawn(&top.node),
        "zfs:dataset[zfs:pool[zfs:mirror[partition[disk:sda] partition[disk:sdb]] \
         zfs:mirror@special[partition[disk:sdc] partition[disk:sdd]] partition@log[disk:nvme0n1] \
         partition@cache[disk:nvme0n1] -partition@spare[disk:sde]]]"
    );
    assert_eq!(figures(&top), (1, 2, LayoutKind::Mirror));
    assert_eq!(
        top.tier.map(|t| (t.kind, t.fast, t.slow)).unwrap(),
        (
            "zfs-special".to_owned(),
            vec!["sdc".to_owned(), "sdd".to_owned(), "nvme0n1".to_owned()],
            vec!["sda".to_owned(), "sdb".to_owned()],
        )
    );
}

#[test]
fn a_degraded_pool_that_resilvers_onto_a_spare() {
    let text = "  pool: tank
 state: DEGRADED
status: One or more devices is currently being resilvered.  The pool will
\tcontinue to function, possibly in a degraded state.
action: Wait for the resilver to complete.
  scan: resilver in progress since Mon Jan  6 09:00:00 2025
\t1.20T / 3.40T scanned at 500M/s, 300G / 3.40T issued at 100M/s
\t100G resilvered, 8.62% done, 1 days 05:10:20 to go
config:

\tNAME                       STATE     READ WRITE CKSUM
\ttank                       DEGRADED     0     0     0
\t  raidz2-0                 DEGRADED     0     0     0
\t    /dev/sda1              ONLINE       0     0     0
\t    spare-1                DEGRADED     0     0     0
\t      1234567890123456789  UNAVAIL      0     0     0  was /dev/sdz1
\t      /dev/sde1            ONLINE       0     0     0  (resilvering)
\t    /dev/sdc1              ONLINE       3     0   1.2K
\t    replacing-3            DEGRADED     0     0     0
\t      /dev/sdd1            FAULTED      9     0     0  too many errors
\t      /dev/sdf1            ONLINE       0     0     0  (resilvering)
\tspares
\t  /dev/sde1                INUSE     currently in use

errors: No known data errors
";
    let top = machine(text).topology("/tank");
    assert_eq!(
        drawn(&top.node),
        "zfs:dataset![zfs:pool![zfs:raidz2![partition[disk:sda] zfs:spare![-unknown:1234567890123456789 -partition[disk:sde]] \
         partition[disk:sdc] zfs:replacing![-partition[disk:sdd] -partition[disk:sdf]]] -partition@spare[disk:sde]]]"
    );
    let sync = Sync {
        action: "resilver".into(),
        done: 0.0862,
        speed_bytes_s: Some(100 << 20),
        remaining_s: Some(86_400 + 18_620),
    };
    assert_eq!(top.node.children[0].sync, Some(sync));
    let worn = &top.node.children[0].children[0].children[2];
    assert_eq!(worn.state.as_deref(), Some("errors: 3 read, 0 write, 1228 checksum"));
    assert!(codes(&top).contains(&"degraded") && codes(&top).contains(&"resyncing"), "{:?}", top.advice);
    assert_eq!((top.columns, top.copies), (2, 1));
}

#[test]
fn without_the_tool_the_pool_is_named_and_says_so() {
    let m = machine("");
    std::fs::create_dir_all(m.at("proc/spl/kstat/zfs/tank")).unwrap();
    std::fs::write(m.at("proc/spl/kstat/zfs/tank/state"), "DEGRADED\n").unwrap();
    let top = m.topology("/tank");
    assert_eq!(drawn(&top.node), "zfs:dataset![zfs:pool:tank!]");
    let pool = &top.node.children[0];
    assert_eq!(pool.state.as_deref(), Some("DEGRADED"));
    assert!(pool.why.as_deref().unwrap().contains("zpool is not installed here"));
}

#[test]
fn a_filesystem_on_a_zfs_volume_leads_to_its_pool() {
    let m = machine(&status("tank  ONLINE  0  0  0\n  /dev/sda1  ONLINE  0  0  0"));
    let device = m.at("sys/devices/virtual/block/zd16");
    std::fs::create_dir_all(&device).unwrap();
    std::fs::write(device.join("size"), "100\n").unwrap();
    std::fs::write(device.join("dev"), "230:16\n").unwrap();
    for link in ["sys/class/block/zd16", "sys/dev/block/230:16"] {
        std::os::unix::fs::symlink(&device, m.at(link)).unwrap();
    }
    assert_eq!(drawn(&m.of_device("230:16").node), "zfs:volume:zd16");
    std::fs::create_dir_all(m.at("dev/zvol/tank/vm")).unwrap();
    std::os::unix::fs::symlink("../../../zd16", m.at("dev/zvol/tank/vm/disk0")).unwrap();
    let top = m.of_device("230:16");
    assert_eq!(drawn(&top.node), "zfs:volume[zfs:pool[partition[disk:sda]]]");
    assert_eq!((top.node.name.as_str(), top.node.size_bytes), ("tank/vm/disk0", 51_200));
}

#[test]
fn the_json_of_newer_tools_is_understood_alike() {
    let text = r#"{"output_version":{"command":"zpool status"},"pools":{"tank":{"name":"tank","state":"DEGRADED",
     "scan_stats":{"function":"SCRUB","state":"SCANNING","to_examine":"1000","issued":"250","issued_bytes_per_scan":"10"},
     "vdevs":{"tank":{"name":"tank","vdev_type":"root","state":"DEGRADED","vdevs":{
       "mirror-0":{"name":"mirror-0","vdev_type":"mirror","state":"DEGRADED","read_errors":"0","vdevs":{
         "/dev/sda1":{"name":"/dev/sda1","vdev_type":"disk","path":"/dev/sda1","state":"ONLINE","read_errors":"0"},
         "77":{"name":"77","vdev_type":"disk","was":"/dev/sdz1","state":"UNAVAIL","checksum_errors":3}}}}}},
     "l2cache":{"/dev/nvme0n1p2":{"name":"/dev/nvme0n1p2","vdev_type":"disk","path":"/dev/nvme0n1p2","state":"ONLINE"}},
     "spares":{"/dev/sde1":{"name":"/dev/sde1","vdev_type":"disk","path":"/dev/sde1","state":"AVAIL"}}}}}"#;
    let top = machine(text).topology("/tank");
    assert_eq!(
        drawn(&top.node),
        "zfs:dataset![zfs:pool![zfs:mirror![partition[disk:sda] -unknown:77] partition@cache[disk:nvme0n1] -partition@spare[disk:sde]]]"
    );
    assert_eq!(
        top.node.children[0].sync.as_ref().map(|s| (s.action.as_str(), s.done)),
        Some(("scrub", 0.25))
    );
}

#[test]
fn answers_that_are_cut_or_nonsense_are_no_panic() {
    let whole = status(
        "tank ONLINE 0 0 0\n  raidz2-0 ONLINE 0 0 0\n    /dev/sda1 ONLINE 0 0 0\n            /dev/deep ONLINE\nlogs\n  x ONLINE",
    );
    for n in (0..whole.len()).filter(|n| whole.is_char_boundary(*n)) {
        let _ = parse(&whole[..n]);
    }
    for text in [
        "{",
        "{\"pools\":3}",
        "\tx ONLINE\n",
        "  pool: a\nconfig:\n\t  \n\t      orphan ONLINE 9 9 9\n",
        "  pool: \nconfig:\n\t  a b c\n",
    ] {
        let _ = parse(text);
    }
    let deep: String = (0..200).map(|i| format!("\t{}x{i} ONLINE\n", "  ".repeat(i))).collect();
    assert_eq!(parse(&format!("  pool: a\nconfig:\n{deep}")).len(), 1);
    assert!(crate::sys::zfs::status("-rf").is_err() && crate::sys::zfs::status("a;b").is_err());
}
