//! Several modes among the values of a case (rule 19): a fast and a slow path, two cache levels.
//!
//! Two tests have to agree, because each alone is fooled. Hartigan's dip asks whether there is
//! more than one mode at all, whatever the shape: no tail, however long, makes it say so. A
//! density then says where they are, and must show a deep valley between parts of at least a tenth
//! of the values each. Ties are spread over their cell first: a clock's steps are not modes.
//!
//! Not for process medians, of which there are too few: see `clusters`.

use super::density::valleys;
use super::dip::dip;
use super::quantile::{median_of_sorted, sorted_finite};
use fathom_record::summary::Mode;

/// The fewest values that are tested.
const VALUES_MIN: usize = 100;
/// The smallest part that counts as a mode.
pub(super) const SHARE_MIN: f64 = 0.1;
/// √n × dip beyond which one mode is given up: 0.999 of uniform samples of 1 000 stay below
/// (0.7232 in the table of R's `diptest`, 0.6845 for 100), and every other shape with one mode
/// stays farther below.
const DIP_MAX: f64 = 0.73;
/// The most values looked at, taken at even ranks: they keep the shape, and the density is n².
pub(super) const RANKS_MAX: usize = 1_000;

/// The modes of the values of one process, ascending: where each is (the median of its values, in
/// their unit) and its share of them, 0 to 1. Empty below 100 finite values and for a single
/// mode.
///
/// Conservative: less than one sample in a thousand with a single mode is given two. Two values
/// that alternate exactly are not two modes: nothing tells them from a coarse clock.
#[must_use]
pub fn modes(values: &[f64]) -> Vec<Mode> {
    let sorted = sorted_finite(values);
    modes_at(&sorted, &cuts(&sorted, &spread_ties(&sorted)))
}

/// Where to cut so that each part is one mode. `spread` is `sorted` with the ties of each process
/// spread by [`spread_ties`], ascending. Empty for a single mode.
pub(super) fn cuts(sorted: &[f64], spread: &[f64]) -> Vec<f64> {
    if sorted.len() < VALUES_MIN {
        return Vec::new();
    }
    let thin = thinned(spread);
    // Most cases end here: one dip is cheaper than a density.
    if !has_dip(&thin) {
        return Vec::new();
    }
    let below = |cut: f64| sorted.partition_point(|&v| v < cut);
    let cuts = valleys(&thin, SHARE_MIN, |left, right| {
        (below(right) - below(left)) as f64 / sorted.len() as f64
    });
    confirmed(&thin, cuts)
}

/// Whether values in ascending order have more than one mode, at one in a thousand.
fn has_dip(sorted: &[f64]) -> bool {
    (sorted.len() as f64).sqrt() * dip(sorted) > DIP_MAX
}

/// The cuts whose two neighbouring parts have a dip between them. A bandwidth that suits a narrow
/// mode makes ripples on a broad one beside it.
fn confirmed(sorted: &[f64], mut cuts: Vec<f64>) -> Vec<f64> {
    let below = |cut: f64| sorted.partition_point(|&v| v < cut);
    let mut at = 0;
    while at < cuts.len() {
        let from = at.checked_sub(1).map_or(0, |before| below(cuts[before]));
        let to = cuts.get(at + 1).map_or(sorted.len(), |&after| below(after));
        if has_dip(&sorted[from..to]) {
            at += 1;
        } else {
            // The part before has grown, so that its own cut may stand no longer.
            cuts.remove(at);
            at = at.saturating_sub(1);
        }
    }
    cuts
}

/// The parts of `sorted` between the cuts, as modes; none without a cut.
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

/// Values in ascending order with each group of equal ones spread evenly over the cell around it,
/// which reaches half-way to the neighbouring groups. A value alone stays where it is.
///
/// What the clock rounded to one number may have been anywhere in its cell. The groups' own
/// distances are the cells, since clocks step unevenly once ticks are turned into time.
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
    // Rounding may swap two that meet at the edge of their cells.
    spread.sort_unstable_by(f64::total_cmp);
    spread
}

/// At most [`RANKS_MAX`] of the values, at even ranks from the lowest to the highest.
fn thinned(sorted: &[f64]) -> Vec<f64> {
    if sorted.len() <= RANKS_MAX {
        return sorted.to_vec();
    }
    let last = sorted.len() - 1;
    (0..RANKS_MAX).map(|i| sorted[i * last / (RANKS_MAX - 1)]).collect()
}
