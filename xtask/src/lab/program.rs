//! Running the program under whatever is imposed, with the machine's counters around it.

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use fathom_measure::affinity;
use fathom_measure::clock::monotonic_raw_ns;
use fathom_record::{Document, Record};
use rustix::process::{Pid, Signal, kill_process_group};

use super::outside::Outside;
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
    /// What the machine counted meanwhile.
    pub(super) outside: Outside,
}

impl Seen {
    /// The records of a metric.
    pub(super) fn of_metric(&self, metric: &str) -> impl Iterator<Item = &Record> {
        self.document.records.iter().filter(move |record| record.metric.as_str() == metric)
    }
}

/// A child that does not outlive the laboratory, nor do those that it started itself.
pub(super) struct Ended(Child);

impl Ended {
    /// Starts it in a process group of its own: a tracer that is killed lets go of what it traces.
    pub(super) fn start(command: &mut Command) -> std::io::Result<Self> {
        command.process_group(0).spawn().map(Self)
    }

    /// Its number.
    pub(super) fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        // What was reaped has no process group of which this would be the number.
        if !matches!(self.0.try_wait(), Ok(Some(_)))
            && let Some(group) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw)
        {
            let _ = kill_process_group(group, Signal::KILL);
        }
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
    /// For a program; from now on Ctrl-C ends a run and is noticed here.
    pub(super) fn with(program: &str) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&stop))?;
        }
        let cpu = affinity::allowed().into_iter().next_back().context("no CPU to measure on")?;
        let folder = tempfile::tempdir().context("make a folder")?;
        Ok(Self { program: program.to_owned(), cpu, folder, stop })
    }

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
        let own = [&program, "run", "--quick", "--json", "--samples", metric, "--cpu", &cpu];
        let kept = ["--store", &store];
        let before = launch.before.iter().map(String::as_str);
        let words: Vec<&str> = before.chain(own).chain(kept).collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).stdin(Stdio::null());
        command.env(super::state::MARK, std::process::id().to_string());
        command.envs(launch.environment.iter().map(|(name, value)| (name, value)));
        command.stdout(File::create(&written)?).stderr(File::create(&said)?);
        let (before, begun_ns) = (Outside::of(self.cpu), monotonic_raw_ns());
        let started = Ended::start(&mut command);
        let mut child = started.with_context(|| format!("start {}", words[0]))?;
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
        let outside = Outside::of(self.cpu).since(&before);
        if !status.success() {
            bail!("run {metric}: {status}: {}", std::fs::read_to_string(&said)?.trim());
        }
        let document = serde_json::from_str(&std::fs::read_to_string(&written)?)?;
        Ok(Seen { document, elapsed_ns, outside })
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
