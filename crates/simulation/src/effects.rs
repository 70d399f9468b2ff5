//! Effects of factors in randomised complete blocks, as `fathom transfer` has them.

use fathom_analysis::effects::{Contrast, Levels, effect, interaction};
use fathom_analysis::statistics::{median_interval, order_interval};

use crate::chance::Rate;
use crate::parallel::each;
use crate::section::{Section, cells, kept, percent};
use crate::shapes::{Draw, heavy, log_normal, normal, slow_outliers};
use crate::{Source, Trials};

/// Numbers of blocks.
const BLOCKS: [usize; 4] = [5, 10, 25, 100];
const SHAPES: [(&str, Draw); 4] = [
    ("normal", normal),
    ("log-normal", log_normal),
    ("heavy tail", heavy),
    ("outliers", slow_outliers),
];
/// Ways to send and to receive.
const LEVELS: [u32; 2] = [6, 4];
/// What slows a whole block, and a single cell, as the deviation of a logarithm.
const OF_BLOCK: f64 = 0.5;
const OF_CELL: f64 = 0.05;
/// True effects of level 1 of each factor, and of both together.
const EFFECTS: [f64; 2] = [0.2, -0.4];
const TOGETHER: f64 = 0.3;
/// The stated level ± 2 points.
const POINTS: f64 = 0.02;

#[derive(Default)]
struct Figure {
    effect: Rate,
    interaction: Rate,
    /// An interaction that does not exist.
    false_alarm: Rate,
}

fn design() -> Vec<Levels> {
    (0..LEVELS[0]).flat_map(|send| (0..LEVELS[1]).map(move |other| vec![send, other])).collect()
}

/// The logarithm of the true time of a cell.
fn truth(cell: &Levels) -> f64 {
    match cell[..] {
        [1, 1] => EFFECTS[0] + EFFECTS[1] + TOGETHER,
        [1, _] => EFFECTS[0],
        [_, 1] => EFFECTS[1],
        _ => 0.0,
    }
}

impl Figure {
    fn of(name: &str, draw: Draw, blocks: usize, trials: Trials) -> Self {
        let mut source = Source::named(trials.seed, &format!("effects {name} {blocks}"));
        let design = design();
        // Of the second factor: over the levels of the first, one of which has the interaction.
        let of_second = effect(&design, 1, [0, 1]).expect("pairs");
        let both = interaction(&design, (0, [0, 1]), (1, [0, 1])).expect("pairs");
        let none = interaction(&design, (0, [0, 2]), (1, [0, 2])).expect("pairs");
        let second = EFFECTS[1] + TOGETHER / f64::from(LEVELS[0]);
        let mut figure = Self::default();
        for _ in 0..trials.runs {
            let mut times = Vec::new();
            for _ in 0..blocks {
                let slow = OF_BLOCK * source.normal();
                let noise = draw(&mut source, design.len());
                let time = |(cell, noise): (&Levels, f64)| {
                    Some((truth(cell) + slow + OF_CELL * noise).exp())
                };
                times.push(design.iter().zip(noise).map(time).collect::<Vec<_>>());
            }
            let contains = |contrast: &Contrast, truth: f64| {
                let ratios: Vec<f64> = times.iter().filter_map(|it| contrast.ratio(it)).collect();
                let ([low, high], _) = median_interval(&ratios).expect("enough blocks");
                (low..=high).contains(&truth.exp())
            };
            figure.effect.count(contains(&of_second, second));
            figure.interaction.count(contains(&both, TOGETHER));
            figure.false_alarm.count(!contains(&none, 0.0));
        }
        figure
    }
}

const WORDS: &str = "\
An effect is the median over blocks of the ratio of times within a block, a geometric mean over all
pairs of cells that differ only in the factor; its interval is by order statistics. Here 6 × 4
cells, blocks that differ by a factor of 1.6 (one standard deviation), and noise of 5 % in each
cell. How often the interval contains the true effect, and the true interaction; and how often one
excludes 1 where there is no interaction.";

pub(crate) fn section(trials: Trials) -> Section {
    let items: Vec<(&(&str, Draw), usize)> =
        SHAPES.iter().flat_map(|shape| BLOCKS.map(|blocks| (shape, blocks))).collect();
    let figures = each(&items, |((name, draw), blocks)| Figure::of(name, *draw, *blocks, trials));
    let mut section = Section::new("Effects of factors", WORDS);
    for ((shape, blocks), figure) in items.iter().zip(&figures) {
        let level = order_interval(*blocks).expect("enough blocks").level;
        for (rate, of) in [(figure.effect, "effect"), (figure.interaction, "interaction")] {
            let what = format!("{of}, {} noise, {blocks} blocks", shape.0);
            section.at_least(rate, level - POINTS, &what);
            section.at_most(rate, level + POINTS, &what);
        }
        let what = format!("no interaction, {} noise, {blocks} blocks", shape.0);
        section.at_most(figure.false_alarm, 1.0 - level + POINTS, &what);
    }
    let mut header = cells(["noise"]);
    header.extend(BLOCKS.map(|blocks| {
        let level = order_interval(blocks).expect("enough blocks").level;
        format!("{blocks} blocks, {}", percent(level))
    }));
    section.grid(&header, &SHAPES, &figures, |shape, figures| {
        let mut row = cells([shape.0]);
        row.extend(figures.iter().zip(BLOCKS).map(|(figure, blocks)| {
            let level = order_interval(blocks).expect("enough blocks").level - POINTS;
            format!(
                "{}, {}; {}",
                kept(figure.effect, level),
                kept(figure.interaction, level),
                percent(figure.false_alarm.share())
            )
        }));
        row
    });
    section
}
