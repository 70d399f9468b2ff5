//! The estimate of a case on a core whose state changes (METHOD 23a, 23b): as many visits as a
//! pilot shows to be needed, spread over the run, reported for one state by the rule of the
//! program.

use std::collections::BTreeMap;

use fathom_analysis::core_state::{CoreStateConditions, CoreStates, Loop};
use fathom_analysis::judge::machine_wander;
use fathom_analysis::schedule::PilotUnit;
use fathom_analysis::statistics::median;
use fathom_analysis::strata::Strata;
use fathom_record::{Sample, Stratum};

use crate::chance::ChanceRate;
use crate::parallel::each;
use crate::section::{Section, marked_below, percent};
use crate::worlds::{ROUNDS, TRUTH};
use crate::{Source, Trials};

/// How the core is over a run.
#[derive(Clone, Copy)]
enum Core {
    /// To itself in this share of the visits, else beside a busy sibling.
    Clusters(f64),
    /// To itself in the first half, beside a busy sibling in the second.
    HalfWay,
    /// Beside a sibling of any load, which slows it by up to this share.
    Continuum(f64),
}

const CORES: [Core; 13] = [
    Core::Clusters(0.0),
    Core::Clusters(0.05),
    Core::Clusters(0.2),
    Core::Clusters(0.35),
    Core::Clusters(0.46),
    Core::Clusters(0.5),
    Core::Clusters(0.6),
    Core::Clusters(0.9),
    Core::Clusters(0.95),
    Core::Clusters(1.0),
    Core::HalfWay,
    Core::Continuum(0.1),
    Core::Continuum(1.0),
];
/// Correlations of the state of the core from a visit of the run to the next.
const CORRELATIONS: [f64; 4] = [0.0, 0.3, 0.6, 0.8];
/// Visits of a case that are to count.
const WANTED: [u32; 5] = [5, 9, 12, 20, 40];
/// Visits of a run, and of its pilot.
const RUN: usize = 800;
const PILOT: usize = 115;
/// Reference loops of a visit of another case.
const LOOPS: usize = 3;
/// Nanoseconds of both parts of the loop on a core to itself.
const FULL_NS: f64 = 9_000.0;
/// How much longer its part takes beside a busy sibling, the deviation of that, and how much of it
/// the work feels.
const BUSY: f64 = 2.2;
const BUSY_DEVIATION: f64 = 0.06;
const FELT: f64 = 0.5;
/// Relative deviations of the frequency, of processes, of rounds and of loops.
const FREQUENCY: f64 = 0.01;
const PROCESS: f64 = 0.03;
const ROUND: f64 = 0.01;
const LOOP: f64 = 0.002;
/// The share of visits in which the state of the core changes.
const CHANGES: f64 = 0.1;
/// Visits for the true value of a state, at most.
const TRUTH_VISITS: usize = 20_000;

impl Core {
    fn name(self) -> String {
        match self {
            Self::Clusters(share) => format!("{:.0} % to itself", 100.0 * share),
            Self::HalfWay => "shared from half-way on".to_owned(),
            Self::Continuum(most) => format!("continuum of 0 to {:.0} %", 100.0 * most),
        }
    }

    fn is_right(self, reported: Stratum) -> bool {
        match self {
            Self::Clusters(share) if share < 0.3 => reported == Stratum::Shared,
            Self::Clusters(_) | Self::HalfWay => reported == Stratum::ToItself,
            // Beside siblings of any load it is shared, too.
            Self::Continuum(_) => reported != Stratum::ToItself,
        }
    }

    /// How much longer the part of the loop that a sibling slows takes, at this part of the run.
    fn slowness(self, at: f64, source: &mut Source) -> f64 {
        let to_itself = match self {
            Self::Clusters(share) => share,
            Self::HalfWay => f64::from(u8::from(at < 0.5)),
            Self::Continuum(most) => return 1.0 + most * source.uniform(),
        };
        if source.uniform() < to_itself { 1.0 } else { busy(source) }
    }

    /// The slowness of each of so many visits, evenly over a run.
    fn visits(self, correlation: f64, count: usize, source: &mut Source) -> Vec<StrataVisit> {
        let mut slow = self.slowness(0.0, source);
        let mut next = |at: usize| {
            if source.uniform() >= correlation {
                slow = self.slowness(at as f64 / count as f64, source);
            }
            let is_changed = source.uniform() < CHANGES;
            let then = match self {
                Self::Continuum(_) => self.slowness(0.0, source),
                _ if self.is_one() => slow,
                _ if slow > 1.0 => 1.0,
                _ => busy(source),
            };
            StrataVisit {
                slow: [slow, then],
                changed_from: if is_changed { source.uniform() } else { f64::MAX },
                frequency: 1.0 + FREQUENCY * source.normal(),
            }
        };
        (0..count).map(&mut next).collect()
    }

    /// Whether there is one state only.
    fn is_one(self) -> bool {
        matches!(self, Self::Clusters(0.0 | 1.0))
    }
}

fn busy(source: &mut Source) -> f64 {
    BUSY * (BUSY_DEVIATION * source.normal()).exp()
}

/// The core during a visit.
struct StrataVisit {
    /// Slowness before and after a change.
    slow: [f64; 2],
    /// The part of the visit after which it is another.
    changed_from: f64,
    frequency: f64,
}

impl StrataVisit {
    fn slow_at(&self, part: f64) -> f64 {
        self.slow[usize::from(part >= self.changed_from)]
    }

    fn loops(&self, count: usize, source: &mut Source) -> Vec<Loop> {
        let one = |at: usize| {
            let slow = self.slow_at(at as f64 / (count - 1) as f64);
            let frequency_ns = FULL_NS * self.frequency;
            Loop { sibling_ns: frequency_ns * slow * (1.0 + LOOP * source.normal()), frequency_ns }
        };
        (0..count).map(one).collect()
    }

    fn sample(&self, process: usize, source: &mut Source) -> Sample {
        let level = TRUTH * (PROCESS * source.normal()).exp() * self.frequency;
        let value = |round: usize| {
            let slow = self.slow_at((round as f64 + 0.5) / ROUNDS as f64);
            level * (1.0 + FELT * (slow - 1.0)) * (ROUND * source.normal()).exp()
        };
        let values = (0..ROUNDS).map(value).collect();
        let loops = self.loops(ROUNDS + 1, source);
        Sample {
            process: process as u32,
            values,
            values_per_round: 1,
            reference_ns: loops.iter().map(|one| one.sibling_ns).collect(),
            frequency_ns: loops.iter().map(|one| one.frequency_ns).collect(),
            ..Sample::default()
        }
    }
}

/// The reference loops of the visits of a run.
struct StrataRun {
    visits: Vec<StrataVisit>,
    conditions: Vec<CoreStateConditions>,
    loops: Vec<Loop>,
}

impl StrataRun {
    fn new(core: Core, correlation: f64, source: &mut Source) -> Self {
        let visits = core.visits(correlation, RUN, source);
        let loops: Vec<Loop> = visits.iter().flat_map(|it| it.loops(LOOPS, source)).collect();
        let conditions = loops.chunks(LOOPS).map(|it| CoreStateConditions::with_loops(it.to_vec()));
        Self { conditions: conditions.collect(), visits, loops }
    }

    /// After so many visits.
    fn states(&self, visits: usize) -> Option<CoreStates> {
        CoreStates::new(&self.loops[..visits * LOOPS], &self.conditions[..visits], None)
    }

    /// A case with so many visits: one in the pilot, the others at even distances in the rest.
    fn case(&self, made: u32, source: &mut Source) -> Vec<Sample> {
        let left = (made - 1) as usize;
        let place = |visit: usize| match visit {
            0 => (PILOT as f64 * source.uniform()) as usize,
            _ => {
                let part = ((visit - 1) as f64 + source.uniform()) / left as f64;
                PILOT + ((RUN - PILOT) as f64 * part) as usize
            }
        };
        let places: Vec<usize> = (0..made as usize).map(place).collect();
        (0..).zip(places).map(|(at, place)| self.visits[place].sample(at, source)).collect()
    }

    /// Whether it is flagged as autocorrelated, with so many visits of each case.
    fn is_flagged(&self, states: Option<&CoreStates>, made: u32) -> bool {
        let is_in = |it: &CoreStateConditions| {
            states.is_none_or(|states| {
                states.reported == Stratum::AsFound
                    || states.stratum_of(it) == Some(states.reported)
            })
        };
        let typical = (0..).zip(self.conditions.iter().filter(|it| is_in(it)));
        let times = typical.filter_map(|(at, it)| Some((at, it.typical()?.sibling_ns)));
        machine_wander(&times.collect::<Vec<_>>(), RUN / made as usize).is_some()
    }
}

/// The median over many visits of a core, in each state that a run may report.
struct Truth {
    visits: Vec<Sample>,
    known: BTreeMap<(&'static str, u64), f64>,
}

impl Truth {
    fn new(core: Core, trials: Trials) -> Self {
        let mut source = Source::named(trials.seed, &format!("truth of {}", core.name()));
        let visits = core.visits(0.0, TRUTH_VISITS, &mut source);
        let samples = visits.iter().enumerate().map(|(at, it)| it.sample(at, &mut source));
        Self { visits: samples.collect(), known: BTreeMap::new() }
    }

    /// Of the state that the headline is of. Runs on a continuum differ in the core to itself.
    fn value_for(&mut self, stratum: Stratum, states: Option<&CoreStates>) -> f64 {
        let states = states.filter(|_| stratum != Stratum::AsFound);
        let idle = states.map_or(0.0, |it| (200.0 * it.idle.contention()).round());
        let visits = &self.visits;
        *self.known.entry((stratum.words(), idle as u64)).or_insert_with(|| {
            let strata = Strata::new(visits, Ok(()), states);
            let medians = strata.headline().iter().filter_map(|it| median(&it.values));
            median(&medians.collect::<Vec<f64>>()).unwrap_or(f64::NAN)
        })
    }
}

#[derive(Default)]
struct Intervals {
    in_state: ChanceRate,
    kept: ChanceRate,
    stated: f64,
    half_widths: Vec<f64>,
}

#[derive(Default)]
struct StrataFigure {
    right: ChanceRate,
    wanted: [Intervals; WANTED.len()],
    as_found: ChanceRate,
    flagged: ChanceRate,
}

impl StrataFigure {
    fn from_core(core: Core, correlation: f64, trials: Trials) -> Self {
        let mut truth = Truth::new(core, trials);
        let mut source = Source::named(trials.seed, &format!("{} {correlation}", core.name()));
        let mut figure = Self::default();
        for _ in 0..trials.runs {
            let run = StrataRun::new(core, correlation, &mut source);
            figure.note(core, &run, &mut truth, &mut source);
        }
        figure
    }

    fn note(&mut self, core: Core, run: &StrataRun, truth: &mut Truth, source: &mut Source) {
        let share = run.states(PILOT).map_or(1.0, |states| states.share());
        let unit = PilotUnit { cost_ns: 0.0, spread: None, share, is_first: false, made: 1 };
        let states = run.states(RUN);
        let reported = states.as_ref().map_or(Stratum::AsFound, |states| states.reported);
        self.right.count(core.is_right(reported));
        self.flagged.count(run.is_flagged(states.as_ref(), unit.visits_for(WANTED[2])));
        for (wanted, intervals) in WANTED.iter().zip(&mut self.wanted) {
            let samples = run.case(unit.visits_for(*wanted), source);
            let strata = Strata::new(&samples, Ok(()), states.as_ref());
            let Some(summary) = strata.summarise() else { continue };
            let Some(interval) = summary.interval else { continue };
            let truth = truth.value_for(summary.stratum, states.as_ref());
            let is_kept = (interval.low..=interval.high).contains(&truth);
            intervals.in_state.count(summary.in_state.is_some());
            match summary.in_state {
                Some(_) => {
                    intervals.kept.count(is_kept);
                    intervals.stated += interval.level;
                    let width = interval.high - interval.low;
                    intervals.half_widths.push(width / 2.0 / summary.median);
                }
                None => self.as_found.count(is_kept),
            }
        }
    }
}

impl Intervals {
    /// The mean level that the intervals state.
    fn stated(&self) -> f64 {
        self.stated / self.kept.of.max(1) as f64
    }

    fn kept(&self) -> String {
        if self.kept.of == 0 { "–".to_owned() } else { marked_below(self.kept, self.stated()) }
    }

    fn half_width(&self) -> String {
        median(&self.half_widths).map_or("–".to_owned(), percent)
    }
}

const WORDS: &str = "\
A core is to itself in a share of the visits of a run, else beside a busy sibling, which slows the
reference loop to 2.2 times (± 6 %) and the work to 1.6 times; or beside siblings of any load, a
continuum. Its state has a correlation *r* from a visit of the run to the next, and changes within
one visit in ten. A pilot of 115 visits shows the share of the reported state; each case then has as
many visits as are wanted, divided by that share, spread over the 800 of the run. *Right* is how
often the reported state is the fastest with 30 % of the visits, else the most frequent; a continuum
is never *to itself*. *In state* is how often at least five visits of the case were in the reported
state, and *kept* how often the interval over all of these has the truth of that state; *all: kept*
is that of the other cases, which are over all visits. *Flagged* is how often the run is called
autocorrelated. All in per cent.";

const STRATA: &str = "\
The interval of a state keeps its level however rare the state is, and however alike neighbouring
visits of the run are: visits of a case are far apart. Where the reported state has about half of
the visits, a third of the cases with five wanted visits have fewer in it, and are over all of
theirs. Half the width, without correlation:";

pub(crate) fn section(trials: Trials) -> Section {
    let mut section = Section::new("States of the core", WORDS);
    let rows: Vec<(Core, f64)> = CORES
        .iter()
        .flat_map(|core| CORRELATIONS.map(|correlation| (*core, correlation)))
        .collect();
    let figures =
        each(&rows, |(core, correlation)| StrataFigure::from_core(*core, *correlation, trials));
    for ((core, correlation), figure) in rows.iter().zip(&figures) {
        check(&mut section, *core, *correlation, figure);
    }
    let heads = WANTED.map(|wanted| format!("{wanted} visits: in state | kept")).join(" | ");
    let lines = rows.iter().zip(&figures).map(|((core, correlation), figure)| {
        let of_wanted =
            |it: &Intervals| format!("{} | {}", percent(it.in_state.share()), it.kept());
        let all = figure.as_found;
        [
            core.name(),
            correlation.to_string(),
            percent(figure.right.share()),
            figure.wanted.each_ref().map(of_wanted).join(" | "),
            if all.of == 0 { "–".to_owned() } else { percent(all.share()) },
            percent(figure.flagged.share()),
        ]
        .join(" | ")
    });
    section.table(&format!("core | r | right | {heads} | all: kept | flagged"), lines);
    section.paragraph(STRATA);
    let columns = WANTED.map(|wanted| format!("{wanted} visits: ±")).join(" | ");
    let without = figures.iter().step_by(CORRELATIONS.len());
    let widths = CORES.iter().zip(without).map(|(core, figure)| {
        let halves = figure.wanted.each_ref().map(Intervals::half_width);
        format!("{} | {}", core.name(), halves.join(" | "))
    });
    section.table(&format!("core | {columns}"), widths);
    section
}

fn check(section: &mut Section, core: Core, correlation: f64, figure: &StrataFigure) {
    let what = format!("{}, r = {correlation}", core.name());
    for (wanted, intervals) in WANTED.iter().zip(&figure.wanted) {
        let what = format!("{wanted} visits, {what}");
        section.at_least(intervals.kept, intervals.stated(), &what);
        section.at_most(intervals.kept, intervals.stated(), &what);
    }
    section.at_most(figure.flagged, 0.01, &format!("flag, {what}"));
    if correlation == 0.0 {
        section.at_least(figure.right, 0.98, &format!("state, {what}"));
    }
}
