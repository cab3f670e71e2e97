//! ZFS: records one after the other, a megabyte for each disk of data to one vdev before the next has its turn (module/zfs/metaslab.c,
//! `metaslab_aliquot`); within a mirror everything on every disk, within a raidz each record cut into columns
//! (module/zfs/vdev_raidz.c, `vdev_raidz_map_alloc`). Records are taken to be full and not compressed, which films are.

use super::{Copies, Place, Run};

/// Sectors of 4 KiB.
const ASHIFT: u32 = 12;

/// Where the first byte of a vdev's space is: behind two labels and the boot block (`VDEV_LABEL_START_SIZE`).
const START: u64 = 4 << 20;

/// `metaslab_aliquot`.
const ALIQUOT: u64 = 1 << 20;

/// What the disks of a vdev do together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vdev {
    /// The same on each; one disk is a mirror of one.
    Mirror,
    /// Columns, so many of them parity.
    Raidz {
        /// 1, 2 or 3.
        parity: usize,
    },
}

/// A pool of vdevs that are alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zfs {
    /// Their kind.
    pub vdev: Vdev,
    /// How many.
    pub vdevs: usize,
    /// Disks of each.
    pub width: usize,
    /// Bytes of a record (`recordsize`).
    pub record_bytes: u64,
}

impl Zfs {
    pub(super) fn columns(self) -> usize {
        match self.vdev {
            Vdev::Mirror => self.vdevs,
            Vdev::Raidz { parity } => self.vdevs * (self.width - parity),
        }
    }

    /// What a record takes of its vdev: `vdev_raidz_asize`.
    fn record_on_vdev(self) -> u64 {
        match self.vdev {
            Vdev::Mirror => self.record_bytes.next_multiple_of(1 << ASHIFT),
            Vdev::Raidz { parity } => {
                let (parity, data) = (parity as u64, (self.width - parity) as u64);
                let sectors = self.record_bytes.div_ceil(1 << ASHIFT);
                // Rounded up so that a hole of fewer sectors than parity needs is never left.
                (sectors + parity * sectors.div_ceil(data)).next_multiple_of(parity + 1) << ASHIFT
            }
        }
    }

    /// Records that one vdev takes before the next.
    fn turn(self) -> u64 {
        let disks = match self.vdev {
            Vdev::Mirror => 1,
            Vdev::Raidz { parity } => self.width - parity,
        };
        (ALIQUOT * disks as u64).div_ceil(self.record_on_vdev())
    }

    pub(super) fn size_bytes(self, disk_bytes: u64) -> u64 {
        let room = disk_bytes.saturating_sub(2 * START);
        let vdev = match self.vdev {
            Vdev::Mirror => room,
            Vdev::Raidz { .. } => room.saturating_mul(self.width as u64),
        };
        // Whole turns of every vdev.
        let turns = vdev / self.record_on_vdev() / self.turn();
        turns * self.turn() * self.vdevs as u64 * self.record_bytes
    }

    pub(super) fn run(self, at: u64) -> Run {
        let (record, inside) = (at / self.record_bytes, at % self.record_bytes);
        let (turn, vdevs) = (self.turn(), self.vdevs as u64);
        let round = record / turn;
        let first = usize::try_from(round % vdevs).unwrap_or(0) * self.width;
        let offset = (round / vdevs * turn + record % turn) * self.record_on_vdev();
        match self.vdev {
            Vdev::Mirror => {
                let place = |disk: usize| Place { disk: first + disk, offset: START + offset + inside };
                Run { len_bytes: self.record_bytes - inside, copies: Copies::of(self.width, place) }
            }
            Vdev::Raidz { parity } => {
                let (place, len_bytes) = self.column(parity, offset, inside);
                let place = Place { disk: first + place.disk, offset: START + place.offset };
                Run { len_bytes, copies: Copies::of(1, |_| place) }
            }
        }
    }

    /// The column of a record at `offset` of the vdev that holds its byte `inside`: where, and how many follow.
    fn column(self, parity: usize, offset: u64, inside: u64) -> (Place, u64) {
        let (n, p) = (self.width as u64, parity as u64);
        let (b, s) = (offset >> ASHIFT, self.record_bytes.div_ceil(1 << ASHIFT));
        let (first, row) = (b % n, (b / n) << ASHIFT);
        let (q, rest) = (s / (n - p), s % (n - p));
        let big = if rest == 0 { 0 } else { rest + p };
        let columns = if q == 0 { big } else { n };
        let mut at = 0;
        for j in p..columns {
            let len = (q + u64::from(j < big)) << ASHIFT;
            if inside < at + len {
                // With single parity, parity and the first data column change places every megabyte (`vdev_raidz_map_alloc`).
                let slot = if p == 1 && offset & (1 << 20) != 0 && j == 1 { 0 } else { j };
                let disk = first + slot;
                let (disk, row) = if disk >= n { (disk - n, row + (1 << ASHIFT)) } else { (disk, row) };
                let byte = inside - at;
                let left = (len - byte).min(self.record_bytes - inside);
                return (Place { disk: usize::try_from(disk).unwrap_or(0), offset: row + byte }, left);
            }
            at += len;
        }
        // Not reached: the columns hold the record.
        (Place::default(), (self.record_bytes - inside).max(1))
    }
}
