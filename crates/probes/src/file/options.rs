//! Options that several commands on files have.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use fathom_fileio::read::BLOCK_MAX;
use fathom_metric::notation::{NotationError, bytes, sizes};

/// Where temporary files lie.
#[derive(Clone, Debug, Args)]
pub struct TemporaryOptions {
    /// The folder [default: /var/tmp, or the current one where that lies in memory]. They have no
    /// name: nothing is left of them, whatever happens.
    #[arg(long, value_name = "FOLDER")]
    pub folder: Option<PathBuf>,
    /// Write without asking first.
    #[arg(long)]
    pub yes: bool,
}

/// In which state a file is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StateName {
    /// As it is found; what of it is in memory is said.
    AsIs,
    /// From memory: it is read once beforehand.
    Warm,
    /// From the device: its pages are dropped before each pass, without root, and that they are
    /// gone is proved.
    Cold,
    /// Past the page cache (O_DIRECT).
    Direct,
}

/// What of the machine's caches to drop first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DropName {
    /// Clean pages of files (the kernel's 1).
    Pagecache,
    /// Names and inodes (the kernel's 2).
    Slab,
    /// Both (the kernel's 3).
    All,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts(pub Vec<u64>);

#[derive(Clone, Debug)]
pub struct Sizes(pub Vec<u64>);

#[derive(Clone, Debug)]
pub struct Blocks(pub Vec<usize>);

/// A number of bytes above nought.
pub(super) fn block(text: &str) -> Result<usize, NotationError> {
    match usize::try_from(bytes(text)?) {
        Ok(size @ 1..=BLOCK_MAX) => Ok(size),
        _ => {
            let expected = format!("a block of 1 to {BLOCK_MAX} bytes (1GiB)");
            Err(NotationError::new(text, expected))
        }
    }
}

/// A list of file sizes.
pub(super) fn file_sizes(text: &str) -> Result<Sizes, NotationError> {
    let mut all = sizes(text)?;
    all.sort_unstable();
    all.dedup();
    match all.first() {
        Some(0) => Err(NotationError::new(text, "files of at least 1 byte")),
        _ => Ok(Sizes(all)),
    }
}

pub(super) fn blocks(text: &str) -> Result<Blocks, NotationError> {
    let sizes = sizes(text)?.into_iter();
    let mut all = sizes.map(|size| block(&size.to_string())).collect::<Result<Vec<_>, _>>()?;
    all.sort_unstable();
    all.dedup();
    Ok(Blocks(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_has_at_least_a_byte_and_at_most_a_gibibyte() {
        assert!(block("0").is_err() && block("2GiB").is_err());
        assert_eq!(block("1"), Ok(1));
        assert_eq!(blocks("4K,1,4096").map(|all| all.0), Ok(vec![1, 4096]));
        assert!(file_sizes("0,1").is_err());
    }
}
