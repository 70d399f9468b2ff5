//! Common factors of `fathom compare` (rule 27b): coverage of their intervals, classes that are
//! named though they did not move, and cases found net of their class.

use std::collections::{BTreeMap, BTreeSet};

use fathom_analysis::classes::class;
use fathom_analysis::compare::{Compared, Comparison, Noise, Share, compare};
use fathom_analysis::statistics::median;
use fathom_record::{Better, Document, MetricId, Outline, Params, Record, Summary, Unit};

use crate::chance::ChanceRate;
use crate::experiment::Experiment;
use crate::many::run_of;
use crate::section::{Section, marked_above, percent};
use crate::worlds::TRUTH;
use crate::{Source, Trials};

const PROCESSES: [usize; 2] = [5, 20];
/// Beginnings of metrics, with how many visits and cases of each a run has, as a quick run does,
/// and how many CPUs.
const VISITS: [(&str, usize, usize, i64); 10] = [
    ("cpu.", 6, 2, 1),
    ("os.", 12, 2, 1),
    ("os.process.", 5, 2, 1),
    ("os.wake.", 6, 1, 2),
    ("memory.", 4, 6, 1),
    ("memory.bandwidth.", 5, 1, 2),
    ("memory.fault.", 6, 2, 1),
    ("network.", 8, 1, 1),
    ("file.fsync.", 4, 2, 1),
    ("file.", 5, 2, 1),
];
/// The share of the variance of processes that cases of a visit have in common.
const OF_VISIT: f64 = 0.7;
/// The largest factor, and by how much a case beside it is off.
const FACTOR_MAX: f64 = 0.2;
const BESIDE: f64 = 0.1;
/// The number of cases beside.
const CASES_BESIDE: usize = 5;
/// Half of an interval in which a case beside is to be found.
const PRECISE: f64 = 0.03;

struct FactorWorld {
    name: &'static str,
    /// Deviation of a process, the least and the largest of a case.
    spread: [f64; 2],
    /// Deviation of a visit from run to run, relative to that of processes.
    between: f64,
    /// Whether values have tails of Student's t with 3 degrees of freedom.
    heavy: bool,
    /// How many classes move.
    classes: usize,
    /// Deviation of a class from run to run, which runs kept before show.
    drift: f64,
    kept: usize,
}

const WORLDS: [FactorWorld; 8] = [
    FactorWorld { name: "none moves", classes: 0, ..BASE },
    FactorWorld { name: "one moves", classes: 1, ..BASE },
    FactorWorld { name: "three move", classes: 3, ..BASE },
    FactorWorld { name: "three, processes differ by 3 % to 17 %", spread: [0.03, 0.17], ..BASE },
    FactorWorld { name: "three, each visit by half of that from run to run", between: 0.5, ..BASE },
    FactorWorld { name: "three, heavy tails", heavy: true, ..BASE },
    FactorWorld { name: "three, classes by 1 % from run to run, 6 kept", kept: 6, ..DRIFTING },
    FactorWorld { name: "three, the same, 30 kept", kept: 30, ..DRIFTING },
];

const BASE: FactorWorld = FactorWorld {
    name: "",
    spread: [0.002, 0.05],
    between: 0.0,
    heavy: false,
    classes: 3,
    drift: 0.0,
    kept: 0,
};
const DRIFTING: FactorWorld = FactorWorld { drift: 0.01, ..BASE };

#[derive(Default)]
struct FactorFigure {
    /// Intervals that contain the factor.
    covered: ChanceRate,
    /// Comparisons in which a class is named that did not move.
    named: ChanceRate,
    /// Classes that moved by 5 % or more and are named.
    moved: ChanceRate,
    /// Cases beside their class, with narrow intervals, that are listed.
    found: ChanceRate,
    /// Cases listed, and those of them that are not beside their class.
    listed: usize,
    false_ones: usize,
}

/// What is true of a comparison.
struct Truth {
    factors: BTreeMap<&'static str, f64>,
    beside: Vec<usize>,
}

impl Truth {
    fn drawn(world: &FactorWorld, cases: &[SimulatedCase], source: &mut Source) -> Self {
        let mut names: Vec<&'static str> = cases.iter().filter_map(|it| it.class()).collect();
        names.dedup();
        let mut factors = BTreeMap::new();
        while factors.len() < world.classes {
            let sign = if source.uniform() < 0.5 { -1.0 } else { 1.0 };
            let size = sign * FACTOR_MAX.ln_1p() * source.uniform();
            factors.insert(names[pick(names.len(), source)], size.exp());
        }
        let beside = (0..CASES_BESIDE).map(|_| pick(cases.len(), source)).collect();
        Self { factors, beside }
    }

    fn factor(&self, class: &str) -> f64 {
        self.factors.get(class).copied().unwrap_or(1.0)
    }
}

fn pick(of: usize, source: &mut Source) -> usize {
    (source.uniform() * of as f64) as usize
}

struct SimulatedCase {
    metric: MetricId,
    params: Params,
    visit: usize,
    spread: f64,
}

impl SimulatedCase {
    fn class(&self) -> Option<&'static str> {
        class(&self.metric, &self.params)
    }
}

/// The cases of a run, with the deviation of the processes of each, evenly in logarithms.
fn cases(world: &FactorWorld, source: &mut Source) -> Vec<SimulatedCase> {
    let mut cases = Vec::new();
    let [least, most] = world.spread;
    for (start, visits, of_visit, cpus) in VISITS {
        for visit in 0..visits {
            let metric = MetricId::new(format!("{start}m{visit}"));
            let number = cases.len();
            cases.extend((0..of_visit).map(|case| SimulatedCase {
                metric: metric.clone(),
                params: Params::one("case", case as i64).and("cpus", cpus),
                visit: number,
                spread: least * (most / least).powf(source.uniform()),
            }));
        }
    }
    cases
}

/// A run, in which the number of each case is multiplied by what `times` gives for it.
fn run(
    world: &FactorWorld,
    (cases, processes, number): (&[SimulatedCase], usize, u64),
    times: &dyn Fn(usize) -> f64,
    source: &mut Source,
) -> Document {
    let classes: BTreeSet<&str> = cases.iter().filter_map(SimulatedCase::class).collect();
    let drifts = classes.into_iter().map(|class| (class, world.drift * source.normal()));
    let drifts: BTreeMap<&str, f64> = drifts.collect();
    let mut of_visit: (usize, Vec<f64>, f64) = (usize::MAX, Vec::new(), 0.0);
    let draw = |source: &mut Source| {
        // Of one variance.
        if world.heavy { source.student(3) / 3.0_f64.sqrt() } else { source.normal() }
    };
    let mut records = Vec::new();
    for (at, case) in cases.iter().enumerate() {
        if of_visit.0 != case.visit {
            let all = (0..processes).map(|_| draw(source)).collect();
            of_visit = (case.visit, all, world.between * source.normal());
        }
        let (own, shared) = ((1.0 - OF_VISIT).sqrt(), OF_VISIT.sqrt());
        let values = of_visit.1.iter().map(|visit| shared * visit + own * draw(source));
        let drift = case.class().map_or(0.0, |class| drifts[class]);
        let off = |it: f64| drift + case.spread * (it + of_visit.2);
        let values: Vec<f64> = values.map(|it| TRUTH * times(at) * off(it).exp()).collect();
        let (metric, params) = (case.metric.clone(), case.params.clone());
        let mut record = Record::new(metric, params, "", Unit::Nanoseconds, Better::Lower);
        record.visit = format!("run/{}", case.visit);
        record.summary = Some(Summary {
            median: median(&values).unwrap_or(f64::NAN),
            process_medians: values,
            ..Summary::default()
        });
        records.push(record);
    }
    run_of(records, number)
}

impl FactorFigure {
    fn note(&mut self, world: &FactorWorld, processes: usize, source: &mut Source) {
        let cases = cases(world, source);
        let truth = Truth::drawn(world, &cases, source);
        let kept = world.kept as u64;
        let numbered = |number: u64| (cases.as_slice(), processes, number);
        let before = (0..kept).map(|number| run(world, numbered(number), &|_| 1.0, source));
        let before: Vec<Outline> = before.map(|run| Outline::from(&run)).collect();
        let a = run(world, numbered(kept), &|_| 1.0, source);
        let beside = |at: usize| if truth.beside.contains(&at) { 1.0 + BESIDE } else { 1.0 };
        let moved = |at: usize| cases[at].class().map_or(1.0, |class| truth.factor(class));
        let b = run(world, numbered(kept + 1), &|at| moved(at) * beside(at), source);
        let noise = Noise::learn(&before, std::slice::from_ref(&a), &b);
        let comparison = compare(&a, &b, &noise, source.bits());
        self.count(&cases, &truth, &comparison);
    }

    fn count(&mut self, cases: &[SimulatedCase], truth: &Truth, comparison: &Comparison) {
        let mut is_any = false;
        for factor in &comparison.factors {
            let true_one = truth.factor(factor.class);
            let [low, high] = factor.interval;
            self.covered.count(low <= true_one && true_one <= high);
            is_any |= factor.moved && true_one == 1.0;
            if true_one.ln().abs() >= 0.05_f64.ln_1p() {
                self.moved.count(factor.moved);
            }
        }
        self.named.count(is_any);
        let is_beside = |row: &Compared| {
            let is_row = |it: &SimulatedCase| it.metric == row.metric && it.params == row.params;
            truth.beside.iter().any(|at| is_row(&cases[*at]))
        };
        for row in &comparison.rows {
            let class = comparison.factors.iter().find(|it| Some(it.class) == row.class);
            let true_one = row.class.map_or(1.0, |class| truth.factor(class));
            // As it is, a case of a class that moved unnoticed is different, too.
            if true_one != 1.0 && class.is_none_or(|it| !it.moved) {
                continue;
            }
            let is_listed = row.share == Share::Differs;
            self.listed += usize::from(is_listed);
            let [low, high] = row.net.map_or([0.0, f64::INFINITY], |net| net.interval);
            match is_beside(row) {
                true if (high / low).ln() / 2.0 <= PRECISE => self.found.count(is_listed),
                true => {}
                false => self.false_ones += usize::from(is_listed),
            }
        }
    }
}

const WORDS: &str = "\
`fathom compare` of two runs of 119 cases in ten classes, 61 visits. Processes of a case differ by
0.2 % to 5 %; cases of a visit have 70 % of their variance in common. One class or three are up to
20 % slower or faster, and five cases 10 % slower than their class. *Covers*: intervals of 95 % that
contain the factor. *Named*: comparisons that name a class that did not move. *Moved*: classes
that moved by 5 % or more and are named. *Found*: of the five cases, those whose net interval is
within 3 %, that are listed; *false*: the share of listed cases that are not of the five. In the
last two worlds each class is slower or faster as a whole from run to run, and the noise is learned
from runs that were kept before. All in per cent.";

pub(crate) fn section(trials: Trials) -> Section {
    let mut section = Section::new("Common factors", WORDS);
    Experiment {
        rows: &WORLDS,
        columns: &PROCESSES,
        name: |world, processes| format!("factors {} {processes}", world.name),
        trial: |world, processes, source, figure: &mut FactorFigure| {
            figure.note(world, *processes, source);
        },
        check: |section, world, processes, figure| {
            let what = |it: &str| format!("{it}, {}, {processes} processes", world.name);
            section.at_least(figure.covered, 0.93, &what("interval of a factor"));
            section.at_most(figure.covered, 0.97, &what("interval of a factor"));
            section.at_most(figure.named, 0.05, &what("class that did not move"));
            if world.between == 0.0 && !world.heavy && world.drift == 0.0 {
                section.at_least(figure.found, 0.9, &what("case beside its class"));
            }
        },
        head: "classes",
        title: |world| world.name.to_owned(),
        heads: |processes| format!("{processes} processes: covers | named | moved | found | false"),
        cells: |_, _, figure| {
            let FactorFigure { covered, named, moved, found, listed, false_ones } = figure;
            let share = |rate: &ChanceRate| match rate.of {
                0 => "–".to_owned(),
                _ => percent(rate.share()),
            };
            let [covered, moved, found] = [covered, moved, found].map(share);
            let false_ones = percent(*false_ones as f64 / (*listed).max(1) as f64);
            let named = marked_above(*named, 0.05);
            format!("{covered} | {named} | {moved} | {found} | {false_ones}")
        },
    }
    .run(&mut section, trials);
    section
}
