//! Drift and wander of the core's speed over a run, by the reference loop (rule 23).

use crate::statistics::{block_means, median, quantile, rank_autocorrelation, theil_sen};
use fathom_record::{Cause, Reason, Remedy};

/// The smallest relative change of the reference loop over a run that counts as drift.
const DRIFT_MIN: f64 = 0.02;
/// The fewest visits in which drift is detected, and the number of block means it is fitted to.
const DRIFT_VISITS_MIN: usize = 8;
/// The fewest visits in which wander is detected.
const WANDER_VISITS_MIN: usize = 30;
/// Visits are autocorrelated above this rank correlation at lag 1, and above this many of its
/// standard errors.
const CORRELATION_MIN: f64 = 0.2;
const CORRELATION_ERRORS: f64 = 3.0;
/// The smallest relative standard deviation of the loop between visits that counts as wander.
const DEVIATION_MIN: f64 = 0.005;
/// The interquartile range of a normal distribution, in standard deviations.
const QUARTILE_RANGE: f64 = 1.349;

/// Drift of the core's speed over a run, else wander. `loops` holds for each visit, in order, its
/// start and its median reference loop, both in nanoseconds.
pub fn machine_changed(loops: &[(u64, f64)]) -> Option<Reason> {
    machine_drift(loops).or_else(|| machine_wander(loops))
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

/// Whether the core's speed is autocorrelated from visit to visit: processes are then not
/// independent, and intervals over them too narrow. `loops` as for [`machine_changed`].
///
/// The rank correlation at lag 1 must exceed 0.2 and three standard errors (1/√n), and the standard
/// deviation 0.5 %. It is estimated from the quartiles, which single slow visits do not move.
pub fn machine_wander(loops: &[(u64, f64)]) -> Option<Reason> {
    let times: Vec<f64> = loops.iter().map(|(_, ns)| *ns).collect();
    if times.len() < WANDER_VISITS_MIN {
        return None;
    }
    let correlation = rank_autocorrelation(&times, 1)?;
    let limit = CORRELATION_MIN.max(CORRELATION_ERRORS / (times.len() as f64).sqrt());
    let mut sorted = times;
    sorted.sort_by(f64::total_cmp);
    let range = quantile(&sorted, 0.75)? - quantile(&sorted, 0.25)?;
    let deviation = range / QUARTILE_RANGE / quantile(&sorted, 0.5)?;
    (correlation > limit && deviation > DEVIATION_MIN).then(|| {
        let text = format!(
            "autocorrelated (r = {correlation:.1}): core speed ± {:.1} % (reference loop), \
             unfiltered confidence intervals are optimistic",
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
        let reason = machine_wander(&loops(64, blocks)).expect("autocorrelated");
        assert!(reason.text.contains("± 2.9 %"), "{}", reason.text);
        assert!(machine_drift(&loops(64, blocks)).is_none(), "no trend");
        assert!(machine_wander(&loops(29, blocks)).is_none(), "too few visits");
        for (not_wander, each) in [
            ("± 0.2 %", (|at| if at / 8 % 2 == 0 { 1000.0 } else { 1004.0 }) as fn(u64) -> f64),
            ("not correlated", |at| 1000.0 + (at * 7919 % 61) as f64),
            ("3 of 64", |at| if at < 3 { 2000.0 } else { 1000.0 + (at * 7919 % 5) as f64 }),
            ("constant", |_| 1000.0),
        ] {
            assert!(machine_wander(&loops(64, each)).is_none(), "{not_wander}");
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
    fn drift_is_named_before_wander() {
        let steps = loops(64, |at| 1000.0 + 50.0 * (at / 8) as f64);
        assert!(machine_wander(&steps).is_some());
        let reason = machine_changed(&steps).expect("both");
        assert!(reason.text.contains("slower"), "{}", reason.text);
        let blocks = loops(64, |at| if at / 8 % 2 == 0 { 1000.0 } else { 1040.0 });
        assert_eq!(machine_changed(&blocks), machine_wander(&blocks));
    }

    #[test]
    fn correlation_must_exceed_three_errors() {
        // A correlation of 0.3: the limit is 0.55 for 30 visits and 0.2 for 300.
        let each: fn(u64) -> f64 =
            |at| 1000.0 + 20.0 * (at / 4 % 2) as f64 + 5.0 * (at * 7919 % 13) as f64;
        assert!(machine_wander(&loops(30, each)).is_none());
        let reason = machine_wander(&loops(300, each)).expect("autocorrelated");
        let start = "autocorrelated (r = 0.3): core speed ± ";
        assert!(reason.text.starts_with(start), "{}", reason.text);
    }
}
