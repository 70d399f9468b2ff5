//! The interval of a case that is extended once, to twice as many processes, where it is wide
//! (rule 13).

use fathom_analysis::judge::is_precise;
use fathom_analysis::statistics::{median_interval, order_interval};

use crate::chance::Rate;
use crate::parallel::each;
use crate::section::{Section, cells, kept, percent};
use crate::shapes::{Draw, heavy, log_normal, normal};
use crate::worlds::TRUTH;
use crate::{Source, Trials};

/// Processes at standard and thorough effort; twice as many where that is not enough.
const EFFORTS: [usize; 2] = [10, 20];
/// How far processes differ, in per cent: one process more or less decides at 2.
const SPREADS: [f64; 3] = [1.0, 2.0, 3.0];
/// A name, and how to draw.
type Shape = (&'static str, Draw);
/// What process medians are like: here they are drawn themselves, so that nothing but the stopping
/// is at work.
const SHAPES: [Shape; 3] = [("normal", normal), ("log-normal", log_normal), ("heavy tail", heavy)];

#[derive(Default)]
struct Figure {
    kept: Rate,
    stated: f64,
    processes: f64,
}

impl Figure {
    fn of(shape: Shape, spread: f64, effort: usize, trials: Trials) -> Self {
        let name = format!("stopping {} {spread} {effort}", shape.0);
        let mut source = Source::named(trials.seed, &name);
        let mut figure = Self::default();
        for _ in 0..trials.runs {
            let drawn = (shape.1)(&mut source, 2 * effort).into_iter();
            let all: Vec<f64> =
                drawn.map(|off| (TRUTH + spread * off).max(TRUTH / 100.0)).collect();
            let taken = if is_precise(&all[..effort]) { &all[..effort] } else { &all };
            let Some(([low, high], level)) = median_interval(taken) else { continue };
            figure.kept.note(low <= TRUTH && TRUTH <= high);
            figure.stated += level / f64::from(trials.runs);
            figure.processes += taken.len() as f64 / f64::from(trials.runs);
        }
        figure
    }
}

/// The chance that the intervals of so many and of twice as many processes both hold the median: a
/// walk of a fair coin, which must stay between the ranks of each (Darling & Robbins, PNAS 58,
/// 1967).
fn at_both_looks(effort: usize) -> f64 {
    let mut below = vec![1.0];
    for size in 1..=2 * effort {
        let mut next = vec![0.0; size + 1];
        for (count, chance) in below.iter().enumerate() {
            next[count] += chance / 2.0;
            next[count + 1] += chance / 2.0;
        }
        if let Some(interval) = order_interval(size).filter(|_| size % effort == 0) {
            for (count, chance) in next.iter_mut().enumerate() {
                if !(interval.low < count && count <= interval.high) {
                    *chance = 0.0;
                }
            }
        }
        below = next;
    }
    below.iter().sum()
}

const WORDS: &str = "\
At standard effort 10 processes are taken, at thorough effort 20, and twice as many where half the
interval of those is above 1 %. That is most tempting where processes differ by as much as decides:
the *spread* is what they differ by, in per cent.";

pub(crate) fn section(trials: Trials) -> Section {
    let rows: Vec<(Shape, f64)> =
        SHAPES.into_iter().flat_map(|shape| SPREADS.map(|spread| (shape, spread))).collect();
    let items: Vec<(Shape, f64, usize)> = rows
        .iter()
        .flat_map(|(shape, spread)| EFFORTS.map(|effort| (*shape, *spread, effort)))
        .collect();
    let figures =
        each(&items, |(shape, spread, effort)| Figure::of(*shape, *spread, *effort, trials));
    let mut section = Section::titled("Measured until it is narrow enough", WORDS);
    for (((name, _), spread, effort), figure) in items.iter().zip(&figures) {
        let what = format!("stopping, {name}, spread {spread}, {effort} or twice");
        section.at_least(figure.kept, 0.93, &what);
    }
    let mut header = cells(["shape", "spread %"]);
    for effort in EFFORTS {
        header.extend([
            format!("{effort} or {}: processes", 2 * effort),
            "stated".into(),
            "kept".into(),
        ]);
    }
    let rows: Vec<Vec<String>> = rows
        .iter()
        .zip(figures.chunks(EFFORTS.len()))
        .map(|(((name, _), spread), figures)| {
            let mut row = vec![(*name).to_owned(), format!("{spread}")];
            for Figure { kept: rate, stated, processes } in figures {
                row.extend([format!("{processes:.1}"), percent(*stated), kept(*rate, *stated)]);
            }
            row
        })
        .collect();
    section.table(&header, &rows);
    let [standard, thorough] = EFFORTS.map(|effort| percent(at_both_looks(effort)));
    section.say(&format!(
        "A second look costs up to a point of the level. Whatever the shape and whatever decides, \
         at least\n{standard} % (10 or 20) and {thorough} % (20 or 40) are kept: that is the \
         chance that a fair coin keeps\nwithin the ranks of both intervals."
    ));
    section
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_look_costs_some_of_the_level() {
        // By hand: 5 of 5 or 0 of 5 miss, and of the others those that end in 0, 1, 9 or 10 of 10.
        assert!((at_both_looks(5) - (1.0 - 2.0 * (32.0 + 5.0 * 1.0) / 1024.0)).abs() < 1e-15);
        let (one, both) = (order_interval(10).map_or(0.0, |it| it.level), at_both_looks(10));
        assert!(both < one && both > 0.93, "{both}");
    }
}
