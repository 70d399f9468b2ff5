//! What is decided from records: statistics, the rules of a verdict, the diagnosis of a machine,
//! comparisons, histories, and what a run is beside published figures.
//!
//! Every function is pure: the same records give the same answer, byte for byte, today and in two
//! years. Nothing here prints, reads a clock or a file, or knows a flag of the command line.
#![forbid(unsafe_code)]

pub mod clean;
pub mod compare;
pub mod crosscheck;
pub mod curve;
pub mod diagnosis;
pub mod differences;
pub mod history;
pub mod judge;
pub mod reference;
pub mod shown;
pub mod statistics;
pub mod strata;
