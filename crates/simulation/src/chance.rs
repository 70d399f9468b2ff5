//! Shares that were counted, and whether chance alone explains that they are not what was promised.

use statrs::distribution::{Binomial, DiscreteCDF};

/// How often something happened of how often it could have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate {
    pub hits: u64,
    pub of: u64,
}

/// A count is no chance where one as far off, or farther, would come about once in so many times:
/// with some three hundred figures on a page, one page in a thousand has one by chance.
const CHANCE: f64 = 1.0 / 300_000.0;

impl Rate {
    pub fn note(&mut self, happened: bool) {
        self.hits += u64::from(happened);
        self.of += 1;
    }

    /// The share, 0 to 1; 0 of nothing.
    pub fn share(self) -> f64 {
        if self.of == 0 { 0.0 } else { self.hits as f64 / self.of as f64 }
    }

    /// Whether it is below `promised` by more than chance.
    pub fn is_below(self, promised: f64) -> bool {
        self.share() < promised && cumulated(self.hits, self.of, promised) < CHANCE
    }

    /// Whether it is above `promised` by more than chance.
    pub fn is_above(self, promised: f64) -> bool {
        let missed = self.of - self.hits;
        self.share() > promised && cumulated(missed, self.of, 1.0 - promised) < CHANCE
    }
}

/// P(X ≤ k) of a binomial X of n trials with the chance p.
fn cumulated(k: u64, n: u64, p: f64) -> f64 {
    Binomial::new(p, n).map_or(1.0, |trials| trials.cdf(k))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cumulated_chances_are_those_of_a_coin_and_a_die() {
        assert!((cumulated(3, 10, 0.5) - 176.0 / 1024.0).abs() < 1e-14);
        assert!((cumulated(0, 4, 1.0 / 6.0) - 625.0 / 1296.0).abs() < 1e-14);
        assert!((cumulated(10_000, 10_000, 0.95) - 1.0).abs() < 1e-9);
        // scipy.stats.binom.cdf(9400, 10000, 0.95)
        let expected = 4.509_387_117_818_625e-6;
        assert!((cumulated(9_400, 10_000, 0.95) / expected - 1.0).abs() < 1e-6);
    }

    #[test]
    fn chance_breaks_no_promise() {
        let kept = |hits| Rate { hits, of: 10_000 };
        assert!(!kept(9_420).is_below(0.95) && kept(9_390).is_below(0.95));
        assert!(!kept(9_580).is_above(0.95) && kept(9_610).is_above(0.95));
        assert!(!kept(10_000).is_above(1.0) && !kept(0).is_below(0.0));
        // Ten trials decide little.
        assert!(!Rate { hits: 7, of: 10 }.is_below(0.95));
    }
}
