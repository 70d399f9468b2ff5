//! Student's t: the two-sample test, and prediction intervals.

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::moments::{mean, standard_deviation};

/// The result of Student's two-sample t-test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Student {
    /// The difference of the means, second minus first, in standard errors.
    pub t: f64,
    /// Two-sided.
    pub p: f64,
}

/// Student's two-sample t-test of the finite values of `a` against those of `b`, assuming equal
/// variances: with three values on one side, Welch's test has several times its nominal rate of
/// false alarms at small p. `None` if either is empty, or both together have fewer than three
/// values. If both variances are 0, p is 1 for equal means and else 0.
#[must_use]
pub fn student(a: &[f64], b: &[f64]) -> Option<Student> {
    let count = |sample: &[f64]| sample.iter().filter(|value| value.is_finite()).count() as f64;
    let (count_a, count_b) = (count(a), count(b));
    let freedom = count_a + count_b - 2.0;
    let squares = |sample: &[f64], size: f64| {
        standard_deviation(sample).map_or(0.0, |deviation| deviation.powi(2) * (size - 1.0))
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
    // Values near f64::MAX overflow: no evidence of a difference.
    Some(Student { t, p: student_tails(t, freedom)? })
}

/// Half width of the 95 % prediction interval for one more value: t · s · √(1 + 1/n). `None` below
/// two finite values.
#[must_use]
pub fn prediction_half_width(values: &[f64]) -> Option<f64> {
    let n = values.iter().filter(|value| value.is_finite()).count() as f64;
    let deviation = standard_deviation(values)?;
    let limit = students_t(n - 1.0)?.inverse_cdf(0.975);
    Some(limit * deviation * (1.0 + 1.0 / n).sqrt())
}

/// Half width of the 95 % confidence interval of a mean: t · s ÷ √n. `None` below two finite
/// values.
#[must_use]
pub fn mean_half_width(values: &[f64]) -> Option<f64> {
    let n = values.iter().filter(|value| value.is_finite()).count() as f64;
    Some(prediction_half_width(values)? / (n + 1.0).sqrt())
}

/// The value that Student's t exceeds with this probability. `None` without degrees of freedom.
#[must_use]
pub fn student_limit(probability: f64, freedom: f64) -> Option<f64> {
    Some(-students_t(freedom)?.inverse_cdf(probability))
}

/// How often Student's t is at least this far from 0, on either side. Always for a t that is not a
/// number: no difference and no error. `None` without degrees of freedom.
#[must_use]
pub fn student_tails(t: f64, freedom: f64) -> Option<f64> {
    let students = students_t(freedom)?;
    Some(if t.is_nan() { 1.0 } else { (2.0 * students.sf(t.abs())).min(1.0) })
}

fn students_t(freedom: f64) -> Option<StudentsT> {
    StudentsT::new(0.0, 1.0, freedom).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_error_is_certain_and_no_difference_is_not() {
        let of = |t: f64| student_tails(t, 7.0);
        assert_eq!([of(f64::INFINITY), of(f64::NEG_INFINITY)], [Some(0.0); 2]);
        assert_eq!([of(f64::NAN), of(0.0)], [Some(1.0); 2]);
        assert_eq!(student_tails(1.0, 0.0), None);
    }

    #[test]
    fn prediction_interval_uses_students_t() {
        // scipy.stats.t.ppf(0.975, 2) is 4.302…
        let width = prediction_half_width(&[1.0, 2.0, 3.0]).unwrap();
        assert!((width / (4.302_652_729_911_275 * (4.0_f64 / 3.0).sqrt()) - 1.0).abs() < 1e-9);
        assert_eq!(prediction_half_width(&[1.0]), None);
        assert_eq!(prediction_half_width(&[2.0, 2.0]), Some(0.0));
        // t(0.975, 2) · 1 ÷ √3.
        let mean = mean_half_width(&[1.0, 2.0, 3.0]).unwrap();
        assert!((mean - 4.302_652_73 / 3f64.sqrt()).abs() < 1e-6, "{mean}");
    }

    #[test]
    fn constant_samples_have_p_of_zero_or_one() {
        assert_eq!(student(&[1.0, 1.0], &[1.0, 1.0]), Some(Student { t: 0.0, p: 1.0 }));
        let apart = student(&[2.0, 2.0], &[1.0, 1.0]);
        assert_eq!(apart, Some(Student { t: f64::NEG_INFINITY, p: 0.0 }));
        assert_eq!(student(&[1.0], &[2.0]), None);
        assert_eq!(student(&[], &[1.0, 2.0]), None);
    }

    #[test]
    fn overflowing_values_have_p_of_one() {
        let student = student(&[f64::MAX, -f64::MAX], &[f64::MAX, 0.0]).unwrap();
        assert!(student.t.is_nan() && student.p == 1.0, "{student:?}");
    }

    #[test]
    fn t_test_agrees_with_scipy() {
        // scipy.stats.ttest_ind(b, a) of SciPy 1.17.1
        let a = [27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6, 23.1, 19.6];
        let b = [27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8];
        let Student { t, p } = student(&a, &b).unwrap();
        let (expected_t, expected_p) = (2.357670875561448, 0.02926418409621029);
        assert!((t / expected_t - 1.0).abs() < 1e-12, "{t}");
        assert!((p / expected_p - 1.0).abs() < 1e-11, "{p}");
    }
}
