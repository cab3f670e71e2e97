//! How fast one reader or writer goes who is in a hurry: what copying programs and benchmarks show. For comparing the model with what others
//! measured; it is not fitted to them.

use spindle_drive::drive::{Drive, Kind};
use spindle_drive::params::Params;

use crate::error::SimulateError;
use crate::layout::{Layout, Place};
use crate::replay::{Host, Stream, replay};
use crate::session::Request;

/// Bytes a second of one sequential reader with `depth` reads of `request_bytes` under way, over `total_bytes` in all.
///
/// # Errors
/// The volume is too small.
pub fn read_rate(
    layout: &Layout,
    disk: &Params,
    request_bytes: u64,
    depth: u64,
    total_bytes: u64,
) -> Result<f64, SimulateError> {
    let depth = depth.max(1);
    let each = (total_bytes / depth / request_bytes).max(1);
    // As many hands as reads under way, each of which takes every so manyth read.
    let hands: Vec<Vec<Request>> = (0..depth)
        .map(|hand| {
            let offset = |i: u64| (i * depth + hand) * request_bytes;
            (0..each).map(|i| Request { at_s: 0.0, offset: offset(i), len_bytes: request_bytes }).collect()
        })
        .collect();
    // One thread, whatever its depth.
    let streams: Vec<Stream<'_>> = hands.iter().map(|hand| Stream::whole(hand, 0, 0.0, 0)).collect();
    let host = Host { buffer_s: f64::INFINITY, ..Host::default() };
    let outcome = replay(layout, disk, &host, &streams, &mut |_, _| true)?;
    Ok((depth * each * request_bytes) as f64 / outcome.elapsed_s)
}

/// Bytes a second of one sequential writer with one write under way: to all copies of a mirror; of a parity row that is written whole, data
/// and parity; of a part of one, after the old data and parity were read (read, modify, write). Nothing gathers writes into
/// rows, and there is no journal. `None` for layouts whose rows depend on the record (raidz).
#[must_use]
pub fn write_rate(layout: &Layout, disk: &Params, request_bytes: u64, total_bytes: u64) -> Option<f64> {
    if layout.parity() > 0 && layout.row(0).is_none() {
        return None;
    }
    let mut disks: Vec<Drive> = (0..layout.disks()).map(|_| Drive::new(disk.clone())).collect();
    let (mut now_s, mut at) = (0.01_f64, 0_u64);
    let start_s = now_s;
    while at < total_bytes {
        let steps = write_steps(layout, at, request_bytes);
        for (kind, places) in [(Kind::Read, steps.reads), (Kind::Write, steps.writes)] {
            let mut end_s = now_s;
            let mut free_s = vec![now_s; disks.len()];
            for (place, len_bytes) in merged(places) {
                let drive = &mut disks[place.disk];
                let begin_s = free_s[place.disk].max(drive.free_at_s());
                let done_s = drive.serve(kind, place.offset, len_bytes, begin_s).done_s;
                free_s[place.disk] = done_s;
                end_s = end_s.max(done_s);
            }
            now_s = end_s;
        }
        now_s += crate::replay::HOST_TURN_S;
        at += request_bytes;
    }
    Some(at as f64 / (now_s - start_s))
}

#[derive(Default)]
struct Steps {
    reads: Vec<(Place, u64)>,
    writes: Vec<(Place, u64)>,
}

fn write_steps(layout: &Layout, at: u64, len_bytes: u64) -> Steps {
    let mut steps = Steps::default();
    let end = at + len_bytes;
    layout.runs(at, len_bytes, |_, run| {
        steps.writes.extend(run.copies.iter().map(|place| (*place, run.len_bytes)));
    });
    let mut from = at;
    while let Some(row) = (from < end).then(|| layout.row(from)).flatten() {
        let to = end.min(row.start + row.data_bytes);
        // The part of the units that is touched: whole ones, unless the write lies within one.
        let (first, last) = ((from - row.start) % row.unit_bytes, to - from);
        let (skip, len) = if last + first <= row.unit_bytes { (first, last) } else { (0, row.unit_bytes) };
        let parity = |p: &Place| (Place { offset: p.offset + skip, ..*p }, len);
        if to - from < row.data_bytes {
            layout.runs(from, to - from, |_, run| steps.reads.push((run.copies[0], run.len_bytes)));
            steps.reads.extend(row.parity.iter().map(parity));
        }
        steps.writes.extend(row.parity.iter().map(parity));
        from = to;
    }
    steps
}

/// Pieces that touch, as one; in order of the disks' places.
fn merged(mut places: Vec<(Place, u64)>) -> Vec<(Place, u64)> {
    places.sort_unstable();
    let mut out: Vec<(Place, u64)> = Vec::with_capacity(places.len());
    for (place, len_bytes) in places {
        match out.last_mut() {
            Some((last, len)) if last.disk == place.disk && place.offset <= last.offset + *len => {
                *len = (*len).max(place.offset + len_bytes - last.offset);
            }
            _ => out.push((place, len_bytes)),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const K: u64 = 1 << 10;

    fn layout(text: &str) -> Layout {
        Layout::parse(text, 1 << 40).unwrap()
    }

    fn disk() -> Params {
        Params::preset("hdd7200", 1 << 40).unwrap()
    }

    #[test]
    fn a_lone_reader_of_a_mirror_has_one_disks_rate_and_of_a_stripe_more() {
        let rate = |text: &str| read_rate(&layout(text), &disk(), 4 << 20, 1, 256 << 20).unwrap();
        let (one, mirror, stripe) =
            (rate("single"), rate("mirror,disks=2"), rate("simple,disks=4,interleave=1M"));
        assert!((0.9..=1.1).contains(&(mirror / one)), "{mirror} against {one}");
        assert!(stripe > 1.5 * one, "{stripe} against {one}");
    }

    #[test]
    fn a_whole_row_is_written_with_its_parity_and_a_part_of_one_is_read_first() {
        let raid5 = layout("md-raid5,disks=3,chunk=64K");
        let whole = write_steps(&raid5, 0, 128 * K);
        assert_eq!((whole.reads.len(), whole.writes.len()), (0, 3));
        let part = write_steps(&raid5, 64 * K, 32 * K);
        let at = |disk: usize, offset: u64| (Place { disk, offset }, 32 * K);
        assert_eq!(part.reads, [at(1, 0), at(2, 0)]);
        assert_eq!(part.writes, [at(1, 0), at(2, 0)]);
        let mirror = write_steps(&layout("mirror,disks=4,columns=2"), 0, 512 * K);
        assert_eq!((mirror.reads.len(), mirror.writes.len()), (0, 4));
    }

    #[test]
    fn parts_of_rows_cost_parity_more_than_a_mirror() {
        let rate = |text: &str, request| write_rate(&layout(text), &disk(), request, 64 << 20).unwrap();
        let (mirror, parity) = (rate("mirror,disks=2", 64 * K), rate("parity,disks=3", 64 * K));
        assert!(parity < 0.6 * mirror, "{parity} against {mirror}");
        assert_eq!(write_rate(&layout("zfs-raidz1,disks=3"), &disk(), 1 << 20, 1 << 20), None);
    }
}
