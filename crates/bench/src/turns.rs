//! The order of runs: blocks in which each command runs once, in random order.

use fathom_analysis::statistics::shuffled;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng as _;

pub(crate) struct Turns {
    random: Xoshiro256PlusPlus,
    cases: usize,
}

impl Turns {
    pub(crate) fn new(seed: u64, cases: usize) -> Self {
        Self { random: Xoshiro256PlusPlus::seed_from_u64(seed), cases }
    }

    /// The order within the next block.
    pub(crate) fn block(&mut self) -> Vec<usize> {
        shuffled(self.cases, &mut self.random)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_block_has_each_case_once_and_orders_vary() {
        let blocks = |seed| {
            let mut turns = Turns::new(seed, 3);
            (0..60).map(|_| turns.block()).collect::<Vec<_>>()
        };
        let all = blocks(7);
        for block in &all {
            let mut sorted = block.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2]);
        }
        for first in 0..3 {
            assert!(
                all.iter().filter(|block| block[0] == first).count() > 5,
                "{first} is rarely first"
            );
        }
        assert_eq!(all, blocks(7));
        assert_ne!(all, blocks(8));
    }
}
