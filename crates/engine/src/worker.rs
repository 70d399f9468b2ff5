//! Both ends of a worker process: the coordinator's, which gives it a visit and takes its answer;
//! and the worker's own, which takes the visit and answers.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use fathom_measure::process::{self, CollectError, Limits, Running, exit_text};
use fathom_measure::sampler::{self, Fault, KernelCounters, Sampler};
use fathom_measure::{Clock, affinity};
use fathom_metric::{Case, Entry, Registry};
use fathom_record::{Cause, Reason, Remedy};
use rustix::io::Errno;
use rustix::process::Pid;

use crate::machine::{Outcome, VisitAnswer, VisitRequest};

/// A worker that has not answered this long after its last possible round hangs.
const GRACE_NS: f64 = 10e9;
/// No case has a longer answer, however many operations it timed: values are those of rounds, and
/// a histogram grows with the range of the times and not with their number. A bound on what a
/// broken worker can make the coordinator keep.
const CASE_MAX_BYTES: usize = 4 << 20;

pub struct Workers {
    pub program: PathBuf,
    pub arguments: Vec<String>,
    /// How long after its time limit a worker is given up.
    pub grace_ns: f64,
}

impl Workers {
    /// This very program as worker.
    ///
    /// # Errors
    /// When the path of the running program is not known.
    pub fn of_this_program() -> std::io::Result<Self> {
        let program = process::this_program()?;
        Ok(Self { program, arguments: vec!["worker".to_owned()], grace_ns: GRACE_NS })
    }

    /// Takes one visit in a fresh process and waits for it. `stop` is a descriptor that becomes
    /// readable when the person wants the run to end.
    pub fn visit(&self, request: &VisitRequest, stop: &impl AsFd) -> Outcome {
        let crashed = |text| Outcome::Failed(Reason::new(Cause::Crashed, text));
        let mut worker = match self.start(request) {
            Ok(worker) => worker,
            Err(error) => return crashed(format!("start a worker: {error}")),
        };
        // Rounds end after the limit by at most one round, and the set-up comes on top.
        let bound_ns = 2.0 * request.settings.time_limit_ns + self.grace_ns;
        let output_bytes = CASE_MAX_BYTES * request.params.len().max(1);
        let limits = Limits { time_ns: bound_ns as u64, output_bytes };
        let ended = worker.collect(limits, stop.as_fd());
        if let Err(CollectError::Stopped) = ended {
            return Outcome::Interrupted;
        }
        let [answer, errors] = &worker.output;
        // First: an answer is one however the worker ended afterwards.
        if let Ok(answer) = serde_json::from_slice::<VisitAnswer>(answer) {
            return Outcome::Answered(answer);
        }
        let last_words = process::last_words(errors).map_or(String::new(), |it| format!(": {it}"));
        match ended {
            Ok(status) if status.success() => {
                crashed(format!("the worker ended without an answer{last_words}"))
            }
            Ok(status) => crashed(format!("the worker {}{last_words}", exit_text(status))),
            Err(CollectError::TimedOut(seconds)) => {
                let text =
                    format!("the worker gave no answer within {seconds:.0} s and was killed");
                Outcome::Failed(Reason::new(Cause::TimedOut, text))
            }
            Err(error) => crashed(format!("the worker {error}")),
        }
    }

    fn start(&self, request: &VisitRequest) -> std::io::Result<Running> {
        let command = || {
            let mut command = Command::new(&self.program);
            command.args(&self.arguments).stdin(Stdio::piped());
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            Ok(command)
        };
        let mut worker = Running::start_tied(command, &[])?;
        worker.write_input(&serde_json::to_vec(request)?)?;
        Ok(worker)
    }
}

/// The worker's own side: reads a request, takes the visit, writes the answer.
///
/// # Errors
/// When the request cannot be read or the answer cannot be written.
pub fn serve(registry: &Registry) -> anyhow::Result<()> {
    let mut text = String::new();
    std::io::stdin().lock().read_to_string(&mut text)?;
    anyhow::ensure!(
        !text.is_empty(),
        "a worker is started by a run, with its request on standard input"
    );
    let request: VisitRequest = serde_json::from_str(&text)?;
    // Once more: at exec the kernel forgets it where the program's file gives capabilities.
    let coordinator = Pid::from_raw(request.coordinator as i32);
    let ended = || anyhow::anyhow!("the coordinator has ended");
    process::end_with(coordinator.ok_or_else(ended)?).map_err(|_| ended())?;
    let answer = take(&request, registry);
    let mut line = serde_json::to_vec(&answer)?;
    line.push(b'\n');
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(&line)?;
    stdout.flush()?;
    Ok(())
}

fn take(request: &VisitRequest, registry: &Registry) -> VisitAnswer {
    let all = |fault: Fault| VisitAnswer {
        samples: request.params.iter().map(|_| Err(fault.clone())).collect(),
        loops: Vec::new(),
    };
    let Some(Entry::Probe(probe)) = registry.find(&request.metric) else {
        return all(Fault::Failed(format!("no probe is called {}", request.metric)));
    };
    if let Err(error) = affinity::pin(request.settings.cpu) {
        let text = format!("pin to CPU {}: {error}", request.settings.cpu);
        return all(match error {
            Errno::PERM => Fault::unavailable(text, Remedy::LeaveSandbox),
            _ => Fault::Failed(text),
        });
    }
    if request.priority {
        // Best effort: what `--tune` could not do is said by the coordinator.
        let _ = rustix::process::setpriority_process(None, -20);
    }
    let cases: Vec<Case> = request.params.iter().cloned().map(Case::usual).collect();
    let waits = cases.first().map_or(probe.about().expects, |case| probe.expects(case));
    let clock = Clock::from_specification(request.clock);
    let only_at = request.settings.only_at;
    let waited = only_at.map(|reference| {
        let look = || sampler::reference_loop(&clock);
        sampler::wait_for(look, &reference)
    });
    if let Some((loops, false)) = waited {
        return VisitAnswer { samples: Vec::new(), loops };
    }
    let counters = KernelCounters::new(request.settings.cpu, waits);
    let sampler = Sampler::new(clock, request.settings, cases.len(), Box::new(counters));
    let mut sampler = sampler.with(request.resources.clone());
    if let Err(fault) = probe.visit(&cases, &mut sampler) {
        (0..cases.len()).for_each(|case| sampler.fault(case, fault.clone()));
    }
    let visit = sampler.finish();
    let mut loops = waited.map_or_else(Vec::new, |(loops, _)| loops);
    loops.extend(visit.loops);
    VisitAnswer { samples: visit.samples, loops }
}

#[cfg(test)]
mod tests;
