//! From measurements to ratios: the number with the new value by that with the old one.

use fathom_analysis::effects::{Contrast, effect, interaction};
use fathom_analysis::statistics::median;

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
                all.push(TrialOutcome { factor: *factor, figure: figure.clone(), ratios, values });
            }
        }
    }
    all
}

fn is_same(one: &TrialFigure, other: &TrialFigure) -> bool {
    one.of == other.of && one.params == other.params
}
