//! Faults of anonymous memory: reused, read before written, new, and with huge pages.

use std::ops::Range;

use rustix::mm::{Advice, madvise};
use rustix::param::page_size;

use super::pass::{FaultSource, PARTS};
use crate::prelude::*;

/// Frees the pages of a mapping, so that the next access faults.
pub(super) fn discard(start: *mut u8, bytes: usize) -> Result<()> {
    // SAFETY: the callers pass their own mappings, whose contents are not read afterwards.
    let outcome = unsafe { madvise(start.cast(), bytes, Advice::LinuxDontNeed) };
    outcome.map_err(|error| SamplerFault::system("madvise", error))
}

/// Writes one byte per page. Volatile: the compiler must not merge or drop the stores.
///
/// # Safety
/// The memory must be mapped, writable and unshared.
pub(super) unsafe fn write_each(start: *mut u8, bytes: usize, step: usize) {
    for offset in (0..bytes).step_by(step) {
        // SAFETY: guaranteed by the caller.
        unsafe { start.add(offset).write_volatile(1) };
    }
}

/// The sum of the first word of each page.
///
/// # Safety
/// The memory must be mapped and readable.
pub(super) unsafe fn sum_of_each(start: *const u8, bytes: usize, step: usize) -> u64 {
    let mut sum = 0_u64;
    for offset in (0..bytes).step_by(step) {
        // SAFETY: guaranteed by the caller; pages are aligned for words.
        sum = sum.wrapping_add(unsafe { start.add(offset).cast::<u64>().read_volatile() });
    }
    sum
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Writes base pages that this process had before.
    Write,
    /// Reads before the first write: maps the zero page.
    Read,
    WriteHuge,
}

/// Memory that is freed and accessed again.
pub(super) struct Reused {
    buffer: Buffer,
    bytes: usize,
    page: BufferPage,
    access: Access,
    sum: u64,
    huge_bytes: u64,
}

impl Reused {
    pub(super) fn new(bytes: usize, access: Access) -> Result<Self> {
        let page = if access == Access::WriteHuge { BufferPage::Huge } else { BufferPage::Base };
        let buffer = Buffer::reserve(bytes, page)?;
        Ok(Self { buffer, bytes, page, access, sum: 0, huge_bytes: 0 })
    }
}

impl FaultSource for Reused {
    fn pages(&self) -> usize {
        self.bytes / self.page.bytes()
    }

    fn parts(&self) -> usize {
        if self.page == BufferPage::Huge { 1 } else { PARTS }
    }

    fn prepare(&mut self) -> Result<()> {
        self.sum = 0;
        discard(self.buffer.start(), self.bytes)
    }

    fn touch(&mut self, pages: Range<usize>) {
        let step = self.page.bytes();
        let bytes = pages.len() * step;
        // SAFETY: as many bytes are reserved, readable, writable and ours.
        unsafe {
            let start = self.buffer.start().add(pages.start * step);
            match self.access {
                Access::Read => self.sum |= sum_of_each(start, bytes, step),
                Access::Write | Access::WriteHuge => write_each(start, bytes, step),
            }
        }
    }

    fn verify(&mut self) -> Result<()> {
        if self.sum != 0 {
            let sum = self.sum;
            return Err(SamplerFault::WrongWork(format!("unwritten memory reads as {sum}, not 0")));
        }
        if self.access != Access::WriteHuge {
            return Ok(());
        }
        // Without a free huge page the kernel maps a small one: the fault count is the same.
        self.huge_bytes = self.buffer.usage()?.huge;
        if self.huge_bytes == self.bytes as u64 {
            return Ok(());
        }
        let (huge, all) = (binary_size(self.huge_bytes), binary_size(self.bytes as u64));
        let what = format!("the kernel used huge pages for {huge} of {all} despite madvise");
        Err(SamplerFault::unavailable(what, Remedy::AllowHugePages))
    }

    fn check(&mut self) -> Result<(bool, String)> {
        match self.access {
            Access::Write => self.buffer.grow_to(self.bytes),
            // Expects no resident page: the zero page does not count.
            Access::Read => {}
            Access::WriteHuge => {
                let (huge, all) = (self.huge_bytes, self.bytes);
                return Ok((true, format!("{huge} of {all} bytes in huge pages in each pass")));
            }
        }
        self.buffer.check()
    }
}

/// A new mapping per pass: memory that this process did not have before, up to a limit.
pub(super) struct Fresh {
    held: Vec<Buffer>,
    bytes: usize,
    held_max: usize,
    freed: u32,
}

impl Fresh {
    /// Holds up to `held_max` mappings, then frees all.
    pub(super) fn new(bytes: usize, held_max: usize) -> Self {
        Self { held: Vec::new(), bytes, held_max: held_max.max(1), freed: 0 }
    }
}

impl FaultSource for Fresh {
    fn pages(&self) -> usize {
        self.bytes / page_size()
    }

    fn prepare(&mut self) -> Result<()> {
        if self.held.len() >= self.held_max {
            self.held.clear();
            self.freed += 1;
        }
        self.held.push(Buffer::reserve(self.bytes, BufferPage::Base)?);
        Ok(())
    }

    fn touch(&mut self, pages: Range<usize>) {
        let Some(fresh) = self.held.last() else { return };
        let step = page_size();
        // SAFETY: as many bytes are reserved, writable and ours.
        unsafe { write_each(fresh.start().add(pages.start * step), pages.len() * step, step) }
    }

    fn check(&mut self) -> Result<(bool, String)> {
        let held = binary_size((self.held.len() * self.bytes) as u64);
        let Some(last) = self.held.last_mut() else { return Ok((true, String::new())) };
        last.grow_to(self.bytes);
        let (passed, detail) = last.check()?;
        let mut detail = format!("{detail}; {held} held");
        if self.freed > 0 {
            let most = binary_size((self.held_max * self.bytes) as u64);
            detail += &format!(", freed {} times at the limit of {most}", self.freed);
        }
        Ok((passed, detail))
    }
}
