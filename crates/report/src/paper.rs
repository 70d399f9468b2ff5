//! A whole measurement report: machine, method, then of each group of metrics what was timed, what
//! was predicted, what was measured and what that means; the classic table; sources; an appendix
//! with every case, every fact, and how to repeat it.
//!
//! All text is from the descriptions of the metrics and from the records: nothing is said of what
//! was not measured.

mod block;
mod chapter;
mod chapters;
mod curves;
mod discussion;
mod figure;
mod machine;
mod names;
mod order;
mod study;

use fathom_analysis::reference::{Beside, Here, ReferenceRow};
use fathom_record::quantity::{NOTHING, quantity, range, rounded};
use fathom_record::{Document, Protocol, shell_word};

pub use self::block::Paper;
use self::block::{Block, PaperTable};
use crate::case::counted;
use crate::closing::Closing;
use crate::column::Column;
use crate::findings::{outside, unusual};
use crate::opening::minute;
use crate::reference::here_mark;
use crate::{by_hand, overview};

/// How a metric is described: the same words as `fathom explain` prints.
#[derive(Clone, Copy, Debug)]
pub struct Described {
    pub title: &'static str,
    pub timed: &'static str,
    pub not_timed: &'static str,
    pub model: &'static str,
    pub source: &'static str,
    pub is_derived: bool,
}

/// The description of a metric by its id; `None` for one that another program measured.
pub type Describe<'a> = &'a dyn Fn(&str) -> Option<Described>;

/// The form of a paper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PaperForm {
    /// Figures are files of this folder.
    Markdown {
        folder: String,
    },
    Html,
}

/// What marks a file as a paper that may be replaced.
pub const MARKS: [&str; 3] = [block::HTML_MARK, "# Measurement report", figure::MARK];

/// The paper of these runs, of which the first gives the machine. `classic` has the rows of the
/// classic table.
#[must_use]
pub fn paper(
    documents: &[Document],
    classic: &Beside,
    describe: Describe<'_>,
    form: &PaperForm,
) -> Paper {
    let blocks = blocks(documents, classic, describe);
    match form {
        PaperForm::Markdown { folder } => block::to_markdown(&blocks, folder),
        PaperForm::Html => {
            let host = documents.first().map_or("", |first| first.host.shown_name());
            block::to_html(&format!("Measurement report: {host}"), &blocks)
        }
    }
}

fn blocks(documents: &[Document], classic: &Beside, describe: Describe<'_>) -> Vec<Block> {
    let Some(first) = documents.first() else { return Vec::new() };
    let mut sources = Sources::default();
    let mut blocks = opening(first, documents);
    blocks.extend(machine::chapter(&first.host));
    blocks.extend(method(first));
    blocks.extend(order::chapters(documents, describe, &mut sources));
    blocks.extend(classic_table(classic));
    blocks.extend(sources.chapter());
    for document in documents {
        blocks.extend(chapter::appendix(document));
    }
    blocks.extend(machine::facts(&first.host));
    blocks.push(heading(2, "Appendix: how to repeat it"));
    blocks.push(Block::List(documents.iter().map(repeat).collect()));
    blocks
}

fn heading(level: usize, text: impl Into<String>) -> Block {
    Block::Heading(level, text.into())
}

fn text(text: impl Into<String>) -> Block {
    Block::Text(text.into())
}

/// The answer: counts, what is outside its prediction, what is unusual, what to ignore.
fn opening(first: &Document, documents: &[Document]) -> Vec<Block> {
    let mut blocks = vec![heading(1, format!("Measurement report: {}", first.host.shown_name()))];
    let of = |run: &Document| {
        let by = format!("{} {}", run.tool.name, run.tool.version);
        let what = run.run.procedure.as_ref().map_or(String::new(), |it| format!(" (`{it}`)"));
        format!(
            "{}{what}, {}, {} UTC, by {by}",
            run.run.name(),
            run.run.effort.word(),
            minute(&run.run.started)
        )
    };
    let runs: Vec<String> = documents.iter().map(of).collect();
    blocks.push(text(format!(
        "{}: {}.",
        counted(runs.len(), "run").replacen("1 run", "Run", 1),
        runs.join("; ")
    )));
    let answer = |run: &Document| {
        let own = run.run.procedure.as_ref().map(|_| by_hand::answer(run).sentences);
        let own = own.unwrap_or_default();
        let Closing { progress, counts, verdict, .. } = Closing::from_document(run);
        let rest = [progress, Some(counts), verdict].into_iter().flatten();
        own.into_iter().chain(rest).collect::<Vec<String>>().join(" ")
    };
    match documents {
        [_] => blocks.push(text(answer(first))),
        several => {
            let named = |run: &Document| format!("{}: {}", run.run.name(), answer(run));
            blocks.push(Block::List(several.iter().map(named).collect()));
            blocks.push(text(format!("What follows here is of {}.", first.run.name())));
        }
    }
    let findings = Closing::from_document(first).findings;
    let far = outside(&first.records, 8);
    let rare = unusual(&first.records, 8);
    let lists = [
        ("Outside their predictions", far),
        ("Unusual for such a machine", rare),
        ("Most remarkable", findings),
    ];
    for (title, items) in lists {
        if !items.is_empty() {
            blocks.push(text(format!("{title}:")));
            blocks.push(Block::List(items));
        }
    }
    let headlines = overview::headlines(&first.records);
    if !headlines.is_empty() {
        let caption = "the best-known numbers".to_owned();
        let mut table = chapter::table(&headlines, caption, first.run.protocol);
        table.columns.retain(|it| !["hardware", "software", "sum"].contains(&&*it.title));
        blocks.push(Block::Table(table));
    }
    blocks
}

/// The clock, what measuring costs, how often, what is left out.
fn method(document: &Document) -> Vec<Block> {
    let run = &document.run;
    let mut blocks = vec![heading(2, "Method")];
    let clock = crate::opening::clock(run);
    blocks.push(text(format!("Clock: {clock}. CPU {}.", crate::opening::cpu(run, &document.host))));
    let protocol = match run.protocol {
        Protocol::Median => {
            "Each case is measured by several fresh processes in random order. The number is the \
             median over processes of their medians; the interval is by order statistics of these. \
             Where processes met different states of the core (to itself, shared, at a slower \
             clock: by a reference loop, never by values), all of the reported state count; no \
             value is left out for being large."
        }
        Protocol::Trimmed => {
            "Of each case the slowest and the fastest trials are left out; the number is the mean \
             of the others, with their standard deviation."
        }
    };
    // Commands by hand say in their own screen how often they measured.
    blocks.extend(run.procedure.is_none().then(|| text(protocol)));
    blocks.push(text(
        "A prediction is hardware + software, or a bound, from the facts of the machine and other \
         results. A number is within it (or meets a bound) if its whole interval is, outside it \
         (or violates a bound) if none of its interval is, and else inconclusive. It is noisy \
         (marked ~) if its interval is wider than its metric allows, or a counter shows what \
         disturbed it; numbers marked ° are over all processes, in any state of the core.",
    ));
    let whole = Closing::from_document(document).whole;
    blocks.extend((!whole.is_empty()).then(|| text(whole.join(" "))));
    blocks
}

/// The classic rows that were measured, and how many were not.
fn classic_table(beside: &Beside) -> Vec<Block> {
    let row = |row: &ReferenceRow| {
        let here = row.here.as_ref()?;
        let unit = row.published.unit;
        let known = |value: Option<f64>| value.map_or(NOTHING.to_owned(), |it| quantity(it, unit));
        let Here { hardware, software, predicted: [low, high], measured, sd_percent, .. } = here;
        let predicted = match (low, high) {
            (None, None) => NOTHING.to_owned(),
            _ => range(*low, *high, unit),
        };
        let measured = format!("{}{}", here_mark(here), quantity(*measured, unit));
        let sd = sd_percent.map_or(NOTHING.to_owned(), |sd| format!("{} %", rounded(sd, 2)));
        let name =
            row.published.operation.clone().unwrap_or_else(|| row.published.metric.to_string());
        Some([name, known(*hardware), known(*software), predicted, measured, sd])
    };
    let rows: Vec<[String; 6]> = beside.rows.iter().filter_map(row).collect();
    let missing = |row: &&ReferenceRow| row.here.is_none();
    let missing: Vec<String> = beside
        .rows
        .iter()
        .filter(missing)
        .filter_map(|row| {
            let operation = row.published.operation.as_ref()?;
            Some(format!("{operation} (`{}`)", row.published.metric))
        })
        .collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let caption = format!("{} of the {} classic operations", rows.len(), beside.rows.len());
    let numbers = ["hardware", "software", "predicted", "measured", "sd"];
    let column = |at: usize| rows.iter().map(move |row: &[String; 6]| row[at].clone());
    let numbers = numbers.into_iter().zip(1..).map(|(title, at)| Column::new(title, column(at)));
    let columns = [Column::words("operation", column(0))].into_iter().chain(numbers).collect();
    let table = PaperTable { caption, columns }.without_empty_columns();
    let mut blocks = vec![heading(2, "Summary"), Block::Table(table)];
    if !missing.is_empty() {
        blocks.push(text(format!("Not measured in these runs: {}.", missing.join(", "))));
    }
    blocks
}

/// The command of a run.
fn repeat(document: &Document) -> String {
    let run = &document.run;
    let command = match &run.procedure {
        // What was asked begins with the command.
        Some(name) if run.asked.is_empty() => format!("fathom {name}"),
        Some(_) => format!("fathom {}", run.asked.join(" ")),
        None => {
            let effort = match run.effort.word() {
                "standard" => String::new(),
                word => format!(" --{word}"),
            };
            let asked: String = run.asked.iter().map(|it| format!(" {}", shell_word(it))).collect();
            format!("fathom run{effort} --seed {} --cpu {}{asked}", run.seed, run.cpu)
        }
    };
    let of = format!("{} {}", document.tool.name, document.tool.version);
    match run.procedure {
        Some(_) => format!("`{command}` with the options that its chapter shows, by {of}"),
        None => format!("`{command}` by {of}"),
    }
}

/// Sources by their numbers, in the order of the text.
#[derive(Default)]
struct Sources(Vec<&'static str>);

impl Sources {
    /// ` [3]`; nothing without a source.
    fn number(&mut self, source: &'static str) -> String {
        if source.is_empty() {
            return String::new();
        }
        let at = self.0.iter().position(|known| *known == source).unwrap_or_else(|| {
            self.0.push(source);
            self.0.len() - 1
        });
        format!(" [{}]", at + 1)
    }

    fn chapter(&self) -> Vec<Block> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let line = |(at, source): (usize, &&str)| format!("[{}] {source}", at + 1);
        vec![heading(2, "References"), Block::List(self.0.iter().enumerate().map(line).collect())]
    }
}
