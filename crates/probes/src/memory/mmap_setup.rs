//! memory.mmap.setup: mapping memory that nobody touches.

use std::ffi::c_void;
use std::ptr;

use fathom_measure::sampler::Fault;
use fathom_measure::{Clock, Sampler, Work};
use fathom_record::{Host, NoModel, Params, Prediction, Remedy};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::buffer::binary_size;
use fathom_metric::order::Order;
use fathom_metric::sum::{Sum, Term};
use fathom_metric::{About, Case, Known, Parameter, Probe, Sizes};

/// memory.mmap.setup.
pub struct MmapSetup;

static ABOUT: About = About {
    id: "memory.mmap.setup",
    title: "mapping memory",
    timed: "mmap of private anonymous memory, 16 in a row",
    not_timed: "unmapping, and any page: nothing is touched",
    model: "a bound for one page: ≥ os.syscall{call=getppid}. For the other sizes its \
            value: a mapping is one entry in a tree, whatever its size",
    source: "Linux mm/mmap.c and mm/vma.c: finding a gap and entering a vm_area_struct; no page \
             table is touched",
    pitfalls: &[
        "neighbours with the same rights are joined to one mapping, which is cheaper than a new \
         one: two kinds of rights take turns",
        "where each is unmapped before the next, one gap and one object of the kernel are used \
         again and again: 16 are kept until the stamp",
        "only memory that can be written is charged against what the kernel commits itself to: \
         of the two kinds of rights one is, and the number is the mean of both",
        "from the size of a huge page on, the kernel looks for an aligned gap: a second search",
    ],
    parameters: &[BYTES],
    needs: &["os.syscall"],
    requires: "16 times the size in address space (ulimit -v), and overcommitment for 1 GiB",
    noise_limit: 0.10,
    ..About::BASE
};

const BYTES: Parameter =
    Parameter { name: "bytes", values: "4 KiB, 1, 256, 1024 MiB", meaning: "size of a mapping" };
/// The sizes: one page, more than a page table holds, and a great deal.
pub(super) const SIZES: [u64; 4] = [4 << 10, 1 << 20, 256 << 20, 1 << 30];

fn params(bytes: u64) -> Params {
    Params::one("bytes", bytes as i64)
}

/// The size that a case asks for.
pub(super) fn bytes_of(case: &Case) -> usize {
    case.params.integer("bytes").and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0)
}

impl Probe for MmapSetup {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn cases(&self, _: &Host, _: &Sizes) -> Vec<Case> {
        SIZES.map(|bytes| Case::usual(params(bytes))).to_vec()
    }

    fn predict(&self, case: &Case, _: &Host, known: &Known<'_>) -> Result<Prediction, NoModel> {
        if bytes_of(case) as u64 == SIZES[0] {
            let source = "a system call that finds a gap and enters a mapping";
            let order = Order { factor: 1.0, metric: "os.syscall", source };
            return order.claim(&Params::one("call", "getppid"), known);
        }
        let one = Term { times: 1.0, metric: ABOUT.id, params: params(SIZES[0]) };
        let sum = Sum {
            terms: &[one],
            tolerance: 0.3,
            source: "Linux mm/vma.c: one entry in a tree, whatever the size",
            otherwise: "the kernel does work that depends on the size: an aligned gap is searched \
                        for, memory is committed, or pages are made at once",
        };
        sum.predict(known)
    }

    fn visit(&self, cases: &[Case], sampler: &mut Sampler) -> Result<(), Fault> {
        for (index, case) in cases.iter().enumerate() {
            let bytes = bytes_of(case);
            let operation = move |clock: &Clock, values: &mut [f64]| {
                values[0] = map_ns(clock, bytes)?;
                Ok(())
            };
            let operation = Box::new(operation);
            sampler.run(vec![Work::Single {
                cases: vec![index],
                batch: Mapped::COUNT as u64,
                operation,
                timings: None,
            }]);
        }
        Ok(())
    }
}

/// Maps as often as an operation asks, and returns what one of them took.
fn map_ns(clock: &Clock, bytes: usize) -> Result<f64, Fault> {
    let mut mapped = Mapped::none(bytes);
    let start = clock.start();
    let filled = mapped.fill();
    let stop = clock.stop();
    filled.map_err(|error| no_room(bytes, error))?;
    Ok(clock.ns(start, stop) / Mapped::COUNT as f64)
}

/// What it means that there is no room for a mapping.
pub(super) fn no_room(bytes: usize, error: rustix::io::Errno) -> Fault {
    match error {
        rustix::io::Errno::NOMEM => Fault::unavailable(
            format!("map {}: {error}", binary_size(bytes as u64)),
            Remedy::raise(&["`ulimit -v`", "vm.overcommit_memory"]),
        ),
        error => Fault::system("mmap", error),
    }
}

/// Mappings that go when they are dropped.
pub(super) struct Mapped {
    places: [*mut c_void; Self::COUNT],
    bytes: usize,
}

impl Mapped {
    /// Mappings of one operation.
    pub(super) const COUNT: usize = 16;

    /// None yet, of this size.
    pub(super) fn none(bytes: usize) -> Self {
        Self { places: [ptr::null_mut(); Self::COUNT], bytes }
    }

    /// Makes all of them. Only those that can be written are charged against what the kernel
    /// commits itself to (vm.overcommit_memory): half of them.
    #[inline(always)]
    pub(super) fn fill(&mut self) -> rustix::io::Result<()> {
        let rights = [ProtFlags::READ | ProtFlags::WRITE, ProtFlags::READ];
        for (count, place) in self.places.iter_mut().enumerate() {
            let rights = rights[count % 2];
            // SAFETY: a new mapping at a place the kernel chooses.
            *place =
                unsafe { mmap_anonymous(ptr::null_mut(), self.bytes, rights, MapFlags::PRIVATE)? };
        }
        Ok(())
    }

    /// Unmaps all of them, up to the first that the kernel refuses to take away.
    #[inline(always)]
    pub(super) fn clear(&mut self) -> rustix::io::Result<()> {
        for place in self.places.iter_mut().filter(|place| !place.is_null()) {
            // SAFETY: the mapping is ours and nothing points into it.
            unsafe { munmap(*place, self.bytes)? };
            *place = ptr::null_mut();
        }
        Ok(())
    }

    /// Mappings of which the kernel takes none away: their length is none.
    #[cfg(test)]
    pub(super) fn refused(mut self) -> Self {
        self.bytes = 0;
        self
    }

    /// Where they are.
    #[cfg(test)]
    pub(super) fn places(&self) -> impl Iterator<Item = *mut c_void> {
        self.places.into_iter().filter(|place| !place.is_null())
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // Who times it asks for the outcome before; here nobody is left to be told.
        let _unmapped = self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smoke;

    /// Mappings of this process that lie wholly or partly within a range.
    fn mappings_within(from: usize, to: usize) -> usize {
        let text = std::fs::read_to_string("/proc/self/maps").unwrap();
        let within = |line: &&str| {
            let range = line.split(' ').next().unwrap_or_default();
            let ends = range.split_once('-').map(|(low, high)| {
                [low, high].map(|text| usize::from_str_radix(text, 16).unwrap_or(0))
            });
            ends.is_some_and(|[low, high]| low < to && from < high)
        };
        text.lines().filter(within).count()
    }

    #[test]
    fn every_size_is_mapped() {
        let taken = smoke::take(&MmapSetup);
        assert_eq!(taken.len(), SIZES.len());
        for (case, sample) in taken {
            assert!(sample.unwrap().values.iter().all(|ns| *ns > 0.0), "{}", case.params);
        }
    }

    #[test]
    fn neighbours_are_not_joined() {
        let mut mapped = Mapped::none(1 << 20);
        mapped.fill().unwrap();
        let places = || mapped.places().map(|place| place.addr());
        let (low, high) = (places().min().unwrap(), places().max().unwrap() + mapped.bytes);
        assert!(mappings_within(low, high) >= Mapped::COUNT);
    }

    #[test]
    fn every_size_is_predicted_to_cost_what_one_page_does() {
        let host = Host::default();
        let one = smoke::record(ABOUT.id, &params(SIZES[0]), 700.0, 1.0);
        for bytes in &SIZES[1..] {
            let case = Case::usual(params(*bytes));
            let known = std::slice::from_ref(&one);
            let prediction = MmapSetup.predict(&case, &host, &Known::new(known)).unwrap();
            assert_eq!(prediction.value, Some(700.0));
            assert!(MmapSetup.predict(&case, &host, &Known::new(&[])).is_err());
        }
    }

    #[test]
    fn more_than_there_is_room_for_is_unavailable_and_says_what_helps() {
        let _alone = smoke::alone();
        let case = Case::usual(params(1 << 60));
        let samples = smoke::visit(&MmapSetup, &[case]);
        let Err(Fault::Unavailable(_, Some(remedy))) = &samples[0] else { panic!("{samples:?}") };
        assert_eq!(*remedy, Remedy::raise(&["`ulimit -v`", "vm.overcommit_memory"]));
    }
}
