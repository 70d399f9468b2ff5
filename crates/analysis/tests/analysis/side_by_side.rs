//! Few hosts side by side.

use fathom_analysis::side_by_side::side_by_side;
use fathom_record::{Cause, Document, Record, State, Unit, Verdict};

fn host(name: &str, ns: f64) -> Document {
    let mut run = Document::fixture();
    run.host.name = name.to_owned();
    run.host.id = Some(name.repeat(32));
    run.records = vec![Record::fixture("a.b", Unit::Nanoseconds).within(ns, 1.0)];
    run
}

fn best(runs: &[Document]) -> Option<usize> {
    let runs: Vec<&Document> = runs.iter().collect();
    side_by_side(&runs).rows[0].best
}

#[test]
fn best_is_apart_from_all_others() {
    let three = || [host("a", 100.0), host("b", 90.0), host("c", 95.0)];
    assert_eq!(best(&three()), Some(1));
    // The interval of one reaches that of the best.
    assert_eq!(best(&[host("a", 100.0), host("b", 90.0), host("c", 91.0)]), None);
    let mut rates = three();
    rates.iter_mut().for_each(|run| run.records[0].better = fathom_record::Better::Higher);
    assert_eq!(best(&rates), Some(0));
}

#[test]
fn noisy_number_leaves_it_open() {
    let mut runs = [host("a", 100.0), host("b", 90.0), host("c", 95.0)];
    runs[2].records[0].verdict = Verdict::because(State::Noisy, Cause::Spread, "why");
    assert_eq!(best(&runs), None, "the noisy one may be better");
    runs[2].records.clear();
    assert_eq!(best(&runs), Some(1), "of those that have it");
}
