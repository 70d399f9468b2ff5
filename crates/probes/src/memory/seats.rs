//! Which CPUs a crew works on: one for each core, all of the kind of the measured one.

use fathom_measure::affinity;
use fathom_record::Host;

/// CPUs in the order in which they join a crew: the measured one, then the other end of works
/// between two, then the rest, those of the measured one's node first.
pub(crate) fn in_order(host: &Host, own: u32, other: Option<u32>) -> Vec<u32> {
    let kind = kind_of(host, own);
    let mut seats = vec![own];
    let mut rest: Vec<u32> =
        host.cpu.allowed.iter().copied().filter(|cpu| kind.contains(cpu)).collect();
    let elsewhere = |cpu: u32| {
        let nodes = &host.cpu.numa;
        nodes.values().any(|node| node.contains(&own) != node.contains(&cpu))
    };
    rest.sort_by_key(|cpu| (Some(*cpu) != other, elsewhere(*cpu), *cpu));
    for cpu in rest {
        let taken = |seat: &u32| *seat == cpu || are_siblings(host, *seat, cpu);
        if !seats.iter().any(taken) {
            seats.push(cpu);
        }
    }
    seats
}

/// How many cores of the kind that is measured by default this process may use.
pub(crate) fn cores(host: &Host) -> usize {
    let fast = affinity::fast_kind(host);
    let own = host.cpu.allowed.iter().copied().find(|cpu| fast.contains(cpu));
    own.or_else(|| host.cpu.allowed.first().copied())
        .map_or(1, |own| in_order(host, own, None).len())
}

/// Numbers of threads to measure: one and all, and the powers of two between them if asked.
pub(crate) fn crew_sizes(cores: usize, powers: bool) -> Vec<usize> {
    let mut sizes = vec![1];
    let mut size = 2;
    while powers && size < cores {
        sizes.push(size);
        size *= 2;
    }
    sizes.extend((cores > 1).then_some(cores));
    sizes
}

/// How many of these CPUs share their last-level cache with the one at `index`. The kernel's list
/// of the first allowed CPU is known; the other caches are taken to be as wide, and to serve cores
/// that follow each other.
pub(crate) fn sharing(host: &Host, cpus: &[u32], index: usize) -> usize {
    let shared = host.last_level_cache().map(|cache| cache.shared_by.as_slice()).unwrap_or(&[]);
    let width = shared.len().max(1) as u32;
    let domain = |cpu: u32| match shared.first() {
        Some(first) if shared.contains(&cpu) => (0, *first / width),
        // SMT siblings may be numbered far apart, so that a domain is not one run of numbers.
        _ => (1, cpu / width),
    };
    let own = domain(cpus[index]);
    cpus.iter().filter(|cpu| domain(**cpu) == own).count().max(1)
}

fn kind_of(host: &Host, own: u32) -> Vec<u32> {
    let kind = host.cpu.kinds.values().find(|kind| kind.contains(&own));
    kind.cloned().unwrap_or_else(|| host.cpu.allowed.clone())
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
    fn the_measured_cpu_comes_first_then_its_partner_and_no_core_twice() {
        let mut smt = host(&[0, 1, 2, 3, 4, 5, 6, 7]);
        smt.cpu.siblings = vec![vec![0, 4], vec![1, 5], vec![2, 6], vec![3, 7]];
        assert_eq!(in_order(&smt, 5, Some(3)), [5, 3, 0, 2]);
        assert_eq!(in_order(&smt, 5, Some(1)), [5, 0, 2, 3], "a partner on the same core is none");
        assert_eq!(cores(&smt), 4);
        assert_eq!(in_order(&host(&[2]), 2, None), [2]);
        assert_eq!(cores(&host(&[])), 1);
    }

    #[test]
    fn the_own_node_is_filled_first() {
        let mut two = host(&[0, 1, 2, 3]);
        two.cpu.numa = [(0, vec![0, 1]), (1, vec![2, 3])].into();
        assert_eq!(in_order(&two, 3, None), [3, 2, 0, 1]);
    }

    #[test]
    fn a_hybrid_cpu_is_measured_by_one_kind() {
        let mut hybrid = host(&[0, 1, 2, 3, 4]);
        hybrid.cpu.kinds =
            [("cpu_core".to_owned(), vec![0, 1]), ("cpu_atom".to_owned(), vec![2, 3, 4])].into();
        assert_eq!(in_order(&hybrid, 1, Some(0)), [1, 0]);
        assert_eq!(in_order(&hybrid, 4, Some(0)), [4, 2, 3], "no core of the other kind");
        assert_eq!(cores(&hybrid), 2, "the fast kind is the one that is chosen by default");
    }

    #[test]
    fn crews_are_one_all_and_powers_of_two_between() {
        assert_eq!(crew_sizes(1, true), [1]);
        assert_eq!(crew_sizes(2, true), [1, 2]);
        assert_eq!(crew_sizes(12, true), [1, 2, 4, 8, 12]);
        assert_eq!(crew_sizes(16, true), [1, 2, 4, 8, 16]);
        assert_eq!(crew_sizes(16, false), [1, 16]);
    }

    #[test]
    fn who_shares_a_cache_is_counted() {
        let mut chiplets = host(&[0, 1, 2, 3, 4, 5, 6, 7]);
        let of = |level, shared_by: &[u32]| Cache {
            level,
            kind: "unified".to_owned(),
            shared_by: shared_by.to_vec(),
            ..Cache::default()
        };
        chiplets.cpu.caches = vec![of(2, &[0]), of(3, &[0, 1, 2, 3])];
        assert_eq!(sharing(&chiplets, &[7, 1, 0, 6, 2], 1), 3);
        assert_eq!(sharing(&chiplets, &[7, 1, 0, 6, 2], 0), 2);
        assert_eq!(sharing(&chiplets, &[7], 0), 1);
        assert_eq!(sharing(&host(&[0, 1]), &[0, 1], 0), 1, "nothing is known to be shared");
    }
}
