//! Statistics, verdicts, comparisons and the doctor's rules.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

use proptest::test_runner::{Config, RngSeed};

mod core_state;
mod decisions;
mod diagnosis;
mod fleet;
mod golden;
mod modes_of_timings;
mod properties;
mod replay;
mod side_by_side;
mod summaries;
mod typical;

/// So many cases of a property, the same in each run.
fn seeded(cases: u32) -> Config {
    let rng_seed = RngSeed::Fixed(20_260_101);
    Config { cases, rng_seed, failure_persistence: None, ..Config::default() }
}
