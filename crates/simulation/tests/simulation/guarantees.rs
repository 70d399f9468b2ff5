//! The guarantees of docs/SIMULATION.md, with fewer runs.

use fathom_simulation::{Trials, simulate};

/// Enough to detect an interval that is one rank too narrow.
const TRIALS: Trials = Trials { runs: 200, seed: 20_260_101 };

#[test]
fn no_guarantee_is_violated() {
    let findings = simulate(TRIALS, &mut |_| {});
    assert!(findings.violations.is_empty(), "{:#?}\n{}", findings.violations, findings.page);
}

#[test]
fn seed_decides_the_page() {
    let page = |seed| simulate(Trials { runs: 3, seed }, &mut |_| {}).page;
    assert_eq!(page(1), page(1));
    // The first lines contain the seed.
    let figures = |page: String| page.lines().skip(8).collect::<Vec<&str>>().join("\n");
    assert_ne!(figures(page(1)), figures(page(2)));
}
