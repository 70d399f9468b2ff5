//! memory.munmap: unmapping memory with and without resident pages.

use fathom_measure::host;
use rustix::param::page_size;

use super::mmap_setup::{COUNT, Mappings, SIZES, bytes_of, map_error};
use super::page_faults::{ExpectedFaults, FaultCounts};
use crate::prelude::*;

metric!(Munmap, ABOUT);

static ABOUT: About = About {
    id: "memory.munmap",
    title: "munmap",
    timed: "munmap of private anonymous memory: 16 untouched mappings in a row, or one whose pages \
            were all written",
    not_timed: "mapping, and the page faults that make pages resident",
    model: "touched=no: one page: lower bound os.syscall{call=getppid}; other sizes: the value of \
            one page. touched=yes: lower bounds. 1 MiB ≥ the same untouched; 16 MiB ≥ 0.7 × 16 × \
            1 MiB; 64 MiB ≥ 0.9 × 4 × 16 MiB. No value: from some MiB on freeing a page costs \
            more, by an unpublished amount",
    source: "Linux mm/memory.c, unmap_page_range: skips page tables that do not exist; unmaps and \
             frees each resident page",
    pitfalls: &[
        "huge pages reduce the pages to 1 ÷ 512: disabled by madvise, and the page faults that \
         fill the mapping are counted each time",
        "the kernel merges adjacent mappings with the same protection, and unmapping a part splits \
         them: two protections alternate",
        "beyond some MiB freed pages exceed the per-CPU free lists and go to the shared one",
    ],
    parameters: &[
        Parameter::new(
            "bytes",
            "4 KiB, 1, 256, 1024 MiB (touched=no); 1, 16 MiB, from standard effort on 64 MiB \
             (touched=yes)",
            "size of the mapping",
        ),
        Parameter::new(
            "touched",
            "no, yes",
            "whether all pages were written before, without huge pages",
        ),
    ],
    needs: &["os.syscall"],
    requires: "touched=yes: available memory and cgroup limit of four times the size",
    noise_limit: 0.10,
    ..About::BASE
};

const TOUCHED: [u64; 3] = [1 << 20, 16 << 20, 64 << 20];

fn params(bytes: u64, touched: bool) -> Params {
    Params::one("bytes", bytes as i64).and("touched", if touched { "yes" } else { "no" })
}

fn is_touched(case: &ProbeCase) -> bool {
    case.params.text("touched") == Some("yes")
}

impl Probe for Munmap {
    fn cases(&self, _: &Host, sizes: &Sizes) -> Vec<ProbeCase> {
        let touched = match (sizes.smoke, sizes.effort) {
            (true, _) => &TOUCHED[..1],
            // Each value of 64 MiB costs 16384 page faults.
            (false, Effort::Quick) => &TOUCHED[..2],
            (false, _) => &TOUCHED[..],
        };
        let untouched = SIZES.iter().map(|bytes| ProbeCase::usual(params(*bytes, false)));
        // 10 times 600 ns per page fault and 200 ns to free the page.
        let cost_ns = |bytes: u64| 10.0 * 800.0 * (bytes / 4096) as f64;
        let touched = touched
            .iter()
            .map(|bytes| ProbeCase { params: params(*bytes, true), cost_ns: cost_ns(*bytes) });
        untouched.chain(touched).collect()
    }

    fn predict(&self, case: &ProbeCase, _: &Host, known: &Inputs<'_>) -> Model {
        let bytes = bytes_of(case) as u64;
        let [low, ..] = TOUCHED;
        match is_touched(case) {
            false if bytes == SIZES[0] => {
                at_least_getppid(1.0, "a system call that removes a mapping", known)
            }
            false => {
                let source = "Linux mm/memory.c: skips page tables that do not exist";
                let otherwise = "work that depends on the size of an empty mapping";
                same_as((ABOUT.id, params(SIZES[0], false)), 0.3, (source, otherwise), known)
            }
            true if bytes == low => {
                let source = "the same mapping, plus unmapping and freeing of pages";
                at_least(ABOUT.id, &params(low, false), source, known)
            }
            true => of_more_pages(bytes, known),
        }
    }

    fn visit(&self, cases: &[ProbeCase], sampler: &mut Sampler) -> Result<()> {
        let budget = MemoryBudget::from_host(&host::read());
        each(cases, sampler, |index, case, sampler| {
            let bytes = bytes_of(case);
            if !is_touched(case) {
                let unmap = |clock: &Clock| unmap_ns(clock, &mut mapped::<COUNT>(bytes)?);
                sampler.run(vec![single(index, COUNT as u64, unmap)]);
                return Ok(());
            }
            budget.check(bytes as u64)?;
            let unmap = |clock: &Clock| unmap_ns(clock, &mut written(bytes)?);
            sampler.run(vec![single(index, 1, unmap)]);
            // Any other count has ended the case with a fault.
            let pages = bytes / page_size();
            sampler.check(index, "faults", true, format!("{pages} pages resident each time"));
            Ok(())
        })
    }
}

/// A lower bound from the next smaller size: at least the same work per page. The fixed cost of the
/// call is a larger share of 1 MiB than of 16 MiB, which lowers the factor.
fn of_more_pages(bytes: u64, known: &Inputs<'_>) -> Model {
    let [low, high, _] = TOUCHED;
    let (smaller, share) = if bytes <= high { (low, 0.7) } else { (high, 0.9) };
    let order = Order {
        factor: share * (bytes / smaller) as f64,
        metric: ABOUT.id,
        source: "Linux mm/memory.c, zap_pte_range: the same work per resident page, more where \
                 freed pages exceed the per-CPU free lists",
    };
    order.claim(&params(smaller, true), known)
}

fn mapped<const N: usize>(bytes: usize) -> Result<Mappings<N>> {
    let mut mappings = Mappings::new(bytes);
    mappings.map().map_err(|error| map_error(bytes, error))?;
    Ok(mappings)
}

/// One mapping whose pages are all written, as the kernel's count of page faults proves.
fn written(bytes: usize) -> Result<Mappings<1>> {
    let mappings = mapped::<1>(bytes)?;
    let [start] = mappings.starts;
    // Base pages: a huge page would be one fault and one table entry to remove.
    // SAFETY: advice on our own mapping; a kernel without huge pages rejects it.
    unsafe { libc::madvise(start, bytes, libc::MADV_NOHUGEPAGE) };
    let before = FaultCounts::now();
    for offset in (0..bytes).step_by(page_size()) {
        // Volatile: nothing reads the bytes, and the compiler must not drop the stores.
        // SAFETY: inside the writable mapping.
        unsafe { start.cast::<u8>().add(offset).write_volatile(1) };
    }
    let counted = FaultCounts::now().since(before);
    ExpectedFaults::one_per_page(bytes / page_size()).divisor(counted)?;
    Ok(mappings)
}

/// Nanoseconds per mapping. A failed munmap is fast and must not count.
fn unmap_ns<const N: usize>(clock: &Clock, mappings: &mut Mappings<N>) -> Result<f64> {
    let start = clock.start();
    let unmapped = mappings.unmap();
    let stop = clock.stop();
    unmapped.map_err(|error| SamplerFault::system("munmap", error))?;
    Ok(clock.ns(start, stop) / N as f64)
}

#[cfg(test)]
mod tests {
    use std::ffi::c_void;

    use super::*;
    use crate::smoke;

    #[test]
    fn empty_and_full_mappings_are_unmapped() {
        let measured = smoke::run(&Munmap);
        assert_eq!(measured.len(), SIZES.len() + 1);
        for (case, sample) in measured {
            let Ok(sample) = sample else { continue };
            assert_eq!(sample.checks.len(), usize::from(is_touched(&case)));
        }
    }

    fn is_mapped(start: *mut c_void) -> bool {
        let mut present = 0_u8;
        // SAFETY: one byte for one page; mincore rejects an unmapped address.
        unsafe { libc::mincore(start, page_size(), &raw mut present) == 0 }
    }

    #[test]
    fn timed_mappings_are_gone() {
        let mut mappings = mapped::<COUNT>(1 << 20).unwrap();
        let starts = mappings.starts;
        assert!(starts.into_iter().all(is_mapped));
        unmap_ns(&smoke::clock(), &mut mappings).unwrap();
        assert!(!starts.into_iter().any(is_mapped));
    }

    #[test]
    fn failed_munmap_is_a_fault() {
        let mut mappings = mapped::<1>(1 << 20).unwrap();
        // The kernel rejects a length of 0.
        mappings.bytes = 0;
        let error = unmap_ns(&smoke::clock(), &mut mappings).unwrap_err();
        assert!(error.to_string().contains("munmap"), "{error}");
    }

    #[test]
    fn size_beyond_the_memory_budget_is_unavailable() {
        let cases = [params(4096, false), params(1 << 50, true)].map(ProbeCase::usual);
        let samples = smoke::visit(&Munmap, &cases);
        assert!(samples[0].is_ok());
        let Err(SamplerFault::Unavailable(reason, _)) = &samples[1] else { panic!("{samples:?}") };
        assert!(reason.contains("needs 1073741824 MiB"), "{reason}");
    }
}
