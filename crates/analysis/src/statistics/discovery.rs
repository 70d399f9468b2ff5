//! False discovery rate of multiple tests (rule 28).

/// The p values in the order given, adjusted by Benjamini and Hochberg (J. R. Stat. Soc. B 57,
/// 1995): of the tests with an adjusted p below q, on average at most a share q is false, if the
/// tests are independent or positively dependent (Benjamini & Yekutieli, The Annals of Statistics
/// 29, 2001).
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
