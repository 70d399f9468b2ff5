//! Checksums of the bytes read or written, in one pass at the speed of memory.
//!
//! A *word* is 4 bytes, little endian, counted from the first byte covered; the last one is padded
//! with zeroes. Words run on across blocks, whatever the size of a block. Three numbers:
//!
//! - **XOR-32**, the exclusive or of all words. Zero bytes give 0, `abcd` gives `64636261`.
//! - **The position sum**, Σ (i + 1) · wᵢ modulo 2⁶⁴ over the words w₀, w₁ … It sees what XOR
//!   cannot: words in another order. Two words that changed places change it by
//!   (i − j) · (wᵢ − wⱼ), which is never 0 within 16 GiB of each other.
//! - **The count of bytes.**
//!
//! Each byte adds its share by where it stands alone, so parts may be cut at any byte and merged
//! in any order.
//!
//! The loop has two running additions a lane, all = Σ x and again = Σ all, over words taken two at
//! a time; 32 bits of shift take them apart again. It is there for three widths of vector, and the
//! widest that the processor has is used. With 256 bits it is quicker than memory, but 512 leave
//! the core more room to have lines of memory under way.

use std::fmt;

const WORD: usize = 4;
/// What the loop takes at a time; a multiple of each kernel's row.
const STRIDE: usize = 128;

/// The sums of some bytes, each byte at its place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Exclusive or of the words.
    pub xor: u32,
    /// Σ (i + 1) · wᵢ modulo 2⁶⁴.
    pub position: u64,
    pub bytes: u64,
}

impl Sum {
    /// The sums of bytes that are all there is.
    pub fn of(bytes: &[u8]) -> Self {
        let mut sum = Self::default();
        sum.add(0, bytes);
        sum
    }

    /// Adds bytes that stand `at` bytes after the first byte covered.
    #[inline]
    pub fn add(&mut self, at: u64, bytes: &[u8]) {
        self.add_by(Kernel::best(), at, bytes);
    }

    /// Adds bytes by a chosen kernel. All give the same; tests hold them against each other.
    pub fn add_by(&mut self, kernel: Kernel, at: u64, bytes: &[u8]) {
        let to_word = at.wrapping_neg() as usize % WORD;
        let (head, rest) = bytes.split_at(to_word.min(bytes.len()));
        let (rows, tail) = rest.split_at(rest.len() - rest.len() % STRIDE);
        self.add_each(at, head);
        let rows_at = at + head.len() as u64;
        if !rows.is_empty() {
            let part = kernel.part(rows);
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

    /// Takes in the sums of other bytes of the same whole, before or after these.
    pub fn merge(&mut self, other: &Self) {
        self.xor ^= other.xor;
        self.position = self.position.wrapping_add(other.position);
        self.bytes += other.bytes;
    }

    /// Byte by byte: the few before the first whole word, and those after the last stride.
    fn add_each(&mut self, at: u64, bytes: &[u8]) {
        for (at, byte) in (at..).zip(bytes) {
            let share = u32::from(*byte) << (8 * (at % WORD as u64));
            self.xor ^= share;
            let weight = at / WORD as u64 + 1;
            self.position = self.position.wrapping_add(weight.wrapping_mul(u64::from(share)));
        }
    }
}

impl fmt::Display for Sum {
    /// XOR-32 and the position sum, as eight and sixteen digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x} {:016x}", self.xor, self.position)
    }
}

/// The loop for one width of vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// What every processor of the architecture has; on x86-64 SSE2.
    Plain,
}

impl Kernel {
    /// The widest that this processor has.
    #[inline]
    pub fn best() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if std::arch::is_x86_feature_detected!("avx512f") {
                return Self::Avx512;
            }
            if std::arch::is_x86_feature_detected!("avx2") {
                return Self::Avx2;
            }
        }
        Self::Plain
    }

    /// All that this processor has, the widest first.
    pub fn available() -> Vec<Self> {
        match Self::best() {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => vec![Self::Avx512, Self::Avx2, Self::Plain],
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => vec![Self::Avx2, Self::Plain],
            Self::Plain => vec![Self::Plain],
        }
    }

    /// The share of whole strides.
    ///
    /// # Panics
    /// For a kernel that the processor has not.
    fn part(self, bytes: &[u8]) -> Part {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                assert!(std::arch::is_x86_feature_detected!("avx512f"));
                // SAFETY: the processor has AVX-512F, as was just asked.
                unsafe { avx512(bytes) }
            }
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => {
                assert!(std::arch::is_x86_feature_detected!("avx2"));
                // SAFETY: the processor has AVX2, as was just asked.
                unsafe { avx2(bytes) }
            }
            #[cfg(target_arch = "x86_64")]
            Self::Plain => sse2(bytes),
            #[cfg(not(target_arch = "x86_64"))]
            Self::Plain => plain(bytes),
        }
    }
}

/// Sums of some strides of words, counted from their own first word.
struct Part {
    xor: u32,
    plain: u64,
    weighted: u64,
}

/// The loop for one width of vector. By hand, because compilers take the words one by one.
#[cfg(target_arch = "x86_64")]
macro_rules! rows {
    ($bytes:ident, $lanes:literal, $load:ident, $zero:ident, $add:ident, $xor:ident,
     $high:ident) => {{
        const HALF: usize = $lanes / 2;
        let (mut xor, mut all, mut high) = ([$zero(); 2], [$zero(); 2], [$zero(); 2]);
        let (mut all_again, mut high_again) = ([$zero(); 2], [$zero(); 2]);
        let rows = $bytes.as_chunks::<8>().0.as_chunks::<$lanes>().0;
        for row in rows {
            for half in 0..2 {
                // SAFETY: a vector is half a row of bytes; this load needs no alignment.
                let pairs = unsafe { $load(row[half * HALF..].as_ptr().cast()) };
                xor[half] = $xor(xor[half], pairs);
                all[half] = $add(all[half], pairs);
                high[half] = $add(high[half], $high::<32>(pairs));
                all_again[half] = $add(all_again[half], all[half]);
                high_again[half] = $add(high_again[half], high[half]);
            }
        }
        // SAFETY: two vectors are as many bytes as this many words of 64 bits, and any bits are
        // such words.
        let words = |vectors| unsafe { std::mem::transmute::<_, [u64; $lanes]>(vectors) };
        let (all, high) = ((words(all), words(all_again)), (words(high), words(high_again)));
        Part::of(rows.len() as u64, words(xor), all, high)
    }};
}

/// # Safety
/// The processor has AVX-512F.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn avx512(bytes: &[u8]) -> Part {
    use std::arch::x86_64::{
        _mm512_add_epi64 as add, _mm512_loadu_si512 as load, _mm512_setzero_si512 as zero,
        _mm512_srli_epi64 as high, _mm512_xor_si512 as xor,
    };
    rows!(bytes, 16, load, zero, add, xor, high)
}

/// # Safety
/// The processor has AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn avx2(bytes: &[u8]) -> Part {
    use std::arch::x86_64::{
        _mm256_add_epi64 as add, _mm256_loadu_si256 as load, _mm256_setzero_si256 as zero,
        _mm256_srli_epi64 as high, _mm256_xor_si256 as xor,
    };
    rows!(bytes, 8, load, zero, add, xor, high)
}

#[cfg(target_arch = "x86_64")]
fn sse2(bytes: &[u8]) -> Part {
    use std::arch::x86_64::{
        _mm_add_epi64, _mm_loadu_si128, _mm_setzero_si128, _mm_srli_epi64, _mm_xor_si128,
    };
    /// # Safety
    /// None is needed: every processor of this architecture has SSE2.
    #[target_feature(enable = "sse2")]
    unsafe fn of(bytes: &[u8]) -> Part {
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
    unsafe { of(bytes) }
}

/// The same without vectors, for other architectures; the tests hold it against those.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn plain(bytes: &[u8]) -> Part {
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
    Part::of(rows.len() as u64, xor, (all, all_again), (high, high_again))
}

impl Part {
    /// From what a loop leaves of `count` rows of pairs. A pair x is low + 2³² · high, so the sum
    /// of the lows is that of the pairs less 2³² times that of the highs, modulo 2⁶⁴: no lane of a
    /// loop needs a mask.
    fn of<const LANES: usize>(
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

    /// One column of words: of `count` rows of `width` words, those at `column`, with their sum
    /// and the sum of its running values. In the latter the word of row r is `count` − r times.
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
    fn the_loop_without_vectors_gives_the_same() {
        let bytes: Vec<u8> = (0..64_000_u32).map(|at| ((at * at) >> 7) as u8).collect();
        for length in [128, 256, 6400, 64_000] {
            let (ours, theirs) = (plain(&bytes[..length]), Kernel::best().part(&bytes[..length]));
            assert_eq!((ours.xor, ours.plain), (theirs.xor, theirs.plain));
            assert_eq!(ours.weighted, theirs.weighted);
        }
    }
}
