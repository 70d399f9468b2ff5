//! Who measures with whom: each round has disjoint pairs, so that no host is in two at once.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use serde::Serialize;

use crate::statistics::index;

/// More hosts do not meet all others, but those of as many rounds as these have.
pub const WHOLE_MAX: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TournamentRound {
    /// Disjoint pairs of hosts, by index.
    pub pairs: Vec<[usize; 2]>,
    /// Who waits: one host of an odd number.
    pub bye: Option<usize>,
}

/// The rounds of a tournament in which each host meets each other one once (the circle method): of
/// n hosts n − 1 rounds of n/2 pairs, or n rounds with a bye each if n is odd. Above [`WHOLE_MAX`]
/// hosts as many rounds as those have, drawn at random by the seed. None below two hosts.
#[must_use]
pub fn tournament(hosts: usize, seed: u64) -> Vec<TournamentRound> {
    if hosts < 2 {
        return Vec::new();
    }
    // All but the last, who may be nobody, sit in a circle that turns by one each round.
    let seats = hosts + hosts % 2;
    let circle = seats - 1;
    let round = |turn: usize| {
        let across = (1..seats / 2).map(|k| [(turn + k) % circle, (turn + circle - k) % circle]);
        let all = std::iter::once([turn, circle]).chain(across);
        let (pairs, bye): (Vec<_>, Vec<_>) = all.partition(|pair| pair[1] < hosts);
        TournamentRound { pairs, bye: bye.first().map(|pair| pair[0]) }
    };
    let mut turns: Vec<usize> = (0..circle).collect();
    if hosts > WHOLE_MAX {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        for at in 0..WHOLE_MAX - 1 {
            let other = at + index(&mut random, circle - at);
            turns.swap(at, other);
        }
        turns.truncate(WHOLE_MAX - 1);
    }
    turns.into_iter().map(round).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn four_hosts_meet_in_three_rounds() {
        let pairs: Vec<_> = tournament(4, 0).into_iter().map(|round| round.pairs).collect();
        assert_eq!(pairs, [[[0, 3], [1, 2]], [[1, 3], [2, 0]], [[2, 3], [0, 1]]]);
        assert_eq!(tournament(2, 0), [TournamentRound { pairs: vec![[0, 1]], bye: None }]);
        assert!(tournament(1, 0).is_empty() && tournament(0, 0).is_empty());
    }

    #[test]
    fn each_pair_meets_once_and_nobody_twice_in_a_round() {
        for hosts in 2..=WHOLE_MAX {
            let rounds = tournament(hosts, 7);
            assert_eq!(rounds.len(), hosts - 1 + hosts % 2, "{hosts} hosts");
            let mut met = BTreeSet::new();
            for TournamentRound { pairs, bye } in &rounds {
                let mut present: Vec<usize> = pairs.concat();
                present.extend(bye);
                present.sort_unstable();
                assert_eq!(present, (0..hosts).collect::<Vec<_>>(), "{hosts} hosts");
                assert_eq!(bye.is_some(), hosts % 2 == 1);
                met.extend(pairs.iter().map(|[a, b]| [*a.min(b), *a.max(b)]));
            }
            assert_eq!(met.len(), hosts * (hosts - 1) / 2, "{hosts} hosts");
        }
    }

    #[test]
    fn many_hosts_meet_in_a_random_sample_of_rounds() {
        let met = |seed| {
            let rounds = tournament(1_001, seed);
            assert_eq!(rounds.len(), WHOLE_MAX - 1);
            let pairs = rounds.iter().flat_map(|round| &round.pairs);
            pairs.map(|[a, b]| [*a.min(b), *a.max(b)]).collect::<BTreeSet<_>>()
        };
        assert_eq!(met(1).len(), 63 * 500, "no pair twice");
        assert_eq!(met(1), met(1));
        assert_ne!(met(1), met(2));
    }
}
