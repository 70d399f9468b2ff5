//! The standard error of the trimmed protocol, compared with the true deviation of its mean.

use fathom_analysis::statistics::{mean, standard_deviation, summarise, trimmed};

use crate::chance::Rate;
use crate::parallel::each;
use crate::section::{Section, cells, percent};
use crate::worlds::{WORLDS, World};
use crate::{Source, Trials};

/// 800 trials, of which 500 remain after trimming.
const PROCESSES: usize = 10;
const ROUNDS: usize = 80;

struct Figure {
    /// Standard deviation of the trimmed mean.
    real: f64,
    /// Root mean square of the stated errors.
    stated: f64,
    /// The same, computed as if all trials were independent.
    as_independent: f64,
    within_two: Rate,
}

impl Figure {
    fn of(world: &World, trials: Trials) -> Self {
        let mut source = Source::named(trials.seed, &format!("trimmed {}", world.name));
        let (mut means, mut errors, mut as_independent) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..trials.runs {
            let samples = world.samples(&mut source, PROCESSES, ROUNDS);
            let Some(found) = summarise(&samples).and_then(|summary| summary.trimmed) else {
                continue;
            };
            let pooled: Vec<f64> = samples.into_iter().flat_map(|sample| sample.values).collect();
            means.push(found.mean);
            errors.push(found.se);
            as_independent.extend(trimmed(&pooled).map(|found| found.se));
        }
        let center = mean(&means).unwrap_or(0.0);
        let mut within_two = Rate::default();
        for (mean, error) in means.iter().zip(&errors) {
            within_two.count((mean - center).abs() <= 2.0 * error);
        }
        let square = |values: &[f64]| {
            mean(&values.iter().map(|v| v * v).collect::<Vec<f64>>()).unwrap_or(0.0).sqrt()
        };
        Self {
            real: standard_deviation(&means).unwrap_or(0.0),
            stated: square(&errors),
            as_independent: square(&as_independent),
            within_two,
        }
    }
}

const WORDS: &str = "\
`--protocol trimmed` prints the standard error of the mean of 500 of 800 trials (rule 14). *Real* is
the standard deviation of that mean from run to run, in per cent. *Stated* is the standard error
relative to it; *as independent* is the error computed for 800 independent trials, as often
published. With ten processes, 92 % should be within two standard errors (Student's t with 9 degrees
of freedom). If whole processes are *outliers*, ten are too few for any standard error: the mean
depends on whether one or three of them are outliers.";

pub(crate) fn section(trials: Trials) -> Section {
    let figures = each(&WORLDS, |world| Figure::of(world, trials));
    let mut section = Section::new("The trimmed protocol's standard error", WORDS);
    for (world, figure) in WORLDS.iter().zip(&figures) {
        if world.kind.is_independent() && world.name != "outliers" {
            let what = format!("standard error, {}", world.name);
            section.at_least(figure.within_two, 0.85, &what);
            // 20 %, plus the uncertainty of the deviation itself.
            let tolerance = 0.2 + 5.0 / f64::from(trials.runs).sqrt();
            let ratio = figure.stated / figure.real;
            let good = (ratio - 1.0).abs() < tolerance;
            section.require(good, &format!("{what}: {ratio:.2} of the true deviation"));
        }
    }
    let header = cells(["shape", "real %", "stated ÷ real", "as independent ÷ real", "within two"]);
    section.grid(&header, &WORLDS, &figures, |world, figures| {
        let Figure { real, stated, as_independent, within_two } = &figures[0];
        vec![
            world.name.to_owned(),
            format!("{real:.2}"),
            format!("{:.2}", stated / real),
            format!("{:.2}", as_independent / real),
            percent(within_two.share()),
        ]
    });
    section
}
