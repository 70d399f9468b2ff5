//! The interval of a case that is measured until it is narrow enough (rule 13).

use fathom_analysis::judge::is_precise;
use fathom_analysis::statistics::{median_interval, order_interval};

use crate::chance::Rate;
use crate::parallel::each;
use crate::section::{Section, cells, kept, percent};
use crate::shapes::{Draw, heavy, log_normal, normal};
use crate::worlds::TRUTH;
use crate::{Source, Trials};

/// The fewest and the most processes at standard and thorough effort.
const EFFORTS: [(usize, usize); 2] = [(10, 20), (20, 40)];
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
    fn of(shape: Shape, spread: f64, effort: (usize, usize), trials: Trials) -> Self {
        let name = format!("stopping {} {spread} {}", shape.0, effort.0);
        let mut source = Source::named(trials.seed, &name);
        let mut figure = Self::default();
        for _ in 0..trials.runs {
            let drawn = (shape.1)(&mut source, effort.1).into_iter();
            let all: Vec<f64> =
                drawn.map(|off| (TRUTH + spread * off).max(TRUTH / 100.0)).collect();
            let enough = (effort.0..effort.1).find(|count| is_precise(&all[..*count]));
            let taken = &all[..enough.unwrap_or(effort.1)];
            let Some(([low, high], level)) = median_interval(taken) else { continue };
            figure.kept.note(low <= TRUTH && TRUTH <= high);
            figure.stated += level / f64::from(trials.runs);
            figure.processes += taken.len() as f64 / f64::from(trials.runs);
        }
        figure
    }
}

/// The chance that the intervals of all sizes that are looked at hold the median: a walk of a fair
/// coin, which must stay between the ranks of each (Darling & Robbins, PNAS 58, 1967).
fn at_every_look((least, most): (usize, usize)) -> f64 {
    let mut below = vec![1.0];
    for size in 1..=most {
        let mut next = vec![0.0; size + 1];
        for (count, chance) in below.iter().enumerate() {
            next[count] += chance / 2.0;
            next[count + 1] += chance / 2.0;
        }
        if let Some(interval) = order_interval(size).filter(|_| size >= least) {
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
At standard effort 10 to 20 processes are taken, at thorough effort 20 to 40: the interval is looked
at after each, and enough when half of it is within 1 %. That is most tempting where processes
differ by as much as decides: the *spread* is what they differ by, in per cent.";

pub(crate) fn section(trials: Trials) -> Section {
    let rows: Vec<(Shape, f64)> =
        SHAPES.into_iter().flat_map(|shape| SPREADS.map(|spread| (shape, spread))).collect();
    let items: Vec<(Shape, f64, (usize, usize))> = rows
        .iter()
        .flat_map(|(shape, spread)| EFFORTS.map(|effort| (*shape, *spread, effort)))
        .collect();
    let figures =
        each(&items, |(shape, spread, effort)| Figure::of(*shape, *spread, *effort, trials));
    let mut section = Section::titled("Measured until it is narrow enough", WORDS);
    for (((name, _), spread, (least, most)), figure) in items.iter().zip(&figures) {
        let what = format!("stopping, {name}, spread {spread}, {least} to {most}");
        section.at_least(figure.kept, 0.93, &what);
    }
    let mut header = cells(["shape", "spread %"]);
    for (least, most) in EFFORTS {
        header.extend([format!("{least} to {most}: processes"), "stated".into(), "kept".into()]);
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
    let [standard, thorough] = EFFORTS.map(|effort| percent(at_every_look(effort)));
    section.say(&format!(
        "Looking often costs up to two points of the level. Whatever the shape and however it is \
         stopped,\nat least {standard} % (10 to 20) and {thorough} % (20 to 40) are kept: that is \
         the chance that a fair coin keeps\nwithin the ranks of the interval at every look."
    ));
    section
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_look_has_the_level_of_its_interval_and_many_have_less() {
        assert!((at_every_look((10, 10)) - 0.978_515_625).abs() < 1e-15);
        // By hand: 5 of 5 or 0 of 5 miss, and of 6 the same six heads or tails.
        assert!((at_every_look((5, 6)) - 0.9375).abs() < 1e-15);
        let (few, many) = (at_every_look((10, 12)), at_every_look((10, 20)));
        assert!(many < few && few < 0.978_515_625 && many > 0.9, "{few} {many}");
    }
}
