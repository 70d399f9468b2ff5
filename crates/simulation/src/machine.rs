//! Whether the machine is said to have changed over a run when it did not (rule 23).

use fathom_analysis::judge::{machine_drift, machine_wander};

use crate::chance::Rate;
use crate::parallel::each;
use crate::section::{Section, alarms, cells, percent};
use crate::shapes::{Draw, alike, heavy, log_normal, normal, slightly_alike};
use crate::worlds::spins;
use crate::{Source, Trials};

/// Visits of a run: of one metric alone, of some, of all.
const VISITS: [usize; 3] = [10, 50, 200];

struct Spins {
    name: &'static str,
    draw: Draw,
    /// What one deviation is, in shares of the spin.
    deviation: f64,
    /// What is promised of alarms.
    promised: Option<f64>,
}

const SPINS: [Spins; 7] = [
    Spins { name: "normal, ± 30 %", draw: normal, deviation: 0.3, promised: Some(0.04) },
    Spins { name: "log-normal, ± 30 %", draw: log_normal, deviation: 0.3, promised: Some(0.04) },
    Spins { name: "heavy tail, ± 30 %", draw: heavy, deviation: 0.3, promised: Some(0.04) },
    Spins { name: "normal, ± 1 %", draw: normal, deviation: 0.01, promised: Some(0.04) },
    Spins {
        name: "AR(1), ρ = 0.3, ± 1 %", draw: slightly_alike, deviation: 0.01, promised: None
    },
    Spins { name: "AR(1), ρ = 0.8, ± 1 %", draw: alike, deviation: 0.01, promised: None },
    Spins { name: "AR(1), ρ = 0.8, ± 3 %", draw: alike, deviation: 0.03, promised: None },
];

#[derive(Default)]
struct Figure {
    drift: Rate,
    wander: Rate,
}

impl Figure {
    fn of(spins_of: &Spins, visits: usize, trials: Trials) -> Self {
        let name = format!("machine {} {visits}", spins_of.name);
        let mut source = Source::named(trials.seed, &name);
        let mut figure = Self::default();
        for _ in 0..trials.runs {
            let seen = spins(&(spins_of.draw)(&mut source, visits), spins_of.deviation);
            figure.drift.note(machine_drift(&seen).is_some());
            figure.wander.note(machine_wander(&seen).is_some());
        }
        figure
    }
}

const WORDS: &str = "\
The reference spin in a machine that does not drift: how often it is said to have become slower or
faster (*drift*: the slope is certain, and above 2 % over the run), and how often to have come and
gone (*wander*: visits in a row are alike, by more than 0.5 %), in per cent of the runs. With ± 30 %
the thresholds play no part. Where it does come and go, wandering is the truth, and a drift is one
that happened by chance and went on for the length of the run.";

pub(crate) fn section(trials: Trials) -> Section {
    let items: Vec<(&Spins, usize)> =
        SPINS.iter().flat_map(|spins| VISITS.map(|visits| (spins, visits))).collect();
    let figures = each(&items, |(spins, visits)| Figure::of(spins, *visits, trials));
    let mut section = Section::titled("The machine itself", WORDS);
    for ((spins, visits), figure) in items.iter().zip(&figures) {
        let what = format!("{}, {visits} visits", spins.name);
        if let Some(promised) = spins.promised {
            section.at_most(figure.drift, promised, &format!("drift of the machine, {what}"));
            section.at_most(figure.wander, 0.005, &format!("wandering of the machine, {what}"));
        } else if *visits >= 50 && spins.name.contains("0.8") {
            section.at_least(figure.wander, 0.95, &format!("wandering of the machine, {what}"));
        }
    }
    let mut header = cells(["spins"]);
    for visits in VISITS {
        header.extend([format!("{visits} visits: drift"), "wander".to_owned()]);
    }
    let rows: Vec<Vec<String>> = SPINS
        .iter()
        .zip(figures.chunks(VISITS.len()))
        .map(|(spins, figures)| {
            let mut row = cells([spins.name]);
            for figure in figures {
                row.extend([alarms(figure.drift, 0.05), percent(figure.wander.share())]);
            }
            row
        })
        .collect();
    section.table(&header, &rows);
    section
}
