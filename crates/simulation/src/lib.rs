//! How often intervals keep their level and alarms are false, in worlds whose truth is known,
//! counted over seeded runs.
//!
//! The same code makes docs/SIMULATION.md in minutes (`make simulate`) and a test in seconds: only
//! the number of runs differs, and with it how far chance alone may move a count.
//!
//! It stands in for the machine, not for the program: worlds give samples, and everything from
//! there on is `analysis`'s own.
#![forbid(unsafe_code)]

mod chance;
mod comparisons;
mod coverage;
mod derived;
mod machine;
mod many;
mod page;
mod parallel;
mod section;
mod shapes;
mod source;
mod stopping;
mod strata;
mod trimmed;
mod within;
mod worlds;

pub use page::{Findings, simulate};
pub use shapes::{OUTLIERS, SHAPES, Shape};
pub use source::Source;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trials {
    pub runs: u32,
    /// The seed of them all.
    pub seed: u64,
}

impl Trials {
    /// The same with a part of the runs, for figures that are made of many cases each.
    fn divided(self, by: u32) -> Self {
        Self { runs: (self.runs / by).max(1), ..self }
    }
}
