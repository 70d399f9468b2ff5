//! FaultCounts of memory that belongs to no file: written, only read, fresh, and by huge pages.

use fathom_measure::sampler::Fault;
use fathom_record::Remedy;
use rustix::mm::{Advice, madvise};
use rustix::param::page_size;

use super::pass::Faulting;
use crate::buffer::{Buffer, Page, binary_size};
use crate::smaps;

/// Takes the pages of some memory away, so that it faults again. What it held is gone.
pub(super) fn discard(start: *mut u8, bytes: usize) -> Result<(), Fault> {
    // SAFETY: the callers pass mappings of their own, which hold nothing that is read afterwards.
    let outcome = unsafe { madvise(start.cast(), bytes, Advice::LinuxDontNeed) };
    outcome.map_err(|error| Fault::system("madvise", error))
}

/// Writes to a byte of each page.
///
/// # Safety
/// The memory must be mapped, writable, and nobody else's.
pub(super) unsafe fn write_each(start: *mut u8, bytes: usize, step: usize) {
    for offset in (0..bytes).step_by(step) {
        // SAFETY: the caller answers for the memory.
        unsafe { start.add(offset).write_volatile(1) };
    }
}

/// Reads the first word of each page, and adds them up.
///
/// # Safety
/// The memory must be mapped and readable.
pub(super) unsafe fn sum_of_each(start: *const u8, bytes: usize, step: usize) -> u64 {
    let mut sum = 0_u64;
    for offset in (0..bytes).step_by(step) {
        // SAFETY: the caller answers for the memory; pages are aligned for words.
        sum = sum.wrapping_add(unsafe { start.add(offset).cast::<u64>().read_volatile() });
    }
    sum
}

/// Memory that this process has had before: written, taken away, written again.
pub(super) struct Settled {
    buffer: Buffer,
    bytes: usize,
}

impl Settled {
    pub(super) fn of(bytes: usize) -> Result<Self, Fault> {
        Ok(Self { buffer: Buffer::reserve(bytes, Page::Base)?, bytes })
    }
}

impl Faulting for Settled {
    fn pages(&self) -> usize {
        self.bytes / page_size()
    }
    fn take_away(&mut self) -> Result<(), Fault> {
        discard(self.buffer.start(), self.bytes)
    }
    fn touch(&mut self) {
        // SAFETY: as much is reserved, writable and ours.
        unsafe { write_each(self.buffer.start(), self.bytes, page_size()) }
    }
    fn check(&mut self) -> Result<(bool, String), Fault> {
        self.buffer.grow_to(self.bytes);
        self.buffer.check()
    }
}

/// Memory that is read before anybody wrote it.
pub(super) struct Unwritten {
    buffer: Buffer,
    bytes: usize,
    sum: u64,
}

impl Unwritten {
    pub(super) fn of(bytes: usize) -> Result<Self, Fault> {
        Ok(Self { buffer: Buffer::reserve(bytes, Page::Base)?, bytes, sum: 0 })
    }
}

impl Faulting for Unwritten {
    fn pages(&self) -> usize {
        self.bytes / page_size()
    }
    fn take_away(&mut self) -> Result<(), Fault> {
        discard(self.buffer.start(), self.bytes)
    }
    fn touch(&mut self) {
        // SAFETY: as much is reserved and readable.
        self.sum = unsafe { sum_of_each(self.buffer.start(), self.bytes, page_size()) };
    }
    fn verify(&mut self) -> Result<(), Fault> {
        match self.sum {
            0 => Ok(()),
            sum => Err(Fault::WrongWork(format!("untouched memory read as {sum}, not as zeros"))),
        }
    }
    /// Nothing was grown, so nothing may be resident: the zero page is nobody's.
    fn check(&mut self) -> Result<(bool, String), Fault> {
        self.buffer.check()
    }
}

/// Memory that this process has not had before, as long as there is room.
pub(super) struct Fresh {
    held: Vec<Buffer>,
    bytes: usize,
    held_max: usize,
    given_back: u32,
}

impl Fresh {
    /// Passes of `bytes`, all of which are held until `held_max` of them are.
    pub(super) fn of(bytes: usize, held_max: usize) -> Self {
        Self { held: Vec::new(), bytes, held_max: held_max.max(1), given_back: 0 }
    }
}

impl Faulting for Fresh {
    fn pages(&self) -> usize {
        self.bytes / page_size()
    }
    fn take_away(&mut self) -> Result<(), Fault> {
        if self.held.len() >= self.held_max {
            self.held.clear();
            self.given_back += 1;
        }
        self.held.push(Buffer::reserve(self.bytes, Page::Base)?);
        Ok(())
    }
    fn touch(&mut self) {
        let Some(fresh) = self.held.last() else { return };
        // SAFETY: as much is reserved, writable and ours.
        unsafe { write_each(fresh.start(), self.bytes, page_size()) }
    }
    fn check(&mut self) -> Result<(bool, String), Fault> {
        let held = self.held.len();
        let Some(last) = self.held.last_mut() else { return Ok((true, String::new())) };
        last.grow_to(self.bytes);
        let (passed, detail) = last.check()?;
        let mut detail = format!("{detail}; {} held", binary_size((held * self.bytes) as u64));
        if self.given_back > 0 {
            let most = binary_size((self.held_max * self.bytes) as u64);
            detail += &format!(", given back {} times: at most {most} held", self.given_back);
        }
        Ok((passed, detail))
    }
}

/// Memory by huge pages.
pub(super) struct Huge {
    buffer: Buffer,
    bytes: usize,
    detail: String,
}

impl Huge {
    pub(super) fn of(bytes: usize) -> Result<Self, Fault> {
        let buffer = Buffer::reserve(bytes, Page::Huge)?;
        Ok(Self { buffer, bytes, detail: String::new() })
    }
}

impl Faulting for Huge {
    fn pages(&self) -> usize {
        self.bytes / Page::Huge.bytes()
    }
    fn take_away(&mut self) -> Result<(), Fault> {
        discard(self.buffer.start(), self.bytes)
    }
    fn touch(&mut self) {
        // SAFETY: as much is reserved, writable and ours.
        unsafe { write_each(self.buffer.start(), self.bytes, Page::Huge.bytes()) }
    }
    /// The count cannot tell: where there is no huge page, the fault gives a small one.
    fn verify(&mut self) -> Result<(), Fault> {
        let text = std::fs::read_to_string("/proc/self/smaps").map_err(|error| {
            let what = "whether pages are huge cannot be verified: read /proc/self/smaps";
            Fault::unavailable(format!("{what}: {error}"), Remedy::MountProc)
        })?;
        let huge = smaps::counted(&text, &self.buffer.range()).huge;
        self.detail = format!("{huge} of {} bytes by huge pages, each pass", self.bytes);
        if huge == self.bytes as u64 {
            return Ok(());
        }
        let (huge, asked) = (binary_size(huge), binary_size(self.bytes as u64));
        let what =
            format!("the kernel gave {huge} of {asked} by huge pages, though it was advised to");
        Err(Fault::unavailable(what, Remedy::AllowHugePages))
    }
    fn check(&mut self) -> Result<(bool, String), Fault> {
        Ok((true, self.detail.clone()))
    }
}
