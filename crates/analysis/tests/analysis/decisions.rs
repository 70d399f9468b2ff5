//! Comparisons and histories of synthetic runs.

mod comparison;
mod differences;
mod gate;
mod history;
mod limits;
mod reference;
mod runs;
mod strata;
