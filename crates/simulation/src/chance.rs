//! Counted rates, and binomial tests of them against a guaranteed rate.

use statrs::distribution::{Binomial, DiscreteCDF};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChanceRate {
    pub hits: u64,
    pub of: u64,
}

/// Significance level of a violation. With some three hundred figures, one page in a thousand has a
/// violation by chance.
const SIGNIFICANCE: f64 = 1.0 / 300_000.0;

impl ChanceRate {
    pub fn count(&mut self, hit: bool) {
        self.hits += u64::from(hit);
        self.of += 1;
    }

    /// From 0 to 1; 0 without trials.
    pub fn share(self) -> f64 {
        if self.of == 0 { 0.0 } else { self.hits as f64 / self.of as f64 }
    }

    /// Whether it is significantly below `guaranteed`.
    pub fn is_below(self, guaranteed: f64) -> bool {
        self.share() < guaranteed && binomial_cdf(self.hits, self.of, guaranteed) < SIGNIFICANCE
    }

    /// Whether it is significantly above `guaranteed`.
    pub fn is_above(self, guaranteed: f64) -> bool {
        let missed = self.of - self.hits;
        self.share() > guaranteed && binomial_cdf(missed, self.of, 1.0 - guaranteed) < SIGNIFICANCE
    }
}

/// P(X ≤ k) of a binomial X with n trials and probability p.
fn binomial_cdf(k: u64, n: u64, p: f64) -> f64 {
    Binomial::new(p, n).map_or(1.0, |trials| trials.cdf(k))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binomial_cdf_matches_known_values() {
        assert!((binomial_cdf(3, 10, 0.5) - 176.0 / 1024.0).abs() < 1e-14);
        assert!((binomial_cdf(0, 4, 1.0 / 6.0) - 625.0 / 1296.0).abs() < 1e-14);
        assert!((binomial_cdf(10_000, 10_000, 0.95) - 1.0).abs() < 1e-9);
        // scipy.stats.binom.cdf(9400, 10000, 0.95)
        let expected = 4.509_387_117_818_625e-6;
        assert!((binomial_cdf(9_400, 10_000, 0.95) / expected - 1.0).abs() < 1e-6);
    }

    #[test]
    fn chance_is_no_violation() {
        let rate = |hits| ChanceRate { hits, of: 10_000 };
        assert!(!rate(9_420).is_below(0.95) && rate(9_390).is_below(0.95));
        assert!(!rate(9_580).is_above(0.95) && rate(9_610).is_above(0.95));
        assert!(!rate(10_000).is_above(1.0) && !rate(0).is_below(0.0));
        // Too few trials.
        assert!(!ChanceRate { hits: 7, of: 10 }.is_below(0.95));
    }
}
