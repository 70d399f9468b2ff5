//! The search for the largest size that stays in memory: up in steps until one does not, then by
//! halves between.

use std::convert::Infallible;

/// What a look at one size showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Observation {
    Stays,
    /// Some of it was gone.
    Evicted,
    /// Nobody looked to the end.
    Stopped,
}

/// What the search came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Knee {
    /// Between a size that stays and one that does not.
    Found { stays: u64, leaves: u64 },
    Above(u64),
    /// Stopped on the way, after this size was seen to stay.
    Stopped(u64),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Search {
    pub(super) step: u64,
    pub(super) most: u64,
    /// Sizes are multiples of this.
    pub(super) grain: u64,
}

/// The search ends within this share of the knee.
const WITHIN: f64 = 0.02;

impl Search {
    /// Looks at one size after another. A size that leaves is looked at twice before it counts:
    /// another program may have wanted memory just then.
    pub(super) fn knee<E>(&self, mut look: impl FnMut(u64) -> Result<Observation, E>) -> Result<Knee, E> {
        let mut look = |size| match look(size)? {
            Observation::Evicted => look(size),
            seen => Ok(seen),
        };
        let (mut stays, mut leaves) = (0, None);
        while leaves.is_none() {
            let size = (stays + self.step).min(self.most) / self.grain * self.grain;
            if size <= stays {
                return Ok(Knee::Above(stays));
            }
            match look(size)? {
                Observation::Stays => stays = size,
                Observation::Evicted => leaves = Some(size),
                Observation::Stopped => return Ok(Knee::Stopped(stays)),
            }
        }
        let mut leaves = leaves.unwrap_or(self.most);
        while (leaves - stays) as f64 > WITHIN * stays as f64 {
            let size = (stays + leaves) / 2 / self.grain * self.grain;
            if size <= stays {
                break;
            }
            match look(size)? {
                Observation::Stays => stays = size,
                Observation::Evicted => leaves = size,
                Observation::Stopped => return Ok(Knee::Stopped(stays)),
            }
        }
        Ok(Knee::Found { stays, leaves })
    }

    /// Bytes that are read at most, twice for each look: by going through the searches of all
    /// knees just above a step, where all between is looked at twice.
    pub(super) fn reads(&self) -> u64 {
        let steps = self.most / self.step.max(1);
        let read = |knee: u64| {
            let mut read = 0;
            let _ = self.knee(|size| {
                read += 2 * size;
                Ok::<_, Infallible>(if size <= knee { Observation::Stays } else { Observation::Evicted })
            });
            read
        };
        (0..=steps).map(|step| read(step * self.step)).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEARCH: Search = Search { step: 1000, most: 20_000, grain: 1 };

    /// A memory of this size; the sizes that were looked at.
    fn of(search: Search, memory: u64) -> (Knee, Vec<u64>) {
        let mut seen = Vec::new();
        let knee = search.knee(|size| {
            seen.push(size);
            Ok::<_, Infallible>(if size <= memory { Observation::Stays } else { Observation::Evicted })
        });
        (knee.unwrap_or(Knee::Stopped(0)), seen)
    }

    #[test]
    fn the_knee_is_found_within_2_percent_wherever_it_lies() {
        for memory in [1, 999, 1000, 1001, 7777, 12_345, 19_999] {
            let (knee, seen) = of(SEARCH, memory);
            let Knee::Found { stays, leaves } = knee else { panic!("{memory}: {knee:?}") };
            assert!(stays <= memory && memory < leaves, "{memory}: {knee:?}");
            assert!((leaves - stays) as f64 <= (0.02 * stays as f64).max(1.0), "{knee:?}");
            assert!(seen.len() < 60, "{memory}: {}", seen.len());
        }
    }

    #[test]
    fn sizes_grow_by_steps_and_never_above_the_most() {
        let (knee, seen) = of(Search { most: 3500, ..SEARCH }, 1_000_000);
        assert_eq!((knee, seen), (Knee::Above(3500), vec![1000, 2000, 3000, 3500]));
        let (knee, seen) = of(Search { most: 0, ..SEARCH }, 1_000_000);
        assert_eq!((knee, seen), (Knee::Above(0), vec![]));
    }

    #[test]
    fn where_nothing_stays_the_search_ends_at_its_grain() {
        let (knee, _) = of(Search { grain: 100, ..SEARCH }, 0);
        assert_eq!(knee, Knee::Found { stays: 0, leaves: 100 });
        let (knee, seen) = of(Search { grain: 64, ..SEARCH }, 7777);
        assert!(seen.iter().all(|size| size % 64 == 0), "{seen:?}");
        assert!(matches!(knee, Knee::Found { stays, .. } if stays <= 7777));
    }

    #[test]
    fn a_size_that_leaves_once_only_was_disturbed() {
        let mut looks = 0;
        let knee = SEARCH.knee(|size| {
            looks += 1;
            let disturbed = looks == 3;
            Ok::<_, Infallible>(match disturbed || size > 7500 {
                true => Observation::Evicted,
                false => Observation::Stays,
            })
        });
        let Ok(Knee::Found { stays, leaves }) = knee else { panic!("{knee:?}") };
        assert!(stays <= 7500 && 7500 < leaves);
    }

    #[test]
    fn a_stop_tells_what_was_seen_to_stay_and_an_error_ends_it() {
        let stop =
            |at: u64| move |size| Ok::<_, ()>(if size < at { Observation::Stays } else { Observation::Stopped });
        assert_eq!(SEARCH.knee(stop(1000)), Ok(Knee::Stopped(0)));
        assert_eq!(SEARCH.knee(stop(4000)), Ok(Knee::Stopped(3000)));
        assert_eq!(SEARCH.knee(|_| Err("no space")), Err("no space"));
    }

    #[test]
    fn what_is_read_at_most_is_said_beforehand() {
        for memory in [0, 1, 5000, 19_999, 1_000_000] {
            let (_, seen) = of(SEARCH, memory);
            assert!(2 * seen.iter().sum::<u64>() <= SEARCH.reads(), "{memory}");
        }
    }
}
