//! Which run a command takes when none is named, and the results of others beside it.

use fathom_probes::REGISTRY;
use fathom_record::{KINDS, RunState, kind};

use crate::test_env::{
    ProgramTestEnv, assert_contains, assert_failure, assert_usage_error, json, stored_run, text,
};

#[test]
fn kind_of_every_command_has_a_name() {
    for command in REGISTRY.commands() {
        assert!(KINDS[2..].contains(&kind(Some(command.path))), "{}", command.path);
    }
}

#[test]
fn older_store_is_migrated_once_unless_refused() {
    let env = ProgramTestEnv::new();
    let sql = include_str!("../../../store/tests/golden/version-4.sql");
    let connection = rusqlite::Connection::open(env.store()).expect("a file");
    connection.execute_batch(sql).expect("a store of version 4");
    drop(connection);
    for line in ["show --no-migrate", "show --runs --no-migrate", "import run.json --no-migrate"] {
        std::fs::write(env.file("run.json"), crate::test_env::CANNED).expect("a file");
        assert_failure(&env.exec(line), &["a store of version 4", "omit --no-migrate"]);
    }
    let migrated = env.succeed("show");
    let copy = env.path_text("fathom.db.version-4");
    assert_contains(&text(&migrated.stderr), &["migrated the store to version 6", &copy]);
    let again = env.exec("show --no-migrate");
    let other = "the store has no results of this host; shown is bench-3";
    let said = text(&again.stderr);
    assert!(said.contains(other) && said.lines().count() == 1, "{said}");
    assert_contains(&env.stdout(&format!("show --store {copy}")), &["0000019514ab3c5d"]);
}

#[test]
fn this_host_is_found_by_its_id() {
    let env = ProgramTestEnv::with_run();
    for (number, id, name) in [(2, 'a', "other"), (3, 'b', &*stored_run(1).host.name)] {
        let mut other = stored_run(number);
        (other.host.id, other.host.name) = (Some(id.to_string().repeat(32)), name.to_owned());
        env.store_run(&other);
    }
    let histories: serde_json::Value = json(&env.exec("history cpu.frequency --json"));
    assert_eq!(histories["histories"][0]["host_id"].as_str(), stored_run(1).host.id.as_deref());
    assert_eq!(histories["histories"][0]["series"][0]["points"].as_array().map(Vec::len), Some(1));
}

#[test]
fn chosen_metric_is_of_a_run_that_came_to_its_end() {
    let env = ProgramTestEnv::new();
    let mut cut = stored_run(2);
    cut.run.state = RunState::Interrupted;
    for run in [&stored_run(1), &cut] {
        env.store_run(run);
    }
    let metric = cut.records[0].metric.as_str().to_owned();
    let shown = env.succeed(&format!("show {metric}"));
    assert_contains(&text(&shown.stdout), &[&stored_run(1).run.id]);
    assert_contains(&text(&shown.stderr), &["passed over 1 newer run"]);
    assert_contains(
        &env.stdout(&format!("explain {metric}")),
        &[&format!("in run {}", stored_run(1).run.id)],
    );
}

#[test]
fn list_knows_the_words_of_users() {
    let env = ProgramTestEnv::new();
    for (word, found) in [
        ("io_uring", "--way ring"),
        ("nfs", "--folder"),
        ("throttled", "fathom doctor"),
        ("nginx", "fathom load http"),
        ("copy", "the longer of both"),
        ("thp", "memory.latency.tlb_miss"),
    ] {
        assert_contains(&env.stdout(&format!("list {word}")), &[found]);
    }
    let output = env.run(&["list", "noisy neighbour"]);
    assert_contains(&text(&output.stdout), &["fathom doctor", "fathom show --noisy"]);
    let output = env.run(&["list", "context switch"]);
    assert_contains(&text(&output.stdout), &["os.switch.process"]);
    assert_usage_error(&env.exec("list nonsense"), &["no metric or group is called `nonsense`"]);
}
