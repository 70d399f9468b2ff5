//! Metrics that are computed from others: a slope, a plateau, an edge.

use fathom_analysis::statistics::Ratio;
use fathom_record::quantity::quantity;
use fathom_record::{Host, NoModel, Params, Prediction, Reason, Record, Remedy, Unit};

use crate::{About, Known};

/// A metric computed from other records: a slope, a plateau, an edge.
pub trait Derived: Sync {
    /// What it is; [`About::needs`] are the metrics it is computed from.
    fn about(&self) -> &'static About;
    /// The metrics it is computed from: those of [`About::needs`] whose doubts are its own.
    fn inputs(&self) -> &'static [&'static str];
    /// Whether the result with these parameters is computed from this record, so that the doubts
    /// of the one are the other's. Which record is used may depend on which there are.
    fn rests_on(&self, _: &Params, record: &Record, _: &Known<'_>) -> bool {
        self.inputs().contains(&record.metric.as_str())
    }
    /// The parameters of its results.
    fn cases(&self) -> Vec<Params>;
    /// Computes one result, per process first, so that it has an interval.
    ///
    /// # Errors
    /// Which input is missing.
    fn reduce(&self, params: &Params, known: &Known<'_>) -> Result<Estimate, MissingInput>;
    /// What it should be.
    ///
    /// # Errors
    /// Why there is no model.
    fn predict(
        &self,
        params: &Params,
        host: &Host,
        known: &Known<'_>,
    ) -> Result<Prediction, NoModel>;
}

impl MissingInput {
    /// What would give it.
    pub fn remedy(&self) -> Option<Remedy> {
        matches!(self, Self::SetTooSmall { .. }).then_some(Remedy::FreeMemory)
    }
}

/// Why there is no derived result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MissingInput {
    /// A case that it is computed from was not measured, or gave no number.
    #[error("{metric}{params} has no result")]
    Case {
        /// The metric.
        metric: &'static str,
        /// The case.
        params: Params,
    },
    /// Nothing of the kind is known here.
    #[error("{0}")]
    Absent(&'static str),
    /// The largest set that there was room for is too small.
    #[error(
        "the largest set is {}, and {} are needed: {why}",
        quantity(*.largest as f64, Unit::Bytes), quantity(*.needed as f64, Unit::Bytes)
    )]
    SetTooSmall {
        /// Its bytes.
        largest: u64,
        /// The bytes that would do.
        needed: u64,
        /// What a smaller one does not show.
        why: &'static str,
    },
    /// Half of the processes or more do not show it.
    #[error("in {without} of {processes} processes {why}")]
    TooFewProcesses {
        /// Those that do not show it.
        without: usize,
        /// All of them.
        processes: usize,
        /// What is missing in one of them.
        why: String,
    },
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

/// A derived result.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Estimate {
    /// One estimate for each process.
    pub per_process: Vec<f64>,
    /// Whether it is a difference or a slope, which is printed as a bound where its interval is
    /// too wide (METHOD 6).
    pub difference: bool,
    /// Where it is one metric divided by another and each has processes of its own: the quotient of
    /// their headlines, which stands in place of the median of `per_process`.
    pub quotient: Option<Ratio>,
    /// Facts beside the number, such as how well a line fits.
    pub notes: Vec<String>,
    /// What speaks against the number though there is one, such as processes that gave none: it
    /// makes the record noisy.
    pub doubts: Vec<Reason>,
}
