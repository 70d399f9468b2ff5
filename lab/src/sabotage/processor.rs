//! Sabotages of the CPU: a quota, neighbours on this CPU or another, a stopped worker.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use fathom_lab::group::{self, LabGroup};
use fathom_lab::seeded::Seeded;
use fathom_lab::{Unmet, processes};
use fathom_measure::affinity;
use fathom_measure::clock::monotonic_raw_ns;
use fathom_measure::process::Running;
use fathom_record::{Cause, Record};
use rustix::process::{Pid, Signal, kill_process};

use super::full_speed::FullSpeed;
use super::guard::{GROUP, Guard, MARK};
use super::program::{Launch, RunResult};
use super::scenario::{Sabotage, in_group, tool};

/// The kernel's minimum quota. It gives the shortest periods, so that a visit has many: its first
/// and last are incomplete.
const QUOTA_US: u64 = 1_000;
/// Tolerance between the recorded and the imposed share of throttled time.
const SHARE_MAX: f64 = 0.02;
/// Time between two stops of a worker.
const RUNNING_NS: u64 = 30_000_000;

pub(super) const QUOTA: Sabotage = Sabotage {
    name: "CPU quota",
    causes: &[Cause::Throttled],
    needs: || group::path("cpu", GROUP).map(drop),
    dose: |draw| 0.15 + 0.75 * draw,
    dose_text: |dose| format!("{:.0} % of a CPU", 100.0 * dose),
    start: |dose, _, launch| {
        let period = (QUOTA_US as f64 / dose) as u64;
        let limits = [("cpu.cfs_period_us", period), ("cpu.cfs_quota_us", QUOTA_US)];
        Ok(Box::new(QuotaGroup(in_group(launch, "cpu", &limits)?)))
    },
    truth: quota_truth,
    ..Sabotage::BASE
};

struct QuotaGroup(LabGroup);

impl Guard for QuotaGroup {
    fn counted(&self) -> Option<f64> {
        self.0.figure("cpu.stat", "throttled_time")
    }
}

fn quota_truth(_: &Sabotage, run: &RunResult, _: &FullSpeed, dose: f64) -> (String, bool) {
    // Cases share their visits, so that the one with the longest time has all of them.
    let visits = |record: &Record| {
        let disturbance = &record.disturbance;
        (disturbance.wall_ns, disturbance.throttled_ns.unwrap_or(0))
    };
    let (wall, throttled) = run.document.records.iter().map(visits).max().unwrap_or((1, 0));
    let recorded = throttled as f64 / wall.max(1) as f64;
    // A process that never sleeps runs for the quota's share and is throttled for the rest. The
    // cgroup's own count also includes throttling between visits.
    let imposed = 1.0 - dose;
    let counted = run.counted.unwrap_or(f64::NAN);
    let text =
        format!("quota {:.1} %, recorded {:.1} % throttled", 100.0 * imposed, 100.0 * recorded);
    (text, (imposed - recorded).abs() <= SHARE_MAX && throttled as f64 <= counted)
}

impl Guard for Running {}

const NEIGHBOUR_BASE: Sabotage = Sabotage {
    causes: &[Cause::Contention],
    truth: |_, run, _, _| {
        let others = run.others();
        (format!("others used the CPU for {:.0} %", 100.0 * others), others > 0.05)
    },
    ..Sabotage::BASE
};

/// A CPU-bound process on the measured CPU.
pub(super) const SPINNING_NEIGHBOUR: Sabotage = Sabotage {
    name: "spinning neighbour",
    dose: |draw| (11.0 * draw).floor(),
    dose_text: |dose| format!("nice {dose}"),
    start: |dose, cpu, _| Ok(Box::new(start_neighbour(cpu, dose, 1.0, false)?)),
    ..NEIGHBOUR_BASE
};

/// A process on the measured CPU that is busy for a share of every 20 ms.
pub(super) const NEIGHBOUR_IN_TURNS: Sabotage = Sabotage {
    name: "neighbour in turns",
    dose: |draw| 0.3 + 0.6 * draw,
    dose_text: |dose| format!("{:.0} % busy", 100.0 * dose),
    start: |dose, cpu, _| Ok(Box::new(start_neighbour(cpu, 0.0, dose, false)?)),
    ..NEIGHBOUR_BASE
};

/// The first argument of the neighbour process.
pub(crate) const NEIGHBOUR: &str = "neighbour";

/// Starts a neighbour process on a CPU.
pub(super) fn start_neighbour(cpu: u32, nice: f64, share: f64, in_spells: bool) -> Result<Running> {
    let words = [cpu.to_string(), nice.to_string(), share.to_string(), in_spells.to_string()];
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(NEIGHBOUR).args(words).env(MARK, std::process::id().to_string());
    Running::start(&mut command).context("start a neighbour")
}

/// The neighbour process: busy for a share of every 20 ms, or in spells, for that share of randomly
/// chosen seconds. It runs until it is killed.
pub(crate) fn neighbour(cpu: u32, nice: i32, share: f64, in_spells: bool) -> Result<bool> {
    let turn_ns: u64 = if in_spells { 1_000_000_000 } else { 20_000_000 };
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    fathom_measure::affinity::pin(cpu)?;
    rustix::process::setpriority_process(None, nice)?;
    let mut random = Seeded(monotonic_raw_ns());
    loop {
        let busy_ns = match in_spells {
            true if random.share() < share => turn_ns,
            true => 0,
            false => (share * turn_ns as f64) as u64,
        };
        let start = monotonic_raw_ns();
        while monotonic_raw_ns() - start < busy_ns {
            // No pause instruction, which would yield the core to its SMT sibling.
            (0..10_000_u64).for_each(|at| _ = std::hint::black_box(at));
        }
        if busy_ns < turn_ns {
            std::thread::sleep(std::time::Duration::from_nanos(turn_ns - busy_ns));
        }
    }
}

/// Stops and continues the worker repeatedly.
pub(super) const STOPPED: Sabotage = Sabotage {
    name: "stopped worker",
    causes: &[Cause::NotRunning],
    dose: |draw| 50.0 + 350.0 * draw,
    dose_text: |dose| format!("{dose:.0} ms, repeatedly"),
    start: |dose, _, _| {
        let for_ns = (dose * 1e6) as u64;
        Ok(Box::new(Stops { for_ns, worker: None, stopped: false, total_ns: 0 }))
    },
    truth: |_, run, _, _| {
        let stopped = run.counted.unwrap_or(0.0);
        (format!("stopped for {stopped:.1} s"), stopped > 0.0)
    },
    ..Sabotage::BASE
};

struct Stops {
    for_ns: u64,
    worker: Option<(Pid, u64)>,
    stopped: bool,
    total_ns: u64,
}

impl Guard for Stops {
    fn tick(&mut self, program: u32, elapsed_ns: u64) -> Result<()> {
        if let Some((pid, since)) = self.worker.filter(|_| self.stopped) {
            if elapsed_ns - since >= self.for_ns {
                let _ = kill_process(pid, Signal::CONT);
                self.total_ns += elapsed_ns - since;
                (self.stopped, self.worker) = (false, Some((pid, elapsed_ns)));
            }
            return Ok(());
        }
        let current = worker_of(program);
        match (self.worker, current) {
            (Some((pid, since)), Some(now)) if pid == now => {
                if elapsed_ns - since >= RUNNING_NS && kill_process(pid, Signal::STOP).is_ok() {
                    (self.stopped, self.worker) = (true, Some((pid, elapsed_ns)));
                }
            }
            _ => self.worker = current.map(|pid| (pid, elapsed_ns)),
        }
        Ok(())
    }

    fn counted(&self) -> Option<f64> {
        Some(self.total_ns as f64 / 1e9)
    }
}

impl Drop for Stops {
    fn drop(&mut self) {
        if let Some((pid, _)) = self.worker.filter(|_| self.stopped) {
            let _ = kill_process(pid, Signal::CONT);
        }
    }
}

/// The program's worker, a child of any of its threads.
pub(super) fn worker_of(program: u32) -> Option<Pid> {
    let is_worker = |pid: &u32| {
        std::fs::read(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| line.split(|byte| *byte == 0).any(|word| word == b"worker"))
    };
    let pid = processes::children(program).into_iter().find(is_worker)?;
    Pid::from_raw(pid as i32)
}

/// A process on another CPU that streams through memory.
pub(super) const STREAMING: Sabotage = Sabotage {
    name: "streaming neighbour",
    metric: "memory.bandwidth",
    causes: &[Cause::Contention, Cause::NotRunning],
    needs: || {
        tool("taskset")?;
        match affinity::allowed().len() {
            0 | 1 => Err(Unmet("needs a second CPU".to_owned())),
            _ => Ok(()),
        }
    },
    dose: |draw| (16.0 + 48.0 * draw).floor(),
    dose_text: |dose| format!("blocks of {dose} MiB"),
    start: start_streaming,
    truth: |_, run, _, _| {
        let streamed = run.counted.unwrap_or(0.0);
        let elapsed = run.elapsed_ns as f64 / 1e9;
        (format!("streamed for {streamed:.1} of {elapsed:.1} s"), streamed > 0.2 * elapsed)
    },
    ..Sabotage::BASE
};

struct Streaming(Running);

impl Guard for Streaming {
    /// CPU time in seconds.
    fn counted(&self) -> Option<f64> {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id())).ok()?;
        let (_, rest) = text.rsplit_once(')')?;
        let ticks = rest.split_whitespace().skip(11).take(2).map(str::parse::<f64>);
        Some(ticks.filter_map(Result::ok).sum::<f64>() / 100.0)
    }
}

fn start_streaming(dose: f64, cpu: u32, _: &mut Launch) -> Result<Box<dyn Guard>> {
    let mut others = affinity::allowed().into_iter();
    let other = others.find(|other| *other != cpu).context("no second CPU")?;
    // The kernel clears each block, which is larger than the caches of a core.
    let block = format!("bs={dose}M");
    let mut command = Command::new("taskset");
    command.args(["-c", &other.to_string(), "dd", "if=/dev/zero", "of=/dev/null", &block]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(Box::new(Streaming(Running::start(&mut command).context("start a stream")?)))
}
