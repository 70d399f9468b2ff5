//! Drift and wander of the core's speed over a run, by the reference loop (rule 23).

use std::ops::Range;

use crate::statistics::{
    block_means, mean, median, rank_autocorrelation, relative_spread, standard_deviation, theil_sen,
};
use fathom_record::{Cause, Reason, Remedy};

/// The smallest relative change of the reference loop over a run that counts as drift.
const DRIFT_MIN: f64 = 0.02;
/// The fewest visits in which drift is detected, and the number of block means it is fitted to.
const DRIFT_VISITS_MIN: usize = 8;
/// The visits in which wander is detected. Of more of them [`core_drift`] is known, and part of the
/// intervals.
const WANDER_VISITS: Range<usize> = 30..PARTS_MIN * PARTS;
/// Visits of a case are autocorrelated above this rank correlation, and above this many of its
/// standard errors.
const CORRELATION_MIN: f64 = 0.2;
const CORRELATION_ERRORS: f64 = 3.0;
/// The smallest relative standard deviation of the loop between visits that counts as wander.
const DEVIATION_MIN: f64 = 0.005;
/// The interquartile range of a normal distribution, in standard deviations.
const QUARTILE_RANGE: f64 = 1.349;

/// Drift of the core's speed over a run, else wander. `loops` holds for each visit, in order, its
/// start and its median reference loop, both in nanoseconds. From a visit of a case to the next are
/// `apart` visits.
pub fn machine_changed(loops: &[(u64, f64)], apart: usize) -> Option<Reason> {
    machine_drift(loops).or_else(|| machine_wander(loops, apart))
}

/// The relative standard deviation of the core's speed between visits, from the quartiles, which
/// single slow visits do not move.
pub fn core_deviation(loops: &[(u64, f64)]) -> Option<f64> {
    let times: Vec<f64> = loops.iter().map(|(_, ns)| *ns).collect();
    relative_spread(&times).map(|spread| spread / QUARTILE_RANGE)
}

/// Whether the reference loop became slower or faster over the run. `loops` as for
/// [`machine_changed`].
///
/// The change must exceed 2 %, and the interval of the slope must exclude 0: of runs without drift,
/// eight independent points do that in 3.1 %.
pub fn machine_drift(loops: &[(u64, f64)]) -> Option<Reason> {
    if loops.len() < DRIFT_VISITS_MIN {
        return None;
    }
    let since = |at_ns: u64| at_ns.saturating_sub(loops[0].0) as f64 / 1e9;
    let seconds: Vec<f64> = loops.iter().map(|(at_ns, _)| since(*at_ns)).collect();
    let times: Vec<f64> = loops.iter().map(|(_, ns)| *ns).collect();
    // Neighbouring visits are autocorrelated; the interval of the slope needs independent points.
    let blocks = |values: &[f64]| block_means(values, DRIFT_VISITS_MIN);
    let trend = theil_sen(&blocks(&seconds), &blocks(&times))?;
    let typical = median(&times)?;
    let length = seconds.last()?;
    let change = trend.slope * length / typical;
    let certain = trend.low > 0.0 || trend.high < 0.0;
    (certain && change.abs() > DRIFT_MIN).then(|| {
        let word = if change > 0.0 { "slower" } else { "faster" };
        let percent = 100.0 * change.abs();
        let text = format!(
            "core {percent:.0} % {word} at second {length:.0} than at the start (reference loop)"
        );
        Reason::new(Cause::MachineDrift, text).with_remedy(Remedy::LetSettle)
    })
}

/// How far the core's speed in one minute may be from that in the next, as a share: the half
/// width that 95 % of the parts of a run have around their mean. What depends on the core is as
/// uncertain, however many processes were measured within the run. 0 for a short run.
pub fn core_drift(loops: &[(u64, f64)]) -> f64 {
    let times: Vec<f64> = loops.iter().map(|(_, ns)| *ns).collect();
    if times.len() < WANDER_VISITS.end {
        return 0.0;
    }
    let parts: Vec<f64> = times.chunks(times.len().div_ceil(PARTS)).filter_map(median).collect();
    let spread = mean(&parts).zip(standard_deviation(&parts));
    spread.map_or(0.0, |(mean, deviation)| Z_95 * deviation / mean)
}

/// Parts of a run: of a minute, as long as a host leaves a guest in one place. With fewer visits in
/// each their noise would count.
const PARTS: usize = 12;
const PARTS_MIN: usize = 20;
const Z_95: f64 = 1.96;

/// Whether the core's speed is autocorrelated from a visit of a case to the next, `apart` visits
/// later: processes are then not independent, and the intervals of a run that is too short for
/// [`core_drift`] too narrow. `loops` as for
/// [`machine_changed`].
///
/// The rank correlation at that lag must exceed 0.2 and three standard errors (1/√n), and the
/// standard deviation 0.5 %.
pub fn machine_wander(loops: &[(u64, f64)], apart: usize) -> Option<Reason> {
    let times: Vec<f64> = loops.iter().map(|(_, ns)| *ns).collect();
    if !WANDER_VISITS.contains(&times.len()) {
        return None;
    }
    let correlation = rank_autocorrelation(&times, apart.max(1))?;
    let limit = CORRELATION_MIN.max(CORRELATION_ERRORS / (times.len() as f64).sqrt());
    let deviation = core_deviation(loops)?;
    (correlation > limit && deviation > DEVIATION_MIN).then(|| {
        let text = format!(
            "autocorrelated (r = {correlation:.1} between processes of a case): core speed \
             ± {:.1} % (reference loop), confidence intervals are optimistic",
            100.0 * deviation
        );
        Reason::new(Cause::MachineDrift, text).with_remedy(Remedy::LetSettleOrMeasureLonger)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loops(visits: u64, each: fn(u64) -> f64) -> Vec<(u64, f64)> {
        (0..visits).map(|at| (at * 100_000_000, each(at))).collect()
    }

    #[test]
    fn only_autocorrelated_speed_is_wander() {
        let blocks: fn(u64) -> f64 = |at| if at / 8 % 2 == 0 { 1000.0 } else { 1040.0 };
        let reason = machine_wander(&loops(64, blocks), 1).expect("autocorrelated");
        assert!(reason.text.contains("± 2.9 %"), "{}", reason.text);
        assert!(machine_drift(&loops(64, blocks)).is_none(), "no trend");
        assert!(machine_wander(&loops(29, blocks), 1).is_none(), "too few visits");
        for (not_wander, each) in [
            ("± 0.2 %", (|at| if at / 8 % 2 == 0 { 1000.0 } else { 1004.0 }) as fn(u64) -> f64),
            ("not correlated", |at| 1000.0 + (at * 7919 % 61) as f64),
            ("3 of 64", |at| if at < 3 { 2000.0 } else { 1000.0 + (at * 7919 % 5) as f64 }),
            ("constant", |_| 1000.0),
        ] {
            assert!(machine_wander(&loops(64, each), 1).is_none(), "{not_wander}");
        }
    }

    #[test]
    fn only_a_trend_is_machine_drift() {
        let slower = machine_drift(&loops(30, |at| 1000.0 + 2.0 * at as f64)).expect("a trend");
        assert!(slower.text.contains("6 % slower"), "{}", slower.text);
        assert!(machine_drift(&loops(5, |at| 1000.0 + 2.0 * at as f64)).is_none());
        assert!(machine_drift(&loops(30, |_| 1000.0)).is_none());
        let random = loops(30, |at| 1000.0 + 30.0 * (at * 7919 % 13) as f64);
        assert!(machine_drift(&random).is_none());
        // 8 visits of 100 ms: 1 % of the first in each.
        let faster = machine_drift(&loops(8, |at| 1000.0 - 10.0 * at as f64)).expect("a trend");
        assert_eq!(faster.text, "core 7 % faster at second 1 than at the start (reference loop)");
        assert!(machine_drift(&loops(7, |at| 1000.0 - 10.0 * at as f64)).is_none());
        assert!(machine_drift(&loops(30, |at| 1000.0 + 0.6 * at as f64)).is_none(), "below 2 %");
        let late: Vec<(u64, f64)> =
            (0..30).map(|at| (1 << 40, 1000.0 + 2.0 * f64::from(at))).collect();
        assert!(machine_drift(&late).is_none(), "all at one time");
    }

    #[test]
    fn drift_of_the_core_is_that_of_its_parts() {
        // Each part of twenty visits is at another speed; single visits do not matter.
        let steps = |at: u64| 1000.0 + [0.0, 10.0][(at / 20 % 2) as usize] + (at % 3) as f64;
        let error = core_drift(&(0..240).map(|at| (at, steps(at))).collect::<Vec<_>>());
        assert!((error / (1.96 * 5.22 / 1006.0) - 1.0).abs() < 0.01, "{error}");
        let noise = loops(240, |at| 1000.0 + (at * 7919 % 61) as f64);
        assert!(core_drift(&noise) < 0.02, "{}", core_drift(&noise));
        assert_eq!(core_drift(&loops(239, |at| 1000.0 + at as f64)), 0.0, "too few visits");
    }

    #[test]
    fn drift_is_named_before_wander() {
        let steps = loops(64, |at| 1000.0 + 50.0 * (at / 8) as f64);
        assert!(machine_wander(&steps, 1).is_some());
        let reason = machine_changed(&steps, 1).expect("both");
        assert!(reason.text.contains("slower"), "{}", reason.text);
        let blocks = loops(64, |at| if at / 8 % 2 == 0 { 1000.0 } else { 1040.0 });
        assert_eq!(machine_changed(&blocks, 1), machine_wander(&blocks, 1));
    }

    #[test]
    fn correlation_must_exceed_three_errors() {
        // A correlation of 0.3: the limit is 0.55 for 30 visits and 0.2 for 239.
        let each: fn(u64) -> f64 =
            |at| 1000.0 + 20.0 * (at / 4 % 2) as f64 + 5.0 * (at * 7919 % 13) as f64;
        assert!(machine_wander(&loops(30, each), 1).is_none());
        let reason = machine_wander(&loops(239, each), 1).expect("autocorrelated");
        let start = "autocorrelated (r = 0.3 between processes of a case): core speed ± ";
        assert!(reason.text.starts_with(start), "{}", reason.text);
        assert!(machine_wander(&loops(240, each), 1).is_none(), "the intervals include its drift");
        assert!(core_drift(&loops(240, each)) > 0.0);
    }
}
