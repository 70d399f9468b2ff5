//! Coverage with optional stopping: a case gets twice as many processes if its interval is wide
//! (rule 13).

use fathom_analysis::judge::is_precise;
use fathom_analysis::statistics::{median_interval, order_interval};

use crate::chance::Rate;
use crate::parallel::each;
use crate::section::{Section, cells, kept, percent};
use crate::shapes::{Draw, heavy, log_normal, normal};
use crate::worlds::TRUTH;
use crate::{Source, Trials};

/// Initial processes at standard and thorough effort.
const EFFORTS: [usize; 3] = [9, 12, 20];
/// Spread of processes in per cent. At 2 % either number of processes is likely.
const SPREADS: [f64; 3] = [1.0, 2.0, 3.0];
type Shape = (&'static str, Draw);
/// Distributions of process medians, which are drawn directly: only the stopping affects coverage.
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
            let used = if is_precise(&all[..effort]) { &all[..effort] } else { &all };
            let Some(([low, high], level)) = median_interval(used) else { continue };
            figure.kept.count(low <= TRUTH && TRUTH <= high);
            figure.stated += level / f64::from(trials.runs);
            figure.processes += used.len() as f64 / f64::from(trials.runs);
        }
        figure
    }
}

/// The probability that the intervals of `effort` and of twice as many processes both contain the
/// median: a random walk of a fair coin that stays within the ranks of both (Darling & Robbins,
/// PNAS 58, 1967).
fn coverage_of_both(effort: usize) -> f64 {
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
Standard effort measures 12 processes, or 9 where visits are long, thorough effort 20, and twice as
many if half the width of their interval is above 1 %. The effect on the level is largest for a
*spread* of processes (in per cent) at which either number is likely.";

pub(crate) fn section(trials: Trials) -> Section {
    let rows: Vec<(Shape, f64)> =
        SHAPES.into_iter().flat_map(|shape| SPREADS.map(|spread| (shape, spread))).collect();
    let items: Vec<(Shape, f64, usize)> = rows
        .iter()
        .flat_map(|(shape, spread)| EFFORTS.map(|effort| (*shape, *spread, effort)))
        .collect();
    let figures =
        each(&items, |(shape, spread, effort)| Figure::of(*shape, *spread, *effort, trials));
    let mut section = Section::new("Measured until it is narrow enough", WORDS);
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
    section.grid(&header, &rows, &figures, |((name, _), spread), figures| {
        let mut row = vec![(*name).to_owned(), format!("{spread}")];
        for Figure { kept: rate, stated, processes } in figures {
            row.extend([format!("{processes:.1}"), percent(*stated), kept(*rate, *stated)]);
        }
        row
    });
    let [dear, standard, thorough] = EFFORTS.map(|effort| percent(coverage_of_both(effort)));
    section.paragraph(&format!(
        "The second look lowers the level by up to one point. For all shapes and all stopping \
         rules, the level\nis at least {dear} % (9 or 18), {standard} % (12 or 24) and \
         {thorough} % (20 or 40): the probability that a fair\ncoin stays within the ranks of both \
         intervals."
    ));
    section
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_look_lowers_the_level() {
        // By hand: 0 or 5 of 5 miss, and of the others those with 0, 1, 9 or 10 of 10.
        assert!((coverage_of_both(5) - (1.0 - 2.0 * (32.0 + 5.0 * 1.0) / 1024.0)).abs() < 1e-15);
        let (one, both) = (order_interval(10).map_or(0.0, |it| it.level), coverage_of_both(10));
        assert!(both < one && both > 0.93, "{both}");
    }
}
