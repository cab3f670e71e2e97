//! md arrays as nodes; what sysfs says of them is read by `sys::md`.

use std::path::Path;

use super::node::{Node, Sync};
use super::stack::Builder;
use crate::sys::md::{Array, Level, Member, Shape};

/// Slots that are believed: md's own limit is 1,920 (`MD_SB_DISKS` of the newest superblock).
const MAX_SLOTS: u32 = 1920;

pub(crate) fn describe(b: &mut Builder<'_>, dir: &Path, mut node: Node) -> Node {
    "md".clone_into(&mut node.kind);
    let Some(array) = crate::sys::md::read(dir) else {
        node.why = Some("the array does not show its level".to_owned());
        return node;
    };
    let word = array.level.word();
    node.level = Some(word.to_owned()).filter(|w| !w.is_empty());
    if node.level.is_none() {
        node.why = Some("the array does not run: it has no level".to_owned());
    }
    node.chunk_bytes = Some(array.shape.chunk_bytes).filter(|c| *c > 0);
    node.arrangement = arrangement(&array.level, &array.shape);
    node.state = join([node.state.take(), Some(array.state.clone()).filter(|s| !s.is_empty())]);
    node.sync = sync(&array);
    if let Some(reshape) = &array.reshape {
        let (old, new) = (reshape.old.raid_disks, array.shape.raid_disks);
        node.state = join([node.state.take(), Some(format!("being reshaped from {old} to {new} members"))]);
    }
    let has_slots = !matches!(&array.level, Level::Other(_));
    let slots = array.shape.raid_disks.min(MAX_SLOTS);
    let mut slot = 0;
    for member in &array.members {
        if b.is_full() {
            break;
        }
        while has_slots && member.slot.is_some_and(|s| s > slot) && slot < slots {
            node.children.push(absent(slot));
            slot += 1;
        }
        if let Some(own) = member.slot {
            slot = slot.max(own.saturating_add(1));
        }
        node.children.push(child(b, member, &array));
    }
    while has_slots && slot < slots && !array.members.is_empty() && !b.is_full() {
        node.children.push(absent(slot));
        slot += 1;
    }
    if node.children.is_empty() {
        node.why = Some("the array shows no members".to_owned());
    }
    let is_lost = |c: &Node| c.is_data() && matches!(c.member_state.as_deref(), Some("missing" | "faulty"));
    // raid0 and linear have no spare to be without: a member that is gone takes the array with it.
    node.degraded = array.degraded > 0 || node.children.iter().any(is_lost);
    node
}

fn absent(slot: u32) -> Node {
    Node::missing(format!("slot {slot}"), "no device is in this slot of the array")
}

fn child(b: &mut Builder<'_>, member: &Member, array: &Array) -> Node {
    let mut node = match member.device {
        Some(number) => b.numbered(number),
        None => match b.sys.by_name(&member.name) {
            Some(dir) => b.device(&dir),
            None => Node::unknown(&member.name, "the array names it, the kernel has no such device any more"),
        },
    };
    let is_gone = node.kind == "unknown" && member.device.is_none();
    let has_no_sync = matches!(array.level, Level::Raid0 | Level::Linear | Level::Other(_));
    let standing = if member.faulty {
        "faulty"
    } else if is_gone {
        "missing"
    } else if member.in_sync && member.write_mostly {
        "write_mostly"
    } else if member.in_sync || (has_no_sync && member.slot.is_some()) {
        "in_sync"
    } else if member.slot.is_some() && !member.journal {
        "rebuilding"
    } else {
        "spare"
    };
    node.member_state = Some(standing.to_owned());
    // A faulty device without a slot is no part of the data path any more: its slot is listed as missing. So
    // is a replacement that is being filled: the member that it is to replace still serves.
    let is_beside = member.slot.is_none() && !matches!(array.level, Level::Other(_));
    node.role = Some(
        match array.level {
            _ if member.journal => "log",
            _ if member.replacement || is_beside => "spare",
            Level::Raid1 => "mirror",
            _ => "data",
        }
        .to_owned(),
    );
    if member.journal {
        node.member_state = Some(if member.faulty { "faulty" } else { "in_sync" }.to_owned());
    }
    node
}

fn sync(array: &Array) -> Option<Sync> {
    let sync = array.sync.as_ref().filter(|s| s.action != "frozen")?;
    let (at, all) = sync.done.unwrap_or((0, 0));
    let speed = sync.speed_bytes_s.filter(|s| *s > 0);
    Some(Sync {
        action: sync.action.clone(),
        done: share(at, all),
        speed_bytes_s: speed,
        remaining_s: speed.filter(|_| all > 0).map(|s| all.saturating_sub(at) / s),
    })
}

/// drivers/md/raid10.c (`setup_geo`) and raid5.h.
fn arrangement(level: &Level, shape: &Shape) -> Option<String> {
    let layout = shape.layout;
    match level {
        Level::Raid10 => {
            let (near, far) = (layout & 255, (layout >> 8) & 255);
            let word = if layout & (1 << 16) != 0 { "offset" } else { "far" };
            let mut parts = Vec::new();
            if near > 1 || far <= 1 {
                parts.push(format!("near={near}"));
            }
            if far > 1 {
                parts.push(format!("{word}={far}"));
            }
            Some(parts.join(","))
        }
        Level::Raid5 | Level::Raid6 => {
            let name = match layout {
                0 => "left-asymmetric",
                1 => "right-asymmetric",
                2 => "left-symmetric",
                3 => "right-symmetric",
                4 => "parity-first",
                5 => "parity-last",
                8 => "ddf-zero-restart",
                9 => "ddf-N-restart",
                10 => "ddf-N-continue",
                16 => "left-asymmetric-6",
                17 => "right-asymmetric-6",
                18 => "left-symmetric-6",
                19 => "right-symmetric-6",
                20 => "parity-first-6",
                other => return Some(format!("layout {other}")),
            };
            Some(name.to_owned())
        }
        _ => None,
    }
}

/// 0..1.
#[expect(clippy::cast_precision_loss, reason = "a share for people")]
pub(crate) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { (part as f64 / whole as f64).clamp(0.0, 1.0) }
}

/// Words that are there, separated by commas.
pub(crate) fn join<const N: usize>(words: [Option<String>; N]) -> Option<String> {
    let words: Vec<String> = words.into_iter().flatten().collect();
    (!words.is_empty()).then(|| words.join(", "))
}
