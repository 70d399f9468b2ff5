//! The pairs of a row: A B, B A, A B …, each side with its files in the state that it needs.

use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use fathom_fileio::folder::space;
use fathom_fileio::residency;
use fathom_measure::process::Running;
use fathom_measure::sampler::ResourceMissing;
use fathom_peers::{
    Invocation, On, Ours, Output, PeerPlace, Row, RunError, Runner, Stalls, free_port,
};
use fathom_record::{Activity, CrossRow, Turn, Verdict, system_cause};

use super::super::scratch_folder::{missing_text, size};
use super::fathom_side;
use crate::interrupt::Interrupt;

/// The time limit of our side, which ends by itself.
const FATHOM_LIMIT_NS: u64 = 120_000_000_000;
/// Large files may take this many times as long as announced.
const LIMIT_FACTOR: f64 = 4.0;

/// The settings of all rows.
pub(super) struct PairBench<'s> {
    pub(super) interrupt: &'s Interrupt,
    pub(super) program: PathBuf,
    pub(super) cpu: u32,
    /// The CPU of servers that have their own.
    pub(super) other_cpu: Option<u32>,
    /// The port in the commands that are shown; each turn has its own.
    pub(super) port: u16,
    pub(super) allowed: Vec<u32>,
    pub(super) limit_ns: u64,
    pub(super) allow_memory: bool,
    pub(super) pairs: u32,
    /// The test files, or why there are none.
    pub(super) place: Result<PeerPlace, ResourceMissing>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PairSide {
    Ours,
    Theirs,
}

/// The order within a pair: A B, then B A, so that a linear drift affects both sides alike.
fn sides(pair: u32) -> [PairSide; 2] {
    match pair % 2 {
        0 => [PairSide::Ours, PairSide::Theirs],
        _ => [PairSide::Theirs, PairSide::Ours],
    }
}

impl PairBench<'_> {
    /// Runs the pairs of a row, and `before` with the number of each.
    pub(super) fn run(&self, row: &Row, into: &mut CrossRow, mut before: impl FnMut(u32)) {
        if let Err(error) = self.check_room(row) {
            return super::fail(into, error);
        }
        for pair in 0..self.pairs {
            before(pair);
            match self.pair(row, pair) {
                Ok(turn) => fathom_analysis::crosscheck::add(into, turn),
                Err(error) => return super::fail(into, error),
            }
        }
    }

    /// Refuses to fill more than half of the free space.
    fn check_room(&self, row: &Row) -> Result<(), RunError> {
        let folder = self.place.as_ref().ok().and_then(|place| place.own.parent());
        let free = folder.and_then(|folder| space(folder).ok()).map_or(u64::MAX, |it| it.free);
        let bytes = row.written / 2;
        match bytes <= free / 2 {
            true => Ok(()),
            false => Err(RunError::Failed(format!(
                "writes {}, more than half of the free space of {}",
                size(bytes),
                size(free)
            ))),
        }
    }

    /// Runs a command of the peer.
    pub(super) fn execute(&self, invocation: &Invocation, on: On) -> Result<Output, RunError> {
        self.runner(self.client_cpus(on), self.limit_ns).run(invocation)
    }

    /// The time limit of a side, longer for large files.
    fn limit_ns(&self, row: &Row, usual: u64) -> u64 {
        let longer = if row.only_named { LIMIT_FACTOR * 1e9 * row.seconds } else { 0.0 };
        usual.max(longer as u64)
    }

    /// The CPUs of both sides.
    pub(super) fn cpus(&self, on: On) -> Vec<u32> {
        let mut cpus = self.client_cpus(on);
        cpus.extend(self.other_cpu.filter(|_| on == On::Two));
        cpus
    }

    /// The CPUs of the peer's commands.
    fn client_cpus(&self, on: On) -> Vec<u32> {
        match on {
            On::One | On::Two => vec![self.cpu],
            On::All => self.allowed.clone(),
        }
    }

    /// The CPUs of the peer's server.
    fn server_cpus(&self, on: On) -> Vec<u32> {
        match (on, self.other_cpu) {
            (On::Two, Some(other)) => vec![other],
            _ => self.client_cpus(on),
        }
    }

    pub(super) fn our_command(&self, row: &Row, port: u16) -> Invocation {
        let place = self.files(row).ok().flatten().map(|place| PeerPlace { port, ..place.clone() });
        let mut command = fathom_side::command(row, &self.program, self.cpu, place.as_ref());
        if self.allow_memory && command.arguments.iter().any(|word| word == "--folder") {
            command.arguments.push("--allow-memory".to_owned());
        }
        command
    }

    /// The peer's commands for a row; empty without the files that it needs.
    fn peer_commands(&self, row: &Row, port: u16) -> Vec<Invocation> {
        let Ok(place) = self.files(row) else { return Vec::new() };
        let place = place.cloned().unwrap_or_else(|| PeerPlace::at("".as_ref()));
        (row.commands)(&PeerPlace { port, ..place })
    }

    /// The peer's commands for a shell, its server first.
    pub(super) fn shell_lines(&self, row: &Row) -> Vec<String> {
        let pinned = |cpus: &[u32], invocation: &Invocation| match (row.on, cpus) {
            (On::One | On::Two, [cpu]) => format!("taskset -c {cpu} {invocation}"),
            _ => invocation.to_string(),
        };
        let shown = PeerPlace { fathom: "fathom".to_owned(), ..self.place_at(self.port) };
        let server = row.server.as_ref().map(|server| server(&shown));
        let server = server.map(|it| pinned(&self.server_cpus(row.on), &it.invocation) + " &");
        let cpus = self.client_cpus(row.on);
        let commands = self.peer_commands(row, self.port);
        server.into_iter().chain(commands.iter().map(|it| pinned(&cpus, it))).collect()
    }

    fn files(&self, row: &Row) -> Result<Option<&PeerPlace>, RunError> {
        if !row.needs_files() {
            return Ok(None);
        }
        let place = self.place.as_ref().map_err(|why| RunError::Failed(missing_text(why)))?;
        Ok(Some(place))
    }

    fn runner(&self, cpus: Vec<u32>, limit_ns: u64) -> Runner<'_> {
        Runner { stop: self.interrupt.as_fd(), limit_ns, cpus }
    }

    fn pair(&self, row: &Row, pair: u32) -> Result<Turn, RunError> {
        let (mut ours, mut theirs) = (Default::default(), PeerResult::default());
        for side in sides(pair) {
            match side {
                PairSide::Ours => ours = self.ours(row)?,
                PairSide::Theirs => theirs = self.theirs(row)?,
            }
        }
        let (ours, verdict) = ours;
        let PeerResult { value, detail, preempted_hz, lost_share } = theirs;
        let turn = Turn::new(ours, value, detail).judged(&verdict);
        Ok(Turn { peer_preempted_hz: preempted_hz, peer_lost_share: lost_share, ..turn })
    }

    fn ours(&self, row: &Row) -> Result<(f64, Verdict), RunError> {
        let cpus = fathom_side::cpus(row, self.cpu, &self.allowed);
        let _files = self.prepare_files(row)?;
        let limit_ns = self.limit_ns(row, FATHOM_LIMIT_NS);
        let port = free_port().unwrap_or(self.port);
        // `fathom run` starts its far end itself.
        let is_load = matches!(row.ours, Ours::Load(_));
        let _server = if is_load { self.serve(row, port)? } else { None };
        let output = self.runner(cpus, limit_ns).run(&self.our_command(row, port))?;
        fathom_side::value(row, &output)
    }

    fn theirs(&self, row: &Row) -> Result<PeerResult, RunError> {
        let _files = self.prepare_files(row)?;
        // Connections of an earlier turn hold its port in TIME_WAIT.
        let port = free_port().unwrap_or(self.port);
        let commands = self.peer_commands(row, port);
        // Killed when this turn ends, whatever its outcome.
        let _server = self.serve(row, port)?;
        let limit_ns = self.limit_ns(row, self.limit_ns);
        let runner = self.runner(self.client_cpus(row.on), limit_ns);
        let outputs: Result<Vec<Output>, RunError> =
            commands.iter().map(|command| runner.run(command)).collect();
        let outputs = outputs?;
        let reading = (row.parse)(&outputs)?;
        let preempted: u64 = outputs.iter().map(|output| output.preempted).sum();
        let ns: f64 = outputs.iter().map(|output| output.ns).sum();
        let lost: Option<f64> = outputs.iter().map(|output| output.lost_ns).sum();
        let cpu_ns = ns.max(1.0) * self.client_cpus(row.on).len() as f64;
        let (rate, share) = (1e9 * preempted as f64 / ns.max(1.0), lost.map(|lost| lost / cpu_ns));
        Ok(PeerResult {
            value: reading.value,
            detail: reading.detail,
            preempted_hz: (!row.takes_turns).then_some(rate),
            lost_share: share.filter(|_| !row.takes_turns),
        })
    }

    /// Starts the server of a row, if it has one.
    fn serve(&self, row: &Row, port: u16) -> Result<Option<PairServed>, RunError> {
        let Some(server) = &row.server else { return Ok(None) };
        let serving = self.runner(self.server_cpus(row.on), self.limit_ns);
        let running = serving.serve(&server(&self.place_at(port)))?;
        Ok(Some(PairServed {
            _stalls: row.stalls.then(|| Stalls::from_server(&running)),
            _running: running,
        }))
    }

    fn place_at(&self, port: u16) -> PeerPlace {
        let place = self.place.as_ref().ok().cloned();
        let fathom = self.program.display().to_string();
        PeerPlace { port, fathom, ..place.unwrap_or_else(|| PeerPlace::at("".as_ref())) }
    }

    /// Reads the data into the page cache, and removes the file that is to be written, now and when
    /// the result is dropped.
    fn prepare_files(&self, row: &Row) -> Result<Option<RemovedFile>, RunError> {
        let Some(place) = self.files(row)? else { return Ok(None) };
        let failed = |what: &str, error: std::io::Error| {
            RunError::Failed(format!("{what}: {}", system_cause(&error, Activity::Read)))
        };
        if row.reads_data {
            let data =
                std::fs::File::open(&place.data).map_err(|error| failed("open the data", error))?;
            let residency = residency::warm(&data, &AtomicBool::new(false))
                .map_err(|error| failed("read the data into memory", error.into()))?;
            if residency.state != residency::ResidencyState::Warm {
                let text = "the data does not stay in the page cache: free some memory";
                return Err(RunError::Failed(text.to_owned()));
            }
        }
        Ok(Some(RemovedFile::new(place.own.clone())))
    }
}

/// A server of a turn, killed when this is dropped.
struct PairServed {
    // Dropped first: its signals must not reach another process.
    _stalls: Option<Stalls>,
    _running: Running,
}

/// The peer's side of a pair.
#[derive(Default)]
struct PeerResult {
    value: f64,
    detail: String,
    /// Preemptions per second.
    preempted_hz: Option<f64>,
    /// The share of its CPU time that other processes had.
    lost_share: Option<f64>,
}

/// A file that is removed before and after a program writes it.
struct RemovedFile(PathBuf);

impl RemovedFile {
    fn new(path: PathBuf) -> Self {
        // A killed program left it.
        let _ = std::fs::remove_file(&path);
        Self(path)
    }
}

impl Drop for RemovedFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drift_affects_both_sides_alike() {
        let order: Vec<PairSide> = (0..2).flat_map(sides).collect();
        assert_eq!(order, [PairSide::Ours, PairSide::Theirs, PairSide::Theirs, PairSide::Ours]);
    }

    #[test]
    fn written_file_is_removed_before_and_after() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f-1");
        std::fs::write(&path, "left by a killed program").unwrap();
        let removed = RemovedFile::new(path.clone());
        assert!(!path.exists());
        std::fs::write(&path, "written in this pair").unwrap();
        drop(removed);
        assert!(!path.exists());
    }
}
