//! The inputs of predictions and derived metrics: earlier results of a run.

use fathom_record::run::ClockFacts;
use fathom_record::{Fact, FactValue, Host, NoModel, Params, Prediction, Record, Summary};

use crate::MissingInput;

/// Earlier records of the run, its clock and its host. Returns valid and noisy numbers only.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'r> {
    records: &'r [Record],
    clock: Option<&'r ClockFacts>,
    host: Option<&'r Host>,
}

impl<'r> Inputs<'r> {
    pub fn new(records: &'r [Record]) -> Self {
        Self { records, clock: None, host: None }
    }

    #[must_use]
    pub fn under(self, clock: &'r ClockFacts) -> Self {
        Self { clock: Some(clock), ..self }
    }

    #[must_use]
    pub fn on(self, host: &'r Host) -> Self {
        Self { host: Some(host), ..self }
    }

    pub fn host(&self) -> Option<&'r Host> {
        self.host
    }

    pub fn clock_source(&self) -> Option<&'r str> {
        self.clock.map(|clock| clock.source.as_str())
    }

    /// The summary of a case whose record is valid or noisy, and not on an edge.
    pub fn summary(&self, metric: &str, params: &Params) -> Option<&'r Summary> {
        self.record(metric, params)?.summary.as_ref()
    }

    /// A quantity beside the number of such a record.
    pub fn fact(&self, metric: &str, params: &Params, name: &str) -> Option<f64> {
        let mut facts = self.record(metric, params)?.facts.iter();
        match facts.find(|fact| fact.name == name)?.value {
            FactValue::Quantity { value, .. } => Some(value),
            _ => None,
        }
    }

    /// The share of a number that its own prediction calls hardware; 0 if it has no such parts.
    pub fn hardware_share(&self, metric: &str, params: &Params) -> f64 {
        let parts = self.record(metric, params).and_then(|record| record.prediction.as_ref());
        let share = |it: &Prediction| Some(it.hardware? / it.value.filter(|value| *value > 0.0)?);
        parts.and_then(share).unwrap_or(0.0).clamp(0.0, 1.0)
    }

    fn record(&self, metric: &str, params: &Params) -> Option<&'r Record> {
        // A later failure says nothing against the number of an earlier run.
        let has_number = |record: &&Record| {
            record.metric.as_str() == metric
                && record.params == *params
                && record.verdict.shows_number()
                && !Fact::are_on_edge(&record.facts)
        };
        self.records.iter().rev().find(has_number)
    }

    pub fn input(
        &self,
        metric: &'static str,
        params: &Params,
    ) -> Result<&'r Summary, MissingInput> {
        let missing = || MissingInput::Case { metric, params: params.clone() };
        self.summary(metric, params).ok_or_else(missing)
    }

    /// All cases of a metric whose records are valid or noisy.
    pub fn cases_of(&self, metric: &str) -> impl Iterator<Item = (&'r Params, &'r Summary)> {
        let of_metric = move |record: &&Record| record.metric.as_str() == metric;
        let summary_of = |record: &'r Record| {
            let summary = record.shown_summary()?;
            Some((&record.params, summary))
        };
        self.records.iter().filter(of_metric).filter_map(summary_of)
    }

    pub fn quantity(&self, metric: &str, params: &Params) -> Option<f64> {
        self.summary(metric, params).map(|summary| summary.median)
    }

    /// The measured core frequency in Hz.
    pub fn frequency(&self) -> Result<f64, NoModel> {
        earlier("cpu.frequency", &Params::none(), self)
    }
}

/// The headline of an earlier result of this run.
pub fn earlier(metric: &str, params: &Params, known: &Inputs<'_>) -> Result<f64, NoModel> {
    known
        .quantity(metric, params)
        .ok_or_else(|| NoModel::MissingInput { metric: format!("{metric}{params}") })
}

#[cfg(test)]
mod tests {
    use fathom_record::{BETWEEN_LEVELS, Cause, State, Verdict};

    use super::*;
    use crate::tests;

    #[test]
    fn invalid_number_is_not_returned() {
        let params = Params::none();
        let mut records = [tests::record("cpu.frequency", &params, 3e9, 1e6)];
        assert_eq!(Inputs::new(&records).frequency(), Ok(3e9));
        records[0].verdict = Verdict::because(State::Invalid, Cause::Clock, "why");
        assert!(Inputs::new(&records).frequency().is_err());
        records[0].verdict = Verdict::because(State::Noisy, Cause::Steal, "why");
        assert!(Inputs::new(&records).frequency().is_ok(), "noisy numbers are usable");
    }

    #[test]
    fn point_on_an_edge_is_no_input_but_in_the_curve() {
        let params = Params::one("set_bytes", 1 << 20);
        let mut record = tests::record("memory.latency", &params, 12.0, 1.0);
        record.facts = vec![Fact::text(BETWEEN_LEVELS, "L2 and L3")];
        let records = [record];
        let known = Inputs::new(&records);
        assert_eq!(known.quantity("memory.latency", &params), None);
        assert_eq!(known.cases_of("memory.latency").count(), 1);
    }

    #[test]
    fn later_unavailable_result_does_not_mask_a_number() {
        let params = Params::none();
        let mut records =
            [3e9, 4e9, 5e9].map(|hz| tests::record("cpu.frequency", &params, hz, 1e6));
        assert_eq!(Inputs::new(&records).frequency(), Ok(5e9), "the newest");
        records[2].verdict = Verdict::because(State::Unavailable, Cause::Missing, "why");
        assert_eq!(Inputs::new(&records).frequency(), Ok(4e9));
        assert!(Inputs::new(&records[2..]).frequency().is_err());
    }
}
