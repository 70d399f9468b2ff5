//! Effects of factors in randomised complete blocks, as `fathom transfer` has them.

use fathom_analysis::effects::{Contrast, Levels, effect, interaction};
use fathom_analysis::statistics::{median_interval, order_interval};

use crate::chance::ChanceRate;
use crate::experiment::Experiment;
use crate::section::{Section, marked_below, percent};
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

/// Counts whether the intervals have the effect and the interaction, and whether one excludes 1
/// where there is no interaction.
fn trial(draw: Draw, blocks: usize, source: &mut Source, counts: &mut [ChanceRate; 3]) {
    let design = design();
    // Of the second factor: over the levels of the first, one of which has the interaction.
    let of_second = effect(&design, 1, [0, 1]).expect("pairs");
    let both = interaction(&design, (0, [0, 1]), (1, [0, 1])).expect("pairs");
    let none = interaction(&design, (0, [0, 2]), (1, [0, 2])).expect("pairs");
    let second = EFFECTS[1] + TOGETHER / f64::from(LEVELS[0]);
    let mut times = Vec::new();
    for _ in 0..blocks {
        let slow = OF_BLOCK * source.normal();
        let noise = draw(source, design.len());
        let time =
            |(cell, noise): (&Levels, f64)| Some((truth(cell) + slow + OF_CELL * noise).exp());
        times.push(design.iter().zip(noise).map(time).collect::<Vec<_>>());
    }
    let contains = |contrast: &Contrast, truth: f64| {
        let ratios: Vec<f64> = times.iter().filter_map(|it| contrast.ratio(it)).collect();
        let ([low, high], _) = median_interval(&ratios).expect("enough blocks");
        (low..=high).contains(&truth.exp())
    };
    let found = [contains(&of_second, second), contains(&both, TOGETHER), !contains(&none, 0.0)];
    counts.iter_mut().zip(found).for_each(|(rate, hit)| rate.count(hit));
}

fn level(blocks: usize) -> f64 {
    order_interval(blocks).expect("enough blocks").level
}

const WORDS: &str = "\
An effect is the median over blocks of the ratio of times within a block, a geometric mean over all
pairs of cells that differ only in the factor; its interval is by order statistics. Here 6 × 4
cells, blocks that differ by a factor of 1.6 (one standard deviation), and noise of 5 % in each
cell. How often the interval contains the true effect, and the true interaction; and how often one
excludes 1 where there is no interaction.";

pub(crate) fn section(trials: Trials) -> Section {
    let mut section = Section::new("Effects of factors", WORDS);
    Experiment {
        rows: &SHAPES,
        columns: &BLOCKS,
        name: |(name, _), blocks| format!("effects {name} {blocks}"),
        trial: |(_, draw), blocks, source, counts| trial(*draw, *blocks, source, counts),
        check: |section, (name, _), blocks, &[effect, interaction, false_alarm]| {
            let level = level(*blocks);
            for (rate, of) in [(effect, "effect"), (interaction, "interaction")] {
                let what = format!("{of}, {name} noise, {blocks} blocks");
                section.at_least(rate, level - POINTS, &what);
                section.at_most(rate, level + POINTS, &what);
            }
            let what = format!("no interaction, {name} noise, {blocks} blocks");
            section.at_most(false_alarm, 1.0 - level + POINTS, &what);
        },
        head: "noise",
        title: |(name, _)| (*name).to_owned(),
        heads: |blocks| format!("{blocks} blocks, {}", percent(level(*blocks))),
        cells: |_, blocks, &[effect, interaction, false_alarm]| {
            let [effect, interaction] =
                [effect, interaction].map(|rate| marked_below(rate, level(*blocks) - POINTS));
            format!("{effect}, {interaction}; {}", percent(false_alarm.share()))
        },
    }
    .run(&mut section, trials);
    section
}
