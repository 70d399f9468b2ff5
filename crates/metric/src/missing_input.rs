//! Why a derived metric has no result.

use fathom_record::quantity::quantity;
use fathom_record::{NoModel, Params, Remedy, Unit};

/// Why a derived metric has no result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MissingInput {
    /// An input was not measured or has no valid number.
    #[error("{metric}{params} has no result")]
    Case { metric: &'static str, params: Params },
    /// The host lacks the feature or the fact.
    #[error("{0}")]
    Absent(&'static str),
    /// The largest working set that fits in memory is too small.
    #[error(
        "the largest set is {}, {} are needed: {why}",
        quantity(*.largest as f64, Unit::Bytes), quantity(*.needed as f64, Unit::Bytes)
    )]
    SetTooSmall { largest: u64, needed: u64, why: &'static str },
    /// No process has a value.
    #[error("in {processes} of {processes} processes {why}")]
    NoProcess {
        processes: usize,
        /// The reason in one of them.
        why: String,
    },
}

impl MissingInput {
    pub fn remedy(&self) -> Option<Remedy> {
        matches!(self, Self::SetTooSmall { .. }).then_some(Remedy::FreeMemory)
    }
}

impl From<MissingInput> for NoModel {
    fn from(missing: MissingInput) -> Self {
        match missing {
            MissingInput::Case { metric, params } => {
                Self::MissingInput { metric: format!("{metric}{params}") }
            }
            MissingInput::SetTooSmall { largest, needed, .. } => {
                Self::SetTooSmall { largest_bytes: largest, needed_bytes: needed }
            }
            _ => Self::NoCommonSet,
        }
    }
}
