//! The interval over process medians, and the findings about the shape.

use fathom_analysis::judge::{Expectation, judge};
use fathom_analysis::statistics::{order_interval, summarise};
use fathom_record::{Better, Counters, Summary};

use crate::chance::ChanceRate;
use crate::experiment::Experiment;
use crate::section::{Section, marked_below, percent};
use crate::worlds::{ROUNDS, TRUTH, WORLDS, World, WorldKind};
use crate::{Source, Trials};

/// Numbers of processes.
pub(crate) const PROCESSES: [usize; 3] = [5, 10, 20];

const EXPECTED: Expectation =
    Expectation { expects: Counters::NONE, noise_limit: 0.05, better: Better::Lower };

#[derive(Default)]
struct CoverageFigure {
    kept: ChanceRate,
    marked: ChanceRate,
    kept_or_marked: ChanceRate,
    /// Findings about the shape.
    clusters: ChanceRate,
    modes: ChanceRate,
    drift: ChanceRate,
}

impl CoverageFigure {
    fn count(&mut self, world: &World, processes: usize, source: &mut Source) {
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
    let mut section = Section::new("The interval of a headline", WORDS);
    let figures = Experiment {
        rows: &WORLDS,
        columns: &PROCESSES,
        name: |world, processes| format!("coverage {} {processes}", world.name),
        trial: |world, processes, source, figure: &mut CoverageFigure| {
            figure.count(world, *processes, source);
        },
        check,
        head: "shape",
        title: |world| world.name.to_owned(),
        heads: |processes| {
            format!("{processes} processes, {} stated | marked", percent(level(*processes)))
        },
        cells: |_, processes, figure| {
            let kept = marked_below(figure.kept, level(*processes));
            format!("{kept} | {}", percent(figure.marked.share()))
        },
    }
    .run(&mut section, trials);
    section.paragraph(SHAPES);
    let findings: [fn(&CoverageFigure) -> ChanceRate; 3] =
        [|it| it.clusters, |it| it.modes, |it| it.drift];
    let rows = WORLDS.iter().zip(figures.chunks(PROCESSES.len())).map(|(world, figures)| {
        let shares = findings.map(|rate| {
            figures.iter().map(|it| percent(rate(it).share())).collect::<Vec<_>>().join(" / ")
        });
        format!("{} | {}", world.name, shares.join(" | "))
    });
    section.table("shape | groups | modes | drift", rows);
    section
}

fn check(section: &mut Section, world: &World, processes: &usize, figure: &CoverageFigure) {
    let what = &format!("interval, {}, {processes} processes", world.name);
    let level = level(*processes);
    match world.kind {
        WorldKind::Exact => {
            section.at_least(figure.kept, level, what);
            section.at_most(figure.kept, level, what);
        }
        WorldKind::Independent => {
            section.at_least(figure.kept, 0.93, what);
            section.at_most(figure.kept, 0.99, what);
        }
        WorldKind::Marked => {
            section.at_least(figure.kept_or_marked, 0.90, what);
            let marked_from = world.marked_from(*processes);
            section.at_least(figure.marked, marked_from, &format!("mark, {what}"));
        }
    }
    if world.kind.is_independent() || world.name.starts_with("AR(1)") {
        section.at_most(figure.clusters, 0.035, &format!("groups, {what}"));
        section.at_most(figure.modes, 0.005, &format!("modes, {what}"));
        section.at_most(figure.drift, 1.0 - level, &format!("drift, {what}"));
    }
}
