//! A layout from its name: `KIND,disks=N[,KEY=VALUE]...`.

use super::{Kind, Layout, MAX_COPIES, MAX_DISKS, Md, Profile, Resiliency, Spaces, Vdev, Zfs};
use crate::choose::Policy;
use crate::error::SimulateError;

/// The default of Storage Spaces.
const INTERLEAVE: u64 = 256 << 10;
/// Of Storage Spaces.
const SLAB: u64 = 256 << 20;
/// The default of mdadm.
const CHUNK: u64 = 512 << 10;
/// What ZFS's manuals recommend for films.
const RECORD: u64 = 1 << 20;

/// A number of bytes: digits, and K, M, G or T (or KiB ...) for powers of 1024.
///
/// # Errors
/// What is wrong, with an example.
pub fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        "T" | "TB" | "TIB" => 40,
        _ => return Err(format!("`{text}` is no number of bytes such as 256K or 1M")),
    };
    let number: u64 =
        digits.parse().map_err(|_| format!("`{text}` is no number of bytes such as 256K or 1M"))?;
    number.checked_shl(shift).filter(|n| n >> shift == number).ok_or_else(|| format!("`{text}` is too much"))
}

/// The keys of a name that nobody has asked for yet.
struct Keys<'a> {
    text: &'a str,
    rest: Vec<(&'a str, &'a str)>,
}

impl<'a> Keys<'a> {
    fn wrong(&self, why: impl Into<String>) -> SimulateError {
        SimulateError::Grammar { text: self.text.to_owned(), why: why.into() }
    }

    fn impossible(&self, why: impl Into<String>) -> SimulateError {
        SimulateError::Impossible { text: self.text.to_owned(), why: why.into() }
    }

    fn take(&mut self, key: &str) -> Option<&'a str> {
        let at = self.rest.iter().position(|(k, _)| *k == key)?;
        Some(self.rest.remove(at).1)
    }

    /// A number from 1 on.
    fn count(&mut self, key: &str) -> Result<Option<usize>, SimulateError> {
        let Some(value) = self.take(key) else { return Ok(None) };
        match value.parse::<usize>() {
            Ok(n) if n > 0 => Ok(Some(n)),
            _ => Err(self.wrong(format!("`{key}={value}` is no number from 1 on"))),
        }
    }

    /// A number of bytes, a power of two from 4 KiB to 1 GiB: what interleaves, chunks, slabs and records can be.
    fn unit(&mut self, key: &str, default: u64) -> Result<u64, SimulateError> {
        let Some(value) = self.take(key) else { return Ok(default) };
        let n = bytes(value).map_err(|why| self.wrong(format!("{key}: {why}")))?;
        if !n.is_power_of_two() || !(4 << 10..=1 << 30).contains(&n) {
            return Err(self.wrong(format!("`{key}={value}` is no power of two from 4K to 1G")));
        }
        Ok(n)
    }

    fn done(&self) -> Result<(), SimulateError> {
        match self.rest.first() {
            Some((key, _)) => Err(self.wrong(format!("`{key}` means nothing here"))),
            None => Ok(()),
        }
    }
}

/// See [`Layout::parse`].
pub(super) fn layout(text: &str, disk_bytes: u64) -> Result<Layout, SimulateError> {
    let mut words = text.split(',').map(str::trim);
    let name = words.next().unwrap_or_default().to_ascii_lowercase();
    let mut keys = Keys { text, rest: Vec::new() };
    for word in words {
        match word.split_once('=') {
            Some((key, value)) if keys.rest.iter().all(|(k, _)| *k != key.trim()) => {
                keys.rest.push((key.trim(), value.trim()));
            }
            Some((key, _)) => return Err(keys.wrong(format!("`{key}` is there twice"))),
            None => return Err(keys.wrong(format!("`{word}` is not KEY=VALUE"))),
        }
    }
    let disks = keys.count("disks")?;
    if disks.is_some_and(|n| n > MAX_DISKS) {
        return Err(keys.impossible(format!("at most {MAX_DISKS} disks are simulated")));
    }
    let named = named(&name, disks, &mut keys)?;
    keys.done()?;
    if named.least > named.disks {
        return Err(keys.impossible(format!("{} need at least {} disks", named.what, named.least)));
    }
    let layout = Layout {
        text: text.to_owned(),
        disks: named.disks,
        disk_bytes,
        kind: named.kind,
        policy: named.policy,
        parity: named.parity,
    };
    if layout.size_bytes() == 0 {
        return Err(keys.impossible(format!("disks of {disk_bytes} bytes are too small for it")));
    }
    Ok(layout)
}

struct Named {
    kind: Kind,
    disks: usize,
    /// Disks that it needs, and what needs them.
    least: usize,
    what: String,
    policy: Policy,
    parity: usize,
}

fn named(name: &str, disks: Option<usize>, keys: &mut Keys<'_>) -> Result<Named, SimulateError> {
    let needs_disks = |keys: &Keys<'_>| disks.ok_or_else(|| keys.wrong("`disks=N` is missing"));
    let plain = |kind, disks, least, policy, parity| Named {
        kind,
        disks,
        least,
        what: format!("`{name}` layouts"),
        policy,
        parity,
    };
    // `raid1` alone is md's, as mdadm names it.
    let name = match name {
        "raid0" | "raid1" | "raid10" | "raid5" | "raid6" => format!("md-{name}"),
        other => other.to_owned(),
    };
    Ok(match name.as_str() {
        "single" | "disk" => {
            if disks.is_some_and(|n| n != 1) {
                return Err(keys.wrong("`single` is one disk"));
            }
            plain(Kind::Single, 1, 1, Policy::First, 0)
        }
        "simple" | "mirror" | "parity" => spaces(&name, needs_disks(keys)?, keys)?,
        "md-raid0" => {
            let chunk_bytes = keys.unit("chunk", CHUNK)?;
            plain(Kind::Md(Md::Raid0 { chunk_bytes }), needs_disks(keys)?, 1, Policy::First, 0)
        }
        "md-raid1" => {
            let disks = needs_disks(keys)?;
            if disks > MAX_COPIES {
                return Err(keys.impossible(format!("at most {MAX_COPIES} copies are simulated")));
            }
            plain(Kind::Md(Md::Raid1), disks, 2, Policy::MdRaid1, 0)
        }
        "md-raid10" => md_raid10(needs_disks(keys)?, keys)?,
        "md-raid5" | "md-raid6" => {
            let parity = if name == "md-raid5" { 1 } else { 2 };
            let chunk_bytes = keys.unit("chunk", CHUNK)?;
            let kind = Kind::Md(Md::Parity { parity, chunk_bytes });
            plain(kind, needs_disks(keys)?, parity + 2, Policy::First, parity)
        }
        "zfs-stripe" | "zfs-mirror" | "zfs-raidz1" | "zfs-raidz2" | "zfs-raidz3" => {
            zfs(&name, needs_disks(keys)?, keys)?
        }
        _ => {
            let (profile, least) = match name.as_str() {
                "btrfs-single" => (Profile::Single, 1),
                "btrfs-raid0" => (Profile::Raid0, 2),
                "btrfs-raid1" => (Profile::Mirror { copies: 2 }, 2),
                "btrfs-raid1c3" => (Profile::Mirror { copies: 3 }, 3),
                "btrfs-raid1c4" => (Profile::Mirror { copies: 4 }, 4),
                "btrfs-raid10" => (Profile::Raid10, 4),
                "btrfs-raid5" => (Profile::Parity { parity: 1 }, 2),
                "btrfs-raid6" => (Profile::Parity { parity: 2 }, 3),
                _ => return Err(keys.wrong(format!("there is no kind `{name}`"))),
            };
            let parity = if let Profile::Parity { parity } = profile { parity } else { 0 };
            plain(Kind::Btrfs(profile), needs_disks(keys)?, least, Policy::Pid, parity)
        }
    })
}

/// Columns that Windows takes by itself: as many as there are disks for, at most 8 (4 for mirrors).
fn spaces(name: &str, disks: usize, keys: &mut Keys<'_>) -> Result<Named, SimulateError> {
    let columns = keys.count("columns")?;
    let interleave_bytes = keys.unit("interleave", INTERLEAVE)?;
    let slab_bytes = keys.unit("slab", SLAB)?;
    if slab_bytes < interleave_bytes {
        return Err(keys.impossible("a slab holds at least one interleave"));
    }
    let (resiliency, columns, least_columns, policy) = match name {
        "simple" => (Resiliency::Simple, columns.unwrap_or(disks.min(8)), 1, Policy::First),
        "mirror" => {
            let copies = keys.count("copies")?.unwrap_or(2);
            if !(2..=3).contains(&copies) {
                return Err(keys.impossible("mirrors have 2 or 3 copies"));
            }
            let policy = match keys.take("read") {
                None | Some("idle") => Policy::Idle,
                Some("primary") => Policy::First,
                Some("rotate") => Policy::Rotate,
                Some(other) => {
                    return Err(keys.wrong(format!("`read={other}` is none of idle, primary, rotate")));
                }
            };
            (Resiliency::Mirror { copies }, columns.unwrap_or((disks / copies).clamp(1, 4)), 1, policy)
        }
        _ => {
            let parity = keys.count("redundancy")?.unwrap_or(1);
            if parity > 2 {
                return Err(keys.impossible("parity layouts have redundancy 1 or 2"));
            }
            // Dual parity has at least 7 columns there.
            let least = if parity == 1 { 3 } else { 7 };
            (Resiliency::Parity { parity }, columns.unwrap_or(disks.min(8)), least, Policy::First)
        }
    };
    let spaces = Spaces { resiliency, columns, interleave_bytes, slab_bytes };
    let parity = spaces.parity();
    if columns < least_columns {
        return Err(keys.impossible(format!("such parity has at least {least_columns} columns")));
    }
    let what = match spaces.copies() {
        1 => format!("{columns} columns"),
        copies => format!("{columns} columns of {copies} copies"),
    };
    Ok(Named { kind: Kind::Spaces(spaces), disks, least: columns * spaces.copies(), what, policy, parity })
}

fn md_raid10(disks: usize, keys: &mut Keys<'_>) -> Result<Named, SimulateError> {
    let chunk_bytes = keys.unit("chunk", CHUNK)?;
    let near = keys.count("near")?;
    let (far, offset) = (keys.count("far")?, keys.count("offset")?);
    if far.is_some() && offset.is_some() {
        return Err(keys.wrong("`far` and `offset` exclude each other"));
    }
    let is_offset = offset.is_some();
    let far = far.or(offset).unwrap_or(1);
    // Two near copies, unless other ones were asked for.
    let near = near.unwrap_or(if far > 1 { 1 } else { 2 });
    let copies = near.saturating_mul(far);
    if !(2..=MAX_COPIES).contains(&copies) {
        return Err(
            keys.impossible(format!("from 2 to {MAX_COPIES} copies are simulated, and these are {copies}"))
        );
    }
    let kind = Kind::Md(Md::Raid10 { near, far, is_offset, chunk_bytes });
    let policy = Policy::MdRaid10 { is_near: near > 1, is_far: far > 1 };
    Ok(Named { kind, disks, least: copies, what: format!("{copies} copies"), policy, parity: 0 })
}

fn zfs(name: &str, disks: usize, keys: &mut Keys<'_>) -> Result<Named, SimulateError> {
    let record_bytes = keys.unit("record", RECORD)?;
    if record_bytes > 16 << 20 {
        return Err(keys.impossible("a record has at most 16M"));
    }
    let vdevs = keys.count("vdevs")?;
    let (vdev, vdevs, least) = match name {
        "zfs-stripe" => (Vdev::Mirror, vdevs.unwrap_or(disks), 1),
        "zfs-mirror" => (Vdev::Mirror, vdevs.unwrap_or((disks / 2).max(1)), 2),
        "zfs-raidz2" => (Vdev::Raidz { parity: 2 }, vdevs.unwrap_or(1), 3),
        "zfs-raidz3" => (Vdev::Raidz { parity: 3 }, vdevs.unwrap_or(1), 4),
        _ => (Vdev::Raidz { parity: 1 }, vdevs.unwrap_or(1), 2),
    };
    if !disks.is_multiple_of(vdevs) {
        return Err(keys.impossible(format!("{disks} disks do not make {vdevs} vdevs of one size")));
    }
    let width = disks / vdevs;
    if name == "zfs-stripe" && width != 1 {
        return Err(keys.impossible("each disk of a stripe is a vdev"));
    }
    if vdev == Vdev::Mirror && width > MAX_COPIES {
        return Err(keys.impossible(format!("at most {MAX_COPIES} copies are simulated")));
    }
    let parity = if let Vdev::Raidz { parity } = vdev { parity } else { 0 };
    let kind = Kind::Zfs(Zfs { vdev, vdevs, width, record_bytes });
    let what = format!("{vdevs} vdevs of `{name}`");
    Ok(Named { kind, disks, least: least * vdevs, what, policy: Policy::ZfsMirror, parity })
}
