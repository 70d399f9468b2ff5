//! Major faults: pages of a file on a disk, verified to be absent from the page cache before each
//! pass.

use std::fs::File;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use fathom_fileio::filesystem::{FileSystem, FilesystemClass};
use fathom_fileio::residency::{self, ResidencyState};
use rustix::fs::{CWD, Mode, OFlags, fstatfs, openat};
use rustix::io::Errno;
use rustix::mm::ProtFlags;
use rustix::param::page_size;

use super::anonymous::discard;
use super::cached::{Mapping, fill};
use super::pass::FaultSource;
use crate::memory::page_faults::ExpectedFaults;
use crate::prelude::*;

/// Distance between accessed pages, beyond fault-around and file-system block sizes.
const DISTANCE: usize = 128 << 10;
/// A page can be in use briefly.
const TRIES: usize = 5;

/// An unnamed file (O_TMPFILE), so that a crash leaves nothing behind.
pub(super) struct Evicted {
    file: File,
    mapping: Mapping,
    order: Vec<usize>,
    sum: u64,
    folder: PathBuf,
    is_guest: bool,
}

impl Evicted {
    /// A file in the first of these folders that is on a disk.
    pub(super) fn new(pages: usize, folders: &[PathBuf], is_guest: bool) -> Result<Self> {
        let (mut file, folder) = create_on_disk(folders)?;
        let bytes = pages * DISTANCE;
        let written = fill(&mut file, bytes / page_size());
        written.map_err(|error| {
            let what = format!("write {} MiB in {}: {error}", bytes >> 20, folder.display());
            SamplerFault::unavailable(what, Remedy::FreeTemporarySpace)
        })?;
        let mapping = Mapping::whole(&file, bytes, ProtFlags::READ)?;
        // Disables readahead, with which the next pages would not cause major faults.
        // SAFETY: advice on our own mapping that does not change its contents.
        let advised = unsafe { libc::madvise(mapping.start.cast(), bytes, libc::MADV_RANDOM) };
        if advised != 0 {
            return Err(SamplerFault::system("madvise", std::io::Error::last_os_error()));
        }
        Ok(Self { file, mapping, order: scattered(pages), sum: 0, folder, is_guest })
    }
}

impl FaultSource for Evicted {
    fn pages(&self) -> usize {
        self.order.len()
    }

    fn expected(&self) -> ExpectedFaults {
        ExpectedFaults::major(self.pages())
    }

    fn parts(&self) -> usize {
        1
    }

    fn prepare(&mut self) -> Result<()> {
        self.sum = 0;
        // First the page tables: the kernel does not evict mapped pages.
        discard(self.mapping.start, self.mapping.bytes)?;
        for _ in 0..TRIES {
            let residency = residency::evict(&self.file);
            let residency =
                residency.map_err(|error| SamplerFault::system("posix_fadvise", error))?;
            if residency.state == ResidencyState::Cold {
                return Ok(());
            }
        }
        let folder = self.folder.display();
        let what = format!("POSIX_FADV_DONTNEED does not evict a file in {folder}");
        Err(SamplerFault::unavailable(what, Remedy::DiskFolder))
    }

    fn touch(&mut self, pages: Range<usize>) {
        for slot in &self.order[pages] {
            // SAFETY: inside the readable mapping, and aligned.
            let word =
                unsafe { self.mapping.start.add(slot * DISTANCE).cast::<u64>().read_volatile() };
            self.sum = self.sum.wrapping_add(word);
        }
    }

    fn verify(&mut self) -> Result<()> {
        let pages_apart = DISTANCE / page_size();
        let sum: u64 = (0..self.pages()).map(|slot| (slot * pages_apart) as u64 + 1).sum();
        if sum == self.sum {
            return Ok(());
        }
        Err(SamplerFault::WrongWork("the data read is not the data written".to_owned()))
    }

    fn check(&mut self) -> Result<(bool, String)> {
        let host = if self.is_guest { "; guest-cold: the host may cache them" } else { "" };
        Ok((true, format!("not in the page cache before each pass{host}")))
    }
}

/// An unnamed file in the first folder that is on a disk.
fn create_on_disk(folders: &[PathBuf]) -> Result<(File, PathBuf)> {
    let mut reasons = Vec::new();
    for folder in folders {
        match create_unnamed(folder) {
            Ok(file) => return Ok((File::from(file), folder.clone())),
            Err(reason) => reasons.push(format!("{}: {reason}", folder.display())),
        }
    }
    let what = format!("no folder on a disk ({})", reasons.join(", "));
    Err(SamplerFault::unavailable(what, Remedy::DiskFolder))
}

fn create_unnamed(folder: &Path) -> Result<OwnedFd, String> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let failed = |error: Errno| format!("unnamed file: {error}");
    let file = openat(CWD, folder, flags, Mode::RUSR | Mode::WUSR).map_err(failed)?;
    let system = FileSystem::of_magic(fstatfs(&file).map_err(failed)?.f_type as u64);
    match system.class {
        FilesystemClass::Memory => Err(format!("{} keeps files in memory", system.name)),
        _ => Ok(file),
    }
}

/// The numbers below `count` in an order without sequential pairs (golden-ratio hash), so that no
/// readahead applies.
fn scattered(count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_key(|number| (*number as u32).wrapping_mul(0x9e37_79b1));
    order
}
