//! Running the program under whatever is imposed, with the machine's counters around it.

use std::fs::File;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use fathom_analysis::clean::TOLERANCE;
use fathom_analysis::statistics::quantile;
use fathom_measure::affinity;
use fathom_measure::clock::monotonic_raw_ns;
use fathom_measure::process::Running;
use fathom_record::{Cause, Document, Record};

use super::imposed::{Imposed, MARK};
use super::outside::Outside;

/// No run of one metric takes this long.
const RUN_NS_MAX: u64 = 300_000_000_000;

/// How the program is started.
#[derive(Default)]
pub(super) struct Launch {
    /// Words before the program.
    pub(super) before: Vec<String>,
    /// The environment.
    pub(super) environment: Vec<(String, String)>,
}

/// A run and what the machine's counters say of it.
pub(super) struct Seen {
    /// Its document.
    pub(super) document: Document,
    /// How long it took by the laboratory's clock.
    pub(super) elapsed_ns: u64,
    /// What the machine counted meanwhile.
    pub(super) outside: Outside,
    /// What the kernel counted of what was imposed.
    pub(super) counted: Option<f64>,
}

impl Seen {
    /// The records of some metrics, with spaces between their names.
    pub(super) fn of_metric(&self, metrics: &str) -> impl Iterator<Item = &Record> {
        let is_one = move |id: &str| metrics.split(' ').any(|metric| metric == id);
        self.document.records.iter().filter(move |record| is_one(record.metric.as_str()))
    }
}

/// Where and by what is measured.
pub(super) struct Bench {
    /// The program.
    pub(super) program: String,
    /// The measured CPU.
    pub(super) cpu: u32,
    /// A folder for stores and documents.
    pub(super) folder: tempfile::TempDir,
    /// Set by Ctrl-C.
    pub(super) stop: Arc<AtomicBool>,
}

impl Bench {
    /// For a program; from now on Ctrl-C ends a run and is noticed here.
    pub(super) fn with(program: &str) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&stop))?;
        }
        let cpu = measured_cpu().context("no CPU to measure on")?;
        let folder = tempfile::tempdir().context("make a folder")?;
        Ok(Self { program: program.to_owned(), cpu, folder, stop })
    }

    /// Runs some metrics while something is imposed.
    pub(super) fn run(
        &self,
        metrics: &str,
        launch: &Launch,
        imposed: &mut dyn Imposed,
    ) -> Result<Seen> {
        let written = self.folder.path().join("run.json");
        let errors = self.folder.path().join("run.err");
        let store = self.folder.path().join("fathom.db").display().to_string();
        let (cpu, program) = (self.cpu.to_string(), self.program.clone());
        let own = [&program, "run", "--quick", "--json", "--samples", "--cpu", &cpu];
        let kept = ["--store", &store];
        let before = launch.before.iter().map(String::as_str);
        let words: Vec<&str> = before.chain(own).chain(kept).chain(metrics.split(' ')).collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).stdin(Stdio::null());
        command.env(MARK, std::process::id().to_string());
        command.envs(launch.environment.iter().map(|(name, value)| (name, value)));
        command.stdout(File::create(&written)?).stderr(File::create(&errors)?);
        let (before, begun_ns) = (Outside::of(self.cpu), monotonic_raw_ns());
        // A group of its own: a tracer that is killed alone would detach from what it traces.
        let started = Running::start(&mut command);
        let mut child = started.with_context(|| format!("start {}", words[0]))?;
        let status = loop {
            let elapsed_ns = monotonic_raw_ns() - begun_ns;
            if let Some(status) = child.try_wait()? {
                break status;
            }
            ensure!(!self.stop.load(Ordering::Relaxed), "stopped");
            ensure!(elapsed_ns < RUN_NS_MAX, "run {metrics}: did not end within 300 s");
            imposed.tick(child.id(), elapsed_ns)?;
            std::thread::sleep(Duration::from_millis(2));
        };
        let elapsed_ns = monotonic_raw_ns() - begun_ns;
        let outside = Outside::of(self.cpu).since(&before);
        if !status.success() {
            bail!("run {metrics}: {status}: {}", std::fs::read_to_string(&errors)?.trim());
        }
        let document = serde_json::from_str(&std::fs::read_to_string(&written)?)?;
        Ok(Seen { document, elapsed_ns, outside, counted: imposed.counted() })
    }

    /// Waits until others leave the measured CPU alone, 2 s at most.
    pub(super) fn settle(&self) {
        for _ in 0..4 {
            let before = Outside::of(self.cpu);
            std::thread::sleep(Duration::from_millis(500));
            let busy_ticks = Outside::of(self.cpu).since(&before).busy_ticks;
            if busy_ticks < 3.0 || self.stop.load(Ordering::Relaxed) {
                return;
            }
        }
    }
}

impl Seen {
    /// The share of the run in which others than the workers held the measured CPU.
    pub(super) fn others(&self) -> f64 {
        1e7 * (self.outside.busy_ticks - self.outside.program_ticks) / self.elapsed_ns as f64
    }

    /// Whether the counter of a cause that a record names has moved, by the machine's own account;
    /// none where the cause is a shape of the values, which nothing counts.
    pub(super) fn moved(&self, cause: Cause, record: &Record) -> Option<bool> {
        let (inside, outside) = (&record.disturbance, &self.outside);
        let counted = |inside: u64, outside: f64| inside > 0 && inside as f64 <= outside;
        match cause {
            Cause::Contention => Some(
                self.others() > 0.05 || counted(inside.involuntary_switches, outside.preempted),
            ),
            Cause::NotRunning => Some(self.others() > 0.05),
            Cause::MajorFaults => Some(counted(inside.major_faults, outside.major_faults)),
            Cause::Steal => Some(outside.stolen_ticks >= 3.0),
            Cause::Interrupts => Some(outside.interrupt_ticks >= 3.0),
            Cause::SlowCore => Some(self.was_slow(record)),
            _ if is_shape(cause) => None,
            // A quota, a wrong count, a missing limit: nothing of it is imposed by itself.
            _ => Some(false),
        }
    }

    /// Whether a quarter of the reference loops of some process were slower than at full speed: the
    /// only counter of a core's speed, read again from the raw samples.
    fn was_slow(&self, record: &Record) -> bool {
        let Some(reference) = self.document.run.reference else { return false };
        let slow_quarter = |loops: &[f64]| {
            let mut loops = loops.to_vec();
            loops.sort_by(f64::total_cmp);
            quantile(&loops, 0.75)
        };
        let loops = record.samples.iter().flatten();
        let loops = loops.filter_map(|it| slow_quarter(&it.reference_ns));
        loops.into_iter().any(|ns| ns > (1.0 + TOLERANCE) * reference.loop_ns)
    }
}

/// Whether a cause is but a shape of the values, which nothing counts.
pub(super) fn is_shape(cause: Cause) -> bool {
    matches!(cause, Cause::Spread | Cause::Drift | Cause::TwoClusters | Cause::SeveralModes)
}

/// The CPU that the laboratory measures.
pub(super) fn measured_cpu() -> Option<u32> {
    affinity::allowed().into_iter().next_back()
}
