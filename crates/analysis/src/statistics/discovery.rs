//! Many tests at once: p values that allow for their number (rule 28).

/// The adjusted p values of Benjamini and Hochberg (J. R. Stat. Soc. B 57, 1995), in the order
/// given: the smallest false discovery rate at which each would be among those reported. Whoever
/// reports all below q has a share of at most q of false ones among them, in the mean, where the
/// tests are independent or depend positively on each other (Benjamini & Yekutieli, The Annals of
/// Statistics 29, 2001).
#[must_use]
pub fn benjamini_hochberg(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    let mut adjusted = vec![1.0; p.len()];
    let mut least = 1.0_f64;
    for (rank, &test) in order.iter().enumerate().rev() {
        least = least.min(p[test] * p.len() as f64 / (rank + 1) as f64);
        adjusted[test] = least;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn largest_p_value_is_not_adjusted() {
        assert_eq!(benjamini_hochberg(&[0.03]), [0.03]);
        assert_eq!(benjamini_hochberg(&[0.9, 0.01]), [0.9, 0.02]);
        assert!(benjamini_hochberg(&[]).is_empty());
    }

    #[test]
    fn adjusted_p_values_keep_their_order() {
        // 0.02 × 4 ÷ 1 is more than 0.03 × 4 ÷ 3, which it may not exceed.
        let adjusted = benjamini_hochberg(&[0.03, 0.02, 0.5, 0.025]);
        assert!((adjusted[1] - 0.04).abs() < 1e-15, "{adjusted:?}");
        assert_eq!((adjusted[0], adjusted[3]), (adjusted[1], adjusted[1]));
    }
}
