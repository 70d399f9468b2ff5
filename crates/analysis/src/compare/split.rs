//! A difference of a modelled number, split over the terms of its model (METHOD 27c): each by how
//! much its input changed. The rest is unexplained, and always there.

use std::collections::BTreeMap;

use fathom_record::{Document, Record, Unit};

use super::comparison::{Compared, Split, SplitTerm};

/// Sets the split of each row whose model in A has parts, of inputs that were compared.
pub(super) fn set(rows: &mut [Compared], a: &Document) {
    let models: BTreeMap<String, &Record> =
        a.records.iter().map(|record| (record.name(), record)).collect();
    let inputs: BTreeMap<String, (f64, f64)> = rows
        .iter()
        .filter_map(|row| {
            let ([low, high], ratio) = (row.interval?, row.ratio?);
            let rate = matches!(row.unit, Unit::BytesPerSecond | Unit::PerSecond | Unit::Hertz);
            let ratio = if rate { 1.0 / ratio } else { ratio };
            let half = (high / low).ln() / 2.0;
            (ratio.is_finite() && half.is_finite()).then(|| (name(row), (ratio, half)))
        })
        .collect();
    for row in rows.iter_mut().filter(|row| row.unit == Unit::Nanoseconds) {
        let model = models.get(&name(row)).copied();
        row.split = model.and_then(|record| split(row, record, &inputs));
    }
}

fn name(row: &Compared) -> String {
    format!("{}{}", row.metric, row.params)
}

fn split(row: &Compared, record: &Record, inputs: &BTreeMap<String, (f64, f64)>) -> Option<Split> {
    let parts = record.prediction.as_ref()?.inputs.iter();
    let parts = parts.filter_map(|input| Some((input.name.as_str(), input.part?)));
    let mut terms = Vec::new();
    for (name, part) in parts {
        // Without one of its inputs a sum does not close.
        let (ratio, half) = *inputs.get(name)?;
        let (difference, error) = (part * (ratio - 1.0), (part * ratio * half).abs());
        terms.push(SplitTerm { name: name.to_owned(), difference, error, ratio });
    }
    let [low, high] = row.interval?;
    let own = row.a * (high - low) / 2.0;
    let difference = row.b - row.a;
    let explained: f64 = terms.iter().map(|it| it.difference).sum();
    let error = terms.iter().map(|it| it.error).fold(own, f64::hypot);
    terms.sort_by(|a, b| b.difference.abs().total_cmp(&a.difference.abs()));
    let split = Split { difference, terms, unexplained: difference - explained, error };
    (!split.terms.is_empty()).then_some(split)
}
