//! False alarms of the drift of the machine over a run (rule 23).

use fathom_analysis::judge::{machine_drift, machine_wander};

use crate::Trials;
use crate::chance::ChanceRate;
use crate::experiment::Experiment;
use crate::section::{Section, marked_above, percent};
use crate::shapes::{Draw, ar_03, ar_08, heavy, log_normal, normal};

/// Visits of a run of one metric, of some, and of all.
const VISITS: [usize; 3] = [10, 50, 200];

struct Loops {
    name: &'static str,
    draw: Draw,
    /// One deviation, as a share of the loop.
    deviation: f64,
    /// Upper limit of the rate of alarms.
    guaranteed: Option<f64>,
}

const LOOPS: [Loops; 7] = [
    Loops { name: "normal, ± 30 %", draw: normal, deviation: 0.3, guaranteed: Some(0.04) },
    Loops { name: "log-normal, ± 30 %", draw: log_normal, deviation: 0.3, guaranteed: Some(0.04) },
    Loops { name: "heavy tail, ± 30 %", draw: heavy, deviation: 0.3, guaranteed: Some(0.04) },
    Loops { name: "normal, ± 1 %", draw: normal, deviation: 0.01, guaranteed: Some(0.04) },
    Loops { name: "AR(1), ρ = 0.3, ± 1 %", draw: ar_03, deviation: 0.01, guaranteed: None },
    Loops { name: "AR(1), ρ = 0.8, ± 1 %", draw: ar_08, deviation: 0.01, guaranteed: None },
    Loops { name: "AR(1), ρ = 0.8, ± 3 %", draw: ar_08, deviation: 0.03, guaranteed: None },
];

/// Duration of the reference loop and of a visit.
const LOOP_NS: f64 = 10_000.0;
const VISIT_NS: u64 = 100_000_000;

/// Start and duration of the loop of each visit, for its deviation of speed.
fn times(visits: &[f64], deviation: f64) -> Vec<(u64, f64)> {
    let times = visits.iter().map(|state| (LOOP_NS * (1.0 + deviation * state)).max(1.0));
    (0..).zip(times).map(|(at, ns)| (at * VISIT_NS, ns)).collect()
}

const WORDS: &str = "\
The reference loop on a machine without drift: how often a change of speed is reported (*drift*: a
significant slope, above 2 % over the run), and how often autocorrelation from visit to visit
(*wander*: above 0.5 %), in per cent of the runs. With ± 30 % the thresholds have no effect. With
autocorrelation, *wander* is correct, and a *drift* is one that occurred by chance over the length
of the run.";

pub(crate) fn section(trials: Trials) -> Section {
    let mut section = Section::new("Drift of the machine", WORDS);
    Experiment {
        rows: &LOOPS,
        columns: &VISITS,
        name: |loops, visits| format!("machine {} {visits}", loops.name),
        trial: |loops, visits, source, [drift, wander]: &mut [ChanceRate; 2]| {
            let loop_times = times(&(loops.draw)(source, *visits), loops.deviation);
            drift.count(machine_drift(&loop_times).is_some());
            wander.count(machine_wander(&loop_times, 1).is_some());
        },
        check: |section, loops, visits, &[drift, wander]| {
            let what = format!("{}, {visits} visits", loops.name);
            if let Some(guaranteed) = loops.guaranteed {
                section.at_most(drift, guaranteed, &format!("drift of the machine, {what}"));
                section.at_most(wander, 0.005, &format!("wandering of the machine, {what}"));
            } else if *visits >= 50 && loops.name.contains("0.8") {
                section.at_least(wander, 0.95, &format!("wandering of the machine, {what}"));
            }
        },
        head: "loops",
        title: |loops| loops.name.to_owned(),
        heads: |visits| format!("{visits} visits: drift | wander"),
        cells: |_, _, &[drift, wander]| {
            format!("{} | {}", marked_above(drift, 0.05), percent(wander.share()))
        },
    }
    .run(&mut section, trials);
    section
}
