//! One thread of a stream: its arrays, the chunks that it reads or writes, and the verification of
//! every byte.

use std::sync::{Arc, Mutex, PoisonError};

use super::thread_team::{CheckResult, TaskFactory, TeamTask};
use super::vectors::{ALIGNMENT, Op, SCALE, Vectors};
use crate::prelude::*;

/// Arrays and chunks are multiples of this: one loop iteration of the widest kernel.
pub(crate) const GRANULARITY: usize = 8 * ALIGNMENT;

/// Memory of one thread. Shared by all cases, so that the first touch happens once.
#[derive(Clone, Default)]
pub(crate) struct ThreadMemory(Arc<Mutex<Option<Buffer>>>);

#[derive(Clone, Copy)]
pub(crate) struct StreamConfig {
    pub(crate) op: Op,
    pub(crate) page: BufferPage,
    pub(crate) vectors: &'static Vectors,
    /// The thread's largest need in this visit.
    pub(crate) reserve_bytes: usize,
    pub(crate) array_bytes: usize,
    /// Bytes of one array per iteration.
    pub(crate) chunk_bytes: usize,
    /// Whether reads use software prefetch, which pays off beyond the caches.
    pub(crate) prefetch: bool,
}

impl StreamConfig {
    pub(crate) fn factory(self, memory: &ThreadMemory) -> TaskFactory {
        let memory = memory.clone();
        Box::new(move || Ok(Box::new(MemoryStream::new(self, memory)?) as Box<dyn TeamTask>))
    }
}

struct MemoryStream {
    config: StreamConfig,
    memory: ThreadMemory,
    buffer: Option<Buffer>,
    chunks: usize,
    /// Index of the next chunk.
    next: usize,
    /// Expected sum of each chunk, for reads.
    sums: Vec<u64>,
    /// The last word written to each chunk, for writes.
    words: Vec<u64>,
    done: u64,
}

/// Values after which a pattern repeats: a prime number, so that the chunks of an array differ, and
/// few enough to stay in the L1 cache while they are copied or compared.
const PERIOD: usize = 2039;

/// The initial value at an index: an integer, so that a triad is exact, different from adjacent
/// elements, and different per array, so that a kernel that loads the wrong array is detected.
fn pattern(array: usize, index: usize) -> f64 {
    let place = index % PERIOD + array;
    f64::from((place as u32).wrapping_mul(2_654_435_761) >> 12)
}

/// A period of an array's pattern.
fn period(array: usize) -> Vec<f64> {
    (0..PERIOD).map(|index| pattern(array, index)).collect()
}

/// Doubles with other bits than expected.
fn differing<'e>(doubles: &[f64], expected: impl IntoIterator<Item = &'e f64>) -> usize {
    doubles.iter().zip(expected).filter(|(one, other)| one.to_bits() != other.to_bits()).count()
}

impl MemoryStream {
    fn new(config: StreamConfig, memory: ThreadMemory) -> Result<Self> {
        let StreamConfig { op, array_bytes, chunk_bytes, page, reserve_bytes, .. } = config;
        let is_granular = chunk_bytes > 0 && chunk_bytes.is_multiple_of(GRANULARITY);
        assert!(
            is_granular && array_bytes.is_multiple_of(chunk_bytes),
            "{array_bytes} {chunk_bytes}"
        );
        let kept = memory.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut buffer = match kept {
            Some(buffer) => buffer,
            None => Buffer::reserve(reserve_bytes, page)?,
        };
        buffer.grow_to((op.arrays() * array_bytes).max(buffer.bytes()));
        let chunks = array_bytes / chunk_bytes;
        let (sums, words) = (Vec::new(), vec![0; chunks]);
        let (next, done, buffer) = (0, 0, Some(buffer));
        let mut stream = Self { config, memory, buffer, chunks, next, sums, words, done };
        stream.fill();
        Ok(stream)
    }

    /// The start of an array. Array 0 is the target, except for reads.
    fn array(&self, index: usize) -> *mut u8 {
        let start = self.buffer.as_ref().map_or(std::ptr::null_mut(), Buffer::start);
        start.wrapping_add(index * self.config.array_bytes)
    }

    fn doubles(&mut self, array: usize) -> &mut [f64] {
        let length = self.config.array_bytes / size_of::<f64>();
        // SAFETY: the array is inside our own initialised, page-aligned buffer; any bits are a
        // valid double.
        unsafe { std::slice::from_raw_parts_mut(self.array(array).cast(), length) }
    }

    /// Initialises the sources with their pattern and the target with −1.
    fn fill(&mut self) {
        let op = self.config.op;
        let sources = if op == Op::Read { 0..1 } else { 1..op.arrays() };
        if op != Op::Read {
            self.doubles(0).fill(-1.0);
            self.words.fill((-1.0_f64).to_bits());
        }
        for array in sources {
            let period = period(array);
            for doubles in self.doubles(array).chunks_mut(PERIOD) {
                doubles.copy_from_slice(&period[..doubles.len()]);
            }
        }
        if op == Op::Read {
            let words = self.config.chunk_bytes / size_of::<f64>();
            let sum = |chunk: &[f64]| {
                chunk.iter().fold(0_u64, |sum, double| sum.wrapping_add(double.to_bits()))
            };
            self.sums = self.doubles(0).chunks(words).map(sum).collect();
        }
    }

    /// Runs the kernel `passes` times over one chunk. Returns whether the sum (reads) or the number
    /// of processed bytes is right. The contents prove a store, but not how often it was repeated.
    fn pass(&mut self, chunk: usize, passes: u64) -> bool {
        let StreamConfig { op, vectors, chunk_bytes, prefetch, .. } = self.config;
        let at = |array| self.array(array).wrapping_add(chunk * chunk_bytes);
        // SAFETY: the chunk is inside each array, and the arrays are ours and do not overlap.
        let processed = unsafe {
            match op {
                Op::Read => {
                    let expected = self.sums[chunk].wrapping_mul(passes);
                    return vectors.read(at(0), chunk_bytes, passes, prefetch) == expected;
                }
                Op::Write | Op::WriteNt => {
                    // A new word in each pass reveals a missing store; odd, unlike the bits of the
                    // initial −1.
                    let word = self.done.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
                    let bytes = vectors.write(at(0), chunk_bytes, passes, word, op == Op::Write);
                    self.words[chunk] = word;
                    bytes
                }
                Op::Copy => vectors.copy(at(0), at(1), chunk_bytes, passes),
                Op::Triad => {
                    let arrays = [at(0).cast(), at(1).cast(), at(2).cast()];
                    vectors.triad(arrays, chunk_bytes / size_of::<f64>(), passes)
                }
            }
        };
        processed == passes * chunk_bytes as u64
    }

    /// Elements of array 0 with a wrong value.
    fn wrong_doubles(&mut self) -> usize {
        let StreamConfig { op, chunk_bytes, .. } = self.config;
        let chunk = chunk_bytes / size_of::<f64>();
        let written = usize::try_from(self.done).unwrap_or(usize::MAX).min(self.chunks) * chunk;
        let last_words = self.words.clone();
        let doubles = self.doubles(0);
        let (expected, written) = match op {
            Op::Write | Op::WriteNt => {
                let chunks = doubles.chunks(chunk).zip(last_words);
                let of = |(part, word)| differing(part, std::iter::repeat(&f64::from_bits(word)));
                return chunks.map(of).sum();
            }
            Op::Read => (period(0), doubles.len()),
            Op::Copy => (period(1), written),
            Op::Triad => {
                let sum = |(one, other)| one + SCALE * other;
                (period(1).into_iter().zip(period(2)).map(sum).collect(), written)
            }
        };
        let (written, rest) = doubles.split_at(written);
        let wrong: usize = written.chunks(PERIOD).map(|it| differing(it, &expected)).sum();
        wrong + differing(rest, std::iter::repeat(&-1.0))
    }
}

impl TeamTask for MemoryStream {
    fn run(&mut self, iterations: u64) -> u64 {
        // One call for all passes: small arrays in a cache would measure the call.
        if self.chunks == 1 && iterations > 0 {
            let is_right = self.pass(0, iterations);
            self.done += iterations;
            return if is_right { iterations } else { 0 };
        }
        let mut right = 0;
        for _ in 0..iterations {
            right += u64::from(self.pass(self.next, 1));
            self.next = (self.next + 1) % self.chunks;
            self.done += 1;
        }
        right
    }

    fn finish(mut self: Box<Self>) -> Result<CheckResult> {
        let wrong = self.wrong_doubles();
        let StreamConfig { op, array_bytes, .. } = self.config;
        let (resident, pages) = match &self.buffer {
            Some(buffer) => buffer.check()?,
            None => (false, "no buffer".to_owned()),
        };
        let arrays = binary_size((op.arrays() * array_bytes) as u64);
        let passed = resident && wrong == 0;
        let text = match wrong {
            0 => format!("{arrays} verified; memory of all cases: {pages}"),
            wrong => format!("{arrays}: {wrong} wrong words after {}", op.name()),
        };
        Ok((passed, text))
    }
}

impl Drop for MemoryStream {
    fn drop(&mut self) {
        *self.memory.0.lock().unwrap_or_else(PoisonError::into_inner) = self.buffer.take();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::vectors::tests::ONE_PASS;
    use crate::smoke;

    fn config(op: Op, array_bytes: usize, chunk_bytes: usize) -> StreamConfig {
        let (page, vectors) = (BufferPage::Base, Vectors::widest());
        let reserve_bytes = 1 << 20;
        StreamConfig { op, page, vectors, reserve_bytes, array_bytes, chunk_bytes, prefetch: true }
    }

    /// Pinned to one CPU, and so to one NUMA node.
    fn stream(op: Op, array_bytes: usize, test: impl FnOnce(MemoryStream)) {
        smoke::pinned(|_| {
            let memory = ThreadMemory::default();
            test(MemoryStream::new(config(op, array_bytes, GRANULARITY), memory).unwrap());
        });
    }

    #[test]
    fn each_operation_passes_its_verification() {
        for op in Op::ALL {
            for chunks in [1, 3, 7] {
                stream(op, chunks * GRANULARITY, |mut stream| {
                    assert_eq!((stream.run(5), stream.run(9)), (5, 9));
                    let (_, text) = Box::new(stream).finish().unwrap();
                    assert!(text.contains(" verified; "), "{op:?}: {text}");
                });
            }
        }
    }

    #[test]
    fn changed_byte_fails_a_read() {
        stream(Op::Read, 4 * GRANULARITY, |mut stream| {
            // SAFETY: inside the buffer.
            unsafe { *stream.array(0).add(2 * GRANULARITY + 77) ^= 1 };
            assert_eq!((stream.run(2), stream.run(2), stream.run(4)), (2, 1, 3));
            assert!(!Box::new(stream).finish().unwrap().0);
        });
    }

    #[test]
    fn wrong_target_byte_is_detected() {
        for op in [Op::Write, Op::WriteNt, Op::Copy, Op::Triad] {
            stream(op, 4 * GRANULARITY, |mut stream| {
                assert_eq!(stream.run(4), 4);
                // SAFETY: inside the buffer.
                unsafe { *stream.array(0).add(GRANULARITY + 9) ^= 4 };
                let (passed, text) = Box::new(stream).finish().unwrap();
                assert!(!passed && text.contains("1 wrong words"), "{op:?}: {text}");
            });
        }
    }

    #[test]
    fn store_beyond_what_was_written_is_detected() {
        for op in [Op::Copy, Op::Triad] {
            stream(op, 4 * GRANULARITY, |mut stream| {
                assert_eq!(stream.run(2), 2);
                // SAFETY: inside the buffer.
                unsafe { *stream.array(0).add(3 * GRANULARITY) ^= 1 };
                let (passed, text) = Box::new(stream).finish().unwrap();
                assert!(!passed && text.contains("1 wrong words"), "{op:?}: {text}");
            });
        }
    }

    #[test]
    fn kernel_that_skips_passes_is_detected() {
        for op in Op::ALL {
            stream(op, GRANULARITY, |mut stream| {
                stream.config.vectors = &ONE_PASS;
                assert_eq!((stream.run(1), stream.run(3)), (1, 0), "{op:?}");
            });
        }
    }

    #[test]
    fn triad_that_loads_a_wrong_array_is_detected() {
        stream(Op::Triad, 2 * GRANULARITY, |mut stream| {
            assert_eq!(stream.run(2), 2);
            let [target, source] = [0, 1].map(|array| stream.array(array).cast::<f64>());
            for index in 0..2 * GRANULARITY / size_of::<f64>() {
                // SAFETY: inside the arrays.
                unsafe { *target.add(index) = (1.0 + SCALE) * *source.add(index) };
            }
            assert!(!Box::new(stream).finish().unwrap().0);
        });
    }
}
