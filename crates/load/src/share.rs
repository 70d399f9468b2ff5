//! The share of a load that one of several members makes: its clients, its part of each rate, and
//! the fixed plan by which all members measure the same windows at the same time.

use std::fmt;
use std::str::FromStr;

use fathom_metric::notation::NotationError;

use crate::engine::{Arrivals, ScheduleRate, Timing};

/// From the start that all members know to the first request: they connect and list files.
const LEAD_NS: u64 = 2_000_000_000;
/// Behind a window, at least: its connections are closed, and what it left in flight is worked off.
const PAUSE_MIN_NS: u64 = 500_000_000;
const MEMBERS_MAX: u32 = 10_000;

/// One of several equal members, written `2/4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// From 0.
    rank: u32,
    of: u32,
}

impl FromStr for Share {
    type Err = NotationError;

    fn from_str(text: &str) -> Result<Self, NotationError> {
        let numbers = text.split_once('/').and_then(|(number, of)| {
            let (number, of) = (number.parse::<u32>().ok()?, of.parse().ok()?);
            Some((number.checked_sub(1)?, of))
        });
        let share = numbers.and_then(|(rank, of)| Self::new(rank, of));
        let expected = || format!("a member of at most {MEMBERS_MAX}, such as 2/4");
        share.ok_or_else(|| NotationError::new(text, expected()))
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.rank + 1, self.of)
    }
}

impl Share {
    /// Of a rank from 0; `None` beyond the number of members.
    #[must_use]
    pub fn new(rank: u32, of: u32) -> Option<Self> {
        (rank < of && of <= MEMBERS_MAX).then_some(Self { rank, of })
    }

    /// Of a rank that is below their number.
    pub(crate) fn known(rank: u32, of: u32) -> Self {
        debug_assert!(rank < of, "member {rank} of {of}");
        Self { rank, of }
    }

    /// Only one member reads the counters of the server.
    pub fn is_first(self) -> bool {
        self.rank == 0
    }

    /// An even part of so many; the first members have the remainder.
    pub fn count(self, all: u32) -> u32 {
        all / self.of + u32::from(self.rank < all % self.of)
    }

    /// How many the members before it have.
    pub fn before(self, all: u32) -> u32 {
        self.rank * (all / self.of) + self.rank.min(all % self.of)
    }

    /// Independent Poisson streams of a part of the rate add up to one of all of it.
    pub fn rate(self, all: ScheduleRate) -> ScheduleRate {
        ScheduleRate { per_second: all.per_second / f64::from(self.of), ..all }
    }

    /// By how much later than the first member this one sends at equal distances: member m of M by
    /// m distances of the whole schedule, so that their requests take turns.
    pub fn shift_ns(self, own: ScheduleRate) -> u64 {
        match own.arrivals {
            Arrivals::Poisson => 0,
            Arrivals::Uniform => {
                let apart_ns = 1e9 / own.per_second;
                (apart_ns * f64::from(self.rank) / f64::from(self.of)).round() as u64
            }
        }
    }

    /// Another one for each member; the first has that of a load alone.
    pub fn seed(self, seed: u64) -> u64 {
        seed ^ u64::from(self.rank).wrapping_mul(0xa076_1d64_78bd_642f)
    }
}

/// When the windows of all members are. No length depends on what was measured.
pub struct SharePlan {
    next_ns: u64,
    window_ns: u64,
}

impl SharePlan {
    /// `start_ns`: the common start.
    pub fn new(start_ns: u64, window_ns: u64) -> Self {
        Self { next_ns: start_ns + LEAD_NS, window_ns }
    }

    /// When the requests of the next window begin: behind it is time for the backlog of an open
    /// loop, and for a pause.
    pub fn take(&mut self, is_open_loop: bool) -> u64 {
        let next_ns = self.next_ns + whole_ns(self.window_ns, is_open_loop);
        std::mem::replace(&mut self.next_ns, next_ns)
    }
}

/// The time from one window to the next.
fn whole_ns(window_ns: u64, is_open_loop: bool) -> u64 {
    let timing = Timing::with_window(window_ns, None);
    let drain_ns = if is_open_loop { timing.drain_max_ns() } else { 0 };
    timing.warm_up_max_ns + window_ns + drain_ns + (window_ns / 4).max(PAUSE_MIN_NS)
}

/// The time of all windows, of closed and of open loops.
pub fn planned_ns(window_ns: u64, [closed, open]: [u64; 2]) -> u64 {
    LEAD_NS + closed * whole_ns(window_ns, false) + open * whole_ns(window_ns, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(of: u32) -> impl Iterator<Item = Share> {
        (0..of).map(move |rank| Share::known(rank, of))
    }

    #[test]
    fn clients_are_split_evenly_and_numbered_once() {
        for (clients, of, expected) in
            [(10, 4, vec![3, 3, 2, 2]), (3, 4, vec![1, 1, 1, 0]), (8, 1, vec![8])]
        {
            let counts: Vec<u32> = all(of).map(|share| share.count(clients)).collect();
            assert_eq!(counts, expected);
            let numbers = all(of).flat_map(|share| {
                let first = share.before(clients);
                first..first + share.count(clients)
            });
            assert_eq!(numbers.collect::<Vec<u32>>(), (0..clients).collect::<Vec<u32>>());
        }
    }

    #[test]
    fn equal_distances_of_all_members_are_one_schedule() {
        let whole = ScheduleRate { per_second: 100.0, arrivals: Arrivals::Uniform };
        let mut due: Vec<u64> = all(4)
            .flat_map(|share| {
                let own = share.rate(whole);
                (0..25_u64).map(move |at| at * 40_000_000 + share.shift_ns(own))
            })
            .collect();
        due.sort_unstable();
        assert_eq!(due, (0..100).map(|at| at * 10_000_000).collect::<Vec<u64>>());
        let random = ScheduleRate { arrivals: Arrivals::Poisson, ..whole };
        assert!(all(4).all(|share| share.shift_ns(share.rate(random)) == 0));
        let mut seeds: Vec<u64> = all(4).map(|share| share.seed(7)).collect();
        assert_eq!(seeds[0], 7);
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!(seeds.len(), 4, "no member repeats another");
    }

    #[test]
    fn windows_of_the_plan_do_not_overlap() {
        let mut plan = SharePlan::new(1_000, 2_000_000_000);
        let starts = [plan.take(false), plan.take(true), plan.take(false)];
        // A warm-up of half a second, two seconds, and half a second; the backlog two seconds more.
        assert_eq!(starts.map(|at| (at - 1_000) / 1_000_000), [2_000, 5_000, 10_000]);
        assert_eq!(planned_ns(2_000_000_000, [2, 1]) + 1_000, plan.next_ns);
    }

    #[test]
    fn share_is_a_member_of_all() {
        let share: Share = "2/4".parse().unwrap();
        assert_eq!((share, share.to_string().as_str()), (Share::known(1, 4), "2/4"));
        assert_eq!([Share::new(4, 4), Share::new(0, 0)], [None; 2]);
        for wrong in ["", "0/4", "5/4", "1", "1/0", "-1/2", "1/10001", "1/2/3"] {
            assert!(wrong.parse::<Share>().is_err(), "{wrong}");
        }
    }
}
