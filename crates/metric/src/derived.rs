//! Metrics that are computed from others: a slope, a plateau, an edge.

use fathom_analysis::statistics::Ratio;
use fathom_record::{Host, NoModel, Params, Prediction, Reason, Record};

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
    fn reduce(&self, params: &Params, known: &Known<'_>) -> Result<Estimate, String>;
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
