//! Published figures for the charts of the HTML report.

use fathom_record::{Document, MetricId, Params, Unit};
use serde::Serialize;

use super::study::{Published, StudyFigure, StudyReference};

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Beneath<'a> {
    name: &'a str,
    title: &'a str,
    machine: &'a str,
    protocol: &'a str,
    note: Option<&'a str>,
    /// Figures of metrics of this version with the same work.
    figures: Vec<Laid<'a>>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Laid<'a> {
    metric: &'a MetricId,
    params: &'a Params,
    unit: Unit,
    measured: &'a StudyFigure,
    predicted: Option<&'a StudyFigure>,
    sd_percent: Option<f64>,
    protocol: Option<&'a str>,
    /// For each run, the indices of its records with the same work.
    like: Vec<Vec<usize>>,
}

impl<'a> Beneath<'a> {
    /// Assigns the figures of a study to the cases of runs, as `beside` does.
    pub fn from_reference(reference: &'a StudyReference, documents: &[Document]) -> Self {
        let ours = |published: &&Published| {
            published.unlike.is_none() && !reference.not_measured.contains(&published.metric)
        };
        let figures = reference.record.iter().filter(ours);
        Self {
            name: &reference.name,
            title: &reference.title,
            machine: &reference.machine,
            protocol: &reference.protocol,
            note: reference.note.as_deref(),
            figures: figures.map(|published| laid(published, documents)).collect(),
        }
    }

    /// Whether a run has a metric of the study.
    pub fn touches(&self, documents: &[Document]) -> bool {
        let mut records = documents.iter().flat_map(|document| &document.records);
        records.any(|record| self.figures.iter().any(|figure| *figure.metric == record.metric))
    }
}

fn laid<'a>(published: &'a Published, documents: &[Document]) -> Laid<'a> {
    let like = |document: &Document| -> Vec<usize> {
        let records = document.records.iter().enumerate();
        let like = records.filter(|(_, record)| {
            record.unit == published.unit
                && !record.verdict.is_emulated()
                && published.is_like(&record.metric, &record.params)
        });
        like.map(|(at, _)| at).collect()
    };
    Laid {
        metric: &published.metric,
        params: &published.params,
        unit: published.unit,
        measured: &published.measured,
        predicted: published.predicted.as_ref(),
        sd_percent: published.sd_percent,
        protocol: published.protocol.as_deref(),
        like: documents.iter().map(like).collect(),
    }
}
