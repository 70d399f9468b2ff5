//! How much of a file is in memory: proof of cold and warm, and the way from one to the other.
//!
//! cachestat(2) counts the pages, and mincore(2) is asked as well, because each is blind somewhere:
//! cachestat sees nothing on an overlay, whose pages belong to the file below, and mincore calls
//! all pages resident when one may not know. Where they cannot be brought together, or nobody may
//! know, the answer is [`State::Unknown`].

use std::fmt;
use std::fs::File;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Access, Advice, fadvise, fdatasync, fstat};
use rustix::io::Errno;

use crate::kernel::{self, CacheStat};
use crate::memory::{Pages, page};
use crate::subject::{Kind, size_of};

/// Up to this size mincore looks at every page beside cachestat.
const WHOLE_MAX: u64 = 256 << 20;
/// Above it, at so many windows of this size: a look at every page takes as long as reading a tenth
/// of the file from memory.
const WINDOWS: u64 = 16;
const WINDOW: u64 = 16 << 20;
/// mincore is asked for so much at once.
const STEP: u64 = 1 << 30;
/// The two ways may differ by this share, or this many pages: the machine works meanwhile.
const TOLERANCE: f64 = 0.01;
const TOLERANCE_PAGES: u64 = 32;
/// Pages that a processor is just about to put on a list are not dropped at the first try.
const EVICTIONS: u32 = 4;
/// Bytes read at a time to warm a file.
const WARMING: usize = 1 << 20;

/// Whether a file is in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum State {
    /// No page of it is.
    Cold,
    Mixed {
        /// How much of the file, above 0 and below 1.
        share: f64,
    },
    Warm,
    Unknown {
        why: Blind,
    },
}

impl State {
    /// In one word, as records have it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Mixed { .. } => "mixed",
            Self::Warm => "warm",
            Self::Unknown { .. } => "unknown",
        }
    }
}

/// Why nothing can be told of a file's pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blind {
    /// The file has no bytes.
    Empty,
    /// A directory, a FIFO, a character device or a socket: there are no pages.
    NoPages,
    /// The kernel tells only the owner, and those who may write the file.
    NotOurs,
    /// The two ways of counting contradict each other.
    Disagreement {
        cachestat: u64,
        mincore: u64,
    },
    /// A system call failed, with this error number.
    Failed(i32),
}

impl fmt::Display for Blind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "the file is empty"),
            Self::NoPages => write!(f, "it has no pages"),
            Self::NotOurs => {
                write!(f, "the kernel tells only the owner and those who may write the file")
            }
            Self::Disagreement { cachestat, mincore } => {
                write!(f, "cachestat counts {cachestat} pages in memory, mincore {mincore}")
            }
            Self::Failed(error) => {
                write!(f, "{}", std::io::Error::from_raw_os_error(*error))
            }
        }
    }
}

/// Which system call the answer rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Witness {
    Both,
    /// cachestat alone: mincore would not tell the truth here.
    Cachestat,
    /// mincore alone: there is no cachestat here, or it sees nothing.
    Mincore,
    Nobody,
}

impl fmt::Display for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Both => "cachestat and mincore agree",
            Self::Cachestat => "by cachestat",
            Self::Mincore => "by mincore",
            Self::Nobody => "by nobody",
        })
    }
}

/// What of a file is in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Residency {
    pub state: State,
    pub bytes: u64,
    /// Bytes in memory, by whole pages, but never more than the file has.
    pub cached: u64,
    /// Of these, not yet written to the device; 0 where only mincore tells.
    pub dirty: u64,
    /// Of these, being written just now.
    pub writeback: u64,
    pub witness: Witness,
}

impl Residency {
    fn unknown(bytes: u64, why: Blind) -> Self {
        let state = State::Unknown { why };
        Self { state, bytes, cached: 0, dirty: 0, writeback: 0, witness: Witness::Nobody }
    }

    fn counted(bytes: u64, stat: CacheStat, witness: Witness) -> Self {
        let in_bytes = |pages: u64| (pages * page() as u64).min(bytes);
        let all = bytes.div_ceil(page() as u64);
        let state = match stat.cache {
            0 => State::Cold,
            some if some < all => State::Mixed { share: some as f64 / all as f64 },
            _ => State::Warm,
        };
        Self {
            state,
            bytes,
            cached: in_bytes(stat.cache),
            dirty: in_bytes(stat.dirty),
            writeback: in_bytes(stat.writeback),
            witness,
        }
    }
}

/// How much of a file is in memory just now. Never fails: what cannot be told is `Unknown`.
pub fn of(file: &File) -> Residency {
    let bytes = match size_of(file) {
        Ok((Kind::Regular | Kind::Block, size)) => size.unwrap_or(0),
        Ok(_) => return Residency::unknown(0, Blind::NoPages),
        Err(error) => return Residency::unknown(0, Blind::Failed(error.raw_os_error())),
    };
    if bytes == 0 {
        return Residency::unknown(0, Blind::Empty);
    }
    let mut last = Blind::Empty;
    // A second look, because the two calls are not one moment.
    for _ in 0..2 {
        match counted(file, bytes) {
            Ok(residency) => return residency,
            Err(why) => last = why,
        }
    }
    // On an overlay, for good: what mincore sees is then there.
    match last {
        Blind::Disagreement { cachestat: 0, mincore } => {
            let stat = CacheStat { cache: mincore, ..CacheStat::default() };
            Residency::counted(bytes, stat, Witness::Mincore)
        }
        why => Residency::unknown(bytes, why),
    }
}

/// Pieces of a file, front to back, that are nearly all in memory (true) or not, cut at whole
/// multiples of `grain` bytes: one in twenty pages may be missing. None where it cannot be told.
pub fn pieces(file: &File, grain: u64) -> Option<Vec<(Range<u64>, bool)>> {
    let whole = of(file);
    let by_mincore = match whole.witness {
        Witness::Nobody => return None,
        Witness::Mincore => true,
        Witness::Both | Witness::Cachestat => false,
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
        let is_in_memory = pages * page() as u64 * 20 >= (end - at) * 19;
        match pieces.last_mut() {
            Some((last, same)) if *same == is_in_memory => last.end = end,
            _ => pieces.push((at..end, is_in_memory)),
        }
        at = end;
    }
    Some(pieces)
}

/// One look by both ways.
fn counted(file: &File, bytes: u64) -> Result<Residency, Blind> {
    let may_know = may_know(file);
    let windows = windows(bytes);
    match kernel::cachestat(file.as_fd(), 0, 0) {
        Ok(stat) if !may_know => Ok(Residency::counted(bytes, stat, Witness::Cachestat)),
        Ok(stat) => match mincore(file, &windows) {
            Ok(mincore) => {
                let whole = windows.len() == 1;
                let cachestat = if whole { stat.cache } else { cachestat(file, &windows)? };
                let looked_at: u64 = windows.iter().map(|(_, length)| length).sum();
                if agree(cachestat, mincore, looked_at.div_ceil(page() as u64)) {
                    Ok(Residency::counted(bytes, stat, Witness::Both))
                } else {
                    Err(Blind::Disagreement { cachestat, mincore })
                }
            }
            Err(_) => Ok(Residency::counted(bytes, stat, Witness::Cachestat)),
        },
        Err(Errno::PERM | Errno::ACCESS) if !may_know => Err(Blind::NotOurs),
        Err(_) if may_know => {
            let every = [(0, bytes)];
            let cache = mincore(file, &every).map_err(|e| Blind::Failed(e.raw_os_error()))?;
            let stat = CacheStat { cache, ..CacheStat::default() };
            Ok(Residency::counted(bytes, stat, Witness::Mincore))
        }
        Err(_) => Err(Blind::NotOurs),
    }
}

/// Nothing against something is no agreement, however little it is: that is how an overlay looks.
fn agree(cachestat: u64, mincore: u64, pages: u64) -> bool {
    let room = TOLERANCE_PAGES.max((pages as f64 * TOLERANCE) as u64);
    (cachestat == 0) == (mincore == 0) && cachestat.abs_diff(mincore) <= room
}

/// Whether mincore tells the truth: the rule of the kernel, who else calls all pages resident.
fn may_know(file: &File) -> bool {
    let owned = fstat(file).is_ok_and(|stat| stat.st_uid == rustix::process::geteuid().as_raw());
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = rustix::fs::AtFlags::EACCESS;
    owned || rustix::fs::accessat(rustix::fs::CWD, path, Access::WRITE_OK, flags).is_ok()
}

/// Where mincore looks: everywhere, or at windows spread evenly over a large file.
fn windows(bytes: u64) -> Vec<(u64, u64)> {
    if bytes <= WHOLE_MAX {
        return vec![(0, bytes)];
    }
    let page = page() as u64;
    let apart = (bytes - WINDOW) / (WINDOWS - 1) / page * page;
    (0..WINDOWS).map(|number| (number * apart, WINDOW)).collect()
}

fn mincore(file: &File, windows: &[(u64, u64)]) -> Result<u64, Errno> {
    let mut pages = 0;
    for &(at, length) in windows {
        let mut done = 0;
        while done < length {
            let step = (length - done).min(STEP);
            pages += kernel::resident_pages(file.as_fd(), at + done, step as usize)?;
            done += step;
        }
    }
    Ok(pages)
}

fn cachestat(file: &File, windows: &[(u64, u64)]) -> Result<u64, Blind> {
    let count = |&(at, length): &(u64, u64)| kernel::cachestat(file.as_fd(), at, length);
    let counts: Result<Vec<CacheStat>, Errno> = windows.iter().map(count).collect();
    counts
        .map(|counts| counts.iter().map(|stat| stat.cache).sum())
        .map_err(|error| Blind::Failed(error.raw_os_error()))
}

/// Takes a file out of memory, without root: writes its dirty pages, drops the clean ones, and
/// says what is left. Pages that another program has mapped or locked stay, and so does all of a
/// file that lives in memory only.
pub fn evict(file: &File) -> Result<Residency, Errno> {
    match fdatasync(file) {
        // What cannot be synced has no dirty pages.
        Ok(()) | Err(Errno::INVAL | Errno::ROFS | Errno::NOTSUP) => {}
        Err(error) => return Err(error),
    }
    let mut left = of(file);
    for _ in 0..EVICTIONS {
        fadvise(file, 0, None::<NonZeroU64>, Advice::DontNeed)?;
        left = of(file);
        if left.state == State::Cold {
            break;
        }
        // Gives other processors the time to put their pages on the lists.
        std::thread::yield_now();
    }
    Ok(left)
}

/// Reads a file into memory, and says how much of it is there. It stops early when told to.
pub fn warm(file: &File, stop: &AtomicBool) -> Result<Residency, Errno> {
    let mut block = Pages::new(WARMING)?;
    let mut at = 0;
    while !stop.load(Ordering::Relaxed) {
        match rustix::io::pread(file, &mut block[..], at) {
            Ok(0) => break,
            Ok(read) => at += read as u64,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(of(file))
}

/// What `/proc/sys/vm/drop_caches` is told to drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drop {
    Pages,
    Names,
    Both,
}

/// Drops caches of the whole machine. It slows every program, so only on request; needs root.
///
/// # Errors
/// Without root: EACCES or EPERM; in a container often EROFS.
pub fn drop_caches(what: Drop) -> std::io::Result<()> {
    rustix::fs::sync();
    let number = match what {
        Drop::Pages => "1",
        Drop::Names => "2",
        Drop::Both => "3",
    };
    // Not `fs::write`: the file is there or it is not, and must not be truncated into being.
    let mut file = std::fs::OpenOptions::new().write(true).open("/proc/sys/vm/drop_caches")?;
    std::io::Write::write_all(&mut file, number.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_against_something_is_no_agreement() {
        assert!(agree(0, 0, 1));
        assert!(!agree(0, 1, 1_000_000), "one page on an overlay");
        assert!(!agree(1, 0, 1_000_000));
        assert!(agree(1, TOLERANCE_PAGES + 1, 100));
        assert!(!agree(1, TOLERANCE_PAGES + 2, 100));
        assert!(agree(1_000_000, 990_001, 1_000_000));
        assert!(!agree(1_000_000, 989_999, 1_000_000));
    }

    #[test]
    fn a_large_file_is_looked_at_in_windows_from_its_first_page_to_its_last() {
        assert_eq!(windows(1), [(0, 1)]);
        let bytes = (100 << 30) + 12345;
        let windows = windows(bytes);
        assert_eq!(windows.len() as u64, WINDOWS);
        assert!(windows.iter().all(|(at, length)| at % page() as u64 == 0 && at + length <= bytes));
        let (at, length) = windows[windows.len() - 1];
        assert!(bytes - at - length < WINDOWS * page() as u64);
    }

    #[test]
    fn a_count_becomes_a_word_and_never_more_bytes_than_the_file_has() {
        let of = |cache| {
            let stat = CacheStat { cache, ..CacheStat::default() };
            Residency::counted(3 * page() as u64 - 1, stat, Witness::Both)
        };
        assert_eq!((of(0).state, of(0).cached), (State::Cold, 0));
        assert_eq!(of(1).state, State::Mixed { share: 1.0 / 3.0 });
        assert_eq!((of(3).state, of(3).cached), (State::Warm, 3 * page() as u64 - 1));
    }
}
