//! The intervals of derived metrics: slopes over the cases of a process, quotients of two metrics,
//! and differences that are printed as a bound.

use fathom_analysis::statistics::{
    difference_bound, line, ratio_of_medians, summarise_estimates, summarise_quotients,
};
use fathom_record::Summary;

use crate::chance::Rate;
use crate::coverage::{PROCESSES, interval_contains, level};
use crate::parallel::each;
use crate::section::{Section, cells, kept, percent};
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

#[derive(Default)]
struct Figure {
    kept: Rate,
    bounds: Rate,
    kept_bounds: Rate,
}

impl Figure {
    fn of(metric: Metric, world: &World, processes: usize, trials: Trials) -> Self {
        let (title, truth) = match metric {
            Metric::Slope => ("slope".to_owned(), SLOPE),
            Metric::Quotient => ("quotient".to_owned(), 1.0),
            Metric::Difference(size) => (format!("difference {size}"), size),
        };
        let name = format!("derived {title} {} {processes}", world.name);
        let mut source = Source::named(trials.seed, &name);
        let mut figure = Self::default();
        for _ in 0..trials.runs {
            let Some(summary) = summary(metric, world, processes, &mut source) else { continue };
            figure.kept.count(interval_contains(&summary, truth));
            let bound = difference_bound(&summary);
            figure.bounds.count(bound.is_some());
            if let Some(bound) = bound {
                figure.kept_bounds.count(truth <= bound);
            }
        }
        figure
    }
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
    let rows: Vec<(Metric, &World)> = [Metric::Slope, Metric::Quotient]
        .into_iter()
        .flat_map(|metric| names.map(|name| (metric, world(name))))
        .collect();
    let items: Vec<(Metric, &World, usize)> = rows
        .iter()
        .flat_map(|(metric, world)| PROCESSES.map(|processes| (*metric, *world, processes)))
        .collect();
    let figures =
        each(&items, |(metric, world, processes)| Figure::of(*metric, world, *processes, trials));
    let title = |metric| if metric == Metric::Slope { "slope" } else { "quotient" };
    for ((metric, world, processes), figure) in items.iter().zip(&figures) {
        let what = format!("{}, {}, {processes} processes", title(*metric), world.name);
        section.at_least(figure.kept, 0.93, &what);
        section.at_most(figure.kept, 0.995, &what);
    }
    let mut header = cells(["metric", "shape"]);
    header.extend(PROCESSES.map(|processes| format!("{processes}: {}", percent(level(processes)))));
    let stated = |metric: Metric, processes: usize| {
        if metric == Metric::Quotient { 0.95 } else { level(processes) }
    };
    section.grid(&header, &rows, &figures, |(metric, world), figures| {
        let mut row = cells([title(*metric), world.name]);
        row.extend(
            figures
                .iter()
                .zip(PROCESSES)
                .map(|(figure, processes)| kept(figure.kept, stated(*metric, processes))),
        );
        row
    });
    bounds(&mut section, trials);
    section
}

fn bounds(section: &mut Section, trials: Trials) {
    section.paragraph(BOUNDS);
    let items: Vec<(f64, usize)> =
        SIZES.into_iter().flat_map(|size| PROCESSES.map(|processes| (size, processes))).collect();
    let figures = each(&items, |(size, processes)| {
        Figure::of(Metric::Difference(*size), world("normal"), *processes, trials)
    });
    for ((size, processes), figure) in items.iter().zip(&figures) {
        let what = format!("bound of a difference of {size}, {processes} processes");
        section.at_least(figure.kept_bounds, 0.93, &what);
    }
    let mut header = cells(["difference"]);
    for processes in PROCESSES {
        header.extend([format!("{processes} processes: as a bound"), "within".to_owned()]);
    }
    section.grid(&header, &SIZES, &figures, |size, figures| {
        let mut row = vec![format!("{size}")];
        for figure in figures {
            let within = match figure.kept_bounds.of {
                0 => "–".to_owned(),
                _ => kept(figure.kept_bounds, 0.93),
            };
            row.extend([percent(figure.bounds.share()), within]);
        }
        row
    });
}
