//! Disturbs half of the runs and counts how often the program names the cause, and which causes it
//! names in undisturbed runs.
//!
//! A sabotage is undone when its guard is dropped: at the end of the run, on an error, on a panic,
//! and after Ctrl-C, which ends the run.

mod counters;
mod damage;
mod full_speed;
mod guard;
mod machine;
mod machine_state;
mod memory;
mod processor;
mod program;
mod results;
mod scenario;
mod sibling;
mod slope;
mod table;

use std::path::Path;
use std::sync::atomic::Ordering;

use anyhow::{Context as _, Result, bail};
use fathom_lab::Unmet;
use fathom_lab::seeded::Seeded;
use fathom_record::{Cause, Record};

use counters::MachineCounters;
use full_speed::{FullSpeed, OFF_MAX};
use guard::{Guard, NoGuard};
use machine_state::MachineState;
pub(crate) use processor::{NEIGHBOUR, neighbour};
use program::{Launch, ProgramBench, RunResult, is_shape};
use results::{SLOPE, SabotagePart, SabotageResults};
use scenario::Sabotage;
use table::{SUMMARY, SabotageCount, SabotageOutcome, SabotageRow};

/// All sabotages with the part of the lab that each belongs to, in the order of the table.
const ALL: [(&str, Sabotage); 15] = [
    (PROCESSOR, processor::QUOTA),
    (PROCESSOR, processor::SPINNING_NEIGHBOUR),
    (PROCESSOR, processor::NEIGHBOUR_IN_TURNS),
    (PROCESSOR, processor::STOPPED),
    (PROCESSOR, sibling::SIBLING),
    (PROGRAM, machine::WALL_CLOCK),
    (PROGRAM, machine::WRONG_WORK),
    (PROGRAM, machine::DRIFT),
    (PROGRAM, machine::MORE_WORK),
    (MEMORY, memory::HUGE_PAGES),
    (MEMORY, memory::MEMORY_LIMIT),
    (MEMORY, memory::SWAP),
    (MEMORY, memory::HUGE_PAGES_LATENCY),
    (MEMORY, memory::MEMORY_LIMIT_UNMAPPING),
    (PROCESSOR, processor::STREAMING),
];
/// The parts, besides that of the slope.
const PROCESSOR: &str = "processor";
const PROGRAM: &str = "program";
const MEMORY: &str = "memory";

/// Whether a sabotage is chosen by a part, or by a part of its name.
fn is_chosen(only: &str, part: &str, name: &str) -> bool {
    if [PROCESSOR, PROGRAM, MEMORY, SLOPE].contains(&only) {
        only == part
    } else {
        name.contains(only)
    }
}

struct Laboratory {
    bench: ProgramBench,
    runs: u32,
    seed: u64,
    results: SabotageResults,
}

/// Runs the sabotages of a part, or whose name contains `only`; true if the program was right often
/// enough.
pub(crate) fn run(root: &Path, program: &str, runs: u32, seed: u64, only: &str) -> Result<bool> {
    let bench = ProgramBench::with(program)?;
    println!("seed {seed}, {runs} runs of each, CPU {}, load {}", bench.cpu, load());
    let results = SabotageResults::load(root, runs, seed);
    let mut laboratory = Laboratory { bench, runs, seed, results };
    let good = laboratory.all(only)?;
    let names = ALL.iter().map(|(_, one)| one.name).chain(damage::NAMES).chain([SLOPE]);
    let missed = laboratory.results.write(root, &names.collect::<Vec<_>>())?;
    missed.iter().for_each(|missed| println!("{missed}"));
    Ok(good && missed.is_empty())
}

impl Laboratory {
    fn all(&mut self, only: &str) -> Result<bool> {
        println!("{}", table::line(["sabotage", "dose", "verdict", "cause", "truth", ""]));
        let mut rows = Vec::new();
        for (_, sabotage) in ALL.iter().filter(|(part, one)| is_chosen(only, part, one.name)) {
            match (sabotage.needs)() {
                Ok(()) => rows.extend(self.each(sabotage)?),
                Err(why) => self.skip(sabotage, &why)?,
            }
        }
        for name in damage::NAMES.into_iter().filter(|name| is_chosen(only, PROGRAM, name)) {
            let mut random = Seeded::for_part(self.seed, name);
            let damaged = damage::rows(&self.bench, name, self.runs, &mut random)?;
            damaged.iter().for_each(|row| println!("{}", table::line(row.cells())));
            self.results.set(name, SabotagePart::Runs(damaged.clone()))?;
            rows.extend(damaged);
        }
        // The share of noisy cases with a cause is one of all parts.
        let count = SabotageCount::from_rows(&rows);
        let mut good = count.is_right() && count.alarms == 0;
        if is_chosen(only, SLOPE, SLOPE) {
            let (text, right) =
                slope::measure(&self.bench, &mut Seeded::for_part(self.seed, SLOPE))?;
            println!("{text}");
            self.results.set(SLOPE, SabotagePart::Slope(text, right))?;
            good &= right;
        }
        println!("{}", SUMMARY.join(", "));
        table::summary(&rows).iter().for_each(|line| println!("{}", line.join(", ")));
        println!("load {}", load());
        Ok(good)
    }

    fn skip(&mut self, sabotage: &Sabotage, why: &Unmet) -> Result<()> {
        println!("{}: skipped: {why}", sabotage.name);
        self.results.set(sabotage.name, SabotagePart::Skipped(why.to_string()))
    }

    /// Makes the runs of one sabotage and judges them when all are done.
    fn each(&mut self, sabotage: &Sabotage) -> Result<Vec<SabotageRow>> {
        let mut random = Seeded::for_part(self.seed, sabotage.name);
        let mut runs = Vec::new();
        for sabotaged in halves(&mut random, self.runs) {
            let before = MachineState::now();
            let run = run_once(&self.bench, sabotage, sabotaged, &mut random);
            let left = before.left_behind();
            runs.push(run.with_context(|| sabotage.name.to_owned())?);
            if let Some(left) = left {
                bail!("{}: {left}", sabotage.name);
            }
        }
        let undisturbed = runs.iter().filter(|(_, dose)| dose.is_none());
        let undisturbed = FullSpeed::from_runs(undisturbed.map(|(run, _)| run));
        if let Err(why) = (sabotage.usable)(&undisturbed) {
            self.skip(sabotage, &why)?;
            return Ok(Vec::new());
        }
        let row = |(run, dose): &(RunResult, Option<f64>)| SabotageRow {
            sabotage: sabotage.name.to_owned(),
            sabotaged: dose.is_some(),
            dose: dose.map(sabotage.dose_text).unwrap_or_default(),
            ..match dose {
                Some(dose) => judge_sabotaged(sabotage, run, &undisturbed, *dose),
                None => judge_undisturbed(sabotage, run, &undisturbed),
            }
        };
        let rows: Vec<SabotageRow> = runs.iter().map(row).collect();
        rows.iter().for_each(|row| println!("{}", table::line(row.cells())));
        self.results.set(sabotage.name, SabotagePart::Runs(rows.clone()))?;
        Ok(rows)
    }
}

/// One run with its dose; `None` if undisturbed.
fn run_once(
    bench: &ProgramBench,
    sabotage: &Sabotage,
    sabotaged: bool,
    random: &mut Seeded,
) -> Result<(RunResult, Option<f64>)> {
    bench.settle();
    if bench.stop.load(Ordering::Relaxed) {
        bail!("stopped");
    }
    let dose = Some((sabotage.dose)(random.share())).filter(|_| sabotaged);
    let mut launch = Launch::default();
    let mut guard: Box<dyn Guard> = match dose {
        Some(dose) => (sabotage.start)(dose, bench.cpu, &mut launch)?,
        None => Box::new(NoGuard),
    };
    Ok((bench.run(sabotage.metric, &launch, guard.as_mut())?, dose))
}

/// A sabotaged run: the most frequent first cause of the slowed records must be one of the
/// sabotage's. A record that is nevertheless at full speed was not slowed.
fn judge_sabotaged(
    sabotage: &Sabotage,
    run: &RunResult,
    undisturbed: &FullSpeed,
    dose: f64,
) -> SabotageRow {
    let all: Vec<&Record> = sabotage.affected_records(run).collect();
    let is_slowed = |record: &&Record| undisturbed.off(record, run).is_none_or(|off| off > OFF_MAX);
    let slowed: Vec<&Record> = all.iter().copied().filter(is_slowed).collect();
    let expected = if slowed.is_empty() { &[] } else { sabotage.causes };
    let first = most_frequent(&slowed, first_cause);
    // On a shared machine other causes may come first, if the machine's counters confirm them.
    let next = most_frequent(&slowed, |record| {
        let mut causes = record.verdict.reasons.iter().map(|one| one.cause);
        causes.find(|cause| expected.contains(cause) || run.confirms(*cause, record) != Some(true))
    });
    let is_right = |cause: Option<Cause>| cause.is_some_and(|cause| expected.contains(&cause));
    let (truth, fits) = (sabotage.truth)(sabotage, run, undisturbed, dose);
    let outcome = match (fits, expected.is_empty() || is_right(first), is_right(next)) {
        (true, true, _) => SabotageOutcome::Right,
        (true, false, true) => SabotageOutcome::AfterAnother,
        _ => SabotageOutcome::Wrong,
    };
    SabotageRow { truth, outcome, ..row(&all, expected, first) }
}

/// An undisturbed run: the machine's counters must confirm every first cause.
fn judge_undisturbed(sabotage: &Sabotage, run: &RunResult, undisturbed: &FullSpeed) -> SabotageRow {
    let records: Vec<&Record> = run.of_metric(sabotage.metric).collect();
    let mut outcome = SabotageOutcome::Right;
    for record in &records {
        match first_cause(record).map(|cause| run.confirms(cause, record)) {
            None | Some(Some(true)) => {}
            Some(Some(false)) => outcome = SabotageOutcome::FalseAlarm,
            Some(None) if outcome == SabotageOutcome::Right => outcome = SabotageOutcome::Shape,
            Some(None) => {}
        }
    }
    if run.document.run.clock.wall_step_ns.is_some() {
        outcome = SabotageOutcome::FalseAlarm;
    }
    let first = most_frequent(&records, first_cause);
    let off = records.iter().filter_map(|record| undisturbed.off(record, run)).reduce(f64::max);
    let claims =
        off.map_or_else(String::new, |off| format!(", full speed {:.1} % off", 100.0 * off));
    let MachineCounters { stolen_ticks, interrupt_ticks, .. } = run.counters;
    let truth = format!(
        "others {:.0} %, steal {:.0} ms, interrupts {:.0} ms{claims}",
        100.0 * run.others().max(0.0),
        10.0 * stolen_ticks,
        10.0 * interrupt_ticks
    );
    SabotageRow { truth, outcome, ..row(&records, &[], first) }
}

fn first_cause(record: &Record) -> Option<Cause> {
    record.verdict.reasons.first().map(|reason| reason.cause)
}

fn row(records: &[&Record], expected: &[Cause], first: Option<Cause>) -> SabotageRow {
    let noisy = || records.iter().filter(|it| it.verdict.state == fathom_record::State::Noisy);
    let is_cause = |cause| expected.contains(&cause) || !is_shape(cause);
    let named = noisy().filter(|it| it.verdict.reasons.iter().any(|one| is_cause(one.cause)));
    let with_cause = records.iter().find(|record| first_cause(record) == first);
    let verdict = with_cause.map_or("-", |record| record.verdict.state.word());
    let word = first.and_then(|cause| serde_json::to_value(cause).ok());
    let cause = word.as_ref().and_then(|word| word.as_str()).unwrap_or("-").to_owned();
    SabotageRow {
        verdict: verdict.to_owned(),
        cause,
        noisy: noisy().count(),
        named: named.count(),
        ..SabotageRow::default()
    }
}

fn most_frequent(records: &[&Record], of: impl Fn(&Record) -> Option<Cause>) -> Option<Cause> {
    let causes: Vec<Cause> = records.iter().filter_map(|record| of(record)).collect();
    let count = |cause: &Cause| causes.iter().filter(|one| *one == cause).count();
    causes.iter().max_by_key(|cause| count(cause)).copied()
}

fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<&str>>().join(" ")
}

/// Which of the runs are sabotaged: half of them, in random order.
fn halves(random: &mut Seeded, runs: u32) -> Vec<bool> {
    let half = runs.div_ceil(2) as usize;
    random.shuffled(runs as usize).into_iter().map(|place| place < half).collect()
}

#[cfg(test)]
mod tests;
