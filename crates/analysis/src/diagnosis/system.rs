//! The environment: virtual machine, container, /proc and /sys, counters, the store.

use super::rule::{Rule, RuleOutcome, Subject};
use fathom_record::Fix;
use fathom_record::condition::QuotaSight;
use fathom_record::diagnosis::Acceptable;
use fathom_record::host::{ID_BY_NAME, NAME_VARIABLE};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "store",
        touches: &["*"],
        effect: "runs are not stored; a run with a named store fails",
        check: store,
    },
    Rule {
        id: "kernel-files",
        touches: &["*"],
        effect: "no quiet CPU can be chosen, and no disturbance is detected",
        check: kernel_files,
    },
    Rule {
        id: "counters",
        touches: &["*"],
        effect: "some noise has an unknown cause",
        check: counters,
    },
    Rule {
        id: "virtual-machine",
        touches: &["*"],
        effect: "times include exits to the hypervisor, and possibly its other guests",
        check: virtual_machine,
    },
    Rule {
        id: "container",
        touches: &["os.*", "file.*", "network.*"],
        effect: "times include seccomp filters, overlay file systems and virtual networks",
        check: container,
    },
    Rule {
        id: "host-id",
        touches: &["*"],
        effect: "after a change of name, the host's earlier runs count as those of another",
        check: host_id,
    },
];

fn store(subject: &Subject<'_>) -> RuleOutcome {
    let Some(place) = &subject.condition.store else {
        return RuleOutcome::unknown("store", "not checked");
    };
    let outcome = match &place.refused {
        None => RuleOutcome::good(format!("{} is writable", place.path)),
        Some(refused) => RuleOutcome::warning(refused.clone()).fix(Fix::KeepElsewhere),
    };
    outcome.from(subject, &["store"])
}

fn kernel_files(subject: &Subject<'_>) -> RuleOutcome {
    let (proc, sys) = (subject.condition.proc_readable, subject.condition.sys_readable);
    let outcome = match (proc, sys) {
        (true, true) => RuleOutcome::good("/proc and /sys are readable"),
        (false, true) => {
            RuleOutcome::severe("/proc cannot be read").fix(Fix::MountProc { and_sys: false })
        }
        (false, false) => RuleOutcome::severe("neither /proc nor /sys can be read")
            .fix(Fix::MountProc { and_sys: true }),
        (true, false) => RuleOutcome::warning("/sys cannot be read")
            .effect("topology, caches, clock source and governor are unknown")
            .fix(Fix::MountSys),
    };
    outcome.read("/proc, /sys")
}

fn counters(subject: &Subject<'_>) -> RuleOutcome {
    let missing = &subject.condition.counters_missing;
    if !subject.condition.proc_readable {
        return RuleOutcome::unknown("disturbance counters", "/proc cannot be read");
    }
    let outcome = match missing.as_slice() {
        [] => RuleOutcome::good("all disturbance counters are available"),
        missing => RuleOutcome::note(format!("not available: {}", missing.join(", "))),
    };
    let boots_with = |parameter: &str| {
        let line = subject.host.kernel_command_line.as_deref().unwrap_or_default();
        line.split_whitespace().any(|word| word == parameter)
    };
    let is_cgroup = subject.condition.throttling.sight == QuotaSight::Unknown;
    let outcome = outcome.fix(match subject.condition.pressure_missing {
        Some(_) if !boots_with("psi=1") => Fix::EnablePressure,
        None if is_cgroup && missing.len() == 1 => Fix::Nothing { why: Acceptable::Setting },
        _ => Fix::Nothing { why: Acceptable::KernelBuild },
    });
    outcome.from(subject, &["counters_missing"])
}

fn virtual_machine(subject: &Subject<'_>) -> RuleOutcome {
    if let Some(by) = subject.host.emulation.as_deref() {
        return RuleOutcome::severe(format!("CPU emulated ({by})"))
            .effect("times are those of the emulator; no view compares them with other runs")
            .from(subject, &["emulation"])
            .nothing_to_do(Acceptable::Nature);
    }
    let outcome = match subject.host.virtualization.as_deref() {
        Some("none") => RuleOutcome::good("no virtual machine"),
        Some(kind @ "qemu") => {
            RuleOutcome::note(format!("virtual machine ({kind}), by KVM or emulation unknown"))
        }
        Some(kind) => RuleOutcome::note(format!("virtual machine ({kind})")),
        None => RuleOutcome::unknown("virtualization", "not in CPUID, DMI or device tree"),
    };
    outcome.from(subject, &["virtualization"]).nothing_to_do(Acceptable::Nature)
}

fn host_id(subject: &Subject<'_>) -> RuleOutcome {
    let origin = subject.host.origins.get("id");
    let outcome = match &subject.host.id {
        None => RuleOutcome::unknown("host id", "no machine-id and no hardware facts"),
        Some(_) if origin.is_some_and(|origin| origin.contains(ID_BY_NAME)) => {
            RuleOutcome::note("no machine-id: runs are identified by the host's name")
                .fix(Fix::SetMachineId)
        }
        Some(_) if origin.is_some_and(|origin| origin.contains(NAME_VARIABLE)) => {
            RuleOutcome::good("by the given name and the hardware")
        }
        Some(_) => RuleOutcome::good("by machine-id"),
    };
    outcome.read("/etc/machine-id")
}

fn container(subject: &Subject<'_>) -> RuleOutcome {
    let outcome = match subject.host.container.as_deref() {
        Some(kind) => RuleOutcome::note(format!("container ({kind})")),
        None if !subject.condition.proc_readable => {
            RuleOutcome::unknown("container", subject.unread("/proc/self"))
        }
        None => RuleOutcome::good("no container detected"),
    };
    outcome.from(subject, &["container"]).nothing_to_do(Acceptable::Nature)
}
