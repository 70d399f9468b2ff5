//! CPU topology: online and allowed CPUs, sockets, cores, SMT siblings, kinds of core, NUMA nodes.

use std::collections::{BTreeMap, BTreeSet};

use fathom_record::Host;

use super::{HostSources, cpulist};
use crate::affinity;
use crate::tree::{FileTree, TreeFact, after, flag, keep};

const CPUS: &str = "/sys/devices/system/cpu";

pub(super) fn read(sources: &HostSources, host: &mut Host) {
    let tree = &sources.tree;
    let online = cpulist::read(tree, &format!("{CPUS}/online")).or_else(|| sources.cpuinfo.cpus());
    let cpus = online.as_ref().map_or(Vec::new(), |fact| fact.value.clone());
    keep!(host.cpu.logical, online.and_then(|fact| fact.and_then(|cpus| count(cpus.len()))));
    // Without /proc: the system call.
    let syscall = || TreeFact::unless_empty(affinity::allowed(), "sched_getaffinity");
    keep!(host.cpu.allowed, allowed(tree, &cpus).or_else(|| sources.live.then(syscall)?));
    groups(sources, host, &cpus);
    keep!(host.cpu.kinds, kinds(tree, &cpus));
    keep!(host.cpu.numa, nodes(tree));
    keep!(host.cpu.numa_distances, distances(tree, &host.cpu.numa));
    keep!(host.cpu.isolated, cpulist::read_any(tree, &format!("{CPUS}/isolated")));
    keep!(host.cpu.nohz_full, cpulist::read_any(tree, &format!("{CPUS}/nohz_full")));
}

fn count(len: usize) -> Option<u32> {
    u32::try_from(len).ok().filter(|&count| count > 0)
}

/// The allowed CPUs of the calling thread that are online: the file lists missing CPUs, too.
fn allowed(tree: &FileTree, online: &[u32]) -> Option<TreeFact<Vec<u32>>> {
    let key = "Cpus_allowed_list:";
    ["/proc/thread-self/status", "/proc/self/status"].iter().find_map(|path| {
        let mut cpus = cpulist::parse(after(&tree.text(path)?, key)?)?;
        cpus.retain(|cpu| online.is_empty() || online.contains(cpu));
        TreeFact::unless_empty(cpus, format!("{path}: {key}"))
    })
}

/// Cores, sockets, dies, siblings and whether SMT is on.
fn groups(sources: &HostSources, host: &mut Host, online: &[u32]) {
    let (tree, info) = (&sources.tree, &sources.cpuinfo);
    let mut siblings = BTreeSet::new();
    let mut sockets = BTreeSet::new();
    let mut dies = BTreeSet::new();
    let mut whole = !online.is_empty();
    for cpu in online {
        let topology = format!("{CPUS}/cpu{cpu}/topology");
        let group = cpulist::read(tree, &format!("{topology}/thread_siblings_list"));
        whole &= group.is_some();
        siblings.extend(group.map(|fact| fact.value));
        // The kernel writes -1 for unknown.
        let id = |name| tree.parsed::<i64>(&format!("{topology}/{name}")).filter(|&id| id >= 0);
        let socket = id("physical_package_id");
        sockets.extend(socket);
        // Numbered within a socket.
        dies.extend(socket.zip(id("die_id")));
    }
    let topology = format!("{CPUS}/cpu*/topology");
    let threads = format!("{topology}/thread_siblings_list");
    let cores = count(siblings.len()).filter(|_| whole);
    let cores = cores.map(|cores| TreeFact::new(cores, threads.clone()));
    keep!(host.cpu.cores, cores.or_else(|| info.distinct(&["physical id", "core id"])));
    let packages = count(sockets.len());
    let packages = packages.map(|n| TreeFact::new(n, format!("{topology}/physical_package_id")));
    keep!(host.cpu.sockets, packages.or_else(|| info.distinct(&["physical id"])));
    let dies = count(dies.len()).map(|n| TreeFact::new(n, format!("{topology}/die_id")));
    keep!(host.cpu.dies, dies);
    let several: Vec<Vec<u32>> = siblings.into_iter().filter(|group| group.len() > 1).collect();
    keep!(host.cpu.siblings, TreeFact::unless_empty(several, threads.clone()));
    let by_siblings = || whole.then(|| TreeFact::new(!host.cpu.siblings.is_empty(), threads));
    let smt = tree.value(&format!("{CPUS}/smt/active"), flag).or_else(by_siblings);
    keep!(host.cpu.smt, smt);
}

/// Kinds of core of a hybrid CPU: by PMU device on x86, elsewhere by the scheduler's capacity.
/// `None` for a single kind.
fn kinds(tree: &FileTree, online: &[u32]) -> Option<TreeFact<BTreeMap<String, Vec<u32>>>> {
    let devices = ["cpu_core", "cpu_atom", "cpu_lowpower"].iter().filter_map(|device| {
        let cpus = cpulist::read(tree, &format!("/sys/devices/{device}/cpus"))?;
        Some(((*device).to_owned(), cpus.value))
    });
    let devices: BTreeMap<String, Vec<u32>> = devices.collect();
    if devices.len() > 1 {
        return Some(TreeFact::new(devices, "/sys/devices/cpu_*/cpus"));
    }
    let mut capacities = BTreeMap::<String, Vec<u32>>::new();
    for cpu in online {
        let capacity = tree.parsed::<u32>(&format!("{CPUS}/cpu{cpu}/cpu_capacity"))?;
        capacities.entry(format!("capacity {capacity}")).or_default().push(*cpu);
    }
    (capacities.len() > 1).then(|| TreeFact::new(capacities, format!("{CPUS}/cpu*/cpu_capacity")))
}

const NODES: &str = "/sys/devices/system/node";

/// NUMA nodes, including those with memory only, which have an empty list.
fn nodes(tree: &FileTree) -> Option<TreeFact<BTreeMap<u32, Vec<u32>>>> {
    let nodes = tree.names(NODES).into_iter().filter_map(|name| {
        let node = name.strip_prefix("node")?.parse().ok()?;
        Some((node, cpulist::read_any(tree, &format!("{NODES}/{name}/cpulist"))?.value))
    });
    TreeFact::unless_empty(nodes.collect(), format!("{NODES}/node*/cpulist"))
}

/// Distances of each node to all nodes, as the firmware has them; the kernel lists the same nodes.
fn distances(
    tree: &FileTree,
    nodes: &BTreeMap<u32, Vec<u32>>,
) -> Option<TreeFact<BTreeMap<u32, Vec<u32>>>> {
    let row = |node: &u32| {
        let text = tree.line(&format!("{NODES}/node{node}/distance"))?;
        let row: Option<Vec<u32>> = text.split_whitespace().map(|word| word.parse().ok()).collect();
        row.filter(|row| row.len() == nodes.len()).map(|row| (*node, row))
    };
    let rows: BTreeMap<u32, Vec<u32>> = nodes.keys().map(row).collect::<Option<_>>()?;
    TreeFact::unless_empty(rows, format!("{NODES}/node*/distance"))
}
