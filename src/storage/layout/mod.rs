//! Which disk holds which bytes of a file: the map that attribution uses, and the answer of
//! `spindle layout`. No system calls here; extents and chunks come in as values.

pub(crate) mod chunks;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use spindle_base::units::ByteRange;

use crate::sys::fiemap::Extents;
use chunks::ChunkMap;

/// `spindle layout FILE`: the JSON of the contract.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Layout {
    /// The file.
    pub file: PathBuf,
    /// Its size.
    pub size_bytes: u64,
    /// Whether every byte was placed.
    pub exact: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_inexact: Option<String>,
    /// Runs of the file, in order.
    pub extents: Vec<LayoutExtent>,
    /// Bytes on each disk, every copy counted.
    pub per_disk: Vec<DiskBytes>,
    /// Number of runs: 1 is a file in one piece.
    pub fragments: u64,
    /// 1 = every disk of the volume holds as much of it as every other, 1/n = all on one of n.
    pub evenness: f64,
}

/// One run of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayoutExtent {
    /// First byte in the file.
    pub offset: u64,
    /// Length.
    pub length_bytes: u64,
    /// One list of pieces per copy; the pieces of a list follow each other in the file.
    pub copies: Vec<Vec<DiskPiece>>,
}

/// Bytes in one piece on a disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskPiece {
    /// Physical disk, by its name in `/sys/block`.
    pub disk: String,
    /// First byte on the whole disk.
    pub disk_offset: u64,
    /// Length.
    pub length_bytes: u64,
}

/// How much a disk holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DiskBytes {
    /// Physical disk.
    pub disk: String,
    /// Bytes of the file on it, all copies.
    pub bytes: u64,
    /// Its share of all copies.
    pub share: f64,
}

/// How a filesystem's addresses become places on disks. Disks are indices into the device's list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Volume {
    /// A filesystem in one piece of a disk, from byte `base` of it.
    Plain { disk: usize, base: u64 },
    /// btrfs with its chunk tree.
    Btrfs { devices: BTreeMap<u64, (usize, u64)>, chunks: Arc<ChunkMap> },
    /// Everything lies on one disk, where on it is not known (btrfs, chunk tree not readable).
    OneDisk { disk: usize },
}

/// A place on a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) disk: usize,
    pub(crate) offset: u64,
}

/// A run of the file with the places of its copies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) offset: u64,
    pub(crate) len_bytes: u64,
    pub(crate) copies: Vec<Place>,
}

/// The map of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileMap {
    extents: Extents,
    volume: Volume,
    /// Indices of the runs by their physical address.
    by_physical: Vec<usize>,
}

impl FileMap {
    pub(crate) fn new(extents: Extents, volume: Volume) -> Self {
        let mut by_physical: Vec<usize> = (0..extents.runs.len()).collect();
        by_physical.sort_by_key(|i| extents.runs[*i].physical);
        Self { extents, volume, by_physical }
    }

    /// The pieces of a range, in order. What is not mapped is missing from them.
    pub(crate) fn pieces(&self, range: ByteRange) -> Vec<Piece> {
        let runs = &self.extents.runs;
        let from = runs.partition_point(|e| e.offset + e.len_bytes <= range.start());
        let mut out = Vec::new();
        for e in runs[from..].iter().take_while(|e| e.offset < range.end()) {
            let start = e.offset.max(range.start());
            let end = (e.offset + e.len_bytes).min(range.end());
            let physical = e.physical + (start - e.offset);
            match &self.volume {
                Volume::Plain { disk, base } => out.push(Piece {
                    offset: start,
                    len_bytes: end - start,
                    copies: vec![Place { disk: *disk, offset: base + physical }],
                }),
                Volume::OneDisk { disk } => out.push(Piece {
                    offset: start,
                    len_bytes: end - start,
                    copies: vec![Place { disk: *disk, offset: physical }],
                }),
                Volume::Btrfs { devices, chunks } => {
                    for m in chunks.map(physical, end - start) {
                        let place = |s: &chunks::Stripe| {
                            let (disk, base) = devices.get(&s.devid)?;
                            Some(Place { disk: *disk, offset: base + s.offset })
                        };
                        out.push(Piece {
                            offset: start + (m.logical - physical),
                            len_bytes: m.len_bytes,
                            copies: m.copies.iter().filter_map(place).collect(),
                        });
                    }
                }
            }
        }
        out
    }

    /// The byte of the file that lies at `offset` of a disk, if it is of this file.
    pub(crate) fn file_offset(&self, disk: usize, offset: u64) -> Option<u64> {
        let physical = match &self.volume {
            Volume::Plain { disk: d, base } if *d == disk => offset.checked_sub(*base)?,
            Volume::Btrfs { devices, chunks } => devices
                .iter()
                .filter(|(_, (d, _))| *d == disk)
                .find_map(|(id, (_, base))| chunks.logical_of(*id, offset.checked_sub(*base)?))?,
            _ => return None,
        };
        let at = self.by_physical.partition_point(|i| self.extents.runs[*i].physical <= physical);
        let run = self.extents.runs[*self.by_physical.get(at.checked_sub(1)?)?];
        let within = physical - run.physical;
        (within < run.len_bytes).then(|| run.offset + within)
    }

    /// First addresses of the runs: whether the chunk tree still covers them all.
    pub(crate) fn is_covered(&self) -> bool {
        match &self.volume {
            Volume::Btrfs { chunks, .. } => self.extents.runs.iter().all(|r| chunks.knows(r.physical)),
            _ => true,
        }
    }

    /// The contract's answer. `disks` names the volume's disks.
    pub(crate) fn layout(&self, file: PathBuf, size_bytes: u64, disks: &[Arc<str>]) -> Layout {
        let mut bytes = vec![0_u64; disks.len()];
        let mut mapped = 0;
        let mut extents = Vec::new();
        for run in &self.extents.runs {
            let Some(range) = ByteRange::of_len(run.offset, run.len_bytes) else { continue };
            let mut copies: Vec<Vec<DiskPiece>> = Vec::new();
            for piece in self.pieces(range) {
                mapped += piece.len_bytes;
                for (i, place) in piece.copies.iter().enumerate() {
                    if copies.len() <= i {
                        copies.push(Vec::new());
                    }
                    bytes[place.disk] += piece.len_bytes;
                    push_piece(&mut copies[i], &disks[place.disk], place.offset, piece.len_bytes);
                }
            }
            extents.push(LayoutExtent { offset: run.offset, length_bytes: run.len_bytes, copies });
        }
        let why_inexact = self.why_inexact(mapped);
        let total: u64 = bytes.iter().sum();
        Layout {
            file,
            size_bytes,
            exact: why_inexact.is_none(),
            why_inexact,
            fragments: extents.len() as u64,
            extents,
            evenness: evenness(&bytes, bytes.len()),
            per_disk: disks
                .iter()
                .zip(&bytes)
                .map(|(disk, b)| DiskBytes { disk: disk.to_string(), bytes: *b, share: ratio(*b, total) })
                .collect(),
        }
    }

    fn why_inexact(&self, mapped: u64) -> Option<String> {
        let total: u64 = self.extents.runs.iter().map(|r| r.len_bytes).sum();
        if matches!(self.volume, Volume::OneDisk { .. }) {
            Some("the btrfs chunk tree is not readable without CAP_SYS_ADMIN: the disk is known, the place on it is not".to_owned())
        } else if self.extents.runs.iter().any(|r| r.encoded) {
            Some("some of it is stored compressed: lengths are those of the contents".to_owned())
        } else if self.extents.unmapped_bytes > 0 {
            Some(format!(
                "{} bytes have no place on a disk of their own: stored inline, or not written yet",
                self.extents.unmapped_bytes
            ))
        } else if mapped < total {
            Some(format!("{} bytes lie in chunks that are not known", total - mapped))
        } else {
            None
        }
    }
}

fn push_piece(list: &mut Vec<DiskPiece>, disk: &str, disk_offset: u64, length_bytes: u64) {
    if let Some(last) = list.last_mut()
        && last.disk == disk
        && last.disk_offset + last.length_bytes == disk_offset
    {
        last.length_bytes += length_bytes;
        return;
    }
    list.push(DiskPiece { disk: disk.to_owned(), disk_offset, length_bytes });
}

/// `part / whole`, 0 where there is nothing.
#[expect(clippy::cast_precision_loss, reason = "a share for people: 53 bits are plenty")]
pub(crate) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Mean over maximum of `n` disks: 1 if all carry the same, 1/n if one carries all, 0 if nothing was carried.
pub(crate) fn evenness(bytes: &[u64], n: usize) -> f64 {
    let max = bytes.iter().copied().max().unwrap_or(0);
    ratio(bytes.iter().sum(), max.saturating_mul(n as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::fiemap::Extent;

    fn extents() -> Extents {
        Extents {
            runs: vec![
                Extent { offset: 0, physical: 1 << 20, len_bytes: 8192, encoded: false },
                Extent { offset: 8192, physical: 4096, len_bytes: 4096, encoded: false },
            ],
            unmapped_bytes: 0,
        }
    }

    #[test]
    fn a_partition_adds_its_start_and_both_ways_agree() {
        let map = FileMap::new(extents(), Volume::Plain { disk: 0, base: 1 << 30 });
        let pieces = map.pieces(ByteRange::new(4096, 12288).unwrap());
        assert_eq!(
            pieces,
            [
                Piece {
                    offset: 4096,
                    len_bytes: 4096,
                    copies: vec![Place { disk: 0, offset: (1 << 30) + (1 << 20) + 4096 }]
                },
                Piece {
                    offset: 8192,
                    len_bytes: 4096,
                    copies: vec![Place { disk: 0, offset: (1 << 30) + 4096 }]
                },
            ]
        );
        for p in pieces {
            assert_eq!(map.file_offset(0, p.copies[0].offset), Some(p.offset));
        }
        assert_eq!(map.file_offset(0, 0), None);
        assert_eq!(map.file_offset(0, (1 << 30) + 8192), None);
    }

    #[test]
    fn a_mirrored_file_counts_on_both_disks_of_three() {
        let chunk = chunks::Chunk {
            logical: 0,
            len_bytes: 1 << 30,
            stripe_bytes: 65536,
            kind: 1 | 1 << 4,
            sub_stripes: 1,
            stripes: vec![
                chunks::Stripe { devid: 1, offset: 0 },
                chunks::Stripe { devid: 3, offset: 1 << 20 },
            ],
        };
        let volume = Volume::Btrfs {
            devices: BTreeMap::from([(1, (0, 0)), (2, (1, 0)), (3, (2, 512))]),
            chunks: Arc::new(ChunkMap::new(vec![chunk])),
        };
        let names: Vec<Arc<str>> = ["sda", "sdb", "sdc"].map(Arc::from).to_vec();
        let layout = FileMap::new(extents(), volume).layout("f".into(), 12288, &names);
        let piece = |disk: &str, disk_offset, length_bytes| DiskPiece {
            disk: disk.to_owned(),
            disk_offset,
            length_bytes,
        };
        assert_eq!(
            layout,
            Layout {
                file: "f".into(),
                size_bytes: 12288,
                exact: true,
                why_inexact: None,
                extents: vec![
                    LayoutExtent {
                        offset: 0,
                        length_bytes: 8192,
                        copies: vec![
                            vec![piece("sda", 1 << 20, 8192)],
                            vec![piece("sdc", (2 << 20) + 512, 8192)]
                        ]
                    },
                    LayoutExtent {
                        offset: 8192,
                        length_bytes: 4096,
                        copies: vec![
                            vec![piece("sda", 4096, 4096)],
                            vec![piece("sdc", (1 << 20) + 512 + 4096, 4096)]
                        ]
                    },
                ],
                per_disk: vec![
                    DiskBytes { disk: "sda".to_owned(), bytes: 12288, share: 0.5 },
                    DiskBytes { disk: "sdb".to_owned(), bytes: 0, share: 0.0 },
                    DiskBytes { disk: "sdc".to_owned(), bytes: 12288, share: 0.5 },
                ],
                fragments: 2,
                evenness: 24576.0 / (12288.0 * 3.0),
            }
        );
    }
}
