//! Pointer chasing: each load returns the address of the next, so that no two loads overlap.
//!
//! A chain is one cycle through all of its elements. Each element holds a pointer to the next and,
//! in the same cache line, its rank in the cycle, which proves how many loads a chase executed.

use std::arch::asm;
use std::marker::PhantomData;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::prelude::*;

/// Loads per iteration: unrolled, so that the loop branch adds nothing to the latency.
pub(crate) const LOADS: u64 = 16;
/// Parallel walks of a warm-up: about as many misses as a core keeps in flight.
const WALKERS: usize = 16;
/// Walks of a small set that leave nothing to settle.
const SETTLING_WALKS: usize = 4;
/// Consecutive elements of one walker.
const STRETCH: usize = 256;

/// The order of the elements of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pattern {
    /// One element per cache line, in uniformly random order.
    Random,
    /// One element per cache line: pages in random order, and all lines of a page in random order
    /// before the next page, which spreads the cost of a TLB miss over the lines of the page.
    RandomPage,
    /// Ascending by this many bytes: hardware prefetchers detect it.
    Stride(usize),
}

impl Pattern {
    /// Parameter value: `random`, `random_page`, `stride64`.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Random => "random".to_owned(),
            Self::RandomPage => "random_page".to_owned(),
            Self::Stride(bytes) => format!("stride{bytes}"),
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "random" => Some(Self::Random),
            "random_page" => Some(Self::RandomPage),
            _ => {
                let bytes: usize = name.strip_prefix("stride")?.parse().ok()?;
                (bytes.is_multiple_of(align_of::<Element>()) && bytes >= size_of::<Element>())
                    .then_some(Self::Stride(bytes))
            }
        }
    }

    /// The order of `count` elements with `in_page` elements per page.
    fn order(self, count: usize, in_page: usize, random: &mut Xoshiro256PlusPlus) -> Vec<u32> {
        let ascending = |range: std::ops::Range<usize>| range.map(|index| index as u32);
        let mut order: Vec<u32> = ascending(0..count).collect();
        match self {
            Self::Stride(_) => {}
            Self::Random => shuffle(&mut order, random),
            Self::RandomPage => {
                let mut pages: Vec<u32> = ascending(0..count.div_ceil(in_page)).collect();
                shuffle(&mut pages, random);
                order.clear();
                for page in pages {
                    let first = page as usize * in_page;
                    let begin = order.len();
                    order.extend(ascending(first..count.min(first + in_page)));
                    shuffle(&mut order[begin..], random);
                }
            }
        }
        order
    }
}

/// Fisher–Yates. Linking the last element to the first makes one cycle, as Sattolo's algorithm
/// does.
fn shuffle(order: &mut [u32], random: &mut Xoshiro256PlusPlus) {
    for last in (1..order.len()).rev() {
        // The high half of the product: negligible bias for counts below 2³².
        let chosen = (u128::from(random.next_u64()) * (last as u128 + 1)) >> 64;
        order.swap(last, chosen as usize);
    }
}

/// At the start of each line or stride.
#[repr(C)]
struct Element {
    next: *const Element,
    rank: usize,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ChainShape {
    /// Working set, from the start of the buffer.
    pub(crate) set_bytes: usize,
    pub(crate) line_bytes: usize,
    /// For [`Pattern::RandomPage`].
    pub(crate) page_bytes: usize,
    pub(crate) pattern: Pattern,
}

/// A chain in a buffer, and the position of the chase.
pub(crate) struct Chain<'b> {
    start: *mut u8,
    step_bytes: usize,
    order: Vec<u32>,
    position: *const Element,
    rank: usize,
    buffer: PhantomData<&'b mut Buffer>,
}

impl<'b> Chain<'b> {
    /// Links the resident start of a buffer into one cycle. The seed alone determines the order.
    pub(crate) fn in_buffer(buffer: &'b mut Buffer, shape: ChainShape, seed: u64) -> Self {
        let ChainShape { set_bytes, line_bytes, page_bytes, pattern } = shape;
        assert!(set_bytes <= buffer.bytes(), "the working set exceeds the buffer");
        let step_bytes = match pattern {
            Pattern::Stride(bytes) => bytes,
            Pattern::Random | Pattern::RandomPage => line_bytes,
        };
        assert!(step_bytes >= size_of::<Element>() && step_bytes.is_multiple_of(8));
        let count = (set_bytes / step_bytes).max(1);
        assert!(count * step_bytes <= buffer.bytes(), "the buffer is smaller than one element");
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let order = pattern.order(count, (page_bytes / step_bytes).max(1), &mut random);
        let start = buffer.start();
        let position = start.cast_const().cast();
        let mut chain = Self { start, step_bytes, order, position, rank: 0, buffer: PhantomData };
        chain.link();
        chain.position = chain.element(0);
        chain
    }

    /// The element of this rank.
    fn element(&self, rank: usize) -> *mut Element {
        self.start_of(self.order[rank % self.order.len()])
    }

    fn start_of(&self, index: u32) -> *mut Element {
        // SAFETY: each index of the order times the step is inside the buffer, which is borrowed.
        unsafe { self.start.add(index as usize * self.step_bytes) }.cast()
    }

    fn link(&mut self) {
        // No remainder for each element: the stores of a large set then overlap.
        let mut at = self.element(0);
        for rank in 0..self.order.len() {
            let next =
                self.order.get(rank + 1).map_or_else(|| self.element(0), |it| self.start_of(*it));
            // SAFETY: inside the buffer, aligned to the step, and mutably borrowed.
            unsafe { at.write(Element { next, rank }) };
            at = next;
        }
    }

    /// Walks the cycle once with independent walkers, whose misses overlap: ten times faster than a
    /// chase for a large set. Blocks of some thousand elements keep the order of the cycle, so that
    /// the caches hold what a long chase leaves there: the whole set where it fits, else the
    /// elements before the first. It also writes back the lines that linking dirtied. The next
    /// chase starts at the first element.
    pub(crate) fn warm(&mut self) {
        let count = self.order.len();
        for block in (0..count).step_by(WALKERS * STRETCH) {
            let mut walkers: [*const Element; WALKERS] =
                std::array::from_fn(|walker| self.element(block + walker * STRETCH).cast_const());
            for _ in 0..STRETCH {
                for walker in &mut walkers {
                    // Volatile: the compiler must not drop loads whose result is unused.
                    // SAFETY: each pointer leads to an element of the chain.
                    *walker = unsafe { (&raw const (**walker).next).read_volatile() };
                }
            }
        }
        (self.position, self.rank) = (self.element(0), 0);
    }

    /// Chases until a shared cache holds what it holds at the access rate of a chase, at most this
    /// many loads. The ten times faster warm-up loses fewer lines, and fewer page-table lines, to
    /// other users of the cache. Returns whether the chase ended at the expected element.
    pub(crate) fn settle(&mut self, loads_max: usize) -> bool {
        let loads = loads_max.min(SETTLING_WALKS * self.order.len());
        self.chase((loads as u64).div_ceil(LOADS)) > 0
    }

    /// Executes `iterations` × [`LOADS`] dependent loads. Returns the iterations done, or 0 where
    /// the chase did not end at the expected element.
    pub(crate) fn chase(&mut self, iterations: u64) -> u64 {
        // SAFETY: each pointer leads to an element of the chain, whose buffer is borrowed.
        let (position, done) = unsafe { chase(self.position, iterations) };
        let loads = (u128::from(done) * u128::from(LOADS)) % self.order.len() as u128;
        let expected = (self.rank + loads as usize) % self.order.len();
        // SAFETY: as above.
        let rank = unsafe { (&raw const (*position).rank).read_volatile() };
        (self.position, self.rank) = (position, rank);
        if rank == expected { done } else { 0 }
    }
}

/// Returns the last element and the iterations done by the loop's own counter. Assembly, because a
/// compiler could split or reorder the loads. The counter is independent of the chain and executes
/// in its shadow. The loop is aligned to 32 bytes, a fetch block.
///
/// # Safety
/// Every reachable pointer must lead to a readable element.
unsafe fn chase(mut at: *const Element, iterations: u64) -> (*const Element, u64) {
    let mut done = 0_u64;
    // The loop compares after counting, so 0 iterations would never end.
    if iterations > 0 {
        // SAFETY: reads along the pointers only, which the caller guarantees.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            asm!(
                ".p2align 5",
                "2:",
                ".rept {loads}",
                "mov {at}, [{at}]",
                ".endr",
                "add {done}, 1",
                "cmp {done}, {iterations}",
                "jne 2b",
                loads = const LOADS,
                at = inout(reg) at,
                done = inout(reg) done,
                iterations = in(reg) iterations,
                options(nostack, readonly),
            );
            #[cfg(target_arch = "aarch64")]
            asm!(
                ".p2align 5",
                "2:",
                ".rept {loads}",
                "ldr {at}, [{at}]",
                ".endr",
                "add {done}, {done}, 1",
                "cmp {done}, {iterations}",
                "b.ne 2b",
                loads = const LOADS,
                at = inout(reg) at,
                done = inout(reg) done,
                iterations = in(reg) iterations,
                options(nostack, readonly),
            );
        }
    }
    (at, done)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const ALL: [Pattern; 4] =
        [Pattern::Random, Pattern::RandomPage, Pattern::Stride(32), Pattern::Stride(1024)];

    fn shape(set_bytes: usize, pattern: Pattern) -> ChainShape {
        ChainShape { set_bytes, line_bytes: 64, page_bytes: 4096, pattern }
    }

    /// Offsets in the order of a walk along the pointers, back to the first element.
    fn walked(chain: &Chain<'_>) -> Vec<usize> {
        let first = chain.element(0).cast_const();
        let (mut at, mut offsets) = (first, Vec::new());
        loop {
            offsets.push(at.addr() - chain.start.addr());
            // SAFETY: an element of the chain.
            at = unsafe { (*at).next };
            if at == first || offsets.len() > 2 * chain.order.len() {
                return offsets;
            }
        }
    }

    #[test]
    fn chain_is_one_cycle_through_every_line() {
        let mut buffer = Buffer::with_bytes(1 << 20, BufferPage::Base).unwrap();
        // Including sizes that are not a power of two and not whole pages.
        for set_bytes in [1 << 10, 3 << 10, 33 << 10, 725 << 10, 1 << 20] {
            for pattern in ALL {
                let chain = Chain::in_buffer(&mut buffer, shape(set_bytes, pattern), 7);
                let step = if let Pattern::Stride(bytes) = pattern { bytes } else { 64 };
                let offsets = walked(&chain);
                let expected: BTreeSet<usize> = (0..set_bytes).step_by(step).collect();
                assert_eq!(offsets.len(), expected.len(), "{pattern:?} {set_bytes}");
                assert_eq!(offsets.into_iter().collect::<BTreeSet<_>>(), expected);
            }
        }
    }

    #[test]
    fn random_order_has_no_pattern_and_depends_on_seed() {
        let mut buffer = Buffer::with_bytes(1 << 20, BufferPage::Base).unwrap();
        let mut order_of =
            |pattern, seed| walked(&Chain::in_buffer(&mut buffer, shape(1 << 20, pattern), seed));
        let offsets = order_of(Pattern::Random, 1);
        let strides: Vec<isize> =
            offsets.windows(2).map(|two| two[1] as isize - two[0] as isize).collect();
        let different: BTreeSet<&isize> = strides.iter().collect();
        assert!(different.len() > strides.len() / 3, "{} strides", different.len());
        let same_page = |two: &[usize]| two[0] / 4096 == two[1] / 4096;
        let stays = offsets.windows(2).filter(|two| same_page(two)).count();
        assert!(stays < offsets.len() / 50, "{stays} of {} stay in the page", offsets.len());
        let near = strides.iter().filter(|stride| stride.abs() <= 128).count();
        assert!(near < offsets.len() / 500, "{near} steps to an adjacent line");
        assert_ne!(offsets, order_of(Pattern::Random, 2));
        assert_eq!(offsets, order_of(Pattern::Random, 1));
    }

    #[test]
    fn random_page_finishes_a_page_before_the_next() {
        let mut buffer = Buffer::with_bytes(1 << 20, BufferPage::Base).unwrap();
        let chain = Chain::in_buffer(&mut buffer, shape(1 << 20, Pattern::RandomPage), 1);
        let offsets = walked(&chain);
        let pages: Vec<usize> = offsets.chunks(64).map(|lines| lines[0] / 4096).collect();
        assert!(
            offsets.chunks(64).all(|lines| lines.iter().all(|at| at / 4096 == lines[0] / 4096))
        );
        assert!(!pages.is_sorted());
        let ascending =
            |lines: &[usize]| lines.windows(2).filter(|two| two[1] == two[0] + 64).count();
        assert!(offsets.chunks(64).map(ascending).sum::<usize>() < offsets.len() / 20);
        let stride = Chain::in_buffer(&mut buffer, shape(1 << 20, Pattern::Stride(256)), 1);
        assert!(walked(&stride).windows(2).all(|two| two[1] == two[0] + 256));
    }

    #[test]
    fn chase_ends_at_the_expected_element() {
        let mut buffer = Buffer::with_bytes(1 << 20, BufferPage::Base).unwrap();
        for pattern in ALL {
            // 60 elements of 64 bytes: not a multiple of the loads per iteration.
            let mut chain = Chain::in_buffer(&mut buffer, shape(60 << 6, pattern), 3);
            chain.warm();
            let mut loads = 0;
            for iterations in [0, 1, 2, 1000, 12_345] {
                assert_eq!(chain.chase(iterations), iterations);
                loads += iterations * LOADS;
                assert_eq!(chain.rank, loads as usize % chain.order.len());
                assert_eq!(chain.position, chain.element(chain.rank).cast_const());
            }
        }
    }

    #[test]
    fn chain_that_skips_elements_is_detected() {
        let mut buffer = Buffer::with_bytes(1 << 20, BufferPage::Base).unwrap();
        let mut chain = Chain::in_buffer(&mut buffer, shape(1 << 20, Pattern::Random), 3);
        assert_eq!(chain.chase(100), 100);
        let shortcut = chain.element(17).cast_const();
        // SAFETY: both are elements of the chain.
        unsafe { (*chain.element(chain.rank + 30)).next = shortcut };
        assert_eq!(chain.chase(1), 1, "before the shortcut");
        assert_eq!(chain.chase(3), 0);
        let mut chain = Chain::in_buffer(&mut buffer, shape(1 << 20, Pattern::Random), 3);
        assert!(chain.settle(1 << 18));
        let shortcut = chain.element(17).cast_const();
        // SAFETY: as above.
        unsafe { (*chain.element(chain.rank + 30)).next = shortcut };
        assert!(!chain.settle(1 << 18));
    }

    #[test]
    fn warm_up_keeps_the_chain_and_restarts_it() {
        let mut buffer = Buffer::with_bytes(1 << 20, BufferPage::Base).unwrap();
        let mut chain = Chain::in_buffer(&mut buffer, shape(1 << 20, Pattern::Random), 3);
        let before = walked(&chain);
        chain.chase(5);
        chain.warm();
        assert_eq!((chain.rank, chain.position), (0, chain.element(0).cast_const()));
        assert_eq!(walked(&chain), before);
    }
}
