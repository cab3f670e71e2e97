//! Small conversions of coded data that MP4 wants in another form. Pure.

/// Rewrites Annex B (start codes, ITU-T H.264 and H.265 Annex B) to four-byte lengths
/// (ISO/IEC 14496-15) and appends it to `out`. Access unit delimiters are left out: MP4 has no
/// use for them.
pub fn annex_b_to_lengths(data: &[u8], hevc: bool, out: &mut Vec<u8>) {
    for nal in nals(data) {
        let kind = nal_kind(nal, hevc);
        if kind == if hevc { 35 } else { 9 } {
            continue;
        }
        out.extend_from_slice(&u32::try_from(nal.len()).unwrap_or(u32::MAX).to_be_bytes());
        out.extend_from_slice(nal);
    }
}

/// Whether the data begins with a start code.
#[must_use]
pub fn is_annex_b(data: &[u8]) -> bool {
    data.starts_with(&[0, 0, 1]) || data.starts_with(&[0, 0, 0, 1])
}

/// The NAL units of Annex B data, without start codes and trailing zeros.
pub fn nals(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = after_start_code(data);
    std::iter::from_fn(move || {
        loop {
            let from = rest?;
            let end = find_start_code(from).unwrap_or(from.len());
            rest = after_start_code(&from[end..]);
            let mut nal = &from[..end];
            while let [head @ .., 0] = nal {
                nal = head;
            }
            if !nal.is_empty() {
                return Some(nal);
            }
        }
    })
}

/// The NAL units of data with lengths of `size` bytes (1 to 4). Stops at the first that lies.
pub fn length_nals(mut data: &[u8], size: usize) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let head = data.get(..size)?;
        let len = head.iter().fold(0_usize, |n, b| n << 8 | usize::from(*b));
        let nal = data.get(size..size.checked_add(len)?)?;
        data = &data[size + len..];
        Some(nal)
    })
}

fn find_start_code(data: &[u8]) -> Option<usize> {
    // Every third byte is looked at first: a byte above 1 rules out a start code around it.
    let mut i = 2;
    while i < data.len() {
        match data[i] {
            0 => i += 1,
            1 if data[i - 1] == 0 && data[i - 2] == 0 => return Some(i - 2),
            _ => i += 3,
        }
    }
    None
}

fn after_start_code(data: &[u8]) -> Option<&[u8]> {
    let at = find_start_code(data)?;
    Some(&data[at + 3..])
}

/// `nal_unit_type` (H.264 section 7.4.1, H.265 section 7.4.2.2).
#[must_use]
pub fn nal_kind(nal: &[u8], hevc: bool) -> u8 {
    match nal.first() {
        Some(b) if hevc => (b >> 1) & 0x3f,
        Some(b) => b & 0x1f,
        None => 0,
    }
}

/// Whether a picture that begins with this NAL unit can start decoding: an IDR of H.264, an
/// intra random access point of H.265 (16 to 21).
#[must_use]
pub fn starts_decoding(nal: &[u8], hevc: bool) -> bool {
    let kind = nal_kind(nal, hevc);
    if hevc { (16..=21).contains(&kind) } else { kind == 5 }
}

/// An ADTS header (ISO/IEC 13818-7 section 6.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Adts {
    /// Length of the header in bytes: 7, or 9 with a checksum.
    pub header_bytes: usize,
    /// `AudioSpecificConfig` (ISO/IEC 14496-3 section 1.6.2.1) that says the same.
    pub config: [u8; 2],
}

/// Reads the ADTS header at the front of `data`. `None` if there is none, or if the channels are
/// described inside the stream (configuration 0), which two bytes cannot say.
#[must_use]
pub fn adts(data: &[u8]) -> Option<Adts> {
    let h = data.first_chunk::<7>()?;
    if h[0] != 0xff || h[1] & 0xf6 != 0xf0 {
        return None;
    }
    let profile = (h[2] >> 6) + 1;
    let rate = (h[2] >> 2) & 15;
    let channels = (h[2] & 1) << 2 | h[3] >> 6;
    (channels != 0 && rate < 13).then_some(Adts {
        header_bytes: if h[1] & 1 == 1 { 7 } else { 9 },
        config: [profile << 3 | rate >> 1, (rate & 1) << 7 | channels << 3],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annex_b_becomes_lengths_without_delimiters() {
        let data = [0, 0, 0, 1, 9, 0xf0, 0, 0, 0, 1, 0x65, 1, 2, 0, 0, 1, 0x41, 3, 0, 0];
        let mut out = Vec::new();
        annex_b_to_lengths(&data, false, &mut out);
        assert_eq!(out, [0, 0, 0, 3, 0x65, 1, 2, 0, 0, 0, 2, 0x41, 3]);
    }

    #[test]
    fn start_codes_are_found_wherever_they_stand() {
        for lead in 0..7_usize {
            let mut data = vec![0, 0, 1];
            data.extend(std::iter::repeat_n(0x55, lead + 1));
            data.extend([0, 0, 1, 0x65, 7]);
            let found: Vec<_> = nals(&data).map(<[u8]>::len).collect();
            assert_eq!(found, [lead + 1, 2], "{lead}");
        }
        assert_eq!(nals(&[1, 2, 3]).count(), 0);
        assert_eq!(nals(&[]).count(), 0);
    }

    #[test]
    fn lying_lengths_end_the_walk() {
        let data = [0, 0, 0, 1, 5, 0, 0, 0, 200, 1];
        assert_eq!(length_nals(&data, 4).collect::<Vec<_>>(), [&[5][..]]);
    }

    #[test]
    fn an_adts_header_gives_its_configuration() {
        // LC, 48 kHz, stereo, without checksum.
        let header = adts(&[0xff, 0xf1, 0x4c, 0x80, 0x02, 0x1f, 0xfc]).unwrap();
        assert_eq!(header, Adts { header_bytes: 7, config: [0x11, 0x90] });
        assert_eq!(adts(&[0xff, 0xf1, 0x4c, 0, 0, 0, 0]), None);
        assert_eq!(adts(&[1, 2, 3]), None);
    }
}
