//! Reproducible random numbers.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

pub struct Source(Xoshiro256PlusPlus);

impl Source {
    pub fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// The source of one figure, from the seed of the page and the name of the figure: a figure
    /// does not change if another is added.
    pub fn named(seed: u64, name: &str) -> Self {
        // FNV-1a, because the hash of std may change.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self::new(seed ^ hash)
    }

    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in the open interval from 0 to 1.
    pub fn uniform(&mut self) -> f64 {
        ((self.0.next_u64() >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
    }

    /// Standard normal (Box-Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Student's t with `freedom` degrees of freedom.
    pub fn student(&mut self, freedom: u32) -> f64 {
        let squares: f64 = (0..freedom).map(|_| self.normal().powi(2)).sum();
        self.normal() / (squares / f64::from(freedom)).sqrt()
    }
}
