//! H.264: the configuration record (ISO/IEC 14496-15 section 5.3.3.1) and the sequence parameter
//! set in it (ITU-T H.264 section 7.3.2.1.1 and annex E).

use super::bits::{Bits, unescaped};
use super::colour::Colour;
use super::{VideoFacts, reduced};

/// Sample aspects by `aspect_ratio_idc` (table E-1).
const ASPECTS: [[u32; 2]; 17] = [
    [0, 0],
    [1, 1],
    [12, 11],
    [10, 11],
    [16, 11],
    [40, 33],
    [24, 11],
    [20, 11],
    [32, 11],
    [80, 33],
    [18, 11],
    [15, 11],
    [64, 33],
    [160, 99],
    [4, 3],
    [3, 2],
    [2, 1],
];

/// Reads an `avcC` record.
#[must_use]
pub fn avcc(record: &[u8]) -> Option<VideoFacts> {
    let [1, _, _, _, _, count, a, b, rest @ ..] = record else { return None };
    if count & 31 == 0 {
        return None;
    }
    let nal = rest.get(..usize::from(u16::from_be_bytes([*a, *b])))?;
    sps(nal)
}

/// Reads a sequence parameter set NAL unit.
#[must_use]
pub fn sps(nal: &[u8]) -> Option<VideoFacts> {
    let (header, rest) = nal.split_first()?;
    if header & 31 != 7 {
        return None;
    }
    let bytes = unescaped(rest);
    let mut b = Bits::new(&bytes);
    let (profile, constraints, level) = (b.u(8)?, b.u(8)?, b.u(8)?);
    b.ue()?; // seq_parameter_set_id
    let (mut chroma, mut bit_depth, mut planes) = (1, 8, false);
    if matches!(profile, 100 | 110 | 122 | 244 | 44 | 83 | 86 | 118 | 128 | 138 | 139 | 134 | 135) {
        chroma = b.ue()?;
        if chroma == 3 {
            planes = b.flag()?;
        }
        bit_depth = b.ue()?.checked_add(8)?.max(b.ue()?.checked_add(8)?);
        b.flag()?; // qpprime_y_zero_transform_bypass_flag
        if b.flag()? {
            let lists = if chroma == 3 { 12 } else { 8 };
            for n in 0..lists {
                if b.flag()? {
                    scaling_list(&mut b, if n < 6 { 16 } else { 64 })?;
                }
            }
        }
    }
    if chroma > 3 || bit_depth > 14 {
        return None;
    }
    b.ue()?; // log2_max_frame_num_minus4
    match b.ue()? {
        0 => {
            b.ue()?;
        }
        1 => {
            b.flag()?;
            b.se()?;
            b.se()?;
            let cycle = b.ue()?;
            if cycle > 255 {
                return None;
            }
            for _ in 0..cycle {
                b.se()?;
            }
        }
        2 => {}
        _ => return None,
    }
    let ref_frames = b.ue()?;
    b.flag()?; // gaps_in_frame_num_value_allowed_flag
    let (mbs_wide, units_high) = (b.ue()?.checked_add(1)?, b.ue()?.checked_add(1)?);
    let frame_mbs_only = b.flag()?;
    if !frame_mbs_only {
        b.flag()?; // mb_adaptive_frame_field_flag
    }
    b.flag()?; // direct_8x8_inference_flag
    let crop = if b.flag()? { [b.ue()?, b.ue()?, b.ue()?, b.ue()?] } else { [0; 4] };
    let size = cropped(mbs_wide, units_high, frame_mbs_only, chroma, planes, crop)?;
    let vui = if b.flag()? { vui(&mut b)? } else { Vui::default() };
    Some(VideoFacts {
        codec_string: format!("avc1.{profile:02x}{constraints:02x}{level:02x}"),
        profile: profile_name(profile, constraints)?.to_owned(),
        level: if level == 11 && constraints & 0x10 != 0 && matches!(profile, 66 | 77 | 88) {
            9 // level 1b
        } else {
            level
        },
        bit_depth: u8::try_from(bit_depth).ok()?,
        chroma: u8::try_from(chroma).ok()?,
        size: Some(size),
        sample_aspect: vui.aspect,
        // A sequence that may hold fields need not: only its pictures tell.
        interlaced: frame_mbs_only.then_some(false),
        ref_frames: u8::try_from(ref_frames).ok(),
        colour: Some(vui.colour),
        frame_rate: vui.frame_rate,
    })
}

fn profile_name(profile: u32, constraints: u32) -> Option<&'static str> {
    let set = |n: u32| constraints & (0x80 >> n) != 0;
    Some(match profile {
        66 if set(1) => "Constrained Baseline",
        66 => "Baseline",
        77 => "Main",
        88 => "Extended",
        100 => "High",
        110 if set(3) => "High 10 Intra",
        110 => "High 10",
        122 if set(3) => "High 4:2:2 Intra",
        122 => "High 4:2:2",
        244 if set(3) => "High 4:4:4 Intra",
        244 => "High 4:4:4 Predictive",
        44 => "CAVLC 4:4:4",
        118 => "Multiview High",
        128 => "Stereo High",
        _ => return None,
    })
}

fn scaling_list(b: &mut Bits<'_>, size: u32) -> Option<()> {
    let (mut last, mut next) = (8_i64, 8_i64);
    for _ in 0..size {
        if next != 0 {
            next = (last + b.se()?).rem_euclid(256);
        }
        if next != 0 {
            last = next;
        }
    }
    Some(())
}

fn cropped(
    mbs_wide: u32,
    units_high: u32,
    frame_mbs_only: bool,
    chroma: u32,
    planes: bool,
    [left, right, top, bottom]: [u32; 4],
) -> Option<(u32, u32)> {
    // Equations 7-19 to 7-22.
    let fields = if frame_mbs_only { 1 } else { 2 };
    let (unit_x, unit_y) = match chroma {
        1 if !planes => (2, 2 * fields),
        2 if !planes => (2, fields),
        _ => (1, fields),
    };
    let width = mbs_wide.checked_mul(16)?;
    let height = units_high.checked_mul(16)?.checked_mul(fields)?;
    let off = |a: u32, b: u32, unit: u32| a.checked_add(b)?.checked_mul(unit);
    let w = width.checked_sub(off(left, right, unit_x)?).filter(|w| (1..=32_768).contains(w))?;
    let h = height.checked_sub(off(top, bottom, unit_y)?).filter(|h| (1..=32_768).contains(h))?;
    Some((w, h))
}

struct Vui {
    aspect: Option<[u32; 2]>,
    colour: Colour,
    frame_rate: Option<[u32; 2]>,
}

impl Default for Vui {
    fn default() -> Self {
        Self { aspect: None, colour: Colour::UNSPECIFIED, frame_rate: None }
    }
}

fn vui(b: &mut Bits<'_>) -> Option<Vui> {
    let mut out = Vui::default();
    if b.flag()? {
        let aspect = match b.u(8)? {
            255 => [b.u(16)?, b.u(16)?],
            n => ASPECTS.get(usize::try_from(n).ok()?).copied().unwrap_or([0, 0]),
        };
        out.aspect = reduced(aspect[0].into(), aspect[1].into());
    }
    if b.flag()? {
        b.flag()?; // overscan_appropriate_flag
    }
    if b.flag()? {
        b.u(3)?; // video_format
        out.colour.full_range = Some(b.flag()?);
        if b.flag()? {
            out.colour.primaries = u8::try_from(b.u(8)?).ok()?;
            out.colour.transfer = u8::try_from(b.u(8)?).ok()?;
            out.colour.matrix = u8::try_from(b.u(8)?).ok()?;
        }
    }
    if b.flag()? {
        b.ue()?;
        b.ue()?;
    }
    if b.flag()? {
        let (units, scale, fixed) = (b.u(32)?, b.u(32)?, b.flag()?);
        // Two ticks are one frame (section E.2.1).
        if fixed {
            out.frame_rate = reduced(scale.into(), u64::from(units) * 2);
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by `ffmpeg -f lavfi -i testsrc2=s=640x360:r=25 -c:v libx264 -frames:v 1 -f mp4`.
    const SPS: &[u8] = &[
        0x67, 0x64, 0x00, 0x1e, 0xac, 0xd9, 0x40, 0xa0, 0x2f, 0xf9, 0x70, 0x11, 0x00, 0x00, 0x03, 0x00, 0x01,
        0x00, 0x00, 0x03, 0x00, 0x32, 0x0f, 0x16, 0x2d, 0x96,
    ];

    #[test]
    fn a_sequence_parameter_set_of_x264_is_read_to_its_end() {
        let f = sps(SPS).unwrap();
        assert_eq!(f.codec_string, "avc1.64001e");
        assert_eq!((f.profile.as_str(), f.level, f.bit_depth, f.chroma), ("High", 30, 8, 1));
        assert_eq!((f.size, f.interlaced), (Some((640, 360)), Some(false)));
        // Timing is there and not promised to be fixed, as x264 does it for FFmpeg.
        assert_eq!((f.frame_rate, f.ref_frames), (None, Some(4)));
        assert_eq!(f.pixel_format().as_deref(), Some("yuv420p"));
    }

    #[test]
    fn every_cut_of_a_set_is_refused_or_read_and_never_a_panic() {
        for n in 0..SPS.len() {
            let _ = sps(&SPS[..n]);
            for bit in 0..8 {
                let mut bytes = SPS.to_vec();
                bytes[n] ^= 1 << bit;
                let _ = sps(&bytes);
                let _ = avcc(&bytes);
            }
        }
        assert_eq!(avcc(&[1, 100, 0, 30, 0xff, 0xe1, 0xff, 0xff, 0x67]), None);
    }
}
