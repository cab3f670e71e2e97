//! md raid4, raid5 and raid6: where data, parity (P) and the second syndrome (Q) of each row lie. Formula:
//! drivers/md/raid5.c `raid5_compute_sector`; layouts by their numbers in drivers/md/raid5.h. Bytes throughout.

use super::piece::Role;

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parity {
    chunk_bytes: u64,
    disks: u64,
    layout: Layout,
}

/// Where the parity of a row is and in which order the data take the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    Five(Five),
    Six(Six),
    /// A raid5 layout over all disks but the last, which has Q.
    FiveAndLast(Five),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Five {
    LeftAsymmetric,
    RightAsymmetric,
    LeftSymmetric,
    RightSymmetric,
    First,
    Last,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Six {
    LeftAsymmetric,
    RightAsymmetric,
    LeftSymmetric,
    RightSymmetric,
    First,
    Last,
    /// 8 (`ROTATING_ZERO_RESTART`): places as in RightAsymmetric.
    ZeroRestart,
    /// 9 (`ROTATING_N_RESTART`): LeftAsymmetric, one row on.
    NRestart,
    /// 10 (`ROTATING_N_CONTINUE`): LeftSymmetric with Q before P.
    NContinue,
}

impl Five {
    fn of(number: u32) -> Option<Self> {
        Some(match number {
            0 => Self::LeftAsymmetric,
            1 => Self::RightAsymmetric,
            2 => Self::LeftSymmetric,
            3 => Self::RightSymmetric,
            4 => Self::First,
            5 => Self::Last,
            _ => return None,
        })
    }

    /// Slot of P in a row of `n` disks.
    fn parity(self, row: u64, n: u64) -> u64 {
        match self {
            Self::LeftAsymmetric | Self::LeftSymmetric => n - 1 - row % n,
            Self::RightAsymmetric | Self::RightSymmetric => row % n,
            Self::First => 0,
            Self::Last => n - 1,
        }
    }

    fn data(self, row: u64, n: u64, index: u64) -> u64 {
        let p = self.parity(row, n);
        match self {
            Self::LeftSymmetric | Self::RightSymmetric => (p + 1 + index) % n,
            _ => index + u64::from(index >= p),
        }
    }
}

impl Six {
    fn of(number: u32) -> Option<Self> {
        Some(match number {
            0 => Self::LeftAsymmetric,
            1 => Self::RightAsymmetric,
            2 => Self::LeftSymmetric,
            3 => Self::RightSymmetric,
            4 => Self::First,
            5 => Self::Last,
            8 => Self::ZeroRestart,
            9 => Self::NRestart,
            10 => Self::NContinue,
            _ => return None,
        })
    }

    /// Slots of P and Q.
    fn parity(self, row: u64, n: u64) -> (u64, u64) {
        let p = match self {
            Self::LeftAsymmetric | Self::LeftSymmetric | Self::NContinue => n - 1 - row % n,
            Self::RightAsymmetric | Self::RightSymmetric | Self::ZeroRestart => row % n,
            Self::NRestart => n - 1 - (row % n + 1) % n,
            Self::First => 0,
            Self::Last => n - 2,
        };
        let q = if self == Self::NContinue { (p + n - 1) % n } else { (p + 1) % n };
        (p, q)
    }

    fn data(self, row: u64, n: u64, index: u64) -> u64 {
        let (p, _) = self.parity(row, n);
        match self {
            Self::LeftSymmetric | Self::RightSymmetric => (p + 2 + index) % n,
            Self::NContinue => (p + 1 + index) % n,
            // Q D D D P: Q is first where P is last.
            _ if p == n - 1 => index + 1,
            _ => index + if index >= p { 2 } else { 0 },
        }
    }
}

/// Where a byte lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InRow {
    pub(crate) slot: usize,
    /// On each member of its row.
    pub(crate) offset: u64,
    /// Bytes until the next member's turn.
    pub(crate) run_bytes: u64,
    pub(crate) row: u64,
}

/// What lies on a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    /// First byte of the array: of the data there, or of the row whose parity it is.
    pub(crate) offset: u64,
    /// 1 for data, the data bytes of the row for its parity.
    pub(crate) len_bytes: u64,
    pub(crate) role: Role,
}

impl Parity {
    /// raid4 and raid5 by the layout's number (raid4 is number 5).
    pub(crate) fn five(layout: u32, disks: u32, chunk_bytes: u64) -> Option<Self> {
        let layout = Layout::Five(Five::of(layout)?);
        (disks >= 2 && chunk_bytes > 0).then_some(Self { chunk_bytes, disks: u64::from(disks), layout })
    }

    pub(crate) fn six(layout: u32, disks: u32, chunk_bytes: u64) -> Option<Self> {
        let layout = match layout {
            16..=20 => Layout::FiveAndLast(Five::of(layout - 16)?),
            _ => Layout::Six(Six::of(layout)?),
        };
        (disks >= 3 && chunk_bytes > 0).then_some(Self { chunk_bytes, disks: u64::from(disks), layout })
    }

    /// Members that hold data in each row.
    pub(crate) fn columns(&self) -> u64 {
        match self.layout {
            Layout::Five(_) => self.disks - 1,
            Layout::Six(_) | Layout::FiveAndLast(_) => self.disks - 2,
        }
    }

    fn data_slot(&self, row: u64, index: u64) -> u64 {
        match self.layout {
            Layout::Five(five) => five.data(row, self.disks, index),
            Layout::Six(six) => six.data(row, self.disks, index),
            Layout::FiveAndLast(five) => five.data(row, self.disks - 1, index),
        }
    }

    /// Slots of P and, where there is one, Q.
    fn parity_slots(&self, row: u64) -> (u64, Option<u64>) {
        match self.layout {
            Layout::Five(five) => (five.parity(row, self.disks), None),
            Layout::Six(six) => {
                let (p, q) = six.parity(row, self.disks);
                (p, Some(q))
            }
            Layout::FiveAndLast(five) => (five.parity(row, self.disks - 1), Some(self.disks - 1)),
        }
    }

    pub(crate) fn place(&self, offset: u64) -> Option<InRow> {
        let (number, rest) = (offset / self.chunk_bytes, offset % self.chunk_bytes);
        let (row, index) = (number / self.columns(), number % self.columns());
        Some(InRow {
            slot: usize::try_from(self.data_slot(row, index)).ok()?,
            offset: row * self.chunk_bytes + rest,
            run_bytes: self.chunk_bytes - rest,
            row,
        })
    }

    /// What each slot holds in a row.
    pub(crate) fn role(&self, row: u64, slot: usize) -> Role {
        let (p, q) = self.parity_slots(row);
        if p == slot as u64 {
            Role::Parity
        } else if q == Some(slot as u64) {
            Role::Syndrome
        } else {
            Role::Data
        }
    }

    /// What lies at `offset` of a member.
    pub(crate) fn back(&self, slot: usize, offset: u64) -> Option<Found> {
        let (row, rest) = (offset / self.chunk_bytes, offset % self.chunk_bytes);
        let first = row.checked_mul(self.columns())?;
        let role = self.role(row, slot);
        if role != Role::Data {
            let (offset, len_bytes) =
                (first.checked_mul(self.chunk_bytes)?, self.columns() * self.chunk_bytes);
            return Some(Found { offset, len_bytes, role });
        }
        let index = (0..self.columns()).find(|i| self.data_slot(row, *i) == slot as u64)?;
        let offset = (first + index).checked_mul(self.chunk_bytes)?.checked_add(rest)?;
        Some(Found { offset, len_bytes: 1, role })
    }
}
