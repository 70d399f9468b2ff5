//! The interval over process medians, and the findings about the shape.

use fathom_analysis::judge::{Expectation, judge};
use fathom_analysis::statistics::{order_interval, summarise};
use fathom_record::{Better, Counters, Summary};

use crate::chance::Rate;
use crate::parallel::each;
use crate::section::{Section, cells, kept, percent};
use crate::worlds::{Kind, ROUNDS, TRUTH, WORLDS, World};
use crate::{Source, Trials};

/// Numbers of processes.
pub(crate) const PROCESSES: [usize; 3] = [5, 10, 20];

const EXPECTED: Expectation =
    Expectation { expects: Counters::NONE, noise_limit: 0.05, better: Better::Lower };

#[derive(Default)]
struct Figure {
    kept: Rate,
    marked: Rate,
    kept_or_marked: Rate,
    clusters: Rate,
    modes: Rate,
    drift: Rate,
}

impl Figure {
    fn of(world: &World, processes: usize, trials: Trials) -> Self {
        let name = format!("coverage {} {processes}", world.name);
        let mut source = Source::named(trials.seed, &name);
        let mut figure = Self::default();
        for _ in 0..trials.runs {
            figure.note(world, processes, &mut source);
        }
        figure
    }

    fn note(&mut self, world: &World, processes: usize, source: &mut Source) {
        let samples = world.samples(source, processes, ROUNDS);
        let Some(summary) = summarise(&samples) else { return };
        let kept = interval_contains(&summary, TRUTH);
        // A mark is any reason in the verdict or a list of modes, but not a wide interval: that
        // would count each one that is too narrow as marked.
        let reasons = judge(&samples, &summary, EXPECTED, None).reasons;
        let has_shape = reasons.iter().any(|reason| !reason.cause.is_of_spread());
        let marked = has_shape || !summary.modes.is_empty();
        self.kept.count(kept);
        self.marked.count(marked);
        self.kept_or_marked.count(kept || marked);
        self.clusters.count(!summary.clusters.is_empty());
        self.modes.count(!summary.modes.is_empty());
        self.drift.count(summary.drift.is_some_and(|drift| drift != 0.0));
    }
}

pub(crate) fn interval_contains(summary: &Summary, truth: f64) -> bool {
    summary.limits().is_some_and(|[low, high]| low <= truth && truth <= high)
}

/// The stated level of the interval over this many processes.
pub(crate) fn level(processes: usize) -> f64 {
    order_interval(processes).map_or(0.0, |interval| interval.level)
}

const WORDS: &str = "\
How often the interval over process medians contains the truth, in per cent of the runs. *Marked* is
how often the result has a mark that one median is not enough (two groups of processes, several
modes, drift). **Bold**: below the stated level by more than chance.";

const SHAPES: &str = "\
Findings about the shape, in per cent of the runs with 5, 10 and 20 processes. *Groups* need 8
processes, *modes* 100 values. *Drift* is counted without its threshold of 5 %; by chance alone it
is found in up to 6.3, 2.1 and 4.1 %.";

pub(crate) fn section(trials: Trials) -> Section {
    let items: Vec<(&World, usize)> =
        WORLDS.iter().flat_map(|world| PROCESSES.map(|processes| (world, processes))).collect();
    let figures = each(&items, |(world, processes)| Figure::of(world, *processes, trials));
    let mut section = Section::new("The interval of a headline", WORDS);
    for ((world, processes), figure) in items.iter().zip(&figures) {
        let what = format!("interval, {}, {processes} processes", world.name);
        check_guarantees(&mut section, world, figure, *processes, &what);
    }
    let mut header = cells(["shape"]);
    for processes in PROCESSES {
        let stated = percent(level(processes));
        header.push(format!("{processes} processes, {stated} stated"));
        header.push("marked".to_owned());
    }
    section.grid(&header, &WORLDS, &figures, |world, figures| {
        let mut row = cells([world.name]);
        for (figure, processes) in figures.iter().zip(PROCESSES) {
            row.push(kept(figure.kept, level(processes)));
            row.push(percent(figure.marked.share()));
        }
        row
    });
    section.paragraph(SHAPES);
    let header = cells(["shape", "groups", "modes", "drift"]);
    section.grid(&header, &WORLDS, &figures, |world, figures| {
        let shares = |rate: fn(&Figure) -> Rate| {
            let texts: Vec<String> =
                figures.iter().map(|figure| percent(rate(figure).share())).collect();
            texts.join(" / ")
        };
        vec![
            world.name.to_owned(),
            shares(|figure| figure.clusters),
            shares(|figure| figure.modes),
            shares(|figure| figure.drift),
        ]
    });
    section
}

fn check_guarantees(
    section: &mut Section,
    world: &World,
    figure: &Figure,
    processes: usize,
    what: &str,
) {
    match world.kind {
        Kind::Exact => {
            section.at_least(figure.kept, level(processes), what);
            section.at_most(figure.kept, level(processes), what);
        }
        Kind::Independent => {
            section.at_least(figure.kept, 0.93, what);
            section.at_most(figure.kept, 0.99, what);
        }
        Kind::Marked => {
            section.at_least(figure.kept_or_marked, 0.90, what);
            section.at_least(figure.marked, world.marked_from(processes), &format!("mark, {what}"));
        }
    }
    if world.kind.is_independent() || world.name.starts_with("AR(1)") {
        section.at_most(figure.clusters, 0.035, &format!("groups, {what}"));
        section.at_most(figure.modes, 0.005, &format!("modes, {what}"));
        let chance = 1.0 - level(processes);
        section.at_most(figure.drift, chance, &format!("drift, {what}"));
    }
}
