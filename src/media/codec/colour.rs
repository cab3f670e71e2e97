//! Colour code points (ITU-T H.273) in FFmpeg's words, and the dynamic range that they mean.

use super::dolby::DolbyVision;
use crate::info::{Hdr, Video};

/// A colour description. 2 is "unspecified".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Colour {
    /// Colour primaries (table 2).
    pub primaries: u8,
    /// Transfer characteristics (table 3).
    pub transfer: u8,
    /// Matrix coefficients (table 4).
    pub matrix: u8,
    /// Full range, where it is told.
    pub full_range: Option<bool>,
}

impl Colour {
    /// A description that tells nothing.
    pub const UNSPECIFIED: Self = Self { primaries: 2, transfer: 2, matrix: 2, full_range: None };

    /// Whether the transfer, which tells the dynamic range, is told.
    #[must_use]
    pub fn tells_range(self) -> bool {
        !matches!(self.transfer, 0 | 2 | 3)
    }

    /// Writes the description into a video stream's facts.
    pub fn describe(self, video: &mut Video) {
        let word = |w: &str| Some(w.to_owned()).filter(|w| !w.is_empty());
        video.color_primaries = word(match self.primaries {
            1 => "bt709",
            4 => "bt470m",
            5 => "bt470bg",
            6 => "smpte170m",
            7 => "smpte240m",
            8 => "film",
            9 => "bt2020",
            10 => "smpte428",
            11 => "smpte431",
            12 => "smpte432",
            22 => "ebu3213",
            _ => "",
        });
        video.color_transfer = word(match self.transfer {
            1 => "bt709",
            4 => "bt470m",
            5 => "bt470bg",
            6 => "smpte170m",
            7 => "smpte240m",
            8 => "linear",
            11 => "iec61966-2-4",
            12 => "bt1361e",
            13 => "iec61966-2-1",
            14 => "bt2020-10",
            15 => "bt2020-12",
            16 => "smpte2084",
            17 => "smpte428",
            18 => "arib-std-b67",
            _ => "",
        });
        video.color_space = word(match self.matrix {
            0 => "gbr",
            1 => "bt709",
            4 => "fcc",
            5 => "bt470bg",
            6 => "smpte170m",
            7 => "smpte240m",
            8 => "ycgco",
            9 => "bt2020nc",
            10 => "bt2020c",
            14 => "ictcp",
            _ => "",
        });
        video.color_range = self.full_range.map(|full| if full { "pc" } else { "tv" }.to_owned());
    }
}

/// The dynamic range of a transfer and a Dolby Vision record.
#[must_use]
pub fn class(colour: Colour, dolby: Option<DolbyVision>) -> Hdr {
    if let Some(dv) = dolby {
        return dv.class();
    }
    match colour.transfer {
        16 => Hdr::Hdr10,
        18 => Hdr::Hlg,
        _ => Hdr::Sdr,
    }
}
