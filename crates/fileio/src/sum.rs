//! Checksums of the bytes read or written, in one pass at the speed of memory.
//!
//! A *word* is 4 bytes, little endian, counted from the first byte covered; the last one is padded
//! with zeroes. Words run on across blocks, whatever the size of a block. Three numbers:
//!
//! - **XOR-32**, the exclusive or of all words. Zero bytes give 0, `abcd` gives `64636261`.
//! - **The position sum**, Σ (i + 1) · wᵢ modulo 2⁶⁴ over the words w₀, w₁ … It sees what XOR cannot:
//!   words in another order. Two words that changed places change it by (i − j) · (wᵢ − wⱼ), which
//!   is never 0 within 16 GiB of each other.
//! - **The count of bytes.**
//!
//! Each byte adds its share by where it stands alone, so parts may be cut at any byte and merged
//! in any order.
//!
//! The loop has two running additions a lane, all = Σ x and again = Σ all, over words taken two at
//! a time; 32 bits of shift take them apart again. It is compiled for each width of vector, and
//! the widest that the processor has is used.

use std::fmt;

/// Bytes in a word.
const WORD: usize = 4;
/// What the loop takes at a time; a multiple of each kernel's row.
const STRIDE: usize = 64;

/// The sums of some bytes, each byte at its place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Exclusive or of the words.
    pub xor: u32,
    /// Σ (i + 1) · wᵢ modulo 2⁶⁴.
    pub position: u64,
    /// How many bytes.
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
    /// 512 bits.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// 256 bits.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// What every processor of the architecture has: SSE2 or NEON.
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
                unsafe { rows_avx512(bytes) }
            }
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => {
                assert!(std::arch::is_x86_feature_detected!("avx2"));
                // SAFETY: the processor has AVX2, as was just asked.
                unsafe { rows_avx2(bytes) }
            }
            #[cfg(target_arch = "x86_64")]
            Self::Plain => rows::<4>(bytes),
            #[cfg(not(target_arch = "x86_64"))]
            Self::Plain => rows::<8>(bytes),
        }
    }
}

/// Sums of some strides of words, counted from their own first word.
struct Part {
    xor: u32,
    /// Σ wᵢ.
    plain: u64,
    /// Σ i · wᵢ.
    weighted: u64,
}

/// # Safety
/// The processor has AVX-512F.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn rows_avx512(bytes: &[u8]) -> Part {
    rows::<8>(bytes)
}

/// # Safety
/// The processor has AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn rows_avx2(bytes: &[u8]) -> Part {
    rows::<8>(bytes)
}

/// Adds up rows of `LANES` pairs of words. A pair x is low + 2³² · high, so the sum of the lows is
/// that of the pairs less 2³² times that of the highs, modulo 2⁶⁴: no lane needs a mask.
#[inline(always)]
fn rows<const LANES: usize>(bytes: &[u8]) -> Part {
    let mut xor = [0_u64; LANES];
    let (mut all, mut all_again) = ([0_u64; LANES], [0_u64; LANES]);
    let (mut high, mut high_again) = ([0_u64; LANES], [0_u64; LANES]);
    let mut count = 0_u64;
    for row in bytes.chunks_exact(8 * LANES) {
        for (lane, pair) in row.as_chunks::<8>().0.iter().enumerate() {
            let pair = u64::from_le_bytes(*pair);
            xor[lane] ^= pair;
            all[lane] = all[lane].wrapping_add(pair);
            high[lane] = high[lane].wrapping_add(pair >> 32);
            all_again[lane] = all_again[lane].wrapping_add(all[lane]);
            high_again[lane] = high_again[lane].wrapping_add(high[lane]);
        }
        count += 1;
    }
    let mut part = Part { xor: 0, plain: 0, weighted: 0 };
    for lane in 0..LANES {
        part.xor ^= (xor[lane] ^ (xor[lane] >> 32)) as u32;
        let low = all[lane].wrapping_sub(high[lane] << 32);
        let low_again = all_again[lane].wrapping_sub(high_again[lane] << 32);
        part.add(count, 2 * LANES, 2 * lane, low, low_again);
        part.add(count, 2 * LANES, 2 * lane + 1, high[lane], high_again[lane]);
    }
    part
}

impl Part {
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
