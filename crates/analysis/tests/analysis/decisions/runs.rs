//! Synthetic runs.

use fathom_analysis::compare::{Comparison, Noise, compare, compare_to_all};
use fathom_record::{Document, Record, Summary, Unit};

/// A run without records.
pub(crate) fn bare(number: usize) -> Document {
    let mut run = Document::fixture();
    run.run.id = format!("{number:016x}");
    run.records.clear();
    run
}

/// A record of `count` processes evenly within ± 0.3 % of `median`.
pub(crate) fn record(metric: &str, unit: Unit, median: f64, count: usize) -> Record {
    Record::fixture(metric, unit).of_processes(median, 0.003, count)
}

/// A run with one record of `count` processes around `median`.
pub(crate) fn run(number: usize, median: f64, count: usize) -> Document {
    let records = vec![record("x", Unit::Nanoseconds, median, count)];
    Document { records, ..bare(number) }
}

/// The summary of the first record of a run.
pub(crate) fn summary(run: &mut Document) -> &mut Summary {
    run.records[0].summary.as_mut().expect("it was measured")
}

pub(crate) fn comparison(a: &[&Document], b: &Document) -> Comparison {
    compare_to_all(a, b, &Noise::default(), 7)
}

/// A comparison of two runs with these records.
pub(crate) fn compared(a: Vec<Record>, b: Vec<Record>) -> Comparison {
    let (a, b) = (Document { records: a, ..bare(1) }, Document { records: b, ..bare(2) });
    compare(&a, &b, &Noise::default(), 7)
}
