//! Modes among the values of a case (rule 19), such as a fast and a slow path, or two cache levels.
//!
//! Two tests must agree. Hartigan's dip decides whether there is more than one mode: tails do not
//! affect it. A density estimate locates the modes: there must be a deep valley between parts of at
//! least 10 % of the values. Ties are spread over their cell first: clock steps are not modes.
//!
//! For process medians, which are too few, see `clusters`.

use super::density::valleys;
use super::dip::dip;
use super::quantile::{median_of_sorted, sorted_finite};
use fathom_record::summary::Mode;

const VALUES_MIN: usize = 100;
/// The smallest share of a mode.
pub(super) const SHARE_MIN: f64 = 0.1;
/// √n × dip above which a sample is multimodal: 0.999 of uniform samples of 1 000 are below
/// (0.7232 in the table of R's `diptest`, 0.6845 for 100), other unimodal shapes even more.
const DIP_MAX: f64 = 0.73;
/// Larger samples are thinned to regular ranks, because the density estimate is quadratic.
pub(super) const RANKS_MAX: usize = 1_000;

/// The modes of the values of one process, ascending: the median and the share of each. Empty for a
/// single mode, and below 100 finite values.
///
/// Conservative: less than 0.1 % of unimodal samples are split. Two exact values are not two modes,
/// because a coarse clock gives them, too.
#[must_use]
pub fn modes(values: &[f64]) -> Vec<Mode> {
    let sorted = sorted_finite(values);
    modes_at(&sorted, &cuts(&sorted, &spread_ties(&sorted)))
}

/// Where to cut so that each part is one mode. `spread` is `sorted` after [`spread_ties`] for each
/// process. Empty for a single mode.
pub(super) fn cuts(sorted: &[f64], spread: &[f64]) -> Vec<f64> {
    if sorted.len() < VALUES_MIN {
        return Vec::new();
    }
    let thin = thinned(spread);
    // Most cases end here: the dip is cheaper than the density.
    if !has_dip(&thin) {
        return Vec::new();
    }
    let below = |cut: f64| sorted.partition_point(|&v| v < cut);
    let cuts = valleys(&thin, SHARE_MIN, |left, right| {
        (below(right) - below(left)) as f64 / sorted.len() as f64
    });
    confirmed(&thin, cuts)
}

/// Whether values in ascending order have more than one mode, with p < 0.001.
fn has_dip(sorted: &[f64]) -> bool {
    (sorted.len() as f64).sqrt() * dip(sorted) > DIP_MAX
}

/// The cuts with a dip between the two adjacent parts. A bandwidth for a narrow mode makes ripples
/// on a broad one.
fn confirmed(sorted: &[f64], mut cuts: Vec<f64>) -> Vec<f64> {
    let below = |cut: f64| sorted.partition_point(|&v| v < cut);
    let mut at = 0;
    while at < cuts.len() {
        let from = at.checked_sub(1).map_or(0, |before| below(cuts[before]));
        let to = cuts.get(at + 1).map_or(sorted.len(), |&after| below(after));
        if has_dip(&sorted[from..to]) {
            at += 1;
        } else {
            // The previous part has grown: check its cut again.
            cuts.remove(at);
            at = at.saturating_sub(1);
        }
    }
    cuts
}

/// The parts of `sorted` between the cuts, as modes. Empty without cuts.
pub(super) fn modes_at(sorted: &[f64], cuts: &[f64]) -> Vec<Mode> {
    if cuts.is_empty() {
        return Vec::new();
    }
    let mut rest = sorted;
    cuts.iter()
        .chain([&f64::INFINITY])
        .filter_map(|&cut| {
            let (part, beyond) = rest.split_at(rest.partition_point(|&v| v < cut));
            rest = beyond;
            let share = part.len() as f64 / sorted.len() as f64;
            Some(Mode { at: median_of_sorted(part)?, share })
        })
        .collect()
}

/// Values in ascending order with each group of ties spread evenly over its cell, which reaches
/// half-way to the neighbouring groups. A single value is not moved.
///
/// The clock rounded all values of a cell to one number. Cells are taken from the distances of the
/// groups, because clock steps are uneven after the conversion from ticks to nanoseconds.
pub(super) fn spread_ties(sorted: &[f64]) -> Vec<f64> {
    let groups: Vec<&[f64]> = sorted.chunk_by(|a, b| a == b).collect();
    let mut spread = Vec::with_capacity(sorted.len());
    for (i, group) in groups.iter().enumerate() {
        let at = group[0];
        let before = i.checked_sub(1).map(|i| (at - groups[i][0]) / 2.0);
        let after = groups.get(i + 1).map(|next| (next[0] - at) / 2.0);
        // The outermost cells are as wide outwards as inwards; one group alone has no cell.
        let left = before.or(after).unwrap_or(0.0);
        let right = after.or(before).unwrap_or(0.0);
        if group.len() == 1 {
            spread.push(at);
            continue;
        }
        let step = (left + right) / group.len() as f64;
        spread.extend((0..group.len()).map(|k| at - left + step * (k as f64 + 0.5)));
    }
    // Rounding may swap values at the edge of their cells.
    spread.sort_unstable_by(f64::total_cmp);
    spread
}

/// At most [`RANKS_MAX`] of the values, at regular ranks.
fn thinned(sorted: &[f64]) -> Vec<f64> {
    if sorted.len() <= RANKS_MAX {
        return sorted.to_vec();
    }
    let last = sorted.len() - 1;
    (0..RANKS_MAX).map(|i| sorted[i * last / (RANKS_MAX - 1)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_are_spread_over_their_cells() {
        assert_eq!(spread_ties(&[1.0, 1.0, 3.0]), [0.5, 1.5, 3.0]);
        assert_eq!(spread_ties(&[1.0, 3.0, 3.0, 3.0, 7.0]), [1.0, 2.5, 3.5, 4.5, 7.0]);
        assert_eq!(spread_ties(&[1.0, 5.0, 5.0]), [1.0, 4.0, 6.0], "as wide outwards as inwards");
        assert_eq!(spread_ties(&[2.0, 2.0]), [2.0, 2.0], "one group has no cell");
    }

    #[test]
    fn parts_between_cuts_have_medians_and_shares() {
        let of = |at, share| Mode { at, share };
        let sorted = [1.0, 2.0, 3.0, 7.0, 10.0];
        assert_eq!(modes_at(&sorted, &[3.0]), [of(1.5, 0.4), of(7.0, 0.6)]);
        let three = [of(2.0, 0.6), of(7.0, 0.2), of(10.0, 0.2)];
        assert_eq!(modes_at(&sorted, &[5.0, 8.0]), three);
        assert_eq!(modes_at(&sorted, &[]), []);
    }

    #[test]
    fn large_samples_are_thinned_to_regular_ranks() {
        let values: Vec<f64> = (0..1_999).map(f64::from).collect();
        let thin = thinned(&values);
        assert_eq!((thin.len(), thin[1], thin[999]), (1_000, 2.0, 1_998.0));
        assert_eq!(thinned(&values[..1_000]), values[..1_000]);
    }
}
