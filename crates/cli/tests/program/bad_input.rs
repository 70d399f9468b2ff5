//! Errors are one line, printed before anything is measured: exit status 2 for an invalid command
//! line, 1 for a missing or unreadable run or file.

use crate::test_env::assert_status;
use crate::{TestEnv, assert_failure, assert_usage_error, text};

#[test]
fn unknown_metric_suggests_nearest() {
    let env = TestEnv::new();
    let output = env.run(&["run", "os.sycall"]);
    assert_usage_error(&output, &["os.sycall", "did you mean `os.syscall`", "fathom list"]);
    assert!(!env.store().exists(), "a usage error creates no store");
    let wrong_value = env.run(&["run", "os.syscall{call=stta}"]);
    assert_usage_error(&wrong_value, &["os.syscall{call=stta}", "no such case", "call = getppid"]);
    assert_usage_error(&env.run(&["list", "memry"]), &["memry"]);
    assert_usage_error(&env.run(&["explain", "cpu.cal"]), &["`cpu.call`"]);
}

#[test]
fn unknown_cpu_lists_allowed_cpus() {
    let env = TestEnv::new();
    assert_usage_error(&env.run(&["run", "--cpu", "9999"]), &["--cpu 9999", "allowed CPUs are"]);
}

#[test]
fn unknown_run_or_missing_store_fails() {
    let env = TestEnv::new();
    assert_failure(&env.run(&["show"]), &["fathom.db"]);
    assert_usage_error(&env.run(&["show", ""]), &["a value is required"]);
    env.short_run();
    for command in ["show", "compare latest", "export"] {
        env.assert_failures(command, "latest~7 | latest~7\n ffffffff | ffffffff | show --runs");
    }
    assert_status(&env.exec("explain cpu.frequency --run ffffffff"), 1);
    assert_failure(&env.run(&["compare", "latest", "nothing.json"]), &["nothing.json"]);
}

#[test]
fn foreign_or_damaged_json_file_fails() {
    let env = TestEnv::new();
    env.short_run();
    let file = env.path().join("run.json");
    let name = file.to_str().expect("a path");
    std::fs::write(&file, "{\"schema\": 1}").expect("a file");
    assert_failure(&env.run(&["compare", name, "latest"]), &["run.json", "fathom run --json"]);
    let good = text(&env.run(&["show", "--json"]).stdout);
    std::fs::write(&file, good.replacen("\"median\": ", "\"median\": 1", 1)).expect("a file");
    assert_failure(&env.run(&["compare", name, "latest"]), &["damaged", "export the run again"]);
}
