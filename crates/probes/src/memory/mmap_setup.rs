//! memory.mmap.setup: mmap without access to the memory.

use std::ffi::c_void;
use std::ptr;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::prelude::*;

metric!(MmapSetup, ABOUT);

static ABOUT: About = About {
    id: "memory.mmap.setup",
    title: "mmap",
    timed: "mmap of private anonymous memory, 16 in a row",
    not_timed: "munmap and page faults: no page is accessed",
    model: "one page: lower bound os.syscall{call=getppid}. Other sizes: the value of one page, \
            as a mapping is one tree entry of any size. No value for one page: the cost of a VMA \
            is known from this metric alone",
    source: "Linux mm/mmap.c and mm/vma.c: finds a gap and inserts a vm_area_struct; page tables \
             are not changed",
    pitfalls: &[
        "the kernel merges adjacent mappings with the same protection, which is cheaper than a new \
         one: two protections alternate",
        "unmapping each before the next reuses one gap and one kernel object: 16 mappings are kept \
         until the end of the timing",
        "only writable memory counts towards the commit limit: one of the two protections is \
         writable, and the number is their mean",
        "from the size of a huge page on, the kernel also searches for an aligned gap",
    ],
    parameters: &[BYTES],
    needs: &["os.syscall"],
    requires: "address space of 16 times the size (ulimit -v), and overcommit for 1 GiB",
    noise_limit: 0.10,
    ..About::BASE
};

const BYTES: Parameter = Parameter::new("bytes", "4 KiB, 1, 256, 1024 MiB", "size of a mapping");
/// One page, and sizes with no, some and many page tables.
pub(super) const SIZES: [u64; 4] = [4 << 10, 1 << 20, 256 << 20, 1 << 30];

fn params(bytes: u64) -> Params {
    Params::one("bytes", bytes as i64)
}

pub(super) fn bytes_of(case: &ProbeCase) -> usize {
    case.params.number("bytes").unwrap_or(0)
}

impl Probe for MmapSetup {
    fn cases(&self, _: &Host, _: &Sizes) -> Vec<ProbeCase> {
        SIZES.map(|bytes| ProbeCase { params: params(bytes), cost_ns: 4e6 }).to_vec()
    }

    fn predict(&self, case: &ProbeCase, _: &Host, known: &Inputs<'_>) -> Model {
        if bytes_of(case) as u64 == SIZES[0] {
            let source = "a system call that finds a gap and inserts a mapping";
            return at_least_getppid(1.0, source, known);
        }
        let source = "Linux mm/vma.c: one tree entry of any size";
        let otherwise = "work that depends on the size: search of an aligned gap, memory commit, \
                         or populating of pages";
        same_as((ABOUT.id, params(SIZES[0])), 0.3, (source, otherwise), known)
    }

    fn visit(&self, cases: &[ProbeCase], sampler: &mut Sampler) -> Result<()> {
        for (index, case) in cases.iter().enumerate() {
            let bytes = bytes_of(case);
            sampler.run(vec![single(index, COUNT as u64, |clock| map_ns(clock, bytes))]);
        }
        Ok(())
    }
}

/// Nanoseconds per mapping.
fn map_ns(clock: &Clock, bytes: usize) -> Result<f64> {
    let mut mappings = Mappings::<COUNT>::new(bytes);
    let start = clock.start();
    let mapped = mappings.map();
    let stop = clock.stop();
    mapped.map_err(|error| map_error(bytes, error))?;
    Ok(clock.ns(start, stop) / COUNT as f64)
}

pub(super) fn map_error(bytes: usize, error: rustix::io::Errno) -> SamplerFault {
    match error {
        rustix::io::Errno::NOMEM => SamplerFault::unavailable(
            format!("map {}: {error}", binary_size(bytes as u64)),
            Remedy::raise(&["`ulimit -v`", "vm.overcommit_memory"]),
        ),
        error => SamplerFault::system("mmap", error),
    }
}

/// Mappings per operation: amortises the timestamps.
pub(super) const COUNT: usize = 16;

/// Unmapped on drop.
pub(super) struct Mappings<const N: usize> {
    pub(super) starts: [*mut c_void; N],
    pub(super) bytes: usize,
}

impl<const N: usize> Mappings<N> {
    /// No mapping yet.
    pub(super) fn new(bytes: usize) -> Self {
        Self { starts: [ptr::null_mut(); N], bytes }
    }

    /// Creates all. Every second one is read-only: adjacent mappings are not merged, and only the
    /// writable ones count towards the commit limit (vm.overcommit_memory).
    #[inline(always)]
    pub(super) fn map(&mut self) -> rustix::io::Result<()> {
        let protections = [ProtFlags::READ | ProtFlags::WRITE, ProtFlags::READ];
        for (index, start) in self.starts.iter_mut().enumerate() {
            let protection = protections[index % 2];
            // SAFETY: a new mapping at an address that the kernel chooses.
            *start = unsafe {
                mmap_anonymous(ptr::null_mut(), self.bytes, protection, MapFlags::PRIVATE)?
            };
        }
        Ok(())
    }

    /// Unmaps all, up to the first error.
    #[inline(always)]
    pub(super) fn unmap(&mut self) -> rustix::io::Result<()> {
        for start in self.starts.iter_mut().filter(|start| !start.is_null()) {
            // SAFETY: our own mapping, into which nothing points.
            unsafe { munmap(*start, self.bytes)? };
            *start = ptr::null_mut();
        }
        Ok(())
    }
}

impl<const N: usize> Drop for Mappings<N> {
    fn drop(&mut self) {
        let _ = self.unmap();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smoke;

    /// Mappings of this process that overlap a range.
    fn mappings_within(from: usize, to: usize) -> usize {
        let text = std::fs::read_to_string("/proc/self/maps").unwrap();
        let overlaps = |line: &&str| {
            let range = line.split(' ').next().unwrap_or_default();
            let ends = range.split_once('-').map(|(low, high)| {
                [low, high].map(|text| usize::from_str_radix(text, 16).unwrap_or(0))
            });
            ends.is_some_and(|[low, high]| low < to && from < high)
        };
        text.lines().filter(overlaps).count()
    }

    #[test]
    fn every_size_is_mapped() {
        let measured = smoke::run(&MmapSetup);
        assert_eq!(measured.len(), SIZES.len());
        for (case, sample) in measured {
            assert_eq!(sample.unwrap().batch, COUNT as u64, "{}", case.params);
        }
    }

    #[test]
    fn adjacent_mappings_are_not_merged() {
        let mut mappings = Mappings::<COUNT>::new(1 << 20);
        mappings.map().unwrap();
        let starts = mappings.starts.map(|start| start.addr());
        let (low, high) = (*starts.iter().min().unwrap(), starts.iter().max().unwrap() + (1 << 20));
        assert!(mappings_within(low, high) >= COUNT);
    }

    #[test]
    fn size_beyond_the_address_space_is_unavailable() {
        let samples = smoke::visit(&MmapSetup, &[ProbeCase::usual(params(1 << 60))]);
        let Err(SamplerFault::Unavailable(_, Some(remedy))) = &samples[0] else {
            panic!("{samples:?}")
        };
        assert_eq!(*remedy, Remedy::raise(&["`ulimit -v`", "vm.overcommit_memory"]));
    }
}
