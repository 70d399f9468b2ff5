//! The report of `fathom doctor` at various terminal widths.

use fathom_record::diagnosis::{Acceptable, ClockState, DIAGNOSIS_SCHEMA_VERSION};
use fathom_record::{Condition, Diagnosis, Finding, Fix, Severity, Tool};
use fathom_report::{TriedRemedies, doctor};

use crate::assert_snapshot;
use crate::fixture::{assert_fits, host, plain};

fn finding(id: &str, severity: Severity, found: &str) -> Finding {
    Finding {
        id: id.to_owned(),
        severity,
        found: found.to_owned(),
        read_at: vec![format!("/sys/{id}")],
        touches: vec!["*".to_owned()],
        effect: "the effect on numbers".to_owned(),
        remedy: match severity {
            Severity::Good => None,
            _ => Some(Fix::Nothing { why: Acceptable::Nature }),
        },
        ..Finding::default()
    }
}

fn findings() -> Vec<Finding> {
    let quota = Finding {
        remedy: Some(Fix::RaiseCpuQuota { file: Some("/sys/fs/cgroup/pod7/cpu.max".to_owned()) }),
        ..finding(
            "cgroup-cpu-quota",
            Severity::Severe,
            "quota 0.40 CPU; throttled in 31 % of 120 periods so far, for 1.5 s",
        )
    };
    let governor = Finding {
        touches: vec!["cpu.*".to_owned(), "os.*".to_owned()],
        remedy: Some(Fix::SetGovernor),
        ..finding("cpu-governor", Severity::Warning, "powersave, intel_pstate")
    };
    let unknown = Finding {
        unknown: true,
        ..finding("cpu-boost", Severity::Note, "unknown: whether boost is enabled, because …")
    };
    let young = Finding {
        remedy: Some(Fix::WaitAfterBoot),
        ..finding("uptime", Severity::Warning, "booted 30 s ago")
    };
    vec![
        quota,
        governor,
        young,
        unknown,
        finding("virtual-machine", Severity::Note, "a virtual machine (kvm)"),
        finding("memory-available", Severity::Good, "7.0 GiB of 7.6 GiB"),
        finding("swap", Severity::Good, "none"),
    ]
}

pub(crate) fn diagnosis(least: Severity) -> Diagnosis {
    let findings: Vec<Finding> =
        findings().into_iter().filter(|finding| finding.severity <= least).collect();
    let condition = Condition {
        cpu: Some(1),
        cpu_reason: "0 % busy, not CPU 0, fewest interrupts".to_owned(),
        ..Condition::default()
    };
    Diagnosis {
        schema: DIAGNOSIS_SCHEMA_VERSION,
        tool: Tool::fixture(),
        examined: "2026-03-01T12:00:00Z".to_owned(),
        severity: fathom_analysis::diagnosis::worst(&findings),
        findings,
        host: host(),
        condition,
        clock: ClockState::default(),
    }
}

#[test]
fn diagnosis_at_80_columns() {
    assert_snapshot(
        "diagnosis_at_80_columns.txt",
        &plain(&doctor(
            &diagnosis(Severity::Severe),
            (80, false, true),
            None,
            &TriedRemedies::default(),
        )),
    );
}

#[test]
fn diagnosis_at_140_columns_with_good_findings() {
    assert_snapshot(
        "diagnosis_at_140_columns_with_good_findings.txt",
        &plain(&doctor(
            &diagnosis(Severity::Severe),
            (140, true, true),
            None,
            &TriedRemedies::default(),
        )),
    );
}

#[test]
fn conclusion_names_the_worst_findings_and_a_remedy() {
    let first = |least| {
        let text =
            plain(&doctor(&diagnosis(least), (200, false, true), None, &TriedRemedies::default()));
        text.split_once("\n\n").unwrap().0.to_owned()
    };
    let good = "This machine is fit for measurements.\nNext: `fathom run`";
    assert_eq!([Severity::Good, Severity::Note].map(first), [good, good]);
    let selected = plain(&doctor(
        &diagnosis(Severity::Good),
        (200, false, false),
        None,
        &TriedRemedies::default(),
    ));
    assert!(selected.starts_with("No warning by the selected rules.\nNext: `fathom doctor`\n\n"));
    let warned = first(Severity::Warning);
    assert!(warned.contains("cpu-governor, uptime") && warned.contains("cpupower"), "{warned}");
    let severe = first(Severity::Severe);
    assert!(
        severe.contains("few valid numbers") && severe.contains("cgroup-cpu-quota"),
        "{severe}"
    );
    assert!(!severe.contains("cpu-governor"), "only the worst: {severe}");
}

#[test]
fn diagnosis_fits_the_width_without_escape_codes() {
    let mut diagnosis = diagnosis(Severity::Severe);
    diagnosis.findings[0].found += "\u{1b}[2J";
    diagnosis.findings[0].read_at = vec!["/sys/".to_owned() + &"deep/".repeat(60)];
    for width in [0, 60, 80, 110, 140] {
        for all in [false, true] {
            let text =
                plain(&doctor(&diagnosis, (width, all, true), None, &TriedRemedies::default()));
            assert_fits(&text, width);
        }
    }
}
