//! System calls of a worker that fail: the coordinator gets an answer or a reason in time, and no
//! process is left.

use std::path::PathBuf;

use fathom_engine::worker::Workers;
use fathom_engine::{EngineOutcome as VisitOutcome, VisitRequest};
use fathom_lab::strace::{self, Injection, StraceFault};
use fathom_measure::affinity;
use fathom_measure::sampler::{InjectedDose, Resources, Settings};
use fathom_record::{Cause, Params};

use crate::fault_plan::{self, TRANSIENT};
use crate::test_env::TestEnv;
use crate::trials::{self, TrialOutcome, is_strace_missing};

/// Metrics that run alone, with a child process, and with threads.
const METRICS: [(&str, &str, i64); 3] =
    [("cpu.frequency", "", 0), ("os.switch.process", "set_bytes", 0), ("os.thread.create", "", 0)];

/// The smallest visit of a metric.
pub(crate) fn request((metric, parameter, value): (&str, &str, i64)) -> VisitRequest {
    let params = match parameter {
        "" => Params::none(),
        name => Params::one(name, value),
    };
    let settings = Settings {
        rounds: 2,
        seed: 1,
        process: 0,
        cpu: affinity::allowed()[0],
        other_cpu: None,
        batch_floor_ns: 2000.0,
        time_limit_ns: 1e9,
        trials: false,
        injected: InjectedDose::default(),
    };
    VisitRequest {
        metric: metric.to_owned(),
        params: vec![params],
        settings,
        clock: fathom_lab::clock().specification(),
        coordinator: std::process::id(),
        priority: false,
        resources: Resources::none(),
        is_on_two_cpus: false,
        sensed_memory: None,
    }
}

/// A visit by a worker under strace, which execs it, so that this process stays its parent.
fn visit(request: &VisitRequest, injection: Option<&Injection>, env: &TestEnv) -> VisitOutcome {
    let marker = format!("FATHOM_STORE={}", env.store().display());
    let mut arguments = vec![marker, "strace".to_owned()];
    arguments.extend(strace::arguments(injection, &env.file("calls"), true));
    arguments.extend([env!("CARGO_BIN_EXE_fathom"), "worker"].map(str::to_owned));
    let workers = Workers { program: PathBuf::from("env"), arguments, grace_ns: 10e9 };
    let (stop, _never) = std::os::unix::net::UnixStream::pair().expect("a pair");
    workers.visit(request, &stop)
}

#[test]
fn failing_calls_in_worker_give_answer_or_reason() {
    if is_strace_missing() {
        return;
    }
    let mut results = Vec::new();
    for metric in METRICS {
        let request = request(metric);
        for injection in fault_plan::sample(planned(&request), |one| one) {
            let env = TestEnv::new();
            let visited = visit(&request, Some(&injection), &env);
            let left = env.running_processes();
            let outcome = match left.is_empty() {
                true => judge(&visited, &injection.fault),
                false => Err(format!("{left:?} are left running")),
            };
            if strace::happened(&injection, &env.file("calls")) {
                results.push((metric.0.to_owned(), injection, outcome));
            }
        }
    }
    let heading = ("4-worker-calls", "System calls of a worker that fail");
    let counts = trials::report(heading, &results);
    assert!(counts.len() > 2, "the faults made no difference: {counts:?}");
}

/// The faults of the calls that an undisturbed visit makes.
fn planned(request: &VisitRequest) -> Vec<Injection> {
    let env = TestEnv::new();
    let visited = visit(request, None, &env);
    assert_eq!(judge(&visited, &StraceFault::Kill), Ok("answered"), "{visited:?}");
    let calls = strace::calls(&env.file("calls"));
    // The calls before are those of the loader and the Rust runtime.
    let first = calls.iter().position(|call| call.line.starts_with("read(0<"));
    let all = fault_plan::plan(&calls[first.expect("the request")..], env.store());
    all.into_iter().filter(|one| one.fault != StraceFault::Interrupt).collect()
}

fn judge(visited: &VisitOutcome, fault: &StraceFault) -> TrialOutcome {
    let ending = match visited {
        VisitOutcome::Answered(answer) => match &answer.samples[..] {
            [Ok(sample)] if !sample.values.is_empty() => "answered",
            [Err(_)] => "answered with a reason",
            other => return Err(format!("an answer of another shape: {other:?}")),
        },
        VisitOutcome::Failed(reason) if reason.cause == Cause::TimedOut => {
            return Err(format!("it hangs: {}", reason.text));
        }
        VisitOutcome::Failed(reason) if reason.text.contains("panicked") => {
            return Err(reason.text.clone());
        }
        VisitOutcome::Failed(reason) if reason.text.contains("the worker ") => {
            "ended with a reason"
        }
        other => return Err(format!("no reason: {other:?}")),
    };
    // If the interrupted call is the timed operation itself, its result is wrong work: repeating
    // it would change what is timed.
    let is_wrong_work =
        ending == "answered with a reason" && format!("{visited:?}").contains("WrongWork");
    match *fault == StraceFault::Error(TRANSIENT) && ending != "answered" && !is_wrong_work {
        true => Err(format!("an interrupted call: {visited:?}")),
        false => Ok(ending),
    }
}
