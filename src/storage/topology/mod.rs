//! The volume under a path, down to physical disks: what `spindle topology` prints.

pub(crate) mod mounts;
pub(crate) mod sysfs;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use mounts::Mount;
use sysfs::Sysfs;

/// `spindle topology PATH`: the JSON of the contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// What was asked about.
    pub path: PathBuf,
    /// The filesystem it is on.
    pub filesystem: Filesystem,
    /// The volume as a tree.
    pub node: Node,
    /// How many disks a large sequential read can use at once with distinct data.
    pub columns: u32,
    /// How many copies each byte has.
    pub copies: u32,
    /// Physical disks, by their names in `/sys/block`.
    pub disks: Vec<String>,
    /// What kind of layout that is.
    pub layout: LayoutKind,
    /// What the owner could change.
    pub advice: Vec<Advice>,
}

/// A filesystem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filesystem {
    /// As in `/proc/self/mountinfo`: `btrfs`, `ext4`, `xfs`.
    pub kind: String,
    /// Its identifier, where it can be had without privilege.
    pub uuid: Option<String>,
    /// Where it is mounted.
    pub mount: PathBuf,
}

/// One storey of a volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// `btrfs`, `partition`, `disk`, `loop`, `network` or `unknown`.
    pub kind: String,
    /// Device name, label or identifier.
    pub name: String,
    /// `raid1` and the like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// See [`Topology::columns`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<u32>,
    /// See [`Topology::copies`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copies: Option<u32>,
    /// Bytes on one device before the next one's turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk_bytes: Option<u64>,
    /// Anything unusual; for `unknown` what it is and what is not known about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Size.
    pub size_bytes: u64,
    /// First byte on the whole disk, for a partition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_bytes: Option<u64>,
    /// Whether it turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotational: Option<bool>,
    /// As the disk calls itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The file behind a loop device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backing_file: Option<String>,
    /// What it is made of.
    #[serde(default)]
    pub children: Vec<Node>,
}

/// Whether and how bytes are kept more than once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LayoutKind {
    /// Once.
    Simple,
    /// In copies.
    Mirror,
    /// By parity.
    Parity,
    /// Several of these in one filesystem.
    Mixed,
}

/// A remark with a stable code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advice {
    /// For programs.
    pub code: String,
    /// For people.
    pub text: String,
}

/// What a redundancy level means for reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shape {
    /// `single`, `raid1`, ..; `disk` for a filesystem on one disk.
    pub(crate) level: String,
    pub(crate) columns: u32,
    pub(crate) copies: u32,
    pub(crate) chunk_bytes: u64,
    pub(crate) kind: LayoutKind,
}

/// `BTRFS_STRIPE_LEN`.
const BTRFS_STRIPE_BYTES: u64 = 64 << 10;

impl Shape {
    pub(crate) fn one_disk() -> Self {
        Self { level: "disk".to_owned(), columns: 1, copies: 1, chunk_bytes: 0, kind: LayoutKind::Simple }
    }

    /// The shape of a btrfs data profile over `devices` devices.
    pub(crate) fn btrfs(profile: &str, devices: u32) -> Self {
        let n = devices.max(1);
        let (columns, copies, kind) = match profile {
            "dup" => (1, 2, LayoutKind::Mirror),
            "raid0" => (n, 1, LayoutKind::Simple),
            "raid1" => (1, 2, LayoutKind::Mirror),
            "raid1c3" => (1, 3, LayoutKind::Mirror),
            "raid1c4" => (1, 4, LayoutKind::Mirror),
            "raid10" => ((n / 2).max(1), 2, LayoutKind::Mirror),
            "raid5" => ((n - 1).max(1), 1, LayoutKind::Parity),
            "raid6" => (n.saturating_sub(2).max(1), 1, LayoutKind::Parity),
            _ => (1, 1, LayoutKind::Simple),
        };
        Self { level: profile.to_owned(), columns, copies, chunk_bytes: BTRFS_STRIPE_BYTES, kind }
    }
}

/// Reads the topology of a mounted filesystem. `fsid` only for btrfs.
pub(crate) fn read(sys: &Sysfs, mount: &Mount, fsid: Option<&str>, path: &Path) -> Topology {
    let (node, shape) = match fsid {
        Some(fsid) => btrfs(sys, fsid),
        None => (plain(sys, mount), Shape::one_disk()),
    };
    let mut disks = Vec::new();
    leaves(&node, &mut disks);
    disks.sort();
    disks.dedup();
    Topology {
        path: path.to_owned(),
        filesystem: Filesystem {
            kind: mount.kind.clone(),
            uuid: fsid.map(str::to_owned),
            mount: mount.mount_point.clone(),
        },
        advice: advice(&node, &shape, disks.len()),
        node,
        columns: shape.columns,
        copies: shape.copies,
        disks,
        layout: shape.kind,
    }
}

fn plain(sys: &Sysfs, mount: &Mount) -> Node {
    if let Some(dir) = sys.by_number(mount.device).filter(|_| mount.device.0 != 0) {
        return Sysfs::node(&dir);
    }
    let network =
        matches!(mount.kind.as_str(), "nfs" | "nfs4" | "cifs" | "smb3" | "9p" | "ceph" | "fuse.sshfs");
    Node {
        kind: if network { "network" } else { "unknown" }.to_owned(),
        name: mount.source.clone(),
        state: Some(format!("{} does not say which disks it is on", mount.kind)),
        ..Node::default()
    }
}

fn btrfs(sys: &Sysfs, fsid: &str) -> (Node, Shape) {
    let children: Vec<Node> = sys.btrfs_members(fsid).iter().map(|d| Sysfs::node(d)).collect();
    let profiles = sys.btrfs_data_profiles(fsid);
    let devices = u32::try_from(children.len()).unwrap_or(u32::MAX);
    let mut shape = Shape::btrfs(profiles.first().map_or("single", |p| p.0.as_str()), devices);
    let mut state = children.is_empty().then(|| "sysfs lists no devices for it".to_owned());
    if profiles.len() > 1 {
        let names: Vec<&str> = profiles.iter().map(|p| p.0.as_str()).collect();
        state = Some(format!("data in several profiles: {}", names.join(", ")));
        shape.kind = LayoutKind::Mixed;
    }
    let node = Node {
        kind: "btrfs".to_owned(),
        name: sys.btrfs_label(fsid).unwrap_or_else(|| fsid.to_owned()),
        level: Some(shape.level.clone()),
        columns: Some(shape.columns),
        copies: Some(shape.copies),
        chunk_bytes: Some(shape.chunk_bytes),
        state,
        size_bytes: children.iter().map(|c| c.size_bytes).sum(),
        children,
        ..Node::default()
    };
    (node, shape)
}

/// Names of the physical disks under a node.
pub(crate) fn leaves(node: &Node, out: &mut Vec<String>) {
    if node.children.is_empty() && (node.kind == "disk" || node.kind == "loop") {
        out.push(node.name.clone());
    }
    for child in &node.children {
        leaves(child, out);
    }
}

fn advice(node: &Node, shape: &Shape, disks: usize) -> Vec<Advice> {
    let say = |code: &str, text: String| Advice { code: code.to_owned(), text };
    let mut out = Vec::new();
    match shape.level.as_str() {
        "raid1" | "raid1c3" | "raid1c4" => out.push(say(
            "mirror_one_disk_per_reader",
            format!("Each viewer is served by one disk of the {disks}: a btrfs mirror gives a reader one copy. raid10 on four or more disks would let one stream use several."),
        )),
        "raid0" => out.push(say(
            "no_redundancy",
            format!("All {disks} disks work together, and the loss of one loses every file."),
        )),
        "raid5" | "raid6" => out.push(say(
            "parity_write_hole",
            "btrfs parity profiles are not safe against a power cut while writing; reading is as fast as raid0 on the data disks.".to_owned(),
        )),
        "single" if disks > 1 => out.push(say(
            "one_disk_per_chunk",
            "Files lie on one disk for about 1 GiB at a time: one stream is as fast as one disk.".to_owned(),
        )),
        "dup" => out.push(say("copies_on_one_disk", "Both copies may lie on the same disk: that guards against bad blocks, not against a lost disk.".to_owned())),
        _ => {}
    }
    if node.kind == "unknown" {
        out.push(say("layout_unknown", node.state.clone().unwrap_or_default()));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// A tree as the kernel makes it: real directories under `devices`, links under `class` and `dev`.
    fn disk(root: &Path, at: &str, dev: &str, files: &[(&str, &str)]) {
        let dir = root.join("devices").join(at);
        fs::create_dir_all(&dir).unwrap();
        for (name, text) in files.iter().chain(&[("dev", dev)]) {
            let file = dir.join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, format!("{text}\n")).unwrap();
        }
        for link in
            [root.join("class/block").join(dir.file_name().unwrap()), root.join("dev/block").join(dev)]
        {
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            symlink(&dir, link).unwrap();
        }
    }

    fn mount(device: (u32, u32), kind: &str) -> Mount {
        Mount { id: 1, device, mount_point: "/srv".into(), kind: kind.into(), source: "x".into() }
    }

    #[test]
    fn a_partition_leads_to_its_whole_disk() {
        let t = tempfile::tempdir().unwrap();
        disk(
            t.path(),
            "pci/sda",
            "8:0",
            &[("size", "2000"), ("queue/rotational", "1"), ("device/model", "WDC  ")],
        );
        disk(t.path(), "pci/sda/sda2", "8:2", &[("size", "1000"), ("start", "64"), ("partition", "2")]);
        let sys = Sysfs::new(t.path());
        let top = read(&sys, &mount((8, 2), "ext4"), None, Path::new("/srv/a"));
        let want = Node {
            kind: "partition".into(),
            name: "sda2".into(),
            size_bytes: 512_000,
            start_bytes: Some(32_768),
            children: vec![Node {
                kind: "disk".into(),
                name: "sda".into(),
                size_bytes: 1_024_000,
                rotational: Some(true),
                model: Some("WDC".into()),
                ..Node::default()
            }],
            ..Node::default()
        };
        assert_eq!((top.node, top.disks, top.columns, top.copies), (want, vec!["sda".to_owned()], 1, 1));
        let on = Sysfs::on_disk(&sys.by_number((8, 2)).unwrap()).unwrap();
        assert_eq!(on, sysfs::OnDisk { disk: "sda".into(), base: 32_768, device: (8, 0) });
    }

    #[test]
    fn btrfs_raid10_over_four_loops_has_two_columns_and_two_copies() {
        let t = tempfile::tempdir().unwrap();
        let fs_dir = t.path().join("fs/btrfs/abc");
        fs::create_dir_all(fs_dir.join("devices")).unwrap();
        fs::create_dir_all(fs_dir.join("allocation/data/raid10")).unwrap();
        fs::write(fs_dir.join("allocation/data/raid10/total_bytes"), "4096\n").unwrap();
        for i in 1..=4 {
            let (name, dev) = (format!("loop{i}"), format!("7:{i}"));
            disk(
                t.path(),
                &format!("virtual/block/{name}"),
                &dev,
                &[("size", "8"), ("loop/backing_file", "/x/y")],
            );
            symlink(t.path().join("devices/virtual/block").join(&name), fs_dir.join("devices").join(&name))
                .unwrap();
        }
        let top = read(&Sysfs::new(t.path()), &mount((0, 44), "btrfs"), Some("abc"), Path::new("/srv"));
        assert_eq!(top.disks, ["loop1", "loop2", "loop3", "loop4"]);
        assert_eq!((top.columns, top.copies, top.layout), (2, 2, LayoutKind::Mirror));
        assert_eq!(top.node.children[0].backing_file.as_deref(), Some("/x/y"));
        assert_eq!(top.node.size_bytes, 4 * 8 * 512);
    }

    #[test]
    fn an_md_array_is_unknown_and_says_so_and_still_names_its_disks() {
        let t = tempfile::tempdir().unwrap();
        disk(t.path(), "pci/sda", "8:0", &[("size", "10")]);
        disk(t.path(), "pci/sdb", "8:16", &[("size", "10")]);
        disk(t.path(), "virtual/block/md0", "9:0", &[("size", "10"), ("md/level", "raid1")]);
        let slaves = t.path().join("devices/virtual/block/md0/slaves");
        fs::create_dir_all(&slaves).unwrap();
        for d in ["sda", "sdb"] {
            symlink(t.path().join("devices/pci").join(d), slaves.join(d)).unwrap();
        }
        let top = read(&Sysfs::new(t.path()), &mount((9, 0), "ext4"), None, Path::new("/srv"));
        assert_eq!(top.node.kind, "unknown");
        assert_eq!(
            top.node.state.as_deref(),
            Some("an md array (raid1): its layout is not read yet, only the devices below it")
        );
        assert_eq!(top.disks, ["sda", "sdb"]);
        assert_eq!(top.advice[0].code, "layout_unknown");
    }

    #[test]
    fn a_network_mount_is_no_failure() {
        let t = tempfile::tempdir().unwrap();
        let top = read(&Sysfs::new(t.path()), &mount((0, 50), "nfs4"), None, Path::new("/srv"));
        assert_eq!((top.node.kind.as_str(), top.disks.len()), ("network", 0));
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
}
