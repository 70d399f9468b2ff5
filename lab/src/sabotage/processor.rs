//! Sabotages that take the processor away: a quota, neighbours on this CPU or another, a stopped
//! worker.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use fathom_lab::group::{self, Group};
use fathom_lab::seeded::Seeded;
use fathom_lab::{Unmet, processes};
use fathom_measure::affinity;
use fathom_measure::clock::monotonic_raw_ns;
use fathom_measure::process::Running;
use fathom_record::{Cause, Record};
use rustix::process::{Pid, Signal, kill_process};

use super::full_speed::FullSpeed;
use super::imposed::{GROUP, Imposed, MARK};
use super::program::{Launch, Seen};
use super::scenario::{Sabotage, around, tool};

/// The least quota that the kernel takes. Its period is then as short as can be, so that a visit
/// holds many: the first and the last are cut.
const QUOTA_US: u64 = 1_000;
/// The share recorded and the one that the quota takes differ by at most two points.
const SHARE_MAX: f64 = 0.02;
/// Between two stops of a worker.
const RUNNING_NS: u64 = 30_000_000;

/// A quota of CPU time.
pub(super) struct Quota;

struct InGroup(Group);

impl Imposed for InGroup {
    fn counted(&self) -> Option<f64> {
        self.0.figure("cpu.stat", "throttled_time")
    }
}

impl Sabotage for Quota {
    fn name(&self) -> &'static str {
        "CPU quota"
    }
    fn needs(&self) -> Result<(), Unmet> {
        group::path("cpu", GROUP).map(drop)
    }
    fn dose(&self, draw: f64) -> f64 {
        0.15 + 0.75 * draw
    }
    fn in_words(&self, dose: f64) -> String {
        format!("{:.0} % of a CPU", 100.0 * dose)
    }
    fn metric(&self) -> &'static str {
        "cpu.call"
    }
    fn impose(&self, dose: f64, _: u32, launch: &mut Launch) -> Result<Box<dyn Imposed>> {
        let period = (QUOTA_US as f64 / dose) as u64;
        let limits = [("cpu.cfs_period_us", period), ("cpu.cfs_quota_us", QUOTA_US)];
        Ok(Box::new(InGroup(around(launch, "cpu", &limits)?)))
    }
    fn causes(&self) -> &'static [Cause] {
        &[Cause::Throttled]
    }
    fn truth(&self, seen: &Seen, _: &FullSpeed, dose: f64) -> (String, bool) {
        // Cases share their visits: that with the most of them stands for all.
        let visits = |record: &Record| {
            let disturbance = &record.disturbance;
            (disturbance.wall_ns, disturbance.throttled_ns.unwrap_or(0))
        };
        let (wall, throttled) = seen.document.records.iter().map(visits).max().unwrap_or((1, 0));
        let recorded = throttled as f64 / wall.max(1) as f64;
        // Who never sleeps runs for the quota's share and is stopped for the rest; the group's own
        // count is longer by what it stopped outside of visits.
        let owed = 1.0 - dose;
        let counted = seen.counted.unwrap_or(f64::NAN);
        let text =
            format!("quota {:.1} %, recorded {:.1} % throttled", 100.0 * owed, 100.0 * recorded);
        (text, (owed - recorded).abs() <= SHARE_MAX && throttled as f64 <= counted)
    }
}

/// A spinning neighbour on the measured CPU: all the time at some niceness, or in turns.
pub(super) struct Neighbour {
    /// Whether it sleeps in between.
    pub(super) in_turns: bool,
}

impl Imposed for Running {}

impl Sabotage for Neighbour {
    fn name(&self) -> &'static str {
        if self.in_turns { "neighbour in turns" } else { "spinning neighbour" }
    }
    fn needs(&self) -> Result<(), Unmet> {
        Ok(())
    }
    fn dose(&self, draw: f64) -> f64 {
        if self.in_turns { 0.3 + 0.6 * draw } else { (11.0 * draw).floor() }
    }
    fn in_words(&self, dose: f64) -> String {
        if self.in_turns { format!("{:.0} % busy", 100.0 * dose) } else { format!("nice {dose}") }
    }
    fn metric(&self) -> &'static str {
        "cpu.call"
    }
    fn impose(&self, dose: f64, cpu: u32, _: &mut Launch) -> Result<Box<dyn Imposed>> {
        let (nice, share) = if self.in_turns { (0.0, dose) } else { (dose, 1.0) };
        Ok(Box::new(start_neighbour(cpu, nice, share, false)?))
    }
    fn causes(&self) -> &'static [Cause] {
        &[Cause::Contention]
    }
    fn truth(&self, seen: &Seen, _: &FullSpeed, _: f64) -> (String, bool) {
        let others = seen.others();
        (format!("others held CPU for {:.0} %", 100.0 * others), others > 0.05)
    }
}

/// The first word of the neighbour's command line.
pub(crate) const NEIGHBOUR: &str = "neighbour";

/// Starts a neighbour on a CPU.
pub(super) fn start_neighbour(cpu: u32, nice: f64, share: f64, in_spells: bool) -> Result<Running> {
    let words = [cpu.to_string(), nice.to_string(), share.to_string(), in_spells.to_string()];
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(NEIGHBOUR).args(words).env(MARK, std::process::id().to_string());
    Running::start(&mut command).context("start a neighbour")
}

/// The neighbour's own program: busy for a share of every 20 ms, or in spells for that share of
/// seconds, drawn by chance, until it is killed.
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
        let begun = monotonic_raw_ns();
        while monotonic_raw_ns() - begun < busy_ns {
            // Not a pause instruction, which leaves the core to its other thread.
            (0..10_000_u64).for_each(|at| _ = std::hint::black_box(at));
        }
        if busy_ns < turn_ns {
            std::thread::sleep(std::time::Duration::from_nanos(turn_ns - busy_ns));
        }
    }
}

/// A worker that is stopped in the middle of its rounds, and goes on.
pub(super) struct Stopped;

struct Stops {
    for_ns: u64,
    worker: Option<(Pid, u64)>,
    stopped: bool,
    total_ns: u64,
}

impl Imposed for Stops {
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

/// The program's worker, which may be the child of any of its threads.
pub(super) fn worker_of(program: u32) -> Option<Pid> {
    let is_worker = |pid: &u32| {
        std::fs::read(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| line.split(|byte| *byte == 0).any(|word| word == b"worker"))
    };
    let pid = processes::children(program).into_iter().find(is_worker)?;
    Pid::from_raw(pid as i32)
}

impl Sabotage for Stopped {
    fn name(&self) -> &'static str {
        "stopped worker"
    }
    fn needs(&self) -> Result<(), Unmet> {
        Ok(())
    }
    fn dose(&self, draw: f64) -> f64 {
        50.0 + 350.0 * draw
    }
    fn in_words(&self, dose: f64) -> String {
        format!("{dose:.0} ms, again and again")
    }
    fn metric(&self) -> &'static str {
        "cpu.call"
    }
    fn impose(&self, dose: f64, _: u32, _: &mut Launch) -> Result<Box<dyn Imposed>> {
        let for_ns = (dose * 1e6) as u64;
        Ok(Box::new(Stops { for_ns, worker: None, stopped: false, total_ns: 0 }))
    }
    fn causes(&self) -> &'static [Cause] {
        &[Cause::NotRunning]
    }
    fn truth(&self, seen: &Seen, _: &FullSpeed, _: f64) -> (String, bool) {
        let stopped = seen.counted.unwrap_or(0.0);
        (format!("stopped for {stopped:.1} s"), stopped > 0.0)
    }
}

/// Another process that streams through memory on a core that the metric uses too.
pub(super) struct Streaming;

struct Stream(Running);

impl Imposed for Stream {
    /// Seconds of CPU time that it has had.
    fn counted(&self) -> Option<f64> {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id())).ok()?;
        let (_, rest) = text.rsplit_once(')')?;
        let ticks = rest.split_whitespace().skip(11).take(2).map(str::parse::<f64>);
        Some(ticks.filter_map(Result::ok).sum::<f64>() / 100.0)
    }
}

impl Sabotage for Streaming {
    fn name(&self) -> &'static str {
        "streaming neighbour"
    }
    fn needs(&self) -> Result<(), Unmet> {
        tool("taskset")?;
        match affinity::allowed().len() {
            0 | 1 => Err(Unmet("needs a second CPU".to_owned())),
            _ => Ok(()),
        }
    }
    fn dose(&self, draw: f64) -> f64 {
        (16.0 + 48.0 * draw).floor()
    }
    fn in_words(&self, dose: f64) -> String {
        format!("{dose} MiB at a time")
    }
    fn metric(&self) -> &'static str {
        "memory.bandwidth"
    }
    fn impose(&self, dose: f64, cpu: u32, _: &mut Launch) -> Result<Box<dyn Imposed>> {
        let mut others = affinity::allowed().into_iter();
        let other = others.find(|other| *other != cpu).context("no second CPU")?;
        // Each block is cleared by the kernel, and larger than the caches of a core.
        let block = format!("bs={dose}M");
        let mut command = Command::new("taskset");
        command.args(["-c", &other.to_string(), "dd", "if=/dev/zero", "of=/dev/null", &block]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let ended = Running::start(&mut command).context("start a stream")?;
        Ok(Box::new(Stream(ended)))
    }
    fn causes(&self) -> &'static [Cause] {
        &[Cause::Contention, Cause::NotRunning]
    }
    fn truth(&self, seen: &Seen, _: &FullSpeed, _: f64) -> (String, bool) {
        let streamed = seen.counted.unwrap_or(0.0);
        let elapsed = seen.elapsed_ns as f64 / 1e9;
        (format!("streamed for {streamed:.1} of {elapsed:.1} s"), streamed > 0.2 * elapsed)
    }
}
