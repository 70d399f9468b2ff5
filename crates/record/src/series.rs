//! A time series: what a counter showed while something that lasts was measured.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Unit;

/// Telemetry of one counter at one end, on the clock of its run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// What it shows, such as `server CPU`.
    pub name: String,
    /// The unit of its values.
    pub unit: Unit,
    /// The far host it was read on, by its name in the run; absent for the near one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// When each value was read, in nanoseconds since the run began, ascending.
    pub times_ns: Vec<f64>,
    /// The values, as many as times.
    pub values: Vec<f64>,
}
