//! Memory streaming kernels with the widest vectors that the core and the operating system support.
//!
//! Inline assembly, because a compiler could remove, fuse or re-vectorise the loops. A read sums
//! every word, which reveals any changed or skipped byte. The other kernels store the same in every
//! pass, so they count the processed bytes by their loop pointers, which reveals skipped passes.

#[cfg(target_arch = "aarch64")]
mod arm;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(target_arch = "aarch64")]
use arm as arch;
#[cfg(target_arch = "x86_64")]
use x86 as arch;

/// Alignment of every start address: the widest vector and a cache line.
pub(crate) const ALIGNMENT: usize = 64;
/// The scalar of `triad`.
pub(crate) const SCALE: f64 = 3.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Op {
    Read,
    Write,
    WriteNt,
    Copy,
    Triad,
}

impl Op {
    pub(crate) const ALL: [Self; 5] =
        [Self::Read, Self::Write, Self::WriteNt, Self::Copy, Self::Triad];

    pub(crate) fn name(self) -> &'static str {
        ["read", "write", "write_nt", "copy", "triad"][self as usize]
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|op| op.name() == name)
    }

    /// Arrays read or written: program bytes per byte of one array.
    pub(crate) fn arrays(self) -> usize {
        match self {
            Self::Read | Self::Write | Self::WriteNt => 1,
            Self::Copy => 2,
            Self::Triad => 3,
        }
    }

    /// Bus traffic in arrays: a temporal store to an uncached line reads it first (write-allocate).
    pub(crate) fn bus_arrays(self) -> usize {
        match self {
            Self::Read | Self::WriteNt => self.arrays(),
            Self::Write | Self::Copy | Self::Triad => self.arrays() + 1,
        }
    }
}

/// Vectors per loop iteration: enough independent accumulators to hide the latency of an addition.
const VECTORS: usize = 8;

/// Take pointers, bytes (a multiple of a loop iteration), passes, and the address of a vector.
/// Reads return their accumulators, the others the bytes processed in all passes.
struct Kernels {
    // SAFETY: a type; each caller says why it may call.
    read: unsafe fn(*const u8, usize, u64, *mut u64),
    // SAFETY: a type; each caller says why it may call.
    read_prefetched: unsafe fn(*const u8, usize, u64, *mut u64),
    // SAFETY: a type; each caller says why it may call.
    write: unsafe fn(*mut u8, usize, u64, *const u64) -> u64,
    // SAFETY: a type; each caller says why it may call.
    write_nt: unsafe fn(*mut u8, usize, u64, *const u64) -> u64,
    // SAFETY: a type; each caller says why it may call.
    copy: unsafe fn(*mut u8, *const u8, usize, u64) -> u64,
    // SAFETY: a type; each caller says why it may call.
    triad: unsafe fn([*mut u8; 3], usize, u64, *const u64) -> u64,
}

/// One instruction set's kernels.
pub(crate) struct Vectors {
    /// Vector width.
    pub(crate) bytes: usize,
    pub(crate) name: &'static str,
    kernels: Kernels,
}

impl Vectors {
    /// The usable instruction sets, the widest first.
    pub(crate) fn usable() -> impl Iterator<Item = &'static Self> {
        arch::ALL.iter().filter(|vectors| arch::is_usable(vectors.bytes))
    }

    pub(crate) fn widest() -> &'static Self {
        Self::usable().next().unwrap_or(&arch::ALL[arch::ALL.len() - 1])
    }

    /// Reads some bytes `passes` times. Returns the sum of all 64-bit words, the last zero-padded.
    /// `prefetch` prefetches into L2, which helps beyond the caches only.
    ///
    /// # Safety
    /// The bytes must be readable, and no other thread may write to them.
    pub(crate) unsafe fn read(
        &self,
        start: *const u8,
        bytes: usize,
        passes: u64,
        prefetch: bool,
    ) -> u64 {
        assert!(start.addr().is_multiple_of(ALIGNMENT) && passes > 0);
        let whole = bytes - bytes % (VECTORS * self.bytes);
        let mut sums = Sums([0; 64]);
        let kernel = if prefetch { self.kernels.read_prefetched } else { self.kernels.read };
        if whole > 0 {
            // SAFETY: guaranteed by the caller; `sums` has space for all accumulators.
            unsafe { kernel(start, whole, passes, sums.0.as_mut_ptr()) };
        }
        let of_vectors = sums.0.iter().fold(0_u64, |sum, word| sum.wrapping_add(*word));
        // SAFETY: guaranteed by the caller.
        let rest = unsafe { std::slice::from_raw_parts(start.add(whole), bytes - whole) };
        of_vectors.wrapping_add(sum_of(rest).wrapping_mul(passes))
    }

    /// Fills some bytes with one word `passes` times, with non-temporal stores unless `temporal`.
    /// Returns the bytes of whole loop iterations processed in all passes.
    ///
    /// # Safety
    /// The bytes must be writable, and no other thread may use them.
    pub(crate) unsafe fn write(
        &self,
        start: *mut u8,
        bytes: usize,
        passes: u64,
        word: u64,
        temporal: bool,
    ) -> u64 {
        let mut processed = 0;
        assert!(start.addr().is_multiple_of(ALIGNMENT) && passes > 0);
        let whole = bytes - bytes % (VECTORS * self.bytes);
        let words = VectorLine([word; 8]);
        let kernel = if temporal { self.kernels.write } else { self.kernels.write_nt };
        if whole > 0 {
            // SAFETY: guaranteed by the caller; `words` has the size of the widest vector.
            processed = unsafe { kernel(start, whole, passes, words.0.as_ptr()) };
        }
        // SAFETY: guaranteed by the caller.
        let rest = unsafe { std::slice::from_raw_parts_mut(start.add(whole), bytes - whole) };
        let value = word.to_ne_bytes();
        rest.iter_mut().zip(value.iter().cycle()).for_each(|(byte, value)| *byte = *value);
        processed
    }

    /// Copies some bytes `passes` times. Returns the bytes of whole loop iterations.
    ///
    /// # Safety
    /// The source must be readable and the target writable, they must not overlap, and no other
    /// thread may use them.
    pub(crate) unsafe fn copy(
        &self,
        target: *mut u8,
        source: *const u8,
        bytes: usize,
        passes: u64,
    ) -> u64 {
        let mut processed = 0;
        assert!((target.addr() | source.addr()).is_multiple_of(ALIGNMENT) && passes > 0);
        let whole = bytes - bytes % (VECTORS * self.bytes);
        // SAFETY: guaranteed by the caller.
        unsafe {
            if whole > 0 {
                processed = (self.kernels.copy)(target, source, whole, passes);
            }
            std::ptr::copy_nonoverlapping(source.add(whole), target.add(whole), bytes - whole);
        }
        processed
    }

    /// Sets `a` to `b + SCALE · c`, `passes` times. Returns the bytes of whole loop iterations of
    /// one array.
    ///
    /// # Safety
    /// As for [`Self::copy`], with three arrays of doubles.
    pub(crate) unsafe fn triad(
        &self,
        [a, b, c]: [*mut f64; 3],
        doubles: usize,
        passes: u64,
    ) -> u64 {
        let mut processed = 0;
        assert!((a.addr() | b.addr() | c.addr()).is_multiple_of(ALIGNMENT) && passes > 0);
        let whole = doubles - doubles % (VECTORS * self.bytes / size_of::<f64>());
        let scale = VectorLine([SCALE.to_bits(); 8]);
        // SAFETY: guaranteed by the caller.
        unsafe {
            if whole > 0 {
                let bytes = whole * size_of::<f64>();
                let arrays = [a.cast(), b.cast(), c.cast()];
                processed = (self.kernels.triad)(arrays, bytes, passes, scale.0.as_ptr());
            }
            for index in whole..doubles {
                *a.add(index) = *b.add(index) + SCALE * *c.add(index);
            }
        }
        processed
    }
}

/// The accumulators of the widest vectors.
#[repr(align(64))]
struct Sums([u64; 64]);

/// The widest vector.
#[repr(align(64))]
struct VectorLine([u64; 8]);

/// The sum of 64-bit words, the last zero-padded.
fn sum_of(bytes: &[u8]) -> u64 {
    let word = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_ne_bytes(word)
    };
    bytes.chunks(8).fold(0, |sum, bytes| sum.wrapping_add(word(bytes)))
}

#[cfg(test)]
pub(super) mod tests;
