//! Histories of generated runs.

use fathom_analysis::history::{self as decided, History};
use fathom_record::{
    Better, Cause, Document, Outline, Params, Record, State, Stratum, Unit, Verdict,
};
use fathom_report::Layout;
use fathom_report::history::render;

use super::fixture::{self, Build, measured, plain};

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
fn change_is_printed_with_what_else_changed() {
    let history = history(&stepped(), &all);
    let text = render(&[history], &Layout { width: 100, ..Layout::default() });
    assert!(text.contains("kernel 6.1 → 6.18") && text.contains("worse"), "{text}");
    assert!(text.contains("2 lasting changes"), "{text}");
}

#[test]
fn single_case_lists_its_values_within_the_width() {
    let stat = |params: &Params| params.text("call") == Some("stat");
    let history = history(&stepped(), &stat);
    for width in [60, 80, 100, 140] {
        let text = render(std::slice::from_ref(&history), &Layout { width, ..Layout::default() });
        let text = plain(&text);
        let values = text.lines().filter(|line| line.contains("2026-03-") && !line.contains('▸'));
        assert_eq!(values.count(), 20, "{text}");
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(width), "{widest:?} of {width}\n{text}");
    }
}

#[test]
fn empty_history_names_metric_and_host() {
    let text = render(&[history(&[], &all)], &Layout::default());
    assert_eq!(text.lines().count(), 1);
    assert!(text.starts_with("No stored run of ") && text.contains(" on "), "{text}");
}

/// The history of one case over runs that `change` modifies by number, and its text.
fn rendered(runs: usize, change: impl Fn(usize, &mut Document)) -> (History, String) {
    let mut documents: Vec<Document> =
        (0..runs).map(|number| document(number, "6.1", 100.0)).collect();
    for (number, document) in documents.iter_mut().enumerate() {
        document.records.truncate(1);
        change(number, document);
    }
    let history = history(&documents, &all);
    let layout = Layout { width: 140, ..Layout::default() };
    let text = plain(&render(std::slice::from_ref(&history), &layout));
    (history, text)
}

#[test]
fn bound_is_printed_as_a_bound() {
    let (_, text) = rendered(12, |number, document| {
        let summary = document.records[0].summary.as_mut().expect("a summary");
        (summary.median, summary.bound) = (if number < 6 { -0.5 } else { 2600.0 }, Some(2600.0));
    });
    assert_eq!(text.matches("≤ 2.6 µs").count(), 13, "{text}");
    assert!(text.contains("12 values are upper bounds") && !text.contains("missing"), "{text}");
}

#[test]
fn noisy_value_is_marked_and_interrupted_one_left_out() {
    let (_, text) = rendered(7, |number, document| {
        let verdict = &mut document.records[0].verdict;
        match number {
            5 => verdict.state = State::Noisy,
            6 => *verdict = Verdict::because(State::Noisy, Cause::Interrupted, "2 of 5"),
            _ => {}
        }
    });
    assert_eq!(text.matches("~100.0 ns").count(), 2, "newest value and its own line: {text}");
    assert!(text.contains("cut short  noisy") && text.contains("1 value of an interrupted"));
    assert!(text.contains("6 runs") && text.contains("No lasting change"), "{text}");
}

#[test]
fn few_runs_do_not_show_that_nothing_changed() {
    for runs in [1, 5] {
        let (_, text) = rendered(runs, |_, _| {});
        let expected = format!("Too few runs to detect a change ({runs} of at least 6)");
        assert!(text.contains(&expected) && !text.contains("No lasting"), "{text}");
    }
    assert!(rendered(6, |_, _| {}).1.contains("No lasting change"));
}

#[test]
fn criteria_for_a_change_are_printed_once() {
    let (one, _) = rendered(7, |_, _| {});
    let text = render(&[one.clone(), one], &Layout::default());
    assert_eq!(text.matches("A change is reported").count(), 1, "{text}");
    assert_eq!(text.matches("os.syscall on here").count(), 2, "{text}");
}

#[test]
fn history_without_the_selected_cases_says_so() {
    let history = history(&stepped(), &|_| false);
    let text = render(&[history], &Layout::default());
    assert!(text.contains("No stored run of os.syscall on here has these cases"), "{text}");
}

#[test]
fn strata_of_series_are_printed() {
    assert!(rendered(7, |_, _| {}).1.contains("All values are unfiltered."));
    let selected = |number: usize, document: &mut Document| {
        let record = document.records[0].clone().selected(9, 120.0);
        document.records.push(Record { params: Params::one("call", "stat"), ..record.clone() });
        if number < 3 {
            document.records[0] = record;
        }
    };
    let (history, text) = rendered(7, selected);
    let [mixed, whole] = history.series.as_slice() else { panic!("{history:?}") };
    assert_eq!((mixed.stratum, whole.stratum), (Stratum::AsFound, Stratum::FullSpeed));
    let (mixed, whole) = (text.find("°100.0 ns"), text.find(" 100.0 ns"));
    assert!(mixed.is_some() && whole.is_some(), "{text}");
    assert!(text.contains("°: unfiltered; others from undisturbed processes only."), "{text}");
    let (_, text) = rendered(7, |_, document| {
        document.records[0] = document.records[0].clone().selected(9, 120.0);
    });
    assert!(
        text.contains("All values are from undisturbed processes only.") && !text.contains('°')
    );
}
