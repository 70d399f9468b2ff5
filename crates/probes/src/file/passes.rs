//! Passes over one file in one way: what sweeps, searches and comparisons of states are made of.

use std::ops::Range;
use std::time::Duration;

use fathom_fileio::read::{Bypass, Outcome, ReadError, Request, Way};
use fathom_fileio::residency::Residency;
use fathom_fileio::{Source, proc_io};
use fathom_metric::{Measured, ProcedureError, Recorder, observed};
use fathom_record::{
    Cause, Check, Disturbance, Fact, Params, Reason, Record, State, Unit, Verdict,
};

use super::by_hand::{self, checked, way_name, sums};
use super::cache_state;
use super::options::StateName;

/// A thread takes at least so many bytes of a file at a time, in whole blocks.
const SHARE: u64 = 4 << 20;

#[derive(Clone, Debug)]
pub(super) struct Pass {
    pub(super) before: Residency,
    pub(super) outcome: Outcome,
    pub(super) device_bytes: Option<u64>,
}

impl Pass {
    /// Reads a file once, of which so much was in memory before; with what disturbed it.
    pub(super) fn read(
        recorder: &dyn Recorder,
        source: &Source,
        request: &Request<'_>,
        before: Residency,
    ) -> Result<(Self, Disturbance), ProcedureError> {
        let fetched = proc_io::read_bytes();
        let clock = recorder.clock();
        let (outcome, counted) =
            observed(recorder.cpu(), || fathom_fileio::read(source, request, clock));
        let device_bytes = proc_io::read_bytes_since(fetched);
        let outcome = outcome.map_err(|error| {
            let text = format!("read {}: {error}", source.info().path.display());
            match error {
                ReadError::Invalid(_) => ProcedureError::Usage(text),
                _ => ProcedureError::Failed(text),
            }
        })?;
        Ok((Self { before, outcome, device_bytes }, counted))
    }

    pub(super) fn rate(&self) -> f64 {
        1e9 * self.outcome.sum.bytes as f64 / self.outcome.ns
    }

    pub(super) fn bytes(&self) -> u64 {
        self.outcome.sum.bytes
    }

    pub(super) fn seconds(&self) -> f64 {
        self.outcome.ns / 1e9
    }
}

/// How a file is read, pass by pass.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ReadConfig {
    pub(super) block: usize,
    pub(super) state: StateName,
    pub(super) threads: u16,
    /// These bytes of it; none: all.
    pub(super) range: Option<Range<u64>>,
}

impl ReadConfig {
    /// The whole file by one thread.
    pub(super) fn whole(block: usize, state: StateName) -> Self {
        Self { block, state, threads: 1, range: None }
    }

    /// The way of reading: the simplest that there is.
    pub(super) fn way(&self) -> Way {
        match (self.state, self.threads) {
            (StateName::Direct, _) => Way::Direct,
            (_, 1) => Way::Calls { count: None },
            _ => Way::Pread,
        }
    }

    /// The same, of so many bytes at most: whole blocks, and as many for each thread.
    pub(super) fn bounded(mut self, bytes: u64, file: u64) -> Self {
        let block = self.block as u64;
        let unit = match self.threads {
            1 => block,
            threads => u64::from(threads) * (SHARE / block).max(1) * block,
        };
        let bytes = bytes.max(1).div_ceil(unit).saturating_mul(unit);
        self.range = (bytes < file).then_some(0..bytes);
        self
    }
}

/// Passes over one file in one config.
#[derive(Clone)]
pub(super) struct PassSeries {
    pub(super) config: ReadConfig,
    pub(super) passes: Vec<Pass>,
    pub(super) disturbance: Option<Disturbance>,
}

impl PassSeries {
    pub(super) fn new(config: ReadConfig) -> Self {
        Self { config, passes: Vec::new(), disturbance: None }
    }

    /// Brings the file into its state and reads it once more, for so long at most. A pass that a
    /// person stops is none, unless it is the first and had begun. False where it was stopped.
    pub(super) fn pass(
        &mut self,
        recorder: &dyn Recorder,
        source: &Source,
        limit: Option<Duration>,
    ) -> Result<bool, ProcedureError> {
        let ReadConfig { block, state, threads, ref range } = self.config;
        let stop = recorder.stop().now();
        let before = cache_state::prepare_again(source, state, stop)?;
        if recorder.stop().is_by_person() {
            return Ok(false);
        }
        let request = Request {
            way: self.config.way(),
            range: range.clone(),
            origin: None,
            block,
            threads: usize::from(threads),
            keep_going: false,
            stop,
        };
        let limit = recorder.stop().after(limit, false);
        let (pass, counted) = Pass::read(recorder, source, &request, before)?;
        drop(limit);
        let is_stopped = recorder.stop().is_by_person();
        if !is_stopped || (self.passes.is_empty() && pass.bytes() > 0) {
            self.passes.push(pass);
            self.disturbance =
                Some(self.disturbance.as_ref().map_or(counted.clone(), |sum| sum.plus(&counted)));
        }
        Ok(!is_stopped)
    }

    /// The pass of the middle speed: its bytes and its seconds belong together.
    pub(super) fn middle(&self) -> Option<&Pass> {
        let mut by_rate: Vec<&Pass> = self.passes.iter().collect();
        by_rate.sort_by(|a, b| a.rate().total_cmp(&b.rate()));
        by_rate.get(by_rate.len() / 2).copied()
    }

    /// Why none of its numbers counts, where that is so.
    pub(super) fn invalid_verdict(&self, source: &Source) -> Option<Verdict> {
        invalid_verdict(&self.passes, source, self.config.state)
    }

    /// Keeps it as a result of file.read.throughput; `more` is what tells this case from others
    /// besides, and `facts` stand beside it.
    pub(super) fn record(
        &self,
        recorder: &mut dyn Recorder,
        source: &Source,
        more: &Params,
        facts: Vec<Fact>,
    ) -> Record {
        let measured = self.measured(source, more);
        let facts = measured.facts.iter().cloned().chain(facts).collect();
        recorder.record(Measured { facts, ..measured })
    }

    /// As a result that is not yet kept.
    fn measured(&self, source: &Source, more: &Params) -> Measured {
        let ReadConfig { block, state, threads, .. } = self.config;
        let (first, last) = (&self.passes[0], &self.passes[self.passes.len() - 1]);
        let word = match state {
            StateName::Direct => "direct",
            StateName::Cold => "cold",
            StateName::Warm => "warm",
            StateName::AsIs => {
                let states: Vec<&str> =
                    self.passes.iter().map(|pass| pass.before.state.name()).collect();
                by_hand::state_of_all(&states)
            }
        };
        let file_bytes = source.info().size.unwrap_or(last.outcome.sum.bytes);
        let mut params = Params::one("block", block as i64)
            .and("state", word)
            .and("threads", i64::from(threads))
            .and("way", way_name(self.config.way()))
            .and("file_bytes", file_bytes as i64);
        params.0.extend(more.0.clone());
        let bytes = last.outcome.sum.bytes;
        let mut doubts = cache_state::doubts(source, state, &first.before);
        doubts.extend(self.passes.iter().find_map(changed));
        Measured {
            metric: "file.read.throughput",
            params,
            values: rates(&self.passes),
            disturbance: self.disturbance.clone().unwrap_or_default(),
            checks: checks(source, last),
            verdict: self.invalid_verdict(source).or_else(|| by_hand::nothing_done(bytes)),
            doubts,
            facts: self.facts(source),
            notes: match &self.config.range {
                Some(_) => vec![format!("each pass read the first {bytes} bytes of the file")],
                None => Vec::new(),
            },
            ..Measured::default()
        }
    }

    /// What stands beside the number: of the pass in the middle, whose time and bytes belong
    /// together.
    fn facts(&self, source: &Source) -> Vec<Fact> {
        let mut facts = vec![Fact::text("file", cache_state::place(source))];
        if let Some(pass) = self.middle() {
            facts.push(Fact::quantity("time", pass.outcome.ns, Unit::Nanoseconds));
            facts.push(Fact::quantity("bytes", pass.bytes() as f64, Unit::Bytes));
        }
        facts
    }

    /// The state before the last pass with its proof, and in how many passes it was another.
    pub(super) fn proof(&self) -> String {
        let Some(last) = self.passes.last() else { return String::new() };
        let word = |pass: &Pass| pass.before.state.name();
        let briefly = cache_state::briefly(&last.before);
        match self.passes.iter().filter(|pass| word(pass) != word(last)).count() {
            0 => briefly,
            some => format!("{briefly}; another in {some} of {}", self.passes.len()),
        }
    }
}

pub(super) fn checks(source: &Source, last: &Pass) -> Vec<Check> {
    let mut facts = vec![("file", cache_state::place(source))];
    facts.extend(sums(last.outcome.sum));
    facts.push(("calls", last.outcome.calls.to_string()));
    facts.push(("in memory before", cache_state::proof(&last.before)));
    facts.extend(last.device_bytes.map(|bytes| ("bytes from devices", bytes.to_string())));
    checked(facts)
}

/// Why no number of some passes counts, where that is so.
pub(super) fn invalid_verdict(passes: &[Pass], source: &Source, state: StateName) -> Option<Verdict> {
    let not_as_asked =
        || passes.iter().find_map(|one| cache_state::not_as_asked(source, state, &one.before));
    let faults = by_hand::unreadable(passes.iter().flat_map(|pass| &pass.outcome.faults));
    faults.or_else(not_as_asked).or_else(|| bypassed(passes))
}

/// Bytes a second in each pass; none where the last had no bytes.
pub(super) fn rates(passes: &[Pass]) -> Vec<f64> {
    let has_bytes = passes.last().is_some_and(|last| last.bytes() > 0);
    passes.iter().filter(|_| has_bytes).map(Pass::rate).collect()
}

/// That direct reads went through the page cache.
fn bypassed(passes: &[Pass]) -> Option<Verdict> {
    let buffered = |pass: &Pass| pass.outcome.bypass == Some(Bypass::Buffered);
    let text = "the file system took direct reads, and read by way of the page cache";
    let verdict = || Verdict::because(State::Invalid, Cause::NotAsAsked, text);
    passes.iter().any(buffered).then(verdict)
}

/// That the file changed under a pass.
pub(super) fn changed(pass: &Pass) -> Option<Reason> {
    let change = pass.outcome.changed?;
    let text = match change.size {
        (then, now) if then != now => {
            format!("the file changed while it was read: from {then} to {now} bytes")
        }
        _ if change.modified => "the file's content changed while it was read".to_owned(),
        _ => return None,
    };
    Some(Reason::new(Cause::NotAsAsked, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bounded_pass_is_whole_blocks_and_as_many_for_each_thread() {
        let config = |block, threads| ReadConfig { threads, ..ReadConfig::whole(block, StateName::Warm) };
        let range = |block, threads, bytes| config(block, threads).bounded(bytes, 1 << 30).range;
        assert_eq!(range(1000, 1, 2500), Some(0..3000));
        assert_eq!(range(1000, 1, 0), Some(0..1000));
        assert_eq!(range(1, 2, 10), Some(0..2 * SHARE));
        assert_eq!(range(3, 4, 1), Some(0..4 * (SHARE / 3 * 3)));
        assert_eq!(range(64 << 20, 2, 1), Some(0..128 << 20));
        assert_eq!(range(64 << 20, 16, 1), None, "all of it, where there is no more");
        assert_eq!(range(4096, 1, 1 << 30), None);
    }
}
