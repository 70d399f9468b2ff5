//! What a command by hand prints: names with their facts, and how a number stands.

use fathom_record::quantity::{percent, quantity, range};
use fathom_record::{Agreement, Host, Params, Record, State, Summary};

use crate::cells::Setting;
use crate::counts::cause_words;
use crate::family::{self, Caches};
use crate::layout::{Columns, Layout};
use crate::remarks::meaning;
use crate::wrap::{glued, width_of, wrapped};

/// So many values of one process may have an interval.
const VALUES_MIN: u64 = 12;
/// The least width of the names.
const NAMES: usize = 14;

/// Names and what they stand for, one under the other, each line ended by a newline.
pub fn facts(facts: &[(&str, String)], width: usize) -> String {
    let names = facts.iter().map(|(name, _)| width_of(name)).max().unwrap_or(0).max(NAMES) + 2;
    let line = |(name, fact): &(&str, String)| {
        let first = format!("{name}{}", " ".repeat(names - width_of(name)));
        wrapped(fact, width, &first, &" ".repeat(names))
    };
    facts.iter().map(line).collect()
}

/// What was predicted of a number, and the verdict on both.
pub fn standing(record: &Record, width: usize) -> String {
    let mut lines: Vec<(&str, String)> = Vec::new();
    let summary = record.summary.as_ref().filter(|_| record.verdict.shows_number());
    if let Some(summary) = summary.filter(|summary| summary.n > 1) {
        let median = glued(&quantity(summary.median, record.unit));
        lines.push(("median", format!("{median} of {} values", summary.n)));
        lines.push(("interval", interval(record, summary)));
    }
    match (&record.prediction, &record.no_model) {
        (Some(prediction), _) => {
            let word = match record.agreement {
                Some(Agreement::Agrees) => ": agrees",
                Some(Agreement::Differs) => ": differs",
                Some(Agreement::Undecided) => match inside(record) {
                    Some(true) => ": lies within",
                    Some(false) => ": lies outside",
                    None => ": cannot tell",
                },
                None => "",
            };
            let range = glued(&range(prediction.low, prediction.high, record.unit));
            lines.push(("predicted", format!("{range}{word}")));
            lines.push(("", prediction.formula.clone()));
            if let Some(meaning) = meaning(record) {
                lines.push(("", meaning.to_owned()));
            }
        }
        (None, Some(none)) => lines.push(("predicted", format!("no model: {}", none.0))),
        (None, None) => {}
    }
    let state = record.verdict.state.word();
    match record.verdict.reasons.as_slice() {
        [] => lines.push(("verdict", state.to_owned())),
        reasons => {
            for reason in reasons {
                let next = match reason.next.as_str() {
                    "" => String::new(),
                    next => format!("; {next}"),
                };
                let cause = cause_words(reason.cause);
                if record.verdict.state == State::Unavailable {
                    lines.push(("verdict", format!("{state}: {}{next}", reason.text)));
                    continue;
                }
                lines.push(("verdict", format!("{state} ({cause}): {}{next}", reason.text)));
            }
        }
    }
    facts(&lines, width)
}

/// The curves among these results of one metric as a drawing, as [`crate::Table`] has it; empty
/// where the line is too narrow for it, or a curve has too few points.
pub fn drawing(records: &[Record], host: &Host, width: usize) -> String {
    let layout = Layout { width, ..Layout::default() };
    let columns = Columns::of(&layout);
    let setting = Setting { columns: &columns, protocol: layout.protocol, hz: None };
    let cases: Vec<&Params> = records.iter().map(|record| &record.params).collect();
    let curves = family::curves(&cases);
    let curves: Vec<&family::Curve> = curves.iter().collect();
    family::chart(&curves, records, &Caches::of(host), &setting)
}

/// The interval of the median, or why there is none.
fn interval(record: &Record, summary: &Summary) -> String {
    match (summary.ci95, summary.ci_level) {
        (Some([low, high]), Some(level)) => {
            let [low, high] = [low, high].map(|end| glued(&quantity(end, record.unit)));
            format!("{low} to {high} ({}, within this run)", glued(&percent(level)))
        }
        _ if summary.n < VALUES_MIN => format!("none below {VALUES_MIN} values"),
        _ => "none: the values depend on each other".to_owned(),
    }
}

/// Whether a number without an interval lies within what was predicted.
fn inside(record: &Record) -> Option<bool> {
    let value = record.summary.as_ref()?;
    let prediction = record.prediction.as_ref()?;
    let low = prediction.low.is_none_or(|low| value.median >= low);
    let high = prediction.high.is_none_or(|high| value.median <= high);
    value.ci95.is_none().then_some(low && high)
}
