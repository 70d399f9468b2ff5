//! The classic trimmed protocol (rule 14), for comparison with older figures.
//!
//! Not the headline, and no removal of outliers from anything else: it is one more figure over the
//! same values, and the values stay.

use super::moments::{mean, standard_deviation};
use super::quantile::sorted_finite;
use fathom_record::summary::Trimmed;

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
/// each dropped one replaced by the nearest kept one, ÷ (n/N · √N). It takes each value for an
/// independent draw; where several processes gave them, see [`trimmed_over`].
#[must_use]
pub fn trimmed(values: &[f64]) -> Option<Trimmed> {
    let sorted = sorted_finite(values);
    let kept = Kept::of(&sorted)?;
    let deviation = standard_deviation(&kept.winsorised(&sorted))?;
    kept.summary(&sorted, deviation * (sorted.len() as f64).sqrt() / kept.count() as f64)
}

/// [`trimmed`] over the values of all processes, with an error that knows them for the independent
/// draws: √(G/(G − 1) Σ Sₚ²) ÷ n, Sₚ being the sum of what the winsorised values of one of the G
/// processes lie off the mean of them all (Liang & Zeger, Biometrika 73, 1986; for one value a
/// process it is that of [`trimmed`]). One process alone says nothing of the next: its values are
/// taken for independent ones.
///
/// Simulated, ten processes of 80 rounds each that differ as much as the rounds within one do: the
/// error of values taken for independent is a sixth of the true one.
#[must_use]
pub fn trimmed_over(processes: &[&[f64]]) -> Option<Trimmed> {
    let has_values = |process: &&[f64]| process.iter().any(|v| v.is_finite());
    let processes: Vec<&[f64]> = processes.iter().copied().filter(has_values).collect();
    let pooled = processes.concat();
    if processes.len() < 2 {
        return trimmed(&pooled);
    }
    let sorted = sorted_finite(&pooled);
    let kept = Kept::of(&sorted)?;
    let centre = mean(&kept.winsorised(&sorted))?;
    let offs = processes.iter().map(|process| {
        let winsorised = kept.winsorised(process);
        winsorised.iter().filter(|v| v.is_finite()).map(|v| v - centre).sum::<f64>()
    });
    let squares: f64 = offs.map(|off| off * off).sum();
    let processes = processes.len() as f64;
    let error = (squares * processes / (processes - 1.0)).sqrt() / kept.count() as f64;
    kept.summary(&sorted, error)
}

/// Which of the values in ascending order remain.
struct Kept {
    low: usize,
    high: usize,
    limits: [f64; 2],
}

impl Kept {
    fn of(sorted: &[f64]) -> Option<Self> {
        let kept = kept_of(sorted.len());
        if kept < 2 {
            return None;
        }
        let low = (sorted.len() - kept) / 2;
        Some(Self { low, high: low + kept, limits: [sorted[low], sorted[low + kept - 1]] })
    }

    fn count(&self) -> usize {
        self.high - self.low
    }

    /// The values with each dropped one replaced by the nearest kept one, in the order given.
    fn winsorised(&self, values: &[f64]) -> Vec<f64> {
        let [lowest, highest] = self.limits;
        values.iter().map(|v| v.clamp(lowest, highest)).collect()
    }

    fn summary(&self, sorted: &[f64], se: f64) -> Option<Trimmed> {
        let kept = &sorted[self.low..self.high];
        Some(Trimmed {
            n: kept.len() as u64,
            trials: sorted.len() as u64,
            mean: mean(kept)?,
            sd: standard_deviation(kept)?,
            se,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trials_include_those_to_be_trimmed() {
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
    fn processes_of_one_value_have_the_error_of_values() {
        let values = [5.0, 1.0, 9.0, 4.0, 4.5, 30.0, 2.0, 6.0, 5.5];
        let each: Vec<&[f64]> = values.chunks(1).collect();
        let (alone, over) = (trimmed(&values).unwrap(), trimmed_over(&each).unwrap());
        assert!((over.se / alone.se - 1.0).abs() < 1e-14, "{over:?} {alone:?}");
        assert_eq!(Trimmed { se: alone.se, ..over }, alone);
        assert_eq!(trimmed_over(&[&values, &[], &[f64::NAN]]), Some(alone));
    }

    #[test]
    fn rounds_of_one_process_are_clustered() {
        // Four processes, each of which gives one value again and again: four draws, not 400.
        let processes = [1.0, 2.0, 3.0, 4.0].map(|level| [level; 100]);
        let processes: Vec<&[f64]> = processes.iter().map(|values| values.as_slice()).collect();
        let trimmed = trimmed_over(&processes).unwrap();
        assert!(trimmed.se > 0.4, "{trimmed:?}");
    }

    #[test]
    fn of_an_odd_surplus_one_more_goes_at_the_top() {
        // 7 trials keep 4: one goes below and two above.
        assert_eq!(trimmed(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]).unwrap().mean, 3.5);
        assert_eq!(trimmed(&[1.0, 2.0, 3.0]), None);
    }
}
