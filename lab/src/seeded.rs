//! Seeded random numbers (SplitMix64).

#[derive(Clone, Debug)]
pub struct Seeded(pub u64);

impl Seeded {
    /// Seeds from a seed and a name (FNV-1a), so that each name has an independent sequence.
    pub fn for_part(seed: u64, part: &str) -> Self {
        let mixed = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Self(part.bytes().fold(0xcbf2_9ce4_8422_2325 ^ seed, mixed))
    }

    pub fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which must not be 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.any() % bound
    }

    /// A number in [0, 1).
    pub fn share(&mut self) -> f64 {
        (self.any() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// The numbers below `count` in random order.
    pub fn shuffled(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for last in (1..count).rev() {
            order.swap(last, self.below(last as u64 + 1) as usize);
        }
        order
    }

    pub fn coin(&mut self) -> bool {
        self.any() & 1 == 1
    }
}
