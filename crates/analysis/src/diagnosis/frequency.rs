//! Who decides on the frequency, and within which limits.

use super::rule::{Outcome, Rule, Subject};
use fathom_record::Fix;
use fathom_record::diagnosis::Acceptable;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "cpu-governor",
        touches: &["cpu.*", "os.*", "memory.*"],
        effect: "the frequency follows the load: what begins on an idle core begins slowly",
        look: governor,
    },
    Rule {
        id: "cpu-boost",
        touches: &["cpu.*", "os.*", "memory.*"],
        effect: "the frequency depends on heat and on what the other cores do",
        look: boost,
    },
];

/// A guest's frequency is its host's business.
fn is_guest(subject: &Subject<'_>) -> bool {
    subject.host.virtualization.as_deref().is_some_and(|kind| kind != "none")
}

fn governor(subject: &Subject<'_>) -> Outcome {
    let cpu = &subject.host.cpu;
    let paths = ["cpu.governor", "cpu.frequency_driver"];
    let Some(governor) = cpu.governor.as_deref() else {
        let because = match is_guest(subject) {
            true => "this is a virtual machine, where the host decides on the frequency",
            false => "this kernel has no driver for it, so the firmware decides",
        };
        return Outcome::unknown("the frequency governor", because);
    };
    let driver = cpu.frequency_driver.as_deref().unwrap_or("an unnamed driver");
    let found = format!("{governor}, by {driver}");
    let outcome = match governor {
        "performance" => Outcome::good(found),
        "userspace" => Outcome::note(found)
            .effect("the frequency is what a program set it to")
            .nothing_to_do(Acceptable::OnPurpose),
        _ => Outcome::warning(found).fix(Fix::SetGovernor),
    };
    outcome.from(subject, &paths)
}

fn boost(subject: &Subject<'_>) -> Outcome {
    match subject.host.cpu.boost {
        Some(true) => Outcome::note("allowed: the cores may run above their nominal frequency")
            .from(subject, &["cpu.boost"])
            .nothing_to_do(Acceptable::SeenBySpin),
        Some(false) => Outcome::good("not allowed: the frequency stays within the nominal one")
            .from(subject, &["cpu.boost"]),
        None => {
            let because = match is_guest(subject) {
                true => "the host does not tell its guest",
                false => "the driver of the frequency does not tell",
            };
            Outcome::unknown("whether the cores may boost", because)
        }
    }
}
