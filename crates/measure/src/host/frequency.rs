//! At which rate the CPU runs: who decides, within which limits, and the counter's rate.
//!
//! `cpu MHz` of `/proc/cpuinfo` is not used: it is the rate of one moment, or of boot.

use fathom_record::Host;

use super::topology::flag;
use super::tree::{Fact, Tree, keep};
use super::{Sources, first_cpu};

const CPUS: &str = "/sys/devices/system/cpu";

/// Rates outside these are a file's or a leaf's mistake.
const HZ_PLAUSIBLE: std::ops::Range<f64> = 1e6..1e11;

pub(super) fn read(sources: &Sources, host: &mut Host) {
    let (tree, cpu) = (&sources.tree, first_cpu(host));
    let policy = format!("{CPUS}/cpu{cpu}/cpufreq");
    let governor = tree.fact(&format!("{policy}/scaling_governor"));
    host.cpu.governor = keep(host, "cpu.governor", governor);
    let driver = tree.fact(&format!("{policy}/scaling_driver"));
    host.cpu.frequency_driver = keep(host, "cpu.frequency_driver", driver);
    host.cpu.boost = keep(host, "cpu.boost", boost(tree, &policy));
    host.cpu.base_hz = keep(host, "cpu.base_hz", base(sources, cpu, &policy, &host.cpu.model));
    host.cpu.boost_hz = keep(host, "cpu.boost_hz", highest(sources, &policy, host.cpu.boost));
    let counter = counter(sources);
    host.cpu.tsc_hz = keep(host, "cpu.tsc_hz", counter.clone());
    let base = || Some(Fact::new(host.cpu.base_hz?, host.origins.get("cpu.base_hz")?.clone()));
    // On ARM the counter's rate has nothing to do with the cores', and where no facility for
    // boost exists the highest rate is the nominal one.
    let nominal = if arm(host) { unboosted(host) } else { counter };
    let rate = base().or(nominal);
    host.cpu.hz = keep(host, "cpu.hz", rate);
}

fn arm(host: &Host) -> bool {
    host.cpu.architecture == "aarch64"
}

fn unboosted(host: &Host) -> Option<Fact<f64>> {
    let highest = host.cpu.boost_hz.filter(|_| host.cpu.boost.is_none())?;
    Some(Fact::new(highest, host.origins.get("cpu.boost_hz")?.clone()))
}

fn plausible(fact: Fact<f64>) -> Option<Fact<f64>> {
    HZ_PLAUSIBLE.contains(&fact.value).then_some(fact)
}

/// A rate from a file, in units of so many hertz.
fn rate(tree: &Tree, path: &str, unit_hz: f64) -> Option<Fact<f64>> {
    tree.fact(path)?
        .and_then(|text| Some(text.parse::<u32>().ok()? as f64 * unit_hz))
        .and_then(plausible)
}

fn told(hz: Option<f64>, leaf: &str) -> Option<Fact<f64>> {
    plausible(Fact::new(hz?, leaf))
}

/// Whether boost is allowed: by this CPU's policy, by all policies, or by `intel_pstate`, which
/// says it the other way round.
fn boost(tree: &Tree, policy: &str) -> Option<Fact<bool>> {
    let no_turbo = format!("{CPUS}/intel_pstate/no_turbo");
    let allowed = |path: &str| tree.fact(path)?.and_then(|text| flag(&text));
    allowed(&format!("{policy}/boost"))
        .or_else(|| allowed(&format!("{CPUS}/cpufreq/boost")))
        .or_else(|| Some(allowed(&no_turbo)?.map(|off| !off)))
}

fn base(sources: &Sources, cpu: u32, policy: &str, model: &str) -> Option<Fact<f64>> {
    let tree = &sources.tree;
    rate(tree, &format!("{policy}/base_frequency"), 1e3)
        .or_else(|| rate(tree, &format!("{CPUS}/cpu{cpu}/acpi_cppc/nominal_freq"), 1e6))
        .or_else(|| told(sources.cpuid.as_ref()?.base_hz, "cpuid leaf 0x16"))
        .or_else(|| plausible(Fact::new(branded(model)?, "rate in the model name")))
}

/// The rate in a brand string, such as `… CPU @ 2.40GHz`: the highest the processor is qualified
/// for without boost (Intel SDM volume 2A, CPUID, "The Processor Brand String Method").
fn branded(model: &str) -> Option<f64> {
    let (_, rate) = model.rsplit_once('@')?;
    let rate = rate.trim();
    let (digits, unit_hz) = match rate.strip_suffix("GHz") {
        Some(digits) => (digits, 1e9),
        None => (rate.strip_suffix("MHz")?, 1e6),
    };
    Some(digits.trim().parse::<f64>().ok()? * unit_hz)
}

/// The highest rate. With boost switched off the driver's limit is no longer the processor's.
fn highest(sources: &Sources, policy: &str, boost: Option<bool>) -> Option<Fact<f64>> {
    let limit = || rate(&sources.tree, &format!("{policy}/cpuinfo_max_freq"), 1e3);
    let by_driver = if boost == Some(false) { None } else { limit() };
    by_driver.or_else(|| told(sources.cpuid.as_ref()?.boost_hz, "cpuid leaf 0x16"))
}

fn counter(sources: &Sources) -> Option<Fact<f64>> {
    let cpuid = sources.cpuid.as_ref()?;
    told(cpuid.tsc_hz_by_hypervisor, "cpuid leaf 0x40000010")
        .or_else(|| told(cpuid.tsc_hz, "cpuid leaf 0x15"))
}

#[cfg(test)]
mod tests {
    use super::branded;

    #[test]
    fn the_rate_in_a_brand_string_is_read_and_nothing_else_is() {
        assert_eq!(branded("Intel(R) Xeon(R) Gold 6148 CPU @ 2.40GHz"), Some(2.4e9));
        assert_eq!(branded("Pentium III @ 866MHz"), Some(866e6));
        assert_eq!(branded("AMD EPYC 7742 64-Core Processor"), None);
        assert_eq!(branded("@ fastGHz"), None);
    }
}
