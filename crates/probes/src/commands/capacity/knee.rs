//! Search for the largest size that fits in the page cache: steps up to the first that does not
//! fit, then bisects.

use std::convert::Infallible;

/// Whether one size fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Observation {
    Fits,
    Evicted,
    Stopped,
}

impl Observation {
    pub(super) fn from_fit(fits: bool) -> Self {
        if fits { Self::Fits } else { Self::Evicted }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Knee {
    Found {
        fits: u64,
        evicted: u64,
    },
    /// The largest size fits.
    Above(u64),
    /// Stopped by the user; the largest size known to fit.
    Stopped(u64),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct KneeSearch {
    pub(super) step: u64,
    pub(super) most: u64,
    /// Sizes are multiples of this.
    pub(super) grain: u64,
}

/// Relative width at which the bisection ends.
const RESOLUTION: f64 = 0.02;

impl KneeSearch {
    /// Finds the knee. A size that does not fit is tried again: another process may have allocated
    /// memory during the first try.
    pub(super) fn knee<E>(
        &self,
        mut observe: impl FnMut(u64) -> Result<Observation, E>,
    ) -> Result<Knee, E> {
        let (mut fits, mut evicted) = (0, None);
        loop {
            let size = match evicted {
                None => (fits + self.step).min(self.most),
                Some(evicted) if (evicted - fits) as f64 > RESOLUTION * fits as f64 => {
                    (fits + evicted) / 2
                }
                Some(evicted) => return Ok(Knee::Found { fits, evicted }),
            };
            let size = size / self.grain * self.grain;
            if size <= fits {
                return Ok(
                    evicted.map_or(Knee::Above(fits), |evicted| Knee::Found { fits, evicted })
                );
            }
            let observation = match observe(size)? {
                Observation::Evicted => observe(size)?,
                observation => observation,
            };
            match observation {
                Observation::Fits => fits = size,
                Observation::Evicted => evicted = Some(size),
                Observation::Stopped => return Ok(Knee::Stopped(fits)),
            }
        }
    }

    /// Upper bound of the bytes read, two reads per try: the maximum over knees just above each
    /// step, where every size of the bisection is tried twice.
    pub(super) fn max_reads(&self) -> u64 {
        let steps = self.most / self.step.max(1);
        let read = |knee: u64| {
            let mut read = 0;
            let _ = self.knee(|size| {
                read += 2 * size;
                Ok::<_, Infallible>(Observation::from_fit(size <= knee))
            });
            read
        };
        (0..=steps).map(|step| read(step * self.step)).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEARCH: KneeSearch = KneeSearch { step: 1000, most: 20_000, grain: 1 };

    /// Searches with a page cache of this size. Returns the sizes tried too.
    fn knee_of(search: KneeSearch, memory: u64) -> (Knee, Vec<u64>) {
        let mut tried = Vec::new();
        let knee = search.knee(|size| {
            tried.push(size);
            Ok::<_, Infallible>(Observation::from_fit(size <= memory))
        });
        (knee.unwrap_or(Knee::Stopped(0)), tried)
    }

    #[test]
    fn knee_is_found_within_2_percent() {
        for memory in [1, 999, 1000, 1001, 7777, 12_345, 19_999] {
            let (knee, tried) = knee_of(SEARCH, memory);
            let Knee::Found { fits, evicted } = knee else { panic!("{memory}: {knee:?}") };
            assert!(fits <= memory && memory < evicted, "{memory}: {knee:?}");
            assert!((evicted - fits) as f64 <= (0.02 * fits as f64).max(1.0), "{knee:?}");
            assert!(tried.len() < 60, "{memory}: {}", tried.len());
        }
    }

    #[test]
    fn sizes_grow_by_steps_up_to_the_limit() {
        let (knee, tried) = knee_of(KneeSearch { most: 3500, ..SEARCH }, 1_000_000);
        assert_eq!((knee, tried), (Knee::Above(3500), vec![1000, 2000, 3000, 3500]));
        let (knee, tried) = knee_of(KneeSearch { most: 0, ..SEARCH }, 1_000_000);
        assert_eq!((knee, tried), (Knee::Above(0), vec![]));
    }

    #[test]
    fn sizes_are_multiples_of_the_grain() {
        let (knee, _) = knee_of(KneeSearch { grain: 100, ..SEARCH }, 0);
        assert_eq!(knee, Knee::Found { fits: 0, evicted: 100 });
        let (knee, tried) = knee_of(KneeSearch { grain: 64, ..SEARCH }, 7777);
        assert!(tried.iter().all(|size| size % 64 == 0), "{tried:?}");
        assert!(matches!(knee, Knee::Found { fits, .. } if fits <= 7777));
    }

    #[test]
    fn a_single_eviction_is_tried_again() {
        let mut observed = 0;
        let knee = SEARCH.knee(|size| {
            observed += 1;
            Ok::<_, Infallible>(Observation::from_fit(observed != 3 && size <= 7500))
        });
        let Ok(Knee::Found { fits, evicted }) = knee else { panic!("{knee:?}") };
        assert!(fits <= 7500 && 7500 < evicted);
    }

    #[test]
    fn stop_and_error_end_the_search() {
        let stop = |at: u64| {
            move |size| {
                Ok::<_, ()>(if size < at { Observation::Fits } else { Observation::Stopped })
            }
        };
        assert_eq!(SEARCH.knee(stop(1000)), Ok(Knee::Stopped(0)));
        assert_eq!(SEARCH.knee(stop(4000)), Ok(Knee::Stopped(3000)));
        assert_eq!(SEARCH.knee(|_| Err("no space")), Err("no space"));
    }

    #[test]
    fn max_reads_is_an_upper_bound() {
        for memory in [0, 1, 5000, 19_999, 1_000_000] {
            let (_, tried) = knee_of(SEARCH, memory);
            assert!(2 * tried.iter().sum::<u64>() <= SEARCH.max_reads(), "{memory}");
        }
    }
}
