//! cpu.clock.resolution: the smallest increment of the clock.

use fathom_measure::clock;

use crate::prelude::*;

metric!(ClockResolution, ABOUT);

static ABOUT: About = About {
    id: "cpu.clock.resolution",
    title: "clock resolution",
    timed: "the greatest common divisor of the differences between 2,000 fenced timestamps at \
            irregular distances: the smallest increment of the counter",
    not_timed: "the cost of a read: consecutive reads differ by that cost, not by one increment",
    model: "1 tick = 1 ÷ the counter's rate; in a guest a bound, ≥ 0.99 × that, no value: the \
            counter may step with the reference clock of the host",
    source: "definition; the rate is calibrated against CLOCK_MONOTONIC_RAW",
    pitfalls: &[
        "some counters advance by several ticks at once (a 100 MHz reference clock scaled up): \
         their resolution is coarser than 1 ÷ rate",
    ],
    ..About::BASE
};

impl Probe for ClockResolution {
    fn predict(&self, _: &ProbeCase, host: &Host, _: &Inputs<'_>) -> Model {
        let hz = host.cpu.tsc_hz.ok_or_else(|| NoModel::unknown_fact(&["cpu.tsc_hz"]))?;
        let prediction = match host.virtualization.as_deref() {
            Some("none") => Prediction::sum(1e9 / hz, 0.0, 0.01, "1 ÷ tick rate", "definition"),
            // A scaled counter may step with the reference clock it is calculated from.
            _ => Prediction::at_least(0.99e9 / hz, "≥ 0.99 ÷ the counter's rate", "definition"),
        };
        Ok(prediction
            .with_quantity("tick rate", hz, Unit::Hertz, Origin::host(host, "cpu.tsc_hz"))
            .if_above(
                "the counter advances by several ticks at once, at the rate of a slower reference \
                 clock",
            ))
    }

    fn visit(&self, _: &[ProbeCase], sampler: &mut Sampler) -> Result<()> {
        let step =
            |clock: &Clock| Ok(clock::step_ticks(clock) as f64 * 1e9 / clock.specification().hz);
        sampler.run(vec![single(0, clock::STEP_STAMPS, step)]);
        Ok(())
    }
}
