//! Every kernel of every usable width, compared with plain Rust, for odd sizes.

use super::*;

/// Sizes around every boundary: 0, less than a word, one loop iteration of each width.
const SIZES: [usize; 12] = [0, 1, 7, 8, 63, 64, 128, 255, 256, 513, 1024 + 40, 4096 + 3];

/// The narrowest kernel with one pass whatever is requested.
macro_rules! one_pass {
    ($kernel:ident: $($before:ident)*, _ $(, $after:ident)*) => {
        |$($before,)* _ $(, $after)*| {
            let narrowest = &arch::ALL[arch::ALL.len() - 1];
            // SAFETY: guaranteed by the caller.
            unsafe { (narrowest.kernels.$kernel)($($before,)* 1 $(, $after)*) }
        }
    };
}

/// Kernels that skip passes.
pub(in crate::memory) static ONE_PASS: Vectors = Vectors {
    bytes: 16,
    name: "one pass",
    kernels: Kernels {
        read: one_pass!(read: start bytes, _, sums),
        read_prefetched: one_pass!(read_prefetched: start bytes, _, sums),
        write: one_pass!(write: start bytes, _, words),
        write_nt: one_pass!(write_nt: start bytes, _, words),
        copy: one_pass!(copy: target source bytes, _),
        triad: one_pass!(triad: arrays bytes, _, scale),
    },
};

#[derive(Clone)]
#[repr(align(64))]
struct Bytes([u8; 8192]);

fn pattern(seed: usize) -> Box<Bytes> {
    let mut bytes = Box::new(Bytes([0; 8192]));
    let value = |index: usize| (((index + seed) * 2_654_435_761) >> 7) as u8;
    bytes.0.iter_mut().enumerate().for_each(|(index, byte)| *byte = value(index));
    bytes
}

fn for_each(test: impl Fn(&Vectors, usize)) {
    let widths: Vec<&Vectors> = Vectors::usable().collect();
    assert!(!widths.is_empty());
    for width in widths {
        SIZES.iter().for_each(|size| test(width, *size));
    }
}

/// Bytes of whole loop iterations in two passes.
fn twice(width: &Vectors, size: usize) -> u64 {
    2 * (size - size % (VECTORS * width.bytes)) as u64
}

#[test]
fn widest_vectors_come_first_and_sse2_always_works() {
    let widths: Vec<usize> = Vectors::usable().map(|vectors| vectors.bytes).collect();
    assert!(widths.is_sorted_by(|a, b| a > b) && widths.last() == Some(&16), "{widths:?}");
    assert_eq!(Vectors::widest().bytes, widths[0]);
}

#[test]
fn read_sums_exactly_the_given_bytes() {
    for_each(|width, size| {
        let mut bytes = pattern(1);
        for prefetch in [false, true] {
            for passes in [1, 3] {
                // SAFETY: the array exceeds every size.
                let sum = unsafe { width.read(bytes.0.as_ptr(), size, passes, prefetch) };
                let expected = sum_of(&bytes.0[..size]).wrapping_mul(passes);
                assert_eq!(sum, expected, "{} {size} × {passes}", width.name);
            }
        }
        let before = sum_of(&bytes.0[..size]);
        for changed in [0, size / 2, size.saturating_sub(1)] {
            bytes.0[changed] ^= 0x10;
            // SAFETY: as above.
            let sum = unsafe { width.read(bytes.0.as_ptr(), size, 1, false) };
            assert_eq!(sum != before, size > 0, "{} {size}: byte {changed}", width.name);
            bytes.0[changed] ^= 0x10;
        }
        bytes.0[size] ^= 0x10;
        // SAFETY: as above.
        let sum = unsafe { width.read(bytes.0.as_ptr(), size, 1, false) };
        assert_eq!(sum, before, "{} {size}: read a byte past the end", width.name);
    });
}

#[test]
fn write_sets_exactly_the_given_bytes() {
    let word = u64::from_ne_bytes([1, 2, 3, 4, 5, 6, 7, 8]);
    for_each(|width, size| {
        for temporal in [true, false] {
            let before = pattern(2);
            let mut bytes = before.clone();
            // SAFETY: the array exceeds every size.
            let processed = unsafe { width.write(bytes.0.as_mut_ptr(), size, 2, word, temporal) };
            assert_eq!(processed, twice(width, size), "{} {size}", width.name);
            let wrong = (0..size).find(|index| bytes.0[*index] != (index % 8) as u8 + 1);
            assert_eq!(wrong, None, "{} {size}", width.name);
            assert_eq!(bytes.0[size..], before.0[size..], "{} {size}", width.name);
        }
    });
}

#[test]
fn copy_sets_exactly_the_given_bytes() {
    for_each(|width, size| {
        let (source, before) = (pattern(3), pattern(4));
        let mut target = before.clone();
        // SAFETY: the arrays exceed every size.
        let processed = unsafe { width.copy(target.0.as_mut_ptr(), source.0.as_ptr(), size, 2) };
        assert_eq!(processed, twice(width, size), "{} {size}", width.name);
        assert_eq!(target.0[..size], source.0[..size], "{} {size}", width.name);
        assert_eq!(target.0[size..], before.0[size..], "{} {size}", width.name);
    });
}

#[test]
fn triad_sets_exactly_the_given_doubles() {
    #[repr(align(64))]
    struct Doubles([f64; 1024]);
    let of = |step: f64| {
        let mut doubles = Box::new(Doubles([0.0; 1024]));
        doubles.0.iter_mut().enumerate().for_each(|(index, it)| *it = step * index as f64 + 1.0);
        doubles
    };
    for_each(|width, size| {
        let doubles = size / 8;
        let (mut a, mut b, mut c) = (of(0.0), of(2.0), of(5.0));
        let arrays = [a.0.as_mut_ptr(), b.0.as_mut_ptr(), c.0.as_mut_ptr()];
        // SAFETY: the arrays exceed every size.
        let processed = unsafe { width.triad(arrays, doubles, 2) };
        assert_eq!(processed, twice(width, size), "{} {size}", width.name);
        for index in 0..1024 {
            let expected = if index < doubles { 17.0 * index as f64 + 4.0 } else { 1.0 };
            assert_eq!(a.0[index], expected, "{} {size}: {index}", width.name);
        }
    });
}
