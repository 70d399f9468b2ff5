//! `fathom compare` for scripts: what fails, what is noise, and which run a name means.

use fathom_record::{Document, Stratum, Verdict};

use crate::place::{ends_with, json, says};
use crate::{Place, fails, is_refused, text};

/// A run of one metric on ten processes around a headline, with the spread of a quiet machine; the
/// number tells runs apart.
fn run(place: &Place, number: usize, headline: f64) -> Document {
    let mut document = place.latest();
    document.run.id = format!("{number:012x}abcd");
    document.run.verdict = Verdict::default();
    document.records.truncate(1);
    let record = &mut document.records[0];
    record.samples = None;
    record.verdict = Verdict::default();
    let summary = record.summary.as_mut().expect("a summary");
    summary.median = headline;
    // What neighbours did to the real processes is no part of these.
    (summary.stratum, summary.full_speed, summary.as_found) = (Stratum::AsFound, None, None);
    summary.process_medians =
        (0..10).map(|at| headline * (1.0 + 0.001 * (f64::from(at) - 4.5))).collect();
    document
}

fn written(place: &Place, document: &Document) -> String {
    place.keep(&format!("{}.json", document.run.id), document)
}

/// A place with one metric whose smaller value is better.
fn place() -> Place {
    let place = Place::new();
    place.said("run --quick --only cpu.clock.read");
    place
}

#[test]
fn a_metric_that_is_worse_by_more_than_the_limit_fails() {
    let place = place();
    let before = written(&place, &run(&place, 1, 100.0));
    for (headline, limit, status) in
        [(110.0, "5%", 3), (110.0, "15%", 0), (90.0, "5%", 0), (100.2, "0%", 0), (103.0, "5%", 0)]
    {
        let after = written(&place, &run(&place, 2, headline));
        let output = place.run(&["compare", &before, &after, "--fail-on", limit]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{headline} {limit}: {said}");
        assert_eq!(said.contains("worse by more than"), status == 3, "{said}");
    }
    let output = place.run(&["compare", &before, &before, "--fail-on", "much"]);
    is_refused(&output, &["much", "5%"]);
}

#[test]
fn a_gate_that_cannot_close_says_so() {
    let place = place();
    let few = |number, headline| {
        let mut document = run(&place, number, headline);
        let summary = document.records[0].summary.as_mut().expect("a summary");
        summary.process_medians.truncate(5);
        written(&place, &document)
    };
    let (before, after) = (few(1, 100.0), few(2, 1000.0));
    let output = place.run(&["compare", &before, &after, "--fail-on", "5%"]);
    ends_with(&output, 3);
    let why = "1 of 1 cases cannot be decided, 1 of which look worse by more than 5";
    says(&text(&output.stderr), &[why]);
}

/// One case that is decided does not open a gate for another that looks worse and is not.
#[test]
fn a_gate_stays_closed_where_a_case_looks_worse_and_cannot_be_decided() {
    let place = place();
    let with = |number, doubtful: f64| {
        let mut document = run(&place, number, 100.0);
        let mut other = run(&place, number, doubtful).records.remove(0);
        other.params = fathom_record::Params::one("case", 2);
        other.summary.as_mut().expect("a summary").process_medians.truncate(5);
        document.records.push(other.sealed());
        written(&place, &document)
    };
    let before = with(1, 100.0);
    for (doubtful, status, undecided) in [(150.0, 3, true), (100.1, 0, false), (70.0, 0, true)] {
        let output = place.run(&["compare", &before, &with(2, doubtful), "--fail-on", "5%"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{doubtful}: {said}");
        assert_eq!(said.contains("1 of 2 cases cannot be decided"), undecided, "{said}");
    }
}

#[test]
fn a_change_that_runs_show_without_any_is_none() {
    let (place, keeper) = (place(), Place::new());
    let (before, after) = (run(&place, 1, 100.0), run(&place, 2, 104.0));
    let names = [written(&place, &before), written(&place, &after)];
    let compared = || {
        let output = keeper.run(&["compare", &names[0], &names[1], "--fail-on", "1%", "--json"]);
        let comparison: serde_json::Value = json(&output);
        (output.status.code(), comparison["rows"][0].clone())
    };
    let (status, row) = compared();
    assert_eq!((status, row["word"].as_str()), (Some(3), Some("slower")), "{row}");
    // Runs of this host that go up and down by 6 % while nothing changes.
    for number in 0..8 {
        let like = run(&place, 10 + number, if number % 2 == 0 { 100.0 } else { 106.0 });
        keeper.said(&format!("import {}", written(&place, &like)));
    }
    let (status, row) = compared();
    assert_eq!((status, row["word"].as_str()), (Some(0), Some("unchanged")), "{row}");
    let noise = row["noise"].as_f64().expect("a noise");
    assert!((noise - 0.06).abs() < 1e-6, "{noise}");
    assert_eq!(row["unchanged_within"].as_f64(), Some(noise), "{row}");
}

#[test]
fn a_host_s_name_means_its_newest_run() {
    let place = place();
    let mut other = run(&place, 1, 100.0);
    other.host.name = "elsewhere".to_owned();
    other.host.id = Some("e".repeat(32));
    let path = written(&place, &other);
    assert!(place.run(&["import", &path]).status.success());
    let output = place.run(&["compare", "elsewhere", "latest"]);
    let said = text(&output.stdout);
    assert!(said.contains("elsewhere") && said.contains("host: elsewhere →"), "{said}");
    fails(&place.run(&["compare", "nowhere", "latest"]), &["nowhere"]);
}
