//! Groups of hosts with the same hardware: only their numbers are comparable.

use std::collections::{BTreeMap, BTreeSet};

use fathom_record::Host;
use fathom_record::host::Cpu;
use serde::Serialize;

use super::FleetMember;
use crate::differences::size;

/// Total memory of equal hosts differs by what kernel and firmware reserve. The nearest that is
/// more is one of 32 modules that is missing.
const MEMORY_APART: f64 = 1.03;

/// What a group has in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Hardware {
    /// Model of the CPU.
    pub cpu: String,
    /// `none`, `kvm` …; absent where unknown.
    pub virtualization: Option<String>,
    /// Software that emulates the CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub emulation: Option<String>,
    /// Cores of each NUMA node, whether SMT is on or off.
    pub cores_of_nodes: Vec<u32>,
    /// Total memory: the median of hosts within 3 %.
    pub memory_bytes: Option<u64>,
    /// `8 × 32 GiB DDR5`; absent where no host of the group could read them.
    pub modules: Option<String>,
}

impl Hardware {
    fn from_host(host: &Host) -> Self {
        Self {
            cpu: host.cpu.model.clone(),
            virtualization: host.virtualization.clone(),
            emulation: host.emulation.clone(),
            cores_of_nodes: cores_of_nodes(&host.cpu),
            memory_bytes: host.memory.total_bytes,
            modules: modules(host),
        }
    }

    /// Whether facts can be compared, if numbers cannot: a host with a module less is still one of
    /// its kind.
    pub(super) fn is_kin(&self, other: &Self) -> bool {
        let kind = |it: &Self| (it.cpu.clone(), it.virtualization.clone(), it.emulation.clone());
        kind(self) == kind(other)
    }
}

/// `4 × 32 GiB DDR5, 4 × 64 GiB DDR5`; `None` without items.
pub(super) fn multiset(items: impl Iterator<Item = String>) -> Option<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    items.for_each(|item| *counts.entry(item).or_default() += 1);
    let parts: Vec<String> =
        counts.into_iter().map(|(item, count)| format!("{count} × {item}")).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn modules(host: &Host) -> Option<String> {
    multiset(host.memory.modules.iter().map(|module| {
        let size = size(Some(module.size_bytes)).unwrap_or_default();
        module.kind.as_ref().map_or_else(|| size.clone(), |kind| format!("{size} {kind}"))
    }))
}

fn cores_of_nodes(cpu: &Cpu) -> Vec<u32> {
    let cores = |cpus: &Vec<u32>| {
        let threads = cpu.siblings.iter().map(|set| {
            let here = set.iter().filter(|sibling| cpus.contains(sibling)).count();
            here.saturating_sub(1)
        });
        (cpus.len() - threads.sum::<usize>()) as u32
    };
    match cpu.numa.is_empty() {
        true => vec![cpu.cores.unwrap_or(cpu.logical)],
        false => cpu.numa.values().map(cores).collect(),
    }
}

/// The members of each group by index, the largest group first.
pub(super) fn groups(members: &[FleetMember<'_>]) -> Vec<(Hardware, Vec<usize>)> {
    let mut hardware: Vec<Hardware> =
        members.iter().map(|it| Hardware::from_host(it.host())).collect();
    let bare = |it: &Hardware| Hardware { memory_bytes: None, modules: None, ..it.clone() };
    for alike in classes(&hardware, bare) {
        equate_memory(&mut hardware, alike);
    }
    let without_modules = |it: &Hardware| Hardware { modules: None, ..it.clone() };
    for alike in classes(&hardware, without_modules) {
        let known: BTreeSet<String> =
            alike.iter().filter_map(|at| hardware[*at].modules.clone()).collect();
        // Modules are for root to read: members who cannot are taken for those who can, if these
        // agree.
        if known.len() == 1 {
            alike.iter().for_each(|at| hardware[*at].modules = known.first().cloned());
        }
    }
    let mut groups: Vec<_> = classes(&hardware, Hardware::clone)
        .into_iter()
        .map(|group| (hardware[group[0]].clone(), group))
        .collect();
    groups.sort_by_key(|(_, group)| std::cmp::Reverse(group.len()));
    groups
}

/// The indices of those that are alike in something.
fn classes(all: &[Hardware], what: impl Fn(&Hardware) -> Hardware) -> Vec<Vec<usize>> {
    let mut classes: BTreeMap<Hardware, Vec<usize>> = BTreeMap::new();
    for (at, one) in all.iter().enumerate() {
        classes.entry(what(one)).or_default().push(at);
    }
    classes.into_values().collect()
}

/// Gives sizes without a gap between them their median.
fn equate_memory(hardware: &mut [Hardware], mut alike: Vec<usize>) {
    alike.retain(|at| hardware[*at].memory_bytes.is_some());
    alike.sort_by_key(|at| hardware[*at].memory_bytes);
    let bytes = |at: usize| hardware[at].memory_bytes.unwrap_or(0) as f64;
    let is_near = |a: &usize, b: &usize| bytes(*b) <= MEMORY_APART * bytes(*a);
    let medians: Vec<(Vec<usize>, Option<u64>)> = alike
        .chunk_by(is_near)
        .map(|class| (class.to_vec(), hardware[class[class.len() / 2]].memory_bytes))
        .collect();
    for (class, median) in medians {
        class.into_iter().for_each(|at| hardware[at].memory_bytes = median);
    }
}
