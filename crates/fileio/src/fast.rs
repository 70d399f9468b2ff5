//! A whole file by the quickest way that this machine has for it: what is in memory from there, the
//! rest from the device, past the page cache where that can be.
//!
//! Which way is the quickest is found out on the file itself: its first stretches are each read by
//! another way, and the rest by the one that was quickest. What was read meanwhile is read, so that
//! trying costs next to nothing.

use std::fs::File;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use fathom_measure::Clock;

use crate::extents;
use crate::filesystem::Class;
use crate::read::{BLOCK, Change, Fault, Outcome, ReadError, Request, Way, read};
use crate::residency::{self, Residency, State};
use crate::subject::{Direct, Source};
use crate::sum::Sum;

/// In pieces of this size a file is in memory or not: as many pages as one large folio has.
const GRAIN: u64 = 2 << 20;
/// What is read by each way that is tried: some milliseconds from memory.
const TRIAL_MEMORY: u64 = 32 << 20;
/// The same from a device: enough that starting is little of it.
const TRIAL_DEVICE: u64 = 64 << 20;
/// Nothing is tried where the trials would be more than this share of all there is to read.
const TRIALS_SHARE: u64 = 4;
/// The file is read in stretches of this size.
const STRETCH: u64 = 1 << 30;
/// Bytes of a block past the page cache: above what most devices take at once.
const BLOCK_DEVICE: usize = 1 << 20;
/// Reads of a ring that are under way at once.
pub const DEPTH: u32 = 16;
/// Threads that wait for a device, where there is no ring: as many reads under way.
const WAITING: usize = 8;

/// What a person may fix.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    pub way: Option<Way>,
    /// Threads; as many as the CPUs that may be used where it is not given.
    pub threads: Option<usize>,
    /// CPUs that may be used.
    pub cpus: usize,
    pub block: Option<usize>,
    /// Whether to read on behind a place that cannot be read.
    pub keep_going: bool,
    pub stop: &'a AtomicBool,
}

/// Where a part of a file came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    Memory,
    Device,
    Unknown,
}

/// A way with all that belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    pub way: Way,
    pub threads: usize,
    pub block: usize,
}

/// What was read of a file in one way.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    pub from: From,
    pub choice: Choice,
    pub bytes: u64,
    pub ns: f64,
    /// Whether it was read to see how fast this way is.
    pub is_trial: bool,
}

impl Part {
    pub fn rate(&self) -> f64 {
        1e9 * self.bytes as f64 / self.ns
    }
}

#[derive(Clone, Debug, Default)]
pub struct Fast {
    /// The sums of the whole.
    pub sum: Sum,
    /// From before the look at what is in memory until the last byte was added.
    pub ns: f64,
    /// What was read in which way: trials one by one, the rest by source.
    pub parts: Vec<Part>,
    /// Ways that this file or machine has not got, and why.
    pub refused: Vec<String>,
    /// Places that could not be read.
    pub faults: Vec<Fault>,
    /// Where the file ended before its size.
    pub ended_at: Option<u64>,
    /// Whether it was told to stop, and did.
    pub stopped: bool,
    pub changed: Option<Change>,
    /// What of it was in memory before.
    pub before: Option<Residency>,
}

pub fn fast(source: &Source, options: &Options<'_>, clock: &Clock) -> Result<Fast, ReadError> {
    let begin = clock.start();
    let before = residency::of(source.file());
    let done = Fast { before: Some(before), ..Fast::default() };
    let mut reader = Reader { source, options, clock, done };
    for (range, from) in pieces(source, &before) {
        let mut choices = choices(source, options, from);
        if reader.piece(range, from, &mut choices)? {
            break;
        }
    }
    let mut done = reader.done;
    done.ns = clock.ns(begin, clock.stop());
    Ok(done)
}

/// The file in pieces by where they are. Bytes that were never written come from memory anyhow.
fn pieces(source: &Source, before: &Residency) -> Vec<(Range<u64>, From)> {
    let Some(size) = source.subject().size else { return vec![(0..u64::MAX, From::Unknown)] };
    let whole = |from| vec![(0..size, from)];
    let file: &File = source.file();
    match before.state {
        State::Warm => whole(From::Memory),
        // Holes are in no place, and quick from everywhere.
        _ if extents::of(file).is_ok_and(|found| 2 * found.data < found.bytes) => {
            whole(From::Unknown)
        }
        State::Cold => whole(From::Device),
        State::Unknown { .. } => whole(From::Unknown),
        State::Mixed { .. } => residency::pieces(file, GRAIN).map_or_else(
            || whole(From::Unknown),
            |pieces| {
                let from = |is: bool| if is { From::Memory } else { From::Device };
                pieces.into_iter().map(|(range, is)| (range, from(is))).collect()
            },
        ),
    }
}

/// The ways worth trying, the likeliest first.
fn choices(source: &Source, options: &Options<'_>, from: From) -> Vec<Choice> {
    let threads = options.threads.unwrap_or(options.cpus).max(1);
    let with = |way: Way| {
        let is_past = matches!(way, Way::Direct | Way::Ring { .. });
        let block = options.block.unwrap_or(if is_past { BLOCK_DEVICE } else { BLOCK });
        let threads = match way {
            Way::Ring { .. } => options.threads.unwrap_or(1),
            Way::Direct => options.threads.unwrap_or(WAITING),
            Way::Calls { .. } => 1,
            Way::Pread | Way::Map => threads,
        };
        Choice { way, threads, block }
    };
    if source.subject().size.is_none() {
        return vec![with(Way::Calls { count: None })];
    }
    match options.way {
        // Past the cache without a ring is past the cache still.
        Some(way @ Way::Ring { .. }) => return vec![with(way), with(Way::Direct)],
        Some(way) => return vec![with(way)],
        None => {}
    }
    let buffered = [with(Way::Pread), with(Way::Map)];
    let subject = source.subject();
    let is_past_possible =
        subject.direct != Direct::Refused && subject.file_system.class != Class::Memory;
    match from {
        From::Device if is_past_possible => {
            vec![with(Way::Ring { depth: DEPTH }), with(Way::Direct), buffered[0]]
        }
        From::Device | From::Unknown => vec![buffered[0]],
        From::Memory => buffered.to_vec(),
    }
}

struct Reader<'r> {
    source: &'r Source,
    options: &'r Options<'r>,
    clock: &'r Clock,
    done: Fast,
}

impl Reader<'_> {
    /// Reads a piece: some of it in each way that is worth it, the rest in the quickest. True: it
    /// is over before its end.
    fn piece(
        &mut self,
        range: Range<u64>,
        from: From,
        choices: &mut Vec<Choice>,
    ) -> Result<bool, ReadError> {
        let mut at = range.start;
        let known = self.quickest(from);
        let trial = if from == From::Device { TRIAL_DEVICE } else { TRIAL_MEMORY };
        let wanted = trial.saturating_mul(choices.len() as u64).saturating_mul(TRIALS_SHARE);
        if known.is_none() && choices.len() > 1 && range.end - range.start >= wanted {
            for choice in choices.clone() {
                let end = (at + trial).min(range.end);
                match self.stretch(at..end, from, choice, true) {
                    Ok(true) => return Ok(true),
                    Ok(false) => at = end,
                    Err(ReadError::Unavailable { way, why }) => self.refuse(way, &why),
                    Err(error) => return Err(error),
                }
            }
        }
        if let Some(choice) = known.or_else(|| self.quickest(from)) {
            choices.insert(0, choice);
        }
        // A way that this machine has not got gives place to the next.
        let mut next = choices.iter().copied();
        let mut choice = next.next();
        while at < range.end {
            let Some(now) = choice else { return Ok(true) };
            let end = at.saturating_add(STRETCH).min(range.end);
            match self.stretch(at..end, from, now, false) {
                Ok(true) => return Ok(true),
                Ok(false) => at = end,
                Err(ReadError::Unavailable { way, why }) => {
                    choice = next.next();
                    if choice.is_none() {
                        return Err(ReadError::Unavailable { way, why });
                    }
                    self.refuse(way, &why);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    fn refuse(&mut self, way: &str, why: &str) {
        let text = format!("{way} is not available: {why}");
        if !self.done.refused.contains(&text) {
            self.done.refused.push(text);
        }
    }

    /// The way that was quickest of those tried on this source of bytes.
    fn quickest(&self, from: From) -> Option<Choice> {
        let tried = self.done.parts.iter().filter(|part| part.from == from && part.is_trial);
        tried.max_by(|a, b| a.rate().total_cmp(&b.rate())).map(|part| part.choice)
    }

    /// Reads a stretch. True: it is over before its end.
    fn stretch(
        &mut self,
        range: Range<u64>,
        from: From,
        choice: Choice,
        is_trial: bool,
    ) -> Result<bool, ReadError> {
        let endless = matches!(choice.way, Way::Calls { .. });
        let request = Request {
            way: choice.way,
            range: (!endless).then_some(range),
            origin: (!endless).then_some(0),
            block: choice.block,
            threads: choice.threads,
            keep_going: self.options.keep_going,
            stop: self.options.stop,
        };
        let outcome = read(self.source, &request, self.clock)?;
        let (bytes, ns) = (outcome.sum.bytes, outcome.ns);
        let same = |part: &&mut Part| {
            part.from == from && part.choice == choice && !part.is_trial && !is_trial
        };
        match self.done.parts.iter_mut().find(same) {
            Some(part) => {
                part.bytes += bytes;
                part.ns += ns;
            }
            None => self.done.parts.push(Part { from, choice, bytes, ns, is_trial }),
        }
        Ok(self.take(outcome) || endless || self.options.stop.load(Ordering::Relaxed))
    }

    /// Takes in what a stretch gave. True: there is nothing behind it, or nothing is wanted.
    fn take(&mut self, outcome: Outcome) -> bool {
        let done = &mut self.done;
        done.sum.merge(&outcome.sum);
        let is_over = outcome.ended_at.is_some()
            || outcome.stopped
            || (!outcome.faults.is_empty() && !self.options.keep_going);
        done.faults.extend(outcome.faults);
        done.ended_at = done.ended_at.or(outcome.ended_at);
        done.stopped |= outcome.stopped;
        done.changed = done.changed.or(outcome.changed);
        is_over
    }
}
