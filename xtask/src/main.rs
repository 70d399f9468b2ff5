//! Chores: `xtask tidy` checks the tree, `xtask docs` generates files from the code, `xtask test`
//! runs everything that continuous integration runs and counts it, `xtask repeatability` takes
//! dozens of runs and writes down how well they repeat, `xtask simulate` how often the statistics
//! keep their word, `xtask soak` what the tests of faults find with their full counts, `xtask
//! compare-check` counts how often a comparison finds a change, `xtask bench-store` times what
//! reads a store of a thousand runs.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a chore talks to a terminal")]

mod bench;
mod bench_store;
mod compare_check;
mod docs;
mod repeatability;
mod simulate;
mod soak;
mod test;
mod tidy;
mod web;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "usage: cargo run -p xtask -- tidy | docs | docs --check | test | \
                     repeatability PROGRAM RUNS [METRIC…] | simulate RUNS SEED | soak | \
                     bench-store PROGRAM [RUNS] [METRICS] | \
                     compare-check PROGRAM PAIRS";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let root = root();
    match words.as_slice() {
        ["tidy"] => report(tidy::check(&root)),
        ["docs"] => report(docs::write(&root)),
        ["docs", "--check"] => report(docs::check(&root)),
        ["repeatability", program, runs, metrics @ ..] => match runs.parse() {
            Ok(runs) => report(problems(repeatability::write(&root, program, runs, metrics))),
            Err(_) => report(vec![format!("{runs} is no number of runs")]),
        },
        ["simulate", runs, seed] => match simulate::trials(runs, seed) {
            Ok(trials) => report(simulate::write(&root, trials)),
            Err(problem) => report(vec![problem.to_string()]),
        },
        ["bench-store", program, rest @ ..] if rest.len() <= 2 => bench_store(program, rest),
        ["compare-check", program, pairs] => match pairs.parse() {
            Ok(pairs) => report(problems(compare_check::run(program, pairs))),
            Err(_) => report(vec![format!("{pairs} is no number of pairs")]),
        },
        ["soak"] => report(problems(soak::write(&root))),
        ["test"] => test::everything(&root),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// `xtask bench-store`: 0 where everything answered in the time promised.
fn bench_store(program: &str, rest: &[&str]) -> ExitCode {
    let number = |at: usize, otherwise: usize| {
        rest.get(at).map_or(Some(otherwise), |text| text.parse().ok().filter(|one| *one > 1))
    };
    match (number(0, 1000), number(1, 150)) {
        (Some(runs), Some(records)) => report(problems(bench_store::run(program, runs, records))),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// The workspace's folder.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

fn problems(outcome: anyhow::Result<()>) -> Vec<String> {
    outcome.err().map(|error| format!("{error:#}")).into_iter().collect()
}

fn report(problems: Vec<String>) -> ExitCode {
    problems.iter().for_each(|problem| eprintln!("{problem}"));
    if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
