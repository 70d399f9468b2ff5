//! `make lab`: disturbs runs of `fathom` and counts how often their records name the cause; limits
//! loads, and counts how often they name the limit.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program talks to a terminal")]

mod load;
mod sabotage;

use std::path::Path;
use std::process::ExitCode;

/// The first word of the part of loads.
const LOAD: &str = "load";
const USAGE: &str = "usage: cargo run -p fathom-lab -- PROGRAM [RUNS] [SEED] [SABOTAGE]\n\
     Runs PROGRAM RUNS times (default 10) for each sabotage whose name contains SABOTAGE\n\
     usage: cargo run -p fathom-lab -- load PROGRAM [RUNS] [SEED] [LIMIT]\n\
     Limits loads of PROGRAM by limits whose name contains LIMIT, RUNS of them (default 20) random";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.parent().unwrap_or(here);
    let good = match words.as_slice() {
        [sabotage::NEIGHBOUR, cpu, nice, share, in_spells] => {
            match (cpu.parse(), nice.parse(), share.parse(), in_spells.parse()) {
                (Ok(cpu), Ok(nice), Ok(share), Ok(in_spells)) => {
                    sabotage::neighbour(cpu, nice, share, in_spells)
                }
                _ => return usage(),
            }
        }
        [LOAD, program, rest @ ..] if rest.len() <= 3 => {
            let Some((runs, seed, only)) = numbers(rest, 20) else { return usage() };
            load::run(root, program, runs, seed, only)
        }
        [program, rest @ ..] if rest.len() <= 3 => {
            let Some((runs, seed, only)) = numbers(rest, 10) else { return usage() };
            sabotage::run(root, program, runs, seed, only)
        }
        _ => return usage(),
    };
    match good {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The number of runs, the seed, and which parts.
fn numbers<'w>(words: &[&'w str], default: u64) -> Option<(u32, u64, &'w str)> {
    let number =
        |at: usize, default: u64| words.get(at).map_or(Some(default), |it| it.parse().ok());
    let runs = number(0, default)?.min(1000) as u32;
    Some((runs, number(1, 1)?, words.get(2).unwrap_or(&"")))
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}
