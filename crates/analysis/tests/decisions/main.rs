//! Comparisons and histories of synthetic runs.

mod comparison;
mod history;
mod runs;
mod strata;
