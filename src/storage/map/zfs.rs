//! ZFS: from a byte of a file to its places, by the block pointers of the file and the pool's vdevs, and back. Pure.
//!
//! A record is read whole or not at all, from one of its copies. On a disk or mirror it lies in one piece behind the labels
//! ([`LABELS_BYTES`]); on a raidz of n disks it takes a run of the vdev's blocks, of which block b is on disk b mod n, so that
//! its columns, first the parity's, are each in one piece of a disk (module/zfs/vdev_raidz.c `vdev_raidz_map_alloc`).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::piece::{Piece, Role, align};
use super::{Hit, Member, Node, Run, joined, rebuilt};
use crate::sys::zdb::{Dva, Object, Record};

/// What a vdev's addresses leave out at the start of each of its disks: two labels of 256 KiB and the room for a boot
/// loader (include/sys/vdev_impl.h `VDEV_LABEL_START_SIZE`).
pub(crate) const LABELS_BYTES: u64 = 4 << 20;
/// Vdevs whose records have any number of columns are not wider (`VDEV_RAIDZ_MAXPARITY`, 255 disks).
pub(crate) const MAX_WIDTH: usize = 255;

/// The vdevs of a pool that hold records, by their numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Pool {
    pub(crate) tops: BTreeMap<u32, Top>,
}

/// A top-level vdev.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Top {
    /// A disk or a mirror of disks.
    Plain {
        ashift: u32,
        node: Arc<Node>,
    },
    Raidz(Raidz, Vec<Member>),
    /// Somewhere on these disks.
    Unknown {
        why: Arc<str>,
        disks: Vec<usize>,
    },
}

/// A raidz: how records lie on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Raidz {
    ashift: u32,
    width: u64,
    parity: u64,
}

/// What of a record lies on one disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) slot: usize,
    /// First byte on the disk, behind the labels.
    pub(crate) offset: u64,
    pub(crate) len_bytes: u64,
}

impl Raidz {
    /// `None` where there is no such thing.
    pub(crate) fn new(ashift: u32, width: usize, parity: u32) -> Option<Self> {
        let is_sane = (9..=16).contains(&ashift)
            && (1..=3).contains(&parity)
            && width > parity as usize
            && width <= MAX_WIDTH;
        is_sane.then_some(Self { ashift, width: width as u64, parity: u64::from(parity) })
    }

    /// The columns of a record of `len_bytes` at `offset`, parity first.
    pub(crate) fn columns(&self, offset: u64, len_bytes: u64) -> Vec<Column> {
        let (first, blocks) = (offset >> self.ashift, len_bytes.div_ceil(1 << self.ashift));
        let (rows, rest) = (blocks / (self.width - self.parity), blocks % (self.width - self.parity));
        // So many columns have a block more than the others.
        let long = if rest == 0 { 0 } else { rest + self.parity };
        let count = if rows == 0 { long } else { self.width };
        let mut out: Vec<Column> = (0..count)
            .map(|c| {
                let block = first.saturating_add(c);
                Column {
                    slot: usize::try_from(block % self.width).unwrap_or(0),
                    offset: (block / self.width) << self.ashift,
                    len_bytes: (rows + u64::from(c < long)) << self.ashift,
                }
            })
            .collect();
        // So that with one parity not always the same disk has it: every other MiB it changes places with the first data.
        if self.parity == 1
            && offset & (1 << 20) != 0
            && let [p, d, ..] = out.as_mut_slice()
        {
            std::mem::swap(&mut p.slot, &mut d.slot);
            std::mem::swap(&mut p.offset, &mut d.offset);
        }
        out
    }

    /// The byte of the vdev that lies at `offset` of a disk, behind the labels.
    fn back(&self, slot: usize, offset: u64) -> Option<u64> {
        let block = (offset >> self.ashift).checked_mul(self.width)?.checked_add(slot as u64)?;
        Some(block.checked_mul(1 << self.ashift)? | (offset & ((1 << self.ashift) - 1)))
    }

    fn role(column: usize) -> Role {
        if column == 0 { Role::Parity } else { Role::Syndrome }
    }
}

/// A copy of a record, for look-ups by place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Spot {
    vdev: u32,
    offset: u64,
    record: u32,
    asize: u32,
}

/// A file of a ZFS: its addresses are its own bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Records {
    pool: Arc<Pool>,
    object: Object,
    spots: Vec<Spot>,
}

impl Records {
    pub(crate) fn new(pool: Arc<Pool>, object: Object) -> Self {
        let mut spots: Vec<Spot> = (0_u32..)
            .zip(&object.records)
            .flat_map(|(record, r)| {
                r.dvas().map(move |d| Spot { vdev: d.vdev, offset: d.offset, record, asize: d.asize })
            })
            .collect();
        spots.sort_unstable();
        Self { pool, object, spots }
    }

    fn level_0(&self) -> &[Record] {
        self.object.records.get(..self.object.level_0).unwrap_or_default()
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The runs of the file, each of records that follow each other on their vdev, and bytes that are elsewhere, for a file
    /// of `size_bytes`.
    pub(crate) fn runs(&self, size_bytes: u64) -> crate::sys::fiemap::Extents {
        use crate::sys::fiemap::{Extent, Extents};
        let mut out = Extents {
            inline_bytes: self.object.embedded_bytes,
            dropped_bytes: self.object.dropped_bytes,
            ..Extents::default()
        };
        let mut ends: Option<(u32, u64)> = None;
        for r in self.level_0() {
            let len_bytes = u64::from(r.len_bytes);
            let goes_on = ends == Some((r.dva.vdev, r.dva.offset));
            ends = (!r.is_gang(&r.dva)).then(|| (r.dva.vdev, r.dva.offset + u64::from(r.dva.asize)));
            match out.runs.last_mut() {
                Some(last) if goes_on && last.offset + last.len_bytes == r.offset => {
                    last.len_bytes += len_bytes;
                }
                _ => {
                    out.runs.push(Extent { offset: r.offset, physical: r.offset, len_bytes, encoded: false })
                }
            }
        }
        // A file that has grown since the last transaction group.
        if let Some(known) = self.object.size_bytes {
            out.pending_bytes = size_bytes.saturating_sub(known);
        }
        out
    }

    /// See `Node::walk`.
    pub(super) fn walk(&self, run: Run, out: &mut Vec<Piece>) {
        let records = self.level_0();
        let end = run.offset.saturating_add(run.len_bytes);
        let from = records.partition_point(|r| r.offset + u64::from(r.len_bytes) <= run.offset);
        for r in records[from..].iter().take_while(|r| r.offset < end) {
            let start = r.offset.max(run.offset);
            let len_bytes = (r.offset + u64::from(r.len_bytes)).min(end) - start;
            let part = Run { at: run.at + (start - run.offset), offset: start - r.offset, len_bytes, ..run };
            let mut lists: Vec<Vec<Piece>> = r.dvas().map(|dva| self.copy(r, dva, part)).collect();
            let from = out.len();
            match lists.as_mut_slice() {
                [only] => out.append(only),
                _ => {
                    out.extend(align(&lists).into_iter().filter_map(|row| joined(row.into_iter().flatten())))
                }
            }
            if self.object.is_encrypted {
                out[from..].iter_mut().for_each(|p| p.is_sealed = true);
            }
        }
    }

    /// The pieces of one copy of a part of a record.
    fn copy(&self, r: &Record, dva: &Dva, part: Run) -> Vec<Piece> {
        let nowhere = |why: Arc<str>| {
            let piece = Piece::with(part.at, part.len_bytes, Vec::new());
            vec![Piece { doubt: Some(why), ..piece }]
        };
        if r.is_gang(dva) {
            return nowhere(
                "some records are in pieces (gang blocks) whose places only ZFS itself reads".into(),
            );
        }
        // Any byte of a compressed record takes all of it.
        let stored = u64::from(r.stored_bytes);
        let within =
            if r.is_compressed() { Run { at: 0, offset: 0, len_bytes: stored, ..part } } else { part };
        let within = Run { at: within.offset, ..within };
        let mut pieces = Vec::new();
        match self.pool.tops.get(&dva.vdev) {
            Some(Top::Plain { node, .. }) => {
                node.walk(within.to(dva.offset + within.offset), &mut pieces);
            }
            Some(Top::Raidz(raidz, members)) => {
                raidz.walk((dva.offset, stored), members, within, &mut pieces)
            }
            Some(Top::Unknown { why, .. }) => return nowhere(Arc::clone(why)),
            None => return nowhere(format!("the pool lists no vdev {}", dva.vdev).into()),
        }
        for piece in &mut pieces {
            if r.is_compressed() {
                piece.stored_bytes = Some(piece.len_bytes);
                // Which of its bytes are in which of its pieces nobody can tell; in the order in which they lie.
                let share = |at: u64| scaled(u64::from(r.len_bytes), at, stored);
                let (start, end) = (share(piece.offset), share(piece.offset + piece.len_bytes));
                let start = start.clamp(part.offset, part.offset + part.len_bytes);
                let end = end.clamp(start, part.offset + part.len_bytes);
                piece.offset = part.at + (start - part.offset);
                piece.len_bytes = end - start;
            } else {
                piece.offset = part.at + (piece.offset - part.offset);
            }
        }
        pieces.retain(|p| p.len_bytes > 0);
        pieces
    }

    /// See `Node::find`. Blocks of the tree that leads to the records count as the first byte below them.
    pub(super) fn find(&self, disk: usize, offset: u64, out: &mut Vec<Hit>) {
        for (vdev, top) in &self.pool.tops {
            match top {
                Top::Plain { node, .. } => {
                    let mut hits = Vec::new();
                    node.find(disk, offset, &mut hits);
                    out.extend(hits.iter().filter_map(|h| {
                        let (r, spot) = self.at(*vdev, h.offset)?;
                        r.hit(h.offset - spot.offset, None)
                    }));
                }
                Top::Raidz(raidz, members) => {
                    for (slot, member) in members.iter().enumerate() {
                        let mut hits = Vec::new();
                        member.node.find(disk, offset, &mut hits);
                        out.extend(hits.iter().filter_map(|h| {
                            let (r, spot) = self.at(*vdev, raidz.back(slot, h.offset)?)?;
                            let (at, role) =
                                raidz.within((spot.offset, r.stored_bytes.into()), slot, h.offset)?;
                            r.hit(at, role)
                        }));
                    }
                }
                Top::Unknown { .. } => {}
            }
        }
    }

    /// The record that takes a byte of a vdev.
    fn at(&self, vdev: u32, address: u64) -> Option<(&Record, Spot)> {
        let after = self.spots.partition_point(|s| (s.vdev, s.offset) <= (vdev, address));
        let spot = *self.spots.get(after.checked_sub(1)?)?;
        let is_there = spot.vdev == vdev && address - spot.offset < u64::from(spot.asize);
        Some((self.object.records.get(spot.record as usize).filter(|_| is_there)?, spot))
    }
}

/// `whole * part / of`.
fn scaled(whole: u64, part: u64, of: u64) -> u64 {
    let n = u128::from(whole) * u128::from(part) / u128::from(of.max(1));
    u64::try_from(n).unwrap_or(whole).min(whole)
}

impl Record {
    /// What of the file is `at` bytes into what is stored of it; `role` for parity.
    fn hit(&self, at: u64, role: Option<Role>) -> Option<Hit> {
        let (len, stored) = (u64::from(self.len_bytes), u64::from(self.stored_bytes));
        if self.level > 0 {
            return Some(Hit { offset: self.offset, len_bytes: 1, role: Role::Tree });
        }
        if let Some(role) = role {
            return Some(Hit { offset: self.offset, len_bytes: len, role });
        }
        (at < stored).then(|| Hit {
            offset: self.offset + scaled(len, at, stored).min(len - 1),
            len_bytes: 1,
            role: Role::Data,
        })
    }
}

impl Raidz {
    /// The bytes `run.offset..` of what is stored of the record at `(offset, stored)`.
    fn walk(&self, (offset, stored): (u64, u64), members: &[Member], run: Run, out: &mut Vec<Piece>) {
        let columns = self.columns(offset, stored);
        let parity = usize::try_from(self.parity).unwrap_or(0);
        // Bytes that every column has; some have one block more.
        let common = columns.iter().map(|c| c.len_bytes).min().unwrap_or(0);
        let end = run.offset.saturating_add(run.len_bytes);
        let mut at = 0;
        for (index, column) in columns.iter().enumerate().skip(parity) {
            let (first, last) = (at, at + column.len_bytes);
            at = last;
            let start = run.offset.max(first);
            let n = end.min(last).saturating_sub(start);
            let Some(member) = members.get(column.slot).filter(|_| n > 0) else { continue };
            let part = Run { at: run.at + (start - run.offset), offset: start - first, len_bytes: n, ..run };
            let from = out.len();
            member.walk(part.to(column.offset + part.offset), out);
            if !run.with_rows && out[from..].iter().all(Piece::is_readable) {
                continue;
            }
            let mut lost = out.split_off(from);
            // Where the shorter columns end there is less to compute from.
            let (head, tail) = part.split(common.saturating_sub(part.offset));
            for part in [head, tail].into_iter().filter(|p| p.len_bytes > 0) {
                if tail.len_bytes > 0 && head.len_bytes > 0 {
                    lost = Vec::new();
                    member.walk(part.to(column.offset + part.offset), &mut lost);
                }
                let peers: Vec<(&Member, u64, Role)> = columns
                    .iter()
                    .enumerate()
                    .filter(|(i, c)| *i != index && c.len_bytes > part.offset)
                    .filter_map(|(i, c)| {
                        let role = if i < parity { Self::role(i) } else { Role::Data };
                        Some((members.get(c.slot)?, c.offset + part.offset, role))
                    })
                    .collect();
                rebuilt(std::mem::take(&mut lost), &peers, part, out);
            }
        }
    }

    /// Where in a record the byte at `offset` of a disk is: in its parity, or in which byte of what is stored.
    fn within(&self, (start, stored): (u64, u64), slot: usize, offset: u64) -> Option<(u64, Option<Role>)> {
        let parity = usize::try_from(self.parity).unwrap_or(0);
        let mut at = 0;
        for (index, c) in self.columns(start, stored).iter().enumerate() {
            let is_here = c.slot == slot && offset >= c.offset && offset - c.offset < c.len_bytes;
            if index < parity {
                if is_here {
                    return Some((0, Some(Self::role(index))));
                }
                continue;
            }
            if is_here {
                return Some((at + (offset - c.offset), None));
            }
            at += c.len_bytes;
        }
        None
    }
}

impl Pool {
    /// The nodes of all vdevs, and disks of those that are not known.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.tops.values().flat_map(|top| match top {
            Top::Plain { node, .. } => vec![node],
            Top::Raidz(_, members) => members.iter().map(|m| &m.node).collect(),
            Top::Unknown { .. } => Vec::new(),
        })
    }

    pub(super) fn unknown(&self) -> impl Iterator<Item = usize> + '_ {
        self.tops.values().flat_map(|top| match top {
            Top::Unknown { disks, .. } => disks.clone(),
            Top::Plain { .. } | Top::Raidz(..) => Vec::new(),
        })
    }
}

#[cfg(test)]
#[path = "zfs_tests.rs"]
mod tests;
