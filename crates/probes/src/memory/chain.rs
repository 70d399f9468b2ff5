//! A chain of pointers through a buffer, and the chase along it: each load gives the address of
//! the next, so that no two can overlap.
//!
//! A chain is one cycle through all of its elements. Each element is its link and, in the same
//! line, its rank in the cycle, by which a chase proves that it is where so many loads lead.

use std::arch::asm;
use std::marker::PhantomData;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::buffer::Buffer;

/// Loads in one iteration of the chase.
pub(crate) const LOADS: u64 = 16;
/// Walkers of a warm-up: about as many misses as a core keeps in flight.
const WALKERS: usize = 16;
/// Loads until what the walkers left has settled: some 40 ms at the latency of memory.
const SETTLING_LOADS: u64 = 1 << 18;
/// Elements that each walker takes before all of them move on.
const STRETCH: usize = 256;

/// The order in which the elements of a chain follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pattern {
    /// One element a line, all of them in uniformly random order.
    Random,
    /// One element a line: pages in random order, and each page's lines in random order before
    /// the next page, so that the price of a new page is spread over its lines.
    RandomPage,
    /// Ascending by so many bytes: what a prefetcher foresees.
    Stride(usize),
}

impl Pattern {
    /// Its name as a parameter: `random`, `random_page`, `stride64`.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Random => "random".to_owned(),
            Self::RandomPage => "random_page".to_owned(),
            Self::Stride(bytes) => format!("stride{bytes}"),
        }
    }

    /// The pattern of this name.
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

    /// The order of `count` elements, of which `in_page` lie in each page.
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

/// Fisher and Yates; an order that is linked end to start is Sattolo's single cycle.
fn shuffle(order: &mut [u32], random: &mut Xoshiro256PlusPlus) {
    for last in (1..order.len()).rev() {
        // The high half of the product: no bias worth a name for counts below 2³².
        let chosen = (u128::from(random.next_u64()) * (last as u128 + 1)) >> 64;
        order.swap(last, chosen as usize);
    }
}

/// What lies at the begin of an element's place.
#[repr(C)]
struct Element {
    link: *const Element,
    rank: usize,
}

/// What a chain is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Bytes of the set: the first of the buffer.
    pub(crate) set_bytes: usize,
    /// Bytes of a cache line.
    pub(crate) line_bytes: usize,
    /// Bytes of a page, for `random_page`.
    pub(crate) page_bytes: usize,
    /// The order.
    pub(crate) pattern: Pattern,
}

/// A chain in a buffer, and where the chase along it stands.
pub(crate) struct Chain<'b> {
    start: *mut u8,
    step_bytes: usize,
    order: Vec<u32>,
    at: *const Element,
    rank: usize,
    buffer: PhantomData<&'b mut Buffer>,
}

impl<'b> Chain<'b> {
    /// Links the first bytes of a buffer, which have been written before, into one cycle. The
    /// order is decided by the seed alone.
    pub(crate) fn of(buffer: &'b mut Buffer, shape: Shape, seed: u64) -> Self {
        let Shape { set_bytes, line_bytes, page_bytes, pattern } = shape;
        assert!(set_bytes <= buffer.bytes(), "the set is larger than what the buffer has");
        let step_bytes = match pattern {
            Pattern::Stride(bytes) => bytes,
            Pattern::Random | Pattern::RandomPage => line_bytes,
        };
        assert!(step_bytes >= size_of::<Element>() && step_bytes.is_multiple_of(8));
        let count = (set_bytes / step_bytes).max(1);
        assert!(count * step_bytes <= buffer.bytes(), "no room for one element");
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let order = pattern.order(count, (page_bytes / step_bytes).max(1), &mut random);
        let start = buffer.start();
        let (at, rank, buffer) = (start.cast_const().cast(), 0, PhantomData);
        let mut chain = Self { start, step_bytes, order, at, rank, buffer };
        chain.link();
        chain.at = chain.place(0);
        chain
    }

    /// Elements in the cycle.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// Where the element of this rank lies.
    fn place(&self, rank: usize) -> *mut Element {
        let offset = self.order[rank % self.order.len()] as usize * self.step_bytes;
        // SAFETY: each number of the order times the step lies within the buffer, which the
        // borrow keeps.
        unsafe { self.start.add(offset) }.cast()
    }

    fn link(&mut self) {
        for rank in 0..self.order.len() {
            let element = Element { link: self.place(rank + 1), rank };
            // SAFETY: within the buffer, aligned to the step, and borrowed for this chain alone.
            unsafe { self.place(rank).write(element) };
        }
    }

    /// Walks the whole cycle once, in its order but for some thousand elements at a time, which
    /// independent walkers take together: their misses overlap, so that a large set takes a tenth
    /// of the time. What the caches hold then is what a long chase leaves there: of a set that
    /// fits, everything; else the elements before the first, which come last. Lines that linking
    /// has changed are written back by it. The next chase begins at the first element.
    pub(crate) fn warm(&mut self) {
        let count = self.order.len();
        for block in (0..count).step_by(WALKERS * STRETCH) {
            let mut walkers: [*const Element; WALKERS] =
                std::array::from_fn(|walker| self.place(block + walker * STRETCH).cast_const());
            for _ in 0..STRETCH {
                for walker in &mut walkers {
                    // SAFETY: each link leads to an element of the chain. A volatile read is made.
                    *walker = unsafe { (&raw const (**walker).link).read_volatile() };
                }
            }
        }
        (self.at, self.rank) = (self.place(0), 0);
    }

    /// Chases along some of the cycle until the caches hold what they hold beside so slow a reader,
    /// and says whether the loads led to where they should. Walkers read ten times as fast: while
    /// they do, less is taken by whoever else uses a shared cache, and lines of page tables stay.
    pub(crate) fn settle(&mut self) -> bool {
        self.chase(SETTLING_LOADS / LOADS) > 0
    }

    /// Goes on by `iterations` times [`LOADS`] loads, each of which waits for the one before, and
    /// returns how many iterations there were, or 0 where they do not lead to where it now is.
    pub(crate) fn chase(&mut self, iterations: u64) -> u64 {
        // SAFETY: each link leads to an element of the chain, which the borrow keeps.
        let (at, done) = unsafe { chase(self.at, iterations) };
        let loads = (u128::from(done) * u128::from(LOADS)) % self.order.len() as u128;
        let rank = (self.rank + loads as usize) % self.order.len();
        // SAFETY: as above.
        let found = unsafe { (&raw const (*at).rank).read_volatile() };
        (self.at, self.rank) = (at, found);
        if found == rank { done } else { 0 }
    }
}

/// The chase, and how many iterations it made by its own count.
///
/// # Safety
/// Every link that can be reached must lead to an element that may be read.
unsafe fn chase(mut at: *const Element, iterations: u64) -> (*const Element, u64) {
    let mut done = 0_u64;
    if iterations > 0 {
        // SAFETY: reads along the links only, by the promise of the caller.
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
    use crate::buffer::Page;

    const ALL: [Pattern; 4] =
        [Pattern::Random, Pattern::RandomPage, Pattern::Stride(32), Pattern::Stride(1024)];

    fn shape(set_bytes: usize, pattern: Pattern) -> Shape {
        Shape { set_bytes, line_bytes: 64, page_bytes: 4096, pattern }
    }

    /// Offsets in the order in which a walk along the links meets them, until it is back.
    fn walked(chain: &Chain<'_>) -> Vec<usize> {
        let first = chain.place(0).cast_const();
        let (mut at, mut offsets) = (first, Vec::new());
        loop {
            offsets.push(at.addr() - chain.start.addr());
            // SAFETY: an element of the chain.
            at = unsafe { (*at).link };
            if at == first || offsets.len() > 2 * chain.len() {
                return offsets;
            }
        }
    }

    #[test]
    fn it_is_one_cycle_through_every_line() {
        let mut buffer = Buffer::of(1 << 20, Page::Base).unwrap();
        // Sizes that are no powers of two, nor whole pages, too.
        for set_bytes in [1 << 10, 3 << 10, 33 << 10, 725 << 10, 1 << 20] {
            for pattern in ALL {
                let chain = Chain::of(&mut buffer, shape(set_bytes, pattern), 7);
                let step = if let Pattern::Stride(bytes) = pattern { bytes } else { 64 };
                let offsets = walked(&chain);
                let expected: BTreeSet<usize> = (0..set_bytes).step_by(step).collect();
                assert_eq!(offsets.len(), expected.len(), "{pattern:?} {set_bytes}");
                assert_eq!(offsets.into_iter().collect::<BTreeSet<_>>(), expected);
            }
        }
    }

    #[test]
    fn a_random_order_cannot_be_foreseen_and_each_seed_has_its_own() {
        let mut buffer = Buffer::of(1 << 20, Page::Base).unwrap();
        let mut order_of =
            |pattern, seed| walked(&Chain::of(&mut buffer, shape(1 << 20, pattern), seed));
        let offsets = order_of(Pattern::Random, 1);
        let strides: Vec<isize> =
            offsets.windows(2).map(|two| two[1] as isize - two[0] as isize).collect();
        let different: BTreeSet<&isize> = strides.iter().collect();
        assert!(different.len() > strides.len() / 3, "{} strides", different.len());
        let same_page = |two: &[usize]| two[0] / 4096 == two[1] / 4096;
        let stays = offsets.windows(2).filter(|two| same_page(two)).count();
        assert!(stays < offsets.len() / 50, "{stays} of {} stay in the page", offsets.len());
        let near = strides.iter().filter(|stride| stride.abs() <= 128).count();
        assert!(near < offsets.len() / 500, "{near} steps to a neighbour");
        assert_ne!(offsets, order_of(Pattern::Random, 2));
        assert_eq!(offsets, order_of(Pattern::Random, 1));
    }

    #[test]
    fn a_page_is_finished_before_the_next_and_neither_is_in_order() {
        let mut buffer = Buffer::of(1 << 20, Page::Base).unwrap();
        let chain = Chain::of(&mut buffer, shape(1 << 20, Pattern::RandomPage), 1);
        let offsets = walked(&chain);
        let pages: Vec<usize> = offsets.chunks(64).map(|lines| lines[0] / 4096).collect();
        assert!(
            offsets.chunks(64).all(|lines| lines.iter().all(|at| at / 4096 == lines[0] / 4096))
        );
        assert!(!pages.is_sorted());
        let ascending =
            |lines: &[usize]| lines.windows(2).filter(|two| two[1] == two[0] + 64).count();
        assert!(offsets.chunks(64).map(ascending).sum::<usize>() < offsets.len() / 20);
        let stride = Chain::of(&mut buffer, shape(1 << 20, Pattern::Stride(256)), 1);
        assert!(walked(&stride).windows(2).all(|two| two[1] == two[0] + 256));
    }

    #[test]
    fn a_chase_ends_where_its_loads_lead() {
        let mut buffer = Buffer::of(1 << 20, Page::Base).unwrap();
        for pattern in ALL {
            // 60 elements of 64 bytes: no multiple of the loads of an iteration.
            let mut chain = Chain::of(&mut buffer, shape(60 << 6, pattern), 3);
            chain.warm();
            let mut loads = 0;
            for iterations in [0, 1, 2, 1000, 12_345] {
                assert_eq!(chain.chase(iterations), iterations);
                loads += iterations * LOADS;
                assert_eq!(chain.rank, loads as usize % chain.len());
                assert_eq!(chain.at, chain.place(chain.rank).cast_const());
            }
        }
    }

    #[test]
    fn a_chain_that_leaves_elements_out_is_wrong_work() {
        let mut buffer = Buffer::of(1 << 20, Page::Base).unwrap();
        let mut chain = Chain::of(&mut buffer, shape(1 << 20, Pattern::Random), 3);
        assert_eq!(chain.chase(100), 100);
        let short = chain.place(17).cast_const();
        // SAFETY: an element of the chain, and a link to another.
        unsafe { (*chain.place(chain.rank + 30)).link = short };
        assert_eq!(chain.chase(1), 1, "not there yet");
        assert_eq!(chain.chase(3), 0);
        let mut chain = Chain::of(&mut buffer, shape(1 << 20, Pattern::Random), 3);
        assert!(chain.settle());
        let short = chain.place(17).cast_const();
        // SAFETY: as above.
        unsafe { (*chain.place(chain.rank + 30)).link = short };
        assert!(!chain.settle());
    }

    #[test]
    fn a_warm_up_leaves_the_chain_as_it_is_and_begins_anew() {
        let mut buffer = Buffer::of(1 << 20, Page::Base).unwrap();
        let mut chain = Chain::of(&mut buffer, shape(1 << 20, Pattern::Random), 3);
        let before = walked(&chain);
        chain.chase(5);
        chain.warm();
        assert_eq!((chain.rank, chain.at), (0, chain.place(0).cast_const()));
        assert_eq!(walked(&chain), before);
    }

    #[test]
    fn a_pattern_is_known_by_its_name() {
        for pattern in ALL {
            assert_eq!(Pattern::named(&pattern.name()), Some(pattern));
        }
        for name in ["stride", "stride0", "stride12", "stride8", "randomly", ""] {
            assert_eq!(Pattern::named(name), None, "{name}");
        }
    }
}
