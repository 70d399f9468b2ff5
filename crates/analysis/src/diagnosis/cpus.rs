//! What the CPUs are to each other: SMT siblings, kinds of core, NUMA nodes, mitigations in force.

use super::rule::{Outcome, Rule, Subject, list, percent};
use fathom_record::Fix;
use fathom_record::diagnosis::Acceptable;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "cpu-smt",
        touches: &["cpu.*", "os.*", "memory.*"],
        effect: "what runs on the sibling takes execution units and caches from the worker",
        look: smt,
    },
    Rule {
        id: "cpu-kinds",
        touches: &["*"],
        effect: "numbers are of one kind of core only",
        look: kinds,
    },
    Rule {
        id: "cpu-numa",
        touches: &["memory.*", "file.*", "network.*"],
        effect: "memory of another node is further away, and its share may change between runs",
        look: numa,
    },
    Rule {
        id: "cpu-mitigations",
        touches: &["os.*", "file.*", "network.*"],
        effect: "they are part of the cost of entering the kernel and of switching processes",
        look: mitigations,
    },
];

/// A sibling that is busier than this takes from the worker: as [`super::load`] has it.
const SIBLING_BUSY: f64 = 0.2;

fn smt(subject: &Subject<'_>) -> Outcome {
    let (cpu, paths) = (&subject.host.cpu, ["cpu.smt", "cpu.siblings"]);
    let Some(on) = cpu.smt else {
        return Outcome::unknown("whether SMT is on", "/sys tells of no topology");
    };
    let Some(measured) = subject.condition.cpu else {
        return Outcome::unknown("the siblings of the measured CPU", "no CPU could be chosen");
    };
    let set = cpu.siblings.iter().find(|set| set.contains(&measured)).filter(|_| on);
    let Some(set) = set else {
        let guest = subject.host.virtualization.as_deref().is_some_and(|kind| kind != "none");
        let caveat = if guest { ", as far as a guest is told" } else { "" };
        return Outcome::good(format!("CPU {measured} has no SMT sibling{caveat}"))
            .from(subject, &paths);
    };
    let others: Vec<u32> = set.iter().copied().filter(|other| *other != measured).collect();
    let look = subject.condition.look.as_ref();
    let busiest = others
        .iter()
        .filter_map(|other| Some((look?.of(*other)?.busy, *other)))
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let named = format!("CPU {measured} shares its core with CPU {}", list(&others));
    let outcome = match busiest {
        Some((share, other)) if share > SIBLING_BUSY => {
            Outcome::warning(format!("{named}; CPU {other} is {} busy", percent(share)))
        }
        Some((share, _)) => Outcome::note(format!("{named}, {} busy", percent(share))),
        None => Outcome::note(named),
    };
    outcome.from(subject, &paths).fix(Fix::TakeSiblingOffline)
}

fn kinds(subject: &Subject<'_>) -> Outcome {
    let cpu = &subject.host.cpu;
    if cpu.kinds.is_empty() {
        return match cpu.logical {
            0 => Outcome::unknown("whether all cores are of one kind", "/sys tells of none"),
            _ => Outcome::good("all cores are of one kind, as far as the kernel tells")
                .from(subject, &["cpu.logical"]),
        };
    }
    let all: Vec<String> =
        cpu.kinds.iter().map(|(kind, cpus)| format!("{kind}: CPU {}", list(cpus))).collect();
    let measured = subject.condition.cpu;
    let own = cpu.kinds.iter().find(|(_, cpus)| measured.is_some_and(|one| cpus.contains(&one)));
    let which = match (measured, own) {
        (Some(one), Some((kind, _))) => format!("; a run measures CPU {one}, of {kind}"),
        _ => String::new(),
    };
    Outcome::note(format!("several kinds of core ({}){which}", all.join("; ")))
        .from(subject, &["cpu.kinds"])
        .fix(Fix::ChooseCore)
}

fn numa(subject: &Subject<'_>) -> Outcome {
    let nodes = &subject.host.cpu.numa;
    match nodes.len() {
        0 => Outcome::unknown("the NUMA nodes", "/sys does not list them"),
        1 => Outcome::good("one node").from(subject, &["cpu.numa"]),
        several => {
            let measured = subject.condition.cpu;
            let of = |cpus: &Vec<u32>| measured.is_some_and(|one| cpus.contains(&one));
            let own = nodes.iter().find(|(_, cpus)| of(cpus)).map(|(node, _)| *node);
            let which =
                own.map_or(String::new(), |node| format!("; a run measures on node {node}"));
            Outcome::note(format!("{several} nodes{which}"))
                .from(subject, &["cpu.numa"])
                .fix(Fix::BindMemory { node: own })
        }
    }
}

fn mitigations(subject: &Subject<'_>) -> Outcome {
    let told = &subject.host.mitigations;
    if told.is_empty() {
        return Outcome::unknown("the mitigations in force", "/sys does not list them");
    }
    let named = |start: &str| -> Vec<&str> {
        let chosen = told.iter().filter(|(_, state)| state.starts_with(start));
        chosen.map(|(name, _)| name.as_str()).collect()
    };
    let (against, open) = (named("Mitigation"), named("Vulnerable"));
    let mut parts = Vec::new();
    if !against.is_empty() {
        parts.push(format!("against {}", against.join(", ")));
    }
    if !open.is_empty() {
        parts.push(format!("vulnerable to {}", open.join(", ")));
    }
    match parts.is_empty() {
        true => Outcome::good("none, and none needed").from(subject, &["mitigations"]),
        false => Outcome::note(parts.join("; "))
            .from(subject, &["mitigations"])
            .nothing_to_do(Acceptable::CompareWithSame),
    }
}
