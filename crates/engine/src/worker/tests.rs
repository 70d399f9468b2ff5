//! Failures of workers, simulated by a shell.

use std::os::fd::OwnedFd;

use fathom_measure::clock::{self, Source, Specification};
use fathom_measure::sampler::{Resources, Settings};
use fathom_probes::REGISTRY;
use fathom_record::Params;

use super::*;

fn request() -> VisitRequest {
    VisitRequest {
        metric: "cpu.frequency".to_owned(),
        params: vec![Params::none()],
        settings: Settings {
            rounds: 2,
            seed: 1,
            process: 0,
            cpu: affinity::allowed()[0],
            other_cpu: None,
            batch_floor_ns: 2000.0,
            time_limit_ns: 1e8,
            trials: false,
            only_at: None,
            injected: fathom_measure::sampler::Dose::default(),
        },
        clock: Specification {
            source: Source::MonotonicRaw,
            hz: 1e9,
            resolution_ns: 1.0,
            read_ns: 50.0,
        },
        coordinator: std::process::id(),
        priority: false,
        resources: Resources::none(),
    }
}

/// A descriptor that becomes readable when its other end is dropped.
fn stop() -> (OwnedFd, OwnedFd) {
    rustix::pipe::pipe().expect("a pipe")
}

fn run_script(script: &str, grace_ns: f64) -> Outcome {
    let arguments = vec!["-c".to_owned(), script.to_owned()];
    let workers = Workers { program: PathBuf::from("/bin/sh"), arguments, grace_ns };
    let (reader, _writer) = stop();
    workers.visit(&request(), &reader)
}

fn failure(script: &str) -> (Cause, String) {
    match run_script(script, 3e8) {
        Outcome::Failed(reason) => (reason.cause, reason.text),
        other => panic!("{script}: {other:?}"),
    }
}

#[test]
fn crashed_worker_is_reported_with_its_signal() {
    let (cause, text) = failure("kill -SEGV $$");
    assert_eq!(cause, Cause::Crashed);
    assert!(text.contains("signal 11 (segmentation fault)"), "{text}");
}

#[test]
fn killed_worker_is_reported_as_killed() {
    let (cause, text) = failure("kill -KILL $$");
    assert_eq!(cause, Cause::Crashed);
    assert!(text.contains("was killed"), "{text}");
}

#[test]
fn failed_worker_is_reported_with_its_stderr() {
    let (_, text) = failure("cat >/dev/null; echo first >&2; echo out of tea >&2; exit 7");
    assert!(text.contains("status 7") && text.contains("out of tea"), "{text}");
}

#[test]
fn hanging_worker_is_killed_with_its_children() {
    let begun = clock::monotonic_raw_ns();
    let (cause, text) = failure("sleep 987 & exec sleep 987");
    assert_eq!(cause, Cause::TimedOut);
    assert!(text.contains("timed out after"), "{text}");
    assert!(clock::monotonic_raw_ns() - begun < 100_000_000_000);
    let left = Command::new("pgrep").args(["-f", "^sleep 987$"]).output();
    assert!(left.is_ok_and(|output| output.stdout.is_empty()), "a child outlived the worker");
}

#[test]
fn malformed_answer_is_a_failure() {
    let (cause, text) = failure("echo '{\"samples\":'");
    assert_eq!(cause, Cause::Crashed);
    assert!(text.contains("without an answer"), "{text}");
    let (_, text) = failure("cat >/dev/null; echo '{\"samples\":[],\"spin\":null} and more'");
    assert!(text.contains("without an answer"), "{text}");
}

#[test]
fn missing_program_is_a_failure() {
    let workers = Workers {
        program: PathBuf::from("/nonexistent/fathom"),
        arguments: Vec::new(),
        grace_ns: 1e9,
    };
    let (reader, _writer) = stop();
    assert!(matches!(workers.visit(&request(), &reader), Outcome::Failed(_)));
}

#[test]
fn stop_ends_the_visit_at_once() {
    let (reader, writer) = stop();
    drop(writer);
    let arguments = vec!["-c".to_owned(), "exec sleep 986".to_owned()];
    let workers = Workers { program: PathBuf::from("/bin/sh"), arguments, grace_ns: 1e11 };
    assert_eq!(workers.visit(&request(), &reader), Outcome::Interrupted);
}

/// A resized window or a debugger interrupts the coordinator's wait for the worker's pipe.
#[test]
fn signal_to_the_coordinator_costs_no_visit() {
    let signalled = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGUSR2, signalled.clone())
        .expect("a handler");
    let (sender, thread) = std::sync::mpsc::channel();
    let visit = std::thread::spawn(move || {
        sender.send(rustix::thread::gettid()).expect("a listener");
        failure("cat >/dev/null; sleep 0.3; echo nonsense; sleep 0.1; exit 7")
    });
    let thread = thread.recv().expect("a thread").as_raw_nonzero().get();
    while !visit.is_finished() {
        // SAFETY: takes numbers only; a thread that has ended gives an error.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, libc::SIGUSR2) };
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let (_, text) = visit.join().expect("no panic");
    assert!(signalled.load(std::sync::atomic::Ordering::Relaxed), "no signal arrived");
    assert!(text.contains("status 7"), "{text}");
}

#[test]
fn worker_takes_the_requested_visit() {
    let answer = std::thread::spawn(|| take(&request(), &REGISTRY)).join().expect("no panic");
    let sample = answer.samples[0].as_ref().expect("a sample");
    assert_eq!((sample.values.len(), sample.process), (2, 0));
    assert!(sample.values.iter().all(|hz| *hz > 1e6), "{sample:?}");
    assert_eq!(answer.loops.len(), 3, "before, between and after two rounds");
}

fn is_failed(request: &VisitRequest, part: &str) -> bool {
    let answer = take(request, &REGISTRY);
    matches!(&answer.samples[0], Err(Fault::Failed(text)) if text.contains(part))
}

#[test]
fn unknown_probe_or_cpu_is_a_fault() {
    let unknown = VisitRequest { metric: "cpu.nonsense".to_owned(), ..request() };
    assert!(is_failed(&unknown, "nonsense"));
    let settings = Settings { cpu: 1_000_000, ..request().settings };
    let far = VisitRequest { settings, ..request() };
    assert!(is_failed(&far, "1000000"));
}
