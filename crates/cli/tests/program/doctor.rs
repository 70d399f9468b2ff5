//! `fathom doctor` on this machine, and under limits of a test. Other processes use the machine at
//! the same time, so that no test expects it to be idle.

use std::process::Output;

use fathom_record::{Diagnosis, Finding, Fix, Severity};

use crate::children::hold_run_mark;
use crate::group::group;
use crate::test_env::{assert_schema, json};
use crate::{ProgramTestEnv, text};

fn diagnosis(output: &Output) -> Diagnosis {
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
    json(output)
}

fn finding_of(output: &Output, id: &str) -> Finding {
    let finding = diagnosis(output).findings.into_iter().find(|finding| finding.id == id);
    finding.expect("every rule has a finding")
}

#[test]
fn exit_status_is_highest_severity() {
    let env = ProgramTestEnv::new();
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
    let env = ProgramTestEnv::new();
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
fn active_run_is_a_warning() {
    let env = ProgramTestEnv::new();
    let _mark = hold_run_mark();
    let output = env.run(&["doctor", "--json"]);
    assert_eq!(finding_of(&output, "another-run").severity, Severity::Warning);
    assert!(matches!(output.status.code(), Some(3 | 4)));
}

#[test]
fn cpu_quota_severity_depends_on_its_size() {
    let env = ProgramTestEnv::new();
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
