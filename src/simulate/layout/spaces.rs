//! Windows Storage Spaces, as its vendor's FAQ texts and recovery tools describe it: a space is made of slabs of 256 MiB. Columns × copies slabs
//! on as many disks make a group; within it, columns take turns every `interleave` bytes (256 KiB unless said otherwise), and copies of a
//! column hold the same. Groups are put on the disks that have most room: with equal disks, round and round.

use super::{Copies, Place, Row, Run};

/// What a space keeps against the loss of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resiliency {
    /// Nothing.
    Simple,
    /// Copies of each column.
    Mirror {
        /// 2 or 3.
        copies: usize,
    },
    /// Columns of parity, of all the columns.
    Parity {
        /// 1, or 2 for dual parity.
        parity: usize,
    },
}

/// A space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spaces {
    /// See [`Resiliency`].
    pub resiliency: Resiliency,
    /// Columns, those of parity included.
    pub columns: usize,
    /// Bytes before the next column is used.
    pub interleave_bytes: u64,
    /// Bytes of a slab.
    pub slab_bytes: u64,
}

impl Spaces {
    pub(super) fn copies(self) -> usize {
        if let Resiliency::Mirror { copies } = self.resiliency { copies } else { 1 }
    }

    pub(super) fn parity(self) -> usize {
        if let Resiliency::Parity { parity } = self.resiliency { parity } else { 0 }
    }

    pub(super) fn data_columns(self) -> usize {
        self.columns - self.parity()
    }

    /// Slabs of a group.
    pub(super) fn width(self) -> usize {
        self.columns * self.copies()
    }

    /// Bytes of data of a group.
    fn group_bytes(self) -> u64 {
        self.slab_bytes * self.data_columns() as u64
    }

    pub(super) fn size_bytes(self, disks: usize, disk_bytes: u64) -> u64 {
        let slabs = disk_bytes / self.slab_bytes * disks as u64;
        slabs / self.width() as u64 * self.group_bytes()
    }

    /// Slab number `i` of group `group`, at a byte within it.
    fn slab(self, disks: usize, group: u64, i: usize, inside: u64) -> Place {
        let number = group * self.width() as u64 + i as u64;
        let disk = usize::try_from(number % disks as u64).unwrap_or(0);
        Place { disk, offset: number / disks as u64 * self.slab_bytes + inside }
    }

    /// Group, row of it, number of the unit in the row, byte of the unit.
    fn split(self, at: u64) -> (u64, u64, usize, u64) {
        let (group, inside) = (at / self.group_bytes(), at % self.group_bytes());
        let (block, byte) = (inside / self.interleave_bytes, inside % self.interleave_bytes);
        let columns = self.data_columns() as u64;
        (group, block / columns, usize::try_from(block % columns).unwrap_or(0), byte)
    }

    /// The first column of parity in a row. Which one Windows takes is not published; like everybody, it moves on with every row.
    fn parity_column(self, row: u64) -> usize {
        let columns = self.columns as u64;
        usize::try_from(columns - 1 - row % columns).unwrap_or(0)
    }

    fn column(self, row: u64, unit: usize) -> usize {
        match self.parity() {
            0 => unit,
            parity => (self.parity_column(row) + parity + unit) % self.columns,
        }
    }

    pub(super) fn run(self, disks: usize, at: u64) -> Run {
        let (group, row, unit, byte) = self.split(at);
        let inside = row * self.interleave_bytes + byte;
        let first = self.column(row, unit) * self.copies();
        // With one column there is nobody to take turns with.
        let len_bytes =
            if self.columns == 1 { self.slab_bytes - inside } else { self.interleave_bytes - byte };
        Run { len_bytes, copies: Copies::of(self.copies(), |c| self.slab(disks, group, first + c, inside)) }
    }

    pub(super) fn row(self, disks: usize, at: u64) -> Option<Row> {
        if self.parity() == 0 {
            return None;
        }
        let (group, row, ..) = self.split(at);
        let data_bytes = self.interleave_bytes * self.data_columns() as u64;
        let first = self.parity_column(row);
        let place =
            |p: usize| self.slab(disks, group, (first + p) % self.columns, row * self.interleave_bytes);
        Some(Row {
            start: group * self.group_bytes() + row * data_bytes,
            data_bytes,
            unit_bytes: self.interleave_bytes,
            parity: (0..self.parity()).map(place).collect(),
        })
    }
}
