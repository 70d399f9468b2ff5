//! Calibration of the counter against the kernel's clocks, at the start and over the whole run.
//!
//! At each end the counter is read many times between two reads of the kernel's clock. The half
//! width of the narrowest bracket is the error of that end.

use std::collections::BTreeMap;
use std::sync::Arc;

use fathom_record::Host;
use fathom_record::run::ClockFacts;

use super::steps::Steps;
use super::{
    Clock, ClockRefusal, ClockSource, ClockStamp, OrderCheck, Specification, check_order,
    monotonic_ns, monotonic_raw_ns, refusal, wall_ns,
};

/// With 50 ms, and ends accurate to 25 ns, the error is 1 ppm.
const CALIBRATION_NS: u64 = 50_000_000;
/// Reads at each end: the narrowest of 64 includes no interrupt.
const BRACKETS: usize = 64;
/// Number of stamps of [`step_ticks`].
pub const STEP_STAMPS: u64 = 2000;
/// Disagreement of the two halves of a calibration (METHOD 3).
const REPEAT_MAX_PPM: f64 = 1.0;
/// A larger disagreement with the kernel invalidates the clock (METHOD 3).
pub(super) const DISAGREEMENT_MAX_PPM: f64 = 50.0;
/// Changes of the wall clock relative to CLOCK_MONOTONIC: smaller ones are slewing.
const STEP_MIN_NS: i128 = 50_000_000;

/// The counter does not advance.
#[derive(Debug, thiserror::Error)]
#[error("calibrate the clock: {0} ticks in {1} ns against CLOCK_MONOTONIC_RAW")]
pub struct CalibrationError(i128, u64);

/// One end of a calibration: the counter and the kernel's clocks at the same time.
#[derive(Clone, Copy, Debug)]
struct CalibrationEnd {
    ticks: ClockStamp,
    raw_ns: u64,
    monotonic_ns: u64,
    wall_ns: u64,
}

/// A calibrated clock with the first end of a run, to check it over the whole run.
#[derive(Clone, Debug)]
pub struct CalibrationWatch {
    clock: Clock,
    cpus: Vec<u32>,
    refusal: Option<ClockRefusal>,
    first: CalibrationEnd,
    repeat_ppm: f64,
    steps: Arc<Steps>,
}

/// The check of the clock over the whole run.
#[derive(Clone, Debug, PartialEq)]
pub struct WholeRun {
    /// Deviation from CLOCK_MONOTONIC_RAW.
    pub raw_ppm: f64,
    /// Deviation from CLOCK_MONOTONIC.
    pub monotonic_ppm: f64,
    /// Step of the wall clock, in nanoseconds.
    pub wall_step_ns: i64,
    /// Whether the wall clock was stepped, even if it was set back.
    pub wall_was_set: bool,
    /// Number of stamps of another CPU that were in the future.
    pub backwards: u64,
}

impl WholeRun {
    /// The step of the wall clock, in nanoseconds; 0 if it was stepped back again.
    pub fn wall_step(&self) -> Option<f64> {
        let was_stepped = self.wall_step_ns != 0 || self.wall_was_set;
        was_stepped.then_some(self.wall_step_ns as f64)
    }

    /// The failed check, if any.
    pub fn failure(&self) -> Option<String> {
        let against = |name: &str, ppm: f64| {
            (ppm.abs() > DISAGREEMENT_MAX_PPM).then(|| {
                format!("clock off by {ppm:+.0} ppm of {name} over the run (limit 50 ppm)")
            })
        };
        if self.backwards > 0 {
            return Some(format!("clock not monotonic between CPUs ({}×)", self.backwards));
        }
        against("CLOCK_MONOTONIC_RAW", self.raw_ppm)
            .or_else(|| against("CLOCK_MONOTONIC", self.monotonic_ppm))
    }
}

impl CalibrationWatch {
    /// Chooses the counter, calibrates it for 50 ms, and measures its resolution and cost.
    ///
    /// # Errors
    /// If the counter does not advance.
    pub fn begin(host: &Host) -> Result<Self, CalibrationError> {
        let cpus = host.cpu.allowed.clone();
        match refusal::choose(host).and_then(|source| in_order(source, &cpus)) {
            Ok(source) => Self::with(source, None, cpus),
            Err(refusal) => Self::with(ClockSource::MonotonicRaw, Some(refusal), cpus),
        }
    }

    /// The kernel's clock, without calibration: for commands whose operations are much longer than
    /// a clock read, and which should start without a delay of 50 ms.
    ///
    /// # Errors
    /// As [`Watch::begin`].
    pub fn of_kernel() -> Result<Self, CalibrationError> {
        Self::with(ClockSource::MonotonicRaw, Some(ClockRefusal::NotNeeded), Vec::new())
    }

    fn with(
        source: ClockSource,
        refusal: Option<ClockRefusal>,
        cpus: Vec<u32>,
    ) -> Result<Self, CalibrationError> {
        let steps = Arc::new(Steps::listen());
        let raw = Specification::uncalibrated(source);
        let uncalibrated = Clock::from_specification(raw);
        let first = CalibrationEnd::take(&uncalibrated);
        let (hz, repeat_ppm) = match source {
            ClockSource::MonotonicRaw => (1e9, 0.0),
            _ => calibrate_repeatably(&uncalibrated)?,
        };
        let calibrated = Clock::from_specification(Specification { hz, ..raw });
        let specification = Specification {
            resolution_ns: step_ticks(&calibrated) as f64 * 1e9 / hz,
            read_ns: read_ns(&calibrated),
            empty_ns: empty_ns(&calibrated),
            ..calibrated.specification()
        };
        let clock = Clock::from_specification(specification);
        Ok(Self { clock, cpus, refusal, first, repeat_ppm, steps })
    }

    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The clock's facts for a record, without the deviations from [`Watch::end`].
    pub fn facts(&self) -> ClockFacts {
        let specification = self.clock.specification();
        let mut details = BTreeMap::from([("calibration_repeat_ppm".to_owned(), self.repeat_ppm)]);
        if let Some(ClockRefusal::OutOfOrder(ticks)) = &self.refusal {
            details.insert("out_of_order_ticks".to_owned(), *ticks as f64);
        }
        ClockFacts {
            source: specification.source.word().to_owned(),
            refused: self.refusal.as_ref().map(ToString::to_string),
            hz: specification.hz,
            resolution_ns: specification.resolution_ns,
            read_ns: specification.read_ns,
            details,
            ..ClockFacts::default()
        }
    }

    /// Compares the clock with the kernel's clocks since [`Watch::begin`].
    pub fn end(&self) -> WholeRun {
        let last = CalibrationEnd::take(&self.clock);
        let ours_ns = self.clock.ns(self.first.ticks, last.ticks);
        WholeRun {
            wall_was_set: self.steps.seen(),
            backwards: check_order(self.clock.specification(), &self.cpus).backwards,
            ..compared(ours_ns, self.first, last)
        }
    }
}

/// The deviations of a clock that advanced by `ours_ns` between two ends, without the rest.
fn compared(ours_ns: f64, first: CalibrationEnd, last: CalibrationEnd) -> WholeRun {
    let ppm = |theirs: u64| (ours_ns / theirs.max(1) as f64 - 1.0) * 1e6;
    let monotonic = last.monotonic_ns - first.monotonic_ns;
    let wall = i128::from(last.wall_ns) - i128::from(first.wall_ns);
    let step = wall - i128::from(monotonic);
    WholeRun {
        raw_ppm: ppm(last.raw_ns - first.raw_ns),
        monotonic_ppm: ppm(monotonic),
        wall_step_ns: if step.abs() >= STEP_MIN_NS { step as i64 } else { 0 },
        wall_was_set: false,
        backwards: 0,
    }
}

/// The counter, if it is monotonic between CPUs.
fn in_order(source: ClockSource, cpus: &[u32]) -> Result<ClockSource, ClockRefusal> {
    trusted_by(check_order(Specification::uncalibrated(source), cpus)).map(|()| source)
}

fn trusted_by(check: OrderCheck) -> Result<(), ClockRefusal> {
    match check.backwards {
        0 => Ok(()),
        _ => Err(ClockRefusal::OutOfOrder(check.backwards_ticks_max)),
    }
}

impl CalibrationEnd {
    fn take(clock: &Clock) -> Self {
        let mut narrowest = u64::MAX;
        let mut end = Self { ticks: 0, raw_ns: 0, monotonic_ns: 0, wall_ns: 0 };
        for _ in 0..BRACKETS {
            let before = monotonic_raw_ns();
            let ticks = clock.start();
            let after = monotonic_raw_ns();
            if after - before < narrowest {
                narrowest = after - before;
                // The middle of the bracket: off by at most half of its width.
                end = Self { ticks, raw_ns: before + narrowest / 2, ..end };
                // Read later, and moved back to the time of the stamp.
                end.monotonic_ns = monotonic_ns().saturating_sub(monotonic_raw_ns() - end.raw_ns);
            }
        }
        end.wall_ns = wall_ns().saturating_sub(monotonic_raw_ns() - end.raw_ns);
        end
    }
}

/// Repeats the calibration at most twice while its halves differ by more than 1 ppm: an interrupt
/// was then longer than all brackets of an end.
fn calibrate_repeatably(clock: &Clock) -> Result<(f64, f64), CalibrationError> {
    let mut best = calibrate(clock, CalibrationEnd::take(clock))?;
    for _ in 0..2 {
        if best.1 <= REPEAT_MAX_PPM {
            break;
        }
        let again = calibrate(clock, CalibrationEnd::take(clock))?;
        best = if again.1 < best.1 { again } else { best };
    }
    Ok(best)
}

/// Ticks per second, and the difference between both halves in ppm.
fn calibrate(clock: &Clock, first: CalibrationEnd) -> Result<(f64, f64), CalibrationError> {
    let middle = wait_until(clock, first.raw_ns + CALIBRATION_NS / 2);
    let last = wait_until(clock, first.raw_ns + CALIBRATION_NS);
    let rate = |from: CalibrationEnd, to: CalibrationEnd| {
        let ticks = i128::from(to.ticks) - i128::from(from.ticks);
        let ns = to.raw_ns - from.raw_ns;
        if ticks <= 0 {
            Err(CalibrationError(ticks, ns))
        } else {
            Ok(ticks as f64 * 1e9 / ns as f64)
        }
    };
    let (whole, halves) = (rate(first, last)?, (rate(first, middle)?, rate(middle, last)?));
    Ok((whole, (halves.0 / halves.1 - 1.0).abs() * 1e6))
}

/// Sleeps, because spinning would heat a core that is measured next.
fn wait_until(clock: &Clock, raw_ns: u64) -> CalibrationEnd {
    while monotonic_raw_ns() < raw_ns {
        std::thread::sleep(std::time::Duration::from_nanos(
            raw_ns - monotonic_raw_ns().min(raw_ns),
        ));
    }
    CalibrationEnd::take(clock)
}

/// The step of the clock in ticks, because some counters advance by several ticks at once: the
/// greatest common divisor of the differences between stamps at irregular distances.
pub fn step_ticks(clock: &Clock) -> u64 {
    let mut step = 0;
    let mut last = clock.start();
    for round in 0..STEP_STAMPS {
        // Equal distances would all be the same multiple of the step.
        for _ in 0..(round * 7919) % 31 {
            std::hint::spin_loop();
        }
        let now = clock.start();
        step = greatest_common_divisor(step, now.saturating_sub(last));
        last = now;
    }
    step.max(1)
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The cost of a start/stop pair: the minimum over batches that are much longer than the clock's
/// resolution.
fn read_ns(clock: &Clock) -> f64 {
    const PAIRS: u32 = 500;
    let batch = || {
        let from = clock.start();
        for _ in 0..PAIRS {
            std::hint::black_box(clock.start());
            std::hint::black_box(clock.stop());
        }
        clock.ns(from, clock.stop()) / f64::from(PAIRS)
    };
    // The minimum, because an interrupt can only make a batch longer.
    (0..20).map(|_| batch()).fold(f64::INFINITY, f64::min)
}

/// The time of an empty batch: a call by pointer between two stamps, as of every timed kernel.
fn empty_ns(clock: &Clock) -> f64 {
    const BATCHES: usize = 501;
    let mut empty: Box<dyn FnMut(u64) -> u64> = Box::new(std::hint::black_box);
    let mut batch = |_| {
        let start = clock.start();
        std::hint::black_box(empty(1));
        clock.ns(start, clock.stop())
    };
    // The mean of the middle half: a median would be a multiple of the clock's resolution.
    let mut times: Vec<f64> = (0..BATCHES).map(&mut batch).collect();
    times.sort_unstable_by(f64::total_cmp);
    let middle = &times[BATCHES / 4..BATCHES - BATCHES / 4];
    middle.iter().sum::<f64>() / middle.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counter_step_is_the_common_divisor() {
        assert_eq!(greatest_common_divisor(0, 26), 26);
        assert_eq!(greatest_common_divisor(52, 78), 26);
        assert_eq!(greatest_common_divisor(52, 79), 1);
    }

    #[test]
    fn clock_disagreement_above_50_ppm_fails() {
        let run = WholeRun {
            raw_ppm: 3.0,
            monotonic_ppm: -49.0,
            wall_step_ns: 0,
            wall_was_set: false,
            backwards: 0,
        };
        assert_eq!(run.failure(), None);
        let run = WholeRun { monotonic_ppm: -51.0, ..run };
        assert!(run.failure().is_some_and(|text| text.contains("of CLOCK_MONOTONIC over")));
        let run = WholeRun { raw_ppm: 51.0, ..run };
        assert!(run.failure().is_some_and(|text| text.contains("CLOCK_MONOTONIC_RAW")));
    }

    #[test]
    fn one_stamp_out_of_order_rejects_the_counter() {
        assert_eq!(trusted_by(OrderCheck { pairs: 3, ..OrderCheck::default() }), Ok(()));
        let backwards = OrderCheck { pairs: 3, backwards: 1, backwards_ticks_max: 40 };
        assert_eq!(trusted_by(backwards), Err(ClockRefusal::OutOfOrder(40)));
    }

    #[test]
    fn deviations_and_steps_are_relative_to_the_kernel() {
        let first =
            CalibrationEnd { ticks: 5, raw_ns: 1_000, monotonic_ns: 2_000, wall_ns: 9_000_000_000 };
        let after = |wall_step_ns: i64| {
            let wall_ns = first.wall_ns.strict_add_signed(1_000_000_000 + wall_step_ns);
            let last = CalibrationEnd {
                ticks: 9,
                raw_ns: 1_000_001_000,
                monotonic_ns: 1_000_102_000,
                wall_ns,
            };
            compared(
                1_000_030_000.0,
                first,
                CalibrationEnd { wall_ns: last.wall_ns + 100_000, ..last },
            )
        };
        let run = after(0);
        assert_eq!((run.raw_ppm.round(), run.monotonic_ppm.round()), (30.0, -70.0));
        assert_eq!((run.wall_step_ns, run.wall_was_set, run.backwards), (0, false, 0));
        for (set_by, step) in
            [(49_999_999, 0), (50_000_000, 50_000_000), (-2_000_000_000, -2_000_000_000)]
        {
            assert_eq!(after(set_by).wall_step_ns, step);
        }
    }

    #[test]
    fn real_clock_has_a_rate_a_resolution_and_a_cost() {
        let facts = CalibrationWatch::begin(&crate::host::read()).expect("a clock").facts();
        assert!(facts.hz > 1e6 && facts.resolution_ns > 0.0 && facts.read_ns > 0.0, "{facts:?}");
    }

    #[test]
    #[ignore = "lab: the rate of the real clock"]
    fn real_clock_agrees_with_the_kernel() {
        let run = CalibrationWatch::begin(&crate::host::read()).expect("a clock").end();
        assert!(run.raw_ppm.abs() < 1000.0 && run.wall_step_ns == 0, "{run:?}");
    }
}
