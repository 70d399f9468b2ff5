//! The counters around a round: one system call, and the CPU number.

use std::mem::MaybeUninit;

/// Counters of this process at one moment. About a quarter of a microsecond to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundCounters {
    pub(super) usage: Usage,
    pub(super) cpu: Option<u32>,
}

/// What happened to this process between two readings of [`RoundCounters`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundDelta {
    pub involuntary_switches: u64,
    /// Times it gave up the CPU itself.
    pub voluntary_switches: u64,
    /// Page faults that needed no device.
    pub minor_faults: u64,
    /// Page faults that waited for a device.
    pub major_faults: u64,
    /// Whether the second reading was made on another CPU than the first.
    pub migrated: bool,
}

impl RoundCounters {
    /// Reads the counters of the process, all its threads together.
    pub fn read() -> Self {
        Self { usage: Usage::of(libc::RUSAGE_SELF), cpu: current_cpu() }
    }

    /// What happened since an earlier reading. The kernel never takes these counters back, so a
    /// difference cannot be negative; exchanged readings give zeros.
    pub fn since(&self, earlier: &Self) -> RoundDelta {
        let (now, then) = (&self.usage, &earlier.usage);
        RoundDelta {
            involuntary_switches: now
                .involuntary_switches
                .saturating_sub(then.involuntary_switches),
            voluntary_switches: now.voluntary_switches.saturating_sub(then.voluntary_switches),
            minor_faults: now.minor_faults.saturating_sub(then.minor_faults),
            major_faults: now.major_faults.saturating_sub(then.major_faults),
            migrated: self.cpu != earlier.cpu,
        }
    }
}

/// The part of getrusage(2) that is used here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) involuntary_switches: u64,
    pub(super) voluntary_switches: u64,
    pub(super) minor_faults: u64,
    pub(super) major_faults: u64,
    /// User and system time, in whole microseconds.
    pub(super) cpu_ns: u64,
}

impl Usage {
    /// The usage of this process (`RUSAGE_SELF`) or of its reaped children (`RUSAGE_CHILDREN`).
    pub(super) fn of(whom: libc::c_int) -> Self {
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the pointer is to writable memory of the type the call fills. An all-zero
        // `rusage` is a valid one, so it may be assumed filled even if the call refused.
        let (status, usage) = unsafe {
            let status = libc::getrusage(whom, usage.as_mut_ptr());
            (status, usage.assume_init())
        };
        debug_assert_eq!(status, 0, "getrusage refuses only a wrong `whom` or pointer");
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

/// The CPU this thread runs on: no system call where the C library has it from the kernel's
/// restartable sequences or the vDSO.
pub(super) fn current_cpu() -> Option<u32> {
    // SAFETY: takes no argument and touches no memory of ours.
    u32::try_from(unsafe { libc::sched_getcpu() }).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(involuntary_switches: u64, minor_faults: u64, cpu: u32) -> RoundCounters {
        let usage = Usage { involuntary_switches, minor_faults, ..Usage::default() };
        RoundCounters { usage, cpu: Some(cpu) }
    }

    #[test]
    fn a_round_tells_what_happened_within_it() {
        let delta = at(12, 105, 1).since(&at(10, 100, 0));
        assert_eq!((delta.involuntary_switches, delta.minor_faults, delta.migrated), (2, 5, true));
        assert!(!at(0, 0, 3).since(&at(0, 0, 3)).migrated);
        assert_eq!(at(1, 1, 0).since(&at(2, 2, 0)).minor_faults, 0);
    }

    #[test]
    fn touching_new_pages_shows_as_minor_faults() {
        let before = RoundCounters::read();
        let bytes = 64 * rustix::param::page_size();
        // Fresh from the kernel, hence unmapped: too large for the allocator to have at hand.
        let mut pages = vec![0_u8; bytes.max(4 << 20)];
        for page in pages.chunks_mut(rustix::param::page_size()) {
            page[0] = 1;
        }
        std::hint::black_box(&pages);
        // Huge pages can make it few, never none.
        assert!(RoundCounters::read().since(&before).minor_faults > 0);
    }

    #[test]
    fn sleeping_shows_as_a_voluntary_switch() {
        let before = RoundCounters::read();
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert!(RoundCounters::read().since(&before).voluntary_switches > 0);
    }
}
