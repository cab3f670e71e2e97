//! The btrfs chunk tree as a map: logical address to devices and back. Pure.
//!
//! Formulas: fs/btrfs/volumes.c `btrfs_map_block`; each profile was compared with traced reads to the
//! byte. Read leg of a mirror: `first + (kernel thread id mod copies)`, an index into the chunk's own
//! stripe order (`find_live_mirror`, policy "pid"), which alternates between chunks.

use std::collections::BTreeMap;

use crate::map::parity::Found;
use crate::map::piece::Role;

/// `BTRFS_BLOCK_GROUP_*`.
const RAID0: u64 = 1 << 3;
const RAID1: u64 = 1 << 4;
const DUP: u64 = 1 << 5;
const RAID10: u64 = 1 << 6;
const RAID5: u64 = 1 << 7;
const RAID6: u64 = 1 << 8;
const RAID1C3: u64 = 1 << 9;
const RAID1C4: u64 = 1 << 10;
const PROFILES: u64 = RAID0 | RAID1 | DUP | RAID10 | RAID5 | RAID6 | RAID1C3 | RAID1C4;

/// One device's part of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stripe {
    pub(crate) devid: u64,
    /// First byte on that device.
    pub(crate) offset: u64,
}

/// One chunk item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// First logical address.
    pub(crate) logical: u64,
    pub(crate) len_bytes: u64,
    /// 64 KiB on every filesystem so far.
    pub(crate) stripe_bytes: u64,
    /// `BTRFS_BLOCK_GROUP_*` bits.
    pub(crate) kind: u64,
    pub(crate) sub_stripes: u16,
    pub(crate) stripes: Vec<Stripe>,
}

/// A run that lies in one piece on each of its copies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mapped {
    pub(crate) logical: u64,
    pub(crate) len_bytes: u64,
    /// One place per copy, in the order by which the kernel chooses.
    pub(crate) copies: Vec<Stripe>,
}

/// Where in a chunk's stripes a logical offset is.
struct Slot {
    first: usize,
    copies: usize,
    /// Byte within each of those stripes.
    within: u64,
    /// Bytes until the next device.
    run_bytes: u64,
}

impl Chunk {
    /// Data devices of one row, for the profiles that have rows.
    fn columns(&self) -> Option<u64> {
        let n = self.stripes.len() as u64;
        let columns = match self.kind & PROFILES {
            RAID0 => n,
            RAID10 => n / u64::from(self.sub_stripes.max(1)),
            RAID5 => n.saturating_sub(1),
            RAID6 => n.saturating_sub(2),
            _ => return None,
        };
        (columns > 0 && self.stripe_bytes > 0).then_some(columns)
    }

    fn slot(&self, offset: u64) -> Option<Slot> {
        let Some(columns) = self.columns() else {
            return (self.kind & (RAID0 | RAID10 | RAID5 | RAID6) == 0).then_some(Slot {
                first: 0,
                copies: self.stripes.len(),
                within: offset,
                run_bytes: self.len_bytes.checked_sub(offset)?,
            });
        };
        let (number, rest) = (offset / self.stripe_bytes, offset % self.stripe_bytes);
        let (column, row) = (number % columns, number / columns);
        let (first, copies) = match self.kind & PROFILES {
            RAID10 => (column * u64::from(self.sub_stripes), usize::from(self.sub_stripes)),
            RAID5 | RAID6 => ((row + column) % self.stripes.len() as u64, 1),
            _ => (column, 1),
        };
        Some(Slot {
            first: usize::try_from(first).ok()?,
            copies,
            within: row.checked_mul(self.stripe_bytes)?.checked_add(rest)?,
            run_bytes: self.stripe_bytes - rest,
        })
    }

    /// The inverse: what of the chunk byte `within` of stripe `index` is; addresses from the chunk's start.
    fn found(&self, index: usize, within: u64) -> Option<Found> {
        let Some(columns) = self.columns() else {
            return (within < self.len_bytes).then_some(Found {
                offset: within,
                len_bytes: 1,
                role: Role::Data,
            });
        };
        let (row, rest) = (within / self.stripe_bytes, within % self.stripe_bytes);
        let (i, n) = (index as u64, self.stripes.len() as u64);
        let is_parity = self.kind & (RAID5 | RAID6) != 0;
        let column = match self.kind & PROFILES {
            RAID10 => i / u64::from(self.sub_stripes.max(1)),
            RAID5 | RAID6 => (i + n - row % n) % n,
            _ => i,
        };
        let first = row.checked_mul(columns)?.checked_mul(self.stripe_bytes)?;
        let whole_row = columns.checked_mul(self.stripe_bytes)?;
        let found = match column.checked_sub(columns) {
            None => Found {
                offset: first.checked_add(column.checked_mul(self.stripe_bytes)?)?.checked_add(rest)?,
                len_bytes: 1,
                role: Role::Data,
            },
            // More stripes than make whole sets: nothing is ever written there.
            Some(_) if !is_parity => return None,
            Some(0) => Found { offset: first, len_bytes: whole_row, role: Role::Parity },
            Some(_) => Found { offset: first, len_bytes: whole_row, role: Role::Syndrome },
        };
        (found.offset < self.len_bytes).then_some(found)
    }

    /// The same bytes of the other stripes of a row, for the parity profiles: (place, what is there).
    fn peers(&self, offset: u64) -> Option<Vec<(Stripe, Role)>> {
        if self.kind & (RAID5 | RAID6) == 0 {
            return None;
        }
        let (slot, columns, n) = (self.slot(offset)?, self.columns()?, self.stripes.len());
        let row = slot.within / self.stripe_bytes;
        let role = |index: usize| match ((index as u64 + n as u64 - row % n as u64) % n as u64)
            .checked_sub(columns)
        {
            None => Role::Data,
            Some(0) => Role::Parity,
            Some(_) => Role::Syndrome,
        };
        let peer = |(i, s): (usize, &Stripe)| {
            let offset = s.offset.checked_add(slot.within)?;
            (i != slot.first).then_some((Stripe { devid: s.devid, offset }, role(i)))
        };
        Some(self.stripes.iter().enumerate().filter_map(peer).collect())
    }
}

/// All chunks of a filesystem.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ChunkMap {
    chunks: BTreeMap<u64, Chunk>,
    /// (devid, offset on it) -> (logical start, stripe index).
    places: BTreeMap<(u64, u64), (u64, usize)>,
}

impl ChunkMap {
    pub(crate) fn new(chunks: Vec<Chunk>) -> Self {
        let mut out = Self::default();
        for chunk in chunks {
            for (i, s) in chunk.stripes.iter().enumerate() {
                out.places.insert((s.devid, s.offset), (chunk.logical, i));
            }
            out.chunks.insert(chunk.logical, chunk);
        }
        out
    }

    /// Whether `logical` lies in a chunk. If not, the tree was read before that chunk was made.
    pub(crate) fn knows(&self, logical: u64) -> bool {
        self.chunk(logical).is_some()
    }

    fn chunk(&self, logical: u64) -> Option<&Chunk> {
        let (_, c) = self.chunks.range(..=logical).next_back()?;
        (logical - c.logical < c.len_bytes).then_some(c)
    }

    /// The pieces of `[logical, logical + len_bytes)`, in order; stops where no chunk is known.
    pub(crate) fn map(&self, mut logical: u64, mut len_bytes: u64) -> Vec<Mapped> {
        let mut out = Vec::new();
        while len_bytes > 0 {
            let Some((chunk, slot)) =
                self.chunk(logical).and_then(|c| Some((c, c.slot(logical - c.logical)?)))
            else {
                break;
            };
            let take = len_bytes.min(slot.run_bytes).min(chunk.logical + chunk.len_bytes - logical);
            let copies = chunk.stripes.iter().skip(slot.first).take(slot.copies);
            out.push(Mapped {
                logical,
                len_bytes: take,
                copies: copies
                    .map(|s| Stripe { devid: s.devid, offset: s.offset.saturating_add(slot.within) })
                    .collect(),
            });
            logical += take;
            len_bytes -= take;
        }
        out
    }

    /// What byte `offset` of a device is; `None` where no chunk covers it.
    pub(crate) fn find(&self, devid: u64, offset: u64) -> Option<Found> {
        let (&(d, start), &(logical, index)) = self.places.range(..=(devid, offset)).next_back()?;
        let chunk = self.chunks.get(&logical)?;
        let found = (d == devid).then(|| chunk.found(index, offset - start))??;
        Some(Found { offset: logical.checked_add(found.offset)?, ..found })
    }

    /// What a byte is computed from if its device is gone: the same bytes of its row on every other device. Empty for
    /// profiles without parity.
    pub(crate) fn peers(&self, logical: u64) -> Vec<(Stripe, Role)> {
        self.chunk(logical).and_then(|c| c.peers(logical - c.logical)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 65536;

    fn chunk(kind: u64, sub: u16, n: u64) -> Chunk {
        Chunk {
            logical: 1 << 30,
            len_bytes: 1 << 24,
            stripe_bytes: S,
            kind: kind | 1,
            sub_stripes: sub,
            stripes: (0..n).map(|i| Stripe { devid: i + 1, offset: (i + 1) << 28 }).collect(),
        }
    }

    fn legs(map: &ChunkMap, offset: u64) -> Vec<(u64, u64)> {
        let m = map.map((1 << 30) + offset, 1).remove(0);
        m.copies.iter().map(|s| (s.devid, s.offset - (s.devid << 28))).collect()
    }

    #[test]
    fn each_profile_follows_its_formula() {
        // (profile, sub stripes, devices, offset in the chunk, devices and offsets on them)
        type Row = (u64, u16, u64, u64, &'static [(u64, u64)]);
        let table: [Row; 16] = [
            (0, 1, 1, 5 * S + 7, &[(1, 5 * S + 7)]),
            (DUP, 1, 2, 5 * S, &[(1, 5 * S), (2, 5 * S)]),
            (RAID1, 1, 2, 9 * S + 1, &[(1, 9 * S + 1), (2, 9 * S + 1)]),
            (RAID1C3, 1, 3, S, &[(1, S), (2, S), (3, S)]),
            (RAID0, 1, 3, 0, &[(1, 0)]),
            (RAID0, 1, 3, S + 4, &[(2, 4)]),
            (RAID0, 1, 3, 4 * S, &[(2, S)]),
            (RAID10, 2, 4, 0, &[(1, 0), (2, 0)]),
            (RAID10, 2, 4, S, &[(3, 0), (4, 0)]),
            (RAID10, 2, 4, 2 * S + 3, &[(1, S + 3), (2, S + 3)]),
            (RAID5, 1, 3, 0, &[(1, 0)]),
            (RAID5, 1, 3, 2 * S, &[(2, S)]),
            (RAID5, 1, 3, 3 * S, &[(3, S)]),
            (RAID5, 1, 3, 5 * S, &[(1, 2 * S)]),
            (RAID6, 1, 5, 3 * S, &[(2, S)]),
            (RAID6, 1, 5, 14 * S, &[(2, 4 * S)]),
        ];
        for (kind, sub, n, offset, want) in table {
            let map = ChunkMap::new(vec![chunk(kind, sub, n)]);
            assert_eq!(legs(&map, offset), want, "kind {kind:#x} offset {offset}");
        }
    }

    #[test]
    fn the_way_back_meets_the_way_there_on_every_profile() {
        for (kind, sub, n) in [
            (0, 1, 1),
            (RAID1, 1, 2),
            (RAID0, 1, 4),
            (RAID10, 2, 6),
            (RAID5, 1, 4),
            (RAID6, 1, 6),
            (RAID1C4, 1, 4),
        ] {
            let map = ChunkMap::new(vec![chunk(kind, sub, n)]);
            for at in (0..1 << 24).step_by(4096 * 11) {
                let logical = (1 << 30) + at;
                for copy in &map.map(logical, 1)[0].copies {
                    let found = map.find(copy.devid, copy.offset).unwrap();
                    assert_eq!((found.offset, found.role), (logical, Role::Data), "kind {kind:#x}");
                }
            }
        }
    }

    #[test]
    fn parity_is_of_its_row() {
        let map = ChunkMap::new(vec![chunk(RAID5, 1, 3)]);
        let row = |n: u64, role| Some(Found { offset: (1 << 30) + n * 2 * S, len_bytes: 2 * S, role });
        assert_eq!(map.find(3, 3 << 28), row(0, Role::Parity));
        assert_eq!(map.find(1, (1 << 28) + S), row(1, Role::Parity));
        let map = ChunkMap::new(vec![chunk(RAID6, 1, 4)]);
        assert_eq!(map.find(3, 3 << 28), row(0, Role::Parity));
        assert_eq!(map.find(1, (1 << 28) + S), row(1, Role::Syndrome));
        let peers: Vec<(u64, Role)> =
            map.peers((1 << 30) + 2 * S).iter().map(|(s, r)| (s.devid, *r)).collect();
        assert_eq!(peers, [(1, Role::Syndrome), (3, Role::Data), (4, Role::Parity)]);
    }

    #[test]
    fn a_run_over_the_end_of_the_known_chunks_stops_there() {
        let map = ChunkMap::new(vec![chunk(RAID0, 1, 2)]);
        let pieces = map.map((1 << 30) + (1 << 24) - 100, 1000);
        assert_eq!(pieces.iter().map(|p| p.len_bytes).sum::<u64>(), 100);
        assert!(!map.knows(0));
    }

    #[test]
    fn a_chunk_of_nonsense_maps_nothing_and_does_not_panic() {
        for (kind, sub, n, stripe) in [
            (RAID10, 0, 0, S),
            (RAID10, 0, 4, S),
            (RAID10, 2, 5, S),
            (RAID5, 1, 1, S),
            (RAID0, 1, 2, 0),
            (RAID6, 1, 2, S),
        ] {
            let bad = Chunk { stripe_bytes: stripe, ..chunk(kind, sub, n) };
            let map = ChunkMap::new(vec![bad]);
            assert!(map.map(1 << 30, 1 << 20).iter().all(|m| m.copies.len() <= 2));
            let _ = (map.find(1, 1 << 28), map.peers(1 << 30));
        }
    }
}
