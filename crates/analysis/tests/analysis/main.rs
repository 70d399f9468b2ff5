//! Statistics, verdicts, comparisons and the doctor's rules.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

mod clean;
mod decisions;
mod diagnosis;
mod golden;
mod modes_of_timings;
mod properties;
mod summaries;
