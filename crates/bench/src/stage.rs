//! The runs: hooks, eviction, reference loops and counters around each.

use std::fs::File;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};

use fathom_analysis::core_state::{CoreStateConditions, CoreStates, Loop};
use fathom_analysis::statistics::median;
use fathom_cost::{Counted, Counts, Split, Splitter, Timed};
use fathom_fileio::residency::{self, ResidencyState};
use fathom_measure::disturbance::VisitCounters;
use fathom_measure::process::exit_text;
use fathom_measure::sampler::{LoopTime, calibration, reference_loop};
use fathom_measure::{Clock, affinity};
use fathom_metric::{Event, Recorder};
use fathom_record::quantity::quantity;
use fathom_record::{Disturbance, Sample, Unit};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::case::{BenchWork, Case};
use crate::check::{open_input, program_path};
use crate::child::{ChildError, ChildProgram, ChildUsage, Launcher, Surroundings};
use crate::expected::{OUTPUT_MAX, difference, drain};
use crate::hooks::{Hook, distinct};
use crate::plan::{BenchPlan, is_wide};
use crate::request::{BenchOutput, BenchSettings};
use crate::terminal::Terminal;
use crate::turns::Turns;

mod certify;
mod counting;

/// A run of which a larger share was lost to others is disturbed.
const LOST_MIN: f64 = 0.05;
/// The pilot of a command ends with either.
const PILOT_RUNS: usize = 3;
const PILOT_NS: f64 = 1e9;
/// What cat(1) copies for the price of the pipe, and how often.
const PRICE_BYTES: u64 = 8 << 20;
const PRICE_RUNS: usize = 5;
/// A command that reads less by both when its output is /dev/null does less work.
const LESS_SHARE: f64 = 0.9;
const LESS_BYTES: u64 = 64 << 10;
/// Between two updates of the progress.
const PROGRESS_NS: f64 = 1e8;

/// Why the runs ended early.
#[derive(Debug)]
pub(crate) enum Cut {
    Stopped,
    Failed(String),
}

/// One timed run of a case.
pub(crate) struct StageRun {
    pub(crate) block: usize,
    pub(crate) usage: ChildUsage,
    pub(crate) loops: [LoopTime; 2],
    pub(crate) disturbance: Disturbance,
    pub(crate) is_disturbed: bool,
    pub(crate) is_cold: bool,
}

pub(crate) struct Stage<'w> {
    work: &'w BenchWork,
    settings: &'w BenchSettings,
    clock: Clock,
    stop: Arc<AtomicBool>,
    launcher: Launcher,
    counters: VisitCounters,
    /// Whether the counters of a CPU are those of the runs.
    is_cpu_known: bool,
    pub(crate) cpu: u32,
    null: File,
    /// The CPUs before this thread was pinned.
    allowed: Vec<u32>,
    loops: Vec<LoopTime>,
    /// By case, in the order measured.
    pub(crate) runs: Vec<Vec<StageRun>>,
    /// Times of the shell with nothing to do.
    pub(crate) shell_ns: Vec<f64>,
    /// Nanoseconds of a byte through the pipe, if it is known.
    pub(crate) pipe_ns: Option<f64>,
    /// By case, what it reads with a pipe, where its output is /dev/null.
    read_with_pipe: Vec<Option<u64>>,
    progress_at: u64,
    /// Of the runs that are counted, instead of timed.
    counting: Option<Counts>,
    /// By case.
    pub(crate) counted: Vec<Option<Counted>>,
    /// Of the runs whose CPU time is divided by samples, instead of timed: how long they take, and
    /// how many were before.
    splitting: Option<(f64, usize)>,
    split: Option<Split>,
    /// By case.
    pub(crate) splits: Vec<Vec<Split>>,
}

impl<'w> Stage<'w> {
    pub(crate) fn new(
        work: &'w BenchWork,
        settings: &'w BenchSettings,
        recorder: &dyn Recorder,
    ) -> Result<Self, std::io::Error> {
        let null = File::options().read(true).write(true).open("/dev/null")?;
        let allowed = affinity::allowed();
        let cpu = settings.cpu.unwrap_or_else(|| recorder.cpu());
        let clock = recorder.clock().clone();
        let loops = calibration(clock.specification(), cpu);
        if settings.cpu.is_some() {
            // The loops must be on the CPU of the runs.
            affinity::pin(cpu)?;
        }
        Ok(Self {
            work,
            settings,
            stop: recorder.stop().flag(),
            launcher: Launcher::new(),
            counters: VisitCounters::open(cpu),
            is_cpu_known: settings.cpu.is_some() || allowed.len() == 1,
            cpu,
            null,
            allowed,
            loops,
            runs: work.cases.iter().map(|_| Vec::new()).collect(),
            shell_ns: Vec::new(),
            pipe_ns: None,
            read_with_pipe: vec![None; work.cases.len()],
            progress_at: clock.start(),
            clock,
            counting: None,
            counted: work.cases.iter().map(|_| None).collect(),
            splitting: None,
            split: None,
            splits: work.cases.iter().map(|_| Vec::new()).collect(),
        })
    }

    /// Everything from `--setup` to the last run.
    pub(crate) fn make(&mut self, recorder: &mut dyn Recorder, seed: u64) -> Result<(), Cut> {
        self.once(Hook::Setup)?;
        self.prove_cold()?;
        let cases = &self.work.cases;
        if self.settings.output == BenchOutput::Pipe {
            self.pipe_ns = self.price_of_pipe();
        }
        for (at, case) in cases.iter().enumerate() {
            if self.is_discarded() {
                // Both read from the same caches.
                self.run(case)?;
                self.hook(case, Hook::Prepare)?;
                let used = self.through_pipe(&case.program, None, |_| true);
                self.read_with_pipe[at] =
                    used.map_err(|error| cut(&case.text, error))?.io.map(|io| io.read);
                self.hook(case, Hook::Conclude)?;
            }
            if let Some(expected) = &case.output {
                self.prove_output(case, expected)?;
            }
            for _ in 0..self.settings.warmup {
                self.run(case)?;
            }
        }
        let (mut pilot, mut block_ns) = (Vec::new(), None);
        if self.settings.runs.is_none() {
            recorder.event(Event::Progress { done: 0, all: 100, what: "pilot" });
            let begun = self.clock.start();
            let mut runs = 0.0;
            for (at, case) in cases.iter().enumerate() {
                let (ns, count) = self.pilot(at, case)?;
                pilot.push(ns);
                runs += count as f64;
            }
            let each_ns = self.clock.ns(begun, self.clock.stop()) / runs;
            block_ns = Some(each_ns * cases.len() as f64);
        }
        self.runs.iter_mut().for_each(Vec::clear);
        let plan = BenchPlan::new(self.settings, &pilot);
        recorder.event(Event::Plan(&plan.words(cases.len(), block_ns)));
        let mut turns = Turns::new(seed, cases.len());
        self.blocks(recorder, &mut turns, 0..plan.runs, plan)?;
        let of_case =
            |runs: &Vec<StageRun>| runs.iter().map(|run| run.usage.wall_ns).collect::<Vec<_>>();
        if plan.most > plan.runs && self.runs.iter().any(|runs| is_wide(&of_case(runs))) {
            self.blocks(recorder, &mut turns, plan.runs..plan.most, plan)?;
        }
        Ok(())
    }

    /// The time of a run, and the number of runs.
    /// Its runs are kept only if it is the end of all.
    fn pilot(&mut self, at: usize, case: &Case) -> Result<(f64, usize), Cut> {
        let mut times: Vec<f64> = Vec::new();
        while times.len() < PILOT_RUNS && times.iter().sum::<f64>() < PILOT_NS {
            let run = self.run(case)?;
            times.push(run.usage.wall_ns);
            self.runs[at].push(StageRun { block: times.len() - 1, ..run });
        }
        Ok((median(&times).unwrap_or_default(), times.len()))
    }

    fn blocks(
        &mut self,
        recorder: &mut dyn Recorder,
        turns: &mut Turns,
        blocks: std::ops::Range<usize>,
        plan: BenchPlan,
    ) -> Result<(), Cut> {
        for block in blocks {
            self.report(recorder, block, plan);
            if let Some(shell) = &self.work.shell {
                let usage = self.launch(shell).map_err(|error| cut("the shell", error))?;
                self.shell_ns.push(usage.wall_ns);
            }
            for at in turns.block() {
                let run = self.run(&self.work.cases[at])?;
                self.runs[at].push(StageRun { block, ..run });
            }
        }
        Ok(())
    }

    fn report(&mut self, recorder: &mut dyn Recorder, block: usize, plan: BenchPlan) {
        let now = self.clock.stop();
        if self.clock.ns(self.progress_at, now) >= PROGRESS_NS {
            let (done, all) = (block as u64, plan.most as u64);
            recorder.event(Event::Progress { done, all, what: "runs" });
            self.progress_at = now;
        }
    }

    /// One run of a case with its hooks. Its block is set by the caller.
    fn run(&mut self, case: &Case) -> Result<StageRun, Cut> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Cut::Stopped);
        }
        self.hook(case, Hook::Prepare)?;
        let is_cold = self.evict()?;
        let before = self.reference_loop();
        self.counters.mark();
        let usage = self.launch(&case.program);
        let machine = self.counters.since_mark();
        let usage = usage.map_err(|error| cut(&case.text, error))?;
        let after = self.reference_loop();
        // Ctrl-C on the terminal went to a run that had no group of its own yet.
        let is_interrupted = usage.status.signal() == Some(libc::SIGINT);
        if is_interrupted && self.stop.load(Ordering::Relaxed) {
            return Err(Cut::Stopped);
        }
        self.check_status(case, usage.status)?;
        self.hook(case, Hook::Conclude)?;
        let disturbance = self.disturbance(&usage, machine);
        let is_lost = lost_ns(&disturbance) > LOST_MIN * usage.wall_ns;
        let is_disturbed = is_lost || usage.was_stopped;
        let loops = [before, after];
        Ok(StageRun { block: 0, usage, loops, disturbance, is_disturbed, is_cold })
    }

    fn check_status(&self, case: &Case, status: ExitStatus) -> Result<(), Cut> {
        if case.succeeded(status) || self.settings.ignore_failure {
            return Ok(());
        }
        let expected: Vec<String> = case.exit.iter().map(i32::to_string).collect();
        Err(Cut::Failed(format!(
            "`{}`: {}, expected {}; --output inherit shows its output, --exit expects another \
             status, --ignore-failure accepts any",
            case.text,
            exit_text(status),
            expected.join(" or "),
        )))
    }

    /// A run with the output that was asked for.
    fn launch(&mut self, program: &ChildProgram) -> Result<ChildUsage, ChildError> {
        let stderr = std::io::stderr();
        match &self.settings.output {
            BenchOutput::Pipe => self.through_pipe(program, None, |_| true),
            BenchOutput::Null => self.launch_into(program, None, None),
            BenchOutput::Inherit => self.launch_into(program, None, Some(stderr.as_fd())),
            BenchOutput::File(path) => {
                let file = File::create(path).map_err(ChildError::Start)?;
                self.launch_into(program, None, Some(file.as_fd()))
            }
        }
    }

    /// A run whose output is a pipe. A thread drains it, on another CPU than the run if there is
    /// one, until `take` wants no more.
    fn through_pipe(
        &mut self,
        program: &ChildProgram,
        input: Option<BorrowedFd<'_>>,
        mut take: impl FnMut(&[u8]) -> bool + Send,
    ) -> Result<ChildUsage, ChildError> {
        let failed = |error: rustix::io::Errno| ChildError::Start(error.into());
        let (out, into) = pipe_with(PipeFlags::CLOEXEC).map_err(failed)?;
        let (has_ended, is_ready) = (AtomicBool::new(false), Barrier::new(2));
        let others = self.allowed.iter().copied().filter(|cpu| Some(*cpu) != self.settings.cpu);
        let others: Vec<u32> = others.collect();
        let mut bytes = 0;
        let count = |part: &[u8]| {
            bytes += part.len() as u64;
            take(part)
        };
        let (used, drained) = std::thread::scope(|scope| {
            let (has_ended, is_ready) = (&has_ended, &is_ready);
            let reader = scope.spawn(move || {
                // If it is refused, the thread shares the CPU of the run.
                let _ = affinity::pin_to(&others);
                is_ready.wait();
                drain(&out, has_ended, count)
            });
            is_ready.wait();
            let used = self.launch_into(program, input, Some(into.as_fd()));
            drop(into);
            has_ended.store(true, Ordering::Release);
            (used, reader.join().expect("it does not panic"))
        });
        let used = used?;
        drained.map_err(failed)?;
        Ok(ChildUsage { piped: Some(bytes), ..used })
    }

    fn launch_into(
        &mut self,
        program: &ChildProgram,
        input: Option<BorrowedFd<'_>>,
        output: Option<BorrowedFd<'_>>,
    ) -> Result<ChildUsage, ChildError> {
        let file = self.settings.input.as_deref().map(open_input).transpose();
        let file = file.map_err(|error| ChildError::Script(error.to_string()))?;
        let stderr = std::io::stderr();
        let is_inherited = self.settings.output == BenchOutput::Inherit;
        let null = self.null.as_fd();
        let around = Surroundings {
            input: input.or(file.as_ref().map(|file| file.as_fd())).unwrap_or(null),
            output: output.unwrap_or(null),
            errors: if is_inherited { stderr.as_fd() } else { null },
            cpu: self.settings.cpu,
            limit_ns: self.limit_ns(),
            terminal: None,
        };
        let Some(counts) = &mut self.counting else {
            let splitter = self.splitting;
            let splitter =
                splitter.and_then(|(ns, turn)| Splitter::open(&self.allowed, ns, turn).ok());
            let usage = self.launcher.run(program, around, &self.clock, &self.stop);
            self.split = splitter.map(|it| it.split());
            return usage;
        };
        let (usage, counted) = self.launcher.run_counted(program, around, &self.stop)?;
        *counts = counted;
        Ok(usage)
    }

    /// Nanoseconds of a byte through the pipe: what cat(1) takes longer than with /dev/null, in
    /// turn. `None` without it.
    fn price_of_pipe(&mut self) -> Option<f64> {
        let cat = ChildProgram::new(&program_path("cat").ok()?, &["cat".to_owned()])?;
        let data = rustix::fs::memfd_create("price", rustix::fs::MemfdFlags::CLOEXEC).ok()?;
        rustix::fs::ftruncate(&data, PRICE_BYTES).ok()?;
        let mut each_ns = Vec::new();
        for _ in 0..PRICE_RUNS {
            let [piped, null] = [true, false].map(|is_piped| {
                rustix::fs::seek(&data, rustix::fs::SeekFrom::Start(0)).ok()?;
                let input = Some(data.as_fd());
                let used = match is_piped {
                    true => self.through_pipe(&cat, input, |_| true).ok()?,
                    false => self.launch_into(&cat, input, None).ok()?,
                };
                (used.piped.unwrap_or(PRICE_BYTES) == PRICE_BYTES).then_some(used.wall_ns)
            });
            each_ns.push((piped? - null?) / PRICE_BYTES as f64);
        }
        median(&each_ns).map(|ns| ns.max(0.0))
    }

    /// Whether the output goes to /dev/null, by whatever name.
    fn is_discarded(&self) -> bool {
        let device = |path: &std::path::Path| std::fs::metadata(path).ok().map(|it| it.rdev());
        let output = match &self.settings.output {
            BenchOutput::Pipe => return false,
            BenchOutput::Null => return true,
            BenchOutput::Inherit => device("/proc/self/fd/2".as_ref()),
            BenchOutput::File(path) => device(path),
        };
        output.is_some() && output == device("/dev/null".as_ref())
    }

    /// That a case reads less because its output is /dev/null, in words.
    pub(crate) fn less_work(&self, at: usize) -> Option<String> {
        let read = self.runs[at].iter().filter_map(|run| Some(run.usage.io?.read as f64));
        let read = median(&read.collect::<Vec<f64>>())?;
        let whole = self.read_with_pipe[at]? as f64;
        let is_less = read < LESS_SHARE * whole && whole - read >= LESS_BYTES as f64;
        let [read, whole] = [read, whole].map(|bytes| quantity(bytes, Unit::Bytes));
        is_less.then(|| format!("reads {read} of {whole}, as its output is /dev/null"))
    }

    fn limit_ns(&self) -> u64 {
        (self.settings.timeout_s * 1e9) as u64
    }

    /// The counters of a run: its own, and of its CPU if that is known.
    fn disturbance(&self, usage: &ChildUsage, machine: Disturbance) -> Disturbance {
        let of_cpu = |ns: Option<u64>| ns.filter(|_| self.is_cpu_known);
        let (wall_ns, cpu_ns) = (usage.wall_ns as u64, (usage.user_ns + usage.system_ns) as u64);
        // This thread waits, too, before it starts the run and before it sees the end. Where it
        // waited while the run went on, nothing is lost.
        let own_ns = machine.run_queue_ns.unwrap_or(0);
        let idle_ns = wall_ns.saturating_sub(cpu_ns);
        let waited = |ns: u64| ns.max((ns + own_ns).min(idle_ns));
        Disturbance {
            involuntary_switches: usage.involuntary_switches,
            voluntary_switches: usage.voluntary_switches,
            minor_faults: usage.minor_faults,
            major_faults: usage.major_faults,
            migrations: 0,
            wall_ns,
            cpu_ns,
            run_queue_ns: usage.run_queue_ns.map(waited),
            steal_ns: of_cpu(machine.steal_ns),
            interrupt_ns: of_cpu(machine.interrupt_ns),
            ..machine
        }
    }

    /// The second of two: the first one wakes the core up.
    fn reference_loop(&mut self) -> LoopTime {
        reference_loop(&self.clock);
        let time = reference_loop(&self.clock);
        self.loops.push(time);
        time
    }

    /// The states of the core, by all loops.
    pub(crate) fn states(&self) -> Option<CoreStates> {
        let loops: Vec<Loop> = self.loops.iter().map(LoopTime::parts).collect();
        let parts = |run: &StageRun| {
            CoreStateConditions::with_loops(run.loops.iter().map(LoopTime::parts).collect())
        };
        let runs: Vec<CoreStateConditions> = self.runs.iter().flatten().map(parts).collect();
        CoreStates::new(&loops, &runs, None)
    }

    /// Evicts the files of `--cold`; whether no page of them is left.
    fn evict(&self) -> Result<bool, Cut> {
        let mut is_cold = true;
        for path in &self.settings.cold {
            let failed =
                |error: std::io::Error| Cut::Failed(format!("--cold {}: {error}", path.display()));
            let file = File::open(path).map_err(failed)?;
            let left = residency::evict(&file).map_err(|error| failed(error.into()))?;
            is_cold &= left.state == ResidencyState::Cold || left.bytes == 0;
        }
        Ok(is_cold)
    }

    /// # Errors
    /// If a file of `--cold` cannot be evicted here, before a run is timed that would not be cold.
    fn prove_cold(&self) -> Result<(), Cut> {
        if self.settings.cold.is_empty() || self.evict()? {
            return Ok(());
        }
        let text = "--cold: pages of a file stay in the page cache, or cannot be counted; it may \
                    be on a memory file system, mapped by a process, or another user's";
        Err(Cut::Failed(text.to_owned()))
    }

    /// # Errors
    /// If a run writes something else than is expected.
    fn prove_output(&mut self, case: &Case, expected: &str) -> Result<(), Cut> {
        self.hook(case, Hook::Prepare)?;
        let mut got = Vec::new();
        let take = |part: &[u8]| {
            got.extend_from_slice(part);
            got.len() <= OUTPUT_MAX
        };
        let used = self.through_pipe(&case.program, None, take);
        let used = used.map_err(|error| cut(&case.text, error))?;
        if got.len() <= OUTPUT_MAX {
            self.check_status(case, used.status)?;
        }
        self.hook(case, Hook::Conclude)?;
        match difference(&got, expected) {
            Some(what) => Err(Cut::Failed(format!("`{}`: {what}", case.text))),
            None => Ok(()),
        }
    }

    fn hook(&mut self, case: &Case, hook: Hook) -> Result<(), Cut> {
        let stop = Arc::clone(&self.stop);
        match &case.hooks[hook as usize] {
            Some(text) => self.shell_command(text, hook, &stop),
            None => Ok(()),
        }
    }

    fn once(&mut self, hook: Hook) -> Result<(), Cut> {
        let stop = Arc::clone(&self.stop);
        let texts = distinct(&self.work.cases, hook);
        texts.into_iter().try_for_each(|text| self.shell_command(text, hook, &stop))
    }

    /// Runs `--cleanup`, also after a signal.
    pub(crate) fn clean_up(&mut self) -> Result<(), Cut> {
        let never = AtomicBool::new(false);
        let mut ended = Ok(());
        for text in distinct(&self.work.cases, Hook::Cleanup) {
            ended = ended.and(self.shell_command(text, Hook::Cleanup, &never));
        }
        ended
    }

    fn shell_command(&mut self, text: &str, hook: Hook, stop: &AtomicBool) -> Result<(), Cut> {
        let what = format!("{} `{text}`", hook.option());
        let path = program_path("sh").map_err(|error| Cut::Failed(error.to_string()))?;
        let words = ["sh", "-c", text].map(str::to_owned);
        let program = ChildProgram::new(&path, &words);
        let program = program.ok_or_else(|| Cut::Failed(format!("{what}: has a zero byte")))?;
        let stderr = std::io::stderr();
        let null: BorrowedFd<'_> = self.null.as_fd();
        let terminal = Terminal::open();
        let around = Surroundings {
            input: null,
            output: null,
            errors: stderr.as_fd(),
            cpu: None,
            limit_ns: self.limit_ns(),
            terminal: terminal.as_ref(),
        };
        let used = self.launcher.run(&program, around, &self.clock, stop);
        let used = used.map_err(|error| cut(&what, error))?;
        // Ctrl-C on the terminal went to the hook alone.
        let is_interrupted = used.status.signal() == Some(libc::SIGINT)
            || used.status.code() == Some(128 + libc::SIGINT);
        match used.status.success() {
            true => Ok(()),
            false if is_interrupted && terminal.is_some() => Err(Cut::Stopped),
            false => Err(Cut::Failed(format!("{what}: {}", exit_text(used.status)))),
        }
    }
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        if self.settings.cpu.is_some() {
            // Nothing is timed any more.
            let _ = affinity::pin_to(&self.allowed);
        }
    }
}

fn cut(what: &str, error: ChildError) -> Cut {
    match error {
        ChildError::Stopped => Cut::Stopped,
        error => Cut::Failed(format!("`{what}` {error}")),
    }
}

/// Time in which a run could not run, by counters alone.
fn lost_ns(of: &Disturbance) -> f64 {
    let throttled = of.throttled_ns.unwrap_or(0);
    // A throttled thread waits in the run queue, too.
    let waited = of.run_queue_ns.unwrap_or(0).max(throttled);
    (waited + of.steal_ns.unwrap_or(0)) as f64
}

impl StageRun {
    pub(crate) fn timed(&self) -> Timed {
        let ChildUsage { wall_ns, user_ns, system_ns, .. } = self.usage;
        let switches = self.usage.voluntary_switches + self.usage.involuntary_switches;
        Timed { wall_ns, user_ns, system_ns, switches }
    }

    /// `subtracted_ns`: the start of the shell.
    pub(crate) fn sample(&self, process: usize, cpu: u32, subtracted_ns: f64) -> Sample {
        Sample {
            process: process as u32,
            cpu,
            batch: 1,
            values: vec![self.usage.wall_ns - subtracted_ns],
            values_per_round: 1,
            disturbed: if self.is_disturbed { vec![0] } else { Vec::new() },
            overhead_ns: subtracted_ns,
            reference_ns: self.loops.iter().map(|one| one.sibling_ns.round()).collect(),
            frequency_ns: self.loops.iter().map(|one| one.frequency_ns.round()).collect(),
            disturbance: self.disturbance.clone(),
            ..Sample::default()
        }
    }
}
