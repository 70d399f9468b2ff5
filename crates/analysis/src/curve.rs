//! Throughput curves over block size: best block, knee, dips, cost per call, and the block size
//! from which threads are faster.
//!
//! A curve is a list of block sizes in bytes with their throughput in bytes/s, ascending.

/// The knee begins and ends at this share of the best throughput.
const AS_GOOD: f64 = 0.95;
/// A dip is below this share of the line between its neighbours on logarithmic axes,
const DIP: f64 = 0.8;
/// and both neighbours are this many times faster: otherwise the curve falls or rises.
const RECOVERS: f64 = 1.1;
/// Threads pay off at this speedup.
const PAYS: f64 = 1.1;
const FIT_MIN: usize = 3;

/// Block size in bytes, throughput in bytes/s.
pub type LinePoint = (u64, f64);

/// The model t = calls × c + bytes ÷ b.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CurveFit {
    /// c, in nanoseconds.
    pub call_ns: f64,
    /// b, in bytes/s. `None` if larger blocks take no more time per call.
    pub bandwidth: Option<f64>,
    /// Largest relative error of the model over the points.
    pub off: f64,
    /// Number of points fitted.
    pub points: usize,
}

/// Fits the time of a call over the block size by least squares of relative errors: with absolute
/// errors the largest blocks alone would decide the cost per call.
pub fn fit(curve: &[LinePoint]) -> Option<CurveFit> {
    if curve.len() < FIT_MIN {
        return None;
    }
    let ns = |&(block, rate): &LinePoint| 1e9 * block as f64 / rate;
    // Least squares of (c + s·x − y) ÷ y: sums of 1, x and x² over y², of 1 and x over y.
    let [mut n, mut x, mut xx, mut y, mut xy] = [0.0; 5];
    for point in curve {
        let (at, inverse) = (point.0 as f64, 1.0 / ns(point));
        n += inverse * inverse;
        x += at * inverse * inverse;
        xx += at * at * inverse * inverse;
        y += inverse;
        xy += at * inverse;
    }
    let determinant = n * xx - x * x;
    if determinant <= 0.0 || !determinant.is_finite() {
        return None;
    }
    let (call_ns, slope) = ((y * xx - xy * x) / determinant, (n * xy - x * y) / determinant);
    let off = |point: &LinePoint| (call_ns + slope * point.0 as f64 - ns(point)).abs() / ns(point);
    Some(CurveFit {
        call_ns,
        bandwidth: (slope > 0.0).then(|| 1e9 / slope),
        off: curve.iter().map(off).fold(0.0, f64::max),
        points: curve.len(),
    })
}

pub fn best(curve: &[LinePoint]) -> Option<LinePoint> {
    curve.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1))
}

/// The smallest and largest block of the range around the best block with 95 % of its throughput.
pub fn knee(curve: &[LinePoint]) -> Option<(u64, u64)> {
    let (block, most) = best(curve)?;
    let is_good = |point: &&LinePoint| point.1 >= AS_GOOD * most;
    let at = curve.iter().position(|point| point.0 == block)?;
    let from = curve[..=at].iter().rev().take_while(is_good).last()?;
    let to = curve[at..].iter().take_while(is_good).last()?;
    Some((from.0, to.0))
}

/// Blocks at which the curve dips: slower than both neighbours, and than 0.8 × the line between
/// them on logarithmic axes, by the throughput and by that of the quickest pass. The first and last
/// block cannot dip.
pub fn dips(curve: &[LinePoint], quickest: &[f64]) -> Vec<u64> {
    let dips = |(three, quickest): &(&[LinePoint], &f64)| {
        let [left, here, right] = [three[0].1, three[1].1.max(**quickest), three[2].1];
        let [x0, x, x1] = [0, 1, 2].map(|at: usize| (three[at].0 as f64).ln());
        let line = (left.ln() + (right / left).ln() * (x - x0) / (x1 - x0)).exp();
        here < DIP * line && left.min(right) > RECOVERS * here
    };
    let quickest = quickest.iter().skip(1);
    curve.windows(3).zip(quickest).filter(dips).map(|(three, _)| three[1].0).collect()
}

/// The smallest block from which threads are 10 % faster at all blocks that both curves have.
pub fn pays_from(one: &[LinePoint], many: &[LinePoint]) -> Option<u64> {
    let rate = |block| one.iter().find(|point| point.0 == block).map(|point| point.1);
    let both = many.iter().filter_map(|(block, many)| Some((*block, *many, rate(*block)?)));
    let mut from = None;
    for (block, of_many, of_one) in both {
        match (of_many > PAYS * of_one, from) {
            (true, None) => from = Some(block),
            (true, _) => {}
            (false, _) => from = None,
        }
    }
    from
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1024;

    /// 200 ns a call and 8 GB/s.
    fn rate(block: u64) -> f64 {
        1e9 * block as f64 / (200.0 + block as f64 / 8.0)
    }

    fn curve(blocks: &[u64]) -> Vec<LinePoint> {
        blocks.iter().map(|block| (*block, rate(*block))).collect()
    }

    fn powers() -> Vec<LinePoint> {
        (0..10).map(|power| 1_u64 << (2 * power)).map(|block| (block, rate(block))).collect()
    }

    #[test]
    fn fit_recovers_call_cost_and_bandwidth() {
        let fit = fit(&powers()).expect("a line");
        assert!((fit.call_ns - 200.0).abs() < 1e-6, "{fit:?}");
        assert!((fit.bandwidth.expect("a bandwidth") - 8e9).abs() < 1.0, "{fit:?}");
        assert!(fit.off < 1e-9 && fit.points == 10, "{fit:?}");
    }

    #[test]
    fn fit_weighs_by_relative_error() {
        // The large block is 10 % off: without weights its 13 µs would halve the cost per call.
        let mut points = powers();
        points.last_mut().expect("ten").1 *= 0.9;
        let fit = fit(&points).expect("a line");
        assert!((fit.call_ns - 200.0).abs() < 4.0, "{fit:?}");
        assert!(fit.off > 0.01, "{fit:?}");
    }

    #[test]
    fn fit_agrees_with_weighted_least_squares() {
        let ns = [(1_000, 300.0), (2_000, 500.0), (4_000, 700.0), (8_000, 1_500.0)];
        let fit = fit(&ns.map(|(block, ns)| (block, 1e9 * block as f64 / ns))).expect("a line");
        // In exact fractions.
        assert!((fit.call_ns / 147.225_144_220_139_24 - 1.0).abs() < 1e-12, "{fit:?}");
        assert!(
            (fit.bandwidth.expect("it rises") / 6_372_528_927.031_296 - 1.0).abs() < 1e-12,
            "{fit:?}"
        );
        assert!((fit.off / 0.107_027_758_607_982_53 - 1.0).abs() < 1e-12, "{fit:?}");
        assert_eq!(super::fit(&[(1, 1e9), (2, 1e9), (4, 1e9)]).map(|it| it.points), Some(3));
        let falling = super::fit(&[(1, 1e6), (2, 4e6), (4, 16e6)]).expect("a line");
        assert_eq!(falling.bandwidth, None, "larger blocks take less time");
    }

    #[test]
    fn fit_needs_three_different_blocks() {
        assert_eq!(fit(&curve(&[1, 2])), None);
        assert_eq!(fit(&[(4, 1e6), (4, 1e6), (4, 2e6)]), None);
        assert_eq!(fit(&[]), None);
    }

    #[test]
    fn constant_call_cost_has_no_bandwidth() {
        let points: Vec<LinePoint> = [1, 2, 4, 8].map(|b| (b, 1e9 * b as f64 / 100.0)).into();
        let fit = fit(&points).expect("a line");
        assert!((fit.call_ns - 100.0).abs() < 1e-9);
        assert!(fit.bandwidth.is_none_or(|bandwidth| bandwidth > 1e15), "{fit:?}");
    }

    #[test]
    fn knee_spans_95_percent_around_the_best() {
        let points = [(1, 1.0), (4, 4.0), (16, 9.4), (64, 9.6), (256, 10.0), (1024, 7.0)];
        assert_eq!(best(&points), Some((256, 10.0)));
        assert_eq!(knee(&points), Some((64, 256)));
        let lonely = [(1, 9.6), (4, 8.0), (16, 9.7), (64, 10.0)];
        assert_eq!(knee(&lonely), Some((16, 64)), "not contiguous with the best");
        assert_eq!(knee(&[(1, 0.95), (4, 1.0), (16, 0.95), (64, 0.94)]), Some((1, 16)));
        assert_eq!(knee(&[(4, 2.0)]), Some((4, 4)));
        assert_eq!((knee(&[]), best(&[])), (None, None));
    }

    #[test]
    fn only_dips_are_reported_as_dips() {
        let dips =
            |curve: &[LinePoint]| dips(curve, &curve.iter().map(|it| it.1).collect::<Vec<_>>());
        assert_eq!(dips(&powers()), [0; 0]);
        let mut dipped = powers();
        dipped[3].1 *= 0.7;
        assert_eq!(dips(&dipped), [0; 0], "it rises all the same");
        dipped[3].1 *= 0.3;
        assert_eq!(dips(&dipped), [64]);
        let plateau = [(1, 10.0), (2, 9.0), (4, 10.0), (8, 7.0), (16, 10.0)];
        assert_eq!(dips(&plateau), [8]);
        let step = [(1, 10.0), (2, 10.0), (4, 5.0), (8, 5.0)];
        assert_eq!(dips(&step), [0; 0]);
        assert_eq!(dips(&[(1, 10.0), (2, 1.0)]), [0; 0]);
        // 0.8 times √(9 · 16), and 1.1 times 5.
        assert_eq!(dips(&[(1, 11.0), (2, 9.7), (4, 16.0)]), [2]);
        assert_eq!(dips(&[(1, 10.0), (2, 9.7), (4, 16.0)]), [0; 0], "hardly below its left");
        assert_eq!(dips(&[(1, 100.0), (2, 5.0), (4, 1.1 * 5.0)]), [0; 0]);
        assert_eq!(dips(&[(1, 100.0), (2, 5.0), (4, 5.6)]), [2]);
    }

    /// The first two: the cost of a call decides, so that the rate is proportional to the block.
    #[test]
    fn rising_curve_has_no_dips() {
        let dips =
            |curve: &[LinePoint]| dips(curve, &curve.iter().map(|it| it.1).collect::<Vec<_>>());
        let proportional: Vec<LinePoint> =
            [1, 4, 16, 64, 1 << 16].iter().map(|block| (*block, *block as f64)).collect();
        assert_eq!(dips(&proportional), [0; 0]);
        assert_eq!(dips(&curve(&[1, 3, 1000, 4096, 1 << 20])), [0; 0]);
        assert_eq!(dips(&[(60, 60.0), (100, 100.0), (300, 300.0)]), [0; 0]);
        assert_eq!(dips(&[(1, 60.0), (2, 100.0), (4, 300.0)]), [0; 0]);
        // At uneven distances: the line at 2 is near the left neighbour.
        assert_eq!(dips(&[(1, 10.0), (2, 8.5), (1024, 1000.0)]), [2]);
        assert_eq!(dips(&[(1, 10.0), (512, 85.0), (1024, 1000.0)]), [0; 0]);
        assert_eq!(dips(&[(1, 100.0), (512, 9.0), (1024, 10.0)]), [512]);
    }

    #[test]
    fn one_quick_pass_is_enough_against_a_dip() {
        let curve = [(1, 10.0), (2, 6.0), (4, 10.0)];
        assert_eq!(dips(&curve, &[10.0, 7.0, 10.0]), [2]);
        assert_eq!(dips(&curve, &[10.0, 9.5, 10.0]), [0; 0]);
    }

    #[test]
    fn threads_pay_from_the_last_crossover() {
        let one = [(KIB, 1.0), (4 * KIB, 3.0), (16 * KIB, 5.0), (64 * KIB, 6.0)];
        let many =
            |rates: [f64; 4]| one.iter().zip(rates).map(|(p, r)| (p.0, r)).collect::<Vec<_>>();
        assert_eq!(pays_from(&one, &many([1.0, 3.0, 8.0, 9.0])), Some(16 * KIB));
        assert_eq!(pays_from(&one, &many([2.0, 6.0, 5.0, 9.0])), Some(64 * KIB));
        assert_eq!(pays_from(&one, &many([2.0, 6.0, 9.0, 6.1])), None);
        assert_eq!(pays_from(&one, &[(3, 100.0)]), None);
        assert_eq!(pays_from(&[(KIB, 1.0)], &[(KIB, 1.1)]), None, "1.1 times is no more");
    }
}
