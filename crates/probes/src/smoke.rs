//! Test helpers: run a probe at its smallest size and check that it leaves nothing behind.

use std::cell::RefCell;
use std::collections::HashSet;
use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use fathom_measure::clock::{Clock, ClockSource, Specification};
use fathom_measure::sampler::{Files, LoopTime, Observer, Resources, RoundMark, Settings};
use fathom_record::host::Cache;
use fathom_record::{Check, Sample};
use rustix::process::{WaitId, WaitIdOptions, waitid};

use crate::prelude::*;

/// Prints why a test cannot run here: returning silently would count as passed.
pub(crate) fn skipped(reason: &str) {
    writeln!(std::io::stderr(), "skipped: {reason}").unwrap();
}

/// The argument by which the test program runs as a far end.
const FAR_END: &str = "far-end";
/// The argument by which it serves the folder that is the next one.
const SERVICE: &str = "service";

/// Runs before the test harness, which would write to standard output: there a far end has its
/// control connection.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = {
    extern "C" fn start() {
        if std::env::args().nth(1).as_deref() == Some(FAR_END) {
            std::process::exit(i32::from(fathom_far::serve().is_err()));
        }
        if std::env::args().nth(1).as_deref() == Some(SERVICE) {
            serve(&std::env::args().nth(2).expect("a folder"));
        }
    }
    start
};

/// Serves a folder until this process is killed.
fn serve(folder: &str) -> ! {
    let listen = vec![([127, 0, 0, 1], 0).into()];
    let options = fathom_service::Options::new(folder);
    let options = fathom_service::Options { listen, threads: Some(1), ..options };
    let server = fathom_service::ServiceServer::start(options).expect("a service");
    let text = format!("Serving {folder} on http://{}/\n", server.addresses()[0]);
    std::io::stdout().write_all(text.as_bytes()).expect("a pipe");
    loop {
        std::thread::park();
    }
}

/// This test program as a far end.
pub(crate) fn far_program() -> fathom_far::ProcessProgram {
    let path = fathom_measure::process::this_program().unwrap();
    fathom_far::ProcessProgram { path, arguments: vec![FAR_END.to_owned()] }
}

/// This test program as a service.
pub(crate) fn service_program() -> fathom_far::ProcessProgram {
    fathom_far::ProcessProgram { arguments: vec![SERVICE.to_owned()], ..far_program() }
}

/// Counters that never change.
struct NoCounters;

impl Observer for NoCounters {
    fn begin_visit(&mut self) {}
    fn end_visit(&mut self) -> Disturbance {
        Disturbance::default()
    }
    fn begin_round(&mut self) {}
    fn end_round(&mut self) -> RoundMark {
        RoundMark::default()
    }
    fn reference_loop(&mut self, _: &Clock) -> LoopTime {
        LoopTime { at_ns: 0, sibling_ns: 1.0, frequency_ns: 1.0 }
    }
}

/// Whether this process has no child, running or zombie. Does not reap.
pub(crate) fn has_no_children() -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    waitid(WaitId::All, options).err() == Some(rustix::io::Errno::CHILD)
}

/// Open descriptors with their targets.
fn open_files() -> HashSet<(OsString, PathBuf)> {
    let file = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.ok()?;
        // The descriptor of this list is closed when its target is read.
        Some((entry.file_name(), std::fs::read_link(entry.path()).ok()?))
    };
    let names: Vec<_> = std::fs::read_dir("/proc/self/fd").unwrap().collect();
    names.into_iter().filter_map(file).collect()
}

/// Whether a condition becomes true within five minutes.
pub(crate) fn eventually(mut condition: impl FnMut() -> bool) -> bool {
    const PAUSES: u32 = 60_000;
    let mut pauses = 0;
    while !condition() && pauses < PAUSES {
        pauses += 1;
        // mood: the one wait for the state of other threads and processes
        std::thread::sleep(Duration::from_millis(5));
    }
    pauses < PAUSES
}

/// Another CPU of the affinity mask of the process. Its first thread is never pinned.
pub(crate) fn other_than(cpu: u32) -> Option<u32> {
    let all = affinity::CpuMask::of_thread(std::process::id() as i32).ok()?;
    all.cpus().into_iter().find(|other| *other != cpu)
}

thread_local! {
    /// The folder for visits of this thread.
    static FILES: RefCell<Option<Files>> = const { RefCell::new(None) };
}

const LARGE_FILE_BYTES: u64 = 1 << 20;

/// A folder on a device with a small "large file" for the visits of this thread. Removed on drop.
pub(crate) struct TestFolder {
    root: PathBuf,
    pub(crate) folder: PathBuf,
    pub(crate) large: PathBuf,
}

/// `None`, with a message, where no folder for temporary files is on a device.
pub(crate) fn test_folder() -> Option<TestFolder> {
    let is_on_device = |folder: &PathBuf| {
        // Unknown is enough to run a probe: no verdict is asserted.
        fathom_fileio::inspect(folder).is_ok_and(|found| found.is_on_device() != Some(false))
    };
    let folders = [std::env::temp_dir(), PathBuf::from("/var/tmp")];
    let Some(parent) = folders.into_iter().find(is_on_device) else {
        skipped("no folder for temporary files is on a device");
        return None;
    };
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let root = parent.join(format!(".fathom-smoke-{}-{number}", std::process::id()));
    let (folder, large, seed) = (root.join("run"), root.join("large"), 7);
    std::fs::create_dir_all(&folder).unwrap();
    let mut data = vec![0; LARGE_FILE_BYTES as usize];
    fathom_fileio::FileGenerator::new(seed).fill(0, &mut data);
    std::fs::write(&large, data).unwrap();
    let files = Files { folder: folder.clone(), large: large.clone(), seed, doubt: None };
    FILES.set(Some(files));
    Some(TestFolder { root, folder, large })
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        FILES.set(None);
        std::fs::remove_dir_all(&self.root).unwrap();
    }
}

/// A clock without calibration.
pub(crate) fn clock() -> Clock {
    Clock::from_specification(Specification::uncalibrated(ClockSource::MonotonicRaw))
}

pub(crate) fn sampler(cases: usize, cpu: u32) -> Sampler {
    sampler_on(cases, cpu, other_than(cpu))
}

pub(crate) fn sampler_on(cases: usize, cpu: u32, other_cpu: Option<u32>) -> Sampler {
    let settings = Settings {
        rounds: 2,
        seed: 1,
        process: 0,
        cpu,
        other_cpu,
        batch_floor_ns: 2_000.0,
        time_limit_ns: 10e9,
        trials: false,
        injected: fathom_measure::sampler::InjectedDose::default(),
    };
    let none = Resources::none();
    let files = FILES.with_borrow(Option::clone).map_or(none.files.clone(), Ok);
    Sampler::new(clock(), settings, cases, Box::new(NoCounters)).with(Resources { files, ..none })
}

/// Runs one visit of these cases, pinned to one CPU like a worker.
pub(crate) fn visit(probe: &dyn Probe, cases: &[ProbeCase]) -> Vec<Result<Sample>> {
    pinned(|cpu| {
        let mut sampler = sampler(cases.len(), cpu);
        let outcome = probe.visit(cases, &mut sampler);
        outcome.unwrap_or_else(|fault| panic!("{}: {fault}", probe.about().id));
        sampler.finish().samples
    })
}

/// Runs `work` pinned to one CPU, whose number it receives.
pub(crate) fn pinned<T>(work: impl FnOnce(u32) -> T) -> T {
    let allowed = affinity::allowed();
    affinity::pin(allowed[0]).unwrap();
    let outcome = work(allowed[0]);
    affinity::pin_to(&allowed).unwrap();
    outcome
}

/// The checks that a visit of one case makes after its rounds.
pub(crate) fn checks(make: impl FnOnce(&mut Sampler)) -> Vec<Check> {
    pinned(|cpu| {
        let mut sampler = sampler(1, cpu);
        let spin = |iterations| (0..iterations).fold(0, |done, _| std::hint::black_box(done + 1));
        sampler.run(vec![SamplerWork::batched(0, spin)]);
        make(&mut sampler);
        sampler.finish().samples.remove(0).unwrap().checks
    })
}

/// Checks that the scheduler, reclaim or other load can fail in a right visit. What they conclude
/// from given counts is tested beside each of them.
const LOAD_DEPENDENT: [&str; 13] = [
    "acknowledgements",
    "asleep when woken",
    "awake",
    "bytes and pages",
    "bytes read",
    "clock rate",
    "context switches",
    "in memory",
    "load",
    "losses",
    "pages",
    "resident memory",
    "server cache",
];

/// The same for faults that end a visit.
const LOAD_DEPENDENT_FAULTS: [&str; 3] =
    ["page faults; expected", "requested warm, but", "counts arrived at once"];

/// Runs the probe at smoke size. Asserts that each case has values or is unavailable, that its
/// checks passed, except load-dependent ones, and that no child process and no descriptor is left.
pub(crate) fn run(probe: &dyn Probe) -> Vec<(ProbeCase, Result<Sample>)> {
    run_except(probe, &LOAD_DEPENDENT, &LOAD_DEPENDENT_FAULTS)
}

fn run_except(
    probe: &dyn Probe,
    checks: &[&str],
    faults: &[&str],
) -> Vec<(ProbeCase, Result<Sample>)> {
    let id = probe.about().id;
    let cases = probe.cases(&Host::default(), &Sizes { smoke: true, ..Sizes::default() });
    let files = open_files();
    let samples = visit(probe, &cases);
    assert!(has_no_children(), "{id} left a child process");
    let left: Vec<_> = open_files().into_iter().filter(|file| !files.contains(file)).collect();
    assert!(left.is_empty(), "{id} left descriptors open: {left:?}");
    assert_eq!(samples.len(), cases.len());
    for (case, sample) in cases.iter().zip(&samples) {
        let name = format!("{id}{}", case.params);
        match sample {
            Ok(sample) => assert_sample(&name, sample, checks),
            Err(SamplerFault::Unavailable(reason, _)) => assert!(!reason.is_empty()),
            Err(fault) => {
                let text = fault.to_string();
                assert!(faults.iter().any(|one| text.contains(one)), "{name}: {text}");
                skipped(&format!("{name}: {text}"));
            }
        }
    }
    cases.into_iter().zip(samples).collect()
}

fn assert_sample(name: &str, sample: &Sample, except: &[&str]) {
    assert!(!sample.values.is_empty(), "{name} has no value");
    assert!(sample.values.iter().all(|value| value.is_finite()), "{name}");
    for check in &sample.checks {
        let is_right = check.passed || except.contains(&check.name.as_str());
        assert!(is_right, "{name}: {}: {}", check.name, check.detail);
    }
}

#[test]
#[ignore = "lab: an idle machine passes every check"]
fn every_probe_passes_its_checks_on_an_idle_machine() {
    let Some(_folder) = test_folder() else { return };
    for entry in crate::REGISTRY.entries() {
        let fathom_metric::Entry::Probe(probe) = entry else { continue };
        // Its peer may be woken before it sleeps on any machine.
        if probe.about().id != "os.wake.cross_cpu" {
            run_except(*probe, &[], &[]);
        }
    }
}

/// A record with the interval `median` ± `half_width`.
pub(crate) fn record(metric: &str, params: &Params, median: f64, half_width: f64) -> Record {
    Record::fixture(metric, Unit::Nanoseconds).of_case(params).within(median, half_width)
}

/// Unified caches of these sizes, level 1 first.
pub(crate) fn caches(sizes: &[u64]) -> Vec<Cache> {
    let cache = |(level, size_bytes): (u32, &u64)| Cache {
        level,
        kind: "unified".to_owned(),
        size_bytes: *size_bytes,
        line_bytes: Some(64),
        ..Cache::default()
    };
    (1..).zip(sizes).map(cache).collect()
}

/// A Zen 4 with caches of 32 KiB, 1 MiB and 32 MiB.
pub(crate) fn zen4() -> Host {
    let mut host = Host::default();
    host.cpu.architecture = "x86_64".to_owned();
    host.cpu.vendor = Some("AuthenticAMD".to_owned());
    (host.cpu.family, host.cpu.model_number) = (Some(25), Some(17));
    host.cpu.caches = caches(&[32 << 10, 1 << 20, 32 << 20]);
    host
}
