//! memory.fault: what a page costs that is not there yet, by the reason why it is not.

use std::path::PathBuf;

use fathom_measure::sampler::Fault;
use fathom_measure::{Sampler, host};
use fathom_record::{Counters, Host, NoModel, Origin, Params, Prediction, Unit};
use rustix::param::page_size;

use super::bandwidth;
use crate::buffer::Page;
use crate::memory_budget::MemoryBudget;
use fathom_metric::order::Order;
use fathom_metric::{About, Case, Known, Parameter, Probe, Sizes};

mod anonymous;
mod cached;
mod evicted;
mod pass;

use anonymous::{Fresh, Huge, Settled, Unwritten};
use cached::{Cached, Way};
use evicted::Evicted;
use pass::Faulting;

/// memory.fault.
pub struct PageFault;

static ABOUT: About = About {
    id: "memory.fault",
    title: "page fault",
    timed: "touching pages in a row that are not mapped, divided by their number, each of which \
            faulted once as the kernel's count proves (file_minor: by the faults counted): the \
            exception, the kernel's work and the touch itself",
    not_timed: "mapping and unmapping; taking the pages away again, which is done before each pass",
    model: "orders. zero_read ≥ os.syscall{call=getppid}; anonymous ≥ zero_read; anonymous_first ≥ \
            anonymous; huge ≥ 0.5 × its size ÷ the rate at which one core stored to memory in this \
            run; file_page ≥ zero_read; file_minor ≥ file_page; cow ≥ zero_read; major ≥ 3 × \
            file_page. No value: what the kernel does besides clearing or copying 4 KiB \
            (accounting, a page's place in its lists) has no sourced constant, and is the larger \
            part",
    source: "Linux mm/memory.c: do_anonymous_page, do_read_fault, do_wp_page, filemap_fault; \
             METHOD 25 for orders",
    pitfalls: &[
        "huge pages answer 512 touches with one fault: they are switched off by advice, and the \
         count of faults is checked on every pass",
        "a read fault of a cached file maps up to sixteen pages around it, or a large folio: \
         file_minor is divided by the faults counted and says of how many pages they were; \
         file_page maps each page of the file by itself, so that there is nothing around it",
        "reading untouched memory maps the one page of zeros, and clears nothing: that is \
         zero_read and no anonymous fault",
        "in a guest, memory that the host has not given yet costs an exit more. Nobody in the \
         guest can tell which that is: anonymous is memory that this process had before, \
         anonymous_first memory that it had not, whoever had it",
        "where no huge page is free a fault gives a small one, and is counted alike: smaps is \
         read after each pass of huge",
        "a copy on write needs the page to be mapped for reading before: else the kernel copies in \
         the first fault, without taking a translation back",
        "major: without MADV_RANDOM the kernel reads ahead and most pages do not wait. The file \
         is written back and dropped, and mincore and cachestat prove it before each pass. In a \
         guest it is guest-cold: the host may still hold it",
    ],
    parameters: &[Parameter {
        name: "kind",
        values: "zero_read, anonymous, anonymous_first, huge, file_page, file_minor, cow, major",
        meaning: "read before anybody wrote · written, settled memory · written, memory new to the \
                  process · written, by huge pages · a cached file's page by itself · a cached \
                  file in order, with what the kernel maps around · a private copy · from a disk",
    }],
    needs: &["memory.bandwidth", "os.syscall"],
    requires: "huge: huge pages on advice. major: a folder on a disk ($TMPDIR or /var/tmp)",
    published: "230 µs (major, SSD; 2016, i5-5257U)",
    noise_limit: 0.10,
    ..About::BASE
};

/// Pages of a pass: 4 MiB of them where they have 4 KiB.
const PAGES: usize = 1024;
/// Huge pages of a pass.
const HUGE_PAGES: usize = 4;
/// Pages of a pass that are read from a disk.
const DISK_PAGES: usize = 32;
/// No more is held at a time.
const HELD_BYTES_MAX: usize = 64 << 20;

/// Why a page is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    ZeroRead,
    Anonymous,
    AnonymousFirst,
    Huge,
    FilePage,
    FileMinor,
    Cow,
    Major,
}

impl Kind {
    /// Each stands behind those that its order needs.
    const ALL: [Self; 8] = [
        Self::ZeroRead,
        Self::Anonymous,
        Self::AnonymousFirst,
        Self::Huge,
        Self::FilePage,
        Self::FileMinor,
        Self::Cow,
        Self::Major,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::ZeroRead => "zero_read",
            Self::Anonymous => "anonymous",
            Self::AnonymousFirst => "anonymous_first",
            Self::Huge => "huge",
            Self::FilePage => "file_page",
            Self::FileMinor => "file_minor",
            Self::Cow => "cow",
            Self::Major => "major",
        }
    }

    fn of(case: &Case) -> Option<Self> {
        let name = case.params.text("kind")?;
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    fn params(self) -> Params {
        Params::one("kind", self.name())
    }

    /// With room: some 20 passes, each taken away again.
    fn cost_ns(self) -> f64 {
        match self {
            Self::Huge => 40e6,
            Self::Major => 400e6,
            _ => 30e6,
        }
    }

    /// Bytes in memory at a time, at least.
    fn bytes(self) -> usize {
        match self {
            Self::Huge => HUGE_PAGES * Page::Huge.bytes(),
            // The file, and the copies.
            Self::Cow => 2 * PAGES * page_size(),
            _ => PAGES * page_size(),
        }
    }

    /// What it cannot be cheaper than, where that is another kind: how many times, and why.
    fn order(self) -> Option<(f64, Self, &'static str)> {
        Some(match self {
            Self::ZeroRead | Self::Huge => return None,
            Self::Anonymous => (
                1.0,
                Self::ZeroRead,
                "the same fault, with a page to be found, cleared and accounted for besides",
            ),
            Self::AnonymousFirst => (
                1.0,
                Self::Anonymous,
                "the same work on pages that no cache holds, and that a host may have to give",
            ),
            Self::FilePage => (
                1.0,
                Self::ZeroRead,
                "the same fault, with a page to be looked up and counted as mapped besides",
            ),
            Self::FileMinor => {
                (1.0, Self::FilePage, "the same fault, with the pages around mapped besides")
            }
            Self::Cow => (
                1.0,
                Self::ZeroRead,
                "the same exception, with a page to be found and copied besides",
            ),
            Self::Major => (
                3.0,
                Self::FilePage,
                "besides what a cached page costs: a request to a device, an interrupt, a switch \
                 away and one back",
            ),
        })
    }

    fn memory(self, room: &MemoryBudget, host: &Host) -> Result<Box<dyn Faulting>, Fault> {
        budget.check(self.bytes() as u64)?;
        let bytes = PAGES * page_size();
        Ok(match self {
            Self::ZeroRead => Box::new(Unwritten::of(bytes)?),
            Self::Anonymous => Box::new(Settled::of(bytes)?),
            Self::AnonymousFirst => {
                let most = HELD_BYTES_MAX.min(usize::try_from(budget.bytes).unwrap_or(usize::MAX));
                Box::new(Fresh::of(bytes, most / bytes))
            }
            Self::Huge => Box::new(Huge::of(self.bytes())?),
            Self::FilePage => Box::new(Cached::of(bytes, Way::Apart)?),
            Self::FileMinor => Box::new(Cached::of(bytes, Way::Whole)?),
            Self::Cow => Box::new(Cached::of(bytes, Way::Copied)?),
            Self::Major => {
                let folders = [std::env::temp_dir(), PathBuf::from("/var/tmp")];
                let guest = host.virtualization.as_deref().is_some_and(|kind| kind != "none");
                Box::new(Evicted::of(DISK_PAGES, &folders, guest)?)
            }
        })
    }
}

impl Probe for PageFault {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    /// What one kind leaves in the caches and in the kernel's lists of free pages changes what the
    /// next one costs.
    fn cases_share_visits(&self) -> bool {
        false
    }

    fn expects(&self, case: &Case) -> Counters {
        match Kind::of(case) {
            Some(Kind::Major) => Counters::DEVICE,
            _ => Counters::NONE,
        }
    }

    fn cases(&self, _: &Host, _: &Sizes) -> Vec<Case> {
        Kind::ALL.map(|kind| Case { params: kind.params(), cost_ns: kind.cost_ns() }).to_vec()
    }

    fn predict(&self, case: &Case, _: &Host, known: &Known<'_>) -> Result<Prediction, NoModel> {
        let unknown = || NoModel::no_such_case(&case.params);
        let kind = Kind::of(case).ok_or_else(unknown)?;
        if kind == Kind::Huge {
            return clearing(Page::Huge.bytes(), known);
        }
        match kind.order() {
            Some((factor, other, source)) => {
                Order { factor, metric: ABOUT.id, source }.claim(&other.params(), known)
            }
            None => {
                let source = "an exception enters and leaves the kernel as a call does, by a \
                              dearer way, and has a page to map between";
                let order = Order { factor: 1.0, metric: "os.syscall", source };
                order.claim(&Params::one("call", "getppid"), known)
            }
        }
    }

    fn visit(&self, cases: &[Case], sampler: &mut Sampler) -> Result<(), Fault> {
        let host = host::read();
        let room = MemoryBudget::of(&host);
        for (index, case) in cases.iter().enumerate() {
            let unknown = || Fault::Failed(format!("{} is no kind of fault", case.params));
            let memory = Kind::of(case).ok_or_else(unknown)?.memory(&room, &host);
            match memory {
                Ok(mut memory) => pass::rounds(index, memory.as_mut(), sampler),
                Err(fault) => sampler.fault(index, fault),
            }
        }
        Ok(())
    }
}

/// The share of a store's time in memory that clearing takes at least: what is cleared is a few
/// pages again and again, which a large cache may hold, and the kernel's instruction (rep stosb)
/// may leave out the fetch of a line as a store past the caches does. No value therefore, and the
/// faster of the two ways to store; of a page of 4 KiB, which fits the nearest cache, it says
/// nothing.
const CLEARED_SHARE: f64 = 0.5;

/// The least that clearing takes.
fn clearing(bytes: usize, known: &Known<'_>) -> Result<Prediction, NoModel> {
    let (name, rate) = bandwidth::storing(known)?;
    let least_ns = CLEARED_SHARE * bytes as f64 / rate * 1e9;
    let formula = format!("≥ {CLEARED_SHARE} × size ÷ {name}");
    let source = "Linux mm/memory.c, clear_huge_page: the page is cleared whole, by stores; half \
                  the time, for caches may hold what is cleared again and again";
    let claim = Prediction::at_least(least_ns, &formula, source)
        .with_quantity("size", bytes as f64, Unit::Bytes, Origin::Case)
        .with_result(&name, rate, Unit::BytesPerSecond);
    Ok(claim.if_below(
        "a cache that stores more than twice as fast as memory holds the pages, something other \
         than the core clears them, or they were not cleared",
    ))
}

#[cfg(test)]
mod tests;
