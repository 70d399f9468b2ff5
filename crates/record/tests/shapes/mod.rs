//! Seeded random values of the shapes that timings have.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A source of values that is the same on every machine.
pub(crate) struct Source(Xoshiro256PlusPlus);

impl Source {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// Uniform between 0 and 1, never either.
    pub(crate) fn uniform(&mut self) -> f64 {
        ((self.0.next_u64() >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
    }

    /// Standard normal (Box & Muller).
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Student's t with `freedom` degrees of freedom.
    pub(crate) fn student(&mut self, freedom: u32) -> f64 {
        let squares: f64 = (0..freedom).map(|_| self.normal().powi(2)).sum();
        self.normal() / (squares / f64::from(freedom)).sqrt()
    }
}

/// A shape, by name, and how to draw one value of it. The true median of each is 0 or 1, as given.
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    pub(crate) median: f64,
    pub(crate) draw: fn(&mut Source) -> f64,
}

/// The name of the shape with outliers on both sides.
pub(crate) const OUTLIERS: &str = "normal with one in ten far out on either side";

/// Shapes with one mode.
pub(crate) const SHAPES: [Shape; 6] = [
    Shape { name: "normal", median: 0.0, draw: Source::normal },
    Shape { name: "log-normal", median: 1.0, draw: |s| s.normal().exp() },
    Shape { name: "heavy-tailed (t2)", median: 0.0, draw: |s| s.student(2) },
    Shape { name: "t3", median: 0.0, draw: |s| s.student(3) },
    Shape {
        name: "skewed (exponential)",
        median: 1.0,
        draw: |s| -s.uniform().ln() / std::f64::consts::LN_2,
    },
    Shape {
        name: OUTLIERS,
        median: 0.0,
        draw: |s| {
            if s.uniform() < 0.1 { 100.0 * s.normal() } else { s.normal() }
        },
    },
];
