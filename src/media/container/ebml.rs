//! EBML elements (RFC 8794) of Matroska (RFC 9559): found in the file, checked in memory.

use std::io::{Read, Seek};

use crate::guard::BudgetReader;
use crate::probe::{Fail, malformed};

/// Elements inside elements.
const MAX_DEPTH: u32 = 8;
/// Elements of one top-level element in memory.
const MAX_ELEMENTS: u32 = 100_000;
/// Bytes of one leaf.
const MAX_LEAF_BYTES: u64 = 64 << 20;

/// Element ids that are used (RFC 9559 section 27.1).
pub(crate) mod id {
    pub(crate) const EBML: u32 = 0x1a45_dfa3;
    pub(crate) const DOC_TYPE: u32 = 0x4282;
    pub(crate) const SEGMENT: u32 = 0x1853_8067;
    pub(crate) const SEEK_HEAD: u32 = 0x114d_9b74;
    pub(crate) const SEEK: u32 = 0x4dbb;
    pub(crate) const SEEK_ID: u32 = 0x53ab;
    pub(crate) const SEEK_POSITION: u32 = 0x53ac;
    pub(crate) const INFO: u32 = 0x1549_a966;
    pub(crate) const TIMESTAMP_SCALE: u32 = 0x2a_d7b1;
    pub(crate) const DURATION: u32 = 0x4489;
    pub(crate) const TRACKS: u32 = 0x1654_ae6b;
    pub(crate) const TRACK_ENTRY: u32 = 0xae;
    pub(crate) const CODEC_DELAY: u32 = 0x56aa;
    pub(crate) const TRACK_TIMESTAMP_SCALE: u32 = 0x23_314f;
    pub(crate) const VIDEO: u32 = 0xe0;
    pub(crate) const FLAG_INTERLACED: u32 = 0x9a;
    pub(crate) const DISPLAY_WIDTH: u32 = 0x54b0;
    pub(crate) const DISPLAY_HEIGHT: u32 = 0x54ba;
    pub(crate) const DISPLAY_UNIT: u32 = 0x54b2;
    pub(crate) const PIXEL_CROP: [u32; 4] = [0x54aa, 0x54bb, 0x54cc, 0x54dd];
    pub(crate) const PROJECTION: u32 = 0x7670;
    pub(crate) const PROJECTION_POSE_ROLL: u32 = 0x7675;
    pub(crate) const COLOUR: u32 = 0x55b0;
    pub(crate) const MATRIX: u32 = 0x55b1;
    pub(crate) const RANGE: u32 = 0x55b9;
    pub(crate) const TRANSFER: u32 = 0x55ba;
    pub(crate) const PRIMARIES: u32 = 0x55bb;
    pub(crate) const AUDIO: u32 = 0xe1;
    pub(crate) const SAMPLE_RATE: u32 = 0xb5;
    pub(crate) const OUTPUT_SAMPLE_RATE: u32 = 0x78b5;
    pub(crate) const CHANNELS: u32 = 0x9f;
    pub(crate) const CONTENT_ENCODINGS: u32 = 0x6d80;
    pub(crate) const CONTENT_ENCODING: u32 = 0x6240;
    pub(crate) const CONTENT_ENCODING_SCOPE: u32 = 0x5032;
    pub(crate) const BLOCK_ADDITION_MAPPING: u32 = 0x41e4;
    pub(crate) const BLOCK_ADD_ID_TYPE: u32 = 0x41e7;
    pub(crate) const BLOCK_ADD_ID_EXTRA: u32 = 0x41ed;
    pub(crate) const CHAPTERS: u32 = 0x1043_a770;
    pub(crate) const EDITION_ENTRY: u32 = 0x45b9;
    pub(crate) const CHAPTER_ATOM: u32 = 0xb6;
    pub(crate) const CHAPTER_DISPLAY: u32 = 0x80;
    pub(crate) const TAGS: u32 = 0x1254_c367;
    pub(crate) const TAG: u32 = 0x7373;
    pub(crate) const TARGETS: u32 = 0x63c0;
    pub(crate) const SIMPLE_TAG: u32 = 0x67c8;
    pub(crate) const ATTACHMENTS: u32 = 0x1941_a469;
    pub(crate) const ATTACHED_FILE: u32 = 0x61a7;
    pub(crate) const FILE_NAME: u32 = 0x466e;
    pub(crate) const FILE_MIME: u32 = 0x4660;
    pub(crate) const FILE_DATA: u32 = 0x465c;
    pub(crate) const CUES: u32 = 0x1c53_bb6b;
    pub(crate) const CUE_POINT: u32 = 0xbb;
    pub(crate) const CUE_TIME: u32 = 0xb3;
    pub(crate) const CUE_TRACK_POSITIONS: u32 = 0xb7;
    pub(crate) const CUE_TRACK: u32 = 0xf7;
    pub(crate) const CLUSTER: u32 = 0x1f43_b675;
    pub(crate) const TIMESTAMP: u32 = 0xe7;
    pub(crate) const SIMPLE_BLOCK: u32 = 0xa3;
    pub(crate) const BLOCK_GROUP: u32 = 0xa0;
    pub(crate) const BLOCK: u32 = 0xa1;
}

/// An element's header. `size` is `None` where it is unknown (RFC 8794 section 6.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) id: u32,
    pub(crate) size: Option<u64>,
    pub(crate) header_bytes: u64,
}

/// Reads a header from bytes.
pub(crate) fn header(bytes: &[u8]) -> Option<Header> {
    let first = *bytes.first()?;
    let id_len = first.leading_zeros() as usize + 1;
    if id_len > 4 {
        return None;
    }
    let id = bytes.get(..id_len)?.iter().fold(0, |n, b| n << 8 | u32::from(*b));
    let first = *bytes.get(id_len)?;
    let len = first.leading_zeros() as usize + 1;
    if len > 8 {
        return None;
    }
    let raw = bytes.get(id_len..id_len + len)?;
    let value = raw.iter().fold(0_u64, |n, b| n << 8 | u64::from(*b));
    let mask = (1_u64 << (7 * len)) - 1;
    let size = Some(value & mask).filter(|v| *v != mask);
    Some(Header { id, size, header_bytes: (id_len + len) as u64 })
}

/// Reads the header at `at` in the file.
pub(crate) fn header_at<R: Read + Seek>(reader: &mut BudgetReader<R>, at: u64) -> Result<Header, Fail> {
    let left = reader.size_bytes().saturating_sub(at).min(12);
    let bytes = reader.read_at(at, left)?;
    header(&bytes).ok_or_else(|| Fail::Malformed(format!("ebml: no element at byte {at}")))
}

/// An element in memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Element<'a> {
    pub(crate) id: u32,
    pub(crate) body: &'a [u8],
}

impl<'a> Element<'a> {
    /// The value as an unsigned integer.
    pub(crate) fn uint(self) -> Option<u64> {
        (self.body.len() <= 8).then(|| self.body.iter().fold(0, |n, b| n << 8 | u64::from(*b)))
    }

    /// The value as a float.
    pub(crate) fn float(self) -> Option<f64> {
        match self.body.len() {
            0 => Some(0.0),
            4 => Some(f32::from_be_bytes(self.body.try_into().ok()?).into()),
            8 => Some(f64::from_be_bytes(self.body.try_into().ok()?)),
            _ => None,
        }
        .filter(|f| f.is_finite())
    }

    /// The value as text; bytes that are none become U+FFFD.
    pub(crate) fn text(self) -> String {
        String::from_utf8_lossy(self.body).trim_end_matches('\0').to_owned()
    }

    /// The first child of this id.
    pub(crate) fn child(self, id: u32) -> Option<Element<'a>> {
        children(self.body).find(|e| e.id == id)
    }
}

/// The elements in `body`; ends at the first that does not fit.
pub(crate) fn children(body: &[u8]) -> impl Iterator<Item = Element<'_>> {
    let mut rest = body;
    std::iter::from_fn(move || {
        let (one, after) = split(rest)?;
        rest = after;
        Some(one)
    })
}

fn split(bytes: &[u8]) -> Option<(Element<'_>, &[u8])> {
    let h = header(bytes)?;
    let start = usize::try_from(h.header_bytes).ok()?;
    let end = start.checked_add(usize::try_from(h.size?).ok()?)?;
    Some((Element { id: h.id, body: bytes.get(start..end)? }, &bytes[end..]))
}

fn is_master(id: u32) -> bool {
    matches!(
        id,
        id::SEEK
            | id::TRACK_ENTRY
            | id::VIDEO
            | id::AUDIO
            | id::COLOUR
            | id::CONTENT_ENCODINGS
            | id::CONTENT_ENCODING
            | id::EDITION_ENTRY
            | id::CHAPTER_ATOM
            | id::CHAPTER_DISPLAY
            | id::TAG
            | id::TARGETS
            | id::SIMPLE_TAG
            | id::CUE_POINT
            | id::CUE_TRACK_POSITIONS
            | id::BLOCK_ADDITION_MAPPING
    )
}

/// Checks the structure of a top-level element's body: every element inside its parent, of known
/// size, leaves bounded, depth and number bounded.
pub(crate) fn check(body: &[u8]) -> Result<(), Fail> {
    let mut left = MAX_ELEMENTS;
    check_inside(body, 1, &mut left)
}

fn check_inside(body: &[u8], depth: u32, left: &mut u32) -> Result<(), Fail> {
    if depth > MAX_DEPTH {
        return Err(Fail::OverLimit("ebml: too deep".to_owned()));
    }
    let mut rest = body;
    while !rest.is_empty() {
        let Some((one, after)) = split(rest) else {
            return malformed("ebml: an element does not fit in its parent");
        };
        *left = left.checked_sub(1).ok_or_else(|| Fail::OverLimit("ebml: too many elements".to_owned()))?;
        if one.body.len() as u64 > MAX_LEAF_BYTES {
            return Err(Fail::OverLimit("ebml: an element is too large".to_owned()));
        }
        if is_master(one.id) {
            check_inside(one.body, depth + 1, left)?;
        }
        rest = after;
    }
    Ok(())
}

/// An element written with a size of eight bytes.
pub(crate) fn put(out: &mut Vec<u8>, id: u32, body: &[u8]) {
    let id = id.to_be_bytes();
    let from = id.iter().position(|b| *b != 0).unwrap_or(3);
    out.extend(&id[from..]);
    out.extend((1_u64 << 56 | body.len() as u64).to_be_bytes());
    out.extend(body);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_as_the_standard_has_them() {
        // RFC 8794 section 4.3: the value 2 in every length.
        for (bytes, size, len) in [
            (&[0xae, 0x82][..], Some(2), 2),
            (&[0xae, 0x40, 0x02], Some(2), 3),
            (&[0x1a, 0x45, 0xdf, 0xa3, 0x10, 0, 0, 2], Some(2), 8),
            (&[0xae, 0xff], None, 2),
            (&[0xae, 0x01, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], None, 9),
        ] {
            let h = header(bytes).unwrap();
            assert_eq!((h.size, h.header_bytes), (size, len));
        }
        assert_eq!(header(&[0x08, 0x80]), None);
        assert_eq!(header(&[0xae, 0x00]), None);
        assert_eq!(header(&[0xae]), None);
    }

    #[test]
    fn sizes_that_lie_are_found() {
        let mut track = Vec::new();
        put(&mut track, id::CUE_TRACK, &[1]);
        let mut tracks = Vec::new();
        put(&mut tracks, id::TRACK_ENTRY, &track);
        assert!(check(&tracks).is_ok());
        let last = tracks.len() - 2;
        tracks[last] = 9;
        assert!(matches!(check(&tracks), Err(Fail::Malformed(_))));
        let mut deep = Vec::new();
        for _ in 0..12 {
            let inner = std::mem::take(&mut deep);
            put(&mut deep, id::CHAPTER_ATOM, &inner);
        }
        assert!(matches!(check(&deep), Err(Fail::OverLimit(_))));
        let many = [0xec, 0x80].repeat(100_001);
        assert!(matches!(check(&many), Err(Fail::OverLimit(_))));
    }
}
