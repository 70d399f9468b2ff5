//! Failures of workers, simulated by a shell.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use fathom_measure::clock::{ClockSource, Specification};
use fathom_measure::sampler::{Resources, Settings};
use fathom_probes::REGISTRY;
use fathom_record::{Check, Params};
use rustix::event::{PollFd, PollFlags, poll};

use super::*;

/// More than any worker here needs.
const LONG_NS: f64 = 3.6e12;

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
            time_limit_ns: LONG_NS,
            trials: false,
            injected: fathom_measure::sampler::InjectedDose::default(),
        },
        clock: Specification::uncalibrated(ClockSource::MonotonicRaw),
        coordinator: std::process::id(),
        priority: false,
        resources: Resources::none(),
        is_on_two_cpus: false,
        sensed_memory: None,
    }
}

/// A descriptor that becomes readable when its other end is dropped.
fn stop() -> (OwnedFd, OwnedFd) {
    rustix::pipe::pipe().expect("a pipe")
}

fn visit(script: &str, request: &VisitRequest, grace_ns: f64) -> EngineOutcome {
    let arguments = vec!["-c".to_owned(), script.to_owned()];
    let workers = Workers { program: PathBuf::from("/bin/sh"), arguments, grace_ns };
    let (reader, _writer) = stop();
    workers.visit(request, &reader)
}

fn reason(outcome: EngineOutcome) -> (Cause, String) {
    match outcome {
        EngineOutcome::Failed(reason) => (reason.cause, reason.text),
        other => panic!("{other:?}"),
    }
}

fn failure(script: &str) -> (Cause, String) {
    reason(visit(script, &request(), LONG_NS))
}

#[test]
fn worker_that_fails_is_reported_with_its_reason() {
    for (script, parts) in [
        ("kill -SEGV $$", &["signal 11 (segmentation fault)"][..]),
        ("kill -KILL $$", &["was killed"]),
        (
            "cat >/dev/null; echo first >&2; echo out of tea >&2; exit 7",
            &["status 7", "out of tea"],
        ),
        ("echo '{\"samples\":'", &["without an answer"]),
        ("cat >/dev/null; echo '{\"samples\":[],\"spin\":null} and more'", &["without an answer"]),
    ] {
        let (cause, text) = failure(script);
        assert_eq!(cause, Cause::Crashed, "{script}");
        assert!(parts.iter().all(|part| text.contains(part)), "{script}: {text}");
    }
}

#[test]
fn hanging_worker_is_killed_with_its_children() {
    // The child, once it runs, holds the read end.
    let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
    let settings = Settings { time_limit_ns: 1e8, ..request().settings };
    let request = VisitRequest { settings, ..request() };
    let (cause, text) = reason(visit("sleep 3600 & exec sleep 3600", &request, 3e8));
    assert_eq!(cause, Cause::TimedOut);
    assert!(text.contains("timed out after"), "{text}");
    drop(reader);
    // Nobody reads: an error, once no process has the other end.
    let mut waits = [PollFd::new(&writer, PollFlags::empty())];
    poll(&mut waits, None).expect("an event");
    assert!(waits[0].revents().contains(PollFlags::ERR));
}

#[test]
fn missing_program_is_a_failure() {
    let workers = Workers {
        program: PathBuf::from("/nonexistent/fathom"),
        arguments: Vec::new(),
        grace_ns: LONG_NS,
    };
    let (reader, _writer) = stop();
    assert!(matches!(workers.visit(&request(), &reader), EngineOutcome::Failed(_)));
}

#[test]
fn stop_ends_the_visit_at_once() {
    let (reader, writer) = stop();
    drop(writer);
    let arguments = vec!["-c".to_owned(), "exec sleep 3600".to_owned()];
    let workers = Workers { program: PathBuf::from("/bin/sh"), arguments, grace_ns: LONG_NS };
    assert_eq!(workers.visit(&request(), &reader), EngineOutcome::Interrupted);
}

/// A resized window or a debugger interrupts the coordinator's wait for the worker's pipe.
#[test]
fn signal_to_the_coordinator_costs_no_visit() {
    let signalled = std::sync::Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGUSR2, signalled.clone())
        .expect("a handler");
    // The worker writes to one pipe when it runs, and ends when the other is closed.
    let (mut running, says) = std::io::pipe().expect("a pipe");
    let (hears, end) = std::io::pipe().expect("a pipe");
    for inherited in [says.as_fd(), hears.as_fd()] {
        rustix::io::fcntl_setfd(inherited, rustix::io::FdFlags::empty()).expect("inherited");
    }
    let (say, hear) = (says.as_raw_fd(), hears.as_raw_fd());
    let script = format!(
        "cat >/dev/null; echo >/dev/fd/{say}; cat </dev/fd/{hear} >/dev/null; echo no; exit 7"
    );
    let (sender, thread) = std::sync::mpsc::channel();
    let visit = std::thread::spawn(move || {
        sender.send(rustix::thread::gettid()).expect("a listener");
        failure(&script)
    });
    let thread = thread.recv().expect("a thread").as_raw_nonzero().get();
    running.read_exact(&mut [0]).expect("the worker runs");
    for _ in 0..20 {
        // SAFETY: takes numbers only; the thread waits for the worker.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, libc::SIGUSR2) };
        while !signalled.swap(false, Ordering::Relaxed) {
            std::thread::yield_now();
        }
    }
    drop(end);
    let (_, text) = visit.join().expect("no panic");
    assert!(text.contains("status 7"), "{text}");
}

#[test]
fn worker_takes_the_requested_visit() {
    let answer = std::thread::spawn(|| take(&request(), &REGISTRY)).join().expect("no panic");
    let sample = answer.samples[0].as_ref().expect("a sample");
    assert_eq!((sample.values.len(), sample.process), (2, 0));
    assert!(sample.values.iter().all(|hz| *hz > 0.0), "{sample:?}");
    assert_eq!(answer.loops.len(), 3, "before, between and after two rounds");
}

fn is_failed(request: &VisitRequest, part: &str) -> bool {
    let answer = take(request, &REGISTRY);
    matches!(&answer.samples[0], Err(SamplerFault::Failed(text)) if text.contains(part))
}

#[test]
fn unknown_probe_or_cpu_is_a_fault() {
    let unknown = VisitRequest { metric: "cpu.nonsense".to_owned(), ..request() };
    assert!(is_failed(&unknown, "nonsense"));
    let settings = Settings { cpu: 1_000_000, ..request().settings };
    let far = VisitRequest { settings, ..request() };
    assert_eq!(take(&far, &REGISTRY).samples, [Err(offline(1_000_000))]);
}

fn offline(cpu: u32) -> SamplerFault {
    SamplerFault::CpuOffline(cpu, format!("CPU {cpu} went offline"))
}

/// Pinning to the CPUs of the numbers 1000 and 1001 fails as to one that went offline.
#[test]
fn offline_cpu_replaces_what_it_disturbed() {
    let check = |passed| Sample {
        checks: vec![Check { name: "CPUs".to_owned(), passed, detail: String::new() }],
        ..Sample::default()
    };
    let missing = || Err(SamplerFault::Unavailable("no memory".to_owned(), None));
    let failed = || Err(SamplerFault::Failed("peer: ran on another CPU".to_owned()));
    let named = |cpus: &[u32], own| {
        let mut samples = [Ok(check(true)), Ok(check(false)), missing(), failed()];
        name_offline_cpu(&mut samples, cpus, own);
        samples
    };
    let on_thread = |cpus: &'static [u32], own| {
        std::thread::scope(|scope| scope.spawn(|| named(cpus, own)).join()).expect("no panic")
    };
    let own = affinity::allowed()[0];
    assert_eq!(on_thread(&[], own), [Ok(check(true)), Ok(check(false)), missing(), failed()]);
    let other = || Err(offline(1000));
    assert_eq!(on_thread(&[1000], own), [Ok(check(true)), other(), missing(), other()]);
    let gone = || Err(offline(1001));
    assert_eq!(on_thread(&[1000], 1001), [gone(), gone(), missing(), gone()]);
}
