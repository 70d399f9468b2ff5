//! Worker processes: how the coordinator starts one and reads its answer, and what the worker does.

use std::ffi::CString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use fathom_measure::process::{self, CollectError, OutputLimits, Running, exit_text};
use fathom_measure::sampler::{KernelCounters, Sampler, SamplerFault};
use fathom_measure::{Clock, affinity};
use fathom_metric::{Entry, ProbeCase, Registry};
use fathom_record::{Activity, Cause, Reason, Remedy, Sample, system_cause};
use rustix::io::Errno;
use rustix::process::Pid;

use crate::machine::{EngineOutcome, VisitAnswer, VisitRequest};

/// A worker hangs if it has not answered this long after its last possible round.
const GRACE_NS: f64 = 10e9;
/// Upper bound on the answer of a case, which protects the coordinator from a broken worker. Values
/// are per round, and the size of a histogram depends on the range of times, not on their number.
const CASE_MAX_BYTES: usize = 4 << 20;

pub struct Workers {
    pub program: PathBuf,
    pub arguments: Vec<String>,
    /// Time from the time limit of a visit until the worker is killed.
    pub grace_ns: f64,
}

impl Workers {
    /// # Errors
    /// If the path of the running program is unknown.
    pub fn of_this_program() -> std::io::Result<Self> {
        let program = process::this_program()?;
        Ok(Self { program, arguments: vec!["worker".to_owned()], grace_ns: GRACE_NS })
    }

    /// Makes one visit in a fresh process and waits for it. `stop` is a descriptor that becomes
    /// readable when the user stops the run.
    pub fn visit(&self, request: &VisitRequest, stop: &impl AsFd) -> EngineOutcome {
        let crashed = |text| EngineOutcome::Failed(Reason::new(Cause::Crashed, text));
        let mut worker = match self.start(request) {
            Ok(worker) => worker,
            Err(error) => {
                let cause = system_cause(&error, Activity::Other);
                let fault = SamplerFault::of_cause("start a worker", &cause);
                return match cause.is_limit {
                    true => EngineOutcome::Answered(VisitAnswer::fault(&fault, request)),
                    false => crashed(fault.to_string()),
                };
            }
        };
        // The last round may exceed the limit, and the set-up is not included in it.
        let bound_ns = 2.0 * request.settings.time_limit_ns + self.grace_ns;
        let output_bytes = CASE_MAX_BYTES * request.params.len().max(1);
        let limits = OutputLimits { time_ns: bound_ns as u64, output_bytes };
        let ended = worker.collect(limits, stop.as_fd());
        if let Err(CollectError::Stopped) = ended {
            return EngineOutcome::Interrupted;
        }
        let [answer, errors] = &worker.output;
        // Before the exit status: an answer counts however the worker ended.
        if let Ok(answer) = serde_json::from_slice::<VisitAnswer>(answer) {
            return EngineOutcome::Answered(answer);
        }
        let stderr = process::last_words(errors).map_or(String::new(), |it| format!(": {it}"));
        match ended {
            Ok(status) if status.success() => {
                crashed(format!("the worker exited without an answer{stderr}"))
            }
            Ok(status) => crashed(format!("the worker {}{stderr}", exit_text(status))),
            Err(CollectError::TimedOut(seconds)) => {
                let text = format!("the worker timed out after {seconds:.0} s and was killed");
                let remedy = Remedy::Repeat { option: None };
                EngineOutcome::Failed(Reason::new(Cause::TimedOut, text).with_remedy(remedy))
            }
            Err(error) => crashed(format!("the worker {error}")),
        }
    }

    fn start(&self, request: &VisitRequest) -> std::io::Result<Running> {
        let program = CString::new(self.program.as_os_str().as_bytes());
        let arguments = self.arguments.iter().map(|it| CString::new(it.as_str()));
        let arguments: Result<Vec<CString>, _> = [program].into_iter().chain(arguments).collect();
        let mut worker = Running::start_vforked(&arguments?)?;
        worker.write_input(&serde_json::to_vec(request)?)?;
        Ok(worker)
    }
}

/// The worker: reads a request, makes the visit, writes the answer.
///
/// # Errors
/// If the request cannot be read or the answer cannot be written.
pub fn serve(registry: &Registry) -> anyhow::Result<()> {
    let mut text = String::new();
    std::io::stdin().lock().read_to_string(&mut text)?;
    anyhow::ensure!(
        !text.is_empty(),
        "workers are started by a run, with a request on standard input"
    );
    let request: VisitRequest = serde_json::from_str(&text)?;
    // Again: exec of a file with capabilities clears the parent-death signal.
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
    let all = |fault: SamplerFault| VisitAnswer::fault(&fault, request);
    let Some(Entry::Probe(probe)) = registry.find(&request.metric) else {
        return all(SamplerFault::Failed(format!("no probe is called {}", request.metric)));
    };
    if let Err(error) = affinity::pin(request.settings.cpu) {
        return all(SamplerFault::of_pin(request.settings.cpu, error));
    }
    if request.priority {
        // Best effort: the coordinator reports what tuning could not do.
        let _ = rustix::process::setpriority_process(None, -20);
    }
    // Without it the shortest sleep lasts 50 µs.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    let cases: Vec<ProbeCase> = request.params.iter().cloned().map(ProbeCase::usual).collect();
    let waits = cases.first().map_or(probe.about().expects, |case| probe.expects(case));
    let clock = Clock::from_specification(request.clock);
    let other_cpu = request.settings.other_cpu.filter(|_| request.is_on_two_cpus);
    let counters = KernelCounters::new(request.settings.cpu, waits).beside(other_cpu);
    let memory = request.sensed_memory.map(|descriptor| {
        // A program with capabilities hides its descriptors: nothing is sensed then.
        File::open(format!("/proc/{}/fd/{descriptor}", request.coordinator))
    });
    let counters = counters.with_memory(memory.and_then(Result::ok));
    let sampler = Sampler::new(clock, request.settings, cases.len(), Box::new(counters));
    let mut sampler = sampler.with(request.resources.clone());
    if let Err(fault) = probe.visit(&cases, &mut sampler) {
        (0..cases.len()).for_each(|case| sampler.fault(case, fault.clone()));
    }
    let mut visit = sampler.finish();
    name_offline_cpu(&mut visit.samples, &request.resources.cpus, request.settings.cpu);
    VisitAnswer { samples: visit.samples, loops: visit.loops }
}

/// Replaces what was measured while the worker's CPU went offline, since the kernel then moves it
/// to another one, and what failed because another CPU of the work did.
fn name_offline_cpu(samples: &mut [Result<Sample, SamplerFault>], cpus: &[u32], own: u32) {
    let is_offline = |cpu: &u32| affinity::pin(*cpu) == Err(Errno::INVAL);
    let is_own = is_offline(&own);
    let is_wrong = |sample: &Result<Sample, SamplerFault>| match sample {
        Ok(sample) => is_own || sample.checks_of_both().any(|check| !check.passed),
        Err(fault) => matches!(fault, SamplerFault::WrongWork(_) | SamplerFault::Failed(_)),
    };
    let mut wrong = samples.iter_mut().filter(|sample| is_wrong(sample)).peekable();
    if wrong.peek().is_none() {
        return;
    }
    let offline = [own].iter().chain(cpus).copied().find(is_offline);
    let Some(fault) = offline.map(|cpu| SamplerFault::CpuOffline(cpu, affinity::loss(cpu))) else {
        return;
    };
    wrong.for_each(|sample| *sample = Err(fault.clone()));
}

#[cfg(test)]
mod tests;
