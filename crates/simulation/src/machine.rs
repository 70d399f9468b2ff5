//! Whether the machine is said to have changed over a run when it did not (rule 23).

use fathom_analysis::judge::{machine_drift, machine_wander};

use crate::chance::Rate;
use crate::parallel::each;
use crate::section::{Section, alarms, cells, percent};
use crate::shapes::{Draw, alike, heavy, log_normal, normal, slightly_alike};
use crate::{Source, Trials};

/// Visits of a run: of one metric alone, of some, of all.
const VISITS: [usize; 3] = [10, 50, 200];

struct Loops {
    name: &'static str,
    draw: Draw,
    /// What one deviation is, in shares of the loop.
    deviation: f64,
    /// What is promised of alarms.
    promised: Option<f64>,
}

const LOOPS: [Loops; 7] = [
    Loops { name: "normal, ± 30 %", draw: normal, deviation: 0.3, promised: Some(0.04) },
    Loops { name: "log-normal, ± 30 %", draw: log_normal, deviation: 0.3, promised: Some(0.04) },
    Loops { name: "heavy tail, ± 30 %", draw: heavy, deviation: 0.3, promised: Some(0.04) },
    Loops { name: "normal, ± 1 %", draw: normal, deviation: 0.01, promised: Some(0.04) },
    Loops {
        name: "AR(1), ρ = 0.3, ± 1 %", draw: slightly_alike, deviation: 0.01, promised: None
    },
    Loops { name: "AR(1), ρ = 0.8, ± 1 %", draw: alike, deviation: 0.01, promised: None },
    Loops { name: "AR(1), ρ = 0.8, ± 3 %", draw: alike, deviation: 0.03, promised: None },
];

/// What the reference loop takes, in nanoseconds, and how long a visit with it.
const LOOP_NS: f64 = 10_000.0;
const VISIT_NS: u64 = 100_000_000;

/// When each visit was, and what the loop takes where the machine is so many deviations slow.
fn times(visits: &[f64], deviation: f64) -> Vec<(u64, f64)> {
    let times = visits.iter().map(|state| (LOOP_NS * (1.0 + deviation * state)).max(1.0));
    (0..).zip(times).map(|(at, ns)| (at * VISIT_NS, ns)).collect()
}

#[derive(Default)]
struct Figure {
    drift: Rate,
    wander: Rate,
}

impl Figure {
    fn of(loops: &Loops, visits: usize, trials: Trials) -> Self {
        let name = format!("machine {} {visits}", loops.name);
        let mut source = Source::named(trials.seed, &name);
        let mut figure = Self::default();
        for _ in 0..trials.runs {
            let seen = times(&(loops.draw)(&mut source, visits), loops.deviation);
            figure.drift.note(machine_drift(&seen).is_some());
            figure.wander.note(machine_wander(&seen).is_some());
        }
        figure
    }
}

const WORDS: &str = "\
The reference loop in a machine that does not drift: how often it is said to have become slower or
faster (*drift*: the slope is significant, and above 2 % over the run), and how often to be
autocorrelated from visit to visit (*wander*: by more than 0.5 %), in per cent of the runs. With
± 30 % the thresholds play no part. Where it is autocorrelated, wandering is the truth, and a drift
is one that happened by chance and went on for the length of the run.";

pub(crate) fn section(trials: Trials) -> Section {
    let items: Vec<(&Loops, usize)> =
        LOOPS.iter().flat_map(|loops| VISITS.map(|visits| (loops, visits))).collect();
    let figures = each(&items, |(loops, visits)| Figure::of(loops, *visits, trials));
    let mut section = Section::titled("Drift of the machine", WORDS);
    for ((loops, visits), figure) in items.iter().zip(&figures) {
        let what = format!("{}, {visits} visits", loops.name);
        if let Some(promised) = loops.promised {
            section.at_most(figure.drift, promised, &format!("drift of the machine, {what}"));
            section.at_most(figure.wander, 0.005, &format!("wandering of the machine, {what}"));
        } else if *visits >= 50 && loops.name.contains("0.8") {
            section.at_least(figure.wander, 0.95, &format!("wandering of the machine, {what}"));
        }
    }
    let mut header = cells(["loops"]);
    for visits in VISITS {
        header.extend([format!("{visits} visits: drift"), "wander".to_owned()]);
    }
    let rows: Vec<Vec<String>> = LOOPS
        .iter()
        .zip(figures.chunks(VISITS.len()))
        .map(|(loops, figures)| {
            let mut row = cells([loops.name]);
            for figure in figures {
                row.extend([alarms(figure.drift, 0.05), percent(figure.wander.share())]);
            }
            row
        })
        .collect();
    section.table(&header, &rows);
    section
}
