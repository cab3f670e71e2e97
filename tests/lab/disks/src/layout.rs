//! How a volume's bytes fall on its disks. Pure arithmetic, for simulated volumes.

/// A part of a request: `len_bytes` at byte `at` of disk number `disk`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Number of the disk.
    pub disk: usize,
    /// First byte there.
    pub at: u64,
    /// How many.
    pub len_bytes: u64,
}

/// A volume's layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Columns of `interleave_bytes` in turn, each column with `copies` disks that hold the same. One column and one
    /// copy is a plain disk; two columns and two copies a RAID 10.
    Striped {
        /// Columns.
        columns: usize,
        /// Copies of each.
        copies: usize,
        /// Bytes before the next column is used.
        interleave_bytes: u64,
    },
    /// As the 3-disk mirror with one column that Windows makes: copies of each slab go round over all disks.
    Rotated {
        /// Disks.
        disks: usize,
        /// Copies of each slab, on neighbouring disks.
        copies: usize,
        /// Size of a slab.
        slab_bytes: u64,
    },
    /// One parity block a row, which moves down one disk with every row (md's left-symmetric).
    Parity {
        /// Disks, parity included.
        disks: usize,
        /// Bytes of a row on one disk.
        chunk_bytes: u64,
    },
}

impl Layout {
    /// Disks that it needs.
    #[must_use]
    pub fn disks(&self) -> usize {
        match self {
            Self::Striped { columns, copies, .. } => columns * copies,
            Self::Rotated { disks, .. } | Self::Parity { disks, .. } => *disks,
        }
    }

    /// Where a read of `len_bytes` at `at` goes. `leg` says which copy the reader takes, modulo the copies.
    /// Pieces that touch on one disk are one.
    #[must_use]
    pub fn read(&self, at: u64, len_bytes: u64, leg: usize) -> Vec<Piece> {
        let mut pieces: Vec<Piece> = Vec::new();
        let (mut at, end) = (at, at + len_bytes);
        while at < end {
            let (disk, place, run) = self.place(at, leg);
            let n = run.min(end - at);
            match pieces.iter_mut().find(|p| p.disk == disk && p.at + p.len_bytes == place) {
                Some(piece) => piece.len_bytes += n,
                None => pieces.push(Piece { disk, at: place, len_bytes: n }),
            }
            at += n;
        }
        pieces
    }

    /// Disk and byte of one logical byte, and how many follow it there.
    fn place(&self, at: u64, leg: usize) -> (usize, u64, u64) {
        match *self {
            Self::Striped { columns, copies, interleave_bytes } => {
                let (block, inside) = (at / interleave_bytes, at % interleave_bytes);
                let column = (block % columns as u64) as usize;
                let run = if columns == 1 { u64::MAX } else { interleave_bytes - inside };
                (column * copies + leg % copies, block / columns as u64 * interleave_bytes + inside, run)
            }
            Self::Rotated { disks, copies, slab_bytes } => {
                let (slab, inside) = (at / slab_bytes, at % slab_bytes);
                // Copy c of slab s is the (s * copies + c)-th slab put on the disks in turn.
                let number = slab * copies as u64 + (leg % copies) as u64;
                let (row, disk) = (number / disks as u64, (number % disks as u64) as usize);
                (disk, row * slab_bytes + inside, slab_bytes - inside)
            }
            Self::Parity { disks, chunk_bytes } => {
                let data = disks as u64 - 1;
                let (block, inside) = (at / chunk_bytes, at % chunk_bytes);
                let (row, number) = (block / data, block % data);
                let parity = data - row % disks as u64;
                let disk = ((parity + 1 + number) % disks as u64) as usize;
                (disk, row * chunk_bytes + inside, chunk_bytes - inside)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const K: u64 = 1 << 10;

    #[test]
    fn columns_take_turns_and_the_leg_picks_the_copy() {
        let raid10 = Layout::Striped { columns: 2, copies: 2, interleave_bytes: 256 * K };
        assert_eq!(raid10.disks(), 4);
        assert_eq!(
            raid10.read(0, 1024 * K, 1),
            [Piece { disk: 1, at: 0, len_bytes: 512 * K }, Piece { disk: 3, at: 0, len_bytes: 512 * K }]
        );
        assert_eq!(
            raid10.read(255 * K, 2 * K, 0),
            [Piece { disk: 0, at: 255 * K, len_bytes: K }, Piece { disk: 2, at: 0, len_bytes: K }]
        );
    }

    #[test]
    fn a_plain_disk_is_one_piece_whatever_the_interleave() {
        let plain = Layout::Striped { columns: 1, copies: 1, interleave_bytes: 64 * K };
        assert_eq!(plain.read(5 * K, 900 * K, 3), [Piece { disk: 0, at: 5 * K, len_bytes: 900 * K }]);
    }

    #[test]
    fn a_rotated_mirror_of_three_disks_uses_all_of_them_by_slabs() {
        let mirror = Layout::Rotated { disks: 3, copies: 2, slab_bytes: 256 * K };
        let disks = |leg| (0..6).map(|i| mirror.read(i * 256 * K, K, leg)[0].disk).collect::<Vec<_>>();
        assert_eq!(disks(0), [0, 2, 1, 0, 2, 1]);
        assert_eq!(disks(1), [1, 0, 2, 1, 0, 2]);
    }

    #[test]
    fn parity_is_left_symmetric_and_no_data_lies_on_it() {
        // md raid5, 4 disks: row 0 has parity on disk 3, row 1 on disk 2; data goes on behind it.
        let raid5 = Layout::Parity { disks: 4, chunk_bytes: 64 * K };
        let disks = (0..9).map(|i| raid5.read(i * 64 * K, K, 0)[0].disk).collect::<Vec<_>>();
        assert_eq!(disks, [0, 1, 2, 3, 0, 1, 2, 3, 0]);
        let row = raid5.read(0, 3 * 64 * K * 400, 0);
        let total: u64 = row.iter().map(|p| p.len_bytes).sum();
        assert_eq!(total, 3 * 64 * K * 400);
    }
}
