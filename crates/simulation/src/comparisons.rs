//! What a comparison of two runs of the same thing alarms at (rule 27): the interval of the ratio
//! that does not hold it, and the rank test.

use fathom_analysis::statistics::{mann_whitney, ratio_of_medians};

use crate::chance::Rate;
use crate::coverage::PROCESSES;
use crate::parallel::each;
use crate::section::{Section, alarms, cells};
use crate::worlds::{TRUTH, WORLDS, World, world};
use crate::{Source, Trials};

/// The level of the rank test, and what the ratio's interval leaves.
const NOMINAL: f64 = 0.05;
/// What both are promised to stay below.
const PROMISED: f64 = 0.06;

#[derive(Default)]
struct Figure {
    ratio: Rate,
    test: Rate,
}

impl Figure {
    fn of(name: &str, trials: Trials, sides: impl Fn(&mut Source) -> Sides) -> Self {
        let mut source = Source::named(trials.seed, &format!("comparison {name}"));
        let mut figure = Self::default();
        for _ in 0..trials.runs {
            let (a, b) = sides(&mut source);
            let seed = source.bits();
            let ratio = ratio_of_medians(&a, &b, seed);
            figure.ratio.note(ratio.is_some_and(|ratio| ratio.low > 1.0 || ratio.high < 1.0));
            figure.test.note(mann_whitney(&a, &b).is_some_and(|test| test.p < NOMINAL));
        }
        figure
    }
}

/// The process medians of two runs.
type Sides = (Vec<f64>, Vec<f64>);

/// Two runs of which neither changed, and which are unlike all the same.
struct Unlike {
    name: &'static str,
    /// Whether the promise holds for it.
    promised: bool,
    sides: fn(&mut Source, usize) -> Sides,
}

const UNLIKE: [Unlike; 6] = [
    Unlike {
        name: "normal, four times as many processes in B",
        promised: true,
        sides: |source, n| (normal(source, n), normal(source, 4 * n)),
    },
    Unlike {
        name: "normal, B three times as wide",
        promised: true,
        sides: |source, n| (normal(source, n), widened(normal(source, n), 3.0)),
    },
    Unlike {
        name: "normal, four times as many in B, three times as wide",
        promised: false,
        sides: |source, n| (normal(source, n), widened(normal(source, 4 * n), 3.0)),
    },
    Unlike {
        name: "normal, four times as many in A, B three times as wide",
        promised: false,
        sides: |source, n| (normal(source, 4 * n), widened(normal(source, n), 3.0)),
    },
    Unlike {
        name: "normal against log-normal",
        promised: true,
        sides: |source, n| (normal(source, n), world("log-normal").medians(source, n)),
    },
    Unlike {
        name: "normal, each run slower or faster as a whole, by half of what processes differ",
        promised: false,
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
Two runs of the same thing, with as many processes each: how often the bootstrap interval of the
ratio excludes 1, and how often the rank test of Mann and Whitney has p < 0.05, in per cent. Neither
threshold of the effect is applied. Both are a matter of scale: a true ratio of 1.1 is missed as
often as one of 1. **Bold** is above 5 % by more than chance.";

const BOOTSTRAP: &str = "\
The bootstrap of a *median* does not alarm too often with five processes; that of a mean does, at
12 %. Its limits are, nearly, order statistics: with 5 against 5 it excludes 1 in almost the same
orders as the exact rank test, 8 of 252, which is 3.2 %. Where a clock's steps tie values, it alarms
less.";

const SIDES: &str = "\
The same where the two sides are unlike. The rank test then alarms where no median changed, which is
why the word of a change rests on the interval of the ratio. What differs from run to run and not
from process to process is in no interval: two runs cannot tell it from a change. `make
repeatability` shows how much of it a machine has.";

pub(crate) fn section(trials: Trials) -> Section {
    let mut section = Section::titled("Two runs of the same thing", WORDS);
    let items: Vec<(&World, usize)> =
        WORLDS.iter().flat_map(|world| PROCESSES.map(|processes| (world, processes))).collect();
    let figures = each(&items, |(world, processes)| {
        let name = format!("{} {processes}", world.name);
        Figure::of(&name, trials, |source| {
            (world.medians(source, *processes), world.medians(source, *processes))
        })
    });
    for ((world, processes), figure) in items.iter().zip(&figures) {
        let what = format!("{}, {processes} processes", world.name);
        section.at_most(figure.ratio, PROMISED, &format!("ratio, {what}"));
        section.at_most(figure.test, PROMISED, &format!("rank test, {what}"));
        // Nor is it kept by alarming at nothing: ties and a drift that both share are the reasons.
        if world.kind.is_independent() && world.name != "quantised" {
            section.at_least(figure.ratio, 0.02, &format!("ratio, {what}"));
            section.at_least(figure.test, 0.03, &format!("rank test, {what}"));
        }
    }
    let names: Vec<&str> = WORLDS.iter().map(|world| world.name).collect();
    table(&mut section, "shape", &names, &figures);
    section.say(BOOTSTRAP);
    section.say(SIDES);
    unlike(&mut section, trials);
    section
}

fn unlike(section: &mut Section, trials: Trials) {
    let items: Vec<(&Unlike, usize)> =
        UNLIKE.iter().flat_map(|unlike| PROCESSES.map(|processes| (unlike, processes))).collect();
    let figures = each(&items, |(unlike, processes)| {
        let name = format!("{} {processes}", unlike.name);
        Figure::of(&name, trials, |source| (unlike.sides)(source, *processes))
    });
    for ((unlike, processes), figure) in items.iter().zip(&figures) {
        if unlike.promised {
            let what = format!("ratio, {}, {processes} processes", unlike.name);
            section.at_most(figure.ratio, PROMISED, &what);
        }
    }
    let names: Vec<&str> = UNLIKE.iter().map(|unlike| unlike.name).collect();
    table(section, "A and B", &names, &figures);
}

fn table(section: &mut Section, of: &str, names: &[&str], figures: &[Figure]) {
    let mut header = cells([of]);
    for processes in PROCESSES {
        header.extend([format!("{processes} processes: ratio"), "rank test".to_owned()]);
    }
    let rows: Vec<Vec<String>> = names
        .iter()
        .zip(figures.chunks(PROCESSES.len()))
        .map(|(name, figures)| {
            let mut row = cells([*name]);
            for figure in figures {
                row.extend([alarms(figure.ratio, NOMINAL), alarms(figure.test, NOMINAL)]);
            }
            row
        })
        .collect();
    section.table(&header, &rows);
}
