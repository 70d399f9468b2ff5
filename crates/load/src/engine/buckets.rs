//! Log-spaced buckets of response times, which cost no more than a shift to find.

/// Buckets of a doubling: each is at most 1/64 of its times wide.
const FINE: usize = 64;
/// Doublings, from about 1 µs to 73 minutes.
const OCTAVES: usize = 32;
const LEAST_BITS: u32 = 10;
pub const BUCKETS: usize = FINE * OCTAVES;
/// Buckets of a row of a heat map: four rows a doubling.
const OF_ROW: usize = 16;
pub const ROWS: usize = BUCKETS / OF_ROW;

/// The bucket of a time; the first and the last have all that is shorter or longer, too.
pub fn bucket(ns: u64) -> usize {
    let ns = ns.max(1 << LEAST_BITS);
    let octave = ns.ilog2() - LEAST_BITS;
    let within = (ns >> (ns.ilog2() - FINE.ilog2())) as usize % FINE;
    (octave as usize * FINE + within).min(BUCKETS - 1)
}

/// The shortest time of a bucket.
pub fn lower_ns(bucket: usize) -> u64 {
    ((FINE + bucket % FINE) as u64) << ((bucket / FINE) as u32 + LEAST_BITS - FINE.ilog2())
}

/// The row of a time in a heat map.
pub fn row(ns: u64) -> usize {
    bucket(ns) / OF_ROW
}

/// The shortest time of a row.
pub fn row_lower_ns(row: usize) -> u64 {
    lower_ns(row * OF_ROW)
}

/// The time that a share `q` of these counts does not exceed: the middle of its bucket.
pub fn quantile_ns(counts: &[u64], q: f64) -> Option<f64> {
    let all: u64 = counts.iter().sum();
    let rank = ((q * all as f64).ceil() as u64).max(1);
    let mut below = 0;
    let at = counts.iter().position(|count| {
        below += count;
        below >= rank
    })?;
    Some((lower_ns(at) + lower_ns(at + 1)) as f64 / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_holds_its_times_within_a_sixty_fourth() {
        for at in 0..BUCKETS {
            let (low, high) = (lower_ns(at), lower_ns(at + 1));
            assert_eq!([bucket(low), bucket(high - 1)], [at; 2]);
            assert!((high - low) * 64 <= low, "{at}: {low} to {high}");
        }
        assert_eq!([bucket(0), bucket(1_024), bucket(u64::MAX)], [0, 0, BUCKETS - 1]);
        assert_eq!([row(0), row(u64::MAX)], [0, ROWS - 1]);
        assert_eq!([0, 4, 6].map(row_lower_ns), [1_024, 2_048, 3_072]);
    }

    #[test]
    fn quantile_is_of_the_counted_times() {
        let mut counts = vec![0; BUCKETS];
        assert_eq!(quantile_ns(&counts, 0.5), None);
        (1..=1_000_u64).for_each(|us| counts[bucket(1_000 * us)] += 1);
        for (q, ns) in [(0.0, 1e3), (0.5, 5e5), (0.99, 9.9e5), (1.0, 1e6)] {
            let found = quantile_ns(&counts, q).unwrap();
            assert!((found / ns - 1.0).abs() < 0.04, "{q}: {found}");
        }
    }
}
