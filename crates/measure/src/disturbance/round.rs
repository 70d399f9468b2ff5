//! The counters around a round: getrusage(2) and the CPU number.

use std::mem::MaybeUninit;

/// Counters of this process, about 250 ns to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundCounters {
    usage: RoundUsage,
    cpu: Option<u32>,
}

impl RoundCounters {
    /// Reads the counters of all threads of the process.
    pub fn read() -> Self {
        Self { usage: RoundUsage::used_by(libc::RUSAGE_SELF), cpu: current_cpu() }
    }

    /// The usage since an earlier reading, and whether the thread migrated to another CPU.
    pub fn since(&self, earlier: &Self) -> (RoundUsage, bool) {
        (self.usage.since(&earlier.usage), self.cpu != earlier.cpu)
    }
}

/// Resource usage by getrusage(2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundUsage {
    pub involuntary_switches: u64,
    pub voluntary_switches: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
    /// User and system time, in whole microseconds.
    pub cpu_ns: u64,
}

impl RoundUsage {
    /// The kernel never decrements these counters.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        Self {
            involuntary_switches: self
                .involuntary_switches
                .saturating_sub(earlier.involuntary_switches),
            voluntary_switches: self.voluntary_switches.saturating_sub(earlier.voluntary_switches),
            minor_faults: self.minor_faults.saturating_sub(earlier.minor_faults),
            major_faults: self.major_faults.saturating_sub(earlier.major_faults),
            cpu_ns: self.cpu_ns.saturating_sub(earlier.cpu_ns),
        }
    }

    /// The usage of this process (`RUSAGE_SELF`) or of its reaped children (`RUSAGE_CHILDREN`).
    pub(super) fn used_by(whom: libc::c_int) -> Self {
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the pointer is to writable memory of the right type, and an all-zero `rusage` is
        // valid, so that it is initialised even if the call fails.
        let (status, usage) = unsafe {
            let status = libc::getrusage(whom, usage.as_mut_ptr());
            (status, usage.assume_init())
        };
        debug_assert_eq!(status, 0, "getrusage fails only for a wrong `whom` or pointer");
        Self {
            involuntary_switches: count(usage.ru_nivcsw),
            voluntary_switches: count(usage.ru_nvcsw),
            minor_faults: count(usage.ru_minflt),
            major_faults: count(usage.ru_majflt),
            cpu_ns: nanoseconds(usage.ru_utime) + nanoseconds(usage.ru_stime),
        }
    }
}

fn count(value: libc::c_long) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

fn nanoseconds(time: libc::timeval) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let microseconds = u64::try_from(time.tv_usec).unwrap_or(0);
    seconds * 1_000_000_000 + microseconds * 1_000
}

/// The CPU of this thread, without a system call where the C library uses rseq or the vDSO.
pub(super) fn current_cpu() -> Option<u32> {
    // SAFETY: takes no argument and accesses no memory of ours.
    u32::try_from(unsafe { libc::sched_getcpu() }).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_pages_are_minor_faults() {
        let before = RoundCounters::read();
        // Larger than what the allocator ever reuses (32 MiB), so that the pages are new.
        let mut pages = vec![0_u8; 40 << 20];
        for page in pages.chunks_mut(rustix::param::page_size()).take(64) {
            page[0] = 1;
        }
        std::hint::black_box(&pages);
        // With huge pages few, but not 0.
        assert!(RoundCounters::read().since(&before).0.minor_faults > 0);
    }

    #[test]
    fn sleep_is_a_voluntary_switch() {
        let before = RoundCounters::read();
        // mood: the sleep itself is counted
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert!(RoundCounters::read().since(&before).0.voluntary_switches > 0);
    }
}
