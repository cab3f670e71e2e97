//! Where a rate falls, or rises, for good: a write cache that is full. Pure.
//!
//! A step is the split into two levels that leaves the least squared error. It counts only if it explains the series much better
//! than a slope does (a disk slows down towards its inner tracks, evenly), if it is large against what is left of noise on either
//! side, and if both sides last.

use serde::{Deserialize, Serialize};

/// A side of a step lasts at least so many samples, and this share of all.
const LEAST_SAMPLES: usize = 5;
const LEAST_SHARE: f64 = 0.05;
/// A level is another one if it is this share off.
const LEAST_STEP: f64 = 0.15;
/// The step must leave at most this share of the error that a slope leaves.
const BETTER_THAN_A_SLOPE: f64 = 0.6;
/// And be this many times what samples differ by within a side.
const ABOVE_NOISE: f64 = 2.0;

/// Where a rate changes for good.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Knee {
    /// Seconds from the beginning.
    pub at_s: f64,
    /// Bytes that had gone by then.
    pub after_bytes: u64,
    /// Bytes a second before: the median.
    pub before_bytes_per_s: f64,
    /// And after.
    pub after_bytes_per_s: f64,
}

/// Finds the knee of rates, one for each interval that ends at `t_s`.
#[must_use]
pub fn find(t_s: &[f64], bytes_per_s: &[f64]) -> Option<Knee> {
    let n = t_s.len().min(bytes_per_s.len());
    let (t, y) = (&t_s[..n], &bytes_per_s[..n]);
    if y.iter().chain(t).any(|v| !v.is_finite()) {
        return None;
    }
    // One sample that is far off must not pull a level: each is held to what its neighbours say.
    let y = &smoothed(y)[..];
    let least = LEAST_SAMPLES.max((n as f64 * LEAST_SHARE).ceil() as usize);
    if n < 2 * least {
        return None;
    }
    let (at, left) = best_split(y, least)?;
    let (before, after) = (median(&y[..at]), median(&y[at..]));
    let step = (after - before).abs();
    let noise = spread(&y[..at], before).max(spread(&y[at..], after));
    let is_large = step >= LEAST_STEP * before.max(after) && step > ABOVE_NOISE * noise;
    let is_no_slope = left <= BETTER_THAN_A_SLOPE * error_of_a_line(t, y);
    (is_large && is_no_slope).then(|| Knee {
        at_s: t[at - 1],
        after_bytes: moved(t, bytes_per_s, at),
        before_bytes_per_s: before,
        after_bytes_per_s: after,
    })
}

/// Bytes of the first `count` intervals.
fn moved(t: &[f64], y: &[f64], count: usize) -> u64 {
    let mut last = 0.0;
    let mut sum = 0.0;
    for (t, y) in t.iter().zip(y).take(count) {
        sum += (t - last) * y;
        last = *t;
    }
    sum.max(0.0) as u64
}

/// The median of each sample and its two neighbours on either side.
fn smoothed(y: &[f64]) -> Vec<f64> {
    (0..y.len()).map(|i| median(&y[i.saturating_sub(2)..(i + 3).min(y.len())])).collect()
}

/// The split with the least squared error about two means, and that error.
fn best_split(y: &[f64], least: usize) -> Option<(usize, f64)> {
    let mut sums = vec![(0.0, 0.0); y.len() + 1];
    for (i, v) in y.iter().enumerate() {
        sums[i + 1] = (sums[i].0 + v, sums[i].1 + v * v);
    }
    let error = |from: usize, to: usize| {
        let n = (to - from) as f64;
        let (sum, squares) = (sums[to].0 - sums[from].0, sums[to].1 - sums[from].1);
        (squares - sum * sum / n).max(0.0)
    };
    (least..=y.len() - least)
        .map(|at| (at, error(0, at) + error(at, y.len())))
        .min_by(|a, b| a.1.total_cmp(&b.1))
}

/// Squared error about the straight line that fits best.
fn error_of_a_line(t: &[f64], y: &[f64]) -> f64 {
    let n = y.len() as f64;
    let (mean_t, mean_y) = (t.iter().sum::<f64>() / n, y.iter().sum::<f64>() / n);
    let (mut tt, mut ty, mut yy) = (0.0, 0.0, 0.0);
    for (t, y) in t.iter().zip(y) {
        let (dt, dy) = (t - mean_t, y - mean_y);
        (tt, ty, yy) = (tt + dt * dt, ty + dt * dy, yy + dy * dy);
    }
    if tt > 0.0 { (yy - ty * ty / tt).max(0.0) } else { yy }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

/// Median distance from the median, in standard deviations of a normal distribution.
fn spread(values: &[f64], about: f64) -> f64 {
    let off: Vec<f64> = values.iter().map(|v| (v - about).abs()).collect();
    1.4826 * median(&off)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::Random;

    const N: usize = 120;

    fn times() -> Vec<f64> {
        (1..=N).map(|i| i as f64 * 0.25).collect()
    }

    /// Noise of `share` of each value, the same in every run.
    fn noisy(level: impl Fn(usize) -> f64, share: f64, seed: u64) -> Vec<f64> {
        let mut random = Random(seed);
        let mut unit = || random.below(2001) as f64 / 1000.0 - 1.0;
        (0..N).map(|i| level(i) * (1.0 + share * unit())).collect()
    }

    #[test]
    fn a_cache_that_fills_up_is_found_where_it_does() {
        for seed in 0..50 {
            let rates = noisy(|i| if i < 48 { 210e6 } else { 90e6 }, 0.2, seed);
            let knee = find(&times(), &rates).expect("a knee");
            assert!((knee.at_s - 12.0).abs() <= 0.75, "{seed}: at {}", knee.at_s);
            assert!((knee.before_bytes_per_s / 210e6 - 1.0).abs() < 0.1, "{knee:?}");
            assert!((knee.after_bytes_per_s / 90e6 - 1.0).abs() < 0.1, "{knee:?}");
            assert!((knee.after_bytes as f64 / (12.0 * 210e6) - 1.0).abs() < 0.1, "{knee:?}");
        }
    }

    #[test]
    fn an_even_rate_has_none_however_noisy() {
        for seed in 0..200 {
            for share in [0.0, 0.05, 0.2, 0.5] {
                assert_eq!(find(&times(), &noisy(|_| 150e6, share, seed)), None, "{seed} {share}");
            }
        }
    }

    #[test]
    fn a_disk_that_slows_down_towards_its_middle_has_none() {
        for seed in 0..50 {
            let inwards = |i: usize| 200e6 * (1.0 - 0.5 * i as f64 / N as f64);
            assert_eq!(find(&times(), &noisy(inwards, 0.05, seed)), None, "{seed}");
        }
    }

    #[test]
    fn pauses_are_no_knee() {
        let paused = noisy(|i| if matches!(i, 30 | 31 | 77) { 1e6 } else { 150e6 }, 0.05, 1);
        assert_eq!(find(&times(), &paused), None);
        let first_slow = noisy(|i| if i < 2 { 1e6 } else { 150e6 }, 0.05, 1);
        assert_eq!(find(&times(), &first_slow), None);
    }

    #[test]
    fn a_rate_that_rises_for_good_is_one_too() {
        let knee = find(&times(), &noisy(|i| if i < 40 { 80e6 } else { 160e6 }, 0.1, 3)).expect("a knee");
        assert!((knee.at_s - 10.0).abs() <= 0.75 && knee.after_bytes_per_s > knee.before_bytes_per_s);
    }

    #[test]
    fn too_little_and_nonsense_have_none() {
        assert_eq!(find(&[], &[]), None);
        assert_eq!(find(&[1.0, 2.0, 3.0], &[9.0, 9.0, 1.0]), None);
        let mut rates = noisy(|i| if i < 48 { 210e6 } else { 90e6 }, 0.1, 1);
        rates[3] = f64::NAN;
        assert_eq!(find(&times(), &rates), None);
        assert_eq!(find(&times(), &vec![0.0; N]), None);
    }
}
