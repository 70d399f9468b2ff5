//! A whole measurement report: introduction, machine, method, then of each group of metrics what
//! was timed, what was predicted, what was measured and what that means; the classic table;
//! conclusion; sources; an appendix with every case, every fact, and how to repeat it.
//!
//! All text is from the descriptions of the metrics and from the records: nothing is said of what
//! was not measured.

mod block;
mod chapter;
mod chapters;
mod comparisons;
mod curves;
mod discussion;
mod figure;
mod machine;
mod names;
mod order;
mod study;

use std::collections::BTreeSet;

use fathom_analysis::reference::{Beside, Here, ReferenceRow};
use fathom_record::quantity::{NOTHING, quantity, range, rounded};
use fathom_record::{Document, Protocol, Record, shell_word};

pub use self::block::Paper;
use self::block::{Block, PaperTable};
use self::comparisons::comparisons;
use crate::answer::Answer;
use crate::case::counted;
use crate::closing::Closing;
use crate::column::Column;
use crate::distinct::distinct;
use crate::findings::{outside, unusual};
use crate::opening::minute;
use crate::overview;
use crate::reference::here_mark;

/// What a metric times: the same words as `fathom explain` prints.
#[derive(Clone, Copy, Debug)]
pub struct Described {
    pub title: &'static str,
    pub timed: &'static str,
    pub not_timed: &'static str,
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
    blocks.extend(introduction(first, documents));
    blocks.extend(machine::chapter(first));
    blocks.extend(method(first));
    blocks.extend(order::chapters(documents, describe, &mut sources));
    blocks.extend(classic_table(classic));
    blocks.extend(conclusion(first, documents));
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

/// The answer, and the best-known numbers.
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
        let sentences = Answer::from_document(run, &[]).verdict.into_iter();
        let counts = Closing::from_document(run).counts;
        sentences.chain([counts]).collect::<Vec<String>>().join(" ")
    };
    match documents {
        [_] => blocks.push(text(answer(first))),
        several => {
            let named = |run: &Document| format!("{}: {}", run.run.name(), answer(run));
            blocks.push(Block::List(several.iter().map(named).collect()));
            blocks.push(text(format!("What follows here is of {}.", first.run.name())));
        }
    }
    let headlines = overview::headlines(&first.records);
    if !headlines.is_empty() {
        let caption = "the best-known numbers".to_owned();
        let mut table = chapter::table(&headlines, caption, first.run.protocol);
        table.columns.retain(|it| !["hardware", "from other results"].contains(&&*it.title));
        blocks.push(Block::Table(table));
    }
    blocks
}

/// What is asked of which machine, and how the text answers it.
fn introduction(first: &Document, documents: &[Document]) -> Vec<Block> {
    let machine = crate::opening::machine(&first.host);
    let question = "What does each operation of this machine cost, from a function call to a block \
                    of a file; does that follow from documented constants of its hardware or from \
                    simpler operations; and which of its numbers are unusual?";
    let records = || documents.iter().flat_map(|it| &it.records);
    let metrics: BTreeSet<&str> = records().map(|it| it.metric.as_str()).collect();
    let amount = |count, noun| counted(count, noun);
    let cases = amount(records().count(), "case");
    let order = format!(
        "{cases} of {} answer this. Each prediction was fixed before its measurement, and is kept \
         with it. A chapter has what was timed, what was predicted and from what, the result, and \
         what that means beside other results; a summary and a conclusion follow.",
        amount(metrics.len(), "metric")
    );
    vec![heading(2, "Introduction"), text(format!("{machine}. {question}")), text(order)]
}

/// What the results show, from the records: how the operations compare, what is not as predicted or
/// unusual, and what not to rely on.
fn conclusion(first: &Document, documents: &[Document]) -> Vec<Block> {
    let records: Vec<&Record> = first.records.iter().collect();
    let Closing { mut findings, verdict, .. } = Closing::from_document(first);
    let far = outside(first, 8);
    let of_run = |run: &Document| comparisons(&Vec::from_iter(&run.records), &run.records);
    let compared = distinct(documents.iter().flat_map(of_run));
    // Said once.
    let name = |text: &str| text.split(' ').next().map(str::to_owned);
    findings.retain(|it| !far.iter().any(|other| name(it) == name(other)));
    let (beside, rare) = unusual(&first.records, 8);
    let beside = beside.unwrap_or_else(|| "beside published machines".to_owned());
    let lists = [
        ("The operations beside each other".to_owned(), compared),
        ("Outside their predictions".to_owned(), far),
        (format!("Unusual {beside}"), rare),
        ("Most remarkable".to_owned(), findings),
        ("To be careful with".to_owned(), verdict.into_iter().collect()),
    ];
    let mut blocks: Vec<Block> = discussion::counts(&records).into_iter().map(text).collect();
    for (title, items) in lists.into_iter().filter(|it| !it.1.is_empty()) {
        blocks.extend([text(format!("{title}:")), Block::List(items)]);
    }
    if !blocks.is_empty() {
        blocks.insert(0, heading(2, "Conclusion"));
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
        "A prediction is a value or a bound: from documented constants and facts of the machine \
         (hardware), or from other results of this report. A number is within it (or meets a \
         bound) if its whole interval is, outside it (or violates a bound) if none of it is, and \
         else inconclusive. It is noisy (marked ~) if its interval is wider than its metric \
         allows, or a counter shows what disturbed it; numbers marked ° are over all processes, \
         in any state of the core.",
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
        let Here { hardware, from_results, predicted: [low, high], measured, sd_percent, .. } =
            here;
        let predicted = match (low, high) {
            (None, None) => NOTHING.to_owned(),
            _ => range(*low, *high, unit),
        };
        let measured = format!("{}{}", here_mark(here), quantity(*measured, unit));
        let sd = sd_percent.map_or(NOTHING.to_owned(), |sd| format!("{} %", rounded(sd, 2)));
        let name =
            row.published.operation.clone().unwrap_or_else(|| row.published.metric.to_string());
        Some([name, known(*hardware), known(*from_results), predicted, measured, sd])
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
    let numbers = ["hardware", "from other results", "predicted", "measured", "sd"];
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
struct Sources(Vec<String>);

impl Sources {
    /// ` [3]`; nothing without a source.
    fn number(&mut self, source: &str) -> String {
        if source.is_empty() {
            return String::new();
        }
        let at = self.0.iter().position(|known| *known == source).unwrap_or_else(|| {
            self.0.push(source.to_owned());
            self.0.len() - 1
        });
        format!(" [{}]", at + 1)
    }

    fn chapter(&self) -> Vec<Block> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let line = |(at, source): (usize, &String)| format!("[{}] {source}", at + 1);
        vec![heading(2, "References"), Block::List(self.0.iter().enumerate().map(line).collect())]
    }
}
