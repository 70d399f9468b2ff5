//! What a laboratory imposes is seen: in the numbers, in their verdicts, and in what a run says of
//! itself.

use std::path::Path;

use fathom_record::{Agreement, Cause, Document, Record};

use super::group::{Group, skipped};
use super::{Place, is_refused, text};

/// A quick run of one metric with this imposed.
fn imposed(metric: &str, name: &str, value: &str) -> Document {
    let place = Place::new();
    let arguments = ["run", "--quick", "--json", metric];
    let output = place.fathom(&arguments).env(name, value).output().expect("the program starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("a document")
}

fn of_metric<'d>(document: &'d Document, metric: &str) -> Vec<&'d Record> {
    document.records.iter().filter(|record| record.metric.as_str() == metric).collect()
}

/// The median of a case over that of the undisturbed loop, so that a slow machine cancels out.
fn relative(document: &Document) -> f64 {
    let median = |record: &Record| record.summary.as_ref().expect("a summary").median;
    let frequency = of_metric(document, "cpu.frequency")[0];
    of_metric(document, "cpu.call").iter().map(|record| median(record)).sum::<f64>()
        * median(frequency)
}

#[test]
fn a_hidden_spin_is_measured_told_and_makes_predictions_differ() {
    let dosed = |dose: &str| {
        let document = imposed("cpu.call", "FATHOM_SPIN", &format!("cpu.call={dose}"));
        assert!(document.run.notes.iter().any(|note| note.contains("FATHOM_SPIN=cpu.call=")));
        document
    };
    // The core of a guest may slow down between two runs: a pair that met the same core is enough.
    let mut factors = Vec::new();
    let doubled = loop {
        let [plain, doubled] = ["0%", "100%"].map(dosed);
        let factor = relative(&doubled) / relative(&plain);
        factors.push(factor);
        if (1.6..2.4).contains(&factor) {
            break doubled;
        }
        assert!(factors.len() < 4, "a dose of 100 % made it {factors:.2?} times as dear");
    };
    let modelled = |record: &&&Record| record.prediction.is_some();
    let calls = of_metric(&doubled, "cpu.call");
    for record in calls.iter().filter(modelled) {
        assert_ne!(record.agreement, Some(Agreement::Agrees), "{}", record.name());
    }
    let frequency = of_metric(&doubled, "cpu.frequency")[0];
    assert_ne!(frequency.agreement, Some(Agreement::Differs), "only the named metric is dosed");
}

#[test]
fn with_a_wrong_row_of_the_table_what_depends_on_it_differs() {
    let place = Place::new();
    let json = ["run", "--quick", "--json", "cpu.loop.iteration"];
    let run = |row: &str| -> Document {
        let output =
            place.fathom(&json).env("FATHOM_UARCH", row).output().expect("the program starts");
        serde_json::from_slice(&output.stdout).expect("a document")
    };
    // One of the two is wrong on any core: a counter in memory costs 5 cycles, or at most 2.
    let differing = |row: &str| {
        let document = run(row);
        assert!(document.run.notes.iter().any(|note| note.contains(row)));
        let in_memory = of_metric(&document, "cpu.loop.iteration")[1].agreement;
        in_memory != Some(Agreement::Agrees)
    };
    assert!(differing("broadwell") || differing("zen4"));
}

#[test]
fn a_dose_that_cannot_be_is_refused() {
    let place = Place::new();
    for (dose, part) in [("cpu.cal=1%", "no such metric"), ("cpu.call=x", "no percentage")] {
        let arguments = ["run", "--quick", "cpu.call"];
        let output =
            place.fathom(&arguments).env("FATHOM_SPIN", dose).output().expect("the program starts");
        is_refused(&output, &["FATHOM_SPIN", dose, part]);
    }
}

fn names(record: &Record, cause: Cause) -> bool {
    record.verdict.reasons.iter().any(|reason| reason.cause == cause)
}

#[test]
fn work_that_grows_over_a_visit_is_called_drift() {
    let document = imposed("cpu.call", "FATHOM_SPIN", "cpu.call=0..80%");
    let calls = of_metric(&document, "cpu.call");
    let drifting = calls.iter().filter(|record| names(record, Cause::Drift)).count();
    assert!(2 * drifting > calls.len(), "{drifting} of {} drift", calls.len());
}

#[test]
fn a_quota_is_named_with_the_time_that_it_took() {
    let limits = [("cpu.cfs_period_us", 10_000), ("cpu.cfs_quota_us", 3_000)];
    let group = match Group::new("cpu", "lab-quota", &limits) {
        Ok(group) => group,
        Err(why) => return skipped(&why),
    };
    let place = Place::new();
    let program = Path::new(env!("CARGO_BIN_EXE_fathom"));
    let mut inside = group.enter(program, &["run", "--quick", "--json", "cpu.call"]);
    let output = inside.env("FATHOM_STORE", place.store()).output().expect("the program starts");
    let document: Document = serde_json::from_slice(&output.stdout).expect("a document");
    for record in of_metric(&document, "cpu.call") {
        assert!(names(record, Cause::Throttled), "{}: {:?}", record.name(), record.verdict);
        assert!(record.disturbance.throttled_ns.is_some_and(|ns| ns > 0));
    }
}
