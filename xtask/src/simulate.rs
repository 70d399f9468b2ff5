//! `xtask simulate RUNS SEED`: writes docs/evidence/SIMULATION.md, and checks its guarantees; with
//! the name of a part prints that alone.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use fathom_lab::evidence::{Criterion, EvidenceContents, EvidenceOrigin, SIMULATION};
use fathom_simulation::{Findings, Trials, simulate, simulate_part};

pub(crate) fn trials(runs: &str, seed: &str) -> Result<Trials> {
    let runs: u32 = runs.parse().with_context(|| format!("{runs} is not a number of runs"))?;
    let seed: u64 = seed.parse().with_context(|| format!("{seed} is not a seed"))?;
    if runs < 100 {
        bail!("{runs} runs: at least 100 are required, else every deviation is within chance");
    }
    Ok(Trials { runs, seed })
}

/// Simulates, writes the page, and returns the violated guarantees.
pub(crate) fn write(root: &Path, trials: Trials) -> Result<Vec<String>> {
    let origin = EvidenceOrigin::here(root);
    let Findings { page, violations } =
        simulate(trials, &mut |part| eprintln!("simulating {part}"));
    let mut criteria = vec![Criterion::new("every guarantee is kept", violations.is_empty())];
    criteria.extend(violations.into_iter().map(|violation| Criterion::new(violation, false)));
    let contents = EvidenceContents {
        parameters: &[("RUNS", trials.runs.to_string()), ("SEED", trials.seed.to_string())],
        origins: &[("", &origin)],
        criteria: &criteria,
        body: &page,
    };
    SIMULATION.write(root, &contents).context(SIMULATION.path())
}

/// Simulates one part, prints its section, and returns the violated guarantees.
pub(crate) fn print(part: &str, trials: Trials) -> Result<Vec<String>> {
    let found = simulate_part(part, trials);
    let Findings { page, violations } =
        found.with_context(|| format!("no part is named {part}"))?;
    let section = page.find("\n## ").map_or(&*page, |at| &page[at + 1..]);
    print!("{section}");
    Ok(violations)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_runs_and_invalid_numbers_are_rejected() {
        let error = |runs, seed| trials(runs, seed).unwrap_err().to_string();
        assert_eq!(trials("100", "7").unwrap(), Trials { runs: 100, seed: 7 });
        assert!(error("99", "7").contains("at least 100"));
        assert_eq!(error("many", "7"), "many is not a number of runs");
        assert_eq!(error("100", "-1"), "-1 is not a seed");
    }
}
