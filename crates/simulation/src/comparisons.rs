//! False alarms of a comparison of two runs of the same thing (rule 27): by the interval of the
//! ratio, and by the rank test.

use fathom_analysis::statistics::{mann_whitney, ratio_of_medians};

use crate::chance::ChanceRate;
use crate::coverage::PROCESSES;
use crate::experiment::Experiment;
use crate::section::{Section, marked_above};
use crate::worlds::{TRUTH, WORLDS, world};
use crate::{Source, Trials};

/// Nominal rate of false alarms.
const NOMINAL: f64 = 0.05;
/// Guaranteed upper limit of the rate.
const GUARANTEED: f64 = 0.06;

/// Counts ratios whose interval excludes 1, and alarms of the rank test.
fn count((a, b): Sides, seed: u64, [ratios, tests]: &mut [ChanceRate; 2]) {
    let ratio = ratio_of_medians(&a, &b, seed);
    ratios.count(ratio.is_some_and(|ratio| ratio.low > 1.0 || ratio.high < 1.0));
    tests.count(mann_whitney(&a, &b).is_some_and(|test| test.p < NOMINAL));
}

fn heads(processes: &usize) -> String {
    format!("{processes} processes: ratio | rank test")
}

fn cells<R>(_: &R, _: &usize, rates: &[ChanceRate; 2]) -> String {
    rates.map(|rate| marked_above(rate, NOMINAL)).join(" | ")
}

/// The process medians of two runs.
type Sides = (Vec<f64>, Vec<f64>);

/// Two runs without a change, with different distributions or numbers of processes.
struct UnequalSides {
    name: &'static str,
    guaranteed: bool,
    sides: fn(&mut Source, usize) -> Sides,
}

const UNEQUAL_SIDES: [UnequalSides; 6] = [
    UnequalSides {
        name: "normal, four times as many processes in B",
        guaranteed: true,
        sides: |source, n| (normal(source, n), normal(source, 4 * n)),
    },
    UnequalSides {
        name: "normal, B three times as wide",
        guaranteed: true,
        sides: |source, n| (normal(source, n), widened(normal(source, n), 3.0)),
    },
    UnequalSides {
        name: "normal, four times as many in B, three times as wide",
        guaranteed: false,
        sides: |source, n| (normal(source, n), widened(normal(source, 4 * n), 3.0)),
    },
    UnequalSides {
        name: "normal, four times as many in A, B three times as wide",
        guaranteed: false,
        sides: |source, n| (normal(source, 4 * n), widened(normal(source, n), 3.0)),
    },
    UnequalSides {
        name: "normal against log-normal",
        guaranteed: true,
        sides: |source, n| (normal(source, n), world("log-normal").medians(source, n)),
    },
    UnequalSides {
        name: "normal, each run slower or faster as a whole, by half of what processes differ",
        guaranteed: false,
        sides: |source, n| {
            let run = |source: &mut Source| {
                let off = 0.5 * source.normal();
                normal(source, n).into_iter().map(|median| median + off).collect()
            };
            (run(source), run(source))
        },
    },
];

fn normal(source: &mut Source, processes: usize) -> Vec<f64> {
    world("normal").medians(source, processes)
}

fn widened(medians: Vec<f64>, by: f64) -> Vec<f64> {
    medians.into_iter().map(|median| TRUTH + by * (median - TRUTH)).collect()
}

const WORDS: &str = "\
Two runs of the same thing, with the same number of processes: how often the bootstrap interval of
the ratio excludes 1, and how often the Mann-Whitney rank test has p < 0.05, in per cent. No
threshold of effect size is applied. Neither depends on scale: the results for a true ratio of 1.1
are the same. **Bold**: above 5 % by more than chance.";

const BOOTSTRAP: &str = "\
The bootstrap of a *median* does not have too many false alarms with five processes; the bootstrap
of a mean has 12 %. Its limits are nearly order statistics: with 5 against 5 it excludes 1 in almost
the same orders as the exact rank test, 8 of 252, or 3.2 %. Ties, from the steps of a clock, make
alarms rarer.";

const SIDES: &str = "\
The same for two sides with different distributions. The rank test then alarms although no median
changed, so the verdict of a comparison uses the interval of the ratio. Variation from run to run
that is not between processes is in no interval: two runs cannot separate it from a change. `make
repeatability` measures it for a machine.";

pub(crate) fn section(trials: Trials) -> Section {
    let mut section = Section::new("Two runs of the same thing", WORDS);
    Experiment {
        rows: &WORLDS,
        columns: &PROCESSES,
        name: |world, processes| format!("comparison {} {processes}", world.name),
        trial: |world, processes, source, counts| {
            let sides = (world.medians(source, *processes), world.medians(source, *processes));
            count(sides, source.bits(), counts);
        },
        check: |section, world, processes, &[ratio, test]| {
            let [of_ratio, of_test] = ["ratio", "rank test"]
                .map(|of| format!("{of}, {}, {processes} processes", world.name));
            section.at_most(ratio, GUARANTEED, &of_ratio);
            section.at_most(test, GUARANTEED, &of_test);
            // A test that never alarms is wrong too, except with ties or a drift in both runs.
            if world.kind.is_independent() && world.name != "quantised" {
                section.at_least(ratio, 0.02, &of_ratio);
                section.at_least(test, 0.03, &of_test);
            }
        },
        head: "shape",
        title: |world| world.name.to_owned(),
        heads,
        cells,
    }
    .run(&mut section, trials);
    section.paragraph(BOOTSTRAP);
    section.paragraph(SIDES);
    Experiment {
        rows: &UNEQUAL_SIDES,
        columns: &PROCESSES,
        name: |case, processes| format!("comparison {} {processes}", case.name),
        trial: |case, processes, source, counts| {
            count((case.sides)(source, *processes), source.bits(), counts);
        },
        check: |section, case, processes, &[ratio, _]| {
            if case.guaranteed {
                let what = format!("ratio, {}, {processes} processes", case.name);
                section.at_most(ratio, GUARANTEED, &what);
            }
        },
        head: "A and B",
        title: |case| case.name.to_owned(),
        heads,
        cells,
    }
    .run(&mut section, trials);
    section
}
