//! Where a film is cut into segments. Pure: an index or a length in, times out.
//!
//! Both functions give n+1 ascending times in microseconds from the start of the presentation;
//! segment i is `[b[i], b[i+1])`. The playlist and whoever makes the segments use the same list,
//! so they cannot disagree, whatever order the segments are asked for.

use crate::keyframes::KeyframeIndex;

/// Segments below this make players start and stop for nothing (and Safari refuse the playlist).
pub const MIN_SEGMENT_US: i64 = 1_000_000;
/// Lengths of the first encoded segments: short ones let the player show a picture sooner.
const FIRST_ENCODED_US: [i64; 3] = [1_000_000, 1_000_000, 2_000_000];
/// Length of every further encoded segment: a jump waits for one to be whole.
const ENCODED_US: i64 = 3_000_000;
/// A day of encoded segments and then some: a length that a damaged header claims must not become a
/// playlist of gigabytes.
const MAX_SEGMENTS: i64 = 100_000;

/// Cuts copied video at real key frames.
///
/// A cut is made at the first key frame that lies `target_us` or more after the last cut, so no
/// segment is longer than the target plus the largest gap between key frames. None but the last is
/// shorter than [`MIN_SEGMENT_US`]: key frames close together stay in one segment. A short rest
/// joins the segment before it where that does not make it longer than said.
///
/// Gives nothing when the index is empty or ends before it starts.
#[must_use]
pub fn copy_boundaries(index: &KeyframeIndex, target_us: i64) -> Vec<i64> {
    if index.at_us.is_empty() || index.end_us <= 0 {
        return Vec::new();
    }
    let target_us = target_us.max(MIN_SEGMENT_US);
    let longest_us = index.at_us.windows(2).map(|w| w[1] - w[0]).max().unwrap_or(0) + target_us;
    let mut cuts = vec![0];
    let mut last = 0;
    for &at in &index.at_us {
        let rest_us = index.end_us - at;
        let rest_joins = rest_us < MIN_SEGMENT_US && index.end_us - last <= longest_us;
        if at - last >= target_us && rest_us > 0 && !rest_joins {
            cuts.push(at);
            last = at;
        }
    }
    cuts.push(index.end_us);
    cuts
}

/// Cuts encoded video: two segments of one second and one of two for a fast start, then three seconds each.
///
/// Every cut but the last lies on the picture grid of `fps`, a fraction: the encoder puts a key
/// frame on that picture, and rounding 1001/24000 to milliseconds would drift by a picture every
/// few minutes. Without `fps` the times are as they are.
#[must_use]
pub fn encode_boundaries(duration_us: i64, fps: Option<[u32; 2]>) -> Vec<i64> {
    if duration_us <= 0 {
        return Vec::new();
    }
    let lengths =
        FIRST_ENCODED_US.into_iter().chain(std::iter::repeat(ENCODED_US.max(duration_us / MAX_SEGMENTS)));
    let mut cuts = vec![0];
    let mut nominal = 0_i64;
    for length in lengths {
        nominal = nominal.saturating_add(length);
        let cut = on_grid(nominal, fps);
        if duration_us - cut < MIN_SEGMENT_US {
            break;
        }
        cuts.push(cut);
    }
    cuts.push(duration_us);
    cuts
}

/// The time of the first picture at or after `at_us`, rounded to the microsecond that FFmpeg's
/// `av_rescale_q` gives for it (nearest, halves away from zero).
fn on_grid(at_us: i64, fps: Option<[u32; 2]>) -> i64 {
    let Some([num, den]) = fps.filter(|[num, den]| *num > 0 && *den > 0) else { return at_us };
    let (num, den) = (i128::from(num), i128::from(den));
    // Picture n is shown at n * den / num seconds.
    let per_second = 1_000_000 * den;
    let n = (i128::from(at_us) * num + per_second - 1).div_euclid(per_second);
    let us = (n * per_second + num / 2).div_euclid(num);
    i64::try_from(us).unwrap_or(at_us)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyframes::KeyframeSource;

    fn index(at_us: &[i64], end_us: i64) -> KeyframeIndex {
        KeyframeIndex { at_us: at_us.to_vec(), end_us, source: KeyframeSource::Cues }
    }

    /// `Jagged Keys`: key frames at 0, 1.2, 7.6, 8, 13.4, 14.04, 27.4, 27.8, 39.2 s.
    fn jagged() -> KeyframeIndex {
        index(
            &[0, 1_200_000, 7_600_000, 8_000_000, 13_400_000, 14_040_000, 27_400_000, 27_800_000, 39_200_000],
            45_000_000,
        )
    }

    #[test]
    fn jagged_key_frames_are_cut_where_they_are() {
        assert_eq!(
            copy_boundaries(&jagged(), 6_000_000),
            [0, 7_600_000, 14_040_000, 27_400_000, 39_200_000, 45_000_000]
        );
    }

    #[test]
    fn no_segment_is_short_or_longer_than_a_gap_and_the_target() {
        // A multiplicative generator (Lehmer): key frames 0.04 to 12 s apart.
        let mut seed = 20_240_229_u64;
        for target_us in [1, 1_000_000, 3_000_000, 6_000_000, 10_000_000] {
            for _ in 0..50 {
                let (mut at, mut all) = (0, vec![0]);
                for _ in 0..200 {
                    seed = seed * 48_271 % 0x7fff_ffff;
                    at += 40_000 + i64::try_from(seed % 12_000_000).unwrap();
                    all.push(at);
                }
                let index = index(&all, at + 500_000);
                let cuts = copy_boundaries(&index, target_us);
                let gap = all.windows(2).map(|w| w[1] - w[0]).max().unwrap();
                let lengths: Vec<i64> = cuts.windows(2).map(|w| w[1] - w[0]).collect();
                assert!(lengths[..lengths.len() - 1].iter().all(|l| *l >= MIN_SEGMENT_US));
                let longest = gap + target_us.max(MIN_SEGMENT_US);
                assert!(lengths.iter().all(|l| (1..=longest).contains(l)));
                assert_eq!((cuts[0], cuts.last()), (0, Some(&index.end_us)));
                let inner = &cuts[1..cuts.len() - 1];
                assert!(inner.iter().all(|c| all.binary_search(c).is_ok()));
            }
        }
    }

    #[test]
    fn a_film_of_one_picture_is_one_segment() {
        assert_eq!(copy_boundaries(&index(&[0], 40_000), 6_000_000), [0, 40_000]);
        assert_eq!(copy_boundaries(&index(&[80_000], 2_000_000), 6_000_000), [0, 2_000_000]);
        assert!(copy_boundaries(&index(&[], 2_000_000), 6_000_000).is_empty());
        assert!(copy_boundaries(&index(&[0], 0), 6_000_000).is_empty());
    }

    #[test]
    fn encoded_segments_start_short_and_stay_on_the_picture_grid() {
        assert_eq!(
            encode_boundaries(13_000_000, Some([25, 1])),
            [0, 1_000_000, 2_000_000, 4_000_000, 7_000_000, 10_000_000, 13_000_000]
        );
        // Picture 24 of 24000/1001 is shown at 1.001 s exactly.
        assert_eq!(
            encode_boundaries(10_000_000, Some([24_000, 1_001])),
            [0, 1_001_000, 2_002_000, 4_004_000, 7_007_000, 10_000_000]
        );
        assert_eq!(encode_boundaries(4_500_000, None), [0, 1_000_000, 2_000_000, 4_500_000]);
        assert_eq!(encode_boundaries(900_000, Some([25, 1])), [0, 900_000]);
        assert!(encode_boundaries(0, None).is_empty());
    }

    #[test]
    fn two_hours_at_23_976_do_not_drift_by_a_microsecond() {
        let cuts = encode_boundaries(7_200_000_000, Some([24_000, 1_001]));
        for c in &cuts[..cuts.len() - 1] {
            let picture = (i128::from(*c) * 24_000 + 500_500_000) / 1_001_000_000;
            let exact = picture * 1_001_000_000;
            assert!((i128::from(*c) * 24_000 - exact).abs() <= 12_000, "{c}");
        }
        assert!(cuts.windows(2).all(|w| w[1] - w[0] >= MIN_SEGMENT_US));
    }

    #[test]
    fn a_claimed_length_of_centuries_is_no_playlist_of_gigabytes() {
        let cuts = encode_boundaries(i64::MAX / 2, Some([25, 1]));
        assert!(cuts.len() < 100_100);
        assert!(cuts.is_sorted());
    }
}
