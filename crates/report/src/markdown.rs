//! Tables in GitHub-flavoured Markdown.

use fathom_analysis::display_value::DisplayValue;
use fathom_record::quantity::{NOTHING, at_most, quantity, span_within};
use fathom_record::{Agreement, Document, Protocol, Record, State, Summary};

use crate::case::named;
use crate::cells::{self, met};
use crate::listing::started;
use crate::typical;
use crate::wrap::clean;

/// The text with Markdown's special characters escaped, on one line.
pub(crate) fn text(text: &str) -> String {
    let mut escaped = String::new();
    for letter in clean(text).chars() {
        if matches!(letter, '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '~' | '#') {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}

/// A table, and which of its columns are aligned to the right.
pub(crate) fn table(titles: &[String], right: &[bool], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let escaped = |cells: &[String]| cells.iter().map(|cell| text(cell)).collect::<Vec<_>>();
    let rule: Vec<String> =
        right.iter().map(|is_right| if *is_right { "---:" } else { "---" }.to_owned()).collect();
    let body: String = rows.iter().map(|row| line(&escaped(row))).collect();
    line(&escaped(titles)) + &line(&rule) + &body
}

/// Each run as a heading and a table of all its records.
pub fn documents(documents: &[Document]) -> String {
    documents.iter().map(document).collect::<Vec<String>>().join("\n")
}

fn document(document: &Document) -> String {
    let (run, host) = (&document.run, &document.host);
    let name = fathom_record::name(&run.id, run.label.as_deref());
    let about = format!(
        "{}, {}, kernel {}, {} UTC, {}",
        host.shown_name(),
        host.cpu.model,
        host.kernel,
        started(&run.started),
        run.effort.word()
    );
    let (value, spread) = match run.protocol {
        Protocol::Trimmed => ("trimmed mean", "standard deviation"),
        Protocol::Median => ("measured", "interval"),
    };
    let titles = ["case", value, spread, "predicted", "typical", "agreement", "verdict"];
    let mut titles = titles.map(str::to_owned).to_vec();
    let mut rows: Vec<Vec<String>> =
        document.records.iter().map(|record| row(record, document)).collect();
    if document.records.iter().all(|record| record.typical.is_none()) {
        titles.remove(TYPICAL);
        rows.iter_mut().for_each(|row| drop(row.remove(TYPICAL)));
    }
    let right: Vec<bool> = (0..titles.len()).map(|at| at > 0).collect();
    let table = table(&titles, &right, &rows);
    format!("## Run {}\n\n{}\n\n{table}", text(&name), text(&about))
}

/// The column of typical ranges.
const TYPICAL: usize = 4;

fn row(record: &Record, document: &Document) -> Vec<String> {
    let nothing = || NOTHING.to_owned();
    let mark = if record.verdict.state == State::Noisy { "~" } else { "" };
    let measured = match DisplayValue::of(record, document.run.protocol) {
        DisplayValue::Number(value) => format!("{mark}{}", quantity(value, record.unit)),
        DisplayValue::Edge([low, high]) => {
            format!("{mark}{}", span_within(low, high, record.unit, cells::LIMITS_WIDTH))
        }
        DisplayValue::Bound(bound) => format!("{mark}{}", at_most(bound, record.unit)),
        DisplayValue::Text(text) => format!("{mark}{text}"),
        DisplayValue::Withheld => nothing(),
    };
    let summary = record.summary.as_ref().filter(|one| one.bound.is_none());
    let summary = summary.filter(|_| record.verdict.shows_number());
    let limits = |summary: &Summary| {
        let [low, high] = summary.limits()?.map(|end| quantity(end, record.unit));
        Some(format!("{low} to {high}"))
    };
    let deviation = |summary: &Summary| {
        let trimmed = summary.trimmed.as_ref()?;
        Some(format!("± {}", quantity(trimmed.sd, record.unit)))
    };
    let interval = summary.and_then(|summary| match document.run.protocol {
        Protocol::Trimmed => deviation(summary),
        Protocol::Median => limits(summary),
    });
    let interval = interval.unwrap_or_else(nothing);
    let predicted = match record.prediction.as_ref().filter(|_| !record.is_loosely_bound()) {
        None => nothing(),
        Some(one) => cells::limits(record, one),
    };
    let typical = record.typical.as_ref();
    let typical =
        typical.map_or_else(nothing, |it| typical::range(record, it, cells::LIMITS_WIDTH));
    vec![
        named(&record.metric, &record.params),
        measured,
        interval,
        predicted,
        typical,
        match record.agreement.filter(|_| !record.is_loosely_bound()) {
            Some(Agreement::Met) => met(record),
            agreement => agreement.map_or_else(nothing, |it| it.word().to_owned()),
        },
        record.verdict.state.word().to_owned(),
    ]
}
