//! The block map: from a byte of a device, through everything that it is made of, to its places on disks, and back.
//! Pure: the stack comes in as a tree of [`Node`]s (made by [`resolve`]), no system call is made here.
//!
//! `piece` is what it answers with; `raid0`, `raid10` and `parity` are the formulas of md, each in both directions;
//! `resolve` reads the stack from sysfs and the device-mapper; `volume` goes from a mounted filesystem to its stack.

pub(crate) mod parity;
pub(crate) mod piece;
pub(crate) mod raid0;
pub(crate) mod raid10;
pub(crate) mod resolve;
#[cfg(test)]
mod tests;
pub(crate) mod volume;
pub(crate) mod zfs;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::layout::FileMap;
use crate::layout::chunks::ChunkMap;
use parity::Parity;
use piece::{Copy, Piece, Place, Role, State, align};
use raid0::Zones;
use raid10::Raid10;

/// A device, or a part of one, and what it is made of. Addresses are bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Node {
    /// A whole disk, by its index in the list of disks.
    Disk(usize),
    /// A disk that is not there any more.
    Gone(usize),
    /// `len_bytes` of another from byte `base`: partitions, linear targets, a member without its superblock.
    Part {
        base: u64,
        len_bytes: u64,
        below: Arc<Node>,
    },
    /// One after the other; each with where it begins.
    Chain(Vec<(u64, u64, Arc<Node>)>),
    /// The same on each.
    Mirror(Vec<Member>),
    Striped(Zones, Vec<Member>),
    Raid10(Raid10, Vec<Member>),
    Parity(Parity, Vec<Member>),
    /// A btrfs: logical addresses.
    Btrfs {
        chunks: Arc<ChunkMap>,
        devices: Arc<BTreeMap<u64, Member>>,
    },
    /// A file of another filesystem: a loop device.
    File(Arc<FileMap>),
    /// A file of a ZFS: its own bytes.
    Zfs(Arc<zfs::Records>),
    /// Two shapes of one array. The new one holds below `position` (backwards: from there on).
    Reshape {
        position: u64,
        is_backwards: bool,
        new: Arc<Node>,
        old: Arc<Node>,
    },
    /// The places below hold, but the bytes may be elsewhere.
    Doubt {
        why: Arc<str>,
        /// On one of these disks then, where that is known: a cache's.
        elsewhere: Vec<usize>,
        below: Arc<Node>,
    },
    /// Encrypted on the way down, byte for byte.
    Sealed(Arc<Node>),
    /// No disk: zeros.
    Nothing,
    /// Somewhere on these disks.
    Opaque {
        why: Arc<str>,
        disks: Vec<usize>,
    },
}

/// One of several devices that make up another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) node: Arc<Node>,
    pub(crate) is_write_mostly: bool,
    /// For one that is being rebuilt: bytes from its start that are up to date.
    pub(crate) fresh_bytes: Option<u64>,
}

/// What lies at a place of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hit {
    /// First byte in the device that was asked: of the data there, or of what the parity there is of.
    pub(crate) offset: u64,
    /// 1 for data; for parity, how many bytes it is of.
    pub(crate) len_bytes: u64,
    pub(crate) role: Role,
}

/// Devices within devices that are followed; a loop in a damaged tree ends there.
pub(crate) const MAX_DEPTH: usize = 24;

impl Member {
    pub(crate) fn sound(node: Arc<Node>) -> Self {
        Self { node, is_write_mostly: false, fresh_bytes: None }
    }

    fn state(&self, end: u64) -> State {
        match self.fresh_bytes {
            Some(fresh) if end > fresh => State::Stale,
            _ if self.is_write_mostly => State::WriteMostly,
            _ => State::Readable,
        }
    }

    /// The one place of `len_bytes` at `offset`, where it is one: most members are a disk or a part of one, and then
    /// no list needs to be made.
    fn direct(&self, offset: u64, len_bytes: u64) -> Option<Copy> {
        let (place, is_gone) = self.node.direct(offset, len_bytes)?;
        let state = if is_gone { State::Missing } else { self.state(offset.checked_add(len_bytes)?) };
        Some(Copy { place, state, leg: 0 })
    }

    /// As `Node::walk`, with the member's state on every copy.
    fn walk(&self, run: Run, out: &mut Vec<Piece>) {
        let from = out.len();
        let whole = self.state(run.offset.saturating_add(run.len_bytes));
        match self.fresh_bytes {
            // Rebuilt in part: cut where it ends.
            Some(fresh) if whole == State::Stale && fresh > run.offset => {
                let (head, tail) = run.split(fresh - run.offset);
                self.walk(head, out);
                return self.walk(tail, out);
            }
            _ => self.node.walk(run, out),
        }
        for copy in out[from..].iter_mut().flat_map(|p| &mut p.copies) {
            copy.state = copy.state.max(whole);
        }
    }
}

/// Bytes to be placed: `offset` in the node, `at` in what the caller asked about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    pub(crate) at: u64,
    pub(crate) offset: u64,
    pub(crate) len_bytes: u64,
    /// Whether the rest of each row is wanted of what can be read, too.
    pub(crate) with_rows: bool,
}

impl Run {
    fn split(self, by: u64) -> (Self, Self) {
        (self.take(by), self.skip(by))
    }

    fn take(self, n: u64) -> Self {
        Self { len_bytes: self.len_bytes.min(n), ..self }
    }

    fn skip(self, n: u64) -> Self {
        let n = n.min(self.len_bytes);
        Self { at: self.at + n, offset: self.offset + n, len_bytes: self.len_bytes - n, ..self }
    }

    /// The same bytes at another place of another node.
    fn to(self, offset: u64) -> Self {
        Self { offset, ..self }
    }
}

impl Node {
    /// Appends the pieces of a run, in order. What has no place on a disk is missing from them.
    pub(crate) fn walk(&self, mut run: Run, out: &mut Vec<Piece>) {
        // Addresses come from disks and may be nonsense; sums of them must not wrap.
        if run.offset.checked_add(run.len_bytes).is_none() || run.at.checked_add(run.len_bytes).is_none() {
            return;
        }
        match self {
            Self::Disk(disk) | Self::Gone(disk) => {
                let state = if matches!(self, Self::Gone(_)) { State::Missing } else { State::Readable };
                out.push(Piece::of(run.at, run.len_bytes, Place { disk: *disk, offset: run.offset }, state));
            }
            Self::Part { base, len_bytes, below } => {
                let inside = run.take(len_bytes.saturating_sub(run.offset));
                if inside.len_bytes > 0
                    && let Some(offset) = base.checked_add(run.offset)
                {
                    below.walk(inside.to(offset), out);
                }
            }
            Self::Chain(parts) => {
                let first = parts.partition_point(|(start, len, _)| start.saturating_add(*len) <= run.offset);
                for (start, len, node) in &parts[first..] {
                    if run.len_bytes == 0 {
                        break;
                    }
                    run = run.skip(start.saturating_sub(run.offset));
                    let here = run.take(start.saturating_add(*len).saturating_sub(run.offset));
                    if here.len_bytes > 0 {
                        node.walk(here.to(here.offset - start), out);
                    }
                    run = run.skip(here.len_bytes);
                }
            }
            Self::Mirror(members) => {
                let legs: Vec<(&Member, u64)> = members.iter().map(|m| (m, run.offset)).collect();
                mirror(&legs, run, out);
            }
            Self::Striped(zones, members) => {
                while run.len_bytes > 0
                    && let Some(at) = zones.place(run.offset)
                    && let Some(member) = members.get(at.slot)
                {
                    member.walk(run.take(at.run_bytes).to(at.offset), out);
                    run = run.skip(at.run_bytes);
                }
            }
            Self::Raid10(geometry, members) => {
                while run.len_bytes > 0
                    && let Some(places) = geometry.places(run.offset)
                    && let Some(bytes) = places.first().map(|p| p.run_bytes)
                {
                    let legs: Vec<(&Member, u64)> =
                        places.iter().filter_map(|p| Some((members.get(p.slot)?, p.offset))).collect();
                    mirror(&legs, run.take(bytes), out);
                    run = run.skip(bytes);
                }
            }
            Self::Parity(geometry, members) => {
                while run.len_bytes > 0
                    && let Some(at) = geometry.place(run.offset)
                    && let Some(member) = members.get(at.slot)
                {
                    let from = out.len();
                    member.walk(run.take(at.run_bytes).to(at.offset), out);
                    if run.with_rows || out[from..].iter().any(|p| !p.is_readable()) {
                        let lost = out.split_off(from);
                        let others = |slot: &usize| *slot != at.slot;
                        let peers: Vec<(&Member, u64, Role)> = (0..members.len())
                            .filter(others)
                            .map(|slot| (&members[slot], at.offset, geometry.role(at.row, slot)))
                            .collect();
                        rebuilt(lost, &peers, run, out);
                    }
                    run = run.skip(at.run_bytes);
                }
            }
            Self::Btrfs { chunks, devices } => btrfs(chunks, devices, run, out),
            Self::File(file) => file.walk(run, out),
            Self::Zfs(file) => file.walk(run, out),
            Self::Reshape { position, is_backwards, new, old } => {
                let (below, above) = if *is_backwards { (old, new) } else { (new, old) };
                let (head, tail) = run.split(position.saturating_sub(run.offset));
                for (part, node) in [(head, below), (tail, above)] {
                    if part.len_bytes > 0 {
                        node.walk(part, out);
                    }
                }
            }
            Self::Doubt { why, elsewhere, below } => {
                let from = out.len();
                below.walk(run, out);
                for piece in &mut out[from..] {
                    piece.doubt = Some(Arc::clone(why));
                    piece.elsewhere.extend(elsewhere);
                }
            }
            Self::Sealed(below) => {
                let from = out.len();
                below.walk(run, out);
                out[from..].iter_mut().for_each(|p| p.is_sealed = true);
            }
            Self::Nothing => {}
            Self::Opaque { why, .. } => {
                let nowhere = Piece::with(run.at, run.len_bytes, Vec::new());
                out.push(Piece { doubt: Some(Arc::clone(why)), ..nowhere });
            }
        }
    }

    /// Whether a parity array below reads page by page through its stripe cache: it has a member that is gone or not
    /// rebuilt yet, or is being reshaped (`raid5_make_request` in drivers/md/raid5.c).
    pub(crate) fn reads_by_stripes(&self) -> bool {
        let of = |members: &[Member]| members.iter().any(|m| m.node.reads_by_stripes());
        match self {
            Self::Disk(_) | Self::Gone(_) | Self::Nothing | Self::Opaque { .. } => false,
            Self::Part { below, .. } | Self::Doubt { below, .. } | Self::Sealed(below) => {
                below.reads_by_stripes()
            }
            Self::Chain(parts) => parts.iter().any(|(.., node)| node.reads_by_stripes()),
            Self::Mirror(members) | Self::Striped(_, members) | Self::Raid10(_, members) => of(members),
            Self::Parity(_, members) => {
                members.iter().any(|m| m.fresh_bytes.is_some() || m.node.is_gone()) || of(members)
            }
            Self::Btrfs { devices, .. } => devices.values().any(|m| m.node.reads_by_stripes()),
            Self::File(file) => file.below().reads_by_stripes(),
            Self::Zfs(file) => file.pool().nodes().any(|n| n.reads_by_stripes()),
            Self::Reshape { new, old, .. } => {
                [new, old].iter().any(|n| matches!(&***n, Self::Parity(..)) || n.reads_by_stripes())
            }
        }
    }

    /// Whether it is, or is a part of, a disk that is not there any more.
    fn is_gone(&self) -> bool {
        match self {
            Self::Gone(_) => true,
            Self::Part { below, .. } | Self::Doubt { below, .. } | Self::Sealed(below) => below.is_gone(),
            _ => false,
        }
    }

    /// The one place of a run and whether it is gone, where it is one.
    fn direct(&self, offset: u64, len_bytes: u64) -> Option<(Place, bool)> {
        match self {
            Self::Disk(disk) => Some((Place { disk: *disk, offset }, false)),
            Self::Gone(disk) => Some((Place { disk: *disk, offset }, true)),
            Self::Part { base, len_bytes: all, below } => {
                let fits = offset.checked_add(len_bytes)? <= *all;
                fits.then(|| below.direct(base.checked_add(offset)?, len_bytes))?
            }
            _ => None,
        }
    }

    /// What lies at `offset` of a disk, appended; addresses are this node's.
    pub(crate) fn find(&self, disk: usize, offset: u64, out: &mut Vec<Hit>) {
        let from = out.len();
        match self {
            Self::Disk(d) | Self::Gone(d) => {
                if *d == disk {
                    out.push(Hit { offset, len_bytes: 1, role: Role::Data });
                }
            }
            Self::Part { base, len_bytes, below } => {
                below.find(disk, offset, out);
                moved(out, from, |h| {
                    let at = h.offset.checked_sub(*base)?;
                    (at < *len_bytes).then_some(Hit { offset: at, ..h })
                });
            }
            Self::Chain(parts) => {
                for (start, len, node) in parts {
                    let from = out.len();
                    node.find(disk, offset, out);
                    moved(out, from, |h| {
                        (h.offset < *len).then(|| Some(Hit { offset: start.checked_add(h.offset)?, ..h }))?
                    });
                }
            }
            Self::Mirror(members) => members.iter().for_each(|m| m.node.find(disk, offset, out)),
            Self::Striped(zones, members) => {
                each(members, disk, offset, out, |slot, h| {
                    Some(Hit { offset: zones.back(slot, h.offset)?, ..h })
                });
            }
            Self::Raid10(geometry, members) => {
                each(members, disk, offset, out, |slot, h| {
                    Some(Hit { offset: geometry.back(slot, h.offset)?, ..h })
                });
            }
            Self::Parity(geometry, members) => each(members, disk, offset, out, |slot, h| {
                let found = geometry.back(slot, h.offset)?;
                let role = if h.role == Role::Data { found.role } else { h.role };
                Some(Hit { offset: found.offset, len_bytes: found.len_bytes.max(h.len_bytes), role })
            }),
            Self::Btrfs { chunks, devices } => {
                for (devid, member) in devices.iter() {
                    let from = out.len();
                    member.node.find(disk, offset, out);
                    moved(out, from, |h| {
                        let found = chunks.find(*devid, h.offset)?;
                        let role = if h.role == Role::Data { found.role } else { h.role };
                        Some(Hit { offset: found.offset, len_bytes: found.len_bytes.max(h.len_bytes), role })
                    });
                }
            }
            Self::File(file) => {
                file.below().find(disk, offset, out);
                moved(out, from, |h| Some(Hit { offset: file.holds(h.offset, h.len_bytes)?, ..h }));
            }
            Self::Zfs(file) => file.find(disk, offset, out),
            Self::Reshape { position, is_backwards, new, old } => {
                new.find(disk, offset, out);
                let middle = out.len();
                old.find(disk, offset, out);
                let mut older = out.split_off(middle);
                moved(out, from, |h| ((h.offset < *position) != *is_backwards).then_some(h));
                older.retain(|h| (h.offset < *position) == *is_backwards);
                out.append(&mut older);
            }
            Self::Doubt { below, .. } | Self::Sealed(below) => below.find(disk, offset, out),
            Self::Nothing | Self::Opaque { .. } => {}
        }
    }

    /// Whether a block device below chooses among copies.
    pub(crate) fn has_mirror(&self) -> bool {
        match self {
            Self::Mirror(_) => true,
            Self::Raid10(geometry, _) => geometry.copies() > 1,
            Self::Disk(_) | Self::Gone(_) | Self::Nothing | Self::Opaque { .. } => false,
            Self::Part { below, .. } | Self::Doubt { below, .. } | Self::Sealed(below) => below.has_mirror(),
            Self::Chain(parts) => parts.iter().any(|(_, _, n)| n.has_mirror()),
            Self::Striped(_, members) | Self::Parity(_, members) => {
                members.iter().any(|m| m.node.has_mirror())
            }
            Self::Btrfs { devices, .. } => devices.values().any(|m| m.node.has_mirror()),
            Self::File(file) => file.below().has_mirror(),
            Self::Zfs(file) => file.pool().nodes().any(|n| n.has_mirror()),
            Self::Reshape { new, old, .. } => new.has_mirror() || old.has_mirror(),
        }
    }

    /// The disks that this may lie on, each once, in order.
    pub(crate) fn disks(&self) -> Vec<usize> {
        let mut out = Vec::new();
        self.collect(&mut out, 0);
        out.sort_unstable();
        out.dedup();
        out
    }

    fn collect(&self, out: &mut Vec<usize>, depth: usize) {
        if depth > MAX_DEPTH * 2 {
            return;
        }
        let depth = depth + 1;
        match self {
            Self::Disk(d) | Self::Gone(d) => out.push(*d),
            Self::Part { below, .. } | Self::Doubt { below, .. } | Self::Sealed(below) => {
                below.collect(out, depth)
            }
            Self::Chain(parts) => parts.iter().for_each(|(_, _, n)| n.collect(out, depth)),
            Self::Mirror(members)
            | Self::Striped(_, members)
            | Self::Raid10(_, members)
            | Self::Parity(_, members) => members.iter().for_each(|m| m.node.collect(out, depth)),
            Self::Btrfs { devices, .. } => devices.values().for_each(|m| m.node.collect(out, depth)),
            Self::File(file) => file.below().collect(out, depth),
            Self::Zfs(file) => {
                file.pool().nodes().for_each(|n| n.collect(out, depth));
                out.extend(file.pool().unknown());
            }
            Self::Reshape { new, old, .. } => {
                new.collect(out, depth);
                old.collect(out, depth);
            }
            Self::Nothing => {}
            Self::Opaque { disks, .. } => out.extend(disks),
        }
    }
}

/// The same bytes on each leg, at the address that it has there.
fn mirror(legs: &[(&Member, u64)], run: Run, out: &mut Vec<Piece>) {
    let direct: Option<Vec<Copy>> = legs.iter().map(|(m, at)| m.direct(*at, run.len_bytes)).collect();
    // A member rebuilt in part has to be cut; `direct` calls all of it stale.
    let is_cut = |at: u64, fresh: u64| fresh > at && fresh - at < run.len_bytes;
    let needs_cut = legs.iter().any(|(m, at)| m.fresh_bytes.is_some_and(|f| is_cut(*at, f)));
    if let Some(copies) = direct.filter(|_| !needs_cut) {
        out.push(Piece::with(run.at, run.len_bytes, copies));
        return;
    }
    let lists: Vec<Vec<Piece>> = legs
        .iter()
        .map(|(m, at)| {
            let mut list = Vec::new();
            m.walk(run.to(*at), &mut list);
            list
        })
        .collect();
    for row in align(&lists) {
        out.extend(joined(row.into_iter().flatten()));
    }
}

/// Pieces of the same run as one, with the copies of all.
fn joined(mut pieces: impl Iterator<Item = Piece>) -> Option<Piece> {
    let mut out = pieces.next()?;
    for piece in pieces {
        out.copies.extend(piece.copies);
        out.doubt = out.doubt.or(piece.doubt);
        out.elsewhere.extend(piece.elsewhere);
        out.is_sealed |= piece.is_sealed;
        if out.rebuild.is_empty() {
            out.rebuild = piece.rebuild;
        }
    }
    if out.is_readable() {
        out.rebuild.clear();
    }
    Some(out)
}

/// Adds to pieces that no copy can be read of what is read instead: the same bytes of every other member of the row
/// (raid5.c `fetch_block`: all of them, P and Q too), where enough of those can be read.
fn rebuilt(lost: Vec<Piece>, peers: &[(&Member, u64, Role)], run: Run, out: &mut Vec<Piece>) {
    let len_bytes = lost.iter().map(|p| p.len_bytes).sum();
    let run = run.take(len_bytes);
    // As many as the row has data members.
    let needed = 1 + peers.iter().filter(|(_, _, role)| *role == Role::Data).count();
    let mut lists = vec![lost];
    for (member, at, _) in peers {
        let mut list = Vec::new();
        member.walk(run.to(*at), &mut list);
        lists.push(list);
    }
    for row in align(&lists) {
        let mut row = row.into_iter();
        let Some(Some(mut piece)) = row.next() else { continue };
        if run.with_rows || !piece.is_readable() {
            piece.rebuild = row
                .zip(peers)
                .filter_map(|(peer, (_, _, role))| {
                    let peer = peer?;
                    let best = peer.copies.iter().filter(|c| c.is_readable()).min_by_key(|c| c.state)?;
                    Some((best.place, *role))
                })
                .collect();
            if piece.rebuild.len() < needed {
                piece.rebuild.clear();
            }
        }
        out.push(piece);
    }
}

fn btrfs(chunks: &ChunkMap, devices: &BTreeMap<u64, Member>, run: Run, out: &mut Vec<Piece>) {
    for mapped in chunks.map(run.offset, run.len_bytes) {
        let at = run.at + (mapped.logical - run.offset);
        let part = Run { at, offset: 0, len_bytes: mapped.len_bytes, with_rows: run.with_rows };
        let legs: Vec<(&Member, u64)> =
            mapped.copies.iter().filter_map(|s| Some((devices.get(&s.devid)?, s.offset))).collect();
        let from = out.len();
        if let Some(copies) = numbered(&legs, mapped.len_bytes) {
            out.push(Piece::with(at, part.len_bytes, copies));
        } else {
            let lists: Vec<Vec<Piece>> = (0_u16..)
                .zip(&legs)
                .map(|(leg, (m, at))| {
                    let mut list = Vec::new();
                    m.walk(part.to(*at), &mut list);
                    list.iter_mut().flat_map(|p| &mut p.copies).for_each(|c| c.leg = leg);
                    list
                })
                .collect();
            for row in align(&lists) {
                out.extend(joined(row.into_iter().flatten()));
            }
        }
        if run.with_rows || out[from..].iter().any(|p| !p.is_readable()) {
            let others = chunks.peers(mapped.logical);
            let peers: Vec<(&Member, u64, Role)> = others
                .iter()
                .filter_map(|(s, role)| Some((devices.get(&s.devid)?, s.offset, *role)))
                .collect();
            if !peers.is_empty() {
                let lost = out.split_off(from);
                rebuilt(lost, &peers, part, out);
            }
        }
    }
}

/// The copies of a chunk's run where every one is in one place.
fn numbered(legs: &[(&Member, u64)], len_bytes: u64) -> Option<Vec<Copy>> {
    let mut out = Vec::with_capacity(legs.len());
    for (leg, (member, at)) in (0_u16..).zip(legs) {
        out.push(Copy { leg, ..member.direct(*at, len_bytes)? });
    }
    (!out.is_empty()).then_some(out)
}

/// Changes the hits from `from` on, dropping those that have no address.
fn moved(out: &mut Vec<Hit>, from: usize, change: impl Fn(Hit) -> Option<Hit>) {
    let hits = out.split_off(from);
    out.extend(hits.into_iter().filter_map(change));
}

fn each(
    members: &[Member],
    disk: usize,
    offset: u64,
    out: &mut Vec<Hit>,
    change: impl Fn(usize, Hit) -> Option<Hit>,
) {
    for (slot, member) in members.iter().enumerate() {
        let from = out.len();
        member.node.find(disk, offset, out);
        moved(out, from, |h| change(slot, h));
    }
}
