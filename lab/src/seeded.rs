//! Numbers that look like chance and are the same for the same seed (SplitMix64).

/// A sequence of numbers.
#[derive(Clone, Debug)]
pub struct Seeded(pub u64);

impl Seeded {
    /// Any number.
    pub fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.any() % bound
    }

    /// Heads or tails.
    pub fn coin(&mut self) -> bool {
        self.any() & 1 == 1
    }
}
