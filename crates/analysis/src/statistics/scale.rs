//! Robust scale: Qn.

use super::quantile::sorted_finite;

/// Makes it the standard deviation of normal values.
const CONSISTENCY: f64 = 2.2219;
/// Corrections of the bias of two to nine values.
const SMALL: [f64; 8] = [0.399, 0.994, 0.512, 0.844, 0.611, 0.857, 0.669, 0.872];
/// Its variance is that of a standard deviation of fewer values.
const EFFICIENCY: f64 = 0.82;

/// Qn (Rousseeuw & Croux, Journal of the American Statistical Association 88, 1993), with the
/// corrections for small samples (Croux & Rousseeuw, COMPSTAT 1992): from the smallest quarter of
/// the distances between two values, so that up to half of the values can be anywhere. It needs no
/// centre. `None` below two finite values.
#[must_use]
pub fn qn(values: &[f64]) -> Option<f64> {
    let sorted = sorted_finite(values);
    let n = sorted.len();
    if n < 2 {
        return None;
    }
    let half = n / 2 + 1;
    let correction = match (SMALL.get(n - 2), n % 2) {
        (Some(small), _) => *small,
        (None, 1) => n as f64 / (n as f64 + 1.4),
        (None, _) => n as f64 / (n as f64 + 3.8),
    };
    Some(CONSISTENCY * correction * distance(&sorted, half * (half - 1) / 2))
}

/// The degrees of freedom with which a difference in Qn of `n` values has Student's t.
#[must_use]
pub fn qn_freedom(n: usize) -> f64 {
    EFFICIENCY * (n as f64 - 1.0)
}

/// The distance between two values that has this rank, from 1: bisected over the bits of a number,
/// which are in the order of the numbers, since all distances of a thousand values are too many.
fn distance(sorted: &[f64], rank: usize) -> f64 {
    let within = |limit: f64| {
        let mut first = 0;
        let count = sorted.iter().enumerate().map(|(at, value)| {
            while value - sorted[first] > limit {
                first += 1;
            }
            at - first
        });
        count.sum::<usize>()
    };
    let (mut low, mut high) = (0_u64, (sorted[sorted.len() - 1] - sorted[0]).to_bits());
    while low < high {
        let middle = low + (high - low) / 2;
        if within(f64::from_bits(middle)) >= rank {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    f64::from_bits(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qn_is_a_distance_of_known_rank() {
        // Distances 1 1 1 1 2 2 2 3 3 4: the third of them.
        assert_eq!(qn(&[3.0, 1.0, 5.0, 2.0, 4.0]), Some(CONSISTENCY * 0.844));
        // Distances 1 2 3 4 6 7 of 0 1 3 7: the third.
        assert_eq!(qn(&[7.0, 0.0, 3.0, 1.0]), Some(CONSISTENCY * 0.512 * 3.0));
        assert_eq!(qn(&[2.0, 5.0]), Some(CONSISTENCY * 0.399 * 3.0));
        // 10 values: the 15th of 45 distances, of which 9 are 1 and 8 are 2.
        let ten: Vec<f64> = (0..10).map(f64::from).collect();
        assert_eq!(qn(&ten), Some(CONSISTENCY * (10.0 / 13.8) * 2.0));
        assert_eq!(qn(&[1.0, f64::NAN]), None);
        assert_eq!(qn(&[4.0; 9]), Some(0.0));
    }

    #[test]
    fn qn_ignores_where_half_of_the_values_are() {
        let mut values: Vec<f64> = (0..21).map(f64::from).collect();
        let clean = qn(&values).unwrap();
        values[12..].fill(f64::MAX);
        assert!(qn(&values).unwrap() < 3.0 * clean);
    }
}
