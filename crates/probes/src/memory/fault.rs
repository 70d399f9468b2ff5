//! memory.fault: cost of a page fault, by its cause.

use std::path::PathBuf;

use fathom_measure::host;
use rustix::param::page_size;

use super::bandwidth;
use crate::prelude::*;

mod anonymous;
mod cached;
mod evicted;
mod pass;

use anonymous::{Fresh, Reused};
use cached::Cached;
use evicted::Evicted;
use pass::FaultSource;

metric!(PageFault, ABOUT);

static ABOUT: About = About {
    id: "memory.fault",
    title: "page fault",
    timed: "accessing consecutive pages that are not mapped ÷ their number, the median of 8 parts \
            of a pass (huge, major: the whole pass); each page faults once, as the kernel's count \
            proves (file_minor: ÷ the faults counted). Includes the exception, the kernel's work \
            and the access",
    not_timed: "mapping and unmapping; freeing or evicting the pages before each pass",
    model: "lower bounds. zero_read ≥ os.syscall{call=getppid}; anonymous ≥ zero_read; \
            anonymous_first ≥ anonymous; huge ≥ its size ÷ memory.bandwidth{op=read} of the last \
            cache; file_page ≥ zero_read; file_minor ≥ file_page; major ≥ 3 × file_page. A \
            self-consistency check: cow = anonymous + file_page − zero_read + a page ÷ the same \
            bandwidth, ± 30 %. Most of the other costs is accounting and LRU lists, which have no \
            published constant",
    source: "Linux mm/memory.c: do_anonymous_page, do_read_fault, do_wp_page, filemap_fault; \
             METHOD 25 on bounds",
    pitfalls: &[
        "huge pages serve 512 pages with one fault: disabled by madvise, and the number of faults \
         is checked in every pass",
        "a read fault of a cached file maps up to 16 pages around it (fault-around) or a large \
         folio: file_minor divides by the faults and gives the pages; file_page has one mapping \
         per page, so that nothing is adjacent",
        "reading unwritten memory maps the zero page and clears nothing: zero_read, not anonymous",
        "in a guest, memory that the host has not backed yet costs a VM exit, which the guest \
         cannot see: anonymous is memory that this process had before, anonymous_first is new to \
         the process",
        "without a free huge page a fault maps a small one and counts the same: huge reads smaps \
         after each pass",
        "copy-on-write needs the page mapped for reading first: otherwise the first fault copies \
         without a TLB flush",
        "major: without MADV_RANDOM readahead serves most pages. The file is written back and \
         dropped; mincore and cachestat verify it before each pass. In a guest it is guest-cold: \
         the host may cache it",
    ],
    parameters: &[Parameter::new(
        "kind",
        "zero_read, anonymous, anonymous_first, huge, file_page, file_minor, cow, major",
        "read before the first write · written, memory used before · written, memory new \
                  to the process · written, huge pages · a cached file, one page per mapping · a \
                  cached file in order, with fault-around · copy-on-write · from a disk",
    )],
    needs: &["memory.bandwidth", "os.syscall"],
    requires: "huge: transparent huge pages. major: a folder on a disk ($TMPDIR or /var/tmp)",
    published: "230 µs (major, SSD; 2016, i5-5257U)",
    noise_limit: 0.10,
    // A kind changes the caches and the kernel's free lists for the next.
    cases_share_visits: false,
    ..About::BASE
};

/// Per pass: 4 MiB with 4 KiB pages.
const PAGES: usize = 1024;
const HUGE_PAGES: usize = 4;
const DISK_PAGES: usize = 32;
/// Limit of the memory that `anonymous_first` holds.
const HELD_BYTES_MAX: usize = 64 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FaultKind {
    ZeroRead,
    Anonymous,
    AnonymousFirst,
    Huge,
    FilePage,
    FileMinor,
    Cow,
    Major,
}

impl FaultKind {
    /// In the order of the declaration, each after those that its bound needs.
    const ALL: [(Self, &'static str); 8] = [
        (Self::ZeroRead, "zero_read"),
        (Self::Anonymous, "anonymous"),
        (Self::AnonymousFirst, "anonymous_first"),
        (Self::Huge, "huge"),
        (Self::FilePage, "file_page"),
        (Self::FileMinor, "file_minor"),
        (Self::Cow, "cow"),
        (Self::Major, "major"),
    ];

    fn from_case(case: &ProbeCase) -> Option<Self> {
        let name = case.params.text("kind")?;
        Self::ALL.into_iter().find(|(_, of_kind)| *of_kind == name).map(|(kind, _)| kind)
    }

    fn params(self) -> Params {
        Params::one("kind", Self::ALL[self as usize].1)
    }

    /// About 10 passes, with a margin.
    fn cost_ns(self) -> f64 {
        match self {
            Self::Huge => 10e6,
            Self::Major => 30e6,
            _ => 20e6,
        }
    }

    /// Peak memory, at least.
    fn bytes(self) -> usize {
        match self {
            Self::Huge => HUGE_PAGES * BufferPage::Huge.bytes(),
            // The file and the copies.
            Self::Cow => 2 * PAGES * page_size(),
            _ => PAGES * page_size(),
        }
    }

    /// The lower bound: a multiple of another kind, and the reason.
    fn bound(self) -> Option<(f64, Self, &'static str)> {
        let zero_read = |source| (1.0, Self::ZeroRead, source);
        Some(match self {
            Self::ZeroRead | Self::Huge | Self::Cow => return None,
            Self::Anonymous => zero_read("the same fault, plus allocating and clearing a page"),
            Self::AnonymousFirst => {
                (1.0, Self::Anonymous, "the same on uncached pages that a host may have to back")
            }
            Self::FilePage => {
                zero_read("the same fault, plus a page-cache lookup and its accounting")
            }
            Self::FileMinor => (1.0, Self::FilePage, "the same fault, plus fault-around"),
            Self::Major => {
                let source = "plus a device request, an interrupt and two context switches";
                (3.0, Self::FilePage, source)
            }
        })
    }

    fn memory(self, budget: &MemoryBudget, host: &Host) -> Result<Box<dyn FaultSource>> {
        budget.check(self.bytes() as u64)?;
        let bytes = PAGES * page_size();
        Ok(match self {
            Self::ZeroRead => Box::new(Reused::new(bytes, anonymous::Access::Read)?),
            Self::Anonymous => Box::new(Reused::new(bytes, anonymous::Access::Write)?),
            Self::AnonymousFirst => {
                let budget = usize::try_from(budget.bytes).unwrap_or(usize::MAX);
                Box::new(Fresh::new(bytes, HELD_BYTES_MAX.min(budget) / bytes))
            }
            Self::Huge => Box::new(Reused::new(self.bytes(), anonymous::Access::WriteHuge)?),
            Self::FilePage => Box::new(Cached::new(bytes, cached::CachedAccess::PageByPage)?),
            Self::FileMinor => Box::new(Cached::new(bytes, cached::CachedAccess::Whole)?),
            Self::Cow => Box::new(Cached::new(bytes, cached::CachedAccess::CopyOnWrite)?),
            Self::Major => {
                let folders = [std::env::temp_dir(), PathBuf::from("/var/tmp")];
                let is_guest = host.is_guest();
                Box::new(Evicted::new(DISK_PAGES, &folders, is_guest)?)
            }
        })
    }
}

impl Probe for PageFault {
    fn expects(&self, case: &ProbeCase) -> Counters {
        match FaultKind::from_case(case) {
            Some(FaultKind::Major) => Counters::DEVICE,
            _ => Counters::NONE,
        }
    }

    fn cases(&self, _: &Host, _: &Sizes) -> Vec<ProbeCase> {
        FaultKind::ALL
            .map(|(kind, _)| ProbeCase { params: kind.params(), cost_ns: kind.cost_ns() })
            .to_vec()
    }

    fn predict(&self, case: &ProbeCase, _: &Host, known: &Inputs<'_>) -> Model {
        let unknown = || NoModel::no_such_case(&case.params);
        let kind = FaultKind::from_case(case).ok_or_else(unknown)?;
        if kind == FaultKind::Huge {
            return clearing(BufferPage::Huge.bytes(), known);
        }
        if kind == FaultKind::Cow {
            return copying(known);
        }
        match kind.bound() {
            Some((factor, other, source)) => {
                Order { factor, metric: ABOUT.id, source }.claim(&other.params(), known)
            }
            None => {
                let source = "an exception enters and leaves the kernel at a higher cost than a \
                              system call, and maps a page";
                at_least_getppid(1.0, source, known)
            }
        }
    }

    fn visit(&self, cases: &[ProbeCase], sampler: &mut Sampler) -> Result<()> {
        let host = host::read();
        let budget = MemoryBudget::from_host(&host);
        each(cases, sampler, |index, case, sampler| {
            let kind =
                FaultKind::from_case(case).ok_or_else(|| crate::unknown_case(&case.params))?;
            pass::rounds(index, kind.memory(&budget, &host)?.as_mut(), sampler)
        })
    }
}

/// Lower bound from the time to clear a huge page.
fn clearing(bytes: usize, known: &Inputs<'_>) -> Model {
    let (name, rate) = bandwidth::last_cache_read_rate(known)?;
    let least_ns = bytes as f64 / rate * 1e9;
    let source = "Linux mm/memory.c, clear_huge_page: stores clear the whole page, which passes \
                  the last-level cache no faster than it is read from there";
    let bound = Prediction::at_least(least_ns, &format!("≥ size ÷ {name}"), source)
        .with_quantity("size", bytes as f64, Unit::Bytes, Origin::Case)
        .with_result(&name, rate, Unit::BytesPerSecond);
    Ok(bound.if_below("L2 holds a huge page, or the core does not clear it itself"))
}

/// A copy on write: the page is found as in a read fault of the file, another is allocated as in an
/// anonymous fault, and copied instead of cleared.
fn copying(known: &Inputs<'_>) -> Model {
    let bytes = page_size() as f64;
    let (name, rate) = bandwidth::last_cache_read_rate(known)?;
    let term = |times, kind: FaultKind| Term::new(times, ABOUT.id, kind.params());
    let sum = Sum {
        terms: &[
            term(1.0, FaultKind::Anonymous),
            term(1.0, FaultKind::FilePage),
            term(-1.0, FaultKind::ZeroRead),
        ],
        tolerance: 0.3,
        source: "Linux mm/memory.c, do_cow_fault: lookup as for a read, allocation as for an \
                 anonymous page, and a copy, which loads besides what clearing stores",
        otherwise: "the file's pages are in memory instead of the last-level cache, or below it \
                    in L2",
    }
    .predict(known)?;
    let (hardware, software) = (1e9 * bytes / rate, sum.value.unwrap_or_default());
    let formula = format!("{} + page ÷ {name}", sum.formula);
    let whole = Prediction::sum(hardware, software, 0.3, &formula, &sum.source);
    let whole = Prediction { inputs: sum.inputs, ..whole }.otherwise(&sum.if_above);
    // Most of it is the time of its siblings.
    Ok(whole.self_consistent().with_quantity("page", bytes, Unit::Bytes, Origin::Case).with_result(
        &name,
        rate,
        Unit::BytesPerSecond,
    ))
}

#[cfg(test)]
mod tests;
