//! What `spindle topology` and `GET /storage` show: the JSON of the contract and its extras. Values alone.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// `spindle topology PATH`: the JSON of the contract.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Topology {
    /// What was asked about.
    pub path: PathBuf,
    /// The filesystem it is on.
    pub filesystem: Filesystem,
    /// The volume as a tree.
    pub node: Node,
    /// How many disks a large sequential read can use at once with distinct data; the rule is in `shape`.
    pub columns: u32,
    /// How many copies each byte has now: a mirror that lost a leg has one fewer.
    pub copies: u32,
    /// Physical disks, by their names in `/sys/block`. A loop or network block device counts as one: what is
    /// below the file of a loop device is in the tree and not in this list.
    pub disks: Vec<String>,
    /// What kind of layout that is.
    pub layout: LayoutKind,
    /// The fast disks before the slow ones, where there are such.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<Tier>,
    /// What the owner could change.
    pub advice: Vec<Advice>,
}

/// A filesystem.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filesystem {
    /// As in `/proc/self/mountinfo`: `btrfs`, `ext4`, `xfs`.
    pub kind: String,
    /// Its identifier, where it can be had without privilege.
    pub uuid: Option<String>,
    /// Where it is mounted.
    pub mount: PathBuf,
    /// It was mounted for writing and takes no writes any more: it has found an error.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stopped_writes: bool,
}

/// One storey of a volume. What is not known is absent; `why` says so where it matters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// `md`, `lvm`, `btrfs`, `zfs`, `crypt`, `bcache`, `mergerfs`, `partition`, `disk`, `loop`, `network`, `unknown`;
    /// also `dm` (other device-mapper targets), `thin`, `cache`, `writecache`, `nbd`, `shfs` (Unraid's user
    /// shares), `overlay` and `memory`.
    pub kind: String,
    /// Device name, label or identifier.
    pub name: String,
    /// `raid1` and the like; for a filesystem in several profiles the one that holds most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// How copies or parity are arranged within the level: `near=2`, `far=2`, `offset=2`, `left-symmetric`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrangement: Option<String>,
    /// See [`Topology::columns`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<u32>,
    /// See [`Topology::copies`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copies: Option<u32>,
    /// Bytes on one device before the next one's turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk_bytes: Option<u64>,
    /// The state in the words of whoever keeps it (`clean`, `active`, `ONLINE`, `writeback, dirty`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// What is not known about it, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// A resync, rebuild, check, scrub or balance under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync: Option<Sync>,
    /// Fewer members than it should have.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub degraded: bool,
    /// What it is for in the storey above: `data`, `parity`, `mirror`, `cache`, `log`, `special`, `spare`,
    /// `origin`, `metadata`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// How it stands in the storey above: `in_sync`, `spare`, `faulty`, `rebuilding`, `missing`, `write_mostly`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member_state: Option<String>,
    /// Size; 0 where unknown.
    pub size_bytes: u64,
    /// First byte on the whole disk, for a partition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_bytes: Option<u64>,
    /// Bytes that one read-ahead of the kernel may fetch, where the storey has a setting of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_ahead_bytes: Option<u64>,
    /// Where it is: `/dev/mapper/vg-lv`, or the folder of a branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The file behind a loop device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backing_file: Option<String>,
    /// Whose the disks are, for `network`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// What that server gives out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub export: Option<String>,
    /// What is known of a disk alone.
    #[serde(flatten)]
    pub disk: DiskFacts,
    /// What it is made of.
    #[serde(default)]
    pub children: Vec<Node>,
}

/// What is known of one disk. Nothing here was read by waking it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DiskFacts {
    /// As the disk calls itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Serial number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// World-wide name: the same on every way to the disk, at every start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wwid: Option<String>,
    /// Whether it turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotational: Option<bool>,
    /// `nvme`, `sata`, `usb`, `virtio`, `scsi`, `sas`, `fc`, `iscsi`, `mmc`, `loop`, `nbd`, `zram`, `ram`, `rbd`,
    /// `xen`, `nvme-tcp` and the like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
    /// Requests that it takes at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_depth: Option<u32>,
    /// Whether its platters stand still; absent where unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asleep: Option<bool>,
    /// How that is known: `power_mode` (asked, without waking it), `runtime_pm`, `recent_io`, or
    /// `probably` (no request for longer than disks usually wait before they stop).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asleep_source: Option<String>,
    /// Degrees Celsius.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature_c: Option<i32>,
    /// Seconds since that was read: a sleeping disk is not asked again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature_age_s: Option<u64>,
    /// `ok`, `failing` or `unknown`, by the disk's own account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<String>,
    /// What it is failing of, or why unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_why: Option<String>,
}

/// Work that goes on by itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sync {
    /// `resync`, `recover`, `check`, `repair`, `reshape`, `resilver`, `scrub`, `balance`, `replace`..
    pub action: String,
    /// 0..1.
    pub done: f64,
    /// Bytes a second and member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed_bytes_s: Option<u64>,
    /// Seconds that are left at that speed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining_s: Option<u64>,
}

/// Fast disks before slow ones.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tier {
    /// `bcache`, `dm-cache`, `dm-writecache`, `zfs-cache` or `zfs-special`.
    pub kind: String,
    /// Disks of the cache.
    pub fast: Vec<String>,
    /// Disks behind it.
    pub slow: Vec<String>,
    /// `writethrough`, `writeback`.. where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// As its keeper puts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
}

/// Whether and how bytes are kept more than once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LayoutKind {
    /// Once.
    #[default]
    Simple,
    /// In copies.
    Mirror,
    /// By parity.
    Parity,
    /// Several of these in one volume.
    Mixed,
}

/// A remark with a stable code; the codes are in `advice`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advice {
    /// For programs.
    pub code: String,
    /// For people.
    pub text: String,
}

impl Node {
    pub(crate) fn new(kind: &str, name: impl Into<String>) -> Self {
        Self { kind: kind.to_owned(), name: name.into(), ..Self::default() }
    }

    /// A node that says what is not known.
    pub(crate) fn unknown(name: impl Into<String>, why: impl Into<String>) -> Self {
        Self { why: Some(why.into()), ..Self::new("unknown", name) }
    }

    /// A member that should be there.
    pub(crate) fn missing(name: impl Into<String>, why: impl Into<String>) -> Self {
        Self { member_state: Some("missing".to_owned()), ..Self::unknown(name, why) }
    }

    pub(crate) fn with_role(mut self, role: &str) -> Self {
        self.role = Some(role.to_owned());
        self
    }

    /// Whether it stands for a disk: it is counted as one and its requests are traced.
    pub(crate) fn is_disk(&self) -> bool {
        matches!(self.kind.as_str(), "disk" | "loop" | "nbd")
    }

    /// Whether it belongs to the data path of the storey above: spares, caches and logs do not.
    pub(crate) fn is_data(&self) -> bool {
        !matches!(self.role.as_deref(), Some("spare" | "cache" | "log" | "special" | "metadata"))
    }

    /// Whether reads of the storey above can be served by it.
    pub(crate) fn is_alive(&self) -> bool {
        !matches!(self.member_state.as_deref(), Some("missing" | "faulty" | "rebuilding" | "spare"))
    }

    /// Every node, itself first.
    pub(crate) fn visit_mut(&mut self, see: &mut dyn FnMut(&mut Node)) {
        see(self);
        for child in &mut self.children {
            child.visit_mut(see);
        }
    }
}

/// Names of the disks under a node, in order of appearance, each once. Below a disk nothing is counted.
pub(crate) fn leaves(node: &Node, out: &mut Vec<String>) {
    if node.is_disk() {
        if !out.contains(&node.name) {
            out.push(node.name.clone());
        }
        return;
    }
    for child in &node.children {
        leaves(child, out);
    }
}
