//! Passes over one file in one way: what sweeps, searches and comparisons of states are made of.

use std::ops::Range;
use std::time::Duration;

use fathom_fileio::Source;
use fathom_fileio::read::{Request, Way};
use fathom_record::{Disturbance, Params, Record, Verdict};

use super::read::{self, Pass};
use super::session::{Measured, Session, refuse};
use super::state;
use crate::arguments::file::StateName;

/// A thread takes at least so many bytes of a file at a time, in whole blocks.
const SHARE: u64 = 4 << 20;

/// How a file is read, pass by pass.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Manner {
    pub(super) block: usize,
    pub(super) state: StateName,
    pub(super) threads: u16,
    /// These bytes of it; none: all.
    pub(super) range: Option<Range<u64>>,
}

impl Manner {
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

/// Passes over one file in one manner.
pub(super) struct Series {
    pub(super) manner: Manner,
    pub(super) passes: Vec<Pass>,
    disturbance: Option<Disturbance>,
}

impl Series {
    pub(super) fn new(manner: Manner) -> Self {
        Self { manner, passes: Vec::new(), disturbance: None }
    }

    /// Brings the file into its state and reads it once more, for so long at most. A pass that a
    /// person stops is none, unless it is the first and had begun. False where it was stopped.
    ///
    /// # Errors
    /// Where it cannot be read in this way at all.
    pub(super) fn pass(
        &mut self,
        session: &Session,
        source: &Source,
        limit: Option<Duration>,
    ) -> anyhow::Result<bool> {
        let Manner { block, state, threads, ref range } = self.manner;
        let stop = session.stop().now();
        let before = state::prepare_again(source, state, stop)?;
        if session.stop().is_by_person() {
            return Ok(false);
        }
        let request = Request {
            way: self.manner.way(),
            range: range.clone(),
            origin: None,
            block,
            threads: usize::from(threads),
            keep_going: false,
            stop,
            progress: None,
        };
        let limit = session.stop().after(limit, false);
        let device = fathom_fileio::traffic::fetched();
        let (outcome, counted) =
            session.observed(|clock| fathom_fileio::read(source, &request, clock));
        let device_bytes = device
            .zip(fathom_fileio::traffic::fetched())
            .map(|(then, now)| now.saturating_sub(then));
        drop(limit);
        let outcome = outcome.map_err(|error| {
            refuse(format!("read {}: {error}", source.subject().path.display()))
        })?;
        let is_stopped = session.stop().is_by_person();
        if !is_stopped || (self.passes.is_empty() && outcome.sum.bytes > 0) {
            self.passes.push(Pass { before, outcome, device_bytes });
            self.disturbance =
                Some(self.disturbance.as_ref().map_or(counted.clone(), |sum| sum.plus(&counted)));
        }
        Ok(!is_stopped)
    }

    /// These passes and the other's in turn, as passes in a state.
    pub(super) fn with(&self, other: &Self, state: StateName) -> Self {
        let manner = Manner { state, ..self.manner.clone() };
        let pairs = self.passes.iter().zip(&other.passes);
        let passes = pairs.flat_map(|(one, two)| [one.clone(), two.clone()]).collect();
        let disturbance = self.disturbance.as_ref().zip(other.disturbance.as_ref());
        Self { manner, passes, disturbance: disturbance.map(|(one, two)| one.plus(two)) }
    }

    /// The pass of the middle speed: its bytes and its seconds belong together.
    pub(super) fn middle(&self) -> Option<&Pass> {
        let mut by_rate: Vec<&Pass> = self.passes.iter().collect();
        by_rate.sort_by(|a, b| a.rate().total_cmp(&b.rate()));
        by_rate.get(by_rate.len() / 2).copied()
    }

    /// The speed of the quickest pass.
    pub(super) fn quickest(&self) -> f64 {
        self.passes.iter().map(Pass::rate).fold(0.0, f64::max)
    }

    /// Why none of its numbers counts, where that is so.
    pub(super) fn spoilt(&self, source: &Source) -> Option<Verdict> {
        let state = self.manner.state;
        let not_as_asked =
            || self.passes.iter().find_map(|one| state::not_as_asked(source, state, &one.before));
        let faults = super::unreadable(self.passes.iter().flat_map(|pass| &pass.outcome.faults));
        faults.or_else(not_as_asked).or_else(|| read::bypassed(&self.passes))
    }

    /// Keeps it as a result of file.read.throughput. `file` is the size of the whole file, and
    /// `more` what tells this case from others besides.
    pub(super) fn record(&self, session: &mut Session, source: &Source, more: &Params) -> Record {
        session.record(self.measured(source, more))
    }

    /// As a result that is not yet kept.
    pub(super) fn measured(&self, source: &Source, more: &Params) -> Measured {
        let Manner { block, state, threads, .. } = self.manner;
        let (first, last) = (&self.passes[0], &self.passes[self.passes.len() - 1]);
        let word = match state {
            StateName::Direct => "direct",
            StateName::Cold => "cold",
            StateName::Warm => "warm",
            StateName::AsIs => {
                let states: Vec<&str> =
                    self.passes.iter().map(|pass| state::word(pass.before.state)).collect();
                super::state_of_all(&states)
            }
        };
        let file_bytes = source.subject().size.unwrap_or(last.outcome.sum.bytes);
        let mut params = Params::one("block", block as i64)
            .and("state", word)
            .and("threads", i64::from(threads))
            .and("way", read::name_of(self.manner.way()))
            .and("file_bytes", file_bytes as i64);
        params.0.extend(more.0.clone());
        let bytes = last.outcome.sum.bytes;
        let values = match bytes {
            0 => Vec::new(),
            _ => self.passes.iter().map(Pass::rate).collect(),
        };
        let mut doubts = state::doubts(source, state, &first.before);
        doubts.extend(self.passes.iter().find_map(read::changed));
        Measured {
            metric: "file.read.throughput",
            params,
            values,
            disturbance: self.disturbance.clone().unwrap_or_default(),
            checks: read::checks(source, last),
            verdict: self.spoilt(source).or_else(|| super::nothing_done(bytes)),
            doubts,
            notes: match &self.manner.range {
                Some(_) => vec![format!("each pass read the first {bytes} bytes of the file")],
                None => Vec::new(),
            },
            ..Measured::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bounded_pass_is_whole_blocks_and_as_many_for_each_thread() {
        let manner = |block, threads| Manner { threads, ..Manner::whole(block, StateName::Warm) };
        let range = |block, threads, bytes| manner(block, threads).bounded(bytes, 1 << 30).range;
        assert_eq!(range(1000, 1, 2500), Some(0..3000));
        assert_eq!(range(1000, 1, 0), Some(0..1000));
        assert_eq!(range(1, 2, 10), Some(0..2 * SHARE));
        assert_eq!(range(3, 4, 1), Some(0..4 * (SHARE / 3 * 3)));
        assert_eq!(range(64 << 20, 2, 1), Some(0..128 << 20));
        assert_eq!(range(64 << 20, 16, 1), None, "all of it, where there is no more");
        assert_eq!(range(4096, 1, 1 << 30), None);
    }
}
