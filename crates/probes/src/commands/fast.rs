//! file.fast: reads and checksums whole files as fast as possible. Measured by `fathom file fast`.

mod facts;
mod file_list;
mod pass;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use clap::{Parser, ValueEnum};
use fathom_fileio::fast::{FastOptions, GENERATED_MAX, read_fast};
use fathom_fileio::path_info::FileKind;
use fathom_fileio::proc_io;
use fathom_fileio::read::Way;
use fathom_metric::notation::{NotationError, bytes};
use fathom_record::quantity::percent;

use self::facts::facts;
use self::file_list::FileList;
use self::pass::{FastPass, FileResult};
use super::by_hand::{self, ByHandResult, checked, printable, size};
use super::options::block;
use super::{bandwidth, cache_state};
use crate::file::BASE;
use crate::prelude::*;

pub const FAST: ByHand = ByHand(ABOUT, predict);

const ABOUT: About = About {
    id: "file.fast",
    title: "fastest file read",
    unit: Unit::BytesPerSecond,
    better: Better::Higher,
    timed: "reading and checksumming whole files: cached parts by the fastest method, the rest by \
            direct I/O; from the residency check to the last byte summed",
    not_timed: "finding the files in folders; opening the first file and setup",
    model: "from memory: ≤ memory.bandwidth{op=read} of all threads; from a device: none",
    source: "each byte of the page cache is loaded from DRAM at least once",
    pitfalls: &[
        "a partly cached file: each 2 MiB are read from the page cache or the device, as cachestat \
         or mincore reports them",
        "the fastest method depends on the machine: part of the file is read with each, the rest \
         with the fastest; nothing is read twice",
        "a second run finds pages that the first left in the cache; direct reads leave none",
    ],
    parameters: &[
        Parameter::new("state", "warm, cold, mixed, unknown", "residency of the files before"),
        Parameter::new("files", "1, 2, …", "number of files"),
        Parameter::new("file_bytes", "bytes", "size of all files"),
    ],
    ..BASE
};

fn predict(params: &Params, _: &Host, known: &Inputs<'_>) -> Model {
    match params.text("state") {
        Some("warm") => bandwidth::at_most_all_cores(known),
        Some("cold") => Err(NoModel::SpeedOfDevice),
        _ => Err(NoModel::MixedResidency),
    }
}

/// Files below this size are read by one thread each, in parallel.
const SMALL: u64 = 16 << 20;

/// How `file fast` reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PathName {
    /// pread(2), a buffer per thread.
    Pread,
    /// mmap(2).
    Mmap,
    /// O_DIRECT: io_uring, or pread(2) where it is unavailable.
    Direct,
}

const EXAMPLES: &str = "\
Examples:
  fathom file fast FILE                 read and checksum it as fast as possible
  fathom file fast FOLDER '*.iso'       all regular files of a folder, and those of a pattern
  fathom file fast FILE --repeat 12     with a confidence interval
  fathom file fast FILE --path pread --threads 1

Cached parts are read from the page cache by the fastest method, which is found on the file itself;
the rest is read by direct I/O, which leaves the page cache unchanged. Symlinks in folders are not
followed. Other than regular files are counted and skipped; so are files that the kernel generates
and that have no end, such as /proc/kmsg.";

/// Read and checksum whole files as fast as possible.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES)]
pub struct ReadFast {
    /// Files, folders, block devices or patterns.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Use this method, whatever is cached.
    #[arg(long, value_enum)]
    path: Option<PathName>,
    /// Threads [default: one per CPU; for direct I/O one with io_uring, or 8 with pread].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Block size [default: by method].
    #[arg(long, short, value_name = "SIZE", value_parser = block)]
    block: Option<usize>,
    /// Number of passes; with 12 or more the result has a confidence interval.
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    repeat: u32,
    /// DRAM read bandwidth of all cores per second, such as 50GB [default: of the last `fathom run
    /// memory.bandwidth`].
    #[arg(long, value_name = "SIZE", value_parser = ceiling)]
    ceiling: Option<u64>,
    /// Continue after unreadable ranges or files, and report each.
    #[arg(long)]
    keep_going: bool,
}

fn ceiling(text: &str) -> ByHandResult<u64, NotationError> {
    match bytes(text)? {
        0 => Err(NotationError::new(text, "bytes per second above 0, such as 50GB")),
        rate => Ok(rate),
    }
}

impl Procedure for ReadFast {
    fn asked(&self) -> String {
        by_hand::printable_list(&self.files)
    }

    fn prior_metrics(&self) -> &'static [&'static str] {
        &["memory.bandwidth"]
    }

    /// The read is often shorter than the calibration.
    fn calibrates(&self) -> bool {
        false
    }

    fn check(&self) -> ByHandResult<()> {
        FileList::from_arguments(&self.files, self.keep_going).map(|_| ())
    }

    fn run(&self, recorder: &mut dyn Recorder) -> ByHandResult<Ending> {
        let found = FileList::from_arguments(&self.files, self.keep_going)?;
        let what = format!("reading {}", size(found.bytes()));
        let pass = |recorder: &mut dyn Recorder, _| {
            let (pass, counted) = observed(recorder.cpu(), || pass(recorder, self, &found));
            let pass = pass?;
            let counted = by_hand::without_own_waits(counted, pass.threads());
            Ok(Some((pass, counted)))
        };
        let record = |recorder: &mut dyn Recorder, passes: &[FastPass], disturbance| {
            let measured = measured(self, &found, passes, disturbance);
            let facts = facts(recorder, self, &found, passes, measured.verdict.is_none());
            recorder.record(Measured { facts, ..measured });
        };
        let times = (self.repeat, what.as_str());
        let (mut passes, disturbance) =
            by_hand::repeated(recorder, times, pass, FastPass::is_changed, record)?;
        // The facts describe the last pass: drop one that was stopped before it read anything.
        if passes.len() > 1 {
            let is_stopped = |last: &FastPass| last.results.iter().any(|one| one.fast.stopped);
            passes.pop_if(|last| is_stopped(last) && last.sum().bytes == 0);
        }
        let last = &passes[passes.len() - 1];
        let not_read = || found.missing.iter().chain(&last.failed);
        let is_changed = pass::change(&passes).is_some();
        let is_faulty = not_read().next().is_some() || last.faults().next().is_some() || is_changed;
        not_read().for_each(|why| recorder.event(Event::Warning(why)));
        record(recorder, &passes, disturbance);
        Ok(if is_faulty { Ending::Faulty } else { Ending::Done })
    }
}

fn options<'a>(recorder: &'a dyn Recorder, read: &ReadFast) -> FastOptions<'a> {
    FastOptions {
        way: read.path.map(|path| match path {
            PathName::Pread => Way::Pread,
            PathName::Mmap => Way::Map,
            PathName::Direct => Way::Ring { depth: fathom_fileio::fast::DEPTH },
        }),
        threads: read.threads.map(usize::from),
        cpus: affinity::allowed().len(),
        block: read.block,
        keep_going: read.keep_going,
        stop: recorder.stop().now(),
    }
}

/// Reads all files once: large ones sequentially by all threads, small ones in parallel.
fn pass(recorder: &dyn Recorder, read: &ReadFast, found: &FileList) -> ByHandResult<FastPass> {
    let options = options(recorder, read);
    let is_small = |number: &usize| found.files.len() > 1 && found.files[*number].1 < SMALL;
    let all = 0..found.files.len();
    let (small, large): (Vec<usize>, Vec<usize>) = all.partition(is_small);
    let clock = recorder.clock();
    let mut pass = FastPass::default();
    let before = proc_io::read_bytes();
    let begin = clock.start();
    for number in large {
        let is_alone = found.files.len() == 1;
        match read_one(&found.files[number].0, number, &options, clock) {
            Ok(one) => pass.results.push(one),
            Err(FastUnread::Unending(why)) if !is_alone => pass.skipped.push((number, why)),
            Err(FastUnread::Failed(why)) if read.keep_going && !is_alone => pass.failed.push(why),
            Err(FastUnread::Failed(why) | FastUnread::Unending(why)) => {
                return Err(failed(&why, found));
            }
        }
    }
    read_in_parallel(recorder, found, &small, &options, &mut pass);
    pass.ns = clock.ns(begin, clock.stop());
    pass.device_bytes = proc_io::read_bytes_since(before);
    if let Some(first) = pass.failed.first().filter(|_| !read.keep_going) {
        return Err(failed(first, found));
    }
    if pass.results.is_empty() {
        let why = pass.failed.first().or(pass.skipped.first().map(|(_, why)| why));
        return Err(ProcedureError::failed(why.map_or("nothing was read", String::as_str)));
    }
    pass.results.sort_by_key(|one| one.number);
    pass.skipped.sort_unstable();
    Ok(pass)
}

/// One of several files can be left out.
fn failed(why: &str, found: &FileList) -> ProcedureError {
    let remedy = if found.files.len() > 1 { "; --keep-going reads the other files" } else { "" };
    ProcedureError::failed(format!("{why}{remedy}"))
}

/// Why a file was not read.
enum FastUnread {
    Failed(String),
    /// It has no end that a read could wait for.
    Unending(String),
}

fn read_one(
    path: &Path,
    number: usize,
    options: &FastOptions<'_>,
    clock: &Clock,
) -> ByHandResult<FileResult, FastUnread> {
    let source =
        PathInfoSource::open(path).map_err(|error| FastUnread::Failed(error.to_string()))?;
    let unending = |what: &str| {
        let text = format!("{} has no end: use `file read` with {what}", printable(path));
        Err(FastUnread::Unending(text))
    };
    if source.info().kind == FileKind::Character {
        return unending("--count");
    }
    let fast = read_fast(&source, options, clock)
        .map_err(|error| FastUnread::Failed(format!("read {}: {error}", printable(path))))?;
    match fast.sum.bytes {
        // Such as /proc/kmsg, and /proc/self/pagemap.
        _ if fast.has_no_data => unending("--time-limit"),
        GENERATED_MAX.. if source.info().size.is_none() => unending("--time-limit"),
        _ => Ok(FileResult::new(number, &source, fast)),
    }
}

fn read_in_parallel(
    recorder: &dyn Recorder,
    found: &FileList,
    small: &[usize],
    options: &FastOptions<'_>,
    pass: &mut FastPass,
) {
    let (next, has_failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let threads = options.threads.unwrap_or(options.cpus).clamp(1, small.len().max(1));
    // A small file does not amortize threads, a ring or trials.
    let options =
        FastOptions { threads: Some(1), way: options.way.or(Some(Way::Pread)), ..*options };
    let clock = recorder.clock().specification();
    let work = || {
        let clock = Clock::from_specification(clock);
        let mut done = Vec::new();
        while let Some(number) = small.get(next.fetch_add(1, Ordering::Relaxed)) {
            if options.stop.load(Ordering::Relaxed) || has_failed.load(Ordering::Relaxed) {
                break;
            }
            let one = read_one(&found.files[*number].0, *number, &options, &clock);
            let is_failed = matches!(one, Err(FastUnread::Failed(_))) && !options.keep_going;
            has_failed.fetch_or(is_failed, Ordering::Relaxed);
            done.push((*number, one));
        }
        done
    };
    let done = std::thread::scope(|scope| {
        // Without another thread this one reads all files.
        let start = |_| std::thread::Builder::new().spawn_scoped(scope, work).ok();
        let others: Vec<_> = (1..threads).map_while(start).collect();
        pass.parallel_threads = if small.is_empty() { 0 } else { 1 + others.len() };
        let mut done = work();
        let joined =
            others.into_iter().map(|other| other.join().unwrap_or_else(|it| resume_unwind(it)));
        done.extend(joined.flatten());
        done
    });
    for (number, one) in done {
        match one {
            Ok(one) => pass.results.push(one),
            Err(FastUnread::Failed(why)) => pass.failed.push(why),
            Err(FastUnread::Unending(why)) => pass.skipped.push((number, why)),
        }
    }
}

fn measured(
    read: &ReadFast,
    found: &FileList,
    passes: &[FastPass],
    disturbance: Disturbance,
) -> Measured {
    let last = &passes[passes.len() - 1];
    let sum = last.sum();
    let states: Vec<&str> = passes.iter().map(FastPass::state).collect();
    let params = Params::one("state", by_hand::state_of_all(&states))
        .and("files", found.files.len() as i64)
        .and("file_bytes", sum.bytes as i64);
    let mut verified =
        vec![("files", by_hand::printable_list(&read.files)), ("bytes", sum.bytes.to_string())];
    let changed = by_hand::changed(pass::change(passes));
    if changed.is_none() {
        verified.push(("XOR-32", format!("{:08x}", sum.xor)));
    }
    if let [one] = last.results.as_slice() {
        if changed.is_none() {
            verified.push(("position sum", format!("{:016x}", sum.position)));
        }
        verified.push(("in memory before", one.residency.clone()));
    }
    let values = passes.iter().filter(|pass| pass.sum().bytes > 0).map(FastPass::rate).collect();
    let verdict = changed
        .or_else(|| by_hand::unreadable(passes.iter().flat_map(FastPass::faults)))
        .or_else(|| by_hand::nothing_done(sum.bytes));
    Measured {
        metric: "file.fast",
        params,
        values,
        disturbance: vec![disturbance],
        checks: checked(verified),
        verdict,
        doubts: doubts(passes).into_iter().chain(no_device(read, found, passes)).collect(),
        ..Measured::default()
    }
}

/// A doubt if reads past the page cache may have reached no device, by a file of each file system.
fn no_device(read: &ReadFast, found: &FileList, passes: &[FastPass]) -> Option<Reason> {
    let mut results = passes.iter().flat_map(|pass| &pass.results);
    if read.path != Some(PathName::Direct) && results.all(|one| one.state == "warm") {
        return None;
    }
    let mut known = BTreeSet::new();
    let mut is_new = |path: &PathBuf| fs::metadata(path).is_ok_and(|it| known.insert(it.dev()));
    let files = found.files.iter().map(|(path, _)| path).filter(|path| is_new(path));
    let mut infos = files.filter_map(|path| fathom_fileio::inspect(path).ok());
    infos.find_map(|info| cache_state::no_device(&info))
}

/// Doubts about rate or sums: files shorter than their size, passes that differ, holes.
fn doubts(passes: &[FastPass]) -> Vec<Reason> {
    let mut doubts = Vec::new();
    let mut doubt = |cause, text: String| doubts.push(Reason::new(cause, text));
    let results = || passes.iter().flat_map(|pass| &pass.results);
    if results().any(|one| one.fast.ended_at.is_some()) {
        doubt(Cause::NotAsAsked, "a file ended before its size".to_owned());
    }
    let is_whole = |pass: &&FastPass| !pass.results.iter().any(|one| one.fast.stopped);
    let mut whole = passes.iter().filter(is_whole);
    let first = whole.next().map(|pass| (pass.sum().xor, pass.sum().position));
    if whole.any(|pass| Some((pass.sum().xor, pass.sum().position)) != first) {
        doubt(Cause::WrongWork, "the passes read different content".to_owned());
    }
    if let Some(share) =
        results().filter_map(|one| one.data).reduce(f64::min).filter(|it| *it < 1.0)
    {
        let text = format!(
            "only {} of a file is data: holes and unwritten extents are read without a device",
            percent(share)
        );
        doubt(Cause::NotAsAsked, text);
    }
    let states: Vec<&str> = passes.iter().map(FastPass::state).collect();
    doubts.extend(by_hand::other_states(&states));
    doubts.extend(passes.iter().find_map(|pass| too_short(pass.ns, pass.setup_ns())));
    doubts
}
