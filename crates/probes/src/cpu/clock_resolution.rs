//! cpu.clock.resolution: the smallest step the clock can show.

use fathom_measure::sampler::Fault;
use fathom_measure::{Clock, Sampler, Work, clock};
use fathom_record::{Host, NoModel, Origin, Params, Prediction, Unit};

use fathom_metric::{About, Case, Known, Probe, Sizes};

/// cpu.clock.resolution.
pub struct ClockResolution;

static ABOUT: About = About {
    id: "cpu.clock.resolution",
    title: "smallest step of the clock",
    timed: "the greatest common divisor of the differences between 2,000 stamps taken irregularly \
            apart, fenced as all stamps are: the smallest step that they can show",
    not_timed: "the cost of a read: two reads in a row differ by that cost, not by one step",
    model: "1 tick = 1 ÷ the counter's rate",
    source: "definition; the rate is calibrated against CLOCK_MONOTONIC_RAW",
    pitfalls: &[
        "some counters advance by several ticks at once (a 100 MHz reference scaled up to the \
         rate it is counted in): their rate promises more than they show",
    ],
    ..About::BASE
};

impl Probe for ClockResolution {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn cases(&self, _: &Host, _: &Sizes) -> Vec<Case> {
        vec![Case::usual(Params::none())]
    }

    fn predict(&self, _: &Case, host: &Host, _: &Known<'_>) -> Result<Prediction, NoModel> {
        let hz = host.cpu.tsc_hz.ok_or_else(|| NoModel::unknown_fact(&["cpu.tsc_hz"]))?;
        Ok(Prediction::sum(1e9 / hz, 0.0, 0.01, "1 ÷ tick rate", "definition")
            .with_quantity("tick rate", hz, Unit::Hertz, Origin::host(host, "cpu.tsc_hz"))
            .if_above(
                "the counter does not advance by single ticks: the core adds several at once, at \
                 the pace of a slower clock behind it",
            ))
    }

    fn visit(&self, _: &[Case], sampler: &mut Sampler) -> Result<(), Fault> {
        let step = |clock: &Clock, values: &mut [f64]| {
            values[0] = clock::step_ticks(clock) as f64 * 1e9 / clock.specification().hz;
            Ok(())
        };
        let batch = clock::STEP_STAMPS;
        sampler.run(vec![Work::Single {
            cases: vec![0],
            batch,
            operation: Box::new(step),
            timings: None,
        }]);
        Ok(())
    }
}
