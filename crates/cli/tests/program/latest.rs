//! Which run a command takes when none is named, and the results of others beside it.

use fathom_probes::REGISTRY;
use fathom_record::{Document, KINDS, MetricId, RunState, State, Verdict, kind};

use crate::test_env::{
    TestEnv, assert_contains, assert_failure, assert_status, canned, json, stored_run, text,
    unwrapped_stdout,
};

/// A run of `file read` with one result of its own.
fn file_run(number: usize) -> Document {
    let mut document = stored_run(number);
    document.run.procedure = Some("file read".to_owned());
    document.run.asked = vec!["file read data".to_owned()];
    document.records.truncate(1);
    document.records[0].metric = MetricId::new("file.read.throughput");
    document
}

fn id(number: usize) -> String {
    stored_run(number).run.id
}

#[test]
fn kind_of_every_command_has_a_name() {
    for command in REGISTRY.commands() {
        assert!(KINDS[1..].contains(&kind(Some(command.path))), "{}", command.path);
    }
}

#[test]
fn commands_take_the_latest_battery_and_say_so() {
    let env = TestEnv::with_run();
    let mut battery = stored_run(2);
    battery.records[1].metric = MetricId::new("file.fsync");
    env.store_run(&battery);
    (3..63).for_each(|number| env.store_run(&file_run(number)));
    // Of the battery, with what only newer runs have.
    assert_contains(
        &env.stdout("show file"),
        &[&id(2), "file.fsync", &format!("{}: file", id(62)), "file.read.throughput"],
    );
    let shown = env.exec("show");
    assert_contains(&text(&shown.stdout), &[&format!("run      {}, ", id(2))]);
    let note = format!("latest is {}; passed over 60 newer runs: 60 file", id(2));
    assert_eq!(text(&shown.stderr), format!("fathom: {note}\n"));
    let compared: serde_json::Value = json(&env.exec("compare latest~1 latest --json"));
    assert_eq!(compared["rows"].as_array().map(Vec::len), Some(1));
    let metrics = env.stdout("export --format openmetrics");
    assert_contains(&metrics, &["cpu_frequency", &id(2)]);
    // By metric, however many runs are newer.
    assert_contains(&env.stdout("show cpu.frequency"), &[&id(2)]);
    assert_contains(&env.stdout("explain cpu.frequency"), &[&format!("in run {}", id(2))]);
    assert_contains(&env.stdout("explain file.read.throughput"), &[&id(62)]);
    let of_file = env.exec("show latest:file~1 --json");
    assert_eq!(json::<Document>(&of_file).run.id, id(61));
    assert!(of_file.stderr.is_empty(), "{}", text(&of_file.stderr));
    assert_failure(
        &env.exec("show latest:load"),
        &["find run latest:load: the store has no load run"],
    );
    assert_failure(&env.exec("show latest:cpu"), &["not a run name", "`latest:file`"]);
}

#[test]
fn another_run_than_asked_for_is_said() {
    let env = TestEnv::new();
    env.store_run(&file_run(1));
    let note = format!("fathom: latest is {} (complete file run): the store has no", id(1));
    assert_contains(&text(&env.exec("show").stderr), &[&note, "complete `fathom run`"]);
    assert!(env.exec("show latest:file").stderr.is_empty());
    let mut cut = stored_run(2);
    cut.run.state = RunState::Interrupted;
    env.store_run(&cut);
    let note = format!("latest is {} (interrupted battery run)", id(2));
    assert_contains(&text(&env.exec("show").stderr), &[&note]);
}

#[test]
fn missing_cases_are_filled_from_other_runs() {
    let env = TestEnv::new();
    let mut before = stored_run(1);
    before.records = canned().records;
    env.store_run(&before);
    // Of the last run of a command only.
    (2..4).for_each(|number| env.store_run(&file_run(number)));
    let mut elsewhere = file_run(4);
    elsewhere.host.kernel = "another".to_owned();
    env.store_run(&elsewhere);
    let mut latest = stored_run(5);
    // What is noisy is never replaced.
    latest.records[1].verdict = Verdict { state: State::Noisy, ..Verdict::default() };
    env.store_run(&latest);
    let shown = unwrapped_stdout(&env.exec("show"));
    let older = before.records.iter().filter(|it| it.verdict.shows_number()).count() - 2;
    let of_before = format!("{}, 4 d older: {}: {older} cases", id(1), before.run.asked.join(" "));
    let of_file = format!("{}, 2 d older: file read data: 1 case", id(3));
    assert_contains(&shown, &[&of_before, &of_file]);
    assert!(!shown.contains(&id(2)) && !shown.contains(&id(4)), "{shown}");
    env.stdout("report");
    let page = std::fs::read_to_string(env.file("report.html")).expect("a page");
    assert_contains(&page, &[&format!("from run {}, 2 d older: file read data", id(3))]);
    let alone = json::<Document>(&env.exec("show --json"));
    assert_eq!(alone.records.len(), 2, "JSON is one run");
    for line in ["show --run latest", "show latest"] {
        assert!(!env.stdout(line).contains("older"), "{line}");
    }
    env.stdout("report --run latest");
    let page = std::fs::read_to_string(env.file("report.html")).expect("a page");
    assert!(!page.contains("from run "));
    let metric = unwrapped_stdout(&env.exec("show --run latest cpu.frequency"));
    assert_contains(&metric, &[&id(5), "1 case: "]);
}

#[test]
fn cases_of_a_metric_are_found_in_every_run() {
    let env = TestEnv::new();
    let (mut whole, mut one) = (stored_run(1), stored_run(2));
    whole.records = canned().records;
    one.records = canned().records;
    one.records.retain(|it| it.name() == "os.syscall{call=getppid}");
    assert_eq!(one.records.len(), 1);
    [&whole, &one].iter().for_each(|run| env.store_run(run));
    let shown = unwrapped_stdout(&env.exec("show os.syscall"));
    assert_contains(&shown, &[&id(2), &format!("{}, 24 h older", id(1)), ": 1 case"]);
    let explained = env.stdout("explain os.syscall");
    assert_contains(&explained, &[&format!("in run {}", id(2)), &format!("in run {}", id(1))]);
}

#[test]
fn older_store_is_migrated_once_unless_refused() {
    let env = TestEnv::new();
    let sql = include_str!("../../../store/tests/golden/version-4.sql");
    let connection = rusqlite::Connection::open(env.store()).expect("a file");
    connection.execute_batch(sql).expect("a store of version 4");
    drop(connection);
    for line in ["show --no-migrate", "show --runs --no-migrate", "import run.json --no-migrate"] {
        std::fs::write(env.file("run.json"), crate::test_env::CANNED).expect("a file");
        assert_failure(&env.exec(line), &["a store of version 4", "omit --no-migrate"]);
    }
    let migrated = env.exec("show");
    assert_status(&migrated, 0);
    let copy = env.path_text("fathom.db.version-4");
    assert_contains(&text(&migrated.stderr), &["migrated the store to version 5", &copy]);
    let again = env.exec("show --no-migrate");
    let other = "the store has no results of this host; shown is bench-3";
    let said = text(&again.stderr);
    assert!(said.contains(other) && said.lines().count() == 1, "{said}");
    assert_contains(&env.stdout(&format!("show --store {copy}")), &["0000019514ab3c5d"]);
}

#[test]
fn this_host_is_found_by_its_id() {
    let env = TestEnv::with_run();
    for (number, id, name) in [(2, 'a', "other"), (3, 'b', &*stored_run(1).host.name)] {
        let mut other = stored_run(number);
        (other.host.id, other.host.name) = (Some(id.to_string().repeat(32)), name.to_owned());
        env.store_run(&other);
    }
    let histories: serde_json::Value = json(&env.exec("history cpu.frequency --json"));
    assert_eq!(histories[0]["host_id"].as_str(), stored_run(1).host.id.as_deref());
    assert_eq!(histories[0]["series"][0]["points"].as_array().map(Vec::len), Some(1));
}
