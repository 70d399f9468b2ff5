//! What programs that were run had of their CPUs, and what others took.

use rustix::param::clock_ticks_per_second;

/// Counters that only grow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usage {
    /// How often the programs that have ended lost their CPU to others.
    preempted: u64,
    /// Time that they ran.
    ran_ns: u64,
    /// Time that the CPUs had nothing to do, where the kernel tells.
    idle_ns: Option<u64>,
}

impl Usage {
    pub(super) fn now(cpus: &[u32]) -> Self {
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the kernel fills the structure, or leaves it as it is; all zeroes are valid.
        let usage = unsafe {
            libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
            usage.assume_init()
        };
        let ns = |time: libc::timeval| {
            let [seconds, us] =
                [time.tv_sec, time.tv_usec].map(|it| u64::try_from(it).unwrap_or(0));
            1_000_000_000 * seconds + 1000 * us
        };
        let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let tick_ns = 1_000_000_000 / clock_ticks_per_second();
        Self {
            preempted: u64::try_from(usage.ru_nivcsw).unwrap_or(0),
            ran_ns: ns(usage.ru_utime) + ns(usage.ru_stime),
            idle_ns: idle_ticks(&stat, cpus).map(|ticks| ticks * tick_ns),
        }
    }

    pub(super) fn preempted_since(&self, earlier: &Self) -> u64 {
        self.preempted.saturating_sub(earlier.preempted)
    }

    /// Time of the CPUs that was neither the programs' own nor idle, of all that went by.
    pub(super) fn lost_ns_since(&self, earlier: &Self, went_by_ns: f64) -> Option<f64> {
        let idle = self.idle_ns?.saturating_sub(earlier.idle_ns?);
        let ran = self.ran_ns.saturating_sub(earlier.ran_ns);
        // The kernel counts idle time in ticks: a short program may have had more than there was.
        Some((went_by_ns - (ran + idle) as f64).max(0.0))
    }
}

/// Ticks that CPUs were idle or waited for a device, in `/proc/stat`: none where one is not there,
/// or where all are 0, as where nobody counts.
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
    fn idle_time_is_that_of_the_cpus_asked_for() {
        assert_eq!(idle_ticks(STAT, &[1]), Some(110));
        assert_eq!(idle_ticks(STAT, &[1, 12]), Some(810));
        assert_eq!(idle_ticks(STAT, &[1, 2]), None, "of one nothing is told");
        assert_eq!(idle_ticks("cpu1 0 0 0 0 0 0 0 0\n", &[1]), None, "nobody counts");
    }

    #[test]
    fn what_was_neither_run_nor_idle_is_lost() {
        let at = |ran_ns, idle_ns| Usage { preempted: 0, ran_ns, idle_ns };
        let lost = |idle| at(700, idle).lost_ns_since(&at(100, Some(50)), 1000.0);
        assert_eq!(lost(Some(150)), Some(300.0));
        assert_eq!(lost(Some(850)), Some(0.0), "ticks are coarse");
        assert_eq!(lost(None), None);
    }
}
