//! Frequency governor and boost.

use super::rule::{Rule, RuleOutcome, Subject};
use fathom_record::Fix;
use fathom_record::diagnosis::Acceptable;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "cpu-governor",
        touches: &["cpu.*", "os.*", "memory.*"],
        effect: "the frequency follows the load: work on an idle core starts slowly",
        check: governor,
    },
    Rule {
        id: "cpu-boost",
        touches: &["cpu.*", "os.*", "memory.*"],
        effect: "the frequency depends on temperature and on the load of other cores",
        check: boost,
    },
];

fn governor(subject: &Subject<'_>) -> RuleOutcome {
    let cpu = &subject.host.cpu;
    let paths = ["cpu.governor", "cpu.frequency_driver"];
    let Some(governor) = cpu.governor.as_deref() else {
        let because = match subject.host.is_guest() {
            _ if !subject.condition.sys_readable => subject.unread("/sys"),
            true => "virtual machine: the host sets the frequency".to_owned(),
            false => "no cpufreq driver: the firmware sets the frequency".to_owned(),
        };
        return RuleOutcome::unknown("frequency governor", because);
    };
    let driver = cpu.frequency_driver.as_deref().unwrap_or("unknown");
    let found = format!("{governor} (driver {driver})");
    let outcome = match governor {
        "performance" => RuleOutcome::good(found),
        "userspace" => RuleOutcome::note(found)
            .effect("a program sets the frequency")
            .nothing_to_do(Acceptable::OnPurpose),
        _ => RuleOutcome::warning(found).fix(Fix::SetGovernor),
    };
    outcome.from(subject, &paths)
}

fn boost(subject: &Subject<'_>) -> RuleOutcome {
    match subject.host.cpu.boost {
        Some(true) => RuleOutcome::note("on").from(subject, &["cpu.boost"]),
        Some(false) => RuleOutcome::good("off").from(subject, &["cpu.boost"]),
        None if !subject.condition.sys_readable => {
            RuleOutcome::unknown("boost", subject.unread("/sys"))
        }
        None if subject.host.is_guest() => RuleOutcome::unknown("boost", "not visible to a guest"),
        None => RuleOutcome::unknown("boost", "not reported by the cpufreq driver"),
    }
    .nothing_to_do(Acceptable::SeenBySpin)
}
