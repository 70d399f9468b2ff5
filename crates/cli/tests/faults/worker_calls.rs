//! System calls that fail in a worker: the coordinator hears an answer or a reason, in time, and
//! nothing of the worker is left.

use std::path::PathBuf;

use fathom_engine::worker::Workers;
use fathom_engine::{Outcome, VisitRequest};
use fathom_lab::strace::{self, Fault, Injection};
use fathom_measure::affinity;
use fathom_measure::clock::{Source, Specification};
use fathom_measure::sampler::{Dose, Resources, Settings};
use fathom_record::{Cause, Params};

use crate::coverage::Coverage;
use crate::test_env::TestEnv;
use crate::fault_plan::{self, PASSING, PlannedFault};
use crate::tell;

/// One that works alone, one with a child, one with threads.
const METRICS: [(&str, &str, i64); 3] =
    [("cpu.frequency", "", 0), ("os.switch.process", "set_bytes", 0), ("os.thread.create", "", 0)];

/// A visit in the smallest size.
pub(crate) fn request((metric, parameter, value): (&str, &str, i64)) -> VisitRequest {
    let params = match parameter {
        "" => Params::none(),
        name => Params::one(name, value),
    };
    let cpu = affinity::allowed()[0];
    let settings = Settings {
        rounds: 2,
        seed: 1,
        process: 0,
        cpu,
        other_cpu: None,
        batch_floor_ns: 2000.0,
        time_limit_ns: 1e9,
        trials: false,
        only_at: None,
        injected: Dose::default(),
    };
    let clock =
        Specification { source: Source::MonotonicRaw, hz: 1e9, resolution_ns: 1.0, read_ns: 50.0 };
    let coordinator = std::process::id();
    VisitRequest {
        metric: metric.to_owned(),
        params: vec![params],
        settings,
        clock,
        coordinator,
        priority: false,
        resources: Resources::none(),
    }
}

/// A visit by a worker under strace, which is no process between the two.
fn visit(request: &VisitRequest, injection: Option<&Injection>, env: &TestEnv) -> Outcome {
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
    if let Some(why) = strace::obstacle() {
        println!("skipped: {why}");
        return;
    }
    let mut page = "## System calls of a worker that fail\n\n".to_owned();
    let (mut kinds, mut unreached, mut broken) = (0, 0, Vec::new());
    for metric in METRICS {
        let request = request(metric);
        let mut covered = Coverage::default();
        for one in fault_plan::sample(of_baseline(&request), |one| &one.injection.call) {
            let env = TestEnv::new();
            let outcome = visit(&request, Some(&one.injection), &env);
            let left = env.running_processes();
            let judged = match left.is_empty() {
                true => judge(&outcome, &one.injection.fault),
                false => Err(format!("{left:?} are left running")),
            };
            if !strace::happened(&one.injection, &env.file("calls")) {
                unreached += 1;
                continue;
            }
            let word = judged.unwrap_or_else(|why| {
                broken.push(format!("{} {}: {why}", metric.0, one.injection));
                "BROKEN"
            });
            covered.add(&one, word);
        }
        kinds += covered.kinds();
        page.push_str(&format!("{}: {}\n", metric.0, covered.table()));
    }
    let broke = broken.len();
    page.push_str(&format!("{unreached} faults were not reached; {broke} broke a promise.\n"));
    write_section("4-worker-calls", &page);
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    assert!(kinds > METRICS.len() + 1, "the faults made no difference: {page}");
}

/// Every fault that makes sense for the calls of a visit which nothing disturbs.
fn of_baseline(request: &VisitRequest) -> Vec<PlannedFault> {
    let env = TestEnv::new();
    let outcome = visit(request, None, &env);
    assert_eq!(judge(&outcome, &Fault::Kill), Ok("answered"), "{outcome:?}");
    let calls = strace::calls(&env.file("calls"));
    // What is before is the loader's and the language's.
    let first = calls.iter().position(|call| call.line.starts_with("read(0<"));
    let all = fault_plan::of(&calls[first.expect("its first act")..], env.store());
    all.into_iter().filter(|one| one.injection.fault != Fault::Interrupt).collect()
}

/// What came of a visit, in a word, or the promise that was broken.
fn judge(outcome: &Outcome, fault: &Fault) -> Result<&'static str, String> {
    let gave = match outcome {
        Outcome::Answered(answer) => match &answer.samples[..] {
            [Ok(sample)] if !sample.values.is_empty() => "answered",
            [Err(_)] => "answered with a fault",
            other => return Err(format!("an answer of another shape: {other:?}")),
        },
        Outcome::Failed(reason) if reason.cause == Cause::TimedOut => {
            return Err(format!("it hangs: {}", reason.text));
        }
        Outcome::Failed(reason) if reason.text.contains("panicked") => {
            return Err(reason.text.clone());
        }
        Outcome::Failed(reason) if reason.text.contains("the worker ") => {
            "ended, and it is said how"
        }
        other => return Err(format!("no reason: {other:?}")),
    };
    // An interrupted call that is the work itself is no work; nothing repeats it in secret.
    let work = gave == "answered with a fault" && format!("{outcome:?}").contains("WrongWork");
    match *fault == Fault::Error(PASSING) && gave != "answered" && !work {
        true => Err(format!("an interrupted call: {outcome:?}")),
        false => Ok(gave),
    }
}
