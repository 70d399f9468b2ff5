//! CPU time of child processes, and CPU time that other programs used.

use rustix::param::clock_ticks_per_second;

/// Monotonic counters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usage {
    /// Involuntary context switches of ended children.
    pub(super) preempted: u64,
    /// CPU time of ended children.
    cpu_ns: u64,
    /// Idle time of the CPUs, if the kernel counts it.
    idle_ns: Option<u64>,
}

impl Usage {
    pub(super) fn now(cpus: &[u32]) -> Self {
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: a zeroed `rusage` is valid, whatever the kernel wrote.
        let usage = unsafe {
            libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
            usage.assume_init()
        };
        let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        Self::from_rusage(&usage, &stat, cpus)
    }

    /// Of the ended children, and the text of `/proc/stat`.
    fn from_rusage(usage: &libc::rusage, stat: &str, cpus: &[u32]) -> Self {
        let ns = |time: libc::timeval| {
            let [seconds, us] =
                [time.tv_sec, time.tv_usec].map(|it| u64::try_from(it).unwrap_or(0));
            1_000_000_000 * seconds + 1000 * us
        };
        let tick_ns = 1_000_000_000 / clock_ticks_per_second();
        Self {
            preempted: u64::try_from(usage.ru_nivcsw).unwrap_or(0),
            cpu_ns: ns(usage.ru_utime) + ns(usage.ru_stime),
            idle_ns: idle_ticks(stat, cpus).map(|ticks| ticks * tick_ns),
        }
    }

    pub(super) fn cpu_ns_since(&self, earlier: &Self) -> u64 {
        self.cpu_ns.saturating_sub(earlier.cpu_ns)
    }

    /// CPU time that was neither idle nor used by the children.
    pub(super) fn lost_ns_since(&self, earlier: &Self, elapsed_ns: f64) -> Option<f64> {
        let idle = self.idle_ns?.saturating_sub(earlier.idle_ns?);
        let ran = self.cpu_ns_since(earlier);
        // Idle time is counted in ticks, so the sum may exceed the elapsed time.
        Some((elapsed_ns - (ran + idle) as f64).max(0.0))
    }
}

/// Idle and iowait ticks of the CPUs in `/proc/stat`; `None` if a CPU is missing or all are 0, as
/// in sandboxes that do not count them.
fn idle_ticks(stat: &str, cpus: &[u32]) -> Option<u64> {
    let of_one = |cpu: &u32| {
        let name = format!("cpu{cpu} ");
        let line = stat.lines().find_map(|line| line.strip_prefix(&name))?;
        // user nice system idle iowait …, proc_stat(5).
        let mut fields = line.split_whitespace().skip(3).map(|field| field.parse::<u64>().ok());
        Some(fields.next()?? + fields.next()??)
    };
    let all: Option<Vec<u64>> = cpus.iter().map(of_one).collect();
    all.map(|ticks| ticks.iter().sum()).filter(|sum| *sum > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str =
        "cpu  9 9 9 900 90 9 9 9\ncpu1 1 2 3 100 10 4 5 6\ncpu12 1 2 3 700 0 4 5 6\n";

    #[test]
    fn idle_time_is_summed_over_the_given_cpus() {
        assert_eq!(idle_ticks(STAT, &[1]), Some(110));
        assert_eq!(idle_ticks(STAT, &[1, 12]), Some(810));
        assert_eq!(idle_ticks(STAT, &[1, 2]), None, "CPU 2 is missing");
        assert_eq!(idle_ticks("cpu1 0 0 0 0 0 0 0 0\n", &[1]), None, "not counted");
    }

    #[test]
    fn preempted_is_the_involuntary_switches() {
        // SAFETY: a zeroed `rusage` is valid.
        let mut children: libc::rusage = unsafe { std::mem::zeroed() };
        (children.ru_nvcsw, children.ru_nivcsw) = (3, 7);
        children.ru_utime = libc::timeval { tv_sec: 2, tv_usec: 500_000 };
        children.ru_stime = libc::timeval { tv_sec: 0, tv_usec: 1 };
        let usage = Usage::from_rusage(&children, STAT, &[1]);
        assert_eq!((usage.preempted, usage.cpu_ns), (7, 2_500_001_000));
        assert_eq!(usage.idle_ns, Some(110 * (1_000_000_000 / clock_ticks_per_second())));
    }

    #[test]
    fn lost_time_is_neither_used_nor_idle() {
        let at = |cpu_ns, idle_ns| Usage { preempted: 0, cpu_ns, idle_ns };
        let lost = |idle| at(700, idle).lost_ns_since(&at(100, Some(50)), 1000.0);
        assert_eq!(lost(Some(150)), Some(300.0));
        assert_eq!(lost(Some(850)), Some(0.0), "ticks are coarse");
        assert_eq!(lost(None), None);
    }
}
