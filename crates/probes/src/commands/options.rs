//! Options shared by the `fathom file …` commands.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use fathom_fileio::read::BLOCK_MAX;
use fathom_metric::notation::{NotationError, bytes, count, sizes};

/// Folder of temporary files.
#[derive(Clone, Debug, Args)]
pub struct TemporaryOptions {
    /// Folder of the temporary files, which are unnamed [default: $FATHOM_FOLDER, or /var/tmp, or
    /// the current folder].
    #[arg(long, value_name = "FOLDER")]
    pub folder: Option<PathBuf>,
    /// Do not ask before writing.
    #[arg(long)]
    pub yes: bool,
}

/// Requested cache state of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StateName {
    /// Whatever is cached; the cached share is reported.
    AsIs,
    /// From the page cache: read once before the first pass.
    Warm,
    /// From the device: evicted before each pass, without root, and verified.
    Cold,
    /// Bypass the page cache (O_DIRECT).
    Direct,
}

impl StateName {
    pub(super) fn name(self) -> &'static str {
        ["as-is", "warm", "cold", "direct"][self as usize]
    }
}

/// Caches of the machine to drop before each pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DropName {
    /// Page cache (drop_caches 1).
    Pagecache,
    /// Dentries and inodes (drop_caches 2).
    Slab,
    /// Both (drop_caches 3).
    All,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandCounts(pub Vec<u64>);

#[derive(Clone, Debug)]
pub struct SizeRange(pub Vec<u64>);

#[derive(Clone, Debug)]
pub struct Blocks(pub Vec<usize>);

/// A number of blocks.
pub(super) fn block_count(text: &str) -> Result<u64, NotationError> {
    match count(text)? {
        0 => Err(NotationError::new(text, "at least 1 block")),
        blocks => Ok(blocks),
    }
}

pub(super) fn block(text: &str) -> Result<usize, NotationError> {
    // A negative number is below the range, not malformed.
    of_block(if text.starts_with('-') { 0 } else { bytes(text)? }, text)
}

/// The size of a block, in a text.
fn of_block(bytes: u64, text: &str) -> Result<usize, NotationError> {
    match usize::try_from(bytes) {
        Ok(size @ 1..=BLOCK_MAX) => Ok(size),
        _ => {
            let expected = format!("a block of 1 to {BLOCK_MAX} bytes (1GiB)");
            Err(NotationError::new(text, expected))
        }
    }
}

/// A list of file sizes.
pub(super) fn file_sizes(text: &str) -> Result<SizeRange, NotationError> {
    let mut all = sizes(text)?;
    match sorted(&mut all).first() {
        Some(0) => Err(NotationError::new(text, "files of at least 1 byte")),
        _ => Ok(SizeRange(all)),
    }
}

pub(super) fn blocks(text: &str) -> Result<Blocks, NotationError> {
    let sizes = sizes(text)?.into_iter();
    let mut all = sizes.map(|size| of_block(size, text)).collect::<Result<Vec<_>, _>>()?;
    sorted(&mut all);
    Ok(Blocks(all))
}

/// In ascending order, each once.
pub(super) fn sorted<T: Ord>(all: &mut Vec<T>) -> &[T] {
    all.sort_unstable();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_is_1_byte_to_1_gib() {
        assert!(block("0").is_err() && block("2GiB").is_err());
        assert_eq!(block("1"), Ok(1));
        assert_eq!((block_count("0").is_err(), block_count("1")), (true, Ok(1)));
        assert_eq!(blocks("4K,1,4096").map(|all| all.0), Ok(vec![1, 4096]));
        assert!(file_sizes("0,1").is_err());
    }
}
