//! cpu.clock.read: what one start/stop pair of the clock costs.

use fathom_measure::clock::Source;
use fathom_measure::sampler::Fault;
use fathom_measure::{Sampler, Work};
use fathom_record::{Host, NoModel, Origin, Params, Prediction, Unit};

use crate::uarch;
use fathom_metric::order::earlier;
use fathom_metric::{About, Case, Known, Probe, Sizes};

/// cpu.clock.read.
pub struct ClockRead;

static ABOUT: About = About {
    id: "cpu.clock.read",
    title: "read the clock (start + stop)",
    timed: "one pair of stamps as every other metric takes them: lfence; rdtsc; lfence and \
            rdtscp; lfence (or the kernel's clock where the counter is refused)",
    not_timed: "the conversion of ticks to nanoseconds, which happens after the measurement",
    model: "(RDTSC + RDTSCP issue intervals + three fences) ÷ core frequency",
    source: "data/uarch.toml: stamp_pair_cycles",
    pitfalls: &[
        "an unfenced RDTSC is cheaper and lets the timed work leak out of the stamps",
        "under some hypervisors RDTSC traps and costs a thousand times more: it then shows here",
    ],
    needs: &["cpu.frequency"],
    published: "11.9 ns ± 9 % (2016, i5-5257U)",
    ..About::BASE
};

impl Probe for ClockRead {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn cases(&self, _: &Host, _: &Sizes) -> Vec<Case> {
        vec![Case::usual(Params::none())]
    }

    fn predict(&self, _: &Case, host: &Host, known: &Known<'_>) -> Result<Prediction, NoModel> {
        if matches!(known.clock_source(), Some("monotonic_raw" | "cntvct")) {
            return Err(NoModel::OtherClock);
        }
        let row = uarch::row_for(host)?;
        let pair = row.sourced("stamp_pair_cycles")?;
        let frequency = earlier("cpu.frequency", &Params::none(), known)?;
        let cycle_ns = 1e9 / frequency;
        let formula = "stamp pair cycles ÷ frequency";
        let mut prediction =
            Prediction::sum(pair.value * cycle_ns, 0.0, 0.3, formula, &pair.source);
        // Where the fences hide behind the counter's reads, the pair is as cheap as the reads.
        prediction.low = pair.low.map(|low| low * cycle_ns).or(prediction.low);
        Ok(prediction
            .with_input("stamp pair cycles", pair.value, row.origin())
            .with_quantity("frequency", frequency, Unit::Hertz, Origin::this_run("cpu.frequency"))
            .if_above(
                "the fences wait for more than the published constants count, the hypervisor \
                 scales the counter, or another thread of the core shares it",
            )
            .if_below("the core is not the table's"))
    }

    fn visit(&self, _: &[Case], sampler: &mut Sampler) -> Result<(), Fault> {
        let clock = sampler.clock().clone();
        if clock.specification().source == Source::Fake {
            let what = "a scripted clock has no cost of its own";
            return Err(Fault::Unavailable(what.to_owned(), None));
        }
        sampler.run(vec![Work::batched(0, move |pairs| {
            for _ in 0..pairs {
                std::hint::black_box(clock.start());
                std::hint::black_box(clock.stop());
            }
            pairs
        })]);
        Ok(())
    }
}
