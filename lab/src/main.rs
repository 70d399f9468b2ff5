//! `make lab`: disturbs runs of `fathom` and counts how often their records name the cause; limits
//! loads, and counts how often they name the limit; has a thousand members join a fleet.
//! `make zoo`: runs `fathom` on emulated machines.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program talks to a terminal")]

mod cost;
mod differences;
mod filter;
mod fleet;
mod load;
mod questions;
mod remedies;
mod sabotage;
mod zoo;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: cargo run -p fathom-lab -- sabotage PROGRAM RUNS SEED [PART]\n\
     Runs PROGRAM RUNS times for each sabotage of a part (processor, program, memory, slope) or \
     whose name contains PART\n\
     usage: cargo run -p fathom-lab -- load PROGRAM RUNS SEED [PART]\n\
     Limits loads of PROGRAM by the limits of a part (fixed, random, nginx, theory) or whose name \
     contains PART, RUNS of them at random\n\
     usage: cargo run -p fathom-lab -- fleet PROGRAM MEMBERS SEED\n\
     Has so many emulated members join PROGRAM, and real ones start together\n\
     usage: cargo run -p fathom-lab -- cost PROGRAM RUNS [BUSY [ONLY]]\n\
     Has PROGRAM count what real programs do, RUNS of each timed; with BUSY programs of known \
     operations beside busy neighbours; those whose command contains ONLY, without a page\n\
     usage: cargo run -p fathom-lab -- remedies PROGRAM RUNS [PART]\n\
     Tries settings with PROGRAM, RUNS times each: all, or the parts whose name contains PART\n\
     usage: cargo run -p fathom-lab -- differences PROGRAM [PART]\n\
     Compares runs of PROGRAM, the second of each pair under a sabotage: all, or those whose name \
     contains PART\n\
     usage: cargo run -p fathom-lab -- questions PROGRAM\n\
     Asks PROGRAM twenty questions, on this machine as it is and busy\n\
     usage: cargo run -p fathom-lab -- relay NAMESPACE NAMESPACE DEVICE MS\n\
     Links two network namespaces by a device that adds MS to each round trip, until standard \
     input ends\n\
     usage: cargo run -p fathom-lab -- zoo X86_64 AARCH64 [PART]\n\
     Runs the static programs X86_64 and AARCH64 on emulated machines: all, those of `quick`, or \
     those whose name contains PART";

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
        [remedies::CHASE, mib, loads] => match (mib.parse(), loads.parse()) {
            (Ok(mib), Ok(loads)) => remedies::chase(mib, loads),
            _ => return usage(),
        },
        [filter::FILTERED, command @ ..] => filter::exec(command),
        [lab @ ("load" | "sabotage"), program, runs, seed, rest @ ..] if rest.len() <= 1 => {
            let (Ok(runs), Ok(seed)) = (runs.parse(), seed.parse()) else { return usage() };
            let only = rest.first().unwrap_or(&"");
            let run = if *lab == "load" { load::run } else { sabotage::run };
            run(root, program, runs, seed, only)
        }
        ["fleet", program, members, seed] => {
            let (Ok(members), Ok(seed)) = (members.parse(), seed.parse()) else { return usage() };
            fleet::run(root, program, members, seed)
        }
        ["cost", program, runs, rest @ ..] if rest.len() <= 2 => {
            let word = |at: usize| rest.get(at).copied().unwrap_or_default();
            cost::run(root, program, runs, !word(0).is_empty(), word(1))
        }
        ["differences", program, rest @ ..] if rest.len() <= 1 => {
            differences::run(root, program, rest.first().unwrap_or(&""))
        }
        ["remedies", program, runs, rest @ ..] if rest.len() <= 1 => {
            let Ok(runs) = runs.parse() else { return usage() };
            remedies::run(root, program, runs, rest.first().unwrap_or(&""))
        }
        ["questions", program] => questions::run(root, program),
        ["relay", near, far, device, ms] => {
            let Ok(ms) = ms.parse() else { return usage() };
            fleet::relay([near, far], device, ms)
        }
        ["zoo", x86, arm, rest @ ..] if rest.len() <= 1 => {
            zoo::run(root, [x86, arm], rest.first().unwrap_or(&""))
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
