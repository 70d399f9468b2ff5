//! Where the first windows of a search are, from those of which each holds or does not.
//!
//! Near the limit it is chance whether a window holds: that it does has the probability of a
//! logistic curve over the logarithm of the rate, whose middle is the answer and whose width is
//! unknown too. The next window is at the median of what the windows so far leave possible
//! (probabilistic bisection: Horstein, 1963; here with an unknown width, as in the ψ method of
//! Kontsevich and Tyler, 1999). That is no answer: half of the windows of a queue hold at a rate at
//! which its quantile is beyond the limit, as most of the time nothing waits.

/// Widths of the curve.
const WIDTHS: [f64; 5] = [0.003, 0.01, 0.03, 0.1, 0.3];
/// The share of windows that hold or not whatever their rate, as by a hiccup.
const LAPSES: f64 = 0.02;
/// The answer is within this factor of the first guess, and the nearer the likelier.
const FACTOR: f64 = 1e3;
const CELLS: usize = 6_000;

/// What is known of the highest rate.
#[derive(Clone, Debug)]
pub struct Bisection {
    /// The logarithm of the rate of each cell, and the weight of each width there.
    cells: Vec<(f64, [f64; WIDTHS.len()])>,
}

impl Bisection {
    /// One that begins at about this rate.
    #[must_use]
    pub fn around(guess: f64) -> Self {
        let cell = |at: usize| {
            let apart = (2.0 * at as f64 / (CELLS - 1) as f64 - 1.0) * FACTOR.ln();
            (guess.ln() + apart, [(-apart.abs()).exp(); WIDTHS.len()])
        };
        Self { cells: (0..CELLS).map(cell).collect() }
    }

    /// Adds a window.
    pub fn add(&mut self, rate: f64, holds: bool) {
        for (ln_rate, weights) in &mut self.cells {
            for (weight, width) in weights.iter_mut().zip(WIDTHS) {
                let apart = (rate.ln() - *ln_rate) / width;
                let share = LAPSES / 2.0 + (1.0 - LAPSES) / (1.0 + apart.exp());
                *weight *= if holds { share } else { 1.0 - share };
            }
        }
        // Twenty windows are far from the smallest number, but there may be more.
        let all = self.all();
        self.cells.iter_mut().flat_map(|cell| &mut cell.1).for_each(|weight| *weight /= all);
    }

    fn all(&self) -> f64 {
        self.cells.iter().flat_map(|cell| cell.1).sum()
    }

    /// The rate below which the answer is with this probability.
    fn at(&self, probability: f64) -> f64 {
        let mut left = probability * self.all();
        for (ln_rate, weights) in &self.cells {
            left -= weights.iter().sum::<f64>();
            if left <= 0.0 {
                return ln_rate.exp();
            }
        }
        self.cells.last().map_or(0.0, |cell| cell.0.exp())
    }

    /// The most likely middle: the rate of the next window.
    #[must_use]
    pub fn median(&self) -> f64 {
        self.at(0.5)
    }
}
