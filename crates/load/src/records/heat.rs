//! The response times of a step over time, as they are stored.

use fathom_record::HeatMap;

use crate::engine::{Heat, ROWS, row_lower_ns};

/// Rows at most: of a wider range, two become one.
const ROWS_MAX: usize = 48;

/// Of all complete sweeps, in the order of time; `None` without a response.
pub(super) fn map(sweeps: &[Heat]) -> Option<HeatMap> {
    let slices = || sweeps.iter().flat_map(Heat::slices);
    let has_any = |row: &usize| slices().any(|slice| slice[*row] > 0);
    let (first, last) = ((0..ROWS).find(has_any)?, (0..ROWS).rfind(has_any)?);
    let mut width = 1;
    while (last - first) / width >= ROWS_MAX {
        width *= 2;
    }
    let rows: Vec<usize> = (first..=last).step_by(width).collect();
    let sum = |slice: &[u64], row: usize| slice[row..ROWS.min(row + width)].iter().sum();
    let end = |row: &usize| row_lower_ns(row + width) as f64;
    let limits = rows.iter().map(|row| row_lower_ns(*row) as f64).chain(rows.last().map(end));
    let mut map = HeatMap {
        starts_ns: Vec::new(),
        lengths_ns: Vec::new(),
        limits: limits.collect(),
        counts: slices().map(|slice| rows.iter().map(|row| sum(slice, *row)).collect()).collect(),
    };
    for sweep in sweeps {
        let mut at_ns = sweep.from_ns;
        for &length_ns in &sweep.slices_ns {
            map.starts_ns.push(at_ns as f64);
            map.lengths_ns.push(length_ns as f64);
            at_ns += length_ns;
        }
    }
    Some(map)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::SLICES;

    const SECOND: u64 = 1_000_000_000;

    /// A sweep from a second on, with slices of 100 ms.
    fn sweep(from_s: u64, times: &[(usize, u64)]) -> Heat {
        let mut heat = Heat::new(SLICES);
        times.iter().for_each(|(slice, ns)| heat.add(*slice, *ns));
        (heat.from_ns, heat.slices_ns) = (from_s * SECOND, vec![SECOND / 10; SLICES]);
        heat
    }

    #[test]
    fn stall_is_a_pause_and_a_long_time_after_it() {
        let usual: Vec<(usize, u64)> = (0..SLICES).map(|slice| (slice, 2_000_000)).collect();
        let stalled: Vec<(usize, u64)> = (0..SLICES)
            .filter(|slice| !(5..15).contains(slice))
            .map(|slice| (slice, if slice == 15 { SECOND } else { 2_000_000 }))
            .collect();
        assert_eq!(map(&[]), None);
        let map = map(&[sweep(1, &usual), sweep(60, &stalled)]).expect("a map");
        assert_eq!((map.starts_ns[0], map.starts_ns[SLICES]), (1e9, 60e9));
        assert_eq!((map.starts_ns[2 * SLICES - 1], map.lengths_ns[0]), (61.9e9, 0.1e9));
        let silent =
            map.counts.iter().enumerate().filter(|(_, slice)| slice.iter().sum::<u64>() == 0);
        let silent: Vec<usize> = silent.map(|(at, _)| at).collect();
        assert_eq!(silent, (SLICES + 5..SLICES + 15).collect::<Vec<usize>>());
        let rows = map.limits.len() - 1;
        assert!(map.counts.iter().all(|slice| slice.len() == rows));
        assert_eq!(map.counts[SLICES + 15].last(), Some(&1), "the longest row");
        let [low, high] = [map.limits[rows - 1], map.limits[rows]];
        assert!(low <= 1e9 && 1e9 < high && high < 1.3 * low, "{low} to {high}");
    }

    #[test]
    fn wide_range_has_fewer_rows_and_all_timings() {
        let times: Vec<(usize, u64)> = (10..40).map(|bit| (0, 1 << bit)).collect();
        let map = map(&[sweep(0, &times)]).expect("a map");
        assert!(map.counts[0].len() <= ROWS_MAX, "{}", map.counts[0].len());
        assert_eq!(map.counts[0].iter().sum::<u64>(), 30);
        assert!(map.limits.is_sorted() && map.limits[0] <= 1_024.0);
        assert!(*map.limits.last().unwrap() > (1_u64 << 39) as f64);
    }
}
