//! Boxes (ISO/IEC 14496-12 section 4.2): found in the file, checked in memory, and pruned to what the
//! `mp4` crate is given.

use std::io::{Read, Seek};

use crate::guard::BudgetReader;
use crate::probe::{Fail, malformed};

/// Boxes inside boxes.
const MAX_DEPTH: u32 = 8;
/// Boxes of one file's index.
const MAX_BOXES: u32 = 100_000;
/// Boxes at the top: a long fragmented film has some thousands, and its `moov` is among the first.
const MAX_TOP_BOXES: u32 = 10_000;

/// A box in memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Boxed<'a> {
    pub(crate) kind: [u8; 4],
    pub(crate) body: &'a [u8],
}

/// The top of a file.
#[derive(Debug)]
pub(crate) struct Top {
    /// Body of `ftyp`; old QuickTime files have none.
    pub(crate) ftyp: Vec<u8>,
    /// Body of `moov`.
    pub(crate) moov: Vec<u8>,
    /// Where the box after `moov` begins.
    pub(crate) after_moov: u64,
}

/// Walks the top level to `moov` and reads it as a whole.
pub(crate) fn top<R: Read + Seek>(reader: &mut BudgetReader<R>, max_index_bytes: u64) -> Result<Top, Fail> {
    let size_bytes = reader.size_bytes();
    let (mut at, mut ftyp) = (0, Vec::new());
    for _ in 0..MAX_TOP_BOXES {
        if at + 8 > size_bytes {
            return malformed("isobmff: missing moov");
        }
        let head = reader.read_at(at, 8)?;
        let kind = [head[4], head[5], head[6], head[7]];
        let mut header = 8;
        let size = match u32::from_be_bytes([head[0], head[1], head[2], head[3]]) {
            0 => size_bytes - at,
            1 => {
                header = 16;
                let large = reader.read_at(at + 8, 8)?;
                u64::from_be_bytes(large.try_into().unwrap_or_default())
            }
            n => n.into(),
        };
        if size < header {
            return malformed(format!("isobmff ({}): size below its header", name(kind)));
        }
        let past_end = at.checked_add(size).is_none_or(|end| end > size_bytes);
        match &kind {
            // `mdat` may be cut short; an index may not.
            b"moov" | b"ftyp" if past_end => {
                return malformed(format!("isobmff ({}): ends after the file", name(kind)));
            }
            b"ftyp" => {
                if size > 4096 {
                    return Err(Fail::OverLimit("isobmff (ftyp): too large".to_owned()));
                }
                ftyp = reader.read_at(at + header, size - header)?;
            }
            b"moov" => {
                if size > max_index_bytes {
                    return Err(Fail::OverLimit(format!("isobmff (moov): {size} bytes")));
                }
                let moov = reader.read_at(at + header, size - header)?;
                return Ok(Top { ftyp, moov, after_moov: at + size });
            }
            _ if past_end => return malformed("isobmff: missing moov"),
            _ => {}
        }
        at += size;
    }
    Err(Fail::OverLimit("isobmff: too many boxes before moov".to_owned()))
}

/// Bytes of media data behind `from` that are in the file, and that the boxes claim. What cannot be read as a box
/// ends the count: it says nothing.
pub(crate) fn media_behind<R: Read + Seek>(
    reader: &mut BudgetReader<R>,
    from: u64,
) -> Result<(u64, u64), Fail> {
    let size_bytes = reader.size_bytes();
    let (mut at, mut present, mut claimed) = (from, 0_u64, 0_u64);
    // A fragmented film has thousands: the first ones tell whether it was cut near its beginning.
    for _ in 0..64 {
        if at.saturating_add(16) > size_bytes {
            break;
        }
        let head = reader.read_at(at, 16)?;
        let size = match u32::from_be_bytes([head[0], head[1], head[2], head[3]]) {
            0 => size_bytes - at,
            1 => u64::from_be_bytes(head[8..16].try_into().unwrap_or_default()),
            n => n.into(),
        };
        if size < 8 {
            break;
        }
        if &head[4..8] == b"mdat" {
            claimed = claimed.saturating_add(size);
            present += size.min(size_bytes - at);
        }
        match at.checked_add(size).filter(|end| *end < size_bytes) {
            Some(next) => at = next,
            None => break,
        }
    }
    Ok((present, claimed))
}

/// A box's name for an error text.
fn name(kind: [u8; 4]) -> String {
    kind.iter().map(|b| if b.is_ascii_graphic() { char::from(*b) } else { '?' }).collect()
}

/// The boxes in `body`; ends at the first that does not fit.
pub(crate) fn children(body: &[u8]) -> impl Iterator<Item = Boxed<'_>> {
    let mut rest = body;
    std::iter::from_fn(move || {
        let (one, after) = split(rest)?;
        rest = after;
        Some(one)
    })
}

/// The first box of this kind in `body`.
pub(crate) fn child<'a>(body: &'a [u8], kind: &[u8; 4]) -> Option<&'a [u8]> {
    children(body).find(|b| b.kind == *kind).map(|b| b.body)
}

/// The box at the end of a path of boxes.
pub(crate) fn at_path<'a>(body: &'a [u8], path: &[&[u8; 4]]) -> Option<&'a [u8]> {
    path.iter().try_fold(body, |body, kind| child(body, kind))
}

fn split(bytes: &[u8]) -> Option<(Boxed<'_>, &[u8])> {
    let head = bytes.get(..8)?;
    let kind = [head[4], head[5], head[6], head[7]];
    let size = u32::from_be_bytes([head[0], head[1], head[2], head[3]]);
    let (header, size) = match size {
        0 => (8, bytes.len()),
        1 => {
            let large = u64::from_be_bytes(bytes.get(8..16)?.try_into().ok()?);
            (16, usize::try_from(large).ok()?)
        }
        n => (8, usize::try_from(n).ok()?),
    };
    let body = bytes.get(header..size)?;
    Some((Boxed { kind, body }, &bytes[size..]))
}

fn is_container(kind: [u8; 4]) -> bool {
    matches!(&kind, b"trak" | b"mdia" | b"minf" | b"stbl" | b"edts" | b"dinf" | b"mvex" | b"tref")
}

/// Checks the structure of `moov`: every box inside its parent, tables no larger than their box,
/// depth and number bounded.
pub(crate) fn check(moov: &[u8]) -> Result<(), Fail> {
    let mut left = MAX_BOXES;
    check_inside(moov, *b"moov", 1, &mut left)
}

fn check_inside(body: &[u8], parent: [u8; 4], depth: u32, left: &mut u32) -> Result<(), Fail> {
    if depth > MAX_DEPTH {
        return Err(Fail::OverLimit("isobmff: too deep".to_owned()));
    }
    let mut rest = body;
    while !rest.is_empty() {
        let Some((one, after)) = split(rest) else {
            // QuickTime ends some lists of boxes with four zero bytes.
            if rest.len() < 8 && rest.iter().all(|b| *b == 0) {
                return Ok(());
            }
            return malformed(format!("isobmff ({}): a box does not fit in it", name(parent)));
        };
        *left = left.checked_sub(1).ok_or_else(|| Fail::OverLimit("isobmff: too many boxes".to_owned()))?;
        check_table(one)?;
        if is_container(one.kind) {
            check_inside(one.body, one.kind, depth + 1, left)?;
        }
        rest = after;
    }
    Ok(())
}

fn check_table(one: Boxed<'_>) -> Result<(), Fail> {
    let version = one.body.first().copied().unwrap_or(0);
    let (count_at, entry_bytes) = match &one.kind {
        b"stts" | b"ctts" => (4, 8),
        b"stss" | b"stco" => (4, 4),
        b"co64" => (4, 8),
        b"stsc" => (4, 12),
        b"elst" => (4, if version == 1 { 20 } else { 12 }),
        b"stsz" if be32(one.body, 4) == Some(0) => (8, 4),
        _ => return Ok(()),
    };
    let fits = be32(one.body, count_at).is_some_and(|count| {
        u64::from(count) * entry_bytes <= one.body.len().saturating_sub(count_at + 4) as u64
    });
    if fits { Ok(()) } else { malformed(format!("isobmff ({}): more entries than bytes", name(one.kind))) }
}

/// Four bytes, big endian.
pub(crate) fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

/// Two bytes, big endian.
pub(crate) fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

/// A file of `ftyp` and `moov` alone, with only the boxes whose values are used: what the `mp4`
/// crate reads. Sample offsets are left out, and so are the sample entries that it misreads
/// (QuickTime's) or does not know; those are read in `probe`.
pub(crate) fn pruned(moov: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(moov.len() + 64);
    put(&mut out, *b"ftyp", |o| o.extend(b"isom\0\0\x02\0isom"));
    put(&mut out, *b"moov", |o| prune_into(moov, o));
    out
}

fn put(out: &mut Vec<u8>, kind: [u8; 4], body: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend([0; 4]);
    out.extend(kind);
    body(out);
    // Checked boxes never grow by more than a few bytes each.
    let size = u32::try_from(out.len() - at).unwrap_or(u32::MAX);
    out[at..at + 4].copy_from_slice(&size.to_be_bytes());
}

fn prune_into(body: &[u8], out: &mut Vec<u8>) {
    for one in children(body) {
        match &one.kind {
            b"trak" | b"mdia" | b"edts" => put(out, one.kind, |o| prune_into(one.body, o)),
            b"minf" => put(out, one.kind, |o| {
                prune_into(one.body, o);
                put(o, *b"dinf", |o| {
                    put(o, *b"dref", |o| {
                        o.extend([0, 0, 0, 0, 0, 0, 0, 1]);
                        put(o, *b"url ", |o| o.extend([0, 0, 0, 1]));
                    });
                });
            }),
            b"stbl" => put(out, one.kind, |o| {
                prune_into(one.body, o);
                for table in [*b"stsc", *b"stco"] {
                    put(o, table, |o| o.extend([0; 8]));
                }
            }),
            // The crate wants room for a name and its end.
            b"hdlr" => put(out, one.kind, |o| {
                o.extend(one.body);
                o.resize(o.len() + 25_usize.saturating_sub(one.body.len()).max(1), 0);
            }),
            b"stsd" => put(out, one.kind, |o| prune_stsd(one.body, o)),
            b"mvhd" | b"tkhd" | b"elst" | b"mdhd" | b"stts" | b"ctts" | b"stss" | b"stsz" => {
                put(out, one.kind, |o| o.extend(one.body));
            }
            _ => {}
        }
    }
}

fn prune_stsd(body: &[u8], out: &mut Vec<u8>) {
    out.extend([0, 0, 0, 0, 0, 0, 0, 1]);
    let entry = body.get(8..).and_then(|b| children(b).next());
    match entry {
        Some(e) if e.kind == *b"avc1" => {
            let record = e.body.get(VISUAL_ENTRY_BYTES..).and_then(|b| child(b, b"avcC"));
            if let (Some(fixed), Some(record)) = (e.body.get(..VISUAL_ENTRY_BYTES), record) {
                put(out, *b"avc1", |o| {
                    o.extend(fixed);
                    put(o, *b"avcC", |o| o.extend(record));
                });
                return;
            }
        }
        _ => {}
    }
    put(out, *b"skip", |_| {});
}

/// Bytes of a visual sample entry before its boxes (section 12.1.3).
pub(crate) const VISUAL_ENTRY_BYTES: usize = 78;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::Limits;
    use std::io::Cursor;

    fn boxed(kind: &[u8; 4], body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        put(&mut out, *kind, |o| o.extend(body));
        out
    }

    fn why(result: Result<(), Fail>) -> String {
        match result.unwrap_err() {
            Fail::Malformed(w) | Fail::OverLimit(w) => w,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn sizes_that_lie_are_found() {
        let mut child = boxed(b"trak", &boxed(b"tkhd", &[0; 4]));
        assert!(check(&child).is_ok());
        child[8 + 3] = 60;
        assert_eq!(why(check(&child)), "isobmff (trak): a box does not fit in it");
        child[8 + 3] = 4;
        assert_eq!(why(check(&child)), "isobmff (trak): a box does not fit in it");
        let table = boxed(b"stts", &[0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, 0, 0, 0, 1]);
        assert_eq!(why(check(&table)), "isobmff (stts): more entries than bytes");
        let fixed = boxed(b"stsz", &[0, 0, 0, 0, 0, 0, 0, 9, 0xff, 0xff, 0xff, 0xff]);
        assert!(check(&fixed).is_ok());
    }

    #[test]
    fn depth_and_number_are_bounded() {
        let deep = (0..12).fold(Vec::new(), |inner, _| boxed(b"trak", &inner));
        assert_eq!(why(check(&deep)), "isobmff: too deep");
        let many = boxed(b"free", &[]).repeat(100_001);
        assert_eq!(why(check(&many)), "isobmff: too many boxes");
    }

    #[test]
    fn the_top_is_walked_within_the_file() {
        let read = |bytes: Vec<u8>, max| {
            let len = bytes.len() as u64;
            let mut r = BudgetReader::new(Cursor::new(bytes), len, Limits::default()).unwrap();
            top(&mut r, max)
        };
        let mut file = boxed(b"ftyp", b"isom\0\0\0\0");
        file.extend(boxed(b"mdat", &[7; 100]));
        file.extend(boxed(b"moov", b"1234"));
        let found = read(file.clone(), 1 << 20).unwrap();
        assert_eq!((found.ftyp.len(), &found.moov[..]), (8, &b"1234"[..]));
        assert!(matches!(read(file.clone(), 4), Err(Fail::OverLimit(_))));
        file.truncate(file.len() - 1);
        assert!(matches!(read(file.clone(), 1 << 20), Err(Fail::Malformed(_))));
        // A size of two would have a naive walk seek backwards for ever.
        file[16 + 3] = 2;
        assert!(matches!(read(file, 1 << 20), Err(Fail::Malformed(_))));
    }
}
