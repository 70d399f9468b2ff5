//! The folder's files out of the page cache, or into it, with proof.

use std::sync::atomic::Ordering::Relaxed;

use fathom_fileio::residency::{self, Residency, ResidencyState, UnknownReason};
use rustix::fs::syncfs;
use rustix::io::Errno;
use serde::Serialize;

use crate::listing::Listing;
use crate::shared::ServiceShared;
use crate::ticket::IsOver;

/// What is in memory afterwards.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct CacheState {
    files: u64,
    bytes: u64,
    /// Counted by cachestat and mincore; `null` if the kernel does not say it for some file.
    resident_bytes_after: Option<u64>,
}

pub(crate) fn evict(shared: &ServiceShared, is_over: IsOver<'_>) -> CacheState {
    // Once for all files: evicting waits for the device after each that is synced alone.
    let _ = syncfs(shared.root.fd());
    change(shared, is_over, |file| {
        shared.evicted.fetch_add(1, Relaxed);
        residency::evict_clean(file)
    })
}

pub(crate) fn warm(shared: &ServiceShared, is_over: IsOver<'_>) -> CacheState {
    change(shared, is_over, |file| residency::warm_unless(file, is_over))
}

fn change(
    shared: &ServiceShared,
    is_over: IsOver<'_>,
    each: impl Fn(&std::fs::File) -> Result<Residency, Errno>,
) -> CacheState {
    let listing = Listing::read(&shared.root, is_over);
    let mut state = CacheState { resident_bytes_after: Some(0), ..CacheState::default() };
    for listed in listing.files {
        // It may have been deleted meanwhile.
        let Ok(opened) = shared.root.open_waiting(&listed.raw) else { continue };
        let after = each(&opened.file).ok();
        state.files += 1;
        state.bytes += after.map_or(listed.bytes, |after| after.bytes);
        let resident = after.and_then(resident_bytes);
        state.resident_bytes_after =
            state.resident_bytes_after.zip(resident).map(|(all, one)| all + one);
        if is_over() {
            break;
        }
    }
    state
}

/// An empty file has no pages.
fn resident_bytes(residency: Residency) -> Option<u64> {
    match residency.state {
        ResidencyState::Unknown { why: UnknownReason::Empty } => Some(0),
        ResidencyState::Unknown { .. } => None,
        _ => Some(residency.cached),
    }
}
