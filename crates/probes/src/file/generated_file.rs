//! Files of generated data, any part of which can be verified.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use fathom_fileio::memory::MemoryPages;
use fathom_fileio::scratch::Scratch;
use fathom_fileio::{FileGenerator, XorSum};
use fathom_measure::sampler::Files;

use super::{failed, not_created};
use crate::prelude::*;

/// Bytes generated at a time.
const STEP: u64 = 256 << 10;

/// Calls `with` with consecutive pieces of the data and their offsets.
fn each_piece(
    seed: u64,
    (at, bytes): (u64, u64),
    mut with: impl FnMut(u64, &[u8]) -> Result<()>,
) -> Result<()> {
    let generator = FileGenerator::new(seed);
    let mut buffer = MemoryPages::new(STEP as usize).map_err(|error| failed("mmap", error))?;
    for from in (0..bytes).step_by(STEP as usize) {
        let piece = &mut buffer[..(bytes - from).min(STEP) as usize];
        generator.fill(at + from, piece);
        with(from, piece)?;
    }
    Ok(())
}

/// The sums of `bytes` bytes of the data from `at` on, with `at` as offset 0.
pub(super) fn sum_of(seed: u64, at: u64, bytes: u64) -> Result<XorSum> {
    let mut sum = XorSum::default();
    each_piece(seed, (at, bytes), |from, piece| {
        sum.add(from, piece);
        Ok(())
    })?;
    Ok(sum)
}

/// Writes and syncs a temporary file of the data.
pub(crate) fn write_synced(folder: &Path, bytes: u64, seed: u64) -> Result<Scratch> {
    let what = format!("write {bytes} bytes in {}", folder.display());
    let scratch = Scratch::new(folder).map_err(|error| not_created(&what, folder, error))?;
    each_piece(seed, (0, bytes), |from, piece| {
        scratch.file().write_all_at(piece, from).map_err(|error| failed(&what, error))
    })?;
    rustix::fs::fdatasync(scratch.file()).map_err(|error| failed(&what, error))?;
    Ok(scratch)
}

/// The large file of the run.
pub(super) struct LargeFile {
    pub(super) source: PathInfoSource,
    pub(super) seed: u64,
    pub(super) bytes: u64,
}

impl LargeFile {
    /// At least as large as a part.
    pub(super) fn open(files: &Files, part: u64) -> Result<Self> {
        let why = |error| SamplerFault::Failed(format!("the large file: {error}"));
        let source = PathInfoSource::open(&files.large).map_err(why)?;
        let bytes = source.info().size.unwrap_or(0);
        if part == 0 || bytes < part {
            let text = format!("the large file has {bytes} bytes, less than a part of {part}");
            return Err(SamplerFault::Failed(text));
        }
        Ok(Self { source, seed: files.seed, bytes })
    }

    pub(super) fn file(&self) -> &File {
        self.source.file()
    }

    /// Offset and sums of each part. All of the data is generated for it.
    pub(super) fn parts(&self, part: u64) -> Result<Vec<(u64, XorSum)>> {
        let offsets = (0..self.bytes / part).map(|number| number * part);
        offsets.map(|at| Ok((at, sum_of(self.seed, at, part)?))).collect()
    }
}
