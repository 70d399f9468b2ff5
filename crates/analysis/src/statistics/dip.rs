//! Hartigan's dip statistic: the distance of a sample from unimodality (Hartigan & Hartigan, The
//! Annals of Statistics 13, 1985).
//!
//! It assumes no shape: a long tail has no dip. It does not locate or count modes: see `modes`.

/// The dip of values in ascending order: the greatest distance between their distribution
/// function and the nearest one with a single mode, 0 to 0.25. 0 for fewer than 4 values, or when
/// all are the same.
///
/// By the algorithm AS 217 (P. M. Hartigan, Applied Statistics 34, 1985) with the corrections
/// later made in R's `diptest` (Maechler): the interval the mode can be in shrinks until the
/// distance within it is below the one found outside.
#[must_use]
pub fn dip(sorted: &[f64]) -> f64 {
    debug_assert!(sorted.is_sorted(), "the values must be sorted");
    let n = sorted.len();
    if n < 4 || sorted[0] == sorted[n - 1] {
        return 0.0;
    }
    let minorant = minorant_links(sorted);
    let majorant = majorant_links(sorted);
    let (mut low, mut high) = (0, n - 1);
    // In units of 1/2n.
    let mut dip: f64 = 1.0;
    loop {
        let convex = chain(high, low, &minorant);
        let concave = chain(low, high, &majorant);
        let widest = widest_gap(sorted, &convex, &concave);
        if widest.distance < dip {
            break;
        }
        let below = convex[widest.convex..]
            .windows(2)
            .map(|w| above_chord(sorted, w[1], w[0]))
            .fold(1.0, f64::max);
        let above = concave[widest.concave..]
            .windows(2)
            .map(|w| below_chord(sorted, w[0], w[1]))
            .fold(1.0, f64::max);
        dip = dip.max(below).max(above);
        let next = (convex[widest.convex], concave[widest.concave]);
        if next == (low, high) {
            break;
        }
        (low, high) = next;
    }
    dip / (2 * n) as f64
}

/// For each point, the one before it on the greatest convex minorant of all up to it.
fn minorant_links(x: &[f64]) -> Vec<usize> {
    let mut links = vec![0; x.len()];
    for j in 1..x.len() {
        let mut at = j - 1;
        while at != 0 {
            let before = links[at];
            let steep = (x[j] - x[at]) * ((at - before) as f64);
            if steep < (x[at] - x[before]) * ((j - at) as f64) {
                break;
            }
            at = before;
        }
        links[j] = at;
    }
    links
}

/// For each point, the one after it on the least concave majorant of all from it.
fn majorant_links(x: &[f64]) -> Vec<usize> {
    let last = x.len() - 1;
    let mut links = vec![last; x.len()];
    for k in (0..last).rev() {
        let mut at = k + 1;
        while at != last {
            let after = links[at];
            let steep = (x[at] - x[k]) * ((after - at) as f64);
            if steep < (x[after] - x[at]) * ((at - k) as f64) {
                break;
            }
            at = after;
        }
        links[k] = at;
    }
    links
}

/// The points met following `links` from `from` to `to`, both included.
fn chain(from: usize, to: usize, links: &[usize]) -> Vec<usize> {
    let mut points = vec![from];
    let mut at = from;
    while (from > to && at > to) || (from < to && at < to) {
        at = links[at];
        points.push(at);
    }
    points
}

/// Where minorant and majorant are farthest apart.
struct Widest {
    /// In units of 1/n.
    distance: f64,
    /// Index of the left end of the modal interval in the minorant's chain.
    convex: usize,
    /// Index of its right end in the majorant's chain.
    concave: usize,
}

/// Walks both chains from the left end of the interval, the minorant's from its back, and
/// compares them at every point of either.
fn widest_gap(x: &[f64], convex: &[usize], concave: &[usize]) -> Widest {
    let mut widest = Widest { distance: 0.0, convex: convex.len() - 1, concave: concave.len() - 1 };
    if convex.len() <= 2 && concave.len() <= 2 {
        widest.distance = 1.0;
        return widest;
    }
    let rise = |from: usize, to: usize, at: usize| {
        (x[at] - x[from]) * (to as f64 - from as f64) / (x[to] - x[from])
    };
    let (mut i, mut j) = (convex.len() - 2, 1);
    loop {
        let (lower, upper) = (convex[i], concave[j]);
        let (distance, convex_end, concave_end);
        if lower > upper {
            let from = convex[i + 1];
            distance = (upper as f64 - from as f64 + 1.0) - rise(from, lower, upper);
            (convex_end, concave_end) = (i + 1, j);
            j = (j + 1).min(concave.len() - 1);
        } else {
            let from = concave[j - 1];
            distance = rise(from, upper, lower) - (lower as f64 - from as f64 - 1.0);
            (convex_end, concave_end) = (i, j);
            i = i.saturating_sub(1);
        }
        if distance >= widest.distance {
            widest = Widest { distance, convex: convex_end, concave: concave_end };
        }
        if convex[i] == concave[j] {
            return widest;
        }
    }
}

/// How far the distribution function rises above the chord between two points, at least 1, in
/// units of 1/n.
fn above_chord(x: &[f64], from: usize, to: usize) -> f64 {
    if to - from <= 1 || x[to] == x[from] {
        return 1.0;
    }
    let slope = (to - from) as f64 / (x[to] - x[from]);
    (from..=to).map(|k| (k - from + 1) as f64 - (x[k] - x[from]) * slope).fold(1.0, f64::max)
}

fn below_chord(x: &[f64], from: usize, to: usize) -> f64 {
    if to - from <= 1 || x[to] == x[from] {
        return 1.0;
    }
    let slope = (to - from) as f64 / (x[to] - x[from]);
    (from..=to)
        .map(|k| (x[k] - x[from]) * slope - (k as f64 - from as f64 - 1.0))
        .fold(1.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_or_equal_values_have_no_dip() {
        assert_eq!(dip(&[]), 0.0);
        assert_eq!(dip(&[1.0, 2.0, 3.0]), 0.0);
        assert_eq!(dip(&[5.0; 50]), 0.0);
    }
}
