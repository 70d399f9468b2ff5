//! Visits in two stages (METHOD 13): one pilot visit of each unit decides, by what it cost and how
//! far its rounds spread, how many follow, and counts. Beside it rules that stop at values, which
//! the program does not use.

use fathom_analysis::schedule::{self, PilotUnit};
use fathom_analysis::statistics::{median, median_interval, relative_spread};
use fathom_record::Sample;

use crate::chance::ChanceRate;
use crate::experiment::Experiment;
use crate::section::{Section, marked_below, percent};
use crate::worlds::{ROUNDS, TRUTH, WORLDS, World};
use crate::{Source, Trials};

/// Units of a run, and the visits of each that count, at most.
const UNITS: usize = 24;
const VISITS_MAX: usize = 40;
/// Visits of each unit for which there is time, if all have as many.
const VISITS: [f64; 2] = [5.5, 30.0];
/// What visits of a unit cost in milliseconds; and how much more for a value one per cent larger.
const COST_MS: [f64; 2] = [8.0, 400.0];
const COST_SHARE: f64 = 0.2;
/// The pilot shows spreads about as wide as those from which on more visits are worth less.
const NARROWER: f64 = 0.5;
/// Processes for the true value.
const TRUTH_PROCESSES: usize = 100_000;
/// The half width at which the forbidden rule stops, and how far five values are apart that agree.
const NARROW: f64 = 0.004;
const AGREE: f64 = 0.006;

#[derive(Default)]
struct StoppingFigure {
    /// The median of all processes.
    truth: Option<f64>,
    /// With up to twelve visits, with more, and in all.
    few: ChanceRate,
    many: ChanceRate,
    all: ChanceRate,
    /// Sums over all units.
    stated: f64,
    visits: f64,
    until_narrow: ChanceRate,
    until_agreed: ChanceRate,
}

impl StoppingFigure {
    fn count(&mut self, world: &World, source: &mut Source) {
        let truth = *self.truth.get_or_insert_with(|| {
            median(&world.medians(source, TRUTH_PROCESSES)).unwrap_or(f64::NAN)
        });
        let units: Vec<Vec<Sample>> =
            (0..UNITS).map(|_| world.samples(source, VISITS_MAX, ROUNDS)).collect();
        for (samples, count) in units.iter().zip(planned(&units, source)) {
            let medians: Vec<f64> =
                samples.iter().filter_map(|sample| median(&sample.values)).collect();
            self.note(&medians, count as usize, truth);
        }
    }

    fn note(&mut self, medians: &[f64], count: usize, truth: f64) {
        let is_kept = |[low, high]: [f64; 2]| low <= truth && truth <= high;
        if let Some((limits, level)) = median_interval(&medians[..count]) {
            self.all.count(is_kept(limits));
            let of_size = if count <= 12 { &mut self.few } else { &mut self.many };
            of_size.count(is_kept(limits));
            self.stated += level;
            self.visits += count as f64;
        }
        self.until_narrow.count(until_narrow(medians).is_some_and(is_kept));
        self.until_agreed.count(until_agreed(medians).is_some_and(is_kept));
    }
}

/// The visits of each unit, by the rule of the program. A slow pilot visit cost more, too.
fn planned(units: &[Vec<Sample>], source: &mut Source) -> Vec<u32> {
    let between = |[low, high]: [f64; 2], part: f64| low * (high / low).powf(part);
    let mut budget_ns = 0.0;
    let visits = between(VISITS, source.uniform());
    let mut piloted = |samples: &Vec<Sample>| {
        let values = &samples[0].values;
        let usual_ns = 1e6 * between(COST_MS, source.uniform());
        let slower = 100.0 * (median(values).unwrap_or(TRUTH) / TRUTH - 1.0);
        budget_ns += visits * usual_ns;
        PilotUnit {
            cost_ns: usual_ns * (1.0 + COST_SHARE * slower).clamp(0.2, 5.0),
            spread: relative_spread(values).map(|spread| NARROWER * spread),
            share: 1.0,
            is_first: source.uniform() < 0.25,
            made: 1,
        }
    };
    let units: Vec<PilotUnit> = units.iter().map(&mut piloted).collect();
    let left_ns = budget_ns - units.iter().map(|unit| unit.cost_ns).sum::<f64>();
    schedule::visits(&units, left_ns, VISITS_MAX as u32)
}

/// The interval when it is narrow for the first time, else of all.
fn until_narrow(medians: &[f64]) -> Option<[f64; 2]> {
    let of = |count: usize| median_interval(&medians[..count]).map(|(limits, _)| limits);
    let is_narrow = |[low, high]: &[f64; 2]| (high - low) / 2.0 <= NARROW * TRUTH;
    (5..medians.len()).filter_map(of).find(is_narrow).or_else(|| of(medians.len()))
}

/// The ends of the first five values that agree, else of those of all that agree best.
fn until_agreed(medians: &[f64]) -> Option<[f64; 2]> {
    let nearest = |count: usize| {
        let mut sorted = medians[..count].to_vec();
        sorted.sort_by(f64::total_cmp);
        let fives = sorted.windows(5).map(|five| [five[0], five[4]]);
        fives.min_by(|a, b| (a[1] - a[0]).total_cmp(&(b[1] - b[0])))
    };
    let agree = |[low, high]: &[f64; 2]| high - low <= AGREE * TRUTH;
    (5..medians.len()).filter_map(nearest).find(agree).or_else(|| nearest(medians.len()))
}

const WORDS: &str = "\
The rule of the program: one pilot visit of each of 24 units, then one plan of 5 to 40 visits for
each, by the cost of the pilot visit and the spread of its rounds, in the time for 5.5 to 30 visits
of all. The pilot visit counts, and costs a fifth more for each per cent that it is slower. *Kept*
is how often the interval contains the median of all processes, in per cent: of all units, and of
those with up to twelve visits and with more. A spread that a unit shows in its pilot by chance has
no effect on the level.

Beside it, as a warning, two rules that the program does not use, because they stop at values:
visits *until it is narrow* (half the width at most 0.4 %, or 40 visits), and *until five agree*
within 0.6 %, of which the ends are the interval.";

pub(crate) fn section(trials: Trials) -> Section {
    let mut section = Section::new("Planned once, after a pilot", WORDS);
    let has_trend = |world: &&World| world.name.starts_with("drift");
    Experiment {
        rows: &WORLDS.iter().filter(|world| !has_trend(world)).collect::<Vec<_>>(),
        columns: &[()],
        name: |world, ()| format!("stages {}", world.name),
        trial: |world, (), source, figure: &mut StoppingFigure| figure.count(world, source),
        check: |section, world, (), figure| {
            let what = |of: &str| format!("{of}, {}", world.name);
            for (rate, of) in [(figure.all, "all"), (figure.few, "few"), (figure.many, "many")] {
                section.at_least(rate, 0.93, &what(of));
                // The truth is between two steps of the clock, or on one.
                let most = if world.name == "quantised" { 1.0 } else { 0.97 };
                section.at_most(rate, most, &what(of));
            }
            section.at_most(figure.until_agreed, 0.60, &what("until five agree"));
        },
        head: "shape",
        title: |world| world.name.to_owned(),
        heads: |()| HEADS.to_owned(),
        cells: |_, (), figure| {
            let StoppingFigure { few, many, all, until_narrow, until_agreed, .. } = *figure;
            let [visits, stated] =
                [figure.visits, figure.stated].map(|sum| sum / all.of.max(1) as f64);
            let of_plan = [all, few, many].map(|rate| marked_below(rate, 0.93)).join(" | ");
            let others = [until_narrow, until_agreed].map(|rate| percent(rate.share()));
            format!("{visits:.1} | {} | {of_plan} | {}", percent(stated), others.join(" | "))
        },
    }
    .run(&mut section, Trials { runs: trials.runs.div_ceil(UNITS as u32), ..trials });
    section
}

const HEADS: &str = "visits | stated | kept | kept, up to 12 visits | kept, more visits | until it \
                     is narrow: kept | until five agree: kept";
