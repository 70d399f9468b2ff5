//! Predictions by order: a case costs at least so many times what an earlier case did.

use fathom_record::{NoModel, Params, Prediction};

use crate::{Known, Quantity};

/// Why one case cannot cost less than `factor` times another of this run.
#[derive(Clone, Copy)]
pub(super) struct Order<'a> {
    pub(super) factor: f64,
    /// The other metric.
    pub(super) metric: &'a str,
    /// Why.
    pub(super) source: &'a str,
}

impl Order<'_> {
    /// The claim against one case of the other metric.
    pub(super) fn claim(&self, params: &Params, known: &Known<'_>) -> Result<Prediction, NoModel> {
        let name = format!("{}{params}", self.metric);
        let lower = earlier(self.metric, params, known)?.value;
        let formula = match self.factor {
            1.0 => format!("≥ {name}"),
            factor => format!("≥ {factor} × {name}"),
        };
        let claim = Prediction::at_least(self.factor * lower, &formula, self.source);
        Ok(claim.with_input(&name, lower, &format!("this run: {name}")))
    }
}

/// A result of this run, or that it is missing.
pub(super) fn earlier(
    metric: &str,
    params: &Params,
    known: &Known<'_>,
) -> Result<Quantity, NoModel> {
    known
        .quantity(metric, params)
        .ok_or_else(|| NoModel(format!("{metric}{params} has no result in this run")))
}
