//! `fathom export --samples` as a table.

use std::collections::BTreeSet;

use fathom_record::{Document, Sample};

use crate::test_env::{assert_contains, assert_failure, assert_status, canned, text};
use crate::{ProgramTestEnv, assert_usage_error};

fn without_samples() -> Document {
    let mut document = canned();
    document.records.iter_mut().for_each(|record| record.samples = None);
    document
}

/// The id of the canned run.
const CANNED_RUN: &str = "01a210e795096169";

/// A store with two runs of one label; the second result of each has five raw values.
fn env_with_samples() -> ProgramTestEnv {
    let env = ProgramTestEnv::new();
    for number in 1..=2 {
        let mut document = without_samples();
        document.run.id = format!("{number:012x}abcd");
        document.run.label = Some("rack".to_owned());
        let sample = |process| Sample { process, values: vec![1.5, 2.5], ..Sample::default() };
        let last = Sample { values: vec![0.1 + 0.2], process: 2, ..Sample::default() };
        document.records[1].samples = Some(vec![sample(0), sample(1), last]);
        env.store_run(&document);
    }
    env
}

#[test]
fn samples_are_a_row_a_value_of_all_runs_named() {
    let env = env_with_samples();
    let table = env.stdout("export rack --samples --format csv");
    let mut reader = csv::Reader::from_reader(table.as_bytes());
    let names = reader.headers().expect("a header").clone();
    let at = |name: &str| names.iter().position(|it| it == name).expect("a column");
    let rows: Vec<csv::StringRecord> = reader.records().map(|row| row.expect("a row")).collect();
    let values: Vec<&str> = rows.iter().map(|row| &row[at("value")]).collect();
    let of_run = ["1.5", "2.5", "1.5", "2.5", "0.30000000000000004"];
    assert_eq!(values, [of_run, of_run].concat());
    assert!(rows.iter().all(|row| &row[at("metric")] == "cpu.clock.resolution"), "{table}");
    // A label has its newest run first, and all runs begin with the oldest.
    let all = env.stdout("export --all --samples --format csv");
    let sorted = |table: &str| table.lines().map(str::to_owned).collect::<BTreeSet<String>>();
    assert_eq!(sorted(&all), sorted(&table));
}

/// They are written piece by piece, and as they are without samples.
#[test]
fn json_with_samples_is_that_without_them_and_the_samples() {
    let env = env_with_samples();
    for format in ["json", "jsonl"] {
        let documents = |options: &str| -> Vec<Document> {
            let text = env.stdout(&format!("export --all --format {format}{options}"));
            let all = serde_json::Deserializer::from_str(&text).into_iter();
            all.collect::<Result<_, _>>().unwrap()
        };
        let (bare, mut whole) = (documents(""), documents(" --samples"));
        let records = || whole.iter().flat_map(|run| &run.records);
        assert!(records().any(|record| record.samples.is_some()), "{format}");
        for record in whole.iter_mut().flat_map(|run| &mut run.records) {
            record.samples = None;
        }
        assert_eq!(whole, bare, "{format}");
    }
}

#[test]
fn table_of_samples_is_written_whole_or_not_at_all() {
    let env = env_with_samples();
    let path = env.path_text("samples.csv");
    assert_status(&env.exec(&format!("export rack --samples --format csv -o {path}")), 0);
    let bytes = std::fs::read(&path).expect("a file");
    assert_eq!(env.stdout("export rack --samples --format csv").as_bytes(), bytes);
    let missing = format!("export rack nothing --samples --format csv --force -o {path}");
    assert_contains(&text(&env.exec(&missing).stderr), &["nothing: no stored run"]);
    assert_eq!(std::fs::read(&path).expect("a file"), bytes, "replaced by a part");
}

#[test]
fn tables_of_samples_need_samples_and_their_format() {
    let env = ProgramTestEnv::new();
    env.store_run(&without_samples());
    let refused = env.exec("export --format markdown --samples");
    assert_usage_error(&refused, &["--samples", "CSV", "--format csv"]);
    let path = env.path_text("none.csv");
    let none = env.exec(&format!("export {CANNED_RUN} --samples --format csv -o {path}"));
    assert_failure(&none, &["no raw samples", "pruned"]);
    assert!(!env.file("none.csv").exists());
}
