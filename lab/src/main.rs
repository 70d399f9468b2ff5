//! `make lab`: disturbs runs of `fathom` and counts how often their records name the cause.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program talks to a terminal")]

mod sabotage;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: cargo run -p fathom-lab -- PROGRAM [RUNS] [SEED] [SABOTAGE]\n\
     Runs PROGRAM RUNS times (default 10) for each sabotage whose name contains SABOTAGE";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let good = match words.as_slice() {
        [sabotage::NEIGHBOUR, cpu, nice, share, in_spells] => {
            match (cpu.parse(), nice.parse(), share.parse(), in_spells.parse()) {
                (Ok(cpu), Ok(nice), Ok(share), Ok(in_spells)) => {
                    sabotage::neighbour(cpu, nice, share, in_spells)
                }
                _ => return usage(),
            }
        }
        [program, rest @ ..] if rest.len() <= 3 => {
            let number = |at: usize, default| {
                rest.get(at).map_or(Some(default), |text| text.parse::<u64>().ok())
            };
            let (Some(runs), Some(seed)) = (number(0, 10), number(1, 1)) else { return usage() };
            let here = Path::new(env!("CARGO_MANIFEST_DIR"));
            let root = here.parent().unwrap_or(here);
            sabotage::run(root, program, runs.min(1000) as u32, seed, rest.get(2).unwrap_or(&""))
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

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}
