//! file.capacity: the largest file that stays in the page cache, and file.capacity.block_time: the
//! time of a block by file size. Found by `fathom file capacity`.

mod knee;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Parser;
use fathom_fileio::available_memory::{self, AvailableMemory};
use fathom_fileio::memory::MemoryPages;
use fathom_fileio::{proc_io, residency};
use fathom_metric::notation::bytes;
use fathom_record::quantity::percent;
use fathom_record::{Basis, Interval, State};
use rustix::fs::{Advice, fadvise};

use self::knee::{Knee, KneeSearch, Observation};
use super::by_hand::{ByHandResult, checked, size};
use super::temporary::{Temporary, TemporaryFolder};
use crate::file::BASE;
use crate::prelude::*;

pub const CAPACITY: ByHand = ByHand(ABOUT, predict);

pub const BLOCK_TIME: ByHand = ByHand(ABOUT_BLOCK_TIME, predict_block_time);

const ABOUT: About = About {
    id: "file.capacity",
    title: "page cache capacity",
    unit: Unit::Bytes,
    better: Better::Higher,
    timed: "nothing: a location, from the largest file that is completely cached after two reads, \
            by the kernel's count of its pages, to the smallest that is not, 2 % larger at most",
    not_timed: "the time of a block, shown with its standard deviation for every size",
    model: "MemAvailable, or the limit of the control group minus its usage",
    source: "Linux mm/show_mem.c: si_mem_available; mm/memcontrol.c charges pages of files to the \
             group that reads them first",
    pitfalls: &[
        "another process that allocates memory during a try makes a size seem too large: such a \
         size is tried twice",
        "sequential re-reads of a file slightly larger than the cache may evict nearly all of it",
        "dirty pages count as memory: all data is written back before it is read",
        "in a version 1 control group much smaller than the machine, kernel memory for the file \
         counts too",
    ],
    published: "2016: 5.5 of 8 GB",
    ..BASE
};

const ABOUT_BLOCK_TIME: About = About {
    id: "file.capacity.block_time",
    title: "block of a file read again",
    timed: "pread of 1 MiB, over a whole file that was read once before, as time per 4 KiB",
    not_timed: "the first read, and writing the file",
    model: "of a file smaller than the available memory: the time of the first size; of a larger \
            one a bound: ≥ that time; near the capacity no value: part of the file may stay \
            cached",
    source: "Linux mm/filemap.c: a cached page costs the same in a file of any size, and a device \
             is read through the page cache",
    pitfalls: &[
        "the sizes are those of the search: dense around the capacity only",
        "a file slightly larger than the cache may be read again completely from the device",
    ],
    parameters: &[Parameter::new("file_bytes", "multiples of 1 MiB", "file size")],
    noise_limit: 0.30,
    ..BASE
};

/// Part of the available memory is unusable: watermarks, and kernel memory for the file.
const TOLERANCE: f64 = 0.15;

/// From the memory available before the search.
fn prediction(available_bytes: f64, origin: Origin) -> Prediction {
    Prediction::sum(available_bytes, 0.0, TOLERANCE, "available memory", ABOUT.source)
        .with_quantity("available memory", available_bytes, Unit::Bytes, origin)
        .if_above("memory was freed during the search, or other processes were swapped out")
        .if_below(
            "other processes allocated memory, or the kernel protected the active list from the \
             sequential read",
        )
}

fn predict(_: &Params, host: &Host, _: &Inputs<'_>) -> Model {
    let limit = host.cgroup.memory_limit_bytes;
    let available = host.memory.available_bytes.into_iter().chain(limit).min();
    let missing = || NoModel::unknown_fact(&["memory.available_bytes"]);
    let origin = Origin::host(host, "memory.available_bytes");
    Ok(prediction(available.ok_or_else(missing)? as f64, origin))
}

/// A cached block takes as long in a file of any size, up to the size of its folios.
const SAME: f64 = 0.30;

/// Of a size near the capacity, and of the first one; [`block_time`] predicts the others.
fn predict_block_time(_: &Params, _: &Host, _: &Inputs<'_>) -> Model {
    Err(NoModel::MixedResidency)
}

/// The time of a block by that of the first size, where the available memory decides whether the
/// file stays cached.
fn block_time(
    bytes: u64,
    available: &AvailableMemory,
    first: &CapacityPoint,
) -> Option<Prediction> {
    if bytes == first.bytes || !first.fits() {
        return None;
    }
    let (size, limit) = (bytes as f64, available.bytes as f64);
    let name = format!("{}{}", ABOUT_BLOCK_TIME.id, of_size(first.bytes));
    let claim = match size / limit {
        share if share <= 1.0 - TOLERANCE => {
            Prediction::sum(first.ns, 0.0, SAME, &name, ABOUT_BLOCK_TIME.source)
                .without_parts()
                .self_consistent()
        }
        share if share > 1.0 => {
            Prediction::at_least(first.ns, &format!("≥ {name}"), ABOUT_BLOCK_TIME.source)
        }
        _ => return None,
    };
    let counted = Origin::Counted { at: available.source.clone() };
    let claim = claim.with_result(&name, first.ns, Unit::Nanoseconds);
    Some(claim.with_quantity("available memory", limit, Unit::Bytes, counted))
}

fn of_size(bytes: u64) -> Params {
    Params::one("file_bytes", bytes as i64)
}

const EXAMPLES: &str = "\
Examples:
  fathom file capacity                 find the capacity of the page cache; asks before it writes
  fathom file capacity --yes           do not ask
  fathom file capacity --max 4GiB      does a file of 4 GiB fit?

Reads a growing file twice per size, until the second read no longer comes completely from the page
cache. Evicts the cached files of other processes, and writes up to the size of the memory to disk.
Without a terminal it does not ask.";

/// Find the largest file that stays in the page cache.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES)]
pub struct FindCapacity {
    /// Largest file to try [default: total memory, at most the free disk space].
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    max: Option<u64>,
    /// Do not ask before writing.
    #[arg(long, short)]
    yes: bool,
    /// Folder of the temporary file [default: $FATHOM_FOLDER, or /var/tmp, or the current folder].
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

/// The largest step between sizes; otherwise the predicted capacity / PARTS.
const STEP: u64 = 1 << 30;
const PARTS: u64 = 16;
/// Sizes are multiples of this.
const GRAIN: u64 = 1 << 20;
/// Means of successive chunks that are kept of each size, at most.
const STRETCHES: usize = 64;
const MIB: f64 = (1 << 20) as f64;
/// Bytes per read.
const CHUNK: usize = 1 << 20;
/// Times are shown per block of this size.
const BLOCK: usize = 4096;
/// A file fits if at least this share is cached: reclaim takes single pages of a file that fits,
/// and most of one that does not.
const WHOLE: f64 = 0.995;

/// The measurement at one size.
struct CapacityPoint {
    bytes: u64,
    /// Time per block of the second read, and its standard deviation over the chunks.
    ns: f64,
    deviation: f64,
    /// The same over each of [`STRETCHES`].
    stretches: Vec<f64>,
    /// Cached share after each read.
    resident: [f64; 2],
    /// Bytes that the second read fetched from devices.
    device: Option<u64>,
}

impl CapacityPoint {
    fn fits(&self) -> bool {
        let fetched = self.device.map_or(0.0, |bytes| bytes as f64 / self.bytes as f64);
        self.resident.iter().all(|&share| share >= WHOLE) && fetched <= 1.0 - WHOLE
    }

    fn describe(&self) -> String {
        let time = |ns| quantity(ns, Unit::Nanoseconds);
        format!(
            "{}: 4 KiB take {} ± {}; {} cached after the first read, {} after the second{}",
            size(self.bytes),
            time(self.ns),
            time(self.deviation),
            percent(self.resident[0]),
            percent(self.resident[1]),
            match self.device {
                _ if self.fits() => String::new(),
                Some(bytes) if bytes > 0 => {
                    format!(", which read {} from the device: does not fit", size(bytes))
                }
                _ => ": does not fit".to_owned(),
            }
        )
    }
}

impl Procedure for FindCapacity {
    fn check(&self) -> ByHandResult<()> {
        let folder = TemporaryFolder::on_device(self.folder.as_deref())?;
        search(self, &folder, &available()?).map(|_| ())
    }

    fn run(&self, recorder: &mut dyn Recorder) -> ByHandResult<Ending> {
        let folder = TemporaryFolder::on_device(self.folder.as_deref())?;
        let available = available()?;
        let search = search(self, &folder, &available)?;
        let text = format!(
            "writes {} at most to {}, and reads {} at most; {} predicted ({})",
            size(search.most),
            folder.describe(),
            size(search.max_reads()),
            size(available.bytes),
            available.source
        );
        if !recorder.confirm(&text, !self.yes) {
            return Ok(Ending::Stopped);
        }
        let mut file = Temporary::new(&folder)?;
        let mut points = Vec::new();
        let knee = search.knee(|bytes| -> ByHandResult<Observation> {
            let Some(point) = measure_size(&mut file, bytes, recorder)? else {
                return Ok(Observation::Stopped);
            };
            let what = point.describe();
            recorder.event(Event::Progress { done: bytes, all: search.most, what: &what });
            let observation = if point.fits() { Observation::Fits } else { Observation::Evicted };
            points.push(point);
            Ok(observation)
        })?;
        let by_space = self.max.unwrap_or(available.limit) > search.most;
        recorder.record(measured(knee, by_space, &available, &points));
        record_series(recorder, &points, &available);
        Ok(if matches!(knee, Knee::Above(_)) { Ending::NotFound } else { Ending::Done })
    }
}

fn available() -> ByHandResult<AvailableMemory> {
    available_memory::now()
        .ok_or_else(|| ProcedureError::failed("/proc/meminfo has no MemAvailable"))
}

fn facts(knee: Knee, available: &AvailableMemory, points: &[CapacityPoint]) -> Vec<Fact> {
    let predicted = format!("{} ({})", size(available.bytes), available.source);
    let mut facts = vec![Fact::text("available memory", predicted)];
    let capacity = match knee {
        Knee::Found { fits, evicted } => {
            format!("{} fit, {} do not", size(fits), size(evicted))
        }
        Knee::Above(bytes) | Knee::Stopped(bytes) => format!("at least {}", size(bytes)),
    };
    facts.push(Fact::text("capacity", capacity));
    if let Knee::Found { fits, evicted } = knee {
        // Of a value that is anywhere between both with the same probability.
        let deviation = (evicted - fits) as f64 / 12f64.sqrt();
        facts.push(Fact::quantity("deviation", deviation, Unit::Bytes));
    }
    let fitting = points.iter().filter(|point| point.fits());
    let whole = |point: &CapacityPoint| {
        (point.bytes as f64 / MIB, point.ns * point.bytes as f64 / BLOCK as f64)
    };
    let (sizes, times): (Vec<f64>, Vec<f64>) = fitting.map(whole).unzip();
    if let Some(line) = statistics::line(&sizes, &times) {
        let (slope, start) = (line.slope, line.intercept);
        let over = "MiB of a file that fits";
        let line = Fact::of_line(slope, start, line.r_squared, Unit::Nanoseconds, over);
        // The words only: it is no line through the capacity.
        facts.extend(line.into_iter().take(1));
    }
    facts
}

fn search(
    options: &FindCapacity,
    folder: &TemporaryFolder,
    available: &AvailableMemory,
) -> ByHandResult<KneeSearch> {
    let free = folder.free()?;
    let wanted = options.max.unwrap_or(available.limit);
    let most = wanted.min(free);
    let step = (available.bytes.min(most) / PARTS).min(STEP) / GRAIN * GRAIN;
    let search = KneeSearch { step: step.max(GRAIN), most, grain: GRAIN };
    if search.most < search.grain {
        let error = if wanted < GRAIN { ProcedureError::Usage } else { ProcedureError::Failed };
        return Err(error(format!(
            "--max {}, with {} usable in {}: needs at least {}; free space, or use another \
             --folder",
            size(wanted),
            size(free),
            folder.describe(),
            size(GRAIN)
        )));
    }
    Ok(search)
}

/// Reads the first bytes of the file twice. `None` if stopped.
fn measure_size(
    file: &mut Temporary,
    bytes: u64,
    recorder: &mut dyn Recorder,
) -> ByHandResult<Option<CapacityPoint>> {
    // A smaller size than the file is the beginning of the same file.
    if bytes > file.bytes && !file.resize(bytes, recorder)? {
        return Ok(None);
    }
    let file = file.file();
    let (clock, stop) = (recorder.clock(), recorder.stop().now());
    // Cached pages after `bytes`, from earlier sizes, would compete for memory.
    fadvise(file, bytes, None, Advice::DontNeed)?;
    let resident = || residency::residency_of(file).cached.min(bytes) as f64 / bytes as f64;
    if pass(file, bytes, clock, stop)?.is_none() {
        return Ok(None);
    }
    let first = resident();
    let before = proc_io::read_bytes();
    let Some(times) = pass(file, bytes, clock, stop)? else { return Ok(None) };
    let device = proc_io::read_bytes_since(before);
    let ns = statistics::mean(&times).unwrap_or(f64::NAN);
    let deviation = statistics::standard_deviation(&times).unwrap_or(0.0);
    let stretch = times.len().div_ceil(STRETCHES).max(1);
    let stretches = times.chunks(stretch).filter_map(statistics::mean).collect();
    Ok(Some(CapacityPoint {
        bytes,
        ns,
        deviation,
        stretches,
        resident: [first, resident()],
        device,
    }))
}

/// Reads the first bytes of a file. Returns the time per block in each chunk.
fn pass(
    file: &std::fs::File,
    bytes: u64,
    clock: &Clock,
    stop: &AtomicBool,
) -> ByHandResult<Option<Vec<f64>>> {
    let mut chunk = MemoryPages::new(CHUNK)?;
    let mut times = Vec::new();
    let mut at = 0;
    while at < bytes {
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let begin = clock.start();
        let read = rustix::io::pread(file, &mut chunk[..], at)?;
        let ns = clock.ns(begin, clock.stop());
        if read == 0 {
            return Err(ProcedureError::failed(format!("the temporary file ended at byte {at}")));
        }
        times.push(ns * BLOCK as f64 / read as f64);
        at += read as u64;
    }
    Ok(Some(times))
}

/// By Student's t.
fn mean_interval(values: &[f64]) -> Option<Interval> {
    let mean = statistics::mean(values)?;
    let half = statistics::mean_half_width(values)?;
    Some(Interval::new([(mean - half).max(0.0), mean + half], 0.95, Basis::WithinRun))
}

/// The time of a block by file size, ascending; of a size that was tried twice, the second try.
fn record_series(
    recorder: &mut dyn Recorder,
    points: &[CapacityPoint],
    available: &AvailableMemory,
) {
    let Some(first) = points.first() else { return };
    let by_size: BTreeMap<u64, &CapacityPoint> =
        points.iter().map(|point| (point.bytes, point)).collect();
    for point in by_size.into_values() {
        let mut facts = vec![
            Fact::quantity("deviation", point.deviation, Unit::Nanoseconds),
            Fact::text("cached", percent(point.resident[1])),
        ];
        facts.extend(point.device.map(|it| Fact::text("from the device", size(it))));
        recorder.record(Measured {
            metric: ABOUT_BLOCK_TIME.id,
            params: of_size(point.bytes),
            values: point.stretches.clone(),
            // All blocks: the few that a device reads are most of the time.
            headline: Some((point.ns, mean_interval(&point.stretches))),
            facts,
            prediction: block_time(point.bytes, available, first),
            ..Measured::default()
        });
    }
}

fn measured(
    knee: Knee,
    by_space: bool,
    available: &AvailableMemory,
    points: &[CapacityPoint],
) -> Measured {
    let headline = match knee {
        Knee::Found { fits, evicted } => {
            let sides = [fits as f64, evicted as f64];
            Some((sides[0], Some(Interval::new(sides, 1.0, Basis::Grid))))
        }
        _ => None,
    };
    let (values, verdict) = match knee {
        Knee::Found { fits, .. } => (vec![fits as f64], None),
        // A lower bound; the recorder marks the record as stopped.
        Knee::Stopped(fits) if fits > 0 => (vec![fits as f64], None),
        Knee::Stopped(_) => {
            let text = "stopped before any size was found to fit";
            (Vec::new(), Some(Verdict::because(State::Unavailable, Cause::Interrupted, text)))
        }
        Knee::Above(fits) => {
            let text = format!("{} fit, the largest size to try", size(fits));
            let remedy = match by_space {
                true => Remedy::FreeSpace,
                false => {
                    // Above the prediction by more than its tolerance.
                    let needed = available.bytes.max(fits) / 4 * 5;
                    let max = binary_size(needed.next_multiple_of(1 << 30)).replace(' ', "");
                    Remedy::Do { action: format!("repeat with --max {max}") }
                }
            };
            let reason = Reason::new(Cause::SearchLimit, text).with_remedy(remedy);
            let reasons = vec![reason];
            (Vec::new(), Some(Verdict { state: State::Unavailable, reasons }))
        }
    };
    let counted = Origin::Counted { at: available.source.clone() };
    Measured {
        metric: ABOUT.id,
        params: Params::none(),
        values,
        headline,
        // No disturbance: what takes CPU time from this process takes no memory from the file.
        checks: checked(vec![
            ("sizes tried", points.len().to_string()),
            ("available memory", format!("{} ({})", available.bytes, available.source)),
        ]),
        verdict,
        facts: facts(knee, available, points),
        prediction: Some(prediction(available.bytes as f64, counted)),
        ..Measured::default()
    }
}
