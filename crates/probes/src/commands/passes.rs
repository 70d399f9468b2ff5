//! Repeated reads of one file with one configuration, as sweeps, searches and `file cache` use
//! them.

use std::ops::Range;
use std::time::Duration;

use fathom_analysis::statistics;
use fathom_fileio::read::{Bypass, ReadError, ReadOutcome, ReadRequest, Way};
use fathom_fileio::residency::Residency;
use fathom_fileio::{extents, proc_io};
use fathom_record::{Check, State};

use super::by_hand::{self, ByHandResult, checked, sums};
use super::cache_state;
use super::options::StateName;
use crate::file::BUFFERED_DIRECT;
use crate::file::model::way_name;
use crate::prelude::*;

/// Least bytes of a thread's chunk, as in `fathom_fileio::read`.
const CHUNK: u64 = 4 << 20;

#[derive(Clone, Debug)]
pub(super) struct Pass {
    pub(super) before: Residency,
    pub(super) outcome: ReadOutcome,
    pub(super) device_bytes: Option<u64>,
}

impl Pass {
    /// Reads a file once; `before` is its residency.
    pub(super) fn read(
        recorder: &dyn Recorder,
        source: &PathInfoSource,
        request: &ReadRequest<'_>,
        before: Residency,
    ) -> ByHandResult<(Self, Disturbance)> {
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

#[derive(Clone, Debug, PartialEq)]
pub(super) struct ReadConfig {
    pub(super) block: usize,
    pub(super) state: StateName,
    pub(super) threads: u16,
    /// `None`: the whole file.
    pub(super) range: Option<Range<u64>>,
}

impl ReadConfig {
    /// The whole file by one thread.
    pub(super) fn whole(block: usize, state: StateName) -> Self {
        Self { block, state, threads: 1, range: None }
    }

    /// The simplest method for the state and threads.
    pub(super) fn way(&self) -> Way {
        match (self.state, self.threads) {
            (StateName::Direct, _) => Way::Direct,
            (_, 1) => Way::Calls { count: None },
            _ => Way::Pread,
        }
    }

    /// Limits the range to about `bytes`: whole blocks, the same number for each thread.
    pub(super) fn bounded(mut self, bytes: u64, file: u64) -> Self {
        let block = self.block as u64;
        let unit = match self.threads {
            1 => block,
            threads => u64::from(threads) * (CHUNK / block).max(1) * block,
        };
        let bytes = bytes.max(1).div_ceil(unit).saturating_mul(unit);
        self.range = (bytes < file).then_some(0..bytes);
        self
    }
}

/// Passes over one file with one configuration.
#[derive(Clone)]
pub(super) struct PassSeries {
    pub(super) config: ReadConfig,
    pub(super) passes: Vec<Pass>,
    pub(super) disturbance: Option<Disturbance>,
    /// Passes that were dropped because one of their round began in another state.
    pub(super) repeated: u32,
}

impl PassSeries {
    pub(super) fn new(config: ReadConfig) -> Self {
        Self { config, passes: Vec::new(), disturbance: None, repeated: 0 }
    }

    /// Prepares the state and reads the file once, for at most `limit`. Returns false if the user
    /// stopped it; the pass then counts only if it is the first and read something.
    pub(super) fn pass(
        &mut self,
        recorder: &dyn Recorder,
        source: &PathInfoSource,
        limit: Option<Duration>,
    ) -> ByHandResult<bool> {
        let ReadConfig { block, state, threads, ref range } = self.config;
        let stop = recorder.stop().now();
        let before = cache_state::prepare(source, state, None, stop)?;
        if recorder.stop().is_by_person() {
            return Ok(false);
        }
        let request = ReadRequest {
            way: self.config.way(),
            range: range.clone(),
            origin: None,
            block,
            threads: usize::from(threads),
            keep_going: false,
            stop,
            look: None,
            patience: None,
        };
        let limit = recorder.stop().after(limit, false)?;
        let (pass, counted) = Pass::read(recorder, source, &request, before)?;
        drop(limit);
        let is_stopped = recorder.stop().is_by_person();
        if !is_stopped || (self.passes.is_empty() && pass.bytes() > 0) {
            self.passes.push(pass);
            by_hand::add(&mut self.disturbance, counted);
        }
        Ok(!is_stopped)
    }

    /// Whether the last pass began in the requested state.
    pub(super) fn is_last_right(&self, source: &PathInfoSource) -> bool {
        let last = self.passes.last();
        last.is_none_or(|pass| {
            cache_state::wrong_state(source, self.config.state, &pass.before).is_none()
        })
    }

    /// Drops the last pass, which will be repeated.
    pub(super) fn drop_last(&mut self) {
        self.passes.pop();
        self.repeated += 1;
    }

    /// The pass with the median rate.
    pub(super) fn median_pass(&self) -> Option<&Pass> {
        let mut by_rate: Vec<&Pass> = with_bytes(&self.passes).collect();
        by_rate.sort_by(|a, b| a.rate().total_cmp(&b.rate()));
        by_rate.get(by_rate.len() / 2).copied()
    }

    pub(super) fn invalid_verdict(&self, source: &PathInfoSource) -> Option<Verdict> {
        invalid_verdict(&self.passes, source, self.config.state)
    }

    /// Records it as file.read.throughput, with additional parameters and facts.
    pub(super) fn record(
        &self,
        recorder: &mut dyn Recorder,
        source: &PathInfoSource,
        more: &Params,
        facts: Vec<Fact>,
    ) -> Record {
        let mut measured = self.measured(source, more);
        measured.facts.extend(facts);
        recorder.record(measured)
    }

    fn measured(&self, source: &PathInfoSource, more: &Params) -> Measured {
        let ReadConfig { block, state, threads, .. } = self.config;
        let (first, last) = (&self.passes[0], &self.passes[self.passes.len() - 1]);
        let states: Vec<&str> = self.passes.iter().map(|pass| pass.before.state.name()).collect();
        let state_name = match state {
            StateName::AsIs => by_hand::state_of_all(&states),
            state => state.name(),
        };
        let file_bytes = source.info().size.unwrap_or_else(|| last.bytes());
        let mut params = Params::one("block", block as i64)
            .and("state", state_name)
            .and("threads", i64::from(threads))
            .and("way", way_name(self.config.way()))
            .and("file_bytes", file_bytes as i64);
        params.0.extend(more.0.clone());
        let bytes = with_bytes(&self.passes).map(Pass::bytes).max().unwrap_or(0);
        let range = self.config.range.as_ref();
        let range = range.map(|_| format!("each pass read the first {bytes} bytes of the file"));
        let repeated = match self.repeated {
            0 => None,
            1 => Some("1 round was repeated: pages were reclaimed before a read".to_owned()),
            n => Some(format!("{n} rounds were repeated: pages were reclaimed before a read")),
        };
        let mut doubts = cache_state::doubts(source, state, &first.before);
        doubts.extend(empty_passes(&self.passes));
        doubts.extend(self.passes.iter().find_map(|pass| too_short(pass.outcome.ns, 0.0)));
        Measured {
            metric: "file.read.throughput",
            params,
            values: rates(&self.passes),
            disturbance: self.disturbance.iter().cloned().collect(),
            checks: checks(source, last),
            verdict: self.invalid_verdict(source).or_else(|| nothing_read_in_time(&self.passes)),
            doubts,
            facts: self.facts(source),
            notes: range.into_iter().chain(repeated).collect(),
            ..Measured::default()
        }
    }

    /// Time of the median rate, and bytes of the median pass.
    fn facts(&self, source: &PathInfoSource) -> Vec<Fact> {
        let mut facts = vec![Fact::text("file", cache_state::describe_file(source))];
        let is_one_content = self.passes.iter().all(|pass| pass.outcome.changed.is_none());
        if let Some((pass, rate)) = self.median_pass().zip(statistics::median(&rates(&self.passes)))
            && is_one_content
        {
            let ns = 1e9 * pass.bytes() as f64 / rate;
            facts.push(Fact::quantity("time", ns, Unit::Nanoseconds));
            facts.push(Fact::quantity("bytes", pass.bytes() as f64, Unit::Bytes));
        }
        facts
    }

    /// The residency before the last pass, and how many passes began in another state.
    pub(super) fn describe_state(&self) -> String {
        let Some(last) = self.passes.last() else { return String::new() };
        let state = |pass: &Pass| pass.before.state.name();
        let text = cache_state::describe_briefly(&last.before);
        match self.passes.iter().filter(|pass| state(pass) != state(last)).count() {
            0 => text,
            some => format!("{text}; other states in {some} of {} passes", self.passes.len()),
        }
    }
}

pub(super) fn checks(source: &PathInfoSource, last: &Pass) -> Vec<Check> {
    let mut facts = vec![("file", cache_state::describe_file(source))];
    // A changed file has no one content.
    facts.extend(last.outcome.changed.map_or_else(|| sums(last.outcome.sum), |_| Vec::new()));
    facts.push(("calls", last.outcome.calls.to_string()));
    facts.push(("in memory before", cache_state::describe(&last.before)));
    facts.extend(last.device_bytes.map(|bytes| ("bytes from devices", bytes.to_string())));
    checked(facts)
}

/// The verdict if the passes are invalid: a changed file, read errors, a wrong state, buffered
/// direct reads, or none from a device.
pub(super) fn invalid_verdict(
    passes: &[Pass],
    source: &PathInfoSource,
    state: StateName,
) -> Option<Verdict> {
    let wrong_state =
        || passes.iter().find_map(|one| cache_state::wrong_state(source, state, &one.before));
    let faults = by_hand::unreadable(passes.iter().flat_map(|pass| &pass.outcome.faults));
    let buffered = |pass: &Pass| pass.outcome.bypass == Some(Bypass::Buffered);
    let verdict = || Verdict::because(State::Invalid, Cause::NotAsAsked, BUFFERED_DIRECT);
    // Now too: a pass before the change does not see it, and the points beside it have other
    // content.
    let change = passes.iter().find_map(|pass| pass.outcome.changed).or_else(|| source.change());
    let changed = by_hand::changed(change).or_else(|| cut_short(passes));
    let is_buffered = || passes.iter().any(buffered).then(verdict);
    let never_fetched = || never_fetched(passes, source, state);
    changed.or(faults).or_else(wrong_state).or_else(is_buffered).or_else(never_fetched)
}

/// The verdict if a pass that was to read a device read none, by the kernel's count: the data is
/// elsewhere than the path says, as under an overlay whose folders were covered by another mount.
fn never_fetched(passes: &[Pass], source: &PathInfoSource, state: StateName) -> Option<Verdict> {
    let is_asked = matches!(state, StateName::Cold | StateName::Direct);
    // The counter knows no devices of other machines, and holes need none.
    let has_device = source.info().is_on_device() == Some(true);
    let is_data = || extents::extents_of(source.file()).map_or(true, |found| found.share() >= 1.0);
    let is_missing = |pass: &Pass| pass.bytes() > 0 && pass.device_bytes == Some(0);
    let text = format!("requested {}, but 0 bytes came from a device", state.name());
    (is_asked && has_device && passes.iter().any(is_missing) && is_data())
        .then(|| Verdict::because(State::Invalid, Cause::NotAsAsked, text))
}

/// The verdict if a pass met the end of the file before its size: a network file system may still
/// report the old one.
fn cut_short(passes: &[Pass]) -> Option<Verdict> {
    let at = passes.iter().find_map(|pass| pass.outcome.ended_at)?;
    let text = format!("the file ended at byte {at}, before its size");
    Some(Verdict::because(State::Invalid, Cause::NotAsAsked, text))
}

/// The passes that read something: no other has a rate.
fn with_bytes(passes: &[Pass]) -> impl Iterator<Item = &Pass> {
    passes.iter().filter(|pass| pass.bytes() > 0)
}

/// Bytes per second of each pass that read something.
pub(super) fn rates(passes: &[Pass]) -> Vec<f64> {
    with_bytes(passes).map(Pass::rate).collect()
}

/// The verdict if no pass read anything.
pub(super) fn nothing_read(passes: &[Pass]) -> Option<Verdict> {
    by_hand::nothing_done(passes.iter().map(Pass::bytes).sum())
}

/// The same of passes with a time limit, on a file that is not empty.
fn nothing_read_in_time(passes: &[Pass]) -> Option<Verdict> {
    let text = "no pass read anything within its time; use a larger --each, or smaller blocks";
    let verdict = |_| Verdict::because(State::Unavailable, Cause::TooShort, text);
    nothing_read(passes).map(verdict)
}

/// The doubt if some passes read nothing: those with a number are the faster ones.
pub(super) fn empty_passes(passes: &[Pass]) -> Option<Reason> {
    let empty = passes.len() - with_bytes(passes).count();
    let text = format!("{empty} of {} passes read nothing in their time", passes.len());
    (empty > 0).then(|| Reason::new(Cause::TooShort, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smoke;

    /// A pass over a file, from whatever is in memory.
    fn pass(source: &PathInfoSource, request: &ReadRequest<'_>) -> Pass {
        let outcome = fathom_fileio::read(source, request, &smoke::clock()).unwrap();
        let before = fathom_fileio::residency::residency_of(source.file());
        Pass { before, outcome, device_bytes: None }
    }

    #[test]
    fn series_knows_whether_its_last_pass_began_as_requested() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let source = PathInfoSource::open(file.path()).unwrap();
        let read = pass(&source, &ReadRequest::whole(Way::Pread));
        let mut series = PassSeries::new(ReadConfig::whole(1, StateName::Warm));
        assert!(series.is_last_right(&source), "no pass");
        let mut is_right_after = |state| {
            let counted_by = fathom_fileio::residency::CountedBy::Both;
            let before =
                Residency { state, bytes: 9, cached: 0, dirty: 0, writeback: 0, counted_by };
            series.passes.push(Pass { before, ..read.clone() });
            series.is_last_right(&source)
        };
        use fathom_fileio::residency::ResidencyState as InMemory;
        assert!(!is_right_after(InMemory::Mixed { share: 0.999_9 }));
        assert!(!is_right_after(InMemory::Cold));
        assert!(is_right_after(InMemory::Warm));
        assert!(!is_right_after(InMemory::Mixed { share: 0.5 }));
        series.drop_last();
        assert!(series.is_last_right(&source), "the one before");
        assert_eq!((series.passes.len(), series.repeated), (3, 1));
    }

    #[test]
    fn pass_that_read_nothing_has_no_rate() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "1234").unwrap();
        let source = PathInfoSource::open(file.path()).unwrap();
        let of = |bytes: u64| {
            pass(&source, &ReadRequest { range: Some(0..bytes), ..ReadRequest::whole(Way::Pread) })
        };
        let mut series = PassSeries::new(ReadConfig::whole(1, StateName::AsIs));
        for (passes, rates, is_number, doubts) in [
            ([0, 4, 0], 1, true, 1),
            ([4, 0, 4], 2, true, 1),
            ([4, 4, 4], 3, true, 0),
            ([0; 3], 0, false, 1),
        ] {
            series.passes = passes.map(of).into();
            let measured = series.measured(&source, &Params::none());
            assert_eq!((measured.values.len(), measured.verdict.is_none()), (rates, is_number));
            assert!(measured.values.iter().all(|rate| rate.is_finite() && *rate > 0.0));
            let of_empty = |reason: &&Reason| reason.text.contains("read nothing");
            assert_eq!(measured.doubts.iter().filter(of_empty).count(), doubts, "{passes:?}");
        }
    }

    #[test]
    fn all_passes_after_a_change_are_invalid() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "12345678").unwrap();
        let source = PathInfoSource::open(file.path()).unwrap();
        let by_calls = || pass(&source, &ReadRequest::whole(Way::Calls { count: None }));
        let mut series = PassSeries::new(ReadConfig::whole(1, StateName::AsIs));
        series.passes.push(by_calls());
        assert_eq!(series.invalid_verdict(&source), None);
        // Between two passes: neither pass sees it happen.
        file.as_file().set_len(4).unwrap();
        series.passes = vec![by_calls(), by_calls()];
        let measured = series.measured(&source, &Params::none());
        let verdict = measured.verdict.unwrap();
        assert_eq!(verdict.state, State::Invalid);
        assert_eq!(verdict.reasons[0].text, "the file changed: from 8 to 4 bytes");
        assert!(measured.checks.iter().all(|check| check.name != "XOR-32"));
        // After the last pass.
        let source = PathInfoSource::open(file.path()).unwrap();
        let read = pass(&source, &ReadRequest::whole(Way::Pread));
        series.passes = vec![read.clone()];
        assert_eq!(series.invalid_verdict(&source), None);
        // Its size is the old one, as a network file system may report it.
        let ended_at = Some(2);
        let cut = Pass { outcome: ReadOutcome { ended_at, ..read.outcome.clone() }, ..read };
        series.passes.push(cut);
        let text = "the file ended at byte 2, before its size";
        assert_eq!(series.invalid_verdict(&source).unwrap().reasons[0].text, text);
        series.passes.pop();
        file.as_file().set_len(2).unwrap();
        let text = "the file changed: from 4 to 2 bytes";
        assert_eq!(series.invalid_verdict(&source).unwrap().reasons[0].text, text);
    }

    #[test]
    fn pass_that_read_no_device_is_neither_cold_nor_direct() {
        let file = tempfile::NamedTempFile::new_in("/var/tmp").unwrap();
        std::fs::write(file.path(), "1234").unwrap();
        file.as_file().sync_all().unwrap();
        let source = PathInfoSource::open(file.path()).unwrap();
        if source.info().is_on_device() != Some(true) {
            return smoke::skipped("/var/tmp is not on a device");
        }
        let read = pass(&source, &ReadRequest::whole(Way::Pread));
        let verdict = |state, device_bytes| {
            never_fetched(&[Pass { device_bytes, ..read.clone() }], &source, state)
                .map(|verdict| verdict.reasons[0].text.clone())
        };
        let text = "requested direct, but 0 bytes came from a device".to_owned();
        assert_eq!(verdict(StateName::Direct, Some(0)), Some(text));
        assert!(verdict(StateName::Cold, Some(0)).is_some());
        assert_eq!(verdict(StateName::AsIs, Some(0)), None);
        assert_eq!(verdict(StateName::Direct, Some(4096)), None);
        assert_eq!(verdict(StateName::Direct, None), None, "not counted");
        file.as_file().set_len(1 << 20).unwrap();
        assert_eq!(verdict(StateName::Direct, Some(0)), None, "a hole");
    }

    #[test]
    fn time_and_rate_of_an_even_number_of_passes_agree() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "1234").unwrap();
        let source = PathInfoSource::open(file.path()).unwrap();
        let read = pass(&source, &ReadRequest::whole(Way::Pread));
        let mut series = PassSeries::new(ReadConfig::whole(1, StateName::AsIs));
        let of = |ns| Pass { outcome: ReadOutcome { ns, ..read.outcome.clone() }, ..read.clone() };
        series.passes = [1e9, 2e9].map(of).into();
        let facts = series.facts(&source);
        let time = facts.iter().find(|fact| fact.name == "time").unwrap();
        // 4 and 2 bytes a second: the median is 3.
        assert_eq!(*time, Fact::quantity("time", 4e9 / 3.0, Unit::Nanoseconds));
        let doubt = |series: &PassSeries| series.measured(&source, &Params::none()).doubts.pop();
        assert_eq!(doubt(&series), None);
        series.passes[1].outcome.ns = 1e3;
        assert_eq!(doubt(&series).unwrap().cause, Cause::TooShort);
    }

    #[test]
    fn bounded_pass_has_equal_whole_blocks_per_thread() {
        let config =
            |block, threads| ReadConfig { threads, ..ReadConfig::whole(block, StateName::Warm) };
        let range = |block, threads, bytes| config(block, threads).bounded(bytes, 1 << 30).range;
        assert_eq!(range(1000, 1, 2500), Some(0..3000));
        assert_eq!(range(1000, 1, 0), Some(0..1000));
        assert_eq!(range(1, 2, 10), Some(0..2 * CHUNK));
        assert_eq!(range(3, 4, 1), Some(0..4 * (CHUNK / 3 * 3)));
        assert_eq!(range(64 << 20, 2, 1), Some(0..128 << 20));
        assert_eq!(range(64 << 20, 16, 1), None, "the whole file");
        assert_eq!(range(4096, 1, 1 << 30), None);
    }
}
