//! A layout compared with the disks: the bytes of the file against those that lie at the places that the map names, read
//! past every layer between. Exactness that needs no trace. Root only, as it opens whole disks (for reading).

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};

use serde::{Deserialize, Serialize};
use spindle_base::units::ByteRange;

use super::report::Names;
use super::{DiskBytes, FileMap, ratio};
use crate::map::piece::{Piece, Place, Role};

/// Bytes read at a time.
const WINDOW_BYTES: u64 = 4 << 20;
/// Direct reads begin and end at multiples of this: no disk has larger blocks.
const BLOCK: u64 = 4096;
/// Differences that are told one by one.
const MAX_TOLD: usize = 16;

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Verified {
    /// Bytes that were compared, every copy counted.
    pub compared_bytes: u64,
    /// Of those, computed from what other disks hold (raid5 and raid6 without the disk that has them).
    pub rebuilt_bytes: u64,
    /// Bytes that differ.
    pub different_bytes: u64,
    /// The first of them.
    pub differences: Vec<Difference>,
    /// What was not compared, and why.
    pub unchecked: Vec<Unchecked>,
    /// Bytes compared on each disk.
    pub per_disk: Vec<DiskBytes>,
}

/// A run that is not on a disk what it is in the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// First byte in the file.
    pub offset: u64,
    /// Length of the run that was compared.
    pub length_bytes: u64,
    /// The disk.
    pub disk: String,
    /// First byte on it.
    pub disk_offset: u64,
}

/// Bytes that could not be compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unchecked {
    /// How many, every copy counted.
    pub bytes: u64,
    /// Why.
    pub why: String,
}

struct Check<'a> {
    names: &'a Names,
    open: HashMap<usize, File>,
    buffer: Vec<u8>,
    out: Verified,
    unchecked: BTreeMap<String, u64>,
    bytes: BTreeMap<usize, u64>,
}

/// Compares a file of `size_bytes`, open as `fd`, with its places.
pub(crate) fn verify(
    fd: BorrowedFd<'_>,
    size_bytes: u64,
    map: &FileMap,
    names: &Names,
) -> Result<Verified, String> {
    // What is dirty is written first, also below a loop device.
    rustix::fs::fsync(fd).map_err(|e| format!("unable to write it out: {e}"))?;
    let mut check = Check {
        names,
        open: HashMap::new(),
        buffer: Vec::new(),
        out: Verified::default(),
        unchecked: BTreeMap::new(),
        bytes: BTreeMap::new(),
    };
    let mut window = vec![0_u8; usize::try_from(WINDOW_BYTES).unwrap_or(0)];
    for run in &map.extents().runs {
        let end = (run.offset + run.len_bytes).min(size_bytes);
        let mut at = run.offset;
        while at < end {
            let n = (end - at).min(WINDOW_BYTES);
            let content = window.get_mut(..usize::try_from(n).unwrap_or(0)).ok_or("no buffer")?;
            read_file(fd, at, content)?;
            for piece in ByteRange::of_len(at, n).map(|r| map.pieces(r)).unwrap_or_default() {
                let from = usize::try_from(piece.offset - at).unwrap_or(0);
                let to = from + usize::try_from(piece.len_bytes).unwrap_or(0);
                check.piece(&piece, content.get(from..to).ok_or("a piece outside of what was asked")?)?;
            }
            at += n;
        }
    }
    Ok(check.finish())
}

fn read_file(fd: BorrowedFd<'_>, offset: u64, into: &mut [u8]) -> Result<(), String> {
    let mut have = 0;
    while have < into.len() {
        match rustix::io::pread(fd, &mut into[have..], offset + have as u64) {
            Ok(0) => return Err("the file became shorter meanwhile".to_owned()),
            Ok(n) => have += n,
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(format!("unable to read the file at {offset}: {e}")),
        }
    }
    Ok(())
}

impl Check<'_> {
    fn piece(&mut self, piece: &Piece, want: &[u8]) -> Result<(), String> {
        let n = piece.len_bytes;
        // Why the bytes at its places cannot be expected to be those of the file.
        if piece.is_sealed {
            self.skip(
                n,
                "encrypted below the filesystem: the places are computed, the bytes there are others",
            );
            return Ok(());
        }
        if piece.stored_bytes.is_some() {
            self.skip(n, "stored compressed: the bytes there are others");
            return Ok(());
        }
        if let Some(why) = &piece.doubt {
            // They may be there all the same, which the bytes themselves tell.
            for copy in piece.copies.iter().filter(|c| c.is_readable()) {
                if self.read(copy.place, n).is_ok_and(|bytes| bytes == want) {
                    self.compared(copy.place, piece, true);
                } else {
                    self.skip(n, why);
                }
            }
            if piece.copies.is_empty() {
                self.skip(n, why);
            }
            return Ok(());
        }
        for copy in &piece.copies {
            if !copy.is_readable() {
                self.skip(n, "on a disk that is gone or is being rebuilt");
                continue;
            }
            let is_same = self.read(copy.place, n)? == want;
            self.compared(copy.place, piece, is_same);
        }
        if !piece.rebuild.is_empty() {
            self.rebuilt(piece, want)?;
        }
        Ok(())
    }

    /// P is the exclusive or of the row's data: that of all but the missing one and P gives the missing one.
    fn rebuilt(&mut self, piece: &Piece, want: &[u8]) -> Result<(), String> {
        let n = piece.len_bytes;
        if !piece.rebuild.iter().any(|(_, role)| *role == Role::Parity) {
            self.skip(n, "computed from the second syndrome, which is not done here");
            return Ok(());
        }
        let mut sum = vec![0_u8; want.len()];
        for (place, _) in piece.rebuild.iter().filter(|(_, role)| *role != Role::Syndrome) {
            let bytes = self.read(*place, n)?;
            sum.iter_mut().zip(bytes).for_each(|(a, b)| *a ^= b);
        }
        let has_syndrome = piece.rebuild.iter().any(|(_, role)| *role == Role::Syndrome);
        let is_same = sum == want;
        if !is_same && has_syndrome {
            // Two disks are gone: it takes both.
            self.skip(n, "computed from the second syndrome, which is not done here");
            return Ok(());
        }
        if let Some((place, _)) = piece.rebuild.first().copied() {
            self.out.rebuilt_bytes += n;
            self.compared(place, piece, is_same);
        }
        Ok(())
    }

    fn skip(&mut self, bytes: u64, why: &str) {
        *self.unchecked.entry(why.to_owned()).or_default() += bytes;
    }

    fn compared(&mut self, place: Place, piece: &Piece, is_same: bool) {
        self.out.compared_bytes += piece.len_bytes;
        *self.bytes.entry(place.disk).or_default() += piece.len_bytes;
        if is_same {
            return;
        }
        self.out.different_bytes += piece.len_bytes;
        if self.out.differences.len() < MAX_TOLD {
            self.out.differences.push(Difference {
                offset: piece.offset,
                length_bytes: piece.len_bytes,
                disk: self.names.of(place.disk).map(ToString::to_string).unwrap_or_default(),
                disk_offset: place.offset,
            });
        }
    }

    /// The bytes of a disk, past the page cache: that of the device knows nothing of what a filesystem wrote.
    fn read(&mut self, place: Place, len_bytes: u64) -> Result<&[u8], String> {
        let name = self.names.of(place.disk).ok_or("a disk without a name")?;
        let failed = |e: io::Error| format!("unable to read {name} at {}: {e}", place.offset);
        let file = match self.open.entry(place.disk) {
            Entry::Occupied(o) => o.into_mut(),
            Entry::Vacant(v) => {
                let direct = i32::try_from(rustix::fs::OFlags::DIRECT.bits()).unwrap_or(0);
                let path = format!("/dev/{}", name.replace('!', "/"));
                v.insert(File::options().read(true).custom_flags(direct).open(path).map_err(failed)?)
            }
        };
        let start = place.offset / BLOCK * BLOCK;
        let end = place.offset.saturating_add(len_bytes).div_ceil(BLOCK).saturating_mul(BLOCK);
        let wanted = usize::try_from(end - start).map_err(|e| e.to_string())?;
        let block = usize::try_from(BLOCK).unwrap_or(4096);
        self.buffer.resize(wanted + block, 0);
        let skip = self.buffer.as_ptr().align_offset(block);
        let buffer = self.buffer.get_mut(skip..skip + wanted).ok_or("no aligned buffer")?;
        let mut have = 0;
        while have < wanted {
            match file.read_at(&mut buffer[have..], start + have as u64) {
                // The end of a disk whose size is no multiple of the block.
                Ok(0) => break,
                Ok(n) => have += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(failed(e)),
            }
        }
        let from = usize::try_from(place.offset - start).map_err(|e| e.to_string())?;
        let to = from + usize::try_from(len_bytes).map_err(|e| e.to_string())?;
        buffer.get(from..to).filter(|_| to <= have).ok_or_else(|| format!("{name} ends before byte {end}"))
    }

    fn finish(mut self) -> Verified {
        let unchecked = self.unchecked.into_iter();
        self.out.unchecked = unchecked.map(|(why, bytes)| Unchecked { bytes, why }).collect();
        let total = self.bytes.values().sum();
        for (disk, bytes) in self.bytes {
            let disk = self.names.of(disk).map(ToString::to_string).unwrap_or_default();
            self.out.per_disk.push(DiskBytes { disk, bytes, share: ratio(bytes, total), missing: false });
        }
        self.out
    }
}
