//! Valleys in the kernel density estimate of a sample.
//!
//! They locate modes. Whether there is more than one mode is decided by the dip, because a density
//! estimate of few values always has bumps.

use super::moments::standard_deviation;
use super::quantile::quantile;

/// Density in a valley, relative to the lower of its peaks. Above this it is a ripple.
const VALLEY_MAX: f64 = 0.7;
/// The kernel is negligible beyond this many bandwidths.
const REACH: f64 = 5.0;

/// A peak of the density and the valley on its right.
#[derive(Clone, Copy, Debug)]
struct Peak {
    height: f64,
    /// Position and density. `None` for the last peak.
    valley: Option<(f64, f64)>,
}

/// Where to cut values in ascending order so that each part has one peak of the density and at
/// least `share_min` of the values, as counted by `share`. Empty for a single peak.
///
/// The kernel is Gaussian, the bandwidth is Silverman's robust rule (Density Estimation, 1986,
/// eq. 3.31), which oversmooths bimodal samples.
pub(super) fn valleys(sorted: &[f64], share_min: f64, share: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    let Some(bandwidth) = bandwidth(sorted) else {
        return Vec::new();
    };
    let mut peaks = peaks(&profile(sorted, bandwidth));
    while let Some(merge) = shallowest(&peaks).or_else(|| smallest(&peaks, share_min, &share)) {
        let gone = peaks.remove(merge + 1);
        peaks[merge].height = peaks[merge].height.max(gone.height);
        peaks[merge].valley = gone.valley;
    }
    peaks.iter().filter_map(|peak| peak.valley).map(|(at, _)| at).collect()
}

/// Silverman's bandwidth. `None` for equal values.
fn bandwidth(sorted: &[f64]) -> Option<f64> {
    let range = quantile(sorted, 0.75)? - quantile(sorted, 0.25)?;
    let deviation = standard_deviation(sorted)?;
    let spread = if range > 0.0 { deviation.min(range / 1.349) } else { deviation };
    let bandwidth = 0.9 * spread * (sorted.len() as f64).powf(-0.2);
    (bandwidth > 0.0).then_some(bandwidth)
}

/// The density, up to a constant, at every value and half-way between neighbours: a regular grid
/// would miss a narrow peak beside a long tail.
fn profile(sorted: &[f64], bandwidth: f64) -> Vec<(f64, f64)> {
    let density = |at: f64| -> f64 {
        let from = sorted.partition_point(|&v| v < at - REACH * bandwidth);
        sorted[from..]
            .iter()
            .take_while(|&&v| v <= at + REACH * bandwidth)
            .map(|v| (-0.5 * ((v - at) / bandwidth).powi(2)).exp())
            .sum()
    };
    let mut places: Vec<f64> =
        sorted.windows(2).flat_map(|w| [w[0], f64::midpoint(w[0], w[1])]).collect();
    places.extend(sorted.last());
    places.dedup();
    places.into_iter().map(|at| (at, density(at))).collect()
}

/// The peaks of a profile from left to right, each with the lowest point before the next.
fn peaks(profile: &[(f64, f64)]) -> Vec<Peak> {
    let mut peaks: Vec<Peak> = Vec::new();
    let mut top: f64 = 0.0;
    let mut lowest: Option<(f64, f64)> = None;
    for &(at, height) in profile {
        match lowest {
            // Climbing out of a valley: the peak before it is done.
            Some(valley) if height > valley.1 => {
                peaks.push(Peak { height: top, valley: lowest.take() });
                top = height;
            }
            Some(_) => lowest = Some((at, height)),
            None if height < top => lowest = Some((at, height)),
            None => top = height,
        }
    }
    peaks.push(Peak { height: top, valley: None });
    peaks
}

/// The peak with the shallowest valley, if that is a ripple.
fn shallowest(peaks: &[Peak]) -> Option<usize> {
    let depth = |w: &[Peak]| Some(w[0].valley?.1 / w[0].height.min(w[1].height));
    let deepest_first = peaks.windows(2).enumerate().filter_map(|(i, w)| Some((i, depth(w)?)));
    deepest_first
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .filter(|&(_, depth)| depth > VALLEY_MAX)
        .map(|(i, _)| i)
}

/// If the smallest part has less than `share_min`, the left peak of the pair to merge: the smallest
/// part joins the neighbour behind the higher valley.
fn smallest(peaks: &[Peak], share_min: f64, share: &impl Fn(f64, f64) -> f64) -> Option<usize> {
    let mut left = f64::NEG_INFINITY;
    let shares: Vec<f64> = peaks
        .iter()
        .map(|peak| {
            let right = peak.valley.map_or(f64::INFINITY, |(at, _)| at);
            share(std::mem::replace(&mut left, right), right)
        })
        .collect();
    let least = (0..peaks.len()).min_by(|&a, &b| shares[a].total_cmp(&shares[b]))?;
    if peaks.len() < 2 || shares[least] >= share_min {
        return None;
    }
    let before = least.checked_sub(1).and_then(|i| peaks[i].valley).map(|(_, height)| height);
    let after = peaks[least].valley.map(|(_, height)| height);
    Some(if before > after { least - 1 } else { least })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two triangles of 500 values each, with a base of 2 and their tops `apart`.
    fn two_triangles(apart: f64) -> Vec<f64> {
        let triangle = |top: f64| {
            (0..500).map(move |i| {
                let q = (f64::from(i) + 0.5) / 500.0;
                top + if q < 0.5 { (2.0 * q).sqrt() - 1.0 } else { 1.0 - (2.0 - 2.0 * q).sqrt() }
            })
        };
        let mut values: Vec<f64> = triangle(0.0).chain(triangle(apart)).collect();
        values.sort_by(f64::total_cmp);
        values
    }

    fn cuts(values: &[f64], share_min: f64) -> Vec<f64> {
        valleys(values, share_min, |left, right| {
            let inside = values.iter().filter(|&&v| left <= v && v < right);
            inside.count() as f64 / values.len() as f64
        })
    }

    #[test]
    fn modes_are_separated_by_deep_valleys() {
        // Only a deep valley separates modes.
        let deep = cuts(&two_triangles(2.0), 0.1);
        assert!(deep.len() == 1 && (deep[0] - 1.0).abs() < 0.05, "{deep:?}");
        assert!(cuts(&two_triangles(1.3), 0.1).is_empty());
        // Small part joins its neighbour.
        let values = two_triangles(10.0);
        assert_eq!(cuts(&values, 0.5).len(), 1);
        assert!(cuts(&values, 0.51).is_empty());
        assert!(cuts(&[7.0; 100], 0.1).is_empty());
    }
}
