//! The classic trimmed protocol (rule 14), for comparison with older figures.
//!
//! Not the headline, and no removal of outliers from anything else: it is one more figure over the
//! same values, and the values stay.

use super::moments::{mean, standard_deviation};
use super::quantile::sorted_finite;
use crate::summary::Trimmed;

/// The trials to run so that `kept` remain: ⌈1.6 n⌉, in whole numbers, since 1.6 has no exact
/// binary form. 500 want 800, 10 want 16. Saturates at `u64::MAX`.
#[must_use]
pub fn trials_for(kept: u64) -> u64 {
    // 1.6 n = n + 3n/5; the fifths apart from the rest, so that nothing overflows early.
    let three_fifths = (kept / 5).saturating_mul(3).saturating_add((kept % 5 * 3).div_ceil(5));
    kept.saturating_add(three_fifths)
}

/// The largest n with ⌈1.6 n⌉ ≤ `trials`: how many of them remain.
fn kept_of(trials: usize) -> usize {
    trials / 8 * 5 + trials % 8 * 5 / 8
}

/// Mean, standard deviation (n − 1) and winsorised standard error, in the unit of the values,
/// of those that remain of `values` when of N the ⌊(N − n)/2⌋ lowest and ⌈(N − n)/2⌉ highest are
/// dropped, n being the largest with ⌈1.6 n⌉ ≤ N. `None` below 4 finite values, where fewer than
/// two would remain.
///
/// The error is that of Tukey & McLaughlin (Sankhyā A 25, 1963): the deviation of the values with
/// each dropped one replaced by the nearest kept one, ÷ (n/N · √N).
#[must_use]
pub fn trimmed(values: &[f64]) -> Option<Trimmed> {
    let mut sorted = sorted_finite(values);
    let trials = sorted.len();
    let kept = kept_of(trials);
    if kept < 2 {
        return None;
    }
    let low = (trials - kept) / 2;
    let high = low + kept;
    let mean = mean(&sorted[low..high])?;
    let sd = standard_deviation(&sorted[low..high])?;

    let (lowest, highest) = (sorted[low], sorted[high - 1]);
    sorted[..low].fill(lowest);
    sorted[high..].fill(highest);
    let winsorised = standard_deviation(&sorted)?;
    let se = winsorised * (trials as f64).sqrt() / kept as f64;
    Some(Trimmed { n: kept as u64, trials: trials as u64, mean, sd, se })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_asked_are_sixteen_run_and_five_hundred_are_eight_hundred() {
        assert_eq!(trials_for(10), 16);
        assert_eq!(trials_for(500), 800);
        assert_eq!([0, 1, 2, 3, 4, 5, 6].map(trials_for), [0, 2, 4, 5, 7, 8, 10]);
        assert_eq!(trials_for(u64::MAX), u64::MAX);
    }

    #[test]
    fn what_remains_is_what_was_asked_for() {
        for asked in 1..5_000_u64 {
            let trials = trials_for(asked) as usize;
            assert_eq!(kept_of(trials), asked as usize, "{asked} asked, {trials} run");
            assert!(kept_of(trials - 1) < asked as usize, "{asked} asked, {trials} too many");
        }
    }

    #[test]
    fn of_sixteen_the_three_lowest_and_three_highest_go() {
        let mut values: Vec<f64> = (0..16).map(f64::from).collect();
        (values[0], values[15]) = (-1e9, 1e9);
        let trimmed = trimmed(&values).unwrap();
        assert_eq!((trimmed.n, trimmed.trials), (10, 16));
        assert_eq!(trimmed.mean, 7.5);
    }

    #[test]
    fn of_an_odd_surplus_one_more_goes_at_the_top() {
        // 7 trials keep 4: one goes below and two above.
        assert_eq!(trimmed(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]).unwrap().mean, 3.5);
        assert_eq!(trimmed(&[1.0, 2.0, 3.0]), None);
    }
}
