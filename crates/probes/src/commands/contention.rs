//! file.contention: time per block while other processes read from the same device, and
//! file.contention.per_process: its increase per process. Measured by `fathom file contend`.
//!
//! Each reader is a new process of this program. They wait on a pipe until all are ready, and start
//! when the coordinator closes it. Only the time in which all of them read counts: from the start
//! of the last to the end of the first.

use std::io::{PipeReader, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::{Args, Parser};
use fathom_analysis::statistics;
use fathom_fileio::memory::MemoryPages;
use fathom_fileio::read;
use fathom_fileio::residency::{self, ResidencyState};
use fathom_measure::clock;
use fathom_measure::process::{self, Running};
use fathom_metric::notation::{NotationError, bytes, count, time};
use fathom_record::quantity::counted;
use rustix::fs::{Advice, Mode, OFlags, fadvise};
use rustix::process::Pid;

use super::by_hand::{self, ByHandResult, checked, size};
use super::cache_state;
use super::cap::Cap;
use super::options::{CommandCounts, StateName, sorted};
use super::temporary::{Temporary, TemporaryFolder};
use crate::file::BASE;
use crate::file::BUFFERED_DIRECT;
use crate::prelude::*;

const BLOCK: usize = 4096;
/// Sent by a reader when it is ready.
const READY: u8 = b'r';
/// Least file size: several blocks per reader in the common time.
const BYTES_MIN: u64 = 1 << 20;
const BYTES_MAX: u64 = 64 << 30;
/// Least blocks per process in the common time.
const TOGETHER_MIN: usize = 8;
/// Attempts for a round in which the readers do not overlap.
const TRIES: u32 = 5;
/// Direct reads that leave more than this share of a file cached were buffered.
const CACHED_MAX: f64 = 0.25;

pub const CONTENTION: ByHand = ByHand(ABOUT, predict);

pub const PER_PROCESS: ByHand = ByHand(ABOUT_PER_PROCESS, predict_per_process);

const ABOUT: About = About {
    id: "file.contention",
    title: "block read while others read",
    timed: "time per 4 KiB block of one of several processes, each reading its own file \
            sequentially, while all of them read",
    not_timed: "starting the processes, opening the files, the time in which not all of them read",
    model: "a bound: with others ≥ alone; alone it is the service time of the device, without a \
            model. No value: the queue of the device is not published",
    source: "one request of each process at a time: Linux block/blk-mq.c",
    pitfalls: &[
        "cached files cause no contention: they are read with O_DIRECT, or evicted before each \
         round and read without readahead; both are verified",
        "processes that finish early leave the device to the others: that time does not count",
        "in a virtual machine the host may cache the files",
    ],
    parameters: &[
        Parameter::new("processes", "1, 2, …", "concurrent readers"),
        Parameter::new("state", "direct, cold", "O_DIRECT; through the page cache, after eviction"),
    ],
    published: "2016: 28.4 µs × processes + 53.1 µs",
    noise_limit: 0.20,
    ..BASE
};

const ABOUT_PER_PROCESS: About = About {
    id: "file.contention.per_process",
    title: "block read, per other process",
    timed: "the slope of a line through file.contention over the number of processes, in each \
            round; the line shown has the medians of slopes, intercepts and r²",
    not_timed: "the time of a block without other processes",
    model: "a bound: ≤ file.contention{processes=1}. A device that serves requests sequentially \
            adds one service time per process, a parallel one less. No value: the parallelism of \
            the device is not published",
    source: "closed queue: n customers with one request each at one server wait n service times",
    pitfalls: &["a parallel device gives a step where it saturates, not a line"],
    parameters: &[Parameter::new("state", "direct, cold", "as for file.contention")],
    needs: &["file.contention"],
    published: "2016: 28.4 µs",
    noise_limit: 0.20,
    ..BASE
};

/// The case of one process in the same state.
fn alone(params: &Params) -> Params {
    Params::one("processes", 1).and("state", params.text("state").unwrap_or_default())
}

fn predict(params: &Params, _: &Host, known: &Inputs<'_>) -> Model {
    if params.integer("processes") == Some(1) {
        return Err(NoModel::ServiceTime);
    }
    let source = "a shared device serves no process faster than one alone";
    at_least(ABOUT.id, &alone(params), source, known)
}

fn predict_per_process(params: &Params, _: &Host, known: &Inputs<'_>) -> Model {
    let meaning = "processes delay each other by more than the service time: they interrupt \
                   sequential access, or there are too few CPUs";
    let texts = (ABOUT_PER_PROCESS.source, meaning);
    at_most_earlier(ABOUT.id, &alone(params), texts, known)
}

const EXAMPLES: &str = "\
Examples:
  fathom file contend                       1 to 10 processes, less than a minute
  fathom file contend --processes 1,2,4     these numbers of processes
  fathom file contend --folder /mnt/disk    on the device of that folder

Each process reads its own file in blocks of 4 KiB, with O_DIRECT where possible, otherwise after
eviction and without readahead. All start together, and only the time in which all of them read
counts.";

/// Measure reads while other processes read from the same device.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES)]
pub struct Contend {
    /// List of the numbers of processes; 1 is always included.
    #[arg(long, value_name = "COUNTS", default_value = "1..10", value_parser = processes)]
    processes: CommandCounts,
    /// File size per process.
    #[arg(long, value_name = "SIZE", default_value = "32MiB", value_parser = bytes)]
    bytes: u64,
    /// Number of rounds.
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Limit for all reads together, divided evenly among the rounds.
    #[arg(long, value_name = "TIME", default_value = "40s", value_parser = time)]
    time_limit: Duration,
    /// Folder of the temporary files [default: $FATHOM_FOLDER, or /var/tmp, or the current folder].
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    #[command(flatten)]
    reader: ContentionReader,
}

/// Hidden options of a reader process.
#[derive(Debug, Args)]
struct ContentionReader {
    /// Its file.
    #[arg(long, hide = true)]
    reader_file: Option<PathBuf>,
    /// Process id of the coordinator.
    #[arg(long, hide = true, default_value_t = 0)]
    coordinator: u32,
    /// Time limit.
    #[arg(long, hide = true, default_value_t = 0)]
    nanoseconds: u64,
    /// Use O_DIRECT.
    #[arg(long, hide = true)]
    direct: bool,
}

/// More processes would measure the scheduler.
const PROCESSES_MAX: u64 = 64;

/// A list of numbers of processes. Unlike in other lists, a range means every number in it.
fn processes(text: &str) -> ByHandResult<CommandCounts, NotationError> {
    let mut all = vec![1];
    for part in text.split(',').map(str::trim) {
        let (from, to) =
            part.split_once("..").or_else(|| part.split_once('…')).unwrap_or((part, part));
        let (from, to) = (count(from.trim())?, count(to.trim())?);
        if from == 0 || from > to || to > PROCESSES_MAX {
            let expected = format!("1 to {PROCESSES_MAX} processes, such as 1..10 or 1,2,4");
            return Err(NotationError::new(part, expected));
        }
        all.extend(from..=to);
    }
    sorted(&mut all);
    Ok(CommandCounts(all))
}

/// The files of the processes, and how they are read.
struct ContentionFiles {
    sources: Vec<PathInfoSource>,
    /// Direct or cold.
    state: StateName,
    bytes: u64,
    /// Time limit of a round.
    nanoseconds: u64,
    /// Set if a file was not in the requested state.
    wrong: Option<Verdict>,
}

/// All rounds with one number of processes.
struct ContentionRow {
    processes: u64,
    /// Nanoseconds per block; `None` for a round without overlap.
    rounds: Vec<Option<f64>>,
    /// Of each round.
    disturbance: Vec<Disturbance>,
}

impl ContentionRow {
    fn values(&self) -> Vec<f64> {
        self.rounds.iter().copied().flatten().collect()
    }

    /// The disturbance of each of [`Self::values`].
    fn counted(&self) -> Vec<Disturbance> {
        let rounds = self.rounds.iter().zip(&self.disturbance);
        rounds.filter(|(round, _)| round.is_some()).map(|(_, counted)| counted.clone()).collect()
    }

    /// The doubt if rounds had no overlap.
    fn doubt(&self) -> Option<Reason> {
        let lost = self.rounds.iter().filter(|round| round.is_none()).count();
        let all = self.rounds.len();
        let text = format!("the processes did not overlap in {lost} of {all} rounds");
        let reason = || Reason::new(Cause::MissingInput, text).with_remedy(Remedy::MoreBytes);
        (lost > 0).then(reason)
    }
}

impl Procedure for Contend {
    fn part(&self) -> Option<ByHandResult<()>> {
        let file = self.reader.reader_file.as_ref()?;
        Some(self.reader.read(file, self.bytes / BLOCK as u64))
    }

    fn check(&self) -> ByHandResult<()> {
        let bytes = self.file_bytes();
        if !(BYTES_MIN..=BYTES_MAX).contains(&bytes) {
            let (least, most) = (size(BYTES_MIN), size(BYTES_MAX));
            let got = size(self.bytes);
            return Err(ProcedureError::usage(format!("--bytes {got}: must be {least} to {most}")));
        }
        TemporaryFolder::on_device(self.folder.as_deref())?.check(self.most() * bytes)
    }

    fn run(&self, recorder: &mut dyn Recorder) -> ByHandResult<Ending> {
        let folder = TemporaryFolder::on_device(self.folder.as_deref())?;
        let both = (self.most(), self.file_bytes());
        let Some(mut files) = files(recorder, self, &folder, both)? else {
            return Ok(Ending::Stopped);
        };
        let row = |&processes: &u64| ContentionRow {
            processes,
            rounds: Vec::new(),
            disturbance: Vec::new(),
        };
        let mut rows: Vec<ContentionRow> = self.processes.0.iter().map(row).collect();
        rounds(recorder, self, &mut files, &mut rows)?;
        record(recorder, &files, &rows);
        Ok(Ending::Done)
    }
}

impl Contend {
    fn most(&self) -> u64 {
        self.processes.0.iter().copied().max().unwrap_or(1)
    }

    /// Whole blocks of `--bytes`.
    fn file_bytes(&self) -> u64 {
        self.bytes / BLOCK as u64 * BLOCK as u64
    }
}

/// Creates a file per process, and tests whether direct I/O works. `None` if stopped.
fn files(
    recorder: &mut dyn Recorder,
    contend: &Contend,
    folder: &TemporaryFolder,
    (most, bytes): (u64, u64),
) -> ByHandResult<Option<ContentionFiles>> {
    let all = size(most * bytes);
    let reads = format!("reads for {:.0} s at most", contend.time_limit.as_secs_f64());
    let files = counted(most as usize, "file");
    let text = format!("writes {files} of {}, {all} in all, and {reads}", size(bytes));
    recorder.confirm(&text, false);
    let mut sources = Vec::new();
    for _ in 0..most {
        let mut file = Temporary::new(folder)?;
        if !file.resize(bytes, recorder)? {
            return Ok(None);
        }
        residency::evict(file.file())?;
        sources.push(file.into_source());
    }
    let request = read::ReadRequest {
        range: Some(0..BLOCK as u64),
        ..read::ReadRequest::whole(read::Way::Direct)
    };
    let direct = fathom_fileio::read(&sources[0], &request, recorder.clock());
    let is_direct = direct.is_ok_and(|outcome| outcome.fallbacks == 0 && outcome.faults.is_empty());
    let rounds = contend.processes.0.len() as f64 * f64::from(contend.repeat);
    let share = contend.time_limit.div_f64(rounds);
    Ok(Some(ContentionFiles {
        sources,
        state: if is_direct { StateName::Direct } else { StateName::Cold },
        bytes,
        nanoseconds: share.as_nanos() as u64,
        wrong: None,
    }))
}

/// Each round has every number of processes once, so that a disturbance affects all alike. What was
/// read so far is stored after each step.
fn rounds(
    recorder: &mut dyn Recorder,
    contend: &Contend,
    files: &mut ContentionFiles,
    rows: &mut [ContentionRow],
) -> ByHandResult<()> {
    let program = process::this_program()?;
    let all = u64::from(contend.repeat) * rows.len() as u64;
    let count = rows.len();
    for (done, at) in (1..).zip((0..contend.repeat).flat_map(|_| 0..count)) {
        if recorder.stop().now().load(Ordering::Relaxed) {
            break;
        }
        let (block, counted) =
            observed(recorder.cpu(), || files.block_ns(&program, rows[at].processes));
        let (block, waited_ns) = block?;
        rows[at].rounds.push(block);
        // The readers work, not this process.
        let run_queue_ns = counted.run_queue_ns.map(|own| own.max(waited_ns));
        let counted = Disturbance { run_queue_ns, ..counted };
        let counted = by_hand::without_own_waits(counted, rows[at].processes as usize);
        rows[at].disturbance.push(counted);
        files.check_uncached();
        recorder.event(Event::Progress { done, all, what: "reading" });
        recorder.draft(&mut |recorder| record(recorder, files, rows));
    }
    Ok(())
}

impl ContentionFiles {
    /// Nanoseconds per block of a round, `None` if the processes never overlapped, and how long one
    /// of them waited for a CPU.
    fn block_ns(&mut self, program: &Path, processes: u64) -> ByHandResult<(Option<f64>, u64)> {
        let mut waited_ns = 0;
        for _ in 0..TRIES {
            let (stamps, longest_ns) = self.round(program, processes)?;
            waited_ns += longest_ns;
            let block = overlap(&stamps);
            if block.is_some() {
                return Ok((block, waited_ns));
            }
        }
        Ok((None, waited_ns))
    }

    /// Runs one round. Returns the timestamps of each process, its start and the end of each block,
    /// and the longest run-queue delay of one.
    fn round(&mut self, program: &Path, processes: u64) -> ByHandResult<(Vec<Vec<u64>>, u64)> {
        if self.state == StateName::Cold {
            for source in &self.sources[..processes as usize] {
                let found = residency::evict(source.file())?;
                self.wrong =
                    self.wrong.take().or(cache_state::wrong_state(source, self.state, &found));
            }
        }
        let (gate, hold) = std::io::pipe()?;
        let mut all = Vec::new();
        for source in &self.sources[..processes as usize] {
            all.push(Running::start_tied(|| self.reader_command(program, source, &gate), &[])?);
        }
        for reader in &mut all {
            let mut ready = [0];
            let read = reader.stdout()?.read_exact(&mut ready);
            if read.is_err() || ready != [READY] {
                return Err(ProcedureError::failed("a reader process ended before it was ready"));
            }
        }
        // Starts all readers: they wait for the end of this pipe.
        drop(hold);
        let mut stamps = Vec::new();
        for reader in &mut all {
            let mut answer = Vec::new();
            reader.stdout()?.read_to_end(&mut answer)?;
            if answer.len() <= 8 {
                return Err(ProcedureError::failed("a reader process ended without a result"));
            }
            let stamp = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
            stamps.push(answer.as_chunks::<8>().0.iter().map(stamp).collect());
        }
        // Those that have ended, too: they are not waited for yet.
        let waited_ns = all.iter().map(|reader| process::run_queue_ns(reader.id())).max();
        Ok((stamps, waited_ns.unwrap_or(0)))
    }

    fn reader_command(
        &self,
        program: &Path,
        source: &PathInfoSource,
        gate: &PipeReader,
    ) -> std::io::Result<Command> {
        let own = std::process::id();
        let file = PathBuf::from(format!("/proc/{own}/fd/{}", source.file().as_raw_fd()));
        let mut command = Command::new(program);
        command.args(["file", "contend", "--reader-file"]).arg(file);
        command.args(["--coordinator", &own.to_string()]);
        command.args(["--bytes", &self.bytes.to_string()]);
        command.args(["--nanoseconds", &self.nanoseconds.to_string()]);
        if self.state == StateName::Direct {
            command.arg("--direct");
        }
        command.stdin(Stdio::from(gate.try_clone()?)).stdout(Stdio::piped());
        Ok(command)
    }

    /// Checks that direct reads left the files uncached.
    fn check_uncached(&mut self) {
        let cached = |source: &PathInfoSource| match residency::residency_of(source.file()).state {
            ResidencyState::Warm => true,
            ResidencyState::Mixed { share } => share > CACHED_MAX,
            ResidencyState::Cold | ResidencyState::Unknown { .. } => false,
        };
        if self.state == StateName::Direct && self.sources.iter().any(cached) {
            let invalid = fathom_record::State::Invalid;
            let verdict = || Verdict::because(invalid, Cause::NotAsAsked, BUFFERED_DIRECT);
            self.wrong.get_or_insert_with(verdict);
        }
    }
}

/// Nanoseconds per block while all processes read, from the timestamps of each. `None` without
/// enough overlap.
fn overlap(stamps: &[Vec<u64>]) -> Option<f64> {
    let from = *stamps.iter().filter_map(|one| one.first()).max()?;
    let to = *stamps.iter().filter_map(|one| one.last()).min()?;
    let within = |one: &Vec<u64>| one[1..].iter().filter(|&&at| at > from && at <= to).count();
    let blocks: usize = stamps.iter().map(within).sum();
    let time = to.checked_sub(from)? as f64;
    (blocks >= TOGETHER_MIN * stamps.len()).then(|| stamps.len() as f64 * time / blocks as f64)
}

/// The line of each round: slopes, intercepts, and the shares of the variance that they explain;
/// and the disturbance of each.
fn fitted(rows: &[ContentionRow]) -> Option<([Vec<f64>; 3], Vec<Disturbance>)> {
    let rounds = rows.iter().map(|row| row.rounds.len()).min()?;
    let lines = (0..rounds).filter_map(|round| {
        let point = |row: &ContentionRow| Some((row.processes as f64, row.rounds[round]?));
        let (x, y): (Vec<f64>, Vec<f64>) = rows.iter().filter_map(point).unzip();
        let counted = rows.iter().filter_map(|row| row.disturbance.get(round).cloned());
        let counted = counted.reduce(|sum, one| sum.plus(&one)).unwrap_or_default();
        statistics::line(&x, &y).map(|line| (line, counted))
    });
    let (lines, disturbance): (Vec<_>, Vec<_>) = lines.unzip();
    (!lines.is_empty()).then(|| {
        let all = |part: fn(&statistics::Line) -> f64| lines.iter().map(part).collect();
        (
            [all(|line| line.slope), all(|line| line.intercept), all(|line| line.r_squared)],
            disturbance,
        )
    })
}

fn record(recorder: &mut dyn Recorder, files: &ContentionFiles, rows: &[ContentionRow]) {
    let cap = Cap::on_reads(files.sources[0].file(), Some(BLOCK));
    let no_device = cache_state::no_device(files.sources[0].info());
    for row in rows.iter().filter(|row| !row.rounds.is_empty()) {
        let values = row.values();
        let all = |ns: &f64| 1e9 * row.processes as f64 * BLOCK as f64 / ns;
        let rates: Vec<f64> = values.iter().map(all).collect();
        let together = statistics::median(&rates);
        let together = together.map(|it| Fact::quantity("all together", it, Unit::BytesPerSecond));
        let deviation = statistics::standard_deviation(&values);
        let deviation = deviation.map(|ns| Fact::quantity("deviation", ns, Unit::Nanoseconds));
        recorder.record(Measured {
            metric: ABOUT.id,
            params: Params::one("processes", row.processes as i64).and("state", files.state.name()),
            values,
            in_fresh_processes: true,
            disturbance: row.counted(),
            checks: checked(vec![
                ("file", cache_state::describe_file(&files.sources[0])),
                ("block", BLOCK.to_string()),
            ]),
            verdict: files.wrong.clone(),
            doubts: row.doubt().into_iter().chain(no_device.clone()).collect(),
            remarks: cap.iter().filter_map(|cap| cap.reached(&rates)).collect(),
            facts: deviation
                .into_iter()
                .chain(together)
                .chain(cap.iter().flat_map(Cap::facts))
                .collect(),
            ..Measured::default()
        });
    }
    let Some(([slopes, intercepts, explained], disturbance)) = fitted(rows) else { return };
    let median = |values: &[f64]| statistics::median(values).unwrap_or(f64::NAN);
    let [slope, intercept, r_squared] = [&slopes, &intercepts, &explained].map(|it| median(it));
    let facts = Fact::of_line(slope, intercept, r_squared, Unit::Nanoseconds, "processes");
    recorder.record(Measured {
        metric: ABOUT_PER_PROCESS.id,
        params: Params::one("state", files.state.name()),
        values: slopes,
        in_fresh_processes: true,
        disturbance,
        verdict: files.wrong.clone(),
        doubts: no_device.into_iter().collect(),
        facts,
        ..Measured::default()
    });
}

impl ContentionReader {
    fn read(&self, file: &Path, blocks: u64) -> ByHandResult<()> {
        let ended =
            || ProcedureError::failed("--reader-file is internal to `fathom file contend` itself");
        let coordinator = Pid::from_raw(self.coordinator as i32).ok_or_else(ended)?;
        process::end_with(coordinator).map_err(|_| ended())?;
        let direct = if self.direct { OFlags::DIRECT } else { OFlags::empty() };
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | direct;
        let file = rustix::fs::open(file, flags, Mode::empty())?;
        if !self.direct {
            // Disables readahead, whose blocks would come from the page cache.
            fadvise(&file, 0, None, Advice::Random)?;
        }
        let mut block = MemoryPages::new(BLOCK)?;
        let mut stamps = vec![0_u64; blocks as usize + 1];
        // Faults the pages in before the timed reads.
        stamps.fill(1);
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(&[READY])?;
        stdout.flush()?;
        std::io::stdin().lock().read_to_end(&mut Vec::new())?;
        let begin = clock::monotonic_raw_ns();
        stamps[0] = begin;
        let mut read = 0;
        for number in 0..blocks {
            let at = number * BLOCK as u64;
            if rustix::io::pread(&file, &mut block[..], at)? != BLOCK {
                return Err(ProcedureError::failed("short read"));
            }
            let now = clock::monotonic_raw_ns();
            read += 1;
            stamps[read] = now;
            if now - begin > self.nanoseconds {
                break;
            }
        }
        let answer: Vec<u8> =
            stamps[..=read].iter().flat_map(|stamp| stamp.to_le_bytes()).collect();
        stdout.write_all(&answer)?;
        stdout.flush()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
