//! Page cache residency of a file: proof of cold and warm, eviction and warming.
//!
//! Pages are counted by cachestat(2) and by mincore(2), because each can be wrong: cachestat sees
//! nothing on overlayfs, whose pages belong to the file below, and mincore reports all pages
//! resident without permission. Where the two disagree, or permission is missing, the state is
//! [`State::Unknown`].

use std::fs::File;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{Access, Advice, fadvise, fdatasync, fstat};
use rustix::io::Errno;

use crate::memory::{MemoryPages, page};
use crate::path_info::{FileKind, size_of};
use crate::syscall::{self, CacheStat};

/// Up to this size mincore checks every page.
const WHOLE_MAX: u64 = 256 << 20;
/// Above it, mincore checks this many windows: checking every page takes as long as reading a
/// tenth of the file from memory.
const WINDOWS: u64 = 16;
const WINDOW: u64 = 16 << 20;
/// The windows that show whether a large file may be counted while it is read.
const SAMPLE: u64 = 1 << 20;
/// Bytes mapped per mincore call.
const STEP: u64 = 1 << 30;
/// Tolerated difference of the two counts, as a share or in pages: other processes run meanwhile.
const TOLERANCE: f64 = 0.01;
const TOLERANCE_PAGES: u64 = 32;
/// Attempts to evict: pages in another CPU's LRU batch are not dropped at the first.
const EVICTIONS: u32 = 4;
/// Bytes per read when warming.
const WARMING: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ResidencyState {
    /// No page is in the page cache.
    Cold,
    Mixed {
        /// Cached share of the file, above 0 and below 1.
        share: f64,
    },
    /// All pages are in the page cache.
    Warm,
    Unknown {
        why: UnknownReason,
    },
}

impl ResidencyState {
    /// The value of the parameter `state`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Mixed { .. } => "mixed",
            Self::Warm => "warm",
            Self::Unknown { .. } => "unknown",
        }
    }
}

/// Why the residency of a file is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownReason {
    #[error("the file is empty")]
    Empty,
    #[error("the file has no size: the kernel generates it when it is read")]
    NoSize,
    #[error("not a regular file or block device")]
    NoPages,
    #[error("only the owner and users with write permission can see it")]
    NoPermission,
    #[error("cachestat counts {cachestat} cached pages, mincore {mincore}")]
    Disagreement { cachestat: u64, mincore: u64 },
    #[error("{0}")]
    Failed(Errno),
}

/// Which system calls counted the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountedBy {
    /// Both, and they agree.
    Both,
    /// mincore lacks permission.
    Cachestat,
    /// cachestat is missing, or sees nothing.
    Mincore,
    /// Reads that may not wait.
    Reads,
    Neither,
}

impl CountedBy {
    pub fn describe(self) -> &'static str {
        match self {
            Self::Both => "cachestat and mincore agree",
            Self::Cachestat => "by cachestat",
            Self::Mincore => "by mincore",
            Self::Reads => "by reads that do not wait",
            Self::Neither => "not counted",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Residency {
    pub state: ResidencyState,
    /// Size of the file.
    pub bytes: u64,
    /// Bytes of cached pages, at most the size of the file.
    pub cached: u64,
    /// Dirty bytes among them; 0 if mincore or reads counted.
    pub dirty: u64,
    /// Bytes under writeback among them.
    pub writeback: u64,
    pub counted_by: CountedBy,
}

impl Residency {
    fn unknown(bytes: u64, why: UnknownReason) -> Self {
        let state = ResidencyState::Unknown { why };
        Self { state, bytes, cached: 0, dirty: 0, writeback: 0, counted_by: CountedBy::Neither }
    }

    fn counted(bytes: u64, stat: CacheStat, counted_by: CountedBy) -> Self {
        let in_bytes = |pages: u64| (pages * page() as u64).min(bytes);
        let all = bytes.div_ceil(page() as u64);
        let state = match stat.cache {
            0 => ResidencyState::Cold,
            some if some < all => ResidencyState::Mixed { share: some as f64 / all as f64 },
            _ => ResidencyState::Warm,
        };
        Self {
            state,
            bytes,
            cached: in_bytes(stat.cache),
            dirty: in_bytes(stat.dirty),
            writeback: in_bytes(stat.writeback),
            counted_by,
        }
    }
}

/// The present residency of a file.
pub fn residency_of(file: &File) -> Residency {
    let bytes = match size_of(file) {
        Ok((FileKind::Regular | FileKind::Block, Some(size))) => size,
        Ok((FileKind::Regular | FileKind::Block, None)) => {
            return Residency::unknown(0, UnknownReason::NoSize);
        }
        Ok(_) => return Residency::unknown(0, UnknownReason::NoPages),
        Err(error) => return Residency::unknown(0, UnknownReason::Failed(error)),
    };
    if bytes == 0 {
        return Residency::unknown(0, UnknownReason::Empty);
    }
    // Two attempts, because the two counts are not simultaneous.
    let counts = counted(file, bytes).or_else(|_| counted(file, bytes));
    counts.unwrap_or_else(|why| unsettled(bytes, why))
}

/// The residency where the counts cannot be trusted.
fn unsettled(bytes: u64, why: UnknownReason) -> Residency {
    // A lasting difference with cachestat 0 is an overlay: mincore is right.
    match why {
        UnknownReason::Disagreement { cachestat: 0, mincore } => {
            let stat = CacheStat { cache: mincore, ..CacheStat::default() };
            Residency::counted(bytes, stat, CountedBy::Mincore)
        }
        why => Residency::unknown(bytes, why),
    }
}

/// How the pages of a large file are counted if samples of it are mostly cached. Counting all of
/// them takes up to a third of the time of reading them, so [`Look`] counts while they are read.
/// `None` for other files, and if the two counts disagree.
pub(crate) fn counted_while_read(file: &File, bytes: u64) -> Option<CountedBy> {
    if bytes <= WHOLE_MAX {
        return None;
    }
    let samples = windows(bytes, SAMPLE);
    let all = WINDOWS * SAMPLE / page() as u64;
    let cached = cachestat(file, &samples).ok().filter(|cached| 2 * cached >= all)?;
    if !is_mincore_permitted(file) {
        return Some(CountedBy::Cachestat);
    }
    let mincore = mincore(file, &samples).ok()?;
    agree(cached, mincore, all).then_some(CountedBy::Both)
}

/// Finds the cached ranges of a file while they are read: by reads that may not wait, or by
/// counting each range just before it is read, which brings its page structs into the CPU cache.
#[derive(Debug, Default)]
pub struct ResidencyLook {
    looked: Mutex<(CacheStat, Vec<Range<u64>>)>,
    /// Bytes of reads that did not wait.
    read: AtomicU64,
    /// Such reads are not possible, or not any more.
    counts: AtomicBool,
}

impl ResidencyLook {
    pub(crate) fn uses_reads(&self) -> bool {
        !self.counts.load(Ordering::Relaxed)
    }

    /// A read found the first page of this range uncached.
    pub(crate) fn missed(&self, range: Range<u64>) {
        self.looked.lock().unwrap_or_else(PoisonError::into_inner).1.push(range);
        self.use_counts();
    }

    pub(crate) fn use_counts(&self) {
        self.counts.store(true, Ordering::Relaxed);
    }

    /// Bytes were read without waiting.
    pub(crate) fn was_read(&self, bytes: u64) {
        self.read.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts a range of whole pages; whether it is cached. Uncached ranges are kept.
    pub(crate) fn is_cached(&self, file: &File, range: &Range<u64>) -> bool {
        let bytes = range.end - range.start;
        let Ok(stat) = syscall::cachestat(file.as_fd(), range.start, bytes) else { return true };
        let is_cached = is_nearly_all(stat.cache, bytes);
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        let (sum, uncached) = &mut *looked;
        sum.cache += stat.cache;
        sum.dirty += stat.dirty;
        sum.writeback += stat.writeback;
        if !is_cached {
            uncached.push(range.clone());
        }
        is_cached
    }

    /// The residency of the file before it was read, and the uncached ranges in order.
    pub(crate) fn result(self, bytes: u64, by: CountedBy) -> (Residency, Vec<Range<u64>>) {
        let looked = self.looked.into_inner();
        let (mut stat, mut uncached) = looked.unwrap_or_else(PoisonError::into_inner);
        let read = self.read.into_inner();
        stat.cache += read.div_ceil(page() as u64);
        let by = match read {
            0 => by,
            _ => {
                (stat.dirty, stat.writeback) = (0, 0);
                CountedBy::Reads
            }
        };
        uncached.sort_unstable_by_key(|range| range.start);
        uncached.dedup_by(|next, last| {
            let is_next = next.start == last.end;
            if is_next {
                last.end = next.end;
            }
            is_next
        });
        (Residency::counted(bytes, stat, by), uncached)
    }
}

/// Whether at most one page in twenty is missing.
fn is_nearly_all(pages: u64, bytes: u64) -> bool {
    pages * page() as u64 * 20 >= bytes * 19
}

/// Splits a file into ranges that are cached (true) or not, at multiples of `grain` bytes. A
/// cached range may lack one page in twenty. `None` if the residency is unknown.
pub fn pieces(file: &File, grain: u64) -> Option<Vec<(Range<u64>, bool)>> {
    let whole = residency_of(file);
    let by_mincore = match whole.counted_by {
        CountedBy::Neither => return None,
        CountedBy::Mincore => true,
        CountedBy::Both | CountedBy::Cachestat | CountedBy::Reads => false,
    };
    let mut pieces: Vec<(Range<u64>, bool)> = Vec::new();
    let mut at = 0;
    while at < whole.bytes {
        let end = at.saturating_add(grain).min(whole.bytes);
        let window = [(at, end - at)];
        let pages = match by_mincore {
            true => mincore(file, &window).ok()?,
            false => cachestat(file, &window).ok()?,
        };
        let is_cached = is_nearly_all(pages, end - at);
        match pieces.last_mut() {
            Some((last, same)) if *same == is_cached => last.end = end,
            _ => pieces.push((at..end, is_cached)),
        }
        at = end;
    }
    Some(pieces)
}

/// Pages of a byte range that are in the page cache, counted by cachestat alone: quick, and no
/// proof. Length 0 means up to the end.
pub fn cached_pages(file: &File, at: u64, length: u64) -> Result<u64, Errno> {
    syscall::cachestat(file.as_fd(), at, length).map(|stat| stat.cache)
}

/// Counts once by both system calls.
fn counted(file: &File, bytes: u64) -> Result<Residency, UnknownReason> {
    let is_permitted = is_mincore_permitted(file);
    let windows = match bytes {
        ..=WHOLE_MAX => vec![(0, bytes)],
        _ => windows(bytes, WINDOW),
    };
    match syscall::cachestat(file.as_fd(), 0, 0) {
        Ok(stat) if !is_permitted => Ok(Residency::counted(bytes, stat, CountedBy::Cachestat)),
        Ok(stat) => match mincore(file, &windows) {
            Ok(mincore) => {
                let whole = windows.len() == 1;
                let cachestat = if whole { stat.cache } else { cachestat(file, &windows)? };
                let looked_at: u64 = windows.iter().map(|(_, length)| length).sum();
                if agree(cachestat, mincore, looked_at.div_ceil(page() as u64)) {
                    Ok(Residency::counted(bytes, stat, CountedBy::Both))
                } else {
                    Err(UnknownReason::Disagreement { cachestat, mincore })
                }
            }
            Err(_) => Ok(Residency::counted(bytes, stat, CountedBy::Cachestat)),
        },
        Err(Errno::PERM | Errno::ACCESS) if !is_permitted => Err(UnknownReason::NoPermission),
        Err(_) if is_permitted => {
            let every = [(0, bytes)];
            let cache = mincore(file, &every).map_err(UnknownReason::Failed)?;
            let stat = CacheStat { cache, ..CacheStat::default() };
            Ok(Residency::counted(bytes, stat, CountedBy::Mincore))
        }
        Err(_) => Err(UnknownReason::NoPermission),
    }
}

/// 0 never agrees with a count above 0, however small: overlayfs looks like that.
fn agree(cachestat: u64, mincore: u64, pages: u64) -> bool {
    let tolerance = TOLERANCE_PAGES.max((pages as f64 * TOLERANCE) as u64);
    (cachestat == 0) == (mincore == 0) && cachestat.abs_diff(mincore) <= tolerance
}

/// Whether mincore counts correctly: the rule of Linux mm/mincore.c `can_do_mincore`. Otherwise it
/// reports all pages resident.
fn is_mincore_permitted(file: &File) -> bool {
    let owned = fstat(file).is_ok_and(|stat| stat.st_uid == rustix::process::geteuid().as_raw());
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = rustix::fs::AtFlags::EACCESS;
    owned || rustix::fs::accessat(rustix::fs::CWD, path, Access::WRITE_OK, flags).is_ok()
}

/// Evenly spaced windows of a large file.
fn windows(bytes: u64, window: u64) -> Vec<(u64, u64)> {
    let page = page() as u64;
    let apart = (bytes - window) / (WINDOWS - 1) / page * page;
    (0..WINDOWS).map(|number| (number * apart, window)).collect()
}

fn mincore(file: &File, windows: &[(u64, u64)]) -> Result<u64, Errno> {
    let mut pages = 0;
    for &(at, length) in windows {
        let mut done = 0;
        while done < length {
            let step = (length - done).min(STEP);
            let resident = syscall::resident_pages(file.as_fd(), at + done, step as usize)?;
            pages += resident.iter().map(|page| u64::from(page & 1)).sum::<u64>();
            done += step;
        }
    }
    Ok(pages)
}

fn cachestat(file: &File, windows: &[(u64, u64)]) -> Result<u64, UnknownReason> {
    let count = |&(at, length): &(u64, u64)| syscall::cachestat(file.as_fd(), at, length);
    let counts: Result<Vec<CacheStat>, Errno> = windows.iter().map(count).collect();
    counts.map(|counts| counts.iter().map(|stat| stat.cache).sum()).map_err(UnknownReason::Failed)
}

/// Evicts a file from the page cache without root: writes dirty pages back and drops clean ones.
/// Returns the remaining residency. Pages mapped or locked by another process stay, as do all
/// pages of a memory file system.
pub fn evict(file: &File) -> Result<Residency, Errno> {
    match fdatasync(file) {
        // A file that cannot be synced has no dirty pages.
        Ok(()) | Err(Errno::INVAL | Errno::ROFS | Errno::NOTSUP) => {}
        Err(error) => return Err(error),
    }
    drop_clean(file)
}

/// As [`evict`], for a file that was synced: dirty pages of one that was written meanwhile are
/// written back too.
pub fn evict_clean(file: &File) -> Result<Residency, Errno> {
    let left = drop_clean(file)?;
    if left.dirty > 0 || left.writeback > 0 { evict(file) } else { Ok(left) }
}

fn drop_clean(file: &File) -> Result<Residency, Errno> {
    let mut left = residency_of(file);
    for _ in 0..EVICTIONS {
        // The kernel drops clean pages only: the sync above cleaned them.
        fadvise(file, 0, None::<NonZeroU64>, Advice::DontNeed)?;
        left = residency_of(file);
        if left.state == ResidencyState::Cold {
            break;
        }
        // Lets other CPUs drain their LRU batches.
        std::thread::yield_now();
    }
    Ok(left)
}

/// The end of the bytes from `at` on, at most `end`, that can be read without waiting for a device.
/// By mincore, to which a page that is still being read is not resident, as it is to cachestat.
/// `None` without the permission.
pub fn resident_to(file: &File, at: u64, end: u64) -> Option<u64> {
    let page = page() as u64;
    let from = at / page * page;
    let pages = is_mincore_permitted(file)
        .then(|| syscall::resident_pages(file.as_fd(), from, (end - from) as usize).ok())??;
    let missing = pages.iter().position(|state| state & 1 == 0);
    Some(missing.map_or(end, |missing| (from + missing as u64 * page).max(at)))
}

/// Reads a file into the page cache and returns its residency. Ends early on `stop`.
pub fn warm(file: &File, stop: &AtomicBool) -> Result<Residency, Errno> {
    warm_unless(file, &|| stop.load(Ordering::Relaxed))
}

/// As [`warm`]; ends early once `is_over`.
pub fn warm_unless(file: &File, is_over: &dyn Fn() -> bool) -> Result<Residency, Errno> {
    let mut block = MemoryPages::new(WARMING)?;
    let mut at = 0;
    while !is_over() {
        match rustix::io::pread(file, &mut block[..], at) {
            Ok(0) => break,
            Ok(read) => at += read as u64,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(residency_of(file))
}

/// The value written to /proc/sys/vm/drop_caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheKind {
    PageCache,
    /// Dentries and inodes.
    Slab,
    All,
}

/// Drops caches of the whole machine, which slows all processes. Needs root; in a container it
/// often fails with EROFS even so.
pub fn drop_caches(kind: CacheKind) -> std::io::Result<()> {
    let number = match kind {
        CacheKind::PageCache => "1",
        CacheKind::Slab => "2",
        CacheKind::All => "3",
    };
    // Not `fs::write`, which would create the file where /proc is not mounted.
    let mut file = std::fs::OpenOptions::new().write(true).open("/proc/sys/vm/drop_caches")?;
    // Only clean pages are dropped. Not before it is permitted: a sync may take minutes.
    rustix::fs::sync();
    std::io::Write::write_all(&mut file, number.as_bytes())
}

#[cfg(test)]
#[expect(clippy::print_stdout, reason = "a test that cannot run here says so")]
mod tests;
