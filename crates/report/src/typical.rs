//! Typical values: where published machines with this CPU lie, beside the numbers of a run.

use fathom_analysis::typical::{Beside, Row};
use fathom_record::quantity::{NOTHING, quantity_within, span_within};
use fathom_record::{Position, Protocol, Record, State, Typical};

use crate::case::named;
use crate::cells::{LIMITS_WIDTH, measured, predicted};
use crate::grid::Grid;
use crate::layout::Layout;
use crate::opening::labelled;
use crate::paint::{BAD, CARE, FAINT, GOOD, PLAIN, STRONG, paint_lines};
use crate::wrap::{NARROWEST, glued, width_of, wrapped};

/// `96.5…128 ns`.
pub(crate) fn range(record: &Record, typical: &Typical, width: usize) -> String {
    span_within(typical.low, typical.high, record.unit, width)
}

/// `worse than all 49 machine types with AMD EPYC Genoa and up to 4 CPUs (5th to 95th percentile
/// 96.5…128 ns)`; `None` for a record without a typical range.
pub(crate) fn words(record: &Record) -> Option<String> {
    let typical = record.typical.as_ref()?;
    let n = typical.n.to_string();
    let place = typical.words();
    let place = place.strip_suffix(&n).unwrap_or(&place);
    let range = glued(&range(record, typical, LIMITS_WIDTH));
    Some(format!("{place}{} (5th to 95th percentile {range})", typical.group()))
}

/// `typical 96.5…128 ns: worse than all 49`
pub(crate) fn remark(record: &Record) -> Option<String> {
    let typical = record.typical.as_ref()?;
    let range = glued(&format!("typical {}", range(record, typical, LIMITS_WIDTH)));
    Some(match typical.position {
        Position::Typical => format!("{range} (of {} machine types)", typical.n),
        _ => format!("{range}: {}", typical.words()),
    })
}

const WIDEST: usize = 140;

mod column {
    pub(super) const NAME: usize = 0;
    pub(super) const MEASURED: usize = 1;
    pub(super) const PREDICTED: usize = 2;
    pub(super) const TYPICAL: usize = 3;
    pub(super) const MEDIAN: usize = 4;
    pub(super) const LIKE: usize = 5;
    pub(super) const WORD: usize = 6;
    pub(super) const COUNT: usize = 7;
}

/// The numbers of a run that have a typical range, the most unusual first.
pub fn beside(beside: &Beside, layout: &Layout) -> String {
    let line = layout.width.clamp(NARROWEST, WIDEST);
    let mut text = labelled("run", &format!("{}, {}", beside.run, beside.host), line);
    text += &labelled("CPU", &beside.cpu, line);
    if let Some(like) = &beside.like {
        let how = format!("{}, measured once, on {}", like.name, like.date);
        text += &labelled("like", &how, line);
    }
    text.push('\n');
    if let Some(why) = &beside.absence {
        return text + &wrapped(&format!("{why}."), line, "", "  ");
    }
    if beside.rows.is_empty() {
        return text + &wrapped(NO_ROWS, line, "", "  ");
    }
    let is_wide = line >= 110;
    let mut widths = [
        None,
        Some(12),
        is_wide.then_some(14),
        Some(14),
        is_wide.then_some(10),
        beside.like.is_some().then_some(10),
        Some(24),
    ];
    if line < 80 {
        widths[column::MEASURED] = Some(11);
        // The word says where the number is in it.
        widths[column::TYPICAL] = widths[column::TYPICAL].filter(|_| beside.like.is_none());
    }
    let left = &[column::NAME, column::WORD];
    let grid = Grid::new(line, 1, column::NAME, left, widths);
    let names = ["", "measured", "predicted", "typical", "median", "like", ""];
    text += &grid.line(names, [STRONG; column::COUNT]);
    beside.rows.iter().for_each(|row| text += &line_of(row, &grid, line));
    let mut kinds: Vec<String> = Vec::new();
    for kind in beside.rows.iter().map(|row| row.typical().kind()) {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    let of_all = beside.rows.iter().any(|row| row.typical().size.is_none());
    let of_all = if of_all { " *: of all sizes." } else { "" };
    let foot = format!(
        "typical: 5th to 95th percentile of published machine types with {}: what such machines \
         gave, not what they should give.{of_all} {METHOD}",
        kinds.join(", or with ")
    );
    text + &paint_lines(FAINT, &wrapped(&foot, line, "", "  "))
}

const NO_ROWS: &str = "No number of this run has a typical range: latency on huge pages from 4 MiB \
                       on, of L1, L3 and memory, and bandwidth of all CPUs have one; measure \
                       them with `fathom run memory`.";
/// What is not alike.
const METHOD: &str = "Each type was measured once: best of several passes, a thread on each \
                      logical CPU; here: medians, a pinned thread on each core. Source: \
                      sc-inspector-data of Spare Cores, CC BY-SA 4.0.";

fn line_of(row: &Row, grid: &Grid<{ column::COUNT }>, line: usize) -> String {
    let Row { record, like } = row;
    let typical = row.typical();
    let mut name = named(&record.metric, &record.params);
    let mut text = String::new();
    if width_of(&name) > grid.width(column::NAME) {
        text = wrapped(&name, line, "", "  ");
        name.clear();
    }
    let value = measured(record, Protocol::Median, grid.width(column::MEASURED));
    let style = match typical.position {
        Position::Better => GOOD,
        Position::Typical | Position::NotJudged => PLAIN,
        Position::Worse => BAD,
    };
    let style = if record.verdict.state == State::Noisy { CARE } else { style };
    let amount = |value, column| quantity_within(value, record.unit, grid.width(column));
    let texts = [
        name,
        value.0,
        match record.prediction {
            Some(_) => predicted(record, grid.width(column::PREDICTED)).0,
            None => NOTHING.to_owned(),
        },
        range(record, typical, grid.width(column::TYPICAL)),
        amount(typical.median, column::MEDIAN),
        like.map_or_else(|| NOTHING.to_owned(), |value| amount(value, column::LIKE)),
        typical.words() + if typical.size.is_none() { " *" } else { "" },
    ];
    let mut styles = [PLAIN; column::COUNT];
    (styles[column::MEASURED], styles[column::WORD]) = (value.1, style);
    text + &grid.line(texts.each_ref().map(String::as_str), styles)
}
