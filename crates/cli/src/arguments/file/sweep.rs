//! The command line of `fathom file sweep`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::super::{block, sizes, time};
use super::size::SoughtArguments;
use super::{Common, StateName, TemporaryArguments};

const EXAMPLES: &str = "\
Examples:
  fathom file sweep                                    a temporary file of 256 MiB, within a minute
  fathom file sweep FILE --blocks 1..64MiB             every power of two
  fathom file sweep FILE --blocks 4K,64K,1M --state cold --threads 1,2,4
  fathom file sweep --sizes 2MiB..3GiB --blocks 64K --state warm
  fathom file sweep --sized --block 16 --state warm    a file that takes 5 to 15 s with this block
  fathom file sweep FILE --blocks 4K..1M --threads 1 --with-dd

Each point is read forth and back through the list, so that a machine that becomes slower looks like
noise and not like a curve. A point reads as many blocks as its time allows: how many stands beside
it. A dip is a point below 0.8 × the geometric mean of its neighbours, the right one of which lies
above it again.";

/// `fathom file sweep`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct SweepArguments {
    /// The files; a temporary one where none is named.
    #[arg(conflicts_with_all = ["sizes", "sized"])]
    pub files: Vec<PathBuf>,
    /// A temporary file of each of these sizes instead.
    #[arg(long, value_name = "LIST", value_parser = SizeList::parse, conflicts_with = "sized")]
    pub sizes: Option<SizeList>,
    /// A temporary file that takes a reasonable time with `--block` instead.
    #[arg(long)]
    pub sized: bool,
    /// The block for `--sized`.
    #[arg(long, value_name = "SIZE", default_value = "16", value_parser = block)]
    pub block: usize,
    /// What `--sized` looks for.
    #[command(flatten)]
    pub sought: SoughtArguments,
    /// Blocks [default: 1 to 64 MiB by powers of four].
    #[arg(long, value_name = "LIST", value_parser = BlockList::parse)]
    pub blocks: Option<BlockList>,
    /// States [default: warm, cold and direct].
    #[arg(long, value_enum, value_name = "STATE", value_delimiter = ',')]
    pub state: Vec<StateName>,
    /// Numbers of threads [default: 1, and as many as there are CPUs].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Vec<u16>,
    /// About how long each pass of a point is to take.
    #[arg(long, value_name = "TIME", default_value = "60ms", value_parser = time)]
    pub each: Duration,
    /// Passes over each point; an interval takes 6 at least.
    #[arg(long, value_name = "N", default_value_t = 4)]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub passes: u32,
    /// Run dd on the same points of one thread, in turn.
    #[arg(long)]
    pub with_dd: bool,
    /// Where temporary files lie.
    #[command(flatten)]
    pub temporary: TemporaryArguments,
    /// Output and store.
    #[command(flatten)]
    pub common: Common,
}

/// Sizes of files.
#[derive(Clone, Debug)]
pub struct SizeList(pub Vec<u64>);

impl SizeList {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut all = sizes(text)?;
        all.sort_unstable();
        all.dedup();
        match all.first() {
            Some(0) => Err("a file of 0 bytes: there is nothing to read; leave it away".to_owned()),
            _ => Ok(Self(all)),
        }
    }
}

/// Sizes of blocks.
#[derive(Clone, Debug)]
pub struct BlockList(pub Vec<usize>);

impl BlockList {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let all: Result<Vec<usize>, String> =
            sizes(text)?.into_iter().map(|size| block(&size.to_string())).collect();
        let mut all = all?;
        all.sort_unstable();
        all.dedup();
        Ok(Self(all))
    }
}
