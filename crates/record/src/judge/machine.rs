//! Whether the machine itself became slower or faster while it was measured (rule 23).

use crate::statistics::{block_means, median, theil_sen};
use crate::{Cause, Reason};

/// The machine drifts when the reference spin changed by more than this share over the run.
const DRIFT_MIN: f64 = 0.02;
/// A drift is looked for in at least this many visits, and so many means of them.
const VISITS_MIN: usize = 8;

/// Whether the fixed reference spin became slower or faster over the run, and from when to when:
/// of each visit, when it was, in nanoseconds, and what the spin took in it, in the order of visits.
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
            "the machine became {percent:.0} % {word} between second 0 and second {length:.0} of \
             the run, by a fixed reference spin"
        );
        let next = "let it settle (frequency, temperature, neighbours), and run again";
        Reason::new(Cause::MachineDrift, text).with_next(next)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_becomes_slower_is_noticed_and_a_steady_or_a_jumpy_one_is_not() {
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
