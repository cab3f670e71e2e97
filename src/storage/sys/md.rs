//! An md array's geometry and state from sysfs, world-readable: `/sys/block/mdN/md/*`
//! (Documentation/admin-guide/md.rst, drivers/md/md.c). No device is opened, no disk is woken.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Members an array may have: `MD_SB_DISKS` of the newest superblock is 1,920; more is a damaged tree.
const MAX_MEMBERS: usize = 4096;

/// What kind of array it is: `md/level`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Level {
    Linear,
    Raid0,
    Raid1,
    Raid4,
    Raid5,
    Raid6,
    Raid10,
    /// `faulty`, `multipath`, `container` (external metadata) or what is to come, in the kernel's word.
    Other(String),
}

impl Level {
    pub(crate) fn parse(word: &str) -> Self {
        match word {
            "linear" => Self::Linear,
            "raid0" => Self::Raid0,
            "raid1" => Self::Raid1,
            "raid4" => Self::Raid4,
            "raid5" => Self::Raid5,
            "raid6" => Self::Raid6,
            "raid10" => Self::Raid10,
            other => Self::Other(other.chars().take(64).collect()),
        }
    }

    /// As sysfs writes it.
    pub(crate) fn word(&self) -> &str {
        match self {
            Self::Linear => "linear",
            Self::Raid0 => "raid0",
            Self::Raid1 => "raid1",
            Self::Raid4 => "raid4",
            Self::Raid5 => "raid5",
            Self::Raid6 => "raid6",
            Self::Raid10 => "raid10",
            Self::Other(word) => word,
        }
    }
}

/// What places bytes: the numbers of which there are two sets while an array changes its shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Shape {
    /// Number of the layout; its meaning depends on the level.
    pub(crate) layout: u32,
    /// Bytes on one member before the next one's turn; 0 for raid1 and linear.
    pub(crate) chunk_bytes: u64,
    pub(crate) raid_disks: u32,
}

/// An array.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Array {
    pub(crate) level: Level,
    /// As it is, or as it will be where a reshape is under way.
    pub(crate) shape: Shape,
    /// Bytes of each member in use, for the levels that use them alike; 0 for raid0 and linear.
    pub(crate) component_bytes: u64,
    /// In order of their slots; those without a slot (spares) last.
    pub(crate) members: Vec<Member>,
    /// Members that are missing or not up to date.
    pub(crate) degraded: u32,
    /// `clean`, `active`, `readonly`, `inactive`, ..: `md/array_state`.
    pub(crate) state: String,
    /// What runs in the background, if anything does.
    pub(crate) sync: Option<Sync>,
    pub(crate) reshape: Option<Reshape>,
}

/// A resync, recovery, check, repair or reshape.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sync {
    /// The kernel's word; `frozen` is held up by the owner.
    pub(crate) action: String,
    /// Bytes of each member done, and of how many; `None` while it waits for another array.
    pub(crate) done: Option<(u64, u64)>,
    pub(crate) speed_bytes_s: Option<u64>,
}

/// A change of shape under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reshape {
    /// Byte of the array up to which (or, backwards, down to which) the new shape holds, as of the last checkpoint.
    pub(crate) position_bytes: u64,
    pub(crate) backwards: bool,
    /// The shape that is being left.
    pub(crate) old: Shape,
}

/// One device of an array.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Member {
    /// Name of the block device (disk or partition) in `/sys/class/block`.
    pub(crate) name: String,
    /// `major:minor`, where sysfs still knows the device.
    pub(crate) device: Option<(u32, u32)>,
    /// Its place in the array; `None` for a spare that waits.
    pub(crate) slot: Option<u32>,
    /// Where the array's data begins on it.
    pub(crate) offset_bytes: u64,
    /// Where it will begin after a reshape.
    pub(crate) new_offset_bytes: u64,
    /// Bytes of it that the array may use.
    pub(crate) size_bytes: u64,
    pub(crate) in_sync: bool,
    pub(crate) faulty: bool,
    pub(crate) write_mostly: bool,
    /// A journal, not data.
    pub(crate) journal: bool,
    /// It is being filled to take another member's place, which still serves.
    pub(crate) replacement: bool,
    /// For a member that is being rebuilt: bytes of its data that are up to date, as of the last checkpoint.
    pub(crate) recovered_bytes: Option<u64>,
}

/// Reads the array whose device directory (`/sys/…/block/mdN`) is `dir`; `None` if it is none.
pub(crate) fn read(dir: &Path) -> Option<Array> {
    let md = dir.join("md");
    let level = Level::parse(&text(&md, "level")?);
    let now_old = |name: &str| pair(&text(&md, name).unwrap_or_default());
    let (layout, old_layout) = now_old("layout");
    let (chunk, old_chunk) = now_old("chunk_size");
    let (disks, old_disks) = now_old("raid_disks");
    let u32_of = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    let shape = Shape { layout: u32_of(layout), chunk_bytes: chunk, raid_disks: u32_of(disks) };
    let reshape = text(&md, "reshape_position").and_then(|t| t.parse::<u64>().ok()).map(|sectors| Reshape {
        position_bytes: sectors.saturating_mul(512),
        backwards: text(&md, "reshape_direction").as_deref() == Some("backwards"),
        old: Shape { layout: u32_of(old_layout), chunk_bytes: old_chunk, raid_disks: u32_of(old_disks) },
    });
    Some(Array {
        level,
        shape,
        component_bytes: number(&md, "component_size").unwrap_or(0).saturating_mul(1024),
        members: members(&md),
        degraded: u32_of(number(&md, "degraded").unwrap_or(0)),
        state: text(&md, "array_state").unwrap_or_default(),
        sync: sync(&md),
        reshape,
    })
}

fn members(md: &Path) -> Vec<Member> {
    let mut out: Vec<Member> = fs::read_dir(md)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|e| member(&e.path(), e.file_name().to_str()?.strip_prefix("dev-")?))
        .take(MAX_MEMBERS)
        .collect();
    out.sort_by(|a, b| {
        (a.slot.unwrap_or(u32::MAX), a.replacement, &a.name).cmp(&(
            b.slot.unwrap_or(u32::MAX),
            b.replacement,
            &b.name,
        ))
    });
    out
}

fn member(dir: &Path, name: &str) -> Option<Member> {
    let state = text(dir, "state")?;
    let has = |word: &str| state.split(',').any(|w| w == word);
    let sectors = |file: &str| number(dir, file).map(|s| s.saturating_mul(512));
    let offset_bytes = sectors("offset").unwrap_or(0);
    let number_text = text(&dir.join("block"), "dev");
    Some(Member {
        // The directory has `!` for `/` already, as /sys/class/block has.
        name: name.to_owned(),
        device: number_text.and_then(|t| {
            let (major, minor) = t.split_once(':')?;
            Some((major.parse().ok()?, minor.parse().ok()?))
        }),
        slot: number(dir, "slot").and_then(|n| u32::try_from(n).ok()),
        offset_bytes,
        new_offset_bytes: sectors("new_offset").unwrap_or(offset_bytes),
        size_bytes: number(dir, "size").unwrap_or(0).saturating_mul(1024),
        in_sync: has("in_sync"),
        faulty: has("faulty"),
        write_mostly: has("write_mostly"),
        journal: has("journal"),
        replacement: has("replacement"),
        // "none" is all of it, and then in_sync says so.
        recovered_bytes: sectors("recovery_start"),
    })
}

fn sync(md: &Path) -> Option<Sync> {
    let action = text(md, "sync_action").filter(|a| a != "idle" && !a.is_empty())?;
    let done = text(md, "sync_completed").and_then(|t| {
        let (done, of) = t.split_once('/')?;
        let bytes = |w: &str| w.trim().parse::<u64>().ok().map(|s| s.saturating_mul(512));
        Some((bytes(done)?, bytes(of)?))
    });
    Some(Sync { action, done, speed_bytes_s: number(md, "sync_speed").map(|k| k.saturating_mul(1024)) })
}

/// `513`, or `513 (258)` while a reshape is under way: new, then old (md.c `layout_show`).
fn pair(text: &str) -> (u64, u64) {
    let mut words = text.split_whitespace();
    let first = words.next().and_then(|w| w.parse().ok()).unwrap_or(0);
    let old = words.next().and_then(|w| w.trim_matches(['(', ')']).parse().ok());
    (first, old.unwrap_or(first))
}

fn text(dir: &Path, file: &str) -> Option<String> {
    // sysfs gives a page at most, whoever made the name.
    let path: PathBuf = dir.join(file);
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

fn number(dir: &Path, file: &str) -> Option<u64> {
    text(dir, file)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(dir: &Path, files: &[(&str, &str)]) {
        for (name, text) in files {
            let path = dir.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }
    }

    fn member_files(dir: &Path, name: &str, slot: &str, state: &str, more: &[(&str, &str)]) {
        let at = dir.join("md").join(format!("dev-{name}"));
        put(&at, &[("slot", slot), ("state", state), ("offset", "2048"), ("size", "1000")]);
        put(&at, more);
    }

    #[test]
    fn a_healthy_raid10_is_read_as_the_kernel_writes_it() {
        let t = tempfile::tempdir().unwrap();
        let files = [
            ("md/level", "raid10"),
            ("md/layout", "513"),
            ("md/chunk_size", "65536"),
            ("md/raid_disks", "2"),
            ("md/component_size", "1000"),
            ("md/degraded", "0"),
            ("md/array_state", "clean"),
            ("md/sync_action", "idle"),
            ("md/sync_completed", "none"),
            ("md/reshape_position", "none"),
        ];
        put(t.path(), &files);
        member_files(t.path(), "sdb1", "1", "in_sync,write_mostly", &[("block/dev", "8:17")]);
        member_files(t.path(), "sda1", "0", "in_sync", &[("block/dev", "8:1"), ("recovery_start", "none")]);
        member_files(t.path(), "sdc1", "none", "spare", &[]);
        let array = read(t.path()).unwrap();
        assert_eq!(array.level, Level::Raid10);
        assert_eq!(array.shape, Shape { layout: 513, chunk_bytes: 65536, raid_disks: 2 });
        assert_eq!((array.component_bytes, array.degraded), (1_024_000, 0));
        assert_eq!((array.sync, array.reshape), (None, None));
        let names: Vec<&str> = array.members.iter().map(|m| m.name.as_str()).collect();
        assert_eq!(names, ["sda1", "sdb1", "sdc1"]);
        let sdb = &array.members[1];
        assert_eq!((sdb.device, sdb.slot, sdb.offset_bytes), (Some((8, 17)), Some(1), 1 << 20));
        assert_eq!((sdb.size_bytes, sdb.in_sync, sdb.write_mostly), (1_024_000, true, true));
        assert_eq!((array.members[2].slot, array.members[2].device), (None, None));
    }

    #[test]
    fn a_recovery_tells_how_far_it_is() {
        let t = tempfile::tempdir().unwrap();
        let files = [
            ("md/level", "raid5"),
            ("md/layout", "2"),
            ("md/chunk_size", "524288"),
            ("md/raid_disks", "3"),
            ("md/degraded", "1"),
            ("md/sync_action", "recover"),
            ("md/sync_completed", "2048 / 8192"),
            ("md/sync_speed", "1000"),
        ];
        put(t.path(), &files);
        member_files(t.path(), "sda", "0", "spare", &[("recovery_start", "2048")]);
        let array = read(t.path()).unwrap();
        let want =
            Sync { action: "recover".into(), done: Some((1 << 20, 4 << 20)), speed_bytes_s: Some(1_024_000) };
        assert_eq!(array.sync, Some(want));
        assert_eq!((array.members[0].in_sync, array.members[0].recovered_bytes), (false, Some(1 << 20)));
        assert_eq!(array.degraded, 1);
    }

    #[test]
    fn a_reshape_has_two_shapes() {
        let t = tempfile::tempdir().unwrap();
        let files = [
            ("md/level", "raid6"),
            ("md/layout", "2 (18)"),
            ("md/chunk_size", "65536"),
            ("md/raid_disks", "5 (4)"),
            ("md/sync_action", "reshape"),
            ("md/sync_completed", "delayed"),
            ("md/reshape_position", "4096"),
            ("md/reshape_direction", "backwards"),
        ];
        put(t.path(), &files);
        member_files(t.path(), "sda", "0", "in_sync", &[("new_offset", "1024")]);
        let array = read(t.path()).unwrap();
        assert_eq!(array.shape, Shape { layout: 2, chunk_bytes: 65536, raid_disks: 5 });
        let old = Shape { layout: 18, chunk_bytes: 65536, raid_disks: 4 };
        assert_eq!(array.reshape, Some(Reshape { position_bytes: 2 << 20, backwards: true, old }));
        assert_eq!(array.sync.unwrap().done, None);
        assert_eq!((array.members[0].offset_bytes, array.members[0].new_offset_bytes), (1 << 20, 512 << 10));
    }

    #[test]
    fn nonsense_is_no_array_or_an_array_of_zeros_and_never_a_panic() {
        let t = tempfile::tempdir().unwrap();
        assert_eq!(read(t.path()), None);
        let files = [
            ("md/level", "quantum"),
            ("md/layout", "-1 (x"),
            ("md/chunk_size", "99999999999999999999999"),
            ("md/raid_disks", "18446744073709551615"),
            ("md/component_size", "18446744073709551615"),
        ];
        put(t.path(), &files);
        let array = read(t.path()).unwrap();
        assert_eq!(array.level, Level::Other("quantum".into()));
        assert_eq!(array.shape, Shape { layout: 0, chunk_bytes: 0, raid_disks: u32::MAX });
        assert_eq!(array.component_bytes, u64::MAX);
    }
}
