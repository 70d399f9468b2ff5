//! Time series: a counter over the time of a measurement.

use serde::{Deserialize, Serialize};

use crate::Unit;

/// Values of one counter over time, on the clock of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Series {
    /// What was counted, such as `server CPU`.
    pub name: String,
    /// The unit of its values.
    pub unit: Unit,
    /// The far host the counter was read on, by its name in the run; absent for the near host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// When each value was read, in nanoseconds since the start of the run, ascending.
    pub times_ns: Vec<f64>,
    /// The values, one per time.
    pub values: Vec<f64>,
}
