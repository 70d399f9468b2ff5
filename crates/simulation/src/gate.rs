//! The gate of `fathom compare` on an unchanged machine (rule 27a): how often it passes and fails,
//! and how many cases count.

use fathom_analysis::compare::{Compared, ComparisonAnswer, ComparisonWord, Noise, compare};
use fathom_record::{Better, Document, MetricId, Outline, Params, Record, Summary, Unit};

use crate::many::run_of;
use crate::parallel::each;
use crate::section::{Section, percent};
use crate::worlds::TRUTH;
use crate::{Source, Trials};

/// Deviation of the processes of a case, in per cent: quantiles over the 243 cases of recorded
/// quick runs of a virtual machine, of the median of three runs.
const SPREADS: [f64; 24] = [
    0.01, 0.05, 0.1, 0.2, 0.34, 0.47, 0.7, 0.99, 1.19, 1.63, 1.88, 2.11, 2.53, 2.76, 3.13, 3.64,
    4.1, 4.98, 5.84, 6.65, 7.47, 8.96, 13.7, 17.32,
];
const CASES: usize = 246;
/// Deviation of a run as a whole, relative to that of processes: what is left of the differences
/// between those runs, of which the processes explain the rest.
const BETWEEN: f64 = 0.5;
/// Stored runs that show the noise.
const STORED: usize = 20;
const LIMIT: f64 = 0.05;
/// Runs compared in a figure, whatever the number of trials.
const PAIRS: usize = 20;

/// Counts over all pairs.
#[derive(Default)]
struct GateFigure {
    passes: usize,
    fails: usize,
    gateable: usize,
    looks: usize,
    /// Cases whose noise, or else half the interval of both sides, is below the limit, and the
    /// pairs in which none of these may have lost more.
    below: usize,
    below_passes: usize,
}

impl GateFigure {
    fn from_processes(processes: usize, stored: usize, trials: Trials) -> Self {
        let mut source = Source::named(trials.seed, &format!("gate {processes} {stored}"));
        let mut run = |number: usize| run(number, processes, &mut source);
        let stored: Vec<Outline> = (0..stored).map(|at| Outline::from(&run(at))).collect();
        let mut figure = Self::default();
        for pair in 0..PAIRS {
            let [a, b] = [0, 1].map(|side| run(STORED + 2 * pair + side));
            let noise = Noise::learn(&stored, std::slice::from_ref(&a), &b);
            let comparison = compare(&a, &b, &noise, pair as u64);
            let gate = comparison.gate(LIMIT, None);
            figure.passes += usize::from(gate.answer == ComparisonAnswer::Pass);
            figure.fails += usize::from(gate.answer == ComparisonAnswer::Fail);
            figure.gateable += gate.gateable;
            let looks = comparison.rows.iter().filter(|row| row.word < ComparisonWord::Unchanged);
            figure.looks += looks.count();
            let ends = |row: &Compared| {
                let [low, high] = row.interval?;
                // A ratio's interval is √2 times as wide as that of a side.
                let spread = row.noise.unwrap_or((high / low).ln() / 8.0_f64.sqrt());
                (spread < LIMIT).then_some(high)
            };
            let below: Vec<f64> = comparison.rows.iter().filter_map(ends).collect();
            figure.below += below.len();
            figure.below_passes += usize::from(below.iter().all(|high| *high <= 1.0 + LIMIT));
        }
        figure
    }
}

fn run(number: usize, processes: usize, source: &mut Source) -> Document {
    let record = |case: usize| {
        let spread = SPREADS[case * SPREADS.len() / CASES] / 100.0;
        let level = BETWEEN * source.normal();
        let mut medians = || TRUTH * (spread * (level + source.normal())).exp();
        let medians: Vec<f64> = (0..processes).map(|_| medians()).collect();
        let params = Params::one("case", case as i64);
        let mut record =
            Record::new(MetricId::new("os.case"), params, "", Unit::Nanoseconds, Better::Lower);
        record.summary = Some(Summary {
            median: fathom_analysis::statistics::median(&medians).unwrap_or(f64::NAN),
            process_medians: medians,
            ..Summary::default()
        });
        record
    };
    run_of((0..CASES).map(record).collect(), number as u64)
}

const WORDS: &str = "\
Twenty pairs of runs of an unchanged machine in each row, of 246 cases. Processes differ as much as
in recorded quick runs of a virtual machine (by 0.01 % to 17 %, half of them by less than 2.3 %),
and each run as a whole by half of that. How many pairs pass and fail at 5 %, how many cases are
gateable (mean), and how many look changed, in per cent. *Noise alone*: the same if a case counted
whose noise, or else half the interval of both sides, is below the limit.";

pub(crate) fn section(trials: Trials) -> Section {
    let mut section = Section::new("The gate", WORDS);
    let items = [(5, STORED), (12, STORED), (5, 0), (12, 0)];
    let figures =
        each(&items, |(processes, stored)| GateFigure::from_processes(*processes, *stored, trials));
    let mut rows = Vec::new();
    for ((processes, stored), figure) in items.iter().zip(&figures) {
        let what = format!("gate, {processes} processes, {stored} stored runs");
        let looks = figure.looks as f64 / (PAIRS * CASES) as f64;
        section.require(figure.fails <= 1, &format!("{what}: {} fail", figure.fails));
        if *stored > 0 {
            section.require(figure.passes >= 16, &format!("{what}: {} pass", figure.passes));
            section.require(looks <= 0.05, &format!("{what}: {} % look", percent(looks)));
        }
        let [gateable, below] = [figure.gateable, figure.below].map(|it| it / PAIRS);
        let GateFigure { passes, fails, below_passes, .. } = figure;
        let looks = percent(looks);
        rows.push(format!(
            "{stored} | {processes} | {passes} | {fails} | {gateable} | {looks} | {below} | \
             {below_passes}"
        ));
    }
    let header = "stored runs | processes | pass | fail | gateable | look changed | noise alone: \
                  gateable | pass";
    section.table(header, rows);
    section
}
