//! Random orders.

use rand_xoshiro::Xoshiro256PlusPlus;

use super::bootstrap::index;

/// The numbers below `count` in a random order (Fisher and Yates).
pub fn shuffled(count: usize, random: &mut Xoshiro256PlusPlus) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for at in (1..count).rev() {
        order.swap(at, index(random, at + 1));
    }
    order
}
