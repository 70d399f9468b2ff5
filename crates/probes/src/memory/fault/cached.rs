//! FaultCounts of a file in the page cache: mapped page by page, mapped whole, and written
//! privately.

use fathom_record::Remedy;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::ptr;

use fathom_measure::sampler::Fault;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use rustix::param::page_size;

use super::anonymous::{discard, sum_of_each, write_each};
use super::pass::Faulting;
use crate::memory::page_faults::ExpectedFaults;

/// Where in a page a private copy is written: behind the word by which the page is known.
const WRITTEN_AT: usize = 64;

/// Addresses of ours, unmapped when dropped.
pub(super) struct Mapping {
    pub(super) start: *mut u8,
    pub(super) bytes: usize,
}

impl Mapping {
    /// A file from its beginning on.
    pub(super) fn of(file: &File, bytes: usize, protection: ProtFlags) -> Result<Self, Fault> {
        // SAFETY: a new mapping at a place the kernel chooses.
        let place = unsafe { mmap(ptr::null_mut(), bytes, protection, MapFlags::PRIVATE, file, 0) };
        let mapping = Self { start: place.map_err(no_room)?.cast(), bytes };
        mapping.by_small_pages();
        Ok(mapping)
    }

    /// A file page by page in reverse, so that no page is of one mapping with its neighbour: a
    /// fault maps nothing around itself.
    fn apart(file: &File, bytes: usize) -> Result<Self, Fault> {
        let page = page_size();
        let nothing = ProtFlags::empty();
        // SAFETY: a new mapping at a place the kernel chooses.
        let place = unsafe { mmap_anonymous(ptr::null_mut(), bytes, nothing, MapFlags::PRIVATE) };
        let mapping = Self { start: place.map_err(no_room)?.cast(), bytes };
        for offset in (0..bytes).step_by(page) {
            let flags = MapFlags::PRIVATE | MapFlags::FIXED;
            let from = (bytes - page - offset) as u64;
            // SAFETY: in place of a page of our own, which nothing points into.
            let placed = unsafe {
                mmap(mapping.start.add(offset).cast(), page, ProtFlags::READ, flags, file, from)
            };
            placed.map_err(no_room)?;
        }
        mapping.by_small_pages();
        Ok(mapping)
    }

    /// Files in memory may be kept by huge pages: they are not to be mapped so. A kernel without
    /// huge pages refuses the advice, and needs none.
    fn by_small_pages(&self) {
        // SAFETY: advice on our own mapping that leaves its content alone.
        unsafe { libc::madvise(self.start.cast(), self.bytes, libc::MADV_NOHUGEPAGE) };
    }

    /// The sum of the words by which its pages are known.
    pub(super) fn sum(&self) -> u64 {
        // SAFETY: mapped, and readable in every mapping that is made here.
        unsafe { sum_of_each(self.start, self.bytes, page_size()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nothing points into it any more.
        let unmapped = unsafe { munmap(self.start.cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "munmap refuses only a wrong address");
    }
}

fn no_room(error: rustix::io::Errno) -> Fault {
    match error {
        rustix::io::Errno::NOMEM => {
            let remedy = Remedy::raise(&["`ulimit -v`", "vm.max_map_count"]);
            Fault::unavailable(format!("map a file: {error}"), remedy)
        }
        error => Fault::system("mmap", error),
    }
}

/// A page's content, by its number: no page is all zeros, and no two are alike.
pub(super) fn content(page: usize) -> Vec<u8> {
    let mut word = page as u64 + 1;
    let mut words = Vec::with_capacity(page_size());
    while words.len() < page_size() {
        words.extend(word.to_ne_bytes());
        word = word.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (word >> 29);
    }
    words
}

/// What [`Mapping::sum`] gives for so many pages.
fn sum_of(pages: usize) -> u64 {
    (1..=pages as u64).sum()
}

/// Writes so many pages.
pub(super) fn fill(file: &mut File, pages: usize) -> std::io::Result<()> {
    (0..pages).try_for_each(|page| file.write_all(&content(page)))
}

/// How a cached file is touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Read where each page is a mapping of its own.
    Apart,
    /// Read in order where it is mapped whole: a fault may map what lies around.
    Whole,
    /// Written where it is mapped privately and was read before: a fault copies the page.
    Copied,
}

/// A file without a name in the page cache.
pub(super) struct Cached {
    mapping: Mapping,
    way: Way,
    /// Kept open: it is what is mapped.
    file: File,
    sum: u64,
}

impl Cached {
    pub(super) fn of(bytes: usize, way: Way) -> Result<Self, Fault> {
        let file = memfd_create("fathom", MemfdFlags::CLOEXEC);
        let mut file = File::from(file.map_err(|error| Fault::system("memfd_create", error))?);
        let filled = fill(&mut file, bytes / page_size());
        filled.map_err(|error| Fault::system("write", error))?;
        let mapping = match way {
            Way::Apart => Mapping::apart(&file, bytes)?,
            Way::Whole => Mapping::of(&file, bytes, ProtFlags::READ)?,
            Way::Copied => Mapping::of(&file, bytes, ProtFlags::READ | ProtFlags::WRITE)?,
        };
        Ok(Self { mapping, way, file, sum: 0 })
    }

    fn holds(&self, sum: u64) -> Result<(), Fault> {
        if sum == sum_of(self.pages()) {
            return Ok(());
        }
        Err(Fault::WrongWork("the mapped pages are not those of the file".to_owned()))
    }
}

impl Faulting for Cached {
    fn pages(&self) -> usize {
        self.mapping.bytes / page_size()
    }

    fn expected(&self) -> ExpectedFaults {
        match self.way {
            Way::Apart | Way::Copied => ExpectedFaults::one_per_page(self.pages()),
            // How much lies around a fault is the kernel's matter.
            Way::Whole => ExpectedFaults::minor(1..=self.pages() as u64),
        }
    }

    fn take_away(&mut self) -> Result<(), Fault> {
        discard(self.mapping.start, self.mapping.bytes)?;
        if self.way == Way::Copied {
            let sum = self.mapping.sum();
            self.holds(sum)?;
        }
        Ok(())
    }

    fn touch(&mut self) {
        match self.way {
            Way::Apart | Way::Whole => self.sum = self.mapping.sum(),
            Way::Copied => {
                // SAFETY: mapped, writable, ours; the last page is as long as the others.
                unsafe {
                    let start = self.mapping.start.add(WRITTEN_AT);
                    write_each(start, self.mapping.bytes - WRITTEN_AT, page_size());
                }
            }
        }
    }

    fn verify(&mut self) -> Result<(), Fault> {
        match self.way {
            Way::Apart | Way::Whole => self.holds(self.sum),
            // A copy has what the page had.
            Way::Copied => self.holds(self.mapping.sum()),
        }
    }

    /// The file itself must be as it was: what was written were copies.
    fn check(&mut self) -> Result<(bool, String), Fault> {
        let last = self.pages() - 1;
        let mut found = vec![0; page_size()];
        let from = (last * page_size()) as u64;
        let read = rustix::io::pread(self.file.as_fd(), &mut found, from);
        read.map_err(|error| Fault::system("pread", error))?;
        let same = found == content(last);
        let words = if same { "the file is as it was" } else { "the file itself was written" };
        Ok((same, words.to_owned()))
    }
}
