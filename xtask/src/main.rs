//! Development commands:
//!
//! - `tidy` checks the source tree, `structure` prints what it counts inside crates
//! - `test` runs all checks and tests of CI, `lab` those that measure this machine
//! - `repeat` runs tests many times beside each other, `flaky` under hard conditions
//! - `docs` generates docs/METRICS.md and the JSON schemas
//! - `repeatability` measures how well runs repeat
//! - `simulate` counts the coverage of intervals and the false alarms
//! - `fuzz` fuzzes the parsers of what other ends send
//! - `soak` runs the fault tests with their full counts
//! - `compare-check` counts the changes that a comparison finds
//! - `typical` adds machines to the collection of typical values
//! - `bench-store` times commands on a store of a thousand runs
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a development command prints")]

mod answers;
mod bench;
mod bench_store;
mod compare_check;
mod docs;
#[cfg(test)]
mod evidence;
mod flaky;
mod fuzz;
mod repeatability;
mod runner;
mod simulate;
mod soak;
mod test;
mod tidy;
mod typical;
mod web;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use runner::RunnerSuite;

const USAGE: &str = "usage: cargo run -p xtask -- tidy | structure | docs | docs --check | \
                     test [PART] | lab [PART] | repeat TIMES NAME | \
                     flaky loaded|stranger|twice | flaky repeated NAME | \
                     repeatability PROGRAM RUNS [METRIC…] | simulate RUNS SEED [PART] | \
                     fuzz SECONDS [TARGET…] | soak [TEST] | bench-store PROGRAM [RUNS] [METRICS] | \
                     compare-check PROGRAM PAIRS | typical FILE…";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let root = root();
    match words.as_slice() {
        ["tidy"] => report(tidy::check(&root)),
        ["structure"] => {
            print!("{}", tidy::structure(&root));
            ExitCode::SUCCESS
        }
        ["docs"] => report(docs::write(&root)),
        ["docs", "--check"] => report(docs::check(&root)),
        ["repeatability", program, runs, metrics @ ..] => match runs.parse() {
            Ok(runs) => report(lines(repeatability::write(&root, program, runs, metrics))),
            Err(_) => report(vec![format!("{runs} is not a number of runs")]),
        },
        ["simulate", runs, seed] => match simulate::trials(runs, seed) {
            Ok(trials) => report(lines(simulate::write(&root, trials))),
            Err(problem) => report(vec![problem.to_string()]),
        },
        ["simulate", runs, seed, part] => match simulate::trials(runs, seed) {
            Ok(trials) => report(lines(simulate::print(part, trials))),
            Err(problem) => report(vec![problem.to_string()]),
        },
        ["bench-store", program, rest @ ..] if rest.len() <= 2 => bench_store(program, rest),
        ["compare-check", program, pairs] => match pairs.parse() {
            Ok(pairs) => report(problems(compare_check::run(program, pairs))),
            Err(_) => report(vec![format!("{pairs} is no number of pairs")]),
        },
        ["fuzz", seconds, targets @ ..] => report(lines(fuzz::run(&root, seconds, targets))),
        ["soak"] => report(lines(soak::write(&root, None))),
        ["soak", name] => report(lines(soak::write(&root, Some(name)))),
        ["test"] => test::everything(&root),
        ["test", part] => test::named(&root, RunnerSuite::Deterministic, part),
        ["repeat", times, part] => match times.parse() {
            Ok(times) => test::repeated(&root, times, part),
            Err(_) => report(vec![format!("{times} is not a number of runs")]),
        },
        ["flaky", condition] => report(lines(flaky::run(&root, condition, None))),
        ["flaky", condition, program] => report(lines(flaky::run(&root, condition, Some(program)))),
        ["typical", files @ ..] if !files.is_empty() => {
            report(typical::add(&root, files).err().into_iter().collect())
        }
        ["lab"] => test::named(&root, RunnerSuite::Lab, ""),
        ["lab", part] => test::named(&root, RunnerSuite::Lab, part),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// Fails if a command exceeds its time limit.
fn bench_store(program: &str, rest: &[&str]) -> ExitCode {
    let number = |at: usize, default: usize| {
        rest.get(at).map_or(Some(default), |text| text.parse().ok().filter(|it| *it > 1))
    };
    match (number(0, 1000), number(1, 150)) {
        (Some(runs), Some(records)) => report(problems(bench_store::run(program, runs, records))),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

fn problems(outcome: anyhow::Result<()>) -> Vec<String> {
    lines(outcome.map(|()| Vec::new()))
}

/// What was missed, or the error.
fn lines(outcome: anyhow::Result<Vec<String>>) -> Vec<String> {
    outcome.unwrap_or_else(|error| vec![format!("{error:#}")])
}

fn report(problems: Vec<String>) -> ExitCode {
    problems.iter().for_each(|problem| eprintln!("{problem}"));
    if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
