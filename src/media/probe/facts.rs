//! Streams as `MediaInfo` has them, from what configuration records and containers say.

use super::{Fail, incomplete};
use crate::codec::colour::{Colour, class};
use crate::codec::dolby::DolbyVision;
use crate::codec::{VideoFacts, reduced};
use crate::info::{Disposition, Stream, StreamKind, Video};

/// A stream that has only its place and codec.
pub(super) fn stream(index: usize, codec: &str, kind: StreamKind) -> Stream {
    Stream {
        index: u32::try_from(index).unwrap_or(u32::MAX),
        codec: codec.to_owned(),
        codec_string: None,
        codec_tag: None,
        profile: None,
        language: None,
        title: None,
        bitrate_bps: None,
        duration_s: None,
        time_base: [1, 1_000_000],
        disposition: Disposition::default(),
        kind,
    }
}

/// What a container says of a picture beside its configuration record.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Picture {
    /// Size of the stored picture.
    pub(super) size: (u32, u32),
    /// Sample aspect.
    pub(super) sample_aspect: Option<[u32; 2]>,
    /// Degrees clockwise.
    pub(super) rotation: u16,
    /// Colour description.
    pub(super) colour: Option<Colour>,
    /// Dolby Vision record.
    pub(super) dolby: Option<DolbyVision>,
    /// Fields, where the container tells.
    pub(super) interlaced: Option<bool>,
    /// Pictures a second.
    pub(super) frame_rate: Option<[u32; 2]>,
}

/// Puts both together, or says what neither tells.
pub(super) fn video(facts: &VideoFacts, picture: Picture) -> Result<Video, Fail> {
    let Some(interlaced) = facts.interlaced.or(picture.interlaced) else {
        return incomplete("whether the pictures are fields");
    };
    // The container's description goes before the stream's, as in FFmpeg, unless it tells nothing.
    let colour = picture.colour.filter(|c| c.tells_range()).or(facts.colour).or(picture.colour);
    if facts.colour.is_none()
        && picture.dolby.is_none()
        && facts.bit_depth > 8
        && !colour.is_some_and(Colour::tells_range)
    {
        return incomplete("the dynamic range");
    }
    let colour = colour.unwrap_or(Colour::UNSPECIFIED);
    let (width, height) = facts.size.unwrap_or(picture.size);
    if width == 0 || height == 0 {
        return incomplete("the size of the picture");
    }
    let frame_rate = picture.frame_rate.or(facts.frame_rate);
    let Some(rate) = frame_rate else { return incomplete("the number of pictures a second") };
    let mut out = Video {
        width,
        height,
        level: Some(facts.level),
        bit_depth: Some(facts.bit_depth),
        pixel_format: facts.pixel_format(),
        fps: Some(f64::from(rate[0]) / f64::from(rate[1])),
        frame_rate,
        sample_aspect: picture.sample_aspect.or(facts.sample_aspect).filter(|[w, h]| w != h),
        rotation: picture.rotation,
        interlaced,
        ref_frames: facts.ref_frames,
        hdr: class(colour, picture.dolby),
        dv_profile: picture.dolby.map(|d| d.profile),
        dv_level: picture.dolby.map(|d| d.level),
        dv_compatibility: picture.dolby.map(|d| d.compatibility),
        ..Video::default()
    };
    colour.describe(&mut out);
    Ok(out)
}

/// The fraction nearest to a frame's length in nanoseconds that films are made in; the length as it
/// is where none is near.
pub(super) fn rate_of_nanoseconds(ns: u64) -> Option<[u32; 2]> {
    const COMMON: [[u32; 2]; 14] = [
        [24_000, 1_001],
        [24, 1],
        [25, 1],
        [30_000, 1_001],
        [30, 1],
        [48, 1],
        [50, 1],
        [60_000, 1_001],
        [60, 1],
        [12, 1],
        [15, 1],
        [10, 1],
        [120, 1],
        [120_000, 1_001],
    ];
    if ns == 0 {
        return None;
    }
    let near = |[num, den]: &[u32; 2]| {
        let exact = 1_000_000_000_u64 * u64::from(*den) / u64::from(*num);
        // Muxers round to nanoseconds or, the older ones, to tens of them.
        exact.abs_diff(ns) <= 50
    };
    COMMON.iter().find(|r| near(r)).copied().or_else(|| reduced(1_000_000_000, ns))
}

/// A sample aspect from the size as shown and the size as stored. A difference below half a percent is
/// a muxer's rounding.
pub(super) fn aspect(shown: (u64, u64), stored: (u64, u64)) -> Option<[u32; 2]> {
    let num = shown.0.checked_mul(stored.1)?;
    let den = shown.1.checked_mul(stored.0)?;
    let off = num.abs_diff(den);
    if num == 0 || den == 0 || off.checked_mul(200)? <= num.max(den) {
        return None;
    }
    reduced(num, den)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_frames_become_the_rates_that_films_have() {
        for (ns, rate) in [
            (41_708_333, Some([24_000, 1_001])),
            (41_666_666, Some([24, 1])),
            (40_000_000, Some([25, 1])),
            (33_366_667, Some([30_000, 1_001])),
            (16_683_333, Some([60_000, 1_001])),
            (80_000_000, Some([25, 2])),
            (0, None),
        ] {
            assert_eq!(rate_of_nanoseconds(ns), rate, "{ns}");
        }
    }

    #[test]
    fn an_aspect_is_told_only_where_it_shows() {
        assert_eq!(aspect((1024, 576), (720, 576)), Some([64, 45]));
        assert_eq!(aspect((640, 360), (640, 360)), None);
        assert_eq!(aspect((853, 480), (854, 480)), None);
        assert_eq!(aspect((0, 480), (854, 480)), None);
        assert_eq!(aspect((u64::MAX, 480), (854, 480)), None);
    }

    #[test]
    fn what_neither_tells_is_asked_for() {
        let facts = VideoFacts { bit_depth: 10, chroma: 1, interlaced: Some(false), ..VideoFacts::default() };
        let picture = Picture { size: (640, 360), frame_rate: Some([25, 1]), ..Picture::default() };
        let missing = |f: &VideoFacts, p| match video(f, p) {
            Err(Fail::Incomplete(what)) => what,
            other => panic!("{other:?}"),
        };
        assert_eq!(missing(&facts, picture), "the dynamic range");
        let pq = Colour { transfer: 16, ..Colour::UNSPECIFIED };
        let told = Picture { colour: Some(pq), ..picture };
        assert_eq!(video(&facts, told).unwrap().hdr, crate::info::Hdr::Hdr10);
        let eight = VideoFacts { bit_depth: 8, ..facts.clone() };
        assert_eq!(video(&eight, picture).unwrap().hdr, crate::info::Hdr::Sdr);
        let fields = VideoFacts { interlaced: None, ..eight.clone() };
        assert_eq!(missing(&fields, picture), "whether the pictures are fields");
        let unpaced = Picture { frame_rate: None, ..picture };
        assert_eq!(missing(&eight, unpaced), "the number of pictures a second");
    }
}
