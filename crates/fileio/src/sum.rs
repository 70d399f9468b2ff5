//! Checksums of file data, in one pass at memory speed.
//!
//! A *word* is 4 bytes, little endian, counted from the first byte covered; the last one is padded
//! with zeroes. Words continue across blocks of any size. Three numbers:
//!
//! - **XOR-32**, the exclusive or of all words. Zero bytes give 0, `abcd` gives `64636261`.
//! - **The position sum**, Σ (i + 1) · wᵢ modulo 2⁶⁴ over the words w₀, w₁ … Unlike XOR it detects
//!   reordered words: swapping two words changes it by (i − j) · (wᵢ − wⱼ), which is never 0
//!   if they are less than 16 GiB apart.
//! - **The number of bytes.**
//!
//! The contribution of a byte depends only on its offset, so data may be split at any byte and
//! merged in any order.
//!
//! The loop keeps two running sums per lane, all = Σ x and again = Σ all, over pairs of words; a
//! shift by 32 bits separates the pairs. It exists for three vector widths, and the widest that
//! the CPU supports is used. 256 bits already exceed the memory bandwidth, but with 512 bits the
//! core keeps more cache misses in flight.

use std::fmt;

/// Bytes of a word.
const WORD: usize = 4;
/// Granularity of the loops: a multiple of the row of each kernel.
const STRIDE: usize = 128;
/// How far ahead data in DRAM are prefetched: the prefetchers of most CPUs stop at the end of a
/// page and start anew in the next.
const AHEAD: usize = 4096;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XorSum {
    /// Exclusive or of the words.
    pub xor: u32,
    /// Σ (i + 1) · wᵢ modulo 2⁶⁴.
    pub position: u64,
    pub bytes: u64,
}

impl XorSum {
    /// The sums of bytes at offset 0.
    pub fn over(bytes: &[u8]) -> Self {
        let mut sum = Self::default();
        sum.add(0, bytes);
        sum
    }

    /// Adds bytes at offset `at`.
    #[inline]
    pub fn add(&mut self, at: u64, bytes: &[u8]) {
        self.add_by(SumKernel::best(), at, bytes);
    }

    /// As [`Self::add`], of bytes that are in no CPU cache, such as a mapped file.
    pub fn add_from_dram(&mut self, at: u64, bytes: &[u8]) {
        self.add_ahead::<AHEAD>(SumKernel::best(), at, bytes);
    }

    /// Adds bytes with the given kernel; tests compare the kernels.
    pub fn add_by(&mut self, kernel: SumKernel, at: u64, bytes: &[u8]) {
        self.add_ahead::<0>(kernel, at, bytes);
    }

    fn add_ahead<const AHEAD: usize>(&mut self, kernel: SumKernel, at: u64, bytes: &[u8]) {
        let to_word = at.wrapping_neg() as usize % WORD;
        let (head, rest) = bytes.split_at(to_word.min(bytes.len()));
        let (rows, tail) = rest.split_at(rest.len() - rest.len() % STRIDE);
        self.add_each(at, head);
        let rows_at = at + head.len() as u64;
        if !rows.is_empty() {
            let part = kernel.part::<AHEAD>(rows);
            let index = rows_at / WORD as u64 + 1;
            self.xor ^= part.xor;
            self.position = self
                .position
                .wrapping_add(part.weighted)
                .wrapping_add(index.wrapping_mul(part.plain));
        }
        self.add_each(rows_at + rows.len() as u64, tail);
        self.bytes += bytes.len() as u64;
    }

    /// Adds the sums of other bytes of the same data.
    pub fn merge(&mut self, other: &Self) {
        self.xor ^= other.xor;
        self.position = self.position.wrapping_add(other.position);
        self.bytes += other.bytes;
    }

    /// Adds byte by byte: those before the first whole word and after the last stride.
    fn add_each(&mut self, at: u64, bytes: &[u8]) {
        for (place, byte) in (at..).zip(bytes) {
            let share = u32::from(*byte) << (8 * (place % WORD as u64));
            self.xor ^= share;
            let weight = place / WORD as u64 + 1;
            self.position = self.position.wrapping_add(weight.wrapping_mul(u64::from(share)));
        }
    }
}

impl fmt::Display for XorSum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x} {:016x}", self.xor, self.position)
    }
}

/// The loop for one vector width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SumKernel {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// The baseline of the architecture; SSE2 on x86-64.
    Plain,
}

impl SumKernel {
    /// The widest that this CPU supports.
    #[inline]
    pub fn best() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            // The standard library caches the detection: a load and a test per call.
            if std::arch::is_x86_feature_detected!("avx512f") {
                return Self::Avx512;
            }
            if std::arch::is_x86_feature_detected!("avx2") {
                return Self::Avx2;
            }
        }
        Self::Plain
    }

    /// All that this CPU supports, the widest first.
    pub fn available() -> Vec<Self> {
        match Self::best() {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => vec![Self::Avx512, Self::Avx2, Self::Plain],
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => vec![Self::Avx2, Self::Plain],
            Self::Plain => vec![Self::Plain],
        }
    }

    /// Sums whole strides and prefetches those that are `AHEAD` bytes further on. Panics if the CPU
    /// does not support the kernel.
    fn part<const AHEAD: usize>(self, bytes: &[u8]) -> SumPart {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                assert!(std::arch::is_x86_feature_detected!("avx512f"));
                // SAFETY: the CPU has AVX-512F, as just checked.
                unsafe { avx512::<AHEAD>(bytes) }
            }
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => {
                assert!(std::arch::is_x86_feature_detected!("avx2"));
                // SAFETY: the CPU has AVX2, as just checked.
                unsafe { avx2::<AHEAD>(bytes) }
            }
            #[cfg(target_arch = "x86_64")]
            Self::Plain => sse2::<AHEAD>(bytes),
            #[cfg(not(target_arch = "x86_64"))]
            Self::Plain => plain(bytes),
        }
    }
}

/// Sums of whole strides, with words counted from their first.
struct SumPart {
    xor: u32,
    /// Σ wᵢ.
    plain: u64,
    /// Σ i · wᵢ.
    weighted: u64,
}

/// The loop for one vector width, with intrinsics, because the compiler does not vectorize it. Two
/// sets of accumulators, so that a row does not wait for the additions of the one before.
#[cfg(target_arch = "x86_64")]
macro_rules! rows {
    ($bytes:ident, $lanes:literal, $load:ident, $zero:ident, $add:ident, $xor:ident,
     $high:ident) => {{
        const HALF: usize = $lanes / 2;
        let (mut xor, mut all, mut high) = ([$zero(); 2], [$zero(); 2], [$zero(); 2]);
        let (mut all_again, mut high_again) = ([$zero(); 2], [$zero(); 2]);
        let rows = $bytes.as_chunks::<8>().0.as_chunks::<$lanes>().0;
        for row in rows {
            if AHEAD > 0 {
                prefetch(row.as_ptr().cast::<u8>().wrapping_add(AHEAD), size_of_val(row));
            }
            for half in 0..2 {
                // SAFETY: half a row is one vector; the load is an unaligned one.
                let pairs = unsafe { $load(row[half * HALF..].as_ptr().cast()) };
                xor[half] = $xor(xor[half], pairs);
                all[half] = $add(all[half], pairs);
                high[half] = $add(high[half], $high::<32>(pairs));
                // After its own addition, so that the first row counts as often as there are rows.
                all_again[half] = $add(all_again[half], all[half]);
                high_again[half] = $add(high_again[half], high[half]);
            }
        }
        // SAFETY: both types have the same size, and any bits are valid u64.
        let words = |vectors| unsafe { std::mem::transmute::<_, [u64; $lanes]>(vectors) };
        let (all, high) = ((words(all), words(all_again)), (words(high), words(high_again)));
        SumPart::from_lanes(rows.len() as u64, words(xor), all, high)
    }};
}

/// Requests these bytes, wherever they are: a prefetch of an address without memory does nothing.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn prefetch(from: *const u8, bytes: usize) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    for line in (0..bytes).step_by(64) {
        // SAFETY: it reads nothing, and SSE is in the baseline of x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(line).cast()) };
    }
}

/// # Safety
/// The CPU must have AVX-512F.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn avx512<const AHEAD: usize>(bytes: &[u8]) -> SumPart {
    use std::arch::x86_64::{
        _mm512_add_epi64 as add, _mm512_loadu_si512 as load, _mm512_setzero_si512 as zero,
        _mm512_srli_epi64 as high, _mm512_xor_si512 as xor,
    };
    rows!(bytes, 16, load, zero, add, xor, high)
}

/// # Safety
/// The CPU must have AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn avx2<const AHEAD: usize>(bytes: &[u8]) -> SumPart {
    use std::arch::x86_64::{
        _mm256_add_epi64 as add, _mm256_loadu_si256 as load, _mm256_setzero_si256 as zero,
        _mm256_srli_epi64 as high, _mm256_xor_si256 as xor,
    };
    rows!(bytes, 8, load, zero, add, xor, high)
}

#[cfg(target_arch = "x86_64")]
fn sse2<const AHEAD: usize>(bytes: &[u8]) -> SumPart {
    use std::arch::x86_64::{
        _mm_add_epi64, _mm_loadu_si128, _mm_setzero_si128, _mm_srli_epi64, _mm_xor_si128,
    };
    /// # Safety
    /// Always safe: SSE2 is the baseline of x86-64.
    #[target_feature(enable = "sse2")]
    unsafe fn summed<const AHEAD: usize>(bytes: &[u8]) -> SumPart {
        rows!(
            bytes,
            4,
            _mm_loadu_si128,
            _mm_setzero_si128,
            _mm_add_epi64,
            _mm_xor_si128,
            _mm_srli_epi64
        )
    }
    // SAFETY: as above.
    unsafe { summed::<AHEAD>(bytes) }
}

/// The scalar loop, for other architectures.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn plain(bytes: &[u8]) -> SumPart {
    const LANES: usize = 8;
    let (mut xor, mut all, mut high) = ([0_u64; LANES], [0_u64; LANES], [0_u64; LANES]);
    let (mut all_again, mut high_again) = ([0_u64; LANES], [0_u64; LANES]);
    let rows = bytes.as_chunks::<8>().0.as_chunks::<LANES>().0;
    for row in rows {
        for (lane, pair) in row.iter().enumerate() {
            let pair = u64::from_le_bytes(*pair);
            xor[lane] ^= pair;
            all[lane] = all[lane].wrapping_add(pair);
            high[lane] = high[lane].wrapping_add(pair >> 32);
            all_again[lane] = all_again[lane].wrapping_add(all[lane]);
            high_again[lane] = high_again[lane].wrapping_add(high[lane]);
        }
    }
    SumPart::from_lanes(rows.len() as u64, xor, (all, all_again), (high, high_again))
}

impl SumPart {
    /// From the accumulators of a loop over `count` rows of pairs. A pair x is low + 2³² · high, so
    /// the sum of the lows is the sum of the pairs minus 2³² times the sum of the highs, modulo
    /// 2⁶⁴: the loops need no mask.
    fn from_lanes<const LANES: usize>(
        count: u64,
        xor: [u64; LANES],
        (all, all_again): ([u64; LANES], [u64; LANES]),
        (high, high_again): ([u64; LANES], [u64; LANES]),
    ) -> Self {
        let mut part = Self { xor: 0, plain: 0, weighted: 0 };
        for lane in 0..LANES {
            part.xor ^= (xor[lane] ^ (xor[lane] >> 32)) as u32;
            let low = all[lane].wrapping_sub(high[lane] << 32);
            let low_again = all_again[lane].wrapping_sub(high_again[lane] << 32);
            part.add(count, 2 * LANES, 2 * lane, low, low_again);
            part.add(count, 2 * LANES, 2 * lane + 1, high[lane], high_again[lane]);
        }
        part
    }

    /// Adds one column of words: those at `column` in `count` rows of `width` words, given their
    /// sum and the sum of its running values, which contains the word of row r `count` − r times.
    fn add(&mut self, count: u64, width: usize, column: usize, sum: u64, again: u64) {
        let by_row = count.wrapping_mul(sum).wrapping_sub(again);
        self.plain = self.plain.wrapping_add(sum);
        self.weighted = self
            .weighted
            .wrapping_add((width as u64).wrapping_mul(by_row))
            .wrapping_add((column as u64).wrapping_mul(sum));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalar_loop_matches_vector_loop() {
        let bytes: Vec<u8> = (0..64_000_u32).map(|at| ((at * at) >> 7) as u8).collect();
        for length in [128, 256, 6400, 64_000] {
            let scalar = plain(&bytes[..length]);
            for kernel in SumKernel::available() {
                let bytes = &bytes[..length];
                for vector in [kernel.part::<0>(bytes), kernel.part::<AHEAD>(bytes)] {
                    assert_eq!(
                        (scalar.xor, scalar.plain, scalar.weighted),
                        (vector.xor, vector.plain, vector.weighted),
                        "{kernel:?}"
                    );
                }
            }
        }
    }
}
