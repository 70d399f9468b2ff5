//! Every promise of docs/SIMULATION.md, in a number of runs that takes seconds.

use fathom_simulation::{Trials, simulate};

/// Enough that an interval one rank too narrow is seen.
const TRIALS: Trials = Trials { runs: 200, seed: 20_260_101 };

#[test]
fn every_interval_and_alarm_keeps_its_promise() {
    let findings = simulate(TRIALS, &mut |_| {});
    assert!(findings.broken.is_empty(), "{:#?}\n{}", findings.broken, findings.page);
}

#[test]
fn seed_decides_the_page() {
    let page = |seed| simulate(Trials { runs: 3, seed }, &mut |_| {}).page;
    assert_eq!(page(1), page(1));
    // Beyond the first lines, which name the seed.
    let figures = |page: String| page.lines().skip(8).collect::<Vec<&str>>().join("\n");
    assert_ne!(figures(page(1)), figures(page(2)));
}
