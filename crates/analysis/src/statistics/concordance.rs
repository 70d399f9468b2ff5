//! Kendall's test of whether one quantity grows with another (Biometrika 30, 1938).

/// The probability that the ranks of `y` agree with those of `x` at least so well if all orders are
/// equally likely: small where `y` grows with `x`. A tie is a pair that does not agree. `None` for
/// fewer than two points or other lengths.
#[must_use]
pub fn concordance(x: &[f64], y: &[f64]) -> Option<f64> {
    if x.len() != y.len() || x.len() < 2 {
        return None;
    }
    let pairs = (0..x.len()).flat_map(|a| (0..a).map(move |b| (a, b)));
    let agree = |&(a, b): &(usize, usize)| (x[a] - x[b]) * (y[a] - y[b]) > 0.0;
    let disagreeing = pairs.filter(|pair| !agree(pair)).count();
    // The shares of the orders of n by their number of inversions: the n-th value can be put before
    // 0 to n − 1 of the others.
    let shares = (2..=x.len()).fold(vec![1.0], |shares: Vec<f64>, n| {
        let mut next = vec![0.0; shares.len() + n - 1];
        for (inversions, share) in shares.iter().enumerate() {
            (0..n).for_each(|more| next[inversions + more] += share / n as f64);
        }
        next
    });
    Some(shares[..=disagreeing].iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chance_is_the_share_of_orders_that_agree_as_well() {
        let x = [1.0, 2.0, 3.0, 4.0, 5.0];
        let of = |y: [f64; 5]| 120.0 * concordance(&x, &y).unwrap();
        // SciPy 1.11: kendalltau(x, y, alternative="greater", method="exact").
        for (y, orders) in [
            ([1.0, 2.0, 3.0, 4.0, 5.0], 1.0),
            ([1.0, 2.0, 3.0, 5.0, 4.0], 5.0),
            ([2.0, 1.0, 3.0, 5.0, 4.0], 14.0),
            ([5.0, 4.0, 3.0, 2.0, 1.0], 120.0),
            // Ties do not agree.
            ([1.0, 2.0, 3.0, 4.0, 4.0], 5.0),
        ] {
            assert!((of(y) - orders).abs() < 1e-9, "{y:?}: {}", of(y));
        }
        assert_eq!(concordance(&x, &[1.0]), None);
        assert_eq!(concordance(&[1.0], &[1.0]), None);
    }
}
