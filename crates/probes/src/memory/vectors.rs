//! Streaming kernels over memory, by the widest vectors that the core and the kernel allow.
//!
//! Each is inline assembly: nothing in it can be left out, joined or widened. A read adds every
//! word of what it loads to a sum, which differs if one byte does or if a part is skipped. The
//! others store the same in every pass: they count the bytes that they walk over by the pointers of
//! their loops, so that a pass that was left out is found.

#[cfg(target_arch = "aarch64")]
mod arm;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(target_arch = "aarch64")]
use arm as here;
#[cfg(target_arch = "x86_64")]
use x86 as here;

/// Every start must be a multiple of this, the widest vector and a cache line.
pub(crate) const ALIGNMENT: usize = 64;
/// What `triad` multiplies by.
pub(crate) const SCALE: f64 = 3.0;

/// What is done with the bytes.
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
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::WriteNt => "write_nt",
            Self::Copy => "copy",
            Self::Triad => "triad",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|op| op.name() == name)
    }

    /// Arrays that it passes over: as many bytes of the program's are moved for each byte of one.
    pub(crate) fn arrays(self) -> usize {
        match self {
            Self::Read | Self::Write | Self::WriteNt => 1,
            Self::Copy => 2,
            Self::Triad => 3,
        }
    }

    /// Arrays' worth of bytes that pass the memory bus, where an ordinary store to a line that is
    /// not in a cache fetches it first (write-allocate).
    pub(crate) fn bus_arrays(self) -> usize {
        match self {
            Self::Read | Self::WriteNt => self.arrays(),
            Self::Write | Self::Copy | Self::Triad => self.arrays() + 1,
        }
    }
}

/// Vectors in one turn of a loop.
const VECTORS: usize = 8;

/// Pointers, bytes (a multiple of a turn), passes, and where the words of a vector are. A read is
/// proved by its sums; the others return the bytes that they walked over in all passes.
struct Kernels {
    // SAFETY: a type; each caller says why it may call.
    read: unsafe fn(*const u8, usize, u64, *mut u64),
    // SAFETY: a type; each caller says why it may call.
    read_far: unsafe fn(*const u8, usize, u64, *mut u64),
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
    /// Width of a vector in bytes.
    pub(crate) bytes: usize,
    /// Its name for people.
    pub(crate) name: &'static str,
    kernels: Kernels,
}

impl Vectors {
    /// All that can be used here, the widest first.
    pub(crate) fn usable() -> impl Iterator<Item = &'static Self> {
        here::ALL.iter().filter(|vectors| here::is_usable(vectors.bytes))
    }

    /// The widest that can be used here.
    pub(crate) fn widest() -> &'static Self {
        Self::usable().next().unwrap_or(&here::ALL[here::ALL.len() - 1])
    }

    /// Reads some bytes so many times: the sum of all 64-bit words, of which the last may be short.
    /// `far` fetches ahead into the second-level cache, which memory needs and caches do not.
    ///
    /// # Safety
    /// The bytes can be read, and no other thread writes to them.
    pub(crate) unsafe fn read(
        &self,
        start: *const u8,
        bytes: usize,
        passes: u64,
        far: bool,
    ) -> u64 {
        assert!(start.addr().is_multiple_of(ALIGNMENT) && passes > 0);
        let whole = bytes - bytes % (VECTORS * self.bytes);
        let mut sums = Sums([0; 64]);
        let kernel = if far { self.kernels.read_far } else { self.kernels.read };
        if whole > 0 {
            // SAFETY: as the caller vouches; the sums are as large as all accumulators.
            unsafe { kernel(start, whole, passes, sums.0.as_mut_ptr()) };
        }
        let of_vectors = sums.0.iter().fold(0_u64, |sum, word| sum.wrapping_add(*word));
        // SAFETY: as the caller vouches.
        let rest = unsafe { std::slice::from_raw_parts(start.add(whole), bytes - whole) };
        of_vectors.wrapping_add(sum_of(rest).wrapping_mul(passes))
    }

    /// Writes one word over some bytes so many times, past the caches where it is not to `stay`.
    /// Returns the bytes of whole turns that it walked over in all passes.
    ///
    /// # Safety
    /// The bytes can be written, and nobody else uses them.
    pub(crate) unsafe fn write(
        &self,
        start: *mut u8,
        bytes: usize,
        passes: u64,
        word: u64,
        stay: bool,
    ) -> u64 {
        let mut walked = 0;
        assert!(start.addr().is_multiple_of(ALIGNMENT) && passes > 0);
        let whole = bytes - bytes % (VECTORS * self.bytes);
        let words = Line([word; 8]);
        let kernel = if stay { self.kernels.write } else { self.kernels.write_nt };
        if whole > 0 {
            // SAFETY: as the caller vouches; a line is as wide as the widest vector.
            walked = unsafe { kernel(start, whole, passes, words.0.as_ptr()) };
        }
        // SAFETY: as the caller vouches.
        let rest = unsafe { std::slice::from_raw_parts_mut(start.add(whole), bytes - whole) };
        let value = word.to_ne_bytes();
        rest.iter_mut().zip(value.iter().cycle()).for_each(|(byte, value)| *byte = *value);
        walked
    }

    /// Copies some bytes so many times. Returns the bytes of whole turns, as [`Self::write`].
    ///
    /// # Safety
    /// The source can be read and the target written, they do not overlap, and nobody else writes
    /// to either.
    pub(crate) unsafe fn copy(
        &self,
        target: *mut u8,
        source: *const u8,
        bytes: usize,
        passes: u64,
    ) -> u64 {
        let mut walked = 0;
        assert!((target.addr() | source.addr()).is_multiple_of(ALIGNMENT) && passes > 0);
        let whole = bytes - bytes % (VECTORS * self.bytes);
        // SAFETY: as the caller vouches.
        unsafe {
            if whole > 0 {
                walked = (self.kernels.copy)(target, source, whole, passes);
            }
            std::ptr::copy_nonoverlapping(source.add(whole), target.add(whole), bytes - whole);
        }
        walked
    }

    /// Sets `a` to `b + SCALE · c`, so many times. Returns the bytes of whole turns of one array,
    /// as [`Self::write`].
    ///
    /// # Safety
    /// As for [`Self::copy`], of three arrays of doubles.
    pub(crate) unsafe fn triad(
        &self,
        [a, b, c]: [*mut f64; 3],
        doubles: usize,
        passes: u64,
    ) -> u64 {
        let mut walked = 0;
        assert!((a.addr() | b.addr() | c.addr()).is_multiple_of(ALIGNMENT) && passes > 0);
        let whole = doubles - doubles % (VECTORS * self.bytes / size_of::<f64>());
        let scale = Line([SCALE.to_bits(); 8]);
        // SAFETY: as the caller vouches.
        unsafe {
            if whole > 0 {
                let bytes = whole * size_of::<f64>();
                let arrays = [a.cast(), b.cast(), c.cast()];
                walked = (self.kernels.triad)(arrays, bytes, passes, scale.0.as_ptr());
            }
            for index in whole..doubles {
                *a.add(index) = *b.add(index) + SCALE * *c.add(index);
            }
        }
        walked
    }
}

/// MemoryBudget for all accumulators of the widest vectors.
#[repr(align(64))]
struct Sums([u64; 64]);

/// One word for each lane of the widest vector.
#[repr(align(64))]
struct Line([u64; 8]);

/// The sum of 64-bit words, of which the last may be short.
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
