//! The think time between a response and the next request.

use clap::ValueEnum;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng as _;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Distribution {
    Constant,
    Exponential,
}

fathom_record::words!(Distribution.word, Constant = "constant", Exponential = "exponential");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    pub mean_ns: u64,
    pub distribution: Distribution,
}

impl Pause {
    pub const NONE: Self = Self { mean_ns: 0, distribution: Distribution::Constant };

    pub(super) fn draw(self, random: &mut Xoshiro256PlusPlus) -> u64 {
        match self.distribution {
            Distribution::Constant => self.mean_ns,
            // By inversion; 1 − u is never 0.
            Distribution::Exponential => {
                (-(1.0 - uniform(random)).ln() * self.mean_ns as f64) as u64
            }
        }
    }
}

/// Uniform in [0, 1).
pub(super) fn uniform(random: &mut Xoshiro256PlusPlus) -> f64 {
    (random.next_u64() >> 11) as f64 * 2_f64.powi(-53)
}

/// Uniform in 0 to `count` − 1, by the high half of a product, whose bias is below 2⁻³².
pub(super) fn below(count: u32, random: &mut Xoshiro256PlusPlus) -> u32 {
    ((u64::from(random.next_u64() as u32) * u64::from(count)) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use rand_xoshiro::rand_core::SeedableRng as _;

    use super::*;

    #[test]
    fn distributions_have_the_words_of_their_option() {
        let words = [Distribution::Constant, Distribution::Exponential].map(Distribution::word);
        assert_eq!(words, ["constant", "exponential"]);
    }

    #[test]
    fn exponential_pauses_have_their_mean() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let pause = Pause { mean_ns: 1_000_000, distribution: Distribution::Exponential };
        let drawn: Vec<u64> = (0..20_000).map(|_| pause.draw(&mut random)).collect();
        let mean = drawn.iter().sum::<u64>() as f64 / 2e10;
        assert!((mean - 1.0).abs() < 0.03, "{mean}");
        // A third of them exceeds the mean: 1/e.
        let above = drawn.iter().filter(|ns| **ns > 1_000_000).count() as f64 / 2e4;
        assert!((above - 0.368).abs() < 0.02, "{above}");
        assert_eq!(Pause { mean_ns: 7, ..Pause::NONE }.draw(&mut random), 7);
    }

    #[test]
    fn every_file_is_chosen() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut counts = [0_u32; 7];
        (0..7_000).for_each(|_| counts[below(7, &mut random) as usize] += 1);
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }
}
