//! One measurement: this program in a process of its own, as on a command line.

use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use fathom_analysis::evidence::disturbance;
use fathom_analysis::statistics::median;
use fathom_measure::process::{ErrorFile, Running, this_program};
use fathom_record::command::MEMORY;
use fathom_record::{Better, Document, FactValue, Params, Reason, Record, Unit};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::request::TrialSubject;

/// A look at Ctrl-C.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// For a child to stop its own children.
const GRACE_NS: u64 = 1_000_000_000;
/// Processes of a metric, runs of a command at most, clients and seconds of a load.
const PROCESSES: &str = "3";
const RUNS_MAX: f64 = 9.0;
const CLIENTS: &str = "4";
const LOAD_TIME: &str = "2s";
/// Runs of a short command are repeated for this time, in which their process starts as well.
const RUNS_NS: f64 = 5e8;
const COMMAND: &str = "command";

/// A measured number.
#[derive(Clone, Debug, PartialEq)]
pub struct TrialFigure {
    /// The metric with its parameters, or `command`.
    pub of: String,
    pub params: Params,
    pub unit: Unit,
    pub better: Better,
    pub value: f64,
    /// Not what is to get better.
    pub is_beside: bool,
    /// What others did to it.
    pub disturbed: Option<Reason>,
    /// The time of the reference loop, where one is run beside.
    pub loop_ns: Option<f64>,
}

#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    #[error("stopped")]
    Stopped,
    #[error("{0}")]
    Failed(String),
}

/// What is measured at each combination of values.
pub trait TrialWorkload {
    /// # Errors
    /// If it has no number, or `stop` was set.
    fn measure(&mut self, stop: &AtomicBool) -> Result<Vec<TrialFigure>, WorkloadError>;
}

/// This program as a child.
pub(crate) struct ChildWorkload {
    subject: TrialSubject,
    runs: u64,
}

impl ChildWorkload {
    pub(crate) fn new(subject: TrialSubject) -> Self {
        Self { subject, runs: 1 }
    }

    /// As many runs of a command as take half a second, after one with these figures; how much
    /// longer a measurement takes.
    pub(crate) fn repeat(&mut self, figures: &[TrialFigure]) -> f64 {
        let time = figures.iter().find(|one| one.of == COMMAND);
        let ns = time.map_or(RUNS_NS, |one| one.value.max(1.0));
        self.runs = (RUNS_NS / ns).clamp(1.0, RUNS_MAX) as u64;
        ns * (self.runs - 1) as f64
    }

    fn words(&self) -> Vec<String> {
        let runs = self.runs.to_string();
        let words: Vec<&str> = match &self.subject {
            TrialSubject::Metrics(metrics) => {
                let options = ["--only", "--quick", "--processes", PROCESSES];
                ["run"]
                    .into_iter()
                    .chain(metrics.iter().map(String::as_str))
                    .chain(options)
                    .collect()
            }
            TrialSubject::Command(line) => {
                vec!["bench", line, "--name", COMMAND, "--runs", &runs]
            }
            TrialSubject::Load(url) => {
                vec!["load", url, "--clients", CLIENTS, "--time", LOAD_TIME]
            }
        };
        words.into_iter().chain(["--json", "--member"]).map(str::to_owned).collect()
    }
}

impl TrialWorkload for ChildWorkload {
    fn measure(&mut self, stop: &AtomicBool) -> Result<Vec<TrialFigure>, WorkloadError> {
        let failed = |error: std::io::Error| WorkloadError::Failed(error.to_string());
        let program = this_program().map_err(failed)?;
        let errors = ErrorFile::new().map_err(failed)?;
        let command = || {
            let mut command = Command::new(&program);
            command.args(self.words()).stdin(Stdio::null()).stdout(Stdio::piped());
            command.stderr(errors.stdio()?);
            Ok(command)
        };
        let mut child = Running::start_tied(command, &[]).map_err(failed)?;
        let text = match output(&mut child, stop) {
            Ok(Some(text)) => text,
            Ok(None) => {
                child.terminate(GRACE_NS);
                return Err(WorkloadError::Stopped);
            }
            Err(error) => return Err(failed(error)),
        };
        let document = text.lines().rev().find_map(|it| serde_json::from_str::<Document>(it).ok());
        let figures: Vec<TrialFigure> =
            document.iter().flat_map(|it| &it.records).flat_map(|it| self.figures(it)).collect();
        if figures.iter().all(|figure| figure.is_beside) {
            // Ctrl-C may have ended the child, too.
            if stop.load(Ordering::Relaxed) {
                return Err(WorkloadError::Stopped);
            }
            let reason = |record: &Record| Some(record.verdict.reasons.first()?.text.clone());
            let why = document.and_then(|it| it.records.iter().find_map(reason));
            let why = why.or_else(|| errors.last_words()).unwrap_or_else(|| "no number".to_owned());
            return Err(WorkloadError::Failed(why.trim_start_matches("fathom: ").to_owned()));
        }
        Ok(figures)
    }
}

impl ChildWorkload {
    fn figures(&self, record: &Record) -> Vec<TrialFigure> {
        let Some(summary) = record.shown_summary().filter(|_| record.verdict.shows_number()) else {
            return Vec::new();
        };
        let figure = |of: &str, is_beside| TrialFigure {
            of: of.to_owned(),
            params: record.params.clone(),
            unit: record.unit,
            better: record.better,
            value: summary.median,
            is_beside,
            disturbed: disturbance(record).cloned(),
            loop_ns: summary.estimate().and_then(|it| median(&it.process_loops)),
        };
        let id = record.metric.as_str();
        match &self.subject {
            TrialSubject::Metrics(_) => vec![figure(id, false)],
            TrialSubject::Command(_) => {
                let time = figure(COMMAND, false);
                let memory = record.fact(MEMORY).and_then(|fact| match fact.value {
                    FactValue::Quantity { value, unit } => Some((value, unit)),
                    _ => None,
                });
                let beside = memory.map(|(value, unit)| {
                    let of = "command.memory".to_owned();
                    TrialFigure { of, unit, value, is_beside: true, ..time.clone() }
                });
                std::iter::once(time).chain(beside).collect()
            }
            TrialSubject::Load(_) => match id {
                "load.throughput" => vec![figure(id, false)],
                "load.response_time" | "load.server.cpu_per_request" => vec![figure(id, true)],
                _ => Vec::new(),
            },
        }
    }
}

/// What it writes until it ends; `None` if it was stopped.
fn output(child: &mut Running, stop: &AtomicBool) -> std::io::Result<Option<String>> {
    let mut text = Vec::new();
    let mut piece = [0; 64 << 10];
    loop {
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let stdout = child.stdout()?;
        match poll(&mut [PollFd::from_borrowed_fd(stdout.as_fd(), PollFlags::IN)], Some(&LOOK)) {
            Ok(0) | Err(Errno::INTR) => continue,
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        match stdout.read(&mut piece)? {
            0 => break,
            count => text.extend_from_slice(&piece[..count]),
        }
    }
    Ok(Some(String::from_utf8_lossy(&text).into_owned()))
}
