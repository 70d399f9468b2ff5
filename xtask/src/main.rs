//! Chores: `xtask tidy` checks the tree, `xtask docs` generates files from the code, `xtask test`
//! runs everything that continuous integration runs and counts it, `xtask repeatability` takes
//! dozens of runs and writes down how well they repeat, `xtask simulate` how often the statistics
//! keep their word.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a chore talks to a terminal")]

mod docs;
mod repeatability;
mod simulate;
mod test;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "usage: cargo run -p xtask -- tidy | docs | docs --check | test | \
                     repeatability PROGRAM RUNS | simulate RUNS SEED";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let root = root();
    match words.as_slice() {
        ["tidy"] => report(tidy::check(&root)),
        ["docs"] => report(docs::write(&root)),
        ["docs", "--check"] => report(docs::check(&root)),
        ["repeatability", program, runs] => match runs.parse() {
            Ok(runs) => report(
                repeatability::write(&root, program, runs)
                    .err()
                    .map(|error| format!("{error:#}"))
                    .into_iter()
                    .collect(),
            ),
            Err(_) => report(vec![format!("{runs} is no number of runs")]),
        },
        ["simulate", runs, seed] => match simulate::trials(runs, seed) {
            Ok(trials) => report(simulate::write(&root, trials)),
            Err(problem) => report(vec![problem]),
        },
        ["test"] => test::everything(&root),
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

fn report(problems: Vec<String>) -> ExitCode {
    problems.iter().for_each(|problem| eprintln!("{problem}"));
    if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
