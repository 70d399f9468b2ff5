//! Exports of runs with known values.

use fathom_analysis::limits::{LimitJudgement, UserLimit};
use fathom_record::summary::Trimmed;
use fathom_record::{
    Agreement, Cause, Document, NotSelected, Params, Prediction, Protocol, Reason, Severity, State,
    Unit,
};
use fathom_report::export::{Additions, csv, findings, openmetrics};
use fathom_report::markdown;

use super::doctor::diagnosis;
use super::fixture::{self, measured};

/// A run with one case and one upper bound. Its id begins with its start in milliseconds since
/// 1970.
fn document(id: &str, value: f64) -> Document {
    let mut document = fixture::document();
    document.run.id = id.to_owned();
    let ms = i64::from_str_radix(&id[..12], 16).expect("milliseconds");
    document.run.started = format!("1970-01-01T00:00:{:02}.{:03}Z", ms / 1000, ms % 1000);
    document.host.name = "here".to_owned();
    document.run.verdict.state = State::Noisy;
    let case = |call: &str, value: f64| {
        measured("os.syscall", Params::one("call", call), Unit::Nanoseconds, value, 0.01)
    };
    document.records = vec![case("stat", value), case("none", -0.005)];
    document.records[0] = document.records[0].clone().selected(11, 1.2 * value);
    document.records[0].verdict.state = State::Noisy;
    for (cause, text) in [(Cause::Contention, "a"), (Cause::Steal, "b"), (Cause::Contention, "c")] {
        document.records[0].verdict.reasons.push(Reason::new(cause, text));
    }
    document.records[1].summary.as_mut().expect("a summary").bound = Some(2600.0);
    document
}

/// All numbers of runs, and nothing else.
fn exported(documents: &[Document]) -> String {
    openmetrics(documents, Additions::default())
}

#[test]
fn csv_has_bounds_causes_and_run_verdict() {
    let text = csv(&[document("0000000003e80001", 100.0)]);
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let names = reader.headers().expect("a header").clone();
    let at = |name: &str| names.iter().position(|one| one == name).expect("a column");
    let rows: Vec<csv::StringRecord> = reader.records().map(|row| row.expect("a row")).collect();
    assert_eq!((&rows[0][at("median")], &rows[0][at("bound")]), ("100", ""));
    assert_eq!((&rows[0][at("low")], &rows[0][at("high")]), ("99", "101"));
    assert_eq!(&rows[0][at("causes")], "contention steal");
    let strata = ["stratum", "clean_visits", "visits", "as_found"];
    assert_eq!(strata.map(|name| rows[0][at(name)].to_owned()), ["full_speed", "5", "11", "120"]);
    assert_eq!(&rows[0][at("run_verdict")], "noisy");
    assert_eq!(&rows[1][at("bound")], "2600");
    for name in ["median", "low", "high", "level", "min", "max", "mean", "sd", "stratum"] {
        assert_eq!(&rows[1][at(name)], "", "{name} of a bound");
    }
}

#[test]
fn trimmed_run_is_exported_with_its_own_figures() {
    let mut document = document("0000000003e80001", 100.0);
    let cells = |document: &Document| {
        let text = csv(std::slice::from_ref(document));
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let names = reader.headers().expect("a header").clone();
        let row = reader.records().next().expect("a row").expect("its cells");
        let cell = |name: &str| row[names.iter().position(|one| one == name).unwrap()].to_owned();
        ["protocol", "trimmed_mean", "trimmed_sd", "trials"].map(cell)
    };
    let summary = document.records[0].summary.as_mut().expect("a summary");
    summary.trimmed = Some(Trimmed { n: 10, trials: 16, mean: 90.0, sd: 2.0, se: 1.0 });
    assert_eq!(cells(&document), ["median", "", "", ""]);
    document.run.protocol = Protocol::Trimmed;
    assert_eq!(cells(&document), ["trimmed", "90", "2", "16"]);
    let case = "{host=\"here\",metric=\"os.syscall\",call=\"stat\"} 0.00000009";
    assert!(exported(std::slice::from_ref(&document)).contains(case));
    let table = markdown::documents(&[document]);
    assert!(table.contains("trimmed mean") && table.contains("± 2.000 ns"), "{table}");
}

#[test]
fn series_has_one_sample_from_the_newest_run() {
    let mut elsewhere = document("0000000007d00001", 300.0);
    elsewhere.host.name = "there".to_owned();
    let older = document("0000000003e80001", 100.0);
    let newer = document("0000000007d00001", 200.0);
    let text = exported(&[older.clone(), newer, elsewhere]);
    let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    for line in [
        "fathom_os_syscall_seconds{host=\"here\",metric=\"os.syscall\",call=\"stat\"} 0.0000002",
        "fathom_case_noisy{host=\"here\",metric=\"os.syscall\",call=\"stat\"} 1",
        "fathom_run_started_seconds{host=\"here\"} 2",
    ] {
        let name = line.split(' ').next().expect("a name");
        let found: Vec<&&str> = samples.iter().filter(|one| one.starts_with(name)).collect();
        assert_eq!(found.len(), 1, "{name}: {text}");
        let value = |line: &str| line[name.len()..].trim().parse::<f64>().expect("one number");
        assert!((value(found[0]) - value(line)).abs() < 1e-15, "{}", found[0]);
    }
    assert!(!text.contains("call=\"none\""), "an upper bound is exported: {text}");
    for line in samples {
        assert_eq!(line.contains("run=\""), line.starts_with("fathom_run_info{"), "{line}");
    }
    assert!(!text.contains("run=\"0000000003e80001\""), "no sample is from it: {text}");
    // A case missing in the newest run keeps the sample of an older run.
    let mut other = document("0000000007d00001", 200.0);
    other.records.clear();
    let text = exported(&[older, other]);
    assert!(text.contains("run=\"0000000003e80001\"") && text.contains("run=\"0000000007d00001\""));
}

/// The sample of a series, if it is exported.
fn number(text: &str, series: &str) -> Option<f64> {
    let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    value.map(|value| value.parse::<f64>().expect("a number"))
}

fn case(gauge: &str, call: &str) -> String {
    format!("fathom_case_{gauge}{{host=\"here\",metric=\"os.syscall\",call=\"{call}\"}}")
}

fn assert_numbers(text: &str, expected: &[(&str, &str, Option<f64>)]) {
    for (gauge, call, expected) in expected {
        let found = number(text, &case(gauge, call));
        let is_it = found.zip(*expected).is_some_and(|(a, b)| (a - b).abs() < 1e-15);
        assert!(is_it || found == *expected, "{gauge} of {call}: {found:?}");
    }
}

/// Three more cases: one that violates its bound, one that failed, one within its prediction.
fn judged() -> Document {
    let mut document = document("0000000003e80001", 100.0);
    let (params, ns) = (Params::one("call", "getppid"), Unit::Nanoseconds);
    let mut headline = measured("os.syscall", params, ns, 256.0, 0.25).selected(5, 256.0);
    headline.prediction = Some(Prediction::at_most(128.0, "", ""));
    headline.agreement = Some(Agreement::Violated);
    let mut failed = headline.clone();
    failed.params = Params::one("call", "open");
    failed.verdict.state = State::Failed;
    let mut within = measured("os.syscall", Params::one("call", "read"), ns, 64.0, 0.25);
    within = within.predicted(32.0, 32.0, 0.25).found(NotSelected::Device);
    within.agreement = Some(Agreement::Within);
    document.records[0].agreement = Some(Agreement::Inconclusive);
    document.records[0].prediction = Some(Prediction::at_least(1.0, "", ""));
    document.records.extend([headline, failed, within]);
    document
}

#[test]
fn intervals_predictions_and_counts_are_gauges() {
    let mut document = judged();
    let text = exported(std::slice::from_ref(&document));
    assert_numbers(
        &text,
        &[
            ("low_seconds", "getppid", Some(192e-9)),
            ("high_seconds", "getppid", Some(320e-9)),
            ("high_seconds", "open", None),
            ("prediction_low_seconds", "getppid", None),
            ("prediction_high_seconds", "getppid", Some(128e-9)),
            ("prediction_low_seconds", "read", Some(48e-9)),
            ("prediction_high_seconds", "read", Some(80e-9)),
            // A bound that is a hundredth of the number says nothing.
            ("prediction_low_seconds", "stat", None),
            ("agreement", "getppid", Some(-1.0)),
            ("agreement", "stat", Some(0.0)),
            ("agreement", "read", Some(1.0)),
            ("headline", "getppid", Some(1.0)),
        ],
    );
    let counts = ["valid", "noisy", "unavailable", "invalid", "failed"].map(|state| {
        number(&text, &format!("fathom_run_cases{{host=\"here\",state=\"{state}\"}}"))
    });
    assert_eq!(counts, [3.0, 1.0, 0.0, 0.0, 1.0].map(Some));
    // A trimmed mean has no interval of its own.
    document.run.protocol = Protocol::Trimmed;
    assert_numbers(&exported(&[document]), &[("low_seconds", "getppid", None)]);
}

#[test]
fn flags_are_absent_where_they_do_not_hold() {
    let text = exported(&[judged()]);
    for (gauge, holds) in [("headline", "getppid"), ("noisy", "stat"), ("unfiltered", "read")] {
        for call in ["getppid", "stat", "read", "open"] {
            let expected = (call == holds).then_some(1.0);
            assert_eq!(number(&text, &case(gauge, call)), expected, "{gauge} of {call}");
        }
    }
    // What an older run said of a case is not said of the newest number.
    let mut newest = judged();
    newest.run.id = "0000000007d00001".to_owned();
    newest.records[0].verdict.state = State::Valid;
    newest.records[0].agreement = None;
    assert_numbers(
        &exported(&[judged(), newest]),
        &[("noisy", "stat", None), ("agreement", "stat", None)],
    );
}

#[test]
fn headlines_alone_keep_the_counts() {
    let additions = Additions { only_headlines: true, ..Additions::default() };
    let text = openmetrics(&[judged()], additions);
    assert!(text.contains(&case("low_seconds", "getppid")), "{text}");
    assert!(!text.contains("stat\"") && text.contains("state=\"noisy\"} 1"), "{text}");
}

#[test]
fn limits_are_answers_and_ends() {
    let document = judged();
    let limit = |at: usize, text: &str| {
        let limit = UserLimit::parse(text, Unit::Nanoseconds).expect("a limit");
        limit.judge(&document.records[at])
    };
    let missing =
        UserLimit { low: Some(5.0), high: None }.not_measured("os.fork", Unit::Nanoseconds);
    let rows = vec![limit(2, "..130 ns"), limit(4, "0 ns..90 ns"), limit(0, "100 ns.."), missing];
    let judge = |_: &Document| LimitJudgement::new(<[String; 3]>::default(), rows.clone());
    let judge: &dyn Fn(&Document) -> LimitJudgement = &judge;
    let additions = Additions { judge: Some(judge), only_headlines: true, ..Additions::default() };
    let text = openmetrics(std::slice::from_ref(&document), additions);
    assert_numbers(
        &text,
        &[
            ("limit_answer", "getppid", Some(-1.0)),
            ("limit_low_seconds", "getppid", None),
            ("limit_high_seconds", "getppid", Some(130e-9)),
            ("limit_answer", "read", Some(1.0)),
            ("limit_low_seconds", "read", Some(0.0)),
            ("limit_answer", "stat", Some(0.0)),
        ],
    );
    let missing = "fathom_case_limit_answer{host=\"here\",metric=\"os.fork\"}";
    assert_eq!(number(&text, missing), Some(0.0), "{text}");
}

#[test]
fn findings_are_severities_by_rule() {
    let diagnosis = diagnosis(Severity::Severe);
    let host = &diagnosis.host.name;
    let both = [
        format!("fathom_doctor_examined_seconds{{host=\"{host}\"}} 1772366400"),
        format!("fathom_doctor_severity{{host=\"{host}\",rule=\"virtual-machine\"}} 1"),
        format!("fathom_doctor_severity{{host=\"{host}\",rule=\"swap\"}} 0"),
    ];
    assert_contains(&findings(&diagnosis), &both);
    let additions = Additions { diagnosis: Some(&diagnosis), ..Additions::default() };
    let whole = openmetrics(&[judged()], additions);
    assert_contains(&whole, &both);
    assert_eq!(whole.matches("# EOF").count(), 1);
}

fn assert_contains(text: &str, lines: &[String]) {
    lines.iter().for_each(|line| assert!(text.lines().any(|it| it == line), "{line}: {text}"));
}

#[test]
fn hosts_with_one_name_have_separate_series() {
    let of = |id: &str, run: &str| {
        let mut document = document(run, 100.0);
        document.host.id = Some(id.to_owned());
        document
    };
    let documents = [of("aaaaaaaa00", "0000000003e80001"), of("bbbbbbbb00", "0000000007d00001")];
    let text = exported(&documents);
    for id in ["aaaaaaaa00", "bbbbbbbb00"] {
        let line = format!("fathom_case_noisy{{host=\"here\",host_id=\"{id}\",");
        assert!(text.contains(&line), "{line}: {text}");
        assert!(csv(&documents).contains(&format!("here,{id},")), "{id}");
    }
}
