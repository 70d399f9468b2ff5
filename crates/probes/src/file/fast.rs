//! file.fast: whole files, read and checked as fast as this machine can, by `fathom file fast`.

mod found;
mod pass;
mod words;

use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::{Parser, ValueEnum};
use fathom_fileio::fast::{Options, fast as read_fast};
use fathom_fileio::read::{ReadError, Way};
use fathom_fileio::subject::{Kind, OpenError};
use fathom_fileio::{Source, traffic};
use fathom_measure::{Clock, affinity};
use fathom_metric::notation::{NotationError, bytes};
use fathom_metric::{
    About, ByHand, Ending, Event, Inputs, Measured, Parameter, Procedure, ProcedureError, Recorder,
    observed,
};
use fathom_record::quantity::percent;
use fathom_record::{Better, Cause, Disturbance, Host, NoModel, Params, Prediction, Reason, Unit};

use self::found::Found;
use self::pass::{One, Pass};
use self::words::{Why, facts};
use super::bandwidth;
use super::by_hand::{self, checked, shown, size};
use super::options::block;

/// file.fast.
pub struct Fast;

static ABOUT: About = About {
    id: "file.fast",
    title: "file read, as fast as can be",
    unit: Unit::BytesPerSecond,
    better: Better::Higher,
    timed: "reading whole files with the XOR-32 and the position sum of their content: what is in \
            memory by the quickest way from there, the rest past the page cache; from before the \
            look at what is in memory until the last byte is added",
    not_timed: "finding the files in folders; opening the first file, and getting ready to read",
    model: "from memory: at most memory.bandwidth{op=read} of all threads, since every byte is \
            fetched at least once; from a device: none, where nothing tells of the device",
    source: "each byte of the page cache passes from memory to a core at least once",
    pitfalls: &[
        "a file that is partly in memory: each piece of 2 MiB is read from where it is, by \
         cachestat or mincore",
        "a way that is the quickest elsewhere: some of the file is read in each, and the rest in \
         the one that was quickest on it; nothing is read twice",
        "a second run finds in memory what the first has left there: what was read past the page \
         cache is not",
    ],
    parameters: &[
        Parameter {
            name: "state",
            values: "warm, cold, mixed, unknown",
            meaning: "what of the files was in memory",
        },
        Parameter { name: "files", values: "1, 2, …", meaning: "how many" },
        Parameter { name: "file_bytes", values: "bytes", meaning: "of all files" },
    ],
    ..super::BASE
};

impl ByHand for Fast {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn predict(
        &self,
        params: &Params,
        _: &Host,
        known: &Inputs<'_>,
    ) -> Result<Prediction, NoModel> {
        match params.text("state") {
            Some("warm") => bandwidth::at_most_all_cores(known),
            Some("cold") => Err(NoModel::SpeedOfDevice),
            _ => Err(NoModel::MixedResidency),
        }
    }
}

/// Files below this size are read by one thread each, several at a time.
const SMALL: u64 = 16 << 20;

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

const EXAMPLES: &str = "\
Examples:
  fathom file fast FILE                 read and check it as fast as this machine can
  fathom file fast FOLDER '*.iso'       every regular file of a folder, and those of a pattern
  fathom file fast FILE --repeat 12     with an interval
  fathom file fast FILE --path pread --threads 1

What is in memory is read from there by the quickest way, which is found out on the file itself; the
rest is read past the page cache, which leaves memory as it was. Symbolic links in folders are not
followed; what is no regular file is counted and left out.";

/// Read and check whole files as fast as this machine can.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES)]
pub struct ReadFast {
    /// Files, folders, block devices or patterns.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Take this path, whatever is in memory.
    #[arg(long, value_enum)]
    path: Option<PathName>,
    /// Threads [default: one for each CPU; past the page cache one with a ring, or 8 that wait].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Bytes of a block [default: by the path].
    #[arg(long, short, value_name = "SIZE", value_parser = block)]
    block: Option<usize>,
    /// Passes; from 12 on the result has an interval.
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    repeat: u32,
    /// What all cores read of memory in a second, as 50GB [default: of the last `fathom run
    /// memory.bandwidth`].
    #[arg(long, value_name = "SIZE", value_parser = ceiling)]
    ceiling: Option<u64>,
    /// Go on behind a place, or a file, that cannot be read, and tell every such place.
    #[arg(long)]
    keep_going: bool,
}

fn ceiling(text: &str) -> Result<u64, NotationError> {
    match bytes(text)? {
        0 => Err(NotationError::new(text, "bytes a second above 0, such as 50GB")),
        rate => Ok(rate),
    }
}

impl Procedure for ReadFast {
    fn asked(&self) -> String {
        by_hand::all_shown(&self.files)
    }

    fn prior_metrics(&self) -> &'static [&'static str] {
        &["memory.bandwidth"]
    }

    /// It lasts about as long as that would.
    fn calibrates(&self) -> bool {
        false
    }

    fn check(&self) -> Result<(), ProcedureError> {
        Found::of(&self.files, self.keep_going).map(|_| ())
    }

    fn run(&self, recorder: &mut dyn Recorder) -> Result<Ending, ProcedureError> {
        let found = Found::of(&self.files, self.keep_going)?;
        let what = format!("reading {}", size(found.bytes()));
        let pass = |recorder: &mut dyn Recorder, _| {
            let (pass, counted) = observed(recorder.cpu(), || pass(recorder, self, &found));
            let pass = pass?;
            let counted = by_hand::without_own_waits(counted, pass.threads());
            Ok(Some((pass, counted)))
        };
        let (passes, disturbance) =
            by_hand::repeated(recorder, (self.repeat, &what), pass, |_| false)?;
        let last = &passes[passes.len() - 1];
        let not_read = || found.missing.iter().chain(&last.failed);
        let is_faulty = not_read().next().is_some() || last.faults().next().is_some();
        not_read().for_each(|why| recorder.event(Event::Warning(why)));
        let measured = measured(self, &found, &passes, disturbance);
        let (is_fixed, is_shown) = (self.path.is_some(), measured.verdict.is_none());
        let why = Why { is_fixed, is_shown, ceiling: self.ceiling };
        let facts = facts(recorder, &why, &found, &passes);
        recorder.record(Measured { facts, ..measured });
        Ok(if is_faulty { Ending::Faulty } else { Ending::Done })
    }
}

fn options<'a>(recorder: &'a dyn Recorder, read: &ReadFast) -> Options<'a> {
    Options {
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

/// All files once: large ones one after another by all threads, small ones side by side.
fn pass(recorder: &dyn Recorder, read: &ReadFast, found: &Found) -> Result<Pass, ProcedureError> {
    let options = options(recorder, read);
    let is_small = |number: &usize| found.files.len() > 1 && found.files[*number].1 < SMALL;
    let all = 0..found.files.len();
    let (small, large): (Vec<usize>, Vec<usize>) = all.partition(is_small);
    let clock = recorder.clock();
    let mut pass = Pass::default();
    let before = traffic::fetched();
    let begin = clock.start();
    for number in large {
        let is_alone = found.files.len() == 1;
        match one(&found.files[number].0, number, &options, clock) {
            Ok(one) => pass.ones.push(one),
            Err(why) if read.keep_going && !is_alone => pass.failed.push(why.to_string()),
            Err(why) => return Err(ProcedureError::failed(why)),
        }
    }
    side_by_side(recorder, found, &small, &options, &mut pass);
    pass.ns = clock.ns(begin, clock.stop());
    pass.device_bytes = traffic::since(before);
    if let Some(first) = pass.failed.first().filter(|_| !read.keep_going) {
        return Err(ProcedureError::failed(first));
    }
    if pass.ones.is_empty() {
        return Err(ProcedureError::failed(
            pass.failed.first().map_or("nothing was read", String::as_str),
        ));
    }
    pass.ones.sort_by_key(|one| one.number);
    Ok(pass)
}

/// Why one file cannot be read.
#[derive(Debug, thiserror::Error)]
enum FileError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("{} has no end: `file read` reads so many blocks of it", shown(.0))]
    Endless(PathBuf),
    #[error("read {}: {error}", shown(.path))]
    Read { path: PathBuf, error: ReadError },
}

/// One file, with what of it was in memory before.
fn one(path: &Path, number: usize, options: &Options<'_>, clock: &Clock) -> Result<One, FileError> {
    let source = Source::open(path)?;
    if source.subject().kind == Kind::Character {
        return Err(FileError::Endless(path.to_owned()));
    }
    let fast = read_fast(&source, options, clock)
        .map_err(|error| FileError::Read { path: path.to_owned(), error })?;
    Ok(One::new(number, &source, fast))
}

fn side_by_side(
    recorder: &dyn Recorder,
    found: &Found,
    small: &[usize],
    options: &Options<'_>,
    pass: &mut Pass,
) {
    let next = AtomicUsize::new(0);
    let threads = options.threads.unwrap_or(options.cpus).clamp(1, small.len().max(1));
    // A file of a page or two is not worth a second thread, a ring or a trial.
    let options = Options { threads: Some(1), way: options.way.or(Some(Way::Pread)), ..*options };
    let clock = recorder.clock().specification();
    let work = || {
        let clock = Clock::from_specification(clock);
        let mut done = Vec::new();
        while let Some(number) = small.get(next.fetch_add(1, Ordering::Relaxed)) {
            if options.stop.load(Ordering::Relaxed) {
                break;
            }
            done.push(one(&found.files[*number].0, *number, &options, &clock));
        }
        done
    };
    pass.beside = if small.is_empty() { 0 } else { threads };
    let done = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut done = work();
        let joined =
            others.into_iter().map(|other| other.join().unwrap_or_else(|it| resume_unwind(it)));
        done.extend(joined.flatten());
        done
    });
    for one in done {
        match one {
            Ok(one) => pass.ones.push(one),
            Err(why) => pass.failed.push(why.to_string()),
        }
    }
}

fn measured(read: &ReadFast, found: &Found, passes: &[Pass], disturbance: Disturbance) -> Measured {
    let last = &passes[passes.len() - 1];
    let sum = last.sum();
    let states: Vec<&str> = passes.iter().map(Pass::state).collect();
    let params = Params::one("state", by_hand::state_of_all(&states))
        .and("files", found.files.len() as i64)
        .and("file_bytes", sum.bytes as i64);
    let mut verified = vec![
        ("files", by_hand::all_shown(&read.files)),
        ("bytes", sum.bytes.to_string()),
        ("XOR-32", format!("{:08x}", sum.xor)),
    ];
    if let [one] = last.ones.as_slice() {
        verified.push(("position sum", format!("{:016x}", sum.position)));
        verified.push(("in memory before", one.proof.clone()));
    }
    let values = match sum.bytes {
        0 => Vec::new(),
        _ => passes.iter().map(Pass::rate).collect(),
    };
    let verdict = by_hand::unreadable(passes.iter().flat_map(Pass::faults))
        .or_else(|| by_hand::nothing_done(sum.bytes));
    Measured {
        metric: "file.fast",
        params,
        values,
        disturbance,
        checks: checked(verified),
        verdict,
        doubts: doubts(passes),
        ..Measured::default()
    }
}

/// What speaks against the number, or against the sums: files that changed, passes that differ,
/// holes that no device was asked for.
fn doubts(passes: &[Pass]) -> Vec<Reason> {
    let mut doubts = Vec::new();
    let mut doubt = |cause, text: String| doubts.push(Reason::new(cause, text));
    let ones = || passes.iter().flat_map(|pass| &pass.ones);
    let is_changed = |one: &&One| {
        one.fast.changed.is_some_and(|change| change.modified || change.size.0 != change.size.1)
    };
    let changed = ones().filter(is_changed).count();
    if changed > 0 || ones().any(|one| one.fast.ended_at.is_some()) {
        doubt(Cause::NotAsAsked, "what is read changed while it was read".to_owned());
    }
    let is_whole = |pass: &&Pass| !pass.ones.iter().any(|one| one.fast.stopped);
    let mut whole = passes.iter().filter(is_whole);
    let first = whole.next().map(|pass| (pass.sum().xor, pass.sum().position));
    if whole.any(|pass| Some((pass.sum().xor, pass.sum().position)) != first) {
        doubt(Cause::WrongWork, "the passes read different content".to_owned());
    }
    if let Some(share) = ones().filter_map(|one| one.data).reduce(f64::min).filter(|it| *it < 1.0) {
        let text = format!(
            "only {} of a file is data: holes and reserved space are read without a device",
            percent(share)
        );
        doubt(Cause::NotAsAsked, text);
    }
    let states: Vec<&str> = passes.iter().map(Pass::state).collect();
    doubts.extend(by_hand::other_states(&states));
    doubts.extend(by_hand::too_short(passes.iter().map(|pass| pass.ns)));
    doubts
}
