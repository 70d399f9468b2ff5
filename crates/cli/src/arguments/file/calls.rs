//! The command line of `fathom file calls`.

use std::path::PathBuf;

use clap::Args;

use super::Common;
use crate::arguments::{block, counts};

const EXAMPLES: &str = "\
Examples:
  fathom file calls                        on a temporary file of 16 MiB, in some seconds
  fathom file calls FILE --calls 1e4..1e8  does the rate depend on how many there are?
  fathom file calls --blocks 1,512,64K     a pass that reads against one that only seeks

Nobody looks at what is read, so a call's own cost is all that there is. Counts may be written as
1e4..1e8, which goes by tens.";

/// `fathom file calls`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CallsArguments {
    /// The file, which is read into memory first; a temporary one where none is named.
    pub file: Option<PathBuf>,
    /// How many calls make a pass, a list.
    #[arg(long, value_name = "COUNTS", default_value = "1e4..1e6", value_parser = numbers)]
    pub calls: List,
    /// The blocks of the passes that read against those that seek.
    #[arg(long, value_name = "SIZES", default_value = "1,4,4K", value_delimiter = ',')]
    #[arg(value_parser = block)]
    pub blocks: Vec<usize>,
    /// Passes. Each 100,000 calls of them give a value, and 12 values an interval.
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: u32,
    /// Where a temporary file may lie [default: /var/tmp, or the current folder].
    #[arg(long, value_name = "FOLDER", conflicts_with = "file")]
    pub folder: Option<PathBuf>,
    /// Output and store.
    #[command(flatten)]
    pub common: Common,
}

/// Some counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List(pub Vec<u64>);

/// More calls than anybody waits for.
const CALLS_MAX: u64 = 100_000_000_000;

fn numbers(text: &str) -> Result<List, String> {
    let mut all = counts(text)?;
    all.sort_unstable();
    all.dedup();
    match all.iter().find(|&&count| count == 0 || count > CALLS_MAX) {
        Some(0) => Err("a pass of 0 calls times nothing; give 1 or more".to_owned()),
        Some(count) => Err(format!("{count} calls would take hours; give {CALLS_MAX} at most")),
        None => Ok(List(all)),
    }
}
