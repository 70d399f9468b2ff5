//! CPU topology: SMT siblings, kinds of core, NUMA nodes; mitigations.

use super::rule::{Outcome, Rule, Subject, list, percent};
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

/// As `BUSY_WARNING` of [`super::load`].
const SIBLING_BUSY: f64 = 0.2;

fn smt(subject: &Subject<'_>) -> Outcome {
    let (cpu, paths) = (&subject.host.cpu, ["cpu.smt", "cpu.siblings"]);
    let Some(on) = cpu.smt else {
        return Outcome::unknown("SMT", "no topology in /sys");
    };
    let Some(measured) = subject.condition.cpu else {
        return Outcome::unknown("SMT sibling of the measured CPU", "no CPU could be chosen");
    };
    let set = cpu.siblings.iter().find(|set| set.contains(&measured)).filter(|_| on);
    let Some(set) = set else {
        let guest = subject.host.is_guest();
        let caveat = if guest { " visible to this guest" } else { "" };
        return Outcome::good(format!("CPU {measured} has no SMT sibling{caveat}"))
            .from(subject, &paths);
    };
    let others: Vec<u32> = set.iter().copied().filter(|other| *other != measured).collect();
    let look = subject.condition.look.as_ref();
    let busiest = others
        .iter()
        .filter_map(|other| Some((look?.of(*other)?.busy, *other)))
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let siblings = format!("CPU {measured} shares its core with CPU {}", list(&others));
    let outcome = match busiest {
        Some((share, other)) if share > SIBLING_BUSY => {
            Outcome::warning(format!("{siblings}; CPU {other} is {} busy", percent(share)))
        }
        Some((share, _)) => Outcome::note(format!("{siblings}, {} busy", percent(share))),
        None => Outcome::note(siblings),
    };
    outcome.from(subject, &paths).fix(Fix::TakeSiblingOffline)
}

fn kinds(subject: &Subject<'_>) -> Outcome {
    let cpu = &subject.host.cpu;
    if cpu.kinds.is_empty() {
        return match cpu.logical {
            0 => Outcome::unknown("kinds of core", "no CPU in /sys"),
            _ => Outcome::good("all cores are of one kind").from(subject, &["cpu.logical"]),
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
    Outcome::note(format!("several kinds of core ({}){which}", all.join("; ")))
        .from(subject, &["cpu.kinds"])
        .fix(Fix::ChooseCore)
}

fn numa(subject: &Subject<'_>) -> Outcome {
    let nodes = &subject.host.cpu.numa;
    match nodes.len() {
        0 => Outcome::unknown("NUMA nodes", "not in /sys"),
        1 => Outcome::good("one node").from(subject, &["cpu.numa"]),
        several => {
            let measured = subject.condition.cpu;
            let of = |cpus: &Vec<u32>| measured.is_some_and(|one| cpus.contains(&one));
            let own = nodes.iter().find(|(_, cpus)| of(cpus)).map(|(node, _)| *node);
            let which = own.map_or(String::new(), |node| format!("; a run would use node {node}"));
            Outcome::note(format!("{several} nodes{which}"))
                .from(subject, &["cpu.numa"])
                .fix(Fix::BindMemory { node: own })
        }
    }
}

fn mitigations(subject: &Subject<'_>) -> Outcome {
    let mitigations = &subject.host.mitigations;
    if mitigations.is_empty() {
        return Outcome::unknown("mitigations", "not in /sys");
    }
    let part = |start: &str, label: &str| {
        let chosen = mitigations.iter().filter(|(_, state)| state.starts_with(start));
        let names: Vec<&str> = chosen.map(|(name, _)| name.as_str()).collect();
        (!names.is_empty()).then(|| format!("{label}: {}", names.join(", ")))
    };
    let parts = [part("Mitigation", "mitigated"), part("Vulnerable", "vulnerable")];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let outcome = match parts.is_empty() {
        true => Outcome::good("none needed"),
        false => Outcome::note(parts.join("; ")),
    };
    outcome.from(subject, &["mitigations"]).nothing_to_do(Acceptable::CompareWithSame)
}
