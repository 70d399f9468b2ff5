//! One thread's share of a stream: its arrays, the chunks it passes over, and whether every byte
//! was what it should be.

use std::sync::{Arc, Mutex, PoisonError};

use fathom_measure::sampler::Fault;

use super::thread_team::{CheckResult, TaskFactory, TeamTask};
use super::vectors::{ALIGNMENT, Op, SCALE, Vectors};
use crate::buffer::{Buffer, Page, binary_size};

/// Sizes of arrays and chunks are multiples of this: a turn of the widest kernel.
pub(crate) const GRAIN: usize = 8 * ALIGNMENT;

/// Memory of one thread, kept from case to case, so that it is written first only once.
#[derive(Clone, Default)]
pub(crate) struct Memory(Arc<Mutex<Option<Buffer>>>);

/// What one thread is to do.
#[derive(Clone, Copy)]
pub(crate) struct Task {
    pub(crate) op: Op,
    pub(crate) page: Page,
    pub(crate) vectors: &'static Vectors,
    /// What the thread will need at most in this visit, in bytes.
    pub(crate) reserve_bytes: usize,
    /// Bytes of one array.
    pub(crate) array_bytes: usize,
    /// Bytes of one array that one iteration passes over.
    pub(crate) chunk_bytes: usize,
    /// Whether the arrays lie beyond the caches, so that it pays to fetch ahead.
    pub(crate) far: bool,
}

impl Task {
    /// Makes the part in the thread that calls it, in this memory.
    pub(crate) fn maker(self, memory: &Memory) -> TaskFactory {
        let memory = memory.clone();
        Box::new(move || Ok(Box::new(Stream::over(self, memory)?) as Box<dyn TeamTask>))
    }
}

/// A stream under way.
struct Stream {
    task: Task,
    memory: Memory,
    buffer: Option<Buffer>,
    chunks: usize,
    /// The chunk that comes next.
    next: usize,
    /// Sum of each chunk's words, of a read.
    sums: Vec<u64>,
    /// Word that was written last to each chunk, of a write.
    words: Vec<u64>,
    /// Chunks done since the start.
    done: u64,
}

/// The double at a place: an integer, so that sums of few are exact, and not that of its
/// neighbours. Each array has its own, so that none can be loaded for another.
fn pattern(array: usize, index: usize) -> f64 {
    f64::from(((index + array) as u32).wrapping_mul(2_654_435_761) >> 12)
}

impl Stream {
    fn over(task: Task, memory: Memory) -> Result<Self, Fault> {
        let Task { op, array_bytes, chunk_bytes, page, reserve_bytes, .. } = task;
        let sized = chunk_bytes > 0 && chunk_bytes.is_multiple_of(GRAIN);
        assert!(sized && array_bytes.is_multiple_of(chunk_bytes), "{array_bytes} {chunk_bytes}");
        let kept = memory.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut buffer = match kept {
            Some(buffer) => buffer,
            None => Buffer::reserve(reserve_bytes, page)?,
        };
        buffer.grow_to((op.arrays() * array_bytes).max(buffer.bytes()));
        let chunks = array_bytes / chunk_bytes;
        let (sums, words) = (Vec::new(), vec![0; chunks]);
        let (next, done, buffer) = (0, 0, Some(buffer));
        let mut stream = Self { task, memory, buffer, chunks, next, sums, words, done };
        stream.fill();
        Ok(stream)
    }

    /// The start of an array. The first is the one that is written, if any is.
    fn array(&self, index: usize) -> *mut u8 {
        let start = self.buffer.as_ref().map_or(std::ptr::null_mut(), Buffer::start);
        start.wrapping_add(index * self.task.array_bytes)
    }

    fn doubles(&mut self, array: usize) -> &mut [f64] {
        let length = self.task.array_bytes / size_of::<f64>();
        // SAFETY: the array lies within the buffer, which is ours, written, and aligned to a page;
        // any bytes are doubles.
        unsafe { std::slice::from_raw_parts_mut(self.array(array).cast(), length) }
    }

    /// Gives the sources their pattern, and what is written something else.
    fn fill(&mut self) {
        let op = self.task.op;
        let sources = if op == Op::Read { 0..1 } else { 1..op.arrays() };
        if op != Op::Read {
            self.doubles(0).fill(-1.0);
            self.words.fill((-1.0_f64).to_bits());
        }
        for array in sources {
            let doubles = self.doubles(array);
            doubles.iter_mut().enumerate().for_each(|(index, it)| *it = pattern(array, index));
        }
        if op == Op::Read {
            let words = self.task.chunk_bytes / size_of::<f64>();
            let sum = |chunk: &[f64]| {
                chunk.iter().fold(0_u64, |sum, double| sum.wrapping_add(double.to_bits()))
            };
            self.sums = self.doubles(0).chunks(words).map(sum).collect();
        }
    }

    /// Passes over one chunk so many times; whether it read what it should, or walked over as many
    /// bytes as it should: what a later pass stores, an earlier one did.
    fn pass(&mut self, chunk: usize, passes: u64) -> bool {
        let Task { op, vectors, chunk_bytes, far, .. } = self.task;
        let at = |array| self.array(array).wrapping_add(chunk * chunk_bytes);
        // SAFETY: the chunk lies within each array, the arrays do not overlap, and they are ours.
        let walked = unsafe {
            match op {
                Op::Read => {
                    let expected = self.sums[chunk].wrapping_mul(passes);
                    return vectors.read(at(0), chunk_bytes, passes, far) == expected;
                }
                Op::Write | Op::WriteNt => {
                    let word = self.done.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
                    let walked = vectors.write(at(0), chunk_bytes, passes, word, op == Op::Write);
                    self.words[chunk] = word;
                    walked
                }
                Op::Copy => vectors.copy(at(0), at(1), chunk_bytes, passes),
                Op::Triad => {
                    let arrays = [at(0).cast(), at(1).cast(), at(2).cast()];
                    vectors.triad(arrays, chunk_bytes / size_of::<f64>(), passes)
                }
            }
        };
        walked == passes * chunk_bytes as u64
    }

    /// Bytes of the array that was written that are not what they should be.
    fn wrong_doubles(&mut self) -> usize {
        let Task { op, chunk_bytes, .. } = self.task;
        let words = chunk_bytes / size_of::<f64>();
        let written = self.words.clone();
        let touched = usize::try_from(self.done).unwrap_or(usize::MAX).min(self.chunks) * words;
        let is_wrong = |(index, double): (usize, &f64)| {
            let expected = match op {
                Op::Read => pattern(0, index).to_bits(),
                Op::Write | Op::WriteNt => written[index / words],
                Op::Copy | Op::Triad if index >= touched => (-1.0_f64).to_bits(),
                Op::Copy => pattern(1, index).to_bits(),
                Op::Triad => (pattern(1, index) + SCALE * pattern(2, index)).to_bits(),
            };
            double.to_bits() != expected
        };
        self.doubles(0).iter().enumerate().filter(|it| is_wrong(*it)).count()
    }
}

impl TeamTask for Stream {
    fn work(&mut self, iterations: u64) -> u64 {
        if self.chunks == 1 && iterations > 0 {
            let right = self.pass(0, iterations);
            self.done += iterations;
            return if right { iterations } else { 0 };
        }
        let mut right = 0;
        for _ in 0..iterations {
            right += u64::from(self.pass(self.next, 1));
            self.next = (self.next + 1) % self.chunks;
            self.done += 1;
        }
        right
    }

    fn finish(mut self: Box<Self>) -> Result<CheckResult, Fault> {
        let wrong = self.wrong_doubles();
        let Task { op, array_bytes, .. } = self.task;
        let (resident, pages) = match &self.buffer {
            Some(buffer) => buffer.check()?,
            None => (false, "no buffer".to_owned()),
        };
        let arrays = binary_size((op.arrays() * array_bytes) as u64);
        let passed = resident && wrong == 0;
        let text = match wrong {
            0 => format!("{arrays} as they should be; the memory kept for all cases: {pages}"),
            wrong => format!("{arrays}: {wrong} words are not what was {}", op.name()),
        };
        Ok((passed, text))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        *self.memory.0.lock().unwrap_or_else(PoisonError::into_inner) = self.buffer.take();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::vectors::tests::ONE_PASS;
    use crate::smoke;

    fn task(op: Op, array_bytes: usize, chunk_bytes: usize) -> Task {
        let (page, vectors) = (Page::Base, Vectors::widest());
        let reserve_bytes = 1 << 20;
        Task { op, page, vectors, reserve_bytes, array_bytes, chunk_bytes, far: true }
    }

    /// On one CPU, and so on one node.
    fn stream(op: Op, array_bytes: usize, test: impl FnOnce(Stream)) {
        smoke::pinned(|_| {
            let memory = Memory::default();
            test(Stream::over(task(op, array_bytes, GRAIN), memory).unwrap());
        });
    }

    #[test]
    fn each_operation_verifies_its_own_bytes_chunk_by_chunk() {
        for op in Op::ALL {
            for chunks in [1, 3, 7] {
                stream(op, chunks * GRAIN, |mut stream| {
                    assert_eq!((stream.work(5), stream.work(9)), (5, 9));
                    let (passed, text) = Box::new(stream).finish().unwrap();
                    assert!(passed, "{op:?}: {text}");
                });
            }
        }
    }

    #[test]
    fn a_byte_that_changed_under_a_read_makes_its_count_wrong() {
        stream(Op::Read, 4 * GRAIN, |mut stream| {
            // SAFETY: within the buffer.
            unsafe { *stream.array(0).add(2 * GRAIN + 77) ^= 1 };
            assert_eq!((stream.work(2), stream.work(2), stream.work(4)), (2, 1, 3));
            assert!(!Box::new(stream).finish().unwrap().0);
        });
    }

    #[test]
    fn a_chunk_that_was_not_written_is_found() {
        for op in [Op::Write, Op::WriteNt, Op::Copy, Op::Triad] {
            stream(op, 4 * GRAIN, |mut stream| {
                assert_eq!(stream.work(4), 4);
                // SAFETY: within the buffer.
                unsafe { *stream.array(0).add(GRAIN + 9) ^= 4 };
                let (passed, text) = Box::new(stream).finish().unwrap();
                assert!(!passed && text.contains("1 words"), "{op:?}: {text}");
            });
        }
    }

    #[test]
    fn a_kernel_that_leaves_out_passes_is_found() {
        for op in Op::ALL {
            stream(op, GRAIN, |mut stream| {
                stream.task.vectors = &ONE_PASS;
                assert_eq!((stream.work(1), stream.work(3)), (1, 0), "{op:?}");
            });
        }
    }

    #[test]
    fn a_triad_that_loads_one_array_for_another_is_found() {
        stream(Op::Triad, 2 * GRAIN, |mut stream| {
            assert_eq!(stream.work(2), 2);
            let [target, source] = [0, 1].map(|array| stream.array(array).cast::<f64>());
            for index in 0..2 * GRAIN / size_of::<f64>() {
                // SAFETY: within the arrays.
                unsafe { *target.add(index) = (1.0 + SCALE) * *source.add(index) };
            }
            assert!(!Box::new(stream).finish().unwrap().0);
        });
    }

    #[test]
    fn memory_is_kept_from_part_to_part() {
        smoke::pinned(|_| {
            let memory = Memory::default();
            let first = Stream::over(task(Op::Read, GRAIN, GRAIN), memory.clone()).unwrap();
            let at = first.array(0);
            drop(first);
            let second = Stream::over(task(Op::Copy, GRAIN, GRAIN), memory).unwrap();
            assert_eq!(second.array(0), at);
        });
    }
}
