//! The limits of the user beside the numbers of a run.

use fathom_analysis::limits::{Answer, Judged, Judgement};
use fathom_analysis::load::Condition;
use fathom_record::quantity::{NOTHING, quantity, quantity_within, span_within};

use crate::grid::Grid;
use crate::layout::Layout;
use crate::opening::{labelled, minute};
use crate::paint::{BAD, CARE, FAINT, GOOD, PLAIN, STRONG, paint_lines};
use crate::wrap::{NARROWEST, glued, width_of, wrapped};

const WIDEST: usize = 120;
/// Columns of a screen that shows the intervals beside the numbers.
const WITH_INTERVAL: usize = 100;

/// The answer, and a row for each limit, those not kept first.
pub fn judgement(judgement: &Judgement, layout: &Layout) -> String {
    let line = layout.width.clamp(NARROWEST, WIDEST);
    let mut text = labelled("limits", &counts(judgement), line);
    let run = format!("{}, {} UTC", judgement.run, minute(&judgement.started));
    text += &labelled("run", &run, line);
    text.push('\n');
    let widths = [None, Some(12), (line >= WITH_INTERVAL).then_some(18), Some(20), Some(9)];
    let grid = Grid::new(line, 1, 0, &[0, 4], widths);
    text += &grid.line(["", "measured", "interval", "limit", ""], [STRONG; 5]);
    judgement.rows.iter().for_each(|row| text += &row_of(row, &grid, line));
    text
}

fn row_of(row: &Judged, grid: &Grid<5>, line: usize) -> String {
    let (mut name, mut text) = (row.name.clone(), String::new());
    if width_of(&name) > grid.width(0) {
        text = wrapped(&name, line, "", "  ");
        name.clear();
    }
    let style = match row.answer {
        Answer::Kept => GOOD,
        Answer::NotKept => BAD,
        Answer::Undecided => CARE,
    };
    let value = row.value.map_or(NOTHING.to_owned(), |it| quantity_within(it, row.unit, 12));
    let interval = row.interval.map(|[low, high]| span_within(low, high, row.unit, 18));
    let interval = interval.unwrap_or_else(|| NOTHING.to_owned());
    let texts = [&name, &value, &interval, &row.written, row.answer.words()];
    text += &grid.line(texts, [PLAIN, PLAIN, FAINT, PLAIN, style]);
    // A narrow screen has no column for it.
    let hidden = row.interval.filter(|_| line < WITH_INTERVAL && row.answer != Answer::Kept);
    let hidden =
        hidden.map(|[low, high]| format!("interval {}", span_within(low, high, row.unit, 18)));
    let more = hidden.iter().chain(&row.why).map(|text| wrapped(text, line, "    ", "      "));
    text + &paint_lines(FAINT, &more.collect::<String>())
}

/// `2 of 12 not kept, 1 undecided`, `all 12 kept`; of a single limit its answer.
pub fn counts(judgement: &Judgement) -> String {
    let all = judgement.rows.len();
    let of = |answer| judgement.count(answer);
    let (broken, undecided) = (of(Answer::NotKept), of(Answer::Undecided));
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
pub(crate) fn gate_word(answer: Answer) -> &'static str {
    match answer {
        Answer::Kept => "pass",
        Answer::NotKept => "fail",
        Answer::Undecided => "undecided",
    }
}

/// The conditions of a load, one line each: `p99>50ms: fail, 61.2 ms (58.0 ms to 66.1 ms) at 400
/// requests/s`.
#[must_use]
pub fn conditions(judged: &[Judged], width: usize) -> String {
    let line = |one: &Judged| {
        let answer = gate_word(one.answer);
        let words = |value| glued(&Condition::words(one.unit, value));
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

/// The line of a health check in the form of monitoring plugins: state, the cases that are not
/// kept, and all values in base units with their limits.
pub fn health(judgement: &Judgement) -> String {
    let state = match judgement.answer {
        Answer::Kept => "OK",
        Answer::Undecided => "WARNING",
        Answer::NotKept => "CRITICAL",
    };
    let worst = judgement.rows.iter().filter(|row| row.answer != Answer::Kept);
    let words = |row: &Judged| {
        let why = row.why.as_deref().unwrap_or_else(|| row.answer.words());
        let value = row.value.map_or(why.to_owned(), |it| quantity(it, row.unit));
        format!("{} {value} (limit {})", row.name, row.written)
    };
    let named: Vec<String> = worst.take(NAMED).map(words).collect();
    let named = if named.is_empty() { String::new() } else { format!(": {}", named.join(", ")) };
    let text = format!(
        "FATHOM {state} - {}{named}; run {} of {}, {} UTC",
        counts(judgement),
        judgement.run,
        judgement.host,
        minute(&judgement.started),
    );
    let mut line = plugin_line(&text);
    let mut before = " | ";
    for value in judgement.rows.iter().filter_map(performance) {
        if line.len() + value.len() > LINE_MAX {
            break;
        }
        line += &format!("{before}{value}");
        before = " ";
    }
    line + "\n"
}

/// On one line, and without the bar that begins the values.
#[must_use]
pub fn plugin_line(text: &str) -> String {
    fathom_record::escaped(text).replace('|', "/")
}

/// Nagios keeps 8 KiB of a line: the values of the worst cases come first.
const LINE_MAX: usize = 7_000;

/// Cases named in the line of a health check.
const NAMED: usize = 3;

/// `'memory.latency.dram'=0.0000001542s;;0:0.00000013`: alert outside of the second range.
fn performance(row: &Judged) -> Option<String> {
    use fathom_record::Unit;
    let (unit, factor) = match row.unit {
        Unit::Nanoseconds => ("s", 1e-9),
        Unit::Bytes => ("B", 1.0),
        _ => ("", 1.0),
    };
    // A label may not contain these.
    let name = row.name.replace('=', ":").replace('\'', "");
    let end = |value: Option<f64>| value.map_or(String::new(), |it| number(it * factor));
    let low = row.limit.low.map_or("~".to_owned(), |it| number(it * factor));
    let value = number(row.value? * factor);
    Some(format!("'{name}'={value}{unit};;{low}:{}", end(row.limit.high)))
}

/// Six significant figures, without an exponent.
fn number(value: f64) -> String {
    let digits = 6 - (value.abs().max(f64::MIN_POSITIVE).log10().floor() as i32) - 1;
    let text = format!("{value:.*}", usize::try_from(digits).unwrap_or(0));
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_a_health_check_have_no_exponent() {
        let texts = [1.542e-7, 3.25e10, 0.0, 1.25, -2.0, 123_456_789.0].map(number);
        assert_eq!(texts, ["0.0000001542", "32500000000", "0", "1.25", "-2", "123456789"]);
    }
}
