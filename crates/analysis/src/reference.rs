//! Comparison of runs with published reference figures.
//!
//! A published figure has no processes, and so no interval, at most a standard deviation. The
//! comparison gives both predictions, both measurements and their ratio, but no significance,
//! because machine and protocol differ.

mod beneath;
mod study;

pub use beneath::Beneath;
pub use study::{CLASSIC, Published, StudyFigure, StudyReference, all, find};

use fathom_record::{Cause, Document, Params, Protocol, Record, State};
use serde::Serialize;

use crate::display_value::DisplayValue;

/// Runs compared with a study.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Beside {
    pub reference: String,
    pub title: String,
    pub machine: String,
    pub protocol: String,
    pub note: Option<String>,
    /// The runs, in the order given.
    pub runs: Vec<RunBeside>,
    /// The figures in the order of the study, each from the first run with a number for it, once
    /// for each case of that run with the same work.
    pub rows: Vec<ReferenceRow>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunBeside {
    pub id: String,
    pub started: String,
    pub host: String,
    pub cpu: String,
    /// What `measured` and `sd_percent` of its rows are: of the kept trials with `trimmed`.
    pub run_protocol: Protocol,
}

/// A published figure, and that of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReferenceRow {
    pub published: Published,
    pub here: Option<Here>,
    /// Why `here` is absent.
    pub missing: Option<Missing>,
    /// Run ÷ published.
    pub ratio: Option<f64>,
}

/// A figure of the run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Here {
    /// The id of the run.
    pub run: String,
    pub params: Params,
    /// By documented constants and facts of the host.
    pub hardware: Option<f64>,
    /// The predicted value, if it rests on other results.
    pub from_results: Option<f64>,
    /// Lower and upper limit.
    pub predicted: [Option<f64>; 2],
    pub measured: f64,
    /// Whether `measured` is only an upper bound.
    pub is_bound: bool,
    pub interval: Option<[f64; 2]>,
    /// Standard deviation in per cent of the mean: of the kept trials with the trimmed protocol,
    /// else of all values.
    pub sd_percent: Option<f64>,
    pub state: State,
    /// Whether it includes disturbed processes.
    pub is_unfiltered: bool,
}

/// Why there is no figure of the run for a published one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Missing {
    /// This version has no such metric.
    NotMeasured,
    /// The published work differs.
    Unlike(String),
    /// The run has no such case.
    NotInRun,
    /// The record of the case is invalid, or failed.
    NoNumber(String),
    /// What it needs is not there: measuring it again would not help.
    Unavailable(String),
    OtherUnit(String),
}

/// Compares runs with a study.
pub fn beside(reference: &StudyReference, documents: &[Document]) -> Beside {
    let row = |published: &Published| rows(published, reference, documents);
    let StudyReference { name, title, machine, protocol, note, .. } = reference.clone();
    let run = |document: &Document| RunBeside {
        id: document.run.id.clone(),
        started: document.run.started.clone(),
        host: document.host.name.clone(),
        cpu: document.host.cpu.model.clone(),
        run_protocol: document.run.protocol,
    };
    Beside {
        reference: name,
        title,
        machine,
        protocol,
        note,
        runs: documents.iter().map(run).collect(),
        rows: reference.record.iter().flat_map(row).collect(),
    }
}

/// The rows of one figure, at least one.
fn rows(
    published: &Published,
    reference: &StudyReference,
    documents: &[Document],
) -> Vec<ReferenceRow> {
    let row = |here: Result<Here, Missing>| {
        let (here, missing) = match here {
            Ok(here) => (Some(here), None),
            Err(why) => (None, Some(why)),
        };
        let exact = here.as_ref().filter(|here| !here.is_bound).zip(published.measured.number());
        let ratio = exact.map(|(here, theirs)| here.measured / theirs);
        ReferenceRow { published: published.clone(), here, missing, ratio }
    };
    if let Some(why) = &published.unlike {
        return vec![row(Err(Missing::Unlike(why.clone())))];
    }
    if reference.not_measured.contains(&published.metric) {
        return vec![row(Err(Missing::NotMeasured))];
    }
    let of_run = |document: &Document| -> Vec<ReferenceRow> {
        let like = document.records.iter().filter(|it| published.is_like(&it.metric, &it.params));
        like.map(|record| row(here(published, record, document))).collect()
    };
    let all: Vec<Vec<ReferenceRow>> =
        documents.iter().map(of_run).filter(|rows| !rows.is_empty()).collect();
    let first = all.iter().position(|rows| rows.iter().any(|row| row.here.is_some()));
    all.into_iter().nth(first.unwrap_or(0)).unwrap_or_else(|| vec![row(Err(Missing::NotInRun))])
}

fn here(published: &Published, record: &Record, document: &Document) -> Result<Here, Missing> {
    let (state, protocol) = (record.verdict.state, document.run.protocol);
    if record.unit != published.unit {
        let (theirs, ours) = (published.unit.symbol(), record.unit.symbol());
        return Err(Missing::OtherUnit(format!("{theirs} published, {ours} here")));
    }
    if record.verdict.is_emulated() {
        return Err(Missing::NoNumber("emulated".to_owned()));
    }
    let (measured, is_bound) = match DisplayValue::from_record(record, protocol) {
        DisplayValue::Number(number) | DisplayValue::Edge([number, _]) => (number, false),
        DisplayValue::Bound(bound) => (bound, true),
        DisplayValue::Text(_) | DisplayValue::Withheld => {
            let reason = record.verdict.reasons.first().filter(|reason| !reason.text.is_empty());
            let why = match reason {
                _ if record.verdict.shows_number() => "no number".to_owned(),
                Some(reason) => format!("{}: {}", state.word(), reason.text),
                None => state.word().to_owned(),
            };
            // An input can be measured again, what the machine lacks cannot.
            let lacks_input = reason.is_some_and(|reason| reason.cause == Cause::MissingInput);
            return Err(match state {
                State::Unavailable if !lacks_input => Missing::Unavailable(why),
                _ => Missing::NoNumber(why),
            });
        }
    };
    let prediction = record.prediction.as_ref();
    let of = |value: fn(&fathom_record::Prediction) -> Option<f64>| prediction.and_then(value);
    let predicted = match [of(|one| one.low), of(|one| one.high)] {
        // It says nothing beside the number.
        _ if record.is_loosely_bound() => [None; 2],
        [None, None] => [of(|one| one.value); 2],
        limits => limits,
    };
    Ok(Here {
        run: document.run.id.clone(),
        params: record.params.clone(),
        hardware: of(fathom_record::Prediction::documented_hardware),
        from_results: of(fathom_record::Prediction::from_results),
        predicted,
        measured,
        is_bound,
        interval: record.summary.as_ref().and_then(|summary| summary.limits()),
        sd_percent: sd_percent(record, protocol).filter(|_| !is_bound),
        state,
        is_unfiltered: record.summary.as_ref().is_some_and(|it| it.not_selected.is_some()),
    })
}

fn sd_percent(record: &Record, protocol: Protocol) -> Option<f64> {
    let summary = record.summary.as_ref()?;
    let (n, sd, mean) = match (protocol, &summary.trimmed) {
        (Protocol::Trimmed, Some(trimmed)) => (trimmed.n, trimmed.sd, trimmed.mean),
        (Protocol::Trimmed, None) => return None,
        (Protocol::Median, _) => (summary.n, summary.sd, summary.mean),
    };
    // A single value may have a deviation by the way it was found.
    let stated = record.quantity_of("deviation").filter(|_| n == 1);
    let sd = stated.or(Some(sd).filter(|_| n > 1))?;
    (mean != 0.0).then(|| 100.0 * sd / mean.abs())
}
