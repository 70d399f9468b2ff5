//! Everything stored is read back unchanged.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use fathom_record::{
    Counts, Document, Effort, FarHost, Host, Outline, Record, RunState, State, Stratum, Verdict,
};
use fathom_store::{Store, StoreError};

use crate::example;

const RUN: &str = "0000019514ab3c5d";

fn bits(record: &Record) -> Vec<u64> {
    let summary = record.summary.as_ref().unwrap();
    let samples = record.samples.iter().flatten();
    let values = samples.flat_map(|sample| sample.values.iter());
    let named = [summary.min, summary.max, summary.mean, summary.interval.unwrap().high];
    named.iter().chain(values).map(|value| value.to_bits()).collect()
}

#[test]
pub(crate) fn run_is_read_back_bit_by_bit() {
    let (_folder, path, store) = example::stored(RUN, 12);
    drop(store);
    let records = (0..12).map(example::record).collect();
    let expected = Document { records, ..example::head(RUN) };
    let found = Store::open_existing(&path).unwrap().document(RUN, true).unwrap();
    assert_eq!(found, expected);
    for (found, expected) in found.records.iter().zip(&expected.records) {
        assert!(bits(expected).len() > 4);
        assert_eq!(bits(found), bits(expected), "{}", expected.name());
    }
}

#[test]
pub(crate) fn samples_are_read_only_on_request() {
    let (_folder, _path, mut store) = example::stored(RUN, 3);
    let mut bare = example::record(3);
    bare.samples = None;
    example::add(&mut store, RUN, &bare).unwrap();
    let without = store.document(RUN, false).unwrap();
    assert!(without.records.iter().all(|record| record.samples.is_none()));
    assert!(without.records.iter().all(Record::is_intact));
    let with = store.document(RUN, true).unwrap();
    let has_samples: Vec<bool> = with.records.iter().map(|it| it.samples.is_some()).collect();
    assert_eq!(has_samples, [true, true, true, false]);
}

#[test]
pub(crate) fn replace_records_leaves_other_runs_unchanged() {
    let (_folder, path, mut store) = example::stored(RUN, 3);
    let other = "0000019514ab3c5e";
    store.begin(&example::head(other)).unwrap();
    example::add(&mut store, other, &example::record(0)).unwrap();
    let records = [example::record(7), example::record(1)];
    store.replace_records(RUN, &records).unwrap();
    assert_eq!(store.document(RUN, true).unwrap().records, records);
    assert_eq!(store.document(other, true).unwrap().records, [example::record(0)]);
    let headlines = example::history(&store).iter().map(|run| run.headlines.len()).sum::<usize>();
    assert_eq!(headlines, 3);
    let unknown = store.replace_records("0000019514ab3c5f", &records).unwrap_err();
    assert!(matches!(unknown, StoreError::NoSuchRun { .. }), "{unknown}");
    drop(store);
    example::is_whole_place(&path);
}

#[test]
pub(crate) fn update_run_keeps_tool_host_and_records() {
    let (_folder, _path, mut store) = example::stored(RUN, 2);
    let mut run = example::run(RUN);
    run.state = RunState::Complete;
    run.ended = Some("2026-02-03T04:09:00Z".to_owned());
    run.clock.raw_ppm = Some(0.31);
    store.update_run(&run).unwrap();
    let document = store.document(RUN, false).unwrap();
    assert_eq!(document.run, run);
    assert_eq!(document.host, example::host());
    assert_eq!(document.records.len(), 2);
    let row = &store.runs().unwrap()[0];
    assert_eq!((row.state, row.ended.clone()), (RunState::Complete, run.ended));
}

#[test]
pub(crate) fn runs_are_listed_newest_first_with_their_counts() {
    let (_folder, _path, mut store) = example::stored("00000000000000b0", 13);
    for id in ["00000000000000c0", "00000000000000a0"] {
        store.begin(&example::head(id)).unwrap();
    }
    let rows = store.runs().unwrap();
    let ids: Vec<&str> = rows.iter().map(|row| row.id.as_str()).collect();
    assert_eq!(ids, ["00000000000000a0", "00000000000000c0", "00000000000000b0"], "as stored");
    let row = &rows[2];
    assert_eq!(row.host_name, "bench-3");
    assert_eq!(row.kernel, "6.12.9");
    assert_eq!(row.cpu_model, "Example 9 7950X");
    assert_eq!(row.started, "2026-02-03T04:05:06.789Z");
    assert_eq!(row.state, RunState::Running);
    let expected = Counts { valid: 3, noisy: 3, unavailable: 3, invalid: 2, failed: 2 };
    assert_eq!(row.counts, expected);
    assert_eq!(row.counts.total(), 13);
    assert_eq!(rows[0].counts, Counts::default());
}

#[test]
pub(crate) fn duplicate_record_or_run_is_refused() {
    let (_folder, _path, mut store) = example::stored(RUN, 1);
    let mut again = example::record(0);
    again.title = "another title".to_owned();
    let again = again.sealed();
    let refused = store.put(RUN, &[again.clone(), example::record(0)]).unwrap();
    let [error @ StoreError::NotStorable { .. }] = &refused[..] else { panic!("{refused:?}") };
    let record = "file.read.throughput{block=0,mode=cold}";
    assert!(error.to_string().contains(record), "{error}");
    // In place of the earlier one.
    assert_eq!(store.document(RUN, true).unwrap().records, [again]);

    let other = "0000019514ab3c5e";
    store.begin(&example::head(other)).unwrap();
    example::add(&mut store, other, &example::record(0)).unwrap();
    let error = store.begin(&example::head(RUN)).unwrap_err();
    assert!(matches!(error, StoreError::RunExists { .. }), "{error}");
}

#[test]
fn failed_insert_stores_nothing_of_a_record() {
    let (_folder, path, mut store) = example::store_with(RUN, 1);
    let other = rusqlite::Connection::open(&path).unwrap();
    // After its record, the samples fail.
    other.execute_batch("ALTER TABLE samples RENAME TO gone").unwrap();
    let error = example::add(&mut store, RUN, &example::record(1)).unwrap_err();
    assert!(error.to_string().contains("samples"), "{error}");
    other.execute_batch("ALTER TABLE gone RENAME TO samples").unwrap();
    assert_eq!(store.document(RUN, true).unwrap().records, [example::record(0)]);
    example::add(&mut store, RUN, &example::record(1)).unwrap();
    assert_eq!(store.document(RUN, true).unwrap().records.len(), 2);
}

#[test]
pub(crate) fn infinite_number_or_open_record_is_not_stored() {
    let (_folder, _path, mut store) = example::stored(RUN, 0);
    let mut infinite = example::record(0);
    infinite.summary.as_mut().unwrap().max = f64::INFINITY;
    let mut hole = example::record(0);
    hole.samples.as_mut().unwrap()[0].values[0] = f64::NAN;
    let mut quiet = example::record(0);
    quiet.prediction.as_mut().unwrap().low = Some(f64::NAN);
    for record in [infinite.sealed(), hole.sealed(), quiet.sealed()] {
        let error = example::add(&mut store, RUN, &record).unwrap_err();
        assert!(matches!(error, StoreError::NotStorable { .. }), "{error}");
    }
    let mut one = example::record(0);
    one.summary.as_mut().unwrap().max = f64::INFINITY;
    let all = [example::record(1), one.sealed(), example::record(2), example::record(2)];
    let whole = [example::record(1), example::record(2)];
    let reasons = ["a number is not finite", "the run has this record already"];
    for refused in [store.put(RUN, &all), store.replace_records(RUN, &all)] {
        let refused: Vec<String> = refused.unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(refused.len(), 2);
        assert!(refused.iter().zip(reasons).all(|(it, why)| it.ends_with(why)), "{refused:?}");
        assert_eq!(store.document(RUN, true).unwrap().records, whole, "the others are stored");
    }
    store.replace_records(RUN, &[]).unwrap();
    let mut open = example::record(0);
    open.verdict = Verdict::because(State::Noisy, fathom_record::Cause::Spread, "wide");
    let error = example::add(&mut store, RUN, &open).unwrap_err();
    assert!(error.to_string().contains("checksum mismatch"), "{error}");
    assert_eq!(store.document(RUN, true).unwrap().records, []);
}

#[test]
pub(crate) fn run_that_was_not_begun_gets_no_records() {
    let (_folder, _path, mut store) = example::stored(RUN, 0);
    let stranger = "00000000deadbeef";
    let errors = [
        example::add(&mut store, stranger, &example::record(0)).unwrap_err(),
        store.update_run(&example::run(stranger)).unwrap_err(),
        store.document(stranger, false).unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, StoreError::NoSuchRun { runs: 1, .. }), "{error}");
    }
}

#[test]
fn store_has_mode_0600() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fathom.db");
    let _store = example::store_at(&path, RUN, 0);
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(&path.with_extension("db-wal")), 0o600);
}

#[test]
fn reader_writes_nothing() {
    let (_folder, path, store) = example::store_with(RUN, 1);
    drop(store);
    let mut reader = Store::open_existing(&path).unwrap();
    let error = example::add(&mut reader, RUN, &example::record(1)).unwrap_err();
    assert!(error.to_string().contains("read-only"), "{error}");
    drop(reader);
    let left: Vec<_> = std::fs::read_dir(path.parent().unwrap()).unwrap().collect();
    assert_eq!(left.len(), 1, "no file beside the store: {left:?}");
}

#[test]
pub(crate) fn outline_has_the_headlines_of_its_run() {
    let (_folder, _path, mut store) = example::stored(RUN, 7);
    let mut extreme = example::record(10);
    extreme.summary.as_mut().unwrap().interval.as_mut().unwrap().high = f64::MAX;
    example::add(&mut store, RUN, &extreme.sealed()).unwrap();
    let mut bound = example::record(11);
    bound.summary.as_mut().unwrap().bound = Some(0.1 + 0.2);
    bound.verdict = Verdict::because(State::Noisy, fathom_record::Cause::Interrupted, "2 of 5");
    example::add(&mut store, RUN, &bound.sealed()).unwrap();
    let ids = ["0000019514ab3c5e", "0000019514ab3c5f"];
    for id in ids {
        store.begin(&example::head(id)).unwrap();
        example::add(&mut store, id, &example::record(1)).unwrap();
    }
    let whole = |id: &str| example::outline(store.document(id, false).unwrap());
    let selected = &whole(RUN).headlines[0];
    assert_eq!((selected.stratum, selected.as_found), (Stratum::ToItself, Some(120.25)));
    let history = example::history(&store);
    assert_eq!(history, [whole(RUN), whole(ids[0]), whole(ids[1])]);
    let is_shared = |run: &Outline| Arc::ptr_eq(&run.host, &history[0].host);
    assert!(history.iter().all(is_shared), "the facts of a host are parsed once");
    assert!(store.history("os.syscall").unwrap().0.is_empty());
    let newest = |host: &str, most| store.newest_of(host, Effort::Quick, None, most).unwrap().0;
    assert_eq!(newest("bench-3", 2), [whole(ids[0]), whole(ids[1])]);
    assert_eq!(newest("bench-3", 9).len(), 3);
    assert!(newest("elsewhere", 9).is_empty());
    assert!(store.newest_of("bench-3", Effort::Thorough, None, 9).unwrap().0.is_empty());
}

#[test]
pub(crate) fn newest_runs_are_of_one_command() {
    let (_folder, _path, mut store) = example::stored("00000000000000b0", 1);
    let mut by_hand = example::head("00000000000000b1");
    by_hand.run.procedure = Some("file read".to_owned());
    store.begin(&by_hand).unwrap();
    let newest = |procedure| {
        let (runs, _) = store.newest_of("bench-3", Effort::Quick, procedure, 1).unwrap();
        runs.into_iter().map(|run| run.run.id).collect::<Vec<_>>()
    };
    assert_eq!(newest(None), ["00000000000000b0"]);
    assert_eq!(newest(Some("file read")), ["00000000000000b1"]);
    assert!(newest(Some("file write")).is_empty());
}

#[test]
pub(crate) fn newest_runs_are_found_by_host_id() {
    let (_folder, _path, mut store) = example::stored("00000000000000b0", 1);
    for (run, id, name) in [
        ("00000000000000b1", "aaaa", "bench-3"),
        ("00000000000000b2", "bbbb", "bench-3"),
        ("00000000000000b3", "aaaa", "renamed"),
    ] {
        let host = Host { id: Some(id.to_owned()), name: name.to_owned(), ..example::host() };
        store.begin(&Document { host, ..example::head(run) }).unwrap();
    }
    let of = |host: &str| {
        let (runs, _) = store.newest_of(host, Effort::Quick, None, 9).unwrap();
        runs.into_iter().map(|run| run.run.id).collect::<Vec<_>>()
    };
    assert_eq!(of("aaaa"), ["00000000000000b1", "00000000000000b3"]);
    assert_eq!(of("bbbb"), ["00000000000000b2"]);
    assert_eq!(of("bench-3"), ["00000000000000b0"], "by name without an id");
    let names = ["aaaa", "bbbb", "cccc"].map(|id| store.name_of(id).unwrap());
    assert_eq!(names.map(Option::unwrap_or_default), ["renamed", "bench-3", ""]);
}

#[test]
pub(crate) fn id_of_an_earlier_version_is_mapped() {
    let (_folder, _path, mut store) = example::stored("00000000000000b0", 1);
    let host = |id: &str| Host { id: Some(id.to_owned()), ..example::host() };
    let far = |id: &str| vec![FarHost { name: "far".to_owned(), host: host(id), clock: None }];
    let clone = Host { name: "clone".to_owned(), ..host("former-id") };
    for (run, host, far) in [
        ("00000000000000b1", host("former-id"), Vec::new()),
        ("00000000000000b2", host("other-id"), far("former-id")),
        ("00000000000000b3", clone, Vec::new()),
    ] {
        store.begin(&Document { host, far, ..example::head(run) }).unwrap();
    }
    for _ in 0..2 {
        store.map_host("former-id", &host("new-id")).unwrap();
    }
    let of = |run: &str| store.document(run, false).unwrap();
    assert_eq!(of("00000000000000b1").host, host("new-id"));
    assert_eq!(of("00000000000000b2").host, host("other-id"));
    assert_eq!(of("00000000000000b2").far, far("new-id"));
    assert_eq!(of("00000000000000b3").host.identity(), "former-id", "another name");
    let (found, _) = store.newest_of("new-id", Effort::Quick, None, 9).unwrap();
    assert_eq!(found.len(), 1);
}

#[test]
pub(crate) fn put_replaces_the_same_case_only() {
    let (_folder, _path, mut store) = example::stored(RUN, 2);
    let again = Record { title: "measured again".to_owned(), ..example::record(1) }.sealed();
    store.put(RUN, &[again.clone(), example::record(2)]).unwrap();
    let expected = [example::record(0), again, example::record(2)];
    assert_eq!(store.document(RUN, true).unwrap().records, expected);
}
