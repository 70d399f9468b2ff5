//! CPUs for the threads of a multi-core metric: one per core, all of the measured core type.

use crate::prelude::*;

/// CPUs in the order in which threads use them: the measured CPU, the second CPU of the visit, then
/// the others, those on the measured CPU's NUMA node first.
pub(crate) fn cpu_order(host: &Host, own: u32, other: Option<u32>) -> Vec<u32> {
    let kind = host.cpu.kinds.values().find(|kind| kind.contains(&own));
    let kind = kind.unwrap_or(&host.cpu.allowed);
    let mut cpus = vec![own];
    let mut rest: Vec<u32> =
        host.cpu.allowed.iter().copied().filter(|cpu| kind.contains(cpu)).collect();
    let elsewhere = |cpu: u32| {
        let nodes = &host.cpu.numa;
        nodes.values().any(|node| node.contains(&own) != node.contains(&cpu))
    };
    rest.sort_by_key(|cpu| (Some(*cpu) != other, elsewhere(*cpu), *cpu));
    for cpu in rest {
        let same_core = |used: &u32| *used == cpu || are_siblings(host, *used, cpu);
        if !cpus.iter().any(same_core) {
            cpus.push(cpu);
        }
    }
    cpus
}

/// The number of allowed cores of the type that is measured by default.
pub(crate) fn core_count(host: &Host) -> usize {
    let fast = affinity::fast_kind(host);
    let own = host.cpu.allowed.iter().copied().find(|cpu| fast.contains(cpu));
    own.or_else(|| host.cpu.allowed.first().copied())
        .map_or(1, |own| cpu_order(host, own, None).len())
}

/// Thread counts to measure: 1 and all cores, with `powers` also the powers of two between them.
pub(crate) fn thread_counts(cores: usize, powers: bool) -> Vec<usize> {
    let mut sizes = vec![1];
    let mut size = 2;
    while powers && size < cores {
        sizes.push(size);
        size *= 2;
    }
    sizes.extend((cores > 1).then_some(cores));
    sizes
}

/// How many of these CPUs share a last-level cache with the one at `index`. The host facts list the
/// cache of the first allowed CPU; assumes that the other caches serve as many CPUs with
/// consecutive numbers.
pub(crate) fn cache_sharers(host: &Host, cpus: &[u32], index: usize) -> usize {
    let shared = host.last_level_cache().map(|cache| cache.shared_by.as_slice()).unwrap_or(&[]);
    let width = shared.len().max(1) as u32;
    let domain = |cpu: u32| match shared.first() {
        Some(first) if shared.contains(&cpu) => (0, *first / width),
        // SMT siblings may have distant numbers: the known list is not always consecutive.
        _ => (1, cpu / width),
    };
    let own = domain(cpus[index]);
    cpus.iter().filter(|cpu| domain(**cpu) == own).count().max(1)
}

fn are_siblings(host: &Host, a: u32, b: u32) -> bool {
    host.cpu.siblings.iter().any(|core| core.contains(&a) && core.contains(&b))
}

#[cfg(test)]
mod tests {
    use fathom_record::host::Cache;

    use super::*;

    fn host(allowed: &[u32]) -> Host {
        let mut host = Host::default();
        host.cpu.allowed = allowed.to_vec();
        host
    }

    #[test]
    fn order_starts_with_measured_cpu_and_uses_core_once() {
        let mut smt = host(&[0, 1, 2, 3, 4, 5, 6, 7]);
        smt.cpu.siblings = vec![vec![0, 4], vec![1, 5], vec![2, 6], vec![3, 7]];
        assert_eq!(cpu_order(&smt, 5, Some(3)), [5, 3, 0, 2]);
        assert_eq!(cpu_order(&smt, 5, Some(1)), [5, 0, 2, 3], "CPU 1 is a sibling of CPU 5");
        assert_eq!(core_count(&smt), 4);
        assert_eq!(cpu_order(&host(&[2]), 2, None), [2]);
        assert_eq!(core_count(&host(&[])), 1);
    }

    #[test]
    fn cpus_of_the_own_node_come_first() {
        let mut two = host(&[0, 1, 2, 3]);
        two.cpu.numa = [(0, vec![0, 1]), (1, vec![2, 3])].into();
        assert_eq!(cpu_order(&two, 3, None), [3, 2, 0, 1]);
    }

    #[test]
    fn hybrid_cpu_uses_one_core_type() {
        let mut hybrid = host(&[0, 1, 2, 3, 4]);
        hybrid.cpu.kinds =
            [("cpu_core".to_owned(), vec![0, 1]), ("cpu_atom".to_owned(), vec![2, 3, 4])].into();
        assert_eq!(cpu_order(&hybrid, 1, Some(0)), [1, 0]);
        assert_eq!(cpu_order(&hybrid, 4, Some(0)), [4, 2, 3], "no performance core");
        assert_eq!(core_count(&hybrid), 2, "performance cores are the default");
    }

    #[test]
    fn thread_counts_are_powers_of_two_and_all() {
        assert_eq!(thread_counts(1, true), [1]);
        assert_eq!(thread_counts(2, true), [1, 2]);
        assert_eq!(thread_counts(12, true), [1, 2, 4, 8, 12]);
        assert_eq!(thread_counts(16, true), [1, 2, 4, 8, 16]);
        assert_eq!(thread_counts(16, false), [1, 16]);
    }

    #[test]
    fn sharers_of_a_cache_are_counted() {
        let mut chiplets = host(&[0, 1, 2, 3, 4, 5, 6, 7]);
        let of = |level, shared_by: &[u32]| Cache {
            level,
            kind: "unified".to_owned(),
            shared_by: shared_by.to_vec(),
            ..Cache::default()
        };
        chiplets.cpu.caches = vec![of(2, &[0]), of(3, &[0, 1, 2, 3])];
        assert_eq!(cache_sharers(&chiplets, &[7, 1, 0, 6, 2], 1), 3);
        assert_eq!(cache_sharers(&chiplets, &[7, 1, 0, 6, 2], 0), 2);
        assert_eq!(cache_sharers(&chiplets, &[7], 0), 1);
        assert_eq!(cache_sharers(&host(&[0, 1]), &[0, 1], 0), 1, "no cache is known");
    }
}
