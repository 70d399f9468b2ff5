//! Comparison of a run with published reference figures.
//!
//! A published figure has no processes, and so no interval, at most a standard deviation. The
//! comparison gives both predictions, both measurements and their ratio, but no significance,
//! because machine and protocol differ.

mod beneath;
mod study;

pub use beneath::Beneath;
pub use study::{Figure, Published, Reference, all, find};

use fathom_record::{Document, Params, Record, State};
use serde::Serialize;

use crate::display_value::DisplayValue;

/// A run compared with a study.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Beside {
    pub reference: String,
    pub title: String,
    pub machine: String,
    pub protocol: String,
    pub note: Option<String>,
    pub run: String,
    pub started: String,
    pub host: String,
    pub cpu: String,
    /// The figures in the order of the study, once for each case of the run with the same work.
    pub rows: Vec<Row>,
}

/// A published figure, and that of the run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
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
    pub params: Params,
    /// Lower and upper limit.
    pub predicted: [Option<f64>; 2],
    pub measured: f64,
    pub interval: Option<[f64; 2]>,
    pub state: State,
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
    /// The record of the case is invalid, unavailable or failed.
    NoNumber(String),
    OtherUnit(String),
}

/// Compares a run with a study.
pub fn beside(reference: &Reference, document: &Document) -> Beside {
    let row = |published: &Published| rows(published, reference, document);
    let Reference { name, title, machine, protocol, note, .. } = reference.clone();
    Beside {
        reference: name,
        title,
        machine,
        protocol,
        note,
        run: document.run.id.clone(),
        started: document.run.started.clone(),
        host: document.host.name.clone(),
        cpu: document.host.cpu.model.clone(),
        rows: reference.record.iter().flat_map(row).collect(),
    }
}

/// The rows of one figure, at least one.
fn rows(published: &Published, reference: &Reference, document: &Document) -> Vec<Row> {
    let row = |here: Result<Here, Missing>| {
        let (here, missing) = match here {
            Ok(here) => (Some(here), None),
            Err(why) => (None, Some(why)),
        };
        let ratio = here.as_ref().zip(published.measured.number());
        let ratio = ratio.map(|(here, theirs)| here.measured / theirs);
        Row { published: published.clone(), here, missing, ratio }
    };
    if let Some(why) = &published.unlike {
        return vec![row(Err(Missing::Unlike(why.clone())))];
    }
    if reference.not_measured.contains(&published.metric) {
        return vec![row(Err(Missing::NotMeasured))];
    }
    let like = document.records.iter().filter(|it| published.is_like(&it.metric, &it.params));
    let rows: Vec<Row> = like.map(|record| row(here(published, record, document))).collect();
    if rows.is_empty() { vec![row(Err(Missing::NotInRun))] } else { rows }
}

fn here(published: &Published, record: &Record, document: &Document) -> Result<Here, Missing> {
    let state = record.verdict.state;
    if record.unit != published.unit {
        let (theirs, ours) = (published.unit.symbol(), record.unit.symbol());
        return Err(Missing::OtherUnit(format!("{theirs} published, {ours} here")));
    }
    let measured = DisplayValue::of(record, document.run.protocol).number();
    let measured = measured.ok_or_else(|| {
        let why = if record.verdict.shows_number() { "no number" } else { state.word() };
        Missing::NoNumber(why.to_owned())
    })?;
    let prediction = record.prediction.as_ref();
    Ok(Here {
        params: record.params.clone(),
        predicted: [prediction.and_then(|one| one.low), prediction.and_then(|one| one.high)],
        measured,
        interval: record.summary.as_ref().and_then(|summary| summary.limits()),
        state,
    })
}
