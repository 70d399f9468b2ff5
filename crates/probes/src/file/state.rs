//! The cache state in which a probe reads a file: prepared outside the timed section, and proved.

use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fathom_fileio::available_memory;
use fathom_fileio::read::NEVER_STOP;
use fathom_fileio::residency::{self, Residency, ResidencyState as InMemory, UnknownReason};

use super::{BUFFERED_DIRECT, failed};
use crate::prelude::*;
use rustix::io::Errno;

/// Attempts to warm a file, or to repeat a pass: other processes may evict pages.
pub(crate) const TRIES: u32 = 3;
/// Pages under I/O, such as unused readahead, cannot be evicted before the I/O completes: pause
/// between attempts, and their number.
const EVICTION_PAUSE: Duration = Duration::from_millis(1);
const EVICTIONS_MAX: u32 = 1000;
/// Memory reclaim that pages idle memory out (DAMON) takes pages while the file is warmed, and soon
/// has passed it: pause between attempts, their number, and the least cached share for more than
/// [`TRIES`]. A file that is larger than the free memory has less.
const RECLAIM_PAUSE: Duration = Duration::from_millis(10);
const RECLAIMS_MAX: u32 = 50;
const RECLAIMED_MIN: f64 = 0.9;
/// Least cached share after a warm pass that fetched nothing from a device.
const NEARLY_ALL: f64 = 0.99;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileState {
    /// All pages cached before and after.
    Warm,
    /// No page cached before.
    Cold,
    /// O_DIRECT, no page cached before and after.
    Direct,
}

impl FileState {
    pub(crate) const ALL: [Self; 3] = [Self::Warm, Self::Cold, Self::Direct];

    pub(crate) fn name(self) -> &'static str {
        ["warm", "cold", "direct"][self as usize]
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }

    /// Brings a file into this state. For direct I/O it is evicted, so that cached pages prove a
    /// buffered read. Fails with `WrongWork` if the state is not reached.
    pub(crate) fn prepare(self, file: &File) -> Result<Residency> {
        let is = match self {
            Self::Cold | Self::Direct => evicted(file)?,
            Self::Warm => {
                warmed(file, &NEVER_STOP).map_err(|error| failed("read the file", error))?
            }
        };
        match (self, is.state) {
            (_, InMemory::Unknown { why }) => Err(SamplerFault::unavailable(
                format!("the residency of the file is unknown: {why}"),
                Remedy::OtherFolder,
            )),
            (Self::Warm, InMemory::Cold) => Err(SamplerFault::unavailable(
                "the file system keeps no page of a file that was read",
                Remedy::OtherFolder,
            )),
            _ if self.is_state_of(&is) => Ok(is),
            _ => {
                let text = format!("requested {}, but {}", self.name(), describe(&is));
                Err(SamplerFault::WrongWork(text))
            }
        }
    }

    /// Whether a pass may begin: all pages are cached, or none.
    pub(crate) fn is_state_of(self, is: &Residency) -> bool {
        match self {
            Self::Warm => is.state == InMemory::Warm,
            Self::Cold | Self::Direct => is.state == InMemory::Cold,
        }
    }

    /// Whether a file stayed in this state during a pass: by its residency after the pass, and by
    /// the bytes that the pass fetched from devices.
    pub(crate) fn was_kept(self, file: &File, fetched: Option<u64>) -> bool {
        // Any residency is right after a cold read, and counting all pages takes a millisecond.
        self == Self::Cold || self.is_kept(&residency::residency_of(file), fetched)
    }

    /// The fault if a file did not stay in this state.
    pub(crate) fn lost(self) -> SamplerFault {
        match self {
            Self::Direct => SamplerFault::unavailable(BUFFERED_DIRECT, Remedy::OtherFolder),
            Self::Warm | Self::Cold => SamplerFault::unavailable(
                "pages were evicted while the file was read",
                Remedy::FreeMemory,
            ),
        }
    }

    pub(crate) fn is_kept(self, is: &Residency, fetched: Option<u64>) -> bool {
        match self {
            // Memory pressure may evict a few pages; if nothing was fetched, no read missed one.
            Self::Warm => {
                let is_nearly_all = is.cached as f64 >= NEARLY_ALL * is.bytes as f64;
                is.state == InMemory::Warm || (fetched == Some(0) && is_nearly_all)
            }
            Self::Cold => true,
            Self::Direct => is.state == InMemory::Cold,
        }
    }
}

fn evicted(file: &File) -> Result<Residency> {
    let mut tries = 0;
    loop {
        let is = residency::evict(file).map_err(|error| failed("write the file back", error))?;
        tries += 1;
        if is.state == InMemory::Cold || !may_be_under_io(&is) || tries == EVICTIONS_MAX {
            return Ok(is);
        }
        std::thread::sleep(EVICTION_PAUSE);
    }
}

/// Whether pages may be under I/O, which cachestat counts and mincore does not.
fn may_be_under_io(is: &Residency) -> bool {
    match is.state {
        InMemory::Unknown { why: UnknownReason::Disagreement { .. } } => true,
        InMemory::Unknown { .. } => false,
        _ => is.state != InMemory::Warm,
    }
}

/// Reads a file into memory unless all of it is there, again while reclaim takes pages meanwhile.
pub(crate) fn warmed(file: &File, stop: &AtomicBool) -> Result<Residency, Errno> {
    let mut is = residency::residency_of(file);
    let mut tries = 0;
    while is.state != InMemory::Warm && tries < RECLAIMS_MAX && !stop.load(Ordering::Relaxed) {
        is = residency::warm(file, stop)?;
        tries += 1;
        let is_little = (is.cached as f64) < RECLAIMED_MIN * is.bytes as f64;
        if is_little && (tries >= TRIES || !fits_in_memory(is.bytes)) {
            break;
        }
        if tries >= TRIES {
            std::thread::sleep(RECLAIM_PAUSE);
        }
    }
    Ok(is)
}

pub(crate) fn fits_in_memory(bytes: u64) -> bool {
    available_memory::now().is_none_or(|memory| bytes <= memory.bytes)
}

/// The state with the cached bytes and how they were counted.
pub(crate) fn describe(is: &Residency) -> String {
    let (state, by) = (is.state.name().to_uppercase(), is.counted_by.describe());
    format!("{state}: {} of {} bytes cached ({by})", is.cached, is.bytes)
}

#[cfg(test)]
mod tests {
    use fathom_fileio::residency::CountedBy;

    use super::*;

    #[test]
    fn evicted_page_is_ignored_if_nothing_was_fetched() {
        let of = |state, cached| Residency {
            state,
            bytes: 1000,
            cached,
            dirty: 0,
            writeback: 0,
            counted_by: CountedBy::Both,
        };
        let mixed = |cached| of(InMemory::Mixed { share: cached as f64 / 1000.0 }, cached);
        let (warm, cold) = (of(InMemory::Warm, 1000), of(InMemory::Cold, 0));
        assert!(FileState::Warm.is_kept(&warm, Some(4096)) && FileState::Warm.is_kept(&warm, None));
        assert!(FileState::Warm.is_kept(&mixed(990), Some(0)));
        assert!(!FileState::Warm.is_kept(&mixed(990), Some(4096)), "read again");
        assert!(!FileState::Warm.is_kept(&mixed(990), None), "unknown");
        assert!(
            !FileState::Warm.is_kept(&mixed(980), Some(0))
                && !FileState::Warm.is_kept(&cold, Some(0))
        );
        assert!(
            FileState::Direct.is_kept(&cold, None) && !FileState::Direct.is_kept(&mixed(4), None)
        );
    }
}
