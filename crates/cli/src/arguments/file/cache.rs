//! The command line of `fathom file cache`.

use std::path::PathBuf;

use clap::Args;

use super::sweep::{BlockList, SizeList};
use super::{Common, TemporaryArguments};

const EXAMPLES: &str = "\
Examples:
  fathom file cache FILE                               what the page cache makes of this file
  fathom file cache FILE --blocks 4K..1M --rounds 12
  fathom file cache --sizes 10MiB,1GiB --folder /data

Each round drops the file from memory, without root, and reads it three times. What of it was in
memory before each read is looked up and stands beside it. Caching matters from the smallest block
on with which the second read is 1.5 times as fast as the first.";

/// `fathom file cache`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CacheArguments {
    /// The file.
    #[arg(required_unless_present = "sizes", conflicts_with = "sizes")]
    pub file: Option<PathBuf>,
    /// A temporary file of each of these sizes instead.
    #[arg(long, value_name = "LIST", value_parser = SizeList::parse)]
    pub sizes: Option<SizeList>,
    /// Blocks.
    #[arg(long, value_name = "LIST", default_value = "4K,64K,1M", value_parser = BlockList::parse)]
    pub blocks: BlockList,
    /// Rounds; the interval of a ratio takes 5 at least.
    #[arg(long, value_name = "N", default_value_t = 6)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub rounds: u32,
    /// Where temporary files lie.
    #[command(flatten)]
    pub temporary: TemporaryArguments,
    /// Output and store.
    #[command(flatten)]
    pub common: Common,
}
