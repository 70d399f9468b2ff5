//! The guarantees of docs/evidence/SIMULATION.md, with as many runs as take a second.

use fathom_simulation::{Trials, simulate_part};

const SEED: u64 = 20_260_101;

fn assert_kept(part: &str, runs: u32) {
    let findings = simulate_part(part, Trials { runs, seed: SEED }).expect(part);
    assert!(findings.violations.is_empty(), "{:#?}\n{}", findings.violations, findings.page);
}

/// A test for each row: its parts, with this many runs each.
macro_rules! kept {
    ($($(#[$why:meta])* $name:ident: $($part:literal $runs:literal),+;)+) => {
        $($(#[$why])* #[test] fn $name() { $(assert_kept($part, $runs);)+ })+
    };
}

kept! {
    /// 200 are enough to detect an interval that is one rank too narrow.
    intervals_over_processes_are_kept:
        "intervals over processes" 200, "episodes" 50, "a plan after a pilot" 2_400;
    states_of_the_core_are_kept: "states of the core" 20;
    intervals_within_a_run_are_kept: "intervals within one run" 60;
    derived_metrics_are_kept: "derived metrics" 100;
    trimmed_protocol_is_kept: "the trimmed protocol" 50;
    comparisons_are_kept: "comparisons" 50;
    comparisons_of_many_cases_are_kept: "comparisons of many cases" 20;
    common_factors_are_kept: "common factors" 240;
    gate_of_an_unchanged_machine_is_kept: "the gate" 1;
    first_bad_commit_is_found: "the first bad commit" 500;
    highest_rate_is_kept: "the highest rate" 200, "quantiles of a load" 250;
    machine_and_effects_are_kept: "the machine" 200, "effects of factors" 200;
    odd_hosts_and_links_are_kept: "many hosts" 1_000;
    saturation_is_kept: "saturation of a load" 150;
}

#[test]
fn seed_decides_the_page() {
    let page = |seed| {
        simulate_part("a plan after a pilot", Trials { runs: 48, seed }).expect("a part").page
    };
    assert_eq!(page(1), page(1));
    // The first lines contain the seed.
    let figures = |page: String| page.lines().skip(8).collect::<Vec<&str>>().join("\n");
    assert_ne!(figures(page(1)), figures(page(2)));
}
