//! memory.munmap: taking a mapping away, with pages in it and without.

use std::ffi::c_void;
use std::ptr;

use fathom_measure::sampler::{Fault, Operation};
use fathom_measure::{Clock, Sampler, Work, host};
use fathom_record::{Host, NoModel, Params, Prediction};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use rustix::param::page_size;

use super::page_faults::{ExpectedFaults, FaultCounts};
use super::mmap_setup::{Mapped, SIZES, bytes_of, no_room};
use crate::memory_budget::MemoryBudget;
use fathom_metric::order::Order;
use fathom_metric::sum::{Sum, Term};
use fathom_metric::{About, Case, Known, Parameter, Probe, Sizes};

/// memory.munmap.
pub struct Munmap;

static ABOUT: About = About {
    id: "memory.munmap",
    title: "unmapping memory",
    timed: "munmap of private anonymous memory: of 16 untouched mappings in a row, or of one whose \
            every page was written",
    not_timed: "mapping, and making the pages resident, which is done before",
    model: "touched=no: a bound for one page, ≥ os.syscall{call=getppid}; the other sizes cost \
            what it does. touched=yes: orders. 1 MiB ≥ the same untouched; 16 MiB ≥ 0.7 × 16 × \
            1 MiB; 64 MiB ≥ 0.9 × 4 × 16 MiB. No value: from some MiB on a page costs more to \
            free, by how much no source tells",
    source: "Linux mm/memory.c, unmap_page_range: page tables that were never made are skipped as \
             a whole; each page that is there is taken out and freed",
    pitfalls: &[
        "by huge pages there is a five-hundredth of the pages: they are switched off by advice, \
         and the faults that filled the mapping are counted each time",
        "neighbours with the same rights are one mapping, and taking a part of it away splits it: \
         two kinds of rights take turns",
        "beyond some MiB freed pages no longer fit the list that each CPU keeps, and go to one \
         that all share",
    ],
    parameters: &[
        Parameter {
            name: "bytes",
            values: "touched=no: 4 KiB, 1, 256, 1024 MiB · touched=yes: 1, 16, 64 MiB",
            meaning: "size of the mapping",
        },
        Parameter {
            name: "touched",
            values: "no, yes",
            meaning: "whether every page was written before, by small pages",
        },
    ],
    needs: &["os.syscall"],
    requires: "touched=yes: four times the size of available memory, and of the cgroup's limit",
    noise_limit: 0.10,
    ..About::BASE
};

/// Sizes of which every page is written.
const TOUCHED: [u64; 3] = [1 << 20, 16 << 20, 64 << 20];

fn params(bytes: u64, touched: bool) -> Params {
    Params::one("bytes", bytes as i64).and("touched", if touched { "yes" } else { "no" })
}

fn is_touched(case: &Case) -> bool {
    case.params.text("touched") == Some("yes")
}

impl Probe for Munmap {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn cases(&self, _: &Host, sizes: &Sizes) -> Vec<Case> {
        let touched = if sizes.smoke { &TOUCHED[..1] } else { &TOUCHED[..] };
        let untouched = SIZES.iter().map(|bytes| Case::usual(params(*bytes, false)));
        // 20 times 500 ns to make a page resident and 100 ns to free it.
        let cost_ns = |bytes: u64| 20.0 * 600.0 * (bytes / 4096) as f64;
        let touched = touched
            .iter()
            .map(|bytes| Case { params: params(*bytes, true), cost_ns: cost_ns(*bytes) });
        untouched.chain(touched).collect()
    }

    fn predict(&self, case: &Case, _: &Host, known: &Known<'_>) -> Result<Prediction, NoModel> {
        let bytes = bytes_of(case) as u64;
        let order = |metric, params: &Params, source| {
            Order { factor: 1.0, metric, source }.claim(params, known)
        };
        let term = |times, params| Term { times, metric: ABOUT.id, params };
        if !is_touched(case) && bytes == SIZES[0] {
            let source = "a system call that takes a mapping away";
            return order("os.syscall", &Params::one("call", "getppid"), source);
        }
        if !is_touched(case) {
            let sum = Sum {
                terms: &[term(1.0, params(SIZES[0], false))],
                tolerance: 0.3,
                source: "Linux mm/memory.c: page tables that were never made are skipped whole",
                otherwise: "the kernel does work that depends on the size of an empty mapping",
            };
            return sum.predict(known);
        }
        let [low, ..] = TOUCHED;
        match bytes {
            _ if bytes == low => {
                let source = "the same mapping, with pages to take out and to free besides";
                order(ABOUT.id, &params(low, false), source)
            }
            _ => of_more_pages(bytes, known),
        }
    }

    fn visit(&self, cases: &[Case], sampler: &mut Sampler) -> Result<(), Fault> {
        let room = MemoryBudget::of(&host::read());
        for (index, case) in cases.iter().enumerate() {
            let (bytes, touched) = (bytes_of(case), is_touched(case));
            if let Err(fault) = if touched { budget.check(bytes as u64) } else { Ok(()) } {
                sampler.fault(index, fault);
                continue;
            }
            let operation: Operation<'_> = Box::new(move |clock: &Clock, values: &mut [f64]| {
                values[0] =
                    if touched { touched_ns(clock, bytes)? } else { untouched_ns(clock, bytes)? };
                Ok(())
            });
            let batch = if touched { 1 } else { Mapped::COUNT as u64 };
            sampler.run(vec![Work::Single { cases: vec![index], batch, operation, timings: None }]);
            if touched {
                // The case has ended where the count was another.
                let pages = bytes / page_size();
                sampler.check(index, "faults", true, format!("{pages} pages were there each time"));
            }
        }
        Ok(())
    }
}

/// An order against the next smaller size: the same work for each page at least. What a call costs
/// by itself is a larger part of 1 MiB than of 16, so that less is claimed of those.
fn of_more_pages(bytes: u64, known: &Known<'_>) -> Result<Prediction, NoModel> {
    let [low, high, _] = TOUCHED;
    let (smaller, share) = if bytes <= high { (low, 0.7) } else { (high, 0.9) };
    let order = Order {
        factor: share * (bytes / smaller) as f64,
        metric: ABOUT.id,
        source: "Linux mm/memory.c, zap_pte_range: the same work for each page that is there, and \
                 more where freed pages no longer fit the CPU's own list",
    };
    order.claim(&params(smaller, true), known)
}

/// Maps some, and returns what unmapping one of them takes.
fn untouched_ns(clock: &Clock, bytes: usize) -> Result<f64, Fault> {
    let mut mapped = Mapped::none(bytes);
    mapped.fill().map_err(|error| no_room(bytes, error))?;
    Ok(clear_ns(clock, &mut mapped)? / Mapped::COUNT as f64)
}

/// What taking all of them away takes. A refusal is quick, and no time of a munmap.
fn clear_ns(clock: &Clock, mapped: &mut Mapped) -> Result<f64, Fault> {
    let start = clock.start();
    let cleared = mapped.clear();
    let stop = clock.stop();
    cleared.map_err(|error| Fault::system("munmap", error))?;
    Ok(clock.ns(start, stop))
}

/// Memory that is unmapped when it is dropped.
struct Filled {
    place: *mut c_void,
    bytes: usize,
}

impl Filled {
    /// Every page written, as the kernel's count of faults proves.
    fn of(bytes: usize) -> Result<Self, Fault> {
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at a place the kernel chooses.
        let place = unsafe { mmap_anonymous(ptr::null_mut(), bytes, rights, MapFlags::PRIVATE) };
        let filled = Self { place: place.map_err(|error| no_room(bytes, error))?, bytes };
        // SAFETY: advice on our own mapping; a kernel without huge pages refuses it.
        unsafe { libc::madvise(filled.place, bytes, libc::MADV_NOHUGEPAGE) };
        let before = FaultCounts::now();
        for offset in (0..bytes).step_by(page_size()) {
            // SAFETY: within the mapping, which is writable.
            unsafe { filled.place.cast::<u8>().add(offset).write_volatile(1) };
        }
        let counted = FaultCounts::now().since(before);
        ExpectedFaults::one_per_page(bytes / page_size()).divisor(counted)?;
        Ok(filled)
    }

    /// Takes it away, unless it is gone already.
    #[inline(always)]
    fn clear(&mut self) -> rustix::io::Result<()> {
        if self.place.is_null() {
            return Ok(());
        }
        // SAFETY: the mapping is ours and nothing points into it.
        unsafe { munmap(self.place, self.bytes)? };
        self.place = ptr::null_mut();
        Ok(())
    }

    /// What taking it away takes. A refusal is quick, and no time of a munmap.
    fn clear_ns(mut self, clock: &Clock) -> Result<f64, Fault> {
        let start = clock.start();
        let cleared = self.clear();
        let stop = clock.stop();
        cleared.map_err(|error| Fault::system("munmap", error))?;
        Ok(clock.ns(start, stop))
    }
}

impl Drop for Filled {
    fn drop(&mut self) {
        // Who times it has asked for the outcome before; here nobody is left to be told.
        let _unmapped = self.clear();
    }
}

fn touched_ns(clock: &Clock, bytes: usize) -> Result<f64, Fault> {
    Filled::of(bytes)?.clear_ns(clock)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smoke;

    #[test]
    fn empty_and_full_mappings_are_unmapped() {
        let taken = smoke::take(&Munmap);
        assert_eq!(taken.len(), SIZES.len() + 1);
        for (case, sample) in taken {
            let sample = sample.unwrap();
            assert!(sample.values.iter().all(|ns| *ns > 0.0), "{}", case.params);
            assert_eq!(sample.checks.len(), usize::from(is_touched(&case)));
        }
    }

    /// Whether anything is mapped at an address.
    fn is_mapped(place: *mut c_void) -> bool {
        let mut present = 0_u8;
        // SAFETY: one byte for one page; an address that is not mapped is refused.
        unsafe { libc::mincore(place, page_size(), &raw mut present) == 0 }
    }

    #[test]
    fn what_was_timed_is_gone() {
        let _alone = smoke::alone();
        // Another test's thread may map the place anew, but not each time.
        let gone = || {
            let filled = Filled::of(1 << 20).unwrap();
            let place = filled.place;
            assert!(is_mapped(place));
            drop(filled);
            !is_mapped(place)
        };
        assert!((0..5).any(|_| gone()));
        let mut mapped = Mapped::none(1 << 20);
        let mut all_gone = || {
            mapped.fill().unwrap();
            assert!(mapped.places().all(is_mapped));
            let places: Vec<_> = mapped.places().collect();
            assert_eq!(places.len(), Mapped::COUNT);
            mapped.clear().unwrap();
            !places.into_iter().any(is_mapped)
        };
        assert!((0..5).any(|_| all_gone()));
    }

    #[test]
    fn a_refused_munmap_is_a_fault_and_no_time() {
        let _alone = smoke::alone();
        let clock = smoke::clock();
        let is_refused = |outcome: Result<f64, Fault>| match outcome {
            Ok(ns) => panic!("refused, and timed as {ns} ns"),
            Err(fault) => fault.to_string().contains("munmap"),
        };
        let mut filled = Filled::of(1 << 20).unwrap();
        // No length is what the kernel refuses.
        filled.bytes = 0;
        assert!(is_refused(filled.clear_ns(&clock)));
        let mut mapped = Mapped::none(4096);
        mapped.fill().unwrap();
        assert!(is_refused(clear_ns(&clock, &mut mapped.refused())));
    }

    #[test]
    fn a_size_beyond_a_quarter_of_memory_is_unavailable_and_the_rest_goes_on() {
        let _alone = smoke::alone();
        let cases = [params(4096, false), params(1 << 50, true)].map(Case::usual);
        let samples = smoke::visit(&Munmap, &cases);
        assert!(samples[0].is_ok());
        let Err(Fault::Unavailable(reason, _)) = &samples[1] else { panic!("{samples:?}") };
        assert!(reason.contains("needs 1073741824 MiB"), "{reason}");
    }

    #[test]
    fn more_pages_cost_as_much_each_at_least_and_the_empty_ones_are_flat() {
        let ns = |bytes: u64| 1000.0 + 30.0 * (bytes / 4096) as f64;
        let [low, high, largest] = TOUCHED;
        let mut records: Vec<_> = [low, high]
            .iter()
            .map(|bytes| smoke::record(ABOUT.id, &params(*bytes, true), ns(*bytes), 1.0))
            .collect();
        records.push(smoke::record(ABOUT.id, &params(SIZES[0], false), 900.0, 1.0));
        let predict = |bytes, touched| {
            let case = Case::usual(params(bytes, touched));
            Munmap.predict(&case, &Host::default(), &Known::new(&records)).unwrap()
        };
        let claim = |bytes: u64, least: f64| {
            let claim = predict(bytes, true);
            let limit = claim.low.unwrap();
            assert!(claim.is_ordinal() && (limit - least).abs() < 1e-6 * least, "{limit}");
            assert!(limit < ns(bytes), "the same for each page beside a fixed part is no break");
        };
        claim(high, 0.7 * 16.0 * ns(low));
        claim(largest, 0.9 * 4.0 * ns(high));
        assert_eq!(predict(SIZES[3], false).value, Some(900.0));
    }
}
