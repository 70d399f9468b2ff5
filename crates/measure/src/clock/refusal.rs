//! Why a hardware counter is not used: an enum, so that `doctor` and a record can say it.

use std::fmt;

use fathom_record::Host;

use super::Source;

/// Why the hardware counter was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A flag that the counter needs is missing: it stops in idle states, changes its rate, or
    /// cannot be read in order.
    MissingFlag(&'static str),
    /// The kernel does not keep time by it, which is its way of saying that it cannot be trusted.
    KernelUses(String),
    /// The kernel's clock source cannot be read.
    ClocksourceUnknown,
    /// Reading it from user space is forbidden to this process.
    Forbidden,
    /// This architecture has none that Fathom knows.
    NoCounter,
    /// Stamps taken on different CPUs are out of order, by this many ticks at worst.
    OutOfOrder(u64),
    /// The person asked for the kernel's clock.
    Asked,
    /// Nothing is timed that the kernel's clock could not.
    NotNeeded,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingFlag(flag) => write!(f, "the CPU does not report {flag}"),
            Self::KernelUses(source) => write!(f, "the kernel keeps time by {source}, not by it"),
            Self::ClocksourceUnknown => f.write_str("the kernel's clock source cannot be read"),
            Self::Forbidden => f.write_str("reading it is forbidden to this process"),
            Self::NoCounter => f.write_str("this architecture has no counter that Fathom knows"),
            Self::OutOfOrder(ticks) => {
                write!(f, "stamps of different CPUs are out of order by up to {ticks} ticks")
            }
            Self::Asked => f.write_str("FATHOM_CLOCK=monotonic_raw was set"),
            Self::NotNeeded => f.write_str("not needed: what is timed lasts for milliseconds"),
        }
    }
}

/// The flags without which the time stamp counter is not a clock.
const TSC_FLAGS: [&str; 3] = ["constant_tsc", "nonstop_tsc", "rdtscp"];

/// The counter to use on this host, or why none.
///
/// `FATHOM_CLOCK=monotonic_raw` refuses it by hand, to compare the two.
pub(super) fn choose(host: &Host) -> Result<Source, Refusal> {
    if std::env::var_os("FATHOM_CLOCK").is_some_and(|clock| clock == "monotonic_raw") {
        return Err(Refusal::Asked);
    }
    match host.cpu.architecture.as_str() {
        "x86_64" => tsc_or_refusal(host),
        "aarch64" => counter_of_kernel(host, "arch_sys_counter").map(|()| Source::Cntvct),
        _ => Err(Refusal::NoCounter),
    }
}

fn tsc_or_refusal(host: &Host) -> Result<Source, Refusal> {
    let has = |flag: &&str| host.cpu.flags.iter().any(|known| known == flag);
    if let Some(flag) = TSC_FLAGS.into_iter().find(|flag| !has(flag)) {
        return Err(Refusal::MissingFlag(flag));
    }
    if tsc_is_forbidden() {
        return Err(Refusal::Forbidden);
    }
    counter_of_kernel(host, "tsc").map(|()| Source::Tsc)
}

fn counter_of_kernel(host: &Host, wanted: &str) -> Result<(), Refusal> {
    match host.clocksource.as_deref() {
        Some(source) if source == wanted => Ok(()),
        Some(source) => Err(Refusal::KernelUses(source.to_owned())),
        None => Err(Refusal::ClocksourceUnknown),
    }
}

/// PR_SET_TSC can make RDTSC fault; strict seccomp sets it.
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
        assert_eq!(choose(&host(&TSC_FLAGS, Some("tsc"))), Ok(Source::Tsc));
        for missing in TSC_FLAGS {
            let flags: Vec<&str> = TSC_FLAGS.into_iter().filter(|flag| *flag != missing).collect();
            assert_eq!(choose(&host(&flags, Some("tsc"))), Err(Refusal::MissingFlag(missing)));
        }
        let by_hpet = Refusal::KernelUses("hpet".to_owned());
        assert_eq!(choose(&host(&TSC_FLAGS, Some("hpet"))), Err(by_hpet));
        assert_eq!(choose(&host(&TSC_FLAGS, None)), Err(Refusal::ClocksourceUnknown));
    }

    #[test]
    fn an_unknown_architecture_has_no_counter() {
        let mut riscv = host(&TSC_FLAGS, Some("tsc"));
        riscv.cpu.architecture = "riscv64".to_owned();
        assert_eq!(choose(&riscv), Err(Refusal::NoCounter));
    }
}
