//! The shape of a load sweep: where saturation is claimed, and the coverage of its figures.

use fathom_analysis::load::{
    Saturation, Shape, ShapeCurve, ShapeEstimate, ShapePoint, SweepPoint, bound,
    mean_value_analysis, shape,
};

use crate::chance::ChanceRate;
use crate::experiment::Experiment;
use crate::section::{Section, marked_above, marked_below, percent};
use crate::{Source, Trials};

const SWEEPS: usize = 3;
/// Time of a request at the bottleneck, without noise.
const LONGEST_S: f64 = 0.01;

#[derive(Clone, Copy, PartialEq)]
enum LoadService {
    /// Constant service times: the bound itself.
    Constant,
    /// Exponential service times at one station.
    Random,
    /// And a second station with this share of the demand.
    Two(f64),
    /// Constant service times, and up to 20 % less throughput beyond the knee.
    Contention,
}

struct LoadWorld {
    name: &'static str,
    service: LoadService,
    /// Standard deviation of the logarithm of the service time: of a sweep, and of a window.
    noise: [f64; 2],
    /// Change of that logarithm from sweep to sweep.
    drift: f64,
}

const fn world(name: &'static str, service: LoadService, noise: [f64; 2]) -> LoadWorld {
    LoadWorld { name, service, noise, drift: 0.0 }
}

static WORLDS: [LoadWorld; 10] = [
    world("constant, 1 % and 1 %", LoadService::Constant, [0.01, 0.01]),
    world("constant, 1 % and 5 %", LoadService::Constant, [0.01, 0.05]),
    world("random, 0 % and 1 %", LoadService::Random, [0.0, 0.01]),
    world("random, 1 % and 1 %", LoadService::Random, [0.01, 0.01]),
    world("random, 5 % and 1 %", LoadService::Random, [0.05, 0.01]),
    world("random, 5 % and 5 %", LoadService::Random, [0.05, 0.05]),
    LoadWorld {
        name: "random, 1 % and 1 %, drift of 3 % a sweep",
        service: LoadService::Random,
        noise: [0.01, 0.01],
        drift: 0.03,
    },
    world("second station of 0.5, 1 % and 1 %", LoadService::Two(0.5), [0.01, 0.01]),
    world("second station of 0.9, 1 % and 1 %", LoadService::Two(0.9), [0.01, 0.01]),
    world("contention, 1 % and 1 %", LoadService::Contention, [0.01, 0.01]),
];

type List = (&'static str, &'static [u32]);
const LISTS: [List; 3] = [
    ("1, 2, 4, 8, 16", &[1, 2, 4, 8, 16]),
    ("1 to 8", &[1, 2, 3, 4, 5, 6, 7, 8]),
    ("1 to 20", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20]),
];

/// The largest number of clients, in knees.
const REACHES: [f64; 7] = [0.5, 1.0, 1.1, 1.5, 2.0, 3.0, 5.0];
/// Saturation is not claimed up to this reach,
const NEAR: f64 = 1.1;
/// and the figures are tabulated from this one on.
const FAR: f64 = 2.0;

/// A world at one knee.
struct SimulationCase<'w> {
    world: &'w LoadWorld,
    list: List,
    reach: f64,
    second: f64,
    think_s: f64,
    /// Throughputs without noise.
    rates: Vec<f64>,
}

impl<'w> SimulationCase<'w> {
    fn new(world: &'w LoadWorld, list: List, reach: f64) -> Self {
        let knee = f64::from(list.1.last().copied().unwrap_or(1)) / reach;
        let second = match world.service {
            LoadService::Two(share) => share.min(knee - 1.0),
            _ => 0.0,
        };
        let think_s = (knee - 1.0 - second) * LONGEST_S;
        let mut case = Self { world, list, reach, second, think_s, rates: Vec::new() };
        case.rates = list.1.iter().map(|clients| case.throughput(*clients, LONGEST_S)).collect();
        case
    }

    fn knee(&self) -> f64 {
        1.0 + self.second + self.think_s / LONGEST_S
    }

    fn throughput(&self, clients: u32, longest: f64) -> f64 {
        let n = f64::from(clients);
        let bound = bound(n, longest, self.think_s, longest);
        match self.world.service {
            LoadService::Constant => bound,
            LoadService::Random => mean_value_analysis(&[longest], self.think_s, clients),
            LoadService::Two(_) => {
                mean_value_analysis(&[longest, self.second * longest], self.think_s, clients)
            }
            LoadService::Contention => bound * (1.0 - 0.2 * (1.0 - self.knee() / n).max(0.0)),
        }
    }

    fn curve(&self, source: &mut Source) -> ShapeCurve {
        let [of_sweep, of_window] = self.world.noise;
        let empty = |clients: &u32| ShapePoint { clients: *clients, sweeps: Vec::new() };
        let mut points: Vec<ShapePoint> = self.list.1.iter().map(empty).collect();
        for sweep in 0..SWEEPS {
            let drift = self.world.drift * (sweep as f64 - 1.0);
            let shift = of_sweep * source.normal() + drift;
            for point in &mut points {
                let longest = LONGEST_S * (shift + of_window * source.normal()).exp();
                let throughput = self.throughput(point.clients, longest);
                let response_s = f64::from(point.clients) / throughput - self.think_s;
                point.sweeps.push(SweepPoint { throughput, response_s });
            }
        }
        ShapeCurve { think_s: self.think_s, points }
    }

    /// The true saturation throughput: 1 ÷ Dmax. If throughput falls there is no such limit, and
    /// the mean of the steps is what is estimated.
    fn limit(&self, saturation: &Saturation) -> f64 {
        if self.world.service != LoadService::Contention {
            return 1.0 / LONGEST_S;
        }
        let is_of = |clients: &u32| saturation.steps.contains(clients);
        let rates = self.list.1.iter().zip(&self.rates).filter(|(clients, _)| is_of(clients));
        rates.map(|(_, rate)| rate).sum::<f64>() / saturation.steps.len() as f64
    }

    /// The number of clients at a throughput, by interpolation of the curve without noise.
    fn clients_at(&self, rate: f64) -> Option<f64> {
        let at = self.rates.iter().position(|it| *it >= rate).filter(|at| *at > 0)?;
        let share = (rate - self.rates[at - 1]) / (self.rates[at] - self.rates[at - 1]);
        let [before, after] = [at - 1, at].map(|at| f64::from(self.list.1[at]));
        Some(before + share * (after - before))
    }
}

#[derive(Default)]
struct LoadFigure {
    claimed: ChanceRate,
    saturation: ChanceRate,
    knee: ChanceRate,
    clients: ChanceRate,
    /// Claimed, and the interval misses the true saturation throughput.
    wrong: ChanceRate,
}

fn contains(estimate: ShapeEstimate, truth: f64) -> bool {
    estimate.low() <= truth && truth <= estimate.high()
}

impl LoadFigure {
    fn count(&mut self, case: &SimulationCase<'_>, source: &mut Source) {
        let Shape::Saturated(saturation) = shape(&case.curve(source)) else {
            self.claimed.count(false);
            self.wrong.count(false);
            return;
        };
        let limit = case.limit(&saturation);
        let is_right = contains(saturation.throughput, limit);
        self.claimed.count(true);
        self.wrong.count(!is_right);
        self.saturation.count(is_right);
        if let Some(knee) = saturation.knee {
            self.knee.count(contains(knee, case.knee() * limit * LONGEST_S));
        }
        if let Some(clients) = case.clients_at(0.95 * limit) {
            self.clients.count(contains(saturation.clients_95, clients));
        }
    }

    /// Coverage is counted where saturation is mostly claimed.
    fn counts(&self) -> bool {
        self.claimed.share() >= 0.5
    }
}

const WORDS: &str = "\
How often saturation is claimed for a closed-loop load sweep, in per cent, by the *reach* of the
sweep: the largest number of clients, in knees. Service times at the bottleneck are *constant*, or
*random*: exponential, by exact mean-value analysis. The two percentages are the standard deviations
of the service time, of whole sweeps and of single windows. *Second station*: another resource, with
this share of the time at the bottleneck. *Contention*: up to 20 % less throughput beyond the knee.
**Bold**: claimed too often near the knee or below.";

const COVERAGE: &str = "\
How often the 95 % interval over three sweeps contains the saturation throughput, the knee, and the
number of clients at 95 % of that throughput, by reach, where saturation is claimed in at least half
of the sweeps. **Bold**: below 93 % by more than chance.";

const AFTERWARDS: &str = "\
Up to a reach of 1.1 saturation is not claimed. From 2 on it is with constant service times, from 5
on with random ones: between the two, throughput still grows by more than 5 % where the number of
clients grows by half. If a second station is nearly as busy as the bottleneck, throughput still
grows at a reach of 5. The mean of the plateau is then below the limit, and the interval includes
the limit. Drift from sweep to sweep makes intervals wider than necessary. With contention there is
no limit, and the mean of the true throughputs over the steps of the plateau is the truth.";

/// A world and a list of clients, with a case for each reach.
type LoadRow = [SimulationCase<'static>; REACHES.len()];

fn title([SimulationCase { world, list, .. }, ..]: &LoadRow) -> String {
    format!("{} | {}", world.name, list.0)
}

pub(crate) fn section(trials: Trials) -> Section {
    let of_list =
        |world| LISTS.map(|list| REACHES.map(|reach| SimulationCase::new(world, list, reach)));
    let rows: Vec<LoadRow> = WORLDS.iter().flat_map(of_list).collect();
    let mut section = Section::new("Saturation of a load", WORDS);
    let figures = Experiment {
        rows: &rows,
        columns: &[0, 1, 2, 3, 4, 5, 6],
        name: |row, at: &usize| {
            let SimulationCase { world, list, reach, .. } = &row[*at];
            format!("load {} {} {reach}", world.name, list.0)
        },
        trial: |row, at, source, figure: &mut LoadFigure| figure.count(&row[*at], source),
        check: |section, row, at, figure| check(section, &row[*at], figure),
        head: "service and noise | clients",
        title,
        heads: |at| REACHES[*at].to_string(),
        cells: |_, at, figure| match REACHES[*at] <= NEAR {
            true => marked_above(figure.claimed, 0.05),
            false => percent(figure.claimed.share()),
        },
    }
    .run(&mut section, trials);
    section.paragraph(COVERAGE);
    let far = REACHES.iter().filter(|reach| **reach >= FAR);
    let heads = far.map(|reach| format!(" | {reach}: throughput | knee | 95 %"));
    let lines = rows.iter().zip(figures.chunks(REACHES.len())).map(|(row, figures)| {
        let beyond = figures.iter().zip(REACHES).filter(|(_, reach)| *reach >= FAR);
        let coverage = beyond.flat_map(|(figure, _)| {
            [figure.saturation, figure.knee, figure.clients].map(|rate| match figure.counts() {
                true => format!(" | {}", marked_below(rate, 0.93)),
                false => " | –".to_owned(),
            })
        });
        title(row) + &coverage.collect::<String>()
    });
    section.table(&format!("service and noise | clients{}", heads.collect::<String>()), lines);
    section.paragraph(AFTERWARDS);
    section
}

fn check(section: &mut Section, case: &SimulationCase<'_>, figure: &LoadFigure) {
    let SimulationCase { world, list, reach, .. } = case;
    let what = format!("{}, {} clients, reach {reach}", world.name, list.0);
    if *reach <= NEAR {
        section.at_most(figure.claimed, 0.05, &format!("saturation claimed: {what}"));
    }
    let claimed_from = match world.service {
        LoadService::Constant => FAR,
        LoadService::Two(share) if share > 0.5 => f64::INFINITY,
        _ => 5.0,
    };
    if *reach >= claimed_from {
        section.at_least(figure.claimed, 0.90, &format!("saturation not claimed: {what}"));
    }
    section.at_most(figure.wrong, 0.07, &format!("wrong saturation: {what}"));
    if figure.counts() {
        section.at_least(figure.saturation, 0.93, &format!("saturation: {what}"));
        section.at_least(figure.knee, 0.93, &format!("knee: {what}"));
        section.at_least(figure.clients, 0.90, &format!("clients at 95 %: {what}"));
    }
}
