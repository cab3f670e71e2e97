//! Device-mapper devices as nodes: LVM, dm-crypt, caches, thin pools, multipath and whatever else there is.
//!
//! With privilege by the table. Without it by what sysfs shows to all: the name and the prefix of the identifier
//! (libdm's names for hidden volumes: `_rimage_0`, `_tdata`, `_corig`..), the devices below, and the sizes: a stripe
//! says so by `optimal_io_size` = stripes x `minimum_io_size` (drivers/md/dm-stripe.c, dm-raid.c `io_hints`).

use std::path::{Path, PathBuf};

use super::md::{join, share};
use super::node::{Node, Sync};
use super::stack::Builder;
use super::sysfs::Sysfs;
use crate::sys::dm::{Kind, Raid, Table, Target};

/// Segments of a volume that are shown one by one; beyond that they are summed up by device.
const MAX_SEGMENTS: usize = 64;

pub(crate) fn describe(b: &mut Builder<'_>, dir: &Path, mut node: Node) -> Node {
    let uuid = Sysfs::text(dir, "dm/uuid").unwrap_or_default();
    if let Some(name) = Sysfs::text(dir, "dm/name").filter(|n| !n.is_empty()) {
        node.path = Some(format!("/dev/mapper/{name}"));
        node.name = name;
    }
    node.kind = maker(&uuid).to_owned();
    if Sysfs::number(dir, "dm/suspended").is_some_and(|s| s != 0) {
        node.state = join([node.state.take(), Some("suspended: reads wait".to_owned())]);
    }
    let table = match Sysfs::device_number(dir) {
        Some(number) => b.ask.dm_table(number),
        None => Err("sysfs does not show its number".to_owned()),
    };
    let mut node = match table {
        Ok(table) => by_table(b, node, &table),
        Err(why) => by_sysfs(b, dir, node, &uuid, &why),
    };
    node.degraded |= node.children.iter().any(|c| {
        c.is_data() && matches!(c.member_state.as_deref(), Some("missing" | "faulty" | "rebuilding"))
    });
    node
}

/// Who made it, by the prefix of its identifier (`DM_UUID_PREFIX` of each tool).
fn maker(uuid: &str) -> &'static str {
    match uuid.split('-').next().unwrap_or("") {
        "LVM" => "lvm",
        "CRYPT" => "crypt",
        p if p.starts_with("part") && p.len() > 4 => "partition",
        _ => "dm",
    }
}

// ---- by its table

fn by_table(b: &mut Builder<'_>, mut node: Node, table: &Table) -> Node {
    match table.targets.as_slice() {
        [] => {
            node.why = Some("its table is empty".to_owned());
            node
        }
        [target] => one(b, node, target),
        many => several(b, node, many),
    }
}

/// Runs one after the other. Linear ones are taken together by the device that they lie on.
fn several(b: &mut Builder<'_>, mut node: Node, targets: &[Target]) -> Node {
    let regions: Option<Vec<(u32, u32)>> = targets
        .iter()
        .map(|t| match &t.kind {
            Kind::Linear(region) => Some(region.device),
            _ => None,
        })
        .collect();
    if let Some(mut devices) = regions {
        let runs = devices.len();
        let mut seen = Vec::new();
        devices.retain(|d| {
            !seen.contains(d) && (seen.len() < 4096) && {
                seen.push(*d);
                true
            }
        });
        node.level = Some("linear".to_owned());
        node.state = join([node.state.take(), Some(format!("{runs} segments"))]);
        node.children = numbered(b, &devices, "data");
        return node;
    }
    node.level = Some("linear".to_owned());
    for (i, target) in targets.iter().enumerate() {
        if i >= MAX_SEGMENTS || b.is_full() {
            node.why = Some(format!("{} more segments are not shown", targets.len() - i));
            break;
        }
        let name = format!("segment {}", i + 1);
        let own = Node {
            size_bytes: target.len_bytes,
            ..Node::new(if node.kind == "lvm" { "lvm" } else { "dm" }, name)
        };
        let child = one(b, own, target).with_role("data");
        node.children.push(child);
    }
    node
}

/// A device of one target, or a segment.
fn one(b: &mut Builder<'_>, mut node: Node, target: &Target) -> Node {
    let level = |node: &mut Node, level: &str| node.level = Some(level.to_owned());
    // A volume that LVM made stays one; made by hand it is named for what it does.
    let named = |node: &mut Node, kind: &str| {
        if node.kind == "dm" {
            kind.clone_into(&mut node.kind);
        }
    };
    match &target.kind {
        Kind::Linear(region) => {
            level(&mut node, "linear");
            node.start_bytes = (node.kind == "partition").then_some(region.offset_bytes);
            node.children = numbered(b, &[region.device], "data");
        }
        Kind::Striped { chunk_bytes, stripes } => {
            level(&mut node, "striped");
            node.chunk_bytes = Some(*chunk_bytes);
            let devices: Vec<(u32, u32)> = stripes.iter().map(|r| r.device).collect();
            node.children = numbered(b, &devices, "data");
        }
        Kind::Mirror { legs } => {
            level(&mut node, "mirror");
            let devices: Vec<(u32, u32)> = legs.iter().map(|r| r.device).collect();
            node.children = numbered(b, &devices, "mirror");
            mirror_status(&mut node, target.status.as_deref().unwrap_or(""));
        }
        Kind::Raid(raid) => node = raid_node(b, node, raid, target.status.as_deref().unwrap_or("")),
        Kind::Crypt { cipher, below } => {
            named(&mut node, "crypt");
            level(&mut node, cipher);
            node.children = numbered(b, &[below.device], "data");
        }
        Kind::Writecache { origin, cache, .. } => {
            named(&mut node, "writecache");
            level(&mut node, "writecache");
            node.children = numbered(b, &[*origin], "origin");
            node.children.extend(numbered(b, &[*cache], "cache"));
            writecache_status(&mut node, target.status.as_deref().unwrap_or(""));
        }
        Kind::Cache { metadata, cache, origin, block_bytes } => {
            named(&mut node, "cache");
            level(&mut node, "cache");
            node.chunk_bytes = Some(*block_bytes);
            node.children = numbered(b, &[*origin], "origin");
            node.children.extend(numbered(b, &[*cache], "cache"));
            node.children.extend(numbered(b, &[*metadata], "metadata"));
            cache_status(&mut node, target.status.as_deref().unwrap_or(""));
        }
        Kind::Thin { pool, external_origin, .. } => {
            named(&mut node, "thin");
            level(&mut node, "thin");
            node.children = numbered(b, &[*pool], "data");
            if let Some(origin) = external_origin {
                node.children.extend(numbered(b, &[*origin], "origin"));
            }
        }
        Kind::ThinPool { metadata, data, block_bytes } => {
            named(&mut node, "thin");
            level(&mut node, "thin-pool");
            node.chunk_bytes = Some(*block_bytes);
            node.children = numbered(b, &[*data], "data");
            node.children.extend(numbered(b, &[*metadata], "metadata"));
            pool_status(&mut node, target.status.as_deref().unwrap_or(""));
        }
        Kind::Delay(region) => {
            level(&mut node, "delay");
            node.children = numbered(b, &[region.device], "data");
        }
        Kind::Flakey(region) => {
            level(&mut node, "flakey");
            node.state = join([node.state.take(), Some("fails on purpose from time to time".to_owned())]);
            node.children = numbered(b, &[region.device], "data");
        }
        Kind::Error => {
            level(&mut node, "error");
            node.why = Some("every read of it fails: LVM puts it where a disk is gone".to_owned());
            node.member_state = Some("missing".to_owned());
        }
        Kind::Zero => {
            level(&mut node, "zero");
            node.why = Some("it reads as zeros: no disk is below it".to_owned());
        }
        Kind::Multipath { paths } => {
            level(&mut node, "multipath");
            node.children = numbered(b, paths, "data");
            multipath_status(&mut node, paths, target.status.as_deref().unwrap_or(""));
        }
        Kind::Integrity { below, .. } => {
            level(&mut node, "integrity");
            node.children = numbered(b, &[below.device], "data");
        }
        Kind::Verity { data } => {
            level(&mut node, "verity");
            node.children = numbered(b, &[*data], "data");
        }
        Kind::SnapshotOrigin { origin } => {
            level(&mut node, "snapshot-origin");
            node.children = numbered(b, &[*origin], "origin");
        }
        Kind::Snapshot { origin, store } => {
            level(&mut node, "snapshot");
            node.children = numbered(b, &[*origin], "origin");
            node.children.extend(numbered(b, &[*store], "data"));
        }
        Kind::Unknown { word, text } => {
            node.level = Some(word.clone());
            node.why = Some(format!("how the target `{word}` places bytes is not known here"));
            let devices: Vec<(u32, u32)> = text.split_whitespace().filter_map(number).take(256).collect();
            node.children = numbered(b, &devices, "data");
        }
    }
    node
}

/// `254:32`.
fn number(word: &str) -> Option<(u32, u32)> {
    let (major, minor) = word.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn numbered(b: &mut Builder<'_>, devices: &[(u32, u32)], role: &str) -> Vec<Node> {
    devices.iter().map_while(|d| (!b.is_full()).then(|| b.numbered(*d).with_role(role))).collect()
}

/// Documentation/admin-guide/device-mapper/dm-raid.rst: `raid5_ls` is md's raid5 with layout left-symmetric.
fn raid_node(b: &mut Builder<'_>, mut node: Node, raid: &Raid, status: &str) -> Node {
    let (level, layout) = raid.level.split_once('_').unwrap_or((&raid.level, ""));
    node.chunk_bytes = Some(raid.chunk_bytes).filter(|c| *c > 0);
    node.arrangement = match (level, layout) {
        ("raid10", _) => {
            let copies = raid.copies;
            let format = raid.format.as_deref().unwrap_or(if layout.is_empty() { "near" } else { layout });
            Some(format!("{format}={copies}"))
        }
        ("raid0" | "raid1", _) => None,
        (_, "ls") => Some("left-symmetric".to_owned()),
        (_, "la") => Some("left-asymmetric".to_owned()),
        (_, "rs") => Some("right-symmetric".to_owned()),
        (_, "ra") => Some("right-asymmetric".to_owned()),
        (_, "zr") => Some("ddf-zero-restart".to_owned()),
        (_, "nr") => Some("ddf-N-restart".to_owned()),
        (_, "nc") => Some("ddf-N-continue".to_owned()),
        (_, "") => None,
        (_, other) => Some(other.to_owned()),
    };
    node.level = Some(level.to_owned());
    let role = if level == "raid1" { "mirror" } else { "data" };
    let health: Vec<char> = status.split_whitespace().nth(2).unwrap_or("").chars().collect();
    for (slot, member) in raid.members.iter().enumerate() {
        if b.is_full() {
            break;
        }
        let mut child = match member {
            Some(device) => b.numbered(*device),
            None => Node::missing(format!("slot {slot}"), "no device is in this slot of the volume"),
        };
        if child.member_state.as_deref() != Some("missing") {
            // A in sync, a alive and not in sync, D dead, - none. LVM replaces a gone disk by an error target.
            let slot_number = u32::try_from(slot).unwrap_or(u32::MAX);
            child.member_state = Some(
                match health.get(slot) {
                    Some('D') => "faulty",
                    Some('-') => "missing",
                    Some('a') => "rebuilding",
                    _ if raid.rebuild.contains(&slot_number) => "rebuilding",
                    _ if raid.write_mostly.contains(&slot_number) => "write_mostly",
                    _ => "in_sync",
                }
                .to_owned(),
            );
        }
        node.children.push(child.with_role(role));
    }
    raid_status(&mut node, status);
    node
}

/// `<type> <#devices> <health> <done>/<all> <action> <mismatches> ..`
fn raid_status(node: &mut Node, status: &str) {
    let mut words = status.split_whitespace().skip(3);
    let (Some(progress), Some(action)) = (words.next(), words.next()) else { return };
    let Some((at, all)) = progress.split_once('/') else { return };
    let (at, all) = (at.parse::<u64>().unwrap_or(0), all.parse::<u64>().unwrap_or(0));
    let is_first_sync = action == "resync" || action == "recover";
    // During the first synchronisation all members are told as `a`, and all serve (a mirror from its first leg
    // beyond what is synchronised).
    if action == "resync" {
        for child in &mut node.children {
            if child.member_state.as_deref() == Some("rebuilding") {
                child.member_state = Some("in_sync".to_owned());
            }
        }
    }
    if !matches!(action, "idle" | "frozen" | "-") || (is_first_sync && at < all) {
        node.sync = Some(Sync { action: action.to_owned(), done: share(at, all), ..Sync::default() });
    }
}

/// `<#legs> <dev>.. <done>/<all> 1 <A|D..> ..` (dm-raid1.c).
fn mirror_status(node: &mut Node, status: &str) {
    let mut words = status.split_whitespace();
    let legs: usize = words.next().and_then(|n| n.parse().ok()).unwrap_or(0);
    if legs != node.children.len() {
        return;
    }
    let mut words = words.skip(legs);
    let progress = words.next().unwrap_or("");
    let health: Vec<char> = words.nth(1).unwrap_or("").chars().collect();
    for (i, child) in node.children.iter_mut().enumerate() {
        let is_alive = health.get(i).is_none_or(|c| *c == 'A');
        child.member_state = Some(if is_alive { "in_sync" } else { "faulty" }.to_owned());
    }
    if let Some((at, all)) = progress.split_once('/')
        && let (Ok(at), Ok(all)) = (at.parse::<u64>(), all.parse::<u64>())
        && at < all
    {
        node.sync = Some(Sync { action: "resync".to_owned(), done: share(at, all), ..Sync::default() });
    }
}

/// `<error> <blocks> <free blocks> <blocks under writeback> ..` (writecache.rst).
fn writecache_status(node: &mut Node, status: &str) {
    let n: Vec<u64> = status.split_whitespace().map_while(|w| w.parse().ok()).take(4).collect();
    let [error, all, free, ..] = n[..] else { return };
    let used = format!("{} of {all} blocks hold what is not on the disk yet", all.saturating_sub(free));
    node.state = join([
        node.state.take(),
        Some(if error == 0 { used } else { format!("cache error {error}; {used}") }),
    ]);
    node.degraded |= error != 0;
}

/// `.. #features <features>.. ..`; `Fail` alone when it has failed (cache.rst, Status).
fn cache_status(node: &mut Node, status: &str) {
    if status.trim() == "Fail" || status.trim() == "Error" {
        node.state = join([node.state.take(), Some("the cache has failed".to_owned())]);
        node.degraded = true;
        return;
    }
    let words: Vec<&str> = status.split_whitespace().collect();
    // metadata-block-size used/total block-size used/total hits misses write-hits write-misses demotions promotions dirty
    let dirty = words.get(10).and_then(|w| w.parse::<u64>().ok());
    let mode = ["writethrough", "writeback", "passthrough"].into_iter().find(|m| words.contains(m));
    let dirty = dirty.map(|d| if d == 0 { "clean".to_owned() } else { format!("{d} blocks dirty") });
    node.state = join([node.state.take(), mode.map(str::to_owned), dirty]);
    if words.contains(&"needs_check") {
        node.state = join([node.state.take(), Some("its metadata needs a check".to_owned())]);
        node.degraded = true;
    }
}

/// `<transaction> <used>/<all metadata> <used>/<all data> <held root> ro|rw|out_of_data_space ..` (thin-provisioning.rst).
fn pool_status(node: &mut Node, status: &str) {
    if status.trim() == "Fail" || status.trim() == "Error" {
        node.state = join([node.state.take(), Some("the pool has failed".to_owned())]);
        node.degraded = true;
        return;
    }
    let words: Vec<&str> = status.split_whitespace().collect();
    let used = words.get(2).and_then(|w| {
        let (used, all) = w.split_once('/')?;
        Some(share(used.parse().ok()?, all.parse().ok()?))
    });
    let used = used.map(|u| format!("{:.0} % full", u * 100.0));
    let trouble = words.iter().find(|w| matches!(**w, "ro" | "out_of_data_space" | "needs_check"));
    node.state = join([node.state.take(), used, trouble.map(|t| (*t).to_owned())]);
    node.degraded |= trouble.is_some();
}

/// The paths with `A` or `F` after each number (dm-mpath.c).
fn multipath_status(node: &mut Node, paths: &[(u32, u32)], status: &str) {
    let words: Vec<&str> = status.split_whitespace().collect();
    let mut failed = 0;
    for (child, (major, minor)) in node.children.iter_mut().zip(paths) {
        let wanted = format!("{major}:{minor}");
        let standing = words.iter().position(|w| *w == wanted).and_then(|i| words.get(i + 1));
        if standing == Some(&"F") {
            child.member_state = Some("faulty".to_owned());
            failed += 1;
        }
    }
    let all = paths.len();
    node.state = join([node.state.take(), Some(format!("{} of {all} ways work", all - failed))]);
}

// ---- without it

/// What the hidden volumes below tell by their names (lib/metadata/lv_manip.c of LVM).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    RaidData,
    RaidMetadata,
    MirrorLeg,
    MirrorLog,
    PoolData,
    PoolMetadata,
    Pool,
    CacheOrigin,
    CacheData,
    CacheMetadata,
    WritecacheOrigin,
    CacheVolume,
    SnapshotStore,
    Origin,
    Other,
}

fn part(name: &str) -> Part {
    let numbered = |mark: &str| {
        name.rsplit_once(mark).is_some_and(|(_, n)| !n.is_empty() && n.bytes().all(|c| c.is_ascii_digit()))
    };
    if numbered("_rimage_") {
        Part::RaidData
    } else if numbered("_rmeta_") {
        Part::RaidMetadata
    } else if numbered("_mimage_") {
        Part::MirrorLeg
    } else if name.ends_with("_mlog") {
        Part::MirrorLog
    } else if name.ends_with("_tdata") {
        Part::PoolData
    } else if name.ends_with("_tmeta") {
        Part::PoolMetadata
    } else if name.ends_with("-tpool") {
        Part::Pool
    } else if name.ends_with("_wcorig") {
        Part::WritecacheOrigin
    } else if name.ends_with("_corig") {
        Part::CacheOrigin
    } else if name.ends_with("_cdata") || name.ends_with("-cdata") {
        Part::CacheData
    } else if name.ends_with("_cmeta") || name.ends_with("-cmeta") {
        Part::CacheMetadata
    } else if name.ends_with("_cvol") {
        Part::CacheVolume
    } else if name.ends_with("-cow") {
        Part::SnapshotStore
    } else if name.ends_with("-real") {
        Part::Origin
    } else {
        Part::Other
    }
}

fn by_sysfs(b: &mut Builder<'_>, dir: &Path, mut node: Node, uuid: &str, why: &str) -> Node {
    let slaves = Sysfs::slaves(dir);
    let parts: Vec<(PathBuf, Part)> = slaves
        .into_iter()
        .map(|d| {
            let part = Sysfs::text(&d, "dm/name").map_or(Part::Other, |n| part(&n));
            (d, part)
        })
        .collect();
    let has = |p: Part| parts.iter().any(|(_, part)| *part == p);
    let told_by_name = |node: &mut Node, level: &str| node.level = Some(level.to_owned());
    if node.kind == "crypt" {
        node.level = uuid.split('-').nth(1).map(str::to_lowercase);
    } else if uuid.starts_with("mpath-") {
        told_by_name(&mut node, "multipath");
    } else if node.kind == "partition" {
        told_by_name(&mut node, "linear");
    } else if has(Part::Pool) || has(Part::PoolData) {
        told_by_name(&mut node, if has(Part::PoolData) { "thin-pool" } else { "thin" });
    } else if has(Part::WritecacheOrigin) {
        told_by_name(&mut node, "writecache");
    } else if has(Part::CacheOrigin) {
        told_by_name(&mut node, "cache");
    } else if has(Part::SnapshotStore) || has(Part::Origin) {
        told_by_name(&mut node, if has(Part::SnapshotStore) { "snapshot" } else { "snapshot-origin" });
    } else {
        guess(dir, &mut node, &parts, why);
    }
    if parts.is_empty() {
        node.why = Some(format!("nothing is below it in sysfs; {why}"));
    }
    let level = node.level.clone();
    for (dir, part) in &parts {
        if b.is_full() {
            break;
        }
        let role = match part {
            Part::RaidMetadata | Part::MirrorLog | Part::PoolMetadata | Part::CacheMetadata => "metadata",
            Part::CacheData | Part::CacheVolume => "cache",
            Part::CacheOrigin | Part::WritecacheOrigin | Part::Origin => "origin",
            Part::RaidData | Part::MirrorLeg if matches!(level.as_deref(), Some("raid1" | "mirror")) => {
                "mirror"
            }
            // The cache of a writecache or cache made since LVM 2.03 is an ordinary volume's name.
            Part::Other if matches!(level.as_deref(), Some("writecache" | "cache")) => "cache",
            _ => "data",
        };
        let child = b.device(dir).with_role(role);
        node.children.push(child);
    }
    node
}

/// The level of a volume whose parts do not tell it by name.
fn guess(dir: &Path, node: &mut Node, parts: &[(PathBuf, Part)], why: &str) {
    let sectors = |d: &Path| Sysfs::number(d, "size").unwrap_or(0);
    let members: Vec<&PathBuf> =
        parts.iter().filter(|(_, p)| matches!(p, Part::RaidData | Part::MirrorLeg)).map(|(d, _)| d).collect();
    let n = members.len() as u64;
    let (chunk, full) = (
        Sysfs::number(dir, "queue/minimum_io_size").unwrap_or(0),
        Sysfs::number(dir, "queue/optimal_io_size").unwrap_or(0),
    );
    let by_size = format!("told by names and sizes: {why}");
    if parts.iter().any(|(_, p)| *p == Part::MirrorLeg) {
        node.level = Some("mirror".to_owned());
        return;
    }
    if n > 0 {
        let one = members.iter().map(|d| sectors(d)).min().unwrap_or(0).max(1);
        // Rounded: the last stripe may be cut.
        let columns = (sectors(dir) + one / 2) / one;
        node.level = match columns {
            c if c == n && n > 1 => Some("raid0"),
            1 => Some("raid1"),
            c if c + 1 == n => Some("raid5"),
            c if c * 2 == n => Some("raid10"),
            c if c + 2 == n => Some("raid6"),
            _ => None,
        }
        .map(str::to_owned);
        if columns > 1 && chunk > 4096 {
            node.chunk_bytes = Some(chunk);
        }
        node.why = Some(if node.level.is_some() { by_size } else { why.to_owned() });
        return;
    }
    let below = parts.len() as u64;
    if below > 1 && chunk > 4096 && full == chunk.saturating_mul(below) {
        node.level = Some(if node.kind == "lvm" { "striped" } else { "raid0" }.to_owned());
        node.chunk_bytes = Some(chunk);
        node.why = Some(by_size);
    } else if node.kind == "lvm" {
        node.level = Some("linear".to_owned());
        if below > 1 {
            node.why = Some(format!("linear, by its sizes; in which order is not known: {why}"));
        }
    } else {
        node.why = Some(why.to_owned());
    }
}
