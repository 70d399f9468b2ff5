//! Histories of generated runs.

use fathom_analysis::history::{self as decided, History};
use fathom_record::{Better, Cause, Document, Outline, Params, Record, State, Unit, Verdict};
use fathom_report::history::render;

use super::assert_titled;
use super::fixture::{self, assert_fits, layout, measured, plain};

fn document(number: usize, kernel: &str, value: f64) -> Document {
    let mut document = fixture::document();
    document.run.id = format!("{number:016x}");
    document.run.started = format!("2026-03-{:02}T12:00:00Z", number % 28 + 1);
    (document.host.name, document.host.kernel) = ("here".to_owned(), kernel.to_owned());
    let call = |name: &str, times: f64| {
        let params = Params::one("call", name);
        measured("os.syscall", params, Unit::Nanoseconds, value * times, 0.01)
    };
    document.records = vec![call("getppid", 1.0), call("stat", 4.0)];
    for record in &mut document.records {
        record.better = Better::Lower;
        record.verdict.state = State::Valid;
    }
    document
}

/// Ten runs with one kernel, and ten that are 10 % slower with the next.
fn stepped() -> Vec<Document> {
    let wobble = |number: usize| ((number * 7) % 5) as f64 * 0.2;
    let one = |number: usize| match number {
        0..10 => document(number, "6.1", 100.0 + wobble(number)),
        _ => document(number, "6.18", 110.0 + wobble(number)),
    };
    (0..20).map(one).collect()
}

fn history(documents: &[Document], selects: &dyn Fn(&Params) -> bool) -> History {
    let runs: Vec<Outline> = documents.iter().map(Outline::from).collect();
    decided::history("os.syscall", "here", &runs, selects)
}

fn all(_: &Params) -> bool {
    true
}

#[test]
fn single_case_lists_its_values_within_the_width() {
    let stat = |params: &Params| params.text("call") == Some("stat");
    let history = history(&stepped(), &stat);
    for width in [60, 80, 100, 140] {
        let text = plain(&render(std::slice::from_ref(&history), &layout(width)));
        let values = text.lines().filter(|line| line.starts_with("    2026-03-"));
        assert_eq!(values.count(), 20, "{text}");
        assert_fits(&text, width);
    }
}

/// The history of one case over runs that `change` modifies by number.
fn changed(runs: usize, change: fn(usize, &mut Document)) -> History {
    let mut documents: Vec<Document> =
        (0..runs).map(|number| document(number, "6.1", 100.0)).collect();
    for (number, document) in documents.iter_mut().enumerate() {
        document.records.truncate(1);
        change(number, document);
    }
    history(&documents, &all)
}

fn bound(number: usize, document: &mut Document) {
    let summary = document.records[0].summary.as_mut().expect("a summary");
    (summary.median, summary.bound) = (if number < 6 { -0.5 } else { 2600.0 }, Some(2600.0));
}

fn noisy_and_cut_short(number: usize, document: &mut Document) {
    let verdict = &mut document.records[0].verdict;
    match number {
        5 => verdict.state = State::Noisy,
        6 => *verdict = Verdict::because(State::Noisy, Cause::Interrupted, "2 of 5"),
        _ => {}
    }
}

/// Of the first case three of seven values are at full speed, of the other all.
fn strata(number: usize, document: &mut Document) {
    let record = document.records[0].clone().selected(9, 120.0);
    document.records.push(Record { params: Params::one("call", "stat"), ..record.clone() });
    if number < 3 {
        document.records[0] = record;
    }
}

fn full_speed(_: usize, document: &mut Document) {
    document.records[0] = document.records[0].clone().selected(9, 120.0);
}

#[test]
fn histories_have_their_remarks() {
    let same = |runs| changed(runs, |_, _| {});
    let histories = [
        ("a change in two cases", vec![history(&stepped(), &all)]),
        ("no run", vec![history(&[], &all)]),
        ("no run with these cases", vec![history(&stepped(), &|_| false)]),
        ("one run", vec![same(1)]),
        ("five runs", vec![same(5)]),
        ("six runs, twice", vec![same(6), same(6)]),
        ("bounds", vec![changed(12, bound)]),
        ("noisy and cut short", vec![changed(7, noisy_and_cut_short)]),
        ("values of two strata", vec![changed(7, strata)]),
        ("undisturbed values", vec![changed(7, full_speed)]),
    ];
    let text = histories.map(|(title, of)| (title, plain(&render(&of, &layout(100)))));
    assert_titled("histories.txt", &text);
}
