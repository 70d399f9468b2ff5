//! Which CPUs there are, which this process may use, and how they hang together: sockets, cores,
//! SMT siblings, kinds of core, NUMA nodes.

use std::collections::{BTreeMap, BTreeSet};

use fathom_record::Host;

use super::tree::{Fact, Tree, keep};
use super::{Sources, cpulist};
use crate::affinity;

const CPUS: &str = "/sys/devices/system/cpu";

pub(super) fn read(sources: &Sources, host: &mut Host) {
    let tree = &sources.tree;
    let online = online(sources);
    let cpus = keep(host, "cpu.logical", online).unwrap_or_default();
    host.cpu.logical = u32::try_from(cpus.len()).unwrap_or(0);
    // Without /proc the system call tells of the first 1024 CPUs.
    let asked = || {
        let cpus = if sources.live { affinity::allowed() } else { Vec::new() };
        (!cpus.is_empty()).then(|| Fact::new(cpus, "sched_getaffinity"))
    };
    let allowed = allowed(tree, &cpus).or_else(asked);
    host.cpu.allowed = keep(host, "cpu.allowed", allowed).unwrap_or_default();
    groups(sources, host, &cpus);
    host.cpu.kinds = keep(host, "cpu.kinds", kinds(tree, &cpus)).unwrap_or_default();
    host.cpu.numa = keep(host, "cpu.numa", nodes(tree)).unwrap_or_default();
}

fn list(tree: &Tree, path: &str) -> Option<Fact<Vec<u32>>> {
    tree.fact(path)?.and_then(|text| cpulist::parse(&text)).filter(|fact| !fact.value.is_empty())
}

fn online(sources: &Sources) -> Option<Fact<Vec<u32>>> {
    list(&sources.tree, &format!("{CPUS}/online")).or_else(|| sources.cpuinfo.cpus())
}

/// CPUs the calling thread may run on. The file names CPUs that are not there, too, so only those
/// online count.
fn allowed(tree: &Tree, online: &[u32]) -> Option<Fact<Vec<u32>>> {
    let key = "Cpus_allowed_list:";
    ["/proc/thread-self/status", "/proc/self/status"].iter().find_map(|path| {
        let text = tree.text(path)?;
        let told = text.lines().find_map(|line| line.strip_prefix(key))?;
        let mut cpus = cpulist::parse(told)?;
        cpus.retain(|cpu| online.is_empty() || online.contains(cpu));
        (!cpus.is_empty()).then(|| Fact::new(cpus, format!("{path}: {key}")))
    })
}

/// Cores, sockets, siblings and whether SMT is on.
fn groups(sources: &Sources, host: &mut Host, online: &[u32]) {
    let (tree, info) = (&sources.tree, &sources.cpuinfo);
    let mut siblings = BTreeSet::new();
    let mut sockets = BTreeSet::new();
    let mut whole = !online.is_empty();
    for cpu in online {
        let topology = format!("{CPUS}/cpu{cpu}/topology");
        let group = list(tree, &format!("{topology}/thread_siblings_list"));
        whole &= group.is_some();
        siblings.extend(group.map(|fact| fact.value));
        // The kernel writes -1 where the firmware does not tell.
        let socket = tree.parsed::<i64>(&format!("{topology}/physical_package_id"));
        sockets.extend(socket.filter(|&id| id >= 0));
    }
    let count = |len: usize| u32::try_from(len).ok().filter(|&count| count > 0);
    let topology = format!("{CPUS}/cpu*/topology");
    let threads = format!("{topology}/thread_siblings_list");
    let cores = whole.then(|| count(siblings.len())).flatten();
    let cores = cores.map(|cores| Fact::new(cores, threads.clone()));
    let cores = cores.or_else(|| info.distinct(&["physical id", "core id"]));
    host.cpu.cores = keep(host, "cpu.cores", cores);
    let packages = count(sockets.len());
    let packages = packages.map(|n| Fact::new(n, format!("{topology}/physical_package_id")));
    let packages = packages.or_else(|| info.distinct(&["physical id"]));
    host.cpu.sockets = keep(host, "cpu.sockets", packages);
    siblings.retain(|group: &Vec<u32>| group.len() > 1);
    let several = (!siblings.is_empty()).then(|| siblings.into_iter().collect::<Vec<_>>());
    let several = several.map(|groups| Fact::new(groups, threads.clone()));
    host.cpu.siblings = keep(host, "cpu.siblings", several).unwrap_or_default();
    let smt = tree.fact(&format!("{CPUS}/smt/active"));
    let smt = smt.and_then(|fact| fact.and_then(|text| flag(&text)));
    let smt = smt.or_else(|| whole.then(|| Fact::new(!host.cpu.siblings.is_empty(), threads)));
    host.cpu.smt = keep(host, "cpu.smt", smt);
}

/// A switch as the kernel writes it.
pub(super) fn flag(text: &str) -> Option<bool> {
    match text {
        "1" => Some(true),
        "0" => Some(false),
        _ => None,
    }
}

/// Kinds of core: the counters of a hybrid x86 CPU have a device for each kind; elsewhere the
/// scheduler's capacity tells them apart. One kind only is no hybrid, and is left out.
fn kinds(tree: &Tree, online: &[u32]) -> Option<Fact<BTreeMap<String, Vec<u32>>>> {
    let devices = ["cpu_core", "cpu_atom", "cpu_lowpower"].iter().filter_map(|device| {
        Some(((*device).to_owned(), list(tree, &format!("/sys/devices/{device}/cpus"))?.value))
    });
    let devices: BTreeMap<String, Vec<u32>> = devices.collect();
    if devices.len() > 1 {
        return Some(Fact::new(devices, "/sys/devices/cpu_*/cpus"));
    }
    let mut capacities = BTreeMap::<String, Vec<u32>>::new();
    for cpu in online {
        let capacity = tree.parsed::<u32>(&format!("{CPUS}/cpu{cpu}/cpu_capacity"))?;
        capacities.entry(format!("capacity {capacity}")).or_default().push(*cpu);
    }
    (capacities.len() > 1).then(|| Fact::new(capacities, format!("{CPUS}/cpu*/cpu_capacity")))
}

/// NUMA nodes. One without CPUs is memory on its own, and stays, with an empty list.
fn nodes(tree: &Tree) -> Option<Fact<BTreeMap<u32, Vec<u32>>>> {
    let folder = "/sys/devices/system/node";
    let mut nodes = BTreeMap::new();
    for name in tree.names(folder) {
        let Some(node) = name.strip_prefix("node").and_then(|id| id.parse().ok()) else {
            continue;
        };
        let text = tree.text(&format!("{folder}/{name}/cpulist"));
        let empty = text.is_none() && tree.exists(&format!("{folder}/{name}/cpulist"));
        if let Some(cpus) = text.as_deref().or(empty.then_some("")).and_then(cpulist::parse) {
            nodes.insert(node, cpus);
        }
    }
    (!nodes.is_empty()).then(|| Fact::new(nodes, format!("{folder}/node*/cpulist")))
}
