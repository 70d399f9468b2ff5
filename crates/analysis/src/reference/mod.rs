//! A run beside figures that somebody published.
//!
//! A published figure has no processes, and so no interval: at most a deviation stands beside it.
//! What is given is both predictions, both measurements, and the ratio of ours to theirs; never a
//! word of significance, since another machine, another time and another protocol lie between.

mod beneath;
mod study;

pub use beneath::Beneath;
pub use study::{Figure, Published, Reference, all, find};

use fathom_record::{Document, Params, Record, State};
use serde::Serialize;

use crate::shown::Shown;

/// A run beside a study.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Beside {
    pub reference: String,
    pub title: String,
    pub machine: String,
    pub protocol: String,
    /// What else a reader should know.
    pub note: Option<String>,
    pub run: String,
    pub started: String,
    /// The name of its host.
    pub host: String,
    pub cpu: String,
    /// The figures of the study in their order, each once for each case of ours that it is like.
    pub rows: Vec<Row>,
}

/// A published figure, and ours where there is one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    pub published: Published,
    /// As it is in the run.
    pub here: Option<Here>,
    /// Why it is not there.
    pub missing: Option<Missing>,
    /// Ours ÷ the published one.
    pub ratio: Option<f64>,
}

/// A figure of the run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Here {
    /// All parameters of the case.
    pub params: Params,
    /// What it should be: from, to.
    pub predicted: [Option<f64>; 2],
    pub measured: f64,
    pub interval: Option<[f64; 2]>,
    pub state: State,
}

/// Why a published figure has none of ours beside it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Missing {
    /// This version has no such metric.
    NotMeasured,
    /// What was published is other work.
    Unlike(String),
    /// The run has no such case.
    NotInRun,
    /// It has, and its number must not be shown: invalid, failed …
    NoNumber(String),
    OtherUnit(String),
}

/// Lays a run beside a study.
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

/// The rows of one figure: one at least.
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
    let measured = Shown::of(record, document.run.protocol).number();
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
