//! From a block device to its [`Node`]: sysfs for disks, partitions, md, loop and bcache, the table for dm. What cannot
//! be found out becomes an `Opaque` or a `Doubt` that says why; nothing here fails, and no disk is woken.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::parity::Parity;
use super::raid0::{Turns, Zones};
use super::raid10::Raid10;
use super::{MAX_DEPTH, Member, Node};
use crate::layout::report::Names;
use crate::sys::dm::{Kind, Raid, Region, Table, Target};
use crate::sys::md::{Array, Level, Member as MdMember, Shape};
use crate::topology::sysfs::Sysfs;

/// A disk at the bottom of a stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Leaf {
    /// Name in `/sys/block`.
    pub(crate) name: Arc<str>,
    /// `major:minor`.
    pub(crate) device: (u32, u32),
}

/// The disks of one or more stacks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) leaves: Vec<Leaf>,
    /// Those that are gone, by what they were; their indices begin at [`Names::GONE`].
    pub(crate) gone: Vec<Arc<str>>,
    pub(crate) stamps: Stamps,
}

/// What a stack is made of besides what sysfs tells everyone.
pub(crate) trait Ask {
    /// The table of a dm device, or why it cannot be had.
    fn table(&self, device: (u32, u32)) -> Result<Table, String>;

    /// What a loop device's backing file is, as a node; `Ok(None)` to stop at the loop device. `above` are the loop devices
    /// that were followed to get here.
    fn backing(
        &self,
        resolver: &mut Resolver<'_>,
        file: &Path,
        above: u32,
    ) -> Result<Option<Arc<Node>>, String>;
}

/// Makes nodes; devices that occur twice are resolved once.
pub(crate) struct Resolver<'a> {
    sys: &'a Sysfs,
    ask: &'a dyn Ask,
    leaves: Vec<Leaf>,
    gone: Vec<Arc<str>>,
    known: HashMap<PathBuf, Arc<Node>>,
    /// Files whose contents the stack depends on, with those contents.
    stamps: Vec<(PathBuf, String)>,
    depth: usize,
    /// Loop devices above the one at hand.
    loops: u32,
}

/// Members an array may have here; the kernel's own limit is lower.
const MAX_MEMBERS: u32 = 4096;

impl<'a> Resolver<'a> {
    pub(crate) fn new(sys: &'a Sysfs, ask: &'a dyn Ask) -> Self {
        let (leaves, gone) = (Vec::new(), Vec::new());
        Self { sys, ask, leaves, gone, known: HashMap::new(), stamps: Vec::new(), depth: 0, loops: 0 }
    }

    /// The disks found, by the indices that nodes use.
    pub(crate) fn finish(self) -> Found {
        Found { leaves: self.leaves, gone: self.gone, stamps: Stamps(self.stamps) }
    }

    /// The node of a device by its number.
    pub(crate) fn by_number(&mut self, device: (u32, u32)) -> Arc<Node> {
        match self.sys.by_number(device) {
            Some(dir) => self.device(&dir),
            None => self.gone(&format!("device {}:{}", device.0, device.1)),
        }
    }

    /// The node of a device by the name that its user has for it. Names change; the number behind one is what counts.
    pub(crate) fn by_path(&mut self, path: &Path) -> Arc<Node> {
        let number = fs::metadata(path).ok().map(|m| {
            let number = std::os::unix::fs::MetadataExt::rdev(&m);
            (rustix::fs::major(number), rustix::fs::minor(number))
        });
        let by_name = || self.sys.by_name(path.file_name()?.to_str()?);
        match number.and_then(|n| self.sys.by_number(n)).or_else(by_name) {
            Some(dir) => self.device(&dir),
            None => self.gone(&path.to_string_lossy()),
        }
    }

    /// Whether a mounted btrfs counts a device as gone (`/sys/fs/btrfs/FSID/devinfo/N/missing`, Linux 5.6).
    pub(crate) fn is_btrfs_missing(&mut self, fsid: &str, devid: u64) -> bool {
        let file = self.sys.path(&format!("fs/btrfs/{fsid}/devinfo/{devid}/missing"));
        self.stamp(file.clone());
        read_small(&file) == "1"
    }

    /// The node of the device whose directory in sysfs is `dir`.
    pub(crate) fn device(&mut self, dir: &Path) -> Arc<Node> {
        if let Some(node) = self.known.get(dir) {
            return Arc::clone(node);
        }
        if self.depth >= MAX_DEPTH {
            return opaque(format!("{} lies too deep below other devices", name_of(dir)), Vec::new());
        }
        self.depth += 1;
        let node = self.resolve(dir);
        self.depth -= 1;
        self.known.insert(dir.to_owned(), Arc::clone(&node));
        node
    }

    fn resolve(&mut self, dir: &Path) -> Arc<Node> {
        let size_bytes = Sysfs::number(dir, "size").unwrap_or(0).saturating_mul(512);
        if dir.join("partition").exists()
            && let Some(parent) = dir.parent()
        {
            let base = Sysfs::number(dir, "start").unwrap_or(0).saturating_mul(512);
            let below = self.device(parent);
            return part(base, size_bytes, below);
        }
        if let Some(array) = crate::sys::md::read(dir) {
            return self.array(dir, &array, size_bytes);
        }
        if dir.join("dm").exists() {
            return self.mapped(dir);
        }
        if let Some(file) = Sysfs::text(dir, "loop/backing_file") {
            return self.loop_device(dir, &file, size_bytes);
        }
        let below = slaves(dir);
        if dir.join("bcache").exists() && !below.is_empty() {
            return self.bcache(dir, &below, size_bytes);
        }
        if below.is_empty() {
            return self.leaf(dir);
        }
        let name = name_of(dir);
        self.candidates(format!("{name} is made of other devices in a way that is not known here"), &below)
    }

    fn leaf(&mut self, dir: &Path) -> Arc<Node> {
        let name = name_of(dir);
        let index = self.leaves.iter().position(|l| *l.name == *name).unwrap_or_else(|| {
            self.leaves.push(Leaf { name: name.into(), device: number_of(dir).unwrap_or_default() });
            self.leaves.len() - 1
        });
        Arc::new(Node::Disk(index))
    }

    /// A disk that is not there any more.
    pub(crate) fn gone(&mut self, what: &str) -> Arc<Node> {
        let name = format!("missing ({what})");
        let index = self.gone.iter().position(|g| **g == *name).unwrap_or_else(|| {
            self.gone.push(name.into());
            self.gone.len() - 1
        });
        Arc::new(Node::Gone(Names::GONE + index))
    }

    /// Somewhere on what lies below.
    fn candidates(&mut self, why: String, below: &[PathBuf]) -> Arc<Node> {
        let mut disks: Vec<usize> = below.iter().flat_map(|d| self.device(d).disks()).collect();
        disks.sort_unstable();
        disks.dedup();
        opaque(why, disks)
    }

    /// Remembers what the answer depends on.
    pub(crate) fn stamp(&mut self, file: PathBuf) {
        let text = read_small(&file);
        self.stamps.push((file, text));
    }

    fn array(&mut self, dir: &Path, array: &Array, size_bytes: u64) -> Arc<Node> {
        let name = name_of(dir);
        for file in
            ["level", "layout", "chunk_size", "raid_disks", "degraded", "reshape_position", "array_state"]
        {
            self.stamp(dir.join("md").join(file));
        }
        for m in &array.members {
            self.stamp(dir.join("md").join(format!("dev-{}", m.name)).join("state"));
        }
        let below = slaves(dir);
        if matches!(array.state.as_str(), "clear" | "inactive") {
            return self.candidates(format!("the md array {name} is not running"), &below);
        }
        let now = self.members(dir, array, &array.shape, true);
        let Some(new) = shaped(&array.level, &array.shape, array.component_bytes, size_bytes, now) else {
            let why =
                format!("how the md array {name} ({}) places bytes is not known here", array.level.word());
            return self.candidates(why, &below);
        };
        let new = part(0, size_bytes, new);
        if array.members.iter().any(|m| m.replacement && !m.faulty && m.slot.is_some()) {
            let why = format!("a member of the md array {name} is being replaced, and reads go to either");
            return Arc::new(Node::Doubt { why: why.into(), elsewhere: Vec::new(), below: new });
        }
        let Some(reshape) = array.reshape else { return new };
        let before = self.members(dir, array, &reshape.old, false);
        let old = shaped(&array.level, &reshape.old, array.component_bytes, size_bytes, before)
            .unwrap_or_else(|| opaque(format!("the former shape of the md array {name}"), Vec::new()));
        let why = format!("the md array {name} is changing its shape: bytes near where it is now are moving");
        let below = Arc::new(Node::Reshape {
            position: reshape.position_bytes,
            is_backwards: reshape.backwards,
            new,
            old,
        });
        Arc::new(Node::Doubt { why: why.into(), elsewhere: Vec::new(), below })
    }

    /// One per slot.
    fn members(&mut self, dir: &Path, array: &Array, shape: &Shape, is_new: bool) -> Vec<Slot> {
        let slots = shape.raid_disks.min(MAX_MEMBERS);
        (0..slots)
            .map(|slot| {
                let its = |m: &&MdMember| m.slot == Some(slot) && !m.replacement && !m.journal;
                match array.members.iter().find(its) {
                    Some(m) if !m.faulty => {
                        let block = dir.join("md").join(format!("dev-{}", m.name)).join("block");
                        let found = fs::canonicalize(block).ok().or_else(|| self.sys.by_name(&m.name));
                        let below = match found {
                            Some(d) => self.device(&d),
                            None => self.gone(&m.name),
                        };
                        let base = if is_new && array.reshape.is_some() {
                            m.new_offset_bytes
                        } else {
                            m.offset_bytes
                        };
                        Slot {
                            member: Member {
                                node: part(base, m.size_bytes, below),
                                is_write_mostly: m.write_mostly,
                                fresh_bytes: (!m.in_sync).then(|| m.recovered_bytes.unwrap_or(0)),
                            },
                            size_bytes: m.size_bytes,
                        }
                    }
                    _ => {
                        let node = self.gone(&format!("slot {slot} of {}", name_of(dir)));
                        Slot { member: Member::sound(node), size_bytes: array.component_bytes }
                    }
                }
            })
            .collect()
    }

    fn loop_device(&mut self, dir: &Path, file: &str, size_bytes: u64) -> Arc<Node> {
        let (ask, above) = (self.ask, self.loops);
        self.loops += 1;
        let backing = ask.backing(self, Path::new(file), above);
        self.loops = above;
        match backing {
            Ok(None) => self.leaf(dir),
            Ok(Some(below)) => part(Sysfs::number(dir, "loop/offset").unwrap_or(0), size_bytes, below),
            Err(why) => {
                let leaf = self.leaf(dir);
                let why = format!("the file behind {} is not followed: {why}", name_of(dir));
                Arc::new(Node::Doubt { why: why.into(), elsewhere: Vec::new(), below: leaf })
            }
        }
    }

    /// The backing device begins with a superblock, whose length is what the two sizes differ by (drivers/md/bcache/super.c
    /// `cached_dev_init`); where a cache set is attached, reads may go there instead.
    fn bcache(&mut self, dir: &Path, below: &[PathBuf], size_bytes: u64) -> Arc<Node> {
        let backing = fs::canonicalize(dir.join("bcache")).ok();
        let backing = backing.as_deref().and_then(Path::parent).map(Path::to_owned);
        let Some(backing) = backing.filter(|b| below.contains(b)) else {
            return self.candidates(format!("which device is behind {} is not known", name_of(dir)), below);
        };
        let whole = Sysfs::number(&backing, "size").unwrap_or(0).saturating_mul(512);
        self.stamp(dir.join("bcache/state"));
        let state = Sysfs::text(dir, "bcache/state").unwrap_or_default();
        let lower = self.device(&backing);
        let node = part(whole.saturating_sub(size_bytes), size_bytes, lower);
        if state == "no cache" {
            return node;
        }
        let others: Vec<PathBuf> = below.iter().filter(|d| **d != backing).cloned().collect();
        let elsewhere = others.iter().flat_map(|d| self.device(d).disks()).collect();
        let caches: Vec<String> = others.iter().map(|d| name_of(d)).collect();
        let why = format!("what of it is in the cache ({}) is read from there", caches.join(", "));
        Arc::new(Node::Doubt { why: why.into(), elsewhere, below: node })
    }

    fn mapped(&mut self, dir: &Path) -> Arc<Node> {
        let name = Sysfs::text(dir, "dm/name").unwrap_or_else(|| name_of(dir));
        let below = slaves(dir);
        self.stamps.push((dir.join("slaves"), names_of(&below)));
        self.stamp(dir.join("size"));
        let table =
            number_of(dir).ok_or_else(|| "it has no number".to_owned()).and_then(|n| self.ask.table(n));
        let table = match table {
            Ok(table) => table,
            Err(why) => {
                let why = format!("how the volume {name} lies on its devices is not known: {why}");
                return self.candidates(why, &below);
            }
        };
        let mut parts = Vec::new();
        for target in &table.targets {
            parts.push((target.start_bytes, target.len_bytes, self.target(&name, target, &below)));
        }
        parts.sort_by_key(|(start, _, _)| *start);
        match parts.as_slice() {
            [(0, len, only)] => part(0, *len, Arc::clone(only)),
            _ => Arc::new(Node::Chain(parts)),
        }
    }

    fn region(&mut self, region: &Region, len_bytes: u64) -> Arc<Node> {
        let below = self.by_number(region.device);
        part(region.offset_bytes, len_bytes, below)
    }

    fn target(&mut self, name: &str, target: &Target, below: &[PathBuf]) -> Arc<Node> {
        let len = target.len_bytes;
        match &target.kind {
            Kind::Linear(r) | Kind::Delay(r) | Kind::Flakey(r) => self.region(r, len),
            Kind::Crypt { below, .. } => Arc::new(Node::Sealed(self.region(below, len))),
            Kind::Verity { data: device } | Kind::SnapshotOrigin { origin: device } => {
                self.whole(*device, len)
            }
            Kind::ThinPool { data, .. } => self.whole(*data, len),
            Kind::Integrity { below, apart: true } => self.region(below, len),
            Kind::Striped { chunk_bytes, stripes } => self.striped(*chunk_bytes, stripes, len),
            Kind::Mirror { legs } => {
                Arc::new(Node::Mirror(legs.iter().map(|r| Member::sound(self.region(r, len))).collect()))
            }
            Kind::Raid(raid) => self.raid(name, raid, target, below),
            Kind::Writecache { origin, cache, .. } => {
                let node = self.whole(*origin, len);
                // Dirty blocks alone are in it: a clean one is forgotten when it is written back.
                let used = writecache_blocks(target.status.as_deref());
                if used == Some(0) { node } else { self.cached(node, name, *cache, "not written back yet") }
            }
            Kind::Cache { cache, origin, .. } => {
                let node = self.whole(*origin, len);
                let used = cache_blocks(target.status.as_deref());
                if used == Some(0) { node } else { self.cached(node, name, *cache, "in the cache") }
            }
            Kind::Multipath { paths } => match paths.as_slice() {
                [] => self.gone(&format!("every path of {name}")),
                [first, rest @ ..] => {
                    let node = self.whole(*first, len);
                    if rest.is_empty() {
                        return node;
                    }
                    let why =
                        format!("{name} is reached by {} paths, of which the first is named", paths.len());
                    let elsewhere = rest.iter().flat_map(|d| self.by_number(*d).disks()).collect();
                    Arc::new(Node::Doubt { why: why.into(), elsewhere, below: node })
                }
            },
            Kind::Error => self.gone(&format!("a part of {name} that always fails")),
            Kind::Zero => Arc::new(Node::Nothing),
            Kind::Thin { pool, external_origin, .. } => {
                let mut disks = self.by_number(*pool).disks();
                disks.extend(external_origin.iter().flat_map(|o| self.by_number(*o).disks()));
                opaque(
                    format!(
                        "{name} is a thin volume: which blocks of its pool it has stands in the pool's metadata alone"
                    ),
                    disks,
                )
            }
            Kind::Snapshot { origin, store } => {
                let node = self.whole(*origin, len);
                self.cached(node, name, *store, "changed since the snapshot")
            }
            Kind::Integrity { apart: false, .. } => self.candidates(
                format!("{name} keeps checksums between its data, whose places are not computed here"),
                below,
            ),
            Kind::Unknown { word, .. } => self.candidates(
                format!("how the device-mapper target `{word}` of {name} places bytes is not known here"),
                below,
            ),
        }
    }

    fn whole(&mut self, device: (u32, u32), len_bytes: u64) -> Arc<Node> {
        self.region(&Region { device, offset_bytes: 0 }, len_bytes)
    }

    /// `node`, unless the bytes are `how` on another device.
    fn cached(&mut self, node: Arc<Node>, name: &str, cache: (u32, u32), how: &str) -> Arc<Node> {
        let disks = self.by_number(cache).disks();
        let names: Vec<String> =
            disks.iter().filter_map(|d| Some(self.leaves.get(*d)?.name.to_string())).collect();
        let why = format!("what of {name} is {how} is read from {}", names.join(", "));
        Arc::new(Node::Doubt { why: why.into(), elsewhere: disks, below: node })
    }

    fn striped(&mut self, chunk_bytes: u64, stripes: &[Region], len: u64) -> Arc<Node> {
        let each = len.checked_div(stripes.len() as u64).unwrap_or(0);
        let members: Vec<Member> = stripes.iter().map(|r| Member::sound(self.region(r, each))).collect();
        match Zones::new(chunk_bytes, &vec![each; members.len()], Turns::OfZone) {
            Some(zones) => Arc::new(Node::Striped(zones, members)),
            None => opaque("a striped target without a stripe".to_owned(), Vec::new()),
        }
    }

    fn raid(&mut self, name: &str, raid: &Raid, target: &Target, below: &[PathBuf]) -> Arc<Node> {
        let n = u32::try_from(raid.members.len()).unwrap_or(u32::MAX).min(MAX_MEMBERS);
        let Some((level, shape, component)) = raid_shape(raid, n, target.len_bytes) else {
            let why = format!("how `{}` of {name} places bytes is not known here", raid.level);
            return self.candidates(why, below);
        };
        let health = Health::parse(target.status.as_deref());
        let slots = (0_u32..)
            .zip(&raid.members)
            .map(|(slot, device)| {
                let state = health.of(slot);
                let node = match device.filter(|_| state != Some('D')) {
                    Some(device) => {
                        self.region(&Region { device, offset_bytes: raid.data_offset_bytes }, component)
                    }
                    None => self.gone(&format!("slot {slot} of {name}")),
                };
                let is_rebuilding = state == Some('a') && health.has_sound;
                Slot {
                    member: Member {
                        node,
                        is_write_mostly: raid.write_mostly.contains(&slot),
                        fresh_bytes: is_rebuilding.then_some(health.done_bytes),
                    },
                    size_bytes: component,
                }
            })
            .collect();
        let Some(node) = shaped(&level, &shape, component, target.len_bytes, slots) else {
            return self.candidates(format!("`{}` of {name} has an impossible shape", raid.level), below);
        };
        if raid.delta_disks != 0 {
            let why = format!("{name} is changing its shape");
            return Arc::new(Node::Doubt { why: why.into(), elsewhere: Vec::new(), below: node });
        }
        node
    }
}

/// A member and the bytes that the array may use of it.
struct Slot {
    member: Member,
    size_bytes: u64,
}

/// The node of an array over its members, one per slot; `None` where the numbers make no sense.
fn shaped(level: &Level, shape: &Shape, component: u64, size: u64, slots: Vec<Slot>) -> Option<Arc<Node>> {
    let sizes: Vec<u64> = slots.iter().map(|s| s.size_bytes).collect();
    let members: Vec<Member> = slots.into_iter().map(|s| s.member).collect();
    let n = u32::try_from(members.len()).ok().filter(|n| *n > 0)?;
    let chunk = shape.chunk_bytes;
    Some(Arc::new(match level {
        Level::Linear => {
            let mut start = 0_u64;
            let mut parts = Vec::new();
            for (member, size) in members.into_iter().zip(sizes) {
                let len = size - size.checked_rem(chunk).unwrap_or(0);
                parts.push((start, len, member.node));
                start = start.checked_add(len)?;
            }
            Node::Chain(parts)
        }
        Level::Raid0 => {
            let of = |turns| Zones::new(chunk, &sizes, turns);
            let zones = match shape.layout {
                1 => of(Turns::OfArray)?,
                2 => of(Turns::OfZone)?,
                // Unsaid: with members of one size both are the same. The kernel refuses any other.
                _ => of(Turns::OfZone).filter(|z| !z.has_several())?,
            };
            (zones.len_bytes() >= size).then_some(())?;
            Node::Striped(zones, members)
        }
        Level::Raid1 => Node::Mirror(members),
        Level::Raid10 => Node::Raid10(Raid10::new(shape.layout, n, chunk, component)?, members),
        // Parity on the last one, whatever the layout says (raid5.c: `case 4`).
        Level::Raid4 => Node::Parity(Parity::five(5, n, chunk)?, members),
        Level::Raid5 => Node::Parity(Parity::five(shape.layout, n, chunk)?, members),
        Level::Raid6 => Node::Parity(Parity::six(shape.layout, n, chunk)?, members),
        Level::Other(_) => return None,
    }))
}

/// What a `raid` target is as an md array: level, shape, bytes of each member (dm-raid.c `raid_types`,
/// `raid10_format_to_md_layout`, `rs_set_dev_and_array_sectors`).
fn raid_shape(raid: &Raid, n: u32, len_bytes: u64) -> Option<(Level, Shape, u64)> {
    let copies = raid.copies;
    // RAID10_USE_FAR_SETS, unless told otherwise.
    let sets = if raid.near_sets { 0 } else { 1 << 18 };
    let far = copies.checked_shl(8)?;
    let (level, layout) = match raid.level.as_str() {
        "raid0" | "raid0_meta" => (Level::Raid0, 2),
        "raid1" => (Level::Raid1, 0),
        "raid4" => (Level::Raid5, 4),
        "raid5_n" => (Level::Raid5, 5),
        "raid5_la" => (Level::Raid5, 0),
        "raid5_ra" => (Level::Raid5, 1),
        "raid5_ls" => (Level::Raid5, 2),
        "raid5_rs" => (Level::Raid5, 3),
        "raid6_zr" => (Level::Raid6, 8),
        "raid6_nr" => (Level::Raid6, 9),
        "raid6_nc" => (Level::Raid6, 10),
        "raid6_n_6" => (Level::Raid6, 5),
        "raid6_la_6" => (Level::Raid6, 16),
        "raid6_ra_6" => (Level::Raid6, 17),
        "raid6_ls_6" => (Level::Raid6, 18),
        "raid6_rs_6" => (Level::Raid6, 19),
        "raid6_0_6" => (Level::Raid6, 20),
        "raid10" | "raid10_near" | "raid10_far" | "raid10_offset" => {
            let format = raid.level.strip_prefix("raid10_").or(raid.format.as_deref()).unwrap_or("near");
            let layout = match format {
                "near" => 1 << 8 | copies,
                "far" => far | 1 | sets,
                "offset" => far | 1 | sets | 1 << 16,
                _ => return None,
            };
            (Level::Raid10, layout)
        }
        _ => return None,
    };
    let n64 = u64::from(n);
    let component = match level {
        Level::Raid1 => len_bytes,
        Level::Raid10 => len_bytes.checked_mul(u64::from(copies))?.div_ceil(n64.max(1)),
        Level::Raid5 => len_bytes.checked_div(n64.checked_sub(1)?)?,
        Level::Raid6 => len_bytes.checked_div(n64.checked_sub(2)?)?,
        _ => len_bytes.checked_div(n64)?,
    };
    Some((level, Shape { layout, chunk_bytes: raid.chunk_bytes, raid_disks: n }, component))
}

/// `raid5_ls 3 AaD 1024/8192 recover 0 …` (dm-raid.c `raid_status`): A in sync, a not yet, D dead.
#[derive(Debug, Default, PartialEq, Eq)]
struct Health {
    letters: Vec<char>,
    /// Some member is in sync. While a whole array syncs none is, and all are read.
    has_sound: bool,
    done_bytes: u64,
}

impl Health {
    fn parse(status: Option<&str>) -> Self {
        let words: Vec<&str> = status.unwrap_or_default().split_whitespace().collect();
        let letters: Vec<char> = words.get(2).map(|w| w.chars().collect()).unwrap_or_default();
        let done = words.get(3).and_then(|w| w.split('/').next()?.parse::<u64>().ok()).unwrap_or(0);
        let is_recovery = words.get(4).is_some_and(|w| *w == "recover");
        Self {
            has_sound: letters.contains(&'A'),
            letters,
            done_bytes: if is_recovery { done.saturating_mul(512) } else { 0 },
        }
    }

    fn of(&self, slot: u32) -> Option<char> {
        self.letters.get(slot as usize).copied()
    }
}

/// Blocks in use of `ERROR BLOCKS FREE WRITEBACK …` (dm-writecache.c `writecache_status`).
fn writecache_blocks(status: Option<&str>) -> Option<u64> {
    let mut words = status?.split_whitespace();
    words.next()?.parse::<i64>().ok().filter(|error| *error == 0)?;
    let (all, free): (u64, u64) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    all.checked_sub(free)
}

/// Blocks in use of `META USED/ALL BLOCK USED/ALL …` (dm-cache-target.c `cache_status`).
fn cache_blocks(status: Option<&str>) -> Option<u64> {
    status?.split_whitespace().nth(3)?.split('/').next()?.parse().ok()
}

/// What a resolved stack depends on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Stamps(Vec<(PathBuf, String)>);

impl Stamps {
    /// The first of the files that is not as it was: a member failed, a volume was moved. Reads a few small files of sysfs.
    pub(crate) fn changed(&self) -> Option<&Path> {
        let is_as_it_was = |(file, was): &(PathBuf, String)| {
            if file.ends_with("slaves") {
                file.parent().is_some_and(|dir| names_of(&slaves(dir)) == *was)
            } else {
                read_small(file) == *was
            }
        };
        self.0.iter().find(|stamp| !is_as_it_was(stamp)).map(|(file, _)| file.as_path())
    }
}

fn read_small(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    let text = text.trim();
    if file.ends_with("reshape_position") {
        // Moves all the time, which is no change of its kind.
        return (text != "none").to_string();
    }
    // Goes to and fro with each write (Documentation/admin-guide/md.rst, array_state); where bytes lie does not.
    let runs = ["clean", "active", "write-pending", "active-idle", "read-auto", "readonly"];
    if file.ends_with("array_state") && runs.contains(&text) { "runs".to_owned() } else { text.to_owned() }
}

pub(crate) fn part(base: u64, len_bytes: u64, below: Arc<Node>) -> Arc<Node> {
    Arc::new(Node::Part { base, len_bytes, below })
}

fn opaque(why: String, disks: Vec<usize>) -> Arc<Node> {
    Arc::new(Node::Opaque { why: why.into(), disks })
}

fn name_of(dir: &Path) -> String {
    dir.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn names_of(dirs: &[PathBuf]) -> String {
    dirs.iter().map(|d| name_of(d)).collect::<Vec<_>>().join(" ")
}

fn number_of(dir: &Path) -> Option<(u32, u32)> {
    let text = Sysfs::text(dir, "dev")?;
    let (major, minor) = text.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn slaves(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir.join("slaves")).into_iter().flatten().flatten();
    let mut out: Vec<PathBuf> = entries.filter_map(|e| fs::canonicalize(e.path()).ok()).collect();
    out.sort();
    out
}

#[cfg(test)]
#[path = "resolve_tests.rs"]
mod tests;
