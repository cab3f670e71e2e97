//! btrfs, pools of folders, overlays, network mounts and memory.

use super::*;

/// A btrfs over loop devices; `profiles`: data profile and bytes in it.
fn btrfs(n: usize, profiles: &[(&str, u64)], more: &str) -> Machine {
    let mut text = String::from("%file proc/self/mountinfo\n1 0 0:44 / /srv rw - btrfs /dev/loop1 rw\n%%\n");
    const ID: &str = "01234567-0123-0123-0123-0123456789ab";
    for i in 1..=n {
        text.push_str(&format!("loop loop{i} 7:{i} 8\nsys/fs/btrfs/{ID}/devices/loop{i} -> loop{i}\n"));
    }
    for (profile, bytes) in profiles {
        text.push_str(&format!("sys/fs/btrfs/{ID}/allocation/data/{profile}/total_bytes={bytes}\n"));
    }
    for line in more.lines() {
        text.push_str(&format!("sys/fs/btrfs/{ID}/{line}\n"));
    }
    Machine::new(&text)
}

#[test]
fn btrfs_in_every_profile() {
    use LayoutKind::{Mirror, Parity, Simple};
    for (profile, n, want) in [
        ("single", 1, (1, 1, Simple)),
        ("single", 3, (1, 1, Simple)),
        ("dup", 1, (1, 2, Mirror)),
        ("raid0", 3, (3, 1, Simple)),
        ("raid1", 2, (1, 2, Mirror)),
        ("raid1", 3, (1, 2, Mirror)),
        ("raid1c3", 4, (1, 3, Mirror)),
        ("raid1c4", 4, (1, 4, Mirror)),
        ("raid10", 4, (2, 2, Mirror)),
        ("raid10", 5, (2, 2, Mirror)),
        ("raid5", 4, (3, 1, Parity)),
        ("raid6", 4, (2, 1, Parity)),
    ] {
        let top = btrfs(n, &[(profile, 4096)], "").topology("/srv");
        assert_eq!((figures(&top), top.disks.len()), (want, n), "{profile} over {n}");
        assert_eq!(top.node.level.as_deref(), Some(profile));
        assert_eq!(top.filesystem.uuid.as_deref(), Some("01234567-0123-0123-0123-0123456789ab"));
    }
}

#[test]
fn a_btrfs_without_one_of_its_devices_names_it() {
    let top = btrfs(
        2,
        &[("raid1", 4096)],
        "label=films\ndevinfo/1/missing=0\ndevinfo/2/missing=0\ndevinfo/3/missing=1",
    )
    .topology("/srv");
    assert_eq!(drawn(&top.node), "btrfs:raid1![loop:loop1 loop:loop2 -unknown:device 3]");
    assert_eq!((top.node.name.as_str(), figures(&top)), ("films", (1, 1, LayoutKind::Mirror)));
    assert_eq!(codes(&top), ["degraded", "mirror_one_disk_per_reader"]);
}

/// The kernel takes a pulled disk's link out of `devices`, and btrfs still says that nothing is missing.
#[test]
fn a_btrfs_whose_disk_was_pulled_while_it_was_mounted_is_degraded() {
    let top = btrfs(2, &[("raid1", 4096)], "devinfo/1/missing=0\ndevinfo/2/missing=0\ndevinfo/3/missing=0")
        .topology("/srv");
    assert_eq!(drawn(&top.node), "btrfs:raid1![loop:loop1 loop:loop2 -unknown:a device that is gone]");
    assert_eq!(codes(&top), ["degraded", "mirror_one_disk_per_reader"]);
}

#[test]
fn a_btrfs_between_two_profiles_says_both_and_what_it_is_doing() {
    let top = btrfs(
        4,
        &[("single", 100), ("raid10", 300)],
        "exclusive_operation=balance\ndevinfo/2/error_stats=write_errs 0",
    )
    .topology("/srv");
    assert_eq!((figures(&top), top.node.level.as_deref()), ((2, 2, LayoutKind::Mixed), Some("raid10")));
    assert_eq!(top.node.arrangement.as_deref(), Some("raid10+single"));
    let state = top.node.state.as_deref().unwrap();
    assert!(state.contains("raid10 75 %, single 25 %") && state.contains("under way: balance"), "{state}");
    assert!(codes(&top).contains(&"several_profiles"));
}

#[test]
fn btrfs_over_crypt_and_over_md_counts_their_storeys_too() {
    const ID: &str = "01234567-0123-0123-0123-0123456789ab";
    let mut text = String::from(
        "%file proc/self/mountinfo\n1 0 0:44 / /srv rw - btrfs /dev/mapper/a rw\n%%\nsata sda 8:0\nsata sdb 8:16\n",
    );
    for (i, (name, disk)) in [("a", "sda"), ("b", "sdb")].iter().enumerate() {
        text.push_str(&format!("dev dm-{i} 252:{i}\n dm/name={name}\n dm/uuid=CRYPT-LUKS2-{name}\n slaves: {disk}\nsys/fs/btrfs/{ID}/devices/dm-{i} -> dm-{i}\n"));
    }
    text.push_str(&format!("sys/fs/btrfs/{ID}/allocation/data/raid1/total_bytes=1\n"));
    let top = Machine::new(&text).topology("/srv");
    assert_eq!(drawn(&top.node), "btrfs:raid1[crypt:luks2[disk:sda] crypt:luks2[disk:sdb]]");
    assert_eq!(figures(&top), (1, 2, LayoutKind::Mirror));
}

const ARRAY: &str = "
sata sdb 8:16
sata sdc 8:32
sata sdd 8:48
%file proc/self/mountinfo
1 0 254:0 / / rw - ext4 /dev/vda1 rw
2 1 8:16 / /mnt/disk1 rw - xfs /dev/sdb rw
3 1 8:32 / /mnt/disk2 rw - xfs /dev/sdc rw
4 1 8:48 / /mnt/cache rw - xfs /dev/sdd rw
5 1 0:50 / /mnt/pool rw - fuse.mergerfs 1:2 rw
6 1 0:51 / /mnt/user rw - fuse.shfs shfs rw
7 1 8:16 /films /srv/films rw - xfs /dev/sdb rw
%%
%xattr /mnt/pool/.mergerfs user.mergerfs.branches
/mnt/disk1=RW:/mnt/disk2=NC,4294967296:/mnt/none=RO
%%
%xattr /mnt/pool/.mergerfs user.mergerfs.category.create
epmfs
%%
%xattr /mnt/pool/.mergerfs user.mergerfs.category.search
ff
%%
%xattr /mnt/pool/films/a.mkv user.mergerfs.basepath
/mnt/disk2
%%
%xattr /mnt/user/films/a.mkv system.LOCATION
disk1
%%
";

#[test]
fn mergerfs_shows_its_branches_and_a_file_its_own() {
    let m = Machine::new(ARRAY);
    let pool = m.topology("/mnt/pool/films");
    assert_eq!(drawn(&pool.node), "mergerfs:pool[disk:sdb disk:sdc unknown:ext4:/dev/vda1]");
    assert_eq!(
        (pool.disks.as_slice(), figures(&pool)),
        (&["sdb".to_owned(), "sdc".to_owned()][..], (1, 1, LayoutKind::Simple))
    );
    assert_eq!(pool.node.arrangement.as_deref(), Some("create=epmfs search=ff"));
    assert_eq!(pool.node.children[1].path.as_deref(), Some("/mnt/disk2"));
    assert_eq!(pool.node.children[1].state.as_deref(), Some("branch NC"));
    assert!(codes(&pool).contains(&"one_disk_per_file"));
    let file = m.look("/mnt/pool/films/a.mkv", true);
    assert_eq!((drawn(&file.node).as_str(), file.disks.len()), ("mergerfs:file[disk:sdc]", 1));
}

#[test]
fn unraid_shows_the_array_and_a_file_its_disk() {
    let m = Machine::new(ARRAY);
    let share = m.topology("/mnt/user/films");
    assert_eq!(share.disks, ["sdb", "sdc", "sdd"]);
    assert_eq!(m.look("/mnt/user/films/a.mkv", true).disks, ["sdb"]);
}

#[test]
fn a_bind_mount_is_what_it_shows() {
    let top = Machine::new(ARRAY).topology("/srv/films/a.mkv");
    assert_eq!((drawn(&top.node).as_str(), top.filesystem.mount.to_str()), ("disk:sdb", Some("/srv/films")));
}

#[test]
fn mergerfs_that_does_not_answer_says_so() {
    let m = Machine::new("%file proc/self/mountinfo\n5 1 0:50 / /mnt/pool rw - fuse.mergerfs a:b rw\n%%\n");
    let top = m.topology("/mnt/pool/a");
    assert!(top.node.why.unwrap().contains("no such attribute"));
    assert_eq!(top.disks.len(), 0);
}

#[test]
fn overlays_show_their_layers_once_a_filesystem() {
    let m = Machine::new(
        "sata sda 8:0
         sata sdb 8:16
         %file proc/self/mountinfo
         1 0 8:0 / / rw - ext4 /dev/sda rw
         2 1 8:16 / /data rw - ext4 /dev/sdb rw
         3 1 0:60 / /m rw - overlay overlay rw,lowerdir=/var/a\\134:x:/var/b:/var/c,upperdir=/data/up,workdir=/data/w
         4 1 0:61 / /n rw - overlay overlay rw,lowerdir+=/var/a,lowerdir+=/var/b
         5 1 0:62 / /o rw - overlay overlay rw
         %%",
    );
    let top = m.topology("/m/x");
    assert_eq!(drawn(&top.node), "overlay[disk:sdb disk:sda]");
    assert_eq!(top.node.state.as_deref(), Some("4 layers"));
    assert_eq!(top.node.children[1].path.as_deref(), Some("/var/a:x"));
    assert_eq!(drawn(&m.topology("/n/x").node), "overlay[disk:sda]");
    assert!(m.topology("/o/x").node.why.is_some());
}

#[test]
fn network_mounts_show_server_and_export_and_claim_no_disk() {
    let m = Machine::new(
        "%file proc/self/mountinfo
         1 0 0:1 / / rw - tmpfs tmpfs rw
         2 1 0:50 / /nfs rw - nfs4 nas:/volume1/films rw,vers=4.2
         3 1 0:51 / /cifs rw - cifs //user:secret@nas/films rw
         4 1 0:52 / /ssh rw - fuse.sshfs me@nas:/srv rw
         5 1 0:53 / /rc rw - fuse.rclone drive:films rw
         6 1 0:54 / /host rw - virtiofs films rw
         7 1 0:55 / /odd rw - fuse.newfs something rw
         8 1 0:56 / /plain rw - fuse.gocryptfs /nfs/cipher rw
         9 1 0:57 / /dav rw - fuse.other https://u:p@dav/x rw
         %%",
    );
    let node = |p: &str| m.topology(p).node;
    let both =
        |p: &str| (node(p).kind, node(p).server.unwrap_or_default(), node(p).export.unwrap_or_default());
    assert_eq!(both("/nfs/a"), ("network".into(), "nas".into(), "/volume1/films".into()));
    assert_eq!(both("/cifs/a"), ("network".into(), "nas".into(), "films".into()));
    assert_eq!(both("/ssh/a"), ("network".into(), "nas".into(), "/srv".into()));
    assert_eq!(both("/rc/a"), ("network".into(), "drive".into(), "films".into()));
    assert_eq!(both("/host/a"), ("network".into(), "".into(), "films".into()));
    assert_eq!(codes(&m.topology("/nfs/a")), ["network_mount"]);
    assert_eq!(m.topology("/nfs/a").disks.len(), 0);
    assert_eq!((node("/odd/a").kind.as_str(), node("/odd/a").why.is_some()), ("unknown", true));
    assert_eq!(drawn(&node("/plain/a")), "crypt:fuse.gocryptfs[network:nfs4:nas:/volume1/films]");
    assert_eq!(node("/tmp/x").kind, "memory");
    let all = serde_json::to_string(&[m.topology("/cifs/a"), m.topology("/dav/a")]).unwrap();
    assert!(!all.contains("secret") && !all.contains("u:p"), "{all}");
}

#[test]
fn a_filesystem_that_has_gone_read_only_by_itself_is_worth_the_first_word() {
    let m = Machine::new(
        "sata sda 8:0
         %file proc/self/mountinfo
         1 0 8:0 / /m rw - ext4 /dev/sda ro,errors=remount-ro
         %%",
    );
    let top = m.topology("/m/a");
    assert_eq!((codes(&top), top.filesystem.stopped_writes), (vec!["stopped_writes"], true));
}
