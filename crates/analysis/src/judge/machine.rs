//! Whether the machine itself became slower or faster while it was measured, or came and went
//! (rule 23).

use crate::statistics::{block_means, median, quantile, rank_autocorrelation, theil_sen};
use fathom_record::{Cause, Reason, Remedy};

/// The machine drifts when the reference loop changed by more than this share over the run.
const DRIFT_MIN: f64 = 0.02;
/// A drift is looked for in at least this many visits, and so many means of them.
const VISITS_MIN: usize = 8;
/// That visits are alike is told from so many of them on.
const ALIKE_VISITS_MIN: usize = 30;
/// They are alike above this autocorrelation of neighbours, and so many of its own deviations.
const ALIKE_MIN: f64 = 0.2;
const ALIKE_DEVIATIONS: f64 = 3.0;
/// It matters where the spin differs from visit to visit by more than this share.
const DEVIATION_MIN: f64 = 0.005;
/// The quartiles of a normal distribution are so many deviations apart.
const QUARTILES_APART: f64 = 1.349;

/// What the reference loop says of the machine over a run: that it drifted, or else that it
/// wandered. `spins` as for both.
pub fn machine_changed(spins: &[(u64, f64)]) -> Option<Reason> {
    machine_drift(spins).or_else(|| machine_wander(spins))
}

/// Whether the fixed reference loop became slower or faster over the run, and from when to when:
/// of each visit, when it was, in nanoseconds, and what the spin took in it, in their order.
///
/// The change must be above 2 %, and the interval of its slope on one side of 0. Eight points of
/// which neighbours are independent lie on one side of it in 3.1 % of runs without any drift.
pub fn machine_drift(spins: &[(u64, f64)]) -> Option<Reason> {
    if spins.len() < VISITS_MIN {
        return None;
    }
    let since = |at_ns: u64| at_ns.saturating_sub(spins[0].0) as f64 / 1e9;
    let seconds: Vec<f64> = spins.iter().map(|(at_ns, _)| since(*at_ns)).collect();
    let times: Vec<f64> = spins.iter().map(|(_, ns)| *ns).collect();
    // Neighbouring visits are alike; the interval of the slope wants points that are not.
    let blocks = |values: &[f64]| block_means(values, VISITS_MIN);
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

/// Whether the machine's speed came and went, so that visits that follow each other are alike:
/// their processes are then no independent draws, and the intervals over them too narrow. `spins`
/// as for [`machine_drift`].
///
/// The ranks of the spins are correlated from one visit to the next by more than 0.2, and by three
/// deviations of what chance makes (1/√n), and the spin differs by more than 0.5 % (from its
/// quartiles, since single slow visits are nobody's neighbours).
pub fn machine_wander(spins: &[(u64, f64)]) -> Option<Reason> {
    let times: Vec<f64> = spins.iter().map(|(_, ns)| *ns).collect();
    if times.len() < ALIKE_VISITS_MIN {
        return None;
    }
    let alike = rank_autocorrelation(&times, 1)?;
    let least = ALIKE_MIN.max(ALIKE_DEVIATIONS / (times.len() as f64).sqrt());
    let mut sorted = times;
    sorted.sort_by(f64::total_cmp);
    let apart = quantile(&sorted, 0.75)? - quantile(&sorted, 0.25)?;
    let deviation = apart / QUARTILES_APART / quantile(&sorted, 0.5)?;
    (alike > least && deviation > DEVIATION_MIN).then(|| {
        let text = format!(
            "autocorrelated (r = {alike:.1}): core speed wandered by ± {:.1} % (reference loop), \
             so that intervals as found are optimistic",
            100.0 * deviation
        );
        Reason::new(Cause::MachineDrift, text).with_remedy(Remedy::LetSettleOrMeasureLonger)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_autocorrelated_speed_is_wander() {
        let spins = |each: fn(u64) -> f64, visits: u64| -> Vec<(u64, f64)> {
            (0..visits).map(|at| (at * 100_000_000, each(at))).collect()
        };
        let slow_half: fn(u64) -> f64 = |at| if at / 8 % 2 == 0 { 1000.0 } else { 1040.0 };
        let reason = machine_wander(&spins(slow_half, 64)).expect("it came and went");
        assert!(reason.text.contains("± 2.9 %"), "{}", reason.text);
        assert!(machine_drift(&spins(slow_half, 64)).is_none(), "in no direction");
        assert!(machine_wander(&spins(slow_half, 29)).is_none(), "too few to tell");
        let hardly = |at| if at / 8 % 2 == 0 { 1000.0 } else { 1004.0 };
        assert!(machine_wander(&spins(hardly, 64)).is_none());
        assert!(machine_wander(&spins(|at| 1000.0 + (at * 7919 % 61) as f64, 64)).is_none());
        let one = |at| if at < 3 { 2000.0 } else { 1000.0 + (at * 7919 % 5) as f64 };
        assert!(machine_wander(&spins(one, 64)).is_none(), "three slow visits of 64");
        assert!(machine_wander(&spins(|_| 1000.0, 64)).is_none());
    }

    #[test]
    fn only_a_trend_is_machine_drift() {
        let spins = |each: fn(u64) -> f64| -> Vec<(u64, f64)> {
            (0..30).map(|at| (at * 100_000_000, each(at))).collect()
        };
        let slower = machine_drift(&spins(|at| 1000.0 + 2.0 * at as f64)).expect("a drift");
        assert!(slower.text.contains("6 % slower"), "{}", slower.text);
        assert!(machine_drift(&spins(|_| 1000.0)).is_none());
        assert!(machine_drift(&spins(|at| 1000.0 + 30.0 * (at * 7919 % 13) as f64)).is_none());
        assert!(
            machine_drift(&spins(|at| 1000.0 + 2.0 * at as f64)[..5]).is_none(),
            "five visits tell nothing"
        );
    }
}
