//! Ratios of crosscheck pairs.

use fathom_record::{CrossRow, PairRatio, Turn};

use crate::statistics;

/// A row is inconclusive if the largest ratio of its pairs is this many times the smallest.
const DISAGREE: f64 = 1.5;

/// The median ratio of the pairs with its interval by order statistics, or with the range if there
/// are too few pairs. `None` without pairs.
pub fn pair_ratio(turns: &[Turn]) -> Option<PairRatio> {
    let ratios: Vec<f64> = turns.iter().map(|turn| turn.ratio).collect();
    let logarithms: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
    let median = statistics::median(&logarithms)?.exp();
    let ([low, high], level) = match statistics::median_interval(&ratios) {
        Some((ends, level)) => (ends, Some(level)),
        None => {
            let fold = |better: fn(f64, f64) -> f64| ratios.iter().copied().reduce(better);
            ([fold(f64::min)?, fold(f64::max)?], None)
        }
    };
    // The logarithm rounds: equal ratios must have that ratio as their median.
    let median = median.max(low).min(high);
    Some(PairRatio { median, low, high, level, pairs: ratios.len() as u32 })
}

/// Involuntary context switches of the peer per second, median over turns.
pub fn peer_preempted_hz(row: &CrossRow) -> Option<f64> {
    let rates: Vec<f64> = row.turns.iter().filter_map(|turn| turn.peer_preempted_hz).collect();
    statistics::median(&rates)
}

/// CPU contention of the peer, as a share of its CPUs' time, median over turns.
pub fn peer_lost_share(row: &CrossRow) -> Option<f64> {
    let shares: Vec<f64> = row.turns.iter().filter_map(|turn| turn.peer_lost_share).collect();
    statistics::median(&shares)
}

/// Adds a pair to a row and updates its medians and ratio.
pub fn add(row: &mut CrossRow, turn: Turn) {
    row.turns.push(turn);
    let side = |of: fn(&Turn) -> f64| {
        let values: Vec<f64> = row.turns.iter().map(of).collect();
        statistics::median(&values)
    };
    (row.ours, row.theirs) = (side(|it| it.ours), side(|it| it.theirs));
    let fold = |better: fn(f64, f64) -> f64| {
        row.turns.iter().map(|it| it.ratio).reduce(better).unwrap_or(f64::NAN)
    };
    let apart = fold(f64::max) / fold(f64::min);
    row.inconclusive =
        (apart > DISAGREE).then(|| format!("inconclusive: pairs disagree by {apart:.2} ×"));
    row.ratio = pair_ratio(&row.turns).filter(|_| row.inconclusive.is_none());
}

#[cfg(test)]
mod tests {
    use fathom_record::{MetricId, Params, PeerStatistic, Unit};

    use super::*;

    fn ratio(values: &[(f64, f64)]) -> Option<PairRatio> {
        let turn = |(ours, theirs): &(f64, f64)| Turn::new(*ours, *theirs, String::new());
        pair_ratio(&values.iter().map(turn).collect::<Vec<_>>())
    }

    #[test]
    fn five_pairs_have_an_interval_fewer_a_range() {
        assert_eq!(ratio(&[]), None);
        let three = ratio(&[(2.0, 1.0), (1.0, 1.0), (3.0, 2.0)]).unwrap();
        assert!((three.median - 1.5).abs() < 1e-9, "{three:?}");
        assert_eq!((three.low, three.high), (1.0, 2.0));
        assert_eq!((three.level, three.pairs), (None, 3));
        let five: Vec<(f64, f64)> = [9.0, 1.0, 5.0, 3.0, 7.0].map(|ours| (ours, 1.0)).into();
        let five = ratio(&five).unwrap();
        assert!((five.median - 5.0).abs() < 1e-9, "{five:?}");
        assert_eq!((five.low, five.high), (1.0, 9.0));
        assert_eq!(five.level, Some(0.9375));
    }

    #[test]
    fn ratio_is_per_pair_not_of_medians() {
        // Both sides are twice as slow in the second turn.
        let pairs = ratio(&[(1.0, 2.0), (2.0, 4.0), (1.5, 3.0)]).unwrap();
        assert_eq!((pairs.low, pairs.median, pairs.high), (0.5, 0.5, 0.5));
    }

    #[test]
    fn median_of_two_ratios_is_geometric() {
        let middle = |ratios: &[f64]| {
            let pairs: Vec<(f64, f64)> = ratios.iter().map(|ours| (*ours, 1.0)).collect();
            ratio(&pairs).unwrap().median
        };
        assert!((middle(&[0.125, 5.234]) - 0.8088).abs() < 1e-3);
        assert!((middle(&[0.5, 2.0]) - 1.0).abs() < 1e-9, "symmetric in both programs");
    }

    fn row(ratios: &[f64]) -> CrossRow {
        let metric = MetricId::new("file.read.throughput");
        let mut row = CrossRow::for_metric(
            metric,
            Params::none(),
            Unit::BytesPerSecond,
            PeerStatistic::Slope,
        );
        ratios.iter().for_each(|ours| add(&mut row, Turn::new(*ours, 1.0, String::new())));
        row
    }

    #[test]
    fn contention_of_the_peer_is_the_median_of_the_turns_that_have_it() {
        let mut row = row(&[1.0, 1.0, 1.0, 1.0]);
        assert_eq!((peer_lost_share(&row), peer_preempted_hz(&row)), (None, None));
        for (turn, figure) in row.turns.iter_mut().zip([0.1, 0.5, 0.2]) {
            (turn.peer_lost_share, turn.peer_preempted_hz) = (Some(figure), Some(100.0 * figure));
        }
        assert_eq!((peer_lost_share(&row), peer_preempted_hz(&row)), (Some(0.2), Some(20.0)));
    }

    #[test]
    fn disagreeing_pairs_are_inconclusive() {
        let fine = row(&[1.0, 1.1, 1.49, 1.2, 1.3]);
        assert!(fine.ratio.is_some() && fine.inconclusive.is_none(), "{fine:?}");
        let apart = row(&[1.0, 0.5, 1.26]);
        assert_eq!(apart.ratio, None);
        let text = apart.inconclusive.as_deref();
        assert_eq!(text, Some("inconclusive: pairs disagree by 2.52 ×"));
    }
}
