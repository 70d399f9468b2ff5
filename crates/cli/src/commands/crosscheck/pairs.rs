//! The pairs of a row: A B, B A, A B …, each side with its files as it wants them.

use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use fathom_fileio::residency;
use fathom_peers::{Invocation, On, Output, Place, Row, RunError, Runner};
use fathom_record::{CrossOutcome, CrossRow, Turn, Verdict};

use fathom_measure::sampler::Missing;

use super::super::disk_folder::in_full;
use super::ours;
use crate::interrupt::Interrupt;

/// Our side ends by itself; so long it may take.
const OURS_NS: u64 = 120_000_000_000;

/// What all rows share.
pub(super) struct Bench<'s> {
    pub(super) interrupt: &'s Interrupt,
    pub(super) program: PathBuf,
    pub(super) cpu: u32,
    pub(super) allowed: Vec<u32>,
    pub(super) limit_ns: u64,
    pub(super) allow_memory: bool,
    pub(super) pairs: u32,
    /// The files, where there is a place for them, or why there is none.
    pub(super) place: Result<Place, Missing>,
}

/// Which side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Ours,
    Theirs,
}

/// The order within a pair: A B, then B A, so that a steady change of the machine meets both alike.
fn sides(pair: u32) -> [Side; 2] {
    match pair % 2 {
        0 => [Side::Ours, Side::Theirs],
        _ => [Side::Theirs, Side::Ours],
    }
}

impl Bench<'_> {
    /// Takes the pairs of a row; `before` each of them, with how many there were.
    pub(super) fn take(&self, row: &Row, into: &mut CrossRow, mut before: impl FnMut(u32)) {
        for pair in 0..self.pairs {
            before(pair);
            match self.pair(row, pair) {
                Ok(turn) => fathom_analysis::crosscheck::add(into, turn),
                Err(RunError::Stopped) => {
                    into.outcome = CrossOutcome::Interrupted;
                    return;
                }
                Err(RunError::Failed(why)) => {
                    into.outcome = CrossOutcome::Failed;
                    into.reason = Some(why);
                    return;
                }
            }
        }
    }

    /// Runs a program of the peer's, where it belongs.
    pub(super) fn runs(&self, invocation: &Invocation, on: On) -> Result<Output, RunError> {
        self.runner(self.cpus(on), self.limit_ns).run(invocation)
    }

    /// The CPUs of a row.
    pub(super) fn cpus(&self, on: On) -> Vec<u32> {
        match on {
            On::One => vec![self.cpu],
            On::All => self.allowed.clone(),
        }
    }

    /// Our command for a row.
    pub(super) fn our_command(&self, row: &Row) -> Invocation {
        let mut command =
            ours::command(row, &self.program, self.cpu, self.files(row).ok().flatten());
        if self.allow_memory && command.arguments.iter().any(|word| word == "--folder") {
            command.arguments.push("--allow-memory".to_owned());
        }
        command
    }

    /// The peer's commands for a row; none without a place for its files.
    pub(super) fn peer_commands(&self, row: &Row) -> Vec<Invocation> {
        let Ok(place) = self.files(row) else { return Vec::new() };
        (row.commands)(place.unwrap_or(&Place::at("".as_ref())))
    }

    /// The files that a row needs, if any.
    fn files(&self, row: &Row) -> Result<Option<&Place>, RunError> {
        if !row.needs_files() {
            return Ok(None);
        }
        let place = self.place.as_ref().map_err(|why| RunError::Failed(in_full(why)))?;
        Ok(Some(place))
    }

    fn runner(&self, cpus: Vec<u32>, limit_ns: u64) -> Runner<'_> {
        Runner { stop: self.interrupt.as_fd(), limit_ns, cpus }
    }

    fn pair(&self, row: &Row, pair: u32) -> Result<Turn, RunError> {
        let (mut ours, mut theirs) = (Default::default(), Theirs::default());
        for side in sides(pair) {
            match side {
                Side::Ours => ours = self.ours(row)?,
                Side::Theirs => theirs = self.theirs(row)?,
            }
        }
        let (ours, verdict) = ours;
        let Theirs { value, detail, preempted_hz, lost_share } = theirs;
        let turn = Turn::new(ours, value, detail).judged(&verdict);
        Ok(Turn { peer_preempted_hz: preempted_hz, peer_lost_share: lost_share, ..turn })
    }

    fn ours(&self, row: &Row) -> Result<(f64, Verdict), RunError> {
        let cpus = ours::cpus(row, self.cpu, &self.allowed);
        let _files = self.prepared(row)?;
        let said = self.runner(cpus, OURS_NS).run(&self.our_command(row))?;
        ours::value(row, &said)
    }

    fn theirs(&self, row: &Row) -> Result<Theirs, RunError> {
        let _files = self.prepared(row)?;
        let commands = self.peer_commands(row);
        let said: Result<Vec<Output>, RunError> =
            commands.iter().map(|command| self.runs(command, row.on)).collect();
        let said = said?;
        let reading = (row.parse)(&said)?;
        let preempted: u64 = said.iter().map(|said| said.preempted).sum();
        let ns: f64 = said.iter().map(|said| said.ns).sum();
        let lost: Option<f64> = said.iter().map(|said| said.lost_ns).sum();
        let of_all = ns.max(1.0) * self.cpus(row.on).len() as f64;
        let (rate, share) = (1e9 * preempted as f64 / ns.max(1.0), lost.map(|lost| lost / of_all));
        Ok(Theirs {
            value: reading.value,
            detail: reading.detail,
            preempted_hz: (!row.takes_turns).then_some(rate),
            lost_share: share.filter(|_| !row.takes_turns),
        })
    }

    /// The data in memory, and no file where one is to be made, nor when this is dropped.
    fn prepared(&self, row: &Row) -> Result<Option<Unwritten>, RunError> {
        let Some(place) = self.files(row)? else { return Ok(None) };
        let failed =
            |what: &str, error: std::io::Error| RunError::Failed(format!("{what}: {error}"));
        if row.reads_data {
            let data =
                std::fs::File::open(&place.data).map_err(|error| failed("open the data", error))?;
            let found = residency::warm(&data, &AtomicBool::new(false))
                .map_err(|error| failed("read the data into memory", error.into()))?;
            if found.state != residency::State::Warm {
                let text = "the data does not stay in memory: free some";
                return Err(RunError::Failed(text.to_owned()));
            }
        }
        Ok(Some(Unwritten::at(place.own.clone())))
    }
}

/// The peer's side of a pair.
#[derive(Default)]
struct Theirs {
    value: f64,
    /// What else it said.
    detail: String,
    /// How often in a second it lost its CPU.
    preempted_hz: Option<f64>,
    /// The share of its CPUs' time that others had.
    lost_share: Option<f64>,
}

/// A file that is not there, before and after.
struct Unwritten(PathBuf);

impl Unwritten {
    fn at(path: PathBuf) -> Self {
        // It is there where a program was killed.
        let _ = std::fs::remove_file(&path);
        Self(path)
    }
}

impl Drop for Unwritten {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn over_two_pairs_both_sides_stand_equally_late() {
        let order: Vec<Side> = (0..4).flat_map(sides).collect();
        let late = |side| -> usize { (0..order.len()).filter(|at| order[*at] == side).sum() };
        assert_eq!(late(Side::Ours), late(Side::Theirs), "{order:?}");
        assert_eq!(order[..4], [Side::Ours, Side::Theirs, Side::Theirs, Side::Ours]);
    }

    #[test]
    fn a_file_to_be_made_is_not_there_before_nor_after() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f-1");
        std::fs::write(&path, "of a program that was killed").unwrap();
        let unwritten = Unwritten::at(path.clone());
        assert!(!path.exists());
        std::fs::write(&path, "of this turn").unwrap();
        drop(unwritten);
        assert!(!path.exists());
    }
}
