//! cpu.frequency: core frequency, from a dependency chain of one-cycle instructions.

use std::arch::asm;

use crate::prelude::*;

metric!(Frequency, ABOUT);

/// Dependent additions per iteration.
const CHAIN: f64 = 64.0;

static ABOUT: About = About {
    id: "cpu.frequency",
    title: "core frequency under load",
    unit: Unit::Hertz,
    better: Better::Higher,
    timed: "a chain of dependent register-register additions: one cycle each on the cores of \
            data/uarch.toml",
    not_timed: "the TSC rate, which on most machines is constant at the nominal frequency",
    model: "between the nominal (base) and the maximum boost frequency where the CPU or cpufreq \
            reports both; at least nominal where only that is known",
    source: "cpufreq (cpuinfo_max_freq, base_frequency), CPUID leaf 16h, or the TSC rate",
    pitfalls: &[
        "some cores fold a chain of add-immediates at rename: this chain adds registers",
        "one busy core boosts higher than all cores together: this is the single-core figure",
    ],
    published: "2.7 GHz (2016, i5-5257U)",
    ..About::BASE
};

const BELOW: &str = "limited by the cpufreq governor, a power or thermal limit, or SMT contention";

impl Probe for Frequency {
    fn predict(&self, _: &ProbeCase, host: &Host, _: &Inputs<'_>) -> Model {
        let base = host.cpu.base_hz.map(|hz| (hz, "cpu.base_hz"));
        let counter = host.cpu.tsc_hz.map(|hz| (hz, "cpu.tsc_hz"));
        let Some((hz, fact)) = base.or(counter) else {
            return Err(NoModel::unknown_fact(&["cpu.base_hz", "cpu.tsc_hz"]));
        };
        // The nominal rate is rounded to a step of the clock generator: allow 1 %.
        let low = 0.99 * hz;
        let Some(boost) = host.cpu.boost_hz.filter(|boost| *boost >= hz) else {
            let formula = "≥ 0.99 × nominal; boost frequency unknown";
            return Ok(Prediction::at_least(low, formula, "the TSC runs at the nominal frequency")
                .with_quantity("nominal", hz, Unit::Hertz, Origin::host(host, fact))
                .if_below(BELOW));
        };
        let formula = "0.99 × base … 1.01 × boost";
        let mut prediction = Prediction::at_least(low, formula, "cpufreq or CPUID")
            .with_quantity("base", hz, Unit::Hertz, Origin::host(host, fact))
            .with_quantity("boost", boost, Unit::Hertz, Origin::host(host, "cpu.boost_hz"))
            .if_below(BELOW)
            .if_above("boosts above the reported maximum");
        prediction.high = Some(1.01 * boost);
        Ok(prediction)
    }

    fn visit(&self, _: &[ProbeCase], sampler: &mut Sampler) -> Result<()> {
        sampler.run(vec![SamplerWork::Batched {
            case: 0,
            kernel: Box::new(additions),
            twin: None,
            has_entry: false,
            per_iteration: CHAIN,
            to_unit: |ns| 1e9 / ns,
            timings: None,
        }]);
        Ok(())
    }
}

/// `iterations` × 64 dependent additions of `step` = 1; the sum proves their number. The loop
/// counter and branch execute in parallel with the chain and add no cycle to it. `step` is a
/// register because some cores fold add-immediates at rename. The loop is aligned to a cache line,
/// so that its position relative to fetch blocks does not change the result.
fn additions(iterations: u64) -> u64 {
    let mut sum: u64 = 0;
    // SAFETY: register arithmetic only.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!(
            ".p2align 6", "2:",
            ".rept 64", "add {sum}, {step}", ".endr",
            "dec {count}", "jnz 2b",
            sum = inout(reg) sum, step = in(reg) 1u64, count = inout(reg) iterations => _,
            options(nomem, nostack));
        #[cfg(target_arch = "aarch64")]
        asm!(
            ".p2align 6", "2:",
            ".rept 64", "add {sum}, {sum}, {step}", ".endr",
            "subs {count}, {count}, #1", "b.ne 2b",
            sum = inout(reg) sum, step = in(reg) 1u64, count = inout(reg) iterations => _,
            options(nomem, nostack));
    }
    sum / CHAIN as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sum_proves_the_number_of_additions() {
        assert_eq!(additions(1), 1);
        assert_eq!(additions(12_345), 12_345);
    }
}
