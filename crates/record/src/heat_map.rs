//! Heat maps: single timings over time.

use serde::{Deserialize, Serialize};

/// How many timings of each size there were over time: a histogram for each slice of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HeatMap {
    /// When each slice began, in nanoseconds since the start of the run, ascending. Between two of
    /// them other cases may have been measured.
    pub starts_ns: Vec<f64>,
    /// How long each lasted, in nanoseconds.
    pub lengths_ns: Vec<f64>,
    /// The limits of the rows in the unit of the record, ascending: one more than rows.
    pub limits: Vec<f64>,
    /// For each slice the timings in each row.
    pub counts: Vec<Vec<u64>>,
}
