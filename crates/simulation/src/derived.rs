//! The intervals of derived metrics: slopes over the cases of a process, quotients of two metrics,
//! and differences that are printed as a bound.

use fathom_analysis::statistics::{
    difference_bound, line, ratio_of_medians, summarise_estimates, summarise_quotients,
};
use fathom_record::Summary;

use crate::chance::ChanceRate;
use crate::coverage::{PROCESSES, interval_contains, level};
use crate::experiment::Experiment;
use crate::section::{Section, marked_below, percent};
use crate::worlds::{TRUTH, World, world};
use crate::{Source, Trials};

/// Time per argument of a call.
const SLOPE: f64 = 0.5;
/// Cases per line.
const POINTS: usize = 7;

#[derive(Clone, Copy, PartialEq)]
enum Metric {
    /// The slope of a line through cases measured in the same processes.
    Slope,
    /// One metric divided by another, measured in different processes.
    Quotient,
    /// A difference, in deviations of its processes.
    Difference(f64),
}

fn summary(
    metric: Metric,
    world: &World,
    processes: usize,
    source: &mut Source,
) -> Option<Summary> {
    match metric {
        Metric::Quotient => {
            let it = world.medians(source, processes);
            let by = self::world("normal").medians(source, processes);
            let per_process: Vec<f64> = it.iter().zip(&by).map(|(it, by)| it / by).collect();
            summarise_quotients(&per_process, ratio_of_medians(&by, &it, source.bits())?)
        }
        Metric::Difference(size) => {
            let medians = world.medians(source, processes);
            let sizes: Vec<f64> = medians.iter().map(|it| it - TRUTH + size).collect();
            summarise_estimates(&sizes)
        }
        Metric::Slope => {
            let cases = world.medians_of_cases(source, processes, POINTS);
            let arguments: Vec<f64> = (0..POINTS).map(|at| at as f64).collect();
            let slope = |process: usize| {
                let time = |at: usize| cases[at][process] + SLOPE * at as f64;
                let times: Vec<f64> = (0..POINTS).map(time).collect();
                line(&arguments, &times).map(|line| line.slope)
            };
            let slopes: Vec<f64> = (0..processes).filter_map(slope).collect();
            summarise_estimates(&slopes)
        }
    }
}

impl Metric {
    fn title(self) -> String {
        match self {
            Self::Slope => "slope".to_owned(),
            Self::Quotient => "quotient".to_owned(),
            Self::Difference(size) => format!("difference {size}"),
        }
    }

    fn truth(self) -> f64 {
        match self {
            Self::Slope => SLOPE,
            Self::Quotient => 1.0,
            Self::Difference(size) => size,
        }
    }
}

/// What is derived from which world.
type DerivedRow = (Metric, &'static World);

fn name((metric, world): &DerivedRow, processes: &usize) -> String {
    format!("derived {} {} {processes}", metric.title(), world.name)
}

/// Counts intervals with the truth, differences printed as a bound, and bounds with the truth.
fn trial(
    (metric, world): &DerivedRow,
    processes: &usize,
    source: &mut Source,
    [kept, bounds, kept_bounds]: &mut [ChanceRate; 3],
) {
    let Some(summary) = summary(*metric, world, *processes, source) else { return };
    kept.count(interval_contains(&summary, metric.truth()));
    let bound = difference_bound(&summary);
    bounds.count(bound.is_some());
    bound.into_iter().for_each(|bound| kept_bounds.count(metric.truth() <= bound));
}

const WORDS: &str = "\
The *slope* of a line through seven cases is computed per process, and its interval is over these
slopes. A *quotient* of two metrics has a bootstrap interval over the processes of both: here the
shape divided by normal processes, stated level 95 %.";

const BOUNDS: &str = "\
A difference with an uncertainty above a quarter is printed as \"≤ bound\" (rule 6). For differences
in units of the spread of processes: how often a bound was printed, and how often the truth was then
within the bound.";

const SIZES: [f64; 4] = [0.0, 0.5, 1.0, 3.0];

pub(crate) fn section(trials: Trials) -> Section {
    let mut section = Section::new("Derived metrics", WORDS);
    let names = ["normal", "log-normal", "heavy tail", "outliers", "quantised"];
    Experiment {
        rows: &[Metric::Slope, Metric::Quotient]
            .map(|metric| names.map(|name| (metric, world(name))))
            .concat(),
        columns: &PROCESSES,
        name,
        trial,
        check: |section, (metric, world), processes, &[kept, ..]| {
            let what = format!("{}, {}, {processes} processes", metric.title(), world.name);
            section.at_least(kept, 0.93, &what);
            section.at_most(kept, 0.995, &what);
        },
        head: "metric | shape",
        title: |(metric, world)| format!("{} | {}", metric.title(), world.name),
        heads: |processes| format!("{processes}: {}", percent(level(*processes))),
        cells: |(metric, _), processes, &[kept, ..]| match metric {
            Metric::Quotient => marked_below(kept, 0.95),
            _ => marked_below(kept, level(*processes)),
        },
    }
    .run(&mut section, trials);
    section.paragraph(BOUNDS);
    Experiment {
        rows: &SIZES.map(|size| (Metric::Difference(size), world("normal"))),
        columns: &PROCESSES,
        name,
        trial,
        check: |section, (metric, _), processes, &[.., kept_bounds]| {
            let what = format!("bound of a {}, {processes} processes", metric.title());
            section.at_least(kept_bounds, 0.93, &what);
        },
        head: "difference",
        title: |(metric, _)| metric.truth().to_string(),
        heads: |processes| format!("{processes} processes: as a bound | within"),
        cells: |_, _, &[_, bounds, kept_bounds]| {
            let within = match kept_bounds.of {
                0 => "–".to_owned(),
                _ => marked_below(kept_bounds, 0.93),
            };
            format!("{} | {within}", percent(bounds.share()))
        },
    }
    .run(&mut section, trials);
    section
}
