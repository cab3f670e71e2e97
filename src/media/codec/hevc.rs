//! HEVC configuration record (ISO/IEC 14496-15 section 8.3.3.1).

use super::VideoFacts;

/// Reads an `hvcC` record; `entry` is the sample entry for the codec string (`hvc1`).
#[must_use]
pub fn hvcc(record: &[u8], entry: &str) -> Option<VideoFacts> {
    // Old x265 files carry version 0.
    if record.len() < 23 || record[0] > 1 {
        return None;
    }
    let (space, tier, profile) = (record[1] >> 6, record[1] >> 5 & 1, record[1] & 31);
    let compatibility = u32::from_be_bytes([record[2], record[3], record[4], record[5]]);
    let constraints = &record[6..12];
    let level = record[12];
    // The first two source flags (ITU-T H.265 section 7.4.4).
    let (progressive, interlaced) = (constraints[0] & 0x80 != 0, constraints[0] & 0x40 != 0);
    let bit_depth = (record[17] & 7).max(record[18] & 7) + 8;
    Some(VideoFacts {
        codec_string: codec_string(entry, space, tier, profile, compatibility, constraints, level),
        profile: match profile {
            1 => "Main",
            2 => "Main 10",
            3 => "Main Still Picture",
            4 => "Rext",
            _ => return None,
        }
        .to_owned(),
        level: level.into(),
        bit_depth,
        chroma: record[16] & 3,
        // Both flags set mean that the pictures tell one by one.
        interlaced: match (progressive, interlaced) {
            (true, true) => None,
            (_, interlaced) => Some(interlaced),
        },
        ..VideoFacts::default()
    })
}

/// ISO/IEC 14496-15 annex E.3: profile, reversed compatibility flags, tier and level, then the
/// constraint bytes without trailing zeros.
fn codec_string(
    entry: &str,
    space: u8,
    tier: u8,
    profile: u8,
    compatibility: u32,
    constraints: &[u8],
    level: u8,
) -> String {
    let space = ["", "A", "B", "C"][usize::from(space & 3)];
    let tier = if tier == 1 { 'H' } else { 'L' };
    let mut out = format!("{entry}.{space}{profile}.{:x}.{tier}{level}", compatibility.reverse_bits());
    let used = constraints.iter().rposition(|b| *b != 0).map_or(0, |n| n + 1);
    for b in &constraints[..used] {
        out.push_str(&format!(".{b:X}"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn main_10_of_x265_is_read() {
        let mut record = vec![1, 0x02, 0x20, 0, 0, 0, 0x90, 0, 0, 0, 0, 0, 153];
        record.extend([0xf0, 0, 0xfc, 0xfd, 0xfa, 0xfa, 0, 0, 0x0f, 0]);
        let f = hvcc(&record, "hvc1").unwrap();
        assert_eq!(f.codec_string, "hvc1.2.4.L153.90");
        assert_eq!((f.profile.as_str(), f.level, f.bit_depth), ("Main 10", 153, 10));
        assert_eq!((f.chroma, f.interlaced), (1, Some(false)));
        assert_eq!(f.pixel_format().as_deref(), Some("yuv420p10le"));
        record[1] = 0x21;
        record[2] = 0x60;
        record[6] = 0xb0;
        assert_eq!(hvcc(&record, "hvc1").unwrap().codec_string, "hvc1.1.6.H153.B0");
        assert_eq!(hvcc(&record[..22], "hvc1"), None);
    }
}
