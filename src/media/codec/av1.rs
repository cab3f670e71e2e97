//! AV1 configuration record (AV1 Codec ISO Media File Format Binding, section 2.3).

use super::VideoFacts;

/// Reads an `av1C` record.
#[must_use]
pub fn av1c(record: &[u8]) -> Option<VideoFacts> {
    let [0x81, a, b, _, ..] = *record else { return None };
    let (profile, level) = (a >> 5, a & 31);
    let tier = if b & 0x80 != 0 { 'H' } else { 'M' };
    let (high, twelve, grey) = (b & 0x40 != 0, b & 0x20 != 0, b & 0x10 != 0);
    let bit_depth = match (high, twelve) {
        (false, _) => 8,
        (true, false) => 10,
        (true, true) => 12,
    };
    Some(VideoFacts {
        codec_string: format!("av01.{profile}.{level:02}{tier}.{bit_depth:02}"),
        profile: ["Main", "High", "Professional"].get(usize::from(profile))?.to_string(),
        level: level.into(),
        bit_depth,
        chroma: match (grey, b & 8 != 0, b & 4 != 0) {
            (true, ..) => 0,
            (_, true, true) => 1,
            (_, true, false) => 2,
            _ => 3,
        },
        interlaced: Some(false),
        ..VideoFacts::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn main_10_bit_is_read() {
        let f = av1c(&[0x81, 0x0d, 0x4c, 0]).unwrap();
        assert_eq!(f.codec_string, "av01.0.13M.10");
        assert_eq!((f.profile.as_str(), f.level, f.bit_depth, f.chroma), ("Main", 13, 10, 1));
        assert_eq!(av1c(&[0x82, 0x0d, 0x4c, 0]), None);
        assert_eq!(av1c(&[0x81, 0xed, 0x4c, 0]), None);
    }
}
