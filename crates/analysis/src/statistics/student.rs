//! Student's t: the test between two samples, and the limit of one more value.

use statrs::distribution::{ContinuousCDF, StudentsT};

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
    // Values near the largest there are overflow: then nothing can be said of their difference.
    let p = if t.is_nan() { 1.0 } else { 2.0 * students_t(freedom)?.sf(t.abs()) };
    Some(Student { t, p: p.min(1.0) })
}

/// How far one more value may lie from the mean of these by chance alone, in their unit, with 95 %:
/// t · s · √(1 + 1/n). `None` below two finite values, which have no spread.
#[must_use]
pub fn next_within(values: &[f64]) -> Option<f64> {
    let n = values.iter().filter(|value| value.is_finite()).count() as f64;
    let deviation = standard_deviation(values)?;
    let limit = students_t(n - 1.0)?.inverse_cdf(0.975);
    Some(limit * deviation * (1.0 + 1.0 / n).sqrt())
}

/// Student's T with so many degrees of freedom; `None` without any.
fn students_t(freedom: f64) -> Option<StudentsT> {
    StudentsT::new(0.0, 1.0, freedom).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_agrees_with_scipy() {
        // scipy.stats.t.sf of SciPy 1.17.1
        for (t, freedom, expected) in TAILS {
            let tail = students_t(freedom).unwrap().sf(t);
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
            let limit = students_t(freedom).unwrap().inverse_cdf(0.975);
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
    fn values_that_overflow_are_no_surprise() {
        let student = student(&[f64::MAX, -f64::MAX], &[f64::MAX, 0.0]).unwrap();
        assert!(student.t.is_nan() && student.p == 1.0, "{student:?}");
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
