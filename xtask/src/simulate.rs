//! `xtask simulate RUNS SEED`: docs/SIMULATION.md, and whether every promise on it is kept.

use std::path::Path;

use fathom_simulation::{Findings, Trials, simulate};

/// Where the page is.
const PAGE: &str = "docs/SIMULATION.md";

/// Reads the arguments.
pub(crate) fn trials(runs: &str, seed: &str) -> Result<Trials, String> {
    let wrong = |what: &str, got: &str| format!("{got} is no {what}");
    let runs: u32 = runs.parse().map_err(|_| wrong("number of runs", runs))?;
    let seed: u64 = seed.parse().map_err(|_| wrong("seed", seed))?;
    if runs < 100 {
        return Err(format!("{runs} runs: at least 100 are needed, or chance explains anything"));
    }
    Ok(Trials { runs, seed })
}

/// Simulates, writes the page, and returns the promises that were broken.
pub(crate) fn write(root: &Path, trials: Trials) -> Vec<String> {
    let Findings { page, mut broken } =
        simulate(trials, &mut |part| eprintln!("simulating {part}"));
    if let Err(error) = std::fs::write(root.join(PAGE), page) {
        broken.push(format!("write {PAGE}: {error}"));
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_runs_and_what_is_no_number_are_refused() {
        assert_eq!(trials("100", "7"), Ok(Trials { runs: 100, seed: 7 }));
        assert!(trials("99", "7").unwrap_err().contains("at least 100"));
        assert_eq!(trials("many", "7").unwrap_err(), "many is no number of runs");
        assert_eq!(trials("100", "-1").unwrap_err(), "-1 is no seed");
    }
}
