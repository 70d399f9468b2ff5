//! From runs to records: one of each command, one of each ratio to the first command.

use fathom_analysis::statistics::{median, median_interval};
use fathom_measure::process::exit_text;
use fathom_metric::{Measured, OwnMetric, Processes};
use fathom_record::command::{self as facts, RATIO_METRIC};
use fathom_record::quantity::quantity;
use fathom_record::{
    Better, Cause, Check, Counter, Counters, Fact, NotSelected, Params, Reason, Stratum, Unit,
};

use crate::case::Case;
use crate::request::Settings;
use crate::stage::{Run, Stage};

/// The interval of a command on a quiet machine is narrower.
const NOISE_LIMIT: f64 = 0.05;
/// The fewest undisturbed runs with an estimate of their own.
const CLEAN_MIN: usize = 9;
/// From here on a run is too long to select undisturbed ones: what happened in between, the loops
/// before and after it do not show.
const LONG_NS: f64 = 100e6;
/// A difference is a bound if half its interval is a larger share of it (METHOD 6).
const BOUND_FROM: f64 = 0.25;
/// A run that waits for a larger share of its time is not decided by the speed of the core.
const WAITING_MIN: f64 = 0.5;

/// Records of all cases with runs, then of their ratios.
pub(crate) fn records(stage: &Stage<'_>, cases: &[Case], settings: &Settings) -> Vec<Measured> {
    let shell = ShellStart::new(&stage.shell_ns);
    let reference = stage.reference();
    let with_runs = || cases.iter().zip(&stage.runs).filter(|(_, runs)| !runs.is_empty());
    let mut all = Vec::new();
    for (case, runs) in with_runs() {
        let samples = runs.iter().enumerate();
        let samples = samples.map(|(at, run)| run.sample(at, stage.cpu, shell.ns)).collect();
        let processes = Processes {
            samples,
            stratum: stratum(runs, settings),
            reference,
            clean_min: CLEAN_MIN,
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
            remarks: failures(runs).into_iter().collect(),
            facts: facts_of(case, runs, &shell, settings),
            ..Measured::default()
        });
    }
    all.extend(ratios(stage, cases, &shell));
    all
}

/// Checks are of all runs: they are with the first one.
fn with_checks(mut processes: Processes, runs: &[Run], settings: &Settings) -> Processes {
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
fn expects(runs: &[Run]) -> Counters {
    let own =
        [Counter::NotRunning, Counter::Preemptions, Counter::MajorFaults, Counter::Interrupts];
    let own = Counters::of(&own);
    if is_waiting(runs) { own.and(Counters::of(&[Counter::CoreSpeed])) } else { own }
}

fn is_waiting(runs: &[Run]) -> bool {
    // What could have run did not wait for anything but the CPU.
    let share = |run: &Run| {
        let queued_ns = run.usage.run_queue_ns.unwrap_or(0) as f64;
        (run.usage.user_ns + run.usage.system_ns + queued_ns) / run.usage.wall_ns
    };
    median(&runs.iter().map(share).collect::<Vec<f64>>()).is_some_and(|it| it < WAITING_MIN)
}

/// What undisturbed runs are, or why they are not selected.
fn stratum(runs: &[Run], settings: &Settings) -> Result<Stratum, NotSelected> {
    let wall = of_runs(runs, |run| run.usage.wall_ns);
    match () {
        () if settings.cpu.is_none() => Err(NotSelected::NotPinned),
        () if is_waiting(runs) => Err(NotSelected::Device),
        () if wall > LONG_NS => Err(NotSelected::LongOperation),
        () => Ok(Stratum::FullSpeed),
    }
}

fn of_runs(runs: &[Run], value: impl Fn(&Run) -> f64) -> f64 {
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
    fn hides(&self, runs: &[Run]) -> bool {
        let own = Self::new(&runs.iter().map(|run| run.usage.wall_ns).collect::<Vec<f64>>());
        self.ns > 0.0
            && own.half_width_ns.hypot(self.half_width_ns) > BOUND_FROM * (own.ns - self.ns)
    }
}

fn failures(runs: &[Run]) -> Option<Reason> {
    let failed: Vec<&Run> = runs.iter().filter(|run| !run.usage.status.success()).collect();
    let first = exit_text(failed.first()?.usage.status);
    let text = format!("{} of {} runs failed; the first {first}", failed.len(), runs.len());
    Some(Reason::new(Cause::WrongWork, text))
}

fn facts_of(case: &Case, runs: &[Run], shell: &ShellStart, settings: &Settings) -> Vec<Fact> {
    let quantity_of = |name: &str, unit, value: &dyn Fn(&Run) -> f64| {
        Fact::quantity(name, of_runs(runs, value), unit)
    };
    let count = |name: &str, value: &dyn Fn(&Run) -> f64| quantity_of(name, Unit::Ratio, value);
    let mut all = vec![
        Fact::text(facts::COMMAND, &case.text),
        quantity_of(facts::USER, Unit::Nanoseconds, &|run| run.usage.user_ns),
        quantity_of(facts::SYSTEM, Unit::Nanoseconds, &|run| run.usage.system_ns),
        memory(runs),
        count(facts::MINOR_FAULTS, &|run| run.usage.minor_faults as f64),
        count(facts::MAJOR_FAULTS, &|run| run.usage.major_faults as f64),
        count(facts::VOLUNTARY, &|run| run.usage.voluntary_switches as f64),
        count(facts::INVOLUNTARY, &|run| run.usage.involuntary_switches as f64),
    ];
    if runs.iter().all(|run| run.usage.io.is_some()) {
        let io = |name: &str, of: fn(crate::child::Io) -> u64| {
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
        let [ns, half] = [shell.ns, shell.half_width_ns].map(|ns| quantity(ns, Unit::Nanoseconds));
        all.push(Fact::text(facts::SHELL, format!("{ns} ± {half} subtracted")));
    }
    if !settings.cold.is_empty() {
        let names: Vec<String> = settings.cold.iter().map(|it| it.display().to_string()).collect();
        all.push(Fact::text(facts::COLD, names.join(", ")));
    }
    all.extend(settings.cpu.map(|cpu| Fact::text(facts::CPU, cpu.to_string())));
    all
}

/// The kernel counts from the memory of this process on, so that less than that is not seen.
fn memory(runs: &[Run]) -> Fact {
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
fn ratios(stage: &Stage<'_>, cases: &[Case], shell: &ShellStart) -> Vec<Measured> {
    let mut all = Vec::new();
    for (case, runs) in cases.iter().zip(&stage.runs).filter(|(case, _)| case.command > 0) {
        // With the same values of the parameters that both have.
        let is_base =
            |(first, _): &(&Case, &Vec<Run>)| {
                first.command == 0
                    && first.params.0.iter().all(|(name, value)| {
                        case.params.0.get(name).is_none_or(|other| other == value)
                    })
            };
        let bases: Vec<_> = cases.iter().zip(&stage.runs).filter(is_base).collect();
        let [(first, base)] = bases.as_slice() else { continue };
        let values = paired(base, runs, shell.ns);
        if values.is_empty() || [base, runs].into_iter().any(|it| shell.hides(it)) {
            continue;
        }
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
            values,
            in_fresh_processes: true,
            ..Measured::default()
        });
    }
    all
}

/// The ratios of runs of the same block, without those where the start of the shell leaves no time.
fn paired(base: &[Run], runs: &[Run], shell_ns: f64) -> Vec<f64> {
    let net = |run: &Run| Some(run.usage.wall_ns - shell_ns).filter(|ns| *ns > 0.0);
    let pairs = runs.iter().filter_map(|run| {
        let other = base.iter().find(|other| other.block == run.block)?;
        Some(net(run)? / net(other)?)
    });
    pairs.collect()
}
