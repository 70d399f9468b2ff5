//! Searches a size whose read time is within a window: doubles the size below the window and
//! halves it above.
//!
//! It terminates: once one size was too small and another too large, it bisects between the two.

use std::ops::RangeInclusive;

/// Most bisection steps.
const BISECTIONS_MAX: u32 = 6;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::commands) struct TimedSize {
    pub(in crate::commands) size: u64,
    pub(in crate::commands) seconds: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::commands) enum SearchEnd {
    Fits(TimedSize),
    /// The largest size takes less time than the window.
    TooFast(TimedSize),
    /// The smallest size takes more.
    TooSlow(TimedSize),
    /// The time jumps over the window between two close sizes.
    Jump {
        below: TimedSize,
        above: TimedSize,
    },
    /// Stopped by the user.
    Stopped,
}

/// Searches `sizes`, starting at `first`. `time` returns the seconds of a size (any number above
/// the window if that is too long), or `None` if stopped.
pub(in crate::commands) fn search_size<E>(
    first: u64,
    sizes: RangeInclusive<u64>,
    window: (f64, f64),
    mut time: impl FnMut(u64) -> Result<Option<f64>, E>,
) -> Result<SearchEnd, E> {
    let (least, most) = sizes.into_inner();
    let (mut below, mut above): (Option<TimedSize>, Option<TimedSize>) = (None, None);
    let mut size = first.clamp(least, most);
    let mut bisections = 0;
    loop {
        let Some(seconds) = time(size)? else { return Ok(SearchEnd::Stopped) };
        let this = TimedSize { size, seconds };
        if seconds < window.0 {
            below = Some(this);
        } else if seconds > window.1 {
            above = Some(this);
        } else {
            return Ok(SearchEnd::Fits(this));
        }
        size = match (below, above) {
            (Some(below), None) if below.size == most => return Ok(SearchEnd::TooFast(below)),
            (None, Some(above)) if above.size == least => return Ok(SearchEnd::TooSlow(above)),
            (Some(below), None) => below.size.saturating_mul(2).min(most),
            (None, Some(above)) => (above.size / 2).max(least),
            (Some(below), Some(above)) => {
                bisections += 1;
                let middle = below.size + (above.size - below.size) / 2;
                if middle == below.size || bisections > BISECTIONS_MAX {
                    return Ok(SearchEnd::Jump { below, above });
                }
                middle
            }
            (None, None) => unreachable!("the last size is one of the two"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: (f64, f64) = (5.0, 15.0);

    /// Searches with these times. Returns the sizes tried too.
    fn run(
        first: u64,
        sizes: RangeInclusive<u64>,
        seconds: impl Fn(u64) -> f64,
    ) -> (SearchEnd, Vec<u64>) {
        let mut tried = Vec::new();
        let end = search_size(first, sizes, WINDOW, |size| {
            tried.push(size);
            Ok::<_, ()>(Some(seconds(size)))
        });
        (end.unwrap(), tried)
    }

    fn fits(size: u64, seconds: f64) -> SearchEnd {
        SearchEnd::Fits(TimedSize { size, seconds })
    }

    #[test]
    fn sizes_are_doubled_below_and_halved_above() {
        let sizes = || 1..=1 << 40;
        let (end, tried) = run(1000, sizes(), |size| size as f64 / 100.0);
        assert_eq!((end, tried), (fits(1000, 10.0), vec![1000]));
        let (end, tried) = run(100, sizes(), |size| size as f64 / 100.0);
        assert_eq!((end, tried), (fits(800, 8.0), vec![100, 200, 400, 800]));
        let (end, tried) = run(4000, sizes(), |size| size as f64 / 100.0);
        assert_eq!((end, tried), (fits(1000, 10.0), vec![4000, 2000, 1000]));
    }

    #[test]
    fn window_includes_its_ends() {
        assert_eq!(run(5, 1..=100, |size| size as f64).0, fits(5, 5.0));
        assert_eq!(run(15, 1..=100, |size| size as f64).0, fits(15, 15.0));
    }

    #[test]
    fn sizes_stay_within_their_bounds() {
        let too_fast = SearchEnd::TooFast(TimedSize { size: 300, seconds: 3.0 });
        let (end, tried) = run(1 << 50, 1..=300, |size| size as f64 / 100.0);
        assert_eq!((end, tried), (too_fast, vec![300]));
        let (end, tried) = run(100, 1..=300, |size| size as f64 / 100.0);
        assert_eq!((end, tried), (too_fast, vec![100, 200, 300]));
        let (end, tried) = run(5, 1..=300, |_| 20.0);
        assert_eq!(end, SearchEnd::TooSlow(TimedSize { size: 1, seconds: 20.0 }));
        assert_eq!(tried, [5, 2, 1]);
    }

    #[test]
    fn jump_over_the_window_ends_the_search() {
        let (end, tried) = run(1024, 1..=1 << 40, |size| if size <= 1500 { 1.0 } else { 100.0 });
        let SearchEnd::Jump { below, above } = end else { panic!("{end:?}") };
        assert!(below.size <= 1500 && above.size > 1500, "{end:?}");
        assert!(above.size - below.size <= 1024 >> BISECTIONS_MAX, "{end:?}");
        let mut distinct = tried.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), tried.len(), "a size was tried twice: {tried:?}");
        assert!(tried.len() <= 2 + BISECTIONS_MAX as usize, "{tried:?}");
        assert_eq!(run(1, 1..=2, |size| if size == 1 { 1.0 } else { 100.0 }).1, [1, 2]);
    }

    #[test]
    fn contradictory_times_end_the_search() {
        for first in [1, 7, 1 << 20] {
            let mut odd = false;
            let mut tries = 0;
            let end = search_size(first, 1..=1 << 40, WINDOW, |_| {
                (odd, tries) = (!odd, tries + 1);
                Ok::<_, ()>(Some(if odd { 100.0 } else { 1.0 }))
            });
            assert!(matches!(end, Ok(SearchEnd::Jump { .. } | SearchEnd::TooSlow(_))), "{end:?}");
            assert!(tries < 50, "{tries}");
        }
    }

    #[test]
    fn stop_and_error_end_the_search() {
        assert_eq!(search_size(8, 1..=9, WINDOW, |_| Ok::<_, ()>(None)), Ok(SearchEnd::Stopped));
        assert_eq!(search_size(8, 1..=9, WINDOW, |_| Err("full")), Err("full"));
    }
}
