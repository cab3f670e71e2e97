//! The contract's answer from the map of a file. Pure. The whole file is walked in windows, so that what is held at a time
//! is bounded by the window and the list, not by the file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use spindle_base::units::ByteRange;

use super::{DiskBytes, DiskPiece, FileMap, Layout, LayoutExtent, LayoutOptions, Special, Truncated};
use super::{evenness, ratio};
use crate::map::piece::{Piece, Place, Role, State};

/// Bytes of a file that are placed at a time: 256 pieces of the smallest common chunk (64 KiB).
const WINDOW_BYTES: u64 = 16 << 20;
/// Reasons that are told.
const MAX_REASONS: usize = 3;

/// Names of a volume's disks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) present: Vec<Arc<str>>,
    /// By index above [`Names::GONE`].
    pub(crate) gone: Vec<Arc<str>>,
}

impl Names {
    /// Indices of disks that are gone begin here.
    pub(crate) const GONE: usize = 1 << 24;

    pub(crate) fn of(&self, disk: usize) -> Option<&Arc<str>> {
        match disk.checked_sub(Self::GONE) {
            Some(gone) => self.gone.get(gone),
            None => self.present.get(disk),
        }
    }
}

struct Report<'a> {
    names: &'a Names,
    bytes: BTreeMap<usize, u64>,
    mapped: u64,
    special: Special,
    reasons: BTreeSet<Arc<str>>,
    /// Pieces that may still be listed.
    left: usize,
}

/// The answer for a file of `size_bytes`.
pub(crate) fn layout(
    map: &FileMap,
    file: PathBuf,
    size_bytes: u64,
    names: &Names,
    options: &LayoutOptions,
) -> Layout {
    let found = map.extents();
    let mut report = Report {
        names,
        bytes: BTreeMap::new(),
        mapped: 0,
        special: Special {
            unwritten_bytes: found.unwritten_bytes,
            shared_bytes: found.shared_bytes,
            compressed_bytes: found.runs.iter().filter(|r| r.encoded).map(|r| r.len_bytes).sum(),
            inline_bytes: found.inline_bytes,
            pending_bytes: found.pending_bytes,
            encrypted_bytes: found.sealed_bytes,
            ..Special::default()
        },
        reasons: BTreeSet::new(),
        left: options.max_pieces,
    };
    let (mut extents, mut truncated) = (Vec::new(), None);
    for run in &found.runs {
        let mut extent =
            LayoutExtent { offset: run.offset, length_bytes: run.len_bytes, ..LayoutExtent::default() };
        let mut at = 0;
        while at < run.len_bytes {
            let n = (run.len_bytes - at).min(WINDOW_BYTES);
            let Some(window) = ByteRange::of_len(run.offset + at, n) else { break };
            for piece in map.pieces(window) {
                report.count(&piece);
                if truncated.is_none() && !report.list(&mut extent, &piece) {
                    // The run that is being listed ends where its list does.
                    extent.length_bytes = piece.offset - extent.offset;
                    truncated = Some(Truncated {
                        listed_extents: extents.len() as u64 + u64::from(extent.length_bytes > 0),
                        from_byte: piece.offset,
                    });
                    if extent.length_bytes > 0 {
                        extents.push(std::mem::take(&mut extent));
                    }
                }
            }
            at += n;
        }
        if truncated.is_none() {
            extents.push(extent);
        }
    }
    let placed: u64 = found.runs.iter().map(|r| r.len_bytes).sum();
    let why_inexact = report.why(placed, found.dropped_bytes);
    let total: u64 = report.bytes.values().sum();
    let present: Vec<u64> =
        (0..names.present.len()).map(|d| report.bytes.get(&d).copied().unwrap_or(0)).collect();
    Layout {
        file,
        via: None,
        size_bytes,
        exact: why_inexact.is_none(),
        why_inexact,
        extents,
        truncated,
        evenness: evenness(&present, present.len()),
        per_disk: report.per_disk(total),
        candidates: Vec::new(),
        fragments: found.runs.len() as u64,
        special: report.special,
    }
}

impl Report<'_> {
    fn count(&mut self, piece: &Piece) {
        let n = piece.len_bytes;
        for copy in &piece.copies {
            *self.bytes.entry(copy.place.disk).or_default() += piece.on_disk_bytes();
        }
        if let Some(why) = &piece.doubt
            && self.reasons.len() < MAX_REASONS
            && !self.reasons.contains(why)
        {
            self.reasons.insert(Arc::clone(why));
        }
        self.mapped += if piece.copies.is_empty() { 0 } else { n };
        if let Some(stored) = piece.stored_bytes {
            self.special.compressed_bytes += n;
            self.special.stored_bytes += stored;
        }
        self.special.encrypted_bytes += if piece.is_sealed { n } else { 0 };
        if piece.copies.iter().any(|c| !c.is_readable()) {
            self.special.degraded_bytes += n;
        }
        if !piece.copies.is_empty() && !piece.is_readable() {
            if piece.rebuild.is_empty() {
                self.special.lost_bytes += n;
            } else {
                self.special.rebuilt_bytes += n;
            }
        }
    }

    /// `false` where the list is full.
    fn list(&mut self, extent: &mut LayoutExtent, piece: &Piece) -> bool {
        let wanted = piece.copies.len() + piece.rebuild.len();
        if wanted > self.left {
            return false;
        }
        for (i, copy) in piece.copies.iter().enumerate() {
            if extent.copies.len() <= i {
                extent.copies.push(Vec::new());
            }
            let state = match copy.state {
                State::Readable => None,
                State::WriteMostly => Some("write_mostly"),
                State::Stale => Some("stale"),
                State::Missing => Some("missing"),
            };
            self.push(&mut extent.copies[i], copy.place, piece.on_disk_bytes(), state, None);
        }
        for (place, role) in &piece.rebuild {
            let role = match role {
                Role::Data => None,
                Role::Parity => Some("parity"),
                Role::Syndrome => Some("syndrome"),
                Role::Tree => Some("tree"),
            };
            self.push(&mut extent.rebuilt_from, *place, piece.on_disk_bytes(), None, role);
        }
        true
    }

    /// Appends a piece, or makes the last one longer.
    fn push(
        &mut self,
        list: &mut Vec<DiskPiece>,
        place: Place,
        length_bytes: u64,
        state: Option<&str>,
        role: Option<&str>,
    ) {
        let Some(disk) = self.names.of(place.disk) else { return };
        if let Some(last) = list.last_mut()
            && *last.disk == **disk
            && last.disk_offset + last.length_bytes == place.offset
            && last.state.as_deref() == state
            && last.role.as_deref() == role
        {
            last.length_bytes += length_bytes;
            return;
        }
        self.left = self.left.saturating_sub(1);
        list.push(DiskPiece {
            disk: disk.to_string(),
            disk_offset: place.offset,
            length_bytes,
            state: state.map(str::to_owned),
            role: role.map(str::to_owned),
        });
    }

    fn per_disk(&self, total: u64) -> Vec<DiskBytes> {
        let of = |disk: usize, name: &Arc<str>, missing: bool| {
            let bytes = self.bytes.get(&disk).copied().unwrap_or(0);
            DiskBytes { disk: name.to_string(), bytes, share: ratio(bytes, total), missing }
        };
        let present = self.names.present.iter().enumerate().map(|(i, name)| of(i, name, false));
        let gone = self.names.gone.iter().enumerate().map(|(i, name)| of(Names::GONE + i, name, true));
        present.chain(gone).collect()
    }

    fn why(&self, placed: u64, dropped: u64) -> Option<String> {
        let mut reasons: Vec<String> = self.reasons.iter().map(ToString::to_string).collect();
        let s = &self.special;
        if s.inline_bytes > 0 {
            reasons.push(format!(
                "{} bytes are stored inline, among the filesystem's own trees",
                s.inline_bytes
            ));
        }
        if s.pending_bytes > 0 {
            reasons.push(format!("{} bytes are still in memory and have no place yet", s.pending_bytes));
        }
        if dropped > 0 {
            reasons.push(format!("{dropped} bytes lie beyond the first million fragments"));
        }
        if self.mapped < placed && self.reasons.is_empty() {
            reasons.push(format!("{} bytes lie where no disk is known", placed - self.mapped));
        }
        reasons.truncate(MAX_REASONS);
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::chunks::{Chunk, ChunkMap, Stripe};
    use crate::map::{Member, Node};
    use crate::sys::fiemap::{Extent, Extents};

    fn names(present: &[&str], gone: &[&str]) -> Names {
        let list = |l: &[&str]| l.iter().map(|n| Arc::from(*n)).collect();
        Names { present: list(present), gone: list(gone) }
    }

    fn run(offset: u64, physical: u64, len_bytes: u64) -> Extent {
        Extent { offset, physical, len_bytes, encoded: false }
    }

    fn btrfs(kind: u64, devices: Vec<(u64, Node)>, stripes: Vec<Stripe>) -> Arc<Node> {
        let chunk = Chunk {
            logical: 0,
            len_bytes: 1 << 30,
            stripe_bytes: 65536,
            kind: kind | 1,
            sub_stripes: 1,
            stripes,
        };
        let devices = devices.into_iter().map(|(id, n)| (id, Member::sound(Arc::new(n)))).collect();
        Arc::new(Node::Btrfs { chunks: Arc::new(ChunkMap::new(vec![chunk])), devices: Arc::new(devices) })
    }

    fn piece(disk: &str, disk_offset: u64, length_bytes: u64) -> DiskPiece {
        DiskPiece { disk: disk.to_owned(), disk_offset, length_bytes, ..DiskPiece::default() }
    }

    #[test]
    fn a_mirrored_file_counts_on_both_disks_of_three() {
        let third = Node::Part { base: 512, len_bytes: 1 << 40, below: Arc::new(Node::Disk(2)) };
        let node = btrfs(
            1 << 4,
            vec![(1, Node::Disk(0)), (2, Node::Disk(1)), (3, third)],
            vec![Stripe { devid: 1, offset: 0 }, Stripe { devid: 3, offset: 1 << 20 }],
        );
        let map = FileMap::new(Extents::of(vec![run(0, 1 << 20, 8192), run(8192, 4096, 4096)]), node);
        let names = names(&["sda", "sdb", "sdc"], &[]);
        let got = layout(&map, "f".into(), 12288, &names, &LayoutOptions::default());
        let extent = |offset, length_bytes, copies| LayoutExtent {
            offset,
            length_bytes,
            copies,
            rebuilt_from: vec![],
        };
        let disk =
            |disk: &str, bytes, share| DiskBytes { disk: disk.to_owned(), bytes, share, missing: false };
        assert_eq!(
            got,
            Layout {
                file: "f".into(),
                size_bytes: 12288,
                exact: true,
                extents: vec![
                    extent(
                        0,
                        8192,
                        vec![vec![piece("sda", 1 << 20, 8192)], vec![piece("sdc", (2 << 20) + 512, 8192)]]
                    ),
                    extent(
                        8192,
                        4096,
                        vec![
                            vec![piece("sda", 4096, 4096)],
                            vec![piece("sdc", (1 << 20) + 512 + 4096, 4096)]
                        ]
                    ),
                ],
                per_disk: vec![disk("sda", 12288, 0.5), disk("sdb", 0, 0.0), disk("sdc", 12288, 0.5)],
                fragments: 2,
                evenness: 24576.0 / (12288.0 * 3.0),
                ..Layout::default()
            }
        );
    }

    #[test]
    fn a_long_list_is_cut_and_says_where_and_the_sums_are_of_all() {
        let node = btrfs(
            1 << 3,
            vec![(1, Node::Disk(0)), (2, Node::Disk(1))],
            vec![Stripe { devid: 1, offset: 0 }, Stripe { devid: 2, offset: 0 }],
        );
        let map = FileMap::new(Extents::of(vec![run(0, 0, 65536), run(65536, 1 << 20, 64 << 20)]), node);
        let names = names(&["sda", "sdb"], &[]);
        let options = LayoutOptions { max_pieces: 11, ..LayoutOptions::default() };
        let got = layout(&map, "f".into(), 1 << 30, &names, &options);
        assert_eq!(got.truncated, Some(Truncated { listed_extents: 2, from_byte: 11 * 65536 }));
        assert_eq!(got.extents.len(), 2);
        assert_eq!(got.extents[1].length_bytes, 10 * 65536);
        let listed: u64 = got.extents.iter().flat_map(|e| &e.copies[0]).map(|p| p.length_bytes).sum();
        assert_eq!(listed, 11 * 65536);
        let bytes: Vec<u64> = got.per_disk.iter().map(|d| d.bytes).collect();
        assert_eq!((bytes, got.fragments, got.exact), (vec![(32 << 20) + 65536, 32 << 20], 2, true));
    }

    #[test]
    fn a_missing_disk_is_named_and_what_is_read_in_its_place() {
        let node = btrfs(
            1 << 7,
            vec![(1, Node::Disk(0)), (2, Node::Gone(Names::GONE)), (3, Node::Disk(1))],
            (1..=3).map(|devid| Stripe { devid, offset: devid << 20 }).collect(),
        );
        let map = FileMap::new(Extents::of(vec![run(0, 0, 131_072)]), node);
        let names = names(&["sda", "sdc"], &["missing (devid 2)"]);
        let got = layout(&map, "f".into(), 131_072, &names, &LayoutOptions::default());
        assert!(got.exact, "{:?}", got.why_inexact);
        let missing =
            DiskPiece { state: Some("missing".into()), ..piece("missing (devid 2)", 2 << 20, 65536) };
        let parity = DiskPiece { role: Some("parity".into()), ..piece("sdc", 3 << 20, 65536) };
        assert_eq!(got.extents[0].copies, [[piece("sda", 1 << 20, 65536), missing]]);
        assert_eq!(got.extents[0].rebuilt_from, [piece("sda", 1 << 20, 65536), parity]);
        assert_eq!((got.special.degraded_bytes, got.special.rebuilt_bytes), (65536, 65536));
        assert!(got.per_disk[2].missing);
    }

    #[test]
    fn what_is_not_exact_says_why() {
        let compressed = Extent { encoded: true, ..run(0, 4096, 4096) };
        let map = FileMap::new(Extents::of(vec![compressed]), Arc::new(Node::Disk(0)));
        let names = names(&["sda"], &[]);
        let of = |map: &FileMap| layout(map, "f".into(), 4096, &names, &LayoutOptions::default()).why_inexact;
        assert!(of(&map).unwrap().contains("compressed"));
        let inline = Extents { inline_bytes: 100, ..Extents::default() };
        assert!(of(&FileMap::new(inline, Arc::new(Node::Disk(0)))).unwrap().contains("inline"));
        let unwritten = Extents { unwritten_bytes: 100, ..Extents::default() };
        assert_eq!(of(&FileMap::new(unwritten, Arc::new(Node::Disk(0)))), None);
        let nowhere = Node::Opaque { why: "a thin volume".into(), disks: vec![0] };
        let map = FileMap::new(Extents::of(vec![run(0, 0, 4096)]), Arc::new(nowhere));
        assert_eq!(of(&map).as_deref(), Some("a thin volume"));
        let short = Node::Part { base: 0, len_bytes: 1000, below: Arc::new(Node::Disk(0)) };
        let map = FileMap::new(Extents::of(vec![run(0, 0, 4096)]), Arc::new(short));
        assert!(of(&map).unwrap().contains("3096 bytes lie where no disk is known"));
    }
}
