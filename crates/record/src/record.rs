//! The record: one case's result, whole.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Agreement, Better, Disturbance, Fact, MetricId, NoModel, Params, Prediction, Protocol, Sample,
    Series, Summary, Unit, Verdict,
};

/// A headline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Value {
    /// A quantity in the record's unit.
    Number(f64),
    /// A result that is no quantity, such as a checksum in hexadecimal or a bottleneck's name.
    Text(String),
}

/// The result of one case of one metric in one run: the only result shape there is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Record {
    /// What was measured.
    pub metric: MetricId,
    /// With which parameters.
    pub params: Params,
    /// The metric's title.
    pub title: String,
    /// The unit of every value in this record.
    pub unit: Unit,
    /// Which direction is an improvement.
    pub better: Better,
    /// The headline: a number in the record's unit, or text where the result is no quantity.
    /// Absent where no number may be shown, or only a bound is known.
    pub value: Option<Value>,
    /// Name of the visits the samples came from: records of one visit name were taken together.
    pub visit: String,
    /// The metrics this one was computed from; empty for a measured one.
    pub derived_from: Vec<MetricId>,
    /// The raw values; only where they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<Vec<Sample>>,
    /// What they amount to; absent where there is no result.
    pub summary: Option<Summary>,
    /// What the number should be.
    pub prediction: Option<Prediction>,
    /// Why there is no prediction.
    pub no_model: Option<NoModel>,
    /// How the two stand to each other.
    pub agreement: Option<Agreement>,
    /// Whether the number can be believed.
    pub verdict: Verdict,
    /// What the probe verified of its own work: name → what was counted.
    pub checks: BTreeMap<String, String>,
    /// Counters over all visits.
    pub disturbance: Disturbance,
    /// Facts beside a number taken by hand, in the order in which they are read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<Fact>,
    /// What counters showed over the run's time, for measurements that last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<Series>,
    /// Notes a reader needs beside the number, such as the clock's floor or what was subtracted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// CRC-32 over the record without its samples, as 8 hexadecimal digits. It detects accidents,
    /// not intent.
    pub checksum: String,
}

impl Record {
    /// A record of a case about which nothing is known yet.
    pub fn new(metric: MetricId, params: Params, title: &str, unit: Unit, better: Better) -> Self {
        Self {
            metric,
            params,
            title: title.to_owned(),
            unit,
            better,
            value: None,
            visit: String::new(),
            derived_from: Vec::new(),
            samples: None,
            summary: None,
            prediction: None,
            no_model: None,
            agreement: None,
            verdict: Verdict::default(),
            checks: BTreeMap::new(),
            disturbance: Disturbance::default(),
            facts: Vec::new(),
            series: Vec::new(),
            notes: Vec::new(),
            checksum: String::new(),
        }
    }

    /// `os.syscall{call=getppid}`.
    pub fn name(&self) -> String {
        format!("{}{}", self.metric, self.params)
    }

    /// The checksum this record should carry.
    ///
    /// # Panics
    /// Never in practice: a record is plain data and always has a JSON form.
    pub fn expected_checksum(&self) -> String {
        let bare = Self { samples: None, checksum: String::new(), ..self.clone() };
        let text = serde_json::to_vec(&bare).expect("a record is plain data");
        format!("{:08x}", crc32fast::hash(&text))
    }

    /// The same with the estimate as found for its headline.
    #[must_use]
    pub fn as_found(mut self) -> Self {
        self.summary = self.summary.map(|summary| summary.as_found());
        self
    }

    /// The number that may be shown of it, as the headline of a protocol.
    pub fn number(&self, protocol: Protocol) -> Option<f64> {
        let summary = self.summary.as_ref().filter(|_| self.verdict.shows_number())?;
        let number = match (protocol, &summary.trimmed) {
            (Protocol::Trimmed, Some(trimmed)) => trimmed.mean,
            _ => summary.median,
        };
        (summary.bound.is_none() && self.unit.takes(number)).then_some(number)
    }

    /// The same record with its headline, by the usual protocol, and its checksum set.
    #[must_use]
    pub fn sealed(self) -> Self {
        self.sealed_by(Protocol::Median)
    }

    /// The same record with its headline by a protocol, and its checksum set.
    #[must_use]
    pub fn sealed_by(mut self, protocol: Protocol) -> Self {
        if !matches!(self.value, Some(Value::Text(_))) {
            self.value = self.number(protocol).map(Value::Number);
        }
        self.checksum = self.expected_checksum();
        self
    }

    /// Whether the checksum still fits the content.
    pub fn is_intact(&self) -> bool {
        self.checksum == self.expected_checksum()
    }
}
