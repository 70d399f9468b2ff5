//! How a case is sampled and reduced.

use serde::{Deserialize, Serialize};

/// The sampling protocol, which defines the headline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// Median of the process medians.
    #[default]
    Median,
    /// Classic trimmed mean: 500 of 800 trials.
    Trimmed,
}
