//! cpu.frequency: core cycles per second, from a chain of one-cycle instructions.

use std::arch::asm;

use fathom_measure::sampler::Fault;
use fathom_measure::{Sampler, Work};
use fathom_record::{Better, Host, NoModel, Origin, Params, Prediction, Unit};

use fathom_metric::{About, Case, Known, Probe, Sizes};

/// cpu.frequency.
pub struct Frequency;

/// Dependent additions in one iteration of the kernel.
const CHAIN: f64 = 64.0;

static ABOUT: About = About {
    id: "cpu.frequency",
    title: "core frequency under load",
    unit: Unit::Hertz,
    better: Better::Higher,
    timed: "a chain of register-register additions, each of which needs the one before: one cycle \
            each on the cores of data/uarch.toml",
    not_timed: "the counter's own rate, which on most machines is the nominal frequency and does \
                not follow the core's",
    model: "between the nominal (base) and the highest boost frequency, where the CPU or cpufreq \
            tells both; at least the nominal one where only that is known",
    source: "cpufreq (cpuinfo_max_freq, base_frequency), CPUID leaf 16h, or the counter's rate",
    pitfalls: &[
        "some cores remove a chain of add-immediates at rename: this one adds registers",
        "one busy core boosts higher than all of them: this is the figure for one",
    ],
    published: "2.7 GHz (2016, i5-5257U)",
    ..About::BASE
};

/// What a frequency below its range says.
const BELOW: &str = "the core is held back by a governor, a power or heat limit, or a neighbour \
                     on the same core";

impl Probe for Frequency {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn cases(&self, _: &Host, _: &Sizes) -> Vec<Case> {
        vec![Case::usual(Params::none())]
    }

    fn predict(&self, _: &Case, host: &Host, _: &Known<'_>) -> Result<Prediction, NoModel> {
        let base = host.cpu.base_hz.map(|hz| (hz, "cpu.base_hz"));
        let counter = host.cpu.tsc_hz.map(|hz| (hz, "cpu.tsc_hz"));
        let Some((hz, fact)) = base.or(counter) else {
            return Err(NoModel::unknown_fact(&["cpu.base_hz", "cpu.tsc_hz"]));
        };
        // 1 % below: the nominal rate is rounded to the clock generator's step.
        let low = 0.99 * hz;
        let Some(boost) = host.cpu.boost_hz.filter(|boost| *boost >= hz) else {
            let formula = "≥ 0.99 × nominal; boost is not told";
            return Ok(Prediction::at_least(low, formula, "the counter runs at the nominal rate")
                .with_quantity("nominal", hz, Unit::Hertz, Origin::host(host, fact))
                .if_below(BELOW));
        };
        let formula = "0.99 × base … 1.01 × boost";
        let mut prediction = Prediction::at_least(low, formula, "cpufreq or CPUID")
            .with_quantity("base", hz, Unit::Hertz, Origin::host(host, fact))
            .with_quantity("boost", boost, Unit::Hertz, Origin::host(host, "cpu.boost_hz"))
            .if_below(BELOW)
            .if_above("it boosts beyond what it tells");
        prediction.high = Some(1.01 * boost);
        Ok(prediction)
    }

    fn visit(&self, _: &[Case], sampler: &mut Sampler) -> Result<(), Fault> {
        sampler.run(vec![Work::Batched {
            case: 0,
            kernel: Box::new(additions),
            twin: None,
            per_iteration: CHAIN,
            to_unit: |ns| 1e9 / ns,
            timings: None,
        }]);
        Ok(())
    }
}

/// `iterations` times 64 dependent additions of `step` = 1; the sum proves their number. The
/// loop's own counter and branch run beside the chain and cost no cycle of it.
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
    fn the_sum_proves_the_number_of_additions() {
        assert_eq!(additions(1), 1);
        assert_eq!(additions(12_345), 12_345);
    }
}
