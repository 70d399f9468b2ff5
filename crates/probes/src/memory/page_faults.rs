//! Page faults counted by the kernel, compared with the number that a pass must cause.

use std::ops::RangeInclusive;

use crate::prelude::*;

/// Extra faults of the worker's own text and stack, after the kernel reclaimed one of their pages:
/// 1 % of a pass, at least this many.
const STRAY_MAX: u64 = 2;

/// The page faults that a pass must cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExpectedFaults {
    minor: RangeInclusive<u64>,
    pub(crate) major: u64,
    /// The divisor of a pass where each page faults once; else the minor faults are.
    pub(crate) pages: Option<u64>,
}

impl ExpectedFaults {
    /// One minor fault per page.
    pub(crate) fn one_per_page(pages: usize) -> Self {
        let pages = pages as u64;
        Self { pages: Some(pages), ..Self::minor(pages..=pages) }
    }

    /// Minor faults that may each map several pages.
    pub(crate) fn minor(range: RangeInclusive<u64>) -> Self {
        let most = range.end() + STRAY_MAX.max(range.end() / 100);
        Self { minor: *range.start()..=most, major: 0, pages: None }
    }

    /// One major fault per page.
    pub(crate) fn major(pages: usize) -> Self {
        let pages = pages as u64;
        Self { minor: 0..=STRAY_MAX, major: pages, pages: Some(pages) }
    }

    /// The number of operations of a pass with these faults.
    ///
    /// # Errors
    /// `WrongWork` where the kernel counted other faults.
    pub(crate) fn divisor(&self, counted: FaultCounts) -> Result<u64> {
        if self.minor.contains(&counted.minor) && counted.major == self.major {
            return Ok(self.pages.unwrap_or(counted.minor));
        }
        let FaultCounts { minor, major } = counted;
        let (low, high) = self.minor.clone().into_inner();
        Err(SamplerFault::WrongWork(format!(
            "{minor} minor and {major} major page faults; expected {low} to {high} minor and {} \
             major",
            self.major
        )))
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FaultCounts {
    pub(crate) minor: u64,
    pub(crate) major: u64,
}

impl FaultCounts {
    /// Of the calling thread only.
    pub(crate) fn now() -> Self {
        let usage = thread_usage();
        Self { minor: usage.ru_minflt as u64, major: usage.ru_majflt as u64 }
    }

    pub(crate) fn since(self, earlier: Self) -> Self {
        Self { minor: self.minor - earlier.minor, major: self.major - earlier.major }
    }
}
