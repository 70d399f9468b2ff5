//! Tables in GitHub-flavoured Markdown.

use fathom_record::quantity::quantity;
use fathom_record::{Document, Protocol};

use crate::case::named;
use crate::column::{Column, ColumnSide, filled};
use crate::listing::started;
use crate::shown::{LIMITS_WIDTH, RecordText, ShownRecord, nothing, typical_range};
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

/// The table of these columns.
pub(crate) fn table(columns: &[Column]) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let titles = columns.iter().map(|column| text(&column.title)).collect();
    let rule =
        |column: &Column| if column.side == ColumnSide::Right { "---:" } else { "---" }.to_owned();
    let rows = 0..columns.first().map_or(0, |column| column.cell.len());
    let row = |at: usize| line(columns.iter().map(|column| text(&column.cell[at])).collect());
    let body: String = rows.map(row).collect();
    line(titles) + &line(columns.iter().map(rule).collect()) + &body
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
    let shown =
        document.records.iter().map(|record| ShownRecord::from_record(record, run.protocol));
    let mut columns = filled(&COLUMNS, &shown.collect::<Vec<_>>());
    if run.protocol == Protocol::Trimmed {
        columns[MEASURED].title = "trimmed mean".into();
        columns[INTERVAL].title = "standard deviation".into();
    }
    if document.records.iter().all(|record| record.typical.is_none()) {
        columns.remove(TYPICAL);
    }
    format!("## Run {}\n\n{}\n\n{}", text(&name), text(&about), table(&columns))
}

const MEASURED: usize = 1;
const INTERVAL: usize = 2;
const TYPICAL: usize = 4;

static COLUMNS: [Column<RecordText>; 7] = [
    Column::left("case", &[], |it| named(&it.record.metric, &it.record.params)),
    Column::right("measured", &[], |it| it.unrounded()),
    Column::right("interval", &[], |it| {
        let words = |value| quantity(value, it.record.unit);
        let deviation = || Some(words(it.unbounded()?.trimmed.as_ref()?.sd));
        let interval = match it.protocol {
            Protocol::Trimmed => deviation().map(|sd| format!("± {sd}")),
            Protocol::Median => it.interval().map(|ends| ends.map(words).join(" to ")),
        };
        interval.unwrap_or_else(nothing)
    }),
    Column::right("predicted", &[], |it| match &it.record.prediction {
        Some(_) => it.expected(LIMITS_WIDTH).0,
        None => nothing(),
    }),
    Column::right("typical", &[], |it| {
        typical_range(it.record, LIMITS_WIDTH).unwrap_or_else(nothing)
    }),
    Column::right("agreement", &[], |it| it.agreement().unwrap_or_else(nothing)),
    Column::right("verdict", &[], |it| it.record.verdict.state.word().to_owned()),
];
