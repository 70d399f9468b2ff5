//! The difference of a modelled number by the terms of its model.

use fathom_analysis::compare::{Compared, Split, SplitTerm};
use fathom_record::quantity::{quantity_rounded, signed_percent};

use crate::wrap::{glued, wrapped};

/// A part is printed in two figures, as if it were uncertain by this share.
const FIGURES_OF: f64 = 0.1;
const WIDTH: usize = 9;
/// Terms named; the others are added up.
const TERMS: usize = 3;

/// `+41 µs: os.thread.create +33 µs (+21 %), unexplained +8 ± 9 µs`; empty without a model.
pub(super) fn line(row: &Compared, width: usize) -> String {
    let Some(Split { difference, terms, unexplained, error }) = &row.split else {
        return String::new();
    };
    let short = |value: f64| quantity_rounded(value.abs(), FIGURES_OF, row.unit, WIDTH);
    let signed = |value: f64| {
        let sign = if value < 0.0 { '−' } else { '+' };
        glued(&format!("{sign}{}", short(value)))
    };
    let term = |it: &SplitTerm| {
        let change = glued(&format!("({})", signed_percent(it.ratio)));
        format!("{} {} {change}", it.name, signed(it.difference))
    };
    let (named, others) = terms.split_at(terms.len().min(TERMS));
    let mut parts: Vec<String> = named.iter().map(term).collect();
    if !others.is_empty() {
        let rest = others.iter().map(|it| it.difference).sum();
        parts.push(format!("{} more terms {}", others.len(), signed(rest)));
    }
    let error = glued(&format!("± {}", short(*error)));
    parts.push(format!("unexplained {} {error}", signed(*unexplained)));
    wrapped(&format!("{}: {}", signed(*difference), parts.join(", ")), width, "    ", "      ")
}
