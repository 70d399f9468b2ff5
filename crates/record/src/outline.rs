//! A run in short: what a series over many runs needs of each, and no more.
//!
//! A thousand runs are a million numbers. A history shows one of each record, and so does the noise
//! between runs; all else in a record is skipped when an outline is read.

use std::sync::Arc;

use serde::{Deserialize, Deserializer};

use crate::{Better, Cause, Document, MetricId, Params, Record, State, Unit};

/// A run with the headlines of its records in the place of the records.
#[derive(Clone, Debug, PartialEq)]
pub struct Outline {
    /// The run, its machine and its program, without records.
    pub document: Document,
    /// One of each record.
    pub headlines: Vec<Headline>,
}

/// The number of a record.
#[derive(Clone, Debug, PartialEq)]
pub struct Headline {
    /// What was measured.
    pub metric: MetricId,
    /// With which parameters: in all runs the same few, which then need not be made for each.
    pub params: Arc<Params>,
    /// The unit of the value.
    pub unit: Unit,
    /// Which direction is an improvement.
    pub better: Better,
    /// Whether it can be believed.
    pub state: State,
    /// The median; absent where there is no number to be shown.
    pub value: Option<f64>,
    /// Its interval; absent where the value is.
    pub interval: Option<[f64; 2]>,
    /// What the value is at most, where no more is known.
    pub bound: Option<f64>,
    /// Whether the run was stopped before all processes of it were done.
    pub cut_short: bool,
}

impl From<&Document> for Outline {
    fn from(document: &Document) -> Self {
        let headlines = document.records.iter().map(Headline::from).collect();
        let (tool, run, host) =
            (document.tool.clone(), document.run.clone(), document.host.clone());
        let document = Document { schema: document.schema, tool, run, host, records: Vec::new() };
        Self { document, headlines }
    }
}

impl From<&Record> for Headline {
    fn from(record: &Record) -> Self {
        let numbers = record.summary.as_ref().map(|summary| Numbers {
            median: summary.median,
            ci95: summary.ci95,
            bound: summary.bound,
        });
        let causes = record.verdict.reasons.iter().map(|reason| Caused { cause: reason.cause });
        let read = Read {
            unit: record.unit,
            better: record.better,
            summary: numbers,
            verdict: Judged { state: record.verdict.state, reasons: causes.collect() },
        };
        read.into_headline(record.metric.clone(), Arc::new(record.params.clone()))
    }
}

/// The fields of a record that an outline reads, without its name.
#[derive(Deserialize)]
struct Read {
    unit: Unit,
    better: Better,
    summary: Option<Numbers>,
    verdict: Judged,
}

#[derive(Deserialize)]
struct Numbers {
    median: f64,
    ci95: Option<[f64; 2]>,
    bound: Option<f64>,
}

#[derive(Deserialize)]
struct Judged {
    state: State,
    reasons: Vec<Caused>,
}

#[derive(Deserialize)]
struct Caused {
    cause: Cause,
}

impl Read {
    fn into_headline(self, metric: MetricId, params: Arc<Params>) -> Headline {
        let Self { unit, better, summary, verdict } = self;
        let summary = summary.filter(|_| verdict.state.shows_number());
        let bound = summary.as_ref().and_then(|summary| summary.bound);
        let number = summary.filter(|it| bound.is_none() && unit.takes(it.median));
        Headline {
            metric,
            params,
            unit,
            better,
            state: verdict.state,
            value: number.as_ref().map(|number| number.median),
            interval: number.and_then(|number| number.ci95),
            bound,
            cut_short: verdict.reasons.iter().any(|one| one.cause == Cause::Interrupted),
        }
    }
}

impl Headline {
    /// The headline of a record that is read, whose name is known already.
    ///
    /// # Errors
    /// Where it is no record.
    pub fn read<'de, D: Deserializer<'de>>(
        deserializer: D,
        metric: MetricId,
        params: Arc<Params>,
    ) -> Result<Self, D::Error> {
        Ok(Read::deserialize(deserializer)?.into_headline(metric, params))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Summary, Verdict};

    #[test]
    fn the_headline_in_a_text_is_that_of_its_record() {
        let (id, params) = (MetricId::new("os.syscall"), Params::one("call", "stat"));
        let mut record = Record::new(id, params, "call", Unit::Nanoseconds, Better::Lower);
        let summary = Summary { median: 1.5, ci95: Some([1.0, 2.0]), ..Summary::default() };
        let read = |record: &Record| -> Headline {
            let text = serde_json::to_string(record).expect("JSON");
            let params = Arc::new(record.params.clone());
            let mut text = serde_json::Deserializer::from_str(&text);
            Headline::read(&mut text, record.metric.clone(), params).expect("a headline")
        };
        assert_eq!(read(&record), Headline::from(&record), "without a summary");
        record.summary = Some(summary);
        assert_eq!(read(&record), Headline::from(&record));
        assert_eq!(read(&record).value, Some(1.5));
        record.verdict = Verdict::because(State::Noisy, Cause::Interrupted, "after 2 of 5");
        assert_eq!(read(&record), Headline::from(&record));
        assert!(read(&record).cut_short);
        for (median, bound) in [(1.5, Some(2.5)), (-0.5, Some(0.5)), (-0.5, None), (0.0, None)] {
            let summary = record.summary.as_mut().expect("a summary");
            (summary.median, summary.bound) = (median, bound);
            let headline = read(&record);
            assert_eq!(headline, Headline::from(&record));
            assert_eq!((headline.value, headline.interval), (None, None), "{median}");
            assert_eq!(headline.bound, bound);
        }
        record.summary.as_mut().expect("a summary").bound = Some(2.5);
        record.verdict = Verdict::because(State::Invalid, Cause::WrongWork, "wrong");
        assert_eq!(read(&record), Headline::from(&record));
        let headline = read(&record);
        assert_eq!((headline.value, headline.bound), (None, None), "it must not be believed");
        assert!(!headline.cut_short);
    }
}
