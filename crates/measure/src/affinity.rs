//! Which CPU to measure on, and pinning to it.

use fathom_record::Host;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::condition::stat::Stat;
use crate::host::tree::Tree;

/// Pins the calling thread to one CPU.
///
/// # Errors
/// When the CPU does not exist or is not allowed to this process.
pub fn pin(cpu: u32) -> Result<(), rustix::io::Errno> {
    pin_to(&[cpu])
}

/// Confines the calling thread to some CPUs.
///
/// # Errors
/// When none of them exists or is allowed to this process.
pub fn pin_to(cpus: &[u32]) -> Result<(), rustix::io::Errno> {
    let mut set = CpuSet::new();
    for cpu in cpus.iter().filter(|cpu| (**cpu as usize) < CpuSet::MAX_CPU) {
        set.set(*cpu as usize);
    }
    sched_setaffinity(None, &set)
}

/// The CPUs that the calling thread may run on, in ascending order.
pub fn allowed() -> Vec<u32> {
    let Ok(set) = sched_getaffinity(None) else {
        return Vec::new();
    };
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).map(|cpu| cpu as u32).collect()
}

/// A CPU to measure on, and why that one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    pub cpu: u32,
    pub reason: String,
}

/// Chooses the CPU to measure on: of the allowed ones the fast kind of a hybrid CPU, not CPU 0
/// (interrupts go there by default), and the least busy over the last moments.
///
/// `busy` is the share of time each CPU was not idle, as [`busy_shares`] reads it.
pub fn choose(host: &Host, busy: &[(u32, f64)]) -> Option<Choice> {
    let allowed = &host.cpu.allowed;
    if let [only] = allowed.as_slice() {
        return Some(Choice { cpu: *only, reason: "the only CPU this process may use".to_owned() });
    }
    let fast = fast_kind(host);
    let share =
        |cpu: u32| busy.iter().find(|(known, _)| *known == cpu).map_or(0.0, |(_, share)| *share);
    let candidates: Vec<u32> = allowed.iter().copied().filter(|cpu| fast.contains(cpu)).collect();
    let candidates = if candidates.is_empty() { allowed.clone() } else { candidates };
    // A busy share is read over a short while: steps of 20 % are all it can tell.
    let rank = |cpu: &u32| ((share(*cpu) * 5.0) as u32, u32::from(*cpu == 0), u32::MAX - *cpu);
    let cpu = candidates.iter().copied().min_by_key(rank)?;
    let busy = share(cpu) * 100.0;
    let mut reasons = Vec::new();
    if cpu != 0 && candidates.contains(&0) {
        reasons.push("not CPU 0, the first choice of interrupts".to_owned());
    }
    if candidates.len() < allowed.len() {
        reasons.push("of the fast kind of core".to_owned());
    }
    reasons.push(match busy > 20.0 {
        true => format!("the least busy, but {busy:.0} % busy just now: expect noise"),
        false => format!("{busy:.0} % busy just now"),
    });
    Some(Choice { cpu, reason: reasons.join(", ") })
}

/// The CPU for the other end of a work between two: an allowed one that is not an SMT sibling, of
/// the same kind of core and the same NUMA node, as far as there are such.
pub fn partner(host: &Host, cpu: u32) -> Option<u32> {
    let cpu_facts = &host.cpu;
    let siblings: Vec<&Vec<u32>> = cpu_facts.siblings.iter().collect();
    let kinds: Vec<&Vec<u32>> = cpu_facts.kinds.values().collect();
    let nodes: Vec<&Vec<u32>> = cpu_facts.numa.values().collect();
    let together = |sets: &[&Vec<u32>], other: &u32| {
        sets.iter().any(|set| set.contains(&cpu) && set.contains(other))
    };
    let rank = |other: &u32| {
        (
            together(&siblings, other),
            !kinds.is_empty() && !together(&kinds, other),
            !nodes.is_empty() && !together(&nodes, other),
            *other == 0,
            *other,
        )
    };
    host.cpu.allowed.iter().copied().filter(|other| *other != cpu).min_by_key(rank)
}

/// CPUs of the fastest kind on a hybrid CPU; all allowed ones elsewhere. Kinds are named after
/// their counters (`cpu_core`) or by the scheduler's capacity (`capacity 1024`).
pub fn fast_kind(host: &Host) -> Vec<u32> {
    let speed = |kind: &str| match kind.strip_prefix("capacity ") {
        Some(capacity) => capacity.parse().unwrap_or(0),
        None => u32::from(kind == "cpu_core"),
    };
    let fastest = host.cpu.kinds.iter().max_by_key(|(kind, _)| speed(kind));
    fastest.map_or_else(|| host.cpu.allowed.clone(), |(_, cpus)| cpus.clone())
}

/// The share of time each CPU was not idle over `window`, from `/proc/stat`; empty where that
/// cannot be read.
pub fn busy_shares(window: std::time::Duration) -> Vec<(u32, f64)> {
    let tree = Tree::at("/");
    let before = Stat::read(&tree);
    std::thread::sleep(window);
    let shares = Stat::read(&tree).since(&before);
    shares.into_iter().filter_map(|one| Some((one.cpu?, one.busy))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(allowed: &[u32]) -> Host {
        let mut host = Host::default();
        host.cpu.allowed = allowed.to_vec();
        host
    }

    #[test]
    fn one_allowed_cpu_leaves_no_choice() {
        let choice = choose(&host(&[3]), &[]).expect("a CPU");
        assert_eq!(choice.cpu, 3);
        assert!(choice.reason.contains("only"));
    }

    #[test]
    fn cpu_0_is_avoided_unless_the_others_are_busy() {
        let idle = [(0, 0.0), (1, 0.0), (2, 0.0)];
        assert_eq!(choose(&host(&[0, 1, 2]), &idle).map(|choice| choice.cpu), Some(2));
        let others_busy = [(0, 0.0), (1, 0.9), (2, 0.9)];
        assert_eq!(choose(&host(&[0, 1, 2]), &others_busy).map(|choice| choice.cpu), Some(0));
    }

    #[test]
    fn no_cpu_allowed_is_no_choice() {
        assert_eq!(choose(&host(&[]), &[]), None);
    }

    #[test]
    fn on_a_hybrid_cpu_the_fast_kind_is_measured() {
        let mut hybrid = host(&[0, 1, 2, 3]);
        hybrid.cpu.kinds =
            [("cpu_core".to_owned(), vec![0, 1]), ("cpu_atom".to_owned(), vec![2, 3])].into();
        assert_eq!(choose(&hybrid, &[]).map(|choice| choice.cpu), Some(1));
        hybrid.cpu.kinds = [("capacity 1024".to_owned(), vec![0, 1])].into();
        hybrid.cpu.kinds.insert("capacity 446".to_owned(), vec![2, 3]);
        assert_eq!(choose(&hybrid, &[]).map(|choice| choice.cpu), Some(1));
    }

    #[test]
    fn partner_is_another_core_of_the_same_kind() {
        let mut host = host(&[0, 1, 2, 3, 4, 5]);
        assert_eq!(partner(&host, 3), Some(1), "not CPU 0");
        host.cpu.siblings = vec![vec![0, 1], vec![2, 3], vec![4, 5]];
        assert_eq!(partner(&host, 0), Some(2), "no sibling");
        host.cpu.numa = [(0, vec![0, 1, 2, 3]), (1, vec![4, 5])].into();
        assert_eq!(partner(&host, 4), Some(1), "another core sooner than the same node");
        host.cpu.allowed = vec![0, 4, 5];
        assert_eq!(partner(&host, 4), Some(0), "another core sooner than anything");
        host.cpu.kinds =
            [("cpu_core".to_owned(), vec![4]), ("cpu_atom".to_owned(), vec![0])].into();
        host.cpu.allowed = vec![4, 5];
        assert_eq!(partner(&host, 4), Some(5), "a sibling sooner than none");
        host.cpu.allowed = vec![4];
        assert_eq!(partner(&host, 4), None);
    }

    #[test]
    fn a_cpu_that_does_not_exist_cannot_be_pinned_to() {
        assert!(pin(1023).is_err());
        assert!(pin(1_000_000).is_err());
    }
}
