//! Properties of all rules together.

use std::collections::BTreeSet;

use fathom_analysis::diagnosis::{rules, worst};
use fathom_record::Severity;

use super::fixture::{FixtureMachine, has_reason, quiet};

#[test]
fn quiet_virtual_machine_has_notes_only() {
    let findings = quiet().findings();
    let loud: Vec<_> = findings.iter().filter(|one| one.severity > Severity::Note).collect();
    assert!(loud.is_empty(), "{loud:?}");
    assert_eq!(worst(&findings), Severity::Note);
    assert_eq!(worst(&[]), Severity::Good);
}

#[test]
fn unknown_facts_are_notes() {
    let findings = FixtureMachine::default().findings();
    assert_eq!(findings.len(), rules().count(), "one finding per rule");
    let severe: BTreeSet<&str> = findings
        .iter()
        .filter(|finding| finding.severity > Severity::Note)
        .map(|finding| finding.id.as_str())
        .collect();
    assert_eq!(severe, BTreeSet::from(["clock-counter", "cpus-allowed", "kernel-files"]));
    assert!(findings.iter().filter(|finding| finding.unknown).all(has_reason), "{findings:?}");
    // Nothing is said of what was not read, neither good nor bad.
    let known = findings.iter().filter(|finding| !finding.unknown);
    assert!(known.clone().all(|finding| severe.contains(finding.id.as_str())), "{findings:?}");
    // Without /proc and /sys, no reason is about a file of theirs.
    let part = |finding: &&fathom_record::Finding| {
        ["/proc/", "/sys/"].iter().any(|mount| finding.found.contains(mount))
    };
    assert_eq!(findings.iter().find(part), None);
}

#[test]
fn findings_are_sorted_by_severity() {
    let mut machine = quiet();
    machine.host.cgroup.cpu_quota = Some(0.4);
    machine.host.aslr = Some(0);
    let findings = machine.findings();
    assert_eq!((findings[0].id.as_str(), findings[1].id.as_str()), ("cgroup-cpu-quota", "aslr"));
    assert!(findings.is_sorted_by_key(|finding| std::cmp::Reverse(finding.severity)));
    assert_eq!(worst(&findings), Severity::Severe);
    let order: Vec<&str> = rules().map(|rule| rule.id).collect();
    let place = |id: &str| order.iter().position(|known| *known == id);
    let good = findings.iter().filter(|finding| finding.severity == Severity::Good);
    assert!(good.map(|finding| place(&finding.id)).is_sorted());
}

#[test]
fn rule_ids_are_unique_and_kebab_case() {
    let ids: BTreeSet<&str> = rules().map(|rule| rule.id).collect();
    assert_eq!(ids.len(), rules().count());
    let kebab = |id: &&str| id.chars().all(|c| c.is_ascii_lowercase() || c == '-');
    assert!(ids.iter().all(kebab), "{ids:?}");
    let groups = ["cpu", "os", "memory", "file", "network", "*"];
    for rule in rules() {
        assert!(!rule.effect.is_empty() && !rule.touches.is_empty(), "{}", rule.id);
        for pattern in rule.touches {
            let group = pattern.split('.').next().unwrap();
            assert!(groups.contains(&group), "{}: {pattern}", rule.id);
        }
    }
}

#[test]
fn findings_above_good_have_a_remedy() {
    let mut machine = quiet();
    machine.host.cpu.governor = Some("powersave".to_owned());
    machine.host.cgroup.cpu_quota = Some(0.4);
    machine.host.uptime_s = Some(5.0);
    machine.condition.another_run = Some(true);
    machine.condition.load_average = Some([50.0; 3]);
    for machine in [machine, quiet(), FixtureMachine::default()] {
        for finding in machine.findings() {
            let is_wanted = finding.severity > Severity::Good && !finding.unknown;
            assert_eq!(finding.remedy.is_some(), is_wanted, "{finding:?}");
            assert!(!finding.effect.is_empty() && !finding.found.is_empty(), "{finding:?}");
        }
    }
}
