//! Which disk holds which bytes of a file: the answer of `spindle layout`, and the map that attribution uses.
//!
//! `file_map` is the map of a file; `chunks` the formulas of btrfs; `report` makes the contract's answer of a map;
//! `through` finds the file behind a file (mergerfs, overlay); `verify` compares an answer with the disks themselves.

pub(crate) mod chunks;
pub(crate) mod file_map;
pub(crate) mod report;
pub(crate) mod through;
pub(crate) mod verify;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub(crate) use crate::map::piece::Place;
pub(crate) use file_map::FileMap;

/// How a layout is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayoutOptions {
    /// Most pieces that are listed. Sums, fragments and evenness are of the whole file all the same.
    pub max_pieces: usize,
    /// How many loop devices, one in the other, are followed to what their files are on. With 0 a loop device is a disk.
    pub through_loops: u32,
}

impl Default for LayoutOptions {
    fn default() -> Self {
        // Some 15 MiB of JSON. 60 GB in 50,000 extents on one disk are 50,000.
        Self { max_pieces: 200_000, through_loops: 0 }
    }
}

/// `spindle layout FILE`: the JSON of the contract.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Layout {
    /// The file.
    pub file: PathBuf,
    /// The file that is read in its place, where it is a view of another (mergerfs, overlay).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<PathBuf>,
    /// Its size.
    pub size_bytes: u64,
    /// Whether every byte was placed.
    pub exact: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_inexact: Option<String>,
    /// Runs of the file, in order.
    pub extents: Vec<LayoutExtent>,
    /// Set where `extents` ends before the file does, because the list would be too long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<Truncated>,
    /// Bytes on each disk, every copy counted.
    pub per_disk: Vec<DiskBytes>,
    /// Disks that it may be on, where that is all that is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<String>,
    /// Number of runs: 1 is a file in one piece.
    pub fragments: u64,
    /// 1 = every disk of the volume holds as much of it as every other, 1/n = all on one of n.
    pub evenness: f64,
    /// What is special about some of its bytes.
    #[serde(default, skip_serializing_if = "Special::is_none")]
    pub special: Special,
}

/// How much of a file is listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Truncated {
    /// Runs in the list.
    pub listed_extents: u64,
    /// First byte of the file that is in no listed run.
    pub from_byte: u64,
}

/// Bytes of a file that are not simply somewhere.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Special {
    /// Set aside and never written: zeros, read from no disk.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unwritten_bytes: u64,
    /// Shared with other files (reflinks, snapshots).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub shared_bytes: u64,
    /// Stored compressed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub compressed_bytes: u64,
    /// Of those, where their places are known: bytes that one copy of them takes on disks.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub stored_bytes: u64,
    /// Stored within the filesystem's trees.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub inline_bytes: u64,
    /// Not on a disk yet.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub pending_bytes: u64,
    /// Encrypted by the filesystem or by a layer below it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub encrypted_bytes: u64,
    /// At least one copy is on a disk that is gone or is being rebuilt.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub degraded_bytes: u64,
    /// Of those: no copy is left, a read computes them from what other disks hold.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rebuilt_bytes: u64,
    /// Of those: lost.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost_bytes: u64,
}

impl Special {
    fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// One run of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayoutExtent {
    /// First byte in the file.
    pub offset: u64,
    /// Length.
    pub length_bytes: u64,
    /// One list of pieces per copy; the pieces of a list follow each other in the file. Of what is stored compressed at known
    /// places (ZFS) they are shorter than the run: their lengths are those on the disk.
    pub copies: Vec<Vec<DiskPiece>>,
    /// Where no copy can be read: what is read instead.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rebuilt_from: Vec<DiskPiece>,
}

/// Bytes in one piece on a disk.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskPiece {
    /// Physical disk, by its name in `/sys/block`.
    pub disk: String,
    /// First byte on the whole disk.
    pub disk_offset: u64,
    /// Length.
    pub length_bytes: u64,
    /// Where it is not an ordinary copy: `write_mostly`, `stale` (being rebuilt), `missing`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Where it is not data: `parity`, `syndrome`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
}

/// How much a disk holds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DiskBytes {
    /// Physical disk.
    pub disk: String,
    /// Bytes of the file on it, all copies.
    pub bytes: u64,
    /// Its share of all copies.
    pub share: f64,
    /// Whether it is gone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub missing: bool,
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
