//! Memory of a known size that is really there, in small pages: written, never swapped, never
//! gathered into huge ones.

use std::ffi::c_void;
use std::ops::Range;
use std::ptr;

use fathom_measure::sampler::Fault;
use rustix::mm::{
    Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap_anonymous, mprotect, munmap,
};

/// How far the kernel's count may stand from what was asked, as a share.
const DEVIATION_MAX: f64 = 0.01;

/// Private memory that grows step by step. Every page of it up to the last step is resident.
///
/// A page that nobody may touch lies before and behind it, so that the kernel does not join it to
/// a neighbour and count the two as one.
pub(super) struct Resident {
    mapping: *mut c_void,
    guard_bytes: usize,
    reserved_bytes: usize,
    written_bytes: usize,
}

impl Resident {
    /// Room for `bytes`, a whole number of pages, none of it resident yet.
    pub(super) fn reserve(bytes: usize) -> Result<Self, Fault> {
        let no_room = |error| {
            Fault::Unavailable(format!(
                "map {} MiB: {error}; raise `ulimit -v`, or free memory",
                bytes >> 20
            ))
        };
        let guard_bytes = rustix::param::page_size();
        let (nothing, flags) = (ProtFlags::empty(), MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: a new mapping at a place the kernel chooses.
        let mapping =
            unsafe { mmap_anonymous(ptr::null_mut(), bytes + 2 * guard_bytes, nothing, flags) };
        let mapping = mapping.map_err(no_room)?;
        let resident = Self { mapping, guard_bytes, reserved_bytes: bytes, written_bytes: 0 };
        let protection = MprotectFlags::READ | MprotectFlags::WRITE;
        // SAFETY: pages of the new mapping, which nothing points into.
        unsafe { mprotect(resident.start().cast(), bytes, protection) }.map_err(no_room)?;
        // SAFETY: advice on the same pages. A kernel without huge pages refuses it, and then there
        // is nothing to advise against; whether there are any is looked up afterwards.
        let _ = unsafe { madvise(resident.start().cast(), bytes, Advice::LinuxNoHugepage) };
        Ok(resident)
    }

    fn start(&self) -> *mut u8 {
        self.mapping.cast::<u8>().wrapping_add(self.guard_bytes)
    }

    /// Makes the first `bytes` resident by writing to each page that is not yet.
    pub(super) fn grow_to(&mut self, bytes: usize) {
        assert!(bytes <= self.reserved_bytes, "grown beyond what was reserved");
        for offset in (self.written_bytes..bytes).step_by(rustix::param::page_size()) {
            // SAFETY: the offset lies within the mapping, which is writable and ours alone.
            unsafe { self.start().add(offset).write_volatile(1) };
        }
        self.written_bytes = bytes;
    }

    /// Holds what the kernel counts against what was written: whether the two agree and nothing
    /// became huge, and the counts in words.
    ///
    /// # Errors
    /// Where the kernel does not tell, so that the size would be a belief.
    pub(super) fn check(&self) -> Result<(bool, String), Fault> {
        let start = self.start().addr() as u64;
        let range = start..start + self.reserved_bytes as u64;
        match std::fs::read_to_string("/proc/self/smaps") {
            Ok(text) => Ok(counted(&text, &range).against(self.written_bytes as u64)),
            Err(error) => Err(Fault::Unavailable(format!(
                "what is resident cannot be verified: read /proc/self/smaps: {error}; mount /proc"
            ))),
        }
    }
}

impl Drop for Resident {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nothing points into it any more.
        let unmapped = unsafe { munmap(self.mapping, self.reserved_bytes + 2 * self.guard_bytes) };
        debug_assert!(unmapped.is_ok(), "munmap refuses only a wrong address");
    }
}

/// What the kernel counts in a range of addresses, in bytes.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counted {
    resident: u64,
    huge: u64,
    swapped: u64,
}

impl Counted {
    fn against(&self, asked: u64) -> (bool, String) {
        let deviation = self.resident.abs_diff(asked) as f64;
        let passed = deviation <= DEVIATION_MAX * asked as f64 && self.huge == 0;
        let Self { resident, huge, swapped } = self;
        (passed, format!("{resident} of {asked} bytes resident, {huge} huge, {swapped} swapped"))
    }
}

/// Sums over the mappings that `/proc/self/smaps` lists within a range.
fn counted(smaps: &str, range: &Range<u64>) -> Counted {
    let mut counted = Counted::default();
    let mut within = false;
    for line in smaps.lines() {
        if let Some(mapping) = addresses(line) {
            within = mapping.start < range.end && range.start < mapping.end;
        } else if within {
            let Some((key, value)) = line.split_once(':') else { continue };
            let kib = value.trim().strip_suffix(" kB").and_then(|text| text.trim().parse().ok());
            let bytes = kib.map_or(0, |kib: u64| kib << 10);
            match key {
                "Rss" => counted.resident += bytes,
                "AnonHugePages" => counted.huge += bytes,
                "Swap" => counted.swapped += bytes,
                _ => {}
            }
        }
    }
    counted
}

/// The addresses of a line that opens a mapping: `7f0000000000-7f0000100000 rw-p …`.
fn addresses(line: &str) -> Option<Range<u64>> {
    let (start, rest) = line.split_once('-')?;
    let (end, _) = rest.split_once(' ')?;
    Some(u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
55d0-55e0 r--p 00000000 fe:00 12 /usr/bin/fathom-with-a-dash
Rss:                   4 kB
AnonHugePages:      2048 kB
7f00-7f80 rw-p 00000000 00:00 0
Size:               1024 kB
Rss:                1020 kB
Swap:                  4 kB
AnonHugePages:         0 kB
VmFlags: rd wr mr mw me ac nh
";

    #[test]
    fn only_the_mapping_asked_for_is_counted() {
        let of = |range| counted(SMAPS, &range);
        let there = Counted { resident: 1020 << 10, huge: 0, swapped: 4 << 10 };
        assert_eq!(of(0x7f00..0x7f80), there);
        assert_eq!(of(0x55d0..0x55e0), Counted { resident: 4096, huge: 2 << 20, swapped: 0 });
        assert_eq!(of(0x7f80..0x8000), Counted::default());
    }

    #[test]
    fn too_little_too_much_or_huge_is_not_what_was_asked() {
        let passes = |resident, huge| Counted { resident, huge, swapped: 0 }.against(1 << 20).0;
        assert!(passes(1 << 20, 0) && passes((1 << 20) - 4096, 0));
        assert!(!passes(900 << 10, 0), "swapped out or never there");
        assert!(!passes(2 << 20, 0));
        assert!(!passes(1 << 20, 2 << 20));
    }

    #[test]
    fn it_is_resident_as_far_as_it_has_grown() {
        let mut resident = Resident::reserve(4 << 20).unwrap();
        resident.grow_to(1 << 20);
        let (passed, detail) = resident.check().unwrap();
        assert!(passed, "{detail}");
        resident.grow_to(3 << 20);
        let (passed, detail) = resident.check().unwrap();
        assert!(passed && detail.starts_with("3145728 of 3145728"), "{detail}");
        resident.written_bytes = 4 << 20;
        assert!(!resident.check().unwrap().0, "what was not written is not resident");
    }
}
