//! The laboratory: spoils runs on purpose, half of them, and counts how often the program names
//! what was done, and what it names where nothing was.
//!
//! What is imposed is undone when its guard is dropped: at the end of the run, on an error, on a
//! panic, and after Ctrl-C, which ends the run and is then noticed here.

mod damage;
mod full_speed;
mod imposed;
mod machine;
mod memory;
mod outside;
mod page;
mod processor;
mod program;
mod scenario;
mod sibling;
mod slope;
mod state;
mod table;

use std::path::Path;
use std::sync::atomic::Ordering;

use anyhow::{Context as _, Result, bail};
use fathom_lab::Unmet;
use fathom_lab::seeded::Seeded;
use fathom_record::{Cause, Record};

use full_speed::{FullSpeed, OFF_MAX};
use imposed::{Imposed, Nothing};
use page::Kept;
pub(crate) use processor::{NEIGHBOUR, neighbour};
use program::{Bench, Launch, Seen, is_shape};
use scenario::Sabotage;
use state::State;
use table::{ACCOUNT, Count, Right, Row};

/// All sabotages, in the order of the table.
const ALL: [&dyn Sabotage; 15] = [
    &processor::Quota,
    &processor::Neighbour { in_turns: false },
    &processor::Neighbour { in_turns: true },
    &processor::Stopped,
    &sibling::Sibling,
    &machine::WallClock,
    &machine::WrongWork,
    &machine::Drift,
    &machine::MoreWork,
    &memory::HugePages { name: "huge pages", metric: "os.process.fork", asked: "" },
    &memory::Memory {
        name: "memory limit",
        metric: "os.process.fork",
        large: &["268435456", "1073741824"],
    },
    &memory::Swap,
    &memory::HugePages { name: "huge pages, latency", metric: "memory.latency", asked: "page=4K" },
    &memory::Memory {
        name: "memory limit, unmapping",
        metric: "memory.munmap",
        large: &["67108864"],
    },
    &processor::Streaming,
];

/// What is done to a laboratory in whole.
struct Laboratory {
    bench: Bench,
    runs: u32,
    seed: u64,
    kept: Kept,
}

/// Runs all of it, or what has `only` in its name; true if the program was right often enough.
pub(crate) fn run(root: &Path, program: &str, runs: u32, seed: u64, only: &str) -> Result<bool> {
    let bench = Bench::with(program)?;
    println!("seed {seed}, {runs} runs of each, CPU {}, load {}", bench.cpu, load());
    let first = bench.run("cpu.frequency", &Launch::default(), &mut Nothing)?;
    let kept = Kept::of(root, runs, seed, &first.document);
    let mut laboratory = Laboratory { bench, runs, seed, kept };
    let done = laboratory.all(only);
    let names: Vec<&str> = ALL.iter().map(|one| one.name()).chain(damage::NAMES).collect();
    laboratory.kept.write(root, &names)?;
    done
}

impl Laboratory {
    fn all(&mut self, only: &str) -> Result<bool> {
        println!("{}", table::line(["sabotage", "dose", "verdict", "cause", "truth", ""]));
        let mut rows = Vec::new();
        for sabotage in ALL.into_iter().filter(|one| one.name().contains(only)) {
            match sabotage.needs() {
                Ok(()) => rows.extend(self.each(sabotage)?),
                Err(why) => self.skip(sabotage, &why),
            }
        }
        for name in damage::NAMES.into_iter().filter(|name| name.contains(only)) {
            let mut random = Seeded::of(self.seed, name);
            let damaged = damage::rows(&self.bench, name, self.runs, &mut random)?;
            damaged.iter().for_each(|row| println!("{}", table::line(row.cells())));
            self.kept.ran(name, damaged.clone());
            rows.extend(damaged);
        }
        let mut good = Count::of(&rows).is_good();
        if "slope".contains(only) {
            let (text, right) = slope::measure(&self.bench, &mut Seeded::of(self.seed, "slope"))?;
            println!("{text}");
            self.kept.measured(&text);
            good &= right;
        }
        println!("{}", ACCOUNT.join(", "));
        table::account(&rows).iter().for_each(|line| println!("{}", line.join(", ")));
        println!("load {}", load());
        Ok(good)
    }

    fn skip(&mut self, sabotage: &dyn Sabotage, why: &Unmet) {
        println!("{}: skipped: {why}", sabotage.name());
        self.kept.skipped(sabotage.name(), &why.to_string());
    }

    /// The runs of one sabotage, and what they amount to when all are done.
    fn each(&mut self, sabotage: &dyn Sabotage) -> Result<Vec<Row>> {
        let mut random = Seeded::of(self.seed, sabotage.name());
        let mut runs = Vec::new();
        for sabotaged in halves(&mut random, self.runs) {
            let before = State::now();
            let run = one(&self.bench, sabotage, sabotaged, &mut random);
            let left = before.left_behind();
            runs.push(run.with_context(|| sabotage.name().to_owned())?);
            if let Some(left) = left {
                bail!("{}: {left}", sabotage.name());
            }
        }
        let left_alone = runs.iter().filter(|run| run.dose.is_none());
        let alone = FullSpeed::of(left_alone.map(|run| &run.seen));
        if let Err(why) = sabotage.shows(&alone) {
            self.skip(sabotage, &why);
            return Ok(Vec::new());
        }
        let rows: Vec<Row> = runs.iter().map(|run| run.row(sabotage, &alone)).collect();
        rows.iter().for_each(|row| println!("{}", table::line(row.cells())));
        self.kept.ran(sabotage.name(), rows.clone());
        Ok(rows)
    }
}

/// One run, with its dose, or left alone.
struct Taken {
    seen: Seen,
    dose: Option<f64>,
}

impl Taken {
    fn row(&self, sabotage: &dyn Sabotage, alone: &FullSpeed) -> Row {
        let row = match self.dose {
            Some(dose) => judged(sabotage, &self.seen, alone, dose),
            None => untouched(sabotage, &self.seen, alone),
        };
        Row {
            sabotage: sabotage.name().to_owned(),
            sabotaged: self.dose.is_some(),
            dose: self.dose.map(|dose| sabotage.in_words(dose)).unwrap_or_default(),
            ..row
        }
    }
}

fn one(
    bench: &Bench,
    sabotage: &dyn Sabotage,
    sabotaged: bool,
    random: &mut Seeded,
) -> Result<Taken> {
    bench.settle();
    if bench.stop.load(Ordering::Relaxed) {
        bail!("stopped");
    }
    let dose = Some(sabotage.dose(random.share())).filter(|_| sabotaged);
    let mut launch = Launch::default();
    let mut imposed: Box<dyn Imposed> = match dose {
        Some(dose) => sabotage.impose(dose, bench.cpu, &mut launch)?,
        None => Box::new(Nothing),
    };
    let seen = bench.run(sabotage.metric(), &launch, imposed.as_mut())?;
    Ok(Taken { seen, dose })
}

/// A sabotaged run: the most frequent first cause of the records that it harmed must be one of the
/// sabotage's. A record that is at full speed all the same was not harmed.
fn judged(sabotage: &dyn Sabotage, seen: &Seen, alone: &FullSpeed, dose: f64) -> Row {
    let all: Vec<&Record> =
        seen.of_metric(sabotage.metric()).filter(|record| sabotage.touches(record)).collect();
    let is_harmed = |record: &&Record| alone.off(record, seen).is_none_or(|off| off > OFF_MAX);
    let touched: Vec<&Record> = all.iter().copied().filter(is_harmed).collect();
    let expected = if touched.is_empty() { &[] } else { sabotage.causes() };
    let first = most(&touched, |record| record.verdict.reasons.first().map(|one| one.cause));
    // A machine that others use has causes of its own, if its counters say so.
    let beneath = most(&touched, |record| {
        let mut causes = record.verdict.reasons.iter().map(|one| one.cause);
        causes.find(|cause| expected.contains(cause) || seen.moved(*cause, record) != Some(true))
    });
    let is_right = |cause: Option<Cause>| cause.is_some_and(|cause| expected.contains(&cause));
    let (truth, fits) = sabotage.truth(seen, alone, dose);
    let right = match (fits, expected.is_empty() || is_right(first), is_right(beneath)) {
        (true, true, _) => Right::Yes,
        (true, false, true) => Right::AfterAnother,
        _ => Right::No,
    };
    Row { truth, right, ..row(&all, expected, first) }
}

/// An untouched run: every first cause must be one whose counter moved.
fn untouched(sabotage: &dyn Sabotage, seen: &Seen, alone: &FullSpeed) -> Row {
    let records: Vec<&Record> = seen.of_metric(sabotage.metric()).collect();
    let mut right = Right::Yes;
    for record in &records {
        let first = record.verdict.reasons.first();
        match first.map(|reason| seen.moved(reason.cause, record)) {
            None | Some(Some(true)) => {}
            Some(Some(false)) => right = Right::FalseAlarm,
            Some(None) if right == Right::Yes => right = Right::Shape,
            Some(None) => {}
        }
    }
    if seen.document.run.clock.wall_step_ns.is_some() {
        right = Right::FalseAlarm;
    }
    let first = most(&records, |record| record.verdict.reasons.first().map(|one| one.cause));
    let off = records.iter().filter_map(|record| alone.off(record, seen)).reduce(f64::max);
    let claims =
        off.map_or_else(String::new, |off| format!(", full speed {:.1} % off", 100.0 * off));
    let truth = format!(
        "others {:.0} %, steal {:.0} ms, interrupts {:.0} ms{claims}",
        100.0 * seen.others().max(0.0),
        10.0 * seen.outside.stolen_ticks,
        10.0 * seen.outside.interrupt_ticks
    );
    Row { truth, right, ..row(&records, &[], first) }
}

fn row(records: &[&Record], expected: &[Cause], first: Option<Cause>) -> Row {
    let noisy = || records.iter().filter(|it| it.verdict.state == fathom_record::State::Noisy);
    let is_cause = |cause| expected.contains(&cause) || !is_shape(cause);
    let named = noisy().filter(|it| it.verdict.reasons.iter().any(|one| is_cause(one.cause)));
    let with_cause =
        |record: &&&Record| record.verdict.reasons.first().map(|reason| reason.cause) == first;
    let verdict = records.iter().find(with_cause).map_or("-", |one| one.verdict.state.word());
    let word = first.and_then(|cause| serde_json::to_value(cause).ok());
    let cause = word.as_ref().and_then(|word| word.as_str()).unwrap_or("-").to_owned();
    Row {
        sabotage: String::new(),
        sabotaged: false,
        dose: String::new(),
        verdict: verdict.to_owned(),
        cause,
        truth: String::new(),
        right: Right::No,
        noisy: noisy().count(),
        named: named.count(),
    }
}

/// The most frequent answer of those that there are.
fn most(records: &[&Record], of: impl Fn(&Record) -> Option<Cause>) -> Option<Cause> {
    let causes: Vec<Cause> = records.iter().filter_map(|record| of(record)).collect();
    let count = |cause: &Cause| causes.iter().filter(|one| *one == cause).count();
    causes.iter().max_by_key(|cause| count(cause)).copied()
}

fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<&str>>().join(" ")
}

/// Which of so many runs are sabotaged: half of them, in random order.
fn halves(random: &mut Seeded, runs: u32) -> Vec<bool> {
    let half = runs.div_ceil(2) as usize;
    random.shuffled(runs as usize).into_iter().map(|place| place < half).collect()
}

#[cfg(test)]
mod tests;
