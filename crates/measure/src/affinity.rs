//! Choice of the CPU to measure on, and pinning.

use fathom_record::Host;
use rustix::io::Errno;

use crate::cpulist;
use crate::stat::ProcStat;
use crate::tree::FileTree;

/// A set of CPUs, of as many as a kernel can be built for (`NR_CPUS`). `cpu_set_t` of the C library
/// ends at CPU 1023, and a kernel for more does not write to a shorter one.
#[derive(Clone, Debug)]
pub struct CpuMask([u64; CpuMask::WORDS]);

/// The calling thread, for system calls.
const CALLER: i32 = 0;

impl CpuMask {
    const WORDS: usize = 8192 / u64::BITS as usize;

    /// Without the CPUs that no kernel can have.
    pub fn from_cpus(cpus: &[u32]) -> Self {
        let mut words = [0; Self::WORDS];
        for cpu in cpus {
            if let Some(word) = words.get_mut((cpu / u64::BITS) as usize) {
                *word |= 1 << (cpu % u64::BITS);
            }
        }
        Self(words)
    }

    /// In ascending order.
    pub fn cpus(&self) -> Vec<u32> {
        let has = |cpu: &u32| self.0[(cpu / u64::BITS) as usize] >> (cpu % u64::BITS) & 1 == 1;
        (0..Self::WORDS as u32 * u64::BITS).filter(has).collect()
    }

    /// The CPUs that a thread may run on, by its id.
    ///
    /// # Errors
    /// If the thread does not exist.
    pub fn of_thread(thread: i32) -> Result<Self, Errno> {
        let mut mask = Self::from_cpus(&[]);
        // SAFETY: the kernel writes at most the given size, which is that of the words.
        let answer = unsafe {
            libc::sched_getaffinity(thread, size_of_val(&mask.0), mask.0.as_mut_ptr().cast())
        };
        if answer == 0 { Ok(mask) } else { Err(last_error()) }
    }

    /// Confines a thread, by its id; 0 is the calling one. Async-signal-safe.
    ///
    /// # Errors
    /// If the thread does not exist, or none of the CPUs exists or is allowed.
    pub fn confine(&self, thread: i32) -> Result<(), Errno> {
        // SAFETY: the kernel reads at most the given size, which is that of the words.
        let answer = unsafe {
            libc::sched_setaffinity(thread, size_of_val(&self.0), self.0.as_ptr().cast())
        };
        if answer == 0 { Ok(()) } else { Err(last_error()) }
    }
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)
}

/// Pins the calling thread to one CPU.
///
/// # Errors
/// If the CPU does not exist or is not allowed.
pub fn pin(cpu: u32) -> Result<(), Errno> {
    pin_to(&[cpu])
}

/// Confines the calling thread to some CPUs.
///
/// # Errors
/// If none of them exists or is allowed.
pub fn pin_to(cpus: &[u32]) -> Result<(), Errno> {
    CpuMask::from_cpus(cpus).confine(CALLER)
}

/// The CPUs that the calling thread may run on, in ascending order.
pub fn allowed() -> Vec<u32> {
    CpuMask::of_thread(CALLER).map(|mask| mask.cpus()).unwrap_or_default()
}

/// Why [`pin`] to a CPU that was allowed fails with EINVAL. Without /sys it counts as offline.
pub fn loss(cpu: u32) -> String {
    let online = cpulist::read(&FileTree::at("/"), "/sys/devices/system/cpu/online");
    match online.is_some_and(|online| online.value.contains(&cpu)) {
        true => format!("CPU {cpu} is no longer allowed"),
        false => format!("CPU {cpu} went offline"),
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AffinityChoice {
    pub cpu: u32,
    pub reason: String,
}

/// Chooses the CPU to measure on: the least busy allowed CPU, of the fast kind of a hybrid CPU, and
/// preferably not CPU 0, the default for interrupts.
///
/// `busy` is the utilization of each CPU, as from [`busy_shares`].
pub fn choose(host: &Host, busy: &[(u32, f64)]) -> Option<AffinityChoice> {
    let allowed = &host.cpu.allowed;
    if let [only] = allowed.as_slice() {
        return Some(AffinityChoice { cpu: *only, reason: "the only allowed CPU".to_owned() });
    }
    let fast = fast_kind(host);
    let share = |cpu: u32| busy.iter().find(|(known, _)| *known == cpu).map(|(_, share)| *share);
    let candidates: Vec<u32> = allowed.iter().copied().filter(|cpu| fast.contains(cpu)).collect();
    let candidates = if candidates.is_empty() { allowed.clone() } else { candidates };
    // The sampling interval is short: only differences of 20 % are significant.
    let steps = |cpu: u32| (share(cpu).unwrap_or(0.0) * 5.0) as u32;
    let rank = |cpu: &u32| (steps(*cpu), u32::from(*cpu == 0), u32::MAX - *cpu);
    let cpu = candidates.iter().copied().min_by_key(rank)?;
    let mut reasons = vec![match share(cpu).map(|share| 100.0 * share) {
        Some(used) if used > 20.0 => format!("least busy, but {used:.0} % busy (expect noise)"),
        Some(used) => format!("{used:.0} % busy"),
        None => "utilization unknown".to_owned(),
    }];
    if cpu != 0 && candidates.contains(&0) {
        reasons.push("not CPU 0 (default for interrupts)".to_owned());
    }
    if candidates.len() < allowed.len() {
        reasons.push("fast kind of core".to_owned());
    }
    if host.cpu.isolated.as_ref().is_some_and(|isolated| isolated.contains(&cpu)) {
        reasons.push("isolated (isolcpus)".to_owned());
    }
    Some(AffinityChoice { cpu, reason: reasons.join(", ") })
}

/// The second CPU for work on two: preferably not an SMT sibling, of the same kind of core and on
/// the same NUMA node.
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

/// CPUs of the fastest kind on a hybrid CPU, otherwise all allowed ones. Kinds are named after
/// their counters (`cpu_core`) or by the scheduler's capacity (`capacity 1024`).
pub fn fast_kind(host: &Host) -> Vec<u32> {
    let speed = |kind: &str| match kind.strip_prefix("capacity ") {
        Some(capacity) => capacity.parse().unwrap_or(0),
        None => u32::from(kind == "cpu_core"),
    };
    let fastest = host.cpu.kinds.iter().max_by_key(|(kind, _)| speed(kind));
    fastest.map_or_else(|| host.cpu.allowed.clone(), |(_, cpus)| cpus.clone())
}

/// The utilization of each CPU over `window`, from `/proc/stat`. Empty if that cannot be read.
pub fn busy_shares(window: std::time::Duration) -> Vec<(u32, f64)> {
    let tree = FileTree::at("/");
    let before = ProcStat::read(&tree);
    std::thread::sleep(window);
    let shares = ProcStat::read(&tree).since(&before);
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
    fn cpu_0_is_avoided_unless_the_others_are_busy() {
        let chosen = |allowed: &[u32], busy: &[(u32, f64)]| {
            choose(&host(allowed), busy).map(|choice| choice.cpu)
        };
        assert_eq!(chosen(&[0, 1, 2], &[(0, 0.0), (1, 0.0), (2, 0.0)]), Some(2));
        assert_eq!(chosen(&[0, 1, 2], &[(0, 0.0), (1, 0.9), (2, 0.9)]), Some(0));
        assert_eq!(chosen(&[3], &[]), Some(3));
        assert_eq!(chosen(&[], &[]), None);
    }

    #[test]
    fn reason_states_only_what_is_known() {
        let reason = |host: &Host, busy: &[(u32, f64)]| choose(host, busy).unwrap().reason;
        let two = host(&[0, 1]);
        assert_eq!(reason(&two, &[(1, 0.1)]), "10 % busy, not CPU 0 (default for interrupts)");
        assert!(reason(&two, &[]).starts_with("utilization unknown, "));
        let mut isolated = two.clone();
        isolated.cpu.isolated = Some(vec![1]);
        assert!(reason(&isolated, &[]).ends_with(", isolated (isolcpus)"));
    }

    #[test]
    fn fast_kind_of_a_hybrid_cpu_is_chosen() {
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
        assert_eq!(partner(&host, 0), Some(2), "not the sibling");
        host.cpu.numa = [(0, vec![0, 1, 2, 3]), (1, vec![4, 5])].into();
        assert_eq!(partner(&host, 4), Some(1), "another core before the same node");
        host.cpu.allowed = vec![0, 4, 5];
        assert_eq!(partner(&host, 4), Some(0), "CPU 0 before the sibling");
        host.cpu.kinds =
            [("cpu_core".to_owned(), vec![4]), ("cpu_atom".to_owned(), vec![0])].into();
        host.cpu.allowed = vec![4, 5];
        assert_eq!(partner(&host, 4), Some(5), "only the sibling is left");
        host.cpu.allowed = vec![4];
        assert_eq!(partner(&host, 4), None);
    }

    #[test]
    fn pinning_to_a_missing_cpu_fails() {
        for cpu in [1023, 8191, 8192, 1_000_000] {
            assert_eq!(pin(cpu), Err(Errno::INVAL), "{cpu}");
        }
        assert_eq!(loss(1_000_000), "CPU 1000000 went offline");
        let first = allowed()[0];
        assert_eq!(loss(first), format!("CPU {first} is no longer allowed"));
    }

    #[test]
    fn mask_has_more_than_1024_cpus() {
        let cpus = [0, 63, 64, 1023, 1024, 1500, 8191];
        assert_eq!(CpuMask::from_cpus(&cpus).cpus(), cpus);
        assert_eq!(CpuMask::from_cpus(&[8192, u32::MAX, 5]).cpus(), [5]);
    }
}
