//! Pages of the list of runs, by filters.

use fathom_record::{Document, RunState};
use fathom_store::{Filter, Store};

use crate::example;

/// Runs of two hosts, of all metrics, of one and of commands by hand, the oldest first.
fn store() -> (tempfile::TempDir, Store) {
    let (folder, path) = example::new_path();
    let mut store = Store::open(&path).unwrap();
    let run = |id: u8, host: &str, asked: &[&str], procedure: Option<&str>| {
        let mut document = example::head(&format!("{:014}a{id}", 0));
        document.host.name = host.to_owned();
        document.host.id = (host == "db1").then(|| "0123456789abcdef".to_owned());
        document.run.started = format!("2026-03-{id:02}T12:00:00.000Z");
        document.run.state = RunState::Complete;
        document.run.asked = asked.iter().map(|&metric| metric.to_owned()).collect();
        document.run.procedure = procedure.map(str::to_owned);
        document.run.label = id.is_multiple_of(2).then(|| "it's \"even\" %".to_owned());
        document
    };
    let runs: [Document; 4] = [
        run(1, "db1", &[], None),
        run(2, "db2", &["os.syscall"], None),
        run(3, "db1", &["/etc/passwd"], Some("file read")),
        run(4, "db2", &["a filename"], Some("filesystem")),
    ];
    for (records, mut run) in runs.into_iter().enumerate() {
        run.records = example::records(records as u64);
        assert!(store.import(&run).unwrap());
    }
    (folder, store)
}

/// The last digits of the runs, and how many there are.
fn found(store: &Store, filter: &Filter, most: u32, passed: u32) -> (String, u32) {
    let (rows, total) = store.runs_where(filter, most, passed).unwrap();
    (rows.iter().map(|row| &row.id[15..]).collect(), total)
}

#[test]
fn list_is_paged_newest_first() {
    let (_folder, store) = store();
    let all = Filter::default();
    assert_eq!(found(&store, &all, 10, 0), ("4321".to_owned(), 4));
    assert_eq!(found(&store, &all, 2, 0), ("43".to_owned(), 4));
    assert_eq!(found(&store, &all, 2, 3), ("1".to_owned(), 4));
    assert_eq!(found(&store, &all, 2, 4), (String::new(), 4));
    let rows = store.runs_where(&all, 10, 0).unwrap().0;
    assert_eq!(rows, store.runs().unwrap());
}

#[test]
fn trend_has_a_number_for_each_run_of_its_first_case() {
    let (_folder, store) = store();
    let run = store.document(&store.runs().unwrap()[0].id, false).unwrap();
    let record = run.records.iter().find(|it| it.shown_summary().is_some()).expect("a number");
    let metric = record.metric.as_str();
    let filter = Filter { metric: Some(metric.to_owned()), ..Filter::default() };
    let trend = store.trend_where(&filter, metric, 10, 0).unwrap().expect("numbers");
    let of_case = |it: &&fathom_record::Record| it.params == trend.params;
    let median = run.records.iter().find(of_case).and_then(|it| it.shown_summary()).unwrap().median;
    assert_eq!(trend.values.get(&run.run.id), Some(&median));
    assert!(store.trend_where(&filter, "cpu.nothing", 10, 0).unwrap().is_none());
    // Runs on other pages have none.
    let page = store.trend_where(&filter, metric, 1, 0).unwrap().expect("numbers");
    assert_eq!(page.values.keys().collect::<Vec<_>>(), [&run.run.id]);
}

#[test]
fn each_filter_selects_its_runs() {
    let (_folder, store) = store();
    let some = |text: &str| Some(text.to_owned());
    let is = |filter: Filter, expected: &str| {
        let runs = expected.len() as u32;
        assert_eq!(found(&store, &filter, 10, 0), (expected.to_owned(), runs), "{filter:?}");
    };
    let of = Filter::default();
    for (host, expected) in [("db1", "31"), ("0123456789abcdef", "31"), ("db2", "42"), ("db", "")] {
        is(Filter { host: some(host), ..of.clone() }, expected);
    }
    for (label, expected) in [("it's \"even\" %", "42"), ("%", ""), ("' OR 1 = 1 --", "")] {
        is(Filter { label: some(label), ..of.clone() }, expected);
    }
    let kinds = [("run", "21"), ("battery", "1"), ("file", "3"), ("load", ""), ("import", "")];
    for (kind, expected) in kinds {
        is(Filter { kind: some(kind), ..of.clone() }, expected);
    }
    // The first has no record.
    let metrics = [("file.read.throughput", "432"), ("file", "432"), ("file.rea", ""), ("os", "")];
    for (metric, expected) in metrics {
        is(Filter { metric: some(metric), ..of.clone() }, expected);
    }
    let between = |since: &str, until: &str, expected: &str| {
        is(Filter { since: some(since), until: some(until), ..of.clone() }, expected);
    };
    between("2026-03-02", "2026-03-03", "32");
    between("2026-03-02T12:00:00.000Z", "2026-03", "432");
    between("2026-03-02T12:00:01", "2026-03-03T11", "");
    let both = Filter { host: some("db1"), kind: some("file"), metric: some("file"), ..of };
    is(both, "3");
}

#[test]
fn hosts_and_metrics_are_each_named_once() {
    let (_folder, store) = store();
    let hosts: Vec<(String, String)> = store.hosts().unwrap().into_iter().collect();
    let named = |id: &str, name: &str| (id.to_owned(), name.to_owned());
    assert_eq!(hosts, [named("0123456789abcdef", "db1"), named("db2", "db2")]);
    assert_eq!(store.metrics().unwrap(), ["file.read.throughput"]);
    let (_folder, path) = example::new_path();
    assert!(Store::open(&path).unwrap().metrics().unwrap().is_empty());
}
