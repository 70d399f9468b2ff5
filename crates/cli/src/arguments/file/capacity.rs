//! The command line of `fathom file capacity`.

use std::path::PathBuf;

use clap::Args;

use super::Common;
use crate::arguments::bytes;

const EXAMPLES: &str = "\
Examples:
  fathom file capacity                 how large a file stays in memory; asks before it writes
  fathom file capacity --yes           without asking
  fathom file capacity --max 4GiB      no larger than that: is that much cached?

A file grows, and each time is read twice. Where the second time no longer comes from memory as a
whole, the page cache ends. It pushes what other programs have read out of memory, and writes as
much as the machine has memory; nobody is asked where there is no terminal.";

/// `fathom file capacity`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CapacityArguments {
    /// The largest file to make [default: all of the memory, within what is free on the disk].
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub max: Option<u64>,
    /// Go on without asking.
    #[arg(long, short)]
    pub yes: bool,
    /// Where the file may lie [default: /var/tmp, or the current folder].
    #[arg(long, value_name = "FOLDER")]
    pub folder: Option<PathBuf>,
    /// Output and store.
    #[command(flatten)]
    pub common: Common,
}
