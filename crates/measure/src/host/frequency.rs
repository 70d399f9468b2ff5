//! CPU frequency: governor, driver, limits, and the rate of the time stamp counter.
//!
//! `cpu MHz` of `/proc/cpuinfo` is not used, because it is the current frequency, or that at boot.

use fathom_record::Host;

use super::{HostSources, first_cpu};
use crate::tree::{FileTree, TreeFact, flag, keep};

const CPUS: &str = "/sys/devices/system/cpu";

/// Other frequencies are errors of a file or a cpuid leaf.
const HZ_PLAUSIBLE: std::ops::Range<f64> = 1e6..1e11;

pub(super) fn read(sources: &HostSources, host: &mut Host) {
    let (tree, cpu) = (&sources.tree, first_cpu(host));
    let policy = format!("{CPUS}/cpu{cpu}/cpufreq");
    keep!(host.cpu.governor, tree.fact(&format!("{policy}/scaling_governor")));
    keep!(host.cpu.frequency_driver, tree.fact(&format!("{policy}/scaling_driver")));
    keep!(host.cpu.boost, boost(tree, &policy));
    let base = base(sources, cpu, &policy, &host.cpu.model);
    keep!(host.cpu.base_hz, base.clone());
    let highest = highest(sources, &policy, host.cpu.boost);
    keep!(host.cpu.boost_hz, highest.clone());
    let counter = counter(sources);
    keep!(host.cpu.tsc_hz, counter.clone());
    // On ARM the rate of the counter is independent of the cores, and without boost the maximum
    // frequency is the nominal one.
    let arm = host.cpu.architecture == "aarch64";
    let nominal = if arm { highest.filter(|_| host.cpu.boost.is_none()) } else { counter };
    keep!(host.cpu.hz, base.or(nominal));
}

fn plausible(fact: TreeFact<f64>) -> Option<TreeFact<f64>> {
    HZ_PLAUSIBLE.contains(&fact.value).then_some(fact)
}

/// A frequency from a file.
fn rate(tree: &FileTree, path: &str, unit_hz: f64) -> Option<TreeFact<f64>> {
    plausible(tree.number::<u32>(path)?.map(|units| f64::from(units) * unit_hz))
}

fn by_cpuid(hz: Option<f64>, leaf: &str) -> Option<TreeFact<f64>> {
    plausible(TreeFact::new(hz?, leaf))
}

/// Whether boost is on: by this CPU's policy, by all policies, or by the inverse `no_turbo` of
/// `intel_pstate`.
fn boost(tree: &FileTree, policy: &str) -> Option<TreeFact<bool>> {
    let no_turbo = format!("{CPUS}/intel_pstate/no_turbo");
    let allowed = |path: &str| tree.value(path, flag);
    allowed(&format!("{policy}/boost"))
        .or_else(|| allowed(&format!("{CPUS}/cpufreq/boost")))
        .or_else(|| Some(allowed(&no_turbo)?.map(|off| !off)))
}

fn base(sources: &HostSources, cpu: u32, policy: &str, model: &str) -> Option<TreeFact<f64>> {
    let tree = &sources.tree;
    rate(tree, &format!("{policy}/base_frequency"), 1e3)
        .or_else(|| rate(tree, &format!("{CPUS}/cpu{cpu}/acpi_cppc/nominal_freq"), 1e6))
        .or_else(|| by_cpuid(sources.cpuid.as_ref()?.base_hz, "cpuid leaf 0x16"))
        .or_else(|| plausible(TreeFact::new(branded(model)?, "rate in the model name")))
}

/// The frequency in a brand string, such as `… CPU @ 2.40GHz`: the maximum without boost (Intel SDM
/// volume 2A, CPUID, "The Processor Brand String Method").
fn branded(model: &str) -> Option<f64> {
    let (_, rate) = model.rsplit_once('@')?;
    let rate = rate.trim();
    let (digits, unit_hz) = match rate.strip_suffix("GHz") {
        Some(digits) => (digits, 1e9),
        None => (rate.strip_suffix("MHz")?, 1e6),
    };
    Some(digits.trim().parse::<f64>().ok()? * unit_hz)
}

/// The maximum frequency. With boost off, the driver's limit is not the CPU's.
fn highest(sources: &HostSources, policy: &str, boost: Option<bool>) -> Option<TreeFact<f64>> {
    let limit = || rate(&sources.tree, &format!("{policy}/cpuinfo_max_freq"), 1e3);
    let by_driver = if boost == Some(false) { None } else { limit() };
    by_driver.or_else(|| by_cpuid(sources.cpuid.as_ref()?.boost_hz, "cpuid leaf 0x16"))
}

fn counter(sources: &HostSources) -> Option<TreeFact<f64>> {
    let cpuid = sources.cpuid.as_ref()?;
    by_cpuid(cpuid.tsc_hz_by_hypervisor, "cpuid leaf 0x40000010")
        .or_else(|| by_cpuid(cpuid.tsc_hz, "cpuid leaf 0x15"))
}

#[cfg(test)]
mod tests {
    use super::branded;

    #[test]
    fn only_a_rate_is_read_from_a_brand_string() {
        assert_eq!(branded("Intel(R) Xeon(R) Gold 6148 CPU @ 2.40GHz"), Some(2.4e9));
        assert_eq!(branded("Pentium III @ 866MHz"), Some(866e6));
        assert_eq!(branded("AMD EPYC 7742 64-Core Processor"), None);
        assert_eq!(branded("@ fastGHz"), None);
    }
}
