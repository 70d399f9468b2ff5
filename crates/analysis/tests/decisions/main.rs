//! What comparisons and histories decide, of runs of an imagined machine.

mod comparison;
mod history;
mod runs;
mod strata;
