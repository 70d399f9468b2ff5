//! Why cases that both runs have cannot be compared, in the words that are serialised.

use std::collections::{BTreeMap, BTreeSet};

use fathom_record::quantity::at_most;
use fathom_record::{Better, MetricId, Params, Protocol, Record};

use super::CompareKey;
use super::comparison::NotComparable;
use super::identity::{other_benchmark, other_case};
use crate::display_value::DisplayValue;

/// Why two records of one case cannot be compared; nothing where they can.
pub(super) fn obstacle(a: &Record, b: &Record) -> Option<String> {
    let no_number = both_sides(a, b, |record| {
        let verdict = &record.verdict;
        (!verdict.shows_number()).then(|| verdict.state.word().to_owned())
    });
    let emulated =
        || both_sides(a, b, |one| one.verdict.is_emulated().then(|| "CPU emulated".to_owned()));
    let units = || {
        let (of_a, of_b) = (a.unit.symbol(), b.unit.symbol());
        (a.unit != b.unit).then(|| format!("{of_a} in A, {of_b} in B"))
    };
    let better = || {
        let [of_a, of_b] = [a, b].map(|one| match one.better {
            Better::Lower => "lower is better",
            Better::Higher => "higher is better",
            Better::Neither => "neither direction is better",
        });
        (a.better != b.better).then(|| format!("{of_a} in A, {of_b} in B"))
    };
    let no_quantity = || {
        both_sides(a, b, |record| match DisplayValue::from_record(record, Protocol::Median) {
            DisplayValue::Number(_) | DisplayValue::Edge(_) => None,
            DisplayValue::Bound(bound) => Some(format!("only {}", at_most(bound, record.unit))),
            DisplayValue::Text(text) => Some(format!("no quantity, {text},")),
            DisplayValue::Withheld => Some("no value".to_owned()),
        })
    };
    no_number
        .or_else(|| other_benchmark(a, b))
        .or_else(|| other_case(a, b))
        .or_else(emulated)
        .or_else(units)
        .or_else(better)
        .or_else(no_quantity)
}

/// `invalid in A, failed in B`, from what is wrong with one record.
fn both_sides(a: &Record, b: &Record, wrong: impl Fn(&Record) -> Option<String>) -> Option<String> {
    match (wrong(a), wrong(b)) {
        (None, None) => None,
        (Some(a), None) => Some(format!("{a} in A")),
        (None, Some(b)) => Some(format!("{b} in B")),
        (Some(a), Some(b)) if a == b => Some(format!("{a} in both")),
        (Some(a), Some(b)) => Some(format!("{a} in A, {b} in B")),
    }
}

/// Metrics of both sides whose cases have parameters of other names on each: what the parameters
/// mean has changed, and no case of one side is one of the other.
pub(super) fn other_parameters<'a>(
    keys_a: impl Iterator<Item = &'a CompareKey<'a>>,
    keys_b: impl Iterator<Item = &'a CompareKey<'a>>,
) -> Vec<NotComparable> {
    let (a, b) = (parameter_names(keys_a), parameter_names(keys_b));
    let differ = |(metric, in_a): (&&MetricId, &BTreeSet<String>)| {
        let in_b = b.get(metric).filter(|in_b| in_a.is_disjoint(in_b))?;
        let listed = |names: &BTreeSet<String>| {
            names.iter().map(String::as_str).collect::<Vec<&str>>().join(" or ")
        };
        Some(NotComparable {
            metric: (**metric).clone(),
            params: Params::none(),
            reason: format!("its parameters are {} in A, {} in B", listed(in_a), listed(in_b)),
        })
    };
    a.iter().filter_map(differ).collect()
}

/// The names of parameters that the cases of each metric have, `{page, set_bytes}`.
fn parameter_names<'a>(
    cases: impl Iterator<Item = &'a CompareKey<'a>>,
) -> BTreeMap<&'a MetricId, BTreeSet<String>> {
    let mut names: BTreeMap<&MetricId, BTreeSet<String>> = BTreeMap::new();
    for (metric, params, _) in cases {
        let of_case: Vec<&str> = params.0.keys().map(String::as_str).collect();
        names.entry(metric).or_default().insert(format!("{{{}}}", of_case.join(", ")));
    }
    names
}
