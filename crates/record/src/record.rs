//! The record: the complete result of one case.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::command::COMMAND;
use crate::measured_by::NAME;
use crate::{
    Agreement, Better, Class, Cost, Disturbance, Fact, FactValue, HeatMap, LOOSE, MeasuredBy,
    MetricId, NoModel, Params, Prediction, Protocol, Sample, Series, Summary, Typical, Unit,
    Verdict,
};

/// The headline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Value {
    /// A quantity in the record's unit.
    Number(f64),
    /// A non-numeric result, such as a hexadecimal checksum or the name of a bottleneck.
    Text(String),
}

/// The result of one case of one metric in one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Record {
    /// The metric.
    pub metric: MetricId,
    /// The parameters of the case.
    pub params: Params,
    /// The metric's title.
    pub title: String,
    /// The unit of every value in this record.
    pub unit: Unit,
    /// Which direction is an improvement.
    pub better: Better,
    /// The headline. Absent if no number may be shown, or only an upper bound is known.
    pub value: Option<Value>,
    /// The program that measured it, if it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_by: Option<MeasuredBy>,
    /// Name of the visits the samples came from; records with one visit name share their visits.
    pub visit: String,
    /// The metrics that a derived metric was computed from; empty for a measured one.
    pub derived_from: Vec<MetricId>,
    /// The raw values, if requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<Vec<Sample>>,
    /// Statistics of the samples; absent without a result.
    pub summary: Option<Summary>,
    /// What the number should be.
    pub prediction: Option<Prediction>,
    /// Why there is no prediction.
    pub no_model: Option<NoModel>,
    /// Comparison of result and prediction.
    pub agreement: Option<Agreement>,
    /// Where published machines of the same kind lie; not stored, since the collection grows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub typical: Option<Typical>,
    /// Why the number says nothing of the machine, by all that its run knows; not stored, since it
    /// is judged when a view reads the run.
    #[serde(skip)]
    pub not_judged: Option<String>,
    /// Whether the number can be trusted.
    pub verdict: Verdict,
    /// The probe's checks of its own work: name → result.
    pub checks: BTreeMap<String, String>,
    /// Disturbance counters, summed over all visits.
    pub disturbance: Disturbance,
    /// Further facts of a measurement by hand, in reading order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<Fact>,
    /// Time series of counters, for long measurements.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<Series>,
    /// Single timings over the time of the measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heat_map: Option<HeatMap>,
    /// What a command of the user should cost by its counted operations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// Notes on the number, such as the clock's floor or what was subtracted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// CRC-32 of the samples, 8 hexadecimal digits, also where they are left out; absent in records
    /// that never had any, and in those of before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples_checksum: Option<String>,
    /// CRC-32 of the record without its samples, their checksum and the typical range, 8
    /// hexadecimal digits. It detects accidents, not manipulation.
    pub checksum: String,
}

fn checksum(part: &impl Serialize) -> String {
    let text = serde_json::to_vec(part).expect("plain data has a JSON form");
    format!("{:08x}", crc32fast::hash(&text))
}

/// Half the relative width of an interval from which on a case between levels has no number.
const CLIFF_MIN: f64 = 0.1;

impl Record {
    /// A record without a result.
    pub fn new(metric: MetricId, params: Params, title: &str, unit: Unit, better: Better) -> Self {
        Self { metric, params, title: title.to_owned(), unit, better, ..Self::default() }
    }

    /// The metric with its parameters: `os.syscall{call=getppid}`.
    pub fn name(&self) -> String {
        format!("{}{}", self.metric, self.params)
    }

    /// What a record is of by its whole name, where the id is made of a part of it: the command of
    /// the user, or the benchmark of another tool.
    pub fn whole_name(&self) -> Option<&str> {
        let of_tool = || self.text_of(NAME).unwrap_or(&self.title);
        self.text_of(COMMAND).or_else(|| self.measured_by.is_some().then(of_tool))
    }

    /// Whether a record of the same id is of another command or benchmark. Older ones of other
    /// tools have a title only.
    pub fn is_of_another(&self, other: &Self) -> bool {
        let of_tool = |one: &Self| one.measured_by.is_some() && one.text_of(NAME).is_none();
        let is_older = (of_tool(self) || of_tool(other)) && self.title == other.title;
        !is_older && self.whole_name() != other.whole_name()
    }

    pub fn expected_checksum(&self) -> String {
        checksum(&Self {
            samples: None,
            samples_checksum: None,
            typical: None,
            checksum: String::new(),
            ..self.clone()
        })
    }

    /// The record with the unfiltered estimate as its headline.
    #[must_use]
    pub fn as_found(mut self) -> Self {
        self.summary = self.summary.map(|summary| summary.as_found());
        self
    }

    /// The summary, if its number may be shown.
    pub fn shown_summary(&self) -> Option<&Summary> {
        self.summary.as_ref().filter(|_| self.verdict.shows_number())
    }

    /// The limits of a case between two levels of memory whose processes differ so much that their
    /// median describes none of them.
    pub fn on_cliff(&self) -> Option<[f64; 2]> {
        let summary = self.shown_summary().filter(|_| Fact::are_on_edge(&self.facts))?;
        summary.relative_half_width().filter(|half| *half > CLIFF_MIN)?;
        summary.limits()
    }

    pub fn fact(&self, name: &str) -> Option<&Fact> {
        self.facts.iter().find(|fact| fact.name == name)
    }

    /// The text of a fact.
    pub fn text_of(&self, name: &str) -> Option<&str> {
        match &self.fact(name)?.value {
            FactValue::Text { text } => Some(text),
            FactValue::Quantity { .. } | FactValue::Line { .. } => None,
        }
    }

    /// The number of a fact.
    pub fn quantity_of(&self, name: &str) -> Option<f64> {
        match self.fact(name)?.value {
            FactValue::Quantity { value, .. } => Some(value),
            FactValue::Text { .. } | FactValue::Line { .. } => None,
        }
    }

    /// The headline number of a protocol, if a number may be shown.
    pub fn number(&self, protocol: Protocol) -> Option<f64> {
        let summary = self.shown_summary()?;
        let number = match (protocol, &summary.trimmed) {
            (Protocol::Trimmed, Some(trimmed)) => trimmed.mean,
            _ => summary.median,
        };
        (summary.bound.is_none() && self.unit.takes(number)).then_some(number)
    }

    /// Whether the prediction is a value, and right: what alone is shown in green.
    pub fn is_value_within(&self) -> bool {
        self.agreement == Some(Agreement::Within)
            && self.prediction.as_ref().is_some_and(|it| it.class() == Class::Value)
    }

    /// How far a bound is from the number: a factor above 1 if it is met.
    pub fn slack(&self) -> Option<f64> {
        let summary = self.shown_summary()?;
        let prediction = self.prediction.as_ref()?;
        match summary.bound {
            // Where the number is below its bound is not known: only an upper limit is far.
            Some(bound) => prediction.high.filter(|_| prediction.is_ordinal()).map(|it| it / bound),
            None => prediction.slack(summary.median),
        }
    }

    /// Whether the prediction is a bound that is too far away to say something.
    pub fn is_loosely_bound(&self) -> bool {
        !self.agreement.is_some_and(Agreement::fails) && self.slack().is_some_and(|it| it > LOOSE)
    }

    /// Sets the headline of the median protocol and the checksums.
    #[must_use]
    pub fn sealed(self) -> Self {
        self.sealed_by(Protocol::Median)
    }

    /// Sets the headline of a protocol and the checksums.
    #[must_use]
    pub fn sealed_by(mut self, protocol: Protocol) -> Self {
        if !matches!(self.value, Some(Value::Text(_))) {
            self.value = self.number(protocol).map(Value::Number);
        }
        self.samples_checksum = self.samples.as_ref().map(checksum);
        self.checksum = self.expected_checksum();
        self
    }

    /// Whether the checksums match the content.
    pub fn is_intact(&self) -> bool {
        let of_samples = self.samples_checksum.as_ref().zip(self.samples.as_ref());
        of_samples.is_none_or(|(expected, samples)| *expected == checksum(samples))
            && self.checksum == self.expected_checksum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_is_of_the_protocol() {
        let (id, unit) = (MetricId::new("os.syscall"), Unit::Nanoseconds);
        let mut record = Record::new(id, Params::none(), "", unit, Better::Lower);
        let trimmed = crate::summary::Trimmed { mean: 3.0, ..crate::summary::Trimmed::default() };
        record.summary =
            Some(Summary { median: 2.0, trimmed: Some(trimmed), ..Summary::default() });
        let numbers = [Protocol::Median, Protocol::Trimmed].map(|one| record.number(one));
        assert_eq!(numbers, [Some(2.0), Some(3.0)]);
        record.verdict.state = crate::State::Invalid;
        assert_eq!(record.number(Protocol::Trimmed), None);
    }

    #[test]
    fn case_between_levels_has_limits_where_its_median_describes_no_process() {
        let limits = |facts: &[Fact], high| {
            let (id, unit) = (MetricId::new("memory.latency"), Unit::Nanoseconds);
            let mut record = Record::new(id, Params::none(), "", unit, Better::Lower);
            let interval = crate::Interval::new([16.0, high], 0.9375, crate::Basis::Processes);
            record.summary =
                Some(Summary { median: 40.0, interval: Some(interval), ..Summary::default() });
            record.facts = facts.to_vec();
            record.on_cliff()
        };
        let between = [Fact::text(crate::BETWEEN_LEVELS, "L2 and L3")];
        assert_eq!(limits(&between, 128.0), Some([16.0, 128.0]));
        assert_eq!(limits(&between, 23.0), None, "alike in all processes");
        assert_eq!(limits(&[], 128.0), None, "a noisy number");
    }

    #[test]
    fn facts_are_found_by_name_and_kind() {
        let id = MetricId::new("os.syscall");
        assert_eq!(id.group(), "os");
        let mut record = Record::new(id, Params::none(), "call", Unit::Nanoseconds, Better::Lower);
        record.facts =
            vec![Fact::text("file", "a"), Fact::quantity("time", 2.0, Unit::Nanoseconds)];
        assert_eq!((record.text_of("file"), record.quantity_of("time")), (Some("a"), Some(2.0)));
        assert_eq!((record.text_of("time"), record.quantity_of("file")), (None, None));
        assert_eq!((record.text_of("none"), record.quantity_of("none")), (None, None));
    }

    #[test]
    fn only_a_right_value_is_shown_in_green() {
        let value = Prediction::sum(60.0, 40.0, 0.1, "a + b", "source");
        let is = |prediction: &Prediction, agreement| {
            let (id, params) = (MetricId::new("os.syscall"), Params::none());
            let mut record = Record::new(id, params, "call", Unit::Nanoseconds, Better::Lower);
            (record.prediction, record.agreement) = (Some(prediction.clone()), Some(agreement));
            record.is_value_within()
        };
        assert!(is(&value, Agreement::Within));
        assert!(!is(&value, Agreement::Outside));
        assert!(!is(&value.self_consistent(), Agreement::Within));
    }
}
