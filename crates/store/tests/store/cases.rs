//! The newest record of each case, and freeing space.

use fathom_record::{Document, Host, Params, Run, RunState};
use fathom_store::{CaseSearch, Keep, Store};

use crate::example;

const METRIC: &str = "file.read.throughput";

/// Runs with the records of these numbers, each on a host, a kernel and a label.
fn store_of(
    runs: &[(&str, &[u64], &str, &str)],
) -> (Option<tempfile::TempDir>, fathom_store::Place, Store) {
    let (folder, path) = example::new_place();
    let mut store = Store::open(&path).unwrap();
    for (id, records, host, kernel) in runs {
        let mut document = example::head(id);
        (document.host.name, document.host.kernel) = ((*host).to_owned(), (*kernel).to_owned());
        document.run.state = RunState::Complete;
        document.records = records.iter().map(|number| example::record(*number)).collect();
        store.import(&document).unwrap();
    }
    (folder, path, store)
}

#[test]
pub(crate) fn newest_record_of_each_case_is_found() {
    // Record 0 is valid, 1 is noisy, 2 is unavailable.
    let (_folder, _place, store) = store_of(&[
        ("00000000000000b4", &[0, 1, 2], "here", "6.1"),
        ("00000000000000b3", &[1, 2], "here", "6.2"),
        ("00000000000000b2", &[0, 2], "there", "6.1"),
        ("00000000000000b1", &[7], "here", "6.2"),
    ]);
    let found = |search: CaseSearch<'_>| -> Vec<String> {
        let cases = store.newest_cases([METRIC, "os.syscall"], search).unwrap();
        let block = |params: &Params| params.integer("block").unwrap();
        cases.iter().map(|case| format!("{} {}", &case.run[14..], block(&case.params))).collect()
    };
    let here = CaseSearch::on_host("here");
    assert_eq!(found(here), ["b4 0", "b3 1", "b3 2", "b1 7"]);
    assert_eq!(found(CaseSearch { numbers: true, ..here }), ["b4 0", "b3 1"], "7 is unavailable");
    assert_eq!(found(CaseSearch::on_host("there")), ["b2 0", "b2 2"]);
    let mut like = example::host();
    like.kernel = "6.1".to_owned();
    let on = |like: &Host| found(CaseSearch { like: Some(like), ..CaseSearch::on_host("here") });
    assert_eq!(on(&like), ["b4 0", "b4 1", "b4 2"]);
    like.cpu.logical = 64;
    assert!(on(&like).is_empty(), "other hardware");
    let cases = store.newest_cases([METRIC], here).unwrap();
    let (documents, damaged) = store.records_of(&cases[1..]).unwrap();
    assert!(damaged.is_empty());
    let parts: Vec<(&str, usize)> =
        documents.iter().map(|it| (&it.run.id[14..], it.records.len())).collect();
    assert_eq!(parts, [("b3", 2), ("b1", 1)]);
    assert_eq!(documents[0].records[0], bare(1));
}

fn bare(number: u64) -> fathom_record::Record {
    fathom_record::Record { samples: None, ..example::record(number) }
}

#[test]
pub(crate) fn samples_are_freed_before_runs() {
    let ids = ["00000000000000b1", "00000000000000b2", "00000000000000b3", "00000000000000b4"];
    let (_folder, place, mut store) = store_of(&ids.map(|id| (id, &[0, 1, 2][..], "here", "6.1")));
    let mut run = Document { ..store.document(ids[0], false).unwrap() }.run;
    run.label = Some("before upgrade".to_owned());
    store.update_run(&run).unwrap();
    // Of this process, which lives.
    store.begin(&example::head("00000000000000a0")).unwrap();
    assert_eq!(store.old_runs(&Keep::Newest(4)).unwrap(), [], "one with a label, three newer ones");
    let since = |time: &str| store.old_runs(&Keep::Since(time.to_owned())).unwrap().len();
    // The last complete run of a kind is always kept.
    assert_eq!((since("2026-02-03T04:05:06.789Z"), since("2026-02-04")), (0, 2));
    let old = store.old_runs(&Keep::Newest(2)).unwrap();
    assert_eq!(old.len(), 2);
    assert!(old.iter().all(|run| run.samples_bytes > 1000 && run.bytes > 1000), "{old:?}");
    let freed = store.prune(&old, false).unwrap();
    assert!(freed > 0 || place.file().is_none(), "the file shrinks");
    assert_eq!(store.document(ids[1], true).unwrap().records, [0, 1, 2].map(bare));
    assert_eq!(store.document(ids[0], true).unwrap().records, example::records(3), "kept");
    let old = store.old_runs(&Keep::Newest(2)).unwrap();
    assert_eq!((old.len(), old[0].samples_bytes), (2, 0));
    store.prune(&old, true).unwrap();
    let left: Vec<String> = store.runs().unwrap().into_iter().map(|row| row.id).collect();
    assert_eq!(left, ["00000000000000a0", ids[3], ids[0]]);
    assert_eq!(example::history(&store).len(), 2);
    drop(store);
    example::is_whole_place(&place);
}

/// A run that another process deletes leaves its number to the next run in a file.
#[test]
pub(crate) fn run_begun_after_the_list_is_not_pruned() {
    let (_folder, place, mut store) = store_of(&[("00000000000000b1", &[0, 1], "here", "6.1")]);
    let [gone, labelled, new] = ["00000000000000c1", "00000000000000c2", "00000000000000c3"];
    for id in [labelled, gone] {
        store.begin(&example::head(id)).unwrap();
        let run = Run { state: RunState::Interrupted, ..example::run(id) };
        store.update_run(&run).unwrap();
    }
    let old = store.old_runs(&Keep::Newest(0)).unwrap();
    assert_eq!(old.len(), 2);
    let mut other = Store::open(&place).unwrap();
    other.delete_run(gone).unwrap();
    drop(example::store_at(&place, new, 2));
    let label = Some("kept".to_owned());
    other.update_run(&Run { label, ..example::run(labelled) }).unwrap();
    store.prune(&old, true).unwrap();
    assert_eq!(store.document(new, true).unwrap().records, example::records(2));
    assert!(store.document(labelled, true).is_ok());
    assert_eq!(store.runs().unwrap().len(), 3);
}

/// What views without a run show is never deleted unasked.
#[test]
pub(crate) fn last_run_of_each_command_and_last_number_of_each_case_are_kept() {
    let ids = ["0000000000000091", "0000000000000082", "0000000000000073", "0000000000000064"];
    let parts: [&[u64]; 4] = [&[0, 1, 2], &[1], &[0], &[0]];
    let runs: Vec<_> = ids.iter().zip(parts).map(|(id, it)| (*id, it, "here", "6.1")).collect();
    let (_folder, _place, mut store) = store_of(&[runs[0], runs[1], runs[2], runs[3]]);
    let change = |store: &mut Store, id, asked: &[&str], procedure: Option<&str>| {
        let mut run = store.document(id, false).unwrap().run;
        run.asked = asked.iter().map(|&word| word.to_owned()).collect();
        run.procedure = procedure.map(str::to_owned);
        store.update_run(&run).unwrap();
    };
    change(&mut store, ids[0], &[], None);
    change(&mut store, ids[1], &["cpu"], None);
    change(&mut store, ids[2], &["cpu"], None);
    change(&mut store, ids[3], &[], Some("file capacity"));
    let old = |store: &Store| store.old_runs(&Keep::Newest(0)).unwrap().len();
    assert_eq!(old(&store), 0, "the second has the last number of case 1");
    change(&mut store, ids[2], &[], Some("file capacity"));
    assert_eq!(old(&store), 1, "of two runs of one command the first");
    change(&mut store, ids[2], &[], Some("file contend"));
    assert_eq!(old(&store), 0, "of another command");
}

#[test]
pub(crate) fn metrics_of_a_group_are_listed_once() {
    let (_folder, path) = example::new_place();
    let mut store = Store::open(&path).unwrap();
    let mut document = example::head("00000000000000b1");
    let ids = ["bench.sort", "benchmark.x", "bench.a", "bench.sort", "import.go.parse"];
    document.records = (0..).zip(ids).map(|(number, id)| own(number, id)).collect();
    store.import(&document).unwrap();
    assert_eq!(store.metrics_of("bench").unwrap(), ["bench.a", "bench.sort"]);
    assert_eq!(store.metrics_of("import").unwrap(), ["import.go.parse"]);
    assert!(store.metrics_of("os").unwrap().is_empty());
}

pub(crate) fn own(number: u64, id: &str) -> fathom_record::Record {
    let metric = fathom_record::MetricId::new(id);
    fathom_record::Record { metric, ..example::record(number) }.sealed()
}
