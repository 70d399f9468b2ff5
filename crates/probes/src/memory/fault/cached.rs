//! Faults of a file in the page cache: mapped page by page, mapped whole, and copied on write.

use std::fs::File;
use std::io::Write as _;
use std::ops::Range;
use std::os::fd::AsFd as _;
use std::ptr;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use rustix::param::page_size;

use super::anonymous::{discard, sum_of_each, write_each};
use super::pass::FaultSource;
use crate::memory::page_faults::ExpectedFaults;
use crate::prelude::*;

/// Offset of the write in a page: after the word that identifies the page.
const WRITTEN_AT: usize = 64;

/// Unmapped on drop.
pub(super) struct Mapping {
    pub(super) start: *mut u8,
    pub(super) bytes: usize,
}

impl Mapping {
    /// One mapping of a file.
    pub(super) fn whole(file: &File, bytes: usize, protection: ProtFlags) -> Result<Self> {
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe { mmap(ptr::null_mut(), bytes, protection, MapFlags::PRIVATE, file, 0) };
        let mapping = Self { start: start.map_err(map_error)?.cast(), bytes };
        mapping.disable_huge_pages();
        Ok(mapping)
    }

    /// One mapping per page in reverse order, which the kernel cannot merge: a fault maps no
    /// adjacent page (fault-around).
    fn page_by_page(file: &File, bytes: usize) -> Result<Self> {
        let page = page_size();
        let nothing = ProtFlags::empty();
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), bytes, nothing, MapFlags::PRIVATE) };
        let mapping = Self { start: start.map_err(map_error)?.cast(), bytes };
        for offset in (0..bytes).step_by(page) {
            // FIXED at addresses of the reserved range, so that the pages are adjacent.
            let flags = MapFlags::PRIVATE | MapFlags::FIXED;
            let from = (bytes - page - offset) as u64;
            // SAFETY: replaces a page of our own mapping, into which nothing points.
            let mapped = unsafe {
                mmap(mapping.start.add(offset).cast(), page, ProtFlags::READ, flags, file, from)
            };
            mapped.map_err(map_error)?;
        }
        mapping.disable_huge_pages();
        Ok(mapping)
    }

    /// The page cache of a memfd may use huge pages. A kernel without huge pages rejects the advice
    /// and needs none.
    fn disable_huge_pages(&self) {
        // SAFETY: advice on our own mapping that does not change its contents.
        unsafe { libc::madvise(self.start.cast(), self.bytes, libc::MADV_NOHUGEPAGE) };
    }

    /// The sum of the words that identify these pages.
    pub(super) fn sum(&self, pages: Range<usize>) -> u64 {
        let step = page_size();
        // SAFETY: every mapping of this module is readable, and has these pages.
        unsafe { sum_of_each(self.start.add(pages.start * step), pages.len() * step, step) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: our own mapping, and no pointer into it remains.
        let unmapped = unsafe { munmap(self.start.cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "munmap fails for a wrong address only");
    }
}

fn map_error(error: rustix::io::Errno) -> SamplerFault {
    match error {
        rustix::io::Errno::NOMEM => {
            let remedy = Remedy::raise(&["`ulimit -v`", "vm.max_map_count"]);
            SamplerFault::unavailable(format!("map a file: {error}"), remedy)
        }
        error => SamplerFault::system("mmap", error),
    }
}

/// The content of a page by its number: never all zeros, and different for each page.
pub(super) fn content(page: usize) -> Vec<u8> {
    let mut word = page as u64 + 1;
    let mut words = Vec::with_capacity(page_size());
    while words.len() < page_size() {
        words.extend(word.to_ne_bytes());
        word = word.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (word >> 29);
    }
    words
}

/// The expected [`Mapping::sum`].
fn sum_of(pages: usize) -> u64 {
    (1..=pages as u64).sum()
}

pub(super) fn fill(file: &mut File, pages: usize) -> std::io::Result<()> {
    (0..pages).try_for_each(|page| file.write_all(&content(page)))
}

/// How a cached file is mapped and accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CachedAccess {
    /// Reads pages with a mapping each.
    PageByPage,
    /// Reads one mapping in order: a fault may map adjacent pages (fault-around).
    Whole,
    /// Writes a private mapping that was read before: a fault copies the page.
    CopyOnWrite,
}

/// A memfd.
pub(super) struct Cached {
    mapping: Mapping,
    access: CachedAccess,
    file: File,
    sum: u64,
}

impl Cached {
    pub(super) fn new(bytes: usize, access: CachedAccess) -> Result<Self> {
        // A memfd lives in the page cache only: without swapping no device is read.
        let file = memfd_create("fathom", MemfdFlags::CLOEXEC);
        let mut file =
            File::from(file.map_err(|error| SamplerFault::system("memfd_create", error))?);
        let filled = fill(&mut file, bytes / page_size());
        filled.map_err(|error| SamplerFault::system("write", error))?;
        let mapping = match access {
            CachedAccess::PageByPage => Mapping::page_by_page(&file, bytes)?,
            CachedAccess::Whole => Mapping::whole(&file, bytes, ProtFlags::READ)?,
            CachedAccess::CopyOnWrite => {
                Mapping::whole(&file, bytes, ProtFlags::READ | ProtFlags::WRITE)?
            }
        };
        Ok(Self { mapping, access, file, sum: 0 })
    }

    fn check_sum(&self, sum: u64) -> Result<()> {
        if sum == sum_of(self.pages()) {
            return Ok(());
        }
        Err(SamplerFault::WrongWork("the mapped pages are not the pages of the file".to_owned()))
    }
}

impl FaultSource for Cached {
    fn pages(&self) -> usize {
        self.mapping.bytes / page_size()
    }

    fn expected(&self) -> ExpectedFaults {
        match self.access {
            CachedAccess::Whole => ExpectedFaults::minor(1..=self.pages() as u64),
            _ => ExpectedFaults::one_per_page(self.pages()),
        }
    }

    fn prepare(&mut self) -> Result<()> {
        self.sum = 0;
        discard(self.mapping.start, self.mapping.bytes)?;
        if self.access == CachedAccess::CopyOnWrite {
            self.check_sum(self.mapping.sum(0..self.pages()))?;
        }
        Ok(())
    }

    fn touch(&mut self, pages: Range<usize>) {
        if self.access != CachedAccess::CopyOnWrite {
            self.sum = self.sum.wrapping_add(self.mapping.sum(pages));
            return;
        }
        let step = page_size();
        // SAFETY: mapped, writable and ours; the length ends with the last page.
        unsafe {
            let start = self.mapping.start.add(pages.start * step + WRITTEN_AT);
            write_each(start, pages.len() * step - WRITTEN_AT, step);
        }
    }

    fn verify(&mut self) -> Result<()> {
        match self.access {
            // The copies have the words of the pages.
            CachedAccess::CopyOnWrite => self.check_sum(self.mapping.sum(0..self.pages())),
            _ => self.check_sum(self.sum),
        }
    }

    /// The writes must not have changed the file.
    fn check(&mut self) -> Result<(bool, String)> {
        let last = self.pages() - 1;
        let mut data = vec![0; page_size()];
        let from = (last * page_size()) as u64;
        let read = rustix::io::pread(self.file.as_fd(), &mut data, from);
        read.map_err(|error| SamplerFault::system("pread", error))?;
        let same = data == content(last);
        Ok((same, if same { "file unchanged" } else { "the file was written" }.to_owned()))
    }
}
