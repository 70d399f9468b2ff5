//! The command line of `fathom file`.

pub mod cache;
mod calls;
mod capacity;
mod contend;
pub mod size;
pub mod sweep;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

pub use calls::CallsArguments;
pub use capacity::CapacityArguments;
pub use contend::{ContendArguments, ContenderArguments};

use super::{StoreArguments, block, count, time};

const FILE_EXAMPLES: &str = "\
Examples:
  fathom file read FILE --block 64K     block by block, with its XOR-32 and its speed
  fathom file fast FILE                 read and check it as fast as this machine can
  fathom file write FILE --block 1M --count 1000 --sync data
  fathom file calls                     what a call on a cached file costs
  fathom file contend                   what a block costs while other processes read as well
  fathom file capacity                  how large a file stays in memory
  fathom file sweep                     how speed depends on block, state and threads
  fathom file cache FILE                what the page cache makes of it
  fathom file size --block 16           which size takes a reasonable time

Blocks are exactly as large as they are said to be, and no block size changes a checksum. Sizes are
bytes, or as 64KiB (64K) and 1MB.";

/// `fathom file`.
#[derive(Debug, Args)]
#[command(after_help = FILE_EXAMPLES)]
pub struct FileArguments {
    /// What to do with it.
    #[command(subcommand)]
    pub command: FileCommand,
}

/// The commands on a file.
#[derive(Debug, Subcommand)]
pub enum FileCommand {
    /// Read a file block by block, add it up, and say how fast, from where, and whether it should.
    Read(ReadArguments),
    /// Read and check whole files as fast as this machine can.
    Fast(FastArguments),
    /// Write a file of generated data, and say what data, sync and close took.
    Write(WriteArguments),
    /// What a call on a cached file costs, by itself and by the number of calls.
    Calls(CallsArguments),
    /// What reading costs while other processes read files of their own from the same device.
    Contend(ContendArguments),
    /// One of the processes that contend.
    #[command(hide = true)]
    Contender(ContenderArguments),
    /// How large a file stays in memory, found by reading ever larger ones twice.
    Capacity(CapacityArguments),
    /// Find the size of a file whose reading takes a reasonable time.
    Size(size::SizeArguments),
    /// Read with many blocks, from memory and from the device, by one thread and by many.
    Sweep(sweep::SweepArguments),
    /// Read cold, a second and a third time: what the page cache makes of a file.
    Cache(cache::CacheArguments),
}

/// Where temporary files lie.
#[derive(Debug, Args)]
pub struct TemporaryArguments {
    /// The folder [default: /var/tmp, or the current one where that lies in memory]. They have no
    /// name: nothing is left of them, whatever happens.
    #[arg(long, value_name = "FOLDER")]
    pub folder: Option<PathBuf>,
    /// Write without asking first.
    #[arg(long)]
    pub yes: bool,
}

/// What all commands on files have in common.
#[derive(Debug, Args)]
pub struct Common {
    /// Print one JSON document instead.
    #[arg(long)]
    pub json: bool,
    /// With the raw values.
    #[arg(long, requires = "json")]
    pub samples: bool,
    /// Where results are kept.
    #[command(flatten)]
    pub store: StoreArguments,
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

/// A way of reading, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WayName {
    /// pread(2) into a buffer of each thread's.
    Pread,
    /// Mapped pages.
    Mmap,
    /// pread(2) past the page cache.
    Direct,
    /// io_uring past the page cache.
    Ring,
    /// read(2), one after another, as the simplest of programs does it.
    Read,
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

const READ_EXAMPLES: &str = "\
Examples:
  fathom file read FILE --block 64K                 all of it, in blocks of 64 KiB
  fathom file read FILE --block 1 --count 1000000   a million calls of a byte each
  fathom file read FILE --block 1M --state cold --repeat 5
  fathom file read FILE --block 256K --threads 2 --way mmap
  fathom file read /dev/vda --block 1M --count 1000 --state direct

XOR-32 is the exclusive or of the little-endian words of 4 bytes, the last padded with zeroes. The
position sum, Σ (i + 1) · word i modulo 2^64, sees what XOR cannot: words in another order.";

/// `fathom file read`.
#[derive(Debug, Args)]
#[command(after_help = READ_EXAMPLES)]
pub struct ReadArguments {
    /// The file, or a block device.
    pub file: PathBuf,
    /// Bytes of a block.
    #[arg(long, short, value_name = "SIZE", value_parser = block)]
    pub block: usize,
    /// Read so many blocks; the whole file where it is not given.
    #[arg(long, short = 'n', value_name = "N", value_parser = count)]
    pub count: Option<u64>,
    /// From memory, from the device, or as the file is found.
    #[arg(long, value_enum, default_value_t = StateName::AsIs)]
    pub state: StateName,
    /// How it is read [default: read; pread with several threads; direct with `--state direct`].
    #[arg(long, value_enum, value_name = "WAY")]
    pub way: Option<WayName>,
    /// Threads that read it.
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: u16,
    /// Reads of each thread that are under way at once, with `--way ring`.
    #[arg(long, value_name = "N", default_value_t = 16)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub depth: u32,
    /// Passes; from 12 on the result has an interval.
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub repeat: u32,
    /// End after this time, and tell what was read by then.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub time_limit: Option<Duration>,
    /// Go on behind a place that cannot be read, and tell every such place.
    #[arg(long)]
    pub keep_going: bool,
    /// Drop caches of the whole machine before each pass: every program becomes slower for it.
    /// Needs root.
    #[arg(long, value_enum, value_name = "WHAT")]
    pub drop_caches: Option<DropName>,
    /// Output and store.
    #[command(flatten)]
    pub common: Common,
}

/// When what is written is to be on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SyncName {
    /// When the kernel likes.
    None,
    /// At the end (fdatasync).
    Data,
    /// After every block (fdatasync).
    Every,
}

const WRITE_EXAMPLES: &str = "\
Examples:
  fathom file write FILE --block 1M --count 1024 --sync data    1 GiB, on the device at the end
  fathom file write FILE --block 4K --count 1000 --sync every   a thousand small commits
  fathom file write FILE --block 64K --count 16 --force         replace a file that is there

The file gets its name when all of it is there: whatever goes wrong before, nothing is left.";

/// `fathom file write`.
#[derive(Debug, Args)]
#[command(after_help = WRITE_EXAMPLES)]
pub struct WriteArguments {
    /// The file.
    pub file: PathBuf,
    /// Bytes of a block.
    #[arg(long, short, value_name = "SIZE", value_parser = block)]
    pub block: usize,
    /// How many blocks.
    #[arg(long, short = 'n', value_name = "N", value_parser = count)]
    pub count: u64,
    /// When it is to be on the device.
    #[arg(long, value_enum, default_value_t = SyncName::None)]
    pub sync: SyncName,
    /// Replace a regular file of that name.
    #[arg(long)]
    pub force: bool,
    /// Which data: the same seed gives the same bytes.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = super::seed)]
    pub seed: u64,
    /// Passes, each writing it anew; from 12 on the result has an interval.
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub repeat: u32,
    /// Output and store.
    #[command(flatten)]
    pub common: Common,
}

/// A path that `file fast` can be told to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PathName {
    /// pread(2) into a buffer of each thread's.
    Pread,
    /// Mapped pages.
    Mmap,
    /// Past the page cache: io_uring, or pread(2) where there is none.
    Direct,
}

const FAST_EXAMPLES: &str = "\
Examples:
  fathom file fast FILE                 read and check it as fast as this machine can
  fathom file fast FOLDER '*.iso'       every regular file of a folder, and those of a pattern
  fathom file fast FILE --repeat 12     with an interval
  fathom file fast FILE --path pread --threads 1

What is in memory is read from there by the quickest way, which is found out on the file itself; the
rest is read past the page cache, which leaves memory as it was. Symbolic links in folders are not
followed; what is no regular file is counted and left out.";

fn ceiling(text: &str) -> Result<u64, String> {
    match super::bytes(text)? {
        0 => Err("nothing is read at 0 bytes a second; write as 50GB".to_owned()),
        rate => Ok(rate),
    }
}

/// `fathom file fast`.
#[derive(Debug, Args)]
#[command(after_help = FAST_EXAMPLES)]
pub struct FastArguments {
    /// Files, folders, block devices or patterns.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Take this path, whatever is in memory.
    #[arg(long, value_enum)]
    pub path: Option<PathName>,
    /// Threads [default: one for each CPU; past the page cache one with a ring, or 8 that wait].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Bytes of a block [default: by the path].
    #[arg(long, short, value_name = "SIZE", value_parser = block)]
    pub block: Option<usize>,
    /// Passes; from 12 on the result has an interval.
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub repeat: u32,
    /// What all cores read of memory in a second, as 50GB [default: of the last `fathom run
    /// memory.bandwidth`].
    #[arg(long, value_name = "SIZE", value_parser = ceiling)]
    pub ceiling: Option<u64>,
    /// Go on behind a place, or a file, that cannot be read, and tell every such place.
    #[arg(long)]
    pub keep_going: bool,
    /// Output and store.
    #[command(flatten)]
    pub common: Common,
}
