//! CPU topology: SMT siblings, kinds of core, isolated CPUs, NUMA nodes; mitigations.

use super::load::BUSY_WARNING;
use super::rule::{Rule, RuleOutcome, Subject, list, percent};
use fathom_record::Fix;
use fathom_record::diagnosis::Acceptable;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "cpu-smt",
        touches: &["cpu.*", "os.*", "memory.*"],
        effect: "the sibling shares execution units and caches with the worker",
        check: smt,
    },
    Rule {
        id: "cpu-kinds",
        touches: &["*"],
        effect: "numbers are for one kind of core only",
        check: kinds,
    },
    Rule {
        id: "cpu-isolated",
        touches: &["*"],
        effect: "the load balancer moves no thread there or away: threads that are not pinned to \
                 one CPU each share the one they start on",
        check: isolated,
    },
    Rule {
        id: "cpu-numa",
        touches: &["memory.*", "file.*", "network.*"],
        effect: "remote memory is slower, and its share may differ between runs",
        check: numa,
    },
    Rule {
        id: "cpu-mitigations",
        touches: &["os.*", "file.*", "network.*"],
        effect: "mitigations add to the cost of system calls and context switches",
        check: mitigations,
    },
];

fn smt(subject: &Subject<'_>) -> RuleOutcome {
    let (cpu, paths) = (&subject.host.cpu, ["cpu.smt", "cpu.siblings"]);
    let Some(on) = cpu.smt else {
        return RuleOutcome::unknown("SMT", subject.unread("/sys/devices/system/cpu"));
    };
    let Some(measured) = subject.condition.cpu else {
        return RuleOutcome::unknown("SMT sibling of the measured CPU", "no CPU could be chosen");
    };
    let set = cpu.siblings.iter().find(|set| set.contains(&measured)).filter(|_| on);
    let Some(set) = set else {
        let guest = subject.host.is_guest();
        let caveat = if guest { " visible to this guest" } else { "" };
        return RuleOutcome::good(format!("CPU {measured} has no SMT sibling{caveat}"))
            .from(subject, &paths);
    };
    let others: Vec<u32> = set.iter().copied().filter(|other| *other != measured).collect();
    let look = subject.condition.look.as_ref();
    let busiest = others
        .iter()
        .filter_map(|other| Some((look?.shares_of(*other)?.busy, *other)))
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let siblings = format!("CPU {measured} shares its core with CPU {}", list(&others));
    let outcome = match busiest {
        Some((share, other)) if share > BUSY_WARNING => {
            RuleOutcome::warning(format!("{siblings}; CPU {other} is {} busy", percent(share)))
        }
        Some((share, _)) => RuleOutcome::note(format!("{siblings}, {} busy", percent(share))),
        None => RuleOutcome::note(siblings),
    };
    outcome.from(subject, &paths).fix(Fix::TakeSiblingOffline)
}

fn kinds(subject: &Subject<'_>) -> RuleOutcome {
    let cpu = &subject.host.cpu;
    if cpu.kinds.is_empty() {
        return match cpu.logical {
            logical if logical > 0 && subject.condition.sys_readable => {
                RuleOutcome::good("all cores are of one kind").from(subject, &["cpu.logical"])
            }
            _ => RuleOutcome::unknown("kinds of core", subject.unread("/sys/devices/system/cpu")),
        };
    }
    let all: Vec<String> =
        cpu.kinds.iter().map(|(kind, cpus)| format!("{kind}: CPU {}", list(cpus))).collect();
    let measured = subject.condition.cpu;
    let own = cpu.kinds.iter().find(|(_, cpus)| measured.is_some_and(|one| cpus.contains(&one)));
    let which = match (measured, own) {
        (Some(one), Some((kind, _))) => format!("; a run would use CPU {one} ({kind})"),
        _ => String::new(),
    };
    RuleOutcome::note(format!("several kinds of core ({}){which}", all.join("; ")))
        .from(subject, &["cpu.kinds"])
        .fix(match own.is_some_and(|(_, own)| cpu.allowed.iter().all(|one| own.contains(one))) {
            // No other kind can be chosen.
            true => Fix::Nothing { why: Acceptable::OnPurpose },
            false => Fix::ChooseCore,
        })
}

fn isolated(subject: &Subject<'_>) -> RuleOutcome {
    let cpu = &subject.host.cpu;
    let paths = ["cpu.isolated", "cpu.nohz_full"];
    let Some(isolated) = cpu.isolated.as_ref() else {
        let because = subject.unread("/sys/devices/system/cpu/isolated");
        return RuleOutcome::unknown("isolated CPUs", because);
    };
    let tickless = cpu.nohz_full.as_ref().filter(|cpus| !cpus.is_empty());
    let tickless = tickless.map_or(String::new(), |it| format!("; nohz_full: CPU {}", list(it)));
    let outcome = match (isolated.is_empty(), subject.condition.cpu) {
        (true, _) => RuleOutcome::good(format!("no isolated CPU{tickless}")),
        (false, Some(one)) if isolated.contains(&one) => RuleOutcome::note(format!(
            "isolcpus: CPU {}{tickless}; a run would use CPU {one}",
            list(isolated)
        )),
        // Allowed by taskset or a cpuset: without them, processes start on the others.
        (false, _) if isolated.iter().any(|one| cpu.allowed.contains(one)) => RuleOutcome::note(
            format!("isolcpus: CPU {}{tickless}, some of them allowed", list(isolated)),
        ),
        (false, _) => RuleOutcome::good(format!("isolcpus: CPU {}{tickless}", list(isolated))),
    };
    outcome.from(subject, &paths).nothing_to_do(Acceptable::OnPurpose)
}

fn numa(subject: &Subject<'_>) -> RuleOutcome {
    let nodes = &subject.host.cpu.numa;
    match nodes.len() {
        0 => RuleOutcome::unknown("NUMA nodes", subject.unread("/sys/devices/system/node")),
        1 => RuleOutcome::good("one node").from(subject, &["cpu.numa"]),
        several => {
            let measured = subject.condition.cpu;
            let of = |cpus: &Vec<u32>| measured.is_some_and(|one| cpus.contains(&one));
            let own = nodes.iter().find(|(_, cpus)| of(cpus)).map(|(node, _)| *node);
            let which = own.map_or(String::new(), |node| format!("; a run would use node {node}"));
            let distances = subject.host.cpu.numa_distances.values().flatten();
            let ends = distances.clone().min().zip(distances.max());
            let far = ends
                .map_or(String::new(), |(least, most)| format!(", distances {least} to {most}"));
            RuleOutcome::note(format!("{several} nodes{far}{which}"))
                .from(subject, &["cpu.numa", "cpu.numa_distances"])
                .fix(Fix::BindMemory { node: own })
        }
    }
}

fn mitigations(subject: &Subject<'_>) -> RuleOutcome {
    let mitigations = &subject.host.mitigations;
    if mitigations.is_empty() {
        let because = subject.unread("/sys/devices/system/cpu/vulnerabilities");
        return RuleOutcome::unknown("mitigations", because);
    }
    let part = |start: &str, label: &str| {
        let chosen = mitigations.iter().filter(|(_, state)| state.starts_with(start));
        let names: Vec<&str> = chosen.map(|(name, _)| name.as_str()).collect();
        (!names.is_empty()).then(|| format!("{label}: {}", names.join(", ")))
    };
    let parts = [part("Mitigation", "mitigated"), part("Vulnerable", "vulnerable")];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let outcome = match parts.is_empty() {
        true => RuleOutcome::good("none needed"),
        false => RuleOutcome::note(parts.join("; ")),
    };
    outcome.from(subject, &["mitigations"]).nothing_to_do(Acceptable::CompareWithSame)
}
