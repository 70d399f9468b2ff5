//! The trimmed mean of the classic protocol (rule 14), for comparison with older figures. It is an
//! additional figure: nothing else is trimmed.

use super::moments::{mean, standard_deviation};
use super::quantile::sorted_finite;
use fathom_record::summary::Trimmed;

/// The number of trials of which `kept` remain: ⌈1.6 n⌉ in integers, because 1.6 is not exact in
/// binary. 800 for 500, 16 for 10. Saturates at `u64::MAX`.
#[must_use]
pub fn trials_for(kept: u64) -> u64 {
    // 1.6 n = n + 3n/5, with the remainder of n/5 separately, so that nothing overflows early.
    let three_fifths = (kept / 5).saturating_mul(3).saturating_add((kept % 5 * 3).div_ceil(5));
    kept.saturating_add(three_fifths)
}

/// The largest n with ⌈1.6 n⌉ ≤ `trials`: how many of them remain.
fn kept_of(trials: usize) -> usize {
    trials / 8 * 5 + trials % 8 * 5 / 8
}

/// Mean, standard deviation (n − 1) and winsorised standard error of `values` without the
/// ⌊(N − n)/2⌋ lowest and ⌈(N − n)/2⌉ highest, where n is the largest number with ⌈1.6 n⌉ ≤ N.
/// `None` below 4 finite values, of which fewer than two would remain.
///
/// The error is that of Tukey & McLaughlin (Sankhyā A 25, 1963): the deviation of the winsorised
/// values ÷ (n/N · √N). It assumes independent values; for several processes see [`trimmed_over`].
#[must_use]
pub fn trimmed(values: &[f64]) -> Option<Trimmed> {
    let sorted = sorted_finite(values);
    let kept = TrimmedKept::from_sorted(&sorted)?;
    let deviation = standard_deviation(&kept.winsorised(&sorted))?;
    kept.summary(&sorted, deviation * (sorted.len() as f64).sqrt() / kept.count() as f64)
}

/// [`trimmed`] over the values of all processes, with the standard error clustered by process:
/// √(G/(G − 1) Σ Sₚ²) ÷ n, where Sₚ is the sum of the deviations of the winsorised values of one of
/// the G processes from the overall mean (Liang & Zeger, Biometrika 73, 1986; with one value per
/// process equal to that of [`trimmed`]). Values of a single process are assumed independent.
///
/// Simulated with ten processes of 80 rounds, with equal variance within and between processes: an
/// error that is not clustered is a sixth of the true one.
#[must_use]
pub fn trimmed_over(processes: &[&[f64]]) -> Option<Trimmed> {
    let has_values = |process: &&[f64]| process.iter().any(|v| v.is_finite());
    let processes: Vec<&[f64]> = processes.iter().copied().filter(has_values).collect();
    let pooled = processes.concat();
    if processes.len() < 2 {
        return trimmed(&pooled);
    }
    let sorted = sorted_finite(&pooled);
    let kept = TrimmedKept::from_sorted(&sorted)?;
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

/// The range of values in ascending order that remain.
struct TrimmedKept {
    low: usize,
    high: usize,
    limits: [f64; 2],
}

impl TrimmedKept {
    fn from_sorted(sorted: &[f64]) -> Option<Self> {
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

    /// The values with each dropped one replaced by the nearest kept one.
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
        // Four processes with one value each, repeated 100 times: four independent values, not 400.
        let processes = [1.0, 2.0, 3.0, 4.0].map(|level| [level; 100]);
        let processes: Vec<&[f64]> = processes.iter().map(|values| values.as_slice()).collect();
        let trimmed = trimmed_over(&processes).unwrap();
        assert!(trimmed.se > 0.4, "{trimmed:?}");
    }

    #[test]
    fn odd_surplus_is_trimmed_at_the_top() {
        // 7 trials keep 4: one is dropped below and two above.
        assert_eq!(trimmed(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]).unwrap().mean, 3.5);
        assert_eq!(trimmed(&[1.0, 2.0, 3.0]), None);
        assert_eq!(trimmed(&[1.0, 2.0, 3.0, 9.0]).unwrap().mean, 2.5, "two are enough");
    }
}
