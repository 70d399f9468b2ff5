//! The command lines of `fathom file contend` and of the processes it starts.

use std::path::PathBuf;

use clap::Args;

use super::Common;
use super::calls::List;
use crate::arguments::{bytes, count, time};

const EXAMPLES: &str = "\
Examples:
  fathom file contend                       1 to 10 processes, within a minute
  fathom file contend --processes 1,2,4     these numbers of processes
  fathom file contend --folder /mnt/disk    on the device of that folder

Each process reads a file of its own, block of 4 KiB after block, past the page cache where that
can be done, and else from files that were dropped from it and are not read ahead. All begin at
once, and only the time in which all of them read counts.";

/// `fathom file contend`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ContendArguments {
    /// How many processes, a list; 1 is always among them.
    #[arg(long, value_name = "COUNTS", default_value = "1..10", value_parser = processes)]
    pub processes: List,
    /// Bytes of each process's file.
    #[arg(long, value_name = "SIZE", default_value = "32MiB", value_parser = bytes)]
    pub bytes: u64,
    /// How often.
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: u32,
    /// For all reading together; a process that is not done by its share of it stops.
    #[arg(long, value_name = "TIME", default_value = "40s", value_parser = time)]
    pub time_limit: std::time::Duration,
    /// Where the files may lie [default: /var/tmp, or the current folder].
    #[arg(long, value_name = "FOLDER")]
    pub folder: Option<PathBuf>,
    /// Output and store.
    #[command(flatten)]
    pub common: Common,
}

/// More at once would measure the scheduler.
const PROCESSES_MAX: u64 = 64;

/// Numbers of processes: unlike other lists, a range is all numbers in it.
fn processes(text: &str) -> Result<List, String> {
    let mut all = vec![1];
    for part in text.split(',').map(str::trim) {
        let (from, to) =
            part.split_once("..").or_else(|| part.split_once('…')).unwrap_or((part, part));
        let (from, to) = (count(from.trim())?, count(to.trim())?);
        if from == 0 || from > to || to > PROCESSES_MAX {
            return Err(format!("`{part}`: processes are 1 to {PROCESSES_MAX}, as 1..10 or 1,2,4"));
        }
        all.extend(from..=to);
    }
    all.sort_unstable();
    all.dedup();
    Ok(List(all))
}

/// `fathom file contender`: for `fathom file contend` itself.
#[derive(Debug, Args)]
pub struct ContenderArguments {
    /// The file.
    #[arg(long)]
    pub file: PathBuf,
    /// The process to end with.
    #[arg(long)]
    pub coordinator: u32,
    /// Blocks to read at most.
    #[arg(long)]
    pub blocks: u64,
    /// Nanoseconds to read at most.
    #[arg(long)]
    pub nanoseconds: u64,
    /// Past the page cache.
    #[arg(long)]
    pub direct: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_processes_is_all_of_them_and_one_is_always_there() {
        assert_eq!(processes("1..4"), Ok(List(vec![1, 2, 3, 4])));
        assert_eq!(processes("8,2"), Ok(List(vec![1, 2, 8])));
        assert!(["0", "5..2", "65", "x", ""].iter().all(|text| processes(text).is_err()));
    }
}
