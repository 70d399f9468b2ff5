//! `fathom doctor` on this machine, and under limits of a test. Other processes use the machine at
//! the same time, so that no test expects it to be idle.

use std::process::Output;

use fathom_record::{Diagnosis, Finding, Fix, Severity};
use rustix::process::Resource;

use crate::children::hold_run_mark;
use crate::group::group;
use crate::limits::{at_most, under};
use crate::test_env::{assert_schema, entries, json, stored_run};
use crate::{TestEnv, text};

fn diagnosis(output: &Output) -> Diagnosis {
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
    json(output)
}

fn finding_of(output: &Output, id: &str) -> Finding {
    let finding = diagnosis(output).findings.into_iter().find(|finding| finding.id == id);
    finding.expect("every rule has a finding")
}

fn limited(env: &TestEnv, resource: Resource, most: u64) -> Output {
    under(env.command("doctor --json"), at_most(resource, most))
}

#[test]
fn exit_status_is_highest_severity() {
    let env = TestEnv::new();
    let output = env.run(&["doctor", "--json"]);
    let diagnosis = diagnosis(&output);
    let status = match diagnosis.severity {
        Severity::Good | Severity::Note => 0,
        Severity::Warning => 3,
        Severity::Severe => 4,
    };
    assert_eq!(output.status.code(), Some(status), "{:?}", diagnosis.severity);
    assert_eq!(diagnosis.severity, fathom_analysis::diagnosis::worst(&diagnosis.findings));
    assert_eq!(diagnosis.findings.len(), fathom_analysis::diagnosis::rules().count());
    assert!(diagnosis.condition.look.is_some_and(|look| look.length_ns >= 200e6));
    assert!(diagnosis.clock.facts.is_some() && !diagnosis.host.kernel.is_empty());
    let invalid = serde_json::json!({"schema": 1, "findings": [{"id": 7}]});
    assert_schema(&output, include_str!("../../../../docs/doctor.schema.json"), &invalid);
}

#[test]
fn text_fits_terminal_and_names_next_step() {
    let env = TestEnv::new();
    for (columns, arguments) in
        [("80", &["doctor"][..]), ("140", &["doctor", "-a"]), ("60", &["doctor", "--all"])]
    {
        let output = env.fathom(arguments).env("COLUMNS", columns).output().expect("it starts");
        let printed = text(&output.stdout);
        assert!(matches!(output.status.code(), Some(0 | 3 | 4)), "{}", text(&output.stderr));
        let most: usize = columns.parse().expect("a number");
        assert!(printed.lines().all(|line| line.chars().count() <= most), "{printed}");
        assert!(!printed.contains('\u{1b}'));
        assert!(printed.contains("\nNext: "), "{printed}");
        let all = printed.contains("good: nothing to report");
        assert_eq!(all, arguments.len() > 1, "{printed}");
    }
}

#[test]
fn doctor_creates_no_file() {
    let env = TestEnv::new();
    let _ = env.run(&["doctor"]);
    assert!(entries(env.path()).is_empty());
    let output = env.exec(&format!("doctor --json --store {}", env.path_text("a/b/fathom.db")));
    assert_eq!(finding_of(&output, "store").severity, Severity::Warning, "its folder is missing");
    let mut by_default = env.command("doctor --json");
    by_default.env_remove("FATHOM_STORE").env("XDG_DATA_HOME", env.path_text("a/b"));
    let output = by_default.output().expect("it starts");
    assert_eq!(finding_of(&output, "store").severity, Severity::Good);
    assert!(entries(env.path()).is_empty());
}

#[test]
fn unwritable_store_is_a_warning() {
    let env = TestEnv::new();
    std::fs::write(env.path().join("file"), "not a folder").expect("a file");
    let name = env.path_text("file/fathom.db");
    let output = env.run(&["doctor", "--json", "--store", &name]);
    assert!(matches!(output.status.code(), Some(3 | 4)));
    let finding = finding_of(&output, "store");
    assert_eq!(finding.severity, Severity::Warning);
    assert!(finding.found.contains(&name), "{finding:?}");
    let precious = "somebody's text ".repeat(100);
    std::fs::write(env.store(), &precious).expect("a file");
    let output = env.run(&["doctor", "--json"]);
    assert_eq!(finding_of(&output, "store").severity, Severity::Warning);
    assert_eq!(std::fs::read_to_string(env.store()).expect("a file"), precious);
    std::fs::remove_file(env.store()).expect("it is there");
    env.store_run(&stored_run(1));
    assert_eq!(finding_of(&env.run(&["doctor", "--json"]), "store").severity, Severity::Good);
}

#[test]
fn file_and_address_space_limits_are_findings() {
    let env = TestEnv::new();
    let files = limited(&env, Resource::Nofile, 40);
    assert_eq!(files.status.code(), Some(4));
    let finding = finding_of(&files, "limit-files");
    assert_eq!(finding.severity, Severity::Severe);
    assert!(
        finding.found.starts_with("40 files") && finding.remedy == Some(Fix::RaiseFileLimit),
        "{finding:?}"
    );
    let space = limited(&env, Resource::As, 1 << 30);
    assert!(matches!(space.status.code(), Some(3 | 4)));
    let finding = finding_of(&space, "limit-address-space");
    assert_eq!(finding.severity, Severity::Warning);
    assert!(finding.found.starts_with("1.0 GiB"), "{finding:?}");
}

#[test]
fn active_run_is_a_warning() {
    let env = TestEnv::new();
    let _mark = hold_run_mark();
    let output = env.run(&["doctor", "--json"]);
    assert_eq!(finding_of(&output, "another-run").severity, Severity::Warning);
    assert!(matches!(output.status.code(), Some(3 | 4)));
}

#[test]
fn refused_tsc_names_its_replacement() {
    let env = TestEnv::new();
    let mut command = env.fathom(&["doctor", "--json"]);
    let output = command.env("FATHOM_CLOCK", "monotonic_raw").output().expect("it starts");
    let finding = finding_of(&output, "clock-counter");
    assert!(finding.severity > Severity::Good, "{finding:?}");
    assert!(finding.found.contains("FATHOM_CLOCK=monotonic_raw"), "{finding:?}");
    assert!(finding.found.contains("monotonic_raw instead"), "{finding:?}");
}

#[test]
fn cpu_quota_severity_depends_on_its_size() {
    let env = TestEnv::new();
    for (name, quota_us, severity, figure) in [
        ("low", 40_000, Severity::Severe, "0.40 CPU"),
        ("high", 80_000, Severity::Warning, "0.80 CPU"),
    ] {
        let quota = [("cpu.cfs_period_us", 100_000), ("cpu.cfs_quota_us", quota_us)];
        let Some(group) = group("cpu", name, &quota) else { return };
        let output = env.exec_in(&group, "doctor --json");
        let finding = finding_of(&output, "cgroup-cpu-quota");
        assert_eq!(finding.severity, severity, "{finding:?}");
        assert!(finding.found.contains(figure), "{finding:?}");
        let file = group.file("cpu.cfs_quota_us").display().to_string();
        assert!(finding.read_at.contains(&file), "{finding:?}");
        assert_eq!(finding.remedy, Some(Fix::RaiseCpuQuota { file: Some(file) }));
        let status = output.status.code().expect("a status");
        assert!(status == 4 || (severity == Severity::Warning && status == 3), "{status}");
        let folder = group.file("");
        drop(group);
        assert!(!folder.exists(), "the group is left: {}", folder.display());
    }
}
