//! Data to write: any byte of it follows from a seed and its place, and nothing compresses it.
//!
//! Pair i of words is a mix of seed + i · γ: two multiplications by odd numbers of 32 bits, so that
//! vectors without a 64-bit multiplication stay quick, between three folds. It is a counter, not a
//! chain, so that every block can be made, and checked, alone.

/// The odd step between two pairs: 2⁶⁴ over the golden ratio, whose multiples lie evenly.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
/// Odd, with about as many ones as zeroes.
const FIRST: u64 = 0xd6e8_feb9;
const SECOND: u64 = 0xad90_777d;
/// Pairs that are made at a time.
const LANES: usize = 8;
const PAIR: usize = 8;

/// A stream of data without an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generator {
    key: u64,
}

impl Generator {
    /// The stream of a seed. Those of two seeds have nothing in common.
    pub fn new(seed: u64) -> Self {
        // Mixed, so that the stream of the next seed is not this one a pair later.
        Self { key: mix(seed.wrapping_mul(STEP) ^ SECOND) }
    }

    /// Fills `bytes` with the part of the stream that begins at byte `at`.
    pub fn fill(&self, at: u64, bytes: &mut [u8]) {
        let to_pair = at.wrapping_neg() as usize % PAIR;
        let head = to_pair.min(bytes.len());
        let (head, rest) = bytes.split_at_mut(head);
        let (rows, tail) = rest.split_at_mut(rest.len() - rest.len() % (PAIR * LANES));
        self.fill_within(at, head);
        let mut at = at + head.len() as u64;
        self.fill_rows(at / PAIR as u64, rows);
        at += rows.len() as u64;
        for pair in tail.chunks_mut(PAIR) {
            self.fill_within(at, pair);
            at += pair.len() as u64;
        }
    }

    /// The pair at place `index`.
    fn pair(&self, index: u64) -> [u8; PAIR] {
        mix(self.key.wrapping_add(index.wrapping_mul(STEP))).to_le_bytes()
    }

    /// Fills bytes that lie within one pair.
    fn fill_within(&self, at: u64, bytes: &mut [u8]) {
        let from = (at % PAIR as u64) as usize;
        let length = bytes.len();
        bytes.copy_from_slice(&self.pair(at / PAIR as u64)[from..from + length]);
    }

    fn fill_rows(&self, index: u64, bytes: &mut [u8]) {
        #[cfg(target_arch = "x86_64")]
        {
            if std::arch::is_x86_feature_detected!("avx512f") {
                // SAFETY: the processor has AVX-512F, as was just asked.
                return unsafe { fill_avx512(self.key, index, bytes) };
            }
            if std::arch::is_x86_feature_detected!("avx2") {
                // SAFETY: the processor has AVX2, as was just asked.
                return unsafe { fill_avx2(self.key, index, bytes) };
            }
        }
        fill(self.key, index, bytes);
    }
}

/// # Safety
/// The processor has AVX-512F.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn fill_avx512(key: u64, index: u64, bytes: &mut [u8]) {
    fill(key, index, bytes);
}

/// # Safety
/// The processor has AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn fill_avx2(key: u64, index: u64, bytes: &mut [u8]) {
    fill(key, index, bytes);
}

/// Fills whole rows, the first pair of which stands at place `index`.
#[inline(always)]
fn fill(key: u64, index: u64, bytes: &mut [u8]) {
    let mut counters = [0_u64; LANES];
    for (lane, counter) in counters.iter_mut().enumerate() {
        *counter = key.wrapping_add((index.wrapping_add(lane as u64)).wrapping_mul(STEP));
    }
    // Rows of a length that the compiler knows: else it makes the pairs one by one.
    for row in bytes.as_chunks_mut::<PAIR>().0.as_chunks_mut::<LANES>().0 {
        *row = counters.map(|counter| mix(counter).to_le_bytes());
        counters = counters.map(|counter| counter.wrapping_add(STEP.wrapping_mul(LANES as u64)));
    }
}

/// Spreads every bit of a counter over the whole pair. Each step can be undone, so no two places
/// of a stream hold the same pair.
#[inline(always)]
fn mix(counter: u64) -> u64 {
    let mut x = counter;
    x = (x ^ (x >> 32)).wrapping_mul(FIRST);
    x = (x ^ (x >> 29)).wrapping_mul(SECOND);
    x ^ (x >> 32)
}
