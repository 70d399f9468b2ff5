//! The account of one record: how its number came about, and how its prediction did.

use fathom_record::{Agreement, Prediction, Record, Summary};

use crate::counters::counters;
use crate::quantity::{at_most, percent, quantity, range};
use crate::remarks::meaning;
use crate::table::case;
use crate::wrap::wrapped;

/// A text wrapped to `width`, its first line after `first` and its others after `further`.
pub fn paragraph(text: &str, width: usize, first: &str, further: &str) -> String {
    wrapped(text, width, first, further)
}

/// What a record says of itself, in some indented lines.
pub fn account(record: &Record, width: usize) -> String {
    let mut text = String::new();
    let mut say = |line: String| text += &wrapped(&line, width, "    ", "      ");
    if let Some(summary) = record.summary.as_ref().filter(|_| record.verdict.shows_number()) {
        say(format!("measured {}", measured(record, summary)));
    }
    for reason in &record.verdict.reasons {
        say(format!("{}: {}", record.verdict.state.word(), reason.text));
    }
    if let Some(prediction) = &record.prediction {
        say(format!("predicted {}", predicted(record, prediction)));
        say(format!("formula: {}", prediction.formula));
        for input in &prediction.inputs {
            say(format!("  {} = {} ({})", input.name, plain(input.value), input.origin));
        }
        say(format!("source: {}", prediction.source));
        if let Some(meaning) = meaning(record) {
            say(format!("differs: {meaning}"));
        }
    }
    if let Some(none) = &record.no_model {
        say(format!("no model: {}", none.0));
    }
    match counters(record) {
        told if told.is_empty() => {}
        told => say(format!("counters: {told}")),
    }
    record.notes.iter().for_each(|note| say(note.clone()));
    for (name, count) in &record.checks {
        say(format!("checked {name}: {count}"));
    }
    let label = match record.params.is_empty() {
        true => record.metric.to_string(),
        false => case(&record.params),
    };
    wrapped(&label, width, "  ", "    ") + &text
}

fn measured(record: &Record, summary: &Summary) -> String {
    if let Some(bound) = summary.bound {
        return at_most(bound, record.unit);
    }
    let mut text = quantity(summary.median, record.unit);
    if let Some([low, high]) = summary.ci95 {
        let level =
            summary.ci_level.map_or_else(String::new, |level| format!(" {}", percent(level)));
        let [low, high] = [low, high].map(|end| quantity(end, record.unit));
        text += &format!(", interval {low} to {high} ({})", level.trim());
    }
    text += &format!("; {} values of {} processes", summary.n, summary.processes);
    text += &format!(
        "; spread {} within a process, {} between",
        percent(summary.spread_within),
        percent(summary.spread_between)
    );
    text
}

fn predicted(record: &Record, prediction: &Prediction) -> String {
    let limits = range(prediction.low, prediction.high, record.unit);
    let terms = match (prediction.hardware, prediction.software) {
        (Some(hardware), Some(software)) => {
            let [hardware, software] = [hardware, software].map(|term| quantity(term, record.unit));
            format!(" = {hardware} of hardware + {software} of software")
        }
        _ => String::new(),
    };
    let word = match record.agreement {
        Some(Agreement::Agrees) => ": the measured interval lies wholly inside",
        Some(Agreement::Differs) => ": the measured interval lies wholly outside",
        Some(Agreement::Undecided) => {
            ": the measured interval lies across a limit, or there is none"
        }
        None => "",
    };
    let limit = prediction.limit_interval.map_or_else(String::new, |[low, high]| {
        let [low, high] = [low, high].map(|end| quantity(end, record.unit));
        format!(" (a limit that itself lies between {low} and {high})")
    });
    format!("{limits}{limit}{terms}{word}")
}

/// A figure of any unit, with as many digits as it needs.
fn plain(value: f64) -> String {
    let digits = if value.abs() >= 1000.0 { 0 } else { 4 };
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_keep_the_digits_they_need() {
        let texts = [130.0, 0.25, 3_594_000_000.4, 1e-9].map(plain);
        assert_eq!(texts, ["130", "0.25", "3594000000", "0"].map(str::to_owned));
    }
}
