//! Synthetic runs.

use fathom_analysis::compare::{Comparison, Noise, compare, compare_to_all};
use fathom_record::{Better, Document, MetricId, Params, Record, Summary, Unit};

/// A run as it was recorded.
pub(crate) fn recorded() -> Document {
    let whole = include_str!("../../../../store/tests/golden/document.json");
    serde_json::from_str(whole).expect("a document")
}

/// A run without records.
pub(crate) fn bare(number: usize) -> Document {
    let mut run = recorded();
    run.run.id = format!("{number:016x}");
    run.records.clear();
    run
}

/// A record of `count` processes evenly within ± 0.3 % of `median`.
pub(crate) fn record(metric: &str, unit: Unit, median: f64, count: usize) -> Record {
    let better = match unit {
        Unit::Nanoseconds => Better::Lower,
        Unit::BytesPerSecond | Unit::PerSecond => Better::Higher,
        Unit::Bytes | Unit::Hertz | Unit::Ratio => Better::Neither,
    };
    let place = |i: usize| (i as f64 / (count - 1) as f64 - 0.5) * 0.006;
    let mut record = Record::new(MetricId::new(metric), Params::none(), "", unit, better);
    record.summary = Some(Summary {
        median,
        process_medians: (0..count).map(|i| median * (1.0 + place(i))).collect(),
        ..Summary::default()
    });
    record
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
