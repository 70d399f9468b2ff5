//! Analysis of records: statistics, verdicts, the doctor's diagnosis, comparisons, histories and
//! published reference figures.
//!
//! Every function is pure: the same records give the same result, byte for byte. Nothing here
//! prints, reads a clock or a file, or names a command-line option.
#![forbid(unsafe_code)]

pub mod bisect;
pub mod choice;
pub mod classes;
pub mod compare;
pub mod core_state;
pub mod crosscheck;
pub mod curve;
pub mod diagnosis;
pub mod differences;
pub mod display_value;
pub mod effects;
pub mod evidence;
pub mod fleet;
pub mod fuzz;
pub mod history;
pub mod judge;
pub mod limits;
pub mod load;
pub mod reference;
pub mod scaling;
pub mod schedule;
pub mod side_by_side;
pub mod statistics;
pub mod strata;
mod subject;
pub mod suspects;
pub mod trial;
pub mod typical;
