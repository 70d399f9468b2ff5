//! The standard error of the trimmed protocol, compared with the true deviation of its mean.

use fathom_analysis::statistics::{mean, standard_deviation, summarise, trimmed};

use crate::chance::ChanceRate;
use crate::experiment::Experiment;
use crate::section::{Section, percent};
use crate::worlds::{WORLDS, World};
use crate::{Source, Trials};

/// 800 trials, of which 500 remain after trimming.
const PROCESSES: usize = 10;
const ROUNDS: usize = 80;

/// Of all runs.
#[derive(Default)]
struct TrimmedFigure {
    means: Vec<f64>,
    /// The stated errors, and those computed as if all trials were independent.
    errors: Vec<f64>,
    as_independent: Vec<f64>,
}

impl TrimmedFigure {
    fn count(&mut self, world: &World, source: &mut Source) {
        let samples = world.samples(source, PROCESSES, ROUNDS);
        let Some(found) = summarise(&samples).and_then(|summary| summary.trimmed) else { return };
        let pooled: Vec<f64> = samples.into_iter().flat_map(|sample| sample.values).collect();
        self.means.push(found.mean);
        self.errors.push(found.se);
        self.as_independent.extend(trimmed(&pooled).map(|found| found.se));
    }

    /// Standard deviation of the trimmed mean.
    fn real(&self) -> f64 {
        standard_deviation(&self.means).unwrap_or(0.0)
    }

    fn within_two(&self) -> ChanceRate {
        let center = mean(&self.means).unwrap_or(0.0);
        let mut within = ChanceRate::default();
        for (mean, error) in self.means.iter().zip(&self.errors) {
            within.count((mean - center).abs() <= 2.0 * error);
        }
        within
    }
}

fn root_mean_square(errors: &[f64]) -> f64 {
    mean(&errors.iter().map(|v| v * v).collect::<Vec<f64>>()).unwrap_or(0.0).sqrt()
}

const WORDS: &str = "\
`--protocol trimmed` prints the standard error of the mean of 500 of 800 trials (rule 14). *Real* is
the standard deviation of that mean from run to run, in per cent. *Stated* is the standard error
relative to it; *as independent* is the error computed for 800 independent trials, as often
published. With ten processes, 92 % should be within two standard errors (Student's t with 9 degrees
of freedom). If whole processes are *outliers*, ten are too few for any standard error: the mean
depends on whether one or three of them are outliers.";

pub(crate) fn section(trials: Trials) -> Section {
    let mut section = Section::new("The trimmed protocol's standard error", WORDS);
    Experiment {
        rows: &WORLDS,
        columns: &[()],
        name: |world, ()| format!("trimmed {}", world.name),
        trial: |world, (), source, figure: &mut TrimmedFigure| figure.count(world, source),
        check: |section, world, (), figure| {
            if world.kind.is_independent() && world.name != "outliers" {
                let what = format!("standard error, {}", world.name);
                section.at_least(figure.within_two(), 0.85, &what);
                // 20 %, plus the uncertainty of the deviation itself.
                let tolerance = 0.2 + 5.0 / (figure.means.len() as f64).sqrt();
                let ratio = root_mean_square(&figure.errors) / figure.real();
                let good = (ratio - 1.0).abs() < tolerance;
                section.require(good, &format!("{what}: {ratio:.2} of the true deviation"));
            }
        },
        head: "shape",
        title: |world| world.name.to_owned(),
        heads: |()| "real % | stated ÷ real | as independent ÷ real | within two".to_owned(),
        cells: |_, (), figure| {
            let real = figure.real();
            let [stated, as_independent] =
                [&figure.errors, &figure.as_independent].map(|it| root_mean_square(it) / real);
            let within = percent(figure.within_two().share());
            format!("{real:.2} | {stated:.2} | {as_independent:.2} | {within}")
        },
    }
    .run(&mut section, trials);
    section
}
