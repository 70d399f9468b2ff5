//! The standard error of a process that nobody reads while it runs.

use std::fs::File;
use std::io::{Read as _, Result, Seek as _, SeekFrom};
use std::process::Stdio;

use rustix::fs::{MemfdFlags, memfd_create};

use super::exit::last_words;

/// Bytes in which the last line is looked for.
const LAST_BYTES: u64 = 4 << 10;

/// A file in memory for the standard error of a process: a pipe could fill.
#[derive(Debug)]
pub struct ErrorFile(File);

impl ErrorFile {
    /// # Errors
    /// If no file in memory can be made.
    pub fn new() -> Result<Self> {
        Ok(Self(File::from(memfd_create("errors", MemfdFlags::CLOEXEC)?)))
    }

    /// For a process that is to be started.
    ///
    /// # Errors
    /// If no descriptor is left.
    pub fn stdio(&self) -> Result<Stdio> {
        Ok(self.0.try_clone()?.into())
    }

    /// The last line so far.
    pub fn last_words(&self) -> Option<String> {
        last_words(&self.end().ok()?)
    }

    /// The end of what is written so far.
    ///
    /// # Errors
    /// As of reading a file.
    pub fn end(&self) -> Result<Vec<u8>> {
        let mut file = &self.0;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(LAST_BYTES)))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        Ok(text)
    }
}
