//! Golden cases: what the program prints, one file a screen in `tests/golden/`. A line `$ …` is a
//! command of a shell; below it are its standard output, its standard error after `! `, and its
//! exit status after `? `, unless it is 0. To add a case, add its command. To update all files:
//! `SNAPSHOTS=overwrite cargo test -p fathom --test program golden::`.

use std::fs;
use std::path::Path;
use std::process::Command;

use fathom_record::{Basis, Cause, Document, Interval, State, Stratum, Verdict};
use snapbox::{Assert, Data};

use crate::test_env::{CANNED, ProgramTestEnv, canned, path_text, text};

/// Runs the commands of a file one after another and compares it with what they print.
fn assert_golden(env: &ProgramTestEnv, name: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    let golden = fs::read_to_string(&file).expect("a golden file");
    let commands = golden.lines().filter_map(|line| line.strip_prefix("$ "));
    let printed: String = commands.map(|line| transcript(env, line)).collect();
    // On another machine, the runs of this one would be of another host.
    let is_here = |id: String| printed.contains(&id[..8]);
    let has_own = fathom_measure::host::read().id.is_some_and(is_here);
    assert!(!has_own, "{name}: record such runs with an id that no machine has");
    let golden = Data::read_from(&file, None);
    // `[..]` in a golden file is any text: facts of the machine.
    Assert::new().normalize_paths(false).action_env("SNAPSHOTS").eq(printed, golden);
}

/// A command and all that it prints, which depends on no setting of the caller.
fn transcript(env: &ProgramTestEnv, line: &str) -> String {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", line]).current_dir(env.path()).env_clear().env("COLUMNS", "80");
    let programs = Path::new(env!("CARGO_BIN_EXE_fathom")).parent().expect("a folder");
    shell.env("PATH", format!("{}:/usr/bin:/bin", path_text(programs)));
    shell.env("HOME", env.path()).env("FATHOM_STORE", env.store());
    let output = shell.output().expect("a shell");
    let mut all = format!("$ {line}\n{}", text(&output.stdout));
    text(&output.stderr).lines().for_each(|line| all += &format!("! {line}\n"));
    match output.status.code() {
        Some(0) => {}
        code => all += &format!("? {}\n", code.expect("a status")),
    }
    all.replace(path_text(env.path()), "[HERE]")
}

/// With the canned run, also in `run.json`, and two comparable runs in `a.json` and `b.json`.
fn env_with_runs() -> ProgramTestEnv {
    let env = ProgramTestEnv::new();
    env.store_run(&canned());
    fs::write(env.file("run.json"), CANNED).expect("a file");
    env.write_document("a.json", &comparable("0123456789abcdea", [1.0; 7]));
    let factors = [0.8, 1.0, 0.9, 1.0, 1.2, 1.0, 1.0];
    env.write_document("b.json", &comparable("0123456789abcdeb", factors));
    for (at, factor) in [(1, 1.0), (2, 0.8), (3, 1.1)] {
        let mut host = comparable(&format!("0123456789abcdf{at}"), [factor; 7]);
        host.host.name = format!("vm{at}");
        host.host.id = Some(at.to_string().repeat(32));
        for summary in host.records.iter_mut().filter_map(|record| record.summary.as_mut()) {
            let ends = summary.limits().map(|ends| ends.map(|end| end * factor));
            summary.interval = ends.map(|ends| Interval::new(ends, 0.95, Basis::Processes));
        }
        env.write_document(&format!("vm{at}.json"), &host);
    }
    let mut invalid = comparable("0123456789abcdec", factors);
    let wrong = || Verdict::because(State::Invalid, Cause::WrongWork, "wrong work");
    invalid.records.iter_mut().for_each(|record| record.verdict = wrong());
    env.write_document("invalid.json", &invalid);
    env
}

/// The canned run with ten processes, and each result times a factor.
fn comparable(id: &str, factors: [f64; 7]) -> Document {
    let mut document = canned();
    document.run.id = id.to_owned();
    for (record, factor) in document.records.iter_mut().zip(factors) {
        let Some(summary) = &mut record.summary else { continue };
        (summary.stratum, summary.in_state, summary.as_found) = (Stratum::AsFound, None, None);
        summary.median *= factor;
        let medians = (0..10).map(|at| summary.median * (1.0 + 0.001 * (f64::from(at) - 4.5)));
        summary.process_medians = medians.collect();
    }
    document
}

#[test]
fn brief_run_fits_24_rows() {
    let env = env_with_runs();
    let mut battery = canned();
    battery.run.asked.clear();
    env.write_document("battery.json", &battery);
    assert_golden(&env, "brief.txt");
}

fn env_with_batteries() -> ProgramTestEnv {
    env_with(["quick-1.json.gz", "quick-2.json.gz"])
}

fn env_with(files: [&str; 2]) -> ProgramTestEnv {
    let env = ProgramTestEnv::new();
    for name in files {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
        fs::copy(file, env.file(name)).expect("a copy");
    }
    env
}

/// A run in which every field has a value, and the same with another host at the far end.
#[test]
fn run_with_two_hosts_is_shown_and_compared() {
    let env = ProgramTestEnv::new();
    let mut run = Document::fixture();
    // An upper bound cannot be compared.
    for summary in run.records.iter_mut().filter_map(|record| record.summary.as_mut()) {
        summary.bound = None;
    }
    env.write_document("this.json", &run);
    run.run.id = "000001951faaaaaa".to_owned();
    run.far[0].host.id = Some("c".repeat(32));
    env.write_document("other.json", &run);
    assert_golden(&env, "two_hosts.txt");
}

fn copy_runs_of_commands(env: &ProgramTestEnv) {
    let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/by-hand.tar.gz");
    fs::copy(runs, env.file("by-hand.tar.gz")).expect("a copy");
}

#[test]
fn latest_is_a_battery_and_others_fill_it() {
    let env = env_with_runs();
    copy_runs_of_commands(&env);
    assert_golden(&env, "latest.txt");
}

/// A run of each command that measures files, transfers and servers, in its views.
#[test]
fn runs_of_commands_are_shown() {
    let env = ProgramTestEnv::new();
    copy_runs_of_commands(&env);
    assert_golden(&env, "by_hand.txt");
}

#[test]
fn unusable_store_measures_and_warns() {
    let env = ProgramTestEnv::new();
    drop(fathom_store::Store::open(&env.file("newer.db")).expect("a store"));
    let newer = rusqlite::Connection::open(env.file("newer.db")).expect("a store");
    let version = fathom_store::VERSION + 1;
    newer.pragma_update(None, "user_version", version).expect("a newer store");
    drop(newer);
    assert_golden(&env, "stores.txt");
}

/// A test for each row: what the environment has, and the file with the commands.
macro_rules! golden {
    ($($(#[$what:meta])* $name:ident: $env:expr, $file:literal;)+) => {
        $($(#[$what])* #[test] fn $name() { assert_golden(&$env, $file); })+
    };
}

golden! {
    run_is_shown: env_with_runs(), "show.txt";
    /// Two whole runs that were recorded, in all views.
    battery_is_shown_compared_and_explained: env_with_batteries(), "battery.txt";
    /// Beside published machines, and beside limits of the user.
    battery_is_placed_and_checked: env_with_batteries(), "typical.txt";
    metric_is_explained: env_with_runs(), "explain.txt";
    runs_are_compared: env_with_runs(), "compare.txt";
    /// Of one machine whose core others used meanwhile.
    busy_runs_are_compared: env_with(["busy-1.json.gz", "busy-2.json.gz"]), "busy.txt";
    run_is_exported: env_with_runs(), "export.txt";
    export_replaces_only_with_force: env_with_runs(), "export_files.txt";
    gate_is_the_first_line_and_the_exit_status: env_with_runs(), "gate.txt";
    doctor_judges_stores_and_limits: ProgramTestEnv::with_run(), "doctor.txt";
    changed_run_is_not_imported: env_with_runs(), "import.txt";
    labels_name_their_runs: env_with_runs(), "labels.txt";
    hosts_are_known_by_their_id: env_with_runs(), "hosts.txt";
    prune_announces_before_it_deletes: env_with_runs(), "prune.txt";
    runs_are_selected: env_with_runs(), "runs.txt";
    usage_errors_are_one_line: ProgramTestEnv::new(), "usage.txt";
    missing_runs_are_named: env_with_runs(), "missing.txt";
    usage_errors_of_file_commands_are_one_line: ProgramTestEnv::new(), "file_usage.txt";
    odd_host_is_shown_on_one_screen: crate::fleet::env_with_odd_host(), "fleet.txt";
    groups_are_checked_and_compared: crate::groups::env_with_two_groups(), "groups.txt";
}
