//! Resident memory with a known page size on a known NUMA node: written once, then verified against
//! `/proc/self/smaps` and `/proc/self/numa_maps`.

use std::ffi::c_void;
use std::fs;
use std::io;
use std::ops::Range;
use std::ptr;
use std::time::Duration;

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

use crate::shared::Result;
use crate::smaps::{self, MemoryUsage};
use fathom_measure::sampler::SamplerFault;
use fathom_record::Remedy;

/// Relative deviation of the kernel's count from the requested bytes.
const DEVIATION_MAX: f64 = 0.01;
/// Used where the kernel does not report the size of a huge page.
const HUGE_BYTES_DEFAULT: usize = 2 << 20;
const THP: &str = "/sys/kernel/mm/transparent_hugepage";

/// Page size of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum BufferPage {
    /// The kernel's base page size, 4 KiB on most machines, without transparent huge pages.
    Base,
    /// Transparent huge pages, by `madvise`.
    Huge,
}

impl BufferPage {
    pub(crate) const ALL: [Self; 2] = [Self::Base, Self::Huge];

    /// Parameter value: `4K` (or the host's base page size), `huge`.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Base => format!("{}K", rustix::param::page_size() >> 10),
            Self::Huge => "huge".to_owned(),
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|page| page.name() == name)
    }

    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::Base => rustix::param::page_size(),
            Self::Huge => {
                let text = fs::read_to_string(format!("{THP}/hpage_pmd_size")).ok();
                text.and_then(|text| text.trim().parse().ok()).unwrap_or(HUGE_BYTES_DEFAULT)
            }
        }
    }
}

/// Private anonymous memory, resident up to its written size.
///
/// A guard page before and after it keeps the kernel from merging it with an adjacent mapping,
/// whose pages would then be counted too.
pub(crate) struct Buffer {
    mapping: *mut c_void,
    mapping_bytes: usize,
    start: *mut u8,
    reserved_bytes: usize,
    written_bytes: usize,
    page: BufferPage,
    /// NUMA node of the CPU that wrote the first page.
    node: Option<u32>,
}

// SAFETY: the buffer owns the mapping, and every access goes through a borrow or through a raw
// pointer whose user is responsible for it.
unsafe impl Send for Buffer {}

impl Buffer {
    /// Maps `bytes`, rounded up to whole pages, without making them resident.
    ///
    /// # Errors
    /// `Unavailable` where the address space is limited or huge pages are disabled.
    pub(crate) fn reserve(bytes: usize, page: BufferPage) -> Result<Self> {
        let unavailable = |error| {
            let what = format!("map {}: {error}", binary_size(bytes as u64));
            SamplerFault::unavailable(what, Remedy::raise(&["`ulimit -v`"]))
        };
        if page == BufferPage::Huge {
            huge_pages_are_allowed()?;
        }
        let page_bytes = page.bytes();
        let reserved_bytes = bytes.next_multiple_of(page_bytes);
        // A guard page on either side, or alignment to a huge page.
        let mapping_bytes = reserved_bytes + 2 * page_bytes;
        let (nothing, flags) = (ProtFlags::empty(), MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: a new mapping at an address that the kernel chooses.
        let mapping = unsafe { mmap_anonymous(ptr::null_mut(), mapping_bytes, nothing, flags) };
        let mapping = mapping.map_err(unavailable)?;
        let first = (mapping.addr() + 1).next_multiple_of(page_bytes);
        let start = mapping.cast::<u8>().wrapping_add(first - mapping.addr());
        let (written_bytes, node) = (0, None);
        let buffer =
            Self { mapping, mapping_bytes, start, reserved_bytes, written_bytes, page, node };
        let protection = MprotectFlags::READ | MprotectFlags::WRITE;
        // SAFETY: pages of the new mapping, which nothing points into.
        unsafe { mprotect(start.cast(), reserved_bytes, protection) }.map_err(unavailable)?;
        let advice = match page {
            BufferPage::Base => libc::MADV_NOHUGEPAGE,
            BufferPage::Huge => libc::MADV_HUGEPAGE,
        };
        // The kernel may ignore the advice: `check` verifies the result.
        // SAFETY: advice on our own pages that does not change their contents.
        unsafe { libc::madvise(start.cast(), reserved_bytes, advice) };
        Ok(buffer)
    }

    /// Reserves `bytes` and makes all of them resident.
    pub(crate) fn with_bytes(bytes: usize, page: BufferPage) -> Result<Self> {
        let mut buffer = Self::reserve(bytes, page)?;
        buffer.grow_to(buffer.reserved_bytes);
        Ok(buffer)
    }

    /// Collapses base pages that faults returned because memory was fragmented. One huge page per
    /// call, because the kernel stops a range at the first failure; several tries, because the
    /// first one starts compaction; and later again, because after a failure the kernel defers it.
    /// Pages that are huge already cost one lookup.
    fn collapse(&self, from: usize) {
        const TRIES: usize = 3;
        const ROUNDS: u32 = 6;
        const PAUSE: Duration = Duration::from_millis(50);
        let bytes = self.page.bytes();
        let is_small = |offset: &usize| {
            let start = self.start.wrapping_add(*offset);
            // SAFETY: advice on our own pages that does not change their contents.
            let collapse = || unsafe { libc::madvise(start.cast(), bytes, libc::MADV_COLLAPSE) };
            // Linux before 6.1 knows no such advice.
            let is_unknown = || io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL);
            (0..TRIES).all(|_| collapse() != 0 && !is_unknown())
        };
        let mut left: Vec<usize> =
            (from / bytes * bytes..self.written_bytes).step_by(bytes).collect();
        for round in 1..=ROUNDS {
            left.retain(is_small);
            if left.is_empty() || round == ROUNDS {
                break;
            }
            std::thread::sleep(PAUSE * round);
        }
    }

    pub(crate) fn start(&self) -> *mut u8 {
        self.start
    }

    /// The bytes that `grow_to` made resident.
    pub(crate) fn bytes(&self) -> usize {
        self.written_bytes
    }

    /// Makes the first `bytes` resident by writing to each new page. The pages are then expected on
    /// the NUMA node of the calling thread's CPU (first touch).
    pub(crate) fn grow_to(&mut self, bytes: usize) {
        assert!(bytes <= self.reserved_bytes, "more bytes than reserved");
        for offset in (self.written_bytes..bytes).step_by(rustix::param::page_size()) {
            // SAFETY: the offset is inside our own writable mapping.
            unsafe { self.start.add(offset).write_volatile(1) };
        }
        let before = self.written_bytes;
        self.written_bytes = before.max(bytes);
        self.node = self.node.or_else(current_node);
        if self.page == BufferPage::Huge {
            self.collapse(before);
        }
    }

    /// Whether all written bytes are resident, with the requested page size, on the node of the CPU
    /// that wrote them; and the kernel's counts as text.
    ///
    /// # Errors
    /// `Unavailable` where `/proc/self/smaps` cannot be read.
    pub(crate) fn check(&self) -> Result<(bool, String)> {
        let (passed, mut detail) = self.matches(&self.usage()?);
        let elsewhere = self.pages_elsewhere();
        if elsewhere > 0 {
            detail += &format!(", {elsewhere} pages on another node");
        }
        Ok((passed && elsewhere == 0, detail))
    }

    /// The kernel's counts for the reserved range.
    ///
    /// # Errors
    /// `Unavailable` where `/proc/self/smaps` cannot be read.
    pub(crate) fn usage(&self) -> Result<MemoryUsage> {
        let text = fs::read_to_string("/proc/self/smaps").map_err(|error| {
            let what = "the page sizes of a buffer cannot be verified: read /proc/self/smaps";
            SamplerFault::unavailable(format!("{what}: {error}"), Remedy::MountProc)
        })?;
        Ok(smaps::usage(&text, &self.range()))
    }

    fn range(&self) -> Range<u64> {
        let start = self.start.addr() as u64;
        start..start + self.reserved_bytes as u64
    }

    fn matches(&self, usage: &MemoryUsage) -> (bool, String) {
        let MemoryUsage { resident, huge, swapped } = usage;
        // One write makes a whole huge page resident.
        let expected = self.written_bytes.next_multiple_of(self.page.bytes()) as u64;
        let close = |bytes: u64| bytes.abs_diff(expected) as f64 <= DEVIATION_MAX * expected as f64;
        let has_page_size = match self.page {
            BufferPage::Base => *huge == 0,
            BufferPage::Huge => close(*huge),
        };
        let mut detail =
            format!("{resident} of {expected} bytes resident, {huge} huge, {swapped} swapped");
        if self.page == BufferPage::Huge && close(*resident) && !has_page_size {
            let [huge, expected] = [*huge, expected].map(binary_size);
            detail = format!(
                "{huge} of {expected} in huge pages; fragmented memory is the usual cause: root \
                 frees some with `echo 1 > /proc/sys/vm/compact_memory`"
            );
        }
        (close(*resident) && has_page_size && *swapped == 0, detail)
    }

    /// Pages on a node other than that of the writing CPU; 0 where the kernel reports no nodes.
    fn pages_elsewhere(&self) -> u64 {
        let text = fs::read_to_string("/proc/self/numa_maps").unwrap_or_default();
        let nodes = smaps::nodes(&text, &self.range());
        let Some(own) = self.node else { return 0 };
        nodes.iter().filter(|(node, _)| **node != own).map(|(_, pages)| pages).sum()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: our own mapping, and no pointer into it remains.
        let unmapped = unsafe { munmap(self.mapping, self.mapping_bytes) };
        debug_assert!(unmapped.is_ok(), "munmap fails for a wrong address only");
    }
}

/// A size as a whole number of MiB or KiB.
pub(crate) fn binary_size(bytes: u64) -> String {
    match bytes {
        _ if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ => format!("{} KiB", bytes >> 10),
    }
}

fn huge_pages_are_allowed() -> Result<()> {
    let disabled =
        |why: &str, remedy| Err(SamplerFault::Unavailable(format!("no huge pages: {why}"), remedy));
    let unused: libc::c_ulong = 0;
    // SAFETY: passes and returns integers only.
    if unsafe { libc::prctl(libc::PR_GET_THP_DISABLE, unused, unused, unused, unused) } == 1 {
        let why = "disabled for this process (PR_SET_THP_DISABLE)";
        return disabled(why, Some(Remedy::StartWithHugePages));
    }
    match fs::read_to_string(format!("{THP}/enabled")) {
        Ok(text) if text.contains("[never]") => {
            disabled(&format!("{THP}/enabled is `never`"), Some(Remedy::AdviseHugePages))
        }
        Ok(_) => Ok(()),
        Err(error) => disabled(&format!("{THP}/enabled: {error}"), None),
    }
}

fn current_node() -> Option<u32> {
    let mut node = 0_u32;
    let unused = ptr::null_mut::<u32>();
    // SAFETY: writes the node to a valid address and skips null pointers.
    let status = unsafe { libc::syscall(libc::SYS_getcpu, unused, &raw mut node, unused) };
    (status == 0).then_some(node)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smoke;

    const BYTES: u64 = 4 << 20;

    /// Whether a 4 MiB buffer accepts these counts of resident, huge and swapped bytes.
    fn matches(page: BufferPage, [resident, huge, swapped]: [u64; 3]) -> bool {
        let mut buffer = Buffer::reserve(BYTES as usize, page).unwrap();
        buffer.written_bytes = BYTES as usize;
        buffer.matches(&MemoryUsage { resident, huge, swapped }).0
    }

    #[test]
    fn wrong_residency_or_page_size_fails_the_check() {
        for usage in [[BYTES, 0, 0], [BYTES - 4096, 0, 0]] {
            assert!(matches(BufferPage::Base, usage));
        }
        let swapped = [BYTES, 0, 4096];
        for usage in [[3 << 20, 0, 0], [2 * BYTES, 0, 0], [BYTES, 2 << 20, 0], swapped] {
            assert!(!matches(BufferPage::Base, usage), "{usage:?}");
        }
        if huge_pages_are_allowed().is_err() {
            return smoke::skipped("no huge pages");
        }
        assert!(matches(BufferPage::Huge, [BYTES, BYTES, 0]));
        assert!(
            !matches(BufferPage::Huge, [BYTES, 2 << 20, 0])
                && !matches(BufferPage::Huge, [BYTES, 0, 0])
        );
    }

    /// The bytes of a buffer that exist: the kernel may page out some at any time.
    fn existing(buffer: &Buffer) -> u64 {
        let MemoryUsage { resident, swapped, .. } = buffer.usage().unwrap();
        resident + swapped
    }

    #[test]
    fn buffer_exists_up_to_its_written_size() {
        let mut buffer = Buffer::reserve(4 << 20, BufferPage::Base).unwrap();
        for written in [1 << 20, 3 << 20] {
            buffer.grow_to(written);
            assert_eq!(existing(&buffer), written as u64);
            assert!(buffer.check().unwrap().1.contains(&format!(" of {written} bytes resident")));
        }
        buffer.written_bytes = 4 << 20;
        assert!(!buffer.check().unwrap().0, "unwritten pages are not resident");
    }

    #[test]
    fn huge_page_buffer_is_aligned_and_exists() {
        let Ok(buffer) = Buffer::with_bytes(8 << 20, BufferPage::Huge) else {
            return smoke::skipped("no huge pages");
        };
        assert_eq!(buffer.start().addr() % BufferPage::Huge.bytes(), 0);
        // With fragmented memory the pages may be small, but all must exist.
        assert_eq!(existing(&buffer), 8 << 20);
    }

    #[test]
    fn page_on_another_node_is_counted() {
        smoke::pinned(|_| {
            let mut buffer = Buffer::with_bytes(1 << 20, BufferPage::Base).unwrap();
            assert_eq!(buffer.pages_elsewhere(), 0);
            buffer.node = Some(1000);
            let has_nodes = fs::exists("/proc/self/numa_maps").unwrap_or(false);
            assert_eq!(buffer.pages_elsewhere() > 0, has_nodes);
        });
    }
}
