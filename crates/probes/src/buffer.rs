//! Memory of a known size that is really there, by pages of a known size on a known node: written,
//! and held against what the kernel says of it.

use fathom_record::Remedy;
use std::ffi::c_void;
use std::fs;
use std::ops::Range;
use std::ptr;

use fathom_measure::sampler::Fault;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

use crate::smaps::{self, Counted};

/// How far the kernel's count may stand from what was asked, as a share.
const DEVIATION_MAX: f64 = 0.01;
/// Huge pages of this many bytes where the kernel does not say.
const HUGE_BYTES: usize = 2 << 20;
/// Settings of transparent huge pages.
const THP: &str = "/sys/kernel/mm/transparent_hugepage";

/// The pages that a buffer is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Page {
    /// Of the kernel's base size, 4 KiB on most machines, and never gathered into huge ones.
    Base,
    /// Huge: gathered by the kernel on advice.
    Huge,
}

impl Page {
    /// Both kinds.
    pub(crate) const ALL: [Self; 2] = [Self::Base, Self::Huge];

    /// Its name as a parameter: `4K` (or whatever the base page is), `huge`.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Base => format!("{}K", rustix::param::page_size() >> 10),
            Self::Huge => "huge".to_owned(),
        }
    }

    /// The kind of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|page| page.name() == name)
    }

    /// Its size in bytes.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::Base => rustix::param::page_size(),
            Self::Huge => {
                let told = fs::read_to_string(format!("{THP}/hpage_pmd_size")).ok();
                told.and_then(|text| text.trim().parse().ok()).unwrap_or(HUGE_BYTES)
            }
        }
    }
}

/// Private memory that grows page by page. All of it up to where it has grown is resident.
///
/// A page that nobody may touch lies before and behind it, so that the kernel does not join it to
/// a neighbour and count the two as one.
pub(crate) struct Buffer {
    mapping: *mut c_void,
    mapping_bytes: usize,
    start: *mut u8,
    reserved_bytes: usize,
    written_bytes: usize,
    page: Page,
    /// NUMA node of the CPU that wrote it first.
    node: Option<u32>,
}

// SAFETY: the mapping is the buffer's own, and every access to it goes through a borrow or a raw
// pointer whose user answers for it.
unsafe impl Send for Buffer {}

impl Buffer {
    /// Room for `bytes`, rounded up to whole pages, none of it resident yet.
    ///
    /// # Errors
    /// `Unavailable` where the address space is limited, or there are no huge pages to be had.
    pub(crate) fn reserve(bytes: usize, page: Page) -> Result<Self, Fault> {
        let no_room = |error| {
            let what = format!("map {}: {error}", in_words(bytes as u64));
            Fault::unavailable(what, Remedy::raise(&["`ulimit -v`"]))
        };
        if page == Page::Huge {
            huge_pages_are_allowed()?;
        }
        let page_bytes = page.bytes();
        let reserved_bytes = bytes.next_multiple_of(page_bytes);
        // Huge pages lie at multiples of their size only.
        let mapping_bytes = reserved_bytes + 2 * page_bytes;
        let (nothing, flags) = (ProtFlags::empty(), MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: a new mapping at a place the kernel chooses.
        let mapping = unsafe { mmap_anonymous(ptr::null_mut(), mapping_bytes, nothing, flags) };
        let mapping = mapping.map_err(no_room)?;
        let first = (mapping.addr() + 1).next_multiple_of(page_bytes);
        let start = mapping.cast::<u8>().wrapping_add(first - mapping.addr());
        let (written_bytes, node) = (0, None);
        let buffer =
            Self { mapping, mapping_bytes, start, reserved_bytes, written_bytes, page, node };
        let protection = MprotectFlags::READ | MprotectFlags::WRITE;
        // SAFETY: pages of the new mapping, which nothing points into.
        unsafe { mprotect(start.cast(), reserved_bytes, protection) }.map_err(no_room)?;
        buffer.advise(match page {
            Page::Base => libc::MADV_NOHUGEPAGE,
            Page::Huge => libc::MADV_HUGEPAGE,
        });
        Ok(buffer)
    }

    /// Reserves and writes all of it.
    ///
    /// # Errors
    /// As [`Self::reserve`].
    pub(crate) fn of(bytes: usize, page: Page) -> Result<Self, Fault> {
        let mut buffer = Self::reserve(bytes, page)?;
        buffer.grow_to(buffer.reserved_bytes);
        Ok(buffer)
    }

    /// Advice is not obeyed always: what became of it is looked up afterwards.
    fn advise(&self, advice: libc::c_int) {
        // SAFETY: advice on our own pages that leaves their content alone.
        unsafe { libc::madvise(self.start.cast(), self.reserved_bytes, advice) };
    }

    /// Gathers what a fault got as small pages, because memory was in pieces just then: huge page
    /// by huge page, since the kernel gives up a range at the first that fails, and more than once,
    /// since what makes room is set to work by the first try. Pages that are huge cost a look.
    fn gather(&self) {
        const TRIES: usize = 3;
        let bytes = self.page.bytes();
        for offset in (0..self.written_bytes).step_by(bytes) {
            let start = self.start.wrapping_add(offset);
            for _ in 0..TRIES {
                // SAFETY: advice on our own pages that leaves their content alone.
                if unsafe { libc::madvise(start.cast(), bytes, libc::MADV_COLLAPSE) } == 0 {
                    break;
                }
            }
        }
    }

    /// Its first byte.
    pub(crate) fn start(&self) -> *mut u8 {
        self.start
    }

    /// Bytes up to where it has grown.
    pub(crate) fn bytes(&self) -> usize {
        self.written_bytes
    }

    /// Makes the first `bytes` resident by writing to each page that is not yet, from the calling
    /// thread: its CPU's node is where they are then expected.
    pub(crate) fn grow_to(&mut self, bytes: usize) {
        assert!(bytes <= self.reserved_bytes, "grown beyond what was reserved");
        for offset in (self.written_bytes..bytes).step_by(rustix::param::page_size()) {
            // SAFETY: the offset lies within the mapping, which is writable and ours alone.
            unsafe { self.start.add(offset).write_volatile(1) };
        }
        self.written_bytes = self.written_bytes.max(bytes);
        self.node = self.node.or_else(current_node);
        if self.page == Page::Huge {
            self.gather();
        }
    }

    /// Holds what the kernel counts against what was asked: whether all of it is resident, by the
    /// pages asked for, on the node of the CPU that wrote it; and the counts in words.
    ///
    /// # Errors
    /// `Unavailable` where the kernel does not tell, so that it would be a belief.
    pub(crate) fn check(&self) -> Result<(bool, String), Fault> {
        let untold = |error| {
            let what = "which pages a buffer has cannot be verified: read /proc/self/smaps";
            Fault::unavailable(format!("{what}: {error}"), Remedy::MountProc)
        };
        let text = fs::read_to_string("/proc/self/smaps").map_err(untold)?;
        let (passed, mut detail) = self.holds(&smaps::counted(&text, &self.range()));
        let elsewhere = self.pages_elsewhere();
        if elsewhere > 0 {
            detail += &format!(", {elsewhere} pages on another node");
        }
        Ok((passed && elsewhere == 0, detail))
    }

    /// Its addresses, as far as they are reserved.
    pub(crate) fn range(&self) -> Range<u64> {
        let start = self.start.addr() as u64;
        start..start + self.reserved_bytes as u64
    }

    fn holds(&self, counted: &Counted) -> (bool, String) {
        let Counted { resident, huge, swapped } = counted;
        // A huge page that has been written to anywhere is there as a whole.
        let asked = self.written_bytes.next_multiple_of(self.page.bytes()) as u64;
        let close = |bytes: u64| bytes.abs_diff(asked) as f64 <= DEVIATION_MAX * asked as f64;
        let as_asked = match self.page {
            Page::Base => *huge == 0,
            Page::Huge => close(*huge),
        };
        let detail =
            format!("{resident} of {asked} bytes resident, {huge} huge, {swapped} swapped");
        (close(*resident) && as_asked && *swapped == 0, detail)
    }

    /// Pages that lie on another node than that of the CPU that wrote them first; 0 where there
    /// is one node only, or the kernel does not tell.
    fn pages_elsewhere(&self) -> u64 {
        let text = fs::read_to_string("/proc/self/numa_maps").unwrap_or_default();
        let nodes = smaps::nodes(&text, &self.range());
        let Some(own) = self.node else { return 0 };
        nodes.iter().filter(|(node, _)| **node != own).map(|(_, pages)| pages).sum()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nothing points into it any more.
        let unmapped = unsafe { munmap(self.mapping, self.mapping_bytes) };
        debug_assert!(unmapped.is_ok(), "munmap refuses only a wrong address");
    }
}

/// A whole number of MiB or KiB.
pub(crate) fn in_words(bytes: u64) -> String {
    match bytes {
        _ if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ => format!("{} KiB", bytes >> 10),
    }
}

/// Whether the kernel gathers huge pages on advice.
fn huge_pages_are_allowed() -> Result<(), Fault> {
    let refused =
        |why: &str, remedy| Err(Fault::Unavailable(format!("no huge pages: {why}"), remedy));
    let none: libc::c_ulong = 0;
    // SAFETY: takes plain numbers and tells one.
    if unsafe { libc::prctl(libc::PR_GET_THP_DISABLE, none, none, none, none) } == 1 {
        let why = "they are forbidden to this process (PR_SET_THP_DISABLE)";
        return refused(why, Some(Remedy::StartWithHugePages));
    }
    match fs::read_to_string(format!("{THP}/enabled")) {
        Ok(text) if text.contains("[never]") => {
            refused(&format!("{THP}/enabled is `never`"), Some(Remedy::AdviseHugePages))
        }
        Ok(_) => Ok(()),
        Err(error) => refused(&format!("{THP}/enabled: {error}"), None),
    }
}

/// The NUMA node of the CPU that this thread runs on.
fn current_node() -> Option<u32> {
    let mut node = 0_u32;
    let nowhere = ptr::null_mut::<u32>();
    // SAFETY: writes the node to a valid place; a null pointer asks for nothing.
    let answer = unsafe { libc::syscall(libc::SYS_getcpu, nowhere, &raw mut node, nowhere) };
    (answer == 0).then_some(node)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smoke;

    fn holds(page: Page, resident: u64, huge: u64, swapped: u64) -> bool {
        let mut buffer = Buffer::reserve(4 << 20, page).unwrap();
        buffer.written_bytes = 4 << 20;
        buffer.holds(&Counted { resident, huge, swapped }).0
    }

    #[test]
    fn too_little_too_much_or_pages_of_another_size_are_not_what_was_asked() {
        const ALL: u64 = 4 << 20;
        assert!(holds(Page::Base, ALL, 0, 0) && holds(Page::Base, ALL - 4096, 0, 0));
        assert!(!holds(Page::Base, 3 << 20, 0, 0), "swapped out or never there");
        assert!(!holds(Page::Base, 2 * ALL, 0, 0));
        assert!(!holds(Page::Base, ALL, 2 << 20, 0), "huge where small ones were asked for");
        assert!(!holds(Page::Base, ALL, 0, 4096), "swapped");
    }

    #[test]
    fn small_pages_where_huge_ones_were_asked_for_are_not_what_was_asked() {
        if huge_pages_are_allowed().is_err() {
            return smoke::skipped("no huge pages");
        }
        assert!(holds(Page::Huge, 4 << 20, 4 << 20, 0));
        assert!(!holds(Page::Huge, 4 << 20, 2 << 20, 0));
        assert!(!holds(Page::Huge, 4 << 20, 0, 0));
    }

    #[test]
    fn it_is_resident_as_far_as_it_has_grown() {
        let mut buffer = Buffer::reserve(4 << 20, Page::Base).unwrap();
        buffer.grow_to(1 << 20);
        let (passed, detail) = buffer.check().unwrap();
        assert!(passed, "{detail}");
        buffer.grow_to(3 << 20);
        let (passed, detail) = buffer.check().unwrap();
        assert!(passed && detail.starts_with("3145728 of 3145728"), "{detail}");
        buffer.written_bytes = 4 << 20;
        assert!(!buffer.check().unwrap().0, "what was not written is not resident");
    }

    #[test]
    fn huge_pages_are_had_or_found_missing() {
        let Ok(buffer) = Buffer::of(8 << 20, Page::Huge) else {
            return smoke::skipped("no huge pages");
        };
        let bytes = Page::Huge.bytes();
        assert_eq!(buffer.start().addr() % bytes, 0);
        let (_, detail) = buffer.check().unwrap();
        // Whether memory is free in such pieces is the machine's matter; that it is there is not.
        assert!(detail.starts_with("8388608 of 8388608 bytes resident"), "{detail}");
    }

    #[test]
    fn a_page_on_another_node_is_found() {
        let mut buffer = Buffer::of(1 << 20, Page::Base).unwrap();
        assert_eq!(buffer.pages_elsewhere(), 0);
        buffer.node = Some(1000);
        let told = fs::exists("/proc/self/numa_maps").unwrap_or(false);
        assert_eq!(buffer.pages_elsewhere() > 0, told);
    }

    #[test]
    fn a_kind_of_page_is_known_by_its_name() {
        for page in Page::ALL {
            assert_eq!(Page::named(&page.name()), Some(page));
        }
        assert_eq!(Page::named("2K"), None);
    }
}
