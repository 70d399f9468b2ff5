//! Derived metrics: computed from records of other metrics, such as a slope or a plateau.

use fathom_analysis::statistics::Ratio;
use fathom_record::{Effort, Fact, Host, NoModel, Params, Prediction, Reason, Record};

use crate::{HasAbout, Inputs, MissingInput};

pub trait Derived: HasAbout {
    /// Metrics of [`About::needs`] whose verdicts it inherits.
    fn inputs(&self) -> &'static [&'static str];
    /// Whether the result with these parameters is computed from this record and inherits its
    /// verdict. Depends on `known` where the best available record is used.
    fn depends_on(&self, _: &Params, record: &Record, _: &Inputs<'_>) -> bool {
        self.inputs().contains(&record.metric.as_str())
    }
    /// Parameters of its results.
    fn cases(&self) -> Vec<Params> {
        vec![Params::none()]
    }
    /// Whether its inputs have the cases that it needs at this effort.
    fn is_for(&self, _: Effort) -> bool {
        true
    }
    /// Computes one result from values per process, which gives it a confidence interval.
    fn reduce(&self, params: &Params, known: &Inputs<'_>) -> Result<DerivedEstimate, MissingInput>;
    fn predict(
        &self,
        params: &Params,
        host: &Host,
        known: &Inputs<'_>,
    ) -> Result<Prediction, NoModel>;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct DerivedEstimate {
    pub per_process: Vec<f64>,
    /// Where the values are locations of edges: per process the measured points on both sides.
    pub edges: Vec<[f64; 2]>,
    /// A difference or a slope: printed as a bound where its interval includes 0 (METHOD 6).
    pub difference: bool,
    /// Ratio of two headlines whose metrics ran in different processes. Replaces the median of
    /// `per_process`.
    pub quotient: Option<Ratio>,
    /// Printed beside the number.
    pub notes: Vec<String>,
    /// Such as the line whose slope the value is.
    pub facts: Vec<Fact>,
    /// Reasons that make the record noisy, such as processes without a value.
    pub doubts: Vec<Reason>,
}
