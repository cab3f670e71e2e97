//! Dolby Vision configuration record (Dolby Vision Streams Within the ISO Base Media File Format,
//! section 3.2).

use crate::info::Hdr;

/// What the record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DolbyVision {
    /// Profile: 5, 7, 8, 9, 10.
    pub profile: u8,
    /// Level.
    pub level: u8,
    /// What the base layer is by itself: 0 nothing, 1 HDR10, 2 SDR, 4 HLG, 6 Blu-ray HDR10.
    pub compatibility: u8,
}

impl DolbyVision {
    /// Reads a `dvcC` or `dvvC` box or Matroska's copy of it.
    #[must_use]
    pub fn parse(record: &[u8]) -> Option<Self> {
        let [_major, _minor, a, b, c, ..] = *record else { return None };
        Some(Self { profile: a >> 1, level: (a & 1) << 5 | b >> 3, compatibility: c >> 4 })
    }

    /// The codec string of a sample entry that only a Dolby Vision decoder opens (Dolby Vision Streams
    /// Within the HTTP Live Streaming Format, section 2.4).
    #[must_use]
    pub fn codec_string(self, entry: &str) -> String {
        format!("{entry}.{:02}.{:02}", self.profile, self.level)
    }

    /// The class that a decision needs (Dolby Vision Profiles and Levels, version 1.4, table 2).
    #[must_use]
    pub fn class(self) -> Hdr {
        match (self.profile, self.compatibility) {
            // Profile 5 and 10.0 say themselves that their base is nothing to look at.
            (5, _) | (10, 0) => Hdr::Dv5,
            (7, _) => Hdr::Dv7,
            (4 | 9, _) | (8 | 10, 2) => Hdr::DvSdr,
            (8 | 10, 1 | 6) => Hdr::DvHdr10,
            (8 | 10, 4) => Hdr::DvHlg,
            _ => Hdr::DvInvalid,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profile_and_base_give_the_class() {
        for (profile, compatibility, class) in [
            (5, 0, Hdr::Dv5),
            (8, 1, Hdr::DvHdr10),
            (8, 4, Hdr::DvHlg),
            (8, 2, Hdr::DvSdr),
            (7, 6, Hdr::Dv7),
            (10, 0, Hdr::Dv5),
            (10, 1, Hdr::DvHdr10),
            (10, 4, Hdr::DvHlg),
            (9, 2, Hdr::DvSdr),
            (8, 0, Hdr::DvInvalid),
            (3, 1, Hdr::DvInvalid),
        ] {
            let record = [1, 0, profile << 1, 6 << 3 | 5, compatibility << 4];
            let dv = DolbyVision::parse(&record).unwrap();
            assert_eq!(dv, DolbyVision { profile, level: 6, compatibility });
            assert_eq!(dv.class(), class);
        }
        assert_eq!(DolbyVision::parse(&[1, 0, 10]), None);
    }
}
