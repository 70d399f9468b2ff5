//! What the device gives to this process: direct reads of whole files, in random order, by as many
//! threads as there are lanes, within the cgroup and the limits of the service.

use std::panic::resume_unwind;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::ScopedJoinHandle;

use fathom_fileio::memory::MemoryPages;
use fathom_measure::clock::monotonic_raw_ns;
use serde::Serialize;

use crate::dose::{PIECE, read_direct};
use crate::listing::{Listed, Listing};
use crate::page::DISK_TIME_MS_MAX;
use crate::shared::ServiceShared;
use crate::telemetry;
use crate::ticket::IsOver;

/// Equal parts of the time: their scatter gives an interval.
const SLOTS: usize = 10;

#[derive(Debug, Default, Serialize)]
pub(crate) struct ServiceDiskRate {
    /// Bytes read in each tenth of the time.
    slots: [u64; SLOTS],
    slot_ns: u64,
    /// Files read.
    files: u64,
    threads: usize,
    /// Why there is no rate.
    unavailable: Option<String>,
}

pub(crate) fn measure(
    shared: &ServiceShared,
    time_ms: u64,
    is_over: IsOver<'_>,
) -> ServiceDiskRate {
    let threads = shared.lanes;
    let slot_ns = (time_ms.clamp(1, DISK_TIME_MS_MAX) * 1_000_000) / SLOTS as u64;
    let none = |why: &str| ServiceDiskRate {
        unavailable: Some(why.to_owned()),
        ..ServiceDiskRate::default()
    };
    if !telemetry::has_device(shared) {
        return none("the folder is on no block device");
    }
    let mut listed = Listing::read(&shared.root, is_over).files;
    listed.retain(|file| file.bytes > 0);
    if listed.is_empty() {
        return none("the folder has no file with content");
    }
    let reading = DiskReading {
        shared,
        is_over,
        files: &listed,
        from_ns: monotonic_raw_ns(),
        slot_ns,
        next: AtomicU64::new(0),
        slots: Default::default(),
        read: AtomicU64::new(0),
    };
    let failed = std::thread::scope(|scope| {
        let thread = || std::thread::Builder::new().name("disk".to_owned());
        let start = || thread().spawn_scoped(scope, || reading.run());
        let threads: Vec<_> = (0..threads).filter_map(|_| start().ok()).collect();
        let join =
            |thread: ScopedJoinHandle<'_, _>| thread.join().unwrap_or_else(|it| resume_unwind(it));
        threads.into_iter().filter_map(|thread| join(thread).err()).next()
    });
    match failed {
        Some(error) => none(&format!("direct read: {error}")),
        None => ServiceDiskRate {
            slots: reading.slots.map(AtomicU64::into_inner),
            slot_ns,
            files: reading.read.into_inner(),
            threads,
            unavailable: None,
        },
    }
}

struct DiskReading<'r> {
    shared: &'r ServiceShared,
    is_over: IsOver<'r>,
    files: &'r [Listed],
    from_ns: u64,
    slot_ns: u64,
    next: AtomicU64,
    slots: [AtomicU64; SLOTS],
    read: AtomicU64,
}

impl DiskReading<'_> {
    fn run(&self) -> Result<(), std::io::Error> {
        self.shared.trip();
        let mut buffer = MemoryPages::new(PIECE)?;
        while self.slot().is_some() && !(self.is_over)() {
            let turn = self.next.fetch_add(1, Relaxed);
            let Some(listed) = self.files.get(scattered(turn) as usize % self.files.len()) else {
                break;
            };
            // It may have been deleted meanwhile.
            let Ok(opened) = self.shared.root.open_waiting(&listed.raw) else { continue };
            // In pieces, so that a large file falls into the right slots.
            let mut at = 0;
            while at < listed.bytes && self.slot().is_some() && !(self.is_over)() {
                let piece = (listed.bytes - at).min(PIECE as u64);
                let read = read_direct(&opened.file, &mut buffer, at, piece, self.is_over)?;
                if let Some(slot) = self.slot() {
                    self.slots[slot].fetch_add(read.min(piece), Relaxed);
                }
                at += piece;
            }
            self.read.fetch_add(1, Relaxed);
        }
        Ok(())
    }

    /// The present part of the time; `None` after its end.
    fn slot(&self) -> Option<usize> {
        let slot = (monotonic_raw_ns() - self.from_ns) / self.slot_ns;
        usize::try_from(slot).ok().filter(|slot| *slot < SLOTS)
    }
}

/// The numbers from 0 on in another order (the finaliser of SplitMix64).
fn scattered(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)) >> 1
}
