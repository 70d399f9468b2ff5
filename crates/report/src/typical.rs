//! Typical values: where published machines with this CPU lie, beside the numbers of a run.

use fathom_analysis::typical::{TypicalBeside, TypicalRow};
use fathom_record::quantity::quantity_within;
use fathom_record::{Document, Position, Protocol, Record};

use crate::case::{counted, named};
use crate::column::{Column, Lines, ShownCell, plain};
use crate::core_state::busy;
use crate::distinct::distinct;
use crate::findings::typical_not_judged;
use crate::layout::Layout;
use crate::opening::labelled;
use crate::paint::{BAD, CARE, FAINT, GOOD, PLAIN, paint_lines};
use crate::shown::{LIMITS_WIDTH, ShownRecord, nothing, typical_range};
use crate::wrap::{NARROWEST, glued, wrapped};

/// `worse than all 49 machine types with AMD EPYC Genoa and up to 4 CPUs (5th to 95th percentile
/// 96.5…128 ns)`; `None` for a record without a typical range.
pub(crate) fn words(record: &Record) -> Option<String> {
    let typical = record.typical.as_ref()?;
    let n = typical.n.to_string();
    let place = typical.words();
    let place = place.strip_suffix(&n).unwrap_or(&place);
    let range = glued(&typical_range(record, LIMITS_WIDTH)?);
    Some(format!("{place}{} (5th to 95th percentile {range})", typical.group()))
}

/// `typical 96.5…128 ns: worse than all 49`
pub(crate) fn remark(record: &Record) -> Option<String> {
    let typical = record.typical.as_ref()?;
    let range = glued(&format!("typical {}", typical_range(record, LIMITS_WIDTH)?));
    Some(match typical.position {
        Position::Typical => format!("{range} (of {} machine types)", typical.n),
        _ => format!("{range}: {}", typical.words()),
    })
}

const WIDEST: usize = 140;

/// A row with its name, if that is not above it.
struct NamedRow<'a> {
    name: &'a str,
    row: &'a TypicalRow,
}

/// The typical range, and the number of a machine like this one.
const TYPICAL: usize = 3;
const LIKE: usize = 5;

type TypicalCell = fn(&NamedRow<'_>, usize) -> ShownCell;

static COLUMNS: [Column<TypicalCell>; 7] = [
    Column::left("", &[], |it, _| plain(it.name)),
    Column::right("measured", &[(80, 12), (0, 11)], |it, width| it.shown().measured(width)),
    Column::right("predicted", &[(110, 14)], |it, width| match it.row.record.prediction {
        Some(_) => plain(it.shown().expected(width).0),
        None => plain(nothing()),
    }),
    Column::right("typical", &[(0, 14)], |it, width| {
        plain(typical_range(&it.row.record, width).unwrap_or_default())
    }),
    Column::right("median", &[(110, 10)], |it, width| {
        plain(quantity_within(it.row.typical().median, it.row.record.unit, width))
    }),
    Column::right("like", &[(0, 10)], |it, width| {
        let like = it.row.like.map(|value| quantity_within(value, it.row.record.unit, width));
        plain(like.unwrap_or_else(nothing))
    }),
    Column::left("", &[(0, 24)], |it, _| {
        let typical = it.row.typical();
        let style = match typical.position {
            _ if it.shown().is_noisy() => CARE,
            Position::Better => GOOD,
            Position::Typical | Position::NotJudged => PLAIN,
            Position::Worse => BAD,
        };
        let words = match typical.position {
            Position::NotJudged => "not judged".to_owned(),
            _ => typical.words(),
        };
        (words + if typical.size.is_none() { " *" } else { "" }, style)
    }),
];

impl NamedRow<'_> {
    fn shown(&self) -> ShownRecord<'_> {
        ShownRecord::from_record(&self.row.record, Protocol::Median)
    }
}

/// The numbers of a run that have a typical range, the most unusual first.
pub fn beside(beside: &TypicalBeside, document: &Document, layout: &Layout) -> String {
    let line = layout.width.clamp(NARROWEST, WIDEST);
    let mut text = wrapped(&conclusion(beside), line, "", "  ");
    if let Some(how) = busy(document) {
        let how = format!("Measured on a {how}.");
        text += &paint_lines(CARE, &wrapped(&how, line, "", "  "));
    }
    text += &labelled("run", &format!("{}, {}", beside.run, beside.host), line);
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
    // On a narrow line the word says where the number is in the range.
    let lines = Lines::new(line, 1, &COLUMNS).retain(|at| match at {
        TYPICAL => line >= 80 || beside.like.is_none(),
        LIKE => beside.like.is_some(),
        _ => true,
    });
    text += &lines.header();
    for row in &beside.rows {
        let name = named(&row.record.metric, &row.record.params);
        let [above, name] = lines.name(name, ["", "  "]);
        text += &(above + &lines.row(|cell, width| cell(&NamedRow { name: &name, row }, width)));
    }
    let kinds = distinct(beside.rows.iter().map(|row| row.typical().kind()));
    let of_all = beside.rows.iter().any(|row| row.typical().size.is_none());
    let of_all = if of_all { " *: of all sizes." } else { "" };
    let foot = format!(
        "typical: 5th to 95th percentile of published machine types with {}: what such machines \
         gave, not what they should give.{of_all} {METHOD}",
        kinds.join(", or with ")
    );
    text + &paint_lines(FAINT, &wrapped(&foot, line, "", "  "))
}

/// How many numbers are outside what such machines gave, and why others are not judged.
fn conclusion(beside: &TypicalBeside) -> String {
    let count =
        |position| beside.rows.iter().filter(|row| row.typical().position == position).count();
    let (worse, better) = (count(Position::Worse), count(Position::Better));
    let mut parts = vec![match (worse, better) {
        _ if beside.rows.is_empty() => return String::new(),
        (0, 0) => "Nothing is shown to be unusual for such a machine".to_owned(),
        _ => {
            let of = counted(beside.rows.len(), "number");
            format!("{worse} of {of} worse than such machines give, {better} better")
        }
    }];
    let records: Vec<Record> = beside.rows.iter().map(|row| row.record.clone()).collect();
    let reasons = typical_not_judged(&records).into_iter();
    parts.extend(reasons.map(|(why, count)| format!("{count} not judged ({why})")));
    parts.join("; ") + "."
}

const NO_ROWS: &str = "No number of this run has a typical range: latency on huge pages from 4 MiB \
                       on, of L1, L3 and memory, and bandwidth of all CPUs have one; measure \
                       them with `fathom run memory`.";
/// What is not alike.
const METHOD: &str = "Each type was measured once: best of several passes, a thread on each \
                      logical CPU; here: medians, a pinned thread on each core. ~: noisy. Source: \
                      sc-inspector-data of Spare Cores, CC BY-SA 4.0.";
