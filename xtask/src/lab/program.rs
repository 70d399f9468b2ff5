//! Running the program under whatever is imposed, with the machine's counters around it.

use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use fathom_measure::clock::monotonic_raw_ns;
use fathom_record::{Cause, Document, Record};

use super::sabotage::Imposed;

/// How often what is imposed may act.
const TICK: Duration = Duration::from_millis(2);
/// No run of one metric takes this long.
const BOUND_NS: u64 = 300_000_000_000;

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
    /// Ticks of 10 ms of the measured CPU, busy, stolen and in interrupts, and of the program.
    pub(super) ticks: [f64; 4],
}

impl Seen {
    /// The records of a metric.
    pub(super) fn of_metric(&self, metric: &str) -> impl Iterator<Item = &Record> {
        self.document.records.iter().filter(move |record| record.metric.as_str() == metric)
    }

    /// The share of the run in which others than the workers held the measured CPU.
    pub(super) fn others(&self) -> f64 {
        1e7 * (self.ticks[0] - self.ticks[3]) / self.elapsed_ns as f64
    }

    /// Whether the counter of a cause moved, by the machine's own account; none where nothing
    /// beside the program counts it.
    pub(super) fn moved(&self, cause: Cause) -> Option<bool> {
        match cause {
            Cause::Contention | Cause::NotRunning => Some(self.others() > 0.05),
            Cause::Steal => Some(self.ticks[1] >= 3.0),
            Cause::Interrupts => Some(self.ticks[2] >= 3.0),
            Cause::Throttled => Some(false),
            _ => None,
        }
    }
}

/// A child that does not outlive the laboratory.
pub(super) struct Ended(pub(super) Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
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
    /// Runs one metric while something is imposed.
    pub(super) fn run(
        &self,
        metric: &str,
        launch: &Launch,
        imposed: &mut dyn Imposed,
    ) -> Result<Seen> {
        let written = self.folder.path().join("run.json");
        let said = self.folder.path().join("run.err");
        let store = self.folder.path().join("fathom.db").display().to_string();
        let (cpu, program) = (self.cpu.to_string(), self.program.clone());
        let own = [&program, "run", "--quick", "--json", metric, "--cpu", &cpu, "--store", &store];
        let words: Vec<&str> = launch.before.iter().map(String::as_str).chain(own).collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).stdin(Stdio::null());
        command.envs(launch.environment.iter().map(|(name, value)| (name, value)));
        command.stdout(File::create(&written)?).stderr(File::create(&said)?);
        let (before, begun_ns) = (ticks(self.cpu), monotonic_raw_ns());
        let mut child = Ended(command.spawn().with_context(|| format!("start {}", words[0]))?);
        let status = loop {
            if let Some(status) = child.0.try_wait()? {
                break status;
            }
            let elapsed_ns = monotonic_raw_ns() - begun_ns;
            if self.stop.load(Ordering::Relaxed) {
                bail!("stopped");
            }
            if elapsed_ns > BOUND_NS {
                bail!("run {metric}: did not end within 300 s");
            }
            imposed.tick(child.0.id(), elapsed_ns)?;
            std::thread::sleep(TICK);
        };
        let elapsed_ns = monotonic_raw_ns() - begun_ns;
        let after = ticks(self.cpu);
        if !status.success() {
            bail!("run {metric}: {status}: {}", std::fs::read_to_string(&said)?.trim());
        }
        let document = serde_json::from_str(&std::fs::read_to_string(&written)?)?;
        let ticks = [0, 1, 2, 3].map(|at| after[at] - before[at]);
        Ok(Seen { document, elapsed_ns, ticks })
    }

    /// Waits until others leave the measured CPU alone, 2 s at most.
    pub(super) fn settle(&self) {
        for _ in 0..4 {
            let before = ticks(self.cpu)[0];
            std::thread::sleep(Duration::from_millis(500));
            if ticks(self.cpu)[0] - before < 3.0 || self.stop.load(Ordering::Relaxed) {
                return;
            }
        }
    }
}

/// Ticks of 10 ms, proc_stat(5): a CPU's busy, stolen and interrupted ones, and those of the
/// children that were reaped, which is the program with its workers.
fn ticks(cpu: u32) -> [f64; 4] {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let name = format!("cpu{cpu} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&name)).unwrap_or_default();
    let fields: Vec<f64> =
        line.split_whitespace().map(|field| field.parse().unwrap_or(0.0)).collect();
    let sum = |indices: &[usize]| indices.iter().filter_map(|at| fields.get(*at)).sum();
    let own = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Behind the name, which may hold blanks: the 14th and 15th of what follows it.
    let own = own.rsplit_once(')').map_or("", |(_, rest)| rest);
    let of_children =
        own.split_whitespace().skip(13).take(2).filter_map(|field| field.parse::<f64>().ok()).sum();
    [sum(&[0, 1, 2, 5, 6]), sum(&[7]), sum(&[5, 6]), of_children]
}
