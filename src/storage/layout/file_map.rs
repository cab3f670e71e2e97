//! The map of one file: its runs on the filesystem, and the block map of what that lies on. Pure.
//!
//! A look-up costs a binary search over the runs and the arithmetic of the layers below, per piece; nothing of the size
//! of the file is kept but its runs.

use std::sync::Arc;

use spindle_base::units::ByteRange;

use crate::map::piece::{Piece, Role};
use crate::map::{Node, Run};
use crate::sys::fiemap::Extents;

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileMap {
    extents: Extents,
    below: Arc<Node>,
    /// Indices of the runs by their physical address.
    by_physical: Vec<u32>,
}

/// What of a file lies at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FoundInFile {
    /// Byte of the file: the one there, or the first of those that the parity there is of.
    pub(crate) offset: u64,
    pub(crate) role: Role,
}

/// Runs that overlap on the disk (a file that shares blocks with itself) are searched this far back.
const OVERLAPS: usize = 8;

impl FileMap {
    pub(crate) fn new(extents: Extents, below: Arc<Node>) -> Self {
        let mut by_physical: Vec<u32> = (0_u32..).take(extents.runs.len()).collect();
        by_physical.sort_by_key(|i| extents.runs[*i as usize].physical);
        Self { extents, below, by_physical }
    }

    pub(crate) fn extents(&self) -> &Extents {
        &self.extents
    }

    /// What the filesystem lies on, in its addresses.
    pub(crate) fn below(&self) -> &Arc<Node> {
        &self.below
    }

    /// The pieces of a range, in order. What is not mapped is missing from them.
    pub(crate) fn pieces(&self, range: ByteRange) -> Vec<Piece> {
        self.placed(range, false)
    }

    /// As `pieces`, each also with what it would be computed from if its disk were gone: a disk may go after the map was
    /// made.
    pub(crate) fn rows(&self, range: ByteRange) -> Vec<Piece> {
        self.placed(range, true)
    }

    fn placed(&self, range: ByteRange, with_rows: bool) -> Vec<Piece> {
        let mut out = Vec::new();
        let (start, len_bytes) = (range.start(), range.len_bytes());
        self.walk(Run { at: start, offset: start, len_bytes, with_rows }, &mut out);
        out
    }

    /// As `pieces`, appended, for a file that is itself the ground of another device.
    pub(crate) fn walk(&self, run: Run, out: &mut Vec<Piece>) {
        let runs = &self.extents.runs;
        let Some(end) = run.offset.checked_add(run.len_bytes) else { return };
        let from = runs.partition_point(|e| e.offset + e.len_bytes <= run.offset);
        for e in runs[from..].iter().take_while(|e| e.offset < end) {
            let start = e.offset.max(run.offset);
            let part = Run {
                at: run.at + (start - run.offset),
                offset: e.physical + (start - e.offset),
                len_bytes: (e.offset + e.len_bytes).min(end) - start,
                with_rows: run.with_rows,
            };
            let first = out.len();
            self.below.walk(part, out);
            if e.encoded {
                // Not by how it is asked for: any of its bytes takes all of what is stored.
                let why: Arc<str> =
                    "some of it is stored compressed: lengths are those of the contents".into();
                out[first..].iter_mut().for_each(|p| p.doubt = Some(Arc::clone(&why)));
            }
        }
    }

    /// The byte of the file that lies at `offset` of a disk, if it is of this file: data, or the first byte of it that
    /// the parity there covers.
    pub(crate) fn find(&self, disk: usize, offset: u64) -> Option<FoundInFile> {
        let mut hits = Vec::new();
        self.below.find(disk, offset, &mut hits);
        let found = |h: &crate::map::Hit| {
            Some(FoundInFile { offset: self.holds(h.offset, h.len_bytes)?, role: h.role })
        };
        hits.iter().find_map(found)
    }

    /// As `find`, whatever it is there.
    pub(crate) fn file_offset(&self, disk: usize, offset: u64) -> Option<u64> {
        self.find(disk, offset).map(|f| f.offset)
    }

    /// The bytes of the file within `len_bytes` of a disk, as far as they are its data, found a block at a time.
    pub(crate) fn ranges(&self, disk: usize, offset: u64, len_bytes: u64) -> Vec<ByteRange> {
        const STEP: u64 = 4096;
        let mut out: Vec<ByteRange> = Vec::new();
        let mut at = offset;
        while at < offset.saturating_add(len_bytes) {
            let n = STEP.min(offset + len_bytes - at);
            let found = self.find(disk, at).filter(|f| f.role == Role::Data);
            if let Some(range) = found.and_then(|f| ByteRange::of_len(f.offset, n)) {
                match out.last_mut() {
                    Some(last) if last.end() == range.start() => {
                        *last = ByteRange::new(last.start(), range.end()).unwrap_or(range);
                    }
                    _ => out.push(range),
                }
            }
            at += n;
        }
        out
    }

    /// First byte of the file within `len_bytes` at `physical` of the filesystem.
    pub(crate) fn holds(&self, physical: u64, len_bytes: u64) -> Option<u64> {
        let runs = &self.extents.runs;
        let end = physical.checked_add(len_bytes)?;
        let at = self.by_physical.partition_point(|i| runs[*i as usize].physical < end);
        self.by_physical[..at]
            .iter()
            .rev()
            .take(OVERLAPS)
            .filter_map(|i| {
                let run = runs.get(*i as usize)?;
                let within = physical.saturating_sub(run.physical);
                (within < run.len_bytes).then_some(run.offset + within)
            })
            .min()
    }

    /// Whether the chunk tree (btrfs) still covers all runs.
    pub(crate) fn is_covered(&self) -> bool {
        match &*self.below {
            Node::Btrfs { chunks, .. } => self.extents.runs.iter().all(|r| chunks.knows(r.physical)),
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::piece::Place;
    use crate::sys::fiemap::Extent;

    fn extents() -> Extents {
        Extents::of(vec![
            Extent { offset: 0, physical: 1 << 20, len_bytes: 8192, encoded: false },
            Extent { offset: 8192, physical: 4096, len_bytes: 4096, encoded: false },
        ])
    }

    #[test]
    fn a_partition_adds_its_start_and_both_ways_agree() {
        let node = Node::Part { base: 1 << 30, len_bytes: 1 << 30, below: Arc::new(Node::Disk(0)) };
        let map = FileMap::new(extents(), Arc::new(node));
        let pieces = map.pieces(ByteRange::new(4096, 12288).unwrap());
        let shown: Vec<(u64, u64, Place)> =
            pieces.iter().map(|p| (p.offset, p.len_bytes, p.copies[0].place)).collect();
        let place = |offset| Place { disk: 0, offset };
        assert_eq!(
            shown,
            [(4096, 4096, place((1 << 30) + (1 << 20) + 4096)), (8192, 4096, place((1 << 30) + 4096))]
        );
        for p in pieces {
            assert_eq!(map.file_offset(0, p.copies[0].place.offset), Some(p.offset));
        }
        assert_eq!(map.file_offset(0, 0), None);
        assert_eq!(map.file_offset(0, (1 << 30) + 8192), None);
    }

    #[test]
    fn a_file_within_a_file_is_placed_through_both() {
        let disk = Arc::new(Node::Disk(3));
        let outer = Extents::of(vec![
            Extent { offset: 0, physical: 1 << 30, len_bytes: 1 << 20, encoded: false },
            Extent { offset: 1 << 20, physical: 5 << 30, len_bytes: 1 << 20, encoded: false },
        ]);
        let image = Arc::new(Node::File(Arc::new(FileMap::new(outer, disk))));
        let inner = Extents::of(vec![Extent {
            offset: 0,
            physical: (1 << 20) - 4096,
            len_bytes: 8192,
            encoded: false,
        }]);
        let map = FileMap::new(inner, image);
        let places: Vec<Place> =
            map.pieces(ByteRange::new(0, 8192).unwrap()).iter().map(|p| p.copies[0].place).collect();
        let want = [(1 << 30) + (1 << 20) - 4096, 5 << 30].map(|offset| Place { disk: 3, offset });
        assert_eq!(places, want);
        assert_eq!(map.file_offset(3, (5 << 30) + 100), Some(4196));
        assert_eq!(map.file_offset(3, (5 << 30) + 5000), None);
    }

    #[test]
    fn parity_is_found_for_the_first_byte_of_the_file_in_its_row() {
        let map = FileMap::new(extents(), Arc::new(Node::Disk(0)));
        assert_eq!(map.holds((1 << 20) - 65536, 65536), None);
        assert_eq!(map.holds((1 << 20) - 65536, 65537), Some(0));
        assert_eq!(map.holds(0, 1 << 21), Some(0));
        assert_eq!(map.holds(0, 65536), Some(8192));
    }
}
