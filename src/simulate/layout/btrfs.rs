//! btrfs: fs/btrfs/volumes.c. Data is allocated in chunks, each on the disks that have most room (`btrfs_create_chunk`); with equal disks, round
//! and round. Stripes of 64 KiB take turns within one. Every copy of raid1 holds the whole chunk.

use super::{Copies, Place, Row, Run};

/// `BTRFS_STRIPE_LEN`.
const STRIPE: u64 = 64 << 10;

/// The first byte of a device that chunks may use (`BTRFS_DEVICE_RANGE_RESERVED`).
const RESERVED: u64 = 1 << 20;

/// Of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// A chunk on one disk.
    Single,
    /// Stripes over all disks.
    Raid0,
    /// raid1, raid1c3, raid1c4: so many disks hold the same chunk.
    Mirror {
        /// Copies.
        copies: usize,
    },
    /// Stripes over pairs of all disks.
    Raid10,
    /// raid5 and raid6, over all disks.
    Parity {
        /// 1 or 2.
        parity: usize,
    },
}

impl Profile {
    /// Disks of a chunk.
    fn stripes(self, disks: usize) -> usize {
        match self {
            Self::Single => 1,
            Self::Mirror { copies } => copies,
            Self::Raid10 => disks / 2 * 2,
            Self::Raid0 | Self::Parity { .. } => disks,
        }
    }

    pub(super) fn data_stripes(self, disks: usize) -> usize {
        match self {
            Self::Single | Self::Mirror { .. } => 1,
            Self::Raid0 => disks,
            Self::Raid10 => disks / 2,
            Self::Parity { parity } => disks - parity,
        }
    }

    /// Bytes of a chunk on one disk: 1 GiB, less on small pools, where a chunk is at most a tenth of all (`decide_stripe_size_regular`).
    fn stripe_bytes(self, disks: usize, disk_bytes: u64) -> u64 {
        const STEP: u64 = 16 << 20;
        let tenth = (disk_bytes.saturating_mul(disks as u64) / 10).min(10 << 30);
        let each = (tenth / self.data_stripes(disks) as u64).next_multiple_of(STEP);
        each.clamp(STEP, 1 << 30).min((disk_bytes.saturating_sub(RESERVED) / STRIPE * STRIPE).max(STRIPE))
    }

    pub(super) fn size_bytes(self, disks: usize, disk_bytes: u64) -> u64 {
        let each = self.stripe_bytes(disks, disk_bytes);
        let all = disk_bytes.saturating_sub(RESERVED) / each * disks as u64;
        all / self.stripes(disks) as u64 * each * self.data_stripes(disks) as u64
    }

    /// Number of the chunk of a byte, and the byte in it.
    fn chunk(self, disks: usize, each: u64, at: u64) -> (u64, u64) {
        let len = each * self.data_stripes(disks) as u64;
        (at / len, at % len)
    }

    /// Stripe `i` of a chunk, at a byte of it.
    fn stripe(self, disks: usize, each: u64, chunk: u64, i: usize, inside: u64) -> Place {
        let count = self.stripes(disks);
        // Where a chunk takes all disks alike, their order turns round with every chunk: they are sorted by free room, and are equal.
        let i = if count == disks && chunk % 2 == 1 { count - 1 - i } else { i };
        let number = chunk * count as u64 + i as u64;
        let disk = usize::try_from(number % disks as u64).unwrap_or(0);
        Place { disk, offset: RESERVED + number / disks as u64 * each + inside }
    }

    pub(super) fn run(self, disks: usize, disk_bytes: u64, at: u64) -> Run {
        let each = self.stripe_bytes(disks, disk_bytes);
        let (chunk, inside) = self.chunk(disks, each, at);
        let place = |i: usize, byte: u64| self.stripe(disks, each, chunk, i, byte);
        let (number, byte) = (inside / STRIPE, inside % STRIPE);
        let of = |n: u64| usize::try_from(n).unwrap_or(0);
        match self {
            Self::Single | Self::Mirror { .. } => Run {
                len_bytes: each - inside,
                copies: Copies::of(self.stripes(disks), |copy| place(copy, inside)),
            },
            Self::Raid0 => {
                let (row, i) = (number / disks as u64, of(number % disks as u64));
                let copies = Copies::of(1, |_| place(i, row * STRIPE + byte));
                Run { len_bytes: STRIPE - byte, copies }
            }
            Self::Raid10 => {
                let pairs = disks as u64 / 2;
                let (row, pair) = (number / pairs, of(number % pairs));
                let copies = Copies::of(2, |copy| place(pair * 2 + copy, row * STRIPE + byte));
                Run { len_bytes: STRIPE - byte, copies }
            }
            Self::Parity { parity } => {
                let data = (disks - parity) as u64;
                let (row, i) = (number / data, number % data);
                let slot = of((row + i) % disks as u64);
                let copies = Copies::of(1, |_| place(slot, row * STRIPE + byte));
                Run { len_bytes: STRIPE - byte, copies }
            }
        }
    }

    pub(super) fn row(self, disks: usize, disk_bytes: u64, at: u64) -> Option<Row> {
        let Self::Parity { parity } = self else { return None };
        let each = self.stripe_bytes(disks, disk_bytes);
        let (chunk, inside) = self.chunk(disks, each, at);
        let data = (disks - parity) as u64;
        let (data_bytes, row) = (STRIPE * data, inside / (STRIPE * data));
        let place = |p: u64| {
            let slot = usize::try_from((row + data + p) % disks as u64).unwrap_or(0);
            self.stripe(disks, each, chunk, slot, row * STRIPE)
        };
        Some(Row {
            start: at - inside + row * data_bytes,
            data_bytes,
            unit_bytes: STRIPE,
            parity: (0..parity as u64).map(place).collect(),
        })
    }
}
