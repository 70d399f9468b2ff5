//! Comparisons and histories of synthetic runs.

mod comparison;
mod differences;
mod factors;
mod gate;
mod history;
mod limits;
mod reference;
pub(crate) mod runs;
mod split;
mod strata;
