//! Page faults as the kernel counts them, held against those that were to be taken.

use std::mem::MaybeUninit;
use std::ops::RangeInclusive;

use fathom_measure::sampler::Fault;

/// Faults beside those of the pages: of the worker's own text and stack, after a page of them was
/// taken away. A hundredth of a pass, and these few in a short one.
const STRAY_MAX: u64 = 2;

/// How many faults of each kind a pass must take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expected {
    /// Those that need no device.
    pub(crate) minor: RangeInclusive<u64>,
    /// Those that wait for one.
    pub(crate) major: u64,
    /// Pages that a pass is divided by, where each has a fault of its own.
    pages: Option<u64>,
}

impl Expected {
    /// One without a device for each page, and a few strays, by which nothing is divided.
    pub(crate) fn one_each(pages: usize) -> Self {
        let pages = pages as u64;
        Self { pages: Some(pages), ..Self::minor(pages..=pages) }
    }

    /// So many without a device, and a few strays: how many pages a fault maps is not known.
    pub(crate) fn minor(range: RangeInclusive<u64>) -> Self {
        let most = range.end() + STRAY_MAX.max(range.end() / 100);
        Self { minor: *range.start()..=most, major: 0, pages: None }
    }

    /// One for each page, all of which wait for a device.
    pub(crate) fn major(pages: usize) -> Self {
        let pages = pages as u64;
        Self { minor: 0..=STRAY_MAX, major: pages, pages: Some(pages) }
    }

    /// What to divide by: the pages, or the faults where each may map several.
    ///
    /// # Errors
    /// `WrongWork` where the kernel counted others.
    pub(crate) fn held_against(&self, counted: Faults) -> Result<u64, Fault> {
        if self.minor.contains(&counted.minor) && counted.major == self.major {
            return Ok(self.pages.unwrap_or(counted.minor));
        }
        Err(Fault::WrongWork(format!(
            "the kernel counted {} faults without a device and {} that waited for one, where {} to \
             {} and {} were to be taken",
            counted.minor,
            counted.major,
            self.minor.start(),
            self.minor.end(),
            self.major
        )))
    }
}

/// The calling thread's page faults so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Faults {
    pub(crate) minor: u64,
    pub(crate) major: u64,
}

impl Faults {
    /// Of the calling thread alone: others may fault beside it.
    pub(crate) fn so_far() -> Self {
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the pointer is to writable memory of the type the call fills; an all-zero
        // `rusage` is a valid one.
        let usage = unsafe {
            libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
            usage.assume_init()
        };
        // The kernel's counts are never negative.
        Self { minor: usage.ru_minflt as u64, major: usage.ru_majflt as u64 }
    }

    /// Those since an earlier reading.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self { minor: self.minor - earlier.minor, major: self.major - earlier.major }
    }
}
