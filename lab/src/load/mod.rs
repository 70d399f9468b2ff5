//! Known answers of `fathom load`: a limit of known size is imposed, and the load must name it.

mod page;
mod row;
mod trial;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result};
use fathom_lab::Unmet;
use fathom_lab::limited::{Found, Limit, Limited};
use fathom_lab::seeded::Seeded;

use row::{Outcome, Row};
use trial::Trial;

const PAGE: &str = "docs/LOAD-LAB.md";
/// Undetermined ones of all runs with a random limit.
const UNDETERMINED_MAX: f64 = 0.15;

/// All trials whose name contains `only`, `runs` of them with a random limit; true if their
/// answers are the known ones. Writes docs/LOAD-LAB.md unless `only` selects some.
pub(crate) fn run(root: &Path, program: &str, runs: u32, seed: u64, only: &str) -> Result<bool> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let program = std::fs::canonicalize(program).with_context(|| program.to_owned())?;
    let mut random = Seeded::of(seed, "load");
    let mut trials = trial::fixed();
    trials.extend((0..runs).map(|number| Trial::random(number, &mut random)));
    // Last, as they are mostly waiting.
    trials.sort_by_key(|trial| trial.think_s > 0.0 && trial.part != trial::RANDOM);
    let mut rows: Vec<Row> = Vec::new();
    println!("{}", page::line(&row::HEAD.map(str::to_owned)));
    for trial in trials.iter().filter(|trial| trial.part.contains(only)) {
        match measure(&program, trial, &stop) {
            Ok((row, machine)) => {
                println!("{}", page::line(&row.cells()));
                rows.push(row);
                if only.is_empty() {
                    let counts = Counts::of(&rows).words();
                    let text = page::page(&rows, &counts, &machine, runs, seed);
                    let path = root.join(PAGE);
                    std::fs::write(&path, text).with_context(|| path.display().to_string())?;
                }
            }
            Err(why) if why.is::<Unmet>() => println!("{}: skipped: {why}", trial.limit.words()),
            Err(why) => return Err(why.context(trial.limit.words())),
        }
    }
    let counts = Counts::of(&rows);
    println!("{}", counts.words());
    Ok(counts.is_good())
}

/// One load, and the machine it ran on.
fn measure(program: &Path, trial: &Trial, stop: &AtomicBool) -> Result<(Row, String)> {
    let folder = tempfile::tempdir_in("/var/tmp").context("create a folder")?;
    let place = (program, folder.path(), "load");
    let limited = Limited::start(place, trial.limit, trial.files)?;
    let rate = match trial.limit {
        Limit::ServerCpu(_) => by_wrk(&limited),
        limit => limit.throughput(trial.files.bytes),
    };
    let document = limited.measure(&trial.options, stop)?;
    let host = &document.host;
    let (model, logical) = (&host.cpu.model, host.cpu.logical);
    let machine = format!("{model}, {logical} logical CPUs, kernel {}", host.kernel);
    Ok((Row::of(trial, rate, &Found::of(&document)), machine))
}

/// The throughput of another load generator with as many clients. `None` without wrk.
fn by_wrk(limited: &Limited) -> Option<f64> {
    let authorization = format!("Authorization: Bearer {}", limited.token().ok()?);
    let mut wrk = std::process::Command::new("wrk");
    wrk.args(["-t1", "-c32", "-d3s", "-H", &authorization, &format!("{}f0", limited.url())]);
    let output = limited.beside(&mut wrk).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let rate = text.lines().find_map(|line| line.strip_prefix("Requests/sec:"));
    rate?.trim().parse().ok()
}

/// How often the answers were the known ones.
struct Counts {
    fixed: usize,
    fixed_right: usize,
    random: usize,
    right: usize,
    undetermined: usize,
    wrong: usize,
}

impl Counts {
    fn of(rows: &[Row]) -> Self {
        let is_random = |row: &&Row| row.part == trial::RANDOM;
        let count = |outcome: Outcome| {
            rows.iter().filter(is_random).filter(|row| row.outcome == outcome).count()
        };
        let fixed = || rows.iter().filter(|row| !is_random(row));
        let random = rows.iter().filter(is_random).count();
        let (right, undetermined) = (count(Outcome::Right), count(Outcome::Undetermined));
        Self {
            fixed: fixed().count(),
            fixed_right: fixed().filter(|row| row.outcome == Outcome::Right).count(),
            random,
            right,
            undetermined,
            wrong: random - right - undetermined,
        }
    }

    fn words(&self) -> String {
        let Self { fixed, fixed_right, random, right, undetermined, wrong } = self;
        format!(
            "{fixed_right} of {fixed} fixed limits right; of {random} random limits {right} right, \
             {undetermined} undetermined, {wrong} wrong"
        )
    }

    fn is_good(&self) -> bool {
        let undetermined_max = (UNDETERMINED_MAX * self.random as f64) as usize;
        self.fixed == self.fixed_right && self.wrong == 0 && self.undetermined <= undetermined_max
    }
}
