//! The surroundings: virtual machine, container, what the kernel tells at all, the store's place.

use super::rule::{Outcome, Rule, Subject};
use fathom_record::Fix;
use fathom_record::diagnosis::Acceptable;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "store",
        touches: &["*"],
        effect: "a run is measured and not kept; where the store was named, the run fails",
        look: store,
    },
    Rule {
        id: "kernel-files",
        touches: &["*"],
        effect: "without them no CPU can be chosen and no disturbance is seen",
        look: kernel_files,
    },
    Rule {
        id: "counters",
        touches: &["*"],
        effect: "what they would count stays unknown: some noise has no named cause",
        look: counters,
    },
    Rule {
        id: "virtual-machine",
        touches: &["*"],
        effect: "exits to the hypervisor are in the numbers, and its other guests may be",
        look: virtual_machine,
    },
    Rule {
        id: "container",
        touches: &["os.*", "file.*", "network.*"],
        effect: "system call filters, overlay file systems and virtual networks are in the numbers",
        look: container,
    },
];

fn store(subject: &Subject<'_>) -> Outcome {
    let Some(place) = &subject.condition.store else {
        return Outcome::unknown("where a run would be kept", "it was not asked");
    };
    let outcome = match &place.refused {
        None => Outcome::good(format!("{} can be written", place.path)),
        Some(refused) => Outcome::warning(refused.clone()).fix(Fix::KeepElsewhere),
    };
    outcome.from(subject, &["store"])
}

fn kernel_files(subject: &Subject<'_>) -> Outcome {
    let (proc, sys) = (subject.condition.proc_readable, subject.condition.sys_readable);
    let outcome = match (proc, sys) {
        (true, true) => return Outcome::good("/proc and /sys can be read").read("/proc, /sys"),
        (false, true) => {
            Outcome::severe("/proc cannot be read").fix(Fix::MountProc { and_sys: false })
        }
        (false, false) => Outcome::severe("neither /proc nor /sys can be read")
            .fix(Fix::MountProc { and_sys: true }),
        (true, false) => Outcome::warning("/sys cannot be read")
            .effect("topology, caches, clock source and governor stay unknown")
            .fix(Fix::MountSys),
    };
    outcome.read("/proc, /sys")
}

fn counters(subject: &Subject<'_>) -> Outcome {
    let missing = &subject.condition.counters_missing;
    if !subject.condition.proc_readable {
        return Outcome::unknown("which counters there are", "/proc cannot be read");
    }
    let outcome = match missing.as_slice() {
        [] => Outcome::good("all counters of disturbance are there"),
        missing => Outcome::note(format!("this kernel does not count {}", missing.join(", ")))
            .nothing_to_do(Acceptable::KernelBuild),
    };
    outcome.from(subject, &["counters_missing"])
}

fn virtual_machine(subject: &Subject<'_>) -> Outcome {
    let outcome = match subject.host.virtualization.as_deref() {
        Some("none") => Outcome::good("no virtual machine"),
        Some(kind) => {
            Outcome::note(format!("a virtual machine ({kind})")).nothing_to_do(Acceptable::Nature)
        }
        None => Outcome::unknown("whether this is a virtual machine", "nothing tells"),
    };
    outcome.from(subject, &["virtualization"])
}

fn container(subject: &Subject<'_>) -> Outcome {
    let outcome = match subject.host.container.as_deref() {
        Some(kind) => {
            Outcome::note(format!("in a container ({kind})")).nothing_to_do(Acceptable::Nature)
        }
        None => Outcome::good("no sign of a container"),
    };
    outcome.from(subject, &["container"])
}
