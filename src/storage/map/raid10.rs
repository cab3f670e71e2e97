//! md raid10: near, far and offset copies, far sets. Formulas: drivers/md/raid10.c `setup_geo`, `calc_sectors`,
//! `__raid10_find_phys` and, for the way back, `raid10_find_virt`; bytes throughout.

use super::raid0::At;

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Raid10 {
    chunk_bytes: u64,
    disks: u64,
    near: u64,
    far: u64,
    is_offset: bool,
    /// Disks among which far copies move.
    set: u64,
    /// From one far copy to the next on a member.
    stride: u64,
}

impl Raid10 {
    /// By the kernel's layout number; `None` for one that it would refuse.
    pub(crate) fn new(layout: u32, disks: u32, chunk_bytes: u64, component_bytes: u64) -> Option<Self> {
        let disks = u64::from(disks);
        let (near, far) = (u64::from(layout & 255), u64::from(layout >> 8 & 255));
        let is_offset = layout & 1 << 16 != 0;
        if near == 0 || far == 0 || chunk_bytes == 0 || near * far > disks {
            return None;
        }
        let set = match layout >> 17 {
            0 => disks,
            1 => disks / far,
            2 => far * near,
            _ => return None,
        };
        let stride = if is_offset {
            chunk_bytes
        } else {
            // Chunks of the array, then of each member, rounded up; a far copy has its part of them.
            let data = (component_bytes / chunk_bytes / far).checked_mul(disks)? / near;
            let each = data.checked_mul(near * far)?.div_ceil(disks);
            (each / far).checked_mul(chunk_bytes)?
        };
        (set > 0).then_some(Self { chunk_bytes, disks, near, far, is_offset, set, stride })
    }

    /// How many copies there are.
    pub(crate) fn copies(&self) -> u64 {
        self.near * self.far
    }

    /// The places of a byte, in the kernel's order; all have the same run.
    pub(crate) fn places(&self, offset: u64) -> Option<Vec<At>> {
        let (number, rest) = (offset / self.chunk_bytes, offset % self.chunk_bytes);
        let run_bytes = self.chunk_bytes - rest;
        let first = number.checked_mul(self.near)?;
        let (mut row, mut disk) = (first / self.disks, first % self.disks);
        if self.is_offset {
            row = row.checked_mul(self.far)?;
        }
        let mut at = row.checked_mul(self.chunk_bytes)?.checked_add(rest)?;
        let last_set = (self.disks / self.set - 1) * self.set;
        let left_over = self.disks % self.set;
        let mut out = Vec::with_capacity(usize::try_from(self.copies()).ok()?);
        for _ in 0..self.near {
            let (mut d, mut a) = (disk, at);
            out.push(At { slot: usize::try_from(d).ok()?, offset: a, run_bytes });
            for _ in 1..self.far {
                let of = d / self.set;
                d += self.near;
                if left_over > 0 && d > last_set {
                    d = last_set + (d - last_set) % (self.set + left_over);
                } else {
                    d = d % self.set + self.set * of;
                }
                a = a.checked_add(self.stride)?;
                out.push(At { slot: usize::try_from(d).ok()?, offset: a, run_bytes });
            }
            disk += 1;
            if disk >= self.disks {
                disk = 0;
                at = at.checked_add(self.chunk_bytes)?;
            }
        }
        Some(out)
    }

    /// The byte of the array whose copy lies at `offset` of a member.
    pub(crate) fn back(&self, slot: usize, offset: u64) -> Option<u64> {
        let mut disk = slot as u64;
        let (mut start, mut size) = (disk / self.set * self.set, self.set);
        let left_over = self.disks % self.set;
        let last_set = (self.disks / self.set - 1) * self.set;
        if left_over > 0 && disk >= last_set {
            (start, size) = (last_set, self.set + left_over);
        }
        let rest = offset % self.chunk_bytes;
        let row = if self.is_offset {
            let number = offset / self.chunk_bytes;
            disk = (disk + size).checked_sub(number % self.far * self.near)?;
            if disk >= start + size {
                disk -= size;
            }
            number / self.far
        } else {
            let copy = offset.checked_div(self.stride).unwrap_or(0);
            if copy >= self.far {
                return None;
            }
            for _ in 0..copy {
                disk = if disk < self.near + start { disk + size - self.near } else { disk - self.near };
            }
            (offset - copy * self.stride) / self.chunk_bytes
        };
        let number = row.checked_mul(self.disks)?.checked_add(disk)? / self.near;
        let out = number.checked_mul(self.chunk_bytes)?.checked_add(rest)?;
        // Unused space and odd numbers of members have places that no byte has.
        self.places(out)?.iter().any(|p| p.slot == slot && p.offset == offset).then_some(out)
    }
}
