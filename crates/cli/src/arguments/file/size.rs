//! The command line of `fathom file size`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::super::{between, block, bytes};
use super::{Common, StateName, TemporaryArguments};

const EXAMPLES: &str = "\
Examples:
  fathom file size --block 1                          some tens of MiB, read byte by byte
  fathom file size --block 64 --between 1s..3s
  fathom file size --block 4K --state cold --max 20GiB --folder /data
  fathom file size --block 16 --keep reasonable.bin   the file found stays in the folder

The first size is foretold from earlier results, or from a short read with this block; it is doubled
while it is read in less time, and halved while in more. That no size fits is an answer too, with
its reason and exit status 3.";

/// `fathom file size`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct SizeArguments {
    /// Bytes of a block.
    #[arg(long, short, value_name = "SIZE", value_parser = block)]
    pub block: usize,
    /// From memory, from the device, or past the page cache.
    #[arg(long, value_enum, default_value_t = StateName::Warm)]
    pub state: StateName,
    /// What to look for.
    #[command(flatten)]
    pub sought: SoughtArguments,
    /// Keep the file that is found under this name, in the folder.
    #[arg(long, value_name = "NAME")]
    pub keep: Option<PathBuf>,
    /// Where the file lies.
    #[command(flatten)]
    pub temporary: TemporaryArguments,
    /// Output and store.
    #[command(flatten)]
    pub common: Common,
}

/// Which size is sought.
#[derive(Clone, Debug, Args)]
pub struct SoughtArguments {
    /// The time that reading it is to take; the second at least twice the first.
    #[arg(long, value_name = "TIME..TIME", default_value = "5s..15s", value_parser = between)]
    pub between: (Duration, Duration),
    /// No file larger than this [default: half of the free space and, warm, of the memory].
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub max: Option<u64>,
}
