//! Student's t: the tail of its distribution, and the test between two samples.

use super::moments::{mean, standard_deviation};

/// Two samples by Student's test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Student {
    /// The difference of the means, second minus first, in standard errors.
    pub t: f64,
    /// The two-sided p value, 0 to 1.
    pub p: f64,
}

/// Student's two-sided test of the finite values of `a` against those of `b`, which are taken to
/// scatter alike: with three values on one side the test that does not, Welch's, alarms several
/// times too often far out in its tail. `None` when either has none, or both together fewer than
/// three. Where neither scatters at all, p is 1 for equal means and else 0.
#[must_use]
pub fn student(a: &[f64], b: &[f64]) -> Option<Student> {
    let count = |sample: &[f64]| sample.iter().filter(|value| value.is_finite()).count() as f64;
    let (count_a, count_b) = (count(a), count(b));
    let freedom = count_a + count_b - 2.0;
    let squares = |sample: &[f64], count: f64| {
        standard_deviation(sample).map_or(0.0, |deviation| deviation.powi(2) * (count - 1.0))
    };
    let difference = mean(b)? - mean(a)?;
    if freedom < 1.0 {
        return None;
    }
    let variance = (squares(a, count_a) + squares(b, count_b)) / freedom;
    if variance == 0.0 {
        let same = difference == 0.0;
        let t = if same { 0.0 } else { f64::INFINITY.copysign(difference) };
        return Some(Student { t, p: f64::from(u8::from(same)) });
    }
    let t = difference / (variance * (1.0 / count_a + 1.0 / count_b)).sqrt();
    Some(Student { t, p: (2.0 * upper_tail(t.abs(), freedom)).min(1.0) })
}

/// How far one more value may lie from the mean of these by chance alone, in their unit, with 95 %:
/// t · s · √(1 + 1/n). `None` below two finite values, which have no spread.
#[must_use]
pub fn next_within(values: &[f64]) -> Option<f64> {
    let n = values.iter().filter(|value| value.is_finite()).count() as f64;
    let deviation = standard_deviation(values)?;
    Some(two_sided_limit(0.05, n - 1.0) * deviation * (1.0 + 1.0 / n).sqrt())
}

/// The t that Student's T exceeds on either side with this p, by bisection to all digits.
fn two_sided_limit(p: f64, freedom: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while 2.0 * upper_tail(high, freedom) > p {
        high *= 2.0;
    }
    for _ in 0..64 {
        let middle = f64::midpoint(low, high);
        if 2.0 * upper_tail(middle, freedom) > p { low = middle } else { high = middle }
    }
    high
}

/// P(T > t) for t ≥ 0 and Student's T with so many degrees of freedom.
fn upper_tail(t: f64, freedom: f64) -> f64 {
    let x = freedom / (freedom + t * t);
    beta_share(freedom / 2.0, 0.5, x) / 2.0
}

/// The regularised incomplete beta function I_x(a, b).
fn beta_share(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    let front =
        (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp();
    // The fraction converges fast on this side of the mean only.
    if x < (a + 1.0) / (a + b + 2.0) {
        front * beta_fraction(a, b, x) / a
    } else {
        1.0 - front * beta_fraction(b, a, 1.0 - x) / b
    }
}

/// The continued fraction of the incomplete beta function (DLMF 8.17.22), by Lentz's method.
fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    const STEPS: u32 = 500;
    const TINY: f64 = 1e-300;
    let away = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / away(1.0 - (a + b) * x / (a + 1.0));
    let mut fraction = d;
    for step in 1..=STEPS {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut factor = 1.0;
        for term in [even, odd] {
            d = 1.0 / away(1.0 + term * d);
            c = away(1.0 + term / c);
            factor = c * d;
            fraction *= factor;
        }
        if (factor - 1.0).abs() < f64::EPSILON {
            break;
        }
    }
    fraction
}

/// ln Γ(z) for z > 0: Stirling's series (DLMF 5.11.1) above 10, shifted up from below.
fn ln_gamma(z: f64) -> f64 {
    const SHIFTED: f64 = 10.0;
    if z < SHIFTED {
        return ln_gamma(z + 1.0) - z.ln();
    }
    let coefficients = [
        1.0 / 12.0,
        -1.0 / 360.0,
        1.0 / 1260.0,
        -1.0 / 1680.0,
        1.0 / 1188.0,
        -691.0 / 360_360.0,
        1.0 / 156.0,
    ];
    let inverse = 1.0 / (z * z);
    let series = coefficients.iter().rev().fold(0.0, |sum, next| sum * inverse + next) / z;
    (z - 0.5) * z.ln() - z + (2.0 * std::f64::consts::PI).ln() / 2.0 + series
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_agrees_with_scipy() {
        // scipy.stats.t.sf of SciPy 1.17.1
        for (t, freedom, expected) in TAILS {
            let tail = upper_tail(t, freedom);
            let off = (tail / expected - 1.0).abs();
            assert!(off < 1e-11, "P(T > {t}), {freedom} degrees: {tail}, not {expected}");
        }
    }

    #[test]
    fn one_more_value_lies_as_far_as_student_s_t_lets_it() {
        // scipy.stats.t.ppf(0.975, freedom)
        for (freedom, expected) in [
            (1.0, 12.706_204_736_432_095),
            (2.0, 4.302_652_729_911_275),
            (4.0, 2.776_445_105_197_798_7),
            (9.0, 2.262_157_162_854_099_3),
        ] {
            let limit = two_sided_limit(0.05, freedom);
            assert!((limit / expected - 1.0).abs() < 1e-9, "{freedom}: {limit}");
        }
        let within = next_within(&[1.0, 2.0, 3.0]).unwrap();
        assert!((within / (4.302_652_729_911_275 * (4.0_f64 / 3.0).sqrt()) - 1.0).abs() < 1e-9);
        assert_eq!(next_within(&[1.0]), None);
        assert_eq!(next_within(&[2.0, 2.0]), Some(0.0));
    }

    #[test]
    fn samples_that_do_not_scatter_differ_or_do_not() {
        assert_eq!(student(&[1.0, 1.0], &[1.0, 1.0]), Some(Student { t: 0.0, p: 1.0 }));
        let apart = student(&[2.0, 2.0], &[1.0, 1.0]);
        assert_eq!(apart, Some(Student { t: f64::NEG_INFINITY, p: 0.0 }));
        assert_eq!(student(&[1.0], &[2.0]), None);
        assert_eq!(student(&[], &[1.0, 2.0]), None);
    }

    #[test]
    fn the_test_agrees_with_scipy() {
        // scipy.stats.ttest_ind(b, a) of SciPy 1.17.1
        let a = [27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6, 23.1, 19.6];
        let b = [27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8];
        let Student { t, p } = student(&a, &b).unwrap();
        assert!((t / TEST.0 - 1.0).abs() < 1e-12 && (p / TEST.1 - 1.0).abs() < 1e-11, "{t} {p}");
    }

    const TAILS: [(f64, f64, f64); 12] = [
        (0.5, 1.0, 0.35241638234956674),
        (2.0, 1.0, 0.14758361765043326),
        (31.8, 1.0, 0.010006447309568704),
        (1.0, 2.5, 0.20203051363913682),
        (2.776, 4.0, 0.02501138915998821),
        (4.6, 4.0, 0.005015446585098123),
        (3.3, 7.77, 0.0056562060289342886),
        (1.2, 18.0, 0.12284789780315564),
        (5.0, 18.0, 4.642071278688405e-05),
        (9.0, 30.3, 2.2917364394384775e-10),
        (2.0, 500.0, 0.023020341384515728),
        (6.0, 1998.0, 1.1683163384556364e-09),
    ];
    const TEST: (f64, f64) = (2.357670875561448, 0.02926418409621029);
}
