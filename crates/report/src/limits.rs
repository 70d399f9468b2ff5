//! The limits of the user beside the numbers of a run.

use fathom_analysis::limits::{LimitAnswer, LimitJudged, LimitJudgement};
use fathom_analysis::load::LoadCondition;
use fathom_record::quantity::{quantity_within, span_within};

use crate::column::{Column, Lines, ShownCell, plain};
use crate::layout::Layout;
use crate::opening::{labelled, minute};
use crate::paint::{BAD, CARE, FAINT, GOOD, paint_lines};
use crate::shown::nothing;
use crate::wrap::{NARROWEST, glued, wrapped};

const WIDEST: usize = 120;
/// Columns of a screen that shows the intervals beside the numbers.
const WITH_INTERVAL: usize = 100;
const INTERVAL: usize = 18;

/// The answer, and a row for each limit, those not kept first.
pub fn judgement(judgement: &LimitJudgement, layout: &Layout) -> String {
    let line = layout.width.clamp(NARROWEST, WIDEST);
    let mut text = labelled("limits", &counts(judgement), line);
    let run = format!("{}, {} UTC", judgement.run, minute(&judgement.started));
    text += &labelled("run", &run, line);
    text.push('\n');
    let lines = Lines::new(line, 1, &COLUMNS);
    text += &lines.header();
    judgement.rows.iter().for_each(|row| text += &row_of(row, &lines));
    text
}

/// A judged limit with its name, if that is not above it.
type NamedLimit<'a> = (&'a str, &'a LimitJudged);
type LimitCell = fn(&NamedLimit<'_>, usize) -> ShownCell;

static COLUMNS: [Column<LimitCell>; 5] = [
    Column::left("", &[], |(name, _), _| plain(*name)),
    Column::right("measured", &[(0, 12)], |(_, row), width| {
        plain(row.value.map_or_else(nothing, |it| quantity_within(it, row.unit, width)))
    }),
    Column::right("interval", &[(WITH_INTERVAL, INTERVAL)], |(_, row), _| {
        (interval(row).unwrap_or_else(nothing), FAINT)
    }),
    Column::right("limit", &[(0, 20)], |(_, row), _| plain(&row.written)),
    Column::left("", &[(0, 9)], |(_, row), _| {
        let style = match row.answer {
            LimitAnswer::Kept => GOOD,
            LimitAnswer::NotKept => BAD,
            LimitAnswer::Undecided => CARE,
        };
        (row.answer.words().to_owned(), style)
    }),
];

fn interval(row: &LimitJudged) -> Option<String> {
    row.interval.map(|[low, high]| span_within(low, high, row.unit, INTERVAL))
}

fn row_of(row: &LimitJudged, lines: &Lines<LimitCell>) -> String {
    let [above, name] = lines.name(row.name.clone(), ["", "  "]);
    let text = above + &lines.row(|cell, width| cell(&(&name, row), width));
    // A narrow screen has no column for it.
    let is_hidden = lines.line < WITH_INTERVAL && row.answer != LimitAnswer::Kept;
    let hidden = interval(row).filter(|_| is_hidden).map(|it| format!("interval {it}"));
    let more =
        hidden.iter().chain(&row.why).map(|text| wrapped(text, lines.line, "    ", "      "));
    text + &paint_lines(FAINT, &more.collect::<String>())
}

/// `2 of 12 not kept, 1 undecided`, `all 12 kept`; of a single limit its answer.
pub fn counts(judgement: &LimitJudgement) -> String {
    let all = judgement.rows.len();
    let of = |answer| judgement.count(answer);
    let (broken, undecided) = (of(LimitAnswer::NotKept), of(LimitAnswer::Undecided));
    match (broken, undecided) {
        _ if all == 1 => judgement.answer.words().to_owned(),
        (0, 0) => format!("all {all} kept"),
        _ if broken == all => format!("all {all} not kept"),
        _ if undecided == all => format!("all {all} undecided"),
        (0, _) => format!("{undecided} of {all} undecided, the others kept"),
        (_, 0) => format!("{broken} of {all} not kept, the others kept"),
        _ => format!("{broken} of {all} not kept, {undecided} undecided"),
    }
}

/// The answer of a gate.
pub(crate) fn gate_word(answer: LimitAnswer) -> &'static str {
    match answer {
        LimitAnswer::Kept => "pass",
        LimitAnswer::NotKept => "fail",
        LimitAnswer::Undecided => "undecided",
    }
}

/// The conditions of a load, one line each: `p99>50ms: fail, 61.2 ms (58.0 ms to 66.1 ms) at 400
/// requests/s`.
#[must_use]
pub fn conditions(judged: &[LimitJudged], width: usize) -> String {
    let line = |one: &LimitJudged| {
        let answer = gate_word(one.answer);
        let words = |value| glued(&LoadCondition::words(one.unit, value));
        let ends = one.interval.filter(|[low, high]| low < high);
        let interval = ends.map(|ends| format!(" ({})", ends.map(words).join(" to ")));
        let value = one.value.map(|it| words(it) + &interval.unwrap_or_default());
        let at = (!one.name.is_empty()).then(|| format!("at {}", one.name));
        let found: Vec<String> = [value, at].into_iter().flatten().collect();
        let found = [Some(found.join(" ")), one.why.clone()].into_iter().flatten();
        let found = found.filter(|text| !text.is_empty()).collect::<Vec<String>>().join(": ");
        let text = format!("{}: {answer}, {found}", one.written);
        wrapped(&text, width, "fail-if         ", "                ")
    };
    judged.iter().map(line).collect()
}
