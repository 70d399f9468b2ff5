//! FaultCounts that wait for a device: pages of a file on a disk, which are proved to be in no page
//! cache of this system before each pass.

use fathom_record::Remedy;
use std::fs::File;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use fathom_measure::sampler::Fault;
use rustix::fs::{Advice, CWD, Mode, OFlags, fadvise, fdatasync, fstatfs, openat};
use rustix::io::Errno;
use rustix::mm::ProtFlags;
use rustix::param::page_size;

use super::anonymous::discard;
use super::cached::{Mapping, fill};
use super::pass::Faulting;
use crate::memory::page_faults::ExpectedFaults;

/// Distance of two pages that are touched: further than a fault maps or a file system reads at
/// once.
const DISTANCE: usize = 128 << 10;
/// How often eviction is tried before it is given up: a page may be in use for a moment.
const TRIES: usize = 20;
/// File systems that keep their files in memory, by the number in their `statfs`.
const IN_MEMORY: [(i64, &str); 3] =
    [(0x0102_1994, "tmpfs"), (0x8584_58f6, "ramfs"), (0x9584_58f6, "hugetlbfs")];
/// `cachestat`, which has one number on all architectures.
const SYS_CACHESTAT: libc::c_long = 451;

/// A file on a disk that has no name, so that nothing is left behind however this ends.
pub(super) struct Evicted {
    file: File,
    /// Before the file is closed.
    mapping: Mapping,
    order: Vec<usize>,
    sum: u64,
    folder: PathBuf,
    /// Whether the machine is a virtual one.
    guest: bool,
}

impl Evicted {
    /// So many pages to touch, of a file in the first of these folders that is on a disk.
    pub(super) fn of(pages: usize, folders: &[PathBuf], guest: bool) -> Result<Self, Fault> {
        let (mut file, folder) = on_a_disk(folders)?;
        let bytes = pages * DISTANCE;
        let written = fill(&mut file, bytes / page_size());
        written.map_err(|error| {
            let what = format!("write {} MiB in {}: {error}", bytes >> 20, folder.display());
            Fault::unavailable(what, Remedy::FreeTemporarySpace)
        })?;
        fdatasync(&file).map_err(|error| Fault::system("fdatasync", error))?;
        let mapping = Mapping::of(&file, bytes, ProtFlags::READ)?;
        // Without it the kernel reads ahead, and the next pages no longer wait.
        // SAFETY: advice on our own mapping that leaves its content alone.
        let advised = unsafe { libc::madvise(mapping.start.cast(), bytes, libc::MADV_RANDOM) };
        if advised != 0 {
            return Err(Fault::system("madvise", std::io::Error::last_os_error()));
        }
        Ok(Self { file, mapping, order: scattered(pages), sum: 0, folder, guest })
    }

    /// Pages of the file that are in the page cache.
    pub(super) fn resident(&self) -> Result<u64, Fault> {
        let mapped = self.resident_by_mincore()?;
        Ok(self.resident_by_cachestat().map_or(mapped, |cached| cached.max(mapped)))
    }

    /// How many names the file has.
    #[cfg(test)]
    pub(super) fn names(&self) -> std::io::Result<u64> {
        use std::os::unix::fs::MetadataExt as _;
        Ok(self.file.metadata()?.nlink())
    }

    /// Reads all of it into the page cache, and leaves none of it mapped.
    #[cfg(test)]
    pub(super) fn read_all(&self) -> Result<(), Fault> {
        self.mapping.sum();
        discard(self.mapping.start, self.mapping.bytes)
    }

    fn resident_by_mincore(&self) -> Result<u64, Fault> {
        let mut present = vec![0_u8; self.mapping.bytes / page_size()];
        let Mapping { start, bytes } = self.mapping;
        // SAFETY: there is a byte for each page of our own mapping.
        let asked = unsafe { libc::mincore(start.cast(), bytes, present.as_mut_ptr()) };
        if asked != 0 {
            return Err(Fault::system("mincore", std::io::Error::last_os_error()));
        }
        Ok(present.iter().filter(|byte| **byte & 1 != 0).count() as u64)
    }

    /// Unknown before Linux 6.5, and where it is forbidden.
    fn resident_by_cachestat(&self) -> Option<u64> {
        let range = [0_u64, self.mapping.bytes as u64];
        // Cached, dirty, under writeback, evicted, recently evicted.
        let mut counts = [0_u64; 5];
        let descriptor = self.file.as_raw_fd();
        // SAFETY: both pointers are to as many words as the call reads and writes.
        let asked = unsafe {
            libc::syscall(SYS_CACHESTAT, descriptor, range.as_ptr(), counts.as_mut_ptr(), 0)
        };
        (asked == 0).then_some(counts[0])
    }
}

impl Faulting for Evicted {
    fn pages(&self) -> usize {
        self.order.len()
    }

    fn expected(&self) -> ExpectedFaults {
        ExpectedFaults::major(self.pages())
    }

    fn take_away(&mut self) -> Result<(), Fault> {
        discard(self.mapping.start, self.mapping.bytes)?;
        let mut resident = 0;
        for _ in 0..TRIES {
            fadvise(&self.file, 0, None, Advice::DontNeed)
                .map_err(|error| Fault::system("posix_fadvise", error))?;
            resident = self.resident()?;
            if resident == 0 {
                return Ok(());
            }
        }
        let what = format!(
            "{resident} of {} pages of a file in {} stay in the page cache though they were \
             written and given up",
            self.mapping.bytes / page_size(),
            self.folder.display()
        );
        Err(Fault::unavailable(what, Remedy::DiskFolder))
    }

    fn touch(&mut self) {
        self.sum = 0;
        for slot in &self.order {
            // SAFETY: within the mapping, which is readable and aligned.
            let word =
                unsafe { self.mapping.start.add(slot * DISTANCE).cast::<u64>().read_volatile() };
            self.sum = self.sum.wrapping_add(word);
        }
    }

    fn verify(&mut self) -> Result<(), Fault> {
        let pages_apart = DISTANCE / page_size();
        let sum: u64 = (0..self.pages()).map(|slot| (slot * pages_apart) as u64 + 1).sum();
        if sum == self.sum {
            return Ok(());
        }
        Err(Fault::WrongWork("what was read is not what had been written".to_owned()))
    }

    fn check(&mut self) -> Result<(bool, String), Fault> {
        let proved = match self.resident_by_cachestat() {
            Some(_) => "mincore and cachestat",
            None => "mincore",
        };
        let host = if self.guest { "; guest-cold: the host may still hold them" } else { "" };
        Ok((true, format!("absent from the page cache before each pass, by {proved}{host}")))
    }
}

/// The first folder of a file system that keeps files on a disk, with a nameless file in it.
fn on_a_disk(folders: &[PathBuf]) -> Result<(File, PathBuf), Fault> {
    let mut reasons = Vec::new();
    for folder in folders {
        match nameless(folder) {
            Ok(file) => return Ok((File::from(file), folder.clone())),
            Err(reason) => reasons.push(format!("{}: {reason}", folder.display())),
        }
    }
    let what = format!("no folder for a file on a disk ({})", reasons.join(", "));
    Err(Fault::unavailable(what, Remedy::DiskFolder))
}

/// Why a folder does not do.
#[derive(Debug, thiserror::Error)]
enum NotOnDisk {
    #[error("a file without a name: {0}")]
    Failed(#[from] Errno),
    #[error("{0} keeps files in memory")]
    InMemory(&'static str),
}

fn nameless(folder: &Path) -> Result<OwnedFd, NotOnDisk> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = openat(CWD, folder, flags, Mode::RUSR | Mode::WUSR)?;
    let system = fstatfs(&file)?;
    // The type has another width and sign on other architectures.
    let kind = system.f_type as i64 & 0xffff_ffff;
    match IN_MEMORY.iter().find(|(number, _)| *number == kind) {
        Some((_, name)) => Err(NotOnDisk::InMemory(name)),
        None => Ok(file),
    }
}

/// All numbers below `count`, in an order in which no two follow each other as a device would
/// guess: by steps of the golden section.
fn scattered(count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_key(|number| (*number as u32).wrapping_mul(0x9e37_79b1));
    order
}
