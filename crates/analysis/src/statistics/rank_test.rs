//! The Mann–Whitney U test for process medians (rule 27). Never for pooled rounds, which are not
//! independent.

use std::f64::consts::SQRT_2;

use super::quantile::sorted_finite;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MannWhitney {
    /// U of the first sample: pairs in which its value is greater; ties count half.
    pub u: f64,
    /// Two-sided.
    pub p: f64,
}

/// The exact p value is computed up to this product of the sample sizes, such as 32 × 32, with a
/// million additions.
const EXACT_PAIRS_MAX: usize = 1_024;

/// The two-sided Mann–Whitney test of the finite values of `a` against those of `b` (The Annals
/// of Mathematical Statistics 18, 1947). `None` when either has none.
///
/// Without ties and up to 1 024 pairs, p is exact; else it is the normal approximation with
/// corrections for ties and continuity. Both agree with SciPy's `mannwhitneyu`, which by default
/// approximates if both samples exceed 8: too early for 10 against 10 processes.
#[must_use]
pub fn mann_whitney(a: &[f64], b: &[f64]) -> Option<MannWhitney> {
    let (a, b) = (sorted_finite(a), sorted_finite(b));
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let u: f64 = a
        .iter()
        .map(|x| {
            let below = b.partition_point(|y| y < x) as f64;
            let not_above = b.partition_point(|y| y <= x) as f64;
            f64::midpoint(below, not_above)
        })
        .sum();
    let pairs = a.len() * b.len();
    let extreme = u.max(pairs as f64 - u);
    let ties = tie_term(&a, &b);
    let tail = if ties == 0.0 && pairs <= EXACT_PAIRS_MAX {
        exact_tail(a.len(), b.len(), extreme as usize)
    } else {
        normal_tail(a.len() as f64, b.len() as f64, ties, extreme)
    };
    Some(MannWhitney { u, p: (2.0 * tail).min(1.0) })
}

/// Σ (t³ − t) over the groups of t equal values of both samples together.
fn tie_term(a: &[f64], b: &[f64]) -> f64 {
    let both = sorted_finite(&[a, b].concat());
    both.chunk_by(|x, y| x == y).map(|tied| (tied.len() as f64).powi(3) - tied.len() as f64).sum()
}

/// P(U ≥ `u`) when all orders of m and n different values are equally likely.
fn exact_tail(m: usize, n: usize, u: usize) -> f64 {
    // By symmetry P(U ≥ u) = P(U ≤ mn − u), and the lower tail needs the smaller table.
    let most = m * n - u;
    // chances[j][k]: P(U = k) of i values against j, for i from 0 to m. The greatest of all i + j
    // is one of the i with probability i/(i + j), and is then greater than all j.
    let mut chances = vec![vec![0.0; most + 1]; n + 1];
    for row in &mut chances {
        row[0] = 1.0;
    }
    for i in 1..=m {
        for j in 1..=n {
            let ours = i as f64 / (i + j) as f64;
            let (before, from) = chances.split_at_mut(j);
            for k in (0..=most).rev() {
                let beaten = if k >= j { from[0][k - j] } else { 0.0 };
                from[0][k] = ours * beaten + (1.0 - ours) * before[j - 1][k];
            }
        }
    }
    chances[n].iter().sum()
}

/// The same by the normal approximation; `ties` is [`tie_term`].
fn normal_tail(m: f64, n: f64, ties: f64, u: f64) -> f64 {
    let all = m + n;
    let variance = m * n / 12.0 * ((all + 1.0) - ties / (all * (all - 1.0)));
    if variance <= 0.0 {
        // All values are equal.
        return 1.0;
    }
    let z = (u - m * n / 2.0 - 0.5) / variance.sqrt();
    libm::erfc(z / SQRT_2) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_samples_have_p_of_one() {
        assert_eq!(mann_whitney(&[7.0; 10], &[7.0; 10]), Some(MannWhitney { u: 50.0, p: 1.0 }));
        assert_eq!(mann_whitney(&[7.0], &[f64::NAN]), None);
    }

    #[test]
    fn exact_probabilities_add_up_to_one() {
        for (m, n) in [(1, 1), (3, 7), (10, 10), (32, 32), (8, 128)] {
            assert!((exact_tail(m, n, 0) - 1.0).abs() < 1e-12, "{m} against {n}");
        }
    }
}
