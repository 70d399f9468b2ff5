//! Monte Carlo simulation of the statistics: coverage of intervals and rates of false alarms, for
//! samples of known distribution ("worlds").
//!
//! The same code writes docs/evidence/SIMULATION.md in minutes (`make simulate`) and is tests of a
//! second; only the number of runs differs. Samples are simulated; their analysis is the code of
//! fathom-analysis.
#![forbid(unsafe_code)]

mod bisect;
mod chance;
mod comparisons;
mod coverage;
mod derived;
mod effects;
mod episodes;
mod experiment;
mod factors;
mod fleet;
mod gate;
mod highest;
mod load;
mod machine;
mod many;
mod page;
mod parallel;
mod section;
mod shapes;
mod source;
mod stopping;
mod strata;
mod tails;
mod trimmed;
mod within;
mod worlds;

pub use page::{Findings, simulate, simulate_part};
pub use shapes::{OUTLIERS, SHAPES, SimulationShape};
pub use source::Source;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trials {
    pub runs: u32,
    pub seed: u64,
}

impl Trials {
    /// Fewer runs, for figures with many cases per run.
    fn divided(self, by: u32) -> Self {
        Self { runs: (self.runs / by).max(1), ..self }
    }
}
