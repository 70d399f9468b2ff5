//! Incompressible data to write, a function of seed and offset.
//!
//! Pair i of two 4-byte words is a hash of seed + i · γ: two multiplications by odd 32-bit
//! constants, which vectorize without a 64-bit multiply, between three xor-shifts. A counter
//! instead of a chain, so that any block can be generated and verified alone.

/// The odd step between two pairs: 2⁶⁴ over the golden ratio, whose multiples spread evenly.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
/// Odd, with about as many ones as zeroes.
const FIRST: u64 = 0xd6e8_feb9;
const SECOND: u64 = 0xad90_777d;
/// Pairs per loop iteration: one 512-bit vector.
const LANES: usize = 8;
const PAIR: usize = 8;

/// An endless stream of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileGenerator {
    key: u64,
}

impl FileGenerator {
    /// Streams of different seeds do not overlap.
    pub fn new(seed: u64) -> Self {
        // Hashed, so that the next seed does not give this stream shifted by one pair.
        Self { key: mix(seed.wrapping_mul(STEP) ^ SECOND) }
    }

    /// Fills `bytes` with the stream from byte `at`.
    pub fn fill(&self, at: u64, bytes: &mut [u8]) {
        let to_pair = at.wrapping_neg() as usize % PAIR;
        let head = to_pair.min(bytes.len());
        let (head, rest) = bytes.split_at_mut(head);
        let (rows, tail) = rest.split_at_mut(rest.len() - rest.len() % (PAIR * LANES));
        self.fill_partial(at, head);
        let mut at = at + head.len() as u64;
        self.fill_rows(at / PAIR as u64, rows);
        at += rows.len() as u64;
        for pair in tail.chunks_mut(PAIR) {
            self.fill_partial(at, pair);
            at += pair.len() as u64;
        }
    }

    fn pair(&self, index: u64) -> [u8; PAIR] {
        mix(self.key.wrapping_add(index.wrapping_mul(STEP))).to_le_bytes()
    }

    /// Fills bytes of one pair.
    fn fill_partial(&self, at: u64, bytes: &mut [u8]) {
        let from = (at % PAIR as u64) as usize;
        let length = bytes.len();
        bytes.copy_from_slice(&self.pair(at / PAIR as u64)[from..from + length]);
    }

    fn fill_rows(&self, index: u64, bytes: &mut [u8]) {
        #[cfg(target_arch = "x86_64")]
        {
            if std::arch::is_x86_feature_detected!("avx512f") {
                // SAFETY: the CPU has AVX-512F, as just checked.
                return unsafe { fill_avx512(self.key, index, bytes) };
            }
            if std::arch::is_x86_feature_detected!("avx2") {
                // SAFETY: the CPU has AVX2, as just checked.
                return unsafe { fill_avx2(self.key, index, bytes) };
            }
        }
        fill(self.key, index, bytes);
    }
}

/// # Safety
/// The CPU must have AVX-512F.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn fill_avx512(key: u64, index: u64, bytes: &mut [u8]) {
    fill(key, index, bytes);
}

/// # Safety
/// The CPU must have AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn fill_avx2(key: u64, index: u64, bytes: &mut [u8]) {
    fill(key, index, bytes);
}

/// Fills whole rows from pair `index` on.
#[inline(always)]
fn fill(key: u64, index: u64, bytes: &mut [u8]) {
    let mut counters = [0_u64; LANES];
    for (lane, counter) in counters.iter_mut().enumerate() {
        *counter = key.wrapping_add((index.wrapping_add(lane as u64)).wrapping_mul(STEP));
    }
    // Arrays of constant length: otherwise the compiler does not vectorize the loop.
    for row in bytes.as_chunks_mut::<PAIR>().0.as_chunks_mut::<LANES>().0 {
        *row = counters.map(|counter| mix(counter).to_le_bytes());
        counters = counters.map(|counter| counter.wrapping_add(STEP.wrapping_mul(LANES as u64)));
    }
}

/// Spreads every bit of a counter over the pair. Each step is invertible, so all pairs of a stream
/// differ.
#[inline(always)]
fn mix(counter: u64) -> u64 {
    let mut x = counter;
    x = (x ^ (x >> 32)).wrapping_mul(FIRST);
    x = (x ^ (x >> 29)).wrapping_mul(SECOND);
    x ^ (x >> 32)
}
