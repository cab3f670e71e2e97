//! What the owner could change, from the tree alone. The codes are closed and stay:
//!
//! | code | when |
//! | --- | --- |
//! | `degraded` | a member is missing or faulty |
//! | `resyncing` | a resync, rebuild, check, scrub or balance shares the disks |
//! | `mixed_rotational` | rotating and solid-state disks carry the same data |
//! | `mirror_one_disk_per_reader` | a mirror with one column: one viewer gets one disk |
//! | `read_ahead_below_stripe` | the kernel's read-ahead is smaller than one stripe |
//! | `one_disk_per_chunk` | btrfs single or a concatenation over several disks |
//! | `one_disk_per_file` | a pool of folders: each file is whole on one of them |
//! | `no_redundancy` | a stripe without copies |
//! | `parity_write_hole` | btrfs raid5 or raid6 |
//! | `copies_on_one_disk` | btrfs dup; members of a mirror or parity set on one disk |
//! | `columns_share_a_disk` | a stripe over several places of one disk |
//! | `several_profiles` | btrfs data in several profiles |
//! | `cache_failing` | the cache before the disks counts errors, or was lost with data on it |
//! | `cache_holds_data` | a cache in writeback mode holds what is nowhere else, on fewer copies than the disks behind it |
//! | `disk_failing` | a disk's own account, or the kernel's |
//! | `disk_hot` | 60 °C and more on a rotating disk, 75 on another |
//! | `network_mount` | another machine's disks |
//! | `stopped_writes` | the filesystem went read-only by itself |
//! | `suspended` | reads wait: a suspended device or pool |
//! | `layout_unknown` | something in the tree could not be told |

use super::node::{Advice, LayoutKind, Node};
use super::shape::Shape;

/// Degrees at which a rotating disk is worth a word: makers' limits are 60 or 65.
const HOT_ROTATING_C: i32 = 60;
/// And another: NVMe disks slow down between 70 and 85.
const HOT_C: i32 = 75;
/// Remarks of one code are summed up beyond this many.
const MAX_NAMED: usize = 6;

pub(super) fn of(node: &Node, shape: &Shape, disks: usize) -> Vec<Advice> {
    let mut out = Vec::new();
    let mut say = |code: &str, text: String| out.push(Advice { code: code.to_owned(), text });
    let all = flat(node);
    degraded(&all, &mut say);
    for n in &all {
        if let Some(sync) = &n.sync {
            let left = sync.remaining_s.map(|s| format!(", about {} to go", span(s))).unwrap_or_default();
            say(
                "resyncing",
                format!(
                    "{} is busy with a {} ({:.1} % done{left}): it shares the disks with the viewers until then.",
                    n.name,
                    sync.action,
                    sync.done * 100.0
                ),
            );
        }
    }
    members(&all, &mut say);
    layout(node, &all, shape, disks, &mut say);
    cache(&all, &mut say);
    health(&all, &mut say);
    if let Some(n) = all.iter().find(|n| n.kind == "network") {
        let whose = n.server.as_deref().unwrap_or("another machine");
        say(
            "network_mount",
            format!(
                "These bytes come from {whose} over the network: its disks cannot be seen from here, and a server on that machine would."
            ),
        );
    }
    if let Some(n) = all
        .iter()
        .find(|n| n.state.as_deref().is_some_and(|s| s.contains("suspended") || s.contains("SUSPENDED")))
    {
        say("suspended", format!("{} is suspended: every read of it waits until it is resumed.", n.name));
    }
    let unknown: Vec<String> = all
        .iter()
        .filter(|n| n.kind == "unknown" && n.member_state.as_deref() != Some("missing"))
        .map(|n| format!("{}: {}", n.name, n.why.as_deref().unwrap_or("not known")))
        .collect();
    if !unknown.is_empty() {
        say("layout_unknown", some(&unknown, "; "));
    }
    out
}

pub(super) fn stopped_writes(kind: &str) -> Advice {
    Advice {
        code: "stopped_writes".to_owned(),
        text: format!(
            "The {kind} was mounted for writing and has gone read-only by itself: it found an error. Playing goes on; look at the kernel's log and check it before it is mounted for writing again."
        ),
    }
}

/// Every node that the volume's data lie on; what is behind the file of a loop device is another volume.
fn flat(node: &Node) -> Vec<&Node> {
    fn walk<'a>(node: &'a Node, out: &mut Vec<&'a Node>) {
        out.push(node);
        if !node.is_disk() {
            for child in &node.children {
                walk(child, out);
            }
        }
    }
    let mut out = Vec::new();
    walk(node, &mut out);
    out
}

fn degraded(all: &[&Node], say: &mut impl FnMut(&str, String)) {
    for n in
        all.iter().filter(|n| n.degraded && n.kind != "bcache" && n.kind != "cache" && n.kind != "writecache")
    {
        let gone: Vec<String> = n
            .children
            .iter()
            .filter(|c| matches!(c.member_state.as_deref(), Some("missing" | "faulty" | "rebuilding")))
            .map(|c| format!("{} ({})", c.name, c.member_state.as_deref().unwrap_or("")))
            .collect();
        // A pool is degraded because a vdev below it is: that one says it.
        if gone.is_empty() && n.children.iter().any(|c| c.degraded) {
            continue;
        }
        let who = if gone.is_empty() { String::new() } else { format!(": {}", some(&gone, ", ")) };
        let what = match n.level.as_deref() {
            Some(level) => format!("{} ({level})", n.name),
            None => n.name.clone(),
        };
        let cost = if matches!(n.level.as_deref(), Some(l) if l.starts_with("raid5") || l.starts_with("raid6") || l.starts_with("raid4") || l.starts_with("raidz") || l.starts_with("draid"))
        {
            " Reads of what was on it take all the other disks, and one more loss may take data with it."
        } else {
            " What it held is read from what is left."
        };
        say("degraded", format!("{what} runs without all its members{who}. Replace the disk.{cost}"));
    }
}

/// Members of one storey that do not fit together.
fn members(all: &[&Node], say: &mut impl FnMut(&str, String)) {
    for n in all {
        let data: Vec<&Node> = n.children.iter().filter(|c| c.is_data()).collect();
        if data.len() < 2 || matches!(n.kind.as_str(), "mergerfs" | "shfs" | "overlay") {
            continue;
        }
        let kinds: Vec<bool> = data.iter().filter_map(|c| turns(c)).collect();
        let prefers_fast = data.iter().any(|c| c.member_state.as_deref() == Some("write_mostly"));
        if kinds.contains(&true) && kinds.contains(&false) && !prefers_fast {
            let what = match (n.kind.as_str(), n.copies.unwrap_or(1)) {
                (_, 0 | 1) => "each stripe is as slow as its slowest disk",
                ("md", _) => {
                    "a reader that the mirror gives to the rotating disk waits for it; `write-mostly` on that member keeps readers off it"
                }
                ("lvm", _) => {
                    "a reader that the mirror gives to the rotating disk waits for it; `lvchange --writemostly` keeps readers off it"
                }
                ("btrfs", _) => {
                    "btrfs chooses the copy by thread, not by speed: half of the readers get the rotating disk"
                }
                _ => "a reader that gets the rotating disk waits for it",
            };
            say(
                "mixed_rotational",
                format!("{} has rotating and solid-state members side by side: {what}.", n.name),
            );
        }
        let mut one = Vec::new();
        let mut shared = None;
        for child in &data {
            let mut names = Vec::new();
            super::node::leaves(child, &mut names);
            if let Some(twice) = names.iter().find(|d| one.contains(*d)) {
                shared = Some(twice.clone());
            }
            one.extend(names);
        }
        let Some(disk) = shared else { continue };
        match n.level.as_deref().unwrap_or("") {
            "multipath" | "linear" | "single" | "snapshot" | "" => {}
            "raid0" | "striped" => say(
                "columns_share_a_disk",
                format!(
                    "Several stripes of {} lie on {disk}: they take turns there instead of working at once.",
                    n.name
                ),
            ),
            "pool" if n.kind == "zfs" => say(
                "columns_share_a_disk",
                format!(
                    "Several vdevs of {} lie on {disk}: they take turns there instead of working at once.",
                    n.name
                ),
            ),
            _ => say(
                "copies_on_one_disk",
                format!("Several members of {} lie on {disk}: its loss would take all of them.", n.name),
            ),
        }
    }
}

/// Whether what is below turns; `None` if mixed or unknown.
fn turns(node: &Node) -> Option<bool> {
    if node.is_disk() {
        return node.disk.rotational;
    }
    let kinds: Vec<Option<bool>> = node.children.iter().filter(|c| c.is_data()).map(turns).collect();
    let first = *kinds.first()?;
    kinds.iter().all(|k| *k == first).then_some(first).flatten()
}

fn layout(node: &Node, all: &[&Node], shape: &Shape, disks: usize, say: &mut impl FnMut(&str, String)) {
    // The storey that decides: the first with several members.
    let top =
        all.iter().find(|n| n.children.iter().filter(|c| c.is_data()).count() > 1).copied().unwrap_or(node);
    let level = top.level.as_deref().unwrap_or("");
    match (top.kind.as_str(), level) {
        ("mergerfs" | "shfs", l) if l != "file" => say(
            "one_disk_per_file",
            "Each file is whole on one disk of this pool: a stream is as fast as that disk, and only that one needs to be awake.".to_owned(),
        ),
        ("btrfs", "raid1" | "raid1c3" | "raid1c4") if disks > 1 => say(
            "mirror_one_disk_per_reader",
            format!("Each viewer is served by one disk of the {disks}: a btrfs mirror gives a reader one copy. raid10 on four or more disks would let one stream use several."),
        ),
        ("btrfs", "raid5" | "raid6") => say(
            "parity_write_hole",
            "btrfs parity profiles are not safe against a power cut while writing; reading is as fast as raid0 on the data disks.".to_owned(),
        ),
        ("btrfs", "single") if disks > 1 => say(
            "one_disk_per_chunk",
            "Files lie on one disk for about 1 GiB at a time: one stream is as fast as one disk.".to_owned(),
        ),
        ("btrfs", "dup") => say(
            "copies_on_one_disk",
            "Both copies may lie on the same disk: that guards against bad blocks, not against a lost disk.".to_owned(),
        ),
        ("md" | "lvm" | "dm", "linear") if disks > 1 && shape.columns == 1 => say(
            "one_disk_per_chunk",
            format!("{} is one disk after the other: one stream is as fast as the disk that it is on.", top.name),
        ),
        ("zfs", "mirror") if shape.columns == 1 && disks > 1 => say(
            "mirror_one_disk_per_reader",
            format!(
                "One mirror is one column: ZFS spreads a reader's blocks over its {disks} disks, but each of them skips what the others read. A second mirror in the pool would add a column."
            ),
        ),
        (_, "raid1" | "mirror") if shape.columns == 1 && shape.kind == LayoutKind::Mirror && disks > 1 => say(
            "mirror_one_disk_per_reader",
            format!(
                "A mirror of one column: a sequential reader is served by one disk of the {disks}, however many copies there are. raid10 with the far layout (also on {disks} disks), or a stripe over mirrors, would let one stream use several; large reads split over both copies in part."
            ),
        ),
        _ => {}
    }
    if shape.kind == LayoutKind::Simple && shape.columns > 1 {
        say(
            "no_redundancy",
            format!("All {disks} disks work together, and the loss of one loses every file."),
        );
    }
    if let Some(n) =
        all.iter().find(|n| n.kind == "btrfs" && n.arrangement.as_deref().is_some_and(|a| a.contains('+')))
    {
        say(
            "several_profiles",
            format!(
                "{} holds data in several profiles ({}): a conversion is under way or was broken off; `btrfs balance` finishes it.",
                n.name,
                n.arrangement.as_deref().unwrap_or("")
            ),
        );
    }
    // What is read ahead at the top of the stack is what counts.
    let stripe = shape.chunk_bytes.saturating_mul(u64::from(shape.columns));
    let ahead = all.iter().find_map(|n| n.read_ahead_bytes.filter(|_| n.kind != "partition")).unwrap_or(0);
    if shape.columns > 1 && ahead > 0 && ahead < stripe {
        say(
            "read_ahead_below_stripe",
            format!(
                "The kernel reads {} KiB ahead, one stripe over all columns is {} KiB: ordinary readers use only some of the disks at once. `blockdev --setra` on the top device would change it; this server reads in larger pieces by itself.",
                ahead >> 10,
                stripe >> 10
            ),
        );
    }
}

fn cache(all: &[&Node], say: &mut impl FnMut(&str, String)) {
    for n in all {
        let has_cache = matches!(n.kind.as_str(), "bcache" | "cache" | "writecache")
            || (n.kind == "lvm" && matches!(n.level.as_deref(), Some("cache" | "writecache")));
        if !has_cache {
            continue;
        }
        let state = n.state.as_deref().unwrap_or("");
        let is_sick = n.children.iter().any(|c| {
            c.role.as_deref() == Some("cache")
                && (c.disk.health.as_deref() == Some("failing") || c.kind == "unknown")
        });
        if n.degraded || is_sick {
            say(
                "cache_failing",
                format!(
                    "The cache of {} is failing ({state}): detach it while it can still be written back.",
                    n.name
                ),
            );
        } else if state.contains("writeback") && (state.contains("dirty") || state.contains("cache alone")) {
            let copies = |role: &str| {
                n.children
                    .iter()
                    .find(|c| c.role.as_deref() == Some(role))
                    .and_then(|c| c.copies)
                    .unwrap_or(1)
            };
            if copies("cache") < copies("origin") {
                say(
                    "cache_holds_data",
                    format!(
                        "The cache of {} holds data that are nowhere else, in fewer copies than the disks behind it: the loss of the cache device would lose them.",
                        n.name
                    ),
                );
            }
        }
    }
}

fn health(all: &[&Node], say: &mut impl FnMut(&str, String)) {
    let mut seen: Vec<&str> = Vec::new();
    for n in all.iter().filter(|n| n.is_disk()) {
        if seen.contains(&n.name.as_str()) {
            continue;
        }
        seen.push(&n.name);
        if n.disk.health.as_deref() == Some("failing") {
            let why = n.disk.health_why.as_deref().map(|w| format!(": {w}")).unwrap_or_default();
            say(
                "disk_failing",
                format!("{} is failing{why}. Replace it while it can still be read.", titled(n)),
            );
        }
        let limit = if n.disk.rotational == Some(true) { HOT_ROTATING_C } else { HOT_C };
        if let Some(t) = n.disk.temperature_c.filter(|t| *t >= limit) {
            say(
                "disk_hot",
                format!("{} is at {t} °C: heat shortens its life, and it may slow down.", titled(n)),
            );
        }
    }
}

fn titled(n: &Node) -> String {
    match &n.disk.model {
        Some(model) => format!("{} ({model})", n.name),
        None => n.name.clone(),
    }
}

fn some(list: &[String], by: &str) -> String {
    let shown = list.iter().take(MAX_NAMED).cloned().collect::<Vec<_>>().join(by);
    match list.len().saturating_sub(MAX_NAMED) {
        0 => shown,
        more => format!("{shown}{by}and {more} more"),
    }
}

fn span(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3600),
    }
}
