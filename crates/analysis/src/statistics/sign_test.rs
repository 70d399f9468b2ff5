//! The sign test: whether paired values moved in one direction, whatever their distribution.

use statrs::distribution::{Binomial, DiscreteCDF};

/// The two-sided p of as many differences above 0 as below, exact for independent pairs (Conover,
/// Practical Nonparametric Statistics, 3rd ed., § 3.4). Pairs without a difference do not count.
/// `None` without a difference.
#[must_use]
pub fn sign_test(differences: &[f64]) -> Option<f64> {
    let count = |is: fn(&&f64) -> bool| differences.iter().filter(is).count() as u64;
    let (up, down) = (count(|it| **it > 0.0), count(|it| **it < 0.0));
    let coin = Binomial::new(0.5, up + down).ok().filter(|_| up + down > 0)?;
    Some((2.0 * coin.cdf(up.min(down))).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p_is_that_of_a_fair_coin() {
        // scipy.stats.binomtest(k, n).pvalue
        let of = |up: usize, down: usize| sign_test(&[vec![1.0; up], vec![-9.0; down]].concat());
        for (up, down, p) in
            [(8, 0, 0.007_812_5), (0, 5, 0.062_5), (7, 1, 0.070_312_5), (3, 3, 1.0), (2, 1, 1.0)]
        {
            assert!((of(up, down).unwrap() - p).abs() < 1e-12, "{up} {down}");
        }
        assert_eq!(sign_test(&[0.0, 0.0, 1.0, 1.0]), Some(0.5));
        assert_eq!([sign_test(&[]), sign_test(&[0.0, f64::NAN])], [None, None]);
    }
}
