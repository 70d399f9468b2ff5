//! cpu.clock.read: cost of one start/stop pair of timestamps.

use fathom_measure::clock::ClockSource;

use crate::prelude::*;

metric!(ClockRead, ABOUT);

static ABOUT: About = About {
    id: "cpu.clock.read",
    title: "read the clock (start + stop)",
    timed: "one pair of timestamps as in every other metric: lfence; rdtsc; lfence and rdtscp; \
            lfence on x86-64, isb and cntvct on ARM64 (or clock_gettime where the counter is \
            unusable)",
    not_timed: "conversion of ticks to nanoseconds, done after the measurement",
    model: "lower bound: (RDTSC + RDTSCP issue intervals) ÷ core frequency. No value: how far the \
            fences overlap them is not published",
    source: "data/uarch.toml: stamp_pair_cycles",
    pitfalls: &[
        "an unfenced RDTSC is cheaper, but out-of-order execution moves timed work across it",
        "some hypervisors intercept RDTSC, which costs a thousand times more and shows here",
    ],
    needs: &["cpu.frequency"],
    published: "11.9 ns ± 9 % (2016, i5-5257U)",
    ..About::BASE
};

impl Probe for ClockRead {
    fn predict(&self, _: &ProbeCase, host: &Host, known: &Inputs<'_>) -> Model {
        if matches!(known.clock_source(), Some("monotonic_raw" | "cntvct")) {
            return Err(NoModel::OtherClock);
        }
        let row = uarch::row_for(host)?;
        let pair = row.for_bound("stamp_pair_cycles")?;
        let frequency = known.frequency()?;
        let cycle_ns = 1e9 / frequency;
        // Where the fences overlap the counter reads, the pair costs no more than the reads.
        let cycles = pair.low.unwrap_or(pair.value);
        let formula = "≥ cycles of the counter reads of a stamp pair ÷ frequency";
        Ok(Prediction::at_least(cycles * cycle_ns, formula, &pair.source)
            .with_input("stamp pair cycles", cycles, row.origin())
            .with_quantity("frequency", frequency, Unit::Hertz, Origin::this_run("cpu.frequency"))
            .if_below("the core is not the one in the table"))
    }

    fn visit(&self, _: &[ProbeCase], sampler: &mut Sampler) -> Result<()> {
        let clock = sampler.clock().clone();
        if clock.specification().source == ClockSource::Fake {
            let what = "the clock is simulated";
            return Err(SamplerFault::Unavailable(what.to_owned(), None));
        }
        sampler.run(vec![SamplerWork::batched(0, move |pairs| {
            for _ in 0..pairs {
                // black_box uses the stamps, which nothing else does.
                std::hint::black_box(clock.start());
                std::hint::black_box(clock.stop());
            }
            pairs
        })]);
        Ok(())
    }
}
