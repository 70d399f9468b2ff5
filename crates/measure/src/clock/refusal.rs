//! Choice of the clock source, and reasons to reject the hardware counter.

use fathom_record::Host;

use super::ClockSource;

/// Why the hardware counter is not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClockRefusal {
    /// The counter stops in idle states, changes its rate, or cannot be read in order.
    #[error("no CPU flag {0}")]
    MissingFlag(&'static str),
    #[error("CPU flags cannot be read (/proc/cpuinfo)")]
    FlagsUnknown,
    /// The kernel rejected the counter as its clock source.
    #[error("the kernel's clock source is {0}")]
    KernelUses(String),
    #[error("the kernel's clock source cannot be read")]
    ClocksourceUnknown,
    #[error("reading it is forbidden (PR_SET_TSC)")]
    Forbidden,
    #[error("no supported counter on this architecture")]
    NoCounter,
    #[error("not monotonic between CPUs (by up to {0} ticks)")]
    OutOfOrder(u64),
    #[error("FATHOM_CLOCK=monotonic_raw is set")]
    Requested,
    #[error("not needed for operations of milliseconds")]
    NotNeeded,
}

/// CPU flags required of the time stamp counter: one rate at every frequency, no stop in idle
/// states, and a read that waits for earlier work.
const TSC_FLAGS: [&str; 3] = ["constant_tsc", "nonstop_tsc", "rdtscp"];

/// The counter to use on this host.
///
/// `FATHOM_CLOCK=monotonic_raw` selects the kernel's clock, for comparison.
pub(super) fn choose(host: &Host) -> Result<ClockSource, ClockRefusal> {
    if std::env::var_os("FATHOM_CLOCK").is_some_and(|clock| clock == "monotonic_raw") {
        return Err(ClockRefusal::Requested);
    }
    match host.cpu.architecture.as_str() {
        "x86_64" => tsc_or_refusal(host),
        "aarch64" => counter_of_kernel(host, "arch_sys_counter").map(|()| ClockSource::Cntvct),
        _ => Err(ClockRefusal::NoCounter),
    }
}

fn tsc_or_refusal(host: &Host) -> Result<ClockSource, ClockRefusal> {
    if host.cpu.flags.is_empty() {
        return Err(ClockRefusal::FlagsUnknown);
    }
    let has = |flag: &&str| host.cpu.flags.iter().any(|known| known == flag);
    if let Some(flag) = TSC_FLAGS.into_iter().find(|flag| !has(flag)) {
        return Err(ClockRefusal::MissingFlag(flag));
    }
    if tsc_is_forbidden() {
        return Err(ClockRefusal::Forbidden);
    }
    counter_of_kernel(host, "tsc").map(|()| ClockSource::Tsc)
}

fn counter_of_kernel(host: &Host, wanted: &str) -> Result<(), ClockRefusal> {
    // The kernel watches the TSC and replaces it as clock source if it finds it unstable.
    match host.clocksource.as_deref() {
        Some(source) if source == wanted => Ok(()),
        Some(source) => Err(ClockRefusal::KernelUses(source.to_owned())),
        None => Err(ClockRefusal::ClocksourceUnknown),
    }
}

/// Strict seccomp sets PR_TSC_SIGSEGV, with which RDTSC faults.
#[cfg(target_arch = "x86_64")]
fn tsc_is_forbidden() -> bool {
    let mut mode: libc::c_int = 0;
    // SAFETY: PR_GET_TSC writes one int to the address given, which is valid.
    let answer = unsafe { libc::prctl(libc::PR_GET_TSC, &raw mut mode) };
    answer == 0 && mode == libc::PR_TSC_SIGSEGV
}

#[cfg(not(target_arch = "x86_64"))]
fn tsc_is_forbidden() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(flags: &[&str], clocksource: Option<&str>) -> Host {
        let mut host = Host::default();
        host.cpu.architecture = "x86_64".to_owned();
        host.cpu.flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        host.clocksource = clocksource.map(str::to_owned);
        host
    }

    #[test]
    fn tsc_needs_trust_of_cpu_and_kernel() {
        assert_eq!(choose(&host(&TSC_FLAGS, Some("tsc"))), Ok(ClockSource::Tsc));
        for missing in TSC_FLAGS {
            let flags: Vec<&str> = TSC_FLAGS.into_iter().filter(|flag| *flag != missing).collect();
            assert_eq!(choose(&host(&flags, Some("tsc"))), Err(ClockRefusal::MissingFlag(missing)));
        }
        let by_hpet = ClockRefusal::KernelUses("hpet".to_owned());
        assert_eq!(choose(&host(&TSC_FLAGS, Some("hpet"))), Err(by_hpet));
        assert_eq!(choose(&host(&TSC_FLAGS, None)), Err(ClockRefusal::ClocksourceUnknown));
        assert_eq!(choose(&host(&[], Some("tsc"))), Err(ClockRefusal::FlagsUnknown));
    }

    #[test]
    fn unknown_architecture_has_no_counter() {
        let mut riscv = host(&TSC_FLAGS, Some("tsc"));
        riscv.cpu.architecture = "riscv64".to_owned();
        assert_eq!(choose(&riscv), Err(ClockRefusal::NoCounter));
    }
}
