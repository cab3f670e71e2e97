//! What the map answers with: a run of bytes and the places of its copies.

use std::sync::Arc;

/// A place on a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    /// Index into the volume's list of disks.
    pub(crate) disk: usize,
    /// First byte, on the whole disk.
    pub(crate) offset: u64,
}

/// What lies at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Role {
    Data,
    /// The exclusive or of a row (P).
    Parity,
    /// The second syndrome of a row (Q), of raid6; of a raidz the third as well.
    Syndrome,
    /// No bytes of the file: what tells the filesystem where they lie.
    Tree,
}

/// Whether a copy can be read, worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum State {
    Readable,
    /// Read only where no other copy can be.
    WriteMostly,
    /// On a disk that is being rebuilt, not written there yet.
    Stale,
    /// On a disk that is gone or has failed.
    Missing,
}

/// One copy of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Copy {
    pub(crate) place: Place,
    pub(crate) state: State,
    /// The filesystem's own number of the copy (btrfs: index into the chunk's stripes), by which it chooses. A block
    /// device below may have made several of it.
    pub(crate) leg: u16,
}

impl Copy {
    pub(crate) fn is_readable(&self) -> bool {
        self.state <= State::WriteMostly
    }
}

/// A run that lies in one piece on each of its copies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    /// First byte in what was asked about.
    pub(crate) offset: u64,
    pub(crate) len_bytes: u64,
    pub(crate) copies: Vec<Copy>,
    /// Where no copy can be read: what is read instead, to compute it.
    pub(crate) rebuild: Vec<(Place, Role)>,
    /// Why these may not be the places that a read goes to.
    pub(crate) doubt: Option<Arc<str>>,
    /// Disks that it may be on instead.
    pub(crate) elsewhere: Vec<usize>,
    /// Whether the bytes there are encrypted by a layer of the stack.
    pub(crate) is_sealed: bool,
    /// Where it is stored compressed: bytes at each of its places. It is read whole.
    pub(crate) stored_bytes: Option<u64>,
}

/// Where a read of a piece goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// To this place.
    One(Place),
    /// To all of these: it is computed.
    Many(Vec<(Place, Role)>),
    /// To one of several; which one cannot be told.
    Unknown,
    /// Nowhere: no copy is left, or it has no place on a disk.
    Nowhere,
}

impl Piece {
    pub(crate) fn of(offset: u64, len_bytes: u64, place: Place, state: State) -> Self {
        Self::with(offset, len_bytes, vec![Copy { place, state, leg: 0 }])
    }

    pub(crate) fn with(offset: u64, len_bytes: u64, copies: Vec<Copy>) -> Self {
        Self {
            offset,
            len_bytes,
            copies,
            rebuild: Vec::new(),
            doubt: None,
            elsewhere: Vec::new(),
            is_sealed: false,
            stored_bytes: None,
        }
    }

    /// Bytes at each of its places.
    pub(crate) fn on_disk_bytes(&self) -> u64 {
        self.stored_bytes.unwrap_or(self.len_bytes)
    }

    pub(crate) fn end(&self) -> u64 {
        self.offset.saturating_add(self.len_bytes)
    }

    /// The part of it between two bytes that lie within it.
    pub(crate) fn slice(&self, start: u64, end: u64) -> Self {
        let by = start.saturating_sub(self.offset);
        let mut out = self.clone();
        out.offset = start;
        out.len_bytes = end.saturating_sub(start);
        if self.stored_bytes.is_some() {
            return out;
        }
        for copy in &mut out.copies {
            copy.place.offset = copy.place.offset.saturating_add(by);
        }
        for (place, _) in &mut out.rebuild {
            place.offset = place.offset.saturating_add(by);
        }
        out
    }

    pub(crate) fn is_readable(&self) -> bool {
        self.copies.iter().any(Copy::is_readable)
    }

    /// Where a read of it goes. `leg` chooses among the copies that the filesystem makes (btrfs: the thread id,
    /// modulo their number); `None` where that is not known. Which leg a block device's mirror takes is never known:
    /// it goes by the heads' positions and the queues.
    pub(crate) fn source(&self, leg: Option<u32>) -> Source {
        let wanted = self.leg(leg);
        let of_leg = |state: State| {
            let mut its =
                self.copies.iter().filter(|c| c.state == state && wanted.is_none_or(|w| c.leg == w));
            let first = its.next()?;
            // Two copies on one disk are one place as far as disks go.
            Some(if its.all(|c| c.place.disk == first.place.disk) {
                Source::One(first.place)
            } else {
                Source::Unknown
            })
        };
        if let Some(found) = of_leg(State::Readable).or_else(|| of_leg(State::WriteMostly)) {
            return found;
        }
        if self.rebuild.is_empty() { Source::Nowhere } else { Source::Many(self.rebuild.clone()) }
    }

    /// Which of the filesystem's copies the number picks, among those that can be read.
    fn leg(&self, number: Option<u32>) -> Option<u16> {
        let legs = self.copies.iter().map(|c| c.leg).max().unwrap_or(0).checked_add(1)?;
        if legs == 1 {
            return Some(0);
        }
        let preferred = u16::try_from(number? % u32::from(legs)).ok()?;
        let can = |leg: u16| self.copies.iter().any(|c| c.leg == leg && c.is_readable());
        // btrfs `find_live_mirror`: the preferred one, and if its device is gone the first that is not.
        if can(preferred) { Some(preferred) } else { (0..legs).find(|l| can(*l)).or(Some(preferred)) }
    }
}

/// Cuts several lists of pieces of the same bytes at each other's ends. Each element is a run with what every list has
/// there; a list that has nothing there gives `None`.
pub(crate) fn align(lists: &[Vec<Piece>]) -> Vec<Vec<Option<Piece>>> {
    if lists.iter().all(|l| l.len() == 1)
        && let Some(first) = lists.first().and_then(|l| l.first())
        && lists.iter().flatten().all(|p| p.offset == first.offset && p.len_bytes == first.len_bytes)
    {
        return vec![lists.iter().map(|l| l.first().cloned()).collect()];
    }
    let mut cuts: Vec<u64> = lists.iter().flatten().flat_map(|p| [p.offset, p.end()]).collect();
    cuts.sort_unstable();
    cuts.dedup();
    let mut at = vec![0_usize; lists.len()];
    let mut out = Vec::new();
    for pair in cuts.windows(2) {
        let (start, end) = (pair[0], pair[1]);
        let row: Vec<Option<Piece>> = lists
            .iter()
            .zip(&mut at)
            .map(|(list, at)| {
                while list.get(*at).is_some_and(|p| p.end() <= start) {
                    *at += 1;
                }
                list.get(*at).filter(|p| p.offset <= start).map(|p| p.slice(start, end))
            })
            .collect();
        if row.iter().any(Option::is_some) {
            out.push(row);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(offset: u64, len: u64, disk: usize, at: u64) -> Piece {
        Piece::of(offset, len, Place { disk, offset: at }, State::Readable)
    }

    #[test]
    fn lists_are_cut_at_each_others_ends() {
        let a = vec![piece(0, 10, 0, 100), piece(10, 10, 1, 200)];
        let b = vec![piece(5, 10, 2, 300)];
        let rows = align(&[a, b]);
        let shown: Vec<(u64, u64, bool, Option<u64>)> = rows
            .iter()
            .map(|r| {
                let any = r.iter().flatten().next().unwrap();
                (any.offset, any.len_bytes, r[0].is_some(), r[1].as_ref().map(|p| p.copies[0].place.offset))
            })
            .collect();
        assert_eq!(
            shown,
            [(0, 5, true, None), (5, 5, true, Some(300)), (10, 5, true, Some(305)), (15, 5, true, None)]
        );
        assert_eq!(rows[2][0].as_ref().unwrap().copies[0].place, Place { disk: 1, offset: 200 });
    }

    fn mirrored(copies: &[(usize, State, u16)]) -> Piece {
        let mut p = piece(0, 10, 0, 0);
        p.copies = copies
            .iter()
            .map(|(disk, state, leg)| Copy {
                place: Place { disk: *disk, offset: 7 },
                state: *state,
                leg: *leg,
            })
            .collect();
        p
    }

    #[test]
    fn a_read_goes_to_the_leg_of_the_thread_or_to_the_first_that_is_left() {
        use State::{Missing, Readable};
        let both = mirrored(&[(0, Readable, 0), (1, Readable, 1)]);
        assert_eq!(both.source(Some(3)), Source::One(Place { disk: 1, offset: 7 }));
        assert_eq!(both.source(None), Source::Unknown);
        let one = mirrored(&[(0, Readable, 0), (1, Missing, 1)]);
        assert_eq!(one.source(Some(3)), Source::One(Place { disk: 0, offset: 7 }));
        assert_eq!(one.source(None), Source::One(Place { disk: 0, offset: 7 }));
        assert_eq!(mirrored(&[(0, Missing, 0)]).source(Some(1)), Source::Nowhere);
    }

    #[test]
    fn the_leg_of_a_block_mirror_is_told_only_where_one_is_preferred() {
        use State::{Missing, Readable, Stale, WriteMostly};
        assert_eq!(mirrored(&[(0, Readable, 0), (1, Readable, 0)]).source(Some(1)), Source::Unknown);
        let one = Source::One(Place { disk: 1, offset: 7 });
        assert_eq!(mirrored(&[(0, WriteMostly, 0), (1, Readable, 0)]).source(None), one);
        assert_eq!(mirrored(&[(0, Stale, 0), (1, WriteMostly, 0)]).source(None), one);
        assert_eq!(mirrored(&[(1, Readable, 0), (1, Readable, 1)]).source(None), one);
        let mut p = mirrored(&[(0, Missing, 0)]);
        p.rebuild = vec![(Place { disk: 1, offset: 7 }, Role::Parity)];
        assert_eq!(p.source(None), Source::Many(p.rebuild.clone()));
    }
}
