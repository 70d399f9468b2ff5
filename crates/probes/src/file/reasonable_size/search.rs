//! The search for a size whose reading takes a time within a window: from a first guess it is
//! doubled below the window and halved above it.
//!
//! It cannot go round in circles: once a size was too small and another too large, only sizes
//! between the two are tried, and each try takes half of what is between them away.

use std::ops::RangeInclusive;

/// Halvings of what lies between a size too small and one too large.
const BETWEEN_MAX: u32 = 6;

/// One size, and how long it took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::file) struct TimedSize {
    /// In whatever the search counts.
    pub(in crate::file) size: u64,
    pub(in crate::file) seconds: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::file) enum SearchEnd {
    Fits(TimedSize),
    /// Even the largest is read too quickly.
    TooQuick(TimedSize),
    /// Even the smallest takes too long.
    TooSlow(TimedSize),
    /// One is read too quickly, one a little larger takes too long: between them the time leaps.
    Leaps { below: TimedSize, above: TimedSize },
    Stopped,
}

/// Searches sizes within `sizes` from `first` on. `time` gives the seconds of a size, which above
/// the window may be less than all of it would have taken; none where a person stopped it.
pub(in crate::file) fn search<E>(
    first: u64,
    sizes: RangeInclusive<u64>,
    window: (f64, f64),
    mut time: impl FnMut(u64) -> Result<Option<f64>, E>,
) -> Result<SearchEnd, E> {
    let (least, most) = sizes.into_inner();
    let (mut below, mut above): (Option<TimedSize>, Option<TimedSize>) = (None, None);
    let mut size = first.clamp(least, most);
    let mut between = 0;
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
            (Some(below), None) if below.size == most => return Ok(SearchEnd::TooQuick(below)),
            (None, Some(above)) if above.size == least => return Ok(SearchEnd::TooSlow(above)),
            (Some(below), None) => below.size.saturating_mul(2).min(most),
            (None, Some(above)) => (above.size / 2).max(least),
            (Some(below), Some(above)) => {
                between += 1;
                let middle = below.size + (above.size - below.size) / 2;
                if middle == below.size || between > BETWEEN_MAX {
                    return Ok(SearchEnd::Leaps { below, above });
                }
                middle
            }
            (None, None) => unreachable!("the last size was one of the two"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: (f64, f64) = (5.0, 15.0);

    /// What a search finds where a size takes these seconds, and the sizes that it tried.
    fn by(
        first: u64,
        sizes: RangeInclusive<u64>,
        seconds: impl Fn(u64) -> f64,
    ) -> (SearchEnd, Vec<u64>) {
        let mut tried = Vec::new();
        let found = search(first, sizes, WINDOW, |size| {
            tried.push(size);
            Ok::<_, ()>(Some(seconds(size)))
        });
        (found.expect("nothing fails"), tried)
    }

    fn fits(size: u64, seconds: f64) -> SearchEnd {
        SearchEnd::Fits(TimedSize { size, seconds })
    }

    #[test]
    fn a_size_that_was_foretold_is_tried_once() {
        let (found, tried) = by(1000, 1..=1 << 40, |size| size as f64 / 100.0);
        assert_eq!((found, tried), (fits(1000, 10.0), vec![1000]));
    }

    #[test]
    fn below_the_window_it_is_doubled_and_above_it_halved() {
        let (found, tried) = by(100, 1..=1 << 40, |size| size as f64 / 100.0);
        assert_eq!((found, tried), (fits(800, 8.0), vec![100, 200, 400, 800]));
        let (found, tried) = by(4000, 1..=1 << 40, |size| size as f64 / 100.0);
        assert_eq!((found, tried), (fits(1000, 10.0), vec![4000, 2000, 1000]));
    }

    #[test]
    fn the_ends_of_the_window_belong_to_it() {
        let (found, _) = by(5, 1..=100, |size| size as f64);
        assert_eq!(found, fits(5, 5.0));
        let (found, _) = by(15, 1..=100, |size| size as f64);
        assert_eq!(found, fits(15, 15.0));
    }

    #[test]
    fn no_size_leaves_its_bounds_and_the_bounds_themselves_are_tried() {
        let (found, tried) = by(1 << 50, 1..=300, |size| size as f64 / 100.0);
        assert_eq!((found, tried), (SearchEnd::TooQuick(TimedSize { size: 300, seconds: 3.0 }), vec![300]));
        let (found, tried) = by(100, 1..=300, |size| size as f64 / 100.0);
        let most = TimedSize { size: 300, seconds: 3.0 };
        assert_eq!((found, tried), (SearchEnd::TooQuick(most), vec![100, 200, 300]));
        let (found, tried) = by(5, 1..=300, |_| 20.0);
        assert_eq!(found, SearchEnd::TooSlow(TimedSize { size: 1, seconds: 20.0 }));
        assert_eq!(tried, [5, 2, 1]);
    }

    #[test]
    fn where_the_time_leaps_over_the_window_the_search_ends_between_the_two() {
        let (found, tried) = by(1024, 1..=1 << 40, |size| if size <= 1500 { 1.0 } else { 100.0 });
        let SearchEnd::Leaps { below, above } = found else { panic!("{found:?}") };
        assert!(below.size <= 1500 && above.size > 1500, "{found:?}");
        assert!(above.size - below.size <= 1024 >> BETWEEN_MAX, "{found:?}");
        let mut distinct = tried.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), tried.len(), "a size was tried twice: {tried:?}");
        assert!(tried.len() <= 2 + BETWEEN_MAX as usize, "{tried:?}");
        assert_eq!(by(1, 1..=2, |size| if size == 1 { 1.0 } else { 100.0 }).1, [1, 2]);
    }

    #[test]
    fn times_that_contradict_each_other_end_it_too() {
        // Each answer is the opposite of the last: no size could be told from its time.
        for first in [1, 7, 1 << 20] {
            let mut odd = false;
            let mut tries = 0;
            let found = search(first, 1..=1 << 40, WINDOW, |_| {
                (odd, tries) = (!odd, tries + 1);
                Ok::<_, ()>(Some(if odd { 100.0 } else { 1.0 }))
            });
            assert!(matches!(found, Ok(SearchEnd::Leaps { .. } | SearchEnd::TooSlow(_))), "{found:?}");
            assert!(tries < 50, "{tries}");
        }
    }

    #[test]
    fn a_stop_and_an_error_end_it_at_once() {
        assert_eq!(search(8, 1..=9, WINDOW, |_| Ok::<_, ()>(None)), Ok(SearchEnd::Stopped));
        assert_eq!(search(8, 1..=9, WINDOW, |_| Err("full")), Err("full"));
    }
}
