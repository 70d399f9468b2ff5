//! Running the program under a sabotage, with the machine's counters.

use std::fs::File;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use fathom_analysis::core_state::TOLERANCE;
use fathom_analysis::statistics::quantile;
use fathom_measure::affinity;
use fathom_measure::clock::monotonic_raw_ns;
use fathom_measure::process::Running;
use fathom_record::{Cause, Document, Record};

use super::counters::MachineCounters;
use super::guard::{Guard, MARK};

const RUN_NS_MAX: u64 = 300_000_000_000;

#[derive(Default)]
pub(super) struct Launch {
    /// The command line before the program's.
    pub(super) before: Vec<String>,
    pub(super) environment: Vec<(String, String)>,
}

/// A run, and the machine's counters over it.
pub(super) struct RunResult {
    pub(super) document: Document,
    pub(super) elapsed_ns: u64,
    pub(super) counters: MachineCounters,
    /// The kernel's own count of the sabotage.
    pub(super) counted: Option<f64>,
}

pub(super) struct ProgramBench {
    pub(super) program: String,
    /// The measured CPU.
    pub(super) cpu: u32,
    /// A folder for stores and documents.
    pub(super) folder: tempfile::TempDir,
    /// Set by Ctrl-C.
    pub(super) stop: Arc<AtomicBool>,
}

impl ProgramBench {
    /// Installs signal handlers: Ctrl-C ends a run.
    pub(super) fn with(program: &str) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&stop))?;
        }
        let cpu = measured_cpu().context("no CPU to measure on")?;
        let folder = tempfile::tempdir().context("create a folder")?;
        Ok(Self { program: program.to_owned(), cpu, folder, stop })
    }

    /// Runs these metrics while a sabotage is active.
    pub(super) fn run(
        &self,
        metrics: &str,
        launch: &Launch,
        guard: &mut dyn Guard,
    ) -> Result<RunResult> {
        let written = self.folder.path().join("run.json");
        let errors = self.folder.path().join("run.err");
        let store = self.folder.path().join("fathom.db").display().to_string();
        let (cpu, program) = (self.cpu.to_string(), self.program.clone());
        let own = [&program, "run", "--quick", "--json", "--samples", "--cpu", &cpu];
        let kept = ["--store", &store];
        let prefix = launch.before.iter().map(String::as_str);
        let words: Vec<&str> = prefix.chain(own).chain(kept).chain(metrics.split(' ')).collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).stdin(Stdio::null());
        command.env(MARK, std::process::id().to_string());
        command.envs(launch.environment.iter().map(|(name, value)| (name, value)));
        command.stdout(File::create(&written)?).stderr(File::create(&errors)?);
        let (before, begun_ns) = (MachineCounters::for_cpu(self.cpu), monotonic_raw_ns());
        // In its own process group: strace killed alone would detach from its tracee.
        let started = Running::start(&mut command);
        let mut child = started.with_context(|| format!("start {}", words[0]))?;
        let status = loop {
            let elapsed_ns = monotonic_raw_ns() - begun_ns;
            if let Some(status) = child.try_wait()? {
                break status;
            }
            ensure!(!self.stop.load(Ordering::Relaxed), "stopped");
            ensure!(elapsed_ns < RUN_NS_MAX, "run {metrics}: timed out after 300 s");
            guard.tick(child.id(), elapsed_ns)?;
            std::thread::sleep(Duration::from_millis(2));
        };
        let elapsed_ns = monotonic_raw_ns() - begun_ns;
        let counters = MachineCounters::for_cpu(self.cpu).since(&before);
        if !status.success() {
            bail!("run {metrics}: {status}: {}", std::fs::read_to_string(&errors)?.trim());
        }
        let document = serde_json::from_str(&std::fs::read_to_string(&written)?)?;
        Ok(RunResult { document, elapsed_ns, counters, counted: guard.counted() })
    }

    /// Waits until the measured CPU is idle, at most 2 s.
    pub(super) fn settle(&self) {
        for _ in 0..4 {
            let before = MachineCounters::for_cpu(self.cpu);
            std::thread::sleep(Duration::from_millis(500));
            let busy_ticks = MachineCounters::for_cpu(self.cpu).since(&before).busy_ticks;
            if busy_ticks < 3.0 || self.stop.load(Ordering::Relaxed) {
                return;
            }
        }
    }
}

impl RunResult {
    /// The records of these metrics, separated by spaces.
    pub(super) fn of_metric(&self, metrics: &str) -> impl Iterator<Item = &Record> {
        let is_one = move |id: &str| metrics.split(' ').any(|metric| metric == id);
        self.document.records.iter().filter(move |record| is_one(record.metric.as_str()))
    }

    /// The share of the run in which other programs used the measured CPU.
    pub(super) fn others(&self) -> f64 {
        1e7 * (self.counters.busy_ticks - self.counters.program_ticks) / self.elapsed_ns as f64
    }

    /// Whether the machine's counters confirm a cause that a record names; `None` if the cause is a
    /// shape of the values, for which there is no counter.
    pub(super) fn confirms(&self, cause: Cause, record: &Record) -> Option<bool> {
        let (inside, machine) = (&record.disturbance, &self.counters);
        let counted = |own: u64, all: f64| own > 0 && own as f64 <= all;
        match cause {
            Cause::Contention => Some(
                self.others() > 0.05 || counted(inside.involuntary_switches, machine.preempted),
            ),
            Cause::NotRunning => Some(self.others() > 0.05),
            Cause::MajorFaults => Some(counted(inside.major_faults, machine.major_faults)),
            Cause::Steal => Some(machine.stolen_ticks >= 3.0),
            Cause::Interrupts => Some(machine.interrupt_ticks >= 3.0),
            Cause::SlowCore => Some(self.was_slow(record)),
            _ if is_shape(cause) => None,
            // A quota, a wrong count, a missing limit: never without a sabotage.
            _ => Some(false),
        }
    }

    /// Whether a quarter of some process's reference loops were slower than at full speed, from the
    /// raw samples: the core's speed has no other counter.
    fn was_slow(&self, record: &Record) -> bool {
        let Some(reference) = self.document.run.reference else { return false };
        let limit_ns = (1.0 + TOLERANCE) * reference.loop_ns;
        let quarter_is_slow = |loops: &[f64]| {
            let mut loops = loops.to_vec();
            loops.sort_by(f64::total_cmp);
            quantile(&loops, 0.75).is_some_and(|ns| ns > limit_ns)
        };
        record.samples.iter().flatten().any(|sample| quarter_is_slow(&sample.reference_ns))
    }
}

/// Whether a cause is only a shape of the values, for which there is no counter.
pub(super) fn is_shape(cause: Cause) -> bool {
    matches!(cause, Cause::Spread | Cause::Drift | Cause::TwoClusters | Cause::SeveralModes)
}

pub(super) fn measured_cpu() -> Option<u32> {
    affinity::allowed().into_iter().next_back()
}
