//! Linux md over members of one size: drivers/md/raid0.c `map_sector`, raid10.c `__raid10_find_phys`, raid5.c `raid5_compute_sector`
//! (left-symmetric, the default of mdadm). The member's data offset is left out: it moves everything by the same bytes.

use super::{Copies, Place, Row, Run};

/// An array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Md {
    /// Chunks in turn.
    Raid0 {
        /// Bytes of a chunk.
        chunk_bytes: u64,
    },
    /// Everything on every disk.
    Raid1,
    /// `near` copies side by side, `far` sets of them further inward (or, with `is_offset`, in the next row).
    Raid10 {
        /// Copies side by side.
        near: usize,
        /// Sets further away.
        far: usize,
        /// Whether those lie in the next row.
        is_offset: bool,
        /// Bytes of a chunk.
        chunk_bytes: u64,
    },
    /// raid5 with one, raid6 with two units of parity in each row.
    Parity {
        /// 1 or 2.
        parity: usize,
        /// Bytes of a chunk.
        chunk_bytes: u64,
    },
}

impl Md {
    pub(super) fn columns(self, disks: usize) -> usize {
        match self {
            Self::Raid0 { .. } => disks,
            Self::Raid1 => 1,
            Self::Raid10 { near, far, .. } => (disks / (near * far)).max(1),
            Self::Parity { parity, .. } => disks - parity,
        }
    }

    pub(super) fn size_bytes(self, disks: usize, disk_bytes: u64) -> u64 {
        let whole = |chunk: u64| disk_bytes / chunk * chunk;
        match self {
            Self::Raid0 { chunk_bytes } => whole(chunk_bytes) * disks as u64,
            Self::Raid1 => disk_bytes,
            Self::Raid10 { near, far, chunk_bytes, .. } => {
                // As `raid10_size`: chunks a member, over the far sets, times members, over the near copies.
                let chunks = disk_bytes / chunk_bytes / far as u64 * disks as u64 / near as u64;
                // The last row of the offset form has no next one to be copied to on every disk.
                chunks.saturating_sub(disks as u64) * chunk_bytes
            }
            Self::Parity { parity, chunk_bytes } => whole(chunk_bytes) * (disks - parity) as u64,
        }
    }

    pub(super) fn run(self, disks: usize, disk_bytes: u64, at: u64) -> Run {
        match self {
            Self::Raid1 => Run {
                len_bytes: disk_bytes.saturating_sub(at).max(1),
                copies: Copies::of(disks, |disk| Place { disk, offset: at }),
            },
            Self::Raid0 { chunk_bytes } => {
                let (chunk, byte) = (at / chunk_bytes, at % chunk_bytes);
                let disk = number(chunk % disks as u64);
                let offset = chunk / disks as u64 * chunk_bytes + byte;
                Run { len_bytes: chunk_bytes - byte, copies: Copies::of(1, |_| Place { disk, offset }) }
            }
            Self::Raid10 { near, far, is_offset, chunk_bytes } => {
                let byte = at % chunk_bytes;
                let k = at / chunk_bytes * near as u64;
                let stripe = k / disks as u64 * if is_offset { far as u64 } else { 1 };
                let first = number(k % disks as u64);
                let stride = if is_offset {
                    chunk_bytes
                } else {
                    far_stride(disks, disk_bytes, near, far, chunk_bytes)
                };
                let place = |copy: usize| {
                    let (n, f) = (copy / far, copy % far);
                    // A near copy that runs over the last disk is on the first one, a row further.
                    let (wraps, slot) = ((first + n) / disks, (first + n) % disks);
                    Place {
                        disk: (slot + f * near) % disks,
                        offset: (stripe + wraps as u64) * chunk_bytes + byte + f as u64 * stride,
                    }
                };
                Run { len_bytes: chunk_bytes - byte, copies: Copies::of(near * far, place) }
            }
            Self::Parity { parity, chunk_bytes } => {
                let data = disks - parity;
                let (chunk, byte) = (at / chunk_bytes, at % chunk_bytes);
                let (row, unit) = (chunk / data as u64, number(chunk % data as u64));
                let disk = (first_parity(disks, row) + parity + unit) % disks;
                let offset = row * chunk_bytes + byte;
                Run { len_bytes: chunk_bytes - byte, copies: Copies::of(1, |_| Place { disk, offset }) }
            }
        }
    }

    pub(super) fn row(self, disks: usize, at: u64) -> Option<Row> {
        let Self::Parity { parity, chunk_bytes } = self else { return None };
        let data_bytes = chunk_bytes * (disks - parity) as u64;
        let row = at / data_bytes;
        let place =
            |p: usize| Place { disk: (first_parity(disks, row) + p) % disks, offset: row * chunk_bytes };
        Some(Row {
            start: row * data_bytes,
            data_bytes,
            unit_bytes: chunk_bytes,
            parity: (0..parity).map(place).collect(),
        })
    }
}

/// Left-symmetric: it moves one disk back with every row, and data goes on behind it.
fn first_parity(disks: usize, row: u64) -> usize {
    disks - 1 - number(row % disks as u64)
}

/// Where the next far set begins: `setup_geo`'s stride.
fn far_stride(disks: usize, disk_bytes: u64, near: usize, far: usize, chunk_bytes: u64) -> u64 {
    let chunks = disk_bytes / chunk_bytes;
    let data = chunks / far as u64 * disks as u64 / near as u64;
    let each = (data * (near * far) as u64).div_ceil(disks as u64);
    each / far as u64 * chunk_bytes
}

fn number(n: u64) -> usize {
    usize::try_from(n).unwrap_or(0)
}
