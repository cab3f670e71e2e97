//! Columns, copies and kind of a volume, from its tree alone.
//!
//! **Columns**: how many disks a large sequential read can use at once with distinct data. The rule, storey by storey,
//! over the members that hold data (spares, caches, logs and metadata devices do not count); `c` is a member's own
//! number of columns, `n` the number of members:
//!
//! | storey | columns | copies |
//! | --- | --- | --- |
//! | disk, loop, network block device | 1 | 1 |
//! | partition, crypt, cache over its origin, thin volume over its pool | c | the member's |
//! | concatenation (linear, btrfs single, mergerfs, Unraid, overlay) | largest c: a read is in one member at a time | smallest |
//! | stripe (raid0, striped, a ZFS pool over its vdevs) | sum of c | smallest |
//! | mirror (raid1, ZFS mirror) | largest c: one leg serves a sequential read | sum over legs in sync |
//! | btrfs dup, raid1, raid1c3, raid1c4 | largest c | 2, 2, 3, 4 |
//! | btrfs raid10; md and LVM raid10 near | sum of c / copies, at least 1 | 2; as arranged |
//! | md raid10 far, offset | sum of c / near copies: a row of first copies lies on all disks | near x far |
//! | raid4, raid5, raidz1 / raid6, raidz2 / raidz3 | sum of c - parity x largest c, at least 1 | smallest |
//! | draid P, D data, C children, S spares | (C - S) x D / (D + P) | 1 |
//! | multipath | largest c: the ways lead to one disk | the disk's |
//!
//! So a 4-disk two-copy striped mirror has 2 columns, a 3-disk mirror 1, raid5 of n disks n - 1, an LVM stripe over
//! two md mirrors 2 (with 2 copies), btrfs raid1 over two crypt devices 1. No storey has more columns than there are different
//! disks below it: a stripe over two partitions of one disk has 1.
//!
//! **Copies** are those that exist now: a missing, faulty or rebuilding leg is not one.

use std::collections::BTreeSet;

use super::node::{LayoutKind, Node};

/// What a volume means for reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Kind of the storey that decides: `btrfs`, `md`, `lvm`, `zfs`, `mergerfs`, ..
    pub(crate) by: String,
    /// `single`, `raid1`, ..; `disk` for a filesystem on one disk.
    pub(crate) level: String,
    pub(crate) columns: u32,
    pub(crate) copies: u32,
    pub(crate) chunk_bytes: u64,
    pub(crate) kind: LayoutKind,
}

/// `BTRFS_STRIPE_LEN`.
pub(crate) const BTRFS_STRIPE_BYTES: u64 = 64 << 10;

impl Shape {
    pub(crate) fn one_disk() -> Self {
        let (by, level) = ("disk".to_owned(), "disk".to_owned());
        Self { by, level, columns: 1, copies: 1, chunk_bytes: 0, kind: LayoutKind::Simple }
    }

    /// The shape of a btrfs data profile over `devices` single disks.
    #[cfg(test)]
    pub(crate) fn btrfs(profile: &str, devices: u32) -> Self {
        let n = devices.max(1);
        let rule = Rule::btrfs(profile);
        let (columns, copies) = match rule {
            Rule::Concat => (1, 1),
            Rule::Stripe => (n, 1),
            Rule::Copies { columns_by: None, copies } => (1, copies),
            Rule::Copies { columns_by: Some(by), copies } => ((n / by).max(1), copies),
            Rule::Parity(p) => (n.saturating_sub(p).max(1), 1),
            Rule::Mirror | Rule::Draid { .. } => (1, 1),
        };
        Self {
            by: "btrfs".to_owned(),
            level: profile.to_owned(),
            columns,
            copies,
            chunk_bytes: BTRFS_STRIPE_BYTES,
            kind: rule.kind(LayoutKind::Simple),
        }
    }
}

/// How a storey uses its members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// One after the other, or one alone.
    Concat,
    Stripe,
    /// Each member has everything.
    Mirror,
    /// Each byte on `copies` of the members; `columns_by`: stripes of that many members a column.
    Copies {
        columns_by: Option<u32>,
        copies: u32,
    },
    Parity(u32),
    Draid {
        parity: u32,
        data: u32,
        children: u32,
        spares: u32,
    },
}

impl Rule {
    fn of(node: &Node) -> Self {
        let level = node.level.as_deref().unwrap_or("");
        match node.kind.as_str() {
            "btrfs" => Self::btrfs(level),
            "zfs" => Self::zfs(level),
            "md" | "lvm" | "dm" => match level {
                "raid0" | "raid0_meta" | "striped" => Self::Stripe,
                "raid1" | "mirror" => Self::Mirror,
                "raid10" => Self::raid10(node.arrangement.as_deref().unwrap_or("near=2")),
                l if l.starts_with("raid4") || l.starts_with("raid5") => Self::Parity(1),
                l if l.starts_with("raid6") => Self::Parity(2),
                _ => Self::Concat,
            },
            _ => Self::Concat,
        }
    }

    fn btrfs(profile: &str) -> Self {
        match profile {
            "dup" | "raid1" => Self::Copies { columns_by: None, copies: 2 },
            "raid1c3" => Self::Copies { columns_by: None, copies: 3 },
            "raid1c4" => Self::Copies { columns_by: None, copies: 4 },
            "raid0" => Self::Stripe,
            "raid10" => Self::Copies { columns_by: Some(2), copies: 2 },
            "raid5" => Self::Parity(1),
            "raid6" => Self::Parity(2),
            _ => Self::Concat,
        }
    }

    fn zfs(level: &str) -> Self {
        match level {
            "pool" => Self::Stripe,
            "mirror" | "replacing" | "spare" => Self::Mirror,
            "raidz" | "raidz1" => Self::Parity(1),
            "raidz2" => Self::Parity(2),
            "raidz3" => Self::Parity(3),
            l => Self::draid(l).unwrap_or(Self::Concat),
        }
    }

    /// `draid2:4d:11c:1s`, as zpool names it (zpoolconcepts(7)).
    fn draid(level: &str) -> Option<Self> {
        let mut parts = level.strip_prefix("draid")?.split(':');
        let parity = parts.next()?;
        let mut out = (if parity.is_empty() { 1 } else { parity.parse().ok()? }, 0, 0, 0);
        for part in parts {
            let (number, letter) = part.split_at_checked(part.len().checked_sub(1)?)?;
            let number: u32 = number.parse().ok()?;
            match letter {
                "d" => out.1 = number,
                "c" => out.2 = number,
                "s" => out.3 = number,
                _ => return None,
            }
        }
        Some(Self::Draid { parity: out.0, data: out.1, children: out.2, spares: out.3 })
    }

    /// `near=2`, `far=2`, `offset=2`, `near=2,far=2`.
    fn raid10(arrangement: &str) -> Self {
        let (mut near, mut far) = (1_u32, 1_u32);
        for part in arrangement.split(',') {
            let Some((what, n)) = part.split_once('=') else { continue };
            let n: u32 = n.parse().unwrap_or(1);
            match what {
                "near" => near = n.clamp(1, 256),
                "far" | "offset" => far = n.clamp(1, 256),
                _ => {}
            }
        }
        Self::Copies { columns_by: Some(near), copies: near * far }
    }

    fn kind(self, below: LayoutKind) -> LayoutKind {
        match (self, below) {
            (Self::Concat | Self::Stripe, below) => below,
            (Self::Mirror | Self::Copies { .. }, LayoutKind::Simple | LayoutKind::Mirror) => {
                LayoutKind::Mirror
            }
            (Self::Parity(_) | Self::Draid { .. }, LayoutKind::Simple | LayoutKind::Parity) => {
                LayoutKind::Parity
            }
            _ => LayoutKind::Mixed,
        }
    }
}

/// The shape of a tree; its inner nodes have theirs noted.
pub(crate) fn of(node: &mut Node) -> Shape {
    let shape = below(node, 0);
    if !node.is_disk() {
        node.columns = Some(shape.columns);
        node.copies = Some(shape.copies);
    }
    shape
}

fn below(node: &mut Node, depth: usize) -> Shape {
    let level = node.level.clone().unwrap_or_else(|| node.kind.clone());
    let chunk_bytes = node.chunk_bytes.unwrap_or(0);
    // What is behind the file of a loop device is shown, not counted; it gets its own figures.
    if node.is_disk() || node.children.is_empty() || depth > super::stack::MAX_DEPTH + 1 {
        for child in &mut node.children {
            of_child(child, depth);
        }
        return Shape { by: node.kind.clone(), level, chunk_bytes, ..Shape::one_disk() };
    }
    let shapes: Vec<(bool, bool, Shape)> = node
        .children
        .iter_mut()
        .map(|c| {
            let shape = of_child(c, depth);
            (c.is_data(), c.is_alive(), shape)
        })
        .collect();
    let data: Vec<&(bool, bool, Shape)> = shapes.iter().filter(|s| s.0).collect();
    let rule = Rule::of(node);
    let sum = data.iter().fold(0_u32, |a, s| a.saturating_add(s.2.columns));
    let largest = data.iter().map(|s| s.2.columns).max().unwrap_or(1);
    let least = data.iter().map(|s| s.2.copies).min().unwrap_or(1).max(1);
    let lost = u32::try_from(data.iter().filter(|s| !s.1).count()).unwrap_or(u32::MAX);
    let (columns, copies) = match rule {
        Rule::Concat => (largest, least),
        Rule::Stripe => (sum, least),
        Rule::Mirror => {
            (largest, data.iter().filter(|s| s.1).fold(0_u32, |a, s| a.saturating_add(s.2.copies)).max(1))
        }
        Rule::Copies { columns_by, copies } => {
            let now = copies.saturating_sub(lost.min(copies)).max(1);
            (columns_by.map_or(largest, |by| sum / by), now.saturating_mul(least))
        }
        Rule::Parity(p) => (sum.saturating_sub(p.saturating_mul(largest)), least),
        Rule::Draid { parity, data: d, children, spares } => {
            let c = if children > 0 { children } else { sum };
            let group = d.saturating_add(parity).max(1);
            // Without its number of data disks: all that neither parity nor spares need.
            let d = if d > 0 { d } else { group.max(c.saturating_sub(spares).saturating_sub(parity)) };
            let group = d.saturating_add(parity).max(1);
            (
                u32::try_from(u64::from(c.saturating_sub(spares)) * u64::from(d) / u64::from(group))
                    .unwrap_or(1),
                least,
            )
        }
    };
    let mut kind = LayoutKind::Simple;
    for (i, s) in data.iter().enumerate() {
        kind = match i {
            0 => s.2.kind,
            _ if s.2.kind == kind => kind,
            _ => LayoutKind::Mixed,
        };
    }
    let kind = if has_many_profiles(node) { LayoutKind::Mixed } else { rule.kind(kind) };
    let columns = columns.min(distinct(node)).max(1);
    // A storey that passes everything on to one member keeps that one's level and chunk.
    if matches!(rule, Rule::Concat) && data.len() == 1 && node.kind != "btrfs" {
        return Shape { columns, copies, kind, ..data[0].2.clone() };
    }
    Shape { by: node.kind.clone(), level, columns, copies, chunk_bytes, kind }
}

fn of_child(child: &mut Node, depth: usize) -> Shape {
    let shape = below(child, depth + 1);
    if !child.is_disk() && !child.children.is_empty() {
        child.columns = Some(shape.columns);
        child.copies = Some(shape.copies);
    }
    shape
}

/// btrfs writes the profiles that hold data as `raid1+single`.
fn has_many_profiles(node: &Node) -> bool {
    node.kind == "btrfs" && node.arrangement.as_deref().is_some_and(|a| a.contains('+'))
}

/// How many different disks hold the data of a node. One that is missing or unknown counts as one.
fn distinct(node: &Node) -> u32 {
    fn walk(node: &Node, path: &mut Vec<usize>, out: &mut BTreeSet<String>) {
        if node.is_disk() {
            // Two ways to one disk have one name in the world.
            out.insert(node.disk.wwid.clone().unwrap_or_else(|| node.name.clone()));
        } else if node.children.iter().all(|c| !c.is_data()) {
            out.insert(format!("unknown at {path:?}"));
        }
        if node.is_disk() {
            return;
        }
        for (i, child) in node.children.iter().enumerate().filter(|(_, c)| c.is_data()) {
            path.push(i);
            walk(child, path, out);
            path.pop();
        }
    }
    let mut out = BTreeSet::new();
    walk(node, &mut Vec::new(), &mut out);
    u32::try_from(out.len()).unwrap_or(u32::MAX)
}
