//! From measurements to ratios: the number with the new value by that with the old one.

use fathom_analysis::core_state::TOLERANCE;
use fathom_analysis::effects::{Contrast, effect, interaction};
use fathom_analysis::statistics::median;
use fathom_record::Reason;

use crate::request::Trial;
use crate::workload::TrialFigure;

/// The figures of each combination in one pass; `None` where there is no number.
pub type TrialPass = Vec<Option<Vec<TrialFigure>>>;

/// What a trial says of one figure.
#[derive(Clone, Debug, PartialEq)]
pub struct TrialOutcome {
    /// The factor; `None`: how much the effect of the first one differs with the second one.
    pub factor: Option<usize>,
    /// Without its value.
    pub figure: TrialFigure,
    /// One of each pass.
    pub ratios: Vec<f64>,
    /// Medians with the old and the new value, all else as it was.
    pub values: Option<[f64; 2]>,
    /// The share of the measurements that others disturbed, and how.
    pub disturbed: (f64, Option<Reason>),
    /// The share with the core in its fastest state, where a reference loop shows it.
    pub fastest: Option<f64>,
}

pub fn outcomes(trial: &Trial, passes: &[TrialPass]) -> Vec<TrialOutcome> {
    let cells = trial.cells();
    let mut figures: Vec<TrialFigure> = Vec::new();
    for figure in passes.iter().flatten().flatten().flatten() {
        if !figures.iter().any(|known| is_same(known, figure)) {
            figures.push(TrialFigure { value: f64::NAN, ..figure.clone() });
        }
    }
    let mut contrasts: Vec<(Option<usize>, Contrast)> = (0..trial.factors.len())
        .filter_map(|factor| Some((Some(factor), effect(&cells, factor, [0, 1])?)))
        .collect();
    if trial.factors.len() == 2 {
        let both = interaction(&cells, (0, [0, 1]), (1, [0, 1]));
        contrasts.extend(both.map(|both| (None, both)));
    }
    let mut all = Vec::new();
    for figure in figures {
        let value = |of_cell: &Option<Vec<TrialFigure>>| {
            let of_figure = of_cell.as_ref()?.iter().find(|one| is_same(one, &figure))?;
            Some(of_figure.value).filter(|value| value.is_finite())
        };
        let values: Vec<Vec<Option<f64>>> =
            passes.iter().map(|pass| pass.iter().map(value).collect()).collect();
        let middle = |cell: usize| {
            median(&values.iter().filter_map(|pass| pass[cell]).collect::<Vec<f64>>())
        };
        for (factor, contrast) in &contrasts {
            let with = factor.and_then(|factor| {
                let is_alone = |cell: &Vec<u32>| {
                    cell.iter().enumerate().all(|(at, level)| *level == u32::from(at == factor))
                };
                middle(0).zip(cells.iter().position(is_alone).and_then(middle))
            });
            let ratios: Vec<f64> = values.iter().filter_map(|pass| contrast.ratio(pass)).collect();
            if !ratios.is_empty() {
                let values = with.map(|(old, new)| [old, new]);
                let of_figure = passes.iter().flatten().flatten().flatten();
                let own: Vec<_> = of_figure.filter(|one| is_same(one, &figure)).collect();
                all.push(TrialOutcome {
                    factor: *factor,
                    figure: figure.clone(),
                    ratios,
                    values,
                    disturbed: disturbed(&own),
                    fastest: fastest(&own),
                });
            }
        }
    }
    all
}

fn disturbed(figures: &[&TrialFigure]) -> (f64, Option<Reason>) {
    let mut reasons = figures.iter().filter_map(|one| one.disturbed.as_ref());
    let first = reasons.clone().next().cloned();
    (reasons.by_ref().count() as f64 / figures.len() as f64, first)
}

fn fastest(figures: &[&TrialFigure]) -> Option<f64> {
    let loops: Vec<f64> = figures.iter().filter_map(|one| one.loop_ns).collect();
    let limit = loops.iter().copied().reduce(f64::min)? * (1.0 + TOLERANCE);
    let fast = loops.iter().filter(|ns| **ns <= limit).count();
    Some(fast as f64 / loops.len() as f64)
}

fn is_same(one: &TrialFigure, other: &TrialFigure) -> bool {
    one.of == other.of && one.params == other.params
}
