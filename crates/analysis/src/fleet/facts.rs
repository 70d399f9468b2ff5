//! Facts in which a host differs from most of its group. They need no measurement.

use std::collections::{BTreeMap, BTreeSet};

use fathom_record::Host;
use serde::Serialize;

use super::HOSTS_MIN;
use super::groups::{Hardware, multiset};
use crate::differences::{facts, size};

/// Of the hosts that know a fact, so many per cent have its usual value, or it has none: every
/// host has a name of its own, and half may have one kernel and half another.
const USUAL_PERCENT: usize = 80;

/// A fact of a host that most others have otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OddFact {
    /// The fact, such as `kernel`.
    pub fact: String,
    pub value: String,
    /// The value of at least 80 % of the group.
    pub usual: String,
    /// Hosts with the usual value.
    pub hosts: usize,
    /// Hosts of which the fact is known.
    pub of: usize,
}

/// Known facts by name.
pub(super) type Facts = BTreeMap<String, String>;

/// All known facts of a host.
pub(super) fn facts_of(host: &Host, hardware: &Hardware) -> Facts {
    let known = |(name, value): (&str, Option<String>)| Some((name.to_owned(), value?));
    // Total memory differs by what kernels reserve: that of the group is compared.
    let settings = facts(host).into_iter().filter(|(name, _)| *name != "memory");
    let all = settings.chain(hardware_facts(host, hardware)).filter_map(known);
    let none = |(name, value): (String, String)| match value.is_empty() {
        true => (name, "none".to_owned()),
        false => (name, value),
    };
    all.chain(host.mitigations.clone()).map(none).collect()
}

fn hardware_facts(host: &Host, hardware: &Hardware) -> Vec<(&'static str, Option<String>)> {
    let cpu = &host.cpu;
    let nodes = hardware.cores_of_nodes.iter().map(|cores| format!("{cores} cores"));
    let speeds = host.memory.modules.iter().filter_map(|module| module.transfers_per_s);
    let speeds = speeds.map(|rate| format!("{:.0} MT/s", rate / 1e6));
    let up = || host.network.iter().filter(|link| link.up != Some(false));
    let rates = up().filter_map(|link| Some(format!("{} Gbit/s", link.bits_per_s? as f64 / 1e9)));
    let drivers = host.network.iter().filter_map(|link| link.driver.clone());
    let buses = host.links.iter().filter_map(|link| {
        let rate = link.transfers_per_s? / 1e9;
        Some(format!("{} {rate} GT/s × {}", link.kind, link.lanes?))
    });
    vec![
        ("CPU stepping", cpu.stepping.map(|stepping| stepping.to_string())),
        ("sockets", cpu.sockets.map(|sockets| sockets.to_string())),
        ("NUMA nodes", multiset(nodes)),
        ("memory", size(hardware.memory_bytes)),
        ("memory modules", hardware.modules.clone()),
        ("memory speed", multiset(speeds)),
        ("link speed", multiset(rates)),
        ("NIC driver", multiset(drivers)),
        ("bus links", multiset(buses)),
    ]
}

/// The usual value of each fact of a group that has one, how many hosts have it, and how many have
/// any.
pub(super) type UsualFacts<'f> = BTreeMap<&'f String, (&'f String, usize, usize)>;

pub(super) fn usual_facts<'f>(group: &[&'f Facts]) -> UsualFacts<'f> {
    let names: BTreeSet<&String> = group.iter().flat_map(|facts| facts.keys()).collect();
    names.into_iter().filter_map(|fact| Some((fact, usual(fact, group)?))).collect()
}

/// What of `host` differs from the usual values of its group.
pub(super) fn odd_facts(host: &Facts, group: &UsualFacts<'_>) -> Vec<OddFact> {
    let odd = |(fact, value): (&String, &String)| {
        let &(usual, hosts, of) = group.get(fact)?;
        (usual != value && of >= HOSTS_MIN).then(|| OddFact {
            fact: fact.clone(),
            value: value.clone(),
            usual: usual.clone(),
            hosts,
            of,
        })
    };
    host.iter().filter_map(odd).collect()
}

/// The usual value of a fact, how many hosts have it, and how many have any.
fn usual<'f>(fact: &str, group: &[&'f Facts]) -> Option<(&'f String, usize, usize)> {
    let mut counts: BTreeMap<&String, usize> = BTreeMap::new();
    group
        .iter()
        .filter_map(|facts| facts.get(fact))
        .for_each(|it| *counts.entry(it).or_default() += 1);
    let of = counts.values().sum::<usize>();
    let (value, hosts) = counts.into_iter().max_by_key(|(_, count)| *count)?;
    (100 * hosts >= USUAL_PERCENT * of).then_some((value, hosts, of))
}

/// What divides a group as its numbers do: facts with one usual value in `part` and another in the
/// `rest`.
pub(super) fn dividing(part: &[&Facts], rest: &[&Facts]) -> Vec<OddFact> {
    let names = part.iter().flat_map(|facts| facts.keys());
    let names: BTreeSet<&String> = names.collect();
    let divides = |fact: &String| {
        let ((value, ..), (usual, hosts, of)) = (usual(fact, part)?, usual(fact, rest)?);
        (value != usual).then(|| OddFact {
            fact: fact.clone(),
            value: value.clone(),
            usual: usual.clone(),
            hosts,
            of,
        })
    };
    names.into_iter().filter_map(divides).collect()
}
