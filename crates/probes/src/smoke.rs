//! Taking a probe in its smallest size, and seeing that it cleans up behind itself.

use std::io::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fathom_measure::clock::{Clock, Source, Specification};
use fathom_measure::sampler::{Fault, Observer, RoundMark, Settings};
use fathom_measure::{Sampler, affinity};
use fathom_record::{Better, Disturbance, Host, MetricId, Params, Record, Sample, Summary, Unit};
use rustix::process::{WaitId, WaitIdOptions, waitid};

use crate::{Case, Plan, Probe};

/// Tells that a test cannot run here, and why: one that only returned would count as passed.
pub(crate) fn skipped(reason: &str) {
    writeln!(std::io::stderr(), "skipped: {reason}").unwrap();
}

/// Counters that see nothing.
struct Quiet;

impl Observer for Quiet {
    fn begin_visit(&mut self) {}
    fn end_visit(&mut self) -> Disturbance {
        Disturbance::default()
    }
    fn begin_round(&mut self) {}
    fn end_round(&mut self) -> RoundMark {
        RoundMark::default()
    }
    fn reference_spin(&mut self, _: &Clock) -> (u64, f64) {
        (0, 1.0)
    }
}

/// Held by each test that makes children: they are counted by process, not by thread.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether this process has no child, running or ended. Reaps none.
pub(crate) fn has_no_children() -> bool {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    waitid(WaitId::All, look).err() == Some(rustix::io::Errno::CHILD)
}

/// Names of what the open descriptors stand for, without those of `/proc` and `/sys`, which tests
/// beside this one open for a moment.
fn open_files() -> usize {
    let entries = std::fs::read_dir("/proc/self/fd").unwrap();
    let target =
        |entry: std::io::Result<std::fs::DirEntry>| std::fs::read_link(entry.ok()?.path()).ok();
    let elsewhere =
        |path: &std::path::PathBuf| !path.starts_with("/proc") && !path.starts_with("/sys");
    entries.filter_map(target).filter(elsewhere).count()
}

/// Another CPU that this process may use; its first thread is never pinned.
pub(crate) fn other_than(cpu: u32) -> Option<u32> {
    let set = rustix::thread::sched_getaffinity(Some(rustix::process::getpid())).ok()?;
    (0..1024).find(|other| *other != cpu && set.is_set(*other as usize))
}

/// A clock that needs no calibration.
pub(crate) fn clock() -> Clock {
    let source = Source::MonotonicRaw;
    Clock::from_specification(Specification { source, hz: 1e9, resolution_ns: 1.0, read_ns: 20.0 })
}

pub(crate) fn sampler(cases: usize, cpu: u32) -> Sampler {
    sampler_on(cases, cpu, other_than(cpu))
}

/// A sampler that knows of this other CPU, or of none.
pub(crate) fn sampler_on(cases: usize, cpu: u32, other_cpu: Option<u32>) -> Sampler {
    let clock = Clock::from_specification(Specification {
        source: Source::MonotonicRaw,
        hz: 1e9,
        resolution_ns: 1.0,
        read_ns: 20.0,
    });
    let settings = Settings {
        rounds: 2,
        seed: 1,
        process: 0,
        cpu,
        other_cpu,
        batch_floor_ns: 2_000.0,
        time_limit_ns: 10e9,
        trials: false,
        injected: fathom_measure::sampler::Dose::default(),
    };
    Sampler::new(clock, settings, cases, Box::new(Quiet))
}

/// Takes a visit of these cases, pinned to one CPU as a worker is.
pub(crate) fn visit(probe: &dyn Probe, cases: &[Case]) -> Vec<Result<Sample, Fault>> {
    pinned(|cpu| {
        let mut sampler = sampler(cases.len(), cpu);
        let outcome = probe.visit(cases, &mut sampler);
        outcome.unwrap_or_else(|fault| panic!("{} took no visit: {fault}", probe.about().id));
        sampler.finish().samples
    })
}

/// Does something on one CPU, which it is told.
pub(crate) fn pinned<T>(work: impl FnOnce(u32) -> T) -> T {
    let allowed = affinity::allowed();
    affinity::pin(allowed[0]).unwrap();
    let outcome = work(allowed[0]);
    affinity::pin_to(&allowed).unwrap();
    outcome
}

/// Takes the probe in smoke size and asserts what every probe owes: values for each case or the
/// reason there are none, its own checks passed, and nothing left behind.
pub(crate) fn take(probe: &dyn Probe) -> Vec<(Case, Result<Sample, Fault>)> {
    let _alone = alone();
    let id = probe.about().id;
    let cases = probe.cases(&Host::default(), &Plan { smoke: true, ..Plan::default() });
    let files = open_files();
    let samples = visit(probe, &cases);
    assert!(has_no_children(), "{id} left a child behind");
    // Other tests open files too, but do not keep them.
    let closed = (0..100).any(|_| {
        let closed = open_files() <= files;
        if !closed {
            std::thread::sleep(Duration::from_millis(5));
        }
        closed
    });
    assert!(closed, "{id} left descriptors open: {files} before, {} after", open_files());
    assert_eq!(samples.len(), cases.len());
    for (case, sample) in cases.iter().zip(&samples) {
        match sample {
            Ok(sample) => assert_sample(id, case, sample),
            Err(Fault::Unavailable(reason)) => assert!(!reason.is_empty()),
            Err(fault) => panic!("{id}{}: {fault}", case.params),
        }
    }
    cases.into_iter().zip(samples).collect()
}

fn assert_sample(id: &str, case: &Case, sample: &Sample) {
    assert!(!sample.values.is_empty(), "{id}{} has no value", case.params);
    assert!(sample.values.iter().all(|value| value.is_finite()), "{id}{}", case.params);
    for check in &sample.checks {
        assert!(check.passed, "{id}{}: {}: {}", case.params, check.name, check.detail);
    }
}

/// A record of a case whose interval is `median` ± `half_width`.
pub(crate) fn record(metric: &str, params: &Params, median: f64, half_width: f64) -> Record {
    let ci95 = Some([median - half_width, median + half_width]);
    let summary = Some(Summary { median, ci95, ..Summary::default() });
    let (metric, params) = (MetricId::new(metric), params.clone());
    Record { summary, ..Record::new(metric, params, "", Unit::Nanoseconds, Better::Lower) }
}
