//! From runs to records: one of each command, one of each ratio to the first command.

use fathom_analysis::statistics::{median, median_interval};
use fathom_cost::Timed;
use fathom_measure::process::exit_text;
use fathom_metric::{Measured, OwnMetric, Processes};
use fathom_record::command::{self as facts, RATIO_METRIC};
use fathom_record::quantity::quantity;
use fathom_record::{
    Better, Cause, Check, Cost, Counter, Counters, Disturbance, Fact, NotSelected, Params, Reason,
    Record, Sample, Unit, shell_word,
};

use crate::case::Case;
use crate::request::{BenchOutput, BenchSettings};
use crate::stage::{Stage, StageRun};

/// The interval of a command on a quiet machine is narrower.
const NOISE_LIMIT: f64 = 0.05;
/// From here on a run is too long to select runs by the state of the core: what happened in
/// between, the loops before and after it do not show.
const LONG_NS: f64 = 100e6;
/// A difference is a bound if half its interval is a larger share of it (METHOD 6).
const BOUND_FROM: f64 = 0.25;
/// A run that waits for a larger share of its time is not decided by the speed of the core.
const WAITING_MIN: f64 = 0.5;

/// Records of all cases with runs, then of their ratios.
pub(crate) fn records(
    stage: &Stage<'_>,
    cases: &[Case],
    settings: &BenchSettings,
    known: &[Record],
) -> Vec<Measured> {
    let shell = ShellStart::new(&stage.shell_ns);
    let states = stage.states();
    let mut all = Vec::new();
    for (at, (case, runs)) in cases.iter().zip(&stage.runs).enumerate() {
        if runs.is_empty() {
            continue;
        }
        let less_work = stage.less_work(at);
        let cost = stage.counted[at].as_ref().map(|counted| {
            let timed: Vec<Timed> = runs.iter().map(StageRun::timed).collect();
            fathom_cost::cost(counted, &timed, &stage.splits[at], known)
        });
        let mut facts = facts_of(case, runs, &shell, settings);
        facts.extend(facts_of_cpu(runs, cost.as_ref()));
        facts.extend(facts_of_output(runs, settings, stage.pipe_ns));
        facts.extend(less_work.iter().map(|text| Fact::text(facts::LESS_WORK, text)));
        let samples = runs.iter().enumerate();
        let samples = samples.map(|(at, run)| run.sample(at, stage.cpu, shell.ns)).collect();
        let processes = Processes {
            samples,
            selection: selection(runs, settings),
            states: states.clone(),
            subtracted_half_width: shell.half_width_ns,
        };
        all.push(Measured {
            own: Some(OwnMetric {
                id: case.metric(),
                title: case.name.chars().take(32).collect(),
                unit: Unit::Nanoseconds,
                better: Better::Lower,
                expects: expects(runs),
                noise_limit: NOISE_LIMIT,
            }),
            params: case.params.clone(),
            processes: Some(with_checks(processes, runs, settings)),
            is_difference: shell.ns > 0.0,
            remarks: failures(case, runs).into_iter().collect(),
            doubts: less_work
                .map(|text| Reason::new(Cause::WrongWork, text))
                .into_iter()
                .chain(stops(runs))
                .collect(),
            facts,
            cost,
            ..Measured::default()
        });
    }
    all.extend(ratios(stage, cases, &shell, settings));
    all
}

/// Checks are of all runs: they are with the first one.
fn with_checks(mut processes: Processes, runs: &[StageRun], settings: &BenchSettings) -> Processes {
    if !settings.cold.is_empty() {
        let cold = runs.iter().filter(|run| run.is_cold).count();
        processes.samples[0].checks.push(Check {
            name: "cold files".to_owned(),
            passed: cold == runs.len(),
            detail: format!("no page cached before {cold} of {} runs", runs.len()),
        });
    }
    processes
}

/// A command may sleep, and take turns with its own processes; what it reads may be on a device.
fn expects(runs: &[StageRun]) -> Counters {
    let own =
        [Counter::NotRunning, Counter::Preemptions, Counter::MajorFaults, Counter::Interrupts];
    let own = Counters::from_counters(&own);
    if is_waiting(runs) { own.and(Counters::from_counters(&[Counter::CoreSpeed])) } else { own }
}

fn is_waiting(runs: &[StageRun]) -> bool {
    // What could have run did not wait for anything but the CPU.
    let share = |run: &StageRun| {
        let queued_ns = run.disturbance.run_queue_ns.unwrap_or(0) as f64;
        (run.usage.user_ns + run.usage.system_ns + queued_ns) / run.usage.wall_ns
    };
    median(&runs.iter().map(share).collect::<Vec<f64>>()).is_some_and(|it| it < WAITING_MIN)
}

/// Why runs are not selected by the state of the core, if they are not.
fn selection(runs: &[StageRun], settings: &BenchSettings) -> Result<(), NotSelected> {
    let wall = of_runs(runs, |run| run.usage.wall_ns);
    match () {
        () if settings.cpu.is_none() => Err(NotSelected::NotPinned),
        () if is_waiting(runs) => Err(NotSelected::Device),
        () if wall > LONG_NS => Err(NotSelected::LongOperation),
        () => Ok(()),
    }
}

fn of_runs(runs: &[StageRun], value: impl Fn(&StageRun) -> f64) -> f64 {
    median(&runs.iter().map(value).collect::<Vec<f64>>()).unwrap_or_default()
}

/// The start of the shell, which is no part of the command.
struct ShellStart {
    ns: f64,
    half_width_ns: f64,
}

impl ShellStart {
    fn new(times: &[f64]) -> Self {
        let limits = median_interval(times).map(|(limits, _)| limits);
        let half = limits.map_or(0.0, |[low, high]| (high - low) / 2.0);
        Self { ns: median(times).unwrap_or_default(), half_width_ns: half }
    }

    /// Whether what is left of a command is so uncertain that it is printed as a bound.
    fn hides(&self, runs: &[StageRun]) -> bool {
        let own = Self::new(&runs.iter().map(|run| run.usage.wall_ns).collect::<Vec<f64>>());
        self.ns > 0.0
            && own.half_width_ns.hypot(self.half_width_ns) > BOUND_FROM * (own.ns - self.ns)
    }
}

fn failures(case: &Case, runs: &[StageRun]) -> Option<Reason> {
    let failed: Vec<&StageRun> =
        runs.iter().filter(|run| !case.succeeded(run.usage.status)).collect();
    let first = exit_text(failed.first()?.usage.status);
    let text = format!("{} of {} runs failed; the first {first}", failed.len(), runs.len());
    Some(Reason::new(Cause::WrongWork, text))
}

fn stops(runs: &[StageRun]) -> Option<Reason> {
    let stopped = runs.iter().filter(|run| run.usage.was_stopped).count();
    let text = format!("{stopped} of {} runs stopped by a signal and continued", runs.len());
    (stopped > 0).then(|| Reason::new(Cause::NotRunning, text))
}

fn facts_of(
    case: &Case,
    runs: &[StageRun],
    shell: &ShellStart,
    settings: &BenchSettings,
) -> Vec<Fact> {
    let quantity_of = |name: &str, unit, value: &dyn Fn(&StageRun) -> f64| {
        Fact::quantity(name, of_runs(runs, value), unit)
    };
    let count =
        |name: &str, value: &dyn Fn(&StageRun) -> f64| quantity_of(name, Unit::Ratio, value);
    let mut all = vec![
        Fact::text(facts::COMMAND, &case.text),
        Fact::text(facts::SETTINGS, settings_of(case, settings)),
        memory(runs),
        count(facts::MINOR_FAULTS, &|run| run.usage.minor_faults as f64),
        count(facts::MAJOR_FAULTS, &|run| run.usage.major_faults as f64),
        count(facts::VOLUNTARY, &|run| run.usage.voluntary_switches as f64),
        count(facts::INVOLUNTARY, &|run| run.usage.involuntary_switches as f64),
    ];
    all.extend((!case.is_named).then(|| Fact::text(facts::NAMED_BY, "its command")));
    if runs.iter().all(|run| run.usage.io.is_some()) {
        let io = |name: &str, of: fn(crate::child::ChildIo) -> u64| {
            quantity_of(name, Unit::Bytes, &|run| run.usage.io.map_or(0.0, |io| of(io) as f64))
        };
        all.extend([
            io(facts::READ, |io| io.read),
            io(facts::WRITTEN, |io| io.written),
            io(facts::DEVICE_READ, |io| io.device_read),
            io(facts::DEVICE_WRITTEN, |io| io.device_written),
        ]);
    }
    let disturbed = runs.iter().filter(|run| run.is_disturbed).count();
    all.push(Fact::quantity(facts::DISTURBED, disturbed as f64, Unit::Ratio));
    if shell.ns > 0.0 {
        let time = |ns| quantity(ns, Unit::Nanoseconds);
        // Too few starts have no interval.
        let half = (shell.half_width_ns > 0.0).then(|| format!(" ± {}", time(shell.half_width_ns)));
        let text = format!("{}{} subtracted", time(shell.ns), half.unwrap_or_default());
        all.push(Fact::text(facts::SHELL, text));
    }
    if !settings.cold.is_empty() {
        let names: Vec<String> = settings.cold.iter().map(|it| it.display().to_string()).collect();
        all.push(Fact::text(facts::COLD, names.join(", ")));
    }
    let input = settings.input.as_ref();
    all.extend(input.map(|file| Fact::text(facts::INPUT, file.display().to_string())));
    all.extend(settings.cpu.map(|cpu| Fact::text(facts::CPU, cpu.to_string())));
    all
}

/// User and system time: of the cost, if it is known, so that a run has one of each.
fn facts_of_cpu(runs: &[StageRun], cost: Option<&Cost>) -> [Fact; 2] {
    // The kernel divides the time of a short run by ticks: all of it is of one kind.
    let mean = |value: fn(&StageRun) -> f64| {
        runs.iter().map(value).sum::<f64>() / runs.len().max(1) as f64
    };
    let [user, system] = match cost {
        Some(cost) => [cost.user.ns, cost.system.ns],
        None => [mean(|run| run.usage.user_ns), mean(|run| run.usage.system_ns)],
    };
    [(facts::USER, user), (facts::SYSTEM, system)]
        .map(|(name, ns)| Fact::quantity(name, ns, Unit::Nanoseconds))
}

/// What a run does besides its command, as options.
pub(crate) fn settings_of(case: &Case, settings: &BenchSettings) -> String {
    let [setup, prepare, conclude, _] = &case.hooks;
    let folder = case.folder.as_ref().map(|folder| folder.display().to_string());
    let all = [
        ("--shell", settings.shell.as_ref()),
        ("--setup", setup.as_ref()),
        ("--prepare", prepare.as_ref()),
        ("--conclude", conclude.as_ref()),
        ("folder", folder.as_ref()),
    ];
    let given = all.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let words: Vec<String> =
        given.map(|(name, value)| format!("{name} {}", shell_word(value))).collect();
    if words.is_empty() { "none".to_owned() } else { words.join(" ") }
}

/// Where the output went, and what a pipe takes of a run.
fn facts_of_output(runs: &[StageRun], settings: &BenchSettings, pipe_ns: Option<f64>) -> Vec<Fact> {
    let place = match &settings.output {
        BenchOutput::Pipe => "a drained pipe".to_owned(),
        BenchOutput::Null => "/dev/null".to_owned(),
        BenchOutput::Inherit => "standard error".to_owned(),
        BenchOutput::File(path) => path.display().to_string(),
    };
    let mut all = vec![Fact::text(facts::OUTPUT, place)];
    if settings.output == BenchOutput::Pipe {
        let bytes = of_runs(runs, |run| run.usage.piped.unwrap_or(0) as f64);
        all.push(Fact::quantity(facts::PIPED, bytes, Unit::Bytes));
        let time =
            pipe_ns.map(|ns| Fact::quantity(facts::PIPE_TIME, bytes * ns, Unit::Nanoseconds));
        all.extend(time);
    }
    all
}

/// The kernel counts from the memory of this process on, so that less than that is not seen.
fn memory(runs: &[StageRun]) -> Fact {
    let bytes = of_runs(runs, |run| run.usage.memory_bytes as f64);
    if bytes <= own_memory() {
        Fact::text(facts::MEMORY, format!("≤ {}", quantity(bytes, Unit::Bytes)))
    } else {
        Fact::quantity(facts::MEMORY, bytes, Unit::Bytes)
    }
}

fn own_memory() -> f64 {
    // SAFETY: an all-zero `rusage` is valid, and the pointer is to writable memory.
    let used = unsafe {
        let mut used: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut used);
        used
    };
    used.ru_maxrss as f64 * 1024.0
}

/// Of each command after the first, its time by that of the first one in the same block.
fn ratios(
    stage: &Stage<'_>,
    cases: &[Case],
    shell: &ShellStart,
    settings: &BenchSettings,
) -> Vec<Measured> {
    let states = stage.states();
    let mut all = Vec::new();
    for (at, (case, runs)) in cases.iter().zip(&stage.runs).enumerate() {
        if case.command == 0 {
            continue;
        }
        // With the same values of the parameters that both have.
        let is_base =
            |(_, (first, _)): &(usize, (&Case, &Vec<StageRun>))| {
                first.command == 0
                    && first.params.0.iter().all(|(name, value)| {
                        case.params.0.get(name).is_none_or(|other| other == value)
                    })
            };
        let bases: Vec<_> = cases.iter().zip(&stage.runs).enumerate().filter(is_base).collect();
        let [(first_at, (first, base))] = bases.as_slice() else { continue };
        let less_work = [(*first_at, *first), (at, case)].into_iter().filter_map(|(at, case)| {
            Some(Reason::new(Cause::WrongWork, format!("{} {}", case.name, stage.less_work(at)?)))
        });
        let samples = paired(base, runs, shell.ns);
        if samples.is_empty() || [base, runs].into_iter().any(|it| shell.hides(it)) {
            continue;
        }
        let selection = selection(base, settings).and(selection(runs, settings));
        let states = states.clone();
        let processes = Processes { samples, selection, states, subtracted_half_width: 0.0 };
        let params = Params::one("of", case.name.as_str()).and("to", first.name.as_str());
        let mut params = case
            .params
            .0
            .iter()
            .fold(params, |params, (name, value)| params.and(name, value.clone()));
        for (name, value) in &first.params.0 {
            params.0.entry(name.clone()).or_insert_with(|| value.clone());
        }
        all.push(Measured {
            own: Some(OwnMetric {
                id: RATIO_METRIC.to_owned(),
                title: "time of a command by another".to_owned(),
                unit: Unit::Ratio,
                better: Better::Lower,
                expects: Counters::NONE,
                noise_limit: NOISE_LIMIT,
            }),
            params,
            processes: Some(processes),
            doubts: less_work.collect(),
            ..Measured::default()
        });
    }
    all
}

/// The ratios of runs of the same block, without those where the start of the shell leaves no time.
/// A pair has the loops of both runs, and is undisturbed if both are.
fn paired(base: &[StageRun], runs: &[StageRun], shell_ns: f64) -> Vec<Sample> {
    let net = |run: &StageRun| Some(run.usage.wall_ns - shell_ns).filter(|ns| *ns > 0.0);
    let pairs = runs.iter().filter_map(|run| {
        let other = base.iter().find(|other| other.block == run.block)?;
        Some((run, other, net(run)? / net(other)?))
    });
    let sample = |(at, (run, other, ratio)): (usize, (&StageRun, &StageRun, f64))| {
        let (mut sample, other) = (run.sample(at, 0, 0.0), other.sample(at, 0, 0.0));
        sample.values = vec![ratio];
        sample.disturbed.extend(other.disturbed);
        sample.reference_ns.extend(other.reference_ns);
        sample.frequency_ns.extend(other.frequency_ns);
        Sample { disturbance: Disturbance::default(), ..sample }
    };
    pairs.enumerate().map(sample).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use fathom_measure::sampler::LoopTime;

    use super::*;
    use crate::child::ChildUsage;

    /// A run beside a busy sibling if `times` is 2.
    fn run(block: usize, wall_ns: f64, times: f64) -> StageRun {
        let one = LoopTime { at_ns: 0, sibling_ns: 10_000.0 * times, frequency_ns: 10_000.0 };
        let usage = ChildUsage {
            wall_ns,
            status: std::process::ExitStatus::from_raw(0),
            user_ns: wall_ns,
            system_ns: 0.0,
            memory_bytes: 0,
            minor_faults: 0,
            major_faults: 0,
            voluntary_switches: 0,
            involuntary_switches: 0,
            io: None,
            piped: None,
            run_queue_ns: None,
            was_stopped: false,
        };
        let (disturbance, is_disturbed, is_cold) = (Disturbance::default(), false, true);
        StageRun { block, usage, loops: [one; 2], disturbance, is_disturbed, is_cold }
    }

    #[test]
    fn pairs_are_of_one_block_with_the_loops_of_both_runs() {
        let base = [run(0, 1e6, 1.0), run(1, 2e6, 2.0), run(2, 1e6, 1.0), run(4, 1e6, 1.0)];
        let mut late = run(4, 4e6, 1.0);
        late.is_disturbed = true;
        let runs = [run(1, 3e6, 1.0), run(2, 3e6, 1.0), run(3, 9e6, 1.0), late];
        let found = paired(&base, &runs, 0.0);
        let ratios: Vec<f64> = found.iter().map(|sample| sample.values[0]).collect();
        assert_eq!(ratios, [1.5, 3.0, 4.0]);
        let disturbed: Vec<bool> = found.iter().map(|one| !one.disturbed.is_empty()).collect();
        assert_eq!(disturbed, [false, false, true]);
        let loops: Vec<f64> = found.iter().map(|one| one.reference_ns.iter().sum()).collect();
        assert_eq!(loops, [6e4, 4e4, 4e4], "of both runs");
        let net: Vec<f64> =
            paired(&base, &runs, 1e6).iter().map(|sample| sample.values[0]).collect();
        assert_eq!(net, [2.0], "without those that the shell leaves no time");
    }

    #[test]
    fn runs_are_selected_only_where_the_loops_describe_them() {
        let pinned = BenchSettings { cpu: Some(0), ..BenchSettings::default() };
        let short = [run(0, 1e6, 1.0)];
        assert_eq!(selection(&short, &pinned), Ok(()));
        assert_eq!(selection(&short, &BenchSettings::default()), Err(NotSelected::NotPinned));
        assert_eq!(selection(&[run(0, 2e8, 1.0)], &pinned), Err(NotSelected::LongOperation));
        let mut waits = run(0, 1e6, 1.0);
        waits.usage.user_ns = 1e5;
        assert_eq!(selection(&[waits], &pinned), Err(NotSelected::Device));
        let mut queued = run(0, 1e6, 1.0);
        (queued.usage.user_ns, queued.disturbance.run_queue_ns) = (1e5, Some(800_000));
        assert_eq!(selection(&[queued], &pinned), Ok(()));
    }

    #[test]
    fn short_command_is_hidden_by_the_start_of_its_shell() {
        let shell = ShellStart::new(&[1e6, 1.1e6, 0.9e6, 1e6, 1e6, 1e6]);
        let runs = |ns: f64| (0..9).map(|block| run(block, ns, 1.0)).collect::<Vec<StageRun>>();
        assert!(shell.hides(&runs(1.01e6)) && !shell.hides(&runs(5e6)));
        assert!(!ShellStart::new(&[]).hides(&runs(1.0)));
    }
}
