//! VP9 configuration: the box (VP Codec ISO Media File Format Binding) and `WebM`'s `CodecPrivate`.

use super::VideoFacts;
use super::colour::Colour;

fn facts(profile: u8, level: u8, bit_depth: u8, chroma: u8) -> Option<VideoFacts> {
    if profile > 3 || !matches!(bit_depth, 8 | 10 | 12) {
        return None;
    }
    Some(VideoFacts {
        codec_string: format!("vp09.{profile:02}.{level:02}.{bit_depth:02}"),
        profile: format!("Profile {profile}"),
        level: level.into(),
        bit_depth,
        // Codes 0 and 1 are both 4:2:0, with chroma at other places.
        chroma: chroma.max(1),
        interlaced: Some(false),
        ..VideoFacts::default()
    })
}

/// Reads a `vpcC` box, its version and flags included.
#[must_use]
pub fn vpcc(record: &[u8]) -> Option<VideoFacts> {
    let [1, _, _, _, profile, level, packed, primaries, transfer, matrix, ..] = *record else {
        return None;
    };
    let mut f = facts(profile, level, packed >> 4, packed >> 1 & 7)?;
    let full_range = Some(packed & 1 == 1);
    f.colour = Some(Colour { primaries, transfer, matrix, full_range });
    Some(f)
}

/// Reads `CodecPrivate` of `V_VP9`: features as id, length, value.
#[must_use]
pub fn codec_private(mut bytes: &[u8]) -> Option<VideoFacts> {
    let (mut profile, mut level, mut depth, mut chroma) = (None, None, None, None);
    while let [id, len, rest @ ..] = bytes {
        let value = rest.get(..usize::from(*len))?;
        if let [v] = value {
            match id {
                1 => profile = Some(*v),
                2 => level = Some(*v),
                3 => depth = Some(*v),
                4 => chroma = Some(*v),
                _ => {}
            }
        }
        bytes = &rest[value.len()..];
    }
    facts(profile?, level?, depth?, chroma?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_records_tell_the_same() {
        let boxed = vpcc(&[1, 0, 0, 0, 2, 51, 0xa2, 9, 16, 9, 0, 0]).unwrap();
        let private = codec_private(&[1, 1, 2, 2, 1, 51, 3, 1, 10, 4, 1, 1]).unwrap();
        assert_eq!(boxed.codec_string, "vp09.02.51.10");
        assert_eq!(boxed.colour.unwrap().transfer, 16);
        assert_eq!(private, VideoFacts { colour: None, ..boxed });
        assert_eq!(codec_private(&[1, 9, 2]), None);
        assert_eq!(codec_private(&[1, 1, 2]), None);
    }
}
