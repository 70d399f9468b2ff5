//! `xtask simulate RUNS SEED`: docs/SIMULATION.md, and whether every promise on it is kept.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use fathom_simulation::{Findings, Trials, simulate};

const PAGE: &str = "docs/SIMULATION.md";

pub(crate) fn trials(runs: &str, seed: &str) -> Result<Trials> {
    let runs: u32 = runs.parse().with_context(|| format!("{runs} is not a number of runs"))?;
    let seed: u64 = seed.parse().with_context(|| format!("{seed} is not a seed"))?;
    if runs < 100 {
        bail!("{runs} runs: at least 100 are needed, or chance explains anything");
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
        let refused = |runs, seed| trials(runs, seed).unwrap_err().to_string();
        assert_eq!(trials("100", "7").unwrap(), Trials { runs: 100, seed: 7 });
        assert!(refused("99", "7").contains("at least 100"));
        assert_eq!(refused("many", "7"), "many is not a number of runs");
        assert_eq!(refused("100", "-1"), "-1 is not a seed");
    }
}
