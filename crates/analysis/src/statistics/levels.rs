//! Two levels of a sample that is expected to have one, such as hosts of two generations.

use super::clusters::resolution;
use super::quantile::{median_of_sorted, sorted_finite};
use fathom_record::summary::Mode;

const VALUES_MIN: usize = 8;
/// A level has at least one value in five: fewer are outliers.
const VALUES_PER_MEMBER: usize = 5;

/// The two levels of values in ascending order, the median and the share of each; none for one
/// level, and below 8 values.
///
/// The values are split where the squares within both parts are least. Their means must be further
/// apart, in standard deviations within the parts, than those of 99.8 % of uniform and exponential
/// samples of this size, which are further apart than those of normal and heavy-tailed ones
/// (simulated: 12.5 for 8 values, 6.9 for 20, 5.1 for 50, 3.9 for 300). Unlike [`super::clusters`],
/// no gap between the parts is needed, which many values do not have.
///
/// Outliers take the split for themselves: as long as fewer than a fifth of the values are beyond
/// it, what remains is split again.
#[must_use]
pub fn two_levels(values: &[f64]) -> Option<[Mode; 2]> {
    let sorted = sorted_finite(values);
    let least = sorted.len().div_ceil(VALUES_PER_MEMBER);
    let mut rest = &sorted[..];
    loop {
        let (split, is_apart) = split(rest)?;
        let (low, high) = rest.split_at(split);
        if low.len().min(high.len()) >= least {
            let level = |part: &[f64]| {
                let share = part.len() as f64 / rest.len() as f64;
                Some(Mode { at: median_of_sorted(part)?, share })
            };
            return if is_apart { Some([level(low)?, level(high)?]) } else { None };
        }
        rest = if low.len() > high.len() { low } else { high };
        if sorted.len() - rest.len() >= least {
            return None;
        }
    }
}

/// Where values in ascending order split best, and whether both parts are levels.
fn split(sorted: &[f64]) -> Option<(usize, bool)> {
    let n = sorted.len();
    if n < VALUES_MIN {
        return None;
    }
    let middle = median_of_sorted(sorted)?;
    let centred: Vec<f64> = sorted.iter().map(|value| value - middle).collect();
    let (all, squares) = (sum(&centred, |it| it), sum(&centred, |it| it * it));
    let mut best: Option<(f64, f64, usize)> = None;
    let mut below = 0.0;
    for (at, value) in (1..n).zip(&centred) {
        below += value;
        let means = [below / at as f64, (all - below) / (n - at) as f64];
        let within = (squares - below * means[0] - (all - below) * means[1]).max(0.0);
        if best.is_none_or(|(least, ..)| within < least) {
            best = Some((within, means[1] - means[0], at));
        }
    }
    let (within, apart, split) = best?;
    // A coarse clock gives two exact values, too.
    let deviation = (within / (n - 2) as f64).sqrt().max(resolution(sorted));
    Some((split, apart > (3.6 + 75.0 / n as f64) * deviation))
}

fn sum(values: &[f64], of: impl Fn(f64) -> f64) -> f64 {
    values.iter().map(|value| of(*value)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_levels_need_a_fifth_each_and_distance() {
        let level = |at: f64, count: usize| (0..count).map(move |i| at + (i % 5) as f64 * 0.1);
        let of = |low: usize, high: usize, apart: f64| {
            two_levels(&level(0.0, low).chain(level(apart, high)).collect::<Vec<f64>>())
        };
        let half = [Mode { at: 0.2, share: 0.5 }, Mode { at: 10.2, share: 0.5 }];
        assert_eq!(of(10, 10, 10.0), Some(half));
        assert!(of(40, 10, 10.0).is_some() && of(10, 40, 10.0).is_some());
        assert_eq!(of(41, 9, 10.0), None, "outliers");
        // One outlier, however far, hides neither of two levels.
        let with = |outliers: &[f64]| {
            let all = level(0.0, 10).chain(level(10.0, 10)).chain(outliers.iter().copied());
            two_levels(&all.collect::<Vec<f64>>()).map(|levels| levels.map(|it| it.at))
        };
        assert_eq!(with(&[]), Some([0.2, 10.2]));
        assert_eq!([with(&[1e3]), with(&[-1e3]), with(&[-1e3, 1e4])], [with(&[]); 3]);
        // Deviations of 0.149 within: means must be 3.6 + 75/20 of them apart, 1.10.
        assert!(of(10, 10, 1.0).is_none() && of(10, 10, 1.2).is_some());
        let even: Vec<f64> = (0..300).map(f64::from).collect();
        assert_eq!(two_levels(&even), None);
        assert_eq!(two_levels(&[1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0]), None, "seven values");
        assert_eq!(two_levels(&[3.0; 20]), None);
    }
}
