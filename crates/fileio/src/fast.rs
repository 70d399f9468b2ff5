//! Reads a whole file as fast as possible: cached parts from the page cache, the rest from the
//! device, with direct I/O where the file system supports it.
//! The first parts are read with one method each, the rest with the fastest: none is read twice.

use std::fs::File;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fathom_measure::Clock;

use crate::extents;
use crate::filesystem::FilesystemClass;
use crate::memory::{MemoryPool, page};
use crate::path_info::{Direct, PathInfoChange, PathInfoSource};
use crate::read::{BLOCK, ReadError, ReadFault, ReadOutcome, ReadRequest, Way, read_with};
use crate::residency::{self, CountedBy, Residency, ResidencyLook, ResidencyState};
use crate::sum::XorSum;

/// Granularity of the residency map: the size of one large folio.
const GRAIN: u64 = 2 << 20;
/// Bytes of a trial from memory: some milliseconds.
const TRIAL_MEMORY: u64 = 32 << 20;
/// Bytes of a trial from a device: enough to amortize its start.
const TRIAL_DEVICE: u64 = 64 << 20;
/// A trial from memory has this many parts; each starts threads.
const TRIAL_SPANS: u64 = 2;
/// Trials may be at most one part in this many of the bytes to read.
const TRIALS_SHARE: u64 = 4;
/// Block size of direct reads: above the largest request of most devices.
const BLOCK_DEVICE: usize = 1 << 20;
/// Block size of buffered reads that are checksummed from the L2 cache: half of a small one. Which
/// is faster, this or [`BLOCK`], depends on the CPU and on the folios of the file.
const BLOCK_L2: usize = 256 << 10;
/// Of a file of unknown size no more bytes are read.
pub const GENERATED_MAX: u64 = 64 << 20;
/// Queue depth of io_uring.
pub const DEPTH: u32 = 16;
/// Threads of direct reads by pread: each has one read in flight.
const DIRECT_THREADS: usize = 8;

#[derive(Clone, Debug)]
pub struct FastOptions<'a> {
    pub way: Option<Way>,
    /// Default: one per CPU in `cpus`.
    pub threads: Option<usize>,
    /// Number of allowed CPUs.
    pub cpus: usize,
    pub block: Option<usize>,
    /// Continue after unreadable ranges.
    pub keep_going: bool,
    pub stop: &'a AtomicBool,
}

/// Where the bytes of a part came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataSource {
    Memory,
    Device,
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadMethod {
    pub way: Way,
    pub threads: usize,
    pub block: usize,
}

/// What was read with one method.
#[derive(Clone, Debug, PartialEq)]
pub struct FastPart {
    pub from: DataSource,
    pub method: ReadMethod,
    pub bytes: u64,
    pub ns: f64,
    /// CPU time of all threads.
    pub cpu_ns: u64,
    /// The highest rate of its stretches, by which trials are compared: a disturbance only slows.
    /// From memory it is that of threads that all have a CPU: a trial takes some milliseconds, in
    /// which new threads may still share one.
    pub best: f64,
    /// Read to compare methods.
    pub is_trial: bool,
}

impl FastPart {
    pub fn rate(&self) -> f64 {
        1e9 * self.bytes as f64 / self.ns
    }

    /// Of a part that is one stretch.
    fn best_rate(&self) -> f64 {
        match self.from {
            DataSource::Memory if self.cpu_ns > 0 => {
                1e9 * self.bytes as f64 * self.method.threads as f64 / self.cpu_ns as f64
            }
            _ => self.rate(),
        }
    }

    pub fn is_like(&self, other: &Self) -> bool {
        self.from == other.from && self.method == other.method && self.is_trial == other.is_trial
    }

    pub fn merge(&mut self, other: &Self) {
        self.bytes += other.bytes;
        self.ns += other.ns;
        self.cpu_ns += other.cpu_ns;
        self.best = self.best.max(other.best);
    }
}

#[derive(Clone, Debug, Default)]
pub struct FastOutcome {
    pub sum: XorSum,
    /// From the residency check to the last byte summed.
    pub ns: f64,
    /// Merged by source and method, trials apart.
    pub parts: Vec<FastPart>,
    /// Unavailable methods, with the reason.
    pub unavailable: Vec<String>,
    /// Unreadable ranges.
    pub faults: Vec<ReadFault>,
    /// Set if the file ended before its size.
    pub ended_at: Option<u64>,
    /// Ended early on request, or without data.
    pub stopped: bool,
    /// A file of unknown size has no data now: more may come at any time, or never.
    pub has_no_data: bool,
    pub changed: Option<PathInfoChange>,
    /// Residency before the read; absent if the read ended before it was counted.
    pub before: Option<Residency>,
}

/// Reads a whole file. Fails where no method can start.
pub fn read_fast(
    source: &PathInfoSource,
    options: &FastOptions<'_>,
    clock: &Clock,
) -> Result<FastOutcome, ReadError> {
    let begin = clock.start();
    let (none, pool) = (FastOutcome::default(), &MemoryPool::default());
    let mut total = match sampled(source, options) {
        Some(counted_by) => {
            let (size, look) = (source.info().size.unwrap_or(0), ResidencyLook::default());
            let mut reader =
                FastReader { source, options, clock, look: Some(&look), pool, total: none };
            let is_over = reader.pieces(vec![(0..size, DataSource::Memory)])?;
            let cached = reader.total;
            if is_over {
                cached
            } else {
                let (before, uncached) = look.result(size, counted_by);
                let total = FastOutcome { before: Some(before), ..cached };
                let mut rest = FastReader { source, options, clock, look: None, pool, total };
                let from = from_device(source.file());
                rest.pieces(uncached.into_iter().map(|range| (range, from)).collect())?;
                rest.total
            }
        }
        None => {
            let before = residency::residency_of(source.file());
            let total = FastOutcome { before: Some(before), ..none };
            let mut reader = FastReader { source, options, clock, look: None, pool, total };
            reader.pieces(pieces(source, &before))?;
            reader.total
        }
    };
    total.ns = clock.ns(begin, clock.stop());
    Ok(total)
}

/// How the pages are counted while they are read, if that is possible.
fn sampled(source: &PathInfoSource, options: &FastOptions<'_>) -> Option<CountedBy> {
    let is_buffered = options.way.is_none_or(|way| matches!(way, Way::Pread | Way::Map));
    let is_paged = options.block.is_none_or(|block| block.is_multiple_of(page()));
    let size = source.info().size.filter(|_| is_buffered && is_paged)?;
    residency::counted_while_read(source.file(), size)
}

/// Holes are zero-filled without a device.
fn from_device(file: &File) -> DataSource {
    match extents::extents_of(file).is_ok_and(|found| 2 * found.data < found.bytes) {
        true => DataSource::Unknown,
        false => DataSource::Device,
    }
}

/// Splits the file by data source.
fn pieces(source: &PathInfoSource, before: &Residency) -> Vec<(Range<u64>, DataSource)> {
    let Some(size) = source.info().size else { return vec![(0..u64::MAX, DataSource::Unknown)] };
    let whole = |from| vec![(0..size, from)];
    let file: &File = source.file();
    match before.state {
        ResidencyState::Warm => whole(DataSource::Memory),
        _ if from_device(file) == DataSource::Unknown => whole(DataSource::Unknown),
        ResidencyState::Cold => whole(DataSource::Device),
        ResidencyState::Unknown { .. } => whole(DataSource::Unknown),
        ResidencyState::Mixed { .. } => residency::pieces(file, GRAIN).map_or_else(
            || whole(DataSource::Unknown),
            |pieces| {
                let from = |cached| if cached { DataSource::Memory } else { DataSource::Device };
                pieces.into_iter().map(|(range, cached)| (range, from(cached))).collect()
            },
        ),
    }
}

/// Candidate methods, the fastest on most machines first.
fn methods(
    source: &PathInfoSource,
    options: &FastOptions<'_>,
    from: DataSource,
) -> Vec<ReadMethod> {
    let threads = options.threads.unwrap_or(options.cpus).max(1);
    let with = |way: Way| {
        let block = options.block.unwrap_or(if way.is_direct() { BLOCK_DEVICE } else { BLOCK });
        let threads = match way {
            Way::Ring { .. } => options.threads.unwrap_or(1),
            Way::Direct => options.threads.unwrap_or(DIRECT_THREADS),
            Way::Calls { .. } => 1,
            Way::Pread | Way::Map => threads,
        };
        ReadMethod { way, threads, block }
    };
    if source.info().size.is_none() {
        return vec![with(Way::Calls { count: None })];
    }
    match options.way {
        // Without io_uring, pread is direct I/O too.
        Some(way @ Way::Ring { .. }) => return vec![with(way), with(Way::Direct)],
        Some(way) => return vec![with(way)],
        None => {}
    }
    let mut buffered = vec![with(Way::Pread), with(Way::Map)];
    if options.block.is_none() {
        buffered.push(ReadMethod { block: BLOCK_L2, ..buffered[0] });
    }
    let info = source.info();
    let supports_direct =
        info.direct != Direct::Refused && info.file_system.class != FilesystemClass::Memory;
    match from {
        DataSource::Device if supports_direct => {
            vec![with(Way::Ring { depth: DEPTH }), with(Way::Direct), buffered[0]]
        }
        DataSource::Device | DataSource::Unknown => vec![buffered[0]],
        DataSource::Memory => buffered,
    }
}

struct FastReader<'r> {
    source: &'r PathInfoSource,
    options: &'r FastOptions<'r>,
    clock: &'r Clock,
    look: Option<&'r ResidencyLook>,
    pool: &'r MemoryPool,
    total: FastOutcome,
}

impl FastReader<'_> {
    /// Reads pieces. Returns true if the read ended early.
    fn pieces(&mut self, pieces: Vec<(Range<u64>, DataSource)>) -> Result<bool, ReadError> {
        for (range, from) in pieces {
            // Per source: the fastest method from memory is not the fastest from a device.
            let mut methods = methods(self.source, self.options, from);
            if self.piece(range, from, &mut methods)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads a piece: a trial with each method, the rest with the fastest. Returns true if the
    /// read ended early.
    fn piece(
        &mut self,
        range: Range<u64>,
        from: DataSource,
        methods: &mut Vec<ReadMethod>,
    ) -> Result<bool, ReadError> {
        let mut left = vec![range.clone()];
        if self.fastest(from).is_none() && methods.len() > 1 {
            match self.trials(range, from, methods)? {
                Some(ranges) => left = ranges,
                None => return Ok(true),
            }
        }
        if let Some(method) = self.fastest(from) {
            methods.insert(0, method);
        }
        // Falls back to the next method where one is unavailable.
        let mut next = methods.iter().copied();
        let mut method = next.next();
        for part in left.into_iter().filter(|part| !part.is_empty()) {
            loop {
                let Some(now) = method else { return Ok(true) };
                match self.stretch(part.clone(), from, now, false) {
                    Ok(true) => return Ok(true),
                    Ok(false) => break,
                    Err(error @ ReadError::Unavailable { .. }) => {
                        method = next.next();
                        if method.is_none() {
                            return Err(error);
                        }
                        self.note_unavailable(&error);
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(false)
    }

    /// Reads a trial with each method, from memory in parts spread over the range: the first pages
    /// of a file are often in scattered memory, which slows every method. Returns the ranges that
    /// are left, or `None` if the read ended early.
    fn trials(
        &mut self,
        range: Range<u64>,
        from: DataSource,
        methods: &[ReadMethod],
    ) -> Result<Option<Vec<Range<u64>>>, ReadError> {
        let (trial, spans) = match from {
            DataSource::Device => (TRIAL_DEVICE, 1),
            DataSource::Memory | DataSource::Unknown => (TRIAL_MEMORY, TRIAL_SPANS),
        };
        let length = range.end - range.start;
        if length < trial.saturating_mul(methods.len() as u64).saturating_mul(TRIALS_SHARE) {
            return Ok(Some(vec![range]));
        }
        // Whole parts: a chunk of the threads that begins elsewhere is cached in part more often.
        let part = trial / spans;
        let span = length / spans / part * part;
        let mut left = Vec::new();
        for number in 0..spans {
            let mut at = range.start + number * span;
            let end = if number + 1 == spans { range.end } else { at + span };
            // A B, B A …: drift affects all methods alike.
            let mut turns = methods.to_vec();
            turns.rotate_left(number as usize % methods.len());
            for method in turns {
                let to = at + part;
                match self.stretch(at..to, from, method, true) {
                    Ok(true) => return Ok(None),
                    Ok(false) => at = to,
                    Err(error @ ReadError::Unavailable { .. }) => self.note_unavailable(&error),
                    Err(error) => return Err(error),
                }
            }
            left.push(at..end);
        }
        Ok(Some(left))
    }

    fn note_unavailable(&mut self, error: &ReadError) {
        let text = error.to_string();
        if !self.total.unavailable.contains(&text) {
            self.total.unavailable.push(text);
        }
    }

    /// The method with the highest rate among the trials from this source.
    fn fastest(&self, from: DataSource) -> Option<ReadMethod> {
        let is_trial = |part: &&FastPart| part.from == from && part.is_trial && part.bytes > 0;
        let tried = self.total.parts.iter().filter(is_trial);
        tried.max_by(|a, b| a.best.total_cmp(&b.best)).map(|part| part.method)
    }

    /// Reads a stretch. Returns true if the read ended early.
    fn stretch(
        &mut self,
        range: Range<u64>,
        from: DataSource,
        method: ReadMethod,
        is_trial: bool,
    ) -> Result<bool, ReadError> {
        let endless = matches!(method.way, Way::Calls { .. });
        let request = ReadRequest {
            way: method.way,
            range: Some(if endless { 0..GENERATED_MAX } else { range }),
            origin: (!endless).then_some(0),
            block: method.block,
            threads: method.threads,
            keep_going: self.options.keep_going,
            stop: self.options.stop,
            look: self.look,
            patience: Some(Duration::ZERO),
        };
        let outcome = read_with(self.source, &request, self.clock, self.pool)?;
        let (bytes, ns, cpu_ns) = (outcome.sum.bytes, outcome.ns, outcome.cpu_ns);
        let mut part = FastPart { from, method, bytes, ns, cpu_ns, best: 0.0, is_trial };
        part.best = part.best_rate();
        match self.total.parts.iter_mut().find(|known| known.is_like(&part)) {
            Some(known) => known.merge(&part),
            None => self.total.parts.push(part),
        }
        Ok(self.add(outcome) || endless || self.options.stop.load(Ordering::Relaxed))
    }

    /// Adds the outcome of a stretch. Returns true if the read ends here.
    fn add(&mut self, outcome: ReadOutcome) -> bool {
        let total = &mut self.total;
        total.sum.merge(&outcome.sum);
        let is_over = outcome.ended_at.is_some()
            || outcome.stopped
            || (!outcome.faults.is_empty() && !self.options.keep_going);
        total.faults.extend(outcome.faults);
        total.ended_at = total.ended_at.or(outcome.ended_at);
        total.stopped |= outcome.stopped;
        total.has_no_data |= outcome.has_no_data;
        total.changed = total.changed.or(outcome.changed);
        is_over
    }
}

#[cfg(test)]
mod tests;
