//! Sets of small named files in the folder of the run.

use std::fs::File;
use std::path::PathBuf;

use fathom_fileio::Generator;
use fathom_measure::sampler::Files;
use rustix::fs::{CWD, Mode, OFlags, openat, stat, unlink};
use rustix::io::Errno;

use super::{SMALL_BYTES, failed};
use crate::prelude::*;

/// A case per size.
pub(super) fn cases_of_small(cost_ns: f64) -> Vec<Case> {
    SMALL_BYTES.map(|bytes| Case { params: Params::one("bytes", bytes), cost_ns }).into()
}

/// Disk space of `files` files of each size, in whole file system blocks.
pub(super) fn disk_of_small(files: usize) -> Disk {
    let blocks: i64 = SMALL_BYTES.iter().map(|bytes| (bytes + 4095) / 4096 * 4096).sum();
    Disk { large: 0, own: files as u64 * blocks as u64 }
}

/// Runs `operation` on a set of `count` small files per case; it returns nanoseconds per file.
/// `check`: name and detail of the check that the operation makes.
pub(super) fn visit_small(
    cases: &[Case],
    sampler: &mut Sampler,
    count: usize,
    check: (&str, impl Into<String>),
    operation: impl Fn(&SmallFiles, &Clock) -> Result<f64>,
) -> Result<()> {
    let files = sampler.files()?;
    let sizes = cases.iter().map(|case| case.params.integer("bytes").unwrap_or(0));
    let sets: Vec<SmallFiles> = sizes.map(|bytes| SmallFiles::of(&files, count, bytes)).collect();
    let operation = &operation;
    let works = sets.iter().enumerate();
    let works =
        works.map(|(index, set)| single(index, count as u64, move |clock| operation(set, clock)));
    sampler.run(works.collect());
    let (name, detail) = (check.0, check.1.into());
    for index in 0..cases.len() {
        sampler.check(index, name, true, detail.clone());
    }
    Ok(())
}

/// A set of small files, removed on drop.
pub(super) struct SmallFiles {
    paths: Vec<PathBuf>,
    data: Vec<u8>,
}

impl SmallFiles {
    /// Chooses names; creates no file yet.
    pub(super) fn of(files: &Files, count: usize, bytes: i64) -> Self {
        let own = std::process::id();
        let path = |number| files.folder.join(format!("f-{own}-{bytes}-{number}"));
        let mut data = vec![0; usize::try_from(bytes).unwrap_or(0)];
        Generator::new(files.seed).fill(0, &mut data);
        Self { paths: (0..count).map(path).collect(), data }
    }

    pub(super) fn count(&self) -> usize {
        self.paths.len()
    }

    /// Creates one file, empty.
    pub(super) fn open(&self, number: usize) -> Result<File> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
        let file = openat(CWD, &self.paths[number], flags, Mode::RUSR | Mode::WUSR);
        file.map(File::from).map_err(|error| failed("create a file", error))
    }

    /// Writes the data with one call.
    pub(super) fn write(&self, file: &File) -> Result<()> {
        if self.data.is_empty() {
            return Ok(());
        }
        match rustix::io::write(file, &self.data) {
            Ok(written) if written == self.data.len() => Ok(()),
            Ok(written) => {
                let text = format!("{written} of {} bytes were written", self.data.len());
                Err(Fault::WrongWork(text))
            }
            Err(error) => Err(failed("write a file", error)),
        }
    }

    /// Opens, writes and closes each file.
    pub(super) fn create(&self) -> Result<()> {
        (0..self.count()).try_for_each(|number| self.write(&self.open(number)?))
    }

    pub(super) fn delete(&self) -> Result<()> {
        let mut paths = self.paths.iter();
        paths.try_for_each(unlink).map_err(|error| failed("delete a file", error))
    }

    /// Number of existing files of the right size.
    pub(super) fn whole(&self) -> usize {
        let is_whole =
            |path: &&PathBuf| stat(*path).is_ok_and(|it| it.st_size == self.data.len() as i64);
        self.paths.iter().filter(is_whole).count()
    }

    /// Number of existing files.
    pub(super) fn existing(&self) -> usize {
        self.paths.iter().filter(|path| stat(*path).err() != Some(Errno::NOENT)).count()
    }
}

impl Drop for SmallFiles {
    fn drop(&mut self) {
        for path in &self.paths {
            // Most were deleted before.
            let _ = unlink(path);
        }
    }
}
